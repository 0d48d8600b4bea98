// Typical mistakes, and what the user is told: warnings, each once, and messages that say where and what.
#include <kiln/kiln.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static kiln_device *dev;
static kiln_scope *scope;
static char heard[4096]; // by the log

static void listen(void *user, const char *message)
{
    size_t len = strlen(heard);
    snprintf(heard + len, sizeof heard - len, "%s\n", message);
}

static int begin(void **state)
{
    heard[0] = 0;
    kiln_set_log(listen, NULL);
    scope = kiln_scope_begin();
    return 0;
}

static int end(void **state)
{
    kiln_error_clear();
    kiln_scope_end(&scope);
    kiln_set_log(NULL, NULL);
    return 0;
}

static void says(kiln_status code, const char *first, const char *second)
{
    const char *text = kiln_error_message();
    if (kiln_error() != code || !strstr(text, first) || !strstr(text, second))
        fail_msg("%s \"%s\" and \"%s\" expected, got %s \"%s\"", kiln_status_name(code), first, second,
                 kiln_status_name(kiln_error()), text);
    kiln_error_clear();
}

static int times_heard(const char *text)
{
    int n = 0;
    for (const char *at = heard; (at = strstr(at, text)); at++) n++;
    return n;
}

static kiln_cell *network(bool dropout)
{
    return kiln_nn_sequential(
        KILN_CELLS(kiln_nn_dense(dev, 3, 4, NULL), dropout ? kiln_nn_dropout(.5) : kiln_nn_batch_norm2d(dev, 4, NULL)));
}

static void backward_through(kiln_cell *net, int times)
{
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3));
    for (int i = 0; i < times; i++) assert_int_equal(kiln_backward(kiln_sum(kiln_cell_call(net, x), NULL), NULL), 0);
}

static void training_mode_forgotten(void **state)
{
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3));
    for (int dropout = 0; dropout < 2; dropout++) {
        const char *kind = dropout ? "cell dropout in inference mode" : "cell batch_norm2d in inference mode";
        kiln_cell *net = network(dropout);
        kiln_cell_call(net, x); // a forward alone
        assert_int_equal(times_heard("inference mode"), dropout);
        backward_through(net, 3);
        assert_int_equal(times_heard(kind), 1);
        kiln_cell_free(&net);
    }
    // A mode that was chosen, either one, also on a part.
    heard[0] = 0;
    kiln_set_log(listen, NULL);
    for (int training = 0; training < 2; training++) {
        kiln_cell *net = network(false);
        kiln_cell_set_training(training ? net : kiln_cell_child(net, "1"), training);
        backward_through(net, 1);
        kiln_cell_free(&net);
    }
    // What does not depend on it, and a graph that runs as one node.
    kiln_cell *plain = kiln_nn_dense(dev, 3, 4, NULL), *graph = network(true);
    backward_through(plain, 1);
    assert_string_equal(heard, "");
    kiln_cell_jit(graph, NULL);
    kiln_cell_call(graph, x);
    assert_int_equal(times_heard("inference mode"), 0);
    backward_through(graph, 2);
    assert_int_equal(times_heard("inference mode"), 1);
    kiln_cell_free(&plain);
    kiln_cell_free(&graph);
}

static void a_step_without_gradients(void **state)
{
    kiln_tensor *p = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(2)), "p");
    kiln_optim *opt = kiln_optim_sgd(&p, 1, NULL);
    for (int i = 0; i < 3; i++) assert_int_equal(kiln_optim_step(opt), KILN_OK);
    assert_int_equal(times_heard("optim_step: none of the 1 parameters has a gradient"), 1);
    heard[0] = 0;
    kiln_set_log(listen, NULL);
    kiln_backward(kiln_sum(kiln_square(p), NULL), NULL);
    assert_int_equal(kiln_optim_step(opt), KILN_OK);
    assert_string_equal(heard, "");
    kiln_optim_free(&opt);
}

static void an_optimiser_of_no_parameter(void **state)
{
    kiln_tensor *t[] = {kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(2)), "p"),
                        kiln_ones(dev, KILN_F32, KILN_SHAPE(2))};
    assert_null(kiln_optim_adam(t, 2, NULL));
    says(KILN_E_ARGUMENT, "optim_adam: parameter 1", "kiln_parameter");
    kiln_set_requires_grad(t[0], false); // frozen
    kiln_optim *opt = kiln_optim_adam(t, 1, NULL);
    assert_non_null(opt);
    kiln_optim_free(&opt);
}

static void wrong_sizes_between_layers(void **state)
{
    kiln_cell *block = kiln_nn_sequential(KILN_CELLS(kiln_nn_relu(), kiln_nn_dense(dev, 5, 2, NULL)));
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, 3, 4, NULL), block));
    assert_null(kiln_cell_call(net, kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3))));
    const char *text = kiln_error_message();
    assert_non_null(strstr(text, "(mistakes.c:"));                                  // ends with the caller's line
    assert_ptr_equal(strstr(text, "sequential.1.1 (dense 5 → 2): matmul: "), text); // and begins with the cell
    says(KILN_E_SHAPE, "matmul: inner dimensions differ: a is f32[2,4], b is f32[5,2]",
         "sequential.1.1 (dense 5 → 2): ");
    assert_null(kiln_cell_call(kiln_cell_child(net, "1.1"), kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3))));
    says(KILN_E_SHAPE, "f32[2,3]", "sequential.1.1 (dense 5 → 2): matmul: ");
    kiln_cell_free(&net);
}

static void an_image_with_channels_last(void **state)
{
    kiln_tensor *image = kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 28, 28, 3)),
                *w = kiln_ones(dev, KILN_F32, KILN_SHAPE(8, 3, 3, 3));
    assert_null(kiln_conv2d(image, w, NULL));
    says(KILN_E_SHAPE, "conv2d: x is f32[1,28,28,3] and w is f32[8,3,3,3]", "NCHW");
}

static kiln_tensor *kept;

static kiln_status keep_inside(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_exp(in[0]);
    kept = kiln_neg(out[0]);
    if (user) kiln_own(kept);
    return kiln_error();
}

static void a_value_of_a_capture_used_outside(void **state)
{
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(2)), *out;
    kiln_function *f = kiln_jit(keep_inside, NULL, NULL);
    assert_int_equal(kiln_call(f, &x, 1, &out, 1), KILN_OK);
    assert_null(kiln_add(kept, kept));
    says(KILN_E_HANDLE, "add: a is a handle that was freed", "made in a capture");
    kiln_function_free(&f);
    // Kept for good.
    bool own = true;
    f = kiln_jit(keep_inside, &own, NULL);
    assert_int_equal(kiln_call(f, &x, 1, &out, 1), KILN_OK);
    assert_null(kiln_add(x, kept));
    says(KILN_E_STATE, "add: b was made in a capture that has ended", "return it");
    assert_null(kiln_sum(kept, NULL));
    says(KILN_E_STATE, "sum: x was made in a capture that has ended", "return it");
    float v[2];
    assert_int_equal(kiln_read(kept, v, sizeof v), KILN_E_STATE);
    says(KILN_E_STATE, "read: ", "capture has ended");
    assert_int_equal(kiln_add_(x, kept), KILN_E_STATE);
    says(KILN_E_STATE, "add: b was made in a capture that has ended", "return it");
    kiln_free(&kept);
    kiln_function_free(&f);
}

// One member "archive/data.pkl" without bytes, as the zip format has it.
static void a_zip_that_is_no_npz(void **state)
{
    static const unsigned char zip[] =
        "PK\3\4\24\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\20\0\0\0archive/data.pkl"
        "PK\1\2\24\0\24\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
        "archive/data.pkl"
        "PK\5\6\0\0\0\0\1\0\1\0\76\0\0\0\56\0\0\0\0\0";
    char path[] = "/tmp/kiln-zip-XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, zip, sizeof zip - 1), sizeof zip - 1);
    close(fd);
    kiln_archive *a = kiln_npz_load(path);
    assert_int_equal(unlink(path), 0);
    assert_null(a);
    says(KILN_E_FORMAT, "without arrays", "archive/data.pkl");
}

static void a_backward_of_many_numbers(void **state)
{
    kiln_tensor *w = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(3)), "w");
    char want[160];
    snprintf(
        want, sizeof want,
        "backward: out is f32[3] and sens is NULL: the gradients are those of the sum of its elements (mistakes.c:%d)",
        __LINE__ + 1);
    kiln_backward(kiln_square(w), NULL);
    assert_int_equal(times_heard(want), 1);
    heard[0] = 0;
    kiln_backward(kiln_square(w), kiln_ones(dev, KILN_F32, KILN_SHAPE(3)));
    kiln_backward(kiln_sum(w, NULL), NULL);
    kiln_backward(kiln_reshape(kiln_sum(w, NULL), KILN_SHAPE(1, 1)), NULL);
    assert_string_equal(heard, "");
    assert_int_equal(kiln_error(), KILN_OK);
    kiln_free(&w);
}

static void bytes_of_an_array(void **state)
{
    const int64_t labels[] = {3, 1, 4};
    kiln_tensor *t = kiln_from_bytes(dev, KILN_I64, KILN_SHAPE(3), KILN_BYTES(labels));
    int64_t back[3] = {0};
    assert_int_equal(kiln_read(t, back, sizeof back), KILN_OK);
    assert_memory_equal(back, labels, sizeof back);
    assert_non_null(kiln_from_bytes(dev, KILN_C128, KILN_SHAPE(1, 1), KILN_BYTES(((double[]){1, 2}))));
    assert_non_null(kiln_from_bytes(dev, KILN_U4, KILN_SHAPE(4), KILN_BYTES(((uint8_t[]){0x10, 0x32}))));
    assert_non_null(kiln_from_bytes(dev, KILN_F32, KILN_SHAPE(0, 3), NULL, 0));
    assert_int_equal(kiln_error(), KILN_OK);
}

static void an_error_that_nobody_read(void **state)
{
    kiln_device *other = kiln_device_open("null"), *second = kiln_device_open("null");
    kiln_matmul(NULL, NULL);
    kiln_device_close(&other);
    assert_int_equal(times_heard("device_close: an error is pending that nobody has read: matmul: a is NULL"), 1);
    kiln_error_clear();
    heard[0] = 0;
    kiln_set_log(listen, NULL);
    kiln_matmul(NULL, NULL);
    assert_non_null(strstr(kiln_error_message(), "matmul"));
    kiln_device_close(&second);
    assert_string_equal(heard, "");
}

// In a process of its own: the environment is read once.
static void expect_of_process(const char *environment, const char *want)
{
    char path[1024], command[2048], said[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(len > 0);
    path[len] = 0;
    snprintf(command, sizeof command, "%s KILN_CACHE_DIR=/dev/null/none '%s' capture 2>&1", environment, path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    said[fread(said, 1, sizeof said - 1, f)] = 0;
    assert_int_equal(pclose(f), 0);
    const char *at = strstr(said, want);
    if (*want ? !at || strstr(at + 1, want) : *said != 0) fail_msg("\"%s\" once expected in \"%s\"", want, said);
}

static void words_that_mean_nothing(void **state)
{
    expect_of_process("KILN_DEBUG=verify,verfy,skip=cse", "KILN_DEBUG: there is no \"verfy\"; known are breaks");
    expect_of_process("KILN_DEBUG=guard", "KILN_DEBUG: there is no \"guard\"; known are");
    expect_of_process("KILN_DEBUG=verify,skip=cse", "");
    // Where the library compiles no kernels for the CPU, it looks for no module.
    if (KILN_WITH_LLVM)
        expect_of_process("KILN_LLVM=/nonexistent/module.so",
                          "KILN_LLVM: /nonexistent/module.so: No such file or directory");
}

static kiln_status several_ops(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *x = in[0];
    for (int i = 0; i < 12; i++) x = kiln_tanh(kiln_add(x, in[0]));
    out[0] = x;
    return kiln_error();
}

static int run_a_capture(void)
{
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(64)), *out;
    kiln_function *f = kiln_jit(several_ops, NULL, NULL);
    kiln_status status = kiln_call(f, &x, 1, &out, 1);
    kiln_function_free(&f);
    kiln_free(&out);
    kiln_free(&x);
    return status != KILN_OK;
}

int main(int argc, char **argv)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(training_mode_forgotten),    CASE(a_step_without_gradients),    CASE(an_optimiser_of_no_parameter),
        CASE(wrong_sizes_between_layers), CASE(an_image_with_channels_last), CASE(a_value_of_a_capture_used_outside),
        CASE(a_backward_of_many_numbers), CASE(bytes_of_an_array),           CASE(a_zip_that_is_no_npz),
        CASE(an_error_that_nobody_read),  CASE(words_that_mean_nothing),
    };
    (void)argv;
    dev = kiln_device_open("cpu");
    int failed = argc > 1 ? run_a_capture() : cmocka_run_group_tests(tests, NULL, NULL);
    kiln_device_close(&dev);
    return failed;
}
