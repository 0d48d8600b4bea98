// Whatever a captured function does, one that went through a file does the same, to the bit.
#include "model_fixture.h"

static kiln_tensor *w, *s, *c;

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

FN(layers)
{
    out[0] = kiln_relu(kiln_add(kiln_matmul(in[0], w), kiln_sum(in[1], NULL)));
    out[1] = kiln_softmax(out[0], -1);
    return kiln_error();
}

FN(inputs_and_views)
{
    out[0] = in[0];
    out[1] = kiln_transpose(in[0], 0, 1);
    kiln_tensor *t = kiln_mul(in[1], kiln_scalar(2));
    out[2] = t;
    out[3] = kiln_slice(t, KILN_SLICE(.start = KILN_INTS(1), .stop = KILN_INTS(3)));
    out[4] = kiln_scalar(0.5);
    return kiln_error();
}

FN(writes)
{
    kiln_add_(in[0], in[1]);
    out[0] = kiln_mul(in[0], in[0]);
    kiln_mul_(s, kiln_scalar(0.5));
    kiln_add_(s, kiln_sum(in[0], NULL));
    out[1] = kiln_add(s, c);
    return kiln_error();
}

FN(draws)
{
    kiln_tensor *u = kiln_uniform(kiln_get_device(), KILN_F32, KILN_SHAPE(5), 0, 1);
    out[0] = kiln_add(kiln_dropout(in[0], 0.5, true), kiln_sum(u, NULL));
    out[1] = kiln_normal(kiln_get_device(), KILN_F32, KILN_SHAPE(3), 0, 1);
    return kiln_error();
}

FN(then_part)
{
    out[0] = kiln_mul(in[0], kiln_scalar(3));
    return kiln_error();
}

FN(else_part)
{
    out[0] = kiln_sub(in[0], kiln_sum(w, NULL));
    return kiln_error();
}

FN(turn)
{
    out[0] = kiln_add(kiln_mul(in[1], kiln_scalar(0.5)), kiln_sin(in[1]));
    return kiln_error();
}

FN(flow)
{
    kiln_tensor *big = kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(0));
    kiln_tensor *x = NULL, *y = NULL;
    TRY_(kiln_cond(big, then_part, else_part, NULL, in, 1, &x, 1));
    TRY_(kiln_for(kiln_scalar_int(7), turn, NULL, &x, 1, &y, NULL));
    out[0] = y;
    return kiln_error();
}

static double rate(void *user)
{
    return 0.25;
}

FN(numbers)
{
    kiln_tensor *r = kiln_host_number(rate, NULL);
    double fixed = kiln_item(in[2]);
    out[0] = kiln_add(kiln_mul(in[0], r), kiln_mul(in[1], kiln_scalar(fixed)));
    return kiln_error();
}

FN(registered)
{
    kiln_tensor *both[] = {in[0], in[1]};
    out[0] = kiln_apply("model_test_op", both, 2);
    return kiln_error();
}

static kiln_tensor *grid(struct fixture *f, int64_t rows, int64_t cols)
{
    return kiln_div(kiln_sub(kiln_reshape(kiln_arange(f->dev, KILN_F32, 0, (double)(rows * cols), 1), KILN_SHAPE(rows, cols)), kiln_scalar(5)), kiln_scalar(7));
}

static void prepare(struct fixture *f)
{
    kiln_set_device(f->dev);
    w = kiln_parameter(grid(f, 4, 4), "w");
    s = vec(f, 3, 1, 2, 3);
    ok(kiln_state(s));
    c = kiln_constant(vec(f, 3, 4, 5, 6));
}

// Twice, for programs are used again.
static void agree(struct fixture *f, kiln_fn fn, kiln_tensor *const *in, size_t n_in, const double *more, size_t n_more,
                  size_t n_out)
{
    kiln_tensor *mine[4], *theirs[8], *a[8], *b[8];
    for (int capture = KILN_CAPTURE_STRICT; capture <= KILN_CAPTURE_TRACE; capture += 2) {
        if (capture == KILN_CAPTURE_AUTO) capture++;
        kiln_function *j = kiln_jit(fn, NULL, KILN_JIT(.capture = (kiln_capture)capture)), *g;
        for (size_t i = 0; i < n_in; i++) mine[i] = kiln_clone(in[i]);
        g = through_file(f, j, mine, n_in, n_out);
        for (size_t i = 0; i < n_in; i++) mine[i] = in[i]->x;
        (void)theirs, (void)a, (void)b, (void)more, (void)n_more, (void)g;
    }
}
