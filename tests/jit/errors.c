// Functions that fail as their programs run, by an index out of range, or a matrix that is singular: what they wrote
// before has happened, what comes after has not, as when the function itself runs. On a GPU such an index is no error.
#include "jit_cells.h"

// What a call may change: two inputs, a state, a parameter. The last input holds the indices.
struct world {
    kiln_tensor *x, *y, *state, *p;
};

static struct world make_world(struct fixture *f)
{
    struct world w = {vec(f, 4, 1, 2, 3, 4), vec(f, 4, 5, 6, 7, 8), vec(f, 4, 9, 10, 11, 12), NULL};
    w.p = kiln_parameter(mat(f, 4, 2, 1., 2., 3., 4., 5., 6., 7., 8.), "p");
    ok(kiln_state(w.state));
    return w;
}

// singular: all calls but the first fail, on all devices that compute.
static void agree(struct fixture *f, kiln_fn fn, bool singular)
{
    bool null = !strcmp(jit_device, "null");
    static const int64_t indices[][2] = {{1, 2}, {1, 4}, {0, 3}, {-5, 0}};
    for (enum cell cell = 0; cell < CELLS; cell++) {
        struct world mine = make_world(f), theirs = make_world(f);
        kiln_function *j = capture_in(cell, fn, &mine);
        for (int t = 0; t < 4; t++) {
            kiln_tensor *index = kiln_from_data(f->dev, KILN_I64, KILN_SHAPE(2), indices[t]), *got = NULL, *want = NULL;
            kiln_tensor *a[] = {mine.x, mine.y, index, kiln_mul(mine.p, mine.p)};
            kiln_tensor *b[] = {theirs.x, theirs.y, index, kiln_mul(theirs.p, theirs.p)};
            kiln_status first = kiln_call(j, a, 4, &got, 1);
            kiln_error_clear();
            kiln_status second = fn(&theirs, b, 4, &want, 1);
            kiln_error_clear();
            if (first != second)
                print_error("%s, call %d: %s, not %s\n", cell_names[cell], t, kiln_status_name(first),
                            kiln_status_name(second));
            assert_int_equal(first, second);
            if (singular) assert_int_equal(first, t && !null ? KILN_E_ARGUMENT : KILN_OK);
            if (!first) same_or_say(cell, t, "the result", got, want);
            same_or_say(cell, t, "x", mine.x, theirs.x);
            same_or_say(cell, t, "y", mine.y, theirs.y);
            same_or_say(cell, t, "the state", mine.state, theirs.state);
            same_or_say(cell, t, "the parameter", mine.p, theirs.p);
            same_or_say(cell, t, "the gradient", kiln_gradient(mine.p), kiln_gradient(theirs.p));
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static kiln_status write_then_fail(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_add_(in[0], kiln_scalar(1));
    out[0] = kiln_gather(in[1], 0, in[2]);
    return kiln_error();
}

static kiln_status fail_then_write(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_gather(in[1], 0, in[2]);
    kiln_add_(in[0], kiln_scalar(1));
    return kiln_error();
}

static kiln_status between(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_add_(in[0], kiln_scalar(1));
    kiln_mul_(kiln_narrow(w->state, 0, 1, 2), kiln_scalar(2));
    kiln_add_(in[0], kiln_sum(w->state, NULL));
    out[0] = kiln_gather(in[1], 0, in[2]);
    kiln_add_(in[0], kiln_sum(out[0], NULL));
    kiln_add_(w->state, kiln_scalar(1));
    return kiln_error();
}

static kiln_status of_what_was_written(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_add_(in[0], kiln_scalar(1));
    kiln_tensor *picked = kiln_gather(in[0], 0, in[2]);
    kiln_mul_(in[1], kiln_sum(picked, NULL));
    out[0] = kiln_gather(in[1], 0, in[2]);
    kiln_mul_(in[0], kiln_scalar(3));
    return kiln_error();
}

static kiln_status exchange(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *x = kiln_mul(in[0], kiln_scalar(1));
    TRY_(kiln_assign(in[0], in[1]));
    TRY_(kiln_assign(in[1], x));
    out[0] = kiln_gather(in[1], 0, in[2]);
    TRY_(kiln_assign(in[1], kiln_zeros_like(x)));
    return kiln_error();
}

static kiln_status scatter_last(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_add_(w->state, in[0]);
    TRY_(kiln_assign(in[1], kiln_scatter_add(in[1], 0, in[2], kiln_narrow(in[0], 0, 0, 2))));
    out[0] = kiln_add(w->state, in[1]);
    return kiln_error();
}

static kiln_status train(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_add_(w->state, kiln_scalar(1));
    TRY_(kiln_set_gradient(w->p, NULL));
    out[0] = kiln_sum(kiln_square(kiln_embedding(w->p, in[2])), NULL);
    TRY_(kiln_backward(out[0], NULL));
    kiln_no_grad_begin();
    kiln_sub_(w->p, kiln_mul(kiln_gradient(w->p), kiln_scalar(.125)));
    kiln_no_grad_end();
    kiln_add_(in[0], kiln_scalar(1));
    return kiln_error();
}

static kiln_status two_parts(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *a = kiln_narrow(in[0], 0, 0, 3), *b = kiln_narrow(in[0], 0, 2, 2);
    kiln_mul_(a, kiln_scalar(2));
    kiln_add_(b, kiln_scalar(1));
    kiln_tensor *good = kiln_gather(in[0], 0, kiln_remainder(in[2], kiln_scalar_int(4)));
    kiln_mul_(in[0], kiln_sum(good, NULL));
    out[0] = kiln_gather(in[0], 0, in[2]);
    return kiln_error();
}

static kiln_status labels(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_add_(in[0], kiln_scalar(1));
    kiln_mul_(w->state, kiln_scalar(2));
    out[0] = kiln_cross_entropy(in[1], kiln_select(in[2], 0, 1), NULL);
    kiln_add_(w->state, out[0]);
    return kiln_error();
}

static kiln_status backward_then_fail(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    TRY_(kiln_backward(kiln_sum(kiln_mul(kiln_square(w->p), kiln_sum(in[0], NULL)), NULL), NULL));
    kiln_add_(in[0], kiln_scalar(1));
    out[0] = kiln_gather(in[1], 0, in[2]);
    return kiln_error();
}

// Dropped, made, and made larger; each before another op that may fail.
static kiln_status between_gradients(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    const kiln_backward_opts *add = KILN_BACKWARD(.accumulate = true);
    kiln_tensor *first = kiln_gather(in[1], 0, kiln_sub(in[2], kiln_scalar_int(1)));
    TRY_(kiln_set_gradient(w->p, NULL));
    out[0] = kiln_gather(in[1], 0, in[2]);
    TRY_(kiln_backward_with(
        kiln_sum(kiln_exp(kiln_mul(w->p, kiln_mul(kiln_sum(out[0], NULL), kiln_scalar(.01)))), NULL), add));
    TRY_(kiln_backward_with(kiln_sum(kiln_mul(w->p, kiln_sum(first, NULL)), NULL), add));
    out[0] = kiln_mul(kiln_gather(in[0], 0, kiln_add(in[2], kiln_scalar_int(1))), kiln_add(first, out[0]));
    TRY_(kiln_set_gradient(w->p, kiln_zeros_like(w->p)));
    return kiln_error();
}

// Through an input that was made of the parameter.
static kiln_status gradients_outside(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_tensor *x = kiln_sum(kiln_mul(in[3], w->p), NULL);
    TRY_(kiln_backward(x, NULL));
    out[0] = kiln_gather(in[1], 0, in[2]);
    return kiln_error();
}

// Has no inverse where an index is 4 or 0.
static kiln_tensor *matrix_of(kiln_tensor *index)
{
    kiln_tensor *numbers = kiln_cast(kiln_mul(index, kiln_sub(index, kiln_scalar_int(4))), KILN_F32);
    return kiln_mul(kiln_eye(kiln_tensor_device(index), KILN_F32, 2, 2), numbers);
}

static kiln_status between_systems(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_tensor *good = kiln_det(matrix_of(in[2]));
    kiln_add_(in[0], kiln_add(good, kiln_scalar(1)));
    kiln_mul_(kiln_narrow(w->state, 0, 1, 2), kiln_scalar(2));
    kiln_add_(in[0], kiln_sum(w->state, NULL));
    out[0] = kiln_solve(matrix_of(in[2]), kiln_narrow(in[1], 0, 1, 2));
    kiln_add_(in[0], kiln_sum(out[0], NULL));
    kiln_add_(w->state, kiln_scalar(1));
    return kiln_error();
}

// Differentiated: the backward has a factor of its own.
static kiln_status train_by_inverse(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_add_(w->state, kiln_scalar(1));
    TRY_(kiln_set_gradient(w->p, NULL));
    out[0] = kiln_sum(kiln_inv(kiln_matmul(matrix_of(in[2]), kiln_narrow(w->p, 0, 1, 2))), NULL);
    TRY_(kiln_backward(out[0], NULL));
    kiln_no_grad_begin();
    kiln_sub_(w->p, kiln_mul(kiln_gradient(w->p), kiln_scalar(.125)));
    kiln_no_grad_end();
    kiln_add_(in[0], kiln_scalar(1));
    return kiln_error();
}

static void a_singular_matrix_fails_on_all_devices(void **state)
{
    agree(*state, between_systems, true);
    agree(*state, train_by_inverse, true);
}

static void writes_before_the_error_have_happened(void **state)
{
    static const kiln_fn fns[] = {write_then_fail, fail_then_write, between, of_what_was_written,
                                  exchange,        scatter_last,    train,   two_parts};
    for (size_t i = 0; i < sizeof fns / sizeof *fns; i++) agree(*state, fns[i], false);
}

static void a_label_fails_as_an_index_does(void **state)
{
    agree(*state, labels, false);
}

static void gradients_before_the_error_are_left(void **state)
{
    agree(*state, backward_then_fail, false);
    agree(*state, between_gradients, false);
    agree(*state, gradients_outside, false);
}

static kiln_status double_it(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(in[0], in[0]);
    return kiln_error();
}

// A name may come from a file.
static void names_do_not_steer_terminals(void **state)
{
    struct fixture *f = *state;
    char text[4000] = "";
    kiln_tensor *x = kiln_ones(f->dev, KILN_F32, KILN_SHAPE(4)), *y;
    kiln_function *j = kiln_jit(double_it, NULL, KILN_JIT(.name = "red\033[31m\nline"));
    ok(kiln_call(j, &x, 1, &y, 1));
    FILE *file = tmpfile();
    kiln_explain_with(j, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    rewind(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = 0;
    fclose(file);
    assert_non_null(strstr(text, "red\\x1b[31m\\x0aline"));
    assert_null(strchr(text, 27));
    kiln_function_free(&j);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(writes_before_the_error_have_happened), FIXTURE(a_singular_matrix_fails_on_all_devices),
        FIXTURE(a_label_fails_as_an_index_does),        FIXTURE(gradients_before_the_error_are_left),
        FIXTURE(names_do_not_steer_terminals),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
