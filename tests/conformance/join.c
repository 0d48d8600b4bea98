// Joining, repeating, padding, triangles: ops that move elements and compute nothing.
#include "conformance/structured.h"
#include <kiln/ops.h>
#include <string.h>

static const int dtypes[] = {KILN_F32, KILN_BOOL, KILN_I16, KILN_F64, KILN_BF16, KILN_U8, KILN_I64, KILN_F16};
enum { N_DTYPES = sizeof dtypes / sizeof dtypes[0] };

static void fails(kiln_tensor *result, kiln_status status, const char *op, const char *what)
{
    if (result) record_mistake("%s takes %s", op, what);
    expect_error(status, op, what);
}

static kiln_tensor *matrix(void)
{
    return kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3));
}

static void join(const char *op, int n, int64_t axis, int rank, const int64_t (*dims)[4], const int *types,
                 enum host_layout layout, bool stacked)
{
    kiln_scope *scope = kiln_scope_begin();
    struct host parts[3];
    kiln_tensor *in[3];
    int dtype = types[0], to = rank + stacked;
    for (int i = 0; i < n; i++) {
        in[i] = random_tensor(&parts[i], types[i], rank, dims[i], layout, 0, 99);
        dtype = promoted(dtype, types[i]);
    }
    int at = (int)(axis < 0 ? axis + to : axis);
    for (int i = 0; i < n && stacked; i++) {
        memmove(parts[i].dims + at + 1, parts[i].dims + at, (size_t)(rank - at) * sizeof(int64_t));
        parts[i].dims[at] = 1;
        parts[i].rank++;
    }
    struct host want = reference_concat(parts, n, at, dtype);
    check_equal(stacked ? kiln_stack(in, (size_t)n, axis) : kiln_concat(in, (size_t)n, axis), &want,
                case_text(op, &parts[0], layout, ""));
    for (int i = 0; i < n; i++) host_free(&parts[i]);
    host_free(&want);
    kiln_scope_end(&scope);
}

static const int64_t equal_parts[3][4] = {{4, 3, 5}, {4, 3, 5}, {4, 3, 5}};

void conform_concat(const char *op)
{
    static const int64_t rows[3][4] = {{4, 3, 5}, {1, 3, 5}, {0, 3, 5}},
                         columns[3][4] = {{4, 3, 5}, {4, 3, 1}, {4, 3, 7}}, one[3][4] = {{9}, {1}, {4}};
    for (int d = 0; d < N_DTYPES; d++) {
        const int same[] = {dtypes[d], dtypes[d], dtypes[d]};
        for (int l = 0; l < LAYOUT_COUNT; l++) {
            if (thinned(d + l, 3)) continue;
            join(op, 3, 0, 3, rows, same, (enum host_layout)l, false);
            join(op, 3, -1, 3, columns, same, (enum host_layout)l, false);
            join(op, 2, 1, 3, equal_parts, same, (enum host_layout)l, false);
        }
        join(op, 1, 0, 1, one, same, LAYOUT_CONTIGUOUS, false);
        join(op, 3, 0, 1, one, same, LAYOUT_STEP, false);
    }
    join(op, 3, 0, 1, one, (const int[]){KILN_I32, KILN_F16, KILN_BF16}, LAYOUT_CONTIGUOUS, false);
    join(op, 2, 0, 1, one, (const int[]){KILN_U8, KILN_I8}, LAYOUT_CONTIGUOUS, false);
    kiln_tensor *bad[] = {matrix(), kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 4))};
    fails(kiln_concat(bad, 2, 0), KILN_E_SHAPE, op, "sizes that differ off the axis");
    fails(kiln_concat(bad, 2, 2), KILN_E_AXIS, op, "an axis out of range");
    fails(kiln_concat(NULL, 0, 0), KILN_E_ARGUMENT, op, "no tensors");
}

void conform_stack(const char *op)
{
    for (int d = 0; d < N_DTYPES; d++) {
        const int same[] = {dtypes[d], dtypes[d], dtypes[d]};
        for (int axis = -4; axis < 4; axis++)
            if (!thinned(d + axis + 4, 4))
                join(op, 3, axis, 3, equal_parts, same, (enum host_layout)((axis + 4 + d) % LAYOUT_COUNT), true);
        join(op, 2, 0, 0, equal_parts, same, LAYOUT_CONTIGUOUS, true);
    }
    join(op, 2, 1, 3, equal_parts, (const int[]){KILN_I32, KILN_F32}, LAYOUT_CONTIGUOUS, true);
    kiln_tensor *bad[] = {matrix(), kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 4))};
    fails(kiln_stack(bad, 2, 0), KILN_E_SHAPE, op, "two shapes");
    fails(kiln_stack(bad, 1, 3), KILN_E_AXIS, op, "an axis out of range");
}

// Ops that read one element of x for each of theirs.
struct mover {
    int rank;
    int64_t dims[4];
    int64_t args[8];
    int out_rank;
    int64_t out[5];
};

static void move(const char *op, const struct mover *c, size_t n,
                 kiln_tensor *(*call)(kiln_tensor *, const struct mover *), index_map map)
{
    for (size_t i = 0; i < n; i++)
        for (int d = 0; d < N_DTYPES; d++) {
            if (thinned((int)i + d, 3)) continue;
            enum host_layout layout = (enum host_layout)((i + (size_t)d) % LAYOUT_COUNT);
            kiln_scope *scope = kiln_scope_begin();
            struct host x;
            kiln_tensor *t = random_tensor(&x, dtypes[d], c[i].rank, c[i].dims, layout, -99, 99);
            struct host want = reference_map(&x, c[i].out_rank, c[i].out, map, &c[i], 0);
            check_equal(call(t, &c[i]), &want, case_text(op, &x, layout, ""));
            host_free(&x);
            host_free(&want);
            kiln_scope_end(&scope);
        }
}
#define MOVE(op, cases, call, map) move(op, cases, sizeof(cases) / sizeof((cases)[0]), call, map)

static kiln_tensor *call_tile(kiln_tensor *x, const struct mover *c)
{
    return kiln_tile(x, (size_t)c->args[0], c->args + 1);
}

static void map_tile(const int64_t *out, int64_t *in, const void *user)
{
    const struct mover *c = user;
    for (int i = 0; i < c->rank; i++) in[i] = out[i + c->out_rank - c->rank] % c->dims[i];
}

void conform_tile(const char *op)
{
    static const struct mover cases[] = {
        {2, {2, 3}, {2, 2, 3}, 2, {4, 9}}, {1, {4}, {2, 3, 2}, 2, {3, 8}},    {3, {2, 3, 2}, {1, 2}, 3, {2, 3, 4}},
        {2, {2, 3}, {2, 1, 1}, 2, {2, 3}}, {2, {2, 3}, {2, 0, 2}, 2, {0, 6}}, {0, {0}, {1, 3}, 1, {3}},
    };
    MOVE(op, cases, call_tile, map_tile);
    record.cases++;
    if (kiln_tile(matrix(), 2, (const int64_t[]){2, -1})) record_mistake("tile takes -1 repeats");
    if (!kiln_error()) record_mistake("-1 repeats is no error");
    kiln_error_clear();
}

static kiln_tensor *call_repeat(kiln_tensor *x, const struct mover *c)
{
    return kiln_repeat_interleave(x, c->args[0], c->args[1]);
}

static void map_repeat(const int64_t *out, int64_t *in, const void *user)
{
    const struct mover *c = user;
    for (int i = 0; i < c->rank; i++) in[i] = out[i] / (i == (c->args[1] + c->rank) % c->rank ? c->args[0] : 1);
}

void conform_repeat_interleave(const char *op)
{
    static const struct mover cases[] = {
        {2, {2, 3}, {2, 0}, 2, {4, 3}},
        {2, {2, 3}, {3, -1}, 2, {2, 9}},
        {1, {5}, {1, 0}, 1, {5}},
        {3, {2, 3, 2}, {2, 1}, 3, {2, 6, 2}},
    };
    MOVE(op, cases, call_repeat, map_repeat);
    fails(kiln_repeat_interleave(matrix(), 2, 2), KILN_E_AXIS, op, "an axis out of range");
}

static kiln_tensor *call_roll(kiln_tensor *x, const struct mover *c)
{
    return kiln_roll(x, (kiln_ints){(size_t)c->args[0], c->args + 2}, (kiln_ints){(size_t)c->args[1], c->args + 4});
}

// args: number of shifts, of axes; two shifts; two axes.
static void map_roll(const int64_t *out, int64_t *in, const void *user)
{
    const struct mover *c = user;
    int64_t n = 1, at = ravel(c->rank, c->dims, out);
    for (int i = 0; i < c->rank; i++) {
        n *= c->dims[i];
        in[i] = out[i];
    }
    if (c->args[1] == 0) unravel(c->rank, c->dims, ((at - c->args[2]) % n + n) % n, in);
    for (int k = 0; k < c->args[1]; k++) {
        int64_t axis = (c->args[4 + k] + c->rank) % c->rank, size = c->dims[axis];
        in[axis] = ((in[axis] - c->args[2 + k]) % size + size) % size;
    }
}

void conform_roll(const char *op)
{
    static const struct mover cases[] = {
        {1, {7}, {1, 1, 2, 0, 0}, 1, {7}},
        {2, {4, 5}, {1, 1, -1, 0, 0}, 2, {4, 5}},
        {2, {4, 5}, {2, 2, 1, 13, 0, -1}, 2, {4, 5}},
        {2, {4, 5}, {1, 0, 7}, 2, {4, 5}},
        {2, {4, 5}, {1, 0, -3}, 2, {4, 5}},
        {3, {2, 3, 4}, {1, 1, 0, 0, 1}, 3, {2, 3, 4}},
        {2, {4, 5}, {1, 1, -9, 0, 1}, 2, {4, 5}},
    };
    MOVE(op, cases, call_roll, map_roll);
    fails(kiln_roll(matrix(), KILN_AXES(1), KILN_AXES(2)), KILN_E_AXIS, op, "an axis out of range");
}

// args[0] = k; lower triangle or upper.
static kiln_tensor *call_tril(kiln_tensor *x, const struct mover *c)
{
    return kiln_tril(x, c->args[0]);
}

static kiln_tensor *call_triu(kiln_tensor *x, const struct mover *c)
{
    return kiln_triu(x, c->args[0]);
}

static void map_triangle(const int64_t *out, int64_t *in, const struct mover *c, bool lower)
{
    int64_t above = out[c->rank - 1] - out[c->rank - 2];
    memcpy(in, out, (size_t)c->rank * sizeof in[0]);
    if (lower ? above > c->args[0] : above < c->args[0]) in[0] = -1;
}

static void map_tril(const int64_t *out, int64_t *in, const void *user)
{
    map_triangle(out, in, user, true);
}

static void map_triu(const int64_t *out, int64_t *in, const void *user)
{
    map_triangle(out, in, user, false);
}

static const struct mover triangles[] = {
    {2, {4, 4}, {0}, 2, {4, 4}},       {2, {4, 6}, {1}, 2, {4, 6}},  {2, {6, 4}, {-2}, 2, {6, 4}},
    {3, {3, 4, 5}, {0}, 3, {3, 4, 5}}, {2, {4, 4}, {99}, 2, {4, 4}}, {2, {4, 4}, {-99}, 2, {4, 4}},
    {2, {0, 4}, {0}, 2, {0, 4}},
};

void conform_tril(const char *op)
{
    MOVE(op, triangles, call_tril, map_tril);
    fails(kiln_tril(kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3)), 0), KILN_E_SHAPE, op, "a vector");
}

void conform_triu(const char *op)
{
    MOVE(op, triangles, call_triu, map_triu);
    fails(kiln_triu(kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3)), 0), KILN_E_SHAPE, op, "a vector");
}

// As many dimensions as there may be, padded at once and one after the other.
static void pad_many_dimensions(int64_t rank)
{
    int64_t dims[16], one[16];
    for (int d = 0; d < rank; d++) dims[d] = d % 5 == 0 ? 2 : 1, one[d] = 1;
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_reshape(kiln_arange(suite.dev, KILN_F32, 0, 1 << (rank + 4) / 5, 1), (int)rank, dims), *y = x;
    for (int d = 0; d < rank; d++) {
        int64_t before[16] = {0};
        before[d] = 1;
        y = kiln_pad(y, KILN_PAD(.before = {(size_t)d + 1, before}, .value = -1));
    }
    bool same = false;
    kiln_tensor *at_once = kiln_pad(x, KILN_PAD(.before = {(size_t)rank, one}, .value = -1));
    kiln_read(kiln_all(kiln_equal(at_once, y), NULL), &same, sizeof same);
    if (!(same || suite.is_null) || kiln_error()) record_mistake("pad of many dimensions is not that of each");
    kiln_error_clear();
    kiln_scope_end(&scope);
}

void conform_pad(const char *op)
{
    static const struct {
        int rank;
        int64_t dims[3], before[3], after[3];
        enum pad_mode mode;
        double value;
    } cases[] = {
        {1, {5}, {2}, {3}, PAD_CONSTANT, 0},
        {2, {3, 4}, {1, 0}, {0, 2}, PAD_CONSTANT, 7},
        {2, {3, 4}, {2, 3}, {1, 2}, PAD_REFLECT, 0},
        {2, {3, 4}, {2, 5}, {6, 2}, PAD_EDGE, 0},
        {2, {3, 4}, {2, 3}, {1, 4}, PAD_CIRCULAR, 0},
        {3, {2, 3, 4}, {1, 1, 1}, {0, 0, 2}, PAD_CONSTANT, -3},
        {2, {0, 4}, {1, 1}, {1, 0}, PAD_CONSTANT, 2},
        {1, {5}, {0}, {0}, PAD_REFLECT, 0},
        {3, {2, 3, 4}, {0, 2, 1}, {0, 1, 3}, PAD_REFLECT, 0},
        {3, {2, 3, 4}, {0, 2, 1}, {0, 1, 3}, PAD_CONSTANT, 5},
        {3, {2, 3, 4}, {2, 0, 1}, {1, 0, 3}, PAD_CONSTANT, 5},
        {3, {2, 3, 4}, {2, 1, 0}, {1, 2, 0}, PAD_CONSTANT, 5},
        {3, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, PAD_CONSTANT, 5},
        {3, {1, 3, 2}, {0, 1, 1}, {0, 1, 1}, PAD_CONSTANT, 5},
        {3, {2, 3, 4}, {0, 0, 2}, {0, 0, 1}, PAD_CONSTANT, 5},
        {3, {2, 9, 40}, {0, 1, 1}, {0, 1, 2}, PAD_CONSTANT, 5},
        {2, {3, 300}, {1, 2}, {0, 1}, PAD_CONSTANT, 5},
        {3, {40, 60, 60}, {0, 1, 1}, {0, 1, 1}, PAD_CONSTANT, 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int d = 0; d < N_DTYPES; d++) {
            if (thinned((int)i + d, 3) || (cases[i].value < 0 && dtypes[d] == KILN_U8)) continue;
            kiln_scope *scope = kiln_scope_begin();
            enum host_layout layout = (enum host_layout)((i + (size_t)d) % LAYOUT_COUNT);
            size_t rank = (size_t)cases[i].rank;
            struct host x;
            kiln_tensor *t = random_tensor(&x, dtypes[d], cases[i].rank, cases[i].dims, layout, -99, 99);
            struct host want = reference_pad(&x, cases[i].before, cases[i].after, cases[i].mode, cases[i].value);
            kiln_pad_opts o = {.size = sizeof o,
                               .before = {rank, cases[i].before},
                               .after = {rank, cases[i].after},
                               .value = cases[i].value,
                               .mode = (int64_t)cases[i].mode};
            check_equal(kiln_pad(t, &o), &want, case_text(op, &x, layout, ""));
            host_free(&x);
            host_free(&want);
            kiln_scope_end(&scope);
        }
    pad_many_dimensions(10);
    pad_many_dimensions(16);
    record.cases++;
    if (kiln_pad(matrix(), KILN_PAD(.before = KILN_ARGS(0, 3), .mode = KILN_PAD_REFLECT)))
        record_mistake("pad mirrors more than there is");
    if (!kiln_error()) record_mistake("a mirror past the other side is no error");
    kiln_error_clear();
}

void conform_eye(const char *op)
{
    static const int64_t sizes[][2] = {{3, 3}, {2, 5}, {5, 2}, {1, 1}, {0, 3}, {40, 41}};
    for (int dtype = 0; dtype < DTYPES; dtype++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            struct host want = host_new(dtype, 2, sizes[i]);
            for (int64_t k = 0; k < want.n; k++) want.v[k] = k / sizes[i][1] == k % sizes[i][1];
            check_equal(kiln_eye(suite.dev, (kiln_dtype)dtype, sizes[i][0], sizes[i][1]), &want,
                        case_text(op, &want, LAYOUT_CONTIGUOUS, ""));
            host_free(&want);
        }
    fails(kiln_eye(suite.dev, KILN_F32, -1, 2), KILN_E_SHAPE, op, "a negative size");
}

static void like(const char *op, double value, int which)
{
    for (int dtype = 0; dtype < DTYPES; dtype++)
        for (int l = 0; l < LAYOUT_COUNT; l++) {
            struct host x;
            kiln_tensor *t = random_tensor(&x, dtype, 2, (const int64_t[]){5, 6}, (enum host_layout)l, 0, 9);
            for (int64_t k = 0; k < x.n; k++) x.v[k] = converted(KILN_F64, dtype, value);
            check_equal(which == 0   ? kiln_zeros_like(t)
                        : which == 1 ? kiln_ones_like(t)
                                     : kiln_full_like(t, value),
                        &x, case_text(op, &x, (enum host_layout)l, ""));
            host_free(&x);
        }
}

void conform_full_like(const char *op)
{
    like(op, 3.25, 2);
    like(op, 0, 2);
}

void conform_zeros_like(const char *op)
{
    like(op, 0, 0);
}

void conform_ones_like(const char *op)
{
    like(op, 1, 1);
}

// embed writes x through strides into zeros, as_strided_scatter into a copy, where as_strided_add adds it.
enum through { INTO_ZEROS, IN_PLACE_OF, ADDED_TO };

static kiln_tensor *embedded(enum through how, kiln_tensor *x, kiln_tensor *src, const int64_t *strides, int64_t offset)
{
    size_t rank = kiln_rank(src);
    if (how == INTO_ZEROS) return kiln_embed(src, kiln_rank(x), kiln_dims(x), rank, strides, offset);
    return how == ADDED_TO ? kiln_as_strided_add(x, src, rank, strides, offset)
                           : kiln_as_strided_scatter(x, src, rank, strides, offset);
}

static void through_strides(const char *op, enum through how)
{
    for (int d = 0; d < N_DTYPES; d++) {
        const int64_t dims[] = {4, 10}, part[] = {2, 3}, strides[] = {20, 3}, backwards[] = {-20, 3};
        for (int turn = 0; turn < 2 && (how != ADDED_TO || dtypes[d] != KILN_BOOL); turn++) {
            struct host x, src;
            kiln_tensor *t = random_tensor(&x, dtypes[d], 2, dims, LAYOUT_TRANSPOSED, 1, 99);
            kiln_tensor *s = random_tensor(&src, dtypes[d], 2, part, turn ? LAYOUT_STEP : LAYOUT_TRANSPOSED, 1, 99);
            struct host want = how == INTO_ZEROS ? host_new(dtypes[d], 2, dims) : host_copy(&x);
            int64_t offset = turn ? 31 : 2;
            for (int64_t i = 0; i < src.n; i++) {
                long double *at = &want.v[offset + i / 3 * (turn ? -20 : 20) + i % 3 * 3];
                *at = how == ADDED_TO ? converted(KILN_F64, dtypes[d], (double)(*at + src.v[i])) : src.v[i];
            }
            check_equal(embedded(how, t, s, turn ? backwards : strides, offset), &want,
                        case_text(op, &src, LAYOUT_CONTIGUOUS, turn ? "backwards" : ""));
            host_free(&x);
            host_free(&src);
            host_free(&want);
        }
    }
    kiln_tensor *m = matrix(), *to = how == INTO_ZEROS ? kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(5)) : m;
    record.cases++;
    if (embedded(how, to, m, (const int64_t[]){3, 1}, 1)) record_mistake("%s writes past the end", op);
    if (!kiln_error()) record_mistake("%s: positions past the end are no error", op);
    kiln_error_clear();
}

void conform_embed(const char *op)
{
    through_strides(op, INTO_ZEROS);
}

void conform_as_strided_scatter(const char *op)
{
    through_strides(op, IN_PLACE_OF);
}

void conform_as_strided_add(const char *op)
{
    through_strides(op, ADDED_TO);
    kiln_tensor *truth = kiln_ones(suite.dev, KILN_BOOL, KILN_SHAPE(4));
    record.cases++;
    if (kiln_as_strided_add(truth, truth, KILN_SHAPE(1), 0)) record_mistake("%s adds bools", op);
    kiln_error_clear();
}
