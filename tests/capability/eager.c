// Rows 2, 12, 13, 14, 16 and 25: ops run in the order of the code, on the device that is asked for; reads; control
// flow.
#include "capability.h"

// --- 2: ops are executed in the order of the code; the reverse graph grows during the forward pass

static size_t reverse_nodes(kiln_tensor *t)
{
    kiln_graph *g = kiln_backward_graph(t);
    if (!g) fail_msg("%s", kiln_error_message());
    size_t n = kiln_graph_node_count(g);
    kiln_graph_free(&g);
    return n;
}

static void run_in_order(kiln_device *dev)
{
    kiln_tensor *x = kiln_parameter(from(dev, NUMBERS(0.5, 1, -1), KILN_SHAPE(3)), "x");
    uint64_t launches = stats_of(dev).launches;
    kiln_tensor *square = kiln_mul(x, x);
    assert_int_equal(stats_of(dev).launches, launches + 1);
    EXPECT(square, 1e-6, 0.25, 1, 1);
    launches = stats_of(dev).launches;
    size_t nodes = reverse_nodes(square);
    assert_true(nodes > 0);

    kiln_tensor *e = kiln_exp(square);
    assert_int_equal(stats_of(dev).launches, launches + 1);
    assert_true(reverse_nodes(e) > nodes);
    nodes = reverse_nodes(e);
    kiln_tensor *loss = kiln_sum(e, NULL);
    assert_true(reverse_nodes(loss) > nodes);
    EXPECT(loss, 1e-6, exp(0.25) + 2 * exp(1));

    // Nothing ran backwards so far; now it does.
    assert_null(kiln_gradient(x));
    assert_int_equal(kiln_backward(loss, NULL), KILN_OK);
    EXPECT(kiln_gradient(x), 1e-5, exp(0.25), 2 * exp(1), -2 * exp(1));
    // Without a parameter nothing is recorded.
    assert_false(kiln_requires_grad(kiln_mul(square, kiln_ones(dev, KILN_F32, KILN_SHAPE(3)))) &&
                 !kiln_requires_grad(square));
    assert_false(kiln_requires_grad(kiln_exp(kiln_ones(dev, KILN_F32, KILN_SHAPE(3)))));
}

void capability_02(void **state)
{
    on_each_device(run_in_order);
}

// --- 12: the front end picks the device, then the kernel for it

static kiln_tensor *small_program(void)
{
    kiln_tensor *x = kiln_arange(NULL, KILN_F32, 0, 6, 1);
    return kiln_matmul(kiln_reshape(kiln_mul(x, kiln_scalar(0.5)), KILN_SHAPE(2, 3)),
                       kiln_ones(NULL, KILN_F32, KILN_SHAPE(3, 2)));
}

void capability_12(void **state)
{
    kiln_device *list[] = {cpu(), vulkan()};
    for (int i = 0; i < 2; i++) {
        if (!list[i]) continue;
        kiln_device *other = list[1 - i];
        uint64_t idle = other ? stats_of(other).launches : 0, launches = stats_of(list[i]).launches;
        kiln_scope *scope = kiln_scope_begin();
        assert_int_equal(kiln_set_device(list[i]), KILN_OK);
        assert_ptr_equal(kiln_get_device(), list[i]);
        kiln_tensor *y = small_program();
        assert_ptr_equal(kiln_tensor_device(y), list[i]);
        EXPECT(y, 1e-6, 1.5, 1.5, 6, 6);
        assert_true(stats_of(list[i]).launches >= launches + 2);
        if (other) assert_int_equal(stats_of(other).launches, idle);
        kiln_scope_end(&scope);
    }
    EXPECT_NO_ERROR();

    // By environment, as a program that names none takes it.
    assert_int_equal(setenv("KILN_DEVICE", "null", 1), 0);
    kiln_device *dev = kiln_device_open(NULL);
    kiln_device_info info = {.size = sizeof info};
    assert_int_equal(kiln_device_get_info(dev, &info), KILN_OK);
    assert_string_equal(info.kind, "null");
    kiln_device_close(&dev);
    assert_int_equal(unsetenv("KILN_DEVICE"), 0);
}

// --- 13: targets, and a name that is none

void capability_13(void **state)
{
    kiln_device_info info = {.size = sizeof info};
    assert_int_equal(kiln_device_get_info(cpu(), &info), KILN_OK);
    assert_string_equal(info.kind, "cpu");
    assert_true(info.threads >= 1);
    if (vulkan()) {
        assert_int_equal(kiln_device_get_info(vulkan(), &info), KILN_OK);
        assert_string_equal(info.kind, "vulkan");
        assert_true(info.memory_B > 0 && strlen(info.name) > 0 && strlen(info.driver) > 0);
        kiln_device *first = kiln_device_open("vulkan:0");
        assert_non_null(first);
        kiln_device_close(&first);
        assert_null(kiln_device_open("vulkan:99"));
        EXPECT_ERROR(KILN_E_MISSING, "vulkan:99", "eager.c:");
    }
    assert_null(kiln_device_open("ascend"));
    EXPECT_ERROR(KILN_E_ARGUMENT, "device_open", "\"ascend\"", "cpu", "null", KILN_WITH_VULKAN ? "vulkan" : "cpu",
                 "eager.c:");
    assert_null(kiln_device_open("cpux"));
    EXPECT_ERROR(KILN_E_ARGUMENT, "\"cpux\"");
    assert_null(kiln_device_open("cpu:1"));
    EXPECT_ERROR(KILN_E_ARGUMENT, "\"cpu:1\"", "built in");
}

// --- 14: the same program, other hardware, the same numbers; an op that a device lacks runs on the CPU

enum { STEPS = 3, WEIGHTS = 4 };

// A small convolutional network trained from the same seed: its losses.
static void train(kiln_device *dev, double *losses)
{
    kiln_seed(dev, 11);
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(
        kiln_nn_conv2d(dev, 1, 4, 3, KILN_NN_CONV2D(.pad_mode = "same", .bias = true)), kiln_nn_relu(),
        kiln_nn_max_pool2d(KILN_POOL2D(.kernel = {2, 2})), kiln_nn_flatten(), kiln_nn_dense(dev, 4 * 4 * 4, 5, NULL)));
    if (!net) fail_msg("%s", kiln_error_message());
    kiln_tensor *params[WEIGHTS] = {NULL};
    assert_int_equal(kiln_cell_parameters(net, params, WEIGHTS), WEIGHTS);
    kiln_optim *opt = kiln_optim_sgd(params, WEIGHTS, KILN_SGD(.lr = 0.1, .momentum = 0.9));
    for (int i = 0; i < STEPS; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = kiln_normal(dev, KILN_F32, KILN_SHAPE(6, 1, 8, 8), 0, 1);
        kiln_tensor *labels = kiln_randint(dev, KILN_I64, KILN_SHAPE(6), 0, 5);
        kiln_tensor *loss = kiln_cross_entropy(kiln_cell_call(net, x), labels, NULL);
        kiln_backward(loss, NULL);
        kiln_optim_step(opt);
        losses[i] = kiln_item(loss);
        kiln_scope_end(&scope);
    }
    EXPECT_NO_ERROR();
    kiln_optim_free(&opt);
    kiln_cell_free(&net);
}

static int n_warnings;
static char warning[512];

static void keep_warning(void *user, const char *message)
{
    n_warnings++;
    snprintf(warning, sizeof warning, "%s", message);
}

// The name of a pointwise row with one input that the Vulkan device leaves to the CPU in f64.
static const char *missing_row(void)
{
    for (size_t i = 0; i < kiln_kernel_count(); i++) {
        kiln_kernel_info k = {.size = sizeof k};
        assert_int_equal(kiln_kernel_get_info(i, &k), KILN_OK);
        if (k.cpu_only && k.inputs == 1 && !k.scalars && !strcmp(k.kind, "pointwise") && !strcmp(k.dtype, "f64") &&
            !strchr(k.row, '.'))
            return k.row;
    }
    return NULL;
}

static void fall_back(kiln_device *dev, const char *row)
{
    const double v[] = {0.25, 0.5, 0.75};
    kiln_tensor *there = kiln_from_data(dev, KILN_F64, KILN_SHAPE(3), v),
                *here = kiln_from_data(cpu(), KILN_F64, KILN_SHAPE(3), v);
    kiln_device_stats before = stats_of(dev);
    kiln_set_log(keep_warning, NULL);
    double a[3] = {0}, b[3] = {0};
    for (int i = 0; i < 2; i++) assert_int_equal(kiln_read(kiln_apply(row, &there, 1), a, sizeof a), KILN_OK);
    assert_int_equal(kiln_read(kiln_apply(row, &here, 1), b, sizeof b), KILN_OK);
    assert_memory_equal(a, b, sizeof a);
    kiln_set_log(NULL, NULL);
    kiln_device_stats after = stats_of(dev);
    assert_int_equal(after.fallbacks - before.fallbacks, 2);
    // Down and up for the op each time, and the reads: counted.
    assert_true(after.copies_B - before.copies_B >= 2 * 3 * sizeof a);
    assert_int_equal(n_warnings, 1);
    if (!strstr(warning, row) || !strstr(warning, "CPU")) fail_msg("the warning says \"%s\"", warning);

    assert_int_equal(kiln_device_set_strict(dev, true), KILN_OK);
    assert_null(kiln_apply(row, &there, 1));
    EXPECT_ERROR(KILN_E_UNSUPPORTED, row, "strict", "eager.c:");
    assert_int_equal(kiln_device_set_strict(dev, false), KILN_OK);
    assert_int_equal(stats_of(dev).fallbacks, after.fallbacks);
}

void capability_14(void **state)
{
    double here[STEPS], there[STEPS];
    train(cpu(), here);
    assert_true(here[0] > 0.5 && here[0] < 10);
    assert_true(here[0] != here[1]);
    if (!vulkan()) return;
    train(vulkan(), there);
    for (int i = 0; i < STEPS; i++) {
        if (!(fabs(here[i] - there[i]) <= 1e-4 * here[i]))
            fail_msg("step %d: %.8g on the CPU, %.8g on the Vulkan device", i, here[i], there[i]);
    }
    const char *row = missing_row();
    assert_non_null(row);
    kiln_scope *scope = kiln_scope_begin();
    fall_back(vulkan(), row);
    kiln_scope_end(&scope);
}

// --- 16: reading is where the host waits; printing looks as NumPy's does

static void expect_text(kiln_tensor *t, const char *want)
{
    char *text = kiln_to_string(t);
    if (!text) fail_msg("%s", kiln_error_message());
    assert_string_equal(text, want);
    free(text);
}

static void read_and_print(kiln_device *dev)
{
    kiln_tensor *x = kiln_zeros(dev, KILN_I32, KILN_SHAPE(1000));
    for (int i = 0; i < 300; i++) assert_int_equal(kiln_add_(x, kiln_scalar_int(i)), KILN_OK);
    int32_t v[1000];
    assert_int_equal(kiln_read(x, v, sizeof v), KILN_OK);
    for (int i = 0; i < 1000; i++) assert_int_equal(v[i], 299 * 300 / 2);
    assert_int_equal(kiln_item_int(kiln_sum(x, NULL)), 1000 * (299 * 300 / 2));

    // As NumPy 1.26 prints them.
    expect_text(kiln_mul(from(dev, NUMBERS(1, 2, 3), KILN_SHAPE(3)), from(dev, NUMBERS(4, 5, 6), KILN_SHAPE(3))),
                "[ 4. 10. 18.]");
    expect_text(kiln_full(dev, KILN_F32, KILN_SHAPE(1, 3, 1, 4), 2),
                "[[[[2. 2. 2. 2.]]\n\n  [[2. 2. 2. 2.]]\n\n  [[2. 2. 2. 2.]]]]");
    expect_text(from(dev, NUMBERS(9.02, 5.4, 7.2), KILN_SHAPE(1, 3)), "[[9.02 5.4  7.2 ]]");
    expect_text(kiln_arange(dev, KILN_I64, 1, 4, 1), "[1 2 3]");
    expect_text(from(dev, NUMBERS(1e-5, 1), KILN_SHAPE(2)), "[1.e-05 1.e+00]");
    expect_text(kiln_less(from(dev, NUMBERS(1, 3), KILN_SHAPE(2)), kiln_scalar(2)), "[ True False]");
    expect_text(kiln_full(dev, KILN_F32, KILN_SHAPE0, 0.5), "0.5");
    expect_text(kiln_zeros(dev, KILN_F32, KILN_SHAPE(0, 3)), "[]");
    FILE *f = tmpfile();
    assert_non_null(f);
    kiln_print(kiln_arange(dev, KILN_F32, 0, 3, 1), f);
    rewind(f);
    char line[64] = "";
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "[0. 1. 2.]\n");
    fclose(f);
}

void capability_16(void **state)
{
    on_each_device(read_and_print);
    if (!vulkan()) return;
    // Handing over waits for nothing; the read does.
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_ones(vulkan(), KILN_F32, KILN_SHAPE(64));
    for (int i = 0; i < 50; i++) x = kiln_add(x, x);
    assert_int_equal(kiln_device_synchronize(vulkan()), KILN_OK);
    uint64_t waits = stats_of(vulkan()).waits;
    for (int i = 0; i < 50; i++) x = kiln_add(x, x);
    assert_int_equal(stats_of(vulkan()).waits, waits);
    assert_true(kiln_item(kiln_select(x, 0, 0)) == 0x1p100);
    assert_true(stats_of(vulkan()).waits > waits);
    kiln_scope_end(&scope);
}

// --- 25: the control flow of the host, unrolled; gradients of the ops that ran

// x^n with the first n for which the power passes 50; negated when n is even.
static kiln_status grow(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    int *n = user;
    kiln_tensor *y = in[0];
    for (*n = 1; kiln_item(y) < 50; ++*n) y = kiln_mul(y, in[0]);
    if (*n % 2 == 0) y = kiln_neg(y);
    out[0] = y;
    return kiln_error();
}

static void follow(kiln_device *dev)
{
    const double starts[] = {2, 3, 4, 60};
    const int powers[] = {6, 4, 3, 1};
    for (int i = 0; i < 4; i++) {
        int n = 0;
        double x = starts[i], sign = powers[i] % 2 ? 1 : -1;
        kiln_tensor *in = from(dev, &x, KILN_SHAPE0), *both[2] = {NULL};
        assert_int_equal(kiln_value_and_grad(grow, &n, &in, 1, NULL, both, 2), KILN_OK);
        assert_int_equal(n, powers[i]);
        EXPECT(both[0], 1e-6, sign * pow(x, n));
        EXPECT(both[1], 1e-6, sign * n * pow(x, n - 1));
    }
    // The tape holds what ran, not the loop: twice the turns, twice the nodes.
    size_t nodes[3] = {0};
    for (int turns = 1; turns <= 2; turns++) {
        kiln_tensor *w = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(2)), "w"), *y = w;
        for (int i = 0; i < 8 * turns; i++) y = i % 2 ? kiln_sin(y) : kiln_exp(y);
        nodes[turns] = reverse_nodes(y);
    }
    assert_int_equal(nodes[2], 2 * nodes[1]);
}

void capability_25(void **state)
{
    on_each_device(follow);
}
