// From the front door to what an op on u64 is made of.
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

static void up_to_6(const struct unsigned_call *c, kiln_tensor **out)
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

static unsigned_fn *const ways[U64_WAYS] = {
    [U64_ON_KEYS] = on_keys,
    [U64_PICKS] = picks,
    [U64_PICKS_FOR] = picks_for,
    [U64_SAME] = same,
    [U64_SIGN] = sign,
    [U64_NEVER] = never,
    [U64_UP_TO_6] = up_to_6,
    [U64_DISTANCE] = distance,
    [U64_POWER] = power,
    [U64_QUOTIENT] = unsigned_quotient,
    [U64_REMAINDER] = unsigned_remainder,
    [U64_SHIFT_RIGHT] = unsigned_shift_right,
};

// Which inputs are numbers that are promoted: all but indices.
static uint16_t numbers_of(const struct op *op)
{
    return op->indexed.bound == INDEX_NONE ? 0xffff : (uint16_t) ~(1u << op->indexed.operand);
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
    uint16_t numbers = numbers_of(op);
    if (!op->u64 || n_in < op->min_in || n_in > op->max_in || !promotes_to_u64(n_in, in, numbers)) return false;
    struct kiln_scope scope;
    kiln_tensor *wide[16];
    struct unsigned_call c = {op, n_in, numbers, wide, attrs};
    scope_enter(&scope);
    for (int i = 0; i < n_in; i++) {
        bool is_u64 = in[i]->type.dtype == KILN_U64 || !(numbers >> i & 1);
        wide[i] = is_u64 ? in[i] : unsigned_number(in[i]);
    }
    if (!error_pending) ways[op->u64](&c, out);
    if (error_pending) {
        error_name_op(op->name);
        for (int i = 0; i < op->n_out; i++) out[i] = NULL;
    }
    scope_leave(&scope, out, error_pending ? 0 : op->n_out);
    return true;
}
