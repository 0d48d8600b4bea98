// What the tests of gradients of single values share, beside grad_fixture.h: short vectors, and what is expected.
#pragma once
#include "grad_fixture.h"

static const char *device_name;

static inline kiln_tensor *vec(size_t n, const float *v)
{
    return kiln_from_data(dev, KILN_F32, KILN_SHAPE((int64_t)n), v);
}
#define VEC(...)         vec(sizeof((float[]){__VA_ARGS__}) / sizeof(float), (float[]){__VA_ARGS__})
#define PARAM(name, ...) kiln_parameter(VEC(__VA_ARGS__), name)

static inline void expect(int line, kiln_tensor *t, size_t n, const double *want)
{
    if (!t) {
        print_error("line %d: no tensor: %s\n", line, kiln_error_message());
        fail();
    }
    assert_int_equal(kiln_numel(t), n);
    kiln_tensor *wide = kiln_cast(t, KILN_F64);
    double got[64];
    assert_int_equal(kiln_read(wide, got, n * sizeof *got), KILN_OK);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= 2e-6 * fmax(1, fabs(want[i])))) {
            print_error("line %d: element %zu is %.9g, expected %.9g\n", line, i, got[i], want[i]);
            fail();
        }
}
#define EXPECT(t, ...) expect(__LINE__, t, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

static inline void expect_error(int line, kiln_status code, const char *part)
{
    if (kiln_error() != code || !strstr(kiln_error_message(), part)) {
        print_error("line %d: %s \"%s\", expected %s with \"%s\"\n", line, kiln_status_name(kiln_error()),
                    kiln_error_message(), kiln_status_name(code), part);
        fail();
    }
    kiln_error_clear();
}
#define EXPECT_ERROR(code, part) expect_error(__LINE__, code, part)

// Opens the device that the command line names, else the CPU. 0; else the exit status: a named device may be missing.
static inline int open_device(int argc, char **argv)
{
    device_name = argc > 1 ? argv[1] : "cpu";
    dev = kiln_device_open(device_name);
    if (dev) return 0;
    fprintf(stderr, "%s\n", kiln_error_message());
    return argc > 1 ? 77 : 1;
}
