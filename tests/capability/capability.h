// What the tests of capabilities share: devices, tensors from numbers, comparisons. Each capability has one test, named
// capability_NN after its row; main.c runs the one that is asked for, in a process of its own.
#pragma once
#include <kiln/debug.h>
#include <kiln/kiln.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// clang-format off
#define CAPABILITIES(X) \
    X(01) X(02) X(03) X(04) X(05) X(06) X(07) X(08) X(09) X(10) X(11) X(12) \
    X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) \
    X(25) X(26) X(27) X(28) X(29) X(30) X(31) X(32) X(33) X(34) X(35) X(36) \
    X(37) \
    X(38) X(39) X(40) X(41) X(42) X(43) X(44) X(45) X(46) X(47) X(48) X(49) \
    X(50) X(51) X(52) X(53) X(54) X(55) X(56) X(57) X(58) X(59) X(60) X(61) \
    X(62) X(63) X(64) X(bundle_gradients) X(fallback) \
    X(65) X(67) X(68) X(69) X(70) X(71) X(72) X(11_fused) X(11_bool) X(11_long)
// clang-format on
#define DECLARE(nn) void capability_##nn(void **state);
CAPABILITIES(DECLARE)
#undef DECLARE

// The devices that compute, opened at first use and closed at the end. vulkan() is NULL where there is no driver; the
// reason is printed then, once.
kiln_device *cpu(void);
kiln_device *vulkan(void);
// Calls fn once a device, with the device as the thread's default and a scope open; no storage may be left after it.
void on_each_device(void (*fn)(kiln_device *dev));

kiln_device_stats stats_of(kiln_device *dev);
kiln_jit_stats jit_stats_of(const kiln_function *f);
char *explanation_of(kiln_function *f); // to be freed
void must(kiln_status status);          // fails the test with the pending error
// This program again with one test and its environment changed: KILN_TEST_CHILD is set, and the variables, which are
// pairs of name and value, NULL at the end.
void run_child(const char *test, const char *what, const char *const *variables);
bool fuses(kiln_device *dev); // kernels are compiled for it in this build
int glsl_compilations(void);  // by glslang, in this process
// What the library warned of since, joined.
extern char warned[4096];
void listen_to_log(void);

kiln_function *automatic(kiln_fn fn, void *user); // captured by AUTO

// An f32 tensor from numbers.
kiln_tensor *from(kiln_device *dev, const double *v, size_t rank, const int64_t *dims);
#define NUMBERS(...) \
    (const double[]) \
    {                \
        __VA_ARGS__  \
    }

// Fails the test unless t holds these values within a relative tolerance.
void expect_values(kiln_tensor *t, double tolerance, size_t n, const double *want, int line);
#define EXPECT(t, tolerance, ...) \
    expect_values(t, tolerance, sizeof(NUMBERS(__VA_ARGS__)) / sizeof(double), NUMBERS(__VA_ARGS__), __LINE__)
// Fails unless both have the same type and, to a small relative tolerance, the same values.
void expect_same(kiln_tensor *got, kiln_tensor *want, const char *what);
// Fails unless this error is pending with a text that holds all of these; clears it.
void expect_error_text(kiln_status code, const char *const *parts, int line);
#define EXPECT_ERROR(code, ...) expect_error_text(code, (const char *const[]){__VA_ARGS__, NULL}, __LINE__)
#define EXPECT_NO_ERROR()       assert_string_equal(kiln_error_message(), "")
