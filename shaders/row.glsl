// The frame of a row kernel. The space is P parallel points, the rows, times R points along each row, the last N_REDUCE
// dimensions. LANES invocations work on one row, and a workgroup on ROWS rows.
//
// Lanes take the row's elements in turn. In the row form (LANES_ADJACENT) neighbouring invocations are lanes of one
// row, which suits rows that are dense in memory; in the column form they belong to neighbouring rows, which suits
// rows that are not. A reduction is summed in blocks of BLOCK elements a lane, which keeps rounding errors short,
// then over the lanes in a fixed order: the bits do not depend on timing or on the subgroup size.
//
// With few and long rows the host runs the kernel in phases, one launch each, with `splits` workgroups to a row:
// phase s computes what each workgroup's part of the row gives to the reductions of stage s and saves it; every later
// phase combines what was saved, again in a fixed order; the phase after the last stage writes the output. PHASE 0
// does all in one launch.
layout(local_size_x_id = 0) in;
layout(constant_id = 4) const bool LANES_ADJACENT = true;
layout(constant_id = 5) const uint LANES = 64;    // a power of two; LANES * ROWS = local size
layout(constant_id = 6) const uint ROWS = 1;
layout(constant_id = 7) const uint PHASE = 0;
// 4: a lane takes four neighbours, one access of each operand; 8, of two bytes each: two fours, side by side.
layout(constant_id = 19) const uint EACH = 1;
const uint BLOCK = 64;
const uint FAN_IN = 16;   // lanes that one invocation sums up

uint lane, row, row_count, row_length, split;
uint first_column, end_column;   // this workgroup's part of the row

uint64_t arg_scratch() { return arg_scalar_bits(N_SCALARS); }
uint arg_splits() { return arg_scalar_word(2 * N_SCALARS + 2); }

void row_begin()
{
    row_count = row_length = 1;
    [[unroll]] for (uint d = 0; d < RANK; d++) {
        if (d < RANK - N_REDUCE) row_count *= arg_size(d);
        else row_length *= arg_size(d);
    }
    uint group = group_index(), t = gl_LocalInvocationIndex;
    split = 0;
    first_column = 0;
    end_column = row_length;
    if (PHASE != 0) {
        uint splits = arg_splits(), part = (row_length / EACH + splits - 1) / splits * EACH;
        split = group % splits;
        group /= splits;
        first_column = min(split * part, row_length);
        end_column = min(first_column + part, row_length);
    }
    lane = LANES_ADJACENT ? t % LANES : t / ROWS;
    row = group * ROWS + (LANES_ADJACENT ? t / LANES : t % ROWS);
    // Invocations past the last row have no elements, but take part in the barriers.
    if (row >= row_count) end_column = first_column;
}

bool row_exists() { return row < row_count; }

// Offsets in each operand of the row's first element; of column c relative to it.
void add_place(inout int64_t at[N_OPERANDS], const uint d, const uint r)
{
    [[unroll]] for (uint i = 0; i < N_OPERANDS; i++) {
        bool fast = EACH != 1 && d + 1 == RANK;
        int stride = fast ? fast_stride(i) : arg_stride(i, d);
        if (NARROW) at[i] = int64_t(uint64_t(uint(at[i]) + r * uint(stride)));
        else at[i] += fast ? int64_t(int(r) * stride) : wide_product(int(r), stride);
    }
}
void locate_row(out int64_t at[N_OPERANDS])
{
#ifdef ROW_INPUTS // are read for all invocations
    uint p = min(row, row_count - 1);
#else
    uint p = row;
#endif
    [[unroll]] for (uint i = 0; i < N_OPERANDS; i++) at[i] = 0l;
    [[unroll]] for (uint left = RANK - N_REDUCE; left > 0; left--) {
        uint d = left - 1, size = arg_size(d), q = d > 0 ? p / size : 0, r = p - q * size;
        add_place(at, d, r);
        p = q;
    }
}
void locate_column(uint c, int64_t row_at[N_OPERANDS], out int64_t at[N_OPERANDS])
{
    [[unroll]] for (uint i = 0; i < N_OPERANDS; i++) at[i] = row_at[i];
    [[unroll]] for (uint left = N_REDUCE; left > 0; left--) {
        uint d = RANK - N_REDUCE + left - 1, size = arg_size(d), q = left > 1 ? c / size : 0, r = c - q * size;
        add_place(at, d, r);
        c = q;
    }
}

// Where invocation data of a lane of this row lies in a shared array.
uint lane_slot(const uint l)
{
    if (LANES_ADJACENT) return gl_LocalInvocationIndex / LANES * LANES + l;
    return l * ROWS + gl_LocalInvocationIndex % ROWS;
}
// Where split s of this row keeps what it gives to reduction k.
uint64_t scratch_slot(const uint k, const uint s)
{
    return arg_scratch() + uint64_t((k * row_count + row) * arg_splits() + s) * 16ul;
}

// How two partial values of a reduction become one.
#ifdef USES_F32
float combine_sum(const float a, const float b) { precise float r = a + b; return r; }
float combine_prod(const float a, const float b) { precise float r = a * b; return r; }
float combine_max(const float a, const float b) { return a > b || is_nan(a) ? a : b; }
float combine_min(const float a, const float b) { return a < b || is_nan(a) ? a : b; }
void scratch_save(const uint64_t address, const float v) { Memory32(address).v = floatBitsToUint(v); }
void scratch_load(const uint64_t address, out float v) { v = uintBitsToFloat(Memory32(address).v); }
#endif
#ifdef USES_F64
double combine_sum(const double a, const double b) { precise double r = a + b; return r; }
double combine_prod(const double a, const double b) { precise double r = a * b; return r; }
double combine_max(const double a, const double b) { return a > b || is_nan(a) ? a : b; }
double combine_min(const double a, const double b) { return a < b || is_nan(a) ? a : b; }
void scratch_save(const uint64_t address, const double v) { Memory64(address).v = unpackDouble2x32(v); }
void scratch_load(const uint64_t address, out double v) { v = packDouble2x32(Memory64(address).v); }
#endif
#ifdef USES_I32
int combine_sum(const int a, const int b) { return a + b; }
int combine_prod(const int a, const int b) { return a * b; }
int combine_max(const int a, const int b) { return max(a, b); }
int combine_min(const int a, const int b) { return min(a, b); }
void scratch_save(const uint64_t address, const int v) { Memory32(address).v = uint(v); }
void scratch_load(const uint64_t address, out int v) { v = int(Memory32(address).v); }
#endif
#ifdef USES_I64
int64_t combine_sum(const int64_t a, const int64_t b) { return a + b; }
int64_t combine_prod(const int64_t a, const int64_t b) { return a * b; }
int64_t combine_max(const int64_t a, const int64_t b) { return scalar_max(a, b); }
int64_t combine_min(const int64_t a, const int64_t b) { return scalar_min(a, b); }
void scratch_save(const uint64_t address, const int64_t v) { Memory64(address).v = unpackUint2x32(uint64_t(v)); }
void scratch_load(const uint64_t address, out int64_t v) { v = int64_t(packUint2x32(Memory64(address).v)); }
#endif
#ifdef USES_BOOL
bool combine_any(const bool a, const bool b) { return a || b; }
bool combine_all(const bool a, const bool b) { return a && b; }
void scratch_save(const uint64_t address, const bool v) { Memory32(address).v = uint(v); }
void scratch_load(const uint64_t address, out bool v) { v = Memory32(address).v != 0; }
#endif

// An extremum and where it was found: the first among equals, the first NaN before all else.
#define NOWHERE 0xffffffffu
#ifdef USES_F32
bool above(const float a, const float b) { return is_nan(a) ? !is_nan(b) : a > b; }
bool below(const float a, const float b) { return is_nan(a) ? !is_nan(b) : a < b; }
#define VALUE float
#define FOUND found_f32
#include "found.glsl"
#endif
#ifdef USES_F64
bool above(const double a, const double b) { return is_nan(a) ? !is_nan(b) : a > b; }
bool below(const double a, const double b) { return is_nan(a) ? !is_nan(b) : a < b; }
#define VALUE double
#define FOUND found_f64
#include "found.glsl"
#endif
#ifdef USES_I32
bool above(const int a, const int b) { return a > b; }
bool below(const int a, const int b) { return a < b; }
#define VALUE int
#define FOUND found_i32
#include "found.glsl"
#endif
#ifdef USES_I64
bool above(const int64_t a, const int64_t b) { return a > b; }
bool below(const int64_t a, const int64_t b) { return a < b; }
#define VALUE int64_t
#define FOUND found_i64
#include "found.glsl"
#endif
