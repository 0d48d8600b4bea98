// kiln-gen-attrs FILE: at which place of its op's list an attribute stands, AT_<op>_<attribute>; in what an options
// struct adds to such a list, AT_<options>_opts_<field>.
//
// A function that serves several rows reads an attribute by the name that one of them gives it. That it stands at one
// place in all of them, assertions at the end hold.
#include "ops/families.h"
#include "ops/row.h"
#include "codegen/gen/gen.h"
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    const char *fn[3];
    struct structured_row row; // only the columns that the row names
} rows[] = {
#define FN(infer, lower)                     #infer, #lower
#define VIEW_FN(infer, view)                 #infer, #view
#define VIEW_OR_COPY_FN(infer, lower, view)  #infer, #lower, #view
#define REGIONS_FN(rule)                     #rule
#define STRUCTURED(row_name, functions, ...) {#row_name, {functions}, {__VA_ARGS__}},
#include "ops/structured.def"
};

static void places(FILE *out, const char *name, const char *suffix, const char *args)
{
    struct flat f = {0};
    gen_flatten(args, &f);
    for (int i = 0; i < f.n_attrs; i++) fprintf(out, "    AT_%s%s_%s = %d,\n", name, suffix, f.attrs[i].name, i);
}

static bool shares_function(size_t a, size_t b, const char **fn)
{
    for (size_t i = 0; i < COUNT_OF(rows[a].fn); i++)
        for (size_t j = 0; j < COUNT_OF(rows[b].fn); j++)
            if (rows[a].fn[i] && rows[b].fn[j] && !strcmp(*fn = rows[a].fn[i], rows[b].fn[j])) return true;
    return false;
}

static void assertions(FILE *out, size_t a, size_t b, const char *fn)
{
    struct flat f = {0}, g = {0};
    gen_flatten(rows[a].row.args, &f);
    gen_flatten(rows[b].row.args, &g);
    for (int i = 0; i < f.n_attrs; i++)
        for (int j = 0; j < g.n_attrs; j++)
            if (!strcmp(f.attrs[i].name, g.attrs[j].name))
                fprintf(out, "_Static_assert(AT_%s_%s == AT_%s_%s, \"%s serves both\");\n", rows[a].name,
                        f.attrs[i].name, rows[b].name, g.attrs[j].name, fn);
}

int main(int argc, char **argv)
{
    FILE *out = argc == 2 ? fopen(argv[1], "w") : NULL;
    if (!out) {
        fprintf(stderr, "usage: kiln-gen-attrs FILE\n");
        return 1;
    }
    fprintf(
        out,
        "// Written by kiln-gen-attrs from the op table: places of attributes.\n#pragma once\n\nenum attr_place {\n");
    for (size_t i = 0; i < COUNT_OF(rows); i++) places(out, rows[i].name, "", rows[i].row.args);
    for (int i = 0; i < options_row_count; i++) places(out, options_rows[i].name, "_opts", options_rows[i].fields);
    fprintf(out, "};\n");
    for (size_t a = 0; a < COUNT_OF(rows); a++)
        for (size_t b = a + 1; b < COUNT_OF(rows); b++) {
            const char *fn;
            if (shares_function(a, b, &fn)) assertions(out, a, b, fn);
        }
    return fclose(out) ? 1 : 0;
}
