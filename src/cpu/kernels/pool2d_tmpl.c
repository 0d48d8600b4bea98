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

// Columns of a line `sw` apart side by side, a phase behind the other; `room` elements may be read from it.
static void NAME(part_line)(const struct pool_shape *p, const T *x, T *to, int64_t apart, int64_t room)
{
    int64_t half = pool_whole(p->w / 2, room / 2);
    if (p->sw == 2) {
#pragma omp simd
        for (int64_t i = 0; i < half; i++) to[i] = x[2 * i], to[apart + i] = x[2 * i + 1];
        if (p->w % 2) to[p->w / 2] = x[p->w - 1];
    } else {
        for (int64_t i = 0; i < p->w; i++) to[i % p->sw * apart + i / p->sw] = x[i];
    }
}

// A plane that way, which with sw = 1 is so as it lies.
static const T *NAME(part_plane)(const struct pool_shape *p, const T *x, T *to)
{
    int64_t row = pool_row(p);
    if (p->sw == 1) return x;
    for (int64_t r = 0; r < p->h; r++) NAME(part_line)(p, x + r * p->w, to + r * row, pool_pitch(p), (p->h - r) * p->w);
    return to;
}

// The largest of each column of a window's rows, first to past.
static void NAME(max_down)(const struct pool_shape *p, const T *x, int64_t oy, T *y)
{
    struct span k = span_inside(oy * p->sh - p->ph, p->dh, p->h, p->kh);
    int64_t row = oy * p->sh - p->ph + k.first * p->dh, apart = p->dh * p->w, left = k.past - k.first;
    int64_t n = pool_whole(p->w, (p->h - (row + (left - 1) * p->dh)) * p->w);
    const T *at = x + row * p->w;
    if (left == 0)
        for (int64_t i = 0; i < p->w; i++) y[i] = LOWEST;
    else if (left == 3)
        NAME(largest)(at, n, y, 1, 3, apart);
    else if (left == 2)
        NAME(largest)(at, n, y, 1, 2, apart);
    else
        for (int64_t r = 0; r < left; r++, at += apart)
#pragma omp simd
            for (int64_t i = 0; i < n; i++) y[i] = r ? NAME(more)(y[i], at[i]) : at[i];
}

// Columns of windows lie in phases, so that what a tap meets is neighbours.
static void NAME(max_across)(const struct pool_shape *p, const T *phases, T *y, int64_t n)
{
    int64_t apart = pool_line(p);
    const T *at[3];
    for (int64_t k = 0; k < p->kw; k++) {
        int64_t c = pool_margin(p) + k * p->dw - p->pw;
        const T *from = phases + c % p->sw * apart + c / p->sw;
        if (p->kw == 3)
            at[k] = from;
        else
#pragma omp simd
            for (int64_t i = 0; i < n; i++) y[i] = k ? NAME(more)(y[i], from[i]) : from[i];
    }
    if (p->kw != 3) return;
    const T *a = at[0], *b = at[1], *c = at[2];
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = NAME(more)(NAME(more)(a[i], b[i]), c[i]);
}

// Rows first: the largest of a column of the window, then of the columns, which padding of the lowest value surrounds.
// Some rows at a time: what was just written elsewhere in a vector is waited for.
static void NAME(max_forward)(const struct pool_shape *p, const T *x, T *y, int64_t y_pitch)
{
    int64_t apart = pool_line(p), margin = pool_margin(p) / p->sw;
    T *phases = (T *)(void *)p->row, *line = phases + POOL_ROWS * p->sw * apart;
    for (int64_t i = 0; i < POOL_ROWS * p->sw * apart; i++) phases[i] = LOWEST;
    for (int64_t first = 0; first < p->oh; first += POOL_ROWS) {
        int64_t rows = least(POOL_ROWS, p->oh - first);
        for (int64_t r = 0; r < rows; r++) {
            T *inside = phases + r * p->sw * apart + margin;
            NAME(max_down)(p, x, first + r, p->sw == 1 ? inside : line);
            T *behind = (p->sw == 1 ? inside : line) + p->w;
            for (int64_t i = 0; i < 2 * POOL_STEP; i++) behind[i] = LOWEST;
            if (p->sw > 1) NAME(part_line)(p, line, inside, apart, p->w + 2 * POOL_STEP);
        }
        for (int64_t r = 0; r < rows; r++) {
            int64_t oy = first + r, room = (p->oh - oy) * y_pitch;
            NAME(max_across)(p, phases + r * p->sw * apart, y + oy * y_pitch, pool_whole(p->ow, room));
        }
    }
}

static void NAME(join)(const struct pool_shape *p, const T *x, T *to)
{
    int64_t n = pool_pitch(p);
    for (int64_t r = 0; r < p->h; r++, to += p->w, x += p->sw * n) {
        if (p->sw == 2) {
            int64_t half = pool_whole(p->w / 2, (p->h - r) * p->w / 2);
#pragma omp simd
            for (int64_t i = 0; i < half; i++) to[2 * i] = x[i], to[2 * i + 1] = x[n + i];
            if (p->w % 2) to[p->w - 1] = x[p->w / 2];
        } else {
            for (int64_t i = 0; i < p->w; i++) to[i] = x[i % p->sw * n + i / p->sw];
        }
    }
}

// The gradient that no tap has taken goes to the first element as large as the window's largest: of n windows. What
// lies behind them, up to `whole`, stays as it is.
static inline void NAME(take)(const T *x, const T *most, T *left, T *dx, int32_t n, int32_t whole)
{
#pragma omp simd
    for (int32_t i = 0; i < whole; i++) {
        bool hit = ((x[i] == most[i]) | IS_NAN(x[i])) & (i < n);
        dx[i] += hit ? left[i] : (T)0;
        left[i] = hit ? (T)0 : left[i];
    }
}

static inline void NAME(take_row)(const T *x, const T *most, T *left, T *dx, int64_t n, int64_t room)
{
    enum { PIECE = 1 << 20 };
    for (int64_t k = 0; k < n; k += PIECE) {
        int64_t m = least(n - k, PIECE);
        NAME(take)(x + k, most + k, left + k, dx + k, (int32_t)m, (int32_t)pool_whole(m, room - k));
    }
}

// Tap by tap, all windows of a row at once: rows of x and dx lie in phases, so that what a tap meets is neighbours.
static void NAME(max_backward)(const struct pool_shape *p, const T *x, const T *dy, T *dx)
{
    bool apart = p->sw > 1;
    int64_t pitch = pool_row(p), all = p->h * pitch, row = pool_steps(p->ow), windows = p->oh * row;
    T *most = (T *)(void *)p->planes, *left = most + windows + POOL_STEP, *parts = left + windows + POOL_STEP;
    T *sums = parts + all + POOL_STEP, *to = apart ? sums : dx;
    const T *from = NAME(part_plane)(p, x, parts);
    NAME(max_forward)(p, x, most, row);
    for (int64_t oy = 0; oy < p->oh; oy++) memcpy(left + oy * row, dy + oy * p->ow, (size_t)p->ow * sizeof(T));
    int64_t room = all + (apart ? POOL_STEP : 0);
    memset(to, 0, (size_t)room * sizeof(T));
    for (int64_t ky = 0; ky < p->kh; ky++)
        for (int64_t kx = 0; kx < p->kw; kx++) {
            struct tap t = tap_of(p, ky, kx);
            int64_t at = tap_place(p, &t, pitch);
            for (int64_t oy = t.y.first; oy < t.y.past; oy++, at += p->sh * pitch) {
                int64_t o = oy * row + t.x.first;
                NAME(take_row)(from + at, most + o, left + o, to + at, t.x.past - t.x.first, room - at);
            }
        }
    if (apart) NAME(join)(p, sums, dx);
}

// --- windows of 2 x 2 side by side, the common case: four reads, no bounds, no branches

// Whole steps write on behind a row, where the next one then comes.
static void NAME(max_forward_2x2)(const struct pool_shape *p, const T *x, T *y)
{
    T *line = (T *)(void *)p->row;
    for (int64_t oy = 0; oy < p->oh; oy++, y += p->ow) {
        const T *at = x + 2 * oy * p->w;
        NAME(largest)(at, pool_whole(2 * p->ow, (p->h - 2 * oy - 1) * p->w), line, 1, 2, p->w);
        NAME(largest)(line, pool_whole(p->ow, (p->oh - oy) * p->ow), y, 2, 2, 1);
    }
}

static bool NAME(has_nan)(const T *x, int64_t n)
{
    T nans = 0;
#pragma omp simd reduction(+ : nans)
    for (int64_t i = 0; i < n; i++) nans += IS_NAN(x[i]) ? (T)1 : (T)0;
    return nans > 0;
}

// Of one row of n windows without NaN: `left` to the first element as large as the largest. The lower elements' wait in
// `below`.
static inline void NAME(share_2x2)(const T *a, const T *b, const T *left, int64_t n, T *da, T *below)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        T v0 = a[2 * i], v1 = a[2 * i + 1], v2 = b[2 * i], v3 = b[2 * i + 1], rest = left[i];
        T upper = v1 > v0 ? v1 : v0, lower = v3 > v2 ? v3 : v2;
        T most = lower > upper ? lower : upper;
        da[2 * i] = v0 == most ? rest : (T)0;
        rest = v0 == most ? (T)0 : rest;
        da[2 * i + 1] = v1 == most ? rest : (T)0;
        rest = v1 == most ? (T)0 : rest;
        below[2 * i] = v2 == most ? rest : (T)0;
        below[2 * i + 1] = v2 == most ? (T)0 : rest;
    }
}

static void NAME(max_backward_2x2)(const struct pool_shape *p, const T *x, const T *dy, T *dx)
{
    T *below = (T *)(void *)p->planes;
    int64_t used = 2 * p->ow, w = p->w;
    for (int64_t oy = 0; oy < p->oh; oy++) {
        const T *a = x + 2 * oy * w;
        T *da = dx + 2 * oy * w, *db = da + w;
        int64_t room = (p->h - 2 * oy - 1) * w, n = pool_whole(p->ow, least(room / 2, (p->oh - oy) * p->ow));
        NAME(share_2x2)(a, a + w, dy + oy * p->ow, n, da, below);
        for (int64_t i = used; i < w; i++) da[i] = 0;
        int64_t whole = pool_whole(used, room);
#pragma omp simd
        for (int64_t i = 0; i < whole; i++) db[i] = below[i];
        for (int64_t i = used; i < w; i++) db[i] = 0;
    }
    for (int64_t i = 2 * p->oh * w; i < p->h * w; i++) dx[i] = 0;
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

static void NAME(avg_backward_by_windows)(const struct pool_shape *p, const T *share, T *dx)
{
    memset(dx, 0, (size_t)(p->h * p->w) * sizeof(T));
    for (int64_t oy = 0; oy < p->oh; oy++)
        for (int64_t ox = 0; ox < p->ow; ox++) {
            int64_t down = oy * p->sh - p->ph, right = ox * p->sw - p->pw;
            struct span y = span_inside(down, p->dh, p->h, p->kh), x = span_inside(right, p->dw, p->w, p->kw);
            for (int64_t ky = y.first; ky < y.past; ky++)
                for (int64_t kx = x.first; kx < x.past; kx++)
                    dx[(down + ky * p->dh) * p->w + right + kx * p->dw] += share[oy * p->ow + ox];
        }
}

// All windows of a row at once, over columns in one phase or two.
static void NAME(avg_backward_by_taps)(const struct pool_shape *p, const T *share, T *sums, T *dx)
{
    bool apart = p->sw > 1;
    int64_t row = pool_row(p);
    T *to = apart ? sums : dx;
    memset(to, 0, (size_t)(p->h * row) * sizeof(T));
    for (int64_t ky = 0; ky < p->kh; ky++)
        for (int64_t kx = 0; kx < p->kw; kx++) {
            struct tap t = tap_of(p, ky, kx);
            int64_t at = tap_place(p, &t, row);
            for (int64_t oy = t.y.first; oy < t.y.past; oy++, at += p->sh * row)
                NAME(add_row)(share + oy * p->ow + t.x.first, 1, t.x.past - t.x.first, to + at);
        }
    if (apart) NAME(join)(p, to, dx);
}

static void NAME(avg_backward)(const struct pool_shape *p, const T *dy, T *dx)
{
    int64_t windows = p->oh * p->ow;
    T *share = (T *)(void *)p->planes;
    struct span whole = whole_windows(p);
    memcpy(share, dy, (size_t)windows * sizeof(T));
    for (int64_t oy = 0; oy < p->oh; oy++) NAME(divide_row)(p, oy, whole, share + oy * p->ow);
    if (p->sw <= 2)
        NAME(avg_backward_by_taps)(p, share, share + windows + POOL_STEP, dx);
    else
        NAME(avg_backward_by_windows)(p, share, dx);
}
#endif

static void NAME(plane)(const struct pool_shape *p, enum pool_kind kind, const void *a, const void *b, void *out)
{
    bool two = p->kh == 2 && p->kw == 2 && p->sh == 2 && p->sw == 2 && p->ph == 0 && p->pw == 0 && p->dh == 1 &&
               p->dw == 1 && p->oh * 2 <= p->h && p->ow * 2 <= p->w;
    if (two && kind == POOL_MAX_BACKWARD) two = !NAME(has_nan)(a, p->h * p->w);
    switch (kind) {
    case POOL_MAX: two ? NAME(max_forward_2x2)(p, a, out) : NAME(max_forward)(p, a, out, p->ow); break;
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
