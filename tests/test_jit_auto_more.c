// AUTO: what is learnt, numbers, loops, gradients and captures inside, failures, and the documents' examples.
#include "jit_fixture.h"
#include <pthread.h>

static kiln_function *automatic(kiln_fn fn, void *user)
{
    return kiln_jit(fn, user, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
}

static char *explanation_of(kiln_function *j)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    kiln_explain(j, file);
    fclose(file);
    return text;
}

static char warned[2048];
static void note_warning(void *user, const char *message)
{
    size_t n = strlen(warned);
    snprintf(warned + n, sizeof warned - n, "%s\n", message);
}

// --- what is asked for later

static kiln_status asks_later(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    double *read = user;
    kiln_tensor *a = kiln_add(in[0], kiln_scalar(1)), *b = kiln_mul(a, kiln_scalar(2)), *c = kiln_tanh(b);
    kiln_tensor *unused = kiln_exp(kiln_matmul(kiln_reshape(c, KILN_SHAPE(2, 1)), kiln_reshape(c, KILN_SHAPE(1, 2))));
    read[0] = kiln_item(kiln_sum(a, NULL));
    TRY_(kiln_mul_(in[0], kiln_scalar(0))); // what is pending reads the old value
    read[1] = kiln_item(kiln_sum(b, NULL));
    read[2] = kiln_item(kiln_select(b, 0, 1));
    return unused ? kiln_error() : KILN_E_INTERNAL;
}

static void earlier_values_may_be_read_after_later_breaks(void **state)
{
    struct fixture *f = *state;
    double read[3];
    uint64_t last = 0;
    kiln_function *j = automatic(asks_later, read);
    for (int i = 0; i < 4; i++) {
        kiln_tensor *x = vec(f, 2, 1, 2);
        uint64_t before = launches_of(f);
        ok(kiln_call(j, &x, 1, NULL, 0));
        last = launches_of(f) - before;
        assert_true(read[0] == 5 && read[1] == 10 && read[2] == 6);
        expect(x, 2, 0., 0.);
    }
    if (fuses(f)) assert_true(last <= 4); // `unused` is never computed: the first break, the write and the sum
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
}

static kiln_status keeps_nothing(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_exp(in[0]);
    return y && kiln_log(y) ? kiln_error() : KILN_E_INTERNAL;
}

static void what_nobody_asks_for_is_not_computed(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2);
    kiln_function *j = automatic(keeps_nothing, NULL);
    uint64_t before = launches_of(f);
    for (int i = 0; i < 3; i++) ok(kiln_call(j, &x, 1, NULL, 0));
    assert_int_equal(launches_of(f), before);
    kiln_function_free(&j);
}

// --- numbers and loops

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

static kiln_status takes_any(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(kiln_add(in[0], in[0]), in[0]);
    return kiln_error();
}

static void too_many_recordings_run_eagerly(void **state)
{
    struct fixture *f = *state;
    kiln_function *j =
        kiln_jit(takes_any, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .recompile_limit = 3, .cache_entries = 2));
    warned[0] = '\0';
    kiln_set_log(note_warning, NULL);
    for (int64_t i = 1; i < 9; i++) {
        kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE(i), 2), *out = NULL;
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

// Half of it takes any shape, half of it always the same; the host reads between them.
static kiln_status takes_any_and_one(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *w = user;
    double total = kiln_item(kiln_sum(kiln_neg(kiln_mul(in[0], in[0])), NULL));
    TRY_(kiln_add_(w, kiln_scalar(1)));
    out[0] = kiln_tanh(kiln_exp(kiln_neg(in[1])));
    out[1] = kiln_mul(in[1], kiln_scalar(total));
    return kiln_error();
}

static uint64_t call_any_and_one(struct fixture *f, kiln_function *j, kiln_tensor *w, int64_t n)
{
    static double calls;
    kiln_tensor *in[] = {kiln_full(f->dev, KILN_F32, KILN_SHAPE(n), 2), vec(f, 2, 0.5, 1)}, *out[2] = {NULL};
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
    for (int64_t n = 6; n < 9; n++) { // up to the read it is not known: three ops
        uint64_t launches = call_any_and_one(f, j, w, n);
        if (fuses(f)) assert_int_equal(launches, 3 + 2);
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

// --- gradients and captures inside

static kiln_status cube(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(kiln_square(in[0]), in[0]);
    return kiln_error();
}

static kiln_tensor *double_it(void *user, kiln_tensor *grad)
{
    count_run(user);
    return kiln_mul(grad, kiln_scalar(2));
}

static kiln_status differentiates(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *w = kiln_parameter(kiln_add(in[0], kiln_scalar(0)), "w"), *y;
    TRY_(kiln_grad(cube, NULL, in, 1, NULL, &out[0], 1));
    y = kiln_square(w);
    if (!kiln_register_hook(y, double_it, user)) return kiln_error();
    TRY_(kiln_backward(kiln_sum(kiln_mul(y, in[0]), NULL), NULL));
    out[1] = kiln_alias(kiln_gradient(w)); // 2 * 2 w * x
    return kiln_error();
}

static void gradients_inside(void **state)
{
    struct fixture *f = *state;
    bool fused = fuses(f);
    int hooks = 0;
    kiln_tensor *x = vec(f, 2, 1, 2), *out[2];
    kiln_function *j = automatic(differentiates, &hooks);
    for (int i = 0; i < 3; i++) {
        uint64_t before = launches_of(f);
        ok(kiln_call(j, &x, 1, out, 2));
        if (i && fused) assert_true(launches_of(f) - before <= 2);
        expect(out[0], 2, 3., 12.);
        expect(out[1], 2, 4., 16.);
    }
    assert_int_equal(hooks, 3);
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
}

static kiln_status drops(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *w = user;
    kiln_tensor *y = kiln_dropout(kiln_mul(w, in[0]), 0.5);
    TRY_(kiln_backward(kiln_sum(kiln_square(y), NULL), NULL));
    out[0] = kiln_alias(kiln_gradient(w));
    return kiln_error();
}

static void dropout_and_its_gradient_agree_with_eager(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = kiln_arange(f->dev, KILN_F32, 1, 65, 1), *out = NULL, *want[3];
    kiln_tensor *w = kiln_parameter(kiln_ones(f->dev, KILN_F32, KILN_SHAPE(64)), "w");
    kiln_function *j = automatic(drops, w);
    ok(kiln_seed(f->dev, 3));
    for (int i = 0; i < 3; i++) ok(drops(w, &x, 1, &want[i], 1));
    ok(kiln_seed(f->dev, 3));
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        near(out, want[i], 1e-5);
    }
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
}

static kiln_status recurses(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_function **self = user;
    if (kiln_item(in[0]) <= 0) {
        out[0] = kiln_ones_like(in[0]);
        return kiln_error();
    }
    kiln_tensor *less = kiln_sub(in[0], kiln_scalar(1)), *rest = NULL;
    TRY_(kiln_call(*self, &less, 1, &rest, 1));
    out[0] = kiln_mul(in[0], rest);
    return kiln_error();
}

static void recursion_is_fine(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 1, 5), *out = NULL;
    kiln_function *j = automatic(recurses, &j);
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        expect(out, 1, 120.);
    }
    assert_int_equal(stats_of(j).calls, 3);
    kiln_function_free(&j);
}

struct pair {
    kiln_function *strict, *automatic;
    struct fixture *f;
};

static kiln_status calls_others(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct pair *p = user;
    kiln_tensor *a = NULL, *b = NULL;
    TRY_(kiln_call(p->strict, in, 1, &a, 1));
    KILN_CAPTURE(p->f->dev)
    {
        TRY_(kiln_call(p->automatic, &a, 1, &b, 1));
        out[0] = kiln_keep(kiln_add(b, in[0]));
    }
    return kiln_error();
}

static void captures_inside_are_parts(void **state)
{
    struct fixture *f = *state;
    bool fused = fuses(f);
    struct pair p = {kiln_jit(cube, NULL, NULL), automatic(cube, NULL), f};
    kiln_tensor *x = vec(f, 2, 1, 2), *out = NULL;
    kiln_function *j = automatic(calls_others, &p);
    for (int i = 0; i < 3; i++) {
        uint64_t before = launches_of(f);
        ok(kiln_call(j, &x, 1, &out, 1));
        if (fused) assert_int_equal(launches_of(f) - before, 1);
        expect(out, 2, 2., 514.);
    }
    assert_int_equal(stats_of(p.strict).calls + stats_of(p.automatic).calls, 0);
    assert_int_equal(stats_of(j).breaks, 0);
    kiln_function_free(&p.strict);
    kiln_function_free(&p.automatic);
    kiln_function_free(&j);
}

// --- failures

static kiln_status needs_memory(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor **kept = user;
    kept[0] = kiln_own(kiln_exp(kiln_expand(kiln_add(in[0], kiln_scalar(1)), KILN_SHAPE(1 << 12, 1 << 12))));
    kept[1] = kiln_own(kiln_add(in[0], kiln_scalar(2)));
    kiln_device *dev = kiln_tensor_device(in[0]);
    TRY_(kiln_add_(in[0], kiln_scalar(1)));
    TRY_(kiln_device_set_memory_limit(dev, 1 << 22));
    double v = kiln_item(kiln_select(kiln_select(kept[0], 0, 0), 0, 0));
    return kiln_error() ? kiln_error() : v > 0 ? KILN_OK : KILN_E_INTERNAL;
}

static void a_failed_run_fails_its_values(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 1, 1), *kept[2] = {NULL};
    kiln_function *j = automatic(needs_memory, kept);
    float one;
    kiln_status status = kiln_call(j, &x, 1, NULL, 0);
    assert_int_equal(status, KILN_E_DEVICE_MEMORY);
    kiln_error_clear();
    ok(kiln_device_set_memory_limit(f->dev, 0));
    for (int i = 0; i < 2; i++) { // the first error, as often as it is asked
        kiln_tensor *part = kiln_select(kiln_select(kept[0], 0, 0), 0, 0);
        fails(kiln_read(part, &one, sizeof one), KILN_E_DEVICE_MEMORY, "");
    }
    expect(kept[1], 1, 3.); // another value of the same segment
    expect(x, 1, 2.);       // what was written meanwhile
    kiln_free(&kept[0]);
    kiln_free(&kept[1]);
    kiln_function_free(&j);
}

static kiln_status leaves_early(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    TRY_(kiln_add_(user, in[0]));
    out[0] = kiln_matmul(in[0], kiln_reshape(in[0], KILN_SHAPE(1, 2)));
    return kiln_error();
}

static void errors_keep_effects(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *w = vec(f, 2, 0, 0), *out = NULL;
    kiln_function *j = automatic(leaves_early, w);
    for (int i = 1; i < 4; i++) {
        fails(kiln_call(j, &x, 1, &out, 1), KILN_E_SHAPE, "matmul");
        assert_null(out);
        expect(w, 2, 1. * i, 2. * i);
    }
    kiln_function_free(&j);
}

// --- the documents' examples

static kiln_status tensor_cal(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(kiln_matmul(in[0], in[1]), in[2]);
    return kiln_error();
}

static void e6_tensor_cal(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {kiln_ones(f->dev, KILN_F32, KILN_SHAPE(2, 3)), kiln_ones(f->dev, KILN_F32, KILN_SHAPE(3, 4)),
                         kiln_ones(f->dev, KILN_F32, KILN_SHAPE(2, 4))};
    kiln_tensor *out = NULL;
    kiln_function *j = automatic(tensor_cal, NULL);
    for (int i = 0; i < 2; i++) {
        ok(kiln_call(j, in, 3, &out, 1));
        expect(out, 8, 4., 4., 4., 4., 4., 4., 4., 4.);
    }
    kiln_function_free(&j);
}

struct net {
    kiln_tensor *attr;
    int len, outer;
};

static kiln_status sets_attr(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *n = user;
    if (n->attr) kiln_free(&n->attr);
    n->attr = kiln_own(kiln_add(in[0], kiln_scalar(1)));
    out[0] = n->attr;
    return kiln_error();
}

static kiln_status adds_len(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct net *n = user;
    out[0] = kiln_add(in[0], kiln_scalar(n->len + n->outer));
    return kiln_error();
}

static void d4_d5_d6_state_of_the_host_is_seen(void **state)
{
    struct fixture *f = *state;
    struct net n = {NULL, 1, 0};
    kiln_tensor *x = vec(f, 3, 1, 2, 3), *two = vec(f, 1, 2), *out = NULL;
    kiln_function *d4 = automatic(sets_attr, &n), *d5 = automatic(adds_len, &n);
    for (int i = 0; i < 2; i++) {
        ok(kiln_call(d4, &x, 1, &out, 1));
        expect(out, 3, 2., 3., 4.);
        expect(n.attr, 3, 2., 3., 4.);
    }
    ok(kiln_call(d5, &two, 1, &out, 1));
    expect(out, 1, 3.);
    n.len = 2;
    ok(kiln_call(d5, &two, 1, &out, 1));
    expect(out, 1, 4.);
    n.outer = 1; // a closure over what is outside
    for (n.len = 1; n.len <= 2; n.len++) {
        ok(kiln_call(d5, &two, 1, &out, 1));
        expect(out, 1, 3. + n.len);
    }
    kiln_free(&n.attr);
    kiln_function_free(&d4);
    kiln_function_free(&d5);
}

struct worker {
    struct fixture *f;
    kiln_function *j;
    kiln_tensor *shared;
    bool fine;
};

static void *call_many(void *user)
{
    struct worker *w = user;
    w->fine = true;
    for (int i = 0; i < 40; i++) {
        kiln_scope *s = kiln_scope_begin();
        kiln_tensor *x = kiln_full(w->f->dev, KILN_F32, KILN_SHAPE(4), i), *out = NULL;
        kiln_tensor *y = kiln_add(x, w->shared);
        w->fine &= !kiln_call(w->j, &y, 1, &out, 1) && kiln_item(kiln_max(out, NULL)) == 3. * (i + 1) * 4 * (i + 1);
        KILN_CAPTURE(w->f->dev)
        {
            kiln_tensor *z = kiln_mul(x, w->shared);
            w->fine &= kiln_item(kiln_sum(z, NULL)) == 4. * i;
        }
        kiln_scope_end(&s);
    }
    w->fine &= !kiln_error();
    return NULL;
}

static kiln_status squares(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_mul(in[0], kiln_scalar(3));
    double sum = kiln_item(kiln_sum(in[0], NULL));
    out[0] = kiln_mul(y, kiln_scalar(sum));
    return kiln_error();
}

static void threads_may_call_one_function(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = automatic(squares, NULL);
    kiln_tensor *one = kiln_add(kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(4)), kiln_scalar(1));
    struct worker w[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        w[i] = (struct worker){f, j, one, false};
        assert_int_equal(pthread_create(&threads[i], NULL, call_many, &w[i]), 0);
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++) assert_true(w[i].fine);
    assert_int_equal(stats_of(j).calls, 120);
    kiln_function_free(&j);
}

static void regions_without_capture(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2);
    kiln_jit_enable(false);
    KILN_CAPTURE(NULL) expect(kiln_add(x, x), 2, 2., 4.);
    kiln_jit_enable(true);
    kiln_capture_end(NULL);
    kiln_capture_region *none = NULL;
    kiln_capture_end(&none);
    assert_false(kiln_capture_next(NULL));
}

// Values of one segment that are asked for at different times agree with each other to the bit: the first call learns
// that y is asked for after the break, so that it is there at once in the second, which asks for the largest of it,
// too.
static kiln_status find_the_largest(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *scale = kiln_sum(kiln_sigmoid(in[0]), NULL);
    kiln_tensor *y = kiln_add(kiln_mul(in[0], scale), kiln_norm(in[0], NULL)), *largest = kiln_max(y, NULL);
    kiln_item(kiln_mean(in[0], NULL)); // a break
    out[0] = kiln_sum(++*(int *)user > 1 ? kiln_equal(y, largest) : y, NULL);
    return kiln_error();
}

static void values_asked_for_later_agree(void **state)
{
    struct fixture *f = *state;
    for (int64_t n = 30; n <= 3000; n += 90) {
        int calls = 0;
        kiln_function *j = kiln_jit(find_the_largest, &calls, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
        kiln_tensor *x = kiln_sin(kiln_arange(f->dev, KILN_F32, 0, (double)n, 1)), *y;
        for (int t = 0; t < 4; t++) {
            ok(kiln_call(j, &x, 1, &y, 1));
            if (t) assert_true(kiln_item(y) >= 1);
        }
        kiln_function_free(&j);
    }
}

static kiln_status find_it_later(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *scale = kiln_sum(kiln_sigmoid(in[0]), NULL);
    kiln_tensor *y = kiln_add(kiln_mul(in[0], scale), kiln_norm(in[0], NULL)), *largest = kiln_max(y, NULL);
    *(double *)user = kiln_item(largest); // a break
    out[0] = kiln_sum(kiln_equal(y, largest), NULL);
    return kiln_error();
}

static void what_a_maximum_was_found_in_agrees_with_it(void **state)
{
    struct fixture *f = *state;
    for (int64_t n = 30; n <= 3000; n += 90) {
        double largest;
        kiln_function *j = kiln_jit(find_it_later, &largest, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
        kiln_tensor *x = kiln_sin(kiln_arange(f->dev, KILN_F32, 0, (double)n, 1)), *y;
        for (int t = 0; t < 3; t++) {
            ok(kiln_call(j, &x, 1, &y, 1));
            assert_true(kiln_item(y) >= 1);
        }
        kiln_function_free(&j);
    }
}

// The same where nothing holds what the maximum was found in any more.
static kiln_status count_the_largest(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_scope *inside = kiln_scope_begin();
    kiln_tensor *scale = kiln_sum(kiln_sigmoid(in[0]), NULL);
    kiln_tensor *y = kiln_add(kiln_mul(in[0], scale), kiln_norm(in[0], NULL)), *largest = kiln_keep(kiln_max(y, NULL));
    out[0] = kiln_keep(kiln_sum(kiln_equal(y, largest), NULL));
    kiln_scope_end(&inside);
    *(double *)user = kiln_item(largest); // a break
    kiln_free(&largest);
    return kiln_error();
}

static void a_maximum_agrees_with_what_is_made_anew(void **state)
{
    struct fixture *f = *state;
    for (int64_t n = 30; n <= 3000; n += 90) {
        double largest;
        kiln_function *j = kiln_jit(count_the_largest, &largest, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
        kiln_tensor *x = kiln_sin(kiln_arange(f->dev, KILN_F32, 0, (double)n, 1)), *y;
        for (int t = 0; t < 3; t++) {
            ok(kiln_call(j, &x, 1, &y, 1));
            assert_true(kiln_item(y) >= 1);
        }
        kiln_function_free(&j);
    }
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(earlier_values_may_be_read_after_later_breaks),
        FIXTURE(what_nobody_asks_for_is_not_computed),
        FIXTURE(numbers_that_change_are_taken_at_run_time),
        FIXTURE(fills_that_change_are_taken_at_run_time),
        FIXTURE(repeated_segments_are_one_body),
        FIXTURE(long_loops_are_cut),
        FIXTURE(too_many_recordings_run_eagerly),
        FIXTURE(what_is_compiled_stays_in_use_at_the_limit),
        FIXTURE(pure_functions_need_not_run),
        FIXTURE(gradients_inside),
        FIXTURE(dropout_and_its_gradient_agree_with_eager),
        FIXTURE(recursion_is_fine),
        FIXTURE(captures_inside_are_parts),
        FIXTURE(a_failed_run_fails_its_values),
        FIXTURE(errors_keep_effects),
        FIXTURE(e6_tensor_cal),
        FIXTURE(d4_d5_d6_state_of_the_host_is_seen),
        FIXTURE(threads_may_call_one_function),
        FIXTURE(regions_without_capture),
        FIXTURE(values_asked_for_later_agree),
        FIXTURE(what_a_maximum_was_found_in_agrees_with_it),
        FIXTURE(a_maximum_agrees_with_what_is_made_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
