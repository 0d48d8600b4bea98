// The frame round generated kernels: the head of a file, and the table through which the CPU device finds them.
#include "codegen/catalogue/c_plan.h"

void c_prologue(struct str *out)
{
    str_add(out, "// Written by the build from the table of ops.\n"
                 "#include \"cpu/kernels/fold.h\"\n"
                 "#include \"cpu/kernels/places.h\"\n"
                 "#include \"cpu/kernels/pairs.h\"\n"
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
    *t = (struct c_table){0};
    str_init(&t->rows);
    str_init(&t->declarations);
    str_init(&t->functions);
}

void c_table_free(struct c_table *t)
{
    if (!t) return;
    str_free(&t->rows);
    str_free(&t->declarations);
    str_free(&t->functions);
}

static void pointwise_row(struct c_table *t, const struct c_plan *p, const char *name)
{
    const struct scalar_node *root = &p->k->dag.nodes[p->k->dag.root];
    bool moves = p->k->n_in == 1 && root->kind == SCALAR_INPUT && root->code == 0;
    str_addf(&t->rows, ".form = CPU_POINTWISE, .moves = %d", moves);
    str_addf(&t->declarations, "extern cpu_pointwise_fn CPU_FN(%s);\n", name);
    str_addf(&t->functions, "    {.pointwise = CPU_FN(%s)},\n", name);
}

static void row_row(struct c_table *t, const struct c_plan *p, const char *name)
{
    const struct kernel *k = p->k;
    struct str *s = &t->rows;
    str_addf(s, ".form = CPU_ROW, .n_stages = %d, .row_out = %d", k->n_stages, k->row_out);
    str_addf(s, ", .n_keep = %d, .keep_cls = {", p->n_keep);
    for (int i = 0; i < p->n_keep; i++) str_addf(s, i ? ", %d" : "%d", k->dag.nodes[p->keep_node[i]].cls);
    str_addf(s, p->n_keep ? "}, .n_reduce = %d, .reduce = {" : "0}, .n_reduce = %d, .reduce = {", p->n_reduce);
    for (int i = 0; i < p->n_reduce; i++) {
        const struct scalar_node *n = &k->dag.nodes[p->reduce_node[i]];
        str_addf(s, i ? ", {%d, %d, %d}" : "{%d, %d, %d}", n->code, k->dag.nodes[n->arg[0]].cls,
                 k->stage[p->reduce_node[i]] - 1);
    }
    str_add(s, p->n_reduce ? "}" : "{0}}");
    str_addf(&t->declarations, "extern cpu_row_fn CPU_FN(%s_row);\nextern cpu_col_fn CPU_FN(%s_col);\n", name, name);
    str_addf(&t->functions, "    {.row = CPU_FN(%s_row), .col = CPU_FN(%s_col)},\n", name, name);
}

static void add_row(struct c_table *t, const struct c_plan *p, kernel_id id)
{
    const struct kernel *k = p->k;
    struct str name;
    str_init(&name);
    str_addf(&name, "kernel_%s_%s", k->name, scalar_class_name(k->cls));
    str_addf(&t->rows, "    {.id = %d, .n_in = %d, .in_cls = {", id, k->n_in);
    for (int i = 0; i < k->n_in; i++) str_addf(&t->rows, i ? ", %d" : "%d", k->in_cls[i]);
    str_addf(&t->rows, k->n_in ? "}, .out_cls = %d, .cost = %d, " : "0}, .out_cls = %d, .cost = %d, ", k->out_cls,
             p->cost);
    if (k->kind == KERNEL_POINTWISE)
        pointwise_row(t, p, str_text(&name));
    else
        row_row(t, p, str_text(&name));
    str_add(&t->rows, "},\n");
    str_free(&name);
    t->n++;
}

kiln_status c_table_add(struct c_table *t, const struct kernel *k, kernel_id id)
{
    struct arena a;
    struct c_plan plan;
    arena_init(&a);
    kiln_status status = c_plan_make(&a, k, &plan);
    if (!status) {
        add_row(t, &plan, id);
        status = str_check(&t->rows);
        if (!status) status = str_check(&t->declarations);
        if (!status) status = str_check(&t->functions);
    }
    arena_finish(&a);
    return status;
}

kiln_status c_cost(const struct kernel *k, int *out)
{
    struct arena a;
    struct c_plan plan;
    arena_init(&a);
    kiln_status status = c_plan_make(&a, k, &plan);
    *out = status ? 0 : plan.cost;
    arena_finish(&a);
    return status;
}

static const char table_head[] =
    "// Written by the build from the table of ops.\n#include \"cpu/kernels/kernel.h\"\n\n";

kiln_status c_table_rows(const struct c_table *t, struct str *out)
{
    str_add(out, table_head);
    str_addf(out, "const int cpu_n_generated = %d;\nconst struct cpu_kernel cpu_generated[] = {\n", t->n);
    str_add(out, str_text(&t->rows));
    str_add(out, "};\n");
    return str_check(out);
}

kiln_status c_table_functions(const struct c_table *t, struct str *out)
{
    str_add(out, table_head);
    str_add(out, str_text(&t->declarations));
    str_add(out, "\nconst struct cpu_functions CPU_FN(cpu_functions)[] = {\n");
    str_add(out, str_text(&t->functions));
    str_add(out, "};\n");
    return str_check(out);
}
