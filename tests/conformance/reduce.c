// Reductions: all, one, several, no axes; rows short and long, along memory and across it; empty ones; NaN and ties.
#include "conformance/structured.h"
#include <kiln/ops.h>

typedef kiln_tensor *(*reduce_fn)(kiln_tensor *, const kiln_reduce_opts *);

struct reducer {
    const char *op;
    enum reduction what;
    reduce_fn fn;
    double param, low, high, k;
};

struct shape_case {
    int rank;
    int64_t dims[4];
    size_t n_axes;
    int64_t axes[3];
    bool keepdims;
    enum host_layout layout;
};

static const struct shape_case shapes[] = {
    {2, {5, 7}, 0, {0}, false, LAYOUT_CONTIGUOUS},
    {2, {5, 7}, 1, {1}, false, LAYOUT_CONTIGUOUS},
    {2, {5, 7}, 1, {0}, true, LAYOUT_CONTIGUOUS},
    {2, {5, 7}, 1, {-2}, false, LAYOUT_TRANSPOSED},
    {2, {5, 7}, 2, {0, -1}, true, LAYOUT_CONTIGUOUS},
    {3, {4, 3, 5}, 2, {0, 2}, false, LAYOUT_CONTIGUOUS},
    {3, {4, 3, 5}, 1, {1}, true, LAYOUT_STEP},
    {3, {4, 3, 5}, 2, {2, 1}, false, LAYOUT_ROTATED},
    {4, {2, 3, 4, 5}, 2, {1, 3}, false, LAYOUT_NEGATIVE},
    {2, {3, 300}, 1, {1}, false, LAYOUT_CONTIGUOUS},
    {3, {17, 3, 1100}, 1, {1}, false, LAYOUT_CONTIGUOUS},
    {2, {300, 3}, 1, {0}, false, LAYOUT_CONTIGUOUS},
    {2, {2, 1500}, 1, {1}, false, LAYOUT_OFFSET},
    {2, {70, 65}, 1, {0}, false, LAYOUT_CONTIGUOUS},
    {2, {4, 6}, 1, {0}, false, LAYOUT_EXPANDED},
    {1, {1}, 0, {0}, false, LAYOUT_CONTIGUOUS},
    {1, {5000}, 0, {0}, false, LAYOUT_CONTIGUOUS},
    {0, {0}, 0, {0}, false, LAYOUT_CONTIGUOUS},
    {2, {1, 6}, 1, {0}, false, LAYOUT_CONTIGUOUS},
    {2, {2, 60000}, 1, {1}, false, LAYOUT_CONTIGUOUS},
    {2, {60000, 2}, 1, {0}, false, LAYOUT_CONTIGUOUS},
    {1, {200000}, 0, {0}, false, LAYOUT_CONTIGUOUS},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static bool is_arg(const struct reducer *r)
{
    return r->what == RED_ARGMAX || r->what == RED_ARGMIN;
}

static bool is_extremum(const struct reducer *r)
{
    return is_arg(r) || r->what == RED_MAX || r->what == RED_MIN;
}

static int result_dtype(const struct reducer *r, int dtype)
{
    switch (r->what) {
    case RED_SUM:
    case RED_PROD: return is_float(dtype) || dtype == KILN_U64 ? dtype : KILN_I64;
    case RED_MAX:
    case RED_MIN: return dtype;
    case RED_ANY:
    case RED_ALL: return KILN_BOOL;
    case RED_ARGMAX:
    case RED_ARGMIN: return KILN_I64;
    default: return float_result(dtype);
    }
}

static kiln_tensor *call(const struct reducer *r, kiln_tensor *x, const struct shape_case *s)
{
    kiln_ints axes = {s->n_axes, s->axes};
    if (r->what == RED_VAR || r->what == RED_STD) {
        kiln_var_opts o = {.size = sizeof o, .axes = axes, .keepdims = s->keepdims, .correction = r->param};
        return r->what == RED_VAR ? kiln_var(x, &o) : kiln_std(x, &o);
    }
    if (r->what == RED_NORM) {
        kiln_norm_opts o = {
            .size = sizeof o, .axes = axes, .keepdims = s->keepdims, .ord = r->param == 0 ? KILN_ZERO : r->param};
        return kiln_norm(x, &o);
    }
    kiln_reduce_opts o = {.size = sizeof o, .axes = axes, .keepdims = s->keepdims};
    return r->fn(x, s->n_axes || s->keepdims ? &o : NULL);
}

static uint32_t mask_of(const struct shape_case *s)
{
    uint32_t mask = 0;
    for (size_t i = 0; i < s->n_axes; i++) mask |= 1u << (s->axes[i] < 0 ? s->axes[i] + s->rank : s->axes[i]);
    return s->n_axes ? mask : (1u << s->rank) - 1;
}

static double rounding_units(const struct reducer *r, const struct shape_case *s)
{
    double n = 1;
    for (int i = 0; i < s->rank; i++)
        if (mask_of(s) >> i & 1) n *= (double)s->dims[i];
    // A product rounds at each factor; sums are cut into parts, so that their errors grow far slower than their length.
    return r->what == RED_PROD ? n : is_extremum(r) || r->what == RED_ANY || r->what == RED_ALL ? 0 : r->k;
}

static void run(const struct reducer *r, const struct host *x, const struct shape_case *s, const char *note)
{
    kiln_scope *scope = kiln_scope_begin();
    struct host scale;
    struct host want =
        reference_reduce(x, r->what, mask_of(s), s->keepdims, r->param, result_dtype(r, x->dtype), &scale);
    kiln_tensor *t = host_tensor(suite.dev, x, s->layout);
    check_values(t ? call(r, t, s) : NULL, &want, &scale, rounding_units(r, s), case_text(r->op, x, s->layout, note));
    host_free(&want);
    host_free(&scale);
    kiln_scope_end(&scope);
}

static void run_shapes(const struct reducer *r, int dtype)
{
    for (int i = 0; i < SHAPES; i++) {
        const struct shape_case *s = &shapes[i];
        if (is_arg(r) && s->n_axes > 1) continue;
        if (dtype != KILN_F32 && thinned(i + dtype + (int)r->what, 11)) continue;
        // A product of thousands of factors leaves the range of the dtype.
        if (s->rank && s->dims[0] * (s->rank > 1 ? s->dims[1] : 1) > 10000 && dtype != KILN_F32 && dtype != KILN_U8)
            continue;
        if (r->what == RED_PROD && s->rank && s->dims[s->rank - 1] > 100) continue;
        struct host x = host_new(dtype, s->rank, s->dims);
        host_fill(&x, &structured_random, r->low, r->high);
        // Mostly zeros for any, mostly ones for all, so that both answers occur.
        if (r->what == RED_ANY || r->what == RED_ALL)
            for (int64_t k = 0; k < x.n; k++)
                x.v[k] = random_below(&structured_random, 5) == 0 ? r->what == RED_ANY : r->what == RED_ALL;
        if (s->layout == LAYOUT_EXPANDED) host_repeat_first(&x);
        run(r, &x, s, s->n_axes ? "axes" : "all axes");
        host_free(&x);
    }
}

static void run_special(const struct reducer *r, int dtype)
{
    static const struct shape_case s = {2, {3, 40}, 1, {1}, false, LAYOUT_CONTIGUOUS};
    static const struct shape_case across = {2, {40, 3}, 1, {0}, false, LAYOUT_CONTIGUOUS};
    for (int turn = 0; turn < 4; turn++) {
        const struct shape_case *c = turn & 1 ? &across : &s;
        struct host x = host_new(dtype, c->rank, c->dims);
        host_fill(&x, &structured_random, r->low, r->high);
        for (int64_t k = 0; k < x.n; k++) {
            int64_t which = random_below(&structured_random, 40);
            if (turn < 2 && which < 2)
                x.v[k] = NAN;
            else if (turn >= 2 && which < 2)
                x.v[k] = which ? INFINITY : -INFINITY;
        }
        // Sums of infinities of both signs are NaN in any order; the rest has one answer as well.
        run(r, &x, c, turn < 2 ? "with NaN" : "with infinities");
        host_free(&x);
    }
}

// Columns of equal numbers, infinities and NaN, each column of another mix, in as many positions as go together and
// more. The first of equals wins, and the first NaN of all.
static void run_columns(const struct reducer *r, int dtype)
{
    static const int64_t positions[] = {7, 8, 17, 70}, columns[] = {5, 16, 37, 531};
    for (int i = 0; i < 16; i++) {
        struct shape_case c = {2, {positions[i / 4], columns[i % 4]}, 1, {0}, false, LAYOUT_CONTIGUOUS};
        if (thinned(i, 3)) continue;
        struct host x = host_new(dtype, 2, c.dims);
        for (int64_t k = 0; k < x.n; k++) {
            int64_t which = random_below(&structured_random, 16), most = k % c.dims[1] % 8;
            x.v[k] = which < most ? which == 0 ? NAN : which < 3 ? INFINITY : -INFINITY : (long double)(which % 3);
        }
        run(r, &x, &c, "columns with NaN");
        host_free(&x);
    }
}

// Long rows, some with a NaN.
static void run_rows(const struct reducer *r, int dtype)
{
    static const struct shape_case c = {2, {40, 1300}, 1, {1}, false, LAYOUT_CONTIGUOUS};
    struct host x = host_new(dtype, 2, c.dims);
    host_fill(&x, &structured_random, r->low, r->high);
    for (int64_t k = 0; k < x.n; k++)
        if (random_below(&structured_random, 2000) == 0) x.v[k] = NAN;
    run(r, &x, &c, "rows with NaN");
    host_free(&x);
}

static void run_empty(const struct reducer *r, int dtype)
{
    static const struct shape_case empties[] = {{1, {0}, 0, {0}, false, LAYOUT_CONTIGUOUS},
                                                {2, {4, 0}, 1, {1}, false, LAYOUT_CONTIGUOUS},
                                                {2, {0, 3}, 1, {0}, true, LAYOUT_CONTIGUOUS}};
    static const struct shape_case nothing = {2, {0, 3}, 1, {1}, false, LAYOUT_CONTIGUOUS};
    for (size_t i = 0; i < 3; i++) {
        struct host x = host_new(dtype, empties[i].rank, empties[i].dims);
        if (is_extremum(r)) {
            if (call(r, host_tensor(suite.dev, &x, LAYOUT_CONTIGUOUS), &empties[i]))
                record_mistake("%s of nothing has a value", r->op);
            expect_error(KILN_E_SHAPE, r->op, "a row without elements");
        } else
            run(r, &x, &empties[i], "empty row");
        host_free(&x);
    }
    struct host x = host_new(dtype, nothing.rank, nothing.dims);
    run(r, &x, &nothing, "no rows");
    host_free(&x);
}

static void run_errors(const struct reducer *r)
{
    static const struct shape_case outside = {2, {2, 3}, 1, {2}, false, LAYOUT_CONTIGUOUS};
    static const struct shape_case twice = {2, {2, 3}, 2, {1, -1}, false, LAYOUT_CONTIGUOUS};
    kiln_tensor *x = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3));
    if (call(r, x, &outside)) record_mistake("%s takes axis 2 of a matrix", r->op);
    expect_error(KILN_E_AXIS, r->op, "an axis out of range");
    if (call(r, x, &twice)) record_mistake("%s takes an axis twice", r->op);
    expect_error(KILN_E_AXIS, r->op, "an axis named twice");
    if (call(r, NULL, &outside)) record_mistake("%s takes NULL", r->op);
    expect_error(KILN_E_ARGUMENT, r->op, "NULL");
}

static void reduce(const struct reducer *r)
{
    for (int dtype = 0; dtype < DTYPES; dtype++) {
        run_shapes(r, dtype);
        if (is_float(dtype)) run_special(r, dtype);
        if (is_float(dtype) && is_extremum(r)) run_columns(r, dtype), run_rows(r, dtype);
        if (dtype == KILN_F32 || dtype == KILN_I16) run_empty(r, dtype);
    }
    run_errors(r);
}

#define REDUCER(name, what, low, high, k)                                  \
    void conform_##name(const char *op)                                    \
    {                                                                      \
        reduce(&(struct reducer){op, what, kiln_##name, 0, low, high, k}); \
    }
REDUCER(sum, RED_SUM, -3, 3, 8)
REDUCER(prod, RED_PROD, -1.4, 1.6, 0)
REDUCER(mean, RED_MEAN, -3, 3, 8)
REDUCER(max, RED_MAX, -9, 9, 0)
REDUCER(min, RED_MIN, -9, 9, 0)
REDUCER(any, RED_ANY, 0, 1, 0)
REDUCER(all, RED_ALL, 0, 1, 0)
REDUCER(argmax, RED_ARGMAX, -9, 9, 0)
REDUCER(argmin, RED_ARGMIN, -9, 9, 0)
REDUCER(logsumexp, RED_LOGSUMEXP, -3, 3, 16)

void conform_var(const char *op)
{
    reduce(&(struct reducer){op, RED_VAR, NULL, 0, -3, 3, 256});
    reduce(&(struct reducer){op, RED_VAR, NULL, 1, -3, 3, 256});
}

void conform_std(const char *op)
{
    reduce(&(struct reducer){op, RED_STD, NULL, 0, -3, 3, 256});
    reduce(&(struct reducer){op, RED_STD, NULL, 1, -3, 3, 256});
}

void conform_norm(const char *op)
{
    const double orders[] = {1, 2, INFINITY, 3, 0.5, 0, -INFINITY, -2};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++)
        reduce(&(struct reducer){op, RED_NORM, NULL, orders[i], -3, 3, 256});
}
