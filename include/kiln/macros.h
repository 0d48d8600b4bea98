/// @file macros.h
/// The macros behind shapes, lists and options, for C17 and C++20.
#ifndef KILN_MACROS_H
#define KILN_MACROS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define KILN_0 = {}
namespace kiln_detail {
template <class T> constexpr const T *ref(const T &v)
{
    return &v;
}
template <class T, size_t N> struct list {
    T v[N];
};
template <class T, class... A> constexpr list<T, sizeof...(A)> pack(A... a)
{
    return {{static_cast<T>(a)...}};
}
template <class... A> char (&count(const A &...))[sizeof...(A)];
} // namespace kiln_detail
#define KILN_COUNT_(T, ...) sizeof(::kiln_detail::count(__VA_ARGS__))
#define KILN_LIST_(T, ...)  ::kiln_detail::ref(::kiln_detail::pack<T>(__VA_ARGS__))->v
#define KILN_OPTS_(T, ...)  ::kiln_detail::ref(T{.size = sizeof(T), __VA_ARGS__})
#define KILN_INTS_(n, v)    (::kiln_ints{n, v})
#else
#define KILN_0
#define KILN_COUNT_(T, ...) (sizeof((T[]){__VA_ARGS__}) / sizeof(T))
// clang-format takes a list in braces for a body.
// clang-format off
#define KILN_LIST_(T, ...) (T[]){__VA_ARGS__}
#define KILN_INTS_(n, v)   ((kiln_ints){n, v})
// clang-format on
#define KILN_OPTS_(T, ...)  (&(T){.size = sizeof(T), __VA_ARGS__})
#endif

/// Rank and dimensions of a shape, as two arguments: `kiln_zeros(dev, KILN_F32, KILN_SHAPE(2, 3))`.
#define KILN_SHAPE(...) KILN_COUNT_(int64_t, __VA_ARGS__), KILN_LIST_(int64_t, KILN_WHOLE_(__VA_ARGS__))
/// The shape of a scalar: rank 0.
#define KILN_SHAPE0 0, NULL
/// A list of integers, of type kiln_ints, as an argument or the value of an option: `kiln_permute(x, KILN_AXES(1, 0))`,
/// `KILN_REDUCE(.axes = KILN_AXES(0))`. It lives as long as a compound literal in its place does.
#define KILN_ARGS(...) KILN_INTS_(KILN_COUNT_(int64_t, __VA_ARGS__), KILN_LIST_(int64_t, __VA_ARGS__))
#define KILN_AXES(...) KILN_ARGS(__VA_ARGS__)
/// The list of no axes, which most functions take for all of them.
#define KILN_AXES0 KILN_INTS_(0, NULL)
// clang-format off
/// A list of tensors as the value of an option field of type kiln_tensors.
#define KILN_TENSORS(...) {KILN_COUNT_(kiln_tensor *, __VA_ARGS__), KILN_LIST_(kiln_tensor *, __VA_ARGS__)}
#define KILN_PARAMS(...) {KILN_COUNT_(kiln_tensor *, __VA_ARGS__), KILN_LIST_(kiln_tensor *, __VA_ARGS__)}
/// A list of names as the value of an option field of type kiln_names.
#define KILN_NAMES(...) {KILN_COUNT_(const char *, __VA_ARGS__), KILN_LIST_(const char *, __VA_ARGS__)}
// clang-format on
/// The value that stands for an explicit zero in an option whose default is not zero (the least f64 denormal).
#define KILN_ZERO 4.9406564584124654e-324

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_tensor kiln_tensor;
typedef struct kiln_device kiln_device;
typedef struct kiln_scope kiln_scope;
typedef struct kiln_graph kiln_graph;

/// A borrowed list of integers.
typedef struct {
    size_t count;
    const int64_t *v;
} kiln_ints;

/// A borrowed list of tensors.
typedef struct {
    size_t count;
    kiln_tensor *const *v;
} kiln_tensors;

/// A borrowed list of names.
typedef struct {
    size_t count;
    const char *const *v;
} kiln_names;

/// Element types. Values are fixed; new ones are appended.
typedef enum kiln_dtype {
    KILN_BOOL = 0,
    KILN_U8 = 1,
    KILN_I8 = 2,
    KILN_I16 = 3,
    KILN_I32 = 4,
    KILN_I64 = 5,
    KILN_F16 = 6,
    KILN_BF16 = 7,
    KILN_F32 = 8,
    KILN_F64 = 9,
    KILN_U16 = 10,
    KILN_U32 = 11,
    KILN_U64 = 12,
    KILN_C64 = 32,     ///< complex: a pair of f32
    KILN_C128 = 33,    ///< complex: a pair of f64
    KILN_F8_E4M3 = 34, ///< storage: a float of 8 bits, e4m3fn: to 448, no infinities
    KILN_F8_E5M2 = 35, ///< storage: a float of 8 bits, e5m2: to 57344, and infinities
    KILN_I4 = 36,      ///< storage: -8 to 7, two in a byte
    KILN_U4 = 37,      ///< storage: 0 to 15, two in a byte
} kiln_dtype;

#ifdef __cplusplus
}
#endif

// clang-format off
// In a shape 2.5 would be 2 without a word: a float is no operand of |. Lists beyond the largest rank are taken as they
// are.
#define KILN_WHOLE_0_(...) __VA_ARGS__
#define KILN_WHOLE_1_(a)  ((a) | 0)
#define KILN_WHOLE_2_(a, ...) ((a) | 0), KILN_WHOLE_1_(__VA_ARGS__)
#define KILN_WHOLE_3_(a, ...) ((a) | 0), KILN_WHOLE_2_(__VA_ARGS__)
#define KILN_WHOLE_4_(a, ...) ((a) | 0), KILN_WHOLE_3_(__VA_ARGS__)
#define KILN_WHOLE_5_(a, ...) ((a) | 0), KILN_WHOLE_4_(__VA_ARGS__)
#define KILN_WHOLE_6_(a, ...) ((a) | 0), KILN_WHOLE_5_(__VA_ARGS__)
#define KILN_WHOLE_7_(a, ...) ((a) | 0), KILN_WHOLE_6_(__VA_ARGS__)
#define KILN_WHOLE_8_(a, ...) ((a) | 0), KILN_WHOLE_7_(__VA_ARGS__)
#define KILN_WHOLE_9_(a, ...) ((a) | 0), KILN_WHOLE_8_(__VA_ARGS__)
#define KILN_WHOLE_10_(a, ...) ((a) | 0), KILN_WHOLE_9_(__VA_ARGS__)
#define KILN_WHOLE_11_(a, ...) ((a) | 0), KILN_WHOLE_10_(__VA_ARGS__)
#define KILN_WHOLE_12_(a, ...) ((a) | 0), KILN_WHOLE_11_(__VA_ARGS__)
#define KILN_WHOLE_13_(a, ...) ((a) | 0), KILN_WHOLE_12_(__VA_ARGS__)
#define KILN_WHOLE_14_(a, ...) ((a) | 0), KILN_WHOLE_13_(__VA_ARGS__)
#define KILN_WHOLE_15_(a, ...) ((a) | 0), KILN_WHOLE_14_(__VA_ARGS__)
#define KILN_WHOLE_16_(a, ...) ((a) | 0), KILN_WHOLE_15_(__VA_ARGS__)
#define KILN_PICK_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, \
    a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, a37, a38, a39, a40, name, ...) \
    name
#define KILN_WHOLE_(...) KILN_PICK_(__VA_ARGS__, KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_0_, \
    KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_0_, \
    KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_0_, \
    KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_0_, KILN_WHOLE_16_, \
    KILN_WHOLE_15_, KILN_WHOLE_14_, KILN_WHOLE_13_, KILN_WHOLE_12_, KILN_WHOLE_11_, KILN_WHOLE_10_, KILN_WHOLE_9_, \
    KILN_WHOLE_8_, KILN_WHOLE_7_, KILN_WHOLE_6_, KILN_WHOLE_5_, KILN_WHOLE_4_, KILN_WHOLE_3_, KILN_WHOLE_2_, \
    KILN_WHOLE_1_, )(__VA_ARGS__)
// clang-format on
#endif
