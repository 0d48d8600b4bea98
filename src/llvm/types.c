// Types, constants and the small idioms of building instructions.
#include "llvm/emit.h"
#include <string.h>

LLVMTypeRef emit_vector(LLVMTypeRef element, int width)
{
    return width == 1 ? element : LLVMVectorType(element, (unsigned)width);
}

LLVMTypeRef emit_class_type(const struct emitter *e, enum scalar_class cls, int width)
{
    const LLVMTypeRef types[CLASS_COUNT] = {e->f32, e->f64, e->i32, e->i64, e->i1};
    return emit_vector(types[cls], width);
}

LLVMValueRef emit_int(const struct emitter *e, int64_t v)
{
    return LLVMConstInt(e->i64, (unsigned long long)v, true);
}

int64_t emit_known(LLVMValueRef v)
{
    return LLVMIsAConstantInt(v) ? LLVMConstIntGetSExtValue(v) : -1;
}

LLVMValueRef emit_splat_const(LLVMValueRef scalar, int width)
{
    LLVMValueRef lanes[64];
    if (width == 1) return scalar;
    for (int i = 0; i < width; i++) lanes[i] = scalar;
    return LLVMConstVector(lanes, (unsigned)width);
}

LLVMValueRef emit_splat(struct emitter *e, LLVMValueRef scalar, int width)
{
    if (width == 1) return scalar;
    if (LLVMIsConstant(scalar)) return emit_splat_const(scalar, width);
    LLVMTypeRef type = emit_vector(LLVMTypeOf(scalar), width);
    LLVMValueRef undef = LLVMGetUndef(type);
    LLVMValueRef first = LLVMBuildInsertElement(e->b, undef, scalar, LLVMConstInt(e->i32, 0, false), "");
    return LLVMBuildShuffleVector(e->b, first, undef, LLVMConstNull(emit_vector(e->i32, width)), "");
}

LLVMValueRef emit_iota(const struct emitter *e, LLVMTypeRef element, int width)
{
    LLVMValueRef lanes[64];
    (void)e;
    if (width == 1) return LLVMConstNull(element);
    for (int i = 0; i < width; i++) lanes[i] = LLVMConstInt(element, (unsigned long long)i, false);
    return LLVMConstVector(lanes, (unsigned)width);
}

// Floats go in by their bits, so that NaN and -0 arrive as they are.
LLVMValueRef emit_const(const struct emitter *e, enum scalar_class cls, union scalar_value v)
{
    switch (cls) {
    case CLASS_F32: return LLVMConstBitCast(LLVMConstInt(e->i32, (uint32_t)v.i32, false), e->f32);
    case CLASS_F64: return LLVMConstBitCast(LLVMConstInt(e->i64, v.bits, false), e->f64);
    case CLASS_I32: return LLVMConstInt(e->i32, (uint32_t)v.i32, false);
    case CLASS_I64: return LLVMConstInt(e->i64, v.bits, false);
    default: return LLVMConstInt(e->i1, v.b != 0, false);
    }
}

LLVMValueRef emit_call(struct emitter *e, const char *intrinsic, LLVMTypeRef *overloads, int n_overloads,
                       LLVMValueRef *args, int n_args)
{
    unsigned id = LLVMLookupIntrinsicID(intrinsic, strlen(intrinsic));
    if (id == 0) {
        e->wrong = intrinsic;
        return args[0];
    }
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->module, id, overloads, (size_t)n_overloads);
    LLVMTypeRef type = LLVMIntrinsicGetType(e->context, id, overloads, (size_t)n_overloads);
    return LLVMBuildCall2(e->b, type, fn, args, (unsigned)n_args, "");
}

void emit_at_entry(struct emitter *e, LLVMBasicBlockRef *saved)
{
    *saved = LLVMGetInsertBlock(e->b);
    LLVMPositionBuilderBefore(e->b, LLVMGetBasicBlockTerminator(e->entry_block));
}

void emit_back(struct emitter *e, LLVMBasicBlockRef saved)
{
    LLVMPositionBuilderAtEnd(e->b, saved);
}

// A word of the argument block; loaded at the entry, where it dominates every use.
LLVMValueRef emit_word(struct emitter *e, int index)
{
    LLVMBasicBlockRef here;
    if (e->fixed && e->fixed[index]) return emit_int(e, (int64_t)e->constants[index]);
    if (e->words[index]) return e->words[index];
    emit_at_entry(e, &here);
    LLVMValueRef at = emit_at(e, e->args, emit_int(e, 8 * (int64_t)index));
    LLVMValueRef v = LLVMBuildLoad2(e->b, e->i64, emit_typed(e, at, e->i64), "");
    emit_back(e, here);
    return e->words[index] = v;
}

LLVMValueRef emit_slot(struct emitter *e, LLVMTypeRef type)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMPositionBuilderBefore(e->b, LLVMGetBasicBlockTerminator(e->slots_block));
    LLVMValueRef slot = LLVMBuildAlloca(e->b, type, "");
    LLVMPositionBuilderAtEnd(e->b, here);
    return slot;
}

// A slot that no pass turns into a value: what outer loops change lies in memory, where it costs the passes over those
// loops nothing.
LLVMValueRef emit_home(struct emitter *e, LLVMTypeRef type)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMPositionBuilderBefore(e->b, LLVMGetBasicBlockTerminator(e->slots_block));
    LLVMTypeRef pair = LLVMArrayType(type, 1);
    LLVMValueRef zero[2] = {emit_int(e, 0), emit_int(e, 0)};
    LLVMValueRef slot = LLVMBuildGEP2(e->b, pair, LLVMBuildAlloca(e->b, pair, ""), zero, 2, "");
    LLVMPositionBuilderAtEnd(e->b, here);
    return slot;
}

LLVMValueRef emit_load(struct emitter *e, LLVMTypeRef type, LLVMValueRef slot)
{
    return LLVMBuildLoad2(e->b, type, slot, "");
}

void emit_store(struct emitter *e, LLVMValueRef v, LLVMValueRef slot)
{
    LLVMBuildStore(e->b, v, slot);
}

LLVMValueRef emit_at(struct emitter *e, LLVMValueRef bytes, LLVMValueRef offset)
{
    return LLVMBuildGEP2(e->b, e->i8, bytes, &offset, 1, "");
}

LLVMValueRef emit_typed(struct emitter *e, LLVMValueRef bytes, LLVMTypeRef element)
{
    return LLVMBuildBitCast(e->b, bytes, LLVMPointerType(element, 0), "");
}

LLVMValueRef emit_min(struct emitter *e, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, a, b, ""), a, b, "");
}
