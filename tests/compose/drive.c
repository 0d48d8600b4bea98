// Runs one case: dtypes, layouts, ways, then gradients.
#include "compose/case.h"
#include <kiln/kiln.h>
#include <stdlib.h>
#include <string.h>

struct drawn {
    size_t n;
    struct host host[CASE_INPUTS];
    bool is_data[CASE_INPUTS]; // of the dtype under test, or a float
};

// --- inputs

static struct random numbers;

// Reads one word of `inputs`: letter, shape, bound.
static const char *read_word(const char *p, char *letter, int *rank, int64_t *dims, int64_t *bound)
{
    *letter = strchr("inbds", *p) ? *p++ : 0;
    *rank = 0;
    *bound = 0;
    if (*p == '-') p++;
    while (*p >= '0' && *p <= '9') {
        char *end;
        dims[(*rank)++] = strtoll(p, &end, 10);
        p = *end == 'x' ? end + 1 : end;
    }
    if (*p == '<') *bound = strtoll(p + 1, (char **)&p, 10);
    while (*p == ' ') p++;
    return p;
}

static void draw(const struct op_case *c, int dtype, struct drawn *d)
{
    bool given = c->lo != c->hi;
    numbers.state = 99991;
    d->n = 0;
    for (const char *p = c->inputs; *p; d->n++) {
        char letter;
        int rank;
        int64_t dims[KILN_MAX_RANK], bound;
        p = read_word(p, &letter, &rank, dims, &bound);
        int own = letter == 'i' || letter == 'n' ? KILN_I64
                  : letter == 'b'                ? KILN_BOOL
                  : letter == 'd'                ? KILN_F64
                  : letter == 's'                ? KILN_F32
                                                 : dtype;
        struct host *h = &d->host[d->n];
        *h = host_new(own, rank, dims);
        d->is_data[d->n] = !letter || letter == 'd' || letter == 's';
        if (letter == 'i' || letter == 'n')
            host_fill(h, &numbers, letter == 'n' ? -(double)bound : 0, (double)bound);
        else
            host_fill(h, &numbers, given ? c->lo : is_float(own) ? -2 : -5, given ? c->hi : is_float(own) ? 2 : 6);
    }
}

static void drop(struct host *h, size_t n)
{
    for (size_t i = 0; i < n; i++) host_free(&h[i]);
}

enum { CAPTURED = 100 }; // a kind of trial; the others are dtypes

// A software driver takes seconds to compile a kernel of products or attention, and most cases have many: of each kind
// of trial one case in `n`, another one for each `kind`.
static bool is_left_out(const struct op_case *c, uint32_t kind, uint32_t n)
{
    uint32_t hash = kind;
    for (const char *p = c->op; *p; p++) hash = hash * 31 + (uint8_t)*p;
    for (const char *p = c->note; *p; p++) hash = hash * 31 + (uint8_t)*p;
    return suite.sparse && (hash * 2654435769u >> 16) % n;
}

// --- ways to call

struct way {
    const struct op_case *c;
    bool between; // cheap ops lie around
    size_t n_by;  // gradients by these inputs; 0: values
    int64_t by[CASE_INPUTS];
    const bool *is_data;
};

static int n_out_of(const struct op_case *c)
{
    return c->n_out ? c->n_out : 1;
}

// By numbers that no dtype rounds, and without effect on the values that integers have.
static kiln_tensor *cheap(kiln_tensor *t, double factor, bool is_data)
{
    kiln_dtype d = kiln_tensor_dtype(t);
    if (is_data && is_float(d)) return kiln_mul(t, kiln_scalar(factor));
    if (d == KILN_BOOL) return kiln_logical_not(kiln_logical_not(t));
    return is_float(d) ? kiln_positive(t)
                       : kiln_bitwise_xor(kiln_bitwise_xor(t, kiln_scalar_int(3)), kiln_scalar_int(3));
}

static kiln_status call(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct way *w = user;
    kiln_tensor *near[CASE_INPUTS];
    for (size_t i = 0; i < n_in; i++) near[i] = w->between ? cheap(in[i], 0.5, w->is_data[i]) : in[i];
    if (kiln_error()) return kiln_error();
    w->c->call(near, out);
    for (size_t i = 0; i < n_out && !kiln_error(); i++)
        if (w->between) out[i] = cheap(out[i], 2, true);
    return kiln_error();
}

// What the reference gives for what the way hands to the op.
static void expected(const struct way *w, const struct drawn *d, struct host *want)
{
    struct host in[CASE_INPUTS] = {{0}};
    for (size_t i = 0; i < d->n; i++) {
        in[i] = host_copy(&d->host[i]);
        for (int64_t k = 0; w->between && d->is_data[i] && is_float(in[i].dtype) && k < in[i].n; k++)
            in[i].v[k] = quantized(in[i].dtype, in[i].v[k] / 2);
    }
    w->c->expect(in, want);
    for (int i = 0; i < n_out_of(w->c); i++)
        for (int64_t k = 0; w->between && is_float(want[i].dtype) && k < want[i].n; k++) want[i].v[k] *= 2;
    drop(in, d->n);
}

// --- comparing

static void compare(const struct op_case *c, kiln_tensor *t, const struct host *want, const char *what)
{
    record.cases++;
    if (!no_error(what) || !same_type(t, want->dtype, want->rank, want->dims, what)) return;
    struct host got = host_read(t);
    if (!no_error(what) || suite.is_null) {
        host_free(&got);
        return;
    }
    if (got.n == 0) record.values++;
    long double largest = 0;
    for (int64_t i = 0; i < got.n; i++)
        if (isfinite(want->v[i])) largest = fmaxl(largest, fabsl(want->v[i]));
    for (int64_t i = 0; i < got.n; i++) {
        long double w = want->v[i], g = got.v[i];
        record.values++;
        if (g == w || (isnan(g) && isnan(w))) continue;
        bool wide = want->dtype == KILN_F64;
        if (is_float(want->dtype) && c->units > 0 &&
            (error_ulp(want->dtype, g, w) <= 0.501L ||
             fabsl(g - w) <=
                 c->units * scalbnl(largest, wide ? -53 : -24) + scalbnl(largest, -fraction_bits(want->dtype))))
            continue;
        record_mistake("%s: element %lld is %.10Lg, expected %.10Lg", what, (long long)i, g, w);
    }
    host_free(&got);
}

static const char *text(const struct op_case *c, int dtype, const char *way)
{
    static char s[256];
    snprintf(s, sizeof s, "%s (%s) %s %s", c->op, c->note, kiln_dtype_name((kiln_dtype)dtype), way);
    return s;
}

static void run(struct way *w, const struct drawn *d, kiln_function *f, kiln_tensor *const *in, const struct host *want,
                int dtype, const char *how)
{
    kiln_tensor *out[CASE_OUTPUTS] = {NULL};
    size_t n = (size_t)n_out_of(w->c);
    kiln_scope *scope = kiln_scope_begin();
    f ? kiln_call(f, in, d->n, out, n) : call(w, in, d->n, out, n);
    for (size_t i = 0; i < n; i++) compare(w->c, out[i], &want[i], text(w->c, dtype, how));
    kiln_scope_end(&scope);
}

static void in_layouts(struct way *w, struct drawn *d, int dtype)
{
    struct host want[CASE_OUTPUTS];
    for (int layout = 0; layout < LAYOUT_COUNT; layout++) {
        kiln_tensor *in[CASE_INPUTS];
        if (suite.sparse && layout % 3 != 0) continue;
        for (size_t i = 0; i < d->n; i++) {
            if (layout == LAYOUT_EXPANDED) host_repeat_first(&d->host[i]);
            in[i] = host_tensor(suite.dev, &d->host[i], (enum host_layout)layout);
        }
        expected(w, d, want);
        run(w, d, NULL, in, want, dtype, host_layout_names[layout]);
        drop(want, (size_t)n_out_of(w->c));
    }
}

static const struct {
    const char *name;
    kiln_capture capture;
} captures[] = {{"STRICT", KILN_CAPTURE_STRICT}, {"AUTO", KILN_CAPTURE_AUTO}, {"TRACE", KILN_CAPTURE_TRACE}};

static void in_captures(struct way *w, const struct drawn *d, int dtype)
{
    struct host want[CASE_OUTPUTS];
    kiln_tensor *in[CASE_INPUTS];
    w->between = true;
    for (size_t i = 0; i < d->n; i++) in[i] = host_tensor(suite.dev, &d->host[i], LAYOUT_CONTIGUOUS);
    expected(w, d, want);
    run(w, d, NULL, in, want, dtype, "eagerly between");
    for (size_t k = 0; k < 3; k++) {
        if (w->c->by_values && captures[k].capture != KILN_CAPTURE_AUTO) continue;
        kiln_function *f = kiln_jit(call, w, KILN_JIT(.capture = captures[k].capture));
        for (int again = 0; again < 2; again++) run(w, d, f, in, want, dtype, captures[k].name);
        kiln_jit_stats s = {.size = sizeof s};
        kiln_function_stats(f, &s);
        if (!w->c->by_values && !record.mistakes && (s.captures != 1 || s.fallbacks))
            record_mistake("%s: %d captures, %d fallbacks", text(w->c, dtype, captures[k].name), (int)s.captures,
                           (int)s.fallbacks);
        kiln_function_free(&f);
    }
    drop(want, (size_t)n_out_of(w->c));
    w->between = false;
}

// --- gradients

static kiln_tensor *weighted(kiln_tensor *t)
{
    kiln_tensor *w = kiln_linspace(kiln_tensor_device(t), kiln_tensor_dtype(t), 0.5, 1.5, kiln_numel(t));
    return kiln_sum(kiln_mul(kiln_reshape(t, KILN_SHAPE(-1)), w), NULL);
}

// A number of all results that have gradients, each element with a weight of its own.
static kiln_status loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct way *w = user;
    kiln_tensor *all[CASE_OUTPUTS];
    kiln_status status = call(user, in, n_in, all, (size_t)n_out_of(w->c));
    if (status) return status;
    out[0] = NULL;
    for (int i = 0; i < n_out_of(w->c); i++) {
        if (!is_float((int)kiln_tensor_dtype(all[i]))) continue;
        out[0] = out[0] ? kiln_add(out[0], weighted(all[i])) : weighted(all[i]);
    }
    (void)n_out;
    return kiln_error();
}

// The same results in a row, not summed: a sum of thousands would hide a small derivative from differences.
static kiln_status results(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct way *w = user;
    kiln_tensor *all[CASE_OUTPUTS], *flat[CASE_OUTPUTS];
    size_t n = 0;
    kiln_status status = call(user, in, n_in, all, (size_t)n_out_of(w->c));
    if (status) return status;
    for (int i = 0; i < n_out_of(w->c); i++)
        if (is_float((int)kiln_tensor_dtype(all[i]))) flat[n++] = kiln_reshape(all[i], KILN_SHAPE(-1));
    out[0] = n == 1 ? flat[0] : kiln_concat(flat, n, 0);
    (void)n_out;
    return kiln_error();
}

static kiln_status gradients(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct way *w = user;
    return kiln_grad(loss, user, in, n_in, KILN_GRAD(.wrt = {w->n_by, w->by}), out, n_out);
}

static void gradients_in_captures(struct way *w, const struct drawn *d, kiln_tensor *const *in)
{
    kiln_tensor *want[CASE_INPUTS], *got[CASE_INPUTS];
    w->between = true;
    gradients(w, in, d->n, want, w->n_by);
    if (!no_error(text(w->c, KILN_F64, "gradients"))) return;
    for (size_t k = 0; k < 3; k++) {
        if (w->c->by_values && captures[k].capture != KILN_CAPTURE_AUTO) continue;
        kiln_function *f = kiln_jit(gradients, w, KILN_JIT(.capture = captures[k].capture));
        kiln_call(f, in, d->n, got, w->n_by);
        for (size_t i = 0; i < w->n_by; i++) {
            struct host h = host_read(want[i]);
            struct op_case near = *w->c;
            near.units = fmax(near.units, 4) * 64;
            if (h.v) compare(&near, got[i], &h, text(w->c, KILN_F64, captures[k].name));
            host_free(&h);
        }
        kiln_function_free(&f);
    }
    w->between = false;
}

// The CPU's run has tried the rules.
static void check_gradients(const struct op_case *c)
{
    int order = suite.sparse ? 1 : c->order;
    struct drawn d;
    kiln_tensor *in[CASE_INPUTS];
    draw(c, KILN_F64, &d);
    struct way w = {.c = c, .is_data = d.is_data};
    for (size_t i = 0; i < d.n; i++) {
        in[i] = host_tensor(suite.dev, &d.host[i], LAYOUT_CONTIGUOUS);
        if (is_float(d.host[i].dtype)) w.by[w.n_by++] = (int64_t)i;
    }
    kiln_gradcheck(results, &w, in, d.n,
                   KILN_GRADCHECK(.eps = 1e-5, .rtol = 1e-6, .atol = 1e-7, .order = order, .wrt = {w.n_by, w.by}));
    record.cases++;
    if (no_error(text(c, KILN_F64, "gradients against differences")) && !c->no_capture)
        gradients_in_captures(&w, &d, in);
    drop(d.host, d.n);
}

// --- all of it

static const struct {
    int dtype;
    unsigned in;
} dtypes[] = {{KILN_F32, IN_F32},     {KILN_F64, IN_F64},      {KILN_F16, IN_HALF},
              {KILN_BF16, IN_HALF},   {KILN_I32, IN_INTEGERS}, {KILN_I64, IN_INTEGERS},
              {KILN_U8, IN_INTEGERS}, {KILN_I16, IN_INTEGERS}, {KILN_BOOL, IN_BOOL}};

void drive_case(const struct op_case *c)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        bool main = dtypes[i].dtype == KILN_F32 || !is_float(dtypes[i].dtype) || !(c->dtypes & IN_F32);
        if (!(c->dtypes & dtypes[i].in) || (!main && is_left_out(c, (uint32_t)i, 4))) continue;
        kiln_scope *scope = kiln_scope_begin();
        struct drawn d;
        draw(c, dtypes[i].dtype, &d);
        struct way w = {.c = c, .is_data = d.is_data};
        bool captured = !suite.sparse || dtypes[i].dtype == KILN_F32 || dtypes[i].dtype == KILN_I32;
        if (!c->no_capture && captured && !is_left_out(c, CAPTURED, 2)) in_captures(&w, &d, dtypes[i].dtype);
        in_layouts(&w, &d, dtypes[i].dtype);
        drop(d.host, d.n);
        kiln_scope_end(&scope);
    }
    if (c->order && !is_left_out(c, KILN_F64, 4)) check_gradients(c);
}
