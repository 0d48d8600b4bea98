// Reductions: accumulators of one or many lanes, their joining, their way through memory.
//
// An accumulator starts at the identity, takes values lane by lane and is joined with others; lanes are folded by
// halves, in an order that depends on the width alone. Sums and products of f32 that may be long are gathered in f64: a
// vector accumulator of f32 takes a bounded number of values before it is joined into an f64 one. The largest of equal
// values with the smallest place wins in argmax and argmin; a NaN wins over every number, the first over later ones.
#include "llvm/emit.h"
#include <math.h>

static unsigned how_of(const struct emitter *e, int node)
{
    return e->k->dag.nodes[node].code & ~(unsigned)REDUCE_ACROSS;
}

enum scalar_class fold_class(const struct emitter *e, int node)
{
    return e->k->dag.nodes[e->k->dag.nodes[node].arg[0]].cls;
}

bool fold_finds_place(const struct emitter *e, int node)
{
    return reduce_finds_place(&e->k->dag.nodes[node]);
}

bool fold_is_across(const struct emitter *e, int node)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    return n->kind == SCALAR_REDUCE && (n->code & REDUCE_ACROSS);
}

static bool is_float(enum scalar_class cls)
{
    return cls == CLASS_F32 || cls == CLASS_F64;
}

static LLVMValueRef identity(unsigned how, enum scalar_class cls, LLVMTypeRef element)
{
    union scalar_value v = reduce_identity(how, cls);
    switch (cls) {
    case CLASS_F32: return LLVMConstReal(element, (double)v.f32);
    case CLASS_F64: return LLVMConstReal(element, v.f64);
    case CLASS_I32: return LLVMConstInt(element, (unsigned long long)v.i32, true);
    case CLASS_I64: return LLVMConstInt(element, (unsigned long long)v.i64, true);
    default: return LLVMConstInt(element, v.b, false);
    }
}

void fold_begin(struct emitter *e, struct acc *a, int node, int width, bool wide)
{
    unsigned how = how_of(e, node);
    enum scalar_class cls = fold_class(e, node);
    bool in_f64 = wide && reduce_gathers_wide(how, cls);
    LLVMTypeRef element = in_f64 ? e->f64 : emit_class_type(e, cls, 1);
    a->width = width;
    a->type = emit_vector(element, width);
    a->value = emit_slot(e, a->type);
    emit_store(e, emit_splat_const(identity(how, in_f64 ? CLASS_F64 : cls, element), width), a->value);
    a->place = NULL;
    if (!fold_finds_place(e, node)) return;
    a->place_type = emit_vector(e->i64, width);
    a->place = emit_slot(e, a->place_type);
    emit_store(e, emit_splat_const(emit_int(e, INT64_MAX), width), a->place);
}

static LLVMValueRef better(struct emitter *e, unsigned how, enum scalar_class cls, LLVMValueRef x, LLVMValueRef best)
{
    bool most = reduce_info[how].best > 0;
    if (is_float(cls)) return LLVMBuildFCmp(e->b, most ? LLVMRealOGT : LLVMRealOLT, x, best, "");
    if (cls == CLASS_BOOL) return LLVMBuildICmp(e->b, most ? LLVMIntUGT : LLVMIntULT, x, best, "");
    return LLVMBuildICmp(e->b, most ? LLVMIntSGT : LLVMIntSLT, x, best, "");
}

static LLVMValueRef joined(struct emitter *e, unsigned how, enum scalar_class cls, LLVMValueRef a, LLVMValueRef x)
{
    LLVMBuilderRef b = e->b;
    switch (how) {
    case REDUCE_SUM: return is_float(cls) ? LLVMBuildFAdd(b, a, x, "") : LLVMBuildAdd(b, a, x, "");
    case REDUCE_PROD: return is_float(cls) ? LLVMBuildFMul(b, a, x, "") : LLVMBuildMul(b, a, x, "");
    case REDUCE_ANY: return LLVMBuildOr(b, a, x, "");
    case REDUCE_ALL: return LLVMBuildAnd(b, a, x, "");
    default: break;
    }
    LLVMValueRef v = LLVMBuildSelect(b, better(e, how, cls, x, a), x, a, "");
    if (!is_float(cls)) return v;
    // The comparison keeps a NaN that is there; one that comes is taken here.
    return LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealUNO, x, x, ""), x, v, "");
}

// Whether value x at place p beats the best at place q.
static LLVMValueRef place_wins(struct emitter *e, unsigned how, enum scalar_class cls, const LLVMValueRef x[2],
                               const LLVMValueRef best[2])
{
    LLVMBuilderRef b = e->b;
    LLVMValueRef wins = better(e, how, cls, x[0], best[0]);
    LLVMValueRef earlier = LLVMBuildICmp(b, LLVMIntSLT, x[1], best[1], "");
    LLVMValueRef equal;
    if (is_float(cls)) {
        LLVMValueRef x_nan = LLVMBuildFCmp(b, LLVMRealUNO, x[0], x[0], "");
        LLVMValueRef best_nan = LLVMBuildFCmp(b, LLVMRealUNO, best[0], best[0], "");
        LLVMValueRef only_x = LLVMBuildAnd(b, x_nan, LLVMBuildNot(b, best_nan, ""), "");
        wins = LLVMBuildOr(b, wins, only_x, "");
        equal = LLVMBuildFCmp(b, LLVMRealOEQ, x[0], best[0], "");
        equal = LLVMBuildOr(b, equal, LLVMBuildAnd(b, x_nan, best_nan, ""), "");
    } else {
        equal = LLVMBuildICmp(b, LLVMIntEQ, x[0], best[0], "");
    }
    return LLVMBuildOr(b, wins, LLVMBuildAnd(b, equal, earlier, ""), "");
}

static void join_values(struct emitter *e, int node, LLVMValueRef into[2], const LLVMValueRef x[2])
{
    unsigned how = how_of(e, node);
    enum scalar_class cls = fold_class(e, node);
    if (!fold_finds_place(e, node)) {
        into[0] = joined(e, how, cls, into[0], x[0]);
        return;
    }
    LLVMValueRef wins = place_wins(e, how, cls, x, into);
    into[0] = LLVMBuildSelect(e->b, wins, x[0], into[0], "");
    into[1] = LLVMBuildSelect(e->b, wins, x[1], into[1], "");
}

static void load_acc(struct emitter *e, const struct acc *a, LLVMValueRef v[2])
{
    v[0] = emit_load(e, a->type, a->value);
    v[1] = a->place ? emit_load(e, a->place_type, a->place) : NULL;
}

static void store_acc(struct emitter *e, const struct acc *a, LLVMValueRef v[2])
{
    emit_store(e, v[0], a->value);
    if (a->place) emit_store(e, v[1], a->place);
}

static LLVMValueRef in_type(struct emitter *e, LLVMValueRef v, LLVMTypeRef type)
{
    return LLVMTypeOf(v) == type ? v : LLVMBuildFPExt(e->b, v, type, "");
}

void fold_add(struct emitter *e, const struct acc *a, int node, LLVMValueRef x, LLVMValueRef place)
{
    LLVMValueRef old[2], new[2], v[2] = {in_type(e, x, a->type), NULL};
    if (a->place) {
        bool is_vector = LLVMGetTypeKind(LLVMTypeOf(place)) == LLVMVectorTypeKind;
        v[1] = is_vector ? place : emit_splat(e, place, a->width);
    }
    load_acc(e, a, old);
    new[0] = old[0];
    new[1] = old[1];
    join_values(e, node, new, v);
    for (int i = 0; e->mask && a->width > 1 && i < 2; i++)
        if (new[i]) new[i] = LLVMBuildSelect(e->b, e->mask, new[i], old[i], "");
    store_acc(e, a, new);
}

static LLVMValueRef half_of(struct emitter *e, LLVMValueRef v, int width, bool upper)
{
    LLVMValueRef lanes[64];
    for (int i = 0; i < width; i++) lanes[i] = LLVMConstInt(e->i32, (unsigned long long)(upper ? width + i : i), false);
    if (width == 1) return LLVMBuildExtractElement(e->b, v, lanes[0], "");
    return LLVMBuildShuffleVector(e->b, v, LLVMGetUndef(LLVMTypeOf(v)), LLVMConstVector(lanes, (unsigned)width), "");
}

void fold_join(struct emitter *e, const struct acc *into, const struct acc *from, int node)
{
    LLVMValueRef v[2], sum[2];
    load_acc(e, from, v);
    for (int w = from->width; w > into->width; w /= 2) {
        LLVMValueRef low[2] = {half_of(e, v[0], w / 2, false), NULL}, high[2] = {half_of(e, v[0], w / 2, true), NULL};
        if (from->place) {
            low[1] = half_of(e, v[1], w / 2, false);
            high[1] = half_of(e, v[1], w / 2, true);
        }
        join_values(e, node, low, high);
        v[0] = low[0];
        v[1] = low[1];
    }
    v[0] = in_type(e, v[0], into->type);
    load_acc(e, into, sum);
    join_values(e, node, sum, v);
    store_acc(e, into, sum);
}

LLVMValueRef fold_result(struct emitter *e, const struct acc *a, int node)
{
    LLVMTypeRef type = emit_class_type(e, e->k->dag.nodes[node].cls, a->width);
    if (a->place) return emit_load(e, a->place_type, a->place);
    LLVMValueRef v = emit_load(e, a->type, a->value);
    return LLVMTypeOf(v) == type ? v : LLVMBuildFPTrunc(e->b, v, type, "");
}

// --- through memory: one slot of eight bytes a lane at most, packed ---

static LLVMTypeRef packed_type(const struct emitter *e, const struct acc *a, LLVMTypeRef type)
{
    return type == emit_vector(e->i1, a->width) ? emit_vector(e->i8, a->width) : type;
}

static LLVMValueRef packed_at(struct emitter *e, LLVMValueRef where, LLVMTypeRef type)
{
    return LLVMBuildBitCast(e->b, where, LLVMPointerType(type, 0), "");
}

static void save_one(struct emitter *e, const struct acc *a, LLVMValueRef v, LLVMValueRef where)
{
    LLVMTypeRef type = packed_type(e, a, LLVMTypeOf(v));
    if (type != LLVMTypeOf(v)) v = LLVMBuildZExt(e->b, v, type, "");
    LLVMValueRef at = packed_at(e, where, type);
    if (a->width == 1 || !e->mask) {
        LLVMSetAlignment(LLVMBuildStore(e->b, v, at), 1);
        return;
    }
    LLVMValueRef args[] = {v, at, LLVMConstInt(e->i32, 1, false), e->mask};
    LLVMTypeRef types[] = {type, LLVMTypeOf(at)};
    emit_call(e, "llvm.masked.store", types, 2, args, 4);
}

static LLVMValueRef restore_one(struct emitter *e, const struct acc *a, LLVMTypeRef type, LLVMValueRef where)
{
    LLVMTypeRef packed = packed_type(e, a, type);
    LLVMValueRef v, at = packed_at(e, where, packed);
    if (a->width == 1 || !e->mask) {
        v = LLVMBuildLoad2(e->b, packed, at, "");
        LLVMSetAlignment(v, 1);
    } else {
        LLVMValueRef args[] = {at, LLVMConstInt(e->i32, 1, false), e->mask, LLVMConstNull(packed)};
        LLVMTypeRef types[] = {packed, LLVMTypeOf(at)};
        v = emit_call(e, "llvm.masked.load", types, 2, args, 4);
    }
    return packed == type ? v : LLVMBuildTrunc(e->b, v, type, "");
}

// The address of a lane's value in a slot: the index of the point times the size of the value.
static LLVMValueRef within_slot(struct emitter *e, LLVMValueRef slot, LLVMValueRef point, LLVMTypeRef type, int width)
{
    LLVMTypeRef element = width == 1 ? type : LLVMGetElementType(type);
    int64_t size_B = element == e->i1 ? 1 : element == e->i32 || element == e->f32 ? 4 : 8;
    return emit_at(e, slot, LLVMBuildMul(e->b, point, emit_int(e, size_B), ""));
}

void fold_save(struct emitter *e, const struct acc *a, struct partials *p)
{
    LLVMValueRef v[2];
    load_acc(e, a, v);
    for (int i = 0; i < 2 && v[i]; i++) {
        save_one(e, a, v[i], within_slot(e, p->slot, p->point, LLVMTypeOf(v[i]), a->width));
        p->slot = emit_at(e, p->slot, p->between_B);
    }
}

// Joins saved partial results.
void fold_join_saved(struct emitter *e, const struct acc *a, int node, struct partials *p)
{
    LLVMValueRef v[2] = {NULL, NULL}, sum[2];
    LLVMTypeRef types[2] = {a->type, a->place ? a->place_type : NULL};
    for (int i = 0; i < 2 && types[i]; i++) {
        v[i] = restore_one(e, a, types[i], within_slot(e, p->slot, p->point, types[i], a->width));
        p->slot = emit_at(e, p->slot, p->between_B);
    }
    load_acc(e, a, sum);
    join_values(e, node, sum, v);
    store_acc(e, a, sum);
}
