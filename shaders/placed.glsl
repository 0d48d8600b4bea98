// A part moved from or to a place that an operand holds, one invocation a point: see src/ops/slice_at.c. Operands: what
// is read, start, what is written; number PLACED lies at the place. Scalars: the size of its axis, the last place, its
// stride along the axis.
#define N_OPERANDS 3
#define N_SCALARS 3
#define USES_I64
#ifdef KILN_CLASS_I32
#define USES_I32
#define LOAD(at) load_i32(0, at)
#define STORE(at, v) store_i32(2, at, v)
#else
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
    int64_t at[N_OPERANDS];
    locate(p, RANK, at);
    int64_t k = load_i64(1, at[1]);
    k += arg_scalar_i64(0) & (k >> 63);
    at[PLACED] += max(min(k, arg_scalar_i64(1)), 0l) * arg_scalar_i64(2);
    STORE(at[2], LOAD(at[0]));
}
