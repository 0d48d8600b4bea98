// From the front door to what an op on u64 is made of.
#include "ops/families.h"
#include "tensor/unsigned.h"

kiln_tensor *unsigned_bits(kiln_tensor *x)
{
    return kiln_cast(x, KILN_I64);
}

kiln_tensor *unsigned_number(kiln_tensor *x)
{
    return kiln_cast(x, KILN_U64);
}

kiln_tensor *unsigned_key(kiln_tensor *x)
{
    return kiln_bitwise_xor(unsigned_bits(x), kiln_scalar_int(INT64_MIN));
}

kiln_tensor *unsigned_of_key(kiln_tensor *k)
{
    return unsigned_number(kiln_bitwise_xor(k, kiln_scalar_int(INT64_MIN)));
}

static void on_keys(const struct unsigned_call *c, kiln_tensor **out)
{
    kiln_tensor *keys[16];
    for (int i = 0; i < c->n_in; i++) keys[i] = c->numbers >> i & 1 ? unsigned_key(c->in[i]) : c->in[i];
    if (!error_pending) op_apply(c->op, NULL, c->n_in, keys, c->attrs, out);
}

// Ops whose first result is one of the numbers that they are given.
static void picks(const struct unsigned_call *c, kiln_tensor **out)
{
    on_keys(c, out);
    if (!error_pending) out[0] = unsigned_of_key(out[0]);
}

// Who is the largest is said by keys, and what comes back are numbers that are added.
static void picks_for(const struct unsigned_call *c, kiln_tensor **out)
{
    kiln_tensor *in[2] = {unsigned_key(c->in[0]), unsigned_bits(c->in[1])};
    if (!error_pending) op_apply(c->op, NULL, 2, in, c->attrs, out);
    if (!error_pending) out[0] = unsigned_number(out[0]);
}

// No number is negative.
static void same(const struct unsigned_call *c, kiln_tensor **out)
{
    out[0] = kiln_positive(c->in[0]);
}

static void sign(const struct unsigned_call *c, kiln_tensor **out)
{
    out[0] = unsigned_number(kiln_not_equal(c->in[0], kiln_scalar_int(0)));
}

static void never(const struct unsigned_call *c, kiln_tensor **out)
{
    out[0] = kiln_not_equal(c->in[0], c->in[0]);
}

static void at_most_6(const struct unsigned_call *c, kiln_tensor **out)
{
    out[0] = kiln_minimum(c->in[0], unsigned_number(kiln_scalar_int(6)));
}

static void distance(const struct unsigned_call *c, kiln_tensor **out)
{
    out[0] = kiln_sub(kiln_maximum(c->in[0], c->in[1]), kiln_minimum(c->in[0], c->in[1]));
}

// An exponent of 2^63 or more as the bits below, and a^(2^63), which is 1 of odd numbers and 0 of even ones.
static void power(const struct unsigned_call *c, kiln_tensor **out)
{
    kiln_tensor *a = unsigned_bits(c->in[0]), *b = unsigned_bits(c->in[1]);
    kiln_tensor *low = kiln_pow(a, kiln_bitwise_and(b, kiln_scalar_int(INT64_MAX)));
    kiln_tensor *one = kiln_scalar_int(1),
                *high = kiln_where(kiln_less(b, kiln_scalar_int(0)), kiln_bitwise_and(a, one), one);
    out[0] = unsigned_number(kiln_mul(low, high));
}

enum { ALL = 0xffff, NOT_THE_INDEX = 0xfffd };
static const struct rule {
    uint16_t op;
    unsigned_fn *fn;
    uint16_t numbers; // which inputs are numbers that are promoted; 0: all
} rules[] = {
    {OP_less, on_keys},
    {OP_less_equal, on_keys},
    {OP_greater, on_keys},
    {OP_greater_equal, on_keys},
    {OP_argmax, on_keys},
    {OP_argmin, on_keys},
    {OP_argsort, on_keys},
    {OP_maximum, picks},
    {OP_minimum, picks},
    {OP_clip, picks},
    {OP_max, picks},
    {OP_min, picks},
    {OP_cummax, picks},
    {OP_cummin, picks},
    {OP_sort, picks},
    {OP_topk, picks},
    {OP_max_pool2d, picks},
    {OP_max_pool2d_backward, picks_for},
    {OP_scatter_max, picks, NOT_THE_INDEX},
    {OP_scatter_min, picks, NOT_THE_INDEX},
    {OP_searchsorted, on_keys},
    {OP_abs, same},
    {OP_relu, same},
    {OP_sign, sign},
    {OP_signbit, never},
    {OP_relu6, at_most_6},
    {OP_abs_difference, distance},
    {OP_pow, power},
    {OP_floor_divide, unsigned_floor_divide},
    {OP_remainder, unsigned_remainder},
    {OP_fmod, unsigned_remainder},
    {OP_bitwise_right_shift, unsigned_shift_right},
};

static const struct rule *rule_of(const struct op *op)
{
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        if (op->index == rules[i].op) return &rules[i];
    return NULL;
}

// Whether u64 is what all numbers are promoted to.
static bool promotes_to_u64(int n_in, kiln_tensor *const *in, uint16_t numbers)
{
    for (int i = 0; i < n_in; i++) {
        if (!in[i] || in[i]->magic != TENSOR_ALIVE) return false;
        if (!(numbers >> i & 1)) continue;
        const struct type *t = &in[i]->type;
        bool integer = dtype_kind_of[t->dtype] != KIND_FLOAT;
        if (!integer || (!t->weak && t->dtype != KILN_BOOL && dtype_info[t->dtype].is_signed)) return false;
    }
    return true;
}

bool unsigned_apply(const struct op *op, int n_in, kiln_tensor *const *in, struct attr *attrs, kiln_tensor **out)
{
    const struct rule *rule = rule_of(op);
    uint16_t numbers = rule && rule->numbers ? rule->numbers : ALL;
    if (!rule || n_in < op->min_in || n_in > op->max_in || !promotes_to_u64(n_in, in, numbers)) return false;
    struct kiln_scope scope;
    kiln_tensor *wide[16];
    struct unsigned_call c = {op, n_in, numbers, wide, attrs};
    scope_enter(&scope);
    for (int i = 0; i < n_in; i++) {
        bool is_u64 = in[i]->type.dtype == KILN_U64 || !(numbers >> i & 1);
        wide[i] = is_u64 ? in[i] : unsigned_number(in[i]);
    }
    if (!error_pending) rule->fn(&c, out);
    if (error_pending) {
        error_name_op(op->name);
        for (int i = 0; i < op->n_out; i++) out[i] = NULL;
    }
    scope_leave(&scope, out, error_pending ? 0 : op->n_out);
    return true;
}
