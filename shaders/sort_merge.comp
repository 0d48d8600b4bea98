#version 460
// Merges neighbouring sorted runs of each row: an invocation an element. Operands: keys and places before, keys and
// places after, all [rows, n] without gaps; scalars: the length of a run, and how many elements at the front of a run
// count.
//
// An element's place in the merged run is its place in its own plus the number of elements of the other run that come
// before it, found by bisection; of equal keys those of the left run come first.
#define N_OPERANDS 4
#define N_SCALARS 2
#if defined(KILN_CLASS_I32)
#define USES_I32
#define KEY int
#define KEY_B 4ul
#else
#define USES_I64
#define KEY int64_t
#define KEY_B 8ul
#endif
#include "args.glsl"
layout(local_size_x = 256) in;
#include "space.glsl"

KEY key_at(uint64_t i)
{
#if defined(KILN_CLASS_I32)
    return int(Memory32(arg_address(0) + i * KEY_B).v);
#else
    return int64_t(fetch_wide(arg_address(0) + i * KEY_B));
#endif
}

void main()
{
    uint p = point_number(), length = arg_size(1);
    if (p >= arg_size(0) * length) return;
    uint run = uint(arg_scalar_i64(0)), keep = uint(arg_scalar_i64(1));
    uint row = p / length, i = p - row * length, own = i / run * run, at = i - own;
    if (at >= keep) return;
    bool left = (own / run & 1u) == 0;
    uint other = left ? own + run : own - run;
    uint count = other < length ? min(min(run, length - other), keep) : 0;
    uint64_t base = uint64_t(row) * uint64_t(length);
    KEY key = key_at(base + i);
    uint low = 0, high = count;
    while (low < high) {
        uint middle = (low + high) / 2;
        KEY k = key_at(base + other + middle);
        if (k < key || (k == key && !left)) low = middle + 1;
        else high = middle;
    }
    at += low;
    if (at >= keep) return;
    uint64_t to = base + uint64_t(left ? own : other) + uint64_t(at);
#if defined(KILN_CLASS_I32)
    Memory32(arg_address(2) + to * KEY_B).v = uint(key);
#else
    put_wide(arg_address(2) + to * KEY_B, uint64_t(key));
#endif
    Memory32(arg_address(3) + to * 4ul).v = Memory32(arg_address(1) + (base + i) * 4ul).v;
}
