// out[m, n] = sum over k of x[m, k] w[n, k], where w is packed in blocks. Space: m, n. Operands: x, bytes, out;
// scalars: K, and bytes from one row of w to the next; variant 0: the format.
//
// A chunk is 32 neighbours of a row of w: two times 16 signed bytes q, and for each 16 what makes elements of them,
// q scale + offset. They are made in registers, and used there for four rows of x, so that of w nothing but its packed
// bytes crosses memory. A sum is kept in vectors, in an order that depends on K alone. Where there are no such vectors,
// and for f64, a block is unpacked in memory.
#include "base/blocks.h"
#include "cpu/kernels/kernel.h"

enum { TILE = 4 };

#if defined(__AVX2__)
#include <immintrin.h>
#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
typedef __m512 vector;
#define LANES          16
#define ZERO()         _mm512_setzero_ps()
#define ALL(v)         _mm512_set1_ps(v)
#define LOAD(p)        _mm512_loadu_ps(p)
#define FMA(a, b, c)   _mm512_fmadd_ps(a, b, c)
#define WIDEN(q, part) _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q))
#else
typedef __m256 vector;
#define LANES          8
#define ZERO()         _mm256_setzero_ps()
#define ALL(v)         _mm256_set1_ps(v)
#define LOAD(p)        _mm256_loadu_ps(p)
#define FMA(a, b, c)   _mm256_fmadd_ps(a, b, c)
#define WIDEN(q, part) _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32((part) ? _mm_srli_si128(q, 8) : (q)))
#endif

enum { CHUNK = 32, PARTS = 16 / LANES };

struct chunk {
    __m128i q[2];
    float scale[2], offset[2];
};

INLINE float half_at(const unsigned char *p)
{
    return _cvtsh_ss((unsigned short)(p[0] | p[1] << 8));
}

INLINE __m128i bytes_at(const unsigned char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

// Bits [shift, shift + 4) of each byte.
INLINE __m128i four_bits(__m128i v, int shift)
{
    return _mm_and_si128(_mm_srl_epi16(v, _mm_cvtsi32_si128(shift)), _mm_set1_epi8(15));
}

INLINE void chunk_q8_0(const unsigned char *p, int i, struct chunk *c)
{
    (void)i;
    c->q[0] = bytes_at(p + 2);
    c->q[1] = bytes_at(p + 18);
    c->scale[0] = c->scale[1] = half_at(p);
    c->offset[0] = c->offset[1] = 0;
}

INLINE void chunk_q4_0(const unsigned char *p, int i, struct chunk *c)
{
    __m128i v = bytes_at(p + 2), eight = _mm_set1_epi8(8);
    (void)i;
    c->q[0] = _mm_sub_epi8(four_bits(v, 0), eight);
    c->q[1] = _mm_sub_epi8(four_bits(v, 4), eight);
    c->scale[0] = c->scale[1] = half_at(p);
    c->offset[0] = c->offset[1] = 0;
}

INLINE void chunk_q4_k(const unsigned char *p, int i, struct chunk *c)
{
    const unsigned char *low = p + 16 + i / 2 * CHUNK;
    float scale, least;
    block_scale_and_least(p + 4, i, &scale, &least);
    for (int h = 0; h < 2; h++) {
        c->q[h] = four_bits(bytes_at(low + 16 * h), i % 2 * 4);
        c->scale[h] = half_at(p) * scale;
        c->offset[h] = -(half_at(p + 2) * least);
    }
}

INLINE void chunk_q6_k(const unsigned char *p, int i, struct chunk *c)
{
    const unsigned char *low = p + i / 4 * 64 + i % 2 * CHUNK, *high = p + 128 + i / 4 * CHUNK;
    float d = half_at(p + 208);
    for (int h = 0; h < 2; h++) {
        __m128i q = four_bits(bytes_at(low + 16 * h), i % 4 / 2 * 4);
        __m128i top = _mm_srl_epi16(bytes_at(high + 16 * h), _mm_cvtsi32_si128(i % 4 * 2));
        q = _mm_or_si128(q, _mm_slli_epi16(_mm_and_si128(top, _mm_set1_epi8(3)), 4));
        c->q[h] = _mm_sub_epi8(q, _mm_set1_epi8(32));
        c->scale[h] = d * (float)(int8_t)p[192 + 2 * i + h];
        c->offset[h] = 0;
    }
}

typedef void chunk_fn(const unsigned char *p, int i, struct chunk *c);

// Adds the products of a chunk with `rows` rows of x, a constant where this is inlined.
INLINE void add_chunk(vector sums[TILE][2], const struct chunk *c, const float *x, int64_t k, const int rows,
                      const bool offsets)
{
    for (int h = 0; h < 2; h++) {
        vector scale = ALL(c->scale[h]), offset = ALL(c->offset[h]);
#pragma GCC unroll 4
        for (int part = 0; part < PARTS; part++) {
            vector q = WIDEN(c->q[h], part);
            vector w = q * scale;
            if (offsets) w = FMA(q, scale, offset);
            const float *at = x + 16 * h + LANES * part;
            for (int r = 0; r < rows; r++) sums[r][(h + part) % 2] = FMA(w, LOAD(at + r * k), sums[r][(h + part) % 2]);
        }
    }
}

INLINE float total(vector v)
{
    float lanes[LANES], sum = 0;
    __builtin_memcpy(lanes, &v, sizeof lanes);
    for (int step = LANES / 2; step; step /= 2)
        for (int i = 0; i < step; i++) lanes[i] += lanes[i + step];
    return sum + lanes[0];
}

// The sums of `rows` rows of x with one row of w, into out[row * ld].
INLINE void multiply(const unsigned char *p, const float *x, int64_t k, float *out, int64_t ld, const int rows,
                     chunk_fn unpack, const int elements, const int block_B, const bool offsets)
{
    vector sums[TILE][2];
    for (int r = 0; r < rows; r++) sums[r][0] = sums[r][1] = ZERO();
    for (int64_t at = 0; at < k; at += elements, p += block_B) {
#pragma GCC unroll 8
        for (int i = 0; i < elements / CHUNK; i++) {
            struct chunk c;
            unpack(p, i, &c);
            add_chunk(sums, &c, x + at + CHUNK * i, k, rows, offsets);
        }
    }
    for (int r = 0; r < rows; r++) out[r * ld] = total(sums[r][0] + sums[r][1]);
}

INLINE void multiply_all(const struct launch *l, int64_t begin, int64_t end, chunk_fn unpack, const int elements,
                         const int block_B, const bool offsets)
{
    const float *x = (const float *)(uintptr_t)l->operands[0].address;
    const unsigned char *w = (const unsigned char *)(uintptr_t)l->operands[1].address;
    float *out = (float *)(uintptr_t)l->operands[2].address;
    int64_t m = l->sizes[0], n = l->sizes[1], k = (int64_t)l->scalars[0], row_B = (int64_t)l->scalars[1], r = 0;
    for (; r + TILE <= m; r += TILE)
        for (int64_t j = begin; j < end; j++)
            multiply(w + j * row_B, x + r * k, k, out + r * n + j, n, TILE, unpack, elements, block_B, offsets);
    for (; r < m; r++)
        for (int64_t j = begin; j < end; j++)
            multiply(w + j * row_B, x + r * k, k, out + r * n + j, n, 1, unpack, elements, block_B, offsets);
}

static void loops_f32(const struct launch *l, const struct block_format *f, int64_t begin, int64_t end)
{
    switch (f->number) {
    case BLOCKS_Q8_0: multiply_all(l, begin, end, chunk_q8_0, 32, 34, false); break;
    case BLOCKS_Q4_0: multiply_all(l, begin, end, chunk_q4_0, 32, 18, false); break;
    case BLOCKS_Q4_K: multiply_all(l, begin, end, chunk_q4_k, 256, 144, true); break;
    default: multiply_all(l, begin, end, chunk_q6_k, 256, 210, false); break;
    }
}
#else
#define T    float
#define NAME loops_f32
#include "cpu/kernels/matmul_packed_tmpl.c"
#endif
#define T    double
#define NAME loops_f64
#include "cpu/kernels/matmul_packed_tmpl.c"

struct cpu_work CPU_FN(cpu_units_matmul_packed)(const struct launch *l)
{
    int64_t k = (int64_t)l->scalars[0], m = l->sizes[0];
    return (struct cpu_work){l->sizes[1], m < INT64_MAX / k ? m * k : INT64_MAX};
}

kiln_status CPU_FN(cpu_kernel_matmul_packed)(const struct launch *l, int64_t begin, int64_t end)
{
    const struct block_format *f = block_format_of(l->variant[0]);
    if (kernel_catalogue[l->kernel].cls == CLASS_F32)
        loops_f32(l, f, begin, end);
    else
        loops_f64(l, f, begin, end);
    return KILN_OK;
}
