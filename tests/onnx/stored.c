// Floats of 8 bits and integers of 4: as initialisers, by Cast, QuantizeLinear and DequantizeLinear.
//
// usage: test_onnx_stored [DEVICE]
#include "build.h"
#include <kiln/kiln.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ONNX_F32 = 1, ONNX_U8 = 2, ONNX_F8_E4M3 = 17, ONNX_F8_E5M2 = 19, ONNX_U4 = 21, ONNX_I4 = 22 };

static kiln_device *dev;

static kiln_model *load(struct message *graph)
{
    struct message m = model(21, graph);
    char path[] = "/tmp/kiln-XXXXXX.onnx";
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0 && write(fd, m.bytes, m.n) == (ssize_t)m.n && !close(fd));
    free_message(&m);
    kiln_model *loaded = kiln_graph_import(dev, path);
    if (!loaded) fail_msg("%s", kiln_error_message());
    unlink(path);
    return loaded;
}

static struct message graph(const char *x_dims)
{
    struct message g = {0};
    put_text(&g, 2, "main");
    add_input(&g, port("x", ONNX_F32, x_dims));
    return g;
}

static void attribute(struct message *node, struct message attr)
{
    put_message(node, 5, &attr);
}

// Output y of the model by x, three times.
static void check(struct message *g, kiln_tensor *x, kiln_dtype dtype, size_t n, const float *want)
{
    float got[256];
    add_output(g, "y");
    kiln_model *m = load(g);
    kiln_function *f = kiln_model_function(m, "main");
    for (int k = 0; k < 3; k++) {
        kiln_tensor *y;
        if (kiln_call(f, &x, 1, &y, 1)) fail_msg("%s", kiln_error_message());
        assert_int_equal(kiln_tensor_dtype(y), dtype);
        assert_int_equal(kiln_numel(y), n);
        if (kiln_read(kiln_cast(y, KILN_F32), got, n * sizeof *got)) fail_msg("%s", kiln_error_message());
        for (size_t i = 0; i < n; i++)
            if (!(got[i] == want[i]) && !(isnan(got[i]) && isnan(want[i])))
                fail_msg("number %zu is %g, expected %g", i, (double)got[i], (double)want[i]);
    }
    kiln_function_free(&f);
    kiln_model_free(&m);
}

static void refused(struct message *g, kiln_tensor *x, const char *text)
{
    kiln_tensor *y;
    add_output(g, "y");
    kiln_model *m = load(g);
    kiln_function *f = kiln_model_function(m, "main");
    kiln_call(f, &x, 1, &y, 1);
    if (!strstr(kiln_error_message(), text)) fail_msg("\"%s\", expected \"%s\"", kiln_error_message(), text);
    kiln_error_clear();
    kiln_function_free(&f);
    kiln_model_free(&m);
}

static kiln_tensor *floats(size_t n, const float *v)
{
    return kiln_from_data(dev, KILN_F32, KILN_SHAPE((int64_t)n), v);
}

static void initialisers_are_numbers(void **state)
{
    static const unsigned char codes[4] = {0x38, 0xc4, 0x7e, 0x01};
    static const float one[1] = {1}, e4m3[4] = {1, -3, 448, 0x1p-9f}, e5m2[4] = {0.5f, -4, NAN, 0x1p-16f};
    static const float i4[8] = {-8, 3, 4, -4, -2, 7, 1, 0}, u4[8] = {8, 3, 4, 12, 14, 7, 1, 0};
    const struct {
        int type;
        const char *dims;
        size_t n;
        const float *want;
    } cases[] = {{ONNX_F8_E4M3, "4", 4, e4m3}, {ONNX_F8_E5M2, "4", 4, e5m2}, {ONNX_I4, "4 2", 8, i4},
                 {ONNX_U4, "8", 8, u4},        {ONNX_I4, "7 1", 7, i4},      {ONNX_U4, "7", 7, u4}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (int listed = 0; listed < 2; listed++) {
            struct message g = graph("1"), cast = node("Cast", "w", "f");
            bool packed = cases[k].type == ONNX_I4 || cases[k].type == ONNX_U4;
            const unsigned char *data = packed ? (const unsigned char *)"\x38\xc4\x7e\x01" : codes;
            struct message w = tensor("w", cases[k].type, cases[k].dims, listed ? NULL : data, 4);
            for (int i = 0; listed && i < 4; i++) put_number(&w, 5, data[i]);
            add_constant(&g, w);
            attribute(&cast, int_attr("to", ONNX_F32));
            add_node(&g, cast);
            add_node(&g, node("Mul", "f x", "y"));
            check(&g, floats(1, one), KILN_F32, cases[k].n, cases[k].want);
        }
    }
}

static void casts_go_there_and_back(void **state)
{
    static const float x[4] = {-1.3f, 500, 6.9f, 0.07f};
    static const struct {
        int type;
        kiln_dtype dtype;
        float want[4];
    } cases[] = {{ONNX_F8_E4M3, KILN_F8_E4M3, {-1.25f, 448, 7, 0.0703125f}},
                 {ONNX_F8_E5M2, KILN_F8_E5M2, {-1.25f, 512, 7, 0.0625f}},
                 {ONNX_I4, KILN_I4, {-1, 7, 6, 0}},
                 {ONNX_U4, KILN_U4, {0, 15, 6, 0}}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct message g = graph("4"), cast = node("Cast", "x", "y");
        attribute(&cast, int_attr("to", cases[k].type));
        add_node(&g, cast);
        check(&g, floats(4, x), cases[k].dtype, 4, cases[k].want);
    }
    struct message g = graph("4"), cast = node("Cast", "x", "y");
    attribute(&cast, int_attr("to", ONNX_F8_E5M2));
    attribute(&cast, int_attr("saturate", 0));
    add_node(&g, cast);
    refused(&g, floats(4, x), "saturate is 0");
    // As the type of a tensor that is there, even where it had to be unpacked.
    g = graph("4");
    add_constant(&g, tensor("like", ONNX_I4, "", "\x05", 1));
    add_node(&g, node("CastLike", "x like", "y"));
    check(&g, floats(4, x), KILN_I4, 4, cases[2].want);
}

static void weights_of_four_bits(void **state)
{
    static const unsigned char w[3] = {0x38, 0xc4, 0x7e}, zero[2] = {0x21, 0x0f}; // 1 2 -1
    static const float x[1] = {1}, scale[3] = {0.5f, 2, 1};
    static const float want[6] = {0.5f * (-8 - 1), 0.5f * (3 - 1), 2 * (4 - 2), 2 * (-4 - 2), -2 + 1, 7 + 1};
    struct message g = graph("1"), n = node("DequantizeLinear", "w scale zero", "d");
    add_constant(&g, tensor("w", ONNX_I4, "3 2", w, sizeof w));
    add_constant(&g, tensor("zero", ONNX_I4, "3", zero, sizeof zero));
    add_constant(&g, tensor("scale", ONNX_F32, "3", scale, sizeof scale));
    attribute(&n, int_attr("axis", 0));
    add_node(&g, n);
    add_node(&g, node("Mul", "d x", "y"));
    check(&g, floats(1, x), KILN_F32, 6, want);
}

static void numbers_are_quantised(void **state)
{
    static const float x[4] = {-1.3f, 50, 2.5f, 0.75f}, half[1] = {0.5f};
    static const struct {
        int type;
        const char *zero;
        kiln_dtype dtype;
        float stored[4], back[4];
    } cases[] = {{ONNX_U4, "\x03", KILN_U4, {0, 15, 8, 5}, {-1.5f, 6, 2.5f, 1}}, // round(x / 0.5) + 3
                 {ONNX_I4, "\x0f", KILN_I4, {-4, 7, 4, 1}, {-1.5f, 4, 2.5f, 1}},
                 {ONNX_F8_E4M3, "\x00", KILN_F8_E4M3, {-2.5f, 96, 5, 1.5f}, {-1.25f, 48, 2.5f, 0.75f}},
                 {ONNX_F8_E5M2, "\x00", KILN_F8_E5M2, {-2.5f, 96, 5, 1.5f}, {-1.25f, 48, 2.5f, 0.75f}}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int back = 0; back < 2; back++) {
            struct message g = graph("4");
            add_constant(&g, tensor("scale", ONNX_F32, "", half, sizeof half));
            add_constant(&g, tensor("zero", cases[k].type, "", cases[k].zero, 1));
            add_node(&g, node("QuantizeLinear", "x scale zero", back ? "q" : "y"));
            if (back) add_node(&g, node("DequantizeLinear", "q scale zero", "y"));
            check(&g, floats(4, x), back ? KILN_F32 : cases[k].dtype, 4, back ? cases[k].back : cases[k].stored);
        }
    // The type as an attribute; and as an input of the model.
    struct message g = graph("4"), q = node("QuantizeLinear", "x scale", "y");
    add_constant(&g, tensor("scale", ONNX_F32, "", half, sizeof half));
    attribute(&q, int_attr("output_dtype", ONNX_F8_E5M2));
    add_node(&g, q);
    check(&g, floats(4, x), KILN_F8_E5M2, 4, cases[3].stored);
    g = (struct message){0};
    put_text(&g, 2, "main");
    add_input(&g, port("q", ONNX_F8_E4M3, "4"));
    add_constant(&g, tensor("scale", ONNX_F32, "", half, sizeof half));
    add_node(&g, node("DequantizeLinear", "q scale", "y"));
    check(&g, kiln_cast(floats(4, cases[2].stored), KILN_F8_E4M3), KILN_F32, 4, cases[2].back);
}

static void other_ops_refuse(void **state)
{
    static const float x[4] = {0};
    static const char *const ops[] = {"Add", "MatMul", "Mod", "Max"};
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        struct message g = graph("4");
        add_constant(&g, tensor("w", ONNX_F8_E4M3, "4", x, 4));
        add_node(&g, node(ops[k], "x w", "y"));
        refused(&g, floats(4, x), "f8_e4m3fn");
    }
    static const char *const one[] = {"ReduceMax", "ReduceL2", "Reshape", "ConstantOfShape", "Range"};
    for (size_t k = 0; k < sizeof one / sizeof *one; k++) {
        struct message g = graph("4");
        add_constant(&g, tensor("w", ONNX_F8_E4M3, "4", x, 4));
        add_node(&g, node(one[k], k == 2 ? "x w" : k == 4 ? "w w w" : "w", "y"));
        refused(&g, floats(4, x), "f8_e4m3fn");
    }
}

static int begin(void **state)
{
    *state = kiln_scope_begin();
    return 0;
}

static int end(void **state)
{
    kiln_scope *scope = *state;
    kiln_scope_end(&scope);
    return kiln_error() ? -1 : 0;
}

int main(int argc, char **argv)
{
    dev = kiln_device_open(argc > 1 ? argv[1] : "cpu");
    if (!dev) {
        fprintf(stderr, "%s\n", kiln_error_message());
        return argc > 1 ? 77 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(initialisers_are_numbers, begin, end),
        cmocka_unit_test_setup_teardown(casts_go_there_and_back, begin, end),
        cmocka_unit_test_setup_teardown(weights_of_four_bits, begin, end),
        cmocka_unit_test_setup_teardown(numbers_are_quantised, begin, end),
        cmocka_unit_test_setup_teardown(other_ops_refuse, begin, end),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_device_close(&dev);
    return failed;
}
