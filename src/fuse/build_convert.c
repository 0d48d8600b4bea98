// A value between dtypes: as storing it and loading it again would leave it, wrapped, and rounded if asked.
#include "fuse/build.h"

int build_convert(struct builder *b, int node, enum scalar_class to)
{
    static const enum scalar_prim prim[CLASS_COUNT] = {[CLASS_F32] = PRIM_to_f32,
                                                       [CLASS_F64] = PRIM_to_f64,
                                                       [CLASS_I32] = PRIM_to_i32,
                                                       [CLASS_I64] = PRIM_to_i64,
                                                       [CLASS_BOOL] = PRIM_to_bool};
    if (node < 0 || dag_class(&b->dag, node) == to) return node;
    return dag_prim(&b->dag, prim[to], node, 0, 0);
}

// A float into a small integer saturates at the integer's range.
static int saturate(struct builder *b, int node, int32_t lo, int32_t hi)
{
    struct dag_builder *d = &b->dag;
    int low = dag_const(d, CLASS_I32, (union scalar_value){.i32 = lo});
    int high = dag_const(d, CLASS_I32, (union scalar_value){.i32 = hi});
    return dag_prim(d, PRIM_min, dag_prim(d, PRIM_max, node, low, 0), high, 0);
}

// A value as it is stored: in the dtype's class.
int build_to_storage(struct builder *b, int node, unsigned dtype)
{
    bool is_float = node >= 0 && (dag_class(&b->dag, node) == CLASS_F32 || dag_class(&b->dag, node) == CLASS_F64);
    node = build_convert(b, node, dtype_class(dtype));
    if (node < 0 || !is_float) return node;
    bool small = dtype_info[dtype].form == FORM_INTEGER && dtype_info[dtype].size_B < 4;
    return small ? saturate(b, node, dtype_lowest(dtype), dtype_highest(dtype)) : node;
}

static int shifted(struct builder *b, int node, int32_t bits)
{
    int count = dag_const(&b->dag, CLASS_I32, (union scalar_value){.i32 = bits});
    return dag_prim(&b->dag, PRIM_shr, dag_prim(&b->dag, PRIM_shl, node, count, 0), count, 0);
}

// What a store and a load in between would make of it.
int build_through_storage(struct builder *b, int node, unsigned dtype)
{
    const struct dtype_info *d = &dtype_info[dtype];
    if (d->form == FORM_INTEGER && d->size_B < 4) {
        if (d->is_signed) return shifted(b, node, 32 - 8 * d->size_B);
        union scalar_value mask = {.i32 = dtype_highest(dtype)};
        return dag_prim(&b->dag, PRIM_and, node, dag_const(&b->dag, CLASS_I32, mask), 0);
    }
    if (!dtype_is_half_float(dtype) || !b->set->round_casts) return node;
    const struct scalar_dag *rounding = scalar_lib_dag(d->form == FORM_BINARY16 ? LIB_as_f16 : LIB_as_bf16, CLASS_F32);
    return rounding ? dag_inline(&b->dag, rounding, &node) : -1;
}

// The bits of a value of one dtype read as another of the same size: what moves bits meets what computes.
int build_as_dtype(struct builder *b, int node, unsigned from, unsigned to)
{
    enum scalar_class c = dtype_class(to);
    if (from == to || node < 0) return node;
    if ((from == KILN_F32 && to == KILN_I32) || (from == KILN_F64 && to == KILN_I64))
        return dag_prim(&b->dag, PRIM_bits, node, 0, 0);
    if ((from == KILN_I32 && to == KILN_F32) || (from == KILN_I64 && to == KILN_F64))
        return dag_prim(&b->dag, PRIM_from_bits, node, 0, 0);
    if ((from == KILN_BOOL || from == KILN_U8 || from == KILN_I8) &&
        (to == KILN_U8 || to == KILN_I8 || to == KILN_BOOL))
        return build_through_storage(b, build_convert(b, node, c), to);
    b->why = "the bits of a 16-bit float are moved";
    return -1;
}
