// Trips of a loop whose children are launches alone, on a device that takes them at once: each launch is laid out
// twice, for even and for odd trips, and what moves from row to row goes on by a step.
#pragma once
#include "program/run.h"

// NULL: its launches can be laid out once; else why not.
const char *program_series_refuses(const struct program *p);

struct series_child {
    const struct program *p;                 // NULL: there is none
    const struct program_argument *turns[2]; // of an even trip and of an odd one, the next two to come
    const int64_t *step;                     // by argument: from a trip to the second after it
    int number;                              // which argument is the number of the trip
};

struct series_code;
struct program_series {
    struct series_child body, cond;
    struct series_code *code; // of the loop; NULL: it is made by single launches always
    const uint8_t *flag;      // that cond gives: false ends the loop before the trip
    uint64_t arena;           // of the children
    struct flow_trip *at;
    int64_t first, end;
};

// *trips: how many there were when it ended; *ended: the condition no longer held. Memory is taken of `memory`.
kiln_status program_series_run(const struct program_series *s, struct arena *memory, int64_t *trips, bool *ended);
