// Models of ONNX by kiln_graph_import: what is told of them, calls, training, and their way into a file of Kiln's.
#include "../onnx/build.h"
#include "model_fixture.h"

static const char *onnx_file(void)
{
    static char path[64];
    snprintf(path, sizeof path, "model_%d.onnx", (int)getpid());
    return path;
}

// y = Softmax(x w + b), of rows of three; `rows`: what the file says of their number.
static void write_dense(const char *rows)
{
    const float w[] = {1, 2, 3, 4, 5, 6}, b[] = {0.5, -0.5};
    char dims[32];
    struct message g = {0};
    snprintf(dims, sizeof dims, "%s 3", rows);
    put_text(&g, 2, "dense");
    add_input(&g, port("x", 1, dims));
    add_constant(&g, tensor("w", 1, "3 2", w, sizeof w));
    add_constant(&g, tensor("b", 1, "2", b, sizeof b));
    add_node(&g, node("MatMul", "x w", "h"));
    add_node(&g, node("Add", "h b", "z"));
    add_node(&g, node("Softmax", "z", "y"));
    add_output(&g, "y");
    struct message m = model(18, &g);
    FILE *file = fopen(onnx_file(), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(m.bytes, 1, m.n, file), m.n);
    fclose(file);
    free_message(&m);
}

static kiln_model *import(struct fixture *f)
{
    kiln_set_device(f->dev);
    kiln_model *m = kiln_graph_import(f->dev, onnx_file());
    if (!m) print_error("%s\n", kiln_error_message());
    assert_non_null(m);
    unlink(onnx_file());
    return m;
}

static double first_class(double a, double b, double c)
{
    double z = a + 3 * b + 5 * c + 0.5, y = 2 * a + 4 * b + 6 * c - 0.5;
    return 1 / (1 + exp(y - z));
}

static void a_model_is_called(void **state)
{
    struct fixture *f = *state;
    write_dense("batch");
    kiln_model *m = import(f);
    kiln_model_value v = {.size = sizeof v};
    assert_int_equal(kiln_model_function_count(m), 1);
    assert_string_equal(kiln_model_function_name(m, 0), "main");
    ok(kiln_model_input(m, "main", 0, &v));
    assert_string_equal(v.name, "x");
    assert_string_equal(v.text, "f32[batch,3]");
    assert_true(v.rank == 2 && v.dims[0] == -1 && v.dims[1] == 3 && !v.is_number);
    ok(kiln_model_output(m, "main", 0, &v));
    assert_string_equal(v.name, "y");
    const char *names[2];
    kiln_tensor *weights[2];
    assert_int_equal(kiln_model_weights(m, names, weights, 2), 2);
    assert_string_equal(names[0], "w");
    expect(weights[1], 2, 0.5, -0.5);
    assert_int_equal(kiln_model_parameters(m, NULL, 0), 0);
    kiln_function *g = kiln_model_function(m, "main");
    kiln_model_free(&m);
    for (int64_t rows = 1; rows < 4; rows++) {
        kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE(rows, 3), 0.25), *y;
        ok(kiln_call(g, &x, 1, &y, 1));
        assert_int_equal(kiln_dims(y)[0], rows);
        double want = first_class(0.25, 0.25, 0.25);
        for (int64_t i = 0; i < rows; i++)
            assert_true(fabs(kiln_item(kiln_narrow(kiln_narrow(y, 0, i, 1), 1, 0, 1)) - want) < 1e-6);
    }
    kiln_tensor *x = kiln_ones(f->dev, KILN_F32, KILN_SHAPE(2, 4)), *y;
    fails(kiln_call(g, &x, 1, &y, 1), KILN_E_SHAPE, "it was given one of [2,4]");
    kiln_function_free(&g);
}

static void a_model_is_trained(void **state)
{
    struct fixture *f = *state;
    write_dense("2");
    kiln_model *m = import(f);
    ok(kiln_model_train(m));
    kiln_tensor *params[2], *x = mat(f, 2, 3, 0.1, 0.2, 0.3, -0.1, 0.4, 0.2), *y;
    assert_int_equal(kiln_model_parameters(m, params, 2), 2);
    kiln_function *g = kiln_model_function(m, "main");
    fails(kiln_model_train(m), KILN_E_STATE, "a function of the model was made before");
    double before = 0;
    for (int step = 0; step < 20; step++) {
        ok(kiln_call(g, &x, 1, &y, 1));
        kiln_tensor *loss = kiln_neg(kiln_mean(kiln_log(kiln_narrow(y, 1, 0, 1)), NULL)); // of class 0
        double now = kiln_item(loss);
        assert_true(!step || now < before);
        before = now;
        ok(kiln_backward(loss, NULL));
        kiln_no_grad_begin();
        for (int i = 0; i < 2; i++) {
            ok(kiln_sub_(params[i], kiln_mul(kiln_gradient(params[i]), kiln_scalar(0.5))));
            ok(kiln_set_gradient(params[i], NULL));
        }
        kiln_no_grad_end();
    }
    assert_true(before < 0.3);
    kiln_function_free(&g);
    kiln_model_free(&m);
}

// Its function is one as any other, and so goes into a file of Kiln's, with open dimensions or without.
static void a_model_becomes_a_file(void **state)
{
    struct fixture *f = *state;
    write_dense("n");
    kiln_model *m = import(f), *of_its_own = kiln_model_create();
    kiln_function *g = kiln_model_function(m, "main"), *h;
    const char *names[2];
    kiln_tensor *weights[2], *x = mat(f, 2, 3, 0.1, 0.2, 0.3, -0.1, 0.4, 0.2), *y, *z;
    size_t n = kiln_model_weights(m, names, weights, 2);
    fails(kiln_model_save(m, model_file()), KILN_E_UNSUPPORTED, "was read from a file of ONNX");
    fails(kiln_model_add(m, "other", g, &x, 1, 1, NULL), KILN_E_UNSUPPORTED, "was read from a file of ONNX");
    ok(kiln_model_name_weights(of_its_own, n, names, weights));
    ok(kiln_model_add(of_its_own, "dense", g, &x, 1, 1, NULL));
    ok(kiln_model_save(of_its_own, model_file()));
    ok(kiln_call(g, &x, 1, &y, 1));
    kiln_model_free(&m);
    kiln_model_free(&of_its_own);
    m = kiln_graph_import(f->dev, model_file());
    assert_non_null(m);
    unlink(model_file());
    h = kiln_model_function(m, "dense");
    ok(kiln_call(h, &x, 1, &z, 1));
    same_bits(y, z);
    kiln_function_free(&g);
    kiln_function_free(&h);
    kiln_model_free(&m);
}

static void models_that_are_none(void **state)
{
    struct fixture *f = *state;
    struct message g = {0};
    put_text(&g, 2, "odd");
    add_input(&g, port("x", 1, "3"));
    add_node(&g, node("Relu", "x", "a"));
    add_node(&g, node("NobodyKnows", "a", "b"));
    add_node(&g, node("StringNormalizer", "b", "y"));
    add_output(&g, "y");
    struct message m = model(18, &g);
    FILE *file = fopen(onnx_file(), "wb");
    fwrite(m.bytes, 1, m.n, file);
    fclose(file);
    assert_null(kiln_graph_import(f->dev, onnx_file()));
    assert_non_null(strstr(kiln_error_message(), "NobodyKnows"));
    fails(kiln_error(), KILN_E_UNSUPPORTED, "StringNormalizer");
    file = fopen(onnx_file(), "wb");
    fwrite(m.bytes, 1, m.n / 2, file);
    fclose(file);
    assert_null(kiln_graph_import(f->dev, onnx_file()));
    fails(kiln_error(), KILN_E_FORMAT, "graph_import: ");
    unlink(onnx_file());
    assert_null(kiln_graph_import(f->dev, onnx_file()));
    fails(kiln_error(), KILN_E_MISSING, "graph_import: ");
    free_message(&m);
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(a_model_is_called),
        FIXTURE(a_model_is_trained),
        FIXTURE(a_model_becomes_a_file),
        FIXTURE(models_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
