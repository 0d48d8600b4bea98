// The matrix product, batched. Space: batch dimensions, M, N, K; operand 0 is a (stride 0 along N), 1 is b (stride 0
// along M), 2 the output (stride 0 along K). The class is that of the accumulation: f16 and bf16 come in as f32.
//
// BLAS takes a matrix as it lies when one of its two strides is 1; every other layout or dtype is first packed into a
// dense copy of the class. A product of many matrices is split over the batch, one of few large ones over its rows or
// columns. Where all matrices of the innermost batch dimension share b, they are one product with
// more rows.
#include "base/process.h"
#include "cpu/blas.h"
#include "cpu/kernels/gemm.h"
#include "cpu/parallel.h"
#include <limits.h>
#include <string.h>

#define T    uint32_t
#define NAME loops_i32
#include "cpu/kernels/matmul_tmpl.c"
#define T    uint64_t
#define NAME loops_i64
#include "cpu/kernels/matmul_tmpl.c"
#define T    float
#define NAME vector_f32
#include "cpu/kernels/matvec_tmpl.c"
#define T    double
#define NAME vector_f64
#include "cpu/kernels/matvec_tmpl.c"

struct matrix { // rows x cols, strides in elements of dtype
    char *at;
    int64_t rows, cols, row_stride, col_stride;
    unsigned dtype;
};

struct product {
    enum scalar_class cls;
    int n_batch; // dimensions
    int64_t batch_sizes[MAX_RANK], batches, m, n, k;
    int64_t steps_B[3][MAX_RANK];     // of a, b, out along the batch dimensions
    struct matrix a, b, out;          // of batch 0
    bool blas;                        // in a section of its
    bool registers;                   // by the library's own product
    const struct launch_after *after; // of the only matrix
    const void *kept;                 // the same: b, packed before
};

// Of a small product zeros for batch dimensions that it has not would be a part of the time.
static void product_init(struct product *p, const struct launch *l, enum scalar_class cls)
{
    int nb = l->rank - 3;
    p->cls = cls;
    p->n_batch = nb;
    p->batches = 1;
    p->m = l->sizes[nb], p->n = l->sizes[nb + 1], p->k = l->sizes[nb + 2];
    p->blas = p->registers = false;
    p->after = NULL, p->kept = NULL;
    const struct launch_operand *o = l->operands;
    p->a = (struct matrix){
        (char *)(uintptr_t)o[0].address, p->m, p->k, o[0].strides[nb], o[0].strides[nb + 2], o[0].dtype};
    p->b = (struct matrix){
        (char *)(uintptr_t)o[1].address, p->k, p->n, o[1].strides[nb + 2], o[1].strides[nb + 1], o[1].dtype};
    p->out = (struct matrix){
        (char *)(uintptr_t)o[2].address, p->m, p->n, o[2].strides[nb], o[2].strides[nb + 1], o[2].dtype};
    for (int d = 0; d < nb; d++) {
        p->batch_sizes[d] = l->sizes[d];
        p->batches *= l->sizes[d];
        for (int i = 0; i < 3; i++) p->steps_B[i][d] = o[i].strides[d] * cpu_dtype_size_B[o[i].dtype];
    }
    while (p->n_batch > 0) { // shared b: rows of the next batch go on where these end
        int d = p->n_batch - 1;
        bool joins = p->steps_B[1][d] == 0 &&
                     p->steps_B[0][d] == p->m * p->a.row_stride * cpu_dtype_size_B[p->a.dtype] &&
                     p->steps_B[2][d] == p->m * p->out.row_stride * cpu_dtype_size_B[p->out.dtype];
        if (!joins && p->batch_sizes[d] != 1) break;
        p->m *= p->batch_sizes[d];
        p->a.rows = p->out.rows = p->m;
        p->batches = p->batch_sizes[d] ? p->batches / p->batch_sizes[d] : 0;
        p->n_batch = d;
    }
}

// The leading dimension BLAS would use, with *transposed telling which stride is 1; 0 when the matrix must be packed.
static int64_t leading(const struct matrix *x, enum scalar_class cls, bool *transposed)
{
    if (x->dtype != cpu_class_dtype[cls]) return 0;
    int64_t row = x->row_stride, col = x->col_stride;
    if (x->rows == 1) row = x->cols > 1 ? x->cols : 1;
    if (x->cols == 1 && x->rows > 1 && row == 1)
        col = x->rows; // a column: as well a transposed row
    else if (x->cols == 1)
        col = 1;
    *transposed = false;
    if (col == 1 && row >= x->cols && row <= INT_MAX) return row > 0 ? row : 1;
    *transposed = true;
    if (row == 1 && col >= x->rows && col <= INT_MAX) return col;
    return x->rows == 1 && x->col_stride >= 1 && x->col_stride <= INT_MAX ? x->col_stride : 0;
}

struct packing {
    const struct matrix *x;
    char *dense;
    enum scalar_class cls;
};

static kiln_status pack_rows(void *user, int64_t begin, int64_t end)
{
    const struct packing *p = user;
    const struct matrix *x = p->x;
    int64_t from_B = cpu_dtype_size_B[x->dtype], to_B = cpu_class_size_B[p->cls];
    enum { BAND = 64 };
    for (int64_t r = begin; r < end; r += BAND) {
        int64_t rows = end - r < BAND ? end - r : BAND;
        for (int64_t c = 0; c < x->cols; c += BAND) {
            int64_t cols = x->col_stride == 1 || x->cols - c < BAND ? x->cols - c : BAND;
            CPU_FN(cpu_load_tile)
            (p->dense + (r * x->cols + c) * to_B, x->cols, p->cls,
             x->at + (r * x->row_stride + c * x->col_stride) * from_B, x->dtype, rows, cols, x->row_stride,
             x->col_stride);
            if (cols == x->cols) break;
        }
    }
    return KILN_OK;
}

static kiln_status unpack_rows(void *user, int64_t begin, int64_t end)
{
    const struct packing *p = user;
    const struct matrix *x = p->x;
    CPU_FN(cpu_store_tile)
    (x->at + begin * x->row_stride * cpu_dtype_size_B[x->dtype], x->dtype, x->row_stride, x->col_stride,
     p->dense + begin * x->cols * cpu_class_size_B[p->cls], x->cols, p->cls, end - begin, x->cols);
    return KILN_OK;
}

// A dense row-major copy in the class.
static kiln_status pack(const struct matrix *x, enum scalar_class cls, char *dense)
{
    struct packing p = {x, dense, cls};
    return cpu_parallel(x->rows, x->cols, pack_rows, &p);
}

struct blas_call {
    const struct product *p;
    const char *a, *b;
    char *out;
    int64_t ld_a, ld_b, ld_out;
    bool trans_a, trans_b;
};

// Rows [r0, r0 + rows) of columns [c0, c0 + cols) of out.
static void call_blas(const struct blas_call *g, int64_t r0, int64_t rows, int64_t c0, int64_t cols)
{
    const struct cpu_blas *blas = cpu_blas();
    int ta = g->trans_a ? CPU_BLAS_TRANSPOSED : CPU_BLAS_PLAIN, tb = g->trans_b ? CPU_BLAS_TRANSPOSED : CPU_BLAS_PLAIN;
    int m = (int)rows, n = (int)cols, k = (int)g->p->k, lda = (int)g->ld_a, ldb = (int)g->ld_b, ldc = (int)g->ld_out;
    int64_t a_at = r0 * (g->trans_a ? 1 : g->ld_a), b_at = c0 * (g->trans_b ? g->ld_b : 1), c_at = r0 * g->ld_out + c0;
    bool vector = g->p->n == 1;
    if (g->p->cls == CLASS_F32) {
        const float *a = (const float *)(const void *)g->a + a_at, *b = (const float *)(const void *)g->b + b_at;
        float *c = (float *)(void *)g->out + c_at;
        if (vector)
            blas->sgemv(CPU_BLAS_ROW_MAJOR, ta, g->trans_a ? k : m, g->trans_a ? m : k, 1, a, lda, b,
                        g->trans_b ? 1 : ldb, 0, c, ldc);
        else
            blas->sgemm(CPU_BLAS_ROW_MAJOR, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, ldc);
    } else {
        const double *a = (const double *)(const void *)g->a + a_at, *b = (const double *)(const void *)g->b + b_at;
        double *c = (double *)(void *)g->out + c_at;
        if (vector)
            blas->dgemv(CPU_BLAS_ROW_MAJOR, ta, g->trans_a ? k : m, g->trans_a ? m : k, 1, a, lda, b,
                        g->trans_b ? 1 : ldb, 0, c, ldc);
        else
            blas->dgemm(CPU_BLAS_ROW_MAJOR, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, ldc);
    }
}

// A piece that one thread takes at once: what BLAS's inner kernels do in one go or, of a product with few rows or
// columns, what BLAS multiplies as it lies; of more it first makes panels, which so small an operand does not earn
// back.
enum { STRIP = 16, FEW = 16, PANELLESS = 64 };

static bool is_thin(const struct product *p)
{
    return p->m <= FEW || p->n <= FEW;
}

static int64_t strip_of(const struct product *p)
{
    return is_thin(p) ? PANELLESS : STRIP;
}

// More multiplications than these are BLAS's, whose blocks and shared packing suit the caches better.
static bool is_large(const struct product *p)
{
    enum { LARGE = 1 << 28 };
    return (double)p->m * (double)p->n * (double)p->k > LARGE;
}

static kiln_status blas_rows(void *user, int64_t begin, int64_t end)
{
    const struct blas_call *g = user;
    int64_t strip = strip_of(g->p), first = begin * strip;
    int64_t last = end * strip < g->p->m ? end * strip : g->p->m, step = is_thin(g->p) ? strip : last - first;
    for (int64_t r = first; r < last; r += step) call_blas(g, r, last - r < step ? last - r : step, 0, g->p->n);
    return KILN_OK;
}

static kiln_status blas_columns(void *user, int64_t begin, int64_t end)
{
    const struct blas_call *g = user;
    int64_t strip = strip_of(g->p), first = begin * strip;
    int64_t last = end * strip < g->p->n ? end * strip : g->p->n, step = is_thin(g->p) ? strip : last - first;
    for (int64_t c = first; c < last; c += step) call_blas(g, 0, g->p->m, c, last - c < step ? last - c : step);
    return KILN_OK;
}

// BLAS shares a product with a vector from some 9,000 multiplications on, a microsecond of work. A second thread then
// gains a few at best, and costs as much as the system lets it wait where others have its processor.
static void whole_product(const struct blas_call *g)
{
    enum { WORTH_SHARING = 1 << 18 };
    bool alone = g->p->n == 1 && (double)g->p->m * (double)g->p->k < WORTH_SHARING;
    int threads = alone ? cpu_pool_leave() : 0;
    call_blas(g, 0, g->p->m, 0, g->p->n);
    cpu_pool_return(threads);
}

// Of a small one BLAS's way to its kernel takes longer than the product.
static bool is_small_vector(const struct blas_call *g)
{
    enum { SMALL_VECTOR = 1 << 11 };
    const struct product *p = g->p;
    return p->n == 1 && (g->trans_b || g->ld_b == 1) && p->m <= SMALL_VECTOR && p->k <= SMALL_VECTOR &&
           p->m * p->k <= SMALL_VECTOR;
}

static void small_vector(const struct blas_call *g)
{
    const struct product *p = g->p;
    const void *a = g->a, *x = g->b;
    void *y = g->out;
    if (p->cls == CLASS_F32)
        vector_f32(a, g->ld_a, g->trans_a, x, y, g->ld_out, p->m, p->k);
    else
        vector_f64(a, g->ld_a, g->trans_a, x, y, g->ld_out, p->m, p->k);
}

// A thread with rows or columns of its own waits for no other, which is worth more than the operand that all of them
// pack, as long as each has enough of its own and the product is not large. Else BLAS's threads share the packing.
static kiln_status run_blas(struct blas_call *g)
{
    enum { ENOUGH = 48 };
    const struct product *p = g->p;
    if (is_small_vector(g)) {
        small_vector(g);
        return KILN_OK;
    }
    bool by_columns = p->n >= 2 * p->m, thin = is_thin(p);
    int64_t extent = by_columns ? p->n : p->m, across = by_columns ? p->m : p->n, strip = strip_of(p);
    bool shared = is_large(p) || extent < ENOUGH * cpu_threads();
    if (cpu_blas()->one_pool && (p->n == 1 || (shared && !thin))) {
        whole_product(g);
        return KILN_OK;
    }
    return cpu_parallel((extent + strip - 1) / strip, strip * across * p->k / 16 + 1,
                        by_columns ? blas_columns : blas_rows, g);
}

static kiln_status loop_rows(void *user, int64_t begin, int64_t end)
{
    const struct blas_call *g = user;
    int64_t n = g->p->n, k = g->p->k, rows = end - begin, size_B = cpu_class_size_B[g->p->cls];
    const void *a = g->a + begin * g->ld_a * size_B, *b = g->b;
    void *out = g->out + begin * g->ld_out * size_B;
    switch (g->p->cls) {
    case CLASS_I32: loops_i32(a, g->ld_a, b, g->ld_b, out, g->ld_out, rows, n, k); break;
    default: loops_i64(a, g->ld_a, b, g->ld_b, out, g->ld_out, rows, n, k); break;
    }
    return KILN_OK;
}

// A column of out is a vector for BLAS; a transposed row-major matrix is the product of the transposes.
static struct matrix transposed(const struct matrix *x)
{
    return (struct matrix){x->at, x->cols, x->rows, x->col_stride, x->row_stride, x->dtype};
}

// As the library's own product takes it, which has operands as they are.
static struct gemm gemm_of(const struct product *p, const struct matrix *a, const struct matrix *b,
                           const struct matrix *out)
{
    struct gemm g = {.m = p->m, .n = p->n, .k = p->k, .cls = p->cls, .after = p->after, .kept = p->kept};
    g.a = (struct gemm_matrix){a->at, a->row_stride, a->col_stride, a->dtype};
    g.b = (struct gemm_matrix){b->at, b->row_stride, b->col_stride, b->dtype};
    g.out = (struct gemm_matrix){out->at, out->row_stride, out->col_stride, out->dtype};
    return g;
}

// One matrix product, with packing as the layouts ask for it. Scratch of the calling thread.
static kiln_status multiply(const struct product *p, struct matrix a, struct matrix b, struct matrix out)
{
    if (p->registers) {
        struct gemm g = gemm_of(p, &a, &b, &out);
        return CPU_FN(cpu_gemm)(&g);
    }
    struct product q = *p;
    bool blas = p->blas;
    if (p->n > 1 && (p->m == 1 ? blas : out.row_stride == 1 && out.col_stride != 1)) {
        struct matrix t = transposed(&b);
        b = transposed(&a), a = t, out = transposed(&out);
        q.m = p->n, q.n = p->m;
    }
    int64_t size_B = cpu_class_size_B[p->cls];
    struct blas_call g = {.p = &q};
    bool out_t = false;
    g.ld_a = leading(&a, p->cls, &g.trans_a);
    g.ld_b = leading(&b, p->cls, &g.trans_b);
    g.ld_out = leading(&out, p->cls, &out_t);
    if (q.n == 1 && out.dtype == cpu_class_dtype[p->cls] && out.row_stride > 0)
        g.ld_out = out.row_stride, out_t = false;
    bool pack_a = !g.ld_a || (!blas && g.trans_a), pack_b = !g.ld_b || (!blas && g.trans_b),
         pack_out = !g.ld_out || out_t;
    int64_t a_B = pack_a ? (a.rows * a.cols * size_B + 63) & ~(int64_t)63 : 0;
    int64_t b_B = pack_b ? (b.rows * b.cols * size_B + 63) & ~(int64_t)63 : 0,
            out_B = pack_out ? out.rows * out.cols * size_B : 0;
    char *dense = NULL;
    if (a_B + b_B + out_B > 0) {
        dense = cpu_scratch(CPU_SCRATCH_CUSTOM, (size_t)(a_B + b_B + out_B));
        if (!dense) return error_pending;
    }
    g.a = pack_a ? dense : a.at;
    g.b = pack_b ? dense + a_B : b.at;
    g.out = pack_out ? dense + a_B + b_B : out.at;
    if (pack_a) TRY(pack(&a, p->cls, dense));
    if (pack_b) TRY(pack(&b, p->cls, dense + a_B));
    if (pack_a) g.ld_a = a.cols > 0 ? a.cols : 1, g.trans_a = false;
    if (pack_b) g.ld_b = b.cols > 0 ? b.cols : 1, g.trans_b = false;
    if (pack_out) g.ld_out = out.cols;
    TRY(blas ? run_blas(&g) : cpu_parallel(q.m, q.n * q.k / 4 + 1, loop_rows, &g));
    if (!pack_out) return KILN_OK;
    struct packing back = {&out, g.out, p->cls};
    return cpu_parallel(out.rows, out.cols, unpack_rows, &back);
}

static void place_batch(const struct product *p, int64_t batch, struct matrix *a, struct matrix *b, struct matrix *out)
{
    *a = p->a, *b = p->b, *out = p->out;
    for (int d = p->n_batch - 1; d >= 0; d--) {
        int64_t at = batch % p->batch_sizes[d];
        batch /= p->batch_sizes[d];
        a->at += at * p->steps_B[0][d];
        b->at += at * p->steps_B[1][d];
        out->at += at * p->steps_B[2][d];
    }
}

// Small products along the innermost batch dimension.
static kiln_status run_series(const struct product *p, int64_t begin, int64_t end)
{
    int last = p->n_batch - 1;
    int64_t inner = p->batch_sizes[last], steps_B[3];
    for (int i = 0; i < 3; i++) steps_B[i] = p->steps_B[i][last];
    for (int64_t i = begin, n; i < end; i += n) {
        struct matrix a, b, out;
        place_batch(p, i, &a, &b, &out);
        n = inner - i % inner < end - i ? inner - i % inner : end - i;
        struct gemm g = gemm_of(p, &a, &b, &out);
        TRY(CPU_FN(cpu_gemm_series)(&g, n, steps_B));
    }
    return KILN_OK;
}

// A matrix without gaps, if it fits beside others into the second cache: what is there of it is not asked for again.
static struct gemm_ahead ahead_of(const struct matrix *x, const char *now)
{
    enum { MOST_B = 1 << 18 };
    bool rows = x->col_stride == 1 && x->row_stride == x->cols,
         columns = x->row_stride == 1 && x->col_stride == x->rows;
    double size_B = (double)x->rows * (double)x->cols * cpu_dtype_size_B[x->dtype];
    if ((!rows && !columns) || size_B > MOST_B || x->at == now) return (struct gemm_ahead){0};
    return (struct gemm_ahead){x->at, (int64_t)size_B};
}

static kiln_status multiply_in_batch(const struct product *p, int64_t i, bool more)
{
    struct matrix a, b, out, next_a, next_b, next_out;
    place_batch(p, i, &a, &b, &out);
    if (!p->registers) return multiply(p, a, b, out);
    struct gemm g = gemm_of(p, &a, &b, &out);
    if (more) {
        place_batch(p, i + 1, &next_a, &next_b, &next_out);
        g.ahead[0] = ahead_of(&next_b, b.at);
        g.ahead[1] = ahead_of(&next_a, a.at);
    }
    return CPU_FN(cpu_gemm)(&g);
}

static kiln_status run_batches(void *user, int64_t begin, int64_t end)
{
    const struct product *p = user;
    struct gemm first = gemm_of(p, &p->a, &p->b, &p->out);
    if (p->registers && p->n_batch > 0 && end - begin > 1 && CPU_FN(cpu_gemm_is_small)(&first))
        return run_series(p, begin, end);
    for (int64_t i = begin; i < end; i++) TRY(multiply_in_batch(p, i, i + 1 < end));
    return KILN_OK;
}

enum { LARGE_PRODUCT = 1 << 22 }; // multiplications that are worth all threads

// Whole matrices are the better share of a thread: nothing is waited for between them. It takes enough of them that the
// last ones do not keep one thread busy alone.
static bool splits_by_batch(const struct product *p)
{
    int64_t threads = cpu_threads();
    double size = (double)p->m * (double)p->n * (double)p->k;
    return p->batches > 1 && (size < LARGE_PRODUCT || p->batches % threads == 0 || p->batches >= 4 * threads);
}

// Without AVX2 BLAS is ahead by a third and more, but for products too small to be worth a call.
static bool wants_blas(const struct product *p)
{
    bool slower = false;
#if !defined(__AVX2__)
    enum { WORTH_A_CALL = 1 << 12 };
    slower = p->batches == 1 || (double)p->m * (double)p->n * (double)p->k > WORTH_A_CALL;
#endif
    return slower && cpu_blas()->found && p->k > 0 && p->m <= INT_MAX && p->n <= INT_MAX && p->k <= INT_MAX;
}

kiln_status CPU_FN(cpu_kernel_matmul)(const struct launch *l, int64_t begin, int64_t end)
{
    struct product p;
    (void)begin, (void)end;
    product_init(&p, l, kernel_catalogue[l->kernel].cls);
    if (p.m == 0 || p.n == 0 || p.batches == 0) return KILN_OK;
    bool floats = p.cls == CLASS_F32 || p.cls == CLASS_F64;
    p.blas = floats && wants_blas(&p) && section_try();
    p.registers = floats && !p.blas;
    if (p.registers && p.batches == 1) p.after = l->after, p.kept = l->kept;
    kiln_status status;
    if (splits_by_batch(&p))
        status = cpu_parallel(p.batches, (int64_t)((double)p.m * (double)p.n * (double)p.k / 16) + 64, run_batches, &p);
    else
        status = run_batches(&p, 0, p.batches);
    if (p.blas) section_leave();
    if (!status && l->after && !p.after) status = CPU_FN(cpu_after_all)(l->after);
    return status;
}

uint64_t CPU_FN(cpu_keep_matmul)(const struct launch *l, void *to)
{
    struct product p;
    product_init(&p, l, kernel_catalogue[l->kernel].cls);
    if ((p.cls != CLASS_F32 && p.cls != CLASS_F64) || p.batches != 1 || p.m == 0 || p.n == 0 || wants_blas(&p))
        return 0;
    struct gemm g = gemm_of(&p, &p.a, &p.b, &p.out);
    return CPU_FN(cpu_gemm_keep)(&g, to);
}
