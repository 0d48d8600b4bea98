// Fourier transforms of complex tensors and of real ones, by kiln_fft_pairs.
#include "compose/complex.h"
#include "compose/composite.h"

#include <math.h>

static kiln_tensor *as_complex(kiln_tensor *x)
{
    if (is_complex(x)) return x;
    return kiln_complex(x, kiln_zeros_like(x));
}

// The axis with its first n entries, or as many, then zeros.
static kiln_tensor *with_length(kiln_tensor *x, int axis, int64_t n)
{
    int64_t have = kiln_dims(x)[axis], after[KILN_MAX_RANK] = {0};
    if (have == n) return x;
    if (have > n) return kiln_narrow(x, axis, 0, n);
    after[axis] = n - have;
    return kiln_pad(x, KILN_PAD(.after = {(size_t)axis + 1, after}));
}

// By what a transform is divided.
static double divisor(int64_t norm, bool inverse, int64_t n)
{
    if (norm == KILN_FFT_ORTHO) return sqrt((double)n);
    return inverse == (norm == KILN_FFT_BACKWARD) ? (double)n : 1;
}

static bool sound(const kiln_fft_opts *o)
{
    if (o->n < 0)
        error_set(KILN_E_ARGUMENT, ".n is %lld", (long long)o->n);
    else if (o->norm < KILN_FFT_BACKWARD || o->norm > KILN_FFT_ORTHO)
        error_set(KILN_E_ARGUMENT, ".norm is %lld", (long long)o->norm);
    return !error_pending;
}

static bool has_length(int64_t n, const kiln_tensor *x, int axis)
{
    if (n > 0) return true;
    error_set(KILN_E_SHAPE, "a transform of no elements: axis %d of %s", axis, type_of(x).s);
    return false;
}

static kiln_tensor *transform(kiln_tensor *x, int64_t axis, int64_t n, int64_t norm, bool inverse)
{
    if (error_pending) return NULL;
    int at = composite_axis("axis", axis, kiln_rank(x), x);
    if (at < 0) return NULL;
    if (n == 0) n = kiln_dims(x)[at];
    if (!has_length(n, x, at)) return NULL;
    kiln_tensor *z = with_length(as_complex(x), at, n);
    kiln_tensor *pairs = kiln_fft_pairs(kiln_view_as_real(z), at, inverse);
    double by = divisor(norm, inverse, n);
    if (by != 1) pairs = kiln_mul(pairs, kiln_scalar(1 / by));
    return kiln_view_as_complex(pairs);
}

kiln_tensor *compose_fft(kiln_tensor *x, int64_t axis, const kiln_fft_opts *o)
{
    return sound(o) ? transform(x, axis, o->n, o->norm, false) : NULL;
}

kiln_tensor *compose_ifft(kiln_tensor *x, int64_t axis, const kiln_fft_opts *o)
{
    return sound(o) ? transform(x, axis, o->n, o->norm, true) : NULL;
}

static bool is_real(const kiln_tensor *x)
{
    if (is_complex(x)) error_set(KILN_E_DTYPE, "x must be real, it is %s", type_of(x).s);
    return !error_pending;
}

static kiln_tensor *half(kiln_tensor *x, int64_t axis, int64_t n, int64_t norm)
{
    if (error_pending || !is_real(x)) return NULL;
    int at = composite_axis("axis", axis, kiln_rank(x), x);
    if (at < 0) return NULL;
    kiln_tensor *all = transform(x, at, n, norm, false);
    return all ? kiln_narrow(all, at, 0, kiln_dims(all)[at] / 2 + 1) : NULL;
}

// All n entries of a spectrum that is conjugate to itself in reverse, of the first n / 2 + 1.
static kiln_tensor *whole(kiln_tensor *x, int axis, int64_t n)
{
    int64_t first = n / 2 + 1, rest = n - first;
    kiln_tensor *known = with_length(as_complex(x), axis, first);
    if (rest == 0) return known;
    kiln_tensor *mirrored = kiln_flip(kiln_narrow(known, axis, 1, rest), KILN_AXES(axis));
    return kiln_concat((kiln_tensor *[]){known, kiln_conj(mirrored)}, 2, axis);
}

static kiln_tensor *from_half(kiln_tensor *x, int64_t axis, int64_t n, int64_t norm, bool inverse)
{
    if (error_pending) return NULL;
    int at = composite_axis("axis", axis, kiln_rank(x), x);
    if (at < 0) return NULL;
    if (n == 0) n = 2 * (kiln_dims(x)[at] - 1);
    if (!has_length(n, x, at)) return NULL;
    return kiln_real(transform(whole(x, at, n), at, n, norm, inverse));
}

kiln_tensor *compose_rfft(kiln_tensor *x, int64_t axis, const kiln_fft_opts *o)
{
    return sound(o) ? half(x, axis, o->n, o->norm) : NULL;
}

kiln_tensor *compose_irfft(kiln_tensor *x, int64_t axis, const kiln_fft_opts *o)
{
    return sound(o) ? from_half(x, axis, o->n, o->norm, true) : NULL;
}

kiln_tensor *compose_hfft(kiln_tensor *x, int64_t axis, const kiln_fft_opts *o)
{
    return sound(o) ? from_half(kiln_conj(x), axis, o->n, o->norm, false) : NULL;
}

// conj(rfft(x)), divided as an inverse is.
kiln_tensor *compose_ihfft(kiln_tensor *x, int64_t axis, const kiln_fft_opts *o)
{
    static const int64_t other[] = {KILN_FFT_FORWARD, KILN_FFT_BACKWARD, KILN_FFT_ORTHO};
    return sound(o) ? kiln_conj(half(x, axis, o->n, other[o->norm])) : NULL;
}

// --- several axes

struct axes {
    size_t n;
    int at[KILN_MAX_RANK]; // from the front
};

static bool read_axes(const kiln_tensor *x, size_t count, const int64_t *axes, const kiln_fft_opts *o, struct axes *out)
{
    size_t rank = kiln_rank(x);
    out->n = count ? count : rank;
    if (!sound(o)) return false;
    if (out->n == 0 || out->n > rank)
        error_set(KILN_E_AXIS, "%zu axes of %s", out->n, type_of(x).s);
    else if (count && !axes)
        error_set(KILN_E_ARGUMENT, "axes is NULL");
    for (size_t i = 0; i < out->n && !error_pending; i++) {
        out->at[i] = count ? composite_axis("axis", axes[i], rank, x) : (int)i;
        for (size_t k = 0; k < i; k++)
            if (out->at[k] == out->at[i] && !error_pending)
                error_set(KILN_E_AXIS, "axis %d of %s is given twice", out->at[i], type_of(x).s);
    }
    return !error_pending;
}

static bool has_no_n(const kiln_fft_opts *o)
{
    if (o->n) error_set(KILN_E_ARGUMENT, ".n is %lld: axes keep their lengths", (long long)o->n);
    return !error_pending;
}

static kiln_tensor *along(kiln_tensor *x, const struct axes *axes, size_t n, int64_t norm, bool inverse)
{
    for (size_t i = 0; i < n && x; i++) x = transform(x, axes->at[i], 0, norm, inverse);
    return x;
}

kiln_tensor *compose_fftn(kiln_tensor *x, kiln_ints axes, const kiln_fft_opts *o)
{
    struct axes a;
    return read_axes(x, axes.count, axes.v, o, &a) && has_no_n(o) ? along(x, &a, a.n, o->norm, false) : NULL;
}

kiln_tensor *compose_ifftn(kiln_tensor *x, kiln_ints axes, const kiln_fft_opts *o)
{
    struct axes a;
    return read_axes(x, axes.count, axes.v, o, &a) && has_no_n(o) ? along(x, &a, a.n, o->norm, true) : NULL;
}

kiln_tensor *compose_rfftn(kiln_tensor *x, kiln_ints axes, const kiln_fft_opts *o)
{
    struct axes a;
    if (!read_axes(x, axes.count, axes.v, o, &a) || !has_no_n(o)) return NULL;
    return along(half(x, a.at[a.n - 1], 0, o->norm), &a, a.n - 1, o->norm, false);
}

kiln_tensor *compose_irfftn(kiln_tensor *x, kiln_ints axes, const kiln_fft_opts *o)
{
    struct axes a;
    if (!read_axes(x, axes.count, axes.v, o, &a)) return NULL;
    return from_half(along(x, &a, a.n - 1, o->norm, true), a.at[a.n - 1], o->n, o->norm, true);
}

static const int64_t last_two[] = {-2, -1};

kiln_tensor *compose_fft2(kiln_tensor *x, const kiln_fft_opts *o)
{
    return compose_fftn(x, (kiln_ints){2, last_two}, o);
}

kiln_tensor *compose_ifft2(kiln_tensor *x, const kiln_fft_opts *o)
{
    return compose_ifftn(x, (kiln_ints){2, last_two}, o);
}

kiln_tensor *compose_rfft2(kiln_tensor *x, const kiln_fft_opts *o)
{
    return compose_rfftn(x, (kiln_ints){2, last_two}, o);
}

kiln_tensor *compose_irfft2(kiln_tensor *x, const kiln_fft_opts *o)
{
    return compose_irfftn(x, (kiln_ints){2, last_two}, o);
}
