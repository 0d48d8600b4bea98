// What the tests of gradients share: one device for all tests of a program, a scope a test.
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
static kiln_scope *scope;

static inline int group_teardown(void **state)
{
    kiln_device_close(&dev);
    return kiln_error() ? -1 : 0;
}

static inline int setup(void **state)
{
    scope = kiln_scope_begin();
    return scope ? 0 : -1;
}

static inline int teardown(void **state)
{
    kiln_scope_end(&scope);
    if (!kiln_error()) return 0;
    print_error("pending: %s\n", kiln_error_message());
    kiln_error_clear();
    return -1;
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

// A function whose gradient is taken.
#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
