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

// Roots of unity, the same for all lines.
struct C(_roots) {
    T *re, *im;
};

struct C(_work) {
    const struct fft *f;
    struct C(_roots) root;                // f->n of them
    struct C(_roots) of_rows, of_columns; // of fixed parts, in the order in which these need them
    struct C(_roots) twist;               // root k j of number k of column j: of a line by itself as a matrix
    struct C(_array) a[GROUPS_MOST], b[GROUPS_MOST]; // f->n each, as matrices
    struct C(_array) near, far;                      // twice as many as a part has
    struct C(_array) low, high;                      // of turns
};

#include "cpu/kernels/fft_stages_tmpl.c"

#include "cpu/kernels/fft_memory_tmpl.c"

// --- steps of a larger transform

// Root number t of it, from two tables: the fine ones, a power of two, then every so many-th.
static void C(_root)(const struct fft *f, int64_t t, T *re, T *im)
{
    const T *table = (const T *)(uintptr_t)f->l->operands[3].address;
    const T *low = table + (t & (f->fine - 1)) * 2, *high = table + (f->fine + (t >> f->fine_bits)) * 2;
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

static struct C(_roots) C(_take_roots)(VEC **room, int64_t n)
{
    struct C(_array) a = C(_take)(room, n);
    return (struct C(_roots)){(T *)a.re, (T *)a.im};
}

static bool C(_prepare)(struct C(_work) * w, const struct fft *f)
{
    int64_t part = f->rows > 1 ? f->n / f->rows : f->n, high = f->n / POWERS + 1, roots = f->n / WIDTH + 1;
    if (part < f->rows) part = f->rows;
    int64_t area = f->n + part * f->pad, padded = f->n + f->rows * PAD;
    int64_t fixed = f->is_fixed ? part / WIDTH + 1 : 0, twist = f->is_fixed ? roots : 0;
    int64_t vectors = 2 * (f->groups * (area + padded) + 2 * part + POWERS + high + roots + 2 * fixed + twist);
    VEC *room = cpu_scratch(CPU_SCRATCH_CUSTOM, sizeof(VEC) * (size_t)vectors);
    if (!room) return false;
    w->f = f;
    for (int64_t g = 0; g < f->groups; g++) w->a[g] = C(_take)(&room, area);
    for (int64_t g = 0; g < f->groups; g++) w->b[g] = C(_take)(&room, padded);
    w->near = C(_take)(&room, part);
    w->far = C(_take)(&room, part);
    w->low = C(_take)(&room, POWERS);
    w->high = C(_take)(&room, high);
    w->root = C(_take_roots)(&room, roots);
    w->of_rows = C(_take_roots)(&room, fixed);
    w->of_columns = C(_take_roots)(&room, fixed);
    w->twist = C(_take_roots)(&room, twist);
    const T *pairs = (const T *)(uintptr_t)f->l->operands[2].address;
    for (int64_t i = 0; i < f->n; i++) w->root.re[i] = pairs[2 * i], w->root.im[i] = (T)f->sign * pairs[2 * i + 1];
    if (f->is_fixed) C(_list_roots)(w, f->rows, &w->of_columns);
    if (f->is_fixed) C(_list_roots)(w, f->n / f->rows, &w->of_rows);
    return true;
}

// Lines side by side or one behind the other, as matrices whose numbers are vectors: columns, then rows. x, out: NULL
// where they are not read and written as they lie.
static void C(_columns)(const struct C(_work) * w, const struct C(_side) * x, int64_t groups)
{
    int64_t rows = w->f->rows, columns = w->f->n / rows;
    for (int64_t j = 0; j < columns; j++)
        for (int64_t g = 0; g < groups; g++) {
            struct C(_ends) from = x ? C(_in_memory)(x->at + j * x->line + g * 2 * WIDTH, columns * x->line, false)
                                     : C(_in_array)(w->a[g], j, columns + w->f->pad);
            C(_column)(w, j, from, C(_in_array)(w->b[g], j, columns + PAD));
        }
}

static void C(_rows)(const struct C(_work) * w, const struct C(_side) * out, int64_t groups)
{
    int64_t rows = w->f->rows, columns = w->f->n / rows;
    bool past = out && C(_past)(w->f, out);
    for (int64_t k = 0; k < rows; k++)
        for (int64_t g = 0; g < groups; g++) {
            struct C(_ends) to = out ? C(_in_memory)(out->at + k * out->line + g * 2 * WIDTH, rows * out->line, past)
                                     : C(_in_array)(w->a[g], k, rows + w->f->pad);
            C(_row)(w, C(_in_array)(w->b[g], k * (columns + PAD), 1), to);
        }
}

static void C(_together)(const struct C(_work) * w, char *x, char *out, int64_t first, int64_t lanes)
{
    const struct fft *f = w->f;
    int64_t columns = f->pad ? f->n / f->rows : f->n, rows = f->pad ? f->rows : f->n;
    int64_t groups = (lanes + WIDTH - 1) / WIDTH;
    struct C(_side) in = C(_side_of)(f, 0, x), to = C(_side_of)(f, 1, out);
    bool reads = f->is_fixed && C(_is_native)(f, 0) && C(_beside)(&in, lanes) && !f->far[0];
    bool writes = f->is_fixed && C(_is_native)(f, 1) && C(_beside)(&to, lanes) && !f->total;
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
        VEC a = w->b[0].re[at], b = w->b[0].im[at];
        VEC c = ((const VEC *)w->twist.re)[at], d = ((const VEC *)w->twist.im)[at];
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
        struct C(_ends) column = C(_in_memory)(from + j * 2 * WIDTH, 2 * columns, false);
        C(_fixed_part)(w, rows, &w->of_columns, column, C(_in_array)(w->b[0], j, across), NULL);
    }
    for (int64_t k = 0; k < down; k++)
        for (int64_t j = 0; j < across; j++)
            C(_twist_square)(w, k * WIDTH * across + j, across, j * WIDTH * down + k, down);
    for (int64_t k = 0; k < down; k++) {
        C(_ask)(out, line_B, k, down, true);
        C(_row)(w, C(_in_array)(w->a[0], k, down), C(_in_memory)(to + k * 2 * WIDTH, 2 * rows, false));
    }
}

static bool C(_is_alone)(const struct fft *f)
{
    bool alone = f->is_fixed && !f->total && f->rows % WIDTH == 0 && f->n / f->rows % WIDTH == 0;
    for (int i = 0; i < 2; i++) {
        struct C(_side) s = C(_side_of)(f, i, NULL);
        alone = alone && C(_is_native)(f, i) && s.line == 2 && s.pair == 1;
    }
    return alone;
}

static void C(_list_matrix)(const struct C(_work) * w)
{
    int64_t rows = w->f->rows, columns = w->f->n / rows;
    for (int64_t k = 0; k < rows; k++)
        for (int64_t j = 0; j < columns; j++) C(_set_root)(w, &w->twist, k * columns + j, k * j);
}

static kiln_status C(_lines)(const struct fft *f, int64_t begin, int64_t end)
{
    struct C(_work) work;
    struct walk w;
    bool alone = C(_is_alone)(f);
    if (!C(_prepare)(&work, f)) return error_pending;
    if (f->is_fixed) (alone ? C(_list_matrix) : C(_list_twists))(&work);
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
    if (f->far[1]) stream_end();
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
