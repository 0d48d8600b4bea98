// In-place writes and transfers between devices.
#include "ops/families.h"
#include "tensor/apply.h"
#include "tensor/tensor.h"
#include <kiln/ops.h>
#include <stdlib.h>

static bool same_place(const kiln_tensor *a, const kiln_tensor *b)
{
    if (!type_equal(&a->type, &b->type) || a->layout.offset != b->layout.offset) return false;
    for (int i = 0; i < a->type.rank; i++)
        if (a->type.dims[i] > 1 && a->layout.strides[i] != b->layout.strides[i]) return false;
    return true;
}

// An operand that overlaps the target elsewhere than in place is copied first: an element must not be read after it was
// written.
kiln_tensor *write_safe_operand(const kiln_tensor *dst, kiln_tensor *src)
{
    if (!src || !src->storage || src->storage != dst->storage || same_place(dst, src)) return src;
    return kiln_contiguous(src);
}

kiln_status kiln_assign(kiln_tensor *dst, kiln_tensor *src)
{
    if (error_pending) return error_pending;
    TRY(tensor_check_any("assign", "dst", dst));
    TRY(tensor_check_any("assign", "src", src));
    kiln_tensor *const in[] = {dst, src};
    return op_apply_inplace(&op_instances[OP_assign], 2, in, NULL);
}

kiln_status kiln_set_slice(kiln_tensor *dst, const struct kiln_slice_opts *opts, kiln_tensor *src)
{
    if (error_pending) return error_pending;
    struct kiln_scope scope;
    scope_enter(&scope);
    kiln_tensor *part = kiln_slice(dst, opts);
    kiln_status status = part ? kiln_assign(part, src) : error_pending;
    if (status) error_name_op("set_slice");
    scope_leave(&scope, NULL, 0);
    return status;
}

kiln_status kiln_write(kiln_tensor *dst, const void *data, size_t size_B)
{
    if (error_pending) return error_pending;
    TRY(tensor_check_any("write", "dst", dst));
    uint64_t need_B = (uint64_t)type_numel(&dst->type) * dtype_size_B[dst->type.dtype];
    char text[TYPE_TEXT_MAX];
    if (need_B != size_B)
        return error_set(KILN_E_ARGUMENT, "write: %s takes %llu bytes, size_B is %zu",
                         tensor_text(dst, text, sizeof text), (unsigned long long)need_B, size_B);
    if (size_B && !data) return error_set(KILN_E_ARGUMENT, "write: data is NULL");
    if (!dst->storage && !tensor_capture(dst))
        return error_set(KILN_E_ARGUMENT, "write: dst is a weak scalar or an abstract value");
    if (size_B == 0) return KILN_OK;
    if (!thread_state.capture && layout_is_contiguous(&dst->type, &dst->layout) && !dst->node && !dst->family) {
        TRY(storage_prepare_write(dst->storage, "write"));
        dst->storage->version++;
        dst->storage->writer = "write";
        return device_upload_as(dst->storage->dev, &dst->type, tensor_address(dst), data, size_B);
    }
    struct kiln_scope scope;
    scope_enter(&scope);
    kiln_tensor *src =
        kiln_from_data(kiln_tensor_device(dst), kiln_tensor_dtype(dst), kiln_rank(dst), kiln_dims(dst), data);
    kiln_status status = src ? kiln_assign(dst, src) : error_pending;
    scope_leave(&scope, NULL, 0);
    return status;
}

static kiln_tensor *transfer(kiln_tensor *t, kiln_device *dev)
{
    uint64_t size_B = (uint64_t)type_numel(&t->type) * dtype_size_B[t->type.dtype];
    void *host = malloc(size_B ? size_B : 1);
    if (!host) {
        error_set(KILN_E_MEMORY, "to_device: out of host memory");
        return NULL;
    }
    kiln_tensor *r = tensor_read(t, host) ? NULL : tensor_empty(dev, &t->type);
    if (r && device_upload_as(dev, &t->type, tensor_address(r), host, size_B)) {
        tensor_destroy(r);
        r = NULL;
    }
    free(host);
    return r;
}

kiln_tensor *kiln_to_device(kiln_tensor *t, kiln_device *dev)
{
    if (error_pending || tensor_check_any("to_device", "t", t)) return NULL;
    if (device_check("to_device", dev)) return NULL;
    if (t->type.weak && !t->storage) return tensor_place(t, dev);
    if (kiln_tensor_device(t) == dev) return kiln_alias(t);
    kiln_tensor *r = transfer(t, dev);
    if (!r) {
        error_name_op("to_device");
        return NULL;
    }
    tensor_show(r, t->shown);
    r->storage->writer = "to_device";
    if (!(t->node || t->family) || thread_state.no_grad) return r;
    const struct type *types[] = {&t->type};
    struct op_call c = {.op = &op_instances[OP_to_device], .n_in = 1, .n_out = 1, .in = types};
    c.out[0] = r->type;
    if (!tensor_tape.record(&c, &t, &r)) return r;
    tensor_destroy(r);
    return NULL;
}

kiln_status kiln_split_sizes(kiln_tensor *t, int64_t axis, size_t n_out, const int64_t *sizes, kiln_tensor **out)
{
    if (error_pending) return error_pending;
    TRY(tensor_check("split_sizes", "t", t));
    if (!out || (n_out && !sizes)) return error_set(KILN_E_ARGUMENT, "split_sizes: %s is NULL", out ? "sizes" : "out");
    int64_t total = 0, at = 0;
    int i = axis_normalize(axis, t->type.rank);
    char text[TYPE_TEXT_MAX];
    if (i < 0)
        return error_set(KILN_E_AXIS, "split_sizes: axis %lld is out of range for %s", (long long)axis,
                         type_text(&t->type, text, sizeof text));
    for (size_t k = 0; k < n_out; k++) {
        out[k] = NULL;
        total += sizes[k];
    }
    if (total != t->type.dims[i])
        return error_set(KILN_E_SHAPE, "split_sizes: the sizes add up to %lld, axis %d of %s does not",
                         (long long)total, i, type_text(&t->type, text, sizeof text));
    for (size_t k = 0; k < n_out; k++) {
        out[k] = kiln_narrow(t, i, at, sizes[k]);
        if (!out[k]) {
            while (k--) kiln_free(&out[k]);
            return error_pending;
        }
        at += sizes[k];
    }
    return KILN_OK;
}

kiln_status kiln_split(kiln_tensor *t, int64_t axis, kiln_tensor **out, size_t n_out)
{
    if (error_pending) return error_pending;
    TRY(tensor_check("split", "t", t));
    int i = axis_normalize(axis, t->type.rank);
    char text[TYPE_TEXT_MAX];
    if (i < 0)
        return error_set(KILN_E_AXIS, "split: axis %lld is out of range for %s", (long long)axis,
                         type_text(&t->type, text, sizeof text));
    if (n_out == 0 || t->type.dims[i] % (int64_t)n_out)
        return error_set(KILN_E_SHAPE,
                         "split: axis %d of %s does not divide into %zu parts; kiln_split_sizes makes uneven ones", i,
                         type_text(&t->type, text, sizeof text), n_out);
    int64_t *sizes = malloc(sizeof *sizes * n_out);
    if (!sizes) return error_set(KILN_E_MEMORY, "split: out of memory");
    for (size_t k = 0; k < n_out; k++) sizes[k] = t->type.dims[i] / (int64_t)n_out;
    kiln_status status = kiln_split_sizes(t, axis, n_out, sizes, out);
    free(sizes);
    return status;
}

static kiln_device *generator_of(const char *function, kiln_device *dev)
{
    if (!dev) return device_default();
    return device_check(function, dev) ? NULL : dev;
}

kiln_status kiln_set_rng_state(kiln_device *dev, uint64_t seed, uint64_t offset)
{
    if (error_pending) return error_pending;
    dev = generator_of("set_rng_state", dev);
    if (!dev) return error_pending;
    pthread_mutex_lock(&dev->lock);
    dev->rng_seed = seed;
    dev->rng_offset = offset;
    pthread_mutex_unlock(&dev->lock);
    return KILN_OK;
}

kiln_status kiln_seed(kiln_device *dev, uint64_t seed)
{
    return kiln_set_rng_state(dev, seed, 0);
}

kiln_status kiln_rng_state(kiln_device *dev, uint64_t *seed, uint64_t *offset)
{
    if (error_pending) return error_pending;
    dev = generator_of("rng_state", dev);
    if (!dev) return error_pending;
    pthread_mutex_lock(&dev->lock);
    if (seed) *seed = dev->rng_seed;
    if (offset) *offset = dev->rng_offset;
    pthread_mutex_unlock(&dev->lock);
    return KILN_OK;
}
