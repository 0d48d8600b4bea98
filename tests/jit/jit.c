// Captured functions: values, memory, parameters, errors.
#include "jit_fixture.h"

static kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    out[0] = kiln_relu(kiln_add(kiln_mul(in[0], in[1]), kiln_scalar(-1)));
    return kiln_error();
}

static void values_are_those_of_eager(void **state)
{
    struct fixture *f = *state;
    int runs = 0;
    kiln_tensor *in[] = {vec(f, 3, 1, 2, 3), vec(f, 3, 0.5, 2, -1)}, *out = NULL;
    kiln_function *j = kiln_jit(chain, &runs, NULL);
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, in, 2, &out, 1));
        expect(out, 3, 0., 3., 0.);
    }
    assert_int_equal(runs, 1);
    kiln_jit_stats s = stats_of(j);
    assert_int_equal(s.calls, 3);
    assert_int_equal(s.captures, 1);
    assert_int_equal(s.programs, 1);
    assert_int_equal(s.guard_misses, 0);
    assert_int_equal(s.nodes, 3);
    kiln_function_free(&j);
}

static kiln_status give_back(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_add(in[0], in[0]);
    out[0] = in[0];
    out[1] = y;
    out[2] = y;
    out[3] = kiln_narrow(in[0], 0, 1, 2);
    out[4] = kiln_scalar(2.5);
    out[5] = kiln_narrow(y, 0, 0, 1);
    return kiln_error();
}

static void results_may_be_inputs_and_twins(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 3, 1, 2, 3), *out[6];
    kiln_function *j = kiln_jit(give_back, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        ok(kiln_call(j, &x, 1, out, 6));
        expect(out[0], 3, 1., 2., 3.);
        expect(out[1], 3, 2., 4., 6.);
        expect(out[2], 3, 2., 4., 6.);
        expect(out[3], 2, 2., 3.);
        expect(out[5], 1, 2.);
        assert_true(kiln_item(out[4]) == 2.5);
        assert_true(out[0] != x && kiln_is_view_of(out[0], x) && kiln_is_view_of(out[3], x));
        assert_true(kiln_is_view_of(out[1], out[2]) && kiln_is_view_of(out[5], out[1]));
        assert_true(out[1] != out[2]);
    }
    kiln_function_free(&j);
}

static kiln_status nothing(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    return KILN_OK;
}

static void no_outputs_are_fine(void **state)
{
    struct fixture *f = *state;
    int runs = 0;
    kiln_tensor *x = vec(f, 1, 1);
    kiln_function *j = kiln_jit(nothing, &runs, NULL);
    ok(kiln_call(j, &x, 1, NULL, 0));
    ok(kiln_call(j, &x, 1, NULL, 0));
    ok(kiln_call(j, NULL, 0, NULL, 0));
    assert_int_equal(runs, 2);
    kiln_tensor *out = NULL;
    fails(kiln_call(j, &x, 1, &out, 1), KILN_E_ARGUMENT, "had 0 outputs at its first call, 1 are asked for");
    kiln_function_free(&j);
    kiln_function *k = kiln_jit(nothing, NULL, NULL);
    fails(kiln_call(k, &x, 1, &out, 1), KILN_E_ARGUMENT, "left output 0 of 1 NULL");
    kiln_function_free(&k);
}

// Memory

static kiln_status write_input(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *part = kiln_narrow(in[0], 0, 1, 2), *before = kiln_mul(in[0], kiln_scalar(1));
    TRY_(kiln_mul_(part, kiln_scalar(10)));
    out[0] = kiln_add(in[0], before);
    TRY_(kiln_set_slice(in[0], KILN_SLICE(.stop = KILN_ARGS(1)), kiln_scalar(7)));
    out[1] = in[0];
    out[2] = part;
    return kiln_error();
}

static void writes_reach_the_caller(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 3, 1, 2, 3), *y = vec(f, 3, 1, 2, 3), *want[3], *out[3];
    kiln_function *j = kiln_jit(write_input, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        uint64_t version = kiln_tensor_version(x);
        ok(write_input(NULL, &y, 1, want, 3));
        ok(kiln_call(j, &x, 1, out, 3));
        same(x, y);
        for (int k = 0; k < 3; k++) same(out[k], want[k]);
        assert_true(kiln_tensor_version(x) > version);
        assert_true(kiln_is_view_of(out[1], x) && kiln_is_view_of(out[2], x));
    }
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
}

static kiln_status write_alias(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    TRY_(kiln_add_(in[0], kiln_scalar(1)));
    TRY_(kiln_mul_(in[1], kiln_scalar(2)));
    out[0] = kiln_add(in[0], kiln_scalar(0));
    return kiln_error();
}

static void inputs_that_share_memory_are_one(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = mat(f, 2, 3, 1., 2., 3., 4., 5., 6.), *y = mat(f, 2, 3, 1., 2., 3., 4., 5., 6.);
    kiln_tensor *xs[] = {x, kiln_transpose(x, 0, 1)}, *ys[] = {y, kiln_transpose(y, 0, 1)}, *a = NULL, *b = NULL;
    kiln_function *j = kiln_jit(write_alias, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        ok(kiln_call(j, xs, 2, &a, 1));
        ok(write_alias(NULL, ys, 2, &b, 1));
        same(a, b);
        same(x, y);
    }
    kiln_tensor *twice[] = {x, x}, *other[] = {y, y};
    ok(kiln_call(j, twice, 2, &a, 1));
    ok(write_alias(NULL, other, 2, &b, 1));
    same(a, b);
    same(x, y);
    kiln_tensor *part = kiln_narrow(x, 1, 1, 2), *ref = kiln_narrow(y, 1, 1, 2);
    kiln_tensor *p[] = {part, kiln_transpose(part, 0, 1)}, *q[] = {ref, kiln_transpose(ref, 0, 1)};
    ok(kiln_call(j, p, 2, &a, 1));
    ok(write_alias(NULL, q, 2, &b, 1));
    same(a, b);
    same(x, y);
    kiln_function_free(&j);
}

static kiln_status write_view_of_strided(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                         size_t n_out)
{
    kiln_tensor *row = kiln_select(in[0], 0, 1);
    TRY_(kiln_assign(row, kiln_scalar(-1)));
    kiln_tensor *later = kiln_narrow(in[0], 1, 0, 1);
    TRY_(kiln_mul_(in[0], kiln_scalar(3)));
    out[0] = kiln_add(row, kiln_scalar(0));
    out[1] = kiln_add(later, kiln_scalar(0));
    return kiln_error();
}

static void strided_inputs_are_written_through_views(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = mat(f, 2, 3, 1., 2., 3., 4., 5., 6.), *y = mat(f, 2, 3, 1., 2., 3., 4., 5., 6.);
    kiln_tensor *xs[] = {kiln_transpose(x, 0, 1), kiln_narrow(x, 1, 1, 2)};
    kiln_tensor *ys[] = {kiln_transpose(y, 0, 1), kiln_narrow(y, 1, 1, 2)}, *a[2], *b[2];
    kiln_function *j = kiln_jit(write_view_of_strided, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        ok(kiln_call(j, &xs[i], 1, a, 2));
        ok(write_view_of_strided(NULL, &ys[i], 1, b, 2));
        same(a[0], b[0]);
        same(a[1], b[1]);
        same(x, y);
    }
    assert_int_equal(stats_of(j).captures, 2);
    kiln_function_free(&j);
}

static kiln_status swap(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *a = kiln_mul(in[0], kiln_scalar(1));
    TRY_(kiln_assign(in[0], in[1]));
    return kiln_assign(in[1], a);
}

static void written_values_are_all_known_first(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 2, 1, 2), vec(f, 2, 3, 4)};
    kiln_function *j = kiln_jit(swap, NULL, NULL);
    ok(kiln_call(j, in, 2, NULL, 0));
    expect(in[0], 2, 3., 4.);
    expect(in[1], 2, 1., 2.);
    ok(kiln_call(j, in, 2, NULL, 0));
    expect(in[0], 2, 1., 2.);
    kiln_function_free(&j);
}

// Tensors from outside

struct held {
    kiln_tensor *t;
    int runs;
};

static kiln_status use_held(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct held *h = user;
    h->runs++;
    out[0] = kiln_mul(in[0], h->t);
    return kiln_error();
}

static void parameters_are_read_anew(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *out = NULL;
    struct held h = {kiln_parameter(vec(f, 2, 10, 20), "w"), 0};
    kiln_function *j = kiln_jit(use_held, &h, NULL);
    kiln_no_grad_begin();
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(out, 2, 10., 40.);
    ok(kiln_assign(h.t, vec(f, 2, 3, 4)));
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(out, 2, 3., 8.);
    assert_int_equal(h.runs, 1);
    // Another parameter in its place, the first one gone: never the old weights.
    kiln_free(&h.t);
    h.t = kiln_parameter(vec(f, 2, 5, 6), "w");
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(out, 2, 5., 12.);
    assert_int_equal(stats_of(j).guard_misses, 1);
    kiln_no_grad_end();
    kiln_function_free(&j);
}

static void bare_tensors_are_refused(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *out = NULL;
    struct held h = {vec(f, 2, 10, 20), 0};
    kiln_function *j = kiln_jit(use_held, &h, NULL);
    fails(kiln_call(j, &x, 1, &out, 1), KILN_E_STATE, "a tensor from outside, f32[2], made by from_data");
    fails(kiln_call(j, &x, 1, &out, 1), KILN_E_STATE, "kiln_constant (jit.c:");
    kiln_tensor *bare = h.t;
    h.t = kiln_constant(bare);
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(out, 2, 10., 40.);
    ok(kiln_assign(bare, vec(f, 2, 0, 0)));
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(out, 2, 10., 40.);
    kiln_function_free(&j);
    // State is read anew, and may be written.
    h.t = bare;
    ok(kiln_state(bare));
    assert_false(kiln_requires_grad(bare));
    j = kiln_jit(use_held, &h, NULL);
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(out, 2, 0., 0.);
    ok(kiln_assign(bare, vec(f, 2, 1, 3)));
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(out, 2, 1., 6.);
    kiln_function_free(&j);
}

static void an_input_from_outside_is_that_input(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *out = NULL;
    struct held h = {x, 0};
    kiln_function *j = kiln_jit(use_held, &h, NULL);
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(out, 2, 1., 4.);
    kiln_tensor *y = vec(f, 2, 5, 5);
    fails(kiln_call(j, &y, 1, &out, 1), KILN_E_STATE, "a tensor from outside");
    kiln_function_free(&j);
}

static kiln_status print_on_the_way(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    FILE *f = user;
    kiln_tensor *y = kiln_add(in[0], kiln_scalar(1));
    kiln_print(y, f);
    kiln_add_(in[0], y);
    kiln_print(in[0], f);
    out[0] = kiln_mul(y, y);
    kiln_print(out[0], f);
    return kiln_error();
}

static void prints_come_in_order_at_each_call(void **state)
{
    struct fixture *f = *state;
    char *a = NULL, *b = NULL;
    size_t a_B, b_B;
    FILE *to_a = open_memstream(&a, &a_B), *to_b = open_memstream(&b, &b_B);
    kiln_tensor *x = vec(f, 2, 1, 2), *y = vec(f, 2, 1, 2), *out = NULL;
    kiln_function *j = kiln_jit(print_on_the_way, to_a, NULL);
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        ok(print_on_the_way(to_b, &y, 1, &out, 1));
    }
    fclose(to_a);
    fclose(to_b);
    assert_string_equal(a, b);
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
    free(a);
    free(b);
}

struct printing {
    kiln_tensor *w, *outside;
    FILE *file;
};

static kiln_status print_what_is_held(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct printing *p = user;
    kiln_tensor *c = kiln_from_data(NULL, KILN_F32, KILN_SHAPE(2), (const float[]){7, 7});
    kiln_print(c, p->file);
    kiln_print(kiln_scalar(9), p->file);
    kiln_print(p->w, p->file);
    if (p->outside) kiln_print(p->outside, p->file);
    out[0] = kiln_mul(in[0], c);
    return kiln_error();
}

// A constant is printed while the function is captured; a parameter at each call, with the value it has then.
static void constants_are_printed_at_once(void **state)
{
    struct fixture *f = *state;
    char *text = NULL;
    size_t text_B;
    kiln_tensor *x = vec(f, 2, 1, 2), *w = kiln_parameter(vec(f, 2, 1, 2), "w"), *out = NULL;
    struct printing p = {w, NULL, open_memstream(&text, &text_B)};
    kiln_function *j = kiln_jit(print_what_is_held, &p, NULL);
    for (int i = 1; i < 4; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        expect(out, 2, 7., 14.);
        kiln_no_grad_begin();
        ok(kiln_assign(w, vec(f, 2, 1 + i, 2)));
        kiln_no_grad_end();
    }
    kiln_function_free(&j);
    fclose(p.file);
    assert_string_equal(text, "[7. 7.]\n9.0\n[1. 2.]\n[2. 2.]\n[3. 2.]\n");
    free(text);

    p.outside = x;
    p.file = stdout;
    j = kiln_jit(print_what_is_held, &p, NULL);
    kiln_tensor *y = vec(f, 2, 5, 5);
    fails(kiln_call(j, &y, 1, &out, 1), KILN_E_STATE, "a tensor from outside");
    kiln_function_free(&j);
    kiln_free(&w);
}

static kiln_status train(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *w = user;
    kiln_tensor *loss = kiln_sum(kiln_square(kiln_sub(kiln_mul(w, in[0]), in[1])), NULL);
    TRY_(kiln_backward(loss, NULL));
    kiln_no_grad_begin();
    kiln_sub_(w, kiln_mul(kiln_gradient(w), kiln_scalar(0.1)));
    kiln_no_grad_end();
    out[0] = loss;
    return kiln_error();
}

static void a_training_step_is_one_function(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 2, 1, 2), vec(f, 2, 3, 4)};
    kiln_tensor *w = kiln_parameter(vec(f, 2, 1, 1), "w"), *v = kiln_parameter(vec(f, 2, 1, 1), "v");
    kiln_function *j = kiln_jit(train, w, NULL);
    for (int i = 0; i < 4; i++) {
        kiln_tensor *a = NULL, *b = NULL;
        ok(kiln_call(j, in, 2, &a, 1));
        ok(train(v, in, 2, &b, 1));
        same(a, b);
        same(w, v);
        same(kiln_gradient(w), kiln_gradient(v));
    }
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
}

// Random numbers

static kiln_status noise(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_dropout(in[0], 0.5);
    out[1] = kiln_uniform(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(5), 0, 1);
    return kiln_error();
}

static void random_numbers_are_those_of_eager(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = kiln_ones(f->dev, KILN_F32, KILN_SHAPE(7)), *a[3][2], *b[3][2];
    kiln_function *j = kiln_jit(noise, NULL, NULL);
    ok(kiln_seed(f->dev, 5));
    for (int i = 0; i < 3; i++) ok(kiln_call(j, &x, 1, a[i], 2));
    ok(kiln_seed(f->dev, 5));
    for (int i = 0; i < 3; i++) ok(noise(NULL, &x, 1, b[i], 2));
    for (int i = 0; i < 6; i++) same(a[i / 2][i % 2], b[i / 2][i % 2]);
    assert_false(equal(a[0][1], a[1][1]));
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
}

// Reads and constants

static kiln_status read_held(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct held *h = user;
    out[0] = kiln_mul(in[0], kiln_scalar(kiln_item(kiln_narrow(h->t, 0, 0, 1))));
    return kiln_error();
}

static kiln_status read_input(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    double v = kiln_item(kiln_sum(in[0], NULL));
    out[0] = v > 0 ? kiln_neg(in[0]) : in[0];
    return kiln_error();
}

static kiln_status text_of(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    char *text = kiln_to_string(in[0]);
    free(text);
    return kiln_error();
}

static void reads_of_inputs_are_refused(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *out = NULL;
    kiln_function *j = kiln_jit(read_input, NULL, NULL);
    fails(kiln_call(j, &x, 1, &out, 1), KILN_E_STATE, "item: the value depends on an input of the function at jit.c:");
    fails(kiln_call(j, &x, 1, &out, 1), KILN_E_STATE,
          "choose by kiln_where or kiln_cond, give it to kiln_host_call, return the value and read it outside, or "
          "capture with KILN_CAPTURE_AUTO");
    fails(kiln_call(j, &x, 1, &out, 1), KILN_E_STATE, "(jit.c:");
    assert_null(out);
    kiln_function_free(&j);
    j = kiln_jit(text_of, NULL, NULL);
    fails(kiln_call(j, &x, 1, NULL, 0), KILN_E_STATE, "to_string: the value depends on an input");
    kiln_function_free(&j);
    // A parameter's value is not known either.
    struct held h = {kiln_parameter(x, "w"), 0};
    j = kiln_jit(read_held, &h, NULL);
    fails(kiln_call(j, &x, 1, &out, 1), KILN_E_STATE, "item: the value depends on an input");
    h.t = vec(f, 1, 3);
    fails(kiln_call(j, &x, 1, &out, 1), KILN_E_STATE, "uses a tensor from outside");
    kiln_free(&h.t);
    h.t = x;
    kiln_tensor *gone[32]; // the first of many: it is not used again at once
    for (int i = 0; i < 32; i++) gone[i] = vec(f, 1, 1);
    h.t = gone[0];
    for (int i = 0; i < 32; i++) kiln_free(&gone[i]);
    fails(kiln_call(j, &x, 1, &out, 1), KILN_E_HANDLE, "narrow: x is a handle that was freed");
    kiln_function_free(&j);
}

static kiln_status read_constants(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const float v[] = {3, 4};
    kiln_tensor *c = kiln_from_data(NULL, KILN_F32, KILN_SHAPE(2), v);
    TRY_(kiln_add_(c, kiln_scalar(1)));
    double sum = kiln_item(kiln_sum(kiln_mul(c, kiln_scalar(2)), NULL));
    double ones = kiln_item(kiln_sum(kiln_ones(NULL, KILN_F32, KILN_SHAPE(3)), NULL));
    out[0] = kiln_mul(kiln_add(in[0], c), kiln_scalar(sum + ones));
    TRY_(kiln_assign(c, in[0]));
    out[1] = kiln_mul(c, kiln_scalar(2));
    return kiln_error();
}

static void constants_are_evaluated(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *out[2];
    kiln_function *j = kiln_jit(read_constants, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        ok(kiln_call(j, &x, 1, out, 2));
        expect(out[0], 2, 5 * 21., 7 * 21.);
        expect(out[1], 2, 2., 4.);
    }
    kiln_function_free(&j);
    j = kiln_jit(read_constants, NULL, KILN_JIT(.syntax = KILN_SYNTAX_STRICT));
    fails(kiln_call(j, &x, 1, out, 2), KILN_E_STATE, "from_data: the function at jit.c");
    kiln_function_free(&j);
}

static kiln_status leak(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct held *h = user;
    h->t = kiln_own(kiln_add(in[0], in[0]));
    out[0] = h->t;
    return kiln_error();
}

static void abstract_values_die_with_their_capture(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *out = NULL;
    struct held h = {NULL, 0};
    kiln_function *j = kiln_jit(leak, &h, NULL), *k = kiln_jit(use_held, &h, NULL);
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(out, 2, 2., 4.);
    float v[2];
    fails(kiln_read(h.t, v, sizeof v), KILN_E_STATE, "its capture has ended");
    fails(kiln_call(k, &x, 1, &out, 1), KILN_E_STATE, "a capture that has ended");
    kiln_free(&h.t);
    kiln_function_free(&j);
    kiln_function_free(&k);
}

// Calls in calls

static kiln_status outer(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_function *const *inner = user;
    TRY_(kiln_call(*inner, in, 2, &out[0], 1));
    out[0] = kiln_add(out[0], kiln_scalar(1));
    return kiln_error();
}

static void calls_inside_are_inlined(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 2, 1, 2), vec(f, 2, 3, 4)}, *out = NULL;
    kiln_function *inner = kiln_jit(chain, NULL, NULL), *j = kiln_jit(outer, &inner, NULL);
    ok(kiln_call(j, in, 2, &out, 1));
    expect(out, 2, 3., 8.);
    assert_int_equal(stats_of(j).nodes, 4);
    assert_int_equal(stats_of(inner).calls, 0);
    kiln_function_free(&inner);
    ok(kiln_call(j, in, 2, &out, 1));
    kiln_function_free(&j);
    j = kiln_jit(outer, &inner, NULL);
    inner = j;
    fails(kiln_call(j, in, 2, &out, 1), KILN_E_STATE, "calls itself while it is captured");
    kiln_function_free(&j);
}

static void errors_inside_are_handed_out(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 2, 1, 2), vec(f, 3, 3, 4, 5)}, *out = NULL;
    kiln_function *j = kiln_jit(chain, NULL, NULL);
    fails(kiln_call(j, in, 2, &out, 1), KILN_E_SHAPE, "mul: ");
    assert_int_equal(stats_of(j).captures, 0);
    in[1] = vec(f, 2, 3, 4);
    ok(kiln_call(j, in, 2, &out, 1));
    kiln_tensor *gone = vec(f, 1, 1);
    in[1] = gone;
    kiln_free(&gone);
    fails(kiln_call(j, in, 2, &out, 1), KILN_E_HANDLE, "is a handle that was freed");
    fails(kiln_call(NULL, in, 2, &out, 1), KILN_E_ARGUMENT, "f is NULL");
    fails(kiln_call(j, NULL, 2, &out, 1), KILN_E_ARGUMENT, "in is NULL");
    fails(kiln_call(j, in, 2, NULL, 1), KILN_E_ARGUMENT, "out is NULL");
    assert_null(kiln_jit(NULL, NULL, NULL));
    fails(kiln_error(), KILN_E_ARGUMENT, "fn is NULL");
    assert_null(kiln_jit(chain, NULL, KILN_JIT(.capture = (kiln_capture)7)));
    fails(kiln_error(), KILN_E_ARGUMENT, ".capture 7");
    kiln_function_free(&j);
    kiln_function_free(&j);
}

static void capture_can_be_switched_off(void **state)
{
    struct fixture *f = *state;
    int runs = 0;
    kiln_tensor *in[] = {vec(f, 2, 1, 2), vec(f, 2, 3, 4)}, *out = NULL;
    kiln_function *j = kiln_jit(chain, &runs, NULL);
    kiln_jit_enable(false);
    for (int i = 0; i < 2; i++) ok(kiln_call(j, in, 2, &out, 1));
    kiln_jit_enable(true);
    expect(out, 2, 2., 7.);
    assert_int_equal(runs, 2);
    assert_int_equal(stats_of(j).captures, 0);
    assert_int_equal(stats_of(j).fallbacks, 2);
    kiln_function_free(&j);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(values_are_those_of_eager),
        FIXTURE(results_may_be_inputs_and_twins),
        FIXTURE(no_outputs_are_fine),
        FIXTURE(writes_reach_the_caller),
        FIXTURE(inputs_that_share_memory_are_one),
        FIXTURE(strided_inputs_are_written_through_views),
        FIXTURE(written_values_are_all_known_first),
        FIXTURE(parameters_are_read_anew),
        FIXTURE(bare_tensors_are_refused),
        FIXTURE(an_input_from_outside_is_that_input),
        FIXTURE(prints_come_in_order_at_each_call),
        FIXTURE(constants_are_printed_at_once),
        FIXTURE(a_training_step_is_one_function),
        FIXTURE(random_numbers_are_those_of_eager),
        FIXTURE(reads_of_inputs_are_refused),
        FIXTURE(constants_are_evaluated),
        FIXTURE(abstract_values_die_with_their_capture),
        FIXTURE(calls_inside_are_inlined),
        FIXTURE(errors_inside_are_handed_out),
        FIXTURE(capture_can_be_switched_off),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
