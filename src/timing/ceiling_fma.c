// What the CPU's arithmetic can do: products that are added in registers, as many chains at a time as hide what one
// takes. Chains begin with values of their own: of equal ones a compiler would make one.
#include "cpu/tiles.h"
#include "timing/timing.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    ROUNDS = 1 << 12,
    CHAINS = 12, // that do not wait for each other, in registers
};

// Over the chains, without a loop: else the compiler keeps their vectors in memory, and that is what would be measured.
#if defined(__clang__)
#define EACH_CHAIN(from) _Pragma("unroll") for (int i = (from); i < CHAINS; i++)
#else
#define EACH_CHAIN(from) _Pragma("GCC unroll 12") for (int i = (from); i < CHAINS; i++)
#endif
_Static_assert(CHAINS == 12, "as EACH_CHAIN says");

// A function of that name: `start`, `step` and `first` are of the vector's type, v[i] is a chain.
#define ARITHMETIC(name, vector, start, step, add, first)           \
    static double name(void)                                        \
    {                                                               \
        vector v[CHAINS];                                           \
        EACH_CHAIN(0) v[i] = start;                                 \
        for (int r = 0; r < ROUNDS; r++) EACH_CHAIN(0) v[i] = step; \
        EACH_CHAIN(1) v[0] = add;                                   \
        return first;                                               \
    }

ARITHMETIC(f32_plain, float, (float)i, v[i] * 0.5f + 1, v[0] + v[i], v[0])
ARITHMETIC(f64_plain, double, (double)i, v[i] * 0.5 + 1, v[0] + v[i], v[0])

#if defined(__x86_64__)
#define WIDE(isa) __attribute__((target(isa)))
WIDE("avx2,fma")
ARITHMETIC(f32_256, __m256, _mm256_set1_ps((float)i), _mm256_fmadd_ps(v[i], _mm256_set1_ps(0.5f), _mm256_set1_ps(1)),
           _mm256_add_ps(v[0], v[i]), _mm256_cvtss_f32(v[0]))
WIDE("avx2,fma")
ARITHMETIC(f64_256, __m256d, _mm256_set1_pd(i), _mm256_fmadd_pd(v[i], _mm256_set1_pd(0.5), _mm256_set1_pd(1)),
           _mm256_add_pd(v[0], v[i]), _mm256_cvtsd_f64(v[0]))
WIDE("avx512f")
ARITHMETIC(f32_512, __m512, _mm512_set1_ps((float)i), _mm512_fmadd_ps(v[i], _mm512_set1_ps(0.5f), _mm512_set1_ps(1)),
           _mm512_add_ps(v[0], v[i]), _mm512_cvtss_f32(v[0]))
WIDE("avx512f")
ARITHMETIC(f64_512, __m512d, _mm512_set1_pd(i), _mm512_fmadd_pd(v[i], _mm512_set1_pd(0.5), _mm512_set1_pd(1)),
           _mm512_add_pd(v[0], v[i]), _mm512_cvtsd_f64(v[0]))
WIDE("avx512f,avx512bf16")
ARITHMETIC(bf16_512, __m512, _mm512_set1_ps((float)i),
           _mm512_dpbf16_ps(v[i], (__m512bh)_mm512_set1_epi16(0x3f00), (__m512bh)_mm512_set1_epi16(0x3f00)),
           _mm512_add_ps(v[0], v[i]), _mm512_cvtss_f32(v[0]))

// Sums of 16 x 16 in four registers of tiles, by operands in two; 32 positions a step.
enum { AMX_SUMS = 4, AMX_STEP = 16 * 16 * 32 };

WIDE("amx-tile,amx-bf16")
static double bf16_amx(void)
{
    static const struct amx_shape shape = {1, 0, {0}, {64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16}};
    uint16_t operand[512];
    float sums[256];
    for (int i = 0; i < 512; i++) operand[i] = (uint16_t)(0x3f00 + i * 37 % 128); // numbers from 0.5 to 1
    _tile_loadconfig(&shape);
    __asm__ volatile("" ::: "memory"); // gcc 12 does not know that a load of a tile reads memory
    _tile_loadd(4, operand, 64);
    _tile_loadd(5, operand, 64);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int r = 0; r < ROUNDS; r++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    _tile_stored(0, sums, 64);
    _tile_release();
    __asm__ volatile("" ::: "memory");
    return (double)sums[0];
}
#endif

#define OF(name, width) ((struct arithmetic){name, 2.0 * ROUNDS * CHAINS * (width)})

struct arithmetic choose_arithmetic(kiln_ceiling kind)
{
    bool wide = kind == KILN_CEILING_FMA_F64;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (kind == KILN_CEILING_FMA_BF16 && !cpu_amx_missing())
        return (struct arithmetic){bf16_amx, 2.0 * ROUNDS * AMX_SUMS * AMX_STEP};
    if (__builtin_cpu_supports("avx512f")) {
        if (kind == KILN_CEILING_FMA_BF16 && __builtin_cpu_supports("avx512bf16")) return OF(bf16_512, 32);
        return wide ? OF(f64_512, 8) : OF(f32_512, 16);
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return wide ? OF(f64_256, 4) : OF(f32_256, 8);
#endif
    return wide ? OF(f64_plain, 1) : OF(f32_plain, 1);
}
