// A program whose profile is known: test_facts.py reads the file that it leaves, and the lines that are marked here.
//
// usage: profiled DEVICE FILE
#include <kiln/kiln.h>

static kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *h = kiln_tanh(in[0]);   // line: fused tanh
    kiln_tensor *s = kiln_add(h, in[1]); // line: fused add
    out[0] = kiln_mul(s, 0.5);           // line: fused mul
    return kiln_error();
}

static kiln_status early(void *net, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_cell_call(net, in[0]); // line: early
    return kiln_error();
}

static kiln_status early_step(void *net, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_cell_call(net, in[0]); // line: early step
    out[0] = kiln_mean(kiln_mul(y, y), NULL);
    return kiln_backward(out[0], NULL);
}

static void early_block(kiln_cell *net, kiln_device *dev, kiln_tensor *x)
{
    float gradient[5 * 192];
    KILN_CAPTURE(dev)
    {
        kiln_tensor *y = kiln_cell_call(net, x); // line: early block
        KILN_CHECK(kiln_backward(kiln_mean(kiln_mul(y, y), NULL), NULL));
        KILN_CHECK(kiln_read(kiln_gradient(kiln_cell_parameter(net, "1.weight")), gradient, sizeof gradient));
    }
}

// All were captured before a profile began.
static void call_early(kiln_function *forward, kiln_function *step, kiln_tensor *x)
{
    kiln_tensor *y, *loss;
    KILN_CHECK(kiln_call(forward, &x, 1, &y, 1));
    KILN_CHECK(kiln_backward(kiln_mean(kiln_mul(y, y), NULL), NULL));
    KILN_CHECK(kiln_call(step, &x, 1, &loss, 1));
}

static kiln_tensor *values(kiln_device *dev, size_t rank, const int64_t *dims, kiln_dtype dtype)
{
    return kiln_cast(kiln_normal(dev, KILN_F32, rank, dims, 0, 1), dtype);
}

// Beside the file, for those who compare.
static void print_table(const char *path, const char *name, kiln_profile_by by)
{
    char beside[4096];
    snprintf(beside, sizeof beside, "%s.%s", path, name);
    FILE *f = fopen(beside, "w");
    KILN_CHECK(kiln_profile_print(f, KILN_PROFILE_PRINT(.by = by, .no_ceilings = true)));
    if (f) fclose(f);
}

int main(int argc, char **argv)
{
    static float host[16 * 10];
    if (argc != 3) return 2;
    kiln_device *dev = kiln_device_open(argv[1]);
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *a = values(dev, KILN_SHAPE(8, 4), KILN_F32), *b = values(dev, KILN_SHAPE(4, 3), KILN_F32),
                *half = values(dev, KILN_SHAPE(5, 6), KILN_F16), *row = values(dev, KILN_SHAPE(6), KILN_F32),
                *x = values(dev, KILN_SHAPE(2, 3, 8, 8), KILN_F32), *w = values(dev, KILN_SHAPE(4, 3, 3, 3), KILN_F32),
                *big = values(dev, KILN_SHAPE(16, 10), KILN_F32), *counts = values(dev, KILN_SHAPE(10), KILN_I32);
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_flatten(), kiln_nn_dense(dev, 192, 7, NULL)));
    kiln_function *captured = kiln_jit(chain, NULL, NULL);
    kiln_cell *known = kiln_nn_sequential(KILN_CELLS(kiln_nn_flatten(), kiln_nn_dense(dev, 192, 5, NULL)));
    kiln_cell *other = kiln_nn_sequential(KILN_CELLS(kiln_nn_flatten(), kiln_nn_dense(dev, 192, 5, NULL)));
    kiln_function *forward = kiln_jit(early, known, NULL), *step = kiln_jit(early_step, known, NULL);
    for (int i = 0; i < 4; i++) {
        call_early(forward, step, x);
        early_block(other, dev, x);
    }
    KILN_CHECK(kiln_profile_begin(argv[2]));

    kiln_matmul(a, b);                                       // line: matmul
    kiln_add(half, row);                                     // line: add
    kiln_gelu(big);                                          // line: gelu
    kiln_conv2d(x, w, NULL);                                 // line: conv2d
    kiln_softmax(big, -1);                                   // line: softmax
    kiln_add(counts, counts);                                // line: integers
    kiln_tensor *strided = kiln_transpose(big, 0, 1);        // a view, which launches nothing
    kiln_neg(strided);                                       // line: strided
    kiln_read(big, host, sizeof host);                       // line: download
    kiln_from_data(dev, KILN_F32, KILN_SHAPE(16, 10), host); // line: upload

    kiln_tensor *in[] = {big, kiln_sum(big, KILN_REDUCE(.axes = KILN_AXES(0))), NULL}, *out; // line: sum
    for (int i = 0; i < 3; i++) KILN_CHECK(kiln_call(captured, in, 2, &out, 1));             // line: call

    kiln_tensor *y = kiln_cell_call(net, x); // line: cell
    kiln_tensor *loss = kiln_mean(y, NULL);
    KILN_CHECK(kiln_backward(loss, NULL));

    call_early(forward, step, x);
    early_block(other, dev, x);

    kiln_scope *inner = kiln_scope_begin();
    kiln_zeros(dev, KILN_F32, KILN_SHAPE(1024, 1024)); // line: large
    kiln_scope_end(&inner);
    KILN_CHECK(kiln_profile_end());
    print_table(argv[2], "kernel", KILN_PROFILE_BY_KERNEL);
    print_table(argv[2], "line", KILN_PROFILE_BY_LINE);

    kiln_function_free(&captured);
    kiln_function_free(&forward);
    kiln_function_free(&step);
    kiln_cell_free(&known);
    kiln_cell_free(&other);
    kiln_cell_free(&net);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return kiln_error_report(__FILE__, __LINE__);
}
