// A network whose cells have the names of a file of PyTorch, with the file's weights: what it computes is what PyTorch
// computed. The guide quotes it.
#include <kiln/kiln.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static kiln_device *dev;

static const char *golden(const char *name)
{
    static char path[2][4096];
    static int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s/golden/io/%s", getenv("KILN_TEST_SOURCE_DIR"), name);
    return path[turn];
}

// --- quoted

static kiln_cell *conv(int64_t in, int64_t out, int64_t size, int64_t stride)
{
    return kiln_nn_conv2d(dev, in, out, size,
                          KILN_NN_CONV2D(.stride = {stride, stride}, .padding = {size / 2, size / 2}, .no_bias = true));
}

static kiln_tensor *call(kiln_cell *cell, const char *child, kiln_tensor *x)
{
    return kiln_cell_call(kiln_cell_child(cell, child), x);
}

static kiln_status run_block(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                             size_t n_out)
{
    kiln_tensor *x = in[0], *y = kiln_relu(call(cell, "bn1", call(cell, "conv1", x)));
    y = call(cell, "bn2", call(cell, "conv2", y));
    out[0] = kiln_relu(kiln_add(y, user ? call(cell, "downsample", x) : x));
    return kiln_error();
}

static kiln_cell *block(int64_t in, int64_t out, int64_t stride)
{
    bool down = stride != 1 || in != out;
    kiln_cell *cell = kiln_cell_create(
        KILN_CELL(.kind = "block", .construct = run_block, .user = down ? &dev : NULL, .n_in = 1, .n_out = 1));
    kiln_cell_add_child(cell, "conv1", conv(in, out, 3, stride));
    kiln_cell_add_child(cell, "bn1", kiln_nn_batch_norm2d(dev, out, NULL));
    kiln_cell_add_child(cell, "conv2", conv(out, out, 3, 1));
    kiln_cell_add_child(cell, "bn2", kiln_nn_batch_norm2d(dev, out, NULL));
    if (down)
        kiln_cell_add_child(
            cell, "downsample",
            kiln_nn_sequential(KILN_CELLS(conv(in, out, 1, stride), kiln_nn_batch_norm2d(dev, out, NULL))));
    return cell;
}

static kiln_status run_net(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                           size_t n_out)
{
    kiln_tensor *x = kiln_relu(call(cell, "bn1", call(cell, "conv1", in[0])));
    x = call(cell, "layer2", call(cell, "layer1", x));
    out[0] = call(cell, "fc", kiln_mean(x, KILN_REDUCE(.axes = KILN_AXES(2, 3))));
    return kiln_error();
}

static kiln_cell *make_net(void)
{
    kiln_cell *net = kiln_cell_create(KILN_CELL(.kind = "net", .construct = run_net, .n_in = 1, .n_out = 1));
    kiln_cell_add_child(net, "conv1", conv(3, 4, 3, 1));
    kiln_cell_add_child(net, "bn1", kiln_nn_batch_norm2d(dev, 4, NULL));
    kiln_cell_add_child(net, "layer1", kiln_nn_sequential(KILN_CELLS(block(4, 4, 1))));
    kiln_cell_add_child(net, "layer2", kiln_nn_sequential(KILN_CELLS(block(4, 6, 2), block(6, 6, 1))));
    kiln_cell_add_child(net, "fc", kiln_nn_dense(dev, 6, 5, NULL));
    return net;
}

static kiln_status load_net(kiln_cell *net, const char *path)
{
    kiln_archive *file = kiln_archive_load(path);
    kiln_status status = kiln_cell_load(net, file, NULL);
    kiln_archive_free(&file);
    return status ? status : kiln_error();
}

// --- tests

static void compare(kiln_tensor *got, kiln_tensor *want)
{
    double off = kiln_item(kiln_max(kiln_abs(kiln_sub(got, want)), NULL)),
           top = kiln_item(kiln_max(kiln_abs(want), NULL));
    if (kiln_error()) fail_msg("%s", kiln_error_message());
    if (!(top > 0.1 && off < 1e-5 * top)) fail_msg("off by %g of %g", off, top);
}

static void cells_have_the_names_of_a_file(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_cell *net = make_net();
    if (load_net(net, golden("resnet.pth"))) fail_msg("%s", kiln_error_message());
    kiln_archive *values = kiln_archive_load(golden("resnet.npz"));
    kiln_tensor *x = kiln_archive_get(values, dev, "x"), *y = kiln_archive_get(values, dev, "y");
    kiln_cell_set_training(net, false);
    compare(kiln_cell_call(net, x), y);
    kiln_cell_jit(net, NULL);
    compare(kiln_cell_call(net, x), y);
    kiln_archive_free(&values);
    kiln_cell_free(&net);
    kiln_scope_end(&scope);
}

// Another head: the rest is loaded, and what does not fit is told.
static void note(void *user, kiln_load_problem problem, const char *name, const char *message)
{
    char *told = user;
    snprintf(told + strlen(told), 200 - strlen(told), "%d %s; ", (int)problem, name);
}

static void other_heads_stay(void **state)
{
    kiln_cell *net = make_net();
    char told[200] = "";
    kiln_archive *file = kiln_archive_load(golden("resnet.pth"));
    kiln_cell *trunk = kiln_cell_create(KILN_CELL(.construct = run_net, .n_in = 1, .n_out = 1));
    kiln_cell_add_child(trunk, "conv1", conv(3, 4, 3, 1));
    kiln_cell_add_child(trunk, "head", kiln_nn_dense(dev, 6, 2, NULL));
    assert_int_equal(kiln_cell_load(trunk, file, KILN_CELL_LOAD(.partial = true, .report = note, .user = told)),
                     KILN_OK);
    assert_non_null(strstr(told, "0 head.weight; 0 head.bias; "));
    assert_non_null(strstr(told, "1 bn1."));
    kiln_scope *scope = kiln_scope_begin();
    compare(kiln_cell_parameter(kiln_cell_child(trunk, "conv1"), "weight"),
            kiln_archive_get(file, dev, "conv1.weight"));
    kiln_scope_end(&scope);
    kiln_archive_free(&file);
    kiln_cell_free(&trunk);
    kiln_cell_free(&net);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cells_have_the_names_of_a_file),
                                       cmocka_unit_test(other_heads_stay)};
    dev = kiln_device_open(argc > 1 ? argv[1] : "cpu");
    if (!dev) return 77;
    kiln_set_device(dev);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_device_close(&dev);
    return failed;
}
