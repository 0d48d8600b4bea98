// A sweep: one loop over the lanes, emitted wide without a mask, then narrow and masked for the elements that are left.
//
// Reductions that the sweep folds have vector accumulators of their own: those of the wide loop are folded to the width
// of the masked one, which goes on with them, and its lanes are folded at the end.
#include "llvm/body.h"

static bool sweep_folds(const struct emitter *e, const struct sweep *s, int node)
{
    return s->pass < 0 ? fold_is_across(e, node) : fused_pass_folds(e->k, s->pass, node);
}

static LLVMValueRef tail_mask(struct emitter *e, LLVMValueRef left)
{
    LLVMValueRef n = emit_splat(e, LLVMBuildTrunc(e->b, left, e->i32, ""), e->width);
    return LLVMBuildICmp(e->b, LLVMIntULT, emit_iota(e, e->i32, e->width), n, "");
}

static int64_t known_count(LLVMValueRef from, LLVMValueRef to)
{
    int64_t first = emit_known(from), end = emit_known(to);
    return first < 0 || end < 0 ? -1 : end - first;
}

void sweep_once(struct emitter *e, const struct sweep *s, LLVMValueRef from, LLVMValueRef limit, int width,
                LLVMValueRef to, bool once)
{
    struct loop l;
    loop_begin(e, &l, from, limit, width);
    e->width = width;
    e->lane = l.index;
    if (to && width > 1) e->mask = tail_mask(e, LLVMBuildSub(e->b, to, l.index, ""));
    e->present = e->mask && once ? (int)known_count(from, to) : 0;
    if (e->present < 0 || e->present > width) e->present = 0;
    if (e->present == width) e->mask = NULL;
    s->body(e, s->pass);
    e->mask = NULL;
    e->present = 0;
    if (once)
        loop_leave(e, &l);
    else
        loop_end(e, &l);
    e->width = 1;
    e->lane = emit_int(e, 0);
}

void sweep_begin(struct emitter *e, const struct sweep *s, int width)
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

void sweep_end(struct emitter *e, const struct sweep *s)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (sweep_folds(e, s, i)) fold_join(e, &e->acc[i], &e->lane_acc[i], i);
}

// Steps of an element wait for each other, so that other vectors have to fill in: up to 256 bits wide the more, the
// longer the chain is, whether the registers hold them or not.
static int64_t vectors_at_once(const struct emitter *e, const struct pass_load *load)
{
    enum { FEW_STEPS = 8, MANY_STEPS = 60, LONG_CHAIN = 30 };
    bool in_registers = e->k->trips.on && !e->k->trips.in_place; // what each trip waits for
    bool is_flat = fused_is_flat(e->k) && !in_registers;
    int64_t bits = e->plan->choices[LLVM_VECTOR_BITS], one = e->plan->choices[LLVM_TAIL_WIDTH];
    if (load->by_lanes) return 1;
    if (bits > LLVM_SHORT_VECTOR_BITS) {
        if (load->steps > MANY_STEPS) return 1;
        return load->steps <= FEW_STEPS && !load->wide_lanes && !is_flat ? 4 : 2;
    }
    int64_t registers = load->wide_lanes && one * 64 > bits ? one * 64 / bits : 1; // of a vector
    if (is_flat && load->steps <= FEW_STEPS) return 2;
    return (is_flat && load->chain > LONG_CHAIN ? 8 : 4) / registers;
}

static int64_t sweep_width(struct emitter *e, const struct sweep *s)
{
    int64_t widest = e->plan->choices[LLVM_WIDTH], one = e->plan->choices[LLVM_TAIL_WIDTH];
    struct pass_load load = pass_measure(e, s->pass);
    int64_t width = one * vectors_at_once(e, &load);
    return widest < width ? widest : width;
}

// Of a sweep that is known to be shorter than a vector, lanes beyond the next power of two would fold what changes
// nothing.
static int64_t narrowest(const struct emitter *e, int64_t count)
{
    int64_t width = e->plan->choices[LLVM_TAIL_WIDTH];
    if (count <= 0 || e->plan->choices[LLVM_ACROSS]) return width;
    while (width / 2 >= count) width /= 2;
    return width;
}

void sweep(struct emitter *e, const struct sweep *s, LLVMValueRef from, LLVMValueRef to)
{
    int64_t wide = sweep_width(e, s), narrow = e->plan->choices[LLVM_TAIL_WIDTH], count = known_count(from, to);
    if (count >= 0 && count < wide) wide = 0;
    if (!wide) narrow = narrowest(e, count);
    sweep_begin(e, s, (int)(wide ? wide : narrow));
    if (wide) {
        sweep_once(e, s, from, LLVMBuildSub(e->b, to, emit_int(e, wide - 1), ""), (int)wide, NULL, false);
        LLVMValueRef done = LLVMBuildAnd(e->b, LLVMBuildSub(e->b, to, from, ""), emit_int(e, -wide), "");
        from = LLVMBuildAdd(e->b, from, done, "");
        if (wide != narrow) sweep_narrow(e, s, (int)narrow);
    }
    int64_t rest = known_count(from, to);
    bool once = wide == narrow || (rest >= 0 && rest <= narrow);
    sweep_once(e, s, from, to, (int)narrow, to, once);
    sweep_end(e, s);
}
