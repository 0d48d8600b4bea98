// Sums of products over axes that letters name. Axes have numbers: letters first, then those of "...", counted from the
// end. Operands lose what they have twice, then the first two become one, by a matrix product over the axes that
// nothing else needs, until one is left.
#include "compose/composite.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LETTERS = 52, AXES = LETTERS + KILN_MAX_RANK, OPERANDS_MOST = 64 };

struct axes {
    int n;
    int8_t of[KILN_MAX_RANK + 1];
};

struct part {
    kiln_tensor *t;
    struct axes axes;
};

struct einsum {
    const char *equation;
    size_t n;
    struct part parts[OPERANDS_MOST];
    struct axes result;
    int64_t size[AXES]; // 0: not seen
    bool seen[AXES];
    int count[LETTERS]; // how often a letter occurs
    int wide;           // axes of the longest "..."
};

static int8_t number_of(char c)
{
    if (c >= 'A' && c <= 'Z') return (int8_t)(c - 'A');
    return c >= 'a' && c <= 'z' ? (int8_t)(26 + c - 'a') : -1;
}

static char letter_of(int axis)
{
    return (char)(axis < 26 ? 'A' + axis : 'a' + axis - 26);
}

__attribute__((format(printf, 2, 3))) static bool refuse(const struct einsum *e, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    error_set(KILN_E_ARGUMENT, "\"%.80s\": %s", e->equation, text);
    return false;
}

// --- the equation

// Reads letters up to `end`; n_dots axes stand for "...".
static bool read_term(const struct einsum *e, const char *p, const char *end, int n_dots, struct axes *out, bool *dots)
{
    out->n = 0;
    *dots = false;
    for (; p < end; p++) {
        if (*p == ' ') continue;
        int at = (int)(p - e->equation);
        if (*p == '.') {
            if (end - p < 3 || p[1] != '.' || p[2] != '.' || *dots)
                return refuse(e, *dots ? "a second '.' at %d" : "'.' at %d is no \"...\"", at);
            *dots = true;
            for (int i = n_dots; i > 0 && out->n <= KILN_MAX_RANK; i--) out->of[out->n++] = (int8_t)(LETTERS + i - 1);
            p += 2;
            continue;
        }
        int8_t axis = number_of(*p);
        if (axis < 0) return refuse(e, "'%c' at %d is no letter", *p, at);
        if (out->n == KILN_MAX_RANK)
            return refuse(e, "'%c' at %d is one axis too many, %d is the most", *p, at, KILN_MAX_RANK);
        out->of[out->n++] = axis;
    }
    return true;
}

static int letters_in(const char *p, const char *end)
{
    int n = 0;
    for (; p < end; p++) n += number_of(*p) >= 0;
    return n;
}

static bool read_operand(struct einsum *e, size_t i, const char *p, const char *end)
{
    struct part *part = &e->parts[i];
    int rank = (int)kiln_rank(part->t), letters = letters_in(p, end), n_dots = rank - letters;
    bool dots;
    if (!read_term(e, p, end, n_dots > 0 ? n_dots : 0, &part->axes, &dots)) return false;
    if (n_dots < 0 || (n_dots > 0 && !dots))
        return refuse(e, "\"%.*s\" has %d letters for tensors[%zu] of %s", (int)(end - p), p, letters, i,
                      type_of(part->t).s);
    if (dots && n_dots > e->wide) e->wide = n_dots;
    for (int d = 0; d < part->axes.n; d++) {
        int axis = part->axes.of[d];
        int64_t size = kiln_dims(part->t)[d], before = e->size[axis];
        if (axis < LETTERS) e->count[axis]++;
        if (e->seen[axis] && before != size && before != 1 && size != 1)
            return axis < LETTERS
                       ? refuse(e, "'%c' is %lld and, in tensors[%zu] of %s, %lld", letter_of(axis), (long long)before,
                                i, type_of(part->t).s, (long long)size)
                       : refuse(e, "\"...\" does not broadcast: an axis is %lld and, in tensors[%zu] of %s, %lld",
                                (long long)before, i, type_of(part->t).s, (long long)size);
        if (!e->seen[axis] || before == 1) e->size[axis] = size;
        e->seen[axis] = true;
    }
    return true;
}

static bool read_result(struct einsum *e, const char *arrow)
{
    bool dots, used[AXES] = {false};
    if (!arrow) {
        e->result.n = 0;
        for (int i = e->wide; i > 0; i--) e->result.of[e->result.n++] = (int8_t)(LETTERS + i - 1);
        for (int i = 0; i < LETTERS; i++)
            if (e->count[i] == 1) {
                if (e->result.n == KILN_MAX_RANK) return refuse(e, "the result has more than %d axes", KILN_MAX_RANK);
                e->result.of[e->result.n++] = (int8_t)i;
            }
        return true;
    }
    const char *p = arrow + 2;
    if (!read_term(e, p, p + strlen(p), e->wide, &e->result, &dots)) return false;
    if (e->wide && !dots) return refuse(e, "\"...\" of the operands is not in the result");
    for (int d = 0; d < e->result.n; d++) {
        int axis = e->result.of[d];
        if (axis >= LETTERS) continue;
        if (!e->seen[axis]) return refuse(e, "'%c' of the result is in no operand", letter_of(axis));
        if (used[axis]) return refuse(e, "'%c' is in the result twice", letter_of(axis));
        used[axis] = true;
    }
    return true;
}

static bool read_equation(struct einsum *e, size_t n)
{
    const char *arrow = strstr(e->equation, "->"), *p = e->equation;
    const char *end = arrow ? arrow : p + strlen(p);
    for (size_t i = 0;; i++) {
        const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end;
        if (i == n || (!comma && i + 1 != n)) {
            size_t terms = 1;
            for (const char *c = e->equation; c < end; c++) terms += *c == ',';
            return refuse(e, "has %zu operands, there are %zu", terms, n);
        }
        if (!read_operand(e, i, p, stop)) return false;
        if (!comma) break;
        p = comma + 1;
    }
    return read_result(e, arrow);
}

// --- axes of parts

static int place_of(const struct axes *a, int axis)
{
    for (int d = 0; d < a->n; d++)
        if (a->of[d] == axis) return d;
    return -1;
}

static void drop(struct axes *a, int d)
{
    a->n--;
    for (int i = d; i < a->n; i++) a->of[i] = a->of[i + 1];
}

// Size 1 is broadcast, and an axis that is there twice becomes its diagonal, which is the last.
static void settle(const struct einsum *e, struct part *p)
{
    int64_t dims[KILN_MAX_RANK];
    bool wider = false;
    for (int d = 0; d < p->axes.n; d++) {
        dims[d] = e->size[(int)p->axes.of[d]];
        wider |= dims[d] != kiln_dims(p->t)[d];
    }
    if (wider) p->t = kiln_expand(p->t, (size_t)p->axes.n, dims);
    for (int d = 0; d < p->axes.n; d++)
        for (int k = d + 1; k < p->axes.n; k++) {
            if (p->axes.of[k] != p->axes.of[d]) continue;
            int8_t axis = p->axes.of[d];
            p->t = kiln_diagonal(p->t, 0, d, k);
            drop(&p->axes, k);
            drop(&p->axes, d);
            p->axes.of[p->axes.n++] = axis;
            d--;
            break;
        }
}

// Sums over the axes that are not to be kept.
static void sum_out(struct part *p, const bool *keep)
{
    int64_t axes[KILN_MAX_RANK];
    size_t n = 0;
    kiln_dtype dtype = kiln_tensor_dtype(p->t);
    for (int d = 0; d < p->axes.n; d++)
        if (!keep[(int)p->axes.of[d]]) axes[n++] = d;
    if (!n) return;
    p->t = kiln_cast(kiln_sum(p->t, KILN_REDUCE(.axes = {n, axes})), dtype);
    for (size_t i = n; i-- > 0;) drop(&p->axes, (int)axes[i]);
}

static void ordered(struct part *p, const struct axes *order)
{
    int64_t perm[KILN_MAX_RANK];
    bool same = true;
    for (int d = 0; d < order->n; d++) {
        perm[d] = place_of(&p->axes, order->of[d]);
        same &= perm[d] == d;
    }
    if (!same) p->t = kiln_permute(p->t, (kiln_ints){(size_t)order->n, perm});
    p->axes = *order;
}

static void append(struct axes *a, const struct axes *more)
{
    for (int d = 0; d < more->n; d++) a->of[a->n++] = more->of[d];
}

// --- products

struct einsum_axes {
    struct axes batch, free_a, free_b, summed;
};

static int64_t numel(const struct einsum *e, const struct axes *a)
{
    int64_t n = 1;
    for (int d = 0; d < a->n; d++) n *= e->size[(int)a->of[d]];
    return n;
}

static void split_axes(const struct part *a, const struct part *b, const bool *keep, struct einsum_axes *s)
{
    *s = (struct einsum_axes){0};
    for (int d = 0; d < a->axes.n; d++) {
        int8_t axis = a->axes.of[d];
        struct axes *to = place_of(&b->axes, axis) < 0 ? &s->free_a : keep[(int)axis] ? &s->batch : &s->summed;
        to->of[to->n++] = axis;
    }
    for (int d = 0; d < b->axes.n; d++)
        if (place_of(&a->axes, b->axes.of[d]) < 0) s->free_b.of[s->free_b.n++] = b->axes.of[d];
}

// The axes of the batch stay apart, where there is room: put together, those of a tensor with another order of axes
// would be copied.
static kiln_tensor *as_matrices(const struct einsum *e, const struct einsum_axes *s, kiln_tensor *t,
                                const struct axes *rows, const struct axes *cols)
{
    int64_t dims[KILN_MAX_RANK];
    size_t n = 0;
    if (s->batch.n + 2 > KILN_MAX_RANK)
        dims[n++] = numel(e, &s->batch);
    else
        for (int d = 0; d < s->batch.n; d++) dims[n++] = e->size[(int)s->batch.of[d]];
    dims[n++] = numel(e, rows);
    dims[n++] = numel(e, cols);
    return kiln_reshape(t, n, dims);
}

static bool multiply(const struct einsum *e, struct part *a, struct part *b, const bool *keep)
{
    struct einsum_axes s;
    struct axes order, result;
    split_axes(a, b, keep, &s);
    if (s.batch.n + s.free_a.n + s.free_b.n > KILN_MAX_RANK)
        return refuse(e, "a product on the way has %d axes, %d is the most", s.batch.n + s.free_a.n + s.free_b.n,
                      KILN_MAX_RANK);
    order = s.batch;
    append(&order, &s.free_a);
    result = order;
    append(&order, &s.summed);
    append(&result, &s.free_b);
    ordered(a, &order);
    order = s.batch;
    append(&order, &s.summed);
    append(&order, &s.free_b);
    ordered(b, &order);
    kiln_tensor *left = as_matrices(e, &s, a->t, &s.free_a, &s.summed);
    kiln_tensor *right = as_matrices(e, &s, b->t, &s.summed, &s.free_b);
    kiln_tensor *product = s.summed.n ? kiln_matmul(left, right) : kiln_mul(left, right);
    int64_t dims[KILN_MAX_RANK];
    for (int d = 0; d < result.n; d++) dims[d] = e->size[(int)result.of[d]];
    a->t = kiln_reshape(product, (size_t)result.n, dims);
    a->axes = result;
    return true;
}

static void axes_needed(const struct einsum *e, size_t from, const struct axes *other, bool *keep)
{
    memset(keep, 0, AXES * sizeof *keep);
    for (int d = 0; d < e->result.n; d++) keep[(int)e->result.of[d]] = true;
    for (size_t i = from; i < e->n; i++)
        for (int d = 0; d < e->parts[i].axes.n; d++) keep[(int)e->parts[i].axes.of[d]] = true;
    for (int d = 0; other && d < other->n; d++) keep[(int)other->of[d]] = true;
}

kiln_tensor *compose_einsum(const char *equation, kiln_tensor *const *tensors, size_t n)
{
    struct einsum e = {.equation = equation, .n = n};
    bool keep[AXES];
    if (n < 1 || n > OPERANDS_MOST) {
        error_set(KILN_E_ARGUMENT, "takes 1 to %d tensors, not %zu", OPERANDS_MOST, n);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) e.parts[i].t = tensors[i];
    if (!read_equation(&e, n)) return NULL;
    for (size_t i = 0; i < n; i++) settle(&e, &e.parts[i]);
    struct part *first = &e.parts[0];
    for (size_t i = 1; i < n && !error_pending; i++) {
        axes_needed(&e, i + 1, &e.parts[i].axes, keep);
        sum_out(first, keep);
        axes_needed(&e, i + 1, &first->axes, keep);
        sum_out(&e.parts[i], keep);
        axes_needed(&e, i + 1, NULL, keep);
        if (!multiply(&e, first, &e.parts[i], keep)) return NULL;
    }
    axes_needed(&e, n, NULL, keep);
    sum_out(first, keep);
    ordered(first, &e.result);
    return first->t == tensors[0] ? kiln_alias(first->t) : first->t;
}
