// Where networks begin: initialisers by their moments and bounds, defaults of layers, values from files of others.
#include <kiln/nn.h>
#include <kiln/ops.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static kiln_device *dev;
static kiln_scope *scope;

static int begin(void **state)
{
    kiln_error_clear();
    kiln_seed(dev, 3);
    scope = kiln_scope_begin();
    return scope ? 0 : -1;
}

static int end(void **state)
{
    if (kiln_error()) fprintf(stderr, "left pending: %s\n", kiln_error_message());
    bool good = !kiln_error();
    kiln_scope_end(&scope);
    return good ? 0 : -1;
}

static void expect_error(kiln_status code, const char *text)
{
    assert_string_equal(kiln_status_name(kiln_error()), kiln_status_name(code));
    if (!strstr(kiln_error_message(), text)) fail_msg("\"%s\" does not hold \"%s\"", kiln_error_message(), text);
    kiln_error_clear();
}

static double *values(kiln_tensor *t)
{
    if (!t) fail_msg("%s", kiln_error_message());
    size_t n = (size_t)kiln_numel(t);
    double *v = malloc((n + 1) * sizeof *v);
    assert_non_null(v);
    kiln_tensor *wide = kiln_cast(t, KILN_F64);
    assert_int_equal(kiln_read(wide, v, n * sizeof *v), KILN_OK);
    return v;
}

// --- draws

enum shape { UNIFORM, NORMAL, CUT };

// Mean, deviation, fourth moment and bound of what is drawn. sigma: of the distribution before it is cut.
static void check_draw(kiln_tensor *t, const char *what, enum shape shape, double sigma)
{
    double *v = values(t), n = (double)kiln_numel(t), mean = 0, m2 = 0, m4 = 0, top = 0;
    for (int i = 0; i < (int)n; i++) mean += v[i] / n;
    for (int i = 0; i < (int)n; i++) {
        double d = v[i] - mean;
        m2 += d * d / n;
        m4 += d * d * d * d / n;
        top = fmax(top, fabs(v[i]));
    }
    free(v);
    // Of a normal distribution cut at two sigma: 0.7737413 sigma^2, and a fourth moment of 1.4161895 sigma^4.
    static const double var[] = {1, 1, 0.7737413}, kurtosis[] = {1.8, 3, 2.3655};
    const double bounds[] = {sqrt(3), 7, 2};
    double std = sigma * sqrt(var[shape]), bound = bounds[shape] * sigma * (1 + 1e-6);
    bool good = fabs(mean) < 5 * std / sqrt(n) && fabs(sqrt(m2) / std - 1) < 5 / sqrt(n) &&
                fabs(m4 / (m2 * m2) / kurtosis[shape] - 1) < 20 / sqrt(n) && top <= bound;
    if (shape != NORMAL) good &= top > bound * 0.995;
    if (!good)
        fail_msg("%s: mean %g, deviation %g (expected %g), fourth %g (%g), largest %g (%g)", what, mean, sqrt(m2), std,
                 m4 / (m2 * m2), kurtosis[shape], top, bound);
}

static void draws_have_their_moments(void **state)
{
    const double in = 500, out = 1000;
    const struct {
        const char *init;
        enum shape shape;
        double sigma;
    } rows[] = {
        {"normal", NORMAL, 0.01},
        {"normal(2)", NORMAL, 2},
        {"uniform", UNIFORM, 0.07 / sqrt(3)},
        {"uniform(0.3)", UNIFORM, 0.3 / sqrt(3)},
        {"truncated_normal", CUT, 0.01},
        {"truncated_normal( 0.5 )", CUT, 0.5},
        {"xavier_uniform", UNIFORM, sqrt(2 / (in + out))},
        {"xavier_normal", NORMAL, sqrt(2 / (in + out))},
        {"xavier_normal(tanh)", NORMAL, 5.0 / 3 * sqrt(2 / (in + out))},
        {"xavier_uniform(0.5)", UNIFORM, 0.5 * sqrt(2 / (in + out))},
        {"he_uniform", UNIFORM, sqrt(2 / in)},
        {"he_normal", NORMAL, sqrt(2 / in)},
        {"he_normal(2)", NORMAL, 2 / sqrt(in)},
        {"kaiming_uniform", UNIFORM, sqrt(2 / in)},
        {"kaiming_normal(fan_out)", NORMAL, sqrt(2 / out)},
        {"kaiming_normal(relu, fan_out)", NORMAL, sqrt(2 / out)},
        {"he_uniform(linear)", UNIFORM, sqrt(1 / in)},
        {"he_uniform(sigmoid)", UNIFORM, sqrt(1 / in)},
        {"he_uniform(selu)", UNIFORM, 0.75 * sqrt(1 / in)},
        {"he_uniform(leaky_relu)", UNIFORM, sqrt(2 / (1 + 1e-4) / in)},
        {"he_normal(leaky_relu, 0.5, fan_out)", NORMAL, sqrt(2 / 1.25 / out)},
        {"he_uniform(leaky_relu, 2.23606797749979)", UNIFORM, sqrt(1 / (3 * in))},
        {"lecun_uniform", UNIFORM, sqrt(1 / in)},
        {"lecun_normal", NORMAL, sqrt(1 / in)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_draw(kiln_initializer(dev, KILN_F32, KILN_SHAPE(40, 20, 5, 5), rows[i].init), rows[i].init, rows[i].shape,
                   rows[i].sigma);
}

static void check_constant(const char *init, double want)
{
    double *v = values(kiln_initializer(dev, KILN_F32, KILN_SHAPE(2, 3), init));
    for (int i = 0; i < 6; i++) assert_true(v[i] == want);
    free(v);
}

static void constants_are_what_they_say(void **state)
{
    check_constant("zeros", 0);
    check_constant("ones", 1);
    check_constant("-0.5", -0.5);
    check_constant("constant(0.25)", 0.25);
    check_constant("constant( -3 )", -3);
}

// --- matrices

static void check_orthogonal(kiln_dtype dtype, size_t rank, const int64_t *dims, const char *init, double gain)
{
    kiln_tensor *t = kiln_initializer(dev, dtype, rank, dims, init);
    double *v = values(t);
    assert_int_equal(kiln_tensor_dtype(t), dtype);
    int64_t rows = dims[0], columns = rows ? kiln_numel(t) / rows : 0;
    bool wide = rows < columns;
    int64_t few = wide ? rows : columns, many = wide ? columns : rows;
    double tolerance = dtype == KILN_F64 ? 1e-12 : dtype == KILN_F32 ? 1e-6 : 4e-3;
    for (int64_t i = 0; i < few; i++) {
        for (int64_t k = 0; k <= i; k++) {
            double sum = 0;
            for (int64_t j = 0; j < many; j++)
                sum +=
                    (wide ? v[i * columns + j] : v[j * columns + i]) * (wide ? v[k * columns + j] : v[j * columns + k]);
            if (!(fabs(sum / (gain * gain) - (i == k)) < tolerance))
                fail_msg("%s: %d, %d: %g", init, (int)i, (int)k, sum);
        }
    }
    free(v);
}

static void orthogonal_matrices_are(void **state)
{
    check_orthogonal(KILN_F64, KILN_SHAPE(40, 40), "orthogonal", 1);
    check_orthogonal(KILN_F32, KILN_SHAPE(7, 30), "orthogonal(2)", 2);
    check_orthogonal(KILN_F32, KILN_SHAPE(30, 7), "orthogonal(relu)", sqrt(2));
    check_orthogonal(KILN_F32, KILN_SHAPE(8, 3, 2, 2), "orthogonal", 1);
    check_orthogonal(KILN_BF16, KILN_SHAPE(4, 4), "orthogonal", 1);
    check_orthogonal(KILN_F32, KILN_SHAPE(0, 4), "orthogonal", 1);
    // Evenly: of [1, 1] the two signs come alike, and the mean of the entries is zero.
    double sum = 0;
    for (int i = 0; i < 200; i++) sum += kiln_item(kiln_initializer(dev, KILN_F64, KILN_SHAPE(1, 1), "orthogonal"));
    assert_true(fabs(sum) < 60);
    double *v = values(kiln_initializer(dev, KILN_F64, KILN_SHAPE(64, 64), "orthogonal")), mean = 0;
    for (int i = 0; i < 64 * 64; i++) mean += v[i] / (64 * 64);
    assert_true(fabs(mean) < 5.0 / (8 * 64));
    free(v);
}

static void kernels_hand_on(void **state)
{
    kiln_tensor *x = kiln_normal(dev, KILN_F32, KILN_SHAPE(1, 4, 5, 6), 0, 1);
    kiln_tensor *w = kiln_initializer(dev, KILN_F32, KILN_SHAPE(4, 4, 3, 3), "dirac");
    kiln_tensor *y = kiln_conv2d(x, w, KILN_CONV2D(.padding = {1, 1}));
    assert_true(kiln_item(kiln_max(kiln_abs(kiln_sub(x, y)), NULL)) == 0);
    w = kiln_initializer(dev, KILN_F32, KILN_SHAPE(4, 2, 3, 3), "dirac(2)");
    y = kiln_conv2d(x, w, KILN_CONV2D(.padding = {1, 1}, .groups = 2));
    assert_true(kiln_item(kiln_max(kiln_abs(kiln_sub(x, y)), NULL)) == 0);
    double *v = values(kiln_initializer(dev, KILN_F32, KILN_SHAPE(3, 2, 4), "dirac"));
    for (int i = 0; i < 24; i++) assert_true(v[i] == (i == 2 || i == 14));
    free(v);
    v = values(kiln_initializer(dev, KILN_F16, KILN_SHAPE(2, 3), "eye"));
    for (int i = 0; i < 6; i++) assert_true(v[i] == (i % 4 == 0));
    free(v);
}

static void wrong_texts_are_named(void **state)
{
    static const char *const bad[] = {"",
                                      "normal(",
                                      "normal()",
                                      "normal(-1)",
                                      "normal(1, 2)",
                                      "one",
                                      "1x",
                                      "normal(1)x",
                                      "he_normal(-2)",
                                      "he_normal(nan)",
                                      "he_normal(gelu)",
                                      "he_normal(relu, 1)",
                                      "he_normal(leaky_relu, x)",
                                      "he_normal(leaky_relu, 1, 2)",
                                      "he_normal(relu, fan_in)",
                                      "xavier_normal(fan_out)",
                                      "orthogonal(fan_out)",
                                      "lecun_normal(1)",
                                      "dirac(0)",
                                      "dirac(1.5)",
                                      "eye(1)",
                                      "constant",
                                      "constant(x)",
                                      "he_normal(relu,)",
                                      "he_normal(1))",
                                      "a name that is longer than any there is, by far(1)"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(kiln_initializer(dev, KILN_F32, KILN_SHAPE(2, 2, 2), bad[i]));
        expect_error(KILN_E_ARGUMENT, "\"he_uniform\", \"he_normal\"");
    }
    assert_null(kiln_initializer(dev, KILN_F32, KILN_SHAPE(2), "orthogonal"));
    expect_error(KILN_E_SHAPE, "\"orthogonal\" needs two axes, the rank is 1");
    assert_null(kiln_initializer(dev, KILN_F32, KILN_SHAPE(2, 2), "dirac"));
    expect_error(KILN_E_SHAPE, "\"dirac\" needs three axes");
    assert_null(kiln_initializer(dev, KILN_F32, KILN_SHAPE(3, 2, 2), "dirac(2)"));
    expect_error(KILN_E_SHAPE, "\"dirac(2)\" of 3 output channels");
    assert_null(kiln_initializer(dev, KILN_F32, KILN_SHAPE(3, 2, 2), "eye"));
    expect_error(KILN_E_SHAPE, "\"eye\" needs two axes");
    assert_null(kiln_initializer(dev, KILN_F32, KILN_SHAPE(INT64_MAX / 2, 8), "eye"));
    expect_error(KILN_E_SHAPE, "too large");
}

// --- layers

static void layers_begin_as_elsewhere(void **state)
{
    kiln_cell *dense = kiln_nn_dense(dev, 100, 400, NULL);
    check_draw(kiln_cell_parameter(dense, "weight"), "dense weight", UNIFORM, 0.1 / sqrt(3));
    check_draw(kiln_cell_parameter(dense, "bias"), "dense bias", UNIFORM, 0.1 / sqrt(3));
    kiln_cell_free(&dense);
    kiln_cell *conv = kiln_nn_conv2d(dev, 8, 400, 5, KILN_NN_CONV2D(.bias = true, .groups = 4, .kernel_width = 2));
    check_draw(kiln_cell_parameter(conv, "weight"), "conv weight", UNIFORM, sqrt(1.0 / 20) / sqrt(3));
    check_draw(kiln_cell_parameter(conv, "bias"), "conv bias", UNIFORM, sqrt(1.0 / 20) / sqrt(3));
    kiln_cell_free(&conv);
    kiln_cell *table = kiln_nn_embedding(dev, 200, 50, NULL);
    check_draw(kiln_cell_parameter(table, "weight"), "embedding", NORMAL, 1);
    kiln_cell_free(&table);
    kiln_cell *norm = kiln_nn_batch_norm2d(dev, 3, NULL);
    double *gamma = values(kiln_cell_parameter(norm, "gamma")), *beta = values(kiln_cell_parameter(norm, "beta"));
    for (int i = 0; i < 3; i++) assert_true(gamma[i] == 1 && beta[i] == 0);
    free(gamma);
    free(beta);
    kiln_cell_free(&norm);
}

// --- names of others

static kiln_cell *small_net(void)
{
    return kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, 2, 3, NULL), kiln_nn_batch_norm2d(dev, 3, NULL),
                                         kiln_nn_layer_norm(dev, KILN_SHAPE(3), NULL)));
}

enum { N_STATE = 8 };
static const char *const own_names[N_STATE] = {"0.weight", "0.bias", "1.moving_mean", "1.moving_variance",
                                               "1.gamma",  "1.beta", "2.gamma",       "2.beta"};
static const char *const other_names[N_STATE] = {"0.weight", "0.bias", "1.running_mean", "1.running_var",
                                                 "1.weight", "1.bias", "2.weight",       "2.bias"};

static kiln_tensor *filled(int i, kiln_dtype dtype)
{
    return i ? kiln_full(dev, dtype, KILN_SHAPE(3), i + 1) : kiln_full(dev, dtype, KILN_SHAPE(3, 2), 1);
}

static void expect_filled(kiln_cell *net)
{
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < N_STATE; i++) {
            double *v = values(kiln_cell_parameter(net, (k ? other_names : own_names)[i]));
            assert_true(v[0] == i + 1 && v[2] == i + 1);
            free(v);
        }
    }
}

static const char *temporary(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/kiln-start-%d", (int)getpid());
    return path;
}

static kiln_archive *archive_of(const char *const *names, kiln_dtype dtype, const char *extra)
{
    const char *all[N_STATE + 1];
    kiln_tensor *tensors[N_STATE + 1];
    for (int i = 0; i < N_STATE; i++) {
        all[i] = names[i];
        tensors[i] = filled(i, dtype);
    }
    all[N_STATE] = extra;
    tensors[N_STATE] = kiln_full(dev, KILN_F32, KILN_SHAPE(3), 9);
    assert_int_equal(kiln_safetensors_save(temporary(), all, tensors, N_STATE + (extra != NULL)), KILN_OK);
    kiln_archive *a = kiln_safetensors_load(temporary());
    assert_non_null(a);
    unlink(temporary());
    return a;
}

static void archives_load_by_either_name(void **state)
{
    for (int k = 0; k < 3; k++) {
        kiln_cell *net = small_net();
        kiln_archive *a =
            archive_of(k ? other_names : own_names, k == 2 ? KILN_F16 : KILN_F32, k ? "1.num_batches_tracked" : NULL);
        assert_int_equal(kiln_cell_load(net, a, NULL), KILN_OK);
        expect_filled(net);
        assert_int_equal(kiln_tensor_dtype(kiln_cell_parameter(net, "0.weight")), KILN_F32);
        kiln_archive_free(&a);
        kiln_cell_free(&net);
    }
}

// What does not fit changes nothing.
static void archives_that_do_not_fit(void **state)
{
    kiln_cell *net = small_net();
    double *before = values(kiln_cell_parameter(net, "0.weight"));
    kiln_archive *a = archive_of(other_names, KILN_F32, "2.gamma");
    kiln_cell_load(net, a, NULL);
    expect_error(KILN_E_ARGUMENT, "cell_load: there is both \"2.gamma\" and \"2.weight\"");
    kiln_cell_load(net, a, KILN_CELL_LOAD(.partial = true));
    expect_error(KILN_E_ARGUMENT, "two names of one tensor");
    kiln_cell_load(net, a, KILN_CELL_LOAD(.prefix = "net."));
    expect_error(KILN_E_ARGUMENT, "the file has no \"net.0.weight\"");
    kiln_archive_free(&a);
    a = archive_of(other_names, KILN_F32, "3.weight");
    kiln_cell_load(net, a, NULL);
    expect_error(KILN_E_ARGUMENT, "cell_load: the file has \"3.weight\", the cell has no such tensor");
    kiln_archive_free(&a);
    a = archive_of(other_names, KILN_I32, NULL);
    kiln_cell_load(net, a, NULL);
    expect_error(KILN_E_DTYPE, "cell_load: \"0.weight\" is i32, in the cell f32");
    kiln_archive_free(&a);
    kiln_tensor *w = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3));
    assert_int_equal(kiln_safetensors_save(temporary(), other_names, &w, 1), KILN_OK);
    a = kiln_safetensors_load(temporary());
    unlink(temporary());
    kiln_cell_load(net, a, NULL);
    expect_error(KILN_E_ARGUMENT, "cell_load: the file has no \"0.bias\"");
    kiln_cell_load(net, a, KILN_CELL_LOAD(.partial = true));
    expect_error(KILN_E_SHAPE, "cell_load: \"0.weight\" is [2,3], in the cell [3,2]");
    kiln_archive_free(&a);
    double *after = values(kiln_cell_parameter(net, "0.weight"));
    assert_memory_equal(before, after, 6 * sizeof *before);
    free(before);
    free(after);
    kiln_cell_free(&net);
}

static void prefixes_and_parts(void **state)
{
    kiln_cell *net = small_net();
    const char *names[] = {"model.0.bias", "head.weight"};
    kiln_tensor *tensors[] = {kiln_full(dev, KILN_F32, KILN_SHAPE(3), 5), kiln_ones(dev, KILN_F32, KILN_SHAPE(1))};
    assert_int_equal(kiln_safetensors_save(temporary(), names, tensors, 2), KILN_OK);
    kiln_archive *a = kiln_safetensors_load(temporary());
    unlink(temporary());
    assert_int_equal(kiln_cell_load(net, a, KILN_CELL_LOAD(.prefix = "model.", .partial = true)), KILN_OK);
    double *bias = values(kiln_cell_parameter(net, "0.bias"));
    assert_true(bias[0] == 5 && bias[2] == 5);
    free(bias);
    kiln_archive_free(&a);
    kiln_cell_free(&net);
}

struct told {
    int n[3];
    char names[200];
};

static void note_problem(void *user, kiln_load_problem problem, const char *name, const char *message)
{
    struct told *told = user;
    told->n[problem]++;
    strncat(told->names, name, sizeof told->names - strlen(told->names) - 2);
    strcat(told->names, " ");
    assert_non_null(strstr(message, name));
}

static const char *from_trunk(void *user, const char *name)
{
    static char to[64];
    if (!strcmp(name, "skipped")) return NULL;
    snprintf(to, sizeof to, "%s", strncmp(name, "trunk/", 6) ? name : name + 6);
    return to;
}

// Missing, unexpected and misshaped ones are told of all at once; names may be given anew.
static void all_problems_at_once(void **state)
{
    kiln_cell *net = small_net();
    const char *names[] = {"trunk/0.weight", "trunk/0.bias", "extra", "skipped"};
    kiln_tensor *tensors[4];
    for (int i = 0; i < 4; i++) tensors[i] = kiln_full(dev, KILN_F32, KILN_SHAPE(i == 1 ? 3 : 2), 5);
    assert_int_equal(kiln_safetensors_save(temporary(), names, tensors, 4), KILN_OK);
    kiln_archive *a = kiln_safetensors_load(temporary());
    unlink(temporary());
    struct told told = {0};
    kiln_cell_load(net, a, KILN_CELL_LOAD(.rename = from_trunk, .report = note_problem, .user = &told));
    assert_true(told.n[KILN_LOAD_MISSING] == N_STATE - 2 && told.n[KILN_LOAD_UNEXPECTED] == 1);
    assert_int_equal(told.n[KILN_LOAD_MISFIT], 1);
    assert_non_null(strstr(told.names, "extra 0.weight"));
    assert_non_null(strstr(kiln_error_message(), "the file has \"extra\""));
    expect_error(KILN_E_ARGUMENT, "\"0.weight\" is [2], in the cell [3,2]");
    kiln_archive_free(&a);
    assert_int_equal(kiln_safetensors_save(temporary(), names + 1, tensors + 1, 3), KILN_OK);
    a = kiln_safetensors_load(temporary());
    unlink(temporary());
    told = (struct told){0};
    kiln_cell_load(net, a,
                   KILN_CELL_LOAD(.rename = from_trunk, .report = note_problem, .user = &told, .partial = true));
    assert_int_equal(kiln_error(), KILN_OK);
    assert_true(told.n[KILN_LOAD_MISSING] == N_STATE - 1 && told.n[KILN_LOAD_UNEXPECTED] == 1);
    double *bias = values(kiln_cell_parameter(net, "0.bias"));
    assert_true(bias[0] == 5);
    free(bias);
    kiln_archive_free(&a);
    kiln_cell_free(&net);
}

static void checkpoints_restore_by_either_name(void **state)
{
    for (int k = 0; k < 2; k++) {
        kiln_cell *net = small_net();
        kiln_checkpoint *c = kiln_checkpoint_create();
        kiln_tensor *tensors[N_STATE];
        for (int i = 0; i < N_STATE; i++) tensors[i] = filled(i, KILN_F32);
        kiln_checkpoint_put(c, k ? other_names : own_names, tensors, N_STATE);
        assert_int_equal(kiln_cell_restore(net, c), KILN_OK);
        expect_filled(net);
        kiln_checkpoint_put(c, (const char *[]){k ? "1.gamma" : "1.weight"}, tensors + 1, 1);
        kiln_cell_restore(net, c);
        expect_error(KILN_E_ARGUMENT, "cell_restore: there is both \"1.gamma\" and \"1.weight\"");
        kiln_checkpoint_free(&c);
        c = kiln_checkpoint_create();
        kiln_cell_restore(net, c);
        expect_error(KILN_E_ARGUMENT, "cell_restore: the checkpoint has no \"0.weight\"");
        kiln_checkpoint_free(&c);
        kiln_cell_free(&net);
    }
}

static kiln_status construct(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                             size_t n_out)
{
    out[0] = in[0];
    return KILN_OK;
}

// A cell that has both names means two things by them.
static void both_names_in_one_cell(void **state)
{
    kiln_cell *cell = kiln_cell_create(KILN_CELL(.construct = construct));
    kiln_cell_make_parameter(cell, "gamma", dev, KILN_F32, KILN_SHAPE(1), "2");
    kiln_cell_make_parameter(cell, "weight", dev, KILN_F32, KILN_SHAPE(1), "3");
    assert_true(kiln_item(kiln_cell_parameter(cell, "gamma")) == 2);
    assert_true(kiln_item(kiln_cell_parameter(cell, "weight")) == 3);
    kiln_checkpoint *c = kiln_checkpoint_create();
    kiln_tensor *t = kiln_full(dev, KILN_F32, KILN_SHAPE(1), 7);
    kiln_checkpoint_put(c, (const char *[]){"weight"}, &t, 1);
    kiln_cell_restore(cell, c);
    expect_error(KILN_E_ARGUMENT, "the checkpoint has no \"gamma\"");
    kiln_checkpoint_free(&c);
    kiln_cell_free(&cell);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(draws_have_their_moments),
        TEST(constants_are_what_they_say),
        TEST(orthogonal_matrices_are),
        TEST(kernels_hand_on),
        TEST(wrong_texts_are_named),
        TEST(layers_begin_as_elsewhere),
        TEST(archives_load_by_either_name),
        TEST(archives_that_do_not_fit),
        TEST(all_problems_at_once),
        TEST(prefixes_and_parts),
        TEST(checkpoints_restore_by_either_name),
        TEST(both_names_in_one_cell),
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
        kiln_set_device(dev);
        failures += _cmocka_run_group_tests(devices[i], tests, sizeof tests / sizeof *tests, NULL, NULL);
        kiln_device_close(&dev);
    }
    return failures != 0;
}
