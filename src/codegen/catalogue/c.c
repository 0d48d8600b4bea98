// Kernels as C: the inner loops that the drivers of src/cpu/kernels call for blocks of contiguous elements.
//
// A pointwise kernel is one loop (c_point.c). A row kernel has two forms with the same passes (see c_plan.c): the row
// form folds the elements of one row, the column form folds one position of many adjacent rows at once. All loops are
// written so that the compiler vectorises them: `omp simd` says that different elements do not meet, which also holds
// when the output is an input; NaN is found beside a maximum, not inside it; argmax looks for the place only in blocks
// that raise the maximum.
#include "codegen/catalogue/c_writer.h"
#include "scalar/reduce.h"
#include "scalar/prim.h"
#include <stdio.h>
#include <string.h>

const char *const c_element_type[CLASS_COUNT] = {"float", "double", "int32_t", "int64_t", "uint8_t"};
// What a reduction variable is: unsigned where integers wrap.
static const char *const sum_type[CLASS_COUNT] = {"float", "double", "uint32_t", "uint64_t", "int32_t"};
static const char *const max_type[CLASS_COUNT] = {"float", "double", "int32_t", "int64_t", "int32_t"};
static const char *const member[CLASS_COUNT] = {"f32", "f64", "i32", "i64", "b"};
static bool is_float(enum scalar_class cls)
{
    return cls == CLASS_F32 || cls == CLASS_F64;
}

static const struct scalar_node *reduce_arg(const struct c_writer *w, int r)
{
    const struct scalar_node *nodes = w->k->dag.nodes;
    return &nodes[nodes[w->plan.reduce_node[r]].arg[0]];
}

static unsigned reduce_code(const struct c_writer *w, int r)
{
    return w->k->dag.nodes[w->plan.reduce_node[r]].code;
}

static void function_name(struct str *out, const struct kernel *k, enum c_form form)
{
    static const char *const suffix[] = {"", "_row", "_col"};
    str_addf(out, "CPU_FN(kernel_%s_%s%s)", k->name, scalar_class_name(k->cls), suffix[form]);
}

static bool is_second_point(const struct c_writer *w)
{
    return w->form == C_FORM_POINTWISE && w->second;
}

// Inputs, scalars, position, length and finished reductions, as scalar_emit asks for them.
static void leaf(struct str *s, const struct scalar_dag *d, int node, void *user)
{
    const struct c_writer *w = user;
    const struct scalar_node *n = &d->nodes[node];
    if (n->kind == SCALAR_INPUT && n->code < w->k->n_in) {
        str_addf(s, is_second_point(w) ? "x%d[i + half]" : "x%d[i]", n->code);
    } else if (n->kind == SCALAR_INPUT) {
        str_addf(s, "cpu_scalar_%s(scalars[%d])", member[n->cls], n->code - w->k->n_in);
    } else if (n->kind == SCALAR_REDUCE) {
        int r = c_plan_reduce(&w->plan, node);
        if (w->form == C_FORM_COL)
            str_addf(s, reduce_info[n->code].finds_place ? "i%d[i]" : "a%d[i]", r);
        else if (reduce_info[n->code].finds_place)
            str_addf(s, "b->acc[%d].index", r);
        else if (reduce_arg(w, r)->cls == CLASS_F32 && (n->code == REDUCE_SUM || n->code == REDUCE_PROD))
            str_addf(s, "(float)b->acc[%d].v.f64", r);
        else
            str_addf(s, "b->acc[%d].v.%s", r, member[n->cls]);
    } else if (n->code == PRIM_rcount) {
        str_add(s, "count");
    } else {
        str_add(s, w->form != C_FORM_COL ? "first + i" : w->second ? "first + j + 1" : "first + j");
    }
}

static void emit(struct c_writer *w, const char *indent)
{
    struct scalar_emit e = {.target = TARGET_C,
                            .indent = indent,
                            .leaf = leaf,
                            .user = w,
                            .skip = w->skip,
                            .want = w->want,
                            .usual = w->usual,
                            .name = is_second_point(w) ? 'u' : 't'};
    scalar_emit(w->out, &w->k->dag, &e);
}

void c_emit_row(struct c_writer *w, bool uniform, const char *indent)
{
    for (int i = 0; i < w->k->dag.n_nodes; i++) {
        bool same = w->k->stage[i] == 0;
        w->want[i] = w->plan.row[i] && w->k->dag.nodes[i].kind != SCALAR_CONST && same == uniform;
        w->skip[i] = 0;
    }
    emit(w, indent);
}

void c_emit_elements(struct c_writer *w, const char *indent)
{
    for (int i = 0; i < w->k->dag.n_nodes; i++) {
        if (w->plan.kept[i])
            str_addf(w->out, "%sconst %s t%d = k%d[i];\n", indent, scalar_class_type(TARGET_C, w->k->dag.nodes[i].cls),
                     i, c_plan_keep(&w->plan, i));
        w->want[i] = w->plan.element[i] && w->k->dag.nodes[i].kind != SCALAR_CONST;
        w->skip[i] = 0;
    }
    emit(w, indent);
}

void c_emit_two(struct c_writer *w, const char *indent)
{
    const struct scalar_dag *d = &w->k->dag;
    for (int i = 0; i < d->n_nodes; i++) w->skip[i] = !w->plan.element[i];
    for (int i = 0; i < d->n_nodes; i++) {
        if (!w->plan.element[i] || d->nodes[i].kind == SCALAR_CONST) continue;
        memset(w->want, 0, (size_t)d->n_nodes);
        w->want[i] = 1;
        for (int second = 0; second < 2; second++) {
            w->second = second;
            emit(w, indent);
        }
    }
    w->second = false;
}

void c_emit_ref(struct c_writer *w, int node)
{
    scalar_emit_ref(w->out, TARGET_C, &w->k->dag, node);
}

bool c_reads_input(const struct c_writer *w, int input)
{
    for (int n = 0; n < w->k->dag.n_nodes; n++) {
        const struct scalar_node *node = &w->k->dag.nodes[n];
        if (w->plan.element[n] && node->kind == SCALAR_INPUT && node->code == input) return true;
    }
    return false;
}

void c_declare_inputs(struct c_writer *w, const char *indent)
{
    const struct kernel *k = w->k;
    for (int i = 0; i < k->n_in; i++) {
        if (!c_reads_input(w, i)) continue;
        const char *type = c_element_type[k->in_cls[i]];
        if (w->form == C_FORM_POINTWISE)
            str_addf(w->out, "%sconst %s *x%d = in[%d];\n", indent, type, i, i);
        else if (w->form == C_FORM_ROW)
            str_addf(w->out, "%sconst %s *x%d = b->in[%d];\n", indent, type, i, i);
        else
            str_addf(w->out, "%sconst %s *x%d = (const %s *)b->in[%d] + j * b->in_ld[%d];\n", indent, type, i, type, i,
                     i);
    }
}

// Pointers to what the pass keeps or reads back.
static void declare_keeps(struct c_writer *w, int pass, const char *indent)
{
    for (int i = 0; i < w->plan.n_keep; i++) {
        int node = w->plan.keep_node[i];
        bool writes = w->plan.keep_pass[i] == pass;
        if (!writes && !w->plan.kept[node]) continue;
        const char *type = c_element_type[w->k->dag.nodes[node].cls];
        if (w->form == C_FORM_ROW)
            str_addf(w->out, "%s%s *k%d = b->keep[%d];\n", indent, type, i, i);
        else
            str_addf(w->out, "%s%s *k%d = (%s *)b->keep[%d] + j * b->keep_ld;\n", indent, type, i, type, i);
    }
}

static void store_keeps(struct c_writer *w, int pass, const char *indent)
{
    for (int i = 0; i < w->plan.n_keep; i++)
        if (w->plan.keep_pass[i] == pass) str_addf(w->out, "%sk%d[i] = t%d;\n", indent, i, w->plan.keep_node[i]);
}

static bool in_pass(const struct c_writer *w, int r, int pass)
{
    return w->k->stage[w->plan.reduce_node[r]] == pass + 1;
}

// --- Row form ---

static void row_variables(struct c_writer *w, int pass, int r)
{
    unsigned code = reduce_code(w, r);
    enum scalar_class cls = reduce_arg(w, r)->cls;
    if (!in_pass(w, r, pass)) return;
    str_addf(w->out, "        %s r%d = %s;\n", reduce_info[code].best ? max_type[cls] : sum_type[cls], r,
             reduce_identity_text(code, cls, TARGET_C));
    if (reduce_info[code].best && is_float(cls)) str_addf(w->out, "        int32_t nan%d = 0;\n", r);
}

// What joins two partial results, where it is an operator; NULL: it takes the better of them.
static const char *fold_operator(unsigned code)
{
    static const char *const op[] = {
        [REDUCE_SUM] = "+", [REDUCE_PROD] = "*", [REDUCE_ANY] = "|", [REDUCE_ALL] = "&", [REDUCE_COUNT] = NULL};
    return op[code];
}

static const char *simd_reduction(unsigned code, bool floats)
{
    bool most = reduce_info[code].best > 0;
    if (!reduce_info[code].best) return fold_operator(code);
    return floats ? (most ? "CPU_MOST" : "CPU_LEAST") : most ? "max" : "min";
}

static void row_pragma(struct c_writer *w, int pass)
{
    str_add(w->out, "#pragma omp simd");
    for (int r = 0; r < w->plan.n_reduce; r++) {
        if (!in_pass(w, r, pass)) continue;
        bool floats = is_float(reduce_arg(w, r)->cls);
        str_addf(w->out, " reduction(%s : r%d)", simd_reduction(reduce_code(w, r), floats), r);
        if (reduce_info[reduce_code(w, r)].best && is_float(reduce_arg(w, r)->cls))
            str_addf(w->out, " reduction(| : nan%d)", r);
    }
    str_add(w->out, "\n");
}

static void row_fold(struct c_writer *w, int r, const char *indent)
{
    unsigned code = reduce_code(w, r);
    enum scalar_class cls = reduce_arg(w, r)->cls;
    int arg = w->k->dag.nodes[w->plan.reduce_node[r]].arg[0];
    const char *op = fold_operator(code);
    if (op) {
        bool wraps = cls == CLASS_I32 || cls == CLASS_I64;
        str_addf(w->out, "%sr%d %s= %s", indent, r, op, wraps ? (cls == CLASS_I32 ? "(uint32_t)" : "(uint64_t)") : "");
        c_emit_ref(w, arg);
        str_add(w->out, ";\n");
        return;
    }
    str_addf(w->out, "%sr%d = ", indent, r);
    c_emit_ref(w, arg);
    str_addf(w->out, " %s r%d ? ", reduce_info[code].best < 0 ? "<" : ">", r);
    c_emit_ref(w, arg);
    str_addf(w->out, " : r%d;\n", r);
    if (!is_float(cls)) return;
    str_addf(w->out, "%snan%d |= ", indent, r);
    c_emit_ref(w, arg);
    str_add(w->out, " != ");
    c_emit_ref(w, arg);
    str_add(w->out, ";\n");
}

// The place of the block's winner, of so many elements at a time that it is soon found: its first NaN if it has one,
// else the first r<k>.
static void find_place(struct c_writer *w, int r)
{
    enum scalar_class cls = reduce_arg(w, r)->cls;
    int arg = w->k->dag.nodes[w->plan.reduce_node[r]].arg[0];
    if (is_float(cls))
        str_addf(w->out, "            if (nan%d) r%d = (%s)__builtin_nan(\"\");\n", r, r, c_element_type[cls]);
    str_add(w->out, "            for (int64_t at = 0; at < n; at += 512) {\n"
                    "                const int32_t part = (int32_t)(n - at < 512 ? n - at : 512);\n"
                    "                int32_t place = part;\n"
                    "#pragma omp simd reduction(min : place)\n"
                    "                for (int32_t k = 0; k < part; k++) {\n"
                    "                    const int64_t i = at + k;\n");
    c_emit_elements(w, "                    ");
    str_add(w->out, "                    const bool hit = (");
    c_emit_ref(w, arg);
    str_addf(w->out, " == r%d)", r);
    if (is_float(cls)) {
        str_add(w->out, " | (");
        c_emit_ref(w, arg);
        str_add(w->out, " != ");
        c_emit_ref(w, arg);
        str_add(w->out, ")");
    }
    str_addf(w->out,
             ";\n"
             "                    const int32_t here = hit ? k : part;\n"
             "                    place = here < place ? here : place;\n"
             "                }\n"
             "                if (place == part) continue;\n"
             "                b->acc[%d].index = first + at + place;\n"
             "                break;\n            }\n",
             r);
}

// After the loop: the block's value joins the accumulator. For argmax and argmin the place is looked for when it
// matters.
static void row_finish(struct c_writer *w, int pass, int r)
{
    unsigned code = reduce_code(w, r);
    enum scalar_class cls = reduce_arg(w, r)->cls;
    if (!in_pass(w, r, pass)) return;
    if (!reduce_info[code].finds_place) {
        str_addf(w->out, "        cpu_fold_%s_%s(&b->acc[%d], ", reduce_info[code].name, member[cls], r);
        if (reduce_info[code].best && is_float(cls))
            str_addf(w->out, "nan%d ? (%s)__builtin_nan(\"\") : r%d);\n", r, c_element_type[cls], r);
        else
            str_addf(w->out, "(%s)r%d);\n", c_element_type[cls], r);
        return;
    }
    char nan[16] = "0";
    if (is_float(cls)) snprintf(nan, sizeof nan, "nan%d", r);
    str_addf(w->out, "        if (n > 0 && cpu_fold_%s_%s(&b->acc[%d], %s, (%s)r%d)) {\n", reduce_info[code].name,
             member[cls], r, nan, c_element_type[cls], r);
    find_place(w, r);
    str_add(w->out, "        }\n");
}

static void row_pass(struct c_writer *w, int pass)
{
    bool last = pass == w->k->n_stages;
    c_plan_pass(&w->plan, pass);
    str_addf(w->out, "    case %d: {\n", pass);
    c_emit_row(w, true, "        ");
    c_emit_row(w, false, "        ");
    if (last && w->k->row_out) {
        str_addf(w->out, "        *(%s *)b->out = ", c_element_type[w->k->out_cls]);
        c_emit_ref(w, w->k->dag.root);
        str_add(w->out, ";\n        break;\n    }\n");
        return;
    }
    c_declare_inputs(w, "        ");
    declare_keeps(w, pass, "        ");
    if (last) str_addf(w->out, "        %s *y = b->out;\n", c_element_type[w->k->out_cls]);
    for (int r = 0; r < w->plan.n_reduce; r++) row_variables(w, pass, r);
    row_pragma(w, pass);
    str_add(w->out, "        for (int64_t i = 0; i < n; i++) {\n");
    c_emit_elements(w, "            ");
    store_keeps(w, pass, "            ");
    for (int r = 0; r < w->plan.n_reduce; r++)
        if (in_pass(w, r, pass)) row_fold(w, r, "            ");
    if (last) {
        str_add(w->out, "            y[i] = ");
        c_emit_ref(w, w->k->dag.root);
        str_add(w->out, ";\n");
    }
    str_add(w->out, "        }\n");
    for (int r = 0; r < w->plan.n_reduce; r++) row_finish(w, pass, r);
    str_add(w->out, "        break;\n    }\n");
}

// --- Column form ---

// Arrays of the finished reductions among `needed`.
static void col_results(struct c_writer *w, const uint8_t *needed, const char *indent)
{
    for (int r = 0; r < w->plan.n_reduce; r++) {
        if (!needed[w->plan.reduce_node[r]]) continue;
        if (reduce_info[reduce_code(w, r)].finds_place)
            str_addf(w->out, "%sconst int64_t *i%d = b->index[%d];\n", indent, r, r);
        else
            str_addf(w->out, "%sconst %s *a%d = b->acc[%d];\n", indent, c_element_type[reduce_arg(w, r)->cls], r, r);
    }
}

// A row value that the loop reads from an array made by the call before: neither uniform nor a bare reduction.
static bool in_rowval(const struct c_writer *w, int node)
{
    return w->plan.frontier[node] && w->k->stage[node] > 0 && w->k->dag.nodes[node].kind != SCALAR_REDUCE;
}

static void col_prepare(struct c_writer *w, int pass)
{
    bool last_row = pass == w->k->n_stages && w->k->row_out;
    int n_values = 0;
    for (int i = 0; i < w->k->dag.n_nodes; i++) n_values += in_rowval(w, i);
    if (n_values == 0 && !last_row) return;
    str_addf(w->out, "    case %d: {\n", 2 * pass);
    c_emit_row(w, true, "        ");
    col_results(w, w->plan.row, "        ");
    for (int i = 0, v = 0; i < w->k->dag.n_nodes; i++)
        if (in_rowval(w, i) && !last_row)
            str_addf(w->out, "        %s *v%d = b->rowval[%d];\n", c_element_type[w->k->dag.nodes[i].cls], v, v), v++;
    if (last_row) str_addf(w->out, "        %s *y = b->out;\n", c_element_type[w->k->out_cls]);
    str_add(w->out, "#pragma omp simd\n        for (int64_t i = 0; i < m; i++) {\n");
    c_emit_row(w, false, "            ");
    for (int i = 0, v = 0; i < w->k->dag.n_nodes; i++)
        if (in_rowval(w, i) && !last_row) str_addf(w->out, "            v%d[i] = t%d;\n", v++, i);
    if (last_row) {
        str_add(w->out, "            y[i] = ");
        c_emit_ref(w, w->k->dag.root);
        str_add(w->out, ";\n");
    }
    str_add(w->out, "        }\n        break;\n    }\n");
}

// `t`: the element, as text.
static void col_fold_text(struct c_writer *w, int r, const char *t)
{
    unsigned code = reduce_code(w, r);
    enum scalar_class cls = reduce_arg(w, r)->cls;
    const char *less = reduce_info[code].best < 0 ? "<" : ">";
    const char *op = fold_operator(code);
    char take[320];
    if (is_float(cls))
        snprintf(take, sizeof take, "((%s %s a%d[i]) | (%s != %s))", t, less, r, t, t);
    else
        snprintf(take, sizeof take, "%s %s a%d[i]", t, less, r);
    if (op) {
        str_addf(w->out, "                a%d[i] = (%s)((%s)a%d[i] %s (%s)%s);\n", r, c_element_type[cls],
                 sum_type[cls], r, op, sum_type[cls], t);
    } else if (!reduce_info[code].finds_place) {
        str_addf(w->out, "                a%d[i] = %s ? %s : a%d[i];\n", r, take, t, r);
    } else {
        // A NaN stays: nothing is above it, and a second NaN comes later. The first element is always taken.
        if (is_float(cls))
            snprintf(take, sizeof take, "((%s %s a%d[i]) | ((%s != %s) & (a%d[i] == a%d[i])) | (i%d[i] < 0))", t, less,
                     r, t, t, r, r, r);
        else
            snprintf(take, sizeof take, "((%s %s a%d[i]) | (i%d[i] < 0))", t, less, r, r);
        str_addf(w->out, "                const bool take%d = %s;\n", r, take);
        str_addf(w->out, "                a%d[i] = take%d ? %s : a%d[i];\n", r, r, t, r);
        str_addf(w->out, "                i%d[i] = take%d ? first + j : i%d[i];\n", r, r, r);
    }
}

static void add_element(struct c_writer *w, struct str *ref, int r)
{
    scalar_emit_ref(ref, TARGET_C, &w->k->dag, w->k->dag.nodes[w->plan.reduce_node[r]].arg[0]);
}

static void col_fold(struct c_writer *w, int r)
{
    struct str ref;
    str_init(&ref);
    add_element(w, &ref, r);
    col_fold_text(w, r, str_text(&ref));
    if (ref.failed) w->out->failed = true;
    str_free(&ref);
}

// Whether a pass does nothing but fold elements of the inputs: then positions go two by two.
static bool only_folds(const struct c_writer *w, int pass)
{
    if (pass > 0 || pass == w->k->n_stages) return false;
    for (int i = 0; i < w->plan.n_keep; i++)
        if (w->plan.keep_pass[i] == pass) return false;
    for (int r = 0; r < w->plan.n_reduce; r++)
        if (in_pass(w, r, pass) && reduce_info[reduce_code(w, r)].finds_place) return false;
    return true;
}

static void pair_pointers(struct c_writer *w)
{
    for (int i = 0; i < w->k->n_in; i++) {
        const char *type = c_element_type[w->k->in_cls[i]];
        for (int half = 0; half < 2 && c_reads_input(w, i); half++)
            str_addf(w->out, "            const %s *x%d_%d = (const %s *)b->in[%d] + (j + %d) * b->in_ld[%d];\n", type,
                     i, half, type, i, half, i);
    }
}

// The elements of position j + half, as u<reduction>_<half>.
static void pair_elements(struct c_writer *w, int pass, int half)
{
    for (int r = 0; r < w->plan.n_reduce; r++)
        if (in_pass(w, r, pass))
            str_addf(w->out, "                %s u%d_%d;\n", c_element_type[reduce_arg(w, r)->cls], r, half);
    str_add(w->out, "                {\n");
    for (int i = 0; i < w->k->n_in; i++)
        if (c_reads_input(w, i))
            str_addf(w->out, "                    const %s *x%d = x%d_%d;\n", c_element_type[w->k->in_cls[i]], i, i,
                     half);
    w->second = half == 1;
    c_emit_elements(w, "                    ");
    w->second = false;
    for (int r = 0; r < w->plan.n_reduce; r++) {
        if (!in_pass(w, r, pass)) continue;
        str_addf(w->out, "                    u%d_%d = (%s)", r, half, c_element_type[reduce_arg(w, r)->cls]);
        add_element(w, w->out, r);
        str_add(w->out, ";\n");
    }
    str_add(w->out, "                }\n");
}

// Steps an element beyond which accumulators in the cache cost nothing beside them, but a second text does.
#define WORTH_PAIRS 64
// Positions j and j + 1: an accumulator is read and written once for two, in the order that it has one by one.
static void col_pairs(struct c_writer *w, int pass)
{
    str_add(w->out, "        for (; j + 2 <= n; j += 2) {\n");
    pair_pointers(w);
    str_add(w->out, "#pragma omp simd\n            for (int64_t i = 0; i < m; i++) {\n");
    for (int half = 0; half < 2; half++) pair_elements(w, pass, half);
    for (int half = 0; half < 2; half++) {
        for (int r = 0; r < w->plan.n_reduce; r++) {
            char u[24];
            snprintf(u, sizeof u, "u%d_%d", r, half);
            if (in_pass(w, r, pass)) col_fold_text(w, r, u);
        }
    }
    str_add(w->out, "            }\n        }\n");
}

// Whether a pass is argmax or argmin of an input of f32 and nothing else: kernels/places.h.
static bool finds_places_of_input(const struct c_writer *w, int pass)
{
    if (pass > 0 || w->k->n_in != 1 || w->plan.n_keep || w->plan.n_reduce != 1 ||
        !reduce_info[reduce_code(w, 0)].finds_place)
        return false;
    const struct scalar_node *arg = reduce_arg(w, 0);
    return arg->kind == SCALAR_INPUT && arg->cls == CLASS_F32;
}

static void col_body(struct c_writer *w, int pass)
{
    bool last = pass == w->k->n_stages;
    if (last && w->k->row_out) return;
    str_addf(w->out, "    case %d: {\n", 2 * pass + 1);
    c_emit_row(w, true, "        ");
    col_results(w, w->plan.frontier, "        ");
    for (int r = 0; r < w->plan.n_reduce; r++) {
        if (!in_pass(w, r, pass)) continue;
        str_addf(w->out, "        %s *a%d = b->acc[%d];\n", c_element_type[reduce_arg(w, r)->cls], r, r);
        if (reduce_info[reduce_code(w, r)].finds_place)
            str_addf(w->out, "        int64_t *i%d = b->index[%d];\n", r, r);
    }
    for (int i = 0, v = 0; i < w->k->dag.n_nodes; i++)
        if (in_rowval(w, i))
            str_addf(w->out, "        const %s *v%d = b->rowval[%d];\n", c_element_type[w->k->dag.nodes[i].cls], v, v),
                v++;
    str_add(w->out, "        int64_t j = 0;\n");
    if (only_folds(w, pass) && w->plan.cost <= WORTH_PAIRS) col_pairs(w, pass);
    if (finds_places_of_input(w, pass))
        str_addf(w->out, "        j = cpu_places_f32(b, %s);\n",
                 reduce_info[reduce_code(w, 0)].best < 0 ? "true" : "false");
    str_add(w->out, "        for (; j < n; j++) {\n");
    c_declare_inputs(w, "            ");
    declare_keeps(w, pass, "            ");
    if (last)
        str_addf(w->out, "            %s *y = (%s *)b->out + j * b->out_ld;\n", c_element_type[w->k->out_cls],
                 c_element_type[w->k->out_cls]);
    str_add(w->out, "#pragma omp simd\n            for (int64_t i = 0; i < m; i++) {\n");
    for (int i = 0, v = 0; i < w->k->dag.n_nodes; i++) {
        const char *type = scalar_class_type(TARGET_C, w->k->dag.nodes[i].cls);
        if (in_rowval(w, i)) {
            str_addf(w->out, "                const %s t%d = v%d[i];\n", type, i, v++);
        } else if (w->plan.frontier[i] && w->k->dag.nodes[i].kind == SCALAR_REDUCE) {
            str_addf(w->out, "                const %s t%d = ", type, i);
            leaf(w->out, &w->k->dag, i, w);
            str_add(w->out, ";\n");
        }
    }
    c_emit_elements(w, "                ");
    store_keeps(w, pass, "                ");
    for (int r = 0; r < w->plan.n_reduce; r++)
        if (in_pass(w, r, pass)) col_fold(w, r);
    if (last) {
        str_add(w->out, "                y[i] = ");
        c_emit_ref(w, w->k->dag.root);
        str_add(w->out, ";\n");
    }
    str_add(w->out, "            }\n        }\n        break;\n    }\n");
}

// --- Whole functions ---

void c_open_function(struct c_writer *w, const char *type, const char *parameters)
{
    str_addf(w->out, "%s ", type);
    function_name(w->out, w->k, w->form);
    str_add(w->out, ";\nvoid ");
    function_name(w->out, w->k, w->form);
    str_addf(w->out, "(%s)\n{\n", parameters);
}

static void row(struct c_writer *w)
{
    w->form = C_FORM_ROW;
    c_open_function(w, "cpu_row_fn", "int pass, struct cpu_row_block *b");
    str_add(w->out, "    const int64_t n = b->n, first = b->first, count = b->count;\n"
                    "    const uint64_t *scalars = b->scalars;\n"
                    "    (void)n, (void)first, (void)count, (void)scalars;\n    switch (pass) {\n");
    for (int pass = 0; pass <= w->k->n_stages; pass++) row_pass(w, pass);
    str_add(w->out, "    default: break;\n    }\n}\n\n");
}

static kiln_status col(struct c_writer *w)
{
    w->form = C_FORM_COL;
    c_open_function(w, "cpu_col_fn", "int call, struct cpu_col_block *b");
    str_add(w->out, "    const int64_t n = b->n, m = b->m, first = b->first, count = b->count;\n"
                    "    const uint64_t *scalars = b->scalars;\n"
                    "    (void)n, (void)m, (void)first, (void)count, (void)scalars;\n    switch (call) {\n");
    for (int pass = 0; pass <= w->k->n_stages; pass++) {
        c_plan_pass(&w->plan, pass);
        int values = 0;
        for (int i = 0; i < w->k->dag.n_nodes; i++) values += in_rowval(w, i);
        if (values > C_MAX_ROWVAL)
            return error_set(KILN_E_UNSUPPORTED, "kernel %s: pass %d reads %d row values, of %d at most", w->k->name,
                             pass, values, C_MAX_ROWVAL);
        col_prepare(w, pass);
        col_body(w, pass);
    }
    str_add(w->out, "    default: break;\n    }\n}\n\n");
    return KILN_OK;
}

kiln_status c_kernel(struct str *out, const struct kernel *k)
{
    struct arena a;
    struct c_writer w = {.out = out, .k = k};
    arena_init(&a);
    size_t n = (size_t)k->dag.n_nodes;
    kiln_status status = c_plan_make(&a, k, &w.plan);
    if (!status) {
        w.want = arena_alloc(&a, 4 * n);
        w.skip = w.want ? w.want + n : NULL;
        w.marks = w.want ? w.want + 2 * n : NULL;
        status = w.want ? KILN_OK : error_pending;
    }
    if (!status && k->kind == KERNEL_POINTWISE) {
        c_pointwise(&w);
    } else if (!status) {
        row(&w);
        status = col(&w);
    }
    arena_finish(&a);
    return status ? status : str_check(out);
}
