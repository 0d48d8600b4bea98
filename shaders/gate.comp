#version 460
// A step of a gate, and what comes of it for the launches behind it: see src/device/gate.h. One workgroup. Operands:
// the value, the state of the gate around, the launches (how many there are, then for each its workgroups in x, y, z),
// the state, the workgroups that the launches get, how many launches were left out so far, the fault. Scalars: the
// kind of step and INSIDE, the number, the limit.
//
// The host fills in the launches after it has recorded this one, before either is submitted.
#define N_OPERANDS 7
#define N_SCALARS 3
#define USES_I64
#include "args.glsl"
layout(local_size_x = 64) in;

// As in enum gate_step.
const int WHILE = 0, COUNT = 1, BRANCH = 2, TRUTH = 3, ODD = 4;
const int INSIDE = 8; // there is a gate around
const uint SLOTS = 64; // as in src/vulkan/gate.c

shared bool is_open;

void fail(const int64_t value)
{
    store_i64(6, 1l, value);
    store_i64(6, 0l, 1l);
}

void step()
{
    int kind = int(arg_scalar_i64(0)), what = kind & 7;
    bool around = (kind & INSIDE) == 0 || load_i64(1, 0l) != 0l, open = load_i64(3, 0l) != 0l;
    int64_t number = arg_scalar_i64(1), limit = arg_scalar_i64(2), trips = load_i64(3, 1l), value = 0l;
    if (what <= TRUTH) value = load_i64(0, 0l);
    if (what == WHILE) {
        open = (number == 0l ? around : open) && value != 0l;
        trips = number == 0l ? 0l : trips;
        bool beyond = limit > 0l && number == limit;
        if (open && beyond) fail(value);
        open = open && !beyond;
        trips += open ? 1l : 0l;
    } else if (what == COUNT) {
        if (around && (value < 0l || (limit > 0l && value > limit))) fail(value);
        trips = around ? max(value, 0l) : 0l;
        if (limit > 0l) trips = min(trips, limit);
        open = number < trips;
    } else if (what == BRANCH || what == TRUTH) {
        if (what == TRUTH) value = value == 0l ? 1l : 0l;
        open = around && value == number;
        if (around && (value < 0l || value >= limit)) fail(value);
    } else if (what == ODD) {
        open = (trips & 1l) != 0l;
    }
    store_i64(3, 0l, open ? 1l : 0l);
    store_i64(3, 1l, trips);
    store_i64(3, 2l, value);
    is_open = open;
    uint64_t tally = arg_address(5);
    if (!open) Memory32(tally).v += Memory32(arg_address(2)).v;
}

void main()
{
    uint lane = gl_LocalInvocationIndex;
    if (lane == 0) step();
    barrier();
    for (uint i = lane; i < 3 * SLOTS; i += gl_WorkGroupSize.x) {
        uint groups = Memory32(arg_address(2) + uint64_t(4 + 4 * i)).v;
        Memory32(arg_address(4) + uint64_t(4 * i)).v = is_open ? groups : 0u;
    }
}
