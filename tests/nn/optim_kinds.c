// Every optimiser beside its formula again, in double and from the paper: plain, with decay, eagerly and captured;
// state that is saved; convergence; how many launches there are.
#include <kiln/jit.h>
#include <kiln/nn.h>
#include <kiln/ops.h>
#include <kiln/optim.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { R = 3, C = 4, N = R * C, STEPS = 40 };

static kiln_device *dev;
static kiln_scope *scope;

static int begin(void **state)
{
    kiln_error_clear();
    scope = kiln_scope_begin();
    return scope ? 0 : -1;
}

static int end(void **state)
{
    if (kiln_error()) {
        fprintf(stderr, "left pending: %s\n", kiln_error_message());
        return -1;
    }
    kiln_scope_end(&scope);
    return 0;
}

static void ok(kiln_status status)
{
    if (status) fail_msg("%s", kiln_error_message());
}

static void expect_error(kiln_status code, const char *text)
{
    assert_string_equal(kiln_status_name(kiln_error()), kiln_status_name(code));
    if (!strstr(kiln_error_message(), text)) fail_msg("\"%s\" does not hold \"%s\"", kiln_error_message(), text);
    kiln_error_clear();
}

// Numbers of the host that change from step to step, as a gradient that also depends on the parameter.
static double slope(int i, int t, double p)
{
    return sin(1.7 * i + 0.9 * t) + 0.3 * p + 0.1;
}

struct model {
    double p[N], a[N], b[N], d[N], e[N];
    double sa[4096], sb[4096]; // pairs of L-BFGS
    int pairs;
};
typedef void (*model_fn)(struct model *m, const double *g, int t);

static double norm(const double *v, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++) s += v[i] * v[i];
    return sqrt(s);
}

// --- the formulas, from the papers

static void adagrad(struct model *m, const double *g, int t)
{
    for (int i = 0; i < N; i++) {
        if (t == 1) m->a[i] = 0.1;
        m->a[i] += g[i] * g[i];
        m->p[i] -= 0.05 / (1 + (t - 1) * 0.01) * g[i] / (sqrt(m->a[i]) + 1e-10);
    }
}

static void adagrad_decay(struct model *m, const double *g, int t)
{
    for (int i = 0; i < N; i++) {
        double s = g[i] + 0.1 * m->p[i];
        m->a[i] += s * s;
        m->p[i] -= 0.05 * s / (sqrt(m->a[i]) + 1e-10);
    }
}

static void adadelta(struct model *m, const double *g, int t)
{
    for (int i = 0; i < N; i++) {
        double s = g[i] + 0.1 * m->p[i];
        m->a[i] = 0.9 * m->a[i] + 0.1 * s * s;
        double d = sqrt(m->b[i] + 1e-6) / sqrt(m->a[i] + 1e-6) * s;
        m->b[i] = 0.9 * m->b[i] + 0.1 * d * d;
        m->p[i] -= 0.5 * d;
    }
}

static void adamax(struct model *m, const double *g, int t)
{
    for (int i = 0; i < N; i++) {
        double s = g[i] + 0.1 * m->p[i];
        m->a[i] = 0.9 * m->a[i] + 0.1 * s;
        m->b[i] = fmax(0.99 * m->b[i], fabs(s) + 1e-8);
        m->p[i] -= 0.02 / (1 - pow(0.9, t)) * m->a[i] / m->b[i];
    }
}

static double nadam_mu(int t)
{
    return 0.9 * (1 - 0.5 * pow(0.96, t * 0.004));
}

static void nadam(struct model *m, const double *g, int t, double decay, double decoupled)
{
    double product = 1;
    for (int k = 1; k <= t; k++) product *= nadam_mu(k);
    for (int i = 0; i < N; i++) {
        double s = g[i] + decay * m->p[i];
        m->p[i] -= 0.02 * decoupled * m->p[i];
        m->a[i] = 0.9 * m->a[i] + 0.1 * s;
        m->b[i] = 0.999 * m->b[i] + 0.001 * s * s;
        double v = sqrt(m->b[i] / (1 - pow(0.999, t))) + 1e-8;
        m->p[i] -= 0.02 * (1 - nadam_mu(t)) * s / (1 - product) / v;
        m->p[i] -= 0.02 * nadam_mu(t + 1) * m->a[i] / (1 - product * nadam_mu(t + 1)) / v;
    }
}

static void nadam_decay(struct model *m, const double *g, int t)
{
    nadam(m, g, t, 0.1, 0);
}

static void nadam_decoupled(struct model *m, const double *g, int t)
{
    nadam(m, g, t, 0, 0.1);
}

static void radam(struct model *m, const double *g, int t)
{
    double most = 2 / (1 - 0.99) - 1, length = most - 2 * t * pow(0.99, t) / (1 - pow(0.99, t));
    for (int i = 0; i < N; i++) {
        double s = g[i] + 0.1 * m->p[i];
        m->a[i] = 0.9 * m->a[i] + 0.1 * s;
        m->b[i] = 0.99 * m->b[i] + 0.01 * s * s;
        double step = m->a[i] / (1 - pow(0.9, t));
        if (length > 5)
            step *= sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) /
                    (sqrt(m->b[i] / (1 - pow(0.99, t))) + 1e-8);
        m->p[i] -= 0.02 * step;
    }
}

static void lion(struct model *m, const double *g, int t)
{
    for (int i = 0; i < N; i++) {
        double c = 0.9 * m->a[i] + 0.1 * g[i];
        m->p[i] -= 0.01 * ((c > 0) - (c < 0) + 0.1 * m->p[i]);
        m->a[i] = 0.99 * m->a[i] + 0.01 * g[i];
    }
}

static void lamb(struct model *m, const double *g, int t)
{
    double u[N];
    for (int i = 0; i < N; i++) {
        m->a[i] = 0.9 * m->a[i] + 0.1 * g[i];
        m->b[i] = 0.999 * m->b[i] + 0.001 * g[i] * g[i];
        u[i] = m->a[i] / (1 - pow(0.9, t)) / (sqrt(m->b[i] / (1 - pow(0.999, t))) + 1e-6) + 0.1 * m->p[i];
    }
    double trust = norm(m->p, N) / norm(u, N);
    for (int i = 0; i < N; i++) m->p[i] -= 0.02 * trust * u[i];
}

// With sums along rows and columns, as the paper has it.
static void adafactor(struct model *m, const double *g, int t)
{
    double b = 1 - pow(t, -0.8), u[N], total = 0;
    for (int r = 0; r < R; r++) {
        double s = 0;
        for (int c = 0; c < C; c++) s += g[r * C + c] * g[r * C + c] + 1e-30;
        m->a[r] = b * m->a[r] + (1 - b) * s;
        total += m->a[r];
    }
    for (int c = 0; c < C; c++) {
        double s = 0;
        for (int r = 0; r < R; r++) s += g[r * C + c] * g[r * C + c] + 1e-30;
        m->b[c] = b * m->b[c] + (1 - b) * s;
    }
    for (int i = 0; i < N; i++) u[i] = g[i] / sqrt(m->a[i / C] * m->b[i % C] / total);
    double size = fmax(1e-3, norm(m->p, N) / sqrt(N)), clip = fmax(1, norm(u, N) / sqrt(N));
    double rate = fmin(0.05, 1 / sqrt(t)) * size;
    for (int i = 0; i < N; i++) m->p[i] = m->p[i] * (1 - 0.05 * 0.1) - rate * u[i] / clip;
}

static void adafactor_row(struct model *m, const double *g, int t)
{
    double b = 1 - pow(t, -0.8), u[N];
    for (int i = 0; i < N; i++) {
        m->a[i] = b * m->a[i] + (1 - b) * (g[i] * g[i] + 1e-30);
        u[i] = g[i] / sqrt(m->a[i]);
    }
    double size = fmax(1e-3, norm(m->p, N) / sqrt(N)), clip = fmax(1, norm(u, N) / sqrt(N) / 0.5);
    for (int i = 0; i < N; i++) m->p[i] -= fmin(0.05, 1 / sqrt(t)) * size * u[i] / clip;
}

// X times what the polynomial says, for X of R rows and C columns, or the other way round.
static void orthogonal(double *x, int rows, int columns)
{
    for (int k = 0; k < 5; k++) {
        double gram[C][C] = {{0}}, poly[C][C], y[N];
        for (int i = 0; i < columns; i++) // X^T X: from the right, the same polynomial
            for (int j = 0; j < columns; j++)
                for (int r = 0; r < rows; r++) gram[i][j] += x[r * columns + i] * x[r * columns + j];
        for (int i = 0; i < columns; i++)
            for (int j = 0; j < columns; j++) {
                double square = 0;
                for (int l = 0; l < columns; l++) square += gram[i][l] * gram[l][j];
                poly[i][j] = -4.7750 * gram[i][j] + 2.0315 * square + (i == j ? 3.4445 : 0);
            }
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < columns; j++) {
                y[r * columns + j] = 0;
                for (int l = 0; l < columns; l++) y[r * columns + j] += x[r * columns + l] * poly[l][j];
            }
        memcpy(x, y, sizeof y);
    }
}

static void muon_of(struct model *m, const double *g, int rows, int columns, bool nesterov)
{
    double x[N];
    for (int i = 0; i < N; i++) {
        m->a[i] = 0.95 * m->a[i] + g[i];
        x[i] = nesterov ? g[i] + 0.95 * m->a[i] : m->a[i];
    }
    double length = norm(x, N) + 1e-7;
    for (int i = 0; i < N; i++) x[i] /= length;
    orthogonal(x, rows, columns);
    for (int i = 0; i < N; i++)
        m->p[i] = m->p[i] * (1 - 0.02 * 0.1) - 0.02 * sqrt(fmax(1, (double)rows / columns)) * x[i];
}

static void muon(struct model *m, const double *g, int t)
{
    muon_of(m, g, R, C, true);
}

static void muon_tall(struct model *m, const double *g, int t)
{
    muon_of(m, g, C, R, false);
}

// Two loops over the pairs that there are; a: the last step, b: the gradient where it began.
static void lbfgs(struct model *m, const double *g, int t)
{
    enum { MOST = 3 };
    double y[N], q[N], alpha[MOST], curvature = 0, sum = 0;
    for (int i = 0; i < N; i++) {
        y[i] = g[i] - m->b[i];
        curvature += y[i] * m->a[i];
        sum += fabs(g[i]);
    }
    if (t > 1 && curvature > 1e-10) {
        memcpy(m->sa + m->pairs * N, m->a, sizeof m->a);
        memcpy(m->sb + m->pairs++ * N, y, sizeof y);
    }
    memcpy(q, g, sizeof q);
    int first = m->pairs > MOST ? m->pairs - MOST : 0;
    double gamma = 1;
    for (int k = m->pairs - 1; k >= first; k--) {
        const double *s = m->sa + k * N, *v = m->sb + k * N;
        double sy = 0, sq = 0, yy = 0;
        for (int i = 0; i < N; i++) sy += s[i] * v[i], sq += s[i] * q[i], yy += v[i] * v[i];
        alpha[k - first] = sq / sy;
        if (k == m->pairs - 1) gamma = sy / yy;
        for (int i = 0; i < N; i++) q[i] -= alpha[k - first] * v[i];
    }
    for (int i = 0; i < N; i++) q[i] *= gamma;
    for (int k = first; k < m->pairs; k++) {
        const double *s = m->sa + k * N, *v = m->sb + k * N;
        double sy = 0, yq = 0;
        for (int i = 0; i < N; i++) sy += s[i] * v[i], yq += v[i] * q[i];
        for (int i = 0; i < N; i++) q[i] += s[i] * (alpha[k - first] - yq / sy);
    }
    double rate = 0.1 * (m->pairs ? 1 : fmin(1, 1 / sum));
    for (int i = 0; i < N; i++) {
        m->a[i] = -rate * q[i];
        m->b[i] = g[i];
        m->p[i] += m->a[i];
    }
}

// --- the same in the library

#define MAKE(name, ...)                             \
    static kiln_optim *make_##name(kiln_tensor **p) \
    {                                               \
        return __VA_ARGS__;                         \
    }
MAKE(adagrad, kiln_optim_adagrad(p, 1, KILN_ADAGRAD(.lr = 0.05, .lr_decay = 0.01, .initial_accumulator = 0.1)))
MAKE(adagrad_decay, kiln_optim_adagrad(p, 1, KILN_ADAGRAD(.lr = 0.05, .weight_decay = 0.1)))
MAKE(adadelta, kiln_optim_adadelta(p, 1, KILN_ADADELTA(.lr = 0.5, .weight_decay = 0.1)))
MAKE(adamax, kiln_optim_adamax(p, 1, KILN_ADAM(.lr = 0.02, .beta2 = 0.99, .weight_decay = 0.1)))
MAKE(nadam, kiln_optim_nadam(p, 1, KILN_NADAM(.lr = 0.02, .weight_decay = 0.1)))
MAKE(nadam_decoupled, kiln_optim_nadam(p, 1, KILN_NADAM(.lr = 0.02, .weight_decay = 0.1, .decoupled = true)))
MAKE(radam, kiln_optim_radam(p, 1, KILN_ADAM(.lr = 0.02, .beta2 = 0.99, .weight_decay = 0.1)))
MAKE(lion, kiln_optim_lion(p, 1, KILN_LION(.lr = 0.01, .weight_decay = 0.1)))
MAKE(lamb, kiln_optim_lamb(p, 1, KILN_ADAM(.lr = 0.02, .weight_decay = 0.1)))
MAKE(adafactor, kiln_optim_adafactor(p, 1, KILN_ADAFACTOR(.lr = 0.05, .weight_decay = 0.1)))
MAKE(adafactor_row, kiln_optim_adafactor(p, 1, KILN_ADAFACTOR(.lr = 0.05, .clip = 0.5)))
MAKE(muon, kiln_optim_muon(p, 1, KILN_MUON(.weight_decay = 0.1)))
MAKE(muon_tall, kiln_optim_muon(p, 1, KILN_MUON(.weight_decay = 0.1, .plain = true)))
MAKE(lbfgs, kiln_optim_lbfgs(p, 1, KILN_LBFGS(.lr = 0.1, .history = 3)))

static const struct kind {
    const char *name;
    model_fn step;
    kiln_optim *(*make)(kiln_tensor **p);
    size_t slots;
    int64_t rows, columns; // rows 0: one axis
    bool whole;            // the count of launches depends on nothing but the kind
} kinds[] = {
    {"adagrad", adagrad, make_adagrad, 1, R, C, false},
    {"adagrad with decay", adagrad_decay, make_adagrad_decay, 1, R, C, false},
    {"adadelta", adadelta, make_adadelta, 2, R, C, false},
    {"adamax", adamax, make_adamax, 2, R, C, false},
    {"nadam", nadam_decay, make_nadam, 2, R, C, false},
    {"nadam, decoupled", nadam_decoupled, make_nadam_decoupled, 2, R, C, false},
    {"radam", radam, make_radam, 2, R, C, false},
    {"lion", lion, make_lion, 1, R, C, false},
    {"lamb", lamb, make_lamb, 2, R, C, true},
    {"adafactor", adafactor, make_adafactor, 2, R, C, true},
    {"adafactor of one axis", adafactor_row, make_adafactor_row, 1, 0, N, true},
    {"muon", muon, make_muon, 1, R, C, true},
    {"muon of a tall matrix", muon_tall, make_muon_tall, 1, C, R, true},
    {"lbfgs", lbfgs, make_lbfgs, 4, R, C, true},
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

static kiln_tensor *of_kind(const struct kind *k, kiln_dtype dtype, const double *v)
{
    const int64_t dims[] = {k->rows, k->columns};
    kiln_tensor *t = kiln_from_data(dev, KILN_F64, k->rows ? 2 : 1, k->rows ? dims : dims + 1, v);
    return kiln_cast(t, dtype);
}

static void start(double *v)
{
    for (int i = 0; i < N; i++) v[i] = cos(i + 1.0);
}

static void read_doubles(kiln_tensor *t, double *out)
{
    kiln_scope *inner = kiln_scope_begin();
    ok(kiln_read(kiln_cast(t, KILN_F64), out, N * sizeof *out));
    kiln_scope_end(&inner);
}

// A step whose gradient is that of sum(p (x + 0.15 p)): x + 0.3 p.
struct train {
    kiln_tensor *p;
    kiln_optim *opt;
};

static kiln_status step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct train *t = user;
    kiln_tensor *loss = kiln_sum(kiln_mul(t->p, kiln_add(in[0], kiln_mul(t->p, 0.15))), NULL);
    kiln_status status = kiln_backward(loss, NULL);
    out[0] = loss;
    return status ? status : kiln_optim_step(t->opt);
}

static kiln_tensor *inputs(const struct kind *k, kiln_dtype dtype, int t)
{
    double x[N];
    for (int i = 0; i < N; i++) x[i] = slope(i, t, 0);
    return of_kind(k, dtype, x);
}

static void compare(const struct kind *k, const double *got, const double *want, int t, double tolerance)
{
    for (int i = 0; i < N; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance * (1 + fabs(want[i]))))
            fail_msg("%s, step %d, element %d: %.15g, expected %.15g", k->name, t, i, got[i], want[i]);
}

// mode: 0 eagerly, else what kiln_jit is told.
static void follow(const struct kind *k, kiln_dtype dtype, double tolerance, const kiln_jit_opts *jit)
{
    static struct model m;
    memset(&m, 0, sizeof m);
    start(m.p);
    struct train t = {.p = kiln_parameter(of_kind(k, dtype, m.p), "p")};
    read_doubles(t.p, m.p);
    t.opt = k->make(&t.p);
    if (!t.opt) fail_msg("%s: %s", k->name, kiln_error_message());
    assert_int_equal(kiln_optim_state(t.opt, NULL, NULL, 0), k->slots);
    kiln_function *f = jit ? kiln_jit(step, &t, jit) : NULL;
    for (int i = 1; i <= STEPS; i++) {
        kiln_scope *inner = kiln_scope_begin();
        kiln_tensor *x = inputs(k, dtype, i), *loss;
        double xs[N], g[N], got[N];
        read_doubles(x, xs);
        ok(f ? kiln_call(f, &x, 1, &loss, 1) : step(&t, &x, 1, &loss, 1));
        for (int j = 0; j < N; j++) g[j] = xs[j] + 0.3 * m.p[j];
        k->step(&m, g, i);
        read_doubles(t.p, got);
        compare(k, got, m.p, i, tolerance);
        kiln_scope_end(&inner);
    }
    assert_int_equal(kiln_optim_steps(t.opt), STEPS);
    kiln_function_free(&f);
    kiln_optim_free(&t.opt);
}

static void they_follow_their_formulas_in_double(void **state)
{
    for (size_t k = 0; k < N_KINDS; k++) follow(&kinds[k], KILN_F64, 1e-9, NULL);
}

static void they_follow_their_formulas_in_single(void **state)
{
    for (size_t k = 0; k < N_KINDS; k++) follow(&kinds[k], KILN_F32, 2e-3, NULL);
}

static void captured_steps_are_the_same(void **state)
{
    for (size_t k = 0; k < N_KINDS; k++) {
        follow(&kinds[k], KILN_F64, 1e-9, KILN_JIT(.capture = KILN_CAPTURE_STRICT));
        follow(&kinds[k], KILN_F64, 1e-9, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    }
}

// Five steps, then a second optimiser goes on from the saved state: the same bits.
static void saved_runs_go_on(void **state)
{
    for (size_t k = 0; k < N_KINDS; k++) {
        double v[N];
        start(v);
        struct train a = {.p = kiln_parameter(of_kind(&kinds[k], KILN_F32, v), "p")};
        struct train b = {.p = kiln_parameter(of_kind(&kinds[k], KILN_F32, v), "p")};
        a.opt = kinds[k].make(&a.p);
        b.opt = kinds[k].make(&b.p);
        kiln_tensor *loss, *from[4], *to[4];
        const char *names[4];
        for (int t = 1; t <= 5; t++) {
            kiln_tensor *x = inputs(&kinds[k], KILN_F32, t);
            ok(step(&a, &x, 1, &loss, 1));
        }
        size_t n = kiln_optim_state(a.opt, names, from, 4);
        assert_int_equal(kiln_optim_state(b.opt, NULL, to, 4), n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(strncmp(names[i], "optim.", 6), 0);
            ok(kiln_assign(to[i], from[i]));
        }
        kiln_no_grad_begin();
        ok(kiln_assign(b.p, a.p));
        kiln_no_grad_end();
        ok(kiln_optim_set_steps(b.opt, kiln_optim_steps(a.opt)));
        for (int t = 6; t <= 10; t++) {
            kiln_tensor *x = inputs(&kinds[k], KILN_F32, t);
            ok(step(&a, &x, 1, &loss, 1));
            ok(step(&b, &x, 1, &loss, 1));
        }
        float p[N], q[N];
        ok(kiln_read(a.p, p, sizeof p));
        ok(kiln_read(b.p, q, sizeof q));
        assert_memory_equal(p, q, sizeof p);
        kiln_optim_free(&a.opt);
        kiln_optim_free(&b.opt);
    }
}

static void narrow_parameters_are_moved(void **state)
{
    for (size_t k = 0; k < N_KINDS; k++) follow(&kinds[k], KILN_F16, 0.2, NULL);
}

// --- launches

static uint64_t launches(void)
{
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_get_stats(dev, &stats);
    return stats.launches;
}

static uint64_t launches_of(kiln_optim *(*make)(kiln_tensor **), int64_t size)
{
    kiln_tensor *p = kiln_parameter(kiln_full(dev, KILN_F32, KILN_SHAPE(size, size), 0.5), "p");
    kiln_optim *opt = make(&p);
    assert_non_null(opt);
    for (int i = 0; i < 2; i++) {
        ok(kiln_set_gradient(p, kiln_full(dev, KILN_F32, KILN_SHAPE(size, size), 0.25)));
        if (i == 0) ok(kiln_optim_step(opt));
    }
    uint64_t before = launches();
    ok(kiln_optim_step(opt));
    uint64_t n = launches() - before;
    kiln_optim_free(&opt);
    return n;
}

static void launches_do_not_grow_by_element(void **state)
{
    for (size_t k = 0; k < N_KINDS; k++) {
        if (!kinds[k].rows) continue;
        uint64_t small = launches_of(kinds[k].make, 4), large = launches_of(kinds[k].make, 64);
        assert_true(small > 0 && small <= (kinds[k].whole ? 70 : 16));
        if (small != large)
            fail_msg("%s: %llu launches, of larger parameters %llu", kinds[k].name, (unsigned long long)small,
                     (unsigned long long)large);
    }
}

// --- closures and convergence

static int evaluations;

static kiln_tensor *rosenbrock(void *user)
{
    kiln_tensor *p = *(kiln_tensor **)user, *x = kiln_narrow(p, 0, 0, 1), *y = kiln_narrow(p, 0, 1, 1);
    kiln_tensor *valley = kiln_mul(100, kiln_square(kiln_sub(y, kiln_square(x))));
    kiln_tensor *loss = kiln_sum(kiln_add(valley, kiln_square(kiln_sub(1, x))), NULL);
    evaluations++;
    return kiln_backward(loss, NULL) ? NULL : loss;
}

static void a_valley_is_followed(void **state)
{
    kiln_tensor *p = kiln_parameter(kiln_from_data(dev, KILN_F64, KILN_SHAPE(2), (double[]){-1.2, 1}), "p");
    kiln_optim *opt = kiln_optim_lbfgs(&p, 1, KILN_LBFGS(.iterations = 100));
    double loss, first;
    ok(kiln_optim_step_closure(opt, rosenbrock, &p, &first));
    assert_true(fabs(first - 24.2) < 1e-9);
    evaluations = 0;
    ok(kiln_optim_step_closure(opt, rosenbrock, &p, &loss));
    double v[2];
    ok(kiln_read(p, v, sizeof v));
    if (!(loss < 1e-12 && fabs(v[0] - 1) < 1e-6 && fabs(v[1] - 1) < 1e-6))
        fail_msg("loss %g at %g, %g", loss, v[0], v[1]);
    assert_true(evaluations < 5); // there was nothing more to gain
    assert_int_equal(kiln_optim_steps(opt), 2);
    kiln_optim_free(&opt);
}

struct squares {
    kiln_tensor *x, *y, *w;
};

static kiln_tensor *least_squares(void *user)
{
    struct squares *s = user;
    kiln_tensor *loss = kiln_mean(kiln_square(kiln_sub(kiln_matmul(s->x, s->w), s->y)), NULL);
    return kiln_backward(loss, NULL) ? NULL : loss;
}

static void least_squares_are_found(void **state)
{
    kiln_seed(dev, 3);
    for (size_t k = 0; k < N_KINDS; k++) {
        if (k == 2 || k == 9) continue; // Adadelta starts slowly; Adafactor's updates do not shrink
        struct squares s = {.x = kiln_normal(dev, KILN_F32, KILN_SHAPE(64, R), 0, 1)};
        kiln_tensor *want = kiln_normal(dev, KILN_F32, KILN_SHAPE(R, C), 0, 1);
        s.y = kiln_matmul(s.x, want);
        s.w = kiln_parameter(kiln_full(dev, KILN_F32, KILN_SHAPE(R, C), 0.1), "w");
        kiln_optim *opt = k == N_KINDS - 1 ? kiln_optim_lbfgs(&s.w, 1, NULL) : kinds[k].make(&s.w);
        if (!opt) fail_msg("%s: %s", kinds[k].name, kiln_error_message());
        bool searches = k == N_KINDS - 1;
        int steps = searches ? 5 : 600;
        if (!searches) ok(kiln_optim_set_schedule(opt, kiln_schedule_polynomial(0.1, 0, steps, 1.5)));
        double first = 0, last = 0;
        for (int i = 0; i < steps; i++) {
            kiln_scope *inner = kiln_scope_begin();
            ok(kiln_optim_step_closure(opt, least_squares, &s, i == 0 ? &first : &last));
            kiln_scope_end(&inner);
        }
        // Those with weight decay end beside it.
        if (!(last < 0.2 * first)) fail_msg("%s: from %g to %g", kinds[k].name, first, last);
        if (searches && !(last < 1e-8)) fail_msg("%s: from %g to %g", kinds[k].name, first, last);
        kiln_optim_free(&opt);
    }
}

static kiln_tensor *no_loss(void *user)
{
    return NULL;
}

static void closures_are_checked(void **state)
{
    kiln_tensor *p = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(2)), "p");
    kiln_optim *a = kiln_optim_sgd(&p, 1, NULL), *b = kiln_optim_lbfgs(&p, 1, NULL);
    assert_int_equal(kiln_optim_step_closure(a, NULL, NULL, NULL), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "optim_step_closure: fn is NULL");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kiln_optim_step_closure(i ? b : a, no_loss, NULL, NULL), KILN_E_ARGUMENT);
        expect_error(KILN_E_ARGUMENT, "the closure gave no loss");
    }
    assert_int_equal(kiln_optim_steps(a), 0);
    assert_int_equal(kiln_optim_add_group(b, &p, 1, NULL), KILN_E_UNSUPPORTED);
    expect_error(KILN_E_UNSUPPORTED, "optim_lbfgs");
    kiln_optim_free(&a);
    kiln_optim_free(&b);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(they_follow_their_formulas_in_double),
        TEST(they_follow_their_formulas_in_single),
        TEST(captured_steps_are_the_same),
        TEST(saved_runs_go_on),
        TEST(narrow_parameters_are_moved),
        TEST(launches_do_not_grow_by_element),
        TEST(a_valley_is_followed),
        TEST(least_squares_are_found),
        TEST(closures_are_checked),
    };
    static const char *const devices[] = {"cpu", "vulkan"};
    int failures = 0;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        kiln_error_clear();
        dev = kiln_device_open(devices[i]);
        if (!dev) {
            printf("# no device \"%s\": %s\n", devices[i], kiln_error_message());
            if (i == 0) failures++;
            kiln_error_clear();
            continue;
        }
        kiln_set_device(dev);
        char group[64];
        snprintf(group, sizeof group, "optim_kinds on %s", devices[i]);
        failures += _cmocka_run_group_tests(group, tests, sizeof tests / sizeof *tests, NULL, NULL);
        kiln_device_close(&dev);
    }
    return failures != 0;
}
