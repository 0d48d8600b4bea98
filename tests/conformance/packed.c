// Products with packed weights: every packing against its layout written out, sizes around the tiles, dtypes and
// layouts of x, rows of w with gaps, and what does not fit.
#include "conformance/structured.h"

#include <kiln/weights.h>
#include <stdlib.h>

enum { ROWS_MAX = 7, ROW_MAX_B = 1024 };

static const struct packing {
    const char *name;
    int elements, size_B;
} packings[] = {{"q4_0", 32, 18}, {"q8_0", 32, 34}, {"q4_K", 256, 144}, {"q6_K", 256, 210}};
enum { PACKINGS = sizeof packings / sizeof packings[0] };

// f16 that is neither infinite nor too large for the rest to matter.
static long double half(const unsigned char *at)
{
    int bits = at[0] | at[1] << 8, exponent = bits >> 10 & 31;
    long double v = exponent ? 1 + (bits & 1023) / 1024.0L : (bits & 1023) / 1024.0L;
    return (bits >> 15 ? -v : v) * powl(2, (exponent ? exponent : 1) - 15);
}

static void put_half(unsigned char *at)
{
    at[0] = (unsigned char)random_below(&structured_random, 256);
    at[1] = (unsigned char)(random_below(&structured_random, 2) << 7 | (10 + random_below(&structured_random, 5)) << 2 |
                            random_below(&structured_random, 4));
}

// Six bits of an array of them, as the scales (0 to 7) and least values (8 to 15) of q4_K lie.
static int six_bits(const unsigned char *s, int i)
{
    int group = i % 8, least = i / 8;
    if (group < 4) return s[group + 4 * least] % 64;
    return (s[group + 4] >> 4 * least) % 16 + (s[group - 4 + 4 * least] >> 6) * 16;
}

static long double element(int packing, const unsigned char *p, int i)
{
    switch (packing) {
    case 0: return half(p) * ((i < 16 ? p[2 + i] % 16 : p[2 + i - 16] / 16) - 8);
    case 1: return half(p) * (signed char)p[2 + i];
    case 2: {
        int group = i / 32, q = p[16 + group / 2 * 32 + i % 32];
        q = group % 2 ? q / 16 : q % 16;
        return half(p) * six_bits(p + 4, group) * q - half(p + 2) * six_bits(p + 4, 8 + group);
    }
    default: {
        int part = i % 128 / 32, q = p[i / 128 * 64 + i % 64];
        q = (part < 2 ? q % 16 : q / 16) + (p[128 + i / 128 * 32 + i % 32] >> 2 * part) % 4 * 16;
        return half(p + 208) * (signed char)p[192 + i / 16] * (q - 32);
    }
    }
}

// Random rows of `blocks` blocks, as bytes and as numbers.
static void make_rows(int packing, int64_t rows, int64_t blocks, struct host *bytes, struct host *numbers)
{
    const struct packing *f = &packings[packing];
    *bytes = host_new(KILN_U8, 2, (int64_t[]){rows, blocks * f->size_B});
    *numbers = host_new(KILN_F32, 2, (int64_t[]){rows, blocks * f->elements});
    for (int64_t b = 0; b < rows * blocks; b++) {
        unsigned char p[256];
        for (int i = 0; i < f->size_B; i++) p[i] = (unsigned char)random_below(&structured_random, 256);
        put_half(packing == 3 ? p + 208 : p);
        if (packing == 2) put_half(p + 2);
        for (int i = 0; i < f->size_B; i++) bytes->v[b * f->size_B + i] = p[i];
        for (int i = 0; i < f->elements; i++) numbers->v[b * f->elements + i] = element(packing, p, i);
    }
}

static void product(const char *op, int packing, int dtype, enum host_layout layout, enum host_layout rows_layout,
                    int64_t m, int64_t n, int64_t blocks)
{
    kiln_scope *scope = kiln_scope_begin();
    int64_t k = blocks * packings[packing].elements;
    struct host x, bytes, w, want = host_new(dtype, 3, (int64_t[]){1, m, n}), scale = host_copy(&want);
    kiln_tensor *a = random_tensor(&x, dtype, 3, (int64_t[]){1, m, k}, layout, -3, 3);
    make_rows(packing, n, blocks, &bytes, &w);
    for (int64_t i = 0; i < m * n; i++)
        for (int64_t q = 0; q < k; q++) {
            long double term = x.v[i / n * k + q] * w.v[i % n * k + q];
            want.v[i] += term, scale.v[i] += fabsl(term) + 1e-30L;
        }
    kiln_tensor *b = host_tensor(suite.dev, &bytes, rows_layout);
    // An offset of q4_K may be much larger than what is left of an element.
    double units = (double)k / 4 + 8;
    if (packing == 2) units *= 16;
    check_values(kiln_matmul_packed(a, b, kiln_packing(packings[packing].name)), &want, &scale, units,
                 case_text(op, &x, layout, packings[packing].name));
    host_free(&x), host_free(&bytes), host_free(&w), host_free(&want), host_free(&scale);
    kiln_scope_end(&scope);
}

static void fails(const char *op, kiln_tensor *x, kiln_tensor *w, int64_t format, kiln_status status, const char *what)
{
    if (!no_error("operands")) return;
    if (kiln_matmul_packed(x, w, format)) record_mistake("%s takes %s", op, what);
    expect_error(status, op, what);
}

void conform_matmul_packed(const char *op)
{
    static const int dtypes[] = {KILN_F32, KILN_F16, KILN_BF16, KILN_F64};
    static const int64_t sizes[][3] = {{1, 5, 1}, {1, 1, 3}, {4, 3, 2}, {7, 6, 2}, {0, 3, 1}, {3, 0, 1}, {2, 3, 0}};
    for (int p = 0; p < PACKINGS; p++) {
        for (int d = 0; d < 4; d++)
            for (int i = 0; i < 7; i++)
                if (!thinned(p + d + i, 3))
                    product(op, p, dtypes[d], LAYOUT_CONTIGUOUS, LAYOUT_CONTIGUOUS, sizes[i][0], sizes[i][1],
                            sizes[i][2]);
        for (int l = 0; l < LAYOUT_COUNT; l++)
            if (!thinned(p + l, 3)) {
                if (l != LAYOUT_EXPANDED) product(op, p, KILN_F32, LAYOUT_CONTIGUOUS, (enum host_layout)l, 3, 5, 2);
                product(op, p, KILN_F32, (enum host_layout)l, LAYOUT_CONTIGUOUS, 5, 3, 1);
            }
    }
    kiln_tensor *x = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 64)),
                *w = kiln_zeros(suite.dev, KILN_U8, KILN_SHAPE(3, 68));
    kiln_tensor *none = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE0),
                *ints = kiln_zeros(suite.dev, KILN_I32, KILN_SHAPE(2, 64));
    int64_t q8_0 = kiln_packing("q8_0");
    fails(op, x, w, kiln_packing("q4_0"), KILN_E_SHAPE, "rows of no whole blocks");
    fails(op, x, w, 3, KILN_E_ARGUMENT, "a format that is none");
    fails(op, x, x, q8_0, KILN_E_DTYPE, "weights that are no bytes");
    fails(op, ints, w, q8_0, KILN_E_DTYPE, "integers");
    fails(op, none, w, q8_0, KILN_E_SHAPE, "a scalar");
    fails(op, kiln_narrow(x, 1, 0, 32), w, q8_0, KILN_E_SHAPE, "inner dimensions that differ");
    fails(op, x, kiln_flatten(w, 0, 1), q8_0, KILN_E_SHAPE, "weights that are no rows");
    fails(op, x, NULL, q8_0, KILN_E_ARGUMENT, "NULL");
}

void conform_unpack_blocks(const char *op)
{
    for (int p = 0; p < PACKINGS; p++)
        for (int l = 0; l < LAYOUT_COUNT; l++) {
            struct host bytes, want;
            if (thinned(p + l, 3) || l == LAYOUT_EXPANDED) continue;
            kiln_scope *scope = kiln_scope_begin();
            make_rows(p, l ? 3 : 0 + 2, 1 + l % 2, &bytes, &want);
            struct host scale = host_copy(&want);
            // q4_K is a difference of two numbers, of which each is rounded.
            for (int64_t i = 0; i < scale.n; i++) scale.v[i] = p == 2 ? 1024 : want.v[i];
            kiln_tensor *w = host_tensor(suite.dev, &bytes, (enum host_layout)l);
            check_values(kiln_unpack_blocks(w, kiln_packing(packings[p].name)), &want, &scale, 2,
                         case_text(op, &bytes, (enum host_layout)l, packings[p].name));
            host_free(&bytes), host_free(&want), host_free(&scale);
            kiln_scope_end(&scope);
        }
    kiln_tensor *w = kiln_zeros(suite.dev, KILN_U8, KILN_SHAPE(3, 68)),
                *x = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 68));
    if (kiln_unpack_blocks(w, kiln_packing("q6_K"))) record_mistake("unpack_blocks takes rows of no whole blocks");
    expect_error(KILN_E_SHAPE, op, "rows of no whole blocks");
    if (kiln_unpack_blocks(x, kiln_packing("q8_0"))) record_mistake("unpack_blocks takes floats");
    expect_error(KILN_E_DTYPE, op, "floats");
    if (kiln_unpack_blocks(w, -1)) record_mistake("unpack_blocks takes any number as a format");
    expect_error(KILN_E_ARGUMENT, op, "a format that is none");
}
