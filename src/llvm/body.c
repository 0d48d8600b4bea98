// What one step does: a block of points with lanes along it, or one point with lanes along its row.
//
// Over points: for each vector of points all passes one after the other, each a nest of loops over the row. Over the
// row: for one point all passes, each a nest of loops whose innermost goes along the lanes. Either way the vector loop
// is emitted twice, wide and without a mask, then narrow and masked for the elements that are left. Reductions have
// accumulators of their own in each vector loop, joined behind it; where rows may be long, the loop is cut into blocks
// and their results are gathered in f64.
//
// A row that is cut into chunks has one stage. If the launch cuts it (LLVM_N_CHUNKS > 1) the step leaves its partial
// results in the workspace and the second function goes on; else the step goes on itself.
#include "llvm/emit.h"
#include <string.h>

enum { ROW_BLOCK = 4096, COLUMN_BLOCK = 256 }; // elements, and vectors, folded in f32 before they are gathered

struct sweep {
    void (*body)(struct emitter *e, int pass);
    int pass; // the row's reductions of this pass have lanes of their own; -1: those across the rows have
};

static bool is_across(const struct emitter *e, int node)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    return n->kind == SCALAR_REDUCE && (n->code & REDUCE_ACROSS);
}

static bool sweep_folds(const struct emitter *e, const struct sweep *s, int node)
{
    return s->pass < 0 ? is_across(e, node) : pass_folds(e, node, s->pass);
}

static LLVMValueRef tail_mask(struct emitter *e, LLVMValueRef left)
{
    LLVMValueRef n = emit_splat(e, LLVMBuildTrunc(e->b, left, e->i32, ""), e->width);
    return LLVMBuildICmp(e->b, LLVMIntULT, emit_iota(e, e->i32, e->width), n, "");
}

static void sweep_once(struct emitter *e, const struct sweep *s, LLVMValueRef from, LLVMValueRef limit, int width,
                       LLVMValueRef to, bool once)
{
    struct loop l;
    loop_begin(e, &l, from, limit, width);
    e->width = width;
    e->lane = l.index;
    if (to && width > 1) e->mask = tail_mask(e, LLVMBuildSub(e->b, to, l.index, ""));
    s->body(e, s->pass);
    e->mask = NULL;
    if (once)
        loop_leave(e, &l);
    else
        loop_end(e, &l);
    e->width = 1;
    e->lane = emit_int(e, 0);
}

static void sweep_begin(struct emitter *e, const struct sweep *s, int width)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (sweep_folds(e, s, i)) fold_begin(e, &e->lane_acc[i], i, width, false);
}

// The masked loop goes on with what the wide one has folded.
static void sweep_narrow(struct emitter *e, const struct sweep *s, int width)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        if (!sweep_folds(e, s, i)) continue;
        struct acc wide = e->lane_acc[i];
        fold_begin(e, &e->lane_acc[i], i, width, false);
        fold_join(e, &e->lane_acc[i], &wide, i);
    }
}

static void sweep_end(struct emitter *e, const struct sweep *s)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (sweep_folds(e, s, i)) fold_join(e, &e->acc[i], &e->lane_acc[i], i);
}

static void sweep(struct emitter *e, const struct sweep *s, LLVMValueRef from, LLVMValueRef to)
{
    int64_t wide = e->plan->choices[LLVM_WIDTH], narrow = e->plan->choices[LLVM_TAIL_WIDTH];
    sweep_begin(e, s, (int)(wide ? wide : narrow));
    if (wide) {
        sweep_once(e, s, from, LLVMBuildSub(e->b, to, emit_int(e, wide - 1), ""), (int)wide, NULL, false);
        LLVMValueRef done = LLVMBuildAnd(e->b, LLVMBuildSub(e->b, to, from, ""), emit_int(e, -wide), "");
        from = LLVMBuildAdd(e->b, from, done, "");
        if (wide != narrow) sweep_narrow(e, s, (int)narrow);
    }
    sweep_once(e, s, from, to, (int)narrow, to, wide == narrow);
    sweep_end(e, s);
}

static LLVMValueRef dim_count(struct emitter *e, int dim)
{
    return dim == e->split_dim ? e->chunk : emit_word(e, llvm_size_at(e->k, dim));
}

// --- values ---

static void forget(struct emitter *e, bool elements_only, bool varying_only)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        enum fused_level level = pass_level(e, i);
        if (level == LEVEL_UNIFORM || level == LEVEL_TOTAL) continue;
        bool element = level == LEVEL_ELEMENT;
        bool old = elements_only ? element && (e->varies[i] || !varying_only)
                                 : element || e->varies[i] || e->tile_dim >= 0; // the row of the tile changes them all
        if (old) e->value[i] = NULL;
    }
}

static void emit_rows(struct emitter *e, int stage, bool hoisted)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        e->want[i] = pass_level(e, i) == LEVEL_ROW && e->k->stage[i] <= stage && !(hoisted && e->varies[i]);
    emit_nodes(e, e->want);
}

// The first check that fails, 1 + its index, stays.
static void emit_check(struct emitter *e, int check)
{
    LLVMValueRef bad = LLVMBuildNot(e->b, emit_value(e, e->k->checks[check], 1), "");
    if (LLVMGetTypeKind(LLVMTypeOf(bad)) == LLVMVectorTypeKind) {
        LLVMTypeRef type = LLVMTypeOf(bad);
        if (e->mask) bad = LLVMBuildAnd(e->b, bad, e->mask, "");
        bad = emit_call(e, "llvm.vector.reduce.or", &type, 1, &bad, 1);
    }
    LLVMBasicBlockRef report = LLVMAppendBasicBlockInContext(e->context, e->fn, "report");
    LLVMBasicBlockRef go_on = LLVMAppendBasicBlockInContext(e->context, e->fn, "fine");
    LLVMBuildCondBr(e->b, bad, report, go_on);
    LLVMPositionBuilderAtEnd(e->b, report);
    LLVMValueRef word = emit_word(e, llvm_word_at(e->k, LLVM_FAILED));
    LLVMValueRef at = LLVMBuildIntToPtr(e->b, word, LLVMPointerType(e->i32, 0), "");
    LLVMValueRef mark = LLVMConstInt(e->i32, (unsigned long long)check + 1, false);
    LLVMBuildAtomicCmpXchg(e->b, at, LLVMConstNull(e->i32), mark, LLVMAtomicOrderingMonotonic,
                           LLVMAtomicOrderingMonotonic, false);
    LLVMBuildBr(e->b, go_on);
    LLVMPositionBuilderAtEnd(e->b, go_on);
}

// The buffer that keeps a value; lanes of bools are bytes.
static LLVMValueRef kept_at(struct emitter *e, int node, LLVMTypeRef *type)
{
    enum scalar_class cls = e->k->dag.nodes[node].cls;
    LLVMTypeRef element = cls == CLASS_BOOL ? e->i8 : emit_class_type(e, cls, 1);
    int64_t size_B = cls == CLASS_BOOL ? 1 : cls == CLASS_F32 || cls == CLASS_I32 ? 4 : 8;
    unsigned length = e->plan->choices[LLVM_KEEP] + 64; // the last vector may reach beyond the row
    *type = emit_vector(element, e->width);
    if (!e->kept[node]) e->kept[node] = emit_slot(e, LLVMArrayType(element, length));
    LLVMValueRef at = LLVMBuildBitCast(e->b, e->kept[node], e->bytes, "");
    at = emit_at(e, at, LLVMBuildMul(e->b, e->lane, emit_int(e, size_B), ""));
    return emit_typed(e, at, *type);
}

static void element_values(struct emitter *e, int pass)
{
    LLVMTypeRef type;
    pass_want(e, pass, e->want);
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        if (e->want[i] != 2) continue;
        LLVMValueRef at = kept_at(e, i, &type), v = LLVMBuildLoad2(e->b, type, at, "");
        LLVMSetAlignment(v, 1);
        bool is_bool = e->k->dag.nodes[i].cls == CLASS_BOOL;
        e->value[i] = is_bool ? LLVMBuildTrunc(e->b, v, emit_class_type(e, CLASS_BOOL, e->width), "") : v;
    }
    emit_nodes(e, e->want);
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        if (e->want[i] != 1 || e->kept_pass[i] != pass + 1) continue;
        LLVMValueRef v = emit_value(e, i, e->width);
        if (e->k->dag.nodes[i].cls == CLASS_BOOL) v = emit_bool_as_byte(e, v, e->width);
        LLVMValueRef at = kept_at(e, i, &type);
        LLVMSetAlignment(LLVMBuildStore(e->b, v, at), 1);
    }
}

// One vector of elements: values, folds, stores, checks.
static void element_body(struct emitter *e, int pass)
{
    element_values(e, pass);
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        if (!pass_folds(e, i, pass)) continue;
        LLVMValueRef place = fold_finds_place(e, i) ? walker_value(e, WALK_ROW, 0) : NULL;
        fold_add(e, &e->lane_acc[i], i, emit_value(e, e->k->dag.nodes[i].arg[0], e->width), place);
    }
    for (int i = 0; i < e->k->n_out; i++)
        if (pass_stores(e, i, pass)) emit_access_store(e, i);
    for (int i = 0; i < e->k->n_checks; i++)
        if (pass_level(e, e->k->checks[i]) == LEVEL_ELEMENT && e->k->stage[e->k->checks[i]] == pass) emit_check(e, i);
}

// --- the row's end ---

static void row_results(struct emitter *e, int pass)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (pass_folds(e, i, pass)) e->value[i] = fold_result(e, &e->acc[i], i);
}

static void row_finish(struct emitter *e)
{
    emit_rows(e, e->k->n_stages, false);
    for (int i = 0; i < e->k->n_checks; i++)
        if (pass_level(e, e->k->checks[i]) <= LEVEL_ROW) emit_check(e, i);
    for (int i = 0; i < e->k->n_out; i++)
        if (pass_level(e, e->k->out[i].node) != LEVEL_TOTAL && !pass_by_element(e, i)) emit_access_store(e, i);
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        if (!is_across(e, i)) continue;
        LLVMValueRef place = fold_finds_place(e, i) ? walker_value(e, WALK_POINT, 0) : NULL;
        const struct acc *a = e->over_row ? &e->acc[i] : &e->lane_acc[i];
        fold_add(e, a, i, emit_value(e, e->k->dag.nodes[i].arg[0], e->width), place);
    }
}

static struct partials partials_of(struct emitter *e, LLVMValueRef chunk)
{
    LLVMValueRef slot_B = LLVMBuildMul(e->b, emit_word(e, llvm_word_at(e->k, LLVM_POINTS)), emit_int(e, 8), "");
    LLVMValueRef chunk_B = LLVMBuildMul(e->b, slot_B, emit_int(e, llvm_slots(e->k, false)), "");
    LLVMValueRef base = emit_word(e, llvm_word_at(e->k, LLVM_WORKSPACE));
    LLVMValueRef at = LLVMBuildIntToPtr(e->b, base, e->bytes, "");
    at = emit_at(e, at, LLVMBuildMul(e->b, chunk, chunk_B, ""));
    LLVMValueRef point = e->over_row ? e->first_point : LLVMBuildAdd(e->b, e->first_point, e->lane, "");
    return (struct partials){at, point, slot_B};
}

static void join_partials(struct emitter *e, LLVMValueRef chunk)
{
    struct partials p = partials_of(e, chunk);
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (pass_folds(e, i, 0)) fold_join_saved(e, &e->acc[i], i, &p);
}

// Behind the only pass of a row that may be cut: go on, or leave the results for the second function.
static void finish_or_leave(struct emitter *e)
{
    LLVMBasicBlockRef whole = LLVMAppendBasicBlockInContext(e->context, e->fn, "whole");
    LLVMBasicBlockRef cut = LLVMAppendBasicBlockInContext(e->context, e->fn, "cut");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(e->context, e->fn, "left");
    LLVMValueRef n = emit_word(e, llvm_word_at(e->k, LLVM_N_CHUNKS));
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, n, emit_int(e, 1), ""), whole, cut);
    LLVMPositionBuilderAtEnd(e->b, cut);
    if (!e->over_row) {
        LLVMBasicBlockRef join = LLVMAppendBasicBlockInContext(e->context, e->fn, "join");
        LLVMBasicBlockRef save = LLVMAppendBasicBlockInContext(e->context, e->fn, "save");
        LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, e->panel, emit_int(e, 0), ""), save, join);
        LLVMPositionBuilderAtEnd(e->b, join);
        join_partials(e, e->chunk_index);
        LLVMBuildBr(e->b, save);
        LLVMPositionBuilderAtEnd(e->b, save);
    }
    struct partials p = partials_of(e, e->chunk_index);
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (pass_folds(e, i, 0)) fold_save(e, &e->acc[i], &p);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, whole);
    row_results(e, 0);
    row_finish(e);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, done);
}

static void row_accumulators(struct emitter *e, int pass, int width, bool wide)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (pass_folds(e, i, pass)) fold_begin(e, &e->acc[i], i, width, wide);
}

// --- lanes over the row ---

static void over_row_body(struct emitter *e, int pass)
{
    forget(e, true, true);
    element_body(e, pass);
}

static void over_row_lanes(struct emitter *e, int pass)
{
    struct sweep s = {over_row_body, pass};
    forget(e, true, false);
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
    for (int pass = 0; pass <= e->k->n_stages; pass++) {
        emit_rows(e, pass, false);
        if (!pass_has_elements(e, pass)) continue;
        row_accumulators(e, pass, 1, true);
        over_row_nest(e, pass, e->n_parallel);
        if (e->split_dim >= 0) {
            finish_or_leave(e);
            return;
        }
        row_results(e, pass);
    }
    row_finish(e);
}

// --- lanes over points ---

static void column_body(struct emitter *e, int pass)
{
    forget(e, true, false);
    element_body(e, pass);
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
            if (pass_folds(e, i, pass)) e->lane_acc[i] = e->acc[i];
        column_loop(e, pass, dim, emit_int(e, 0), count);
        return;
    }
    struct loop l;
    loop_begin(e, &l, emit_int(e, 0), count, COLUMN_BLOCK);
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (pass_folds(e, i, pass)) fold_begin(e, &e->lane_acc[i], i, e->width, false);
    LLVMValueRef end = LLVMBuildAdd(e->b, l.index, l.step, "");
    column_loop(e, pass, dim, l.index, emit_min(e, end, count));
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (pass_folds(e, i, pass)) fold_join(e, &e->acc[i], &e->lane_acc[i], i);
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
    forget(e, false, false);
    for (int pass = 0; pass <= e->k->n_stages; pass++) {
        emit_rows(e, pass, false);
        if (!pass_has_elements(e, pass)) continue;
        row_accumulators(e, pass, e->width, e->plan->choices[LLVM_WIDE_SUM]);
        column_nest(e, pass, e->n_parallel);
        if (e->split_dim >= 0) {
            finish_or_leave(e);
            return;
        }
        row_results(e, pass);
    }
    row_finish(e);
}

// --- tiles: inputs that lie across the lanes ---

// For each vector of points along the lanes, rows of points one after the other.
static void tile_rows(struct emitter *e, LLVMValueRef rows, bool transposed)
{
    struct loop l;
    LLVMValueRef saved[MAX_WALKERS];
    walkers_save(e, e->tile_dim, saved);
    loop_begin(e, &l, emit_int(e, 0), rows, 1);
    e->tile_row = transposed ? l.index : NULL;
    over_points_body(e, 0);
    e->tile_row = NULL;
    walkers_advance(e, e->tile_dim);
    loop_end(e, &l);
    walkers_restore(e, e->tile_dim, saved);
}

static void tile_body(struct emitter *e, int unused)
{
    (void)unused;
    LLVMValueRef full = emit_int(e, e->width);
    if (e->mask) { // lanes are missing: gathered
        tile_rows(e, e->tile_rows, false);
        return;
    }
    LLVMBasicBlockRef whole = LLVMAppendBasicBlockInContext(e->context, e->fn, "tile");
    LLVMBasicBlockRef edge = LLVMAppendBasicBlockInContext(e->context, e->fn, "edge");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(e->context, e->fn, "tiled");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, e->tile_rows, full, ""), whole, edge);
    LLVMPositionBuilderAtEnd(e->b, edge);
    tile_rows(e, e->tile_rows, false);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, whole);
    emit_tiles(e);
    tile_rows(e, full, true);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, done);
}

static void hoist_rows(struct emitter *e)
{
    if (e->tile_dim < 0) emit_rows(e, 0, true);
}

void body_step(struct emitter *e, LLVMValueRef lanes)
{
    struct sweep s = {e->tile_dim >= 0 ? tile_body : over_points_body, -1};
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

// --- the second function: rows that were cut ---

static void join_chunks(struct emitter *e)
{
    struct loop l;
    row_accumulators(e, 0, e->width, e->over_row || e->plan->choices[LLVM_WIDE_SUM]);
    loop_begin(e, &l, emit_int(e, 0), emit_word(e, llvm_word_at(e->k, LLVM_N_CHUNKS)), 1);
    join_partials(e, l.index);
    loop_end(e, &l);
    row_results(e, 0);
    row_finish(e);
}

static void end_body(struct emitter *e, int unused)
{
    (void)unused;
    forget(e, false, false);
    join_chunks(e);
}

void body_end_step(struct emitter *e, LLVMValueRef lanes)
{
    struct sweep s = {end_body, -1};
    if (e->over_row) {
        join_chunks(e);
        return;
    }
    emit_rows(e, 0, true);
    // There is little to do here: the narrow loop alone.
    int narrow = (int)e->plan->choices[LLVM_TAIL_WIDTH];
    sweep_begin(e, &s, narrow);
    sweep_once(e, &s, emit_int(e, 0), lanes, narrow, lanes, false);
    sweep_end(e, &s);
}

// --- totals: folded by unit, then over the units in order ---

void body_totals_begin(struct emitter *e)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (is_across(e, i)) fold_begin(e, &e->acc[i], i, 1, true);
}

void body_totals_pass(struct emitter *e, LLVMValueRef unit, bool save)
{
    LLVMValueRef base = emit_word(e, llvm_word_at(e->k, LLVM_WORKSPACE));
    LLVMValueRef at = LLVMBuildIntToPtr(e->b, base, e->bytes, "");
    LLVMValueRef unit_B = emit_int(e, 8 * (int64_t)llvm_slots(e->k, true));
    at = emit_at(e, at, LLVMBuildMul(e->b, unit, unit_B, ""));
    struct partials p = {at, emit_int(e, 0), emit_int(e, 8)};
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        if (!is_across(e, i)) continue;
        if (save)
            fold_save(e, &e->acc[i], &p);
        else
            fold_join_saved(e, &e->acc[i], i, &p);
    }
}

void body_totals_finish(struct emitter *e)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        e->want[i] = e->k->level[i] == LEVEL_TOTAL;
        if (is_across(e, i)) e->value[i] = fold_result(e, &e->acc[i], i);
    }
    emit_nodes(e, e->want);
    for (int i = 0; i < e->k->n_out; i++)
        if (e->k->level[e->k->out[i].node] == LEVEL_TOTAL) emit_access_store(e, i);
}
