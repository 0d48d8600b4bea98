// Axes in other places, diagonals, turns; tensors side by side, apart and in grids.
#include "compose/case.h"
#include <kiln/kiln.h>
#include <string.h>

#define CALL(name, ...)                                                \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        out[0] = __VA_ARGS__;                                          \
    }
// The result has the dims given, and element `at` of it is that of the input at `from`; from[0] = -1: a zero.
#define MOVES(name, rank_, dims_, ...)                                         \
    static void map_##name(const int64_t *at, int64_t *from, const void *user) \
    {                                                                          \
        const struct host *x = user;                                           \
        (void)x;                                                               \
        __VA_ARGS__                                                            \
    }                                                                          \
    static void expect_##name(const struct host *in, struct host *out)         \
    {                                                                          \
        const struct host *x = &in[0];                                         \
        int64_t dims[] = dims_;                                                \
        (void)x;                                                               \
        out[0] = reference_map(&in[0], rank_, dims, map_##name, x, 0);         \
    }
#define DIMS(...)   \
    {               \
        __VA_ARGS__ \
    }

CALL(diag, kiln_diag(in[0], 1))
MOVES(diag, 2, DIMS(x->n + 1, x->n + 1), { from[0] = at[1] == at[0] + 1 ? at[0] : -1; })
CALL(diag_of, kiln_diag(in[0], -1))
MOVES(diag_of, 1, DIMS(x->dims[0] - 1), { from[0] = at[0] + 1, from[1] = at[0]; })
CALL(diag_embed, kiln_diag_embed(in[0], -2, 0, 2))
MOVES(diag_embed, 3, DIMS(x->dims[1] + 2, x->dims[0], x->dims[1] + 2),
      { from[0] = at[0] == at[2] + 2 ? at[1] : -1, from[1] = at[2]; })
CALL(diagflat, kiln_diagflat(in[0], 0))
MOVES(diagflat, 2, DIMS(x->n, x->n),
      { from[0] = at[0] == at[1] ? at[0] / x->dims[1] : -1, from[1] = at[0] % x->dims[1]; })
CALL(moveaxis, kiln_moveaxis(in[0], KILN_AXES(0, -1), KILN_AXES(-1, 0)))
MOVES(moveaxis, 3, DIMS(x->dims[2], x->dims[1], x->dims[0]), { from[2] = at[0], from[1] = at[1], from[0] = at[2]; })
CALL(movedim, kiln_movedim(in[0], KILN_AXES(2), KILN_AXES(0)))
MOVES(movedim, 3, DIMS(x->dims[2], x->dims[0], x->dims[1]), { from[2] = at[0], from[0] = at[1], from[1] = at[2]; })
CALL(unflatten, kiln_unflatten(in[0], 1, KILN_SHAPE(2, -1)))
MOVES(unflatten, 4, DIMS(x->dims[0], 2, x->dims[1] / 2, x->dims[2]),
      { from[0] = at[0], from[1] = at[1] * (x->dims[1] / 2) + at[2], from[2] = at[3]; })
CALL(ravel, kiln_ravel(in[0]))
MOVES(ravel, 1, DIMS(x->n), { from[0] = at[0] / x->dims[1], from[1] = at[0] % x->dims[1]; })
CALL(atleast_1d, kiln_atleast_1d(in[0]))
MOVES(atleast_1d, 1, DIMS(1), { (void)at, from[0] = 0; })
CALL(atleast_2d, kiln_atleast_2d(in[0]))
MOVES(atleast_2d, 2, DIMS(1, x->n), { from[0] = at[1]; })
CALL(atleast_3d, kiln_atleast_3d(in[0]))
MOVES(atleast_3d, 3, DIMS(x->dims[0], x->dims[1], 1), { from[0] = at[0], from[1] = at[1]; })
MOVES(atleast_3d_line, 3, DIMS(1, x->n, 1), { from[0] = at[1]; })
CALL(fliplr, kiln_fliplr(in[0]))
MOVES(fliplr, 2, DIMS(x->dims[0], x->dims[1]), { from[0] = at[0], from[1] = x->dims[1] - 1 - at[1]; })
CALL(flipud, kiln_flipud(in[0]))
MOVES(flipud, 2, DIMS(x->dims[0], x->dims[1]), { from[0] = x->dims[0] - 1 - at[0], from[1] = at[1]; })
CALL(rot90, kiln_rot90(in[0], 1, 0, 1))
MOVES(rot90, 2, DIMS(x->dims[1], x->dims[0]), { from[0] = at[1], from[1] = x->dims[1] - 1 - at[0]; })
CALL(rot180, kiln_rot90(in[0], -2, 0, 1))
MOVES(rot180, 2, DIMS(x->dims[0], x->dims[1]), { from[0] = x->dims[0] - 1 - at[0], from[1] = x->dims[1] - 1 - at[1]; })
CALL(rot270, kiln_rot90(in[0], 3, 0, 1))
MOVES(rot270, 2, DIMS(x->dims[1], x->dims[0]), { from[0] = x->dims[0] - 1 - at[1], from[1] = at[0]; })

CALL(reverse_sequence, kiln_reverse_sequence(in[0], in[1], 0, 1))
static void expect_reverse_sequence(const struct host *in, struct host *out)
{
    out[0] = host_new(in[0].dtype, 3, in[0].dims);
    int64_t *d = out[0].dims;
    for (int64_t t = 0; t < d[0]; t++)
        for (int64_t b = 0; b < d[1]; b++)
            for (int64_t k = 0; k < d[2]; k++) {
                int64_t n = (int64_t)in[1].v[b], from = t < n ? n - 1 - t : t;
                out[0].v[(t * d[1] + b) * d[2] + k] = in[0].v[(from * d[1] + b) * d[2] + k];
            }
}

// --- side by side

// Of the inputs seen with dims `as`, along an axis.
static void join(const struct host *in, struct host *out, int n, int rank, const int64_t (*as)[3], int axis)
{
    struct host parts[3];
    int dtype = in[0].dtype;
    for (int i = 0; i < n; i++) {
        parts[i] = host_new(in[i].dtype, rank, as[i]);
        memcpy(parts[i].v, in[i].v, (size_t)in[i].n * sizeof *in[i].v);
        dtype = promoted(dtype, in[i].dtype);
    }
    *out = reference_concat(parts, n, axis, dtype);
    for (int i = 0; i < n; i++) host_free(&parts[i]);
}
#define JOINS(op, n, rank, axis, ...)                                  \
    CALL(op, kiln_##op(in, n))                                         \
    static void expect_##op(const struct host *in, struct host *out)   \
    {                                                                  \
        join(in, out, n, rank, (const int64_t[][3])__VA_ARGS__, axis); \
    }
JOINS(hstack, 2, 1, 0, {{in[0].n}, {in[1].n}})
CALL(hstack_matrices, kiln_hstack(in, 2))
static void expect_hstack_matrices(const struct host *in, struct host *out)
{
    join(in, out, 2, 2, (const int64_t[][3]){{in[0].dims[0], in[0].dims[1]}, {in[1].dims[0], in[1].dims[1]}}, 1);
}
JOINS(vstack, 2, 2, 0, {{1, in[0].n}, {in[1].dims[0], in[1].dims[1]}})
JOINS(row_stack, 2, 2, 0, {{1, in[0].n}, {1, in[1].n}})
JOINS(dstack, 2, 3, 2, {{1, in[0].n, 1}, {1, in[1].n, 1}})
JOINS(column_stack, 2, 2, 1, {{in[0].n, 1}, {in[1].dims[0], in[1].dims[1]}})

CALL(block_diag, kiln_block_diag(in, 2))
static void expect_block_diag(const struct host *in, struct host *out)
{
    int64_t m = in[0].dims[0], n = in[0].dims[1], w = n + in[1].n, dims[] = {m + 1, w};
    out[0] = host_new(promoted(in[0].dtype, in[1].dtype), 2, dims);
    for (int64_t i = 0; i < m; i++)
        for (int64_t k = 0; k < n; k++) out[0].v[i * w + k] = in[0].v[i * n + k];
    for (int64_t k = 0; k < in[1].n; k++) out[0].v[m * w + n + k] = in[1].v[k];
}

// --- apart

static void cut(const struct host *x, struct host *out, int axis, int n, const int64_t *ends)
{
    for (int i = 0; i < n; i++) {
        int64_t dims[KILN_MAX_RANK], from = i ? ends[i - 1] : 0, at[KILN_MAX_RANK];
        memcpy(dims, x->dims, sizeof dims);
        dims[axis] = ends[i] - from;
        out[i] = host_new(x->dtype, x->rank, dims);
        for (int64_t k = 0; k < out[i].n; k++) {
            unravel(x->rank, dims, k, at);
            at[axis] += from;
            out[i].v[k] = x->v[ravel(x->rank, x->dims, at)];
        }
    }
}
#define CUTS(name, axis, n, ends, ...)                                 \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        __VA_ARGS__;                                                   \
    }                                                                  \
    static void expect_##name(const struct host *in, struct host *out) \
    {                                                                  \
        cut(&in[0], out, axis, n, (const int64_t[])ends);              \
    }
CUTS(array_split, 1, 3, DIMS(2, 4, 5), kiln_array_split(in[0], -1, out, 3))
CUTS(tensor_split, 0, 3, DIMS(1, 4, 5), kiln_tensor_split(in[0], 0, KILN_SHAPE(1, -1), out, 3))
CUTS(hsplit, 1, 2, DIMS(2, 4), kiln_hsplit(in[0], out, 2))
CUTS(vsplit, 0, 2, DIMS(2, 4), kiln_vsplit(in[0], out, 2))
CUTS(dsplit, 2, 2, DIMS(1, 2), kiln_dsplit(in[0], out, 2))

static void call_broadcast_tensors(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_broadcast_tensors(in, 3, out, 3);
}
static void expect_broadcast_tensors(const struct host *in, struct host *out)
{
    int64_t dims[] = {2, 3, 4};
    for (int i = 0; i < 3; i++) {
        out[i] = host_new(in[i].dtype, 3, dims);
        for (int64_t k = 0; k < out[i].n; k++) out[i].v[k] = in[i].v[host_at(&in[i], 3, dims, k)];
    }
}

static void call_meshgrid_xy(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_meshgrid_xy(in, 2, out, 2);
}
static void expect_meshgrid_xy(const struct host *in, struct host *out)
{
    int64_t dims[] = {in[1].n, in[0].n};
    for (int i = 0; i < 2; i++) out[i] = host_new(in[i].dtype, 2, dims);
    for (int64_t k = 0; k < out[0].n; k++) {
        out[0].v[k] = in[0].v[k % in[0].n];
        out[1].v[k] = in[1].v[k / in[0].n];
    }
}

CALL(cartesian_prod, kiln_cartesian_prod(in, 2))
static void expect_cartesian_prod(const struct host *in, struct host *out)
{
    int64_t dims[] = {in[0].n * in[1].n, 2};
    out[0] = host_new(in[0].dtype, 2, dims);
    for (int64_t k = 0; k < dims[0]; k++) {
        out[0].v[2 * k] = in[0].v[k / in[1].n];
        out[0].v[2 * k + 1] = in[1].v[k % in[1].n];
    }
}

CALL(combinations, kiln_combinations(in[0], 2, false))
CALL(combinations_again, kiln_combinations(in[0], 2, true))
static void pairs(const struct host *in, struct host *out, bool again)
{
    int64_t n = in[0].n, dims[] = {again ? n * (n + 1) / 2 : n * (n - 1) / 2, 2}, at = 0;
    out[0] = host_new(in[0].dtype, 2, dims);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = again ? i : i + 1; k < n; k++) out[0].v[at++] = in[0].v[i], out[0].v[at++] = in[0].v[k];
}
static void expect_combinations(const struct host *in, struct host *out)
{
    pairs(in, out, false);
}
static void expect_combinations_again(const struct host *in, struct host *out)
{
    pairs(in, out, true);
}

// Of matrices as large as the input, which is not looked at.
CALL(tril_indices, kiln_tril_indices(kiln_tensor_device(in[0]), 3, 4, -1))
CALL(triu_indices, kiln_triu_indices(kiln_tensor_device(in[0]), 3, 4, 1))
static void triangle(struct host *out, bool lower)
{
    int64_t dims[] = {2, lower ? 3 : 6}, n = 0;
    out[0] = host_new(KILN_I64, 2, dims);
    for (int64_t i = 0; i < 3; i++)
        for (int64_t k = 0; k < 4; k++)
            if (lower ? k <= i - 1 : k >= i + 1) out[0].v[n] = i, out[0].v[dims[1] + n++] = k;
}
static void expect_tril_indices(const struct host *in, struct host *out)
{
    (void)in;
    triangle(out, true);
}
static void expect_triu_indices(const struct host *in, struct host *out)
{
    (void)in;
    triangle(out, false);
}

CALL(vander, kiln_vander(in[0], 4, false))
CALL(vander_up, kiln_vander(in[0], 3, true))
static void powers(const struct host *in, struct host *out, int64_t n, bool up)
{
    int64_t dims[] = {in[0].n, n};
    out[0] = host_new(is_float(in[0].dtype) ? in[0].dtype : KILN_I64, 2, dims);
    for (int64_t i = 0; i < in[0].n; i++)
        for (int64_t k = 0; k < n; k++) out[0].v[i * n + k] = powl(in[0].v[i], up ? k : n - 1 - k);
}
static void expect_vander(const struct host *in, struct host *out)
{
    powers(in, out, 4, false);
}
static void expect_vander_up(const struct host *in, struct host *out)
{
    powers(in, out, 3, true);
}

enum { ALL = IN_NUMBERS | IN_BOOL };
#define IS(name) call_##name, expect_##name

static const struct op_case arrange_cases[] = {
    {"diag", "of a vector", "3", ALL, IS(diag), .order = 2},
    {"diag", "of a matrix", "4x5", ALL, IS(diag_of), .order = 2},
    {"diag_embed", "below, two axes", "2x3", ALL, IS(diag_embed), .order = 2},
    {"diagflat", "matrix", "2x3", ALL, IS(diagflat), .order = 2},
    {"moveaxis", "two", "2x3x4", ALL, IS(moveaxis), .order = 2},
    {"moveaxis", "by its other name", "2x3x4", IN_WIDE, IS(movedim)},
    {"unflatten", "one open", "2x6x3", ALL, IS(unflatten), .order = 2},
    {"ravel", "matrix", "2x3", ALL, IS(ravel), .order = 2},
    {"atleast_1d", "number", "-", ALL, IS(atleast_1d), .order = 2},
    {"atleast_2d", "vector", "3", ALL, IS(atleast_2d), .order = 2},
    {"atleast_3d", "matrix", "2x3", ALL, IS(atleast_3d), .order = 2},
    {"atleast_3d", "vector", "3", ALL, call_atleast_3d, expect_atleast_3d_line},
    {"fliplr", "matrix", "2x3", ALL, IS(fliplr), .order = 2},
    {"flipud", "matrix", "2x3", ALL, IS(flipud), .order = 2},
    {"rot90", "once", "2x3", ALL, IS(rot90), .order = 2},
    {"rot90", "twice back", "2x3", ALL, IS(rot180), .order = 2},
    {"rot90", "three times", "2x3", ALL, IS(rot270), .order = 2},
    {"reverse_sequence", "rows", "4x3x2 i3<5", ALL, IS(reverse_sequence), .order = 2},
    {"hstack", "vectors", "3 2", ALL, IS(hstack), .order = 2},
    {"hstack", "matrices", "2x3 2x2", ALL, IS(hstack_matrices), .order = 2},
    {"vstack", "a vector and a matrix", "3 2x3", ALL, IS(vstack), .order = 2},
    {"vstack", "by its other name", "3 3", IN_WIDE, IS(row_stack)},
    {"dstack", "vectors", "3 3", ALL, IS(dstack), .order = 2},
    {"column_stack", "a vector and a matrix", "3 3x2", ALL, IS(column_stack), .order = 2},
    {"block_diag", "a matrix and a row", "2x3 2", IN_NUMBERS, IS(block_diag), .order = 2},
    {"array_split", "unequal", "2x5", ALL, IS(array_split), .n_out = 3, .order = 2},
    {"tensor_split", "at places", "5x2", ALL, IS(tensor_split), .n_out = 3, .order = 2},
    {"hsplit", "matrix", "2x4", ALL, IS(hsplit), .n_out = 2, .order = 2},
    {"vsplit", "matrix", "4x3", ALL, IS(vsplit), .n_out = 2, .order = 2},
    {"dsplit", "rank 3", "2x3x2", ALL, IS(dsplit), .n_out = 2, .order = 2},
    {"broadcast_tensors", "three", "3x1 2x1x4 -", ALL, IS(broadcast_tensors), .n_out = 3, .order = 2},
    {"meshgrid_xy", "two lines", "3 2", ALL, IS(meshgrid_xy), .n_out = 2, .order = 2},
    {"cartesian_prod", "two lines", "3 2", ALL, IS(cartesian_prod), .order = 2},
    {"combinations", "pairs", "4", ALL, IS(combinations), .order = 2},
    {"combinations", "with replacement", "3", ALL, IS(combinations_again), .order = 2},
    {"combinations", "none", "1", IN_WIDE, IS(combinations)},
    {"tril_indices", "below", "1", IN_F32, IS(tril_indices)},
    {"triu_indices", "above", "1", IN_F32, IS(triu_indices)},
    {"vander", "four", "3", IN_NUMBERS, IS(vander), .units = 8, .order = 2},
    {"vander", "increasing", "3", IN_NUMBERS, IS(vander_up), .units = 8, .order = 2},
};
FAMILY_OF(arrange);
