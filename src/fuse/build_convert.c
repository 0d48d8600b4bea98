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

static int integer(struct builder *b, enum scalar_class cls, int64_t v)
{
    union scalar_value value = {.bits = 0};
    if (cls == CLASS_I64)
        value.i64 = v;
    else
        value.i32 = (int32_t)v;
    return dag_const(&b->dag, cls, value);
}

// A float into a small integer saturates at the integer's range.
static int saturate(struct builder *b, int node, unsigned dtype)
{
    struct dag_builder *d = &b->dag;
    int low = integer(b, dtype_class(dtype), dtype_lowest(dtype));
    int high = integer(b, dtype_class(dtype), dtype_highest(dtype));
    return dag_prim(d, PRIM_min, dag_prim(d, PRIM_max, node, low, 0), high, 0);
}

// u64 is computed in the bits of i64. Above 2^63 it is halved first; its last bit then stands for all that rounding
// sees no more.
static int float_of_u64(struct builder *b, int x, enum scalar_class to)
{
    struct dag_builder *d = &b->dag;
    int one = integer(b, CLASS_I64, 1), last = dag_prim(d, PRIM_and, x, one, 0);
    int half = build_convert(b, dag_prim(d, PRIM_or, dag_prim(d, PRIM_shru, x, one, 0), last, 0), to);
    int above = dag_prim(d, PRIM_lt, x, integer(b, CLASS_I64, 0), 0);
    return dag_prim(d, PRIM_select, above, dag_prim(d, PRIM_add, half, half, 0), build_convert(b, x, to));
}

static int u64_of_float(struct builder *b, int x)
{
    struct dag_builder *d = &b->dag;
    union scalar_value middle = {.bits = 0};
    if (dag_class(d, x) == CLASS_F32)
        middle.f32 = 0x1p63f;
    else
        middle.f64 = 0x1p63;
    int bound = dag_const(d, dag_class(d, x), middle);
    int rest = build_convert(b, dag_prim(d, PRIM_sub, x, bound, 0), CLASS_I64);
    int high = dag_prim(d, PRIM_xor, rest, integer(b, CLASS_I64, INT64_MIN), 0);
    int low = dag_prim(d, PRIM_max, build_convert(b, x, CLASS_I64), integer(b, CLASS_I64, 0), 0);
    return dag_prim(d, PRIM_select, dag_prim(d, PRIM_ge, x, bound, 0), high, low);
}

int build_loaded(struct builder *b, int node, unsigned dtype, enum scalar_class to)
{
    bool rounds = dtype == KILN_U64 && (to == CLASS_F32 || to == CLASS_F64);
    return rounds && node >= 0 ? float_of_u64(b, node, to) : build_convert(b, node, to);
}

// A value as it is stored: in the dtype's class.
int build_to_storage(struct builder *b, int node, unsigned dtype)
{
    bool is_float = node >= 0 && (dag_class(&b->dag, node) == CLASS_F32 || dag_class(&b->dag, node) == CLASS_F64);
    if (is_float && dtype == KILN_U64) return u64_of_float(b, node);
    node = build_convert(b, node, dtype_class(dtype));
    return node >= 0 && is_float && dtype_is_narrow(dtype) ? saturate(b, node, dtype) : node;
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
    if (dtype_is_narrow(dtype)) {
        if (d->is_signed) return shifted(b, node, 32 - 8 * d->size_B);
        return dag_prim(&b->dag, PRIM_and, node, integer(b, dtype_class(dtype), dtype_highest(dtype)), 0);
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
    if (dtype_info[from].kind != KIND_FLOAT && dtype_info[to].kind != KIND_FLOAT)
        return build_through_storage(b, build_convert(b, node, c), to);
    b->why = "the bits of a 16-bit float are moved";
    return -1;
}
