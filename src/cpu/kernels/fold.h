// Accumulators of row kernels: starting, folding a block's value in, joining two. Sums and products of f32 are held in
// f64. A NaN wins over every number in max, min, argmax and argmin; the first of equals wins in the latter two.
#pragma once
#include "cpu/kernels/kernel.h"

// The identity of a maximum is -inf. clang starts OpenMP's own `max` at the least finite number, which is wrong for a
// row of nothing but -inf; gcc starts it at -inf, and makes faster loops of it than of a reduction declared here.
#ifdef __clang__
// clang-format off
#pragma omp declare reduction(cpu_most : float, double : omp_out = omp_in > omp_out ? omp_in : omp_out) \
    initializer(omp_priv = -__builtin_inff())
#pragma omp declare reduction(cpu_least : float, double : omp_out = omp_in < omp_out ? omp_in : omp_out) \
    initializer(omp_priv = __builtin_inff())
// clang-format on
#define CPU_MOST  cpu_most
#define CPU_LEAST cpu_least
#else
#define CPU_MOST  max
#define CPU_LEAST min
#endif

static inline bool cpu_apart(const void *a, int64_t a_B, const void *b, int64_t b_B)
{
    return (uintptr_t)a + (uintptr_t)a_B <= (uintptr_t)b || (uintptr_t)b + (uintptr_t)b_B <= (uintptr_t)a;
}
static inline float cpu_scalar_f32(uint64_t bits)
{
    return f32_bits(bits);
}
static inline double cpu_scalar_f64(uint64_t bits)
{
    return f64_bits(bits);
}
static inline int32_t cpu_scalar_i32(uint64_t bits)
{
    return (int32_t)(uint32_t)bits;
}
static inline int64_t cpu_scalar_i64(uint64_t bits)
{
    return (int64_t)bits;
}
static inline bool cpu_scalar_b(uint64_t bits)
{
    return (bits & 0xff) != 0;
}

static inline void cpu_fold_sum_f32(struct cpu_acc *a, float x)
{
    a->v.f64 += (double)x;
}
static inline void cpu_fold_sum_f64(struct cpu_acc *a, double x)
{
    a->v.f64 += x;
}
static inline void cpu_fold_sum_i32(struct cpu_acc *a, int32_t x)
{
    a->v.i32 = (int32_t)((uint32_t)a->v.i32 + (uint32_t)x);
}
static inline void cpu_fold_sum_i64(struct cpu_acc *a, int64_t x)
{
    a->v.i64 = (int64_t)((uint64_t)a->v.i64 + (uint64_t)x);
}
static inline void cpu_fold_prod_f32(struct cpu_acc *a, float x)
{
    a->v.f64 *= (double)x;
}
static inline void cpu_fold_prod_f64(struct cpu_acc *a, double x)
{
    a->v.f64 *= x;
}
static inline void cpu_fold_prod_i32(struct cpu_acc *a, int32_t x)
{
    a->v.i32 = (int32_t)((uint32_t)a->v.i32 * (uint32_t)x);
}
static inline void cpu_fold_prod_i64(struct cpu_acc *a, int64_t x)
{
    a->v.i64 = (int64_t)((uint64_t)a->v.i64 * (uint64_t)x);
}
static inline void cpu_fold_any_b(struct cpu_acc *a, uint8_t x)
{
    a->v.b |= x;
}
static inline void cpu_fold_all_b(struct cpu_acc *a, uint8_t x)
{
    a->v.b &= x;
}
static inline void cpu_fold_max_f32(struct cpu_acc *a, float x)
{
    if ((x > a->v.f32) | (x != x)) a->v.f32 = x;
}
static inline void cpu_fold_max_f64(struct cpu_acc *a, double x)
{
    if ((x > a->v.f64) | (x != x)) a->v.f64 = x;
}
static inline void cpu_fold_max_i32(struct cpu_acc *a, int32_t x)
{
    if (x > a->v.i32) a->v.i32 = x;
}
static inline void cpu_fold_max_i64(struct cpu_acc *a, int64_t x)
{
    if (x > a->v.i64) a->v.i64 = x;
}
static inline void cpu_fold_max_b(struct cpu_acc *a, uint8_t x)
{
    a->v.b |= x;
}
static inline void cpu_fold_min_f32(struct cpu_acc *a, float x)
{
    if ((x < a->v.f32) | (x != x)) a->v.f32 = x;
}
static inline void cpu_fold_min_f64(struct cpu_acc *a, double x)
{
    if ((x < a->v.f64) | (x != x)) a->v.f64 = x;
}
static inline void cpu_fold_min_i32(struct cpu_acc *a, int32_t x)
{
    if (x < a->v.i32) a->v.i32 = x;
}
static inline void cpu_fold_min_i64(struct cpu_acc *a, int64_t x)
{
    if (x < a->v.i64) a->v.i64 = x;
}
static inline void cpu_fold_min_b(struct cpu_acc *a, uint8_t x)
{
    a->v.b &= x;
}

// True when the block's value x (or its NaN) is the new winner, whose place the caller then finds. Before the first
// element (index < 0) any is.
static inline bool cpu_fold_argmax_f32(struct cpu_acc *a, int32_t nan, float x)
{
    if (a->index >= 0 && !(a->v.f32 == a->v.f32 && (nan || x > a->v.f32))) return false;
    a->v.f32 = nan ? __builtin_nanf("") : x;
    return true;
}
static inline bool cpu_fold_argmax_f64(struct cpu_acc *a, int32_t nan, double x)
{
    if (a->index >= 0 && !(a->v.f64 == a->v.f64 && (nan || x > a->v.f64))) return false;
    a->v.f64 = nan ? __builtin_nan("") : x;
    return true;
}
static inline bool cpu_fold_argmax_i32(struct cpu_acc *a, int32_t nan, int32_t x)
{
    (void)nan;
    if (a->index >= 0 && x <= a->v.i32) return false;
    a->v.i32 = x;
    return true;
}
static inline bool cpu_fold_argmax_i64(struct cpu_acc *a, int32_t nan, int64_t x)
{
    (void)nan;
    if (a->index >= 0 && x <= a->v.i64) return false;
    a->v.i64 = x;
    return true;
}
static inline bool cpu_fold_argmax_b(struct cpu_acc *a, int32_t nan, uint8_t x)
{
    (void)nan;
    if (a->index >= 0 && x <= a->v.b) return false;
    a->v.b = x;
    return true;
}
static inline bool cpu_fold_argmin_f32(struct cpu_acc *a, int32_t nan, float x)
{
    if (a->index >= 0 && !(a->v.f32 == a->v.f32 && (nan || x < a->v.f32))) return false;
    a->v.f32 = nan ? __builtin_nanf("") : x;
    return true;
}
static inline bool cpu_fold_argmin_f64(struct cpu_acc *a, int32_t nan, double x)
{
    if (a->index >= 0 && !(a->v.f64 == a->v.f64 && (nan || x < a->v.f64))) return false;
    a->v.f64 = nan ? __builtin_nan("") : x;
    return true;
}
static inline bool cpu_fold_argmin_i32(struct cpu_acc *a, int32_t nan, int32_t x)
{
    (void)nan;
    if (a->index >= 0 && x >= a->v.i32) return false;
    a->v.i32 = x;
    return true;
}
static inline bool cpu_fold_argmin_i64(struct cpu_acc *a, int32_t nan, int64_t x)
{
    (void)nan;
    if (a->index >= 0 && x >= a->v.i64) return false;
    a->v.i64 = x;
    return true;
}
static inline bool cpu_fold_argmin_b(struct cpu_acc *a, int32_t nan, uint8_t x)
{
    (void)nan;
    if (a->index >= 0 && x >= a->v.b) return false;
    a->v.b = x;
    return true;
}
