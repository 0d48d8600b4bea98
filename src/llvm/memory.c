// Loads and stores: from storage dtypes to classes and back, contiguous, strided, gathered, masked.
//
// An access that moves by one element from lane to lane is a vector in memory; one that does not move is a scalar; any
// other is gathered, or scattered in the order of lanes. Lanes that do not exist, and lanes whose condition is false,
// touch no memory.
#include "llvm/emit.h"
#include "base/dtype.h"

static LLVMTypeRef stored_type(const struct emitter *e, unsigned dtype)
{
    const struct dtype_info *d = &dtype_info[dtype];
    if (d->form == FORM_IEEE) return d->size_B == 4 ? e->f32 : e->f64;
    return d->size_B == 1 ? e->i8 : d->size_B == 2 ? e->i16 : d->size_B == 4 ? e->i32 : e->i64;
}

static LLVMValueRef int_splat(struct emitter *e, uint32_t v, int width)
{
    return emit_splat_const(LLVMConstInt(e->i32, v, false), width);
}

static LLVMValueRef int_op(struct emitter *e, LLVMOpcode op, LLVMValueRef a, uint32_t b, int width)
{
    return LLVMBuildBinOp(e->b, op, a, int_splat(e, b, width), "");
}

static LLVMValueRef as_int(struct emitter *e, LLVMValueRef x, int width)
{
    return LLVMBuildBitCast(e->b, x, emit_vector(e->i32, width), "");
}

static LLVMValueRef as_float(struct emitter *e, LLVMValueRef x, int width)
{
    return LLVMBuildBitCast(e->b, x, emit_vector(e->f32, width), "");
}

// The formulas of base/float16.h.
static LLVMValueRef f16_widened(struct emitter *e, LLVMValueRef h, int w)
{
    LLVMBuilderRef b = e->b;
    LLVMValueRef bits = LLVMBuildZExt(b, h, emit_vector(e->i32, w), "");
    LLVMValueRef sign = int_op(e, LLVMShl, int_op(e, LLVMAnd, bits, 0x8000, w), 16, w);
    LLVMValueRef rest = int_op(e, LLVMShl, int_op(e, LLVMAnd, bits, 0x7fff, w), 13, w);
    LLVMValueRef normal = int_op(e, LLVMAdd, rest, (127u - 15u) << 23, w);
    LLVMValueRef special = int_op(e, LLVMOr, rest, 0x7f800000, w);
    LLVMValueRef raised = as_float(e, int_op(e, LLVMAdd, rest, 113u << 23, w), w);
    LLVMValueRef unit = as_float(e, int_splat(e, 113u << 23, w), w);
    LLVMValueRef tiny = as_int(e, LLVMBuildFSub(b, raised, unit, ""), w);
    LLVMValueRef is_tiny = LLVMBuildICmp(b, LLVMIntULT, rest, int_splat(e, 1u << 23, w), "");
    LLVMValueRef is_special = LLVMBuildICmp(b, LLVMIntUGE, rest, int_splat(e, 31u << 23, w), "");
    LLVMValueRef magnitude = LLVMBuildSelect(b, is_tiny, tiny, normal, "");
    magnitude = LLVMBuildSelect(b, is_special, special, magnitude, "");
    return as_float(e, LLVMBuildOr(b, sign, magnitude, ""), w);
}

static LLVMValueRef f16_narrowed(struct emitter *e, LLVMValueRef x, int w)
{
    LLVMBuilderRef b = e->b;
    LLVMValueRef bits = as_int(e, x, w), sign = int_op(e, LLVMAnd, int_op(e, LLVMLShr, bits, 16, w), 0x8000, w);
    LLVMValueRef size = int_op(e, LLVMAnd, bits, 0x7fffffff, w), shifted = int_op(e, LLVMLShr, size, 13, w);
    LLVMValueRef normal = int_op(e, LLVMAdd, size, 0xfffu - ((127u - 15u) << 23), w);
    normal = LLVMBuildAdd(b, normal, int_op(e, LLVMAnd, shifted, 1, w), "");
    normal = int_op(e, LLVMLShr, normal, 13, w);
    LLVMValueRef half_one = as_float(e, int_splat(e, 126u << 23, w), w);
    LLVMValueRef tiny = as_int(e, LLVMBuildFAdd(b, as_float(e, size, w), half_one, ""), w);
    tiny = int_op(e, LLVMSub, tiny, 126u << 23, w);
    LLVMValueRef nan = int_op(e, LLVMOr, int_op(e, LLVMAnd, shifted, 0x3ff, w), 0x7e00, w);
    LLVMValueRef is_tiny = LLVMBuildICmp(b, LLVMIntULT, size, int_splat(e, 113u << 23, w), "");
    LLVMValueRef is_large = LLVMBuildICmp(b, LLVMIntUGE, size, int_splat(e, 0x477ff000, w), "");
    LLVMValueRef is_nan = LLVMBuildICmp(b, LLVMIntUGT, size, int_splat(e, 0x7f800000, w), "");
    LLVMValueRef magnitude = LLVMBuildSelect(b, is_tiny, tiny, normal, "");
    magnitude = LLVMBuildSelect(b, is_large, int_splat(e, 0x7c00, w), magnitude, "");
    magnitude = LLVMBuildSelect(b, is_nan, nan, magnitude, "");
    return LLVMBuildTrunc(b, LLVMBuildOr(b, sign, magnitude, ""), emit_vector(e->i16, w), "");
}

static LLVMValueRef bf16_narrowed(struct emitter *e, LLVMValueRef x, int w)
{
    LLVMBuilderRef b = e->b;
    LLVMValueRef bits = as_int(e, x, w), high = int_op(e, LLVMLShr, bits, 16, w);
    LLVMValueRef rounded = int_op(e, LLVMAdd, bits, 0x7fff, w);
    rounded = LLVMBuildAdd(b, rounded, int_op(e, LLVMAnd, high, 1, w), "");
    rounded = int_op(e, LLVMLShr, rounded, 16, w);
    LLVMValueRef nan = int_op(e, LLVMOr, high, 0x40, w);
    LLVMValueRef is_nan = LLVMBuildFCmp(b, LLVMRealUNO, x, x, "");
    return LLVMBuildTrunc(b, LLVMBuildSelect(b, is_nan, nan, rounded, ""), emit_vector(e->i16, w), "");
}

static LLVMValueRef widened(struct emitter *e, unsigned dtype, LLVMValueRef v, int w)
{
    const struct dtype_info *d = &dtype_info[dtype];
    LLVMTypeRef i32 = emit_vector(e->i32, w);
    switch (d->form) {
    case FORM_TRUTH: return LLVMBuildICmp(e->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
    case FORM_INTEGER:
        if (!dtype_is_narrow(dtype)) return v;
        if (dtype_is_long(dtype)) return LLVMBuildZExt(e->b, v, emit_vector(e->i64, w), "");
        return d->is_signed ? LLVMBuildSExt(e->b, v, i32, "") : LLVMBuildZExt(e->b, v, i32, "");
    case FORM_BFLOAT16: return as_float(e, int_op(e, LLVMShl, LLVMBuildZExt(e->b, v, i32, ""), 16, w), w);
    case FORM_BINARY16:
        if (!e->has_f16) return f16_widened(e, v, w);
        v = LLVMBuildBitCast(e->b, v, emit_vector(e->half, w), "");
        return LLVMBuildFPExt(e->b, v, emit_vector(e->f32, w), "");
    default: return v;
    }
}

static LLVMValueRef narrowed(struct emitter *e, unsigned dtype, LLVMValueRef v, int w)
{
    const struct dtype_info *d = &dtype_info[dtype];
    switch (d->form) {
    case FORM_TRUTH: return LLVMBuildZExt(e->b, v, emit_vector(e->i8, w), "");
    case FORM_INTEGER:
        return dtype_is_narrow(dtype) ? LLVMBuildTrunc(e->b, v, emit_vector(stored_type(e, dtype), w), "") : v;
    case FORM_BFLOAT16: return bf16_narrowed(e, v, w);
    case FORM_BINARY16:
        if (!e->has_f16) return f16_narrowed(e, v, w);
        v = LLVMBuildFPTrunc(e->b, v, emit_vector(e->half, w), "");
        return LLVMBuildBitCast(e->b, v, emit_vector(e->i16, w), "");
    default: return v;
    }
}

LLVMValueRef emit_stored(struct emitter *e, unsigned dtype, LLVMValueRef v, int width)
{
    if (!dtype_is_narrow(dtype) && !dtype_is_half_float(dtype)) return v;
    return widened(e, dtype, narrowed(e, dtype, v, width), width);
}

LLVMValueRef emit_bool_as_byte(struct emitter *e, LLVMValueRef v, int width)
{
    return LLVMBuildZExt(e->b, v, emit_vector(e->i8, width), "");
}

// Addresses of all lanes: those of the access, and `more` elements beyond (NULL: none; a scalar or a vector).
static LLVMValueRef lane_addresses(struct emitter *e, const struct walker *walker, LLVMTypeRef type, unsigned size_B,
                                   LLVMValueRef more)
{
    int w = e->width;
    LLVMTypeRef i64 = emit_vector(e->i64, w);
    LLVMValueRef offset = LLVMConstNull(i64);
    if (e->lanes_dim >= 0 && walker->moves[e->lanes_dim]) {
        LLVMValueRef lane = LLVMBuildAdd(e->b, emit_splat(e, e->lane, w), emit_iota(e, e->i64, w), "");
        offset = LLVMBuildMul(e->b, lane, emit_splat(e, walker->step[e->lanes_dim], w), "");
    }
    if (more) {
        if (w > 1 && LLVMGetTypeKind(LLVMTypeOf(more)) != LLVMVectorTypeKind) more = emit_splat(e, more, w);
        more = LLVMBuildMul(e->b, more, emit_splat_const(emit_int(e, size_B), w), "");
        offset = LLVMBuildAdd(e->b, offset, more, "");
    }
    LLVMValueRef at = emit_at(e, emit_load(e, e->bytes, walker->slot), offset);
    return LLVMBuildBitCast(e->b, at, emit_vector(LLVMPointerType(type, 0), w), "");
}

// The address of the first lane.
static LLVMValueRef address(struct emitter *e, const struct walker *walker, LLVMTypeRef type, unsigned size_B,
                            LLVMValueRef more, bool along_lanes)
{
    LLVMValueRef at = emit_load(e, e->bytes, walker->slot);
    if (more) at = emit_at(e, at, LLVMBuildMul(e->b, more, emit_int(e, size_B), ""));
    if (along_lanes) at = emit_at(e, at, LLVMBuildMul(e->b, e->lane, emit_int(e, size_B), ""));
    return emit_typed(e, at, type);
}

static LLVMValueRef all_lanes(struct emitter *e, int w)
{
    return emit_splat_const(LLVMConstInt(e->i1, 1, false), w);
}

static bool along_lanes(const struct emitter *e, const struct fused_access *a)
{
    return e->lanes_dim >= 0 && a->strides[e->lanes_dim] == 1;
}

// One value; where the condition fails the address is that of a zero on the stack.
static LLVMValueRef load_one(struct emitter *e, const struct walker *walker, LLVMTypeRef type, unsigned size_B,
                             LLVMValueRef more, LLVMValueRef where, bool moves)
{
    LLVMValueRef at;
    if (moves && !along_lanes(e, fused_access_at(e->k, walker->code))) {
        int width = e->width;
        e->width = 1;
        at = lane_addresses(e, walker, type, size_B, more);
        e->width = width;
    } else {
        at = address(e, walker, type, size_B, more, moves);
    }
    if (where) {
        LLVMValueRef zero = emit_slot(e, type);
        emit_store(e, LLVMConstNull(type), zero);
        at = LLVMBuildSelect(e->b, where, at, zero, "");
    }
    return LLVMBuildLoad2(e->b, type, at, "");
}

// --- tiles ---

static bool in_tile(const struct emitter *e, int input)
{
    const struct fused_access *a = &e->k->in[input];
    if (e->tile_dim < 0 || a->strides[e->tile_dim] != 1 || along_lanes(e, a) || !a->strides[e->lanes_dim]) return false;
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        const struct scalar_node *n = &e->k->dag.nodes[i];
        if (n->kind == SCALAR_LOAD && n->code == input && n->n_args > 0) return false;
    }
    return true;
}

// Transposes w vectors of w lanes by log2(w) rounds: round s exchanges, between vectors i and i + s, the lanes that
// differ in bit s. After it bit s of the vector's index and of the lane have changed places.
static void transpose(struct emitter *e, LLVMValueRef *v, int w)
{
    LLVMValueRef low[64], high[64];
    for (int s = 1; s < w; s *= 2) {
        for (int lane = 0; lane < w; lane++) {
            bool set = (lane & s) != 0;
            low[lane] = LLVMConstInt(e->i32, (unsigned long long)(set ? w + lane - s : lane), false);
            high[lane] = LLVMConstInt(e->i32, (unsigned long long)(set ? w + lane : lane + s), false);
        }
        LLVMValueRef lows = LLVMConstVector(low, (unsigned)w), highs = LLVMConstVector(high, (unsigned)w);
        for (int i = 0; i < w; i++) {
            if (i & s) continue;
            LLVMValueRef a = v[i], b = v[i + s];
            v[i] = LLVMBuildShuffleVector(e->b, a, b, lows, "");
            v[i + s] = LLVMBuildShuffleVector(e->b, a, b, highs, "");
        }
    }
}

static LLVMValueRef tile_at(struct emitter *e, int input, LLVMValueRef row, LLVMTypeRef vector)
{
    LLVMTypeRef tile = LLVMArrayType(vector, e->plan->choices[LLVM_WIDTH]);
    if (!e->tiles[input]) e->tiles[input] = emit_slot(e, tile);
    LLVMValueRef at[2] = {emit_int(e, 0), row};
    return LLVMBuildGEP2(e->b, tile, e->tiles[input], at, 2, "");
}

// The next `width` rows of the tile: so many vectors of an element of each lane.
static void emit_square(struct emitter *e, int input)
{
    int w = e->width;
    const struct walker *walker = walker_find(e, WALK_ACCESS, input);
    unsigned size_B = llvm_host->dtype_size_B[e->k->in[input].dtype];
    LLVMTypeRef vector = emit_vector(stored_type(e, e->k->in[input].dtype), w);
    LLVMValueRef v[64], step = walker->step[e->lanes_dim];
    LLVMValueRef at = emit_at(e, emit_load(e, e->bytes, walker->slot), LLVMBuildMul(e->b, e->lane, step, ""));
    for (int lane = 0; lane < w; lane++) {
        v[lane] = LLVMBuildLoad2(e->b, vector, emit_typed(e, at, vector), "");
        LLVMSetAlignment(v[lane], size_B);
        at = emit_at(e, at, step);
    }
    transpose(e, v, w);
    for (int row = 0; row < w; row++) LLVMBuildStore(e->b, v[row], tile_at(e, input, emit_int(e, row), vector));
}

void emit_squares(struct emitter *e)
{
    for (int i = 0; i < e->k->n_in; i++)
        if (in_tile(e, i)) emit_square(e, i);
}

// --- rows across the lanes ---

static bool lies_across(const struct emitter *e, int input)
{
    int64_t stride = e->k->in[input].strides[e->lanes_dim];
    return e->plan->choices[LLVM_ACROSS] && stride != 0 && stride != 1;
}

// Half floats are widened once: that is less work, and a load finds whole vectors that were stored.
static LLVMTypeRef across_type(const struct emitter *e, int input, unsigned *size_B)
{
    unsigned dtype = e->k->in[input].dtype;
    bool half = dtype_is_half_float(dtype);
    *size_B = half ? 4 : llvm_host->dtype_size_B[dtype];
    return half ? e->f32 : stored_type(e, dtype);
}

static LLVMValueRef across_at(struct emitter *e, int input, LLVMValueRef place)
{
    unsigned narrow = e->plan->choices[LLVM_TAIL_WIDTH], size_B;
    unsigned length = (e->plan->choices[LLVM_ACROSS] + narrow - 1) / narrow * narrow;
    LLVMTypeRef type = across_type(e, input, &size_B);
    LLVMTypeRef buffer = LLVMArrayType(emit_vector(type, (int)e->plan->choices[LLVM_WIDTH]), length);
    if (!e->tiles[input]) e->tiles[input] = emit_slot(e, buffer);
    LLVMValueRef at = LLVMBuildBitCast(e->b, e->tiles[input], e->bytes, "");
    return emit_at(e, at, LLVMBuildMul(e->b, place, emit_int(e, (int64_t)size_B * e->width), ""));
}

// Of lanes [first, first + w), elements [place, place + w) of each row; what does not exist is not read.
static void transpose_block(struct emitter *e, int input, int first, LLVMValueRef place)
{
    int w = (int)e->plan->choices[LLVM_TAIL_WIDTH];
    const struct walker *walker = walker_find(e, WALK_ACCESS, input);
    unsigned size_B = llvm_host->dtype_size_B[e->k->in[input].dtype];
    LLVMTypeRef type = stored_type(e, e->k->in[input].dtype), vector = emit_vector(type, w);
    LLVMValueRef v[64], step = walker->step[e->lanes_dim], size = emit_word(e, llvm_size_at(e->k, e->k->n_dims - 1));
    LLVMValueRef left = LLVMBuildTrunc(e->b, LLVMBuildSub(e->b, size, place, ""), e->i32, "");
    LLVMValueRef exist = LLVMBuildICmp(e->b, LLVMIntULT, emit_iota(e, e->i32, w), emit_splat(e, left, w), "");
    LLVMValueRef lane = LLVMBuildAdd(e->b, e->lane, emit_int(e, first), "");
    LLVMValueRef at = emit_at(e, emit_load(e, e->bytes, walker->slot), LLVMBuildMul(e->b, lane, step, ""));
    at = emit_at(e, at, LLVMBuildMul(e->b, place, emit_int(e, size_B), ""));
    for (int i = 0; i < w; i++) {
        LLVMValueRef mask = exist, typed = LLVMBuildBitCast(e->b, at, LLVMPointerType(vector, 0), "");
        if (e->mask) {
            LLVMValueRef there = LLVMBuildExtractElement(e->b, e->mask, LLVMConstInt(e->i32, (unsigned)i, false), "");
            mask = LLVMBuildAnd(e->b, mask, emit_splat(e, there, w), "");
        }
        LLVMValueRef args[] = {typed, LLVMConstInt(e->i32, size_B, false), mask, LLVMConstNull(vector)};
        LLVMTypeRef types[] = {vector, LLVMTypeOf(typed)};
        v[i] = emit_call(e, "llvm.masked.load", types, 2, args, 4);
        at = emit_at(e, at, step);
    }
    transpose(e, v, w);
    LLVMTypeRef kept = emit_vector(across_type(e, input, &size_B), w);
    for (int i = 0; i < w && i < (int)e->plan->choices[LLVM_ACROSS]; i++) {
        LLVMValueRef to = across_at(e, input, LLVMBuildAdd(e->b, place, emit_int(e, i), ""));
        to = emit_at(e, to, emit_int(e, (int64_t)first * size_B));
        if (kept != vector) v[i] = widened(e, e->k->in[input].dtype, v[i], w);
        LLVMSetAlignment(LLVMBuildStore(e->b, v[i], LLVMBuildBitCast(e->b, to, LLVMPointerType(kept, 0), "")), size_B);
    }
}

void emit_across(struct emitter *e)
{
    int w = (int)e->plan->choices[LLVM_TAIL_WIDTH];
    for (int i = 0; i < e->k->n_in; i++) {
        if (!lies_across(e, i)) continue;
        struct loop l;
        loop_begin(e, &l, emit_int(e, 0), emit_word(e, llvm_size_at(e->k, e->k->n_dims - 1)), w);
        for (int first = 0; first < e->width; first += w) transpose_block(e, i, first, l.index);
        loop_end(e, &l);
    }
}

static LLVMValueRef load_across(struct emitter *e, int input)
{
    unsigned size_B, dtype = e->k->in[input].dtype;
    LLVMTypeRef vector = emit_vector(across_type(e, input, &size_B), e->width);
    LLVMValueRef at = across_at(e, input, walker_value(e, WALK_DIM, e->k->n_dims - 1));
    LLVMValueRef v = LLVMBuildLoad2(e->b, vector, LLVMBuildBitCast(e->b, at, LLVMPointerType(vector, 0), ""), "");
    LLVMSetAlignment(v, size_B);
    return dtype_is_half_float(dtype) ? v : widened(e, dtype, v, e->width);
}

// --- steps ---

static LLVMValueRef gathered(struct emitter *e, const struct walker *walker, LLVMTypeRef type, unsigned size_B,
                             LLVMValueRef more, LLVMValueRef mask)
{
    LLVMTypeRef vector = emit_vector(type, e->width);
    LLVMValueRef at = lane_addresses(e, walker, type, size_B, more);
    LLVMValueRef args[] = {at, LLVMConstInt(e->i32, size_B, false), mask ? mask : all_lanes(e, e->width),
                           LLVMConstNull(vector)};
    LLVMTypeRef types[] = {vector, LLVMTypeOf(at)};
    return emit_call(e, "llvm.masked.gather", types, 2, args, 4);
}

// Every second element: half of two vectors, of which the other one ends with the last element that is wanted.
static LLVMValueRef seconds(struct emitter *e, const struct walker *walker, LLVMTypeRef type, unsigned size_B)
{
    int w = e->width;
    LLVMTypeRef vector = emit_vector(type, w);
    LLVMValueRef v[2], order[64];
    LLVMValueRef at =
        emit_at(e, emit_load(e, e->bytes, walker->slot), LLVMBuildMul(e->b, e->lane, walker->step[e->lanes_dim], ""));
    for (int i = 0; i < 2; i++) {
        v[i] = LLVMBuildLoad2(e->b, vector,
                              emit_typed(e, i ? emit_at(e, at, emit_int(e, (w - 1) * size_B)) : at, vector), "");
        LLVMSetAlignment(v[i], size_B);
    }
    for (int lane = 0; lane < w; lane++)
        order[lane] = LLVMConstInt(e->i32, (unsigned long long)(2 * lane < w ? 2 * lane : 2 * lane + 1), false);
    return LLVMBuildShuffleVector(e->b, v[0], v[1], LLVMConstVector(order, (unsigned)w), "");
}

// Lanes at a step that is known when it runs. A gather takes each from its own address; steps of two elements, as of
// every second column, are worth a question.
static LLVMValueRef load_steps(struct emitter *e, const struct walker *walker, LLVMTypeRef type, unsigned size_B)
{
    LLVMTypeRef vector = emit_vector(type, e->width);
    LLVMValueRef slot = emit_slot(e, vector);
    LLVMBasicBlockRef two = LLVMAppendBasicBlockInContext(e->context, e->fn, "seconds");
    LLVMBasicBlockRef any = LLVMAppendBasicBlockInContext(e->context, e->fn, "gathered");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(e->context, e->fn, "loaded");
    LLVMValueRef is_two =
        LLVMBuildICmp(e->b, LLVMIntEQ, walker->step[e->lanes_dim], emit_int(e, 2 * (int64_t)size_B), "");
    LLVMBuildCondBr(e->b, is_two, two, any);
    LLVMPositionBuilderAtEnd(e->b, two);
    emit_store(e, seconds(e, walker, type, size_B), slot);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, any);
    emit_store(e, gathered(e, walker, type, size_B, NULL, NULL), slot);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, done);
    return emit_load(e, vector, slot);
}

// --- lanes of which it is known how many exist ---
//
// They go by whole vectors of fewer lanes, for what a masked store has written is no masked load's to have at once.

static LLVMValueRef piece_at(struct emitter *e, LLVMValueRef bytes, int64_t at_B, LLVMTypeRef type)
{
    return LLVMBuildBitCast(e->b, emit_at(e, bytes, emit_int(e, at_B)), LLVMPointerType(type, 0), "");
}

static LLVMValueRef lanes_from(struct emitter *e, LLVMValueRef a, LLVMValueRef b, const int *from, int n)
{
    LLVMValueRef order[64];
    for (int i = 0; i < n; i++)
        order[i] = from[i] < 0 ? LLVMGetUndef(e->i32) : LLVMConstInt(e->i32, (unsigned long long)from[i], false);
    return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(order, (unsigned)n), "");
}

static LLVMValueRef load_present(struct emitter *e, LLVMValueRef at, LLVMTypeRef type, unsigned size_B)
{
    int w = e->width, from[64], done = 0;
    LLVMValueRef v = LLVMConstNull(emit_vector(type, w));
    at = LLVMBuildBitCast(e->b, at, e->bytes, "");
    for (int piece = w / 2; piece; piece /= 2) {
        if (!(e->present & piece)) continue;
        LLVMTypeRef part = LLVMVectorType(type, (unsigned)piece);
        LLVMValueRef p = LLVMBuildLoad2(e->b, part, piece_at(e, at, (int64_t)done * size_B, part), "");
        LLVMSetAlignment(p, size_B);
        for (int i = 0; i < w; i++) from[i] = i < piece ? i : -1;
        p = lanes_from(e, p, LLVMGetUndef(part), from, w);
        for (int i = 0; i < w; i++) from[i] = i >= done && i < done + piece ? w + i - done : i;
        v = lanes_from(e, v, p, from, w);
        done += piece;
    }
    return v;
}

static void store_present(struct emitter *e, LLVMValueRef v, LLVMValueRef at, LLVMTypeRef type, unsigned size_B)
{
    int from[64], done = 0;
    at = LLVMBuildBitCast(e->b, at, e->bytes, "");
    for (int piece = e->width / 2; piece; piece /= 2) {
        if (!(e->present & piece)) continue;
        LLVMTypeRef part = LLVMVectorType(type, (unsigned)piece);
        for (int i = 0; i < piece; i++) from[i] = done + i;
        LLVMValueRef p = lanes_from(e, v, LLVMGetUndef(LLVMTypeOf(v)), from, piece);
        LLVMSetAlignment(LLVMBuildStore(e->b, p, piece_at(e, at, (int64_t)done * size_B, part)), size_B);
        done += piece;
    }
}

static LLVMValueRef load_lanes(struct emitter *e, int node, const struct walker *walker, LLVMTypeRef type,
                               unsigned size_B, LLVMValueRef more, LLVMValueRef where)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    const struct fused_access *a = &e->k->in[n->code];
    int w = e->width;
    LLVMTypeRef vector = emit_vector(type, w);
    LLVMValueRef mask = e->mask;
    if (where) mask = mask ? LLVMBuildAnd(e->b, mask, where, "") : where;
    if (e->tile_row && in_tile(e, n->code))
        return LLVMBuildLoad2(e->b, vector, tile_at(e, n->code, e->tile_row, vector), "");
    bool in_a_row = along_lanes(e, a) && !(n->n_args > 0 && e->varies[n->arg[0]]);
    if (in_a_row) {
        LLVMValueRef at =
            LLVMBuildBitCast(e->b, address(e, walker, type, size_B, more, true), LLVMPointerType(vector, 0), "");
        if (!mask) {
            LLVMValueRef v = LLVMBuildLoad2(e->b, vector, at, "");
            LLVMSetAlignment(v, size_B);
            return v;
        }
        if (e->present && !where) return load_present(e, at, type, size_B);
        LLVMValueRef args[] = {at, LLVMConstInt(e->i32, size_B, false), mask, LLVMConstNull(vector)};
        LLVMTypeRef types[] = {vector, LLVMTypeOf(at)};
        return emit_call(e, "llvm.masked.load", types, 2, args, 4);
    }
    if (!mask && !more && e->lanes_dim >= 0 && walker->moves[e->lanes_dim]) return load_steps(e, walker, type, size_B);
    return gathered(e, walker, type, size_B, more, mask);
}

LLVMValueRef emit_access_load(struct emitter *e, int node)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    const struct fused_access *a = &e->k->in[n->code];
    const struct walker *walker = walker_find(e, WALK_ACCESS, n->code);
    LLVMTypeRef type = stored_type(e, a->dtype);
    unsigned size_B = llvm_host->dtype_size_B[a->dtype];
    int w = e->varies[node] ? e->width : 1;
    if (w > 1 && lies_across(e, n->code)) return load_across(e, n->code);
    bool vector_place = n->n_args > 0 && e->varies[n->arg[0]];
    LLVMValueRef more = n->n_args > 0 ? emit_value(e, n->arg[0], vector_place ? w : 1) : NULL;
    LLVMValueRef where = n->n_args > 1 ? emit_value(e, n->arg[1], w) : NULL;
    LLVMValueRef v = w == 1 ? load_one(e, walker, type, size_B, more, where,
                                       e->varies[node] && e->lanes_dim >= 0 && a->strides[e->lanes_dim] != 0)
                            : load_lanes(e, node, walker, type, size_B, more, where);
    return widened(e, a->dtype, v, w);
}

// --- whole cache lines

enum { LINE_B = 64 };

static bool has_lines(const struct emitter *e)
{
    return llvm_may_stream(e->k) && (e->has_avx512 || e->has_avx2);
}

static bool goes_by_lines(const struct emitter *e, int output, int size_B)
{
    bool by_element = fused_is_flat(e->k) || fused_by_element(e->k, output);
    return by_element && has_lines(e) && size_B % LINE_B == 0;
}

static LLVMValueRef streams(struct emitter *e)
{
    return LLVMBuildICmp(e->b, LLVMIntNE, emit_word(e, llvm_word_at(e->k, LLVM_STREAMS)), emit_int(e, 0), "");
}

// Past the caches where the launch says so and the lines are whole.
static void store_lines(struct emitter *e, LLVMValueRef v, LLVMValueRef at, unsigned size_B)
{
    LLVMBasicBlockRef past = LLVMAppendBasicBlockInContext(e->context, e->fn, "past");
    LLVMBasicBlockRef into = LLVMAppendBasicBlockInContext(e->context, e->fn, "into");
    LLVMBasicBlockRef stored = LLVMAppendBasicBlockInContext(e->context, e->fn, "stored");
    LLVMValueRef within = LLVMBuildAnd(e->b, LLVMBuildPtrToInt(e->b, at, e->i64, ""), emit_int(e, LINE_B - 1), "");
    LLVMValueRef whole = LLVMBuildICmp(e->b, LLVMIntEQ, within, emit_int(e, 0), "");
    LLVMBuildCondBr(e->b, LLVMBuildAnd(e->b, streams(e), whole, ""), past, into);
    LLVMPositionBuilderAtEnd(e->b, past);
    LLVMValueRef store = LLVMBuildStore(e->b, v, at);
    LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(e->i32, 1, false));
    LLVMSetAlignment(store, LINE_B);
    LLVMSetMetadata(store, LLVMGetMDKindIDInContext(e->context, "nontemporal", 11),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, &one, 1)));
    LLVMBuildBr(e->b, stored);
    LLVMPositionBuilderAtEnd(e->b, into);
    LLVMSetAlignment(LLVMBuildStore(e->b, v, at), size_B);
    LLVMBuildBr(e->b, stored);
    LLVMPositionBuilderAtEnd(e->b, stored);
}

// What went past the caches is there for other threads.
void emit_lines_done(struct emitter *e)
{
    if (!has_lines(e)) return;
    LLVMBasicBlockRef fence = LLVMAppendBasicBlockInContext(e->context, e->fn, "fence");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(e->context, e->fn, "fenced");
    LLVMBuildCondBr(e->b, streams(e), fence, done);
    LLVMPositionBuilderAtEnd(e->b, fence);
    emit_call(e, "llvm.x86.sse.sfence", NULL, 0, NULL, 0);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, done);
}

void emit_access_store(struct emitter *e, int output)
{
    const struct fused_output *o = &e->k->out[output];
    const struct walker *walker = walker_find(e, WALK_ACCESS, e->k->n_in + output);
    LLVMTypeRef type = stored_type(e, o->to.dtype);
    unsigned size_B = llvm_host->dtype_size_B[o->to.dtype];
    int w = e->width;
    LLVMValueRef v = narrowed(e, o->to.dtype, emit_value(e, o->node, w), w);
    LLVMValueRef align = LLVMConstInt(e->i32, size_B, false);
    if (along_lanes(e, &o->to) || w == 1) {
        LLVMValueRef at = w == 1 && !along_lanes(e, &o->to) ? lane_addresses(e, walker, type, size_B, NULL)
                                                            : address(e, walker, type, size_B, NULL, true);
        at = LLVMBuildBitCast(e->b, at, LLVMPointerType(emit_vector(type, w), 0), "");
        if (!e->mask && goes_by_lines(e, output, w * (int)size_B)) {
            store_lines(e, v, at, size_B);
            return;
        }
        if (!e->mask) {
            LLVMSetAlignment(LLVMBuildStore(e->b, v, at), size_B);
            return;
        }
        if (e->present) {
            store_present(e, v, at, type, size_B);
            return;
        }
        LLVMValueRef args[] = {v, at, align, e->mask};
        LLVMTypeRef types[] = {LLVMTypeOf(v), LLVMTypeOf(at)};
        emit_call(e, "llvm.masked.store", types, 2, args, 4);
        return;
    }
    LLVMValueRef at = lane_addresses(e, walker, type, size_B, NULL);
    LLVMValueRef args[] = {v, at, align, e->mask ? e->mask : all_lanes(e, w)};
    LLVMTypeRef types[] = {LLVMTypeOf(v), LLVMTypeOf(at)};
    emit_call(e, "llvm.masked.scatter", types, 2, args, 4);
}
