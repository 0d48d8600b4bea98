// Whatever a captured function does, one that went through a file does the same, to the bit: values, gradients, writes,
// random numbers, control flow. Each program is built anew for either side, so that both begin alike.
#include "model_fixture.h"

static kiln_tensor *w, *s, *c;

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

FN(layers)
{
    out[0] = kiln_relu(kiln_add(kiln_matmul(in[0], w), kiln_sum(in[1], NULL)));
    out[1] = kiln_softmax(out[0], -1);
    out[2] = kiln_argmax(out[1], KILN_REDUCE(.axes = KILN_AXES(1)));
    return kiln_error();
}

FN(inputs_and_views)
{
    out[0] = in[0];
    out[1] = kiln_transpose(in[0], 0, 1);
    out[2] = kiln_mul(in[1], kiln_scalar(2));
    out[3] = kiln_slice(out[2], KILN_SLICE(.start = KILN_AXES(1), .stop = KILN_AXES(3)));
    out[4] = kiln_scalar(0.5);
    out[5] = w;
    return kiln_error();
}

FN(writes)
{
    kiln_add_(in[0], kiln_stop_gradient(in[1]));
    out[0] = kiln_mul(in[0], in[1]);
    kiln_mul_(s, kiln_scalar(0.5));
    kiln_add_(s, kiln_sum(kiln_stop_gradient(in[0]), NULL));
    out[1] = kiln_add(s, c);
    return kiln_error();
}

FN(draws)
{
    kiln_tensor *u = kiln_uniform(kiln_get_device(), KILN_F32, KILN_SHAPE(5), 0, 1);
    out[0] = kiln_add(kiln_dropout(in[0], 0.5), kiln_sum(u, NULL));
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
    out[0] = kiln_sub(in[0], kiln_scalar(2));
    return kiln_error();
}

FN(turn)
{
    out[0] = kiln_add(kiln_mul(in[1], kiln_scalar(0.5)), kiln_sin(in[1]));
    return kiln_error();
}

FN(flow)
{
    kiln_tensor *big = kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(0)), *x = NULL;
    TRY_(kiln_cond(big, then_part, else_part, NULL, in, 1, &x, 1));
    return kiln_for(kiln_scalar_int(7), turn, NULL, &x, 1, NULL, out, 1);
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
    out[0] = kiln_apply("model_test_op", in, 2);
    return kiln_error();
}

FN(stops)
{
    out[0] = kiln_mul(kiln_stop_gradient(kiln_tanh(in[0])), kiln_matmul(in[0], w));
    return kiln_error();
}

FN(trains)
{
    kiln_tensor *loss = kiln_mean(kiln_square(kiln_sub(kiln_matmul(in[0], w), in[1])), NULL);
    TRY_(kiln_backward(loss, NULL));
    kiln_no_grad_begin();
    kiln_sub_(w, kiln_mul(kiln_gradient(w), kiln_scalar(0.1)));
    kiln_no_grad_end();
    out[0] = loss;
    return kiln_error();
}

FN(shows)
{
    kiln_debug_print("sum {}", kiln_sum(in[0], NULL));
    kiln_assert(kiln_less(kiln_max(in[0], NULL), kiln_scalar(100)), "the largest is {}", kiln_max(in[0], NULL));
    out[0] = kiln_exp(in[0]);
    return kiln_error();
}

static kiln_tensor *grid(struct fixture *f, int64_t rows, int64_t cols, double by)
{
    kiln_tensor *t = kiln_arange(f->dev, KILN_F32, 0, (double)(rows * cols), 1);
    return kiln_reshape(kiln_mul(kiln_sub(t, kiln_scalar(5)), kiln_scalar(by)), KILN_SHAPE(rows, cols));
}

struct program {
    const char *name;
    kiln_fn fn;
    size_t n_in, n_out;
    bool grads;    // inputs and w require gradients
    bool strict;   // no TRACE: it reads no values, or the gradient is inside
    bool numbers;  // in: a tensor, a number, a number that is read
    size_t n_host; // numbers of the host
};

static const struct program programs[] = {
    {"layers", layers, 2, 3, true},
    {"layers without gradients", layers, 2, 3},
    {"inputs and views", inputs_and_views, 2, 6},
    {"writes", writes, 2, 2},
    {"draws", draws, 2, 2, true},
    {"flow", flow, 1, 1, true},
    {"numbers", numbers, 3, 1, .strict = true, .numbers = true, .n_host = 1},
    {"an op of the user", registered, 2, 1, true},
    {"stops", stops, 1, 1, true},
    {"trains", trains, 2, 1, .strict = true},
    {"shows", shows, 1, 1},
};

struct side {
    kiln_tensor *in[4], *out[8], *w, *s;
    double left; // of a gradient
};

static void begin(struct fixture *f, const struct program *p, struct side *a)
{
    kiln_set_device(f->dev);
    kiln_seed(f->dev, 11);
    a->w = w = kiln_parameter(grid(f, 4, 4, 0.1), "w");
    kiln_set_requires_grad(w, p->grads || p->fn == trains);
    a->s = s = vec(f, 3, 1, 2, 3);
    ok(kiln_state(s));
    c = kiln_constant(vec(f, 3, 4, 5, 6));
    for (size_t i = 0; i < p->n_in; i++) {
        a->in[i] = i && p->numbers ? kiln_scalar(0.5 + (double)i) : grid(f, 4, 4, 0.1 + 0.05 * (double)i);
        if (p->grads) ok(kiln_set_requires_grad(a->in[i], true));
    }
}

static void call(struct fixture *f, const struct program *p, kiln_function *j, struct side *a)
{
    ok(kiln_call(j, a->in, p->n_in + (a->in[p->n_in] ? p->n_host : 0), a->out, p->n_out));
    if (!p->grads) return;
    kiln_tensor *loss = kiln_scalar(0);
    for (size_t i = 0; i < p->n_out; i++)
        if (kiln_requires_grad(a->out[i])) loss = kiln_add(loss, kiln_sum(kiln_square(a->out[i]), NULL));
    ok(kiln_backward(loss, NULL));
}

static void compare(const struct program *p, struct side *a, struct side *b)
{
    for (size_t i = 0; i < p->n_out; i++) {
        assert_true(kiln_requires_grad(a->out[i]) == kiln_requires_grad(b->out[i]));
        if (kiln_rank(a->out[i]) || !p->fn) same_bits(a->out[i], b->out[i]);
        assert_true(kiln_item(kiln_sum(kiln_cast(a->out[i], KILN_F64), NULL)) ==
                    kiln_item(kiln_sum(kiln_cast(b->out[i], KILN_F64), NULL)));
    }
    for (size_t i = 0; i < p->n_in && !p->numbers; i++) {
        same_bits(a->in[i], b->in[i]);
        kiln_tensor *x = p->grads ? kiln_gradient(a->in[i]) : NULL, *y = p->grads ? kiln_gradient(b->in[i]) : NULL;
        assert_true(!x == !y);
        if (x) same_bits(x, y);
        if (x) ok(kiln_set_gradient(a->in[i], NULL));
        if (x) ok(kiln_set_gradient(b->in[i], NULL));
    }
    if (b->s) same_bits(a->s, b->s);
    if (!b->w) return;
    same_bits(a->w, b->w);
    kiln_tensor *x = kiln_requires_grad(a->w) ? kiln_gradient(a->w) : NULL;
    kiln_tensor *y = kiln_requires_grad(b->w) ? kiln_gradient(b->w) : NULL;
    assert_true(!x == !y);
    if (x) same_bits(x, y);
}

static kiln_tensor *weight(kiln_model *m, const char *name)
{
    const char *names[8];
    kiln_tensor *tensors[8];
    size_t n = kiln_model_weights(m, names, tensors, 8);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return tensors[i];
    return NULL;
}

// The texts of the file, for the corpus of tests/fuzz_files, into the folder that MODEL_SAMPLES names.
static void keep_sample(const char *name)
{
    const char *folder = getenv("MODEL_SAMPLES"), *key, *value;
    char path[4096];
    if (!folder) return;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    kiln_archive *a = kiln_safetensors_load(model_file());
    for (size_t i = 0; file && a && i < kiln_archive_metadata_count(a); i++)
        if (!kiln_archive_metadata(a, i, &key, &value) && strcmp(key, "kiln.model") && strcmp(key, "kiln.check"))
            fprintf(file, "%s%s", strcmp(key, "kiln.manifest") ? "\x1e" : "", value);
    kiln_archive_free(&a);
    if (file) fclose(file);
}

// What the function's own weights are after an export is what the file holds: neither has been called yet.
static void both_ways(struct fixture *f, const struct program *p, kiln_capture capture)
{
    struct side a = {{NULL}}, b = {{NULL}};
    begin(f, p, &a);
    kiln_function *j = kiln_jit(p->fn, NULL, KILN_JIT(.capture = capture));
    const char *names[] = {"the w", "the s"};
    kiln_tensor *tensors[] = {w, s};
    kiln_model *m = kiln_model_create();
    ok(kiln_model_name_weights(m, 2, names, tensors));
    ok(kiln_model_add(m, p->name, j, a.in, p->n_in, p->n_out, NULL));
    if (capture == KILN_CAPTURE_TRACE) begin(f, p, &a); // it ran
    ok(kiln_model_save(m, model_file()));
    keep_sample(p->name);
    kiln_model_free(&m);
    if (capture == KILN_CAPTURE_TRACE) {
        kiln_function_free(&j);
        j = kiln_jit(p->fn, NULL, KILN_JIT(.capture = capture));
    }
    m = kiln_graph_import(f->dev, model_file());
    if (!m) print_error("%s: %s\n", p->name, kiln_error_message());
    assert_non_null(m);
    unlink(model_file());
    assert_int_equal(kiln_model_input_count(m, p->name), p->n_in + p->n_host);
    assert_int_equal(kiln_model_output_count(m, p->name), p->n_out);
    kiln_function *g = kiln_model_function(m, p->name);
    assert_non_null(g);
    for (int k = 0; k < 3; k++) {
        kiln_seed(f->dev, 40 + k);
        call(f, p, j, &a);
        kiln_tensor *mine = w, *my_s = s;
        if (!k) begin(f, p, &b);
        w = mine, s = my_s;
        b.w = weight(m, "the w"), b.s = weight(m, "the s");
        assert_non_null(b.w);
        if (p->n_host) b.in[p->n_in] = kiln_mutable(0.25);
        kiln_seed(f->dev, 40 + k);
        call(f, p, g, &b);
        compare(p, &a, &b);
        if (p->grads) {
            if (kiln_gradient(a.w)) ok(kiln_set_gradient(a.w, NULL));
            if (kiln_gradient(b.w)) ok(kiln_set_gradient(b.w, NULL));
        }
    }
    if (fuses(f)) assert_true(stats_of(g).programs > 0 && stats_of(g).fallbacks == 0);
    kiln_model_free(&m);
    kiln_function_free(&g);
    kiln_function_free(&j);
}

static void values_are_those_of_the_function(void **state)
{
    struct fixture *f = *state;
    if (kiln_register_op(KILN_OP(.name = "model_test_op", .n_in = 2, .expr = "a * tanh(b) + 1",
                                 .grad = {"dy * tanh(b)", "dy * a * (1 - tanh(b) * tanh(b))"})))
        kiln_error_clear(); // of the run before
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        print_message("%s\n", programs[i].name);
        both_ways(f, &programs[i], KILN_CAPTURE_STRICT);
        if (!programs[i].strict) both_ways(f, &programs[i], KILN_CAPTURE_TRACE);
    }
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(values_are_those_of_the_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
