// Groups of parameters beside optimisers of their own, bit for bit; what optimisers refuse, and how.
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

enum { R = 3, C = 4, N = R * C, STEPS = 6 };

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

static kiln_tensor *matrix(kiln_dtype dtype, double at)
{
    double v[N];
    for (int i = 0; i < N; i++) v[i] = cos(i + at);
    return kiln_cast(kiln_from_data(dev, KILN_F64, KILN_SHAPE(R, C), v), dtype);
}

static kiln_tensor *parameter(kiln_dtype dtype, double at)
{
    return kiln_parameter(matrix(dtype, at), "p");
}

static void assert_same(const char *what, kiln_tensor *a, kiln_tensor *b)
{
    float p[N], q[N];
    ok(kiln_read(a, p, sizeof p));
    ok(kiln_read(b, q, sizeof q));
    for (int i = 0; i < N; i++)
        if (memcmp(&p[i], &q[i], sizeof *p)) fail_msg("%s, element %d: %.9g beside %.9g", what, i, p[i], q[i]);
}

// --- groups

typedef kiln_optim *(*make_fn)(kiln_tensor **p, double lr, double decay);
#define MAKE(name, ...)                                                       \
    static kiln_optim *make_##name(kiln_tensor **p, double lr, double decay_) \
    {                                                                         \
        return __VA_ARGS__;                                                   \
    }
#define RATES .lr = lr, .weight_decay = decay_
MAKE(sgd, kiln_optim_sgd(p, 1, KILN_SGD(RATES)))
MAKE(momentum, kiln_optim_sgd(p, 1, KILN_SGD(RATES, .momentum = 0.9, .nesterov = true)))
MAKE(adam, kiln_optim_adam(p, 1, KILN_ADAM(RATES)))
MAKE(adamw, kiln_optim_adamw(p, 1, KILN_ADAM(RATES)))
MAKE(rmsprop, kiln_optim_rmsprop(p, 1, KILN_RMSPROP(RATES, .momentum = 0.5)))
MAKE(adagrad, kiln_optim_adagrad(p, 1, KILN_ADAGRAD(RATES, .lr_decay = 0.1)))
MAKE(adadelta, kiln_optim_adadelta(p, 1, KILN_ADADELTA(RATES)))
MAKE(adamax, kiln_optim_adamax(p, 1, KILN_ADAM(RATES)))
MAKE(nadam, kiln_optim_nadam(p, 1, KILN_NADAM(RATES)))
MAKE(radam, kiln_optim_radam(p, 1, KILN_ADAM(RATES)))
MAKE(lion, kiln_optim_lion(p, 1, KILN_LION(RATES)))
MAKE(lamb, kiln_optim_lamb(p, 1, KILN_ADAM(RATES)))
MAKE(adafactor, kiln_optim_adafactor(p, 1, KILN_ADAFACTOR(RATES)))
MAKE(muon, kiln_optim_muon(p, 1, KILN_MUON(RATES)))

static const struct kind {
    const char *name;
    make_fn make;
} kinds[] = {
    {"sgd", make_sgd},
    {"momentum", make_momentum},
    {"adam", make_adam},
    {"adamw", make_adamw},
    {"rmsprop", make_rmsprop},
    {"adagrad", make_adagrad},
    {"adadelta", make_adadelta},
    {"adamax", make_adamax},
    {"nadam", make_nadam},
    {"radam", make_radam},
    {"lion", make_lion},
    {"lamb", make_lamb},
    {"adafactor", make_adafactor},
    {"muon", make_muon},
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

// A step of up to two optimisers over two parameters.
struct train {
    kiln_tensor *p[2];
    kiln_optim *opt[2];
};

static kiln_status step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct train *t = user;
    kiln_tensor *product = kiln_mul(t->p[0], kiln_add(in[0], kiln_mul(t->p[1], 0.25)));
    out[0] = kiln_sum(kiln_add(product, kiln_square(t->p[1])), NULL);
    kiln_status status = kiln_backward(out[0], NULL);
    for (int i = 0; i < 2; i++)
        if (!status && t->opt[i]) status = kiln_optim_step(t->opt[i]);
    return status;
}

static void run(struct train *t, const kiln_jit_opts *jit, int first, int last)
{
    kiln_function *f = jit ? kiln_jit(step, t, jit) : NULL;
    for (int i = first; i <= last; i++) {
        kiln_scope *inner = kiln_scope_begin();
        kiln_tensor *x = matrix(KILN_F32, 0.7 * i), *loss;
        ok(f ? kiln_call(f, &x, 1, &loss, 1) : step(t, &x, 1, &loss, 1));
        kiln_scope_end(&inner);
    }
    kiln_function_free(&f);
}

static struct train pair(void)
{
    return (struct train){.p = {parameter(KILN_F32, 1), parameter(KILN_F32, 2)}};
}

static void done(struct train *t)
{
    for (int i = 0; i < 2; i++) kiln_optim_free(&t->opt[i]);
}

static void beside_two(const struct kind *k, const kiln_jit_opts *jit)
{
    struct train a = pair(), b = pair();
    a.opt[0] = k->make(&a.p[0], 0.05, 0.1);
    ok(kiln_optim_add_group(a.opt[0], &a.p[1], 1, KILN_OPTIM_GROUP(.lr = 0.02, .weight_decay = 0.25)));
    b.opt[0] = k->make(&b.p[0], 0.05, 0.1);
    b.opt[1] = k->make(&b.p[1], 0.02, 0.25);
    run(&a, jit, 1, STEPS);
    run(&b, jit, 1, STEPS);
    for (int i = 0; i < 2; i++) assert_same(k->name, a.p[i], b.p[i]);
    kiln_tensor *start = parameter(KILN_F32, 2), *far = kiln_max(kiln_abs(kiln_sub(a.p[1], start)), NULL);
    if (!(kiln_item(far) > 1e-4)) fail_msg("%s: the second group has not moved", k->name);
    assert_int_equal(kiln_optim_steps(a.opt[0]), STEPS);
    done(&a);
    done(&b);
}

static void groups_are_optimisers_of_their_own(void **state)
{
    for (size_t k = 0; k < N_KINDS; k++) beside_two(&kinds[k], NULL);
}

static void captured_groups_are_optimisers_of_their_own(void **state)
{
    for (size_t k = 0; k < N_KINDS; k++) {
        beside_two(&kinds[k], KILN_JIT(.capture = KILN_CAPTURE_STRICT));
        beside_two(&kinds[k], KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    }
}

// What is left out is as in the first group; other numbers than rates are a group's own, too.
static void groups_take_other_numbers(void **state)
{
    struct train a = pair(), b = pair();
    a.opt[0] = kiln_optim_adam(a.p, 1, KILN_ADAM(.lr = 0.05, .beta1 = 0.8, .eps = 1e-4, .weight_decay = 0.1));
    ok(kiln_optim_add_group(a.opt[0], a.p + 1, 1,
                            KILN_OPTIM_GROUP(.beta1 = KILN_ZERO, .beta2 = 0.9, .weight_decay = KILN_ZERO)));
    b.opt[0] = kiln_optim_adam(b.p, 1, KILN_ADAM(.lr = 0.05, .beta1 = 0.8, .eps = 1e-4, .weight_decay = 0.1));
    b.opt[1] = kiln_optim_adam(b.p + 1, 1, KILN_ADAM(.lr = 0.05, .beta1 = KILN_ZERO, .beta2 = 0.9, .eps = 1e-4));
    run(&a, NULL, 1, STEPS);
    run(&b, NULL, 1, STEPS);
    for (int i = 0; i < 2; i++) assert_same("adam", a.p[i], b.p[i]);
    done(&a);
    done(&b);
}

static void rates_follow_schedules_and_scales(void **state)
{
    struct train t = pair();
    kiln_optim *opt = kiln_optim_sgd(t.p, 1, KILN_SGD(.lr = 0.5));
    ok(kiln_optim_add_group(opt, t.p + 1, 1, KILN_OPTIM_GROUP(.lr_scale = 0.25)));
    kiln_tensor *third = parameter(KILN_F32, 3), *fourth = parameter(KILN_F32, 4);
    ok(kiln_optim_add_group(opt, &third, 1,
                            KILN_OPTIM_GROUP(.schedule = kiln_schedule_linear(1, 0, 4), .lr_scale = 2)));
    ok(kiln_optim_add_group(opt, &fourth, 1, KILN_OPTIM_GROUP(.lr = KILN_ZERO)));
    assert_int_equal(kiln_optim_groups(opt), 4);
    assert_true(kiln_optim_group_lr(opt, 0) == 0.5 && kiln_optim_group_lr(opt, 1) == 0.125);
    assert_true(kiln_optim_group_lr(opt, 2) == 2 && kiln_optim_group_lr(opt, 3) == 0);
    ok(kiln_optim_set_schedule(opt, kiln_schedule_step(0.8, 1, 0.5)));
    ok(kiln_optim_set_steps(opt, 2));
    assert_true(kiln_optim_lr(opt) == 0.2 && kiln_optim_group_lr(opt, 1) == 0.05);
    assert_true(kiln_optim_group_lr(opt, 2) == 1 && kiln_optim_group_lr(opt, 3) == 0);
    ok(kiln_optim_set_group_lr(opt, 2, 0.3));
    ok(kiln_optim_set_lr(opt, 0.4));
    assert_true(kiln_optim_group_lr(opt, 0) == 0.4 && kiln_optim_group_lr(opt, 1) == 0.1);
    assert_true(kiln_optim_group_lr(opt, 2) == 0.3 && kiln_optim_group_lr(opt, 3) == 0);
    assert_true(isnan(kiln_optim_group_lr(opt, 4)));
    expect_error(KILN_E_ARGUMENT, "optim_group_lr: group is 4, and optim_sgd has 4");
    assert_int_equal(kiln_optim_set_group_lr(opt, 1, -2), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "optim_set_group_lr: the rate must not be below 0, got -2");
    kiln_optim_free(&opt);
}

static void states_of_groups_count_on(void **state)
{
    struct train t = pair();
    t.opt[0] = kiln_optim_adam(t.p, 1, NULL);
    ok(kiln_optim_add_group(t.opt[0], t.p + 1, 1, NULL));
    const char *names[4];
    assert_int_equal(kiln_optim_state(t.opt[0], names, NULL, 4), 4);
    assert_string_equal(names[0], "optim.0.moment1");
    assert_string_equal(names[3], "optim.1.moment2");
    run(&t, NULL, 1, 2);
    ok(kiln_optim_zero_grad(t.opt[0]));
    assert_true(!kiln_gradient(t.p[0]) && !kiln_gradient(t.p[1]));
    done(&t);
}

// --- what is refused

static void parameters_stand_once(void **state)
{
    struct train t = pair();
    kiln_tensor *twice[] = {t.p[0], t.p[1], t.p[0]};
    assert_null(kiln_optim_adam(twice, 3, NULL));
    expect_error(KILN_E_ARGUMENT, "optim_adam: parameter 2 \"p\" is parameter 0, too");
    kiln_optim *opt = kiln_optim_lion(t.p, 2, NULL);
    kiln_tensor *third = parameter(KILN_F32, 3), *again[] = {third, t.p[1]}, *same[] = {third, third};
    kiln_schedule *s = kiln_schedule_constant(1);
    assert_int_equal(kiln_optim_add_group(opt, again, 2, KILN_OPTIM_GROUP(.schedule = s)), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "optim_add_group: parameter 3 \"p\" is parameter 1, too");
    kiln_optim_add_group(opt, same, 2, NULL);
    expect_error(KILN_E_ARGUMENT, "optim_add_group: parameter 3 \"p\" is parameter 2, too");
    kiln_optim_add_group(opt, NULL, 0, NULL);
    expect_error(KILN_E_ARGUMENT, "optim_add_group: there are no parameters");
    assert_int_equal(kiln_optim_groups(opt), 1);
    ok(kiln_optim_add_group(opt, &third, 1, NULL));
    kiln_optim_free(&opt);
}

static void parameters_are_on_one_device(void **state)
{
    kiln_device_info info = {.size = sizeof info};
    ok(kiln_device_get_info(dev, &info));
    const char *kind = strcmp(info.kind, "cpu") ? "cpu" : "null";
    kiln_device *other = kiln_device_open(kind);
    assert_non_null(other);
    kiln_tensor *p = parameter(KILN_F32, 1);
    kiln_tensor *q = kiln_parameter(kiln_zeros(other, KILN_F32, KILN_SHAPE(2)), "q"), *both[] = {p, q};
    char text[96], after[120];
    snprintf(text, sizeof text, ": parameter 1 \"q\" is on %s, parameter 0 is on %s", kind, info.kind);
    assert_null(kiln_optim_adagrad(both, 2, NULL));
    snprintf(after, sizeof after, "optim_adagrad%s", text);
    expect_error(KILN_E_DEVICE_MISMATCH, after);
    kiln_optim *opt = kiln_optim_adagrad(&p, 1, NULL);
    assert_int_equal(kiln_optim_add_group(opt, &q, 1, NULL), KILN_E_DEVICE_MISMATCH);
    snprintf(after, sizeof after, "optim_add_group%s", text);
    expect_error(KILN_E_DEVICE_MISMATCH, after);
    kiln_optim_free(&opt);
    kiln_free(&q);
    kiln_device_close(&other);
}

static void refused(kiln_optim *opt, const char *text)
{
    if (opt) fail_msg("taken, but \"%s\" was expected", text);
    expect_error(KILN_E_ARGUMENT, text);
}

static void options_are_checked(void **state)
{
    kiln_tensor *p = parameter(KILN_F32, 1), **q = &p;
    refused(kiln_optim_sgd(q, 1, KILN_SGD(.lr = NAN)), "optim_sgd: .lr must be a number not below 0, got nan");
    refused(kiln_optim_sgd(q, 1, KILN_SGD(.momentum = -0.5)), "optim_sgd: .momentum must be in [0, 1), got -0.5");
    refused(kiln_optim_sgd(q, 1, KILN_SGD(.dampening = 1.5)), "optim_sgd: .dampening must be in [0, 1], got 1.5");
    refused(kiln_optim_adam(q, 1, KILN_ADAM(.eps = -1)), "optim_adam: .eps must be in [0, inf), got -1");
    refused(kiln_optim_adamw(q, 1, KILN_ADAM(.weight_decay = INFINITY)),
            "optim_adamw: .weight_decay must be in [0, inf), got inf");
    refused(kiln_optim_rmsprop(q, 1, KILN_RMSPROP(.alpha = 1)), "optim_rmsprop: .alpha must be in [0, 1), got 1");
    refused(kiln_optim_adagrad(q, 1, KILN_ADAGRAD(.lr_decay = -1)),
            "optim_adagrad: .lr_decay must be in [0, inf), got -1");
    refused(kiln_optim_adagrad(q, 1, KILN_ADAGRAD(.initial_accumulator = -2)),
            "optim_adagrad: .initial_accumulator must be in [0, inf), got -2");
    refused(kiln_optim_adadelta(q, 1, KILN_ADADELTA(.rho = 2)), "optim_adadelta: .rho must be in [0, 1), got 2");
    refused(kiln_optim_adamax(q, 1, KILN_ADAM(.beta2 = 1)), "optim_adamax: .beta2 must be in [0, 1), got 1");
    refused(kiln_optim_nadam(q, 1, KILN_NADAM(.momentum_decay = -1)),
            "optim_nadam: .momentum_decay must be in [0, inf), got -1");
    refused(kiln_optim_radam(q, 1, KILN_ADAM(.beta1 = NAN)), "optim_radam: .beta1 must be in [0, 1), got nan");
    refused(kiln_optim_lion(q, 1, KILN_LION(.beta1 = 1)), "optim_lion: .beta1 must be in [0, 1), got 1");
    refused(kiln_optim_lamb(q, 1, KILN_ADAM(.lr = -3)), "optim_lamb: .lr must be a number not below 0, got -3");
    refused(kiln_optim_adafactor(q, 1, KILN_ADAFACTOR(.beta2_decay = 1.5)),
            "optim_adafactor: .beta2_decay must be in [0, 1], got 1.5");
    refused(kiln_optim_adafactor(q, 1, KILN_ADAFACTOR(.clip = -1)),
            "optim_adafactor: .clip must be in [0, inf), got -1");
    refused(kiln_optim_muon(q, 1, KILN_MUON(.momentum = 1)), "optim_muon: .momentum must be in [0, 1), got 1");
    refused(kiln_optim_muon(q, 1, KILN_MUON(.steps = -1)), "optim_muon: .steps must be in [0, 100], got -1");
    refused(kiln_optim_lbfgs(q, 1, KILN_LBFGS(.history = -1)), "optim_lbfgs: .history");
    refused(kiln_optim_lbfgs(q, 1, KILN_LBFGS(.lr = -1)), "optim_lbfgs: .lr must be a number not below 0, got -1");
    kiln_tensor *line = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(3)), "line");
    assert_null(kiln_optim_muon(&line, 1, NULL));
    expect_error(KILN_E_SHAPE, "optim_muon: parameter 0");
}

static void group_refused(kiln_optim *opt, kiln_tensor *p, const kiln_optim_group_opts *o, const char *text)
{
    assert_int_equal(kiln_optim_add_group(opt, &p, 1, o), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, text);
    assert_int_equal(kiln_optim_groups(opt), 1);
}

static void options_of_groups_are_checked(void **state)
{
    struct train t = pair();
    kiln_optim *opt = kiln_optim_sgd(t.p, 1, NULL);
    kiln_tensor *q = t.p[1];
    group_refused(opt, q, KILN_OPTIM_GROUP(.lr = -1), "optim_sgd: group 1: .lr must be a number not below 0, got -1");
    group_refused(opt, q, KILN_OPTIM_GROUP(.lr_scale = NAN),
                  "optim_sgd: group 1: .lr_scale must be a number not below 0, got nan");
    group_refused(opt, q, KILN_OPTIM_GROUP(.weight_decay = -2),
                  "optim_sgd: group 1: .weight_decay must be in [0, inf), got -2");
    group_refused(opt, q, KILN_OPTIM_GROUP(.beta1 = 0.5),
                  "optim_sgd: group 1: .beta1 is 0.5, and the optimiser has no such number");
    group_refused(opt, q, KILN_OPTIM_GROUP(.momentum = 0.5),
                  "optim_sgd: group 1: .momentum is 0.5, and the optimiser was made without");
    ok(kiln_optim_add_group(opt, &q, 1, KILN_OPTIM_GROUP(.lr_scale = KILN_ZERO)));
    assert_true(kiln_optim_group_lr(opt, 1) == 0);
    kiln_optim_free(&opt);
}

// An object has one owner: a second one is refused, and what the first has stays whole.
static void schedules_have_one_owner(void **state)
{
    struct train t = pair();
    kiln_optim *opt = kiln_optim_sgd(t.p, 1, NULL), *other = kiln_optim_sgd(t.p + 1, 1, NULL);
    kiln_schedule *s = kiln_schedule_constant(0.25);
    ok(kiln_optim_set_schedule(opt, s));
    ok(kiln_optim_set_schedule(opt, s));
    assert_int_equal(kiln_optim_add_group(opt, t.p + 1, 1, KILN_OPTIM_GROUP(.schedule = s)), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "optim_add_group: the schedule already belongs to an optimiser");
    assert_int_equal(kiln_optim_set_schedule(other, s), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "optim_set_schedule: the schedule already belongs to an optimiser");
    assert_null(kiln_schedule_warmup(3, s));
    expect_error(KILN_E_ARGUMENT, "schedule_warmup: the schedule already belongs to an optimiser");
    assert_true(kiln_optim_lr(opt) == 0.25 && kiln_optim_lr(other) == 0.01);
    kiln_optim_free(&opt);
    kiln_optim_free(&other);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(groups_are_optimisers_of_their_own), TEST(captured_groups_are_optimisers_of_their_own),
        TEST(groups_take_other_numbers),          TEST(rates_follow_schedules_and_scales),
        TEST(states_of_groups_count_on),          TEST(parameters_stand_once),
        TEST(parameters_are_on_one_device),       TEST(options_are_checked),
        TEST(options_of_groups_are_checked),      TEST(schedules_have_one_owner),
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
        snprintf(group, sizeof group, "optim_groups on %s", devices[i]);
        failures += _cmocka_run_group_tests(group, tests, sizeof tests / sizeof *tests, NULL, NULL);
        kiln_device_close(&dev);
    }
    return failures != 0;
}
