// The two functions of a kernel: units, steps, and the place of each step.
//
// A unit is a fixed number of steps; a step is a place in the space of outer dimensions: the dimensions of points that
// are not the lanes', the blocks along the lanes, the chunks of a row. The place is an odometer: indices in stack
// slots, the walkers moved along with them. It is set from the number of the unit's first step and then goes on step by
// step; a dimension that is full is put back and the next one outside it moves.
#include "llvm/emit.h"
#include "scalar/rare.h"
#include <stdio.h>
#include <string.h>

struct wheel { // of the odometer, outermost first
    int dim;
    LLVMValueRef size, times, index; // times: positions of the dimension a turn; NULL: one
};

struct odometer {
    struct wheel wheels[FUSED_MAX_DIMS + 2];
    int n, block, chunk, tile; // which wheels are those; -1: none
};

static LLVMValueRef word(struct emitter *e, enum llvm_word w)
{
    return emit_word(e, llvm_word_at(e->k, w));
}

static void add_wheel(struct emitter *e, struct odometer *o, int dim, LLVMValueRef size, LLVMValueRef times)
{
    o->wheels[o->n++] = (struct wheel){dim, size, times, emit_home(e, e->i64)};
}

static void make_odometer(struct emitter *e, struct odometer *o, bool chunks)
{
    *o = (struct odometer){.block = -1, .chunk = -1, .tile = -1};
    for (int d = 0; d < e->n_parallel; d++) {
        LLVMValueRef size = emit_word(e, llvm_size_at(e->k, d));
        if (d != e->lanes_dim && d != e->tile_dim) add_wheel(e, o, d, size, NULL);
        if (d != e->tile_dim) continue;
        int64_t rows = e->plan->choices[LLVM_TILE_ROWS];
        size = LLVMBuildAdd(e->b, size, emit_int(e, rows - 1), "");
        o->tile = o->n;
        add_wheel(e, o, d, LLVMBuildUDiv(e->b, size, emit_int(e, rows), ""), emit_int(e, rows));
    }
    if (!e->over_row && e->lanes_dim >= 0) {
        o->block = o->n;
        add_wheel(e, o, e->lanes_dim, word(e, LLVM_N_BLOCKS), word(e, LLVM_BLOCK));
    }
    if (chunks && e->split_dim >= 0) {
        o->chunk = o->n;
        add_wheel(e, o, e->split_dim, word(e, LLVM_N_CHUNKS), word(e, LLVM_CHUNK));
    }
}

static void set_odometer(struct emitter *e, struct odometer *o, LLVMValueRef step)
{
    walkers_start(e);
    for (int i = o->n - 1; i >= 0; i--) {
        struct wheel *w = &o->wheels[i];
        LLVMValueRef index = i ? LLVMBuildURem(e->b, step, w->size, "") : step;
        if (i) step = LLVMBuildUDiv(e->b, step, w->size, "");
        emit_store(e, index, w->index);
        walkers_move_home(e, w->dim, w->times ? LLVMBuildMul(e->b, index, w->times, "") : index);
    }
}

static void turn_odometer(struct emitter *e, struct odometer *o)
{
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(e->context, e->fn, "placed");
    for (int i = o->n - 1; i >= 0; i--) {
        struct wheel *w = &o->wheels[i];
        LLVMValueRef next = LLVMBuildAdd(e->b, emit_load(e, e->i64, w->index), emit_int(e, 1), "");
        walkers_move_home(e, w->dim, w->times);
        emit_store(e, next, w->index);
        if (i == 0) break;
        LLVMBasicBlockRef full = LLVMAppendBasicBlockInContext(e->context, e->fn, "full");
        LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, w->size, ""), done, full);
        LLVMPositionBuilderAtEnd(e->b, full);
        emit_store(e, emit_int(e, 0), w->index);
        LLVMValueRef back = LLVMBuildNeg(e->b, w->size, "");
        walkers_move_home(e, w->dim, w->times ? LLVMBuildMul(e->b, back, w->times, "") : back);
    }
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, done);
}

// What is left of a dimension for one turn of a wheel.
static LLVMValueRef turn_length(struct emitter *e, const struct wheel *w)
{
    LLVMValueRef size = emit_word(e, llvm_size_at(e->k, w->dim));
    if (emit_known(w->size) == 1) return emit_min(e, size, w->times);
    LLVMValueRef done = LLVMBuildMul(e->b, emit_load(e, e->i64, w->index), w->times, "");
    LLVMValueRef left = LLVMBuildSub(e->b, size, done, "");
    return emit_min(e, left, w->times);
}

// The index of the step's first point in the workspace: rows of blocks, one behind the other.
static LLVMValueRef first_point(struct emitter *e, struct odometer *o, LLVMValueRef step)
{
    if (o->chunk >= 0) step = LLVMBuildUDiv(e->b, step, word(e, LLVM_N_CHUNKS), "");
    if (o->block < 0) return step;
    const struct wheel *w = &o->wheels[o->block];
    LLVMValueRef row = LLVMBuildUDiv(e->b, step, w->size, "");
    LLVMValueRef within = LLVMBuildMul(e->b, emit_load(e, e->i64, w->index), w->times, "");
    row = LLVMBuildMul(e->b, row, emit_word(e, llvm_size_at(e->k, w->dim)), "");
    return LLVMBuildAdd(e->b, row, within, "");
}

static void do_steps(struct emitter *e, struct odometer *o, LLVMValueRef from, LLVMValueRef to, bool end)
{
    struct loop l;
    set_odometer(e, o, from);
    loop_begin(e, &l, from, to, 1);
    walkers_go_home(e);
    LLVMValueRef lanes = o->block >= 0 ? turn_length(e, &o->wheels[o->block]) : emit_int(e, 1);
    if (o->chunk >= 0) {
        e->chunk = turn_length(e, &o->wheels[o->chunk]);
        e->chunk_index = emit_load(e, e->i64, o->wheels[o->chunk].index);
    }
    if (o->tile >= 0) e->tile_rows = turn_length(e, &o->wheels[o->tile]);
    if (e->split_dim >= 0) e->first_point = first_point(e, o, l.index);
    if (end)
        body_end_step(e, lanes);
    else
        body_step(e, lanes);
    turn_odometer(e, o);
    loop_end(e, &l);
}

static void do_unit(struct emitter *e, struct odometer *o, LLVMValueRef from, LLVMValueRef to)
{
    struct loop trips;
    if (e->k->trips.in_place) trips_begin(e, &trips);
    do_steps(e, o, from, to, false);
    if (e->k->trips.in_place) trips_end(e, &trips);
}

// --- functions ---

static void begin_function(struct emitter *e, const char *name, bool with_range)
{
    int n = e->k->dag.n_nodes;
    LLVMTypeRef types[3] = {LLVMPointerType(e->i64, 0), e->i64, e->i64};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, with_range ? 3 : 1, false);
    e->fn = LLVMAddFunction(e->module, name, type);
    e->slots_block = LLVMAppendBasicBlockInContext(e->context, e->fn, "slots");
    e->entry_block = LLVMAppendBasicBlockInContext(e->context, e->fn, "entry");
    LLVMBasicBlockRef start = LLVMAppendBasicBlockInContext(e->context, e->fn, "start");
    LLVMPositionBuilderAtEnd(e->b, e->slots_block);
    LLVMBuildBr(e->b, e->entry_block);
    LLVMPositionBuilderAtEnd(e->b, e->entry_block);
    e->args = LLVMBuildBitCast(e->b, LLVMGetParam(e->fn, 0), e->bytes, "");
    LLVMBuildBr(e->b, start);
    LLVMPositionBuilderAtEnd(e->b, start);
    e->width = 1;
    e->lane = emit_int(e, 0);
    e->mask = NULL;
    e->tile_row = NULL;
    e->trip = NULL;
    memset(e->tiles, 0, sizeof e->tiles);
    held_begin(e);
    memset(e->words, 0, sizeof(LLVMValueRef) * CODEGEN_MAX_WORDS);
    memset(e->value, 0, sizeof(LLVMValueRef) * (size_t)n);
    memset(e->kept, 0, sizeof(LLVMValueRef) * (size_t)n);
    walkers_make(e);
    walkers_start(e);
    walkers_go_home(e);
    for (int i = 0; i < n; i++) e->want[i] = e->k->level[i] == LEVEL_UNIFORM;
    emit_nodes(e, e->want);
}

static void emit_run(struct emitter *e, const char *symbol)
{
    struct odometer o;
    struct loop units;
    begin_function(e, symbol, true);
    make_odometer(e, &o, true);
    loop_begin(e, &units, LLVMGetParam(e->fn, 1), LLVMGetParam(e->fn, 2), 1);
    body_totals_begin(e);
    LLVMValueRef from = LLVMBuildMul(e->b, units.index, word(e, LLVM_PER_UNIT), "");
    LLVMValueRef to = LLVMBuildAdd(e->b, from, word(e, LLVM_PER_UNIT), "");
    do_unit(e, &o, from, emit_min(e, to, word(e, LLVM_STEPS)));
    // A row that is cut leaves its partial results instead.
    if (e->k->has_total && e->split_dim < 0) body_totals_pass(e, units.index, true);
    if (e->k->has_total && e->split_dim >= 0) {
        LLVMBasicBlockRef save = LLVMAppendBasicBlockInContext(e->context, e->fn, "save");
        LLVMBasicBlockRef next = LLVMAppendBasicBlockInContext(e->context, e->fn, "next");
        LLVMValueRef whole = LLVMBuildICmp(e->b, LLVMIntEQ, word(e, LLVM_N_CHUNKS), emit_int(e, 1), "");
        LLVMBuildCondBr(e->b, whole, save, next);
        LLVMPositionBuilderAtEnd(e->b, save);
        body_totals_pass(e, units.index, true);
        LLVMBuildBr(e->b, next);
        LLVMPositionBuilderAtEnd(e->b, next);
    }
    loop_end(e, &units);
    emit_lines_done(e);
    LLVMBuildRetVoid(e->b);
}

static void join_units(struct emitter *e)
{
    struct loop units;
    loop_begin(e, &units, emit_int(e, 0), word(e, LLVM_UNITS), 1);
    body_totals_pass(e, units.index, false);
    loop_end(e, &units);
}

static void emit_end(struct emitter *e, const char *symbol)
{
    struct odometer o;
    begin_function(e, symbol, false);
    body_totals_begin(e);
    if (e->split_dim >= 0) {
        LLVMBasicBlockRef whole = LLVMAppendBasicBlockInContext(e->context, e->fn, "whole");
        LLVMBasicBlockRef cut = LLVMAppendBasicBlockInContext(e->context, e->fn, "cut");
        LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(e->context, e->fn, "joined");
        LLVMValueRef n = word(e, LLVM_N_CHUNKS);
        make_odometer(e, &o, false);
        LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, n, emit_int(e, 1), ""), whole, cut);
        LLVMPositionBuilderAtEnd(e->b, cut);
        do_steps(e, &o, emit_int(e, 0), LLVMBuildUDiv(e->b, word(e, LLVM_STEPS), n, ""), true);
        LLVMBuildBr(e->b, done);
        LLVMPositionBuilderAtEnd(e->b, whole);
        if (e->k->has_total) join_units(e);
        LLVMBuildBr(e->b, done);
        LLVMPositionBuilderAtEnd(e->b, done);
    } else {
        join_units(e);
    }
    body_totals_finish(e);
    LLVMBuildRetVoid(e->b);
}

// Whether a node's value differs from lane to lane.
static void find_varying(struct emitter *e)
{
    const struct fused_kernel *k = e->k;
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        bool v = false;
        for (int a = 0; a < n->n_args; a++) v = v || e->varies[n->arg[a]];
        if (n->kind == SCALAR_LOAD) v = v || (e->lanes_dim >= 0 && k->in[n->code].strides[e->lanes_dim] != 0);
        if (n->kind == SCALAR_DIM) v = n->code == e->lanes_dim;
        if (n->kind == SCALAR_REDUCE) v = !e->over_row && !(n->code & REDUCE_ACROSS);
        e->varies[i] = v;
    }
}

static void find_waiting(struct emitter *e)
{
    const struct fused_kernel *k = e->k;
    for (int i = 0; i < k->dag.n_nodes; i++) e->waits[i] = 1;
    for (int i = 0; i < k->n_out; i++) e->waits[k->out[i].node] = 0;
    for (int i = 0; i < k->n_checks; i++) e->waits[k->checks[i]] = 0;
    scalar_find_waiting(&k->dag, k->level, e->waits);
}

void emit_functions(struct emitter *e, const char *symbol)
{
    char end_symbol[80];
    const uint32_t *c = e->plan->choices;
    e->over_row = e->plan->form == LLVM_OVER_ROW;
    e->lanes_dim = c[LLVM_LANES_DIM] == LLVM_NO_DIM ? -1 : (int)c[LLVM_LANES_DIM];
    e->split_dim = c[LLVM_SPLIT_DIM] == LLVM_NO_DIM ? -1 : (int)c[LLVM_SPLIT_DIM];
    e->tile_dim = c[LLVM_TILE_DIM] == LLVM_NO_DIM ? -1 : (int)c[LLVM_TILE_DIM];
    e->n_parallel = fused_is_flat(e->k) ? e->k->n_dims : e->k->n_dims - e->k->n_reduce;
    find_varying(e);
    find_waiting(e);
    held_find(e);
    if (c[LLVM_KEEP]) pass_choose_kept(e);
    emit_run(e, symbol);
    snprintf(end_symbol, sizeof end_symbol, "%s_end", symbol);
    if (e->plan->has_end) emit_end(e, end_symbol);
}
