// Pooling of one dense plane in one class. In: T, NAME(x) for the functions' names, LOWEST, the value below all others,
// and FLOATS if the class is one of floats.
#ifdef FLOATS
#define IS_NAN(v) ((v) != (v))
#else
#define IS_NAN(v) false
#endif
#define BETTER(v, best) ((v) > (best) || (IS_NAN(v) && !IS_NAN(best)))

// The first largest element of a window, NaN before all; a window may hold nothing but padding.
static T NAME(window_max)(const struct pool_shape *p, const T *x, int64_t oy, int64_t ox, int64_t *where)
{
    T best = 0;
    *where = -1;
    for (int64_t ky = 0; ky < p->kh; ky++) {
        int64_t iy = oy * p->sh - p->ph + ky * p->dh;
        if (iy < 0 || iy >= p->h) continue;
        for (int64_t kx = 0; kx < p->kw; kx++) {
            int64_t ix = ox * p->sw - p->pw + kx * p->dw;
            if (ix < 0 || ix >= p->w) continue;
            T v = x[iy * p->w + ix];
            if (*where < 0 || BETTER(v, best)) best = v, *where = iy * p->w + ix;
        }
    }
    return *where < 0 ? LOWEST : best;
}

static void NAME(max_row)(const T *x, int64_t step, int64_t n, T *y)
{
    if (step == 1)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = BETTER(x[i], y[i]) ? x[i] : y[i];
    else if (step == 2)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = BETTER(x[2 * i], y[i]) ? x[2 * i] : y[i];
    else
        for (int64_t i = 0; i < n; i++) y[i] = BETTER(x[i * step], y[i]) ? x[i * step] : y[i];
}

// The same for all windows, tap by tap: each window meets its taps in the same order.
static void NAME(max_forward)(const struct pool_shape *p, const T *x, T *y)
{
    for (int64_t i = 0; i < p->oh * p->ow; i++) y[i] = LOWEST;
    for (int64_t ky = 0; ky < p->kh; ky++)
        for (int64_t kx = 0; kx < p->kw; kx++) {
            struct tap t = tap_of(p, ky, kx);
            for (int64_t oy = t.y.first, at = t.at; oy < t.y.past; oy++, at += p->sh * p->w)
                NAME(max_row)(x + at, p->sw, t.x.past - t.x.first, y + oy * p->ow + t.x.first);
        }
}

static void NAME(max_backward)(const struct pool_shape *p, const T *x, const T *dy, T *dx)
{
    memset(dx, 0, (size_t)(p->h * p->w) * sizeof(T));
    for (int64_t oy = 0; oy < p->oh; oy++)
        for (int64_t ox = 0; ox < p->ow; ox++) {
            int64_t where;
            NAME(window_max)(p, x, oy, ox, &where);
            if (where >= 0) dx[where] += dy[oy * p->ow + ox];
        }
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
#undef BETTER
