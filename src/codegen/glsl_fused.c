// Fused kernels as GLSL compute shaders, standing on shaders/fused.glsl.
//
// Input: a kernel that fused_finish accepted. A pointwise kernel is one loop over points. A kernel with rows is, for
// each row: the row values that need no fold; for each stage a loop over the row that feeds the folds of that stage,
// the folds across the lanes, and the row values they make known; a loop that stores; the row outputs. Folds across
// rows gather in each invocation, then in the workgroup, then through the workspace in the workgroup that finishes
// last, which computes the totals.
//
// With `splits` workgroups to a row, each takes a part of it and leaves what it folded in the workspace; the last one
// to come combines the parts in their order and goes on with the row alone. There is one dispatch, no workgroup waits,
// and the order of every addition is fixed. Invariant: `known` marks the nodes whose names are in scope at the level of
// main(), outside of loops over elements.
#include "codegen/glsl.h"
#include "codegen/glsl_emit.h"
#include "ir/type.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOTAL_COUNTER (GLSL_COUNTERS_B / 4 - 1)

static const char *const fold_name[] = {"sum", "prod", "max", "min", "any", "all", "argmax", "argmin"};

static unsigned fold_of(const struct scalar_node *n)
{
    return n->code & ~(unsigned)REDUCE_ACROSS;
}

static bool finds_place(const struct scalar_node *n)
{
    return fold_of(n) == REDUCE_ARGMAX || fold_of(n) == REDUCE_ARGMIN;
}

static enum scalar_class folded_class(const struct fused_kernel *k, int node)
{
    return k->dag.nodes[k->dag.nodes[node].arg[0]].cls;
}

const char *glsl_deeper(const char *indent)
{
    static const char spaces[] = "                                        ";
    size_t n = strlen(indent) + 4;
    return spaces + (n < sizeof spaces ? sizeof spaces - 1 - n : 0);
}

const char *glsl_type(enum scalar_class cls)
{
    return scalar_class_type(TARGET_GLSL, cls);
}

void glsl_add_fold_name(struct str *s, const struct fused_kernel *k, int node)
{
    str_addf(s, "%s_%s", fold_name[fold_of(&k->dag.nodes[node])], scalar_class_name(folded_class(k, node)));
}

// The type of a partial value: the value's own, or a struct of value and place.
static void add_partial_type(struct str *s, const struct fused_kernel *k, int node)
{
    if (finds_place(&k->dag.nodes[node]))
        str_addf(s, "found_%s", scalar_class_name(folded_class(k, node)));
    else
        str_add(s, glsl_type(folded_class(k, node)));
}

void glsl_add_collect(struct glsl_emitter *e, const char *indent, int node, const char *place)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    str_addf(e->out, "%sacc%d = combine_%s(acc%d, ", indent, node, fold_name[fold_of(n)], node);
    if (finds_place(n)) str_addf(e->out, "found_%s(", scalar_class_name(folded_class(e->k, node)));
    scalar_emit_ref(e->out, TARGET_GLSL, &e->k->dag, n->arg[0]);
    if (finds_place(n)) str_addf(e->out, ", %s)", place);
    str_add(e->out, ");\n");
}

// --- values ---

static void add_scalar(struct str *s, enum scalar_class cls, int at)
{
    switch (cls) {
    case CLASS_F32: str_addf(s, "uintBitsToFloat(arg(%d))", at); break;
    case CLASS_F64: str_addf(s, "packDouble2x32(uvec2(arg(%d), arg(%d)))", at, at + 1); break;
    case CLASS_I32: str_addf(s, "int(arg(%d))", at); break;
    case CLASS_I64: str_addf(s, "int64_t(arg64(%d))", at); break;
    default: str_addf(s, "(arg(%d) & 255u) != 0u", at); break;
    }
}

void glsl_add_address(struct glsl_emitter *e, char name, int access)
{
    unsigned size_B = dtype_size_B[fused_access_at(e->k, access)->dtype];
    str_addf(e->out, e->wide ? "A%d + uint64_t(%c%d * %ul)" : "A%d + uint64_t(%c%d * %u)", access, name, access, size_B);
}

static void add_load(struct glsl_emitter *e, const struct scalar_node *n)
{
    static const char *const zero[CLASS_COUNT] = {"0.0", "0.0lf", "0", "0l", "false"};
    struct str *s = e->out;
    uint8_t dtype = e->k->in[n->code].dtype;
    if (n->n_args > 1) {
        scalar_emit_ref(s, TARGET_GLSL, &e->k->dag, n->arg[1]);
        str_add(s, " ? ");
    }
    str_addf(s, "load_%s(", dtype_name(dtype));
    if (n->n_args == 0) {
        glsl_add_address(e, 'o', n->code);
    } else {
        str_addf(s, "A%d + uint64_t((int64_t(o%d) + ", n->code, n->code);
        scalar_emit_ref(s, TARGET_GLSL, &e->k->dag, n->arg[0]);
        str_addf(s, ") * %ul)", dtype_size_B[dtype]);
    }
    str_add(s, ")");
    if (n->n_args > 1) str_addf(s, " : %s", zero[n->cls]);
}

static void leaf(struct str *s, const struct scalar_dag *d, int node, void *user)
{
    struct glsl_emitter *e = user;
    const struct scalar_node *n = &d->nodes[node];
    switch (n->kind) {
    case SCALAR_INPUT: add_scalar(s, n->cls, e->layout.scalar[n->code]); break;
    case SCALAR_DIM: str_addf(s, "int64_t(i%d)", n->code); break;
    case SCALAR_SIZE: str_addf(s, "int64_t(arg_index(%d))", e->layout.size[n->code]); break;
    case SCALAR_LOAD: add_load(e, n); break;
    case SCALAR_REDUCE: // over the one element of an empty R
        if (finds_place(n))
            str_add(s, "0l");
        else
            scalar_emit_ref(s, TARGET_GLSL, d, n->arg[0]);
        break;
    default: str_addf(s, "int64_t(%s)", n->code == PRIM_rindex ? "r" : e->form.kind == GLSL_POINTS ? "1" : "length");
    }
}

void glsl_emit_wanted(struct glsl_emitter *e, const char *indent, uint8_t *known)
{
    const struct scalar_dag *d = &e->k->dag;
    for (int i = d->n_nodes - 1; i >= 0; i--) {
        if (!e->want[i] || known[i]) continue;
        for (int a = 0; a < d->nodes[i].n_args; a++) e->want[d->nodes[i].arg[a]] = 1;
    }
    struct scalar_dag rootless = *d;
    rootless.root = -1;
    struct scalar_emit emit = {
        .target = TARGET_GLSL, .indent = indent, .leaf = leaf, .user = e, .skip = known, .want = e->want};
    scalar_emit(e->out, &rootless, &emit);
    for (int i = 0; i < d->n_nodes; i++) known[i] |= e->want[i];
}

// --- places ---

void glsl_add_indices(struct glsl_emitter *e, const char *indent, const char *from, int first, int end)
{
    char left[16];
    snprintf(left, sizeof left, "%s", from);
    for (int d = end - 1; d > first; d--) {
        const struct glsl_layout *l = &e->layout;
        str_addf(e->out, "%sINDEX q%d = divided(%s, %d, arg_index(%d)), i%d = %s - q%d * arg_index(%d);\n", indent, d,
                 left, l->divisor[d], l->size[d], d, left, d, l->size[d]);
        snprintf(left, sizeof left, "q%d", d);
    }
    if (end > first) str_addf(e->out, "%sINDEX i%d = %s;\n", indent, first, left);
}

void glsl_add_place(struct glsl_emitter *e, const char *indent, char name, char base, int access, int first, int end)
{
    const struct fused_access *a = fused_access_at(e->k, access);
    bool any = base != 0;
    str_addf(e->out, "%sOFFSET %c%d = ", indent, name, access);
    if (base) str_addf(e->out, "%c%d", base, access);
    for (int d = first; d < end; d++) {
        if (a->strides[d] == 0) continue;
        str_addf(e->out, "%sOFFSET(i%d)", any ? " + " : "", d);
        if (a->strides[d] != 1) str_addf(e->out, " * arg_offset(%d)", e->layout.stride[access][d]);
        any = true;
    }
    str_add(e->out, any ? ";\n" : "OFFSET(0);\n");
}

void glsl_add_store(struct glsl_emitter *e, const char *indent, char name, int output)
{
    const struct fused_output *o = &e->k->out[output];
    str_addf(e->out, "%sstore_%s(", indent, dtype_name(o->to.dtype));
    glsl_add_address(e, name, e->k->n_in + output);
    str_add(e->out, ", ");
    scalar_emit_ref(e->out, TARGET_GLSL, &e->k->dag, o->node);
    str_add(e->out, ");\n");
}

// --- the head ---

struct class_text {
    const char *type, *is_nan, *above, *to_bits, *from_bits, *exchanged;
};
static const struct class_text class_text[CLASS_COUNT] = {
    [CLASS_F32] = {"float", "((floatBitsToInt(a) & 0x7fffffff) > 0x7f800000)", "((a) > (b))",
                   "uvec2(floatBitsToUint(v), 0u)", "uintBitsToFloat((b).x)", "subgroupShuffleXor(v, d)"},
    [CLASS_F64] = {"double", "((doubleBitsToInt64(a) & 0x7fffffffffffffffL) > 0x7ff0000000000000L)", "((a) > (b))",
                   "unpackDouble2x32(v)", "packDouble2x32(b)",
                   "packDouble2x32(subgroupShuffleXor(unpackDouble2x32(v), d))"},
    [CLASS_I32] = {"int", "false", "((a) > (b))", "uvec2(uint(v), 0u)", "int((b).x)", "subgroupShuffleXor(v, d)"},
    [CLASS_I64] = {"int64_t", "false", "((a) > (b))", "unpackUint2x32(uint64_t(v))", "int64_t(packUint2x32(b))",
                   "int64_t(packUint2x32(subgroupShuffleXor(unpackUint2x32(uint64_t(v)), d)))"},
    [CLASS_BOOL] = {"bool", "false", "((a) && !(b))", "uvec2(uint(v), 0u)", "((b).x != 0u)",
                    "(subgroupShuffleXor(uint(v), d) != 0u)"},
};

static void include_values(struct glsl_emitter *e, enum scalar_class cls, bool found)
{
    const struct class_text *c = &class_text[cls];
    str_addf(e->out, "#define VALUE %s\n#define IS_NAN(a) %s\n#define ABOVE(a, b) %s\n", c->type, c->is_nan, c->above);
    str_addf(e->out, "#define TO_BITS(v) %s\n#define FROM_BITS(b) %s\n#define EXCHANGED(v, d) %s\n", c->to_bits,
             c->from_bits, c->exchanged);
    if (cls == CLASS_BOOL) str_add(e->out, "#define LOGICAL\n");
    if (found) str_addf(e->out, "#define FOUND found_%s\n", scalar_class_name(cls));
    str_add(e->out, "#include \"fused_value.glsl\"\n");
}

static void include_fold(struct glsl_emitter *e, int node)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    enum scalar_class cls = folded_class(e->k, node);
    str_add(e->out, "#define FOLD ");
    glsl_add_fold_name(e->out, e->k, node);
    str_add(e->out, "\n#define PARTIAL ");
    add_partial_type(e->out, e->k, node);
    str_addf(e->out, "\n#define COMBINE combine_%s\n#define NOTHING ", fold_name[fold_of(n)]);
    if (finds_place(n))
        str_addf(e->out, "found_%s(%s, INDEX(-1))", scalar_class_name(cls), glsl_fold_identity(fold_of(n), cls));
    else
        str_add(e->out, glsl_fold_identity(fold_of(n), cls));
    str_add(e->out, "\n#include \"fused_fold.glsl\"\n");
}

// Folds that the code makes; those over the one element of an empty R are none.
static bool is_made(const struct glsl_emitter *e, int node)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    return glsl_is_fold(n, true) || (glsl_is_fold(n, false) && e->form.kind != GLSL_POINTS);
}

// Functions for each class that is folded, then for each kind and class of fold.
static void include_folds(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    bool done[COUNT_OF(fold_name)][CLASS_COUNT] = {{false}};
    for (int cls = 0; cls < CLASS_COUNT; cls++) {
        bool any = false, found = false;
        for (int i = 0; i < k->dag.n_nodes; i++) {
            if (!is_made(e, i) || folded_class(k, i) != (enum scalar_class)cls) continue;
            any = true;
            found = found || finds_place(&k->dag.nodes[i]);
        }
        if (any) include_values(e, (enum scalar_class)cls, found);
    }
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!is_made(e, i)) continue;
        bool *d = &done[fold_of(&k->dag.nodes[i])][folded_class(k, i)];
        if (!*d) include_fold(e, i);
        *d = true;
    }
}

static void add_head(struct glsl_emitter *e, const struct codegen_plan *plan)
{
    const struct fused_kernel *k = e->k;
    const struct glsl_form *f = &e->form;
    bool folds = false, memory[DTYPE_COUNT] = {false};
    for (int i = 0; i < k->dag.n_nodes; i++) folds = folds || is_made(e, i);
    for (int i = 0; i < k->n_in + k->n_out; i++) memory[fused_access_at(k, i)->dtype] = true;
    str_addf(e->out, "#version 460\n// %s\n#define N_LOCAL %u\n", k->name, f->lanes * f->rows);
    if (plan->indirect) str_add(e->out, "#define INDIRECT\n");
    if (e->wide) str_add(e->out, "#define WIDE\n");
    for (unsigned i = 0; i < DTYPE_COUNT; i++)
        if (memory[i]) str_addf(e->out, "#define MEMORY_%s\n", dtype_name(i));
    if (e->layout.workspace >= 0) str_addf(e->out, "#define WORKSPACE\n#define AT_WORKSPACE %d\n", e->layout.workspace);
    if (folds) {
        str_addf(e->out, "#define LANES %uu\n#define LANE_STEP %uu\n#define SUBGROUP %u\n", f->lanes,
                 f->kind == GLSL_COLUMNS ? f->rows : 1, f->subgroup);
        if (f->subgroup > 1) str_add(e->out, "#define SHUFFLES\n");
    }
    str_add(e->out, "#include \"fused.glsl\"\n");
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (k->dag.nodes[i].kind != SCALAR_PRIM || k->dag.nodes[i].code != PRIM_umulhi) continue;
        str_add(e->out, "#include \"scalar.glsl\"\n");
        break;
    }
    if (folds) include_folds(e);
    str_add(e->out, "\nvoid main()\n{\n");
}

// --- values outside of loops ---

// All that is uniform; then the row values of a stage.
static void add_values(struct glsl_emitter *e, const char *indent, enum fused_level level, int stage)
{
    const struct fused_kernel *k = e->k;
    bool placed[FUSED_MAX_IN] = {false};
    memset(e->want, 0, (size_t)k->dag.n_nodes);
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        bool here = e->needed[i] && !e->known[i] && k->level[i] == level && k->stage[i] <= stage;
        e->want[i] = here && n->kind != SCALAR_CONST && n->kind != SCALAR_REDUCE;
        if (!e->want[i] || n->kind != SCALAR_LOAD || placed[n->code]) continue;
        // Several loads may go through one access; at the level of a row its place may be there from an earlier stage.
        placed[n->code] = true;
        str_addf(e->out, level == LEVEL_ROW ? "%sOFFSET o%d = b%d;\n" : "%sOFFSET o%d = OFFSET(0);\n", indent, n->code,
                 n->code);
    }
    glsl_emit_wanted(e, indent, e->known);
}

static void add_accumulators(struct glsl_emitter *e, const char *indent, bool across, int stage)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        if (!glsl_is_fold(&e->k->dag.nodes[i], across) || (!across && e->k->stage[i] != stage)) continue;
        str_add(e->out, indent);
        add_partial_type(e->out, e->k, i);
        str_addf(e->out, " acc%d = nothing_", i);
        glsl_add_fold_name(e->out, e->k, i);
        str_add(e->out, "();\n");
    }
}

static void add_across(struct glsl_emitter *e, const char *indent, const char *how, int node)
{
    str_addf(e->out, "%sacc%d = across_%s_", indent, node, how);
    glsl_add_fold_name(e->out, e->k, node);
    str_addf(e->out, "(acc%d);\n", node);
}

static void add_result(struct glsl_emitter *e, const char *indent, int node)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    str_addf(e->out, "%s%s t%d = ", indent, glsl_type(n->cls), node);
    if (finds_place(n))
        str_addf(e->out, "acc%d.place == INDEX(-1) ? -1l : int64_t(acc%d.place);\n", node, node);
    else
        str_addf(e->out, "acc%d;\n", node);
    e->known[node] = 1;
}

// --- what workgroups leave to each other ---

// Saves acc<node>, or combines what `n` parties saved into it, party `own` first and every `pace` parties.
static void add_save(struct glsl_emitter *e, const char *indent, int node, const char *slot)
{
    str_addf(e->out, "%ssave(partial_at(%s), acc%d);\n", indent, slot, node);
}

static void add_combine_saved(struct glsl_emitter *e, const char *indent, int node, const char *loop, const char *slot)
{
    str_addf(e->out, "%sacc%d = nothing_", indent, node);
    glsl_add_fold_name(e->out, e->k, node);
    str_addf(e->out, "();\n%s%s {\n%s    ", indent, loop, indent);
    add_partial_type(e->out, e->k, node);
    str_addf(e->out, " other;\n%s    restore(partial_at(%s), other);\n%s    acc%d = combine_%s(acc%d, other);\n%s}\n",
             indent, slot, indent, node, fold_name[fold_of(&e->k->dag.nodes[node])], node, indent);
}

static void add_join_splits(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    char slot[96];
    int number = 0;
    str_add(e->out, "        if (splits > 1u) {\n            if (exists && lane == 0u) {\n");
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!glsl_is_fold(&k->dag.nodes[i], false)) continue;
        snprintf(slot, sizeof slot, "(%du * uint(rows) + uint(row)) * splits + split", number++);
        add_save(e, "                ", i, slot);
    }
    str_add(e->out, "            }\n            if (!comes_last(uint(block), splits)) return;\n");
    number = 0;
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!glsl_is_fold(&k->dag.nodes[i], false)) continue;
        snprintf(slot, sizeof slot, "(%du * uint(rows) + uint(row)) * splits + s", number++);
        add_combine_saved(e, "            ", i, "for (uint s = lane; s < splits; s += LANES)", slot);
        add_across(e, "            ", "row", i);
    }
    str_add(e->out, "        }\n");
}

static void add_totals(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    int number = 0, n_folds = 0;
    char slot[96];
    for (int i = 0; i < k->dag.n_nodes; i++) n_folds += is_made(e, i) && glsl_is_fold(&k->dag.nodes[i], false);
    if (e->form.splits)
        str_addf(e->out,
                 "    uint parties = splits > 1u ? uint(blocks) : arg(%d), party = splits > 1u ? uint(block) : "
                 "group_index();\n    uint first = splits > 1u ? %du * uint(rows) * splits : 0u;\n",
                 e->layout.groups, n_folds);
    else
        str_addf(e->out, "    uint parties = arg(%d), party = group_index(), first = 0u;\n", e->layout.groups);
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (glsl_is_fold(&k->dag.nodes[i], true)) add_across(e, "    ", "all", i);
    str_add(e->out, "    if (parties > 1u) {\n        if (gl_LocalInvocationIndex == 0u) {\n");
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!glsl_is_fold(&k->dag.nodes[i], true)) continue;
        snprintf(slot, sizeof slot, "first + %du * parties + party", number++);
        add_save(e, "            ", i, slot);
    }
    str_addf(e->out, "        }\n        if (!comes_last(%du, parties)) return;\n", TOTAL_COUNTER);
    number = 0;
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!glsl_is_fold(&k->dag.nodes[i], true)) continue;
        snprintf(slot, sizeof slot, "first + %du * parties + s", number++);
        add_combine_saved(e, "        ", i, "for (uint s = gl_LocalInvocationIndex; s < parties; s += N_LOCAL)", slot);
        add_across(e, "        ", "all", i);
    }
    str_add(e->out, "    }\n    if (gl_LocalInvocationIndex != 0u) return;\n");
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (glsl_is_fold(&k->dag.nodes[i], true)) add_result(e, "    ", i);
    add_values(e, "    ", LEVEL_TOTAL, k->n_stages);
    for (int i = 0; i < k->n_out; i++) {
        if (k->level[k->out[i].node] != LEVEL_TOTAL) continue;
        str_addf(e->out, "    OFFSET o%d = OFFSET(0);\n", k->n_in + i);
        glsl_add_store(e, "    ", 'o', i);
    }
}

// --- pointwise ---

static void add_points(struct glsl_emitter *e)
{
    str_addf(e->out, "    uint lane = gl_LocalInvocationIndex;\n    INDEX end = arg_index(%d);\n", e->layout.points);
    add_values(e, "    ", LEVEL_UNIFORM, 0);
    if (e->k->has_total) {
        str_addf(e->out, "    if (group_index() >= arg(%d)) return;\n", e->layout.groups);
        add_accumulators(e, "    ", true, 0);
    }
    glsl_add_loop(e, "    ", glsl_store_loop(e->k));
    if (e->k->has_total) add_totals(e);
}

// --- rows ---

static void add_row_begin(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    const struct glsl_form *f = &e->form;
    const char *splits = f->splits ? " * splits" : "";
    if (k->has_total) {
        str_addf(e->out, "    for (INDEX job = INDEX(group_index()); job < blocks%s; job += INDEX(arg(%d))) {\n",
                 splits, e->layout.groups);
    } else {
        str_addf(e->out, "    INDEX job = INDEX(group_index());\n    if (job >= blocks%s) return;\n    {\n", splits);
    }
    if (f->splits)
        str_add(e->out, "        block = job / splits;\n        uint split = uint(job - block * splits);\n");
    else
        str_add(e->out, "        block = job;\n");
    str_addf(e->out,
             "        INDEX row = block * %uu + INDEX(gl_LocalInvocationIndex %s %uu);\n"
             "        bool exists = row < rows;\n"
             "        if (!exists) row = 0;   // takes part in barriers only\n",
             f->rows, f->kind == GLSL_ROWS ? "/" : "%", f->kind == GLSL_ROWS ? f->lanes : f->rows);
    if (f->splits)
        str_addf(e->out,
                 "        INDEX begin = INDEX(split) * arg_index(%d);\n"
                 "        INDEX end = exists ? min(begin + arg_index(%d), length) : 0;\n",
                 e->layout.part, e->layout.part);
    else
        str_addf(e->out, "        %sINDEX end = exists ? length : 0;\n",
                 f->keep ? "" : "const INDEX begin = 0;\n        ");
    glsl_add_indices(e, "        ", "row", 0, k->n_dims - k->n_reduce);
    for (int i = 0; i < k->n_in + k->n_out; i++) glsl_add_place(e, "        ", 'b', 0, i, 0, k->n_dims - k->n_reduce);
    for (int i = 0; f->keep && i < k->dag.n_nodes; i++)
        if (e->kept[i]) str_addf(e->out, "        %s k%d[%u];\n", glsl_type(k->dag.nodes[i].cls), i, f->keep);
}

static void add_stage(struct glsl_emitter *e, int stage)
{
    const struct fused_kernel *k = e->k;
    str_addf(e->out, "\n        // Stage %d.\n", stage);
    add_accumulators(e, "        ", false, stage);
    glsl_add_loop(e, "        ", stage);
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (glsl_is_fold(&k->dag.nodes[i], false) && k->stage[i] == stage) add_across(e, "        ", "row", i);
    if (e->form.splits) add_join_splits(e);
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (glsl_is_fold(&k->dag.nodes[i], false) && k->stage[i] == stage) add_result(e, "        ", i);
    add_values(e, "        ", LEVEL_ROW, stage);
}

static void add_row_end(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    str_add(e->out, "\n");
    glsl_add_loop(e, "        ", glsl_store_loop(k));
    str_add(e->out, "        if (exists && lane == 0u) {\n");
    for (int i = 0; i < k->n_out; i++) {
        bool by_row = k->level[k->out[i].node] != LEVEL_TOTAL && !glsl_stored_by_element(k, &k->out[i]);
        if (by_row) glsl_add_store(e, "            ", 'b', i);
    }
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (glsl_is_fold(&k->dag.nodes[i], true)) glsl_add_collect(e, "            ", i, "row");
    str_add(e->out, "        }\n    }\n");
}

static void add_rows(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    const struct glsl_form *f = &e->form;
    str_addf(e->out, "    uint lane = gl_LocalInvocationIndex %s %uu;\n", f->kind == GLSL_ROWS ? "%" : "/",
             f->kind == GLSL_ROWS ? f->lanes : f->rows);
    str_addf(e->out, "    INDEX rows = arg_index(%d), length = arg_index(%d);\n", e->layout.points, e->layout.length);
    str_addf(e->out, "    INDEX blocks = (rows + %uu) / %uu, block = 0;\n", f->rows - 1, f->rows);
    if (f->splits) str_addf(e->out, "    uint splits = arg(%d);\n", e->layout.splits);
    add_values(e, "    ", LEVEL_UNIFORM, 0);
    if (k->has_total) {
        str_addf(e->out, "    if (group_index() >= arg(%d)) return;\n", e->layout.groups);
        add_accumulators(e, "    ", true, 0);
    }
    add_row_begin(e);
    add_values(e, "        ", LEVEL_ROW, 0);
    for (int stage = 1; stage <= k->n_stages; stage++) add_stage(e, stage);
    add_row_end(e);
    if (k->has_total) add_totals(e);
}

// --- the whole ---

static void mark_needed(const struct fused_kernel *k, uint8_t *needed)
{
    for (int i = 0; i < k->n_out; i++) needed[k->out[i].node] = 1;
    for (int i = k->dag.n_nodes - 1; i >= 0; i--) {
        if (k->dag.nodes[i].kind == SCALAR_REDUCE) needed[i] = 1;
        for (int a = 0; needed[i] && a < k->dag.nodes[i].n_args; a++) needed[k->dag.nodes[i].arg[a]] = 1;
    }
}

kiln_status glsl_fused(const struct fused_kernel *k, const struct device_caps *caps, struct codegen_plan *plan,
                       struct str *text)
{
    size_t n = (size_t)k->dag.n_nodes;
    uint8_t *marks = calloc(n ? n : 1, 5);
    if (!marks) return error_set(KILN_E_MEMORY, "out of memory for kernel %s", k->name);
    struct glsl_emitter e = {.out = text,
                             .k = k,
                             .wide = fused_needs_wide_index(k),
                             .needed = marks,
                             .known = marks + n,
                             .local = marks + 2 * n,
                             .want = marks + 3 * n,
                             .kept = marks + 4 * n};
    int n_kept = 0;
    glsl_mark_kept(k, e.local, e.want, e.kept);
    for (size_t i = 0; i < n; i++) n_kept += e.kept[i] != 0;
    glsl_form_choose(k, caps, n_kept, &e.form);
    glsl_layout_make(k, &e.form, e.wide, &e.layout);
    *plan = (struct codegen_plan){.target = CODEGEN_GLSL,
                                  .n_access = (uint8_t)(k->n_in + k->n_out),
                                  .wide = e.wide,
                                  .indirect = (uint32_t)e.layout.n_words * 4 > caps->max_push_B};
    glsl_form_save(&e.form, plan);
    mark_needed(k, e.needed);
    add_head(&e, plan);
    for (int i = 0; i < k->n_in + k->n_out; i++) str_addf(text, "    uint64_t A%d = arg64(%d);\n", i, 2 * i);
    if (e.form.vector)
        str_addf(text, "    bool aligned = (arg(%d) & %uu) != 0u;\n", e.layout.flags, GLSL_FLAG_ALIGNED);
    if (e.form.kind == GLSL_POINTS)
        add_points(&e);
    else
        add_rows(&e);
    str_add(text, "}\n");
    free(marks);
    return str_check(text);
}
