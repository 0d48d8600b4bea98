// Matrices for cases of factorisations: well conditioned, of whatever numbers they are made.
#pragma once
#include <kiln/kiln.h>

static inline kiln_tensor *numbers_of(kiln_tensor *x)
{
    return kiln_tensor_dtype(x) <= KILN_I64 ? kiln_cast(x, KILN_F32) : x;
}

// x / 8 + diag(2, 4, 6 ...)
static inline kiln_tensor *near_diagonal(kiln_tensor *x)
{
    x = numbers_of(x);
    kiln_device *dev = kiln_tensor_device(x);
    kiln_dtype dtype = kiln_tensor_dtype(x);
    int64_t m = kiln_dim(x, -2), n = kiln_dim(x, -1);
    kiln_tensor *diagonal = kiln_mul(kiln_eye(dev, dtype, m, n), kiln_arange(dev, dtype, 2, 2. * (double)n + 1, 2));
    return kiln_add(kiln_mul(x, kiln_scalar(0.125)), diagonal);
}

static inline kiln_tensor *near_symmetric(kiln_tensor *x)
{
    x = near_diagonal(x);
    return kiln_mul(kiln_add(x, kiln_transpose(x, -2, -1)), kiln_scalar(0.5));
}

static inline kiln_tensor *log_of_determinant(kiln_tensor *x)
{
    kiln_tensor *sign, *log_size;
    return kiln_slogdet(near_diagonal(x), &sign, &log_size) ? NULL : kiln_mul(sign, log_size);
}

// Functions of eigenvectors and of singular vectors that do not change with their signs.
static inline kiln_tensor *of_spectrum(kiln_tensor *x)
{
    kiln_tensor *w, *v;
    if (kiln_eigh(near_symmetric(x), &w, &v)) return NULL;
    return kiln_matmul(kiln_mul(v, kiln_unsqueeze(kiln_sin(w), -2)), kiln_transpose(v, -2, -1));
}

static inline kiln_tensor *of_singular_values(kiln_tensor *x, bool full)
{
    kiln_tensor *u, *s, *vh;
    if (kiln_svd(near_diagonal(x), full, &u, &s, &vh)) return NULL;
    return kiln_matmul(kiln_mul(u, kiln_unsqueeze(kiln_sin(s), -2)), vh);
}

static inline kiln_tensor *both_factors(kiln_tensor *x, bool complete)
{
    kiln_tensor *q, *r;
    if (kiln_qr(near_diagonal(x), complete, &q, &r)) return NULL;
    kiln_tensor *flat[] = {kiln_reshape(q, KILN_SHAPE(-1)), kiln_reshape(r, KILN_SHAPE(-1))};
    return kiln_concat(flat, 2, 0);
}

static inline kiln_tensor *lower_and_upper(kiln_tensor *x)
{
    kiln_tensor *p, *l, *u;
    if (kiln_lu(near_diagonal(x), &p, &l, &u)) return NULL;
    kiln_tensor *flat[] = {kiln_reshape(l, KILN_SHAPE(-1)), kiln_reshape(u, KILN_SHAPE(-1))};
    return kiln_concat(flat, 2, 0);
}

// 3 x 3, near a matrix of the eigenvalues 2 + 3 i, 2 - 3 i and 6.
static inline kiln_tensor *near_turn(kiln_tensor *x)
{
    static const double turn[] = {0, -3, 1, 3, -2, 0, 0, 1, 0}; // beside the diagonal 2, 4, 6
    x = near_diagonal(x);
    kiln_tensor *t = kiln_from_data(kiln_tensor_device(x), KILN_F64, KILN_SHAPE(3, 3), turn);
    return kiln_add(x, kiln_cast(t, kiln_tensor_dtype(x)));
}

// Functions of eigenvectors that do not change with their phases.
static inline kiln_tensor *of_pairs(kiln_tensor *x)
{
    kiln_tensor *re, *im, *vr, *vi;
    if (kiln_eig_parts(near_turn(x), &re, &im, &vr, &vi)) return NULL;
    kiln_tensor *sizes = kiln_add(kiln_square(vr), kiln_square(vi));
    return kiln_mul(sizes, kiln_unsqueeze(kiln_add(kiln_sin(re), kiln_square(im)), -2));
}

static inline kiln_tensor *of_pair_values(kiln_tensor *x)
{
    kiln_tensor *re, *im;
    if (kiln_eigvals_parts(near_turn(x), &re, &im)) return NULL;
    return kiln_add(kiln_sin(re), kiln_square(im));
}
