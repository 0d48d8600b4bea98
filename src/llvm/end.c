// The second function: joins the chunks of rows that were cut, and the totals that units left, each in order.
#include "llvm/body.h"

// --- the second function: rows that were cut ---

static void join_chunks(struct emitter *e)
{
    struct loop l;
    row_accumulators(e, 0, e->width, e->over_row || e->plan->choices[LLVM_WIDE_SUM]);
    loop_begin(e, &l, emit_int(e, 0), emit_word(e, llvm_word_at(e->k, LLVM_N_CHUNKS)), 1);
    row_join_partials(e, l.index);
    loop_end(e, &l);
    row_results(e, 0);
    row_finish(e);
}

static void end_body(struct emitter *e, int unused)
{
    (void)unused;
    row_forget(e, false, false);
    join_chunks(e);
}

void body_end_step(struct emitter *e, LLVMValueRef lanes)
{
    struct sweep s = {end_body, -1};
    if (e->over_row) {
        join_chunks(e);
        return;
    }
    row_values(e, 0, true);
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
        if (fold_is_across(e, i)) fold_begin(e, &e->acc[i], i, 1, true);
}

void body_totals_pass(struct emitter *e, LLVMValueRef unit, bool save)
{
    LLVMValueRef base = emit_word(e, llvm_word_at(e->k, LLVM_WORKSPACE));
    LLVMValueRef at = LLVMBuildIntToPtr(e->b, base, e->bytes, "");
    LLVMValueRef unit_B = emit_int(e, 8 * (int64_t)llvm_slots(e->k, true));
    at = emit_at(e, at, LLVMBuildMul(e->b, unit, unit_B, ""));
    struct partials p = {at, emit_int(e, 0), emit_int(e, 8)};
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        if (!fold_is_across(e, i)) continue;
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
        if (fold_is_across(e, i)) e->value[i] = fold_result(e, &e->acc[i], i);
    }
    emit_nodes(e, e->want);
    for (int i = 0; i < e->k->n_out; i++)
        if (e->k->level[e->k->out[i].node] == LEVEL_TOTAL) emit_access_store(e, i);
}
