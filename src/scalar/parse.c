// Text to DAG: a Pratt parser over the builder of dag.h.
//
// Each rule yields a value: a node, or a weak number that has not met a class yet. Weak numbers combine with each other
// in double (and in 64-bit integers while both are whole), so that 1/3 rounds once, into the class it finally meets.
// The text ends at the first mistake; the message shows the part of the text around it. Nesting is bounded, so that no
// text can exhaust the stack. Numbers are read in the C locale, whatever the program has set.
#include "base/c_locale.h"
#include "scalar/dag.h"
#include "scalar/reduce.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 128, MAX_BINDINGS = 512, MAX_ARGS = 3 };

struct value {
    bool weak, whole; // whole: a weak number that is the integer i
    double d;
    int64_t i;
    int node;
};

struct binding {
    const char *name;
    size_t length;
    struct value value;
};

struct scalar_parser {
    struct dag_builder *b;
    const char *text, *p;
    const struct scalar_param *params;
    int n_params;
    enum scalar_class cls;
    struct binding *bindings;
    int n_bindings, depth;
};

// A binary operator: a longer spelling comes before its prefix.
static const struct {
    const char *text;
    uint8_t level, prim;
    bool logical;
} operators[] = {
    {"||", 1, PRIM_or, true},   {"^^", 2, PRIM_xor, true},  {"&&", 3, PRIM_and, true},  {"|", 4, PRIM_or, false},
    {"^", 5, PRIM_xor, false},  {"&", 6, PRIM_and, false},  {"==", 7, PRIM_eq, false},  {"!=", 7, PRIM_ne, false},
    {"<<", 9, PRIM_shl, false}, {">>", 9, PRIM_shr, false}, {"<=", 8, PRIM_le, false},  {"<", 8, PRIM_lt, false},
    {">=", 8, PRIM_ge, false},  {">", 8, PRIM_gt, false},   {"+", 10, PRIM_add, false}, {"-", 10, PRIM_sub, false},
    {"*", 11, PRIM_mul, false}, {"/", 11, PRIM_div, false},
};

static kiln_status parse_expr(struct scalar_parser *p, struct value *out);
static kiln_status parse_binary(struct scalar_parser *p, int level, struct value *out);

// The text around the mistake, at most 60 characters of it, then what is wrong.
__attribute__((format(printf, 3, 4))) static kiln_status fail(struct scalar_parser *p, const char *at,
                                                              const char *format, ...)
{
    if (error_pending) return error_pending;
    size_t offset = (size_t)(at - p->text), from = offset > 30 ? offset - 30 : 0, length = strlen(p->text + from);
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return error_set(KILN_E_ARGUMENT, "expression \"%s%.*s%s\", at %zu: %s", from ? "..." : "",
                     (int)(length > 60 ? 60 : length), p->text + from, length > 60 ? "..." : "", offset + 1, what);
}

static void skip_space(struct scalar_parser *p)
{
    while (isspace((unsigned char)*p->p)) p->p++;
}

static bool accept(struct scalar_parser *p, char c)
{
    skip_space(p);
    if (*p->p != c) return false;
    p->p++;
    return true;
}

static kiln_status expect(struct scalar_parser *p, char c)
{
    if (accept(p, c)) return KILN_OK;
    if (*p->p) return fail(p, p->p, "'%c' expected, found '%c'", c, *p->p);
    return fail(p, p->p, "'%c' expected, found the end", c);
}

static kiln_status from_node(int node, struct value *out)
{
    *out = (struct value){.node = node};
    return node < 0 ? error_pending : KILN_OK;
}

// Gives a weak number the class `cls`; leaves other values alone.
static kiln_status settle(struct scalar_parser *p, const char *at, struct value *v, enum scalar_class cls)
{
    if (!v->weak) return KILN_OK;
    union scalar_value c = {.bits = 0};
    switch (cls) {
    case CLASS_F32: c.f32 = v->whole ? (float)v->i : (float)v->d; break;
    case CLASS_F64: c.f64 = v->whole ? (double)v->i : v->d; break;
    case CLASS_I32:
        // Up to 0xffffffff, so that a bit pattern can be written in hexadecimal.
        if (!v->whole || v->i < INT32_MIN || v->i > UINT32_MAX) return fail(p, at, "%.17g is no i32", v->d);
        c.i32 = (int32_t)(uint32_t)(uint64_t)v->i;
        break;
    case CLASS_I64:
        if (!v->whole) return fail(p, at, "%.17g is no i64", v->d);
        c.i64 = v->i;
        break;
    default:
        if (!v->whole || (v->i != 0 && v->i != 1)) return fail(p, at, "%.17g is no bool", v->d);
        c.b = (uint8_t)v->i;
        break;
    }
    return from_node(dag_const(p->b, cls, c), v);
}

// Brings `n` values to one class: that of the first which has one, else the program's.
static kiln_status unify(struct scalar_parser *p, const char *at, const char *what, struct value *v, int n,
                         enum scalar_class *cls)
{
    *cls = p->cls;
    for (int i = n - 1; i >= 0; i--)
        if (!v[i].weak) *cls = dag_class(p->b, v[i].node);
    for (int i = 0; i < n; i++) {
        TRY(settle(p, at, &v[i], *cls));
        enum scalar_class other = dag_class(p->b, v[i].node);
        if (other != *cls)
            return fail(p, at, "%s: %s meets %s; convert with %s(..)", what, scalar_class_name(*cls),
                        scalar_class_name(other), scalar_class_name(*cls));
    }
    return KILN_OK;
}

// Two weak numbers: false when the operator needs a class.
static bool fold_weak(enum scalar_prim prim, const struct value *x, const struct value *y, struct value *out)
{
    struct value r = {.weak = true};
    bool whole = x->whole && y->whole;
    switch (prim) {
    case PRIM_add: r.d = x->d + y->d, r.whole = whole && !__builtin_add_overflow(x->i, y->i, &r.i); break;
    case PRIM_sub: r.d = x->d - y->d, r.whole = whole && !__builtin_sub_overflow(x->i, y->i, &r.i); break;
    case PRIM_mul: r.d = x->d * y->d, r.whole = whole && !__builtin_mul_overflow(x->i, y->i, &r.i); break;
    case PRIM_div: r.d = x->d / y->d; break;
    default: return false;
    }
    *out = r;
    return true;
}

static kiln_status apply_prim(struct scalar_parser *p, const char *at, enum scalar_prim prim, struct value *v,
                              struct value *out)
{
    int arity = prim_arity((uint16_t)prim), first = prim_key_arg((uint16_t)prim);
    enum scalar_class cls = CLASS_I64;
    const char *name = scalar_prim_name((uint16_t)prim);
    if (arity == 2 && v[0].weak && v[1].weak && fold_weak(prim, &v[0], &v[1], out)) return KILN_OK;
    if (prim == PRIM_neg && v[0].weak && !(v[0].whole && (v[0].i == 0 || v[0].i == INT64_MIN))) {
        *out = (struct value){.weak = true, .whole = v[0].whole, .d = -v[0].d, .i = v[0].whole ? -v[0].i : 0};
        return KILN_OK;
    }
    if (first) {
        TRY(settle(p, at, &v[0], CLASS_BOOL));
        if (dag_class(p->b, v[0].node) != CLASS_BOOL)
            return fail(p, at, "the condition is %s, not bool", scalar_class_name(dag_class(p->b, v[0].node)));
    }
    if (prim == PRIM_from_bits && v[0].weak)
        TRY(settle(p, at, &v[0], p->cls == CLASS_F64 || p->cls == CLASS_I64 ? CLASS_I64 : CLASS_I32));
    // f64(0.1) is the double next to 0.1, whatever the class of the program.
    bool converts = prim >= PRIM_to_f32 && prim <= PRIM_to_bool;
    if (converts && v[0].weak) TRY(settle(p, at, &v[0], v[0].whole ? CLASS_I64 : CLASS_F64));
    if (arity) TRY(unify(p, at, name, v + first, arity - first, &cls));
    if (arity && !prim_spelling((uint16_t)prim, cls) && !converts)
        return fail(p, at, "%s does not take %s", name, scalar_class_name(cls));
    return from_node(dag_prim(p->b, prim, v[0].node, v[1].node, v[2].node), out);
}

static kiln_status apply_lib(struct scalar_parser *p, const char *at, int lib, struct value *v, struct value *out)
{
    const struct scalar_lib_row *row = scalar_lib_row((uint16_t)lib);
    enum scalar_class cls;
    TRY(unify(p, at, row->name, v, row->arity, &cls));
    // A float class without expression is found when the call is expanded, for a device may have a builtin.
    if (!row->expr[cls] && cls != CLASS_F32 && cls != CLASS_F64)
        return fail(p, at, "%s does not take %s", row->name, scalar_class_name(cls));
    const int arg[3] = {v[0].node, v[1].node, v[2].node};
    return from_node(dag_lib(p->b, (uint16_t)lib, arg), out);
}

static kiln_status apply_reduce(struct scalar_parser *p, const char *at, int how, struct value *v, struct value *out)
{
    bool wants_bool = how == REDUCE_ANY || how == REDUCE_ALL;
    TRY(settle(p, at, v, wants_bool ? CLASS_BOOL : p->cls));
    enum scalar_class cls = dag_class(p->b, v->node);
    if ((cls == CLASS_BOOL) != wants_bool)
        return fail(p, at, "r%s does not take %s", reduce_info[how].name, scalar_class_name(cls));
    return from_node(dag_reduce(p->b, (enum scalar_reduce)how, v->node), out);
}

static struct nearest_hint nearest_function(const char *name, size_t length)
{
    struct nearest near;
    nearest_begin(&near, name, length);
    prim_nearest(&near);
    scalar_lib_nearest(&near);
    return nearest_hint(&near);
}

static kiln_status parse_call(struct scalar_parser *p, const char *name, size_t length, struct value *out)
{
    struct value v[MAX_ARGS] = {{0}, {0}, {0}};
    int n = 0, prim = prim_find(name, length), lib = prim < 0 ? scalar_lib_find(name, length) : -1;
    int reduce = prim < 0 && lib < 0 ? reduce_find(name, length) : -1;
    if (prim < 0 && lib < 0 && reduce < 0)
        return fail(p, name, "unknown function \"%.*s\"%s", (int)length, name, nearest_function(name, length).s);
    int arity = prim >= 0 ? prim_arity((uint16_t)prim) : lib >= 0 ? scalar_lib_row((uint16_t)lib)->arity : 1;
    if (!accept(p, ')')) {
        do {
            if (n == arity)
                return fail(p, p->p, "%.*s takes %d argument%s", (int)length, name, arity, arity == 1 ? "" : "s");
            TRY(parse_expr(p, &v[n++]));
        } while (accept(p, ','));
        TRY(expect(p, ')'));
    }
    if (n != arity)
        return fail(p, name, "%.*s takes %d argument%s, not %d", (int)length, name, arity, arity == 1 ? "" : "s", n);
    if (prim >= 0) return apply_prim(p, name, (enum scalar_prim)prim, v, out);
    return lib >= 0 ? apply_lib(p, name, lib, v, out) : apply_reduce(p, name, reduce, v, out);
}

static kiln_status parse_number(struct scalar_parser *p, struct value *out)
{
    char *end_int, *end_float;
    errno = 0;
    unsigned long long u = strtoull(p->p, &end_int, p->p[0] == '0' && (p->p[1] | 32) == 'x' ? 16 : 10);
    bool in_range = errno == 0;
    double d = c_strtod(p->p, &end_float);
    // A hexadecimal integer may use all 64 bits; a decimal one beyond 2^63 is a float.
    bool hex = p->p[0] == '0' && (p->p[1] | 32) == 'x';
    *out = (struct value){.weak = true, .d = d};
    if (end_int == end_float && in_range && (hex || u <= INT64_MAX)) out->whole = true, out->i = (int64_t)u;
    if (end_float == p->p || isalnum((unsigned char)*end_float) || *end_float == '_')
        return fail(p, p->p, "malformed number");
    p->p = end_float;
    return KILN_OK;
}

static const struct {
    const char *name;
    double value;
} constants[] = {{"inf", HUGE_VAL}, {"nan", __builtin_nan("")}, {"pi", 3.14159265358979323846}};

static kiln_status parse_name(struct scalar_parser *p, struct value *out)
{
    const char *name = p->p;
    while (isalnum((unsigned char)*p->p) || *p->p == '_') p->p++;
    size_t length = (size_t)(p->p - name);
    if (accept(p, '(')) return parse_call(p, name, length, out);
    for (int i = 0; i < p->n_bindings; i++) {
        const struct binding *b = &p->bindings[i];
        if (b->length != length || memcmp(b->name, name, length) != 0) continue;
        *out = b->value;
        return KILN_OK;
    }
    for (int i = 0; i < p->n_params; i++)
        if (strlen(p->params[i].name) == length && memcmp(p->params[i].name, name, length) == 0)
            return from_node(dag_input(p->b, p->params[i].cls, (uint16_t)i), out);
    for (size_t i = 0; i < COUNT_OF(constants); i++) {
        if (strlen(constants[i].name) != length || memcmp(constants[i].name, name, length) != 0) continue;
        *out = (struct value){.weak = true, .d = constants[i].value};
        return KILN_OK;
    }
    if ((length == 4 && memcmp(name, "true", 4) == 0) || (length == 5 && memcmp(name, "false", 5) == 0))
        return from_node(dag_number(p->b, CLASS_BOOL, length == 4), out);
    return fail(p, name, "unknown name \"%.*s\"", (int)length, name);
}

static kiln_status parse_unary(struct scalar_parser *p, struct value *out)
{
    skip_space(p);
    const char *at = p->p;
    if (isdigit((unsigned char)*at) || (*at == '.' && isdigit((unsigned char)at[1]))) return parse_number(p, out);
    if (isalpha((unsigned char)*at) || *at == '_') return parse_name(p, out);
    if (accept(p, '(')) {
        TRY(parse_expr(p, out));
        return expect(p, ')');
    }
    if (*at != '-' && *at != '!' && *at != '~')
        return *at ? fail(p, at, "a value expected, found '%c'", *at) : fail(p, at, "a value expected, found the end");
    p->p++;
    if (++p->depth > MAX_DEPTH) return fail(p, at, "nested too deeply");
    struct value v[MAX_ARGS] = {{0}, {0}, {0}};
    TRY(parse_unary(p, v));
    p->depth--;
    if (*at == '-') return apply_prim(p, at, PRIM_neg, v, out);
    TRY(settle(p, at, v, *at == '!' ? CLASS_BOOL : p->cls));
    if ((dag_class(p->b, v->node) == CLASS_BOOL) != (*at == '!'))
        return fail(p, at, "'%c' does not take %s", *at, scalar_class_name(dag_class(p->b, v->node)));
    return apply_prim(p, at, PRIM_not, v, out);
}

static int find_operator(struct scalar_parser *p)
{
    skip_space(p);
    for (size_t i = 0; i < COUNT_OF(operators); i++)
        if (strncmp(p->p, operators[i].text, strlen(operators[i].text)) == 0) return (int)i;
    return -1;
}

static kiln_status parse_binary(struct scalar_parser *p, int level, struct value *out)
{
    struct value v[MAX_ARGS] = {{0}, {0}, {0}};
    TRY(parse_unary(p, v));
    for (;;) {
        int op = find_operator(p);
        if (op < 0 || operators[op].level < level) break;
        const char *at = p->p;
        p->p += strlen(operators[op].text);
        TRY(parse_binary(p, operators[op].level + 1, &v[1]));
        if (operators[op].logical) {
            for (int i = 0; i < 2; i++) {
                TRY(settle(p, at, &v[i], CLASS_BOOL));
                enum scalar_class cls = dag_class(p->b, v[i].node);
                if (cls != CLASS_BOOL)
                    return fail(p, at, "%s does not take %s", operators[op].text, scalar_class_name(cls));
            }
        }
        struct value r;
        TRY(apply_prim(p, at, (enum scalar_prim)operators[op].prim, v, &r));
        v[0] = r;
        v[1] = (struct value){0};
    }
    *out = v[0];
    return KILN_OK;
}

static kiln_status parse_expr(struct scalar_parser *p, struct value *out)
{
    struct value v[MAX_ARGS];
    if (++p->depth > MAX_DEPTH) return fail(p, p->p, "nested too deeply");
    TRY(parse_binary(p, 1, &v[0]));
    skip_space(p);
    const char *at = p->p;
    if (accept(p, '?')) {
        TRY(parse_expr(p, &v[1]));
        TRY(expect(p, ':'));
        TRY(parse_expr(p, &v[2]));
        TRY(apply_prim(p, at, PRIM_select, v, out));
    } else {
        *out = v[0];
    }
    p->depth--;
    return KILN_OK;
}

// True when a binding `name =` starts here; leaves the position behind the '='.
static bool accept_binding(struct scalar_parser *p, const char **name, size_t *length)
{
    const char *start = p->p;
    skip_space(p);
    *name = p->p;
    if (isalpha((unsigned char)*p->p) || *p->p == '_')
        while (isalnum((unsigned char)*p->p) || *p->p == '_') p->p++;
    *length = (size_t)(p->p - *name);
    skip_space(p);
    if (*length && p->p[0] == '=' && p->p[1] != '=') {
        p->p++;
        return true;
    }
    p->p = start;
    return false;
}

static bool is_taken(const struct scalar_parser *p, const char *name, size_t length)
{
    for (int i = 0; i < p->n_bindings; i++)
        if (p->bindings[i].length == length && memcmp(p->bindings[i].name, name, length) == 0) return true;
    for (int i = 0; i < p->n_params; i++)
        if (strlen(p->params[i].name) == length && memcmp(p->params[i].name, name, length) == 0) return true;
    return false;
}

static kiln_status parse_program(struct scalar_parser *p, struct value *out)
{
    const char *name;
    size_t length;
    while (accept_binding(p, &name, &length)) {
        if (is_taken(p, name, length)) return fail(p, name, "\"%.*s\" is bound already", (int)length, name);
        if (p->n_bindings == MAX_BINDINGS) return fail(p, name, "more than %d bindings", MAX_BINDINGS);
        struct value v;
        TRY(parse_expr(p, &v));
        TRY(expect(p, ';'));
        p->bindings[p->n_bindings++] = (struct binding){name, length, v};
    }
    TRY(parse_expr(p, out));
    skip_space(p);
    if (*p->p) return fail(p, p->p, "unexpected '%c'", *p->p);
    return settle(p, p->text, out, p->cls);
}

kiln_status scalar_parse(struct arena *a, const char *text, const struct scalar_param *params, int n_params,
                         enum scalar_class cls, struct scalar_dag *out)
{
    struct dag_builder b;
    dag_begin(&b);
    struct scalar_parser p = {.b = &b, .text = text, .p = text, .params = params, .n_params = n_params, .cls = cls};
    p.bindings = arena_alloc(&b.scratch, MAX_BINDINGS * sizeof *p.bindings);
    struct value root;
    kiln_status status = p.bindings ? parse_program(&p, &root) : error_pending;
    if (!status) status = dag_finish(&b, a, root.node, out);
    dag_end(&b);
    return status;
}
