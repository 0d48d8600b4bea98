// Types: dtype and shape; layouts: how a type lies in a storage.
#pragma once
#include "base/base.h"
#include "base/dtype.h"
#include <kiln/macros.h>

#define MAX_RANK 16

struct type {
    uint8_t dtype;
    uint8_t rank;
    bool weak;              // a scalar that takes the other operand's dtype within its kind
    int64_t dims[MAX_RANK]; // entries past rank are unspecified
};

struct layout {
    int64_t offset;            // in elements, from the storage's start
    int64_t strides[MAX_RANK]; // in elements
};

// The dimensions that there are, not those that there might be; for what every op does. to may be from.
static inline void type_copy(struct type *to, const struct type *from)
{
    to->dtype = from->dtype;
    to->rank = from->rank;
    to->weak = from->weak;
    for (int i = 0; i < from->rank; i++) to->dims[i] = from->dims[i];
}

static inline void layout_copy(struct layout *to, const struct layout *from, int rank)
{
    to->offset = from->offset;
    for (int i = 0; i < rank; i++) to->strides[i] = from->strides[i];
}

// Of dtype_info, dense for what is hot.
extern const uint8_t dtype_size_B[DTYPE_COUNT];
extern const uint8_t dtype_kind_of[DTYPE_COUNT];
const char *dtype_name(unsigned dtype);

// Complex numbers are pairs of floats. Their dtypes are how handles are seen: no kernel, graph or storage knows them.
static inline bool dtype_is_complex(int64_t dtype)
{
    return dtype == KILN_C64 || dtype == KILN_C128;
}
static inline uint8_t dtype_of_part(int64_t dtype)
{
    return dtype == KILN_C128 ? KILN_F64 : KILN_F32;
}

// Storage dtypes are bytes that casts alone read as numbers.
static inline bool dtype_is_stored(int64_t dtype)
{
    return dtype >= KILN_F8_E4M3 && dtype <= KILN_U4;
}

// What a handle shows its memory as.
enum shown_as {
    SHOWN_PLAIN,
    SHOWN_COMPLEX, // pairs along the last dimension, which is hidden
    SHOWN_F8_E4M3, // u8
    SHOWN_F8_E5M2,
    SHOWN_I4, // u8, two numbers in a byte: the last dimension looks twice as long
    SHOWN_U4,
};
_Static_assert(KILN_U4 - KILN_F8_E4M3 == SHOWN_U4 - SHOWN_F8_E4M3, "storage dtypes stand in one order");

static inline bool shown_is_stored(unsigned shown)
{
    return shown >= SHOWN_F8_E4M3;
}
static inline bool shown_is_packed(unsigned shown)
{
    return shown >= SHOWN_I4;
}
// How a tensor of this dtype is shown, and the dtype that a handle shows.
static inline enum shown_as shown_of_dtype(int64_t dtype)
{
    if (dtype_is_complex(dtype)) return SHOWN_COMPLEX;
    return dtype_is_stored(dtype) ? (enum shown_as)(SHOWN_F8_E4M3 + (dtype - KILN_F8_E4M3)) : SHOWN_PLAIN;
}
static inline kiln_dtype shown_dtype(unsigned shown, unsigned dtype)
{
    if (shown == SHOWN_PLAIN) return (kiln_dtype)dtype;
    if (shown == SHOWN_COMPLEX) return dtype == KILN_F64 ? KILN_C128 : KILN_C64;
    return (kiln_dtype)(KILN_F8_E4M3 + (shown - SHOWN_F8_E4M3));
}

int64_t type_numel(const struct type *t); // INT64_MAX when there are more
bool type_same_shape(const struct type *a, const struct type *b);
bool type_equal(const struct type *a, const struct type *b);
// Total bytes of a contiguous tensor; KILN_E_SHAPE when it overflows.
kiln_status type_size_B(const struct type *t, uint64_t *out);
// Text "f32[2,3]" into buf; returns buf.
#define TYPE_TEXT_MAX 360
char *type_text(const struct type *t, char *buf, size_t cap);

void layout_contiguous(const struct type *t, struct layout *out);
bool layout_is_contiguous(const struct type *t, const struct layout *l);
// KILN_E_SHAPE, by `op`, unless all elements lie in a memory of n elements.
kiln_status layout_check_within(const char *op, const struct type *t, const struct layout *l, int64_t n);
// NumPy broadcasting of two shapes into out->rank/dims. False when they do not fit.
bool shape_broadcast(const struct type *a, const struct type *b, struct type *out);
// Axis in [-rank, rank) to [0, rank); -1 when out of range.
int axis_normalize(int64_t axis, int rank);

// Promotion of the array API standard, with int+float mixed to the float's dtype, and weak scalars by kind (a weak
// float met by an integer gives the default float f32; a weak int met by bool gives i64; two weak scalars stay weak).
// False where no dtype holds the values of both: u64 and a signed integer. See docs/guide.
bool type_promote(const struct type *a, const struct type *b, uint8_t *dtype, bool *weak);
