#version 460
// y[l, e] = sum over s of the softmax over s of (scale * sum over d of q[l, d] * k[s, d], masked) * v[s, e]; of each
// l the exponent of its largest weight, to base 2, and the sum of weights relative to it. See attention.glsl.
#define N_OPERANDS 6
#include "attention_sides.glsl"

struct result { matrix y, stats; uint first; };   // first: the column of y that is this workgroup's first
#define q_side matrix
#define k_side matrix
#define x_side matrix
struct v_side { matrix v; uint first; };
#define c_side result

#define q_value(s, m, k) element(0, s, m, k)
#define k_value(s, n, k) element(1, s, n, k)
#define v_value(s, n, d) element(2, s.v, n, s.first + (d))
#define x_value(s, m, n, score) exponent(s, m, n, score)
#define e_value(x, peak) exp2((x) - (peak))
#define Q_ALONG true
#define K_ALONG true
#define Q_FOURS FOURS(0)
#define K_FOURS FOURS(1)
#define V_FOURS FOURS(2)
#define Q_FOUR(s, m, k) element4(0, s, m, k)
#define K_FOUR(s, n, k) element4(1, s, n, k)
#define V_FOUR(s, n, d) element4(2, s.v, n, s.first + (d))
#define V_INSIDE(a, d) ((d) + 4 <= (a).d_size)
#define STORE_STATS(c, m, peak, total)                                          \
    if (c.first == 0) {                                                         \
        store_as_f32(OPERAND_5, find(5, c.stats, m, 0), 0l, peak);              \
        store_as_f32(OPERAND_5, find(5, c.stats, m, 1), 0l, total);             \
    }
#define STORE_FOUR(c, m, d, d_size, four) store_four(4, c.y, m, c.first + (d), c.first + (d_size), four)
// The last key that any query of the tile sees, and one more.
#define N_END(a, m0) min((a).n_size, (m0) + TILE + uint(AHEAD))
#include "attention.glsl"

void main()
{
    uint batch, row, column;
    if (!locate(TILE, QUERIES, DEPTH_V, batch, row, column)) return;
    attention a = attention(QUERIES, KEYS, DEPTH_QK, DEPTH_V - column);
    attend(matrix_of(0, batch), matrix_of(1, batch), matrix_of(3, batch), v_side(matrix_of(2, batch), column),
           result(matrix_of(4, batch), matrix_of(5, batch), column), a, row);
}
