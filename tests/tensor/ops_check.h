// What tests of ops on one device share: tensors compared with host values, errors, a scope for each test.
#pragma once
#include <kiln/kiln.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kiln_device *dev;

static inline void check_ok(const char *file, int line)
{
    if (!kiln_error()) return;
    char text[1024];
    snprintf(text, sizeof text, "%s", kiln_error_message());
    kiln_error_clear();
    print_error("%s:%d: %s\n", file, line, text);
    fail();
}
#define OK() check_ok(__FILE__, __LINE__)

static inline int64_t count_of(kiln_tensor *t)
{
    return kiln_numel(t);
}

static inline void expect_shape(kiln_tensor *t, size_t rank, const int64_t *dims, const char *file, int line)
{
    check_ok(file, line);
    _assert_int_equal(kiln_rank(t), rank, file, line);
    for (size_t i = 0; i < rank; i++) _assert_int_equal(kiln_dims(t)[i], dims[i], file, line);
}
#define EXPECT_SHAPE(t, ...) expect_shape(t, KILN_SHAPE(__VA_ARGS__), __FILE__, __LINE__)

// Compares with host values of f32, i32 or i64, by the tensor's dtype; NaN equals NaN.
static inline void expect_values(kiln_tensor *t, const double *want, int64_t n, double tolerance, const char *file,
                                 int line)
{
    check_ok(file, line);
    _assert_int_equal(count_of(t), n, file, line);
    kiln_scope *s = kiln_scope_begin();
    kiln_tensor *wide = kiln_cast(t, KILN_F64);
    double *got = malloc((size_t)n * 8 + 8);
    kiln_read(wide, got, (size_t)n * 8);
    check_ok(file, line);
    for (int64_t i = 0; i < n; i++) {
        bool same = got[i] == want[i] || (isnan(got[i]) && isnan(want[i])) ||
                    fabs(got[i] - want[i]) <= tolerance * (1 + fabs(want[i]));
        if (same) continue;
        print_error("%s:%d: element %lld is %.17g, expected %.17g\n", file, line, (long long)i, got[i], want[i]);
        free(got);
        fail();
    }
    free(got);
    kiln_scope_end(&s);
}
#define EXPECT(t, want, n)                 expect_values(t, want, n, 0, __FILE__, __LINE__)
#define EXPECT_NEAR(t, want, n, tolerance) expect_values(t, want, n, tolerance, __FILE__, __LINE__)
#define EXPECT_LIST(t, ...) \
    EXPECT(t, ((const double[]){__VA_ARGS__}), (int64_t)(sizeof((const double[]){__VA_ARGS__}) / 8))

static inline void expect_failure(kiln_status status, const char *op, const char *file, int line)
{
    _assert_int_equal(kiln_error(), status, file, line);
    if (strncmp(kiln_error_message(), op, strlen(op))) print_error("%s\n", kiln_error_message());
    _assert_int_equal(strncmp(kiln_error_message(), op, strlen(op)), 0, file, line);
    kiln_error_clear();
}
#define EXPECT_FAILURE(status, op) expect_failure(status, op, __FILE__, __LINE__)

// Runs in a scope of its own.
#define TEST_BODY(name)                     \
    static void name##_body(void);          \
    static void name(void **state)          \
    {                                       \
        (void)state;                        \
        kiln_scope *s = kiln_scope_begin(); \
        name##_body();                      \
        OK();                               \
        kiln_scope_end(&s);                 \
    }                                       \
    static void name##_body(void)

// argv[1]: the device, "cpu" when left out; argv[2]: which tests. 77 tells Meson that there is none: a machine may lack
// a driver, or a level of instructions.
static inline int run_on_device(int argc, char **argv, const struct CMUnitTest *tests, size_t n)
{
    const char *name = argc > 1 ? argv[1] : "cpu";
    dev = kiln_device_open(name);
    if (!dev) {
        print_message("%s\n", kiln_error_message());
        return strcmp(name, "cpu") || getenv("KILN_CPU_ISA") ? 77 : 1;
    }
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    int failed = _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
    kiln_device_close(&dev);
    return failed;
}
