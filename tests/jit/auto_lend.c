// AUTO: what a segment writes lies over what was there, where nobody needs that any more; and walks of many short
// segments, which are not recorded each time.
#include "jit_fixture.h"

enum { CALLS = 6, WIDE = 1 << 19, TENSORS = 3 };

static uint64_t used_at_most(struct fixture *f, bool peak)
{
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(f->dev, &s);
    return peak ? s.heap_peak_B : s.heap_used_B;
}

// --- memory

static kiln_status decays(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor **state = user;
    for (int i = 0; i < TENSORS; i++) {
        TRY_(kiln_mul_(state[i], kiln_scalar(0.5)));
        TRY_(kiln_add_(state[i], in[0]));
    }
    out[0] = kiln_sum(kiln_narrow(state[0], 0, 0, 2), NULL);
    return kiln_error();
}

// Bytes beyond what is there that the last of some calls took.
static uint64_t beyond(struct fixture *f, kiln_function *j, kiln_tensor *x)
{
    uint64_t more = 0;
    for (int i = 0; i < CALLS; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *out;
        kiln_device_reset_stats(f->dev);
        uint64_t before = used_at_most(f, false);
        ok(kiln_call(j, &x, 1, &out, 1));
        more = used_at_most(f, true) - before;
        kiln_scope_end(&scope);
    }
    return more;
}

static void what_is_written_needs_no_second_memory(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *all[TENSORS], *x = kiln_ones(f->dev, KILN_F32, KILN_SHAPE(WIDE));
    for (int i = 0; i < TENSORS; i++) all[i] = kiln_full(f->dev, KILN_F32, KILN_SHAPE(WIDE), i);
    kiln_function *j = automatic(decays, all);
    uint64_t more = beyond(f, j, x);
    if (fuses(f)) assert_true(more < (uint64_t)WIDE * 4);
    double want = 1;
    for (int i = 0; i < CALLS; i++) want = want * 0.5 + 1;
    expect(kiln_narrow(all[1], 0, WIDE - 2, 2), 2, want, want);
    kiln_function_free(&j);
}

// --- who still needs what was there

struct needs {
    kiln_tensor *a, *b; // written
    kiln_tensor *kept;  // of before the write, read after the call
    int way;
};
enum { WAYS = 11 };

static kiln_tensor *twice(kiln_tensor *t)
{
    return kiln_mul(t, kiln_scalar(2));
}

static kiln_status swap_by(struct needs *s, kiln_tensor *t)
{
    kiln_tensor *old = kiln_mul(s->a, kiln_scalar(1));
    TRY_(kiln_assign(s->a, kiln_add(s->b, t)));
    return kiln_assign(s->b, old);
}

// Each writes a, most of them b.
static kiln_status writes_some_way(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct needs *s = user;
    kiln_tensor *t = in[0], *old = twice(s->a);
    out[0] = old;
    switch (s->way) {
    case 0: return kiln_add_(s->a, t);
    case 1: return swap_by(s, t);
    case 2: // one value in both
        TRY_(kiln_add_(s->a, t));
        return kiln_assign(s->b, s->a);
    case 3: // an input as it is
        TRY_(kiln_add_(s->a, t));
        return kiln_assign(s->b, t);
    case 4: return kiln_assign(kiln_select(s->a, 0, 1), kiln_select(kiln_add(s->b, t), 0, 0));
    case 5: // pending when the segment ends
        s->kept = kiln_own(twice(s->a));
        TRY_(kiln_add_(s->a, t));
        return kiln_item(kiln_sum(s->a, NULL)) < -1e9 ? KILN_E_STATE : KILN_OK;
    case 6: // written again behind a break
        TRY_(kiln_add_(s->a, t));
        out[0] = kiln_mul(s->a, kiln_scalar(kiln_item(kiln_max(s->a, NULL))));
        return kiln_mul_(s->a, s->b);
    case 7: // read as it was before, from another side
        TRY_(kiln_add_(s->a, kiln_transpose(s->a, 0, 1)));
        return kiln_sub_(s->b, kiln_flip(s->a, KILN_AXES(0, 1)));
    case 8: // of sums over it
        out[0] = kiln_sub(s->a, kiln_mean(s->a, NULL));
        TRY_(kiln_assign(s->a, kiln_matmul(s->a, kiln_softmax(s->b, 0))));
        return kiln_assign(s->b, kiln_add(kiln_cumsum(s->b, 0), t));
    case 9: // a result is what was there
        out[0] = kiln_alias(kiln_contiguous(kiln_add(s->a, kiln_scalar(0))));
        return kiln_assign(s->a, kiln_add(t, s->b));
    default: TRY_(kiln_assign(s->a, s->b)); return kiln_mul_(s->b, t);
    }
}

enum { SIDE = 3, AREA = SIDE * SIDE };

// What CALLS calls leave: the result, a view of a from before, b, and what was kept.
static void run_way(struct fixture *f, int way, bool captured, double *left)
{
    kiln_scope *scope = kiln_scope_begin();
    struct needs s = {.way = way};
    s.a = mat(f, SIDE, SIDE, 1., 2., 3., -1., 0.5, 4., 0., 2., -3.);
    s.b = mat(f, SIDE, SIDE, 0.5, 1., -1., 0.25, 1., 1., 0., 0.5, -0.5);
    kiln_tensor *view = kiln_transpose(s.a, 0, 1), *t = mat(f, SIDE, SIDE, 1., 0., 0., 0., .5, 0., 0., 0., .25);
    kiln_function *j = automatic(writes_some_way, &s);
    for (int i = 0; i < CALLS; i++, left += 4 * AREA) {
        kiln_tensor *out = NULL;
        if (captured)
            ok(kiln_call(j, &t, 1, &out, 1));
        else
            ok(writes_some_way(&s, &t, 1, &out, 1));
        read_all(out, left);
        read_all(view, left + AREA);
        read_all(s.b, left + 2 * AREA);
        if (s.kept) read_all(s.kept, left + 3 * AREA);
        kiln_free(&s.kept);
    }
    kiln_function_free(&j);
    kiln_scope_end(&scope);
}

static void what_is_still_needed_stays(void **state)
{
    for (int way = 0; way < WAYS; way++) {
        double want[CALLS * 4 * AREA] = {0}, got[CALLS * 4 * AREA] = {0};
        run_way(*state, way, false, want);
        run_way(*state, way, true, got);
        for (int i = 0; i < CALLS * 4 * AREA; i++) {
            bool close = fabs(got[i] - want[i]) <= 1e-4 * (1 + fabs(want[i]));
            if (!close) print_error("way %d, number %d: %.9g, not %.9g\n", way, i, got[i], want[i]);
            assert_true(close);
        }
    }
}

// --- the tape

static kiln_status adds_to_it(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_no_grad_begin();
    kiln_add_(user, in[0]);
    kiln_no_grad_end();
    out[0] = kiln_sum(user, NULL);
    return kiln_error();
}

static void a_backward_finds_that_what_it_needs_is_gone(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 3, 1, 2, 3), *held = vec(f, 3, 4, 5, 6);
    ok(kiln_set_requires_grad(x, true));
    kiln_function *j = automatic(adds_to_it, held);
    kiln_tensor *one = vec(f, 3, 1, 1, 1), *out = NULL;
    for (int i = 0; i < 3; i++) ok(kiln_call(j, &one, 1, &out, 1));
    kiln_tensor *y = kiln_sum(kiln_mul(x, held), NULL); // needs held as it is now
    ok(kiln_call(j, &one, 1, &out, 1));
    fails(kiln_backward(y, NULL), KILN_E_GRADIENT, "has changed since");
    expect(held, 3, 8., 9., 10.);
    kiln_function_free(&j);
}

// --- many short segments

static kiln_status counts_up(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *x = kiln_zeros_like(in[0]);
    while (kiln_item(kiln_max(x, NULL)) < *(double *)user) x = kiln_add(x, in[0]);
    out[0] = x;
    return kiln_error();
}

static uint64_t recorded_ops(struct fixture *f, double trips, int64_t n)
{
    kiln_tensor *one = kiln_ones(f->dev, KILN_F32, KILN_SHAPE(n)), *out = NULL;
    kiln_function *j = automatic(counts_up, &trips);
    for (int i = 0; i < 3; i++) ok(kiln_call(j, &one, 1, &out, 1));
    uint64_t before = stats_of(j).graph_ops;
    for (int i = 0; i < CALLS; i++) {
        ok(kiln_call(j, &one, 1, &out, 1));
        expect(kiln_narrow(out, 0, n - 1, 1), 1, trips);
    }
    before = stats_of(j).graph_ops - before;
    kiln_function_free(&j);
    return before;
}

static void many_short_segments_run_by_themselves(void **state)
{
    struct fixture *f = *state;
    if (!fuses(f)) return;
    bool host = !strcmp(jit_device, "cpu");
    assert_true((recorded_ops(f, 40, 4) == 0) == host);
    assert_true(recorded_ops(f, 8, 4) > 0);     // few breaks
    assert_true(recorded_ops(f, 40, 8192) > 0); // much in each
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(what_is_written_needs_no_second_memory),
        FIXTURE(what_is_still_needed_stays),
        FIXTURE(a_backward_finds_that_what_it_needs_is_gone),
        FIXTURE(many_short_segments_run_by_themselves),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
