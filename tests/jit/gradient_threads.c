// A capture that runs backward on a parameter, while another thread does the same outside: what the capture gives to
// the parameter is its own until the call is done.
#include "jit_fixture.h"
#include <pthread.h>

struct meeting {
    struct fixture *f;
    kiln_tensor *w;
    pthread_barrier_t inside, outside;
    bool fails, reads, asks; // asks: for the gradient from before, and uses it when another has taken its place
    int runs;
    double seen[3]; // by the other thread: before, after its zero, after its backward
    kiln_status status;
};

static kiln_tensor *loss_of(kiln_tensor *w, double by)
{
    return kiln_sum(kiln_mul(w, kiln_scalar(by)), NULL);
}

static double first_of(kiln_tensor *g)
{
    double v[4] = {-1};
    if (g) read_all(g, v);
    return v[0];
}

// Stops after its backward until the other thread has been there.
static kiln_status gives_a_gradient(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct meeting *m = user;
    m->runs++;
    kiln_tensor *before = m->asks ? kiln_gradient(m->w) : NULL;
    TRY_(m->asks ? kiln_error() : kiln_backward(kiln_mul(loss_of(m->w, 3), in[0]), NULL));
    pthread_barrier_wait(&m->inside);
    pthread_barrier_wait(&m->outside);
    if (m->fails) return KILN_E_ARGUMENT;
    if (m->asks) {
        out[0] = kiln_mul(before, in[0]);
        return kiln_error();
    }
    out[0] = m->reads ? kiln_add(kiln_gradient(m->w), in[0]) : kiln_square(in[0]);
    return kiln_error();
}

static void *beside(void *user)
{
    struct meeting *m = user;
    pthread_barrier_wait(&m->inside);
    kiln_scope *scope = kiln_scope_begin();
    m->seen[0] = first_of(kiln_gradient(m->w));
    kiln_set_gradient(m->w, NULL);
    m->seen[1] = first_of(kiln_gradient(m->w));
    kiln_backward_with(loss_of(m->w, 7), KILN_BACKWARD(.accumulate = true));
    m->seen[2] = first_of(kiln_gradient(m->w));
    m->status = kiln_error();
    kiln_error_clear();
    kiln_scope_end(&scope);
    pthread_barrier_wait(&m->outside);
    return NULL;
}

static void meet(struct fixture *f, struct meeting *m, kiln_capture kind, kiln_tensor **out)
{
    pthread_t thread;
    kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE0, 2);
    m->f = f;
    m->w = kiln_parameter(vec(f, 2, 1, 1), "w");
    m->runs = 0;
    ok(kiln_set_gradient(m->w, vec(f, 2, 5, 5)));
    pthread_barrier_init(&m->inside, NULL, 2);
    pthread_barrier_init(&m->outside, NULL, 2);
    kiln_function *j = kiln_jit(gives_a_gradient, m, KILN_JIT(.capture = kind));
    assert_int_equal(pthread_create(&thread, NULL, beside, m), 0);
    kiln_status status = kiln_call(j, &x, 1, out, 1);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&m->inside);
    pthread_barrier_destroy(&m->outside);
    kiln_function_free(&j);
    if (m->fails)
        fails(status, KILN_E_ARGUMENT, "failed");
    else
        ok(status);
    ok(m->status);
    assert_int_equal(m->runs, 1);
    assert_true(m->seen[0] == 5);
    assert_true(m->seen[1] == -1);
    assert_true(m->seen[2] == 7);
}

static const kiln_capture kinds[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE};

static void the_capture_keeps_its_gradient(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 4; i++) {
        struct meeting m = {.reads = i / 2};
        kiln_tensor *out = NULL;
        meet(f, &m, kinds[i % 2], &out);
        if (m.reads)
            expect(out, 2, 8., 8.);
        else
            expect(out, 1, 4.);
        expect(kiln_gradient(m.w), 2, 6., 6.);
    }
}

static void a_capture_that_fails_leaves_the_gradient_of_another(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        struct meeting m = {.fails = true};
        kiln_tensor *out = NULL;
        meet(f, &m, kinds[i], &out);
        expect(kiln_gradient(m.w), 2, 7., 7.);
    }
}

// The program has the gradient that is there when it runs.
static void a_gradient_from_before_is_an_input(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        struct meeting m = {.asks = true};
        kiln_tensor *out = NULL;
        meet(f, &m, kinds[i], &out);
        expect(out, 2, 14., 14.);
        expect(kiln_gradient(m.w), 2, 7., 7.);
    }
}

// A handle on the gradient from before is as good after the capture.
static kiln_status drops_and_gives(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *w = user;
    TRY_(kiln_set_gradient(w, NULL));
    TRY_(kiln_backward(loss_of(w, 3), NULL));
    out[0] = kiln_neg(in[0]);
    return KILN_E_ARGUMENT;
}

static void a_capture_that_fails_leaves_the_gradient_itself(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        kiln_tensor *w = kiln_parameter(vec(f, 2, 1, 1), "w"), *x = vec(f, 2, 1, 2), *out = NULL;
        ok(kiln_set_gradient(w, vec(f, 2, 5, 5)));
        kiln_tensor *before = kiln_gradient(w);
        kiln_function *j = kiln_jit(drops_and_gives, w, KILN_JIT(.capture = kinds[i]));
        fails(kiln_call(j, &x, 1, &out, 1), KILN_E_ARGUMENT, "failed");
        kiln_function_free(&j);
        assert_ptr_equal(kiln_gradient(w), before);
        expect(before, 2, 5., 5.);
    }
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(the_capture_keeps_its_gradient),
        FIXTURE(a_capture_that_fails_leaves_the_gradient_of_another),
        FIXTURE(a_gradient_from_before_is_an_input),
        FIXTURE(a_capture_that_fails_leaves_the_gradient_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
