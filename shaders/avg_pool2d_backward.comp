#version 460
// dx[y, x] = sum over the windows that hold (y, x) of dy over the window's divisor.
#define N_OPERANDS 2
#include "pool.glsl"

void main()
{
    uint n, c;
    int y, x;
    if (!locate(HEIGHT, WIDTH, n, c, y, x)) return;
    VALUE sum = VALUE(0);
    ivec2 rows = WINDOWS_Y(y), columns = WINDOWS_X(x);
    for (int oy = rows.x; oy <= rows.y; oy++)
        for (int ox = columns.x; ox <= columns.y; ox++) {
            bool held = holds(y, oy, STRIDE_H, PADDING_H, DILATION_H) && holds(x, ox, STRIDE_W, PADDING_W, DILATION_W);
            if (held) sum += LOAD(0, offset4(0, n, c, oy, ox)) / VALUE(divisor(oy, ox));
        }
    STORE(1, offset4(1, n, c, y, x), sum);
}
