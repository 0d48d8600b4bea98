// Pointwise kernels as C: one loop. Where an element takes many steps it takes two positions at once, and what is left
// behind the last pair of whole vectors goes through the same loop in memory of its own: no other text of it stands
// beside the loop. Where cases are rare, the loop computes the usual ones and says whether there was a rare one.
#include "codegen/catalogue/c_writer.h"
#include "scalar/prim.h"
#include <string.h>

// Steps an element from which on two vectors are computed at once: the steps of one wait for each other longer than a
// processor looks ahead, and neither GCC's unrolling nor its scheduler mixes two.
#define WORTH_TWO 14

// Elements between two questions whether there was a rare case.
#define RARE_BLOCK "256"

static bool is_rare(const struct c_writer *w, int node)
{
    const struct scalar_node *n = &w->k->dag.nodes[node];
    return w->plan.element[node] && n->kind == SCALAR_PRIM && n->code == PRIM_rare;
}

static bool has_rare(const struct c_writer *w)
{
    for (int i = 0; i < w->k->dag.n_nodes; i++)
        if (is_rare(w, i)) return true;
    return false;
}

// Leaves marked among the element values those that the marked nodes stand on in the usual case.
static void keep_usual(struct c_writer *w, const uint8_t *marked)
{
    const struct scalar_dag *d = &w->k->dag;
    memcpy(w->plan.element, marked, (size_t)d->n_nodes);
    for (int i = d->n_nodes - 1; i >= 0; i--) {
        const struct scalar_node *n = &d->nodes[i];
        if (w->k->is_row[i]) w->plan.element[i] = 0;
        for (int k = is_rare(w, i) ? 2 : 0; w->plan.element[i] && k < n->n_args; k++) w->plan.element[n->arg[k]] = 1;
    }
}

// Both positions' values, and as `far` whether one is a rare case. A case that is rare by the value of another one is
// asked by its usual value: where that is not its value, the other one is a rare case.
static void usual_two(struct c_writer *w, bool rare)
{
    const struct scalar_dag *d = &w->k->dag;
    uint8_t *marked = w->marks, *conditions = marked + d->n_nodes;
    memset(conditions, 0, (size_t)d->n_nodes);
    for (int i = 0; i < d->n_nodes; i++)
        if (is_rare(w, i)) conditions[d->nodes[i].arg[0]] = 1;
    memcpy(marked, conditions, (size_t)d->n_nodes);
    marked[d->root] = 1;
    keep_usual(w, marked);
    str_addf(w->out, "#pragma omp simd%s\n        for (int64_t i = 0; i < half; i++) {\n",
             rare ? " reduction(| : far)" : "");
    w->usual = true;
    c_emit_two(w, "            ");
    w->usual = false;
    for (int i = 0; i < d->n_nodes; i++) {
        if (!conditions[i]) continue;
        str_add(w->out, "            far |= ");
        c_emit_ref(w, i);
        if (w->plan.element[i]) str_addf(w->out, " | u%d", i);
        str_add(w->out, ";\n");
    }
    str_addf(w->out, "            to[i] = t%d;\n            to[i + half] = u%d;\n        }\n", d->root, d->root);
}

// `half`, `count` and where the inputs and the output of a part lie: whole vectors in pairs, or the rest behind them in
// memory of its own, which the same loop fills beyond its end.
static void open_part(struct c_writer *w, bool rare)
{
    const struct kernel *k = w->k;
    str_add(w->out, "    for (int64_t at = 0, count; at < n; at += count) {\n"
                    "        int64_t half = (n - at) / (2 * WIDTH) * WIDTH;\n");
    // As wide as the values: a vector of what is smaller would take more of them at once than there are registers.
    if (rare)
        str_addf(w->out, "        %s far = 0;\n        if (half > " RARE_BLOCK " / 2) half = " RARE_BLOCK " / 2;\n",
                 k->cls == CLASS_F64 ? "int64_t" : "int32_t");
    str_addf(w->out, "        count = 2 * half;\n        %s *to = %s;\n", c_element_type[k->out_cls],
             rare ? "apart ? y + at : done" : "y + at");
    for (int i = 0; i < k->n_in; i++)
        if (c_reads_input(w, i))
            str_addf(w->out, "        const %s *x%d = (const %s *)in[%d] + at;\n", c_element_type[k->in_cls[i]], i,
                     c_element_type[k->in_cls[i]], i);
    str_add(w->out, "        if (!half) {\n            half = WIDTH, count = n - at, to = done;\n");
    for (int i = 0; i < k->n_in; i++)
        if (c_reads_input(w, i))
            str_addf(w->out, "            x%d = CPU_FN(cpu_filled)(rest%d, x%d, sizeof *x%d, count, 2 * WIDTH);\n", i,
                     i, i, i);
    str_add(w->out, "        }\n");
}

// Pairs of positions, and a part once more where it has rare cases: what an output lies over is read until then.
static void point_pairs(struct c_writer *w)
{
    const struct kernel *k = w->k;
    bool rare = has_rare(w);
    str_addf(w->out, "    enum { WIDTH = CPU_VECTOR_B / sizeof(%s) };\n    %s done[%s];\n", c_element_type[k->cls],
             c_element_type[k->out_cls], rare ? RARE_BLOCK : "2 * WIDTH");
    if (rare) str_add(w->out, "    bool apart = true;\n");
    for (int i = 0; i < k->n_in; i++) {
        if (!c_reads_input(w, i)) continue;
        const char *type = c_element_type[k->in_cls[i]];
        str_addf(w->out, "    %s rest%d[2 * WIDTH];\n", type, i);
        if (rare)
            str_addf(w->out,
                     "    apart = apart && cpu_apart(y, n * (int64_t)sizeof *y, in[%d], n * (int64_t)sizeof(%s));\n", i,
                     type);
    }
    open_part(w, rare);
    usual_two(w, rare);
    if (rare) {
        c_plan_pass(&w->plan, 0);
        str_add(w->out, "        if (far) {\n#pragma omp simd\n            for (int64_t i = 0; i < 2 * half; i++) {\n");
        c_emit_elements(w, "                ");
        str_addf(w->out, "                to[i] = t%d;\n            }\n        }\n", k->dag.root);
    }
    str_add(w->out, "        if (to == done) memcpy(y + at, done, sizeof *y * (size_t)count);\n    }\n");
}

static void point_loop(struct c_writer *w)
{
    c_declare_inputs(w, "    ");
    str_add(w->out, "#pragma omp simd\n    for (int64_t i = 0; i < n; i++) {\n");
    c_emit_elements(w, "        ");
    str_add(w->out, "        y[i] = ");
    c_emit_ref(w, w->k->dag.root);
    str_add(w->out, ";\n    }\n");
}

void c_pointwise(struct c_writer *w)
{
    w->form = C_FORM_POINTWISE;
    c_open_function(w, "cpu_pointwise_fn", "int64_t n, const void *const *in, void *out, const uint64_t *scalars");
    c_plan_pass(&w->plan, 0);
    // A uniform root leaves the element masks empty: its value is a row value, stored n times.
    c_emit_row(w, true, "    ");
    str_addf(w->out, "    %s *y = out;\n    (void)in, (void)scalars;\n", c_element_type[w->k->out_cls]);
    bool pairs = (w->k->cls == CLASS_F32 || w->k->cls == CLASS_F64) && w->plan.cost >= WORTH_TWO &&
                 w->plan.element[w->k->dag.root];
    if (pairs || has_rare(w))
        point_pairs(w);
    else
        point_loop(w);
    str_add(w->out, "}\n\n");
}
