// Files that lie, and models that are wrong: each is refused with an error that names the place, and nothing is left.
#include "build.h"
#include "onnx/onnx.h"
#include <kiln/kiln.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/kiln-onnx-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *data, size_t size_B)
{
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size_B, f), size_B);
    assert_int_equal(fclose(f), 0);
}

static struct onnx_model *load(struct message *m)
{
    write_file("model.onnx", m->bytes, m->n);
    free_message(m);
    return onnx_load("graph_import", NULL, path_of("model.onnx"));
}

static void refused(struct message *m, kiln_status status, const char *text)
{
    struct onnx_model *loaded = load(m);
    if (loaded || kiln_error() != status || !strstr(kiln_error_message(), text))
        print_error("expected: %s\ngot: %s\n", text, kiln_error_message());
    assert_null(loaded);
    assert_int_equal(kiln_error(), status);
    assert_non_null(strstr(kiln_error_message(), text));
    assert_non_null(strstr(kiln_error_message(), "model.onnx"));
    kiln_error_clear();
}

// y = Relu(x), to be changed.
static struct message small_graph(void)
{
    struct message g = {0};
    put_text(&g, 2, "main");
    add_input(&g, port("x", 1, "2 batch"));
    add_node(&g, node("Relu", "x", "y"));
    add_output(&g, "y");
    return g;
}

static void refused_graph(struct message g, kiln_status status, const char *text)
{
    struct message m = model(17, &g);
    refused(&m, status, text);
}

static void test_wire(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *text;
    } files[] = {
        {"\x3a\x7f", 2, "at byte 0: field 7 has 127 bytes, its message ends after 0"},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, "at byte 1: a number has more than 64 bits"},
        {"\x08\x80", 2, "at byte 1: a number is cut off"},
        {"\x0d\x01\x02", 3, "a number of 4 bytes is cut off"},
        {"\x0b\x0c", 2, "field 1 is of type 3, which is none of this format"},
        {"\x00\x00", 2, "there is no field 0"},
        {"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10, "field 7 has 9223372036854775807 bytes"},
        {"\x40\x01", 2, "field 8 is of type 0, not 2"},
        {"\x42\x02\x10\x11", 4, "has no graph"},
        {"\x42\x02\x10\x11\x3a\x02\x0a\x00\x3a\x02\x0a\x00", 12, "the model has two graphs"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct message m = {0};
        for (size_t k = 0; k < files[i].n; k++) put_byte(&m, (unsigned char)files[i].bytes[k]);
        refused(&m, KILN_E_FORMAT, files[i].text);
    }
    struct message empty = {0};
    put_byte(&empty, 0x18);
    put_byte(&empty, 1);
    refused(&empty, KILN_E_UNSUPPORTED, "does not say which version");
    assert_null(onnx_load("graph_import", NULL, path_of("none")));
    assert_int_equal(kiln_error(), KILN_E_MISSING);
    kiln_error_clear();
}

static void test_versions(void **state)
{
    struct message g = small_graph(), m = model(12, &g);
    refused(&m, KILN_E_UNSUPPORTED, "version 12 of ONNX's operator set; versions 13 to 23 are read");
    g = small_graph();
    m = model(24, &g);
    refused(&m, KILN_E_UNSUPPORTED, "version 24");
}

static void test_names(void **state)
{
    struct message g = small_graph();
    add_node(&g, named_node("first", "", "Add", "x b", "a"));
    add_node(&g, named_node("second", "", "Neg", "a", "b"));
    refused_graph(g, KILN_E_FORMAT,
                  "graph \"main\": node 1 \"first\" (Add) uses before it is made (a cycle, or the wrong order) \"b\"");
    g = small_graph();
    add_node(&g, node("Neg", "z", "a"));
    refused_graph(g, KILN_E_FORMAT, "uses what nothing makes: \"z\"");
    g = small_graph();
    add_node(&g, node("Neg", "x", "y"));
    refused_graph(g, KILN_E_FORMAT, "two values are named \"y\"");
    g = small_graph();
    add_output(&g, "q");
    refused_graph(g, KILN_E_FORMAT, "nothing makes its output \"q\"");
    g = small_graph();
    struct message again = node("Softmax", "x", "s"), a = int_attr("axis", 1), b = int_attr("axis", 0);
    put_message(&again, 5, &a);
    put_message(&again, 5, &b);
    add_node(&g, again);
    refused_graph(g, KILN_E_FORMAT, "has attribute \"axis\" twice");
    g = small_graph();
    struct message zero = {0};
    put_bytes(&zero, 1, "x\0y", 3);
    add_node(&g, zero);
    refused_graph(g, KILN_E_FORMAT, "a text has a byte of 0");
}

// If of If of If ...
static struct message nested(int depth)
{
    struct message g = {0};
    if (depth) {
        struct message inner = nested(depth - 1), n = node("If", "c", "y"), a = graph_attr("then_branch", &inner);
        put_message(&n, 5, &a);
        add_node(&g, n);
    }
    return g;
}

static void test_bombs(void **state)
{
    refused_graph(nested(40), KILN_E_FORMAT, "graphs lie in each other more than 24 deep");
    // So many nodes that what they become would not fit.
    struct message g = {0};
    for (int i = 0; i < 12000000; i++) {
        put_byte(&g, 0x0a);
        put_byte(&g, 0);
    }
    refused_graph(g, KILN_E_UNSUPPORTED, "holds more nodes, names and attributes than");
    g = small_graph();
    add_constant(&g, tensor("w", 1, "3037000500 3037000500 4", "", 0));
    refused_graph(g, KILN_E_FORMAT, "tensor \"w\" has more elements than can be counted");
    g = small_graph();
    add_constant(&g, tensor("w", 1, "1000000 1000000", "1234", 4));
    refused_graph(g, KILN_E_FORMAT, "tensor \"w\" has 1000000000000 elements of float, its data 4 bytes");
}

static void test_tensors(void **state)
{
    static const float four[4] = {1, 2, 3, 4};
    struct message g = small_graph();
    add_constant(&g, tensor("w", 1, "5", four, sizeof four));
    refused_graph(g, KILN_E_FORMAT, "tensor \"w\" has 5 elements of float, its data 16 bytes");
    g = small_graph();
    add_constant(&g, tensor("w", 1, "-4", four, sizeof four));
    refused_graph(g, KILN_E_FORMAT, "tensor \"w\" has dimension -4");
    g = small_graph();
    add_constant(&g, tensor("w", 18, "2", four, sizeof four));
    refused_graph(g, KILN_E_UNSUPPORTED, "tensor \"w\" has the type float8e4m3fnuz");
    g = small_graph();
    add_constant(&g, tensor("w", 17, "15", four, sizeof four));
    refused_graph(g, KILN_E_FORMAT, "tensor \"w\" has 15 elements of float8e4m3fn, its data 16 bytes");
    g = small_graph();
    add_constant(&g, tensor("w", 22, "5 7", four, sizeof four));
    refused_graph(g, KILN_E_FORMAT, "tensor \"w\" has 35 elements of int4, its data 16 bytes");
    g = small_graph();
    add_constant(&g, tensor("w", 1, "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", four, 4));
    refused_graph(g, KILN_E_UNSUPPORTED, "rank above 16");
    g = small_graph();
    struct message twice = tensor("w", 1, "4", four, sizeof four);
    put_bytes(&twice, 4, four, sizeof four);
    add_constant(&g, twice);
    refused_graph(g, KILN_E_FORMAT, "tensor \"w\" has its data twice");
    g = small_graph();
    struct message other = tensor("w", 1, "4", NULL, 0);
    put_number(&other, 7, 1);
    add_constant(&g, other);
    refused_graph(g, KILN_E_FORMAT, "tensor \"w\" of float has numbers in field 7");
    g = small_graph();
    add_constant(&g, tensor("", 1, "4", four, sizeof four));
    refused_graph(g, KILN_E_FORMAT, "an initialiser has no name");
}

static struct message external(const char *name, const char *location, const char *offset, const char *length)
{
    const char *const pairs[][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    struct message t = tensor(name, 1, "4", NULL, 0);
    for (size_t i = 0; i < 3; i++) {
        struct message pair = {0};
        if (!pairs[i][1]) continue;
        put_text(&pair, 1, pairs[i][0]);
        put_text(&pair, 2, pairs[i][1]);
        put_message(&t, 13, &pair);
    }
    put_number(&t, 14, 1);
    return t;
}

static void refused_external(const char *location, const char *offset, const char *length, kiln_status status,
                             const char *text)
{
    struct message g = small_graph();
    add_constant(&g, external("w", location, offset, length));
    refused_graph(g, status, text);
}

static void test_external(void **state)
{
    static const float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    write_file("data", data, sizeof data);
    unlink(path_of("link"));
    assert_int_equal(symlink("/etc/passwd", path_of("link")), 0);
    refused_external("../data", "0", "16", KILN_E_FORMAT, "\"../data\", a path that leaves the model's folder");
    refused_external("a/../../data", "0", "16", KILN_E_FORMAT, "leaves the model's folder");
    refused_external("/etc/passwd", "0", "16", KILN_E_FORMAT, "a path that does not begin in the model's folder");
    refused_external("link", "0", "16", KILN_E_FORMAT, "which is a link");
    refused_external(".", "0", "16", KILN_E_FORMAT, "which is no file");
    refused_external("none", "0", "16", KILN_E_MISSING, "lies in \"none\"");
    refused_external(NULL, "0", "16", KILN_E_FORMAT, "which one is not said");
    refused_external("data", "20", "16", KILN_E_FORMAT, "has 16 bytes at 20 of \"data\", which has 32");
    refused_external("data", "18446744073709551615", "16", KILN_E_FORMAT, "has the offset \"18446744073709551615\"");
    refused_external("data", "-1", "16", KILN_E_FORMAT, "has the offset \"-1\"");
    refused_external("data", "0", "12", KILN_E_FORMAT, "tensor \"w\" has 4 elements of float, its data 12 bytes");
    struct message g = small_graph();
    add_constant(&g, external("v", "data", "0", "16"));
    add_constant(&g, external("w", "data", "8", NULL));
    refused_graph(g, KILN_E_FORMAT, "tensors \"v\" and \"w\" lie on each other in \"data\"");
    // And as it should be.
    g = small_graph();
    add_constant(&g, external("w", "data", "16", NULL));
    struct message m = model(17, &g);
    struct onnx_model *loaded = load(&m);
    assert_non_null(loaded);
    float got[4];
    assert_int_equal(onnx_weight_count(loaded), 1);
    assert_string_equal(onnx_weight_name(loaded, 0), "w");
    assert_int_equal(kiln_read(onnx_weight(loaded, 0), got, sizeof got), KILN_OK);
    assert_memory_equal(got, data + 4, sizeof got);
    onnx_free(&loaded);
}

static void test_missing_ops(void **state)
{
    struct message g = small_graph();
    add_node(&g, named_node("", "com.microsoft", "FusedMatMul", "x x", "a"));
    add_node(&g, node("GridSample", "x x", "b"));
    add_node(&g, node("GridSample", "x x", "c"));
    add_node(&g, node("Mish", "x", "d"));
    refused_graph(g, KILN_E_UNSUPPORTED, "(number of nodes): GridSample (2), Mish (1), com.microsoft.FusedMatMul (1)");
    g = small_graph();
    struct message n = node("Mod", "x x", "m"), a = int_attr("fmod", 7);
    put_message(&n, 5, &a);
    add_node(&g, n);
    refused_graph(g, KILN_E_UNSUPPORTED, "Mod with these attributes (1)");
}

static struct message function(const char *name, const char *calls)
{
    struct message f = {0}, a = named_node("", "own", calls, "a", "b"), b = named_node("", "own", calls, "b", "c"),
                   version = {0};
    put_text(&f, 1, name);
    put_text(&f, 4, "a");
    put_text(&f, 5, "c");
    put_message(&f, 7, &a);
    put_message(&f, 7, &b);
    put_number(&version, 2, 17);
    put_message(&f, 9, &version);
    put_text(&f, 10, "own");
    return f;
}

static void test_functions(void **state)
{
    struct message g = small_graph(), f = function("f", "g"), h = function("g", "f");
    add_node(&g, named_node("", "own", "f", "x", "z"));
    struct message m = model(17, &g);
    put_message(&m, 25, &f);
    put_message(&m, 25, &h);
    refused(&m, KILN_E_FORMAT, "is a call of a function inside of itself, \"f\"");
    g = small_graph();
    add_node(&g, named_node("", "own", "f0", "x", "z"));
    m = model(17, &g);
    for (int i = 0; i < 60; i++) {
        char name[8], next[8];
        snprintf(name, sizeof name, "f%d", i);
        snprintf(next, sizeof next, "f%d", i + 1);
        f = function(name, next);
        put_message(&m, 25, &f);
    }
    refused(&m, KILN_E_UNSUPPORTED, "its functions make more than");
}

// --- what is found when it runs

static kiln_status run(struct message g, kiln_tensor *x, kiln_tensor **y)
{
    struct message m = model(17, &g);
    struct onnx_model *loaded = load(&m);
    assert_non_null(loaded);
    kiln_status status = onnx_run(loaded, &x, 1, y, 1);
    onnx_free(&loaded);
    return status;
}

static void failed(kiln_status status, kiln_status want, const char *text)
{
    if (status != want || !strstr(kiln_error_message(), text)) print_error("got: %s\n", kiln_error_message());
    assert_int_equal(status, want);
    assert_non_null(strstr(kiln_error_message(), text));
    kiln_error_clear();
}

static void test_runs(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_ones(NULL, KILN_F32, KILN_SHAPE(2, 5)), *y;
    assert_int_equal(run(small_graph(), x, &y), KILN_OK);
    failed(run(small_graph(), kiln_ones(NULL, KILN_F32, KILN_SHAPE(3, 5)), &y), KILN_E_SHAPE,
           "input 0 \"x\" has shape [2,?], it was given one of [3,5]");
    failed(run(small_graph(), kiln_ones(NULL, KILN_F64, KILN_SHAPE(2, 5)), &y), KILN_E_DTYPE,
           "input 0 \"x\" is f32, it was given f64");
    struct message g = {0}, n = named_node("odd", "", "Relu", "x", "y"), a = int_attr("strange", 1);
    put_text(&g, 2, "main");
    put_message(&n, 5, &a);
    add_input(&g, port("x", 1, "2 5"));
    add_node(&g, n);
    add_output(&g, "y");
    failed(run(g, x, &y), KILN_E_UNSUPPORTED,
           "attribute \"strange\" is not known here, in node 0 \"odd\" (Relu) of graph \"main\"");
    g = (struct message){0};
    add_input(&g, port("x", 1, "2 5"));
    add_constant(&g, tensor("w", 1, "3 2", "abcdefghijklmnopqrstuvwx", 24));
    add_node(&g, node("MatMul", "x w", "y"));
    add_output(&g, "y");
    failed(run(g, x, &y), KILN_E_SHAPE, "f32[2,5], b is f32[3,2], in node 0 \"\" (MatMul)");
    kiln_scope_end(&scope);
}

// What a file says of its inputs; weights that are trained.
static void test_weights(void **state)
{
    static const float w[2] = {2, 3};
    kiln_scope *scope = kiln_scope_begin();
    struct message g = {0};
    add_input(&g, port("x", 1, "n 2"));
    add_constant(&g, tensor("w", 1, "2", w, sizeof w));
    add_node(&g, node("Mul", "x w", "y"));
    add_output(&g, "y");
    struct message m = model(13, &g);
    struct onnx_model *loaded = load(&m);
    assert_non_null(loaded);
    assert_int_equal(onnx_input_count(loaded), 1);
    assert_int_equal(onnx_output_count(loaded), 1);
    const struct onnx_port *p = onnx_input(loaded, 0);
    assert_true(p->typed && p->shaped && p->rank == 2 && p->dtype == KILN_F32 && p->dims[0] == -1 && p->dims[1] == 2);
    assert_string_equal(p->symbols[0], "n");
    assert_null(p->symbols[1]);
    assert_string_equal(onnx_output(loaded, 0)->name, "y");
    kiln_tensor *param = kiln_parameter(onnx_weight(loaded, 0), "w"),
                *x = kiln_full(NULL, KILN_F32, KILN_SHAPE(3, 2), 5), *y;
    assert_int_equal(onnx_set_weight(loaded, 0, kiln_ones(NULL, KILN_F32, KILN_SHAPE(3))), KILN_E_SHAPE);
    kiln_error_clear();
    assert_int_equal(onnx_set_weight(loaded, 0, param), KILN_OK);
    kiln_function *f = kiln_jit(onnx_run, loaded, NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kiln_call(f, &x, 1, &y, 1), KILN_OK);
        assert_int_equal(kiln_backward(kiln_sum(y, NULL), NULL), KILN_OK);
        float grad[2], values[6];
        assert_int_equal(kiln_read(kiln_gradient(param), grad, sizeof grad), KILN_OK);
        assert_true(grad[0] == 15 && grad[1] == 15);
        assert_int_equal(kiln_read(y, values, sizeof values), KILN_OK);
        assert_true(values[1] == (i ? 5 : 15));
        kiln_no_grad_begin();
        assert_int_equal(kiln_assign(param, kiln_ones_like(param)), KILN_OK); // seen at the next call
        kiln_no_grad_end();
    }
    kiln_function_free(&f);
    onnx_free(&loaded);
    kiln_scope_end(&scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire),        cmocka_unit_test(test_versions),  cmocka_unit_test(test_names),
        cmocka_unit_test(test_bombs),       cmocka_unit_test(test_tensors),   cmocka_unit_test(test_external),
        cmocka_unit_test(test_missing_ops), cmocka_unit_test(test_functions), cmocka_unit_test(test_runs),
        cmocka_unit_test(test_weights),
    };
    kiln_device *dev = kiln_device_open("cpu");
    if (!dev || kiln_set_device(dev) || !mkdtemp(folder)) return 1;
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    static const char *const files[] = {"model.onnx", "data", "link"};
    for (size_t i = 0; i < 3; i++) unlink(path_of(files[i]));
    rmdir(folder);
    kiln_device_close(&dev);
    return failures;
}
