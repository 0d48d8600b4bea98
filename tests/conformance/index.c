// Reading and writing by index.
#include "conformance/structured.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

static const int dtypes[] = {KILN_F32, KILN_BOOL, KILN_I16, KILN_F64, KILN_BF16, KILN_U8, KILN_I64, KILN_F16, KILN_I32};
enum { N_DTYPES = sizeof dtypes / sizeof dtypes[0] };
static const int index_dtypes[] = {KILN_I64, KILN_I32, KILN_I16, KILN_U8};

static void fails(kiln_tensor *result, kiln_status status, const char *op, const char *what)
{
    if (result) record_mistake("%s takes %s", op, what);
    expect_error(status, op, what);
}

static kiln_tensor *matrix(void)
{
    return kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3));
}

static kiln_tensor *indices(struct host *h, int dtype, int rank, const int64_t *dims, int64_t size,
                            enum host_layout layout)
{
    *h = host_new(dtype, rank, dims);
    for (int64_t i = 0; i < h->n; i++) {
        h->v[i] = (long double)random_below(&structured_random, size);
        if (dtype != KILN_U8 && random_below(&structured_random, 3) == 0) h->v[i] -= (long double)size;
    }
    if (layout == LAYOUT_EXPANDED) host_repeat_first(h);
    return host_tensor(suite.dev, h, layout);
}

// A compiled kernel only says that there is one.
bool names_index(const char *value)
{
    return strstr(kiln_error_message(), suite.jit ? "index" : value) != NULL;
}

// An index out of range: the CPU says which, at the latest when the result is read; a GPU gives 0 (or drops it).
static void out_of_range(kiln_tensor *y, const char *op, const char *value, int64_t at)
{
    struct host got = host_read(y);
    record.cases++;
    if (strcmp(suite.device, "cpu") == 0) {
        if (!kiln_error())
            record_mistake("%s: an index out of range is no error", op);
        else if (strncmp(kiln_error_message(), op, strlen(op)) != 0 || !names_index(value))
            record_mistake("%s: the message of an index out of range names neither: %s", op, kiln_error_message());
    } else if (kiln_error())
        record_mistake("%s: %s", op, kiln_error_message());
    else if (!suite.is_null && at >= 0 && got.v[at] != 0)
        record_mistake("%s: an index out of range gives %Lg", op, got.v[at]);
    kiln_error_clear();
    host_free(&got);
}

struct index_case {
    int rank;
    int64_t dims[4];
    int64_t axis;
    int index_rank;
    int64_t index[4];
};

enum reader { GATHER, TAKE, INDEX_SELECT, EMBEDDING };

static kiln_tensor *call_read(enum reader what, kiln_tensor *x, int64_t axis, kiln_tensor *index)
{
    switch (what) {
    case GATHER: return kiln_gather(x, axis, index);
    case TAKE: return kiln_take(x, axis, index);
    case INDEX_SELECT: return kiln_index_select(x, axis, index);
    default: return kiln_embedding(x, index);
    }
}

static void read_case(const char *op, enum reader what, const struct index_case *c, int dtype, int index_dtype,
                      enum host_layout lx, enum host_layout li)
{
    kiln_scope *scope = kiln_scope_begin();
    struct host x, index;
    int axis = (int)(c->axis < 0 ? c->axis + c->rank : c->axis);
    kiln_tensor *t = random_tensor(&x, dtype, c->rank, c->dims, lx, -99, 99);
    kiln_tensor *i = indices(&index, index_dtype, c->index_rank, c->index, c->dims[axis], li);
    struct host want = what == GATHER ? reference_gather(&x, axis, &index) : reference_take(&x, axis, &index);
    char note[80];
    snprintf(note, sizeof note, "axis %d by %s %s", axis, kiln_dtype_name((kiln_dtype)index_dtype),
             host_layout_names[li]);
    check_equal(call_read(what, t, c->axis, i), &want, case_text(op, &x, lx, note));
    host_free(&x);
    host_free(&index);
    host_free(&want);
    kiln_scope_end(&scope);
}

static void readers(const char *op, enum reader what, const struct index_case *cases, int n)
{
    for (int i = 0; i < n; i++) {
        for (int d = 0; d < N_DTYPES; d++)
            for (int k = 0; k < 4; k++)
                if (!thinned(i + d + 3 * k, 5))
                    read_case(op, what, &cases[i], dtypes[d], index_dtypes[k], LAYOUT_CONTIGUOUS, LAYOUT_CONTIGUOUS);
        for (int l = 1; l < LAYOUT_COUNT; l++) {
            read_case(op, what, &cases[i], KILN_F32, KILN_I64, (enum host_layout)l, LAYOUT_CONTIGUOUS);
            read_case(op, what, &cases[i], KILN_I16, KILN_I32, LAYOUT_CONTIGUOUS, (enum host_layout)l);
        }
    }
    kiln_tensor *floats = kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(2));
    fails(call_read(what, matrix(), 0, what == GATHER ? matrix() : floats), KILN_E_DTYPE, op, "an index of floats");
    fails(call_read(what, NULL, 0, floats), KILN_E_ARGUMENT, op, "NULL");
}

void conform_gather(const char *op)
{
    static const struct index_case cases[] = {
        {2, {4, 6}, 1, 2, {4, 3}}, {2, {4, 6}, 0, 2, {7, 6}}, {3, {3, 4, 5}, -2, 3, {2, 9, 5}},
        {1, {9}, 0, 1, {4}},       {2, {4, 6}, 1, 2, {4, 0}},
    };
    readers(op, GATHER, cases, 5);
    fails(kiln_gather(matrix(), 0, kiln_zeros(suite.dev, KILN_I64, KILN_SHAPE(2))), KILN_E_SHAPE, op,
          "an index of another rank");
    fails(kiln_gather(matrix(), 1, kiln_zeros(suite.dev, KILN_I64, KILN_SHAPE(3, 1))), KILN_E_SHAPE, op,
          "an index larger than x off the axis");
    fails(kiln_gather(matrix(), 2, kiln_zeros(suite.dev, KILN_I64, KILN_SHAPE(2, 3))), KILN_E_AXIS, op,
          "an axis out of range");
    const int64_t wrong[] = {0, 3};
    out_of_range(kiln_gather(matrix(), 1, kiln_from_data(suite.dev, KILN_I64, KILN_SHAPE(1, 2), wrong)), op, "3", 1);
    const int32_t below[] = {0, -4};
    out_of_range(kiln_gather(matrix(), 1, kiln_from_data(suite.dev, KILN_I32, KILN_SHAPE(1, 2), below)), op, "-4", 1);
}

static const struct index_case takes[] = {
    {2, {4, 6}, 0, 1, {3}}, {2, {4, 6}, -1, 2, {2, 2}}, {3, {3, 4, 5}, 1, 2, {2, 3}},
    {1, {9}, 0, 0, {0}},    {2, {40, 33}, 0, 1, {70}},  {2, {4, 6}, 1, 1, {0}},
};

void conform_take(const char *op)
{
    readers(op, TAKE, takes, 6);
    fails(kiln_take(matrix(), 2, kiln_zeros(suite.dev, KILN_I64, KILN_SHAPE(2))), KILN_E_AXIS, op,
          "an axis out of range");
    const int64_t wrong[] = {1, 77};
    out_of_range(kiln_take(matrix(), 0, kiln_from_data(suite.dev, KILN_I64, KILN_SHAPE(2), wrong)), op, "77", 3);
}

void conform_index_select(const char *op)
{
    static const struct index_case cases[] = {{2, {4, 6}, 0, 1, {3}}, {3, {3, 4, 5}, -2, 1, {7}}, {1, {9}, 0, 1, {4}}};
    readers(op, INDEX_SELECT, cases, 3);
    fails(kiln_index_select(matrix(), 0, kiln_zeros(suite.dev, KILN_I64, KILN_SHAPE(2, 2))), KILN_E_SHAPE, op,
          "a matrix of indices");
}

void conform_embedding(const char *op)
{
    static const struct index_case cases[] = {
        {2, {10, 6}, 0, 1, {3}}, {2, {10, 6}, 0, 2, {4, 5}}, {2, {10, 70}, 0, 0, {0}}};
    readers(op, EMBEDDING, cases, 3);
}

void conform_one_hot(const char *op)
{
    for (int k = 0; k < 4; k++)
        for (int rank = 0; rank < 3; rank++) {
            const int64_t dims[] = {4, 3}, depth = 7;
            struct host ids;
            kiln_tensor *t = random_tensor(&ids, index_dtypes[k], rank, dims,
                                           rank == 2 ? LAYOUT_TRANSPOSED : LAYOUT_CONTIGUOUS, 0, 9);
            const int64_t out[] = {rank > 0 ? 4 : depth, rank > 1 ? 3 : depth, depth};
            struct host want = host_new(KILN_F32, rank + 1, out);
            for (int64_t i = 0; i < want.n; i++) want.v[i] = ids.v[i / depth] == i % depth;
            check_equal(kiln_one_hot(t, depth), &want, case_text(op, &ids, LAYOUT_CONTIGUOUS, ""));
            host_free(&ids);
            host_free(&want);
        }
    fails(kiln_one_hot(matrix(), 3), KILN_E_DTYPE, op, "floats");
}

void conform_isin(const char *op)
{
    for (int d = 0; d < N_DTYPES; d++)
        for (int l = 0; l < LAYOUT_COUNT; l++) {
            if (thinned(d + l, 4)) continue;
            struct host x, values;
            kiln_tensor *t = random_tensor(&x, dtypes[d], 2, (const int64_t[]){6, 7}, (enum host_layout)l, -9, 9);
            const int64_t n = 5 * (l > 0);
            kiln_tensor *v = random_tensor(&values, dtypes[d], 1, &n, LAYOUT_CONTIGUOUS, -9, 9);
            if (n) values.v[2] = x.v[10], values.v[3] = x.v[30];
            v = host_tensor(suite.dev, &values, LAYOUT_CONTIGUOUS);
            struct host want = host_new(KILN_BOOL, 2, x.dims);
            for (int64_t i = 0; i < x.n; i++)
                for (int64_t k = 0; k < n; k++)
                    if (x.v[i] == values.v[k]) want.v[i] = 1;
            check_equal(kiln_isin(t, v), &want, case_text(op, &x, (enum host_layout)l, ""));
            host_free(&x);
            host_free(&values);
            host_free(&want);
        }
}

// --- writing

enum writer { SCATTER, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN, INDEX_ADD };

static kiln_tensor *call_write(enum writer what, kiln_tensor *x, int64_t axis, kiln_tensor *index, kiln_tensor *src)
{
    return what == SCATTER       ? kiln_scatter(x, axis, index, src)
           : what == SCATTER_ADD ? kiln_scatter_add(x, axis, index, src)
           : what == SCATTER_MUL ? kiln_scatter_mul(x, axis, index, src)
           : what == SCATTER_MAX ? kiln_scatter_max(x, axis, index, src)
           : what == SCATTER_MIN ? kiln_scatter_min(x, axis, index, src)
                                 : kiln_index_add(x, axis, index, src);
}

static enum scatter_verb verb_of(enum writer what)
{
    static const enum scatter_verb verbs[] = {SCATTER_SET,     SCATTER_SUM,   SCATTER_PRODUCT,
                                              SCATTER_LARGEST, SCATTER_LEAST, SCATTER_SUM};
    return verbs[what];
}

static void write_case(const char *op, enum writer what, const struct index_case *c, int dtype, int index_dtype,
                       enum host_layout layout)
{
    kiln_scope *scope = kiln_scope_begin();
    struct host x, index, src, full, scale;
    int axis = (int)(c->axis < 0 ? c->axis + c->rank : c->axis);
    double most = what == SCATTER_MUL ? 1.5 : 9; // products stay within the range of halves
    kiln_tensor *t = random_tensor(&x, dtype, c->rank, c->dims, layout, -most, most);
    kiln_tensor *i = indices(&index, index_dtype, c->index_rank, c->index, c->dims[axis], LAYOUT_CONTIGUOUS);
    int64_t dims[4];
    memcpy(dims, what == INDEX_ADD ? c->dims : c->index, sizeof dims);
    if (what == INDEX_ADD) dims[axis] = c->index[0];
    kiln_tensor *s = random_tensor(&src, dtype, c->rank, dims, layout, -most, most);
    // The index of slices, spread over their elements.
    full = what == INDEX_ADD ? host_new(index_dtype, c->rank, dims) : host_copy(&index);
    for (int64_t k = 0; what == INDEX_ADD && k < full.n; k++) {
        int64_t at[HOST_MAX_RANK];
        unravel(c->rank, dims, k, at);
        full.v[k] = index.v[at[axis]];
    }
    struct host want = reference_scatter(&x, axis, &full, &src, verb_of(what), &scale);
    check_values(call_write(what, t, c->axis, i, s), &want, &scale,
                 what == SCATTER || what == SCATTER_MAX || what == SCATTER_MIN ? 0 : 4 + (double)dims[axis],
                 case_text(op, &x, layout, kiln_dtype_name((kiln_dtype)index_dtype)));
    host_free(&x);
    host_free(&index);
    host_free(&src);
    host_free(&full);
    host_free(&scale);
    host_free(&want);
    kiln_scope_end(&scope);
}

static void writers(const char *op, enum writer what, const struct index_case *cases, int n)
{
    for (int i = 0; i < n; i++) {
        for (int d = 0; d < N_DTYPES; d++) {
            if (dtypes[d] == KILN_BOOL && what != SCATTER) continue;
            for (int k = 0; k < 4; k++)
                if (!thinned(i + d + 3 * k, 5))
                    write_case(op, what, &cases[i], dtypes[d], index_dtypes[k], LAYOUT_CONTIGUOUS);
        }
        for (int l = 1; l < LAYOUT_COUNT; l++)
            if (!thinned(i + l + (int)what, 3))
                write_case(op, what, &cases[i], KILN_F32, KILN_I64, (enum host_layout)l);
    }
    kiln_tensor *index = kiln_zeros(suite.dev, KILN_I64, KILN_SHAPE(2, 3)),
                *vector = kiln_zeros(suite.dev, KILN_I64, KILN_SHAPE(2));
    fails(call_write(what, matrix(), 2, what == INDEX_ADD ? vector : index, matrix()), KILN_E_AXIS, op,
          "an axis out of range");
    fails(call_write(what, matrix(), 0, matrix(), matrix()), KILN_E_DTYPE, op, "an index of floats");
}

static const struct index_case scatters[] = {
    {2, {4, 6}, 1, 2, {4, 9}},        {2, {4, 6}, 0, 2, {7, 6}},
    {3, {3, 4, 5}, -2, 3, {2, 9, 5}}, {1, {9}, 0, 1, {40}},
    {2, {4, 6}, 1, 2, {4, 0}},        {2, {5, 3}, 0, 2, {300, 3}},
    {2, {5, 700}, 0, 2, {45, 700}}, // few rows of many columns
    {2, {64, 130}, 0, 2, {257, 130}},
};
enum { N_SCATTERS = sizeof scatters / sizeof scatters[0] };

void conform_scatter(const char *op)
{
    writers(op, SCATTER, scatters, N_SCATTERS);
    const int64_t wrong[] = {0, 5, 1};
    kiln_tensor *index = kiln_from_data(suite.dev, KILN_I64, KILN_SHAPE(1, 3), wrong);
    out_of_range(kiln_scatter(kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(1, 3)), 1, index,
                              kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(1, 3))),
                 op, "5", -1);
    // src is broadcast to the index.
    struct host x = host_new(KILN_F32, 1, (const int64_t[]){4});
    const int64_t places[] = {3, 1};
    kiln_tensor *t = host_tensor(suite.dev, &x, LAYOUT_CONTIGUOUS),
                *at = kiln_from_data(suite.dev, KILN_I64, KILN_SHAPE(2), places);
    x.v[1] = x.v[3] = 2.5L;
    check_equal(kiln_scatter(t, 0, at, kiln_full(suite.dev, KILN_F32, KILN_SHAPE(1), 2.5)), &x, "scatter of one value");
    host_free(&x);
}

void conform_scatter_add(const char *op)
{
    writers(op, SCATTER_ADD, scatters, N_SCATTERS);
}

void conform_scatter_mul(const char *op)
{
    writers(op, SCATTER_MUL, scatters, N_SCATTERS);
}

void conform_scatter_max(const char *op)
{
    writers(op, SCATTER_MAX, scatters, N_SCATTERS);
}

void conform_scatter_min(const char *op)
{
    writers(op, SCATTER_MIN, scatters, N_SCATTERS);
}

void conform_index_add(const char *op)
{
    // The last are wide enough for several units, which end inside of rows and between them.
    static const struct index_case cases[] = {
        {2, {4, 6}, 0, 1, {7}},   {3, {3, 4, 5}, -2, 1, {9}},   {1, {9}, 0, 1, {40}},       {2, {4, 6}, 1, 1, {0}},
        {2, {5, 127}, 0, 1, {3}}, {3, {2, 4, 129}, 1, 1, {80}}, {2, {7, 257}, 0, 1, {530}}, {2, {3, 1}, 0, 1, {5}}};
    writers(op, INDEX_ADD, cases, sizeof cases / sizeof cases[0]);
}
