// A pool: slabs cut to measure. Part of the heap, under its lock.
#pragma once
#include "device/device.h"

#define HEAP_ALIGN_B     256u
#define HEAP_CLASSES     400
#define HEAP_CLASS_WORDS ((HEAP_CLASSES + 63) / 64)

// Class of a size that is a multiple of HEAP_ALIGN_B: its magnitude and the three bits below. Rounded down, so that all
// in a class are at least as large as the least.
static inline uint32_t heap_class(uint64_t size_B)
{
    uint64_t units = size_B / HEAP_ALIGN_B;
    int exp = 63 - __builtin_clzll(units);
    if (exp < 3) return (uint32_t)units;
    return (uint32_t)(16 + exp * 8 + (int)((units >> (exp - 3)) & 7));
}

// The first class from c on whose bit is set; HEAP_CLASSES when none is.
static inline uint32_t heap_class_from(const uint64_t *bits, uint32_t c)
{
    for (uint32_t word = c / 64, from = c % 64; word < HEAP_CLASS_WORDS; word++, from = 0) {
        uint64_t set = bits[word] >> from;
        if (set) return word * 64 + from + (uint32_t)__builtin_ctzll(set);
    }
    return HEAP_CLASSES;
}

struct pool;

struct heap_slab {
    struct slab slab;
    struct pool *pool;    // NULL: blocks of size classes
    struct piece *pieces; // of a pool's slab, by address
    uint64_t used_B;      // of size classes: carved so far
    uint64_t live;        // blocks handed out
    uint64_t idle_since;  // by the heap's clock
    bool dying;
    struct heap_slab *prev, *next; // among the busy or the idle ones
};

struct piece {
    struct heap_slab *slab;
    uint64_t at_B, size_B;
    bool free;
    struct piece *before, *after; // neighbours in the slab
    struct piece *prev, *next;    // of the free ones of a class
};

struct pool {
    uint64_t least_rest_B; // a rest below this stays with the piece it is left of
    struct piece *classes[HEAP_CLASSES];
    uint64_t filled[HEAP_CLASS_WORDS]; // bit by class: it has free pieces
    struct piece *spare;
};

// All of a slab is one free piece from now on.
kiln_status pool_add(struct pool *p, struct heap_slab *s);
// A piece of at least size_B, the least of its class, with its rest cut off; NULL when none is free.
struct piece *pool_take(struct pool *p, uint64_t size_B);
void pool_give(struct pool *p, struct piece *piece); // free again, and one with its free neighbours
void pool_remove(struct heap_slab *s);               // the slab goes
void pool_finish(struct pool *p);
