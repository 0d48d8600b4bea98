// Inputs that are given away (.donate): the values are those of eager mode, whatever comes to lie in their memory, and
// that memory is used.
#include "jit_fixture.h"
#include <kiln/control.h>
#include <kiln/optim.h>

enum { MOST_IN = 3, MOST_OUT = 3 };
static int64_t N = 8; // rows and columns of an input

// --- functions

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

FN(chain)
{
    kiln_tensor *x = in[0];
    for (int i = 0; i < 5; i++) x = kiln_tanh(kiln_add(kiln_mul(x, in[1]), kiln_scalar(0.25)));
    out[0] = x;
    return kiln_error();
}

FN(two_results)
{
    out[0] = kiln_add(in[0], kiln_scalar(1));
    out[1] = kiln_mul(in[0], kiln_scalar(2));
    return kiln_error();
}

FN(first_row_to_all)
{
    out[0] = kiln_add(in[0], kiln_narrow(in[0], 0, 0, 1));
    return kiln_error();
}

FN(last_column_to_all)
{
    out[0] = kiln_mul(in[0], kiln_narrow(in[0], 1, N - 1, 1));
    return kiln_error();
}

FN(less_the_mean)
{
    out[0] = kiln_sub(in[0], kiln_mean(in[0], KILN_REDUCE(.axes = KILN_AXES(0), .keepdims = true)));
    return kiln_error();
}

FN(normalised)
{
    out[0] = kiln_softmax(kiln_layer_norm(in[0], 1, NULL), -1);
    return kiln_error();
}

FN(softmax_twice)
{
    out[0] = kiln_softmax(in[0], 0);
    out[1] = kiln_softmax(in[0], 1);
    return kiln_error();
}

FN(with_transpose)
{
    out[0] = kiln_add(in[0], kiln_transpose(in[0], 0, 1));
    return kiln_error();
}

FN(of_transpose)
{
    out[0] = kiln_exp(kiln_transpose(in[0], 0, 1));
    return kiln_error();
}

FN(flipped)
{
    out[0] = kiln_sub(kiln_flip(in[0], KILN_AXES(0)), in[1]);
    return kiln_error();
}

FN(rolled)
{
    out[0] = kiln_add(kiln_roll(in[0], KILN_AXES(1), KILN_AXES(0)), in[0]);
    return kiln_error();
}

FN(taken)
{
    out[0] = kiln_add(kiln_take(in[0], 0, in[1]), kiln_scalar(1));
    return kiln_error();
}

FN(taken_and_kept)
{
    out[0] = kiln_mul(kiln_take(in[0], 0, in[1]), in[0]);
    return kiln_error();
}

FN(scattered)
{
    kiln_tensor *index = kiln_broadcast_to(kiln_reshape(in[1], KILN_SHAPE(N, 1)), KILN_SHAPE(N, N));
    out[0] = kiln_scatter_add(kiln_neg(in[0]), 0, index, in[0]);
    return kiln_error();
}

FN(product)
{
    out[0] = kiln_matmul(in[0], in[0]);
    return kiln_error();
}

FN(product_with_ends)
{
    out[0] = kiln_add(kiln_relu(kiln_matmul(kiln_mul(in[0], kiln_scalar(0.5)), in[1])), in[0]);
    return kiln_error();
}

FN(layers)
{
    kiln_tensor *h = in[0];
    for (int i = 0; i < 4; i++) h = kiln_add(kiln_tanh(kiln_matmul(h, in[1])), h);
    out[0] = h;
    return kiln_error();
}

FN(joined)
{
    kiln_tensor *both[] = {in[0], kiln_neg(in[0])};
    out[0] = kiln_concat(both, 2, 0);
    return kiln_error();
}

FN(joined_halves)
{
    kiln_tensor *halves[] = {kiln_narrow(in[0], 0, N / 2, N / 2), kiln_narrow(in[0], 0, 0, N / 2)};
    out[0] = kiln_concat(halves, 2, 0);
    return kiln_error();
}

FN(scanned)
{
    out[0] = kiln_cumsum(in[0], 0);
    return kiln_error();
}

FN(trip)
{
    out[0] = kiln_tanh(kiln_add(kiln_matmul(in[1], kiln_mul(in[1], kiln_scalar(0.1))), kiln_scalar(0.01)));
    return kiln_error();
}

FN(looped)
{
    return kiln_for(kiln_scalar_int(5), trip, NULL, in, 1, NULL, out, 1);
}

FN(small_trip)
{
    out[0] = kiln_mul(in[1], kiln_scalar(0.75));
    return kiln_error();
}

FN(looped_in_place)
{
    return kiln_for(kiln_scalar_int(5), small_trip, NULL, in, 1, NULL, out, 1);
}

FN(is_large)
{
    out[0] = kiln_greater(kiln_max(kiln_abs(in[0]), NULL), kiln_scalar(0.125));
    return kiln_error();
}

FN(halved)
{
    out[0] = kiln_mul(in[0], kiln_scalar(0.5));
    return kiln_error();
}

FN(looped_by_value)
{
    return kiln_while(is_large, halved, NULL, in, 1, NULL, out, 1);
}

FN(itself)
{
    out[0] = in[0];
    out[1] = kiln_add(in[0], in[1]);
    return kiln_error();
}

FN(view_of_itself)
{
    out[0] = kiln_transpose(in[0], 0, 1);
    out[1] = kiln_add(in[0], in[1]);
    return kiln_error();
}

FN(unused)
{
    out[0] = kiln_tanh(kiln_matmul(in[1], in[1]));
    return kiln_error();
}

FN(two_given)
{
    out[0] = kiln_add(in[0], in[1]);
    out[1] = kiln_sub(in[0], in[1]);
    return kiln_error();
}

FN(crossed)
{
    out[0] = kiln_exp(in[1]);
    out[1] = kiln_add(kiln_sin(in[0]), kiln_sum(out[0], NULL));
    return kiln_error();
}

FN(to_half)
{
    out[0] = kiln_cast(kiln_mul(in[0], kiln_scalar(1.5)), KILN_F16);
    return kiln_error();
}

FN(from_half_and_back)
{
    kiln_tensor *h = kiln_cast(in[0], KILN_F16);
    out[0] = kiln_cast(kiln_square(h), KILN_F32);
    out[1] = kiln_square(h);
    return kiln_error();
}

FN(to_integer)
{
    out[0] = kiln_cast(kiln_mul(in[0], kiln_scalar(100)), KILN_I32);
    return kiln_error();
}

FN(written_inside)
{
    kiln_assign(in[0], kiln_mul(in[0], kiln_scalar(3)));
    out[0] = kiln_add(in[0], kiln_scalar(1));
    return kiln_error();
}

// The update of Adam, as a function of what it was.
FN(moments)
{
    kiln_tensor *g = kiln_sub(in[0], kiln_scalar(0.3));
    kiln_tensor *m = kiln_add(kiln_mul(in[1], kiln_scalar(0.9)), kiln_mul(g, kiln_scalar(0.1)));
    kiln_tensor *v = kiln_add(kiln_mul(in[2], kiln_scalar(0.99)), kiln_mul(kiln_square(g), kiln_scalar(0.01)));
    out[0] = kiln_sub(in[0], kiln_div(m, kiln_add(kiln_sqrt(kiln_abs(v)), kiln_scalar(1e-3))));
    out[1] = m;
    out[2] = v;
    return kiln_error();
}

// Each reads what another one may be written over.
FN(ring)
{
    for (int i = 0; i < 3; i++) out[i] = kiln_add(in[i], kiln_mul(in[(i + 1) % 3], kiln_scalar(0.5)));
    return kiln_error();
}

// One kernel for rows of several lengths, and so one launch.
FN(pieces)
{
    for (int i = 0; i < 3; i++)
        out[i] = kiln_mul(kiln_sub(kiln_narrow(in[i], 0, 0, N - i), kiln_scalar(0.5)), kiln_narrow(in[0], 0, i, N - i));
    return kiln_error();
}

// One launch of three kernels, each of which reads a row of what the next one reads.
FN(rows_of_others)
{
    kiln_tensor *h[3];
    for (int i = 0; i < 3; i++) h[i] = kiln_matmul(kiln_narrow(in[0], 0, 0, N - i), in[1]);
    for (int i = 0; i < 3; i++)
        out[i] = kiln_mul(kiln_sub(h[i], kiln_scalar(0.5)), kiln_narrow(h[(i + 1) % 3], 0, 0, 1));
    return kiln_error();
}

FN(taken_of_values)
{
    kiln_tensor *h = kiln_matmul(in[0], in[0]);
    out[0] = kiln_add(kiln_take(h, 0, in[1]), kiln_scalar(1));
    out[1] = kiln_flip(kiln_matmul(in[0], out[0]), KILN_AXES(0));
    return kiln_error();
}

struct graph {
    const char *name;
    kiln_fn fn;
    const char *inputs; // x: f32[N, N], i: i64[N] below N
    size_t n_out;
    kiln_ints given;
};
#define GRAPH(fn, inputs, n_out, ...)                                       \
    {                                                                       \
#fn, fn, inputs, n_out,                                             \
        {                                                                   \
            sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]) \
            {                                                               \
                __VA_ARGS__                                                 \
            }                                                               \
        }                                                                   \
    }
static const struct graph graphs[] = {
    GRAPH(chain, "xx", 1, 0),
    GRAPH(chain, "xx", 1, 0, 1),
    GRAPH(two_results, "x", 2, 0),
    GRAPH(first_row_to_all, "x", 1, 0),
    GRAPH(last_column_to_all, "x", 1, 0),
    GRAPH(less_the_mean, "x", 1, 0),
    GRAPH(normalised, "x", 1, 0),
    GRAPH(softmax_twice, "x", 2, 0),
    GRAPH(with_transpose, "x", 1, 0),
    GRAPH(of_transpose, "x", 1, 0),
    GRAPH(flipped, "xx", 1, 0),
    GRAPH(flipped, "xx", 1, 1),
    GRAPH(rolled, "x", 1, 0),
    GRAPH(taken, "xi", 1, 0),
    GRAPH(taken_and_kept, "xi", 1, 0),
    GRAPH(scattered, "xi", 1, 0),
    GRAPH(product, "x", 1, 0),
    GRAPH(product_with_ends, "xx", 1, 0),
    GRAPH(layers, "xx", 1, 0),
    GRAPH(layers, "xx", 1, 0, 1),
    GRAPH(joined, "x", 1, 0),
    GRAPH(joined_halves, "x", 1, 0),
    GRAPH(scanned, "x", 1, 0),
    GRAPH(looped, "x", 1, 0),
    GRAPH(looped_in_place, "x", 1, 0),
    GRAPH(looped_by_value, "x", 1, 0),
    GRAPH(itself, "xx", 2, 0),
    GRAPH(itself, "xx", 2, 0, 1),
    GRAPH(view_of_itself, "xx", 2, 0),
    GRAPH(unused, "xx", 1, 0),
    GRAPH(two_given, "xx", 2, 0, 1),
    GRAPH(crossed, "xx", 2, 0, 1),
    GRAPH(to_half, "x", 1, 0),
    GRAPH(from_half_and_back, "x", 2, 0),
    GRAPH(to_integer, "x", 1, 0),
    GRAPH(written_inside, "x", 1, 0),
    GRAPH(moments, "xxx", 3, 0, 1, 2),
    GRAPH(moments, "xxx", 3, 1, 2),
    GRAPH(ring, "xxx", 3, 0, 1, 2),
    GRAPH(pieces, "xxx", 3, 0, 1, 2),
    GRAPH(rows_of_others, "xx", 3, 0, 1),
    GRAPH(taken_of_values, "xi", 2, 0),
};
enum { N_GRAPHS = sizeof graphs / sizeof *graphs };

// --- values

// How an input lies: in memory of its own, from the beginning or not, in another order.
enum lie { PLAIN, TRANSPOSED, PIECE, LIES };

static kiln_tensor *input_of(struct fixture *f, char kind, size_t i, int call, enum lie lie)
{
    kiln_tensor *row = kind == 'i' ? kiln_arange(f->dev, KILN_I64, 0, (double)N, 1) : NULL;
    if (row)
        return kiln_remainder(kiln_add(kiln_mul(row, kiln_scalar_int(5)), kiln_scalar_int(call)), kiln_scalar_int(N));
    int64_t size = lie == PIECE ? 2 * N : N;
    kiln_tensor *line = kiln_arange(f->dev, KILN_F32, 0, (double)(size * N), 1);
    line = kiln_sin(kiln_add(kiln_mul(line, kiln_scalar(0.37)), kiln_scalar((double)i + 3 * call)));
    kiln_tensor *t = kiln_reshape(line, KILN_SHAPE(size, N));
    if (lie == TRANSPOSED) t = kiln_transpose(t, 0, 1);
    return lie == PIECE ? kiln_narrow(t, 0, N / 2, N) : t;
}

// Handles that are alone on their memory: those that they came of are gone.
static void make_inputs(struct fixture *f, const struct graph *g, int call, enum lie lie, kiln_tensor **in)
{
    for (size_t i = 0; i < strlen(g->inputs); i++) {
        kiln_scope *s = kiln_scope_begin();
        in[i] = kiln_own(input_of(f, g->inputs[i], i, call, lie));
        kiln_scope_end(&s);
        assert_non_null(in[i]);
    }
}

static bool is_given(const struct graph *g, size_t i)
{
    for (size_t k = 0; k < g->given.count; k++)
        if (g->given.v[k] == (int64_t)i) return true;
    return false;
}

static void alike(kiln_tensor *got, kiln_tensor *want)
{
    assert_non_null(got);
    assert_int_equal(kiln_tensor_dtype(got), kiln_tensor_dtype(want));
    assert_int_equal(kiln_numel(got), kiln_numel(want));
    double by = kiln_tensor_dtype(want) == KILN_F16 ? 4e-3 : kiln_tensor_dtype(want) == KILN_I32 ? 1e-2 : 3e-5;
    kiln_scope *s = kiln_scope_begin();
    kiln_tensor *a = kiln_cast(got, KILN_F32), *b = kiln_cast(want, KILN_F32);
    double off = kiln_item(kiln_max(kiln_abs(kiln_sub(a, b)), NULL)), most = kiln_item(kiln_max(kiln_abs(b), NULL));
    if (!(off <= by * (1 + most))) print_error("by %g, of at most %g\n", off, most);
    assert_true(off <= by * (1 + most));
    kiln_scope_end(&s);
}

static void check_call(struct fixture *f, const struct graph *g, kiln_function *j, int call, enum lie lie)
{
    kiln_tensor *in[MOST_IN], *twin[MOST_IN], *out[MOST_OUT], *want[MOST_OUT];
    size_t n = strlen(g->inputs);
    make_inputs(f, g, call, lie, in);
    make_inputs(f, g, call, lie, twin);
    ok(kiln_call(j, in, n, out, g->n_out));
    ok(g->fn(NULL, twin, n, want, g->n_out));
    for (size_t i = 0; i < g->n_out; i++) alike(out[i], want[i]);
    for (size_t i = 0; i < n; i++) {
        if (is_given(g, i))
            fails((kiln_neg(in[i]), kiln_error()), KILN_E_HANDLE, "neg: x was given away to ");
        else
            alike(in[i], twin[i]);
        kiln_free(&in[i]);
        kiln_free(&twin[i]);
    }
    for (size_t i = 1; i < g->n_out; i++) assert_false(kiln_is_view_of(out[i], out[0]));
}

static void check_graph(struct fixture *f, const struct graph *g, kiln_jit_opts o)
{
    kiln_scope *s = kiln_scope_begin();
    o.size = sizeof o;
    o.donate = g->given;
    o.eager_rounding = true;
    o.name = g->name;
    kiln_function *j = kiln_jit(g->fn, NULL, &o);
    for (int call = 0; call < 2 * LIES; call++) check_call(f, g, j, call, (enum lie)(call % LIES));
    kiln_function_free(&j);
    kiln_scope_end(&s);
}

static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE, KILN_CAPTURE_AUTO};

static void values_are_those_of_eager_mode(void **state)
{
    for (int i = 0; i < N_GRAPHS; i++)
        for (int c = 0; c < 3; c++)
            for (kiln_level level = KILN_LEVEL_FUSION; level <= KILN_LEVEL_AS_IS; level++)
                check_graph(*state, &graphs[i], (kiln_jit_opts){.capture = captures[c], .level = level});
}

// Compiled meanwhile, captured again, as the one graph of a function that need not run, and beyond the limit of
// captures, so that calls run eagerly.
static void in_any_way_that_calls_run(void **state)
{
    for (int i = 0; i < N_GRAPHS; i++) {
        check_graph(*state, &graphs[i], (kiln_jit_opts){.background = true});
        check_graph(*state, &graphs[i], (kiln_jit_opts){.verify = 2});
        check_graph(*state, &graphs[i], (kiln_jit_opts){.capture = KILN_CAPTURE_AUTO, .pure_host = true});
        check_graph(*state, &graphs[i], (kiln_jit_opts){.recompile_limit = 1});
    }
}

// As many that threads and workgroups share them.
static void large_ones_too(void **state)
{
    N = 130;
    for (int i = 0; i < N_GRAPHS; i++)
        for (kiln_level level = KILN_LEVEL_FUSION; level <= KILN_LEVEL_PASSES; level++)
            check_graph(*state, &graphs[i], (kiln_jit_opts){.level = level});
    N = 8;
}

// --- memory

static kiln_device_stats memory_of(struct fixture *f)
{
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(f->dev, &s);
    return s;
}

// Bytes beyond those that were there, at the most, of a call that gives `size` floats away.
static uint64_t peak_of(struct fixture *f, kiln_function *j, int64_t size, bool given)
{
    uint64_t peak_B = 0;
    for (int call = 0; call < 3; call++) {
        kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE(size), 1), *out;
        kiln_device_reset_stats(f->dev);
        uint64_t before_B = memory_of(f).heap_used_B;
        ok(kiln_call(j, &x, 1, &out, 1));
        peak_B = memory_of(f).heap_peak_B - before_B;
        if (given) assert_int_equal(memory_of(f).heap_used_B, before_B);
        kiln_tensor *part = kiln_narrow(out, 0, size - 1, 1);
        assert_true(fabs(kiln_item(part) - tanh(1.5)) < 1e-6);
        kiln_free(&part);
        kiln_free(&x);
        kiln_free(&out);
    }
    return peak_B;
}

FN(update)
{
    out[0] = kiln_tanh(kiln_add(in[0], kiln_scalar(0.5)));
    return kiln_error();
}

static void an_update_needs_no_second_memory(void **state)
{
    struct fixture *f = *state;
    if (!fuses(f)) return;
    int64_t size = !strcmp(jit_device, "cpu") ? 1 << 26 : 1 << 23; // 256 MiB, and what a software driver does in time
    for (kiln_level level = KILN_LEVEL_FUSION; level <= KILN_LEVEL_AS_IS; level++) {
        kiln_function *j = kiln_jit(update, NULL, KILN_JIT(.level = level, .donate = KILN_ARGS(0)));
        kiln_function *plain = kiln_jit(update, NULL, KILN_JIT(.level = level));
        assert_int_equal(peak_of(f, j, size, true), 0);
        assert_int_equal(peak_of(f, plain, size, false), 4 * (uint64_t)size);
        kiln_function_free(&j);
        kiln_function_free(&plain);
    }
}

struct training {
    kiln_tensor *p[4];
    kiln_optim *optim;
};

FN(train)
{
    struct training *t = user;
    kiln_tensor *loss = kiln_scalar(0);
    for (int i = 0; i < 4; i++) loss = kiln_add(loss, kiln_sum(kiln_square(kiln_sub(t->p[i], in[0])), NULL));
    TRY_(kiln_backward(loss, NULL));
    TRY_(kiln_optim_step(t->optim));
    TRY_(kiln_optim_zero_grad(t->optim));
    out[0] = loss;
    return kiln_error();
}

// As much as the parameters, and the moments of Adam, are: nothing of that size beside them.
static void parameters_are_updated_where_they_lie(void **state)
{
    struct fixture *f = *state;
    if (!fuses(f)) return;
    int64_t size = !strcmp(jit_device, "cpu") ? 1 << 24 : 1 << 20; // of four; 256 MiB
    for (int adam = 0; adam < 2; adam++) {
        struct training t;
        kiln_scope *s = kiln_scope_begin();
        for (int i = 0; i < 4; i++) {
            kiln_tensor *zero = kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(size));
            t.p[i] = kiln_parameter(zero, "p");
            kiln_free(&zero);
        }
        t.optim = adam ? kiln_optim_adam(t.p, 4, KILN_ADAM(.lr = 1e-2)) : kiln_optim_sgd(t.p, 4, KILN_SGD(.lr = 1e-2));
        kiln_function *j = kiln_jit(train, &t, NULL);
        kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE0, 0.5), *out;
        for (int call = 0; call < 3; call++) {
            kiln_device_reset_stats(f->dev);
            uint64_t before_B = memory_of(f).heap_used_B;
            ok(kiln_call(j, &x, 1, &out, 1));
            uint64_t beyond_B = memory_of(f).heap_peak_B - before_B;
            if (call) assert_true(beyond_B < 1 << 20);
            kiln_free(&out);
        }
        if (adam) assert_true(fabs(kiln_item(kiln_mean(t.p[3], NULL)) - 0.03) < 1e-3);
        kiln_function_free(&j);
        kiln_optim_free(&t.optim);
        for (int i = 0; i < 4; i++) kiln_free(&t.p[i]);
        kiln_scope_end(&s);
    }
}

// Call after call nothing comes from the system, and nothing grows.
static void memory_is_steady(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(layers, NULL, KILN_JIT(.donate = KILN_ARGS(0)));
    kiln_tensor *in[] = {kiln_full(f->dev, KILN_F32, KILN_SHAPE(64, 64), 0.01),
                         kiln_full(f->dev, KILN_F32, KILN_SHAPE(64, 64), 0.01)};
    kiln_device_stats before = {0}, after;
    for (int call = 0; call < 40; call++) {
        if (call == 10) before = memory_of(f);
        kiln_tensor *out;
        ok(kiln_call(j, in, 2, &out, 1));
        kiln_free(&in[0]);
        in[0] = out;
    }
    after = memory_of(f);
    assert_int_equal(after.heap_allocs, before.heap_allocs);
    assert_int_equal(after.heap_used_B, before.heap_used_B);
    assert_int_equal(after.tensors, before.tensors);
    kiln_function_free(&j);
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(values_are_those_of_eager_mode),
        FIXTURE(large_ones_too),
        FIXTURE(in_any_way_that_calls_run),
        FIXTURE(an_update_needs_no_second_memory),
        FIXTURE(parameters_are_updated_where_they_lie),
        FIXTURE(memory_is_steady),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
