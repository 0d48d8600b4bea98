// From host data and back.
#include "tensor/apply.h"
#include "base/str.h"
#include "scalar/number.h"
#include "ops/families.h"
#include "tensor/tensor.h"
#include <kiln/ops.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static kiln_status host_type(const char *op, kiln_dtype dtype, size_t rank, const int64_t *dims, struct type *out)
{
    if ((unsigned)dtype >= DTYPE_COUNT)
        return error_set(KILN_E_DTYPE, "%s: dtype %d is not one of kiln_dtype", op, (int)dtype);
    if (rank > MAX_RANK) return error_set(KILN_E_SHAPE, "%s: rank %zu is above %d", op, rank, MAX_RANK);
    if (rank && !dims) return error_set(KILN_E_ARGUMENT, "%s: dims is NULL", op);
    *out = (struct type){.dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] < 0)
            return error_set(KILN_E_SHAPE, "%s: dimension %zu is negative: %lld", op, i, (long long)dims[i]);
        out->dims[i] = dims[i];
    }
    return KILN_OK;
}

static kiln_tensor *complex_from_data(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims,
                                      const void *data)
{
    int64_t pairs[MAX_RANK];
    if (rank >= MAX_RANK) error_set(KILN_E_SHAPE, "from_data: rank %zu is above %d", rank, MAX_RANK - 1);
    if (rank && !dims) error_set(KILN_E_ARGUMENT, "from_data: dims is NULL");
    if (error_pending) return NULL;
    for (size_t i = 0; i < rank; i++) pairs[i] = dims[i];
    pairs[rank] = 2;
    kiln_tensor *t = kiln_from_data(dev, (kiln_dtype)dtype_of_part(dtype), rank + 1, pairs, data);
    if (t) tensor_show(t, SHOWN_COMPLEX);
    return t;
}

// Of bytes: those of floats, or of two numbers each.
static kiln_tensor *stored_from_data(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims,
                                     const void *data)
{
    enum shown_as shown = shown_of_dtype(dtype);
    int64_t bytes[MAX_RANK];
    struct type type;
    if (error_pending || host_type("from_data", KILN_U8, rank, dims, &type)) return NULL;
    if (shown_is_packed(shown) && (!rank || dims[rank - 1] % 2)) {
        char text[TYPE_TEXT_MAX];
        error_set(KILN_E_SHAPE, "from_data: two %s lie in a byte: the last axis must be of even size, the shape is %s",
                  dtype_name(dtype), strchr(type_text(&type, text, sizeof text), '['));
        return NULL;
    }
    for (size_t i = 0; i < rank; i++) bytes[i] = dims[i];
    if (shown_is_packed(shown)) bytes[rank - 1] /= 2;
    kiln_tensor *t = kiln_from_data(dev, KILN_U8, rank, bytes, data);
    if (t) tensor_show(t, shown);
    return t;
}

kiln_tensor *kiln_from_data(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, const void *data)
{
    struct type type;
    uint64_t size_B;
    if (dtype_is_complex(dtype)) return complex_from_data(dev, dtype, rank, dims, data);
    if (dtype_is_stored(dtype)) return stored_from_data(dev, dtype, rank, dims, data);
    if (error_pending || host_type("from_data", dtype, rank, dims, &type) || type_size_B(&type, &size_B)) return NULL;
    struct sink *sink = thread_state.sink;
    if (sink && sink->capture && sink->capture->host_data(sink, "from_data")) return NULL;
    if (size_B && !data) {
        error_set(KILN_E_ARGUMENT, "from_data: data is NULL");
        return NULL;
    }
    if (dev ? device_check("from_data", dev) != KILN_OK : !(dev = device_default())) return NULL;
    kiln_tensor *t = tensor_empty(dev, &type);
    if (t) t->storage->writer = "from_data";
    if (t && !device_upload_as(dev, &type, tensor_address(t), data, size_B)) return t;
    error_name_op("from_data");
    if (t) tensor_destroy(t);
    return NULL;
}

// Bytes of row-major data of this shape.
static kiln_status bytes_of(kiln_dtype dtype, size_t rank, const int64_t *dims, uint64_t *size_B)
{
    struct type type;
    bool complex = dtype_is_complex(dtype), stored = dtype_is_stored(dtype);
    kiln_dtype element = complex ? (kiln_dtype)dtype_of_part(dtype) : stored ? KILN_U8 : dtype;
    TRY(host_type("from_bytes", element, rank, dims, &type));
    TRY(type_size_B(&type, size_B));
    if (complex && *size_B > UINT64_MAX / 2) return error_set(KILN_E_SHAPE, "from_bytes: the size overflows");
    *size_B = complex ? *size_B * 2 : shown_is_packed(shown_of_dtype(dtype)) ? *size_B / 2 : *size_B;
    return KILN_OK;
}

kiln_tensor *kiln_from_bytes(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, const void *data,
                             size_t size_B)
{
    uint64_t want_B;
    if (error_pending || bytes_of(dtype, rank, dims, &want_B)) return NULL;
    if (want_B == size_B) return kiln_from_data(dev, dtype, rank, dims, data);
    struct str shape = {0};
    for (size_t i = 0; i < rank; i++) str_addf(&shape, i ? ",%lld" : "%lld", (long long)dims[i]);
    error_set(KILN_E_SHAPE, "from_bytes: %s[%s] takes %llu bytes, data has %zu", dtype_name((unsigned)dtype),
              str_text(&shape), (unsigned long long)want_B, size_B);
    str_free(&shape);
    return NULL;
}

static kiln_tensor *set_weak(kiln_tensor *t, uint8_t dtype, double number, int64_t integer)
{
    t->type.dtype = dtype;
    t->type.rank = 0;
    t->type.weak = true;
    t->layout.offset = 0;
    t->number = number;
    t->integer = integer;
    return t;
}

kiln_tensor *tensor_weak_in(struct kiln_tensor *t, uint8_t dtype, double number, int64_t integer)
{
    tensor_clear(t);
    t->scope = NULL;
    t->made_at = 0;
    return set_weak(t, dtype, number, integer);
}

static kiln_tensor *weak(uint8_t dtype, double number, int64_t integer)
{
    if (error_pending) return NULL;
    kiln_tensor *t = tensor_new();
    return t ? set_weak(t, dtype, number, integer) : NULL;
}

kiln_tensor *kiln_scalar(double value)
{
    return weak(KILN_F64, value, number_to_int(value));
}

kiln_tensor *kiln_scalar_int(int64_t value)
{
    return weak(KILN_I64, (double)value, value);
}

kiln_tensor *kiln_scalar_bool(bool value)
{
    return weak(KILN_BOOL, value, value);
}

kiln_tensor *tensor_second(kiln_tensor *t)
{
    struct sink *capture = tensor_capture(t);
    if (capture && capture->capture->share(capture, t)) return NULL;
    kiln_tensor *r = tensor_new();
    if (!r) return NULL;
    r->type = t->type;
    r->layout = t->layout;
    r->storage = storage_ref(t->storage);
    r->number = t->number;
    r->integer = t->integer;
    r->builder = t->builder;
    r->value = t->value;
    r->capture = t->capture;
    r->variable = t->variable;
    r->seen = t->seen;
    r->place = t->place;
    if (t->builder) r->generation = t->generation;
    r->run_time = t->run_time;
    tensor_show(r, t->shown);
    r->constant = t->constant;
    return r;
}

kiln_tensor *kiln_alias(kiln_tensor *t)
{
    if (error_pending || tensor_check_any("alias", "t", t)) return NULL;
    kiln_tensor *r = tensor_second(t);
    if (!r) return NULL;
    if (!tensor_tape.share || !tensor_tape.share(t, r)) return r;
    tensor_destroy(r);
    return NULL;
}

static kiln_status read_scalar(const kiln_tensor *t, void *dst)
{
    switch (t->type.dtype) {
    case KILN_F64: memcpy(dst, &t->number, 8); break;
    case KILN_I64: memcpy(dst, &t->integer, 8); break;
    default: *(uint8_t *)dst = t->integer != 0;
    }
    return KILN_OK;
}

// A strided tensor is made contiguous on the device first.
static kiln_status read_strided(const kiln_tensor *t, void *dst, uint64_t size_B)
{
    struct kiln_scope scope;
    scope_enter(&scope);
    thread_state.no_grad++;
    struct sink *sink = thread_state.sink;
    thread_state.sink = NULL;
    kiln_tensor *const in[] = {(kiln_tensor *)t};
    kiln_tensor *c = op_apply1(&op_instances[OP_contiguous], NULL, 1, in, NULL);
    kiln_status status =
        c ? device_download_as(c->storage->dev, &t->type, dst, tensor_address(c), size_B) : error_pending;
    thread_state.sink = sink;
    thread_state.no_grad--;
    scope_leave(&scope, NULL, 0);
    return status;
}

// In a capture the host may read what the capture knows.
static kiln_status force(const kiln_tensor **t)
{
    struct sink *s = thread_state.sink;
    bool mine = s && s->capture && (!(*t)->builder || tensor_capture(*t));
    if (mine) return s->capture->force(s, (kiln_tensor *)*t, (kiln_tensor **)t);
    if (!(*t)->builder) return KILN_OK;
    return error_set(KILN_E_STATE, "an abstract value has no data%s", (*t)->capture ? "; its capture has ended" : "");
}

kiln_status tensor_read(const kiln_tensor *t, void *dst)
{
    if (KILN_UNLIKELY(t->builder || thread_state.capture)) TRY(force(&t));
    if (!t->storage) return read_scalar(t, dst);
    uint64_t size_B = (uint64_t)type_numel(&t->type) * dtype_size_B[t->type.dtype];
    if (size_B == 0) return KILN_OK;
    if (!layout_is_contiguous(&t->type, &t->layout)) return read_strided(t, dst, size_B);
    TRY(tensor_force(t, "read"));
    return device_download_as(t->storage->dev, &t->type, dst, tensor_address(t), size_B);
}

kiln_status kiln_read(const kiln_tensor *t, void *dst, size_t size_B)
{
    if (error_pending) return error_pending;
    TRY(tensor_check_any("read", "t", t));
    uint64_t need_B = (uint64_t)type_numel(&t->type) * dtype_size_B[t->type.dtype];
    char text[TYPE_TEXT_MAX];
    if (need_B != size_B)
        return error_set(KILN_E_ARGUMENT, "read: %s takes %llu bytes, size_B is %zu", tensor_text(t, text, sizeof text),
                         (unsigned long long)need_B, size_B);
    if (size_B && !dst) return error_set(KILN_E_ARGUMENT, "read: dst is NULL");
    kiln_status status = tensor_read(t, dst);
    if (KILN_UNLIKELY(status)) error_name_op("read");
    return status;
}

static kiln_status one_element(const char *op, const kiln_tensor *t, double *number, int64_t *integer);

static kiln_status one_stored(const char *op, const kiln_tensor *t, double *number, int64_t *integer)
{
    struct kiln_scope scope;
    scope_enter(&scope);
    kiln_tensor *f = kiln_cast((kiln_tensor *)t, KILN_F32);
    kiln_status status = f ? one_element(op, f, number, integer) : error_pending;
    scope_leave(&scope, NULL, 0);
    return status;
}

// The one element in the widest form of its kind.
static kiln_status one_element(const char *op, const kiln_tensor *t, double *number, int64_t *integer)
{
    if (error_pending) return error_pending;
    bool stored = t && t->magic == TENSOR_ALIVE && shown_is_stored(t->shown);
    if (KILN_UNLIKELY(stored) && !shown_is_packed(t->shown)) return one_stored(op, t, number, integer);
    TRY(tensor_check(op, "t", t));
    char text[TYPE_TEXT_MAX];
    if (type_numel(&t->type) != 1)
        return error_set(KILN_E_SHAPE, "%s: t has not one element: %s", op, type_text(&t->type, text, sizeof text));
    if (!t->storage && !t->builder) {
        *number = t->number;
        *integer = t->integer;
        return KILN_OK;
    }
    uint64_t element;
    if (tensor_read(t, &element)) {
        error_name_op(op);
        return error_pending;
    }
    union scalar_value v = number_read(t->type.dtype, &element);
    enum scalar_class cls = dtype_class(t->type.dtype);
    *number = number_of_dtype(t->type.dtype, v);
    *integer = cls == CLASS_I64     ? v.i64
               : *number != *number ? 0
               : *number >= 0x1p63  ? INT64_MAX
               : *number < -0x1p63  ? INT64_MIN
                                    : (int64_t)*number;
    return KILN_OK;
}

double kiln_item(const kiln_tensor *t)
{
    double number;
    int64_t integer;
    return one_element("item", t, &number, &integer) ? (double)NAN : number;
}

int64_t kiln_item_int(const kiln_tensor *t)
{
    double number;
    int64_t integer;
    return one_element("item_int", t, &number, &integer) ? 0 : integer;
}
