// Complex tensors. Inputs and results are pairs, so that each op stands between real ones.
#include "compose/case.h"
#include <complex.h>
#include <string.h>
#undef I

typedef long double complex number;

static number made(long double re, long double im)
{
    return re + im * _Complex_I;
}

static kiln_tensor *z_of(kiln_tensor *pairs)
{
    return kiln_view_as_complex(pairs);
}

static kiln_tensor *pairs_of(kiln_tensor *z)
{
    return z ? kiln_view_as_real(z) : NULL;
}

static number at(const struct host *h, int64_t i)
{
    return made(h->v[2 * i], h->v[2 * i + 1]);
}

static void put(struct host *h, int64_t i, number z)
{
    h->v[2 * i] = creall(z);
    h->v[2 * i + 1] = cimagl(z);
}

// An op of one argument, element by element.
#define UNARY(name, call, value)                                       \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        kiln_tensor *z = z_of(in[0]);                                  \
        out[0] = pairs_of(call);                                       \
    }                                                                  \
    static void expect_##name(const struct host *in, struct host *out) \
    {                                                                  \
        out[0] = host_copy(&in[0]);                                    \
        for (int64_t i = 0; i < in[0].n / 2; i++) {                    \
            number z = at(&in[0], i);                                  \
            put(&out[0], i, value);                                    \
        }                                                              \
    }
UNARY(neg, kiln_neg(z), -z)
UNARY(square, kiln_square(z), z *z)
UNARY(reciprocal, kiln_reciprocal(z), 1 / z)
UNARY(conj, kiln_conj(z), conjl(z))
UNARY(exp, kiln_exp(z), cexpl(z))
UNARY(log, kiln_log(z), clogl(z))
UNARY(sqrt, kiln_sqrt(z), csqrtl(z))
UNARY(sin, kiln_sin(z), csinl(z))
UNARY(cos, kiln_cos(z), ccosl(z))
UNARY(sinh, kiln_sinh(z), csinhl(z))
UNARY(cosh, kiln_cosh(z), ccoshl(z))
UNARY(tanh, kiln_tanh(z), ctanhl(z))
UNARY(sign, kiln_sign(z), z / cabsl(z))
UNARY(twice, kiln_mul(z, kiln_scalar(2)), 2 * z)
UNARY(less_one, kiln_sub(kiln_scalar(1), z), 1 - z)
UNARY(third, kiln_pow(z, kiln_scalar(3)), z *z *z)

// Of one argument, with a real result.
#define REAL(name, call, value)                                        \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        kiln_tensor *z = z_of(in[0]);                                  \
        out[0] = call;                                                 \
    }                                                                  \
    static void expect_##name(const struct host *in, struct host *out) \
    {                                                                  \
        out[0] = host_new(in[0].dtype, in[0].rank - 1, in[0].dims);    \
        for (int64_t i = 0; i < out[0].n; i++) {                       \
            number z = at(&in[0], i);                                  \
            out[0].v[i] = value;                                       \
        }                                                              \
    }
REAL(abs, kiln_abs(z), cabsl(z))
REAL(angle, kiln_angle(z), cargl(z))
REAL(real, kiln_real(z), creall(z))
REAL(imag, kiln_imag(z), cimagl(z))

// Of two arguments of one shape.
#define BINARY(name, call, value)                                        \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out)   \
    {                                                                    \
        kiln_tensor *a = z_of(in[0]), *b = z_of(in[1]);                  \
        out[0] = pairs_of(call);                                         \
    }                                                                    \
    static void expect_##name(const struct host *in, struct host *out)   \
    {                                                                    \
        out[0] = host_copy(&in[0]);                                      \
        for (int64_t i = 0; i < in[0].n / 2; i++) {                      \
            number a = at(&in[0], i), b = at(&in[1], i % (in[1].n / 2)); \
            put(&out[0], i, value);                                      \
        }                                                                \
    }
BINARY(add, kiln_add(a, b), a + b)
BINARY(sub, kiln_sub(a, b), a - b)
BINARY(mul, kiln_mul(a, b), a *b)
BINARY(div, kiln_div(a, b), a / b)
BINARY(pow, kiln_pow(a, b), cpowl(a, b))
BINARY(chosen, kiln_where(kiln_less(kiln_real(a), kiln_scalar(0)), a, b), creall(a) < 0 ? a : b)

// A complex and a real argument.
#define MIXED(name, call, value)                                       \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        kiln_tensor *a = z_of(in[0]), *x = in[1];                      \
        out[0] = pairs_of(call);                                       \
    }                                                                  \
    static void expect_##name(const struct host *in, struct host *out) \
    {                                                                  \
        out[0] = host_copy(&in[0]);                                    \
        for (int64_t i = 0; i < in[0].n / 2; i++) {                    \
            number a = at(&in[0], i);                                  \
            long double x = in[1].v[i % in[1].n];                      \
            put(&out[0], i, value);                                    \
        }                                                              \
    }
MIXED(add_real, kiln_add(a, x), a + x)
MIXED(real_sub, kiln_sub(x, a), x - a)
MIXED(mul_real, kiln_mul(x, a), x *a)
MIXED(div_real, kiln_div(a, x), a / x)
MIXED(real_div, kiln_div(x, a), x / a)

static void call_parts(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = pairs_of(kiln_complex(in[0], in[1]));
    out[1] = pairs_of(kiln_polar(in[0], in[1]));
}

static void expect_parts(const struct host *in, struct host *out)
{
    int64_t dims[] = {in[0].dims[0], in[1].dims[0], 2};
    for (int k = 0; k < 2; k++) {
        out[k] = host_new(in[0].dtype, 3, dims);
        for (int64_t i = 0; i < dims[0] * dims[1]; i++) {
            long double a = in[0].v[i / dims[1]], b = in[1].v[i % dims[1]];
            put(&out[k], i, k ? made(a * cosl(b), a * sinl(b)) : made(a, b));
        }
    }
}

static void call_product(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = pairs_of(kiln_matmul(z_of(in[0]), z_of(in[1])));
    out[1] = pairs_of(kiln_matmul(z_of(in[0]), kiln_real(z_of(in[1]))));
    out[2] = pairs_of(kiln_matmul(kiln_imag(z_of(in[0])), z_of(in[1])));
}

static void expect_product(const struct host *in, struct host *out)
{
    int64_t n = in[0].dims[0], m = in[1].dims[1], k = in[0].dims[1], dims[] = {n, m, 2};
    for (int o = 0; o < 3; o++) {
        out[o] = host_new(in[0].dtype, 3, dims);
        for (int64_t i = 0; i < n * m; i++) {
            number sum = 0;
            for (int64_t j = 0; j < k; j++) {
                number a = at(&in[0], i / m * k + j), b = at(&in[1], j * m + i % m);
                sum += o == 2 ? cimagl(a) * b : o == 1 ? a * creall(b) : a * b;
            }
            put(&out[o], i, sum);
        }
    }
}

static void call_sums(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *z = z_of(in[0]);
    out[0] = pairs_of(kiln_sum(z, KILN_REDUCE(.axes = KILN_AXES(0))));
    out[1] = pairs_of(kiln_mean(z, NULL));
    out[2] = pairs_of(kiln_cumsum(z, -1));
    out[3] = kiln_norm(z, NULL);
}

static void expect_sums(const struct host *in, struct host *out)
{
    int64_t n = in[0].dims[0], m = in[0].dims[1], row[] = {m, 2}, one[] = {2};
    out[0] = host_new(in[0].dtype, 2, row);
    out[1] = host_new(in[0].dtype, 1, one);
    out[2] = host_copy(&in[0]);
    out[3] = host_new(in[0].dtype, 0, NULL);
    for (int64_t i = 0; i < n * m; i++) {
        put(&out[0], i % m, at(&out[0], i % m) + at(&in[0], i));
        put(&out[1], 0, at(&out[1], 0) + at(&in[0], i) / (long double)(n * m));
        if (i % m) put(&out[2], i, at(&out[2], i - 1) + at(&in[0], i));
        out[3].v[0] += creall(at(&in[0], i) * conjl(at(&in[0], i)));
    }
    out[3].v[0] = sqrtl(out[3].v[0]);
}

// What moves elements, against the same of their numbers.
static void call_moved(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *z = z_of(in[0]), *index = kiln_arange(kiln_tensor_device(z), KILN_I64, 2, -1, -1);
    kiln_tensor *rows = kiln_reshape(kiln_permute(z, KILN_AXES(1, 0)), KILN_SHAPE(2, -1));
    out[0] = pairs_of(kiln_concat((kiln_tensor *[]){rows, kiln_flip(rows, KILN_AXES(0))}, 2, 1));
    out[1] = pairs_of(kiln_take(kiln_transpose(z, 0, -1), 0, index));
    out[2] = pairs_of(kiln_pad(kiln_narrow(z, 1, 1, 2), KILN_PAD(.after = KILN_AXES(1), .value = 3)));
    kiln_tensor *part = kiln_slice(z, KILN_SLICE(.start = KILN_AXES(0, 3), .step = KILN_AXES(1, -2)));
    out[3] = pairs_of(kiln_roll(kiln_unsqueeze(kiln_select(kiln_expand(part, KILN_SHAPE(3, 2, 2)), 0, 1), -1),
                                KILN_ARGS(1), KILN_AXES(-2)));
}

static void expect_moved(const struct host *in, struct host *out)
{
    out[0] = host_new(in[0].dtype, 3, (int64_t[]){2, 8, 2});
    out[1] = host_new(in[0].dtype, 3, (int64_t[]){3, 2, 2});
    out[2] = host_new(in[0].dtype, 3, (int64_t[]){3, 2, 2});
    out[3] = host_new(in[0].dtype, 4, (int64_t[]){2, 2, 1, 2});
    for (int64_t i = 0; i < 2; i++)
        for (int64_t k = 0; k < 4; k++) {
            int64_t place = i * 4 + k, other = (1 - i) * 4 + k;
            put(&out[0], i * 8 + k, at(&in[0], place % 2 * 4 + place / 2));
            put(&out[0], i * 8 + 4 + k, at(&in[0], other % 2 * 4 + other / 2));
        }
    for (int64_t i = 0; i < 3; i++)
        for (int64_t k = 0; k < 2; k++) {
            put(&out[1], i * 2 + k, at(&in[0], k * 4 + 2 - i));
            put(&out[2], i * 2 + k, i < 2 ? at(&in[0], i * 4 + 1 + k) : 3);
        }
    for (int64_t i = 0; i < 2; i++)
        for (int64_t k = 0; k < 2; k++) put(&out[3], i * 2 + (k + 1) % 2, at(&in[0], i * 4 + 3 - 2 * k));
}

static void call_made(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_device *dev = kiln_tensor_device(in[0]);
    kiln_dtype d = kiln_tensor_dtype(in[0]) == KILN_F64 ? KILN_C128 : KILN_C64;
    out[0] = pairs_of(kiln_add(kiln_full(dev, d, KILN_SHAPE(3), 2.5), kiln_zeros(dev, d, KILN_SHAPE(3))));
    out[1] = pairs_of(kiln_cast(in[0], d));
    out[2] = pairs_of(kiln_add(kiln_eye(dev, d, 2, 2), kiln_ones(dev, d, KILN_SHAPE(2))));
}

static void expect_made(const struct host *in, struct host *out)
{
    out[0] = host_new(in[0].dtype, 2, (int64_t[]){3, 2});
    out[1] = host_new(in[0].dtype, 2, (int64_t[]){in[0].n, 2});
    out[2] = host_new(in[0].dtype, 3, (int64_t[]){2, 2, 2});
    for (int i = 0; i < 3; i++) put(&out[0], i, 2.5L);
    for (int i = 0; i < in[0].n; i++) put(&out[1], i, in[0].v[i]);
    for (int i = 0; i < 4; i++) put(&out[2], i, i % 3 ? 1 : 2);
}

static void call_tests(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *a = z_of(in[0]), *b = kiln_where(kiln_less(kiln_imag(a), kiln_scalar(0)), a, kiln_conj(a));
    out[0] = kiln_equal(a, b);
    out[1] = kiln_not_equal(a, b);
    out[2] = kiln_isfinite(kiln_div(a, kiln_sub(a, b)));
    out[3] = kiln_logical_or(kiln_isnan(kiln_div(a, kiln_sub(a, b))), kiln_isinf(a));
}

static void expect_tests(const struct host *in, struct host *out)
{
    for (int o = 0; o < 4; o++) {
        out[o] = host_new(KILN_BOOL, in[0].rank - 1, in[0].dims);
        for (int64_t i = 0; i < out[o].n; i++) {
            bool same = cimagl(at(&in[0], i)) < 0;
            out[o].v[i] = o == 0 || o == 3 ? same : !same;
        }
    }
}

#define OF(name, note, inputs, ...)                                                        \
    {                                                                                      \
#name, note, inputs, IN_WIDE, call_##name, expect_##name, .units = 16, __VA_ARGS__ \
    }
static const struct op_case complex_cases[] = {
    OF(neg, "complex", "3x4x2", .order = 2),
    OF(square, "complex", "3x4x2", .order = 2),
    OF(reciprocal, "complex", "3x4x2", .order = 2, .lo = 0.5, .hi = 2),
    OF(conj, "complex", "3x4x2", .order = 2),
    OF(exp, "complex", "3x4x2", .order = 2),
    OF(log, "complex", "3x4x2", .order = 2, .lo = 0.5, .hi = 2),
    OF(log, "left", "3x4x2", .order = 1, .lo = -2, .hi = -0.5),
    OF(sqrt, "complex", "3x4x2", .order = 2, .lo = 0.5, .hi = 2),
    OF(sqrt, "left", "3x4x2", .order = 1, .lo = -2, .hi = -0.5),
    OF(sin, "complex", "3x4x2", .order = 2),
    OF(cos, "complex", "3x4x2", .order = 2),
    OF(sinh, "complex", "3x4x2", .order = 2),
    OF(cosh, "complex", "3x4x2", .order = 2),
    OF(tanh, "complex", "3x4x2", .order = 2, .lo = -0.9, .hi = 0.9),
    OF(sign, "complex", "3x4x2", .order = 2, .lo = 0.5, .hi = 2),
    {"mul", "complex by a number", "3x2", IN_WIDE, call_twice, expect_twice, .units = 1, .order = 2},
    {"sub", "a number less complex", "3x2", IN_WIDE, call_less_one, expect_less_one, .units = 1, .order = 2},
    {"pow", "complex to a number", "3x2", IN_WIDE, call_third, expect_third, .units = 64, .order = 2, .lo = 0.5,
     .hi = 2},
    OF(abs, "complex", "3x4x2", .order = 2),
    OF(angle, "complex", "3x4x2", .order = 2, .lo = 0.5, .hi = 2),
    OF(real, "complex", "3x4x2", .order = 2),
    OF(imag, "complex", "3x4x2", .order = 2),
    OF(add, "complex", "3x4x2 4x2", .order = 2),
    OF(sub, "complex", "3x4x2 4x2", .order = 2),
    OF(mul, "complex", "3x4x2 4x2", .order = 2),
    OF(div, "complex", "3x4x2 4x2", .order = 2, .lo = 0.5, .hi = 2),
    OF(pow, "complex", "3x4x2 4x2", .order = 2, .lo = 0.5, .hi = 1.5),
    {"where", "complex", "3x4x2 4x2", IN_WIDE, call_chosen, expect_chosen, .units = 0, .order = 2},
    {"add", "complex and real", "3x4x2 4", IN_WIDE, call_add_real, expect_add_real, .units = 1, .order = 2},
    {"sub", "real less complex", "3x4x2 4", IN_WIDE, call_real_sub, expect_real_sub, .units = 1, .order = 2},
    {"mul", "real and complex", "3x4x2 4", IN_WIDE, call_mul_real, expect_mul_real, .units = 1, .order = 2},
    {"div", "complex by real", "3x4x2 4", IN_WIDE, call_div_real, expect_div_real, .units = 4, .order = 2, .lo = 0.5,
     .hi = 2},
    {"div", "real by complex", "3x4x2 4", IN_WIDE, call_real_div, expect_real_div, .units = 16, .order = 2, .lo = 0.5,
     .hi = 2},
    {"complex", "and polar", "3x1 4", IN_WIDE, call_parts, expect_parts, .n_out = 2, .units = 16, .order = 2},
    {"polar", "and complex", "1x1 1", IN_WIDE, call_parts, expect_parts, .n_out = 2, .units = 16},
    {"matmul", "complex", "3x4x2 4x5x2", IN_WIDE, call_product, expect_product, .n_out = 3, .units = 32, .order = 2},
    {"sum", "complex sums", "3x4x2", IN_WIDE, call_sums, expect_sums, .n_out = 4, .units = 16, .order = 2},
    {"concat", "complex moves", "2x4x2", IN_WIDE, call_moved, expect_moved, .n_out = 4, .order = 2},
    {"full", "complex", "4", IN_WIDE, call_made, expect_made, .n_out = 3, .order = 2},
    {"equal", "complex tests", "3x4x2", IN_WIDE, call_tests, expect_tests, .n_out = 4},
};
FAMILY_OF(complex);
