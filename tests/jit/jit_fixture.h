// What the tests of captured functions share: a device and a scope a test, small tensors, comparisons.
#pragma once
#include <kiln/kiln.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *jit_device = "cpu";

// From the command line. True: that device is not there, and the tests are skipped.
static inline bool choose_device(int argc, char **argv)
{
    if (argc > 1) jit_device = argv[1];
    kiln_device *dev = kiln_device_open(jit_device);
    bool missing = !dev && (kiln_error() == KILN_E_MISSING || kiln_error() == KILN_E_ARGUMENT);
    kiln_error_clear();
    kiln_device_close(&dev);
    return missing;
}

struct fixture {
    kiln_device *dev;
    kiln_scope *scope;
    uint64_t tensors;
};

static inline int setup(void **state)
{
    static struct fixture f;
    f.dev = kiln_device_open(jit_device);
    if (!f.dev) return -1;
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(f.dev, &s);
    f.tensors = s.tensors;
    f.scope = kiln_scope_begin();
    *state = &f;
    return 0;
}

// Nothing may be left: no error, no storage.
static inline int teardown(void **state)
{
    if (kiln_error()) print_error("left: %s\n", kiln_error_message());
    bool failed = kiln_error();
    kiln_error_clear();
    struct fixture *f = *state;
    kiln_scope_end(&f->scope);
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(f->dev, &s);
    if (s.tensors != f->tensors) print_error("%llu storages are left\n", (unsigned long long)(s.tensors - f->tensors));
    bool left = s.tensors != f->tensors;
    kiln_device_close(&f->dev);
    return failed || left ? -1 : 0;
}

#define FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define TRY_(expr)                       \
    do {                                 \
        if ((expr)) return kiln_error(); \
    } while (0)

static inline void ok(kiln_status status)
{
    if (status) print_error("%s\n", kiln_error_message());
    assert_int_equal(status, KILN_OK);
}

static inline void fails(kiln_status status, kiln_status want, const char *part)
{
    if (status != want || !strstr(kiln_error_message(), part))
        print_error("got %s: %s\n", kiln_status_name(status), kiln_error_message());
    assert_int_equal(status, want);
    assert_non_null(strstr(kiln_error_message(), part));
    kiln_error_clear();
}

static inline void count_run(void *user)
{
    if (user) ++*(int *)user;
}

static inline kiln_tensor *from_args(struct fixture *f, size_t rank, const int64_t *dims, va_list args)
{
    float v[64];
    int64_t n = 1;
    for (size_t i = 0; i < rank; i++) n *= dims[i];
    for (int64_t i = 0; i < n; i++) v[i] = (float)va_arg(args, double);
    return kiln_from_data(f->dev, KILN_F32, rank, dims, v);
}

// Values are written as doubles or, with vec, as integers.
#define vec(f, n, ...) vec_((f), (n), (const double[]){__VA_ARGS__})
static inline kiln_tensor *vec_(struct fixture *f, int64_t n, const double *values)
{
    float v[64];
    for (int64_t i = 0; i < n; i++) v[i] = (float)values[i];
    return kiln_from_data(f->dev, KILN_F32, 1, &n, v);
}

static inline kiln_tensor *mat(struct fixture *f, int64_t rows, int64_t cols, ...)
{
    va_list args;
    va_start(args, cols);
    kiln_tensor *t = from_args(f, 2, (const int64_t[]){rows, cols}, args);
    va_end(args);
    return t;
}

static inline void read_all(kiln_tensor *t, double *v)
{
    kiln_scope *s = kiln_scope_begin();
    kiln_tensor *wide = kiln_cast(t, KILN_F64);
    ok(kiln_read(wide, v, (size_t)kiln_numel(t) * sizeof *v));
    kiln_scope_end(&s);
}

static inline bool equal(kiln_tensor *a, kiln_tensor *b)
{
    double x[256], y[256];
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(kiln_numel(a), kiln_numel(b));
    assert_int_equal(kiln_tensor_dtype(a), kiln_tensor_dtype(b));
    read_all(a, x);
    read_all(b, y);
    // A fold may add in another order: an element that nearly cancels is measured by the largest.
    double largest = 0;
    for (int64_t i = 0; i < kiln_numel(a); i++)
        if (fabs(y[i]) > largest && !isinf(y[i])) largest = fabs(y[i]);
    for (int64_t i = 0; i < kiln_numel(a); i++) {
        bool close = x[i] == y[i] || fabs(x[i] - y[i]) <= 1e-6 * fabs(y[i]) + 3e-7 * largest + 1e-12;
        if (!close && !(isnan(x[i]) && isnan(y[i]))) return false;
    }
    return true;
}

static inline void near(kiln_tensor *a, kiln_tensor *b, double by)
{
    double x[256], y[256];
    assert_non_null(a);
    assert_int_equal(kiln_numel(a), kiln_numel(b));
    read_all(a, x);
    read_all(b, y);
    for (int64_t i = 0; i < kiln_numel(a); i++) {
        bool close = fabs(x[i] - y[i]) <= by * (1 + fabs(y[i]));
        if (!close) print_error("element %d is %.9g, not %.9g\n", (int)i, x[i], y[i]);
        assert_true(close);
    }
}

static inline void same(kiln_tensor *a, kiln_tensor *b)
{
    if (!equal(a, b)) {
        kiln_print(a, stderr);
        kiln_print(b, stderr);
    }
    assert_true(equal(a, b));
}

static inline void expect(kiln_tensor *t, int n, ...)
{
    double v[256];
    va_list args;
    assert_non_null(t);
    assert_int_equal(kiln_numel(t), n);
    read_all(t, v);
    va_start(args, n);
    for (int i = 0; i < n; i++) {
        double want = va_arg(args, double);
        if (!(fabs(v[i] - want) <= 1e-6 * fabs(want))) print_error("element %d is %.9g, not %.9g\n", i, v[i], want);
        assert_true(fabs(v[i] - want) <= 1e-6 * fabs(want));
    }
    va_end(args);
}

static inline kiln_function *automatic(kiln_fn fn, void *user)
{
    return kiln_jit(fn, user, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
}

static inline kiln_jit_stats stats_of(const kiln_function *f)
{
    kiln_jit_stats s = {.size = sizeof s};
    kiln_function_stats(f, &s);
    return s;
}

static inline uint64_t launches_of(struct fixture *f)
{
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(f->dev, &s);
    return s.launches;
}

static inline kiln_status two_ops(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_exp(kiln_add(in[0], in[0]));
    return kiln_error();
}

// Whether programs run fused kernels here: not without a compiler, nor node by node.
static inline bool fuses(struct fixture *f)
{
    kiln_scope *s = kiln_scope_begin();
    kiln_function *j = kiln_jit(two_ops, NULL, NULL);
    kiln_tensor *x = vec(f, 2, 1, 2), *out = NULL;
    ok(kiln_call(j, &x, 1, &out, 1));
    uint64_t before = launches_of(f);
    ok(kiln_call(j, &x, 1, &out, 1));
    bool one = launches_of(f) - before == 1;
    kiln_function_free(&j);
    kiln_scope_end(&s);
    return one;
}
