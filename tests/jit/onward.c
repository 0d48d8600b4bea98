// kiln_backward inside a captured function, whose inputs were made of parameters outside: the gradient goes on there,
// in every kind of capture as it does eagerly.
#include "jit_fixture.h"

enum way { STRICT, TRACE, GRAPH, AUTO, PURE, REGION, WAYS };
static const char *const way_names[] = {"STRICT", "TRACE", "graph mode", "AUTO", "pure AUTO", "region"};

struct world {
    kiln_tensor *p, *q, *head, *state;
    int hooks; // calls of hooks
    kiln_function *inner;
    kiln_function *captured; // NULL: the function itself runs
    bool region;             // in a region
};

static kiln_function *capture_in(enum way way, kiln_fn fn, void *user)
{
    static const kiln_capture kinds[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE, KILN_CAPTURE_STRICT,
                                         KILN_CAPTURE_AUTO, KILN_CAPTURE_AUTO};
    if (way == REGION) return NULL;
    return kiln_jit(fn, user, KILN_JIT(.capture = kinds[way], .pure_host = way == PURE));
}

static struct world make_world(struct fixture *f)
{
    struct world w = {kiln_parameter(vec(f, 3, 1, 2, 3), "p"), kiln_parameter(vec(f, 3, .5, -1, 2), "q"),
                      kiln_parameter(vec(f, 3, 1, 1, 2), "head"), vec(f, 3, 4, 5, 6)};
    ok(kiln_state(w.state));
    return w;
}

// How inputs are made of parameters, and what is looked at besides.
struct scene {
    kiln_fn fn;
    void (*make)(struct fixture *f, struct world *w, int t, kiln_tensor **in); // NULL: of p and q
    size_t n_out;
    bool after; // a backward from the result, after the call
    kiln_fn inner;
};

static void make_two(struct fixture *f, struct world *w, int t, kiln_tensor **in)
{
    in[0] = kiln_mul(kiln_mul(w->p, kiln_scalar(3 + t)), w->p);
    in[1] = kiln_add(kiln_mul(in[0], kiln_scalar(.5)), kiln_square(w->q));
}

static void call(struct fixture *f, const struct scene *s, struct world *w, kiln_tensor **in, kiln_tensor **out)
{
    if (!w->region) {
        ok(w->captured ? kiln_call(w->captured, in, 2, out, s->n_out) : s->fn(w, in, 2, out, s->n_out));
        return;
    }
    KILN_CAPTURE(f->dev)
    {
        ok(s->fn(w, in, 2, out, s->n_out));
        kiln_keep(out[0]);
    }
}

static void run_once(struct fixture *f, const struct scene *s, struct world *w, int t, kiln_tensor **seen)
{
    kiln_tensor *in[2], *out[2] = {NULL};
    (s->make ? s->make : make_two)(f, w, t, in);
    call(f, s, w, in, out);
    if (s->after) ok(kiln_backward(kiln_sum(kiln_square(out[0]), NULL), NULL));
    seen[0] = out[0];
    seen[1] = in[0];
    seen[2] = w->state;
    seen[3] = kiln_gradient(w->p);
    seen[4] = kiln_gradient(w->q);
    seen[5] = kiln_gradient(w->head);
    seen[6] = w->head;
}

static void same_or_say(enum way way, int t, const char *what, kiln_tensor *got, kiln_tensor *want)
{
    bool agree = !got == !want && (!got || equal(got, want));
    if (!agree) {
        print_error("%s, call %d: %s differs\n", way_names[way], t, what);
        if (got) kiln_print(got, stderr);
        if (want) kiln_print(want, stderr);
    }
    assert_true(agree);
}

static void agree(struct fixture *f, const struct scene *s)
{
    static const char *const names[] = {
        "the result",           "the input", "the state", "the gradient of p", "the gradient of q",
        "the gradient of head", "head"};
    for (enum way way = 0; way < WAYS; way++) {
        struct world mine = make_world(f), theirs = make_world(f);
        ok(kiln_set_mode(way == GRAPH ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
        mine.inner = capture_in(way, s->inner ? s->inner : s->fn, &mine);
        mine.captured = capture_in(way, s->fn, &mine);
        mine.region = way == REGION;
        for (int t = 0; t < 3; t++) {
            kiln_tensor *got[7], *want[7];
            run_once(f, s, &mine, t, got);
            run_once(f, s, &theirs, t, want);
            for (int i = 0; i < 7; i++) same_or_say(way, t, names[i], got[i], want[i]);
        }
        kiln_function_free(&mine.captured);
        kiln_function_free(&mine.inner);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// --- functions

static kiln_status one(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_square(in[0]), NULL);
    return kiln_backward(out[0], NULL);
}

// Both inputs, of which one is made of the other, and a parameter that they are made of.
static kiln_status both(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_tensor *y = kiln_mul(kiln_mul(in[0], in[1]), kiln_add(w->p, w->head));
    out[0] = kiln_sum(y, NULL);
    return kiln_backward(out[0], NULL);
}

static kiln_status with_sens(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(in[0], in[1]);
    return kiln_backward(out[0], kiln_exp(kiln_mul(in[0], kiln_scalar(-.1))));
}

static kiln_status two_runs(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_tensor *first = kiln_sum(kiln_mul(in[0], w->p), NULL), *second = kiln_sum(kiln_mul(in[1], w->head), NULL);
    TRY_(kiln_backward_with(first, KILN_BACKWARD(.keep_tape = true)));
    TRY_(kiln_backward_with(second, KILN_BACKWARD(.accumulate = true)));
    out[0] = kiln_add(first, second);
    return kiln_error();
}

// The second replaces what the first has left.
static kiln_status replaces(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    TRY_(kiln_backward_with(kiln_sum(kiln_mul(in[0], w->p), NULL), KILN_BACKWARD(.accumulate = true)));
    out[0] = kiln_sum(kiln_square(kiln_mul(w->p, w->head)), NULL);
    return kiln_backward(out[0], NULL);
}

static kiln_status drops(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    out[0] = kiln_sum(kiln_mul(in[0], w->p), NULL);
    TRY_(kiln_backward(out[0], NULL));
    TRY_(kiln_set_gradient(w->p, NULL));
    return kiln_set_gradient(w->q, kiln_mul(in[1], kiln_scalar(2)));
}

// Gradients from before the call are added to.
static kiln_status accumulates(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    out[0] = kiln_sum(kiln_mul(kiln_mul(in[0], in[1]), kiln_mul(w->p, w->head)), NULL);
    return kiln_backward_with(out[0], KILN_BACKWARD(.accumulate = true));
}

// The parameter that moves is none that the inputs were made of.
static kiln_status trains_head(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    out[0] = kiln_sum(kiln_square(kiln_mul(in[0], w->head)), NULL);
    TRY_(kiln_backward(out[0], NULL));
    kiln_no_grad_begin();
    kiln_sub_(w->head, kiln_mul(kiln_gradient(w->head), kiln_scalar(1e-4)));
    kiln_no_grad_end();
    return kiln_error();
}

static kiln_status keeps(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    out[0] = kiln_mul(kiln_mul(in[0], in[1]), w->head);
    return kiln_backward_with(kiln_sum(out[0], NULL), KILN_BACKWARD(.keep_tape = true));
}

static kiln_status writes_input(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    TRY_(kiln_mul_(in[1], in[0]));
    out[0] = kiln_sum(kiln_square(in[1]), NULL);
    return kiln_backward(out[0], NULL);
}

static kiln_status of_state(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    out[0] = kiln_sum(kiln_mul(kiln_square(w->state), w->head), NULL);
    return kiln_backward(out[0], NULL);
}

static void make_state(struct fixture *f, struct world *w, int t, kiln_tensor **in)
{
    ok(kiln_assign(w->state, kiln_mul(w->p, kiln_scalar(t + 2))));
    in[0] = vec(f, 3, 1, 2, 3);
    in[1] = vec(f, 3, 1, 2, 3);
}

static kiln_status nested(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_tensor *inner[] = {kiln_mul(in[0], w->q), in[1]}, *loss;
    TRY_(w->inner ? kiln_call(w->inner, inner, 2, &loss, 1) : both(user, inner, 2, &loss, 1));
    out[0] = kiln_mul(loss, kiln_scalar(2));
    return kiln_error();
}

static kiln_tensor *square_it(void *user, kiln_tensor *grad)
{
    ++*(int *)user;
    return kiln_square(grad);
}

static void make_hooked(struct fixture *f, struct world *w, int t, kiln_tensor **in)
{
    make_two(f, w, t, in);
    assert_true(kiln_register_hook(in[0], square_it, &w->hooks) != 0);
    if (t == 0) assert_true(kiln_register_hook(w->p, square_it, &w->hooks) != 0);
}

// One tensor as both inputs, and views of one tensor.
static void make_twins(struct fixture *f, struct world *w, int t, kiln_tensor **in)
{
    in[0] = in[1] = kiln_exp(kiln_mul(w->p, kiln_scalar(.1 * t)));
}

static void make_views(struct fixture *f, struct world *w, int t, kiln_tensor **in)
{
    kiln_tensor *both_rows = kiln_stack((kiln_tensor *[]){kiln_square(w->p), kiln_mul(w->q, w->p)}, 2, 0);
    in[0] = kiln_select(both_rows, 0, 0);
    in[1] = kiln_select(both_rows, 0, 1);
}

static void make_leaf(struct fixture *f, struct world *w, int t, kiln_tensor **in)
{
    in[0] = w->p;
    in[1] = kiln_mul(w->p, w->q);
}

static void gradients_go_on_outside(void **state)
{
    const struct scene scenes[] = {
        {one, NULL, 1, false},
        {both, NULL, 1, false},
        {with_sens, NULL, 1, false},
        {two_runs, NULL, 1, false},
        {replaces, NULL, 1, false},
        {drops, NULL, 1, false},
        {accumulates, NULL, 1, false},
        {trains_head, NULL, 1, false},
        {of_state, make_state, 1, false},
        {both, make_hooked, 1, false},
        {both, make_twins, 1, false},
        {both, make_views, 1, false},
        {both, make_leaf, 1, false},
        {accumulates, make_leaf, 1, false},
    };
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) agree(*state, &scenes[i]);
}

static void what_is_kept_is_used_again(void **state)
{
    const struct scene s = {keeps, NULL, 1, true};
    agree(*state, &s);
}

static void inputs_are_written_before(void **state)
{
    const struct scene s = {writes_input, NULL, 1, false};
    agree(*state, &s);
}

static void functions_inside_functions(void **state)
{
    const struct scene s = {nested, NULL, 1, false, both};
    agree(*state, &s);
}

// --- what cannot be done is said

static kiln_status reads_gradient(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    out[0] = kiln_sum(kiln_mul(in[0], w->p), NULL);
    TRY_(kiln_backward(out[0], NULL));
    kiln_no_grad_begin();
    kiln_sub_(w->p, kiln_mul(kiln_gradient(w->p), kiln_scalar(.5)));
    kiln_no_grad_end();
    return kiln_error();
}

static void a_part_of_a_gradient_is_not_read(void **state)
{
    struct fixture *f = *state;
    for (enum way way = STRICT; way <= GRAPH; way++) {
        struct world w = make_world(f);
        ok(kiln_set_mode(way == GRAPH ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
        kiln_function *j = capture_in(way, reads_gradient, &w);
        kiln_tensor *in[2], *out = NULL;
        in[0] = in[1] = kiln_square(w.q); // not made of p
        ok(kiln_call(j, in, 2, &out, 1));
        expect(w.p, 3, 1 - .125, 1.5, 1.); // p - q^2 / 2
        make_two(f, &w, 0, in);
        fails(kiln_call(j, in, 2, &out, 1), KILN_E_UNSUPPORTED,
              "reads the gradient of p after a backward, and a part of this gradient comes through its input 0");
        expect(w.p, 3, 1 - .125, 1.5, 1.);
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static void a_tape_is_used_up_once(void **state)
{
    struct fixture *f = *state;
    for (enum way way = 0; way <= PURE; way++) {
        struct world w = make_world(f);
        ok(kiln_set_mode(way == GRAPH ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
        kiln_function *j = capture_in(way, one, &w);
        kiln_tensor *in[2], *out = NULL;
        make_two(f, &w, 0, in);
        ok(kiln_call(j, in, 2, &out, 1));
        kiln_tensor *first = kiln_alias(kiln_gradient(w.p));
        fails(kiln_call(j, in, 2, &out, 1), KILN_E_GRADIENT, "the tape of mul was used up by an earlier backward");
        same(kiln_gradient(w.p), first);
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static kiln_status records(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_square(in[0]), NULL);
    return kiln_backward_with(out[0], KILN_BACKWARD(.create_graph = true));
}

static void recorded_gradients_do_not_go_on(void **state)
{
    struct fixture *f = *state;
    struct world w = make_world(f);
    kiln_function *j = capture_in(STRICT, records, &w);
    kiln_tensor *in[2], *out = NULL;
    make_two(f, &w, 0, in);
    fails(kiln_call(j, in, 2, &out, 1), KILN_E_UNSUPPORTED, "comes to an input that is no parameter");
    kiln_function_free(&j);
}

static kiln_status weighted(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    out[0] = kiln_sum(kiln_mul(kiln_square(in[0]), w->p), NULL);
    return kiln_error();
}

static kiln_status with_head(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    out[0] = kiln_sum(kiln_mul(in[0], w->head), NULL);
    return kiln_backward(out[0], NULL);
}

// An input that is a derivative without a tape; where it is a constant, there is nothing to say.
static void inputs_that_kept_no_tape(void **state)
{
    struct fixture *f = *state;
    for (enum way way = 0; way <= PURE; way++) {
        struct world w = make_world(f);
        ok(kiln_set_mode(way == GRAPH ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
        kiln_function *j = capture_in(way, with_head, &w);
        for (int t = 0; t < 4; t++) {
            kiln_tensor *x = vec(f, 3, 1. + t, 2, 3), *slope, *stopped, *out = NULL;
            ok(kiln_grad(weighted, &w, &x, 1, NULL, &slope, 1));
            stopped = kiln_stop_gradient(slope);
            if (t % 2) {
                fails(kiln_call(j, &slope, 1, &out, 1), KILN_E_GRADIENT, "a result of kiln_grad, which kept no tape");
            } else {
                ok(kiln_call(j, &stopped, 1, &out, 1));
                same(kiln_gradient(w.head), slope);
            }
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// --- inside a function that is differentiated

static kiln_status differentiated(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct world *w = user;
    kiln_tensor *of[2], *loss;
    of[0] = of[1] = kiln_mul(in[0], w->p);
    TRY_(w->captured ? kiln_call(w->captured, of, 2, &loss, 1) : one(w, of, 2, &loss, 1));
    out[0] = kiln_sum(kiln_exp(in[0]), NULL);
    return kiln_error();
}

static void a_function_that_is_differentiated(void **state)
{
    struct fixture *f = *state;
    for (enum way way = 0; way <= PURE; way++) {
        struct world mine = make_world(f), theirs = make_world(f);
        ok(kiln_set_mode(way == GRAPH ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
        mine.captured = capture_in(way, one, &mine);
        for (int t = 0; t < 3; t++) {
            kiln_tensor *x = vec(f, 3, 1. + t, 2, 3), *got = NULL, *want = NULL;
            ok(kiln_grad(differentiated, &mine, &x, 1, NULL, &got, 1));
            ok(kiln_grad(differentiated, &theirs, &x, 1, NULL, &want, 1));
            same_or_say(way, t, "the gradient of the input", got, want);
            same_or_say(way, t, "the gradient of p", kiln_gradient(mine.p), kiln_gradient(theirs.p));
        }
        kiln_function_free(&mine.captured);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(gradients_go_on_outside),           FIXTURE(what_is_kept_is_used_again),
        FIXTURE(inputs_are_written_before),         FIXTURE(functions_inside_functions),
        FIXTURE(a_part_of_a_gradient_is_not_read),  FIXTURE(a_tape_is_used_up_once),
        FIXTURE(recorded_gradients_do_not_go_on),   FIXTURE(inputs_that_kept_no_tape),
        FIXTURE(a_function_that_is_differentiated),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
