// Functions that are compiled before they are called, and what their programs cost.
#include "jit_fixture.h"
#include <kiln/control.h>

static int runs;

static kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    runs++;
    out[0] = kiln_relu(kiln_add(kiln_mul(in[0], in[1]), kiln_scalar(1)));
    return kiln_error();
}

static kiln_cost cost_of(kiln_function *f, const kiln_types *types)
{
    kiln_cost c = {.size = sizeof c};
    ok(kiln_function_compile(f, types, 1, &c));
    return c;
}

static void a_call_finds_the_program(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(chain, NULL, NULL);
    kiln_types types = KILN_TYPES(KILN_TYPE(KILN_F32, 4, 8), KILN_TYPE(KILN_F32, 8));
    runs = 0;
    kiln_device *before = kiln_get_device();
    ok(kiln_set_device(f->dev));
    uint64_t launches = launches_of(f);
    kiln_cost c = cost_of(j, &types);
    assert_int_equal(launches_of(f), launches); // nothing ran
    assert_int_equal(runs, 1);
    assert_int_equal(c.ops, 3);
    assert_true(c.launches == 1 || c.launches == 3);
    assert_true(c.flops == 0);
    if (c.launches == 1) assert_true(c.moved_B == 4 * (32 + 8 + 32) && c.planned_B == 0);
    kiln_tensor *in[] = {kiln_full(f->dev, KILN_F32, KILN_SHAPE(4, 8), 2),
                         kiln_full(f->dev, KILN_F32, KILN_SHAPE(8), 3)},
                *y;
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, in, 2, &y, 1));
        assert_true(kiln_item(kiln_max(y, NULL)) == 7 && kiln_item(kiln_min(y, NULL)) == 7);
    }
    kiln_cost again = cost_of(j, &types), last = {.size = sizeof last};
    assert_memory_equal(&c, &again, sizeof c);
    ok(kiln_function_cost(j, &last)); // of the program that ran
    assert_memory_equal(&c, &last, sizeof c);
    if (c.launches == 1) assert_int_equal(c.kernels, 1);
    kiln_function *never = kiln_jit(chain, NULL, NULL), *pieces = automatic(chain, NULL);
    fails(kiln_function_cost(never, &last), KILN_E_STATE, "has no program: call it, or compile it");
    fails(kiln_function_cost(pieces, &last), KILN_E_STATE, "is captured by AUTO, in pieces");
    kiln_function_free(&never);
    kiln_function_free(&pieces);
    assert_int_equal(runs, 1);
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
    ok(kiln_set_device(before));
}

// --- costs

static kiln_status product(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_matmul(in[0], in[1]);
    return kiln_error();
}

static kiln_status image(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_conv2d(in[0], in[1], KILN_CONV2D(.padding = {1, 1}, .groups = 2));
    return kiln_error();
}

static kiln_status image_gradients(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *slopes[2];
    TRY_(kiln_grad(image, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1), .sens = KILN_TENSORS(in[2])), slopes, 2));
    out[0] = kiln_add(kiln_sum(slopes[0], NULL), kiln_sum(slopes[1], NULL));
    return kiln_error();
}

static kiln_status times(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_matmul(in[n_in - 1], (kiln_tensor *)user);
    return kiln_error();
}

static kiln_status five_times(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_for(kiln_scalar_int(5), times, in[1], in, 1, NULL, out, 1);
}

static double flops_of(kiln_fn fn, const kiln_types *types)
{
    kiln_function *j = kiln_jit(fn, NULL, NULL);
    kiln_cost c = cost_of(j, types);
    assert_true(c.launches > 0 && c.moved_B > 0);
    kiln_function_free(&j);
    return c.flops;
}

static void products_are_counted(void **state)
{
    struct fixture *f = *state;
    kiln_device *before = kiln_get_device();
    ok(kiln_set_device(f->dev));
    assert_true(flops_of(product, &(kiln_types)KILN_TYPES(KILN_TYPE(KILN_F32, 3, 5), KILN_TYPE(KILN_F32, 5, 7))) ==
                2. * 3 * 5 * 7);
    assert_true(flops_of(product, &(kiln_types)KILN_TYPES(KILN_TYPE(KILN_F32, 6, 1, 3, 5),
                                                          KILN_TYPE(KILN_F32, 2, 5, 7))) == 2. * 12 * 3 * 5 * 7);
    assert_true(flops_of(product, &(kiln_types)KILN_TYPES(KILN_TYPE(KILN_F32, 5), KILN_TYPE(KILN_F32, 5))) == 2. * 5);
    double conv = 2. * (2 * 6 * 9 * 11) * (2 * 3 * 3); // output, by a weight's part
    kiln_types forward = KILN_TYPES(KILN_TYPE(KILN_F32, 2, 4, 9, 11), KILN_TYPE(KILN_F32, 6, 2, 3, 3));
    kiln_types back =
        KILN_TYPES(KILN_TYPE(KILN_F32, 2, 4, 9, 11), KILN_TYPE(KILN_F32, 6, 2, 3, 3), KILN_TYPE(KILN_F32, 2, 6, 9, 11));
    assert_true(flops_of(image, &forward) == conv);
    assert_true(flops_of(image_gradients, &back) == 2 * conv);
    assert_true(flops_of(five_times, &(kiln_types)KILN_TYPES(KILN_TYPE(KILN_F32, 4, 4), KILN_TYPE(KILN_F32, 4, 4))) ==
                5 * 2. * 4 * 4 * 4);
    ok(kiln_set_device(before));
}

// --- mistakes

static kiln_status reads(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_item(kiln_sum(in[0], NULL)) > 0 ? in[0] : kiln_neg(in[0]);
    return kiln_error();
}

static kiln_status compiles_inside(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_types types = KILN_TYPES(KILN_TYPE(KILN_F32, 2));
    out[0] = kiln_neg(in[0]);
    return kiln_function_compile(user, &types, 1, NULL);
}

static void wrong_calls(void **state)
{
    struct fixture *f = *state;
    kiln_device *before = kiln_get_device();
    ok(kiln_set_device(f->dev));
    int64_t n = kiln_symbol("n", NULL);
    kiln_types two = KILN_TYPES(KILN_TYPE(KILN_F32, 2), KILN_TYPE(KILN_F32, 2)),
               open = KILN_TYPES(KILN_TYPE(KILN_F32, n));
    kiln_types apart = KILN_TYPES(KILN_TYPE(KILN_F32, 2), KILN_TYPE(KILN_F32, 3)),
               one = KILN_TYPES(KILN_TYPE(KILN_F32, 2));
    kiln_types none = {1, NULL};
    kiln_function *j = kiln_jit(chain, NULL, NULL), *r = kiln_jit(reads, NULL, NULL);
    kiln_function *a = kiln_jit(chain, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO)),
                  *t = kiln_jit(chain, NULL, KILN_JIT(.capture = KILN_CAPTURE_TRACE)),
                  *s = kiln_jit(chain, NULL, KILN_JIT(.input_types = two)),
                  *inside = kiln_jit(compiles_inside, j, NULL);
    fails(kiln_function_compile(NULL, &two, 1, NULL), KILN_E_ARGUMENT, "function_compile: f is NULL");
    fails(kiln_function_compile(j, NULL, 1, NULL), KILN_E_ARGUMENT, "function_compile: types is NULL");
    fails(kiln_function_compile(j, &none, 1, NULL), KILN_E_ARGUMENT, "function_compile: types is NULL");
    fails(kiln_function_compile(j, &open, 1, NULL), KILN_E_ARGUMENT, "dimension 0 of type 0 is open");
    fails(kiln_function_compile(j, &apart, 1, NULL), KILN_E_SHAPE, "mul: ");
    fails(kiln_function_compile(r, &one, 1, NULL), KILN_E_STATE, "item");
    fails(kiln_function_compile(a, &two, 1, NULL), KILN_E_UNSUPPORTED, "is captured by AUTO, which needs values");
    fails(kiln_function_compile(t, &two, 1, NULL), KILN_E_UNSUPPORTED, "is captured by TRACE");
    fails(kiln_function_compile(s, &apart, 1, NULL), KILN_E_SHAPE, "its signature says f32[2]");
    kiln_cost small = {.size = 3};
    fails(kiln_function_compile(j, &two, 1, &small), KILN_E_ARGUMENT, "function_compile: ");
    kiln_tensor *x = vec(f, 2, 1, 2), *y;
    fails(kiln_call(inside, &x, 1, &y, 1), KILN_E_STATE, "is asked for inside of a capture");
    ok(kiln_no_capture_begin());
    fails(kiln_function_compile(j, &two, 1, NULL), KILN_E_STATE, "capture is off");
    kiln_no_capture_end();
    ok(kiln_function_compile(j, &two, 1, NULL));
    for (int i = 0; i < 6; i++) kiln_function_free((kiln_function **[]){&j, &r, &a, &t, &s, &inside}[i]);
    ok(kiln_set_device(before));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(a_call_finds_the_program),
        FIXTURE(products_are_counted),
        FIXTURE(wrong_calls),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
