// Included by move.c once an element size, with T and NAME: every so manyth element. The steps that have a loop of
// their own are read as whole vectors, of which a part is kept.
static void NAME(T *restrict dst, const T *restrict src, int64_t n, int64_t step)
{
    switch (step) {
    case 2:
        for (int64_t i = 0; i < n; i++) dst[i] = src[2 * i];
        break;
    case 3:
        for (int64_t i = 0; i < n; i++) dst[i] = src[3 * i];
        break;
    case 4:
        for (int64_t i = 0; i < n; i++) dst[i] = src[4 * i];
        break;
    case -1:
        for (int64_t i = 0; i < n; i++) dst[i] = src[-i];
        break;
    default:
#pragma GCC unroll 4
        for (int64_t i = 0; i < n; i++) dst[i] = src[i * step];
    }
}
#undef T
#undef NAME
