// Rows of the elementwise table for the suite: what they take, their exact results, and where to sample them.
#include "conformance/elementwise.h"
#include <string.h>

// Values of run-time scalars by name; none is a round number in binary, so that their rounding shows.
static double param_value(const char *name)
{
    static const struct {
        const char *name;
        double value;
    } values[] = {{"slope", 0.1},  {"alpha", 1.3}, {"lambda", 0.6}, {"threshold", 0.3},
                  {"value", -7.7}, {"beta", 0.9},  {"rtol", 0.01},  {"atol", 0.001}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (strcmp(values[i].name, name) == 0) return values[i].value;
    return 0.7;
}

bool row_of(const struct op *op, struct row *out)
{
    *out = (struct row){.op = op, .e = op->elementwise, .ref = reference_find(op->name), .n_in = op->max_in};
    for (; out->n_params < 2 && out->e->params[out->n_params]; out->n_params++)
        out->params[out->n_params] = param_value(out->e->params[out->n_params]);
    return out->ref != NULL;
}

bool row_is_condition(const struct row *r, int i)
{
    return r->e->type == TYPE_SELECT && i == 0;
}

bool row_takes(const struct row *r, int dtype)
{
    if (dtype < 0) return false;
    switch (r->e->type) {
    case TYPE_NUMERIC:
    case TYPE_REAL:
    case TYPE_TEST: return dtype != KILN_BOOL || r->e->bexpr;
    case TYPE_BITWISE: return !is_float(dtype);
    case TYPE_INTEGER: return is_integer(dtype);
    default: return true;
    }
}

int row_compute_dtype(const struct row *r, const int *dtypes)
{
    enum { NONE_YET = -2 };
    int d = NONE_YET;
    for (int i = 0; i < r->n_in; i++)
        if (!row_is_condition(r, i)) d = d == NONE_YET ? dtypes[i] : d < 0 ? d : promoted(d, dtypes[i]);
    return d >= 0 && r->e->type == TYPE_FLOAT && !is_float(d) ? KILN_F32 : d;
}

int row_result_dtype(const struct row *r, int compute)
{
    return r->e->type == TYPE_COMPARE || r->e->type == TYPE_TEST || r->e->type == TYPE_LOGICAL ? KILN_BOOL : compute;
}

typedef kiln_tensor *T;
kiln_tensor *row_call(const struct row *r, kiln_tensor *const *in)
{
    void (*f)(void) = r->ref->public_fn;
    double p = (double)r->params[0], q = (double)r->params[1];
    switch (r->n_in * 10 + r->n_params) {
    case 10: return ((T(*)(T))f)(in[0]);
    case 11: return ((T(*)(T, double))f)(in[0], p);
    case 12: return ((T(*)(T, double, double))f)(in[0], p, q);
    case 20: return ((T(*)(T, T))f)(in[0], in[1]);
    case 21: return ((T(*)(T, T, double))f)(in[0], in[1], p);
    case 22: return ((T(*)(T, T, double, double))f)(in[0], in[1], p, q);
    case 30: // in a graph the mask is first
        if (!strcmp(r->op->name, "masked_fill")) return ((T(*)(T, T, T))f)(in[1], in[0], in[2]);
        return ((T(*)(T, T, T))f)(in[0], in[1], in[2]);
    default: return NULL;
    }
}

long double row_exact(const struct row *r, int compute, int result, const long double *in)
{
    long double v[3] = {0}, p[2];
    reference_class.is_f64 = compute == KILN_F64;
    reference_class.is_i64 = compute == KILN_I64 || compute == KILN_U32;
    reference_class.is_u64 = compute == KILN_U64;
    for (int i = 0; i < r->n_in; i++) v[i] = in[i];
    if (r->e->type == TYPE_LOGICAL) return (long double)r->ref->as_int(v[0] != 0, v[1] != 0, v[2] != 0, true);
    if (compute == KILN_U64)
        return wrapped(result, (int64_t)r->ref->as_unsigned((uint64_t)v[0], (uint64_t)v[1], (uint64_t)v[2]));
    if (!is_float(compute))
        return wrapped(result, r->ref->as_int((int64_t)v[0], (int64_t)v[1], (int64_t)v[2], compute == KILN_BOOL));
    int cls = compute == KILN_F64 ? KILN_F64 : KILN_F32;
    for (int i = 0; i < 3; i++) v[i] = quantized(cls, v[i]);
    for (int i = 0; i < 2; i++) p[i] = quantized(cls, r->params[i]);
    return r->ref->as_float(v[0], v[1], v[2], p[0], p[1]);
}

void row_domain(const struct row *r, int input, int dtype, double *low, double *high)
{
    *low = r->e->domain[input][0];
    *high = r->e->domain[input][1];
    if (*low == 0 && *high == 0) *low = -3, *high = 3;
    if (!is_float(dtype) && *high - *low < 2) *low = floor(*low), *high = *low + 3;
}

int special_values(int dtype, long double *v, int max)
{
    int n = 0;
    long double list[32];
    if (dtype == KILN_BOOL)
        list[n++] = 0, list[n++] = 1;
    else if (!is_float(dtype)) {
        const int64_t least = (int64_t)integer_min(dtype), most = integer_bits(integer_max(dtype)), half = most / 2 + 1;
        const int64_t ints[] = {0, 1,  -1, 2,  -2, 7,   least, most,      least + 1,
                                8, 31, 32, 63, 64, -13, 100,   INT64_MIN, half};
        for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++) list[n++] = wrapped(dtype, ints[i]);
    } else {
        int fraction = fraction_bits(dtype);
        long double least = scalbnl(1, least_exponent(dtype)), denormal = scalbnl(least, 1 - fraction);
        long double greatest = scalbnl(2 - scalbnl(1, 1 - fraction), greatest_exponent(dtype));
        const long double floats[] = {0,
                                      INFINITY,
                                      NAN,
                                      1,
                                      -1,
                                      -0.0L,
                                      -INFINITY,
                                      denormal,
                                      -denormal,
                                      greatest,
                                      -greatest,
                                      least,
                                      -least,
                                      least - denormal,
                                      denormal - least,
                                      0.5L,
                                      -0.5L,
                                      2,
                                      -2,
                                      3,
                                      -2.5L,
                                      1 - scalbnl(1, -fraction),
                                      1 + scalbnl(1, 1 - fraction),
                                      100,
                                      -20,
                                      0.25L,
                                      greatest / 3,
                                      greatest / 20};
        for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) list[n++] = floats[i];
    }
    if (n > max) n = max;
    for (int i = 0; i < n; i++) v[i] = list[i];
    return n;
}
