// Files of each version are read for ever: those in tests/golden/model hold functions, inputs and what came of them, as
// the version wrote them. Each version adds one: KEPT_WRITE names a file to write that of today to.
#include "model_fixture.h"
#include <dirent.h>

static kiln_tensor *w, *s;

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

FN(convolution)
{
    kiln_tensor *kernel = kiln_ones(NULL, KILN_F32, KILN_SHAPE(1, 1, 3, 3));
    out[0] = kiln_conv2d(in[0], kernel, KILN_CONV2D(.padding = {1, 1}));
    return kiln_error();
}

FN(rows)
{
    int64_t n = kiln_dims(in[0])[0];
    kiln_tensor *h = kiln_gelu(kiln_matmul(in[0], w));
    out[0] = kiln_softmax(kiln_layer_norm(h, 1, NULL), -1);
    out[1] = kiln_mul(kiln_sum(h, KILN_REDUCE(.axes = KILN_AXES(0))), kiln_scalar(1.0 / (double)n));
    out[2] = kiln_cast(kiln_argmax(out[0], KILN_REDUCE(.axes = KILN_AXES(1))), KILN_I32);
    return kiln_error();
}

FN(halve)
{
    out[0] = kiln_mul(in[n_in - 1], kiln_scalar(0.5));
    return kiln_error();
}

FN(is_large)
{
    out[0] = kiln_greater(kiln_sum(in[n_in - 1], NULL), kiln_scalar(1));
    return kiln_error();
}

FN(negate)
{
    out[0] = kiln_neg(in[0]);
    return kiln_error();
}

FN(flow)
{
    kiln_tensor *x = NULL;
    TRY_(kiln_while(is_large, halve, NULL, in, 1, NULL, &x, 1));
    return kiln_cond(kiln_less(kiln_max(x, NULL), kiln_scalar(0.2)), halve, negate, NULL, &x, 1, out, 1);
}

static double rate(void *user)
{
    return 0.1;
}

FN(step)
{
    kiln_tensor *loss = kiln_mean(kiln_square(kiln_sub(kiln_matmul(in[0], w), in[1])), NULL);
    TRY_(kiln_backward(loss, NULL));
    kiln_no_grad_begin();
    kiln_sub_(w, kiln_mul(kiln_gradient(w), kiln_host_number(rate, NULL)));
    kiln_add_(s, kiln_scalar(1));
    kiln_no_grad_end();
    kiln_assert(kiln_all(kiln_isfinite(loss), NULL), "the loss is {}", loss);
    out[0] = loss;
    out[1] = kiln_mul(s, kiln_scalar(2));
    return kiln_error();
}

FN(draws)
{
    out[0] = kiln_add(kiln_uniform(kiln_get_device(), KILN_F32, KILN_SHAPE(4), 0, 1), in[0]);
    return kiln_error();
}

FN(registered)
{
    out[0] = kiln_apply("kept_op", in, 1);
    return kiln_error();
}

struct kept {
    const char *name;
    kiln_fn fn;
    size_t n_in, n_out;
    bool open; // the first dimension
    int64_t dims[2][4];
    size_t rank[2];
};

static const struct kept functions[] = {
    {"convolution", convolution, 1, 1, false, {{1, 1, 3, 3}}, {4}},
    {"rows", rows, 1, 3, true, {{5, 4}}, {2}},
    {"flow", flow, 1, 1, false, {{3}}, {1}},
    {"step", step, 2, 2, false, {{6, 4}, {6, 3}}, {2, 2}},
    {"draws", draws, 1, 1, false, {{4}}, {1}},
    {"registered", registered, 1, 1, false, {{4}}, {1}},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, NAMES = 64 };

static kiln_tensor *input(struct fixture *f, const struct kept *k, size_t i)
{
    int64_t n = 1;
    for (size_t d = 0; d < k->rank[i]; d++) n *= k->dims[i][d];
    kiln_tensor *line = kiln_arange(f->dev, KILN_F32, 0, (double)n, 1);
    kiln_tensor *values =
        k->fn == convolution ? kiln_ones_like(line) : kiln_sin(kiln_add(line, kiln_scalar(1 + (double)i)));
    return kiln_reshape(k->fn == flow ? kiln_add(values, kiln_scalar(2)) : values, k->rank[i], k->dims[i]);
}

static void name(char *out, const char *function, const char *what, size_t i)
{
    snprintf(out, 64, "%s %s %d", function, what, (int)i);
}

static void make_weights(struct fixture *f)
{
    kiln_set_device(f->dev);
    w = kiln_parameter(kiln_reshape(kiln_cos(kiln_arange(f->dev, KILN_F32, 0, 12, 1)), KILN_SHAPE(4, 3)), "w");
    s = kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(1));
    ok(kiln_state(s));
    if (kiln_register_op(KILN_OP(.name = "kept_op", .n_in = 1, .expr = "x * x + 3", .grad = {"2 * x * dy"})))
        kiln_error_clear();
}

// Inputs, and outputs of a call on weights as they are made, as further weights of the model.
static void add(struct fixture *f, kiln_model *m, const struct kept *k)
{
    char names[6][64];
    const char *list[6];
    kiln_tensor *in[2], *out[3], *all[6];
    int64_t n = kiln_symbol("n", KILN_SYMBOL(.unique = true));
    kiln_function *j =
        kiln_jit(k->fn, NULL, k->open ? KILN_JIT(.input_types = KILN_TYPES(KILN_TYPE(KILN_F32, n, 4))) : NULL);
    size_t count = 0;
    for (size_t i = 0; i < k->n_in; i++) {
        in[i] = input(f, k, i);
        name(names[count], k->name, "in", i);
        all[count++] = in[i];
    }
    ok(kiln_model_add(m, k->name, j, in, k->n_in, k->n_out, NULL));
    make_weights(f);
    kiln_seed(f->dev, 5);
    ok(k->fn(NULL, in, k->n_in, out, k->n_out));
    for (size_t i = 0; i < k->n_out; i++) {
        name(names[count], k->name, "out", i);
        all[count++] = kiln_contiguous(out[i]);
    }
    for (size_t i = 0; i < count; i++) list[i] = names[i];
    ok(kiln_model_name_weights(m, count, list, all));
    kiln_function_free(&j);
}

static void write_kept(struct fixture *f, const char *path)
{
    kiln_model *m = kiln_model_create();
    make_weights(f);
    kiln_tensor *first_w = w, *first_s = s;
    for (size_t i = 0; i < FUNCTIONS; i++) {
        w = first_w, s = first_s;
        add(f, m, &functions[i]);
    }
    ok(kiln_model_save(m, path));
    kiln_model_free(&m);
}

static kiln_tensor *weight(kiln_model *m, const char *of, const char *what, size_t i)
{
    static const char *names[NAMES];
    kiln_tensor *tensors[NAMES];
    char want[64];
    name(want, of, what, i);
    size_t n = kiln_model_weights(m, names, tensors, NAMES);
    assert_in_range(n, 1, NAMES);
    for (size_t k = 0; k < n; k++)
        if (!strcmp(names[k], want)) return tensors[k];
    fail_msg("the file has no \"%s\"", want);
    return NULL;
}

static void check_function(struct fixture *f, kiln_model *m, const char *of)
{
    kiln_tensor *in[8], *out[8];
    size_t n_in = kiln_model_input_count(m, of), n_out = kiln_model_output_count(m, of);
    for (size_t i = 0; i < n_in; i++) {
        kiln_model_value v = {.size = sizeof v};
        ok(kiln_model_input(m, of, i, &v));
        in[i] = v.is_number ? kiln_mutable(0.1) : weight(m, of, "in", i);
    }
    kiln_function *g = kiln_model_function(m, of);
    if (!g) print_error("%s\n", kiln_error_message());
    assert_non_null(g);
    kiln_seed(f->dev, 5);
    ok(kiln_call(g, in, n_in, out, n_out));
    for (size_t i = 0; i < n_out; i++) near(out[i], weight(m, of, "out", i), 2e-6);
    kiln_function_free(&g);
}

static void check_file(struct fixture *f, const char *path)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_model *m = kiln_graph_import(f->dev, path);
    if (!m) print_error("%s\n", kiln_error_message());
    assert_non_null(m);
    for (size_t i = 0; i < kiln_model_function_count(m); i++) {
        char of[64];
        snprintf(of, sizeof of, "%s", kiln_model_function_name(m, i));
        print_message("%s: %s\n", path, of);
        check_function(f, m, of);
        if (!strcmp(of, "convolution")) // of the documents
            expect(weight(m, of, "out", 0), 9, 4., 6., 4., 6., 9., 6., 4., 6., 4.);
    }
    kiln_model_free(&m);
    kiln_scope_end(&scope);
}

static void files_of_each_version(void **state)
{
    struct fixture *f = *state;
    char folder[4096], path[8192];
    int n = 0;
    kiln_set_device(f->dev);
    if (getenv("KEPT_WRITE")) write_kept(f, getenv("KEPT_WRITE"));
    snprintf(folder, sizeof folder, "%s/golden/model", getenv("KILN_TEST_SOURCE_DIR"));
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (!strstr(e->d_name, ".kiln")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        check_file(f, path);
        n++;
    }
    closedir(d);
    assert_true(n >= 1);
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {FIXTURE(files_of_each_version)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
