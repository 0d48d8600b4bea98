// cpu_<n>.c and cpu_table.c: the inner loops of all kernels, spread over files so that they compile side by side.
#include "codegen/catalogue/c.h"
#include "codegen/gen/gen.h"
#include <stdio.h>

#define FILES 12

static kiln_status cpu_file(struct catalogue *g, const char *dir, int file, struct c_table *table)
{
    struct str s;
    str_init(&s);
    c_prologue(&s);
    for (int i = 0, n = 0; i < g->n_families * CLASS_COUNT; i++) {
        const struct catalogue_kernel *k = &g->kernels[i];
        if (!k->present || k->info.kind == KERNEL_CUSTOM || n++ % FILES != file) continue;
        TRY(c_kernel(&s, &k->kernel));
        TRY(c_table_add(table, &k->kernel, (kernel_id)i));
    }
    char name[32];
    snprintf(name, sizeof name, "cpu_%d.c", file);
    return gen_write(dir, name, &s);
}

kiln_status gen_cpu(struct catalogue *g, const char *dir)
{
    struct c_table table;
    struct str s;
    c_table_init(&table);
    for (int i = 0; i < FILES; i++) TRY(cpu_file(g, dir, i, &table));
    str_init(&s);
    TRY(c_table_text(&table, g->n_families * CLASS_COUNT, &s));
    c_table_free(&table);
    return gen_write(dir, "cpu_table.c", &s);
}
