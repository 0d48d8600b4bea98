// Models as objects and as files: names, errors that list what cannot go, open dimensions, damaged files, another
// process.
#include "model_fixture.h"
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

static kiln_tensor *w, *v;

FN(two_weights)
{
    out[0] = kiln_add(kiln_matmul(in[0], w), v);
    return kiln_error();
}

static void make_weights(struct fixture *f)
{
    kiln_set_device(f->dev);
    w = kiln_parameter(mat(f, 2, 2, 1., 2., 3., 4.), "weight");
    v = kiln_parameter(vec(f, 2, 5, 6), "weight");
}

// --- names

static void weights_are_named(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    const char *names[] = {"0.weight", "unused"}, *read[4];
    kiln_tensor *unused = vec(f, 1, 9), *tensors[] = {w, unused}, *got[4];
    kiln_tensor *x = mat(f, 1, 2, 1., 1.);
    kiln_function *j = kiln_jit(two_weights, NULL, NULL);
    kiln_model *m = kiln_model_create();
    ok(kiln_model_name_weights(m, 2, names, tensors));
    ok(kiln_model_name_weights(m, 2, names, tensors)); // again the same
    const char *in_names[] = {"x"}, *out_names[] = {"y"};
    ok(kiln_model_add(m, "forward", j, &x, 1, 1, KILN_MODEL_ADD(.inputs = in_names, .outputs = out_names)));
    assert_int_equal(kiln_model_weights(m, read, got, 4), 3);
    assert_string_equal(read[0], "0.weight");
    assert_string_equal(read[1], "unused");
    assert_string_equal(read[2], "weight");
    assert_int_equal(kiln_model_parameters(m, got, 4), 2);
    ok(kiln_model_save(m, model_file()));
    kiln_model_free(&m);
    m = kiln_graph_import(f->dev, model_file());
    assert_non_null(m);
    assert_int_equal(kiln_model_parameters(m, got, 4), 2);
    assert_true(!strcmp(kiln_name(got[0]), "0.weight") || !strcmp(kiln_name(got[0]), "weight"));
    kiln_model_value value = {.size = sizeof value};
    ok(kiln_model_input(m, "forward", 0, &value));
    assert_string_equal(value.name, "x");
    assert_string_equal(value.text, "f32[1,2]");
    assert_false(value.is_number);
    ok(kiln_model_output(m, "forward", 0, &value));
    assert_string_equal(value.name, "y");
    fails(kiln_model_output(m, "forward", 1, &value), KILN_E_ARGUMENT, "output 1 of 1");
    fails(kiln_model_input(m, "back", 0, &value), KILN_E_ARGUMENT,
          "there is no function \"back\"; there are: \"forward\"");
    assert_null(kiln_model_function(m, "back"));
    fails(kiln_error(), KILN_E_ARGUMENT, "there are: \"forward\"");
    assert_string_equal(kiln_model_function_name(m, 0), "forward");
    assert_null(kiln_model_function_name(m, 1));
    fails(kiln_error(), KILN_E_ARGUMENT, "function 1 of 1");
    kiln_model_free(&m);
    kiln_function_free(&j);
    // Others read the weights of the file.
    kiln_archive *a = kiln_safetensors_load(model_file());
    kiln_tensor *t = kiln_archive_get(a, f->dev, "0.weight");
    expect(t, 4, 1., 2., 3., 4.);
    kiln_archive_free(&a);
    unlink(model_file());
}

static void names_that_cannot_be(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    kiln_model *m = kiln_model_create();
    const char *names[] = {"a", "a"}, *empty[] = {""}, *other[] = {"b"}, *twice[] = {"x", "x"};
    kiln_tensor *both[] = {w, v}, *x[] = {mat(f, 1, 2, 1., 1.), mat(f, 1, 2, 1., 1.)};
    kiln_function *j = kiln_jit(two_weights, NULL, NULL);
    fails(kiln_model_name_weights(m, 2, names, both), KILN_E_ARGUMENT, "the name \"a\" is taken by another tensor");
    fails(kiln_model_name_weights(m, 1, other, both), KILN_E_ARGUMENT, "\"b\", is \"a\" already");
    fails(kiln_model_name_weights(m, 1, empty, both), KILN_E_ARGUMENT, "name 0 is empty");
    fails(kiln_model_name_weights(m, 1, NULL, both), KILN_E_ARGUMENT, "the list of names is NULL");
    fails(kiln_model_save(m, model_file()), KILN_E_ARGUMENT, "the model has no function");
    fails(kiln_model_add(m, "", j, x, 1, 1, NULL), KILN_E_ARGUMENT, "name is empty");
    fails(kiln_model_add(m, "f", j, x, 2, 1, KILN_MODEL_ADD(.inputs = twice)), KILN_E_ARGUMENT, "names \"x\" twice");
    ok(kiln_model_add(m, "f", j, x, 1, 1, NULL));
    fails(kiln_model_add(m, "f", j, x, 1, 1, NULL), KILN_E_ARGUMENT, "the model has a function \"f\"");
    fails(kiln_model_save(m, "no/such/folder/f.kiln"), KILN_E_MISSING, "no/such/folder");
    kiln_model_free(&m);
    kiln_function_free(&j);
}

static double a_number(void *user)
{
    return 2;
}

FN(by_a_number)
{
    out[0] = kiln_mul(in[0], kiln_host_number(a_number, NULL));
    return kiln_error();
}

// Numbers of the host are inputs behind the others, whose names are theirs.
static void names_of_numbers(void **state)
{
    struct fixture *f = *state;
    const char *names[] = {"number0"}, *other[] = {"number"};
    kiln_tensor *x = mat(f, 1, 2, 1., 1.);
    kiln_function *j = kiln_jit(by_a_number, NULL, NULL);
    kiln_model *m = kiln_model_create();
    fails(kiln_model_add(m, "f", j, &x, 1, 1, KILN_MODEL_ADD(.inputs = names)), KILN_E_ARGUMENT,
          "an input is named \"number0\", as a number of the host is");
    ok(kiln_model_add(m, "f", j, &x, 1, 1, KILN_MODEL_ADD(.inputs = other)));
    kiln_model_free(&m);
    kiln_function_free(&j);
}

// --- functions of one model share weights

FN(update)
{
    kiln_add_(w, in[0]);
    out[0] = kiln_sum(w, NULL);
    return kiln_error();
}

static void functions_share_weights(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    ok(kiln_set_requires_grad(w, false));
    ok(kiln_state(w));
    kiln_tensor *x = mat(f, 1, 2, 1., 1.), *d = mat(f, 2, 2, 1., 0., 0., 1.), *y;
    kiln_function *j = kiln_jit(two_weights, NULL, NULL), *u = kiln_jit(update, NULL, NULL);
    kiln_model *m = kiln_model_create();
    ok(kiln_model_add(m, "forward", j, &x, 1, 1, NULL));
    ok(kiln_model_add(m, "update", u, &d, 1, 1, NULL));
    ok(kiln_model_save(m, model_file()));
    kiln_model_free(&m);
    m = kiln_graph_import(f->dev, model_file());
    assert_int_equal(kiln_model_function_count(m), 2);
    kiln_function *forward = kiln_model_function(m, "forward"), *step = kiln_model_function(m, "update");
    ok(kiln_call(forward, &x, 1, &y, 1));
    expect(y, 2, 9., 12.);
    ok(kiln_call(step, &d, 1, &y, 1));
    expect(y, 1, 12.);
    ok(kiln_call(forward, &x, 1, &y, 1));
    expect(y, 2, 10., 13.);
    expect(w, 4, 1., 2., 3., 4.); // those of the process are others
    ok(kiln_model_save(m, model_file()));
    kiln_model_free(&m); // functions live on
    ok(kiln_call(step, &d, 1, &y, 1));
    expect(y, 1, 14.);
    kiln_function_free(&forward);
    kiln_function_free(&step);
    m = kiln_graph_import(f->dev, model_file()); // as it was when it was saved
    forward = kiln_model_function(m, "forward");
    ok(kiln_call(forward, &x, 1, &y, 1));
    expect(y, 2, 10., 13.);
    kiln_function_free(&forward);
    kiln_model_free(&m);
    kiln_function_free(&j);
    kiln_function_free(&u);
    unlink(model_file());
}

// --- what cannot go

static kiln_status triple(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(in[0], kiln_scalar(3));
    return kiln_error();
}

static int host_line;

FN(asks_the_host)
{
    const kiln_host_spec spec = {KILN_F32, 1, (const int64_t[]){2}};
    kiln_tensor *once = NULL;
    host_line = __LINE__ + 1;
    TRY_(kiln_host_call(triple, NULL, in, 1, &spec, &once, 1, KILN_HOST_PURE, NULL));
    TRY_(kiln_host_call(triple, NULL, &once, 1, &spec, out, 1, KILN_HOST_PURE, NULL));
    return kiln_error();
}

FN(identity)
{
    out[0] = kiln_add(in[0], in[n_in - 1]);
    return kiln_error();
}

static kiln_status of_bundles(void *user, kiln_bundle *in, kiln_bundle **out)
{
    return kiln_error();
}

static void all_that_cannot_go_is_listed(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    kiln_model *m = kiln_model_create();
    kiln_tensor *x = vec(f, 2, 1, 2), *same_twice[] = {x, x};
    kiln_function *host = kiln_jit(asks_the_host, NULL, NULL), *one = kiln_jit(identity, NULL, NULL);
    kiln_function *automatic_one = automatic(identity, NULL), *bundles = kiln_bundle_jit(of_bundles, NULL, NULL);
    kiln_status status = kiln_model_add(m, "f", host, &x, 1, 1, NULL);
    char first[32], second[32]; // the lines of both calls
    snprintf(first, sizeof first, "files.c:%d", host_line);
    snprintf(second, sizeof second, "files.c:%d", host_line + 1);
    assert_int_equal(status, KILN_E_UNSUPPORTED);
    assert_non_null(strstr(kiln_error_message(), first));
    fails(status, KILN_E_UNSUPPORTED, second);
    fails(kiln_model_add(m, "f", one, same_twice, 2, 1, NULL), KILN_E_UNSUPPORTED,
          "inputs 0 and 1, one tensor; give two");
    fails(kiln_model_add(m, "f", automatic_one, &x, 1, 1, NULL), KILN_E_UNSUPPORTED, "is captured by AUTO");
    fails(kiln_model_add(m, "f", bundles, &x, 1, 1, NULL), KILN_E_UNSUPPORTED, "takes bundles");
    assert_int_equal(kiln_model_function_count(m), 0);
    kiln_function_free(&host);
    kiln_function_free(&one);
    kiln_function_free(&automatic_one);
    kiln_function_free(&bundles);
    kiln_model_free(&m);
}

// --- calls that do not fit

static void calls_that_do_not_fit(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    kiln_tensor *x = mat(f, 1, 2, 1., 1.), *wide = mat(f, 1, 3, 1., 1., 1.), *number = kiln_scalar(1), *y, *z[2];
    kiln_function *j = kiln_jit(two_weights, NULL, NULL);
    kiln_function *g = through_file(f, j, &x, 1, 1);
    fails(kiln_call(g, &wide, 1, &y, 1), KILN_E_SHAPE, "input 0 of main is f32[1,3], its signature says f32[1,2]");
    fails(kiln_call(g, &number, 1, &y, 1), KILN_E_SHAPE, "input 0 of main is");
    kiln_tensor *two[] = {x, x};
    fails(kiln_call(g, two, 2, &y, 1), KILN_E_ARGUMENT, "has 1 inputs, 2 are given");
    fails(kiln_call(g, &x, 1, z, 2), KILN_E_ARGUMENT, "gives 1 outputs, 2 are asked for");
    kiln_tensor *slope = kiln_parameter(x, "x");
    fails(kiln_call(g, &slope, 1, &y, 1), KILN_E_GRADIENT, "input \"in0\" requires a gradient, which it did not when");
    kiln_no_grad_begin();
    ok(kiln_call(g, &slope, 1, &y, 1));
    kiln_no_grad_end();
    expect(y, 2, 9., 12.);
    ok(kiln_call(g, &x, 1, &y, 1));
    assert_true(kiln_requires_grad(y));
    kiln_function_free(&g);
    // Added where gradients are off: it has none.
    kiln_no_grad_begin();
    g = through_file(f, j, &x, 1, 1);
    kiln_no_grad_end();
    ok(kiln_call(g, &slope, 1, &y, 1));
    assert_false(kiln_requires_grad(y));
    expect(y, 2, 9., 12.);
    kiln_function_free(&g);
    kiln_function_free(&j);
}

// A weight that is frozen after it was read has no gradient; the others have theirs.
static void some_weights_are_frozen(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    kiln_tensor *x = kiln_parameter(mat(f, 1, 2, 1., 2.), "x"), *y, *params[2];
    kiln_function *j = kiln_jit(two_weights, NULL, NULL);
    ok(kiln_graph_export(j, &x, 1, 1, model_file(), NULL));
    kiln_model *m = kiln_graph_import(f->dev, model_file());
    kiln_function *g = kiln_model_function(m, "main");
    assert_int_equal(kiln_model_parameters(m, params, 2), 2);
    for (int frozen = 0; frozen < 4; frozen++) {
        for (int i = 0; i < 2; i++) ok(kiln_set_requires_grad(params[i], !(frozen >> i & 1)));
        ok(kiln_call(g, &x, 1, &y, 1));
        expect(y, 2, 12., 16.);
        ok(kiln_backward(kiln_sum(y, NULL), NULL));
        expect(kiln_gradient(x), 2, 3., 7.);
        for (int i = 0; i < 2; i++) {
            kiln_tensor *d = kiln_gradient(params[i]);
            assert_true((d == NULL) == ((frozen >> i & 1) != 0));
            if (d && kiln_rank(d) == 2) expect(d, 4, 1., 1., 2., 2.);
            if (d && kiln_rank(d) == 1) expect(d, 2, 1., 1.);
            ok(kiln_set_gradient(params[i], NULL));
        }
        ok(kiln_set_gradient(x, NULL));
    }
    kiln_function_free(&g);
    kiln_model_free(&m);
    kiln_function_free(&j);
    unlink(model_file());
}

// --- gradients of gradients, and calls inside of captures

FN(cubes)
{
    out[0] = kiln_sum(kiln_mul(in[0], kiln_mul(in[0], in[0])), NULL);
    return kiln_error();
}

static void slopes_of_slopes(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    kiln_tensor *x = kiln_parameter(vec(f, 2, 2, 3), "x"), *y;
    kiln_function *j = kiln_jit(cubes, NULL, NULL), *g = through_file(f, j, &x, 1, 1);
    ok(kiln_call(g, &x, 1, &y, 1));
    ok(kiln_backward_with(y, KILN_BACKWARD(.create_graph = true)));
    kiln_tensor *d = kiln_gradient(x);
    expect(d, 2, 12., 27.);
    kiln_tensor *sum = kiln_sum(d, NULL);
    ok(kiln_set_gradient(x, NULL));
    ok(kiln_backward(sum, NULL));
    expect(kiln_gradient(x), 2, 12., 18.);
    kiln_function_free(&g);
    kiln_function_free(&j);
}

FN(outer)
{
    kiln_tensor *x = kiln_mul(in[0], kiln_scalar(2)), *y = NULL;
    TRY_(kiln_call(user, &x, 1, &y, 1));
    out[0] = kiln_add(y, kiln_sum(in[0], NULL));
    return kiln_error();
}

static kiln_tensor *fixed;

FN(turned)
{
    out[0] = kiln_transpose(in[0], 0, 1);
    out[2] = kiln_mul(in[0], fixed);
    out[1] = in[0];
    return kiln_error();
}

FN(turns)
{
    kiln_tensor *x = kiln_mul(in[0], kiln_scalar(2)), *y[3] = {NULL};
    TRY_(kiln_call(user, &x, 1, y, 3));
    out[2] = kiln_add(y[2], kiln_scalar(1));
    out[0] = kiln_add(y[0], kiln_scalar(1));
    out[1] = kiln_add(y[1], kiln_scalar(1));
    return kiln_error();
}

// A view of the same type as what it shows, and a constant, which the call gives inside of a capture.
static void views_inside_of_captures(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    kiln_tensor *x = mat(f, 2, 2, 1., 2., 3., 4.), *y[3];
    fixed = kiln_constant(mat(f, 2, 2, 1., 0., 0., 1.));
    kiln_function *j = kiln_jit(turned, NULL, NULL), *g = through_file(f, j, &x, 1, 3);
    for (int way = 0; way < 4; way++) {
        kiln_function *o = kiln_jit(turns, g, KILN_JIT(.capture = (kiln_capture)(way % 3)));
        ok(way == 3 ? turns(g, &x, 1, y, 3) : kiln_call(o, &x, 1, y, 3));
        expect(y[2], 4, 3., 1., 1., 9.);
        expect(y[0], 4, 3., 7., 5., 9.);
        expect(y[1], 4, 3., 5., 7., 9.);
        kiln_function_free(&o);
    }
    kiln_function_free(&g);
    kiln_function_free(&j);
}

static void inside_of_captures(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    kiln_tensor *x = kiln_parameter(vec(f, 2, 2, 3), "x"), *y;
    kiln_function *j = kiln_jit(cubes, NULL, NULL), *g = through_file(f, j, &x, 1, 1);
    for (int way = 0; way < 5; way++) {
        kiln_function *o = kiln_jit(outer, g, KILN_JIT(.capture = (kiln_capture)(way % 3)));
        kiln_jit_enable(way != 4);
        for (int k = 0; k < 3; k++) {
            ok(way == 3 ? outer(g, &x, 1, &y, 1) : kiln_call(o, &x, 1, &y, 1));
            expect(y, 1, 285.);
            ok(kiln_backward(y, NULL));
            expect(kiln_gradient(x), 2, 97., 217.); // 24 x^2 + 1
            ok(kiln_set_gradient(x, NULL));
        }
        kiln_jit_enable(true);
        kiln_function_free(&o);
    }
    kiln_function_free(&g);
    kiln_function_free(&j);
}

// --- open dimensions

FN(sized)
{
    int64_t b = kiln_dims(in[0])[0], t = kiln_dims(in[0])[1];
    kiln_tensor *flat = kiln_reshape(in[0], KILN_SHAPE(b * t, 2));
    kiln_tensor *x = kiln_reshape(kiln_matmul(flat, w), KILN_SHAPE(b, t, 2));
    kiln_tensor *scores = kiln_mul(kiln_matmul(x, kiln_transpose(in[0], 1, 2)), kiln_scalar(1.0 / (double)t));
    out[0] = kiln_matmul(kiln_softmax(scores, -1), in[0]);
    out[1] = kiln_mean(kiln_pad(x, KILN_PAD(.before = KILN_AXES(0, 1, 0), .after = KILN_AXES(0, 2, 0))), NULL);
    out[2] =
        kiln_max_pool2d(kiln_reshape(in[0], KILN_SHAPE(b, 1, t, 2)), KILN_POOL2D(.kernel = {3, 1}, .stride = {2, 1}));
    return kiln_error();
}

static void open_dimensions(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    int64_t b = kiln_symbol("batch", KILN_SYMBOL(.unique = true));
    int64_t t = kiln_symbol("time steps", KILN_SYMBOL(.min = 4, .max = 40, .divisor = 2, .unique = true));
    kiln_function *j = kiln_jit(sized, NULL, KILN_JIT(.input_types = KILN_TYPES(KILN_TYPE(KILN_F32, b, t, 2))));
    kiln_tensor *x = kiln_uniform(f->dev, KILN_F32, KILN_SHAPE(1, 6, 2), -1, 1), *y[3], *z[3];
    ok(kiln_graph_export(j, &x, 1, 3, model_file(), NULL));
    kiln_model *m = kiln_graph_import(f->dev, model_file());
    assert_non_null(m);
    unlink(model_file());
    kiln_model_value value = {.size = sizeof value};
    ok(kiln_model_input(m, "main", 0, &value));
    assert_string_equal(value.text, "f32[batch,time_steps,2]");
    assert_true(value.dims[0] == -1 && value.dims[1] == -1 && value.dims[2] == 2);
    ok(kiln_model_output(m, "main", 2, &value));
    assert_string_equal(value.text, "f32[batch,1,(time_steps-2)/2,2]");
    kiln_function *g = kiln_model_function(m, "main");
    for (int64_t batch = 1; batch < 4; batch++)
        for (int64_t time = 4; time <= 40; time += 2) {
            kiln_scope *scope = kiln_scope_begin();
            x = kiln_uniform(f->dev, KILN_F32, KILN_SHAPE(batch, time, 2), -1, 1);
            ok(kiln_call(j, &x, 1, y, 3));
            ok(kiln_call(g, &x, 1, z, 3));
            same_bits(y[0], z[0]);
            assert_true(kiln_item(y[1]) == kiln_item(z[1]));
            same_bits(y[2], z[2]);
            kiln_scope_end(&scope);
        }
    x = kiln_ones(f->dev, KILN_F32, KILN_SHAPE(1, 5, 2));
    fails(kiln_call(g, &x, 1, z, 3), KILN_E_SHAPE, "dimension 1 is 5, symbol time_steps says 4 to 40, 2 N + 0");
    x = kiln_ones(f->dev, KILN_F32, KILN_SHAPE(1, 42, 2));
    fails(kiln_call(g, &x, 1, z, 3), KILN_E_SHAPE, "dimension 1 is 42");
    kiln_function_free(&g);
    kiln_model_free(&m);
    kiln_function_free(&j);
}

FN(odd_or_even)
{
    out[0] = kiln_dims(in[0])[0] % 2 ? kiln_exp(in[0]) : kiln_sin(in[0]);
    return kiln_error();
}

FN(square_root)
{
    int64_t root = (int64_t)sqrt((double)kiln_dims(in[0])[0]);
    out[0] = kiln_exp(kiln_slice(in[0], KILN_SLICE(.stop = KILN_AXES(root))));
    return kiln_error();
}

FN(needs_equal)
{
    out[0] = kiln_add(in[0], in[1]);
    return kiln_error();
}

static void sizes_that_are_not_found(void **state)
{
    struct fixture *f = *state;
    kiln_set_device(f->dev);
    kiln_model *m = kiln_model_create();
    kiln_tensor *x[] = {vec(f, 4, 1, 2, 3, 4), vec(f, 4, 1, 2, 3, 5)};
    const kiln_jit_opts *open = KILN_JIT(.input_types = KILN_TYPES(KILN_TYPE(KILN_F32, -1)));
    kiln_function *parity = kiln_jit(odd_or_even, NULL, open), *root = kiln_jit(square_root, NULL, open);
    kiln_function *pair = kiln_jit(
        needs_equal, NULL, KILN_JIT(.input_types = KILN_TYPES(KILN_TYPE(KILN_F32, -1), KILN_TYPE(KILN_F32, -1))));
    fails(kiln_model_add(m, "f", parity, x, 1, 1, NULL), KILN_E_UNSUPPORTED,
          "its graph is another one for other sizes");
    kiln_status status = kiln_model_add(m, "f", root, x, 1, 1, NULL);
    assert_non_null(strstr(kiln_error_message(), "slice"));
    assert_non_null(strstr(kiln_error_message(), "files.c:"));
    fails(status, KILN_E_UNSUPPORTED, "attribute stop");
    fails(kiln_model_add(m, "f", pair, x, 2, 1, NULL), KILN_E_SHAPE, "has open dimensions; for in0_0 = 5, in1_0 = 4: ");
    assert_int_equal(kiln_model_function_count(m), 0);
    kiln_function_free(&parity);
    kiln_function_free(&root);
    kiln_function_free(&pair);
    kiln_model_free(&m);
}

// --- another process

FN(net)
{
    kiln_tensor *h = kiln_tanh(kiln_add(kiln_matmul(in[0], w), v));
    out[0] = kiln_softmax(h, -1);
    out[1] = kiln_sum(kiln_square(h), KILN_REDUCE(.axes = KILN_AXES(1)));
    return kiln_error();
}

// The other side: reads the file, runs it, writes what it gives.
static int run_other(const char *model, const char *x, const char *y, const char *z)
{
    kiln_device *dev = kiln_device_open(jit_device);
    kiln_set_device(dev);
    kiln_model *m = kiln_graph_import(dev, model);
    kiln_function *g = m ? kiln_model_function(m, "main") : NULL;
    kiln_tensor *in = kiln_npy_load(dev, x), *out[2] = {NULL};
    if (g && in) kiln_call(g, &in, 1, out, 2);
    if (!kiln_error()) kiln_npy_save(y, out[0]);
    if (!kiln_error()) kiln_npy_save(z, out[1]);
    if (kiln_error()) fprintf(stderr, "%s\n", kiln_error_message());
    int status = kiln_error() != KILN_OK;
    kiln_error_clear();
    kiln_function_free(&g);
    kiln_model_free(&m);
    kiln_free(&in);
    kiln_free(&out[0]);
    kiln_free(&out[1]);
    kiln_device_close(&dev);
    return status;
}

static char program[4096];

static void another_process(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    char y[64], z[64], x[64];
    snprintf(x, sizeof x, "x_%d.npy", (int)getpid());
    snprintf(y, sizeof y, "y_%d.npy", (int)getpid());
    snprintf(z, sizeof z, "z_%d.npy", (int)getpid());
    kiln_tensor *in = kiln_uniform(f->dev, KILN_F32, KILN_SHAPE(300, 2), -2, 2), *out[2];
    kiln_function *j = kiln_jit(net, NULL, NULL);
    ok(kiln_call(j, &in, 1, out, 2));
    ok(kiln_graph_export(j, &in, 1, 2, model_file(), NULL));
    ok(kiln_npy_save(x, in));
    char device[32], other[] = "--other", file[64];
    snprintf(device, sizeof device, "%s", jit_device);
    snprintf(file, sizeof file, "%s", model_file());
    char *args[] = {program, device, other, file, x, y, z, NULL};
    pid_t pid;
    int status;
    assert_int_equal(posix_spawn(&pid, program, NULL, NULL, args, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    same_bits(kiln_npy_load(f->dev, y), out[0]);
    same_bits(kiln_npy_load(f->dev, z), out[1]);
    unlink(x);
    unlink(y);
    unlink(z);
    unlink(model_file());
    kiln_function_free(&j);
}

// --- damaged and foreign files

static char *read_file(size_t *n)
{
    FILE *file = fopen(model_file(), "rb");
    assert_non_null(file);
    char *data = malloc(1 << 20);
    *n = fread(data, 1, 1 << 20, file);
    fclose(file);
    return data;
}

static void write_file(const char *data, size_t n)
{
    FILE *file = fopen(model_file(), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    fclose(file);
}

static void refused(struct fixture *f, kiln_status want, const char *part)
{
    assert_null(kiln_graph_import(f->dev, model_file()));
    fails(kiln_error(), want, part);
}

static void replace(const char *data, size_t n, const char *from, const char *to)
{
    assert_int_equal(strlen(from), strlen(to));
    char *copy = malloc(n), *at = NULL;
    memcpy(copy, data, n);
    for (size_t i = 0; i + strlen(from) <= n && !at; i++)
        if (!memcmp(copy + i, from, strlen(from))) at = copy + i;
    assert_non_null(at);
    memcpy(at, to, strlen(to));
    write_file(copy, n);
    free(copy);
}

FN(two_of_each)
{
    out[1] = kiln_mul(in[1], kiln_scalar(2));
    return two_weights(user, in, 1, out, 1);
}

static void files_that_do_not_hold(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    kiln_tensor *x = mat(f, 1, 2, 1., 1.);
    kiln_function *j = kiln_jit(two_of_each, NULL, NULL);
    ok(kiln_graph_export(j, (kiln_tensor *[]){x, mat(f, 1, 2, 2., 1.)}, 2, 2, model_file(), NULL));
    kiln_function_free(&j);
    size_t n;
    char *data = read_file(&n);
    replace(data, n, "\"kiln.model\":\"1\"", "\"kiln.model\":\"2\"");
    refused(f, KILN_E_UNSUPPORTED, "it is of version 2 of the format, 1 is the last known here");
    replace(data, n, "\"kiln.model\":\"1\"", "\"kiln.model\":\"x\"");
    refused(f, KILN_E_FORMAT, "\"x\" is no version");
    replace(data, n, "kiln.model", "kiln.Model");
    refused(f, KILN_E_FORMAT, "there are no graphs in it");
    replace(data, n, "kiln.manifest", "kiln.Manifest");
    refused(f, KILN_E_FORMAT, "\"kiln.manifest\" is missing");
    replace(data, n, "kiln.0.forward", "kiln.0.Forward");
    refused(f, KILN_E_FORMAT, "\"kiln.0.forward\" is missing");
    replace(data, n, "kiln.0.interface", "kiln.9.interface");
    refused(f, KILN_E_FORMAT, "there is no function in it");
    replace(data, n, "matmul", "matnul");
    refused(f, KILN_E_FORMAT, "the file is damaged");
    replace(data, n, "from weight", "from widget");
    refused(f, KILN_E_FORMAT, "is expected, found `widget`");
    replace(data, n, "input \\\"in1\\\"", "input \\\"in0\\\"");
    refused(f, KILN_E_FORMAT, "two inputs or outputs of main are named \"in0\"");
    replace(data, n, "result \\\"out1\\\"", "result \\\"out0\\\"");
    refused(f, KILN_E_FORMAT, "two inputs or outputs of main are named \"out0\"");
    replace(data, n, "parameter \\\"weight.1\\\"", "state     \\\"weight\\\"  ");
    refused(f, KILN_E_FORMAT, "tensor \"weight\" has a role already");
    replace(data, n, "parameter", "parametes");
    refused(f, KILN_E_FORMAT, "a line of a manifest is expected");
    for (size_t k = 0; k < n; k += n / 97 + 1) {
        write_file(data, k);
        assert_null(kiln_graph_import(f->dev, model_file()));
        assert_true(kiln_error() == KILN_E_FORMAT);
        kiln_error_clear();
    }
    kiln_tensor *t[] = {x};
    const char *names[] = {"x"};
    ok(kiln_safetensors_save(model_file(), names, t, 1));
    refused(f, KILN_E_FORMAT, "there are no graphs in it");
    unlink(model_file());
    refused(f, KILN_E_MISSING, "cannot be opened");
    free(data);
}

// Texts have a checksum. What tensors beside them are is held against what the texts say: names and places as the file
// is read, types as a function is called.
static void weights_that_do_not_fit(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    kiln_tensor *x = mat(f, 1, 2, 1., 1.), *y = NULL;
    kiln_function *j = kiln_jit(two_weights, NULL, NULL);
    ok(kiln_graph_export(j, &x, 1, 1, model_file(), NULL));
    kiln_function_free(&j);
    size_t n;
    char *data = read_file(&n);
    static const char *const changes[][3] = {
        {"\"shape\":[2,2]", "\"shape\":[4,1]", "weight \"weight\" is f32[4,1], %1 of its graph is f32[2,2]"},
        {"\"F32\",\"shape\":[2]", "\"I32\",\"shape\":[2]", "weight \"weight.1\" is i32[2], %3 of its graph is f32[2]"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        replace(data, n, changes[i][0], changes[i][1]);
        kiln_model *m = kiln_graph_import(f->dev, model_file());
        assert_non_null(m);
        j = kiln_model_function(m, "main");
        fails(kiln_call(j, &x, 1, &y, 1), KILN_E_FORMAT, changes[i][2]);
        kiln_function_free(&j);
        kiln_model_free(&m);
    }
    replace(data, n, ",\"weight\":", ",\"widget\":");
    refused(f, KILN_E_FORMAT, "the file has no tensor \"weight\"");
    replace(data, n, "[0,16]", "[4,16]");
    refused(f, KILN_E_FORMAT, "has 16 bytes, its offsets say 12");
    replace(data, n, "[16,24]", "[ 8,16]");
    refused(f, KILN_E_FORMAT, "the data before it ends at 16");
    unlink(model_file());
    free(data);
}

// What a call of the host says may be longer than a name.
static char long_text[6000];

static kiln_status says_much(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_assert(kiln_less(kiln_max(in[0], NULL), kiln_scalar(100)), long_text, in[0]);
    out[0] = kiln_add(in[0], kiln_scalar(1));
    return kiln_error();
}

static void long_texts(void **state)
{
    struct fixture *f = *state;
    memset(long_text, 'a', sizeof long_text - 1);
    memcpy(long_text + sizeof long_text - 12, "end at {}.", 11);
    kiln_tensor *x = mat(f, 1, 2, 1., 2.), *large = mat(f, 1, 2, 1., 200.), *y = NULL;
    kiln_function *j = kiln_jit(says_much, NULL, NULL);
    ok(kiln_graph_export(j, &x, 1, 1, model_file(), NULL));
    kiln_function_free(&j);
    kiln_model *m = kiln_graph_import(f->dev, model_file());
    assert_non_null(m);
    ok(kiln_call(kiln_model_function(m, "main"), &x, 1, &y, 1));
    expect(y, 2, 2., 3.);
    fails(kiln_call(kiln_model_function(m, "main"), &large, 1, &y, 1), KILN_E_ASSERT, "aaaa");
    kiln_model_free(&m);
    unlink(model_file());
}

int main(int argc, char **argv)
{
    snprintf(program, sizeof program, "%s", argv[0]);
    if (choose_device(argc, argv)) return 77;
    if (argc == 7 && !strcmp(argv[2], "--other")) return run_other(argv[3], argv[4], argv[5], argv[6]);
    const struct CMUnitTest tests[] = {
        FIXTURE(weights_are_named),
        FIXTURE(names_that_cannot_be),
        FIXTURE(names_of_numbers),
        FIXTURE(functions_share_weights),
        FIXTURE(all_that_cannot_go_is_listed),
        FIXTURE(calls_that_do_not_fit),
        FIXTURE(some_weights_are_frozen),
        FIXTURE(slopes_of_slopes),
        FIXTURE(inside_of_captures),
        FIXTURE(views_inside_of_captures),
        FIXTURE(open_dimensions),
        FIXTURE(sizes_that_are_not_found),
        FIXTURE(another_process),
        FIXTURE(weights_that_do_not_fit),
        FIXTURE(long_texts),
        FIXTURE(files_that_do_not_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
