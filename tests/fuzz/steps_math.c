// Steps element by element, and those that make a tensor of nothing.
#include "fuzz.h"

#define PICK(o, list) (list)[choose(o, sizeof(list) / sizeof *(list))]

// Away from where a function or its gradient is not finite.
static kiln_tensor *tamed(struct operands *o, kiln_tensor *x)
{
    switch (choose(o, 6)) {
    case 0: say(o, "sqrt(abs(%s) + 0.5)", o->na); return kiln_sqrt(kiln_add(kiln_abs(x), kiln_scalar(0.5)));
    case 1: say(o, "log(abs(%s) + 0.5)", o->na); return kiln_log(kiln_add(kiln_abs(x), kiln_scalar(0.5)));
    case 2: say(o, "exp(-abs(%s))", o->na); return kiln_exp(kiln_neg(kiln_abs(x)));
    case 3:
        say(o, "reciprocal(square(%s) + 1)", o->na);
        return kiln_reciprocal(kiln_add(kiln_square(x), kiln_scalar(1)));
    case 4: say(o, "expm1(minimum(%s, 2))", o->na); return kiln_expm1(kiln_minimum(x, kiln_scalar(2)));
    default: say(o, "rsqrt(square(%s) + 1)", o->na); return kiln_rsqrt(kiln_add(kiln_square(x), kiln_scalar(1)));
    }
}

static kiln_tensor *with_attribute(struct operands *o, kiln_tensor *x)
{
    switch (choose(o, 4)) {
    case 0: say(o, "leaky_relu(%s, 0.25)", o->na); return kiln_leaky_relu(x, 0.25);
    case 1: say(o, "elu(%s, 1.5)", o->na); return kiln_elu(x, 1.5);
    case 2: say(o, "hard_shrink(%s, 0.5)", o->na); return kiln_hard_shrink(x, 0.5);
    default: say(o, "threshold(%s, 0.25, 3)", o->na); return kiln_threshold(x, 0.25, 3);
    }
}

kiln_tensor *step_unary(struct operands *o)
{
    static const char *const whole[] = {"neg", "abs", "square", "relu", "sign", "positive", "floor"};
    static const char *const real[] = {"tanh", "sigmoid",    "sin",   "cos",         "softplus", "gelu",
                                       "silu", "erf",        "atan",  "round",       "frac",     "relu6",
                                       "mish", "hard_swish", "asinh", "log_sigmoid", "sinc",     "i0e"};
    if (is_bool(o->a)) return say(o, "logical_not(%s)", o->na), kiln_logical_not(o->a);
    uint32_t group = is_float(o->a) ? choose(o, 8) : 0;
    if (group == 7) return with_attribute(o, o->a);
    if (group == 6) return tamed(o, o->a);
    const char *name = group < 3 ? PICK(o, whole) : PICK(o, real);
    say(o, "%s(%s)", name, o->na);
    return kiln_apply(name, &o->a, 1);
}

kiln_tensor *step_binary(struct operands *o)
{
    static const char *const whole[] = {
        "add", "sub", "mul", "mul", "maximum", "minimum", "squared_difference", "abs_difference"};
    static const char *const real[] = {"div", "hypot", "atan2", "logaddexp", "copysign", "bce_with_logits", "prelu"};
    static const char *const divisions[] = {"remainder", "floor_divide", "fmod"};
    const char *nb;
    kiln_tensor *b = fit(o, &nb), *in[] = {o->a, b};
    if (is_bool(o->a) && is_bool(b)) {
        say(o, "logical_xor(%s, %s)", o->na, nb);
        return kiln_logical_xor(o->a, b);
    }
    uint32_t group = choose(o, 10);
    if (is_bool(o->a) || is_bool(b)) group = 0;
    const char *name = group == 9 ? PICK(o, divisions) : group > 6 ? PICK(o, real) : PICK(o, whole);
    if (choose(o, 4) == 0) {
        in[0] = b, in[1] = o->a;
        say(o, "%s(%s, %s)", name, nb, o->na);
    } else
        say(o, "%s(%s, %s)", name, o->na, nb);
    return kiln_apply(name, in, 2);
}

kiln_tensor *step_ternary(struct operands *o)
{
    static const char *const names[] = {"addcmul", "lerp", "clip"};
    const char *nb, *name = PICK(o, names);
    kiln_tensor *b = fit(o, &nb);
    if (!broadcasts(o->a, o->c, true) || !is_float(o->a) || is_bool(b) || is_bool(o->c)) return NULL;
    kiln_tensor *in[] = {o->a, b, o->c};
    say(o, "%s(%s, %s, %s)", name, o->na, nb, o->nc);
    return kiln_apply(name, in, 3);
}

// Numbers of C as operands.
static kiln_tensor *with_number_of_c(struct operands *o)
{
    kiln_tensor *a = o->a;
    switch (choose(o, is_float(a) ? 9 : 5)) {
    case 0: say(o, "%s + 2 of C", o->na); return kiln_add(a, 2);
    case 1: say(o, "3 of C - %s", o->na); return kiln_sub(3L, a);
    case 2: say(o, "%s * -0.75f of C", o->na); return kiln_mul(a, -0.75f);
    case 3: say(o, "maximum(true of C, %s)", o->na); return kiln_maximum((bool)1, a);
    case 4:
        say(o, "where(%s > 0 of C, %s, 1 of C)", o->na, o->na);
        return kiln_where(kiln_greater(a, 0), a, (unsigned char)1);
    case 5: say(o, "clip(%s, -1 of C, 1.5 of C)", o->na); return kiln_clip(a, -1, 1.5);
    case 6: say(o, "lerp(%s, 0.25 of C, 0.5 of C)", o->na); return kiln_lerp(a, 0.25, 0.5);
    case 7: say(o, "addcmul(1 of C, %s, -2 of C)", o->na); return kiln_addcmul(1, a, -2);
    default: say(o, "%s / 4 of C", o->na); return kiln_div(a, 4u);
    }
}

kiln_tensor *step_with_number(struct operands *o)
{
    if (is_bool(o->a)) return NULL;
    switch (choose(o, 12)) {
    case 0: say(o, "%s * 0.5", o->na); return kiln_mul(o->a, kiln_scalar(0.5));
    case 1: say(o, "%s + 2", o->na); return kiln_add(o->a, kiln_scalar_int(2));
    case 2: say(o, "1 - %s", o->na); return kiln_sub(kiln_scalar_int(1), o->a);
    case 3: say(o, "%s * 0", o->na); return kiln_mul(o->a, kiln_scalar_int(0));
    case 4: say(o, "%s * 1", o->na); return kiln_mul(o->a, kiln_scalar_int(1));
    case 5: say(o, "%s / 4", o->na); return kiln_div(o->a, kiln_scalar(4));
    default: return with_number_of_c(o);
    }
}

// What rounding has made equal, or not.
static kiln_tensor *nearly_equal(struct operands *o, kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *far = kiln_abs(kiln_sub(a, b)), *most = kiln_maximum(kiln_abs(a), kiln_abs(b));
    kiln_tensor *near = kiln_less_equal(far, kiln_mul(most, kiln_scalar(noise_of(o->run, a) + noise_of(o->run, b))));
    return kiln_logical_or(near, kiln_equal(a, b));
}

kiln_tensor *step_compare(struct operands *o)
{
    static const char *const names[] = {"greater", "less_equal", "equal", "not_equal", "isfinite"};
    const char *nb, *name = PICK(o, names);
    kiln_tensor *in[] = {o->a, fit(o, &nb)};
    if (name == names[4] && is_bool(o->a)) return NULL;
    say(o, "%s(%s, %s)", name, o->na, nb);
    bool equals = (name == names[2] || name == names[3]) && is_float(in[0]) && is_float(in[1]);
    if (!equals || !noise_tosses(o->run)) return kiln_apply(name, in, name == names[4] ? 1 : 2);
    kiln_tensor *is = nearly_equal(o, in[0], in[1]);
    return name == names[2] ? is : kiln_logical_not(is);
}

kiln_tensor *step_choice(struct operands *o)
{
    const char *nb;
    kiln_tensor *b = fit(o, &nb);
    if (!broadcasts(o->a, o->c, true) || is_bool(b) || is_bool(o->a)) return NULL;
    kiln_tensor *is = is_bool(o->c) ? o->c : kiln_greater(o->c, kiln_scalar(0.25));
    const char *of = is_bool(o->c) ? "" : " > 0.25";
    if (choose(o, 4) == 0 && kiln_rank(b) == 0) {
        say(o, "masked_fill(%s, %s%s, %s)", nb, o->nc, of, o->na);
        return kiln_masked_fill(b, is, o->a);
    }
    bool turned = choose(o, 2);
    say(o, "where(%s%s, %s, %s)", o->nc, of, turned ? nb : o->na, turned ? o->na : nb);
    return turned ? kiln_where(is, b, o->a) : kiln_where(is, o->a, b);
}

// Of integers as it is, of floats away from 0 and with exponents from -2 to 2.
kiln_tensor *step_power(struct operands *o)
{
    const char *nb;
    kiln_tensor *b = fit(o, &nb);
    if (is_bool(o->a) || is_bool(b)) return NULL;
    if (!is_float(o->a) && !is_float(b)) {
        int64_t number = choose(o, 6) - 1;
        if (choose(o, 2)) return say(o, "pow(%s, %s)", o->na, nb), kiln_pow(o->a, b);
        return say(o, "pow(%s, %d)", o->na, (int)number), kiln_pow(o->a, number);
    }
    if (choose(o, 2)) {
        int64_t number = 2 + choose(o, 2);
        return say(o, "pow(%s, %d)", o->na, (int)number), kiln_pow(o->a, number);
    }
    say(o, "pow(abs(%s) + 0.5, clip(%s, -2, 2))", o->na, nb);
    return kiln_pow(kiln_add(kiln_abs(o->a), kiln_scalar(0.5)), kiln_clip(b, -2, 2));
}

static kiln_tensor *shifted(struct operands *o)
{
    int64_t by = choose(o, 9);
    bool left = choose(o, 2);
    say(o, "bitwise_%s_shift(%s, %d)", left ? "left" : "right", o->na, (int)by);
    return left ? kiln_bitwise_left_shift(o->a, kiln_scalar_int(by))
                : kiln_bitwise_right_shift(o->a, kiln_scalar_int(by));
}

kiln_tensor *step_bits(struct operands *o)
{
    static const char *const names[] = {"bitwise_and", "bitwise_or", "bitwise_xor"};
    const char *name = PICK(o, names);
    bool fits = broadcasts(o->a, o->b, false) && !is_float(o->b);
    if (is_float(o->a)) return NULL;
    if (is_integer(o->a) && choose(o, 3) == 0) return shifted(o);
    kiln_tensor *in[] = {o->a, fits ? o->b : o->a};
    say(o, "%s(%s, %s)", name, o->na, fits ? o->nb : o->na);
    return kiln_apply(name, in, 2);
}

kiln_tensor *step_cast(struct operands *o)
{
    static const kiln_dtype to[] = {KILN_F32, KILN_F32, KILN_F64, KILN_F16,  KILN_BF16, KILN_I32, KILN_I64,
                                    KILN_U8,  KILN_I8,  KILN_I16, KILN_BOOL, KILN_U16,  KILN_U32, KILN_U64};
    kiln_dtype dtype = PICK(o, to);
    say(o, "cast(%s, %s)", o->na, kiln_dtype_name(dtype));
    // Which integer it is, the last place may decide.
    kiln_tensor *x = !is_floating(dtype) ? with_noise(o->run, o->a) : o->a;
    return kiln_cast(x, dtype_of_run(o->run, dtype));
}

// Of what is differentiated by host data.
struct slope {
    struct run *run;
    kiln_tensor *by;
    bool writes;
};

static kiln_status waves(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct slope *s = user;
    if (s->writes && kiln_mul_(in[0], s->by)) return kiln_error();
    // Where the product is large, its last place decides all of the sine, and captures do not round it.
    out[0] = kiln_sum(kiln_sin(with_noise(s->run, kiln_mul(in[0], s->by))), NULL);
    (void)n_in, (void)n_out;
    return kiln_error();
}

static kiln_tensor *slope_by(struct operands *o, kiln_tensor *data)
{
    kiln_tensor *d;
    struct slope s = {o->run, o->a, choose(o, 2)};
    bool tape = choose(o, 10) < 7;
    say(o, "the slope of waves of %s by host data%s%s", o->na, s.writes ? ", which is written" : "",
        tape ? "" : ", without a tape");
    return kiln_grad(waves, &s, &data, 1, KILN_GRAD(.create_graph = tape), &d, 1) ? NULL : kiln_add(d, data);
}

kiln_tensor *step_host_data(struct operands *o)
{
    double v[LARGEST];
    int64_t n = kiln_numel(o->a);
    if (!is_float(o->a) || n > LARGEST) return NULL;
    for (int64_t i = 0; i < n; i++) v[i] = ((double)choose(o, 17) - 8) / 4;
    say(o, "host data in %s's dims", o->na);
    kiln_tensor *t = kiln_from_data(o->run->dev, KILN_F64, kiln_rank(o->a), kiln_dims(o->a), v);
    kiln_tensor *data = kiln_cast(t, kiln_tensor_dtype(o->a));
    return data && kiln_rank(data) && choose(o, 3) == 0 ? slope_by(o, data) : data;
}

kiln_tensor *step_filled(struct operands *o)
{
    kiln_device *dev = o->run->dev;
    kiln_dtype dtype = dtype_of_run(o->run, choose(o, 2) ? KILN_F32 : kiln_tensor_dtype(o->a));
    size_t rank = kiln_rank(o->a);
    switch (choose(o, 5)) {
    case 0: say(o, "full_like(%s, 1.5)", o->na); return kiln_full_like(o->a, 1.5);
    case 1: say(o, "zeros_like(%s)", o->na); return kiln_zeros_like(o->a);
    case 2: say(o, "ones(%s's dims)", o->na); return kiln_ones(dev, dtype, rank, kiln_dims(o->a));
    case 3: say(o, "arange(5)"); return kiln_arange(dev, dtype, 0, 5, 1);
    default: say(o, "eye(3, 4)"); return kiln_eye(dev, dtype, 3, 4);
    }
}

// Numbers are drawn in f32 in any run, so that all draw the same.
kiln_tensor *step_random(struct operands *o)
{
    size_t rank = kiln_rank(o->a);
    switch (choose(o, 3)) {
    case 0:
        say(o, "uniform(%s's dims)", o->na);
        return kiln_uniform(o->run->dev, KILN_F32, rank, kiln_dims(o->a), -1, 1);
    case 1:
        say(o, "randint(%s's dims, 0, 5)", o->na);
        return kiln_randint(o->run->dev, KILN_I32, rank, kiln_dims(o->a), 0, 5);
    default:
        if (!is_float(o->a)) return NULL;
        say(o, "dropout(%s, 0.5)", o->na);
        return kiln_dropout(o->a, 0.5);
    }
}
