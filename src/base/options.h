// Structs of callers that begin with their size.
#pragma once
#include "base/base.h"
#include <kiln/macros.h>

// Copies the options of a public function, made with `macro`: NULL is none, what the caller's struct lacks is zero. A
// size that was not set is an error, and *dst is all zero then.
#define options_read(function, macro, dst, src) options_read_as(function, #macro, dst, sizeof *(dst), src)
kiln_status options_read_as(const char *function, const char *macro, void *dst, size_t size_B, const void *src);
// The same for a struct whose size the caller sets: NULL and a size that was not set are errors.
#define sized_check(function, type, s) sized_check_as(function, #s, #type, s)
kiln_status sized_check_as(const char *function, const char *argument, const char *type, const void *s);
void sized_fill(void *out, const void *src, size_t size_B); // all but the size; both begin with one

// Sizes along n axes, up to 3, none of which can be zero: the first without the others stands for all, as one number in
// C without braces is. Some of the others without the rest are an error; `field` names them in it.
kiln_status options_spread(const char *function, const char *field, int64_t *v, int n);

// An option whose zero means a default and KILN_ZERO zero.
static inline double option_or(double v, double fallback)
{
    return v == 0 ? fallback : v == KILN_ZERO ? 0 : v;
}
