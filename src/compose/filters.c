// Filters of images [...,H,W]: each plane by itself. At the edges a blur sees the image mirrored, edges and medians see
// the edge again and again, and morphology sees nothing.
#include "compose/given.h"

#include <math.h>
#include <string.h>

// [planes,1,H,W] of x.
static kiln_tensor *as_planes(kiln_tensor *x)
{
    int64_t h = kiln_dim(x, -2), w = kiln_dim(x, -1), planes = 1;
    for (size_t i = 0; !error_pending && i + 2 < kiln_rank(x); i++) planes *= kiln_dims(x)[i];
    return kiln_reshape(x, KILN_SHAPE(planes, 1, h, w));
}

static kiln_tensor *like(kiln_tensor *y, kiln_tensor *x)
{
    return kiln_reshape(y, kiln_rank(x), kiln_dims(x));
}

static kiln_tensor *with_edges(kiln_tensor *planes, int64_t by, int64_t mode)
{
    int64_t around[] = {0, 0, by, by};
    return kiln_pad(planes, KILN_PAD(.before = {4, around}, .after = {4, around}, .mode = mode));
}

static bool odd(const char *argument, int64_t size)
{
    if (given_range(argument, size, 1, (1 << 15) - 1) && size % 2 == 0)
        error_set(KILN_E_ARGUMENT, "%s is %lld, it must be odd", argument, (long long)size);
    return !error_pending;
}

kiln_tensor *compose_gaussian_blur(kiln_tensor *x, int64_t size, double sigma)
{
    if (!given_image("x", x) || !odd("size", size)) return NULL;
    if (sigma == 0) sigma = 0.3 * ((double)(size - 1) * 0.5 - 1) + 0.8;
    if (!(sigma > 0) || isinf(sigma)) error_set(KILN_E_ARGUMENT, "sigma is %g", sigma);
    kiln_dtype dtype = kiln_tensor_dtype(x), wide = wide_dtype(dtype);
    double *v = table_new(size), sum = 0;
    for (int64_t i = 0; v && i < size; i++) {
        double d = (double)(i - size / 2) / sigma;
        sum += v[i] = exp(-d * d / 2);
    }
    for (int64_t i = 0; v && i < size; i++) v[i] /= sum;
    kiln_tensor *line = table_floats(kiln_tensor_device(x), wide, 1, &size, v);
    kiln_tensor *y = with_edges(as_planes(as_dtype(x, wide)), size / 2, KILN_PAD_REFLECT);
    y = kiln_conv2d(y, kiln_reshape(line, KILN_SHAPE(1, 1, size, 1)), NULL);
    y = kiln_conv2d(y, kiln_reshape(line, KILN_SHAPE(1, 1, 1, size)), NULL);
    return rounded_to(like(y, x), dtype);
}

kiln_status compose_sobel(kiln_tensor *x, kiln_tensor **dx, kiln_tensor **dy)
{
    static const double by_x[] = {-1, 0, 1, -2, 0, 2, -1, 0, 1};
    if (!given_image("x", x) || !given_float("x", x)) return error_pending;
    double *v = table_new(18);
    for (int i = 0; v && i < 9; i++) v[i] = by_x[i], v[9 + i] = by_x[i % 3 * 3 + i / 3];
    kiln_tensor *w = table_floats(kiln_tensor_device(x), kiln_tensor_dtype(x), KILN_SHAPE(2, 1, 3, 3), v);
    kiln_tensor *y = kiln_conv2d(with_edges(as_planes(x), 1, KILN_PAD_EDGE), w, NULL);
    *dx = like(kiln_select(y, 1, 0), x);
    *dy = like(kiln_select(y, 1, 1), x);
    return error_pending;
}

// The middle one of three.
static kiln_tensor *middle(kiln_tensor *const *v)
{
    kiln_tensor *low = kiln_minimum(v[0], v[1]), *high = kiln_maximum(v[0], v[1]);
    return kiln_maximum(low, kiln_minimum(high, v[2]));
}

// Of nine: columns of three are put in order, once for all windows; the median is the middle one of the largest of
// their lowest, the middle of their middles, and the smallest of their highest. J. L. Smith, Implementing median
// filters in XC4000E FPGAs, 1996.
static kiln_tensor *median_of_nine(kiln_tensor *planes, int64_t h, int64_t w)
{
    kiln_tensor *row[3], *low[3], *mid[3], *high[3];
    for (int i = 0; i < 3; i++) row[i] = kiln_narrow(planes, 2, i, h);
    kiln_tensor *a = kiln_minimum(row[0], row[1]), *b = kiln_maximum(row[0], row[1]), *c = kiln_minimum(b, row[2]);
    kiln_tensor *columns[] = {kiln_minimum(a, c), kiln_maximum(a, c), kiln_maximum(b, row[2])};
    for (int i = 0; i < 3; i++) {
        low[i] = kiln_narrow(columns[0], 3, i, w);
        mid[i] = kiln_narrow(columns[1], 3, i, w);
        high[i] = kiln_narrow(columns[2], 3, i, w);
    }
    kiln_tensor *of[] = {kiln_maximum(kiln_maximum(low[0], low[1]), low[2]), middle(mid),
                         kiln_minimum(kiln_minimum(high[0], high[1]), high[2])};
    return middle(of);
}

// Windows in order, NaN last, which wins as it does in a maximum.
static kiln_tensor *median_of_many(kiln_tensor *planes, int64_t size)
{
    kiln_tensor *rows = kiln_sliding_window(planes, 2, size, 1), *values = NULL, *places = NULL;
    kiln_tensor *windows = kiln_flatten(kiln_sliding_window(rows, 3, size, 1), -2, -1);
    kiln_sort(windows, -1, false, &values, &places);
    kiln_tensor *y = kiln_select(values, -1, size * size / 2), *last = kiln_select(values, -1, -1);
    if (error_pending || !dtype_is_float(kiln_tensor_dtype(y))) return y;
    return kiln_where(kiln_isnan(last), last, y);
}

kiln_tensor *compose_median_filter(kiln_tensor *x, int64_t size)
{
    if (!given_image("x", x) || !odd("size", size)) return NULL;
    if (kiln_tensor_dtype(x) == KILN_BOOL) error_set(KILN_E_DTYPE, "x must be numbers, it is %s", type_of(x).s);
    if (error_pending) return NULL;
    kiln_tensor *planes = with_edges(as_planes(x), size / 2, KILN_PAD_EDGE);
    kiln_tensor *y =
        size == 3 ? median_of_nine(planes, kiln_dim(x, -2), kiln_dim(x, -1)) : median_of_many(planes, size);
    return like(y, x);
}

// --- morphology with a square: J. Serra, Image analysis and mathematical morphology, 1982

static bool sound(kiln_tensor *x, int64_t size)
{
    return given_image("x", x) && odd("size", size);
}

static kiln_tensor *largest_around(kiln_tensor *x, int64_t size)
{
    kiln_tensor *y = kiln_max_pool2d(
        as_planes(x), KILN_POOL2D(.kernel = {size, size}, .stride = {1, 1}, .padding = {size / 2, size / 2}));
    return like(y, x);
}

static kiln_tensor *dilated(kiln_tensor *x, int64_t size)
{
    if (error_pending) return NULL;
    if (kiln_tensor_dtype(x) != KILN_BOOL) return largest_around(x, size);
    return as_dtype(largest_around(as_dtype(x, KILN_U8), size), KILN_BOOL);
}

// The order of values turned round: without overflow, of integers too.
static kiln_tensor *turned(kiln_tensor *x)
{
    if (error_pending) return NULL;
    return dtype_is_float(kiln_tensor_dtype(x)) ? kiln_neg(x) : kiln_bitwise_invert(x);
}

static kiln_tensor *eroded(kiln_tensor *x, int64_t size)
{
    return turned(dilated(turned(x), size));
}

kiln_tensor *compose_dilation(kiln_tensor *x, int64_t size)
{
    return sound(x, size) ? dilated(x, size) : NULL;
}

kiln_tensor *compose_erosion(kiln_tensor *x, int64_t size)
{
    return sound(x, size) ? eroded(x, size) : NULL;
}

kiln_tensor *compose_opening(kiln_tensor *x, int64_t size)
{
    return sound(x, size) ? dilated(eroded(x, size), size) : NULL;
}

kiln_tensor *compose_closing(kiln_tensor *x, int64_t size)
{
    return sound(x, size) ? eroded(dilated(x, size), size) : NULL;
}

kiln_tensor *compose_morphological_gradient(kiln_tensor *x, int64_t size)
{
    if (!sound(x, size)) return NULL;
    if (kiln_tensor_dtype(x) == KILN_BOOL) return kiln_logical_xor(dilated(x, size), eroded(x, size));
    return kiln_sub(dilated(x, size), eroded(x, size));
}
