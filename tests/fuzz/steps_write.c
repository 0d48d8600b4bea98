// Steps that write, that read on the host, and that fail.
#include "fuzz.h"

static kiln_tensor *written(struct operands *o, kiln_status status)
{
    return status ? NULL : o->a;
}

kiln_tensor *step_write(struct operands *o)
{
    const char *nb = o->nb;
    bool fits = broadcasts(o->a, o->b, true) && (is_float(o->a) || is_integer(o->b)) && !is_bool(o->b);
    kiln_tensor *b = fits ? o->b : kiln_scalar_int(2);
    if (is_bool(o->a)) return NULL;
    if (!fits) nb = "2";
    switch (choose(o, is_float(o->a) ? 10 : 7)) {
    case 0: say(o, "mul_(%s, %s)", o->na, nb); return written(o, kiln_mul_(o->a, b));
    case 1:
    case 2: say(o, "add_(%s, %s)", o->na, nb); return written(o, kiln_add_(o->a, b));
    case 3: say(o, "sub_(%s, %s)", o->na, nb); return written(o, kiln_sub_(o->a, b));
    case 4: say(o, "neg_(%s)", o->na); return written(o, kiln_neg_(o->a));
    case 5: say(o, "maximum_(%s, %s)", o->na, nb); return written(o, kiln_maximum_(o->a, b));
    case 6: say(o, "relu_(%s)", o->na); return written(o, kiln_relu_(o->a));
    case 7: say(o, "mul_(%s, 0.75)", o->na); return written(o, kiln_mul_(o->a, kiln_scalar(0.75)));
    case 8: say(o, "tanh_(%s)", o->na); return written(o, kiln_tanh_(o->a));
    default: say(o, "lerp_(%s, %s, 0.25)", o->na, nb); return written(o, kiln_lerp_(o->a, b, kiln_scalar(0.25)));
    }
}

kiln_tensor *step_assign(struct operands *o)
{
    bool fits = broadcasts(o->a, o->b, true) && (is_float(o->a) || !is_float(o->b)) && is_bool(o->a) == is_bool(o->b);
    if (choose(o, 3) == 0 && is_float(o->a)) {
        say(o, "assign(%s, 1 - %s)", o->na, o->na);
        return written(o, kiln_assign(o->a, kiln_sub(kiln_scalar(1), o->a)));
    }
    if (!fits) return NULL;
    say(o, "assign(%s, %s)", o->na, o->nb);
    return written(o, kiln_assign(o->a, o->b));
}

// By index, in place.
kiln_tensor *step_index_assign(struct operands *o)
{
    int64_t n = kiln_rank(o->a) ? kiln_dims(o->a)[0] : 0, count = 1 + choose(o, 3);
    bool add = choose(o, 2) && !is_bool(o->a);
    kiln_tensor *two = is_float(o->a) ? kiln_scalar(0.5) : is_bool(o->a) ? kiln_scalar_bool(true) : kiln_scalar_int(2);
    if (!n || !kiln_numel(o->a)) return NULL;
    if (choose(o, 2)) {
        kiln_tensor *mask = kiln_greater(o->a, kiln_scalar_int(0));
        say(o, "index_assign%s(%s, a mask of it > 0, 2)", add ? "_add" : "", o->na);
        return written(o, add ? kiln_index_assign_add(o->a, KILN_INDEX(KILN_MASK(mask)), two)
                              : kiln_index_assign(o->a, KILN_INDEX(KILN_MASK(mask)), two));
    }
    kiln_tensor *index = make_index(o, 1, &count, n);
    if (!index) return NULL;
    say(o, "index_assign%s(%s, %d rows, 2)", add ? "_add" : "", o->na, (int)count);
    return written(o, add ? kiln_index_assign_add(o->a, KILN_INDEX(KILN_TAKE(index)), two)
                          : kiln_index_assign(o->a, KILN_INDEX(KILN_TAKE(index)), two));
}

// As an optimiser writes: leaves, and views of them, without a tape.
kiln_tensor *step_leaf(struct operands *o)
{
    bool fits = broadcasts(o->a, o->b, true) && is_float(o->b);
    if (!is_float(o->a)) return NULL;
    kiln_no_grad_begin();
    kiln_status status = choose(o, 2) ? kiln_sub_(o->a, kiln_mul(fits ? o->b : o->a, kiln_scalar(0.125)))
                                      : kiln_assign(o->a, kiln_mul(o->a, kiln_scalar(0.5)));
    kiln_tensor *moved = status ? o->a : with_noise(o->run, o->a); // captured, it may be read unrounded
    if (moved != o->a) status = kiln_assign(o->a, moved);
    kiln_no_grad_end();
    say(o, "no_grad: sub_(%s, %s / 8) or assign(%s, %s / 2)", o->na, fits ? o->nb : o->na, o->na, o->na);
    return written(o, status);
}

// An op that is refused; the function goes on.
kiln_tensor *step_failing(struct operands *o)
{
    switch (choose(o, 3)) {
    case 0:
        say(o, "narrow(%s, 7, 0, 1), which fails", o->na);
        kiln_narrow(o->a, 7, 0, 1);
        break;
    case 1:
        say(o, "reshape(exp(%s), 7, 97), which fails", o->na);
        kiln_reshape(kiln_tanh(o->a), KILN_SHAPE(7, 97));
        break;
    default:
        say(o, "concat(%s, rank 6), which fails", o->na);
        kiln_concat((kiln_tensor *[]){o->a, kiln_ones(o->run->dev, KILN_F32, KILN_SHAPE(1, 1, 1, 1, 1, 1))}, 2, 0);
    }
    if (!kiln_error()) return NULL;
    kiln_error_clear();
    return o->a;
}

kiln_tensor *step_read(struct operands *o)
{
    kiln_tensor *x = o->a;
    if (!kiln_numel(x)) return NULL;
    say(o, "read(an element of %s)", o->na);
    while (kiln_rank(x)) x = kiln_select(x, 0, choose(o, (uint32_t)kiln_dims(x)[0]));
    double v = kiln_item(x);
    if (isfinite(v)) o->run->heard += v;
    return kiln_error() ? NULL : o->a;
}

kiln_tensor *step_branch(struct operands *o)
{
    if (!is_float(o->a)) return NULL;
    double v = kiln_item(kiln_sum(o->a, NULL));
    if (kiln_error()) return NULL;
    bool on = v > 0.25, twice = choose(o, 2);
    say(o, "sum(%s) > 0.25 ? %s : %s * 2", o->na, twice ? "tanh" : "neg", o->na);
    return !on ? kiln_mul(o->a, kiln_scalar(2)) : twice ? kiln_tanh(o->a) : kiln_neg(o->a);
}
