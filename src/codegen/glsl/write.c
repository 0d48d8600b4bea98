// The pieces that the text of a fused kernel is made of: folds, values, places, loads and stores.
#include "codegen/glsl/emit.h"
#include "ir/type.h"

#include <stdio.h>
#include <string.h>

enum scalar_class glsl_folded_class(const struct fused_kernel *k, int node)
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
    str_addf(s, "%s_%s", reduce_info[reduce_of(&k->dag.nodes[node])].name,
             scalar_class_name(glsl_folded_class(k, node)));
}

void glsl_add_partial_type(struct str *s, const struct fused_kernel *k, int node)
{
    if (reduce_finds_place(&k->dag.nodes[node]))
        str_addf(s, "found_%s", scalar_class_name(glsl_folded_class(k, node)));
    else
        str_add(s, glsl_type(glsl_folded_class(k, node)));
}

void glsl_add_accumulator(struct glsl_emitter *e, const char *indent, const char *name, int node)
{
    str_add(e->out, indent);
    glsl_add_partial_type(e->out, e->k, node);
    str_addf(e->out, " %s%d = nothing_", name, node);
    glsl_add_fold_name(e->out, e->k, node);
    str_add(e->out, "();\n");
}

void glsl_add_merge(struct glsl_emitter *e, const char *indent, int node)
{
    const char *fold = reduce_info[reduce_of(&e->k->dag.nodes[node])].name;
    str_addf(e->out, "%sacc%d = combine_%s(acc%d, part%d);\n", indent, node, fold, node, node);
}

void glsl_add_collect(struct glsl_emitter *e, const char *indent, const char *into, int node, const char *place)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    str_addf(e->out, "%s%s%d = combine_%s(%s%d, ", indent, into, node, reduce_info[reduce_of(n)].name, into, node);
    if (reduce_finds_place(n)) str_addf(e->out, "found_%s(", scalar_class_name(glsl_folded_class(e->k, node)));
    scalar_emit_ref(e->out, TARGET_GLSL, &e->k->dag, n->arg[0]);
    if (reduce_finds_place(n)) str_addf(e->out, ", %s)", place);
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
    const struct fused_access *a = fused_access_at(e->k, access);
    const char *form = e->wide                    ? "A%d + uint64_t(%c%d * %ul)"
                       : fused_goes_back(e->k, a) ? "A%d + uint64_t(int64_t(int(%c%d * %uu)))"
                                                  : "A%d + uint64_t(%c%d * %uu)";
    str_addf(e->out, form, access, name, access, (unsigned)dtype_size_B[a->dtype]);
}

static void add_load(struct glsl_emitter *e, int node)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    static const char *const zero[CLASS_COUNT] = {"0.0", "0.0lf", "0", "0l", "false"};
    struct str *s = e->out;
    uint8_t dtype = e->k->in[n->code].dtype;
    if (n->n_args > 1) {
        scalar_emit_ref(s, TARGET_GLSL, &e->k->dag, n->arg[1]);
        str_add(s, " ? ");
    }
    if (glsl_is_carried_row(e, node)) str_addf(s, "trip > 0u ? c%d : ", e->k->trips.carried[n->code] - 1);
    str_addf(s, "load_%s(", dtype_name(dtype));
    if (n->n_args == 0) {
        glsl_add_address(e, 'o', n->code);
    } else {
        bool back = !e->wide && fused_goes_back(e->k, &e->k->in[n->code]);
        str_addf(s, back ? "A%d + uint64_t((int64_t(int(o%d)) + " : "A%d + uint64_t((int64_t(o%d) + ", n->code,
                 n->code);
        scalar_emit_ref(s, TARGET_GLSL, &e->k->dag, n->arg[0]);
        str_addf(s, ") * %ul)", dtype_size_B[dtype]);
    }
    str_add(s, ")");
    if (n->n_args > 1) str_addf(s, " : %s", zero[n->cls]);
}

static void add_number(struct str *s, enum scalar_class cls)
{
    if (cls == CLASS_BOOL)
        str_add(s, "number != 0l");
    else
        str_addf(s, "%s(number)", glsl_type(cls));
}

static void leaf(struct str *s, const struct scalar_dag *d, int node, void *user)
{
    struct glsl_emitter *e = user;
    const struct scalar_node *n = &d->nodes[node];
    switch (n->kind) {
    case SCALAR_INPUT:
        if (fused_is_number(e->k, node))
            add_number(s, n->cls);
        else
            add_scalar(s, n->cls, e->layout.scalar[n->code]);
        break;
    case SCALAR_DIM: str_addf(s, "int64_t(i%d)", n->code); break;
    case SCALAR_SIZE: str_addf(s, "int64_t(arg_index(%d))", e->layout.size[n->code]); break;
    case SCALAR_LOAD: add_load(e, node); break;
    case SCALAR_REDUCE: // over the one element of an empty R
        if (reduce_finds_place(n))
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
    struct scalar_emit emit = {.target = TARGET_GLSL,
                               .indent = indent,
                               .leaf = leaf,
                               .user = e,
                               .skip = known,
                               .want = e->want,
                               .within = e->within,
                               .read = e->read};
    scalar_emit(e->out, &rootless, &emit);
    for (int i = 0; i < d->n_nodes; i++) known[i] |= e->want[i] && !e->within[i];
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
    if (!base && first == 0 && end == e->k->n_dims && end > 1 && fused_is_linear(e->k, a)) {
        str_add(e->out, "OFFSET(r);\n");
        return;
    }
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
