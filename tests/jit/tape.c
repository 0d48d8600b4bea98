// What a captured function leaves on the tape, and finds there: in every kind of capture the gradients are those of the
// function itself.
#include "jit_cells.h"
#include <kiln/control.h>

// What a function reaches: two parameters, a state.
struct world {
    kiln_tensor *p, *q, *state;
    kiln_function *captured; // NULL: the function itself runs
    bool gradients_inside;
};

static struct world make_world(struct fixture *f)
{
    struct world w = {kiln_parameter(vec(f, 3, 1, 2, 3), "p"), kiln_parameter(vec(f, 3, .5, -1, 2), "q"),
                      vec(f, 3, 4, 5, 6), NULL, false};
    ok(kiln_state(w.state));
    return w;
}

enum { CALLS = 3 };

// One call with a plain input that the function may write. The result's gradient, then that of the input as it is now.
static void run_once(struct fixture *f, struct world *w, kiln_fn fn, int t, kiln_tensor **seen)
{
    kiln_tensor *x = vec(f, 3, 7. + t, 8, 9), *out = NULL;
    ok(w->captured ? kiln_call(w->captured, &x, 1, &out, 1) : fn(w, &x, 1, &out, 1));
    seen[0] = out;
    if (!w->gradients_inside) {
        kiln_tensor *sum = kiln_sum(out, NULL);
        if (kiln_requires_grad(x)) sum = kiln_add(sum, kiln_sum(kiln_square(x), NULL));
        if (kiln_requires_grad(sum)) ok(kiln_backward(sum, NULL));
    }
    seen[1] = x;
    seen[2] = kiln_gradient(w->p);
    seen[3] = kiln_gradient(w->q);
    seen[4] = w->state;
}

static void agree(struct fixture *f, kiln_fn fn, bool gradients_inside)
{
    static const char *const names[] = {"the result", "the input", "the gradient of p", "the gradient of q",
                                        "the state"};
    for (enum cell cell = 0; cell < CELLS; cell++) {
        struct world mine = make_world(f), theirs = make_world(f);
        mine.captured = capture_in(cell, fn, &mine);
        mine.gradients_inside = theirs.gradients_inside = gradients_inside;
        for (int t = 0; t < CALLS; t++) {
            kiln_tensor *got[5], *want[5];
            run_once(f, &mine, fn, t, got);
            run_once(f, &theirs, fn, t, want);
            for (int i = 0; i < 5; i++) same_or_say(cell, t, names[i], got[i], want[i]);
        }
        kiln_function_free(&mine.captured);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// Writes of what requires a gradient

static kiln_status assign_parameter(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_tensor *y = kiln_mul(in[0], kiln_scalar(0));
    TRY_(kiln_assign(y, w->p));
    kiln_mul_(y, kiln_scalar(3));
    out[0] = kiln_mul(kiln_square(y), in[0]);
    return kiln_error();
}

static kiln_status assign_to_input(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    TRY_(kiln_assign(in[0], w->p));
    out[0] = kiln_mul(in[0], w->q);
    return kiln_error();
}

static kiln_status set_part(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_tensor *y = kiln_mul(in[0], kiln_scalar(2)), *column = kiln_reshape(in[0], KILN_SHAPE(1, 3));
    const kiln_slice_opts all = {.size = sizeof all}, first = {.size = sizeof first, .stop = {1, (int64_t[]){1}}};
    TRY_(kiln_set_slice(y, &all, w->p));
    TRY_(kiln_set_slice(column, &first, w->q));
    out[0] = kiln_mul(kiln_square(y), in[0]);
    return kiln_error();
}

static kiln_status assign_and_write_again(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                          size_t n_out)
{
    struct world *w = user;
    kiln_tensor *view = kiln_narrow(in[0], 0, 1, 2);
    TRY_(kiln_assign(in[0], w->p));
    kiln_mul_(view, kiln_narrow(w->q, 0, 0, 2));
    out[0] = kiln_square(in[0]);
    return kiln_error();
}

static void a_parameter_is_assigned(void **state)
{
    agree(*state, assign_parameter, false);
    agree(*state, assign_to_input, false);
    agree(*state, set_part, false);
    agree(*state, assign_and_write_again, false);
}

static kiln_status stop_and_write(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_tensor *y = kiln_mul(w->p, kiln_scalar(2)), *stopped = kiln_stop_gradient(y);
    kiln_add_(y, w->q);
    out[0] = kiln_mul(kiln_mul(y, stopped), in[0]);
    return kiln_error();
}

static kiln_status write_what_is_stopped(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                         size_t n_out)
{
    struct world *w = user;
    kiln_tensor *y = kiln_mul(w->p, kiln_scalar(2)), *stopped = kiln_stop_gradient(y);
    kiln_mul_(stopped, w->q);
    out[0] = kiln_add(kiln_mul(y, in[0]), kiln_square(stopped));
    return kiln_error();
}

static kiln_status write_part_of_what_is_stopped(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                                 size_t n_out)
{
    struct world *w = user;
    kiln_tensor *y = kiln_mul(w->p, kiln_scalar(2)), *stopped = kiln_stop_gradient(y);
    kiln_add_(kiln_narrow(stopped, 0, 0, 2), kiln_narrow(w->q, 0, 1, 2));
    kiln_add_(y, w->p);
    out[0] = kiln_add(kiln_mul(y, in[0]), kiln_square(stopped));
    return kiln_error();
}

static kiln_status view_without_gradients(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                          size_t n_out)
{
    struct world *w = user;
    kiln_tensor *y = kiln_mul(w->p, kiln_scalar(2));
    kiln_no_grad_begin();
    kiln_tensor *view = kiln_narrow(y, 0, 0, 3);
    kiln_no_grad_end();
    kiln_add_(y, w->q);
    out[0] = kiln_mul(kiln_mul(y, view), in[0]);
    return kiln_error();
}

static void a_stopped_gradient_stays_stopped(void **state)
{
    agree(*state, stop_and_write, false);
    agree(*state, write_what_is_stopped, false);
    agree(*state, write_part_of_what_is_stopped, false);
    agree(*state, view_without_gradients, false);
}

// Constants

static kiln_status times_constant(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    out[0] = kiln_sum(kiln_mul(in[0], kiln_constant(kiln_stop_gradient(w->q))), NULL);
    return kiln_error();
}

static const float other_data[] = {1, 0, 2};
static kiln_tensor *labels, *choice, *numbers;

static kiln_status with_where(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *a = kiln_square(in[0]);
    out[0] = kiln_sum(kiln_where(kiln_constant(choice), a, kiln_mul(in[0], kiln_constant(numbers))), NULL);
    return kiln_error();
}

static kiln_status with_gather(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *picked = kiln_gather(in[0], 0, kiln_constant(labels));
    out[0] = kiln_sum(kiln_mul(picked, kiln_constant(numbers)), NULL);
    return kiln_error();
}

static kiln_status with_scatter(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *put = kiln_scatter(kiln_square(in[0]), 0, kiln_constant(labels), kiln_constant(numbers));
    kiln_tensor *mine = kiln_scatter(kiln_constant(numbers), 0, kiln_constant(labels), in[0]);
    out[0] = kiln_sum(kiln_mul(put, mine), NULL);
    return kiln_error();
}

static kiln_status with_cross_entropy(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *rows = kiln_mul(kiln_reshape(in[0], KILN_SHAPE(3, 1)), kiln_constant(numbers));
    out[0] = kiln_cross_entropy(rows, kiln_constant(labels), NULL);
    return kiln_error();
}

static kiln_status square_by(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_sin(kiln_mul(in[0], user)), NULL);
    return kiln_error();
}

// A gradient by a constant, of a function that uses it, too.
static kiln_status by_a_constant(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *c = kiln_constant(numbers), *d;
    TRY_(kiln_grad(square_by, c, &c, 1, NULL, &d, 1));
    out[0] = kiln_sum(kiln_mul(in[0], d), NULL);
    return kiln_error();
}

struct inner {
    kiln_fn fn;
    struct world *w;
};

static kiln_status differentiate_inside(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                        size_t n_out)
{
    struct inner *i = user;
    return kiln_value_and_grad(i->fn, i->w, in, n_in, NULL, out, n_out);
}

static void rules_see_constants(void **state)
{
    struct fixture *f = *state;
    static const kiln_fn fns[] = {times_constant, with_where,         with_gather,
                                  with_scatter,   with_cross_entropy, by_a_constant};
    labels = kiln_from_data(f->dev, KILN_I64, KILN_SHAPE(3), (const int64_t[]){1, 0, 2});
    choice = kiln_from_data(f->dev, KILN_BOOL, KILN_SHAPE(3), (const bool[]){true, false, true});
    numbers = kiln_from_data(f->dev, KILN_F32, KILN_SHAPE(3), other_data);
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (size_t k = 0; k < sizeof fns / sizeof *fns; k++) {
            struct world w = make_world(f);
            struct inner inner = {fns[k], &w};
            kiln_function *inside = capture_in(cell, differentiate_inside, &inner);
            kiln_function *outside = capture_in(cell, fns[k], &w);
            for (int t = 0; t < CALLS; t++) {
                kiln_tensor *x = vec(f, 3, 1. + t, 2, 3), *got[2] = {NULL}, *want[2] = {NULL}, *out = NULL;
                ok(kiln_call(inside, &x, 1, got, 2));
                ok(differentiate_inside(&inner, &x, 1, want, 2));
                same_or_say(cell, t, "the value", got[0], want[0]);
                same_or_say(cell, t, "the gradient", got[1], want[1]);
                kiln_tensor *p = kiln_parameter(x, "x");
                ok(kiln_call(outside, &p, 1, &out, 1));
                ok(kiln_backward(out, NULL));
                same_or_say(cell, t, "the gradient from outside", kiln_gradient(p), want[1]);
            }
            kiln_function_free(&inside);
            kiln_function_free(&outside);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// Parameters as inputs

static kiln_status backward_inside(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_square(in[0]), NULL);
    return kiln_backward_with(out[0], KILN_BACKWARD(.accumulate = *(const bool *)user));
}

static void gradients_of_inputs_add_up(void **state)
{
    struct fixture *f = *state;
    static bool accumulate[] = {false, true};
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (int k = 0; k < 2; k++) {
            kiln_function *j = capture_in(cell, backward_inside, &accumulate[k]);
            kiln_tensor *p[2][2], *out = NULL;
            for (int i = 0; i < 4; i++) p[i / 2][i % 2] = kiln_parameter(vec(f, 2, 1. + i % 2, 3), "p");
            static const int order[] = {0, 0, 1, 0, 1, 1};
            for (int t = 0; t < 6; t++) {
                ok(kiln_call(j, &p[0][order[t]], 1, &out, 1));
                ok(backward_inside(&accumulate[k], &p[1][order[t]], 1, &out, 1));
                for (int i = 0; i < 2; i++)
                    same_or_say(cell, t, "the gradient", kiln_gradient(p[0][i]), kiln_gradient(p[1][i]));
                for (int i = 0; i < 2 && t == 4; i++) ok(kiln_set_gradient(p[i][0], NULL));
            }
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static kiln_status backward_if_leaf(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_square(in[0]), NULL);
    return kiln_is_leaf(in[0]) ? kiln_backward_with(out[0], KILN_BACKWARD(.keep_tape = true)) : kiln_error();
}

// A leaf, then what is made of one, in turns.
static void leaves_and_others_take_turns(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (int first = 0; first < 2; first++) {
            kiln_function *j = capture_in(cell, backward_if_leaf, NULL);
            for (int t = 0; t < 4; t++) {
                kiln_tensor *p = kiln_parameter(vec(f, 2, 1, 2), "p"), *out = NULL;
                kiln_tensor *x = (t + first) % 2 ? kiln_mul(p, kiln_scalar(3)) : p;
                ok(kiln_call(j, &x, 1, &out, 1));
                if (x == p) {
                    expect(kiln_gradient(p), 2, 2., 4.);
                } else {
                    ok(kiln_backward(out, NULL));
                    expect(kiln_gradient(p), 2, 18., 36.);
                }
            }
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// Rules

static kiln_status times_ten(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                             kiln_tensor **din)
{
    din[0] = kiln_mul(dout[0], kiln_scalar(*(const int *)user));
    return kiln_error();
}

static kiln_status sine(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_sin(kiln_mul(in[0], kiln_scalar(1))), NULL);
    return kiln_error();
}

static kiln_status sine_gradient(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_grad(sine, NULL, in, n_in, NULL, out, n_out);
}

static void a_rule_is_registered_after_the_capture(void **state)
{
    struct fixture *f = *state;
    static int factors[] = {10, 20};
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, sine, NULL), *inside = capture_in(cell, sine_gradient, NULL);
        for (int t = 0; t < 8; t++) {
            int rule = t / 2;
            ok(kiln_register_bprop("sin", rule % 3 ? times_ten : NULL, rule % 3 ? &factors[rule - 1] : NULL));
            kiln_tensor *p = kiln_parameter(vec(f, 1, 0), "p"), *x = vec(f, 1, 0), *out = NULL, *g = NULL;
            ok(kiln_call(j, &p, 1, &out, 1));
            ok(kiln_backward(out, NULL));
            ok(kiln_call(inside, &x, 1, &g, 1));
            double want = rule % 3 ? factors[rule - 1] : 1;
            expect(kiln_gradient(p), 1, want);
            expect(g, 1, want);
        }
        kiln_function_free(&j);
        kiln_function_free(&inside);
    }
    ok(kiln_register_bprop("sin", NULL, NULL));
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// States

static kiln_status read_state(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    out[0] = kiln_mul(w->state, in[0]);
    return kiln_error();
}

static void a_state_is_written_with_a_gradient(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (int before = 0; before < 2; before++) {
            struct world mine = make_world(f), theirs = make_world(f);
            kiln_function *j = capture_in(cell, read_state, &mine);
            for (int t = 0; t < 4; t++) {
                kiln_tensor *x = vec(f, 3, 1. + t, 2, 3), *got = NULL, *want = NULL;
                if (t % 2 == before) {
                    ok(kiln_assign(mine.state, kiln_mul(mine.p, kiln_scalar(t + 1))));
                    ok(kiln_assign(theirs.state, kiln_mul(theirs.p, kiln_scalar(t + 1))));
                } else {
                    ok(kiln_assign(mine.state, x));
                    ok(kiln_assign(theirs.state, x));
                }
                ok(kiln_call(j, &x, 1, &got, 1));
                ok(read_state(&theirs, &x, 1, &want, 1));
                same_or_say(cell, t, "the result", got, want);
                assert_int_equal(kiln_requires_grad(got), kiln_requires_grad(want));
                if (!kiln_requires_grad(want)) continue;
                ok(kiln_backward(got, NULL));
                ok(kiln_backward(want, NULL));
                same_or_say(cell, t, "the gradient", kiln_gradient(mine.p), kiln_gradient(theirs.p));
            }
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// What a state has been written is on the tape afterwards as it is eagerly.
static kiln_status write_state(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    TRY_(kiln_assign(w->state, kiln_mul(in[0], w->p)));
    out[0] = kiln_square(in[0]);
    return kiln_error();
}

static kiln_status add_to_state(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_add_(w->state, kiln_mul(in[0], w->p));
    kiln_mul_(kiln_narrow(w->state, 0, 1, 2), kiln_narrow(w->q, 0, 0, 2));
    out[0] = kiln_mul(w->state, w->q);
    return kiln_error();
}

static kiln_status clear_state(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    TRY_(kiln_assign(w->state, in[0]));
    out[0] = kiln_mul(w->p, in[0]);
    return kiln_error();
}

static kiln_status write_state_without_gradients(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                                 size_t n_out)
{
    struct world *w = user;
    kiln_no_grad_begin();
    kiln_mul_(w->state, kiln_scalar(.5));
    kiln_no_grad_end();
    out[0] = kiln_mul(w->state, w->p);
    return kiln_error();
}

// The history that the state has goes through the function's own backward, which uses it up.
static kiln_status write_and_run_back(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    TRY_(kiln_assign(w->state, kiln_mul(in[0], w->p)));
    out[0] = kiln_sum(kiln_square(w->state), NULL);
    return kiln_backward(out[0], NULL);
}

// Where the function is called several times before a backward, and where the state had a history before.
static void write_states(struct fixture *f, kiln_fn fn, enum cell cell, int calls, bool history)
{
    struct world mine = make_world(f), theirs = make_world(f);
    struct world *both[] = {&theirs, &mine};
    kiln_function *j = capture_in(cell, fn, &mine);
    for (int t = 0; t < CALLS; t++) {
        kiln_status status[2] = {KILN_OK, KILN_OK};
        for (int k = 0; k < 2; k++) {
            struct world *w = both[k];
            kiln_tensor *out = NULL;
            kiln_no_grad_begin();
            ok(kiln_assign(w->state, vec(f, 3, 4, 5, 6)));
            kiln_no_grad_end();
            ok(kiln_assign(w->state, history ? kiln_square(w->q) : vec(f, 3, 4, 5, 6)));
            for (int i = 0; i < calls; i++) {
                kiln_tensor *x = vec(f, 3, 1. + t, 2, 3 + i);
                ok(k ? kiln_call(j, &x, 1, &out, 1) : fn(w, &x, 1, &out, 1));
            }
            kiln_tensor *loss = kiln_sum(kiln_mul(kiln_square(w->state), vec(f, 3, 1, 2, 3)), NULL);
            status[k] = kiln_backward(loss, NULL);
            if (status[k]) fails(status[k], KILN_E_GRADIENT, "was used up by an earlier backward");
        }
        assert_int_equal(status[0], status[1]);
        same_or_say(cell, t, "the state", mine.state, theirs.state);
        same_or_say(cell, t, "the gradient of p", kiln_gradient(mine.p), kiln_gradient(theirs.p));
        same_or_say(cell, t, "the gradient of q", kiln_gradient(mine.q), kiln_gradient(theirs.q));
    }
    kiln_function_free(&j);
}

static void what_is_written_to_a_state_stays_on_the_tape(void **state)
{
    static const kiln_fn fns[] = {write_state, add_to_state, clear_state, write_state_without_gradients,
                                  write_and_run_back};
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (size_t i = 0; i < sizeof fns / sizeof *fns; i++)
            for (int history = 0; history < 2; history++)
                for (int calls = 1; calls < 3; calls++) write_states(*state, fns[i], cell, calls, history);
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// A result whose tape the function itself has used up.
static void a_result_whose_tape_is_used_up(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        struct world w = make_world(f);
        kiln_function *j = capture_in(cell, write_and_run_back, &w);
        for (int t = 0; t < CALLS; t++) {
            kiln_tensor *x = vec(f, 3, 1. + t, 2, 3), *out = NULL;
            ok(kiln_call(j, &x, 1, &out, 1));
            assert_true(kiln_requires_grad(out));
            fails(kiln_backward(out, NULL), KILN_E_GRADIENT, "the tape of sum was used up by an earlier backward");
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// An input that has lost its history: what was written to it has none.
static kiln_status clear_input(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *part = kiln_narrow(in[0], 0, 0, 1);
    TRY_(kiln_assign(in[0], kiln_zeros_like(in[0])));
    assert_false(kiln_requires_grad(in[0]) || kiln_requires_grad(part));
    out[0] = kiln_add(in[0], kiln_scalar(1));
    return kiln_error();
}

static void an_input_loses_its_history(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        struct world w = make_world(f);
        kiln_function *j = capture_in(cell, clear_input, &w);
        for (int t = 0; t < CALLS; t++) {
            kiln_tensor *x = kiln_mul(w.p, kiln_scalar(3)), *out = NULL;
            ok(t % 2 ? clear_input(NULL, &x, 1, &out, 1) : kiln_call(j, &x, 1, &out, 1));
            assert_false(kiln_requires_grad(x) || kiln_requires_grad(out));
            ok(kiln_backward(kiln_sum(kiln_mul(x, out), NULL), NULL));
            assert_null(kiln_gradient(w.p));
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// Gradients of gradients

static kiln_status write_and_cube(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_mul_(in[0], kiln_scalar(2));
    out[0] = kiln_sum(kiln_mul(kiln_square(in[0]), in[0]), NULL);
    return kiln_error();
}

static kiln_status call_on_copy(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *x = kiln_mul(in[0], kiln_scalar(1));
    TRY_(user ? kiln_call(user, &x, 1, out, 1) : write_and_cube(NULL, &x, 1, out, 1));
    out[0] = kiln_add(out[0], kiln_sum(kiln_square(x), NULL));
    return kiln_error();
}

static kiln_status first_derivative(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    TRY_(kiln_grad(call_on_copy, user, in, n_in, NULL, out, n_out));
    out[0] = kiln_sum(kiln_square(out[0]), NULL);
    return kiln_error();
}

static void second_derivatives_of_a_written_input(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, write_and_cube, NULL);
        for (int t = 0; t < CALLS; t++) {
            kiln_tensor *x = vec(f, 2, 1. + t, .5), *got = NULL, *want = NULL;
            ok(kiln_grad(first_derivative, j, &x, 1, NULL, &got, 1));
            ok(kiln_grad(first_derivative, NULL, &x, 1, NULL, &want, 1));
            same_or_say(cell, t, "the second derivative", got, want);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// Written through a handle that stopped its gradient, a parameter is a parameter still, and what a state was assigned
// has its gradient.
struct stopped {
    kiln_tensor *p, *state;
};

static kiln_status write_stopped_handles(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                         size_t n_out)
{
    const struct stopped *w = user;
    kiln_tanh_(kiln_stop_gradient(w->p));
    kiln_tensor *s = kiln_stop_gradient(w->state);
    TRY_(kiln_assign(s, kiln_mul(in[0], w->p)));
    out[0] = kiln_add(kiln_sum(kiln_square(w->p), NULL), kiln_sum(kiln_square(s), NULL));
    return kiln_backward(out[0], NULL);
}

static void handles_that_stopped_are_written(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        struct stopped w[2];
        for (int i = 0; i < 2; i++) {
            w[i] = (struct stopped){kiln_parameter(vec(f, 2, .5, 1.5), "p"), vec(f, 2, 0, 0)};
            ok(kiln_state(w[i].state));
        }
        kiln_function *j = capture_in(cell, write_stopped_handles, &w[0]);
        for (int t = 0; t < 3; t++) {
            kiln_tensor *x = vec(f, 2, 1 + t, 2), *out[2];
            for (int i = 0; i < 2; i++) ok(kiln_set_gradient(w[i].p, NULL));
            ok(kiln_call(j, &x, 1, &out[0], 1));
            ok(write_stopped_handles(&w[1], &x, 1, &out[1], 1));
            same_or_say(cell, t, "the loss", out[0], out[1]);
            same_or_say(cell, t, "the parameter", w[0].p, w[1].p);
            same_or_say(cell, t, "the state", w[0].state, w[1].state);
            assert_non_null(kiln_gradient(w[1].p));
            same_or_say(cell, t, "the gradient", kiln_gradient(w[0].p), kiln_gradient(w[1].p));
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// A state that shows a part of its memory, written with a gradient first and without one then, is no leaf's view.
static kiln_status assign_part(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *const *at = user;
    kiln_assign(at[0], at[1]);
    out[0] = kiln_sum(at[0], NULL);
    return kiln_error();
}

static void a_state_written_without_a_gradient_may_be_written_again(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_tensor *base = vec(f, 6, 1., 2., 3., 4., 5., 6.), *x = vec(f, 1, 0.), *y;
        kiln_tensor *at[] = {kiln_narrow(base, 0, 1, 4), kiln_parameter(vec(f, 4, 7., 8., 9., 10.), "p")};
        ok(kiln_state(at[0]));
        kiln_function *j = capture_in(cell, assign_part, at);
        ok(kiln_call(j, &x, 1, &y, 1));
        ok(kiln_set_requires_grad(at[1], false));
        for (int t = 0; t < 3; t++) {
            ok(kiln_call(j, &x, 1, &y, 1));
            expect(y, 1, 34.);
            ok(kiln_assign(at[0], at[1]));
        }
        expect(base, 6, 1., 7., 8., 9., 10., 6.);
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// What was done outside to an input, or to a state, leads to what is differentiated by: the gradient is that of eager
// mode, or it is refused; never a part of it.
enum { STATE = 1, BY_GRADIENTS = 2, WRITTEN_FIRST = 4, IN_A_REGION = 8, HISTORIES = 16 };

struct lying_behind {
    kiln_tensor *w, *state;
    int how;
};

static kiln_status loss_of_history(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct lying_behind *b = user;
    kiln_tensor *x = b->how & STATE ? b->state : in[0];
    kiln_no_grad_begin();
    if (b->how & WRITTEN_FIRST) kiln_mul_(b->state, kiln_scalar(0.5));
    kiln_no_grad_end();
    out[0] = kiln_add(kiln_sum(kiln_square(x), NULL), kiln_sum(b->w, NULL));
    return kiln_error();
}

static kiln_status slope_by_history(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct lying_behind *b = user;
    kiln_tensor *made[2];
    if (b->how & BY_GRADIENTS) {
        TRY_(loss_of_history(b, in, n_in, made, 1));
        return kiln_gradients(made[0], &b->w, 1, NULL, out);
    }
    TRY_(kiln_value_and_grad(loss_of_history, b, in, n_in, KILN_GRAD(.params = {1, &b->w}), made, 2));
    out[0] = made[1];
    return kiln_error();
}

static kiln_status slope_in_region(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct lying_behind *b = user;
    kiln_tensor *yes = kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(-1e6));
    if (!(b->how & IN_A_REGION)) return slope_by_history(user, in, n_in, out, n_out);
    return kiln_cond(yes, slope_by_history, slope_by_history, user, in, n_in, out, 1);
}

static kiln_status call_with_history(struct fixture *f, kiln_function *j, struct lying_behind *b, bool history,
                                     kiln_tensor **out)
{
    kiln_tensor *x = vec(f, 2, 3., 4.);
    b->w = kiln_parameter(vec(f, 2, 1., 2.), "w");
    b->state = vec(f, 2, 3., 4.);
    TRY_(kiln_state(b->state));
    if (history) x = kiln_mul(x, b->w);
    if (history) TRY_(kiln_mul_(b->state, b->w));
    return j ? kiln_call(j, &x, 1, out, 1) : slope_in_region(b, &x, 1, out, 1);
}

static void no_part_of_a_gradient_is_lost_behind_an_input(void **state)
{
    struct fixture *f = *state;
    for (int how = 0; how < HISTORIES; how++)
        for (enum cell cell = 0; cell < CELLS; cell++) {
            struct lying_behind b = {.how = how};
            kiln_function *j = capture_in(cell, slope_in_region, &b);
            for (int t = 0; t < 4; t++) {
                kiln_tensor *got, *want;
                ok(kiln_set_mode(KILN_MODE_EAGER));
                ok(call_with_history(f, NULL, &b, t % 2, &want));
                ok(kiln_set_mode(cell == GRAPH ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
                kiln_status status = call_with_history(f, j, &b, t % 2, &got);
                if (!status) same_or_say(cell, how, "the gradient", got, want);
                if (!status) continue;
                assert_true(t % 2 && cell != AUTO);
                assert_int_equal(status, KILN_E_UNSUPPORTED);
                assert_non_null(strstr(kiln_error_message(), "depends on"));
                kiln_error_clear();
            }
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(a_state_written_without_a_gradient_may_be_written_again),
        FIXTURE(no_part_of_a_gradient_is_lost_behind_an_input),
        FIXTURE(a_parameter_is_assigned),
        FIXTURE(a_stopped_gradient_stays_stopped),
        FIXTURE(rules_see_constants),
        FIXTURE(gradients_of_inputs_add_up),
        FIXTURE(leaves_and_others_take_turns),
        FIXTURE(a_rule_is_registered_after_the_capture),
        FIXTURE(a_state_is_written_with_a_gradient),
        FIXTURE(what_is_written_to_a_state_stays_on_the_tape),
        FIXTURE(a_result_whose_tape_is_used_up),
        FIXTURE(an_input_loses_its_history),
        FIXTURE(second_derivatives_of_a_written_input),
        FIXTURE(handles_that_stopped_are_written),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
