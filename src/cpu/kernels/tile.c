// Tiles: the way in for operands whose fast axis is not the loop's.
//
// A transposed operand read along the loop touches one cache line an element. Read in tiles of a few dozen rows and
// columns, each line is used whole: the tile is transposed into a dense block, 8 x 8 (4 x 4 for 8-byte elements) at a
// time in vector registers, in the operand's own dtype, and then converted in place of a copy when the class differs.
#include "cpu/kernels/convert.h"
#include "cpu/kernels/pairs.h"
#include <string.h>

void CPU_FN(cpu_fill)(void *dst, int size_B, uint64_t bits, int64_t n)
{
    if (size_B == 4) {
        uint32_t *d = dst;
        for (int64_t i = 0; i < n; i++) d[i] = (uint32_t)bits;
    } else if (size_B == 8) {
        uint64_t *d = dst;
        for (int64_t i = 0; i < n; i++) d[i] = bits;
    } else if (size_B == 2) {
        uint16_t *d = dst;
        for (int64_t i = 0; i < n; i++) d[i] = (uint16_t)bits;
    } else {
        memset(dst, (int)(bits & 0xff), (size_t)n);
    }
}

const void *CPU_FN(cpu_filled)(void *memory, const void *src, size_t size_B, int64_t n, int64_t most)
{
    const char *last = (const char *)src + (size_t)(n - 1) * size_B;
    if (size_B == 4)
        for (int64_t i = 0; i < most; i++) ((uint32_t *)memory)[i] = *(const uint32_t *)last;
    else if (size_B == 8)
        for (int64_t i = 0; i < most; i++) ((uint64_t *)memory)[i] = *(const uint64_t *)last;
    else
        memset(memory, *last, (size_t)most);
    if (n > 1) memcpy(memory, src, (size_t)n * size_B);
    return memory;
}

// dst[r * ld_dst + c] = src[c * ld_src + r] for one element type, without regard to registers.
static void transpose_8(uint8_t *dst, int64_t ld_dst, const uint8_t *src, int64_t ld_src, int64_t rows, int64_t cols)
{
    for (int64_t c = 0; c < cols; c++)
        for (int64_t r = 0; r < rows; r++) dst[r * ld_dst + c] = src[c * ld_src + r];
}

static void transpose_16(uint16_t *dst, int64_t ld_dst, const uint16_t *src, int64_t ld_src, int64_t rows, int64_t cols)
{
    for (int64_t c = 0; c < cols; c++)
        for (int64_t r = 0; r < rows; r++) dst[r * ld_dst + c] = src[c * ld_src + r];
}

typedef uint32_t u32x4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint32_t u32x8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint64_t u64x4 __attribute__((vector_size(32), aligned(4), may_alias));

// Four rows of the result from half of the eight columns: columns k and k + 4 are joined as they are loaded, so that
// two rounds of exchanges are left, of single elements and of pairs.
static inline __attribute__((always_inline)) void block_4x8(uint32_t *dst, int64_t ld_dst, const uint32_t *src,
                                                            int64_t ld_src)
{
    u32x8 a[4], b[4];
    for (int k = 0; k < 4; k++) {
        u32x4 lo = *(const u32x4 *)(src + k * ld_src), hi = *(const u32x4 *)(src + (k + 4) * ld_src);
        a[k] = __builtin_shufflevector(lo, hi, 0, 1, 2, 3, 4, 5, 6, 7);
    }
    for (int k = 0; k < 2; k++) {
        b[k] = __builtin_shufflevector(a[2 * k], a[2 * k + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        b[k + 2] = __builtin_shufflevector(a[2 * k], a[2 * k + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int k = 0; k < 2; k++) {
        u64x4 lo = (u64x4)b[2 * k], hi = (u64x4)b[2 * k + 1];
        *(u64x4 *)(void *)(dst + 2 * k * ld_dst) = __builtin_shufflevector(lo, hi, 0, 4, 2, 6);
        *(u64x4 *)(void *)(dst + (2 * k + 1) * ld_dst) = __builtin_shufflevector(lo, hi, 1, 5, 3, 7);
    }
}

static inline void block_8x8(uint32_t *dst, int64_t ld_dst, const uint32_t *src, int64_t ld_src)
{
    block_4x8(dst, ld_dst, src, ld_src);
    block_4x8(dst + 4 * ld_dst, ld_dst, src + 4, ld_src);
}

static inline void block_4x4(uint64_t *dst, int64_t ld_dst, const uint64_t *src, int64_t ld_src)
{
    u64x4 a[4], b[4];
    for (int k = 0; k < 4; k++) a[k] = *(const u64x4 *)(src + k * ld_src);
    for (int k = 0; k < 4; k += 2) {
        b[k] = __builtin_shufflevector(a[k], a[k + 1], 0, 4, 2, 6);
        b[k + 1] = __builtin_shufflevector(a[k], a[k + 1], 1, 5, 3, 7);
    }
    for (int j = 0; j < 2; j++) {
        *(u64x4 *)(dst + j * ld_dst) = __builtin_shufflevector(b[j], b[j + 2], 0, 1, 4, 5);
        *(u64x4 *)(dst + (j + 2) * ld_dst) = __builtin_shufflevector(b[j], b[j + 2], 2, 3, 6, 7);
    }
}

static void transpose_32(uint32_t *dst, int64_t ld_dst, const uint32_t *src, int64_t ld_src, int64_t rows, int64_t cols)
{
    int64_t c = 0, r8 = rows & ~(int64_t)7;
    for (; c + 8 <= cols; c += 8) {
        for (int64_t r = 0; r < r8; r += 8) block_8x8(dst + r * ld_dst + c, ld_dst, src + c * ld_src + r, ld_src);
        for (int64_t r = r8; r < rows; r++)
            for (int64_t k = c; k < c + 8; k++) dst[r * ld_dst + k] = src[k * ld_src + r];
    }
    for (; c < cols; c++)
        for (int64_t r = 0; r < rows; r++) dst[r * ld_dst + c] = src[c * ld_src + r];
}

static void transpose_64(uint64_t *dst, int64_t ld_dst, const uint64_t *src, int64_t ld_src, int64_t rows, int64_t cols)
{
    int64_t c = 0, r4 = rows & ~(int64_t)3;
    for (; c + 4 <= cols; c += 4) {
        for (int64_t r = 0; r < r4; r += 4) block_4x4(dst + r * ld_dst + c, ld_dst, src + c * ld_src + r, ld_src);
        for (int64_t r = r4; r < rows; r++)
            for (int64_t k = c; k < c + 4; k++) dst[r * ld_dst + k] = src[k * ld_src + r];
    }
    for (; c < cols; c++)
        for (int64_t r = 0; r < rows; r++) dst[r * ld_dst + c] = src[c * ld_src + r];
}

void CPU_FN(cpu_transpose)(void *dst, int64_t ld_dst, const void *src, int64_t ld_src, int64_t rows, int64_t cols,
                           int size_B)
{
    switch (size_B) {
    case 1: transpose_8(dst, ld_dst, src, ld_src, rows, cols); break;
    case 2: transpose_16(dst, ld_dst, src, ld_src, rows, cols); break;
    case 4: transpose_32(dst, ld_dst, src, ld_src, rows, cols); break;
    default: transpose_64(dst, ld_dst, src, ld_src, rows, cols); break;
    }
}

// Side of the square in which a tile of another dtype is transposed before it is converted.
enum { SQUARE = 32 };

static void load_transposed(void *dst, int64_t ld_dst, enum scalar_class cls, const char *src, unsigned dtype,
                            int64_t rows, int64_t cols, int64_t col_stride)
{
    int from_B = cpu_dtype_size_B[dtype], to_B = cpu_class_size_B[cls];
    uint64_t square[SQUARE * SQUARE];
    for (int64_t r = 0; r < rows; r += SQUARE)
        for (int64_t c = 0; c < cols; c += SQUARE) {
            int64_t nr = rows - r < SQUARE ? rows - r : SQUARE, nc = cols - c < SQUARE ? cols - c : SQUARE;
            CPU_FN(cpu_transpose)(square, SQUARE, src + (c * col_stride + r) * from_B, col_stride, nr, nc, from_B);
            for (int64_t j = 0; j < nr; j++) CPU_FN(cpu_load)
            (dtype, cls, (char *)dst + ((r + j) * ld_dst + c) * to_B, (char *)square + j * SQUARE * from_B, nc, 1);
        }
}

void CPU_FN(cpu_load_tile)(void *dst, int64_t ld_dst, enum scalar_class cls, const void *src, unsigned dtype,
                           int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride)
{
    int from_B = cpu_dtype_size_B[dtype], to_B = cpu_class_size_B[cls];
    if (row_stride == 1 && col_stride != 1 && rows > 1) {
        if (dtype == cpu_class_dtype[cls] && dtype != KILN_BOOL)
            CPU_FN(cpu_transpose)(dst, ld_dst, src, col_stride, rows, cols, from_B);
        else
            load_transposed(dst, ld_dst, cls, src, dtype, rows, cols, col_stride);
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        void *to = (char *)dst + r * ld_dst * to_B;
        const char *from = (const char *)src + r * row_stride * from_B;
        if (r > 0 && row_stride == 0) {
            memcpy(to, dst, (size_t)(cols * to_B));
        } else if (col_stride == 0) {
            uint64_t bits = 0;
            CPU_FN(cpu_load)(dtype, cls, &bits, from, 1, 1);
            CPU_FN(cpu_fill)(to, to_B, bits, cols);
        } else {
            CPU_FN(cpu_load)(dtype, cls, to, from, cols, col_stride);
        }
    }
}

void CPU_FN(cpu_store_tile)(void *dst, unsigned dtype, int64_t row_stride, int64_t col_stride, const void *src,
                            int64_t ld_src, enum scalar_class cls, int64_t rows, int64_t cols)
{
    int to_B = cpu_dtype_size_B[dtype], from_B = cpu_class_size_B[cls];
    bool native = dtype == cpu_class_dtype[cls];
    if (native && row_stride == 1 && col_stride != 1 && rows > 1) {
        CPU_FN(cpu_transpose)(dst, col_stride, src, ld_src, cols, rows, to_B);
        return;
    }
    for (int64_t r = 0; native && col_stride == 1 && r < rows; r++)
        memcpy((char *)dst + r * row_stride * to_B, (const char *)src + r * ld_src * from_B, (size_t)(cols * to_B));
    for (int64_t r = 0; !(native && col_stride == 1) && r < rows; r++) CPU_FN(cpu_store)
    (dtype, cls, (char *)dst + r * row_stride * to_B, (const char *)src + r * ld_src * from_B, cols, col_stride);
}
