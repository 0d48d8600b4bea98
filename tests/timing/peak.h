// What one thread's arithmetic in f32 does, measured by a loop whose values the compiler cannot know.
#pragma once
#include <stddef.h>

enum { PEAK_ROUNDS = 20000, PEAK_CHAINS = 12 };
#define EACH_PEAK_CHAIN _Pragma("GCC unroll 12") for (int i = 0; i < PEAK_CHAINS; i++)
#define PEAK_LOOP(constraint, vector, fma)               \
    vector v[PEAK_CHAINS], half = (vector){0} + 0.5f;    \
    EACH_PEAK_CHAIN v[i] = half + (float)i;              \
    for (int r = 0; r < PEAK_ROUNDS; r++) {              \
        EACH_PEAK_CHAIN                                  \
        {                                                \
            __asm__ volatile("" : "+" constraint(v[i])); \
            v[i] = fma;                                  \
        }                                                \
    }                                                    \
    EACH_PEAK_CHAIN __asm__ volatile("" : : constraint(v[i]));

#if defined(__x86_64__)
#include <immintrin.h>
__attribute__((target("avx512f"))) static void peak_512(void)
{
    PEAK_LOOP("v", __m512, _mm512_fmadd_ps(v[i], half, half))
}
__attribute__((target("avx2,fma"))) static void peak_256(void)
{
    PEAK_LOOP("x", __m256, _mm256_fmadd_ps(v[i], half, half))
}
#endif

// Of one call of *run; 0: this processor has no such instructions.
static double peak_operations(void (**run)(void))
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool wide = __builtin_cpu_supports("avx512f"), fma = __builtin_cpu_supports("fma");
    *run = wide ? peak_512 : peak_256;
    return wide || fma ? 2.0 * PEAK_ROUNDS * PEAK_CHAINS * (wide ? 16 : 8) : 0;
#else
    return 0;
#endif
}
