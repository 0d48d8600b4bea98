// Row 32: AUTO never fails where eager mode succeeds, and gives the same, on each device.
#include "capability.h"

static kiln_status value_loop(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = in[0];
    while (kiln_item(kiln_max(out[0], NULL)) < 100) out[0] = kiln_add(kiln_mul(out[0], kiln_scalar(2)), in[1]);
    return kiln_error();
}

static kiln_status host_detour(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    float v[4];
    kiln_tensor *y = kiln_exp(kiln_neg(kiln_abs(in[0])));
    if (kiln_read(kiln_transpose(y, 0, 1), v, sizeof v)) return kiln_error();
    for (int i = 0; i < 2; i++) v[i] += v[3 - i];
    kiln_tensor *back = kiln_from_data(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(4), v);
    out[0] = kiln_add(kiln_reshape(back, KILN_SHAPE(2, 2)), y);
    return kiln_error();
}

static kiln_status data_shapes(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *mask = kiln_greater(in[0], kiln_scalar(0)), *values = NULL, *counts = NULL;
    kiln_unique(kiln_round(in[1]), &values, NULL, &counts);
    kiln_tensor *sums[] = {kiln_sum(kiln_masked_select(in[0], mask), NULL),
                           kiln_sum(kiln_cast(kiln_nonzero(mask), KILN_F32), NULL),
                           kiln_sum(kiln_mul(values, kiln_cast(counts, KILN_F32)), NULL)};
    out[0] = kiln_stack(sums, 3, 0);
    return kiln_error();
}

static kiln_status writes_views(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_contiguous(kiln_transpose(in[0], 0, 1)), *row = kiln_select(y, 0, 1);
    kiln_add_(row, kiln_scalar(10));
    double seen = kiln_item(kiln_sum(y, NULL));
    kiln_assign(kiln_select(y, 1, 0), kiln_scalar(seen));
    out[0] = kiln_add(kiln_reshape(y, KILN_SHAPE(-1)), kiln_mul(kiln_sum(row, NULL), kiln_scalar(1)));
    return kiln_error();
}

static kiln_status handles_error(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *y = kiln_matmul(in[0], kiln_reshape(in[1], KILN_SHAPE(4, 1))); // no such product
    bool failed = y == NULL && kiln_error() == KILN_E_SHAPE;
    kiln_error_clear();
    out[0] = kiln_keep(failed ? kiln_matmul(in[0], in[1]) : kiln_neg(in[0]));
    kiln_scope_end(&scope);
    return kiln_error();
}

static kiln_status differentiates(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *w = kiln_parameter(kiln_add(in[0], in[1]), "w"), *y = kiln_tanh(w);
    kiln_tensor *loss = kiln_item(kiln_sum(y, NULL)) > 0 ? kiln_sum(kiln_square(y), NULL) : kiln_mean(y, NULL);
    kiln_backward(loss, NULL);
    out[0] = kiln_alias(kiln_gradient(w));
    return kiln_error();
}

static kiln_status reseeds(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_device *dev = kiln_tensor_device(in[0]);
    kiln_seed(dev, 5);
    kiln_tensor *a = kiln_uniform(dev, KILN_F32, KILN_SHAPE(2, 2), 0, 1);
    kiln_seed(dev, 6);
    out[0] = kiln_add(kiln_mul(a, in[0]), kiln_normal(dev, KILN_F32, KILN_SHAPE(2, 2), 0, 1));
    return kiln_error();
}

static kiln_status other_device(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *there = kiln_to_device(kiln_mul(in[0], kiln_scalar(3)), cpu());
    kiln_tensor *back = kiln_to_device(kiln_sub(there, kiln_scalar(1)), kiln_tensor_device(in[0]));
    out[0] = kiln_matmul(back, in[1]);
    return kiln_error();
}

static kiln_status grows(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    int *calls = user;
    out[0] = kiln_full(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(2, 2), 0);
    for (int i = 0; i <= *calls; i++) out[0] = kiln_add(kiln_mul(out[0], in[0]), in[1]);
    ++*calls;
    return kiln_error();
}

static kiln_status any_results(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    KILN_CAPTURE(NULL) out[0] = kiln_keep(kiln_narrow(kiln_neg(in[0]), 0, 0, 0)); // no element
    if (kiln_numel(out[0]) == 0) out[0] = kiln_transpose(in[1], 0, 1);            // the input's own memory
    return kiln_error();
}

static void never_fails(kiln_device *dev)
{
    static const struct {
        const char *name;
        kiln_fn fn;
    } rows[] = {{"value_loop", value_loop},     {"host_detour", host_detour},     {"data_shapes", data_shapes},
                {"writes_views", writes_views}, {"handles_error", handles_error}, {"differentiates", differentiates},
                {"reseeds", reseeds},           {"other_device", other_device},   {"grows", grows},
                {"any_results", any_results}};
    kiln_tensor *a = from(dev, NUMBERS(1, -2, 3, 4), KILN_SHAPE(2, 2));
    kiln_tensor *b = from(dev, NUMBERS(0.5, 2, 2, -0.25), KILN_SHAPE(2, 2));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int eager_calls = 0, calls = 0;
        kiln_function *f = kiln_jit(rows[i].fn, &calls, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
        for (int k = 0; k < 4; k++) {
            kiln_tensor *in[] = {k % 2 ? b : a, k % 2 ? a : b}, *want = NULL, *got = NULL;
            if (rows[i].fn(&eager_calls, in, 2, &want, 1)) fail_msg("%s: %s", rows[i].name, kiln_error_message());
            if (kiln_call(f, in, 2, &got, 1)) fail_msg("%s: %s", rows[i].name, kiln_error_message());
            expect_same(got, want, rows[i].name);
        }
        assert_int_equal(jit_stats_of(f).calls, 4);
        assert_int_equal(jit_stats_of(f).fallbacks, 0);
        kiln_function_free(&f);
    }
}

void capability_32(void **state)
{
    on_each_device(never_fails);
}
