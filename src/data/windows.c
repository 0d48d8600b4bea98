// Windows of a text for language models: a data set of two fields.
#include "data/loader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct windows {
    int64_t length, stride;
    int64_t ids[]; // as many as the tensor has
};

static kiln_status get_window(void *user, int64_t index, void *const *rows, size_t n)
{
    const struct windows *w = user;
    const int64_t *begin = w->ids + index * w->stride;
    for (size_t k = 0; k < n; k++) memcpy(rows[k], begin + k, (size_t)w->length * sizeof *begin);
    return KILN_OK;
}

static bool is_integer(kiln_dtype dtype)
{
    return dtype == KILN_U8 || dtype == KILN_I8 || dtype == KILN_I16 || dtype == KILN_I32 || dtype == KILN_I64;
}

static int64_t load_int(kiln_dtype dtype, const void *v, int64_t i)
{
    switch (dtype) {
    case KILN_U8: return ((const uint8_t *)v)[i];
    case KILN_I8: return ((const int8_t *)v)[i];
    case KILN_I16: return ((const int16_t *)v)[i];
    case KILN_I32: return ((const int32_t *)v)[i];
    default: return ((const int64_t *)v)[i];
    }
}

// The narrow ids are read into the end of the memory for the wide ones, which are written from the beginning.
static struct windows *take(const kiln_tensor *ids, int64_t n)
{
    kiln_dtype dtype = kiln_tensor_dtype(ids);
    size_t narrow_B = (size_t)n * kiln_dtype_size(dtype), wide_B = (size_t)n * sizeof(int64_t);
    struct windows *w = malloc(sizeof *w + wide_B);
    if (!w) {
        error_set(KILN_E_MEMORY, "loader_add_windows: no memory for %" PRId64 " ids", n);
        return NULL;
    }
    unsigned char *narrow = (unsigned char *)w->ids + (wide_B - narrow_B);
    if (kiln_read(ids, narrow, narrow_B)) {
        free(w);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t id = load_int(dtype, narrow, i);
        memcpy(&w->ids[i], &id, sizeof id);
    }
    return w;
}

kiln_status kiln_loader_add_windows(kiln_loader *loader, const kiln_tensor *ids, int64_t length, int64_t stride)
{
    static const char function[] = "loader_add_windows";
    TRY(loader_check(function, loader));
    if (!ids) return error_set(KILN_E_ARGUMENT, "%s: ids is NULL", function);
    kiln_dtype dtype = kiln_tensor_dtype(ids);
    if (error_pending) return error_pending;
    if (!is_integer(dtype))
        return error_set(KILN_E_DTYPE, "%s: ids are %s, not integers", function, kiln_dtype_name(dtype));
    if (kiln_rank(ids) != 1) return error_set(KILN_E_SHAPE, "%s: ids have rank %zu, not 1", function, kiln_rank(ids));
    if (length < 1 || stride < 0)
        return error_set(KILN_E_ARGUMENT, "%s: windows of %" PRId64 " ids, %" PRId64 " apart", function, length,
                         stride);
    int64_t n = kiln_numel(ids);
    if (n <= length)
        return error_set(KILN_E_SHAPE, "%s: %" PRId64 " ids hold no window of %" PRId64 " and one more", function, n,
                         length);
    struct windows *w = take(ids, n);
    if (!w) return error_pending;
    w->length = length;
    w->stride = stride ? stride : length;
    const kiln_field_spec *field = KILN_FIELD(.dtype = KILN_I64, .rank = 1, .dims = &length);
    kiln_status status = loader_add_dataset(function, loader, (n - 1 - length) / w->stride + 1, 2,
                                            (const kiln_field_spec *[]){field, field},
                                            &(struct dataset){.get = get_window, .user = w, .user_free = free});
    if (status) free(w);
    return status;
}
