// Running extrema, and indices that are tuples.
#include "conformance/structured.h"
#include <kiln/ops.h>
#include <math.h>
#include <string.h>

// --- cummax, cummin ---

static void extremum(const char *op, bool max)
{
    static const struct {
        int rank;
        int64_t dims[3];
        int axis;
    } shapes[] = {{1, {1}, 0},       {1, {50}, 0},      {2, {5, 7}, 0}, {3, {3, 4, 5}, 1},
                  {2, {2, 9000}, 1}, {2, {300, 40}, 0}, {2, {0, 3}, 0}, {2, {3, 0}, 1}};
    for (int dtype = KILN_U8; dtype < DTYPES; dtype++)
        for (int i = 0; i < 8; i++) {
            if (dtype != KILN_F32 && thinned(i + dtype, 4)) continue;
            kiln_scope *scope = kiln_scope_begin();
            struct host x;
            enum host_layout layout = (enum host_layout)((i + dtype) % LAYOUT_COUNT);
            if (layout == LAYOUT_EXPANDED) layout = LAYOUT_STEP;
            kiln_tensor *t = random_tensor(&x, dtype, shapes[i].rank, shapes[i].dims, layout, -100, 100);
            struct host want = host_copy(&x);
            if (is_float(dtype) && x.n > 30) {
                x.v[x.n / 2] = want.v[x.n / 2] = (long double)NAN;
                t = host_tensor(suite.dev, &x, layout);
            }
            int64_t inner = 1;
            for (int d = shapes[i].axis + 1; d < x.rank; d++) inner *= x.dims[d];
            for (int64_t k = 0; k < want.n; k++) {
                if (k / inner % x.dims[shapes[i].axis] == 0) continue;
                long double before = want.v[k - inner], here = want.v[k];
                bool stays = isnan(before) || (max ? before >= here : before <= here);
                want.v[k] = stays ? before : here;
            }
            check_equal(max ? kiln_cummax(t, shapes[i].axis) : kiln_cummin(t, shapes[i].axis), &want,
                        case_text(op, &x, layout, ""));
            host_free(&x);
            host_free(&want);
            kiln_scope_end(&scope);
        }
    kiln_tensor *truth = kiln_ones(suite.dev, KILN_BOOL, KILN_SHAPE(3));
    if (max ? kiln_cummax(truth, 0) : kiln_cummin(truth, 0)) record_mistake("%s takes bool", op);
    expect_error(KILN_E_DTYPE, op, "bool");
}

void conform_cummax(const char *op)
{
    extremum(op, true);
}

void conform_cummin(const char *op)
{
    extremum(op, false);
}

// --- gather_nd, scatter_nd ---

struct tuples {
    int rank; // of the array
    int64_t dims[4];
    int index_rank;
    int64_t index[3]; // its last entry is the length of a tuple
};
static const struct tuples tuple_cases[] = {
    {2, {4, 5}, 2, {7, 2}},        {3, {4, 5, 3}, 2, {60, 2}}, {3, {3, 4, 5}, 3, {2, 3, 1}}, {1, {9}, 1, {1}},
    {4, {2, 3, 4, 5}, 2, {50, 3}}, {2, {400, 3}, 2, {90, 1}},  {2, {3, 4}, 2, {0, 2}}};
enum { TUPLE_CASES = sizeof tuple_cases / sizeof tuple_cases[0] };

// The index, and for each tuple the first element that it names, of a slice of *row elements.
static kiln_tensor *draw_tuples(const struct tuples *c, int dtype, struct host *index, int64_t *first, int64_t *row)
{
    int64_t k = c->index[c->index_rank - 1];
    *index = host_new(dtype, c->index_rank, c->index);
    *row = 1;
    for (int d = (int)k; d < c->rank; d++) *row *= c->dims[d];
    for (int64_t i = 0; i < index->n; i++) {
        int64_t size = c->dims[i % k], v = random_below(&structured_random, size);
        first[i / k] = (i % k ? first[i / k] * size : 0) + v;
        index->v[i] = (long double)(random_below(&structured_random, 2) ? v : v - size);
    }
    for (int64_t i = 0; i < index->n / k; i++) first[i] *= *row;
    return host_tensor(suite.dev, index, LAYOUT_TRANSPOSED);
}

static void run_tuples(const char *op, const struct tuples *c, int dtype, int index_dtype, enum host_layout layout,
                       bool add)
{
    int64_t first[100], row, k = c->index[c->index_rank - 1], dims[HOST_MAX_RANK];
    struct host index, x;
    kiln_tensor *ti = draw_tuples(c, index_dtype, &index, first, &row);
    int rank = 0;
    for (int d = 0; d + 1 < c->index_rank; d++) dims[rank++] = c->index[d];
    for (int d = (int)k; d < c->rank; d++) dims[rank++] = c->dims[d];
    kiln_tensor *t = add ? random_tensor(&x, dtype, rank, dims, layout, 0, 4)
                         : random_tensor(&x, dtype, c->rank, c->dims, layout, -50, 50);
    if (add && is_float(dtype)) { // sums of whole numbers are exact
        for (int64_t i = 0; i < x.n; i++) x.v[i] = floorl(x.v[i]);
        t = host_tensor(suite.dev, &x, layout);
    }
    struct host want = add ? host_new(dtype, c->rank, c->dims) : host_new(dtype, rank, dims);
    for (int64_t i = 0; i < index.n / k; i++)
        for (int64_t j = 0; j < row; j++) {
            if (add)
                want.v[first[i] + j] += x.v[i * row + j];
            else
                want.v[i * row + j] = x.v[first[i] + j];
        }
    check_equal(add ? kiln_scatter_nd(ti, t, (size_t)c->rank, c->dims) : kiln_gather_nd(t, ti), &want,
                case_text(op, &x, layout, ""));
    host_free(&index);
    host_free(&x);
    host_free(&want);
}

// An index out of range, in either place of a tuple: an error on the CPU, elsewhere nothing is read or added.
static void far_index(const char *op, bool add, int place, int64_t index, const char *named)
{
    kiln_scope *scope = kiln_scope_begin();
    int64_t tuple[2] = {1, 1};
    tuple[place] = index;
    kiln_tensor *m = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3)),
                *wrong = kiln_from_data(suite.dev, KILN_I64, KILN_SHAPE(1, 2), tuple),
                *one = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(1));
    kiln_tensor *y = add ? kiln_scatter_nd(wrong, one, KILN_SHAPE(2, 3)) : kiln_gather_nd(m, wrong);
    record.cases++;
    if (strcmp(suite.device, "cpu") == 0) {
        if (!names_index(named)) record_mistake("%s: the error does not name %s: %s", op, named, kiln_error_message());
        expect_error(KILN_E_ARGUMENT, op, "an index out of range");
    } else {
        kiln_tensor *sum = y ? kiln_sum(y, NULL) : NULL;
        if (sum && !suite.is_null && kiln_item(sum) != 0)
            record_mistake("%s: an index out of range is not dropped", op);
        no_error(op);
    }
    kiln_scope_end(&scope);
}

static void far_indices(const char *op, bool add)
{
    const int64_t far = (int64_t)1 << 62;
    for (int place = 0; place < 2; place++) {
        far_index(op, add, place, -4, "index -4 ");
        far_index(op, add, place, 3, "index 3 ");
        far_index(op, add, place, (int64_t)1 << 59, "index 576460752303423488 ");
        for (int64_t k = -2; k <= 2; k++) {
            far_index(op, add, place, far + k, "index 1152921504606846976 or beyond ");
            far_index(op, add, place, -far + k, "index -1152921504606846976 or beyond ");
            far_index(op, add, place, far / 2 + k, "index 1152921504606846976 or beyond ");
        }
        far_index(op, add, place, INT64_MAX, "index 1152921504606846976 or beyond ");
        far_index(op, add, place, INT64_MIN, "index -1152921504606846976 or beyond ");
    }
}

static void tuples(const char *op, bool add)
{
    static const int index_dtypes[] = {KILN_I64, KILN_I32, KILN_I16};
    for (int dtype = add ? KILN_U8 : KILN_BOOL; dtype < DTYPES; dtype++)
        for (int i = 0; i < TUPLE_CASES; i++) {
            if (dtype != KILN_F32 && thinned(i + dtype, 4)) continue;
            kiln_scope *scope = kiln_scope_begin();
            enum host_layout layout = (enum host_layout)((i + dtype) % LAYOUT_EXPANDED);
            run_tuples(op, &tuple_cases[i], dtype, index_dtypes[(i + dtype) % 3], layout, add);
            kiln_scope_end(&scope);
        }
    kiln_tensor *m = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3)),
                *three = kiln_zeros(suite.dev, KILN_I64, KILN_SHAPE(4, 3));
    kiln_tensor *y = add ? kiln_scatter_nd(three, kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(4)), KILN_SHAPE(2, 3))
                         : kiln_gather_nd(m, three);
    if (y) record_mistake("%s takes tuples longer than the shape", op);
    expect_error(KILN_E_SHAPE, op, "tuples longer than the shape");
    far_indices(op, add);
}

void conform_gather_nd(const char *op)
{
    tuples(op, false);
}

void conform_scatter_nd(const char *op)
{
    tuples(op, true);
}
