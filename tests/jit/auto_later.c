// AUTO: values that are asked for after later breaks, and what they have to agree with.
#include "jit_fixture.h"

static kiln_status asks_later(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    double *read = user;
    kiln_tensor *a = kiln_add(in[0], kiln_scalar(1)), *b = kiln_mul(a, kiln_scalar(2)), *c = kiln_tanh(b);
    kiln_tensor *unused = kiln_exp(kiln_matmul(kiln_reshape(c, KILN_SHAPE(2, 1)), kiln_reshape(c, KILN_SHAPE(1, 2))));
    read[0] = kiln_item(kiln_sum(a, NULL));
    TRY_(kiln_mul_(in[0], kiln_scalar(0))); // what is pending reads the old value
    read[1] = kiln_item(kiln_sum(b, NULL));
    read[2] = kiln_item(kiln_select(b, 0, 1));
    return unused ? kiln_error() : KILN_E_INTERNAL;
}

static void earlier_values_may_be_read_after_later_breaks(void **state)
{
    struct fixture *f = *state;
    double read[3];
    uint64_t last = 0;
    kiln_function *j = automatic(asks_later, read);
    for (int i = 0; i < 4; i++) {
        kiln_tensor *x = vec(f, 2, 1, 2);
        uint64_t before = launches_of(f);
        ok(kiln_call(j, &x, 1, NULL, 0));
        last = launches_of(f) - before;
        assert_true(read[0] == 5 && read[1] == 10 && read[2] == 6);
        expect(x, 2, 0., 0.);
    }
    if (fuses(f)) assert_true(last <= 4); // `unused` is never computed: the first break, the write and the sum
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
}

static kiln_status keeps_nothing(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_exp(in[0]);
    return y && kiln_log(y) ? kiln_error() : KILN_E_INTERNAL;
}

static void what_nobody_asks_for_is_not_computed(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2);
    kiln_function *j = automatic(keeps_nothing, NULL);
    uint64_t before = launches_of(f);
    for (int i = 0; i < 3; i++) ok(kiln_call(j, &x, 1, NULL, 0));
    assert_int_equal(launches_of(f), before);
    kiln_function_free(&j);
}

// Values of one segment that are asked for at different times agree with each other to the bit: the first call learns
// that y is asked for after the break, so that it is there at once in the second, which asks for the largest of it,
// too.
static kiln_status find_the_largest(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *scale = kiln_sum(kiln_sigmoid(in[0]), NULL);
    kiln_tensor *y = kiln_add(kiln_mul(in[0], scale), kiln_norm(in[0], NULL)), *largest = kiln_max(y, NULL);
    kiln_item(kiln_mean(in[0], NULL)); // a break
    out[0] = kiln_sum(++*(int *)user > 1 ? kiln_equal(y, largest) : y, NULL);
    return kiln_error();
}

static void values_asked_for_later_agree(void **state)
{
    struct fixture *f = *state;
    for (int64_t n = 30; n <= 3000; n += 90) {
        int calls = 0;
        kiln_function *j = kiln_jit(find_the_largest, &calls, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
        kiln_tensor *x = kiln_sin(kiln_arange(f->dev, KILN_F32, 0, (double)n, 1)), *y;
        for (int t = 0; t < 4; t++) {
            ok(kiln_call(j, &x, 1, &y, 1));
            if (t) assert_true(kiln_item(y) >= 1);
        }
        kiln_function_free(&j);
    }
}

static kiln_status find_it_later(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *scale = kiln_sum(kiln_sigmoid(in[0]), NULL);
    kiln_tensor *y = kiln_add(kiln_mul(in[0], scale), kiln_norm(in[0], NULL)), *largest = kiln_max(y, NULL);
    *(double *)user = kiln_item(largest); // a break
    out[0] = kiln_sum(kiln_equal(y, largest), NULL);
    return kiln_error();
}

static void what_a_maximum_was_found_in_agrees_with_it(void **state)
{
    struct fixture *f = *state;
    for (int64_t n = 30; n <= 3000; n += 90) {
        double largest;
        kiln_function *j = kiln_jit(find_it_later, &largest, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
        kiln_tensor *x = kiln_sin(kiln_arange(f->dev, KILN_F32, 0, (double)n, 1)), *y;
        for (int t = 0; t < 3; t++) {
            ok(kiln_call(j, &x, 1, &y, 1));
            assert_true(kiln_item(y) >= 1);
        }
        kiln_function_free(&j);
    }
}

// The same where nothing holds what the maximum was found in any more.
static kiln_status count_the_largest(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_scope *inside = kiln_scope_begin();
    kiln_tensor *scale = kiln_sum(kiln_sigmoid(in[0]), NULL);
    kiln_tensor *y = kiln_add(kiln_mul(in[0], scale), kiln_norm(in[0], NULL)), *largest = kiln_keep(kiln_max(y, NULL));
    out[0] = kiln_keep(kiln_sum(kiln_equal(y, largest), NULL));
    kiln_scope_end(&inside);
    *(double *)user = kiln_item(largest); // a break
    kiln_free(&largest);
    return kiln_error();
}

static void a_maximum_agrees_with_what_is_made_anew(void **state)
{
    struct fixture *f = *state;
    for (int64_t n = 30; n <= 3000; n += 90) {
        double largest;
        kiln_function *j = kiln_jit(count_the_largest, &largest, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
        kiln_tensor *x = kiln_sin(kiln_arange(f->dev, KILN_F32, 0, (double)n, 1)), *y;
        for (int t = 0; t < 3; t++) {
            ok(kiln_call(j, &x, 1, &y, 1));
            assert_true(kiln_item(y) >= 1);
        }
        kiln_function_free(&j);
    }
}

// The gradient of logsumexp is exp(x - y), which tells by how little y is not that of this very x.
static kiln_status loss_of_products(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *product = kiln_prod(kiln_mul(user, in[0]), NULL);
    out[1] = kiln_logsumexp(product, KILN_REDUCE(.keepdims = true));
    kiln_item(kiln_mean(in[0], NULL)); // a break
    out[0] = kiln_sum(kiln_mul(out[1], kiln_scalar(0.25)), NULL);
    return kiln_error();
}

static kiln_status slope_of_products(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_value_and_grad(loss_of_products, user, in, n_in, KILN_GRAD(.has_aux = true, .outputs = 2), out, n_out);
}

static void a_logsumexp_agrees_with_what_it_was_made_of(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *weights = kiln_cast(vec(f, 3, 2, 1, 2), KILN_I16);
    ok(kiln_state(weights));
    for (int64_t n = 2; n < 14; n++) {
        kiln_function *j = automatic(slope_of_products, weights);
        kiln_tensor *row = kiln_arange(f->dev, KILN_F32, 0, (double)n, 1), *got[3], *want[3];
        for (int t = 0; t < 3; t++) {
            kiln_tensor *x = kiln_add(kiln_sin(kiln_reshape(row, KILN_SHAPE(n, 1))), kiln_scalar(1.6 + t * 0.125));
            kiln_set_requires_grad(x, true);
            ok(slope_of_products(weights, &x, 1, want, 3));
            ok(kiln_call(j, &x, 1, got, 3));
            for (int i = 0; i < 2; i++) near(got[i], want[i], 1e-5);
            near(kiln_div(got[2], want[2]), kiln_ones_like(want[2]), 1e-4);
        }
        kiln_function_free(&j);
    }
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(earlier_values_may_be_read_after_later_breaks),
        FIXTURE(what_nobody_asks_for_is_not_computed),
        FIXTURE(values_asked_for_later_agree),
        FIXTURE(what_a_maximum_was_found_in_agrees_with_it),
        FIXTURE(a_maximum_agrees_with_what_is_made_anew),
        FIXTURE(a_logsumexp_agrees_with_what_it_was_made_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
