// Softmax and normalisation.
#include "conformance/structured.h"
#include <kiln/ops.h>
#include <string.h>

typedef kiln_tensor *(*axis_fn)(kiln_tensor *, int64_t);
typedef kiln_tensor *(*axis_backward_fn)(kiln_tensor *, kiln_tensor *, int64_t);

static const struct {
    int rank;
    int64_t dims[4];
    int64_t axis;
    enum host_layout layout;
} shapes[] = {
    {2, {5, 7}, 1, LAYOUT_CONTIGUOUS},     {2, {5, 7}, 0, LAYOUT_CONTIGUOUS}, {2, {5, 7}, -1, LAYOUT_TRANSPOSED},
    {3, {4, 6, 5}, 1, LAYOUT_CONTIGUOUS},  {1, {9}, 0, LAYOUT_NEGATIVE},      {2, {3, 1500}, 1, LAYOUT_CONTIGUOUS},
    {2, {300, 3}, 0, LAYOUT_CONTIGUOUS},   {2, {4, 1}, 1, LAYOUT_CONTIGUOUS}, {2, {0, 4}, 1, LAYOUT_CONTIGUOUS},
    {4, {2, 3, 4, 5}, -3, LAYOUT_ROTATED}, {2, {33, 64}, 1, LAYOUT_STEP},     {2, {6, 4}, 1, LAYOUT_EXPANDED},
    {2, {2, 5000}, 1, LAYOUT_OFFSET},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static int axis_of(int64_t axis, int rank)
{
    return (int)(axis < 0 ? axis + rank : axis);
}

static void softmax_case(const char *op, axis_fn fn, bool log, int i, int dtype, double size)
{
    kiln_scope *scope = kiln_scope_begin();
    struct host x;
    kiln_tensor *t = random_tensor(&x, dtype, shapes[i].rank, shapes[i].dims, shapes[i].layout, -size, size);
    struct host want = reference_softmax(&x, axis_of(shapes[i].axis, x.rank), log, float_result(dtype)),
                scale = host_copy(&want);
    // Of a logarithm: the largest exponent is what was subtracted.
    for (int64_t k = 0; k < scale.n; k++)
        scale.v[k] =
            log ? fmaxl(1, fabsl(scale.v[k])) + (long double)size : fabsl(scale.v[k]) * (1 + (long double)size);
    check_values(fn(t, shapes[i].axis), &want, &scale, 16, case_text(op, &x, shapes[i].layout, ""));
    host_free(&x);
    host_free(&want);
    host_free(&scale);
    kiln_scope_end(&scope);
}

static void softmax(const char *op, axis_fn fn, bool log)
{
    for (int dtype = 0; dtype < DTYPES; dtype++)
        for (int i = 0; i < SHAPES; i++)
            if (dtype == KILN_F32 || !thinned(i + dtype, 5)) softmax_case(op, fn, log, i, dtype, 4);
    softmax_case(op, fn, log, 0, KILN_F32, 80);
    softmax_case(op, fn, log, 0, KILN_F64, 700);
    struct host x = host_new(KILN_F32, 2, (const int64_t[]){3, 4});
    for (int i = 0; i < 12; i++) x.v[i] = i % 5 - 2;
    x.v[1] = -INFINITY, x.v[6] = NAN, x.v[9] = 3e38L;
    struct host want = reference_softmax(&x, 1, log, KILN_F32);
    for (int i = 0; i < 12; i++) want.v[i] = quantized(KILN_F32, want.v[i]);
    check_values(fn(host_tensor(suite.dev, &x, LAYOUT_CONTIGUOUS), 1), &want, NULL, 16, "with infinities and NaN");
    host_free(&x);
    host_free(&want);
    kiln_tensor *m = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3));
    if (fn(m, 2)) record_mistake("%s takes axis 2 of a matrix", op);
    expect_error(KILN_E_AXIS, op, "an axis out of range");
    if (fn(NULL, 0)) record_mistake("%s takes NULL", op);
    expect_error(KILN_E_ARGUMENT, op, "NULL");
}

void conform_softmax(const char *op)
{
    softmax(op, kiln_softmax, false);
}

void conform_log_softmax(const char *op)
{
    softmax(op, kiln_log_softmax, true);
}

static void softmax_backward(const char *op, axis_backward_fn fn, bool log)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++)
        for (int i = 0; i < SHAPES; i++) {
            if (shapes[i].rank && shapes[i].dims[shapes[i].rank - 1] > 2000) continue;
            if (dtype != KILN_F32 && thinned(i + dtype, 4)) continue;
            kiln_scope *scope = kiln_scope_begin();
            struct host y, dy, scale;
            kiln_tensor *t =
                random_tensor(&y, dtype, shapes[i].rank, shapes[i].dims, shapes[i].layout, log ? -4 : 0, log ? 0 : 1);
            kiln_tensor *d = random_tensor(&dy, dtype, shapes[i].rank, shapes[i].dims, LAYOUT_CONTIGUOUS, -3, 3);
            struct host want = reference_softmax_backward(&y, &dy, axis_of(shapes[i].axis, y.rank), log, dtype, &scale);
            check_values(fn(t, d, shapes[i].axis), &want, &scale, 16, case_text(op, &y, shapes[i].layout, ""));
            host_free(&y);
            host_free(&dy);
            host_free(&want);
            host_free(&scale);
            kiln_scope_end(&scope);
        }
    kiln_tensor *m = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3)),
                *n = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3, 2));
    if (fn(m, n, 0)) record_mistake("%s takes two shapes", op);
    expect_error(KILN_E_SHAPE, op, "two shapes");
}

void conform_softmax_backward(const char *op)
{
    softmax_backward(op, kiln_softmax_backward, false);
}

void conform_log_softmax_backward(const char *op)
{
    softmax_backward(op, kiln_log_softmax_backward, true);
}

// --- normalisation

struct norm_case {
    int rank;
    int64_t dims[4];
    int n_axes; // 0: channels
    enum host_layout layout;
    bool weight, bias;
    double eps;
};

static const struct norm_case layer_cases[] = {
    {2, {5, 7}, 1, LAYOUT_CONTIGUOUS, true, true, 0},        {2, {5, 7}, 2, LAYOUT_CONTIGUOUS, false, false, 0},
    {3, {4, 6, 5}, 2, LAYOUT_TRANSPOSED, true, false, 1e-3}, {3, {4, 6, 5}, 1, LAYOUT_STEP, false, true, 0.1},
    {2, {3, 1100}, 1, LAYOUT_CONTIGUOUS, true, true, 0},     {1, {12}, 1, LAYOUT_NEGATIVE, true, true, 0},
    {2, {0, 4}, 1, LAYOUT_CONTIGUOUS, true, true, 0},
};
static const struct norm_case batch_cases[] = {
    {4, {3, 4, 5, 2}, 0, LAYOUT_CONTIGUOUS, true, true, 0},  {2, {9, 6}, 0, LAYOUT_CONTIGUOUS, false, false, 0},
    {3, {4, 6, 5}, 0, LAYOUT_TRANSPOSED, true, false, 1e-3}, {4, {2, 3, 16, 17}, 0, LAYOUT_CONTIGUOUS, true, true, 0},
    {4, {3, 4, 5, 2}, 0, LAYOUT_ROTATED, false, true, 0.1},
};

struct norm_data {
    struct host x, w, b, dy;
    kiln_tensor *tx, *tw, *tb, *tdy;
    struct normed n;
};

static void norm_begin(struct norm_data *d, const struct norm_case *c, int dtype)
{
    int64_t sets = 1, members = 1;
    memset(d, 0, sizeof *d);
    d->tx = random_tensor(&d->x, dtype, c->rank, c->dims, c->layout, -3, 3);
    d->tdy = random_tensor(&d->dy, dtype, c->rank, c->dims, LAYOUT_CONTIGUOUS, -1, 1);
    for (int i = 0; i < c->rank; i++)
        if (c->n_axes ? i < c->rank - c->n_axes : i == (c->rank > 1))
            sets *= c->dims[i];
        else
            members *= c->dims[i];
    const int64_t *affine_dims = c->n_axes ? c->dims + c->rank - c->n_axes : &sets;
    if (c->weight)
        d->tw = random_tensor(&d->w, dtype, c->n_axes ? c->n_axes : 1, affine_dims, LAYOUT_CONTIGUOUS, 0.5, 2);
    if (c->bias) d->tb = random_tensor(&d->b, dtype, c->n_axes ? c->n_axes : 1, affine_dims, LAYOUT_CONTIGUOUS, -2, 2);
    d->n = (struct normed){&d->x,
                           sets,
                           members,
                           c->n_axes == 0,
                           c->weight ? &d->w : NULL,
                           c->bias ? &d->b : NULL,
                           c->eps > 0 ? c->eps : 1e-5};
}

static void norm_end(struct norm_data *d)
{
    host_free(&d->x);
    host_free(&d->w);
    host_free(&d->b);
    host_free(&d->dy);
}

// Results are of the size of the weight; the bias may cancel them.
static struct host sized(const struct host *want, long double size)
{
    struct host s = host_copy(want);
    for (int64_t i = 0; i < s.n; i++) s.v[i] = fabsl(s.v[i]) + size;
    return s;
}

void conform_layer_norm(const char *op)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++)
        for (size_t i = 0; i < sizeof layer_cases / sizeof layer_cases[0]; i++) {
            const struct norm_case *c = &layer_cases[i];
            if (dtype != KILN_F32 && thinned((int)i + dtype, 3)) continue;
            kiln_scope *scope = kiln_scope_begin();
            struct norm_data d;
            norm_begin(&d, c, dtype);
            struct host want = reference_norm(&d.n, dtype, NULL, NULL), scale = sized(&want, 4);
            kiln_tensor *y =
                kiln_layer_norm(d.tx, c->n_axes, KILN_LAYER_NORM(.weight = d.tw, .bias = d.tb, .eps = c->eps));
            check_values(y, &want, &scale, 16, case_text(op, &d.x, c->layout, ""));
            host_free(&want);
            host_free(&scale);
            norm_end(&d);
            kiln_scope_end(&scope);
        }
    kiln_tensor *m = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3)),
                *w = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2));
    if (kiln_layer_norm(m, 0, NULL)) record_mistake("layer_norm over no axes");
    expect_error(KILN_E_AXIS, op, "no axes");
    if (kiln_layer_norm(m, 3, NULL)) record_mistake("layer_norm over 3 axes of a matrix");
    expect_error(KILN_E_AXIS, op, "too many axes");
    if (kiln_layer_norm(m, 1, KILN_LAYER_NORM(.weight = w)))
        record_mistake("layer_norm with a weight of another shape");
    expect_error(KILN_E_SHAPE, op, "a weight of another shape");
}

void conform_layer_norm_backward(const char *op)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++)
        for (size_t i = 0; i < sizeof layer_cases / sizeof layer_cases[0]; i++) {
            const struct norm_case *c = &layer_cases[i];
            if (c->dims[1] > 1000 || (dtype != KILN_F32 && thinned((int)i + dtype, 3))) continue;
            kiln_scope *scope = kiln_scope_begin();
            struct norm_data d;
            norm_begin(&d, c, dtype);
            struct host scale, want = reference_norm_backward(&d.n, &d.dy, dtype, &scale);
            kiln_tensor *w = d.tw ? d.tw : kiln_ones(suite.dev, (kiln_dtype)dtype, KILN_SHAPE0);
            check_values(kiln_layer_norm_backward(d.tx, w, d.tdy, c->n_axes, d.n.eps), &want, &scale, 16,
                         case_text(op, &d.x, c->layout, ""));
            host_free(&want);
            host_free(&scale);
            norm_end(&d);
            kiln_scope_end(&scope);
        }
}

void conform_batch_norm_train(const char *op)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++)
        for (size_t i = 0; i < sizeof batch_cases / sizeof batch_cases[0]; i++) {
            const struct norm_case *c = &batch_cases[i];
            if (dtype != KILN_F32 && thinned((int)i + dtype, 3)) continue;
            kiln_scope *scope = kiln_scope_begin();
            struct norm_data d;
            struct host mean, var;
            norm_begin(&d, c, dtype);
            struct host want = reference_norm(&d.n, dtype, &mean, &var), scale = sized(&want, 4),
                        three = sized(&mean, 3);
            kiln_tensor *y = NULL, *m = NULL, *v = NULL;
            kiln_batch_norm_train(d.tx, KILN_BATCH_NORM(.weight = d.tw, .bias = d.tb, .eps = c->eps), &y, &m, &v);
            const char *text = case_text(op, &d.x, c->layout, "");
            // 16-bit statistics are rounded before y is made from them.
            bool narrow = dtype == KILN_F16 || dtype == KILN_BF16;
            check_values(y, &want, &scale, narrow ? scalbn(4, 24 - fraction_bits(dtype)) : 32, text);
            check_values(m, &mean, &three, 8, text);
            check_values(v, &var, NULL, 32, text);
            host_free(&want);
            host_free(&scale);
            host_free(&three);
            host_free(&mean);
            host_free(&var);
            norm_end(&d);
            kiln_scope_end(&scope);
        }
    kiln_tensor *y;
    kiln_batch_norm_train(kiln_ones(suite.dev, KILN_F32, KILN_SHAPE0), NULL, &y, NULL, NULL);
    expect_error(KILN_E_SHAPE, op, "a scalar");
}

void conform_batch_norm(const char *op)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++)
        for (size_t i = 0; i < sizeof batch_cases / sizeof batch_cases[0]; i++) {
            const struct norm_case *c = &batch_cases[i];
            if (dtype != KILN_F32 && thinned((int)i + dtype, 3)) continue;
            kiln_scope *scope = kiln_scope_begin();
            struct norm_data d;
            struct host mean, var, want;
            norm_begin(&d, c, dtype);
            kiln_tensor *m = random_tensor(&mean, dtype, 1, &d.n.sets, LAYOUT_CONTIGUOUS, -1, 1);
            kiln_tensor *v = random_tensor(&var, dtype, 1, &d.n.sets, LAYOUT_CONTIGUOUS, 0.2, 4);
            want = host_new(dtype, d.x.rank, d.x.dims);
            for (int64_t s = 0; s < d.n.sets; s++)
                for (int64_t k = 0; k < d.n.members; k++) {
                    int64_t at = normed_at(&d.n, s, k);
                    want.v[at] = (d.x.v[at] - mean.v[s]) / sqrtl(var.v[s] + d.n.eps) * (c->weight ? d.w.v[s] : 1) +
                                 (c->bias ? d.b.v[s] : 0);
                }
            struct host scale = sized(&want, 8);
            kiln_tensor *y = kiln_batch_norm(d.tx, m, v, KILN_BATCH_NORM(.weight = d.tw, .bias = d.tb, .eps = c->eps));
            check_values(y, &want, &scale, 16, case_text(op, &d.x, c->layout, ""));
            host_free(&want);
            host_free(&scale);
            host_free(&mean);
            host_free(&var);
            norm_end(&d);
            kiln_scope_end(&scope);
        }
    kiln_tensor *x = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3)),
                *two = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2));
    if (kiln_batch_norm(x, two, two, NULL)) record_mistake("batch_norm with two means for three channels");
    expect_error(KILN_E_SHAPE, op, "statistics of another size");
}

void conform_batch_norm_backward(const char *op)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++)
        for (size_t i = 0; i < sizeof batch_cases / sizeof batch_cases[0]; i++) {
            const struct norm_case *c = &batch_cases[i];
            if (dtype != KILN_F32 && thinned((int)i + dtype, 3)) continue;
            kiln_scope *scope = kiln_scope_begin();
            struct norm_data d;
            norm_begin(&d, c, dtype);
            struct host scale, want = reference_norm_backward(&d.n, &d.dy, dtype, &scale);
            kiln_tensor *w = d.tw ? d.tw : kiln_ones(suite.dev, (kiln_dtype)dtype, KILN_SHAPE0);
            check_values(kiln_batch_norm_backward(d.tx, w, d.tdy, d.n.eps), &want, &scale, 16,
                         case_text(op, &d.x, c->layout, ""));
            host_free(&want);
            host_free(&scale);
            norm_end(&d);
            kiln_scope_end(&scope);
        }
}
