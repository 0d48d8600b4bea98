// Memory that is shared and written under a gradient: where a capture refuses it, the memory is as it was, and who does
// what the error says gets what eager mode gives.
#include "jit_cells.h"

struct held {
    kiln_tensor *whole, *mine; // mine: a parameter or a state, in a row of whole or apart; or NULL
    kiln_tensor *w, *leaf;     // what gradients are compared by; leaf may be NULL
    kiln_tensor *in[2];
    size_t n_in;
};

// Writes to the memory of the first input, and uses what is held.
static kiln_status write_and_use(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct held *h = user;
    kiln_mul_(in[0], kiln_scalar(2));
    out[0] = kiln_sum(kiln_mul(kiln_square(h->mine), h->w), NULL);
    return kiln_error();
}

// Writes what has a gradient to what is held.
static kiln_status write_held(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct held *h = user;
    kiln_mul_(h->mine, h->w);
    out[0] = kiln_sum(kiln_mul(h->mine, kiln_select(in[0], 0, 0)), NULL);
    return kiln_error();
}

// Writes to the first of two inputs.
static kiln_status write_input(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct held *h = user;
    kiln_mul_(in[0], h->w);
    out[0] = kiln_sum(kiln_mul(kiln_square(in[1]), in[0]), NULL);
    return kiln_error();
}

static struct held hold(struct fixture *f, bool apart)
{
    struct held h = {.whole = mat(f, 2, 2, 1., 2., 3., 4.), .w = kiln_parameter(vec(f, 2, 5, 7), "w")};
    h.mine = apart ? kiln_contiguous(kiln_select(h.whole, 0, 1)) : kiln_select(h.whole, 0, 1);
    h.in[0] = h.whole;
    h.n_in = 1;
    return h;
}

static struct held hold_a_parameter(struct fixture *f, bool apart)
{
    struct held h = hold(f, apart);
    h.mine = kiln_stop_gradient(h.mine); // a place of its own on the tape
    ok(kiln_set_requires_grad(h.mine, true));
    h.leaf = h.mine;
    return h;
}

static struct held hold_a_state(struct fixture *f, bool apart)
{
    struct held h = hold(f, apart);
    ok(kiln_state(h.mine));
    return h;
}

static struct held hold_a_state_with_a_history(struct fixture *f, bool apart)
{
    struct held h = hold_a_state(f, apart);
    ok(kiln_add_(h.mine, h.w));
    h.in[0] = kiln_stop_gradient(h.whole); // by itself, the state's history is no reason to refuse the input
    return h;
}

// What is held has a history, and the input, in its place, has none.
static kiln_status read_both(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct held *h = user;
    out[0] = kiln_sum(kiln_mul(kiln_square(h->mine), kiln_add(in[0], h->w)), NULL);
    return kiln_error();
}

// What a call is given, and what is differentiated.
static struct held hold_an_input(struct fixture *f, bool apart)
{
    struct held h = {.w = kiln_parameter(vec(f, 2, 5, 7), "w"), .leaf = kiln_parameter(vec(f, 4, 1, 2, 3, 4), "x")};
    h.whole = kiln_mul(kiln_reshape(h.leaf, KILN_SHAPE(2, 2)), kiln_scalar(1));
    h.in[0] = kiln_select(h.whole, 0, 1);
    h.in[1] = kiln_narrow(kiln_reshape(h.whole, KILN_SHAPE(4)), 0, 1, 2);
    if (apart) h.in[1] = kiln_contiguous(h.in[1]);
    h.n_in = 2;
    return h;
}

static const struct {
    kiln_fn fn;
    struct held (*hold)(struct fixture *f, bool apart);
    const char *error;
} cases[] = {
    {write_and_use, hold_a_parameter, "the parameter requires a gradient; give one of them memory of its own"},
    {write_and_use, hold_a_state_with_a_history, "written with a gradient; give one of them memory of its own, or use"},
    {write_held, hold_a_state, "gave, shares with another tensor; give one of them memory of its own, or use"},
    {write_input, hold_an_input, "and that memory is written; pass a copy"},
};

static void same_as_eagerly(enum cell cell, kiln_fn fn, kiln_function *j, struct held *got, struct held *want)
{
    kiln_tensor *y = NULL, *z = NULL;
    ok(kiln_call(j, got->in, got->n_in, &y, 1));
    ok(fn(want, want->in, want->n_in, &z, 1));
    same_or_say(cell, 0, "the result", y, z);
    same_or_say(cell, 0, "the memory", got->whole, want->whole);
    if (want->mine) same_or_say(cell, 0, "what is held", got->mine, want->mine);
    ok(kiln_backward(y, NULL));
    ok(kiln_backward(z, NULL));
    assert_non_null(kiln_gradient(want->w));
    same_or_say(cell, 0, "the gradient by w", kiln_gradient(got->w), kiln_gradient(want->w));
    if (want->leaf) same_or_say(cell, 0, "the other gradient", kiln_gradient(got->leaf), kiln_gradient(want->leaf));
}

static void a_state_in_the_place_of_an_input_keeps_its_history(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        struct held h = hold_a_state_with_a_history(f, true), theirs = hold_a_state_with_a_history(f, true);
        h.in[0] = kiln_stop_gradient(h.mine);
        theirs.in[0] = kiln_stop_gradient(theirs.mine);
        kiln_function *j = capture_in(cell, read_both, &h);
        same_as_eagerly(cell, read_both, j, &h, &theirs);
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static void what_errors_advise_works(void **state)
{
    struct fixture *f = *state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (enum cell cell = 0; cell < CELLS; cell++) {
            struct held h = cases[k].hold(f, false), before = cases[k].hold(f, false), theirs;
            kiln_function *j = capture_in(cell, cases[k].fn, &h);
            kiln_tensor *y = NULL;
            if (cell == AUTO) {
                same_as_eagerly(cell, cases[k].fn, j, &h, &before);
            } else {
                fails(kiln_call(j, h.in, h.n_in, &y, 1), KILN_E_UNSUPPORTED, cases[k].error);
                same_or_say(cell, 0, "the memory behind an error", h.whole, before.whole);
            }
            h = cases[k].hold(f, true);
            theirs = cases[k].hold(f, true);
            same_as_eagerly(cell, cases[k].fn, j, &h, &theirs);
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// Two states in one place: one has a history, the other one stopped it.
static kiln_status read_states(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct held *h = user;
    kiln_tensor *a = kiln_square(h->in[h->n_in - 1]), *b = kiln_mul(h->in[2 - h->n_in], kiln_scalar(3));
    out[0] = kiln_sum(kiln_add(kiln_mul(a, h->w), b), NULL);
    return kiln_error();
}

static void states_in_one_place_have_their_own_histories(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (size_t first = 1; first <= 2; first++) {
            struct held h[2];
            for (int k = 0; k < 2; k++) {
                h[k] = hold_a_state_with_a_history(f, true);
                h[k].in[0] = h[k].mine;
                h[k].in[1] = kiln_stop_gradient(h[k].mine);
                ok(kiln_state(h[k].in[1]));
                h[k].n_in = first;
            }
            kiln_function *j = capture_in(cell, read_states, &h[0]);
            kiln_tensor *x = vec(f, 2, 0, 0), *y = NULL, *z = NULL;
            ok(kiln_call(j, &x, 1, &y, 1));
            ok(read_states(&h[1], &x, 1, &z, 1));
            same_or_say(cell, (int)first, "the result", y, z);
            ok(kiln_backward(y, NULL));
            ok(kiln_backward(z, NULL));
            same_or_say(cell, (int)first, "the gradient by w", kiln_gradient(h[0].w), kiln_gradient(h[1].w));
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {FIXTURE(what_errors_advise_works),
                                       FIXTURE(a_state_in_the_place_of_an_input_keeps_its_history),
                                       FIXTURE(states_in_one_place_have_their_own_histories)};
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
