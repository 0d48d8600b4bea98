// onnx_fns.h and onnx_table.c: the columns .onnx of the op tables, parsed and checked, as the importer reads them.
#include "ops/families.h"
#include "codegen/gen/gen.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX = 48, MAPS_MAX = 8 };

// The row that a text belongs to, and its attributes.
struct owner {
    const char *name; // NULL: none
    int op;           // place in op_table, -1: none
    int n_attrs;
    char attrs[16][32];
};

struct map {
    char kind[16], name[NAME_MAX], value[NAME_MAX];
    int attr;
};

struct column_entry {
    char name[NAME_MAX], fn[NAME_MAX];
    int since, n_maps;
    struct map maps[MAPS_MAX];
};

struct writer {
    struct str fns, table, rows;
    int n_rows;
};

static kiln_status bad(const struct owner *o, const char *text, const char *why)
{
    return error_set(KILN_E_ARGUMENT, "%s: .onnx = \"%s\": %s", o->name ? o->name : "onnx.def", text, why);
}

static int attr_of(const struct owner *o, const char *name, size_t len)
{
    for (int i = 0; i < o->n_attrs; i++)
        if (strlen(o->attrs[i]) == len && !memcmp(o->attrs[i], name, len)) return i;
    return -1;
}

static kiln_status copy(const struct owner *o, const char *text, char *to, const char *from, size_t len)
{
    if (!len || len >= NAME_MAX) return bad(o, text, "a name or a value is empty or too long");
    memcpy(to, from, len);
    to[len] = 0;
    return KILN_OK;
}

// "slope=alpha:0.01", "value=#0", "fmod==1", "fmod=?0"
static kiln_status parse_map(const struct owner *o, const char *text, const char *word, struct map *m)
{
    size_t left = strcspn(word, "=");
    if (!word[left]) return bad(o, text, "a word without =");
    const char *right = word + left + 1;
    m->attr = -1;
    if (*right == '=' || *right == '?') {
        strcpy(m->kind, *right == '=' ? "MUST_BE" : "MAY_BE");
        TRY(copy(o, text, m->name, word, left));
        return copy(o, text, m->value, right + 1, strlen(right + 1));
    }
    m->attr = attr_of(o, word, left);
    if (m->attr < 0) return bad(o, text, "the row has no such attribute");
    if (*right == '#') {
        strcpy(m->kind, "CONSTANT");
        return copy(o, text, m->value, right + 1, strlen(right + 1));
    }
    size_t name = strcspn(right, ":");
    strcpy(m->kind, right[name] ? "DEFAULTS" : "REQUIRED");
    TRY(copy(o, text, m->name, right, name));
    return right[name] ? copy(o, text, m->value, right + name + 1, strlen(right + name + 1)) : KILN_OK;
}

static kiln_status parse_entry(const struct owner *o, const char *text, char *at, struct column_entry *e)
{
    char *rest, *word = strtok_r(at, " ", &rest);
    *e = (struct column_entry){.since = 13};
    if (!word) return bad(o, text, "an entry is empty");
    char *version = strchr(word, '@');
    TRY(copy(o, text, e->name, word, version ? (size_t)(version - word) : strlen(word)));
    if (version) e->since = atoi(version + 1);
    if (e->since < 13 || e->since > 99) return bad(o, text, "a version below 13 or above 99");
    while ((word = strtok_r(NULL, " ", &rest))) {
        if (!strcmp(word, "by")) {
            word = strtok_r(NULL, " ", &rest);
            TRY(copy(o, text, e->fn, word ? word : "", word ? strlen(word) : 0));
        } else {
            if (e->n_maps == MAPS_MAX) return bad(o, text, "too many words");
            TRY(parse_map(o, text, word, &e->maps[e->n_maps++]));
        }
    }
    if (e->fn[0] && e->n_maps) return bad(o, text, "words beside a function");
    if (!e->fn[0] && o->op < 0) return bad(o, text, "neither a row nor a function");
    bool given[16] = {false};
    for (int i = 0; i < e->n_maps; i++)
        if (e->maps[i].attr >= 0) given[e->maps[i].attr] = true;
    for (int i = 0; !e->fn[0] && i < o->n_attrs; i++)
        if (!given[i]) return bad(o, text, "an attribute of the row is not given");
    return KILN_OK;
}

static void write_entry(struct writer *w, const struct owner *o, const struct column_entry *e)
{
    if (e->fn[0]) str_addf(&w->fns, "kiln_status onnx_op_%s(struct onnx_call *c);\n", e->fn); // of some twice
    if (e->n_maps) str_addf(&w->table, "static const struct onnx_map maps_%d[] = {", w->n_rows);
    for (int i = 0; i < e->n_maps; i++) {
        const struct map *m = &e->maps[i];
        str_addf(&w->table, "{ONNX_%s, %d, \"%s\", \"%s\", %.17g}, ", m->kind, m->attr, m->name, m->value,
                 strtod(m->value, NULL));
    }
    if (e->n_maps) str_add(&w->table, "};\n");
    str_addf(&w->rows, "    {.name = \"%s\", .since = %d, .op = %d", e->name, e->since, o->op);
    if (e->fn[0]) str_addf(&w->rows, ", .fn = onnx_op_%s", e->fn);
    if (e->n_maps) str_addf(&w->rows, ", .n_maps = %d, .maps = maps_%d", e->n_maps, w->n_rows);
    str_add(&w->rows, "},\n");
    w->n_rows++;
}

static kiln_status write_text(struct writer *w, const struct owner *o, const char *text)
{
    char *copy_of = text ? strdup(text) : NULL, *next = copy_of;
    kiln_status status = KILN_OK;
    while (next && !status) {
        char *at = next, *comma = strstr(at, ", ");
        struct column_entry e;
        next = comma ? comma + 2 : NULL;
        if (comma) *comma = 0;
        status = parse_entry(o, text, at, &e);
        if (!status) write_entry(w, o, &e);
    }
    free(copy_of);
    return status;
}

static kiln_status write_elementwise(struct writer *w, int row)
{
    const struct elementwise_row *r = &elementwise_rows[row];
    struct owner o = {.name = r->name, .op = row};
    for (; o.n_attrs < ELEMENTWISE_MAX_PARAMS && r->e.params[o.n_attrs]; o.n_attrs++)
        snprintf(o.attrs[o.n_attrs], sizeof o.attrs[0], "%s", r->e.params[o.n_attrs]);
    return write_text(w, &o, r->e.onnx);
}

static kiln_status write_structured(struct writer *w, int row)
{
    const struct structured_row *r = &structured_rows[row];
    struct owner o = {.name = r->name, .op = elementwise_row_count + row};
    struct flat f = {0};
    gen_flatten(r->args, &f);
    for (; o.n_attrs < f.n_attrs; o.n_attrs++)
        snprintf(o.attrs[o.n_attrs], sizeof o.attrs[0], "%s", f.attrs[o.n_attrs].name);
    return write_text(w, &o, r->onnx);
}

kiln_status gen_onnx(struct catalogue *g, const char *dir)
{
    (void)g;
    struct writer w = {.n_rows = 0};
    struct owner none = {.op = -1};
    str_init(&w.fns);
    str_init(&w.table);
    str_init(&w.rows);
    str_add(&w.fns, "// Written by kiln-gen from the columns .onnx: the functions that they name.\n#pragma once\n"
                    "#include \"onnx/call.h\"\n\n");
    str_add(&w.table, "// Written by kiln-gen from the columns .onnx of the op tables.\n#include \"onnx/onnx_fns.h\"\n"
                      "#include \"onnx/table.h\"\n\n");
    for (int i = 0; i < elementwise_row_count; i++) TRY(write_elementwise(&w, i));
    for (int i = 0; i < structured_row_count; i++) TRY(write_structured(&w, i));
    for (int i = 0; i < onnx_text_count; i++) TRY(write_text(&w, &none, onnx_texts[i]));
    str_addf(&w.table, "\nconst int onnx_row_count = %d;\nconst struct onnx_row onnx_rows[] = {\n%s};\n", w.n_rows,
             str_text(&w.rows));
    str_free(&w.rows);
    TRY(gen_write(dir, "onnx_fns.h", &w.fns));
    return gen_write(dir, "onnx_table.c", &w.table);
}
