// Row 11: eager mode and each kind of capture agree, on each device: ops of all tables, a network in training.
#include "subject.h"

static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE};

// Eagerly on each device as eagerly on the CPU; captures are compared with eager mode in between.c.
static void compare_devices(kiln_device *dev, kiln_dtype dtype, struct subject *s)
{
    kiln_tensor *in[SUBJECT_INPUTS], *want[OUTPUTS], *got[OUTPUTS];
    kiln_scope *scope = kiln_scope_begin();
    subject_inputs(s, cpu(), dtype, in);
    must(kiln_seed(cpu(), 7));
    kiln_status status = s->fn(s, in, s->n_in, want, s->n_out);
    if (status && status != KILN_E_DTYPE) fail_msg("%s: %s", s->name, kiln_error_message());
    kiln_error_clear();
    subject_inputs(s, dev, dtype, in);
    must(kiln_seed(dev, 7));
    if (s->fn(s, in, s->n_in, got, s->n_out) != status) fail_msg("%s: %s", s->name, kiln_error_message());
    kiln_error_clear();
    for (size_t i = 0; i < s->n_out && !status; i++) expect_same(kiln_to_device(got[i], cpu()), want[i], s->name);
    kiln_scope_end(&scope);
}

static void compare_ops(kiln_device *dev)
{
    if (dev == cpu()) return;
    assert_true(for_each_subject(dev, KILN_F32, compare_devices) >= 180);
    for_each_subject(dev, KILN_I32, compare_devices);
}

// A network in training: convolution, normalisation, dropout; loss, gradients and update are one function.
struct training {
    kiln_cell *net;
    kiln_optim *adam;
};

static kiln_status train(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct training *t = user;
    kiln_optim_zero_grad(t->adam);
    out[0] = kiln_cross_entropy(kiln_cell_call(t->net, in[0]), in[1], NULL);
    kiln_backward(out[0], NULL);
    return kiln_optim_step(t->adam);
}

static void training_init(struct training *t, kiln_device *dev)
{
    kiln_tensor *params[16];
    must(kiln_seed(dev, 3));
    t->net = kiln_nn_sequential(KILN_CELLS(kiln_nn_conv2d(dev, 1, 3, 3, KILN_NN_CONV2D(.bias = true)),
                                           kiln_nn_batch_norm2d(dev, 3, NULL), kiln_nn_relu(),
                                           kiln_nn_max_pool2d(KILN_POOL2D(.kernel = {2, 2})), kiln_nn_flatten(),
                                           kiln_nn_dropout(0.25), kiln_nn_dense(dev, 12, 4, NULL)));
    kiln_cell_set_training(t->net, true);
    size_t n = kiln_cell_parameters(t->net, params, 16);
    t->adam = kiln_optim_adam(params, n, KILN_ADAM(.lr = 0.01));
}

enum { STEPS = 4 };

// way 3: the thread in graph mode; -1: eager.
static void losses_of(kiln_device *dev, int way, double *losses)
{
    struct training t;
    kiln_scope *scope = kiln_scope_begin();
    training_init(&t, dev);
    kiln_tensor *in[] = {kiln_normal(dev, KILN_F32, KILN_SHAPE(8, 1, 6, 6), 0, 1),
                         kiln_randint(dev, KILN_I64, KILN_SHAPE(8), 0, 4)};
    bool captured = way >= 0 && way < 3;
    kiln_function *f = captured ? kiln_jit(train, &t, KILN_JIT(.capture = captures[way])) : NULL;
    must(kiln_set_mode(way == 3 ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
    for (int i = 0; i < STEPS; i++) {
        kiln_tensor *loss = NULL;
        must(f ? kiln_call(f, in, 2, &loss, 1) : train(&t, in, 2, &loss, 1));
        losses[i] = kiln_item(loss);
    }
    must(kiln_set_mode(KILN_MODE_EAGER));
    kiln_function_free(&f);
    kiln_optim_free(&t.adam);
    kiln_cell_free(&t.net);
    kiln_scope_end(&scope);
}

static void compare_training(kiln_device *dev)
{
    double want[STEPS], got[STEPS];
    losses_of(cpu(), -1, want);
    assert_true(want[0] > want[STEPS - 1]); // it learns
    for (int way = -1; way < 4; way++) {
        losses_of(dev, way, got);
        for (int i = 0; i < STEPS; i++)
            if (!(fabs(got[i] - want[i]) <= 1e-4 * (1 + want[i])))
                fail_msg("way %d, step %d: loss %.9g, eagerly on the CPU %.9g", way, i, got[i], want[i]);
    }
}

void capability_11(void **state)
{
    on_each_device(compare_ops);
    on_each_device(compare_training);
}
