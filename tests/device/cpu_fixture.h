// What the tests of the CPU's kernels share: the device.
#pragma once
#include <kiln/kiln.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kiln_device *dev;

static inline int open_device(void **state)
{
    dev = kiln_device_open("cpu");
    return dev ? 0 : -1;
}

static inline int close_device(void **state)
{
    kiln_device_close(&dev);
    return 0;
}

// Whether $KILN_CPU_ISA names instructions that this machine lacks: then the runner is told that the test was skipped.
enum { TEST_SKIPPED = 77 };
static inline bool lacks_instructions(void)
{
    kiln_device *probe = kiln_device_open("cpu");
    bool lacks = !probe && getenv("KILN_CPU_ISA");
    if (lacks) kiln_error_clear();
    kiln_device_close(&probe);
    return lacks;
}
