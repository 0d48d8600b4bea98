// Pooling of one dense plane in one class. In: T, NAME(x) for the functions' names, LOWEST, the value below all others,
// and FLOATS if the class is one of floats.
#ifdef FLOATS
#define IS_NAN(v) ((v) != (v))
#else
#define IS_NAN(v) false
#endif

static inline __attribute__((always_inline)) T NAME(more)(T a, T b)
{
    return ((b > a) | IS_NAN(b)) ? b : a;
}

// y[i] = the largest of x[i * step + k * apart] over k; its numbers are constants where this is inlined.
static inline __attribute__((always_inline)) void NAME(largest)(const T *x, int64_t n, T *y, const int64_t step,
                                                                const int64_t count, const int64_t apart)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        T best = x[i * step];
#pragma GCC unroll 4
        for (int64_t k = 1; k < count; k++) best = NAME(more)(best, x[i * step + k * apart]);
        y[i] = best;
    }
}

static void NAME(max_across)(const struct pool_shape *p, const T *x, T *y)
{
    bool near = p->dw == 1;
    if (near && p->kw == 3 && p->sw == 2)
        NAME(largest)(x, p->ow, y, 2, 3, 1);
    else if (near && p->kw == 3 && p->sw == 1)
        NAME(largest)(x, p->ow, y, 1, 3, 1);
    else if (near && p->kw == 2 && p->sw == 2)
        NAME(largest)(x, p->ow, y, 2, 2, 1);
    else if (p->sw == 1)
        for (int64_t k = 0; k < p->kw; k++)
#pragma omp simd
            for (int64_t i = 0; i < p->ow; i++) y[i] = k ? NAME(more)(y[i], x[i + k * p->dw]) : x[i];
    else if (p->sw == 2)
        for (int64_t k = 0; k < p->kw; k++)
#pragma omp simd
            for (int64_t i = 0; i < p->ow; i++) y[i] = k ? NAME(more)(y[i], x[2 * i + k * p->dw]) : x[2 * i];
    else
        NAME(largest)(x, p->ow, y, p->sw, p->kw, p->dw);
}

// Rows first: the largest of a column of the window, then of the columns, which padding of the lowest value surrounds.
static void NAME(max_forward)(const struct pool_shape *p, const T *x, T *y)
{
    int64_t wide = (p->ow - 1) * p->sw + (p->kw - 1) * p->dw + 1, n = wide - p->pw < p->w ? wide - p->pw : p->w;
    T *row = (T *)(void *)p->row, *inside = row + p->pw;
    for (int64_t i = 0; i < wide; i++) row[i] = LOWEST;
    for (int64_t oy = 0; oy < p->oh; oy++) {
        struct span k = span_inside(oy * p->sh - p->ph, p->dh, p->h, p->kh);
        const T *at = x + (oy * p->sh - p->ph + k.first * p->dh) * p->w;
        int64_t apart = p->dh * p->w, left = k.past - k.first;
        if (left == 0)
            for (int64_t i = 0; i < n; i++) inside[i] = LOWEST;
        else if (left == 3)
            NAME(largest)(at, n, inside, 1, 3, apart);
        else if (left == 2)
            NAME(largest)(at, n, inside, 1, 2, apart);
        else
            for (int64_t r = 0; r < left; r++, at += apart)
#pragma omp simd
                for (int64_t i = 0; i < n; i++) inside[i] = r ? NAME(more)(inside[i], at[i]) : at[i];
        NAME(max_across)(p, row, y + oy * p->ow);
    }
}

// Columns `sw` apart side by side: phase f of a row holds those from f on.
static void NAME(part)(const struct pool_shape *p, const T *x, T *to)
{
    int64_t n = pool_pitch(p);
    for (int64_t r = 0; r < p->h; r++, x += p->w, to += p->sw * n)
        if (p->sw == 2)
#pragma omp simd
            for (int64_t i = 0; i < p->w / 2; i++) to[i] = x[2 * i], to[n + i] = x[2 * i + 1];
        else
            for (int64_t i = 0; i < p->w; i++) to[i % p->sw * n + i / p->sw] = x[i];
    if (p->sw != 2 || p->w % 2 == 0) return;
    for (int64_t r = 0; r < p->h; r++) to[(r - p->h) * 2 * n + n - 1] = x[(r - p->h + 1) * p->w - 1];
}

static void NAME(join)(const struct pool_shape *p, const T *x, T *to)
{
    int64_t n = pool_pitch(p);
    for (int64_t r = 0; r < p->h; r++, to += p->w, x += p->sw * n) {
        if (p->sw == 2) {
#pragma omp simd
            for (int64_t i = 0; i < p->w / 2; i++) to[2 * i] = x[i], to[2 * i + 1] = x[n + i];
            if (p->w % 2) to[p->w - 1] = x[n - 1];
        } else {
            for (int64_t i = 0; i < p->w; i++) to[i] = x[i % p->sw * n + i / p->sw];
        }
    }
}

// The gradient that no tap has taken goes to the first element as large as the window's largest.
static inline void NAME(take_row)(const T *x, const T *most, T *left, T *dx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        bool hit = (x[i] == most[i]) | IS_NAN(x[i]);
        dx[i] += hit ? left[i] : (T)0;
        left[i] = hit ? (T)0 : left[i];
    }
}

// Tap by tap, all windows of a row at once: rows of x and dx lie in phases, so that what a tap meets is neighbours.
static void NAME(max_backward)(const struct pool_shape *p, const T *x, const T *dy, T *dx)
{
    int64_t pitch = p->sw * pool_pitch(p), windows = p->oh * p->ow;
    T *most = (T *)(void *)p->planes, *left = most + windows, *parts = left + windows, *sums = parts + p->h * pitch;
    NAME(max_forward)(p, x, most);
    memcpy(left, dy, (size_t)windows * sizeof(T));
    bool apart = p->sw > 1;
    if (apart) NAME(part)(p, x, parts);
    const T *from = apart ? parts : x;
    T *to = apart ? sums : dx;
    memset(to, 0, (size_t)(p->h * pitch) * sizeof(T));
    for (int64_t ky = 0; ky < p->kh; ky++)
        for (int64_t kx = 0; kx < p->kw; kx++) {
            struct tap t = tap_of(p, ky, kx);
            int64_t y = t.at / p->w, column = t.at % p->w;
            int64_t at = y * pitch + column % p->sw * pool_pitch(p) + column / p->sw;
            for (int64_t oy = t.y.first; oy < t.y.past; oy++, at += p->sh * pitch) {
                int64_t o = oy * p->ow + t.x.first;
                NAME(take_row)(from + at, most + o, left + o, to + at, t.x.past - t.x.first);
            }
        }
    if (apart) NAME(join)(p, sums, dx);
}

static bool NAME(has_nan)(const T *x, int64_t n)
{
    T nans = 0;
#pragma omp simd reduction(+ : nans)
    for (int64_t i = 0; i < n; i++) nans += IS_NAN(x[i]) ? (T)1 : (T)0;
    return nans > 0;
}

// Windows of 2 x 2 side by side in a plane without NaN, the common case: four reads, no bounds, no branches.
static void NAME(max_forward_2x2)(const struct pool_shape *p, const T *x, T *y)
{
    int64_t ow = p->ow;
    for (int64_t oy = 0; oy < p->oh; oy++) {
        const T *a = x + 2 * oy * p->w, *b = a + p->w;
        T *out = y + oy * ow;
#pragma omp simd
        for (int64_t ox = 0; ox < ow; ox++) {
            T v0 = a[2 * ox], v1 = a[2 * ox + 1], v2 = b[2 * ox], v3 = b[2 * ox + 1];
            T upper = v1 > v0 ? v1 : v0, lower = v3 > v2 ? v3 : v2;
            out[ox] = lower > upper ? lower : upper;
        }
    }
}

static void NAME(max_backward_2x2)(const struct pool_shape *p, const T *x, const T *dy, T *dx)
{
    int64_t ow = p->ow;
    if (p->oh * 2 != p->h || ow * 2 != p->w) memset(dx, 0, (size_t)(p->h * p->w) * sizeof(T));
    for (int64_t oy = 0; oy < p->oh; oy++) {
        const T *a = x + 2 * oy * p->w, *b = a + p->w, *g = dy + oy * ow;
        T *da = dx + 2 * oy * p->w, *db = da + p->w;
#pragma omp simd
        for (int64_t ox = 0; ox < ow; ox++) {
            T v0 = a[2 * ox], v1 = a[2 * ox + 1], v2 = b[2 * ox], v3 = b[2 * ox + 1], left = g[ox];
            T upper = v1 > v0 ? v1 : v0, lower = v3 > v2 ? v3 : v2;
            T most = lower > upper ? lower : upper;
            T d0 = v0 == most ? left : (T)0;
            left = v0 == most ? (T)0 : left;
            T d1 = v1 == most ? left : (T)0;
            left = v1 == most ? (T)0 : left;
            T d2 = v2 == most ? left : (T)0;
            left = v2 == most ? (T)0 : left;
            da[2 * ox] = d0;
            da[2 * ox + 1] = d1;
            db[2 * ox] = d2;
            db[2 * ox + 1] = left;
        }
    }
}

#ifdef FLOATS
// How many elements of a window count for its mean.
static T NAME(divisor)(const struct pool_shape *p, int64_t oy, int64_t ox)
{
    int64_t n = 0, limit_h = p->exclude ? p->h : p->h + p->ph, limit_w = p->exclude ? p->w : p->w + p->pw;
    int64_t low_h = p->exclude ? 0 : -p->ph, low_w = p->exclude ? 0 : -p->pw, rows = 0;
    for (int64_t ky = 0; ky < p->kh; ky++) {
        int64_t iy = oy * p->sh - p->ph + ky * p->dh;
        rows += iy >= low_h && iy < limit_h;
    }
    for (int64_t kx = 0; kx < p->kw; kx++) {
        int64_t ix = ox * p->sw - p->pw + kx * p->dw;
        n += ix >= low_w && ix < limit_w;
    }
    return (T)(n * rows);
}

static void NAME(add_row)(const T *x, int64_t step, int64_t n, T *y)
{
    if (step == 1)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] += x[i];
    else
        for (int64_t i = 0; i < n; i++) y[i] += x[i * step];
}

static void NAME(divide_row)(const struct pool_shape *p, int64_t oy, struct span whole, T *y)
{
    T all = whole.first < whole.past ? NAME(divisor)(p, oy, whole.first) : 1;
    for (int64_t ox = 0; ox < whole.first; ox++) y[ox] /= NAME(divisor)(p, oy, ox);
#pragma omp simd
    for (int64_t ox = whole.first; ox < whole.past; ox++) y[ox] /= all;
    for (int64_t ox = whole.past; ox < p->ow; ox++) y[ox] /= NAME(divisor)(p, oy, ox);
}

static void NAME(avg_forward)(const struct pool_shape *p, const T *x, T *y)
{
    memset(y, 0, (size_t)(p->oh * p->ow) * sizeof(T));
    for (int64_t ky = 0; ky < p->kh; ky++)
        for (int64_t kx = 0; kx < p->kw; kx++) {
            struct tap t = tap_of(p, ky, kx);
            for (int64_t oy = t.y.first, at = t.at; oy < t.y.past; oy++, at += p->sh * p->w)
                NAME(add_row)(x + at, p->sw, t.x.past - t.x.first, y + oy * p->ow + t.x.first);
        }
    struct span whole = whole_windows(p);
    for (int64_t oy = 0; oy < p->oh; oy++) NAME(divide_row)(p, oy, whole, y + oy * p->ow);
}

static void NAME(avg_backward)(const struct pool_shape *p, const T *dy, T *dx)
{
    memset(dx, 0, (size_t)(p->h * p->w) * sizeof(T));
    for (int64_t oy = 0; oy < p->oh; oy++)
        for (int64_t ox = 0; ox < p->ow; ox++) {
            T g = dy[oy * p->ow + ox] / NAME(divisor)(p, oy, ox);
            for (int64_t ky = 0; ky < p->kh; ky++) {
                int64_t iy = oy * p->sh - p->ph + ky * p->dh;
                if (iy < 0 || iy >= p->h) continue;
                for (int64_t kx = 0; kx < p->kw; kx++) {
                    int64_t ix = ox * p->sw - p->pw + kx * p->dw;
                    if (ix >= 0 && ix < p->w) dx[iy * p->w + ix] += g;
                }
            }
        }
}
#endif

static void NAME(plane)(const struct pool_shape *p, enum pool_kind kind, const void *a, const void *b, void *out)
{
    bool two = p->kh == 2 && p->kw == 2 && p->sh == 2 && p->sw == 2 && p->ph == 0 && p->pw == 0 && p->dh == 1 &&
               p->dw == 1 && p->oh * 2 <= p->h && p->ow * 2 <= p->w;
    if (two && (kind == POOL_MAX || kind == POOL_MAX_BACKWARD)) two = !NAME(has_nan)(a, p->h * p->w);
    switch (kind) {
    case POOL_MAX: two ? NAME(max_forward_2x2)(p, a, out) : NAME(max_forward)(p, a, out); break;
    case POOL_MAX_BACKWARD: two ? NAME(max_backward_2x2)(p, a, b, out) : NAME(max_backward)(p, a, b, out); break;
#ifdef FLOATS
    case POOL_AVG: NAME(avg_forward)(p, a, out); break;
    case POOL_AVG_BACKWARD: NAME(avg_backward)(p, a, out); break;
#else
    default: break;
#endif
    }
}
#undef T
#undef NAME
#undef LOWEST
#undef IS_NAN
