// The profiler: spans of time on tracks, written as a Chrome trace. Every thread has a track, and every device whose
// own clock gives the times of launches.
#pragma once
#include "base/base.h"
#include "base/clock.h"
#include <stdatomic.h>

extern atomic_bool profile_running;

static inline bool profile_on(void)
{
    return KILN_UNLIKELY(atomic_load_explicit(&profile_running, memory_order_relaxed));
}

// The track of that name, made at the first question.
uint32_t profile_track(const char *name);
// A span on a track; `category` is static, `name` is copied. Without effect while no profile is taken.
void profile_add(uint32_t track, const char *category, const char *name, uint64_t start_ns, uint64_t end_ns);

// A span of the calling thread, over a block: PROFILE("capture", f->name); names must live to the end of the block.
struct profile_span {
    const char *category, *name;
    uint64_t start_ns; // 0: nothing is noted
};
static inline struct profile_span profile_span_begin(const char *category, const char *name)
{
    return (struct profile_span){category, name, profile_on() ? clock_now_ns() : 0};
}
void profile_span_add(const struct profile_span *s);
static inline void profile_span_end(struct profile_span *s)
{
    if (KILN_UNLIKELY(s->start_ns != 0)) profile_span_add(s);
}
#define PROFILE(category, name)                                                            \
    struct profile_span profile_span_ __attribute__((cleanup(profile_span_end), unused)) = \
        profile_span_begin(category, name)

// Begins a profile of the whole process where KILN_PROFILE names a file; looked at once.
void profile_from_environment(void);
// Set by device.c: waits for all devices, so that they tell the times of what is in flight.
kiln_status profile_settle_devices(void);
