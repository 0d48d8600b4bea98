// Tensors side by side, apart, and in grids.
#include "compose/along.h"
#include <stdlib.h>

// --- side by side

typedef kiln_tensor *widen_fn(kiln_tensor *x);

static kiln_tensor *joined(kiln_tensor *const *tensors, size_t n, widen_fn *widen, int axis)
{
    kiln_tensor **wide = malloc((n ? n : 1) * sizeof *wide);
    if (!wide) {
        error_set(KILN_E_MEMORY, "out of memory");
        return NULL;
    }
    for (size_t i = 0; i < n; i++) wide[i] = widen(tensors[i]);
    kiln_tensor *r = kiln_concat(wide, n, axis);
    free(wide);
    return r;
}

kiln_tensor *compose_hstack(kiln_tensor *const *tensors, size_t n)
{
    return joined(tensors, n, compose_atleast_1d, n && kiln_rank(tensors[0]) > 1);
}

kiln_tensor *compose_vstack(kiln_tensor *const *tensors, size_t n)
{
    return joined(tensors, n, compose_atleast_2d, 0);
}

kiln_tensor *compose_dstack(kiln_tensor *const *tensors, size_t n)
{
    return joined(tensors, n, compose_atleast_3d, 2);
}

static kiln_tensor *as_column(kiln_tensor *x)
{
    return kiln_rank(x) < 2 ? kiln_reshape(x, KILN_SHAPE(-1, 1)) : kiln_alias(x);
}

kiln_tensor *compose_column_stack(kiln_tensor *const *tensors, size_t n)
{
    return joined(tensors, n, as_column, 1);
}

// Each block as rows of the whole width, one below the other.
kiln_tensor *compose_block_diag(kiln_tensor *const *matrices, size_t n)
{
    int64_t width = 0, at = 0;
    kiln_tensor **rows = malloc((n ? n : 1) * sizeof *rows);
    if (!rows) {
        error_set(KILN_E_MEMORY, "out of memory");
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        rows[i] = compose_atleast_2d(matrices[i]);
        if (kiln_rank(rows[i]) > 2)
            error_set(KILN_E_SHAPE, "matrix %zu must have at most 2 dimensions, it is %s", i, type_of(rows[i]).s);
        width += kiln_dim(rows[i], -1);
    }
    for (size_t i = 0; i < n && !kiln_error(); i++) {
        int64_t own = kiln_dim(rows[i], 1);
        rows[i] = kiln_pad(rows[i], KILN_PAD(.before = KILN_ARGS(0, at), .after = KILN_ARGS(0, width - at - own)));
        at += own;
    }
    kiln_tensor *r = kiln_concat(rows, n, 0);
    free(rows);
    return r;
}

// --- apart

static kiln_status cut(kiln_tensor *x, int axis, const int64_t *ends, kiln_tensor **parts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t from = i ? ends[i - 1] : 0;
        parts[i] = along_part(x, axis, from, ends[i] > from ? ends[i] - from : 0);
    }
    return kiln_error();
}

static int64_t *room_for_ends(size_t n)
{
    int64_t *ends = malloc((n ? n : 1) * sizeof *ends);
    if (!ends) error_set(KILN_E_MEMORY, "out of memory");
    return ends;
}

kiln_status compose_array_split(kiln_tensor *x, int64_t axis, kiln_tensor **parts, size_t n_out)
{
    int a = composite_axis("axis", axis, kiln_rank(x), x);
    if (a < 0) return kiln_error();
    if (n_out == 0) return error_set(KILN_E_ARGUMENT, "there must be a part, n_out is 0");
    int64_t *ends = room_for_ends(n_out), size = kiln_dims(x)[a], n = (int64_t)n_out;
    for (int64_t i = 0, at = 0; ends && i < n; i++) ends[i] = at += size / n + (i < size % n);
    if (ends) cut(x, a, ends, parts, n_out);
    free(ends);
    return kiln_error();
}

kiln_status compose_tensor_split(kiln_tensor *x, int64_t axis, size_t at_count, const int64_t *at, kiln_tensor **parts,
                                 size_t n_out)
{
    int a = composite_axis("axis", axis, kiln_rank(x), x);
    if (a < 0) return kiln_error();
    if (n_out != at_count + 1)
        return error_set(KILN_E_ARGUMENT, "%zu places make %zu parts, n_out is %zu", at_count, at_count + 1, n_out);
    int64_t *ends = room_for_ends(n_out), size = kiln_dims(x)[a];
    for (size_t i = 0; ends && i < n_out; i++) {
        int64_t end = i == at_count ? size : at[i] < 0 ? at[i] + size : at[i];
        ends[i] = end < 0 ? 0 : end > size ? size : end;
    }
    if (ends) cut(x, a, ends, parts, n_out);
    free(ends);
    return kiln_error();
}

static kiln_status split_equally(kiln_tensor *x, int axis, size_t least, kiln_tensor **parts, size_t n_out)
{
    if (kiln_rank(x) < least)
        return error_set(KILN_E_SHAPE, "x must have %zu dimensions or more, it is %s", least, type_of(x).s);
    return kiln_split(x, axis, parts, n_out);
}

kiln_status compose_hsplit(kiln_tensor *x, kiln_tensor **parts, size_t n_out)
{
    return split_equally(x, kiln_rank(x) > 1, 1, parts, n_out);
}

kiln_status compose_vsplit(kiln_tensor *x, kiln_tensor **parts, size_t n_out)
{
    return split_equally(x, 0, 2, parts, n_out);
}

kiln_status compose_dsplit(kiln_tensor *x, kiln_tensor **parts, size_t n_out)
{
    return split_equally(x, 2, 3, parts, n_out);
}

// --- of one shape, in grids

static bool same_count(size_t n, size_t n_out)
{
    if (n == n_out) return true;
    error_set(KILN_E_ARGUMENT, "%zu tensors have as many results, n_out is %zu", n, n_out);
    return false;
}

// Widens dims by t's; the shapes are aligned at their ends.
static bool widen(kiln_tensor *t, int64_t *dims, size_t *rank)
{
    size_t own = kiln_rank(t);
    for (; *rank < own; (*rank)++) {
        for (size_t d = *rank; d > 0; d--) dims[d] = dims[d - 1];
        dims[0] = 1;
    }
    for (size_t d = 0; d < own; d++) {
        int64_t *size = &dims[*rank - own + d], mine = kiln_dims(t)[d];
        if (*size == 1)
            *size = mine;
        else if (mine != 1 && mine != *size)
            return false;
    }
    return true;
}

kiln_status compose_broadcast_tensors(kiln_tensor *const *tensors, size_t n, kiln_tensor **out, size_t n_out)
{
    int64_t dims[KILN_MAX_RANK];
    size_t rank = 0;
    if (!same_count(n, n_out)) return kiln_error();
    for (size_t i = 0; i < n; i++)
        if (!widen(tensors[i], dims, &rank))
            return error_set(KILN_E_SHAPE, "tensor %zu does not broadcast to those before it: it is %s", i,
                             type_of(tensors[i]).s);
    for (size_t i = 0; i < n; i++) out[i] = kiln_expand(tensors[i], rank, dims);
    return kiln_error();
}

kiln_status compose_meshgrid_xy(kiln_tensor *const *lines, size_t n, kiln_tensor **out, size_t n_out)
{
    if (!same_count(n, n_out)) return kiln_error();
    if (kiln_meshgrid(lines, n, out)) return kiln_error();
    for (size_t i = 0; n > 1 && i < n; i++) out[i] = kiln_transpose(out[i], 0, 1);
    return kiln_error();
}

kiln_tensor *compose_cartesian_prod(kiln_tensor *const *lines, size_t n)
{
    kiln_tensor *grid[KILN_MAX_RANK];
    if (n == 0 || n > KILN_MAX_RANK) {
        error_set(KILN_E_SHAPE, "takes 1 to %d lines, there are %zu", KILN_MAX_RANK, n);
        return NULL;
    }
    if (kiln_meshgrid(lines, n, grid)) return NULL;
    for (size_t i = 0; i < n; i++) grid[i] = as_line(grid[i]);
    return kiln_stack(grid, n, 1);
}

// --- places that the host counts

// Of `width` numbers each, ascending (or not descending), below n; those of the first `count`.
static void choose(int64_t n, int64_t width, bool again, int64_t count, int64_t *to)
{
    for (int64_t k = 0; k < width; k++) to[k] = again ? 0 : k;
    for (int64_t i = 1; i < count; i++) {
        int64_t *now = to + i * width, *before = now - width, k = width - 1;
        while (k > 0 && before[k] == (again ? n - 1 : n - width + k)) k--;
        for (int64_t j = 0; j < width; j++) now[j] = j < k ? before[j] : before[k] + 1 + (again ? 0 : j - k);
    }
}

// The number of choices, or -1 where it is 2^31 or more.
static int64_t choices(int64_t n, int64_t width, bool again)
{
    int64_t count = 1, from = again ? n + width - 1 : n;
    if (from < width) return width == 0;
    for (int64_t k = 1; k <= width; k++) {
        count = count * (from - width + k) / k;
        if (count > INT32_MAX) return -1;
    }
    return count;
}

kiln_tensor *compose_combinations(kiln_tensor *x, int64_t length, bool replacement)
{
    int64_t n = kiln_numel(x), count = kiln_rank(x) == 1 && length > 0 ? choices(n, length, replacement) : -1;
    if (kiln_rank(x) != 1 || length < 1) {
        error_set(KILN_E_ARGUMENT, "x must be a vector and length above 0: x is %s, length %lld", type_of(x).s,
                  (long long)length);
        return NULL;
    }
    int64_t *places = count < 0 || length > 4096 ? NULL : calloc((size_t)(count * length + 1), sizeof *places);
    if (!places) {
        error_set(KILN_E_MEMORY, "too many combinations of %lld of %lld", (long long)length, (long long)n);
        return NULL;
    }
    if (count) choose(n, length, replacement, count, places);
    kiln_tensor *index = kiln_from_data(kiln_tensor_device(x), KILN_I64, KILN_SHAPE(count, length), places);
    free(places);
    return count ? kiln_take(x, 0, index) : kiln_reshape(along_part(x, 0, 0, 0), KILN_SHAPE(0, length));
}

static kiln_tensor *triangle(kiln_device *dev, int64_t rows, int64_t cols, int64_t offset, bool lower)
{
    if (rows < 0 || cols < 0 || rows > INT32_MAX || cols > INT32_MAX) {
        error_set(KILN_E_SHAPE, "%lld rows and %lld columns", (long long)rows, (long long)cols);
        return NULL;
    }
    int64_t most = rows + cols + 1, from = offset < -most ? -most : offset > most ? most : offset, count = 0, n = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t below = i + from + (lower ? 1 : 0); // columns before the boundary
        below = below < 0 ? 0 : below > cols ? cols : below;
        count += lower ? below : cols - below;
    }
    int64_t *places = calloc((size_t)(2 * count + 1), sizeof *places);
    if (!places) {
        error_set(KILN_E_MEMORY, "out of memory for %lld places", (long long)count);
        return NULL;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < cols; k++) {
            if (lower ? k - i > from : k - i < from) continue;
            places[n] = i, places[count + n++] = k;
        }
    kiln_tensor *r = kiln_from_data(dev, KILN_I64, KILN_SHAPE(2, count), places);
    free(places);
    return r;
}

kiln_tensor *compose_tril_indices(kiln_device *dev, int64_t rows, int64_t cols, int64_t offset)
{
    return triangle(dev, rows, cols, offset, true);
}

kiln_tensor *compose_triu_indices(kiln_device *dev, int64_t rows, int64_t cols, int64_t offset)
{
    return triangle(dev, rows, cols, offset, false);
}

// --- powers

kiln_tensor *compose_vander(kiln_tensor *x, int64_t n, bool increasing)
{
    size_t rank = kiln_rank(x);
    int64_t dims[KILN_MAX_RANK];
    if (n < 0 || rank == KILN_MAX_RANK) {
        error_set(n < 0 ? KILN_E_ARGUMENT : KILN_E_SHAPE, "%lld columns of %s", (long long)n, type_of(x).s);
        return NULL;
    }
    if (!is_real(x)) x = kiln_cast(x, KILN_I64);
    kiln_tensor *wide = kiln_unsqueeze(x, (int64_t)rank);
    for (size_t d = 0; d < rank; d++) dims[d] = kiln_dim(x, (int64_t)d);
    dims[rank] = n ? n - 1 : 0;
    kiln_tensor *factors = kiln_expand(wide, rank + 1, dims);
    if (n) factors = along_join(along_full(wide, (int)rank, 1, kiln_tensor_dtype(x), 1), factors, (int)rank);
    kiln_tensor *powers = kiln_cumprod(factors, (int64_t)rank);
    return increasing ? powers : along_flip(powers, (int)rank);
}
