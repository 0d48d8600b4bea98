// Products, what is read and written by index, pieces put together.
#include "rank.h"
#include <math.h>

static struct array copy_of(const struct array *x)
{
    struct array out = array_new(x->rank, x->dims);
    for (int64_t k = 0; k < x->n; k++) out.v[k] = x->v[k];
    return out;
}

// --- products

RUN(matmul)
{
    return kiln_matmul(in[0], in[1]);
}
WANT(matmul)
{
    int64_t dims[KILN_MAX_RANK], i[KILN_MAX_RANK], a[KILN_MAX_RANK], b[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = d < rank - 2 ? in[0].dims[d] * in[1].dims[d] : 2;
    struct array out = array_new(rank, dims);
    EACH(&out, i)
    {
        for (int d = 0; d < rank; d++) a[d] = b[d] = i[d];
        for (int64_t k = 0; k < 3; k++) {
            a[rank - 1] = b[rank - 2] = k;
            *array_at(&out, rank, i) += at(&in[0], rank, a) * at(&in[1], rank, b);
        }
    }
    return out;
}

// The matrices' columns lie apart, the vector is the first two numbers.
RUN(matmul_vector)
{
    kiln_tensor *vector = kiln_narrow(kiln_reshape(in[0], KILN_SHAPE(-1)), 0, 0, 2);
    return kiln_matmul(kiln_transpose(in[0], 0, -1), vector);
}
WANT(matmul_vector)
{
    int64_t i[KILN_MAX_RANK], j[KILN_MAX_RANK];
    struct array out = array_new(rank - 1, in[0].dims);
    EACH(&out, i)
    {
        for (int d = 1; d < rank; d++) j[d] = i[d == rank - 1 ? 0 : d];
        for (j[0] = 0; j[0] < 2; j[0]++) *array_at(&out, rank - 1, i) += at(&in[0], rank, j) * in[0].v[j[0]];
    }
    return out;
}

// --- by index

RUN(gather)
{
    return kiln_gather(kiln_transpose(in[0], 0, -1), rank / 2, in[1]);
}
WANT(gather)
{
    int64_t i[KILN_MAX_RANK], j[KILN_MAX_RANK];
    struct array out = array_new(rank, in[0].dims);
    EACH(&out, i)
    {
        for (int d = 0; d < rank; d++) j[d] = i[d == 0 ? rank - 1 : d == rank - 1 ? 0 : d];
        j[rank / 2] = (int64_t)at(&in[1], rank, i);
        *array_at(&out, rank, i) = at(&in[0], rank, j);
    }
    return out;
}

static struct array scattered(const struct array *in, int rank, bool add)
{
    int64_t i[KILN_MAX_RANK], j[KILN_MAX_RANK];
    struct array out = copy_of(&in[0]);
    EACH(&in[1], i)
    {
        for (int d = 0; d < rank; d++) j[d] = i[d];
        j[rank / 2] = (int64_t)at(&in[1], rank, i);
        double *to = array_at(&out, rank, j), v = at(&in[2], rank, i);
        *to = add ? *to + v : v;
    }
    return out;
}

RUN(scatter_add)
{
    return kiln_scatter_add(in[0], rank / 2, in[1], in[2]);
}
WANT(scatter_add)
{
    return scattered(in, rank, true);
}

RUN(scatter)
{
    return kiln_scatter(in[0], rank / 2, in[1], in[2]);
}
WANT(scatter)
{
    return scattered(in, rank, false);
}

// The index, 0 1 and 0 1, takes the place of axis 1.
RUN(take)
{
    kiln_tensor *line = kiln_arange(kiln_tensor_device(in[0]), KILN_I64, 0, 4, 1);
    return kiln_take(in[0], 1, kiln_reshape(kiln_remainder(line, kiln_scalar_int(2)), KILN_SHAPE(2, 2)));
}
WANT(take)
{
    int64_t dims[KILN_MAX_RANK], i[KILN_MAX_RANK], j[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = d == 1 || d == 2 ? 2 : in[0].dims[d > 2 ? d - 1 : d];
    struct array out = array_new(rank, dims);
    EACH(&out, i)
    {
        for (int d = 0; d < rank - 1; d++) j[d] = d == 1 ? i[2] : i[d > 1 ? d + 1 : d];
        *array_at(&out, rank, i) = at(&in[0], rank - 1, j);
    }
    return out;
}

// The first two along the middle axis, squared, to the last and to the first.
RUN(index_add)
{
    kiln_tensor *index = kiln_arange(kiln_tensor_device(in[0]), KILN_I64, 2, -1, -2);
    return kiln_index_add(in[0], rank / 2, index, kiln_square(kiln_narrow(in[0], rank / 2, 0, 2)));
}
WANT(index_add)
{
    int64_t i[KILN_MAX_RANK], axis = rank / 2;
    struct array out = copy_of(&in[0]);
    EACH(&in[0], i)
    {
        int64_t from = i[axis];
        double v = at(&in[0], rank, i);
        if (from == 2) continue;
        i[axis] = 2 - 2 * from;
        *array_at(&out, rank, i) += v * v;
        i[axis] = from;
    }
    return out;
}

// For element `i` of FIRST the place that TUPLES names.
static void place_of(const struct array *tuples, int rank, const int64_t *i, int64_t *place)
{
    int64_t j[KILN_MAX_RANK];
    for (int d = 0; d + 1 < rank; d++) j[d] = i[d];
    for (j[rank - 1] = 0; j[rank - 1] < rank; j[rank - 1]++) place[j[rank - 1]] = (int64_t)at(tuples, rank, j);
}

RUN(gather_nd)
{
    return kiln_gather_nd(in[0], in[1]);
}
WANT(gather_nd)
{
    int64_t i[KILN_MAX_RANK], j[KILN_MAX_RANK];
    struct array out = array_new(rank - 1, in[0].dims);
    EACH(&out, i)
    {
        place_of(&in[1], rank, i, j);
        *array_at(&out, rank - 1, i) = at(&in[0], rank, j);
    }
    return out;
}

RUN(scatter_nd)
{
    int64_t dims[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = 2;
    return kiln_scatter_nd(in[1], in[0], (size_t)rank, dims);
}
WANT(scatter_nd)
{
    int64_t dims[KILN_MAX_RANK], i[KILN_MAX_RANK], j[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = 2;
    struct array out = array_new(rank, dims);
    EACH(&in[0], i)
    {
        place_of(&in[1], rank, i, j);
        *array_at(&out, rank, j) += at(&in[0], rank - 1, i);
    }
    return out;
}

RUN(one_hot)
{
    return kiln_one_hot(kiln_select(in[0], 0, 1), 2);
}
WANT(one_hot)
{
    int64_t i[KILN_MAX_RANK], j[KILN_MAX_RANK], dims[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = d + 1 < rank ? in[0].dims[d + 1] : 2;
    struct array out = array_new(rank, dims);
    j[0] = 1;
    EACH(&out, i)
    {
        for (int d = 1; d < rank; d++) j[d] = i[d - 1];
        *array_at(&out, rank, i) = at(&in[0], rank, j) == (double)i[rank - 1];
    }
    return out;
}

RUN(isin)
{
    return kiln_isin(kiln_transpose(in[0], 0, -1), kiln_arange(kiln_tensor_device(in[0]), KILN_I64, 1, 3, 1));
}
WANT(isin)
{
    int64_t i[KILN_MAX_RANK], j[KILN_MAX_RANK];
    struct array out = array_new(rank, in[0].dims);
    EACH(&out, i)
    {
        for (int d = 0; d < rank; d++) j[d] = i[d == 0 ? rank - 1 : d == rank - 1 ? 0 : d];
        *array_at(&out, rank, i) = at(&in[0], rank, j) == 1;
    }
    return out;
}

// --- pieces

RUN(concat)
{
    kiln_tensor *both[] = {in[0], kiln_flip(in[0], KILN_AXES(0, -1))};
    return kiln_concat(both, 2, rank / 2);
}
WANT(concat)
{
    int64_t dims[KILN_MAX_RANK], i[KILN_MAX_RANK], j[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = d == rank / 2 ? 6 : 2;
    struct array out = array_new(rank, dims);
    EACH(&out, i)
    {
        bool second = i[rank / 2] > 2;
        for (int d = 0; d < rank; d++) j[d] = second && (d == 0 || d == rank - 1) ? 1 - i[d] : i[d];
        j[rank / 2] %= 3;
        *array_at(&out, rank, i) = at(&in[0], rank, j);
    }
    return out;
}

RUN(stack)
{
    kiln_tensor *both[] = {in[0], kiln_transpose(in[0], 0, -1)};
    return kiln_stack(both, 2, 3);
}
WANT(stack)
{
    int64_t dims[KILN_MAX_RANK], i[KILN_MAX_RANK], j[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = d == 3 ? 2 : in[0].dims[d > 3 ? d - 1 : d];
    struct array out = array_new(rank, dims);
    EACH(&out, i)
    {
        for (int d = 0; d < rank - 1; d++) j[d] = i[d >= 3 ? d + 1 : d];
        if (i[3]) j[0] = i[rank - 1], j[rank - 2] = i[0];
        *array_at(&out, rank, i) = at(&in[0], rank - 1, j);
    }
    return out;
}

RUN(pad)
{
    int64_t after[KILN_MAX_RANK] = {0};
    after[rank / 2] = 1;
    return kiln_pad(in[0],
                    KILN_PAD(.before = KILN_ARGS(1), .after = {(size_t)rank / 2 + 1, after}, .mode = KILN_PAD_REFLECT));
}
WANT(pad)
{
    int64_t dims[KILN_MAX_RANK], i[KILN_MAX_RANK], j[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = in[0].dims[d] + (d == 0 || d == rank / 2);
    struct array out = array_new(rank, dims);
    EACH(&out, i)
    {
        for (int d = 0; d < rank; d++) j[d] = i[d];
        j[0] = i[0] ? i[0] - 1 : 1;
        j[rank / 2] = i[rank / 2] == 3 ? 1 : i[rank / 2];
        *array_at(&out, rank, i) = at(&in[0], rank, j);
    }
    return out;
}

// As two dimensions for each repeated axis, 16 become more than there may be.
RUN(tile)
{
    int64_t repeats[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) repeats[d] = d == 0 || d == rank / 2 ? 2 : 1;
    return kiln_tile(in[0], (size_t)rank, repeats);
}
WANT(tile)
{
    int64_t dims[KILN_MAX_RANK], i[KILN_MAX_RANK], j[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = in[0].dims[d] * (d == 0 || d == rank / 2 ? 2 : 1);
    struct array out = array_new(rank, dims);
    EACH(&out, i)
    {
        for (int d = 0; d < rank; d++) j[d] = i[d] % in[0].dims[d];
        *array_at(&out, rank, i) = at(&in[0], rank, j);
    }
    return out;
}

RUN(repeat_interleave)
{
    return kiln_repeat_interleave(in[0], 2, rank / 2);
}
WANT(repeat_interleave)
{
    int64_t dims[KILN_MAX_RANK], i[KILN_MAX_RANK], j[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = d == rank / 2 ? 6 : 2;
    struct array out = array_new(rank, dims);
    EACH(&out, i)
    {
        for (int d = 0; d < rank; d++) j[d] = d == rank / 2 ? i[d] / 2 : i[d];
        *array_at(&out, rank, i) = at(&in[0], rank, j);
    }
    return out;
}

RUN(roll)
{
    return kiln_roll(in[0], KILN_AXES(1, -1), KILN_AXES(0, rank / 2));
}
WANT(roll)
{
    int64_t i[KILN_MAX_RANK], j[KILN_MAX_RANK];
    struct array out = array_new(rank, in[0].dims);
    EACH(&out, i)
    {
        for (int d = 0; d < rank; d++) j[d] = i[d];
        j[0] = 1 - i[0], j[rank / 2] = (i[rank / 2] + 1) % 3;
        *array_at(&out, rank, i) = at(&in[0], rank, j);
    }
    return out;
}
