// What the tests of fusion share: the CPU, a Vulkan device where there is one, and which of them is under test.
#pragma once
#include "program/program.h"
#include "tensor/graph.h"
#include <kiln/kiln.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kiln_device *cpu, *vulkan, *dev; // dev: the one under test

static inline int set_up(void **unused)
{
    dev = cpu = kiln_device_open("cpu");
    vulkan = kiln_device_open("vulkan");
    if (!vulkan) kiln_error_clear();
    return cpu ? 0 : -1;
}

static inline int tear_down(void **unused)
{
    kiln_device_close(&vulkan);
    kiln_device_close(&cpu);
    return 0;
}

// With Vulkan as the device under test; skipped where there is none.
static inline void use_vulkan(void)
{
    if (!vulkan) {
        print_message("skipped: there is no Vulkan device\n");
        skip();
    }
    dev = vulkan;
}
