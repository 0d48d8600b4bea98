// Composites: kiln/composites.h, the functions that it declares, and the declarations of what these call.
#include "codegen/gen/gen.h"
#include <stdio.h>
#include <string.h>

static int params_of(const struct composite_row *r, struct param *p)
{
    return gen_params(r->args, p, 16);
}

static void declaration(struct str *s, const struct composite_row *r, const char *prefix, const char *name)
{
    struct param p[16];
    char function[64];
    int n = params_of(r, p);
    snprintf(function, sizeof function, "%s%s", prefix, name);
    gen_signature(s, function, p, n, r->outs);
}

static const char intro[] =
    "/// @file composites.h\n"
    "/// Ops that are functions of the ops of ops.h, written by the build from their table.\n"
    "///\n"
    "///     kiln_tensor *scores = kiln_einsum(\"bqd,bkd->bqk\", (kiln_tensor *[]){q, k}, 2);\n"
    "///\n"
    "/// They are called like those: each returns a new handle, or NULL with an error pending; inputs are borrowed; "
    "options may be NULL.\n"
    "/// In a graph they are what they are made of. A tensor that is said to be optional may be NULL.\n"
    "#ifndef KILN_COMPOSITES_H\n#define KILN_COMPOSITES_H\n\n#include <kiln/ops.h>\n\n"
    "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
    "/// What a Fourier transform is divided by: the inverse by n, itself by n, or both by the root of n.\n"
    "enum { KILN_FFT_BACKWARD = 0, KILN_FFT_FORWARD = 1, KILN_FFT_ORTHO = 2 };\n"
    "/// What a quantile between two values is: on the line between them; the lower; the higher; their mean; the "
    "nearer, "
    "of two as near the even place.\n"
    "enum {\n    KILN_QUANTILE_LINEAR = 0,\n    KILN_QUANTILE_LOWER = 1,\n    KILN_QUANTILE_HIGHER = 2,\n"
    "    KILN_QUANTILE_MIDPOINT = 3,\n    KILN_QUANTILE_NEAREST = 4\n};\n"
    "/// What kiln_scatter_reduce does with the elements for one place.\n"
    "enum {\n    KILN_SCATTER_SUM = 0,\n    KILN_SCATTER_PROD = 1,\n    KILN_SCATTER_MEAN = 2,\n"
    "    KILN_SCATTER_MAX = 3,\n    KILN_SCATTER_MIN = 4\n};\n\n";

kiln_status gen_composites_header(const char *path)
{
    struct str s;
    str_init(&s);
    str_add(&s, intro);
    for (int i = 0; i < composite_options_row_count; i++) gen_options_struct(&s, &composite_options_rows[i]);
    for (int i = 0; i < composite_row_count; i++) {
        const struct composite_row *r = &composite_rows[i];
        str_addf(&s, "/// %s\n%sKILN_API ", r->doc, r->zero_grad ? "/// The gradient is zero.\n" : "");
        declaration(&s, r, "kiln_", r->name);
        str_add(&s, ";\n");
        if (r->also) {
            str_add(&s, "KILN_API ");
            declaration(&s, r, "kiln_", r->also);
            str_addf(&s, "; ///< another name of kiln_%s\n", r->name);
        }
        if (r->was) {
            gen_deprecated(&s, r->name);
            str_add(&s, "KILN_API ");
            declaration(&s, r, "kiln_", r->was);
            str_add(&s, ";\n");
        }
        str_add(&s, "\n");
    }
    str_add(&s, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
    return gen_write(NULL, path, &s);
}

// Fields that are zero take their defaults.
static void field_default(struct str *s, const struct param *f)
{
    if (f->kind == PARAM_FLOAT)
        str_addf(s, "    o.%s = option_or(o.%s, %s);\n", f->name, f->name, f->fallback[0] ? f->fallback : "0");
    if (!f->fallback[0] || (f->kind != PARAM_INT && f->kind != PARAM_ARRAY && f->kind != PARAM_DTYPE)) return;
    if (f->kind != PARAM_ARRAY) str_addf(s, "    if (!o.%s) o.%s = %s;\n", f->name, f->name, f->fallback);
    for (int i = 0; i < f->count; i++)
        str_addf(s, "    if (!o.%s[%d]) o.%s[%d] = %s;\n", f->name, i, f->name, i, f->fallback);
}

static void read_options(struct str *s, const struct composite_row *r, const char *options)
{
    struct param f[16];
    int n = gen_params(gen_options(options)->fields, f, 16);
    str_addf(s, "    kiln_%s_opts o;\n    options_read(\"%s\", ", options, r->name);
    gen_options_macro(s, options);
    str_add(s, ", &o, opts);\n    o.size = sizeof o;\n"); // so that it can be handed on
    gen_spread(s, r->name, options);
    for (int i = 0; i < n; i++) field_default(s, &f[i]);
}

static void checks(struct str *s, const struct param *p, int n)
{
    for (int i = 0; i < n; i++) {
        if (p[i].kind == PARAM_TENSOR && !p[i].may_be_null)
            str_addf(s, " && composite_takes(&call, \"%s\", %s)", p[i].name, p[i].name);
        if (p[i].kind == PARAM_LIST) str_addf(s, " && composite_takes_all(&call, \"%s\", %s, n)", p[i].name, p[i].name);
        if (p[i].kind == PARAM_INTS) {
            str_addf(s, " && composite_takes_ints(&call, \"%s\", ", p[i].name);
            gen_ints(s, &p[i]);
            str_add(s, ")");
        }
        if (p[i].kind == PARAM_TEXT) str_addf(s, " && composite_takes_text(&call, \"%s\", %s)", p[i].name, p[i].name);
    }
}

static void arguments(struct str *s, const struct param *p, int n)
{
    for (int i = 0; i < n; i++) {
        if (i) str_add(s, ", ");
        if (p[i].kind == PARAM_LIST)
            str_addf(s, "%s, n", p[i].name);
        else if (p[i].kind == PARAM_INTS && !p[i].is_list)
            gen_ints(s, &p[i]);
        else
            str_add(s, p[i].kind == PARAM_OPTIONS ? "&o" : p[i].name);
    }
}

// Of an op whose results are a list that the caller has room for.
static void list_function(struct str *s, const struct composite_row *r, const struct param *p, int n, const char *out)
{
    str_addf(s, "    struct composite call;\n    if (composite_begin(&call, \"%s\")", r->name);
    checks(s, p, n);
    str_addf(s, " && composite_has_room(&call, \"%s\", %s, n_out))\n        compose_%s(", out, out, r->name);
    arguments(s, p, n);
    str_addf(s, ", %s, n_out);\n    composite_end(&call, %s, %s ? n_out : 0);\n    return kiln_error();\n}\n\n", out,
             out, out);
}

static void function(struct str *s, const struct composite_row *r, const char *name)
{
    struct param p[16], out[OP_MAX_OUT];
    int n = params_of(r, p), n_out = r->outs ? gen_params(r->outs, out, OP_MAX_OUT) : 0;
    declaration(s, r, "kiln_", name);
    str_add(s, "\n{\n");
    for (int i = 0; i < n; i++)
        if (p[i].kind == PARAM_OPTIONS) read_options(s, r, p[i].name);
    if (n_out && out[0].kind == PARAM_LIST) {
        list_function(s, r, p, n, out[0].name);
        return;
    }
    str_addf(s, "    kiln_tensor *results[%d] = {NULL};\n    struct composite call;\n", n_out ? n_out : 1);
    str_addf(s, "    if (composite_begin(&call, \"%s\")", r->name);
    checks(s, p, n);
    str_addf(s, ")\n        %scompose_%s(", n_out ? "" : "results[0] = ", r->name);
    arguments(s, p, n);
    for (int i = 0; i < n_out; i++) str_addf(s, ", &results[%d]", i);
    str_addf(s, ");\n    composite_end(&call, results, %d);\n", n_out ? n_out : 1);
    for (int i = 0; i < n_out; i++)
        str_addf(s, "    if (%s) *%s = results[%d];\n    else kiln_free(&results[%d]);\n", out[i].name, out[i].name, i,
                 i);
    str_add(s, n_out ? "    return kiln_error();\n}\n\n" : "    return results[0];\n}\n\n");
}

static kiln_status functions(const char *dir)
{
    struct str s;
    str_init(&s);
    str_add(&s, "// Written by kiln-gen from the table of composites.\n#include \"base/options.h\"\n"
                "#include \"compose/composite.h\"\n\n");
    for (int i = 0; i < composite_row_count; i++) {
        function(&s, &composite_rows[i], composite_rows[i].name);
        if (composite_rows[i].also) function(&s, &composite_rows[i], composite_rows[i].also);
        if (composite_rows[i].was) function(&s, &composite_rows[i], composite_rows[i].was);
    }
    return gen_write(dir, "composites_api.c", &s);
}

kiln_status gen_composites(const char *dir)
{
    struct str s;
    str_init(&s);
    str_add(&s,
            "// Written by kiln-gen from the table of composites: what each is. Options are complete.\n#pragma once\n"
            "#include <kiln/composites.h>\n\n");
    for (int i = 0; i < composite_row_count; i++) {
        declaration(&s, &composite_rows[i], "compose_", composite_rows[i].name);
        str_add(&s, ";\n");
    }
    kiln_status status = gen_write(dir, "composites_fns.h", &s);
    return status ? status : functions(dir);
}
