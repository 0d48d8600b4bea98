// The taps of an axis of another size (base/resample.h), as lists: those of element i are begin[i] to begin[i + 1].
#pragma once
#include "base/resample.h"
#include "cpu/kernels/kernel.h"

#include <string.h>

#ifdef __AVX512F__
enum { LANES = 16 };
#else
enum { LANES = 8 };
#endif
struct taps {
    int64_t n, from;      // sizes of the axis: of out, of x
    bool between;         // two taps, of which the second weight says how far to go
    const int32_t *begin; // n + 1
    const int32_t *at;
    const double *weight;
    // Of LANES elements each, where there are two taps: where the 2 * LANES of x begin that hold their taps, or -1;
    // places there, or of -1 in x; how far to go.
    const int32_t *base, *low, *high;
    const float *far;
    bool past; // results go past the caches
};

static void list_forward(const struct resample *r, int32_t *begin, int32_t *at, double *weight)
{
    int64_t place[RESAMPLE_MOST_TAPS];
    int32_t n = 0;
    for (int64_t i = 0; i < r->out; i++) {
        begin[i] = n;
        int taps = resample_taps(r, i, place, weight + n);
        for (int k = 0; k < taps; k++) at[n++] = (int32_t)place[k];
    }
    begin[r->out] = n;
}

static void list_adjoint(const struct resample *r, int32_t *begin, int32_t *at, double *weight)
{
    int64_t place[RESAMPLE_MOST_TAPS];
    double w[RESAMPLE_MOST_TAPS];
    memset(begin, 0, (size_t)(r->in + 1) * sizeof *begin);
    for (int64_t i = 0; i < r->out; i++)
        for (int k = resample_taps(r, i, place, w); k-- > 0;) begin[place[k] + 1]++;
    for (int64_t i = 0; i < r->in; i++) begin[i + 1] += begin[i];
    for (int64_t i = 0; i < r->out; i++) {
        int taps = resample_taps(r, i, place, w);
        for (int k = 0; k < taps; k++) {
            int32_t to = begin[place[k]]++;
            at[to] = (int32_t)i;
            weight[to] = w[k];
        }
    }
    memmove(begin + 1, begin, (size_t)r->in * sizeof *begin);
    begin[0] = 0;
}

static void find_bases(const struct taps *t, int32_t *base, int32_t *place, float *far)
{
    int64_t padded = parts(t->n, LANES) * LANES;
    for (int64_t b = 0; b * LANES < t->n; b++) {
        int64_t end = least(t->n, (b + 1) * LANES), low = t->from, high = 0;
        for (int64_t i = 2 * b * LANES; i < 2 * end; i++) {
            if (t->at[i] < low) low = t->at[i];
            if (t->at[i] > high) high = t->at[i];
        }
        if (low > t->from - 2 * LANES) low = t->from - 2 * LANES;
        base[b] = low < 0 || high - low >= 2 * LANES ? -1 : (int32_t)low;
        if (base[b] < 0) low = 0;
        for (int64_t i = b * LANES; i < (b + 1) * LANES; i++) {
            bool there = i < t->n;
            place[i] = there ? t->at[2 * i] - (int32_t)low : 0;
            place[padded + i] = there ? t->at[2 * i + 1] - (int32_t)low : 0;
            far[i] = there ? (float)t->weight[2 * i + 1] : 0;
        }
    }
}

// Bytes of the lists of an axis.
static size_t taps_B(const struct resample *r, bool adjoint)
{
    size_t n = (size_t)(adjoint ? r->in : r->out), all = (size_t)r->out * RESAMPLE_MOST_TAPS, blocks = n / LANES + 1;
    return all * 8 + (all + n + 1 + blocks + 3 * blocks * LANES) * 4 / 8 * 8 + 8;
}

// Lists in so many bytes, aligned to 8.
static struct taps taps_in(void *memory, const struct resample *r, bool adjoint)
{
    size_t n = (size_t)(adjoint ? r->in : r->out), all = (size_t)r->out * RESAMPLE_MOST_TAPS, blocks = n / LANES + 1;
    double *weight = memory;
    int32_t *at = (int32_t *)(void *)(weight + all), *begin = at + all, *base = begin + n + 1, *place = base + blocks;
    int32_t *high = place + parts((int64_t)n, LANES) * LANES;
    float *far = (float *)(void *)(place + 2 * blocks * LANES);
    (adjoint ? list_adjoint : list_forward)(r, begin, at, weight);
    struct taps t = {.n = (int64_t)n,
                     .from = adjoint ? r->out : r->in,
                     .between = !adjoint && !r->cubic,
                     .begin = begin,
                     .at = at,
                     .weight = weight};
    if (!t.between) return t;
    find_bases(&t, base, place, far);
    t.base = base, t.low = place, t.high = high, t.far = far;
    return t;
}
