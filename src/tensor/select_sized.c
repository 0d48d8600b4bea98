// The same as select.c where the caller says how many there are at most: nothing is read by the host, so that a graph
// can hold it. What there is not is filled; how many there would be is a result.
#include "tensor/select.h"

struct found {
    kiln_tensor *at;    // [size]: places in the line, 0 where there are no more
    kiln_tensor *there; // [size]: whether there is one
    kiln_tensor *count; // of all
};

// Each true element knows its rank among them from the running count and writes its place there; the others, and those
// that find no room, all write behind the last.
static struct found find(kiln_tensor *mask, int64_t size)
{
    int64_t n = kiln_numel(mask);
    kiln_device *dev = kiln_tensor_device(mask);
    struct found f = {.at = kiln_zeros(dev, KILN_I64, KILN_SHAPE(size)),
                      .there = kiln_zeros(dev, KILN_BOOL, KILN_SHAPE(size)),
                      .count = kiln_zeros(dev, KILN_I64, KILN_SHAPE0)};
    if (n == 0) return f;
    kiln_tensor *rank = kiln_cumsum(mask, 0), *room = kiln_zeros(dev, KILN_I64, KILN_SHAPE(size + 1));
    kiln_tensor *fits = kiln_logical_and(mask, kiln_less_equal(rank, kiln_scalar_int(size)));
    kiln_tensor *to = kiln_where(fits, kiln_sub(rank, kiln_scalar_int(1)), kiln_scalar_int(size));
    f.count = kiln_select(rank, 0, n - 1);
    f.there = kiln_less(kiln_arange(dev, KILN_I64, 0, (double)size, 1), f.count);
    f.at = kiln_narrow(kiln_scatter(room, 0, to, kiln_arange(dev, KILN_I64, 0, (double)n, 1)), 0, 0, size);
    return f;
}

static kiln_tensor *filled(const struct found *f, kiln_tensor *line, double fill)
{
    kiln_device *dev = kiln_tensor_device(line);
    kiln_tensor *none = kiln_full(dev, kiln_tensor_dtype(line), KILN_SHAPE0, fill);
    int64_t size = kiln_numel(f->at);
    if (kiln_numel(line) == 0) return kiln_expand(none, KILN_SHAPE(size));
    return kiln_where(f->there, kiln_take(line, 0, f->at), none);
}

static kiln_status check(const char *op, kiln_tensor *x, int64_t size)
{
    TRY(tensor_check(op, "x", x));
    if (size < 0 || size >= INT64_MAX / (int64_t)sizeof(int64_t))
        return error_set(KILN_E_ARGUMENT, "%s: size is %lld", op, (long long)size);
    return KILN_OK;
}

struct made {
    const char *op;
    struct kiln_scope scope;
    bool fit;
    kiln_tensor *r[4];
};

static void begin(struct made *m)
{
    scope_enter(&m->scope);
    m->fit = indices_are_made();
}

// Hands the results over, those that are asked for.
static kiln_status end(struct made *m, kiln_tensor **const *to, int n)
{
    thread_state.indices_fit = m->fit;
    error_name_op(m->op);
    scope_leave(&m->scope, m->r, error_pending ? 0 : (size_t)n);
    for (int i = 0; i < n; i++) {
        if (to[i])
            *to[i] = error_pending ? NULL : m->r[i];
        else if (!error_pending)
            kiln_free(&m->r[i]);
    }
    return error_pending;
}

kiln_status kiln_nonzero_sized(kiln_tensor *x, int64_t size, int64_t fill, kiln_tensor **places, kiln_tensor **count)
{
    struct made m = {.op = "nonzero_sized"};
    if (error_pending) return error_pending;
    TRY(check(m.op, x, size));
    begin(&m);
    struct found f = find(line_of(is_set(x)), size);
    kiln_tensor *there = kiln_reshape(f.there, KILN_SHAPE(size, 1));
    m.r[0] = kiln_rank(x) ? kiln_where(there, places_in(x, f.at), kiln_scalar_int(fill)) : places_in(x, f.at);
    m.r[1] = f.count;
    return end(&m, (kiln_tensor * *const[]){places, count}, 2);
}

kiln_status kiln_masked_select_sized(kiln_tensor *x, kiln_tensor *mask, int64_t size, double fill, kiln_tensor **values,
                                     kiln_tensor **count)
{
    struct made m = {.op = "masked_select_sized"};
    struct type both;
    if (error_pending) return error_pending;
    TRY(check(m.op, x, size));
    TRY(masked_select_check(m.op, x, mask, &both));
    begin(&m);
    struct found f = find(line_of(kiln_expand(mask, both.rank, both.dims)), size);
    m.r[0] = filled(&f, line_of(kiln_expand(x, both.rank, both.dims)), fill);
    m.r[1] = f.count;
    return end(&m, (kiln_tensor * *const[]){values, count}, 2);
}

// r: values, inverse, counts, count.
static void unique(kiln_tensor *x, int64_t size, double fill, kiln_tensor **r)
{
    kiln_device *dev = kiln_tensor_device(x);
    kiln_tensor *line = line_of(x), *sorted = NULL, *order = NULL;
    int64_t n = kiln_numel(x);
    r[2] = kiln_zeros(dev, KILN_I64, KILN_SHAPE(size));
    kiln_sort(line, 0, false, &sorted, &order);
    struct found f = find(n ? group_begins(sorted) : kiln_zeros(dev, KILN_BOOL, KILN_SHAPE(0)), size);
    r[0] = filled(&f, sorted, fill);
    r[3] = f.count;
    r[1] = kiln_reshape(order, kiln_rank(x), kiln_dims(x));
    if (n == 0 || error_pending) return;
    kiln_tensor *group = kiln_sub(kiln_cumsum(group_begins(sorted), 0), kiln_scalar_int(1));
    kiln_tensor *to = kiln_minimum(group, kiln_scalar_int(size)), *ones = kiln_ones(dev, KILN_I64, KILN_SHAPE(n));
    kiln_tensor *room = kiln_zeros(dev, KILN_I64, KILN_SHAPE(size + 1));
    r[2] = kiln_narrow(kiln_scatter_add(room, 0, to, ones), 0, 0, size);
    r[1] = kiln_reshape(kiln_scatter(kiln_zeros(dev, KILN_I64, KILN_SHAPE(n)), 0, order, group), kiln_rank(x),
                        kiln_dims(x));
}

kiln_status kiln_unique_sized(kiln_tensor *x, int64_t size, double fill, kiln_tensor **values, kiln_tensor **inverse,
                              kiln_tensor **counts, kiln_tensor **count)
{
    struct made m = {.op = "unique_sized"};
    if (error_pending) return error_pending;
    TRY(check(m.op, x, size));
    begin(&m);
    unique(x, size, fill, m.r);
    return end(&m, (kiln_tensor * *const[]){values, inverse, counts, count}, 4);
}
