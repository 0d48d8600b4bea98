// The tables as arrays: what the build's generator reads.
#include "ops/families.h"
#include "ops/family_fns.h"
#include "ops/row.h"

// a^b of integers by squares, bit by bit of b, which is 0 from some bit on; below 0 what is left of 1 / a^-b.
// clang-format off
#define POW_BIT(k, next) \
    "r" next " = (n" k " & 1) != 0 ? r" k " * p" k " : r" k "; p" next " = p" k " * p" k "; n" next " = n" k " >> 1;"
#define POW_BITS(k, next)                                                                                             \
    POW_BIT(k "0", k "1") POW_BIT(k "1", k "2") POW_BIT(k "2", k "3") POW_BIT(k "3", k "4") POW_BIT(k "4", k "5")      \
    POW_BIT(k "5", k "6") POW_BIT(k "6", k "7") POW_BIT(k "7", next "0")
#define POW_INTEGERS                                                                                                  \
    "p00 = a; n00 = b; r00 = 0 * a + 1;" POW_BITS("0", "1") POW_BITS("1", "2") POW_BITS("2", "3") POW_BITS("3", "4")   \
    POW_BITS("4", "5") POW_BITS("5", "6") POW_BITS("6", "7") POW_BITS("7", "8")                                        \
    "b >= 0 ? r80 : a == 1 ? 1 : a == -1 ? ((b & 1) != 0 ? -1 : 1) : 0"
// clang-format on

const struct elementwise_row elementwise_rows[] = {
#define UNARY(name, ...)   {#name, 1, {__VA_ARGS__}},
#define BINARY(name, ...)  {#name, 2, {__VA_ARGS__}},
#define TERNARY(name, ...) {#name, 3, {__VA_ARGS__}},
#include "ops/elementwise.def"
};
const int elementwise_row_count = (int)COUNT_OF(elementwise_rows);

const struct structured_row structured_rows[] = {
#define FN(infer, lower)                     infer, lower
#define VIEW_FN(infer, view)                 infer, NULL, view
#define VIEW_OR_COPY_FN(infer, lower, view)  infer, lower, view
#define REGIONS_FN(rule)                     .regions = &rule
#define STRUCTURED(row_name, functions, ...) {.name = #row_name, .fn = {functions}, __VA_ARGS__},
#include "ops/structured.def"
};
const int structured_row_count = (int)COUNT_OF(structured_rows);

const struct composite_row composite_rows[] = {
#define COMPOSITE(row_name, ...) {.name = #row_name, __VA_ARGS__},
#define DECLARED(...)
#include "ops/composites.def"
};
const int composite_row_count = (int)COUNT_OF(composite_rows);

const char *const onnx_texts[] = {
#define ONNX(text) text,
#include "ops/onnx.def"
};
const int onnx_text_count = (int)COUNT_OF(onnx_texts);

// 24 and 53 random bits as a number of [0, 1), and of [0, 2^53).
#define UNIT_F32(w)   "f32(shru(" w ", 8)) * 5.9604644775390625e-08"
#define BITS_53(w, q) "(f64(shru(" w ", 5)) * 67108864 + f64(shru(" q ", 6)))"
// Of a pair of normal numbers: r = sqrt(-2 log u) with u in (0, 1], and the cosine of an angle less `turn`.
#define RADIUS_F32(w)    "r = sqrt(-2 * log((f32(shru(" w ", 8)) + 1) * 5.9604644775390625e-08));"
#define RADIUS_F64(w, q) "r = sqrt(-2 * log((" BITS_53(w, q) " + 1) * 1.1102230246251565e-16));"
#define COSINE_F32(w)    "cos_near((" UNIT_F32(w) " - turn) * 6.283185307179586)"
#define COSINE_F64(w, q) "cos_near((" BITS_53(w, q) " * 1.1102230246251565e-16 - turn) * 6.283185307179586)"
// Root k of n of unity: v, its real part where p is 0, its imaginary part where p is 1. The angle is about an eighth of
// a turn at most from quarter q, so that it is not rounded; which quarter is taken in the middle between two is the
// same.
#define UNIT_ROOT(k, n)                                                                      \
    "q = i64($T(4 * " k ") / $T(" n ") + 0.5); r = 4 * " k " - q * " n "; t = $T(r) / $T(" n \
    ") * 1.57079632679489661923; c = cos_near(t); z = sin_near(t); s = q - p; "              \
    "v = s == 0 || s == 4 ? c : s == 2 ? -c : s == 1 ? -z : z; "
const struct kernel_row kernel_rows[] = {
#define POINTWISE_KERNEL(row_name, ...) {.name = #row_name, .kind = KERNEL_POINTWISE, __VA_ARGS__},
#define ROW_KERNEL(row_name, ...)       {.name = #row_name, .kind = KERNEL_ROW, __VA_ARGS__},
#define CUSTOM_KERNEL(row_name, ...)    {.name = #row_name, .kind = KERNEL_CUSTOM, __VA_ARGS__},
#include "ops/kernels.def"
};
const int kernel_row_count = (int)COUNT_OF(kernel_rows);
