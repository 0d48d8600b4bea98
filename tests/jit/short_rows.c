// Folds over short rows that many points read: each row of one matrix with each of another. Captured and eager, values
// and gradients are those of a loop in f64, for sizes about those of vectors, and none. And what is transposed by
// tiles.
#include "jit_fixture.h"
#include <kiln/grad.h>

static const struct sizes {
    int64_t m, n, k;
} sizes[] = {{1, 1, 1},   {2, 3, 2},    {5, 16, 3},   {64, 17, 16}, {65, 131, 15}, {7, 64, 17}, {3, 31, 64},
             {67, 29, 5}, {129, 15, 7}, {11, 33, 65}, {0, 7, 4},    {7, 0, 4},     {4, 5, 0}};
static const struct sizes *now;

enum { MOST_NUMBERS = 1030 * 250 };
static double a[MOST_NUMBERS], b[MOST_NUMBERS], want[MOST_NUMBERS * 2], got[MOST_NUMBERS * 2];

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

static kiln_tensor *differences(kiln_tensor *const *in)
{
    return kiln_sub(kiln_unsqueeze(in[0], 1), kiln_unsqueeze(in[1], 0));
}

FN(squares)
{
    kiln_tensor *d = differences(in);
    out[0] = kiln_sum(kiln_mul(d, d), KILN_REDUCE(.axes = KILN_AXES(-1)));
    return kiln_error();
}

FN(farthest)
{
    out[0] = kiln_max(kiln_abs(differences(in)), KILN_REDUCE(.axes = KILN_AXES(-1)));
    return kiln_error();
}

FN(soft)
{
    out[0] = kiln_logsumexp(differences(in), KILN_REDUCE(.axes = KILN_AXES(-1)));
    return kiln_error();
}

static double reference(int which, const double *x, const double *y)
{
    double sum = 0, most = -INFINITY;
    for (int64_t i = 0; i < now->k; i++) {
        double d = x[i] - y[i];
        most = fmax(most, fabs(d));
        sum += which == 2 ? exp(d) : d * d;
    }
    return which == 0 ? sum : which == 1 ? most : log(sum);
}

static kiln_tensor *numbers(struct fixture *f, kiln_dtype dtype, double *v, int64_t rows, bool strided, int seed)
{
    int64_t k = now->k, width = strided ? k + 3 : k;
    double all[MOST_NUMBERS] = {0};
    for (int64_t i = 0; i < rows * k; i++) {
        v[i] = (double)((i * 7919 + seed * 131) % 211 - 105) / 64; // exact in every dtype
        all[i / k * width + i % k] = v[i];
    }
    const int64_t dims[] = {rows, width};
    kiln_tensor *t = kiln_cast(kiln_from_data(f->dev, KILN_F64, 2, dims, all), dtype);
    return strided ? kiln_narrow(t, 1, 0, k) : t;
}

static void compare(const char *name, kiln_tensor *t, double by)
{
    int64_t n = now->m * now->n;
    assert_int_equal(kiln_numel(t), n);
    ok(kiln_read(kiln_cast(t, KILN_F64), got, sizeof(double) * (size_t)n));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= by * (1 + fabs(want[i])) || got[i] == want[i]))
            fail_msg("%s, %d by %d rows of %d: element %d is %g, not %g", name, (int)now->m, (int)now->n, (int)now->k,
                     (int)i, got[i], want[i]);
}

static const struct {
    const char *name;
    kiln_fn fn;
} functions[] = {{"squares", squares}, {"farthest", farthest}, {"soft", soft}};

static void check(struct fixture *f, int which, kiln_dtype dtype)
{
    kiln_scope *s = kiln_scope_begin();
    kiln_tensor *in[2], *out;
    double by = dtype == KILN_F64 ? 1e-13 : dtype == KILN_BF16 ? 2e-2 : 1e-5;
    kiln_function *j = kiln_jit(functions[which].fn, NULL, NULL);
    for (int strided = 0; strided < 2; strided++) {
        in[0] = numbers(f, dtype, a, now->m, false, 1);
        in[1] = numbers(f, dtype, b, now->n, strided, 2);
        for (int64_t i = 0; i < now->m * now->n; i++)
            want[i] = reference(which, a + i / now->n * now->k, b + i % now->n * now->k);
        ok(functions[which].fn(NULL, in, 2, &out, 1));
        compare(functions[which].name, out, by);
        ok(kiln_call(j, in, 2, &out, 1));
        compare(functions[which].name, out, by);
    }
    kiln_function_free(&j);
    kiln_scope_end(&s);
}

static void of_every_size(void **state)
{
    static const kiln_dtype dtypes[] = {KILN_F32, KILN_F64, KILN_BF16};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int which = 0; which < 3; which++) {
            now = &sizes[i];
            if (which == 1 && !now->k) continue; // has no largest
            check(*state, which, KILN_F32);
            if (i % 3 == 0) check(*state, which, dtypes[1 + i / 3 % 2]);
        }
}

// The gradient of the squares with regard to row i of a is 2 sum over j of (a_i - b_j).
static void with_gradients(void **state)
{
    struct fixture *f = *state;
    now = &sizes[4];
    for (int captured = 0; captured < 2; captured++) {
        kiln_function *j = kiln_jit(squares, NULL, NULL);
        kiln_tensor *in[2] = {numbers(f, KILN_F32, a, now->m, false, 1), numbers(f, KILN_F32, b, now->n, true, 2)};
        kiln_tensor *out;
        for (int i = 0; i < 2; i++) kiln_set_requires_grad(in[i], true);
        ok(captured ? kiln_call(j, in, 2, &out, 1) : squares(NULL, in, 2, &out, 1));
        ok(kiln_backward(kiln_sum(out, NULL), NULL));
        ok(kiln_read(kiln_cast(kiln_gradient(in[0]), KILN_F64), got, sizeof(double) * (size_t)(now->m * now->k)));
        for (int64_t i = 0; i < now->m * now->k; i++) {
            double sum = 0;
            for (int64_t r = 0; r < now->n; r++) sum += 2 * (a[i] - b[r * now->k + i % now->k]);
            assert_true(fabs(got[i] - sum) <= 1e-4 * (1 + fabs(sum)));
        }
        kiln_function_free(&j);
    }
}

FN(turned)
{
    out[0] = kiln_add(kiln_mul(kiln_transpose(in[0], 0, 1), kiln_scalar(2)), in[1]);
    return kiln_error();
}

static void turn(struct fixture *f, kiln_function *j, kiln_dtype dtype, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m * n; i++) a[i] = (double)(i % 509), b[i] = (double)(i % 61);
    kiln_scope *s = kiln_scope_begin();
    kiln_tensor *x = kiln_cast(kiln_from_data(f->dev, KILN_F64, KILN_SHAPE(m, n), a), dtype);
    kiln_tensor *y = kiln_cast(kiln_from_data(f->dev, KILN_F64, KILN_SHAPE(n, m), b), dtype), *out;
    ok(kiln_call(j, (kiln_tensor *[]){x, y}, 2, &out, 1));
    ok(kiln_read(kiln_cast(out, KILN_F64), got, sizeof(double) * (size_t)(m * n)));
    for (int64_t i = 0; i < m * n; i++) assert_true(got[i] == 2 * a[i % m * n + i / m] + b[i]);
    kiln_scope_end(&s);
}

// What lies across the vectors is transposed by tiles, of which the last ones are of any height and width.
static void tiles_of_any_size(void **state)
{
    enum { MOST = 37 };
    static const int64_t many[] = {1, 17, 127, 128, 129, 144, 250, 513, 1030}; // about a tile, and steps of it
    const kiln_dtype dtypes[] = {KILN_F32, KILN_F64, KILN_F16};
    kiln_function *j = kiln_jit(turned, NULL, NULL);
    for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++) {
        for (int64_t m = 1; m <= MOST; m++)
            for (int64_t n = 1; n <= MOST; n += m % 3 + 1) turn(*state, j, dtypes[t], m, n);
        for (size_t m = 0; m < sizeof many / sizeof *many; m++)
            for (size_t n = 0; n < sizeof many / sizeof *many; n++)
                if (many[m] * many[n] <= MOST_NUMBERS) turn(*state, j, dtypes[t], many[m], many[n]);
    }
    kiln_function_free(&j);
}

// Every second lies as the result does: were most transposed, vectors would lie along those.
FN(many_turned)
{
    out[0] = kiln_transpose(in[0], 0, 1);
    for (size_t i = 1; i < n_in; i++) out[0] = kiln_add(out[0], i % 2 ? in[i] : kiln_transpose(in[i], 0, 1));
    return kiln_error();
}

// Tiles of many inputs are lower: together they fit the first cache.
static void tiles_of_many_inputs(void **state)
{
    enum { MANY = 24, M = 150, N = 139 };
    struct fixture *f = *state;
    kiln_tensor *in[MANY], *out;
    for (size_t n = 2; n <= MANY; n += 2) {
        kiln_function *j = kiln_jit(many_turned, NULL, NULL);
        for (int64_t k = 0; k < (int64_t)n; k++) {
            for (int64_t i = 0; i < M * N; i++) a[i] = (double)((i + k) % 509);
            in[k] = kiln_cast(kiln_from_data(f->dev, KILN_F64, KILN_SHAPE(k % 2 ? N : M, k % 2 ? M : N), a), KILN_F32);
        }
        ok(kiln_call(j, in, n, &out, 1));
        ok(kiln_read(kiln_cast(out, KILN_F64), got, sizeof(double) * M * N));
        for (int64_t i = 0; i < M * N; i++) {
            double sum = 0;
            for (int64_t k = 0; k < (int64_t)n; k++) sum += (double)(((k % 2 ? i : i % M * N + i / M) + k) % 509);
            assert_true(got[i] == sum);
        }
        kiln_function_free(&j);
    }
}

int main(void)
{
    if (choose_device(0, NULL)) return 77;
    const struct CMUnitTest tests[] = {FIXTURE(of_every_size), FIXTURE(with_gradients), FIXTURE(tiles_of_any_size),
                                       FIXTURE(tiles_of_many_inputs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
