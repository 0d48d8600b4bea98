// A network of one multiplication, as a cell: [1 2 3] * [4 5 6]. In graph mode cells run as graphs; then op by op.
#include "check.h"

static kiln_status construct(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                             size_t n_out)
{
    out[0] = kiln_mul(in[0], in[1]);
    return kiln_error();
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    kiln_cell *net = kiln_cell_create(KILN_CELL(.kind = "net", .construct = construct, .n_in = 2, .n_out = 1));
    kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(3), (float[]){1, 2, 3});
    kiln_tensor *y = kiln_from_data(dev, KILN_F32, KILN_SHAPE(3), (float[]){4, 5, 6});
    kiln_tensor *in[] = {x, y}, *out = NULL;
    kiln_set_mode(KILN_MODE_GRAPH);
    kiln_cell_call_n(net, in, 2, &out, 1);
    int failures = check_text("x * y, as a graph", out, "[ 4. 10. 18.]");

    kiln_set_mode(KILN_MODE_EAGER);
    kiln_cell_call_n(net, in, 2, &out, 1);
    failures += check_text("x * y", out, "[ 4. 10. 18.]");
    kiln_cell_free(&net);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
