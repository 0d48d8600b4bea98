// A part of an axis at a place that is a tensor: slice_at, update_at.
#include "conformance/structured.h"
#include <kiln/ops.h>

static const int dtypes[] = {KILN_F32, KILN_BOOL, KILN_I16, KILN_F64, KILN_BF16,
                             KILN_U8,  KILN_I64,  KILN_F16, KILN_I32, KILN_I8};
static const int start_dtypes[] = {KILN_I64, KILN_I32, KILN_I16, KILN_I8, KILN_U8};
enum { N_DTYPES = sizeof dtypes / sizeof dtypes[0], N_STARTS = sizeof start_dtypes / sizeof start_dtypes[0] };

struct placed_case {
    int rank;
    int64_t dims[4];
    int64_t axis, length;
    int start_rank; // sizes of start, which x's are or 1
    int64_t start[4];
};
static const struct placed_case cases[] = {
    {1, {9}, 0, 4, 0, {0}},          {1, {9}, -1, 9, 1, {1}},      {2, {5, 6}, 0, 2, 0, {0}},
    {2, {5, 6}, 1, 3, 2, {5, 1}},    {2, {5, 6}, 0, 3, 2, {1, 6}}, {3, {3, 7, 4}, -2, 1, 0, {0}},
    {3, {3, 7, 4}, 1, 5, 2, {1, 4}}, {3, {3, 7, 4}, 0, 0, 0, {0}}, {4, {2, 3, 8, 5}, 2, 1, 4, {2, 1, 1, 1}},
    {2, {300, 33}, 0, 123, 1, {1}},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

// Of size and length, by the line of out's element `at`: wrapped, then moved to where the part fits.
static int64_t place_of(const struct placed_case *c, int axis, const struct host *start, const int64_t *at)
{
    int64_t to[4] = {0}, size = c->dims[axis];
    for (int d = 0; d < c->start_rank; d++) to[d] = c->start[d] == 1 ? 0 : at[c->rank - c->start_rank + d];
    int64_t k = (int64_t)start->v[ravel(c->start_rank, c->start, to)];
    if (k < 0) k += size;
    if (k > size - c->length) k = size - c->length;
    return k < 0 ? 0 : k;
}

// Places within the axis, behind it and before it, as the dtype allows.
static kiln_tensor *starts(struct host *h, const struct placed_case *c, int axis, int dtype, enum host_layout layout)
{
    *h = host_new(dtype, c->start_rank, c->start);
    for (int64_t i = 0; i < h->n; i++) {
        int64_t size = c->dims[axis] < 60 ? c->dims[axis] : 60;
        h->v[i] = (long double)random_below(&structured_random, 2 * size);
        if (dtype != KILN_U8 && random_below(&structured_random, 2)) h->v[i] -= (long double)(size + 3);
    }
    if (layout == LAYOUT_EXPANDED) host_repeat_first(h);
    return host_tensor(suite.dev, h, layout);
}

static void one_case(const char *op, bool update, const struct placed_case *c, int dtype, int start_dtype,
                     enum host_layout lx, enum host_layout ls)
{
    kiln_scope *scope = kiln_scope_begin();
    struct host x, start, part, whole;
    int axis = (int)(c->axis < 0 ? c->axis + c->rank : c->axis);
    int64_t dims[4] = {0}, at[4];
    for (int d = 0; d < c->rank; d++) dims[d] = d == axis ? c->length : c->dims[d];
    kiln_tensor *t = random_tensor(&x, dtype, c->rank, c->dims, lx, -99, 99), *src, *y;
    kiln_tensor *place = starts(&start, c, axis, start_dtype, ls);
    if (update) {
        src = random_tensor(&part, dtype, c->rank, dims, lx, -99, 99);
        y = kiln_update_at(t, c->axis, place, src);
        whole = host_copy(&x);
    } else {
        y = kiln_slice_at(t, c->axis, place, c->length);
        part = host_new(dtype, c->rank, dims);
    }
    for (int64_t i = 0; i < part.n; i++) {
        unravel(c->rank, dims, i, at);
        at[axis] += place_of(c, axis, &start, at);
        long double *there = &(update ? &whole : &x)->v[ravel(c->rank, c->dims, at)];
        *(update ? there : &part.v[i]) = *(update ? &part.v[i] : there);
    }
    char note[80];
    snprintf(note, sizeof note, "axis %d at %s %s", axis, kiln_dtype_name((kiln_dtype)start_dtype),
             host_layout_names[ls]);
    check_equal(y, update ? &whole : &part, case_text(op, &x, lx, note));
    host_free(&x);
    host_free(&start);
    host_free(&part);
    if (update) host_free(&whole);
    kiln_scope_end(&scope);
}

static void all_cases(const char *op, bool update)
{
    for (int i = 0; i < N_CASES; i++) {
        for (int d = 0; d < N_DTYPES; d++)
            for (int k = 0; k < N_STARTS; k++)
                if (!thinned(i + d + 3 * k, 5))
                    one_case(op, update, &cases[i], dtypes[d], start_dtypes[k], LAYOUT_CONTIGUOUS, LAYOUT_CONTIGUOUS);
        for (int l = 1; l < LAYOUT_COUNT; l++) {
            one_case(op, update, &cases[i], KILN_F32, KILN_I64, (enum host_layout)l, LAYOUT_CONTIGUOUS);
            one_case(op, update, &cases[i], KILN_I16, KILN_I32, LAYOUT_CONTIGUOUS, (enum host_layout)l);
        }
    }
}

// A start beyond all sizes is moved, on each device, and a number of the host is one like another.
static void far_starts(const char *op, bool update)
{
    static const int64_t far[] = {INT64_MAX, INT64_MIN, 3, -1};
    static const long double from[] = {3, 0, 3, 3}; // of 5 elements, 2 of them
    for (int i = 0; i < 8; i++) {
        struct host x = host_new(KILN_F32, 1, (const int64_t[]){5}), part = host_new(KILN_F32, 1, (const int64_t[]){2});
        for (int k = 0; k < 5; k++) x.v[k] = 10 + k;
        kiln_tensor *t = host_tensor(suite.dev, &x, LAYOUT_CONTIGUOUS),
                    *src = kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(2));
        kiln_tensor *start =
            i < 4 ? kiln_full_int(suite.dev, KILN_I64, KILN_SHAPE0, far[i]) : kiln_scalar_int(far[i - 4]);
        for (int k = 0; k < 2; k++) {
            long double *there = &x.v[(int)from[i % 4] + k];
            part.v[k] = *there;
            *there = 0;
        }
        check_equal(update ? kiln_update_at(t, 0, start, src) : kiln_slice_at(t, 0, start, 2), update ? &x : &part,
                    case_text(op, &x, LAYOUT_CONTIGUOUS, i < 4 ? "far away" : "at a number"));
        host_free(&x);
        host_free(&part);
    }
}

static void refused(kiln_tensor *result, kiln_status status, const char *op, const char *what)
{
    if (result) record_mistake("%s takes %s", op, what);
    expect_error(status, op, what);
}

void conform_slice_at(const char *op)
{
    kiln_tensor *x = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(4, 3)),
                *i = kiln_zeros(suite.dev, KILN_I64, KILN_SHAPE0);
    all_cases(op, false);
    far_starts(op, false);
    refused(kiln_slice_at(x, 0, kiln_ones(suite.dev, KILN_F32, KILN_SHAPE0), 1), KILN_E_DTYPE, op, "a start of floats");
    refused(kiln_slice_at(x, 2, i, 1), KILN_E_AXIS, op, "an axis out of range");
    refused(kiln_slice_at(x, 0, i, 5), KILN_E_SHAPE, op, "a part larger than the axis");
    refused(kiln_slice_at(x, 0, i, -1), KILN_E_SHAPE, op, "a negative length");
    refused(kiln_slice_at(x, 0, kiln_zeros(suite.dev, KILN_I64, KILN_SHAPE(4, 1)), 1), KILN_E_SHAPE, op,
            "a start for each element");
    refused(kiln_slice_at(x, 0, kiln_zeros(suite.dev, KILN_I64, KILN_SHAPE(1, 1, 1)), 1), KILN_E_SHAPE, op,
            "a start of a larger rank");
    refused(kiln_slice_at(x, 0, NULL, 1), KILN_E_ARGUMENT, op, "NULL");
}

void conform_update_at(const char *op)
{
    kiln_tensor *x = kiln_ones(suite.dev, KILN_I32, KILN_SHAPE(4, 3)),
                *i = kiln_zeros(suite.dev, KILN_I64, KILN_SHAPE0);
    all_cases(op, true);
    far_starts(op, true);
    refused(kiln_update_at(x, 0, i, kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(1, 3))), KILN_E_DTYPE, op,
            "floats for integers");
    refused(kiln_update_at(x, 0, i, kiln_ones(suite.dev, KILN_I32, KILN_SHAPE(5, 3))), KILN_E_SHAPE, op,
            "a part larger than the axis");
    refused(kiln_update_at(x, 0, i, kiln_ones(suite.dev, KILN_I32, KILN_SHAPE(1, 1))), KILN_E_SHAPE, op,
            "a part of other sizes");
    refused(kiln_update_at(x, 0, i, kiln_ones(suite.dev, KILN_I32, KILN_SHAPE(3))), KILN_E_SHAPE, op,
            "a part of another rank");
    // A narrower dtype of the same kind or below goes in.
    struct host want = host_new(KILN_I32, 2, (const int64_t[]){4, 3});
    for (int k = 0; k < 12; k++) want.v[k] = k / 3 == 2 ? -7 : 1;
    check_equal(kiln_update_at(x, 0, kiln_scalar_int(2), kiln_full(suite.dev, KILN_I8, KILN_SHAPE(1, 3), -7)), &want,
                "update_at of i8 into i32");
    host_free(&want);
}
