// Networks as models of ONNX: written, read back, compared; with open dimensions, weights by name, the same bytes
// twice.
//
// usage: test_onnx_networks [DEVICE [FOLDER]]. Into FOLDER goes a folder for each network, for check_written.py.
#include "../jit/jit_fixture.h"
#include <kiln/control.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *folder;

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

static const char *model_path(void)
{
    static char path[64];
    snprintf(path, sizeof path, "network_%d.onnx", (int)getpid());
    return path;
}

static unsigned char *bytes_of(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    unsigned char *bytes = malloc(*n + 1);
    assert_int_equal(fread(bytes, 1, *n, f), *n);
    fclose(f);
    return bytes;
}

static void alike(kiln_tensor *got, kiln_tensor *want)
{
    assert_int_equal(kiln_rank(got), kiln_rank(want));
    for (size_t i = 0; i < kiln_rank(want); i++) assert_int_equal(kiln_dims(got)[i], kiln_dims(want)[i]);
    kiln_tensor *off = kiln_abs(kiln_sub(got, want));
    double worst = kiln_item(kiln_max(off, NULL));
    if (!(worst <= 1e-5)) print_error("off by %g\n", worst);
    assert_true(worst <= 1e-5);
}

static void keep(const char *name, kiln_tensor *const *in, size_t n_in, kiln_tensor *want)
{
    char path[300], data[400], command[500];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    mkdir(path, 0777);
    snprintf(command, sizeof command, "cp %s %s/model.onnx", model_path(), path);
    assert_int_equal(system(command), 0);
    for (size_t i = 0; i <= n_in; i++) {
        snprintf(data, sizeof data, i == n_in ? "%s/output_0.npy" : "%s/input_%zu.npy", path, i);
        ok(kiln_npy_save(data, i == n_in ? want : in[i]));
    }
}

// Two files of one function are the same; what is read gives what eager mode gives.
static void round_trip(struct fixture *f, const char *name, kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in)
{
    kiln_tensor *want = NULL, *got = NULL;
    size_t n[2];
    unsigned char *bytes[2];
    ok(fn(user, in, n_in, &want, 1));
    for (int i = 0; i < 2; i++) {
        kiln_function *j = kiln_jit(fn, user, NULL);
        ok(kiln_graph_export(j, in, n_in, 1, model_path(), NULL));
        kiln_function_free(&j);
        bytes[i] = bytes_of(model_path(), &n[i]);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    free(bytes[0]);
    free(bytes[1]);
    if (folder) keep(name, in, n_in, want);
    kiln_model *m = kiln_graph_import(f->dev, model_path());
    if (!m) print_error("%s\n", kiln_error_message());
    assert_non_null(m);
    kiln_function *g = kiln_model_function(m, "main");
    ok(kiln_call(g, in, n_in, &got, 1));
    alike(got, want);
    kiln_function_free(&g);
    kiln_model_free(&m);
    unlink(model_path());
}

static kiln_tensor *normal(struct fixture *f, size_t rank, const int64_t *dims)
{
    return kiln_normal(f->dev, KILN_F32, rank, dims, 0, 1);
}

// --- networks of cells

static kiln_cell *make_mlp(struct fixture *f)
{
    kiln_cell *cells[] = {kiln_nn_dense(f->dev, 8, 16, NULL), kiln_nn_relu(), kiln_nn_dense(f->dev, 16, 16, NULL),
                          kiln_nn_tanh(), kiln_nn_dense(f->dev, 16, 4, NULL)};
    return kiln_nn_sequential(5, cells);
}

static void an_mlp(void **state)
{
    struct fixture *f = *state;
    kiln_cell *net = make_mlp(f);
    kiln_tensor *x = normal(f, KILN_SHAPE(5, 8));
    round_trip(f, "mlp", kiln_cell_fn, net, &x, 1);
    kiln_cell_free(&net);
}

static void a_convolutional_network(void **state)
{
    struct fixture *f = *state;
    kiln_pool2d_opts pool = {.size = sizeof pool, .kernel = {2, 2}};
    kiln_cell *cells[] = {kiln_nn_conv2d(f->dev, 1, 6, 5, NULL),
                          kiln_nn_relu(),
                          kiln_nn_max_pool2d(&pool),
                          kiln_nn_conv2d(f->dev, 6, 16, 5, NULL),
                          kiln_nn_relu(),
                          kiln_nn_max_pool2d(&pool),
                          kiln_nn_flatten(),
                          kiln_nn_dense(f->dev, 16 * 4 * 4, 32, NULL),
                          kiln_nn_relu(),
                          kiln_nn_dense(f->dev, 32, 10, NULL),
                          kiln_nn_softmax(-1)};
    kiln_cell *net = kiln_nn_sequential(11, cells);
    kiln_tensor *x = normal(f, KILN_SHAPE(3, 1, 28, 28));
    round_trip(f, "lenet", kiln_cell_fn, net, &x, 1);
    kiln_cell_free(&net);
}

FN(residual)
{
    kiln_cell *const *cells = user;
    kiln_tensor *h = kiln_relu(kiln_cell_call(cells[1], kiln_cell_call(cells[0], in[0])));
    h = kiln_cell_call(cells[3], kiln_cell_call(cells[2], h));
    out[0] = kiln_mean(kiln_relu(kiln_add(h, in[0])), KILN_REDUCE(.axes = KILN_AXES(2, 3)));
    return kiln_error();
}

static void a_residual_block(void **state)
{
    struct fixture *f = *state;
    kiln_cell *cells[] = {
        kiln_nn_conv2d(f->dev, 4, 4, 3, KILN_NN_CONV2D(.pad_mode = "same")), kiln_nn_batch_norm2d(f->dev, 4, NULL),
        kiln_nn_conv2d(f->dev, 4, 4, 3, KILN_NN_CONV2D(.pad_mode = "same")), kiln_nn_batch_norm2d(f->dev, 4, NULL)};
    for (int i = 0; i < 4; i++) ok(kiln_cell_set_training(cells[i], false));
    kiln_tensor *x = normal(f, KILN_SHAPE(2, 4, 9, 9));
    round_trip(f, "residual", residual, cells, &x, 1);
    for (int i = 0; i < 4; i++) kiln_cell_free(&cells[i]);
}

// --- a transformer that predicts letters

enum { LETTERS = 11, LENGTH = 6, WIDTH = 8, HEADS = 2, LAYERS = 2 };

struct gpt {
    kiln_cell *letters, *places, *before[LAYERS], *keys[LAYERS], *joined[LAYERS], *after[LAYERS], *up[LAYERS],
        *down[LAYERS], *last, *head;
};

static void make_gpt(struct fixture *f, struct gpt *g)
{
    const int64_t width[] = {WIDTH};
    *g = (struct gpt){.letters = kiln_nn_embedding(f->dev, LETTERS, WIDTH, NULL),
                      .places = kiln_nn_embedding(f->dev, LENGTH, WIDTH, NULL),
                      .last = kiln_nn_layer_norm(f->dev, 1, width, NULL),
                      .head = kiln_nn_dense(f->dev, WIDTH, LETTERS, NULL)};
    for (int i = 0; i < LAYERS; i++) {
        g->before[i] = kiln_nn_layer_norm(f->dev, 1, width, NULL);
        g->keys[i] = kiln_nn_dense(f->dev, WIDTH, 3 * WIDTH, NULL);
        g->joined[i] = kiln_nn_dense(f->dev, WIDTH, WIDTH, NULL);
        g->after[i] = kiln_nn_layer_norm(f->dev, 1, width, NULL);
        g->up[i] = kiln_nn_dense(f->dev, WIDTH, 4 * WIDTH, NULL);
        g->down[i] = kiln_nn_dense(f->dev, 4 * WIDTH, WIDTH, NULL);
    }
}

static void free_gpt(struct gpt *g)
{
    kiln_cell **cells = (kiln_cell **)g;
    for (size_t i = 0; i < sizeof *g / sizeof *cells; i++) kiln_cell_free(&cells[i]);
}

static kiln_tensor *heads(kiln_tensor *x, int64_t batch, int64_t length)
{
    const int64_t order[] = {0, 2, 1, 3};
    return kiln_permute(kiln_reshape(x, KILN_SHAPE(batch, length, HEADS, WIDTH / HEADS)), (kiln_ints){4, order});
}

// Each place looks at those before it.
static kiln_tensor *attention(struct gpt *g, int layer, kiln_tensor *x)
{
    const int64_t turned[] = {0, 1, 3, 2}, back[] = {0, 2, 1, 3};
    int64_t batch = kiln_dims(x)[0], length = kiln_dims(x)[1];
    kiln_tensor *parts[3], *all = kiln_cell_call(g->keys[layer], x);
    if (kiln_split(all, 2, parts, 3)) return NULL;
    kiln_tensor *q = heads(parts[0], batch, length), *k = heads(parts[1], batch, length);
    kiln_tensor *score = kiln_mul(kiln_matmul(q, kiln_permute(k, (kiln_ints){4, turned})), kiln_scalar(0.5));
    kiln_tensor *later = kiln_triu(kiln_ones(kiln_tensor_device(x), KILN_BOOL, KILN_SHAPE(LENGTH, LENGTH)), 1);
    later = kiln_narrow(kiln_narrow(later, 0, 0, length), 1, 0, length);
    score = kiln_softmax(kiln_masked_fill(score, later, kiln_scalar(-INFINITY)), -1);
    kiln_tensor *seen = kiln_permute(kiln_matmul(score, heads(parts[2], batch, length)), (kiln_ints){4, back});
    return kiln_cell_call(g->joined[layer], kiln_reshape(seen, KILN_SHAPE(batch, length, WIDTH)));
}

FN(run_gpt)
{
    struct gpt *g = user;
    kiln_tensor *where = kiln_arange(kiln_tensor_device(in[0]), KILN_I64, 0, (double)kiln_dims(in[0])[1], 1);
    kiln_tensor *x = kiln_add(kiln_cell_call(g->letters, in[0]), kiln_cell_call(g->places, where));
    for (int i = 0; i < LAYERS; i++) {
        x = kiln_add(x, attention(g, i, kiln_cell_call(g->before[i], x)));
        kiln_tensor *h = kiln_gelu(kiln_cell_call(g->up[i], kiln_cell_call(g->after[i], x)));
        x = kiln_add(x, kiln_cell_call(g->down[i], h));
    }
    out[0] = kiln_log_softmax(kiln_cell_call(g->head, kiln_cell_call(g->last, x)), -1);
    return kiln_error();
}

static void a_transformer(void **state)
{
    struct fixture *f = *state;
    struct gpt g;
    make_gpt(f, &g);
    kiln_tensor *x = kiln_randint(f->dev, KILN_I64, KILN_SHAPE(2, LENGTH), 0, LETTERS);
    round_trip(f, "gpt", run_gpt, &g, &x, 1);
    free_gpt(&g);
}

// --- control flow

FN(is_small)
{
    out[0] = kiln_less(kiln_sum(in[0], NULL), kiln_scalar(100));
    return kiln_error();
}

FN(doubled)
{
    out[0] = kiln_mul(in[0], kiln_scalar(2));
    return kiln_error();
}

FN(halved)
{
    out[0] = kiln_mul(in[0], kiln_scalar(0.5));
    return kiln_error();
}

FN(added_number)
{
    out[0] = kiln_add(in[1], kiln_cast(in[0], KILN_F32));
    return kiln_error();
}

FN(row_sum)
{
    out[0] = kiln_add(kiln_mul(in[0], kiln_scalar(0.5)), in[1]);
    out[1] = kiln_sin(out[0]);
    return kiln_error();
}

// A loop as long as a condition holds, one that is counted, one along rows either way, a condition.
FN(controlled)
{
    const kiln_fn branches[] = {doubled, halved, doubled};
    kiln_tensor *x = in[0], *many, *rows[2], *back[2], *counted, *chosen, *switched;
    kiln_tensor *start = kiln_abs(kiln_select(x, 0, 0)), *both[] = {start, x};
    TRY_(kiln_while(is_small, doubled, NULL, &start, 1, NULL, &many, 1));
    TRY_(kiln_for(kiln_cast(kiln_sum(kiln_ones_like(start), NULL), KILN_I64), added_number, NULL, &start, 1, NULL,
                  &counted, 1));
    TRY_(kiln_scan(row_sum, NULL, both, 2, KILN_SCAN(.carried = 1), rows, 2));
    TRY_(kiln_scan(row_sum, NULL, both, 2, KILN_SCAN(.carried = 1, .reverse = true), back, 2));
    TRY_(kiln_cond(kiln_greater(kiln_sum(x, NULL), kiln_scalar(0)), doubled, halved, NULL, &start, 1, &chosen, 1));
    kiln_tensor *index = kiln_argmax(kiln_select(x, 1, 0), NULL);
    TRY_(kiln_switch(kiln_minimum(index, kiln_scalar_int(2)), branches, 3, NULL, &start, 1, &switched, 1));
    kiln_tensor *parts[] = {many, counted, chosen, switched, rows[0], back[0]};
    kiln_tensor *all[] = {kiln_stack(parts, 6, 0), rows[1], back[1]};
    out[0] = kiln_concat(all, 3, 0);
    return kiln_error();
}

static void conditions_and_loops(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = normal(f, KILN_SHAPE(4, 3));
    round_trip(f, "control", controlled, NULL, &x, 1);
    x = kiln_abs(x);
    round_trip(f, "control_other", controlled, NULL, &x, 1);
}

// --- open dimensions

static void open_batch(struct fixture *f, const char *name, kiln_fn fn, void *user, kiln_tensor *x, kiln_tensor *other)
{
    int64_t dims[KILN_MAX_RANK];
    kiln_tensor *want = NULL, *got = NULL;
    for (size_t i = 0; i < kiln_rank(x); i++) dims[i] = i ? kiln_dims(x)[i] : kiln_symbol("batch", NULL);
    const kiln_type type = {kiln_tensor_dtype(x), kiln_rank(x), dims};
    kiln_function *j = kiln_jit(fn, user, KILN_JIT(.input_types = {1, &type}));
    ok(kiln_graph_export(j, &x, 1, 1, model_path(), NULL));
    kiln_function_free(&j);
    ok(fn(user, &other, 1, &want, 1));
    if (folder) keep(name, &other, 1, want);
    kiln_model *m = kiln_graph_import(f->dev, model_path());
    assert_non_null(m);
    kiln_model_value value = {.size = sizeof value};
    ok(kiln_model_input(m, "main", 0, &value));
    assert_true(value.dims[0] == -1 && strstr(value.text, "[batch,"));
    ok(kiln_model_output(m, "main", 0, &value));
    assert_true(value.dims[0] == -1);
    kiln_function *g = kiln_model_function(m, "main");
    ok(kiln_call(g, &other, 1, &got, 1));
    alike(got, want);
    kiln_function_free(&g);
    kiln_model_free(&m);
    unlink(model_path());
}

static void an_open_batch(void **state)
{
    struct fixture *f = *state;
    kiln_cell *net = make_mlp(f);
    open_batch(f, "mlp_open", kiln_cell_fn, net, normal(f, KILN_SHAPE(5, 8)), normal(f, KILN_SHAPE(9, 8)));
    kiln_cell_free(&net);
    struct gpt g;
    make_gpt(f, &g);
    open_batch(f, "gpt_open", run_gpt, &g, kiln_randint(f->dev, KILN_I64, KILN_SHAPE(2, LENGTH), 0, LETTERS),
               kiln_randint(f->dev, KILN_I64, KILN_SHAPE(5, LENGTH), 0, LETTERS));
    free_gpt(&g);
}

// A number that goes with the size would be one of the size that was seen.
FN(scaled_by_size)
{
    out[0] = kiln_mul(in[0], kiln_scalar(1.0 / (double)kiln_dims(in[0])[0]));
    return kiln_error();
}

static void numbers_of_open_sizes(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = normal(f, KILN_SHAPE(4, 3));
    const kiln_type type = {KILN_F32, 2, (const int64_t[]){-1, 3}};
    kiln_function *j = kiln_jit(scaled_by_size, NULL, KILN_JIT(.input_types = {1, &type}));
    fails(kiln_graph_export(j, &x, 1, 1, model_path(), NULL), KILN_E_UNSUPPORTED,
          "numbers that go with open dimensions");
    assert_int_not_equal(access(model_path(), F_OK), 0);
    kiln_function_free(&j);
}

// --- what is given and what comes back

FN(shown)
{
    out[0] = in[0];
    out[1] = kiln_select(kiln_transpose(in[0], 0, 1), 0, 1);
    out[2] = kiln_mul(in[0], in[1]);
    out[3] = kiln_transpose(user, 0, 1);
    out[4] = kiln_slice(in[0], KILN_SLICE(.step = {2, (const int64_t[]){1, -2}}));
    out[5] = kiln_narrow(kiln_exp(in[0]), 0, 1, 2);
    return kiln_error();
}

static void inputs_views_numbers(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {normal(f, KILN_SHAPE(4, 3)), kiln_scalar(2.5)}, *want[6], *got[6];
    kiln_tensor *w = kiln_constant(normal(f, KILN_SHAPE(2, 3)));
    ok(shown(w, in, 2, want, 6));
    kiln_function *j = kiln_jit(shown, w, NULL);
    ok(kiln_graph_export(j, in, 2, 6, model_path(), NULL));
    kiln_function_free(&j);
    kiln_model *m = kiln_graph_import(f->dev, model_path());
    if (!m) print_error("%s\n", kiln_error_message());
    assert_non_null(m);
    kiln_function *g = kiln_model_function(m, "main");
    in[1] = kiln_scalar(2.5);
    ok(kiln_call(g, in, 2, got, 6));
    for (int i = 0; i < 6; i++) alike(got[i], want[i]);
    in[1] = kiln_scalar(-1); // it is an input
    ok(kiln_call(g, in, 2, got, 6));
    alike(got[2], kiln_neg(in[0]));
    kiln_function_free(&g);
    kiln_model_free(&m);
    unlink(model_path());
}

FN(by_a_users_op)
{
    out[0] = kiln_apply("networks_blend", in, 2);
    return kiln_error();
}

static void an_op_of_the_user(void **state)
{
    struct fixture *f = *state;
    ok(kiln_register_op(&(kiln_op_spec){
        .size = sizeof(kiln_op_spec), .name = "networks_blend", .n_in = 2, .expr = "a > b ? exp(b) : a * b + 1"}));
    kiln_tensor *in[] = {normal(f, KILN_SHAPE(4, 3)), normal(f, KILN_SHAPE(3))};
    round_trip(f, "user", by_a_users_op, NULL, in, 2);
}

// --- weights

static void weights_by_name(void **state)
{
    struct fixture *f = *state;
    kiln_cell *net = make_mlp(f);
    const char *names[8], *read[8], *in_names[] = {"pixels"}, *out_names[] = {"chances"};
    kiln_tensor *tensors[8], *got[8], *x = normal(f, KILN_SHAPE(5, 8));
    size_t n = kiln_cell_state(net, names, tensors, 8);
    kiln_function *j = kiln_jit(kiln_cell_fn, net, NULL);
    kiln_model *m = kiln_model_create();
    ok(kiln_model_name_weights(m, n, names, tensors));
    ok(kiln_model_add(m, "forward", j, &x, 1, 1, KILN_MODEL_ADD(.inputs = in_names, .outputs = out_names)));
    ok(kiln_model_save(m, model_path()));
    kiln_model_free(&m);
    kiln_function_free(&j);
    m = kiln_graph_import(f->dev, model_path());
    assert_int_equal(kiln_model_weights(m, read, got, 8), n);
    for (size_t i = 0, found = 0; i < n; i++, found = 0) {
        for (size_t k = 0; k < n; k++) found += !strcmp(names[i], read[k]);
        assert_int_equal(found, 1);
    }
    kiln_model_value value = {.size = sizeof value};
    ok(kiln_model_input(m, "main", 0, &value));
    assert_string_equal(value.name, "pixels");
    ok(kiln_model_output(m, "main", 0, &value));
    assert_string_equal(value.name, "chances");
    assert_string_equal(value.text, "f32[5,4]");
    kiln_model_free(&m);
    kiln_cell_free(&net);
    unlink(model_path());
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    folder = argc > 2 ? argv[2] : NULL;
    const struct CMUnitTest tests[] = {FIXTURE(an_mlp),
                                       FIXTURE(a_convolutional_network),
                                       FIXTURE(a_residual_block),
                                       FIXTURE(a_transformer),
                                       FIXTURE(conditions_and_loops),
                                       FIXTURE(an_open_batch),
                                       FIXTURE(numbers_of_open_sizes),
                                       FIXTURE(inputs_views_numbers),
                                       FIXTURE(an_op_of_the_user),
                                       FIXTURE(weights_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
