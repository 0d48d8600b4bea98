// Sums of rows of a table, and products of pairs.
#include "compose/composite.h"

#include <math.h>
#include <string.h>

enum bag_mode { BAG_MEAN, BAG_SUM, BAG_MAX };

static bool read_mode(const char *text, enum bag_mode *mode)
{
    static const char *const names[] = {[BAG_MEAN] = "mean", [BAG_SUM] = "sum", [BAG_MAX] = "max"};
    *mode = BAG_MEAN;
    if (!text) return true;
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, names[i])) {
            *mode = (enum bag_mode)i;
            return true;
        }
    error_set(KILN_E_ARGUMENT, "unknown .mode \"%s\"; there are \"mean\", \"sum\" and \"max\"", text);
    return false;
}

// ids [B, L].
static kiln_tensor *rows_of_bags(kiln_tensor *table, kiln_tensor *ids, kiln_tensor *weights, enum bag_mode mode)
{
    kiln_tensor *rows = kiln_embedding(table, ids);
    if (weights) rows = kiln_mul(rows, kiln_unsqueeze(weights, -1));
    const kiln_reduce_opts *bag = KILN_REDUCE(.axes = KILN_AXES(1));
    if (mode == BAG_SUM || kiln_dims(ids)[1] == 0) return kiln_sum(rows, bag);
    return mode == BAG_MEAN ? kiln_mean(rows, bag) : kiln_max(rows, bag);
}

// The bag of each of n ids: how many offsets are not above its place, less 1.
static kiln_tensor *bags_of(kiln_tensor *offsets, int64_t n)
{
    kiln_device *dev = kiln_tensor_device(offsets);
    int64_t bags = kiln_dims(offsets)[0];
    kiln_tensor *begins = kiln_scatter_add(kiln_zeros(dev, KILN_I64, KILN_SHAPE(n + 1)), 0, offsets,
                                           kiln_ones(dev, KILN_I64, KILN_SHAPE(bags)));
    return kiln_sub(kiln_narrow(kiln_cumsum(begins, 0), 0, 0, n), kiln_scalar_int(1));
}

static kiln_tensor *largest_of_bags(kiln_tensor *rows, kiln_tensor *bags, int64_t n_bags)
{
    kiln_device *dev = kiln_tensor_device(rows);
    kiln_tensor *number = kiln_unsqueeze(kiln_arange(dev, KILN_I64, 0, (double)n_bags, 1), 1);
    kiln_tensor *inside = kiln_unsqueeze(kiln_equal(number, bags), -1); // [B, n, 1]
    kiln_tensor *all = kiln_where(inside, rows, kiln_scalar(-INFINITY));
    kiln_tensor *largest = kiln_max(all, KILN_REDUCE(.axes = KILN_AXES(1)));
    kiln_tensor *some = kiln_any(inside, KILN_REDUCE(.axes = KILN_AXES(1)));
    return kiln_where(some, largest, kiln_scalar(0));
}

// ids [n], offsets [B].
static kiln_tensor *rows_by_offsets(kiln_tensor *table, kiln_tensor *ids, kiln_tensor *offsets, kiln_tensor *weights,
                                    enum bag_mode mode)
{
    kiln_device *dev = kiln_tensor_device(ids);
    int64_t n = kiln_dims(ids)[0], n_bags = kiln_dims(offsets)[0], width = kiln_dims(table)[1];
    kiln_tensor *rows = kiln_embedding(table, ids), *bags = bags_of(offsets, n);
    if (weights) rows = kiln_mul(rows, kiln_unsqueeze(weights, -1));
    if (error_pending) return NULL;
    kiln_dtype dtype = kiln_tensor_dtype(rows);
    if (mode == BAG_MAX && n) return largest_of_bags(rows, bags, n_bags);
    kiln_tensor *sum = kiln_index_add(kiln_zeros(dev, dtype, KILN_SHAPE(n_bags, width)), 0, bags, rows);
    if (mode != BAG_MEAN) return sum;
    kiln_tensor *count =
        kiln_index_add(kiln_zeros(dev, KILN_I64, KILN_SHAPE(n_bags)), 0, bags, kiln_ones(dev, KILN_I64, KILN_SHAPE(n)));
    count = kiln_cast(kiln_maximum(count, kiln_scalar_int(1)), dtype);
    return kiln_div(sum, kiln_unsqueeze(count, 1));
}

static bool same_dims(kiln_tensor *a, kiln_tensor *b)
{
    return kiln_rank(a) == kiln_rank(b) && !memcmp(kiln_dims(a), kiln_dims(b), kiln_rank(a) * sizeof(int64_t));
}

kiln_tensor *compose_embedding_bag(kiln_tensor *table, kiln_tensor *ids, kiln_tensor *offsets, kiln_tensor *weights,
                                   const kiln_embedding_bag_opts *o)
{
    enum bag_mode mode;
    if (!read_mode(o->mode, &mode)) return NULL;
    if (kiln_rank(table) != 2 || kiln_rank(ids) != (offsets ? 1 : 2) || (offsets && kiln_rank(offsets) != 1)) {
        error_set(KILN_E_SHAPE,
                  "table must be a matrix and ids one, or with offsets both vectors; table is %s, ids are "
                  "%s, offsets are %s",
                  type_of(table).s, type_of(ids).s, offsets ? type_of(offsets).s : "none");
        return NULL;
    }
    if (weights && (mode != BAG_SUM || !same_dims(weights, ids))) {
        error_set(mode != BAG_SUM ? KILN_E_ARGUMENT : KILN_E_SHAPE,
                  "weights go with .mode \"sum\" and have the shape of ids, they are %s, ids are %s",
                  type_of(weights).s, type_of(ids).s);
        return NULL;
    }
    return offsets ? rows_by_offsets(table, ids, offsets, weights, mode) : rows_of_bags(table, ids, weights, mode);
}

// a w for all o at once, [..., 1, I] by [I, O J]; then that by b.
kiln_tensor *compose_bilinear(kiln_tensor *a, kiln_tensor *b, kiln_tensor *w, kiln_tensor *bias)
{
    size_t rank = kiln_rank(a), of_b = kiln_rank(b);
    const int64_t *d = kiln_dims(w);
    if (kiln_rank(w) != 3 || rank < 1 || of_b < 1 || kiln_dims(a)[rank - 1] != d[1] || kiln_dims(b)[of_b - 1] != d[2]) {
        error_set(KILN_E_SHAPE, "w must be [O,I,J] of a [...,I] and b [...,J], w is %s, a is %s, b is %s", type_of(w).s,
                  type_of(a).s, type_of(b).s);
        return NULL;
    }
    if (bias && (kiln_rank(bias) != 1 || kiln_dims(bias)[0] != d[0])) {
        error_set(KILN_E_SHAPE, "bias must be [O], it is %s, w is %s", type_of(bias).s, type_of(w).s);
        return NULL;
    }
    int64_t dims[KILN_MAX_RANK + 1];
    memcpy(dims, kiln_dims(a), (rank - 1) * sizeof *dims);
    dims[rank - 1] = d[0];
    dims[rank] = d[2];
    kiln_tensor *flat = kiln_reshape(kiln_permute(w, KILN_AXES(1, 0, 2)), KILN_SHAPE(d[1], d[0] * d[2]));
    kiln_tensor *half = kiln_reshape(kiln_matmul(a, flat), rank + 1, dims);
    kiln_tensor *y = kiln_squeeze(kiln_matmul(half, kiln_unsqueeze(b, -1)), KILN_AXES(-1));
    return bias ? kiln_add(y, bias) : y;
}
