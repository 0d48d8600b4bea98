// kiln/ops.hpp: every op as a function of namespace kiln and as a member of kiln::tensor. kiln/tensor.hpp includes the
// file twice: within the class with KILN_OPS_MEMBERS defined, and behind it.
//
// Options are trailing parameters with their defaults. What takes options has a second form that takes a struct of
// them by its name. Ops that make tensors of nothing take dtype and device last.
#include "ops/expr.h"
#include "codegen/gen/gen.h"
#include <stdio.h>
#include <string.h>

enum { MAX_PARAMS = 32 };

// A parameter as C++ has it. Those of options come from an options struct of C.
struct cxx_param {
    struct param p;
    bool is_field, by_default;
};

struct cxx_op {
    const char *name, *doc, *outs;
    const char *now;     // its name now, of one that was; else NULL
    const char *options; // of its options struct; NULL: none
    struct cxx_param v[MAX_PARAMS];
    int n;
    bool creates; // has a device, and no tensors
};

static const char *cxx_type(const struct param *p)
{
    switch (p->kind) {
    case PARAM_TENSOR: return "const tensor &";
    case PARAM_LIST: return "const tensors &";
    case PARAM_DEVICE: return "device_ref ";
    case PARAM_FLOAT: return "double ";
    case PARAM_BOOL: return "bool ";
    case PARAM_INTS: return "const ints &";
    case PARAM_ARRAY: return p->count == 2 ? "extent<2> " : "extent<3> ";
    case PARAM_DTYPE: return "kiln_dtype ";
    case PARAM_TEXT: return "const char *";
    default: return "int64_t ";
    }
}

static const char *field_type(const struct param *p)
{
    const char *type = cxx_type(p);
    switch (p->kind) {
    case PARAM_TENSOR: return "tensor ";
    case PARAM_INTS: return "ints ";
    default: return type;
    }
}

static void default_value(struct str *s, const struct param *p)
{
    if (p->fallback[0])
        str_addf(s, "%s", p->fallback);
    else if (p->kind == PARAM_BOOL)
        str_add(s, "false");
    else if (p->kind == PARAM_FLOAT || p->kind == PARAM_INT || p->kind == PARAM_ARRAY)
        str_add(s, "0");
    else if (p->kind == PARAM_TEXT)
        str_add(s, "nullptr");
    else if (p->kind == PARAM_DTYPE)
        str_add(s, "kiln_dtype{}");
    else
        str_add(s, "{}");
}

static void add_param(struct cxx_op *op, const struct param *p, bool is_field)
{
    op->v[op->n++] = (struct cxx_param){*p, is_field, is_field};
}

// What creates gives integers where it takes numbers that are integers and no sizes.
static bool makes_integers(const struct cxx_op *op)
{
    for (int i = 0; i < op->n; i++)
        if (op->v[i].p.kind == PARAM_INT && !op->v[i].p.is_size) return true;
    return false;
}

static void set_dtype_and_device(struct cxx_op *op, const struct param *p, int n)
{
    bool integers = makes_integers(op);
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; i < n; i++) {
            if (p[i].kind != (kind ? PARAM_DEVICE : PARAM_DTYPE)) continue;
            struct param q = p[i];
            if (!kind) snprintf(q.fallback, sizeof q.fallback, "%s", integers ? "KILN_I64" : "KILN_F32");
            add_param(op, &q, false);
            op->v[op->n - 1].by_default = true;
        }
}

static void set_params(struct cxx_op *op, const struct param *p, int n)
{
    for (int i = 0; i < n; i++) op->creates |= p[i].kind == PARAM_DEVICE;
    for (int i = 0; i < n; i++) {
        if (op->creates && (p[i].kind == PARAM_DEVICE || p[i].kind == PARAM_DTYPE)) continue;
        if (p[i].kind != PARAM_OPTIONS) {
            add_param(op, &p[i], false);
            continue;
        }
        struct param f[16];
        int n_fields = gen_params(gen_options(p[i].name)->fields, f, 16);
        op->options = p[i].name;
        for (int j = 0; j < n_fields; j++) add_param(op, &f[j], true);
    }
    if (op->creates) set_dtype_and_device(op, p, n);
    for (int i = op->n - 1; i >= 0; i--) {
        const struct param *q = &op->v[i].p;
        bool may = q->kind == PARAM_BOOL || (q->kind == PARAM_TENSOR && q->may_be_null);
        if (!op->v[i].by_default && !may) break;
        op->v[i].by_default = true;
    }
}

static void parameter(struct str *s, const struct cxx_param *v, bool with_default)
{
    str_addf(s, "%s%s", cxx_type(&v->p), v->p.name);
    if (!with_default || !v->by_default) return;
    str_add(s, " = ");
    default_value(s, &v->p);
}

// The name of its list of tensors, NULL where it has none.
static const char *list_name(const struct cxx_op *op)
{
    for (int i = 0; i < op->n; i++)
        if (op->v[i].p.kind == PARAM_LIST) return op->v[i].p.name;
    return NULL;
}

static bool has_list(const struct cxx_op *op)
{
    return list_name(op) != NULL;
}

static int out_count(const struct cxx_op *op, struct param *out)
{
    return op->outs ? gen_params(op->outs, out, OP_MAX_OUT) : 0;
}

static void result_type(struct str *s, const struct cxx_op *op)
{
    struct param out[OP_MAX_OUT];
    int n_out = out_count(op, out);
    if (!n_out) {
        str_add(s, "tensor ");
        return;
    }
    if (out[0].kind == PARAM_LIST) {
        str_add(s, "std::vector<tensor> ");
        return;
    }
    str_add(s, "std::tuple<");
    for (int i = 0; i < n_out; i++) str_add(s, i ? ", tensor" : "tensor");
    str_add(s, "> ");
}

static void argument(struct str *s, const struct param *p)
{
    switch (p->kind) {
    case PARAM_TENSOR: str_addf(s, "%s.get()", p->name); break;
    case PARAM_LIST: str_addf(s, "%s.data(), %s.size()", p->name, p->name); break;
    case PARAM_INTS: str_addf(s, p->is_list ? "%s.list()" : "%s.size(), %s.data()", p->name, p->name); break;
    case PARAM_DEVICE: str_add(s, "dev.get()"); break;
    default: str_addf(s, "%s", p->name);
    }
}

// The options of C, of the parameters.
static void fill_options(struct str *s, const struct cxx_op *op)
{
    str_addf(s, "    auto o_ = detail::sized<kiln_%s_opts>();\n", op->options);
    for (int i = 0; i < op->n; i++) {
        const struct param *p = &op->v[i].p;
        if (!op->v[i].is_field) continue;
        if (p->kind == PARAM_TENSOR)
            str_addf(s, "    o_.%s = %s.get();\n", p->name, p->name);
        else if (p->kind == PARAM_INTS)
            str_addf(s, "    o_.%s = %s.list();\n", p->name, p->name);
        else if (p->kind == PARAM_ARRAY)
            str_addf(s, "    %s.copy_to(o_.%s);\n", p->name, p->name);
        else if (p->kind == PARAM_FLOAT && p->fallback[0])
            str_addf(s, "    o_.%s = detail::plain(%s);\n", p->name, p->name);
        else
            str_addf(s, "    o_.%s = %s;\n", p->name, p->name);
    }
}

// Arguments in the order of C, in which options stand where the first of their fields does.
static void arguments(struct str *s, const struct cxx_op *op, const struct param *p, int n)
{
    for (int i = 0; i < n; i++) {
        if (i) str_add(s, ", ");
        if (p[i].kind == PARAM_OPTIONS)
            str_add(s, "&o_");
        else
            argument(s, &p[i]);
    }
    (void)op;
}

static void body(struct str *s, const struct cxx_op *op, const struct param *p, int n)
{
    struct param out[OP_MAX_OUT];
    int n_out = out_count(op, out);
    if (op->options) fill_options(s, op);
    if (!n_out) {
        str_addf(s, "    return detail::taken(kiln_%s(", op->now ? op->now : op->name);
        arguments(s, op, p, n);
        str_add(s, "));\n}\n");
        return;
    }
    bool list = out[0].kind == PARAM_LIST;
    if (list)
        str_addf(s, "    detail::results out_(%s%s);\n", has_list(op) ? list_name(op) : "n_out",
                 has_list(op) ? ".size()" : "");
    else
        str_addf(s, "    detail::results out_(%d);\n", n_out);
    str_addf(s, "    detail::check(kiln_%s(", op->now ? op->now : op->name);
    arguments(s, op, p, n);
    for (int i = 0; i < n_out && !list; i++) str_addf(s, ", out_.at(%d)", i);
    if (list) str_add(s, ", out_.data(), out_.size()");
    str_add(s, "));\n    return ");
    if (list)
        str_add(s, "out_.all();\n}\n");
    else
        str_addf(s, "out_.as_tuple<%d>();\n}\n", n_out);
}

// `member`: the first tensor is the object.
static void function(struct str *s, const struct cxx_op *op, const struct param *p, int n, bool member)
{
    struct param out[OP_MAX_OUT];
    bool counts = out_count(op, out) && out[0].kind == PARAM_LIST && !has_list(op), any = false;
    str_addf(s, "/// %s\n", op->doc);
    if (op->now) str_addf(s, "KILN_DEPRECATED(\"%s\")\n", op->now);
    str_add(s, "KILN_CXX ");
    result_type(s, op);
    str_addf(s, "%s(", op->name);
    for (int i = member ? 1 : 0; i < op->n; i++) {
        if (any) str_add(s, ", ");
        parameter(s, &op->v[i], !counts);
        any = true;
    }
    if (counts) str_addf(s, "%ssize_t n_out", any ? ", " : "");
    str_addf(s, ")%s\n{\n", member ? " const" : "");
    if (member) str_addf(s, "    const tensor &%s = *this;\n", op->v[0].p.name);
    body(s, op, p, n);
}

// The form that takes a struct of options by name, and so no list in braces.
static void options_form(struct str *s, const struct cxx_op *op, bool member)
{
    bool any = false;
    str_addf(s, "template <class O, detail::if_same<O, %s_opts> = 0> KILN_CXX ", op->options);
    result_type(s, op);
    str_addf(s, "%s(", op->name);
    for (int i = member ? 1 : 0; i < op->n; i++) {
        if (op->v[i].is_field) continue;
        str_add(s, any ? ", " : "");
        parameter(s, &op->v[i], false);
        any = true;
    }
    str_addf(s, "%sconst O &o)%s\n{\n    return %s(", any ? ", " : "", member ? " const" : "", op->name);
    any = false;
    for (int i = member ? 1 : 0; i < op->n; i++) {
        str_addf(s, "%s%s%s", any ? ", " : "", op->v[i].is_field ? "o." : "", op->v[i].p.name);
        any = true;
    }
    str_add(s, ");\n}\n");
}

static bool is_member(const struct cxx_op *op)
{
    return op->n && op->v[0].p.kind == PARAM_TENSOR && !op->v[0].p.may_be_null && !op->v[0].is_field;
}

static void table_op(struct str *s, const char *name, const char *now, const char *doc, const char *outs,
                     const struct param *p, int n, bool member)
{
    struct cxx_op op = {.name = name, .now = now, .doc = doc, .outs = outs};
    set_params(&op, p, n);
    if (member && !is_member(&op)) return;
    function(s, &op, p, n, member);
    if (op.options) options_form(s, &op, member);
}

static void elementwise_function(struct str *s, const struct elementwise_row *r, const char *name, bool member)
{
    int first = member ? 1 : 0;
    bool numbers = r->n_in > 1;
    str_addf(s, "/// %s\n", r->e.doc);
    if (name == r->e.was) str_addf(s, "KILN_DEPRECATED(\"%s\")\n", r->name);
    str_addf(s, "KILN_CXX tensor %s(", name);
    gen_elementwise_names(s, r, numbers ? "const operand &" : "const tensor &", first);
    for (int i = 0; i < ELEMENTWISE_MAX_PARAMS && r->e.params[i]; i++)
        str_addf(s, "%sdouble %s", i || r->n_in > first ? ", " : "", r->e.params[i]);
    str_addf(s, ")%s\n{\n    return detail::taken(kiln_%s%s(", member ? " const" : "",
             name == r->e.also && !numbers ? name : r->name, numbers ? "_n" : "");
    for (int i = 0; i < r->n_in; i++) {
        const char *x = elementwise_public_name(r, elementwise_parameter(r, i));
        if (numbers)
            str_addf(s, "%s%s%s", i ? ", " : "", member && !i ? "operand(*this)" : x, ".c()");
        else
            str_addf(s, "%s", member ? "get()" : "x.get()");
    }
    for (int i = 0; i < ELEMENTWISE_MAX_PARAMS && r->e.params[i]; i++) str_addf(s, ", %s", r->e.params[i]);
    str_add(s, "));\n}\n");
}

static void in_place(struct str *s, const struct elementwise_row *r)
{
    bool numbers = r->n_in > 1;
    str_addf(s, "/// %s into the storage of this tensor.\nKILN_CXX tensor &%s_(", r->name, r->name);
    gen_elementwise_names(s, r, "const operand &", 1);
    str_addf(s, ")\n{\n    detail::check(kiln_%s%s(get()", r->name, numbers ? "_n_" : "_");
    for (int i = 1; i < r->n_in; i++) str_addf(s, ", %s.c()", elementwise_public_name(r, i));
    str_add(s, "));\n    return *this;\n}\n");
}

static void elementwise(struct str *s, bool member)
{
    for (int i = 0; i < elementwise_row_count; i++) {
        const struct elementwise_row *r = &elementwise_rows[i];
        elementwise_function(s, r, r->name, member);
        if (r->e.also) elementwise_function(s, r, r->e.also, member);
        if (r->e.was) elementwise_function(s, r, r->e.was, member);
        if (member && (r->e.flags & OP_INPLACE)) in_place(s, r);
    }
}

static void structured(struct str *s, bool member)
{
    for (int i = 0; i < structured_row_count; i++) {
        const struct structured_row *r = &structured_rows[i];
        struct param p[16];
        int n = gen_params(r->args, p, 16), kept = 0;
        if (r->flags & OP_HIDDEN) continue;
        for (int j = 0; j < n; j++)
            if (!gen_is_reserved(r, &p[j])) p[kept++] = p[j];
        table_op(s, r->name, NULL, r->doc, r->outs, p, kept, member);
        if (r->also) table_op(s, r->also, NULL, r->doc, r->outs, p, kept, member);
        if (r->was) table_op(s, r->was, r->name, r->doc, r->outs, p, kept, member);
    }
}

static void composites(struct str *s, bool member)
{
    for (int i = 0; i < composite_row_count; i++) {
        const struct composite_row *r = &composite_rows[i];
        struct param p[16];
        int n = gen_params(r->args, p, 16);
        table_op(s, r->name, NULL, r->doc, r->outs, p, n, member);
        if (r->also) table_op(s, r->also, NULL, r->doc, r->outs, p, n, member);
        if (r->was) table_op(s, r->was, r->name, r->doc, r->outs, p, n, member);
    }
}

static void options_structs(struct str *s, const struct options_row *rows, int count)
{
    for (int i = 0; i < count; i++) {
        struct param f[16];
        int n = gen_params(rows[i].fields, f, 16);
        str_addf(s, "/// %s\nstruct %s_opts {\n", rows[i].doc, rows[i].name);
        for (int j = 0; j < n; j++) {
            str_addf(s, "    %s%s = ", field_type(&f[j]), f[j].name);
            default_value(s, &f[j]);
            str_add(s, ";\n");
        }
        str_add(s, "};\n");
    }
}

kiln_status gen_cxx_header(const char *path)
{
    struct str s;
    str_init(&s);
    str_add(&s, "/// @file ops.hpp\n/// All ops for C++, written by the build from their tables. Included by "
                "kiln/tensor.hpp: twice, with other\n/// macros around it.\n#ifdef KILN_OPS_MEMBERS\n");
    elementwise(&s, true);
    structured(&s, true);
    composites(&s, true);
    str_add(&s, "#elif defined(KILN_OPS_DECLARATIONS)\n");
    for (int i = 0; i < options_row_count; i++) str_addf(&s, "struct %s_opts;\n", options_rows[i].name);
    for (int i = 0; i < composite_options_row_count; i++)
        str_addf(&s, "struct %s_opts;\n", composite_options_rows[i].name);
    str_add(&s, "#else\n");
    options_structs(&s, options_rows, options_row_count);
    options_structs(&s, composite_options_rows, composite_options_row_count);
    elementwise(&s, false);
    structured(&s, false);
    composites(&s, false);
    str_add(&s, "#endif\n");
    return gen_write(NULL, path, &s);
}
