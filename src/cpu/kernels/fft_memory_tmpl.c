// Included by fft_tmpl.c: lines to and from memory.

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
        for (; k < n; k++) C(_write)(s->at + k * s->line, &from.re[k], &from.im[k], false);
    else if (s->line == 2 && s->pair == 1)
        for (; k + WIDTH <= n; k += WIDTH) {
            C(_transpose)(from.re + k);
            C(_transpose)(from.im + k);
            for (int64_t l = 0; l < lanes; l++)
                C(_write)(s->at + 2 * k + l * s->lane, &from.re[k + l], &from.im[k + l], false);
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
        for (int64_t g = 0; g < groups; g++) {
            const T *from = s->at + k * s->line + g * 2 * WIDTH;
            for (int at_B = 0; at_B < 2 * VEC_B; at_B += LINE_B)
                __builtin_prefetch((const char *)(from + AHEAD * s->line) + at_B);
            C(_read)(from, &to[g].re[at + k], &to[g].im[at + k]);
        }
}

static void C(_store_groups)(const struct C(_side) * s, int64_t n, int64_t groups, const struct C(_array) * from,
                             int64_t at, bool past)
{
    for (int64_t k = 0; k < n; k++)
        for (int64_t g = 0; g < groups; g++)
            C(_write)(s->at + k * s->line + g * 2 * WIDTH, &from[g].re[at + k], &from[g].im[at + k], past);
}

static bool C(_is_native)(const struct fft *f, int operand)
{
    return f->l->operands[operand].dtype == cpu_class_dtype[CLS];
}

static bool C(_beside)(const struct C(_side) * s, int64_t lanes)
{
    return s->lane == 2 && s->pair == 1 && lanes % WIDTH == 0;
}

// Whether results of lines side by side go past the caches: whole lines of these.
static bool C(_past)(const struct fft *f, const struct C(_side) * s)
{
    return f->far[1] && (uintptr_t)s->at % LINE_B == 0 && s->line * (int64_t)sizeof(T) % LINE_B == 0;
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
            C(_store_groups)(&part, segment, lanes / WIDTH, y, at, C(_past)(f, &s));
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
