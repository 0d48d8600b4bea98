// Writes past the caches: a line that is written whole need not be read first, and pushes nothing out.
#pragma once
#include "base/process.h"
#include "ir/launch.h"
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

enum { LINE_B = 64 };
#ifdef __AVX512F__
#define STREAM_QUARTERS process_stream_quarters(512)
#else
#define STREAM_QUARTERS process_stream_quarters(256)
#endif

// What is read next of operands: `step_B` of each for a line that is written.
struct stream_ahead {
    int n;
    struct {
        const char *at;
        int64_t step_B;
    } of[8];
};

static inline void stream_ask(struct stream_ahead *ahead)
{
    for (int i = 0; i < ahead->n; i++) {
        for (int64_t at_B = 0; at_B < ahead->of[i].step_B; at_B += LINE_B) __builtin_prefetch(ahead->of[i].at + at_B);
        ahead->of[i].at += ahead->of[i].step_B;
    }
}

// By whole lines; the ends as they are. Meanwhile what is read next is asked of memory, unless `ahead` is NULL: memory
// would rest for reads while lines are written.
static inline __attribute__((always_inline)) void stream_asking(char *to, const char *from, int64_t n_B,
                                                                struct stream_ahead *ahead)
{
#ifdef __SSE2__
    int64_t head_B = (int64_t)(-(uintptr_t)to % 64);
    if (head_B > n_B) head_B = n_B;
    memcpy(to, from, (size_t)head_B);
    to += head_B, from += head_B, n_B -= head_B;
    for (; n_B >= 64; n_B -= 64, to += 64, from += 64) {
        if (ahead) stream_ask(ahead);
#ifdef __AVX512F__
        _mm512_stream_si512((__m512i *)(void *)to, _mm512_loadu_si512(from));
#else
        for (int i = 0; i < 64; i += 16)
            _mm_stream_si128((__m128i *)(void *)(to + i), _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
#endif
    }
#endif
    memcpy(to, from, (size_t)n_B);
}

static inline void stream(char *to, const char *from, int64_t n_B)
{
    stream_asking(to, from, n_B, NULL);
}

// What was written so is seen by others before what is written later.
static inline void stream_end(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

// At least so many quarters of what the caches hold are touched, in whole lines: four where little is computed
// meanwhile, STREAM_QUARTERS elsewhere. Not where the result lies where an operand does: its lines are in the cache as
// they are written.
static inline bool stream_pays(const struct launch *l, int quarters)
{
    const struct launch_operand *out = &l->operands[l->n_operands - 1];
    int64_t all_B = 0;
    for (int i = 0; i < l->n_operands; i++) {
        const struct launch_operand *o = &l->operands[i];
        if (o->flags & OPERAND_IMMEDIATE) continue;
        if (o != out && o->address == out->address) return false;
        all_B += ((int64_t)(o->range_hi_B - o->range_lo_B) + LINE_B - 1) / LINE_B * LINE_B;
    }
    return all_B >= process_last_cache_B() / 4 * quarters;
}
