// What a call of a captured function takes, as far as somebody has measured it.
#pragma once
#include <kiln/jit.h>

// Of the program used last. f is alive.
void function_note_time(kiln_function *f, double median_ns, uint64_t runs);
