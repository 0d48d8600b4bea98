// Many sizes: each is captured, none of them twice, and what was decided about one holds for the others. Programs are
// those that the sizes alone would have.
#include "jit_fixture.h"
#include <stdio.h>

static kiln_device_stats device_stats(const struct fixture *f)
{
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(f->dev, &s);
    return s;
}

// Of any size; off by so much at most, measured by the largest.
static void within(kiln_tensor *a, kiln_tensor *b, double by)
{
    assert_non_null(a);
    assert_int_equal(kiln_rank(a), kiln_rank(b));
    for (size_t d = 0; d < kiln_rank(a); d++) assert_int_equal(kiln_dim(a, (int)d), kiln_dim(b, (int)d));
    if (!kiln_numel(a)) return;
    double off = kiln_item(kiln_max(kiln_abs(kiln_sub(a, b)), NULL)), most = kiln_item(kiln_max(kiln_abs(b), NULL));
    if (!(off <= by * most)) print_error("off by %g of %g\n", off, most);
    assert_true(off <= by * most);
}

// Equal but for the order in which folds add.
static void close_to(kiln_tensor *a, kiln_tensor *b)
{
    within(a, b, 2e-6);
}

static kiln_tensor *ramp(struct fixture *f, int64_t rows, int64_t columns)
{
    kiln_tensor *n = kiln_arange(f->dev, KILN_F32, 0, (double)(rows * columns), 1);
    return kiln_reshape(kiln_sin(kiln_mul(n, kiln_scalar(0.7))), KILN_SHAPE(rows, columns));
}

static kiln_status soft(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_softmax(kiln_mul(in[0], kiln_scalar(0.5)), -1);
    return kiln_error();
}

// --- functions of a network: `user` is a net; in[0] is [rows, 3]

struct net {
    kiln_tensor *w, *b;
};

static struct net make_net(struct fixture *f)
{
    return (struct net){kiln_parameter(mat(f, 3, 4, .1, -.2, .3, .4, .5, -.6, .7, -.8, .9, .3, .2, -.1), "w"),
                        kiln_parameter(vec(f, 4, .1, .2, .3, -.4), "b")};
}

static kiln_status loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct net *n = user;
    kiln_tensor *y = kiln_log_softmax(kiln_tanh(kiln_add(kiln_matmul(in[0], n->w), n->b)), -1);
    // The host computes with the size.
    out[0] = kiln_mul(kiln_sum(kiln_square(y), NULL), kiln_scalar(1. / (double)(kiln_dim(in[0], 0) + 1)));
    return kiln_error();
}

static kiln_status step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct net *n = user;
    TRY_(loss(user, in, n_in, out, 1));
    kiln_tensor *by[] = {n->w, n->b}, *grad[2];
    TRY_(kiln_gradients(out[0], by, 2, NULL, grad));
    out[1] = grad[0];
    out[2] = grad[1];
    kiln_no_grad_begin();
    kiln_assign(n->b, kiln_sub(n->b, kiln_mul(grad[1], kiln_scalar(0.01))));
    kiln_no_grad_end();
    return kiln_error();
}

static kiln_status with_break(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_mul(kiln_exp(in[0]), kiln_scalar(0.25));
    out[0] = kiln_item(kiln_sum(y, NULL)) > 0 ? kiln_softmax(y, -1) : y;
    return kiln_error();
}

static kiln_status attend(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *scores = kiln_matmul(kiln_mul(in[0], kiln_scalar(0.5)), kiln_transpose(in[0], -2, -1));
    int64_t n = kiln_dim(in[0], 0);
    kiln_tensor *seen = kiln_tril(kiln_ones(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(n, n)), 0);
    kiln_tensor *hidden = kiln_where(kiln_greater(seen, kiln_scalar(0)), scores, kiln_scalar(-1e9));
    out[0] = kiln_add(kiln_matmul(kiln_softmax(hidden, -1), in[0]), in[0]);
    return kiln_error();
}

static kiln_status image(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    int64_t n = kiln_dim(in[0], 0);
    kiln_tensor *x = kiln_reshape(in[0], KILN_SHAPE(1, 1, n, 3));
    kiln_tensor *padded = kiln_pad(x, KILN_PAD(.before = KILN_AXES(0, 0, 1, 1), .after = KILN_AXES(0, 0, 1, 1)));
    kiln_tensor *inner =
        kiln_slice(padded, KILN_SLICE(.start = KILN_AXES(0, 0, 1, 1), .stop = KILN_AXES(1, 1, n + 1, 4)));
    kiln_tensor *parts[] = {kiln_relu(kiln_sub(inner, kiln_mean(x, NULL))), kiln_flip(x, KILN_AXES(-1))};
    out[0] = kiln_concat(parts, 2, 2);
    return kiln_error();
}

// --- tests

// Kernels are apart for rows of up to 8, then for each power of two.
static int row_class(int64_t n)
{
    int class = 0;
    if (n <= 8) return (int)n;
    while ((INT64_C(1) << class) < n) class ++;
    return 8 + class;
}

static void each_size_costs_a_capture_and_no_kernel(void **state)
{
    struct fixture *f = *state;
    bool cpu = !strcmp(jit_device, "cpu");
    int64_t n_sizes = cpu ? 4096 : 256;
    bool seen[64] = {false};
    kiln_function *j = kiln_jit(soft, NULL, NULL);
    for (int64_t i = 0; i < n_sizes; i++) {
        kiln_scope *s = kiln_scope_begin();
        int64_t n = (i * 2731 + 77) % n_sizes + 1; // all of them, in no order
        kiln_tensor *x = ramp(f, 3, n), *y, *z;
        uint64_t before = stats_of(j).kernels_compiled, of_device = device_stats(f).kernels_compiled;
        ok(kiln_call(j, &x, 1, &y, 1));
        if (seen[row_class(n)]) {
            assert_int_equal(stats_of(j).kernels_compiled, before);
            assert_int_equal(device_stats(f).kernels_compiled, of_device);
        }
        seen[row_class(n)] = true;
        ok(soft(NULL, &x, 1, &z, 1));
        close_to(y, z);
        kiln_scope_end(&s);
    }
    kiln_jit_stats s = stats_of(j);
    assert_int_equal(s.captures, n_sizes);
    assert_int_equal(s.reused, n_sizes - 1);
    assert_int_equal(s.fallbacks, 0);
    assert_int_equal(s.evictions, 0);
    assert_int_equal(s.programs, n_sizes);
    assert_in_range(s.program_B, 1, (uint64_t)n_sizes << 16);
    kiln_function_free(&j);
}

// The text of the program that was made last.
static char *newest_program(kiln_function *j)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    kiln_explain_with(j, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    fclose(file);
    char *from = strstr(text, "\n  program ");
    assert_non_null(from);
    char *colon = strchr(from, ':'), *to = strstr(colon, "\n  program ");
    if (to) *to = 0;
    char *copy = strdup(colon);
    free(text);
    char *backward = strstr(copy, "  backward of program"); // by the number of the capture
    if (backward) *backward = 0;
    for (size_t n = strlen(copy); n && copy[n - 1] == '\n';) copy[--n] = 0;
    return copy;
}

static void as_alone(struct fixture *f, kiln_fn fn, void *user, size_t n_out, kiln_capture capture, int64_t columns)
{
    static const int64_t sizes[] = {40, 41, 64, 3, 1, 2, 37, 63, 5, 7, 100, 2, 33, 48, 11, 13, 97, 120, 8, 12};
    kiln_function *j = kiln_jit(fn, user, KILN_JIT(.capture = capture));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        kiln_scope *s = kiln_scope_begin();
        kiln_tensor *x = ramp(f, sizes[i], columns), *y[3], *z[3];
        uint64_t captures = stats_of(j).captures;
        ok(kiln_call(j, &x, 1, y, n_out));
        kiln_function *alone = kiln_jit(fn, user, KILN_JIT(.capture = capture));
        ok(kiln_call(alone, &x, 1, z, n_out));
        for (size_t k = 0; k < n_out && fn != step; k++) within(y[k], z[k], 0);
        if (stats_of(j).captures > captures) {
            char *a = newest_program(j), *b = newest_program(alone);
            if (strcmp(a, b)) fprintf(stderr, "%lld rows, reused:\n%s\nalone:\n%s\n", (long long)sizes[i], a, b);
            assert_string_equal(a, b);
            free(a);
            free(b);
        }
        kiln_function_free(&alone);
        kiln_scope_end(&s);
    }
    kiln_jit_stats s = stats_of(j);
    assert_int_equal(s.captures, 19);
    assert_int_equal(s.fallbacks, 0);
    assert_true(s.reused >= 14);
    kiln_function_free(&j);
}

static void programs_are_those_of_their_sizes_alone(void **state)
{
    struct fixture *f = *state;
    struct net n = make_net(f);
    for (int c = KILN_CAPTURE_STRICT; c <= KILN_CAPTURE_TRACE; c += KILN_CAPTURE_TRACE - KILN_CAPTURE_STRICT) {
        as_alone(f, soft, NULL, 1, (kiln_capture)c, 5);
        as_alone(f, loss, &n, 1, (kiln_capture)c, 3);
        as_alone(f, step, &n, 3, (kiln_capture)c, 3);
        as_alone(f, attend, NULL, 1, (kiln_capture)c, 3);
        as_alone(f, image, NULL, 1, (kiln_capture)c, 3);
    }
}

// Gradients of calls, by a parameter and by the input, in all captures.
static void gradients_of_many_sizes(void **state)
{
    struct fixture *f = *state;
    for (int c = KILN_CAPTURE_STRICT; c <= KILN_CAPTURE_TRACE; c++) {
        struct net n = make_net(f);
        kiln_function *j = kiln_jit(loss, &n, KILN_JIT(.capture = (kiln_capture)c));
        for (int64_t rows = 1; rows <= 48; rows++) {
            kiln_scope *s = kiln_scope_begin();
            kiln_tensor *x = ramp(f, rows, 3), *by[] = {n.w, n.b, x}, *y, *got[3], *want[3];
            ok(kiln_set_requires_grad(x, true));
            ok(kiln_call(j, &x, 1, &y, 1));
            ok(kiln_gradients(y, by, 3, NULL, got));
            ok(loss(&n, &x, 1, &y, 1));
            ok(kiln_gradients(y, by, 3, NULL, want));
            for (int k = 0; k < 3; k++) close_to(got[k], want[k]);
            kiln_scope_end(&s);
        }
        kiln_jit_stats s = stats_of(j);
        assert_int_equal(s.fallbacks, 0);
        assert_true(s.reused >= 46);
        kiln_function_free(&j);
    }
}

static void auto_goes_on_with_new_sizes(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(with_break, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    for (int round = 0; round < 2; round++)
        for (int64_t i = 0; i < 100; i++) {
            kiln_scope *s = kiln_scope_begin();
            kiln_tensor *x = ramp(f, 2, i * 37 % 101 + 1), *y, *z;
            ok(kiln_call(j, &x, 1, &y, 1));
            ok(with_break(NULL, &x, 1, &z, 1));
            close_to(y, z);
            kiln_scope_end(&s);
        }
    kiln_jit_stats s = stats_of(j);
    assert_int_equal(s.captures, 100);
    assert_int_equal(s.fallbacks, 0);
    assert_true(s.reused >= 98);
    kiln_function_free(&j);
}

// A number of the host that is no size: each value is a graph of its own.
static kiln_status counted(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_narrow(kiln_neg(in[0]), 0, *(int64_t *)user, 2);
    return kiln_error();
}

static void auto_numbers_of_the_host_count(void **state)
{
    struct fixture *f = *state;
    int64_t at = 0;
    kiln_function *j = kiln_jit(counted, &at, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .recompile_limit = 5));
    kiln_tensor *x = ramp(f, 20, 2);
    for (at = 0; at < 12; at++) {
        kiln_scope *s = kiln_scope_begin();
        kiln_tensor *y, *z;
        ok(kiln_call(j, &x, 1, &y, 1));
        ok(counted(&at, &x, 1, &z, 1));
        same(y, z);
        kiln_scope_end(&s);
    }
    kiln_jit_stats s = stats_of(j);
    assert_int_equal(s.reused, 0);
    assert_int_equal(s.captures, 7);
    assert_int_equal(s.fallbacks, 5);
    kiln_function_free(&j);
}

// The host goes another way for each size: these are other graphs, and they count.
static kiln_status by_size(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mean(kiln_abs(in[0]), NULL);
    for (int64_t i = 0; i < kiln_dim(in[0], 0); i++) out[0] = kiln_tanh(out[0]);
    return kiln_error();
}

static void other_graphs_count(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(by_size, NULL, KILN_JIT(.recompile_limit = 3));
    for (int64_t n = 1; n <= 8; n++)
        for (int64_t columns = 2; columns < 5; columns++) {
            kiln_tensor *x = ramp(f, n, columns), *y, *z;
            ok(kiln_call(j, &x, 1, &y, 1));
            ok(by_size(NULL, &x, 1, &z, 1));
            close_to(y, z);
        }
    kiln_jit_stats s = stats_of(j);
    assert_int_equal(s.captures, 13); // four with other sizes of each, and one that was one too many
    assert_int_equal(s.reused, 8);
    assert_int_equal(s.fallbacks, 11);
    kiln_function_free(&j);
}

// Empty, single, prime, with gaps, transposed, repeated.
static void sizes_and_strides(void **state)
{
    struct fixture *f = *state;
    static const int64_t sizes[] = {0, 1, 2, 3, 5, 7, 13, 31, 61, 127, 251};
    kiln_function *j = kiln_jit(soft, NULL, NULL);
    kiln_tensor *all = ramp(f, 256, 16);
    for (int kind = 0; kind < 4; kind++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            kiln_scope *s = kiln_scope_begin();
            int64_t n = sizes[i];
            kiln_tensor *x = kiln_narrow(all, 0, 0, n), *y, *z;
            if (kind == 1) x = kiln_transpose(x, 0, 1);
            if (kind == 2) x = kiln_narrow(x, 1, 3, 4);
            if (kind == 3) x = kiln_expand(kiln_narrow(all, 0, 0, 1), KILN_SHAPE(n, 16));
            ok(kiln_call(j, &x, 1, &y, 1));
            ok(soft(NULL, &x, 1, &z, 1));
            close_to(y, z);
            kiln_scope_end(&s);
        }
    kiln_jit_stats s = stats_of(j);
    assert_int_equal(s.fallbacks, 0);
    assert_int_equal(s.reused, s.captures - 1);
    kiln_function_free(&j);
}

static void memory_of_programs_is_bounded(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(soft, NULL, KILN_JIT(.cache_B = 300000));
    for (int round = 0; round < 2; round++)
        for (int64_t n = 1; n <= 100; n++) {
            kiln_scope *s = kiln_scope_begin();
            kiln_tensor *x = ramp(f, 2, n), *y;
            ok(kiln_call(j, &x, 1, &y, 1));
            kiln_scope_end(&s);
            assert_in_range(stats_of(j).program_B, 1, 300000);
        }
    kiln_jit_stats s = stats_of(j);
    assert_true(s.evictions > 0 && s.programs > 2);
    assert_int_equal(s.captures, s.programs + s.evictions);
    assert_int_equal(s.fallbacks, 0);
    kiln_function_free(&j);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(each_size_costs_a_capture_and_no_kernel),
        FIXTURE(programs_are_those_of_their_sizes_alone),
        FIXTURE(gradients_of_many_sizes),
        FIXTURE(auto_goes_on_with_new_sizes),
        FIXTURE(auto_numbers_of_the_host_count),
        FIXTURE(other_graphs_count),
        FIXTURE(sizes_and_strides),
        FIXTURE(memory_of_programs_is_bounded),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
