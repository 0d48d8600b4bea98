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
    T *root_re, *root_im;            // f->n of them
    struct C(_array) a[GROUPS_MOST]; // f->n each, as a matrix
    struct C(_array) b, near, far;   // f->n; twice as many as a part has
    struct C(_array) low, high;      // of turns
};

// --- transforms in fast memory

// One stage of Stockham's algorithm (Van Loan, Computational Frameworks for the Fast Fourier Transform, 1.7), which
// needs no reordering: for p < m and radix R, y[R p + k] = w^(p k) sum_j w_R^(j k) x[p + j m], each of them `run`
// elements.
struct C(_stage) {
    struct C(_array) x, y;
    int64_t x_step, y_step; // between elements
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

// In the last stage all of the roots are 1; where there is a twist, results are multiplied by that instead.
#define STAGE(radix)                                                                                         \
    static void C(_radix##radix)(const struct C(_work) * w, const struct C(_stage) * s)                      \
    {                                                                                                        \
        struct C(_array) x = s->x, y = s->y;                                                                 \
        int64_t run = s->run, far = run * s->m * s->x_step, apart = run * s->y_step;                         \
        T sign = (T)w->f->sign;                                                                              \
        for (int64_t p = 0; p < s->m; p++)                                                                   \
            for (int64_t q = 0; q < run; q++) {                                                              \
                NUMBER v[radix];                                                                             \
                int64_t from = (q + run * p) * s->x_step, to = (q + run * radix * p) * s->y_step;            \
                for (int j = 0; j < radix; j++) v[j] = (NUMBER){x.re[from + j * far], x.im[from + j * far]}; \
                C(_butterfly##radix)(v, sign);                                                               \
                y.re[to] = v[0].re;                                                                          \
                y.im[to] = v[0].im;                                                                          \
                for (int k = 1; k < radix; k++) {                                                            \
                    NUMBER r = C(_mul)(v[k], w->root_re[k * p * s->turn], w->root_im[k * p * s->turn]);      \
                    y.re[to + k * apart] = r.re;                                                             \
                    y.im[to + k * apart] = r.im;                                                             \
                }                                                                                            \
            }                                                                                                \
    }                                                                                                        \
    static void C(_last##radix)(const struct C(_work) * w, const struct C(_stage) * s)                       \
    {                                                                                                        \
        struct C(_array) x = s->x, y = s->y;                                                                 \
        int64_t run = s->run, step = s->y_step, twist = s->twist;                                            \
        T sign = (T)w->f->sign;                                                                              \
        for (int64_t q = 0; q < run; q++) {                                                                  \
            NUMBER v[radix];                                                                                 \
            for (int j = 0; j < radix; j++)                                                                  \
                v[j] = (NUMBER){x.re[(q + j * run) * s->x_step], x.im[(q + j * run) * s->x_step]};           \
            C(_butterfly##radix)(v, sign);                                                                   \
            for (int k = 0; k < radix; k++) {                                                                \
                int64_t t = (q + k * run) * twist, to = (q + k * run) * step;                                \
                NUMBER r = twist ? C(_mul)(v[k], w->root_re[t], w->root_im[t]) : v[k];                       \
                y.re[to] = r.re;                                                                             \
                y.im[to] = r.im;                                                                             \
            }                                                                                                \
        }                                                                                                    \
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
                    sum = C(_add)(sum, C(_mul)(x, w->root_re[t], w->root_im[t]));
                }
                s->y.re[to] = sum.re;
                s->y.im[to] = sum.im;
            }
}

// A part of n numbers, x_step apart, to others, y_step apart; number k of these times root k twist of the line. There
// is one number at least.
static void C(_part)(const struct C(_work) * w, int64_t n, struct C(_array) x, int64_t x_step, struct C(_array) y,
                     int64_t y_step, int64_t twist)
{
    struct C(_stage) s = {.x = x, .x_step = x_step, .run = 1, .turn = w->f->n / n};
    struct C(_array) turns[2] = {w->near, w->far};
    int turn = 0;
    if (n == 1) *y.re = *x.re, *y.im = *x.im;
    for (int64_t length = n; length > 1; length = s.m) {
        int64_t radix = next_radix(length);
        s.m = length / radix;
        bool last = s.m == 1;
        s.y = last ? y : turns[turn ^= 1];
        s.y_step = last ? y_step : 1;
        s.twist = last ? twist : 0;
        switch (radix) {
        case 2: (last ? C(_last2) : C(_radix2))(w, &s); break;
        case 3: (last ? C(_last3) : C(_radix3))(w, &s); break;
        case 4: (last ? C(_last4) : C(_radix4))(w, &s); break;
        case 5: (last ? C(_last5) : C(_radix5))(w, &s); break;
        case 8: (last ? C(_last8) : C(_radix8))(w, &s); break;
        default: C(_radix)(w, &s, radix);
        }
        s.run *= radix;
        s.turn *= radix;
        s.x = s.y;
        s.x_step = 1;
    }
}

// All of a, whose elements lie as a matrix does: at once, or as columns and rows that fit into the fastest memory. The
// result is the transpose of one.
static struct C(_array) C(_transform)(const struct C(_work) * w, struct C(_array) a)
{
    int64_t n = w->f->n, rows = w->f->rows, columns = n / rows, apart = columns + PAD, pad = w->f->pad;
    if (rows == 1) {
        C(_part)(w, n, a, 1, w->b, 1, 0);
        return w->b;
    }
    for (int64_t j = 0; j < columns; j++) C(_part)(w, rows, C(_at)(a, j), columns + pad, C(_at)(w->b, j), apart, j);
    for (int64_t k = 0; k < rows; k++) C(_part)(w, columns, C(_at)(w->b, k * apart), 1, C(_at)(a, k), rows + pad, 0);
    return a;
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
    bool native = f->l->operands[0].dtype == cpu_class_dtype[CLS];
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
    bool native = f->l->operands[1].dtype == cpu_class_dtype[CLS];
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
    int64_t area = f->n + part * f->pad;
    int64_t vectors = 2 * (f->groups * area + f->n + f->rows * PAD + 2 * part + POWERS + high + roots);
    VEC *room = cpu_scratch(CPU_SCRATCH_CUSTOM, sizeof(VEC) * (size_t)vectors);
    if (!room) return false;
    w->f = f;
    for (int64_t g = 0; g < f->groups; g++) w->a[g] = C(_take)(&room, area);
    w->b = C(_take)(&room, f->n + f->rows * PAD);
    w->near = C(_take)(&room, part);
    w->far = C(_take)(&room, part);
    w->low = C(_take)(&room, POWERS);
    w->high = C(_take)(&room, high);
    struct C(_array) table = C(_take)(&room, roots);
    w->root_re = (T *)table.re;
    w->root_im = (T *)table.im;
    const T *pairs = (const T *)(uintptr_t)f->l->operands[2].address;
    for (int64_t i = 0; i < f->n; i++) w->root_re[i] = pairs[2 * i], w->root_im[i] = (T)f->sign * pairs[2 * i + 1];
    return true;
}

static kiln_status C(_lines)(const struct fft *f, int64_t begin, int64_t end)
{
    struct C(_work) work;
    struct walk w;
    if (!C(_prepare)(&work, f)) return error_pending;
    int64_t columns = f->pad ? f->n / f->rows : f->n, rows = f->pad ? f->rows : f->n;
    walk_start(&w, f->l, f->l->rank - 1, begin);
    while (begin < end) {
        int64_t lanes = walk_run(&w);
        if (lanes > end - begin) lanes = end - begin;
        if (lanes > f->groups * WIDTH) lanes = f->groups * WIDTH;
        char *x = w.at[0] + (f->lane >= 0 ? w.inner * walk_stride_B(f->l, 0, f->lane) : 0);
        char *out = w.at[1] + (f->lane >= 0 ? w.inner * walk_stride_B(f->l, 1, f->lane) : 0);
        struct C(_array) y[GROUPS_MOST];
        C(_load_all)(&work, x, lanes, columns);
        for (int64_t g = 0; g * WIDTH < lanes; g++) {
            y[g] = C(_transform)(&work, work.a[g]);
            if (f->total) C(_turn)(&work, begin + g * WIDTH, C(_lanes_of)(lanes, g), rows, y[g]);
        }
        C(_store_all)(&work, out, lanes, rows, y);
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
