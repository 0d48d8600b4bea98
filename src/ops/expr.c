// Parses the parameters and the expression of a row for one class.
#include "ops/expr.h"
#include <string.h>

const char *elementwise_input_name(int n_in, int i)
{
    static const char *const names[] = {"a", "b", "c"};
    return n_in == 1 ? "x" : names[i];
}

const char *elementwise_public_name(const struct elementwise_row *r, int i)
{
    return r->e.in[i] ? r->e.in[i] : elementwise_input_name(r->n_in, i);
}

int elementwise_parameter(const struct elementwise_row *r, int k)
{
    return r->e.call ? r->e.call[k] - 'a' : k;
}

const char *elementwise_name_in_expr(const struct op *op, int i)
{
    return op->flags & OP_HIDDEN ? op->in_names[i] : elementwise_input_name(op->max_in, i);
}

const char *elementwise_expr(const struct op_elementwise *e, enum scalar_class cls)
{
    if ((cls == CLASS_I32 || cls == CLASS_I64) && e->iexpr) return e->iexpr;
    if (cls == CLASS_BOOL && e->bexpr) return e->bexpr;
    return e->expr;
}

static enum scalar_class class_by_name(const char *name, size_t n, enum scalar_class fallback)
{
    for (int c = 0; c < CLASS_COUNT; c++) {
        const char *s = scalar_class_name((enum scalar_class)c);
        if (strlen(s) == n && !strncmp(s, name, n)) return (enum scalar_class)c;
    }
    return fallback;
}

// "x t:i64" into parameters; a name without class has the program's.
int expr_params(struct arena *a, const char *text, enum scalar_class cls, struct scalar_param *out)
{
    int n = 0;
    for (const char *p = text ? text : ""; *p;) {
        while (*p == ' ') p++;
        size_t len = strcspn(p, " ");
        if (!len) break;
        const char *colon = memchr(p, ':', len);
        size_t name_len = colon ? (size_t)(colon - p) : len;
        out[n].name = arena_strndup(a, p, name_len);
        out[n].cls = colon ? class_by_name(colon + 1, len - name_len - 1, cls) : cls;
        n++;
        p += len;
    }
    return n;
}

// `$T` in an expression stands for the class's name, for conversions.
static const char *with_class(struct arena *a, const char *text, enum scalar_class cls)
{
    struct str s;
    str_init(&s);
    for (const char *p = text; *p; p++) {
        if (p[0] == '$' && p[1] == 'T') {
            str_add(&s, scalar_class_name(cls));
            p++;
        } else
            str_addn(&s, p, 1);
    }
    const char *r = str_check(&s) ? NULL : arena_strdup(a, str_text(&s));
    str_free(&s);
    return r;
}

kiln_status expr_parse(struct arena *a, const char *text, const struct scalar_param *params, int n_params,
                       enum scalar_class cls, struct scalar_dag *out)
{
    const char *typed = with_class(a, text, cls);
    return typed ? scalar_parse(a, typed, params, n_params, cls, out) : error_pending;
}
