/// @file random.h
/// Generators of random numbers beside those of the devices.
///
///     kiln_generator *g = kiln_generator_new(42);
///     kiln_generator *before = kiln_use_generator(g); // what this thread draws comes from g
///     kiln_tensor *noise = kiln_normal(dev, KILN_F32, KILN_SHAPE(3), 0, 1);
///     kiln_use_generator(before);
///     kiln_generator_free(&g);
///
/// A generator is a seed, the key of a stream, and an offset in it. It belongs to no device: what is drawn depends on
/// its state alone, and is the same on all of them. Every random op, dropout, and every call of a captured function or
/// of control flow takes its numbers from the generator in use on the thread, or where there is none from its device's
/// (kiln_seed). The numbers of a captured function are those of the call, not of the capture.
///
/// A generator may be used by several threads: each op takes its piece whole, in the order in which they come.
#ifndef KILN_RANDOM_H
#define KILN_RANDOM_H

#include <kiln/error.h>
#include <kiln/macros.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_generator kiln_generator;

/// A generator at the beginning of a stream. NULL with KILN_E_MEMORY.
KILN_API kiln_generator *kiln_generator_new(uint64_t seed);
/// Lets go of it and nulls the pointer; NULL is fine. Where a thread still uses it, it goes when the last has
/// stopped; it may not be put back then.
KILN_API void kiln_generator_free(kiln_generator **g);
/// A generator of a stream of its own, made of one number that it takes of g: each call gives another.
KILN_API kiln_generator *kiln_generator_fork(kiln_generator *g);
/// The state, to be kept, and put back: results continue as they did. Either may be NULL.
KILN_API kiln_status kiln_generator_state(const kiln_generator *g, uint64_t *seed, uint64_t *offset);
KILN_API kiln_status kiln_generator_set_state(kiln_generator *g, uint64_t seed, uint64_t offset);

/// Uses g on this thread from now on, NULL: the devices' generators. Returns the one that was in use before, or NULL.
/// KILN_E_STATE, and nothing changes, in a STRICT or TRACE capture and in regions of control flow: use it around the
/// call.
KILN_API kiln_generator *kiln_use_generator(kiln_generator *g);

#ifdef __cplusplus
}
#endif
#endif
