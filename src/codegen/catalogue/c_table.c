// The frame round generated kernels: the head of a file, and the table through which the CPU device finds them.
#include "codegen/catalogue/c_plan.h"

void c_prologue(struct str *out)
{
    str_add(out, "// Written by the build from the table of ops.\n"
                 "#include \"cpu/kernels/fold.h\"\n"
                 "#include \"cpu/kernels/kernel.h\"\n"
                 "#pragma GCC diagnostic ignored \"-Wunused-variable\"\n"
                 "#pragma GCC diagnostic ignored \"-Wunused-function\"\n");
    str_add(out, scalar_prelude(TARGET_C));
    str_addf(out,
             "_Static_assert(CPU_MAX_IN == %d && CPU_MAX_REDUCE == %d && CPU_MAX_KEEP == %d && CPU_MAX_ROWVAL == %d,\n"
             "               \"codegen/catalogue/c.h and cpu/kernels/kernel.h agree\");\n\n",
             C_MAX_IN, C_MAX_REDUCE, C_MAX_KEEP, C_MAX_ROWVAL);
}

void c_table_init(struct c_table *t)
{
    str_init(&t->declarations);
    str_init(&t->rows);
}

void c_table_free(struct c_table *t)
{
    if (!t) return;
    str_free(&t->declarations);
    str_free(&t->rows);
}

static void row_fields(struct str *s, const struct c_plan *p, const char *name)
{
    const struct kernel *k = p->k;
    str_addf(s, ".n_stages = %d, .row_out = %d, .row = CPU_FN(%s_row), .col = CPU_FN(%s_col)", k->n_stages, k->row_out,
             name, name);
    str_addf(s, ", .n_keep = %d, .keep_cls = {", p->n_keep);
    for (int i = 0; i < p->n_keep; i++) str_addf(s, i ? ", %d" : "%d", k->dag.nodes[p->keep_node[i]].cls);
    str_addf(s, p->n_keep ? "}, .n_reduce = %d, .reduce = {" : "0}, .n_reduce = %d, .reduce = {", p->n_reduce);
    for (int i = 0; i < p->n_reduce; i++) {
        const struct scalar_node *n = &k->dag.nodes[p->reduce_node[i]];
        str_addf(s, i ? ", {%d, %d, %d}" : "{%d, %d, %d}", n->code, k->dag.nodes[n->arg[0]].cls,
                 k->stage[p->reduce_node[i]] - 1);
    }
    str_add(s, p->n_reduce ? "}" : "{0}}");
}

kiln_status c_table_add(struct c_table *t, const struct kernel *k, kernel_id id)
{
    struct arena a;
    struct c_plan plan;
    struct str name;
    arena_init(&a);
    str_init(&name);
    str_addf(&name, "kernel_%s_%s", k->name, scalar_class_name(k->cls));
    kiln_status status = c_plan_make(&a, k, &plan);
    if (!status) {
        bool pointwise = k->kind == KERNEL_POINTWISE;
        if (pointwise)
            str_addf(&t->declarations, "extern cpu_pointwise_fn CPU_FN(%s);\n", str_text(&name));
        else
            str_addf(&t->declarations, "extern cpu_row_fn CPU_FN(%s_row);\nextern cpu_col_fn CPU_FN(%s_col);\n",
                     str_text(&name), str_text(&name));
        str_addf(&t->rows, "    [%d] = {.form = %s, .n_in = %d, .in_cls = {", id,
                 pointwise ? "CPU_POINTWISE" : "CPU_ROW", k->n_in);
        for (int i = 0; i < k->n_in; i++) str_addf(&t->rows, i ? ", %d" : "%d", k->in_cls[i]);
        str_addf(&t->rows, k->n_in ? "}, .out_cls = %d, .cost = %d, " : "0}, .out_cls = %d, .cost = %d, ", k->out_cls,
                 plan.cost);
        if (pointwise)
            str_addf(&t->rows, ".moves = %d, .pointwise = CPU_FN(%s)",
                     k->n_in == 1 && k->dag.nodes[k->dag.root].kind == SCALAR_INPUT &&
                         k->dag.nodes[k->dag.root].code == 0,
                     str_text(&name));
        else
            row_fields(&t->rows, &plan, str_text(&name));
        str_add(&t->rows, "},\n");
        status = str_check(&t->rows);
        if (!status) status = str_check(&t->declarations);
    }
    str_free(&name);
    arena_finish(&a);
    return status;
}

kiln_status c_table_text(const struct c_table *t, int n_kernels, struct str *out)
{
    str_add(out, "// Written by the build from the table of ops.\n#include \"cpu/kernels/kernel.h\"\n\n");
    str_add(out, str_text(&t->declarations));
    str_addf(out, "\nconst int CPU_FN(cpu_table_size) = %d;\nconst struct cpu_kernel CPU_FN(cpu_table)[%d] = {\n",
             n_kernels, n_kernels > 0 ? n_kernels : 1);
    str_add(out, str_text(&t->rows));
    str_add(out, "};\n");
    return str_check(out);
}
