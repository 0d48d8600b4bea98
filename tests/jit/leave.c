// Functions that are left in the middle: by longjmp, eagerly and in captures.
#include "jit_fixture.h"
#include <pthread.h>
#include <stdio.h>

// --- functions that are left by longjmp

static jmp_buf back;

struct leaving {
    kiln_tensor *log, *p;
    kiln_function *inner;
    kiln_cell *cell;
    bool leaves;
};

static void work(struct leaving *l, kiln_tensor *x)
{
    kiln_scope *left_open = kiln_scope_begin();
    kiln_add_(l->log, kiln_scalar(1));
    assert_non_null(left_open);
    assert_non_null(kiln_exp(x));
    if (l->leaves) longjmp(back, 1);
    kiln_scope_end(&left_open);
}

static kiln_status is_left(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_tanh(in[0]);
    work(user, y);
    out[0] = kiln_mul(y, in[0]);
    return kiln_error();
}

static kiln_status calls_inner(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct leaving *l = user;
    kiln_tensor *twice = kiln_add(in[0], in[0]);
    return kiln_call(l->inner, &twice, 1, out, 1);
}

static kiln_status differentiates(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_value_and_grad(is_left, user, in, 1, NULL, out, 2);
}

static kiln_tensor *hook_is_left(void *user, kiln_tensor *grad)
{
    work(user, grad);
    return kiln_mul(grad, kiln_scalar(2));
}

static kiln_status runs_back(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct leaving *l = user;
    kiln_tensor *y = kiln_square(kiln_mul(l->p, in[0]));
    if (!kiln_register_hook(y, hook_is_left, user)) return kiln_error();
    TRY_(kiln_backward(kiln_sum(y, NULL), NULL));
    out[0] = kiln_mul(kiln_gradient(l->p), kiln_scalar(1));
    return kiln_error();
}

static kiln_status construct_is_left(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in,
                                     kiln_tensor **out, size_t n_out)
{
    return is_left(user, in, n_in, out, n_out);
}

static kiln_status calls_cell(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct leaving *l = user;
    return kiln_cell_call_n(l->cell, in, n_in, out, n_out);
}

static kiln_status in_region(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_device *dev = kiln_tensor_device(in[0]);
    KILN_CAPTURE(dev)
    {
        TRY_(is_left(user, in, n_in, out, n_out));
        out[0] = kiln_keep(out[0]);
    }
    return kiln_error();
}

enum { WAY_EAGER, WAY_STRICT, WAY_AUTO, WAY_TRACE, WAYS };

// Whether the call came back.
static bool returns(int way, kiln_function *j, kiln_fn fn, void *user, kiln_tensor *x, size_t n_out)
{
    kiln_tensor *out[2] = {NULL};
    if (setjmp(back)) return false;
    ok(way == WAY_EAGER ? fn(user, &x, 1, out, n_out) : kiln_call(j, &x, 1, out, n_out));
    for (size_t i = 0; i < n_out; i++) kiln_keep(out[i]);
    return true;
}

// Left, called, left again: what comes next finds all as it was. What was written before has been written, unless the
// function was only being captured.
static void leave_and_return(struct fixture *f, kiln_fn fn, size_t n_out, int way)
{
    static const kiln_capture captures[] = {KILN_CAPTURE_AUTO, KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO,
                                            KILN_CAPTURE_TRACE};
    struct leaving l = {.log = vec(f, 1, 0), .p = kiln_parameter(vec(f, 2, 1, 2), "p")};
    double runs = 0;
    ok(kiln_state(l.log));
    l.inner = kiln_jit(is_left, &l, KILN_JIT(.capture = captures[way]));
    l.cell = kiln_cell_create(KILN_CELL(.kind = "leaving", .construct = construct_is_left, .user = &l));
    kiln_function *j = kiln_jit(fn, &l, KILN_JIT(.capture = captures[way]));
    kiln_tensor *x = vec(f, 2, 0.5, 1);
    for (int i = 0; i < 6; i++) {
        l.leaves = i % 2 == 0;
        kiln_scope *scope = kiln_scope_begin();
        bool returned = returns(way, j, fn, &l, x, n_out);
        assert_int_equal(kiln_error(), KILN_OK);
        assert_true(kiln_grad_enabled());
        runs += returned || way == WAY_EAGER || way == WAY_AUTO;
        kiln_scope_end(&scope);
        uint64_t before = launches_of(f);
        assert_non_null(kiln_neg(x)); // eager again
        assert_int_equal(launches_of(f) - before, 1);
        expect(l.log, 1, runs);
        if (l.leaves && (i == 0 || way == WAY_EAGER || way == WAY_AUTO)) assert_false(returned);
        if (!l.leaves) assert_true(returned);
    }
    kiln_function_free(&j);
    kiln_function_free(&l.inner);
    kiln_cell_free(&l.cell);
}

static void functions_may_be_left_by_longjmp(void **state)
{
    static const struct {
        kiln_fn fn;
        size_t n_out;
    } cases[] = {{is_left, 1}, {calls_inner, 1}, {differentiates, 2}, {runs_back, 1}, {calls_cell, 1}, {in_region, 1}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int way = 0; way < WAYS; way++) leave_and_return(*state, cases[k].fn, cases[k].n_out, way);
}

// --- regions that are ended at the wrong place

static float first_of(kiln_tensor *t)
{
    float v[2];
    ok(kiln_read(t, v, sizeof v));
    return v[0];
}

static void end_wrongly(kiln_capture_region *r, const char *part)
{
    kiln_capture_region *copy = r;
    kiln_capture_end(&copy);
    assert_ptr_equal(copy, r); // it is open still
    fails(kiln_error(), KILN_E_STATE, part);
}

static void the_inner_region_ends_first(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2);
    kiln_capture_region *outer = kiln_capture_begin(f->dev, __FILE__, __LINE__);
    kiln_tensor *a = kiln_add(x, kiln_scalar(1));
    kiln_capture_region *inner = kiln_capture_begin(f->dev, __FILE__, __LINE__);
    char text[80];
    snprintf(text, sizeof text, "capture_end: a region begun inside it at leave.c:%d is open", __LINE__ - 2);
    kiln_tensor *b = kiln_keep(kiln_mul(a, kiln_scalar(3)));
    end_wrongly(outer, text);
    kiln_capture_end(&inner);
    assert_null(inner);
    b = kiln_keep(b);
    kiln_capture_end(&outer);
    assert_null(outer);
    assert_true(kiln_error() == KILN_OK && (!strcmp(jit_device, "null") || first_of(b) == 6));
}

static void *end_elsewhere(void *region)
{
    kiln_capture_region *r = region;
    kiln_capture_end(&r);
    bool told = kiln_error() == KILN_E_STATE && strstr(kiln_error_message(), "capture_end: ") && r == region &&
                strstr(kiln_error_message(), "not open on this thread");
    kiln_error_clear();
    kiln_capture_place place = {.region = region};
    kiln_capture_leave(&place);
    told = told && kiln_error() == KILN_E_STATE && place.region == region;
    kiln_error_clear();
    return told ? region : NULL;
}

static void a_region_ends_on_its_own_thread(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    void *told = NULL;
    kiln_capture_region *r = kiln_capture_begin(f->dev, __FILE__, __LINE__);
    kiln_tensor *y = kiln_keep(kiln_add(vec(f, 2, 1, 2), kiln_scalar(1)));
    assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, r), 0);
    assert_int_equal(pthread_join(thread, &told), 0);
    assert_ptr_equal(told, r);
    kiln_capture_end(&r);
    assert_true(!r && (!strcmp(jit_device, "null") || first_of(y) == 2));
}

static kiln_status ends_outer(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    end_wrongly(user, "capture_end: the region was begun outside of the function that runs now");
    out[0] = kiln_neg(in[0]);
    return kiln_error();
}

static void a_function_does_not_end_an_outer_region(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *out[2];
    kiln_tensor *w = kiln_parameter(vec(f, 2, 1, 2), "w");
    kiln_capture_region *r = kiln_capture_begin(f->dev, __FILE__, __LINE__);
    kiln_function *j = kiln_jit(ends_outer, r, KILN_JIT(.capture = KILN_CAPTURE_STRICT));
    ok(kiln_call(j, &x, 1, out, 1));
    ok(kiln_value_and_grad(ends_outer, r, &w, 1, NULL, out, 2));
    kiln_function_free(&j);
    kiln_capture_end(&r);
    assert_true(!r && !kiln_error());
}

static kiln_capture_region *left_open;

static kiln_status leaves_open(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    left_open = kiln_capture_begin(kiln_tensor_device(in[0]), __FILE__, __LINE__);
    out[0] = kiln_neg(in[0]);
    return kiln_error();
}

static void expect_ended(kiln_capture_region *r)
{
    assert_false(kiln_capture_next(r));
    fails(kiln_error(), KILN_E_HANDLE, "capture_next: the region was ended");
}

// With the function or the block that it was begun in, as scopes do.
static void what_is_left_open_inside_is_ended(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *out[2];
    kiln_function *j = kiln_jit(leaves_open, NULL, NULL);
    ok(kiln_call(j, &x, 1, out, 1));
    expect_ended(left_open);
    ok(kiln_value_and_grad(leaves_open, NULL, &x, 1, NULL, out, 2));
    expect_ended(left_open);
    if (strcmp(jit_device, "null")) assert_true(first_of(out[0]) == -1);
    kiln_function_free(&j);
    KILN_CAPTURE(f->dev)
    {
        left_open = kiln_capture_begin(f->dev, __FILE__, __LINE__);
        kiln_add_(x, kiln_scalar(4));
    }
    expect_ended(left_open);
    if (strcmp(jit_device, "null")) assert_true(first_of(x) == 5);
    uint64_t before = launches_of(f);
    assert_non_null(kiln_neg(x)); // eager again
    assert_int_equal(launches_of(f) - before, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(functions_may_be_left_by_longjmp),  FIXTURE(the_inner_region_ends_first),
        FIXTURE(a_region_ends_on_its_own_thread),   FIXTURE(a_function_does_not_end_an_outer_region),
        FIXTURE(what_is_left_open_inside_is_ended),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
