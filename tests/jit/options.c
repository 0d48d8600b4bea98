// The options of captured functions: what is done to a graph, how it rounds, what may break it, how large it is; and
// regions where capture is off.
#include "jit_fixture.h"
#include <kiln/control.h>
#include <kiln/nn.h>
#include <kiln/optim.h>

static char said[4096];
static void listen(void *user, const char *message)
{
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", message);
}

static int begin(void **state)
{
    said[0] = '\0';
    kiln_set_log(listen, NULL);
    return setup(state);
}

static int end(void **state)
{
    kiln_set_log(NULL, NULL);
    return teardown(state);
}

static const kiln_capture all_captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE};

// --- .level ---

// x * 1 is gone by a pass; what is left is one kernel by fusion.
static kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    kiln_tensor *x = kiln_mul(in[0], kiln_scalar(1));
    out[0] = kiln_sub(kiln_exp(kiln_mul(x, in[1])), kiln_scalar(0.3));
    return kiln_error();
}

static uint64_t launches_of_call(struct fixture *f, kiln_function *j, kiln_tensor *const *in, size_t n_in)
{
    kiln_tensor *out = NULL;
    for (int i = 0; i < 3; i++) ok(kiln_call(j, in, n_in, &out, 1));
    uint64_t before = launches_of(f);
    ok(kiln_call(j, in, n_in, &out, 1));
    return launches_of(f) - before;
}

static void levels(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 3, 1, 2, 3), vec(f, 3, 3, -1, 0)}, *want = NULL, *out = NULL;
    bool replays = !fuses(f);
    ok(chain(NULL, in, 2, &want, 1));
    for (int k = 0; k < 3; k++) {
        const uint64_t counts[] = {1, 3, 4}; // without a compiler, those of the graph
        for (kiln_level level = KILN_LEVEL_FUSION; level <= KILN_LEVEL_AS_IS; level++) {
            kiln_function *j = kiln_jit(chain, NULL, KILN_JIT(.capture = all_captures[k], .level = level));
            uint64_t n = launches_of_call(f, j, in, 2);
            if (!replays) assert_int_equal(n, counts[level]);
            ok(kiln_call(j, in, 2, &out, 1));
            same(out, want);
            kiln_function_free(&j);
        }
    }
}

// The bits of eager mode, gradients too.
static kiln_status loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *h = kiln_tanh(kiln_layer_norm(kiln_matmul(in[0], in[1]), 1, NULL));
    out[0] = kiln_mean(kiln_square(kiln_sub(kiln_softmax(kiln_mul(h, kiln_scalar(1.7)), -1), in[2])), NULL);
    return kiln_error();
}

static void bits(kiln_tensor *t, void *v)
{
    ok(kiln_read(t, v, (size_t)kiln_numel(t) * (kiln_tensor_dtype(t) == KILN_F32 ? 4 : 2)));
}

static kiln_status call_function(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_call(user, in, n_in, out, n_out);
}

static void levels_without_fusion_give_eager_bits(void **state)
{
    struct fixture *f = *state;
    ok(kiln_seed(f->dev, 3));
    for (int half = 0; half < 2; half++) {
        kiln_dtype type = half ? KILN_F16 : KILN_F32;
        kiln_tensor *in[] = {kiln_normal(f->dev, type, KILN_SHAPE(5, 7), 0, 1),
                             kiln_normal(f->dev, type, KILN_SHAPE(7, 9), 0, 1),
                             kiln_uniform(f->dev, type, KILN_SHAPE(5, 9), 0, 1)},
                    *g[2] = {NULL};
        static char want[2][252], got[2][252];
        const int64_t wrt[] = {0, 1};
        memset(want, 0, sizeof want);
        ok(kiln_grad(loss, NULL, in, 3, KILN_GRAD(.wrt = {2, wrt}), g, 2));
        for (int i = 0; i < 2; i++) bits(g[i], want[i]);
        for (kiln_level level = KILN_LEVEL_PASSES; level <= KILN_LEVEL_AS_IS; level++)
            for (int k = 0; k < 3; k++) {
                kiln_function *j = kiln_jit(loss, NULL, KILN_JIT(.capture = all_captures[k], .level = level));
                for (int call = 0; call < 3; call++) {
                    memset(got, 0, sizeof got);
                    ok(kiln_grad(call_function, j, in, 3, KILN_GRAD(.wrt = {2, wrt}), g, 2));
                    for (int i = 0; i < 2; i++) bits(g[i], got[i]);
                    assert_memory_equal(got, want, sizeof got);
                }
                kiln_function_free(&j);
            }
    }
}

// --- .eager_rounding ---

static kiln_status halves(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_mul(kiln_add(in[0], kiln_scalar(0.1)), in[0]);
    for (int i = 0; i < 4; i++) y = kiln_sub(kiln_mul(y, kiln_scalar(1.37)), in[0]);
    out[0] = kiln_exp(kiln_neg(kiln_abs(y)));
    return kiln_error();
}

// How many of the elements differ from those of eager mode.
static int count_different(struct fixture *f, kiln_dtype type, kiln_capture capture, bool eager_rounding)
{
    enum { N = 4096 };
    static uint16_t want[N], got[N];
    kiln_tensor *x = kiln_normal(f->dev, type, KILN_SHAPE(N), 0, 1), *out = NULL;
    ok(halves(NULL, &x, 1, &out, 1));
    bits(out, want);
    kiln_function *j = kiln_jit(halves, NULL, KILN_JIT(.capture = capture, .eager_rounding = eager_rounding));
    for (int i = 0; i < 3; i++) ok(kiln_call(j, &x, 1, &out, 1));
    bits(out, got);
    kiln_function_free(&j);
    int n = 0;
    for (int i = 0; i < N; i++) n += got[i] != want[i];
    return n;
}

static void roundings_of_eager_mode(void **state)
{
    struct fixture *f = *state;
    const kiln_dtype types[] = {KILN_F16, KILN_BF16};
    bool compiled = fuses(f);
    ok(kiln_seed(f->dev, 5));
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++) {
            int without = count_different(f, types[i], all_captures[k], false);
            if (compiled) assert_true(without > 100); // else there is nothing to show
            assert_int_equal(count_different(f, types[i], all_captures[k], true), 0);
        }
}

// --- .deterministic ---

static kiln_status asked_after_break(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    TRY_(halves(NULL, in, 1, out, 1));
    if (kiln_item(kiln_sum(kiln_cast(in[0], KILN_F32), NULL)) > 1e9) out[0] = in[0];
    return kiln_error();
}

static bool gives_same_bits(struct fixture *f, kiln_fn fn, kiln_jit_opts o)
{
    enum { N = 4096 };
    static uint16_t first[N], got[N];
    bool same_bits = true;
    kiln_tensor *x = kiln_normal(f->dev, KILN_F16, KILN_SHAPE(N), 0, 1), *out = NULL;
    kiln_function *j = kiln_jit(fn, NULL, &o);
    for (int i = 0; i < 5; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        bits(out, i ? got : first);
        same_bits &= !i || !memcmp(got, first, sizeof got);
    }
    kiln_function_free(&j);
    return same_bits;
}

static void walks_give_the_same_bits(void **state)
{
    struct fixture *f = *state;
    kiln_jit_opts o = {.size = sizeof o, .capture = KILN_CAPTURE_AUTO};
    ok(kiln_seed(f->dev, 5));
    if (fuses(f)) assert_false(gives_same_bits(f, asked_after_break, o));
    o.deterministic = true;
    assert_true(gives_same_bits(f, asked_after_break, o));
}

// A call beyond the limit runs as the one that was captured for its shape would have run.
static void limits_do_not_change_bits(void **state)
{
    struct fixture *f = *state;
    kiln_function *j =
        kiln_jit(halves, NULL, KILN_JIT(.deterministic = true, .recompile_limit = 1, .cache_entries = 1));
    static uint16_t first[5][8], got[8];
    ok(kiln_seed(f->dev, 5));
    kiln_tensor *x[5], *out = NULL;
    for (int64_t i = 0; i < 5; i++) x[i] = kiln_normal(f->dev, KILN_F16, KILN_SHAPE(i + 1), 0, 1);
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < 5; i++) {
            ok(kiln_call(j, &x[i], 1, &out, 1));
            bits(out, turn ? got : first[i]);
            if (turn) assert_memory_equal(got, first[i], 2 * (size_t)(i + 1));
        }
    kiln_jit_stats s = stats_of(j);
    assert_int_equal(s.fallbacks, 0);
    assert_int_equal(s.captures, 10);
    kiln_function_free(&j);
}

static kiln_status scaled(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    out[0] = kiln_sum(kiln_exp(kiln_mul(in[0], in[1])), NULL);
    return kiln_error();
}

// A number is taken at run time from the first call on: no value has a program of its own.
static void numbers_have_one_program(void **state)
{
    struct fixture *f = *state;
    int runs = 0;
    kiln_function *j = kiln_jit(scaled, &runs, KILN_JIT(.deterministic = true));
    for (int i = 0; i < 6; i++) {
        kiln_tensor *in[] = {vec(f, 2, 0, 1), kiln_scalar(i % 3)}, *out = NULL;
        ok(kiln_call(j, in, 2, &out, 1));
        expect(out, 1, 1 + exp(i % 3));
    }
    assert_int_equal(runs, 1);
    kiln_function_free(&j);
}

// --- .fullgraph ---

struct reader {
    int line;
    bool forgives;
    kiln_tensor *state;
};

static kiln_status reads(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct reader *r = user;
    TRY_(kiln_add_(r->state, kiln_scalar(1)));
    kiln_tensor *norm = kiln_sum(kiln_square(in[0]), NULL);
    out[0] = kiln_neg(in[0]);
    r->line = __LINE__ + 1;
    double v = kiln_item(norm);
    if (r->forgives) kiln_error_clear();
    if (v > 1000) out[0] = in[0];
    return kiln_error();
}

static void a_break_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct reader r = {.state = vec(f, 1, 0)};
    ok(kiln_state(r.state));
    kiln_tensor *x = vec(f, 2, 1, 2), *out = NULL;
    kiln_function *j = kiln_jit(reads, &r, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .fullgraph = true));
    for (int i = 1; i < 4; i++) {
        char line[32];
        kiln_status status = kiln_call(j, &x, 1, &out, 1);
        snprintf(line, sizeof line, "(options.c:%d)", r.line);
        assert_non_null(strstr(kiln_error_message(), line));
        assert_non_null(strstr(kiln_error_message(), "the graph of the function at options.c:"));
        fails(status, KILN_E_STATE, "breaks here, which .fullgraph does not allow: read of f32[], made by sum");
        assert_null(out);
        expect(r.state, 1, (double)i); // what came before has happened
        assert_int_equal(stats_of(j).breaks, 0);
    }
    r.forgives = true; // the graph goes on
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        expect(out, 2, -1., -2.);
    }
    kiln_function_free(&j);
}

static kiln_status whole(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    out[0] = in[0];
    for (int i = 0; i < 3000; i++) out[0] = kiln_add(out[0], in[1]);
    return kiln_error();
}

// Long ones are cut otherwise; this one is one graph or none.
static void whole_graphs_are_not_cut(void **state)
{
    struct fixture *f = *state;
    int runs = 0;
    kiln_tensor *in[] = {vec(f, 2, 1, 2), vec(f, 2, 1, 0)}, *out = NULL;
    for (int full = 0; full < 2; full++) {
        kiln_function *j = kiln_jit(
            whole, &runs, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .fullgraph = full, .level = KILN_LEVEL_AS_IS));
        for (int i = 0; i < 2; i++) ok(kiln_call(j, in, 2, &out, 1));
        expect(out, 2, 3001., 2.);
        assert_int_equal(stats_of(j).breaks > 0, !full);
        if (full) assert_int_equal(stats_of(j).nodes, 3000);
        kiln_function_free(&j);
    }
    assert_int_equal(runs, 4);
}

static kiln_status grows(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = in[0];
    for (int i = 0; i < *(int *)user; i++) out[0] = kiln_add(out[0], in[0]);
    return kiln_error();
}

// Nor do they run op by op without a word.
static void whole_graphs_have_a_limit_too(void **state)
{
    struct fixture *f = *state;
    int n = 0, n_refused = 0;
    kiln_tensor *x = vec(f, 1, 1), *out = NULL;
    kiln_function *j =
        kiln_jit(grows, &n, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .fullgraph = true, .recompile_limit = 3));
    for (n = 1; n < 12; n++) {
        kiln_status status = kiln_call(j, &x, 1, &out, 1);
        if (status)
            fails(status, KILN_E_STATE, "recompile limit; more are not, which .fullgraph does not allow");
        else
            expect(out, 1, n + 1.);
        assert_int_equal(status != KILN_OK, n > 5);
        n_refused += status != KILN_OK;
    }
    assert_int_equal(n_refused, 6);
    n = 2; // one that is known
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(out, 1, 3.);
    assert_int_equal(stats_of(j).fallbacks, 0);
    kiln_function_free(&j);
}

static void results_and_captures_inside_are_no_breaks(void **state)
{
    struct fixture *f = *state;
    kiln_function *inner = kiln_jit(chain, NULL, NULL),
                  *j = kiln_jit(call_function, inner, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .fullgraph = true));
    kiln_tensor *p = kiln_parameter(vec(f, 2, 1, 2), "p"), *in[] = {p, vec(f, 2, 0, 1)}, *out = NULL;
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, in, 2, &out, 1));
        expect(out, 2, 0.7, exp(2) - 0.3f);
        ok(kiln_backward(kiln_sum(out, NULL), NULL));
    }
    kiln_function_free(&j);
    kiln_function_free(&inner);
}

// --- .max_nodes, and loops that are unrolled ---

static kiln_status many(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = in[0];
    for (int i = *(int *)user; i > 0; i--) out[0] = kiln_add(out[0], in[1]);
    return kiln_error();
}

static void graphs_have_a_bound(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 1, 1), vec(f, 1, 1)}, *out = NULL;
    const kiln_jit_opts ways[] = {
        {.size = sizeof *ways, .max_nodes = 100},
        {.size = sizeof *ways, .max_nodes = 100, .capture = KILN_CAPTURE_TRACE},
        {.size = sizeof *ways, .max_nodes = 100, .capture = KILN_CAPTURE_AUTO, .fullgraph = true}};
    for (int k = 0; k < 3; k++) {
        int n = 101;
        kiln_function *j = kiln_jit(many, &n, &ways[k]);
        for (int i = 0; i < 3; i++) {
            kiln_status status = kiln_call(j, in, 2, &out, 1);
            assert_non_null(strstr(kiln_error_message(), "(options.c:"));
            fails(status, KILN_E_STATE, "has more than 100 ops, its .max_nodes; loops in C are unrolled, see kiln_for");
        }
        n = 100;
        ok(kiln_call(j, in, 2, &out, 1));
        expect(out, 1, 101.);
        kiln_function_free(&j);
    }
    int n = 1000; // AUTO: graphs of so many
    kiln_function *j = kiln_jit(many, &n, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .max_nodes = 100));
    for (int i = 0; i < 3; i++) ok(kiln_call(j, in, 2, &out, 1));
    expect(out, 1, 1001.);
    assert_true(stats_of(j).breaks >= 27);
    assert_true(stats_of(j).nodes <= 100);
    kiln_function_free(&j);
}

// More buffers than 16 bits count, each of which a later op reads.
static void graphs_may_be_long(void **state)
{
    struct fixture *f = *state;
    if (strcmp(jit_device, "cpu") != 0) return; // the same code, by the hour
    int n = 66000;
    kiln_tensor *in[] = {vec(f, 2, 1, 0), vec(f, 2, 1, 0.5)}, *out = NULL;
    kiln_function *j = kiln_jit(many, &n, KILN_JIT(.level = KILN_LEVEL_AS_IS));
    for (int i = 0; i < 2; i++) ok(kiln_call(j, in, 2, &out, 1));
    expect(out, 2, 66001., 33000.);
    assert_int_equal(stats_of(j).nodes, 66000);
    kiln_function_free(&j);
}

static kiln_status one_more(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(in[1], in[2]); // the number of the trip comes first
    out[1] = kiln_neg(kiln_neg(in[2]));
    return kiln_error();
}

static kiln_status rolled(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *two[2] = {NULL};
    TRY_(kiln_for(kiln_scalar_int(*(int *)user), one_more, NULL, in, 2, NULL, two, 2));
    out[0] = two[0];
    return kiln_error();
}

static void regions_count(void **state)
{
    struct fixture *f = *state;
    int n = 5000;
    kiln_tensor *in[] = {vec(f, 1, 1), vec(f, 1, 1)}, *out = NULL;
    kiln_function *j = kiln_jit(rolled, &n, KILN_JIT(.max_nodes = 4));
    ok(kiln_call(j, in, 2, &out, 1));
    expect(out, 1, 5001.);
    kiln_function_free(&j);
    j = kiln_jit(rolled, &n, KILN_JIT(.max_nodes = 2));
    fails(kiln_call(j, in, 2, &out, 1), KILN_E_STATE, "has more than 2 ops");
    kiln_function_free(&j);
}

static int count_said(const char *part)
{
    int n = 0;
    for (const char *p = said; (p = strstr(p, part)); p++) n++;
    return n;
}

static kiln_status two_lines(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = in[0];
    for (int i = 0; i < 1500; i++) out[0] = kiln_add(kiln_mul(out[0], in[1]), in[0]);
    for (int i = 0; i < 1999; i++) out[0] = kiln_neg(out[0]);
    return kiln_error();
}

static void one_warning_of_unrolled_loops(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 1, 1), vec(f, 1, 1)}, *out = NULL;
    kiln_function *j = kiln_jit(two_lines, NULL, KILN_JIT(.level = KILN_LEVEL_AS_IS));
    for (int i = 0; i < 2; i++) ok(kiln_call(j, in, 2, &out, 1));
    assert_int_equal(count_said("unrolled: "), 1);
    assert_int_equal(count_said("unrolled: 3000 ops of the function at options.c:"), 1);
    assert_int_equal(count_said(" a loop in C becomes as many ops as it makes, see kiln_for"), 1);
    kiln_function_free(&j);
    const int counts[] = {2000, 2001};
    for (int k = 0; k < 2; k++) {
        int n = counts[k];
        kiln_set_log(listen, NULL);
        said[0] = '\0';
        j = kiln_jit(many, &n, KILN_JIT(.level = KILN_LEVEL_AS_IS));
        ok(kiln_call(j, in, 2, &out, 1));
        assert_int_equal(count_said("unrolled: "), k);
        kiln_function_free(&j);
    }
}

// Long training steps are left alone: what gradients and optimisers make stands on one line each.
struct deep {
    kiln_tensor *w[300];
    kiln_optim *optim;
    int depth;
};

static kiln_tensor *layer(kiln_tensor *x, kiln_tensor *w, int i)
{
    switch (i % 8) {
    case 0: return kiln_tanh(kiln_mul(x, w));
    case 1: return kiln_add(x, w);
    case 2: return kiln_sub(x, w);
    case 3: return kiln_maximum(x, w);
    case 4: return kiln_sigmoid(kiln_add(x, w));
    case 5: return kiln_minimum(x, w);
    case 6: return kiln_sin(kiln_mul(w, x));
    default: return kiln_cos(kiln_sub(w, x));
    }
}

static kiln_status train(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct deep *d = user;
    kiln_tensor *x = in[0];
    for (int i = 0; i < d->depth; i++) x = layer(x, d->w[i % 200], i);
    out[0] = kiln_sum(x, NULL);
    TRY_(kiln_optim_zero_grad(d->optim));
    TRY_(kiln_backward(out[0], NULL));
    return kiln_optim_step(d->optim);
}

static void training_steps_are_left_alone(void **state)
{
    struct fixture *f = *state;
    struct deep d = {.depth = 1500};
    for (int i = 0; i < 200; i++) d.w[i] = kiln_parameter(vec(f, 1, 1), "w");
    d.optim = kiln_optim_adam(d.w, 200, NULL);
    kiln_function *j = kiln_jit(train, &d, KILN_JIT(.level = KILN_LEVEL_AS_IS));
    kiln_tensor *x = vec(f, 1, 1), *out = NULL;
    ok(kiln_call(j, &x, 1, &out, 1));
    assert_true(stats_of(j).nodes > 5000);
    if (*said) fail_msg("%s", said);
    kiln_function_free(&j);
    kiln_optim_free(&d.optim);
}

// --- bad values ---

static void refused(kiln_jit_opts o, const char *part)
{
    o.size = sizeof o;
    assert_null(kiln_jit(chain, NULL, &o));
    fails(kiln_error(), KILN_E_ARGUMENT, part);
}

static void bad_values(void **state)
{
    refused((kiln_jit_opts){.level = (kiln_level)3}, "jit: .level 3 is not one of kiln_level");
    refused((kiln_jit_opts){.level = (kiln_level)-1}, "jit: .level -1 is not one of kiln_level");
    refused((kiln_jit_opts){.deterministic = true, .background = true}, "jit: .deterministic and .background");
    refused((kiln_jit_opts){.loop_unrolling = UINT64_MAX}, "jit: .loop_unrolling 18446744073709551615 is more than");
    refused((kiln_jit_opts){.fullgraph = true, .loop_unrolling = 4}, "jit: .fullgraph and .loop_unrolling 4");
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {TEST(levels),
                                       TEST(levels_without_fusion_give_eager_bits),
                                       TEST(roundings_of_eager_mode),
                                       TEST(walks_give_the_same_bits),
                                       TEST(limits_do_not_change_bits),
                                       TEST(numbers_have_one_program),
                                       TEST(a_break_is_an_error),
                                       TEST(whole_graphs_are_not_cut),
                                       TEST(whole_graphs_have_a_limit_too),
                                       TEST(results_and_captures_inside_are_no_breaks),
                                       TEST(graphs_have_a_bound),
                                       TEST(graphs_may_be_long),
                                       TEST(regions_count),
                                       TEST(one_warning_of_unrolled_loops),
                                       TEST(training_steps_are_left_alone),
                                       TEST(bad_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
