// The profiler: spans of time on tracks, written as a Chrome trace. Every thread has a track, and every device whose
// own clock gives the times of launches.
#pragma once
#include "base/base.h"
#include "base/clock.h"
#include "ir/launch_facts.h"
#include <kiln/profile.h>
#include <stdatomic.h>

extern atomic_bool profile_running;

static inline bool profile_on(void)
{
    return KILN_UNLIKELY(atomic_load_explicit(&profile_running, memory_order_relaxed));
}

// The track of that name, made at the first question.
uint32_t profile_track(const char *name);

// What spans are of: kept once, however many there are. Of one profile; the next does not know it.
typedef uint64_t profile_label;
// `category` is static, all else is copied. dev and facts may be NULL. 0 while no profile is taken.
profile_label profile_label_of(const char *category, const char *name, const kiln_device *dev,
                               const struct launch_facts *facts);
// A span on a track. Without effect while no profile is taken, or another one than the label is of.
void profile_add(uint32_t track, profile_label label, uint64_t start_ns, uint64_t end_ns);
// Nothing that the calling thread does is noted, or all is again. Returns what was.
bool profile_quiet(bool quiet);
// How much of a device's memory is in use from now on.
void profile_memory(const kiln_device *dev, uint64_t used_B);

// A span of the calling thread, over a block: PROFILE("capture", f->name); names must live to the end of the block.
struct profile_span {
    const char *category, *name;
    uint64_t start_ns;                // 0: nothing is noted
    const kiln_device *dev;           // NULL: of none
    const struct launch_facts *facts; // NULL: none; they must live to the end of the block
};
static inline struct profile_span profile_span_begin(const char *category, const char *name)
{
    return (struct profile_span){category, name, profile_on() ? clock_now_ns() : 0, NULL, NULL};
}
void profile_span_add(const struct profile_span *s);
static inline void profile_span_end(struct profile_span *s)
{
    if (KILN_UNLIKELY(s->start_ns != 0)) profile_span_add(s);
}
// Of a launch or a copy.
static inline struct profile_span profile_span_of_launch(const kiln_device *dev, const char *op,
                                                         const struct launch_facts *facts)
{
    struct profile_span s = profile_span_begin("launch", op);
    s.dev = dev;
    s.facts = facts;
    return s;
}
#define PROFILE(category, name)                                                            \
    struct profile_span profile_span_ __attribute__((cleanup(profile_span_end), unused)) = \
        profile_span_begin(category, name)

// Spans that have all in common but their times.
struct profile_row {
    const char *category, *name;
    const char *op, *line, *cell, *device; // "": none
    double n, total_us;
    double bytes, flops; // of each; flops negative: not known
};
// Of the profile that is taken, or else of the last one. Behind it `lost` is how many events are not in the file.
bool profile_is_known(void);
typedef void profile_row_fn(void *user, const struct profile_row *row);
void profile_visit(profile_row_fn *visit, void *user, uint64_t *lost);
void profile_visit_devices(void (*visit)(void *user, const char *name, const char *kind, uint64_t peak_B), void *user);

// Begins a profile of the whole process where KILN_PROFILE names a file; looked at once.
void profile_from_environment(void);
// In device.c: tells how much memory of each device is in use.
void profile_tell_memory(void);
// In device.c: waits for all devices, so that they tell the times of what is in flight.
kiln_status profile_settle_devices(void);
