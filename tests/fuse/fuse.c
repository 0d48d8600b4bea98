// Fusion: functions are recorded, fused, and their kernels interpreted point by point; values must be those of eager
// mode, and the number of launches what the design promises.
#include "fuse_fixture.h"

#define MAX_TENSORS 16

typedef void fn(kiln_tensor *const *in, kiln_tensor **out);

struct example {
    const char *name;
    fn *fn;
    size_t n_in, n_out;
    struct {
        size_t rank;
        int64_t dims[4];
        kiln_dtype dtype; // 0: f32
        bool transposed;
    } in[6];
    int launches; // -1: not promised
    int by_tiles; // where products are compiled, too; 0: as many
};

// --- functions ---

static kiln_tensor *scalar(double v)
{
    return kiln_scalar(v);
}

static void chain(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_relu(kiln_sub(kiln_mul(kiln_add(in[0], in[1]), in[2]), kiln_exp(in[0])));
}

static void broadcast(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_tanh(kiln_add(kiln_mul(in[0], in[1]), in[2]));
}

static void softmax_plain(kiln_tensor *const *in, kiln_tensor **out)
{
    const int64_t axis[] = {-1};
    const kiln_reduce_opts o = {.size = sizeof o, .axes = {1, axis}, .keepdims = true};
    kiln_tensor *e = kiln_exp(kiln_sub(in[0], kiln_max(in[0], &o)));
    out[0] = kiln_div(e, kiln_sum(e, &o));
}

static void softmax_op(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_mul(kiln_softmax(kiln_mul(in[0], scalar(0.5)), -1), in[0]);
}

static void rms_norm(kiln_tensor *const *in, kiln_tensor **out)
{
    const int64_t axis[] = {-1};
    const kiln_reduce_opts o = {.size = sizeof o, .axes = {1, axis}, .keepdims = true};
    kiln_tensor *ms = kiln_mean(kiln_square(in[0]), &o);
    out[0] = kiln_mul(kiln_mul(in[0], kiln_rsqrt(kiln_add(ms, scalar(1e-5)))), in[1]);
}

static void layer_norm(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_gelu(kiln_layer_norm(in[0], 1, KILN_LAYER_NORM(.weight = in[1], .bias = in[2])));
}

static void cross_entropy(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_cross_entropy(in[0], in[1], NULL);
}

static void sum_and_max(kiln_tensor *const *in, kiln_tensor **out)
{
    const int64_t axis[] = {1};
    const kiln_reduce_opts o = {.size = sizeof o, .axes = {1, axis}};
    out[0] = kiln_sum(in[0], &o);
    out[1] = kiln_max(in[0], &o);
}

static void reshaped(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *y = kiln_reshape(kiln_add(in[0], scalar(1)), KILN_SHAPE(6, 20));
    out[0] = kiln_mul(kiln_permute(kiln_reshape(kiln_exp(y), KILN_SHAPE(3, 2, 20)), KILN_AXES(2, 1, 0)), in[1]);
}

static void sliced(kiln_tensor *const *in, kiln_tensor **out)
{
    const int64_t start[] = {-1, 1}, stop[] = {KILN_END, 8}, step[] = {-2, 3};
    const kiln_slice_opts o = {.size = sizeof o, .start = {2, start}, .stop = {2, stop}, .step = {2, step}};
    out[0] = kiln_neg(kiln_slice(kiln_mul(in[0], in[0]), &o));
}

static void column_sum(kiln_tensor *const *in, kiln_tensor **out)
{
    const int64_t axis[] = {0};
    const kiln_reduce_opts o = {.size = sizeof o, .axes = {1, axis}};
    kiln_tensor *g = kiln_mul(in[0], kiln_sigmoid(in[1]));
    out[0] = g;
    out[1] = kiln_sum(g, &o);
}

static void mean_all(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_mean(kiln_square(kiln_sub(in[0], in[1])), NULL);
}

static void transposed_sum(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_add(kiln_transpose(in[0], 0, 1), in[1]);
}

static void narrow_types(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *wrapped = kiln_mul(in[0], in[0]); // i8 wraps
    out[0] = kiln_add(kiln_cast(wrapped, KILN_F32), in[1]);
    out[1] = kiln_cast(kiln_mul(in[1], scalar(100)), KILN_I8);
}

static void returns_input(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = in[0];
    out[1] = kiln_transpose(in[0], 0, 1);
    out[2] = out[3] = kiln_add(in[0], in[0]);
}

static kiln_status rms_loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    rms_norm(in, out);
    out[0] = kiln_sum(kiln_mul(out[0], in[2]), NULL);
    return kiln_error();
}

static void rms_norm_grad(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_grad(rms_loss, NULL, in, 3, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), out, 2);
}

static void mlp(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *h = kiln_gelu(kiln_add(kiln_matmul(in[0], in[1]), in[2]));
    out[0] = kiln_softmax(kiln_matmul(h, in[3]), -1);
}

static void argmax_of_sum(kiln_tensor *const *in, kiln_tensor **out)
{
    const int64_t axis[] = {1};
    const kiln_reduce_opts o = {.size = sizeof o, .axes = {1, axis}};
    out[0] = kiln_argmax(kiln_add(in[0], in[1]), &o);
}

static void batch_norm(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *mean, *var, *y;
    kiln_batch_norm_train(in[0], NULL, &y, &mean, &var);
    out[0] = kiln_relu(y);
    out[1] = mean;
    out[2] = var;
}

static void gathered(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_add(kiln_mul(kiln_embedding(in[0], in[1]), scalar(3)), in[2]);
}

static void gathered_by_computed(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_neg(kiln_gather(kiln_exp(in[0]), 1, kiln_sub(in[1], kiln_scalar_int(2))));
}

// Its place is computed where it is read.
static void part_at_place(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *start = kiln_sub(kiln_select(in[1], 0, 1), kiln_scalar_int(2));
    out[0] = kiln_sum(kiln_square(kiln_slice_at(in[0], 0, start, 3)), KILN_REDUCE(.axes = KILN_AXES(1)));
}

static void part_at_places(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_mul(kiln_slice_at(in[0], 1, kiln_reshape(in[1], KILN_SHAPE(5, 1)), 4), kiln_exp(in[2]));
}

static void part_put_at_place(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_exp(kiln_update_at(in[0], 0, kiln_select(in[1], 0, 0), kiln_neg(in[2])));
}

static void moved_bits(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_add(kiln_tril(kiln_mul(in[0], in[0]), 0), kiln_contiguous(kiln_transpose(in[0], 0, 1)));
    out[1] = kiln_sum(kiln_one_hot(kiln_cast(kiln_abs(in[0]), KILN_I32), 3), NULL);
}

// The same update of two parameters of different sizes.
static void updates(kiln_tensor *const *in, kiln_tensor **out)
{
    for (int i = 0; i < 2; i++) {
        kiln_tensor *p = in[3 * i], *m = in[3 * i + 1], *g = in[3 * i + 2];
        m = kiln_add(kiln_mul(m, scalar(0.9)), kiln_mul(g, scalar(0.1)));
        kiln_tensor *scale = kiln_add(kiln_sqrt(kiln_abs(m)), scalar(1e-3));
        out[2 * i] = kiln_sub(p, kiln_div(kiln_mul(m, scalar(0.01)), scale));
        out[2 * i + 1] = m;
    }
}

static void squared_again(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *x = kiln_mul(in[0], scalar(0.25));
    for (int i = 0; i < 40; i++) x = kiln_add(kiln_mul(x, x), scalar(0.1)); // 2^40 ways lead to the input
    out[0] = x;
}

static void joined(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_add(kiln_concat(in, 2, 1), kiln_scalar(1));
    out[1] = kiln_mul(kiln_concat(in + 2, 2, 0), in[4]);
}

static void stacked(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_exp(kiln_stack(in, 3, -1));
    kiln_tensor *twice[] = {kiln_neg(in[0]), in[0]};
    out[1] = kiln_sum(kiln_concat(twice, 2, -1), NULL);
}

static void scanned(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_exp(kiln_cumsum(kiln_mul(in[0], in[0]), 1));
}

// Totals beside a fold by rows, of what the rows share.
static void totals_of_shared(kiln_tensor *const *in, kiln_tensor **out)
{
    const int64_t axis[] = {1};
    const kiln_reduce_opts o = {.size = sizeof o, .axes = {1, axis}};
    kiln_tensor *c = kiln_repeat_interleave(in[1], 5, 1), *y = kiln_mul(in[0], c);
    out[0] = kiln_sum(y, &o);
    out[1] = kiln_sum(c, NULL);
    out[2] = kiln_mean(c, NULL);
    out[3] = kiln_prod(c, NULL);
    out[4] = kiln_max(c, NULL);
    out[5] = kiln_norm(c, NULL);
}

static void total_of_constant(kiln_tensor *const *in, kiln_tensor **out)
{
    const int64_t axis[] = {1};
    const kiln_reduce_opts o = {.size = sizeof o, .axes = {1, axis}};
    kiln_tensor *c = kiln_full_like(in[0], 3);
    out[0] = kiln_sum(kiln_mul(in[0], c), &o);
    out[1] = kiln_sum(c, NULL);
}

static void totals_of_parts(kiln_tensor *const *in, kiln_tensor **out)
{
    const int64_t axes[] = {1, 2};
    const kiln_reduce_opts o = {.size = sizeof o, .axes = {2, axes}};
    out[0] = kiln_sum(kiln_mul(in[0], in[1]), &o);
    out[1] = kiln_sum(in[1], NULL);
    out[2] = kiln_sum(kiln_square(in[2]), NULL);
}

static kiln_status repeated_loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mean(kiln_square(kiln_repeat_interleave(in[0], 3, 0)), NULL);
    return kiln_error();
}

static void repeated(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_value_and_grad(repeated_loss, NULL, in, 1, NULL, out, 2);
}

// The slabs of a pad are copied from its inner part.
static void padded(kiln_tensor *const *in, kiln_tensor **out)
{
    static const int64_t modes[] = {KILN_PAD_REFLECT, KILN_PAD_EDGE, KILN_PAD_CIRCULAR};
    for (int i = 0; i < 3; i++) {
        out[2 * i] =
            kiln_pad(kiln_exp(in[0]), KILN_PAD(.before = KILN_AXES(3), .after = KILN_AXES(2), .mode = modes[i]));
        out[2 * i + 1] =
            kiln_pad(in[1], KILN_PAD(.before = KILN_AXES(2, 1), .after = KILN_AXES(0, 2), .mode = modes[i]));
    }
}

static kiln_tensor *taken_apart(kiln_tensor *t)
{
    const int64_t dims[] = {2, 5, 3, 4};
    return kiln_transpose(kiln_reshape(t, 4, dims), 1, 2);
}

// Heads of queries are views, and so are those of the result: they are put together without a copy.
static void heads(kiln_tensor *const *in, kiln_tensor **out)
{
    const int64_t dims[] = {2, 5, 12};
    kiln_tensor *q = taken_apart(in[0]), *k = taken_apart(in[1]), *v = taken_apart(in[2]);
    kiln_tensor *y = NULL, *stats = NULL;
    kiln_flash_attention(q, k, v, NULL, &y, &stats);
    out[0] = kiln_reshape(kiln_transpose(y, 1, 2), 3, dims);
}

#define A(...)      \
    {               \
        __VA_ARGS__ \
    }
static const struct example examples[] = {
    {"chain", chain, 3, 1, {{2, A(5, 7)}, {2, A(5, 7)}, {2, A(5, 7)}}, 1},
    {"broadcast", broadcast, 3, 1, {{3, A(4, 5, 6)}, {1, A(6)}, {3, A(4, 1, 1)}}, 1},
    {"softmax, plain", softmax_plain, 1, 1, {{2, A(6, 11)}}, 1},
    {"softmax, op", softmax_op, 1, 1, {{3, A(2, 3, 9)}}, 1},
    {"rms_norm", rms_norm, 2, 1, {{2, A(6, 8)}, {1, A(8)}}, 1},
    {"layer_norm", layer_norm, 3, 1, {{3, A(2, 3, 8)}, {1, A(8)}, {1, A(8)}}, 1},
    {"cross_entropy", cross_entropy, 2, 1, {{2, A(7, 5)}, {1, A(7), KILN_I64}}, 1},
    {"sum and max", sum_and_max, 1, 2, {{2, A(6, 9)}}, 1},
    {"reshaped", reshaped, 2, 1, {{2, A(4, 30)}, {3, A(20, 2, 3)}}, 1},
    {"sliced", sliced, 1, 1, {{2, A(7, 9)}}, 1},
    {"column sum", column_sum, 2, 2, {{2, A(9, 6)}, {2, A(9, 6)}}, 1},
    {"mean of all", mean_all, 2, 1, {{2, A(9, 6)}, {2, A(9, 6)}}, 1},
    {"transposed", transposed_sum, 2, 1, {{2, A(9, 6)}, {2, A(6, 9)}}, 1},
    {"transposed input", chain, 3, 1, {{2, A(5, 7), .transposed = true}, {2, A(5, 7)}, {2, A(5, 7)}}, 1},
    {"narrow types", narrow_types, 2, 2, {{1, A(40), KILN_I8}, {1, A(40)}}, 1},
    {"returns an input", returns_input, 1, 4, {{2, A(3, 4)}}, 1},
    {"backward of rms_norm", rms_norm_grad, 3, 2, {{2, A(6, 8)}, {1, A(8)}, {2, A(6, 8)}}, 2},
    {"mlp", mlp, 4, 1, {{2, A(5, 4)}, {2, A(4, 6)}, {1, A(6)}, {2, A(6, 3)}}, 4, 3},
    {"argmax", argmax_of_sum, 2, 1, {{2, A(6, 9)}, {2, A(6, 9)}}, 1},
    {"gathered", gathered, 3, 1, {{2, A(5, 6)}, {2, A(3, 4), KILN_I64}, {1, A(6)}}, 1},
    {"gathered, computed", gathered_by_computed, 2, 1, {{2, A(4, 6)}, {2, A(4, 3), KILN_I64}}, 2},
    {"part at a place", part_at_place, 2, 1, {{2, A(5, 6)}, {1, A(4), KILN_I64}}, 1},
    {"part at places", part_at_places, 3, 1, {{2, A(5, 6)}, {1, A(5), KILN_I32}, {2, A(5, 4)}}, 1},
    {"part put at a place", part_put_at_place, 3, 1, {{2, A(5, 6)}, {1, A(5), KILN_I64}, {2, A(2, 6)}}, -1},
    {"moved bits", moved_bits, 1, 2, {{2, A(6, 6)}}, -1},
    {"updates", updates, 6, 4, {{2, A(5, 7)}, {2, A(5, 7)}, {2, A(5, 7)}, {1, A(70)}, {1, A(70)}, {1, A(70)}}, 1},
    {"squared again", squared_again, 1, 1, {{2, A(5, 7)}}, 1},
    {"joined", joined, 5, 2, {{2, A(3, 4)}, {2, A(3, 5)}, {2, A(2, 4)}, {2, A(1, 4)}, {1, A(4)}}, 2},
    {"stacked", stacked, 3, 2, {{2, A(3, 4)}, {2, A(3, 4)}, {2, A(3, 4)}}, -1},
    {"scanned", scanned, 1, 1, {{2, A(6, 9)}}, 3},
    {"totals of shared", totals_of_shared, 2, 6, {{2, A(4, 5)}, {2, A(4, 1)}}, -1},
    {"totals of parts", totals_of_parts, 3, 3, {{3, A(3, 4, 5)}, {3, A(3, 4, 1)}, {3, A(3, 1, 5)}}, -1},
    {"total of a constant", total_of_constant, 1, 2, {{2, A(4, 5)}}, -1},
    {"repeated", repeated, 1, 2, {{1, A(5)}}, -1},
    {"heads", heads, 3, 1, {{3, A(2, 5, 12)}, {3, A(2, 5, 12)}, {3, A(2, 5, 12)}}, 1},
    {"padded", padded, 2, 6, {{1, A(6)}, {2, A(4, 5)}}, -1},
    {"batch norm", batch_norm, 1, 3, {{4, A(2, 3, 4, 4)}}, 1},
};

// --- comparing ---

static uint64_t state;

static double random_value(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 33) / (double)(1u << 30) - 1;
}

static kiln_tensor *random_input(const struct example *e, size_t i)
{
    size_t rank = e->in[i].rank;
    int64_t dims[4], n = 1;
    float data[1024];
    for (size_t d = 0; d < rank; d++) dims[d] = e->in[i].dims[d];
    if (e->in[i].transposed) dims[0] = e->in[i].dims[1], dims[1] = e->in[i].dims[0];
    for (size_t d = 0; d < rank; d++) n *= dims[d];
    bool labels = e->in[i].dtype == KILN_I64;
    for (int64_t k = 0; k < n; k++) data[k] = (float)(labels ? fabs(floor(random_value() * 4)) : random_value() * 2);
    kiln_tensor *t = kiln_from_data(dev, KILN_F32, rank, dims, data);
    if (e->in[i].dtype == KILN_I8) t = kiln_mul(t, kiln_scalar(60));
    if (e->in[i].dtype) t = kiln_cast(t, e->in[i].dtype);
    return e->in[i].transposed ? kiln_transpose(t, 0, 1) : t;
}

static struct kiln_graph *record(const struct example *e, kiln_tensor *const *in)
{
    struct kiln_graph *g = ir_graph_create();
    struct graph_sink sink;
    graph_sink_init(&sink, g);
    kiln_tensor *abstract[MAX_TENSORS], *out[MAX_TENSORS];
    for (size_t i = 0; i < e->n_in; i++)
        abstract[i] = graph_tensor(&sink.builder, &in[i]->type, ir_add_input(g, &in[i]->type, "x"));
    thread_state.sink = &sink.base;
    e->fn(abstract, out);
    thread_state.sink = NULL;
    if (kiln_error()) fail_msg("%s: %s", e->name, kiln_error_message());
    for (size_t i = 0; i < e->n_out; i++) assert_int_equal(ir_add_output(g, out[i]->value, "y"), 0);
    return g;
}

static double close_enough(const kiln_tensor *a, const kiln_tensor *b)
{
    int64_t n = type_numel(&a->type);
    double worst = 0;
    if (!type_same_shape(&a->type, &b->type) || a->type.dtype != b->type.dtype) return INFINITY;
    kiln_tensor *x = kiln_cast((kiln_tensor *)(uintptr_t)a, KILN_F64),
                *y = kiln_cast((kiln_tensor *)(uintptr_t)b, KILN_F64);
    double *p = malloc(sizeof *p * (size_t)(2 * n + 1));
    assert_int_equal(kiln_read(x, p, sizeof *p * (size_t)n), 0);
    assert_int_equal(kiln_read(y, p + n, sizeof *p * (size_t)n), 0);
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(p[i] - p[n + i]) / (1 + fabs(p[n + i]));
        if (!(d <= worst)) worst = d;
    }
    free(p);
    return worst;
}

enum how { SINGLE_OPS, REFERENCE, COMPILED };

static void check(const struct example *e, enum how how)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *in[MAX_TENSORS], *want[MAX_TENSORS] = {NULL}, *got[MAX_TENSORS] = {NULL};
    const struct layout *layouts[MAX_TENSORS];
    for (size_t i = 0; i < e->n_in; i++) {
        in[i] = random_input(e, i);
        layouts[i] = &in[i]->layout;
    }
    e->fn(in, want);
    struct kiln_graph *g = record(e, in);
    struct program *p;
    struct program_options o = {.reference = how == REFERENCE, .no_fusion = how == SINGLE_OPS, .name = "test"};
    if (program_create(g, dev, layouts, &o, &p)) fail_msg("%s: %s", e->name, kiln_error_message());
    struct program_facts facts;
    program_get_facts(p, &facts);
    int launches = dev == vulkan && e->by_tiles ? e->by_tiles : e->launches;
    bool fuses = how == REFERENCE || (how == COMPILED && (dev != cpu || KILN_WITH_LLVM));
    if (fuses && launches >= 0 && facts.n_launches != launches) {
        struct str s;
        str_init(&s);
        program_explain(p, &s);
        print_message("%s\n", str_text(&s));
        str_free(&s);
        fail_msg("%s: %d launches, %d are promised", e->name, facts.n_launches, launches);
    }
    for (int round = 0; round < 2; round++) {
        if (program_run(p, in, NULL, got)) fail_msg("%s: %s", e->name, kiln_error_message());
        for (size_t i = 0; i < e->n_out; i++) {
            double d = close_enough(got[i], want[i]);
            if (!(d < 2e-6)) fail_msg("%s: output %zu differs by %g", e->name, i, d);
        }
    }
    program_destroy(&p);
    ir_graph_destroy(&g);
    kiln_scope_end(&scope);
}

static void fused_values_and_counts(void **unused)
{
    for (size_t i = 0; i < COUNT_OF(examples); i++) check(&examples[i], REFERENCE);
}

static void single_ops(void **unused)
{
    for (size_t i = 0; i < COUNT_OF(examples); i++) check(&examples[i], SINGLE_OPS);
}

static void compiled(void **unused)
{
    for (size_t i = 0; i < COUNT_OF(examples); i++) check(&examples[i], COMPILED);
}

static void compiled_for_vulkan(void **unused)
{
    use_vulkan();
    for (size_t i = 0; i < COUNT_OF(examples); i++) check(&examples[i], COMPILED);
    dev = cpu;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_ops),
        cmocka_unit_test(fused_values_and_counts),
        cmocka_unit_test(compiled),
        cmocka_unit_test(compiled_for_vulkan),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
