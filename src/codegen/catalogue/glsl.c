// Kernel IR to GLSL: the expression becomes statements, the frame around it comes from shaders/pointwise.glsl or
// shaders/row.glsl.
//
// Input: an analysed kernel. A pointwise kernel is a function point() of the inputs and a main() that calls it for each
// point, four at a time where the host allows. A row kernel is one main(): for each stage a loop over the row that
// computes the element values which the reductions of this stage need, from the inputs up, then the reductions
// themselves and the row values they make known; at the end the output. Element values are not kept from loop to loop.
// Invariant: `known` marks the nodes whose names are in scope at the level of main().
#include "codegen/catalogue/kernel.h"
#include "fuse/loops.h"
#include "scalar/reduce.h"
#include "scalar/prim.h"

#include <stdlib.h>
#include <string.h>

struct writer {
    struct str *out;
    const struct kernel *k;
    uint8_t *known, *want, *within; // n_nodes each
    bool packed;                    // pointwise, of bools alone: four of them are computed as a word
};

static const char *const vector[CLASS_COUNT] = {"vec4", "dvec4", "ivec4", "i64vec4", "bvec4"};

static const char *type_of(enum scalar_class cls)
{
    return scalar_class_type(TARGET_GLSL, cls);
}

static enum scalar_class partial_class(const struct kernel *k, const struct scalar_node *reduce)
{
    return k->dag.nodes[reduce->arg[0]].cls;
}

// The type of a reduction's partial values: of the values themselves, or a struct of value and place.
static void add_partial_type(struct writer *w, const struct scalar_node *reduce)
{
    enum scalar_class cls = partial_class(w->k, reduce);
    if (reduce_finds_place(reduce))
        str_addf(w->out, "found_%s", scalar_class_name(cls));
    else
        str_add(w->out, type_of(cls));
}

static void leaf(struct str *s, const struct scalar_dag *d, int node, void *user)
{
    const struct writer *w = user;
    const struct scalar_node *n = &d->nodes[node];
    if (n->kind == SCALAR_INPUT && n->code >= w->k->n_in) {
        str_addf(s, "arg_scalar_%s(%d)", scalar_class_name(n->cls), n->code - w->k->n_in);
    } else if (n->kind == SCALAR_INPUT && w->k->kind == KERNEL_POINTWISE) {
        str_addf(s, "x%d", n->code);
    } else if (n->kind == SCALAR_INPUT && w->k->row_in >> n->code & 1) {
        str_addf(s, "load_%s(%d, row_at[%d])", scalar_class_name(n->cls), n->code, n->code);
    } else if (n->kind == SCALAR_INPUT) {
        str_addf(s, "x%d[j >> 2][j & 3]", n->code);
    } else {
        str_addf(s, "%s(%s)", type_of(n->cls), n->code == PRIM_rindex ? "c" : "row_length");
    }
}

static void want_arguments(struct writer *w)
{
    const struct scalar_dag *d = &w->k->dag;
    for (int i = d->n_nodes - 1; i >= 0; i--) {
        if (!w->want[i] || w->known[i]) continue;
        for (int a = 0; a < d->nodes[i].n_args; a++) w->want[d->nodes[i].arg[a]] = 1;
    }
}

// Emits the wanted nodes that are not known yet, with all they stand on.
static void emit_wanted(struct writer *w, const char *indent)
{
    const struct scalar_dag *d = &w->k->dag;
    want_arguments(w);
    struct scalar_emit e = {
        .target = TARGET_GLSL, .indent = indent, .leaf = leaf, .user = w, .skip = w->known, .want = w->want};
    if (w->k->kind == KERNEL_POINTWISE) e.within = w->within;
    scalar_emit(w->out, d, &e);
}

static void want_none(struct writer *w)
{
    memset(w->want, 0, (size_t)w->k->dag.n_nodes);
}

static bool is_reduce(const struct writer *w, int node)
{
    return w->k->dag.nodes[node].kind == SCALAR_REDUCE;
}

// --- bools, four to a word

// In bytes of 0 and 1; NULL: not for bools.
static const char *packed_text(uint16_t prim)
{
    switch (prim) {
    case PRIM_and: return "a & b";
    case PRIM_or: return "a | b";
    case PRIM_ne:
    case PRIM_xor: return "a ^ b";
    case PRIM_eq: return "a ^ b ^ ONES";
    case PRIM_not: return "a ^ ONES";
    case PRIM_select: return "c ^ (a & (b ^ c))";
    default: return NULL;
    }
}

static bool can_pack(struct writer *w)
{
    const struct kernel *k = w->k;
    if (k->kind != KERNEL_POINTWISE || k->glsl) return false;
    want_none(w);
    w->want[k->dag.root] = 1;
    want_arguments(w);
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        bool known = n->kind == SCALAR_INPUT || (n->kind == SCALAR_PRIM && packed_text(n->code));
        if (w->want[i] && (n->cls != CLASS_BOOL || !known)) return false;
    }
    return true;
}

static void packed_leaf(struct str *s, const struct scalar_dag *d, int node, void *user)
{
    const struct writer *w = user;
    const struct scalar_node *n = &d->nodes[node];
    if (n->code >= w->k->n_in)
        str_addf(s, "uvec4(arg_scalar_bool(%d) ? ONES : 0u)", n->code - w->k->n_in);
    else
        str_addf(s, "x%d", n->code);
}

static void add_packed_function(struct writer *w)
{
    const struct kernel *k = w->k;
    str_add(w->out, "uvec4 packed(");
    for (int i = 0; i < k->n_in; i++) str_addf(w->out, "%sconst uvec4 x%d", i ? ", " : "", i);
    str_add(w->out, ")\n{\n");
    struct scalar_emit e = {
        .target = TARGET_GLSL, .indent = "    ", .leaf = packed_leaf, .user = w, .type = "uvec4", .text = packed_text};
    scalar_emit(w->out, &k->dag, &e);
    str_addf(w->out, "    return t%d;\n}\n\n", k->dag.root);
}

static void add_packed_workgroup(struct writer *w)
{
    const struct kernel *k = w->k;
    str_addf(w->out,
             "    if (VEC == 16 && (!TAIL || first + POINTS <= count)) {\n"
             "        locate(first + gl_LocalInvocationIndex * 16, at);\n"
             "        store_packed(arg_address(%d), at[%d], packed(",
             k->n_in, k->n_in);
    for (int i = 0; i < k->n_in; i++)
        str_addf(w->out, "%sload_packed(OPERAND_%d, arg_address(%d), at[%d])", i ? ", " : "", i, i, i);
    str_add(w->out, "));\n        return;\n    }\n");
}

// Version, what the kernel is, which classes it touches, and the argument block.
static void add_head(struct writer *w)
{
    static const char *const uses[CLASS_COUNT] = {"USES_F32", "USES_F64", "USES_I32", "USES_I64", "USES_BOOL"};
    const struct kernel *k = w->k;
    bool used[CLASS_COUNT] = {false};
    used[k->out_cls] = true;
    for (int i = 0; i < k->n_in; i++) used[k->in_cls[i]] = true;
    for (int i = 0; i < k->n_scalars; i++) used[k->scalar_cls[i]] = true;
    for (int i = 0; i < k->dag.n_nodes; i++) used[k->dag.nodes[i].cls] = true;

    str_addf(w->out, "#version 460\n// %s in class %s: a %s kernel of %d inputs\n", k->name, scalar_class_name(k->cls),
             k->kind == KERNEL_ROW ? "row" : "pointwise", k->n_in);
    str_addf(w->out, "#define N_OPERANDS %d\n#define N_SCALARS %d\n", k->n_in + 1, k->n_scalars);
    for (int c = 0; c < CLASS_COUNT; c++) {
        if (used[c]) str_addf(w->out, "#define %s\n", uses[c]);
    }
    if (w->packed) str_add(w->out, "#define PACKED\n");
    if (k->row_in) str_add(w->out, "#define ROW_INPUTS\n");
    str_addf(w->out, "#include \"args.glsl\"\n#include \"scalar.glsl\"\n#include \"%s.glsl\"\n\n",
             k->kind == KERNEL_ROW ? "row" : "pointwise");
}

// --- pointwise ---

static void add_point_function(struct writer *w)
{
    const struct kernel *k = w->k;
    str_addf(w->out, "%s point(", type_of(k->out_cls));
    for (int i = 0; i < k->n_in; i++) str_addf(w->out, "%sconst %s x%d", i ? ", " : "", type_of(k->in_cls[i]), i);
    str_add(w->out, ")\n{\n");
    if (k->glsl) {
        for (int i = 0; i < k->n_in; i++)
            str_addf(w->out, "    %s %c = x%d;\n", type_of(k->in_cls[i]), k->n_in == 1 ? 'x' : 'a' + i, i);
        str_addf(w->out, "    return %s(%s);\n}\n\n", type_of(k->out_cls), k->glsl);
        return;
    }
    want_none(w);
    w->want[k->dag.root] = 1;
    emit_wanted(w, "    ");
    str_add(w->out, "    return ");
    scalar_emit_ref(w->out, TARGET_GLSL, &k->dag, k->dag.root);
    str_add(w->out, ";\n}\n\n");
}

// "point(x0[q].y, x1[q].y)"
static void add_call(struct writer *w, char component)
{
    str_add(w->out, "point(");
    for (int i = 0; i < w->k->n_in; i++) str_addf(w->out, "%sx%d[q].%c", i ? ", " : "", i, component);
    str_add(w->out, ")");
}

// All points of a workgroup by fours: what is read is under way before anything is written.
static void add_whole_workgroup(struct writer *w)
{
    const struct kernel *k = w->k;
    for (int i = 0; i < k->n_in; i++) str_addf(w->out, "        %s x%d[FOURS];\n", vector[k->in_cls[i]], i);
    str_add(w->out, "        int64_t to[FOURS];\n"
                    "        [[unroll]] for (uint q = 0; q < FOURS; q++) {\n"
                    "            if (begins_access(q)) locate(first + point_of_four(q), at);\n");
    for (int i = 0; i < k->n_in; i++)
        str_addf(w->out, "            x%d[q] = LOAD_FOUR_OF(%s, %d, !begins_access(q), at[%d]);\n", i,
                 scalar_class_name(k->in_cls[i]), i, i);
    str_addf(w->out,
             "            to[q] = at[%d];\n        }\n        [[unroll]] for (uint q = 0; q < FOURS; q++)\n"
             "            STORE_FOUR_OF(%s, %d, !begins_access(q), to[q], %s(",
             k->n_in, scalar_class_name(k->out_cls), k->n_in, vector[k->out_cls]);
    for (int c = 0; c < 4; c++) {
        if (c) str_add(w->out, ", ");
        add_call(w, "xyzw"[c]);
    }
    str_add(w->out, "));\n        return;\n");
}

static void add_pointwise_main(struct writer *w)
{
    const struct kernel *k = w->k;
    str_add(w->out, "void main()\n{\n"
                    "    uint first = group_index() * POINTS, count = point_count();\n"
                    "    int64_t at[N_OPERANDS];\n");
    if (w->packed) add_packed_workgroup(w);
    str_add(w->out, "    if ((VEC == 4 || VEC == 8) && (!TAIL || first + POINTS <= count)) {\n");
    add_whole_workgroup(w);
    str_add(w->out, "    }\n"
                    "    uint p = first + gl_LocalInvocationIndex, end = min(first + POINTS, count);\n"
                    "    if (p >= end) return;\n"
                    "    do {\n"
                    "        locate(p, at);\n");
    str_addf(w->out, "        store_%s(%d, at[%d], point(", scalar_class_name(k->out_cls), k->n_in, k->n_in);
    for (int i = 0; i < k->n_in; i++)
        str_addf(w->out, "%sload_%s(%d, at[%d])", i ? ", " : "", scalar_class_name(k->in_cls[i]), i, i);
    str_add(w->out, "));\n"
                    "        p += gl_WorkGroupSize.x;\n"
                    "    } while (VEC != 1 && p < end);\n}\n");
}

// --- row ---

// One inclusion of reduction.glsl for each kind and class of reduction that occurs.
static void add_reduction_functions(struct writer *w)
{
    const struct scalar_dag *d = &w->k->dag;
    bool done[REDUCE_COUNT][CLASS_COUNT] = {{false}};
    for (int i = 0; i < d->n_nodes; i++) {
        const struct scalar_node *n = &d->nodes[i];
        if (!is_reduce(w, i)) continue;
        enum scalar_class cls = partial_class(w->k, n);
        if (done[n->code][cls]) continue;
        done[n->code][cls] = true;
        str_addf(w->out, "#define REDUCTION %s_%s\n#define PARTIAL ", reduce_info[n->code].name,
                 scalar_class_name(cls));
        add_partial_type(w, n);
        str_addf(w->out, "\n#define COMBINE combine_%s\n#define IDENTITY ", reduce_info[n->code].name);
        if (reduce_finds_place(n))
            str_addf(w->out, "found_%s(%s, NOWHERE)", scalar_class_name(cls),
                     reduce_identity_text(n->code, cls, TARGET_GLSL));
        else
            str_add(w->out, reduce_identity_text(n->code, cls, TARGET_GLSL));
        str_add(w->out, "\n#include \"reduction.glsl\"\n\n");
    }
}

// For each needed reduction of a stage: `prefix` `type` name `suffix`, as the formats say. %R and the like would hide
// more than help: the few shapes of line are written out.
enum line { LINE_TOTAL, LINE_BLOCK, LINE_COLLECT, LINE_MERGE, LINE_RESUME, LINE_ACROSS, LINE_SAVE, LINE_RESULT };

static void add_line(struct writer *w, int node, int slot, enum line line)
{
    const struct scalar_node *n = &w->k->dag.nodes[node];
    const char *op = reduce_info[n->code].name, *cls = scalar_class_name(partial_class(w->k, n));
    struct str *s = w->out;
    switch (line) {
    case LINE_TOTAL:
        str_add(s, "    ");
        add_partial_type(w, n);
        str_addf(s, " total%d = identity_%s_%s();\n", node, op, cls);
        break;
    case LINE_BLOCK:
        str_add(s, "            ");
        add_partial_type(w, n);
        str_addf(s, " block%d = identity_%s_%s();\n", node, op, cls);
        break;
    case LINE_COLLECT:
        str_addf(s, "                    block%d = combine_%s(block%d, ", node, op, node);
        if (reduce_finds_place(n)) str_addf(s, "found_%s(", cls);
        scalar_emit_ref(s, TARGET_GLSL, &w->k->dag, n->arg[0]);
        str_add(s, reduce_finds_place(n) ? ", c));\n" : ");\n");
        break;
    case LINE_MERGE: str_addf(s, "            total%d = combine_%s(total%d, block%d);\n", node, op, node, node); break;
    case LINE_RESUME: str_addf(s, "        total%d = resume_%s_%s(%d);\n", node, op, cls, slot); break;
    case LINE_ACROSS: str_addf(s, "    total%d = across_%s_%s(total%d);\n", node, op, cls, node); break;
    case LINE_SAVE:
        str_addf(s, "        if (lane == 0 && row_exists()) scratch_save(scratch_slot(%d, split), total%d);\n", slot,
                 node);
        break;
    case LINE_RESULT:
        str_addf(s, reduce_finds_place(n) ? "    %s t%d = %s(total%d.index);\n" : "    %s t%d = %s(total%d);\n",
                 type_of(n->cls), node, type_of(n->cls), node);
        break;
    }
}

static void add_lines(struct writer *w, int stage, enum line line)
{
    int slot = 0;
    for (int i = 0; i < w->k->dag.n_nodes; i++) {
        if (!is_reduce(w, i)) continue;
        if (w->k->stage[i] == stage) add_line(w, i, slot, line);
        slot++;
    }
}

// The row values that are known after `stage` reductions.
static void add_row_values(struct writer *w, int stage)
{
    const struct scalar_dag *d = &w->k->dag;
    want_none(w);
    for (int i = 0; i < d->n_nodes; i++) {
        bool here = w->k->is_row[i] && w->k->stage[i] == stage;
        w->want[i] = here && d->nodes[i].kind != SCALAR_CONST && d->nodes[i].kind != SCALAR_REDUCE;
    }
    emit_wanted(w, "    ");
    for (int i = 0; i < d->n_nodes; i++) w->known[i] |= w->want[i];
}

// A lane's next elements: EACH neighbours, in fours; then the body for one of them.
static void begin_elements(struct writer *w, const char *indent)
{
    const struct scalar_dag *d = &w->k->dag;
    want_arguments(w);
    str_addf(w->out, "%slocate_column(c0, row_at, at);\n", indent);
    for (int i = 0; i < d->n_nodes; i++) {
        const struct scalar_node *n = &d->nodes[i];
        if (n->kind != SCALAR_INPUT || n->code >= w->k->n_in || !w->want[i] || w->known[i]) continue;
        const char *cls = scalar_class_name(n->cls);
        str_addf(w->out, "%s%s x%d[2];\n", indent, vector[n->cls], n->code);
        str_addf(w->out, "%sif (EACH == 1) x%d[0].x = load_%s(%d, at[%d]);\n", indent, n->code, cls, n->code, n->code);
        str_addf(w->out, "%selse x%d[0] = LOAD_FOUR_OF(%s, %d, false, at[%d]);\n", indent, n->code, cls, n->code,
                 n->code);
        str_addf(w->out, "%sif (EACH == 8) x%d[1] = LOAD_FOUR_OF(%s, %d, true, at[%d]);\n", indent, n->code, cls,
                 n->code, n->code);
    }
    str_addf(w->out, "%s[[unroll]] for (uint j = 0; j < EACH; j++) {\n%s    uint c = c0 + j;\n", indent, indent);
}

static void add_stage(struct writer *w, int stage)
{
    const struct scalar_dag *d = &w->k->dag;
    str_addf(w->out, "\n    // Stage %d.\n", stage);
    add_lines(w, stage, LINE_TOTAL);
    str_addf(w->out, "    if (PHASE == 0 || PHASE == %d) {\n", stage);
    str_add(w->out, "        for (uint first = first_column; first < end_column; first += BLOCK * LANES) {\n");
    add_lines(w, stage, LINE_BLOCK);
    str_add(w->out, "            uint stop = min(first + BLOCK * LANES, end_column);\n"
                    "            for (uint c0 = first + lane * EACH; c0 < stop; c0 += LANES * EACH) {\n");
    fused_pass_mark(w->k->loops, stage - 1, w->want);
    begin_elements(w, "                ");
    emit_wanted(w, "                    ");
    add_lines(w, stage, LINE_COLLECT);
    str_add(w->out, "                }\n            }\n");
    add_lines(w, stage, LINE_MERGE);
    str_add(w->out, "        }\n    } else {\n");
    add_lines(w, stage, LINE_RESUME);
    str_add(w->out, "    }\n");
    add_lines(w, stage, LINE_ACROSS);
    str_addf(w->out, "    if (PHASE == %d) {\n", stage);
    add_lines(w, stage, LINE_SAVE);
    str_add(w->out, "        return;\n    }\n");
    add_lines(w, stage, LINE_RESULT);
    for (int i = 0; i < d->n_nodes; i++) w->known[i] |= is_reduce(w, i) && w->k->stage[i] == stage;
    add_row_values(w, stage);
}

static void add_row_output(struct writer *w)
{
    const struct kernel *k = w->k;
    const char *cls = scalar_class_name(k->out_cls);
    str_add(w->out, "\n    // The output.\n");
    if (k->row_out) {
        str_addf(w->out, "    if (lane == 0 && split == 0 && row_exists()) store_%s(%d, row_at[%d], ", cls, k->n_in,
                 k->n_in);
        scalar_emit_ref(w->out, TARGET_GLSL, &k->dag, k->dag.root);
        str_add(w->out, ");\n}\n");
        return;
    }
    str_addf(w->out,
             "    for (uint c0 = first_column + lane * EACH; c0 < end_column; c0 += LANES * EACH) {\n"
             "        %s y[2];\n",
             vector[k->out_cls]);
    fused_pass_mark(k->loops, k->n_stages, w->want);
    begin_elements(w, "        ");
    emit_wanted(w, "            ");
    str_add(w->out, "            y[j >> 2][j & 3] = ");
    scalar_emit_ref(w->out, TARGET_GLSL, &k->dag, k->dag.root);
    str_addf(w->out,
             ";\n        }\n        if (EACH == 1) store_%s(%d, at[%d], y[0].x);\n"
             "        else STORE_FOUR_OF(%s, %d, false, at[%d], y[0]);\n"
             "        if (EACH == 8) STORE_FOUR_OF(%s, %d, true, at[%d], y[1]);\n    }\n}\n",
             cls, k->n_in, k->n_in, cls, k->n_in, k->n_in, cls, k->n_in, k->n_in);
}

static void add_row_main(struct writer *w)
{
    add_reduction_functions(w);
    str_add(w->out, "void main()\n{\n"
                    "    row_begin();\n"
                    "    int64_t row_at[N_OPERANDS], at[N_OPERANDS];\n"
                    "    locate_row(row_at);\n");
    add_row_values(w, 0);
    for (int stage = 1; stage <= w->k->n_stages; stage++) add_stage(w, stage);
    add_row_output(w);
}

static kiln_status write_kernel(struct str *out, const struct kernel *k)
{
    size_t n = (size_t)k->dag.n_nodes;
    uint8_t *marks = calloc(n, 3);
    if (!marks) return error_set(KILN_E_MEMORY, "out of memory for kernel %s", k->name);
    struct writer w = {.out = out, .k = k, .known = marks, .want = marks + n, .within = marks + 2 * n};
    w.packed = can_pack(&w);
    add_head(&w);
    if (k->kind == KERNEL_ROW) {
        add_row_main(&w);
    } else {
        add_point_function(&w);
        if (w.packed) add_packed_function(&w);
        add_pointwise_main(&w);
    }
    free(marks);
    return str_check(out);
}

kiln_status glsl_kernel(struct str *out, const struct kernel *k)
{
    if (!k->row_in) return write_kernel(out, k);
    struct arena a;
    struct kernel by_rows;
    arena_init(&a);
    kiln_status status = kernel_by_rows(&a, k, &by_rows);
    if (!status) status = write_kernel(out, &by_rows);
    arena_finish(&a);
    return status;
}
