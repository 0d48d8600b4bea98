// Convolution and pooling: stride, padding, dilation, groups, layouts; and their gradients.
#include "conformance/structured.h"
#include <kiln/ops.h>

struct conv_case {
    int64_t n, c, h, w, o;
    struct window k;
    bool bias;
};

static const struct conv_case conv_cases[] = {
    {1, 1, 5, 5, 1, {{3, 3}, {1, 1}, {0, 0}, {1, 1}, 1, false, false}, false},
    {2, 3, 8, 7, 4, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, false, false}, true},
    {2, 3, 9, 8, 5, {{3, 2}, {2, 3}, {1, 0}, {1, 1}, 1, false, false}, true},
    {1, 4, 9, 9, 6, {{3, 3}, {1, 1}, {2, 2}, {2, 2}, 2, false, false}, true},
    {2, 6, 6, 6, 6, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 6, false, false}, false},
    {3, 5, 4, 6, 7, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, false, false}, true},
    {1, 2, 7, 9, 3, {{5, 3}, {2, 2}, {4, 1}, {1, 3}, 1, false, false}, false},
    {2, 16, 10, 10, 33, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, false, false}, true},
    {1, 3, 17, 19, 8, {{7, 7}, {2, 2}, {3, 3}, {1, 1}, 1, false, false}, false},
    {0, 2, 5, 5, 3, {{3, 3}, {1, 1}, {0, 0}, {1, 1}, 1, false, false}, true},
    {2, 24, 17, 18, 40, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, false, false}, true},
    // Few units: outputs are divided, and bands.
    {1, 6, 9, 8, 300, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, false, false}, true},
    {1, 8, 16, 15, 280, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 2, false, false}, true},
    {1, 70, 13, 11, 130, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, false, false}, true},
    // Groups of one or two outputs: strides, dilation, several channels, several bands of rows.
    {2, 5, 19, 23, 10, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 5, false, false}, true},
    {1, 3, 40, 75, 3, {{5, 3}, {1, 2}, {2, 1}, {1, 1}, 3, false, false}, true},
    {1, 4, 21, 18, 4, {{3, 4}, {3, 1}, {2, 3}, {2, 3}, 4, false, false}, false},
    {2, 6, 13, 33, 4, {{3, 3}, {1, 4}, {1, 2}, {1, 1}, 2, false, false}, true},
    {1, 2, 9, 11, 2, {{3, 3}, {5, 1}, {1, 1}, {1, 1}, 2, false, false}, false},
    {1, 2, 121, 111, 2, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 2, false, false}, true},
    // Panels of places: across images, a tile more and less, one place; channels that need several passes; taps in
    // long rows; strides that leave phases without taps.
    {5, 13, 7, 7, 17, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, false, false}, true},
    {2, 67, 3, 11, 29, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, false, false}, true},
    {1, 15, 1, 31, 16, {{1, 3}, {1, 1}, {0, 1}, {1, 1}, 1, false, false}, true},
    {7, 131, 1, 1, 13, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, false, false}, true},
    {1, 3, 5, 65, 11, {{1, 19}, {1, 2}, {0, 9}, {1, 1}, 1, false, false}, false},
    {2, 16, 15, 17, 12, {{1, 1}, {2, 3}, {0, 0}, {1, 1}, 4, false, false}, true},
    {3, 31, 8, 8, 24, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, false, false}, true},
    {1, 4, 33, 34, 23, {{3, 3}, {2, 2}, {4, 5}, {2, 3}, 1, false, false}, false},
    // Phases of the gradient that lie between each other, ends of rows in the middle of vectors.
    {2, 9, 20, 46, 11, {{4, 4}, {2, 2}, {1, 1}, {1, 1}, 1, false, false}, true},
    {1, 5, 13, 26, 7, {{3, 5}, {1, 2}, {1, 2}, {1, 1}, 1, false, false}, false},
};
enum { CONV_CASES = sizeof conv_cases / sizeof conv_cases[0] };

static double taps(const struct conv_case *c)
{
    return (double)(c->c / c->k.groups * c->k.kernel[0] * c->k.kernel[1]);
}

static void forward(const char *op, const struct conv_case *c, int dtype, enum host_layout lx, enum host_layout lw)
{
    kiln_scope *scope = kiln_scope_begin();
    struct host x, w, b = {0}, scale;
    kiln_tensor *tx = random_tensor(&x, dtype, 4, (const int64_t[]){c->n, c->c, c->h, c->w}, lx, -2, 2);
    kiln_tensor *tw = random_tensor(
        &w, dtype, 4, (const int64_t[]){c->o, c->c / c->k.groups, c->k.kernel[0], c->k.kernel[1]}, lw, -1, 1);
    kiln_tensor *tb = c->bias ? random_tensor(&b, dtype, 1, &c->o, LAYOUT_CONTIGUOUS, -2, 2) : NULL;
    struct host want = reference_conv2d(&x, &w, c->bias ? &b : NULL, &c->k, dtype, &scale);
    kiln_conv2d_opts o = {.size = sizeof o,
                          .bias = tb,
                          .stride = {c->k.stride[0], c->k.stride[1]},
                          .padding = {c->k.padding[0], c->k.padding[1]},
                          .dilation = {c->k.dilation[0], c->k.dilation[1]},
                          .groups = c->k.groups};
    check_values(kiln_conv2d(tx, tw, &o), &want, &scale, taps(c) / 4 + 4, case_text(op, &x, lx, host_layout_names[lw]));
    host_free(&x);
    host_free(&w);
    host_free(&b);
    host_free(&want);
    host_free(&scale);
    kiln_scope_end(&scope);
}

// Large enough that 2 x 2 results come of fewer products, with odd sides, channels and outputs.
static const struct conv_case square_cases[] = {
    {1, 33, 33, 35, 34, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, false, false}, true},
    {1, 33, 31, 47, 35, {{3, 3}, {1, 1}, {0, 0}, {1, 1}, 1, false, false}, false},
    {2, 66, 26, 27, 70, {{3, 3}, {1, 1}, {2, 1}, {1, 1}, 2, false, false}, true},
};
enum { SQUARE_CASES = sizeof square_cases / sizeof square_cases[0] };

// A pixel, and then a weight, from which sums with its neighbours would not come back: results beside its own stay as
// exact as without it.
static void odd_squares(const char *op, float odd, bool weight)
{
    kiln_scope *scope = kiln_scope_begin();
    const struct conv_case *c = &square_cases[0];
    struct host x, w, scale;
    random_tensor(&x, KILN_F32, 4, (const int64_t[]){c->n, c->c, c->h, c->w}, LAYOUT_CONTIGUOUS, -2, 2);
    random_tensor(&w, KILN_F32, 4, (const int64_t[]){c->o, c->c, 3, 3}, LAYOUT_CONTIGUOUS, -1, 1);
    if (weight)
        w.v[5 * c->c * 9 + 13] = odd;
    else
        x.v[7 * c->h * c->w + 12 * c->w + 17] = odd;
    struct host want = reference_conv2d(&x, &w, NULL, &c->k, KILN_F32, &scale);
    kiln_tensor *y = kiln_conv2d(host_tensor(suite.dev, &x, LAYOUT_CONTIGUOUS),
                                 host_tensor(suite.dev, &w, LAYOUT_CONTIGUOUS), KILN_CONV2D(.padding = {1, 1}));
    check_values(y, &want, &scale, taps(c) / 4 + 4,
                 case_text(op, &x, LAYOUT_CONTIGUOUS, weight ? "odd weight" : "odd pixel"));
    host_free(&x);
    host_free(&w);
    host_free(&want);
    host_free(&scale);
    kiln_scope_end(&scope);
}

static void squares(const char *op)
{
    for (int i = 0; i < SQUARE_CASES && !suite.sparse; i++) {
        forward(op, &square_cases[i], KILN_F32, LAYOUT_CONTIGUOUS, LAYOUT_CONTIGUOUS);
        if (i == 1) forward(op, &square_cases[i], KILN_F16, LAYOUT_ROTATED, LAYOUT_STEP);
    }
    for (int weight = 0; weight < 2 && !suite.sparse; weight++) {
        odd_squares(op, NAN, weight);
        odd_squares(op, INFINITY, weight);
        odd_squares(op, 3e38F, weight);
    }
}

static void backward(const char *op, const struct conv_case *c, int dtype, enum host_layout l1, enum host_layout l2,
                     bool by_weight)
{
    kiln_scope *scope = kiln_scope_begin();
    struct host x, w, dy, scale, want;
    const int64_t xd[] = {c->n, c->c, c->h, c->w}, wd[] = {c->o, c->c / c->k.groups, c->k.kernel[0], c->k.kernel[1]};
    const int64_t yd[] = {c->n, c->o, window_count(&c->k, 0, c->h), window_count(&c->k, 1, c->w)};
    kiln_tensor *tx = random_tensor(&x, dtype, 4, xd, l1, -2, 2), *tw = random_tensor(&w, dtype, 4, wd, l1, -1, 1);
    kiln_tensor *tdy = random_tensor(&dy, dtype, 4, yd, l2, -1, 1), *t;
    kiln_conv2d_grad_opts o = {.size = sizeof o,
                               .stride = {c->k.stride[0], c->k.stride[1]},
                               .padding = {c->k.padding[0], c->k.padding[1]},
                               .dilation = {c->k.dilation[0], c->k.dilation[1]},
                               .groups = c->k.groups};
    double k;
    if (by_weight) {
        want = reference_conv2d_weight_grad(&x, &dy, wd[2], wd[3], &c->k, dtype, &scale);
        t = kiln_conv2d_weight_grad(tx, tdy, wd[2], wd[3], &o);
        k = (double)(yd[0] * yd[2] * yd[3]) / 4 + 4;
    } else {
        want = reference_conv2d_input_grad(&dy, &w, c->h, c->w, &c->k, dtype, &scale);
        t = kiln_conv2d_input_grad(tdy, tw, c->h, c->w, &o);
        k = taps(c) * (double)c->o / (double)c->c + 4;
    }
    check_values(t, &want, &scale, k, case_text(op, &x, l1, host_layout_names[l2]));
    host_free(&x);
    host_free(&w);
    host_free(&dy);
    host_free(&want);
    host_free(&scale);
    kiln_scope_end(&scope);
}

void conform_conv2d(const char *op)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++)
        for (int i = 0; i < CONV_CASES; i++)
            if (dtype == KILN_F32 || !thinned(i + 2 * dtype, 5))
                forward(op, &conv_cases[i], dtype, LAYOUT_CONTIGUOUS, LAYOUT_CONTIGUOUS);
    for (int l = 1; l < LAYOUT_COUNT; l++) {
        if (!thinned(l, 3)) forward(op, &conv_cases[2], KILN_F32, (enum host_layout)l, LAYOUT_CONTIGUOUS);
        if (!thinned(l + 1, 3)) forward(op, &conv_cases[3], KILN_F32, LAYOUT_CONTIGUOUS, (enum host_layout)l);
        if (!thinned(l + 2, 3)) forward(op, &conv_cases[5], KILN_F32, (enum host_layout)l, (enum host_layout)l);
    }
    squares(op);
    kiln_tensor *x = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(1, 3, 5, 5)),
                *w = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(4, 2, 3, 3));
    kiln_tensor *big = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(4, 3, 7, 7)),
                *fits = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(4, 3, 3, 3));
    if (kiln_conv2d(x, w, NULL)) record_mistake("conv2d takes channels that differ");
    expect_error(KILN_E_SHAPE, op, "channels that differ");
    if (kiln_conv2d(x, big, NULL)) record_mistake("conv2d takes a kernel that does not fit");
    expect_error(KILN_E_SHAPE, op, "a kernel that does not fit");
    if (kiln_conv2d(x, fits, KILN_CONV2D(.groups = 2))) record_mistake("conv2d takes groups that do not divide");
    expect_error(KILN_E_SHAPE, op, "groups that do not divide the channels");
    if (kiln_conv2d(x, fits, KILN_CONV2D(.stride = {-1, 1}))) record_mistake("conv2d takes a negative stride");
    expect_error(KILN_E_ARGUMENT, op, "a negative stride");
    if (kiln_conv2d(x, kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3, 3)), NULL))
        record_mistake("conv2d takes a matrix as weight");
    expect_error(KILN_E_SHAPE, op, "a matrix as weight");
    kiln_tensor *ints = kiln_ones(suite.dev, KILN_I32, KILN_SHAPE(1, 3, 5, 5));
    if (kiln_conv2d(ints, kiln_ones(suite.dev, KILN_I32, KILN_SHAPE(4, 3, 3, 3)), NULL))
        record_mistake("conv2d takes integers");
    expect_error(KILN_E_DTYPE, op, "integers");
}

static void conv_backward(const char *op, bool by_weight)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++)
        for (int i = 0; i < CONV_CASES; i++)
            if (dtype == KILN_F32 || !thinned(i + 2 * dtype, 5))
                backward(op, &conv_cases[i], dtype, LAYOUT_CONTIGUOUS, LAYOUT_CONTIGUOUS, by_weight);
    for (int i = 0; i < SQUARE_CASES && !by_weight && !suite.sparse; i++)
        backward(op, &square_cases[i], KILN_F32, LAYOUT_CONTIGUOUS, LAYOUT_CONTIGUOUS, false);
    for (int l = 1; l < LAYOUT_COUNT; l++) {
        if (!thinned(l + by_weight, 2))
            backward(op, &conv_cases[2], KILN_F32, (enum host_layout)l, LAYOUT_CONTIGUOUS, by_weight);
        if (!thinned(l + !by_weight, 2))
            backward(op, &conv_cases[3], KILN_F32, LAYOUT_CONTIGUOUS, (enum host_layout)l, by_weight);
    }
}

// A weight that is no number shows where its tap meets dy, not beside it: between steps of 2, and beyond the edges.
static void odd_weights(const char *op, float odd)
{
    const float w[3][3] = {{odd, 1, 2}, {1, odd, 3}, {1, 2, odd}}, dy[4] = {1, 2, 3, 4};
    for (int at = 0; at < 3; at++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *t = kiln_conv2d_input_grad(kiln_from_data(suite.dev, KILN_F32, KILN_SHAPE(1, 1, 1, 4), dy),
                                                kiln_from_data(suite.dev, KILN_F32, KILN_SHAPE(1, 1, 1, 3), w[at]), 1,
                                                10, KILN_CONV2D_GRAD(.stride = {1, 2}));
        record.cases++;
        struct host h = no_error(op) ? host_read(t) : (struct host){0};
        for (int64_t x = 0; x < h.n && !suite.is_null; x++) {
            long double want = 0;
            for (int64_t k = 0; k < 3; k++)
                if ((x - k) % 2 == 0 && x >= k && (x - k) / 2 < 4) want += (long double)w[at][k] * dy[(x - k) / 2];
            if (isnan(want) ? !isnan(h.v[x]) : h.v[x] != want)
                record_mistake("%s: with %g as weight %d element %d is %Lg", op, (double)odd, at, (int)x, h.v[x]);
        }
        host_free(&h);
        kiln_scope_end(&scope);
    }
}

void conform_conv2d_input_grad(const char *op)
{
    conv_backward(op, false);
    odd_weights(op, NAN);
    odd_weights(op, INFINITY);
}

// A pixel that is no number shows in the taps that meet it with a gradient, not in one that meets it beyond the edge.
static void odd_pixels(const char *op, float odd)
{
    const float x[2][4] = {{1, 2, 3, odd}, {4, 5, 6, odd}}, dy[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *t = kiln_conv2d_weight_grad(kiln_from_data(suite.dev, KILN_F32, KILN_SHAPE(1, 1, 2, 4), x),
                                             kiln_from_data(suite.dev, KILN_F32, KILN_SHAPE(1, 1, 2, 4), dy), 1, 3,
                                             KILN_CONV2D_GRAD(.padding = {0, 1}));
    record.cases++;
    struct host h = no_error(op) ? host_read(t) : (struct host){0};
    if (h.n && !suite.is_null && h.v[0] != 2 * 1 + 3 * 2 + 4 * 3 + 6 * 4 + 7 * 5 + 8 * 6)
        record_mistake("%s: with %g in the last column the first tap is %Lg", op, (double)odd, h.v[0]);
    if (h.n && !suite.is_null && (isfinite(h.v[1]) || isfinite(h.v[2])))
        record_mistake("%s: %g in the last column is lost: %Lg %Lg", op, (double)odd, h.v[1], h.v[2]);
    host_free(&h);
    kiln_scope_end(&scope);
}

void conform_conv2d_weight_grad(const char *op)
{
    conv_backward(op, true);
    odd_pixels(op, NAN);
    odd_pixels(op, INFINITY);
}

// --- pooling

static const struct {
    int64_t dims[4];
    struct window k;
} pool_cases[] = {
    {{1, 1, 4, 4}, {{2, 2}, {2, 2}, {0, 0}, {1, 1}, 1, false, false}},
    {{2, 3, 7, 8}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, false, false}},
    {{2, 3, 7, 8}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, false, true}},
    {{2, 2, 9, 9}, {{2, 3}, {1, 2}, {0, 1}, {2, 2}, 1, false, false}},
    {{1, 2, 7, 10}, {{3, 2}, {2, 3}, {0, 0}, {1, 1}, 1, true, false}},
    {{1, 2, 8, 10}, {{3, 3}, {3, 3}, {1, 1}, {1, 1}, 1, true, true}},
    {{1, 2, 8, 10}, {{3, 3}, {3, 3}, {1, 1}, {1, 1}, 1, true, false}},
    {{3, 1, 6, 6}, {{6, 6}, {6, 6}, {0, 0}, {1, 1}, 1, false, false}},
    {{2, 5, 12, 11}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, false, false}},
    {{0, 5, 12, 11}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, false, false}},
    {{1, 2, 5, 6}, {{2, 3}, {1, 2}, {1, 2}, {1, 1}, 1, false, true}}, // more padding than half a window
    {{1, 1, 4, 5}, {{3, 3}, {2, 1}, {2, 2}, {1, 1}, 1, false, false}},
    {{1, 1, 1, 2}, {{2, 2}, {1, 1}, {2, 3}, {3, 3}, 1, false, false}},  // windows of padding alone
    {{1, 2, 9, 75}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, false, false}}, // rows of several vectors, and a rest
    {{1, 2, 11, 79}, {{3, 5}, {2, 2}, {1, 2}, {1, 1}, 1, false, true}},
    {{1, 1, 12, 90}, {{2, 3}, {3, 3}, {1, 1}, {2, 2}, 1, true, false}},
    {{2, 2, 57, 33}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, false, false}}, // as many rows as are done at a time, and more
    {{1, 2, 20, 35}, {{5, 5}, {2, 2}, {3, 4}, {2, 2}, 1, false, false}},
    {{1, 1, 19, 66}, {{4, 4}, {4, 4}, {0, 1}, {1, 1}, 1, true, false}},
    {{1, 1, 9, 31}, {{1, 3}, {1, 2}, {0, 1}, {1, 1}, 1, false, false}},
    // Windows of 2 x 2 side by side: rows shorter and longer than a vector, with and without what belongs to none
    {{2, 3, 10, 10}, {{2, 2}, {2, 2}, {0, 0}, {1, 1}, 1, false, false}},
    {{2, 2, 5, 7}, {{2, 2}, {2, 2}, {0, 0}, {1, 1}, 1, false, false}},
    {{1, 3, 28, 28}, {{2, 2}, {2, 2}, {0, 0}, {1, 1}, 1, false, false}},
    {{2, 2, 9, 37}, {{2, 2}, {2, 2}, {0, 0}, {1, 1}, 1, false, false}},
    {{1, 2, 7, 74}, {{2, 2}, {2, 2}, {0, 0}, {1, 1}, 1, false, false}},
    {{2, 1, 4, 129}, {{2, 2}, {2, 2}, {0, 0}, {1, 1}, 1, false, false}},
    {{3, 1, 2, 3}, {{2, 2}, {2, 2}, {0, 0}, {1, 1}, 1, false, false}},
};
enum { POOL_CASES = sizeof pool_cases / sizeof pool_cases[0] };

static kiln_pool2d_opts pool_opts(const struct window *k)
{
    return (kiln_pool2d_opts){.size = sizeof(kiln_pool2d_opts),
                              .kernel = {k->kernel[0], k->kernel[1]},
                              .stride = {k->stride[0], k->stride[1]},
                              .padding = {k->padding[0], k->padding[1]},
                              .dilation = {k->dilation[0], k->dilation[1]},
                              .ceil_mode = k->ceil_mode,
                              .exclude_padding = k->exclude_padding};
}

enum pool_op { MAX_POOL, MAX_POOL_BACKWARD, AVG_POOL, AVG_POOL_BACKWARD };

static void pool_case(const char *op, enum pool_op what, int i, int dtype, enum host_layout layout)
{
    kiln_scope *scope = kiln_scope_begin();
    const struct window *k = &pool_cases[i].k;
    kiln_pool2d_opts o = pool_opts(k);
    struct host x, dy, scale = {0}, want;
    const int64_t *d = pool_cases[i].dims, yd[] = {d[0], d[1], window_count(k, 0, d[2]), window_count(k, 1, d[3])};
    kiln_tensor *tx = random_tensor(&x, dtype, 4, d, layout, -3, 3), *t;
    // Ties and a NaN for the largest.
    if (what <= MAX_POOL_BACKWARD) {
        for (int64_t j = 0; j < x.n; j++) x.v[j] = rintl(x.v[j]);
        if (x.n > 20 && is_float(dtype)) x.v[17] = NAN;
        if (layout == LAYOUT_EXPANDED) host_repeat_first(&x);
        tx = host_tensor(suite.dev, &x, layout);
    }
    kiln_tensor *tdy = random_tensor(&dy, dtype, 4, yd, LAYOUT_CONTIGUOUS, -1, 1);
    if (what == MAX_POOL)
        want = reference_max_pool(&x, k), t = kiln_max_pool2d(tx, &o);
    else if (what == AVG_POOL)
        want = reference_avg_pool(&x, k, &scale), t = kiln_avg_pool2d(tx, &o);
    else if (what == MAX_POOL_BACKWARD)
        want = reference_max_pool_backward(&x, &dy, k, &scale), t = kiln_max_pool2d_backward(tx, tdy, &o);
    else
        want = reference_avg_pool_backward(&dy, d[2], d[3], k, &scale),
        t = kiln_avg_pool2d_backward(tdy, d[2], d[3], &o);
    char note[24];
    snprintf(note, sizeof note, "case %d", i);
    check_values(t, &want, scale.v ? &scale : NULL, what == MAX_POOL ? 0 : 8, case_text(op, &x, layout, note));
    host_free(&x);
    host_free(&dy);
    host_free(&want);
    host_free(&scale);
    kiln_scope_end(&scope);
}

static void pool(const char *op, enum pool_op what)
{
    for (int dtype = what <= MAX_POOL_BACKWARD ? KILN_U8 : KILN_F16;
         dtype < (what <= MAX_POOL_BACKWARD ? DTYPES : KILN_U16); dtype++)
        for (int i = 0; i < POOL_CASES; i++)
            if (dtype == KILN_F32 || !thinned(i + dtype, 3)) pool_case(op, what, i, dtype, LAYOUT_CONTIGUOUS);
    for (int l = 1; l < LAYOUT_COUNT; l++) pool_case(op, what, 1, KILN_F32, (enum host_layout)l);
}

static void pool_errors(const char *op, kiln_tensor *(*fn)(kiln_tensor *, const kiln_pool2d_opts *), kiln_dtype wrong)
{
    kiln_tensor *x = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(1, 2, 4, 4));
    if (fn(x, KILN_POOL2D(.kernel = {5, 5}))) record_mistake("%s takes a window that does not fit", op);
    expect_error(KILN_E_SHAPE, op, "a window that does not fit");
    if (fn(x, KILN_POOL2D(.kernel = {2, 2}, .padding = {2, 2})))
        record_mistake("%s takes windows of padding alone", op);
    expect_error(KILN_E_ARGUMENT, op, "windows of padding alone");
    if (fn(kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(4, 4)), KILN_POOL2D(.kernel = {2, 2})))
        record_mistake("%s takes a matrix", op);
    expect_error(KILN_E_SHAPE, op, "a matrix");
    if (fn(kiln_ones(suite.dev, wrong, KILN_SHAPE(1, 2, 4, 4)), KILN_POOL2D(.kernel = {2, 2})))
        record_mistake("%s takes %s", op, kiln_dtype_name(wrong));
    expect_error(KILN_E_DTYPE, op, kiln_dtype_name(wrong));
}

void conform_max_pool2d(const char *op)
{
    pool(op, MAX_POOL);
    pool_errors(op, kiln_max_pool2d, KILN_BOOL);
}

void conform_avg_pool2d(const char *op)
{
    pool(op, AVG_POOL);
    pool_errors(op, kiln_avg_pool2d, KILN_I32);
}

void conform_max_pool2d_backward(const char *op)
{
    pool(op, MAX_POOL_BACKWARD);
}

void conform_avg_pool2d_backward(const char *op)
{
    pool(op, AVG_POOL_BACKWARD);
}
