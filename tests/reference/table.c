// reference.def as functions and a table.
#include "reference/reference.h"
#include <kiln/ops.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wsign-compare"

#define REFERENCE(name, float_expr, int_expr, row_flags)                                                          \
    static long double float_of_##name(long double a, long double b, long double c, long double p, long double q) \
    {                                                                                                             \
        const long double x = a;                                                                                  \
        return float_expr;                                                                                        \
    }                                                                                                             \
    static int64_t int_of_##name(int64_t a, int64_t b, int64_t c, bool is_bool)                                   \
    {                                                                                                             \
        const int64_t x = a;                                                                                      \
        return int_expr;                                                                                          \
    }                                                                                                             \
    static uint64_t unsigned_of_##name(uint64_t a, uint64_t b, uint64_t c)                                        \
    {                                                                                                             \
        const uint64_t x = a;                                                                                     \
        const bool is_bool = false;                                                                               \
        return (uint64_t)(int_expr);                                                                              \
    }
#include "reference.def"
#undef REFERENCE

const struct reference references[] = {
#define REFERENCE(name, float_expr, int_expr, row_flags) \
    {#name, (void (*)(void))kiln_##name, float_of_##name, int_of_##name, unsigned_of_##name, row_flags},
#include "reference.def"
#undef REFERENCE
};
const int reference_count = (int)(sizeof references / sizeof references[0]);

const struct reference *reference_find(const char *name)
{
    for (int i = 0; i < reference_count; i++)
        if (strcmp(references[i].name, name) == 0) return &references[i];
    return NULL;
}
