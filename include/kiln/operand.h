/// @file operand.h
/// Plain numbers as operands: `kiln_sub(kiln_mul(x, 3), 1)`, `kiln_where(mask, x, 0)`, `kiln_mul_(p, 0.5)`.
///
/// In C with gcc or clang each elementwise op of two or three operands is a macro, too, that takes numbers where it
/// takes tensors. A number is what kiln_scalar and its kin make of it: an integer of C is a weak integer, a float a
/// weak float, a bool a weak bool; no handle is made for it. By some numbers kiln_pow is another op, as it says. Where
/// all operands are tensors the macro is the function. Any other type does not compile. `&kiln_mul` and `kiln_mul`
/// without parentheses are the function. A program that defines KILN_NO_NUMBERS before it includes a header of Kiln has
/// the functions alone, as C++ does.
///
/// Numbers are read when the op is called: in a captured function they are a part of the graph, as kiln_scalar's are.
/// An expression of several lines counts as one line, its first, where an error says where it arose.
#ifndef KILN_OPERAND_H
#define KILN_OPERAND_H

#include <kiln/macros.h>

#ifdef __cplusplus
extern "C" {
#endif

/// What an operand is.
enum {
    KILN_OPERAND_TENSOR = 0,
    KILN_OPERAND_FLOAT = 1,
    KILN_OPERAND_INT = 2,
    KILN_OPERAND_BOOL = 3,
    KILN_OPERAND_UNSIGNED = 4, ///< above INT64_MAX: ops refuse it
};

/// A tensor, borrowed, or a number: what the functions kiln_<op>_n take. KILN_OPERAND makes one.
typedef struct kiln_operand {
    union {
        kiln_tensor *tensor;
        double number;
        int64_t integer; ///< of a bool 0 or 1; of what is above INT64_MAX its bits
    } v;
    int kind;
} kiln_operand;

static inline kiln_operand kiln_operand_tensor_(const kiln_tensor *t)
{
    kiln_operand o;
    o.v.tensor = (kiln_tensor *)(uintptr_t)t;
    o.kind = KILN_OPERAND_TENSOR;
    return o;
}
static inline kiln_operand kiln_operand_float_(double v)
{
    kiln_operand o;
    o.v.number = v;
    o.kind = KILN_OPERAND_FLOAT;
    return o;
}
static inline kiln_operand kiln_operand_int_(int64_t v)
{
    kiln_operand o;
    o.v.integer = v;
    o.kind = KILN_OPERAND_INT;
    return o;
}
static inline kiln_operand kiln_operand_unsigned_(uint64_t v)
{
    kiln_operand o = kiln_operand_int_((int64_t)v);
    if (v > (uint64_t)INT64_MAX) o.kind = KILN_OPERAND_UNSIGNED;
    return o;
}
static inline kiln_operand kiln_operand_bool_(bool v)
{
    kiln_operand o = kiln_operand_int_(v);
    o.kind = KILN_OPERAND_BOOL;
    return o;
}

#ifdef __cplusplus
}
#else
/// A tensor (NULL too), or a number of any type of C that is not complex, as a kiln_operand.
// clang-format off
#define KILN_OPERAND(x) _Generic((x), \
    kiln_tensor *: kiln_operand_tensor_, const kiln_tensor *: kiln_operand_tensor_, void *: kiln_operand_tensor_, \
    _Bool: kiln_operand_bool_, float: kiln_operand_float_, double: kiln_operand_float_, \
    long double: kiln_operand_float_, char: kiln_operand_int_, signed char: kiln_operand_int_, \
    unsigned char: kiln_operand_int_, short: kiln_operand_int_, unsigned short: kiln_operand_int_, \
    int: kiln_operand_int_, unsigned: kiln_operand_int_, long: kiln_operand_int_, long long: kiln_operand_int_, \
    unsigned long: kiln_operand_unsigned_, unsigned long long: kiln_operand_unsigned_)(x)
#endif

#if defined(__GNUC__) && !defined(__cplusplus) && !defined(KILN_NO_NUMBERS)
#define KILN_HAS_NUMBERS 1
// Each operand stands once in what an op expands to, so that expressions of many ops stay short. `id` makes names of
// their own; what follows the operands begins with a comma.
#define KILN_IS_NUMBER_(x) _Generic((x), kiln_tensor *: 0, const kiln_tensor *: 0, void *: 0, default: 1)
#define KILN_TENSOR_(x) _Generic((x), \
    kiln_tensor *: (x), const kiln_tensor *: (kiln_tensor *)(uintptr_t)(x), void *: (x), default: (kiln_tensor *)0)
// What a call gives, with something to do behind it: a jump would take the line of the caller along (frames.h).
#define KILN_KEPT_(id, call) __auto_type kiln_r##id = call; __asm__ volatile("" ::: "memory"); kiln_r##id;
#define KILN_BINARY_(id, f, f_n, a, b, ...) KILN_BINARY_ID_(id, f, f_n, a, b, __VA_ARGS__)
#define KILN_BINARY_ID_(id, f, f_n, a, b, ...) __extension__({ \
    __auto_type kiln_a##id = (a); __auto_type kiln_b##id = (b); \
    KILN_KEPT_(id, __builtin_choose_expr(KILN_IS_NUMBER_(kiln_a##id) + KILN_IS_NUMBER_(kiln_b##id) == 0, \
        (f)(KILN_TENSOR_(kiln_a##id), KILN_TENSOR_(kiln_b##id) __VA_ARGS__), \
        f_n(KILN_OPERAND(kiln_a##id), KILN_OPERAND(kiln_b##id) __VA_ARGS__))) })
#define KILN_TERNARY_(id, f, f_n, a, b, c, ...) KILN_TERNARY_ID_(id, f, f_n, a, b, c, __VA_ARGS__)
#define KILN_TERNARY_ID_(id, f, f_n, a, b, c, ...) __extension__({ \
    __auto_type kiln_a##id = (a); __auto_type kiln_b##id = (b); __auto_type kiln_c##id = (c); \
    KILN_KEPT_(id, __builtin_choose_expr( \
        KILN_IS_NUMBER_(kiln_a##id) + KILN_IS_NUMBER_(kiln_b##id) + KILN_IS_NUMBER_(kiln_c##id) == 0, \
        (f)(KILN_TENSOR_(kiln_a##id), KILN_TENSOR_(kiln_b##id), KILN_TENSOR_(kiln_c##id) __VA_ARGS__), \
        f_n(KILN_OPERAND(kiln_a##id), KILN_OPERAND(kiln_b##id), KILN_OPERAND(kiln_c##id) __VA_ARGS__))) })
// In place: what is written is a tensor.
#define KILN_BINARY_IN_PLACE_(id, f, f_n, a, b) KILN_BINARY_IN_PLACE_ID_(id, f, f_n, a, b)
#define KILN_BINARY_IN_PLACE_ID_(id, f, f_n, a, b) __extension__({ \
    kiln_tensor *kiln_a##id = (a); __auto_type kiln_b##id = (b); \
    KILN_KEPT_(id, __builtin_choose_expr(KILN_IS_NUMBER_(kiln_b##id) == 0, \
        (f)(kiln_a##id, KILN_TENSOR_(kiln_b##id)), f_n(kiln_a##id, KILN_OPERAND(kiln_b##id)))) })
#define KILN_TERNARY_IN_PLACE_(id, f, f_n, a, b, c) KILN_TERNARY_IN_PLACE_ID_(id, f, f_n, a, b, c)
#define KILN_TERNARY_IN_PLACE_ID_(id, f, f_n, a, b, c) __extension__({ \
    kiln_tensor *kiln_a##id = (a); __auto_type kiln_b##id = (b); __auto_type kiln_c##id = (c); \
    KILN_KEPT_(id, __builtin_choose_expr(KILN_IS_NUMBER_(kiln_b##id) + KILN_IS_NUMBER_(kiln_c##id) == 0, \
        (f)(kiln_a##id, KILN_TENSOR_(kiln_b##id), KILN_TENSOR_(kiln_c##id)), \
        f_n(kiln_a##id, KILN_OPERAND(kiln_b##id), KILN_OPERAND(kiln_c##id)))) })
#endif
// clang-format on
#endif
