// What is known of each element type, from dtype.def.
#pragma once
#include <kiln/macros.h>
#include <stddef.h>

// Kinds order promotion across kinds: bool < integer < float.
enum dtype_kind { KIND_BOOL, KIND_INT, KIND_FLOAT };

enum dtype_form {
    FORM_TRUTH,    // a byte: 0, or another value for true
    FORM_INTEGER,  // two's complement, or unsigned
    FORM_BINARY16, // IEEE 754, computed in f32
    FORM_BFLOAT16, // the upper half of an f32
    FORM_IEEE,     // a float of the machine
};

enum {
#define DTYPE(number, id, ...) DTYPE_IS_##id = number,
#include "base/dtype.def"
#undef DTYPE
    DTYPE_COUNT
};

// Inline, for a module that links none of this library asks too.
static const struct dtype_info {
    const char *name;
    uint8_t size_B;
    uint8_t kind; // enum dtype_kind
    uint8_t form; // enum dtype_form
    bool is_signed;
    uint8_t digits, exponent_bits;
    const char *npy, *safetensors;
} dtype_info[DTYPE_COUNT] = {
#define DTYPE(number, id, name, size_B, kind, cls, form, is_signed, digits, exponent_bits, npy, safetensors) \
    [number] = {name, size_B, KIND_##kind, FORM_##form, is_signed, digits, exponent_bits, npy, safetensors},
#include "base/dtype.def"
#undef DTYPE
};

#define DTYPE(number, id, ...) _Static_assert((int)KILN_##id == number, "the rows stand in the order of kiln_dtype");
#include "base/dtype.def"
#undef DTYPE

static inline bool dtype_is_float(unsigned dtype)
{
    return dtype < DTYPE_COUNT && dtype_info[dtype].kind == KIND_FLOAT;
}
// Complex and storage dtypes are no rows: they are pairs of floats, and bytes. Names in files; NULL: the format has
// none.
static inline const char *dtype_npy(unsigned dtype)
{
    if (dtype == KILN_C64 || dtype == KILN_C128) return dtype == KILN_C64 ? "c8" : "c16";
    return dtype < DTYPE_COUNT ? dtype_info[dtype].npy : NULL;
}
static inline const char *dtype_safetensors(unsigned dtype)
{
    if (dtype == KILN_C64) return "C64";
    if (dtype == KILN_F8_E4M3 || dtype == KILN_F8_E5M2) return dtype == KILN_F8_E4M3 ? "F8_E4M3" : "F8_E5M2";
    return dtype < DTYPE_COUNT ? dtype_info[dtype].safetensors : NULL;
}
static inline bool dtype_is_half_float(unsigned dtype) // computed in f32, stored in 16 bits
{
    return dtype_is_float(dtype) && dtype_info[dtype].size_B == 2;
}
// Whether every value of `from` is one of `to`; both are of one kind.
static inline bool dtype_holds(unsigned to, unsigned from)
{
    const struct dtype_info *t = &dtype_info[to], *f = &dtype_info[from];
    return t->digits >= f->digits && t->exponent_bits >= f->exponent_bits && t->is_signed >= f->is_signed;
}
// Gradients of integers are of their own dtype: an unsigned one has no negative numbers.
static inline bool dtype_has_gradient(unsigned dtype)
{
    return dtype_info[dtype].is_signed;
}
// Whether an integer dtype is computed in 64 bits: unsigned ones of 32 bits are.
static inline bool dtype_is_long(unsigned dtype)
{
    return dtype_info[dtype].digits > 31;
}
// Whether an integer dtype takes fewer bits than what computes in its place, which wraps when it is stored.
static inline bool dtype_is_narrow(unsigned dtype)
{
    return dtype_info[dtype].form == FORM_INTEGER && dtype_info[dtype].size_B < (dtype_is_long(dtype) ? 8 : 4);
}
// Least and largest value of an integer dtype; of u64 the largest has the bits of -1.
static inline int64_t dtype_lowest(unsigned dtype)
{
    return dtype_info[dtype].is_signed ? -(INT64_C(1) << (dtype_info[dtype].digits - 1)) * 2 : 0;
}
static inline int64_t dtype_highest(unsigned dtype)
{
    return (int64_t)(UINT64_MAX >> (64 - dtype_info[dtype].digits));
}
