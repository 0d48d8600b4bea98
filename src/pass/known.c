// Computes ops whose operands are known numbers, bit for bit as the kernels would.
#include "pass/known.h"
#include "scalar/number.h"
#include "ops/elementwise.h"
#include <math.h>
#include <string.h>

struct known known_number(const struct ir_value *v)
{
    return (struct known){.is = true, .weak = true, .dtype = v->type.dtype, .number = v->number, .integer = v->integer};
}

static union scalar_value of_number(double number, int64_t integer, enum scalar_class cls)
{
    union scalar_value r = {.bits = 0};
    switch (cls) {
    case CLASS_F32: r.f32 = (float)number; break;
    case CLASS_F64: r.f64 = number; break;
    case CLASS_I32: r.i32 = (int32_t)(uint32_t)(uint64_t)integer; break;
    case CLASS_I64: r.i64 = integer; break;
    default: r.b = number != 0 || integer != 0;
    }
    return r;
}

struct known known_real(uint8_t dtype, double value)
{
    enum scalar_class cls = dtype_class(dtype);
    return known_store(of_number(value, number_whole(dtype, value), cls), cls, dtype);
}

// From one class to another, by the rules of the conversions of the scalar language.
static union scalar_value convert(union scalar_value v, enum scalar_class from, enum scalar_class to)
{
    if (from == to) return v;
    struct arena a;
    struct scalar_dag dag;
    struct scalar_param x = {"x", from};
    char text[16] = {0};
    strcat(strcat(strcat(text, scalar_class_name(to)), "("), "x)");
    arena_init(&a);
    union scalar_value r = {.bits = 0};
    if (!scalar_parse(&a, text, &x, 1, to, &dag)) r = scalar_eval(&dag, &v);
    arena_finish(&a);
    return r;
}

bool known_needs_sign(const struct known *k, enum scalar_class cls)
{
    return k->is && !k->weak && k->dtype == KILN_U64 && (cls == CLASS_F32 || cls == CLASS_F64) && k->v.i64 < 0;
}

union scalar_value known_load(const struct known *k, enum scalar_class cls)
{
    return k->weak ? of_number(k->number, k->integer, cls) : convert(k->v, dtype_class(k->dtype), cls);
}

struct known known_store(union scalar_value v, enum scalar_class cls, uint8_t dtype)
{
    return (struct known){.is = true, .dtype = dtype, .v = number_stored(dtype, convert(v, cls, dtype_class(dtype)))};
}

bool known_as_double(const struct known *k, double *out)
{
    if (k->weak) {
        *out = k->number;
        return true;
    }
    switch (dtype_class(k->dtype)) {
    case CLASS_F32: *out = (double)k->v.f32; return true;
    case CLASS_F64: *out = k->v.f64; return true;
    case CLASS_I32: *out = k->v.i32; return true;
    case CLASS_BOOL: *out = k->v.b; return true;
    default: *out = number_of_dtype(k->dtype, k->v); return fabs(*out) <= 0x1p53;
    }
}

static const char *expression(const struct op_elementwise *e, enum scalar_class cls)
{
    if ((cls == CLASS_I32 || cls == CLASS_I64) && e->iexpr) return e->iexpr;
    return cls == CLASS_BOOL && e->bexpr ? e->bexpr : e->expr;
}

kiln_status known_expression(struct arena *a, const struct op *op, enum scalar_class cls, struct scalar_dag *out)
{
    const struct op_elementwise *e = op->elementwise;
    struct scalar_param p[16];
    int n = 0;
    if (!e || op->index >= op_count || op->max_in + op->n_attrs > 16)
        return error_set(KILN_E_UNSUPPORTED, "passes: %s has no expression", op->name);
    for (; n < op->max_in; n++)
        p[n] = (struct scalar_param){op->in_names[n], e->condition_mask >> n & 1 ? CLASS_BOOL : cls};
    for (int i = 0; i < op->n_attrs; i++) p[n++] = (struct scalar_param){op->attrs[i].name, cls};
    return scalar_parse(a, expression(e, cls), p, n, cls, out);
}

kiln_status known_elementwise(const struct op_call *c, const struct known *in, struct known *out)
{
    const struct op_elementwise *e = c->op->elementwise;
    enum scalar_class cls = e->type == TYPE_LOGICAL ? CLASS_BOOL : dtype_class(c->compute_dtype);
    union scalar_value v[16];
    struct arena a;
    struct scalar_dag dag;
    int n = 0;
    out->is = false;
    for (int i = 0; i < c->n_in; i++)
        if (known_needs_sign(&in[i], cls)) return KILN_OK;
    arena_init(&a);
    kiln_status status = known_expression(&a, c->op, cls, &dag);
    for (; n < c->n_in && !status; n++) v[n] = known_load(&in[n], e->condition_mask >> n & 1 ? CLASS_BOOL : cls);
    for (int i = 0; i < c->op->n_attrs && !status; i++)
        v[n++] = of_number(c->attrs[i].f, number_whole(KILN_I64, c->attrs[i].f), cls);
    if (!status) *out = known_store(scalar_eval(&dag, v), dag.nodes[dag.root].cls, c->out[0].dtype);
    arena_finish(&a);
    if (status && kiln_error() == KILN_E_MEMORY) return status;
    kiln_error_clear(); // a class without kernels: lowering will say so
    return KILN_OK;
}
