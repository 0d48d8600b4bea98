// View ops: index arithmetic on the host against strides on the device. Each case runs over element sizes and over
// layouts of its input, so that views of views occur.
#include "conformance/structured.h"
#include <kiln/ops.h>
#include <string.h>

// What a case needs to call the op and to map indices.
struct view_case {
    int rank;
    int64_t dims[5];
    int64_t args[12]; // of the op, as its function below reads them
    int out_rank;
    int64_t out[6];
};

typedef kiln_tensor *(*view_call)(kiln_tensor *x, const struct view_case *c);

struct view_op {
    view_call call;
    index_map map; // NULL: the same elements in row-major order
    bool is_view;  // of any input; reshapes may copy
};

static void run(const char *op, const struct view_op *v, const struct view_case *cases, size_t n)
{
    static const int dtypes[] = {KILN_F32, KILN_BOOL, KILN_I16, KILN_F64, KILN_BF16, KILN_I32};
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < 6; d++)
            for (int layout = 0; layout < LAYOUT_COUNT; layout++) {
                if (d && layout && thinned((int)(i + d) + layout, 5)) continue;
                kiln_scope *scope = kiln_scope_begin();
                const struct view_case *c = &cases[i];
                struct host x;
                kiln_tensor *t = random_tensor(&x, dtypes[d], c->rank, c->dims, (enum host_layout)layout, -99, 99);
                struct host want = host_new(x.dtype, c->out_rank, c->out);
                if (v->map) {
                    host_free(&want);
                    want = reference_map(&x, c->out_rank, c->out, v->map, c, NAN);
                } else
                    memcpy(want.v, x.v, (size_t)x.n * sizeof x.v[0]);
                kiln_tensor *y = v->call(t, c);
                check_equal(y, &want, case_text(op, &x, (enum host_layout)layout, ""));
                if (y && v->is_view && !kiln_is_view_of(y, t))
                    record_mistake("%s is a copy", case_text(op, &x, (enum host_layout)layout, ""));
                host_free(&x);
                host_free(&want);
                kiln_scope_end(&scope);
            }
}

#define RUN(op, view, cases) run(op, &(view), cases, sizeof(cases) / sizeof((cases)[0]))

static kiln_tensor *matrix(void)
{
    return kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3));
}

static void fails(kiln_tensor *result, kiln_status status, const char *op, const char *what)
{
    if (result) record_mistake("%s takes %s", op, what);
    expect_error(status, op, what);
}

// --- reshape and flatten

static kiln_tensor *call_reshape(kiln_tensor *x, const struct view_case *c)
{
    return kiln_reshape(x, (size_t)c->args[0], c->args + 1);
}

void conform_reshape(const char *op)
{
    static const struct view_op v = {call_reshape, NULL, false};
    static const struct view_case cases[] = {
        {2, {4, 6}, {1, 24}, 1, {24}},
        {2, {4, 6}, {3, 2, 2, 6}, 3, {2, 2, 6}},
        {3, {4, 3, 5}, {2, -1, 5}, 2, {12, 5}},
        {3, {4, 3, 5}, {2, 4, -1}, 2, {4, 15}},
        {2, {4, 6}, {2, 3, 8}, 2, {3, 8}},
        {1, {1}, {0}, 0, {0}},
        {0, {0}, {3, 1, 1, 1}, 3, {1, 1, 1}},
        {2, {0, 6}, {2, 3, 0}, 2, {3, 0}},
        {4, {2, 3, 4, 5}, {3, 6, 2, 10}, 3, {6, 2, 10}},
        {3, {2, 1, 6}, {4, 2, 3, 1, 2}, 4, {2, 3, 1, 2}},
    };
    RUN(op, v, cases);
    fails(kiln_reshape(matrix(), KILN_SHAPE(4)), KILN_E_SHAPE, op, "another number of elements");
    fails(kiln_reshape(matrix(), KILN_SHAPE(-1, 4)), KILN_E_SHAPE, op, "-1 that does not fit");
    fails(kiln_reshape(matrix(), KILN_SHAPE(-1, -1)), KILN_E_SHAPE, op, "two -1");
    fails(kiln_reshape(matrix(), KILN_SHAPE(-2, -3)), KILN_E_SHAPE, op, "negative dimensions");
    fails(kiln_reshape(NULL, KILN_SHAPE(1)), KILN_E_ARGUMENT, op, "NULL");
}

static kiln_tensor *call_flatten(kiln_tensor *x, const struct view_case *c)
{
    return kiln_flatten(x, c->args[0], c->args[1]);
}

void conform_flatten(const char *op)
{
    static const struct view_op v = {call_flatten, NULL, false};
    static const struct view_case cases[] = {
        {3, {4, 3, 5}, {0, -1}, 1, {60}},     {3, {4, 3, 5}, {1, 2}, 2, {4, 15}}, {3, {4, 3, 5}, {0, 1}, 2, {12, 5}},
        {3, {4, 3, 5}, {1, 1}, 3, {4, 3, 5}}, {0, {0}, {0, -1}, 1, {1}},          {2, {0, 3}, {0, 1}, 1, {0}},
    };
    RUN(op, v, cases);
    fails(kiln_flatten(matrix(), 1, 0), KILN_E_AXIS, op, "a start behind the stop");
    fails(kiln_flatten(matrix(), 0, 2), KILN_E_AXIS, op, "an axis out of range");
}

// --- order of axes

static kiln_tensor *call_permute(kiln_tensor *x, const struct view_case *c)
{
    return kiln_permute(x, (kiln_ints){(size_t)c->args[0], c->args + 1});
}

static void map_permute(const int64_t *out, int64_t *in, const void *user)
{
    const struct view_case *c = user;
    for (int i = 0; i < c->rank; i++) {
        int64_t axis = c->args[0] ? c->args[1 + i] : c->rank - 1 - i;
        in[axis < 0 ? axis + c->rank : axis] = out[i];
    }
}

void conform_permute(const char *op)
{
    static const struct view_op v = {call_permute, map_permute, true};
    static const struct view_case cases[] = {
        {2, {4, 6}, {2, 1, 0}, 2, {6, 4}},           {3, {4, 3, 5}, {3, 2, 0, 1}, 3, {5, 4, 3}},
        {3, {4, 3, 5}, {3, 0, -1, 1}, 3, {4, 5, 3}}, {3, {4, 3, 5}, {0}, 3, {5, 3, 4}},
        {2, {0, 3}, {2, 1, 0}, 2, {3, 0}},
    };
    RUN(op, v, cases);
    fails(kiln_permute(matrix(), KILN_AXES(0)), KILN_E_AXIS, op, "too few axes");
    fails(kiln_permute(matrix(), KILN_AXES(0, 0)), KILN_E_AXIS, op, "an axis twice");
    fails(kiln_permute(matrix(), KILN_AXES(0, 2)), KILN_E_AXIS, op, "an axis out of range");
}

static kiln_tensor *call_transpose(kiln_tensor *x, const struct view_case *c)
{
    return kiln_transpose(x, c->args[0], c->args[1]);
}

static void map_transpose(const int64_t *out, int64_t *in, const void *user)
{
    const struct view_case *c = user;
    int64_t p = (c->args[0] + c->rank) % c->rank, q = (c->args[1] + c->rank) % c->rank;
    for (int i = 0; i < c->rank; i++) in[i] = out[i == p ? q : i == q ? p : i];
}

void conform_transpose(const char *op)
{
    static const struct view_op v = {call_transpose, map_transpose, true};
    static const struct view_case cases[] = {
        {2, {4, 6}, {0, 1}, 2, {6, 4}},
        {3, {4, 3, 5}, {0, -1}, 3, {5, 3, 4}},
        {3, {4, 3, 5}, {1, 1}, 3, {4, 3, 5}},
    };
    RUN(op, v, cases);
    fails(kiln_transpose(matrix(), 0, 2), KILN_E_AXIS, op, "an axis out of range");
}

static kiln_tensor *call_flip(kiln_tensor *x, const struct view_case *c)
{
    return kiln_flip(x, (kiln_ints){(size_t)c->args[0], c->args + 1});
}

static void map_flip(const int64_t *out, int64_t *in, const void *user)
{
    const struct view_case *c = user;
    for (int i = 0; i < c->rank; i++) {
        bool flipped = c->args[0] == 0;
        for (int k = 0; k < c->args[0]; k++) flipped |= (c->args[1 + k] + c->rank) % c->rank == i;
        in[i] = flipped ? c->dims[i] - 1 - out[i] : out[i];
    }
}

void conform_flip(const char *op)
{
    static const struct view_op v = {call_flip, map_flip, true};
    static const struct view_case cases[] = {
        {2, {4, 6}, {1, 0}, 2, {4, 6}},
        {3, {4, 3, 5}, {2, 0, -1}, 3, {4, 3, 5}},
        {2, {4, 6}, {0}, 2, {4, 6}},
        {2, {0, 6}, {0}, 2, {0, 6}},
    };
    RUN(op, v, cases);
    fails(kiln_flip(matrix(), KILN_AXES(2)), KILN_E_AXIS, op, "an axis out of range");
    fails(kiln_flip(matrix(), KILN_AXES(0, -2)), KILN_E_AXIS, op, "an axis twice");
}

// --- axes of size 1

static kiln_tensor *call_expand(kiln_tensor *x, const struct view_case *c)
{
    return kiln_expand(x, (size_t)c->args[0], c->args + 1);
}

static void map_expand(const int64_t *out, int64_t *in, const void *user)
{
    const struct view_case *c = user;
    for (int i = 0; i < c->rank; i++) in[i] = c->dims[i] == 1 ? 0 : out[i + c->out_rank - c->rank];
}

void conform_expand(const char *op)
{
    static const struct view_op v = {call_expand, map_expand, true};
    static const struct view_case cases[] = {
        {2, {1, 6}, {2, 4, 6}, 2, {4, 6}},
        {2, {4, 1}, {3, 3, 4, 5}, 3, {3, 4, 5}},
        {1, {5}, {3, 2, 3, -1}, 3, {2, 3, 5}},
        {0, {0}, {2, 3, 2}, 2, {3, 2}},
        {1, {1}, {1, 0}, 1, {0}},
    };
    RUN(op, v, cases);
    fails(kiln_expand(matrix(), KILN_SHAPE(3, 3)), KILN_E_SHAPE, op, "a size that is not 1");
    fails(kiln_expand(matrix(), KILN_SHAPE(3)), KILN_E_SHAPE, op, "fewer dimensions");
    fails(kiln_expand(matrix(), KILN_SHAPE(-1, 2, 3)), KILN_E_SHAPE, op, "-1 for a new dimension");
}

static kiln_tensor *call_squeeze(kiln_tensor *x, const struct view_case *c)
{
    return kiln_squeeze(x, (kiln_ints){(size_t)c->args[0], c->args + 1});
}

void conform_squeeze(const char *op)
{
    static const struct view_op v = {call_squeeze, NULL, true};
    static const struct view_case cases[] = {
        {3, {1, 4, 1}, {0}, 1, {4}},
        {3, {1, 4, 1}, {1, -1}, 2, {1, 4}},
        {2, {1, 1}, {0}, 0, {0}},
        {2, {4, 6}, {0}, 2, {4, 6}},
    };
    RUN(op, v, cases);
    fails(kiln_squeeze(matrix(), KILN_AXES(0)), KILN_E_SHAPE, op, "an axis of size 2");
    fails(kiln_squeeze(matrix(), KILN_AXES(5)), KILN_E_AXIS, op, "an axis out of range");
}

static kiln_tensor *call_unsqueeze(kiln_tensor *x, const struct view_case *c)
{
    return kiln_unsqueeze(x, c->args[0]);
}

void conform_unsqueeze(const char *op)
{
    static const struct view_op v = {call_unsqueeze, NULL, true};
    static const struct view_case cases[] = {
        {2, {4, 6}, {0}, 3, {1, 4, 6}},
        {2, {4, 6}, {-1}, 3, {4, 6, 1}},
        {2, {4, 6}, {1}, 3, {4, 1, 6}},
        {0, {0}, {0}, 1, {1}},
    };
    RUN(op, v, cases);
    fails(kiln_unsqueeze(matrix(), 3), KILN_E_AXIS, op, "an axis out of range");
    int64_t ones[KILN_MAX_RANK];
    for (int d = 0; d < KILN_MAX_RANK; d++) ones[d] = 1;
    fails(kiln_unsqueeze(kiln_ones(suite.dev, KILN_F32, KILN_MAX_RANK, ones), 0), KILN_E_SHAPE, op,
          "as many dimensions as there may be");
}

// --- parts. The reference of a slice is Python's: the list of indices that range(start, stop, step) visits.

// args: start, stop, step for each axis.
static kiln_tensor *call_slice(kiln_tensor *x, const struct view_case *c)
{
    int64_t start[5], stop[5], step[5];
    size_t rank = (size_t)c->rank;
    for (size_t i = 0; i < rank; i++)
        start[i] = c->args[3 * i], stop[i] = c->args[3 * i + 1], step[i] = c->args[3 * i + 2];
    return kiln_slice(x, KILN_SLICE(.start = {rank, start}, .stop = {rank, stop}, .step = {rank, step}));
}

static void map_slice(const int64_t *out, int64_t *in, const void *user)
{
    const struct view_case *c = user;
    for (int i = 0; i < c->rank; i++) {
        int64_t start = c->args[3 * i], step = c->args[3 * i + 2], size = c->dims[i];
        if (start == KILN_END) start = step > 0 ? 0 : size - 1;
        if (start < 0) start += size;
        // A bound past the end is clipped to it before the first step.
        if (step < 0 && start >= size) start = size - 1;
        if (start < 0) start = 0;
        in[i] = start + out[i] * step;
    }
}

void conform_slice(const char *op)
{
    static const struct view_op v = {call_slice, map_slice, true};
    struct view_case cases[] = {
        {1, {10}, {2, 7, 1}, 1, {5}},
        {1, {10}, {0, 10, 3}, 1, {4}},
        {1, {10}, {-3, KILN_END, 1}, 1, {3}},
        {1, {10}, {8, 2, -2}, 1, {3}},
        {1, {10}, {KILN_END, KILN_END, -1}, 1, {10}},
        {1, {10}, {-1, -11, -1}, 1, {10}},
        {1, {10}, {5, 5, 1}, 1, {0}},
        {1, {10}, {7, 3, 1}, 1, {0}},
        {1, {10}, {-99, 99, 1}, 1, {10}},
        {1, {10}, {99, -99, -4}, 1, {3}},
        {1, {10}, {1, 9, 100}, 1, {1}},
        {2, {6, 8}, {1, 5, 2, 7, 0, -3}, 2, {2, 3}},
        {2, {6, 8}, {0, KILN_END, 1, 2, 4, 1}, 2, {6, 2}},
        {3, {4, 3, 5}, {KILN_END, KILN_END, -1, 1, 2, 1, 0, 5, 2}, 3, {4, 1, 3}},
        {1, {0}, {0, 5, 1}, 1, {0}},
        {2, {6, 8}, {3, 3, 1, 0, 8, 1}, 2, {0, 8}},
    };
    RUN(op, v, cases);
    // Lists left out, and shorter than the rank.
    struct host x;
    kiln_tensor *t = random_tensor(&x, KILN_F32, 2, (const int64_t[]){6, 8}, LAYOUT_CONTIGUOUS, -9, 9);
    check_equal(kiln_slice(t, NULL), &x, "slice without options");
    struct view_case rows = {2, {6, 8}, {2, KILN_END, 1, 0, KILN_END, 1}, 2, {4, 8}};
    struct host want = reference_map(&x, 2, rows.out, map_slice, &rows, NAN);
    check_equal(kiln_slice(t, KILN_SLICE(.start = KILN_ARGS(2))), &want, "slice of the first axis");
    host_free(&want);
    host_free(&x);
    fails(kiln_slice(matrix(), KILN_SLICE(.step = KILN_ARGS(0))), KILN_E_ARGUMENT, op, "step 0");
    fails(kiln_slice(matrix(), KILN_SLICE(.start = KILN_ARGS(0, 0, 0))), KILN_E_SHAPE, op, "more bounds than axes");
}

static kiln_tensor *call_narrow(kiln_tensor *x, const struct view_case *c)
{
    return kiln_narrow(x, c->args[0], c->args[1], c->args[2]);
}

static void map_narrow(const int64_t *out, int64_t *in, const void *user)
{
    const struct view_case *c = user;
    for (int i = 0; i < c->rank; i++) in[i] = out[i] + (i == (c->args[0] + c->rank) % c->rank ? c->args[1] : 0);
}

void conform_narrow(const char *op)
{
    static const struct view_op v = {call_narrow, map_narrow, true};
    static const struct view_case cases[] = {
        {2, {4, 6}, {1, 2, 3}, 2, {4, 3}},
        {2, {4, 6}, {0, 3, 1}, 2, {1, 6}},
        {2, {4, 6}, {-1, 6, 0}, 2, {4, 0}},
        {3, {4, 3, 5}, {1, 0, 3}, 3, {4, 3, 5}},
    };
    RUN(op, v, cases);
    fails(kiln_narrow(matrix(), 1, 2, 2), KILN_E_SHAPE, op, "a part that leaves the axis");
    fails(kiln_narrow(matrix(), 1, -1, 1), KILN_E_SHAPE, op, "a negative start");
    fails(kiln_narrow(matrix(), 2, 0, 1), KILN_E_AXIS, op, "an axis out of range");
    fails(kiln_narrow(matrix(), 0, 1, INT64_MAX), KILN_E_SHAPE, op, "a length that overflows");
}

static kiln_tensor *call_select(kiln_tensor *x, const struct view_case *c)
{
    return kiln_select(x, c->args[0], c->args[1]);
}

static void map_select(const int64_t *out, int64_t *in, const void *user)
{
    const struct view_case *c = user;
    int64_t axis = (c->args[0] + c->rank) % c->rank, index = c->args[1] < 0 ? c->args[1] + c->dims[axis] : c->args[1];
    for (int i = 0; i < c->rank; i++) in[i] = i == axis ? index : out[i < axis ? i : i - 1];
}

void conform_select(const char *op)
{
    static const struct view_op v = {call_select, map_select, true};
    static const struct view_case cases[] = {
        {2, {4, 6}, {0, 2}, 1, {6}},
        {2, {4, 6}, {1, -1}, 1, {4}},
        {3, {4, 3, 5}, {-2, 1}, 2, {4, 5}},
        {1, {5}, {0, 3}, 0, {0}},
    };
    RUN(op, v, cases);
    fails(kiln_select(matrix(), 1, 3), KILN_E_AXIS, op, "an index out of range");
    fails(kiln_select(matrix(), 1, -4), KILN_E_AXIS, op, "a negative index out of range");
    fails(kiln_select(matrix(), 2, 0), KILN_E_AXIS, op, "an axis out of range");
}

static kiln_tensor *call_diagonal(kiln_tensor *x, const struct view_case *c)
{
    return kiln_diagonal(x, c->args[0], c->args[1], c->args[2]);
}

static void map_diagonal(const int64_t *out, int64_t *in, const void *user)
{
    const struct view_case *c = user;
    int64_t p = (c->args[1] + c->rank) % c->rank, q = (c->args[2] + c->rank) % c->rank, k = out[c->rank - 2],
            offset = c->args[0];
    int n = 0;
    for (int i = 0; i < c->rank; i++)
        if (i != p && i != q) in[i] = out[n++];
    in[p] = k - (offset < 0 ? offset : 0);
    in[q] = k + (offset > 0 ? offset : 0);
}

void conform_diagonal(const char *op)
{
    static const struct view_op v = {call_diagonal, map_diagonal, true};
    static const struct view_case cases[] = {
        {2, {4, 6}, {0, 0, 1}, 1, {4}}, {2, {4, 6}, {3, 0, 1}, 1, {3}},       {2, {4, 6}, {-2, 0, 1}, 1, {2}},
        {2, {4, 6}, {9, 0, 1}, 1, {0}}, {3, {4, 3, 5}, {1, 0, 2}, 2, {3, 4}}, {3, {4, 3, 5}, {0, -1, 0}, 2, {3, 4}},
    };
    RUN(op, v, cases);
    fails(kiln_diagonal(matrix(), 0, 1, -1), KILN_E_AXIS, op, "one axis as both");
}

// as_strided speaks of the storage, so only contiguous inputs have a layout to compare with.
void conform_as_strided(const char *op)
{
    for (int dtype = 0; dtype < DTYPES; dtype++) {
        struct host x;
        kiln_tensor *t = random_tensor(&x, dtype, 1, (const int64_t[]){40}, LAYOUT_CONTIGUOUS, -99, 99);
        const int64_t dims[] = {4, 3, 5}, strides[] = {7, 0, 2};
        struct host want = host_new(dtype, 3, dims);
        for (int64_t i = 0; i < want.n; i++) {
            int64_t at[3];
            unravel(3, dims, i, at);
            want.v[i] = x.v[3 + at[0] * 7 + at[2] * 2];
        }
        check_equal(kiln_as_strided(t, 3, dims, 3, strides, 3), &want, case_text(op, &x, LAYOUT_CONTIGUOUS, ""));
        host_free(&want);
        want = host_new(dtype, 1, (const int64_t[]){5});
        for (int64_t i = 0; i < 5; i++) want.v[i] = x.v[39 - 9 * i];
        check_equal(kiln_as_strided(t, 1, (const int64_t[]){5}, 1, (const int64_t[]){-9}, 39), &want,
                    "as_strided backwards");
        host_free(&want);
        host_free(&x);
    }
    kiln_tensor *m = matrix();
    fails(kiln_as_strided(m, KILN_SHAPE(2, 3), KILN_SHAPE(3, 2), 0), KILN_E_SHAPE, op, "elements behind the storage");
    fails(kiln_as_strided(m, KILN_SHAPE(2), KILN_SHAPE(-1), 0), KILN_E_SHAPE, op, "elements before the storage");
    fails(kiln_as_strided(m, KILN_SHAPE(2), KILN_SHAPE(1, 1), 0), KILN_E_SHAPE, op, "lists of two lengths");
    fails(kiln_as_strided(m, KILN_SHAPE(-2), KILN_SHAPE(1), 0), KILN_E_SHAPE, op, "a negative dimension");
}
