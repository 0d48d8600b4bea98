// What every form does with a row: values of its points and elements, checks, results, and what it leaves in the
// workspace.
#include "llvm/body.h"

void row_forget(struct emitter *e, bool elements_only, bool varying_only)
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

void row_values(struct emitter *e, int stage, bool hoisted)
{
    bool in_registers = e->k->trips.on && !e->k->trips.in_place; // trips are inside of the lanes' loop
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        bool changes = e->varies[i] || (in_registers && e->k->turns[i]);
        e->want[i] = pass_level(e, i) == LEVEL_ROW && e->k->stage[i] <= stage && !(hoisted && changes);
    }
    emit_nodes(e, e->want);
}

// Those that the elements of a pass need. The others wait for the row's end: a load of one element of the row, say,
// finds it in the cache then.
void row_values_for(struct emitter *e, int pass)
{
    const struct fused_kernel *k = e->k;
    pass_want(e, pass, e->want);
    for (int i = 0; i < k->dag.n_nodes; i++) // what is folded or stored by element need not be a value by element
        if (fused_pass_folds(e->k, pass, i) && !e->want[k->dag.nodes[i].arg[0]]) e->want[k->dag.nodes[i].arg[0]] = 1;
    for (int i = 0; i < k->n_out; i++)
        if (fused_pass_stores(e->k, pass, i) && !e->want[k->out[i].node]) e->want[k->out[i].node] = 1;
    for (int i = k->dag.n_nodes - 1; i >= 0; i--) {
        const struct scalar_node *n = &k->dag.nodes[i];
        for (int a = 0; e->want[i] == 1 && a < n->n_args && n->kind != SCALAR_REDUCE; a++)
            if (!e->want[n->arg[a]]) e->want[n->arg[a]] = 1;
    }
    for (int i = 0; i < k->dag.n_nodes; i++) e->want[i] = e->want[i] == 1 && pass_level(e, i) == LEVEL_ROW;
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
void row_element(struct emitter *e, int pass)
{
    element_values(e, pass);
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        if (!fused_pass_folds(e->k, pass, i)) continue;
        LLVMValueRef place = fold_finds_place(e, i) ? walker_value(e, WALK_ROW, 0) : NULL;
        fold_add(e, &e->lane_acc[i], i, emit_value(e, e->k->dag.nodes[i].arg[0], e->width), place);
    }
    for (int i = 0; i < e->k->n_out; i++)
        if (fused_pass_stores(e->k, pass, i)) emit_access_store(e, i);
    for (int i = 0; i < e->k->n_checks; i++)
        if (fused_pass_checks(e->k, pass, i)) emit_check(e, i);
}

// --- the row's end ---

void row_results(struct emitter *e, int pass)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (fused_pass_folds(e->k, pass, i)) e->value[i] = fold_result(e, &e->acc[i], i);
}

void row_finish(struct emitter *e)
{
    row_values(e, e->k->n_stages, false);
    for (int i = 0; i < e->k->n_checks; i++)
        if (pass_level(e, e->k->checks[i]) <= LEVEL_ROW) emit_check(e, i);
    for (int i = 0; i < e->k->n_out; i++)
        if (pass_level(e, e->k->out[i].node) != LEVEL_TOTAL && !pass_by_element(e, i)) emit_access_store(e, i);
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        if (!fold_is_across(e, i)) continue;
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

void row_join_partials(struct emitter *e, LLVMValueRef chunk)
{
    struct partials p = partials_of(e, chunk);
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (fused_pass_folds(e->k, 0, i)) fold_join_saved(e, &e->acc[i], i, &p);
}

// Behind the only pass of a row that may be cut: go on, or leave the results for the second function.
void row_finish_or_leave(struct emitter *e)
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
        row_join_partials(e, e->chunk_index);
        LLVMBuildBr(e->b, save);
        LLVMPositionBuilderAtEnd(e->b, save);
    }
    struct partials p = partials_of(e, e->chunk_index);
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (fused_pass_folds(e->k, 0, i)) fold_save(e, &e->acc[i], &p);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, whole);
    row_results(e, 0);
    row_finish(e);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, done);
}

void row_accumulators(struct emitter *e, int pass, int width, bool wide)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (fused_pass_folds(e->k, pass, i)) fold_begin(e, &e->acc[i], i, width, wide);
}
