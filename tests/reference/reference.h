// What the conformance suite compares the library with: plain C over libm, sharing no code with it beyond the dtype
// enumerators.
//
// A value of any dtype is carried exactly in a long double (64 bits of fraction at least), so that one representation
// serves all.
#pragma once
#include <kiln/macros.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PI_L       3.14159265358979323846264338327950288L
#define SELU_ALPHA 1.67326324235437728481704296L
#define SELU_SCALE 1.05070098735548049341933499L

enum reference_flags {
    ANY_ZERO = 1, // the sign of a zero result is not specified
    NEAR = 2,     // the bound in ULP holds on the row's domain; elsewhere errors are measured against the operands
    CANCELS =
        4, // terms cancel: the bound is one on the error against the operands where the result is smaller than they are
    NO_LIMITS = 8, // infinite inputs: the result is not specified
};

// The compute class in which the rows of reference.def are evaluated next: helpers that round or wrap look here.
struct reference_class {
    bool is_f64, is_i64, is_u64;
};
extern struct reference_class reference_class;

typedef long double (*reference_float_fn)(long double a, long double b, long double c, long double p, long double q);
typedef int64_t (*reference_int_fn)(int64_t a, int64_t b, int64_t c, bool is_bool);
typedef uint64_t (*reference_unsigned_fn)(uint64_t a, uint64_t b, uint64_t c);

struct reference {
    const char *name;
    void (*public_fn)(void); // kiln_<name>, to be cast by its number of operands and run-time scalars
    reference_float_fn as_float;
    reference_int_fn as_int;
    reference_unsigned_fn as_unsigned; // of u64
    unsigned flags;
};
extern const struct reference references[];
extern const int reference_count;
const struct reference *reference_find(const char *name);

// The facts about dtypes, written down here a second time on purpose.
enum { DTYPES = 13 };
bool is_float(int dtype);
bool is_integer(int dtype);
size_t element_size_B(int dtype);
long double integer_min(int dtype);
long double integer_max(int dtype);
int fraction_bits(int dtype);                        // with the leading one: 24 for f32
int least_exponent(int dtype);                       // of a normal number: -126 for f32
int greatest_exponent(int dtype);                    // 127 for f32
int promoted(int a, int b);                          // the array API's table; integer with float: the float; -1: none
void encode(int dtype, long double value, void *to); // rounds to nearest even; integers wrap
long double decode(int dtype, const void *from);
long double quantized(int dtype, long double value); // encode, then decode
int64_t integer_bits(long double value);             // of u64 above 2^63 those of a negative number
long double wrapped(int dtype, int64_t value);
long double converted(int from, int to, long double value); // the semantics of a cast
// |got - exact| in units of the last place of `exact` in `dtype`; overflow counts as the next power of two.
long double error_ulp(int dtype, long double got, long double exact);

// Reproducible random numbers (xorshift64*).
struct random {
    uint64_t state;
};
uint64_t random_bits(struct random *r);
double random_between(struct random *r, double low, double high);
int64_t random_below(struct random *r, int64_t n);

// Helpers of reference.def.
int64_t wrap_add(int64_t a, int64_t b);
int64_t wrap_sub(int64_t a, int64_t b);
int64_t wrap_mul(int64_t a, int64_t b);
int64_t int_quotient(int64_t a, int64_t b);
int64_t int_remainder(int64_t a, int64_t b);
int64_t int_floor_divide(int64_t a, int64_t b);
int64_t int_floor_remainder(int64_t a, int64_t b);
int64_t int_left_shift(int64_t a, int64_t b);
int64_t int_right_shift(int64_t a, int64_t b);
int64_t int_abs_difference(int64_t a, int64_t b);
long double round_product(long double b, long double c);
long double next_value(long double a, long double b);
long double floor_quotient(long double a, long double b);
long double floor_remainder(long double a, long double b);
long double log_add_exp(long double a, long double b);
int64_t int_power(int64_t a, int64_t b);
long double erf_inverse(long double x);
long double scaled_erfc(long double x);
long double scaled_bessel(int order, long double x);
long double normal_inverse(long double p);
long double log_gamma(long double x);
long double digamma(long double x);
long double trigamma(long double x);
long double tetragamma(long double x);
