#version 460
// dx[y, x] = sum of dy over the windows whose first largest element is (y, x): each element gathers, in order,
// without atomics.
#define N_OPERANDS 3
#include "pool.glsl"

void main()
{
    uint n, c;
    int y, x;
    if (!locate(HEIGHT, WIDTH, n, c, y, x)) return;
    VALUE sum = VALUE(0), best;
    ivec2 rows = WINDOWS_Y(y), columns = WINDOWS_X(x);
    for (int oy = rows.x; oy <= rows.y; oy++)
        for (int ox = columns.x; ox <= columns.y; ox++)
            if (window_max(n, c, oy, ox, best) == ivec2(y, x)) sum += LOAD(1, offset4(1, n, c, oy, ox));
    STORE(2, offset4(2, n, c, y, x), sum);
}
