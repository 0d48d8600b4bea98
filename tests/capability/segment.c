// Rows 37 to 41: what becomes of a captured graph: its optimisation, errors, loops, what it takes and gives, effects.
#include "capability.h"

static uint64_t launches_of(kiln_device *dev)
{
    return stats_of(dev).launches;
}

static const kiln_capture all_captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE};

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, part)); p++) n++;
    return n;
}

// --- 37: conditions that are constant are decided, ops that change nothing go, functions and cells inside are inlined

static kiln_status mostly_nothing(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_device *dev = kiln_tensor_device(in[0]);
    kiln_tensor *table = from(dev, NUMBERS(1, 2, 3), KILN_SHAPE(3)), *yes = kiln_full(dev, KILN_BOOL, KILN_SHAPE(3), 1);
    kiln_tensor *a = kiln_where(yes, in[0], kiln_exp(kiln_sin(in[1])));
    if (kiln_is_capturing()) // in a capture a constant is read without a break
        a = kiln_item(kiln_sum(table, NULL)) > 5 ? kiln_tanh(a) : kiln_log(a);
    else
        a = kiln_tanh(a);
    a = kiln_transpose(kiln_transpose(kiln_mul(kiln_neg(kiln_neg(a)), kiln_scalar(1)), 0, 0), 0, 0);
    out[0] = kiln_contiguous(kiln_reshape(kiln_cast(a, KILN_F32), KILN_SHAPE(3)));
    return kiln_error();
}

static void is_pruned(kiln_device *dev)
{
    kiln_tensor *in[] = {from(dev, NUMBERS(0.25, 0.5, -1), KILN_SHAPE(3)), kiln_ones(dev, KILN_F32, KILN_SHAPE(3))};
    for (int k = 0; k < 3; k++) {
        kiln_function *f = kiln_jit(mostly_nothing, NULL, KILN_JIT(.capture = all_captures[k]));
        kiln_tensor *out = NULL;
        uint64_t before = 0;
        for (int i = 0; i < 3; i++) {
            before = launches_of(dev);
            must(kiln_call(f, in, 2, &out, 1));
            EXPECT(out, 1e-6, 0.244918662, 0.462117157, -0.761594156);
        }
        char *text = explanation_of(f);
        // A single op is left, which runs as its precompiled kernel; what the test casts and reads is not counted.
        if (count_of(text, "op tanh\n") != 1 || count_of(text, "exp") || count_of(text, "where") ||
            count_of(text, "log"))
            fail_msg("%s", text);
        assert_int_equal(launches_of(dev) - before, 1 + 1);
        assert_int_equal(jit_stats_of(f).breaks, 0);
        free(text);
        kiln_function_free(&f);
    }
}

struct nest {
    kiln_cell *net;
    kiln_function *inner[3];
};

static kiln_status square_less_one(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sub(kiln_square(in[0]), kiln_scalar(1));
    return kiln_error();
}

static kiln_status calls_all(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct nest *n = user;
    kiln_tensor *t = in[0], *next = NULL;
    for (int i = 0; i < 3; i++, t = next)
        if (kiln_call(n->inner[i], &t, 1, &next, 1)) return kiln_error();
    out[0] = kiln_cell_call(n->net, t);
    return kiln_error();
}

static void is_inlined(kiln_device *dev)
{
    struct nest n = {kiln_nn_sequential(KILN_CELLS(kiln_nn_relu(), kiln_nn_sequential(KILN_CELLS(kiln_nn_tanh()))))};
    for (int i = 0; i < 3; i++) n.inner[i] = kiln_jit(square_less_one, NULL, KILN_JIT(.capture = all_captures[i]));
    must(kiln_cell_jit(kiln_cell_child(n.net, "1"), NULL));
    for (int k = 0; k < 3; k++) {
        kiln_function *f = kiln_jit(calls_all, &n, KILN_JIT(.capture = all_captures[k]));
        kiln_tensor *x = from(dev, NUMBERS(0.5, 2), KILN_SHAPE(2)), *out = NULL;
        for (int i = 0; i < 3; i++) {
            uint64_t before = launches_of(dev);
            must(kiln_call(f, &x, 1, &out, 1));
            assert_int_equal(launches_of(dev) - before, fuses(dev) ? 1 : 8);
            EXPECT(out, 1e-6, 0, 1);
        }
        assert_int_equal(jit_stats_of(f).programs, 1);
        assert_int_equal(jit_stats_of(f).captures, 1);
        kiln_function_free(&f);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(jit_stats_of(n.inner[i]).calls, 0);
        kiln_function_free(&n.inner[i]);
    }
    kiln_cell_free(&n.net);
}

void capability_37(void **state)
{
    on_each_device(is_pruned);
    on_each_device(is_inlined);
}

// --- 38: errors inside: what came before them has happened, once; what handles them goes on; the capture stays usable

struct careful {
    kiln_tensor *log; // state
    FILE *file;
    bool handle;
};

static kiln_status may_fail(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct careful *c = user;
    kiln_scope *scope = kiln_scope_begin();
    kiln_add_(c->log, kiln_scalar(1));
    kiln_print(c->log, c->file);
    kiln_tensor *product = kiln_matmul(in[0], in[1]);
    if (!product && !c->handle) return kiln_error(); // with the scope open
    if (!product) {
        kiln_error_clear();
        kiln_mul_(c->log, kiln_scalar(10));
        product = kiln_matmul(in[0], kiln_transpose(in[1], 0, 1));
    }
    kiln_add_(c->log, kiln_scalar(0.5));
    out[0] = kiln_keep(kiln_neg(product));
    kiln_scope_end(&scope);
    return kiln_error();
}

static void errors_inside(kiln_device *dev)
{
    char *text = NULL;
    size_t size;
    struct careful c = {kiln_zeros(dev, KILN_F32, KILN_SHAPE(1)), open_memstream(&text, &size), false};
    kiln_tensor *a = kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 2)), *b = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 1));
    kiln_tensor *good[] = {a, b}, *bad[] = {a, a}, *out = NULL;
    kiln_function *f = automatic(may_fail, &c);
    for (int i = 0; i < 3; i++) {
        must(kiln_assign(c.log, kiln_scalar(0)));
        must(kiln_call(f, good, 2, &out, 1));
        EXPECT(out, 0, -2);
        EXPECT(c.log, 0, 1.5);
        uint64_t before = launches_of(dev);
        assert_int_equal(kiln_call(f, bad, 2, &out, 1), KILN_E_SHAPE);
        assert_true(launches_of(dev) > before); // what came before has run when the error is reported
        assert_null(out);
        EXPECT_ERROR(KILN_E_SHAPE, "matmul", "(segment.c:");
        EXPECT(c.log, 0, 2.5);
        c.handle = true;
        must(kiln_call(f, bad, 2, &out, 1));
        EXPECT(out, 0, -2);
        EXPECT(c.log, 0, 35.5);
        c.handle = false;
    }
    fclose(c.file);
    assert_string_equal(text, "[1.]\n[2.5]\n[3.5]\n[1.]\n[2.5]\n[3.5]\n[1.]\n[2.5]\n[3.5]\n");
    free(text);
    assert_int_equal(jit_stats_of(f).fallbacks, 0);
    kiln_function_free(&f);
}

static kiln_status fails_late(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const bool *limited = user;
    kiln_device *dev = kiln_tensor_device(in[0]);
    kiln_add_(in[0], kiln_scalar(1));
    double seen = kiln_item(kiln_select(in[0], 0, 0));
    if (*limited) kiln_device_set_memory_limit(dev, 1 << 20);
    out[0] = kiln_exp(kiln_expand(kiln_mul(in[0], kiln_scalar(seen)), KILN_SHAPE(*limited ? 1 << 20 : 2, 2)));
    return kiln_error();
}

static kiln_status region_fails(kiln_device *dev, kiln_tensor *w)
{
    KILN_CAPTURE(dev)
    {
        if (kiln_add_(w, kiln_scalar(1))) return kiln_error();
        if (!kiln_matmul(w, w)) return kiln_error();
        if (kiln_add_(w, kiln_scalar(100))) return kiln_error();
    }
    return kiln_error();
}

static void errors_late(kiln_device *dev)
{
    bool limited = false;
    kiln_tensor *x = kiln_zeros(dev, KILN_F32, KILN_SHAPE(2)), *out = NULL;
    kiln_function *f = automatic(fails_late, &limited);
    for (int i = 0; i < 3; i++) {
        limited = i == 1;
        kiln_status status = kiln_call(f, &x, 1, &out, 1);
        assert_int_equal(status, limited ? KILN_E_DEVICE_MEMORY : KILN_OK);
        if (limited) EXPECT_ERROR(KILN_E_DEVICE_MEMORY, "memory");
        must(kiln_device_set_memory_limit(dev, 0));
        EXPECT(x, 0, i + 1, i + 1);
        if (!limited) EXPECT(kiln_log(kiln_select(out, 0, 1)), 1e-5, (i + 1) * (i + 1), (i + 1) * (i + 1));
    }
    kiln_function_free(&f);
    kiln_tensor *w = kiln_zeros(dev, KILN_F32, KILN_SHAPE(2, 3));
    for (int i = 1; i < 4; i++) {
        assert_int_equal(region_fails(dev, w), KILN_E_SHAPE);
        EXPECT_ERROR(KILN_E_SHAPE, "matmul");
        EXPECT(kiln_max(w, NULL), 0, i);
    }
}

// An op that fails for what its index holds, on the CPU; on a GPU it does not fail, and what follows is the other way.
struct picker {
    kiln_tensor *log;
    bool handle;
    int failures;
};

static kiln_status picks(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct picker *p = user;
    kiln_tensor *x = kiln_tanh(kiln_mul(in[0], kiln_scalar(2)));
    kiln_add_(p->log, kiln_scalar(1));
    // The place is computed on the way.
    kiln_tensor *row = kiln_take(x, 0, kiln_mul(in[1], kiln_scalar_int(2)));
    if (!row && !p->handle) return kiln_error();
    if (!row) {
        p->failures++;
        kiln_error_clear();
        kiln_mul_(p->log, kiln_scalar(10));
        row = kiln_take(x, 0, in[1]);
    }
    kiln_add_(p->log, kiln_scalar(0.5));
    out[0] = kiln_neg(row);
    return kiln_error();
}

static void errors_of_values(kiln_device *dev)
{
    kiln_tensor *x = from(dev, NUMBERS(1, 2, 3), KILN_SHAPE(3));
    struct picker eager = {kiln_zeros(dev, KILN_F32, KILN_SHAPE(1))},
                  captured = {kiln_zeros(dev, KILN_F32, KILN_SHAPE(1))};
    kiln_function *f = automatic(picks, &captured);
    for (int i = 0; i < 12; i++) { // the second and the third place are no good
        const int64_t place = i % 3;
        kiln_tensor *in[] = {x, kiln_from_data(dev, KILN_I64, 1, (int64_t[]){1}, &place)}, *want = NULL, *got = NULL;
        eager.handle = captured.handle = i % 2;
        kiln_status status = picks(&eager, in, 2, &want, 1);
        char message[200];
        snprintf(message, sizeof message, "%.*s", (int)strcspn(kiln_error_message(), "("), kiln_error_message());
        kiln_error_clear();
        assert_int_equal(status, dev == cpu() && place == 2 && !eager.handle ? KILN_E_ARGUMENT : KILN_OK);
        assert_int_equal(kiln_call(f, in, 2, &got, 1), status);
        if (status)
            EXPECT_ERROR(status, message, "take: index 4 is out of range for an axis of 3 elements (segment.c:");
        else
            expect_same(got, want, "a result");
        expect_same(captured.log, eager.log, "what was written before and after");
        assert_int_equal(captured.failures, eager.failures);
    }
    assert_int_equal(captured.failures, dev == cpu() ? 2 : 0);
    kiln_function_free(&f);
}

void capability_38(void **state)
{
    on_each_device(errors_inside);
    on_each_device(errors_of_values);
    on_each_device(errors_late);
}

// --- 39: loops are captured, or split where they read; what repeats is compiled once; .loop_unrolling bounds the
// copies

struct loop {
    int n;
    bool reads;
};

static kiln_status loop(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct loop *l = user;
    kiln_tensor *x = in[0];
    for (int i = 0; i < l->n; i++) {
        // Two negations cancel out where the graph is optimised, and are part of what repeats.
        x = kiln_neg(kiln_neg(kiln_sub(kiln_add(x, in[1]), in[2])));
        if (l->reads && kiln_item(kiln_max(x, NULL)) > 1000) break;
    }
    out[0] = kiln_neg(x);
    return kiln_error();
}

// The statistics after three calls; what one call launches goes to *launches. `part`: of the explanation.
static kiln_jit_stats run_loop(kiln_device *dev, struct loop l, const kiln_jit_opts *o, uint64_t *launches,
                               const char *part)
{
    kiln_tensor *in[] = {from(dev, NUMBERS(0, 1), KILN_SHAPE(2)), from(dev, NUMBERS(3, 3), KILN_SHAPE(2)),
                         from(dev, NUMBERS(1, 2), KILN_SHAPE(2))};
    kiln_tensor *out = NULL;
    kiln_function *f = kiln_jit(loop, &l, o);
    for (int i = 0; i < 3; i++) {
        uint64_t before = launches_of(dev);
        must(kiln_call(f, in, 3, &out, 1));
        *launches = launches_of(dev) - before;
        EXPECT(out, 0, -2 * l.n, -1 - l.n);
    }
    kiln_jit_stats s = jit_stats_of(f);
    assert_int_equal(s.captures, 1);
    char *text = explanation_of(f);
    if (part && !strstr(text, part)) fail_msg("no \"%s\" in %s", part, text);
    free(text);
    kiln_function_free(&f);
    return s;
}

static void loops(kiln_device *dev)
{
    uint64_t launches;
    for (int k = 0; k < 3; k++) { // whole
        kiln_jit_stats s =
            run_loop(dev, (struct loop){10, false}, KILN_JIT(.capture = all_captures[k]), &launches, "41 ops in ");
        assert_int_equal(s.breaks, 0);
        assert_int_equal(s.programs, 1);
        assert_int_equal(launches, fuses(dev) ? 1 : 21);
    }
    for (int n = 20; n <= 60; n += 20) { // split: each repetition is the same program
        kiln_jit_stats s =
            run_loop(dev, (struct loop){n, true}, KILN_JIT(.capture = KILN_CAPTURE_AUTO), &launches, NULL);
        assert_int_equal(s.breaks, 3 * n);
        assert_true(s.programs <= 4);
        assert_int_equal(launches, fuses(dev) ? n + 1 : 3 * n + 1);
    }
    // So many copies are one body, which is compiled once, however long the loop is.
    for (int copies = 4; copies <= 8; copies += 4) {
        kiln_jit_stats s[2];
        char body[32];
        snprintf(body, sizeof body, ": %d ops in ", 4 * copies);
        for (int k = 0; k < 2; k++) {
            int n = k ? 320 : 160;
            s[k] =
                run_loop(dev, (struct loop){n, false},
                         KILN_JIT(.capture = KILN_CAPTURE_AUTO, .loop_unrolling = (uint64_t)copies), &launches, body);
            assert_int_equal(s[k].breaks, 3 * n / copies);
            if (fuses(dev)) assert_int_equal(launches, n / copies + 1);
        }
        assert_true(s[0].programs <= 3); // the body, and what comes after the last one
        assert_int_equal(s[1].programs, s[0].programs);
    }
}

void capability_39(void **state)
{
    on_each_device(loops);
}

// --- 40: what a graph takes and gives: no input that nothing reads, no output that nobody holds, numbers stay numbers

enum { LARGE = 1 << 16 };

static kiln_status takes_three(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_exp(kiln_mul(in[0], in[2]));
    out[0] = kiln_sub(kiln_tanh(y), kiln_square(y));
    out[1] = kiln_scalar(3);
    out[2] = in[2];
    return kiln_error();
}

static void interface(kiln_device *dev)
{
    kiln_tensor *x = kiln_full(dev, KILN_F32, KILN_SHAPE(LARGE), 0.5), *out[3];
    kiln_tensor *in[] = {x, kiln_ones(dev, KILN_F32, KILN_SHAPE(7)), kiln_full(dev, KILN_F32, KILN_SHAPE(LARGE), 0)};
    for (int k = 0; k < 3; k++) {
        kiln_function *f = kiln_jit(takes_three, NULL, KILN_JIT(.capture = all_captures[k]));
        for (int i = 0; i < 2; i++) {
            must(kiln_call(f, in, 3, out, 3));
            kiln_device_reset_stats(dev);
            kiln_device_stats before = stats_of(dev);
            must(kiln_call(f, in, 3, out, 3));
            kiln_device_stats after = stats_of(dev);
            // The one result, and nothing on the way to it.
            if (fuses(dev)) assert_int_equal(after.launches - before.launches, 1);
            if (fuses(dev)) assert_int_equal(after.heap_peak_B - before.heap_used_B, LARGE * sizeof(float));
            assert_int_equal(after.tensors - before.tensors, 1);
            assert_true(kiln_is_view_of(out[2], in[2])); // not a copy
            assert_null(kiln_tensor_device(out[1]));     // on the host
            assert_true(kiln_item(out[1]) == 3);
            EXPECT(kiln_select(out[0], 0, LARGE - 1), 1e-6, -0.238405844);
        }
        char *text = explanation_of(f);
        if (all_captures[k] != KILN_CAPTURE_AUTO) assert_non_null(strstr(text, "3 inputs (1 dropped, nothing reads"));
        if (fuses(dev)) {
            assert_int_equal(count_of(text, "\n      in "), 2);
            assert_int_equal(count_of(text, "\n      out "), 1);
        }
        free(text);
        kiln_function_free(&f);
    }
}

void capability_40(void **state)
{
    on_each_device(interface);
}

// --- 41: effects come in the order of the program: prints, writes through views, random draws, what the host does

struct effects {
    kiln_tensor *w; // state
    FILE *file;
    bool host; // writes to the file by itself, too
    int calls;
};

static kiln_status has_effects(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct effects *e = user;
    kiln_device *dev = kiln_tensor_device(in[0]);
    kiln_tensor *a = kiln_add(in[0], kiln_uniform(dev, KILN_F32, KILN_SHAPE(2), 0, 1));
    e->calls++;
    kiln_print(a, e->file);
    kiln_add_(e->w, a);
    if (e->host) fprintf(e->file, "call %d\n", e->calls);
    kiln_print(e->w, e->file);
    kiln_assign(kiln_narrow(e->w, 0, 0, 1), kiln_scalar(0.5));
    kiln_print(e->w, e->file);
    out[0] = kiln_mul(e->w, kiln_normal(dev, KILN_F32, KILN_SHAPE(2), 0, 1)); // before the next write
    kiln_mul_(e->w, kiln_scalar(2));
    if (e->host) fprintf(e->file, "end %d\n", e->calls);
    out[1] = kiln_neg(kiln_narrow(e->w, 0, 1, 1));
    return kiln_error();
}

enum { EFFECT_CALLS = 3 };

// The text, to be freed; results and state of all calls go to `seen`.
static char *run_effects(kiln_device *dev, const kiln_capture *capture, bool host, double seen[EFFECT_CALLS][5])
{
    char *text = NULL;
    size_t size;
    struct effects e = {kiln_ones(dev, KILN_F32, KILN_SHAPE(2)), open_memstream(&text, &size), host};
    kiln_tensor *x = from(dev, NUMBERS(1, 2), KILN_SHAPE(2)), *out[2];
    must(kiln_state(e.w));
    must(kiln_seed(dev, 11));
    kiln_function *f = capture ? kiln_jit(has_effects, &e, KILN_JIT(.capture = *capture)) : NULL;
    for (int i = 0; i < EFFECT_CALLS; i++) {
        must(f ? kiln_call(f, &x, 1, out, 2) : has_effects(&e, &x, 1, out, 2));
        kiln_tensor *all = kiln_cast(kiln_concat((kiln_tensor *[]){out[0], out[1], e.w}, 3, 0), KILN_F64);
        must(kiln_read(all, seen[i], sizeof seen[i]));
    }
    assert_int_equal(e.calls, capture && *capture != KILN_CAPTURE_AUTO ? 1 : EFFECT_CALLS);
    fclose(e.file);
    kiln_function_free(&f);
    return text;
}

static void effects_in_order(kiln_device *dev)
{
    for (int k = 0; k < 4; k++) { // AUTO once more, with effects of the host
        double want[EFFECT_CALLS][5], got[EFFECT_CALLS][5];
        char *eager = run_effects(dev, NULL, k == 3, want);
        char *captured = run_effects(dev, k == 3 ? &all_captures[1] : &all_captures[k], k == 3, got);
        assert_int_equal(count_of(eager, "\n"), EFFECT_CALLS * (k == 3 ? 5 : 3));
        assert_string_equal(captured, eager);
        for (int i = 0; i < EFFECT_CALLS; i++)
            for (int n = 0; n < 5; n++) assert_true(fabs(got[i][n] - want[i][n]) <= 1e-6 * (1 + fabs(want[i][n])));
        free(eager);
        free(captured);
    }
}

void capability_41(void **state)
{
    on_each_device(effects_in_order);
}
