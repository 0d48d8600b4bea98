// Running sums, products and extrema along one axis. A GPU walks each row with one invocation where rows are many or
// short, with one workgroup where they are fewer, and in three steps where they are long and few: the totals of chunks,
// the scan of those, and the scan of each chunk from the total before it. The order of the sums is fixed by the sizes
// alone.
#include "ops/family.h"
#include "ops/index.h"

enum { PHASE_ROWS, PHASE_TOTALS, PHASE_CHUNKS, PHASE_LANES }; // variant 1 of the kernel, see shaders/scan.comp
enum { SHORT_ROW = 32, CHUNK = 4096, LANES = 256 };
enum { SCAN_SUM, SCAN_PROD, SCAN_MAX, SCAN_MIN };

kiln_status infer_scan(struct op_call *c)
{
    int axis;
    const struct type *x = c->in[0];
    TRY(op_axis(c, AT_cumsum_axis, 0, &axis));
    TRY(infer_same(c));
    if (dtype_kind_of[x->dtype] != KIND_FLOAT && x->dtype != KILN_U64) c->out[0].dtype = KILN_I64;
    c->compute_dtype = c->out[0].dtype;
    return KILN_OK;
}

kiln_status infer_scan_extremum(struct op_call *c)
{
    int axis;
    TRY(op_axis(c, AT_cummax_axis, 0, &axis));
    if (c->in[0]->dtype == KILN_BOOL)
        return op_fail(c, KILN_E_DTYPE, "takes integers and floats, x is %s", type_string(c->in[0]).s);
    TRY(infer_same(c));
    c->compute_dtype = dtype_kind_of[c->out[0].dtype] == KIND_FLOAT ? c->out[0].dtype : KILN_I64;
    return KILN_OK;
}

struct scan {
    struct lowering *lo;
    enum scalar_class cls;
    uint32_t verb;
};

// x and out of one shape, scanned along the last dimension; carry is [rows, chunks], and what PHASE_TOTALS writes.
static kiln_status run(const struct scan *s, uint32_t phase, const struct view *x, const struct view *out,
                       const struct view *carry, int64_t chunks)
{
    const struct view *v[2] = {x, out};
    struct index_space space = {.n = 2};
    int last = x->rank - 1;
    for (int d = 0; d < last; d++) space_add_dim(&space, x->dims[d], v, d);
    int64_t strides[SPACE_OPERANDS] = {x->strides[last], out->strides[last]};
    if (phase == PHASE_TOTALS) {
        for (int d = 0; d < space.rank; d++) space.strides[1][d] = 0;
        strides[1] = 0;
    }
    space_add(&space, x->dims[last], strides, true);
    struct launch l;
    space_launch(&l, s->lo, FAMILY_scan, s->cls, &space);
    int64_t rows = l.extent[0] / x->dims[last];
    l.extent[0] = phase == PHASE_LANES ? (rows + LANES - 1) / LANES : rows * chunks;
    l.variant[0] = s->verb;
    l.variant[1] = phase;
    l.n_reduce = 1;
    launch_operand(&l, x, space.strides[0], false);
    launch_operand(&l, phase == PHASE_TOTALS ? carry : out, space.strides[1], true);
    // The totals are seen through x's dimensions; what is touched is the totals.
    if (phase == PHASE_TOTALS) {
        l.operands[1].range_lo_B = 0;
        l.operands[1].range_hi_B = rows * chunks * dtype_size_B[out->dtype];
    }
    launch_operand(&l, carry, NULL, false);
    launch_scalar_i(&l, CHUNK);
    launch_scalar_i(&l, chunks);
    return s->lo->launch(s->lo, &l);
}

_Static_assert(AT_cumsum_axis == AT_cummax_axis, "lower_scan serves all");

static kiln_status lower_scan(const struct op_call *c, struct lowering *lo, uint32_t verb)
{
    struct scan s = {lo, dtype_class(c->compute_dtype), verb};
    int axis, perm[MAX_RANK], n = 0, rank = c->in[0]->rank;
    TRY(op_axis(c, AT_cumsum_axis, 0, &axis));
    for (int d = 0; d < rank; d++)
        if (d != axis) perm[n++] = d;
    perm[n] = axis;
    struct view x = view_permute(&c->vin[0], perm), out = view_permute(&c->vout[0], perm), none = view_integer(0),
                totals;
    int64_t length = x.dims[n], count = view_count(&x);
    if (count == 0) return KILN_OK;
    int64_t rows = count / length, chunks = (length + CHUNK - 1) / CHUNK;
    if (lowers_to_cpu(lo, s.cls)) return run(&s, PHASE_ROWS, &x, &out, &none, 1);
    if (length <= SHORT_ROW || rows >= lo->caps->parallelism / 4) return run(&s, PHASE_LANES, &x, &out, &none, 1);
    if (chunks == 1 || rows >= lo->caps->parallelism / LANES) return run(&s, PHASE_ROWS, &x, &out, &none, 1);
    int64_t dims[2] = {rows, chunks};
    TRY(lower_temp(lo, class_dtype(s.cls), 2, dims, &totals));
    TRY(run(&s, PHASE_TOTALS, &x, &x, &totals, chunks));
    TRY(run(&s, PHASE_ROWS, &totals, &totals, &none, 1));
    return run(&s, PHASE_CHUNKS, &x, &out, &totals, chunks);
}

kiln_status lower_cumsum(const struct op_call *c, struct lowering *lo)
{
    return lower_scan(c, lo, SCAN_SUM);
}

kiln_status lower_cumprod(const struct op_call *c, struct lowering *lo)
{
    return lower_scan(c, lo, SCAN_PROD);
}

kiln_status lower_cummax(const struct op_call *c, struct lowering *lo)
{
    return lower_scan(c, lo, SCAN_MAX);
}

kiln_status lower_cummin(const struct op_call *c, struct lowering *lo)
{
    return lower_scan(c, lo, SCAN_MIN);
}
