// Products of a few rows with a matrix whose columns lie along k; see gemm_few_tmpl.c. The sums of an element are
// gathered in lanes, in an order that depends on k and the dtypes alone.
#include "cpu/kernels/gemm_kind.h"
#include "cpu/parallel.h"

#if defined(__AVX2__)
#include "cpu/kernels/gemm_few_vector.h"

#define TARGET
#define SUM    float
#define VECTOR few_vector
#define ZERO   few_zero
#define MULADD few_muladd
#define TOTAL  few_total
#define NAME   f32
#define X      float
#define W      float
#define STEP   FEW_LANES
#define LOAD_X few_load_f32
#define LOAD_W few_load_f32
#include "cpu/kernels/gemm_few_tmpl.c"
#define NAME   f16
#define X      float
#define W      uint16_t
#define STEP   FEW_LANES
#define LOAD_X few_load_f32
#define LOAD_W few_load_f16
#include "cpu/kernels/gemm_few_tmpl.c"
#define NAME   bf16
#define X      float
#define W      uint16_t
#define STEP   FEW_LANES
#define LOAD_X few_load_f32
#define LOAD_W few_load_bf16
#include "cpu/kernels/gemm_few_tmpl.c"
#if defined(__AVX512F__)
#undef TARGET
#undef MULADD
#define TARGET __attribute__((target("avx512bf16")))
#define MULADD few_muladd_pairs
#define NAME   pairs
#define X      uint16_t
#define W      uint16_t
#define STEP   (2 * FEW_LANES)
#define LOAD_X few_load_pairs
#define LOAD_W few_load_pairs
#include "cpu/kernels/gemm_few_tmpl.c"
#undef TARGET
#define TARGET
#endif
#undef SUM
#undef VECTOR
#undef ZERO
#undef MULADD
#undef TOTAL
#define SUM    double
#define VECTOR few_vector_f64
#define ZERO   few_zero_f64
#define MULADD few_muladd_f64
#define TOTAL  few_total_f64
#define NAME   f64
#define X      double
#define W      double
#define STEP   (FEW_LANES / 2)
#define LOAD_X few_load_f64
#define LOAD_W few_load_f64
#include "cpu/kernels/gemm_few_tmpl.c"

typedef void few_fn(const void *x, int64_t ld_x, const void *w, int64_t ld_w, int64_t k, void *out, int64_t ld_out,
                    int64_t rows, int64_t columns);

struct few {
    const struct gemm *g;
    few_fn *fn;
    const char *x; // rows that lie along k
    int64_t ld_x;
};

enum { MOST_ROWS = 8, LEAST_K = 32, COLUMNS = 32 }; // columns of a unit of work

static few_fn *kernel_of(const struct gemm *g, unsigned *x_dtype)
{
    unsigned w = g->b.dtype;
    *x_dtype = cpu_class_dtype[g->cls];
    if (g->cls == CLASS_F64) return w == KILN_F64 ? few_f64 : NULL;
#if defined(__AVX512F__)
    if (w == KILN_BF16 && g->a.dtype == KILN_BF16 && CPU_FN(cpu_gemm_has_bf16)()) {
        *x_dtype = KILN_BF16;
        return few_pairs;
    }
#endif
    return w == KILN_F32 ? few_f32 : w == KILN_F16 ? few_f16 : w == KILN_BF16 ? few_bf16 : NULL;
}

static kiln_status multiply_columns(void *user, int64_t begin, int64_t end)
{
    const struct few *f = user;
    const struct gemm *g = f->g;
    bool in_place = g->out.dtype == cpu_class_dtype[g->cls] && g->out.col == 1;
    int64_t sum_B = cpu_class_size_B[g->cls];
    double room[MOST_ROWS * COLUMNS];
    for (int64_t i = begin; i < end; i++) {
        int64_t c = i * COLUMNS, n = g->n - c < COLUMNS ? g->n - c : COLUMNS;
        char *out = g->out.at + c * g->out.col * cpu_dtype_size_B[g->out.dtype];
        f->fn(f->x, f->ld_x, g->b.at + c * g->b.col * cpu_dtype_size_B[g->b.dtype], g->b.col, g->k,
              in_place ? (void *)out : room, in_place ? g->out.row : COLUMNS, g->m, n);
        if (!in_place)
            CPU_FN(cpu_store_tile)(out, g->out.dtype, g->out.row, g->out.col, room, COLUMNS, g->cls, g->m, n);
    }
    (void)sum_B;
    return KILN_OK;
}

bool CPU_FN(cpu_gemm_is_few)(const struct gemm *g)
{
    unsigned dtype;
    bool along = g->b.row == 1 && g->b.col >= 0;
    return g->m <= MOST_ROWS && along && g->k >= LEAST_K && g->n >= 4 && kernel_of(g, &dtype);
}

kiln_status CPU_FN(cpu_gemm_few)(const struct gemm *g)
{
    unsigned dtype;
    struct few f = {.g = g, .fn = kernel_of(g, &dtype), .x = g->a.at, .ld_x = g->a.row};
    if (g->a.dtype != dtype || g->a.col != 1) {
        char *dense = cpu_scratch(CPU_SCRATCH_ROWS, (size_t)(g->m * g->k * cpu_dtype_size_B[dtype]));
        if (!dense) return error_pending;
        f.x = dense, f.ld_x = g->k;
        if (dtype == KILN_BF16)
            for (int64_t i = 0; i < g->m; i++)
                for (int64_t q = 0; q < g->k; q++)
                    ((uint16_t *)(void *)dense)[i * g->k + q] =
                        ((const uint16_t *)(const void *)g->a.at)[i * g->a.row + q * g->a.col];
        else
            CPU_FN(cpu_load_tile)(dense, g->k, g->cls, g->a.at, g->a.dtype, g->m, g->k, g->a.row, g->a.col);
    }
    int64_t units = (g->n + COLUMNS - 1) / COLUMNS, size_B = cpu_dtype_size_B[g->b.dtype];
    int64_t cost = COLUMNS * g->k * (g->m > size_B ? g->m : size_B) / 16 + 1;
    return cpu_parallel(units, cost, multiply_columns, &f);
}
#else
bool CPU_FN(cpu_gemm_is_few)(const struct gemm *g)
{
    (void)g;
    return false;
}

kiln_status CPU_FN(cpu_gemm_few)(const struct gemm *g)
{
    (void)g;
    return KILN_OK;
}
#endif
