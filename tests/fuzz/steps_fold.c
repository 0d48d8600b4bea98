// Steps that fold: reductions, totals beside reductions of rows, softmax, norms, losses, products.
#include "fuzz.h"

struct along {
    int64_t axes[KILN_MAX_RANK];
    kiln_reduce_opts opts;
    char text[32 + 4 * KILN_MAX_RANK];
};

// One axis, several, or all; the result may keep them.
static const kiln_reduce_opts *choose_axes(struct operands *o, kiln_tensor *t, struct along *along)
{
    size_t rank = kiln_rank(t), n = 0;
    uint32_t how = choose(o, 4);
    *along = (struct along){.opts = {.size = sizeof along->opts, .keepdims = choose(o, 2)}};
    if (how == 0 || !rank) {
        snprintf(along->text, sizeof along->text, "all axes%s", along->opts.keepdims ? ", keepdims" : "");
        return &along->opts;
    }
    if (how == 1)
        along->axes[n++] = -1;
    else if (how == 2)
        along->axes[n++] = choose(o, (uint32_t)rank);
    else
        for (size_t i = 0; i < rank; i++)
            if (choose(o, 2) || (i + 1 == rank && !n)) along->axes[n++] = (int64_t)i;
    along->opts.axes = (kiln_ints){n, along->axes};
    int at = snprintf(along->text, sizeof along->text, "axes");
    for (size_t i = 0; i < n; i++)
        at += snprintf(along->text + at, sizeof along->text - (size_t)at, " %d", (int)along->axes[i]);
    if (along->opts.keepdims) snprintf(along->text + at, sizeof along->text - (size_t)at, ", keepdims");
    return &along->opts;
}

static bool reduces_nothing(kiln_tensor *t, const kiln_reduce_opts *opts)
{
    for (size_t i = 0; i < kiln_rank(t); i++)
        if (kiln_dims(t)[i] == 0) return true;
    return false;
}

static kiln_tensor *sum_like(struct operands *o, kiln_tensor *x, const char *name, uint32_t which,
                             const struct along *along)
{
    static const char *const names[] = {"sum", "mean", "prod", "norm", "logsumexp", "norm of order 1"};
    const kiln_reduce_opts *opts = &along->opts;
    const kiln_norm_opts norm = {sizeof norm, opts->axes, opts->keepdims, which == 5 ? 1 : 0};
    if (which > 2 && !is_float(x)) which = 0;
    if (which == 2 && kiln_numel(x) > 32) which = 0; // part of it may overflow that meets a zero later, or before
    say(o, "%s(%s, %s)", names[which], name, along->text);
    switch (which) {
    case 0: return kiln_sum(x, opts);
    case 1: return kiln_mean(x, opts);
    case 2: return kiln_prod(x, opts);
    case 4: return with_noise_of_one(o->run, kiln_logsumexp(x, opts));
    default: return kiln_norm(x, &norm);
    }
}

kiln_tensor *step_reduce(struct operands *o)
{
    struct along along;
    choose_axes(o, o->a, &along);
    return sum_like(o, o->a, o->na, choose(o, 6), &along);
}

static kiln_tensor *fold_all(struct operands *o, kiln_tensor *x, uint32_t which, const struct along *along)
{
    if (which >= 6 && (reduces_nothing(x, &along->opts) || is_bool(x))) which = 0;
    return which == 6   ? kiln_max(x, &along->opts)
           : which == 7 ? kiln_min(x, &along->opts)
                        : sum_like(o, x, o->na, which, along);
}

// A total over all axes beside a reduction over some, of the value itself, of a uniform one, or of one that is
// broadcast along parts of the row; and with a pointwise op before, both and the value together.
kiln_tensor *step_totals(struct operands *o)
{
    struct along some, all = {.opts = {.size = sizeof all.opts}, .text = "all axes"};
    uint32_t first = choose(o, 8), second = choose(o, 8), of = choose(o, 5);
    choose_axes(o, o->a, &some);
    some.opts.keepdims = true;
    if (!is_float(o->a)) return NULL;
    const char *nb = "";
    kiln_tensor *x = o->a, *b = of % 3 == 1 ? fit(o, &nb) : NULL;
    if (b && (is_bool(b) || !broadcasts(o->a, b, true))) return NULL;
    bool vast = of == 4 && !is_float(b) && kiln_dtype_size(kiln_tensor_dtype(b)) == 8; // few make an infinite product
    if (vast) first = first == 2 ? 0 : first, second = second == 2 ? 0 : second;
    if (of == 4) x = kiln_cast(kiln_expand(b, kiln_rank(o->a), kiln_dims(o->a)), kiln_tensor_dtype(o->a));
    if (of == 1) x = kiln_tanh(kiln_mul(o->a, b));
    if (of == 2) x = kiln_full_like(o->a, 0.75);
    if (of == 3) x = kiln_sigmoid(o->a);
    kiln_tensor *rows = fold_all(o, x, first, &some);
    kiln_tensor *total = fold_all(o, choose(o, 2) ? x : o->a, second, &all);
    static const char *const ofs[] = {"x", "tanh(x * b)", "0.75", "sigmoid(x)", "b"};
    say(o, "x * fold %u of %s over %s + fold %u over all, with x = %s%s%s", first, ofs[of], some.text, second, o->na,
        of % 3 == 1 ? ", b = " : "", of % 3 == 1 ? nb : "");
    return kiln_add(kiln_mul(o->a, rows), total);
}

// Whether a variance of equal elements, or a sum of what was centred, is 0 or what is left of rounding is as luck has
// it.
static kiln_tensor *without_rests(struct operands *o)
{
    if (!is_float(o->a) || !noise_tosses(o->run)) return o->a;
    return kiln_where(kiln_less(kiln_abs(o->a), kiln_scalar(0x1p-18)), kiln_scalar(0), o->a);
}

kiln_tensor *step_extreme(struct operands *o)
{
    static const char *const names[] = {"max", "min", "argmax", "argmin", "any", "all"};
    struct along along;
    const kiln_reduce_opts *opts = choose_axes(o, o->a, &along);
    uint32_t which = choose(o, 6);
    if (which < 4 && reduces_nothing(o->a, opts)) return NULL;
    if (which / 2 == 1 && opts->axes.count > 1) which -= 2;
    say(o, "%s(%s, %s)", names[which], o->na, along.text);
    switch (which) {
    case 0: return kiln_max(o->a, opts);
    case 1: return kiln_min(o->a, opts);
    case 2: return kiln_argmax(o->a, opts);
    case 3: return kiln_argmin(o->a, opts);
    case 4: return kiln_any(without_rests(o), opts);
    default: return kiln_all(without_rests(o), opts);
    }
}

// The gradient of the deviation of equal elements is what rounding leaves over what rounding leaves.
static kiln_tensor *without_equals(struct operands *o)
{
    kiln_tensor *x = kiln_add(kiln_square(o->a), o->a);
    double n = (double)kiln_numel(x);
    kiln_tensor *steps = kiln_fmod(kiln_arange(o->run->dev, kiln_tensor_dtype(x), 0, n, 1), kiln_scalar(5));
    return kiln_add(x, kiln_reshape(steps, kiln_rank(x), kiln_dims(x)));
}

kiln_tensor *step_spread(struct operands *o)
{
    struct along along;
    const kiln_reduce_opts *r = choose_axes(o, o->a, &along);
    const kiln_var_opts opts = {sizeof opts, r->axes, r->keepdims, choose(o, 2)};
    if (!is_float(o->a)) return NULL;
    bool var = choose(o, 2);
    say(o, "%s(%s, %s, correction %g)", var ? "var" : "std", o->na, along.text, opts.correction);
    return var ? kiln_var(o->a, &opts) : kiln_std(without_equals(o), &opts);
}

kiln_tensor *step_rows(struct operands *o)
{
    if (!kiln_rank(o->a) || !is_float(o->a)) return NULL;
    int64_t axis = choose(o, 2) ? -1 : choose_axis(o, o->a);
    bool log = choose(o, 2);
    say(o, "%s(%s, %d)", log ? "log_softmax" : "softmax", o->na, (int)axis);
    return log ? with_noise_of_one(o->run, kiln_log_softmax(o->a, axis)) : kiln_softmax(o->a, axis);
}

static kiln_tensor *batch_norm(struct operands *o)
{
    kiln_tensor *out[3];
    uint32_t which = choose(o, 3);
    if (kiln_rank(o->a) < 1) return NULL;
    int64_t channels = kiln_dims(o->a)[kiln_rank(o->a) > 1];
    bool weighed = kiln_rank(o->b) == 1 && kiln_dims(o->b)[0] == channels && is_float(o->b);
    kiln_tensor *w = weighed ? o->b : NULL;
    say(o, "batch_norm_train(%s, weight %s), result %u", o->na, w ? o->nb : "none", which);
    if (kiln_batch_norm_train(o->a, KILN_BATCH_NORM(.weight = w, .eps = 0.125), &out[0], &out[1], &out[2])) return NULL;
    return out[which];
}

// As many groups as divide the channels: all, one, or half of them.
static kiln_tensor *group_norm(struct operands *o)
{
    int64_t channels = kiln_dims(o->a)[1], groups = choose(o, 2) ? channels : 1;
    if (channels < 1 || kiln_rank(o->a) == KILN_MAX_RANK) return NULL;
    if (channels % 2 == 0 && choose(o, 2)) groups = channels / 2;
    bool weighed = kiln_rank(o->b) == 1 && kiln_dims(o->b)[0] == channels && is_float(o->b);
    kiln_tensor *w = weighed ? o->b : NULL;
    say(o, "group_norm(%s, %d, weight %s)", o->na, (int)groups, w ? o->nb : "none");
    return kiln_group_norm(o->a, groups, KILN_GROUP_NORM(.weight = w, .eps = 0.125));
}

kiln_tensor *step_norm(struct operands *o)
{
    size_t rank = kiln_rank(o->a);
    if (!rank || !is_float(o->a)) return NULL;
    if (choose(o, 3) == 0) return batch_norm(o);
    if (rank > 1 && choose(o, 3) == 0) return group_norm(o);
    int64_t axes = 1 + choose(o, (uint32_t)rank);
    bool weighed = axes == 1 && kiln_rank(o->b) == 1 && is_float(o->b) && kiln_dims(o->b)[0] == kiln_dim(o->a, -1);
    kiln_tensor *w = weighed ? o->b : NULL, *bias = weighed && choose(o, 2) ? o->b : NULL;
    if (choose(o, 3) == 0) {
        say(o, "rms_norm(%s, %d, weight %s)", o->na, (int)axes, w ? o->nb : "none");
        return kiln_rms_norm(o->a, axes, KILN_RMS_NORM(.weight = w, .eps = 0.125));
    }
    say(o, "layer_norm(%s, %d, weight %s, bias %s)", o->na, (int)axes, w ? o->nb : "none", bias ? o->nb : "none");
    return kiln_layer_norm(o->a, axes, KILN_LAYER_NORM(.weight = w, .bias = bias, .eps = 0.125));
}

static kiln_tensor *labels_for(struct operands *o, bool *classes)
{
    size_t rank = kiln_rank(o->a), n = 0;
    int64_t dims[KILN_MAX_RANK], axis = rank > 1;
    *classes = !(same_shape(o->a, o->b) && is_float(o->b));
    if (!*classes) return kiln_softmax(o->b, axis);
    for (size_t i = 0; i < rank; i++)
        if ((int64_t)i != axis) dims[n++] = kiln_dims(o->a)[i];
    return make_index(o, n, dims, kiln_dims(o->a)[axis]);
}

kiln_tensor *step_loss(struct operands *o)
{
    bool classes;
    size_t rank = kiln_rank(o->a);
    if (!rank || !is_float(o->a)) return NULL;
    kiln_tensor *labels = labels_for(o, &classes);
    if (!labels) return NULL;
    int64_t reduction = choose(o, 3);
    double smoothing = choose(o, 3) ? 0 : 0.25;
    if (classes) labels = kiln_remainder(labels, kiln_scalar_int(kiln_dims(o->a)[rank > 1]));
    say(o, "cross_entropy(%s, %s, reduction %d, label_smoothing %g)", o->na, classes ? "classes" : o->nb,
        (int)reduction, smoothing);
    const kiln_cross_entropy_opts *opts = KILN_CROSS_ENTROPY(.reduction = reduction, .label_smoothing = smoothing);
    return with_noise_of_one(o->run, kiln_cross_entropy(o->a, labels, opts));
}

kiln_tensor *step_matmul(struct operands *o)
{
    size_t ra = kiln_rank(o->a), rb = kiln_rank(o->b);
    if (!ra || is_bool(o->a)) return NULL;
    int64_t inner = kiln_dims(o->a)[ra - 1];
    if (rb && !is_bool(o->b) && kiln_dims(o->b)[rb > 1 ? rb - 2 : 0] == inner) {
        say(o, "matmul(%s, %s)", o->na, o->nb);
        return kiln_matmul(o->a, o->b);
    }
    if (rb > 1 && !is_bool(o->b) && kiln_dims(o->b)[rb - 1] == inner) {
        say(o, "matmul(%s, transpose(%s, -1, -2))", o->na, o->nb);
        return kiln_matmul(o->a, kiln_transpose(o->b, -1, -2));
    }
    if (ra == 1) return say(o, "matmul(%s, %s)", o->na, o->na), kiln_matmul(o->a, o->a);
    say(o, "matmul(%s, transpose(%s, -1, -2))", o->na, o->na);
    return kiln_matmul(o->a, kiln_transpose(o->a, -1, -2));
}

// Three rows of a block each, which ops make: a scale of 1/16 in f16, 0x2c00, and 32 elements.
static kiln_tensor *packed_rows(struct operands *o, bool bytes)
{
    kiln_device *dev = kiln_tensor_device(o->a);
    int64_t n = bytes ? 32 : 16;
    kiln_tensor *at = kiln_reshape(kiln_arange(dev, KILN_I32, 0, (double)(3 * n), 1), KILN_SHAPE(3, n));
    kiln_tensor *scale = kiln_mul(kiln_reshape(kiln_arange(dev, KILN_I32, 0, 2, 1), KILN_SHAPE(1, 2)), 0x2c);
    kiln_tensor *parts[] = {kiln_expand(scale, KILN_SHAPE(3, 2)), kiln_remainder(kiln_mul(at, 37), 251)};
    return kiln_cast(kiln_concat(parts, 2, 1), KILN_U8);
}

kiln_tensor *step_packed(struct operands *o)
{
    bool bytes = choose(o, 2);
    if (!is_float(o->a) || !kiln_numel(o->a) || kiln_numel(o->a) > LARGEST / 32) return NULL;
    kiln_tensor *each = kiln_mul(kiln_add(kiln_arange(kiln_tensor_device(o->a), KILN_F32, 0, 32, 1), 1), 0.03125);
    kiln_tensor *x = kiln_mul(kiln_unsqueeze(o->a, -1), kiln_cast(each, kiln_tensor_dtype(o->a)));
    x = with_noise(o->run, x); // sums over it cancel: of what it is rounded by, noise on them shows too little
    say(o, "matmul_packed(%s by 1/32 .. 1, three rows of %s)", o->na, bytes ? "q8_0" : "q4_0");
    return kiln_matmul_packed(x, packed_rows(o, bytes), kiln_packing(bytes ? "q8_0" : "q4_0"));
}

// What reads a product: row by row, which the CPU's goes on with as its rows are ready, and in ways that it must not.
static kiln_tensor *follow(kiln_tensor *p, kiln_tensor *bias, uint32_t how)
{
    const kiln_reduce_opts *row = KILN_REDUCE(.axes = KILN_AXES(1), .keepdims = true);
    kiln_tensor *x = kiln_add(p, bias);
    switch (how) {
    case 0: return kiln_relu(x);
    case 1: return kiln_softmax(p, 1);
    case 2: return kiln_sub(x, kiln_mean(x, row));
    case 3: return kiln_mul(kiln_tanh(x), p); // and the product itself, twice
    case 4: return kiln_cast(x, KILN_F32);
    case 5: return kiln_layer_norm(p, 1, KILN_LAYER_NORM(.eps = 0.125));
    case 6: return kiln_sub(p, kiln_flip(p, KILN_AXES(0)));                      // other rows
    case 7: return kiln_mul(p, kiln_mean(p, KILN_REDUCE(.axes = KILN_AXES(0)))); // all rows
    default: return kiln_add(kiln_roll(p, KILN_AXES(1), KILN_AXES(0)), bias);
    }
}

// The element by 25 to 88 rows of numbers, times a matrix of numbers: more rows than programs have else. Three are
// kept.
kiln_tensor *step_tall(struct operands *o)
{
    static const char *const ways[] = {
        "relu of it and a bias", "softmax of its rows",     "less its mean by rows", "tanh of it times it", "as f32",
        "its layer_norm",        "less itself upside down", "times its mean",        "itself a row further"};
    int64_t rows = 25 + choose(o, 64), n = 2 + choose(o, (uint32_t)(LARGEST / rows - 1)), k = kiln_numel(o->a);
    uint32_t how = choose(o, 9);
    if (!is_float(o->a) || !k || k > 64) return NULL;
    kiln_device *dev = kiln_tensor_device(o->a);
    kiln_dtype dtype = kiln_tensor_dtype(o->a);
    kiln_tensor *down = kiln_div(kiln_fmod(kiln_arange(dev, KILN_F32, 0, (double)rows, 1), 7), 4);
    kiln_tensor *w = kiln_div(kiln_sub(kiln_fmod(kiln_arange(dev, KILN_F32, 0, (double)(k * n), 1), 5), 2), 4);
    kiln_tensor *bias = kiln_cast(kiln_div(kiln_arange(dev, KILN_F32, 0, (double)n, 1), 8), dtype);
    kiln_tensor *column = kiln_cast(kiln_reshape(kiln_sub(down, 0.625), KILN_SHAPE(rows, 1)), dtype);
    kiln_tensor *x = with_noise(o->run, kiln_mul(kiln_reshape(o->a, KILN_SHAPE(1, k)), column));
    kiln_tensor *p = with_noise(o->run, kiln_matmul(x, kiln_cast(kiln_reshape(w, KILN_SHAPE(k, n)), dtype)));
    say(o, "matmul(%s by %d rows, [%d,%d]): %s", o->na, (int)rows, (int)k, (int)n, ways[how]);
    return follow(p, bias, how);
}

#define PAIR(a, b) ((const int64_t[]){a, b})

// The element by 33 to 96 rows of 33 to 96 numbers each, times a matrix as large: products in blocks of tiles, with
// what reads their rows, of which means are left.
kiln_tensor *step_tiles(struct operands *o)
{
    int64_t rows = 33 + choose(o, 64), depth = 33 + choose(o, 64), columns = 33 + choose(o, 64), k = kiln_numel(o->a);
    uint32_t how = choose(o, 6), turned = choose(o, 3), axis = choose(o, 2);
    if (!is_float(o->a) || !k || k > 64) return NULL;
    kiln_tensor *mix = pattern(o, 5, 2, PAIR(k, depth)), *row = kiln_reshape(o->a, KILN_SHAPE(1, k));
    kiln_tensor *x = kiln_add(pattern(o, 11, 2, PAIR(rows, depth)), with_noise(o->run, kiln_matmul(row, mix)));
    kiln_tensor *w = pattern(o, 7, 2, turned == 1 ? PAIR(columns, depth) : PAIR(depth, columns));
    w = kiln_div(w, kiln_scalar(64)); // sums stay small
    if (turned == 1) w = kiln_transpose(w, 0, 1);
    if (turned == 2) x = kiln_transpose(kiln_add(kiln_transpose(x, 0, 1), kiln_scalar(0.25)), 0, 1);
    kiln_tensor *p = with_noise(o->run, kiln_matmul(x, w)), *bias = pattern(o, 3, 2, PAIR(1, columns));
    say(o, "mean along %d of what follows (%d) on matmul(%s in [%d,%d], [%d,%d])", (int)axis, (int)how, o->na,
        (int)rows, (int)depth, (int)depth, (int)columns);
    return kiln_mean(follow(p, bias, how), KILN_REDUCE(.axes = KILN_AXES((int64_t)axis)));
}

// Each of 2 to 70 rows, made of the element by numbers, with each of a few others: the distance, or another fold over
// what they have side by side.
kiln_tensor *step_pairs(struct operands *o)
{
    static const char *const ways[] = {"sum of squares", "largest product", "sum of sizes", "place of the smallest",
                                       "logsumexp"};
    int64_t rows = 2 + choose(o, 69), few = 1 + choose(o, 4), width = kiln_numel(o->a);
    uint32_t how = choose(o, 5);
    if (!is_float(o->a) || !width || few * rows * width > 4 * LARGEST || rows * few > LARGEST) return NULL;
    kiln_device *dev = kiln_tensor_device(o->a);
    kiln_dtype dtype = kiln_tensor_dtype(o->a);
    kiln_tensor *down = kiln_sub(kiln_div(kiln_fmod(kiln_arange(dev, KILN_F32, 0, (double)rows, 1), 7), 4), 0.625);
    kiln_tensor *column = kiln_cast(kiln_reshape(down, KILN_SHAPE(1, rows, 1)), dtype);
    kiln_tensor *x = kiln_tanh(kiln_reshape(o->a, KILN_SHAPE(1, 1, width)));
    kiln_tensor *many = with_noise(o->run, kiln_mul(x, column));
    kiln_tensor *others = kiln_transpose(kiln_sub(kiln_narrow(many, 1, 0, few < rows ? few : rows), x), 0, 1);
    kiln_tensor *d = how == 1 || how == 4 ? kiln_mul(many, others) : kiln_sub(many, others);
    const kiln_reduce_opts *last = KILN_REDUCE(.axes = KILN_AXES(-1));
    say(o, "%s over %s by %d rows and %d others", ways[how], o->na, (int)rows, (int)few);
    switch (how) {
    case 0: return kiln_sum(kiln_mul(d, d), last);
    case 1: return kiln_max(d, last);
    case 2: return kiln_sum(kiln_abs(d), last);
    case 3: return kiln_argmin(kiln_floor(kiln_mul(d, 4)), last);
    default: return with_noise_of_one(o->run, kiln_logsumexp(d, last));
    }
}

static kiln_tensor *attention_mask(kiln_device *dev, kiln_dtype dtype, int64_t rows, uint32_t how)
{
    kiln_tensor *left = kiln_fmod(kiln_arange(dev, KILN_F32, 0, (double)(rows * rows), 1), 5);
    left = kiln_reshape(left, KILN_SHAPE(rows, rows));
    if (how == 2) return kiln_logical_or(kiln_less(left, 3), kiln_eye(dev, KILN_BOOL, rows, rows)); // one is seen
    return how == 3 ? kiln_cast(kiln_div(left, 4), dtype) : NULL;
}

// What kiln_sdpa gives, by the ops that it stands for; the number is on the way to the scores, or behind them.
static kiln_tensor *attention_by_parts(kiln_tensor *q, kiln_tensor *k, kiln_tensor *v, kiln_tensor *mask, uint32_t how)
{
    double scale = 1 / sqrt((double)kiln_dim(q, -1));
    if (how & 1) q = kiln_mul(q, scale);
    kiln_tensor *scores = kiln_matmul(q, kiln_transpose(k, -2, -1));
    if (!(how & 1)) scores = kiln_div(scores, 1 / scale);
    if (mask && kiln_tensor_dtype(mask) == KILN_BOOL) scores = kiln_where(mask, scores, -INFINITY);
    if (mask && kiln_tensor_dtype(mask) != KILN_BOOL) scores = kiln_add(scores, mask);
    return kiln_matmul(kiln_softmax(scores, -1), v);
}

// Attention of 2 to 66 queries to as many keys, all of the element by numbers, upside down and the other way round; by
// two heads of queries to one of keys as well.
kiln_tensor *step_attention(struct operands *o)
{
    static const char *const ways[] = {"", ", causal", ", some keys left out", ", a bias"};
    int64_t rows = 2 + choose(o, 65), width = kiln_numel(o->a), heads = 1 + choose(o, 2);
    uint32_t how = choose(o, 4), parts = choose(o, 4);
    if (!is_float(o->a) || !width || width > 32 || heads * rows * width > LARGEST) return NULL;
    kiln_device *dev = kiln_tensor_device(o->a);
    kiln_dtype dtype = kiln_tensor_dtype(o->a);
    kiln_tensor *down = kiln_sub(kiln_div(kiln_fmod(kiln_arange(dev, KILN_F32, 0, (double)rows, 1), 7), 4), 0.625);
    kiln_tensor *column = kiln_cast(kiln_reshape(down, KILN_SHAPE(1, rows, 1)), dtype);
    kiln_tensor *k = with_noise(o->run, kiln_tanh(kiln_mul(kiln_reshape(o->a, KILN_SHAPE(1, 1, width)), column)));
    kiln_tensor *q = heads == 1 ? kiln_flip(k, KILN_AXES(1)) : kiln_concat((kiln_tensor *[]){k, kiln_neg(k)}, 2, 0);
    kiln_tensor *v = kiln_flip(k, KILN_AXES(2)), *mask = attention_mask(dev, dtype, rows, how);
    say(o, "attention(%s by %d rows, %d heads%s%s)", o->na, (int)rows, (int)heads, ways[how],
        parts & 2 ? ", by its parts" : "");
    if (how == 1 && parts & 2) mask = kiln_tril(kiln_ones(dev, KILN_BOOL, KILN_SHAPE(rows, rows)), 0);
    if (parts & 2) return with_noise(o->run, attention_by_parts(q, k, v, mask, parts));
    return with_noise(o->run, kiln_sdpa(q, k, v, mask, KILN_ATTENTION(.causal = how == 1)));
}

// Sums of products by letters: of one operand, or of two of one shape.
kiln_tensor *step_einsum(struct operands *o)
{
    static const char *const forms[] = {"...i,...i->...", "...i,...j->...", "...i,...i->...i"};
    kiln_tensor *both[] = {o->a, o->b};
    if (!kiln_rank(o->a) || is_bool(o->a)) return NULL;
    bool two = kiln_rank(o->b) && !is_bool(o->b) && same_shape(o->a, o->b);
    const char *form = two ? forms[choose(o, 3)] : choose(o, 2) ? "...i->..." : "i...->...i";
    say(o, "einsum(\"%s\", %s%s%s)", form, o->na, two ? ", " : "", two ? o->nb : "");
    return kiln_einsum(form, both, two ? 2 : 1);
}
