// Images read at any places: grids of places, sampling there, rotation. M. Jaderberg et al., Spatial transformer
// networks, 2015; options as PyTorch has them.
#include "compose/given.h"

#include <math.h>
#include <string.h>

enum mode { BILINEAR, NEAREST, BICUBIC };
enum padding { ZEROS, BORDER, REFLECTION };
static const char *const modes[] = {"bilinear", "nearest", "bicubic", NULL};
static const char *const paddings[] = {"zeros", "border", "reflection", NULL};

struct sampling {
    int n, mode, padding; // dimensions
    bool align;
    int64_t batch, channels, points, size[3]; // sizes in the order of a grid's numbers: width, height, depth
    kiln_tensor *line;                        // [N,C,size]
    kiln_tensor *at[3];                       // [N,points]: places in elements, as the grid has them
};

static kiln_tensor *plus(kiln_tensor *a, double b)
{
    return kiln_add(a, kiln_scalar(b));
}

static kiln_tensor *times(kiln_tensor *a, double b)
{
    return kiln_mul(a, kiln_scalar(b));
}

static kiln_tensor *between(kiln_tensor *a, int64_t size)
{
    return kiln_clip(a, kiln_scalar(0), kiln_scalar((double)(size - 1)));
}

// From [-1, 1] to elements.
static kiln_tensor *in_elements(kiln_tensor *g, int64_t size, bool align)
{
    kiln_tensor *from_0 = plus(g, 1);
    if (align) return times(from_0, (double)(size - 1) / 2);
    return times(plus(times(from_0, (double)size), -1), 0.5);
}

// Mirrored at the middles of the first and the last element, or at their outer edges.
static kiln_tensor *reflected(kiln_tensor *a, int64_t size, bool align)
{
    double low = align ? 0 : -0.5, span = align ? (double)(size - 1) : (double)size;
    if (span == 0) return kiln_zeros_like(a);
    kiln_tensor *way = kiln_abs(plus(a, -low)), *over = kiln_fmod(way, kiln_scalar(span));
    kiln_tensor *turns = kiln_floor(times(way, 1 / span));
    kiln_tensor *even = kiln_equal(kiln_remainder(turns, kiln_scalar(2)), kiln_scalar(0));
    return kiln_where(even, plus(over, low), kiln_sub(kiln_scalar(span + low), over));
}

static kiln_tensor *moved_inside(const struct sampling *s, kiln_tensor *a, int64_t size)
{
    if (s->padding == ZEROS) return a;
    return between(s->padding == BORDER ? a : reflected(a, size, s->align), size);
}

// The elements at whole places [N,points], [N,C,points]; zeros where one lies outside.
static kiln_tensor *elements(const struct sampling *s, kiln_tensor *const *place, kiln_tensor **outside)
{
    kiln_tensor *index = NULL;
    int64_t stride = 1;
    *outside = NULL;
    for (int i = 0; i < s->n; i++) {
        kiln_tensor *safe = between(place[i], s->size[i]);
        kiln_tensor *step = kiln_mul(kiln_cast(safe, KILN_I64), kiln_scalar_int(stride));
        index = index ? kiln_add(index, step) : step;
        stride *= s->size[i];
        if (s->padding != ZEROS) continue;
        kiln_tensor *off = kiln_not_equal(safe, place[i]);
        *outside = *outside ? kiln_logical_or(*outside, off) : off;
    }
    index = kiln_expand(kiln_unsqueeze(index, 1), KILN_SHAPE(s->batch, s->channels, s->points));
    return kiln_gather(s->line, 2, index);
}

// Those elements, each times its weight [N,points]; without weights NULL.
static kiln_tensor *weighed(const struct sampling *s, kiln_tensor *const *place, kiln_tensor *weight)
{
    kiln_tensor *outside, *v = elements(s, place, &outside);
    if (!weight) return outside ? kiln_where(kiln_unsqueeze(outside, 1), kiln_scalar(0), v) : v;
    if (outside) weight = kiln_where(outside, kiln_scalar(0), weight);
    return kiln_mul(v, kiln_unsqueeze(as_dtype(weight, kiln_tensor_dtype(s->line)), 1));
}

static kiln_tensor *nearest(const struct sampling *s)
{
    kiln_tensor *place[3];
    for (int i = 0; i < s->n; i++) place[i] = kiln_round(moved_inside(s, s->at[i], s->size[i]));
    return weighed(s, place, NULL);
}

static kiln_tensor *bilinear(const struct sampling *s)
{
    kiln_tensor *low[3], *part[3], *sum = NULL;
    for (int i = 0; i < s->n; i++) {
        kiln_tensor *at = moved_inside(s, s->at[i], s->size[i]);
        low[i] = kiln_floor(at);
        part[i] = kiln_sub(at, low[i]);
    }
    for (int corner = 0; corner < 1 << s->n; corner++) {
        kiln_tensor *place[3], *weight = NULL;
        for (int i = 0; i < s->n; i++) {
            bool up = corner >> i & 1;
            // One above the last has the weight 0 where places were moved inside.
            place[i] = up ? plus(low[i], 1) : low[i];
            kiln_tensor *w = up ? part[i] : kiln_sub(kiln_scalar(1), part[i]);
            weight = weight ? kiln_mul(weight, w) : w;
        }
        kiln_tensor *v = weighed(s, place, weight);
        sum = sum ? kiln_add(sum, v) : v;
    }
    return sum;
}

// Keys' weights with a = -0.75 of the taps -1, 0, 1, 2.
static void cubic_weights(kiln_tensor *t, kiln_tensor **w)
{
    const double a = -0.75;
    kiln_tensor *one = kiln_scalar(1), *rest = kiln_sub(one, t);
    kiln_tensor *from[] = {plus(t, 1), t, rest, plus(rest, 1)};
    for (int k = 0; k < 4; k++) {
        bool far = k == 0 || k == 3;
        double c[] = {far ? a : a + 2, far ? -5 * a : -(a + 3), far ? 8 * a : 0, far ? -4 * a : 1};
        w[k] = kiln_scalar(c[0]);
        for (int i = 1; i < 4; i++) w[k] = plus(kiln_mul(w[k], from[k]), c[i]);
    }
}

static kiln_tensor *bicubic(const struct sampling *s)
{
    kiln_tensor *low[2], *w[2][4], *sum = NULL;
    for (int i = 0; i < 2; i++) {
        low[i] = kiln_floor(s->at[i]);
        cubic_weights(kiln_sub(s->at[i], low[i]), w[i]);
    }
    for (int k = 0; k < 16; k++) {
        kiln_tensor *place[2];
        for (int i = 0; i < 2; i++) place[i] = moved_inside(s, plus(low[i], (i ? k / 4 : k % 4) - 1), s->size[i]);
        // Whole places that were mirrored at edges are whole again, but for rounding.
        if (s->padding == REFLECTION)
            for (int i = 0; i < 2; i++) place[i] = kiln_round(place[i]);
        kiln_tensor *v = weighed(s, place, kiln_mul(w[0][k % 4], w[1][k / 4]));
        sum = sum ? kiln_add(sum, v) : v;
    }
    return sum;
}

static bool read_sampling(struct sampling *s, kiln_tensor *x, kiln_tensor *grid, const kiln_grid_sample_opts *o)
{
    *s = (struct sampling){.n = (int)kiln_rank(x) - 2, .align = o->align_corners};
    if (s->n != 2 && s->n != 3) error_set(KILN_E_SHAPE, "x must be [N,C,H,W] or [N,C,D,H,W], it is %s", type_of(x).s);
    if (!given_float("x", x) || !given_float("grid", grid)) return false;
    s->mode = given_word(".mode", o->mode, modes);
    if (s->mode >= 0) s->padding = given_word(".padding_mode", o->padding_mode, paddings);
    if (error_pending) return false;
    size_t rank = (size_t)s->n + 2;
    if (kiln_rank(grid) != rank || kiln_dims(grid)[0] != kiln_dims(x)[0] || kiln_dims(grid)[rank - 1] != s->n)
        error_set(KILN_E_SHAPE, "grid is %s, for x, %s, it must have %zu axes, the first %lld, the last %d",
                  type_of(grid).s, type_of(x).s, rank, (long long)kiln_dims(x)[0], s->n);
    else if (s->mode == BICUBIC && s->n != 2)
        error_set(KILN_E_ARGUMENT, ".mode \"bicubic\" is for images, x is %s", type_of(x).s);
    s->points = 1;
    for (int i = 0; i < s->n && !error_pending; i++) {
        s->size[i] = kiln_dims(x)[rank - 1 - (size_t)i];
        s->points *= kiln_dims(grid)[1 + i];
        if (s->size[i] < 1) error_set(KILN_E_SHAPE, "x is %s: there is nothing to sample", type_of(x).s);
    }
    return !error_pending;
}

kiln_tensor *compose_grid_sample(kiln_tensor *x, kiln_tensor *grid, const kiln_grid_sample_opts *o)
{
    static kiln_tensor *(*const by_mode[])(const struct sampling *) = {bilinear, nearest, bicubic};
    struct sampling s;
    if (!read_sampling(&s, x, grid, o)) return NULL;
    kiln_dtype dtype = kiln_tensor_dtype(x);
    s.batch = kiln_dims(x)[0], s.channels = kiln_dims(x)[1];
    s.line =
        as_dtype(kiln_reshape(x, KILN_SHAPE(s.batch, s.channels, s.size[0] * s.size[1] * (s.n > 2 ? s.size[2] : 1))),
                 wide_dtype(dtype));
    kiln_tensor *points = kiln_reshape(grid, KILN_SHAPE(s.batch, s.points, s.n));
    points = as_dtype(points, wide_dtype(kiln_tensor_dtype(grid)));
    for (int i = 0; i < s.n; i++) s.at[i] = in_elements(kiln_select(points, 2, i), s.size[i], s.align);
    kiln_tensor *y = as_dtype(by_mode[s.mode](&s), dtype);
    return with_dims_of(x, 2, y, (size_t)s.n, kiln_dims(grid) + 1);
}

// --- grids

// The numbers of a grid without a transformation, and 1: [places, n + 1].
static kiln_tensor *plain_places(kiln_device *dev, kiln_dtype dtype, const int64_t *size, int n, bool align)
{
    int64_t places = 1;
    for (int i = 0; i < n; i++) places *= size[i];
    double *v = table_new(places * (n + 1));
    for (int64_t p = 0; v && p < places; p++) {
        int64_t rest = p;
        for (int i = n - 1; i >= 0; i--) {
            double k = (double)(rest % size[i]), m = (double)size[i];
            v[p * (n + 1) + n - 1 - i] = !align ? (2 * k + 1) / m - 1 : size[i] > 1 ? 2 * k / (m - 1) - 1 : 0;
            rest /= size[i];
        }
        v[p * (n + 1) + n] = 1;
    }
    return table_floats(dev, dtype, KILN_SHAPE(places, n + 1), v);
}

kiln_tensor *compose_affine_grid(kiln_tensor *theta, size_t size_count, const int64_t *size, bool align_corners)
{
    int64_t n = (int64_t)size_count, all = 1, dims[5];
    if (n != 2 && n != 3) error_set(KILN_E_ARGUMENT, "size has %lld entries, images 2, volumes 3", (long long)n);
    if (!error_pending && !size) error_set(KILN_E_ARGUMENT, "size is NULL");
    if (!given_float("theta", theta)) return NULL;
    if (kiln_rank(theta) != 3 || kiln_dims(theta)[1] != n || kiln_dims(theta)[2] != n + 1)
        error_set(KILN_E_SHAPE, "theta must be [N,%lld,%lld], it is %s", (long long)n, (long long)n + 1,
                  type_of(theta).s);
    for (int64_t i = 0; i < n && !error_pending; i++) {
        dims[1 + i] = size[i];
        if (given_range("a size", size[i], 1, INT32_MAX) &&
            (__builtin_mul_overflow(all, size[i], &all) || all > INT64_MAX / 4))
            error_set(KILN_E_ARGUMENT, "the grid is too large");
    }
    if (error_pending) return NULL;
    kiln_dtype dtype = kiln_tensor_dtype(theta);
    kiln_tensor *base = plain_places(kiln_tensor_device(theta), wide_dtype(dtype), size, (int)n, align_corners);
    kiln_tensor *grid = kiln_matmul(base, kiln_transpose(as_dtype(theta, wide_dtype(dtype)), 1, 2));
    dims[0] = kiln_dims(theta)[0], dims[n + 1] = n;
    return kiln_reshape(as_dtype(grid, dtype), size_count + 2, dims);
}

// --- rotation

// [N,2,3]: where an element of the result comes from, in numbers of a grid, which are fractions of width and height.
static kiln_tensor *rotation(kiln_tensor *angle, kiln_dtype dtype, int64_t n, double height, double width)
{
    kiln_tensor *a = kiln_deg2rad(as_dtype(angle, dtype)),
                *zero = kiln_zeros(kiln_tensor_device(angle), dtype, KILN_SHAPE(n));
    kiln_tensor *c = kiln_expand(kiln_cos(a), KILN_SHAPE(n)), *s = kiln_expand(kiln_sin(a), KILN_SHAPE(n));
    kiln_tensor *rows[] = {c, times(s, -height / width), zero, times(s, width / height), c, zero};
    return kiln_reshape(kiln_stack(rows, 6, 1), KILN_SHAPE(n, 2, 3));
}

kiln_tensor *compose_rotate(kiln_tensor *x, kiln_tensor *angle, const char *mode)
{
    if (!given_rank("x", x, 4, "[N,C,H,W]")) return NULL;
    kiln_dtype dtype = kiln_tensor_dtype(x), wide = wide_dtype(dtype);
    int64_t n = kiln_dims(x)[0], h = kiln_dims(x)[2], w = kiln_dims(x)[3];
    if (kiln_rank(angle) > 1 || (kiln_rank(angle) == 1 && kiln_dims(angle)[0] != n))
        error_set(KILN_E_SHAPE, "angle must be one number or %lld, it is %s", (long long)n, type_of(angle).s);
    if (error_pending || kiln_numel(x) == 0) return error_pending ? NULL : kiln_alias(x);
    kiln_tensor *on = kiln_rank(angle) ? angle : kiln_add(angle, kiln_zeros(kiln_tensor_device(x), wide, KILN_SHAPE0));
    kiln_tensor *theta = rotation(on, wide, n, (double)h, (double)w);
    kiln_tensor *grid = kiln_affine_grid(theta, KILN_SHAPE(h, w), false);
    kiln_tensor *y = kiln_grid_sample(as_dtype(x, wide), grid, KILN_GRID_SAMPLE(.mode = mode));
    return rounded_to(y, dtype);
}
