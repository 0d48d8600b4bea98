// Optimisers, schedules and clipping, on every device there is.
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

#define N 6 // elements of the parameter that is compared

static kiln_device *dev;
static kiln_scope *scope;
static uint64_t tensors_before;

static uint64_t tensors_alive(void)
{
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_get_stats(dev, &stats);
    return stats.tensors;
}

static int begin(void **state)
{
    kiln_error_clear();
    kiln_seed(dev, 7);
    tensors_before = tensors_alive();
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
    uint64_t left = tensors_alive() - tensors_before;
    if (left) fprintf(stderr, "%llu storages left\n", (unsigned long long)left);
    return left ? -1 : 0;
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

static void near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * (1 + fabs(want)))) fail_msg("%.12g, expected %.12g", got, want);
}

static void read_doubles(kiln_tensor *t, double *out, size_t n)
{
    kiln_scope *inner = kiln_scope_begin();
    ok(kiln_read(kiln_cast(t, KILN_F64), out, n * sizeof *out));
    kiln_scope_end(&inner);
}

static kiln_tensor *param(kiln_dtype dtype)
{
    double v[N];
    for (int i = 0; i < N; i++) v[i] = cos(i + 1.0);
    return kiln_parameter(kiln_cast(kiln_from_data(dev, KILN_F64, KILN_SHAPE(2, N / 2), v), dtype), "p");
}

// The gradients of the comparison: any fixed numbers that change from step to step.
static double gradient(int i, int t)
{
    return sin(1.7 * i + 0.9 * t) + 0.1;
}

static void set_gradients(kiln_tensor *p, int t)
{
    double g[N];
    for (int i = 0; i < N; i++) g[i] = gradient(i, t);
    kiln_scope *inner = kiln_scope_begin();
    kiln_tensor *wide = kiln_from_data(dev, KILN_F64, KILN_SHAPE(2, N / 2), g);
    ok(kiln_set_gradient(p, kiln_cast(wide, kiln_tensor_dtype(p))));
    kiln_scope_end(&inner);
}

// --- the formulas again, in double

struct reference {
    double p[N], a[N], b[N]; // parameter and up to two states
};
typedef void (*reference_fn)(struct reference *r, int i, double g, int t);

static void sgd_plain(struct reference *r, int i, double g, int t)
{
    r->p[i] -= 0.05 * g;
}

static void sgd_momentum(struct reference *r, int i, double g, int t)
{
    g += 0.01 * r->p[i];
    r->a[i] = 0.9 * r->a[i] + (1 - 0.2) * g;
    r->p[i] -= 0.05 * r->a[i];
}

static void sgd_nesterov(struct reference *r, int i, double g, int t)
{
    r->a[i] = 0.8 * r->a[i] + g;
    r->p[i] -= 0.05 * (g + 0.8 * r->a[i]);
}

static void adam_step(struct reference *r, int i, double g, int t, double beta1, double beta2)
{
    r->a[i] = beta1 * r->a[i] + (1 - beta1) * g;
    r->b[i] = beta2 * r->b[i] + (1 - beta2) * g * g;
    double m = r->a[i] / (1 - pow(beta1, t)), v = r->b[i] / (1 - pow(beta2, t));
    r->p[i] -= 0.05 * m / (sqrt(v) + 1e-8);
}

static void adam_plain(struct reference *r, int i, double g, int t)
{
    adam_step(r, i, g, t, 0.9, 0.999);
}

static void adam_decay(struct reference *r, int i, double g, int t)
{
    adam_step(r, i, g + 0.1 * r->p[i], t, 0.8, 0.9);
}

static void adamw_decay(struct reference *r, int i, double g, int t)
{
    r->p[i] -= 0.05 * 0.1 * r->p[i];
    adam_step(r, i, g, t, 0.9, 0.999);
}

static void rmsprop_plain(struct reference *r, int i, double g, int t)
{
    r->a[i] = 0.9 * r->a[i] + 0.1 * g * g;
    r->p[i] -= 0.05 * g / (sqrt(r->a[i]) + 1e-8);
}

static void rmsprop_momentum(struct reference *r, int i, double g, int t)
{
    g += 0.01 * r->p[i];
    r->a[i] = 0.99 * r->a[i] + 0.01 * g * g;
    r->b[i] = 0.5 * r->b[i] + g / (sqrt(r->a[i]) + 1e-8);
    r->p[i] -= 0.05 * r->b[i];
}

static kiln_optim *make(size_t kind, kiln_tensor *p)
{
    switch (kind) {
    case 0: return kiln_optim_sgd(&p, 1, KILN_SGD(.lr = 0.05));
    case 1: return kiln_optim_sgd(&p, 1, KILN_SGD(.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01, .dampening = 0.2));
    case 2: return kiln_optim_sgd(&p, 1, KILN_SGD(.lr = 0.05, .momentum = 0.8, .nesterov = true));
    case 3: return kiln_optim_adam(&p, 1, KILN_ADAM(.lr = 0.05));
    case 4: return kiln_optim_adam(&p, 1, KILN_ADAM(.lr = 0.05, .beta1 = 0.8, .beta2 = 0.9, .weight_decay = 0.1));
    case 5: return kiln_optim_adamw(&p, 1, KILN_ADAM(.lr = 0.05, .weight_decay = 0.1));
    case 6: return kiln_optim_rmsprop(&p, 1, KILN_RMSPROP(.lr = 0.05, .alpha = 0.9));
    default: return kiln_optim_rmsprop(&p, 1, KILN_RMSPROP(.lr = 0.05, .momentum = 0.5, .weight_decay = 0.01));
    }
}

static const struct {
    const char *name;
    reference_fn step;
    size_t slots;
} kinds[] = {{"sgd", sgd_plain, 0},
             {"sgd with momentum", sgd_momentum, 1},
             {"sgd, nesterov", sgd_nesterov, 1},
             {"adam", adam_plain, 2},
             {"adam with decay", adam_decay, 2},
             {"adamw", adamw_decay, 2},
             {"rmsprop", rmsprop_plain, 1},
             {"rmsprop with momentum", rmsprop_momentum, 2}};
#define N_KINDS (sizeof kinds / sizeof *kinds)

static void optimisers_follow_their_formulas(void **state)
{
    for (size_t k = 0; k < N_KINDS; k++) {
        kiln_tensor *p = param(KILN_F32);
        struct reference r = {0};
        read_doubles(p, r.p, N);
        kiln_optim *opt = make(k, p);
        if (!opt) fail_msg("%s: %s", kinds[k].name, kiln_error_message());
        assert_int_equal(kiln_optim_state(opt, NULL, NULL, 0), kinds[k].slots);
        for (int t = 1; t <= 10; t++) {
            set_gradients(p, t);
            kiln_scope *inner = kiln_scope_begin();
            ok(kiln_optim_step(opt));
            kiln_scope_end(&inner);
            double got[N];
            read_doubles(p, got, N);
            for (int i = 0; i < N; i++) {
                kinds[k].step(&r, i, (double)(float)gradient(i, t), t);
                if (fabs(got[i] - r.p[i]) > 1e-6 * (1 + fabs(r.p[i])))
                    fail_msg("%s, step %d, element %d: %.9g, expected %.9g", kinds[k].name, t, i, got[i], r.p[i]);
            }
        }
        assert_int_equal(kiln_optim_steps(opt), 10);
        kiln_optim_free(&opt);
        assert_null(opt);
        kiln_optim_free(&opt);
    }
}

// Five steps, then a second optimiser on a second parameter goes on from the saved state: the same bits.
static void restored_runs_go_on_bit_for_bit(void **state)
{
    for (size_t k = 0; k < N_KINDS; k++) {
        kiln_tensor *p = param(KILN_F32), *q = param(KILN_F32);
        kiln_optim *opt = make(k, p), *again = make(k, q);
        kiln_tensor *from[4], *to[4];
        const char *names[4];
        for (int t = 1; t <= 5; t++) {
            set_gradients(p, t);
            ok(kiln_optim_step(opt));
        }
        size_t n = kiln_optim_state(opt, names, from, 4);
        assert_int_equal(kiln_optim_state(again, NULL, to, 4), n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(strncmp(names[i], "optim.0.", 8), 0);
            ok(kiln_assign(to[i], from[i]));
        }
        kiln_no_grad_begin();
        ok(kiln_assign(q, p));
        kiln_no_grad_end();
        ok(kiln_optim_set_steps(again, kiln_optim_steps(opt)));
        for (int t = 6; t <= 10; t++) {
            set_gradients(p, t);
            set_gradients(q, t);
            ok(kiln_optim_step(opt));
            ok(kiln_optim_step(again));
        }
        float a[N], b[N];
        ok(kiln_read(p, a, sizeof a));
        ok(kiln_read(q, b, sizeof b));
        assert_memory_equal(a, b, sizeof a);
        kiln_optim_free(&opt);
        kiln_optim_free(&again);
    }
}

static void narrow_parameters_keep_wide_state(void **state)
{
    kiln_tensor *p = param(KILN_F16), *slots[2];
    struct reference r = {0};
    read_doubles(p, r.p, N);
    kiln_optim *opt = make(3, p);
    assert_int_equal(kiln_optim_state(opt, NULL, slots, 2), 2);
    assert_int_equal(kiln_tensor_dtype(slots[1]), KILN_F32);
    for (int t = 1; t <= 3; t++) {
        set_gradients(p, t);
        ok(kiln_optim_step(opt));
        for (int i = 0; i < N; i++) adam_plain(&r, i, gradient(i, t), t);
    }
    assert_int_equal(kiln_tensor_dtype(p), KILN_F16);
    double got[N];
    read_doubles(p, got, N);
    for (int i = 0; i < N; i++) near(got[i], r.p[i], 2e-3);
    kiln_optim_free(&opt);
}

static void parameters_without_gradients_stay(void **state)
{
    kiln_tensor *p[] = {param(KILN_F32), param(KILN_F32)};
    kiln_optim *opt = kiln_optim_adamw(p, 2, NULL);
    set_gradients(p[1], 1);
    double before[N], after[N];
    read_doubles(p[0], before, N);
    ok(kiln_optim_step(opt));
    read_doubles(p[0], after, N);
    assert_memory_equal(before, after, sizeof before);
    read_doubles(p[1], after, N);
    assert_true(fabs(after[0] - before[0]) > 1e-4);
    assert_true(kiln_requires_grad(p[1]));
    ok(kiln_optim_zero_grad(opt));
    assert_null(kiln_gradient(p[1]));
    kiln_optim_free(&opt);
}

static void a_line_is_found(void **state)
{
    kiln_cell *net = kiln_nn_dense(dev, 1, 1, KILN_NN_DENSE(.weight_init = "0.1"));
    kiln_tensor *params[2];
    assert_int_equal(kiln_cell_parameters(net, params, 2), 2);
    kiln_optim *opt = kiln_optim_sgd(params, 2, KILN_SGD(.lr = 0.2, .momentum = 0.8));
    ok(kiln_optim_set_schedule(opt, kiln_schedule_cosine(0.2, 0.01, 150)));
    kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(4, 1), (float[]){-1, 0, 1, 2});
    kiln_tensor *y = kiln_from_data(dev, KILN_F32, KILN_SHAPE(4, 1), (float[]){-4, -1, 2, 5});
    double first = 0, last = 0;
    for (int i = 0; i < 150; i++) {
        kiln_scope *inner = kiln_scope_begin();
        kiln_tensor *loss = kiln_loss_mse(kiln_cell_call(net, x), y, KILN_REDUCTION_MEAN);
        ok(kiln_backward(loss, NULL));
        ok(kiln_optim_step(opt));
        if (i == 0) first = kiln_item(loss);
        if (i == 149) last = kiln_item(loss);
        kiln_scope_end(&inner);
    }
    assert_true(first > 1);
    assert_true(last < 1e-6);
    near(kiln_item(kiln_cell_parameter(net, "weight")), 3, 1e-3);
    near(kiln_item(kiln_cell_parameter(net, "bias")), -1, 1e-3);
    kiln_cell_free(&net); // the optimiser has handles of its own
    ok(kiln_optim_step(opt));
    kiln_optim_free(&opt);
}

// --- schedules

static void expect_rates(kiln_schedule *s, size_t n, const double *want)
{
    if (!s) fail_msg("%s", kiln_error_message());
    for (size_t i = 0; i < n; i++) near(kiln_schedule_lr(s, (int64_t)i), want[i], 1e-12);
    kiln_schedule_free(&s);
    assert_null(s);
}
#define RATES(s, ...) expect_rates(s, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (const double[]){__VA_ARGS__})

static void schedules_give_rates(void **state)
{
    RATES(kiln_schedule_constant(0.3), 0.3, 0.3);
    RATES(kiln_schedule_step(1, 2, 0.5), 1, 1, 0.5, 0.5, 0.25);
    RATES(kiln_schedule_multi_step(1, 2, (int64_t[]){1, 4}, 0.1), 1, 0.1, 0.1, 0.1, 0.01, 0.01);
    RATES(kiln_schedule_exponential(2, 0.5), 2, 1, 0.5, 0.25);
    RATES(kiln_schedule_cosine(1, 0.2, 4), 1, 0.6 + 0.4 * sqrt(0.5), 0.6, 0.6 - 0.4 * sqrt(0.5), 0.2, 0.2);
    RATES(kiln_schedule_warmup(3, kiln_schedule_step(1, 1, 0.5)), 0.25, 0.5, 0.75, 1, 0.5, 0.25);
    RATES(kiln_schedule_warmup(0, kiln_schedule_constant(2)), 2, 2);
    // Ten steps: up over 0..2 (0.3 * 10 - 1), down over 2..9.
    double top = 1, first = top / 25, least = first / 1e4, pi = acos(-1);
    double want[12];
    for (int i = 0; i < 12; i++) {
        int at = i < 9 ? i : 9;
        want[i] = at < 2 ? top + (first - top) * (1 + cos(pi * at / 2)) / 2
                         : least + (top - least) * (1 + cos(pi * (at - 2) / 7)) / 2;
    }
    expect_rates(kiln_schedule_one_cycle(1, 10, NULL), 12, want);
    assert_null(kiln_schedule_step(1, 0, 0.5));
    expect_error(KILN_E_ARGUMENT, "schedule_step: the period must be positive");
    assert_null(kiln_schedule_multi_step(1, 2, (int64_t[]){4, 4}, 0.1));
    expect_error(KILN_E_ARGUMENT, "the milestones must ascend");
    assert_null(kiln_schedule_warmup(3, kiln_schedule_constant(-1)));
    expect_error(KILN_E_ARGUMENT, "schedule_constant: the rate");
    assert_null(kiln_schedule_warmup(-3, kiln_schedule_constant(1)));
    expect_error(KILN_E_ARGUMENT, "schedule_warmup");
    assert_null(kiln_schedule_one_cycle(1, 10, KILN_ONE_CYCLE(.pct_start = 1.5)));
    expect_error(KILN_E_ARGUMENT, ".pct_start must be in (0, 1)");
    assert_true(isnan(kiln_schedule_lr(NULL, 0)));
    expect_error(KILN_E_ARGUMENT, "schedule is NULL");
}

static void optimisers_take_schedules(void **state)
{
    kiln_tensor *p = param(KILN_F32);
    kiln_optim *opt = kiln_optim_sgd(&p, 1, KILN_SGD(.lr = 0.5));
    near(kiln_optim_lr(opt), 0.5, 0);
    ok(kiln_optim_set_schedule(opt, kiln_schedule_step(1, 1, 0.5)));
    near(kiln_optim_lr(opt), 1, 0);
    double before[N], after[N];
    read_doubles(p, before, N);
    for (int t = 0; t < 3; t++) {
        ok(kiln_set_gradient(p, kiln_ones(dev, KILN_F32, KILN_SHAPE(2, N / 2))));
        ok(kiln_optim_step(opt));
    }
    read_doubles(p, after, N);
    near(before[0] - after[0], 1 + 0.5 + 0.25, 1e-6);
    near(kiln_optim_lr(opt), 0.125, 0);
    ok(kiln_optim_set_schedule(opt, NULL));
    near(kiln_optim_lr(opt), 0.125, 0);
    ok(kiln_optim_set_lr(opt, 3));
    near(kiln_optim_lr(opt), 3, 0);
    assert_int_equal(kiln_optim_set_lr(opt, -1), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "must not be below 0, got -1");
    assert_int_equal(kiln_optim_set_schedule(opt, kiln_schedule_constant(NAN)), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "schedule_constant");
    near(kiln_optim_lr(opt), 3, 0);
    kiln_optim_free(&opt);
}

// --- clipping

static void norms_are_clipped(void **state)
{
    kiln_tensor *p[3] = {param(KILN_F32), param(KILN_F32), param(KILN_F32)};
    set_gradients(p[0], 1);
    set_gradients(p[2], 2);
    double norm = 0, g0[N], g2[N];
    for (int i = 0; i < N; i++) norm += pow(gradient(i, 1), 2) + pow(gradient(i, 2), 2);
    norm = sqrt(norm);
    near(kiln_item(kiln_clip_grad_norm(p, 3, 100)), norm, 1e-6);
    read_doubles(kiln_gradient(p[0]), g0, N);
    for (int i = 0; i < N; i++) near(g0[i], gradient(i, 1), 1e-6);
    near(kiln_item(kiln_clip_grad_norm(p, 3, norm / 4)), norm, 1e-6);
    read_doubles(kiln_gradient(p[0]), g0, N);
    read_doubles(kiln_gradient(p[2]), g2, N);
    for (int i = 0; i < N; i++) near(g0[i], gradient(i, 1) / 4, 1e-5);
    for (int i = 0; i < N; i++) near(g2[i], gradient(i, 2) / 4, 1e-5);
    near(kiln_item(kiln_clip_grad_norm(p, 3, 100)), norm / 4, 1e-5);
    assert_null(kiln_gradient(p[1]));
    assert_true(kiln_item(kiln_clip_grad_norm(&p[1], 1, 1)) == 0);

    set_gradients(p[0], 1);
    ok(kiln_clip_grad_value(p, 2, 0.5));
    read_doubles(kiln_gradient(p[0]), g0, N);
    for (int i = 0; i < N; i++) near(g0[i], fmax(-0.5, fmin(0.5, gradient(i, 1))), 1e-6);
    assert_null(kiln_clip_grad_norm(p, 3, 0));
    expect_error(KILN_E_ARGUMENT, "clip_grad_norm: the limit must be positive, got 0");
    assert_int_equal(kiln_clip_grad_value((kiln_tensor *[]){p[0], NULL}, 2, 1), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "parameter 1 is NULL");
}

static void norms_of_many(void **state)
{
    enum { MANY = 300 };
    kiln_tensor *p[MANY];
    for (int i = 0; i < MANY; i++) {
        p[i] = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(1)), "p");
        ok(kiln_set_gradient(p[i], kiln_full(dev, KILN_F32, KILN_SHAPE(1), 2)));
    }
    near(kiln_item(kiln_clip_grad_norm(p, MANY, 1)), 2 * sqrt(MANY), 1e-6);
    near(kiln_item(kiln_gradient(p[MANY - 1])), 1 / sqrt(MANY), 1e-5);
}

// Both gradients may be one storage; each is to be scaled once.
static void shared_gradients_are_scaled_once(void **state)
{
    kiln_tensor *p[2] = {param(KILN_F32), param(KILN_F32)};
    ok(kiln_backward(kiln_sum(kiln_add(p[0], p[1]), NULL), NULL));
    kiln_clip_grad_norm(p, 2, sqrt(2 * N) / 2);
    for (int i = 0; i < 2; i++) near(kiln_item(kiln_mean(kiln_gradient(p[i]), NULL)), 0.5, 1e-6);
}

static void arguments_are_checked(void **state)
{
    kiln_tensor *p = param(KILN_F32), *ints = kiln_ones(dev, KILN_I32, KILN_SHAPE(2)), *result = kiln_square(p);
    assert_null(kiln_optim_sgd(NULL, 0, NULL));
    expect_error(KILN_E_ARGUMENT, "optim_sgd: there are no parameters");
    assert_null(kiln_optim_adam((kiln_tensor *[]){p, NULL}, 2, NULL));
    expect_error(KILN_E_ARGUMENT, "optim_adam: parameter 1 is NULL");
    assert_null(kiln_optim_adamw(&ints, 1, NULL));
    expect_error(KILN_E_ARGUMENT, "must be a leaf of a float dtype, it is a leaf of i32");
    assert_null(kiln_optim_sgd(&result, 1, NULL));
    expect_error(KILN_E_ARGUMENT, "it is a result of f32");
    assert_null(kiln_optim_sgd(&p, 1, KILN_SGD(.momentum = 1)));
    expect_error(KILN_E_ARGUMENT, ".momentum must be in [0, 1), got 1");
    assert_null(kiln_optim_sgd(&p, 1, KILN_SGD(.nesterov = true)));
    expect_error(KILN_E_ARGUMENT, ".nesterov needs a momentum");
    assert_null(kiln_optim_adam(&p, 1, KILN_ADAM(.beta2 = NAN)));
    expect_error(KILN_E_ARGUMENT, ".beta2 must be in [0, 1)");
    assert_null(kiln_optim_rmsprop(&p, 1, KILN_RMSPROP(.lr = -1)));
    expect_error(KILN_E_ARGUMENT, "optim_rmsprop: .lr must be a number not below 0, got -1");
    assert_int_equal(kiln_optim_step(NULL), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "optim_step: opt is NULL");
    // No update runs after a failure.
    kiln_optim *opt = kiln_optim_sgd(&p, 1, NULL);
    set_gradients(p, 1);
    uint64_t version = kiln_tensor_version(p);
    assert_null(kiln_add(p, NULL));
    assert_int_equal(kiln_optim_step(opt), KILN_E_ARGUMENT);
    kiln_error_clear();
    assert_int_equal(kiln_optim_steps(opt), 0);
    assert_true(kiln_tensor_version(p) == version);
    kiln_optim_free(&opt);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(optimisers_follow_their_formulas),
        TEST(restored_runs_go_on_bit_for_bit),
        TEST(narrow_parameters_keep_wide_state),
        TEST(parameters_without_gradients_stay),
        TEST(a_line_is_found),
        TEST(schedules_give_rates),
        TEST(optimisers_take_schedules),
        TEST(norms_are_clipped),
        TEST(norms_of_many),
        TEST(shared_gradients_are_scaled_once),
        TEST(arguments_are_checked),
    };
    static const char *const devices[] = {"cpu", "vulkan"};
    int failures = 0;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        kiln_error_clear(); // of a test that failed
        dev = kiln_device_open(devices[i]);
        if (!dev) {
            printf("# no device \"%s\": %s\n", devices[i], kiln_error_message());
            if (i == 0) failures++;
            kiln_error_clear();
            continue;
        }
        kiln_set_device(dev);
        char group[64];
        snprintf(group, sizeof group, "optim on %s", devices[i]);
        failures += _cmocka_run_group_tests(group, tests, sizeof tests / sizeof *tests, NULL, NULL);
        kiln_device_close(&dev);
    }
    return failures != 0;
}
