// Launches of a program that are recorded once and run again, on devices that keep records (device/record.h).
//
// A launch is what it is by the addresses and numbers of its run. These repeat: parameters stay where they are, and the
// heap gives a call the memory that the call before gave back. So stretches of launches, pieces, are recorded with
// them, a few times where they alternate, and a run looks which of its recordings is the one. Temporaries, small inputs
// and small results that lie somewhere else in each run get memory that stays, and are copied. What else takes ever new
// values is no part of a piece: it is launched as before.
#pragma once
#include "program/run.h"

struct program_records;
// The recordings of the program, for this thread, until it gives them back. NULL: it launches one by one.
struct program_records *records_take(const struct program_call *r);
void records_give(struct program_records *x); // NULL is ignored
// Where temporaries lie, if that is a place of its own; else false: in memory of the heap.
bool records_arena(const struct program_records *x, struct block *out);
// Runs the program. `launch` launches its actions [first, end); `spend` is called where first_over is in a piece that
// is run by a recording.
typedef kiln_status records_launch_fn(const struct program_call *r, int first, int end);
kiln_status records_run(struct program_records *x, const struct program_call *r, records_launch_fn *launch,
                        void (*spend)(const struct program_call *r));
