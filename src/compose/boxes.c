// Boxes in images: what lies in each, and which to keep. Boxes are x1, y1, x2, y2.
#include "compose/given.h"

#include <kiln/control.h>

// --- K. He et al., Mask R-CNN, 2017: means of bilinear samples

struct samples {
    kiln_tensor *low, *high;  // i64 [K,count]: elements on both sides of each sample along an axis
    kiln_tensor *part, *rest; // [K,count]: how far it is from the low one, and 1 less that; 0 where it is outside
};

// Samples from `from` on, [K,1], along `length`, [K,1]: `count` of them, of an axis of `size` elements.
static struct samples samples_along(kiln_tensor *from, kiln_tensor *length, int64_t count, int64_t size)
{
    kiln_device *dev = kiln_tensor_device(from);
    double *v = table_new(count);
    for (int64_t i = 0; v && i < count; i++) v[i] = ((double)i + 0.5) / (double)count;
    kiln_tensor *way = table_floats(dev, error_pending ? KILN_F32 : kiln_tensor_dtype(from), 1, &count, v);
    kiln_tensor *at = kiln_addcmul(from, length, way), *last = kiln_scalar((double)(size - 1));
    kiln_tensor *off = kiln_logical_or(kiln_less(at, kiln_scalar(-1)), kiln_greater(at, kiln_scalar((double)size)));
    kiln_tensor *safe = kiln_clip(at, kiln_scalar(0), last), *low = kiln_floor(safe), *part = kiln_sub(safe, low);
    return (struct samples){
        kiln_cast(low, KILN_I64), kiln_cast(kiln_minimum(kiln_add(low, kiln_scalar(1)), last), KILN_I64),
        kiln_where(off, kiln_scalar(0), part), kiln_where(off, kiln_scalar(0), kiln_sub(kiln_scalar(1), part))};
}

// rows [N*H*W,C] at the places of both axes of the images `of` [K,1,1]: [K,rows,columns,C], times the weights.
static kiln_tensor *corner(kiln_tensor *rows, kiln_tensor *of, kiln_tensor *y, kiln_tensor *x, kiln_tensor *wy,
                           kiln_tensor *wx, int64_t width)
{
    kiln_tensor *row = kiln_mul(kiln_unsqueeze(y, 2), kiln_scalar_int(width));
    kiln_tensor *index = kiln_add(kiln_add(of, row), kiln_unsqueeze(x, 1));
    kiln_tensor *weight = kiln_mul(kiln_unsqueeze(wy, 2), kiln_unsqueeze(wx, 1));
    return kiln_mul(kiln_embedding(rows, index), kiln_unsqueeze(weight, 3));
}

static bool sound_boxes(const char *argument, const kiln_tensor *boxes, int64_t columns)
{
    if (given_float(argument, boxes) && (kiln_rank(boxes) != 2 || kiln_dims(boxes)[1] != columns))
        error_set(KILN_E_SHAPE, "%s must be [K,%lld], it is %s", argument, (long long)columns, type_of(boxes).s);
    return !error_pending;
}

static kiln_tensor *column(kiln_tensor *boxes, int i, double scale, double shift)
{
    return kiln_sub(kiln_mul(kiln_narrow(boxes, 1, i, 1), kiln_scalar(scale)), kiln_scalar(shift));
}

kiln_tensor *compose_roi_align(kiln_tensor *x, kiln_tensor *boxes, const kiln_roi_align_opts *o)
{
    if (!given_rank("x", x, 4, "[N,C,H,W]") || !given_float("x", x) || !sound_boxes("boxes", boxes, 5) ||
        !given_range(".height", o->height, 1, 1 << 15) || !given_range(".width", o->width, 1, 1 << 15) ||
        !given_range(".sampling_ratio", o->sampling_ratio, 1, 1 << 10))
        return NULL;
    kiln_dtype dtype = kiln_tensor_dtype(x), wide = wide_dtype(dtype);
    int64_t n = kiln_dims(x)[0], c = kiln_dims(x)[1], h = kiln_dims(x)[2], w = kiln_dims(x)[3], k = kiln_dims(boxes)[0];
    if (h < 1 || w < 1) error_set(KILN_E_SHAPE, "x is %s: there is nothing to sample", type_of(x).s);
    if (error_pending) return NULL;
    int64_t ratio = o->sampling_ratio;
    kiln_tensor *b = as_dtype(boxes, wide), *from[2], *length[2];
    for (int i = 0; i < 2; i++) {
        double shift = o->aligned ? 0.5 : 0;
        from[i] = column(b, 1 + i, o->spatial_scale, shift);
        length[i] = kiln_sub(column(b, 3 + i, o->spatial_scale, shift), from[i]);
        if (!o->aligned) length[i] = kiln_maximum(length[i], kiln_scalar(1));
    }
    struct samples sx = samples_along(from[0], length[0], o->width * ratio, w);
    struct samples sy = samples_along(from[1], length[1], o->height * ratio, h);
    kiln_tensor *rows = kiln_reshape(kiln_permute(as_dtype(x, wide), KILN_AXES(0, 2, 3, 1)), KILN_SHAPE(n * h * w, c));
    kiln_tensor *of = kiln_mul(kiln_cast(kiln_narrow(b, 1, 0, 1), KILN_I64), kiln_scalar_int(h * w));
    of = kiln_unsqueeze(of, 2);
    kiln_tensor *sum = kiln_add(kiln_add(corner(rows, of, sy.low, sx.low, sy.rest, sx.rest, w),
                                         corner(rows, of, sy.low, sx.high, sy.rest, sx.part, w)),
                                kiln_add(corner(rows, of, sy.high, sx.low, sy.part, sx.rest, w),
                                         corner(rows, of, sy.high, sx.high, sy.part, sx.part, w)));
    sum = kiln_reshape(sum, KILN_SHAPE(k, o->height, ratio, o->width, ratio, c));
    kiln_tensor *mean = kiln_mean(sum, KILN_REDUCE(.axes = KILN_AXES(2, 4)));
    return as_dtype(kiln_permute(mean, KILN_AXES(0, 3, 1, 2)), dtype);
}

// --- non-maximum suppression
//
// Box i stays unless a box before it, in the order of scores, stays and overlaps it. That is the fixed point of keep[i]
// = not any j < i: overlaps[j][i] and keep[j], which is right for the first k boxes after k trips, and in practice for
// all after a few.

struct suppression {
    kiln_tensor *overlaps; // bool [N,N]: j before i, and over the limit
};

static kiln_status is_open(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_any(kiln_not_equal(in[0], in[1]), NULL);
    return kiln_error();
}

static kiln_status next_keep(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct suppression *s = user;
    kiln_tensor *hit =
        kiln_any(kiln_logical_and(s->overlaps, kiln_unsqueeze(in[0], 1)), KILN_REDUCE(.axes = KILN_AXES(0)));
    out[0] = kiln_logical_not(hit);
    out[1] = kiln_alias(in[0]);
    return kiln_error();
}

static kiln_tensor *coordinate(kiln_tensor *b, int i)
{
    return kiln_select(b, 1, i);
}

// bool [N,N], of sorted boxes.
static kiln_tensor *overlaps(kiln_tensor *b, double limit)
{
    kiln_tensor *zero = kiln_scalar(0), *side[2], *inner[2];
    for (int i = 0; i < 2; i++) {
        kiln_tensor *low = coordinate(b, i), *high = coordinate(b, 2 + i);
        side[i] = kiln_sub(high, low);
        kiln_tensor *from = kiln_maximum(kiln_unsqueeze(low, 1), low),
                    *to = kiln_minimum(kiln_unsqueeze(high, 1), high);
        inner[i] = kiln_maximum(kiln_sub(to, from), zero);
    }
    kiln_tensor *area = kiln_mul(side[0], side[1]), *both = kiln_mul(inner[0], inner[1]);
    kiln_tensor *all = kiln_sub(kiln_add(kiln_unsqueeze(area, 1), area), both);
    kiln_tensor *over = kiln_greater(kiln_div(both, all), kiln_scalar(limit));
    return as_dtype(kiln_triu(as_dtype(over, KILN_U8), 1), KILN_BOOL);
}

// bool [N]: which of the sorted boxes stay; *order: where they come from.
static kiln_tensor *kept(kiln_tensor *boxes, kiln_tensor *scores, double limit, kiln_tensor **order)
{
    if (!sound_boxes("boxes", boxes, 4) || !given_float("scores", scores)) return NULL;
    int64_t n = kiln_dims(boxes)[0];
    if (kiln_rank(scores) != 1 || kiln_dims(scores)[0] != n)
        error_set(KILN_E_SHAPE, "scores must be [%lld], it is %s", (long long)n, type_of(scores).s);
    if (!(limit >= 0 && limit <= 1)) error_set(KILN_E_ARGUMENT, "iou_threshold is %g, it must be from 0 to 1", limit);
    if (error_pending) return NULL;
    kiln_device *dev = kiln_tensor_device(boxes);
    *order = kiln_argsort(scores, 0, true);
    struct suppression s = {
        overlaps(as_dtype(kiln_take(boxes, 0, *order), wide_dtype(kiln_tensor_dtype(boxes))), limit)};
    kiln_tensor *state[] = {kiln_ones(dev, KILN_BOOL, KILN_SHAPE(n)), kiln_zeros(dev, KILN_BOOL, KILN_SHAPE(n))};
    kiln_tensor *done[2] = {NULL};
    if (error_pending) return NULL;
    kiln_while(is_open, next_keep, &s, state, 2, NULL, done, 2);
    return done[0];
}

kiln_tensor *compose_nms(kiln_tensor *boxes, kiln_tensor *scores, double iou_threshold)
{
    kiln_tensor *order, *keep = kept(boxes, scores, iou_threshold, &order);
    if (error_pending) return NULL;
    return kiln_take(order, 0, kiln_reshape(kiln_nonzero(keep), KILN_SHAPE(-1)));
}

kiln_status compose_nms_sized(kiln_tensor *boxes, kiln_tensor *scores, double iou_threshold, int64_t size,
                              kiln_tensor **indices, kiln_tensor **count)
{
    kiln_tensor *order, *keep = kept(boxes, scores, iou_threshold, &order), *places = NULL;
    if (error_pending || kiln_nonzero_sized(keep, size, 0, &places, count)) return error_pending;
    kiln_device *dev = kiln_tensor_device(boxes);
    kiln_tensor *there = kiln_less(kiln_arange(dev, KILN_I64, 0, (double)size, 1), *count);
    kiln_tensor *none = kiln_full(dev, KILN_I64, KILN_SHAPE(size), -1);
    bool any = kiln_numel(order) > 0;
    *indices = any ? kiln_where(there, kiln_take(order, 0, kiln_reshape(places, KILN_SHAPE(size))), none) : none;
    return error_pending;
}
