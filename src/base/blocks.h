// Blocks of quantised elements, as GGUF files and products on packed weights have them. Layouts: ggml,
// src/ggml-common.h. A block has a scale d in f16; q4_K also a least value, and both it and q6_K have scales of smaller
// groups.
#pragma once
#include "base/float16.h"

#include <stddef.h>
#include <stdint.h>

// The types that products take. Numbers are those of GGUF.
enum { BLOCKS_Q4_0 = 2, BLOCKS_Q8_0 = 8, BLOCKS_Q4_K = 12, BLOCKS_Q6_K = 14 };
enum { BLOCKS_MAX = 256 }; // elements of a block

struct block_format {
    uint8_t number;
    const char *name;
    uint16_t elements, size_B; // of a block
};

static inline const struct block_format *block_format_of(int64_t number)
{
    static const struct block_format all[] = {
        {BLOCKS_Q4_0, "q4_0", 32, 18},
        {BLOCKS_Q8_0, "q8_0", 32, 34},
        {BLOCKS_Q4_K, "q4_K", 256, 144},
        {BLOCKS_Q6_K, "q6_K", 256, 210},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].number == number) return &all[i];
    return NULL;
}

static inline float block_half(const unsigned char *at)
{
    return f16_to_float((uint16_t)(at[0] | at[1] << 8));
}

// Scale and least value of a group of 32, of 6 bits each: 12 bytes hold eight of both.
static inline void block_scale_and_least(const unsigned char *s, int group, float *scale, float *least)
{
    if (group < 4) {
        *scale = (float)(s[group] & 63);
        *least = (float)(s[group + 4] & 63);
    } else {
        *scale = (float)((s[group + 4] & 15) | s[group - 4] >> 6 << 4);
        *least = (float)(s[group + 4] >> 4 | s[group] >> 6 << 4);
    }
}

static inline void unpack_q8_0(const unsigned char *p, float *out)
{
    float d = block_half(p);
    for (int i = 0; i < 32; i++) out[i] = d * (float)(int8_t)p[2 + i];
}

static inline void unpack_q4_0(const unsigned char *p, float *out)
{
    float d = block_half(p);
    for (int i = 0; i < 16; i++) out[i] = d * (float)((p[2 + i] & 15) - 8);
    for (int i = 0; i < 16; i++) out[16 + i] = d * (float)((p[2 + i] >> 4) - 8);
}

// q4_K, and q5_K with its upper bits; `high` NULL: there are none.
static inline void unpack_k(const unsigned char *p, const unsigned char *high, const unsigned char *low, float *out)
{
    float d = block_half(p), m = block_half(p + 2), scale, least;
    for (int group = 0; group < 8; group++) {
        block_scale_and_least(p + 4, group, &scale, &least);
        scale *= d;
        least *= m;
        for (int i = 0; i < 32; i++) {
            int q = low[group / 2 * 32 + i] >> group % 2 * 4 & 15;
            if (high) q |= (high[i] >> group & 1) << 4;
            out[group * 32 + i] = scale * (float)q - least;
        }
    }
}

static inline void unpack_q4_k(const unsigned char *p, float *out)
{
    unpack_k(p, NULL, p + 16, out);
}

// Four parts of 32 in each half: of a byte of `low` the lower bits, then the upper ones, of one of `high` two bits
// each.
static inline void unpack_q6_k(const unsigned char *p, float *out)
{
    float d = block_half(p + 208);
    for (int part = 0; part < 8; part++) {
        const unsigned char *low = p + part / 4 * 64 + part % 2 * 32, *high = p + 128 + part / 4 * 32;
        int low_shift = part % 4 / 2 * 4, high_shift = part % 4 * 2;
        for (int half = 0; half < 2; half++) {
            float scale = d * (float)(int8_t)p[192 + 2 * part + half];
            for (int i = 16 * half; i < 16 * half + 16; i++) {
                int q = (low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4;
                out[32 * part + i] = scale * (float)(q - 32);
            }
        }
    }
}

static inline void unpack_block(const struct block_format *f, const unsigned char *p, float *out)
{
    switch (f->number) {
    case BLOCKS_Q8_0: unpack_q8_0(p, out); break;
    case BLOCKS_Q4_0: unpack_q4_0(p, out); break;
    case BLOCKS_Q4_K: unpack_q4_k(p, out); break;
    default: unpack_q6_k(p, out); break;
    }
}
