// Rows of a forward computation with its gradients: the first inputs of a case are what it is differentiated by, the
// last one is the gradient of its result. All of it is given back, so that nothing can be left out.
#include "bench.h"

static kiln_status forward(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct state *s = user;
    (void)n_in, (void)n_out;
    return s->c->forward(s, in, out);
}

void own_sensitivity(struct state *s)
{
    size_t n = count_inputs(s);
    kiln_tensor *y = NULL;
    if (kiln_error() || s->c->forward(s, s->in, &y)) return;
    own_input(s, (int)n, kiln_normal(s->dev, kiln_tensor_dtype(y), (size_t)kiln_rank(y), kiln_dims(y), 0, 1));
}

kiln_status run_gradients(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    size_t n = 0;
    int64_t first[STATE_INPUTS] = {0, 1, 2, 3};
    while (n < STATE_INPUTS && in[n]) n++;
    kiln_tensor *sensitivity = in[n - 1];
    return kiln_value_and_grad(forward, s, in, n - 1,
                               KILN_GRAD(.wrt = {(size_t)s->c->wrt, first}, .sens = {1, &sensitivity}), out,
                               (size_t)s->c->wrt + 1);
}

kiln_status setup_gelu_grad(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(s->z->n));
    own_sensitivity(s);
    s->bytes = 16.0 * (double)s->z->n;
    return kiln_error();
}
