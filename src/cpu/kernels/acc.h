// Accumulators whose reduction and class are known at run time only: what the row driver needs between blocks.
#pragma once
#include "cpu/kernels/fold.h"
#include "scalar/reduce.h"

static inline bool cpu_reduce_is_arg(const struct cpu_reduce *r)
{
    return reduce_info[r->reduce].finds_place;
}

// Held in f64 although the values are f32.
static inline bool cpu_reduce_is_wide(const struct cpu_reduce *r)
{
    return reduce_gathers_wide(r->reduce, r->cls);
}

static inline void cpu_acc_start(struct cpu_acc *a, const struct cpu_reduce *r)
{
    a->v = reduce_identity(r->reduce, cpu_reduce_is_wide(r) ? CLASS_F64 : r->cls);
    a->index = -1;
}

// Joins a later accumulator into an earlier one.
static inline void cpu_acc_join(struct cpu_acc *a, const struct cpu_acc *b, const struct cpu_reduce *r)
{
#define BY_CLASS(verb)                                         \
    switch (r->cls) {                                          \
    case CLASS_F32: cpu_fold_##verb##_f32(a, b->v.f32); break; \
    case CLASS_F64: cpu_fold_##verb##_f64(a, b->v.f64); break; \
    case CLASS_I32: cpu_fold_##verb##_i32(a, b->v.i32); break; \
    case CLASS_I64: cpu_fold_##verb##_i64(a, b->v.i64); break; \
    default: cpu_fold_##verb##_b(a, b->v.b); break;            \
    }
#define WINS(verb)                                                                    \
    (r->cls == CLASS_F32   ? cpu_fold_##verb##_f32(a, b->v.f32 != b->v.f32, b->v.f32) \
     : r->cls == CLASS_F64 ? cpu_fold_##verb##_f64(a, b->v.f64 != b->v.f64, b->v.f64) \
     : r->cls == CLASS_I32 ? cpu_fold_##verb##_i32(a, 0, b->v.i32)                    \
     : r->cls == CLASS_I64 ? cpu_fold_##verb##_i64(a, 0, b->v.i64)                    \
                           : cpu_fold_##verb##_b(a, 0, b->v.b))
    switch (r->reduce) {
    case REDUCE_SUM:
        if (r->cls == CLASS_F32 || r->cls == CLASS_F64)
            a->v.f64 += b->v.f64;
        else if (r->cls == CLASS_I32)
            cpu_fold_sum_i32(a, b->v.i32);
        else
            cpu_fold_sum_i64(a, b->v.i64);
        break;
    case REDUCE_PROD:
        if (r->cls == CLASS_F32 || r->cls == CLASS_F64)
            a->v.f64 *= b->v.f64;
        else if (r->cls == CLASS_I32)
            cpu_fold_prod_i32(a, b->v.i32);
        else
            cpu_fold_prod_i64(a, b->v.i64);
        break;
    case REDUCE_MAX: BY_CLASS(max); break;
    case REDUCE_MIN: BY_CLASS(min); break;
    case REDUCE_ANY: a->v.b |= b->v.b; break;
    case REDUCE_ALL: a->v.b &= b->v.b; break;
    case REDUCE_ARGMAX:
        if (b->index >= 0 && WINS(argmax)) a->index = b->index;
        break;
    default:
        if (b->index >= 0 && WINS(argmin)) a->index = b->index;
        break;
    }
#undef BY_CLASS
#undef WINS
}
