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

// By whole lines; the ends as they are.
static inline void stream(char *to, const char *from, int64_t n_B)
{
#ifdef __SSE2__
    int64_t head_B = (int64_t)(-(uintptr_t)to % 64);
    if (head_B > n_B) head_B = n_B;
    memcpy(to, from, (size_t)head_B);
    to += head_B, from += head_B, n_B -= head_B;
    for (; n_B >= 64; n_B -= 64, to += 64, from += 64) {
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
