// What the pictures of the guide show, run for draw.py: `pictures way`, `e3` or `auto`.
#include <kiln/kiln.h>

#include <stdio.h>
#include <string.h>

static kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(kiln_mul(in[0], kiln_scalar(0.5)), in[1]);
    return kiln_error();
}

static kiln_status way(kiln_device *dev)
{
    kiln_tensor *in[] = {kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 4)), kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 4))}, *out;
    kiln_mul(in[0], in[1]);
    kiln_function *f = kiln_jit(chain, NULL, NULL);
    kiln_call(f, in, 2, &out, 1);
    kiln_function_free(&f);
    return kiln_error();
}

static kiln_status construct(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                             size_t n_out)
{
    out[0] = kiln_matmul(kiln_mul(in[0], kiln_cell_parameter(cell, "z")), in[1]);
    return kiln_error();
}

static kiln_status e3(kiln_device *dev)
{
    kiln_cell *net = kiln_cell_create(KILN_CELL(.kind = "net", .construct = construct, .n_in = 2, .n_out = 1));
    kiln_cell_make_parameter(net, "z", dev, KILN_F32, KILN_SHAPE(1), "2.0");
    kiln_tensor *in[] = {kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3)), kiln_ones(dev, KILN_F32, KILN_SHAPE(3, 3))}, *out;
    kiln_function *f = kiln_jit(kiln_cell_fn, net, KILN_JIT(.print_after_all = true));
    kiln_call(f, in, 2, &out, 1);
    kiln_set_requires_grad(in[0], true);
    kiln_cell_call_n(net, in, 2, &out, 1);
    kiln_graph *g = kiln_backward_graph(out);
    kiln_graph_print(g, stdout);
    kiln_graph_free(&g);
    kiln_function_free(&f);
    kiln_cell_free(&net);
    return kiln_error();
}

static kiln_status clipped(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *norm = kiln_sqrt(kiln_sum(kiln_square(in[0]), NULL));
    out[0] = kiln_mul(in[0], kiln_scalar(2));
    if (kiln_item(norm) > 10) out[0] = kiln_div(out[0], norm);
    return kiln_error();
}

static kiln_status automatic(kiln_device *dev)
{
    kiln_function *f = kiln_jit(clipped, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    for (int i = 0; i < 4; i++) {
        kiln_tensor *x = kiln_full(dev, KILN_F32, KILN_SHAPE(4), i < 3 ? 1 : 100), *out;
        kiln_call(f, &x, 1, &out, 1);
    }
    kiln_explain(f, stdout);
    kiln_function_free(&f);
    return kiln_error();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    kiln_device *dev = kiln_device_open(NULL);
    kiln_scope *scope = kiln_scope_begin();
    kiln_status status = !strcmp(what, "way")    ? way(dev)
                         : !strcmp(what, "e3")   ? e3(dev)
                         : !strcmp(what, "auto") ? automatic(dev)
                                                 : KILN_E_ARGUMENT;
    if (status) fprintf(stderr, "%s: %s\n", what, kiln_error_message());
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return status != KILN_OK;
}
