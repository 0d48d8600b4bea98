// Included by fft.c once a class, with T, CLS, NAME and WIDTH, a plain number.
#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define C(name)     JOIN(NAME, name)
#define ORDER(name) JOIN(name##_, WIDTH)
#define VEC         C(_vec)

// An element of each of WIDTH lines.
typedef T VEC __attribute__((vector_size(VEC_B)));
typedef T C(_loose) __attribute__((vector_size(VEC_B), aligned(sizeof(T)), may_alias));

// Numbers, real parts and imaginary parts apart.
struct C(_array) {
    VEC *re, *im;
};
static inline struct C(_array) C(_at)(struct C(_array) a, int64_t i)
{
    return (struct C(_array)){a.re + i, a.im + i};
}

struct C(_work) {
    const struct fft *f;
    T *root_re, *root_im;                            // f->n of them
    struct C(_array) a[GROUPS_MOST], b[GROUPS_MOST]; // f->n each, as matrices
    struct C(_array) near, far;                      // twice as many as a part has
    struct C(_array) low, high;                      // of turns
    struct C(_array) twist;                          // of a line by itself: root k j at row k and column j
};

// --- transforms in fast memory

// One stage of Stockham's algorithm (Van Loan, Computational Frameworks for the Fast Fourier Transform, 1.7), which
// needs no reordering: for p < m and radix R, y[R p + k] = w^(p k) sum_j w_R^(j k) x[p + j m], each of them `run`
// elements. Where there are pairs, the first stage reads these in place of x, the last writes them in place of y.
struct C(_stage) {
    struct C(_array) x, y;
    const T *x_pairs;
    T *y_pairs;
    int64_t x_step, y_step; // between elements: vectors; of pairs, numbers
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

static inline void C(_write)(T *to, const VEC *re, const VEC *im)
{
    *(C(_loose) *)to = __builtin_shufflevector(*re, *im, ORDER(FIRST_PAIRS));
    *(C(_loose) *)(to + WIDTH) = __builtin_shufflevector(*re, *im, ORDER(LAST_PAIRS));
}

static inline NUMBER C(_get_array)(const struct C(_stage) * s, int64_t at)
{
    return (NUMBER){s->x.re[at], s->x.im[at]};
}
static inline NUMBER C(_get_pairs)(const struct C(_stage) * s, int64_t at)
{
    NUMBER v;
    C(_read)(s->x_pairs + at, &v.re, &v.im);
    return v;
}
static inline void C(_put_array)(const struct C(_stage) * s, int64_t at, NUMBER v)
{
    s->y.re[at] = v.re;
    s->y.im[at] = v.im;
}
static inline void C(_put_pairs)(const struct C(_stage) * s, int64_t at, NUMBER v)
{
    C(_write)(s->y_pairs + at, &v.re, &v.im);
}

#define STAGE(name, radix, get)                                                                   \
    static void C(name)(const struct C(_work) * w, const struct C(_stage) * s)                    \
    {                                                                                             \
        int64_t run = s->run, far = run * s->m * s->x_step, apart = run * s->y_step;              \
        T sign = (T)w->f->sign;                                                                   \
        for (int64_t p = 0; p < s->m; p++)                                                        \
            for (int64_t q = 0; q < run; q++) {                                                   \
                NUMBER v[radix];                                                                  \
                int64_t from = (q + run * p) * s->x_step, to = (q + run * radix * p) * s->y_step; \
                for (int j = 0; j < radix; j++) v[j] = get(s, from + j * far);                    \
                C(_butterfly##radix)(v, sign);                                                    \
                C(_put_array)(s, to, v[0]);                                                       \
                for (int k = 1; k < radix; k++) {                                                 \
                    T re = w->root_re[k * p * s->turn], im = w->root_im[k * p * s->turn];         \
                    C(_put_array)(s, to + k * apart, C(_mul)(v[k], re, im));                      \
                }                                                                                 \
            }                                                                                     \
    }
// All of the roots are 1; where there is a twist, results are multiplied by that instead.
#define LAST_STAGE(name, radix, put)                                                            \
    static void C(name)(const struct C(_work) * w, const struct C(_stage) * s)                  \
    {                                                                                           \
        int64_t run = s->run, twist = s->twist;                                                 \
        T sign = (T)w->f->sign;                                                                 \
        for (int64_t q = 0; q < run; q++) {                                                     \
            NUMBER v[radix];                                                                    \
            for (int j = 0; j < radix; j++) v[j] = C(_get_array)(s, (q + j * run) * s->x_step); \
            C(_butterfly##radix)(v, sign);                                                      \
            for (int k = 0; k < radix; k++) {                                                   \
                int64_t t = (q + k * run) * twist, to = (q + k * run) * s->y_step;              \
                put(s, to, twist ? C(_mul)(v[k], w->root_re[t], w->root_im[t]) : v[k]);         \
            }                                                                                   \
        }                                                                                       \
    }
#define STAGES(radix)                          \
    STAGE(_radix##radix, radix, C(_get_array)) \
    LAST_STAGE(_last##radix, radix, C(_put_array))
#define PAIR_STAGES(radix)                     \
    STAGE(_first##radix, radix, C(_get_pairs)) \
    LAST_STAGE(_final##radix, radix, C(_put_pairs))
STAGES(2)
STAGES(3)
STAGES(4)
STAGES(5)
STAGES(8)
PAIR_STAGES(4)
PAIR_STAGES(8)
#undef STAGE
#undef LAST_STAGE
#undef STAGES
#undef PAIR_STAGES

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
                    sum = C(_add)(sum, C(_mul)(x, w->root_re[t], w->root_im[t]));
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
    case 4: (s->x_pairs ? C(_first4) : s->y_pairs ? C(_final4) : last ? C(_last4) : C(_radix4))(w, s); break;
    case 5: (last ? C(_last5) : C(_radix5))(w, s); break;
    case 8: (s->x_pairs ? C(_first8) : s->y_pairs ? C(_final8) : last ? C(_last8) : C(_radix8))(w, s); break;
    default: C(_radix)(w, s, radix);
    }
}

// Numbers of a part: of an array, or pairs in memory; `step` apart.
struct C(_ends) {
    struct C(_array) array;
    T *pairs;
    int64_t step;
};

static inline struct C(_ends) C(_in_array)(struct C(_array) a, int64_t at, int64_t step)
{
    return (struct C(_ends)){C(_at)(a, at), NULL, step};
}

static inline struct C(_ends) C(_in_memory)(T *pairs, int64_t step)
{
    return (struct C(_ends)){.pairs = pairs, .step = step};
}

// A part of n numbers; number k of the result times root k twist of the line. There is one number at least; pairs: n is
// a power of two and at least PAIRS_LEAST, so that the first stage is not the last.
// In line: its arguments, written one by one, would be read back as vectors, which waits for all stores before.
static inline __attribute__((always_inline)) void C(_part)(const struct C(_work) * w, int64_t n, struct C(_ends) x,
                                                           struct C(_ends) y, int64_t twist)
{
    struct C(_stage) s = {.x = x.array, .x_pairs = x.pairs, .x_step = x.step, .run = 1, .turn = w->f->n / n};
    struct C(_array) turns[2] = {w->near, w->far};
    int turn = 0;
    if (n == 1) *y.array.re = *x.array.re, *y.array.im = *x.array.im;
    for (int64_t length = n; length > 1; length = s.m) {
        int64_t radix = next_radix(length);
        s.m = length / radix;
        bool last = s.m == 1;
        s.y = last ? y.array : turns[turn ^= 1];
        s.y_pairs = last ? y.pairs : NULL;
        s.y_step = last ? y.step : 1;
        s.twist = last ? twist : 0;
        C(_do_stage)(w, &s, radix);
        s.run *= radix;
        s.turn *= radix;
        s.x = s.y;
        s.x_pairs = NULL;
        s.x_step = 1;
    }
}

// --- to and from memory

#define EXCHANGE(v, apart)                                                          \
    for (int i = 0; i < WIDTH; i++)                                                 \
        if (!(i & apart)) {                                                         \
            VEC low = v[i], high = v[i + apart];                                    \
            v[i] = __builtin_shufflevector(low, high, ORDER(KEEP_##apart));         \
            v[i + apart] = __builtin_shufflevector(low, high, ORDER(TAKE_##apart)); \
        }

static inline void C(_transpose)(VEC *v)
{
#if WIDTH >= 16
    EXCHANGE(v, 8)
#endif
#if WIDTH >= 8
    EXCHANGE(v, 4)
#endif
#if WIDTH >= 4
    EXCHANGE(v, 2)
#endif
    EXCHANGE(v, 1)
}
#undef EXCHANGE

// The side of an operand: numbers `line` apart along a line, lines `lane` apart.
struct C(_side) {
    T *at;
    int64_t line, lane, pair;
};

static struct C(_side) C(_moved)(const struct C(_side) * s, int64_t along, int64_t lanes)
{
    return (struct C(_side)){s->at + along * s->line + lanes * s->lane, s->line, s->lane, s->pair};
}

static struct C(_side) C(_side_of)(const struct fft *f, int operand, char *at)
{
    const struct launch_operand *o = &f->l->operands[operand];
    return (struct C(_side)){(T *)(void *)at, o->strides[f->l->rank - 1], f->lane >= 0 ? o->strides[f->lane] : 0,
                             f->pair[operand]};
}

static void C(_load_any)(const struct C(_side) * s, int64_t first, int64_t n, int64_t lanes, struct C(_array) to)
{
    for (int64_t k = first; k < n; k++) {
        T re[WIDTH] = {0}, im[WIDTH] = {0};
        for (int64_t l = 0; l < lanes; l++) {
            re[l] = s->at[k * s->line + l * s->lane];
            im[l] = s->at[k * s->line + l * s->lane + s->pair];
        }
        memcpy(&to.re[k], re, sizeof re);
        memcpy(&to.im[k], im, sizeof im);
    }
}

static void C(_store_any)(const struct C(_side) * s, int64_t first, int64_t n, int64_t lanes, struct C(_array) from)
{
    for (int64_t k = first; k < n; k++)
        for (int64_t l = 0; l < lanes; l++) {
            s->at[k * s->line + l * s->lane] = from.re[k][l];
            s->at[k * s->line + l * s->lane + s->pair] = from.im[k][l];
        }
}

// Lines one behind the other are transposed in squares.
static void C(_load)(const struct C(_side) * s, int64_t n, int64_t lanes, struct C(_array) to)
{
    int64_t k = 0;
    if (lanes == WIDTH && s->lane == 2 && s->pair == 1)
        for (; k < n; k++) C(_read)(s->at + k * s->line, &to.re[k], &to.im[k]);
    else if (s->line == 2 && s->pair == 1)
        for (; k + WIDTH <= n; k += WIDTH) {
            VEC zero = {0};
            for (int64_t l = 0; l < WIDTH; l++) {
                to.re[k + l] = to.im[k + l] = zero;
                if (l < lanes) C(_read)(s->at + 2 * k + l * s->lane, &to.re[k + l], &to.im[k + l]);
            }
            C(_transpose)(to.re + k);
            C(_transpose)(to.im + k);
        }
    C(_load_any)(s, k, n, lanes, to);
}

static void C(_store)(const struct C(_side) * s, int64_t n, int64_t lanes, struct C(_array) from)
{
    int64_t k = 0;
    if (lanes == WIDTH && s->lane == 2 && s->pair == 1)
        for (; k < n; k++) C(_write)(s->at + k * s->line, &from.re[k], &from.im[k]);
    else if (s->line == 2 && s->pair == 1)
        for (; k + WIDTH <= n; k += WIDTH) {
            C(_transpose)(from.re + k);
            C(_transpose)(from.im + k);
            for (int64_t l = 0; l < lanes; l++)
                C(_write)(s->at + 2 * k + l * s->lane, &from.re[k + l], &from.im[k + l]);
        }
    C(_store_any)(s, k, n, lanes, from);
}

// Storage of another dtype.
static void C(_load_converted)(const struct fft *f, const char *x, int64_t n, int64_t lanes, struct C(_array) to)
{
    const struct launch_operand *o = &f->l->operands[0];
    int64_t line = o->strides[f->l->rank - 1], lane = f->lane >= 0 ? o->strides[f->lane] : 0;
    int64_t pair_B = f->pair[0] * cpu_dtype_size_B[o->dtype];
    memset(to.re, 0, sizeof *to.re * (size_t)n);
    memset(to.im, 0, sizeof *to.im * (size_t)n);
    CPU_FN(cpu_load_tile)(to.re, WIDTH, CLS, x, o->dtype, n, lanes, line, lane);
    CPU_FN(cpu_load_tile)(to.im, WIDTH, CLS, x + pair_B, o->dtype, n, lanes, line, lane);
}

static void C(_store_converted)(const struct fft *f, char *out, int64_t n, int64_t lanes, struct C(_array) from)
{
    const struct launch_operand *o = &f->l->operands[1];
    int64_t line = o->strides[f->l->rank - 1], lane = f->lane >= 0 ? o->strides[f->lane] : 0;
    int64_t pair_B = f->pair[1] * cpu_dtype_size_B[o->dtype];
    CPU_FN(cpu_store_tile)(out, o->dtype, line, lane, from.re, WIDTH, CLS, n, lanes);
    CPU_FN(cpu_store_tile)(out + pair_B, o->dtype, line, lane, from.im, WIDTH, CLS, n, lanes);
}

// Groups of WIDTH lines side by side: all of an element's are read at once, since each element lies on a page of its
// own.
static void C(_load_groups)(const struct C(_side) * s, int64_t n, int64_t groups, const struct C(_array) * to,
                            int64_t at)
{
    for (int64_t k = 0; k < n; k++)
        for (int64_t g = 0; g < groups; g++)
            C(_read)(s->at + k * s->line + g * 2 * WIDTH, &to[g].re[at + k], &to[g].im[at + k]);
}

static void C(_store_groups)(const struct C(_side) * s, int64_t n, int64_t groups, const struct C(_array) * from,
                             int64_t at)
{
    for (int64_t k = 0; k < n; k++)
        for (int64_t g = 0; g < groups; g++)
            C(_write)(s->at + k * s->line + g * 2 * WIDTH, &from[g].re[at + k], &from[g].im[at + k]);
}

static bool C(_is_native)(const struct fft *f, int operand)
{
    return f->l->operands[operand].dtype == cpu_class_dtype[CLS];
}

static bool C(_beside)(const struct C(_side) * s, int64_t lanes)
{
    return s->lane == 2 && s->pair == 1 && lanes % WIDTH == 0;
}

static int64_t C(_lanes_of)(int64_t lanes, int64_t group)
{
    return lanes - group * WIDTH < WIDTH ? lanes - group * WIDTH : WIDTH;
}

// Segment by segment, as they lie in a matrix: `segment` elements, then the pad.
static void C(_load_all)(const struct C(_work) * w, char *x, int64_t lanes, int64_t segment)
{
    const struct fft *f = w->f;
    bool native = C(_is_native)(f, 0);
    struct C(_side) s = C(_side_of)(f, 0, x);
    int64_t size_B = cpu_dtype_size_B[f->l->operands[0].dtype];
    for (int64_t k = 0, at = 0; k < f->n; k += segment, at += segment + f->pad) {
        struct C(_side) part = C(_moved)(&s, k, 0);
        if (native && C(_beside)(&s, lanes)) {
            C(_load_groups)(&part, segment, lanes / WIDTH, w->a, at);
            continue;
        }
        for (int64_t g = 0; g * WIDTH < lanes; g++) {
            struct C(_side) from = C(_moved)(&part, 0, g * WIDTH);
            struct C(_array) to = C(_at)(w->a[g], at);
            int64_t count = C(_lanes_of)(lanes, g);
            native ? C(_load)(&from, segment, count, to)
                   : C(_load_converted)(f, x + (k * s.line + g * WIDTH * s.lane) * size_B, segment, count, to);
        }
    }
}

static void C(_store_all)(const struct C(_work) * w, char *out, int64_t lanes, int64_t segment,
                          const struct C(_array) * y)
{
    const struct fft *f = w->f;
    bool native = C(_is_native)(f, 1);
    struct C(_side) s = C(_side_of)(f, 1, out);
    int64_t size_B = cpu_dtype_size_B[f->l->operands[1].dtype];
    for (int64_t k = 0, at = 0; k < f->n; k += segment, at += segment + f->pad) {
        struct C(_side) part = C(_moved)(&s, k, 0);
        if (native && C(_beside)(&s, lanes)) {
            C(_store_groups)(&part, segment, lanes / WIDTH, y, at);
            continue;
        }
        for (int64_t g = 0; g * WIDTH < lanes; g++) {
            struct C(_side) to = C(_moved)(&part, 0, g * WIDTH);
            struct C(_array) from = C(_at)(y[g], at);
            int64_t count = C(_lanes_of)(lanes, g);
            native ? C(_store)(&to, segment, count, from)
                   : C(_store_converted)(f, out + (k * s.line + g * WIDTH * s.lane) * size_B, segment, count, from);
        }
    }
}

// --- steps of a larger transform

// Root number t of it, from two tables: the fine ones, then every `fine`-th.
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
        for (int64_t k = 0; k < count; k++) {
            T re, im;
            C(_root)(f, t, &re, &im);
            to.re[k][l] = re;
            to.im[k][l] = im;
            t += step;
            if (t >= f->total) t -= f->total;
        }
    }
}

// Element k of column j by root j k of the larger transform: of the roots of k / POWERS and of k % POWERS.
static void C(_turn)(const struct C(_work) * w, int64_t first, int64_t lanes, int64_t segment, struct C(_array) v)
{
    const struct fft *f = w->f;
    C(_powers)(f, first, lanes, 1, POWERS, w->low);
    C(_powers)(f, first, lanes, POWERS, (f->n + POWERS - 1) / POWERS, w->high);
    for (int64_t k = 0; k < f->n; k++) {
        VEC ar = w->low.re[k % POWERS], ai = w->low.im[k % POWERS];
        VEC br = w->high.re[k / POWERS], bi = w->high.im[k / POWERS];
        int64_t at = k + k / segment * f->pad;
        VEC wr = ar * br - ai * bi, wi = ar * bi + ai * br, r = v.re[at], i = v.im[at];
        v.re[at] = r * wr - i * wi;
        v.im[at] = r * wi + i * wr;
    }
}

// --- all lines

static struct C(_array) C(_take)(VEC **room, int64_t n)
{
    struct C(_array) a = {*room, *room + n};
    *room += 2 * n;
    return a;
}

static bool C(_prepare)(struct C(_work) * w, const struct fft *f)
{
    int64_t part = f->rows > 1 ? f->n / f->rows : f->n, high = f->n / POWERS + 1, roots = f->n / WIDTH + 1;
    if (part < f->rows) part = f->rows;
    int64_t area = f->n + part * f->pad, padded = f->n + f->rows * PAD, twist = f->by_pairs ? f->n / WIDTH : 0;
    int64_t vectors = 2 * (f->groups * (area + padded) + 2 * part + POWERS + high + roots + twist);
    VEC *room = cpu_scratch(CPU_SCRATCH_CUSTOM, sizeof(VEC) * (size_t)vectors);
    if (!room) return false;
    w->f = f;
    for (int64_t g = 0; g < f->groups; g++) w->a[g] = C(_take)(&room, area);
    for (int64_t g = 0; g < f->groups; g++) w->b[g] = C(_take)(&room, padded);
    w->near = C(_take)(&room, part);
    w->far = C(_take)(&room, part);
    w->twist = C(_take)(&room, twist);
    w->low = C(_take)(&room, POWERS);
    w->high = C(_take)(&room, high);
    struct C(_array) table = C(_take)(&room, roots);
    w->root_re = (T *)table.re;
    w->root_im = (T *)table.im;
    const T *pairs = (const T *)(uintptr_t)f->l->operands[2].address;
    for (int64_t i = 0; i < f->n; i++) w->root_re[i] = pairs[2 * i], w->root_im[i] = (T)f->sign * pairs[2 * i + 1];
    return true;
}

// The numbers of the next part, each of which is on a page of its own, are asked of memory while one is transformed:
// number `first` of the lines and those `step` further, or the first of the lines after these.
static inline void C(_ask_part)(const struct C(_side) * s, int64_t first, int64_t step, int64_t n, int64_t groups)
{
    int64_t wide = groups * 2 * WIDTH;
    const T *next = first < step ? s->at + first * s->line : s->at + wide;
    for (int64_t i = 0; i < n; i++, next += step * s->line)
        for (int64_t at = 0; at < wide; at += 64 / (int64_t)sizeof(T)) __builtin_prefetch(next + at);
}

// Lines side by side or one behind the other, as matrices whose numbers are vectors: columns, then rows. x, out: NULL
// where they are not read and written as they lie.
static void C(_columns)(const struct C(_work) * w, const struct C(_side) * x, int64_t groups)
{
    int64_t rows = w->f->rows, columns = w->f->n / rows;
    for (int64_t j = 0; j < columns; j++) {
        if (x) C(_ask_part)(x, j + 1, columns, rows, groups);
        for (int64_t g = 0; g < groups; g++) {
            struct C(_ends) from = x ? C(_in_memory)(x->at + j * x->line + g * 2 * WIDTH, columns * x->line)
                                     : C(_in_array)(w->a[g], j, columns + w->f->pad);
            C(_part)(w, rows, from, C(_in_array)(w->b[g], j, columns + PAD), j);
        }
    }
}

static void C(_rows)(const struct C(_work) * w, const struct C(_side) * out, int64_t groups)
{
    int64_t rows = w->f->rows, columns = w->f->n / rows;
    for (int64_t k = 0; k < rows; k++)
        for (int64_t g = 0; g < groups; g++) {
            struct C(_ends) to = out ? C(_in_memory)(out->at + k * out->line + g * 2 * WIDTH, rows * out->line)
                                     : C(_in_array)(w->a[g], k, rows + w->f->pad);
            C(_part)(w, columns, C(_in_array)(w->b[g], k * (columns + PAD), 1), to, 0);
        }
}

static void C(_together)(const struct C(_work) * w, char *x, char *out, int64_t first, int64_t lanes)
{
    const struct fft *f = w->f;
    int64_t columns = f->pad ? f->n / f->rows : f->n, rows = f->pad ? f->rows : f->n;
    int64_t groups = (lanes + WIDTH - 1) / WIDTH;
    struct C(_side) in = C(_side_of)(f, 0, x), to = C(_side_of)(f, 1, out);
    bool reads = f->by_pairs && C(_is_native)(f, 0) && C(_beside)(&in, lanes);
    bool writes = f->by_pairs && C(_is_native)(f, 1) && C(_beside)(&to, lanes) && !f->total;
    const struct C(_array) *y = f->rows > 1 ? w->a : w->b;
    if (!reads) C(_load_all)(w, x, lanes, columns);
    if (f->rows > 1) {
        C(_columns)(w, reads ? &in : NULL, groups);
        C(_rows)(w, writes ? &to : NULL, groups);
    } else
        for (int64_t g = 0; g < groups; g++)
            C(_part)(w, f->n, C(_in_array)(w->a[g], 0, 1), C(_in_array)(w->b[g], 0, 1), 0);
    for (int64_t g = 0; f->total && g < groups; g++) C(_turn)(w, first + g * WIDTH, C(_lanes_of)(lanes, g), rows, y[g]);
    if (!writes) C(_store_all)(w, out, lanes, rows, y);
}

// --- a line by itself, whose numbers lie side by side: a vector holds as many of a row of its matrix

// Part i of n of the next line is asked of memory while a line is transformed.
static inline void C(_ask)(const char *line, int64_t line_B, int64_t i, int64_t n, bool write)
{
    const char *next = line + line_B;
    for (int64_t at = i * line_B / n; at < (i + 1) * line_B / n; at += 64)
        write ? __builtin_prefetch(next + at, 1) : __builtin_prefetch(next + at);
}

static void C(_twist_square)(const struct C(_work) * w, int64_t from, int64_t from_step, int64_t to, int64_t to_step)
{
    VEC re[WIDTH], im[WIDTH];
    for (int i = 0; i < WIDTH; i++) {
        int64_t at = from + i * from_step;
        VEC a = w->b[0].re[at], b = w->b[0].im[at], c = w->twist.re[at], d = w->twist.im[at];
        re[i] = a * c - b * d;
        im[i] = a * d + b * c;
    }
    C(_transpose)(re);
    C(_transpose)(im);
    for (int i = 0; i < WIDTH; i++) {
        w->a[0].re[to + i * to_step] = re[i];
        w->a[0].im[to + i * to_step] = im[i];
    }
}

static void C(_alone)(const struct C(_work) * w, char *x, char *out)
{
    int64_t rows = w->f->rows, columns = w->f->n / rows, down = rows / WIDTH, across = columns / WIDTH;
    int64_t line_B = w->f->n * 2 * (int64_t)sizeof(T);
    T *from = (T *)(void *)x, *to = (T *)(void *)out;
    for (int64_t j = 0; j < across; j++) {
        C(_ask)(x, line_B, j, across, false);
        C(_part)(w, rows, C(_in_memory)(from + j * 2 * WIDTH, 2 * columns), C(_in_array)(w->b[0], j, across), 0);
    }
    for (int64_t k = 0; k < down; k++)
        for (int64_t j = 0; j < across; j++)
            C(_twist_square)(w, k * WIDTH * across + j, across, j * WIDTH * down + k, down);
    for (int64_t k = 0; k < down; k++) {
        C(_ask)(out, line_B, k, down, true);
        C(_part)(w, columns, C(_in_array)(w->a[0], k, down), C(_in_memory)(to + k * 2 * WIDTH, 2 * rows), 0);
    }
}

static bool C(_is_alone)(const struct fft *f)
{
    bool alone = f->by_pairs && !f->total && f->rows % WIDTH == 0 && f->n / f->rows % WIDTH == 0;
    for (int i = 0; i < 2; i++) {
        struct C(_side) s = C(_side_of)(f, i, NULL);
        alone = alone && C(_is_native)(f, i) && s.line == 2 && s.pair == 1;
    }
    return alone;
}

static void C(_make_twist)(struct C(_work) * w)
{
    int64_t rows = w->f->rows, columns = w->f->n / rows;
    T *re = (T *)w->twist.re, *im = (T *)w->twist.im;
    for (int64_t k = 0; k < rows; k++)
        for (int64_t j = 0; j < columns; j++) {
            re[k * columns + j] = w->root_re[k * j];
            im[k * columns + j] = w->root_im[k * j];
        }
}

static kiln_status C(_lines)(const struct fft *f, int64_t begin, int64_t end)
{
    struct C(_work) work;
    struct walk w;
    bool alone = C(_is_alone)(f);
    if (!C(_prepare)(&work, f)) return error_pending;
    if (alone) C(_make_twist)(&work);
    walk_start(&w, f->l, f->l->rank - 1, begin);
    while (begin < end) {
        int64_t lanes = walk_run(&w), most = alone ? 1 : f->groups * WIDTH;
        if (lanes > end - begin) lanes = end - begin;
        if (lanes > most) lanes = most;
        char *x = w.at[0] + (f->lane >= 0 ? w.inner * walk_stride_B(f->l, 0, f->lane) : 0);
        char *out = w.at[1] + (f->lane >= 0 ? w.inner * walk_stride_B(f->l, 1, f->lane) : 0);
        alone ? C(_alone)(&work, x, out) : C(_together)(&work, x, out, begin, lanes);
        begin += lanes;
        walk_next(&w, lanes);
    }
    return KILN_OK;
}
#undef T
#undef CLS
#undef NAME
#undef WIDTH
#undef VEC
#undef NUMBER
#undef C
#undef JOIN_
#undef JOIN
#undef ORDER
