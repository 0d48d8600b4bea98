// Gradients of what is taken apart by views of all kinds, one view for each piece and several on the way: right to the
// first and second order, and in a time that grows with the pieces together, not with the whole for each of them. The
// work is counted at the device: elements of all launches.
#include "device/device.h"
#include "../jit/jit_fixture.h"

enum { WIDTH = 16, MOST = 240 };

// --- counting ---

static const struct device_ops *counted;
static struct device_ops counting;
static int64_t work;

static kiln_status count_launch(kiln_device *dev, const struct launch *l)
{
    int64_t n = 1, extent = l->extent[0] * l->extent[1] * l->extent[2];
    for (int i = 0; i < l->rank; i++) n *= l->sizes[i];
    work += n > extent ? n : extent;
    return counted->launch(dev, l);
}

static kiln_status count_compiled(kiln_device *dev, const struct compiled_launch *l)
{
    work += (int64_t)l->work;
    return counted->launch_compiled(dev, l);
}

static int setup_counting(void **state)
{
    if (setup(state)) return -1;
    struct fixture *f = *state;
    counted = f->dev->ops;
    counting = *counted;
    counting.launch = count_launch;
    if (counting.launch_compiled) counting.launch_compiled = count_compiled;
    f->dev->ops = &counting;
    return 0;
}

static int teardown_counting(void **state)
{
    ((struct fixture *)*state)->dev->ops = counted;
    return teardown(state);
}

// --- pieces ---

typedef kiln_tensor *take_fn(kiln_tensor *x, int i, int n);

static kiln_tensor *one_select(kiln_tensor *x, int i, int n)
{
    return kiln_select(x, 0, i);
}

static kiln_tensor *one_narrow(kiln_tensor *x, int i, int n)
{
    return kiln_narrow(x, 0, i, 1);
}

static kiln_tensor *one_slice(kiln_tensor *x, int i, int n)
{
    return kiln_slice(x, KILN_SLICE(.start = KILN_ARGS(i), .stop = KILN_ARGS(i + 1)));
}

static kiln_tensor *one_of_split(kiln_tensor *x, int i, int n)
{
    static kiln_tensor *parts[MOST];
    if (i == 0 && kiln_split(x, 0, parts, (size_t)n)) return NULL;
    return parts[i];
}

static kiln_tensor *one_of_unstack(kiln_tensor *x, int i, int n)
{
    static kiln_tensor *parts[MOST];
    if (i == 0 && kiln_unstack(x, 0, parts, (size_t)n)) return NULL;
    return parts[i];
}

static kiln_tensor *every_other(kiln_tensor *x, int i, int n)
{
    return kiln_slice(
        x, KILN_SLICE(.start = KILN_ARGS(i, i % 2), .stop = KILN_ARGS(i + 1, KILN_END), .step = KILN_ARGS(1, 2)));
}

static kiln_tensor *view_of_view(kiln_tensor *x, int i, int n)
{
    return kiln_select(kiln_narrow(x, 0, i / 2 * 2, 2), 0, i % 2);
}

static kiln_tensor *tile(kiln_tensor *x, int i, int n)
{
    return kiln_narrow(kiln_narrow(x, 0, i / 2 * 2, 2), 1, i % 2 * WIDTH / 2, WIDTH / 2);
}

static kiln_tensor *piece_of_reshape(kiln_tensor *x, int i, int n)
{
    return kiln_select(kiln_reshape(x, KILN_SHAPE(n, WIDTH / 2, 2)), 0, i);
}

static kiln_tensor *reshape_of_piece(kiln_tensor *x, int i, int n)
{
    return kiln_narrow(kiln_reshape(kiln_narrow(x, 0, i, 1), KILN_SHAPE(2, WIDTH / 2)), 0, i % 2, 1);
}

static kiln_tensor *across_lines(kiln_tensor *x, int i, int n)
{
    int64_t start = i * WIDTH + (i + 1 < n ? WIDTH / 2 : 0);
    return kiln_narrow(kiln_reshape(x, KILN_SHAPE(n * WIDTH)), 0, start, WIDTH);
}

static kiln_tensor *piece_of_transpose(kiln_tensor *x, int i, int n)
{
    return kiln_select(kiln_transpose(x, 0, 1), 1, i);
}

static kiln_tensor *flat_piece_of_transpose(kiln_tensor *x, int i, int n)
{
    kiln_tensor *t = kiln_permute(kiln_reshape(x, KILN_SHAPE(n, 4, WIDTH / 4)), KILN_AXES(1, 0, 2));
    return kiln_flatten(kiln_narrow(t, 1, i, 1), 0, 2);
}

static kiln_tensor *column(kiln_tensor *x, int i, int n)
{
    return kiln_squeeze(kiln_narrow(kiln_reshape(x, KILN_SHAPE(WIDTH, n)), 1, i, 1), KILN_AXES(1));
}

static kiln_tensor *backwards(kiln_tensor *x, int i, int n)
{
    return kiln_select(kiln_flip(x, KILN_AXES(0, 1)), 0, i);
}

static kiln_tensor *broadcast(kiln_tensor *x, int i, int n)
{
    return kiln_select(kiln_expand(kiln_unsqueeze(x, 1), KILN_SHAPE(n, 3, WIDTH)), 0, i);
}

static kiln_tensor *diagonal(kiln_tensor *x, int i, int n)
{
    return kiln_diagonal(kiln_narrow(kiln_reshape(x, KILN_SHAPE(n, 4, WIDTH / 4)), 0, i, 1), i % 3 - 1, 1, 2);
}

static kiln_tensor *strided(kiln_tensor *x, int i, int n)
{
    return kiln_as_strided(x, KILN_SHAPE(WIDTH), KILN_SHAPE(1), i * WIDTH);
}

static kiln_tensor *strided_lines(kiln_tensor *x, int i, int n)
{
    return kiln_as_strided(x, KILN_SHAPE(2, 3), KILN_SHAPE(-8, 2), i * WIDTH + 8 + i % 3);
}

static kiln_tensor *windows(kiln_tensor *x, int i, int n)
{
    return kiln_as_strided(x, KILN_SHAPE(6, 3), KILN_SHAPE(1, 2), i * WIDTH);
}

static kiln_tensor *overlapping(kiln_tensor *x, int i, int n)
{
    return kiln_narrow(x, 0, i < n - 3 ? i : n - 3, 3);
}

static kiln_tensor *nested(kiln_tensor *x, int i, int n)
{
    return kiln_narrow(kiln_reshape(x, KILN_SHAPE(n * WIDTH)), 0, i / 2, 1 + i % WIDTH);
}

static kiln_tensor *repeated(kiln_tensor *x, int i, int n)
{
    return kiln_select(x, 0, i % 4);
}

static const struct way {
    const char *name;
    take_fn *take;
} ways[] = {
    {"select", one_select},
    {"narrow", one_narrow},
    {"slice", one_slice},
    {"split", one_of_split},
    {"unstack", one_of_unstack},
    {"slice with steps", every_other},
    {"view of view", view_of_view},
    {"tiles", tile},
    {"pieces of reshapes", piece_of_reshape},
    {"reshapes of pieces", reshape_of_piece},
    {"pieces across lines", across_lines},
    {"pieces of transposes", piece_of_transpose},
    {"flattened pieces of permuted reshapes", flat_piece_of_transpose},
    {"columns", column},
    {"pieces of what is turned round", backwards},
    {"pieces of what is broadcast", broadcast},
    {"diagonals", diagonal},
    {"as_strided", strided},
    {"as_strided in lines, backwards", strided_lines},
    {"windows", windows},
    {"overlapping pieces", overlapping},
    {"pieces within pieces", nested},
    {"the same pieces", repeated},
};
enum { N_WAYS = sizeof ways / sizeof *ways };

// --- the function ---

struct apart {
    const struct way *way;
    int n;
    bool twice;
};

static double weight(int i)
{
    return 1 + i % 3;
}

static kiln_status loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct apart *a = user;
    kiln_tensor *y = kiln_mul(in[0], kiln_scalar(2)), *sum = NULL;
    for (int i = 0; i < a->n; i++) {
        kiln_tensor *one = kiln_sum(kiln_mul(kiln_square(a->way->take(y, i, a->n)), kiln_scalar(weight(i))), NULL);
        sum = sum ? kiln_add(sum, one) : one;
    }
    out[0] = sum;
    return kiln_error();
}

static kiln_status gradient(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_grad(loss, user, in, n_in, NULL, out, 1);
}

static kiln_status squares(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *g;
    TRY_(gradient(user, in, n_in, &g, 1));
    out[0] = kiln_sum(kiln_square(g), NULL);
    return kiln_error();
}

static kiln_status step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct apart *a = user;
    return a->twice ? kiln_grad(squares, user, in, n_in, NULL, out, 1) : gradient(user, in, n_in, out, n_out);
}

// --- values ---

// The weights of the pieces that show each element, as the same views of the elements' numbers tell.
static void weigh(struct fixture *f, const struct apart *a, double *weights)
{
    int64_t n = a->n * WIDTH;
    kiln_tensor *numbers = kiln_reshape(kiln_arange(f->dev, KILN_I64, 0, (double)n, 1), KILN_SHAPE(a->n, WIDTH));
    for (int64_t i = 0; i < n; i++) weights[i] = 0;
    for (int i = 0; i < a->n; i++) {
        int64_t at[MOST * WIDTH];
        kiln_tensor *piece = a->way->take(numbers, i, a->n);
        ok(kiln_read(piece, at, (size_t)kiln_numel(piece) * sizeof *at));
        for (int64_t k = 0; k < kiln_numel(piece); k++) weights[at[k]] += weight(i);
    }
}

static void check(const struct apart *a, kiln_tensor *x, kiln_tensor *g, const double *weights, const char *how)
{
    double v[MOST * WIDTH], at[MOST * WIDTH];
    ok(kiln_error());
    read_all(g, v);
    read_all(x, at);
    double by = kiln_tensor_dtype(x) == KILN_F16 ? 4e-3 : 1e-5;
    for (int i = 0; i < a->n * WIDTH; i++) {
        double want = a->twice ? 128 * weights[i] * weights[i] * at[i] : 8 * weights[i] * at[i];
        if (!(fabs(v[i] - want) <= by * fabs(want)))
            fail_msg("%s, %s: element %d is %g, not %g", a->way->name, how, i, v[i], want);
    }
}

static kiln_tensor *data(struct fixture *f, int n, kiln_dtype dtype)
{
    kiln_tensor *x = kiln_arange(f->dev, KILN_F32, 0, n * WIDTH, 1);
    return kiln_cast(kiln_reshape(kiln_add(kiln_remainder(x, kiln_scalar(7)), kiln_scalar(1)), KILN_SHAPE(n, WIDTH)),
                     dtype);
}

static const struct {
    const char *name;
    kiln_capture kind;
} captures[] = {{"STRICT", KILN_CAPTURE_STRICT}, {"TRACE", KILN_CAPTURE_TRACE}, {"AUTO", KILN_CAPTURE_AUTO}};

static void values_are_right(void **state)
{
    struct fixture *f = *state;
    for (int w = 0; w < N_WAYS * 2; w++) {
        kiln_scope *scope = kiln_scope_begin();
        struct apart a = {&ways[w / 2], 6, w % 2};
        double weights[MOST * WIDTH];
        kiln_tensor *x = data(f, a.n, KILN_F32), *half = data(f, a.n, KILN_F16), *g = NULL;
        weigh(f, &a, weights);
        ok(step(&a, &x, 1, &g, 1));
        check(&a, x, g, weights, a.twice ? "second order" : "first order");
        if (!a.twice) {
            ok(step(&a, &half, 1, &g, 1));
            check(&a, half, g, weights, "f16");
        }
        for (int c = 0; c < 3; c++) {
            kiln_function *j = kiln_jit(step, &a, KILN_JIT(.capture = captures[c].kind));
            for (int call = 0; call < 3; call++) {
                ok(kiln_call(j, &x, 1, &g, 1));
                check(&a, x, g, weights, captures[c].name);
            }
            kiln_function_free(&j);
        }
        kiln_scope_end(&scope);
    }
}

// --- what else is asked of views on the way ---

static kiln_tensor *see(void *user, kiln_tensor *g)
{
    double *v = user, at[64];
    read_all(g, at);
    for (int64_t i = 0; i < kiln_numel(g); i++) v[i] += at[i];
    return NULL;
}

// A hook sees the gradient of the whole view; a piece that nothing uses leaves zeros; a tape that is kept gives the
// same once more.
static void views_with_hooks(void **state)
{
    struct fixture *f = *state;
    double v[64], seen[64] = {0};
    kiln_tensor *x = kiln_parameter(kiln_ones(f->dev, KILN_F32, KILN_SHAPE(4, 6)), "x"), *sum = NULL;
    kiln_tensor *flat = kiln_reshape(x, KILN_SHAPE(24));
    kiln_register_hook(flat, see, seen);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *one = kiln_mul(kiln_sum(kiln_narrow(flat, 0, 5 * i, 2), NULL), kiln_scalar(i + 1));
        sum = sum ? kiln_add(sum, one) : one;
    }
    for (int turn = 1; turn <= 2; turn++) {
        ok(kiln_backward_with(sum, KILN_BACKWARD(.keep_tape = turn == 1, .accumulate = turn == 2)));
        read_all(kiln_gradient(x), v);
        for (int i = 0; i < 24; i++) {
            double want = i % 5 < 2 && i < 12 ? i / 5 + 1 : 0;
            assert_true(v[i] == turn * want);
            assert_true(seen[i] == turn * want);
        }
    }
}

// A view in the middle whose gradient is asked for has all of it, with the pieces of other views apart.
static void views_that_are_asked_for(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = kiln_parameter(kiln_ones(f->dev, KILN_F32, KILN_SHAPE(2, 3)), "x"), *g[2];
    kiln_tensor *t = kiln_transpose(x, 0, 1), *flat = kiln_reshape(x, KILN_SHAPE(6));
    kiln_tensor *sum =
        kiln_add(kiln_sum(kiln_select(t, 0, 1), NULL), kiln_mul(kiln_select(flat, 0, 5), kiln_scalar(3)));
    ok(kiln_gradients(sum, (kiln_tensor *[]){t, x}, 2, NULL, g));
    expect(kiln_reshape(g[0], KILN_SHAPE(6)), 6, 0., 0., 1., 1., 0., 0.);
    expect(g[1], 6, 0., 1., 0., 0., 1., 3.);
}

// Positions of the storage, of a value that does not lie in row-major order there.
static void strided_pieces_of_what_is_transposed(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = kiln_parameter(kiln_ones(f->dev, KILN_F32, KILN_SHAPE(2, 3)), "x"), *sum = NULL;
    kiln_tensor *t = kiln_transpose(kiln_mul(x, kiln_scalar(1)), 0, 1);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *p = kiln_as_strided(t, KILN_SHAPE(2), KILN_SHAPE(2), i);
        kiln_tensor *one = kiln_mul(kiln_sum(p, NULL), kiln_scalar(pow(10, i)));
        sum = sum ? kiln_add(sum, one) : one;
    }
    ok(kiln_backward(sum, NULL));
    expect(kiln_gradient(x), 6, 1., 10., 101., 10., 100., 0.);
}

// --- work ---

static double work_of(struct fixture *f, const struct way *way, int n, bool twice, int capture)
{
    kiln_scope *scope = kiln_scope_begin();
    struct apart a = {way, n, twice};
    kiln_tensor *x = data(f, n, KILN_F32), *g = NULL;
    double v[MOST * WIDTH];
    kiln_function *j = capture < 0 ? NULL : kiln_jit(step, &a, KILN_JIT(.capture = captures[capture].kind));
    for (int call = 0; call < (j ? 4 : 1); call++) {
        work = 0;
        ok(j ? kiln_call(j, &x, 1, &g, 1) : step(&a, &x, 1, &g, 1));
        read_all(g, v);
    }
    if (j) kiln_function_free(&j);
    kiln_scope_end(&scope);
    return (double)work;
}

static int grows_too_fast(struct fixture *f, const struct way *way, bool twice, int capture)
{
    double few = work_of(f, way, MOST / 4, twice, capture), many = work_of(f, way, MOST, twice, capture);
    if (many <= 8 * few) return 0; // 4 times the pieces; of few, more may be in one kernel
    print_error("%s, %s%s: %g elements for %d pieces, %g for %d\n", way->name,
                capture < 0 ? "eagerly" : captures[capture].name, twice ? ", second order" : "", few, MOST / 4, many,
                MOST);
    return 1;
}

static void work_grows_with_the_pieces(void **state)
{
    int found = 0;
    // Op by op a captured function does the work of its graph.
    const int n_compiled = KILN_WITH_LLVM ? 3 : 0;
    for (int w = 0; w < N_WAYS; w++)
        for (int capture = -1; capture < n_compiled; capture++)
            found += grows_too_fast(*state, &ways[w], false, capture);
    for (int w = 0; w < N_WAYS; w++)
        for (int capture = -1; capture < n_compiled; capture++)
            found += grows_too_fast(*state, &ways[w], true, capture);
    assert_int_equal(found, 0);
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_are_right, setup_counting, teardown_counting),
        FIXTURE(views_with_hooks),
        FIXTURE(views_that_are_asked_for),
        FIXTURE(strided_pieces_of_what_is_transposed),
        cmocka_unit_test_setup_teardown(work_grows_with_the_pieces, setup_counting, teardown_counting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
