// Calls of the host by bundles: what goes in and out has a form, which a spec fixes or a capture learns; values,
// gradients, effects and errors are as eagerly in every capture, in branches and loops too.
#include "jit_cells.h"
#include <kiln/bundle.h>
#include <kiln/control.h>
#include <kiln/host.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
#define HOST(name) static kiln_status name(void *user, kiln_bundle *in, kiln_bundle **out)

// Eagerly, then in each capture.
#define FIRST_WAY (-1)

struct way {
    int cell;
    kiln_fn fn;
    void *user;
    kiln_function *captured; // NULL: eagerly
};

static struct way begin(int cell, kiln_fn fn, void *user)
{
    return (struct way){cell, fn, user, cell < 0 ? NULL : capture_in((enum cell)cell, fn, user)};
}

static kiln_status call(const struct way *w, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return w->captured ? kiln_call(w->captured, in, n_in, out, n_out) : w->fn(w->user, in, n_in, out, n_out);
}

static void end(struct way *w)
{
    kiln_function_free(&w->captured);
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static bool in_a_graph(const struct way *w)
{
    return w->cell >= 0 && w->cell != AUTO;
}

static kiln_bundle *with(kiln_bundle *b, const char *name, const kiln_value *v)
{
    kiln_bundle_append(b, name, v);
    return b;
}

// --- values and gradients: {pair: [x, y], scale: 3, name: "s"} to {y: x * y * scale, parts: [x + y, none], name: "s"}

static int n_calls;

HOST(weighs)
{
    kiln_bundle *pair = kiln_bundle_bundle(in, "pair"), *parts = kiln_bundle_create();
    kiln_tensor *x = kiln_bundle_tensor_at(pair, 0), *y = kiln_bundle_tensor_at(pair, 1);
    n_calls++;
    with(with(parts, NULL, KILN_TENSOR(kiln_add(x, y))), NULL, KILN_NONE);
    kiln_tensor *product = kiln_mul(kiln_mul(x, y), kiln_scalar((double)kiln_bundle_int(in, "scale")));
    *out = with(with(kiln_bundle_create(), "y", KILN_TENSOR(product)), "parts", KILN_BUNDLE(parts));
    return kiln_bundle_append(*out, "name", KILN_STRING(kiln_bundle_string(in, "name")));
}

// By product and sum: scale * y * d0 + d1, scale * x * d0 + d1.
static kiln_status weighed_slope(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                                 kiln_tensor **din)
{
    kiln_tensor *d = kiln_mul(dout[0], kiln_scalar(3));
    din[0] = kiln_add(kiln_mul(d, in[1]), dout[1]);
    din[1] = kiln_add(kiln_mul(d, in[0]), dout[1]);
    return kiln_error();
}

static kiln_bundle *spec_like(kiln_tensor *x)
{
    kiln_bundle *parts = with(with(kiln_bundle_create(), NULL, KILN_TENSOR(x)), NULL, KILN_NONE);
    kiln_bundle *spec = with(with(kiln_bundle_create(), "y", KILN_TENSOR(x)), "parts", KILN_BUNDLE(parts));
    return with(spec, "name", KILN_STRING("s"));
}

static kiln_bundle *weighed_input(kiln_tensor *x, kiln_tensor *y)
{
    kiln_bundle *in = with(kiln_bundle_create(), "pair", KILN_BUNDLE(kiln_bundle_of((kiln_tensor *[]){x, y}, 2)));
    return with(with(in, "scale", KILN_INT(3)), "name", KILN_STRING("s"));
}

static kiln_tensor *weighed(kiln_tensor *x, kiln_tensor *y, unsigned flags)
{
    kiln_bundle *out;
    kiln_status status =
        kiln_bundle_host_call(weighs, NULL, weighed_input(x, y), spec_like(x), &out, flags, weighed_slope);
    if (status) return NULL;
    kiln_bundle *parts = kiln_bundle_bundle(out, "parts");
    assert_string_equal(kiln_bundle_string(out, "name"), "s");
    assert_int_equal(kiln_bundle_count(out), 3);
    assert_int_equal(kiln_bundle_kind_at(parts, 1), KILN_KIND_NONE);
    return kiln_add(kiln_bundle_tensor(out, "y"), kiln_bundle_tensor_at(parts, 0));
}

static kiln_tensor *weighed_plainly(kiln_tensor *x, kiln_tensor *y)
{
    return kiln_add(kiln_mul(kiln_mul(x, y), kiln_scalar(3)), kiln_add(x, y));
}

static bool is_plain;

static kiln_tensor *step_of(kiln_tensor *x, kiln_tensor *y)
{
    return kiln_mul(is_plain ? weighed_plainly(x, y) : weighed(x, y, KILN_HOST_READS), kiln_scalar(0.25));
}

REGION(step)
{
    out[0] = step_of(in[n_in - 2], in[n_in - 1]);
    out[1] = kiln_sin(in[n_in - 1]);
    return kiln_error();
}

REGION(negative)
{
    out[0] = kiln_neg(in[0]);
    out[1] = in[1];
    return kiln_error();
}

// At once, in a branch, in a loop.
REGION(weighs_everywhere)
{
    kiln_tensor *both[2], *y[2];
    both[0] = step_of(in[0], in[1]);
    both[1] = kiln_sin(in[1]);
    TRY_(kiln_cond(kiln_less(kiln_sum(in[0], NULL), kiln_scalar(100)), step, negative, NULL, both, 2, y, 2));
    TRY_(kiln_for(kiln_scalar_int(2), step, NULL, y, 2, NULL, both, 2));
    out[0] = kiln_sum(kiln_square(kiln_add(both[0], both[1])), NULL);
    return kiln_error();
}

REGION(slopes)
{
    return kiln_value_and_grad(weighs_everywhere, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), out, 3);
}

REGION(sum_of_slopes)
{
    kiln_tensor *d[3];
    TRY_(kiln_value_and_grad(weighs_everywhere, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1), .create_graph = true), d,
                             3));
    out[0] = kiln_add(kiln_sum(kiln_square(d[1]), NULL), kiln_sum(kiln_square(d[2]), NULL));
    return kiln_error();
}

REGION(second_slopes)
{
    return kiln_value_and_grad(sum_of_slopes, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), out, 3);
}

static void values_and_gradients(void **state)
{
    struct fixture *f = *state;
    static const kiln_fn orders[] = {slopes, second_slopes};
    for (int k = 0; k < 2; k++) {
        kiln_tensor *in[] = {vec(f, 2, 0.25, -0.5), vec(f, 2, 0.75, 0.125)}, *want[3], *got[3];
        is_plain = true;
        ok(orders[k](NULL, in, 2, want, 3));
        is_plain = false;
        for (int cell = FIRST_WAY; cell < CELLS; cell++) {
            struct way w = begin(cell, orders[k], NULL);
            for (int t = 0; t < 3; t++) {
                ok(call(&w, in, 2, got, 3));
                for (int i = 0; i < 3; i++) near(got[i], want[i], 1e-5);
            }
            end(&w);
        }
    }
}

static void calls_are_counted(void **state)
{
    struct fixture *f = *state;
    for (int cell = FIRST_WAY; cell < CELLS; cell++) {
        struct way w = begin(cell, weighs_everywhere, NULL);
        kiln_tensor *in[] = {vec(f, 2, 0.25, -0.5), vec(f, 2, 0.75, 0.125)}, *y;
        n_calls = 0;
        for (int t = 0; t < 3; t++) ok(call(&w, in, 2, &y, 1));
        assert_int_equal(n_calls, 3 * 4);
        end(&w);
    }
}

// --- one function on bundles of other forms, from one line

static kiln_bundle *other_form(kiln_tensor *x, int kind)
{
    kiln_bundle *b = with(kiln_bundle_create(), kind == 1 ? "x" : NULL, KILN_TENSOR(x));
    if (kind == 2) with(b, NULL, KILN_INT(5));
    if (kind == 3) with(b, NULL, KILN_INT(7));
    if (kind == 4) with(b, NULL, KILN_STRING("twelve"));
    if (kind == 5) with(b, NULL, KILN_TENSOR(kiln_mutable(0.5)));
    return b;
}

HOST(tells_form)
{
    double v = (double)kiln_bundle_count(in) * 100;
    if (kiln_bundle_name(in, 0)) v += 50;
    bool more = kiln_bundle_count(in) > 1;
    if (more && kiln_bundle_kind_at(in, 1) == KILN_KIND_STRING) v += (double)strlen(kiln_bundle_string_at(in, 1));
    if (more && kiln_bundle_kind_at(in, 1) != KILN_KIND_STRING) v += kiln_bundle_double_at(in, 1);
    *out = kiln_bundle_of((kiln_tensor *[]){kiln_add(kiln_bundle_tensor_at(in, 0), kiln_scalar(v))}, 1);
    return kiln_error();
}

REGION(tells_forms)
{
    kiln_bundle *spec = kiln_bundle_of(in, 1), *made;
    for (int i = 0; i < 6; i++) {
        TRY_(kiln_bundle_host_call(tells_form, NULL, other_form(in[0], i), spec, &made, KILN_HOST_READS, NULL));
        out[i] = kiln_bundle_tensor_at(made, 0);
    }
    return kiln_error();
}

static void forms_are_told_apart(void **state)
{
    struct fixture *f = *state;
    static const double want[] = {100, 150, 205, 207, 206, 200.5};
    for (int cell = FIRST_WAY; cell < CELLS; cell++) {
        struct way w = begin(cell, tells_forms, NULL);
        kiln_tensor *x = vec(f, 2, 0., 1.), *y[6];
        for (int t = 0; t < 3; t++) {
            ok(call(&w, &x, 1, y, 6));
            for (int i = 0; i < 6; i++) expect(y[i], 2, want[i], want[i] + 1);
        }
        end(&w);
    }
}

// --- what fn gives is not what the spec says

static int wrong_kind;

HOST(gives_wrong)
{
    kiln_tensor *x = kiln_bundle_tensor_at(in, 0);
    kiln_bundle *z = kiln_bundle_of(&x, 1), *b = kiln_bundle_create();
    if (wrong_kind == 1) x = kiln_cast(x, KILN_F64);
    if (wrong_kind == 2) x = kiln_unsqueeze(x, 0);
    if (wrong_kind == 9) x = kiln_concat((kiln_tensor *[]){x, x}, 2, 0);
    if (wrong_kind == 3) kiln_bundle_append(z, NULL, KILN_NONE);
    if (wrong_kind == 8) kiln_bundle_set_at(z, 0, KILN_INT(1));
    with(b, wrong_kind == 4 ? "v" : "y", KILN_TENSOR(x));
    with(b, "z", KILN_BUNDLE(z));
    with(b, "n", KILN_INT(wrong_kind == 5 ? 8 : 7));
    if (wrong_kind == 6) with(b, "w", KILN_NONE);
    if (wrong_kind == 7) b = NULL;
    if (wrong_kind == 10) kiln_bundle_set(b, "n", KILN_TENSOR(kiln_mutable_int(7)));
    *out = b;
    return kiln_error();
}

REGION(is_given_wrong)
{
    kiln_bundle *spec = with(kiln_bundle_create(), "y", KILN_TENSOR(in[0])), *made;
    with(with(spec, "z", KILN_BUNDLE(kiln_bundle_of(in, 1))), "n", KILN_INT(7));
    TRY_(kiln_bundle_host_call(gives_wrong, NULL, kiln_bundle_of(in, 1), spec, &made, KILN_HOST_IO, NULL));
    out[0] = kiln_add(kiln_bundle_tensor(made, "y"), kiln_scalar((double)kiln_bundle_int(made, "n")));
    return kiln_error();
}

static void what_differs_is_told(void **state)
{
    struct fixture *f = *state;
    static const struct {
        kiln_status code;
        const char *why;
    } wrong[] = {
        {KILN_OK, ""},
        {KILN_E_DTYPE, "out[\"y\"] of fn is f64[2], spec says f32[2]: they differ in dtype"},
        {KILN_E_SHAPE, "out[\"y\"] of fn is f32[1,2], spec says f32[2]: they differ in rank"},
        {KILN_E_ARGUMENT, "out[\"z\"] of fn has 2, spec says 1 entry"},
        {KILN_E_ARGUMENT, "out[\"y\"] of fn has another name than spec says"},
        {KILN_E_ARGUMENT, "out[\"n\"] of fn is 8, spec says 7"},
        {KILN_E_ARGUMENT, "out of fn has 4, spec says 3 entries"},
        {KILN_E_ARGUMENT, "out of fn has 0, spec says 3 entries"},
        {KILN_E_ARGUMENT, "out[\"z\"][0] of fn is 1, spec says a tensor"},
        {KILN_E_SHAPE, "out[\"y\"] of fn is f32[4], spec says f32[2]: they differ in dimension 0"},
        {KILN_E_ARGUMENT, "out[\"n\"] of fn is a mutable int, spec says 7"},
    };
    for (int cell = FIRST_WAY; cell < CELLS; cell++) {
        struct way w = begin(cell, is_given_wrong, NULL);
        for (int k = 1; k < 11; k++) {
            kiln_tensor *x = vec(f, 2, 1., 2.), *y;
            wrong_kind = k;
            kiln_status status = call(&w, &x, 1, &y, 1);
            if (!strstr(kiln_error_message(), "host_bundles.c:")) fail_msg("%s", kiln_error_message());
            fails(status, wrong[k].code, wrong[k].why);
            wrong_kind = 0;
            ok(call(&w, &x, 1, &y, 1));
            expect(y, 2, 8., 9.);
        }
        end(&w);
    }
}

// --- without a spec

static int given_form;

HOST(gives_any)
{
    kiln_tensor *x = kiln_bundle_tensor(in, "x");
    n_calls++;
    *out = with(kiln_bundle_create(), "y", KILN_TENSOR(kiln_mul(x, kiln_scalar_int(2))));
    with(*out, "first", KILN_BUNDLE(kiln_bundle_of((kiln_tensor *[]){kiln_select(x, 0, 0)}, 1)));
    with(*out, "n", KILN_INT(given_form ? 5 : 4));
    return kiln_error();
}

static kiln_status any_slope(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                             kiln_tensor **din)
{
    din[0] = kiln_mul(dout[0], kiln_scalar(2));
    return kiln_error();
}

REGION(takes_any)
{
    kiln_bundle *made, *given = with(kiln_bundle_create(), "x", KILN_TENSOR(in[0]));
    TRY_(kiln_bundle_host_call(gives_any, NULL, given, NULL, &made, KILN_HOST_READS, any_slope));
    out[0] = kiln_bundle_tensor(made, "y");
    out[1] = kiln_bundle_tensor_at(kiln_bundle_bundle(made, "first"), 0);
    out[2] = kiln_add(out[1], kiln_scalar((double)kiln_bundle_int(made, "n")));
    return kiln_error();
}

REGION(takes_any_in_loop)
{
    kiln_tensor *y[3];
    TRY_(takes_any(user, in + 1, 1, y, 3));
    out[0] = kiln_cast(y[0], KILN_F32);
    return kiln_error();
}

REGION(loops_over_any)
{
    return kiln_for(kiln_scalar_int(2), takes_any_in_loop, NULL, in, 1, NULL, out, 1);
}

static void what_is_not_declared_is_learnt(void **state)
{
    struct fixture *f = *state;
    for (int cell = FIRST_WAY; cell < CELLS; cell++) {
        struct way w = begin(cell, takes_any, NULL);
        for (int t = 0; t < 3; t++) {
            kiln_tensor *x = vec(f, 2, 1. + t, 2.), *y[3];
            given_form = 0;
            ok(call(&w, &x, 1, y, 3));
            for (int i = 0; i < 3; i++) assert_int_equal(kiln_tensor_dtype(y[i]), KILN_F64);
            expect(y[0], 2, 2. + 2 * t, 4.);
            expect(y[1], 1, 1. + t);
            expect(y[2], 1, 5. + t);
            given_form = 1; // another number: eagerly that is fine
            kiln_status status = call(&w, &x, 1, y, 3);
            if (in_a_graph(&w))
                fails(status, KILN_E_ARGUMENT, "out[\"n\"] of fn is 5, the capture learnt 4");
            else {
                ok(status);
                expect(y[2], 1, 6. + t);
            }
            given_form = 0;
        }
        end(&w);
        w = begin(cell, loops_over_any, NULL);
        kiln_tensor *x = vec(f, 2, 1., 2.), *y;
        kiln_status status = call(&w, &x, 1, &y, 1);
        if (in_a_graph(&w))
            assert_true(status != KILN_OK);
        else {
            ok(status);
            expect(y, 2, 4., 8.);
        }
        kiln_error_clear();
        end(&w);
    }
}

static void gradients_of_what_is_not_declared(void **state)
{
    struct fixture *f = *state;
    for (int cell = FIRST_WAY; cell < CELLS; cell++) {
        struct way w = begin(cell, takes_any, NULL);
        for (int t = 0; t < 2; t++) {
            kiln_tensor *x = vec(f, 2, 1., 2.), *y[3];
            ok(kiln_set_requires_grad(x, true));
            ok(call(&w, &x, 1, y, 3));
            ok(kiln_backward(kiln_sum(kiln_square(y[0]), NULL), NULL));
            expect(kiln_gradient(x), 2, 8., 16.); // (2 x)^2
        }
        end(&w);
    }
}

// --- nothing, and what is dropped

HOST(gives_nothing)
{
    n_calls++;
    return kiln_error();
}

REGION(takes_nothing)
{
    kiln_bundle *given = kiln_bundle_of(in, 1), *empty = kiln_bundle_create(), *made = given;
    TRY_(kiln_bundle_host_call(gives_nothing, NULL, given, empty, &made, KILN_HOST_IO, NULL));
    assert_int_equal(kiln_bundle_count(made), 0);
    TRY_(kiln_bundle_host_call(gives_nothing, NULL, given, NULL, NULL, KILN_HOST_IO, NULL));
    TRY_(kiln_bundle_host_call(weighs, NULL, weighed_input(in[0], in[0]), NULL, NULL, KILN_HOST_IO, NULL));
    out[0] = kiln_neg(in[0]);
    return kiln_error();
}

REGION(learns_nothing)
{
    kiln_bundle *made;
    TRY_(kiln_bundle_host_call(gives_nothing, NULL, kiln_bundle_of(in, 1), NULL, &made, KILN_HOST_IO, NULL));
    assert_null(made);
    out[0] = kiln_neg(in[0]);
    return kiln_error();
}

static void nothing_is_given(void **state)
{
    struct fixture *f = *state;
    for (int cell = FIRST_WAY; cell < CELLS; cell++) {
        struct way w = begin(cell, takes_nothing, NULL), learns = begin(cell, learns_nothing, NULL);
        kiln_tensor *x = vec(f, 2, 1., 2.), *y;
        n_calls = 0;
        for (int t = 1; t <= 3; t++) {
            ok(call(&w, &x, 1, &y, 1));
            assert_int_equal(n_calls, 3 * t);
        }
        for (int t = 0; t < 3; t++) ok(call(&learns, &x, 1, &y, 1));
        end(&w);
        end(&learns);
    }
}

// --- pure, and of constants: called once; not used: not called

REGION(calls_of_constants)
{
    kiln_device *dev = kiln_tensor_device(in[0]);
    kiln_tensor *c = kiln_from_data(dev, KILN_F32, KILN_SHAPE(2), (float[]){1, 2});
    out[0] = kiln_add(in[0], weighed(c, c, KILN_HOST_PURE));
    weighed(in[0], in[0], KILN_HOST_PURE);
    return kiln_error();
}

static void pure_calls_are_folded_and_dropped(void **state)
{
    struct fixture *f = *state;
    for (int cell = 0; cell < AUTO; cell++) {
        struct way w = begin(cell, calls_of_constants, NULL);
        kiln_tensor *x = vec(f, 2, 1., 1.), *y;
        n_calls = 0;
        for (int t = 0; t < 3; t++) ok(call(&w, &x, 1, &y, 1));
        expect(y, 2, 6., 17.);
        if (cell != TRACE) assert_int_equal(n_calls, 1);
        end(&w);
    }
}

// --- writes: of tensors where it is said; of the bundle never

HOST(writes_part)
{
    kiln_bundle *pair = kiln_bundle_bundle(in, "pair");
    TRY_(kiln_add_(kiln_bundle_tensor_at(pair, 1), kiln_scalar(10)));
    TRY_(kiln_bundle_append(in, "more", KILN_INT(1)));
    *out = kiln_bundle_create();
    return kiln_error();
}

REGION(lets_write)
{
    kiln_bundle *given = weighed_input(in[0], in[1]), *made;
    TRY_(kiln_bundle_host_call(writes_part, NULL, given, NULL, &made, *(unsigned *)user, NULL));
    assert_int_equal(kiln_bundle_count(given), 3);
    out[0] = kiln_add(in[0], in[1]);
    return kiln_error();
}

static void inputs_are_written_where_it_is_said(void **state)
{
    struct fixture *f = *state;
    for (int cell = FIRST_WAY; cell < CELLS; cell++)
        for (int k = 0; k < 2; k++) {
            unsigned flags = k ? KILN_HOST_WRITES : KILN_HOST_IO;
            struct way w = begin(cell, lets_write, &flags);
            kiln_tensor *in[] = {vec(f, 2, 1., 2.), vec(f, 2, 3., 4.)}, *y;
            kiln_status status = call(&w, in, 2, &y, 1);
            if (!k)
                fails(status, KILN_E_ARGUMENT, "fn writes in[\"pair\"][1], and KILN_HOST_WRITES is not given");
            else {
                ok(status);
                expect(in[0], 2, 1., 2.);
                expect(in[1], 2, 13., 14.);
                expect(y, 2, 14., 16.);
            }
            end(&w);
        }
}

// --- a pointer in what is given lives as long as the program

static int released;
static void release(void *pointer)
{
    ++*(int *)pointer;
}

HOST(counts_by_pointer)
{
    *out = kiln_bundle_of((kiln_tensor *[]){kiln_neg(kiln_bundle_tensor_at(in, 0))}, 1);
    if (kiln_bundle_pointer_at(in, 1) != &released) return KILN_E_STATE;
    return kiln_error();
}

REGION(passes_pointer)
{
    kiln_bundle *given = with(kiln_bundle_of(in, 1), NULL, KILN_POINTER(&released, release)), *made;
    TRY_(kiln_bundle_host_call(counts_by_pointer, NULL, given, kiln_bundle_of(in, 1), &made, KILN_HOST_IO, NULL));
    out[0] = kiln_bundle_tensor_at(made, 0);
    return kiln_error();
}

static void pointers_are_released_once(void **state)
{
    struct fixture *f = *state;
    for (int cell = 0; cell < AUTO; cell++) {
        struct way w = begin(cell, passes_pointer, NULL);
        kiln_tensor *x = vec(f, 2, 1., 2.), *y;
        released = 0;
        kiln_scope *s = kiln_scope_begin();
        for (int t = 0; t < 3; t++) ok(call(&w, &x, 1, &y, 1));
        kiln_scope_end(&s);
        assert_int_equal(released, 0);
        end(&w);
        assert_int_equal(released, 1);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(values_and_gradients),
        FIXTURE(calls_are_counted),
        FIXTURE(forms_are_told_apart),
        FIXTURE(what_differs_is_told),
        FIXTURE(what_is_not_declared_is_learnt),
        FIXTURE(gradients_of_what_is_not_declared),
        FIXTURE(nothing_is_given),
        FIXTURE(pure_calls_are_folded_and_dropped),
        FIXTURE(inputs_are_written_where_it_is_said),
        FIXTURE(pointers_are_released_once),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
