// Rows 29, 34, 42, 43, 45, 47, 48 and 64: guards, constants, options, advice.
#include "captured.h"

#include <kiln/ops.h>
#include <unistd.h>

// --- 29: advice at run time: small functions, constants that change

static kiln_status repeat(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_tile(in[0], KILN_SHAPE(kiln_item_int(in[1])));
    return kiln_error();
}

static void advice(kiln_device *dev)
{
    kiln_tensor *x = make_pair(dev)[0], *out = NULL;
    listen_to_log();
    kiln_function *f = kiln_jit(repeat, NULL, KILN_JIT(.recompile_limit = 2));
    for (int i = 1; i < 6; i++) {
        kiln_tensor *in[] = {x, kiln_scalar_int(i)};
        must(kiln_call(f, in, 2, &out, 1));
        assert_int_equal(kiln_numel(out), 3 * i);
    }
    kiln_set_log(NULL, NULL);
    assert_non_null(strstr(warned, "tiny-graph: "));
    assert_non_null(strstr(warned, "recompile-const: "));
    assert_non_null(strstr(warned, "run eagerly"));
    kiln_function_free(&f);
}

void capability_29(void **state)
{
    on_each_device(advice);
}

// --- 34: a trace runs for real, then replays

static void trace(kiln_device *dev)
{
    kiln_tensor *x = make_pair(dev)[0], *y = kiln_neg(x), *out = NULL;
    kiln_function *f = kiln_jit(branch, NULL, KILN_JIT(.capture = KILN_CAPTURE_TRACE));
    must(kiln_call(f, &x, 1, &out, 1));
    EXPECT(out, 1e-6, -1, -2, -3);
    must(kiln_call(f, &y, 1, &out, 1)); // the branch of the first call
    EXPECT(out, 1e-6, 1, 2, 3);
    kiln_function_free(&f);
}

void capability_34(void **state)
{
    on_each_device(trace);
}

// --- 42 and 43: guards, and the cache of what was compiled under them

static void guarded(kiln_device *dev)
{
    kiln_tensor *const *in = make_pair(dev), *out = NULL;
    kiln_tensor *longer[] = {kiln_concat(in, 2, 0), kiln_concat(in, 2, 0)};
    kiln_function *f = kiln_jit(chain, NULL, KILN_JIT(.cache_entries = 2));
    for (int i = 0; i < 4; i++) must(kiln_call(f, i % 2 ? longer : in, 2, &out, 1));
    kiln_jit_stats s = jit_stats_of(f);
    assert_int_equal(s.captures, 2);
    assert_int_equal(s.guard_misses, 1);
    assert_int_equal(s.programs, 2);
    char *text = explanation_of(f);
    assert_non_null(strstr(text, "guard dims: input 0 was f32[3], is f32[6]"));
    free(text);
    kiln_tensor *third[] = {kiln_cast(in[0], KILN_I32), kiln_cast(in[1], KILN_I32)};
    must(kiln_call(f, third, 2, &out, 1));
    s = jit_stats_of(f);
    assert_int_equal(s.programs, 2);
    assert_int_equal(s.evictions, 1);
    kiln_function_free(&f);
}

// Where a program stands among those of the explanation; -1: it is not there.
static int place_of_program(const char *text, int number)
{
    int place = 0, found, n_ops;
    for (const char *p = text; (p = strstr(p, "\n  program ")); p++) {
        if (sscanf(p, "\n  program %d: %d ops in", &found, &n_ops) != 2) continue;
        if (found == number) return place;
        place++;
    }
    return -1;
}

static void expect_order(kiln_function *f, int first, int second, int third)
{
    char *text = explanation_of(f);
    int want[] = {first, second, third};
    for (int i = 0; i < 3; i++)
        if (want[i] && place_of_program(text, want[i]) != i)
            fail_msg("program %d is not at %d in %s", want[i], i, text);
    free(text);
}

// The list of a function: what was used last comes first, and what was not used for longest goes.
static void in_order_of_use(kiln_device *dev)
{
    kiln_tensor *x[4][2], *out = NULL;
    for (int64_t i = 0; i < 4; i++) x[i][0] = x[i][1] = kiln_ones(dev, KILN_F32, KILN_SHAPE(i + 1));
    kiln_function *f = kiln_jit(chain, NULL, KILN_JIT(.cache_entries = 3));
    for (int i = 0; i < 3; i++) must(kiln_call(f, x[i], 2, &out, 1));
    expect_order(f, 3, 2, 1);
    must(kiln_call(f, x[0], 2, &out, 1));
    expect_order(f, 1, 3, 2);
    must(kiln_call(f, x[2], 2, &out, 1));
    must(kiln_call(f, x[2], 2, &out, 1));
    expect_order(f, 3, 1, 2);
    must(kiln_call(f, x[3], 2, &out, 1)); // the second goes
    expect_order(f, 4, 3, 1);
    uint64_t captures = jit_stats_of(f).captures;
    must(kiln_call(f, x[0], 2, &out, 1));
    assert_int_equal(jit_stats_of(f).captures, captures);
    must(kiln_call(f, x[1], 2, &out, 1));
    assert_int_equal(jit_stats_of(f).captures, captures + 1);
    expect_order(f, 5, 1, 4);
    assert_int_equal(jit_stats_of(f).evictions, 2);
    kiln_function_free(&f);
}

void capability_42(void **state)
{
    on_each_device(guarded);
}

void capability_43(void **state)
{
    on_each_device(guarded);
    on_each_device(in_order_of_use);
}

// --- 45: the options

static uint64_t hash_user(void *user)
{
    return *(uint64_t *)user;
}

static kiln_status add_user(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_relu(kiln_add(in[0], kiln_scalar((double)*(uint64_t *)user)));
    return kiln_error();
}

static void options(kiln_device *dev)
{
    uint64_t user = 1;
    kiln_tensor *x = make_pair(dev)[0], *out = NULL, *other = kiln_reshape(x, KILN_SHAPE(3, 1));
    kiln_function *f = kiln_jit(add_user, &user, KILN_JIT(.input_signature = KILN_TENSORS(x), .hash_args = hash_user));
    must(kiln_call(f, &x, 1, &out, 1));
    EXPECT(out, 1e-6, 2, 3, 4);
    user = 2;
    must(kiln_call(f, &x, 1, &out, 1));
    EXPECT(out, 1e-6, 3, 4, 5);
    assert_int_equal(kiln_call(f, &other, 1, &out, 1), KILN_E_SHAPE);
    EXPECT_ERROR(KILN_E_SHAPE, "f32[3,1]", "its signature says f32[3]");
    kiln_function_free(&f);
}

// What a call writes to stderr; to be freed.
static char *said_by(kiln_function *f, kiln_tensor *const *in, size_t n_in)
{
    char path[] = "/tmp/kiln-test-XXXXXX";
    int file = mkstemp(path), before = dup(STDERR_FILENO);
    assert_true(file >= 0 && before >= 0);
    unlink(path);
    fflush(stderr);
    dup2(file, STDERR_FILENO);
    kiln_tensor *out = NULL;
    kiln_status status = kiln_call(f, in, n_in, &out, 1);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    must(status);
    char *text = calloc(1, 1 << 16);
    assert_non_null(text);
    assert_true(pread(file, text, (1 << 16) - 1, 0) >= 0);
    close(file);
    return text;
}

static void expect_said(const char *text, const char *const *parts)
{
    for (const char *p = text; *parts; parts++) { // in this order
        const char *found = strstr(p, *parts);
        if (!found) fail_msg("no \"%s\" in its place in:\n%s", *parts, text);
        p = found + strlen(*parts);
    }
}

static kiln_status reads_between(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_mul(in[0], in[1]);
    double largest = kiln_item(kiln_max(y, NULL));
    out[0] = kiln_sub(kiln_exp(kiln_neg(y)), kiln_scalar(largest));
    return kiln_error();
}

static kiln_status repeats(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = in[0];
    for (int i = 0; i < 96; i++) out[0] = kiln_sub(kiln_mul(out[0], in[1]), kiln_scalar(0.5));
    return kiln_error();
}

// The graph, and in AUTO where it was split and why; each at the capture and not again.
static void print_after_all(kiln_device *dev)
{
    kiln_tensor *const *in = make_pair(dev);
    const kiln_capture whole[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE};
    for (int k = 0; k < 2; k++) {
        kiln_function *f = kiln_jit(chain, NULL, KILN_JIT(.capture = whole[k], .print_after_all = true));
        char *text = said_by(f, in, 2), *again = said_by(f, in, 2);
        expect_said(text,
                    (const char *const[]){"f32[3] = input \"in0\"", "= mul(", "= sub(", "= relu(", "return", NULL});
        assert_string_equal(again, "");
        free(text);
        free(again);
        kiln_function_free(&f);
    }
    kiln_function *f = kiln_jit(reads_between, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .print_after_all = true));
    char *text = said_by(f, in, 2);
    const char *const parts[] = {"= mul(",
                                 "= max(",
                                 "return",
                                 "# the function at guards.c:",
                                 "break: read of f32[]",
                                 "made by max",
                                 "at guards.c:",
                                 "2 ops recorded",
                                 "= neg(",
                                 "= exp(",
                                 "= sub(",
                                 "return",
                                 "end: of the scope",
                                 "3 ops recorded",
                                 NULL};
    expect_said(text, parts);
    free(text);
    free(said_by(f, in, 2)); // learns what is asked for after the break
    text = said_by(f, in, 2);
    assert_string_equal(text, "");
    free(text);
    kiln_function_free(&f);
}

static void loop_unrolling(kiln_device *dev)
{
    kiln_tensor *const *in = make_pair(dev), *want = NULL, *out = NULL;
    must(repeats(NULL, in, 2, &want, 1));
    for (uint64_t copies = 0; copies <= 16; copies += 4) {
        kiln_function *f = kiln_jit(repeats, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .loop_unrolling = copies));
        for (int i = 0; i < 2; i++) must(kiln_call(f, in, 2, &out, 1));
        expect_same(out, want, "a result");
        assert_int_equal(jit_stats_of(f).breaks, copies ? 2 * 96 / copies : 0);
        kiln_function_free(&f);
    }
}

void capability_45(void **state)
{
    on_each_device(options);
    on_each_device(print_after_all);
    on_each_device(loop_unrolling);
}

// --- 47: the inner one of two is a part of the outer

static kiln_status call_inner(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *t = NULL;
    kiln_call(user, in, n_in, &t, 1);
    out[0] = kiln_neg(t);
    return kiln_error();
}

static void inner_is_inlined(kiln_device *dev)
{
    kiln_tensor *const *in = make_pair(dev), *out = NULL;
    kiln_function *inner = kiln_jit(chain, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO)),
                  *f = kiln_jit(call_inner, inner, NULL);
    for (int i = 0; i < 2; i++) must(kiln_call(f, in, 2, &out, 1));
    EXPECT(out, 1e-6, -3, -9, 0);
    assert_int_equal(jit_stats_of(f).nodes, 4);
    assert_int_equal(jit_stats_of(inner).calls, 0);
    kiln_function_free(&f);
    kiln_function_free(&inner);
}

void capability_47(void **state)
{
    on_each_device(inner_is_inlined);
}

// --- 48: a constant that changes is a new program, once; a mutable number never

static void constants(kiln_device *dev)
{
    kiln_tensor *x = make_pair(dev)[0], *out = NULL;
    for (int mutable = 0; mutable < 2; mutable ++) {
        kiln_function *f = kiln_jit(chain, NULL, NULL);
        for (int i = 1; i < 6; i++) {
            kiln_tensor *in[] = {x, mutable ? kiln_mutable(i) : kiln_scalar(i)};
            must(kiln_call(f, in, 2, &out, 1));
            EXPECT(out, 1e-6, i - 1, 2 * i - 1, 3 * i - 1);
        }
        assert_int_equal(jit_stats_of(f).captures, mutable ? 1 : 2);
        kiln_function_free(&f);
    }
}

void capability_48(void **state)
{
    on_each_device(constants);
}

// --- 64: constants are evaluated while the function is captured, and printed

static kiln_status use_constants(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *c = from(NULL, NUMBERS(1, 2, 3), KILN_SHAPE(3));
    kiln_print(kiln_add(c, c), user);
    out[0] = kiln_mul(in[0], kiln_scalar(kiln_item(kiln_sum(c, NULL))));
    return kiln_error();
}

static void evaluated(kiln_device *dev)
{
    kiln_tensor *x = make_pair(dev)[0], *out = NULL;
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    kiln_function *f = kiln_jit(use_constants, file, NULL);
    for (int i = 0; i < 2; i++) must(kiln_call(f, &x, 1, &out, 1));
    EXPECT(out, 1e-6, 6, 12, 18);
    fclose(file);
    assert_string_equal(text, "[2. 4. 6.]\n");
    free(text);
    kiln_function_free(&f);
    f = kiln_jit(use_constants, stdout, KILN_JIT(.syntax = KILN_SYNTAX_STRICT));
    assert_int_equal(kiln_call(f, &x, 1, &out, 1), KILN_E_STATE);
    EXPECT_ERROR(KILN_E_STATE, "from_data: ", "KILN_SYNTAX_STRICT");
    kiln_function_free(&f);
}

void capability_64(void **state)
{
    on_each_device(evaluated);
}
