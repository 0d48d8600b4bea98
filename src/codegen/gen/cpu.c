// The inner loops of all kernels, spread over files so that they compile side by side, their table (cpu_rows.c), and
// their functions (cpu_functions.c). Kernels that compute little, much and most an element lie in files of their own:
// unrolled, with remainders in vectors of each width, long ones are most of the code, and not faster.
#include "codegen/catalogue/c.h"
#include "codegen/gen/gen.h"
#include <stdio.h>

enum { LONG = 10, LONGEST = 80 }; // steps an element

// Files of each kind; meson.build knows them too.
static const struct {
    const char *name;
    int files, most;
} kinds[] = {{"brief", 5, LONG}, {"long", 5, LONGEST}, {"longest", 3, INT32_MAX}};

static kiln_status cpu_file(struct catalogue *g, const char *dir, int kind, int file)
{
    struct str s;
    str_init(&s);
    c_prologue(&s);
    for (int i = 0, n = 0, cost; i < g->n_families * CLASS_COUNT; i++) {
        const struct catalogue_kernel *k = &g->kernels[i];
        if (!k->present || k->info.kind == KERNEL_CUSTOM) continue;
        TRY(c_cost(&k->kernel, &cost));
        if (cost >= kinds[kind].most || (kind && cost < kinds[kind - 1].most)) continue;
        if (n++ % kinds[kind].files == file) TRY(c_kernel(&s, &k->kernel));
    }
    char name[32];
    snprintf(name, sizeof name, "cpu_%s_%d.c", kinds[kind].name, file);
    return gen_write(dir, name, &s);
}

static kiln_status cpu_tables(struct catalogue *g, const char *dir)
{
    struct c_table table;
    struct str rows, functions;
    c_table_init(&table);
    for (int i = 0; i < g->n_families * CLASS_COUNT; i++) {
        const struct catalogue_kernel *k = &g->kernels[i];
        if (k->present && k->info.kind != KERNEL_CUSTOM) TRY(c_table_add(&table, &k->kernel, (kernel_id)i));
    }
    str_init(&rows);
    str_init(&functions);
    TRY(c_table_rows(&table, &rows));
    TRY(c_table_functions(&table, &functions));
    c_table_free(&table);
    TRY(gen_write(dir, "cpu_rows.c", &rows));
    return gen_write(dir, "cpu_functions.c", &functions);
}

kiln_status gen_cpu(struct catalogue *g, const char *dir)
{
    for (int kind = 0; kind < (int)COUNT_OF(kinds); kind++)
        for (int file = 0; file < kinds[kind].files; file++) TRY(cpu_file(g, dir, kind, file));
    return cpu_tables(g, dir);
}
