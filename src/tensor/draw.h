// Whose random numbers ops draw: a device's, or in a region of control flow those of the trip. See base/rng.h.
#pragma once
#include "base/rng.h"
#include "device/device.h"

#include <kiln/random.h>

// A node of control flow that is carried out on this thread.
struct draw_frame {
    struct draw_frame *outer;
    kiln_device *dev;  // NULL: not known before something is drawn
    struct rng number; // that the node took of the stream around
    struct rng at;     // the next of this trip
    int64_t row;
    bool condition;
    uint32_t capture; // that was in progress
};

struct kiln_generator {
    struct rng at;
    int users; // who made it, and each thread that uses it
};
struct rng generator_take(kiln_generator *g, uint64_t n);
void generator_give_back(kiln_generator *g, const struct rng *taken, uint64_t n);

// The next n numbers for ops on dev.
struct rng draw_take(kiln_device *dev, uint64_t n);
// The numbers that a call took are there again, unless others have taken some since.
void draw_give_back(kiln_device *dev, const struct rng *taken, uint64_t n);

// Takes the node's number, on dev (NULL: the first that draws), or has it `given`. Ends with draw_leave.
void draw_enter(struct draw_frame *f, kiln_device *dev, const struct rng *given);
void draw_trip(struct draw_frame *f, int64_t row, bool condition); // what follows is drawn in that trip
void draw_leave(const struct draw_frame *f);
