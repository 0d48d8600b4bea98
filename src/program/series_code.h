// The launches of a trip, laid out (series.c), and the function that takes their place where trips are many and
// launches small.
#pragma once
#include "program/impl.h"
#include "program/series.h"

struct mover {
    uint64_t *at;
    uint64_t step;
};

// A launch for even and for odd trips.
struct series_launch {
    const struct action *a;
    const struct jit_launch *l; // NULL: plain
    struct compiled_launch launch[2];
    uint64_t *words[2];
    struct launch *plain[2];
    struct mover *movers[2];
    int n_movers;
    bool numbered; // it takes the number of the trip
    uint32_t failed;
};

struct series_launches {
    const struct series_child *child;
    struct series_launch *v;
    int n, launches; // those that count
};

// NULL and an error: out of memory. It lies in the arena; what it holds goes with series_code_drop.
struct series_code *series_code_new(struct arena *a);
void series_code_drop(struct series_code *c); // NULL is fine

// How many trips are made by single launches before the function is worth its compilation; INT64_MAX: all.
int64_t series_code_wait(struct series_code *c, const struct series_launches *cond, const struct series_launches *body);
// Makes the trips up to the end, or to where the condition no longer holds, and sets *trip. False, and nothing was
// done: there is no such function.
bool series_code_run(const struct program_series *s, const struct series_launches *cond,
                     const struct series_launches *body, struct arena *memory, int64_t *trip);
void series_code_count(struct series_code *c, int64_t trips); // that were made by single launches
