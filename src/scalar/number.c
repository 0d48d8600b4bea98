// Reads and writes single elements of every dtype on the host.
#include "scalar/number.h"
#include "base/float16.h"
#include <string.h>

enum scalar_class dtype_class(unsigned dtype)
{
    static const uint8_t classes[DTYPE_COUNT] = {
#define DTYPE(number, id, name, size_B, kind, cls, ...) [number] = CLASS_##cls,
#include "base/dtype.def"
#undef DTYPE
    };
    return classes[dtype];
}

static int64_t integer_at(const struct dtype_info *d, const void *at)
{
    uint64_t bits = 0;
    memcpy(&bits, at, d->size_B); // the machine is little-endian
    unsigned unused = 64 - 8u * d->size_B;
    return d->is_signed ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
}

union scalar_value number_read(unsigned dtype, const void *at)
{
    const struct dtype_info *d = &dtype_info[dtype];
    union scalar_value v = {.bits = 0};
    uint16_t half;
    switch (d->form) {
    case FORM_TRUTH: v.b = *(const uint8_t *)at != 0; break;
    case FORM_INTEGER:
        if (dtype_is_long(dtype))
            v.i64 = integer_at(d, at);
        else
            v.i32 = (int32_t)integer_at(d, at);
        break;
    case FORM_BINARY16:
    case FORM_BFLOAT16:
        memcpy(&half, at, sizeof half);
        v.f32 = d->form == FORM_BINARY16 ? f16_to_float(half) : bf16_to_float(half);
        break;
    default: memcpy(&v, at, d->size_B);
    }
    return v;
}

void number_write(unsigned dtype, void *at, union scalar_value v)
{
    const struct dtype_info *d = &dtype_info[dtype];
    uint16_t half;
    switch (d->form) {
    case FORM_TRUTH: *(uint8_t *)at = v.b != 0; break;
    case FORM_BINARY16:
    case FORM_BFLOAT16:
        half = d->form == FORM_BINARY16 ? f16_from_float(v.f32) : bf16_from_float(v.f32);
        memcpy(at, &half, sizeof half);
        break;
    default: memcpy(at, &v, d->size_B);
    }
}

union scalar_value number_stored(unsigned dtype, union scalar_value v)
{
    uint64_t memory;
    number_write(dtype, &memory, v);
    return number_read(dtype, &memory);
}

int64_t number_whole(unsigned dtype, double v)
{
    if (v != v) return 0;
    if (dtype == KILN_U64 && v >= 0x1p63) return v >= 0x1p64 ? -1 : (int64_t)(uint64_t)v;
    return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

double number_of_dtype(unsigned dtype, union scalar_value v)
{
    return dtype == KILN_U64 ? (double)(uint64_t)v.i64 : number_as_double(dtype_class(dtype), v);
}

double number_as_double(enum scalar_class cls, union scalar_value v)
{
    switch (cls) {
    case CLASS_F32: return (double)v.f32;
    case CLASS_F64: return v.f64;
    case CLASS_I32: return v.i32;
    case CLASS_I64: return (double)v.i64;
    default: return v.b;
    }
}
