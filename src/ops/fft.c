// Fourier transforms of pairs, the real and the imaginary part of complex numbers.
//
// A line whose length has small prime factors only is transformed by one launch of the kernel where it is short, which
// holds it in fast memory. A longer one is a matrix n1 x n2: its columns are transformed, element k of column j is
// turned by root j k of n1 n2, and the rows are transformed, in the same way if need be (Bailey's four steps, of which
// the transposition is how a result is written: that of the columns, where rows are short, else that of the rows). Any
// other length is a convolution with a chirp at the next power of two (Bluestein 1970). Roots of unity come from a
// kernel, in full precision.
#include "ops/family.h"
#include "ops/index.h"

enum {
    LINE_MOST_CPU = 4096,
    LINE_MOST_F32 = 1024,
    LINE_MOST_F64 = 512,
    PRIME_MOST = 31,
    LINES_CPU = 8,
    FEW_LONG = 256
};

kiln_status infer_fft_pairs(struct op_call *c)
{
    int axis;
    const struct type *x = c->in[0];
    if (dtype_kind_of[x->dtype] != KIND_FLOAT)
        return op_fail(c, KILN_E_DTYPE, "takes floats, x is %s", type_string(x).s);
    if (x->rank < 2 || x->dims[x->rank - 1] != 2)
        return op_fail(c, KILN_E_SHAPE, "x must be pairs [..., 2], it is %s", type_string(x).s);
    TRY(op_axis(c, AT_fft_pairs_axis, 0, &axis));
    if (axis == x->rank - 1)
        return op_fail(c, KILN_E_AXIS, "axis %d of %s is that of the pairs", axis, type_string(x).s);
    if (x->dims[axis] > INT64_C(1) << 40)
        return op_fail(c, KILN_E_SHAPE, "axis %d of %s is too long", axis, type_string(x).s);
    return infer_same(c);
}

struct fft {
    struct lowering *lo;
    enum scalar_class cls;
    bool inverse;
    int64_t line_most;
    int64_t lines_most; // that are worth doing together; 0: each is done by many
};

// A table of the count roots 0, step, 2 step ... of n; two such in one where there is a second step.
static kiln_status roots(const struct fft *f, int64_t n, int64_t step, struct view *out)
{
    double none = 0;
    int64_t dims[1] = {2 * out->dims[0]}, integers[2] = {n, step};
    struct view flat = *out;
    flat.rank = 1;
    flat.dims[0] = dims[0];
    flat.strides[0] = 1;
    return lower_row_integers(f->lo, FAMILY_fft_roots, f->cls, 1, dims, 1, 0, NULL, &flat, 2, integers, 0, &none);
}

static kiln_status make_table(const struct fft *f, int64_t n, struct view *out)
{
    TRY(lower_temp(f->lo, class_dtype(f->cls), 2, (int64_t[]){n, 2}, out));
    return roots(f, n, 1, out);
}

// The first `fine` roots of n, then every fine-th.
static kiln_status make_split_table(const struct fft *f, int64_t n, int64_t *fine, struct view *out)
{
    *fine = 1;
    while (*fine * *fine < n) *fine *= 2;
    int64_t coarse = (n + *fine - 1) / *fine;
    TRY(lower_temp(f->lo, class_dtype(f->cls), 2, (int64_t[]){*fine + coarse, 2}, out));
    struct view low = view_narrow(out, 0, 0, *fine), high = view_narrow(out, 0, *fine, coarse);
    TRY(roots(f, n, 1, &low));
    return roots(f, n, *fine, &high);
}

static bool lie_alike(const struct view *a, const struct view *b)
{
    if (a->dtype != b->dtype || a->offset != b->offset) return false;
    for (int d = 0; d < a->rank; d++)
        if (a->strides[d] != b->strides[d] && a->dims[d] > 1) return false;
    return true;
}

// Transforms dimension rank - 2 of x into that of out. total: of the larger transform, 0 where there is none; then
// dimension rank - 3 is that of the columns.
static kiln_status launch_lines(const struct fft *f, const struct view *x, const struct view *out, int64_t total)
{
    const struct view *v[2] = {x, out};
    struct index_space space = {.n = 2};
    int line = x->rank - 2;
    int64_t n = x->dims[line], fine = 1, columns = total ? x->dims[line - 1] : 1;
    struct view table, turns = view_number(0);
    TRY(make_table(f, n, &table));
    if (total) TRY(make_split_table(f, total, &fine, &turns));
    for (int d = 0; d < line; d++) space_add_dim(&space, x->dims[d], v, d);
    space_add(&space, n, (int64_t[]){x->strides[line], out->strides[line]}, true);
    struct launch l;
    space_launch(&l, f->lo, FAMILY_fft, f->cls, &space);
    int64_t lines = l.extent[0] / n, together = f->line_most / n;
    l.variant[0] = f->inverse;
    l.variant[1] = (uint32_t)(together > 1 ? together : 1);
    l.variant[2] = total != 0;
    l.extent[0] = (lines + l.variant[1] - 1) / l.variant[1];
    l.n_reduce = 1;
    launch_operand(&l, x, space.strides[0], false);
    launch_operand(&l, out, space.strides[1], true);
    if (lie_alike(x, out)) l.operands[1].flags |= OPERAND_OVER;
    launch_operand(&l, &table, NULL, false);
    launch_operand(&l, &turns, NULL, false);
    launch_scalar_i(&l, x->strides[line + 1]);
    launch_scalar_i(&l, out->strides[line + 1]);
    launch_scalar_i(&l, columns);
    launch_scalar_i(&l, total);
    launch_scalar_i(&l, fine);
    return f->lo->launch(f->lo, &l);
}

static bool is_smooth(int64_t n)
{
    for (int64_t p = 2; p <= PRIME_MOST; p++)
        while (n % p == 0) n /= p;
    return n == 1;
}

// The divisor of n nearest below its root, or below the longest line; 1 where there is none. n has small factors only.
static int64_t column_length(int64_t n, int64_t most)
{
    int64_t best = 1;
    for (int64_t d = 2; d <= most && d * d <= n; d++)
        if (n % d == 0) best = d;
    return best;
}

// Dimension `axis` as n1 x n2.
static struct view divided(const struct view *v, int axis, int64_t n1)
{
    struct view r = view_insert(v, axis);
    int64_t n2 = v->dims[axis] / n1;
    r.dims[axis] = n1;
    r.dims[axis + 1] = n2;
    r.strides[axis] = v->strides[axis] * n2;
    r.strides[axis + 1] = v->strides[axis];
    return r;
}

static struct view exchanged(const struct view *v, int a)
{
    int perm[MAX_RANK];
    for (int d = 0; d < v->rank; d++) perm[d] = d;
    perm[a] = a + 1;
    perm[a + 1] = a;
    return view_permute(v, perm);
}

static kiln_status transform(const struct fft *f, const struct view *x, const struct view *out);

// The result of the columns lies in `out`, a column a row of it, whose columns are then transformed where they lie.
static kiln_status in_place(const struct fft *f, const struct view *columns, const struct view *out, int64_t n1)
{
    int line = out->rank - 2;
    int64_t n = out->dims[line];
    struct view turned = divided(out, line, n / n1), result = exchanged(&turned, line);
    TRY(launch_lines(f, columns, &turned, n));
    return launch_lines(f, &result, &result, 0);
}

static kiln_status four_steps(const struct fft *f, const struct view *x, const struct view *out)
{
    int line = x->rank - 2;
    int64_t n = x->dims[line], n1 = column_length(n, f->line_most);
    struct view matrix = divided(x, line, n1), middle, columns = exchanged(&matrix, line), turned;
    if (x->slot != out->slot && out->dtype == class_dtype(f->cls) && n / n1 <= f->line_most)
        return in_place(f, &columns, out, n1);
    TRY(lower_temp(f->lo, class_dtype(f->cls), matrix.rank, matrix.dims, &middle));
    turned = exchanged(&middle, line);
    TRY(launch_lines(f, &columns, &turned, n));
    // Row k1 of the result lies at k1, its elements n1 apart.
    struct view result = divided(out, line, n / n1);
    result = exchanged(&result, line);
    return transform(f, &middle, &result);
}

static kiln_status bluestein(const struct fft *f, const struct view *x, const struct view *out);

// The CPU does a line of so many numbers by itself, if these follow each other.
static bool goes_alone(const struct fft *f, const struct view *x, const struct view *out)
{
    const struct view *v[] = {x, out};
    int64_t n = x->dims[x->rank - 2];
    bool alone = (n & (n - 1)) == 0;
    for (int i = 0; i < 2; i++)
        alone = alone && v[i]->strides[v[i]->rank - 2] == 2 && v[i]->dtype == class_dtype(f->cls);
    return alone;
}

// Dimension rank - 2.
static kiln_status transform(const struct fft *f, const struct view *x, const struct view *out)
{
    int64_t n = x->dims[x->rank - 2];
    if (!is_smooth(n)) return bluestein(f, x, out);
    int64_t lines = view_count(x) / (2 * n);
    bool few = f->lines_most && n >= FEW_LONG && lines < f->lines_most && !(lines > 1 && goes_alone(f, x, out));
    bool divides = n > f->line_most || (few && column_length(n, f->line_most) >= f->lines_most);
    return divides ? four_steps(f, x, out) : launch_lines(f, x, out, 0);
}

// --- lengths with a large prime factor

static struct view part(const struct view *v, int which)
{
    struct view half = view_narrow(v, v->rank - 1, which, 1);
    return view_squeeze(&half, v->rank - 1);
}

// out = scale a b, or scale a conj(b), of pairs; b is broadcast.
static kiln_status products(const struct fft *f, const struct view *a, const struct view *b, bool conjugate,
                            double scale, const struct view *out)
{
    struct view ar = part(a, 0), ai = part(a, 1), br = part(b, 0), bi = part(b, 1), re = part(out, 0),
                im = part(out, 1);
    struct view of_re[4] = {ar, br, ai, bi}, of_im[4] = {ai, br, ar, bi};
    double sign = conjugate ? -1 : 1;
    TRY(lower_pointwise(f->lo, FAMILY_fft_product, f->cls, 4, of_re, &re, 2, (double[]){-sign, scale}));
    return lower_pointwise(f->lo, FAMILY_fft_product, f->cls, 4, of_im, &im, 2, (double[]){sign, scale});
}

// exp(i pi k^2 / n) for |k| < n at k modulo count, 0 elsewhere; and its transform.
static kiln_status make_chirp(const struct fft *f, int64_t n, int64_t count, struct view *chirp, struct view *spectrum)
{
    double none = 0;
    struct fft forward = *f;
    forward.inverse = false;
    TRY(lower_temp(f->lo, class_dtype(f->cls), 2, (int64_t[]){count, 2}, chirp));
    TRY(lower_temp(f->lo, class_dtype(f->cls), 2, (int64_t[]){count, 2}, spectrum));
    struct view flat = view_flat(chirp);
    TRY(lower_row_integers(f->lo, FAMILY_fft_chirp, f->cls, 1, flat.dims, 1, 0, NULL, &flat, 2, (int64_t[]){n, count},
                           0, &none));
    return transform(&forward, chirp, spectrum);
}

// With j k = (j^2 + k^2 - (k - j)^2) / 2 and c[k] = exp(i pi k^2 / n), X[k] = conj(c[k]) sum_j (x[j] conj(c[j])) c[k -
// j]. The sum is a convolution: a product at a length that the rest can do. For the inverse all is conjugated.
static kiln_status bluestein(const struct fft *f, const struct view *x, const struct view *out)
{
    int line = x->rank - 2;
    int64_t n = x->dims[line], m = 1, dims[MAX_RANK];
    while (m < 2 * n - 1) m *= 2;
    struct view chirp, spectrum, a, b;
    struct fft back = *f;
    back.inverse = !f->inverse;
    for (int d = 0; d < x->rank; d++) dims[d] = d == line ? m : x->dims[d];
    TRY(make_chirp(f, n, m, &chirp, &spectrum));
    TRY(lower_temp(f->lo, class_dtype(f->cls), x->rank, dims, &a));
    TRY(lower_temp(f->lo, class_dtype(f->cls), x->rank, dims, &b));
    struct view head = view_narrow(&chirp, 0, 0, n), first = view_narrow(&a, line, 0, n),
                rest = view_narrow(&a, line, n, m - n);
    TRY(products(f, x, &head, !f->inverse, 1, &first));
    TRY(lower_fill(f->lo, 0, &rest));
    TRY(transform(f, &a, &b));
    TRY(products(f, &b, &spectrum, f->inverse, 1 / (double)m, &a));
    TRY(transform(&back, &a, &b));
    first = view_narrow(&b, line, 0, n);
    return products(f, &first, &head, !f->inverse, 1, out);
}

kiln_status lower_fft_pairs(const struct op_call *c, struct lowering *lo)
{
    struct fft f = {.lo = lo, .cls = dtype_class(c->out[0].dtype), .inverse = attr_int(c, AT_fft_pairs_inverse)};
    int axis, perm[MAX_RANK], n = 0, rank = c->in[0]->rank;
    TRY(op_axis(c, AT_fft_pairs_axis, 0, &axis));
    f.line_most = lowers_to_cpu(lo, f.cls) ? LINE_MOST_CPU : f.cls == CLASS_F64 ? LINE_MOST_F64 : LINE_MOST_F32;
    f.lines_most = lowers_to_cpu(lo, f.cls) ? LINES_CPU : 0;
    for (int d = 0; d + 1 < rank; d++)
        if (d != axis) perm[n++] = d;
    perm[n] = axis;
    perm[n + 1] = rank - 1;
    struct view x = view_permute(&c->vin[0], perm), out = view_permute(&c->vout[0], perm);
    if (view_count(&x) == 0) return KILN_OK;
    return transform(&f, &x, &out);
}
