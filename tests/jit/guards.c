// Under which conditions a program runs: one test a guard, exactly one capture for each change. And the cache.
#include "jit_fixture.h"
#include <pthread.h>
#include <unistd.h>

static kiln_status mixed(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *sum = kiln_mul(in[0], kiln_scalar(2));
    for (size_t i = 1; i < n_in; i++) sum = kiln_add(sum, in[i]);
    out[0] = kiln_relu(sum);
    return kiln_error();
}

static char *explanation(kiln_function *j)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    kiln_explain_with(j, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    fclose(file);
    return text;
}

// Two kinds of calls in turn: two captures, whose second names the guard and both values.
static void two_programs(kiln_tensor *const *a, size_t n_a, kiln_tensor *const *b, size_t n_b, const char *why)
{
    kiln_function *j = kiln_jit(mixed, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *x = NULL, *y = NULL;
        ok(kiln_call(j, a, n_a, &x, 1));
        ok(mixed(NULL, a, n_a, &y, 1));
        same(x, y);
        ok(kiln_call(j, b, n_b, &x, 1));
        ok(mixed(NULL, b, n_b, &y, 1));
        same(x, y);
    }
    kiln_jit_stats s = stats_of(j);
    assert_int_equal(s.captures, 2);
    assert_int_equal(s.guard_misses, 1);
    assert_int_equal(s.programs, 2);
    char *text = explanation(j);
    if (!strstr(text, why)) print_error("%s\n", text);
    assert_non_null(strstr(text, why));
    assert_non_null(strstr(text, "first call"));
    free(text);
    kiln_function_free(&j);
}

static void count(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 2, 1, 2), vec(f, 2, 3, 4)};
    two_programs(in, 1, in, 2, "guard count: 1 inputs were given, 2 are");
}

static void dtype(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *a = vec(f, 2, 1, 2), *b = kiln_cast(a, KILN_F64);
    two_programs(&a, 1, &b, 1, "guard dtype: input 0 was f32[2], is f64[2]");
}

static void rank(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *a = vec(f, 2, 1, 2), *b = kiln_reshape(a, KILN_SHAPE(2, 1));
    two_programs(&a, 1, &b, 1, "guard rank: input 0 was f32[2], is f32[2,1]");
}

static void dims(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *a = vec(f, 2, 1, 2), *b = vec(f, 3, 1, 2, 3);
    two_programs(&a, 1, &b, 1, "guard dims: input 0 was f32[2], is f32[3]");
}

static void strides(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *a = mat(f, 2, 2, 1., -2., 3., 4.), *b = kiln_transpose(a, 0, 1);
    two_programs(&a, 1, &b, 1, "guard strides: input 0 strides were [2,1], are [1,2]");
}

static void device(void **state)
{
    struct fixture *f = *state;
    kiln_device *other = kiln_device_open("cpu");
    kiln_tensor *a = vec(f, 2, 1, 2), *b = kiln_to_device(a, other);
    two_programs(&a, 1, &b, 1, "guard device: input 0 device was");
    kiln_free(&b);
    kiln_device_close(&other);
}

static void requires_grad(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *a = vec(f, 2, 1, 2), *b = kiln_parameter(vec(f, 2, 1, 2), "b");
    two_programs(&a, 1, &b, 1, "guard gradient: input 0 requires-grad was off, is on");
}

static kiln_status count_up(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_add_(in[0], kiln_scalar(1));
    out[0] = kiln_mul(in[1], kiln_scalar(2));
    return kiln_error();
}

static void alias(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *a[] = {x, vec(f, 2, 1, 2)}, *b[] = {x, x}, *out = NULL;
    kiln_function *j = kiln_jit(count_up, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, a, 2, &out, 1));
        expect(out, 2, 2., 4.);
        ok(kiln_call(j, b, 2, &out, 1));
        expect(out, 2, 6. + 4 * i, 8. + 4 * i);
    }
    assert_int_equal(stats_of(j).captures, 2);
    char *text = explanation(j);
    assert_non_null(strstr(text, "guard alias: input 1 alias was -1, is 0"));
    free(text);
    kiln_function_free(&j);
}

static void kind(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *a[] = {x, x}, *b[] = {x, kiln_scalar(3)};
    two_programs(a, 2, b, 2, "guard kind: input 1 was a tensor, is a number");
}

static void a_number_is_a_constant_until_it_changes(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2);
    kiln_function *j = kiln_jit(mixed, NULL, NULL);
    for (int i = 0; i < 10; i++) {
        kiln_tensor *in[] = {x, kiln_scalar(i)}, *out = NULL;
        ok(kiln_call(j, in, 2, &out, 1));
        expect(out, 2, 2. + i, 4. + i);
    }
    assert_int_equal(stats_of(j).captures, 2);
    char *text = explanation(j);
    assert_non_null(strstr(text, "guard number: input 1 number was 0, is 1"));
    free(text);
    kiln_function_free(&j);
    // As it is in eager mode: in an integer's place, in f64, and as a run-time value from the start.
    j = kiln_jit(mixed, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        kiln_tensor *in[] = {kiln_cast(x, i % 2 ? KILN_F16 : KILN_I32), kiln_scalar(i / 2)}, *a = NULL, *b = NULL;
        ok(kiln_call(j, in, 2, &a, 1));
        ok(mixed(NULL, in, 2, &b, 1));
        same(a, b);
    }
    kiln_function_free(&j);
    j = kiln_jit(mixed, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        kiln_tensor *in[] = {x, kiln_mutable(i)}, *out = NULL;
        ok(kiln_call(j, in, 2, &out, 1));
        expect(out, 2, 2. + i, 4. + i);
    }
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
}

struct knob {
    double by;
    uint64_t hash;
};

static uint64_t hash_of(void *user)
{
    return ((struct knob *)user)->hash;
}

static kiln_status turn(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(in[0], kiln_scalar(((struct knob *)user)->by));
    return kiln_error();
}

static void user_hash(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 1, 2), *out = NULL;
    struct knob k = {1, 1};
    kiln_function *j = kiln_jit(turn, &k, KILN_JIT(.hash_args = hash_of));
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(out, 1, 3.);
    k.by = 2;
    ok(kiln_call(j, &x, 1, &out, 1)); // D5: what C holds is not perceived
    expect(out, 1, 3.);
    k.hash = 2;
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(out, 1, 4.);
    k.hash = 1;
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(out, 1, 3.);
    assert_int_equal(stats_of(j).guard_misses, 1);
    char *text = explanation(j);
    assert_non_null(strstr(text, "guard hash: was 1, is 2"));
    free(text);
    kiln_function_free(&j);
}

static void mode(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 1, 2), *out = NULL;
    kiln_function *j = kiln_jit(mixed, NULL, NULL);
    assert_int_equal(kiln_get_mode(), KILN_MODE_EAGER);
    for (int i = 0; i < 4; i++) {
        ok(kiln_set_mode(i % 2 ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
        ok(kiln_call(j, &x, 1, &out, 1));
        expect(out, 1, 4.);
    }
    assert_int_equal(kiln_get_mode(), KILN_MODE_GRAPH);
    ok(kiln_set_mode(KILN_MODE_EAGER));
    assert_int_equal(stats_of(j).guard_misses, 1);
    fails(kiln_set_mode((kiln_mode)5), KILN_E_ARGUMENT, "5 is not one of kiln_mode");
    kiln_function_free(&j);
}

static void gradients_off(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = kiln_parameter(vec(f, 1, 2), "x"), *out = NULL;
    kiln_function *j = kiln_jit(mixed, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        if (i % 2) kiln_no_grad_begin();
        ok(kiln_call(j, &x, 1, &out, 1));
        assert_true(kiln_requires_grad(out) == !(i % 2));
        if (i % 2) kiln_no_grad_end();
    }
    assert_int_equal(stats_of(j).guard_misses, 1);
    char *text = explanation(j);
    assert_non_null(strstr(text, "guard grad mode: gradients were on, are off"));
    free(text);
    kiln_function_free(&j);
}

// Limits

struct heard {
    char text[4][700];
    int n;
};

static void hear(void *user, const char *message)
{
    struct heard *h = user;
    if (h->n < 4) snprintf(h->text[h->n], sizeof h->text[0], "%s", message);
    h->n++;
}

// As many ops as rows: a graph of its own for each number of them.
static kiln_status op_for_each(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_relu(in[0]);
    for (int64_t i = 0; i < kiln_numel(in[0]); i++) out[0] = kiln_add(out[0], in[0]);
    return kiln_error();
}

static void too_many_captures_end_in_eager_mode(void **state)
{
    struct fixture *f = *state;
    struct heard h = {.n = 0};
    kiln_set_log(hear, &h);
    kiln_function *j = kiln_jit(op_for_each, NULL, KILN_JIT(.recompile_limit = 3));
    for (int64_t n = 1; n <= 8; n++) {
        kiln_tensor *x = kiln_ones(f->dev, KILN_F32, KILN_SHAPE(n)), *out = NULL;
        ok(kiln_call(j, &x, 1, &out, 1));
        assert_int_equal(kiln_numel(out), n);
    }
    kiln_tensor *one = kiln_ones(f->dev, KILN_F32, KILN_SHAPE(1)), *out = NULL;
    ok(kiln_call(j, &one, 1, &out, 1)); // fits the first program
    kiln_set_log(NULL, NULL);
    kiln_jit_stats s = stats_of(j);
    assert_int_equal(s.captures, 5);
    assert_int_equal(s.reused, 0);
    assert_int_equal(s.fallbacks, 3);
    assert_int_equal(s.guard_misses, 7);
    assert_int_equal(h.n, 1);
    assert_non_null(strstr(h.text[0], "was captured 5 times, its limit, sizes of known graphs not counted"));
    assert_non_null(strstr(h.text[0], "guard dims: input 0 was f32[4], is f32[5]"));
    kiln_function_free(&j);
}

static void programs_used_last_are_kept(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(mixed, NULL, KILN_JIT(.cache_entries = 2));
    static const int sizes[] = {1, 2, 1, 3, 1, 2};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        kiln_tensor *x = kiln_ones(f->dev, KILN_F32, KILN_SHAPE(sizes[i])), *out = NULL;
        ok(kiln_call(j, &x, 1, &out, 1));
    }
    kiln_jit_stats s = stats_of(j);
    assert_int_equal(s.captures, 4);
    assert_int_equal(s.programs, 2);
    assert_int_equal(s.evictions, 2);
    kiln_function_free(&j);
}

static kiln_status read_number(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = in[0];
    for (int64_t i = kiln_item_int(in[1]); i > 0; i--) out[0] = kiln_add(out[0], in[0]);
    return kiln_error();
}

static void a_number_that_is_read_stays_a_constant(void **state)
{
    struct fixture *f = *state;
    struct heard h = {.n = 0};
    kiln_set_log(hear, &h);
    kiln_function *j = kiln_jit(read_number, NULL, NULL);
    for (int i = 2; i < 6; i++) {
        kiln_tensor *in[] = {vec(f, 1, 1), kiln_scalar_int(i)}, *out = NULL;
        ok(kiln_call(j, in, 2, &out, 1));
        expect(out, 1, i + 1.);
    }
    kiln_set_log(NULL, NULL);
    assert_int_equal(stats_of(j).captures, 4);
    assert_int_equal(h.n, 1);
    assert_non_null(strstr(h.text[0], "recompile-const: "));
    kiln_function_free(&j);
}

static void small_functions_are_warned_of_once(void **state)
{
    struct fixture *f = *state;
    struct heard h = {.n = 0};
    struct knob k = {1, 1};
    kiln_tensor *x = vec(f, 1, 2), *y = vec(f, 2, 2, 3), *out = NULL;
    kiln_set_log(hear, &h);
    kiln_function *j = kiln_jit(turn, &k, NULL);
    ok(kiln_call(j, &x, 1, &out, 1));
    ok(kiln_call(j, &y, 1, &out, 1));
    kiln_set_log(NULL, NULL);
    assert_int_equal(h.n, 1);
    assert_non_null(strstr(h.text[0], "tiny-graph: the function at guards.c:"));
    kiln_function_free(&j);
}

static void a_signature_is_held_to(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *y = vec(f, 3, 1, 2, 3), *both[] = {x, y}, *out = NULL;
    kiln_function *j = kiln_jit(mixed, NULL, KILN_JIT(.input_signature = KILN_TENSORS(x)));
    ok(kiln_call(j, &x, 1, &out, 1));
    fails(kiln_call(j, &y, 1, &out, 1), KILN_E_SHAPE, "is f32[3], its signature says f32[2]");
    fails(kiln_call(j, both, 2, &out, 1), KILN_E_ARGUMENT, "has 1 inputs, 2 are given");
    kiln_function_free(&j);
}

static void explanations_of_long_runs_are_bounded(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 1, 2), *out = NULL;
    struct knob k = {1, 0};
    kiln_function *j = kiln_jit(turn, &k, KILN_JIT(.hash_args = hash_of, .cache_entries = 1, .recompile_limit = 2000));
    for (k.hash = 1; k.hash <= 1000; k.hash++) ok(kiln_call(j, &x, 1, &out, 1));
    assert_int_equal(stats_of(j).captures, 1000);
    char *text = explanation(j);
    assert_in_range(strlen(text), 1 << 16, (1 << 16) + 4096);
    assert_non_null(strstr(text, "guard hash: was 1, is 2\n"));
    assert_null(strstr(text, "guard hash: was 998, is 999\n"));
    assert_non_null(strstr(text, "(what came later is left out)\n  program 1000: 1 op"));
    free(text);
    kiln_function_free(&j);
}

static void explain_prints_what_happened(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *out = NULL;
    kiln_function *j = kiln_jit(mixed, NULL, NULL);
    ok(kiln_call(j, &x, 1, &out, 1));
    char *text = explanation(j);
    const char name[] = "the function at guards.c:";
    assert_non_null(strstr(text, name));
    assert_null(strstr(text + sizeof name, "the function at")); // once, at the beginning
    assert_non_null(strstr(text, "capture STRICT"));
    assert_non_null(strstr(text, "\n  program 1: 2 ops"));
    assert_non_null(strstr(text, "capture 1: 2 ops, 1 input, 1 output; first call"));
    free(text);
    kiln_explain(NULL, stderr);
    fails(kiln_error(), KILN_E_ARGUMENT, "f is NULL");
    kiln_explain(j, NULL);
    fails(kiln_error(), KILN_E_ARGUMENT, "file is NULL");
    kiln_function_stats(j, NULL);
    fails(kiln_error(), KILN_E_ARGUMENT, "out is NULL");
    kiln_function_free(&j);
}

// Threads

struct shared {
    kiln_function *j;
    kiln_device *dev;
    int failures;
};

static void *call_often(void *at)
{
    struct shared *s = at;
    for (int i = 0; i < 200; i++) {
        kiln_scope *scope = kiln_scope_begin();
        int64_t n = 1 + i % 5;
        kiln_tensor *x = kiln_ones(s->dev, KILN_F32, 1, &n), *out = NULL;
        float v[5] = {0};
        bool fine = !kiln_call(s->j, &x, 1, &out, 1) && !kiln_read(out, v, (size_t)n * sizeof *v) && v[0] == 2;
        if (!fine) __atomic_fetch_add(&s->failures, 1, __ATOMIC_RELAXED);
        kiln_scope_end(&scope);
    }
    return NULL;
}

static void threads_share_a_function(void **state)
{
    struct fixture *f = *state;
    struct shared s = {kiln_jit(mixed, NULL, KILN_JIT(.cache_entries = 3, .recompile_limit = 100000)), f->dev, 0};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, call_often, &s), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(s.failures, 0);
    assert_int_equal(stats_of(s.j).calls, 800);
    assert_int_equal(stats_of(s.j).programs, 3);
    kiln_function_free(&s.j);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(count),
        FIXTURE(dtype),
        FIXTURE(rank),
        FIXTURE(dims),
        FIXTURE(strides),
        FIXTURE(device),
        FIXTURE(requires_grad),
        FIXTURE(alias),
        FIXTURE(kind),
        FIXTURE(a_number_is_a_constant_until_it_changes),
        FIXTURE(user_hash),
        FIXTURE(mode),
        FIXTURE(gradients_off),
        FIXTURE(too_many_captures_end_in_eager_mode),
        FIXTURE(programs_used_last_are_kept),
        FIXTURE(a_number_that_is_read_stays_a_constant),
        FIXTURE(small_functions_are_warned_of_once),
        FIXTURE(a_signature_is_held_to),
        FIXTURE(explain_prints_what_happened),
        FIXTURE(explanations_of_long_runs_are_bounded),
        FIXTURE(threads_share_a_function),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
