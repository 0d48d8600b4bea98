// Blocks of Philox4x32-10. Operand: the words, four a block; scalars: seed and offset. Block i is the function of
// counter offset + i. Vectors hold a word of a block in 64 bits, of which the upper half is never looked at: products
// of 32 bits take the lower ones, and are the next words as they are.
#include "cpu/kernels/kernel.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#define MULTIPLIER_A 0xD2511F53u
#define MULTIPLIER_C 0xCD9E8D57u
enum { ROUNDS = 10 };

struct key {
    uint32_t of[ROUNDS][2];
};

static struct key key_of(uint64_t seed)
{
    struct key k;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        k.of[round][0] = (uint32_t)seed + round * 0x9E3779B9u;
        k.of[round][1] = (uint32_t)(seed >> 32) + round * 0xBB67AE85u;
    }
    return k;
}

#if defined(__AVX512F__)
enum { LANES = 8, GROUPS = 4 };
typedef __m512i lanes;
#define ALL(v)       _mm512_set1_epi64(v)
#define ADD(x, y)    _mm512_add_epi64(x, y)
#define TIMES(x, y)  _mm512_mul_epu32(x, y)
#define UPPER(x)     _mm512_srli_epi64(x, 32)
#define XOR(x, y, z) _mm512_ternarylogic_epi64(x, y, z, 0x96)

static inline lanes numbers(void)
{
    return _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
}

static inline void store_blocks(uint32_t *to, lanes a, lanes b, lanes c, lanes d)
{
    const __m512i first = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0),
                  then = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
    lanes ab = _mm512_mask_blend_epi32(0xaaaa, a, _mm512_slli_epi64(b, 32));
    lanes cd = _mm512_mask_blend_epi32(0xaaaa, c, _mm512_slli_epi64(d, 32));
    _mm512_storeu_si512(to, _mm512_permutex2var_epi64(ab, first, cd));
    _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi64(ab, then, cd));
}
#elif defined(__AVX2__)
enum { LANES = 4, GROUPS = 2 };
typedef __m256i lanes;
#define ALL(v)       _mm256_set1_epi64x(v)
#define ADD(x, y)    _mm256_add_epi64(x, y)
#define TIMES(x, y)  _mm256_mul_epu32(x, y)
#define UPPER(x)     _mm256_srli_epi64(x, 32)
#define XOR(x, y, z) _mm256_xor_si256(_mm256_xor_si256(x, y), z)

static inline lanes numbers(void)
{
    return _mm256_set_epi64x(3, 2, 1, 0);
}

static inline void store_blocks(uint32_t *to, lanes a, lanes b, lanes c, lanes d)
{
    lanes ab = _mm256_blend_epi32(a, _mm256_slli_epi64(b, 32), 0xaa);
    lanes cd = _mm256_blend_epi32(c, _mm256_slli_epi64(d, 32), 0xaa);
    lanes even = _mm256_unpacklo_epi64(ab, cd), odd = _mm256_unpackhi_epi64(ab, cd);
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256((__m256i *)(void *)(to + 8), _mm256_permute2x128_si256(even, odd, 0x31));
}
#endif

#ifdef __AVX2__
// LANES * GROUPS blocks.
static inline void blocks_of_lanes(const struct key *k, uint64_t counter, uint32_t *words)
{
    const lanes by_a = ALL(MULTIPLIER_A), by_c = ALL(MULTIPLIER_C);
    lanes a[GROUPS], b[GROUPS], c[GROUPS], d[GROUPS];
    for (int g = 0; g < GROUPS; g++) {
        a[g] = ADD(ALL((int64_t)counter + g * LANES), numbers());
        b[g] = UPPER(a[g]);
        c[g] = d[g] = ALL(0);
    }
#pragma GCC unroll 10
    for (int round = 0; round < ROUNDS; round++) {
        const lanes key0 = ALL(k->of[round][0]), key1 = ALL(k->of[round][1]);
#pragma GCC unroll 4
        for (int g = 0; g < GROUPS; g++) {
            lanes p = TIMES(a[g], by_a), q = TIMES(c[g], by_c);
            a[g] = XOR(UPPER(q), b[g], key0);
            b[g] = q;
            c[g] = XOR(UPPER(p), d[g], key1);
            d[g] = p;
        }
    }
    for (int g = 0; g < GROUPS; g++) store_blocks(words + 4 * g * LANES, a[g], b[g], c[g], d[g]);
}
#endif

static inline void block(const struct key *k, uint64_t counter, uint32_t *words)
{
    uint32_t a = (uint32_t)counter, b = (uint32_t)(counter >> 32), c = 0, d = 0;
#pragma GCC unroll 10
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p = (uint64_t)a * MULTIPLIER_A, q = (uint64_t)c * MULTIPLIER_C;
        a = (uint32_t)(q >> 32) ^ b ^ k->of[round][0];
        b = (uint32_t)q;
        c = (uint32_t)(p >> 32) ^ d ^ k->of[round][1];
        d = (uint32_t)p;
    }
    words[0] = a, words[1] = b, words[2] = c, words[3] = d;
}

struct cpu_work CPU_FN(cpu_units_philox)(const struct launch *l)
{
    return (struct cpu_work){l->sizes[0], 16};
}

kiln_status CPU_FN(cpu_kernel_philox)(const struct launch *l, int64_t begin, int64_t end)
{
    uint32_t *words = (uint32_t *)(uintptr_t)l->operands[0].address;
    uint64_t offset = l->scalars[1];
    struct key k = key_of(l->scalars[0]);
    int64_t i = begin;
#ifdef __AVX2__
    for (; i + LANES * GROUPS <= end; i += LANES * GROUPS) blocks_of_lanes(&k, offset + (uint64_t)i, words + 4 * i);
#endif
#pragma omp simd
    for (int64_t rest = i; rest < end; rest++) block(&k, offset + (uint64_t)rest, words + 4 * rest);
    return KILN_OK;
}
