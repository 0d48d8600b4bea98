// Products whose sums are long and whose results are small, as gradients of weights over many samples are. Threads take
// pieces of k, which lie in a row in memory, and leave sums of each; how many pieces there are follows from k alone,
// and they are added up in order.
#include "cpu/kernels/gemm_kind.h"
#include "cpu/parallel.h"

enum { LONG_K = 8192, PIECE_K = 1024, MOST_PIECES = 64, SMALL_RESULT = 1 << 16 };

struct long_product {
    const struct gemm *g;
    int64_t pieces;
    char *sums;
};

bool CPU_FN(cpu_gemm_is_long)(const struct gemm *g)
{
    return g->k >= LONG_K && g->m <= SMALL_RESULT && g->n <= SMALL_RESULT && g->m * g->n <= SMALL_RESULT;
}

static kiln_status multiply_pieces(void *user, int64_t begin, int64_t end)
{
    const struct long_product *p = user;
    const struct gemm *g = p->g;
    int64_t size_B = cpu_class_size_B[g->cls];
    for (int64_t i = begin; i < end; i++) {
        // Whole units of the kinds that have several elements in one.
        int64_t q = g->k * i / p->pieces / 2 * 2, next = i + 1 < p->pieces ? g->k * (i + 1) / p->pieces / 2 * 2 : g->k;
        struct gemm piece = *g;
        piece.k = next - q;
        piece.after = NULL;
        piece.kept = NULL;
        piece.a.at += q * g->a.col * cpu_dtype_size_B[g->a.dtype];
        piece.b.at += q * g->b.row * cpu_dtype_size_B[g->b.dtype];
        piece.out = (struct gemm_matrix){p->sums + i * g->m * g->n * size_B, g->n, 1, cpu_class_dtype[g->cls]};
        TRY(CPU_FN(cpu_gemm)(&piece));
    }
    return KILN_OK;
}

static kiln_status add_pieces(void *user, int64_t begin, int64_t end)
{
    const struct long_product *p = user;
    int64_t numel = p->g->m * p->g->n;
    float *narrow = (float *)(void *)p->sums;
    double *wide = (double *)(void *)p->sums;
    for (int64_t i = 1; i < p->pieces; i++)
        for (int64_t e = begin; e < end; e++)
            if (p->g->cls == CLASS_F64)
                wide[e] += wide[i * numel + e];
            else
                narrow[e] += narrow[i * numel + e];
    return KILN_OK;
}

kiln_status CPU_FN(cpu_gemm_long)(const struct gemm *g)
{
    struct long_product p = {.g = g, .pieces = g->k / PIECE_K < MOST_PIECES ? g->k / PIECE_K : MOST_PIECES};
    int64_t numel = g->m * g->n;
    p.sums = cpu_scratch(CPU_SCRATCH_PIECES, (size_t)(p.pieces * numel * cpu_class_size_B[g->cls]));
    if (!p.sums) return error_pending;
    TRY(cpu_parallel(p.pieces, (int64_t)((double)numel * (double)(g->k / p.pieces) / 16) + 1, multiply_pieces, &p));
    TRY(cpu_parallel(numel, p.pieces, add_pieces, &p));
    CPU_FN(cpu_store_tile)
    (g->out.at, g->out.dtype, g->out.row, g->out.col, p.sums, g->n, g->cls, g->m, g->n);
    return KILN_OK;
}
