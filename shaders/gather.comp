#version 460
// out[p] = x[base(p) + index(p) * stride]: one invocation a point. Operands: x (over the space, without its indexed
// axis), index, out; scalars: the axis's size and x's stride along it. A negative index counts from the end; one out
// of range gives 0.
#define N_OPERANDS 3
#define N_SCALARS 2
#define USES_I64
#ifdef KILN_CLASS_I32
#define USES_I32
#define ELEMENT int
#define LOAD(at) load_i32(0, at)
#define STORE(at, v) store_i32(2, at, v)
#else
#define ELEMENT int64_t
#define LOAD(at) load_i64(0, at)
#define STORE(at, v) store_i64(2, at, v)
#endif
#include "args.glsl"
layout(local_size_x = 256) in;
#include "space.glsl"

void main()
{
    uint p = point_number();
    if (p >= space_size(0, RANK)) return;
    int64_t at[N_OPERANDS], size = arg_scalar_i64(0);
    locate(p, RANK, at);
    int64_t index = load_i64(1, at[1]);
    index += size & (index >> 63);
    ELEMENT v = ELEMENT(0);
    if (index >= 0l && index < size) v = LOAD(at[0] + index * arg_scalar_i64(1));
    STORE(at[2], v);
}
