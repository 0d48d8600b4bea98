// Functions in the place of others, by the linker.
#pragma once
#include "faults.h"

#include <errno.h>

// WRAP(type, name, parameters): the function in the place of `name`, and the real one.
#define WRAP(type, name, ...)        \
    type __real_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__)
#define FAIL(kind, number, value) \
    do {                          \
        if (fault_is_due(kind)) { \
            errno = number;       \
            return value;         \
        }                         \
    } while (0)
#define SITE __builtin_return_address(0)
