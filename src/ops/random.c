// Random tensors and dropout.
//
// Numbers come from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a block of four
// 32-bit words is a function of a counter, here the op's offset plus the block's number, and of a key, the seed. Both
// are attributes that the front door reserves from the device's generator. An element takes one word of its own, or two
// where it has more than 32 bits; so a value depends on seed, offset and index alone, on any device. The kernel philox
// writes the words, pointwise ones use them.
#include "base/float16.h"
#include "ops/family.h"
#include "ops/index.h"
#include <math.h>

// Room for at least n words, in one dimension.
static kiln_status room_of(struct lowering *lo, int64_t n, struct view *words)
{
    int64_t size = (n + 3) / 4 * 4;
    return lower_temp(lo, KILN_I32, 1, &size, words);
}

// All that `words` has room for, from the last two attributes, behind as many blocks as `skipped`.
static kiln_status draw_behind(const struct op_call *c, struct lowering *lo, int64_t skipped, const struct view *words)
{
    struct launch l;
    int64_t blocks = words->dims[0] / 4, stride = 4;
    launch_init(&l, lo, kernel_of(FAMILY_philox, CLASS_I32), 1, &blocks);
    l.extent[0] = blocks;
    launch_operand(&l, words, &stride, true);
    launch_scalar_i(&l, attr_int(c, c->op->n_attrs - 2));
    launch_scalar_i(&l, (int64_t)((uint64_t)attr_int(c, c->op->n_attrs - 1) + (uint64_t)skipped));
    return lo->launch(lo, &l);
}

// At least n words.
static kiln_status draw(const struct op_call *c, struct lowering *lo, int64_t n, struct view *words)
{
    TRY(room_of(lo, n, words));
    return draw_behind(c, lo, 0, words);
}

// Every `step`-th element of a line from `first`.
static struct view every(const struct view *line, int64_t first, int64_t step)
{
    struct view r = *line;
    r.offset += first * line->strides[0];
    r.dims[0] = first < line->dims[0] ? (line->dims[0] - first + step - 1) / step : 0;
    r.strides[0] *= step;
    return r;
}

// out[i] = f(words i * step ... i * step + n_in - 1).
static kiln_status map(struct lowering *lo, int family, enum scalar_class cls, const struct view *words, int n_in,
                       int64_t step, const struct view *out, int n_scalars, const double *scalars)
{
    struct view in[4];
    for (int i = 0; i < n_in; i++) {
        in[i] = every(words, i, step);
        in[i].dims[0] = out->dims[0];
    }
    return lower_pointwise(lo, family, cls, n_in, in, out, n_scalars, scalars);
}

static kiln_status check_kind(const struct op_call *c, unsigned kind, const char *what)
{
    if (dtype_kind_of[c->out[0].dtype] == kind) return KILN_OK;
    return op_fail(c, KILN_E_DTYPE, "makes %s, not %s", what, dtype_name(c->out[0].dtype));
}

kiln_status infer_uniform(struct op_call *c)
{
    double lo = attr_float(c, AT_uniform_lo), hi = attr_float(c, AT_uniform_hi);
    TRY(op_shape_attr(c, AT_uniform_dtype, AT_uniform_shape, &c->out[0]));
    TRY(check_kind(c, KIND_FLOAT, "floats"));
    if (isfinite(lo) && isfinite(hi) && lo <= hi) return KILN_OK;
    return op_fail(c, KILN_E_ARGUMENT, "the range from %g to %g is empty or not finite", lo, hi);
}

// The largest number below `hi` that a 16-bit dtype holds: the store must not round up to hi.
static double last_below(double hi, unsigned dtype)
{
    bool half = dtype == KILN_F16;
    uint16_t bits = half ? f16_from_float((float)hi) : bf16_from_float((float)hi);
    double v = half ? f16_to_float(bits) : bf16_to_float(bits);
    if (v < hi) return v;
    bits = v > 0 ? (uint16_t)(bits - 1) : v < 0 ? (uint16_t)(bits + 1) : 0x8001;
    return half ? f16_to_float(bits) : bf16_to_float(bits);
}

kiln_status lower_uniform(const struct op_call *c, struct lowering *lo)
{
    struct view out = view_flat(&c->vout[0]), words;
    double range[3] = {attr_float(c, AT_uniform_lo), attr_float(c, AT_uniform_hi), attr_float(c, AT_uniform_hi)};
    if (dtype_size_B[c->out[0].dtype] == 2) range[2] = fmax(range[0], last_below(range[1], c->out[0].dtype));
    if (out.dims[0] == 0) return KILN_OK;
    if (c->out[0].dtype == KILN_F64) {
        TRY(draw(c, lo, 2 * out.dims[0], &words));
        return map(lo, FAMILY_random_uniform_f64, CLASS_F64, &words, 2, 2, &out, 2, range);
    }
    TRY(draw(c, lo, out.dims[0], &words));
    return map(lo, FAMILY_random_uniform, CLASS_F32, &words, 1, 1, &out, 3, range);
}

kiln_status infer_normal(struct op_call *c)
{
    double mean = attr_float(c, AT_normal_mean), std = attr_float(c, AT_normal_std);
    TRY(op_shape_attr(c, AT_normal_dtype, AT_normal_shape, &c->out[0]));
    TRY(check_kind(c, KIND_FLOAT, "floats"));
    if (isfinite(mean) && isfinite(std) && std >= 0) return KILN_OK;
    return op_fail(c, KILN_E_ARGUMENT, "mean %g and std %g must be finite, std not negative", mean, std);
}

// Box and Muller: a radius and an angle make two numbers, a cosine and (a quarter of a turn on) a sine. The two lie in
// `out` side by side.
static kiln_status make_pairs(const struct op_call *c, struct lowering *lo, int family, int n_in, const struct view *in,
                              const struct view *out)
{
    enum scalar_class cls = out->dtype == KILN_F64 ? CLASS_F64 : CLASS_F32;
    for (int i = 0; i < 2 && i < out->dims[0]; i++) {
        struct view half = every(out, i, 2), of[4];
        double scalars[3] = {i ? 0.25 : 0, attr_float(c, AT_normal_mean), attr_float(c, AT_normal_std)};
        for (int k = 0; k < n_in; k++) of[k] = in[k], of[k].dims[0] = half.dims[0];
        TRY(lower_pointwise(lo, family, cls, n_in, of, &half, 3, scalars));
    }
    return KILN_OK;
}

// The words of pairs by their places: of the radius, then of the angle.
static int split_words(const struct view *words, bool wide, struct view *in)
{
    int n = wide ? 4 : 2;
    for (int i = 0; i < n; i++) in[i] = every(words, i, n);
    return n;
}

// Pieces whose words stay in the host's caches, and whose radii are computed once.
static kiln_status lower_normal_on_host(const struct op_call *c, struct lowering *lo, const struct view *out)
{
    enum { PIECE = 1 << 17 }; // pairs
    bool wide = out->dtype == KILN_F64;
    int64_t n = out->dims[0], pairs = (n + 1) / 2, most = pairs < PIECE ? pairs : PIECE, each = wide ? 4 : 2;
    struct view words, radii, in[4];
    TRY(room_of(lo, each * most, &words));
    TRY(lower_temp(lo, wide ? KILN_F64 : KILN_F32, 1, &most, &radii));
    for (int64_t at = 0; at < pairs; at += most) {
        struct view piece = *out, drawn = words, radius = radii;
        piece.offset += 2 * at * out->strides[0];
        piece.dims[0] = n - 2 * at < 2 * most ? n - 2 * at : 2 * most;
        radius.dims[0] = (piece.dims[0] + 1) / 2;
        drawn.dims[0] = (each * radius.dims[0] + 3) / 4 * 4;
        TRY(draw_behind(c, lo, each * at / 4, &drawn));
        int n_in = split_words(&drawn, wide, in) / 2;
        for (int i = 0; i < n_in; i++) in[i].dims[0] = radius.dims[0];
        TRY(lower_pointwise(lo, wide ? FAMILY_random_radius_f64 : FAMILY_random_radius, wide ? CLASS_F64 : CLASS_F32,
                            n_in, in, &radius, 0, NULL));
        in[n_in - 1] = radius;
        TRY(make_pairs(c, lo, wide ? FAMILY_random_turned_f64 : FAMILY_random_turned, 1 + n_in, in + n_in - 1, &piece));
    }
    return KILN_OK;
}

kiln_status lower_normal(const struct op_call *c, struct lowering *lo)
{
    bool wide = c->out[0].dtype == KILN_F64;
    struct view out = view_flat(&c->vout[0]), words, in[4];
    if (out.dims[0] == 0) return KILN_OK;
    if (lo->caps->host) return lower_normal_on_host(c, lo, &out);
    TRY(draw(c, lo, (wide ? 4 : 2) * ((out.dims[0] + 1) / 2), &words));
    int n_in = split_words(&words, wide, in);
    return make_pairs(c, lo, wide ? FAMILY_random_normal_f64 : FAMILY_random_normal, n_in, in, &out);
}

kiln_status infer_randint(struct op_call *c)
{
    int64_t lo = attr_int(c, AT_randint_lo), hi = attr_int(c, AT_randint_hi);
    TRY(op_shape_attr(c, AT_randint_dtype, AT_randint_shape, &c->out[0]));
    TRY(check_kind(c, KIND_INT, "integers"));
    if (lo < hi) return KILN_OK;
    return op_fail(c, KILN_E_ARGUMENT, "the range from %lld to %lld is empty", (long long)lo, (long long)hi);
}

// low + floor(x * range / 2^64) with x of [0, 2^64).
static kiln_status integers(const struct op_call *c, struct lowering *lo, int64_t low, uint64_t range,
                            const struct view *out)
{
    struct view words;
    double scalars[4] = {(uint32_t)low, (uint32_t)((uint64_t)low >> 32), (uint32_t)range, (uint32_t)(range >> 32)};
    TRY(draw(c, lo, 2 * out->dims[0], &words));
    return map(lo, FAMILY_random_integer, CLASS_I64, &words, 2, 2, out, 4, scalars);
}

kiln_status lower_randint(const struct op_call *c, struct lowering *lo)
{
    struct view out = view_flat(&c->vout[0]);
    int64_t low = attr_int(c, AT_randint_lo), high = attr_int(c, AT_randint_hi);
    return out.dims[0] == 0 ? KILN_OK : integers(c, lo, low, (uint64_t)high - (uint64_t)low, &out);
}

kiln_status infer_bernoulli(struct op_call *c)
{
    double p = attr_float(c, AT_bernoulli_p);
    TRY(op_shape_attr(c, AT_bernoulli_dtype, AT_bernoulli_shape, &c->out[0]));
    return p >= 0 && p <= 1 ? KILN_OK : op_fail(c, KILN_E_ARGUMENT, "p is %g, a probability lies in [0, 1]", p);
}

kiln_status lower_bernoulli(const struct op_call *c, struct lowering *lo)
{
    struct view out = view_flat(&c->vout[0]), to = out, words;
    double p = attr_float(c, AT_bernoulli_p);
    if (out.dims[0] == 0) return KILN_OK;
    bool wide = out.dtype == KILN_F64; // kernels of class f32 know no f64
    if (wide) TRY(lower_temp(lo, KILN_F32, 1, out.dims, &to));
    TRY(draw(c, lo, out.dims[0], &words));
    TRY(map(lo, FAMILY_random_bernoulli, CLASS_F32, &words, 1, 1, &to, 1, &p));
    return wide ? lower_copy(lo, &to, &out) : KILN_OK;
}

kiln_status infer_randperm(struct op_call *c)
{
    int64_t n = attr_int(c, AT_randperm_n);
    if (n < 0) return op_fail(c, KILN_E_ARGUMENT, "n is negative: %lld", (long long)n);
    c->out[0] = (struct type){.dtype = KILN_I64, .rank = 1, .dims = {n}};
    uint64_t size_B;
    return type_size_B(&c->out[0], &size_B);
}

// The order of random 63-bit keys; equal ones, should there be any, stay in order.
kiln_status lower_randperm(const struct op_call *c, struct lowering *lo)
{
    struct view keys;
    if (c->out[0].dims[0] == 0) return KILN_OK;
    TRY(lower_temp(lo, KILN_I64, 1, c->out[0].dims, &keys));
    TRY(integers(c, lo, 0, UINT64_C(1) << 63, &keys));
    return lower_sort_views(lo, &keys, false, keys.dims[0], NULL, &c->vout[0]);
}

// dropout(x, p), and the same with the seed and offset of another call: that is its gradient.
kiln_status infer_dropout(struct op_call *c)
{
    double p = attr_float(c, AT_dropout_p);
    if (dtype_kind_of[c->in[0]->dtype] != KIND_FLOAT)
        return op_fail(c, KILN_E_DTYPE, "takes floats, x is %s", type_string(c->in[0]).s);
    if (!(p >= 0 && p <= 1)) return op_fail(c, KILN_E_ARGUMENT, "p is %g, a probability lies in [0, 1]", p);
    return infer_same(c);
}

kiln_status lower_dropout(const struct op_call *c, struct lowering *lo)
{
    double p = attr_float(c, AT_dropout_p), scalars[2] = {p, p < 1 ? 1 / (1 - p) : 0};
    const struct view *out = &c->vout[0];
    struct view words, in[2] = {c->vin[0], *out};
    int64_t n = type_numel(&c->out[0]);
    if (n == 0) return KILN_OK;
    TRY(draw(c, lo, n, &words));
    // The words in out's shape, row-major.
    in[1].slot = words.slot, in[1].dtype = words.dtype, in[1].offset = words.offset;
    for (int64_t d = out->rank - 1, stride = 1; d >= 0; stride *= out->dims[d--]) in[1].strides[d] = stride;
    return lower_pointwise(lo, FAMILY_dropout, dtype_class(c->out[0].dtype), 2, in, out, 2, scalars);
}
