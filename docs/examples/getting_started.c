// The program of docs/guide/getting-started.md: a small network learns which of two spirals a point lies on; eagerly,
// then with the whole step as one graph; it is saved, loaded, and written to a file that runs without this code.
#include <kiln/kiln.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 512, BATCH = 64, EPOCHS = 60 };

// Points [POINTS, 2] of two spirals, in turn, and the number of the spiral of each.
static kiln_loader *make_data(kiln_device *dev)
{
    static float points[POINTS][2];
    static int32_t labels[POINTS];
    for (int i = 0; i < POINTS; i++) {
        double t = 0.5 + 5.5 * i / POINTS, side = i % 2 ? M_PI : 0;
        points[i][0] = (float)(t / 6 * cos(t + side));
        points[i][1] = (float)(t / 6 * sin(t + side));
        labels[i] = i % 2;
    }
    kiln_loader *loader = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = BATCH, .shuffle = true, .seed = 1));
    kiln_loader_add_host(loader, KILN_F32, KILN_SHAPE(POINTS, 2), points);
    kiln_loader_add_host(loader, KILN_I32, KILN_SHAPE(POINTS), labels);
    return loader;
}

static kiln_cell *make_net(kiln_device *dev)
{
    return kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, 2, 32, NULL), kiln_nn_gelu(),  //
                                         kiln_nn_dense(dev, 32, 32, NULL), kiln_nn_gelu(), //
                                         kiln_nn_dense(dev, 32, 2, NULL)));
}

// What a training step needs beside its batch.
struct run {
    kiln_cell *net;
    kiln_optim *opt;
};

// in: points and labels; out: the loss. The same function runs op by op, and as a graph.
static kiln_status step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct run *r = user;
    kiln_tensor *logits = kiln_cell_call(r->net, in[0]);
    out[0] = kiln_cross_entropy(logits, in[1], NULL);
    kiln_backward(out[0], NULL);
    kiln_optim_step(r->opt);
    return kiln_error();
}

// One pass over the data; gives the mean loss of its batches.
static double epoch(kiln_loader *data, kiln_function *train)
{
    double sum = 0;
    kiln_tensor *batch[2], *loss;
    for (bool more = true; more && !kiln_error();) {
        kiln_scope *scope = kiln_scope_begin(); // frees what the step makes
        kiln_loader_next(data, batch, 2, &more);
        if (more) {
            kiln_call(train, batch, 2, &loss, 1);
            sum += kiln_item(loss);
        }
        kiln_scope_end(&scope);
    }
    return sum / (double)kiln_loader_batches(data);
}

static double accuracy(kiln_cell *net, kiln_loader *data)
{
    double right = 0;
    kiln_tensor *batch[2];
    kiln_cell_set_training(net, false);
    kiln_no_grad_begin();
    for (bool more = true; more && !kiln_error();) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_loader_next(data, batch, 2, &more);
        if (more) {
            kiln_tensor *guess = kiln_argmax(kiln_cell_call(net, batch[0]), KILN_REDUCE(.axes = KILN_AXES(-1)));
            right += kiln_item(kiln_sum(kiln_equal(guess, batch[1]), NULL));
        }
        kiln_scope_end(&scope);
    }
    kiln_no_grad_end();
    return right / (double)kiln_loader_samples(data);
}

enum { MAX_TENSORS = 16 };

static void save(kiln_cell *net, const char *path)
{
    const char *names[MAX_TENSORS];
    kiln_tensor *tensors[MAX_TENSORS];
    size_t n = kiln_cell_state(net, names, tensors, MAX_TENSORS);
    kiln_safetensors_save(path, names, tensors, n);
}

static void load(kiln_cell *net, const char *path)
{
    kiln_archive *file = kiln_safetensors_load(path);
    kiln_cell_load(net, file, NULL);
    kiln_archive_free(&file);
}

// The network as a graph, for batches of any size, in a file that runs without this program.
static void export_graph(kiln_cell *net, kiln_device *dev, const char *path)
{
    int64_t batch = kiln_symbol("batch", NULL);
    kiln_function *f = kiln_jit(kiln_cell_fn, net, KILN_JIT(.input_types = KILN_TYPES(KILN_TYPE(KILN_F32, batch, 2))));
    kiln_tensor *example = kiln_zeros(dev, KILN_F32, KILN_SHAPE(4, 2));
    const char *inputs[] = {"points"}, *outputs[] = {"logits"};
    kiln_no_grad_begin();
    kiln_graph_export(f, &example, 1, 1, path, KILN_MODEL_ADD(.inputs = inputs, .outputs = outputs));
    kiln_no_grad_end();
    kiln_function_free(&f);
}

// Trains as a graph, or op by op; the accuracy comes last.
static double train(struct run *r, kiln_loader *data, bool as_graph, int epochs)
{
    kiln_function *f = kiln_jit(step, r, KILN_JIT(.name = "step"));
    kiln_cell_set_training(r->net, true);
    if (!as_graph) kiln_no_capture_begin();
    for (int i = 0; i < epochs && !kiln_error(); i++) {
        double loss = epoch(data, f);
        if (i % 20 == 0 || i == epochs - 1) printf("%s, epoch %2d: loss %.3f\n", as_graph ? "graph" : "eager", i, loss);
    }
    if (!as_graph) kiln_no_capture_end();
    kiln_function_free(&f);
    return accuracy(r->net, data);
}

// What the file gives for one point is what the network gives.
static bool same_by_file(kiln_cell *net, kiln_device *dev, const char *path)
{
    kiln_model *m = kiln_graph_import(dev, path);
    kiln_function *f = kiln_model_function(m, "main");
    kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(1, 2), (float[]){0.5f, 0.1f}), *y = NULL;
    kiln_call(f, &x, 1, &y, 1);
    bool same = kiln_item(kiln_allclose(y, kiln_cell_call(net, x), NULL)) != 0;
    kiln_function_free(&f);
    kiln_model_free(&m);
    return same;
}

int main(int argc, char **argv)
{
    int epochs = argc > 1 ? atoi(argv[1]) : EPOCHS;
    const char *stem = argc > 2 ? argv[2] : "spirals";
    if (epochs < 1) {
        fprintf(stderr, "usage: getting_started [EPOCHS [NAME]], 1 epoch or more\n");
        return 2;
    }
    char weights[256], graph[256];
    snprintf(weights, sizeof weights, "%s.safetensors", stem);
    snprintf(graph, sizeof graph, "%s.kiln", stem);
    kiln_device *dev = kiln_device_open(NULL);
    kiln_scope *scope = kiln_scope_begin();
    kiln_seed(dev, 1);
    kiln_loader *data = make_data(dev);
    struct run r = {.net = make_net(dev)};
    kiln_tensor *params[MAX_TENSORS];
    size_t n = kiln_cell_parameters(r.net, params, MAX_TENSORS);
    r.opt = kiln_optim_adamw(params, n, KILN_ADAM(.lr = 0.01));

    train(&r, data, false, epochs > 4 ? 4 : epochs);
    double right = train(&r, data, true, epochs);
    printf("right: %.1f %%\n", 100 * right);

    save(r.net, weights);
    kiln_cell *again = make_net(dev);
    load(again, weights);
    double right_again = accuracy(again, data);
    export_graph(again, dev, graph);
    bool good = !kiln_error() && right == right_again && same_by_file(r.net, dev, graph);
    if (epochs == EPOCHS) good = good && right > 0.95;

    bool missing = !dev && kiln_error() == KILN_E_MISSING;
    if (kiln_error()) fprintf(stderr, "%s\n", kiln_error_message());
    kiln_optim_free(&r.opt);
    kiln_cell_free(&again);
    kiln_cell_free(&r.net);
    kiln_loader_free(&data);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return missing ? 77 : !good;
}
