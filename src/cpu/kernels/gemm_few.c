// Products of a few rows with a matrix whose columns lie along k; see gemm_few_tmpl.c. The sums of an element are
// gathered in lanes, in an order that follows from sizes and dtypes, never from threads.
#include "cpu/kernels/gemm_kind.h"
#include "cpu/parallel.h"

#if defined(__AVX2__)
#include "cpu/kernels/gemm_few_vector.h"

enum {
    AHEAD = 2048, // bytes that are asked of memory before they are needed
    SHORT = 1024  // positions of a column up to which four are taken at once
};

#define TARGET
#define SUM    float
#define VECTOR few_vector
#define ZERO   few_zero
#define MULADD few_muladd
#define TOTAL  few_total
#define TOTALS few_totals
#define SPREAD few_spread
#define STORE  few_store
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
#undef SPREAD
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
#undef SPREAD
#undef STORE
#undef SUM
#undef VECTOR
#undef ZERO
#undef MULADD
#undef TOTAL
#undef TOTALS
#define SUM    double
#define VECTOR few_vector_f64
#define ZERO   few_zero_f64
#define MULADD few_muladd_f64
#define TOTAL  few_total_f64
#define TOTALS few_totals_f64
#define SPREAD few_spread_f64
#define STORE  few_store_f64
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
    const char *x;               // rows that lie along k
    int64_t ld_x, ld_w, columns; // of a unit of work
    unsigned x_dtype;
    char *sums; // of all pieces
};

enum {
    MOST_ROWS = 16,
    MOST_ALONG = 2,
    LEAST_K = 32,
    LEAST_SIZE = 1 << 14,
    COLUMNS = 32,
    RUN = 2048,
    PIECES = 16,
    LARGE = 1 << 20
};

static bool is_along_n(const struct gemm *g)
{
    return g->m <= MOST_ALONG && g->b.col == 1 && g->k * g->n >= LEAST_SIZE;
}

static bool is_along_k(const struct gemm *g)
{
    return g->m <= MOST_ROWS && g->b.row == 1 && g->k >= LEAST_K && g->n >= 4;
}

static few_fn *kernel_along_n(const struct gemm *g)
{
    if (g->cls == CLASS_F64) return g->b.dtype == KILN_F64 ? along_f64 : NULL;
    switch (g->b.dtype) {
    case KILN_F32: return along_f32;
    case KILN_F16: return along_f16;
    case KILN_BF16: return along_bf16;
    default: return NULL;
    }
}

static few_fn *kernel_along_k(const struct gemm *g, unsigned *x_dtype)
{
    if (g->cls == CLASS_F64) return g->b.dtype == KILN_F64 ? few_f64 : NULL;
#if defined(__AVX512F__)
    if (g->b.dtype == KILN_BF16 && g->a.dtype == KILN_BF16 && CPU_FN(cpu_gemm_has_bf16)()) {
        *x_dtype = KILN_BF16;
        return few_pairs;
    }
#endif
    switch (g->b.dtype) {
    case KILN_F32: return few_f32;
    case KILN_F16: return few_f16;
    case KILN_BF16: return few_bf16;
    default: return NULL;
    }
}

static bool choose(const struct gemm *g, struct few *f)
{
    bool along_n = is_along_n(g);
    *f = (struct few){.g = g, .x_dtype = cpu_class_dtype[g->cls], .columns = along_n ? RUN : COLUMNS};
    if (along_n)
        f->fn = kernel_along_n(g);
    else if (is_along_k(g))
        f->fn = kernel_along_k(g, &f->x_dtype);
    f->ld_w = along_n ? g->b.row : g->b.col;
    return f->fn;
}

static kiln_status multiply_columns(void *user, int64_t begin, int64_t end)
{
    const struct few *f = user;
    const struct gemm *g = f->g;
    bool in_place = g->out.dtype == cpu_class_dtype[g->cls] && g->out.col == 1;
    char *room = in_place ? NULL : cpu_scratch(CPU_SCRATCH_SUMS, (size_t)(g->m * f->columns) * sizeof(double));
    if (!in_place && !room) return error_pending;
    for (int64_t i = begin; i < end; i++) {
        int64_t c = i * f->columns, n = g->n - c < f->columns ? g->n - c : f->columns;
        char *out = g->out.at + c * g->out.col * cpu_dtype_size_B[g->out.dtype];
        f->fn(f->x, f->ld_x, g->b.at + c * g->b.col * cpu_dtype_size_B[g->b.dtype], f->ld_w, g->k,
              in_place ? out : room, in_place ? g->out.row : f->columns, g->m, n);
        if (!in_place)
            CPU_FN(cpu_store_tile)(out, g->out.dtype, g->out.row, g->out.col, room, f->columns, g->cls, g->m, n);
    }
    return KILN_OK;
}

// Rows of a along k, in the dtype that the kernel takes.
static kiln_status lay_rows(struct few *f)
{
    const struct gemm_matrix *a = &f->g->a;
    int64_t m = f->g->m, k = f->g->k;
    f->x = a->at, f->ld_x = a->row;
    if (a->dtype == f->x_dtype && a->col == 1) return KILN_OK;
    char *dense = cpu_scratch(CPU_SCRATCH_ROWS, (size_t)(m * k * cpu_dtype_size_B[f->x_dtype]));
    if (!dense) return error_pending;
    f->x = dense, f->ld_x = k;
    if (f->x_dtype != KILN_BF16) {
        CPU_FN(cpu_load_tile)(dense, k, f->g->cls, a->at, a->dtype, m, k, a->row, a->col);
        return KILN_OK;
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t q = 0; q < k; q++) memcpy(dense + (i * k + q) * 2, a->at + (i * a->row + q * a->col) * 2, 2);
    return KILN_OK;
}

// A large matrix is read fastest row after row. Pieces of k, a fixed number of them, give sums of their own, which are
// added up in order.
static kiln_status multiply_positions(void *user, int64_t begin, int64_t end)
{
    const struct few *f = user;
    const struct gemm *g = f->g;
    int64_t size_B = cpu_dtype_size_B[g->b.dtype], x_B = cpu_dtype_size_B[f->x_dtype];
    for (int64_t i = begin; i < end; i++) {
        int64_t q0 = g->k * i / PIECES, q1 = g->k * (i + 1) / PIECES;
        f->fn(f->x + q0 * x_B, f->ld_x, g->b.at + q0 * g->b.row * size_B, f->ld_w, q1 - q0,
              f->sums + i * g->m * g->n * x_B, g->n, g->m, g->n);
    }
    return KILN_OK;
}

static kiln_status add_pieces(void *user, int64_t begin, int64_t end)
{
    const struct few *f = user;
    const struct gemm *g = f->g;
    int64_t numel = g->m * g->n;
    float *narrow = (float *)(void *)f->sums;
    double *wide = (double *)(void *)f->sums;
    for (int64_t p = 1; p < PIECES; p++)
        for (int64_t i = begin; i < end; i++)
            if (g->cls == CLASS_F64)
                wide[i] += wide[p * numel + i];
            else
                narrow[i] += narrow[p * numel + i];
    return KILN_OK;
}

static kiln_status multiply_by_pieces(struct few *f)
{
    const struct gemm *g = f->g;
    int64_t sum_B = cpu_class_size_B[g->cls], numel = g->m * g->n;
    f->sums = cpu_scratch(CPU_SCRATCH_SUMS, (size_t)(PIECES * numel * sum_B));
    if (!f->sums) return error_pending;
    TRY(cpu_parallel(PIECES, g->k * g->n / PIECES / 4, multiply_positions, f));
    TRY(cpu_parallel(numel, PIECES, add_pieces, f));
    CPU_FN(cpu_store_tile)
    (g->out.at, g->out.dtype, g->out.row, g->out.col, f->sums, g->n, g->cls, g->m, g->n);
    return KILN_OK;
}

bool CPU_FN(cpu_gemm_is_few)(const struct gemm *g)
{
    struct few f;
    return choose(g, &f);
}

kiln_status CPU_FN(cpu_gemm_few)(const struct gemm *g)
{
    struct few f;
    choose(g, &f);
    TRY(lay_rows(&f));
    if (f.columns > COLUMNS && g->k * g->n >= LARGE && g->k >= 8 * PIECES) return multiply_by_pieces(&f);
    if (f.columns > COLUMNS) { // a run for each thread
        int64_t each = (g->n + cpu_threads() - 1) / cpu_threads();
        if (each < f.columns) f.columns = each < COLUMNS ? COLUMNS : (each + COLUMNS - 1) / COLUMNS * COLUMNS;
    }
    int64_t units = (g->n + f.columns - 1) / f.columns, size_B = cpu_dtype_size_B[g->b.dtype];
    // 65,536 weights of f32, some 5 us beyond the second-level cache, are worth a second thread.
    int64_t cost = f.columns * g->k * (g->m > size_B ? g->m : size_B) / 4 + 1;
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
