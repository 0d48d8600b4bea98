// A band of an image, copied once with 0 around it: rows `pitch` apart, in as many phases as there are pixels from a
// place of a grid to the next. What a tap meets along a run of places lies as far from the first tap's all along, over
// the end of rows too; between two rows lie places that are computed and left out.
#pragma once
#include "cpu/kernels/conv_grid.h"
#include "cpu/kernels/gemm_kind.h"

struct spread_job {
    const struct conv_grid *g; // that differ in taps, weight and results
    int64_t n;
    const struct gemm_kind *kind;
    int64_t least_y, least_x;  // of all taps
    int64_t more_rows, pitch;  // of a phase: rows more than of places, and places from row to row
    int64_t band, bands, step; // rows; of an image; channels at a time
    int64_t plane;             // elements of a channel
    const float *bias;         // of all outputs, or NULL
};

struct spread_unit {
    int64_t image, group, y0, rows;
    char *copy;
    int32_t *at_B;
    float *sums;
};

struct spread_run { // places of a panel that are neighbours in a row of the result
    int64_t from, n;
    int64_t y, x; // the first, in the band
};
enum { SPREAD_RUNS = 32 };

// Fills in all but `bias`: false where a band of a few rows is too large for the second-level cache. Which way is
// taken, on which bits depend, is found out for one thread.
bool CPU_FN(cpu_spread_start)(struct spread_job *j, const struct conv_grid *g, int64_t n, int64_t threads);
kiln_status CPU_FN(cpu_spread_bias)(struct spread_job *j); // on the calling thread's memory
int64_t CPU_FN(cpu_spread_panels)(const struct spread_job *j, int64_t rows);
int64_t CPU_FN(cpu_spread_runs)(const struct spread_job *j, int64_t rows, int64_t panel, struct spread_run *runs);
// The i-th unit, whose copy is made; false: it is empty.
bool CPU_FN(cpu_spread_unit)(const struct spread_job *j, int64_t i, struct spread_unit *u);
// Where the positions of `step` channels lie, from the first place's, in bytes.
void CPU_FN(cpu_spread_positions)(const struct spread_job *j, const struct conv_grid *g, int64_t rows, int32_t *at_B);
