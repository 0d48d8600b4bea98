// AUTO: functions whose ops are recorded at every call, and graphs that break where a value is needed.
#include "jit_fixture.h"

static bool explains(kiln_function *j, const char *part)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    kiln_explain_with(j, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    fclose(file);
    bool found = strstr(text, part) != NULL;
    if (!found) print_error("no '%s' in\n%s\n", part, text);
    free(text);
    return found;
}

// --- calls

static kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    out[0] = kiln_relu(kiln_add(kiln_mul(in[0], in[1]), kiln_scalar(-1)));
    return kiln_error();
}

static void a_chain_is_one_kernel(void **state)
{
    struct fixture *f = *state;
    bool fused = fuses(f);
    int runs = 0;
    kiln_tensor *in[] = {vec(f, 3, 1, 2, 3), vec(f, 3, 0.5, 2, -1)}, *out = NULL;
    kiln_function *j = automatic(chain, &runs);
    for (int i = 0; i < 3; i++) {
        uint64_t before = launches_of(f);
        ok(kiln_call(j, in, 2, &out, 1));
        if (i && fused) assert_int_equal(launches_of(f) - before, 1);
        expect(out, 3, 0., 3., 0.);
    }
    assert_int_equal(runs, 3);
    kiln_jit_stats s = stats_of(j);
    assert_int_equal(s.calls, 3);
    assert_int_equal(s.captures, 1);
    assert_int_equal(s.programs, 1);
    assert_int_equal(s.guard_misses, 0);
    assert_int_equal(s.breaks, 0);
    if (fused) assert_int_equal(s.launches, 3);
    kiln_function_free(&j);
}

static void other_types_are_other_paths(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *a[] = {vec(f, 3, 1, 2, 3), vec(f, 3, 0.5, 2, -1)}, *out = NULL;
    kiln_tensor *b[] = {vec(f, 2, 1, 2), vec(f, 2, 3, 4)};
    kiln_function *j = automatic(chain, NULL);
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, a, 2, &out, 1));
        expect(out, 3, 0., 3., 0.);
        ok(kiln_call(j, b, 2, &out, 1));
        expect(out, 2, 2., 7.);
    }
    assert_int_equal(stats_of(j).captures, 2);
    assert_int_equal(stats_of(j).programs, 2);
    assert_true(explains(j, "calls 6, captures 2, programs 2, guard misses 1"));
    assert_true(explains(j, "\n  program 2: 3 ops"));
    assert_true(explains(j, "\n  program 1: 3 ops"));
    kiln_function_free(&j);
}

// --- breaks

static kiln_status loop_on_value(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    double a = 0;
    kiln_tensor *m = kiln_mul(in[0], kiln_scalar(3));
    int n = (int)kiln_item(m);
    for (int i = 0; i < n; i++) a += 1;
    out[0] = kiln_mul(kiln_ones_like(in[0]), kiln_scalar(a));
    return kiln_error();
}

static void d3_host_loop_on_a_value(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 1, 1), *y = vec(f, 1, 2), *out = NULL;
    kiln_function *j = automatic(loop_on_value, NULL);
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        expect(out, 1, 3.);
        ok(kiln_call(j, &y, 1, &out, 1));
        expect(out, 1, 6.);
    }
    assert_int_equal(stats_of(j).breaks, 6);
    assert_true(explains(j, "break: read of f32[1], made by mul, which is 3, at auto.c:"));
    kiln_function_free(&j);
}

static kiln_status branches(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    FILE *null = user;
    kiln_tensor *y = kiln_add(in[0], kiln_scalar(1));
    kiln_tensor *z = kiln_mul(y, y);
    fprintf(null, "before\n");
    kiln_print(z, null);
    if (kiln_item(kiln_sum(z, NULL)) > 10)
        z = kiln_neg(z);
    else
        z = kiln_add(z, y); // y is from before the break
    out[0] = kiln_sub(z, in[0]);
    return kiln_error();
}

static void branches_take_the_right_way(void **state)
{
    struct fixture *f = *state;
    bool fused = fuses(f);
    FILE *null = fopen("/dev/null", "w");
    kiln_tensor *small = vec(f, 2, 0, 1), *large = vec(f, 2, 3, 4), *out = NULL;
    kiln_function *j = automatic(branches, null);
    for (int i = 0; i < 4; i++) {
        ok(kiln_call(j, &small, 1, &out, 1));
        expect(out, 2, 2., 5.);
        ok(kiln_call(j, &large, 1, &out, 1));
        expect(out, 2, -19., -29.);
    }
    uint64_t before = launches_of(f);
    ok(kiln_call(j, &small, 1, &out, 1));
    if (fused) assert_true(launches_of(f) - before <= 4); // to print, the sum, and the rest
    assert_int_equal(stats_of(j).breaks, 2 * 9);
    fclose(null);
    kiln_function_free(&j);
}

static kiln_status nested_read(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    float v[4];
    kiln_tensor *y = kiln_relu(kiln_add(kiln_mul(in[0], in[1]), in[2]));
    TRY_(kiln_read(y, v, sizeof v));
    *(float *)user = v[0] + v[1] + v[2] + v[3];
    return kiln_error();
}

static void a_read_of_a_nested_expression_is_one_kernel(void **state)
{
    struct fixture *f = *state;
    bool fused = fuses(f);
    float sum = 0;
    kiln_tensor *in[] = {vec(f, 4, 1, 2, 3, 4), vec(f, 4, 1, -1, 1, 1), vec(f, 4, 1, 1, 1, 1)};
    kiln_function *j = automatic(nested_read, &sum);
    for (int i = 0; i < 3; i++) {
        uint64_t before = launches_of(f);
        ok(kiln_call(j, in, 3, NULL, 0));
        if (i && fused) assert_int_equal(launches_of(f) - before, 1);
        assert_true(sum == 2 + 0 + 4 + 5);
        sum = 0;
    }
    kiln_function_free(&j);
}

static kiln_status shapes_of_data(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_mul(in[0], kiln_scalar(2));
    kiln_tensor *picked = kiln_masked_select(y, kiln_greater(y, kiln_scalar(3)));
    out[0] = kiln_add(picked, kiln_scalar(1));
    out[1] = kiln_nonzero(kiln_greater(y, kiln_scalar(3)));
    return kiln_error();
}

static void data_dependent_shapes_break(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 4, 1, 2, 3, 0), *out[2];
    kiln_function *j = automatic(shapes_of_data, NULL);
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, &x, 1, out, 2));
        expect(out[0], 2, 5., 7.);
        expect(out[1], 2, 1., 2.);
    }
    assert_true(stats_of(j).breaks >= 6);
    kiln_function_free(&j);
}

// --- effects

static kiln_status writes(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *w = user;
    kiln_tensor *before = kiln_add(w, kiln_scalar(0));
    TRY_(kiln_add_(w, in[0]));
    kiln_tensor *after = kiln_mul(w, kiln_scalar(1));
    double sum = kiln_item(kiln_sum(after, NULL));
    TRY_(kiln_mul_(kiln_narrow(w, 0, 0, 1), kiln_scalar(sum)));
    kiln_tensor *late = kiln_add(before, kiln_scalar(0)); // from before both writes
    out[0] = kiln_stack((kiln_tensor *[]){before, after, w, late}, 4, 0);
    return kiln_error();
}

static void writes_keep_their_order(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *w = vec(f, 2, 1, 2), *v = vec(f, 2, 1, 2), *x = vec(f, 2, 1, 1), *out = NULL, *want = NULL;
    kiln_function *j = automatic(writes, w);
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        ok(writes(v, &x, 1, &want, 1));
        same(out, want);
        same(w, v);
        assert_int_equal(kiln_tensor_version(w), kiln_tensor_version(v));
    }
    kiln_function_free(&j);
}

static kiln_status views(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_mul(in[0], kiln_scalar(1)), *t = kiln_transpose(y, 0, 1), *row = kiln_select(t, 0, 1);
    kiln_tensor *flat = kiln_reshape(y, KILN_SHAPE(-1));
    TRY_(kiln_add_(row, kiln_scalar(10)));
    TRY_(kiln_neg_(kiln_narrow(flat, 0, 4, 2)));
    kiln_tensor *strided = kiln_as_strided(flat, KILN_SHAPE(2, 2), KILN_SHAPE(3, 2), 0);
    TRY_(kiln_assign(kiln_select(y, 0, 0), kiln_scalar(7)));
    out[0] = kiln_add(y, kiln_scalar(0));
    out[1] = kiln_add(t, kiln_scalar(0));
    out[2] = kiln_add(flat, kiln_scalar(0));
    out[3] = strided;
    out[4] = kiln_add(kiln_reshape(t, KILN_SHAPE(6)), kiln_scalar(0)); // a copy
    out[5] = t;
    return kiln_error();
}

static void views_show_what_is_written(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = mat(f, 2, 3, 1., 2., 3., 4., 5., 6.), *out[6], *want[6];
    kiln_function *j = automatic(views, NULL);
    ok(views(NULL, &x, 1, want, 6));
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, &x, 1, out, 6));
        for (int k = 0; k < 6; k++) same(out[k], want[k]);
    }
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
}

static kiln_status draws(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_device *dev = kiln_tensor_device(in[0]);
    kiln_tensor *a = kiln_normal(dev, KILN_F32, KILN_SHAPE(5), 0, 1);
    kiln_tensor *b = kiln_uniform(dev, KILN_F32, KILN_SHAPE(5), 0, 1);
    if (user) (void)kiln_item(kiln_sum(a, NULL));
    kiln_tensor *c = kiln_uniform(dev, KILN_F32, KILN_SHAPE(5), 0, 1);
    out[0] = kiln_add(kiln_add(kiln_add(a, b), in[0]), c);
    return kiln_error();
}

static void random_numbers_are_those_of_eager(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 5, 1, 2, 3, 4, 5), *out = NULL, *want[3];
    for (int reads = 0; reads < 2; reads++) {
        kiln_function *j = automatic(draws, reads ? f : NULL);
        ok(kiln_seed(f->dev, 7));
        for (int i = 0; i < 3; i++) ok(draws(NULL, &x, 1, &want[i], 1));
        ok(kiln_seed(f->dev, 7));
        for (int i = 0; i < 3; i++) {
            ok(kiln_call(j, &x, 1, &out, 1));
            same(out, want[i]);
        }
        assert_int_equal(stats_of(j).captures, 1);
        kiln_function_free(&j);
    }
}

// --- gradients

static kiln_status loss_of(kiln_tensor *x, kiln_tensor *w, kiln_tensor **out)
{
    *out = kiln_sum(kiln_square(kiln_tanh(kiln_matmul(x, w))), NULL);
    return kiln_error();
}

static kiln_status forward(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return loss_of(in[0], user, &out[0]);
}

static void results_are_on_the_tape(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = mat(f, 2, 2, 1., 2., 3., 4.), *init = mat(f, 2, 2, 0.1, 0.2, -0.3, 0.4), *out = NULL, *want = NULL;
    kiln_tensor *w = kiln_parameter(init, "w"), *v = kiln_parameter(kiln_alias(init), "v");
    kiln_function *j = automatic(forward, w);
    ok(loss_of(x, v, &want));
    ok(kiln_backward(want, NULL));
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        same(out, want);
        ok(kiln_backward(out, NULL));
        same(kiln_gradient(w), kiln_gradient(v));
    }
    kiln_function_free(&j);
}

static kiln_status train_step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *loss;
    kiln_optim *o = user;
    kiln_tensor *const *params = in + 1;
    TRY_(loss_of(in[0], params[0], &loss));
    TRY_(kiln_backward(loss, NULL));
    TRY_(kiln_optim_step(o));
    out[0] = loss;
    return kiln_error();
}

static void training_is_that_of_eager(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = mat(f, 2, 2, 1., 2., 3., 4.), *init = mat(f, 2, 2, 0.1, 0.2, -0.3, 0.4);
    kiln_tensor *w = kiln_parameter(kiln_contiguous(init), "w"), *v = kiln_parameter(kiln_contiguous(init), "v");
    kiln_optim *a = kiln_optim_adam(&w, 1, KILN_ADAM(.lr = 0.01)), *b = kiln_optim_adam(&v, 1, KILN_ADAM(.lr = 0.01));
    kiln_function *j = automatic(train_step, a);
    for (int i = 0; i < 8; i++) {
        kiln_tensor *mine[] = {x, w}, *eager[] = {x, v}, *out = NULL, *want = NULL;
        ok(kiln_call(j, mine, 2, &out, 1));
        ok(train_step(b, eager, 2, &want, 1));
        near(out, want, 1e-5);
        near(w, v, 1e-5);
    }
    assert_true(stats_of(j).captures <= 6); // the numbers of a step become run-time ones
    assert_int_equal(stats_of(j).breaks, 0);
    kiln_optim_free(&a);
    kiln_optim_free(&b);
    kiln_function_free(&j);
}

// --- regions

static kiln_status region_step(struct fixture *f, int leave, double *sum)
{
    kiln_tensor *x = vec(f, 3, 1, 2, 3);
    for (int i = 0; i < 3; i++) {
        KILN_CAPTURE(f->dev)
        {
            kiln_tensor *y = kiln_mul(x, kiln_scalar(i + 1));
            if (leave == 1 && i == 1) break; // the region alone
            if (leave == 2 && i == 1) return KILN_E_STATE;
            if (leave == 3 && i == 1) goto out;
            *sum += kiln_item(kiln_sum(y, NULL));
        }
    }
out:
    return kiln_error();
}

static void regions_close_on_every_way_out(void **state)
{
    struct fixture *f = *state;
    const double want[] = {36, 24, 6, 6};
    for (int leave = 0; leave < 4; leave++) {
        for (int again = 0; again < 2; again++) {
            double sum = 0;
            assert_int_equal(region_step(f, leave, &sum), leave == 2 ? KILN_E_STATE : KILN_OK);
            assert_true(sum == want[leave]);
            kiln_tensor *x = kiln_add(vec(f, 1, 1), kiln_scalar(1)); // eager again
            expect(x, 1, 2.);
        }
    }
}

static kiln_status early_return(struct fixture *f, kiln_tensor *w)
{
    KILN_CAPTURE(f->dev)
    {
        TRY_(kiln_add_(w, kiln_scalar(1)));
        kiln_tensor *bad = kiln_matmul(w, vec(f, 3, 1, 2, 3));
        if (!bad) return kiln_error();
        TRY_(kiln_add_(w, kiln_scalar(100)));
    }
    return kiln_error();
}

static void an_error_leaves_a_region_with_its_effects(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *w = vec(f, 2, 1, 2);
    for (int i = 1; i <= 3; i++) {
        fails(early_return(f, w), KILN_E_SHAPE, "matmul");
        expect(w, 2, 1. + i, 2. + i);
    }
}

static void what_is_kept_outlives_a_region(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 3, 1, 2, 3);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *kept = NULL, *other = NULL;
        KILN_CAPTURE(f->dev)
        {
            kept = kiln_keep(kiln_add(x, kiln_scalar(1)));
            other = kiln_keep(kiln_mul(kept, kiln_scalar(2)));
        }
        ok(kiln_mul_(x, kiln_scalar(2))); // what the region read
        expect(other, 3, 4., 6., 8.);
        expect(kiln_add(kept, kiln_scalar(0)), 3, 2., 3., 4.);
        ok(kiln_assign(x, vec(f, 3, 1, 2, 3)));
    }
}

static void training_in_a_region(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = mat(f, 2, 2, 1., 2., 3., 4.), *init = mat(f, 2, 2, 0.1, 0.2, -0.3, 0.4);
    kiln_tensor *w = kiln_parameter(kiln_contiguous(init), "w"), *v = kiln_parameter(kiln_contiguous(init), "v");
    kiln_optim *a = kiln_optim_sgd(&w, 1, KILN_SGD(.lr = 0.01, .momentum = 0.9));
    kiln_optim *b = kiln_optim_sgd(&v, 1, KILN_SGD(.lr = 0.01, .momentum = 0.9));
    double mine[6], eager[6];
    KILN_CAPTURE(f->dev)
    {
        for (int i = 0; i < 6; i++) {
            kiln_tensor *in[] = {x, w}, *loss;
            ok(train_step(a, in, 2, &loss, 1));
            mine[i] = kiln_item(loss);
        }
    }
    for (int i = 0; i < 6; i++) {
        kiln_tensor *in[] = {x, v}, *loss;
        ok(train_step(b, in, 2, &loss, 1));
        eager[i] = kiln_item(loss);
        assert_true(fabs(mine[i] - eager[i]) < 1e-5);
    }
    near(w, v, 1e-5);
    kiln_optim_free(&a);
    kiln_optim_free(&b);
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(a_chain_is_one_kernel),
        FIXTURE(other_types_are_other_paths),
        FIXTURE(d3_host_loop_on_a_value),
        FIXTURE(branches_take_the_right_way),
        FIXTURE(a_read_of_a_nested_expression_is_one_kernel),
        FIXTURE(data_dependent_shapes_break),
        FIXTURE(writes_keep_their_order),
        FIXTURE(views_show_what_is_written),
        FIXTURE(random_numbers_are_those_of_eager),
        FIXTURE(results_are_on_the_tape),
        FIXTURE(training_is_that_of_eager),
        FIXTURE(regions_close_on_every_way_out),
        FIXTURE(an_error_leaves_a_region_with_its_effects),
        FIXTURE(what_is_kept_outlives_a_region),
        FIXTURE(training_in_a_region),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
