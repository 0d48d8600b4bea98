#version 460
// Sorts tiles of the rows of x: a workgroup a tile of TILE elements along the last dimension of the space, or as many
// short rows as fit into one, each padded to a power of two. Operands: x; keys and places, both [rows, n] without gaps.
// VARIANT_0: descending.
//
// A value becomes an integer key of the same order, NaN the largest, -0 that of 0. Pairs of a key and its place in
// the row are all different, so the network below, though not stable by itself, gives the one stable order.
#define N_OPERANDS 3
#define N_SCALARS 0
#if defined(KILN_CLASS_F32)
#define USES_F32
#define KEY int
#define LAST 0x7fffffff
#elif defined(KILN_CLASS_F64)
#define USES_F64
#define KEY int64_t
#define LAST 0x7fffffffffffffffl
#elif defined(KILN_CLASS_I32)
#define USES_I32
#define KEY int
#define LAST 0x7fffffff
#else
#define USES_I64
#define KEY int64_t
#define LAST 0x7fffffffffffffffl
#endif
#include "args.glsl"
layout(local_size_x = 256) in;
#include "space.glsl"

const uint SIZE = 256, TILE = 1024;
const bool DOWN = VARIANT_0 != 0;

shared KEY keys[TILE];
shared uint places[TILE];

KEY directed(KEY k) { return DOWN ? ~k : k; }

KEY key_at(int64_t at)
{
#if defined(KILN_CLASS_F32)
    float x = load_f32(0, at);
    int bits = floatBitsToInt(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return LAST;
    if ((bits & 0x7fffffff) == 0) bits = 0;
    return directed(bits ^ ((bits >> 31) & 0x7fffffff));
#elif defined(KILN_CLASS_F64)
    double x = load_f64(0, at);
    int64_t bits = doubleBitsToInt64(x);
    if ((bits & LAST) > 0x7ff0000000000000l) return LAST;
    if ((bits & LAST) == 0l) bits = 0l;
    return directed(bits ^ ((bits >> 63) & LAST));
#elif defined(KILN_CLASS_I32)
    return directed(load_i32(0, at));
#else
    return directed(load_i64(0, at));
#endif
}

// Orders the pairs at a and b, upwards or downwards.
void exchange(uint a, uint b, bool up)
{
    bool after = keys[a] > keys[b] || (keys[a] == keys[b] && places[a] > places[b]);
    if (after != up) return;
    KEY key = keys[a];
    uint place = places[a];
    keys[a] = keys[b];
    places[a] = places[b];
    keys[b] = key;
    places[b] = place;
}

void main()
{
    uint length = arg_size(RANK - 1), rows = space_size(0, RANK - 1), t = gl_LocalInvocationIndex;
    uint size = length < TILE ? 1u << uint(findMSB(length - 1) + 1) : TILE; // of a row in the tile
    uint tiles = (length + TILE - 1) / TILE, first = group_index() % tiles * TILE;
    uint first_row = group_index() / tiles * (TILE / size);
    if (first_row >= rows) return;
    for (uint i = t; i < TILE; i += SIZE) {
        uint row = first_row + i / size, place = first + i % size;
        bool inside = place < length && row < rows;
        keys[i] = LAST;
        if (inside) {
            int64_t at[N_OPERANDS];
            locate(row, RANK - 1, at);
            keys[i] = key_at(at[0] + int64_t(place) * int64_t(arg_stride(0, RANK - 1)));
        }
        places[i] = inside ? place : 0xffffffffu;
    }
    barrier();
    for (uint block = 2; block <= size; block *= 2) {
        for (uint reach = block / 2; reach > 0; reach /= 2) {
            for (uint i = t; i < TILE / 2; i += SIZE) {
                uint a = 2 * i - (i & (reach - 1));
                exchange(a, a + reach, block == size || (a & block) == 0);
            }
            barrier();
        }
    }
    for (uint i = t; i < TILE; i += SIZE) {
        uint row = first_row + i / size, place = first + i % size;
        if (place >= length || row >= rows) continue;
        uint64_t to = uint64_t(row) * uint64_t(length) + uint64_t(place);
#if defined(KILN_CLASS_F32) || defined(KILN_CLASS_I32)
        Memory32(arg_address(1) + to * 4ul).v = uint(keys[i]);
#else
        put_wide(arg_address(1) + to * 8ul, uint64_t(keys[i]));
#endif
        Memory32(arg_address(2) + to * 4ul).v = places[i];
    }
}
