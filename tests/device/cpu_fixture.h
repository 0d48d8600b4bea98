// What the tests of the CPU's kernels share: the device.
#pragma once
#include <kiln/kiln.h>
#include <setjmp.h>
#include <stdarg.h>
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
