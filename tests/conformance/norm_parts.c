// Normalisation by root mean square and by groups of channels.
#include "conformance/structured.h"
#include <kiln/ops.h>

static const struct {
    int rank;
    int64_t dims[4];
    int n_axes;
    enum host_layout layout;
    bool weight;
    double eps;
} rms_cases[] = {
    {2, {5, 7}, 1, LAYOUT_CONTIGUOUS, true, 0},       {2, {5, 7}, 2, LAYOUT_CONTIGUOUS, false, 0},
    {3, {4, 6, 5}, 2, LAYOUT_TRANSPOSED, true, 1e-3}, {3, {4, 6, 5}, 1, LAYOUT_STEP, false, 0.1},
    {2, {3, 1100}, 1, LAYOUT_CONTIGUOUS, true, 0},    {1, {12}, 1, LAYOUT_NEGATIVE, true, 0},
    {2, {0, 4}, 1, LAYOUT_CONTIGUOUS, true, 0},
};
enum { RMS_CASES = sizeof rms_cases / sizeof rms_cases[0] };

static int64_t row_of(int i)
{
    int64_t n = 1;
    for (int k = rms_cases[i].rank - rms_cases[i].n_axes; k < rms_cases[i].rank; k++) n *= rms_cases[i].dims[k];
    return n;
}

static long double inverse_rms(const long double *x, int64_t n, long double eps)
{
    long double sum = 0;
    for (int64_t k = 0; k < n; k++) sum += x[k] * x[k];
    return 1 / sqrtl(sum / (long double)n + eps);
}

struct rms_data {
    struct host x, w, dy;
    kiln_tensor *tx, *tw, *tdy;
    int64_t n;
    double eps;
};

static void rms_begin(struct rms_data *d, int i, int dtype)
{
    int rank = rms_cases[i].rank, n_axes = rms_cases[i].n_axes;
    const int64_t *dims = rms_cases[i].dims;
    d->n = row_of(i);
    d->eps = rms_cases[i].eps > 0 ? rms_cases[i].eps : 1e-5;
    d->tx = random_tensor(&d->x, dtype, rank, dims, rms_cases[i].layout, -3, 3);
    d->tdy = random_tensor(&d->dy, dtype, rank, dims, LAYOUT_CONTIGUOUS, -1, 1);
    d->tw = random_tensor(&d->w, dtype, n_axes, dims + rank - n_axes, LAYOUT_CONTIGUOUS, 0.5, 2);
    for (int64_t k = 0; k < d->w.n && !rms_cases[i].weight; k++) d->w.v[k] = 1;
    if (!rms_cases[i].weight) d->tw = NULL;
}

static void rms_end(struct rms_data *d, struct host *want)
{
    host_free(&d->x);
    host_free(&d->w);
    host_free(&d->dy);
    host_free(want);
}

void conform_rms_norm(const char *op)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++)
        for (int i = 0; i < RMS_CASES; i++) {
            if (dtype != KILN_F32 && thinned(i + dtype, 3)) continue;
            kiln_scope *scope = kiln_scope_begin();
            struct rms_data d;
            rms_begin(&d, i, dtype);
            struct host want = host_new(dtype, d.x.rank, d.x.dims);
            for (int64_t at = 0; at < d.x.n; at++) {
                const long double *row = d.x.v + at / d.n * d.n;
                want.v[at] = d.x.v[at] * inverse_rms(row, d.n, d.eps) * d.w.v[at % d.n];
            }
            kiln_tensor *y =
                kiln_rms_norm(d.tx, rms_cases[i].n_axes, KILN_RMS_NORM(.weight = d.tw, .eps = rms_cases[i].eps));
            check_values(y, &want, NULL, 16, case_text(op, &d.x, rms_cases[i].layout, ""));
            rms_end(&d, &want);
            kiln_scope_end(&scope);
        }
    kiln_tensor *m = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3)),
                *w = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2));
    if (kiln_rms_norm(m, 3, NULL)) record_mistake("rms_norm over 3 axes of a matrix");
    expect_error(KILN_E_AXIS, op, "too many axes");
    if (kiln_rms_norm(m, 1, KILN_RMS_NORM(.weight = w))) record_mistake("rms_norm with a weight of another shape");
    expect_error(KILN_E_SHAPE, op, "a weight of another shape");
}

// By the Jacobian: d y_j / d x_i = w_j (r [i == j] - x_i x_j r^3 / n).
void conform_rms_norm_backward(const char *op)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++)
        for (int i = 0; i < RMS_CASES; i++) {
            if (row_of(i) > 1000 || (dtype != KILN_F32 && thinned(i + dtype, 3))) continue;
            kiln_scope *scope = kiln_scope_begin();
            struct rms_data d;
            rms_begin(&d, i, dtype);
            struct host want = host_new(dtype, d.x.rank, d.x.dims), scale = host_new(dtype, d.x.rank, d.x.dims);
            for (int64_t at = 0; at < d.x.n; at++) {
                int64_t row = at / d.n * d.n;
                long double r = inverse_rms(d.x.v + row, d.n, d.eps);
                for (int64_t j = 0; j < d.n; j++) {
                    long double slope = (row + j == at ? r : 0) - d.x.v[at] * d.x.v[row + j] * r * r * r / d.n;
                    want.v[at] += d.dy.v[row + j] * d.w.v[j] * slope;
                    scale.v[at] += fabsl(d.dy.v[row + j] * d.w.v[j] * slope);
                }
            }
            kiln_tensor *w = d.tw ? d.tw : kiln_ones(suite.dev, (kiln_dtype)dtype, KILN_SHAPE0);
            check_values(kiln_rms_norm_backward(d.tx, w, d.tdy, rms_cases[i].n_axes, d.eps), &want, &scale, 16,
                         case_text(op, &d.x, rms_cases[i].layout, ""));
            host_free(&scale);
            rms_end(&d, &want);
            kiln_scope_end(&scope);
        }
}

static const struct group_case {
    int rank;
    int64_t dims[4], groups;
    enum host_layout layout;
    bool weight, bias;
    double eps;
} group_cases[] = {
    {4, {2, 6, 3, 2}, 3, LAYOUT_CONTIGUOUS, true, true, 0},   {4, {2, 6, 3, 2}, 6, LAYOUT_ROTATED, true, false, 0},
    {3, {3, 4, 5}, 1, LAYOUT_TRANSPOSED, false, true, 0.1},   {2, {3, 8}, 2, LAYOUT_STEP, true, true, 1e-3},
    {4, {2, 4, 16, 17}, 2, LAYOUT_CONTIGUOUS, true, true, 0}, {3, {0, 4, 5}, 2, LAYOUT_CONTIGUOUS, true, true, 0},
    {3, {2, 4, 300}, 2, LAYOUT_NEGATIVE, false, false, 0},
};

// Sets of consecutive elements: channels / groups channels of one sample.
static struct host group_reference(const struct group_case *c, const struct host *x, const struct host *w,
                                   const struct host *b)
{
    struct host out = host_new(x->dtype, x->rank, x->dims);
    int64_t each = x->n ? x->n / (x->dims[0] * x->dims[1]) : 0, members = x->dims[1] / c->groups * each;
    long double eps = c->eps > 0 ? c->eps : 1e-5;
    for (int64_t first = 0; first < x->n; first += members) {
        long double mean = 0, var = 0;
        for (int64_t k = first; k < first + members; k++) mean += x->v[k] / members;
        for (int64_t k = first; k < first + members; k++) var += (x->v[k] - mean) * (x->v[k] - mean) / members;
        for (int64_t k = first; k < first + members; k++) {
            int64_t channel = k / each % x->dims[1];
            out.v[k] =
                (x->v[k] - mean) / sqrtl(var + eps) * (c->weight ? w->v[channel] : 1) + (c->bias ? b->v[channel] : 0);
        }
    }
    return out;
}

static void group_case(const char *op, const struct group_case *c, int dtype)
{
    kiln_scope *scope = kiln_scope_begin();
    struct host x, w, b;
    kiln_tensor *tx = random_tensor(&x, dtype, c->rank, c->dims, c->layout, -3, 3);
    kiln_tensor *tw = random_tensor(&w, dtype, 1, &c->dims[1], LAYOUT_CONTIGUOUS, 0.5, 2);
    kiln_tensor *tb = random_tensor(&b, dtype, 1, &c->dims[1], LAYOUT_CONTIGUOUS, -2, 2);
    struct host want = group_reference(c, &x, &w, &b), scale = host_copy(&want);
    for (int64_t i = 0; i < scale.n; i++) scale.v[i] = fabsl(scale.v[i]) + 4; // the bias may cancel
    kiln_tensor *y = kiln_group_norm(
        tx, c->groups, KILN_GROUP_NORM(.weight = c->weight ? tw : NULL, .bias = c->bias ? tb : NULL, .eps = c->eps));
    check_values(y, &want, &scale, 16, case_text(op, &x, c->layout, ""));
    host_free(&x);
    host_free(&w);
    host_free(&b);
    host_free(&want);
    host_free(&scale);
    kiln_scope_end(&scope);
}

void conform_group_norm(const char *op)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++)
        for (size_t i = 0; i < sizeof group_cases / sizeof group_cases[0]; i++)
            if (dtype == KILN_F32 || !thinned((int)i + dtype, 3)) group_case(op, &group_cases[i], dtype);
    kiln_tensor *x = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 6)),
                *w = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2));
    if (kiln_group_norm(x, 4, NULL)) record_mistake("group_norm of 4 groups of 6 channels");
    expect_error(KILN_E_SHAPE, op, "groups that do not divide");
    if (kiln_group_norm(x, 0, NULL)) record_mistake("group_norm of no groups");
    expect_error(KILN_E_ARGUMENT, op, "no groups");
    if (kiln_group_norm(x, 2, KILN_GROUP_NORM(.weight = w))) record_mistake("group_norm with a weight a group");
    expect_error(KILN_E_SHAPE, op, "a weight of another shape");
    if (kiln_group_norm(w, 1, NULL)) record_mistake("group_norm of a vector");
    expect_error(KILN_E_SHAPE, op, "a vector");
}
