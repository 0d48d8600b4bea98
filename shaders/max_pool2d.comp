#version 460
// y = the largest element of each window of x.
#define N_OPERANDS 2
#include "pool.glsl"

void main()
{
    uint n, c;
    int oy, ox;
    if (!locate(OUT_HEIGHT, OUT_WIDTH, n, c, oy, ox)) return;
    VALUE best;
    ivec2 at = window_max(n, c, oy, ox, best);
    STORE(1, offset4(1, n, c, oy, ox), at.x < 0 ? LOWEST : best);
}
