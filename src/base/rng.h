// Places in streams of random numbers: a seed, which is the key of a stream, and an offset in it (ops/random.c).
//
// A node of control flow takes one number of the stream around. That number and the stream's key make the key of a
// stream of its own, in which each trip has a piece: the trip's number is the high word of the offset. So what a trip
// draws depends neither on how many there are nor on what others draw, and what comes after not on what was drawn.
#pragma once
#include "base/hash.h"

struct rng {
    uint64_t seed, offset;
};

// Where trip `row` draws, of the node that took the number at `at`; a branch draws as trip 0 does.
static inline struct rng rng_of_trip(const struct rng *at, int64_t row)
{
    return (struct rng){hash_u64(hash_u64(0, at->seed), at->offset), (uint64_t)row << 32};
}

// Where the condition of a loop draws before that trip.
static inline struct rng rng_of_condition(const struct rng *at, int64_t row)
{
    struct rng r = rng_of_trip(at, row);
    r.offset |= UINT64_C(1) << 31;
    return r;
}
