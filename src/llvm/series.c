// The trips of a loop as one function: the kernels that a trip launches, and the loop around them.
//
// What no run changes is constant in them, so that the passes leave little of a small kernel: its loops are unrolled,
// its places known. Memory is read and written as by launches one by one, and values are computed in the same order.
#include "llvm/module.h"
#include "scalar/prim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item_code {
    LLVMValueRef run, end; // end: NULL: none
};

static void make_part(struct emitter *e, LLVMValueRef fn)
{
    unsigned kind = LLVMGetEnumAttributeKindForName("alwaysinline", 12);
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(e->context, kind, 0));
}

static kiln_status emit_item(struct emitter *e, const struct llvm_series_item *it, int number, struct item_code *out)
{
    char symbol[32], end[48];
    snprintf(symbol, sizeof symbol, "item_%d", number);
    snprintf(end, sizeof end, "%s_end", symbol);
    e->k = it->k;
    e->plan = it->plan;
    e->constants = it->words;
    e->fixed = it->fixed;
    void *tables = tables_make(e);
    if (!tables) return llvm_host->error(KILN_E_MEMORY, "kernel %s: out of memory for its code", it->k->name);
    emit_functions(e, symbol);
    free(tables);
    out->run = LLVMGetNamedFunction(e->module, symbol);
    out->end = it->run_end ? LLVMGetNamedFunction(e->module, end) : NULL;
    make_part(e, out->run);
    if (it->plan->has_end) make_part(e, LLVMGetNamedFunction(e->module, end));
    return KILN_OK;
}

// --- the loop ---

static LLVMValueRef word_at(struct emitter *e, LLVMValueRef base, LLVMValueRef index)
{
    LLVMValueRef at = LLVMBuildGEP2(e->b, e->i64, base, &index, 1, "");
    return LLVMBuildLoad2(e->b, e->i64, at, "");
}

static LLVMValueRef as_words(struct emitter *e, LLVMValueRef address)
{
    return LLVMBuildIntToPtr(e->b, address, LLVMPointerType(e->i64, 0), "");
}

// The number of the trip as a scalar lies in its word.
static LLVMValueRef number_bits(struct emitter *e, LLVMValueRef trip, uint8_t cls)
{
    switch (cls) {
    case CLASS_F32: {
        LLVMValueRef bits = LLVMBuildBitCast(e->b, LLVMBuildSIToFP(e->b, trip, e->f32, ""), e->i32, "");
        return LLVMBuildZExt(e->b, bits, e->i64, "");
    }
    case CLASS_F64: return LLVMBuildBitCast(e->b, LLVMBuildSIToFP(e->b, trip, e->f64, ""), e->i64, "");
    case CLASS_I32: return LLVMBuildZExt(e->b, LLVMBuildTrunc(e->b, trip, e->i32, ""), e->i64, "");
    case CLASS_I64: return trip;
    default: return LLVMBuildZExt(e->b, LLVMBuildICmp(e->b, LLVMIntNE, trip, emit_int(e, 0), ""), e->i64, "");
    }
}

static void call(struct emitter *e, LLVMValueRef fn, LLVMValueRef words, bool with_range)
{
    LLVMTypeRef types[3] = {LLVMPointerType(e->i64, 0), e->i64, e->i64};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, with_range ? 3 : 1, false);
    LLVMValueRef args[3] = {words, emit_int(e, 0), emit_int(e, 1)};
    LLVMBuildCall2(e->b, type, fn, args, with_range ? 3 : 1, "");
}

// `half`: 0 in even trips, 1 in odd ones.
static void emit_launch(struct emitter *e, const struct llvm_series *s, int item, const struct item_code *code,
                        LLVMValueRef trip, LLVMValueRef half)
{
    const struct llvm_series_item *it = &s->items[item];
    LLVMValueRef row = LLVMBuildMul(e->b, half, emit_int(e, s->n), "");
    LLVMValueRef at = LLVMBuildAdd(e->b, row, emit_int(e, llvm_series_words_at(s, 0, item)), "");
    LLVMValueRef words = as_words(e, word_at(e, LLVMGetParam(e->fn, 0), at));
    for (int i = 0; i < it->n_numbers; i++) {
        LLVMValueRef index = emit_int(e, it->numbers[i].word);
        LLVMBuildStore(e->b, number_bits(e, trip, it->numbers[i].cls),
                       LLVMBuildGEP2(e->b, e->i64, words, &index, 1, ""));
    }
    call(e, code->run, words, true);
    if (code->end) call(e, code->end, words, false);
    if (!it->n_movers) return;
    at = LLVMBuildAdd(e->b, row, emit_int(e, llvm_series_movers_at(s, 0, item)), "");
    LLVMValueRef movers = as_words(e, word_at(e, LLVMGetParam(e->fn, 0), at));
    for (int i = 0; i < it->n_movers; i++) {
        LLVMValueRef to = as_words(e, word_at(e, movers, emit_int(e, 2 * i)));
        LLVMValueRef step = word_at(e, movers, emit_int(e, 2 * i + 1));
        LLVMBuildStore(e->b, LLVMBuildAdd(e->b, LLVMBuildLoad2(e->b, e->i64, to, ""), step, ""), to);
    }
}

static void begin_driver(struct emitter *e, const char *symbol)
{
    LLVMTypeRef types[3] = {LLVMPointerType(e->i64, 0), e->i64, e->i64};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, 3, false);
    e->fn = LLVMAddFunction(e->module, symbol, type);
    e->slots_block = LLVMAppendBasicBlockInContext(e->context, e->fn, "slots");
    e->entry_block = LLVMAppendBasicBlockInContext(e->context, e->fn, "entry");
    LLVMPositionBuilderAtEnd(e->b, e->slots_block);
    LLVMBuildBr(e->b, e->entry_block);
    LLVMPositionBuilderAtEnd(e->b, e->entry_block);
}

static void emit_driver(struct emitter *e, const struct llvm_series *s, const struct item_code *codes,
                        const char *symbol)
{
    struct loop l;
    begin_driver(e, symbol);
    LLVMValueRef args = LLVMGetParam(e->fn, 0);
    LLVMValueRef flag = word_at(e, args, emit_int(e, llvm_series_flag_at(s)));
    loop_begin(e, &l, LLVMGetParam(e->fn, 1), LLVMGetParam(e->fn, 2), 1);
    LLVMValueRef half = LLVMBuildAnd(e->b, l.index, emit_int(e, 1), "");
    for (int i = 0; i < s->n_cond; i++) emit_launch(e, s, i, &codes[i], l.index, half);
    if (s->n_cond) {
        LLVMBasicBlockRef go_on = LLVMAppendBasicBlockInContext(e->context, e->fn, "body");
        LLVMValueRef at = LLVMBuildIntToPtr(e->b, flag, LLVMPointerType(e->i8, 0), "");
        LLVMValueRef holds = LLVMBuildLoad2(e->b, e->i8, at, "");
        holds = LLVMBuildICmp(e->b, LLVMIntNE, holds, LLVMConstNull(e->i8), "");
        LLVMBuildCondBr(e->b, holds, go_on, l.exit);
        LLVMPositionBuilderAtEnd(e->b, go_on);
    }
    for (int i = s->n_cond; i < s->n; i++) emit_launch(e, s, i, &codes[i], l.index, half);
    loop_end(e, &l);
    LLVMValueRef stop = as_words(e, word_at(e, args, emit_int(e, llvm_series_stop_at(s))));
    LLVMBuildStore(e->b, emit_load(e, e->i64, l.slot), stop);
    LLVMBuildRetVoid(e->b);
}

// Loops that copy stay loops: an object may call nobody.
static void call_nothing(struct emitter *e)
{
    LLVMAttributeRef a = LLVMCreateStringAttribute(e->context, "no-builtins", 11, "", 0);
    for (LLVMValueRef fn = LLVMGetFirstFunction(e->module); fn; fn = LLVMGetNextFunction(fn))
        if (!LLVMIsDeclaration(fn)) LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

static kiln_status build_series(struct emitter *e, const struct llvm_series *s, struct codegen_code *code,
                                struct item_code *codes, LLVMTargetMachineRef *machine)
{
    kiln_status status = open_module(e, code->symbol, machine);
    for (int i = 0; !status && i < s->n; i++) status = emit_item(e, &s->items[i], i, &codes[i]);
    if (status) return status;
    emit_driver(e, s, codes, code->symbol);
    set_attributes(e);
    call_nothing(e);
    status = verify(e);
    return status ? status : run_passes(e, "always-inline,default<O2>", *machine);
}

kiln_status compile_series(const struct llvm_series *s, struct codegen_code *code)
{
    struct emitter e = {.k = s->items[0].k, .plan = s->items[0].plan};
    LLVMTargetMachineRef machine = NULL;
    struct item_code *codes = calloc((size_t)s->n, sizeof *codes);
    if (!codes) return llvm_host->error(KILN_E_MEMORY, "out of memory for the code of a loop");
    kiln_status status = build_series(&e, s, code, codes, &machine);
    if (!status) status = to_object(&e, machine, code);
    unbuild(&e, machine);
    free(codes);
    return status;
}
