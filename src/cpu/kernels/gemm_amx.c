// Tiles of products of bf16 by AMX, Intel's instructions for matrices: a register of tiles holds 16 rows of 64 bytes,
// and one instruction adds to 16 x 16 sums what 32 positions give. A tile of the product is two by two of these, so
// that four loads serve four multiplications. Operands lie as gemm_bf16.c packs them: rows of a along k, of b pairs of
// positions side by side.
//
// Each sum takes its positions in their order, both products of a pair in turn; numbers below the smallest normal one
// count as zero, as the instruction for vectors has it.
#include "cpu/tiles.h"
#include "cpu/kernels/gemm_kind.h"

#if defined(__AVX512F__)
#include "cpu/kernels/gemm_pack512.h"

#define GEMM_ROWS 32
#define AMX       __attribute__((target("amx-tile,amx-bf16")))

enum {
    SIDE = 16,        // rows of a register of tiles, and words of 32 bits of each
    ROW_B = SIDE * 4, // 32 positions of a; 16 columns of b, or sums
    WIDE = 2 * SIDE,  // columns of a tile of the product
};

// Registers, by numbers that stand in the text of instructions: sums, rows of a, columns of b.
#define UPPER_LEFT  0
#define UPPER_RIGHT 1
#define LOWER_LEFT  2
#define LOWER_RIGHT 3
#define UPPER_A     4
#define LOWER_A     5
#define LEFT_B      6
#define RIGHT_B     7

// gcc 12 does not know that a load of a tile reads memory.
#define WRITTEN() __asm__ volatile("" ::: "memory")

#define UPPER(n)   ((n) < SIDE ? (n) : SIDE)
#define LOWER(n)   ((n)-UPPER(n))
#define LOWER_B(n) ((n) > SIDE ? ROW_B : 0)
static const struct amx_shape shapes[GEMM_ROWS] = {
#define SIZE(n)                                                               \
    {1,                                                                       \
     0,                                                                       \
     {0},                                                                     \
     {ROW_B, ROW_B, LOWER_B(n), LOWER_B(n), ROW_B, LOWER_B(n), ROW_B, ROW_B}, \
     {UPPER(n), UPPER(n), LOWER(n), LOWER(n), UPPER(n), LOWER(n), SIDE, SIDE}},
#include "cpu/kernels/gemm_sizes.def"
#undef SIZE
};

// Another height takes the processor as long as ten multiplications.
AMX static void shape(int rows)
{
    if (cpu_amx_rows == rows) return;
    _tile_loadconfig(&shapes[rows - 1]);
    cpu_amx_rows = (uint8_t)rows;
}

AMX void CPU_FN(cpu_amx_end)(void)
{
    if (!cpu_amx_rows) return;
    _tile_release();
    cpu_amx_rows = 0;
}

struct amx_operands {
    const char *a, *b;
    int64_t a_row_B, b_row_B;
};

#define INLINE static inline __attribute__((always_inline))

// 32 positions.
AMX INLINE void add_positions(const struct amx_operands *x, const bool lower, const bool right)
{
    _tile_loadd(LEFT_B, x->b, x->b_row_B);
    _tile_loadd(UPPER_A, x->a, x->a_row_B);
    if (right) _tile_loadd(RIGHT_B, x->b + ROW_B, x->b_row_B);
    _tile_dpbf16ps(UPPER_LEFT, UPPER_A, LEFT_B);
    if (right) _tile_dpbf16ps(UPPER_RIGHT, UPPER_A, RIGHT_B);
    if (lower) {
        _tile_loadd(LOWER_A, x->a + SIDE * x->a_row_B, x->a_row_B);
        _tile_dpbf16ps(LOWER_LEFT, LOWER_A, LEFT_B);
        if (right) _tile_dpbf16ps(LOWER_RIGHT, LOWER_A, RIGHT_B);
    }
}

// What is left of k, fewer than 32 positions, with zeros behind it.
AMX INLINE void add_rest(const struct amx_operands *x, int64_t units, int rows, const bool lower, const bool right)
{
    _Alignas(64) char a[GEMM_ROWS * ROW_B], b[SIDE * 2 * ROW_B];
    __mmask16 there = first_16(units);
    for (int64_t i = 0; i < rows; i++)
        _mm512_store_si512(a + i * ROW_B, _mm512_maskz_loadu_epi32(there, x->a + i * x->a_row_B));
    memset(b, 0, sizeof b);
    for (int64_t i = 0; i < units; i++) memcpy(b + i * 2 * ROW_B, x->b + i * x->b_row_B, right ? 2 * ROW_B : ROW_B);
    WRITTEN();
    add_positions(&(struct amx_operands){a, b, ROW_B, 2 * ROW_B}, lower, right);
}

AMX INLINE void load_sums(const float *at, int64_t ld, const bool lower, const bool right)
{
    _tile_loadd(UPPER_LEFT, at, ld * 4);
    if (right) _tile_loadd(UPPER_RIGHT, at + SIDE, ld * 4);
    if (lower) _tile_loadd(LOWER_LEFT, at + SIDE * ld, ld * 4);
    if (lower && right) _tile_loadd(LOWER_RIGHT, at + SIDE * ld + SIDE, ld * 4);
}

AMX INLINE void store_sums(float *at, int64_t ld, const bool lower, const bool right)
{
    _tile_stored(UPPER_LEFT, at, ld * 4);
    if (right) _tile_stored(UPPER_RIGHT, at + SIDE, ld * 4);
    if (lower) _tile_stored(LOWER_LEFT, at + SIDE * ld, ld * 4);
    if (lower && right) _tile_stored(LOWER_RIGHT, at + SIDE * ld + SIDE, ld * 4);
}

// Columns of which the last register has a part, by way of a tile of memory.
AMX INLINE void copy_columns(float *to, int64_t to_ld, const float *from, int64_t from_ld, int rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < columns; c += SIDE) {
            __mmask16 there = first_16(columns - c);
            _mm512_mask_storeu_ps(to + i * to_ld + c, there, _mm512_maskz_loadu_ps(there, from + i * from_ld + c));
        }
}

AMX INLINE void multiply(const struct gemm_tile *t, int rows, const bool lower, const bool right)
{
    _Alignas(64) float part[GEMM_ROWS * WIDE];
    bool whole = t->columns == (right ? WIDE : SIDE);
    float *sums = whole ? t->out : part;
    int64_t ld = whole ? t->ld_out : WIDE;
    shape(rows);
    if (t->add && !whole) copy_columns(part, WIDE, t->out, t->ld_out, rows, t->columns);
    WRITTEN();
    if (t->add) {
        load_sums(sums, ld, lower, right);
    } else {
        _tile_zero(UPPER_LEFT);
        if (right) _tile_zero(UPPER_RIGHT);
        if (lower) _tile_zero(LOWER_LEFT);
        if (lower && right) _tile_zero(LOWER_RIGHT);
    }
    struct amx_operands x = {t->a, t->b, t->row_B, t->b_step_B};
    const char *next = t->next;
    for (int64_t q = t->k; q >= SIDE; q -= SIDE) {
        add_positions(&x, lower, right);
        x.a += ROW_B;
        x.b += SIDE * x.b_row_B;
        for (int64_t i = 0; i < t->next_B / (64 / SIDE); i++, next += 64) __builtin_prefetch(next, 0, 2);
    }
    if (t->k % SIDE) add_rest(&x, t->k % SIDE, rows, lower, right);
    store_sums(sums, ld, lower, right);
    WRITTEN();
    if (!whole) copy_columns(t->out, t->ld_out, part, WIDE, rows, t->columns);
}

AMX static void multiply_1(const struct gemm_tile *t, int rows)
{
    if (rows > SIDE)
        multiply(t, rows, true, false);
    else
        multiply(t, rows, false, false);
}

AMX static void multiply_2(const struct gemm_tile *t, int rows)
{
    if (rows > SIDE)
        multiply(t, rows, true, true);
    else
        multiply(t, rows, false, true);
}

#define SIZE(n)                                         \
    static void tile_##n##_1(const struct gemm_tile *t) \
    {                                                   \
        multiply_1(t, n);                               \
    }                                                   \
    static void tile_##n##_2(const struct gemm_tile *t) \
    {                                                   \
        multiply_2(t, n);                               \
    }
#include "cpu/kernels/gemm_sizes.def"
#undef SIZE

gemm_tile_fn *const CPU_FN(gemm_amx_tiles)[GEMM_ROWS][2] = {
#define SIZE(n) {tile_##n##_1, tile_##n##_2},
#include "cpu/kernels/gemm_sizes.def"
#undef SIZE
};
#endif
