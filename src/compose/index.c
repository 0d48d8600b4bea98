// Indexing as NumPy's. The items without tensors make a view of x; the others then index axes of the view. Axes that
// tensors index come first, as one, for reading by gather_nd and for writing by rows of a matrix.
#include "compose/along.h"
#include <kiln/index.h>
#include <string.h>

struct indexed {
    kiln_tensor *x, *view;
    kiln_tensor *mask; // the only tensor, of a write
    int n, axes[KILN_MAX_RANK];
    kiln_tensor *ids[KILN_MAX_RANK]; // of axes of the view
    int start;                       // where the result's axes of the tensors stand
};

// --- what the items say

// The dimensions of x that an item speaks of; -1 with an error.
static int spans(const kiln_index_item *item)
{
    switch (item->kind) {
    case KILN_ITEM_AT:
    case KILN_ITEM_SLICE: return 1;
    case KILN_ITEM_ELLIPSIS:
    case KILN_ITEM_NEW_AXIS: return 0;
    case KILN_ITEM_TAKE:
    case KILN_ITEM_MASK: break;
    default: error_set(KILN_E_ARGUMENT, "an item is of kind %d", item->kind); return -1;
    }
    bool mask = item->kind == KILN_ITEM_MASK;
    kiln_tensor *t = item->tensor;
    if (!t) return error_set(KILN_E_ARGUMENT, "the tensor of an item is NULL"), -1;
    kiln_dtype dtype = kiln_tensor_dtype(t);
    if (kiln_error()) return -1;
    if (mask ? dtype != KILN_BOOL : dtype == KILN_BOOL || is_real(t))
        error_set(KILN_E_DTYPE, mask ? "KILN_MASK is of bool, it is %s" : "KILN_TAKE is of integers, it is %s",
                  type_of(t).s);
    if (mask && kiln_rank(t) == 0) error_set(KILN_E_SHAPE, "KILN_MASK has no dimensions");
    return kiln_error() ? -1 : mask ? (int)kiln_rank(t) : 1;
}

static bool by_tensor(const kiln_index_item *item)
{
    return item->kind == KILN_ITEM_TAKE || item->kind == KILN_ITEM_MASK;
}

// How many dimensions an ellipsis stands for; -1 with an error.
static int left_over(kiln_tensor *x, size_t n, const kiln_index_item *items)
{
    int64_t used = 0, ellipses = 0, more = 0;
    for (size_t i = 0; i < n; i++) {
        int of = spans(&items[i]);
        if (of < 0) return -1;
        used += of;
        ellipses += items[i].kind == KILN_ITEM_ELLIPSIS;
        more += items[i].kind == KILN_ITEM_NEW_AXIS;
    }
    int64_t rank = (int64_t)kiln_rank(x);
    if (ellipses > 1) return error_set(KILN_E_ARGUMENT, "there are %lld KILN_ELLIPSIS", (long long)ellipses), -1;
    if (used > rank)
        return error_set(KILN_E_SHAPE, "x %s has %lld dimensions, %lld are indexed", type_of(x).s, (long long)rank,
                         (long long)used),
               -1;
    if (rank + more > KILN_MAX_RANK)
        return error_set(KILN_E_SHAPE, "there would be more than %d dimensions", KILN_MAX_RANK), -1;
    return (int)(rank - used);
}

static bool has_size(const struct indexed *z, const kiln_index_item *item, int dim)
{
    for (size_t d = 0; d < kiln_rank(item->tensor); d++) {
        if (kiln_dims(item->tensor)[d] == kiln_dims(z->x)[dim + (int)d]) continue;
        error_set(KILN_E_SHAPE, "KILN_MASK %s does not have the sizes of x %s from dimension %d on",
                  type_of(item->tensor).s, type_of(z->x).s, dim);
        return false;
    }
    return true;
}

// All slices at once.
static kiln_tensor *sliced(kiln_tensor *x, size_t n, const kiln_index_item *items, int rest)
{
    int64_t start[KILN_MAX_RANK], stop[KILN_MAX_RANK], step[KILN_MAX_RANK];
    size_t rank = kiln_rank(x);
    int dim = 0;
    bool any = false;
    for (size_t d = 0; d < rank; d++) start[d] = stop[d] = KILN_END, step[d] = 1;
    for (size_t i = 0; i < n; i++) {
        if (items[i].kind == KILN_ITEM_SLICE) {
            start[dim] = items[i].start, stop[dim] = items[i].stop, step[dim] = items[i].step;
            any |= start[dim] != KILN_END || stop[dim] != KILN_END || step[dim] != 1;
        }
        dim += items[i].kind == KILN_ITEM_ELLIPSIS ? rest : spans(&items[i]);
    }
    return any ? kiln_slice(x, KILN_SLICE(.start = {rank, start}, .stop = {rank, stop}, .step = {rank, step})) : x;
}

static bool at(struct indexed *z, int axis, int dim, int64_t place)
{
    int64_t size = kiln_dims(z->x)[dim];
    if (place < -size || place >= size) {
        error_set(KILN_E_AXIS, "%lld is out of range for dimension %d of x %s", (long long)place, dim, type_of(z->x).s);
        return false;
    }
    z->view = kiln_select(z->view, axis, place);
    return true;
}

// A mask as tensors of places, one an axis.
static void add_mask(struct indexed *z, kiln_tensor *mask, int axis)
{
    kiln_tensor *places = kiln_nonzero(mask);
    for (size_t d = 0; d < kiln_rank(mask); d++) {
        z->axes[z->n] = axis + (int)d;
        z->ids[z->n++] = kiln_select(places, 1, (int64_t)d);
    }
}

// Whether tensors, and integers among them, stand side by side.
static bool are_neighbours(size_t n, const kiln_index_item *items)
{
    int groups = 0;
    bool inside = false;
    for (size_t i = 0; i < n; i++) {
        bool advanced = by_tensor(&items[i]) || items[i].kind == KILN_ITEM_AT;
        groups += advanced && !inside;
        inside = advanced;
    }
    return groups <= 1;
}

static bool read_items(struct indexed *z, kiln_tensor *x, size_t n, const kiln_index_item *items, bool masks_alone)
{
    *z = (struct indexed){.x = x, .start = -1};
    int rest = left_over(x, n, items), axis = 0, dim = 0, tensors = 0;
    if (rest < 0) return false;
    for (size_t i = 0; i < n; i++) tensors += by_tensor(&items[i]);
    z->view = sliced(x, n, items, rest);
    for (size_t i = 0; i < n && !kiln_error(); i++) {
        const kiln_index_item *item = &items[i];
        bool advanced = by_tensor(item) || item->kind == KILN_ITEM_AT;
        if (advanced && z->start < 0) z->start = axis;
        if (item->kind == KILN_ITEM_AT && !at(z, axis, dim, item->start)) return false;
        if (item->kind == KILN_ITEM_NEW_AXIS) z->view = kiln_unsqueeze(z->view, axis);
        if (item->kind == KILN_ITEM_MASK && !has_size(z, item, dim)) return false;
        if (item->kind == KILN_ITEM_MASK && masks_alone && tensors == 1) {
            z->mask = item->tensor;
            z->axes[0] = axis;
        } else if (item->kind == KILN_ITEM_MASK)
            add_mask(z, item->tensor, axis);
        if (item->kind == KILN_ITEM_TAKE) {
            z->axes[z->n] = axis;
            z->ids[z->n++] = item->tensor;
        }
        int of = item->kind == KILN_ITEM_ELLIPSIS ? rest : spans(item);
        dim += of;
        axis += item->kind == KILN_ITEM_AT ? 0 : item->kind == KILN_ITEM_NEW_AXIS ? 1 : of;
    }
    if (tensors && !are_neighbours(n, items)) z->start = 0;
    return !kiln_error();
}

// --- reading

// The broadcast shape of the tensors, as handles of that shape.
static size_t broadcast_ids(struct indexed *z)
{
    kiln_tensor *wide[KILN_MAX_RANK];
    if (z->n > 1) {
        kiln_broadcast_tensors(z->ids, (size_t)z->n, wide, (size_t)z->n);
        for (int i = 0; i < z->n; i++) z->ids[i] = wide[i];
    }
    return kiln_rank(z->ids[0]);
}

// The view with the indexed axes first.
static kiln_tensor *indexed_first(const struct indexed *z, int64_t *order)
{
    size_t rank = kiln_rank(z->view), n = 0;
    for (int i = 0; i < z->n; i++) order[n++] = z->axes[i];
    for (int d = 0; d < (int)rank; d++) {
        bool taken = false;
        for (int i = 0; i < z->n; i++) taken |= z->axes[i] == d;
        if (!taken) order[n++] = d;
    }
    return kiln_permute(z->view, (kiln_ints){rank, order});
}

// Moves the first `width` axes to `start`, or back.
static kiln_tensor *moved(kiln_tensor *t, size_t width, int start, bool back)
{
    int64_t order[KILN_MAX_RANK];
    size_t rank = kiln_rank(t), before = (size_t)start;
    if (before == 0 || width == 0 || width + before > rank) return t;
    for (size_t d = 0; d < rank; d++) {
        if (back)
            order[d] = (int64_t)(d < width ? d + before : d < width + before ? d - width : d);
        else
            order[d] = (int64_t)(d < before ? d + width : d < before + width ? d - before : d);
    }
    return kiln_permute(t, (kiln_ints){rank, order});
}

static kiln_tensor *read_indexed(struct indexed *z)
{
    int64_t order[KILN_MAX_RANK];
    if (z->n == 0) return z->view == z->x ? kiln_alias(z->x) : z->view;
    size_t width = broadcast_ids(z);
    if (kiln_error()) return NULL;
    if (z->n == 1) {
        kiln_tensor *y = kiln_take(z->view, z->axes[0], z->ids[0]);
        return z->start == z->axes[0] ? y : moved(y, (size_t)z->axes[0], (int)width, false);
    }
    kiln_tensor *y = kiln_gather_nd(indexed_first(z, order), kiln_stack(z->ids, (size_t)z->n, (int64_t)width));
    return moved(y, width, z->start, false);
}

kiln_tensor *kiln_index(kiln_tensor *x, size_t n, const kiln_index_item *items)
{
    struct composite call;
    struct indexed z;
    kiln_tensor *result = NULL;
    if (composite_begin(&call, "index") && composite_takes(&call, "x", x)) {
        if (n && !items)
            error_set(KILN_E_ARGUMENT, "items is NULL");
        else if (read_items(&z, x, n, items, false))
            result = read_indexed(&z);
    }
    composite_end(&call, &result, 1);
    return result;
}

// --- writing

// Places in the indexed axes seen as one. One that is out of range in its own is behind the end.
static kiln_tensor *flat_places(const struct indexed *z, int64_t size)
{
    if (z->n == 1) return as_line(z->ids[0]);
    kiln_tensor *flat = NULL, *inside = NULL;
    for (int i = 0; i < z->n; i++) {
        int64_t own = kiln_dim(z->view, z->axes[i]);
        kiln_tensor *id = kiln_cast(z->ids[i], KILN_I64), *length = kiln_scalar_int(own);
        kiln_tensor *fits = kiln_logical_and(kiln_greater_equal(id, kiln_scalar_int(-own)), kiln_less(id, length));
        id = kiln_where(kiln_less(id, kiln_scalar_int(0)), kiln_add(id, length), id);
        flat = flat ? kiln_add(kiln_mul(flat, length), id) : id;
        inside = inside ? kiln_logical_and(inside, fits) : fits;
    }
    return as_line(kiln_where(inside, flat, kiln_scalar_int(size)));
}

// src as the rows that go to the places: broadcast to what x[items] is, the tensors' axes first.
static kiln_tensor *rows_of(const struct indexed *z, kiln_tensor *src, kiln_tensor *first, int64_t count, int64_t rest)
{
    int64_t dims[KILN_MAX_RANK];
    size_t width = kiln_rank(z->ids[0]), others = kiln_rank(first) - (size_t)z->n, n = 0;
    if (width + others > KILN_MAX_RANK) {
        error_set(KILN_E_SHAPE, "there would be more than %d dimensions", KILN_MAX_RANK);
        return NULL;
    }
    for (size_t d = 0; d < others + width; d++) {
        bool own = d >= (size_t)z->start && d < (size_t)z->start + width;
        dims[d] = own ? kiln_dim(z->ids[0], (int64_t)d - z->start) : kiln_dim(first, z->n + (int64_t)n++);
    }
    return kiln_reshape(moved(kiln_expand(src, others + width, dims), width, z->start, true), KILN_SHAPE(count, rest));
}

static kiln_tensor *with_rows(struct indexed *z, kiln_tensor *src, bool accumulate)
{
    int64_t order[KILN_MAX_RANK], back[KILN_MAX_RANK], size = 1, rest = 1;
    broadcast_ids(z);
    kiln_tensor *first = indexed_first(z, order);
    if (kiln_error()) return NULL;
    int64_t count = kiln_numel(z->ids[0]), rank = (int64_t)kiln_rank(first);
    for (int64_t d = 0; d < rank; d++) *(d < z->n ? &size : &rest) *= kiln_dim(first, d);
    kiln_tensor *rows = rows_of(z, src, first, count, rest);
    if (count == 0 || rest == 0) return z->view;
    kiln_tensor *matrix = kiln_reshape(first, KILN_SHAPE(size, rest)), *places = flat_places(z, size);
    kiln_tensor *each = kiln_expand(kiln_reshape(places, KILN_SHAPE(count, 1)), KILN_SHAPE(count, rest));
    kiln_tensor *y = accumulate ? kiln_index_add(matrix, 0, places, rows) : kiln_scatter(matrix, 0, each, rows);
    for (int64_t d = 0; d < rank; d++) back[order[d]] = d;
    if (kiln_error()) return NULL;
    return kiln_permute(kiln_reshape(y, kiln_rank(first), kiln_dims(first)), (kiln_ints){(size_t)rank, back});
}

// src against a view some of whose axes a mask has: what of src stands for the elements that the mask takes becomes as
// many axes of size 1. NULL without an error: src has an element for each.
static kiln_tensor *along_mask(const struct indexed *z, kiln_tensor *src)
{
    int64_t dims[KILN_MAX_RANK];
    size_t masked = kiln_rank(z->mask), behind = kiln_rank(z->view) - (size_t)z->axes[0] - masked, n = 0;
    size_t rank = kiln_rank(src);
    if (rank <= behind) return src;
    if (kiln_dims(src)[rank - 1 - behind] != 1 || rank - 1 + masked > KILN_MAX_RANK) return NULL;
    for (size_t d = 0; d < rank - 1 - behind; d++) dims[n++] = kiln_dims(src)[d];
    for (size_t d = 0; d < masked; d++) dims[n++] = 1;
    for (size_t d = rank - behind; d < rank; d++) dims[n++] = kiln_dims(src)[d];
    return kiln_reshape(src, n, dims);
}

static kiln_tensor *with_mask(struct indexed *z, kiln_tensor *src, bool accumulate)
{
    int64_t dims[KILN_MAX_RANK];
    size_t rank = kiln_rank(z->view), masked = kiln_rank(z->mask);
    kiln_tensor *wide = along_mask(z, src);
    if (!wide && !kiln_error()) {
        add_mask(z, z->mask, z->axes[0]);
        return kiln_error() ? NULL : with_rows(z, src, accumulate);
    }
    for (size_t d = 0; d < rank; d++) {
        size_t own = d - (size_t)z->axes[0];
        dims[d] = d >= (size_t)z->axes[0] && own < masked ? kiln_dims(z->mask)[own] : 1;
    }
    kiln_tensor *mask = kiln_reshape(z->mask, rank, dims), *old = z->view;
    if (!is_real(old) && is_real(wide)) {
        error_set(KILN_E_DTYPE, "src is %s, it does not go into x %s; cast it first", type_of(src).s, type_of(z->x).s);
        return NULL;
    }
    kiln_tensor *to = kiln_expand(wide, rank, kiln_dims(old));
    return kiln_where(mask, accumulate ? kiln_add(old, to) : kiln_cast(to, kiln_tensor_dtype(old)), old);
}

static void write_items(kiln_tensor *x, size_t n, const kiln_index_item *items, kiln_tensor *src, bool accumulate)
{
    struct indexed z;
    if (n && !items) {
        error_set(KILN_E_ARGUMENT, "items is NULL");
        return;
    }
    if (!read_items(&z, x, n, items, true)) return;
    kiln_tensor *value = src;
    if (z.mask)
        value = with_mask(&z, src, accumulate);
    else if (z.n)
        value = with_rows(&z, src, accumulate);
    else if (accumulate)
        value = kiln_add(z.view, src);
    if (!kiln_error() && value != z.view) kiln_assign(z.view, value);
}

static kiln_status write_in_place(const char *name, kiln_tensor *x, size_t n, const kiln_index_item *items,
                                  kiln_tensor *src, bool accumulate)
{
    struct composite call;
    if (composite_begin(&call, name) && composite_takes(&call, "x", x) && composite_takes(&call, "src", src))
        write_items(x, n, items, src, accumulate);
    composite_end(&call, NULL, 0);
    return kiln_error();
}

kiln_status kiln_index_assign(kiln_tensor *x, size_t n, const kiln_index_item *items, kiln_tensor *src)
{
    return write_in_place("index_assign", x, n, items, src, false);
}

kiln_status kiln_index_assign_add(kiln_tensor *x, size_t n, const kiln_index_item *items, kiln_tensor *src)
{
    return write_in_place("index_assign_add", x, n, items, src, true);
}

kiln_tensor *kiln_index_put(kiln_tensor *x, size_t n, const kiln_index_item *items, kiln_tensor *src, bool accumulate)
{
    struct composite call;
    kiln_tensor *result = NULL;
    if (composite_begin(&call, "index_put") && composite_takes(&call, "x", x) && composite_takes(&call, "src", src)) {
        result = kiln_contiguous(x);
        if (result) write_items(result, n, items, src, accumulate);
    }
    composite_end(&call, &result, 1);
    return result;
}
