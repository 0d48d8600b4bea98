// Quotients, remainders and shifts to the right of 64 bits, of what i64 has.
#include "tensor/unsigned.h"

// floor(a / b), 0 where b is 0. A divisor of 2^63 and more goes into a number once or not at all. By a smaller one half
// of a is divided, which is no negative i64; twice the quotient is right, or one too small.
static kiln_tensor *quotient(kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *x = unsigned_bits(a), *y = unsigned_bits(b), *zero = kiln_scalar_int(0), *one = kiln_scalar_int(1);
    kiln_tensor *half = kiln_bitwise_and(kiln_bitwise_right_shift(x, one), kiln_scalar_int(INT64_MAX));
    kiln_tensor *large = kiln_greater_equal(unsigned_key(a), unsigned_key(b));
    kiln_tensor *guess = kiln_mul(kiln_floor_divide(half, y), kiln_scalar_int(2));
    kiln_tensor *rest = unsigned_number(kiln_sub(x, kiln_mul(guess, y)));
    kiln_tensor *more = kiln_greater_equal(unsigned_key(rest), unsigned_key(b));
    kiln_tensor *q =
        kiln_where(kiln_less(y, zero), kiln_cast(large, KILN_I64), kiln_add(guess, kiln_cast(more, KILN_I64)));
    return unsigned_number(kiln_where(kiln_equal(y, zero), zero, q));
}

void unsigned_quotient(const struct unsigned_call *c, kiln_tensor **out)
{
    out[0] = quotient(c->in[0], c->in[1]);
}

// 0 where the divisor is 0, as of other integers.
void unsigned_remainder(const struct unsigned_call *c, kiln_tensor **out)
{
    kiln_tensor *a = c->in[0], *b = c->in[1], *rest = kiln_sub(a, kiln_mul(quotient(a, b), b));
    kiln_tensor *none = kiln_equal(b, kiln_scalar_int(0));
    out[0] = kiln_where(none, kiln_cast(kiln_scalar_int(0), KILN_U64), rest);
}

// Copies of the sign are cut off; by 64 and more nothing is left.
void unsigned_shift_right(const struct unsigned_call *c, kiln_tensor **out)
{
    kiln_tensor *x = unsigned_bits(c->in[0]), *n = unsigned_bits(c->in[1]), *zero = kiln_scalar_int(0);
    kiln_tensor *signs = kiln_bitwise_left_shift(kiln_scalar_int(-1), kiln_sub(kiln_scalar_int(63), n));
    kiln_tensor *kept = kiln_bitwise_invert(kiln_mul(signs, kiln_scalar_int(2)));
    kiln_tensor *shifted = kiln_bitwise_and(kiln_bitwise_right_shift(x, n), kept);
    kiln_tensor *inside = kiln_equal(kiln_bitwise_and(n, kiln_scalar_int(~INT64_C(63))), zero);
    out[0] = unsigned_number(kiln_where(inside, shifted, zero));
}
