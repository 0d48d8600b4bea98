// Checks of arguments, and tables of the host as tensors.
#include "compose/given.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool given_rank(const char *argument, const kiln_tensor *t, size_t rank, const char *layout)
{
    if (!error_pending && kiln_rank(t) != rank)
        error_set(KILN_E_SHAPE, "%s must have %zu dimensions, %s, it is %s", argument, rank, layout, type_of(t).s);
    return !error_pending;
}

bool given_image(const char *argument, const kiln_tensor *t)
{
    if (!error_pending && kiln_rank(t) < 2)
        error_set(KILN_E_SHAPE, "%s must be images [...,H,W], it is %s", argument, type_of(t).s);
    return !error_pending;
}

bool given_float(const char *argument, const kiln_tensor *t)
{
    if (!error_pending && !dtype_is_float(kiln_tensor_dtype(t)))
        error_set(KILN_E_DTYPE, "%s must be floats, it is %s", argument, type_of(t).s);
    return !error_pending;
}

bool given_integer(const char *argument, const kiln_tensor *t)
{
    unsigned d = error_pending ? KILN_I64 : kiln_tensor_dtype(t);
    if (!error_pending && (d >= DTYPE_COUNT || dtype_info[d].kind != KIND_INT))
        error_set(KILN_E_DTYPE, "%s must be integers, it is %s", argument, type_of(t).s);
    return !error_pending;
}

bool given_range(const char *option, int64_t value, int64_t least, int64_t most)
{
    if (!error_pending && (value < least || value > most))
        error_set(KILN_E_ARGUMENT, "%s is %lld, it must be from %lld to %lld", option, (long long)value,
                  (long long)least, (long long)most);
    return !error_pending;
}

int given_word(const char *option, const char *word, const char *const *words)
{
    char all[160] = "";
    if (!word) return 0;
    for (int i = 0; words[i]; i++) {
        if (!strcmp(word, words[i])) return i;
        size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s\"%s\"", i ? ", " : "", words[i]);
    }
    error_set(KILN_E_ARGUMENT, "%s is \"%.40s\"; there are %s", option, word, all);
    return -1;
}

void *table_new(int64_t n)
{
    enum { LARGEST = 1 << 27 }; // a gigabyte, which the host fills
    if (error_pending) return NULL;
    void *v = n < 0 || n > LARGEST ? NULL : malloc((size_t)n * 8 + 8);
    if (!v) error_set(KILN_E_MEMORY, "no memory for a table of %lld numbers", (long long)n);
    return v;
}

kiln_tensor *table_ints(kiln_device *dev, size_t rank, const int64_t *dims, int64_t *v)
{
    kiln_tensor *t = v ? kiln_from_data(dev, KILN_I64, rank, dims, v) : NULL;
    free(v);
    return t;
}

kiln_tensor *table_floats(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, double *v)
{
    int64_t n = 1;
    for (size_t i = 0; i < rank; i++) n *= dims[i];
    kiln_tensor *t = NULL;
    if (v && dtype != KILN_F64) {
        float *narrow = (float *)v;
        for (int64_t i = 0; i < n; i++) {
            double wide;
            memcpy(&wide, v + i, sizeof wide);
            float f = (float)wide;
            memcpy(narrow + i, &f, sizeof f);
        }
    }
    if (v) t = kiln_from_data(dev, dtype == KILN_F64 ? KILN_F64 : KILN_F32, rank, dims, v);
    free(v);
    return t && kiln_tensor_dtype(t) != dtype ? kiln_cast(t, dtype) : t;
}

kiln_dtype wide_dtype(kiln_dtype dtype)
{
    return dtype == KILN_F64 ? KILN_F64 : KILN_F32;
}

kiln_tensor *as_dtype(kiln_tensor *x, kiln_dtype dtype)
{
    return error_pending || kiln_tensor_dtype(x) == dtype ? x : kiln_cast(x, dtype);
}

kiln_tensor *rounded_to(kiln_tensor *x, kiln_dtype dtype)
{
    if (error_pending || kiln_tensor_dtype(x) == dtype) return x;
    return kiln_cast(dtype_is_float(dtype) ? x : kiln_round(x), dtype);
}

kiln_tensor *laid_along(kiln_tensor *line, size_t rank, int axis)
{
    int64_t dims[KILN_MAX_RANK];
    for (size_t i = 0; i < rank; i++) dims[i] = (int)i == axis ? kiln_numel(line) : 1;
    return kiln_reshape(line, rank - (size_t)axis, dims + axis);
}

kiln_tensor *with_dims_of(const kiln_tensor *like, size_t leading, kiln_tensor *x, size_t n, const int64_t *dims)
{
    int64_t all[KILN_MAX_RANK];
    if (error_pending) return NULL;
    memcpy(all, kiln_dims(like), leading * sizeof *all);
    memcpy(all + leading, dims, n * sizeof *all);
    return kiln_reshape(x, leading + n, all);
}

kiln_tensor *times_along(kiln_tensor *matrix, kiln_tensor *x, int axis)
{
    if (error_pending) return NULL;
    size_t rank = kiln_rank(x);
    if ((size_t)axis + 1 == rank) return kiln_matmul(x, kiln_transpose(matrix, 0, 1));
    int64_t dims[KILN_MAX_RANK], behind = 1;
    memcpy(dims, kiln_dims(x), rank * sizeof *dims);
    for (size_t i = (size_t)axis + 1; i < rank; i++) behind *= dims[i];
    kiln_tensor *y = kiln_matmul(matrix, with_dims_of(x, (size_t)axis, x, 2, (int64_t[]){dims[axis], behind}));
    if (error_pending) return NULL;
    dims[axis] = kiln_dims(matrix)[0];
    return kiln_reshape(y, rank, dims);
}
