// Included by fft_stages_tmpl.c: parts of 16, 32 and 64 numbers, the lengths of the rows and columns of lines of 256 to
// 4,096. Their two stages are the same as of any other part, but places are known when they are compiled, roots lie in
// the order in which they are needed, and the first stage may read and the second write pairs as they lie in memory.

static inline ALWAYS_INLINE void C(_butterfly)(NUMBER *v, int radix, T sign)
{
    if (radix == 4)
        C(_butterfly4)(v, sign);
    else
        C(_butterfly8)(v, sign);
}

static inline ALWAYS_INLINE void C(_first)(const struct C(_work) * w, struct C(_ends) x, const struct C(_roots) * roots,
                                           NUMBER *to, int radix, int m, bool pairs)
{
    T sign = (T)w->f->sign;
    for (int p = 0; p < m; p++, to += radix) {
        NUMBER v[8];
        for (int j = 0; j < radix; j++) {
            int64_t at = (p + j * m) * x.step;
            v[j] = pairs ? C(_get_pairs)(x.pairs + at) : C(_get)(x.array, at);
        }
        C(_butterfly)(v, radix, sign);
        to[0] = v[0];
        for (int k = 1; k < radix; k++) to[k] = C(_mul)(v[k], roots->re[p * radix + k], roots->im[p * radix + k]);
    }
}

static inline ALWAYS_INLINE void C(_second)(const struct C(_work) * w, const NUMBER *x, struct C(_ends) y,
                                            const struct C(_roots) * twist, int radix, int run, bool pairs, bool past)
{
    T sign = (T)w->f->sign;
    for (int q = 0; q < run; q++) {
        NUMBER v[8];
        for (int j = 0; j < radix; j++) v[j] = x[q + j * run];
        C(_butterfly)(v, radix, sign);
        for (int k = 0; k < radix; k++) {
            int64_t to = (q + k * run) * y.step;
            if (twist) v[k] = C(_mul)(v[k], twist->re[q * radix + k], twist->im[q * radix + k]);
            if (pairs)
                C(_put_pairs)(y.pairs + to, v[k], past);
            else
                C(_put)(y.array, to, v[k]);
        }
    }
}

#define FIXED(n, radix, second)                                                                           \
    static void C(_part##n)(const struct C(_work) * w, const struct C(_roots) * roots, struct C(_ends) x, \
                            struct C(_ends) y, const struct C(_roots) * twist)                            \
    {                                                                                                     \
        NUMBER middle[n];                                                                                 \
        if (x.pairs)                                                                                      \
            C(_first)(w, x, roots, middle, radix, second, true);                                          \
        else                                                                                              \
            C(_first)(w, x, roots, middle, radix, second, false);                                         \
        if (twist)                                                                                        \
            C(_second)(w, middle, y, twist, second, radix, false, false);                                 \
        else if (y.past)                                                                                  \
            C(_second)(w, middle, y, NULL, second, radix, true, true);                                    \
        else if (y.pairs)                                                                                 \
            C(_second)(w, middle, y, NULL, second, radix, true, false);                                   \
        else                                                                                              \
            C(_second)(w, middle, y, NULL, second, radix, false, false);                                  \
    }
FIXED(16, 4, 4)
FIXED(32, 8, 4)
FIXED(64, 8, 8)
#undef FIXED

// twist: of each number of the result, as the second stage makes them; NULL: by nothing.
static void C(_fixed_part)(const struct C(_work) * w, int64_t n, const struct C(_roots) * roots, struct C(_ends) x,
                           struct C(_ends) y, const struct C(_roots) * twist)
{
    switch (n) {
    case 16: C(_part16)(w, roots, x, y, twist); break;
    case 32: C(_part32)(w, roots, x, y, twist); break;
    default: C(_part64)(w, roots, x, y, twist);
    }
}

static void C(_set_root)(const struct C(_work) * w, const struct C(_roots) * to, int64_t at, int64_t root)
{
    to->re[at] = w->root.re[root];
    to->im[at] = w->root.im[root];
}

// The roots of the first stage of a part, in the order of its results.
static void C(_list_roots)(const struct C(_work) * w, int64_t n, const struct C(_roots) * to)
{
    int64_t radix = next_radix(n);
    for (int64_t p = 0; p < n / radix; p++)
        for (int64_t k = 0; k < radix; k++) C(_set_root)(w, to, p * radix + k, k * p * (w->f->n / n));
}

// By what a column's numbers are multiplied, column after column, in the order of the second stage's results.
static void C(_list_twists)(const struct C(_work) * w)
{
    int64_t n = w->f->rows, run = next_radix(n), radix = n / run;
    for (int64_t j = 0; j < w->f->n / n; j++)
        for (int64_t q = 0; q < run; q++)
            for (int64_t k = 0; k < radix; k++) C(_set_root)(w, &w->twist, j * n + q * radix + k, (q + k * run) * j);
}
