// While an error is pending nothing has an effect, and the first message stays.
#include "bad_input.h"

static kiln_tensor *a, *p, *y, *params[1], *in[1];
static kiln_cell *relu;
static kiln_optim *opt;
static kiln_loader *loader;
static kiln_checkpoint *c;
static kiln_function *f;
static kiln_bundle *bundle;
static kiln_training *training;
static kiln_metric *metric;

static kiln_status twice(void *user, kiln_tensor *const *x, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(x[0], x[0]);
    return kiln_error();
}

static double one(void *user)
{
    return 1;
}

static void ignore(void *user, const kiln_fact *fact) {}

static void makers_return_null(void)
{
    const float v[2] = {7, 7};
    kiln_tensor *made[] = {
        kiln_from_data(dev, KILN_F32, KILN_SHAPE(2), v),
        kiln_from_bytes(dev, KILN_F32, KILN_SHAPE(2), v, 8),
        kiln_scalar(1),
        kiln_ones(dev, KILN_F32, KILN_SHAPE(2)),
        kiln_to_device(a, other),
        kiln_alias(a),
        kiln_keep(a),
        kiln_own(a),
        kiln_add(a, a),
        kiln_reshape(a, KILN_SHAPE(1, 2)),
        kiln_parameter(a, "q"),
        kiln_stop_gradient(p),
        kiln_constant(a),
        kiln_mutable(1),
        kiln_mutable_int(1),
        kiln_mutable_bool(true),
        kiln_bundle_tensor(bundle, "x"),
        kiln_host_number(one, NULL),
        kiln_cell_call(relu, a),
        kiln_loss_mse(a, a, KILN_REDUCTION_MEAN),
        kiln_initializer(dev, KILN_F32, KILN_SHAPE(2), "ones"),
        kiln_npy_load(dev, "x.npy"),
        kiln_checkpoint_get(c, dev, "x"),
        kiln_clip_grad_norm(params, 1, 1),
        kiln_uniform(dev, KILN_F32, KILN_SHAPE(2), 0, 1),
    };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) assert_null(made[i]);
    assert_null(kiln_nn_dense(dev, 2, 2, NULL));
    assert_null(kiln_optim_adam(params, 1, NULL));
    assert_null(kiln_loader_create(dev, in, 1, NULL));
    assert_null(kiln_npz_load("x.npz"));
    assert_null(kiln_schedule_constant(1));
    assert_null(kiln_backward_graph(y));
    assert_null(kiln_bundle_create());
    assert_null(kiln_training_create(NULL, NULL));
    assert_null(kiln_metric_create(KILN_METRIC(.classes = 2)));
    assert_false(kiln_training_epoch(training));
    assert_false(kiln_training_goes_on(training));
    assert_null(kiln_bundle_of(in, 1));
    assert_null(kiln_bundle_copy(bundle));
    assert_null(kiln_bundle_string(bundle, "x"));
    assert_int_equal(kiln_bundle_count(bundle), 0);
    assert_null(kiln_jit(twice, NULL, NULL));
    kiln_device *none = kiln_device_open("cpu");
    assert_null(none);
    assert_null(kiln_get_device());
}

static void others_return_the_code(void)
{
    float v[2] = {7, 7};
    bool more = true;
    int64_t number = 5;
    kiln_tensor *out[2] = {NULL};
    const kiln_status got[] = {
        kiln_read(a, v, sizeof v),
        kiln_write(a, v, sizeof v),
        kiln_assign(a, a),
        kiln_add_(a, a),
        kiln_replace(&(kiln_tensor *){a}, p),
        kiln_set_device(other),
        kiln_set_default_device(other),
        kiln_device_synchronize(dev),
        kiln_device_trim(dev),
        kiln_device_tune(dev),
        kiln_seed(dev, 1),
        kiln_backward(y, NULL),
        kiln_grad(twice, NULL, in, 1, NULL, out, 1),
        kiln_register_bprop("mul", NULL, NULL),
        kiln_set_gradient(p, a),
        kiln_call(f, in, 1, out, 1),
        kiln_set_mode(KILN_MODE_GRAPH),
        kiln_bundle_append(bundle, NULL, KILN_NONE),
        kiln_bundle_set(bundle, "x", KILN_NONE),
        kiln_bundle_pop_at(bundle, 0, NULL),
        kiln_bundle_reverse(bundle),
        kiln_set_default_mode(KILN_MODE_GRAPH),
        kiln_state(a),
        kiln_cell_jit(relu, NULL),
        kiln_cell_set_training(relu, true),
        kiln_optim_step(opt),
        kiln_optim_zero_grad(opt),
        kiln_loader_next(loader, out, 1, &more),
        kiln_npy_save("never.npy", a),
        kiln_checkpoint_put_int(c, "n", 1),
        kiln_checkpoint_save(c, "never.ckpt"),
        kiln_checkpoint_get_int(c, "n", &number),
        kiln_split(a, 0, out, 2),
        kiln_training_step(training),
        kiln_training_log(training, "x", 1),
        kiln_training_keep_tensor(training, "x", a),
        kiln_training_save_curves(training, "never.svg", NULL),
        kiln_metric_update(metric, a, a),
        kiln_device_facts("cpu", ignore, NULL),
        kiln_set_requires_grad(p, false),
        kiln_sort(a, 0, false, &out[0], &out[1]),
    };
    for (size_t i = 0; i < sizeof got / sizeof *got; i++) assert_int_equal(got[i], KILN_E_ARGUMENT);
    assert_true(v[0] == 7 && v[1] == 7);
    assert_int_equal(number, 5);
    assert_true(isnan(kiln_item(y)));
}

void pending_errors_stop_everything(void **state)
{
    a = in[0] = F32(2);
    p = params[0] = kiln_parameter(F32(2), "p");
    y = kiln_sum(kiln_square(p), NULL);
    relu = kiln_nn_relu();
    opt = kiln_optim_sgd(params, 1, NULL);
    loader = kiln_loader_create(dev, in, 1, NULL);
    c = kiln_checkpoint_create();
    f = kiln_jit(twice, NULL, NULL);
    bundle = kiln_bundle_create();
    kiln_bundle_append(bundle, "x", KILN_TENSOR(a));
    uint64_t version = kiln_tensor_version(a);
    kiln_device_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    kiln_device_get_stats(dev, &before);
    assert_null(kiln_matmul(a, NULL));
    char text[512];
    snprintf(text, sizeof text, "%s", kiln_error_message());

    makers_return_null();
    others_return_the_code();
    assert_string_equal(kiln_error_message(), text);
    assert_int_equal(kiln_error(), KILN_E_ARGUMENT);
    kiln_device_get_stats(dev, &after);
    assert_int_equal(after.launches, before.launches);
    assert_int_equal(after.tensors, before.tensors);
    // What frees works, pending or not.
    kiln_cell_free(&relu);
    kiln_optim_free(&opt);
    kiln_loader_free(&loader);
    kiln_training_free(&training);
    kiln_metric_free(&metric);
    kiln_checkpoint_free(&c);
    kiln_function_free(&f);
    kiln_scope *inner = kiln_scope_begin();
    assert_non_null(inner);
    kiln_scope_end(&inner);
    kiln_free(&y);
    assert_null(y);
    assert_string_equal(kiln_error_message(), text);
    kiln_error_clear();

    assert_int_equal(kiln_get_mode(), KILN_MODE_EAGER);
    assert_null(kiln_gradient(p));
    assert_true(kiln_requires_grad(p));
    assert_int_equal(kiln_tensor_version(a), version);
    assert_null(fopen("never.npy", "r"));
    assert_null(fopen("never.ckpt", "r"));
    assert_ptr_equal(kiln_get_device(), dev);
}
