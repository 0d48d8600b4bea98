// Launches that are recorded once and run again: the values are those of eager mode whatever changes from call to call,
// what does not change is recorded and costs the calling thread next to nothing, and nothing of it is seen when memory
// or the driver fails.
#include "jit_fixture.h"
#include "vulkan/vk.h"
#include <kiln/control.h>
#include <kiln/optim.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

enum { N = 8, LONG = 16, FULL = 100 }; // FULL: launches of a batch of single ops

static uint64_t recorded(struct fixture *f)
{
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(f->dev, &s);
    return s.recorded_launches;
}

static kiln_tensor *filled(struct fixture *f, int64_t rows, double from)
{
    kiln_tensor *t = kiln_arange(f->dev, KILN_F32, from, from + 1 - 1e-9, 1.0 / (double)(rows * N));
    return kiln_reshape(t, KILN_SHAPE(rows, N));
}

// Products are launches of their own, and each needs the one before.
FN(products)
{
    out[0] = in[0];
    for (int i = 0; i < LONG; i++) out[0] = kiln_tanh(kiln_matmul(out[0], in[1]));
    return kiln_error();
}

// The first input is of the first launch alone.
static void check_call(kiln_function *f, kiln_fn fn, void *user, kiln_tensor **in, size_t n_in)
{
    kiln_tensor *is, *want;
    ok(fn(user, in, n_in, &want, 1));
    ok(kiln_call(f, in, n_in, &is, 1));
    near(is, want, 1e-6);
    kiln_free(&is);
    kiln_free(&want);
}

static void one_call_after_the_other(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {filled(f, N, -0.5), filled(f, N, -0.25)};
    kiln_function *j = kiln_jit(products, NULL, NULL);
    uint64_t before = recorded(f), launches = launches_of(f);
    check_call(j, products, NULL, in, 2);
    assert_int_equal(recorded(f), before); // the first call may be the only one
    launches = launches_of(f) - launches;
    for (int i = 0; i < 6; i++) check_call(j, products, NULL, in, 2);
    assert_in_range(recorded(f) - before, 5 * LONG, 6 * 2 * LONG);
    assert_true(launches >= LONG);
    kiln_function_free(&j);
}

// Inputs that lie elsewhere in each call: their launches are made anew, the others are not.
static void ever_new_inputs(void **state)
{
    enum { INPUTS = 12 };
    struct fixture *f = *state;
    kiln_tensor *x[INPUTS], *w = filled(f, N, -0.25);
    for (int i = 0; i < INPUTS; i++) x[i] = filled(f, N, -0.1 * i);
    kiln_function *j = kiln_jit(products, NULL, NULL);
    uint64_t before = 0;
    for (int i = 0; i < 3 * INPUTS; i++) {
        if (i == 2 * INPUTS) before = recorded(f);
        check_call(j, products, NULL, (kiln_tensor *[]){x[i % INPUTS], w}, 2);
    }
    assert_in_range(recorded(f) - before, INPUTS * (LONG - 1), INPUTS * (2 * LONG - 1));
    kiln_function_free(&j);
}

// Two and three memories that alternate.
static void inputs_by_turns(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x[] = {filled(f, N, 0), filled(f, N, 0.5)},
                *w[] = {filled(f, N, -0.5), filled(f, N, 0.1), filled(f, N, 1)};
    kiln_function *j = kiln_jit(products, NULL, NULL);
    for (int i = 0; i < 40; i++) check_call(j, products, NULL, (kiln_tensor *[]){x[i % 2], w[i % 3]}, 2);
    for (int i = 0; i < 40; i++) check_call(j, products, NULL, (kiln_tensor *[]){w[i % 2], w[i % 2]}, 2);
    kiln_function_free(&j);
}

// Every result stays alive, so that each lies elsewhere.
static void results_that_are_kept(void **state)
{
    enum { CALLS = 24 };
    struct fixture *f = *state;
    kiln_tensor *in[] = {filled(f, N, -0.5), filled(f, N, -0.25)}, *is[CALLS], *want;
    kiln_function *j = kiln_jit(products, NULL, NULL);
    ok(products(NULL, in, 2, &want, 1));
    for (int i = 0; i < CALLS; i++) ok(kiln_call(j, in, 2, &is[i], 1));
    for (int i = 0; i < CALLS; i++) near(is[i], want, 1e-6);
    for (int i = 0; i < CALLS; i++) kiln_free(&is[i]);
    kiln_function_free(&j);
}

// Memory that is kept for what moves is a sixteenth of what there may be, at most.
static void little_is_held(void **state)
{
    enum { CALLS = 16, FEW = 7, LIMIT_B = 12 << 20 };
    struct fixture *f = *state;
    kiln_tensor *in[] = {filled(f, 256, -0.5), filled(f, N, -0.25)}, *is[CALLS];
    for (int part = 0; part < 2; part++) {
        kiln_function *j = kiln_jit(products, NULL, NULL);
        uint64_t before = recorded(f);
        ok(kiln_device_set_memory_limit(f->dev, part ? LIMIT_B : 0));
        if (part) in[0] = filled(f, 3 << 13, -0.5); // 768 KiB
        for (int i = 0; i < (part ? FEW : CALLS); i++) ok(kiln_call(j, in, 2, &is[i], 1));
        assert_true(f->dev->held_B <= (part ? LIMIT_B / 16 : 256 << 20));
        if (!part) assert_true(f->dev->held_B > 0 && recorded(f) > before);
        for (int i = 0; i < (part ? FEW : CALLS); i++) kiln_free(&is[i]);
        kiln_function_free(&j);
        assert_int_equal(f->dev->held_B, 0);
    }
    ok(kiln_device_set_memory_limit(f->dev, 0));
}

FN(scaled_products)
{
    out[0] = in[0];
    for (int i = 0; i < LONG; i++) {
        out[0] = kiln_tanh(kiln_matmul(out[0], in[1]));
        if (i == LONG / 2) out[0] = kiln_mul(out[0], in[2]);
    }
    return kiln_error();
}

static void numbers_of_the_host(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = filled(f, N, -0.5), *w = filled(f, N, -0.25);
    kiln_function *j = kiln_jit(scaled_products, NULL, NULL);
    uint64_t before = recorded(f);
    for (int i = 0; i < 20; i++) {
        kiln_tensor *in[] = {x, w, kiln_mutable(0.25 * (i % 13))};
        check_call(j, scaled_products, NULL, in, 3);
    }
    assert_int_equal(stats_of(j).captures, 1);
    assert_true(recorded(f) - before >= 10 * (LONG / 2));
    kiln_function_free(&j);
}

FN(noisy_products)
{
    out[0] = in[0];
    for (int i = 0; i < LONG; i++) {
        out[0] = kiln_tanh(kiln_matmul(out[0], in[1]));
        if (i % 12 == 0) out[0] = kiln_add(out[0], kiln_uniform(NULL, KILN_F32, KILN_SHAPE(N, N), 0, 1));
    }
    return kiln_error();
}

static void random_numbers(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {filled(f, N, -0.5), filled(f, N, -0.25)}, *want[6], *is;
    kiln_function *j = kiln_jit(noisy_products, NULL, NULL);
    ok(kiln_set_device(f->dev));
    ok(kiln_seed(f->dev, 7));
    for (int i = 0; i < 6; i++) ok(noisy_products(NULL, in, 2, &want[i], 1));
    ok(kiln_seed(f->dev, 7));
    uint64_t before = recorded(f);
    for (int i = 0; i < 6; i++) {
        ok(kiln_call(j, in, 2, &is, 1));
        near(is, want[i], 1e-6);
        kiln_free(&is);
    }
    assert_true(recorded(f) - before >= 4 * LONG / 2);
    kiln_function_free(&j);
}

// What a call writes, the next one reads.
FN(written)
{
    out[0] = in[0];
    for (int i = 0; i < LONG; i++) out[0] = kiln_tanh(kiln_matmul(out[0], in[1]));
    ok(kiln_assign(in[0], kiln_add(in[0], kiln_scalar(0.125))));
    ok(kiln_assign(in[1], out[0]));
    return kiln_error();
}

static void writes(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *is, *want, *a[] = {filled(f, N, -0.5), filled(f, N, 0)},
                            *b[] = {kiln_add(a[0], kiln_scalar(0)), kiln_add(a[1], kiln_scalar(0))};
    kiln_function *j = kiln_jit(written, NULL, NULL);
    for (int i = 0; i < 8; i++) {
        ok(written(NULL, a, 2, &want, 1));
        ok(kiln_call(j, b, 2, &is, 1));
        near(is, want, 1e-6);
        near(b[0], a[0], 1e-6);
        near(b[1], a[1], 1e-6);
        kiln_free(&is);
    }
    kiln_function_free(&j);
}

FN(stepped)
{
    out[0] = in[0];
    for (int i = 0; i < LONG; i++) out[0] = kiln_tanh(kiln_matmul(out[0], in[1]));
    out[0] = kiln_add(out[0], in[0]);
    return kiln_error();
}

static void inputs_given_away(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *w = filled(f, N, -0.25), *x = filled(f, N, -0.5), *y = kiln_add(x, kiln_scalar(0));
    kiln_function *j = kiln_jit(stepped, NULL, KILN_JIT(.donate = KILN_ARGS(0)));
    uint64_t before = recorded(f);
    for (int i = 0; i < 12; i++) {
        kiln_tensor *is, *want;
        ok(stepped(NULL, (kiln_tensor *[]){x, w}, 2, &want, 1));
        ok(kiln_call(j, (kiln_tensor *[]){y, w}, 2, &is, 1));
        near(is, want, 1e-5);
        x = want;
        y = is;
    }
    assert_true(recorded(f) - before >= 8 * LONG);
    kiln_function_free(&j);
}

// Reductions in phases, whose partial sums lie in memory of the device's heap, and launches whose arguments are long.
FN(long_rows)
{
    out[0] = in[0];
    for (int i = 0; i < LONG; i++)
        out[0] = kiln_div(kiln_cumsum(out[0], 0), kiln_add(kiln_max(kiln_abs(out[0]), NULL), kiln_scalar(1)));
    out[0] = kiln_reshape(out[0], KILN_SHAPE(8, 2, 8, 2, 8, 2, 16));
    out[0] = kiln_permute(out[0], KILN_AXES(6, 3, 0, 5, 2, 1, 4));
    out[0] = kiln_sum(kiln_mul(out[0], out[0]), KILN_REDUCE(.axes = KILN_AXES(0, 2, 4, 6)));
    return kiln_error();
}

static void memory_of_their_own(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = kiln_reshape(kiln_arange(f->dev, KILN_F32, 0, 1 << 16, 1), KILN_SHAPE(1 << 16)),
                *noise[4] = {NULL};
    kiln_function *j = kiln_jit(long_rows, NULL, KILN_JIT(.level = KILN_LEVEL_AS_IS));
    kiln_tensor *want, *is;
    ok(long_rows(NULL, &x, 1, &want, 1));
    for (int i = 0; i < 8; i++) {
        ok(kiln_call(j, &x, 1, &is, 1));
        // Whoever takes the memory that a recording had given back would be written to.
        for (int k = 0; k < 4; k++) noise[k] = kiln_full(f->dev, KILN_F32, KILN_SHAPE(64 << k), i);
        near(is, want, 1e-3);
        kiln_free(&is);
        ok(kiln_call(j, &x, 1, &is, 1));
        for (int k = 0; k < 4; k++) {
            assert_float_equal(kiln_item(kiln_max(noise[k], NULL)), i, 0);
            assert_float_equal(kiln_item(kiln_min(noise[k], NULL)), i, 0);
            kiln_free(&noise[k]);
        }
        near(is, want, 1e-3);
        kiln_free(&is);
        if (i == 5) ok(kiln_device_trim(f->dev));
    }
    kiln_function_free(&j);
}

// --- training

enum { PARAMS = 20 };
static kiln_tensor *weights[PARAMS];

FN(loss)
{
    kiln_tensor *x = in[0];
    for (int i = 0; i < PARAMS; i++) x = kiln_tanh(kiln_matmul(x, weights[i]));
    out[0] = kiln_mean(kiln_mul(x, x), NULL);
    return kiln_error();
}

FN(step)
{
    kiln_optim *o = user;
    TRY_(loss(NULL, in, n_in, out, 1));
    TRY_(kiln_backward(out[0], NULL));
    TRY_(kiln_optim_step(o));
    return kiln_optim_zero_grad(o);
}

static void train(struct fixture *f, bool captured, double *losses, kiln_tensor **left)
{
    enum { STEPS = 12 };
    for (int i = 0; i < PARAMS; i++) {
        weights[i] = kiln_sub(filled(f, N, 0), kiln_scalar(0.5 + 0.01 * i));
        kiln_set_requires_grad(weights[i], true);
    }
    kiln_optim *o = kiln_optim_adamw(weights, PARAMS, NULL);
    kiln_function *j = captured ? kiln_jit(step, o, NULL) : NULL;
    for (int i = 0; i < STEPS; i++) {
        kiln_tensor *x = filled(f, N, 0.1 * i), *y;
        ok(captured ? kiln_call(j, &x, 1, &y, 1) : step(o, &x, 1, &y, 1));
        losses[i] = kiln_item(y);
    }
    for (int i = 0; i < PARAMS; i++) left[i] = kiln_stop_gradient(weights[i]);
    kiln_function_free(&j);
    kiln_optim_free(&o);
}

static void training_steps(void **state)
{
    struct fixture *f = *state;
    double want[12], is[12];
    kiln_tensor *wanted[PARAMS], *got[PARAMS];
    train(f, false, want, wanted);
    uint64_t before = recorded(f);
    train(f, true, is, got);
    for (int i = 0; i < 12; i++) assert_float_equal(is[i], want[i], 1e-5);
    for (int i = 0; i < PARAMS; i++) near(got[i], wanted[i], 1e-4);
    assert_true(recorded(f) - before >= 8 * PARAMS);
}

// --- several at a time

struct caller {
    kiln_function *f;
    kiln_device *dev;
    double from, is;
    kiln_status status;
};

static void *call_often(void *arg)
{
    struct caller *c = arg;
    struct fixture f = {.dev = c->dev};
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *in[] = {filled(&f, N, c->from), filled(&f, N, -0.25)}, *y;
    for (int i = 0; i < 50 && !c->status; i++) {
        c->status = kiln_call(c->f, in, 2, &y, 1);
        double v = kiln_item(kiln_sum(y, NULL));
        if (i && v != c->is) c->status = KILN_E_INTERNAL;
        c->is = v;
        kiln_free(&y);
    }
    kiln_scope_end(&scope);
    return NULL;
}

static void threads(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(products, NULL, NULL);
    struct caller c[4];
    pthread_t id[4];
    for (int i = 0; i < 4; i++) c[i] = (struct caller){.f = j, .dev = f->dev, .from = -0.2 * i};
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&id[i], NULL, call_often, &c[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(id[i], NULL);
    for (int i = 0; i < 4; i++) {
        kiln_tensor *in[] = {filled(f, N, c[i].from), filled(f, N, -0.25)}, *y;
        ok(c[i].status);
        ok(products(NULL, in, 2, &y, 1));
        assert_float_equal(kiln_item(kiln_sum(y, NULL)), c[i].is, 1e-4);
    }
    kiln_function_free(&j);
}

// --- many

FN(many_products)
{
    out[0] = in[0];
    for (int i = 0; i < *(const int *)user; i++) out[0] = kiln_matmul(out[0], in[1]);
    return kiln_error();
}

// More than a device keeps: the oldest make room, and are made anew when they are wanted.
static void more_than_there_is_room_for(void **state)
{
    enum { FUNCTIONS = 10, LENGTH = 100 };
    struct fixture *f = *state;
    int lengths[FUNCTIONS];
    kiln_function *j[FUNCTIONS];
    kiln_tensor *eye = kiln_eye(f->dev, KILN_F32, 4, 4), *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE(4, 4), 3),
                *in[] = {x, eye}, *y;
    struct vk_device *vk = vk_of(f->dev);
    vk->most_recorded = 8 * LENGTH;
    for (int i = 0; i < FUNCTIONS; i++) {
        lengths[i] = LENGTH;
        j[i] = kiln_jit(many_products, &lengths[i], KILN_JIT(.level = KILN_LEVEL_AS_IS));
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < FUNCTIONS; i++) {
            for (int call = 0; call < 3 - round; call++) {
                ok(kiln_call(j[i], in, 2, &y, 1));
                assert_float_equal(kiln_item(kiln_sum(y, NULL)), 48, 0);
                kiln_free(&y);
            }
            assert_true(vk->n_recorded_all <= vk->most_recorded + LENGTH);
        }
    }
    assert_true(recorded(f) >= 3 * FUNCTIONS * LENGTH);
    for (int i = 0; i < FUNCTIONS; i++) kiln_function_free(&j[i]);
    ok(kiln_device_synchronize(f->dev));
}

// --- what goes to the driver

static struct {
    PFN_vkCmdDispatch dispatch;
    PFN_vkCmdExecuteCommands execute;
    PFN_vkQueueSubmit2 submit;
    PFN_vkBeginCommandBuffer begin;
    PFN_vkEndCommandBuffer end;
    PFN_vkAllocateCommandBuffers allocate;
    int dispatches, executes, submits, failures;
    VkCommandBuffer of_recordings;
} driver;

static void VKAPI_PTR count_dispatch(VkCommandBuffer c, uint32_t x, uint32_t y, uint32_t z)
{
    driver.dispatches++;
    driver.dispatch(c, x, y, z);
}

static void VKAPI_PTR count_execute(VkCommandBuffer c, uint32_t n, const VkCommandBuffer *v)
{
    driver.executes++;
    driver.execute(c, n, v);
}

static VkResult VKAPI_PTR count_submit(VkQueue q, uint32_t n, const VkSubmitInfo2 *s, VkFence fence)
{
    driver.submits++;
    return driver.submit(q, n, s, fence);
}

// A program is one submission, whatever its length, and once it is recorded one command of it.
static void few_commands(void **state)
{
    struct fixture *f = *state;
    struct vk_device *vk = vk_of(f->dev);
    for (int length = 16; length <= 1024; length *= 8) {
        kiln_tensor *in[] = {filled(f, N, -0.5), kiln_eye(f->dev, KILN_F32, N, N)}, *y;
        kiln_function *j = kiln_jit(many_products, &length, NULL);
        for (int call = 0; call < 8; call++) {
            ok(kiln_device_synchronize(f->dev));
            memset(&driver, 0, sizeof driver);
            driver.dispatch = vk->fn.vkCmdDispatch;
            driver.execute = vk->fn.vkCmdExecuteCommands;
            driver.submit = vk->fn.vkQueueSubmit2;
            vk->fn.vkCmdDispatch = count_dispatch;
            vk->fn.vkCmdExecuteCommands = count_execute;
            vk->fn.vkQueueSubmit2 = count_submit;
            uint64_t launches = launches_of(f);
            ok(kiln_call(j, in, 2, &y, 1));
            ok(kiln_device_synchronize(f->dev));
            assert_int_equal(launches_of(f) - launches, length);
            vk->fn.vkCmdDispatch = driver.dispatch;
            vk->fn.vkCmdExecuteCommands = driver.execute;
            vk->fn.vkQueueSubmit2 = driver.submit;
            if (call > 0) assert_int_equal(driver.submits, 1);
            if (call > 4) assert_int_equal(driver.dispatches, 0);
            if (call > 4) assert_int_equal(driver.executes, 1);
            near(y, in[0], 1e-6);
            kiln_free(&y);
        }
        kiln_function_free(&j);
    }
}

// Trips whose number is known, branches that the device chooses, and a step of training: one submission a call.
FN(one_trip)
{
    out[0] = kiln_matmul(kiln_tanh(kiln_matmul(in[0], in[1])), in[1]);
    out[1] = in[1];
    return kiln_error();
}

FN(trips_and_branches)
{
    enum { TRIPS = 100 };
    kiln_tensor *carried[2];
    TRY_(kiln_scan(one_trip, NULL, in, 2, KILN_SCAN(.carried = 2, .length = TRIPS), carried, 2));
    kiln_tensor *large = kiln_greater(kiln_max(carried[0], NULL), kiln_scalar(0));
    return kiln_cond(large, products, stepped, NULL, carried, 2, out, 1);
}

static void check_one_submission(struct fixture *f, kiln_function *j, kiln_tensor **in, size_t n_in)
{
    kiln_device_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    for (int call = 0; call < 6; call++) {
        kiln_tensor *y;
        ok(kiln_device_synchronize(f->dev));
        kiln_device_get_stats(f->dev, &before);
        ok(kiln_call(j, in, n_in, &y, 1));
        ok(kiln_device_synchronize(f->dev));
        kiln_device_get_stats(f->dev, &after);
        if (call > 0) assert_int_equal(after.submits - before.submits, 1);
        kiln_free(&y);
    }
    assert_true(after.launches - before.launches > FULL);
}

static void regions_are_not_parted(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {filled(f, N, -0.5), filled(f, N, -0.25)};
    kiln_function *j = kiln_jit(trips_and_branches, NULL, NULL);
    check_one_submission(f, j, in, 2);
    check_call(j, trips_and_branches, NULL, in, 2);
    kiln_function_free(&j);
}

static void steps_are_not_parted(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = filled(f, N, 0);
    for (int i = 0; i < PARAMS; i++) {
        weights[i] = kiln_sub(filled(f, N, 0), kiln_scalar(0.5));
        kiln_set_requires_grad(weights[i], true);
    }
    kiln_optim *o = kiln_optim_adamw(weights, PARAMS, NULL);
    kiln_function *j = kiln_jit(step, o, KILN_JIT(.level = KILN_LEVEL_PASSES));
    check_one_submission(f, j, &x, 1);
    kiln_function_free(&j);
    kiln_optim_free(&o);
}

// What is estimated to hold the queue for long is parted, recorded or not.
static void long_work_is_parted(void **state)
{
    struct fixture *f = *state;
    struct vk_device *vk = vk_of(f->dev);
    uint64_t limit = vk->work_limit;
    kiln_tensor *in[] = {filled(f, N, -0.5), filled(f, N, -0.25)};
    kiln_function *j = kiln_jit(products, NULL, NULL);
    kiln_device_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    vk->work_limit = 10 * N * N;
    for (int i = 0; i < 5; i++) check_call(j, products, NULL, in, 2);
    kiln_tensor *y;
    kiln_device_get_stats(f->dev, &before);
    ok(kiln_call(j, in, 2, &y, 1));
    kiln_device_get_stats(f->dev, &after);
    assert_true(after.submits - before.submits > 1);
    vk->work_limit = limit;
    kiln_free(&y);
    kiln_function_free(&j);
}

static double of_thread_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

enum { PER_RUN = 4 }; // calls that are measured together

// The least time of the calling thread for each kernel, of several tries: a busy machine charges for others' work.
static double least_of_thread_us(struct fixture *f, kiln_function *j, int length, kiln_tensor **in)
{
    double best = 1e9;
    for (int i = 0; i < 20; i++) {
        double from = of_thread_us();
        for (int call = 0; call < PER_RUN; call++) {
            kiln_tensor *y;
            ok(j ? kiln_call(j, in, 2, &y, 1) : many_products(&length, in, 2, &y, 1));
            kiln_free(&y);
        }
        best = fmin(best, (of_thread_us() - from) / (PER_RUN * length));
        ok(kiln_device_synchronize(f->dev));
    }
    return best;
}

// Next to nothing is a sixth of what the same launches cost one by one, in this process on this machine.
static void cheap_for_the_thread(void **state)
{
    struct fixture *f = *state;
    int length = 256;
    kiln_tensor *in[] = {filled(f, N, -0.5), kiln_eye(f->dev, KILN_F32, N, N)};
    kiln_function *j = kiln_jit(many_products, &length, NULL);
    double eager_us = least_of_thread_us(f, NULL, length, in), us = least_of_thread_us(f, j, length, in);
    print_message("%.3f us of the calling thread a kernel, %.3f eagerly\n", us, eager_us);
    assert_true(us < eager_us / 6);
    kiln_function_free(&j);
}

// --- failures

static VkResult VKAPI_PTR begin_fails(VkCommandBuffer c, const VkCommandBufferBeginInfo *info)
{
    if (!info->pInheritanceInfo) return driver.begin(c, info);
    driver.failures++;
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

static VkResult VKAPI_PTR allocate_fails(VkDevice d, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *c)
{
    if (info->level == VK_COMMAND_BUFFER_LEVEL_PRIMARY) return driver.allocate(d, info, c);
    driver.failures++;
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

static VkResult VKAPI_PTR allocate_watched(VkDevice d, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *c)
{
    VkResult r = driver.allocate(d, info, c);
    if (info->level == VK_COMMAND_BUFFER_LEVEL_SECONDARY) driver.of_recordings = *c;
    return r;
}

static VkResult VKAPI_PTR end_fails(VkCommandBuffer c)
{
    VkResult r = driver.end(c);
    if (c != driver.of_recordings) return r;
    driver.failures++;
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

// Where nothing can be recorded launches go as before, and nobody hears of it.
static void failures_go_unnoticed(void **state)
{
    struct fixture *f = *state;
    struct vk_device *vk = vk_of(f->dev);
    kiln_tensor *in[] = {filled(f, N, -0.5), filled(f, N, -0.25)};
    for (int part = 0; part < 3; part++) {
        kiln_function *j = kiln_jit(products, NULL, NULL);
        uint64_t before = recorded(f);
        memset(&driver, 0, sizeof driver);
        driver.begin = vk->fn.vkBeginCommandBuffer;
        driver.end = vk->fn.vkEndCommandBuffer;
        driver.allocate = vk->fn.vkAllocateCommandBuffers;
        if (part == 0) vk->fn.vkBeginCommandBuffer = begin_fails;
        if (part == 1) vk->fn.vkAllocateCommandBuffers = allocate_fails;
        if (part == 2) {
            vk->fn.vkAllocateCommandBuffers = allocate_watched;
            vk->fn.vkEndCommandBuffer = end_fails;
        }
        for (int i = 0; i < 4; i++) check_call(j, products, NULL, in, 2);
        vk->fn.vkBeginCommandBuffer = driver.begin;
        vk->fn.vkEndCommandBuffer = driver.end;
        vk->fn.vkAllocateCommandBuffers = driver.allocate;
        assert_true(driver.failures > 0);
        assert_int_equal(recorded(f), before);
        assert_int_equal(kiln_error(), KILN_OK);
        for (int i = 0; i < 4; i++) check_call(j, products, NULL, in, 2); // later it can
        assert_true(recorded(f) > before);
        kiln_function_free(&j);
    }
}

// A function that goes while its launches are under way.
static void gone_in_flight(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {filled(f, N, -0.5), filled(f, N, -0.25)}, *want, *is;
    ok(products(NULL, in, 2, &want, 1));
    for (int i = 0; i < 10; i++) {
        kiln_function *j = kiln_jit(products, NULL, NULL);
        for (int call = 0; call < 5; call++) {
            ok(kiln_call(j, in, 2, &is, 1));
            if (call < 4) kiln_free(&is);
        }
        kiln_function_free(&j);
        if (i % 2) ok(kiln_device_trim(f->dev));
        near(is, want, 1e-6);
        kiln_free(&is);
    }
}

// --- what is told

static void explained(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {filled(f, N, -0.5), filled(f, N, -0.25)};
    kiln_function *j = kiln_jit(products, NULL, NULL);
    for (int i = 0; i < 6; i++) check_call(j, products, NULL, in, 2);
    char *text = NULL;
    size_t size_B = 0;
    FILE *file = open_memstream(&text, &size_B);
    kiln_explain_with(j, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    fclose(file);
    assert_non_null(strstr(text, " launches, in 1 piece\n"));
    assert_non_null(strstr(text, "recorded: "));
    free(text);
    kiln_function_free(&j);
}

// Each launch has its time.
static void profiles_see_each_launch(void **state)
{
    struct fixture *f = *state;
    char path[] = "/tmp/kiln-records-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    kiln_tensor *in[] = {filled(f, N, -0.5), filled(f, N, -0.25)}, *y;
    kiln_function *j = kiln_jit(products, NULL, NULL);
    for (int i = 0; i < 6; i++) check_call(j, products, NULL, in, 2);
    uint64_t before = recorded(f), launches = launches_of(f);
    ok(kiln_profile_begin(path));
    ok(kiln_call(j, in, 2, &y, 1));
    ok(kiln_profile_end());
    launches = launches_of(f) - launches;
    assert_int_equal(recorded(f), before);
    FILE *file = fdopen(fd, "r");
    uint64_t spans = 0;
    for (char line[4096]; fgets(line, sizeof line, file);)
        for (const char *at = line; (at = strstr(at, "\"cat\": \"launch\"")) || (at = NULL); at++) spans++;
    fclose(file);
    remove(path);
    assert_true(spans >= launches);
    kiln_free(&y);
    kiln_function_free(&j);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(one_call_after_the_other),
        FIXTURE(ever_new_inputs),
        FIXTURE(inputs_by_turns),
        FIXTURE(results_that_are_kept),
        FIXTURE(little_is_held),
        FIXTURE(numbers_of_the_host),
        FIXTURE(random_numbers),
        FIXTURE(writes),
        FIXTURE(inputs_given_away),
        FIXTURE(memory_of_their_own),
        FIXTURE(training_steps),
        FIXTURE(threads),
        FIXTURE(more_than_there_is_room_for),
        FIXTURE(few_commands),
        FIXTURE(regions_are_not_parted),
        FIXTURE(steps_are_not_parted),
        FIXTURE(long_work_is_parted),
        FIXTURE(cheap_for_the_thread),
        FIXTURE(failures_go_unnoticed),
        FIXTURE(gone_in_flight),
        FIXTURE(explained),
        FIXTURE(profiles_see_each_launch),
    };
    jit_device = "vulkan";
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
