// AUTO and the tape: results of every kind, writes, rules of users, backward inside, and how long they live.
#include "net_fixture.h"

// --- results of other kinds

static kiln_status many(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *n = user;
    kiln_tensor *h = hidden(n, in[0]), *shown = kiln_add(h, n->w[1]);
    n->read = kiln_item(kiln_sum(h, NULL));
    out[0] = kiln_sum(kiln_exp(h), NULL);
    out[1] = shown;                           // of the first segment
    out[2] = kiln_transpose(shown, 0, 1);     // on its memory
    out[3] = kiln_argmax(h, NULL);            // without a gradient
    out[4] = in[0];                           // an input
    out[5] = kiln_mul(in[1], kiln_scalar(2)); // of what requires none
    out[6] = kiln_reshape(kiln_mul(n->w[1], kiln_scalar(2)), KILN_SHAPE(3, 1));
    return kiln_error();
}

static kiln_tensor *sum_of(kiln_tensor **out)
{
    kiln_tensor *y = kiln_mul(out[0], kiln_sum(kiln_square(out[2]), NULL));
    return kiln_add(y,
                    kiln_sum(kiln_matmul(kiln_mul(out[1], out[4]), kiln_mul(out[6], kiln_add(out[0], out[5]))), NULL));
}

static void results_of_every_kind(void **state)
{
    struct fixture *f = *state;
    struct net a = make_net(f), b = make_net(f);
    kiln_function *j = automatic(many, &a);
    for (int i = 0; i < 4; i++) {
        kiln_tensor *x[] = {kiln_parameter(batch(f, i), "x"), vec(f, 1, 2)}, *mine[7];
        kiln_tensor *y[] = {kiln_parameter(batch(f, i), "y"), vec(f, 1, 2)}, *want[7];
        ok(kiln_call(j, x, 2, mine, 7));
        ok(many(&b, y, 2, want, 7));
        for (int k = 0; k < 7; k++) {
            same(mine[k], want[k]);
            assert_true(kiln_requires_grad(mine[k]) == kiln_requires_grad(want[k]));
        }
        if (i == 2) { // a write through one result is seen through the other
            ok(kiln_mul_(kiln_select(mine[1], 0, 1), kiln_scalar(3)));
            ok(kiln_mul_(kiln_select(want[1], 0, 1), kiln_scalar(3)));
            same(mine[2], want[2]);
            ok(kiln_backward(kiln_sum(kiln_square(mine[2]), NULL), NULL));
            ok(kiln_backward(kiln_sum(kiln_square(want[2]), NULL), NULL));
        } else {
            ok(kiln_backward(sum_of(mine), NULL));
            ok(kiln_backward(sum_of(want), NULL));
        }
        same_gradients(&a, &b, x[0], y[0]);
    }
    kiln_function_free(&j);
}

static kiln_status two_results(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *n = user;
    kiln_tensor *h = kiln_exp(kiln_sin(kiln_tanh(kiln_matmul(in[0], n->w[0]))));
    out[0] = kiln_sum(kiln_square(h), NULL);
    out[1] = kiln_sum(kiln_log(kiln_mul(kiln_sub(h, h), n->w[1])), NULL); // its gradient is infinite
    return kiln_error();
}

static void a_result_that_is_not_asked_has_no_part_in_it(void **state)
{
    struct fixture *f = *state;
    struct net a = make_net(f), b = make_net(f);
    kiln_function *j = automatic(two_results, &a);
    for (int i = 0; i < 5; i++) {
        kiln_tensor *x = kiln_parameter(batch(f, i), "x"), *y = kiln_parameter(batch(f, i), "y"), *mine[2], *want[2];
        bool both = i == 3; // not what was learnt
        ok(kiln_call(j, &x, 1, mine, 2));
        ok(two_results(&b, &y, 1, want, 2));
        uint64_t before = launches_of(f);
        ok(kiln_backward(both ? kiln_add(mine[0], mine[1]) : mine[0], NULL));
        uint64_t mine_took = launches_of(f) - before;
        ok(kiln_backward(both ? kiln_add(want[0], want[1]) : want[0], NULL));
        uint64_t eager_took = launches_of(f) - before - mine_took;
        if (i == 2 && fuses(f)) assert_true(mine_took < eager_took);
        assert_true(both == (kiln_gradient(a.w[1]) != NULL));
        same_gradients(&a, &b, x, y);
    }
    kiln_function_free(&j);
}

static kiln_status into_input(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *n = user;
    TRY_(kiln_mul_(in[0], kiln_exp(n->w[1])));
    out[0] = kiln_sum(kiln_sin(in[0]), NULL);
    return kiln_error();
}

static void written_inputs_have_gradients(void **state)
{
    struct fixture *f = *state;
    struct net a = make_net(f), b = make_net(f);
    kiln_function *j = automatic(into_input, &a);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *p = kiln_parameter(batch(f, i), "x"), *q = kiln_parameter(batch(f, i), "y");
        kiln_tensor *x = kiln_mul(p, kiln_scalar(1)), *y = kiln_mul(q, kiln_scalar(1)), *mine, *want;
        kiln_tensor *row = kiln_select(x, 0, 1), *other = kiln_select(y, 0, 1);
        ok(kiln_call(j, &x, 1, &mine, 1));
        ok(into_input(&b, &y, 1, &want, 1));
        same(x, y);
        ok(kiln_backward(kiln_add(mine, kiln_sum(kiln_mul(x, row), NULL)), NULL));
        ok(kiln_backward(kiln_add(want, kiln_sum(kiln_mul(y, other), NULL)), NULL));
        same_gradients(&a, &b, p, q);
    }
    kiln_function_free(&j);
}

static kiln_status exp_and_mul(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = user ? kiln_sum(kiln_mul(in[0], in[1]), NULL) : kiln_sum(kiln_exp(kiln_add(in[0], in[1])), NULL);
    return kiln_error();
}

static void later_writes_are_refused_where_eager_refuses_them(void **state)
{
    struct fixture *f = *state;
    for (int needs = 0; needs < 2; needs++) {
        kiln_function *j = automatic(exp_and_mul, needs ? f : NULL);
        for (int i = 0; i < 3; i++) {
            kiln_tensor *in[] = {kiln_parameter(vec(f, 2, 1, 2), "x"), vec(f, 2, 3, 4)}, *y = NULL;
            ok(kiln_call(j, in, 2, &y, 1));
            ok(kiln_mul_(in[1], kiln_scalar(2)));
            if (needs)
                fails(kiln_backward(y, NULL), KILN_E_GRADIENT, "has changed since");
            else
                ok(kiln_backward(y, NULL));
            if (!needs) expect(kiln_gradient(in[0]), 2, exp(4.), exp(6.));
        }
        kiln_function_free(&j);
    }
}

static void the_reverse_graph_is_that_of_eager(void **state)
{
    struct fixture *f = *state;
    struct net a = make_net(f);
    kiln_function *j = automatic(two_results, &a);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *x = kiln_parameter(batch(f, i), "x"), *mine[2], *want[2];
        ok(kiln_call(j, &x, 1, mine, 2));
        ok(two_results(&a, &x, 1, want, 2));
        for (int k = 0; k < 2; k++) {
            kiln_graph *g = kiln_backward_graph(mine[k]), *of_eager = kiln_backward_graph(want[k]);
            assert_non_null(g);
            assert_int_equal(kiln_graph_node_count(g), kiln_graph_node_count(of_eager));
            assert_int_equal(kiln_graph_output_count(g), kiln_graph_output_count(of_eager));
            kiln_graph_free(&g);
            kiln_graph_free(&of_eager);
        }
        ok(kiln_backward(mine[0], NULL));
    }
    kiln_function_free(&j);
}

// --- rules, inner backward, lifetime

static kiln_status ten(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                       kiln_tensor **din)
{
    ++*(int *)user;
    din[0] = kiln_mul(dout[0], kiln_scalar(10));
    return kiln_error();
}

static kiln_status with_erf(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_exp(kiln_erf(kiln_mul(in[0], in[0]))), NULL);
    return kiln_error();
}

static void rules_of_users_run_at_each_backward(void **state)
{
    struct fixture *f = *state;
    int runs = 0;
    kiln_function *j = automatic(with_erf, NULL);
    for (int i = 0; i < 6; i++) {
        kiln_tensor *x = kiln_parameter(vec(f, 2, .5, 1), "x"), *y = NULL;
        if (i == 2) ok(kiln_register_bprop("erf", ten, &runs));
        if (i == 4) ok(kiln_register_bprop("erf", NULL, NULL));
        ok(kiln_call(j, &x, 1, &y, 1));
        ok(kiln_backward(y, NULL));
        bool mine = i == 2 || i == 3;
        for (int k = 0; k < 2; k++) {
            double v = k ? 1 : .5, slope = mine ? 10 : 2 / sqrt(acos(-1)) * exp(-v * v * v * v), g[2];
            read_all(kiln_gradient(x), g);
            assert_true(fabs(g[k] - exp(erf(v * v)) * slope * 2 * v) < 1e-4);
        }
    }
    assert_int_equal(runs, 2);
    kiln_function_free(&j);
}

static kiln_status inner_and_outer(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *n = user;
    kiln_tensor *loss = NULL, *again = NULL;
    TRY_(no_break(n, in, 1, &loss, 1));
    TRY_(kiln_backward(loss, NULL)); // of this recording
    TRY_(one_break(n, in, 1, &again, 1));
    out[0] = again;
    out[1] = loss; // its tape is used up
    return kiln_error();
}

static void backward_inside_stays_inside(void **state)
{
    struct fixture *f = *state;
    struct net a = make_net(f), b = make_net(f);
    kiln_function *j = automatic(inner_and_outer, &a);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *x = kiln_parameter(batch(f, i), "x"), *y = kiln_parameter(batch(f, i), "y"), *mine[2], *want[2];
        ok(kiln_call(j, &x, 1, mine, 2));
        ok(inner_and_outer(&b, &y, 1, want, 2));
        ok(kiln_backward(mine[0], NULL));
        ok(kiln_backward(want[0], NULL));
        same_gradients(&a, &b, x, y);
        fails(kiln_backward(mine[1], NULL), KILN_E_GRADIENT, "used up by an earlier backward");
    }
    kiln_function_free(&j);
}

struct step {
    kiln_function *j;
    struct net *net;
};

static kiln_status step_around(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct step *s = user;
    kiln_tensor *y = NULL;
    TRY_(s->j ? kiln_call(s->j, in, 1, &y, 1) : no_break(s->net, in, 1, &y, 1));
    out[0] = kiln_mul(y, kiln_scalar(2));
    return kiln_error();
}

static kiln_status backward_of(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *const *y = user;
    TRY_(kiln_backward(*y, NULL));
    out[0] = kiln_mul(in[0], kiln_scalar(2));
    return kiln_error();
}

static void calls_nest_and_backward_may_be_captured(void **state)
{
    struct fixture *f = *state;
    struct net a = make_net(f), b = make_net(f);
    struct step around = {automatic(no_break, &a), NULL};
    kiln_tensor *result = NULL;
    kiln_function *j = automatic(step_around, &around), *back = automatic(backward_of, &result);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *x = kiln_parameter(batch(f, i), "x"), *y = kiln_parameter(batch(f, i), "y"), *want, *out;
        ok(kiln_call(j, &x, 1, &result, 1));
        ok(no_break(&b, &y, 1, &want, 1));
        ok(kiln_call(back, &x, 1, &out, 1)); // the compiled backward, recorded op by op
        ok(kiln_backward(kiln_mul(want, kiln_scalar(2)), NULL));
        same_gradients(&a, &b, x, y);
    }
    kiln_function_free(&j);
    kiln_function_free(&back);
    kiln_function_free(&around.j);
}

static uint64_t hash_of_net(void *user)
{
    const struct net *n = user;
    return (uint64_t)(n->read > 0);
}

static void backward_outlives_recording_and_function(void **state)
{
    struct fixture *f = *state;
    struct net a = make_net(f), b = make_net(f);
    kiln_function *j = kiln_jit(two_breaks, &a, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .cache_entries = 1));
    kiln_tensor *x[4], *y[4], *mine[4], *want[4];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4; i++) { // each shape drives the recordings of the last one out
            kiln_tensor *rows = kiln_concat((kiln_tensor *[]){batch(f, i), batch(f, 1)}, 2, 0);
            x[i] = kiln_parameter(kiln_narrow(rows, 0, 0, 1 + i), "x");
            y[i] = kiln_parameter(kiln_narrow(rows, 0, 0, 1 + i), "y");
            ok(kiln_call(j, &x[i], 1, &mine[i], 1));
            ok(two_breaks(&b, &y[i], 1, &want[i], 1));
        }
        if (round) kiln_function_free(&j);
        for (int i = 0; i < 4; i++) {
            ok(kiln_backward(mine[i], NULL));
            ok(kiln_backward(want[i], NULL));
            same_gradients(&a, &b, x[i], y[i]);
        }
        if (!round) assert_true(stats_of(j).evictions > 0);
    }
}

static void a_hash_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct net a = make_net(f), b = make_net(f);
    kiln_function *j = kiln_jit(one_break, &a, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .hash_args = hash_of_net));
    for (int i = 0; i < 4; i++) {
        kiln_tensor *x = kiln_parameter(batch(f, i), "x"), *y = kiln_parameter(batch(f, i), "y"), *mine, *want;
        ok(kiln_call(j, &x, 1, &mine, 1));
        ok(one_break(&b, &y, 1, &want, 1));
        ok(kiln_backward(mine, NULL));
        ok(kiln_backward(want, NULL));
        same_gradients(&a, &b, x, y);
    }
    kiln_function_free(&j);
}

// One node stands for what a call left on the tape. That one of its results comes of a parameter does not make another
// one, the history of a state, come of it, too: what the state was used for is not differentiated, and may be written.
struct beside {
    kiln_tensor *p, *state;
};

static kiln_status uses_state(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct beside *b = user;
    kiln_tensor *y = kiln_tanh(b->state);
    TRY_(kiln_add_(in[0], in[0]));
    out[0] = kiln_add(kiln_sum(y, NULL), kiln_sum(kiln_square(b->p), NULL));
    out[1] = y;
    return kiln_error();
}

static kiln_status slope_beside(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct beside *b = user;
    const int64_t wrt = 0;
    const kiln_grad_opts opts = {
        .size = sizeof opts, .wrt = {1, &wrt}, .params = {1, &b->p}, .has_aux = true, .outputs = 2};
    TRY_(kiln_value_and_grad(uses_state, b, in, 2, &opts, out, n_out));
    return kiln_error();
}

static void a_result_leads_to_what_it_comes_of(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = NULL;
    kiln_tensor *got[2][4] = {{NULL}};
    for (int captured = 0; captured < 2; captured++) {
        kiln_tensor *all = vec(f, 6, .1, .2, .3, .4, .5, .6),
                    *in[] = {kiln_narrow(all, 0, 2, 2), kiln_narrow(all, 0, 4, 2)};
        struct beside b = {kiln_parameter(vec(f, 2, 3, 4), "p"), kiln_narrow(all, 0, 0, 2)};
        ok(kiln_state(b.state));
        ok(kiln_set_requires_grad(in[1], true));
        if (captured) j = kiln_jit(slope_beside, &b, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
        for (int t = 0; t < 3; t++) ok(captured ? kiln_call(j, in, 2, got[1], 4) : slope_beside(&b, in, 2, got[0], 4));
    }
    for (int i = 0; i < 4; i++) same(got[1][i], got[0][i]);
    kiln_function_free(&j);
}

// Two parts of one memory: what was written to the one with a gradient goes on through the call before, in which a
// product has kept the other, which is written again.
struct halves {
    kiln_tensor *memory, *w, *state;
};

static kiln_status sum_of_state(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct halves *h = user;
    TRY_(kiln_mul_(in[1], h->w));
    kiln_tensor *sum = kiln_add(in[1], h->state);
    out[1] = kiln_matmul(kiln_reshape(in[1], KILN_SHAPE(1, 2)), kiln_reshape(sum, KILN_SHAPE(2, 1)));
    out[0] = kiln_sum(out[1], NULL);
    return kiln_error();
}

static kiln_status slope_of_state(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct halves *h = user;
    return kiln_value_and_grad(sum_of_state, h, in, n_in,
                               KILN_GRAD(.has_aux = true, .outputs = 2, .params = KILN_PARAMS(h->w)), out, n_out);
}

static void run_halves(struct fixture *f, bool captured, kiln_tensor **out)
{
    struct halves h = {vec(f, 4, 1, 2, 3, 4), kiln_parameter(vec(f, 2, 0.5, 2), "w"), NULL};
    h.state = kiln_narrow(h.memory, 0, 2, 2);
    ok(kiln_state(h.state));
    kiln_function *j = captured ? automatic(slope_of_state, &h) : NULL;
    for (int t = 0; t < 3; t++) {
        kiln_tensor *in[] = {vec(f, 2, 1, 2), kiln_narrow(h.memory, 0, 0, 2)};
        kiln_set_requires_grad(in[0], true);
        ok(j ? kiln_call(j, in, 2, out + 3 * t, 3) : slope_of_state(&h, in, 2, out + 3 * t, 3));
        for (int i = 0; i < 3; i++) kiln_read(out[3 * t + i], (float[4]){0}, (size_t)kiln_numel(out[3 * t + i]) * 4);
    }
    kiln_function_free(&j);
}

static void what_was_kept_may_be_written_where_no_gradient_needs_it(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *got[9], *want[9];
    run_halves(f, false, want);
    run_halves(f, true, got);
    for (int i = 0; i < 9; i++) near(got[i], want[i], 1e-6);
}

// --- where an extremum was

// A sum is among what x is made of: added up in another order, it would move x by its last bits. What comes last reads
// a value, so that x is a result of the segment, and what it is made of is none.
static kiln_status scales_by_an_extremum(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                         size_t n_out)
{
    const kiln_reduce_opts *rows = KILN_REDUCE(.axes = KILN_AXES(-1), .keepdims = true);
    const int kind = *(const int *)user;
    kiln_tensor *x = kiln_mul(in[0], kiln_sum(kiln_sigmoid(in[0]), rows)), *size = kiln_tanh(kiln_mul(x, in[1]));
    kiln_tensor *most = kind == 0   ? kiln_min(size, rows)
                        : kind == 1 ? kiln_max(size, rows)
                        : kind == 2
                            ? kiln_cummax(size, -1)
                            : kiln_norm(size, KILN_NORM(.axes = KILN_AXES(-1), .keepdims = true, .ord = INFINITY));
    out[0] = kiln_mul(x, most);
    if (kiln_item(kiln_sum(x, NULL)) > 1e6) out[0] = x;
    for (int i = 0; i < 2; i++) {
        kiln_tensor *y = kiln_add(x, kiln_scalar(i));
        if (kiln_item(kiln_sum(y, NULL)) > 1e6) out[0] = y;
    }
    return kiln_error();
}

static void extrema_are_found_again(void **state)
{
    struct fixture *f = *state;
    float v[216];
    uint32_t drawn = 1;
    for (int kind = 0; kind < 4; kind++)
        for (int run = 0; run < 8; run++) {
            kiln_function *j = kiln_jit(scales_by_an_extremum, &kind, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
            for (int i = 0; i < 216; i++) v[i] = (float)((drawn = drawn * 1664525 + 1013904223) >> 8) / (1 << 22) - 2;
            for (int t = 0; t < 4; t++) {
                kiln_tensor *x[2], *y;
                for (int captured = 0; captured < 2; captured++) {
                    x[captured] = kiln_parameter(kiln_from_data(f->dev, KILN_F32, KILN_SHAPE(6, 6, 6), v), "x");
                    kiln_tensor *in[] = {x[captured], vec(f, 6, 0.5, -0.25, 1., 0.75, -0.5, 0.25)};
                    ok(captured ? kiln_call(j, in, 2, &y, 1) : scales_by_an_extremum(&kind, in, 2, &y, 1));
                    ok(kiln_backward(kiln_sum(y, NULL), NULL));
                }
                near(kiln_gradient(x[1]), kiln_gradient(x[0]), 1e-4);
            }
            kiln_function_free(&j);
        }
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(results_of_every_kind),
        FIXTURE(a_result_that_is_not_asked_has_no_part_in_it),
        FIXTURE(written_inputs_have_gradients),
        FIXTURE(later_writes_are_refused_where_eager_refuses_them),
        FIXTURE(the_reverse_graph_is_that_of_eager),
        FIXTURE(rules_of_users_run_at_each_backward),
        FIXTURE(backward_inside_stays_inside),
        FIXTURE(calls_nest_and_backward_may_be_captured),
        FIXTURE(backward_outlives_recording_and_function),
        FIXTURE(a_hash_changes_nothing),
        FIXTURE(extrema_are_found_again),
        FIXTURE(a_result_leads_to_what_it_comes_of),
        FIXTURE(what_was_kept_may_be_written_where_no_gradient_needs_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
