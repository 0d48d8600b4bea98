// Functions of bundles, captured: what they are made for, what they reach from outside, gradients, and what is left.
#include "jit_fixture.h"
#include <pthread.h>
#include <stdio.h>

#define BUNDLE_FN(name) static kiln_status name(void *user, kiln_bundle *in, kiln_bundle **out)

static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE};
enum { N_CAPTURES = 3 };

static kiln_bundle *of(kiln_tensor *x)
{
    return kiln_bundle_of(&x, 1);
}

static kiln_tensor *first(const kiln_bundle *b)
{
    return kiln_bundle_tensor_at(b, 0);
}

static void expect_two(kiln_tensor *t, double a, double b)
{
    double v[2];
    assert_non_null(t);
    assert_int_equal(kiln_numel(t), 2);
    read_all(t, v);
    if (fabs(v[0] - a) > 1e-6 * fabs(a) || fabs(v[1] - b) > 1e-6 * fabs(b)) fail_msg("got %.9g %.9g", v[0], v[1]);
}

// --- what a function reaches from outside ---

static kiln_bundle *settings;

BUNDLE_FN(scales)
{
    *out = of(kiln_mul(first(in), kiln_scalar(kiln_bundle_double(settings, "scale"))));
    return kiln_error();
}

static kiln_status scales_tensors(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(in[0], kiln_scalar(kiln_bundle_double(settings, "scale")));
    return kiln_error();
}

// Nothing that is read of a bundle goes stale.
static void a_bundle_from_outside_is_guarded(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < N_CAPTURES; c++) {
        settings = kiln_bundle_create();
        kiln_function *j = kiln_bundle_jit(scales, NULL, KILN_JIT(.capture = captures[c]));
        kiln_function *k = kiln_jit(scales_tensors, NULL, KILN_JIT(.capture = captures[c]));
        for (int i = 1; i <= 3; i++) {
            ok(kiln_bundle_set(settings, "scale", KILN_DOUBLE(i)));
            for (int n = 0; n < 2; n++) {
                kiln_bundle *out;
                kiln_tensor *x = vec(f, 2, 1, 2), *y;
                ok(kiln_bundle_call(j, of(x), &out));
                expect_two(first(out), i, 2 * i);
                ok(kiln_call(k, &x, 1, &y, 1));
                expect_two(y, i, 2 * i);
            }
        }
        if (captures[c] != KILN_CAPTURE_AUTO) {
            assert_int_equal(stats_of(j).captures, 3);
            assert_int_equal(stats_of(k).captures, 3);
        }
        kiln_function_free(&j);
        kiln_function_free(&k);
        kiln_bundle_free(&settings);
    }
}

BUNDLE_FN(changes_settings)
{
    *out = of(kiln_neg(first(in)));
    return kiln_bundle_set(settings, "scale", KILN_DOUBLE(kiln_bundle_double(settings, "scale") + 1));
}

static void a_change_outside_happens_at_each_call_or_is_an_error(void **state)
{
    struct fixture *f = *state;
    settings = kiln_bundle_create();
    ok(kiln_bundle_set(settings, "scale", KILN_DOUBLE(1)));
    for (int c = 0; c < N_CAPTURES; c++) {
        kiln_bundle *out;
        kiln_function *j = kiln_bundle_jit(changes_settings, NULL, KILN_JIT(.capture = captures[c]));
        if (captures[c] != KILN_CAPTURE_AUTO) {
            fails(kiln_bundle_call(j, of(vec(f, 2, 1, 2)), &out), KILN_E_STATE,
                  "bundle_set: the bundle is from outside of the function that is being captured");
            assert_null(out);
        }
        for (int i = 0; i < 3 && captures[c] == KILN_CAPTURE_AUTO; i++)
            ok(kiln_bundle_call(j, of(vec(f, 2, 1, 2)), &out));
        kiln_function_free(&j);
    }
    assert_true(kiln_bundle_double(settings, "scale") == 4);
    kiln_bundle_free(&settings);
}

static kiln_status changes_in_branch(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_neg(in[0]);
    return kiln_bundle_append(user, NULL, KILN_INT(1));
}

static kiln_status same_tensor(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = in[0];
    return kiln_error();
}

// Both branches are captured, and one of them is taken.
BUNDLE_FN(branches)
{
    kiln_tensor *x = first(in), *y = NULL, *pred = kiln_any(kiln_greater(x, kiln_scalar(0)), NULL);
    TRY_(kiln_cond(pred, changes_in_branch, same_tensor, in, &x, 1, &y, 1));
    *out = of(y);
    return kiln_error();
}

static void a_change_in_a_branch_is_an_error_in_a_graph(void **state)
{
    struct fixture *f = *state;
    kiln_bundle *out;
    kiln_function *j = kiln_bundle_jit(branches, NULL, NULL),
                  *k = kiln_bundle_jit(branches, NULL, KILN_JIT(.capture = 1));
    fails(kiln_bundle_call(j, of(vec(f, 2, 1, 2)), &out), KILN_E_STATE, "bundle_append: the bundle is from outside");
    ok(kiln_bundle_call(k, of(vec(f, 2, 1, 2)), &out));
    expect_two(first(out), -1, -2);
    kiln_function_free(&j);
    kiln_function_free(&k);
}

// --- structures ---

BUNDLE_FN(sums)
{
    kiln_tensor *sum = kiln_zeros_like(first(in));
    for (int64_t i = 0; i < (int64_t)kiln_bundle_count(in); i++) {
        kiln_kind kind = kiln_bundle_kind_at(in, i);
        if (kind == KILN_KIND_NONE || kind == KILN_KIND_STRING || kind == KILN_KIND_POINTER) continue;
        kiln_tensor *t;
        if (kind == KILN_KIND_BUNDLE) {
            kiln_bundle *inside = NULL;
            TRY_(sums(user, kiln_bundle_bundle_at(in, i), &inside));
            t = first(inside);
        } else
            t = kiln_bundle_tensor_at(in, i);
        sum = kiln_add(sum, t);
    }
    *out = of(sum);
    return kiln_error();
}

static void add_kind(struct fixture *f, kiln_bundle *b, int kind)
{
    static int thing[2];
    kiln_tensor *x = vec(f, 2, 10, 20);
    switch (kind) {
    case 1: ok(kiln_bundle_append(b, NULL, KILN_NONE)); break;
    case 2: ok(kiln_bundle_append(b, NULL, KILN_INT(3))); break;
    case 3: ok(kiln_bundle_append(b, NULL, KILN_DOUBLE(3))); break;
    case 4: ok(kiln_bundle_append(b, NULL, KILN_STRING("s"))); break;
    case 5: ok(kiln_bundle_append(b, NULL, KILN_STRING("t"))); break;
    case 6: ok(kiln_bundle_append(b, NULL, KILN_POINTER(&thing[0], NULL))); break;
    case 7: ok(kiln_bundle_append(b, NULL, KILN_POINTER(&thing[1], NULL))); break;
    case 8: ok(kiln_bundle_append(b, NULL, KILN_TENSOR(x))); break;
    case 9: ok(kiln_bundle_append(b, NULL, KILN_BUNDLE(of(x)))); break;
    case 10: ok(kiln_bundle_append(b, "x", KILN_TENSOR(x))); break;
    case 11: ok(kiln_bundle_append(b, "y", KILN_TENSOR(x))); break;
    case 12: ok(kiln_bundle_append(b, NULL, KILN_TENSOR(kiln_mutable_int(3)))); break;
    case 13: ok(kiln_bundle_append(b, NULL, KILN_BUNDLE(kiln_mutable_bundle(of(x))))); break; // as 9
    default: break;
    }
}

// Each structure has its program, and goes on having it.
static void a_structure_is_a_program(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_bundle_jit(sums, NULL, NULL);
    for (int n = 0; n < 3; n++)
        for (int kind = 0; kind <= 13; kind++) {
            kiln_bundle *in = of(vec(f, 2, 1 + n, 2)), *out;
            add_kind(f, in, kind);
            ok(kiln_bundle_call(j, in, &out));
            double more = kind == 2 || kind == 3 || kind == 12 ? 3 : kind >= 8 ? 10 : 0;
            expect_two(first(out), 1 + n + more, 2 + (more == 10 ? 20 : more));
        }
    assert_int_equal(stats_of(j).captures, 13);
    kiln_function_free(&j);
}

// A new number each time is a capture each time, up to the limit; then the function runs as it is.
static void numbers_end_in_eager_mode(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_bundle_jit(sums, NULL, KILN_JIT(.recompile_limit = 2));
    for (int i = 0; i < 6; i++) {
        kiln_bundle *in = of(vec(f, 2, 1, 2)), *out;
        ok(kiln_bundle_append(in, NULL, KILN_INT(i)));
        ok(kiln_bundle_call(j, in, &out));
        expect_two(first(out), 1 + i, 2 + i);
    }
    assert_int_equal(stats_of(j).captures, 3);
    assert_int_equal(stats_of(j).fallbacks, 3);
    kiln_function_free(&j);
}

BUNDLE_FN(reads_number)
{
    *out = of(kiln_mul(first(in), kiln_scalar((double)kiln_bundle_int_at(in, 1))));
    return kiln_error();
}

static void a_mutable_number_is_not_known_in_a_graph(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < N_CAPTURES; c++) {
        kiln_bundle *in = of(vec(f, 2, 1, 2)), *out;
        kiln_function *j = kiln_bundle_jit(reads_number, NULL, KILN_JIT(.capture = captures[c]));
        ok(kiln_bundle_append(in, NULL, KILN_TENSOR(kiln_mutable_int(3))));
        if (captures[c] == KILN_CAPTURE_STRICT)
            fails(kiln_bundle_call(j, in, &out), KILN_E_STATE, "item_int: the value depends on an input");
        else {
            ok(kiln_bundle_call(j, in, &out));
            expect_two(first(out), 3, 6);
        }
        kiln_function_free(&j);
    }
}

static int released;
static void release(void *pointer)
{
    ++*(int *)pointer;
}

BUNDLE_FN(passes_on)
{
    *out = kiln_bundle_copy(in);
    return kiln_bundle_set_at(*out, 0, KILN_TENSOR(kiln_neg(first(in))));
}

// A pointer comes back as it is, and goes with the last that holds it: here the program.
static void pointers_are_released_once(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < N_CAPTURES; c++) {
        released = 0;
        kiln_function *j = kiln_bundle_jit(passes_on, NULL, KILN_JIT(.capture = captures[c]));
        kiln_scope *scope = kiln_scope_begin();
        kiln_bundle *in = of(vec(f, 2, 1, 2)), *out;
        ok(kiln_bundle_append(in, "p", KILN_POINTER(&released, release)));
        for (int i = 0; i < 3; i++) {
            ok(kiln_bundle_call(j, in, &out));
            assert_ptr_equal(kiln_bundle_pointer(out, "p"), &released);
        }
        kiln_scope_end(&scope);
        assert_int_equal(released, captures[c] == KILN_CAPTURE_AUTO);
        kiln_function_free(&j);
        assert_int_equal(released, 1);
    }
}

// --- programs ---

static kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_tanh(kiln_add(kiln_mul(in[0], in[1]), in[0]));
    out[1] = kiln_exp(out[0]);
    return kiln_error();
}

BUNDLE_FN(bundle_chain)
{
    kiln_tensor *t[] = {kiln_bundle_tensor_at(in, 0), kiln_bundle_tensor_at(in, 1)}, *made[2];
    TRY_(chain(user, t, 2, made, 2));
    *out = kiln_bundle_of(made, 2);
    return kiln_error();
}

// The bundle costs the program nothing.
static void the_program_is_that_of_tensors(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_bundle_jit(bundle_chain, NULL, NULL), *k = kiln_jit(chain, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *in[] = {vec(f, 2, 1 + i, 2), vec(f, 2, 3, 4)}, *want[2];
        kiln_bundle *out;
        ok(kiln_bundle_call(j, kiln_bundle_of(in, 2), &out));
        ok(kiln_call(k, in, 2, want, 2));
        same(kiln_bundle_tensor_at(out, 0), want[0]);
        same(kiln_bundle_tensor_at(out, 1), want[1]);
    }
    assert_int_equal(stats_of(j).launches, stats_of(k).launches);
    assert_int_equal(stats_of(j).nodes, stats_of(k).nodes);
    kiln_function_free(&j);
    kiln_function_free(&k);
}

BUNDLE_FN(calls_another)
{
    kiln_bundle *inside;
    TRY_(kiln_bundle_call(user, in, &inside));
    *out = of(kiln_add(kiln_bundle_tensor_at(inside, 0), kiln_bundle_tensor_at(inside, 1)));
    return kiln_error();
}

static void a_call_inside_is_a_part(void **state)
{
    struct fixture *f = *state;
    kiln_function *inner = kiln_bundle_jit(bundle_chain, NULL, NULL);
    for (int c = 0; c < N_CAPTURES; c++) {
        kiln_function *j = kiln_bundle_jit(calls_another, inner, KILN_JIT(.capture = captures[c]));
        kiln_tensor *in[] = {vec(f, 2, 1, 2), vec(f, 2, 3, 4)}, *want[2];
        kiln_bundle *out;
        for (int i = 0; i < 2; i++) ok(kiln_bundle_call(j, kiln_bundle_of(in, 2), &out));
        ok(chain(NULL, in, 2, want, 2));
        same(first(out), kiln_add(want[0], want[1]));
        assert_int_equal(stats_of(inner).calls, 0);
        kiln_function_free(&j);
    }
    kiln_function_free(&inner);
}

BUNDLE_FN(writes_tensor)
{
    kiln_add_(first(in), kiln_scalar(1));
    *out = in;
    return kiln_error();
}

// Tensors in a bundle are the caller's memory, as inputs are.
static void writes_to_tensors_are_seen(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < N_CAPTURES; c++) {
        kiln_function *j = kiln_bundle_jit(writes_tensor, NULL, KILN_JIT(.capture = captures[c]));
        kiln_tensor *x = vec(f, 2, 1, 2);
        kiln_bundle *out;
        for (int i = 1; i <= 3; i++) {
            ok(kiln_bundle_call(j, of(x), &out));
            expect_two(x, 1 + i, 2 + i);
            assert_true(kiln_is_view_of(first(out), x));
        }
        kiln_function_free(&j);
    }
}

// A function that fails leaves the bundle and nothing else.
BUNDLE_FN(fails_late)
{
    kiln_bundle_append(in, NULL, KILN_INT(1));
    *out = of(kiln_neg(first(in)));
    return KILN_E_UNSUPPORTED;
}

static void what_fails_changes_nothing(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < N_CAPTURES; c++) {
        kiln_function *j = kiln_bundle_jit(fails_late, NULL, KILN_JIT(.capture = captures[c], .in_place = true));
        kiln_bundle *in = of(vec(f, 2, 1, 2)), *out = in;
        fails(kiln_bundle_call(j, in, &out), KILN_E_UNSUPPORTED, "failed with KILN_E_UNSUPPORTED");
        assert_null(out);
        assert_int_equal(kiln_bundle_count(in), 1);
        kiln_function_free(&j);
    }
}

static jmp_buf back;
BUNDLE_FN(is_left)
{
    kiln_bundle *mine = kiln_bundle_copy(in);
    kiln_bundle_append(mine, NULL, KILN_TENSOR(kiln_exp(first(in))));
    kiln_bundle_append(in, NULL, KILN_BUNDLE(mine));
    longjmp(back, 1);
}

static void a_function_that_is_left_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    for (volatile int c = 0; c <= N_CAPTURES; c++) {
        kiln_function *volatile j =
            kiln_bundle_jit(is_left, NULL, KILN_JIT(.capture = captures[c % 3], .in_place = true));
        kiln_bundle *volatile in = of(vec(f, 2, 1, 2));
        if (!setjmp(back)) {
            kiln_bundle *out;
            if (c == N_CAPTURES)
                kiln_bundle_grad(is_left, NULL, in, NULL, NULL, &out);
            else
                kiln_bundle_call(j, in, &out);
            fail_msg("it came back");
        }
        assert_int_equal(kiln_bundle_count(in), 1);
        kiln_function *mine = j;
        kiln_function_free(&mine);
    }
}

// TRACE tells when what is no tensor has changed.
static int64_t traced;
BUNDLE_FN(gives_number)
{
    *out = of(kiln_neg(first(in)));
    return kiln_bundle_append(*out, "n", KILN_INT(traced));
}

static void verify_compares_what_is_no_tensor(void **state)
{
    struct fixture *f = *state;
    traced = 1;
    kiln_function *j = kiln_bundle_jit(gives_number, NULL, KILN_JIT(.capture = KILN_CAPTURE_TRACE, .verify = 2));
    kiln_bundle *out;
    ok(kiln_bundle_call(j, of(vec(f, 2, 1, 2)), &out));
    traced = 2;
    ok(kiln_bundle_call(j, of(vec(f, 2, 1, 2)), &out));
    assert_int_equal(kiln_bundle_int(out, "n"), 2);
    kiln_function_free(&j);
}

static int runs;
BUNDLE_FN(counts_runs)
{
    runs++;
    *out = in;
    return kiln_bundle_append(in, "neg", KILN_TENSOR(kiln_neg(first(in))));
}

// AUTO without effects on the host is the program alone, and gives the same bundles.
static void a_pure_function_is_replayed(void **state)
{
    struct fixture *f = *state;
    runs = 0;
    kiln_function *j = kiln_bundle_jit(counts_runs, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .pure_host = true));
    for (int i = 1; i <= 4; i++) {
        kiln_bundle *out;
        ok(kiln_bundle_call(j, of(vec(f, 2, i, 2)), &out));
        assert_int_equal(kiln_bundle_count(out), 2);
        expect_two(kiln_bundle_tensor(out, "neg"), -i, -2);
    }
    assert_int_equal(runs, 1);
    kiln_function_free(&j);
}

// A recording that meets a number which the program takes at run time is made again, with nothing left of the first.
BUNDLE_FN(reads_scalar)
{
    kiln_tensor *t = kiln_bundle_tensor(in, "n");
    kiln_bundle_set(in, "read", KILN_DOUBLE(kiln_item(t)));
    *out = in;
    return kiln_error();
}

static void numbers_from_constants_are_read(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_bundle_jit(reads_scalar, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        kiln_bundle *in = of(vec(f, 2, 1, 2)), *out;
        ok(kiln_bundle_set(in, "n", KILN_DOUBLE(i / 2.0)));
        ok(kiln_bundle_call(j, in, &out));
        assert_true(kiln_bundle_double(out, "read") == i / 2.0);
    }
    assert_int_equal(stats_of(j).captures, 3);
    kiln_function_free(&j);
}

// --- much of it

enum { MANY = 1000000, MANY_TENSORS = 3000 };

BUNDLE_FN(takes_last)
{
    *out = kiln_bundle_copy(in);
    return kiln_bundle_append(*out, "last", KILN_TENSOR(kiln_mul(first(in), kiln_scalar(2))));
}

static void a_million_entries(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < N_CAPTURES; c++) {
        kiln_function *j = kiln_bundle_jit(takes_last, NULL, KILN_JIT(.capture = captures[c]));
        kiln_bundle *in = of(vec(f, 2, 1, 2)), *out;
        for (int i = 0; i < MANY; i++) ok(kiln_bundle_append(in, NULL, KILN_INT(i)));
        for (int t = 0; t < 3; t++) {
            ok(kiln_bundle_call(j, in, &out));
            expect_two(kiln_bundle_tensor(out, "last"), 2, 4);
            assert_int_equal(kiln_bundle_count(out), MANY + 2);
            assert_int_equal(kiln_bundle_int_at(out, MANY), MANY - 1);
        }
        assert_int_equal(stats_of(j).captures, 1);
        ok(kiln_bundle_set_at(in, MANY / 2, KILN_INT(-1)));
        ok(kiln_bundle_call(j, in, &out));
        assert_int_equal(stats_of(j).captures, captures[c] == KILN_CAPTURE_AUTO ? 1 : 2); // whose ops are the same
        assert_int_equal(kiln_bundle_int_at(out, MANY / 2), -1);
        kiln_function_free(&j);
    }
}

BUNDLE_FN(adds_ends)
{
    int64_t n = (int64_t)kiln_bundle_count(in);
    *out = of(kiln_add(first(in), kiln_bundle_tensor_at(in, n - 1)));
    return kiln_error();
}

static void many_tensors(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < N_CAPTURES; c++) {
        kiln_function *j = kiln_bundle_jit(adds_ends, NULL, KILN_JIT(.capture = captures[c]));
        kiln_bundle *in = kiln_bundle_create(), *out;
        for (int i = 0; i < MANY_TENSORS; i++) ok(kiln_bundle_append(in, NULL, KILN_TENSOR(vec(f, 2, i, 1))));
        for (int t = 0; t < 3; t++) {
            ok(kiln_bundle_call(j, in, &out));
            expect_two(first(out), MANY_TENSORS - 1, 2);
        }
        assert_int_equal(stats_of(j).captures, 1);
        kiln_function_free(&j);
    }
}

struct calling {
    kiln_function *j;
    kiln_device *dev;
    bool right;
};

static void *call_often(void *at)
{
    struct calling *c = at;
    c->right = true;
    for (int i = 0; i < 200; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = kiln_full(c->dev, KILN_F32, KILN_SHAPE(2), i);
        kiln_bundle *in = of(x), *out = NULL;
        double v[2] = {0};
        if (i % 3) kiln_bundle_append(in, NULL, i % 3 == 1 ? KILN_INT(5) : KILN_BUNDLE(of(x)));
        kiln_bundle_call(c->j, in, &out);
        kiln_tensor *y = kiln_cast(first(out), KILN_F64);
        kiln_read(y, v, sizeof v);
        c->right &= !kiln_error() && v[1] == (i % 3 == 0 ? i : i % 3 == 1 ? i + 5 : 2 * i);
        kiln_scope_end(&scope);
    }
    return NULL;
}

static void threads_share_a_function(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_bundle_jit(sums, NULL, NULL);
    pthread_t threads[4];
    struct calling calls[4];
    for (int i = 0; i < 4; i++) {
        calls[i] = (struct calling){j, f->dev, false};
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &calls[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(calls[i].right);
    }
    assert_int_equal(stats_of(j).captures, 3);
    assert_int_equal(stats_of(j).calls, 800);
    kiln_function_free(&j);
}

// --- gradients ---

static kiln_tensor *weight;
BUNDLE_FN(loss)
{
    kiln_bundle *xy = kiln_bundle_bundle(in, "xy");
    kiln_tensor *p = kiln_mul(kiln_bundle_tensor(xy, "x"), kiln_bundle_tensor(xy, "y"));
    if (weight) p = kiln_mul(p, weight);
    *out = kiln_bundle_create();
    kiln_bundle_append(*out, "loss", KILN_TENSOR(kiln_mul(p, kiln_bundle_tensor(in, "k"))));
    kiln_bundle_append(*out, "p", KILN_TENSOR(p));
    return kiln_bundle_append(*out, "n", KILN_INT(5));
}

static kiln_bundle *loss_input(kiln_tensor *x, kiln_tensor *y, const kiln_value *k)
{
    kiln_bundle *in = kiln_bundle_create(), *xy = kiln_bundle_create();
    ok(kiln_bundle_append(xy, "x", KILN_TENSOR(x)));
    ok(kiln_bundle_append(xy, "label", KILN_STRING("no tensor")));
    ok(kiln_bundle_append(xy, "y", KILN_TENSOR(y)));
    ok(kiln_bundle_append(in, "k", k));
    ok(kiln_bundle_append(in, "none", KILN_NONE));
    ok(kiln_bundle_append(in, "xy", KILN_BUNDLE(xy)));
    return in;
}

BUNDLE_FN(all_gradients)
{
    kiln_bundle *value, *grads, *named, *sens = of(kiln_scalar(1));
    *out = kiln_bundle_create();
    TRY_(kiln_bundle_grad(loss, NULL, in, KILN_BUNDLE_GRAD(.has_aux = true), &value, &grads));
    TRY_(kiln_bundle_append(*out, "value", KILN_BUNDLE(value)));
    TRY_(kiln_bundle_append(*out, "grads", KILN_BUNDLE(grads)));
    TRY_(kiln_bundle_set_at(sens, 0, KILN_TENSOR(kiln_ones_like(kiln_bundle_tensor(value, "p")))));
    TRY_(kiln_bundle_append(sens, NULL, KILN_TENSOR(kiln_zeros_like(kiln_bundle_tensor(value, "p")))));
    TRY_(kiln_bundle_grad(loss, NULL, in, KILN_BUNDLE_GRAD(.names = KILN_NAMES("xy"), .sens = sens), NULL, &named));
    TRY_(kiln_bundle_append(*out, "named", KILN_BUNDLE(named)));
    TRY_(kiln_bundle_grad(loss, NULL, in, KILN_BUNDLE_GRAD(.wrt = KILN_ARGS(-1), .params = KILN_PARAMS(weight)), NULL,
                          &named));
    return kiln_bundle_append(*out, "params", KILN_BUNDLE(named));
}

static void expect_gradients(kiln_bundle *all, double k)
{
    kiln_bundle *value = kiln_bundle_bundle(all, "value"), *grads = kiln_bundle_bundle(all, "grads");
    kiln_bundle *xy = kiln_bundle_bundle(grads, "xy"), *named = kiln_bundle_bundle(all, "named");
    kiln_bundle *params = kiln_bundle_bundle(all, "params");
    assert_int_equal(kiln_bundle_int(value, "n"), 5);
    expect_two(kiln_bundle_tensor(value, "loss"), 2 * 3 * k, 2 * 8 * k); // weight 2
    assert_int_equal(kiln_bundle_count(grads), 2);                       // k is mutable
    assert_int_equal(kiln_bundle_count(xy), 2);
    expect_two(kiln_bundle_tensor(xy, "x"), 2 * 3 * k, 2 * 4 * k);
    expect_two(kiln_bundle_tensor(xy, "y"), 2 * 1 * k, 2 * 2 * k);
    assert_true(fabs(kiln_item(kiln_bundle_tensor(grads, "k")) - 22) < 1e-5);
    assert_int_equal(kiln_bundle_count(named), 1);
    expect_two(kiln_bundle_tensor(kiln_bundle_bundle(named, "xy"), "x"), 2 * 3 * k, 2 * 4 * k);
    assert_int_equal(kiln_bundle_count(params), 2);
    expect_two(kiln_bundle_tensor(kiln_bundle_bundle(params, "xy"), "x"), 2 * 3 * (k + 1), 2 * 4 * (k + 1));
    expect_two(kiln_bundle_tensor_at(params, 1), 3 * (k + 1), 8 * (k + 1));
}

static void gradients_by_bundles(void **state)
{
    struct fixture *f = *state;
    weight = kiln_parameter(vec(f, 2, 2, 2), "w");
    kiln_tensor *x = vec(f, 2, 1, 2), *y = vec(f, 2, 3, 4);
    kiln_bundle *out;
    ok(all_gradients(NULL, loss_input(x, y, KILN_TENSOR(kiln_mutable(3))), &out));
    expect_gradients(out, 3);
    for (int c = 0; c < N_CAPTURES; c++) {
        kiln_function *j = kiln_bundle_jit(all_gradients, NULL, KILN_JIT(.capture = captures[c]));
        for (int k = 1; k <= 3; k++) {
            ok(kiln_bundle_call(j, loss_input(x, y, KILN_TENSOR(kiln_mutable(k))), &out));
            expect_gradients(out, k);
        }
        assert_true(stats_of(j).captures <=
                    (captures[c] == KILN_CAPTURE_AUTO ? 2 : 1)); // a rule's numbers are found out
        kiln_function_free(&j);
    }
    weight = NULL;
}

// A call of a captured function of bundles is on the tape, by its inputs and by parameters.
static void backward_goes_through_calls(void **state)
{
    struct fixture *f = *state;
    weight = kiln_parameter(vec(f, 2, 2, 2), "w");
    for (int c = 0; c < N_CAPTURES; c++) {
        kiln_function *j = kiln_bundle_jit(loss, NULL, KILN_JIT(.capture = captures[c]));
        kiln_tensor *x = kiln_parameter(vec(f, 2, 1, 2), "x"), *y = vec(f, 2, 3, 4);
        for (int k = 1; k <= 3; k++) {
            kiln_bundle *out;
            ok(kiln_bundle_call(j, loss_input(x, y, KILN_TENSOR(kiln_mutable(k))), &out));
            ok(kiln_backward(kiln_sum(kiln_square(kiln_bundle_tensor(out, "loss")), NULL), NULL));
            // d/dx (2 x y k)^2 = 8 x y^2 k^2, d/dw (w x y k)^2 = 2 w (x y k)^2
            expect_two(kiln_gradient(x), 8 * 9 * k * k, 8 * 2 * 16 * k * k);
            expect_two(kiln_gradient(weight), 4 * 9 * k * k, 4 * 64 * k * k);
        }
        assert_int_equal(stats_of(j).captures, 1);
        kiln_function_free(&j);
    }
    weight = NULL;
}

// Two runs of a gradient's gradient: create_graph, and a gradient of a function that takes one.
BUNDLE_FN(cubes)
{
    kiln_tensor *x = first(in);
    *out = of(kiln_mul(x, kiln_square(x)));
    return kiln_error();
}

BUNDLE_FN(slope)
{
    return kiln_bundle_grad(cubes, NULL, in, NULL, NULL, out);
}

BUNDLE_FN(curvature)
{
    return kiln_bundle_grad(slope, NULL, in, NULL, NULL, out);
}

static void orders_nest(void **state)
{
    struct fixture *f = *state;
    kiln_bundle *out;
    ok(curvature(NULL, of(vec(f, 2, 1, 2)), &out));
    expect_two(first(out), 6, 12);
    for (int c = 0; c < N_CAPTURES; c++) {
        kiln_function *j = kiln_bundle_jit(curvature, NULL, KILN_JIT(.capture = captures[c]));
        for (int i = 1; i <= 2; i++) {
            ok(kiln_bundle_call(j, of(vec(f, 2, i, 2)), &out));
            expect_two(first(out), 6 * i, 12);
        }
        kiln_function_free(&j);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(a_bundle_from_outside_is_guarded),
        FIXTURE(a_change_outside_happens_at_each_call_or_is_an_error),
        FIXTURE(a_change_in_a_branch_is_an_error_in_a_graph),
        FIXTURE(a_structure_is_a_program),
        FIXTURE(numbers_end_in_eager_mode),
        FIXTURE(a_mutable_number_is_not_known_in_a_graph),
        FIXTURE(pointers_are_released_once),
        FIXTURE(the_program_is_that_of_tensors),
        FIXTURE(a_call_inside_is_a_part),
        FIXTURE(writes_to_tensors_are_seen),
        FIXTURE(what_fails_changes_nothing),
        FIXTURE(a_function_that_is_left_leaves_nothing),
        FIXTURE(verify_compares_what_is_no_tensor),
        FIXTURE(a_pure_function_is_replayed),
        FIXTURE(numbers_from_constants_are_read),
        FIXTURE(a_million_entries),
        FIXTURE(many_tensors),
        FIXTURE(threads_share_a_function),
        FIXTURE(gradients_by_bundles),
        FIXTURE(backward_goes_through_calls),
        FIXTURE(orders_nest),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
