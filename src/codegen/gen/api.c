// ops_api.c: the public functions of the rows. Each packs its arguments and calls op_apply.
#include "ops/expr.h"
#include "codegen/gen/gen.h"
#include <stdio.h>
#include <string.h>

static void elementwise_function(struct str *s, const struct elementwise_row *r, int index, const char *name,
                                 bool inplace)
{
    int n_params = 0;
    str_addf(s, "%skiln_%s%s(", inplace ? "kiln_status " : "kiln_tensor *", name, inplace ? "_" : "");
    gen_elementwise_names(s, r, "kiln_tensor *", 0);
    for (; !inplace && n_params < ELEMENTWISE_MAX_PARAMS && r->e.params[n_params]; n_params++)
        str_addf(s, ", double %s", r->e.params[n_params]);
    str_add(s, ")\n{\n    kiln_tensor *const in[] = {");
    for (int i = 0; i < r->n_in; i++) str_addf(s, "%s%s", i ? ", " : "", elementwise_public_name(r, i));
    str_add(s, "};\n");
    if (n_params) {
        str_add(s, "    struct attr attrs[] = {");
        for (int i = 0; i < n_params; i++) str_addf(s, "%sattr_of_float(%s)", i ? ", " : "", r->e.params[i]);
        str_add(s, "};\n");
    }
    if (inplace)
        str_addf(s, "    return op_apply_inplace(&op_instances[%d], %d, in, NULL);\n}\n\n", index, r->n_in);
    else
        str_addf(s, "    return op_apply1(&op_instances[%d], NULL, %d, in, %s);\n}\n\n", index, r->n_in,
                 n_params ? "attrs" : "NULL");
}

// `from` is the expression that reads the parameter: its name, or o.name for an option.
static void attr_value(struct str *s, const struct param *p, bool option)
{
    const char *o = option ? "o." : "";
    switch (p->kind) {
    case PARAM_INT:
        if (option && p->fallback[0])
            str_addf(s, "attr_of_int(o.%s ? o.%s : %s)", p->name, p->name, p->fallback);
        else
            str_addf(s, "attr_of_int(%s%s)", o, p->name);
        break;
    case PARAM_FLOAT:
        if (option)
            str_addf(s, "attr_of_option(o.%s, %s)", p->name, p->fallback[0] ? p->fallback : "0");
        else
            str_addf(s, "attr_of_float(%s)", p->name);
        break;
    case PARAM_BOOL: str_addf(s, "attr_of_bool(%s%s)", o, p->name); break;
    case PARAM_DTYPE: str_addf(s, "attr_of_dtype(%s%s)", o, p->name); break;
    case PARAM_INTS:
        str_add(s, "attr_of_ints(");
        if (option)
            str_addf(s, "o.%s.count, o.%s.v", p->name, p->name);
        else
            gen_ints(s, p);
        str_add(s, ")");
        break;
    case PARAM_ARRAY:
        str_addf(s, "attr_of_ints(%d, ", p->count);
        for (int i = 0; p->fallback[0] && i < p->count; i++)
            str_addf(s, "%so.%s[%d] ? o.%s[%d] : %s", i ? ", " : "(const int64_t[]){", p->name, i, p->name, i,
                     p->fallback);
        if (p->fallback[0])
            str_add(s, "})");
        else
            str_addf(s, "o.%s)", p->name);
        break;
    default: break;
    }
}

static void pack_attrs(struct str *s, const struct structured_row *r, const struct param *p, int n)
{
    bool any = false;
    for (int i = 0; i < n; i++) {
        struct param f[16];
        int nf = p[i].kind == PARAM_OPTIONS ? gen_params(gen_options(p[i].name)->fields, f, 16) : 1;
        const struct param *list = p[i].kind == PARAM_OPTIONS ? f : &p[i];
        for (int j = 0; j < nf; j++) {
            if (!gen_is_attr(list[j].kind)) continue;
            str_add(s, any ? ",\n        " : "    struct attr attrs[] = {\n        ");
            if (gen_is_reserved(r, &list[j]))
                str_add(s, "attr_of_int(0)");
            else
                attr_value(s, &list[j], p[i].kind == PARAM_OPTIONS);
            any = true;
        }
    }
    if (any)
        str_add(s, "};\n");
    else
        str_add(s, "    struct attr *attrs = NULL;\n");
}

// Required tensors, then those of the options; trailing absent ones are dropped.
static void pack_inputs(struct str *s, const struct param *p, int n)
{
    int count = 0, optional = 0;
    for (int i = 0; i < n; i++)
        if (p[i].kind == PARAM_LIST) {
            str_addf(s, "    kiln_tensor *const *in = %s;\n    int n_in = n > 255 ? 256 : (int)n;\n", p[i].name);
            return;
        }
    str_add(s, "    kiln_tensor *in[] = {");
    for (int i = 0; i < n; i++) {
        if (p[i].kind == PARAM_TENSOR) str_addf(s, "%s%s", count++ ? ", " : "", p[i].name);
        if (p[i].kind != PARAM_OPTIONS) continue;
        struct param f[16];
        int nf = gen_params(gen_options(p[i].name)->fields, f, 16);
        for (int j = 0; j < nf; j++)
            if (f[j].kind == PARAM_TENSOR) {
                str_addf(s, "%so.%s", count++ ? ", " : "", f[j].name);
                optional++;
            }
    }
    str_addf(s, "%s};\n    int n_in = %d;\n", count ? "" : "NULL", count);
    if (optional) str_addf(s, "    while (n_in > %d && !in[n_in - 1]) n_in--;\n", count - optional);
}

void gen_spread(struct str *s, const char *function, const char *options)
{
    struct param f[16];
    int n = gen_params(gen_options(options)->fields, f, 16);
    for (int i = 0; i < n; i++)
        if (f[i].spreads)
            str_addf(s, "    options_spread(\"%s\", \".%s\", o.%s, %d);\n", function, f[i].name, f[i].name, f[i].count);
}

// A failure is left pending: op_apply refuses then.
static void read_options(struct str *s, const struct structured_row *r, const char *options)
{
    str_addf(s, "    kiln_%s_opts o;\n    options_read(\"%s\", ", options, r->name);
    gen_options_macro(s, options);
    str_add(s, ", &o, opts);\n");
    gen_spread(s, r->name, options);
}

static void structured_function(struct str *s, const struct structured_row *r, int index, const char *name)
{
    struct param p[16], out[OP_MAX_OUT];
    int n = gen_params(r->args, p, 16), n_out = r->outs ? gen_params(r->outs, out, OP_MAX_OUT) : 0;
    const char *dev = "NULL";
    gen_structured_signature(s, r, name);
    str_add(s, "\n{\n");
    for (int i = 0; i < n; i++) {
        if (p[i].kind == PARAM_DEVICE) dev = "dev";
        if (p[i].kind == PARAM_OPTIONS) read_options(s, r, p[i].name);
    }
    pack_inputs(s, p, n);
    pack_attrs(s, r, p, n);
    if (r->is_checked) str_addf(s, "    if (check_%s(attrs)) return NULL;\n", r->name);
    if (!n_out)
        str_addf(s, "    return op_apply1(&op_instances[%d], %s, n_in, in, attrs);\n}\n\n", index, dev);
    else {
        str_add(s, "    kiln_tensor *results[] = {");
        for (int i = 0; i < n_out; i++) str_add(s, i ? ", NULL" : "NULL");
        str_addf(s, "};\n    kiln_status status = op_apply(&op_instances[%d], %s, n_in, in, attrs, results);\n", index,
                 dev);
        // A result that the caller does not want is freed.
        for (int i = 0; i < n_out; i++)
            str_addf(s, "    if (%s) *%s = results[%d];\n    else kiln_free(&results[%d]);\n", out[i].name, out[i].name,
                     i, i);
        str_add(s, "    return status;\n}\n\n");
    }
}

void gen_api(struct str *s)
{
    str_add(s, "// Written by kiln-gen from the op tables.\n#define KILN_NO_NUMBERS\n#include "
               "\"base/options.h\"\n#include \"ops/row.h\"\n"
               "#include \"tensor/apply.h\"\n#include <kiln/ops.h>\n\n");
    for (int i = 0; i < elementwise_row_count; i++) {
        const struct elementwise_row *r = &elementwise_rows[i];
        elementwise_function(s, r, i, r->name, false);
        if (r->e.also) elementwise_function(s, r, i, r->e.also, false);
        if (r->e.was) elementwise_function(s, r, i, r->e.was, false);
        if (r->e.flags & OP_INPLACE) elementwise_function(s, r, i, r->name, true);
        gen_number_functions(s, r, i);
    }
    for (int i = 0; i < structured_row_count; i++) {
        const struct structured_row *r = &structured_rows[i];
        if (r->flags & OP_HIDDEN) continue;
        structured_function(s, r, elementwise_row_count + i, r->name);
        if (r->also) structured_function(s, r, elementwise_row_count + i, r->also);
        if (r->was) structured_function(s, r, elementwise_row_count + i, r->was);
    }
}
