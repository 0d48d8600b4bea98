// AUTO: numbers that change from call to call, loops of the host, the limit of recordings.
#include "jit_fixture.h"

static char *explanation_of(kiln_function *j)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    kiln_explain_with(j, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    fclose(file);
    return text;
}

static char warned[2048];
static void note_warning(void *user, const char *message)
{
    size_t n = strlen(warned);
    snprintf(warned + n, sizeof warned - n, "%s\n", message);
}

static kiln_status scale_twice(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const double *by = user;
    out[0] = kiln_add(kiln_mul(in[0], kiln_scalar(by[0])), kiln_scalar(by[1]));
    return kiln_error();
}

static void numbers_that_change_are_taken_at_run_time(void **state)
{
    struct fixture *f = *state;
    double by[2] = {0};
    kiln_tensor *x = vec(f, 2, 1, 2), *out = NULL;
    kiln_function *j = automatic(scale_twice, by);
    for (int i = 0; i < 6; i++) {
        by[0] = i;
        by[1] = 10 * i;
        ok(kiln_call(j, &x, 1, &out, 1));
        expect(out, 2, 11. * i, 12. * i);
    }
    assert_int_equal(stats_of(j).captures, 2); // both numbers at once
    assert_int_equal(stats_of(j).programs, 2);
    kiln_function_free(&j);
}

static kiln_status fills(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    double v = *(double *)user;
    kiln_tensor *a = kiln_full(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(2), v), *b = kiln_zeros_like(in[0]);
    kiln_tensor *n = kiln_full(kiln_tensor_device(in[0]), KILN_I32, KILN_SHAPE(2), floor(v));
    TRY_(kiln_assign(b, kiln_scalar(2 * v)));
    out[0] = kiln_add(kiln_add(kiln_add(a, b), in[0]), n);
    return kiln_error();
}

static void fills_that_change_are_taken_at_run_time(void **state)
{
    struct fixture *f = *state;
    double v;
    kiln_tensor *x = vec(f, 2, 1, 2), *out = NULL;
    kiln_function *j = automatic(fills, &v);
    for (v = -0.5; v < 8; v++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        expect(out, 2, 1 + 3 * v + floor(v), 2 + 3 * v + floor(v));
    }
    assert_true(stats_of(j).captures <= 6);
    kiln_function_free(&j);
}

static kiln_status decay(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    int n = *(int *)user;
    kiln_tensor *x = in[0];
    for (int i = 0; i < n; i++) {
        x = kiln_sub(x, kiln_mul(x, kiln_scalar(0.5)));
        if (kiln_item(kiln_max(x, NULL)) < 1e-3) break;
    }
    out[0] = x;
    return kiln_error();
}

static void repeated_segments_are_one_body(void **state)
{
    struct fixture *f = *state;
    int n = 100;
    kiln_tensor *x = vec(f, 2, 1, 2), *out = NULL;
    kiln_function *j = automatic(decay, &n);
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        expect(out, 2, ldexp(1, -11), ldexp(2, -11));
    }
    assert_int_equal(stats_of(j).breaks, 33);
    assert_int_equal(stats_of(j).captures, 1);
    assert_true(stats_of(j).programs <= 3);
    kiln_function_free(&j);
}

static kiln_status long_loop(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    int n = *(int *)user;
    kiln_tensor *x = in[0];
    for (int i = 0; i < n; i++) x = kiln_sub(kiln_add(x, in[1]), in[2]);
    out[0] = x;
    return kiln_error();
}

static void long_loops_are_cut(void **state)
{
    struct fixture *f = *state;
    int n = 2500;
    kiln_tensor *in[] = {vec(f, 1, 0), vec(f, 1, 3), vec(f, 1, 2)}, *out = NULL;
    kiln_function *j = kiln_jit(long_loop, &n, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .loop_unrolling = 8));
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, in, 3, &out, 1));
        expect(out, 1, 2500.);
    }
    kiln_jit_stats s = stats_of(j);
    assert_int_equal(s.captures, 1);
    assert_true(s.breaks > 3 * 250 && s.programs < 8);
    char *text = explanation_of(j);
    assert_non_null(strstr(text, "break: size limit"));
    free(text);
    kiln_function_free(&j);
}

// Each place of the host's is a recording of its own.
static kiln_status takes_any(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *x = kiln_roll(in[0], KILN_AXES(*(int64_t *)user), KILN_AXES(0));
    out[0] = kiln_mul(kiln_add(x, x), x);
    return kiln_error();
}

static void too_many_recordings_run_eagerly(void **state)
{
    struct fixture *f = *state;
    int64_t i;
    kiln_function *j =
        kiln_jit(takes_any, &i, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .recompile_limit = 3, .cache_entries = 2));
    warned[0] = '\0';
    kiln_set_log(note_warning, NULL);
    for (i = 1; i < 9; i++) {
        kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE(20), 2), *out = NULL;
        ok(kiln_call(j, &x, 1, &out, 1));
        assert_true(kiln_item(kiln_max(out, NULL)) == 8);
    }
    kiln_set_log(NULL, NULL);
    kiln_jit_stats s = stats_of(j);
    assert_int_equal(s.captures, 5);
    assert_int_equal(s.fallbacks, 3);
    assert_int_equal(s.guard_misses, 7);
    assert_true(s.programs <= 3 && s.evictions >= 2);
    assert_non_null(
        strstr(warned, "recorded something new in 4 calls, its limit; calls that fit no program run eager"));
    kiln_function_free(&j);
}

static int64_t taken; // of in[0], as the host says

// Half of it is another one for each number, half of it always the same; the host reads between them.
static kiln_status takes_any_and_one(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *w = user, *x = kiln_narrow(kiln_neg(in[0]), 0, 0, taken);
    double total = kiln_item(kiln_sum(kiln_neg(kiln_mul(x, x)), NULL));
    TRY_(kiln_add_(w, kiln_scalar(1)));
    out[0] = kiln_tanh(kiln_exp(kiln_neg(in[1])));
    out[1] = kiln_mul(in[1], kiln_scalar(total));
    return kiln_error();
}

static uint64_t call_any_and_one(struct fixture *f, kiln_function *j, kiln_tensor *w, int64_t n)
{
    static double calls;
    kiln_tensor *in[] = {kiln_full(f->dev, KILN_F32, KILN_SHAPE(20), 2), vec(f, 2, 0.5, 1)}, *out[2] = {NULL};
    taken = n;
    uint64_t before = launches_of(f);
    ok(kiln_call(j, in, 2, out, 2));
    uint64_t launches = launches_of(f) - before;
    expect(out[0], 2, tanh(exp(-0.5)), tanh(exp(-1)));
    expect(out[1], 2, -2. * (double)n, -4. * (double)n);
    expect(w, 1, ++calls);
    return launches;
}

static void what_is_compiled_stays_in_use_at_the_limit(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *w = vec(f, 1, 0);
    kiln_function *j = kiln_jit(takes_any_and_one, w, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .recompile_limit = 3));
    kiln_set_log(note_warning, NULL);
    for (int64_t n = 1; n < 6; n++) call_any_and_one(f, j, w, n);
    kiln_set_log(NULL, NULL);
    kiln_jit_stats at = stats_of(j);
    for (int64_t n = 1; n < 6; n++) { // known
        uint64_t launches = call_any_and_one(f, j, w, n);
        if (fuses(f)) assert_int_equal(launches, 1 + 2);
        assert_int_equal(stats_of(j).fallbacks, 0);
    }
    for (int64_t n = 6; n < 9; n++) { // from the view to the read it is not known: what is viewed, and three ops
        uint64_t launches = call_any_and_one(f, j, w, n);
        if (fuses(f)) assert_int_equal(launches, 1 + 3 + 2);
        assert_int_equal(stats_of(j).fallbacks, n - 5);
    }
    assert_int_equal(stats_of(j).captures, at.captures);
    assert_int_equal(stats_of(j).programs, at.programs);
    assert_int_equal(stats_of(j).kernels_compiled, at.kernels_compiled);
    call_any_and_one(f, j, w, 3);
    assert_int_equal(stats_of(j).fallbacks, 3);
    kiln_function_free(&j);
}

static kiln_status counts(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    out[0] = kiln_tanh(kiln_mul(in[0], kiln_scalar(2)));
    return kiln_error();
}

static kiln_status counts_and_reads(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    out[0] = kiln_mul(in[0], kiln_scalar(kiln_item(kiln_sum(in[0], NULL))));
    return kiln_error();
}

static void pure_functions_need_not_run(void **state)
{
    struct fixture *f = *state;
    int runs = 0, reads = 0;
    kiln_tensor *x = vec(f, 2, 1, 2), *out = NULL;
    kiln_function *j = kiln_jit(counts, &runs, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .pure_host = true));
    kiln_function *k = kiln_jit(counts_and_reads, &reads, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .pure_host = true));
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        ok(kiln_call(k, &x, 1, &out, 1));
        expect(out, 2, 3., 6.);
    }
    assert_int_equal(runs, 1);
    assert_int_equal(reads, 4); // once to see that it reads
    kiln_function_free(&j);
    kiln_function_free(&k);
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(numbers_that_change_are_taken_at_run_time),
        FIXTURE(fills_that_change_are_taken_at_run_time),
        FIXTURE(repeated_segments_are_one_body),
        FIXTURE(long_loops_are_cut),
        FIXTURE(too_many_recordings_run_eagerly),
        FIXTURE(what_is_compiled_stays_in_use_at_the_limit),
        FIXTURE(pure_functions_need_not_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
