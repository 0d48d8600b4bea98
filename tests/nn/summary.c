// kiln_cell_summary: its table, the counts by hand, and that it leaves everything as it was.
#include <kiln/control.h>
#include <kiln/nn.h>
#include <kiln/ops.h>
#include <kiln/random.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kiln_device *dev;
static kiln_scope *scope;

static int begin(void **state)
{
    kiln_error_clear();
    kiln_seed(dev, 7);
    scope = kiln_scope_begin();
    return scope ? 0 : -1;
}

static int end(void **state)
{
    if (kiln_error()) fprintf(stderr, "left pending: %s\n", kiln_error_message());
    int failed = kiln_error() ? -1 : 0;
    kiln_error_clear();
    kiln_scope_end(&scope);
    return failed;
}

static char *summary(kiln_cell *cell, kiln_tensor *const *in, size_t n_in, size_t n_out)
{
    char *text = NULL;
    size_t size_B = 0;
    FILE *f = open_memstream(&text, &size_B);
    kiln_status status = kiln_cell_summary_n(cell, in, n_in, n_out, f);
    fclose(f);
    if (status) fprintf(stderr, "%s\n", kiln_error_message());
    assert_int_equal(status, KILN_OK);
    return text;
}

static void expect(kiln_cell *cell, kiln_tensor *x, const char *want)
{
    char *text = summary(cell, &x, 1, 1);
    assert_string_equal(text, want);
    free(text);
}

static void expect_part(kiln_cell *cell, kiln_tensor *x, const char *part)
{
    char *text = summary(cell, &x, 1, 1);
    if (!strstr(text, part)) fprintf(stderr, "no \"%s\" in\n%s", part, text);
    assert_non_null(strstr(text, part));
    free(text);
}

static kiln_cell *small_net(void)
{
    return kiln_nn_sequential(KILN_CELLS(kiln_nn_conv2d(dev, 1, 4, 3, KILN_NN_CONV2D(.pad_mode = "same", .bias = true)),
                                         kiln_nn_batch_norm2d(dev, 4, NULL), kiln_nn_relu(), kiln_nn_dropout(0.5),
                                         kiln_nn_max_pool2d(KILN_POOL2D(.kernel = {2, 2})), kiln_nn_flatten(),
                                         kiln_nn_dense(dev, 4 * 4 * 4, 10, NULL)));
}

// 4 kernels of 3 x 3 at 8 x 8 places of 2 images: 4,608 products; 64 x 10 of 2 rows: 1,280.
static void a_table(void **state)
{
    kiln_cell *net = small_net();
    expect(net, kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 1, 8, 8)),
           "cell                    output        parameters  bytes  trained  multiply-adds\n"
           "sequential              f32[2,10]            698  2,792  yes              5,888\n"
           "  0: conv2d 1 → 4, 3×3  f32[2,4,8,8]          40    160  yes              4,608\n"
           "  1: batch_norm2d 4     f32[2,4,8,8]           8     32  yes\n"
           "  2: relu               f32[2,4,8,8]\n"
           "  3: dropout            f32[2,4,8,8]\n"
           "  4: max_pool2d         f32[2,4,4,4]\n"
           "  5: flatten            f32[2,64]\n"
           "  6: dense 64 → 10      f32[2,10]            650  2,600  yes              1,280\n"
           "698 parameters of 2,792 bytes; buffers: 8 elements of 32 bytes; 5,888 multiply-adds\n");
    kiln_cell_free(&net);
}

static void expect_same(kiln_tensor *t, const float *want)
{
    float now[4];
    kiln_read(t, now, sizeof now);
    assert_memory_equal(now, want, sizeof now);
}

// A call in training moves the statistics and draws; a summary does neither, launches nothing and leaves no gradient.
static void nothing_changes(void **state)
{
    kiln_cell *net = small_net();
    kiln_cell_set_training(net, true);
    kiln_generator *g = kiln_generator_new(3), *before = kiln_use_generator(g);
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 1, 8, 8));
    kiln_tensor *mean = kiln_cell_parameter(net, "1.moving_mean"), *w = kiln_cell_parameter(net, "0.weight");
    kiln_device_stats stats = {.size = sizeof stats}, after = {.size = sizeof after};
    uint64_t seed, offset, version = kiln_tensor_version(mean);
    const float zeros[4] = {0};
    expect_same(mean, zeros);
    kiln_device_get_stats(dev, &stats);
    expect_part(net, x, "dropout            f32[2,4,8,8]\n");
    kiln_device_get_stats(dev, &after);
    assert_int_equal(after.launches, stats.launches);
    assert_int_equal(kiln_tensor_version(mean), version);
    expect_same(mean, zeros);
    kiln_generator_state(g, &seed, &offset);
    assert_int_equal(offset, 0);
    assert_null(kiln_gradient(w));
    assert_true(kiln_cell_is_training(net));
    assert_true(kiln_grad_enabled());

    float moved[4];
    kiln_cell_call(net, x);
    kiln_read(mean, moved, sizeof moved);
    assert_memory_not_equal(moved, zeros, sizeof moved);
    kiln_generator_state(g, &seed, &offset);
    assert_int_not_equal(offset, 0);
    kiln_use_generator(before);
    kiln_generator_free(&g);
    kiln_cell_free(&net);
}

static void frozen_parts(void **state)
{
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, 3, 2, NULL), kiln_nn_dense(dev, 2, 2, NULL)));
    kiln_cell_set_requires_grad(kiln_cell_child(net, "0"), false);
    kiln_set_requires_grad(kiln_cell_parameter(net, "1.bias"), false);
    expect(net, kiln_ones(dev, KILN_F32, KILN_SHAPE(5, 3)),
           "cell              output    parameters  bytes  trained  multiply-adds\n"
           "sequential        f32[5,2]          14     56  in part             50\n"
           "  0: dense 3 → 2  f32[5,2]           8     32  no                  30\n"
           "  1: dense 2 → 2  f32[5,2]           6     24  in part             20\n"
           "14 parameters of 56 bytes, 4 of them trained; 50 multiply-adds\n");
    kiln_cell_free(&net);
}

// Weights that two cells share are counted in both, and once above them.
static void shared_weights(void **state)
{
    kiln_cell *a = kiln_nn_dense(dev, 3, 3, KILN_NN_DENSE(.no_bias = true)), *b = kiln_nn_identity();
    kiln_cell_add_parameter(b, "tied", kiln_cell_parameter(a, "weight"));
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(a, b));
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 3));
    expect_part(net, x, "0: dense 3 → 3  f32[1,3]           9     36  yes");
    expect_part(net, x, "1: identity     f32[1,3]           9     36  yes");
    expect_part(net, x, "\n9 parameters of 36 bytes; 9 multiply-adds\n");
    kiln_cell_free(&net);
}

// --- cells of the user's

static int host_calls;

static kiln_status twice(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                         size_t n_out)
{
    host_calls++;
    kiln_tensor *h = kiln_cell_call(kiln_cell_child(cell, "step"), in[0]);
    if (kiln_item(kiln_sum(h, NULL)) > -1e9) h = kiln_cell_call(kiln_cell_child(cell, "step"), h);
    out[0] = kiln_add(h, user);
    out[1] = kiln_cast(h, KILN_F64);
    return kiln_error();
}

// A child that is called twice and one that is not; a value is read on the way, and a tensor of no cell used.
static void a_cell_of_the_users(void **state)
{
    kiln_tensor *outside = kiln_ones(dev, KILN_F32, KILN_SHAPE(2)), *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(4, 2));
    kiln_cell *net = kiln_cell_create(KILN_CELL(.kind = "twice", .construct = twice, .user = outside));
    kiln_cell_add_child(net, "step", kiln_nn_dense(dev, 2, 2, KILN_NN_DENSE(.no_bias = true)));
    kiln_cell_add_child(net, "rest", kiln_nn_relu());
    host_calls = 0;
    char *text = summary(net, &x, 1, 2);
    assert_string_equal(text, "cell                 output              parameters  bytes  trained  multiply-adds\n"
                              "twice                f32[4,2], f64[4,2]           4     16  yes                 32\n"
                              "  step: dense 2 → 2  f32[4,2] (2 calls)           4     16  yes                 32\n"
                              "  rest: relu         not called\n"
                              "4 parameters of 16 bytes; 32 multiply-adds\n");
    free(text);
    assert_int_equal(host_calls, 1);
    kiln_cell_free(&net);
}

static kiln_status layer(void *cell, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_cell_call(cell, in[1]); // in[0] is the trip
    return kiln_error();
}

static kiln_status loop(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                        size_t n_out)
{
    return kiln_for(kiln_scalar_int(7), layer, kiln_cell_child(cell, "step"), in, 1, NULL, out, 1);
}

// The trips of a loop count.
static void loops(void **state)
{
    kiln_cell *net = kiln_cell_create(KILN_CELL(.kind = "loop", .construct = loop, .n_in = 1, .n_out = 1));
    kiln_cell_add_child(net, "step", kiln_nn_dense(dev, 2, 2, NULL));
    expect_part(net, kiln_ones(dev, KILN_F32, KILN_SHAPE(3, 2)), "; 84 multiply-adds\n");
    kiln_cell_free(&net);
}

// The shapes of a transformer's parts, and a sum that is known: 4 width^2 + 2 width hidden a place, and the attention.
static void transformers(void **state)
{
    kiln_cell *net = kiln_nn_multi_head_attention(dev, 16, 2, NULL);
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(3, 5, 16));
    expect_part(net, x, "f32[3,5,16]");
    expect_part(net, x, "; 17,760 multiply-adds\n"); // 3 * 5 * 4 * 16 * 16 + 3 * 2 * 5 * 5 * 16
    kiln_cell_free(&net);
}

// --- errors

static kiln_status breaks(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                          size_t n_out)
{
    return *(bool *)user ? KILN_E_STATE : ((out[0] = in[0]), KILN_OK);
}

static kiln_status captured(void *cell, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = in[0];
    return kiln_cell_summary(cell, in[0], stderr);
}

static void expect_error(kiln_status status, kiln_status want, const char *part)
{
    assert_int_equal(status, want);
    if (!strstr(kiln_error_message(), part)) fprintf(stderr, "no \"%s\" in %s\n", part, kiln_error_message());
    assert_non_null(strstr(kiln_error_message(), part));
    kiln_error_clear();
}

static void failures(void **state)
{
    bool fail = true;
    kiln_cell *net = kiln_cell_create(KILN_CELL(.kind = "own", .construct = breaks, .user = &fail));
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(2)), *gone = kiln_ones(dev, KILN_F32, KILN_SHAPE(2)), *out;
    expect_error(kiln_cell_summary(NULL, x, stdout), KILN_E_ARGUMENT, "cell_summary: cell is NULL");
    expect_error(kiln_cell_summary(net, NULL, stdout), KILN_E_ARGUMENT, "cell_summary: x is NULL");
    expect_error(kiln_cell_summary(net, x, NULL), KILN_E_ARGUMENT, "cell_summary: f is NULL");
    expect_error(kiln_cell_summary_n(net, NULL, 1, 1, stdout), KILN_E_ARGUMENT, "cell_summary: in is NULL");
    kiln_tensor *freed = gone;
    kiln_free(&gone);
    expect_error(kiln_cell_summary(net, freed, stdout), KILN_E_HANDLE, "cell_summary");
    expect_error(kiln_cell_summary(net, x, stdout), KILN_E_STATE, "own cell: construct failed");
    fail = false;
    expect_part(net, x, "own   f32[2]\n"); // the failure left nothing
    expect_part(net, x, "\n0 parameters of 0 bytes; 0 multiply-adds\n");
    kiln_function *f = kiln_jit(captured, net, NULL);
    expect_error(kiln_call(f, &x, 1, &out, 1), KILN_E_STATE, "cell_summary: is asked for inside of a capture");
    kiln_function_free(&f);
    kiln_cell_free(&net);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(a_table), TEST(nothing_changes), TEST(frozen_parts), TEST(shared_weights), TEST(a_cell_of_the_users),
        TEST(loops),   TEST(transformers),    TEST(failures),
    };
    dev = kiln_device_open("cpu");
    if (!dev) return 1;
    kiln_set_device(dev);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_device_close(&dev);
    return failures != 0;
}
