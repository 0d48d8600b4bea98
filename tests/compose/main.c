// Composites, and what else has cases here, against references. A row of composites.def without a case fails.
#include "compose/case.h"
#include "ops/row.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FAMILY(name) extern const struct case_family name##_family;
#include "compose/families.def"
#undef FAMILY

static const struct case_family *const families[] = {
#define FAMILY(name) &name##_family,
#include "compose/families.def"
#undef FAMILY
};
enum { FAMILIES = sizeof families / sizeof families[0] };

static void run_case(void **state)
{
    const struct op_case *c = *state;
    record_begin(c->op);
    kiln_scope *scope = kiln_scope_begin();
    drive_case(c);
    kiln_scope_end(&scope);
    record_end();
}

static bool has_case(const char *op)
{
    for (int f = 0; f < FAMILIES; f++)
        for (size_t i = 0; i < families[f]->n; i++)
            if (!strcmp(families[f]->cases[i].op, op)) return true;
    return false;
}

static void every_composite_has_a_case(void **state)
{
    record_begin("every_composite_has_a_case");
    for (int i = 0; i < composite_row_count; i++) {
        if (!has_case(composite_rows[i].name)) record_mistake("%s has no case", composite_rows[i].name);
        record.cases++, record.values++;
    }
    record_end();
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[2048];
    size_t n = 0;
    tests[n++] = (struct CMUnitTest){"every_composite_has_a_case", every_composite_has_a_case, NULL, NULL, NULL};
    for (int f = 0; f < FAMILIES; f++)
        for (size_t i = 0; i < families[f]->n; i++) {
            const struct op_case *c = &families[f]->cases[i];
            char *name = malloc(200);
            if (!name || n == 2048) return 2;
            snprintf(name, 200, "%s: %s, %s", families[f]->name, c->op, c->note);
            tests[n++] = (struct CMUnitTest){name, run_case, NULL, NULL, (void *)(uintptr_t)c};
        }
    suite.compiles = true;
    return suite_main(argc, argv, "compose", tests, n);
}
