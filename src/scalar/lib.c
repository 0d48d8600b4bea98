// Finds library functions and parses their rows, each class once.
#include "scalar/lib.h"
#include "scalar/lib_text.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const struct scalar_lib_row rows[LIB_COUNT] = {
#define LIB(name_, ...) [LIB_##name_] = {.name = #name_, __VA_ARGS__},
#include "scalar/lib.def"
};

// An expression is parsed by the thread that needs it first. Two threads may do so at once; the later one throws its
// result away, so no lock is held while rows that call other rows are expanded.
struct parsed {
    struct arena arena;
    struct scalar_dag dag;
};
static _Atomic(struct parsed *) parsed_rows[LIB_COUNT][CLASS_COUNT];

const struct scalar_lib_row *scalar_lib_row(uint16_t lib)
{
    return &rows[lib];
}

int scalar_lib_find(const char *name, size_t length)
{
    for (int i = 0; i < LIB_COUNT; i++)
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0) return i;
    return -1;
}

void scalar_lib_nearest(struct nearest *n)
{
    for (int i = 0; i < LIB_COUNT; i++) nearest_try(n, rows[i].name, strlen(rows[i].name));
}

const char *scalar_lib_name(uint16_t lib)
{
    return lib < LIB_COUNT ? rows[lib].name : "?";
}

static struct parsed *parse_row(const struct scalar_lib_row *row, enum scalar_class cls)
{
    struct parsed *p = calloc(1, sizeof *p);
    if (!p) {
        error_set(KILN_E_MEMORY, "out of memory for the library function %s", row->name);
        return NULL;
    }
    arena_init(&p->arena);
    const struct scalar_param one[] = {{"x", cls}}, more[] = {{"a", cls}, {"b", cls}, {"c", cls}};
    struct scalar_dag calls;
    if (scalar_parse(&p->arena, row->expr[cls], row->arity == 1 ? one : more, row->arity, cls, &calls) ||
        scalar_expand(&p->arena, &calls, &p->dag)) {
        arena_finish(&p->arena);
        free(p);
        return NULL;
    }
    return p;
}

const struct scalar_dag *scalar_lib_dag(uint16_t lib, enum scalar_class cls)
{
    struct parsed *found = atomic_load(&parsed_rows[lib][cls]);
    if (found) return &found->dag;
    if (!rows[lib].expr[cls]) {
        error_set(KILN_E_UNSUPPORTED, "%s has no expression for %s", rows[lib].name, scalar_class_name(cls));
        return NULL;
    }
    struct parsed *mine = parse_row(&rows[lib], cls);
    if (!mine) return NULL;
    if (atomic_compare_exchange_strong(&parsed_rows[lib][cls], &found, mine)) return &mine->dag;
    arena_finish(&mine->arena);
    free(mine);
    return &found->dag;
}
