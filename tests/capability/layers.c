// Row 65: the layers and ops of the documents' networks, with initialiser strings.
#include "capability.h"

// x + x, times p, squared.
static kiln_status add_mul_mul(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *x = kiln_mul(kiln_add(in[0], in[0]), user);
    out[0] = kiln_mul(x, x);
    return kiln_error();
}

static kiln_status construct(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                             size_t n_out)
{
    kiln_tensor *x = kiln_cell_call(kiln_cell_child(cell, "bn"), kiln_cell_call(kiln_cell_child(cell, "conv"), in[0]));
    kiln_tensor *y = NULL;
    add_mul_mul(kiln_cell_parameter(cell, "param"), &x, 1, &y, 1);
    out[0] = kiln_cell_call(kiln_cell_child(cell, "relu"), y);
    return kiln_error();
}

static void network(kiln_device *dev)
{
    kiln_cell *net = kiln_cell_create(KILN_CELL(.construct = construct, .n_in = 1, .n_out = 1));
    kiln_cell_add_parameter(net, "param", kiln_parameter(from(dev, NUMBERS(0.5), KILN_SHAPE0), "param"));
    kiln_cell_add_child(net, "conv",
                        kiln_nn_conv2d(dev, 1, 2, 2,
                                       KILN_NN_CONV2D(.stride = {1, 1}, .padding = {0, 0}, .weight_init = "ones",
                                                      .pad_mode = "valid")));
    kiln_cell_add_child(
        net, "bn",
        kiln_nn_batch_norm2d(dev, 2, KILN_NN_BATCH_NORM(.momentum = 0.99, .eps = 1e-5, .gamma_init = "ones")));
    kiln_cell_add_child(net, "relu", kiln_nn_relu());
    // In inference mode from the start: the moving mean is 0, the moving variance 1.
    assert_false(kiln_cell_is_training(net));
    EXPECT(kiln_cell_parameter(net, "bn.moving_mean"), 0, 0, 0);
    EXPECT(kiln_cell_parameter(net, "bn.moving_variance"), 0, 1, 1);
    // No bias unless asked.
    assert_int_equal(kiln_cell_parameters(net, NULL, 0), 4);
    EXPECT(kiln_cell_parameter(net, "conv.weight"), 0, 1, 1, 1, 1, 1, 1, 1, 1);
    kiln_tensor *y = kiln_cell_call(net, kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 1, 2, 2)));
    if (!y) fail_msg("%s", kiln_error_message());
    assert_int_equal(kiln_rank(y), 4);
    const int64_t dims[] = {1, 2, 1, 1};
    assert_memory_equal(kiln_dims(y), dims, sizeof dims);
    EXPECT(y, 1e-6, 15.99984, 15.99984);
    assert_true(fabs(kiln_item(kiln_select(kiln_flatten(y, 0, -1), 0, 0)) - 16 / 1.00001) < 2e-5);
    kiln_cell_free(&net);
}

// Momentum m: running = m running + (1 - m) batch. The batch of 1 and 3: mean 2, biased variance 1, unbiased 2.
static void momentum(kiln_device *dev)
{
    kiln_cell *bn = kiln_nn_batch_norm2d(dev, 1, KILN_NN_BATCH_NORM(.momentum = 0.9));
    kiln_cell_set_training(bn, true);
    EXPECT(kiln_cell_call(bn, from(dev, NUMBERS(1, 3), KILN_SHAPE(2, 1, 1, 1))), 1e-5, -1 / sqrt(1.00001),
           1 / sqrt(1.00001));
    EXPECT(kiln_cell_parameter(bn, "moving_mean"), 1e-6, 0.1 * 2);
    EXPECT(kiln_cell_parameter(bn, "moving_variance"), 1e-6, 0.9 + 0.1 * 2);
    kiln_cell_free(&bn);
}

static void initialisers(kiln_device *dev)
{
    EXPECT(kiln_initializer(dev, KILN_F32, KILN_SHAPE(3), "ones"), 0, 1, 1, 1);
    EXPECT(kiln_initializer(dev, KILN_F32, KILN_SHAPE(2), "zeros"), 0, 0, 0);
    EXPECT(kiln_initializer(dev, KILN_F32, KILN_SHAPE0, "0.5"), 0, 0.5);
    assert_int_equal(kiln_seed(dev, 5), KILN_OK);
    kiln_tensor *he = kiln_initializer(dev, KILN_F32, KILN_SHAPE(200, 150), "he_uniform");
    double spread = kiln_item(kiln_var(he, NULL)), top = kiln_item(kiln_max(kiln_abs(he), NULL));
    assert_true(fabs(spread - 2.0 / 150) < 0.05 * 2.0 / 150);
    assert_true(top <= sqrt(6.0 / 150) && top > 0.99 * sqrt(6.0 / 150));
    assert_null(kiln_initializer(dev, KILN_F32, KILN_SHAPE(2), "twos"));
    EXPECT_ERROR(KILN_E_ARGUMENT, "\"twos\"", "he_uniform", "xavier_uniform", "layers.c:");
    assert_null(kiln_nn_conv2d(dev, 1, 2, 2, KILN_NN_CONV2D(.weight_init = "threes")));
    EXPECT_ERROR(KILN_E_ARGUMENT, "\"threes\"", "layers.c:");
}

static void ops_of_the_networks(kiln_device *dev)
{
    kiln_tensor *a = from(dev, NUMBERS(1, 2, 3), KILN_SHAPE(3)), *b = from(dev, NUMBERS(4, 5, 6), KILN_SHAPE(3));
    EXPECT(kiln_mul(a, b), 0, 4, 10, 18);
    EXPECT(kiln_add(a, a), 0, 2, 4, 6);
    kiln_tensor *m =
        kiln_matmul(kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3)), kiln_ones(dev, KILN_F32, KILN_SHAPE(3, 4)));
    EXPECT(kiln_add(m, kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 4))), 0, 4, 4, 4, 4, 4, 4, 4, 4);
    kiln_cell *relu = kiln_nn_relu();
    EXPECT(kiln_cell_call(relu, from(dev, NUMBERS(-1, 0, 2), KILN_SHAPE(3))), 0, 0, 0, 2);
    kiln_cell_free(&relu);
}

void capability_65(void **state)
{
    on_each_device(network);
    on_each_device(momentum);
    on_each_device(initialisers);
    on_each_device(ops_of_the_networks);
}
