// Blocks of ggml's quantised types to floats. Layouts: ggml, src/ggml-common.h.
//
// Types of 32 elements have a scale d in f16, perhaps a least value m, and 4 to 8 bits an element; the first half of
// the elements are the low halves of the bytes. Types of 256 elements ("K") have groups of 16 or 32 with scales of
// their own, in 4 to 8 bits, which d multiplies; "bits" above those in the low array lie in another.
#include "io/ggml.h"
#include "base/blocks.h"

#include <math.h>

static uint32_t word_at(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

// --- 32 elements

static void unpack_q4_1(const unsigned char *p, float *out)
{
    float d = block_half(p), m = block_half(p + 2);
    for (int i = 0; i < 32; i++) out[i] = d * (float)(p[4 + i % 16] >> i / 16 * 4 & 15) + m;
}

static void unpack_q5_0(const unsigned char *p, float *out)
{
    float d = block_half(p);
    uint32_t high = word_at(p + 2);
    for (int i = 0; i < 32; i++) {
        int q = (p[6 + i % 16] >> i / 16 * 4 & 15) | (int)(high >> i & 1) << 4;
        out[i] = d * (float)(q - 16);
    }
}

static void unpack_q5_1(const unsigned char *p, float *out)
{
    float d = block_half(p), m = block_half(p + 2);
    uint32_t high = word_at(p + 4);
    for (int i = 0; i < 32; i++) {
        int q = (p[8 + i % 16] >> i / 16 * 4 & 15) | (int)(high >> i & 1) << 4;
        out[i] = d * (float)q + m;
    }
}

static void unpack_iq4_nl(const unsigned char *p, float *out)
{
    static const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    float d = block_half(p);
    for (int i = 0; i < 32; i++) out[i] = d * (float)values[p[2 + i % 16] >> i / 16 * 4 & 15];
}

// Elements of OCP's microscaling formats: a power of two for all, and floats of 4 bits.
static void unpack_mxfp4(const unsigned char *p, float *out)
{
    static const float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    float d = p[0] == 255 ? NAN : ldexpf(1, p[0] - 127);
    for (int i = 0; i < 32; i++) {
        int q = p[1 + i % 16] >> i / 16 * 4 & 15;
        out[i] = d * (q & 8 ? -values[q & 7] : values[q & 7]);
    }
}

// --- 256 elements

static void unpack_q2_k(const unsigned char *p, float *out)
{
    const unsigned char *scales = p, *low = p + 16;
    float d = block_half(p + 80), m = block_half(p + 82);
    for (int i = 0; i < 256; i++) {
        int group = i / 16, q = low[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
        out[i] = d * (float)(scales[group] & 15) * (float)q - m * (float)(scales[group] >> 4);
    }
}

static void unpack_q3_k(const unsigned char *p, float *out)
{
    const unsigned char *high = p, *low = p + 32, *scales = p + 96;
    float d = block_half(p + 108);
    for (int i = 0; i < 256; i++) {
        int group = i / 16;
        int scale = (scales[group % 8] >> group / 8 * 4 & 15) | (scales[8 + group % 4] >> group / 4 * 2 & 3) << 4;
        int q = low[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
        out[i] = d * (float)(scale - 32) * (float)(q - (high[i % 32] >> i / 32 & 1 ? 0 : 4));
    }
}

static void unpack_q5_k(const unsigned char *p, float *out)
{
    unpack_k(p, p + 16, p + 48, out);
}

// --- the table

static const struct ggml_type types[] = {
    {0, "f32", 1, 4, KILN_F32, NULL},
    {1, "f16", 1, 2, KILN_F16, NULL},
    {24, "i8", 1, 1, KILN_I8, NULL},
    {25, "i16", 1, 2, KILN_I16, NULL},
    {26, "i32", 1, 4, KILN_I32, NULL},
    {27, "i64", 1, 8, KILN_I64, NULL},
    {28, "f64", 1, 8, KILN_F64, NULL},
    {30, "bf16", 1, 2, KILN_BF16, NULL},
    {2, "q4_0", 32, 18, KILN_F32, unpack_q4_0},
    {3, "q4_1", 32, 20, KILN_F32, unpack_q4_1},
    {6, "q5_0", 32, 22, KILN_F32, unpack_q5_0},
    {7, "q5_1", 32, 24, KILN_F32, unpack_q5_1},
    {8, "q8_0", 32, 34, KILN_F32, unpack_q8_0},
    {20, "iq4_nl", 32, 18, KILN_F32, unpack_iq4_nl},
    {39, "mxfp4", 32, 17, KILN_F32, unpack_mxfp4},
    {10, "q2_K", 256, 84, KILN_F32, unpack_q2_k},
    {11, "q3_K", 256, 110, KILN_F32, unpack_q3_k},
    {12, "q4_K", 256, 144, KILN_F32, unpack_q4_k},
    {13, "q5_K", 256, 176, KILN_F32, unpack_q5_k},
    {14, "q6_K", 256, 210, KILN_F32, unpack_q6_k},
    // Of these the size alone.
    {16, "iq2_xxs", 256, 66, KILN_F32, NULL},
    {17, "iq2_xs", 256, 74, KILN_F32, NULL},
    {18, "iq3_xxs", 256, 98, KILN_F32, NULL},
    {19, "iq1_s", 256, 50, KILN_F32, NULL},
    {21, "iq3_s", 256, 110, KILN_F32, NULL},
    {22, "iq2_s", 256, 82, KILN_F32, NULL},
    {23, "iq4_xs", 256, 136, KILN_F32, NULL},
    {29, "iq1_m", 256, 56, KILN_F32, NULL},
    {34, "tq1_0", 256, 54, KILN_F32, NULL},
    {35, "tq2_0", 256, 66, KILN_F32, NULL},
};

const struct ggml_type *ggml_type_find(uint32_t number)
{
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (types[i].number == number) return &types[i];
    return NULL;
}
