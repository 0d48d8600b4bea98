#version 460
// y = the mean of each window of x.
#define N_OPERANDS 2
#include "pool.glsl"

void main()
{
    uint n, c;
    int oy, ox;
    if (!locate(OUT_HEIGHT, OUT_WIDTH, n, c, oy, ox)) return;
    VALUE sum = VALUE(0);
    for (int ky = 0; ky < KERNEL_H; ky++)
        for (int kx = 0; kx < KERNEL_W; kx++) {
            int y = row_of(oy, ky), x = column_of(ox, kx);
            if (inside(y, x)) sum += LOAD(0, offset4(0, n, c, y, x));
        }
    STORE(1, offset4(1, n, c, oy, ox), sum / VALUE(divisor(oy, ox)));
}
