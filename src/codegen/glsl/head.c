// What stands before main() in a fused kernel: what the templates have to know, and the functions of its folds.
#include "codegen/catalogue/kernel.h"
#include "codegen/glsl/emit.h"
#include "ir/type.h"

#include <string.h>

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
    enum scalar_class cls = glsl_folded_class(e->k, node);
    str_add(e->out, "#define FOLD ");
    glsl_add_fold_name(e->out, e->k, node);
    str_add(e->out, "\n#define PARTIAL ");
    glsl_add_partial_type(e->out, e->k, node);
    str_addf(e->out, "\n#define COMBINE combine_%s\n#define NOTHING ", reduce_info[reduce_of(n)].name);
    if (reduce_finds_place(n))
        str_addf(e->out, "found_%s(%s, INDEX(-1))", scalar_class_name(cls),
                 reduce_identity_text(reduce_of(n), cls, TARGET_GLSL));
    else
        str_add(e->out, reduce_identity_text(reduce_of(n), cls, TARGET_GLSL));
    str_add(e->out, "\n#include \"fused_fold.glsl\"\n");
}

bool glsl_is_made(const struct glsl_emitter *e, int node)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    return fused_is_fold(n, true) ||
           (fused_is_fold(n, false) && e->form.kind != GLSL_POINTS && !glsl_is_product(&e->form));
}

// Functions for each class that is folded, then for each kind and class of fold.
static void include_folds(struct glsl_emitter *e)
{
    const struct fused_kernel *k = e->k;
    bool done[REDUCE_COUNT][CLASS_COUNT] = {{false}};
    bool used[REDUCE_COUNT] = {false};
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!glsl_is_made(e, i)) continue;
        unsigned fold = reduce_of(&k->dag.nodes[i]);
        if (!used[fold]) str_addf(e->out, "#define FOLDS_%s\n", reduce_info[fold].name);
        used[fold] = true;
    }
    for (int cls = 0; cls < CLASS_COUNT; cls++) {
        bool any = false, found = false;
        for (int i = 0; i < k->dag.n_nodes; i++) {
            if (!glsl_is_made(e, i) || glsl_folded_class(k, i) != (enum scalar_class)cls) continue;
            any = true;
            found = found || reduce_finds_place(&k->dag.nodes[i]);
        }
        if (any) include_values(e, (enum scalar_class)cls, found);
    }
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!glsl_is_made(e, i)) continue;
        bool *d = &done[reduce_of(&k->dag.nodes[i])][glsl_folded_class(k, i)];
        if (!*d) include_fold(e, i);
        *d = true;
    }
}

// The prelude of the scalar language, where a primitive is spelled as a function of it.
static void include_prelude(struct glsl_emitter *e)
{
    const struct scalar_dag *d = &e->k->dag;
    bool any = false, doubles = false;
    for (int i = 0; i < d->n_nodes; i++) {
        const struct scalar_node *n = &d->nodes[i];
        if (n->kind != SCALAR_PRIM || !n->n_args) continue;
        enum scalar_class key = d->nodes[n->arg[prim_key_arg(n->code)]].cls;
        const char *text = prim_text(n->code, key, TARGET_GLSL, NULL);
        if (!text || !strstr(text, "scalar_")) continue;
        any = true;
        doubles = doubles || key == CLASS_F64;
    }
    if (doubles) str_add(e->out, "#define USES_F64\n");
    if (any) str_add(e->out, "#include \"scalar.glsl\"\n");
}

void glsl_add_head(struct glsl_emitter *e, const struct codegen_plan *plan)
{
    const struct fused_kernel *k = e->k;
    const struct glsl_form *f = &e->form;
    bool folds = false, memory[DTYPE_COUNT] = {false};
    for (int i = 0; i < k->dag.n_nodes; i++) folds = folds || glsl_is_made(e, i);
    for (int i = 0; i < k->n_in + k->n_out; i++) memory[fused_access_at(k, i)->dtype] = true;
    str_addf(e->out, "#version 460\n// %s\n#define N_LOCAL %u\n", k->name, f->lanes * f->rows);
    if (k->table) str_add(e->out, "#define TABLE\n");
    if (plan->indirect) str_add(e->out, "#define INDIRECT\n");
    if (e->wide) str_add(e->out, "#define WIDE\n");
    if (k->trips.on) str_add(e->out, "#define TRIPS\n");
    if (k->trips.together) str_add(e->out, "#define TOGETHER\n");
    for (unsigned i = 0; i < DTYPE_COUNT; i++)
        if (memory[i]) str_addf(e->out, "#define MEMORY_%s\n", dtype_name(i));
    bool of_bf16 = f->matrix && glsl_halves_of(k) == KILN_BF16;
    if (memory[KILN_F16] && f->halves && !of_bf16) str_add(e->out, "#define HALVES\n");
    if (e->layout.workspace >= 0 && !k->trips.together)
        str_addf(e->out, "#define WORKSPACE\n#define AT_WORKSPACE %d\n", e->layout.workspace);
    if (folds) {
        str_addf(e->out, "#define LANES %uu\n#define LANE_STEP %uu\n#define SUBGROUP %u\n", f->lanes,
                 f->kind == GLSL_COLUMNS ? f->rows : 1, f->subgroup);
        if (f->subgroup > 1) str_add(e->out, "#define SHUFFLES\n");
        if (f->kind != GLSL_POINTS) str_add(e->out, "#define ROWS_FOLD\n");
    }
    if (of_bf16) str_add(e->out, "#define MATRICES_BF16\n");
    if (f->matrix) str_add(e->out, "#define MATRICES\n#include \"matrix_units.glsl\"\n");
    str_add(e->out, "#include \"fused.glsl\"\n");
    if (f->matrix)
        str_addf(e->out, "layout(constant_id = 0) const uint MATRIX = %uu;\nconst uint SUBGROUP = %uu;\n", f->matrix,
                 f->subgroup);
    include_prelude(e);
    if (folds) include_folds(e);
}
