// Inputs that are given away (.donate): what is not the caller's alone is refused, the handles are dead afterwards, a
// call that fails takes nothing; inside of other functions, beside gradients, and in threads.
#include "jit_fixture.h"
#include <pthread.h>

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE, KILN_CAPTURE_AUTO};

// --- what is refused

static kiln_tensor *ones(struct fixture *f)
{
    return kiln_full(f->dev, KILN_F32, KILN_SHAPE(4), 1);
}

FN(counted)
{
    count_run(user);
    out[0] = kiln_add(in[0], kiln_scalar(1));
    return kiln_error();
}

static void options_are_checked(void **state)
{
    (void)state;
    assert_null(kiln_jit(counted, NULL, KILN_JIT(.donate = KILN_ARGS(0, -1))));
    fails(kiln_error(), KILN_E_ARGUMENT, "jit: .donate entry 1 is -1, which is no input");
    assert_null(kiln_jit(counted, NULL, KILN_JIT(.donate = KILN_ARGS(2, 0, 2))));
    fails(kiln_error(), KILN_E_ARGUMENT, "jit: .donate names input 2 twice");
    assert_null(kiln_jit(counted, NULL, KILN_JIT(.donate = {1, NULL})));
    fails(kiln_error(), KILN_E_ARGUMENT, "jit: .donate is NULL, of 1 inputs");
}

static kiln_status of_bundle(void *user, kiln_bundle *in, kiln_bundle **out)
{
    (void)user, (void)in, (void)out;
    return KILN_OK;
}

static void bundles_are_not_given_away(void **state)
{
    (void)state;
    assert_null(kiln_bundle_jit(of_bundle, NULL, KILN_JIT(.donate = KILN_ARGS(0))));
    fails(kiln_error(), KILN_E_ARGUMENT, "jit: .donate is for kiln_jit");
}

// The list is the caller's, and goes with it.
static void the_list_is_copied(void **state)
{
    struct fixture *f = *state;
    int64_t list[] = {0};
    kiln_function *j = kiln_jit(counted, NULL, KILN_JIT(.donate = {1, list}));
    list[0] = 5;
    kiln_tensor *x = ones(f), *out;
    ok(kiln_call(j, &x, 1, &out, 1));
    fails((kiln_neg(x), kiln_error()), KILN_E_HANDLE, "given away");
    kiln_function_free(&j);
}

struct refusal {
    struct fixture *f;
    kiln_function *j;
    int *runs;
};

static void refused(struct refusal *r, kiln_tensor *const *in, size_t n_in, kiln_status status, const char *part)
{
    kiln_tensor *out;
    int before = *r->runs;
    fails(kiln_call(r->j, in, n_in, &out, 1), status, part);
    assert_null(out);
    assert_int_equal(*r->runs, before);
    for (size_t i = 0; i < n_in; i++) assert_int_equal(kiln_rank(in[i]) < 3, true); // alive
    ok(kiln_error());
}

static void what_is_not_a_memory_alone(struct refusal *r)
{
    struct fixture *f = r->f;
    kiln_tensor *x = ones(f), *number = kiln_scalar(2), *out;
    kiln_tensor *twice[] = {x, x};
    refused(r, NULL, 0, KILN_E_ARGUMENT, "call: step is to be given input 0 for good, there are 0");
    refused(r, &number, 1, KILN_E_ARGUMENT, "call: input 0 of step cannot be given away: it is a number");
    refused(r, twice, 2, KILN_E_ARGUMENT, "call: input 0 of step is given away, and is input 1, too");
    kiln_tensor *view = kiln_narrow(x, 0, 0, 2), *both[] = {x, view};
    refused(r, &x, 1, KILN_E_STATE, "call: input 0 of step cannot be given away: its memory has another handle");
    refused(r, &view, 1, KILN_E_STATE, "has another handle");
    refused(r, both, 2, KILN_E_STATE, "has another handle");
    kiln_free(&view);
    kiln_tensor *alias = kiln_alias(x);
    refused(r, &x, 1, KILN_E_STATE, "has another handle");
    kiln_free(&alias);
    expect(x, 4, 1., 1., 1., 1.);
    ok(kiln_call(r->j, &x, 1, &out, 1)); // alone again
    expect(out, 4, 2., 2., 2., 2.);
}

static void what_the_tape_has(struct refusal *r)
{
    struct fixture *f = r->f;
    kiln_tensor *w = kiln_parameter(ones(f), "w"), *s = ones(f), *g = ones(f), *out;
    ok(kiln_state(s));
    ok(kiln_set_requires_grad(g, true));
    refused(r, &w, 1, KILN_E_ARGUMENT, "it is a parameter, or another leaf of the tape");
    refused(r, &s, 1, KILN_E_ARGUMENT, "it is a parameter, or another leaf of the tape");
    refused(r, &g, 1, KILN_E_ARGUMENT, "it is a parameter, or another leaf of the tape");
    kiln_tensor *x = kiln_mul(w, kiln_scalar(2)), *y = kiln_sum(kiln_square(x), NULL);
    refused(r, &x, 1, KILN_E_STATE, "cannot be given away: the tape keeps it for a backward");
    ok(kiln_backward(y, NULL));
    expect(kiln_gradient(w), 4, 8., 8., 8., 8.);
    kiln_tensor *d = kiln_gradient(w);
    refused(r, &d, 1, KILN_E_ARGUMENT, "it is the gradient of a parameter");
    ok(kiln_call(r->j, &x, 1, &out, 1)); // the tape has done with it
    kiln_free(&w);
}

static void what_others_have_is_refused(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < 4; c++) {
        kiln_scope *s = kiln_scope_begin();
        int runs = 0;
        kiln_jit_enable(c < 3);
        kiln_function *j =
            kiln_jit(counted, &runs, KILN_JIT(.capture = captures[c % 3], .donate = KILN_ARGS(0), .name = "step"));
        struct refusal r = {f, j, &runs};
        what_is_not_a_memory_alone(&r);
        what_the_tape_has(&r);
        kiln_jit_enable(true);
        kiln_function_free(&j);
        kiln_scope_end(&s);
    }
}

// --- afterwards

static void says_both_lines(int given, int used, const char *op)
{
    char giving[80], using[40];
    snprintf(giving, sizeof giving, "was given away to step at donate_handles.c:%d", given);
    snprintf(using, sizeof using, "(donate_handles.c:%d)", used);
    const char *text = kiln_error_message();
    if (!strstr(text, giving) || !strstr(text, using) || strncmp(text, op, strlen(op))) print_error("%s\n", text);
    assert_int_equal(kiln_error(), KILN_E_HANDLE);
    assert_true(strstr(text, giving) && strstr(text, using) && !strncmp(text, op, strlen(op)));
    kiln_error_clear();
}

#define DEAD(op, use)                         \
    do {                                      \
        (void)(use);                          \
        says_both_lines(given, __LINE__, op); \
    } while (0)

static void any_use_says_both_lines(struct fixture *f, kiln_tensor *x, int given)
{
    kiln_tensor *y = ones(f), *out = NULL, *list[] = {y, x};
    float v[4] = {0};
    kiln_function *j = kiln_jit(counted, NULL, NULL);
    DEAD("add: b was", kiln_add(y, x));
    DEAD("rank: ", kiln_rank(x));
    DEAD("item: ", kiln_item(x));
    DEAD("read: ", kiln_read(x, v, sizeof v));
    DEAD("write: ", kiln_write(x, v, sizeof v));
    DEAD("assign: dst was", kiln_assign(x, y));
    DEAD("assign: src was", kiln_assign(y, x));
    DEAD("narrow: ", kiln_narrow(x, 0, 0, 1));
    DEAD("alias: ", kiln_alias(x));
    DEAD("keep: ", kiln_keep(x));
    DEAD("own: ", kiln_own(x));
    DEAD("concat: ", kiln_concat(list, 2, 0));
    DEAD("call: input 0 of", kiln_call(j, &x, 1, &out, 1));
    DEAD("parameter: ", kiln_parameter(x, "x"));
    DEAD("state: ", kiln_state(x));
    DEAD("print: ", kiln_print(x, stdout));
    DEAD("backward: ", kiln_backward(x, NULL));
    kiln_function_free(&j);
}

static void handles_are_dead_afterwards(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < 4; c++) {
        kiln_scope *s = kiln_scope_begin();
        kiln_jit_enable(c < 3);
        kiln_function *j =
            kiln_jit(counted, NULL, KILN_JIT(.capture = captures[c % 3], .donate = KILN_ARGS(0), .name = "step"));
        kiln_tensor *x = ones(f), *mine = kiln_own(ones(f)), *out;
        int given = __LINE__ + 1;
        ok(kiln_call(j, &x, 1, &out, 1));
        expect(out, 4, 2., 2., 2., 2.);
        any_use_says_both_lines(f, x, given);
        fails(kiln_call(j, &x, 1, &out, 1), KILN_E_HANDLE, "call: input 0 of step was given away to step at");
        ok(kiln_call(j, &mine, 1, &out, 1));
        kiln_function_free(&j);
        fails((kiln_neg(mine), kiln_error()), KILN_E_HANDLE, "given away to step"); // whose name lives on
        kiln_free(&mine);
        assert_null(mine);
        kiln_free(&x);
        ok(kiln_error());
        kiln_jit_enable(true);
        kiln_scope_end(&s);
    }
}

// --- calls that fail

FN(beyond)
{
    kiln_tensor *x = kiln_tanh(kiln_matmul(in[0], in[0]));
    out[0] = kiln_add(kiln_take(x, 0, in[1]), in[0]);
    out[1] = kiln_exp(in[0]);
    return kiln_error();
}

// Values in between would fit into what was read first.
FN(beyond_at_the_end)
{
    kiln_tensor *x = in[0];
    for (int i = 0; i < 4; i++) x = kiln_tanh(kiln_matmul(x, x));
    out[0] = kiln_take(x, 0, in[1]);
    out[1] = kiln_exp(x);
    return kiln_error();
}

FN(fails_itself)
{
    count_run(user);
    out[0] = kiln_add(in[0], kiln_scalar(1));
    return KILN_E_IO;
}

static void a_call_that_fails_takes_nothing(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < 6; c++) {
        kiln_scope *s = kiln_scope_begin();
        kiln_function *j = kiln_jit(c < 3 ? beyond : beyond_at_the_end, NULL,
                                    KILN_JIT(.capture = captures[c % 3], .donate = KILN_ARGS(0)));
        kiln_function *k = kiln_jit(fails_itself, NULL, KILN_JIT(.capture = captures[c % 3], .donate = KILN_ARGS(0)));
        kiln_tensor *out[2], *x = mat(f, 2, 2, 1., 2., 3., 4.);
        for (int call = 0; call < 3; call++) {
            kiln_tensor *good[] = {mat(f, 2, 2, 1., 2., 3., 4.),
                                   kiln_from_data(f->dev, KILN_I64, KILN_SHAPE(2), (int64_t[]){1, 0})};
            ok(kiln_call(j, good, 2, out, 2));
            fails((kiln_neg(good[0]), kiln_error()), KILN_E_HANDLE, "given away");
            kiln_tensor *bad[] = {x, kiln_from_data(f->dev, KILN_I64, KILN_SHAPE(2), (int64_t[]){1, 7})};
            if (!strcmp(jit_device, "cpu")) fails(kiln_call(j, bad, 2, out, 2), KILN_E_ARGUMENT, "out of range");
            fails(kiln_call(k, &x, 1, out, 1), KILN_E_IO, "failed");
            expect(x, 4, 1., 2., 3., 4.);
        }
        kiln_function_free(&j);
        kiln_function_free(&k);
        kiln_scope_end(&s);
    }
}

FN(twice_as_many)
{
    kiln_tensor *both[] = {in[0], kiln_neg(in[0])};
    out[0] = kiln_concat(both, 2, 0);
    return kiln_error();
}

static void a_call_without_memory_takes_nothing(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(twice_as_many, NULL, KILN_JIT(.donate = KILN_ARGS(0)));
    kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE(1024, 1024), 3), *out;
    kiln_device_stats now = {.size = sizeof now};
    ok(kiln_device_trim(f->dev));
    kiln_device_get_stats(f->dev, &now);
    ok(kiln_device_set_memory_limit(f->dev, now.heap_reserved_B + (1 << 20)));
    fails(kiln_call(j, &x, 1, &out, 1), KILN_E_DEVICE_MEMORY, "");
    ok(kiln_device_set_memory_limit(f->dev, 0));
    assert_true(kiln_item(kiln_mean(x, NULL)) == 3);
    ok(kiln_call(j, &x, 1, &out, 1));
    kiln_function_free(&j);
}

// --- inside of other functions

static kiln_function *inner;

FN(gives_its_own)
{
    kiln_tensor *y = kiln_mul(in[0], kiln_scalar(2));
    TRY_(kiln_call(inner, &y, 1, out, 1));
    return kiln_error();
}

FN(uses_what_it_gave)
{
    kiln_tensor *y = kiln_mul(in[0], kiln_scalar(2)), *z;
    TRY_(kiln_call(inner, &y, 1, &z, 1));
    out[0] = kiln_add(y, z);
    return kiln_error();
}

FN(gives_what_has_a_view)
{
    kiln_tensor *y = kiln_mul(in[0], kiln_scalar(2)), *view = kiln_narrow(y, 0, 0, 2);
    TRY_(kiln_call(inner, &y, 1, out, 1));
    out[0] = kiln_add(out[0], kiln_sum(view, NULL));
    return kiln_error();
}

FN(gives_its_input)
{
    TRY_(kiln_call(inner, in, 1, out, 1));
    return kiln_error();
}

static kiln_tensor *reached;

FN(gives_what_it_reaches)
{
    out[0] = kiln_add(in[0], kiln_scalar(1));
    return kiln_call(inner, &reached, 1, out, 1);
}

static kiln_status in_a_block(struct fixture *f, kiln_fn fn, kiln_tensor **in, kiln_tensor **out)
{
    kiln_status status = KILN_OK;
    KILN_CAPTURE(f->dev)
    {
        status = fn(NULL, in, 1, out, 1);
        if (!status) out[0] = kiln_keep(kiln_alias(out[0]));
    }
    return status;
}

// Captured three ways, not captured, in a block, and without a function around.
enum { WAYS = 6 };
static kiln_status call_in(struct fixture *f, int way, kiln_fn fn, bool gives, kiln_tensor **in, kiln_tensor **out)
{
    const int64_t first = 0;
    if (way == 5) return fn(NULL, in, 1, out, 1);
    if (way == 4) return in_a_block(f, fn, in, out);
    kiln_jit_enable(way < 3);
    kiln_function *j =
        kiln_jit(fn, NULL, KILN_JIT(.capture = captures[way % 3], .name = "outer", .donate = {gives, &first}));
    kiln_status status = kiln_call(j, in, 1, out, 1);
    kiln_jit_enable(true);
    kiln_function_free(&j);
    return status;
}

static void inside_of_others_it_is_the_same(void **state)
{
    struct fixture *f = *state;
    inner = kiln_jit(counted, NULL, KILN_JIT(.donate = KILN_ARGS(0), .name = "step"));
    for (int way = 0; way < WAYS; way++) {
        kiln_scope *s = kiln_scope_begin();
        kiln_tensor *x = ones(f), *out;
        ok(call_in(f, way, gives_its_own, false, &x, &out));
        expect(out, 4, 3., 3., 3., 3.);
        fails(call_in(f, way, uses_what_it_gave, false, &x, &out), KILN_E_HANDLE, "add: a was given away to step at");
        fails(call_in(f, way, gives_what_has_a_view, false, &x, &out), KILN_E_STATE, "its memory has another handle");
        expect(x, 4, 1., 1., 1., 1.);
        if (way < 4) {
            fails(call_in(f, way, gives_its_input, false, &x, &out), KILN_E_STATE,
                  "it is an input of outer, which does not give it away");
            expect(x, 4, 1., 1., 1., 1.);
        }
        ok(call_in(f, way, gives_its_input, true, &x, &out));
        expect(out, 4, 2., 2., 2., 2.);
        fails((kiln_neg(x), kiln_error()), KILN_E_HANDLE, "was given away to ");
        x = ones(f);
        reached = kiln_own(ones(f));
        if (way < 2) {
            fails(call_in(f, way, gives_what_it_reaches, false, &x, &out), KILN_E_STATE, "outside of the capture");
            expect(reached, 4, 1., 1., 1., 1.);
        }
        kiln_free(&reached);
        kiln_scope_end(&s);
    }
    kiln_function_free(&inner);
}

// --- gradients

// What the backward needs of x stays, however well a result would fit.
FN(needs_its_input)
{
    out[0] = kiln_sum(kiln_mul(kiln_exp(in[0]), in[1]), NULL);
    out[1] = kiln_add(in[0], kiln_scalar(1));
    return kiln_error();
}

static void gradients_see_what_was_given(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < 4; c++) {
        kiln_scope *s = kiln_scope_begin();
        kiln_jit_enable(c < 3);
        kiln_function *j =
            kiln_jit(needs_its_input, NULL, KILN_JIT(.capture = captures[c % 3], .donate = KILN_ARGS(0)));
        for (int call = 0; call < 3; call++) {
            kiln_tensor *w = kiln_parameter(vec(f, 4, 1, 2, 3, 4), "w"),
                        *scale = kiln_parameter(vec(f, 4, 2, 2, 1, 1), "s");
            kiln_tensor *x = kiln_mul(scale, kiln_scalar(0.5)), *in[] = {x, w}, *out[2];
            ok(kiln_call(j, in, 2, out, 2));
            expect(out[1], 4, 2., 2., 1.5, 1.5);
            fails((kiln_neg(x), kiln_error()), KILN_E_HANDLE, "given away");
            ok(kiln_backward(out[0], NULL));
            double e = exp(1), r = exp(0.5);
            near(kiln_gradient(w), vec(f, 4, e, e, r, r), 1e-6);
            near(kiln_gradient(scale), vec(f, 4, e / 2, e, 1.5 * r, 2 * r), 1e-6);
            kiln_free(&w);
            kiln_free(&scale);
        }
        kiln_jit_enable(true);
        kiln_function_free(&j);
        kiln_scope_end(&s);
    }
}

// --- threads

enum { THREADS = 8, CALLS = 60 };
struct thread_of {
    kiln_device *dev;
    kiln_function *j;
    int number;
    double got;
};

static void *calls_of(void *at)
{
    struct thread_of *t = at;
    kiln_scope *s = kiln_scope_begin();
    kiln_tensor *x = kiln_full(t->dev, KILN_F32, KILN_SHAPE(1000), t->number), *out;
    for (int i = 0; i < CALLS && !kiln_error(); i++) {
        if (kiln_call(t->j, &x, 1, &out, 1)) break;
        kiln_free(&x);
        x = out;
    }
    t->got = kiln_error() ? -1 : kiln_item(kiln_mean(x, NULL));
    kiln_scope_end(&s);
    return NULL;
}

static void threads_give_away_their_own(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(counted, NULL, KILN_JIT(.donate = KILN_ARGS(0)));
    struct thread_of t[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        t[i] = (struct thread_of){f->dev, j, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, calls_of, &t[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(t[i].got == i + CALLS);
    }
    kiln_function_free(&j);
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(options_are_checked),
        FIXTURE(bundles_are_not_given_away),
        FIXTURE(the_list_is_copied),
        FIXTURE(what_others_have_is_refused),
        FIXTURE(handles_are_dead_afterwards),
        FIXTURE(a_call_that_fails_takes_nothing),
        FIXTURE(a_call_without_memory_takes_nothing),
        FIXTURE(inside_of_others_it_is_the_same),
        FIXTURE(gradients_see_what_was_given),
        FIXTURE(threads_give_away_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
