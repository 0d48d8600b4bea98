#version 460
// Writes src into out by index; see src/ops/scatter.c. The space is src's, dimension K is the axis; what the others
// count is a column. Operands: index, aux, src, out (without its indexed axis, as aux where it is indexed); scalars:
// the axis's size, out's and aux's stride along it.
//
//   SET, JOIN  an invocation a column: its places in order
//   MARK       aux[index] = the largest place along the axis that has this index: the winner
//   WRITE      out[index] = src where the place is the winner
//   RUNS       index is sorted, aux the places its elements came from: the first of a run of equal ones joins all of
//              them, in order
//
// Elements are joined by addition (VARIANT_2: 0), multiplication (1), as the larger (2) or the smaller (3); NaN wins.
#define N_OPERANDS 4
#define N_SCALARS 3
#define USES_I64
#define USES_I32
#if defined(KILN_CLASS_F32)
#define USES_F32
#define ELEMENT float
#define LOAD(op, at) load_f32(op, at)
#define STORE(at, v) store_f32(3, at, v)
#define IS_NAN(x) ((floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u)
#elif defined(KILN_CLASS_F64)
#define USES_F64
#define ELEMENT double
#define LOAD(op, at) load_f64(op, at)
#define STORE(at, v) store_f64(3, at, v)
#define IS_NAN(x) ((doubleBitsToUint64(x) & 0x7ffffffffffffffful) > 0x7ff0000000000000ul)
#elif defined(KILN_CLASS_I32)
#define ELEMENT int
#define LOAD(op, at) load_i32(op, at)
#define STORE(at, v) store_i32(3, at, v)
#define IS_NAN(x) false
#else
#define ELEMENT int64_t
#define LOAD(op, at) load_i64(op, at)
#define STORE(at, v) store_i64(3, at, v)
#define IS_NAN(x) false
#endif
#include "args.glsl"
layout(local_size_x = 256) in;
#include "space.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Winner { int place; };

const uint SET = 0, JOIN = 1, MARK = 2, WRITE = 3, RUNS = 4;
const uint MODE = VARIANT_0, K = VARIANT_1;

uint places, place;          // of the axis; this invocation's

// The index at offset `at`, and whether it names an element.
bool read_index(int64_t at, out int64_t index)
{
    int64_t size = arg_scalar_i64(0);
    index = load_i64(0, at);
    if (MODE != RUNS) index += size & (index >> 63);
    return index >= 0l && index < size;
}

ELEMENT join(ELEMENT a, ELEMENT b)
{
    precise ELEMENT r;
    if (VARIANT_2 == 0) r = a + b;
    else if (VARIANT_2 == 1) r = a * b;
    else r = IS_NAN(a) || (VARIANT_2 == 2 ? a >= b : a <= b) ? a : b;
    return r;
}

int64_t step(uint op) { return int64_t(arg_stride(op, K)); }

void walk_column(int64_t at[N_OPERANDS])
{
    for (uint k = 0; k < places; k++) {
        int64_t index;
        if (read_index(at[0], index)) {
            int64_t to = at[3] + index * arg_scalar_i64(1);
            ELEMENT v = LOAD(2, at[2]);
            if (MODE == JOIN) v = join(LOAD(3, to), v);
            STORE(to, v);
        }
        at[0] += step(0);
        at[2] += step(2);
    }
}

void join_run(int64_t at[N_OPERANDS])
{
    int64_t index, other;
    if (!read_index(at[0], index)) return;
    if (place > 0 && read_index(at[0] - step(0), other) && other == index) return;
    int64_t to = at[3] + index * arg_scalar_i64(1), first = at[2] - int64_t(place) * step(2);
    ELEMENT sum = LOAD(3, to);
    for (uint k = place; k < places; k++) {
        if (load_i64(0, at[0]) != index) break;
        sum = join(sum, LOAD(2, first + int64_t(load_i32(1, at[1])) * step(2)));
        at[0] += step(0);
        at[1] += step(1);
    }
    STORE(to, sum);
}

void main()
{
    uint p = point_number();
    int64_t at[N_OPERANDS];
    places = arg_size(K);
    if (MODE == SET || MODE == JOIN) {
        if (p >= space_size(0, RANK) / places) return;
        locate(p, K, at);
        walk_column(at);
        return;
    }
    if (p >= space_size(0, RANK)) return;
    locate(p, RANK, at);
    place = p / space_size(K + 1, RANK) % places;
    if (MODE == RUNS) {
        join_run(at);
        return;
    }
    int64_t index;
    if (!read_index(at[0], index)) return;
    Winner winner = Winner(arg_address(1) + uint64_t((at[1] + index * arg_scalar_i64(2)) * 4l));
    if (MODE == MARK) atomicMax(winner.place, int(place));
    else if (winner.place == int(place)) STORE(at[3] + index * arg_scalar_i64(1), LOAD(2, at[2]));
}
