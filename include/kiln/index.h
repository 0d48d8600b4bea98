/// @file index.h
/// Indexing as NumPy's: any mix of integers, slices, new axes, index tensors and masks, in one call.
///
///     kiln_index(x, KILN_INDEX(KILN_AT(0), KILN_FROM_TO(1, 3)));              // x[0, 1:3], a view
///     kiln_index(x, KILN_INDEX(KILN_ELLIPSIS, KILN_TAKE(ids)));               // x[..., ids]
///     kiln_index_assign(x, KILN_INDEX(KILN_MASK(m)), kiln_scalar(0));         // x[m] = 0
///     kiln_index_assign_add(x, KILN_INDEX(KILN_TAKE(ids)), src);              // numpy.add.at(x, ids, src)
///
/// The items speak of x's dimensions in order; dimensions behind the last item are taken whole.
#ifndef KILN_INDEX_H
#define KILN_INDEX_H

#include <kiln/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Kinds of items; the macros below make them.
enum {
    KILN_ITEM_AT = 0,
    KILN_ITEM_SLICE = 1,
    KILN_ITEM_ELLIPSIS = 2,
    KILN_ITEM_NEW_AXIS = 3,
    KILN_ITEM_TAKE = 4,
    KILN_ITEM_MASK = 5,
};

/// One item of an index.
typedef struct kiln_index_item {
    int kind;
    int64_t start, stop, step; ///< AT: start alone
    kiln_tensor *tensor;       ///< TAKE, MASK: borrowed
} kiln_index_item;

static inline kiln_index_item kiln_index_item_of(int kind, int64_t start, int64_t stop, int64_t step, kiln_tensor *t)
{
    kiln_index_item item;
    item.kind = kind;
    item.start = start;
    item.stop = stop;
    item.step = step;
    item.tensor = t;
    return item;
}

/// The number of items and the items, as two arguments.
#define KILN_INDEX(...) KILN_COUNT_(kiln_index_item, __VA_ARGS__), KILN_LIST_(kiln_index_item, __VA_ARGS__)
/// One place of a dimension, which is dropped; from the end if negative.
#define KILN_AT(i) kiln_index_item_of(KILN_ITEM_AT, (i), 0, 0, NULL)
/// start:stop:step as in Python: bounds from the end if negative, clipped, and open where they are KILN_END.
#define KILN_FROM_TO_BY(start, stop, step) kiln_index_item_of(KILN_ITEM_SLICE, (start), (stop), (step), NULL)
#define KILN_FROM_TO(start, stop)          KILN_FROM_TO_BY(start, stop, 1)
#define KILN_FROM(start)                   KILN_FROM_TO_BY(start, KILN_END, 1)
#define KILN_TO(stop)                      KILN_FROM_TO_BY(KILN_END, stop, 1)
#define KILN_BY(step)                      KILN_FROM_TO_BY(KILN_END, KILN_END, step)
/// A whole dimension.
#define KILN_ALL KILN_FROM_TO_BY(KILN_END, KILN_END, 1)
/// As many whole dimensions as the other items leave; once an index.
#define KILN_ELLIPSIS kiln_index_item_of(KILN_ITEM_ELLIPSIS, 0, 0, 0, NULL)
/// A new dimension of size 1.
#define KILN_NEW_AXIS kiln_index_item_of(KILN_ITEM_NEW_AXIS, 0, 0, 0, NULL)
/// The places of a dimension that a tensor of integers names, from the end if negative. Several such tensors are
/// broadcast together, and taken side by side.
#define KILN_TAKE(ids) kiln_index_item_of(KILN_ITEM_TAKE, 0, 0, 0, (ids))
/// The places at which a bool tensor is true: as many dimensions as it has, of its sizes.
#define KILN_MASK(mask) kiln_index_item_of(KILN_ITEM_MASK, 0, 0, 0, (mask))

/// x[items]. A view where there are no tensors among them; else a copy, in which the dimensions of the broadcast
/// tensors stand where they were, if the tensors and integers are neighbours, and else come first. Differentiable.
///
/// How many elements a mask takes depends on values: the host waits for the number, AUTO captures break, STRICT ones
/// fail; see kiln_masked_select_sized. A place out of range is an error: of a number at once; of a tensor on the CPU as
/// it runs, while a GPU reads 0. Errors: KILN_E_SHAPE for more dimensions than x has and a mask of other sizes,
/// KILN_E_AXIS for a number out of range, KILN_E_DTYPE for tensors that are no integers and masks that are not bool.
KILN_API kiln_tensor *kiln_index(kiln_tensor *x, size_t n, const kiln_index_item *items);

/// x[items] = src, which is broadcast and cast within its kind, in x's storage; seen through views; raises its version.
/// Of several elements for one place the last wins. Waits for no values where src is broadcast along what a mask takes.
/// A place out of range as above; a GPU drops the element. Errors as of kiln_index and of kiln_assign. With tensors
/// among the items, what the others leave of x is written whole.
KILN_API kiln_status kiln_index_assign(kiln_tensor *x, size_t n, const kiln_index_item *items, kiln_tensor *src);
/// x[items] += src, where several elements for one place are all added.
KILN_API kiln_status kiln_index_assign_add(kiln_tensor *x, size_t n, const kiln_index_item *items, kiln_tensor *src);
/// A copy of x that was written so (or, with `accumulate`, added to). Differentiable by x and src.
KILN_API kiln_tensor *kiln_index_put(kiln_tensor *x, size_t n, const kiln_index_item *items, kiln_tensor *src,
                                     bool accumulate);

#ifdef __cplusplus
}
#endif
#endif
