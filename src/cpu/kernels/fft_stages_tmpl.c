// Included by fft_tmpl.c: butterflies, stages, parts, all of them in fast memory but for the ends of fixed parts.

// One stage of Stockham's algorithm (Van Loan, Computational Frameworks for the Fast Fourier Transform, 1.7), which
// needs no reordering: for p < m and radix R, y[R p + k] = w^(p k) sum_j w_R^(j k) x[p + j m], each of them `run`
// elements.
struct C(_stage) {
    struct C(_array) x, y;
    int64_t x_step, y_step; // between elements, in vectors
    int64_t m, run;
    int64_t turn;  // between the roots of the stage
    int64_t twist; // of the last stage: element k of the result by root k twist of the line
};

// Butterflies: sums w_R^(j k) v[j] in place, by the sign of the exponent.
typedef struct {
    VEC re, im;
} C(_number);
#define NUMBER C(_number)

static inline NUMBER C(_add)(NUMBER a, NUMBER b)
{
    return (NUMBER){a.re + b.re, a.im + b.im};
}
static inline NUMBER C(_sub)(NUMBER a, NUMBER b)
{
    return (NUMBER){a.re - b.re, a.im - b.im};
}
static inline NUMBER C(_scale)(NUMBER a, T factor)
{
    return (NUMBER){a.re * factor, a.im * factor};
}
static inline NUMBER C(_mul)(NUMBER a, T re, T im)
{
    return (NUMBER){a.re * re - a.im * im, a.re * im + a.im * re};
}
static inline NUMBER C(_quarter)(NUMBER a, T sign) // times i or -i
{
    return (NUMBER){-sign * a.im, sign * a.re};
}

static inline void C(_butterfly2)(NUMBER *v, T sign)
{
    NUMBER a = v[0], b = v[1];
    v[0] = C(_add)(a, b);
    v[1] = C(_sub)(a, b);
    (void)sign;
}

static inline void C(_butterfly3)(NUMBER *v, T sign)
{
    NUMBER sum = C(_add)(v[1], v[2]), half = C(_sub)(v[0], C(_scale)(sum, (T)0.5));
    NUMBER side = C(_quarter)(C(_scale)(C(_sub)(v[1], v[2]), (T)0.86602540378443864676), sign);
    v[0] = C(_add)(v[0], sum);
    v[1] = C(_add)(half, side);
    v[2] = C(_sub)(half, side);
}

static inline void C(_butterfly4)(NUMBER *v, T sign)
{
    NUMBER e = C(_add)(v[0], v[2]), f = C(_sub)(v[0], v[2]), g = C(_add)(v[1], v[3]);
    NUMBER h = C(_quarter)(C(_sub)(v[1], v[3]), sign);
    v[0] = C(_add)(e, g);
    v[1] = C(_add)(f, h);
    v[2] = C(_sub)(e, g);
    v[3] = C(_sub)(f, h);
}

static inline void C(_butterfly5)(NUMBER *v, T sign)
{
    const T c1 = (T)0.30901699437494742410, c2 = (T)-0.80901699437494742410;
    const T s1 = (T)0.95105651629515357212, s2 = (T)0.58778525229247312917;
    NUMBER a = C(_add)(v[1], v[4]), b = C(_add)(v[2], v[3]), c = C(_sub)(v[1], v[4]), d = C(_sub)(v[2], v[3]);
    NUMBER e = C(_add)(v[0], C(_add)(C(_scale)(a, c1), C(_scale)(b, c2)));
    NUMBER f = C(_add)(v[0], C(_add)(C(_scale)(a, c2), C(_scale)(b, c1)));
    NUMBER g = C(_quarter)(C(_add)(C(_scale)(c, s1), C(_scale)(d, s2)), sign);
    NUMBER h = C(_quarter)(C(_sub)(C(_scale)(c, s2), C(_scale)(d, s1)), sign);
    v[0] = C(_add)(v[0], C(_add)(a, b));
    v[1] = C(_add)(e, g);
    v[2] = C(_add)(f, h);
    v[3] = C(_sub)(f, h);
    v[4] = C(_sub)(e, g);
}

static inline void C(_butterfly8)(NUMBER *v, T sign)
{
    const T r = (T)0.70710678118654752440;
    NUMBER a[4] = {v[0], v[2], v[4], v[6]}, b[4] = {v[1], v[3], v[5], v[7]};
    C(_butterfly4)(a, sign);
    C(_butterfly4)(b, sign);
    b[1] = C(_mul)(b[1], r, sign * r);
    b[2] = C(_quarter)(b[2], sign);
    b[3] = C(_mul)(b[3], -r, sign * r);
    for (int k = 0; k < 4; k++) {
        v[k] = C(_add)(a[k], b[k]);
        v[k + 4] = C(_sub)(a[k], b[k]);
    }
}

static inline void C(_read)(const T *from, VEC *re, VEC *im)
{
    VEC a = *(const C(_loose) *)from, b = *(const C(_loose) *)(from + WIDTH);
    *re = __builtin_shufflevector(a, b, ORDER(EVEN));
    *im = __builtin_shufflevector(a, b, ORDER(ODD));
}

// past: past the caches; to whole lines of them.
static inline void C(_write)(T *to, const VEC *re, const VEC *im, bool past)
{
    VEC a = __builtin_shufflevector(*re, *im, ORDER(FIRST_PAIRS));
    VEC b = __builtin_shufflevector(*re, *im, ORDER(LAST_PAIRS));
    if (past) {
        STREAM(to, a);
        STREAM(to + WIDTH, b);
    } else {
        *(C(_loose) *)to = a;
        *(C(_loose) *)(to + WIDTH) = b;
    }
}

static inline NUMBER C(_get)(struct C(_array) a, int64_t at)
{
    return (NUMBER){a.re[at], a.im[at]};
}
static inline void C(_put)(struct C(_array) a, int64_t at, NUMBER v)
{
    a.re[at] = v.re;
    a.im[at] = v.im;
}
static inline NUMBER C(_get_pairs)(const T *from)
{
    NUMBER v;
    C(_read)(from, &v.re, &v.im);
    return v;
}
static inline void C(_put_pairs)(T *to, NUMBER v, bool past)
{
    C(_write)(to, &v.re, &v.im, past);
}

#define STAGE(radix)                                                                              \
    static void C(_radix##radix)(const struct C(_work) * w, const struct C(_stage) * s)           \
    {                                                                                             \
        int64_t run = s->run, far = run * s->m * s->x_step, apart = run * s->y_step;              \
        T sign = (T)w->f->sign;                                                                   \
        for (int64_t p = 0; p < s->m; p++)                                                        \
            for (int64_t q = 0; q < run; q++) {                                                   \
                NUMBER v[radix];                                                                  \
                int64_t from = (q + run * p) * s->x_step, to = (q + run * radix * p) * s->y_step; \
                for (int j = 0; j < radix; j++) v[j] = C(_get)(s->x, from + j * far);             \
                C(_butterfly##radix)(v, sign);                                                    \
                C(_put)(s->y, to, v[0]);                                                          \
                for (int k = 1; k < radix; k++) {                                                 \
                    T re = w->root.re[k * p * s->turn], im = w->root.im[k * p * s->turn];         \
                    C(_put)(s->y, to + k * apart, C(_mul)(v[k], re, im));                         \
                }                                                                                 \
            }                                                                                     \
    }                                                                                             \
    /* All of the roots are 1; where there is a twist, results are multiplied by that instead. */ \
    static void C(_last##radix)(const struct C(_work) * w, const struct C(_stage) * s)            \
    {                                                                                             \
        int64_t run = s->run, twist = s->twist;                                                   \
        T sign = (T)w->f->sign;                                                                   \
        for (int64_t q = 0; q < run; q++) {                                                       \
            NUMBER v[radix];                                                                      \
            for (int j = 0; j < radix; j++) v[j] = C(_get)(s->x, (q + j * run) * s->x_step);      \
            C(_butterfly##radix)(v, sign);                                                        \
            for (int k = 0; k < radix; k++) {                                                     \
                int64_t t = (q + k * run) * twist, to = (q + k * run) * s->y_step;                \
                C(_put)(s->y, to, twist ? C(_mul)(v[k], w->root.re[t], w->root.im[t]) : v[k]);    \
            }                                                                                     \
        }                                                                                         \
    }
STAGE(2)
STAGE(3)
STAGE(4)
STAGE(5)
STAGE(8)
#undef STAGE

// Any radix, by its definition.
static void C(_radix)(const struct C(_work) * w, const struct C(_stage) * s, int64_t radix)
{
    int64_t run = s->run, n = w->f->n, far = run * s->m * s->x_step;
    for (int64_t p = 0; p < s->m; p++)
        for (int64_t k = 0; k < radix; k++)
            for (int64_t q = 0; q < run; q++) {
                int64_t from = (q + run * p) * s->x_step, to = (q + run * (radix * p + k)) * s->y_step;
                NUMBER sum = {{0}, {0}};
                for (int64_t j = 0; j < radix; j++) {
                    // w^(p k), w_R^(j k) and the twist as one root.
                    int64_t t = (p * k * s->turn + j * k % radix * (n / radix) + (q + run * k) * s->twist) % n;
                    NUMBER x = {s->x.re[from + j * far], s->x.im[from + j * far]};
                    sum = C(_add)(sum, C(_mul)(x, w->root.re[t], w->root.im[t]));
                }
                s->y.re[to] = sum.re;
                s->y.im[to] = sum.im;
            }
}

static void C(_do_stage)(const struct C(_work) * w, const struct C(_stage) * s, int64_t radix)
{
    bool last = s->m == 1;
    switch (radix) {
    case 2: (last ? C(_last2) : C(_radix2))(w, s); break;
    case 3: (last ? C(_last3) : C(_radix3))(w, s); break;
    case 4: (last ? C(_last4) : C(_radix4))(w, s); break;
    case 5: (last ? C(_last5) : C(_radix5))(w, s); break;
    case 8: (last ? C(_last8) : C(_radix8))(w, s); break;
    default: C(_radix)(w, s, radix);
    }
}

// Numbers of a part: of an array, or pairs in memory, which may be written past the caches; `step` apart.
struct C(_ends) {
    struct C(_array) array;
    T *pairs;
    int64_t step;
    bool past;
};

static inline struct C(_ends) C(_in_array)(struct C(_array) a, int64_t at, int64_t step)
{
    return (struct C(_ends)){.array = C(_at)(a, at), .step = step};
}

static inline struct C(_ends) C(_in_memory)(T *pairs, int64_t step, bool past)
{
    return (struct C(_ends)){.pairs = pairs, .step = step, .past = past};
}

#include "cpu/kernels/fft_fixed_tmpl.c"

// A part of n numbers, at least one; number k of the result times root k twist of the line.
// In line: its arguments, written one by one, would be read back as vectors, which waits for all stores before.
static inline ALWAYS_INLINE void C(_part)(const struct C(_work) * w, int64_t n, struct C(_ends) x, struct C(_ends) y,
                                          int64_t twist)
{
    struct C(_stage) s = {.x = x.array, .x_step = x.step, .run = 1, .turn = w->f->n / n};
    struct C(_array) turns[2] = {w->near, w->far};
    int turn = 0;
    if (n == 1) *y.array.re = *x.array.re, *y.array.im = *x.array.im;
    for (int64_t length = n; length > 1; length = s.m) {
        int64_t radix = next_radix(length);
        s.m = length / radix;
        bool last = s.m == 1;
        s.y = last ? y.array : turns[turn ^= 1];
        s.y_step = last ? y.step : 1;
        s.twist = last ? twist : 0;
        C(_do_stage)(w, &s, radix);
        s.run *= radix;
        s.turn *= radix;
        s.x = s.y;
        s.x_step = 1;
    }
}

// Column j of the line, a row of it.
static inline ALWAYS_INLINE void C(_column)(const struct C(_work) * w, int64_t j, struct C(_ends) x, struct C(_ends) y)
{
    int64_t rows = w->f->rows;
    if (w->f->is_fixed) {
        struct C(_roots) twist = {w->twist.re + j * rows, w->twist.im + j * rows};
        C(_fixed_part)(w, rows, &w->of_columns, x, y, &twist);
    } else
        C(_part)(w, rows, x, y, j);
}

static inline ALWAYS_INLINE void C(_row)(const struct C(_work) * w, struct C(_ends) x, struct C(_ends) y)
{
    int64_t columns = w->f->n / w->f->rows;
    if (w->f->is_fixed)
        C(_fixed_part)(w, columns, &w->of_rows, x, y, NULL);
    else
        C(_part)(w, columns, x, y, 0);
}
