// What one step does: a block of points with lanes along it, or one point with lanes along its row.
//
// Over points: for each vector of points all passes one after the other, each a nest of loops over the row. Over the
// row: for one point all passes, each a nest of loops whose innermost goes along the lanes (sweep.c). Where rows may be
// long, the innermost loop is cut into blocks whose results are gathered in f64. Loops end because every one goes
// upwards to a size.
//
// A row that is cut into chunks has one stage. If the launch cuts it (LLVM_N_CHUNKS > 1) the step leaves its partial
// results in the workspace and the second function goes on; else the step goes on itself.
#include "llvm/body.h"

enum { ROW_BLOCK = 4096, COLUMN_BLOCK = 256 }; // elements, and vectors, folded in f32 before they are gathered

static LLVMValueRef dim_count(struct emitter *e, int dim)
{
    return dim == e->split_dim ? e->chunk : emit_word(e, llvm_size_at(e->k, dim));
}

// --- lanes over the row ---

static void over_row_body(struct emitter *e, int pass)
{
    row_forget(e, true, true);
    row_element(e, pass);
}

static void over_row_lanes(struct emitter *e, int pass)
{
    struct sweep s = {over_row_body, pass};
    row_forget(e, true, false);
    pass_want(e, pass, e->want);
    for (int i = 0; i < e->k->dag.n_nodes; i++) e->want[i] = e->want[i] && !e->varies[i];
    emit_nodes(e, e->want);
    LLVMValueRef count = dim_count(e, e->lanes_dim);
    if (!e->plan->choices[LLVM_WIDE_SUM]) {
        sweep(e, &s, emit_int(e, 0), count);
        return;
    }
    struct loop l;
    loop_begin(e, &l, emit_int(e, 0), count, ROW_BLOCK);
    LLVMValueRef end = LLVMBuildAdd(e->b, l.index, l.step, "");
    sweep(e, &s, l.index, emit_min(e, end, count));
    loop_end(e, &l);
}

static void over_row_nest(struct emitter *e, int pass, int dim)
{
    struct loop l;
    LLVMValueRef saved[MAX_WALKERS];
    if (dim == e->lanes_dim) dim++;
    if (dim >= e->k->n_dims) {
        over_row_lanes(e, pass);
        return;
    }
    walkers_save(e, dim, saved);
    loop_begin(e, &l, emit_int(e, 0), dim_count(e, dim), 1);
    over_row_nest(e, pass, dim + 1);
    walkers_advance(e, dim);
    loop_end(e, &l);
    walkers_restore(e, dim, saved);
}

static void over_row_step(struct emitter *e)
{
    for (int pass = 0; pass < row_pass_count(e); pass++) {
        row_values_for(e, pass);
        row_accumulators(e, pass, 1, true);
        over_row_nest(e, pass, e->n_parallel);
        if (e->split_dim >= 0) {
            row_finish_or_leave(e);
            return;
        }
        row_results(e, pass);
    }
    row_finish(e);
}

// --- lanes over points ---

static void column_body(struct emitter *e, int pass)
{
    row_forget(e, true, false);
    row_element(e, pass);
}

static void column_loop(struct emitter *e, int pass, int dim, LLVMValueRef from, LLVMValueRef to)
{
    struct loop l;
    loop_begin(e, &l, from, to, 1);
    column_body(e, pass);
    walkers_advance(e, dim);
    loop_end(e, &l);
}

// The innermost loop, where vectors are folded.
static void column_innermost(struct emitter *e, int pass, int dim)
{
    LLVMValueRef count = dim_count(e, dim);
    if (!e->plan->choices[LLVM_WIDE_SUM]) {
        for (int i = 0; i < e->k->dag.n_nodes; i++)
            if (fused_pass_folds(e->k, pass, i)) e->lane_acc[i] = e->acc[i];
        column_loop(e, pass, dim, emit_int(e, 0), count);
        return;
    }
    struct loop l;
    loop_begin(e, &l, emit_int(e, 0), count, COLUMN_BLOCK);
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (fused_pass_folds(e->k, pass, i)) fold_begin(e, &e->lane_acc[i], i, e->width, false);
    LLVMValueRef end = LLVMBuildAdd(e->b, l.index, l.step, "");
    column_loop(e, pass, dim, l.index, emit_min(e, end, count));
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (fused_pass_folds(e->k, pass, i)) fold_join(e, &e->acc[i], &e->lane_acc[i], i);
    loop_end(e, &l);
}

static void column_nest(struct emitter *e, int pass, int dim)
{
    struct loop l;
    LLVMValueRef saved[MAX_WALKERS];
    walkers_save(e, dim, saved);
    if (dim == e->k->n_dims - 1) {
        column_innermost(e, pass, dim);
    } else {
        loop_begin(e, &l, emit_int(e, 0), dim_count(e, dim), 1);
        column_nest(e, pass, dim + 1);
        walkers_advance(e, dim);
        loop_end(e, &l);
    }
    walkers_restore(e, dim, saved);
}

static void over_points_body(struct emitter *e, int unused)
{
    (void)unused;
    row_forget(e, false, false);
    for (int pass = 0; pass < row_pass_count(e); pass++) {
        row_values(e, pass, false);
        row_accumulators(e, pass, e->width, e->plan->choices[LLVM_WIDE_SUM]);
        column_nest(e, pass, e->n_parallel);
        if (e->split_dim >= 0) {
            row_finish_or_leave(e);
            return;
        }
        row_results(e, pass);
    }
    row_finish(e);
}

// --- tiles: inputs that lie across the lanes ---

static void rows_of_tile(struct emitter *e, LLVMValueRef from, LLVMValueRef to, bool transposed)
{
    struct loop l;
    loop_begin(e, &l, from, to, 1);
    e->tile_row = transposed ? l.index : NULL;
    over_points_body(e, 0);
    e->tile_row = NULL;
    walkers_advance(e, e->tile_dim);
    loop_end(e, &l);
}

// For each vector of points along the lanes, rows of points one after the other.
static void tile_rows(struct emitter *e)
{
    LLVMValueRef saved[MAX_WALKERS];
    walkers_save(e, e->tile_dim, saved);
    rows_of_tile(e, emit_int(e, 0), e->tile_rows, false);
    walkers_restore(e, e->tile_dim, saved);
}

// Squares of rows are transposed, and computed while they are in the registers or near; what is left of a tile, and
// lanes that are missing, are gathered.
static void tile_body(struct emitter *e, int unused)
{
    (void)unused;
    if (e->mask) {
        tile_rows(e);
        return;
    }
    struct loop l;
    LLVMValueRef saved[MAX_WALKERS];
    LLVMValueRef width = emit_int(e, e->width), squares = LLVMBuildSDiv(e->b, e->tile_rows, width, "");
    squares = LLVMBuildMul(e->b, squares, width, "");
    walkers_save(e, e->tile_dim, saved);
    loop_begin_by(e, &l, emit_int(e, 0), squares, width);
    emit_squares(e);
    rows_of_tile(e, emit_int(e, 0), width, true);
    loop_end(e, &l);
    rows_of_tile(e, squares, e->tile_rows, false);
    walkers_restore(e, e->tile_dim, saved);
}

// Rows that lie across the lanes are transposed once for all rows of the tile.
static void across_body(struct emitter *e, int unused)
{
    (void)unused;
    emit_across(e);
    if (e->tile_dim >= 0)
        tile_rows(e);
    else
        over_points_body(e, 0);
}

static void hoist_rows(struct emitter *e)
{
    if (e->tile_dim < 0) row_values(e, 0, true);
}

void body_step(struct emitter *e, LLVMValueRef lanes)
{
    bool in_registers = e->k->trips.on && !e->k->trips.in_place;
    bool across = e->plan->choices[LLVM_ACROSS] != 0;
    struct sweep s = {in_registers       ? trips_body
                      : across           ? across_body
                      : e->tile_dim >= 0 ? tile_body
                                         : over_points_body,
                      -1};
    if (e->over_row) {
        over_row_step(e);
        return;
    }
    hoist_rows(e);
    if (e->split_dim < 0) {
        sweep(e, &s, emit_int(e, 0), lanes);
        return;
    }
    // Panel by panel; the results of one wait in the workspace for the next.
    struct loop l;
    LLVMValueRef all = e->chunk, panel = emit_word(e, llvm_word_at(e->k, LLVM_PANEL)), saved[MAX_WALKERS];
    e->panel = emit_int(e, 0);
    loop_begin_by(e, &l, e->panel, all, panel);
    e->panel = l.index;
    e->chunk = emit_min(e, panel, LLVMBuildSub(e->b, all, l.index, ""));
    walkers_save(e, e->split_dim, saved);
    sweep(e, &s, emit_int(e, 0), lanes);
    walkers_restore(e, e->split_dim, saved);
    walkers_advance_by(e, e->split_dim, panel);
    loop_end(e, &l);
}
