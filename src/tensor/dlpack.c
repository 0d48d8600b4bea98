// DLPack: memory of other libraries as tensors, and tensors for them. What comes in is a storage whose block has an
// owner elsewhere (struct foreign), which device_release tells when the block goes, wherever it has been moved to. What
// goes out holds a reference on the storage.
#include <kiln/dlpack.h>
#include <kiln/dlpack_structs.h>

#include "tensor/tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Which dtype is which code and bits of DLPack.
static const struct {
    kiln_dtype dtype;
    uint8_t code, bits;
} dtypes[] = {
    {KILN_BOOL, kDLBool, 8},
    {KILN_U8, kDLUInt, 8},
    {KILN_I8, kDLInt, 8},
    {KILN_I16, kDLInt, 16},
    {KILN_I32, kDLInt, 32},
    {KILN_I64, kDLInt, 64},
    {KILN_F16, kDLFloat, 16},
    {KILN_BF16, kDLBfloat, 16},
    {KILN_F32, kDLFloat, 32},
    {KILN_F64, kDLFloat, 64},
    {KILN_U16, kDLUInt, 16},
    {KILN_U32, kDLUInt, 32},
    {KILN_U64, kDLUInt, 64},
    {KILN_C64, kDLComplex, 64},
    {KILN_C128, kDLComplex, 128},
    {KILN_F8_E4M3, kDLFloat8_e4m3fn, 8},
    {KILN_F8_E5M2, kDLFloat8_e5m2, 8},
};

static kiln_status check_recording(const char *op)
{
    struct sink *sink = thread_state.sink;
    if (!sink || !sink->capture) return KILN_OK;
    return error_set(KILN_E_STATE, "%s: memory of other libraries is no part of a captured function", op);
}

// --- in

// What is to be known of a tensor of theirs, in whole elements; complex ones as pairs.
struct coming {
    const char *op;
    kiln_dtype dtype;
    struct type type;
    struct layout layout;
    uint64_t size_B; // from the first element to the last
    char *data;
    bool copy;
};

static kiln_status read_dtype(const DLTensor *d, struct coming *c)
{
    for (size_t i = 0; i < COUNT_OF(dtypes); i++) {
        if (d->dtype.lanes != 1 || d->dtype.code != dtypes[i].code || d->dtype.bits != dtypes[i].bits) continue;
        c->dtype = dtypes[i].dtype;
        c->type.dtype = (uint8_t)(dtype_is_complex(c->dtype)  ? dtype_of_part(c->dtype)
                                  : dtype_is_stored(c->dtype) ? KILN_U8
                                                              : c->dtype);
        return KILN_OK;
    }
    return error_set(KILN_E_DTYPE, "%s: elements of DLPack's code %d with %d bits and %d lanes", c->op, d->dtype.code,
                     d->dtype.bits, d->dtype.lanes);
}

static kiln_status read_shape(const DLTensor *d, struct coming *c)
{
    int pairs = dtype_is_complex(c->dtype);
    if (d->ndim < 0 || d->ndim > MAX_RANK - pairs)
        return error_set(KILN_E_SHAPE, "%s: %d dimensions, Kiln's tensors have up to %d", c->op, (int)d->ndim,
                         MAX_RANK - pairs);
    if (d->ndim && !d->shape) return error_set(KILN_E_ARGUMENT, "%s: the shape is NULL", c->op);
    c->type.rank = (uint8_t)(d->ndim + pairs);
    for (int i = 0; i < d->ndim; i++) {
        c->type.dims[i] = d->shape[i];
        if (d->shape[i] < 0)
            return error_set(KILN_E_SHAPE, "%s: dimension %d is negative: %" PRId64, c->op, i, d->shape[i]);
    }
    if (pairs) c->type.dims[d->ndim] = 2;
    uint64_t size_B;
    TRY(type_size_B(&c->type, &size_B));
    layout_contiguous(&c->type, &c->layout);
    for (int i = 0; d->strides && i < d->ndim; i++)
        if (__builtin_mul_overflow(d->strides[i], (int64_t)(1 + pairs), &c->layout.strides[i]))
            return error_set(KILN_E_SHAPE, "%s: stride %d is %" PRId64, c->op, i, d->strides[i]);
    c->layout.offset = 0;
    return KILN_OK;
}

// How far the elements reach. With negative strides, which views of Kiln do not have, it is to be copied.
static kiln_status measure(const DLTensor *d, struct coming *c)
{
    int64_t item_B = (int64_t)dtype_size_B[c->type.dtype], last = 0, more, size_B;
    bool overflow = false;
    c->data = d->data ? (char *)d->data + d->byte_offset : NULL;
    for (int i = 0; i < c->type.rank; i++) {
        if (c->type.dims[i] == 0) {
            c->size_B = 0;
            c->copy = true;
            return KILN_OK;
        }
        c->copy |= c->layout.strides[i] < 0 && c->type.dims[i] > 1;
        if (c->type.dims[i] == 1) c->layout.strides[i] = 0;
        int64_t stride = c->layout.strides[i] < 0 ? 0 : c->layout.strides[i];
        overflow |= __builtin_mul_overflow(c->type.dims[i] - 1, stride, &more);
        overflow |= __builtin_add_overflow(last, more, &last);
    }
    overflow |= __builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, item_B, &size_B);
    if (overflow) return error_set(KILN_E_SHAPE, "%s: sizes and strides overflow", c->op);
    if (!d->data) return error_set(KILN_E_ARGUMENT, "%s: the data is NULL", c->op);
    c->size_B = (uint64_t)size_B;
    c->copy |= (uintptr_t)c->data % (uintptr_t)item_B != 0;
    return KILN_OK;
}

static kiln_status read_coming(const DLTensor *d, struct coming *c)
{
    int where = (int)d->device.device_type;
    if (where != kDLCPU && where != kDLCUDAHost && where != kDLROCMHost)
        return error_set(KILN_E_DEVICE_MISMATCH,
                         "%s: the memory is that of a device of DLPack's type %d, not the host's: move it to the CPU "
                         "first",
                         c->op, where);
    TRY(read_dtype(d, c));
    TRY(read_shape(d, c));
    return measure(d, c);
}

static void gather(const struct coming *c, int axis, const char *from, char **to)
{
    size_t item_B = dtype_size_B[c->type.dtype];
    if (axis == c->type.rank) {
        memcpy(*to, from, item_B);
        *to += item_B;
        return;
    }
    for (int64_t i = 0; i < c->type.dims[axis]; i++)
        gather(c, axis + 1, from + i * c->layout.strides[axis] * (int64_t)item_B, to);
}

static kiln_tensor *copy_in(kiln_device *dev, const struct coming *c)
{
    uint64_t size_B = 0;
    if (type_size_B(&c->type, &size_B)) return NULL;
    char *dense = malloc(size_B ? size_B : 1), *to = dense;
    if (!dense) {
        error_set(KILN_E_MEMORY, "%s: host memory is exhausted", c->op);
        return NULL;
    }
    if (size_B) gather(c, 0, c->data, &to);
    kiln_tensor *t = kiln_from_data(dev, c->type.dtype, c->type.rank, c->type.dims, dense);
    free(dense);
    return t;
}

// The block's owner, on the heap: told once.
struct owner {
    struct foreign foreign;
    void *managed;
    void (*tell)(void *managed);
};

static void tell(struct foreign *f)
{
    struct owner *o = (struct owner *)(void *)f;
    o->tell(o->managed);
    free(o);
}

static kiln_tensor *share_in(kiln_device *dev, const struct coming *c, const struct owner *owner)
{
    struct owner *o = malloc(sizeof *o);
    struct storage *s = o ? storage_pending(dev, c->size_B) : NULL;
    kiln_tensor *t = s ? tensor_on(s, &c->type, &c->layout) : NULL;
    if (t) {
        *o = *owner;
        s->block.address = (uint64_t)(uintptr_t)c->data;
        s->block.host = c->data;
        s->block.foreign = &o->foreign;
        s->writer = "from_dlpack";
    } else {
        free(o);
        if (!error_pending) error_set(KILN_E_MEMORY, "%s: host memory is exhausted", c->op);
    }
    storage_unref(s);
    return t;
}

static kiln_tensor *take_in(const char *op, kiln_device *dev, const DLTensor *d, bool copy, const struct owner *owner)
{
    struct coming c = {.op = op, .copy = copy};
    if (dev ? device_check(op, dev) != KILN_OK : !(dev = device_default())) return NULL;
    if (!d) error_set(KILN_E_ARGUMENT, "%s: theirs is NULL", op);
    if (error_pending || check_recording(op) || read_coming(d, &c)) return NULL;
    bool whole = c.copy || !dev->caps.host;
    kiln_tensor *t = whole ? copy_in(dev, &c) : share_in(dev, &c, owner);
    if (t) tensor_show(t, shown_of_dtype(c.dtype));
    if (t && whole) owner->tell(owner->managed);
    return t;
}

static void tell_plain(void *managed)
{
    DLManagedTensor *m = managed;
    if (m->deleter) m->deleter(m);
}

static void tell_versioned(void *managed)
{
    DLManagedTensorVersioned *m = managed;
    if (m->deleter) m->deleter(m);
}

kiln_tensor *kiln_from_dlpack(kiln_device *dev, struct DLManagedTensor *theirs)
{
    if (error_pending) return NULL;
    struct owner owner = {{tell}, theirs, tell_plain};
    return take_in("from_dlpack", dev, theirs ? &theirs->dl_tensor : NULL, false, &owner);
}

kiln_tensor *kiln_from_dlpack_versioned(kiln_device *dev, struct DLManagedTensorVersioned *theirs)
{
    static const char op[] = "from_dlpack_versioned";
    if (error_pending) return NULL;
    struct owner owner = {{tell}, theirs, tell_versioned};
    if (!theirs) return take_in(op, dev, NULL, false, &owner);
    if (theirs->version.major <= 1)
        return take_in(op, dev, &theirs->dl_tensor, theirs->flags & DLPACK_FLAG_BITMASK_READ_ONLY, &owner);
    error_set(KILN_E_UNSUPPORTED, "%s: DLPack of version %u.%u; 1 can be read", op, (unsigned)theirs->version.major,
              (unsigned)theirs->version.minor);
    return NULL;
}

// --- out

struct going {
    union {
        DLManagedTensor plain;
        DLManagedTensorVersioned versioned;
    };
    struct storage *storage;
    int64_t dims[MAX_RANK], strides[MAX_RANK];
};

static void drop(struct going *g)
{
    storage_unref(g->storage);
    free(g);
}

static void delete_plain(DLManagedTensor *m)
{
    drop(m->manager_ctx);
}

static void delete_versioned(DLManagedTensorVersioned *m)
{
    drop(m->manager_ctx);
}

static kiln_status write_dtype(const char *op, const kiln_tensor *t, DLTensor *d)
{
    kiln_dtype dtype = shown_dtype(t->shown, t->type.dtype);
    for (size_t i = 0; i < COUNT_OF(dtypes); i++) {
        if (dtypes[i].dtype != dtype) continue;
        d->dtype = (DLDataType){dtypes[i].code, dtypes[i].bits, 1};
        return KILN_OK;
    }
    return error_set(KILN_E_DTYPE, "%s: t is %s, of which two lie in a byte: see kiln_bitcast, to u8", op,
                     kiln_dtype_name(dtype));
}

static kiln_status check_going(const char *op, kiln_tensor *t)
{
    TRY(tensor_check_any(op, "t", t));
    TRY(check_recording(op));
    if (t->builder) return error_set(KILN_E_STATE, "%s: t has no memory outside of its capture", op);
    if (t->storage && !t->storage->dev->caps.host)
        return error_set(KILN_E_DEVICE_MISMATCH, "%s: t lies on another device than the CPU: kiln_to_device first", op);
    return KILN_OK;
}

// Of t or, where t is a number without memory, of a tensor made of it.
static struct going *take_out(const char *op, kiln_tensor *t, DLTensor *d)
{
    struct going *g = calloc(1, sizeof *g);
    kiln_status status = g ? tensor_force(t, op) : error_set(KILN_E_MEMORY, "%s: host memory is exhausted", op);
    if (!status) status = write_dtype(op, t, d);
    if (status) {
        free(g);
        return NULL;
    }
    bool pairs = t->shown == SHOWN_COMPLEX;
    d->ndim = t->type.rank - pairs;
    for (int i = 0; i < d->ndim; i++) {
        g->dims[i] = t->type.dims[i];
        g->strides[i] = t->layout.strides[i] / (1 + pairs);
    }
    d->shape = g->dims;
    d->strides = g->strides;
    d->device.device_type = kDLCPU;
    d->data = type_numel(&t->type) ? (void *)(uintptr_t)tensor_address(t) : NULL;
    g->storage = storage_ref(t->storage);
    return g;
}

static struct going *prepare(const char *op, kiln_tensor *t, DLTensor *d)
{
    if (error_pending || check_going(op, t)) return NULL;
    if (t->storage) {
        // The parts of a complex number must lie beside each other, as they do but in views of conjugates and the like.
        bool apart = t->shown == SHOWN_COMPLEX && t->layout.strides[t->type.rank - 1] != 1;
        for (int i = 0; t->shown == SHOWN_COMPLEX && i < t->type.rank - 1; i++) apart |= t->layout.strides[i] % 2 != 0;
        if (apart) {
            error_set(KILN_E_UNSUPPORTED, "%s: the parts of t's complex numbers lie apart: kiln_contiguous first", op);
            return NULL;
        }
        return take_out(op, t, d);
    }
    kiln_device *dev = device_default();
    kiln_tensor *placed = dev ? tensor_place(t, dev) : NULL;
    struct going *g = placed && !check_going(op, placed) ? take_out(op, placed, d) : NULL;
    if (placed) tensor_destroy(placed);
    return g;
}

struct DLManagedTensor *kiln_to_dlpack(kiln_tensor *t)
{
    DLTensor d = {0};
    struct going *g = prepare("to_dlpack", t, &d);
    if (!g) return NULL;
    g->plain = (DLManagedTensor){.dl_tensor = d, .manager_ctx = g, .deleter = delete_plain};
    return &g->plain;
}

struct DLManagedTensorVersioned *kiln_to_dlpack_versioned(kiln_tensor *t)
{
    DLTensor d = {0};
    struct going *g = prepare("to_dlpack_versioned", t, &d);
    if (!g) return NULL;
    g->versioned =
        (DLManagedTensorVersioned){.version = {1, 0}, .manager_ctx = g, .deleter = delete_versioned, .dl_tensor = d};
    return &g->versioned;
}
