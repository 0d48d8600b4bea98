// Cells, layers, initialisers and losses, on every device there is.
#include <kiln/nn.h>
#include <kiln/ops.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kiln_device *dev;
static bool on_cpu;
static kiln_scope *scope;
static uint64_t tensors_before;

static uint64_t tensors_alive(void)
{
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_get_stats(dev, &stats);
    return stats.tensors;
}

static int begin(void **state)
{
    kiln_error_clear();
    kiln_seed(dev, 7);
    tensors_before = tensors_alive();
    scope = kiln_scope_begin();
    return scope ? 0 : -1;
}

// Every test frees its cells and ends with no error pending; then no storage is left.
static int end(void **state)
{
    if (kiln_error()) {
        fprintf(stderr, "left pending: %s\n", kiln_error_message());
        return -1;
    }
    kiln_scope_end(&scope);
    uint64_t left = tensors_alive() - tensors_before;
    if (left) fprintf(stderr, "%llu storages left\n", (unsigned long long)left);
    return left ? -1 : 0;
}

static kiln_tensor *from(const double *v, size_t rank, const int64_t *dims)
{
    kiln_tensor *t = kiln_from_data(dev, KILN_F64, rank, dims, v);
    return kiln_cast(t, KILN_F32);
}

#define FROM(v, ...) from((const double[])v, KILN_SHAPE(__VA_ARGS__))
#define V(...)      \
    {               \
        __VA_ARGS__ \
    }

static void expect(kiln_tensor *t, const double *want, size_t n, double tolerance)
{
    if (!t) fail_msg("%s", kiln_error_message());
    assert_int_equal(kiln_numel(t), n);
    double *got = calloc(n, sizeof *got);
    kiln_scope *inner = kiln_scope_begin();
    assert_int_equal(kiln_read(kiln_cast(t, KILN_F64), got, n * sizeof *got), KILN_OK);
    kiln_scope_end(&inner);
    for (size_t i = 0; i < n; i++) {
        if (!(fabs(got[i] - want[i]) <= tolerance * (1 + fabs(want[i]))))
            fail_msg("element %zu: %.9g, expected %.9g", i, got[i], want[i]);
    }
    free(got);
}

#define EXPECT(t, tolerance, ...) \
    expect(t, (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double), tolerance)

static void expect_shape(kiln_tensor *t, size_t rank, const int64_t *dims)
{
    if (!t) fail_msg("%s", kiln_error_message());
    assert_int_equal(kiln_rank(t), rank);
    for (size_t i = 0; i < rank; i++) assert_int_equal(kiln_dims(t)[i], dims[i]);
}

// The pending error has this code and holds this text; it is cleared.
static void expect_error(kiln_status code, const char *text)
{
    assert_string_equal(kiln_status_name(kiln_error()), kiln_status_name(code));
    if (!strstr(kiln_error_message(), text)) fail_msg("\"%s\" does not hold \"%s\"", kiln_error_message(), text);
    if (!strstr(kiln_error_message(), "nn.c:")) fail_msg("\"%s\" names no line of this file", kiln_error_message());
    kiln_error_clear();
}

static kiln_cell *small_net(void)
{
    return kiln_nn_sequential(KILN_CELLS(
        kiln_nn_conv2d(dev, 1, 2, 2, KILN_NN_CONV2D(.weight_init = "ones", .pad_mode = "valid")),
        kiln_nn_batch_norm2d(dev, 2, KILN_NN_BATCH_NORM(.momentum = 0.99, .gamma_init = "ones")), kiln_nn_relu()));
}

// --- the tree

static void names_are_paths(void **state)
{
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(small_net(), kiln_nn_flatten(), kiln_nn_dense(dev, 2, 3, NULL)));
    assert_non_null(net);
    assert_non_null(kiln_cell_parameter(net, "0.0.weight"));
    EXPECT(kiln_cell_parameter(net, "0.1.moving_mean"), 0, 0, 0);
    EXPECT(kiln_cell_parameter(net, "0.1.moving_variance"), 0, 1, 1);
    expect_shape(kiln_cell_parameter(net, "2.weight"), KILN_SHAPE(3, 2));
    assert_string_equal(kiln_cell_kind(kiln_cell_child(net, "0.1")), "batch_norm2d");
    assert_string_equal(kiln_cell_name(kiln_cell_child(net, "0.1")), "1");
    assert_true(kiln_cell_child(net, "0") != kiln_cell_child(net, "2"));
    assert_int_equal(kiln_cell_parameters(net, NULL, 0), 5);
    assert_int_equal(kiln_cell_parameter_count(net), 8 + 4 + 9);

    const char *names[16];
    kiln_tensor *tensors[16];
    static const char *const want[] = {"0.0.weight", "0.1.moving_mean", "0.1.moving_variance", "0.1.gamma", "0.1.beta",
                                       "2.weight",   "2.bias"};
    assert_int_equal(kiln_cell_state(net, names, tensors, 16), 7);
    for (size_t i = 0; i < 7; i++) {
        assert_string_equal(names[i], want[i]);
        assert_ptr_equal(tensors[i], kiln_cell_parameter(net, want[i]));
    }
    assert_null(kiln_cell_parameter(net, "0.2.weight"));
    expect_error(KILN_E_ARGUMENT, "sequential has no \"0.2.weight\"; it has 0.0.weight, 0.1.moving_mean");
    assert_null(kiln_cell_parameter(net, "weight"));
    expect_error(KILN_E_ARGUMENT, "no \"weight\"");
    assert_null(kiln_cell_child(net, "7"));
    expect_error(KILN_E_ARGUMENT, "no \"7\"; its children are 0, 1, 2");
    kiln_cell_free(&net);
    assert_null(net);
    kiln_cell_free(&net);
}

static void shared_parameters_count_once(void **state)
{
    kiln_cell *a = kiln_nn_dense(dev, 2, 2, KILN_NN_DENSE(.no_bias = true, .weight_init = "1"));
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(a));
    kiln_cell *tied = kiln_nn_relu();
    assert_non_null(kiln_cell_add_parameter(tied, "weight", kiln_cell_parameter(a, "weight")));
    kiln_sequential_append(net, tied);
    kiln_tensor *params[4] = {NULL};
    assert_int_equal(kiln_cell_parameters(net, params, 4), 1);
    assert_int_equal(kiln_cell_state(net, NULL, NULL, 0), 1);
    assert_true(kiln_is_view_of(kiln_cell_parameter(net, "1.weight"), params[0]));
    kiln_backward(kiln_sum(kiln_mul(kiln_cell_parameter(net, "1.weight"), kiln_scalar(3)), NULL), NULL);
    EXPECT(kiln_gradient(params[0]), 0, 3, 3, 3, 3);
    kiln_cell_free(&net);
}

static void adding_checks(void **state)
{
    kiln_cell *net = kiln_nn_sequential(0, NULL);
    assert_null(kiln_cell_add_parameter(net, "a.b", kiln_ones(dev, KILN_F32, KILN_SHAPE(1))));
    expect_error(KILN_E_ARGUMENT, "without dots, got \"a.b\"");
    assert_null(kiln_cell_add_parameter(net, "w", NULL));
    expect_error(KILN_E_ARGUMENT, "the value of \"w\" is NULL");
    assert_non_null(kiln_cell_make_parameter(net, "w", dev, KILN_F32, KILN_SHAPE(1), "ones"));
    assert_null(kiln_cell_add_buffer(net, "w", kiln_ones(dev, KILN_F32, KILN_SHAPE(1))));
    expect_error(KILN_E_ARGUMENT, "has a \"w\" already");
    kiln_cell *child = kiln_cell_add_child(net, "c", kiln_nn_relu());
    assert_null(kiln_cell_add_child(net, "c", kiln_nn_relu()));
    expect_error(KILN_E_ARGUMENT, "has a \"c\" already");
    assert_null(kiln_cell_add_child(net, "d", child));
    expect_error(KILN_E_ARGUMENT, "has a parent already");
    assert_null(kiln_cell_add_child(child, "up", net));
    expect_error(KILN_E_ARGUMENT, "a descendant of itself");
    assert_null(kiln_cell_add_child(net, "e", NULL));
    expect_error(KILN_E_ARGUMENT, "the child \"e\" is NULL");
    // A failing layer inside a list: the message is its own, the others are freed.
    assert_null(kiln_nn_sequential(
        KILN_CELLS(kiln_nn_relu(), kiln_nn_dense(dev, 2, 2, KILN_NN_DENSE(.weight_init = "hee")), kiln_nn_relu())));
    expect_error(KILN_E_ARGUMENT, "unknown \"hee\"; there are \"zeros\", \"ones\"");
    kiln_cell_free(&child); // leaves its parent
    assert_null(kiln_cell_child(net, "c"));
    expect_error(KILN_E_ARGUMENT, "its children are none");
    kiln_cell_free(&net);
}

static void modes_reach_descendants(void **state)
{
    kiln_cell *net = small_net();
    assert_false(kiln_cell_is_training(net));
    kiln_cell_set_training(net, true);
    assert_true(kiln_cell_is_training(kiln_cell_child(net, "1")));
    kiln_sequential_append(net, kiln_nn_dropout(0.5));
    assert_true(kiln_cell_is_training(kiln_cell_child(net, "3")));
    kiln_cell_set_requires_grad(net, false);
    assert_false(kiln_requires_grad(kiln_cell_parameter(net, "0.weight")));
    kiln_cell_set_requires_grad(net, true);
    assert_true(kiln_requires_grad(kiln_cell_parameter(net, "0.weight")));
    assert_false(kiln_requires_grad(kiln_cell_parameter(net, "1.moving_mean")));
    kiln_cell_free(&net);
}

static void moving_keeps_values(void **state)
{
    kiln_cell *net = small_net();
    kiln_device *other = kiln_device_open("cpu");
    kiln_cell_set_requires_grad(kiln_cell_child(net, "0"), false);
    assert_int_equal(kiln_cell_to_device(net, other), KILN_OK);
    assert_ptr_equal(kiln_tensor_device(kiln_cell_parameter(net, "0.weight")), other);
    assert_false(kiln_requires_grad(kiln_cell_parameter(net, "0.weight")));
    assert_true(kiln_requires_grad(kiln_cell_parameter(net, "1.gamma")));
    assert_string_equal(kiln_name(kiln_cell_parameter(net, "1.gamma")), "gamma");
    EXPECT(kiln_cell_parameter(net, "1.moving_variance"), 0, 1, 1);
    kiln_cell_free(&net);
    kiln_device_close(&other);
}

static void printing_shows_the_tree(void **state)
{
    kiln_cell *net = small_net();
    char *text = NULL;
    size_t size_B = 0;
    FILE *f = open_memstream(&text, &size_B);
    kiln_cell_print(net, f);
    fclose(f);
    assert_string_equal(text, "sequential\n  0: conv2d\n    weight f32[2,1,2,2]\n  1: batch_norm2d\n"
                              "    moving_mean f32[2] (buffer)\n    moving_variance f32[2] (buffer)\n"
                              "    gamma f32[2]\n    beta f32[2]\n  2: relu\n12 parameters\n");
    free(text);
    kiln_cell_free(&net);
}

// --- calls

static int freed;

static void count_free(void *user)
{
    freed++;
}

// Two inputs, two outputs: the sum, and the second input itself.
static kiln_status sum_and_second(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                  size_t n_out)
{
    out[0] = kiln_mul(kiln_add(in[0], in[1]), kiln_cell_parameter(cell, "scale"));
    if (n_out > 1) out[1] = in[1];
    return kiln_error();
}

static void custom_cells(void **state)
{
    freed = 0;
    kiln_cell *cell =
        kiln_cell_create(KILN_CELL(.kind = "pair", .construct = sum_and_second, .user_free = count_free, .n_in = 2));
    kiln_cell_add_parameter(cell, "scale", kiln_full(dev, KILN_F32, KILN_SHAPE(1), 2));
    kiln_tensor *x = FROM(V(1, 2), 2), *y = FROM(V(3, 4), 2), *in[] = {x, y}, *out[2];
    assert_int_equal(kiln_cell_call_n(cell, in, 2, out, 2), KILN_OK);
    EXPECT(out[0], 0, 8, 12);
    EXPECT(out[1], 0, 3, 4);
    assert_true(out[1] != y); // a handle of its own
    kiln_free(&out[1]);
    EXPECT(y, 0, 3, 4);

    kiln_tensor *grads[2];
    assert_int_equal(
        kiln_grad(kiln_cell_fn, cell, in, 2,
                  KILN_GRAD(.wrt = KILN_ARGS(0), .params = KILN_PARAMS(kiln_cell_parameter(cell, "scale"))), grads, 2),
        KILN_OK);
    EXPECT(grads[0], 0, 2, 2);
    EXPECT(grads[1], 0, 10);

    assert_null(kiln_cell_call(cell, x));
    expect_error(KILN_E_ARGUMENT, "pair takes 2 inputs, got 1");
    kiln_tensor *missing[] = {x, NULL};
    assert_int_equal(kiln_cell_call_n(cell, missing, 2, out, 1), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "input 1 of pair is NULL");
    assert_null(kiln_cell_call(NULL, x));
    expect_error(KILN_E_ARGUMENT, "cell is NULL");
    kiln_cell_free(&cell);
    assert_int_equal(freed, 1);
    kiln_relu(NULL);
    assert_null(kiln_cell_create(KILN_CELL(.user_free = count_free))); // while an error is pending
    expect_error(KILN_E_ARGUMENT, "relu");
    assert_int_equal(freed, 2);
}

// Without a function a cell is a level of names; it may lie in one that has a function.
static void cells_without_construct_hold_others(void **state)
{
    kiln_cell *net = kiln_cell_create(NULL), *encoder = kiln_cell_create(KILN_CELL(.kind = "encoder"));
    kiln_cell_add_child(net, "encoder", encoder);
    kiln_cell *relu = kiln_cell_add_child(encoder, "0", kiln_nn_relu());
    kiln_tensor *w = kiln_cell_make_parameter(encoder, "w", dev, KILN_F32, KILN_SHAPE(2), "ones");
    assert_ptr_equal(kiln_cell_child(net, "encoder.0"), relu);
    assert_ptr_equal(kiln_cell_parameter(net, "encoder.w"), w);
    kiln_tensor *x = FROM(V(-1, 2), 2);
    EXPECT(kiln_cell_call(kiln_cell_child(net, "encoder.0"), x), 0, 0, 2);
    assert_null(kiln_cell_call(net, x));
    expect_error(KILN_E_STATE, "cell_call: cell has no .construct: it holds children that are called by themselves");
    assert_null(kiln_cell_call(encoder, x));
    expect_error(KILN_E_STATE, "cell_call: encoder has no .construct");
    kiln_cell_jit(encoder, NULL);
    assert_null(kiln_cell_call(encoder, x));
    expect_error(KILN_E_STATE, "cell_call: encoder has no .construct");
    kiln_cell_free(&net);
}

static kiln_status fill_nothing(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                size_t n_out)
{
    kiln_relu(in[0]);
    return *(kiln_status *)user;
}

static void failing_constructs_are_named(void **state)
{
    kiln_status status = KILN_OK;
    kiln_cell *cell = kiln_cell_create(KILN_CELL(.kind = "idle", .construct = fill_nothing, .user = &status));
    kiln_tensor *x = FROM(V(1, 2), 2);
    assert_null(kiln_cell_call(cell, x));
    expect_error(KILN_E_ARGUMENT, "idle cell: construct left output 0 of 1 NULL; set every out[i]");
    status = KILN_E_STATE;
    assert_null(kiln_cell_call(cell, x));
    expect_error(KILN_E_STATE, "idle cell: construct failed with KILN_E_STATE");
    kiln_cell_free(&cell);

    cell = kiln_nn_dense(dev, 3, 4, NULL);
    assert_null(kiln_cell_call(cell, x));
    expect_error(KILN_E_SHAPE, "matmul");
    assert_null(kiln_cell_call(cell, NULL));
    expect_error(KILN_E_ARGUMENT, "input 0 of dense is NULL");
    kiln_cell_free(&cell);
}

// --- hooks

struct trace {
    int pre, forward, grad_out, grad_in;
};

static kiln_status double_input(void *user, kiln_cell *cell, kiln_tensor **in, size_t n_in)
{
    ((struct trace *)user)->pre++;
    in[0] = kiln_mul(in[0], kiln_scalar(2));
    return kiln_error();
}

static kiln_status add_one(void *user, kiln_cell *cell, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                           size_t n_out)
{
    ((struct trace *)user)->forward++;
    out[0] = kiln_add(out[0], kiln_scalar(1));
    return kiln_error();
}

static kiln_tensor *watch_out(void *user, kiln_cell *cell, size_t index, kiln_tensor *grad)
{
    ((struct trace *)user)->grad_out++;
    assert_int_equal(index, 0);
    return NULL;
}

static kiln_tensor *halve_in(void *user, kiln_cell *cell, size_t index, kiln_tensor *grad)
{
    ((struct trace *)user)->grad_in++;
    return kiln_mul(grad, kiln_scalar(0.5));
}

static void hooks_run_and_go(void **state)
{
    struct trace seen = {0};
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_relu()));
    kiln_cell *relu = kiln_cell_child(net, "0");
    kiln_tensor *x = kiln_parameter(FROM(V(1, -2, 3), 3), "x");
    uint64_t pre = kiln_cell_register_forward_pre_hook(relu, double_input, &seen);
    uint64_t forward = kiln_cell_register_forward_hook(relu, add_one, &seen);
    uint64_t grad_out = kiln_cell_register_backward_pre_hook(relu, watch_out, &seen);
    uint64_t grad_in = kiln_cell_register_backward_hook(relu, halve_in, &seen);
    assert_true(pre && forward && grad_out && grad_in);
    kiln_tensor *y = kiln_cell_call(net, x);
    EXPECT(y, 0, 3, 1, 7);
    // x is used beside the cell: the hook sees the cell's share only.
    kiln_backward(kiln_sum(kiln_add(y, kiln_mul(x, kiln_scalar(10))), NULL), NULL);
    EXPECT(kiln_gradient(x), 0, 11, 10, 11);
    assert_int_equal(seen.pre, 1);
    assert_int_equal(seen.forward, 1);
    assert_int_equal(seen.grad_out, 1);
    assert_int_equal(seen.grad_in, 1);

    y = kiln_cell_call(net, x);
    kiln_cell_remove_hook(relu, pre);
    kiln_cell_remove_hook(relu, forward);
    kiln_cell_remove_hook(relu, grad_in);
    assert_int_equal(kiln_cell_remove_hook(relu, pre), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "relu has no hook");
    kiln_backward(kiln_sum(y, NULL), NULL); // the removed hook of the call above does not run
    EXPECT(kiln_gradient(x), 0, 2, 0, 2);
    assert_int_equal(seen.grad_in, 1);
    assert_int_equal(seen.grad_out, 2);

    y = kiln_cell_call(net, x);
    EXPECT(y, 0, 1, 0, 3);
    kiln_cell_free(&net); // with a hook on the tape
    kiln_backward(kiln_sum(y, NULL), NULL);
    EXPECT(kiln_gradient(x), 0, 1, 0, 1);
    assert_int_equal(seen.grad_out, 2);
    assert_int_equal(kiln_cell_register_forward_hook(NULL, add_one, NULL), 0);
    expect_error(KILN_E_ARGUMENT, "cell is NULL");
}

// --- layers

static void dense_and_embedding(void **state)
{
    kiln_cell *cell = kiln_nn_dense(dev, 3, 2, KILN_NN_DENSE(.bias_init = "1"));
    kiln_write(kiln_cell_parameter(cell, "weight"), (float[]){1, 2, 3, 4, 5, 6}, 24);
    assert_int_equal(kiln_error(), KILN_E_GRADIENT); // a leaf that requires a gradient
    kiln_error_clear();
    kiln_no_grad_begin();
    kiln_write(kiln_cell_parameter(cell, "weight"), (float[]){1, 2, 3, 4, 5, 6}, 24);
    kiln_no_grad_end();
    EXPECT(kiln_cell_call(cell, FROM(V(1, 0, 0, 1, 1, 1), 2, 3)), 1e-6, 2, 5, 7, 16);
    EXPECT(kiln_cell_call(cell, FROM(V(0, 1, 0), 1, 1, 3)), 1e-6, 3, 6);
    kiln_cell_free(&cell);

    cell = kiln_nn_embedding(dev, 4, 2, "zeros");
    kiln_no_grad_begin();
    kiln_write(kiln_cell_parameter(cell, "weight"), (float[]){0, 1, 10, 11, 20, 21, 30, 31}, 32);
    kiln_no_grad_end();
    kiln_tensor *ids = kiln_from_data(dev, KILN_I64, KILN_SHAPE(3), (int64_t[]){3, 0, 3}),
                *y = kiln_cell_call(cell, ids);
    EXPECT(y, 0, 30, 31, 0, 1, 30, 31);
    kiln_backward(kiln_sum(y, NULL), NULL);
    EXPECT(kiln_gradient(kiln_cell_parameter(cell, "weight")), 0, 1, 1, 0, 0, 0, 0, 2, 2);
    kiln_cell_free(&cell);
    assert_null(kiln_nn_dense(dev, 0, 2, NULL));
    expect_error(KILN_E_ARGUMENT, "in and out must be positive, got 0 and 2");
}

// A plain convolution of one image and one channel, with zeros around as "same" puts them.
static void conv_same(const double *x, int64_t h, int64_t w, const double *k, int64_t kh, int64_t kw, int64_t stride,
                      double *y)
{
    int64_t oh = (h + stride - 1) / stride, ow = (w + stride - 1) / stride;
    int64_t top = ((oh - 1) * stride + kh - h) / 2, left = ((ow - 1) * stride + kw - w) / 2;
    if (top < 0) top = 0;
    if (left < 0) left = 0;
    for (int64_t i = 0; i < oh; i++)
        for (int64_t j = 0; j < ow; j++) {
            double sum = 0;
            for (int64_t a = 0; a < kh; a++)
                for (int64_t b = 0; b < kw; b++) {
                    int64_t r = i * stride - top + a, c = j * stride - left + b;
                    if (r >= 0 && r < h && c >= 0 && c < w) sum += x[r * w + c] * k[a * kw + b];
                }
            y[i * ow + j] = sum;
        }
}

static void convolutions_pad(void **state)
{
    kiln_cell *cell = kiln_nn_conv2d(dev, 1, 1, 3, KILN_NN_CONV2D(.weight_init = "ones", .pad_mode = "same"));
    EXPECT(kiln_cell_call(cell, kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 1, 3, 3))), 0, 4, 6, 4, 6, 9, 6, 4, 6, 4);
    kiln_cell_free(&cell);
    for (int64_t kernel = 1; kernel <= 4; kernel++) {
        for (int64_t stride = 1; stride <= 3; stride++) {
            double x[5 * 7], k[4 * 5], y[5 * 7];
            for (int i = 0; i < 35; i++) x[i] = i % 11 - 4;
            for (int i = 0; i < 20; i++) k[i] = i % 5 - 1.5;
            conv_same(x, 5, 7, k, kernel, kernel + 1, stride, y);
            cell = kiln_nn_conv2d(
                dev, 1, 1, kernel,
                KILN_NN_CONV2D(.kernel_width = kernel + 1, .stride = {stride, stride}, .pad_mode = "same"));
            kiln_no_grad_begin();
            kiln_assign(kiln_cell_parameter(cell, "weight"), from(k, KILN_SHAPE(1, 1, kernel, kernel + 1)));
            kiln_no_grad_end();
            int64_t oh = (5 + stride - 1) / stride, ow = (7 + stride - 1) / stride;
            kiln_tensor *got = kiln_cell_call(cell, from(x, KILN_SHAPE(1, 1, 5, 7)));
            expect_shape(got, KILN_SHAPE(1, 1, oh, ow));
            expect(got, y, (size_t)(oh * ow), 1e-5);
            kiln_cell_free(&cell);
        }
    }
    cell = kiln_nn_conv2d(dev, 2, 4, 3, KILN_NN_CONV2D(.padding = {1, 1}, .groups = 2, .bias = true, .bias_init = "2"));
    expect_shape(kiln_cell_parameter(cell, "weight"), KILN_SHAPE(4, 1, 3, 3));
    kiln_tensor *y = kiln_cell_call(cell, kiln_zeros(dev, KILN_F32, KILN_SHAPE(2, 2, 3, 3)));
    expect_shape(y, KILN_SHAPE(2, 4, 3, 3));
    assert_true(kiln_item(kiln_min(y, NULL)) == 2);
    kiln_cell_free(&cell);
    assert_null(kiln_nn_conv2d(dev, 1, 1, 3, KILN_NN_CONV2D(.pad_mode = "some")));
    expect_error(KILN_E_ARGUMENT, "unknown .pad_mode \"some\"");
    assert_null(kiln_nn_conv2d(dev, 3, 4, 3, KILN_NN_CONV2D(.groups = 2)));
    expect_error(KILN_E_ARGUMENT, "groups must divide in and out, got 2 for 3 and 4");
    assert_null(kiln_nn_conv2d(dev, 3, 4, 3, KILN_NN_CONV2D(.padding = {1, 0}, .pad_mode = "valid")));
    expect_error(KILN_E_ARGUMENT, "goes with .pad_mode \"pad\" only");
}

// Row 65 of the documents' layers: convolution, batch norm in inference, the rest of their example.
static void capability_65_layers(void **state)
{
    kiln_cell *net = small_net();
    kiln_tensor *t = kiln_cell_call(net, kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 1, 2, 2))), *p = kiln_scalar(0.5);
    kiln_tensor *s = kiln_mul(kiln_add(t, t), p), *y = kiln_relu(kiln_mul(s, s));
    expect_shape(y, KILN_SHAPE(1, 2, 1, 1));
    EXPECT(y, 1e-6, 15.99984, 15.99984);
    kiln_cell_free(&net);
}

static void batch_norm_keeps_statistics(void **state)
{
    // Channel 0: 1 2 3 4, channel 1: 10 10 20 20, over a batch of 2 with 2 places.
    kiln_tensor *x = FROM(V(1, 2, 10, 10, 3, 4, 20, 20), 2, 2, 1, 2);
    kiln_cell *cell = kiln_nn_batch_norm2d(dev, 2, KILN_NN_BATCH_NORM(.momentum = 0.9));
    double eps = 1e-5, r0 = 1 / sqrt(1.25 + eps), r1 = 1 / sqrt(25 + eps);
    EXPECT(kiln_cell_call(cell, x), 1e-5, 1 / sqrt(1 + eps), 2 / sqrt(1 + eps), 10 / sqrt(1 + eps), 10 / sqrt(1 + eps),
           3 / sqrt(1 + eps), 4 / sqrt(1 + eps), 20 / sqrt(1 + eps), 20 / sqrt(1 + eps));
    kiln_cell_set_training(cell, true);
    EXPECT(kiln_cell_call(cell, x), 1e-5, -1.5 * r0, -0.5 * r0, -5 * r1, -5 * r1, 0.5 * r0, 1.5 * r0, 5 * r1, 5 * r1);
    double mean[2] = {0.1 * 2.5, 0.1 * 15}, variance[2] = {0.9 + 0.1 * 1.25 * 4 / 3, 0.9 + 0.1 * 25 * 4 / 3};
    expect(kiln_cell_parameter(cell, "moving_mean"), mean, 2, 1e-6);
    expect(kiln_cell_parameter(cell, "moving_variance"), variance, 2, 1e-6);
    kiln_tensor *held = kiln_cell_parameter(cell, "moving_mean");
    kiln_backward(kiln_sum(kiln_square(kiln_cell_call(cell, x)), NULL), NULL);
    assert_ptr_equal(kiln_cell_parameter(cell, "moving_mean"), held); // written, not replaced
    EXPECT(held, 1e-6, 0.9 * mean[0] + 0.25, 0.9 * mean[1] + 1.5);
    EXPECT(kiln_gradient(kiln_cell_parameter(cell, "beta")), 1e-4, 0, 0);
    EXPECT(kiln_gradient(kiln_cell_parameter(cell, "gamma")), 1e-4, 2 * 5 * r0 * r0, 2 * 100 * r1 * r1);
    assert_null(kiln_gradient(held));
    kiln_cell_free(&cell);

    cell = kiln_nn_batch_norm2d(dev, 2, KILN_NN_BATCH_NORM(.momentum = KILN_ZERO, .no_affine = true));
    assert_int_equal(kiln_cell_parameters(cell, NULL, 0), 0);
    kiln_cell_set_training(cell, true);
    kiln_cell_call(cell, x);
    EXPECT(kiln_cell_parameter(cell, "moving_mean"), 1e-6, 2.5, 15);
    kiln_cell_free(&cell);
    assert_null(kiln_nn_batch_norm2d(dev, 2, KILN_NN_BATCH_NORM(.momentum = 2)));
    expect_error(KILN_E_ARGUMENT, "momentum in [0, 1]");
}

static void row_norms(void **state)
{
    kiln_tensor *x = FROM(V(1, 2, 3, 4, 2, 2, 2, 6), 2, 4);
    kiln_cell *cell = kiln_nn_layer_norm(dev, KILN_SHAPE(4), KILN_NN_NORM(.gamma_init = "2", .beta_init = "1"));
    double r0 = 2 / sqrt(1.25 + 1e-5), r1 = 2 / sqrt(3 + 1e-5);
    EXPECT(kiln_cell_call(cell, x), 1e-5, 1 - 1.5 * r0, 1 - 0.5 * r0, 1 + 0.5 * r0, 1 + 1.5 * r0, 1 - r1, 1 - r1,
           1 - r1, 1 + 3 * r1);
    assert_null(kiln_cell_call(cell, kiln_ones(dev, KILN_F32, KILN_SHAPE(4, 2))));
    expect_error(KILN_E_SHAPE, "layer_norm cell: x must end in 1 axes, the last of size 4");
    kiln_cell_free(&cell);
    cell = kiln_nn_rms_norm(dev, 4, KILN_NN_NORM(.gamma_init = "3"));
    double q0 = 3 / sqrt(7.5 + 1e-5), q1 = 3 / sqrt(12 + 1e-5);
    EXPECT(kiln_cell_call(cell, x), 1e-5, q0, 2 * q0, 3 * q0, 4 * q0, 2 * q1, 2 * q1, 2 * q1, 6 * q1);
    kiln_cell_free(&cell);
}

static void dropout_only_in_training(void **state)
{
    kiln_cell *cell = kiln_nn_dropout(0.25);
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(100, 100)), *y = kiln_cell_call(cell, x);
    assert_true(kiln_item(kiln_min(y, NULL)) == 1);
    kiln_cell_set_training(cell, true);
    y = kiln_cell_call(cell, x);
    double kept = kiln_item(kiln_mean(kiln_cast(kiln_greater(y, kiln_scalar(0)), KILN_F32), NULL));
    assert_true(fabs(kept - 0.75) < 0.03);
    assert_true(fabs(kiln_item(kiln_max(y, NULL)) - 1 / 0.75) < 1e-6);
    kiln_cell_free(&cell);
    assert_null(kiln_nn_dropout(1));
    expect_error(KILN_E_ARGUMENT, "p must be in [0, 1), got 1");
}

static void activations_and_shapes(void **state)
{
    struct {
        kiln_cell *cell;
        double at[3]; // of -1, 0.5, 2
    } rows[] = {
        {kiln_nn_relu(), {0, 0.5, 2}},
        {kiln_nn_sigmoid(), {1 / (1 + exp(1)), 1 / (1 + exp(-0.5)), 1 / (1 + exp(-2))}},
        {kiln_nn_tanh(), {tanh(-1), tanh(0.5), tanh(2)}},
        {kiln_nn_silu(), {-1 / (1 + exp(1)), 0.5 / (1 + exp(-0.5)), 2 / (1 + exp(-2))}},
        {kiln_nn_gelu(), {-0.5 * erfc(1 / sqrt(2)), 0.25 * erfc(-0.5 / sqrt(2)), erfc(-2 / sqrt(2))}},
        {kiln_nn_leaky_relu(0.1), {-0.1, 0.5, 2}},
        {kiln_nn_unary("softsign"), {-0.5, 1.0 / 3, 2.0 / 3}},
        {kiln_nn_softmax(-1),
         {exp(-1) / (exp(-1) + exp(0.5) + exp(2)), exp(0.5) / (exp(-1) + exp(0.5) + exp(2)),
          exp(2) / (exp(-1) + exp(0.5) + exp(2))}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect(kiln_cell_call(rows[i].cell, FROM(V(-1, 0.5, 2), 1, 3)), rows[i].at, 3, 2e-6);
        kiln_cell_free(&rows[i].cell);
    }
    kiln_cell *cell = kiln_nn_unary("no such op");
    assert_null(kiln_cell_call(cell, FROM(V(1), 1)));
    assert_true(strstr(kiln_error_message(), "no such op") != NULL);
    kiln_error_clear();
    kiln_cell_free(&cell);
    kiln_tensor *x = FROM(V(1, 2, 3, 4, 5, 6, 7, 8), 1, 2, 2, 2);
    cell = kiln_nn_sequential(KILN_CELLS(kiln_nn_max_pool2d(KILN_POOL2D(.kernel = {2, 2})), kiln_nn_flatten()));
    EXPECT(kiln_cell_call(cell, x), 0, 4, 8);
    kiln_cell_free(&cell);
    cell = kiln_nn_avg_pool2d(KILN_POOL2D(.kernel = {2, 2}));
    EXPECT(kiln_cell_call(cell, x), 1e-6, 2.5, 6.5);
    kiln_cell_free(&cell);
    cell = kiln_nn_flatten();
    expect_shape(kiln_cell_call(cell, x), KILN_SHAPE(1, 8));
    kiln_cell_free(&cell);
}

// --- initialisers

static void check_spread(const char *init, double want, double largest)
{
    kiln_tensor *t = kiln_initializer(dev, KILN_F32, KILN_SHAPE(40, 20, 5, 5), init);
    if (!t) fail_msg("%s: %s", init, kiln_error_message());
    double mean = kiln_item(kiln_mean(t, NULL)), std = kiln_item(kiln_std(t, NULL)),
           max = kiln_item(kiln_max(kiln_abs(t), NULL));
    if (fabs(mean) > 0.03 * want || fabs(std / want - 1) > 0.02 || max > largest)
        fail_msg("%s: mean %g, deviation %g (expected %g), largest %g", init, mean, std, want, max);
}

static void initialisers_draw(void **state)
{
    double in = 500, out = 1000;
    check_spread("normal", 0.01, 0.07);
    check_spread("normal(2)", 2, 14);
    check_spread("uniform", 0.07 / sqrt(3), 0.07);
    check_spread("uniform(0.3)", 0.3 / sqrt(3), 0.3);
    check_spread("truncated_normal", 0.01 * 0.87962566, 0.0200001);
    check_spread("he_normal", sqrt(2 / in), 1);
    check_spread("he_uniform", sqrt(2 / in), sqrt(6 / in));
    check_spread("xavier_normal", sqrt(2 / (in + out)), 1);
    check_spread("xavier_uniform", sqrt(2 / (in + out)), sqrt(6 / (in + out)));
    EXPECT(kiln_initializer(dev, KILN_F32, KILN_SHAPE(2), "-0.5"), 0, -0.5, -0.5);
    EXPECT(kiln_initializer(dev, KILN_F64, KILN_SHAPE(1), "ones"), 0, 1);
    static const char *const bad[] = {"",    "normal(", "normal()",  "normal(-1)", "he_normal(-2)",
                                      "one", "1x",      "normal(1)x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(kiln_initializer(dev, KILN_F32, KILN_SHAPE(1), bad[i]));
        expect_error(KILN_E_ARGUMENT, "\"he_uniform\", \"he_normal\"");
    }
    assert_null(kiln_initializer(dev, KILN_I32, KILN_SHAPE(1), "ones"));
    expect_error(KILN_E_DTYPE, "must be a float, got i32");
    assert_null(kiln_initializer(dev, KILN_F32, KILN_SHAPE(1), NULL));
    expect_error(KILN_E_ARGUMENT, "init is NULL");
}

// --- losses

static double bce(double x, double t)
{
    return -(t * log(x) + (1 - t) * log(1 - x));
}

static void losses_of_elements(void **state)
{
    kiln_tensor *x = FROM(V(0.5, -1, 3), 3, 1), *t = FROM(V(1, 1, 1), 3, 1);
    EXPECT(kiln_loss_mse(x, t, KILN_REDUCTION_NONE), 1e-6, 0.25, 4, 4);
    EXPECT(kiln_loss_mse(x, t, KILN_REDUCTION_MEAN), 1e-6, 8.25 / 3);
    EXPECT(kiln_loss_mse(x, t, KILN_REDUCTION_SUM), 1e-6, 8.25);
    EXPECT(kiln_loss_mse(x, kiln_scalar(1), KILN_REDUCTION_SUM), 1e-6, 8.25);
    EXPECT(kiln_loss_l1(x, t, KILN_REDUCTION_NONE), 1e-6, 0.5, 2, 2);
    EXPECT(kiln_loss_smooth_l1(x, t, 2, KILN_REDUCTION_NONE), 1e-6, 0.0625, 1, 1);
    EXPECT(kiln_loss_huber(x, t, 1.5, KILN_REDUCTION_NONE), 1e-6, 0.125, 1.5 * 1.25, 1.5 * 1.25);
    kiln_tensor *p = FROM(V(0.2, 0.9, 0.5), 3, 1), *q = FROM(V(0, 1, 0.25), 3, 1);
    EXPECT(kiln_loss_bce(p, q, KILN_REDUCTION_NONE), 1e-5, bce(0.2, 0), bce(0.9, 1), bce(0.5, 0.25));
    double s[3] = {1 / (1 + exp(-0.5)), 1 / (1 + exp(1)), 1 / (1 + exp(-3))};
    EXPECT(kiln_loss_bce_with_logits(x, q, KILN_REDUCTION_NONE), 1e-5, bce(s[0], 0), bce(s[1], 1), bce(s[2], 0.25));
    kiln_tensor *edge = kiln_parameter(FROM(V(0, 1, 0, 1), 4), "p"), *want = FROM(V(0, 1, 1, 0), 4);
    kiln_tensor *loss = kiln_loss_bce(edge, want, KILN_REDUCTION_NONE);
    kiln_backward(kiln_sum(loss, NULL), NULL);
    assert_true(
        kiln_item(kiln_all(kiln_isfinite(kiln_stack((kiln_tensor *[]){loss, kiln_gradient(edge)}, 2, 0)), NULL)));
    assert_null(kiln_loss_mse(x, NULL, KILN_REDUCTION_MEAN));
    expect_error(KILN_E_ARGUMENT, "loss_mse: the target is NULL");
    assert_null(kiln_loss_mse(x, FROM(V(1, 2, 3), 3), KILN_REDUCTION_MEAN)); // [3, 1] against [3]: a usual slip
    expect_error(KILN_E_SHAPE, "loss_mse: the target does not broadcast to x: it is f32[3], x is f32[3,1]");
    assert_null(kiln_loss_l1(x, t, (kiln_reduction)9));
    expect_error(KILN_E_ARGUMENT, "unknown reduction 9");
    assert_null(kiln_loss_huber(x, t, 0, KILN_REDUCTION_MEAN));
    expect_error(KILN_E_ARGUMENT, "delta must be positive, got 0");
}

static void losses_of_classes(void **state)
{
    double l[6] = {log(0.2), log(0.3), log(0.5), log(0.6), log(0.3), log(0.1)};
    kiln_tensor *x = kiln_parameter(from(l, KILN_SHAPE(2, 3)), "x");
    kiln_tensor *labels = kiln_from_data(dev, KILN_I64, KILN_SHAPE(2), (int64_t[]){2, 0});
    EXPECT(kiln_loss_nll(x, labels, KILN_REDUCTION_NONE), 1e-5, -l[2], -l[3]);
    kiln_tensor *loss = kiln_loss_nll(x, labels, KILN_REDUCTION_MEAN);
    EXPECT(loss, 1e-5, -(l[2] + l[3]) / 2);
    kiln_backward(loss, NULL);
    EXPECT(kiln_gradient(x), 1e-6, 0, 0, -0.5, -0.5, 0, 0);
    EXPECT(kiln_cross_entropy(x, labels, NULL), 1e-5, -(l[2] + l[3]) / 2); // the rows are normalised already
    kiln_tensor *t = FROM(V(0, 0.5, 0.5, 0.25, 0.25, 0.5), 2, 3);
    double kl = 0.5 * log(0.5 / 0.3) + 0.5 * log(1) + 0.25 * log(0.25 / 0.6) + 0.25 * log(0.25 / 0.3) + 0.5 * log(5);
    EXPECT(kiln_loss_kl_div(x, t, KILN_REDUCTION_BATCH_MEAN), 1e-5, kl / 2);
    assert_null(kiln_loss_nll(x, t, KILN_REDUCTION_MEAN));
    expect_error(KILN_E_SHAPE, "labels [N, ...], got ranks 2 and 2");
    if (!on_cpu) return;
    kiln_tensor *below = kiln_from_data(dev, KILN_I64, KILN_SHAPE(2), (int64_t[]){2, -1});
    assert_null(kiln_loss_nll(x, below, KILN_REDUCTION_MEAN));
    expect_error(KILN_E_ARGUMENT, "out of range");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(names_are_paths),
        TEST(shared_parameters_count_once),
        TEST(adding_checks),
        TEST(modes_reach_descendants),
        TEST(moving_keeps_values),
        TEST(printing_shows_the_tree),
        TEST(custom_cells),
        TEST(cells_without_construct_hold_others),
        TEST(failing_constructs_are_named),
        TEST(hooks_run_and_go),
        TEST(dense_and_embedding),
        TEST(convolutions_pad),
        TEST(capability_65_layers),
        TEST(batch_norm_keeps_statistics),
        TEST(row_norms),
        TEST(dropout_only_in_training),
        TEST(activations_and_shapes),
        TEST(initialisers_draw),
        TEST(losses_of_elements),
        TEST(losses_of_classes),
    };
    static const char *const devices[] = {"cpu", "vulkan"};
    int failures = 0;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        kiln_error_clear(); // of a test that failed
        dev = kiln_device_open(devices[i]);
        if (!dev) {
            printf("# no device \"%s\": %s\n", devices[i], kiln_error_message());
            if (i == 0) failures++;
            kiln_error_clear();
            continue;
        }
        on_cpu = i == 0;
        kiln_set_device(dev);
        char group[64];
        snprintf(group, sizeof group, "nn on %s", devices[i]);
        failures += _cmocka_run_group_tests(group, tests, sizeof tests / sizeof *tests, NULL, NULL);
        kiln_device_close(&dev);
    }
    return failures != 0;
}
