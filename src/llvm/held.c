// Numbers that loops hold in registers.
//
// LLVM moves what does not change out of a loop only where that is sure to run: out of the loop over rows, or steps,
// nothing of a loop inside, which may have no turn. A function of a dozen numbers then loads each of them for each two
// vectors. The first of them, as many as half of the registers of AVX-512, are made at the entry instead, by nothing
// that LLVM knows as a constant. Elsewhere there are too few registers.
#include "llvm/emit.h"
#include "scalar/scalar.h"

static bool is_float(enum scalar_class cls)
{
    return cls == CLASS_F32 || cls == CLASS_F64;
}

static uint64_t bits_of(enum scalar_class cls, union scalar_value v)
{
    return cls == CLASS_F64 ? v.bits : (uint32_t)v.i32;
}

static struct held_number *find(struct emitter *e, enum scalar_class cls, uint64_t bits)
{
    for (int i = 0; i < e->n_held; i++)
        if (e->held[i].cls == cls && e->held[i].bits == bits) return &e->held[i];
    return NULL;
}

static void add(struct emitter *e, const struct scalar_node *n)
{
    uint64_t bits = bits_of(n->cls, n->value);
    if (n->kind != SCALAR_CONST || !is_float(n->cls) || bits == 0 || find(e, n->cls, bits)) return;
    if (e->n_held < MOST_HELD) e->held[e->n_held++] = (struct held_number){n->cls, bits, NULL};
}

void held_find(struct emitter *e)
{
    const struct scalar_node *nodes = e->k->dag.nodes;
    e->n_held = 0;
    if (!e->has_avx512 || e->fixed) return;
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        for (int a = 0; a < nodes[i].n_args && e->varies[i] && !e->waits[i]; a++) add(e, &nodes[nodes[i].arg[a]]);
}

void held_begin(struct emitter *e)
{
    for (int i = 0; i < e->n_held; i++) e->held[i].v = NULL;
}

static LLVMValueRef make(struct emitter *e, LLVMValueRef constant, int width)
{
    LLVMBasicBlockRef here;
    LLVMTypeRef vector = emit_vector(LLVMTypeOf(constant), width), type = LLVMFunctionType(vector, &vector, 1, false);
    LLVMValueRef same =
        LLVMGetInlineAsm(type, (char[]){""}, 0, (char[]){"=v,0"}, 4, true, false, LLVMInlineAsmDialectATT, false);
    LLVMValueRef splat = emit_splat_const(constant, width);
    emit_at_entry(e, &here);
    LLVMValueRef v = LLVMBuildCall2(e->b, type, same, &splat, 1, "");
    emit_back(e, here);
    return v;
}

LLVMValueRef emit_number(struct emitter *e, enum scalar_class cls, union scalar_value value, int width)
{
    enum { REGISTER_BITS = 512 };
    LLVMValueRef constant = emit_const(e, cls, value), all[64];
    struct held_number *h = find(e, cls, bits_of(cls, value));
    int one = REGISTER_BITS / (cls == CLASS_F64 ? 64 : 32);
    if (!h || width % one) return emit_splat_const(constant, width);
    if (!h->v) h->v = make(e, constant, one);
    if (width == one) return h->v;
    for (int i = 0; i < width; i++) all[i] = LLVMConstInt(e->i32, (unsigned long long)(i % one), false);
    return LLVMBuildShuffleVector(e->b, h->v, h->v, LLVMConstVector(all, (unsigned)width), "");
}
