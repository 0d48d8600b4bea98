// kiln_index and its writes, against places that are counted one by one.
#include "compose/case.h"
#include <kiln/kiln.h>

#define CALL(name, ...)                                                \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        __VA_ARGS__;                                                   \
    }
#define DIMS(...)   \
    {               \
        __VA_ARGS__ \
    }
// Element `at` of the result is that of x at `from`.
#define PICKS(name, rank_, dims_, items, ...)                                        \
    CALL(name, out[0] = kiln_index(in[0], KILN_INDEX items))                         \
    static void from_##name(const int64_t *at, int64_t *from, const struct host *in) \
    {                                                                                \
        (void)in;                                                                    \
        __VA_ARGS__                                                                  \
    }                                                                                \
    static void expect_##name(const struct host *in, struct host *out)               \
    {                                                                                \
        int64_t dims[] = dims_;                                                      \
        pick(in, out, rank_, dims, from_##name);                                     \
    }

static void pick(const struct host *in, struct host *out, int rank, const int64_t *dims,
                 void (*place)(const int64_t *at, int64_t *from, const struct host *in))
{
    out[0] = host_new(in[0].dtype, rank, dims);
    for (int64_t i = 0; i < out[0].n; i++) {
        int64_t at[KILN_MAX_RANK], from[KILN_MAX_RANK];
        unravel(rank, dims, i, at);
        place(at, from, in);
        out[0].v[i] = in[0].v[ravel(in[0].rank, in[0].dims, from)];
    }
}

// The k-th entry of index tensor t, from the front of x's dimension d.
static int64_t id(const struct host *in, int t, int64_t k, int d)
{
    int64_t v = (int64_t)in[t].v[k];
    return v < 0 ? v + in[0].dims[d] : v;
}

PICKS(nothing, 2, DIMS(in[0].dims[0], in[0].dims[1]), (KILN_ELLIPSIS), { from[0] = at[0], from[1] = at[1]; })
PICKS(at, 1, DIMS(in[0].dims[1]), (KILN_AT(-1)), { from[0] = 2, from[1] = at[0]; })
PICKS(slices, 3, DIMS(2, 1, 2), (KILN_FROM(1), KILN_NEW_AXIS, KILN_FROM_TO_BY(KILN_END, KILN_END, -2)),
      { from[0] = 1 + at[0], from[1] = 3 - 2 * at[2]; })
PICKS(behind_ellipsis, 3, DIMS(2, 3, 2), (KILN_ELLIPSIS, KILN_AT(1), KILN_TO(2)),
      { from[0] = at[0], from[1] = at[1], from[2] = 1, from[3] = at[2]; })
PICKS(take, 3, DIMS(3, 2, 2), (KILN_ALL, KILN_TAKE(in[1])),
      { from[0] = at[0], from[1] = id(in, 1, at[1] * 2 + at[2], 1); })
// Neighbours, in the middle: [2,3,4,2] by [5] and [5] along 1 and 2.
PICKS(neighbours, 3, DIMS(2, 5, 2), (KILN_ALL, KILN_TAKE(in[1]), KILN_TAKE(in[2])),
      { from[0] = at[0], from[1] = id(in, 1, at[1], 1), from[2] = id(in, 2, at[1], 2), from[3] = at[2]; })
// Apart: the tensors' axes come first.
PICKS(apart, 4, DIMS(3, 5, 3, 2), (KILN_TAKE(in[1]), KILN_ALL, KILN_TAKE(in[2])),
      { from[0] = id(in, 1, at[1], 0), from[1] = at[2], from[2] = id(in, 2, at[0], 2), from[3] = at[3]; })
// An integer counts as a tensor for where the axes stand.
PICKS(with_number, 3, DIMS(5, 3, 2), (KILN_AT(1), KILN_ALL, KILN_TAKE(in[1])),
      { from[0] = 1, from[1] = at[1], from[2] = id(in, 1, at[0], 2), from[3] = at[2]; })
PICKS(beside_number, 3, DIMS(2, 5, 2), (KILN_ALL, KILN_AT(1), KILN_TAKE(in[1])),
      { from[0] = at[0], from[1] = 1, from[2] = id(in, 1, at[1], 2), from[3] = at[2]; })
PICKS(mixed, 4, DIMS(5, 1, 2, 2), (KILN_TAKE(in[1]), KILN_NEW_AXIS, KILN_FROM_TO(1, 3), KILN_AT(3)),
      { from[0] = id(in, 1, at[0], 0), from[1] = 1 + at[2], from[2] = 3, from[3] = at[3]; })

// --- masks, of the input itself so that they are the same for the reference

CALL(mask, out[0] = kiln_index(in[0], KILN_INDEX(KILN_MASK(in[1]))))
static void expect_mask(const struct host *in, struct host *out)
{
    int64_t rest = in[0].n / in[1].n, dims[] = {0, rest}, n = 0;
    for (int64_t i = 0; i < in[1].n; i++) dims[0] += in[1].v[i] != 0;
    out[0] = host_new(in[0].dtype, in[0].rank == in[1].rank ? 1 : 2, dims);
    for (int64_t i = 0; i < in[0].n; i++)
        if (in[1].v[i / rest] != 0) out[0].v[n++] = in[0].v[i];
}
CALL(mask_and_take, out[0] = kiln_index(in[0], KILN_INDEX(KILN_TAKE(in[2]), KILN_MASK(in[1]))))
static void expect_mask_and_take(const struct host *in, struct host *out)
{
    int64_t count = 0, w = in[0].dims[1];
    for (int64_t i = 0; i < w; i++) count += in[1].v[i] != 0;
    out[0] = host_new(in[0].dtype, 1, &count);
    for (int64_t i = 0, n = 0; i < w; i++)
        if (in[1].v[i] != 0) out[0].v[n++] = in[0].v[(int64_t)in[2].v[0] * w + i];
}

// --- writes: into a copy of x, in place

#define WRITES(name, add, place, ...)                                                      \
    CALL(name, kiln_tensor *copy = kiln_mul(in[0], kiln_scalar_int(1));                    \
         if (add) kiln_index_assign_add(copy, KILN_INDEX(__VA_ARGS__), in[1]);             \
         else kiln_index_assign(copy, KILN_INDEX(__VA_ARGS__), in[1]); out[0] = copy;)     \
    CALL(name##_copy, out[0] = kiln_index_put(in[0], KILN_INDEX(__VA_ARGS__), in[1], add)) \
    static int64_t to_##name(int64_t i, const struct host *in)                             \
    {                                                                                      \
        (void)in;                                                                          \
        return place;                                                                      \
    }                                                                                      \
    static void expect_##name(const struct host *in, struct host *out)                     \
    {                                                                                      \
        write(in, out, add, to_##name);                                                    \
    }

static void write(const struct host *in, struct host *out, bool add, int64_t (*to)(int64_t i, const struct host *in))
{
    out[0] = host_copy(&in[0]);
    for (int64_t i = 0; i < in[1].n; i++) {
        long double *v = &out[0].v[to(i, in)];
        *v = add ? *v + in[1].v[i] : in[1].v[i];
    }
    for (int64_t i = 0; i < out[0].n; i++) out[0].v[i] = quantized(out[0].dtype, out[0].v[i]);
}

// x is [3, 4], src of the places' shape.
WRITES(set_at, false, 4 + i, KILN_AT(1))
WRITES(set_slice, false, i / 2 * 8 + 1 + i % 2, KILN_BY(2), KILN_FROM_TO(1, 3))
WRITES(add_slice, true, i / 2 * 8 + 1 + i % 2, KILN_BY(2), KILN_FROM_TO(1, 3))
WRITES(set_rows, false, id(in, 2, i / 4, 0) * 4 + i % 4, KILN_TAKE(in[2]))
WRITES(add_rows, true, id(in, 2, i / 4, 0) * 4 + i % 4, KILN_TAKE(in[2]))
WRITES(set_columns, false, i / 5 * 4 + id(in, 2, i % 5, 1), KILN_ALL, KILN_TAKE(in[2]))
WRITES(set_pairs, false, id(in, 2, i, 0) * 4 + id(in, 3, i, 1), KILN_TAKE(in[2]), KILN_TAKE(in[3]))
WRITES(add_pairs, true, id(in, 2, i, 0) * 4 + id(in, 3, i, 1), KILN_TAKE(in[2]), KILN_TAKE(in[3]))

#define MASKED(name, add)                                                                          \
    CALL(name, out[0] = kiln_index_put(in[0], KILN_INDEX(KILN_ALL, KILN_MASK(in[2])), in[1], add)) \
    static void expect_##name(const struct host *in, struct host *out)                             \
    {                                                                                              \
        mask_write(in, out, add);                                                                  \
    }
// src is a number or a column.
static void mask_write(const struct host *in, struct host *out, bool add)
{
    int64_t w = in[0].dims[1];
    out[0] = host_copy(&in[0]);
    for (int64_t i = 0; i < in[0].n; i++)
        if (in[2].v[i % w] != 0)
            out[0].v[i] = quantized(out[0].dtype, (add ? in[0].v[i] : 0) + in[1].v[in[1].rank ? i / w : 0]);
}
MASKED(set_mask, false)
MASKED(add_mask, true)

// Numbers without a dtype of their own.
static kiln_tensor *three(kiln_tensor *x)
{
    return kiln_tensor_dtype(x) == KILN_BOOL ? kiln_scalar_bool(true) : kiln_scalar_int(3);
}
CALL(set_number, out[0] = kiln_index_put(in[0], KILN_INDEX(KILN_TAKE(in[1])), three(in[0]), false))
static void expect_set_number(const struct host *in, struct host *out)
{
    int64_t w = in[0].dims[1];
    out[0] = host_copy(&in[0]);
    for (int64_t i = 0; i < in[1].n * w; i++)
        out[0].v[id(in, 1, i / w, 0) * w + i % w] = in[0].dtype == KILN_BOOL ? 1 : 3;
}

// As many values as the mask takes.
CALL(mask_values, kiln_tensor *mask = kiln_greater(in[0], kiln_scalar_int(0));
     out[0] = kiln_index_put(in[0], KILN_INDEX(KILN_MASK(mask)),
                             kiln_neg(kiln_index(in[0], KILN_INDEX(KILN_MASK(mask)))), false))
static void expect_mask_values(const struct host *in, struct host *out)
{
    out[0] = host_copy(&in[0]);
    for (int64_t i = 0; i < in[0].n; i++)
        if (in[0].v[i] > 0) out[0].v[i] = quantized(in[0].dtype, -in[0].v[i]);
}

enum { ALL = IN_NUMBERS | IN_BOOL };
#define IS(name)   call_##name, expect_##name
#define COPY(name) call_##name##_copy, expect_##name

static const struct op_case indexing_cases[] = {
    {"index", "nothing", "3x4", ALL, IS(nothing), .order = 2},
    {"index", "a place", "3x4", ALL, IS(at), .order = 2},
    {"index", "slices and a new axis", "3x4", ALL, IS(slices), .order = 2},
    {"index", "behind an ellipsis", "2x3x4x3", ALL, IS(behind_ellipsis), .order = 2},
    {"index", "a tensor", "3x4 n2x2<4", ALL, IS(take), .order = 2},
    {"index", "tensors, neighbours", "2x3x4x2 n5<3 n5<4", ALL, IS(neighbours), .order = 2},
    {"index", "tensors, apart", "2x3x4x2 n5<2 n3x1<4", ALL, IS(apart), .order = 2},
    {"index", "a tensor and a number apart", "2x3x4x2 n5<4", ALL, IS(with_number), .order = 2},
    {"index", "a tensor beside a number", "2x3x4x2 n5<4", ALL, IS(beside_number), .order = 2},
    {"index", "all kinds", "2x3x4x2 n5<2", ALL, IS(mixed), .order = 2},
    {"index", "a mask", "3x4 b3x4", ALL, IS(mask), .by_values = true, .order = 2},
    {"index", "a mask of rows", "3x4 b3", ALL, IS(mask), .by_values = true, .order = 2},
    {"index", "a mask and a tensor", "3x4 b4 i1<3", ALL, IS(mask_and_take), .by_values = true, .order = 2},
    {"index_assign", "a place", "3x4 4", IN_NUMBERS, IS(set_at), .order = 2},
    {"index_assign", "slices", "3x4 2x2", IN_NUMBERS, IS(set_slice), .order = 2},
    {"index_assign_add", "slices", "3x4 2x2", IN_NUMBERS, IS(add_slice), .units = 4, .order = 2},
    {"index_assign", "rows", "3x4 5x4 n5<3", IN_NUMBERS, IS(set_rows), .order = 2},
    {"index_assign_add", "rows", "3x4 5x4 n5<3", IN_NUMBERS, IS(add_rows), .units = 16, .order = 2},
    {"index_assign", "columns", "3x4 3x5 n5<4", IN_NUMBERS, IS(set_columns), .order = 2},
    {"index_assign", "pairs", "3x4 5 n5<3 n5<4", IN_NUMBERS, IS(set_pairs), .order = 2},
    {"index_assign_add", "pairs", "3x4 5 n5<3 n5<4", IN_NUMBERS, IS(add_pairs), .units = 16, .order = 2},
    {"index_put", "a place", "3x4 4", ALL, COPY(set_at), .order = 2},
    {"index_put", "slices", "3x4 2x2", ALL, COPY(set_slice), .order = 2},
    {"index_put", "slices, added", "3x4 2x2", IN_NUMBERS, COPY(add_slice), .units = 4, .order = 2},
    {"index_put", "rows", "3x4 5x4 n5<3", ALL, COPY(set_rows), .order = 2},
    {"index_put", "rows, added", "3x4 5x4 n5<3", IN_NUMBERS, COPY(add_rows), .units = 16, .order = 2},
    {"index_put", "columns", "3x4 3x5 n5<4", ALL, COPY(set_columns), .order = 2},
    {"index_put", "pairs", "3x4 5 n5<3 n5<4", ALL, COPY(set_pairs), .order = 2},
    {"index_put", "pairs, added", "3x4 5 n5<3 n5<4", IN_NUMBERS, COPY(add_pairs), .units = 16, .order = 2},
    {"index_put", "rows and a number", "3x4 n2<3", ALL, IS(set_number), .order = 2},
    {"index_put", "a mask and a number", "3x4 - b4", ALL, IS(set_mask), .order = 2},
    {"index_put", "a mask and a column", "3x4 3x1 b4", ALL, IS(set_mask), .order = 2},
    {"index_put", "a mask, added", "3x4 - b4", IN_NUMBERS, IS(add_mask), .units = 4, .order = 2},
    {"index_put", "a mask and values", "3x4", IN_NUMBERS, IS(mask_values), .by_values = true, .order = 2},
};
FAMILY_OF(indexing);
