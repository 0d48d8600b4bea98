// The argument block of a launch on the CPU, and how its work is divided.
//
// Input: a kernel and its plan. The division follows from the sizes alone: blocks of points along the lanes, chunks of
// rows where there are too few points to occupy the threads, steps put together to units of about UNIT_POINTS elements.
#include "base/process.h"
#include "codegen/llvm/llvm.h"
#include "codegen/turns.h"
#include <stdlib.h>

enum {
    UNIT_POINTS = 4096,   // elements of a unit
    BLOCK_POINTS = 4096,  // points of a block along the lanes, where the row is one element
    ROW_POINTS = 512,     // ... where each point has a row
    ACROSS_POINTS = 128,  // ... that lies across the lanes
    TILE_POINTS = 65536,  // of a tile whose rows are transposed
    LINE_POINTS = 64,     // the least of a block whose points make the trips of a loop in registers
    TRIPS_POINTS = 1024,  // elements of a unit that makes them in memory
    CHUNK_POINTS = 65536, // elements of a chunk, all points of its step together
    ENOUGH_STEPS = 256,   // steps that need no cutting of rows
    MOST_CHUNKS = 256,
    PANEL_ROWS = 8,
    PANEL_POINTS = 8192
};

// A fold over no elements still gives a value for each point.
static int64_t at_least_one(int64_t n)
{
    return n < 1 ? 1 : n;
}

struct division {
    int64_t block, n_blocks, chunk, n_chunks, panel, steps, per_unit, units, step_points;
};

// Rows are cut so that a chunk has enough elements, and only as far as there is use for more steps.
static void divide_rows(const struct codegen_plan *p, const struct fused_kernel *k, struct division *d, int64_t places,
                        int64_t step_points)
{
    d->chunk = d->n_chunks = 1;
    if (p->choices[LLVM_SPLIT_DIM] == LLVM_NO_DIM) return;
    int64_t length = k->sizes[p->choices[LLVM_SPLIT_DIM]], most = ceil_div(ENOUGH_STEPS, places);
    int64_t n = step_points / CHUNK_POINTS;
    if (n > most) n = most;
    if (n > MOST_CHUNKS) n = MOST_CHUNKS;
    if (n > length) n = length;
    if (n < 1) n = 1;
    d->chunk = at_least_one(ceil_div(length, n));
    if (p->choices[LLVM_SPLIT_DIM] == p->choices[LLVM_LANES_DIM]) d->chunk = ceil_div(d->chunk, 4096) * 4096;
    d->n_chunks = at_least_one(ceil_div(length, d->chunk));
}

// Few rows at a time, each read in a long piece: memory and its prefetchers like it better than long columns.
static int64_t panel_of(const struct codegen_plan *p, const struct fused_kernel *k, const struct division *d)
{
    int64_t inner = fused_row_length(k) / k->sizes[p->choices[LLVM_SPLIT_DIM]];
    int64_t positions = PANEL_POINTS / d->block > PANEL_ROWS ? PANEL_POINTS / d->block : PANEL_ROWS;
    return ceil_div(positions, inner);
}

// Each point makes all trips, in place on as many as a cache holds; those of whole cache lines at a time.
static int64_t trips_block(const struct fused_kernel *k, int64_t most)
{
    int64_t points = most / k->trips.most;
    if (k->trips.in_place) return most < TRIPS_POINTS ? most : TRIPS_POINTS;
    return points < LINE_POINTS ? LINE_POINTS : points / LINE_POINTS * LINE_POINTS;
}

static struct division divide(const struct codegen_plan *p, const struct fused_kernel *k)
{
    struct division d = {.block = 1, .n_blocks = 1};
    bool flat = fused_is_flat(k);
    int64_t row = flat ? 1 : fused_row_length(k),
            points = flat ? fused_points(k) * fused_row_length(k) : fused_points(k);
    int64_t places = points, along = 1, tile = 1;
    if (p->form == LLVM_OVER_POINTS && p->choices[LLVM_LANES_DIM] != LLVM_NO_DIM) {
        bool cuts = p->choices[LLVM_SPLIT_DIM] != LLVM_NO_DIM;
        int64_t lanes = k->sizes[p->choices[LLVM_LANES_DIM]], most = BLOCK_POINTS;
        if (row > 1 && !cuts) most = ROW_POINTS;
        if (p->choices[LLVM_TILE_DIM] != LLVM_NO_DIM) most = TILE_POINTS / p->choices[LLVM_TILE_ROWS];
        // Where rows are long and points few, narrower blocks give each thread some; rows that may be cut do that
        // better, for memory is read in longer pieces.
        while (row > 1 && !cuts && most > 64 && points / most < 64) most /= 2;
        if (p->choices[LLVM_ACROSS] && most > ACROSS_POINTS) most = ACROSS_POINTS;
        if (k->trips.on) most = trips_block(k, most);
        d.block = along = at_least_one(lanes < most ? lanes : most);
        d.n_blocks = ceil_div(lanes, d.block);
        places = points / at_least_one(lanes) * d.n_blocks;
        if (p->choices[LLVM_TILE_DIM] != LLVM_NO_DIM) {
            int64_t across = k->sizes[p->choices[LLVM_TILE_DIM]], rows = p->choices[LLVM_TILE_ROWS];
            tile = across < rows ? across : rows;
            places = places / across * ceil_div(across, rows);
        }
    }
    divide_rows(p, k, &d, places, along * row);
    d.panel = d.n_chunks > 1 ? panel_of(p, k, &d) : d.chunk;
    d.steps = places * d.n_chunks;
    d.step_points = at_least_one(ceil_div(along * tile * row, d.n_chunks));
    int64_t unit = k->trips.in_place ? TRIPS_POINTS : k->trips.on ? UNIT_POINTS / k->trips.most : UNIT_POINTS;
    d.per_unit = unit > d.step_points ? ceil_div(unit, d.step_points) : 1;
    if (k->trips.together) d.per_unit = at_least_one(d.steps);
    d.units = ceil_div(d.steps, d.per_unit);
    return d;
}

static int64_t cost_of(const struct fused_kernel *k, const struct division *d)
{
    int64_t steps = 1;
    for (int i = 0; i < k->dag.n_nodes; i++) steps += k->dag.nodes[i].kind == SCALAR_PRIM;
    return d->step_points * d->per_unit * (1 + k->n_stages) * ceil_div(steps, 8) * (k->trips.on ? k->trips.most : 1);
}

// In whole lines.
static int64_t touched_B(const struct fused_kernel *k, const struct fused_access *a)
{
    enum { LINE_B = 64 };
    int64_t span = 1;
    for (int d = 0; d < k->n_dims; d++) span += llabs(a->strides[d]) * (k->sizes[d] - 1);
    return ceil_div(span * dtype_size_B[a->dtype], LINE_B) * LINE_B;
}

static bool streams(const struct codegen_plan *p, const struct fused_kernel *k)
{
    int64_t all_B = 0, cache_B = process_last_cache_B();
    if (!llvm_may_stream(k)) return false;
    for (int i = 0; i < k->n_in + k->n_out; i++) all_B += touched_B(k, fused_access_at(k, i));
    return all_B >= cache_B / 4 * process_stream_quarters(p->choices[LLVM_VECTOR_BITS]);
}

static void pack_words(const struct fused_kernel *k, const struct division *d, uint64_t *words)
{
    const int64_t values[LLVM_WORD_COUNT] = {
        [LLVM_PER_UNIT] = d->per_unit, [LLVM_STEPS] = d->steps,         [LLVM_BLOCK] = d->block,
        [LLVM_N_BLOCKS] = d->n_blocks, [LLVM_CHUNK] = d->chunk,         [LLVM_N_CHUNKS] = d->n_chunks,
        [LLVM_PANEL] = d->panel,       [LLVM_POINTS] = fused_points(k), [LLVM_UNITS] = d->units,
    };
    for (int i = 0; i < LLVM_WORD_COUNT; i++) words[llvm_word_at(k, (enum llvm_word)i)] = (uint64_t)values[i];
}

kiln_status llvm_pack(const struct codegen_plan *p, const struct fused_kernel *k, const uint64_t *addresses,
                      const struct device_caps *caps, struct codegen_launch *out)
{
    int n_access = k->n_in + k->n_out;
    (void)caps;
    struct division d = divide(p, k);
    bool cut = d.n_chunks > 1;
    for (int i = 0; i < n_access; i++) {
        const struct fused_access *a = fused_access_at(k, i);
        int64_t size_B = dtype_size_B[a->dtype];
        out->words[i] = addresses[i] + (uint64_t)(a->offset * size_B);
        for (int j = 0; j < k->n_dims; j++) out->words[llvm_stride_at(k, i, j)] = (uint64_t)(a->strides[j] * size_B);
    }
    for (int j = 0; j < k->n_dims; j++) out->words[llvm_size_at(k, j)] = (uint64_t)k->sizes[j];
    for (int i = 0; i < k->n_scalars; i++) {
        out->scalar_at[i] = llvm_scalar_at(k, i);
        out->words[out->scalar_at[i]] = k->scalars[i];
    }
    pack_words(k, &d, out->words);
    out->n_in = k->n_in;
    out->streams_at = streams(p, k) ? llvm_word_at(k, LLVM_STREAMS) : -1;
    if (out->streams_at >= 0) out->words[out->streams_at] = 1;
    int64_t turns_B = 0;
    for (int i = 0; i < n_access && k->trips.on; i++)
        out->words[llvm_step_at(k, i)] =
            (uint64_t)(fused_takes_turns(k, i) ? trips_turn_B(k, i, &turns_B)
                                               : k->trips.step[i] * dtype_size_B[fused_access_at(k, i)->dtype]);
    out->units = d.units;
    out->unit_cost = cost_of(k, &d);
    out->run_end = p->has_end && (cut || k->has_total);
    int64_t slots = cut            ? d.n_chunks * llvm_slots(k, false) * fused_points(k)
                    : k->has_total ? d.units * llvm_slots(k, true)
                                   : 0;
    out->workspace_B = (uint64_t)(k->trips.together ? turns_B : 8 * slots);
    out->workspace_zeroed = false;
    out->work = (uint64_t)(fused_points(k) * fused_row_length(k));
    out->n_words = llvm_word_at(k, LLVM_WORD_COUNT) + (k->trips.on ? n_access : 0);
    out->workspace_at = out->workspace_B ? llvm_word_at(k, LLVM_WORKSPACE) : -1;
    out->failed_at = k->n_checks ? llvm_word_at(k, LLVM_FAILED) : -1;
    return KILN_OK;
}
