// Included by fft.c once a class, with T, CLS and NAME.
#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define C(name)     JOIN(NAME, name)

// Complex numbers, real parts and imaginary parts apart.
struct C(_array) {
    T *re, *im;
};
struct C(_stage) {
    struct C(_array) x, y, roots;
    int64_t n, m, run; // roots there are; blocks of the stage; elements that share a factor
    int64_t step;      // between the roots of the stage
    T sign;
};

// One stage of Stockham's algorithm (see Van Loan, Computational Frameworks for the Fast Fourier Transform, 1.7), which
// needs no reordering: for p < m and radix R, y[R p + k] = w^(p k) sum_j w_R^(j k) x[p + j m].
static void C(_radix2)(const struct C(_stage) * s)
{
    for (int64_t p = 0; p < s->m; p++) {
        T wr = s->roots.re[p * s->step], wi = s->roots.im[p * s->step];
        int64_t run = s->run;
        const T *ar = s->x.re + p * run, *ai = s->x.im + p * run, *br = ar + s->m * run, *bi = ai + s->m * run;
        T *restrict yr = s->y.re + 2 * p * run, *restrict yi = s->y.im + 2 * p * run;
        for (int64_t q = 0; q < run; q++) {
            T dr = ar[q] - br[q], di = ai[q] - bi[q];
            yr[q] = ar[q] + br[q];
            yi[q] = ai[q] + bi[q];
            yr[run + q] = dr * wr - di * wi;
            yi[run + q] = dr * wi + di * wr;
        }
    }
}

static void C(_radix4)(const struct C(_stage) * s)
{
    const T *rr = s->roots.re, *ri = s->roots.im;
    for (int64_t p = 0; p < s->m; p++) {
        int64_t run = s->run, far = s->m * run, w = p * s->step;
        T w1r = rr[w], w1i = ri[w], w2r = rr[2 * w], w2i = ri[2 * w], w3r = rr[3 * w], w3i = ri[3 * w], sign = s->sign;
        const T *xr = s->x.re + p * run, *xi = s->x.im + p * run;
        T *restrict yr = s->y.re + 4 * p * run, *restrict yi = s->y.im + 4 * p * run;
        for (int64_t q = 0; q < run; q++) {
            T ar = xr[q], br = xr[far + q], cr = xr[2 * far + q], dr = xr[3 * far + q];
            T ai = xi[q], bi = xi[far + q], ci = xi[2 * far + q], di = xi[3 * far + q];
            T er = ar + cr, ei = ai + ci, fr = ar - cr, fi = ai - ci;
            T gr = br + dr, gi = bi + di, hr = -sign * (bi - di), hi = sign * (br - dr);
            T ur = fr + hr, ui = fi + hi, vr = er - gr, vi = ei - gi, tr = fr - hr, ti = fi - hi;
            yr[q] = er + gr;
            yi[q] = ei + gi;
            yr[run + q] = ur * w1r - ui * w1i;
            yi[run + q] = ur * w1i + ui * w1r;
            yr[2 * run + q] = vr * w2r - vi * w2i;
            yi[2 * run + q] = vr * w2i + vi * w2r;
            yr[3 * run + q] = tr * w3r - ti * w3i;
            yi[3 * run + q] = tr * w3i + ti * w3r;
        }
    }
}

// Any radix, by its definition.
static void C(_radix)(const struct C(_stage) * s, int64_t radix)
{
    int64_t run = s->run, far = s->m * run, turn = s->n / radix;
    for (int64_t p = 0; p < s->m; p++)
        for (int64_t k = 0; k < radix; k++) {
            T *restrict yr = s->y.re + (radix * p + k) * run, *restrict yi = s->y.im + (radix * p + k) * run;
            for (int64_t j = 0; j < radix; j++) {
                // w^(p k) and w_R^(j k) as one root.
                int64_t w = (p * k * s->step + j * k % radix * turn) % s->n;
                T wr = s->roots.re[w], wi = s->roots.im[w];
                const T *xr = s->x.re + p * run + j * far, *xi = s->x.im + p * run + j * far;
                for (int64_t q = 0; q < run; q++) {
                    T r = xr[q] * wr - xi[q] * wi, i = xr[q] * wi + xi[q] * wr;
                    yr[q] = j ? yr[q] + r : r;
                    yi[q] = j ? yi[q] + i : i;
                }
            }
        }
}

// All stages, from a to b and back; returns where the result is.
static struct C(_array)
    C(_stages)(const struct fft *f, struct C(_array) a, struct C(_array) b, struct C(_array) roots, int64_t lanes)
{
    struct C(_stage) s = {.n = f->n, .roots = roots, .step = 1, .run = lanes, .sign = (T)f->sign};
    for (int64_t length = f->n; length > 1;) {
        int64_t radix = next_radix(length);
        s.x = a, s.y = b, s.m = length / radix;
        if (radix == 4)
            C(_radix4)(&s);
        else if (radix == 2)
            C(_radix2)(&s);
        else
            C(_radix)(&s, radix);
        length = s.m;
        s.run *= radix;
        s.step *= radix;
        a = s.y, b = s.x;
    }
    return a;
}

// Lanes side by side in memory, or lines: a block of elements of each lane at a time, so that both sides stay near.
static void C(_load)(const struct fft *f, const char *x, int64_t lanes, struct C(_array) to)
{
    const struct launch_operand *o = &f->l->operands[0];
    int64_t line = o->strides[f->l->rank - 1], lane = f->lane >= 0 ? o->strides[f->lane] : 0, pair = f->pair[0];
    if (o->dtype != cpu_class_dtype[CLS]) {
        int64_t size_B = cpu_dtype_size_B[o->dtype];
        CPU_FN(cpu_load_tile)(to.re, lanes, CLS, x, o->dtype, f->n, lanes, line, lane);
        CPU_FN(cpu_load_tile)(to.im, lanes, CLS, x + pair * size_B, o->dtype, f->n, lanes, line, lane);
        return;
    }
    const T *from = (const T *)(const void *)x;
    for (int64_t i = 0; lane == 2 && pair == 1 && i < f->n; i++)
        for (int64_t l = 0; l < lanes; l++) {
            to.re[i * lanes + l] = from[i * line + 2 * l];
            to.im[i * lanes + l] = from[i * line + 2 * l + 1];
        }
    if (lane == 2 && pair == 1) return;
    for (int64_t first = 0; first < f->n; first += NEAR)
        for (int64_t l = 0; l < lanes; l++)
            for (int64_t i = first; i < f->n && i < first + NEAR; i++) {
                to.re[i * lanes + l] = from[i * line + l * lane];
                to.im[i * lanes + l] = from[i * line + l * lane + pair];
            }
}

static void C(_store)(const struct fft *f, char *out, int64_t lanes, struct C(_array) from)
{
    const struct launch_operand *o = &f->l->operands[1];
    int64_t line = o->strides[f->l->rank - 1], lane = f->lane >= 0 ? o->strides[f->lane] : 0, pair = f->pair[1];
    if (o->dtype != cpu_class_dtype[CLS]) {
        int64_t size_B = cpu_dtype_size_B[o->dtype];
        CPU_FN(cpu_store_tile)(out, o->dtype, line, lane, from.re, lanes, CLS, f->n, lanes);
        CPU_FN(cpu_store_tile)(out + pair * size_B, o->dtype, line, lane, from.im, lanes, CLS, f->n, lanes);
        return;
    }
    T *to = (T *)(void *)out;
    for (int64_t i = 0; lane == 2 && pair == 1 && i < f->n; i++)
        for (int64_t l = 0; l < lanes; l++) {
            to[i * line + 2 * l] = from.re[i * lanes + l];
            to[i * line + 2 * l + 1] = from.im[i * lanes + l];
        }
    if (lane == 2 && pair == 1) return;
    for (int64_t first = 0; first < f->n; first += NEAR)
        for (int64_t l = 0; l < lanes; l++)
            for (int64_t i = first; i < f->n && i < first + NEAR; i++) {
                to[i * line + l * lane] = from.re[i * lanes + l];
                to[i * line + l * lane + pair] = from.im[i * lanes + l];
            }
}

// Root number t of the larger transform, from two tables: the fine ones, then every `fine`-th.
static void C(_root)(const struct fft *f, int64_t t, T *re, T *im)
{
    const T *table = (const T *)(uintptr_t)f->l->operands[3].address;
    const T *low = table + t % f->fine * 2, *high = table + (f->fine + t / f->fine) * 2;
    T sign = (T)f->sign;
    *re = low[0] * high[0] - low[1] * high[1];
    *im = sign * (low[0] * high[1] + low[1] * high[0]);
}

// Roots k * column for k = 0, by, 2 by ...; one a lane.
static void C(_powers)(const struct fft *f, int64_t first, int64_t lanes, int64_t by, int64_t count,
                       struct C(_array) to)
{
    for (int64_t l = 0; l < lanes; l++) {
        int64_t column = (first + l) % f->columns, step = by * column % f->total, t = 0;
        for (int64_t k = 0; k < count; k++, t = (t + step) % f->total)
            C(_root)(f, t, &to.re[k * lanes + l], &to.im[k * lanes + l]);
    }
}

// Element k of column j by root j k of the larger transform: of the roots of k / POWERS and of k % POWERS.
static void C(_turn)(const struct fft *f, int64_t first, int64_t lanes, struct C(_array) v, struct C(_array) low,
                     struct C(_array) high)
{
    C(_powers)(f, first, lanes, 1, POWERS, low);
    C(_powers)(f, first, lanes, POWERS, (f->n + POWERS - 1) / POWERS, high);
    for (int64_t k = 0; k < f->n; k++) {
        const T *ar = low.re + k % POWERS * lanes, *ai = low.im + k % POWERS * lanes;
        const T *br = high.re + k / POWERS * lanes, *bi = high.im + k / POWERS * lanes;
        T *restrict xr = v.re + k * lanes, *restrict xi = v.im + k * lanes;
        for (int64_t l = 0; l < lanes; l++) {
            T wr = ar[l] * br[l] - ai[l] * bi[l], wi = ar[l] * bi[l] + ai[l] * br[l];
            T r = xr[l] * wr - xi[l] * wi, i = xr[l] * wi + xi[l] * wr;
            xr[l] = r;
            xi[l] = i;
        }
    }
}

static struct C(_array) C(_take)(T **room, int64_t n)
{
    struct C(_array) a = {*room, *room + n};
    *room += 2 * n;
    return a;
}

static kiln_status C(_lines)(const struct fft *f, int64_t begin, int64_t end)
{
    int64_t most = f->n * LANES, powers = POWERS * LANES, rest = (f->n / POWERS + 1) * LANES;
    T *room = cpu_scratch(CPU_SCRATCH_CUSTOM, sizeof(T) * 2 * (size_t)(2 * most + f->n + powers + rest));
    if (!room) return error_pending;
    struct C(_array) a = C(_take)(&room, most), b = C(_take)(&room, most), roots = C(_take)(&room, f->n),
                     low = C(_take)(&room, powers), high = C(_take)(&room, rest);
    const T *table = (const T *)(uintptr_t)f->l->operands[2].address;
    for (int64_t i = 0; i < f->n; i++) roots.re[i] = table[2 * i], roots.im[i] = (T)f->sign * table[2 * i + 1];
    struct walk w;
    walk_start(&w, f->l, f->l->rank - 1, begin);
    while (begin < end) {
        int64_t lanes = walk_run(&w);
        if (lanes > end - begin) lanes = end - begin;
        if (lanes > LANES) lanes = LANES;
        int64_t x = f->lane >= 0 ? w.inner * walk_stride_B(f->l, 0, f->lane) : 0;
        int64_t out = f->lane >= 0 ? w.inner * walk_stride_B(f->l, 1, f->lane) : 0;
        C(_load)(f, w.at[0] + x, lanes, a);
        struct C(_array) y = C(_stages)(f, a, b, roots, lanes);
        if (f->total) C(_turn)(f, begin, lanes, y, low, high);
        C(_store)(f, w.at[1] + out, lanes, y);
        begin += lanes;
        walk_next(&w, lanes);
    }
    return KILN_OK;
}
#undef T
#undef CLS
#undef NAME
#undef C
#undef JOIN_
#undef JOIN
