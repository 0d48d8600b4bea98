// kiln/ops.h: every op's declaration with its documentation.
#include "ops/expr.h"
#include "codegen/gen/gen.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

void gen_options_macro(struct str *s, const char *options)
{
    str_add(s, "KILN_");
    for (; *options; options++) str_addf(s, "%c", toupper((unsigned char)*options));
}

static const char *field_type(enum param_kind k)
{
    switch (k) {
    case PARAM_FLOAT: return "double ";
    case PARAM_BOOL: return "bool ";
    case PARAM_INTS: return "kiln_ints ";
    case PARAM_TENSOR: return "kiln_tensor *";
    case PARAM_DTYPE: return "kiln_dtype ";
    case PARAM_TEXT: return "const char *";
    default: return "int64_t ";
    }
}

void gen_options_struct(struct str *s, const struct options_row *r)
{
    struct param p[16];
    int n = gen_params(r->fields, p, 16);
    str_addf(s, "/// %s\ntypedef struct kiln_%s_opts {\n    size_t size KILN_0;\n", r->doc, r->name);
    for (int i = 0; i < n; i++) {
        str_addf(s, "    %s%s", field_type(p[i].kind), p[i].name);
        if (p[i].kind == PARAM_ARRAY) str_addf(s, "[%d]", p[i].count);
        str_add(s, " KILN_0;");
        if (p[i].fallback[0])
            str_addf(s, " ///< 0 means %s%s", p[i].fallback, p[i].kind == PARAM_FLOAT ? ", KILN_ZERO means 0" : "");
        if (p[i].spreads) str_addf(s, "%s the first alone is for all", p[i].fallback[0] ? ";" : " ///<");
        str_add(s, "\n");
    }
    str_addf(s, "} kiln_%s_opts;\n#define ", r->name);
    gen_options_macro(s, r->name);
    str_addf(s, "(...) KILN_OPTS_(kiln_%s_opts, __VA_ARGS__)\n\n", r->name);
}

static const char *const type_docs[] = {
    [TYPE_NUMERIC] = "Integers and floats; the result has the promoted dtype.",
    [TYPE_FLOAT] = "Integers and bool are taken as f32; the result is a float.",
    [TYPE_REAL] = "Integers and floats; integers stay as they are.",
    [TYPE_COMPARE] = "Any dtypes, promoted; the result is bool.",
    [TYPE_LOGICAL] = "Any dtypes, taken as \"not zero\"; the result is bool.",
    [TYPE_BITWISE] = "Integers and bool.",
    [TYPE_INTEGER] = "Integers.",
    [TYPE_TEST] = "Integers and floats; the result is bool.",
    [TYPE_SELECT] = "The condition is bool; the others are promoted.",
};

void gen_elementwise_names(struct str *s, const struct elementwise_row *r, const char *type, int first)
{
    for (int k = first; k < r->n_in; k++)
        str_addf(s, "%s%s%s", k > first ? ", " : "", type, elementwise_public_name(r, elementwise_parameter(r, k)));
}

void gen_deprecated(struct str *s, const char *name)
{
    str_addf(s, "/// The name before of kiln_%s; deprecated.\nKILN_DEPRECATED(\"kiln_%s\")\n", name, name);
}

static void elementwise_signature(struct str *s, const struct elementwise_row *r, const char *name)
{
    str_addf(s, "KILN_API kiln_tensor *kiln_%s(", name);
    gen_elementwise_names(s, r, "kiln_tensor *", 0);
    for (int i = 0; i < ELEMENTWISE_MAX_PARAMS && r->e.params[i]; i++) str_addf(s, ", double %s", r->e.params[i]);
    str_add(s, ")");
}

// Gradients are texts of the table, over its own names.
static void names_in_gradients(struct str *s, const struct elementwise_row *r)
{
    if (!r->e.in[0]) return;
    str_add(s, "/// In these");
    for (int i = 0; i < r->n_in; i++)
        str_addf(s, "%s %s is %s", i ? "," : "", elementwise_input_name(r->n_in, i), r->e.in[i]);
    str_add(s, ".\n");
}

static void elementwise_decl(struct str *s, const struct elementwise_row *r)
{
    str_addf(s, "/// %s\n///\n/// Element by element, with NumPy broadcasting. %s\n", r->e.doc, type_docs[r->e.type]);
    if (r->e.ulp[0] > 0)
        str_addf(s, "/// Error bound: %g ULP in f32, %g in f64.\n", (double)r->e.ulp[0], (double)r->e.ulp[1]);
    bool any = false;
    for (int i = 0; i < r->n_in; i++) {
        if (!r->e.grad[i]) continue;
        str_addf(s, "/// Gradient by %s: `%s`.\n", elementwise_public_name(r, i), r->e.grad[i]);
        any = true;
    }
    if (!any) str_add(s, "/// The gradient is zero.\n");
    names_in_gradients(s, r);
    elementwise_signature(s, r, r->name);
    str_add(s, ";\n");
    if (r->e.also) {
        elementwise_signature(s, r, r->e.also);
        str_addf(s, "; ///< another name of kiln_%s\n", r->name);
    }
    if (r->e.was) {
        gen_deprecated(s, r->name);
        elementwise_signature(s, r, r->e.was);
        str_add(s, ";\n");
    }
    if (r->e.flags & OP_INPLACE) {
        str_addf(s, "/// kiln_%s into the storage of its first operand.\nKILN_API kiln_status kiln_%s_(", r->name,
                 r->name);
        gen_elementwise_names(s, r, "kiln_tensor *", 0);
        str_add(s, ");\n");
    }
    gen_number_decls(s, r);
    str_add(s, "\n");
}

void gen_ints(struct str *s, const struct param *p)
{
    str_addf(s, p->is_list ? "%s.count, %s.v" : "%s_count, %s", p->name, p->name);
}

static void param_decl(struct str *s, const struct param *p)
{
    switch (p->kind) {
    case PARAM_TENSOR: str_addf(s, "kiln_tensor *%s", p->name); break;
    case PARAM_LIST: str_addf(s, "kiln_tensor *const *%s, size_t n", p->name); break;
    case PARAM_DEVICE: str_add(s, "kiln_device *dev"); break;
    case PARAM_INTS:
        str_addf(s, p->is_list ? "kiln_ints %s" : "size_t %s_count, const int64_t *%s", p->name, p->name);
        break;
    case PARAM_OPTIONS: str_addf(s, "const kiln_%s_opts *opts", p->name); break;
    default: str_addf(s, "%s%s", field_type(p->kind), p->name);
    }
}

// Without those that op_apply fills.
static int public_params(const struct structured_row *r, struct param *p, int cap)
{
    int n = gen_params(r->args, p, cap), kept = 0;
    for (int i = 0; i < n; i++)
        if (!gen_is_reserved(r, &p[i])) p[kept++] = p[i];
    return kept;
}

void gen_signature(struct str *s, const char *function, const struct param *p, int n, const char *outs)
{
    struct param out[OP_MAX_OUT];
    int n_out = outs ? gen_params(outs, out, OP_MAX_OUT) : 0;
    str_addf(s, "%s%s(", n_out ? "kiln_status " : "kiln_tensor *", function);
    for (int i = 0; i < n; i++) {
        if (i) str_add(s, ", ");
        param_decl(s, &p[i]);
    }
    for (int i = 0; i < n_out; i++) str_addf(s, ", kiln_tensor **%s", out[i].name);
    if (n_out && out[0].kind == PARAM_LIST) str_add(s, ", size_t n_out");
    str_add(s, ")");
}

void gen_structured_signature(struct str *s, const struct structured_row *r, const char *name)
{
    struct param p[16];
    char function[64];
    snprintf(function, sizeof function, "kiln_%s", name);
    str_add(s, "KILN_API ");
    gen_signature(s, function, p, public_params(r, p, 16), r->outs);
}

static void structured_decl(struct str *s, const struct structured_row *r)
{
    if (r->flags & OP_HIDDEN) return;
    str_addf(s, "/// %s\n", r->doc);
    if (r->flags & OP_ZERO_GRAD) str_add(s, "/// The gradient is zero.\n");
    if (r->flags & OP_RANDOM) str_add(s, "/// Drawn from the device's generator; see kiln_seed.\n");
    gen_structured_signature(s, r, r->name);
    str_add(s, ";\n");
    if (r->also) {
        gen_structured_signature(s, r, r->also);
        str_addf(s, "; ///< another name of kiln_%s\n", r->name);
    }
    if (r->was) {
        gen_deprecated(s, r->name);
        gen_structured_signature(s, r, r->was);
        str_add(s, ";\n");
    }
    str_add(s, "\n");
}

static const char intro[] =
    "/// @file ops.h\n"
    "/// All ops, written by the build from the op table.\n"
    "///\n"
    "///     kiln_tensor *y = kiln_relu(kiln_add(kiln_matmul(x, w), b));\n"
    "///\n"
    "/// Every op returns a new handle, or NULL with an error pending (see error.h); inputs are borrowed. An op runs "
    "on the device of its\n"
    "/// inputs, which must agree; weak scalars go anywhere, and in C plain\n/// numbers (operand.h). Options may be "
    "NULL for the defaults.\n"
    "#ifndef KILN_OPS_H\n#define KILN_OPS_H\n\n#include <kiln/grad.h>\n#include <kiln/operand.h>\n#include "
    "<kiln/tensor.h>\n\n"
    "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
    "/// A bound of a slice that means the end.\n#define KILN_END INT64_MAX\n\n"
    "/// What kiln_pad puts around a tensor: one value; the tensor mirrored without its edge; its edge; the tensor "
    "itself again.\n"
    "enum { KILN_PAD_CONSTANT = 0, KILN_PAD_REFLECT = 1, KILN_PAD_EDGE = 2, KILN_PAD_CIRCULAR = 3 };\n\n";

static const char user_ops[] =
    "/// A user's op: an elementwise expression in the scalar language over its inputs (x, or a, b, c), and, for "
    "Vulkan, optionally a GLSL\n"
    "/// expression over the same names. Its gradient: by expressions over the inputs, y and dy, or by a rule "
    "registered under its name.\n"
    "typedef struct kiln_op_spec {\n"
    "    size_t size KILN_0;\n"
    "    const char *name KILN_0;    ///< not the name of another op\n"
    "    int n_in KILN_0;            ///< 1 to 3\n"
    "    const char *expr KILN_0;    ///< scalar language; NULL: only .glsl\n"
    "    const char *glsl KILN_0;    ///< GLSL expression; NULL: made from .expr\n"
    "    const char *grad[3] KILN_0; ///< scalar language, one an input; NULL: zero, or a registered rule\n"
    "} kiln_op_spec;\n"
    "#define KILN_OP(...) KILN_OPTS_(kiln_op_spec, __VA_ARGS__)\n"
    "/// Registers a user's op for the whole process. Errors: KILN_E_ARGUMENT for a bad name or expression (the text "
    "shows where).\n"
    "KILN_API kiln_status kiln_register_op(const kiln_op_spec *spec);\n"
    "/// Runs an op without attributes by its name: a registered one, or a row.\n"
    "KILN_API kiln_tensor *kiln_apply(const char *op, kiln_tensor *const *in, size_t n_in);\n\n";

kiln_status gen_header(struct catalogue *g, const char *path)
{
    (void)g;
    struct str s;
    str_init(&s);
    str_add(&s, intro);
    for (int i = 0; i < options_row_count; i++) gen_options_struct(&s, &options_rows[i]);
    for (int i = 0; i < elementwise_row_count; i++) elementwise_decl(&s, &elementwise_rows[i]);
    for (int i = 0; i < structured_row_count; i++) structured_decl(&s, &structured_rows[i]);
    str_add(&s, user_ops);
    gen_number_macros(&s);
    str_add(&s, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
    return gen_write(NULL, path, &s);
}
