// Columns of images, packed in panels as the register kernels of products read them.
//
// Places of a panel are taken in runs of neighbours, at most a vector long, and the taps of a row together: what they
// meet is the same in all channels, so that bounds are worked out once, and a line of the image is read for all of
// these taps before the next channel's.
#include "cpu/kernels/conv_grid.h"
#if defined(__AVX512F__)
#include "cpu/kernels/gemm_pack512.h"
#elif defined(__AVX2__)
#include "cpu/kernels/conv256.h"
#endif

enum { RUN = 16, SIDE_BY_SIDE = 8 };

struct meeting { // of a run and the taps of a row: for each tap the places inside the image
    int64_t n, places, taps;
    int64_t from[SIDE_BY_SIDE], to[SIDE_BY_SIDE];
    int64_t pixel[SIDE_BY_SIDE];    // that the first place meets, in elements; it may lie outside
    int64_t step, channel_B, row_B; // from place to place; from channel to channel, from tap to tap
};

typedef void meet_fn(const struct meeting *m, const struct conv_side *x, enum scalar_class cls, const char *plane,
                     int64_t channels, char *to);

static void meet_any(const struct meeting *m, const struct conv_side *x, enum scalar_class cls, const char *plane,
                     int64_t channels, char *to)
{
    int64_t size_B = cpu_class_size_B[cls];
    for (int64_t c = 0; c < channels; c++, plane += x->o->strides[1] * x->size_B, to += m->channel_B)
        for (int64_t t = 0; t < m->taps; t++) {
            char *dst = to + t * m->row_B;
            int64_t from = m->from[t], past = m->to[t];
            if (past - from < m->places) memset(dst, 0, (size_t)(m->places * size_B));
            if (past > from) CPU_FN(cpu_load)
            (x->o->dtype, cls, dst + from * size_B, plane + (m->pixel[t] + from * m->step) * x->size_B, past - from,
             m->step);
        }
}

static void meet_words(const struct meeting *m, const struct conv_side *x, enum scalar_class cls, const char *plane,
                       int64_t channels, char *to)
{
    (void)cls;
    for (int64_t c = 0; c < channels; c++, plane += x->o->strides[1] * 4, to += m->channel_B)
        for (int64_t t = 0; t < m->taps; t++) {
            uint32_t *dst = (uint32_t *)(void *)(to + t * m->row_B);
            const uint32_t *src = (const uint32_t *)(const void *)plane + m->pixel[t];
            for (int64_t i = 0; i < m->from[t]; i++) dst[i] = 0;
            for (int64_t i = m->from[t]; i < m->to[t]; i++) dst[i] = src[i * m->step];
            for (int64_t i = m->to[t]; i < m->places; i++) dst[i] = 0;
        }
}

#if defined(__AVX512F__)
PACK __m512 load_some(__mmask16 some, const char *at, const unsigned dtype)
{
    if (dtype == KILN_F32) return _mm512_maskz_loadu_ps(some, at);
    __m256i half = _mm256_maskz_loadu_epi16(some, at);
    if (dtype == KILN_F16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

// Places one or two pixels apart, 16 at once.
PACK void meet_16(const struct meeting *m, const struct conv_side *x, const char *plane, int64_t channels, char *to,
                  const unsigned dtype, const int size_B, const int step)
{
    __mmask16 all = first_16(m->places), low[SIDE_BY_SIDE], high[SIDE_BY_SIDE];
    __m512i even = _mm512_add_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                    _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    for (int64_t t = 0; t < m->taps; t++) {
        uint32_t first = (uint32_t)first_32(m->from[t] * step), past = (uint32_t)first_32((m->to[t] - 1) * step + 1);
        uint32_t inside = m->to[t] > m->from[t] ? past & ~first : 0;
        low[t] = (__mmask16)inside;
        high[t] = (__mmask16)(inside >> 16);
    }
    int64_t next_B = x->o->strides[1] * size_B;
    for (int64_t c = 0; c < channels; c++, plane += next_B, to += m->channel_B)
        for (int64_t t = 0; t < m->taps; t++) {
            const char *at = plane + m->pixel[t] * size_B;
            __m512 v = load_some(low[t], at, dtype);
            if (step == 2) v = _mm512_permutex2var_ps(v, even, load_some(high[t], at + 16 * size_B, dtype));
            _mm512_mask_storeu_ps(to + t * m->row_B, all, v);
        }
}

#define MEET(name, dtype, size_B, step)                                                                            \
    static void name(const struct meeting *m, const struct conv_side *x, enum scalar_class cls, const char *plane, \
                     int64_t channels, char *to)                                                                   \
    {                                                                                                              \
        (void)cls;                                                                                                 \
        meet_16(m, x, plane, channels, to, dtype, size_B, step);                                                   \
    }
MEET(meet_f32_1, KILN_F32, 4, 1)
MEET(meet_f32_2, KILN_F32, 4, 2)
MEET(meet_f16_1, KILN_F16, 2, 1)
MEET(meet_f16_2, KILN_F16, 2, 2)
MEET(meet_bf16_1, KILN_BF16, 2, 1)
MEET(meet_bf16_2, KILN_BF16, 2, 2)
#undef MEET
#elif defined(__AVX2__)
// f32 one or two pixels apart, 8 places at once.
static inline __attribute__((always_inline)) void meet_8(const struct meeting *m, const struct conv_side *x,
                                                         const char *plane, int64_t channels, char *to, const int step)
{
    enum { HALVES = RUN / 8 };
    __m256i low[SIDE_BY_SIDE][HALVES], high[SIDE_BY_SIDE][HALVES];
    for (int64_t t = 0; t < m->taps; t++)
        for (int h = 0; h < HALVES; h++) {
            int64_t from = m->from[t] * step - 8 * h * step, past = (m->to[t] - 1) * step + 1 - 8 * h * step;
            bool some = m->to[t] > m->from[t];
            low[t][h] = lanes_256(from, some ? past : 0);
            high[t][h] = lanes_256(from - 8, some ? past - 8 : 0);
        }
    for (int64_t c = 0; c < channels; c++, plane += x->o->strides[1] * 4, to += m->channel_B)
        for (int64_t t = 0; t < m->taps; t++) {
            const float *at = (const float *)(const void *)plane + m->pixel[t];
            float *dst = (float *)(void *)(to + t * m->row_B);
            for (int h = 0; h < HALVES && 8 * h < m->places; h++, at += 8 * step) {
                __m256 v = _mm256_maskload_ps(at, low[t][h]);
                if (step == 2) v = evens_256(v, _mm256_maskload_ps(at + 8, high[t][h]));
                store_256(dst + 8 * h, v, m->places - 8 * h);
            }
        }
}

static void meet_f32_1(const struct meeting *m, const struct conv_side *x, enum scalar_class cls, const char *plane,
                       int64_t channels, char *to)
{
    (void)cls;
    meet_8(m, x, plane, channels, to, 1);
}

static void meet_f32_2(const struct meeting *m, const struct conv_side *x, enum scalar_class cls, const char *plane,
                       int64_t channels, char *to)
{
    (void)cls;
    meet_8(m, x, plane, channels, to, 2);
}
#endif

static meet_fn *meets(const struct conv_grid *g, int64_t step)
{
    unsigned dtype = g->x.o->dtype;
    if (g->cls != CLASS_F32) return meet_any;
#if defined(__AVX512F__)
    if (step == 1 || step == 2) switch (dtype) {
        case KILN_F32: return step == 1 ? meet_f32_1 : meet_f32_2;
        case KILN_F16: return step == 1 ? meet_f16_1 : meet_f16_2;
        case KILN_BF16: return step == 1 ? meet_bf16_1 : meet_bf16_2;
        }
#elif defined(__AVX2__)
    if (dtype == KILN_F32 && (step == 1 || step == 2)) return step == 1 ? meet_f32_1 : meet_f32_2;
#endif
    return dtype == KILN_F32 ? meet_words : meet_any;
}

// Numbers i of [0, places) with 0 <= at + i * step < size.
static void inside(int64_t at, int64_t step, int64_t size, int64_t places, int64_t *from, int64_t *to)
{
    *from = at >= 0 ? 0 : (-at + step - 1) / step;
    *to = at >= size ? 0 : (size - at + step - 1) / step;
    if (*to > places) *to = places;
    if (*from > *to) *from = *to = 0;
}

// The run of m->n image, row y, places from x on.
static void pack_run(const struct conv_grid *g, struct meeting *m, int64_t y, int64_t x, int64_t c0, int64_t channels,
                     char *to)
{
    meet_fn *meet = meets(g, m->step);
    const int64_t *s = g->x.o->strides;
    const char *plane = conv_at(&g->x, m->n, c0, 0, 0);
    for (int64_t t = 0; t < g->n_taps; t += m->taps) {
        int64_t iy = y * g->sh + g->taps[t].y;
        bool row = iy >= 0 && iy < g->h;
        m->taps = 0;
        for (int64_t i = t; i < g->n_taps && m->taps < SIDE_BY_SIDE && g->taps[i].y == g->taps[t].y; i++, m->taps++) {
            int64_t k = m->taps, ix = x * g->sw + g->taps[i].x;
            inside(ix, g->sw, g->w, row ? m->places : 0, &m->from[k], &m->to[k]);
            m->pixel[k] = iy * s[2] + ix * s[3];
        }
        meet(m, &g->x, g->cls, plane, channels, to + t * m->row_B);
    }
}

void CPU_FN(cpu_conv_pack)(const struct conv_grid *g, const struct conv_panel *p, int64_t c0, int64_t channels,
                           char *to)
{
    int64_t size_B = cpu_class_size_B[g->cls], row_B = p->ld * size_B;
    struct meeting m = {.step = g->sw * g->x.o->strides[3], .channel_B = g->n_taps * row_B, .row_B = row_B};
    if (p->columns < p->wide) memset(to, 0, (size_t)(channels * g->n_taps * row_B));
    for (int64_t i = 0; i < p->columns; i += m.places) {
        int64_t place = p->first + i, x = place % g->ow, y = place / g->ow % g->oh, left = p->columns - i;
        m.n = place / g->ow / g->oh;
        m.places = g->ow - x < left ? g->ow - x : left;
        if (m.places > RUN) m.places = RUN;
        pack_run(g, &m, y, x, c0, channels, to + i * size_B);
    }
}

void CPU_FN(cpu_conv_taps)(const struct conv *v, struct conv_tap *taps)
{
    for (int64_t t = 0; t < v->kk; t++)
        taps[t] = (struct conv_tap){t / v->kw * v->dh - v->ph, t % v->kw * v->dw - v->pw};
}
