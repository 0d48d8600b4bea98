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
#define KERNEL_H uint(arg_scalar_i32(7))
#define KERNEL_W uint(arg_scalar_i32(8))
#define STRIDE_H int(VARIANT_0)
#define STRIDE_W int(VARIANT_1)
#define PADDING_H arg_scalar_i32(11)
#define PADDING_W arg_scalar_i32(12)
#define DILATION_H arg_scalar_i32(13)
#define DILATION_W arg_scalar_i32(14)
#define GROUPS uint(arg_scalar_i32(15))

int64_t offset4(const uint op, uint a, uint b, int c, int d)
{
    return int64_t(int(a)) * int64_t(arg_stride(op, 0)) + int64_t(int(b)) * int64_t(arg_stride(op, 1)) +
           int64_t(c) * int64_t(arg_stride(op, 2)) + int64_t(d) * int64_t(arg_stride(op, 3));
}

// Places of elements, in parts that are added up: what a pixel has, and what a tap has, which is the same for all.
#define PLACE uint64_t
PLACE place4(const uint op, uint a, uint b, int c, int d) { return PLACE(offset4(op, a, b, c, d)); }
#define LOAD_AT(op, a, b) LOAD(op, NARROW ? int64_t(uint64_t(uint(a) + uint(b))) : int64_t((a) + (b)))

uint group;   // of this workgroup

// The pixel that tap (ky, kx) meets for output (oy, ox); false outside the image.
bool pixel(uint ky, uint kx, int oy, int ox, out int iy, out int ix)
{
    iy = oy * STRIDE_H - PADDING_H + int(ky) * DILATION_H;
    ix = ox * STRIDE_W - PADDING_W + int(kx) * DILATION_W;
    return iy >= 0 && iy < HEIGHT && ix >= 0 && ix < WIDTH;
}
