// Where a place in a sequence is told to a network: rotations, waves, biases.
#include "compose/composite.h"

#include <math.h>

static kiln_dtype wide_of(kiln_dtype dtype)
{
    return dtype == KILN_F64 ? KILN_F64 : KILN_F32;
}

// base^(-2 i / width) for i below n.
static kiln_tensor *frequencies(kiln_device *dev, kiln_dtype dtype, int64_t n, double width, double base)
{
    kiln_tensor *i = kiln_arange(dev, dtype, 0, (double)n, 1);
    return kiln_exp(kiln_mul(i, kiln_scalar(-2 * log(base) / width)));
}

// Turns the first `dims` elements of the last axis, in pairs.
static kiln_tensor *rotate(kiln_tensor *x, kiln_tensor *cos, kiln_tensor *sin, int64_t dims, bool interleaved)
{
    size_t rank = kiln_rank(x);
    int64_t width = kiln_dims(x)[rank - 1], turned[KILN_MAX_RANK + 1];
    kiln_tensor *part = dims < width ? kiln_narrow(x, -1, 0, dims) : x, *p[3];
    if (interleaved) {
        for (size_t i = 0; i < rank; i++) turned[i] = kiln_dims(x)[i];
        turned[rank - 1] = dims / 2;
        turned[rank] = 2;
        part = kiln_reshape(part, rank + 1, turned);
        for (int i = 0; i < 2; i++) p[i] = kiln_select(part, -1, i);
    } else {
        for (int i = 0; i < 2; i++) p[i] = kiln_narrow(part, -1, i * (dims / 2), dims / 2);
    }
    kiln_tensor *a = kiln_sub(kiln_mul(p[0], cos), kiln_mul(p[1], sin));
    kiln_tensor *b = kiln_add(kiln_mul(p[1], cos), kiln_mul(p[0], sin));
    p[0] = a, p[1] = b;
    if (interleaved) {
        turned[rank - 1] = dims;
        p[0] = kiln_reshape(kiln_stack(p, 2, -1), rank, turned);
        if (dims == width) return p[0];
    }
    size_t n = interleaved ? 1 : 2;
    if (dims < width) p[n++] = kiln_narrow(x, -1, dims, width - dims);
    return kiln_concat(p, n, -1);
}

kiln_tensor *compose_rotary_embedding(kiln_tensor *x, kiln_tensor *cos, kiln_tensor *sin,
                                      const kiln_rotary_embedding_opts *o)
{
    size_t rank = kiln_rank(x), of_cos = kiln_rank(cos);
    int64_t half = of_cos ? kiln_dims(cos)[of_cos - 1] : 0;
    bool fits =
        rank > 0 && of_cos > 0 && of_cos == kiln_rank(sin) && of_cos <= rank && 2 * half <= kiln_dims(x)[rank - 1];
    for (size_t i = 0; fits && i < of_cos; i++) {
        int64_t n = kiln_dims(cos)[i];
        fits = n == kiln_dims(sin)[i] && (i + 1 == of_cos || n == 1 || n == kiln_dims(x)[rank - of_cos + i]);
    }
    if (!fits) {
        error_set(KILN_E_SHAPE,
                  "cos and sin must be alike and broadcast to x's shape with half of its last axis at "
                  "most, cos is %s, sin is %s, x is %s",
                  type_of(cos).s, type_of(sin).s, type_of(x).s);
        return NULL;
    }
    return rotate(x, cos, sin, 2 * half, o->interleaved);
}

// The places of x's axis T, with an axis behind them for the frequencies.
static kiln_tensor *places(kiln_tensor *x, kiln_tensor *positions, const kiln_rope_opts *o)
{
    size_t rank = kiln_rank(x);
    kiln_dtype wide = wide_of(kiln_tensor_dtype(x));
    if (!positions) {
        double first = (double)o->offset;
        positions = kiln_arange(kiln_tensor_device(x), wide, first, first + (double)kiln_dims(x)[rank - 2], 1);
    } else {
        bool fits = kiln_rank(positions) < rank;
        for (size_t i = 0; fits && i < kiln_rank(positions); i++) {
            int64_t n = kiln_dims(positions)[i];
            fits = n == 1 || n == kiln_dims(x)[rank - 1 - kiln_rank(positions) + i];
        }
        if (!fits) {
            error_set(KILN_E_SHAPE, "positions must broadcast to x's shape without the last axis, they are %s, x is %s",
                      type_of(positions).s, type_of(x).s);
            return NULL;
        }
        positions = kiln_cast(positions, wide);
        if (o->offset) positions = kiln_add(positions, kiln_scalar((double)o->offset));
    }
    if (o->scale != 1) positions = kiln_mul(positions, kiln_scalar(o->scale));
    return kiln_unsqueeze(positions, -1);
}

kiln_tensor *compose_rope(kiln_tensor *x, kiln_tensor *positions, const kiln_rope_opts *o)
{
    size_t rank = kiln_rank(x);
    int64_t dims = rank < 2 ? 0 : o->dims ? o->dims : kiln_dims(x)[rank - 1];
    if (rank < 2 || dims < 0 || dims % 2 || dims > kiln_dims(x)[rank - 1] || !(o->base > 0)) {
        error_set(KILN_E_SHAPE,
                  "x must be [...,T,D] with an even number of turned elements, base positive; x is %s, "
                  "%lld are turned, base is %g",
                  type_of(x).s, (long long)dims, o->base);
        return NULL;
    }
    kiln_dtype dtype = kiln_tensor_dtype(x), wide = wide_of(dtype);
    kiln_tensor *t = places(x, positions, o);
    if (error_pending) return NULL;
    kiln_tensor *angles = kiln_mul(t, frequencies(kiln_tensor_device(x), wide, dims / 2, (double)dims, o->base));
    kiln_tensor *y = rotate(x, kiln_cos(angles), kiln_sin(angles), dims, o->interleaved);
    bool narrow = dtype == KILN_F16 || dtype == KILN_BF16;
    return narrow ? kiln_cast(y, dtype) : y;
}

kiln_tensor *compose_sinusoidal_positions(kiln_device *dev, kiln_dtype dtype, int64_t length, int64_t width)
{
    if (length < 0 || width < 1) {
        error_set(KILN_E_ARGUMENT, "length must not be negative and width positive, got %lld and %lld",
                  (long long)length, (long long)width);
        return NULL;
    }
    kiln_dtype wide = wide_of(dtype);
    kiln_tensor *t = kiln_unsqueeze(kiln_arange(dev, wide, 0, (double)length, 1), 1);
    kiln_tensor *angles = kiln_mul(t, frequencies(dev, wide, (width + 1) / 2, (double)width, 10000));
    kiln_tensor *pair[2] = {kiln_sin(angles), kiln_cos(angles)};
    kiln_tensor *all = kiln_reshape(kiln_stack(pair, 2, -1), KILN_SHAPE(length, (width + 1) / 2 * 2));
    if (width % 2) all = kiln_contiguous(kiln_narrow(all, 1, 0, width));
    return dtype == wide ? all : kiln_cast(all, dtype);
}

// 2^(-8 (first + step i) / n) for i below count.
static kiln_tensor *slopes(kiln_device *dev, kiln_dtype dtype, int64_t n, double first, double step, int64_t count)
{
    kiln_tensor *i = kiln_arange(dev, dtype, first, first + step * (double)count - step / 2, step);
    return kiln_exp2(kiln_mul(i, kiln_scalar(-8.0 / (double)n)));
}

// Where the heads are no power of 2, those above one are taken between the slopes of twice as many.
kiln_tensor *compose_alibi_bias(kiln_device *dev, kiln_dtype dtype, int64_t heads, int64_t q_length, int64_t k_length)
{
    if (heads < 1 || q_length < 1 || k_length < 1) {
        error_set(KILN_E_ARGUMENT, "heads, q_length and k_length must be positive, got %lld, %lld and %lld",
                  (long long)heads, (long long)q_length, (long long)k_length);
        return NULL;
    }
    kiln_dtype wide = wide_of(dtype);
    int64_t n = 1;
    while (2 * n <= heads) n *= 2;
    kiln_tensor *parts[2] = {slopes(dev, wide, n, 1, 1, n), NULL}, *slope = parts[0];
    if (heads > n) {
        parts[1] = slopes(dev, wide, 2 * n, 1, 2, heads - n);
        slope = kiln_concat(parts, 2, 0);
    }
    kiln_tensor *key = kiln_arange(dev, wide, 0, (double)k_length, 1);
    double first = (double)(k_length - q_length);
    kiln_tensor *query = kiln_arange(dev, wide, first, first + (double)q_length, 1);
    kiln_tensor *apart = kiln_sub(key, kiln_unsqueeze(query, 1));
    kiln_tensor *bias = kiln_mul(kiln_reshape(slope, KILN_SHAPE(heads, 1, 1)), apart);
    return dtype == wide ? bias : kiln_cast(bias, dtype);
}
