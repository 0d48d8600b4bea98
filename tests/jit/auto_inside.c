// AUTO functions with gradients, captures and failures inside; the documents' examples; threads.
#include "jit_fixture.h"
#include <pthread.h>

// --- gradients and captures inside

static kiln_status cube(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(kiln_square(in[0]), in[0]);
    return kiln_error();
}

static kiln_tensor *double_it(void *user, kiln_tensor *grad)
{
    count_run(user);
    return kiln_mul(grad, kiln_scalar(2));
}

static kiln_status differentiates(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *w = kiln_parameter(kiln_add(in[0], kiln_scalar(0)), "w"), *y;
    TRY_(kiln_grad(cube, NULL, in, 1, NULL, &out[0], 1));
    y = kiln_square(w);
    if (!kiln_register_hook(y, double_it, user)) return kiln_error();
    TRY_(kiln_backward(kiln_sum(kiln_mul(y, in[0]), NULL), NULL));
    out[1] = kiln_alias(kiln_gradient(w)); // 2 * 2 w * x
    return kiln_error();
}

static void gradients_inside(void **state)
{
    struct fixture *f = *state;
    bool fused = fuses(f);
    int hooks = 0;
    kiln_tensor *x = vec(f, 2, 1, 2), *out[2];
    kiln_function *j = automatic(differentiates, &hooks);
    for (int i = 0; i < 3; i++) {
        uint64_t before = launches_of(f);
        ok(kiln_call(j, &x, 1, out, 2));
        if (i && fused) assert_true(launches_of(f) - before <= 2);
        expect(out[0], 2, 3., 12.);
        expect(out[1], 2, 4., 16.);
    }
    assert_int_equal(hooks, 3);
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
}

static kiln_status drops(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *w = user;
    kiln_tensor *y = kiln_dropout(kiln_mul(w, in[0]), 0.5);
    TRY_(kiln_backward(kiln_sum(kiln_square(y), NULL), NULL));
    out[0] = kiln_alias(kiln_gradient(w));
    return kiln_error();
}

static void dropout_and_its_gradient_agree_with_eager(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = kiln_arange(f->dev, KILN_F32, 1, 65, 1), *out = NULL, *want[3];
    kiln_tensor *w = kiln_parameter(kiln_ones(f->dev, KILN_F32, KILN_SHAPE(64)), "w");
    kiln_function *j = automatic(drops, w);
    ok(kiln_seed(f->dev, 3));
    for (int i = 0; i < 3; i++) ok(drops(w, &x, 1, &want[i], 1));
    ok(kiln_seed(f->dev, 3));
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        near(out, want[i], 1e-5);
    }
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
}

static kiln_status recurses(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_function **self = user;
    if (kiln_item(in[0]) <= 0) {
        out[0] = kiln_ones_like(in[0]);
        return kiln_error();
    }
    kiln_tensor *less = kiln_sub(in[0], kiln_scalar(1)), *rest = NULL;
    TRY_(kiln_call(*self, &less, 1, &rest, 1));
    out[0] = kiln_mul(in[0], rest);
    return kiln_error();
}

static void recursion_is_fine(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 1, 5), *out = NULL;
    kiln_function *j = automatic(recurses, &j);
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        expect(out, 1, 120.);
    }
    assert_int_equal(stats_of(j).calls, 3);
    kiln_function_free(&j);
}

struct pair {
    kiln_function *strict, *automatic;
    struct fixture *f;
};

static kiln_status calls_others(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct pair *p = user;
    kiln_tensor *a = NULL, *b = NULL;
    TRY_(kiln_call(p->strict, in, 1, &a, 1));
    KILN_CAPTURE(p->f->dev)
    {
        TRY_(kiln_call(p->automatic, &a, 1, &b, 1));
        out[0] = kiln_keep(kiln_add(b, in[0]));
    }
    return kiln_error();
}

static void captures_inside_are_parts(void **state)
{
    struct fixture *f = *state;
    bool fused = fuses(f);
    struct pair p = {kiln_jit(cube, NULL, NULL), automatic(cube, NULL), f};
    kiln_tensor *x = vec(f, 2, 1, 2), *out = NULL;
    kiln_function *j = automatic(calls_others, &p);
    for (int i = 0; i < 3; i++) {
        uint64_t before = launches_of(f);
        ok(kiln_call(j, &x, 1, &out, 1));
        if (fused) assert_int_equal(launches_of(f) - before, 1);
        expect(out, 2, 2., 514.);
    }
    assert_int_equal(stats_of(p.strict).calls + stats_of(p.automatic).calls, 0);
    assert_int_equal(stats_of(j).breaks, 0);
    kiln_function_free(&p.strict);
    kiln_function_free(&p.automatic);
    kiln_function_free(&j);
}

// --- failures

static kiln_status needs_memory(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor **kept = user;
    kept[0] = kiln_own(kiln_exp(kiln_expand(kiln_add(in[0], kiln_scalar(1)), KILN_SHAPE(1 << 12, 1 << 12))));
    kept[1] = kiln_own(kiln_add(in[0], kiln_scalar(2)));
    kiln_device *dev = kiln_tensor_device(in[0]);
    TRY_(kiln_add_(in[0], kiln_scalar(1)));
    TRY_(kiln_device_set_memory_limit(dev, 1 << 22));
    double v = kiln_item(kiln_select(kiln_select(kept[0], 0, 0), 0, 0));
    return kiln_error() ? kiln_error() : v > 0 ? KILN_OK : KILN_E_INTERNAL;
}

static void a_failed_run_fails_its_values(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 1, 1), *kept[2] = {NULL};
    kiln_function *j = automatic(needs_memory, kept);
    float one;
    kiln_status status = kiln_call(j, &x, 1, NULL, 0);
    assert_int_equal(status, KILN_E_DEVICE_MEMORY);
    kiln_error_clear();
    ok(kiln_device_set_memory_limit(f->dev, 0));
    for (int i = 0; i < 2; i++) { // the first error, as often as it is asked
        kiln_tensor *part = kiln_select(kiln_select(kept[0], 0, 0), 0, 0);
        fails(kiln_read(part, &one, sizeof one), KILN_E_DEVICE_MEMORY, "");
    }
    expect(kept[1], 1, 3.); // another value of the same segment
    expect(x, 1, 2.);       // what was written meanwhile
    kiln_free(&kept[0]);
    kiln_free(&kept[1]);
    kiln_function_free(&j);
}

static kiln_status leaves_early(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    TRY_(kiln_add_(user, in[0]));
    out[0] = kiln_matmul(in[0], kiln_reshape(in[0], KILN_SHAPE(1, 2)));
    return kiln_error();
}

static void errors_keep_effects(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *w = vec(f, 2, 0, 0), *out = NULL;
    kiln_function *j = automatic(leaves_early, w);
    for (int i = 1; i < 4; i++) {
        fails(kiln_call(j, &x, 1, &out, 1), KILN_E_SHAPE, "matmul");
        assert_null(out);
        expect(w, 2, 1. * i, 2. * i);
    }
    kiln_function_free(&j);
}

// --- the documents' examples

static kiln_status tensor_cal(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(kiln_matmul(in[0], in[1]), in[2]);
    return kiln_error();
}

static void e6_tensor_cal(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {kiln_ones(f->dev, KILN_F32, KILN_SHAPE(2, 3)), kiln_ones(f->dev, KILN_F32, KILN_SHAPE(3, 4)),
                         kiln_ones(f->dev, KILN_F32, KILN_SHAPE(2, 4))};
    kiln_tensor *out = NULL;
    kiln_function *j = automatic(tensor_cal, NULL);
    for (int i = 0; i < 2; i++) {
        ok(kiln_call(j, in, 3, &out, 1));
        expect(out, 8, 4., 4., 4., 4., 4., 4., 4., 4.);
    }
    kiln_function_free(&j);
}

struct net {
    kiln_tensor *attr;
    int len, outer;
};

static kiln_status sets_attr(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *n = user;
    if (n->attr) kiln_free(&n->attr);
    n->attr = kiln_own(kiln_add(in[0], kiln_scalar(1)));
    out[0] = n->attr;
    return kiln_error();
}

static kiln_status adds_len(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct net *n = user;
    out[0] = kiln_add(in[0], kiln_scalar(n->len + n->outer));
    return kiln_error();
}

static void d4_d5_d6_state_of_the_host_is_seen(void **state)
{
    struct fixture *f = *state;
    struct net n = {NULL, 1, 0};
    kiln_tensor *x = vec(f, 3, 1, 2, 3), *two = vec(f, 1, 2), *out = NULL;
    kiln_function *d4 = automatic(sets_attr, &n), *d5 = automatic(adds_len, &n);
    for (int i = 0; i < 2; i++) {
        ok(kiln_call(d4, &x, 1, &out, 1));
        expect(out, 3, 2., 3., 4.);
        expect(n.attr, 3, 2., 3., 4.);
    }
    ok(kiln_call(d5, &two, 1, &out, 1));
    expect(out, 1, 3.);
    n.len = 2;
    ok(kiln_call(d5, &two, 1, &out, 1));
    expect(out, 1, 4.);
    n.outer = 1; // a closure over what is outside
    for (n.len = 1; n.len <= 2; n.len++) {
        ok(kiln_call(d5, &two, 1, &out, 1));
        expect(out, 1, 3. + n.len);
    }
    kiln_free(&n.attr);
    kiln_function_free(&d4);
    kiln_function_free(&d5);
}

struct worker {
    struct fixture *f;
    kiln_function *j;
    kiln_tensor *shared;
    bool fine;
};

static void *call_many(void *user)
{
    struct worker *w = user;
    w->fine = true;
    for (int i = 0; i < 40; i++) {
        kiln_scope *s = kiln_scope_begin();
        kiln_tensor *x = kiln_full(w->f->dev, KILN_F32, KILN_SHAPE(4), i), *out = NULL;
        kiln_tensor *y = kiln_add(x, w->shared);
        w->fine &= !kiln_call(w->j, &y, 1, &out, 1) && kiln_item(kiln_max(out, NULL)) == 3. * (i + 1) * 4 * (i + 1);
        KILN_CAPTURE(w->f->dev)
        {
            kiln_tensor *z = kiln_mul(x, w->shared);
            w->fine &= kiln_item(kiln_sum(z, NULL)) == 4. * i;
        }
        kiln_scope_end(&s);
    }
    w->fine &= !kiln_error();
    return NULL;
}

static kiln_status squares(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_mul(in[0], kiln_scalar(3));
    double sum = kiln_item(kiln_sum(in[0], NULL));
    out[0] = kiln_mul(y, kiln_scalar(sum));
    return kiln_error();
}

static void threads_may_call_one_function(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = automatic(squares, NULL);
    kiln_tensor *one = kiln_add(kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(4)), kiln_scalar(1));
    struct worker w[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        w[i] = (struct worker){f, j, one, false};
        assert_int_equal(pthread_create(&threads[i], NULL, call_many, &w[i]), 0);
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++) assert_true(w[i].fine);
    assert_int_equal(stats_of(j).calls, 120);
    kiln_function_free(&j);
}

static void regions_without_capture(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2);
    kiln_jit_enable(false);
    KILN_CAPTURE(NULL) expect(kiln_add(x, x), 2, 2., 4.);
    kiln_jit_enable(true);
    kiln_capture_end(NULL);
    kiln_capture_region *none = NULL;
    kiln_capture_end(&none);
    assert_false(kiln_capture_next(NULL));
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(gradients_inside),
        FIXTURE(dropout_and_its_gradient_agree_with_eager),
        FIXTURE(recursion_is_fine),
        FIXTURE(captures_inside_are_parts),
        FIXTURE(a_failed_run_fails_its_values),
        FIXTURE(errors_keep_effects),
        FIXTURE(e6_tensor_cal),
        FIXTURE(d4_d5_d6_state_of_the_host_is_seen),
        FIXTURE(threads_may_call_one_function),
        FIXTURE(regions_without_capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
