// Gradients of captured functions some of whose results no gradient comes to: these results count as nothing, not as
// zeros, whatever they hold. Compared with eager mode, in each capture, by values that are infinite or no number.
#include "jit_cells.h"

enum { RESULTS = 6, CALLS = 3 };

// Its first result is harmless; the gradients of the second are infinite at 0, or no number.
static kiln_status has_a_pole(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    kiln_tensor *y = kiln_mul(in[0], in[1]);
    out[0] = kiln_square(y);
    out[1] = kiln_log(kiln_sub(y, y));
    return kiln_error();
}

// Pieces of one value, by views: their gradients meet in one buffer.
static kiln_status gives_pieces(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    kiln_tensor *y = kiln_mul(in[0], in[1]), *parts[2];
    TRY_(kiln_split(y, 0, parts, 2));
    out[0] = kiln_square(parts[0]);
    out[1] = kiln_sqrt(kiln_mul(parts[1], kiln_scalar(0)));
    return kiln_error();
}

static kiln_status joins(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    kiln_tensor *y = kiln_concat((kiln_tensor *[]){kiln_square(in[0]), kiln_neg(in[1])}, 2, 0);
    out[0] = kiln_sum(y, NULL);
    out[1] = kiln_div(y, kiln_sub(y, y));
    return kiln_error();
}

static kiln_status rounds(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    kiln_tensor *y = kiln_div(in[0], kiln_sub(in[1], in[1]));
    out[0] = kiln_mul(in[0], in[1]);
    out[1] = kiln_cast(y, KILN_I32);
    return kiln_error();
}

// Of an op with several results, one that is not the first: the others count as zeros only where that one counts.
static kiln_status normalises(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    kiln_tensor *y = kiln_div(in[0], kiln_sub(in[1], in[1])), *normal, *mean;
    out[0] = kiln_mul(in[0], in[1]);
    TRY_(kiln_batch_norm_train(kiln_reshape(y, KILN_SHAPE(1, 2)), KILN_BATCH_NORM(.weight = in[0]), &normal, &mean,
                               &out[1]));
    return kiln_error();
}

// The state has a history of its own, which the loss does not ask for.
static kiln_status writes_what_it_is_given(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                           size_t n_out)
{
    count_run(user);
    out[0] = kiln_mul(in[0], in[1]);
    kiln_div_(in[2], kiln_sub(in[0], in[0]));
    out[1] = in[2];
    return kiln_error();
}

struct pair {
    kiln_tensor *x, *w;
};

// Gradients of the parameters x and w by the sum of the squares of the results that `asked` names.
static struct pair gradients_by(struct fixture *f, kiln_fn fn, kiln_function *captured, unsigned asked, bool twice,
                                struct pair *leaves)
{
    kiln_tensor *x = vec(f, 2, 1.5, -.5), *w = vec(f, 2, 2., 4.), *out[RESULTS] = {NULL}, *loss = NULL;
    kiln_set_requires_grad(x, true);
    kiln_set_requires_grad(w, true);
    kiln_tensor *in[] = {x, w, vec(f, 2, 3., 5.)};
    ok(captured ? kiln_call(captured, in, 3, out, 2) : fn(NULL, in, 3, out, 2));
    for (int i = 0; i < 2; i++) {
        if (!(asked >> i & 1)) continue;
        kiln_tensor *one = kiln_cast(kiln_sum(kiln_square(out[i]), NULL), KILN_F32);
        loss = loss ? kiln_add(loss, one) : one;
    }
    ok(kiln_backward_with(loss, KILN_BACKWARD(.create_graph = twice)));
    if (twice) {
        kiln_tensor *d = kiln_gradient(x);
        ok(kiln_backward(kiln_sum(kiln_square(d), NULL), NULL));
    }
    *leaves = (struct pair){x, w};
    return (struct pair){kiln_gradient(x), kiln_gradient(w)};
}

static void compare(struct fixture *f, kiln_fn fn, bool twice)
{
    for (enum cell cell = 0; cell < CELLS; cell++) {
        int runs = 0;
        kiln_function *captured = capture_in(cell, fn, &runs);
        for (int t = 0; t < CALLS; t++)
            for (unsigned asked = 1; asked < 4; asked++) {
                struct pair leaves, got = gradients_by(f, fn, captured, asked, twice, &leaves);
                struct pair want = gradients_by(f, fn, NULL, asked, twice, &leaves);
                same_or_say(cell, t, "the gradient of x", got.x, want.x);
                same_or_say(cell, t, "the gradient of w", got.w, want.w);
            }
        assert_true(cell == AUTO || runs <= 2); // it is no new capture
        kiln_function_free(&captured);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static void an_unused_result_counts_as_nothing(void **state)
{
    static const kiln_fn functions[] = {has_a_pole, gives_pieces, joins, rounds, normalises};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) compare(*state, functions[i], false);
}

static void an_unused_result_counts_as_nothing_in_second_derivatives(void **state)
{
    compare(*state, has_a_pole, true);
    compare(*state, joins, true);
}

// Rules of the user's, which need not be linear in what arrives: as in eager mode they do not run where nothing does,
// and get zeros for the rest where something does.
static kiln_status constant_rule(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                                 kiln_tensor **din)
{
    din[0] = kiln_add(kiln_zeros_like(in[0]), kiln_scalar(5));
    return kiln_error();
}

static kiln_status takes_no_notice(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    out[0] = kiln_mul(in[0], in[1]);
    out[1] = kiln_apply("arrived_constant", (kiln_tensor *[]){in[0]}, 1);
    return kiln_error();
}

static kiln_status has_an_expression(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    out[0] = kiln_mul(in[0], in[1]);
    out[1] = kiln_apply("arrived_without_dy", (kiln_tensor *[]){out[0]}, 1);
    return kiln_error();
}

static kiln_status bent_rule(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                             kiln_tensor **din)
{
    kiln_tensor *both = kiln_mul(kiln_exp(kiln_unsqueeze(dout[1], 0)), kiln_add(dout[0], kiln_scalar(2)));
    din[0] = kiln_add(kiln_mul(in[0], both), kiln_scalar(3));
    return kiln_error();
}

static kiln_status bends(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    kiln_tensor *x = kiln_reshape(kiln_concat((kiln_tensor *[]){in[0], in[1]}, 2, 0), KILN_SHAPE(2, 2)), *var;
    TRY_(kiln_batch_norm_train(x, NULL, &out[0], &out[1], &var));
    return kiln_error();
}

// Leaves out what it need not do. In a capture that serves all of them nothing is missing but counts as zeros.
static kiln_status saving_rule(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                               kiln_tensor **din)
{
    int *left_out = user;
    *left_out += !dout[0] || !dout[1];
    kiln_tensor *of_y = dout[0] ? kiln_mul(in[0], dout[0]) : kiln_zeros_like(in[0]);
    din[0] = dout[1] ? kiln_add(of_y, kiln_mul(kiln_unsqueeze(dout[1], 0), kiln_scalar(3))) : of_y;
    return kiln_error();
}

static kiln_tensor *hook_with_a_constant(void *user, kiln_tensor *g)
{
    return kiln_full(NULL, KILN_F32, KILN_SHAPE(2), 7);
}

static kiln_status hooked(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    kiln_tensor *y = kiln_exp(kiln_mul(in[0], in[1]));
    kiln_register_hook(y, hook_with_a_constant, NULL);
    out[0] = kiln_mul(in[0], in[1]);
    out[1] = kiln_square(y);
    return kiln_error();
}

static void rules_of_the_user_need_not_be_linear(void **state)
{
    ok(kiln_register_op(KILN_OP(.name = "arrived_constant", .n_in = 1, .expr = "x * x")));
    ok(kiln_register_bprop("arrived_constant", constant_rule, NULL));
    ok(kiln_register_op(KILN_OP(.name = "arrived_without_dy", .n_in = 1, .expr = "x * x", .grad = {"3 * x"})));
    ok(kiln_register_bprop("batch_norm_train", bent_rule, NULL));
    static const kiln_fn functions[] = {takes_no_notice, has_an_expression, bends, hooked};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) compare(*state, functions[i], false);
    compare(*state, has_an_expression, true);
    ok(kiln_register_bprop("batch_norm_train", NULL, NULL));
}

static void rules_leave_out_what_is_missing(void **state)
{
    int left_out = 0;
    ok(kiln_register_rule(KILN_RULE(.op = "batch_norm_train", .fn = saving_rule, .user = &left_out, .needs_in = 1,
                                    .missing_is_null = true)));
    compare(*state, bends, false);
    assert_true(left_out >= CELLS * CALLS * 2); // eager mode, by one result alone
    ok(kiln_register_bprop("batch_norm_train", NULL, NULL));
}

// Where nothing arrives there is no gradient, rather than one of zeros.
static kiln_status keeps_apart(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_square(in[0]);
    out[1] = kiln_exp(in[1]);
    return kiln_error();
}

static void what_no_gradient_comes_to_has_none(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *captured = capture_in(cell, keeps_apart, NULL);
        for (int t = 0; t < CALLS; t++) {
            struct pair leaves;
            struct pair first = gradients_by(f, keeps_apart, captured, 1, false, &leaves);
            assert_non_null(first.x);
            assert_null(first.w);
            struct pair second = gradients_by(f, keeps_apart, captured, 2, false, &leaves);
            assert_null(second.x);
            assert_non_null(second.w);
        }
        kiln_function_free(&captured);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// A captured function in another's capture.
static kiln_status calls_another(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *two[2];
    TRY_(kiln_call(user, in, 3, two, 2));
    out[0] = kiln_mul(two[0], kiln_scalar(3));
    out[1] = kiln_sum(two[1], NULL);
    return kiln_error();
}

static void in_another_capture_too(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *inner = capture_in(cell, has_a_pole, NULL);
        kiln_function *outer = capture_in(cell, calls_another, inner);
        for (int t = 0; t < CALLS; t++) {
            struct pair leaves, got = gradients_by(f, NULL, outer, 1, false, &leaves), want;
            kiln_tensor *out[2], *in[] = {vec(f, 2, 1.5, -.5), vec(f, 2, 2., 4.)};
            kiln_set_requires_grad(in[0], true);
            kiln_set_requires_grad(in[1], true);
            ok(has_a_pole(NULL, in, 2, out, 2));
            ok(kiln_backward(kiln_sum(kiln_square(kiln_mul(out[0], kiln_scalar(3))), NULL), NULL));
            want = (struct pair){kiln_gradient(in[0]), kiln_gradient(in[1])};
            same_or_say(cell, t, "the gradient of x", got.x, want.x);
            same_or_say(cell, t, "the gradient of w", got.w, want.w);
        }
        kiln_function_free(&outer);
        kiln_function_free(&inner);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// More sets of results than programs are kept for.
static kiln_status gives_many(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    for (int i = 0; i < RESULTS; i++) {
        kiln_tensor *y = kiln_mul(in[0], kiln_scalar(i + 1));
        out[i] = i % 2 ? kiln_sqrt(kiln_mul(y, kiln_scalar(0))) : kiln_exp(y);
    }
    return kiln_error();
}

static kiln_tensor *gradient_of_some(struct fixture *f, kiln_function *captured, unsigned asked)
{
    kiln_tensor *x = vec(f, 2, .5, .25), *out[RESULTS], *loss = NULL;
    kiln_set_requires_grad(x, true);
    ok(captured ? kiln_call(captured, &x, 1, out, RESULTS) : gives_many(NULL, &x, 1, out, RESULTS));
    for (int i = 0; i < RESULTS; i++)
        if (asked >> i & 1) loss = loss ? kiln_add(loss, kiln_sum(out[i], NULL)) : kiln_sum(out[i], NULL);
    ok(kiln_backward(loss, NULL));
    return kiln_gradient(x);
}

static void any_set_of_results_may_be_used(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *captured = capture_in(cell, gives_many, NULL);
        for (int t = 0; t < 2; t++)
            for (unsigned asked = 1; asked < 1u << RESULTS; asked += 1 + t) {
                kiln_scope *scope = kiln_scope_begin();
                same_or_say(cell, (int)asked, "the gradient", gradient_of_some(f, captured, asked),
                            gradient_of_some(f, NULL, asked));
                kiln_scope_end(&scope);
            }
        kiln_function_free(&captured);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// What is not asked for is not computed.
static void the_backward_of_one_result_is_that_result_s(void **state)
{
    struct fixture *f = *state;
    uint64_t launches[2];
    kiln_function *captured = capture_in(STRICT, gives_many, NULL);
    for (int k = 0; k < 2; k++)
        for (int t = 0; t < 2; t++) {
            kiln_tensor *x = vec(f, 2, .5, .25), *out[RESULTS];
            kiln_set_requires_grad(x, true);
            ok(kiln_call(captured, &x, 1, out, RESULTS));
            kiln_tensor *loss = kiln_sum(out[0], NULL);
            for (int i = 1; i < RESULTS && k; i++) loss = kiln_add(loss, kiln_sum(out[i], NULL));
            uint64_t before = launches_of(f);
            ok(kiln_backward(loss, NULL));
            launches[k] = launches_of(f) - before;
        }
    assert_true(launches[0] < launches[1]);
    kiln_function_free(&captured);
}

static void a_written_state_s_gradient_too(void **state)
{
    compare(*state, writes_what_it_is_given, false);
}

// What was made of another result is not run backward, so that its memory may be written.
static kiln_status two_products(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(in[0], in[1]);
    out[1] = kiln_mul(in[0], in[2]);
    return kiln_error();
}

static kiln_tensor *slope_by_one(struct fixture *f, kiln_function *j)
{
    kiln_tensor *p = kiln_parameter(vec(f, 2, 3, 4), "p"), *q = kiln_parameter(vec(f, 2, 5, 6), "q");
    kiln_tensor *in[] = {vec(f, 2, 1, 2), p, q}, *out[2], *g = NULL;
    ok(j ? kiln_call(j, in, 3, out, 2) : two_products(NULL, in, 3, out, 2));
    kiln_tensor *beside = kiln_square(out[1]), *loss = kiln_sum(kiln_add(kiln_square(out[0]), beside), NULL);
    kiln_no_grad_begin();
    ok(kiln_assign(out[1], kiln_scalar(0)));
    kiln_no_grad_end();
    ok(kiln_gradients(loss, &p, 1, NULL, &g));
    return g;
}

static void a_result_leads_to_what_it_comes_of(void **state)
{
    struct fixture *f = *state;
    expect(slope_by_one(f, NULL), 2, 6., 32.);
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, two_products, NULL);
        for (int t = 0; t < 3; t++) expect(slope_by_one(f, j), 2, 6., 32.);
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// Places of the largest are numbers of another kind: nothing flows back from them, not even zeros, which times infinity
// are no number.
static kiln_status give_places(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *values;
    kiln_topk(kiln_squared_difference(in[0], kiln_scalar(1)), 2, 0, true, &values, &out[0]);
    out[1] = in[0];
    return kiln_error();
}

static void places_have_no_gradient(void **state)
{
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS; cell++) {
        kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, give_places, NULL);
        for (int t = 0; t < 3; t++) {
            kiln_tensor *x = vec(f, 3, 1., INFINITY, 2.), *out[2];
            ok(kiln_set_requires_grad(x, true));
            ok(j ? kiln_call(j, &x, 1, out, 2) : give_places(NULL, &x, 1, out, 2));
            assert_false(kiln_requires_grad(out[0]));
            ok(kiln_backward(kiln_sum(out[1], NULL), NULL));
            expect(kiln_gradient(x), 3, 1., 1., 1.);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        FIXTURE(an_unused_result_counts_as_nothing),
        FIXTURE(an_unused_result_counts_as_nothing_in_second_derivatives),
        FIXTURE(rules_of_the_user_need_not_be_linear),
        FIXTURE(rules_leave_out_what_is_missing),
        FIXTURE(what_no_gradient_comes_to_has_none),
        FIXTURE(in_another_capture_too),
        FIXTURE(any_set_of_results_may_be_used),
        FIXTURE(the_backward_of_one_result_is_that_result_s),
        FIXTURE(places_have_no_gradient),
        FIXTURE(a_written_state_s_gradient_too),
        FIXTURE(a_result_leads_to_what_it_comes_of),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
