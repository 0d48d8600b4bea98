// Training loops as one graph: what a step does in a region of control flow is what it does in a loop of C.
#include "jit_cells.h"
#include <kiln/control.h>
#include <kiln/host.h>
#include <kiln/nn.h>
#include <kiln/optim.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

enum { SGD, ADAM, ADAMW, RMSPROP, OPTIMS };
enum { TRIPS = 10, MAX_PARAMS = 16, MAX_STATE = 48 };
enum {
    ZERO_FIRST = 1,
    ZERO_LAST = 2,
    BY_NORM = 4,
    BY_VALUE = 8,
    SCHEDULED = 16,
    IF_FINITE = 32,
    CLIP_INSIDE = 64,
    BY_GRADIENTS = 128,
    ADD_UP = 512,
    BY_HOST = 256
};

struct training {
    kiln_cell *net;
    kiln_optim *opt;
    kiln_tensor *params[MAX_PARAMS];
    size_t n;
    int how;
    int64_t trips;
    kiln_tensor *x, *y; // the data, of which each trip takes a part
    kiln_tensor *data[2];
};

static kiln_cell *build(struct fixture *f, double dropped)
{
    ok(kiln_seed(f->dev, 5));
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(
        kiln_nn_conv2d(f->dev, 1, 2, 3, KILN_NN_CONV2D(.pad_mode = "same")), kiln_nn_batch_norm2d(f->dev, 2, NULL),
        kiln_nn_tanh(), kiln_nn_flatten(), kiln_nn_dropout(dropped), kiln_nn_dense(f->dev, 18, 1, NULL)));
    ok(kiln_cell_set_training(net, true));
    return net;
}

static void make(struct fixture *f, struct training *t, int kind, int how)
{
    *t = (struct training){.how = how, .trips = TRIPS};
    t->net = build(f, how & BY_HOST ? 0 : 0.25);
    t->n = kiln_cell_parameters(t->net, t->params, MAX_PARAMS);
    assert_true(t->n >= 5 && t->n <= MAX_PARAMS);
    switch (kind) {
    case SGD: t->opt = kiln_optim_sgd(t->params, t->n, KILN_SGD(.lr = 0.05, .momentum = 0.9)); break;
    case ADAM: t->opt = kiln_optim_adam(t->params, t->n, KILN_ADAM(.lr = 0.05)); break;
    case ADAMW: t->opt = kiln_optim_adamw(t->params, t->n, KILN_ADAM(.lr = 0.05)); break;
    default: t->opt = kiln_optim_rmsprop(t->params, t->n, KILN_RMSPROP(.lr = 0.02, .momentum = 0.5)); break;
    }
    if (how & SCHEDULED) ok(kiln_optim_set_schedule(t->opt, kiln_schedule_cosine(0.1, 0.001, 15)));
    float x[216], y[24];
    for (int i = 0; i < 216; i++) x[i] = (float)sin(i * 0.7 + 0.3);
    for (int i = 0; i < 24; i++) y[i] = x[9 * i] - 2 * x[9 * i + 1] * x[9 * i + 5];
    t->data[0] = kiln_from_data(f->dev, KILN_F32, KILN_SHAPE(24, 1, 3, 3), x);
    t->data[1] = kiln_from_data(f->dev, KILN_F32, KILN_SHAPE(24, 1), y);
    ok(kiln_seed(f->dev, 77));
}

static void drop(struct training *t)
{
    kiln_optim_free(&t->opt);
    kiln_cell_free(&t->net);
}

static kiln_status clip(struct training *t)
{
    if (t->how & BY_NORM && !kiln_clip_grad_norm(t->params, t->n, 0.5)) return kiln_error();
    return t->how & BY_VALUE ? kiln_clip_grad_value(t->params, t->n, 0.05) : KILN_OK;
}

REGION(steps)
{
    struct training *t = user;
    if (t->how & CLIP_INSIDE) TRY_(clip(t));
    return kiln_optim_step(t->opt);
}

static kiln_status leave_gradients(struct training *t, kiln_tensor *loss)
{
    kiln_tensor *d[MAX_PARAMS];
    if (t->how & ADD_UP) return kiln_backward_with(loss, KILN_BACKWARD(.accumulate = true));
    if (!(t->how & BY_GRADIENTS)) return kiln_backward(loss, NULL);
    TRY_(kiln_gradients(loss, t->params, t->n, NULL, d));
    for (size_t i = 0; i < t->n; i++) TRY_(kiln_set_gradient(t->params[i], d[i]));
    return KILN_OK;
}

// in: the trip, the sum of the losses. Each trip takes another part of the data.
REGION(train_step)
{
    struct training *t = user;
    kiln_tensor *at = kiln_remainder(kiln_mul(in[0], kiln_scalar_int(5)), kiln_scalar_int(17));
    kiln_tensor *x = kiln_slice_at(t->x, 0, at, 8), *y = kiln_slice_at(t->y, 0, at, 8);
    if (t->how & ZERO_FIRST) TRY_(kiln_optim_zero_grad(t->opt));
    kiln_tensor *loss = kiln_mean(kiln_square(kiln_sub(kiln_cell_call(t->net, x), y)), NULL);
    TRY_(leave_gradients(t, loss));
    if (!(t->how & CLIP_INSIDE)) TRY_(clip(t));
    if (t->how & IF_FINITE) {
        kiln_tensor *finite = kiln_less(kiln_square(kiln_sub(kiln_cast(in[0], KILN_F32), kiln_scalar(4))),
                                        kiln_scalar(12)); // not in each trip
        finite = kiln_logical_and(finite, kiln_isfinite(loss));
        TRY_(kiln_cond(finite, steps, NULL, user, NULL, 0, NULL, 0));
    } else
        TRY_(steps(user, NULL, 0, NULL, 0));
    if (t->how & ZERO_LAST) TRY_(kiln_optim_zero_grad(t->opt));
    out[0] = kiln_add(in[1], kiln_stop_gradient(loss));
    return kiln_error();
}

REGION(train)
{
    struct training *t = user;
    t->x = in[0], t->y = in[1];
    kiln_tensor *sum = kiln_zeros(kiln_tensor_device(t->x), KILN_F32, KILN_SHAPE0);
    return kiln_for(kiln_scalar_int(t->trips), train_step, user, &sum, 1, NULL, out, 1);
}

// The same with the loop of C.
REGION(train_by_host)
{
    struct training *t = user;
    t->x = in[0], t->y = in[1];
    out[0] = kiln_zeros(kiln_tensor_device(t->x), KILN_F32, KILN_SHAPE0);
    for (int64_t i = 0; i < t->trips; i++) {
        kiln_tensor *args[] = {kiln_scalar_int(i), out[0]};
        TRY_(train_step(user, args, 2, out, 1));
    }
    return kiln_error();
}

// Eager mode, the captures, and two that give the bits of eager mode.
enum { EAGER = -1, STRICT_BITS = CELLS, TRACE_BITS, WAYS };

static bool is_exact(int way)
{
    return way == EAGER || way >= STRICT_BITS;
}

static const char *name_of(int way)
{
    return way == EAGER         ? "eager"
           : way == STRICT_BITS ? "STRICT by ops"
           : way == TRACE_BITS  ? "TRACE by ops"
                                : cell_names[way];
}

static kiln_function *capture_so(int way, kiln_fn fn, void *user)
{
    if (way == EAGER) return NULL;
    if (way < CELLS) return capture_in((enum cell)way, fn, user);
    return kiln_jit(
        fn, user,
        KILN_JIT(.capture = way == TRACE_BITS ? KILN_CAPTURE_TRACE : KILN_CAPTURE_STRICT, .level = KILN_LEVEL_PASSES));
}

// With fusion another rounding of the first trip is larger after twenty.
static bool is_near(int way, kiln_tensor *a, kiln_tensor *b)
{
    double x[256], y[256], most = 0;
    read_all(a, x);
    read_all(b, y);
    if (is_exact(way)) return memcmp(x, y, (size_t)kiln_numel(a) * sizeof *x) == 0;
    for (int64_t i = 0; i < kiln_numel(a); i++) most = fmax(most, fabs(y[i]));
    for (int64_t i = 0; i < kiln_numel(a); i++)
        if (!(fabs(x[i] - y[i]) <= 4e-3 * most + 1e-6)) return false;
    return true;
}

static void compare(int cell, int call, const char *what, size_t i, kiln_tensor *got, kiln_tensor *want)
{
    if (!got == !want && (!got || is_near(cell, got, want))) return;
    print_error("%s, call %d: %s %zu differs\n", name_of(cell), call, what, i);
    if (got) kiln_print(got, stderr);
    if (want) kiln_print(want, stderr);
    fail();
}

static void compare_all(int cell, int call, struct training *got, struct training *want)
{
    kiln_tensor *a[MAX_STATE], *b[MAX_STATE];
    for (size_t i = 0; i < got->n; i++) {
        compare(cell, call, "parameter", i, got->params[i], want->params[i]);
        compare(cell, call, "gradient", i, kiln_gradient(got->params[i]), kiln_gradient(want->params[i]));
    }
    size_t n = kiln_optim_state(got->opt, NULL, a, MAX_STATE);
    assert_int_equal(kiln_optim_state(want->opt, NULL, b, MAX_STATE), n);
    for (size_t i = 0; i < n; i++) compare(cell, call, "moment", i, a[i], b[i]);
    n = kiln_cell_state(got->net, NULL, a, MAX_STATE); // with the statistics
    assert_int_equal(kiln_cell_state(want->net, NULL, b, MAX_STATE), n);
    for (size_t i = 0; i < n; i++) compare(cell, call, "state", i, a[i], b[i]);
    assert_int_equal(kiln_optim_steps(got->opt), kiln_optim_steps(want->opt));
    assert_true(kiln_optim_lr(got->opt) == kiln_optim_lr(want->opt));
}

static void check(struct fixture *f, int kind, int how)
{
    for (int cell = EAGER; cell < WAYS; cell++) {
        struct training got, want;
        kiln_tensor *a[2], *b[2];
        ok(kiln_set_mode(KILN_MODE_EAGER));
        make(f, &want, kind, how);
        kiln_fn by = how & BY_HOST ? train_by_host : train; // with another stream of random numbers
        for (int call = 0; call < 2; call++) ok(by(&want, want.data, 2, &b[call], 1));
        int64_t steps_taken = kiln_optim_steps(want.opt);
        assert_int_equal(steps_taken, how & IF_FINITE ? 14 : 20);
        make(f, &got, kind, how);
        kiln_function *j = capture_so(cell, train, &got);
        for (int call = 0; call < 2; call++) {
            ok(j ? kiln_call(j, got.data, 2, &a[call], 1) : train(&got, got.data, 2, &a[call], 1));
            compare(cell, call, "loss", 0, a[call], b[call]);
        }
        compare_all(cell, 1, &got, &want);
        if (j && cell != AUTO) {
            kiln_jit_stats s = {.size = sizeof s};
            kiln_function_stats(j, &s);
            assert_in_range(s.captures, 1, 2);
            assert_int_equal(s.fallbacks, 0);
        }
        kiln_function_free(&j);
        drop(&got);
        drop(&want);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static void optimisers_step_in_loops(void **state)
{
    bool slow = !strcmp(jit_device, "vulkan"); // each is a program of shaders, and launches by the thousand
    for (int kind = 0; kind < OPTIMS && !slow; kind++) check(*state, kind, ZERO_FIRST | BY_HOST);
    for (int kind = 0; kind < OPTIMS; kind++) check(*state, kind, ZERO_FIRST | SCHEDULED);
}

static void however_gradients_come_and_go(void **state)
{
    static const int hows[] = {ZERO_LAST | SCHEDULED,
                               BY_GRADIENTS,
                               ZERO_FIRST | ZERO_LAST,
                               BY_HOST,
                               BY_HOST | ADD_UP,
                               ADD_UP | ZERO_LAST | BY_NORM,
                               ADD_UP | ZERO_FIRST | IF_FINITE,
                               ZERO_FIRST | BY_NORM | SCHEDULED,
                               ZERO_LAST | BY_VALUE,
                               ZERO_FIRST | IF_FINITE | SCHEDULED,
                               ZERO_FIRST | IF_FINITE | CLIP_INSIDE | BY_NORM,
                               ZERO_LAST | IF_FINITE | CLIP_INSIDE | BY_VALUE | BY_HOST,
                               IF_FINITE | BY_VALUE | BY_NORM};
    size_t step = strcmp(jit_device, "vulkan") ? 1 : 4;
    for (size_t i = 0; i < sizeof hows / sizeof *hows; i += step)
        check(*state, i % 2 || hows[i] & ADD_UP ? ADAM : SGD, hows[i]);
}

// --- how much is captured, and what a failing trip leaves

static kiln_jit_stats stats_for(struct fixture *f, enum cell cell, int64_t trips)
{
    struct training t;
    make(f, &t, ADAM, ZERO_FIRST | SCHEDULED | BY_NORM);
    t.trips = trips;
    kiln_function *j = capture_in(cell, train, &t);
    for (int call = 0; call < 2; call++) {
        kiln_tensor *loss;
        ok(kiln_call(j, t.data, 2, &loss, 1));
        assert_int_equal(kiln_optim_steps(t.opt), (call + 1) * trips);
        assert_true(isfinite(kiln_item(loss)));
    }
    kiln_jit_stats stats = stats_of(j);
    kiln_function_free(&j);
    drop(&t);
    ok(kiln_set_mode(KILN_MODE_EAGER));
    return stats;
}

static void many_trips_are_captured_as_few_are(void **state)
{
    int64_t many = strcmp(jit_device, "cpu") ? 100 : 10000;
    for (enum cell cell = 0; cell < AUTO; cell++) {
        kiln_jit_stats a = stats_for(*state, cell, 10), b = stats_for(*state, cell, many);
        assert_int_equal(a.captures, 1);
        assert_int_equal(b.captures, 1);
        assert_int_equal(b.nodes, a.nodes);
        assert_true(b.kernels_compiled <= a.kernels_compiled);
        assert_int_equal(b.fallbacks, 0);
    }
}

static kiln_tensor *last;

// Fails behind the step of the trip `last`.
REGION(step_and_check)
{
    TRY_(train_step(user, in, n_in, out, n_out));
    return kiln_assert(kiln_less(in[0], last), "trip {}", in[0]);
}

REGION(train_and_check)
{
    struct training *t = user;
    t->x = in[0], t->y = in[1], last = in[2];
    kiln_tensor *sum = kiln_zeros(kiln_tensor_device(t->x), KILN_F32, KILN_SHAPE0);
    return kiln_for(kiln_scalar_int(t->trips), step_and_check, user, &sum, 1, NULL, out, 1);
}

// Parameters, moments, statistics and the count of steps.
static void a_trip_that_fails_has_done_what_stands_before(void **state)
{
    struct fixture *f = *state;
    for (int cell = STRICT; cell < WAYS; cell++) {
        struct training got, want;
        ok(kiln_set_mode(KILN_MODE_EAGER));
        make(f, &want, ADAM, ZERO_LAST | SCHEDULED);
        make(f, &got, ADAM, ZERO_LAST | SCHEDULED);
        kiln_function *j = capture_so(cell, train_and_check, &got);
        for (int64_t call = 0; call < 4; call++) {
            kiln_tensor *y, *limit = kiln_full(f->dev, KILN_I64, KILN_SHAPE0, (double)(call * 7 % 12));
            kiln_tensor *a[] = {got.data[0], got.data[1], limit}, *b[] = {want.data[0], want.data[1], limit};
            ok(kiln_seed(f->dev, (uint64_t)call));
            kiln_status expected = train_and_check(&want, b, 3, &y, 1);
            kiln_error_clear();
            ok(kiln_seed(f->dev, (uint64_t)call));
            assert_int_equal(kiln_call(j, a, 3, &y, 1), expected);
            kiln_error_clear();
            compare_all(cell, (int)call, &got, &want);
        }
        kiln_function_free(&j);
        drop(&got);
        drop(&want);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// --- what regions leave in parameters, and what they may not

static kiln_tensor *weight;

static kiln_tensor *loss_of(kiln_tensor *x)
{
    return kiln_sum(kiln_square(kiln_mul(x, weight)), NULL);
}

REGION(adds_up)
{
    TRY_(kiln_backward_with(loss_of(in[n_in - 1]), KILN_BACKWARD(.accumulate = true)));
    out[0] = kiln_add(in[n_in - 1], kiln_scalar(1));
    return kiln_error();
}

REGION(replaces)
{
    TRY_(kiln_backward(loss_of(in[n_in - 1]), NULL));
    out[0] = kiln_add(in[n_in - 1], kiln_scalar(1));
    return kiln_error();
}

REGION(takes_away)
{
    TRY_(kiln_set_gradient(weight, NULL));
    out[0] = kiln_add(in[n_in - 1], kiln_scalar(1));
    return kiln_error();
}

REGION(uses_and_takes_away)
{
    kiln_tensor *g = kiln_gradient(weight);
    out[0] = g ? kiln_add(in[n_in - 1], g) : kiln_add(in[n_in - 1], kiln_scalar(1));
    return kiln_set_gradient(weight, NULL);
}

REGION(reads_before)
{
    kiln_tensor *g = kiln_gradient(weight);
    out[0] = g ? kiln_add(in[n_in - 1], g) : kiln_add(in[n_in - 1], kiln_scalar(1));
    return kiln_backward(loss_of(in[n_in - 1]), NULL);
}

REGION(leaves_it)
{
    out[0] = kiln_add(in[n_in - 1], kiln_scalar(2));
    return kiln_error();
}

REGION(is_below)
{
    out[0] = kiln_less(kiln_sum(in[0], NULL), kiln_scalar(9));
    return kiln_error();
}

REGION(by_for)
{
    return kiln_for(kiln_scalar_int(3), *(kiln_fn *)user, user, in + n_in - 1, 1, NULL, out, 1);
}

REGION(by_nest)
{
    return kiln_for(kiln_scalar_int(2), by_for, user, in + n_in - 1, 1, NULL, out, 1);
}

REGION(by_nests)
{
    return kiln_for(kiln_scalar_int(2), by_nest, user, in, 1, NULL, out, 1);
}

REGION(by_no_trip)
{
    return kiln_for(kiln_scalar_int(0), *(kiln_fn *)user, user, in, 1, NULL, out, 1);
}

REGION(by_count)
{
    return kiln_for(kiln_cast(kiln_sum(in[0], NULL), KILN_I64), *(kiln_fn *)user, user, in, 1, NULL, out, 1);
}

REGION(by_while)
{
    return kiln_while(is_below, *(kiln_fn *)user, user, in, 1, NULL, out, 1);
}

REGION(by_while_bound)
{
    return kiln_while(is_below, *(kiln_fn *)user, user, in, 1, KILN_LOOP(.bound = 20), out, 1);
}

REGION(by_branch)
{
    kiln_tensor *pred = kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(3));
    return kiln_cond(pred, *(kiln_fn *)user, leaves_it, user, in, 1, out, 1);
}

REGION(by_branches)
{
    kiln_tensor *pred = kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(3));
    return kiln_cond(pred, *(kiln_fn *)user, adds_up, user, in, 1, out, 1);
}

REGION(by_branch_in_loop)
{
    kiln_tensor *x = in[n_in - 1], *pred = kiln_greater(kiln_sum(x, NULL), kiln_scalar(3));
    return kiln_cond(pred, *(kiln_fn *)user, leaves_it, user, &x, 1, out, 1);
}

REGION(by_branch_in_while)
{
    return kiln_while(is_below, by_branch_in_loop, user, in, 1, NULL, out, 1);
}

struct left {
    kiln_fn way, region;
    const char *without, *with; // why not, where there is no gradient before, and where there is one; NULL: it works
};

static void run_left(struct fixture *f, const struct left *l, enum cell cell, bool with)
{
    kiln_tensor *weights[2], *start = vec(f, 1, 0.75);
    const char *why = with ? l->with : l->without;
    if (cell == AUTO) why = NULL;
    for (int i = 0; i < 2; i++) {
        weights[i] = kiln_parameter(vec(f, 1, 0.5), "w");
        if (with) ok(kiln_set_gradient(weights[i], start));
    }
    kiln_fn region = l->region;
    kiln_function *j = capture_in(cell, l->way, &region);
    for (int call = 0; call < 3; call++) {
        kiln_tensor *x = vec(f, 1, 2. + call), *got, *want;
        weight = weights[0];
        ok(l->way(&region, &x, 1, &want, 1));
        weight = weights[1];
        kiln_status status = kiln_call(j, &x, 1, &got, 1);
        if (why) {
            fails(status, KILN_E_UNSUPPORTED, why);
            break;
        }
        ok(status);
        same_or_say(cell, call, "the result", got, want);
        same_or_say(cell, call, "the gradient", kiln_gradient(weights[1]), kiln_gradient(weights[0]));
    }
    kiln_function_free(&j);
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static void what_is_left_is_what_eager_mode_leaves(void **state)
{
    static const char one[] = "in one case and none in another", unknown[] = "whether it runs is not known",
                      first[] = "before it has one", uses[] = "uses the gradient that it finds";
    static const struct left all[] = {
        {by_for, adds_up, NULL, NULL},
        {by_nests, adds_up, NULL, NULL},
        {by_no_trip, adds_up, NULL, NULL},
        {by_count, adds_up, unknown, NULL},
        {by_while, adds_up, unknown, NULL},
        {by_while_bound, adds_up, unknown, NULL},
        {by_branch, adds_up, one, NULL},
        {by_branches, adds_up, NULL, NULL},
        {by_branch_in_while, adds_up, one, NULL},
        {by_for, replaces, NULL, NULL},
        {by_nests, replaces, NULL, NULL},
        {by_while, replaces, unknown, NULL},
        {by_branch, replaces, one, NULL},
        {by_branches, replaces, NULL, NULL},
        {by_branch_in_while, replaces, one, NULL},
        {by_for, takes_away, NULL, NULL},
        {by_nests, takes_away, NULL, NULL},
        {by_no_trip, takes_away, NULL, NULL},
        {by_while, takes_away, NULL, unknown},
        {by_branch, takes_away, NULL, one},
        {by_branches, takes_away, one, one},
        {by_for, uses_and_takes_away, NULL, uses},
        {by_for, reads_before, first, NULL},
        {by_while, reads_before, unknown, NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (enum cell cell = 0; cell < CELLS; cell++)
            for (int with = 0; with < 2; with++) {
                run_left(*state, &all[i], cell, with);
            }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(optimisers_step_in_loops),
        FIXTURE(however_gradients_come_and_go),
        FIXTURE(many_trips_are_captured_as_few_are),
        FIXTURE(a_trip_that_fails_has_done_what_stands_before),
        FIXTURE(what_is_left_is_what_eager_mode_leaves),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
