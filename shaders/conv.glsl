// What the convolution kernels share: their scalars by name, and the class. See src/ops/conv.c for the launch.
#define N_SCALARS 16
#if defined(KILN_CLASS_F32)
#define USES_F32
#define VALUE float
#define LOAD(op, at) load_f32(op, at)
#define STORE(op, at, x) store_f32(op, at, x)
#else
#define USES_F64
#define VALUE double
#define LOAD(op, at) load_f64(op, at)
#define STORE(op, at, x) store_f64(op, at, x)
#endif
#include "args.glsl"
#undef VALUE
#if defined(KILN_CLASS_F32)
#define VALUE float
#else
#define VALUE double
#endif

#define BATCH uint(arg_scalar_i32(0))
#define CHANNELS uint(arg_scalar_i32(1))
#define HEIGHT arg_scalar_i32(2)
#define WIDTH arg_scalar_i32(3)
#define OUTPUTS uint(arg_scalar_i32(4))
#define OUT_HEIGHT arg_scalar_i32(5)
#define OUT_WIDTH arg_scalar_i32(6)
#define KERNEL_H of.kernel_h
#define KERNEL_W of.kernel_w
#define STRIDE_H int(VARIANT_0)
#define STRIDE_W int(VARIANT_1)
#define PADDING_H arg_scalar_i32(11)
#define PADDING_W arg_scalar_i32(12)
#define DILATION_H arg_scalar_i32(13)
#define DILATION_W arg_scalar_i32(14)
#define GROUPS uint(arg_scalar_i32(15))

int64_t offset4(const uint op, uint a, uint b, int c, int d)
{
    return wide_product(int(a), arg_stride(op, 0)) + wide_product(int(b), arg_stride(op, 1)) +
           wide_product(c, arg_stride(op, 2)) + wide_product(d, arg_stride(op, 3));
}

// Places of elements in bytes, in parts that are added up: what a pixel has, and what a tap has, which is the same for
// all. A part may be negative; where memory is NARROW no sum is, and its lower half is all of it.
#define PLACE uint64_t
#define PLACE4(op, a, b, c, d) place_of_bytes(OPERAND_##op, offset4(op, a, b, c, d))
PLACE place_of_bytes(const uint operand, const int64_t at)
{
    return (operand & IMMEDIATE) != 0 ? 0ul : PLACE(at * int64_t(dtype_size_B(operand & 255)));
}
uint64_t address_at(const uint64_t base, const PLACE at) { return base + (NARROW ? uint64_t(uint(at)) : at); }
#if defined(KILN_CLASS_F32)
#define LOAD_AT(op, base, at) load_as_f32(OPERAND_##op, address_at(base, at), 0l)
#else
#define LOAD_AT(op, base, at) load_as_f64(OPERAND_##op, address_at(base, at), 0l)
#endif
// Zero outside, where another element is read: a branch costs more.
#define LOAD_INSIDE(op, inside, at) \
    mix(VALUE(0), LOAD_AT(op, arg_address(op), (inside) ? (at) : PLACE(0)), inside)

// Both are compared: the second one alone, after a branch, would cost more.
bool is_within(const int y, const int x, const int height, const int width)
{
    bool y_is = uint(y) < uint(height), x_is = uint(x) < uint(width);
    return y_is && x_is;
}

uint group;   // of this workgroup

// Sizes that loops need, once: for all that a compiler knows, arguments change with every store.
struct sizes { int height, width, dilation_h, dilation_w; uint kernel_h, kernel_w; };
sizes of;

void read_sizes(const int height, const int width)
{
    of = sizes(height, width, DILATION_H, DILATION_W, uint(arg_scalar_i32(7)), uint(arg_scalar_i32(8)));
}
