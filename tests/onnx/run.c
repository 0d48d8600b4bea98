// An imported function as users call it: with other sizes, in other modes, from several threads.
//
// usage: test_onnx_run [DEVICE]
#include "build.h"
#include "onnx/onnx.h"
#include <kiln/kiln.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static kiln_device *dev;

static struct onnx_model *load(struct message *m)
{
    char path[] = "/tmp/kiln-onnx-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, m->bytes, m->n) == (ssize_t)m->n && !close(fd));
    free_message(m);
    struct onnx_model *loaded = onnx_load("graph_import", dev, path);
    if (!loaded) print_error("%s\n", kiln_error_message());
    assert_non_null(loaded);
    unlink(path);
    return loaded;
}

// y = Reshape(Relu(x), [dim 1 of x, -1]) times the number of its elements: shapes and what is made of them.
static struct onnx_model *of_shapes(void)
{
    static const int64_t one = 1, minus[1] = {-1};
    struct message g = {0};
    put_text(&g, 2, "main");
    add_input(&g, port("x", 1, "a b"));
    add_constant(&g, tensor("one", 7, "1", &one, 8));
    add_constant(&g, tensor("minus", 7, "1", minus, 8));
    add_node(&g, node("Relu", "x", "r"));
    add_node(&g, node("Shape", "x", "shape"));
    add_node(&g, node("Gather", "shape one", "columns"));
    struct message concat = node("Concat", "columns minus", "target"), axis = int_attr("axis", 0),
                   to = int_attr("to", 1);
    put_message(&concat, 5, &axis);
    add_node(&g, concat);
    add_node(&g, node("Reshape", "r target", "turned"));
    add_node(&g, node("Size", "turned", "count"));
    struct message cast = node("Cast", "count", "times");
    put_message(&cast, 5, &to);
    add_node(&g, cast);
    add_node(&g, node("Mul", "turned times", "y"));
    add_output(&g, "y");
    struct message m = model(18, &g);
    return load(&m);
}

static void check(kiln_tensor *y, int64_t rows, int64_t columns)
{
    float *v = malloc((size_t)(rows * columns) * sizeof *v);
    assert_non_null(y);
    assert_true(kiln_rank(y) == 2 && kiln_dims(y)[0] == columns && kiln_dims(y)[1] == rows);
    assert_int_equal(kiln_read(y, v, (size_t)(rows * columns) * sizeof *v), KILN_OK);
    for (int64_t i = 0; i < rows * columns; i++) assert_true(v[i] == (float)(i * rows * columns));
    free(v);
}

static void call(kiln_function *f, int64_t rows, int64_t columns)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *line = kiln_arange(dev, KILN_F32, 0, (double)(rows * columns), 1), *y = NULL;
    kiln_tensor *x = kiln_reshape(line, KILN_SHAPE(rows, columns));
    if (kiln_call(f, &x, 1, &y, 1)) print_error("%s\n", kiln_error_message());
    check(y, rows, columns);
    kiln_scope_end(&scope);
}

static void test_sizes(void **state)
{
    struct onnx_model *m = of_shapes();
    for (int way = KILN_CAPTURE_STRICT; way <= KILN_CAPTURE_TRACE; way++) {
        kiln_function *f = kiln_jit(onnx_run, m, KILN_JIT(.capture = (kiln_capture)way));
        for (int64_t i = 0; i < 6; i++) call(f, 2 + i % 3, 3 + i % 3);
        kiln_jit_stats stats = {.size = sizeof stats};
        kiln_function_stats(f, &stats);
        // Three sizes; what is computed of shapes is no node.
        if (way == KILN_CAPTURE_STRICT) assert_true(stats.captures == 3 && stats.nodes <= 4 && !stats.fallbacks);
        kiln_function_free(&f);
    }
    onnx_free(&m);
}

struct work {
    struct onnx_model *m;
    kiln_function *f;
    int number;
    char why[300]; // "": all went well
};

static void *call_often(void *user)
{
    struct work *w = user;
    bool good = !kiln_set_device(dev);
    for (int i = 0; i < 10 && good; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = kiln_full(dev, KILN_F32, KILN_SHAPE(2 + w->number, 3), 1), *y[2] = {NULL};
        float v[2] = {0};
        good = !kiln_call(w->f, &x, 1, &y[0], 1) && !onnx_run(w->m, &x, 1, &y[1], 1);
        for (int k = 0; k < 2 && good; k++) {
            v[k] = (float)kiln_item(kiln_max(y[k], NULL));
            good = !kiln_error() && v[k] == (float)(3 * (2 + w->number));
        }
        kiln_scope_end(&scope);
    }
    if (!good) snprintf(w->why, sizeof w->why, "%s", kiln_error() ? kiln_error_message() : "a wrong value");
    return NULL;
}

static void test_threads(void **state)
{
    struct onnx_model *m = of_shapes();
    kiln_function *f = kiln_jit(onnx_run, m, NULL);
    pthread_t threads[4];
    struct work work[4];
    for (int i = 0; i < 4; i++) {
        work[i] = (struct work){.m = m, .f = f, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &work[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_string_equal(work[i].why, "");
    }
    kiln_function_free(&f);
    onnx_free(&m);
}

// A shape that is a value of an input: eagerly, and as a constant of a capture; else an error that names the node.
static kiln_status of_constant(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    static const int64_t shape[2] = {3, 2};
    kiln_tensor *all[] = {in[0], kiln_constant(kiln_from_data(dev, KILN_I64, 1, (int64_t[]){2}, shape))};
    return onnx_run(user, all, 2, out, n_out);
}

static void test_values(void **state)
{
    static const int64_t two = 2, shape[2] = {3, 2};
    struct message g = {0};
    put_text(&g, 2, "main");
    add_input(&g, port("x", 1, "6"));
    add_input(&g, port("shape", 7, "2"));
    add_node(&g, named_node("turn", "", "Reshape", "x shape", "y"));
    add_output(&g, "y");
    struct message file = model(13, &g);
    struct onnx_model *m = load(&file);
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *in[] = {kiln_ones(dev, KILN_F32, KILN_SHAPE(6)), kiln_from_data(dev, KILN_I64, 1, &two, shape)}, *y;
    assert_int_equal(onnx_run(m, in, 2, &y, 1), KILN_OK);
    assert_int_equal(kiln_dims(y)[0], 3);
    kiln_function *f = kiln_jit(onnx_run, m, NULL), *bound = kiln_jit(of_constant, m, NULL);
    assert_int_equal(kiln_call(f, in, 2, &y, 1), KILN_E_STATE);
    assert_non_null(strstr(kiln_error_message(), "in node 0 \"turn\" (Reshape) of graph \"main\""));
    kiln_error_clear();
    assert_int_equal(kiln_call(bound, in, 1, &y, 1), KILN_OK);
    assert_int_equal(kiln_dims(y)[1], 2);
    kiln_function_free(&f);
    kiln_function_free(&bound);
    kiln_scope_end(&scope);
    onnx_free(&m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_values)};
    dev = kiln_device_open(argc > 1 ? argv[1] : "cpu");
    if (!dev || kiln_set_device(dev)) return 77;
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_device_close(&dev);
    return failures;
}
