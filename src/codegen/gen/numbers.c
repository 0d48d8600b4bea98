// Forms of ops that take numbers: for each row of two or three operands the function kiln_<op>_n, and a macro of the
// op's own name that chooses (kiln/operand.h).
#include "ops/expr.h"
#include "codegen/gen/gen.h"

static bool has_form(const struct elementwise_row *r)
{
    return r->n_in > 1;
}

static int n_params(const struct elementwise_row *r)
{
    int n = 0;
    while (n < ELEMENTWISE_MAX_PARAMS && r->e.params[n]) n++;
    return n;
}

static void signature(struct str *s, const struct elementwise_row *r, bool inplace)
{
    str_addf(s, "%skiln_%s_n%s(", inplace ? "kiln_status " : "kiln_tensor *", r->name, inplace ? "_" : "");
    if (inplace) str_addf(s, "kiln_tensor *%s, ", elementwise_public_name(r, 0));
    gen_elementwise_names(s, r, "kiln_operand ", inplace ? 1 : 0);
    for (int i = 0; !inplace && i < n_params(r); i++) str_addf(s, ", double %s", r->e.params[i]);
    str_add(s, ")");
}

void gen_number_decls(struct str *s, const struct elementwise_row *r)
{
    if (!has_form(r)) return;
    str_addf(s, "/// kiln_%s of tensors or numbers (operand.h).\nKILN_API ", r->name);
    signature(s, r, false);
    str_add(s, ";\n");
    if (!(r->e.flags & OP_INPLACE)) return;
    str_addf(s, "/// kiln_%s_ of tensors or numbers.\nKILN_API ", r->name);
    signature(s, r, true);
    str_add(s, ";\n");
}

static void names(struct str *s, const struct elementwise_row *r)
{
    gen_elementwise_names(s, r, "", 0);
}

static void macro(struct str *s, const struct elementwise_row *r, const char *name)
{
    str_addf(s, "#define kiln_%s(", name);
    names(s, r);
    for (int i = 0; i < n_params(r); i++) str_addf(s, ", %s", r->e.params[i]);
    str_addf(s, ") KILN_%s_(__COUNTER__, kiln_%s, kiln_%s_n, ", r->n_in == 2 ? "BINARY" : "TERNARY", name, r->name);
    names(s, r);
    str_add(s, ", ");
    for (int i = 0; i < n_params(r); i++) str_addf(s, ", %s", r->e.params[i]);
    str_add(s, ")\n");
}

void gen_number_macros(struct str *s)
{
    str_add(s, "#ifdef KILN_HAS_NUMBERS\n");
    for (int k = 0; k < elementwise_row_count; k++) {
        const struct elementwise_row *r = &elementwise_rows[k];
        if (!has_form(r)) continue;
        macro(s, r, r->name);
        if (r->e.also) macro(s, r, r->e.also);
        if (r->e.was) macro(s, r, r->e.was);
        if (!(r->e.flags & OP_INPLACE)) continue;
        str_addf(s, "#define kiln_%s_(", r->name);
        names(s, r);
        str_addf(s, ") KILN_%s_IN_PLACE_(__COUNTER__, kiln_%s_, kiln_%s_n_, ", r->n_in == 2 ? "BINARY" : "TERNARY",
                 r->name, r->name);
        names(s, r);
        str_add(s, ")\n");
    }
    str_add(s, "#endif\n");
}

static void definition(struct str *s, const struct elementwise_row *r, int index, bool inplace)
{
    int first = inplace ? 1 : 0, n = inplace ? 0 : n_params(r);
    signature(s, r, inplace);
    str_add(s, "\n{\n    const kiln_operand in[] = {");
    for (int i = first; i < r->n_in; i++) str_addf(s, "%s%s", i > first ? ", " : "", elementwise_public_name(r, i));
    str_add(s, "};\n");
    if (n) str_add(s, "    struct attr attrs[] = {");
    for (int i = 0; i < n; i++) str_addf(s, "%sattr_of_float(%s)", i ? ", " : "", r->e.params[i]);
    if (n) str_add(s, "};\n");
    if (inplace)
        str_addf(s, "    return op_apply_numbers_inplace(&op_instances[%d], %s, in);\n}\n\n", index,
                 elementwise_public_name(r, 0));
    else
        str_addf(s, "    return op_apply_numbers(&op_instances[%d], in, %s);\n}\n\n", index, n ? "attrs" : "NULL");
}

void gen_number_functions(struct str *s, const struct elementwise_row *r, int index)
{
    if (!has_form(r)) return;
    definition(s, r, index, false);
    if (r->e.flags & OP_INPLACE) definition(s, r, index, true);
}
