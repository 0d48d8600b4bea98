// What a tensor is.
#include "tensor/tensor.h"

static bool bad(const char *op, const kiln_tensor *t)
{
    return tensor_check_any(op, "t", t) != KILN_OK;
}

kiln_dtype kiln_tensor_dtype(const kiln_tensor *t)
{
    if (bad("tensor_dtype", t)) return KILN_F32;
    return shown_dtype(t->shown, t->type.dtype);
}

size_t kiln_rank(const kiln_tensor *t)
{
    return bad("rank", t) ? 0 : (size_t)tensor_shown_rank(t);
}

const int64_t *kiln_dims(const kiln_tensor *t)
{
    return bad("dims", t) ? NULL : tensor_shown_dims(t);
}

int64_t kiln_dim(const kiln_tensor *t, int64_t axis)
{
    if (bad("dim", t)) return -1;
    int i = axis_normalize(axis, tensor_shown_rank(t));
    if (i >= 0) return tensor_shown_dims(t)[i];
    char text[TYPE_TEXT_MAX];
    error_set(KILN_E_AXIS, "dim: axis %lld is out of range for %s", (long long)axis, tensor_text(t, text, sizeof text));
    return -1;
}

int64_t kiln_numel(const kiln_tensor *t)
{
    if (bad("numel", t)) return 0;
    int64_t n = type_numel(&t->type);
    if (KILN_UNLIKELY(shown_is_packed(t->shown))) return n > INT64_MAX / 2 ? INT64_MAX : 2 * n;
    return n >> (t->shown == SHOWN_COMPLEX);
}

const int64_t *kiln_strides(const kiln_tensor *t)
{
    return bad("strides", t) ? NULL : t->layout.strides;
}

bool kiln_is_contiguous(const kiln_tensor *t)
{
    return !bad("is_contiguous", t) && ((!t->storage && !t->builder) || layout_is_contiguous(&t->type, &t->layout));
}

bool kiln_is_view_of(const kiln_tensor *t, const kiln_tensor *base)
{
    if (bad("is_view_of", t) || bad("is_view_of", base)) return false;
    struct sink *capture = tensor_capture(t);
    if (capture && tensor_capture(base)) return capture->capture->on_one_storage(capture, t, base);
    return t->storage && t->storage == base->storage;
}

kiln_device *kiln_tensor_device(const kiln_tensor *t)
{
    if (bad("tensor_device", t)) return NULL;
    struct sink *capture = tensor_capture(t);
    return t->storage ? t->storage->dev : capture ? capture->capture->device(capture) : NULL;
}

uint64_t kiln_tensor_version(const kiln_tensor *t)
{
    return bad("tensor_version", t) || !t->storage ? 0 : t->storage->version;
}

size_t kiln_dtype_size(kiln_dtype dtype)
{
    if ((unsigned)dtype < DTYPE_COUNT) return dtype_size_B[dtype];
    if (dtype_is_complex(dtype)) return 2 * (size_t)dtype_size_B[dtype_of_part(dtype)];
    if (shown_is_packed(shown_of_dtype(dtype))) {
        error_set(KILN_E_DTYPE, "dtype_size: two %s lie in a byte", dtype_name((unsigned)dtype));
        return 0;
    }
    if (dtype_is_stored(dtype)) return 1;
    error_set(KILN_E_DTYPE, "dtype_size: dtype %d is not one of kiln_dtype", (int)dtype);
    return 0;
}

const char *kiln_dtype_name(kiln_dtype dtype)
{
    return dtype_name((unsigned)dtype);
}

bool kiln_is_same(const kiln_tensor *a, const kiln_tensor *b)
{
    if (error_pending || tensor_check_any("is_same", "a", a) || tensor_check_any("is_same", "b", b)) return false;
    if (a->shown != b->shown) return false;
    if (!a->storage || a->storage != b->storage || a->layout.offset != b->layout.offset) return false;
    if (!type_equal(&a->type, &b->type)) return false;
    for (int i = 0; i < a->type.rank; i++)
        if (a->type.dims[i] > 1 && a->layout.strides[i] != b->layout.strides[i]) return false;
    return true;
}
