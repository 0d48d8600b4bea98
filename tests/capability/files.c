// Rows 63 and 67: graphs as files, and what of the fallbacks to the host cannot go there; D13.
#include "capability.h"
#include <unistd.h>

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

static const char *file(void)
{
    static char path[64];
    snprintf(path, sizeof path, "capability_%d.kiln", (int)getpid());
    return path;
}

FN(triple)
{
    out[0] = kiln_mul(in[0], kiln_scalar(3));
    return kiln_error();
}

static int lines[2];

FN(falls_back_twice)
{
    const kiln_host_spec spec = {KILN_F32, 1, (const int64_t[]){3}};
    kiln_tensor *x = kiln_exp(in[0]), *y = NULL;
    lines[0] = __LINE__ + 1;
    kiln_status status = kiln_host_call(triple, NULL, &x, 1, &spec, &y, 1, KILN_HOST_PURE, NULL);
    lines[1] = __LINE__ + 1;
    if (!status) status = kiln_host_call(triple, NULL, &y, 1, &spec, out, 1, KILN_HOST_IO, NULL);
    return status;
}

// 63: a graph with nodes of the host is no file: all of them are listed, each with its line, and nothing is written.
static void nodes_of_the_host(kiln_device *dev)
{
    kiln_tensor *x = from(dev, NUMBERS(1, 2, 3), KILN_SHAPE(3)), *y = NULL;
    kiln_function *f = kiln_jit(falls_back_twice, NULL, NULL);
    must(kiln_call(f, &x, 1, &y, 1)); // it runs as a graph
    EXPECT(y, 1e-6, 9 * exp(1), 9 * exp(2), 9 * exp(3));
    assert_int_equal(kiln_graph_export(f, &x, 1, 1, file(), NULL), KILN_E_UNSUPPORTED);
    char first[32], second[32];
    snprintf(first, sizeof first, "host_call at files.c:%d", lines[0]);
    snprintf(second, sizeof second, "host_call at files.c:%d", lines[1]);
    EXPECT_ERROR(KILN_E_UNSUPPORTED, "graph_export", first, second, "a function of this process");
    assert_int_not_equal(access(file(), F_OK), 0);
    kiln_function_free(&f);
}

// 67, D13: a convolution of ones, 3 x 3 and padded to the same size, of ones, is loaded and gives what it gave.
FN(convolve)
{
    out[0] = kiln_cell_call(user, in[0]);
    return kiln_error();
}

static void a_model_is_loaded(kiln_device *dev)
{
    kiln_cell *conv = kiln_nn_conv2d(dev, 1, 1, 3, KILN_NN_CONV2D(.weight_init = "ones", .pad_mode = "same"));
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 1, 3, 3)), *y = NULL;
    const char *names[2];
    kiln_tensor *tensors[2];
    size_t n = kiln_cell_state(conv, names, tensors, 2);
    kiln_function *f = kiln_jit(convolve, conv, NULL);
    kiln_model *m = kiln_model_create();
    must(kiln_model_name_weights(m, n, names, tensors));
    must(kiln_model_add(m, "net", f, &x, 1, 1, NULL));
    must(kiln_model_save(m, file()));
    kiln_model_free(&m);
    kiln_function_free(&f);
    kiln_cell_free(&conv);
    m = kiln_graph_import(dev, file());
    if (!m) fail_msg("%s", kiln_error_message());
    kiln_function *g = kiln_model_function(m, "net");
    must(kiln_call(g, &x, 1, &y, 1));
    EXPECT(y, 0, 4, 6, 4, 6, 9, 6, 4, 6, 4);
    assert_int_equal(kiln_model_weights(m, names, tensors, 2), 1);
    assert_string_equal(names[0], "weight");
    assert_true(kiln_requires_grad(tensors[0]));
    must(kiln_backward(kiln_sum(y, NULL), NULL)); // it takes part on the tape
    EXPECT(kiln_gradient(tensors[0]), 0, 4, 6, 4, 6, 9, 6, 4, 6, 4);
    must(kiln_set_gradient(tensors[0], NULL));
    kiln_function_free(&g);
    kiln_model_free(&m);
    unlink(file());
}

// 67, D13: the same by ONNX, which stands for the files of MindIR.
static void a_model_of_others_is_loaded(kiln_device *dev)
{
    char path[64];
    snprintf(path, sizeof path, "capability_%d.onnx", (int)getpid());
    kiln_cell *conv = kiln_nn_conv2d(dev, 1, 1, 3, KILN_NN_CONV2D(.weight_init = "ones", .pad_mode = "same"));
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 1, 3, 3)), *y = NULL;
    kiln_function *f = kiln_jit(convolve, conv, NULL);
    must(kiln_graph_export(f, &x, 1, 1, path, NULL));
    kiln_function_free(&f);
    kiln_cell_free(&conv);
    kiln_model *m = kiln_graph_import(dev, path);
    if (!m) fail_msg("%s", kiln_error_message());
    f = kiln_model_function(m, "main");
    must(kiln_call(f, &x, 1, &y, 1));
    EXPECT(y, 0, 4, 6, 4, 6, 9, 6, 4, 6, 4);
    kiln_function_free(&f);
    kiln_model_free(&m);
    unlink(path);
}

// Graphs that break are none: functions of AUTO have no file.
static void functions_of_auto(kiln_device *dev)
{
    kiln_tensor *x = from(dev, NUMBERS(1, 2, 3), KILN_SHAPE(3));
    kiln_function *f = automatic(triple, NULL);
    assert_int_equal(kiln_graph_export(f, &x, 1, 1, file(), NULL), KILN_E_UNSUPPORTED);
    EXPECT_ERROR(KILN_E_UNSUPPORTED, "is captured by AUTO, in pieces", "KILN_CAPTURE_STRICT");
    kiln_function_free(&f);
}

void capability_63(void **state)
{
    on_each_device(nodes_of_the_host);
}

void capability_67(void **state)
{
    on_each_device(a_model_is_loaded);
    on_each_device(a_model_of_others_is_loaded);
    on_each_device(functions_of_auto);
}
