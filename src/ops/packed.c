// Products with weights that stay packed in blocks: out[.., n] = x[.., k] times wᵀ, where row n of w is bytes. Kernels
// take rows of f32 or f64, one behind the other; other layouts and dtypes are copied, into them and from them.
#include "base/blocks.h"
#include "ops/family.h"
#include "ops/index.h"

static const struct block_format *format_of(const struct op_call *c, int64_t number, int64_t row_B)
{
    const struct block_format *f = block_format_of(number);
    if (!f)
        op_fail(c, KILN_E_ARGUMENT, "format is %lld, none of kiln_packing: q4_0, q8_0, q4_K, q6_K", (long long)number);
    else if (row_B % f->size_B)
        op_fail(c, KILN_E_SHAPE, "rows of w have %lld bytes, blocks of %s have %u", (long long)row_B, f->name,
                f->size_B);
    else
        return f;
    return NULL;
}

static kiln_status check_bytes(const struct op_call *c, const struct type *w)
{
    if (w->dtype == KILN_U8) return KILN_OK;
    return op_fail(c, KILN_E_DTYPE, "takes w as bytes, u8, it is %s", type_string(w).s);
}

kiln_status infer_unpack_blocks(struct op_call *c)
{
    const struct type *w = c->in[0];
    TRY(check_bytes(c, w));
    if (w->rank == 0) return op_fail(c, KILN_E_SHAPE, "takes rows of bytes, w is %s", type_string(w).s);
    int64_t row_B = w->dims[w->rank - 1];
    const struct block_format *f = format_of(c, attr_int(c, AT_unpack_blocks_format), row_B);
    if (!f) return error_pending;
    type_copy(&c->out[0], w);
    c->out[0].dtype = KILN_F32;
    c->out[0].weak = false;
    if (__builtin_mul_overflow(row_B / f->size_B, f->elements, &c->out[0].dims[w->rank - 1]))
        return op_fail(c, KILN_E_SHAPE, "w is too large: %s", type_string(w).s);
    return KILN_OK;
}

kiln_status infer_matmul_packed(struct op_call *c)
{
    const struct type *x = c->in[0], *w = c->in[1];
    TRY(check_bytes(c, w));
    if (x->rank == 0 || w->rank != 2)
        return op_fail(c, KILN_E_SHAPE, "takes x [..., K] and w [N, bytes]: x is %s, w is %s", type_string(x).s,
                       type_string(w).s);
    if (dtype_kind_of[x->dtype] != KIND_FLOAT)
        return op_fail(c, KILN_E_DTYPE, "takes floats, x is %s", type_string(x).s);
    const struct block_format *f = format_of(c, attr_int(c, AT_matmul_packed_format), w->dims[1]);
    if (!f) return error_pending;
    int64_t k = x->dims[x->rank - 1], packed = w->dims[1] / f->size_B;
    if (k % f->elements || k / f->elements != packed)
        return op_fail(c, KILN_E_SHAPE, "inner dimensions differ: x is %s, rows of w %lld blocks of %u elements",
                       type_string(x).s, (long long)packed, f->elements);
    type_copy(&c->out[0], x);
    c->out[0].weak = false;
    c->out[0].dims[x->rank - 1] = w->dims[0];
    return KILN_OK;
}

// --- lowering

static bool is_dense(const struct view *v, unsigned dtype)
{
    int64_t step = 1;
    if (v->immediate || v->dtype != dtype) return false;
    for (int d = v->rank - 1; d >= 0; d--) {
        if (v->dims[d] != 1 && v->strides[d] != step) return false;
        step *= v->dims[d];
    }
    return true;
}

// The same elements in a dense tensor of a dtype: itself where it is one.
static kiln_status make_dense(struct lowering *lo, const struct view *v, unsigned dtype, struct view *out)
{
    view_copy(out, v);
    if (is_dense(v, dtype)) return KILN_OK;
    TRY(lower_temp(lo, dtype, v->rank, v->dims, out));
    return lower_copy(lo, v, out);
}

// A dense view as [rows, last].
static struct view as_rows(const struct view *v, int64_t last)
{
    struct view rows;
    int64_t n = 1;
    view_copy_head(&rows, v);
    for (int d = 0; d + 1 < v->rank; d++) n *= v->dims[d];
    rows.rank = 2;
    rows.dims[0] = n, rows.dims[1] = last;
    rows.strides[0] = last, rows.strides[1] = 1;
    return rows;
}

// Rows of bytes stay where they are as long as the bytes of one lie side by side.
static kiln_status rows_of_bytes(struct lowering *lo, const struct view *v, struct view *out)
{
    if (v->rank == 2 && !v->immediate && (v->strides[1] == 1 || v->dims[1] == 1)) {
        view_copy(out, v);
        return KILN_OK;
    }
    struct view dense;
    TRY(make_dense(lo, v, KILN_U8, &dense));
    *out = as_rows(&dense, dense.dims[dense.rank - 1]);
    return KILN_OK;
}

// A result that kernels write: itself, or a tensor to be copied from.
static kiln_status place_for(struct lowering *lo, unsigned dtype, const struct view *out, struct view *place)
{
    view_copy(place, out);
    return is_dense(out, dtype) ? KILN_OK : lower_temp(lo, dtype, out->rank, out->dims, place);
}

static kiln_status put_back(struct lowering *lo, const struct view *place, const struct view *out)
{
    return is_dense(out, place->dtype) ? KILN_OK : lower_copy(lo, place, out);
}

// Space: rows of x, rows of w. Scalars: K, bytes from one row of w to the next.
kiln_status lower_matmul_packed(const struct op_call *c, struct lowering *lo)
{
    enum { TILE = 4 }; // rows of x in a workgroup, as in shaders/matmul_packed.comp
    const struct type *out = &c->out[0];
    enum scalar_class cls = dtype_class(out->dtype);
    struct view x, w, place, rows, sums;
    int64_t k = c->in[0]->dims[c->in[0]->rank - 1], n = out->dims[out->rank - 1];
    if (type_numel(out) == 0) return KILN_OK;
    if (k == 0) return lower_fill(lo, 0, &c->vout[0]);
    TRY(make_dense(lo, &c->vin[0], class_dtype(cls), &x));
    TRY(rows_of_bytes(lo, &c->vin[1], &w));
    TRY(place_for(lo, class_dtype(cls), &c->vout[0], &place));
    rows = as_rows(&x, k), sums = as_rows(&place, n);
    struct launch l;
    launch_init(&l, lo, kernel_of(FAMILY_matmul_packed, cls), 2, sums.dims);
    l.extent[0] = n * ((rows.dims[0] + TILE - 1) / TILE);
    l.variant[0] = (uint32_t)attr_int(c, AT_matmul_packed_format);
    launch_operand(&l, &rows, (int64_t[]){k, 0}, false);
    launch_operand(&l, &w, (int64_t[]){0, w.strides[0]}, false);
    launch_operand(&l, &sums, (int64_t[]){n, 1}, true);
    launch_scalar_i(&l, k);
    launch_scalar_i(&l, w.strides[0]);
    TRY(lo->launch(lo, &l));
    return put_back(lo, &place, &c->vout[0]);
}

// Space: rows, elements of one. Scalar: bytes from one row to the next.
kiln_status lower_unpack_blocks(const struct op_call *c, struct lowering *lo)
{
    const struct type *out = &c->out[0];
    struct view w, place, elements;
    if (type_numel(out) == 0) return KILN_OK;
    TRY(rows_of_bytes(lo, &c->vin[0], &w));
    TRY(place_for(lo, KILN_F32, &c->vout[0], &place));
    elements = as_rows(&place, out->dims[out->rank - 1]);
    struct launch l;
    launch_init(&l, lo, kernel_of(FAMILY_unpack_blocks, CLASS_F32), 2, elements.dims);
    l.extent[0] = type_numel(out);
    l.variant[0] = (uint32_t)attr_int(c, AT_unpack_blocks_format);
    launch_operand(&l, &w, (int64_t[]){w.strides[0], 0}, false);
    launch_operand(&l, &elements, (int64_t[]){elements.dims[1], 1}, true);
    launch_scalar_i(&l, w.strides[0]);
    TRY(lo->launch(lo, &l));
    return put_back(lo, &place, &c->vout[0]);
}
