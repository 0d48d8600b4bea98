// Cross entropy and its gradient: hard and soft labels, reductions, smoothing, ignored rows.
#include "conformance/structured.h"
#include <kiln/ops.h>
#include <string.h>

static const struct {
    int rank;
    int64_t dims[4];
    bool soft;
    struct loss o;
    int label_dtype;
} cases[] = {
    {2, {5, 7}, false, {0, 0, false, 0}, KILN_I64},
    {2, {5, 7}, false, {1, 0, false, 0}, KILN_I32},
    {2, {5, 7}, false, {2, 0, false, 0}, KILN_U8},
    {2, {5, 7}, false, {0, 0.1, false, 0}, KILN_I64},
    {2, {6, 4}, false, {0, 0, true, 2}, KILN_I64},
    {2, {6, 4}, false, {1, 0.2, true, 1}, KILN_I32},
    {2, {6, 4}, false, {2, 0, true, -100}, KILN_I64},
    {4, {2, 5, 3, 4}, false, {0, 0, false, 0}, KILN_I64},
    {4, {2, 5, 3, 4}, false, {2, 0.1, true, 0}, KILN_I32},
    {1, {9}, false, {0, 0, false, 0}, KILN_I64},
    {2, {5, 7}, true, {0, 0, false, 0}, 0},
    {2, {5, 7}, true, {2, 0.1, false, 0}, 0},
    {3, {3, 4, 5}, true, {1, 0, false, 0}, 0},
    {2, {4, 1100}, false, {0, 0, false, 0}, KILN_I64},
    {2, {300, 9}, false, {2, 0, false, 0}, KILN_I64},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static struct host labels_of(int i, int dtype)
{
    int rank = 0;
    int64_t dims[4], classes = cases[i].dims[cases[i].rank > 1];
    for (int d = 0; d < cases[i].rank; d++)
        if (cases[i].soft || d != (cases[i].rank > 1)) dims[rank++] = cases[i].dims[d];
    struct host t = host_new(cases[i].soft ? dtype : cases[i].label_dtype, rank, dims);
    if (cases[i].soft)
        host_fill(&t, &structured_random, 0, 0.4);
    else
        for (int64_t k = 0; k < t.n; k++) t.v[k] = (long double)random_below(&structured_random, classes);
    // Some rows are ignored by a label that is no class.
    if (cases[i].o.ignore_index < 0)
        for (int64_t k = 0; k < t.n; k += 2) t.v[k] = cases[i].o.ignore_index;
    return t;
}

static kiln_tensor *call(int i, kiln_tensor *x, kiln_tensor *t, kiln_tensor *dy)
{
    const struct loss *o = &cases[i].o;
    if (dy) return kiln_cross_entropy_backward(x, t, dy, o->reduction, o->smoothing, o->ignore, o->ignore_index);
    kiln_cross_entropy_opts opts = {.size = sizeof opts,
                                    .reduction = o->reduction,
                                    .label_smoothing = o->smoothing,
                                    .ignore = o->ignore,
                                    .ignore_index = o->ignore_index};
    return kiln_cross_entropy(x, t, &opts);
}

static void run(const char *op, int i, int dtype, enum host_layout layout, bool backward)
{
    kiln_scope *scope = kiln_scope_begin();
    struct host x, dy = {0}, t = labels_of(i, dtype);
    kiln_tensor *tx = random_tensor(&x, dtype, cases[i].rank, cases[i].dims, layout, -3, 3), *tdy = NULL;
    struct host value = reference_cross_entropy(&x, &t, &cases[i].o, NULL, dtype), want = value;
    if (backward) {
        tdy = random_tensor(&dy, dtype, value.rank, value.dims, LAYOUT_CONTIGUOUS, -2, 2);
        want = reference_cross_entropy(&x, &t, &cases[i].o, &dy, dtype);
    }
    struct host scale = host_copy(&want);
    // A gradient is dy times a difference of a probability and a target.
    long double size = !backward ? 8 : cases[i].soft ? 2.0L * cases[i].dims[cases[i].rank > 1] : 4;
    for (int64_t k = 0; k < scale.n; k++) scale.v[k] = fabsl(scale.v[k]) + size;
    char note[64];
    snprintf(note, sizeof note, "case %d labels %s", i, kiln_dtype_name((kiln_dtype)t.dtype));
    check_values(call(i, tx, host_tensor(suite.dev, &t, LAYOUT_CONTIGUOUS), tdy), &want, &scale, 8,
                 case_text(op, &x, layout, note));
    if (backward) host_free(&want);
    host_free(&value);
    host_free(&scale);
    host_free(&dy);
    host_free(&x);
    host_free(&t);
    kiln_scope_end(&scope);
}

// A class that is masked by -inf has no part in the loss of another label.
static void run_masked(const char *op, bool backward)
{
    kiln_scope *scope = kiln_scope_begin();
    const float logits[] = {0, -INFINITY, 0, 2, 2, -INFINITY}, half = 0.5f, loss = 0.693147181f;
    const float gradient[] = {-half / 2, 0, half / 2, half / 2, -half / 2, 0};
    kiln_tensor *x = kiln_from_data(suite.dev, KILN_F32, KILN_SHAPE(2, 3), logits);
    kiln_tensor *t = kiln_from_data(suite.dev, KILN_I64, KILN_SHAPE(2), (int64_t[]){0, 1});
    kiln_tensor *one = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE0);
    kiln_tensor *y = backward ? kiln_cross_entropy_backward(x, t, one, 0, 0, false, 0) : kiln_cross_entropy(x, t, NULL);
    struct host got = host_read(y);
    record.cases++;
    const float *want = backward ? gradient : &loss;
    for (int64_t k = 0; no_error("a masked class") && !suite.is_null && k < got.n; k++)
        if (!(fabsl(got.v[k] - (long double)want[k]) < 1e-6L))
            record_mistake("%s: element %d with a masked class is %Lg, not %g", op, (int)k, got.v[k], (double)want[k]);
    host_free(&got);
    kiln_scope_end(&scope);
}

static void run_all(const char *op, bool backward)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++)
        for (int i = 0; i < CASES; i++)
            if (dtype == KILN_F32 || !thinned(i + dtype, 4))
                run(op, i, dtype, (enum host_layout)((i + dtype) % LAYOUT_EXPANDED), backward);
    run_masked(op, backward);
    // A label that is no class.
    kiln_tensor *x = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3)),
                *one = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE0);
    const int64_t wrong[] = {1, 3};
    kiln_tensor *t = kiln_from_data(suite.dev, KILN_I64, KILN_SHAPE(2), wrong);
    kiln_tensor *y = backward ? kiln_cross_entropy_backward(x, t, one, 0, 0, false, 0) : kiln_cross_entropy(x, t, NULL);
    struct host got = host_read(y);
    record.cases++;
    bool fails = !backward && !suite.is_null && !strcmp(suite.device, "cpu");
    if (fails)
        expect_error(KILN_E_ARGUMENT, op, "a label out of range");
    else if (no_error("a label out of range") && !suite.is_null && !isnan(got.v[got.n - 1]))
        record_mistake("%s: a label out of range gives %Lg", op, got.v[got.n - 1]);
    host_free(&got);
    kiln_tensor *three = kiln_zeros(suite.dev, KILN_I64, KILN_SHAPE(3));
    if (backward ? kiln_cross_entropy_backward(x, three, one, 0, 0, false, 0) : kiln_cross_entropy(x, three, NULL))
        record_mistake("%s takes three labels for two rows", op);
    expect_error(KILN_E_SHAPE, op, "labels of another shape");
}

void conform_cross_entropy(const char *op)
{
    run_all(op, false);
}

void conform_cross_entropy_backward(const char *op)
{
    run_all(op, true);
}
