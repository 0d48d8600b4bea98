// Rows 11 and 32: eager mode and each kind of capture agree, on each device.
#include "capability.h"

#include "grad/registry.h"
#include "ops/elementwise.h"
#include "tensor/apply.h"

// --- 32: AUTO never fails where eager mode succeeds, and gives the same

static kiln_status value_loop(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = in[0];
    while (kiln_item(kiln_max(out[0], NULL)) < 100) out[0] = kiln_add(kiln_mul(out[0], kiln_scalar(2)), in[1]);
    return kiln_error();
}

static kiln_status host_detour(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    float v[4];
    kiln_tensor *y = kiln_exp(kiln_neg(kiln_abs(in[0])));
    if (kiln_read(kiln_transpose(y, 0, 1), v, sizeof v)) return kiln_error();
    for (int i = 0; i < 2; i++) v[i] += v[3 - i];
    kiln_tensor *back = kiln_from_data(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(4), v);
    out[0] = kiln_add(kiln_reshape(back, KILN_SHAPE(2, 2)), y);
    return kiln_error();
}

static kiln_status data_shapes(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *mask = kiln_greater(in[0], kiln_scalar(0)), *values = NULL, *counts = NULL;
    kiln_unique(kiln_round(in[1]), &values, NULL, &counts);
    kiln_tensor *sums[] = {kiln_sum(kiln_masked_select(in[0], mask), NULL),
                           kiln_sum(kiln_cast(kiln_nonzero(mask), KILN_F32), NULL),
                           kiln_sum(kiln_mul(values, kiln_cast(counts, KILN_F32)), NULL)};
    out[0] = kiln_stack(sums, 3, 0);
    return kiln_error();
}

static kiln_status writes_views(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_contiguous(kiln_transpose(in[0], 0, 1)), *row = kiln_select(y, 0, 1);
    kiln_add_(row, kiln_scalar(10));
    double seen = kiln_item(kiln_sum(y, NULL));
    kiln_assign(kiln_select(y, 1, 0), kiln_scalar(seen));
    out[0] = kiln_add(kiln_reshape(y, KILN_SHAPE(-1)), kiln_mul(kiln_sum(row, NULL), kiln_scalar(1)));
    return kiln_error();
}

static kiln_status handles_error(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *y = kiln_matmul(in[0], kiln_reshape(in[1], KILN_SHAPE(4, 1))); // no such product
    bool failed = y == NULL && kiln_error() == KILN_E_SHAPE;
    kiln_error_clear();
    out[0] = kiln_keep(failed ? kiln_matmul(in[0], in[1]) : kiln_neg(in[0]));
    kiln_scope_end(&scope);
    return kiln_error();
}

static kiln_status differentiates(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *w = kiln_parameter(kiln_add(in[0], in[1]), "w"), *y = kiln_tanh(w);
    kiln_tensor *loss = kiln_item(kiln_sum(y, NULL)) > 0 ? kiln_sum(kiln_square(y), NULL) : kiln_mean(y, NULL);
    kiln_backward(loss, NULL);
    out[0] = kiln_alias(kiln_gradient(w));
    return kiln_error();
}

static kiln_status reseeds(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_device *dev = kiln_tensor_device(in[0]);
    kiln_seed(dev, 5);
    kiln_tensor *a = kiln_uniform(dev, KILN_F32, KILN_SHAPE(2, 2), 0, 1);
    kiln_seed(dev, 6);
    out[0] = kiln_add(kiln_mul(a, in[0]), kiln_normal(dev, KILN_F32, KILN_SHAPE(2, 2), 0, 1));
    return kiln_error();
}

static kiln_status other_device(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *there = kiln_to_device(kiln_mul(in[0], kiln_scalar(3)), cpu());
    kiln_tensor *back = kiln_to_device(kiln_sub(there, kiln_scalar(1)), kiln_tensor_device(in[0]));
    out[0] = kiln_matmul(back, in[1]);
    return kiln_error();
}

static kiln_status grows(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    int *calls = user;
    out[0] = kiln_full(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(2, 2), 0);
    for (int i = 0; i <= *calls; i++) out[0] = kiln_add(kiln_mul(out[0], in[0]), in[1]);
    ++*calls;
    return kiln_error();
}

static kiln_status any_results(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    KILN_CAPTURE(NULL) out[0] = kiln_keep(kiln_narrow(kiln_neg(in[0]), 0, 0, 0)); // no element
    if (kiln_numel(out[0]) == 0) out[0] = kiln_transpose(in[1], 0, 1);            // the input's own memory
    return kiln_error();
}

static void never_fails(kiln_device *dev)
{
    static const struct {
        const char *name;
        kiln_fn fn;
    } rows[] = {{"value_loop", value_loop},     {"host_detour", host_detour},     {"data_shapes", data_shapes},
                {"writes_views", writes_views}, {"handles_error", handles_error}, {"differentiates", differentiates},
                {"reseeds", reseeds},           {"other_device", other_device},   {"grows", grows},
                {"any_results", any_results}};
    kiln_tensor *a = from(dev, NUMBERS(1, -2, 3, 4), KILN_SHAPE(2, 2));
    kiln_tensor *b = from(dev, NUMBERS(0.5, 2, 2, -0.25), KILN_SHAPE(2, 2));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int eager_calls = 0, calls = 0;
        kiln_function *f = kiln_jit(rows[i].fn, &calls, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
        for (int k = 0; k < 4; k++) {
            kiln_tensor *in[] = {k % 2 ? b : a, k % 2 ? a : b}, *want = NULL, *got = NULL;
            if (rows[i].fn(&eager_calls, in, 2, &want, 1)) fail_msg("%s: %s", rows[i].name, kiln_error_message());
            if (kiln_call(f, in, 2, &got, 1)) fail_msg("%s: %s", rows[i].name, kiln_error_message());
            expect_same(got, want, rows[i].name);
        }
        assert_int_equal(jit_stats_of(f).calls, 4);
        assert_int_equal(jit_stats_of(f).fallbacks, 0);
        kiln_function_free(&f);
    }
}

void capability_32(void **state)
{
    on_each_device(never_fails);
}

// --- 11: every elementwise row, structured ops of every family, and networks: eager, STRICT, AUTO, TRACE, graph mode

enum { OUTPUTS = 8 };
static const char *const ways[] = {"STRICT", "AUTO", "TRACE"};
static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE};

// A function of the inputs x, y, mask and index, with OUTPUTS results at most.
struct subject {
    const char *name;
    kiln_fn fn;
    size_t n_out;
    const struct op *rows[OUTPUTS];
};

static void make_inputs(kiln_device *dev, kiln_tensor **in)
{
    const uint8_t mask[] = {1, 0, 0, 1, 1, 0};
    const int64_t index[] = {2, 0, 1, 1, 0, 2};
    in[0] = from(dev, NUMBERS(0.25, 0.5, 0.9, 0.125, 0.625, 0.75), KILN_SHAPE(2, 3));
    in[1] = from(dev, NUMBERS(0.5, 0.25, 0.3, 0.8, 0.625, 0.1), KILN_SHAPE(2, 3));
    in[2] = kiln_from_data(dev, KILN_BOOL, KILN_SHAPE(2, 3), mask);
    in[3] = kiln_from_data(dev, KILN_I64, KILN_SHAPE(2, 3), index);
}

static kiln_status apply_rows(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct subject *s = user;
    for (size_t i = 0; i < n_out; i++) {
        const struct op *op = s->rows[i];
        kiln_tensor *args[ELEMENTWISE_MAX_IN];
        struct attr attrs[ELEMENTWISE_MAX_PARAMS];
        int type = op->elementwise->type;
        bool integers = type == TYPE_BITWISE || type == TYPE_INTEGER;
        for (int k = 0; k < op->min_in; k++)
            args[k] = op->elementwise->condition_mask >> k & 1 ? in[2] : integers ? in[3] : in[k % 2];
        for (int k = 0; k < op->n_attrs; k++) attrs[k] = attr_of_float(0.5);
        if (op_apply(op, kiln_tensor_device(in[0]), op->min_in, args, attrs, &out[i])) break;
    }
    return kiln_error();
}

static kiln_status reduce(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(in[0], NULL);
    out[1] = kiln_mean(in[1], KILN_REDUCE(.axes = KILN_AXES(0)));
    out[2] = kiln_max(in[0], KILN_REDUCE(.axes = KILN_AXES(1), .keepdims = true));
    out[3] = kiln_argmax(in[1], KILN_REDUCE(.axes = KILN_AXES(1)));
    out[4] = kiln_var(in[0], NULL);
    out[5] = kiln_logsumexp(in[0], KILN_REDUCE(.axes = KILN_AXES(-1)));
    out[6] = kiln_any(in[2], KILN_REDUCE(.axes = KILN_AXES(0)));
    out[7] = kiln_norm(in[1], NULL);
    return kiln_error();
}

static kiln_status move(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_contiguous(kiln_flip(in[0], KILN_SHAPE(1)));
    out[1] = kiln_concat(in, 2, 0);
    out[2] = kiln_pad(in[0], KILN_PAD(.before = KILN_ARGS(1, 1), .after = KILN_ARGS(1, 0)));
    out[3] = kiln_tile(kiln_transpose(in[0], 0, 1), KILN_SHAPE(2, 1));
    out[4] = kiln_roll(in[1], KILN_SHAPE(1), KILN_SHAPE(0));
    out[5] = kiln_triu(in[0], 1);
    out[6] = kiln_stack(in, 2, 1);
    out[7] = kiln_cast(kiln_mul(in[0], kiln_scalar(64)), KILN_I8); // a power of two: exact before the cast
    return kiln_error();
}

static kiln_status pick(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *column = kiln_select(in[3], 0, 0);
    out[0] = kiln_gather(in[0], 1, in[3]);
    out[1] = kiln_take(in[0], 1, column);
    out[2] = kiln_scatter_add(in[0], 1, in[3], in[1]);
    out[3] = kiln_one_hot(column, 4);
    out[4] = kiln_embedding(kiln_transpose(in[0], 0, 1), in[3]);
    out[5] = kiln_cumsum(in[0], 1);
    out[6] = kiln_argsort(in[1], 1, true);
    out[7] = kiln_uniform(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(5), 0, 1);
    return kiln_error();
}

static kiln_status combine(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *t = kiln_transpose(in[1], 0, 1), *image = kiln_reshape(kiln_concat(in, 2, 0), KILN_SHAPE(1, 1, 4, 3));
    out[0] = kiln_matmul(in[0], t);
    out[1] = kiln_softmax(in[0], 1);
    out[2] = kiln_layer_norm(in[0], 1, NULL);
    out[3] = kiln_gelu(kiln_add(kiln_matmul(in[0], t), kiln_scalar(1)));
    out[4] = kiln_conv2d(image, kiln_reshape(in[0], KILN_SHAPE(1, 1, 2, 3)), NULL);
    out[5] = kiln_max_pool2d(image, KILN_POOL2D(.kernel = {2, 2}));
    out[6] = kiln_matmul(kiln_softmax(kiln_matmul(in[0], t), -1), in[1]);
    out[7] = kiln_log_softmax(kiln_where(in[2], in[0], in[1]), 0);
    return kiln_error();
}

// What a fresh function of this capture gives at its first and at its second call.
static void compare_captures(kiln_device *dev, struct subject *s, kiln_tensor *const *want)
{
    kiln_tensor *in[4], *out[OUTPUTS];
    char what[96];
    make_inputs(dev, in);
    for (int way = -1; way < 3; way++) {
        kiln_function *f = way < 0 ? NULL : kiln_jit(s->fn, s, KILN_JIT(.capture = captures[way]));
        for (int call = 0; call < (f ? 2 : 1); call++) {
            snprintf(what, sizeof what, "%s, %s, call %d", s->name, f ? ways[way] : "eager", call + 1);
            kiln_seed(dev, 7);
            kiln_status status = f ? kiln_call(f, in, 4, out, s->n_out) : s->fn(s, in, 4, out, s->n_out);
            if (status) fail_msg("%s: %s", what, kiln_error_message());
            for (size_t i = 0; i < s->n_out; i++) expect_same(kiln_to_device(out[i], cpu()), want[i], what);
        }
        if (f) assert_int_equal(jit_stats_of(f).captures, 1);
        kiln_function_free(&f);
    }
}

static void compare_devices(kiln_device *unused, struct subject *s)
{
    kiln_device *list[] = {cpu(), vulkan()};
    kiln_tensor *in[4], *want[OUTPUTS];
    kiln_scope *scope = kiln_scope_begin();
    make_inputs(cpu(), in);
    must(kiln_seed(cpu(), 7));
    if (s->fn(s, in, 4, want, s->n_out)) fail_msg("%s: %s", s->name, kiln_error_message());
    for (int i = 0; i < 2; i++)
        if (list[i]) compare_captures(list[i], s, want);
    kiln_scope_end(&scope);
}

// Every elementwise row, OUTPUTS at a time, then structured ops of every family. Returns how many rows there are.
static int for_each_subject(kiln_device *dev, void (*fn)(kiln_device *dev, struct subject *s))
{
    struct subject structured[] = {{.name = "reductions", .fn = reduce, .n_out = 8},
                                   {.name = "movement", .fn = move, .n_out = 8},
                                   {.name = "indices", .fn = pick, .n_out = 8},
                                   {.name = "products and norms", .fn = combine, .n_out = 8}};
    struct subject s = {.name = "rows", .fn = apply_rows};
    int rows = 0;
    for (int i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        bool taken = op->elementwise && !strchr(op->name, '.');
        if (taken) s.rows[s.n_out++] = op;
        if (taken && s.n_out == 1) s.name = op->name;
        rows += taken;
        if (s.n_out < OUTPUTS && i + 1 < op_count) continue;
        if (s.n_out) fn(dev, &s);
        s.n_out = 0;
    }
    for (size_t i = 0; i < sizeof structured / sizeof *structured; i++) fn(dev, &structured[i]);
    return rows;
}

// A network in training: convolution, normalisation, dropout; loss, gradients and update are one function.
struct training {
    kiln_cell *net;
    kiln_optim *adam;
};

static kiln_status train(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct training *t = user;
    kiln_optim_zero_grad(t->adam);
    out[0] = kiln_cross_entropy(kiln_cell_call(t->net, in[0]), in[1], NULL);
    kiln_backward(out[0], NULL);
    return kiln_optim_step(t->adam);
}

static void training_init(struct training *t, kiln_device *dev)
{
    kiln_tensor *params[16];
    must(kiln_seed(dev, 3));
    t->net = kiln_nn_sequential(KILN_CELLS(kiln_nn_conv2d(dev, 1, 3, 3, KILN_NN_CONV2D(.bias = true)),
                                           kiln_nn_batch_norm2d(dev, 3, NULL), kiln_nn_relu(),
                                           kiln_nn_max_pool2d(KILN_POOL2D(.kernel = {2, 2})), kiln_nn_flatten(),
                                           kiln_nn_dropout(0.25), kiln_nn_dense(dev, 12, 4, NULL)));
    kiln_cell_set_training(t->net, true);
    size_t n = kiln_cell_parameters(t->net, params, 16);
    t->adam = kiln_optim_adam(params, n, KILN_ADAM(.lr = 0.01));
}

enum { STEPS = 4 };

// way 3: the thread in graph mode; -1: eager.
static void losses_of(kiln_device *dev, int way, double *losses)
{
    struct training t;
    kiln_scope *scope = kiln_scope_begin();
    training_init(&t, dev);
    kiln_tensor *in[] = {kiln_normal(dev, KILN_F32, KILN_SHAPE(8, 1, 6, 6), 0, 1),
                         kiln_randint(dev, KILN_I64, KILN_SHAPE(8), 0, 4)};
    bool captured = way >= 0 && way < 3;
    kiln_function *f = captured ? kiln_jit(train, &t, KILN_JIT(.capture = captures[way])) : NULL;
    must(kiln_set_mode(way == 3 ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
    for (int i = 0; i < STEPS; i++) {
        kiln_tensor *loss = NULL;
        must(f ? kiln_call(f, in, 2, &loss, 1) : train(&t, in, 2, &loss, 1));
        losses[i] = kiln_item(loss);
    }
    must(kiln_set_mode(KILN_MODE_EAGER));
    kiln_function_free(&f);
    kiln_optim_free(&t.adam);
    kiln_cell_free(&t.net);
    kiln_scope_end(&scope);
}

static void compare_training(kiln_device *dev)
{
    double want[STEPS], got[STEPS];
    losses_of(cpu(), -1, want);
    assert_true(want[0] > want[STEPS - 1]); // it learns
    for (int way = -1; way < 4; way++) {
        losses_of(dev, way, got);
        for (int i = 0; i < STEPS; i++)
            if (!(fabs(got[i] - want[i]) <= 1e-4 * (1 + want[i])))
                fail_msg("way %d, step %d: loss %.9g, eagerly on the CPU %.9g", way, i, got[i], want[i]);
    }
}

// --- 11, fused: each of these between cheap ops, for each dtype, and its gradients

struct between {
    struct subject *s;
    bool gradients;
};

// By numbers that no dtype rounds, so that what fused kernels do not store is what eager mode stores.
static kiln_tensor *cheap(kiln_tensor *t, double factor)
{
    switch (kiln_tensor_dtype(t)) {
    case KILN_BOOL: return kiln_logical_not(t);
    case KILN_F16:
    case KILN_BF16:
    case KILN_F32:
    case KILN_F64: return kiln_mul(t, kiln_scalar(factor));
    default: return kiln_bitwise_xor(t, kiln_scalar_int(3)); // the indices 0, 1, 2 stay among 1, 2, 3
    }
}

static kiln_status between_cheap(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct between *b = user;
    kiln_tensor *near[4] = {cheap(in[0], 0.5), cheap(in[1], 0.5), cheap(in[2], 0),
                            kiln_sub(cheap(in[3], 0), kiln_scalar_int(1))};
    TRY(b->s->fn(b->s, near, 4, out, n_out));
    for (size_t i = 0; i < n_out; i++) out[i] = cheap(out[i], 2);
    return kiln_error();
}

static bool is_float(const kiln_tensor *t)
{
    kiln_dtype d = kiln_tensor_dtype(t);
    return d == KILN_F16 || d == KILN_BF16 || d == KILN_F32 || d == KILN_F64;
}

static bool has_gradient(const struct subject *s, size_t i)
{
    const struct op *op = s->rows[i];
    return !op || op->flags & OP_ZERO_GRAD || grad_rule_of(op);
}

static kiln_status weighted_sum(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct between *b = user;
    kiln_tensor *all[OUTPUTS];
    TRY(between_cheap(user, in, n_in, all, b->s->n_out));
    out[0] = kiln_mul(kiln_sum(kiln_add(in[0], in[1]), NULL), kiln_scalar(0)); // so that both are reached
    for (size_t i = 0; i < b->s->n_out; i++)
        if (is_float(all[i]) && has_gradient(b->s, i))
            out[0] = kiln_add(out[0], kiln_mul(kiln_sum(all[i], NULL), kiln_scalar((double)i + 1)));
    return kiln_error();
}

static kiln_status between_of(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct between *b = user;
    if (!b->gradients) return between_cheap(user, in, n_in, out, n_out);
    return kiln_grad(weighted_sum, user, in, n_in, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), out, n_out);
}

static void expect_near(kiln_tensor *got, kiln_tensor *want, double tolerance, const char *what)
{
    double a[256], b[256];
    if (!got || !want || kiln_error()) fail_msg("%s: %s", what, kiln_error_message());
    int64_t n = kiln_numel(want);
    if (kiln_numel(got) != n || kiln_tensor_dtype(got) != kiln_tensor_dtype(want)) fail_msg("%s: another type", what);
    must(kiln_read(kiln_cast(got, KILN_F64), a, sizeof *a * (size_t)n));
    must(kiln_read(kiln_cast(want, KILN_F64), b, sizeof *b * (size_t)n));
    for (int64_t i = 0; i < n; i++)
        if (!(a[i] == b[i] || (isnan(a[i]) && isnan(b[i])) || fabs(a[i] - b[i]) <= tolerance * (1 + fabs(b[i]))))
            fail_msg("%s: element %d is %.9g, eagerly %.9g", what, (int)i, a[i], b[i]);
}

static double tolerance_of(kiln_dtype d)
{
    return d == KILN_F64 ? 1e-9 : d == KILN_F32 ? 2e-5 : d == KILN_F16 ? 1e-2 : 6e-2;
}

static void compare_between(kiln_device *dev, struct between *b, kiln_dtype dtype)
{
    kiln_tensor *in[4], *want[OUTPUTS], *got[OUTPUTS];
    size_t n_out = b->gradients ? 2 : b->s->n_out;
    char what[96];
    make_inputs(dev, in);
    for (int i = 0; i < 2; i++) in[i] = kiln_cast(in[i], dtype);
    must(kiln_seed(dev, 7));
    if (between_of(b, in, 4, want, n_out)) fail_msg("%s: %s", b->s->name, kiln_error_message());
    for (int way = 0; way < 3; way++) {
        kiln_function *f = kiln_jit(between_of, b, KILN_JIT(.capture = captures[way]));
        for (int call = 0; call < 2; call++) {
            snprintf(what, sizeof what, "%s%s, %s, %s, call %d", b->s->name, b->gradients ? "'s gradients" : "",
                     kiln_dtype_name(dtype), ways[way], call + 1);
            must(kiln_seed(dev, 7));
            uint64_t launches = stats_of(dev).launches;
            if (kiln_call(f, in, 4, got, n_out)) fail_msg("%s: %s", what, kiln_error_message());
            launches = stats_of(dev).launches - launches;
            for (size_t i = 0; i < n_out; i++) expect_near(got[i], want[i], tolerance_of(dtype), what);
            // Eagerly 20 and more: each row, and the cheap ops around it.
            bool rows = b->s->fn == apply_rows && !b->gradients && dtype == KILN_F32 && call == 1;
            if (rows && fuses(dev) && launches > 4) fail_msg("%s: %d launches", what, (int)launches);
        }
        kiln_function_free(&f);
    }
}

static const kiln_dtype *wanted_dtypes;

static void compare_all_between(kiln_device *dev, struct subject *s)
{
    for (const kiln_dtype *d = wanted_dtypes; *d != KILN_BOOL; d++)
        for (int gradients = 0; gradients < 2; gradients++) {
            kiln_scope *scope = kiln_scope_begin();
            compare_between(dev, &(struct between){s, gradients}, *d);
            kiln_scope_end(&scope);
        }
}

static void compare_fused(kiln_device *dev)
{
    for_each_subject(dev, compare_all_between);
}

void capability_11_fused(void **state)
{
    wanted_dtypes = (const kiln_dtype[]){KILN_F32, KILN_BOOL};
    on_each_device(compare_fused);
}

// The other dtypes.
void capability_11_long(void **state)
{
    wanted_dtypes = (const kiln_dtype[]){KILN_F16, KILN_BF16, KILN_F64, KILN_BOOL};
    on_each_device(compare_fused);
}

void capability_11(void **state)
{
    assert_true(for_each_subject(NULL, compare_devices) >= 90);
    on_each_device(compare_training);
}
