// What a new size costs: the time of a captured function's first call with inputs of a size that it has not seen, less
// the time of later calls with the same. Sizes that are the first of their order of magnitude, for which kernels are
// compiled, are not counted.
#include "bench.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_SIZES = 400, LATER_CALLS = 4, ROWS = 8, LONGEST_ROW = 611, STRIDE = 37 };
enum { LEAST_SIDE = 16, SIDES = 32, CHANNELS = 16, BLOCKS = 4 };

static kiln_status half_softmax(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_softmax(kiln_mul(in[0], kiln_scalar(0.5)), -1);
    return kiln_error();
}

static kiln_status train(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return run_step(user, in, out);
}

// --- a residual network for images of any size

struct residual {
    kiln_cell *first, *convs[BLOCKS][2], *norms[BLOCKS][2], *head;
};

static kiln_cell *conv(kiln_device *dev, int64_t in)
{
    return kiln_nn_conv2d(dev, in, CHANNELS, 3, KILN_NN_CONV2D(.padding = {1, 1}));
}

static void residual_make(struct residual *r, kiln_device *dev)
{
    r->first = conv(dev, 3);
    r->head = kiln_nn_dense(dev, CHANNELS, 10, NULL);
    for (int b = 0; b < BLOCKS; b++)
        for (int k = 0; k < 2; k++) {
            r->convs[b][k] = conv(dev, CHANNELS);
            r->norms[b][k] = kiln_nn_batch_norm2d(dev, CHANNELS, NULL);
            kiln_cell_set_training(r->norms[b][k], false);
        }
}

static void residual_free(struct residual *r)
{
    kiln_cell_free(&r->first);
    kiln_cell_free(&r->head);
    for (int b = 0; b < BLOCKS; b++)
        for (int k = 0; k < 2; k++) {
            kiln_cell_free(&r->convs[b][k]);
            kiln_cell_free(&r->norms[b][k]);
        }
}

static kiln_status residual_run(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct residual *r = user;
    kiln_tensor *x = kiln_relu(kiln_cell_call(r->first, in[0]));
    for (int b = 0; b < BLOCKS; b++) {
        kiln_tensor *y = kiln_relu(kiln_cell_call(r->norms[b][0], kiln_cell_call(r->convs[b][0], x)));
        x = kiln_relu(kiln_add(x, kiln_cell_call(r->norms[b][1], kiln_cell_call(r->convs[b][1], y))));
        if (b % 2) x = kiln_max_pool2d(x, KILN_POOL2D(.kernel = {2, 2}));
    }
    out[0] = kiln_cell_call(r->head, kiln_mean(x, KILN_REDUCE(.axes = KILN_AXES(2, 3))));
    return kiln_error();
}

// --- calls

struct sized {
    struct state s; // the network's
    struct residual r;
    kiln_function *f;
    enum shape_row kind;
    int64_t least, range; // of sizes
};

static size_t make_inputs(struct sized *z, int i, kiln_tensor **in)
{
    int64_t n = z->least + i * STRIDE % z->range; // each once, in no order
    if (z->kind == SHAPES_IMAGES) {
        in[0] = kiln_normal(z->s.dev, KILN_F32, KILN_SHAPE(1, 3, n, n), 0, 1);
        return 1;
    }
    if (z->kind == SHAPES_ROWS) {
        in[0] = kiln_normal(z->s.dev, KILN_F32, KILN_SHAPE(ROWS, n), 0, 1);
        return 1;
    }
    for (int k = 0; k < 2; k++) in[k] = kiln_contiguous(kiln_narrow(z->s.in[k], 1, 0, n));
    return 2;
}

static double call_ns(struct sized *z, kiln_tensor *const *in, size_t n_in)
{
    kiln_tensor *out;
    kiln_device_synchronize(z->s.dev);
    double t0 = now_ns();
    kiln_call(z->f, in, n_in, &out, 1);
    kiln_device_synchronize(z->s.dev);
    return now_ns() - t0;
}

static uint64_t kernels_of(const struct sized *z)
{
    kiln_jit_stats s = {.size = sizeof s};
    kiln_function_stats(z->f, &s);
    return s.kernels_compiled;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Of one size; NaN where a kernel was compiled for it.
static double cost_of(struct sized *z, int i, double *first_ns)
{
    kiln_tensor *in[2];
    double later[LATER_CALLS];
    kiln_scope *scope = kiln_scope_begin();
    size_t n_in = make_inputs(z, i, in);
    uint64_t before = kernels_of(z);
    double first = call_ns(z, in, n_in);
    bool compiled = kernels_of(z) > before;
    for (int k = 0; k < LATER_CALLS; k++) later[k] = call_ns(z, in, n_in);
    kiln_scope_end(&scope);
    qsort(later, LATER_CALLS, sizeof *later, by_value);
    if (isnan(*first_ns)) *first_ns = first;
    return compiled ? NAN : first - later[LATER_CALLS / 2 - 1];
}

static void measure(const struct plan *p, struct sized *z, struct row *out)
{
    double costs[MAX_SIZES], end = now_ns() + 1e9 * p->budget_s, first_ns = NAN;
    int n = 0;
    for (int i = 0; i < MAX_SIZES && i < z->range && (n < 5 || now_ns() < end) && !kiln_error(); i++) {
        double cost = cost_of(z, i, &first_ns);
        if (!isnan(cost)) costs[n++] = cost;
    }
    if (kiln_error() || !n) return;
    qsort(costs, (size_t)n, sizeof *costs, by_value);
    out->runs = n;
    out->first_ns = first_ns;
    out->time_ns = costs[n / 2];
    out->min_ns = costs[0];
    out->p90_ns = costs[(int)(0.9 * (n - 1))];
    out->most_ns = costs[n - 1];
}

static kiln_fn set_up(struct sized *z)
{
    switch (z->kind) {
    case SHAPES_TRAINING:
        z->least = z->s.z->seq / 4;
        z->range = z->s.z->seq - z->least + 1;
        setup_gpt(&z->s);
        return train;
    case SHAPES_IMAGES:
        z->least = LEAST_SIDE;
        z->range = SIDES;
        residual_make(&z->r, z->s.dev);
        return residual_run;
    default:
        z->least = 1;
        z->range = LONGEST_ROW;
        return half_softmax;
    }
}

void measure_shapes(const struct plan *p, kiln_device *dev, int kind, struct row *out)
{
    struct sized z = {.s = {.dev = dev, .z = bench_sizes(p->size)}, .kind = (enum shape_row)kind};
    kiln_scope *scope = kiln_scope_begin();
    kiln_fn fn = set_up(&z);
    kiln_scope_end(&scope);
    z.f = kiln_jit(fn, kind == SHAPES_IMAGES ? (void *)&z.r : &z.s, NULL);
    if (!kiln_error()) measure(p, &z, out);
    if (kiln_error()) snprintf(out->error, sizeof out->error, "%s", kiln_error_message());
    kiln_error_clear();
    kiln_function_free(&z.f);
    residual_free(&z.r);
    state_finish(&z.s);
}
