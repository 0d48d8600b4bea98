// Spectra of pieces of a signal, and the signal of such.
#include "compose/complex.h"
#include "compose/composite.h"
#include "base/dtype.h"

struct cuts {
    int64_t n, hop;
    kiln_tensor *window; // [n]
};

// The window in the middle of n samples, zeros around; ones where there is none.
static kiln_tensor *window_of(const kiln_stft_opts *o, kiln_tensor *like, kiln_dtype dtype)
{
    if (!o->window) return kiln_ones(kiln_tensor_device(like), dtype, KILN_SHAPE(o->n));
    if (kiln_rank(o->window) != 1 || kiln_numel(o->window) > o->n) {
        error_set(KILN_E_SHAPE, ".window must have at most .n = %lld samples, it is %s", (long long)o->n,
                  type_of(o->window).s);
        return NULL;
    }
    int64_t left = (o->n - kiln_numel(o->window)) / 2, right = o->n - kiln_numel(o->window) - left;
    kiln_tensor *wide = kiln_pad(o->window, KILN_PAD(.before = {1, &left}, .after = {1, &right}));
    return kiln_cast(wide, dtype);
}

static bool read_options(const kiln_stft_opts *o, kiln_tensor *like, kiln_dtype dtype, struct cuts *p)
{
    *p = (struct cuts){o->n, o->hop ? o->hop : o->n / 4, NULL};
    if (o->n <= 0)
        error_set(KILN_E_ARGUMENT, ".n is %lld", (long long)o->n);
    else if (p->hop <= 0)
        error_set(KILN_E_ARGUMENT, ".hop is %lld", (long long)p->hop);
    if (!error_pending) p->window = window_of(o, like, dtype);
    return !error_pending;
}

static kiln_tensor *mirrored(kiln_tensor *x, int64_t by)
{
    int64_t around[KILN_MAX_RANK] = {0};
    size_t rank = kiln_rank(x);
    around[rank - 1] = by;
    return kiln_pad(x, KILN_PAD(.before = {rank, around}, .after = {rank, around}, .mode = KILN_PAD_REFLECT));
}

// [..., pieces, n] of [..., L], by the places of the samples.
static kiln_tensor *cut(kiln_tensor *x, const struct cuts *p)
{
    int64_t length = kiln_dim(x, -1);
    if (error_pending) return NULL;
    if (length < p->n) {
        error_set(KILN_E_SHAPE, "x has %lld samples, a piece has %lld", (long long)length, (long long)p->n);
        return NULL;
    }
    int64_t count = (length - p->n) / p->hop + 1;
    kiln_device *dev = kiln_tensor_device(x);
    kiln_tensor *starts = kiln_arange(dev, KILN_I64, 0, (double)(count * p->hop), (double)p->hop);
    kiln_tensor *samples = kiln_arange(dev, KILN_I64, 0, (double)p->n, 1);
    return kiln_take(x, -1, kiln_add(kiln_unsqueeze(starts, 1), samples));
}

kiln_tensor *compose_stft(kiln_tensor *x, const kiln_stft_opts *o)
{
    struct cuts p;
    kiln_dtype dtype = kiln_tensor_dtype(x) == KILN_F64 ? KILN_F64 : KILN_F32;
    if (is_complex(x) || kiln_rank(x) == 0) {
        error_set(is_complex(x) ? KILN_E_DTYPE : KILN_E_SHAPE, "x must be real signals [..., L], it is %s",
                  type_of(x).s);
        return NULL;
    }
    if (!read_options(o, x, dtype, &p)) return NULL;
    x = kiln_cast(x, dtype);
    kiln_tensor *parts = cut(o->center ? mirrored(x, o->n / 2) : x, &p);
    return kiln_transpose(kiln_rfft(kiln_mul(parts, p.window), -1, NULL), -1, -2);
}

// [..., L] of [..., pieces, n], each added at its place.
static kiln_tensor *added(kiln_tensor *parts, const struct cuts *p, int64_t length)
{
    size_t rank = kiln_rank(parts);
    int64_t count = kiln_dim(parts, -2), dims[KILN_MAX_RANK];
    if (error_pending) return NULL;
    for (size_t i = 0; i + 2 < rank; i++) dims[i] = kiln_dims(parts)[i];
    kiln_device *dev = kiln_tensor_device(parts);
    kiln_tensor *starts = kiln_arange(dev, KILN_I64, 0, (double)(count * p->hop), (double)p->hop);
    kiln_tensor *samples = kiln_arange(dev, KILN_I64, 0, (double)p->n, 1);
    kiln_tensor *places = kiln_reshape(kiln_add(kiln_unsqueeze(starts, 1), samples), KILN_SHAPE(-1));
    dims[rank - 2] = count * p->n;
    kiln_tensor *flat = kiln_reshape(parts, rank - 1, dims);
    dims[rank - 2] = length;
    return kiln_index_add(kiln_zeros(dev, kiln_tensor_dtype(parts), rank - 1, dims), -1, places, flat);
}

static kiln_tensor *of_length(kiln_tensor *x, int64_t length)
{
    int64_t have = kiln_dim(x, -1), after[KILN_MAX_RANK] = {0};
    if (error_pending || length == 0 || have == length) return x;
    if (have > length) return kiln_narrow(x, -1, 0, length);
    after[kiln_rank(x) - 1] = length - have;
    return kiln_pad(x, KILN_PAD(.after = {kiln_rank(x), after}));
}

kiln_tensor *compose_istft(kiln_tensor *x, const kiln_stft_opts *o)
{
    struct cuts p;
    kiln_dtype dtype = kiln_tensor_dtype(x) == KILN_C128 ? KILN_F64 : KILN_F32;
    if (!is_complex(x) || kiln_rank(x) < 2 || kiln_dim(x, -2) != o->n / 2 + 1) {
        error_set(is_complex(x) ? KILN_E_SHAPE : KILN_E_DTYPE,
                  "x must be complex spectra [..., .n / 2 + 1, pieces] with .n = %lld, it is %s", (long long)o->n,
                  type_of(x).s);
        return NULL;
    }
    if (!read_options(o, x, dtype, &p)) return NULL;
    int64_t count = kiln_dim(x, -1), length = (count - 1) * p.hop + p.n;
    kiln_tensor *parts = kiln_irfft(kiln_transpose(x, -1, -2), -1, KILN_FFT(.n = p.n));
    kiln_tensor *sum = added(kiln_mul(parts, p.window), &p, length);
    kiln_tensor *squares = kiln_expand(kiln_square(p.window), KILN_SHAPE(count, p.n));
    kiln_tensor *weight = added(squares, &p, length);
    kiln_tensor *none = kiln_less(weight, kiln_scalar(1e-11));
    kiln_tensor *y = kiln_div(sum, kiln_where(none, kiln_scalar(1), weight));
    if (o->center) y = kiln_narrow(y, -1, p.n / 2, length - 2 * (p.n / 2));
    return of_length(y, o->length);
}
