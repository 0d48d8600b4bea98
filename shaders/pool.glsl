// What the pooling kernels share: one invocation an element of the output. See src/ops/pool.c for the launch.
#define N_SCALARS 15
#if defined(KILN_CLASS_F32)
#define USES_F32
#define LOAD(op, at) load_f32(op, at)
#define STORE(op, at, x) store_f32(op, at, x)
#elif defined(KILN_CLASS_F64)
#define USES_F64
#define LOAD(op, at) load_f64(op, at)
#define STORE(op, at, x) store_f64(op, at, x)
#elif defined(KILN_CLASS_I32)
#define USES_I32
#define LOAD(op, at) load_i32(op, at)
#define STORE(op, at, x) store_i32(op, at, x)
#else
#define USES_I64
#define LOAD(op, at) load_i64(op, at)
#define STORE(op, at, x) store_i64(op, at, x)
#endif
#include "args.glsl"
#undef VALUE
#if defined(KILN_CLASS_F32)
#define VALUE float
#elif defined(KILN_CLASS_F64)
#define VALUE double
#elif defined(KILN_CLASS_I32)
#define VALUE int
#else
#define VALUE int64_t
#endif
#if defined(KILN_CLASS_F32) || defined(KILN_CLASS_F64)
#define LOWEST VALUE(-1.0 / 0.0)
#define IS_NAN(v) isnan(v)
#else
#ifdef KILN_CLASS_I32
#define LOWEST integer_lowest(OPERAND_1 & 255u)
#else
#define LOWEST (-9223372036854775807L - 1L)
#endif
#define IS_NAN(v) false
#endif
layout(local_size_x = 256) in;

#define CHANNELS uint(arg_scalar_i32(1))
#define HEIGHT arg_scalar_i32(2)
#define WIDTH arg_scalar_i32(3)
#define OUT_HEIGHT arg_scalar_i32(4)
#define OUT_WIDTH arg_scalar_i32(5)
#define KERNEL_H arg_scalar_i32(6)
#define KERNEL_W arg_scalar_i32(7)
#define STRIDE_H arg_scalar_i32(8)
#define STRIDE_W arg_scalar_i32(9)
#define PADDING_H arg_scalar_i32(10)
#define PADDING_W arg_scalar_i32(11)
#define DILATION_H arg_scalar_i32(12)
#define DILATION_W arg_scalar_i32(13)
#define EXCLUDE_PADDING (arg_scalar_i32(14) != 0)

int64_t offset4(const uint op, uint n, uint c, int y, int x)
{
    return wide_product(int(n), arg_stride(op, 0)) + wide_product(int(c), arg_stride(op, 1)) +
           int64_t(y) * int64_t(arg_stride(op, 2)) + int64_t(x) * int64_t(arg_stride(op, 3));
}

// The element of a [n, c, height, width] space that this invocation has; false past the end.
bool locate(int height, int width, out uint n, out uint c, out int y, out int x)
{
    uint at = group_index() * 256 + gl_LocalInvocationIndex;
    uint total = arg_size(0) * arg_size(1) * arg_size(2) * arg_size(3);
    uint row = at / uint(width);
    x = int(at % uint(width));
    y = int(row % uint(height));
    uint plane = row / uint(height);
    c = plane % CHANNELS;
    n = plane / CHANNELS;
    return at < total;
}

int row_of(int oy, int ky) { return oy * STRIDE_H - PADDING_H + ky * DILATION_H; }
int column_of(int ox, int kx) { return ox * STRIDE_W - PADDING_W + kx * DILATION_W; }
bool inside(int y, int x) { return y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH; }

// The first largest element of a window of operand 0, NaN before all; (-1, -1) for a window without elements.
ivec2 window_max(uint n, uint c, int oy, int ox, out VALUE best)
{
    ivec2 at = ivec2(-1);
    best = VALUE(0);
    for (int ky = 0; ky < KERNEL_H; ky++)
        for (int kx = 0; kx < KERNEL_W; kx++) {
            int y = row_of(oy, ky), x = column_of(ox, kx);
            if (!inside(y, x)) continue;
            VALUE v = LOAD(0, offset4(0, n, c, y, x));
            if (at.x < 0 || v > best || (IS_NAN(v) && !IS_NAN(best))) {
                best = v;
                at = ivec2(y, x);
            }
        }
    return at;
}

// How many elements of a window count for its mean.
int divisor(int oy, int ox)
{
    int rows = 0, columns = 0, low_y = EXCLUDE_PADDING ? 0 : -PADDING_H, low_x = EXCLUDE_PADDING ? 0 : -PADDING_W;
    int high_y = HEIGHT + (EXCLUDE_PADDING ? 0 : PADDING_H), high_x = WIDTH + (EXCLUDE_PADDING ? 0 : PADDING_W);
    for (int ky = 0; ky < KERNEL_H; ky++) rows += row_of(oy, ky) >= low_y && row_of(oy, ky) < high_y ? 1 : 0;
    for (int kx = 0; kx < KERNEL_W; kx++) columns += column_of(ox, kx) >= low_x && column_of(ox, kx) < high_x ? 1 : 0;
    return rows * columns;
}

// The outputs whose windows may hold row (column) `at`: from first to last.
ivec2 windows(int at, int kernel, int stride, int padding, int dilation, int count)
{
    int reach = at + padding - (kernel - 1) * dilation;
    int first = reach <= 0 ? 0 : (reach + stride - 1) / stride, last = (at + padding) / stride;
    return ivec2(first, min(last, count - 1));
}
#define WINDOWS_Y(y) windows(y, KERNEL_H, STRIDE_H, PADDING_H, DILATION_H, OUT_HEIGHT)
#define WINDOWS_X(x) windows(x, KERNEL_W, STRIDE_W, PADDING_W, DILATION_W, OUT_WIDTH)
// Whether window o holds position `at` of its axis, given dilation.
bool holds(int at, int o, int stride, int padding, int dilation) { return (at + padding - o * stride) % dilation == 0; }
