// Averages of parameters, and schedules that fall, beside loops in double written from their descriptions.
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

static void near(const char *what, int at, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * (1 + fabs(want))))
        fail_msg("%s, %d: %.17g, expected %.17g", what, at, got, want);
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

// --- averages

static double value(int i, int t)
{
    return sin(0.3 * i + 1.1 * t) + 0.01 * t;
}

static void put(kiln_tensor *p, int t)
{
    double v[N];
    for (int i = 0; i < N; i++) v[i] = value(i, t);
    kiln_scope *inner = kiln_scope_begin();
    kiln_tensor *next = kiln_cast(kiln_from_data(dev, KILN_F64, KILN_SHAPE(R, C), v), kiln_tensor_dtype(p));
    kiln_no_grad_begin();
    ok(kiln_assign(p, next));
    kiln_no_grad_end();
    kiln_scope_end(&inner);
}

static void get(kiln_tensor *p, double *v)
{
    kiln_scope *inner = kiln_scope_begin();
    ok(kiln_read(kiln_cast(p, KILN_F64), v, N * sizeof *v));
    kiln_scope_end(&inner);
}

static kiln_average *average_of(int kind, kiln_tensor **p)
{
    return kind == 0   ? kiln_average_ema(p, 1, KILN_EMA(.decay = 0.9))
           : kind == 1 ? kiln_average_ema(p, 1, KILN_EMA(.decay = 0.9, .warmup = true))
                       : kiln_average_swa(p, 1);
}

// The averages after k updates with `now`, in place.
static void reference(int kind, double *a, const double *now, int k)
{
    double keep = kind == 0 ? 0.9 : fmin(0.9, (1.0 + k) / (10.0 + k));
    for (int i = 0; i < N; i++) a[i] = kind == 2 ? (a[i] * k + now[i]) / (k + 1) : keep * a[i] + (1 - keep) * now[i];
}

static void averages_follow_their_formulas(void **state)
{
    static const struct {
        kiln_dtype dtype, kept;
        double tolerance;
    } of[] = {{KILN_F64, KILN_F64, 1e-13}, {KILN_F32, KILN_F32, 1e-6}, {KILN_F16, KILN_F32, 1e-6}};
    for (int kind = 0; kind < 3; kind++)
        for (size_t d = 0; d < 3; d++) {
            double want[N], now[N], got[N];
            kiln_tensor *p = parameter(of[d].dtype, 1), *kept;
            put(p, 0);
            get(p, want);
            kiln_average *a = average_of(kind, &p);
            assert_non_null(a);
            const char *name;
            assert_int_equal(kiln_average_state(a, &name, &kept, 1), 1);
            assert_string_equal(name, "average.0");
            assert_int_equal(kiln_tensor_dtype(kept), of[d].kept);
            for (int t = 1; t <= 40; t++) {
                put(p, t);
                get(p, now);
                ok(kiln_average_update(a));
                reference(kind, want, now, t - 1);
                get(kept, got);
                for (int i = 0; i < N; i++) near("average", t, got[i], want[i], of[d].tolerance);
            }
            assert_int_equal(kiln_average_updates(a), 40);
            kiln_average_free(&a);
        }
}

static void averages_are_swapped_in_and_out(void **state)
{
    kiln_tensor *p[] = {parameter(KILN_F32, 1), parameter(KILN_F32, 2)};
    kiln_tensor *own[2], *kept[2];
    kiln_average *a = kiln_average_ema(p, 2, NULL);
    for (int i = 0; i < 2; i++) put(p[i], i + 5);
    ok(kiln_average_update(a));
    assert_int_equal(kiln_average_state(a, NULL, kept, 2), 2);
    for (int i = 0; i < 2; i++) own[i] = kiln_add(p[i], 0);
    assert_false(kiln_average_is_in(a));
    ok(kiln_average_swap(a));
    assert_true(kiln_average_is_in(a));
    for (int i = 0; i < 2; i++) assert_same("in", p[i], kept[i]);
    assert_int_equal(kiln_average_update(a), KILN_E_STATE);
    expect_error(KILN_E_STATE, "average_update: the averages are in the parameters");
    ok(kiln_average_swap(a));
    for (int i = 0; i < 2; i++) assert_same("out", p[i], own[i]);
    assert_false(kiln_average_is_in(a));
    assert_int_equal(kiln_average_updates(a), 1);
    ok(kiln_average_swap(a)); // freed while they are in
    kiln_average_free(&a);
    assert_null(a);
}

static void saved_averages_go_on(void **state)
{
    for (int kind = 0; kind < 3; kind++) {
        kiln_tensor *p = parameter(KILN_F32, 1), *q = parameter(KILN_F32, 9), *from, *to;
        kiln_average *a = average_of(kind, &p), *b = average_of(kind, &q);
        for (int t = 1; t <= 5; t++) {
            put(p, t);
            ok(kiln_average_update(a));
        }
        kiln_average_state(a, NULL, &from, 1);
        kiln_average_state(b, NULL, &to, 1);
        ok(kiln_assign(to, from));
        ok(kiln_average_set_updates(b, kiln_average_updates(a)));
        for (int t = 6; t <= 9; t++) {
            put(p, t);
            put(q, t);
            ok(kiln_average_update(a));
            ok(kiln_average_update(b));
        }
        assert_same("average", from, to);
        kiln_average_free(&a);
        kiln_average_free(&b);
    }
}

struct averaged {
    kiln_tensor *p[2];
    kiln_optim *opt;
    kiln_average *average;
};

static kiln_status step_and_average(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct averaged *a = user;
    out[0] = kiln_sum(kiln_mul(a->p[0], kiln_add(in[0], kiln_mul(a->p[1], 0.25))), NULL);
    kiln_status status = kiln_backward(out[0], NULL);
    if (!status) status = kiln_optim_step(a->opt);
    return status ? status : kiln_average_update(a->average);
}

static void captured_averages_follow_steps(void **state)
{
    for (int kind = 0; kind < 3; kind++) {
        struct averaged a = {.p = {parameter(KILN_F32, 1), parameter(KILN_F32, 2)}};
        a.opt = kiln_optim_sgd(a.p, 2, KILN_SGD(.lr = 0.05));
        a.average = average_of(kind, a.p);
        kiln_function *f = kiln_jit(step_and_average, &a, KILN_JIT(.capture = KILN_CAPTURE_STRICT));
        kiln_tensor *kept;
        double want[N], now[N], got[N];
        kiln_average_state(a.average, NULL, &kept, 1);
        get(a.p[0], want);
        for (int t = 1; t <= STEPS; t++) {
            kiln_scope *inner = kiln_scope_begin();
            kiln_tensor *x = matrix(KILN_F32, t), *loss;
            ok(kiln_call(f, &x, 1, &loss, 1));
            get(a.p[0], now);
            reference(kind, want, now, t - 1);
            get(kept, got);
            for (int i = 0; i < N; i++) near("captured average", t, got[i], want[i], 1e-6);
            kiln_scope_end(&inner);
        }
        assert_int_equal(kiln_average_updates(a.average), STEPS);
        kiln_function_free(&f);
        kiln_average_free(&a.average);
        kiln_optim_free(&a.opt);
    }
}

static void averages_are_checked(void **state)
{
    kiln_tensor *p = parameter(KILN_F32, 1), *none[] = {p, NULL};
    kiln_tensor *whole = kiln_zeros(dev, KILN_I32, KILN_SHAPE(2)), *result = kiln_mul(p, 2);
    assert_null(kiln_average_ema(&p, 1, KILN_EMA(.decay = 1)));
    expect_error(KILN_E_ARGUMENT, "average_ema: .decay must be in [0, 1), got 1");
    assert_null(kiln_average_ema(&p, 1, KILN_EMA(.decay = NAN)));
    expect_error(KILN_E_ARGUMENT, "average_ema: .decay must be in [0, 1), got nan");
    assert_null(kiln_average_swa(none, 2));
    expect_error(KILN_E_ARGUMENT, "average_swa: parameter 1 is NULL");
    assert_null(kiln_average_swa(NULL, 2));
    expect_error(KILN_E_ARGUMENT, "average_swa: there are no parameters");
    assert_null(kiln_average_swa(&whole, 1));
    expect_error(KILN_E_ARGUMENT, "it is a leaf of i32");
    assert_null(kiln_average_swa(&result, 1));
    expect_error(KILN_E_ARGUMENT, "it is a result of f32");
    kiln_average *a = kiln_average_swa(&p, 1);
    assert_int_equal(kiln_average_set_updates(a, -3), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "the number must not be below 0, got -3");
    assert_int_equal(kiln_average_update(NULL), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "average_update: average is NULL");
    kiln_average_free(&a);
    kiln_average_free(&a);
}

// --- schedules

static void lines_and_powers_follow_their_formulas(void **state)
{
    kiln_schedule *line = kiln_schedule_linear(0.8, 0.2, 7), *up = kiln_schedule_linear(0.1, 0.5, 4);
    kiln_schedule *power = kiln_schedule_polynomial(0.8, 0.2, 7, 2.5), *root = kiln_schedule_polynomial(1, 0, 3, 0.5);
    for (int t = 0; t < 12; t++) {
        near("linear", t, kiln_schedule_lr(line, t), t < 7 ? 0.8 - 0.6 * t / 7 : 0.2, 1e-14);
        near("linear, up", t, kiln_schedule_lr(up, t), t < 4 ? 0.1 + 0.4 * t / 4 : 0.5, 1e-14);
        near("polynomial", t, kiln_schedule_lr(power, t), t < 7 ? 0.2 + 0.6 * pow((7.0 - t) / 7, 2.5) : 0.2, 1e-14);
        near("root", t, kiln_schedule_lr(root, t), t < 3 ? sqrt((3.0 - t) / 3) : 0, 1e-14);
    }
    assert_int_equal(kiln_schedule_state(line, NULL, 0), 0);
    ok(kiln_schedule_report(line, 1));
    kiln_schedule_free(&line);
    kiln_schedule_free(&up);
    kiln_schedule_free(&power);
    kiln_schedule_free(&root);
    assert_null(kiln_schedule_linear(-1, 0, 3));
    expect_error(KILN_E_ARGUMENT, "schedule_linear: the rates must be numbers not below 0, got -1 and 0");
    assert_null(kiln_schedule_linear(1, 0, 0));
    expect_error(KILN_E_ARGUMENT, "schedule_linear: the number of steps must be positive, got 0");
    assert_null(kiln_schedule_polynomial(1, 0, 3, NAN));
    expect_error(KILN_E_ARGUMENT, "schedule_polynomial: the power must be positive, got nan");
}

struct plateau {
    double lr, best;
    int bad, wait;
    bool any;
};

// Written from the description: patience 2, factor 0.5, threshold 0.1, cooldown 1, min_lr 0.2.
static void fall(struct plateau *p, double metric, bool rises, bool absolute)
{
    double m = rises ? -metric : metric, best = rises ? -p->best : p->best;
    double least = absolute ? best - 0.1 : best - 0.1 * fabs(best);
    bool better = !isnan(metric) && (!p->any || m < least);
    if (better) p->best = metric, p->any = true, p->bad = 0;
    if (!better) p->bad++;
    if (p->wait > 0) p->wait--, p->bad = 0;
    if (p->bad <= 2) return;
    p->lr = fmax(p->lr / 2, 0.2);
    p->bad = 0;
    p->wait = 1;
}

static void plateaus_follow_their_description(void **state)
{
    static const double metrics[] = {5, 4, 3.9, 3.95, 3.85, 2, NAN, NAN, 2, 2, 2, 2.1, 1.95, 1, 1, 1, 1,
                                     1, 1, 1,   1,    1,    0, 0,   -1,  0, 1, 2, 3,   4,    5, 6, 7, 8};
    for (int form = 0; form < 4; form++) {
        bool rises = form & 1, absolute = form & 2;
        struct plateau want = {.lr = 1};
        const kiln_plateau_opts *o = KILN_PLATEAU(.factor = 0.5, .patience = 2, .threshold = 0.1, .cooldown = 1,
                                                  .min_lr = 0.2, .rises = rises, .absolute = absolute);
        kiln_schedule *s = kiln_schedule_plateau(1, o), *again;
        for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
            ok(kiln_schedule_report(s, metrics[i]));
            fall(&want, metrics[i], rises, absolute);
            near("plateau", (int)i, kiln_schedule_lr(s, (int64_t)i), want.lr, 0);
            double numbers[4];
            assert_int_equal(kiln_schedule_state(s, numbers, 4), 4);
            again = kiln_schedule_plateau(1, o);
            ok(kiln_schedule_set_state(again, numbers, 4));
            kiln_schedule_free(&s);
            s = again; // a run that is cut off and goes on at each report
        }
        kiln_schedule_free(&s);
    }
}

static void plateaus_hear_what_optimisers_are_told(void **state)
{
    kiln_tensor *p[] = {parameter(KILN_F32, 1), parameter(KILN_F32, 2)};
    kiln_optim *opt = kiln_optim_sgd(p, 1, NULL);
    kiln_schedule *inner = kiln_schedule_plateau(0.5, KILN_PLATEAU(.patience = -1));
    ok(kiln_optim_set_schedule(opt, kiln_schedule_warmup(4, inner)));
    ok(kiln_optim_add_group(opt, p + 1, 1,
                            KILN_OPTIM_GROUP(.schedule = kiln_schedule_plateau(1, KILN_PLATEAU(.patience = 1)))));
    near("warm-up", 0, kiln_optim_lr(opt), 0.1, 1e-15);
    ok(kiln_optim_set_steps(opt, 9));
    for (int i = 0; i < 2; i++) ok(kiln_optim_report(opt, 1));
    near("first", 2, kiln_optim_lr(opt), 0.05, 1e-15);
    near("group", 2, kiln_optim_group_lr(opt, 1), 1, 0);
    ok(kiln_optim_report(opt, 1));
    near("first", 3, kiln_optim_lr(opt), 0.005, 1e-15);
    near("group", 3, kiln_optim_group_lr(opt, 1), 0.1, 1e-15);
    kiln_optim_free(&opt);
}

static void plateaus_are_checked(void **state)
{
    assert_null(kiln_schedule_plateau(1, KILN_PLATEAU(.factor = 1)));
    expect_error(KILN_E_ARGUMENT, "schedule_plateau: .factor must be in (0, 1), got 1");
    assert_null(kiln_schedule_plateau(1, KILN_PLATEAU(.patience = -2)));
    expect_error(KILN_E_ARGUMENT, "got -2 and 0");
    assert_null(kiln_schedule_plateau(1, KILN_PLATEAU(.threshold = -1)));
    expect_error(KILN_E_ARGUMENT, ".threshold must be a number not below 0, got -1");
    kiln_schedule *s = kiln_schedule_plateau(1, NULL);
    double state_of[] = {1, NAN, 0, 0};
    assert_int_equal(kiln_schedule_set_state(s, state_of, 4), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "is no state of a plateau");
    assert_int_equal(kiln_schedule_set_state(s, state_of, 3), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "the state has 4 numbers, 3 are given");
    assert_true(isnan(kiln_schedule_lr(s, -1)));
    expect_error(KILN_E_ARGUMENT, "schedule_lr: the step must not be below 0, got -1");
    kiln_schedule_free(&s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(averages_follow_their_formulas),
        TEST(averages_are_swapped_in_and_out),
        TEST(saved_averages_go_on),
        TEST(captured_averages_follow_steps),
        TEST(averages_are_checked),
        TEST(lines_and_powers_follow_their_formulas),
        TEST(plateaus_follow_their_description),
        TEST(plateaus_hear_what_optimisers_are_told),
        TEST(plateaus_are_checked),
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
        snprintf(group, sizeof group, "optim_averages on %s", devices[i]);
        failures += _cmocka_run_group_tests(group, tests, sizeof tests / sizeof *tests, NULL, NULL);
        kiln_device_close(&dev);
    }
    return failures != 0;
}
