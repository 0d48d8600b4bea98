// Rows 30, 31, 33 and 35: functions of which as much becomes graphs as can, with breaks where the host needs a value.
#include "capability.h"

#include <pthread.h>
#include <unistd.h>

static uint64_t launches_of(kiln_device *dev)
{
    return stats_of(dev).launches;
}

// --- 30: what STRICT refuses is a break, and what lies before and after it is a graph

static kiln_status two_parts(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *a = kiln_relu(kiln_add(kiln_mul(in[0], in[1]), kiln_scalar(1)));
    double scale = kiln_item(kiln_select(a, 0, 0)) > 4 ? -1 : 1;
    out[0] = kiln_square(kiln_sub(kiln_mul(a, kiln_scalar(scale)), in[0]));
    return kiln_error();
}

static void falls_back(kiln_device *dev)
{
    kiln_tensor *in[] = {from(dev, NUMBERS(1, 2, 3), KILN_SHAPE(3)), from(dev, NUMBERS(2, 3, -4), KILN_SHAPE(3))};
    kiln_tensor *large = from(dev, NUMBERS(2, 2, 3), KILN_SHAPE(3)), *out = NULL;
    kiln_function *strict = kiln_jit(two_parts, NULL, NULL), *f = automatic(two_parts, NULL);
    assert_int_equal(kiln_call(strict, in, 2, &out, 1), KILN_E_STATE);
    EXPECT_ERROR(KILN_E_STATE, "item: ", "KILN_CAPTURE_AUTO");
    for (int i = 0; i < 3; i++) {
        uint64_t before = launches_of(dev);
        must(kiln_call(f, in, 2, &out, 1));
        // Three ops, a read, three ops; the first part's values go on to the second.
        if (i && fuses(dev)) assert_int_equal(launches_of(dev) - before, 2);
        EXPECT(out, 1e-6, 4, 25, 9);
        must(kiln_call(f, (kiln_tensor *[]){large, in[1]}, 2, &out, 1)); // the other branch
        EXPECT(out, 1e-6, 49, 81, 9);
    }
    assert_int_equal(jit_stats_of(f).breaks, 6);
    assert_int_equal(jit_stats_of(f).captures, 2);
    assert_int_equal(jit_stats_of(f).fallbacks, 0);
    kiln_function_free(&strict);
    kiln_function_free(&f);
}

void capability_30(void **state)
{
    on_each_device(falls_back);
}

// --- 31: six steps. (1) All calls of a scope are seen, on its thread alone, however it is left; (2, 3) types without
// values, constants folded; (4) a graph of what is needed; (5) guards choose; (6) what is rarely used is recycled

static void *run_elsewhere(void *user)
{
    kiln_device *dev = user;
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *y = kiln_neg(kiln_ones(dev, KILN_F32, KILN_SHAPE(2)));
    kiln_scope_end(&scope);
    return y ? NULL : dev;
}

static int leave_region(kiln_device *dev, kiln_tensor *x, int way)
{
    for (int i = 0; i < 2; i++) {
        KILN_CAPTURE(dev)
        {
            uint64_t before = launches_of(dev);
            kiln_tensor *y = kiln_matmul(kiln_mul(x, kiln_scalar(2)), kiln_transpose(x, 0, 1));
            assert_int_equal(launches_of(dev), before); // recorded, not run
            assert_int_equal(kiln_dim(y, 0), 2);
            assert_int_equal(kiln_dim(y, 1), 2);
            assert_int_equal(kiln_tensor_dtype(y), KILN_F32);
            if (way == 0) break;
            if (way == 1) return 1;
            if (way == 2) goto out;
        }
    }
out:
    return way;
}

static void captures_scope(kiln_device *dev)
{
    kiln_tensor *x = from(dev, NUMBERS(1, 2, 3, 4, 5, 6), KILN_SHAPE(2, 3));
    for (int way = 0; way < 4; way++) {
        uint64_t before = launches_of(dev);
        assert_int_equal(leave_region(dev, x, way), way);
        assert_int_equal(launches_of(dev), before); // nothing was asked for
        EXPECT(kiln_neg(kiln_select(x, 0, 0)), 0, -1, -2, -3);
        assert_int_equal(launches_of(dev), before + 2); // eager again; the test's cast is the second
    }
    KILN_CAPTURE(dev)
    {
        pthread_t other;
        void *failed = dev;
        uint64_t before = launches_of(dev);
        assert_int_equal(pthread_create(&other, NULL, run_elsewhere, dev), 0);
        assert_int_equal(pthread_join(other, &failed), 0);
        assert_null(failed);
        assert_int_equal(launches_of(dev), before + 2);
    }
}

static kiln_status with_dead_code(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *dead = kiln_exp(kiln_matmul(in[0], kiln_transpose(in[0], 0, 1)));
    kiln_tensor *half = kiln_full(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(1), 0.5);
    out[0] = kiln_tanh(kiln_mul(in[0], kiln_add(half, half))); // a product by one
    return dead ? kiln_error() : KILN_E_INTERNAL;
}

static void chooses_graph(kiln_device *dev)
{
    kiln_function *f = automatic(with_dead_code, NULL);
    kiln_tensor *out = NULL, *in[3];
    for (int64_t i = 0; i < 3; i++) in[i] = kiln_full(dev, KILN_F32, KILN_SHAPE(i + 1, 2), 0.25 * (double)(i + 1));
    for (int i = 0; i < 9; i++) {
        uint64_t before = launches_of(dev);
        must(kiln_call(f, &in[i % 3], 1, &out, 1));
        // tanh alone: what nobody asks for and the product by one are no part of the graph.
        assert_int_equal(launches_of(dev) - before, 1);
        assert_true(fabs(kiln_item(kiln_max(out, NULL)) - tanh(0.25 * (i % 3 + 1))) < 1e-6);
    }
    char *text = explanation_of(f);
    assert_null(strstr(text, "mul"));
    assert_null(strstr(text, "exp"));
    free(text);
    kiln_jit_stats s = jit_stats_of(f);
    assert_int_equal(s.captures, 3);
    assert_int_equal(s.programs, 3);
    assert_int_equal(s.guard_misses, 2);
    kiln_function_free(&f);
}

// A shape in use all the time, among others that come once.
static void recycles(kiln_device *dev)
{
    const kiln_capture kinds[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO};
    for (int k = 0; k < 2; k++) {
        kiln_function *f = kiln_jit(with_dead_code, NULL, KILN_JIT(.capture = kinds[k], .cache_entries = 2));
        for (int64_t i = 0; i < 12; i++) {
            kiln_tensor *x = kiln_full(dev, KILN_F32, KILN_SHAPE(i % 2 ? i : 1, 2), 0.5), *out = NULL;
            must(kiln_call(f, &x, 1, &out, 1));
            EXPECT(kiln_max(out, NULL), 1e-6, 0.46211716);
        }
        kiln_jit_stats s = jit_stats_of(f);
        assert_int_equal(s.captures, 6); // 1 (twice the same), 3, 5 to 11: the one in use was never made again
        assert_true(s.programs <= 3 && s.evictions >= 3);
        kiln_function_free(&f);
    }
}

void capability_31(void **state)
{
    on_each_device(captures_scope);
    on_each_device(chooses_graph);
    on_each_device(recycles);
}

// --- 33: what is accelerated and what is not: breaks by reason, ops in graphs and beside them, time a segment

static kiln_status many_breaks(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_mul(kiln_add(in[0], kiln_scalar(1)), in[0]);
    for (int i = 0; i < 3; i++) y = kiln_mul(y, kiln_scalar(kiln_item(kiln_sum(y, NULL)) > 50 ? 0.5 : 2)); // a read
    out[0] = kiln_neg(kiln_masked_select(y, kiln_greater(y, kiln_scalar(10))));
    return kiln_error();
}

static kiln_status no_breaks(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_neg(kiln_mul(kiln_add(in[0], kiln_scalar(1)), in[0]));
    return kiln_error();
}

// How many spans of this category the profile has, each with a time.
static int count_spans(const char *path, const char *category)
{
    static char text[1 << 18];
    char wanted[64];
    int n = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t size = fread(text, 1, sizeof text - 1, f);
    text[size] = '\0';
    fclose(f);
    assert_true(size < sizeof text - 1);
    snprintf(wanted, sizeof wanted, "\"cat\": \"%s\"", category);
    for (const char *p = text; (p = strstr(p, wanted)); p++, n++) assert_non_null(strstr(p, "\"dur\": "));
    return n;
}

static void is_accounted_for(kiln_device *dev)
{
    char path[] = "/tmp/kiln-test-XXXXXX";
    kiln_tensor *x = from(dev, NUMBERS(1, 5, 7), KILN_SHAPE(3)), *out = NULL;
    kiln_function *f = automatic(many_breaks, NULL), *g = automatic(no_breaks, NULL);
    for (int i = 0; i < 3; i++) {
        must(kiln_call(f, &x, 1, &out, 1));
        EXPECT(out, 1e-6, -15, -28);
        must(kiln_call(g, &x, 1, &out, 1));
        EXPECT(out, 1e-6, -2, -30, -56);
    }
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    must(kiln_profile_begin(path));
    must(kiln_call(f, &x, 1, &out, 1));
    must(kiln_profile_end());
    assert_int_equal(count_spans(path, "break"), 4);
    assert_int_equal(count_spans(path, "segment"), 1); // the last one, to the end
    assert_int_equal(unlink(path), 0);
    kiln_jit_stats s = jit_stats_of(f), whole = jit_stats_of(g);
    // Of each call 3 + 2 + 2 + 5 + 8 ops are in graphs. The first one learns what is asked for after its breaks, where
    // no comparison made it known before.
    assert_int_equal(s.breaks, 16);
    assert_int_equal(s.graph_ops, 4 * 20);
    assert_int_equal(s.single_ops, 4);
    assert_int_equal(whole.graph_ops, 3 * 3);
    assert_int_equal(whole.single_ops + whole.breaks, 0);
    char *text = explanation_of(f);
    const char *const parts[] = {"breaks for read: 16\n", "80 ops in graphs, 4 by themselves\n", "programs 7,",
                                 "break: read of f32[], made by sum, which is 88, at break.c:", "end: of the scope"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i])) fail_msg("no \"%s\" in %s", parts[i], text);
    free(text);
    kiln_function_free(&f);
    kiln_function_free(&g);
}

void capability_33(void **state)
{
    on_each_device(is_accounted_for);
}

// --- 35: a function that was split stays correct: values, views and writes on both sides of each break

static int break_lines[2];

static kiln_status splits(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *w = user, *a = kiln_add(kiln_mul(in[0], in[1]), kiln_scalar(1)), *half = kiln_narrow(a, 0, 0, 2);
    break_lines[0] = __LINE__ + 1;
    if (kiln_item(kiln_max(a, NULL)) > 3) a = kiln_sub(a, in[1]);
    kiln_tensor *b = kiln_exp(kiln_neg(kiln_abs(a)));
    if (kiln_add_(kiln_select(w, 0, 1), b)) return kiln_error();
    break_lines[1] = __LINE__ + 1;
    int times = 1 + (int)kiln_item(kiln_sum(w, NULL)) % 3;
    for (int i = 0; i < times; i++) b = kiln_mul(b, a);
    if (kiln_mul_(kiln_select(w, 0, 0), b)) return kiln_error();
    out[0] = kiln_add(b, a);
    out[1] = kiln_square(half); // from before both breaks
    out[2] = kiln_select(w, 1, 3);
    return kiln_error();
}

static void expect_break_list(kiln_function *f)
{
    char *text = explanation_of(f), line[64];
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "at break.c:%d; ", break_lines[i]);
        const char *found = strstr(text, i ? "break: read of f32[], made by sum" : "break: read of f32[], made by max");
        if (!found || !strstr(found, line)) fail_msg("no break %s in %s", line, text);
    }
    free(text);
}

static void is_split(kiln_device *dev)
{
    const double rows[][4] = {{1, 2, 3, 4}, {0.5, -1, 0, 0.25}, {-3, 0, 2, 1}, {0.1, 0.2, 0.3, 0.4}};
    kiln_tensor *w = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 4)), *v = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 4));
    kiln_tensor *half = kiln_full(dev, KILN_F32, KILN_SHAPE(4), 0.5);
    kiln_function *f = automatic(splits, w);
    for (int i = 0; i < 12; i++) {
        kiln_tensor *in[] = {from(dev, rows[i % 4], KILN_SHAPE(4)), half}, *got[3] = {NULL}, *want[3] = {NULL};
        must(splits(v, in, 2, want, 3));
        must(kiln_call(f, in, 2, got, 3));
        for (int k = 0; k < 3; k++) expect_same(got[k], want[k], "a result");
        expect_same(w, v, "what was written");
        assert_true(kiln_is_view_of(got[2], w));
        assert_int_equal(kiln_tensor_version(w), kiln_tensor_version(v));
    }
    assert_int_equal(jit_stats_of(f).breaks, 2 * 12);
    assert_int_equal(jit_stats_of(f).fallbacks, 0);
    expect_break_list(f);
    kiln_function_free(&f);
}

void capability_35(void **state)
{
    on_each_device(is_split);
}
