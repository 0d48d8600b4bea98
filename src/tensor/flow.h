// What a thread is in the midst of: trips of loops, and the calls of the host that a run makes.
#pragma once
#include "ir/host.h"
#include "tensor/tensor.h"

// A loop that is run, for messages.
struct flow_trip {
    struct flow_trip *outer;
    int64_t trip; // -1: none yet
};
static inline void flow_enter(struct flow_trip *t)
{
    *t = (struct flow_trip){thread_state.trips, -1};
    thread_state.trips = t;
}
static inline void flow_leave(const struct flow_trip *t)
{
    thread_state.trips = t->outer;
}
#define FLOW_TEXT_MAX 160
// ", in trip 3 of its loop, 0 of the one around", or nothing.
char *flow_text(char *text, size_t size_B);

// Calls it, with no sink, tape or error, in the scope that is open. Effects are counted, or passed over, as
// thread_state.effects says.
kiln_status flow_call_host(const struct host_call *h, kiln_device *dev, kiln_tensor *const *in, size_t n_in,
                           kiln_tensor **out);

// A result of an effect: a number, or a tensor of its own.
struct flow_kept {
    kiln_tensor *tensor; // owned; NULL: `number`
    double number;
};
enum { FLOW_KEPT_MOST_B = 64 << 20 }; // for all results of a run
void flow_effects_finish(struct flow_effects *e);
