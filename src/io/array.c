// Sizes of arrays in files, tensors made of them and written to them, and checks of names.
#include "io/array.h"
#include "io/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kiln_status io_array_size(const char *where, const struct io_array *a, uint64_t *size_B)
{
    char text[IO_ARRAY_TEXT];
    if (a->dtype == KILN_I4 || a->dtype == KILN_U4)
        return error_set(KILN_E_UNSUPPORTED, "%s: %s, of which two lie in a byte: see kiln_bitcast, to u8", where,
                         io_array_text(a, text));
    uint64_t n = kiln_dtype_size(a->dtype);
    bool empty = false, overflow = false;
    for (size_t i = 0; i < a->rank; i++) {
        if (a->dims[i] == 0)
            empty = true;
        else
            overflow |= __builtin_mul_overflow(n, (uint64_t)a->dims[i], &n) || n > INT64_MAX;
    }
    *size_B = empty ? 0 : n;
    return overflow ? error_set(KILN_E_FORMAT, "%s: the size of %s overflows", where, io_array_text(a, text)) : KILN_OK;
}

kiln_status io_array_push(const char *where, struct io_array *a, uint64_t dim)
{
    if (dim > INT64_MAX) return error_set(KILN_E_FORMAT, "%s: a dimension of %" PRIu64 " is too large", where, dim);
    if (a->rank == KILN_MAX_RANK) {
        return error_set(KILN_E_UNSUPPORTED, "%s: the array has more than %d dimensions", where, KILN_MAX_RANK);
    }
    a->dims[a->rank++] = (int64_t)dim;
    return KILN_OK;
}

void io_fix_bools(const struct io_array *a, void *data)
{
    if (a->dtype != KILN_BOOL) return;
    int64_t n = 1;
    for (size_t i = 0; i < a->rank; i++) n *= a->dims[i];
    unsigned char *at = data;
    for (int64_t i = 0; i < n; i++) at[i] = at[i] != 0;
}

kiln_tensor *io_array_tensor(kiln_device *dev, const struct io_array *a, void *data)
{
    io_fix_bools(a, data);
    return kiln_from_data(dev, a->dtype, a->rank, a->dims, data);
}

kiln_status io_array_read(const char *where, const kiln_tensor *t, struct io_array *a, void **data, uint64_t *size_B)
{
    *data = NULL;
    *a = (struct io_array){.dtype = kiln_tensor_dtype(t), .rank = kiln_rank(t)};
    if (error_pending) return error_pending;
    if (a->rank) memcpy(a->dims, kiln_dims(t), a->rank * sizeof a->dims[0]);
    TRY(io_array_size(where, a, size_B));
    TRY(io_alloc(where, *size_B, data));
    kiln_status status = kiln_read(t, *data, (size_t)*size_B);
    if (status) {
        free(*data);
        *data = NULL;
    }
    return status;
}

void io_swap_bytes(void *data, uint64_t size_B, size_t item_B)
{
    unsigned char *at = data;
    for (uint64_t i = 0; i + item_B <= size_B; i += item_B) {
        for (size_t low = 0, high = item_B - 1; low < high; low++, high--) {
            unsigned char byte = at[i + low];
            at[i + low] = at[i + high];
            at[i + high] = byte;
        }
    }
}

const char *io_array_text(const struct io_array *a, char *text)
{
    int n = snprintf(text, IO_ARRAY_TEXT, "%s[", kiln_dtype_name(a->dtype));
    for (size_t i = 0; i < a->rank; i++)
        n += snprintf(text + n, (size_t)(IO_ARRAY_TEXT - n), i ? ",%" PRId64 : "%" PRId64, a->dims[i]);
    snprintf(text + n, (size_t)(IO_ARRAY_TEXT - n), "]");
    return text;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

kiln_status io_find_twice(const char *where, const char *const *names, size_t n, const char **twice)
{
    *twice = NULL;
    if (n < 2) return KILN_OK;
    const char **sorted = NULL;
    TRY(io_alloc(where, (uint64_t)n * sizeof *sorted, &sorted));
    memcpy(sorted, names, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_texts);
    for (size_t i = 1; i < n && !*twice; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) == 0) *twice = sorted[i];
    }
    free(sorted);
    return KILN_OK;
}

kiln_status io_check_names(const char *where, const char *const *names, kiln_tensor *const *tensors, size_t n)
{
    if (n && (!names || !tensors)) {
        return error_set(KILN_E_ARGUMENT, "%s: the list of %s is NULL", where, names ? "tensors" : "names");
    }
    for (size_t i = 0; i < n; i++) {
        if (!names[i] || !names[i][0]) return error_set(KILN_E_ARGUMENT, "%s: name %zu is empty", where, i);
        if (!tensors[i]) return error_set(KILN_E_ARGUMENT, "%s: tensor %zu, \"%s\", is NULL", where, i, names[i]);
    }
    const char *twice;
    TRY(io_find_twice(where, names, n, &twice));
    return twice ? error_set(KILN_E_ARGUMENT, "%s: the name \"%s\" is given twice", where, twice) : KILN_OK;
}
