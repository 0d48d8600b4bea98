// Reductions, scans and sorting.
#include "onnx/write.h"
#include "ops/attrs.h"
#include <math.h>
#include <string.h>

_Static_assert(AT_reduce_opts_axes == 0 && AT_reduce_opts_keepdims == 1, "what list_axes and put_folded read");

static const char *put_axes(struct onnx_writer *w)
{
    const struct attr *a = &onnx_node_of(w)->attrs[0];
    int64_t axes[MAX_RANK];
    for (int i = 0; i < a->count; i++) axes[i] = axis_normalize(a->v[i], onnx_type_in(w, 0)->rank);
    return a->count ? onnx_put_ints(w, a->count, axes) : "";
}

static const char *put_folded(struct onnx_writer *w, const char *op, const char *x, bool keep)
{
    const char *axes = put_axes(w);
    onnx_put_int(w, "keepdims", keep);
    return PUT(w, op, x, axes);
}

// A dtype that sums and squares do not leave: halves add up in f32.
static unsigned wide(unsigned dtype)
{
    return dtype == KILN_F64 || dtype_kind_of[dtype] != KIND_FLOAT ? dtype : KILN_F32;
}

static bool keeps(const struct onnx_writer *w)
{
    return onnx_attr_of(w, 1) != 0;
}

static void write_folded(struct onnx_writer *w, const char *op)
{
    unsigned dtype = wide(onnx_type_out(w, 0)->dtype);
    dtype = onnx_computes_in(w, op, dtype);
    onnx_gives(w, 0, put_folded(w, op, onnx_operand(w, 0, dtype), keeps(w)), dtype);
}

void onnx_write_sum(struct onnx_writer *w)
{
    write_folded(w, "ReduceSum");
}

void onnx_write_prod(struct onnx_writer *w)
{
    write_folded(w, "ReduceProd");
}

void onnx_write_mean(struct onnx_writer *w)
{
    write_folded(w, "ReduceMean");
}

void onnx_write_max(struct onnx_writer *w)
{
    write_folded(w, "ReduceMax");
}

void onnx_write_min(struct onnx_writer *w)
{
    write_folded(w, "ReduceMin");
}

void onnx_write_logsumexp(struct onnx_writer *w)
{
    write_folded(w, "ReduceLogSumExp");
}

static void write_truth(struct onnx_writer *w, const char *op)
{
    const char *x = onnx_put_cast(w, onnx_operand(w, 0, KILN_BOOL), KILN_BOOL, KILN_I64);
    onnx_gives(w, 0, put_folded(w, op, x, keeps(w)), KILN_I64);
}

void onnx_write_any(struct onnx_writer *w)
{
    write_truth(w, "ReduceSum");
}

void onnx_write_all(struct onnx_writer *w)
{
    write_truth(w, "ReduceProd");
}

static void write_place(struct onnx_writer *w, const char *op)
{
    const struct type *x = onnx_type_in(w, 0), *y = onnx_type_out(w, 0);
    const struct attr *a = &onnx_node_of(w)->attrs[0];
    const char *in = onnx_operand(w, 0, onnx_computes_in(w, op, x->dtype));
    if (!a->count) in = PUT(w, "Reshape", in, onnx_put_ints(w, 1, (const int64_t[]){-1}));
    onnx_put_int(w, "axis", a->count ? axis_normalize(a->v[0], x->rank) : 0);
    onnx_put_int(w, "keepdims", a->count && keeps(w));
    const char *place = PUT(w, op, in);
    if (!a->count && y->rank) place = onnx_put_reshape(w, place, y);
    onnx_gives(w, 0, place, KILN_I64);
}

void onnx_write_argmax(struct onnx_writer *w)
{
    write_place(w, "ArgMax");
}

void onnx_write_argmin(struct onnx_writer *w)
{
    write_place(w, "ArgMin");
}

// --- variance, norms

static int64_t count_reduced(const struct onnx_writer *w)
{
    const struct type *x = onnx_type_in(w, 0);
    const struct attr *a = &onnx_node_of(w)->attrs[0];
    int64_t n = 1;
    for (int i = 0; i < a->count; i++) n *= x->dims[axis_normalize(a->v[i], x->rank)];
    return a->count ? n : type_numel(x);
}

static const char *put_variance(struct onnx_writer *w, unsigned dtype)
{
    double correction = onnx_node_of(w)->attrs[AT_var_correction].f;
    const char *x = onnx_operand(w, 0, dtype);
    const char *off = PUT(w, "Sub", x, put_folded(w, "ReduceMean", x, true));
    off = PUT(w, "Mul", off, off);
    if (correction == 0) return put_folded(w, "ReduceMean", off, keeps(w));
    double n = (double)count_reduced(w) - correction;
    return PUT(w, "Div", put_folded(w, "ReduceSum", off, keeps(w)), onnx_put_scalar(w, dtype, n));
}

void onnx_write_var(struct onnx_writer *w)
{
    unsigned dtype = wide(onnx_type_out(w, 0)->dtype);
    onnx_gives(w, 0, put_variance(w, dtype), dtype);
}

void onnx_write_std(struct onnx_writer *w)
{
    unsigned dtype = wide(onnx_type_out(w, 0)->dtype);
    onnx_gives(w, 0, PUT(w, "Sqrt", put_variance(w, dtype)), dtype);
}

void onnx_write_norm(struct onnx_writer *w)
{
    unsigned dtype = wide(onnx_type_out(w, 0)->dtype);
    double p = onnx_node_of(w)->attrs[AT_norm_ord].f;
    const char *x = onnx_operand(w, 0, dtype), *y;
    if (p == 1 || p == 2)
        y = put_folded(w, p == 1 ? "ReduceL1" : "ReduceL2", x, keeps(w));
    else if (isinf(p))
        y = put_folded(w, p > 0 ? "ReduceMax" : "ReduceMin", PUT(w, "Abs", x), keeps(w));
    else if (p == 0)
        y = put_folded(w, "ReduceSum", PUT(w, "Abs", PUT(w, "Sign", x)), keeps(w));
    else {
        y = PUT(w, "Pow", PUT(w, "Abs", x), onnx_put_scalar(w, dtype, p));
        y = PUT(w, "Pow", put_folded(w, "ReduceSum", y, keeps(w)), onnx_put_scalar(w, dtype, 1 / p));
    }
    onnx_gives(w, 0, y, dtype);
}

// --- scans, sorting

void onnx_write_cumsum(struct onnx_writer *w)
{
    unsigned dtype = wide(onnx_type_out(w, 0)->dtype);
    int64_t axis = onnx_axis_of(w, AT_cumsum_axis, onnx_type_in(w, 0)->rank);
    const char *x = onnx_operand(w, 0, dtype), *at = onnx_put_integer(w, KILN_I64, axis);
    onnx_gives(w, 0, PUT(w, "CumSum", x, at), dtype);
}

// The first k of the order; of equal ones the lower place comes first, in ONNX as well.
static void put_order(struct onnx_writer *w, int axis, int64_t k, bool largest, const char **out, unsigned *dtype)
{
    *dtype = onnx_computes_in(w, "TopK", onnx_type_in(w, 0)->dtype);
    const char *in[] = {onnx_operand(w, 0, *dtype), onnx_put_ints(w, 1, &k)};
    onnx_put_int(w, "axis", axis);
    onnx_put_int(w, "largest", largest);
    onnx_put_int(w, "sorted", 1);
    onnx_put_all(w, "TopK", 2, in, 2, out);
}

void onnx_write_topk(struct onnx_writer *w)
{
    const char *out[2] = {NULL, NULL};
    unsigned dtype;
    put_order(w, onnx_axis_of(w, AT_topk_axis, onnx_type_in(w, 0)->rank), onnx_attr_of(w, AT_topk_k),
              onnx_attr_of(w, AT_topk_largest) != 0, out, &dtype);
    onnx_gives(w, 0, out[0], dtype);
    onnx_gives(w, 1, out[1], KILN_I64);
}

static unsigned put_sorted(struct onnx_writer *w, int axis_at, int descending_at, const char **out)
{
    const struct type *x = onnx_type_in(w, 0);
    unsigned dtype;
    int axis = onnx_axis_of(w, axis_at, x->rank);
    put_order(w, axis, x->dims[axis], onnx_attr_of(w, descending_at) != 0, out, &dtype);
    return dtype;
}

void onnx_write_sort(struct onnx_writer *w)
{
    const char *out[2] = {NULL, NULL};
    unsigned dtype = put_sorted(w, AT_sort_axis, AT_sort_descending, out);
    onnx_gives(w, 0, out[0], dtype);
    onnx_gives(w, 1, out[1], KILN_I64);
}

void onnx_write_argsort(struct onnx_writer *w)
{
    const char *out[2] = {NULL, NULL};
    put_sorted(w, AT_argsort_axis, AT_argsort_descending, out);
    onnx_gives(w, 0, out[1], KILN_I64);
}
