// Images of other sizes. Along each axis an element of the result is a sum of a few of the input's, its taps, with
// weights that the host computes: one tap of the nearest, two of linear, four of cubic interpolation (a = -0.75). With
// antialias the window is as wide as what becomes one element, and the axis is multiplied by a matrix of weights
// (cubic: a = -0.5), as PyTorch and Pillow do. R. Keys, Cubic convolution interpolation for digital image processing,
// 1981.
#include "base/resample.h"
#include "compose/given.h"
#include "compose/pooling.h"

#include <math.h>
#include <string.h>

enum mode { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, AREA };
static const char *const modes[] = {"nearest",  "nearest-exact", "linear",  "cubic", "area",
                                    "bilinear", "trilinear",     "bicubic", NULL};

struct axis {
    int64_t in, out;
    double step; // between elements of the result, in elements of the input
    bool align;
};

static int64_t inside(int64_t at, int64_t size)
{
    return at < 0 ? 0 : at >= size ? size - 1 : at;
}

static double center_of(const struct axis *a, int64_t i)
{
    return a->align ? (double)i * a->step : ((double)i + 0.5) * a->step - 0.5;
}

static kiln_tensor *nearest(kiln_tensor *x, int at, const struct axis *a, double shift)
{
    int64_t *v = table_new(a->out);
    for (int64_t i = 0; v && i < a->out; i++) v[i] = inside((int64_t)floor(((double)i + shift) * a->step), a->in);
    return kiln_take(x, at, table_ints(kiln_tensor_device(x), 1, &a->out, v));
}

static kiln_tensor *tap(kiln_tensor *x, int at, const struct axis *a, int k, bool edge)
{
    int64_t *v = table_new(a->out);
    for (int64_t i = 0; v && i < a->out; i++) {
        double c = center_of(a, i);
        v[i] = inside((int64_t)floor(edge && c < 0 ? 0 : c) + k, a->in);
    }
    return kiln_take(x, at, table_ints(kiln_tensor_device(x), 1, &a->out, v));
}

// How far each is behind its tap, or by what the tap k is multiplied.
static kiln_tensor *weights(kiln_tensor *x, int at, const struct axis *a, int k, bool is_cubic)
{
    int64_t dims[KILN_MAX_RANK], n = 0;
    double *v = table_new(a->out);
    for (size_t i = (size_t)at; !error_pending && i < kiln_rank(x); i++) dims[n++] = (int)i == at ? a->out : 1;
    for (int64_t i = 0; v && i < a->out; i++) {
        double c = center_of(a, i);
        if (!is_cubic && c < 0) c = 0;
        v[i] = is_cubic ? resample_cubic(c - floor(c) - k, -0.75) : c - floor(c);
    }
    return table_floats(kiln_tensor_device(x), kiln_tensor_dtype(x), (size_t)n, dims, v);
}

// What is made on the way is freed at once: the next of its size lies where it lay.
static kiln_tensor *linear(kiln_tensor *x, int at, const struct axis *a)
{
    kiln_tensor *low = tap(x, at, a, 0, true), *high = tap(x, at, a, 1, true);
    kiln_tensor *y = kiln_lerp(low, high, weights(x, at, a, 0, false));
    kiln_free(&low);
    kiln_free(&high);
    return y;
}

static kiln_tensor *by_cubic(kiln_tensor *x, int at, const struct axis *a)
{
    kiln_tensor *sum = NULL;
    for (int k = -1; k < 3; k++) {
        kiln_tensor *t = tap(x, at, a, k, false), *w = weights(x, at, a, k, true), *before = sum;
        sum = sum ? kiln_addcmul(sum, t, w) : kiln_mul(t, w);
        kiln_free(&t);
        kiln_free(&before);
    }
    return sum;
}

// --- windows as wide as what becomes one element

static double support_of(const struct axis *a, bool is_cubic)
{
    return (is_cubic ? 2 : 1) * (a->step > 1 ? a->step : 1);
}

static int64_t begin_of(const struct axis *a, int64_t i, double support)
{
    return (int64_t)fmax(0, ((double)i + 0.5) * a->step - support + 0.5);
}

// By what the n elements from `first` on are multiplied in element i: the kernel, as wide as a step of more than one,
// around its middle; the factors add up to 1.
static void smooth_row(const struct axis *a, bool is_cubic, int64_t i, int64_t first, int64_t n, double *row)
{
    double wide = a->step > 1 ? a->step : 1, support = support_of(a, is_cubic), sum = 0;
    double center = ((double)i + 0.5) * a->step;
    int64_t begin = begin_of(a, i, support), end = (int64_t)(center + support + 0.5);
    for (int64_t k = 0; k < n; k++) {
        int64_t at = first + k;
        double d = ((double)at + 0.5 - center) / wide;
        row[k] = at < begin || at >= end ? 0 : is_cubic ? resample_cubic(d, -0.5) : fmax(0, 1 - fabs(d));
        sum += row[k];
    }
    for (int64_t k = 0; k < n && sum != 0; k++) row[k] /= sum;
}

// The matrix of factors has a band of others than 0. It is cut into blocks of rows, each with the columns that it
// needs.
struct band {
    int64_t blocks, rows, columns; // rows and columns of a block
};

static struct band band_of(const struct axis *a, bool is_cubic)
{
    enum { ROWS = 32 };
    struct band b = {.blocks = (a->out + ROWS - 1) / ROWS};
    b.rows = (a->out + b.blocks - 1) / b.blocks;
    double columns = ceil((double)(b.rows - 1) * a->step + 2 * support_of(a, is_cubic)) + 2;
    if (b.blocks > 1 && columns <= (double)a->in / 2)
        b.columns = (int64_t)columns;
    else
        b = (struct band){1, a->out, a->in};
    return b;
}

static int64_t first_column(const struct axis *a, bool is_cubic, const struct band *b, int64_t block)
{
    int64_t first = begin_of(a, block * b->rows, support_of(a, is_cubic));
    return first < a->in - b->columns ? first : a->in - b->columns;
}

// [blocks, rows, columns]
static kiln_tensor *smooth_weights(kiln_tensor *x, const struct axis *a, bool is_cubic, const struct band *b)
{
    double *v = table_new(b->blocks * b->rows * b->columns);
    for (int64_t i = 0; v && i < b->blocks * b->rows; i++) {
        int64_t first = first_column(a, is_cubic, b, i / b->rows);
        if (i < a->out)
            smooth_row(a, is_cubic, i, first, b->columns, v + i * b->columns);
        else
            memset(v + i * b->columns, 0, (size_t)b->columns * sizeof *v);
    }
    return table_floats(kiln_tensor_device(x), kiln_tensor_dtype(x), KILN_SHAPE(b->blocks, b->rows, b->columns), v);
}

static kiln_tensor *smooth(kiln_tensor *x, int at, const struct axis *a, bool is_cubic)
{
    struct band b = band_of(a, is_cubic);
    kiln_tensor *w = smooth_weights(x, a, is_cubic, &b);
    if (b.blocks == 1) return times_along(kiln_squeeze(w, KILN_AXES(0)), x, at);
    int64_t dims[KILN_MAX_RANK], lead = 1, behind = 1, *v = table_new(b.blocks * b.columns);
    for (int64_t i = 0; v && i < b.blocks * b.columns; i++)
        v[i] = first_column(a, is_cubic, &b, i / b.columns) + i % b.columns;
    kiln_tensor *columns = table_ints(kiln_tensor_device(x), KILN_SHAPE(b.blocks, b.columns), v), *y;
    if (error_pending) return NULL;
    size_t rank = kiln_rank(x);
    memcpy(dims, kiln_dims(x), rank * sizeof *dims);
    for (size_t i = 0; i < rank; i++) *(i < (size_t)at ? &lead : &behind) *= i == (size_t)at ? 1 : dims[i];
    y = kiln_take(kiln_reshape(x, KILN_SHAPE(lead, a->in, behind)), 1, columns); // [lead,blocks,columns,behind]
    if (behind > 1) {
        y = kiln_matmul(w, y);
    } else { // all of lead in a product
        y = kiln_matmul(kiln_permute(kiln_squeeze(y, KILN_AXES(3)), KILN_AXES(1, 0, 2)), kiln_transpose(w, 1, 2));
        y = kiln_permute(y, KILN_AXES(1, 0, 2));
    }
    y = kiln_narrow(kiln_reshape(y, KILN_SHAPE(lead, b.blocks * b.rows, behind)), 1, 0, a->out);
    dims[at] = a->out;
    return kiln_reshape(y, rank, dims);
}

// A CPU has a kernel for it; others gather each tap.
static bool goes_by_lines(kiln_tensor *x)
{
    kiln_device_info info = {.size = sizeof info};
    return given_float("x", x) && !kiln_device_get_info(kiln_tensor_device(x), &info) && !strcmp(info.kind, "cpu");
}

static bool stays(const struct axis *a)
{
    return a->in == a->out && a->step == 1;
}

static kiln_tensor *along(kiln_tensor *x, int at, const struct axis *a, int mode, bool antialias)
{
    if (error_pending || stays(a)) return x;
    if (mode == NEAREST || mode == NEAREST_EXACT) return nearest(x, at, a, mode == NEAREST ? 0 : 0.5);
    if (!antialias && goes_by_lines(x)) return kiln_resample(x, at, a->out, a->step, a->align, mode == CUBIC, false);
    if (!antialias) return mode == LINEAR ? linear(x, at, a) : by_cubic(x, at, a);
    return smooth(x, at, a, mode == CUBIC);
}

// --- options

struct new_sizes {
    size_t first, n; // axes
    int mode;
    bool antialias, align;
    struct axis axes[KILN_MAX_RANK];
};

static bool read_mode(struct new_sizes *r, const char *word)
{
    static const int of[] = {NEAREST, NEAREST_EXACT, LINEAR, CUBIC, AREA, LINEAR, LINEAR, CUBIC};
    int m = given_word(".mode", word, modes);
    if (m < 0) return false;
    size_t only = m == 6 ? 3 : m > 4 ? 2 : r->n;
    if (only != r->n) error_set(KILN_E_ARGUMENT, ".mode is \"%s\", for %zu axes, x has %zu", modes[m], only, r->n);
    r->mode = of[m];
    bool smooth = r->mode == LINEAR || r->mode == CUBIC;
    if (!smooth && (r->align || r->antialias))
        error_set(KILN_E_ARGUMENT, ".%s does not go with .mode \"%s\"", r->align ? "align_corners" : "antialias",
                  modes[m]);
    return !error_pending;
}

static bool read_axis(struct axis *a, int64_t in, int64_t out, double scale, bool align)
{
    if (scale != 0) {
        double size = floor((double)in * scale);
        if (!(size >= 1 && size <= INT32_MAX))
            error_set(KILN_E_ARGUMENT, ".scale %g makes %g elements of %lld", scale, size, (long long)in);
        else
            out = (int64_t)size;
    }
    if (!given_range("a size of the result", out, 1, INT32_MAX)) return false;
    if (in < 1 || in > INT32_MAX) error_set(KILN_E_SHAPE, "an axis of %lld elements has no other size", (long long)in);
    double step = scale != 0 ? 1 / scale : (double)in / (double)out;
    if (align) step = out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
    *a = (struct axis){in, out, step, align};
    return !error_pending;
}

// The last two axes at once, where a CPU has a kernel for it, none stays as it is and none before shrinks.
static bool goes_by_planes(kiln_tensor *x, const struct new_sizes *r)
{
    bool smooth = (r->mode == LINEAR || r->mode == CUBIC) && !r->antialias;
    if (!smooth || r->n < 2 || (r->n > 2 && r->axes[0].step > 1)) return false;
    return !stays(&r->axes[r->n - 1]) && !stays(&r->axes[r->n - 2]) && goes_by_lines(x);
}

static kiln_tensor *by_planes(kiln_tensor *x, const struct new_sizes *r)
{
    const struct axis *tall = &r->axes[r->n - 2], *wide = &r->axes[r->n - 1];
    return kiln_resample2d(x, tall->out, wide->out, tall->step, wide->step, r->align, r->mode == CUBIC, false);
}

// The axis that shrinks most goes first: less is left for the others; of equals the last, whose elements are picked one
// by one where those of the others lie side by side.
static kiln_tensor *resized(kiln_tensor *x, const struct new_sizes *r)
{
    bool done[KILN_MAX_RANK] = {false};
    kiln_tensor *given = x;
    size_t n = r->n;
    if (!error_pending && goes_by_planes(x, r)) {
        n -= 2;
        x = by_planes(x, r);
    }
    for (size_t k = 0; k < n; k++) {
        size_t next = r->n;
        for (size_t i = 0; i < n; i++)
            if (!done[i] && (next == r->n || r->axes[i].step >= r->axes[next].step)) next = i;
        done[next] = true;
        kiln_tensor *y = along(x, (int)(r->first + next), &r->axes[next], r->mode, r->antialias);
        if (y != x && x != given) kiln_free(&x);
        x = y;
    }
    return x;
}

kiln_tensor *compose_interpolate(kiln_tensor *x, const kiln_interpolate_opts *o)
{
    size_t rank = kiln_rank(x);
    struct new_sizes r = {.first = 2, .n = rank - 2, .antialias = o->antialias, .align = o->align_corners};
    if (rank < 3 || rank > 5)
        error_set(KILN_E_SHAPE, "x must be [N,C,L], [N,C,H,W] or [N,C,D,H,W], it is %s", type_of(x).s);
    if (!given_float("x", x) || !read_mode(&r, o->mode)) return NULL;
    if (o->sizes.count ? o->scale != 0 || o->sizes.count != r.n : o->scale == 0)
        error_set(KILN_E_ARGUMENT,
                  "either .sizes with %zu entries or .scale is needed; there are %zu sizes, .scale is %g", r.n,
                  o->sizes.count, o->scale);
    else if (o->sizes.count && !o->sizes.v)
        error_set(KILN_E_ARGUMENT, "list .sizes is NULL");
    for (size_t i = 0; i < r.n && !error_pending; i++)
        read_axis(&r.axes[i], kiln_dims(x)[2 + i], o->sizes.count ? o->sizes.v[i] : 0, o->scale, r.align);
    if (error_pending) return NULL;
    if (r.mode == AREA) {
        int64_t size[3];
        for (size_t i = 0; i < r.n; i++) size[i] = r.axes[i].out;
        return averaged_parts(x, (int)r.n, size);
    }
    kiln_dtype dtype = kiln_tensor_dtype(x);
    kiln_tensor *y = resized(r.mode < LINEAR ? x : as_dtype(x, wide_dtype(dtype)), &r);
    return y == x ? kiln_alias(x) : as_dtype(y, dtype);
}

kiln_tensor *compose_resize(kiln_tensor *x, int64_t height, int64_t width, const kiln_resize_opts *o)
{
    struct new_sizes r = {.first = 2, .n = 2, .antialias = o->antialias, .align = o->align_corners};
    if (!given_image("x", x) || !read_mode(&r, o->mode ? o->mode : "bilinear")) return NULL;
    size_t lead = kiln_rank(x) - 2;
    int64_t count = 1, size[] = {height, width};
    for (size_t i = 0; i < lead; i++) count *= kiln_dims(x)[i];
    for (size_t i = 0; i < 2; i++)
        if (!read_axis(&r.axes[i], kiln_dims(x)[lead + i], size[i], 0, r.align)) return NULL;
    kiln_dtype dtype = kiln_tensor_dtype(x);
    kiln_tensor *y = kiln_reshape(x, KILN_SHAPE(count, 1, r.axes[0].in, r.axes[1].in));
    if (r.mode >= LINEAR) y = as_dtype(y, wide_dtype(dtype));
    y = r.mode == AREA ? averaged_parts(y, 2, (int64_t[]){height, width}) : resized(y, &r);
    return with_dims_of(x, lead, rounded_to(y, dtype), 2, size);
}
