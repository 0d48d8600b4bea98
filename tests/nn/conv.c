// Cells of convolution, pooling and other sizes: what they compute is what the ops give of their parameters, which have
// references of their own; their options, names and errors.
#include <kiln/composites.h>
#include <kiln/nn_images.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
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
    kiln_scope_end(&scope);
    return kiln_error() ? -1 : 0;
}

// The cell gives `want` of x, eagerly and as a graph, and has a gradient by each of its parameters. Frees it.
static void gives(kiln_cell *cell, kiln_tensor *x, kiln_tensor *want)
{
    kiln_tensor *params[4], *first[4];
    for (int graph = 0; graph < 2; graph++) {
        if (graph) kiln_cell_jit(cell, NULL);
        kiln_tensor *y = kiln_cell_call(cell, x);
        kiln_tensor *off = kiln_max(kiln_abs(kiln_sub(y, want)), NULL);
        if (kiln_error()) fail_msg("%s", kiln_error_message());
        assert_int_equal(kiln_rank(y), kiln_rank(want));
        assert_memory_equal(kiln_dims(y), kiln_dims(want), kiln_rank(y) * sizeof(int64_t));
        assert_true(kiln_item(off) < 1e-5);
        kiln_backward(kiln_sum(kiln_square(y), NULL), NULL);
        size_t n = kiln_cell_parameters(cell, params, 4);
        for (size_t i = 0; i < n; i++) {
            kiln_tensor *g = kiln_gradient(params[i]);
            assert_non_null(g);
            if (!graph) first[i] = kiln_contiguous(g);
            kiln_tensor *other = kiln_sub(g, first[i]);
            double size = kiln_item(kiln_max(kiln_abs(first[i]), NULL));
            assert_true(size > 0 && kiln_item(kiln_max(kiln_abs(other), NULL)) < 1e-5 * size);
        }
    }
    assert_int_equal(kiln_error(), KILN_OK);
    kiln_cell_free(&cell);
}

static void has_weight(kiln_cell *cell, size_t rank, const int64_t *dims)
{
    kiln_tensor *w = kiln_cell_parameter(cell, "weight");
    if (!w) fail_msg("%s", kiln_error_message());
    assert_int_equal(kiln_rank(w), rank);
    assert_memory_equal(kiln_dims(w), dims, rank * sizeof *dims);
}

static kiln_tensor *normal(size_t rank, const int64_t *dims)
{
    return kiln_normal(dev, KILN_F32, rank, dims, 0, 1);
}

#define W kiln_cell_parameter(cell, "weight")
#define B kiln_cell_parameter(cell, "bias")

static void lines(void **state)
{
    kiln_tensor *x = normal(KILN_SHAPE(2, 4, 9));
    kiln_cell *cell = kiln_nn_conv1d(dev, 4, 6, 3, NULL);
    has_weight(cell, KILN_SHAPE(6, 4, 3));
    gives(cell, x, kiln_conv1d(x, W, NULL));
    cell = kiln_nn_conv1d(
        dev, 4, 6, 3,
        KILN_NN_CONV1D(.stride = 2, .padding = 2, .dilation = 2, .groups = 2, .bias = true, .bias_init = "0.5"));
    has_weight(cell, KILN_SHAPE(6, 2, 3));
    assert_string_equal(kiln_cell_kind(cell), "conv1d");
    assert_true(kiln_item(kiln_min(B, NULL)) == 0.5);
    gives(cell, x, kiln_conv1d(x, W, KILN_CONV1D(.bias = B, .stride = 2, .padding = 2, .dilation = 2, .groups = 2)));
    cell = kiln_nn_conv1d(dev, 4, 3, 4, KILN_NN_CONV1D(.stride = 2, .pad_mode = "same"));
    gives(cell, x, kiln_conv1d(x, W, KILN_CONV1D(.stride = 2, .same = true)));
    cell = kiln_nn_conv_transpose1d(dev, 4, 3, 5,
                                    KILN_NN_CONV_TRANSPOSE(.stride = {3}, .output_padding = {2}, .bias = true));
    has_weight(cell, KILN_SHAPE(4, 3, 5));
    gives(cell, x, kiln_conv_transpose1d(x, W, KILN_CONV_TRANSPOSE1D(.bias = B, .stride = 3, .output_padding = 2)));
}

static void images(void **state)
{
    kiln_tensor *x = normal(KILN_SHAPE(2, 4, 3, 5));
    kiln_cell *cell = kiln_nn_conv_transpose2d(
        dev, 4, 6, 3,
        KILN_NN_CONV_TRANSPOSE(.kernel = {0, 4}, .stride = {2, 1}, .padding = {1, 0}, .output_padding = {1, 0},
                               .dilation = {1, 2}, .groups = 2, .bias = true, .bias_init = "normal"));
    has_weight(cell, KILN_SHAPE(4, 3, 3, 4));
    gives(cell, x,
          kiln_conv_transpose2d(x, W,
                                KILN_CONV_TRANSPOSE2D(.bias = B, .stride = {2, 1}, .padding = {1, 0},
                                                      .output_padding = {1, 0}, .dilation = {1, 2}, .groups = 2)));
}

static void volumes(void **state)
{
    kiln_tensor *x = normal(KILN_SHAPE(1, 2, 3, 4, 5));
    kiln_cell *cell = kiln_nn_conv3d(dev, 2, 4, 2,
                                     KILN_NN_CONV3D(.kernel_width = 3, .stride = {1, 2, 1}, .padding = {1, 0, 1},
                                                    .groups = 2, .bias = true, .dtype = KILN_F32));
    has_weight(cell, KILN_SHAPE(4, 1, 2, 2, 3));
    gives(cell, x, kiln_conv3d(x, W, KILN_CONV3D(.bias = B, .stride = {1, 2, 1}, .padding = {1, 0, 1}, .groups = 2)));
    cell = kiln_nn_conv3d(dev, 2, 4, 3, KILN_NN_CONV3D(.pad_mode = "same"));
    gives(cell, x, kiln_conv3d(x, W, KILN_CONV3D(.padding = {1, 1, 1})));
    cell = kiln_nn_conv_transpose3d(dev, 2, 3, 2, KILN_NN_CONV_TRANSPOSE(.stride = {2, 1, 2}, .bias = true));
    has_weight(cell, KILN_SHAPE(2, 3, 2, 2, 2));
    gives(cell, x, kiln_conv_transpose3d(x, W, KILN_CONV_TRANSPOSE3D(.bias = B, .stride = {2, 1, 2})));
}

static void pools(void **state)
{
    kiln_tensor *line = normal(KILN_SHAPE(2, 3, 9)), *volume = normal(KILN_SHAPE(1, 2, 4, 5, 6));
    line = kiln_parameter(line, "line"), volume = kiln_parameter(volume, "volume");
    gives(kiln_nn_max_pool1d(KILN_POOL1D(.kernel = 3, .stride = 2)), line,
          kiln_max_pool1d(line, KILN_POOL1D(.kernel = 3, .stride = 2)));
    gives(kiln_nn_avg_pool1d(KILN_POOL1D(.kernel = 2, .padding = 1)), line,
          kiln_avg_pool1d(line, KILN_POOL1D(.kernel = 2, .padding = 1)));
    gives(kiln_nn_max_pool3d(KILN_POOL3D(.kernel = {2, 2, 3})), volume,
          kiln_max_pool3d(volume, KILN_POOL3D(.kernel = {2, 2, 3})));
    gives(kiln_nn_avg_pool3d(KILN_POOL3D(.kernel = {2, 2, 3})), volume,
          kiln_avg_pool3d(volume, KILN_POOL3D(.kernel = {2, 2, 3})));
    gives(kiln_nn_adaptive_avg_pool(KILN_SHAPE(4)), line, kiln_adaptive_avg_pool1d(line, 4));
    gives(kiln_nn_adaptive_max_pool(KILN_SHAPE(3, 2, 0)), volume, kiln_adaptive_max_pool3d(volume, 3, 2, 0));
    gives(kiln_nn_adaptive_avg_pool(KILN_SHAPE(2, 3, 1)), volume, kiln_adaptive_avg_pool3d(volume, 2, 3, 1));
    kiln_tensor *image = kiln_parameter(normal(KILN_SHAPE(1, 2, 4, 5)), "image");
    gives(kiln_nn_adaptive_avg_pool(KILN_SHAPE(1, 3)), image, kiln_adaptive_avg_pool2d(image, 1, 3));
    gives(kiln_nn_adaptive_max_pool(KILN_SHAPE(2, 5)), image, kiln_adaptive_max_pool2d(image, 2, 5));
    gives(kiln_nn_upsample(KILN_INTERPOLATE(.scale = 2)), image, kiln_interpolate(image, KILN_INTERPOLATE(.scale = 2)));
}

// The cell keeps copies of what its options point to.
static void upsampling(void **state)
{
    int64_t sizes[] = {7, 3};
    char mode[] = "bicubic";
    kiln_tensor *image = kiln_parameter(normal(KILN_SHAPE(1, 2, 4, 5)), "image");
    kiln_tensor *want = kiln_interpolate(image, KILN_INTERPOLATE(.sizes = {2, sizes}, .mode = mode));
    kiln_cell *cell = kiln_nn_upsample(KILN_INTERPOLATE(.sizes = {2, sizes}, .mode = mode));
    sizes[0] = sizes[1] = 1;
    memset(mode, 'x', sizeof mode - 1);
    gives(cell, image, want);
}

static void same(kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *off = kiln_max(kiln_abs(kiln_sub(a, b)), NULL);
    if (kiln_error()) fail_msg("%s", kiln_error_message());
    assert_int_equal(kiln_rank(a), kiln_rank(b));
    assert_memory_equal(kiln_dims(a), kiln_dims(b), kiln_rank(a) * sizeof(int64_t));
    assert_true(kiln_item(off) == 0);
}

static void wrong(const void *made, const char *message)
{
    assert_null(made);
    assert_int_equal(kiln_error(), KILN_E_ARGUMENT);
    if (!strstr(kiln_error_message(), message)) fail_msg("%s", kiln_error_message());
    kiln_error_clear();
}

// One number without braces sets the first of an array: of sizes, which cannot be zero, it is all of them.
static void first_size_alone_is_all(void **state)
{
    kiln_tensor *x = normal(KILN_SHAPE(1, 2, 8, 9)), *w = normal(KILN_SHAPE(3, 2, 3, 3));
    kiln_tensor *volume = normal(KILN_SHAPE(1, 2, 6, 7, 8)), *w3 = normal(KILN_SHAPE(3, 2, 2, 2, 2));
    same(kiln_conv2d(x, w, KILN_CONV2D(.stride = {2}, .dilation = {2})),
         kiln_conv2d(x, w, KILN_CONV2D(.stride = {2, 2}, .dilation = {2, 2})));
    same(kiln_conv2d(x, w, KILN_CONV2D(.stride = {0, 2})), kiln_conv2d(x, w, KILN_CONV2D(.stride = {1, 2})));
    same(kiln_max_pool2d(x, KILN_POOL2D(.kernel = {2})), kiln_max_pool2d(x, KILN_POOL2D(.kernel = {2, 2})));
    same(kiln_avg_pool2d(x, KILN_POOL2D(.kernel = {3}, .stride = {2}, .dilation = {2})),
         kiln_avg_pool2d(x, KILN_POOL2D(.kernel = {3, 3}, .stride = {2, 2}, .dilation = {2, 2})));
    same(kiln_unfold(x, KILN_UNFOLD(.kernel = {2}, .stride = {2})),
         kiln_unfold(x, KILN_UNFOLD(.kernel = {2, 2}, .stride = {2, 2})));
    same(kiln_conv3d(volume, w3, KILN_CONV3D(.stride = {2})),
         kiln_conv3d(volume, w3, KILN_CONV3D(.stride = {2, 2, 2})));
    same(kiln_max_pool3d(volume, KILN_POOL3D(.kernel = {2})),
         kiln_max_pool3d(volume, KILN_POOL3D(.kernel = {2, 2, 2})));
    kiln_cell *cell = kiln_nn_conv2d(dev, 2, 3, 3, KILN_NN_CONV2D(.stride = {2}, .dilation = {2}));
    gives(cell, x, kiln_conv2d(x, W, KILN_CONV2D(.stride = {2, 2}, .dilation = {2, 2})));
    cell = kiln_nn_conv3d(dev, 2, 3, 2, KILN_NN_CONV3D(.stride = {2}));
    gives(cell, volume, kiln_conv3d(volume, W, KILN_CONV3D(.stride = {2, 2, 2})));
    cell = kiln_nn_conv_transpose2d(dev, 2, 3, 5, KILN_NN_CONV_TRANSPOSE(.kernel = {2}, .stride = {2}));
    has_weight(cell, KILN_SHAPE(2, 3, 2, 2));
    gives(cell, x, kiln_conv_transpose2d(x, W, KILN_CONV_TRANSPOSE2D(.stride = {2, 2})));
    gives(kiln_nn_max_pool2d(KILN_POOL2D(.kernel = {2})), x, kiln_max_pool2d(x, KILN_POOL2D(.kernel = {2, 2})));
}

static void some_sizes_are_none(void **state)
{
    kiln_tensor *volume = normal(KILN_SHAPE(1, 2, 6, 7, 8)), *w = normal(KILN_SHAPE(3, 2, 2, 2, 2));
    wrong(kiln_conv3d(volume, w, KILN_CONV3D(.stride = {2, 3})),
          "conv3d: .stride is {2, 3, 0}: give all three, or the first alone for all");
    wrong(kiln_max_pool3d(volume, KILN_POOL3D(.kernel = {2, 0, 3})), "max_pool3d: .kernel is {2, 0, 3}: ");
    wrong(kiln_nn_conv3d(dev, 2, 3, 2, KILN_NN_CONV3D(.dilation = {1, 2})), "nn_conv3d: .dilation is {1, 2, 0}: ");
    wrong(kiln_nn_conv_transpose3d(dev, 2, 3, 2, KILN_NN_CONV_TRANSPOSE(.kernel = {4, 3})),
          "nn_conv_transpose3d: .kernel is {4, 3, 0}: ");
}

static char warning[200];

static void hear(void *user, const char *message)
{
    snprintf(warning, sizeof warning, "%s", message);
}

static void hears(kiln_cell *cell, const char *message)
{
    if (!cell) fail_msg("%s", kiln_error_message());
    if (message ? !strstr(warning, message) : *warning) fail_msg("%s", *warning ? warning : "no warning");
    *warning = 0;
    kiln_cell_free(&cell);
}

// A padding of {1, 0} is legal, and mostly not meant.
static void padding_of_one_axis_is_told(void **state)
{
    kiln_set_log(hear, NULL);
    hears(kiln_nn_conv2d(dev, 2, 3, 3, KILN_NN_CONV2D(.padding = {1})),
          "nn_conv2d: .padding is {1, 0}, which pads the height alone; {1, 1} is a ring");
    hears(kiln_nn_conv3d(dev, 2, 3, 3, KILN_NN_CONV3D(.padding = {2})),
          "nn_conv3d: .padding is {2, 0, 0}, which pads the depth alone; {2, 2, 2} is all around");
    hears(kiln_nn_conv2d(dev, 2, 3, 3, KILN_NN_CONV2D(.padding = {1, 1})), NULL);
    hears(kiln_nn_conv2d(dev, 2, 3, 3, KILN_NN_CONV2D(.kernel_width = 5, .padding = {1})), NULL);
    hears(kiln_nn_conv1d(dev, 2, 3, 3, KILN_NN_CONV1D(.padding = 1)), NULL);
    kiln_set_log(NULL, NULL);
}

static uint64_t launches(void)
{
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(dev, &s);
    return s.launches;
}

// Values, gradients and the kernels that run are those of the mean over all places.
static void whole_average_is_the_mean(void **state)
{
    kiln_tensor *images[] = {normal(KILN_SHAPE(2, 3, 7, 5)), kiln_cast(normal(KILN_SHAPE(2, 3, 7, 5)), KILN_BF16)};
    for (int i = 0; i < 2; i++) {
        kiln_tensor *x = kiln_parameter(images[i], "x"), *y[2], *g[2];
        uint64_t n[3] = {launches()};
        for (int k = 0; k < 2; k++) {
            y[k] = k ? kiln_adaptive_avg_pool2d(x, 1, 1) : kiln_global_avg_pool(x);
            kiln_backward(kiln_sum(kiln_square(y[k]), NULL), NULL);
            g[k] = kiln_contiguous(kiln_gradient(x));
            n[1 + k] = launches();
        }
        same(y[0], y[1]);
        same(g[0], g[1]);
        assert_int_equal(n[2] - n[1], n[1] - n[0]);
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines, begin, end),
        cmocka_unit_test_setup_teardown(images, begin, end),
        cmocka_unit_test_setup_teardown(volumes, begin, end),
        cmocka_unit_test_setup_teardown(pools, begin, end),
        cmocka_unit_test_setup_teardown(upsampling, begin, end),
        cmocka_unit_test_setup_teardown(first_size_alone_is_all, begin, end),
        cmocka_unit_test_setup_teardown(some_sizes_are_none, begin, end),
        cmocka_unit_test_setup_teardown(padding_of_one_axis_is_told, begin, end),
        cmocka_unit_test_setup_teardown(whole_average_is_the_mean, begin, end),
    };
    dev = kiln_device_open("cpu");
    if (!dev) return 1;
    kiln_set_default_device(dev);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_device_close(&dev);
    return failed;
}
