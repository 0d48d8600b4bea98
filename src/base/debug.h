// The switches of KILN_DEBUG that take values, see base/debug.def; base.h has debug_flag for the others.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// The values that a switch was given, one a call; false after the last. *at is 0 at first.
bool debug_value(const char *name, size_t *at, char *out, size_t size_B);
