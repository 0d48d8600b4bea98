// Loops, and what moves with them.
//
// A walker is a value that changes by a fixed step along each dimension: the address of an access, an index. Its home
// holds it for the place of the step; a step copies it into a slot, and a loop over a dimension saves that, adds the
// step of the dimension behind each pass and puts the saved value back. Steps of 0 and 1 elements are constants, known
// from the family; others are words of the argument block.
#include "llvm/emit.h"

void loop_begin(struct emitter *e, struct loop *l, LLVMValueRef from, LLVMValueRef limit, int64_t step)
{
    loop_begin_by(e, l, from, limit, emit_int(e, step));
}

void loop_begin_by(struct emitter *e, struct loop *l, LLVMValueRef from, LLVMValueRef limit, LLVMValueRef step)
{
    l->body = LLVMAppendBasicBlockInContext(e->context, e->fn, "loop");
    l->exit = LLVMAppendBasicBlockInContext(e->context, e->fn, "done");
    l->slot = emit_slot(e, e->i64);
    l->limit = limit;
    l->step = step;
    emit_store(e, from, l->slot);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, from, limit, ""), l->body, l->exit);
    LLVMPositionBuilderAtEnd(e->b, l->body);
    l->index = emit_load(e, e->i64, l->slot);
}

void loop_end(struct emitter *e, struct loop *l)
{
    LLVMValueRef next = LLVMBuildAdd(e->b, l->index, l->step, "");
    emit_store(e, next, l->slot);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, l->limit, ""), l->body, l->exit);
    LLVMPositionBuilderAtEnd(e->b, l->exit);
}

void loop_leave(struct emitter *e, struct loop *l)
{
    LLVMBuildBr(e->b, l->exit);
    LLVMPositionBuilderAtEnd(e->b, l->exit);
}

// --- walkers ---

// Behind the dimensions of the space comes one for the trips of a kernel that makes them.
static void access_steps(struct emitter *e, struct walker *w)
{
    const struct fused_access *a = fused_access_at(e->k, w->code);
    for (int d = 0; d < e->k->n_dims; d++) {
        w->moves[d] = a->strides[d] != 0;
        if (a->strides[d] == 1)
            w->step[d] = emit_int(e, llvm_host->dtype_size_B[a->dtype]);
        else if (w->moves[d])
            w->step[d] = emit_word(e, llvm_stride_at(e->k, w->code, d));
    }
    if (!fused_step(e->k, w->code)) return;
    w->moves[e->k->n_dims] = true;
    w->step[e->k->n_dims] = emit_word(e, llvm_step_at(e->k, w->code));
}

// Of the linear index over the dimensions [from, to), in row-major order.
static void linear_steps(struct emitter *e, struct walker *w, int from, int to)
{
    LLVMBasicBlockRef here;
    LLVMValueRef step = emit_int(e, 1);
    emit_at_entry(e, &here);
    for (int d = to - 1; d >= from; d--) {
        w->moves[d] = true;
        w->step[d] = step;
        LLVMValueRef size = emit_word(e, llvm_size_at(e->k, d));
        LLVMPositionBuilderBefore(e->b, LLVMGetBasicBlockTerminator(e->entry_block));
        step = LLVMBuildMul(e->b, step, size, "");
    }
    emit_back(e, here);
}

static struct walker *add_walker(struct emitter *e, enum walker_kind kind, int code)
{
    struct walker *w = &e->walkers[e->n_walkers++];
    *w = (struct walker){.kind = kind, .code = code};
    w->slot = emit_slot(e, kind == WALK_ACCESS ? e->bytes : e->i64);
    w->home = emit_home(e, kind == WALK_ACCESS ? e->bytes : e->i64);
    switch (kind) {
    case WALK_ACCESS: access_steps(e, w); break;
    case WALK_DIM:
        w->moves[code] = true;
        w->step[code] = emit_int(e, 1);
        break;
    case WALK_POINT: linear_steps(e, w, 0, e->n_parallel); break;
    case WALK_ROW: linear_steps(e, w, e->n_parallel, e->k->n_dims); break;
    }
    return w;
}

struct walker *walker_find(struct emitter *e, enum walker_kind kind, int code)
{
    for (int i = 0; i < e->n_walkers; i++)
        if (e->walkers[i].kind == kind && e->walkers[i].code == code) return &e->walkers[i];
    return add_walker(e, kind, code);
}

// All that the kernel may ask for, made before the first loop. Slots that nothing reads vanish.
void walkers_make(struct emitter *e)
{
    const struct fused_kernel *k = e->k;
    e->n_walkers = 0;
    for (int i = 0; i < k->n_in + k->n_out; i++) add_walker(e, WALK_ACCESS, i);
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        if (n->kind == SCALAR_DIM) walker_find(e, WALK_DIM, n->code);
        if (n->kind != SCALAR_REDUCE || llvm_slots_of(n) == 1) continue;
        walker_find(e, n->code & REDUCE_ACROSS ? WALK_POINT : WALK_ROW, 0);
    }
    if (e->plan->choices[LLVM_ACROSS]) walker_find(e, WALK_DIM, k->n_dims - 1);
}

// An index at the current place: along the lanes a vector.
LLVMValueRef walker_value(struct emitter *e, enum walker_kind kind, int code)
{
    const struct walker *w = walker_find(e, kind, code);
    LLVMValueRef v = emit_load(e, e->i64, w->slot);
    if (e->lanes_dim < 0 || !w->moves[e->lanes_dim]) return v;
    LLVMValueRef step = w->step[e->lanes_dim];
    v = LLVMBuildAdd(e->b, v, LLVMBuildMul(e->b, e->lane, step, ""), "");
    if (e->width == 1) return v;
    LLVMValueRef lanes = LLVMBuildMul(e->b, emit_iota(e, e->i64, e->width), emit_splat(e, step, e->width), "");
    return LLVMBuildAdd(e->b, emit_splat(e, v, e->width), lanes, "");
}

static LLVMTypeRef type_of(const struct emitter *e, const struct walker *w)
{
    return w->kind == WALK_ACCESS ? e->bytes : e->i64;
}

static void move(struct emitter *e, const struct walker *w, LLVMValueRef slot, LLVMValueRef by)
{
    LLVMValueRef v = emit_load(e, type_of(e, w), slot);
    v = w->kind == WALK_ACCESS ? emit_at(e, v, by) : LLVMBuildAdd(e->b, v, by, "");
    emit_store(e, v, slot);
}

static LLVMValueRef times_step(struct emitter *e, const struct walker *w, int dim, LLVMValueRef times)
{
    return times ? LLVMBuildMul(e->b, w->step[dim], times, "") : w->step[dim];
}

void walkers_advance_by(struct emitter *e, int dim, LLVMValueRef times)
{
    for (int i = 0; i < e->n_walkers; i++) {
        const struct walker *w = &e->walkers[i];
        if (w->moves[dim]) move(e, w, w->slot, times_step(e, w, dim, times));
    }
}

void walkers_advance(struct emitter *e, int dim)
{
    walkers_advance_by(e, dim, NULL);
}

void walkers_move_home(struct emitter *e, int dim, LLVMValueRef times)
{
    for (int i = 0; i < e->n_walkers; i++) {
        const struct walker *w = &e->walkers[i];
        if (w->moves[dim]) move(e, w, w->home, times_step(e, w, dim, times));
    }
}

// Where all points go together: the address of a carried output in a trip, `left` of which follow.
static LLVMValueRef turn_of(struct emitter *e, int output, LLVMValueRef left)
{
    int access = e->k->n_in + output;
    LLVMValueRef odd = LLVMBuildAnd(e->b, left, emit_int(e, 1), "");
    LLVMValueRef work = emit_word(e, llvm_word_at(e->k, LLVM_WORKSPACE));
    work = LLVMBuildAdd(e->b, work, emit_word(e, llvm_step_at(e->k, access)), "");
    return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, odd, emit_int(e, 0), ""), emit_word(e, access), work,
                           "");
}

// Of a value that is carried: where the trip before has written it.
static LLVMValueRef carried_at(struct emitter *e, int access, LLVMValueRef left)
{
    int output = e->k->trips.carried[access] - 1;
    LLVMValueRef is_first = LLVMBuildICmp(e->b, LLVMIntEQ, e->trip, emit_int(e, 0), "");
    LLVMValueRef at = emit_word(e, e->k->n_in + output);
    if (e->k->trips.together) {
        at = turn_of(e, output, LLVMBuildAdd(e->b, left, emit_int(e, 1), ""));
        at = LLVMBuildAdd(e->b, at, emit_word(e, llvm_step_at(e->k, access)), "");
    }
    return LLVMBuildSelect(e->b, is_first, emit_word(e, access), at, "");
}

// The address of an access in the trip that is made in memory.
static LLVMValueRef start_of(struct emitter *e, const struct walker *w)
{
    LLVMValueRef at = emit_word(e, w->code), left = NULL;
    if (e->trip) {
        left = LLVMBuildSub(e->b, emit_word(e, llvm_scalar_at(e->k, e->k->trips.count)), emit_int(e, 1), "");
        left = LLVMBuildSub(e->b, left, e->trip, "");
    }
    if (e->trip && w->code < e->k->n_in && e->k->trips.carried[w->code])
        at = carried_at(e, w->code, left);
    else if (e->trip && fused_takes_turns(e->k, w->code))
        at = turn_of(e, w->code - e->k->n_in, left);
    else if (e->trip && w->moves[e->k->n_dims])
        at = LLVMBuildAdd(e->b, at, times_step(e, w, e->k->n_dims, e->trip), "");
    return LLVMBuildIntToPtr(e->b, at, e->bytes, "");
}

void walkers_start(struct emitter *e)
{
    for (int i = 0; i < e->n_walkers; i++) {
        const struct walker *w = &e->walkers[i];
        emit_store(e, w->kind == WALK_ACCESS ? start_of(e, w) : emit_int(e, 0), w->home);
    }
}

void walkers_go_home(struct emitter *e)
{
    for (int i = 0; i < e->n_walkers; i++)
        emit_store(e, emit_load(e, type_of(e, &e->walkers[i]), e->walkers[i].home), e->walkers[i].slot);
}

void walkers_save(struct emitter *e, int dim, LLVMValueRef saved[MAX_WALKERS])
{
    for (int i = 0; i < e->n_walkers; i++)
        if (e->walkers[i].moves[dim]) saved[i] = emit_load(e, type_of(e, &e->walkers[i]), e->walkers[i].slot);
}

void walkers_restore(struct emitter *e, int dim, LLVMValueRef saved[MAX_WALKERS])
{
    for (int i = 0; i < e->n_walkers; i++)
        if (e->walkers[i].moves[dim]) emit_store(e, saved[i], e->walkers[i].slot);
}
