// nonzero, masked_select and unique with a size that the caller gives: eagerly and in graphs, against the ones whose
// size depends on values.
#include "jit_cells.h"

enum { N = 30 };

static double noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (double)(*seed >> 8) / (1 << 24);
}

// Whole numbers from 0 to `most`, some of them often.
static kiln_tensor *numbers(struct fixture *f, kiln_dtype dtype, size_t rank, const int64_t *dims, int most,
                            uint32_t seed)
{
    double v[N];
    int64_t n = 1;
    for (size_t d = 0; d < rank; d++) n *= dims[d];
    for (int64_t i = 0; i < n; i++) v[i] = floor(noise(&seed) * (most + 1));
    return kiln_cast(kiln_from_data(f->dev, KILN_F64, rank, dims, v), dtype);
}

// --- the functions: `user` is the size; in[0] x, in[1] a mask

static kiln_status select_all(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    int64_t size = *(int64_t *)user;
    TRY_(kiln_nonzero_sized(in[0], size, -7, &out[0], &out[1]));
    TRY_(kiln_masked_select_sized(in[0], in[1], size, 99, &out[2], &out[3]));
    return kiln_unique_sized(in[0], size, 99, &out[4], &out[5], &out[6], &out[7]);
}

static void read_as_f64(kiln_tensor *t, double *v)
{
    if (kiln_numel(t)) read_all(t, v);
}

// The first of what there is, then the fill.
static void expect_rows(kiln_tensor *got, kiln_tensor *want, int64_t size, int64_t width, double fill)
{
    double g[8 * N * 2], w[8 * N * 2];
    int64_t n = kiln_numel(want) && width ? kiln_numel(want) / width : 0;
    assert_int_equal(kiln_dim(got, 0), size);
    assert_int_equal(kiln_numel(got), size * width);
    assert_int_equal(kiln_tensor_dtype(got), kiln_tensor_dtype(want));
    read_as_f64(got, g);
    read_as_f64(want, w);
    for (int64_t i = 0; i < size * width; i++) {
        double right = i < n * width ? w[i] : fill;
        if (g[i] != right) print_error("element %d is %g, not %g\n", (int)i, g[i], right);
        assert_true(g[i] == right);
    }
}

static void agrees(struct fixture *f, kiln_tensor *const *in, kiln_tensor *const *out, int64_t size)
{
    int64_t rank = (int64_t)kiln_rank(in[0]);
    kiln_tensor *places = kiln_nonzero(in[0]), *some = kiln_masked_select(in[0], in[1]), *values, *inverse, *counts;
    ok(kiln_unique(in[0], &values, &inverse, &counts));
    if (rank) expect_rows(out[0], places, size, rank, -7);
    expect_rows(out[2], some, size, 1, 99);
    expect_rows(out[4], values, size, 1, 99);
    expect_rows(out[6], counts, size, 1, 0);
    assert_int_equal(kiln_item_int(out[1]), kiln_dim(places, 0));
    assert_int_equal(kiln_item_int(out[3]), kiln_numel(some));
    assert_int_equal(kiln_item_int(out[7]), kiln_numel(values));
    double of[N], is[N];
    read_as_f64(inverse, of);
    read_as_f64(out[5], is);
    assert_int_equal(kiln_numel(out[5]), kiln_numel(in[0]));
    for (int64_t i = 0; i < kiln_numel(inverse); i++) assert_true(of[i] < size ? is[i] == of[i] : is[i] >= size);
}

static void results_are_those_of_any_size(void **state)
{
    static const struct {
        size_t rank;
        int64_t dims[3];
    } shapes[] = {{1, {N}}, {2, {5, 6}}, {3, {2, 3, 4}}, {0, {0}}, {2, {0, 3}}, {1, {1}}};
    static const kiln_dtype dtypes[] = {KILN_F32, KILN_I64, KILN_F16};
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS; cell++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
            for (int64_t size = 0; size <= 40; size += size < 4 ? 1 : 12) {
                kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, select_all, &size);
                for (uint32_t t = 0; t < 3; t++) {
                    kiln_scope *s = kiln_scope_begin();
                    kiln_tensor *out[8],
                        *in[] = {numbers(f, dtypes[(k + t) % 3], shapes[k].rank, shapes[k].dims, 5, t), NULL};
                    in[1] =
                        kiln_greater(numbers(f, KILN_F32, shapes[k].rank, shapes[k].dims, 2, t + 10), kiln_scalar(0.5));
                    ok(j ? kiln_call(j, in, 2, out, 8) : select_all(&size, in, 2, out, 8));
                    agrees(f, in, out, size);
                    kiln_scope_end(&s);
                }
                kiln_function_free(&j);
            }
}

// --- gradients

static int64_t room;

static kiln_status some_squared(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *values, *mask = kiln_greater(in[0], kiln_scalar(1.5));
    TRY_(kiln_masked_select_sized(in[0], mask, room, 0, &values, NULL));
    out[0] = kiln_sum(kiln_square(values), NULL);
    return kiln_error();
}

static void gradients_are_of_what_was_found(void **state)
{
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS; cell++)
        for (room = 1; room < 6; room += 2) {
            kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, some_squared, NULL);
            kiln_tensor *x = vec(f, 5, 2, 1, 3, 0, 4), *y;
            ok(kiln_set_requires_grad(x, true));
            ok(j ? kiln_call(j, &x, 1, &y, 1) : some_squared(NULL, &x, 1, &y, 1));
            ok(kiln_backward(y, NULL));
            expect(y, 1, room == 1 ? 4. : 29.);
            expect(kiln_gradient(x), 5, 4., 0., room == 1 ? 0. : 6., 0., room == 1 ? 0. : 8.);
            kiln_function_free(&j);
        }
}

// One graph, whatever the values: no break, no capture more.
static void graphs_hold_them(void **state)
{
    struct fixture *f = *state;
    int64_t size = 6;
    for (int c = KILN_CAPTURE_STRICT; c <= KILN_CAPTURE_TRACE; c++) {
        kiln_function *j = kiln_jit(select_all, &size, KILN_JIT(.capture = (kiln_capture)c));
        for (uint32_t t = 0; t < 6; t++) {
            kiln_scope *s = kiln_scope_begin();
            kiln_tensor *out[8], *in[] = {numbers(f, KILN_F32, 1, (int64_t[]){N}, 5, t), NULL};
            in[1] = kiln_greater(in[0], kiln_scalar((double)t));
            ok(kiln_call(j, in, 2, out, 8));
            agrees(f, in, out, size);
            kiln_scope_end(&s);
        }
        assert_int_equal(stats_of(j).captures, 1);
        assert_int_equal(stats_of(j).breaks, 0);
        kiln_function_free(&j);
    }
}

static void wrong_arguments(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 3, 1, 2, 3), *mask = kiln_greater(x, kiln_scalar(1)), *a = NULL, *b = NULL;
    fails(kiln_nonzero_sized(x, -1, 0, &a, &b), KILN_E_ARGUMENT, "nonzero_sized: size is -1");
    fails(kiln_nonzero_sized(x, INT64_MAX, 0, &a, &b), KILN_E_ARGUMENT, "nonzero_sized: size is 9223372036854775807");
    fails(kiln_nonzero_sized(x, INT64_MAX / 16, 0, &a, &b), KILN_E_DEVICE_MEMORY, "nonzero_sized: ");
    fails(kiln_nonzero_sized(NULL, 1, 0, &a, &b), KILN_E_ARGUMENT, "nonzero_sized: x is NULL");
    fails(kiln_masked_select_sized(x, x, 1, 0, &a, &b), KILN_E_DTYPE,
          "masked_select_sized: mask must be bool, it is f32[3]");
    fails(kiln_masked_select_sized(x, kiln_narrow(mask, 0, 0, 2), 1, 0, &a, &b), KILN_E_SHAPE,
          "masked_select_sized: shapes do not broadcast: x is f32[3], mask is bool[2]");
    fails(kiln_masked_select_sized(x, NULL, 1, 0, &a, &b), KILN_E_ARGUMENT, "masked_select_sized: mask is NULL");
    fails(kiln_unique_sized(x, -5, 0, &a, NULL, NULL, &b), KILN_E_ARGUMENT, "unique_sized: size is -5");
    assert_null(a);
    assert_null(b);
    ok(kiln_unique_sized(x, 2, 0, NULL, NULL, NULL, &b));
    assert_int_equal(kiln_item_int(b), 3);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(results_are_those_of_any_size),
        FIXTURE(gradients_are_of_what_was_found),
        FIXTURE(graphs_hold_them),
        FIXTURE(wrong_arguments),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
