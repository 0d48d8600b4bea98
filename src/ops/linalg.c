// Factorisations of matrices and what follows from them. One launch does a batch: its space is the batch. Scalars:
// whether a matrix that has no result is an error; the sizes m, n, k; a bit for each operand that is missing; of each
// operand the strides of rows and columns. See cpu/kernels/matrices.h.
#include "ops/family.h"
#include "ops/index.h"

enum { MOST_ROWS = INT32_MAX / 2, MOST_OF_SPECTRA = 20000 }; // beyond, sizes of LAPACK's work overflow its integers

// --- types

static uint8_t float_dtype(uint8_t dtype)
{
    return dtype_kind_of[dtype] == KIND_FLOAT ? dtype : KILN_F32;
}

static kiln_status check_matrices(const struct op_call *c, bool square, int64_t most)
{
    const struct type *x = c->in[0];
    int64_t m = x->rank < 2 ? 0 : x->dims[x->rank - 2], n = x->rank < 2 ? 0 : x->dims[x->rank - 1];
    if (x->rank < 2 || (square && m != n))
        return op_fail(c, KILN_E_SHAPE, "takes %smatrices, %s is %s", square ? "square " : "", c->op->in_names[0],
                       type_string(x).s);
    if (m <= most && n <= most) return KILN_OK;
    return op_fail(c, KILN_E_UNSUPPORTED, "takes matrices of at most %lld rows and columns, %s is %s", (long long)most,
                   c->op->in_names[0], type_string(x).s);
}

// The batch of x with these sizes behind it.
static void infer_batch(struct op_call *c, int output, int n_sizes, const int64_t *sizes)
{
    struct type *out = &c->out[output];
    *out = *c->in[0];
    out->weak = false;
    out->dtype = float_dtype(out->dtype);
    out->rank = (uint8_t)(out->rank - 2);
    for (int i = 0; i < n_sizes; i++) out->dims[out->rank++] = sizes[i];
}

static kiln_status infer_square(struct op_call *c, int64_t most)
{
    TRY(check_matrices(c, true, most));
    int64_t n = c->in[0]->dims[c->in[0]->rank - 1], sizes[2] = {n, n};
    infer_batch(c, 0, 2, sizes);
    return KILN_OK;
}

kiln_status infer_cholesky(struct op_call *c)
{
    return infer_square(c, MOST_ROWS);
}

kiln_status infer_inv(struct op_call *c)
{
    return infer_square(c, MOST_ROWS);
}

kiln_status infer_det(struct op_call *c)
{
    TRY(check_matrices(c, true, MOST_ROWS));
    infer_batch(c, 0, 0, NULL);
    return KILN_OK;
}

kiln_status infer_slogdet(struct op_call *c)
{
    TRY(infer_det(c));
    c->out[1] = c->out[0];
    return KILN_OK;
}

kiln_status infer_eigvalsh(struct op_call *c)
{
    TRY(check_matrices(c, true, MOST_OF_SPECTRA));
    infer_batch(c, 0, 1, &c->in[0]->dims[c->in[0]->rank - 1]);
    return KILN_OK;
}

kiln_status infer_eigh(struct op_call *c)
{
    TRY(infer_eigvalsh(c));
    int64_t n = c->in[0]->dims[c->in[0]->rank - 1], sizes[2] = {n, n};
    infer_batch(c, 1, 2, sizes);
    return KILN_OK;
}

// Rows, columns, and the smaller of both.
static void sizes_of(const struct op_call *c, int64_t *m, int64_t *n, int64_t *k)
{
    const struct type *x = c->in[0];
    *m = x->dims[x->rank - 2];
    *n = x->dims[x->rank - 1];
    *k = *m < *n ? *m : *n;
}

kiln_status infer_svd(struct op_call *c)
{
    int64_t m, n, k;
    bool full = attr_int(c, AT_svd_full_matrices) != 0;
    TRY(check_matrices(c, false, MOST_OF_SPECTRA));
    sizes_of(c, &m, &n, &k);
    int64_t u[2] = {m, full ? m : k}, vh[2] = {full ? n : k, n};
    infer_batch(c, 0, 2, u);
    infer_batch(c, 1, 1, &k);
    infer_batch(c, 2, 2, vh);
    return KILN_OK;
}

kiln_status infer_svdvals(struct op_call *c)
{
    int64_t m, n, k;
    TRY(check_matrices(c, false, MOST_OF_SPECTRA));
    sizes_of(c, &m, &n, &k);
    infer_batch(c, 0, 1, &k);
    return KILN_OK;
}

kiln_status infer_qr(struct op_call *c)
{
    int64_t m, n, k;
    TRY(check_matrices(c, false, MOST_ROWS));
    sizes_of(c, &m, &n, &k);
    if (attr_int(c, AT_qr_complete)) k = m;
    int64_t q[2] = {m, k}, r[2] = {k, n};
    infer_batch(c, 0, 2, q);
    infer_batch(c, 1, 2, r);
    return KILN_OK;
}

static kiln_status system_batch(const struct op_call *c, struct type *batch)
{
    struct type a = *c->in[0], b = *c->in[1];
    a.rank = (uint8_t)(a.rank - 2);
    b.rank = b.rank > 2 ? (uint8_t)(b.rank - 2) : 0;
    if (shape_broadcast(&a, &b, batch)) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE, "batch dimensions do not broadcast: a is %s, b is %s", type_string(c->in[0]).s,
                   type_string(c->in[1]).s);
}

kiln_status infer_solve(struct op_call *c)
{
    const struct type *a = c->in[0], *b = c->in[1];
    struct type *out = &c->out[0];
    bool weak;
    TRY(check_matrices(c, true, MOST_ROWS));
    int64_t n = a->dims[a->rank - 1];
    if (b->rank == 0 || b->dims[b->rank < 2 ? 0 : b->rank - 2] != n || b->dims[b->rank - 1] > MOST_ROWS)
        return op_fail(c, KILN_E_SHAPE, "b must be a vector [%lld] or matrices [..., %lld, K]: a is %s, b is %s",
                       (long long)n, (long long)n, type_string(a).s, type_string(b).s);
    TRY(system_batch(c, out));
    type_promote(a, b, &out->dtype, &weak);
    out->dtype = float_dtype(out->dtype);
    out->weak = false;
    out->dims[out->rank++] = n;
    if (b->rank > 1) out->dims[out->rank++] = b->dims[b->rank - 1];
    return KILN_OK;
}

kiln_status infer_solve_triangular(struct op_call *c)
{
    return infer_solve(c);
}

kiln_status infer_lu(struct op_call *c)
{
    int64_t m, n, k;
    TRY(check_matrices(c, false, MOST_ROWS));
    sizes_of(c, &m, &n, &k);
    infer_batch(c, 0, 2, (int64_t[]){m, m});
    infer_batch(c, 1, 2, (int64_t[]){m, k});
    infer_batch(c, 2, 2, (int64_t[]){k, n});
    return KILN_OK;
}

kiln_status infer_eigvals_parts(struct op_call *c)
{
    TRY(infer_eigvalsh(c));
    c->out[1] = c->out[0];
    return KILN_OK;
}

kiln_status infer_eig_parts(struct op_call *c)
{
    TRY(infer_eigvals_parts(c));
    int64_t n = c->in[0]->dims[c->in[0]->rank - 1], sizes[2] = {n, n};
    infer_batch(c, 2, 2, sizes);
    infer_batch(c, 3, 2, sizes);
    return KILN_OK;
}

// --- launches

struct matrix_operand {
    const struct view *v; // NULL: none
    int tail;             // its last dimensions, which are no part of the batch
};

struct batch {
    int family, rank; // of the batch
    const int64_t *dims;
    int64_t m, n, k;
    uint32_t variant[3];
};

static int64_t stride_of(const struct view *v, int d, int tail)
{
    return d < tail ? v->strides[v->rank - tail + d] : 0;
}

// What stands for an operand that is not there: 0, or, since something must be written to, a number of its own.
static kiln_status absent(struct lowering *lo, unsigned dtype, bool write, struct view *out)
{
    *out = view_integer(0);
    return write ? lower_temp(lo, dtype, 0, NULL, out) : KILN_OK;
}

// n_in operands are read, the others written. Those without elements are not there for the kernel.
static kiln_status launch_batch(struct lowering *lo, const struct batch *b, int n_in, int n,
                                const struct matrix_operand *o)
{
    struct view views[5];
    struct launch l;
    int64_t dims[MAX_RANK], matrices = 1, missing = 0;
    for (int d = 0; d < b->rank; d++) {
        dims[d] = b->dims[d];
        matrices *= dims[d];
    }
    if (!matrices) return KILN_OK;
    unsigned dtype = o[n - 1].v ? o[n - 1].v->dtype : o[n_in].v->dtype;
    launch_init(&l, lo, kernel_of(b->family, dtype_class(dtype)), b->rank, b->dims);
    for (int i = 0; i < n; i++) {
        if (!o[i].v || view_count(o[i].v) == 0) {
            missing |= INT64_C(1) << i;
            TRY(absent(lo, dtype, i >= n_in, &views[i]));
            launch_operand(&l, &views[i], NULL, i >= n_in);
            continue;
        }
        for (int d = 0; d < o[i].tail; d++) dims[b->rank + d] = o[i].v->dims[o[i].v->rank - o[i].tail + d];
        TRY(view_expand(o[i].v, b->rank + o[i].tail, dims, &views[i]));
        launch_operand(&l, &views[i], views[i].strides, i >= n_in);
    }
    const int64_t scalars[5] = {lo->caps->checks_values, b->m, b->n, b->k, missing};
    for (int i = 0; i < 5; i++) launch_scalar_i(&l, scalars[i]);
    for (int i = 0; i < n; i++)
        for (int d = 0; d < 2; d++) launch_scalar_i(&l, missing >> i & 1 ? 0 : stride_of(&views[i], d, o[i].tail));
    for (int i = 0; i < 3; i++) l.variant[i] = b->variant[i];
    l.extent[0] = matrices;
    return lo->launch(lo, &l);
}

static struct batch batch_of(const struct op_call *c, int family)
{
    struct batch b = {.family = family, .rank = c->in[0]->rank - 2, .dims = c->in[0]->dims};
    sizes_of(c, &b.m, &b.n, &b.k);
    return b;
}

kiln_status lower_cholesky(const struct op_call *c, struct lowering *lo)
{
    struct batch b = batch_of(c, FAMILY_cholesky);
    b.variant[0] = attr_int(c, AT_cholesky_upper) != 0;
    if (b.n == 0) return KILN_OK;
    return launch_batch(lo, &b, 1, 2, (struct matrix_operand[]){{&c->vin[0], 2}, {&c->vout[0], 2}});
}

kiln_status lower_inv(const struct op_call *c, struct lowering *lo)
{
    struct batch b = batch_of(c, FAMILY_solve);
    if (b.n == 0) return KILN_OK;
    return launch_batch(lo, &b, 2, 3, (struct matrix_operand[]){{&c->vin[0], 2}, {NULL, 2}, {&c->vout[0], 2}});
}

static kiln_status lower_system(const struct op_call *c, struct lowering *lo, int family, const uint32_t *variant)
{
    struct type batch;
    TRY(system_batch(c, &batch));
    struct view y = c->vin[1], out = c->vout[0];
    if (y.rank == 1) {
        y = view_insert(&y, 1);
        out = view_insert(&out, out.rank);
    }
    struct batch b = {.family = family, .rank = batch.rank, .dims = batch.dims};
    b.m = b.n = c->in[0]->dims[c->in[0]->rank - 1];
    b.k = y.dims[y.rank - 1];
    for (int i = 0; i < 3; i++) b.variant[i] = variant[i];
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    return launch_batch(lo, &b, 2, 3, (struct matrix_operand[]){{&c->vin[0], 2}, {&y, 2}, {&out, 2}});
}

kiln_status lower_solve(const struct op_call *c, struct lowering *lo)
{
    return lower_system(c, lo, FAMILY_solve, (const uint32_t[3]){0});
}

kiln_status lower_solve_triangular(const struct op_call *c, struct lowering *lo)
{
    uint32_t variant[3] = {attr_int(c, AT_solve_triangular_upper) != 0,
                           attr_int(c, AT_solve_triangular_transposed) != 0,
                           attr_int(c, AT_solve_triangular_unit) != 0};
    return lower_system(c, lo, FAMILY_solve_triangular, variant);
}

kiln_status lower_det(const struct op_call *c, struct lowering *lo)
{
    struct batch b = batch_of(c, FAMILY_determinant);
    if (b.n == 0) return lower_fill(lo, 1, &c->vout[0]);
    return launch_batch(lo, &b, 1, 3, (struct matrix_operand[]){{&c->vin[0], 2}, {&c->vout[0], 0}, {NULL, 0}});
}

kiln_status lower_slogdet(const struct op_call *c, struct lowering *lo)
{
    struct batch b = batch_of(c, FAMILY_determinant);
    if (b.n == 0) {
        TRY(lower_fill(lo, 1, &c->vout[0]));
        return lower_fill(lo, 0, &c->vout[1]);
    }
    return launch_batch(lo, &b, 1, 3, (struct matrix_operand[]){{&c->vin[0], 2}, {&c->vout[0], 0}, {&c->vout[1], 0}});
}

kiln_status lower_eigh(const struct op_call *c, struct lowering *lo)
{
    struct batch b = batch_of(c, FAMILY_eigh);
    if (b.n == 0) return KILN_OK;
    return launch_batch(lo, &b, 1, 3, (struct matrix_operand[]){{&c->vin[0], 2}, {&c->vout[0], 1}, {&c->vout[1], 2}});
}

kiln_status lower_eigvalsh(const struct op_call *c, struct lowering *lo)
{
    struct batch b = batch_of(c, FAMILY_eigh);
    if (b.n == 0) return KILN_OK;
    return launch_batch(lo, &b, 1, 3, (struct matrix_operand[]){{&c->vin[0], 2}, {&c->vout[0], 1}, {NULL, 2}});
}

kiln_status lower_svd(const struct op_call *c, struct lowering *lo)
{
    struct batch b = batch_of(c, FAMILY_svd);
    b.variant[0] = attr_int(c, AT_svd_full_matrices) != 0;
    return launch_batch(
        lo, &b, 1, 4, (struct matrix_operand[]){{&c->vin[0], 2}, {&c->vout[1], 1}, {&c->vout[0], 2}, {&c->vout[2], 2}});
}

kiln_status lower_svdvals(const struct op_call *c, struct lowering *lo)
{
    struct batch b = batch_of(c, FAMILY_svd);
    if (b.k == 0) return KILN_OK;
    return launch_batch(lo, &b, 1, 4,
                        (struct matrix_operand[]){{&c->vin[0], 2}, {&c->vout[0], 1}, {NULL, 2}, {NULL, 2}});
}

kiln_status lower_qr(const struct op_call *c, struct lowering *lo)
{
    struct batch b = batch_of(c, FAMILY_qr);
    b.variant[0] = attr_int(c, AT_qr_complete) != 0;
    return launch_batch(lo, &b, 1, 3, (struct matrix_operand[]){{&c->vin[0], 2}, {&c->vout[0], 2}, {&c->vout[1], 2}});
}

kiln_status lower_lu(const struct op_call *c, struct lowering *lo)
{
    struct batch b = batch_of(c, FAMILY_lu);
    if (b.m == 0) return KILN_OK;
    return launch_batch(
        lo, &b, 1, 4, (struct matrix_operand[]){{&c->vin[0], 2}, {&c->vout[0], 2}, {&c->vout[1], 2}, {&c->vout[2], 2}});
}

static kiln_status lower_spectrum(const struct op_call *c, struct lowering *lo, bool vectors)
{
    struct batch b = batch_of(c, FAMILY_eig);
    if (b.n == 0) return KILN_OK;
    return launch_batch(lo, &b, 1, 5,
                        (struct matrix_operand[]){{&c->vin[0], 2},
                                                  {&c->vout[0], 1},
                                                  {&c->vout[1], 1},
                                                  {vectors ? &c->vout[2] : NULL, 2},
                                                  {vectors ? &c->vout[3] : NULL, 2}});
}

kiln_status lower_eig_parts(const struct op_call *c, struct lowering *lo)
{
    return lower_spectrum(c, lo, true);
}

kiln_status lower_eigvals_parts(const struct op_call *c, struct lowering *lo)
{
    return lower_spectrum(c, lo, false);
}
