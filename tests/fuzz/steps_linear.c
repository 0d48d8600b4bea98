// Steps by factors of matrices that are far from singular, whatever the operand: x x^T + n I with x in [-1, 1].
#include "fuzz.h"

enum { MOST_ROWS = 6 };

static kiln_tensor *definite(kiln_tensor *x)
{
    int64_t n = kiln_dim(x, -2);
    kiln_tensor *eye = kiln_eye(kiln_tensor_device(x), kiln_tensor_dtype(x), n, n);
    return kiln_add(kiln_matmul(x, kiln_transpose(x, -1, -2)), kiln_mul(eye, kiln_scalar((double)n)));
}

static kiln_tensor *parts_of(struct operands *o, kiln_tensor *g, kiln_tensor *x)
{
    kiln_tensor *q, *r;
    switch (choose(o, 3)) {
    case 0:
        say(o, "slogdet of a definite matrix of %s, added", o->na);
        return kiln_slogdet(g, &q, &r) ? NULL : kiln_add(q, r);
    case 1: say(o, "a product of the qr of a definite matrix of %s", o->na); break;
    default: say(o, "svdvals of %s, without a gradient", o->na); return kiln_svdvals(kiln_stop_gradient(x));
    }
    return kiln_qr(g, false, &q, &r) ? NULL : kiln_matmul(kiln_sin(q), kiln_tanh(r));
}

kiln_tensor *step_factor(struct operands *o)
{
    if (kiln_rank(o->a) < 2 || !is_float(o->a) || kiln_dim(o->a, -2) > MOST_ROWS || !kiln_numel(o->a)) return NULL;
    kiln_tensor *x = kiln_tanh(o->a), *g = definite(x);
    bool right = is_float(o->b) && kiln_rank(o->b) > 1 && kiln_rank(o->b) <= kiln_rank(o->a) &&
                 kiln_dim(o->b, -2) == kiln_dim(o->a, -2) && same_shape(o->a, o->b);
    kiln_tensor *b = right ? o->b : x;
    const char *nb = right ? o->nb : "that operand's tanh";
    switch (choose(o, 7)) {
    case 0: say(o, "solve(a definite matrix of %s, %s)", o->na, nb); return kiln_solve(g, b);
    case 1: say(o, "inv(a definite matrix of %s)", o->na); return kiln_inv(g);
    case 2: say(o, "cholesky(a definite matrix of %s)", o->na); return kiln_cholesky(g, choose(o, 2));
    case 3:
        say(o, "det(a definite matrix of %s, divided)", o->na);
        return kiln_det(kiln_mul(g, kiln_scalar(1.0 / (2 * MOST_ROWS))));
    case 4:
        say(o, "solve_triangular(cholesky of a definite matrix of %s, %s)", o->na, nb);
        return kiln_solve_triangular(kiln_cholesky(g, false), b, false, choose(o, 2), false);
    default: return parts_of(o, g, x);
    }
}
