// AUTO: what walks learn from each other, and calls that are not recorded since nothing was gained by it.
#include "jit_fixture.h"

enum { STEPS = 40, MOST = 12 }; // MOST: nodes of a segment, so that one ends within the steps

// --- values from before a break

// Each step's value is read after the break that the size limit makes, while the second half goes backwards.
static kiln_status there_and_back(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *v[STEPS], *t = in[0];
    for (int i = 0; i < STEPS; i++) t = v[i] = kiln_tanh(kiln_add(t, kiln_scalar(0.25)));
    for (int i = STEPS; i-- > 0;) t = kiln_mul(kiln_sub(t, v[i]), kiln_scalar(0.5));
    out[0] = t;
    return kiln_error();
}

static uint64_t launches_of_call(struct fixture *f, kiln_function *j, kiln_tensor *x, kiln_tensor *want)
{
    kiln_tensor *out = NULL;
    uint64_t before = launches_of(f);
    ok(kiln_call(j, &x, 1, &out, 1));
    before = launches_of(f) - before;
    near(out, want, 1e-6);
    return before;
}

static void all_that_is_read_after_a_break_is_learnt_at_once(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(there_and_back, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .max_nodes = MOST));
    kiln_tensor *x = vec(f, 3, 0.5, -1, 2), *want = NULL;
    uint64_t before = launches_of(f), eager, calls[6];
    ok(there_and_back(NULL, &x, 1, &want, 1));
    eager = launches_of(f) - before;
    for (int i = 0; i < 6; i++) calls[i] = launches_of_call(f, j, x, want);
    if (fuses(f)) {
        assert_int_equal(calls[3], calls[5]); // nothing is left to learn
        assert_true(3 * calls[3] < eager);
    }
    kiln_function_free(&j);
}

// --- calls that are not recorded

struct stages {
    int n, calls;
};

static kiln_status stages(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct stages *s = user;
    s->calls++;
    out[0] = kiln_exp(in[0]);
    for (int i = 1; i < s->n; i++) out[0] = kiln_tanh(out[0]);
    return kiln_error();
}

static void one_op_is_not_recorded_each_time(void **state)
{
    struct fixture *f = *state;
    struct stages s = {1, 0};
    kiln_function *j = automatic(stages, &s);
    kiln_tensor *x = vec(f, 3, 0.5, -1, 2), *want = NULL;
    bool fused = fuses(f);
    uint64_t graph_ops;
    ok(stages(&s, &x, 1, &want, 1));
    for (int i = 0; i < 10; i++) launches_of_call(f, j, x, want);
    graph_ops = stats_of(j).graph_ops;
    if (fused) assert_true(graph_ops < 5);
    assert_int_equal(stats_of(j).breaks, 0);
    assert_int_equal(stats_of(j).calls, 10);
    assert_int_equal(s.calls, 11);
    // More ops are seen in time, and become one kernel.
    s.n = 6;
    ok(stages(&s, &x, 1, &want, 1));
    uint64_t last = 0;
    for (int i = 0; i < 80; i++) last = launches_of_call(f, j, x, want);
    if (fused) assert_int_equal(last, 1);
    kiln_function_free(&j);
}

static kiln_status squares(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_square(in[0]);
    return kiln_error();
}

static void gradients_come_through_calls_that_are_not_recorded(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = automatic(squares, NULL);
    kiln_tensor *x = vec(f, 3, 0.5, -1, 2);
    ok(kiln_set_requires_grad(x, true));
    for (int i = 0; i < 6; i++) {
        kiln_tensor *out = NULL;
        ok(kiln_call(j, &x, 1, &out, 1));
        ok(kiln_backward(kiln_sum(out, NULL), NULL));
        expect(kiln_gradient(x), 3, 1., -2., 4.);
        ok(kiln_set_gradient(x, NULL));
    }
    kiln_function_free(&j);
}

// A result may be an input, be listed twice, or lie in another scope than the function's.
static kiln_status gives_again(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = out[1] = kiln_exp(in[0]);
    out[2] = in[0];
    return kiln_error();
}

static void results_that_are_one_handle_become_two(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = automatic(gives_again, NULL);
    kiln_tensor *x = vec(f, 2, 0, 1);
    for (int i = 0; i < 6; i++) {
        kiln_tensor *out[3] = {NULL};
        ok(kiln_call(j, &x, 1, out, 3));
        assert_ptr_not_equal(out[0], out[1]);
        assert_ptr_not_equal(out[2], x);
        kiln_free(&out[0]);
        kiln_free(&out[2]);
        expect(out[1], 2, 1., exp(1));
        expect(x, 2, 0., 1.);
    }
    kiln_function_free(&j);
}

// --- indices in memory

static kiln_status takes(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *t = kiln_take(in[0], 0, in[1]);
    if (!t) return kiln_error();
    out[0] = kiln_mul(kiln_add(t, kiln_scalar(1)), kiln_scalar(2));
    return kiln_error();
}

static kiln_tensor *indices(struct fixture *f, kiln_dtype dtype, int64_t n, int64_t at, int64_t odd)
{
    int64_t longs[40];
    int32_t ints[40];
    for (int64_t i = 0; i < n; i++) ints[i] = (int32_t)(longs[i] = i == at ? odd : i % 2 ? -3 : 2);
    return kiln_from_data(f->dev, dtype, 1, &n, dtype == KILN_I64 ? (void *)longs : (void *)ints);
}

static void indices_are_found_wherever_they_are_out_of_range(void **state)
{
    struct fixture *f = *state;
    static const int64_t bad[] = {3, -4, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    kiln_function *j = automatic(takes, NULL);
    kiln_tensor *in[2] = {vec(f, 3, 1, 2, 3), NULL}, *out = NULL;
    for (int wide = 0; wide < 2; wide++)
        for (int64_t n = 1; n <= 40; n += 13)
            for (int64_t at = 0; at < n; at += 3) {
                kiln_dtype dtype = wide ? KILN_I64 : KILN_I32;
                in[1] = indices(f, dtype, n, at, -2);
                ok(kiln_call(j, in, 2, &out, 1));
                for (int k = 0; k < (wide ? 6 : 4); k++) {
                    in[1] = indices(f, dtype, n, at, bad[k]);
                    fails(kiln_call(j, in, 2, &out, 1), KILN_E_ARGUMENT, "take");
                }
            }
    kiln_function_free(&j);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(all_that_is_read_after_a_break_is_learnt_at_once),   FIXTURE(one_op_is_not_recorded_each_time),
        FIXTURE(gradients_come_through_calls_that_are_not_recorded), FIXTURE(results_that_are_one_handle_become_two),
        FIXTURE(indices_are_found_wherever_they_are_out_of_range),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
