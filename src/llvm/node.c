// Values of nodes: a scalar where all lanes agree, else a vector.
#include "llvm/emit.h"
#include "scalar/prim.h"

LLVMValueRef emit_value(struct emitter *e, int node, int width)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    if (n->kind == SCALAR_CONST) return emit_number(e, n->cls, n->value, width);
    LLVMValueRef v = e->value[node];
    if (!v) {
        e->wrong = "a value that is used before it is made";
        return LLVMGetUndef(emit_class_type(e, n->cls, width));
    }
    bool is_vector = LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind;
    return width > 1 && !is_vector ? emit_splat(e, v, width) : v;
}

static LLVMValueRef number_of_trip(struct emitter *e, enum scalar_class cls)
{
    LLVMTypeRef type = emit_class_type(e, cls, 1);
    switch (cls) {
    case CLASS_F32:
    case CLASS_F64: return LLVMBuildSIToFP(e->b, e->number, type, "");
    case CLASS_I32: return LLVMBuildTrunc(e->b, e->number, type, "");
    case CLASS_I64: return e->number;
    default: return LLVMBuildICmp(e->b, LLVMIntNE, e->number, emit_int(e, 0), "");
    }
}

// A run-time scalar lies in its word as in union scalar_value.
static LLVMValueRef scalar_input(struct emitter *e, int node)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    LLVMValueRef word = emit_word(e, llvm_scalar_at(e->k, n->code));
    LLVMValueRef low = LLVMBuildTrunc(e->b, word, e->i32, "");
    if (fused_is_number(e->k, node)) return number_of_trip(e, n->cls);
    switch (n->cls) {
    case CLASS_F32: return LLVMBuildBitCast(e->b, low, e->f32, "");
    case CLASS_F64: return LLVMBuildBitCast(e->b, word, e->f64, "");
    case CLASS_I32: return low;
    case CLASS_I64: return word;
    default: {
        LLVMValueRef byte = LLVMBuildTrunc(e->b, word, e->i8, "");
        return LLVMBuildICmp(e->b, LLVMIntNE, byte, LLVMConstNull(e->i8), "");
    }
    }
}

static LLVMValueRef spelled(struct emitter *e, int node)
{
    const struct scalar_node *nodes = e->k->dag.nodes, *n = &nodes[node];
    LLVMValueRef arg[3] = {NULL, NULL, NULL};
    int width = e->varies[node] ? e->width : 1;
    for (int i = 0; i < n->n_args; i++) arg[i] = emit_value(e, n->arg[i], width);
    enum scalar_class key = nodes[n->arg[prim_key_arg(n->code)]].cls;
    const struct scalar_node *count = n->n_args == 2 ? &nodes[n->arg[1]] : NULL;
    const char *text = n->n_args ? llvm_host->prim_text(n->code, key, TARGET_LLVM, count) : NULL;
    if (!text) {
        e->wrong = "a primitive without a spelling";
        return LLVMGetUndef(emit_class_type(e, n->cls, width));
    }
    return emit_spelling(e, text, arg, n->cls, width);
}

// --- rare cases

// What waits for a rare case, each after what it stands on.
static void emit_waiting(struct emitter *e, int node)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    if (!e->waits[node] || e->value[node]) return;
    for (int i = 0; i < n->n_args; i++) emit_waiting(e, n->arg[i]);
    e->value[node] = spelled(e, node);
}

// Weights by which the code for rare cases lies aside, and has its values in memory before others have.
static void set_unlikely(struct emitter *e, LLVMValueRef branch)
{
    LLVMMetadataRef weights[] = {LLVMMDStringInContext2(e->context, "branch_weights", 14),
                                 LLVMValueAsMetadata(LLVMConstInt(e->i32, 1, false)),
                                 LLVMValueAsMetadata(LLVMConstInt(e->i32, 2000, false))};
    LLVMMetadataRef node = LLVMMDNodeInContext2(e->context, weights, COUNT_OF(weights));
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(e->context, "prof", 4), LLVMMetadataAsValue(e->context, node));
}

// The usual value, but where some lane is a rare case.
static LLVMValueRef rare(struct emitter *e, int node)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    int width = e->varies[node] ? e->width : 1;
    LLVMValueRef usual = emit_value(e, n->arg[2], width), any = emit_value(e, n->arg[0], 1);
    LLVMTypeRef type = LLVMTypeOf(any);
    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind) any = emit_call(e, "llvm.vector.reduce.or", &type, 1, &any, 1);
    LLVMBasicBlockRef from[] = {LLVMGetInsertBlock(e->b), LLVMAppendBasicBlockInContext(e->context, e->fn, "rare")};
    LLVMBasicBlockRef joined = LLVMAppendBasicBlockInContext(e->context, e->fn, "usual");
    set_unlikely(e, LLVMBuildCondBr(e->b, any, from[1], joined));
    LLVMPositionBuilderAtEnd(e->b, from[1]);
    emit_waiting(e, n->arg[1]);
    LLVMValueRef values[] = {usual, spelled(e, node)};
    LLVMBuildBr(e->b, joined);
    LLVMPositionBuilderAtEnd(e->b, joined);
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (e->waits[i]) e->value[i] = NULL;
    LLVMValueRef value = LLVMBuildPhi(e->b, LLVMTypeOf(usual), "");
    LLVMAddIncoming(value, values, from, 2);
    return value;
}

static LLVMValueRef primitive(struct emitter *e, int node)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    return n->code == PRIM_rare && e->waits[n->arg[1]] ? rare(e, node) : spelled(e, node);
}

static LLVMValueRef computed(struct emitter *e, int node)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    switch (n->kind) {
    case SCALAR_INPUT: return scalar_input(e, node);
    case SCALAR_SIZE: return emit_word(e, llvm_size_at(e->k, n->code));
    case SCALAR_DIM: return walker_value(e, WALK_DIM, n->code);
    case SCALAR_LOAD: return emit_access_load(e, node);
    case SCALAR_PRIM: return primitive(e, node);
    default: e->wrong = "a node of an unknown kind"; return NULL;
    }
}

void emit_nodes(struct emitter *e, const uint8_t *want)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        enum scalar_kind kind = e->k->dag.nodes[i].kind;
        if (!want[i] || e->waits[i] || e->value[i] || kind == SCALAR_CONST || kind == SCALAR_REDUCE) continue;
        e->value[i] = computed(e, i);
    }
}
