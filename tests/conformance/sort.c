// Scans and sorting.
#include "conformance/structured.h"
#include <kiln/ops.h>
#include <stdlib.h>

static const struct {
    int rank;
    int64_t dims[3], axis;
} shapes[] = {{1, {1}, 0},      {1, {40}, 0},       {2, {5, 7}, 1},    {2, {5, 7}, 0}, {3, {3, 4, 5}, -2},
              {2, {3, 300}, 1}, {2, {300, 3}, 0},   {2, {2, 2500}, 1}, {2, {0, 4}, 1}, {2, {4, 0}, 1},
              {1, {9000}, 0},   {2, {2, 1024}, -1}, {2, {9, 1027}, 1}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static bool is_left_out(int i, int dtype)
{
    bool large = shapes[i].dims[0] * (shapes[i].rank > 1 ? shapes[i].dims[1] : 1) > 2000;
    if (large) return dtype != KILN_F32 && dtype != KILN_I16;
    return dtype != KILN_F32 && thinned(i + dtype, 4);
}

static void scan(const char *op, bool product)
{
    for (int dtype = 0; dtype < DTYPES; dtype++)
        for (int i = 0; i < SHAPES; i++) {
            if (is_left_out(i, dtype) || (product && is_float(dtype) && shapes[i].dims[shapes[i].rank - 1] > 100))
                continue;
            kiln_scope *scope = kiln_scope_begin();
            int axis = (int)(shapes[i].axis < 0 ? shapes[i].axis + shapes[i].rank : shapes[i].axis);
            enum host_layout layout = (enum host_layout)((i + dtype) % LAYOUT_COUNT);
            struct host x, scale;
            kiln_tensor *t = random_tensor(&x, dtype, shapes[i].rank, shapes[i].dims, layout, product ? -1.4 : -3,
                                           product ? 1.5 : 3);
            struct host want =
                reference_scan(&x, axis, product, is_float(dtype) || dtype == KILN_U64 ? dtype : KILN_I64, &scale);
            kiln_tensor *y = product ? kiln_cumprod(t, shapes[i].axis) : kiln_cumsum(t, shapes[i].axis);
            double n = (double)x.dims[axis];
            check_values(y, &want, &scale, is_float(dtype) ? (product ? n + 1 : 8 + n / 16) : 0,
                         case_text(op, &x, layout, ""));
            host_free(&x);
            host_free(&want);
            host_free(&scale);
            kiln_scope_end(&scope);
        }
    kiln_tensor *m = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3));
    if (product ? kiln_cumprod(m, 2) : kiln_cumsum(m, 2)) record_mistake("%s takes axis 2 of a matrix", op);
    expect_error(KILN_E_AXIS, op, "an axis out of range");
}

void conform_cumsum(const char *op)
{
    scan(op, false);
}

void conform_cumprod(const char *op)
{
    scan(op, true);
}

enum order { SORT, ARGSORT, TOPK };

static struct host first_of(const struct host *h, int axis, int64_t k)
{
    int64_t dims[HOST_MAX_RANK];
    for (int i = 0; i < h->rank; i++) dims[i] = i == axis ? k : h->dims[i];
    struct host out = host_new(h->dtype, h->rank, dims);
    for (int64_t i = 0; i < out.n; i++) {
        int64_t at[HOST_MAX_RANK];
        unravel(h->rank, dims, i, at);
        out.v[i] = h->v[ravel(h->rank, h->dims, at)];
    }
    return out;
}

static void order_case(const char *op, enum order what, const struct host *x, int i, enum host_layout layout,
                       bool descending, int64_t k)
{
    kiln_scope *scope = kiln_scope_begin();
    int64_t axis = shapes[i].axis;
    int at = (int)(axis < 0 ? axis + x->rank : axis);
    struct host all = reference_argsort(x, at, descending), places = first_of(&all, at, what == TOPK ? k : x->dims[at]);
    struct host values = reference_gather(x, at, &places);
    kiln_tensor *t = host_tensor(suite.dev, x, layout), *v = NULL, *p = NULL;
    char note[60];
    snprintf(note, sizeof note, "axis %d %s %lld", at, descending ? "descending" : "ascending", (long long)k);
    const char *text = case_text(op, x, layout, note);
    if (what == ARGSORT)
        p = kiln_argsort(t, axis, descending);
    else if (what == SORT)
        kiln_sort(t, axis, descending, &v, &p);
    else
        kiln_topk(t, k, axis, descending, &v, &p);
    if (what != ARGSORT) check_equal(v, &values, text);
    check_equal(p, &places, text);
    host_free(&all);
    host_free(&places);
    host_free(&values);
    kiln_scope_end(&scope);
}

static void order(const char *op, enum order what)
{
    for (int dtype = 0; dtype < DTYPES; dtype++)
        for (int i = 0; i < SHAPES; i++) {
            if (is_left_out(i, dtype)) continue;
            enum host_layout layout = (enum host_layout)((i + dtype) % LAYOUT_COUNT);
            struct host x = host_new(dtype, shapes[i].rank, shapes[i].dims);
            host_fill(&x, &structured_random, -20, 20);
            // Ties, both zeros, NaN and infinities.
            for (int64_t k = 0; is_float(dtype) && k < x.n; k++) {
                int64_t which = random_below(&structured_random, 12);
                x.v[k] = which == 0   ? NAN
                         : which == 1 ? -0.0L
                         : which == 2 ? INFINITY
                         : which == 3 ? -INFINITY
                                      : rintl(x.v[k]);
            }
            if (layout == LAYOUT_EXPANDED) host_repeat_first(&x);
            int64_t n = x.dims[shapes[i].axis < 0 ? shapes[i].axis + x.rank : shapes[i].axis];
            for (int descending = 0; descending < 2; descending++)
                order_case(op, what, &x, i, layout, descending, n < 3 ? n : descending ? 3 : (n + 1) / 2);
            host_free(&x);
        }
}

// Few places, by a bound: of rows with many ties, of rows of one value, of rows that are all NaN.
static void few_of_long_rows(const char *op)
{
    static const struct {
        int64_t length, k;
    } sizes[] = {{16, 1}, {47, 2}, {160, 10}, {1024, 10}, {1027, 17}, {2500, 150}, {4111, 256}};
    static const int dtypes[] = {KILN_F32, KILN_I32, KILN_F16, KILN_U8, KILN_F64};
    for (int i = 0; i < (int)(sizeof sizes / sizeof sizes[0]); i++)
        for (int d = 0; d < (int)(sizeof dtypes / sizeof dtypes[0]); d++)
            for (int descending = 0; descending < 2; descending++) {
                struct host x = host_new(dtypes[d], 2, (const int64_t[]){4, sizes[i].length});
                host_fill(&x, &structured_random, is_float(dtypes[d]) ? -900 : 0, 100);
                for (int64_t k = 0; k < sizes[i].length; k++) {
                    x.v[sizes[i].length + k] = rintl(x.v[sizes[i].length + k] / 50);
                    x.v[2 * sizes[i].length + k] = 3;
                    if (is_float(dtypes[d])) x.v[3 * sizes[i].length + k] = k % 29 == 7 ? -0.0L : NAN;
                }
                order_case(op, TOPK, &x, 2, (enum host_layout)(i % LAYOUT_EXPANDED), descending, sizes[i].k);
                host_free(&x);
            }
}

// More short rows than one tile of a GPU takes, with many ties; the last tile is not full.
static void many_short_rows(const char *op)
{
    static const int64_t lengths[] = {1, 2, 7, 64, 65, 511, 513, 1024};
    for (int i = 0; i < (int)(sizeof lengths / sizeof lengths[0]); i++)
        for (int wide = 0; wide < 2; wide++) {
            int64_t rows = 2 * (1024 / lengths[i]) + 3;
            struct host x = host_new(wide ? KILN_I64 : KILN_F32, 2, (const int64_t[]){rows, lengths[i]});
            host_fill(&x, &structured_random, -9, 9);
            for (int64_t k = 0; k < x.n; k++) x.v[k] = !wide && k % 31 == 3 ? NAN : rintl(x.v[k]);
            order_case(op, SORT, &x, 2, (enum host_layout)(i % LAYOUT_EXPANDED), i % 2, lengths[i]);
            host_free(&x);
        }
}

void conform_sort(const char *op)
{
    kiln_tensor *m = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3)), *v, *p;
    order(op, SORT);
    many_short_rows(op);
    kiln_sort(m, 2, false, &v, &p);
    expect_error(KILN_E_AXIS, op, "an axis out of range");
}

void conform_argsort(const char *op)
{
    kiln_tensor *m = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3));
    order(op, ARGSORT);
    if (kiln_argsort(m, -3, false)) record_mistake("argsort takes axis -3 of a matrix");
    expect_error(KILN_E_AXIS, op, "an axis out of range");
}

void conform_topk(const char *op)
{
    kiln_tensor *m = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3)), *v, *p;
    order(op, TOPK);
    few_of_long_rows(op);
    record.cases++;
    kiln_topk(m, 4, 1, true, &v, &p);
    if (!kiln_error()) record_mistake("topk gives 4 of 3");
    kiln_error_clear();
}

// --- places in sorted lines

static int by_value(const void *a, const void *b)
{
    long double x = *(const long double *)a, y = *(const long double *)b;
    return isnan(x) || isnan(y) ? isnan(x) - isnan(y) : (x > y) - (x < y);
}

static bool comes_before(long double a, long double v, bool right)
{
    if (isnan(v)) return right || !isnan(a);
    return right ? a <= v : a < v;
}

// Lines of `length` in rows, or one for all; values [rows, count].
static void search_case(const char *op, int dtype, enum host_layout layout, int64_t length, bool one, bool right)
{
    struct host lines, values;
    random_tensor(&lines, dtype, one ? 1 : 2, one ? (const int64_t[]){length} : (const int64_t[]){3, length},
                  LAYOUT_CONTIGUOUS, -9, 9);
    random_tensor(&values, dtype, 2, (const int64_t[]){3, 70}, LAYOUT_CONTIGUOUS, -10, 10);
    for (int64_t i = 0; is_float(dtype) && i < values.n; i++)
        values.v[i] = i % 11 == 0 ? NAN : i % 13 == 0 ? INFINITY : rintl(values.v[i]);
    for (int64_t i = 0; is_float(dtype) && i < lines.n; i++) lines.v[i] = i % 17 == 3 ? NAN : rintl(lines.v[i]);
    if (layout == LAYOUT_EXPANDED) host_repeat_first(&values);
    for (int64_t i = 0; i < lines.n; i += length) qsort(&lines.v[i], (size_t)length, sizeof lines.v[0], by_value);
    struct host want = host_new(KILN_I64, 2, values.dims);
    for (int64_t i = 0; i < values.n; i++)
        for (int64_t k = 0; k < length; k++)
            want.v[i] += comes_before(lines.v[(one ? 0 : i / 70 * length) + k], values.v[i], right);
    kiln_tensor *sorted = host_tensor(suite.dev, &lines, layout == LAYOUT_EXPANDED ? LAYOUT_CONTIGUOUS : layout);
    check_equal(kiln_searchsorted(sorted, host_tensor(suite.dev, &values, layout), right), &want,
                case_text(op, &values, layout, right ? "right" : "left"));
    host_free(&lines);
    host_free(&values);
    host_free(&want);
}

static int64_t place_of(const struct host *line, long double v, bool right)
{
    int64_t low = 0, high = line->n;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (comes_before(line->v[middle], v, right))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// A long line: of numbers that crowd, with ties, NaN at the end, infinite ends and what lies outside.
static void search_long(const char *op, int dtype, int64_t length, int64_t count, int kind)
{
    struct host line, values;
    random_tensor(&line, dtype, 1, &length, LAYOUT_CONTIGUOUS, -9, 9);
    random_tensor(&values, dtype, 1, &count, LAYOUT_CONTIGUOUS, -11, 11);
    for (int64_t i = 0; i < length; i++) {
        long double v = line.v[i];
        line.v[i] = kind == 1                                               ? rintl(v)
                    : kind == 2 && (dtype == KILN_F32 || dtype == KILN_F64) ? (long double)(float)(v * v * v * v * v)
                                                                            : v;
        if (is_float(dtype) && i < 20) line.v[i] = NAN;
        if (is_float(dtype) && kind == 3 && i < 40) line.v[i] = i % 2 ? INFINITY : -INFINITY;
        if (kind == 4) line.v[i] = 3;
    }
    for (int64_t i = 0; i < count; i++) {
        if (i % 3 == 0) values.v[i] = line.v[random_below(&structured_random, length)];
        if (is_float(dtype) && i % 1000 == 7) values.v[i] = i % 2000 == 7 ? INFINITY : -INFINITY;
        if (is_float(dtype) && i % 1000 == 500) values.v[i] = NAN;
    }
    qsort(line.v, (size_t)length, sizeof line.v[0], by_value);
    kiln_tensor *x = host_tensor(suite.dev, &line, LAYOUT_CONTIGUOUS), *v = host_tensor(suite.dev, &values, kind % 2);
    for (int right = 0; right < 2; right++) {
        struct host want = host_new(KILN_I64, 1, &count);
        for (int64_t i = 0; i < count; i++) want.v[i] = place_of(&line, values.v[i], right);
        check_equal(kiln_searchsorted(x, v, right), &want, case_text(op, &values, LAYOUT_CONTIGUOUS, "long"));
        host_free(&want);
    }
    host_free(&line);
    host_free(&values);
}

void conform_searchsorted(const char *op)
{
    static const int64_t lengths[] = {1, 2, 33, 100};
    for (int d = 0; d < DTYPES; d++)
        for (int l = 0; l < LAYOUT_COUNT; l++)
            for (int i = 0; i < 8; i++)
                if (!thinned(d + l + i, 4)) search_case(op, d, (enum host_layout)l, lengths[i / 2], i % 2, (d + l) % 2);
    for (int kind = 0; kind < 5; kind++) {
        search_long(op, KILN_F32, 4096 + kind, 5003, kind);
        search_long(op, kind % 2 ? KILN_F64 : KILN_I32, 5001 - kind, 2999, kind);
        search_long(op, kind % 2 ? KILN_I64 : KILN_F16, 4999, 2000 + kind, kind);
    }
    kiln_tensor *m = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3)),
                *v = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3, 3));
    if (kiln_searchsorted(m, v, false)) record_mistake("searchsorted takes lines for other rows");
    expect_error(KILN_E_SHAPE, op, "lines for other rows");
}
