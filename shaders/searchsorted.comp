#version 460
// out[p] = how many elements of a sorted line come before values[p]: one invocation a point. Operands: the lines (over
// the space, without their own axis), values, out; scalars: a line's size and stride. VARIANT_0: equal elements come
// before, too. NaN is above all.
#define N_OPERANDS 3
#define N_SCALARS 2
#define USES_I64
#if defined(KILN_CLASS_F32)
#define USES_F32
#define ELEMENT float
#define LOAD(op, at) load_f32(op, at)
#define IS_NAN(x) ((floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u)
#elif defined(KILN_CLASS_F64)
#define USES_F64
#define ELEMENT double
#define LOAD(op, at) load_f64(op, at)
#define IS_NAN(x) ((doubleBitsToUint64(x) & 0x7ffffffffffffffful) > 0x7ff0000000000000ul)
#elif defined(KILN_CLASS_I32)
#define USES_I32
#define ELEMENT int
#define LOAD(op, at) load_i32(op, at)
#define IS_NAN(x) false
#else
#define ELEMENT int64_t
#define LOAD(op, at) load_i64(op, at)
#define IS_NAN(x) false
#endif
#include "args.glsl"
layout(local_size_x = 256) in;
#include "space.glsl"

bool before(ELEMENT a, ELEMENT v)
{
    if (IS_NAN(v)) return VARIANT_0 != 0 || !IS_NAN(a);
    if (IS_NAN(a)) return false;
    return VARIANT_0 != 0 ? a <= v : a < v;
}

void main()
{
    uint p = point_number();
    if (p >= space_size(0, RANK)) return;
    int64_t at[N_OPERANDS], stride = arg_scalar_i64(1), found = 0l;
    locate(p, RANK, at);
    ELEMENT v = LOAD(1, at[1]);
    for (int64_t left = arg_scalar_i64(0); left > 0l;) {
        int64_t half_way = (left + 1l) / 2l;
        if (before(LOAD(0, at[0] + (found + half_way - 1l) * stride), v)) {
            found += half_way;
            left -= half_way;
        } else {
            left = half_way - 1l;
        }
    }
    store_i64(2, at[2], found);
}
