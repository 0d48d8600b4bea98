// Levels of kiln_explain: what a summary counts, what it leaves to the detail, and the form of a page.
#include "jit_fixture.h"

static char *explain(kiln_function *f, kiln_explain_level level)
{
    char *text = NULL;
    size_t size_B;
    FILE *file = open_memstream(&text, &size_B);
    ok(kiln_explain_with(f, file, KILN_EXPLAIN(.level = level)));
    fclose(file);
    return text;
}

static void expect_part(const char *text, const char *part)
{
    if (!strstr(text, part)) print_error("no \"%s\" in\n%s\n", part, text);
    assert_non_null(strstr(text, part));
}

static void expect_summary(kiln_function *f, const char *part)
{
    char *text = explain(f, KILN_EXPLAIN_SUMMARY);
    expect_part(text, part);
    free(text);
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) n++;
    return n;
}

// --- functions

// Three products of one shape, which the BLAS computes, and two pieces in between that are alike.
static kiln_status towers(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *h = kiln_matmul(in[0], in[1]);
    for (int i = 0; i < 2; i++) h = kiln_matmul(kiln_relu(kiln_add(h, in[0])), in[1]);
    out[0] = h;
    return kiln_error();
}

// A product of another size each, so that no two are alike.
static kiln_status many_kinds(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *sum = NULL;
    for (int n = 1; n <= 15; n++) {
        kiln_tensor *part = kiln_slice(in[0], KILN_SLICE(.start = KILN_ARGS(0, 0), .stop = KILN_ARGS(16, n)));
        kiln_tensor *one = kiln_sum(kiln_matmul(kiln_transpose(part, 0, 1), part), NULL);
        sum = sum ? kiln_add(sum, one) : one;
    }
    out[0] = sum;
    return kiln_error();
}

static kiln_status breaking(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *h = kiln_exp(kiln_mul(in[0], 2));
    if (kiln_item(kiln_sum(h, NULL)) > 0) h = kiln_tanh(kiln_add(h, 1));
    out[0] = h;
    return kiln_error();
}

static kiln_status trip(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_matmul(in[1], user);
    return kiln_error();
}

static kiln_status looping(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *h = kiln_exp(in[0]);
    return kiln_for(kiln_scalar_int(5), trip, in[1], &h, 1, NULL, out, 1);
}

static kiln_status deep(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *h = in[0];
    for (int i = 0; i < *(int *)user; i++) h = kiln_matmul(kiln_sin(h), in[1]);
    out[0] = h;
    return kiln_error();
}

static kiln_tensor *square(struct fixture *f, int64_t n)
{
    return kiln_full(f->dev, KILN_F32, KILN_SHAPE(n, n), 0.01);
}

// --- summaries

// 4 x 4 of f32 are 64 bytes: a product moves three of them and is 128 operations, a piece between moves as much and is
// 32.
static void equal_kernels_are_counted(void **state)
{
    kiln_tensor *in[] = {square(*state, 4), square(*state, 4)}, *out;
    kiln_function *f = kiln_jit(towers, NULL, KILN_JIT(.name = "towers"));
    for (int i = 0; i < 3; i++) ok(kiln_call(f, in, 2, &out, 1));
    char *text = explain(f, KILN_EXPLAIN_SUMMARY);
    expect_part(text, "towers, capture STRICT\n  calls 3, captures 1, programs 1, guard misses 0, breaks 0");
    expect_part(text, "  capture 1: 7 ops, 2 inputs, 1 output; first call\n  program 1: 7 ops in 5 launches; ");
    expect_part(text, "\n    3 × matmul: f32[4,4] f32[4,4] → f32[4,4]; 576 B, 384 flop\n"
                      "    2 × add_relu: f32[4,4] f32[4,4] → f32[4,4]; 384 B, 64 flop\n"
                      "    together 960 B, 448 flop\n");
    assert_null(strstr(text, "space ["));
    char *plain = NULL;
    size_t size_B;
    FILE *file = open_memstream(&plain, &size_B);
    kiln_explain(f, file);
    fclose(file);
    assert_string_equal(plain, text); // it is what kiln_explain writes
    free(plain);
    free(text);
    text = explain(f, KILN_EXPLAIN_DETAIL);
    assert_int_equal(count(text, "    op matmul\n"), 3);
    assert_int_equal(count(text, "    kernel add_relu: space ["), 2);
    free(text);
    kiln_function_free(&f);
}

static void the_rest_is_counted_together(void **state)
{
    kiln_tensor *in[] = {square(*state, 16)}, *out;
    kiln_function *f = kiln_jit(many_kinds, NULL, NULL);
    ok(kiln_call(f, in, 1, &out, 1));
    char *text = explain(f, KILN_EXPLAIN_SUMMARY);
    assert_int_equal(count(text, " → "), 12);
    expect_part(text, " other kinds: ");
    expect_part(text, "\n    together ");
    free(text);
    kiln_function_free(&f);
}

// Each shape is a capture of its own; twelve of their lines are shown.
static void long_logs_are_cut(void **state)
{
    kiln_tensor *out;
    kiln_function *f = kiln_jit(towers, NULL, NULL);
    for (int n = 1; n <= 15; n++) {
        kiln_tensor *in[] = {square(*state, n), square(*state, n)};
        ok(kiln_call(f, in, 2, &out, 1));
    }
    char *text = explain(f, KILN_EXPLAIN_SUMMARY);
    assert_int_equal(count(text, "guard dims"), 11);
    expect_part(text, "\n  and 3 lines more of captures and breaks\n");
    assert_int_equal(count(text, "\n  program "), 15);
    assert_int_equal(count(text, " × matmul"), 4); // of the programs used last
    free(text);
    text = explain(f, KILN_EXPLAIN_DETAIL);
    assert_int_equal(count(text, "guard dims"), 14);
    free(text);
    kiln_function_free(&f);
}

static void breaks_and_loops(void **state)
{
    kiln_tensor *in[] = {square(*state, 4), square(*state, 4)}, *out;
    kiln_function *f = kiln_jit(breaking, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    for (int i = 0; i < 3; i++) ok(kiln_call(f, in, 1, &out, 1));
    expect_summary(f, "\n  breaks for read: 3\n");
    expect_summary(f, "break: read of f32[], made by sum, which is ");
    expect_summary(f, "1 × mul_exp_sum: f32[4,4] → ");
    kiln_function_free(&f);
    f = kiln_jit(looping, NULL, NULL);
    for (int i = 0; i < 2; i++) ok(kiln_call(f, in, 2, &out, 1));
    expect_summary(f, "    loop: 1 value carried");
    expect_summary(f, "      body: 1 op in 2 launches; ");
    expect_summary(f, "        1 × matmul: f32[4,4] f32[4,4] → f32[4,4]; 192 B, 128 flop\n");
    kiln_function_free(&f);
}

static void times_are_told_once_measured(void **state)
{
    struct fixture *x = *state;
    kiln_tensor *in[] = {square(x, 4), square(x, 4)}, *out;
    kiln_bench_result r = {.size = sizeof r};
    kiln_function *f = kiln_jit(towers, NULL, NULL);
    ok(kiln_call(f, in, 2, &out, 1));
    char *text = explain(f, KILN_EXPLAIN_SUMMARY);
    assert_null(strstr(text, " took "));
    free(text);
    ok(kiln_bench_captured(f, in, 2, 1, KILN_BENCH(.max_runs = 7, .no_ceilings = true), &r));
    expect_summary(f, "\n    a run took ");
    expect_summary(f, ", median of 7\n");
    kiln_function_free(&f);
}

// --- pages

static const char *skip_name(const char *at)
{
    return at + strcspn(at, " />\n");
}

// Every tag is closed in order, every attribute quoted, every & of an entity: XML, as far as a page needs it.
static void expect_well_formed(const char *page)
{
    const char *open[64];
    int depth = 0;
    const char *at = strstr(page, "<html");
    assert_non_null(at);
    for (; *at; at++) {
        if (*at == '&')
            assert_true(!strncmp(at, "&amp;", 5) || !strncmp(at, "&lt;", 4) || !strncmp(at, "&gt;", 4) ||
                        !strncmp(at, "&quot;", 6));
        if (*at != '<') continue;
        const char *name = at + 1 + (at[1] == '/'), *end = strchr(at, '>');
        assert_non_null(end);
        assert_true(memchr(at + 1, '<', (size_t)(end - at - 1)) == NULL);
        size_t len = (size_t)(skip_name(name) - name);
        if (at[1] == '/') {
            assert_true(depth > 0 && !strncmp(open[depth - 1], name, len) &&
                        skip_name(open[depth - 1]) == open[depth - 1] + len);
            depth--;
        } else if (end[-1] != '/') {
            assert_true(depth < 64);
            open[depth++] = name;
        }
        at = end;
    }
    assert_int_equal(depth, 0);
}

struct rect {
    double x, y, w, h;
};

// The boxes of one drawing, from `at` to its end.
static int read_boxes(const char *at, struct rect *r, int most, double *width, double *height)
{
    const char *end = strstr(at, "</svg>");
    int n = 0;
    assert_int_equal(sscanf(strstr(at, "width=\""), "width=\"%lf\" height=\"%lf\"", width, height), 2);
    while (n < most && (at = strstr(at, "<rect")) && at < end) {
        assert_int_equal(
            sscanf(at, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"", &r[n].x, &r[n].y, &r[n].w, &r[n].h),
            4);
        at++, n++;
    }
    return n;
}

// Boxes lie inside of each drawing, and none over another. Returns how many there are in all.
static int expect_apart(const char *page)
{
    static struct rect r[2000];
    int total = 0;
    for (const char *at = page; (at = strstr(at, "role=\"img\"")); at++) {
        double width, height;
        int n = read_boxes(at, r, 2000, &width, &height);
        for (int i = 0; i < n; i++) {
            assert_true(r[i].x >= 0 && r[i].y >= 0 && r[i].x + r[i].w <= width && r[i].y + r[i].h <= height);
            for (int k = 0; k < i; k++)
                assert_true(r[i].y + r[i].h <= r[k].y || r[k].y + r[k].h <= r[i].y || r[i].x + r[i].w <= r[k].x ||
                            r[k].x + r[k].w <= r[i].x);
        }
        total += n;
    }
    return total;
}

// Nothing is fetched.
static void expect_alone(const char *page)
{
    static const char *const fetches[] = {"src=", "href=", "@import", "<link", "<iframe"};
    for (size_t i = 0; i < sizeof fetches / sizeof *fetches; i++) assert_null(strstr(page, fetches[i]));
    for (const char *at = page; (at = strstr(at, "url(")); at++) assert_true(at[4] == '#');
}

static void a_page(void **state)
{
    struct fixture *x = *state;
    kiln_tensor *in[] = {square(x, 4), square(x, 4)}, *out;
    kiln_device_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    kiln_function *f = kiln_jit(towers, NULL, KILN_JIT(.name = "a<b> & \"c\""));
    for (int i = 0; i < 2; i++) ok(kiln_call(f, in, 2, &out, 1));
    kiln_device_get_stats(x->dev, &before);
    char *page = explain(f, KILN_EXPLAIN_HTML);
    kiln_device_get_stats(x->dev, &after);
    assert_int_equal(after.launches, before.launches);
    assert_int_equal(after.kernels_compiled, before.kernels_compiled);
    assert_int_equal(strncmp(page, "<!DOCTYPE html>\n", 16), 0);
    expect_part(page, "<title>a&lt;b&gt; &amp; &quot;c&quot;</title>");
    expect_well_formed(page);
    expect_alone(page);
    assert_int_equal(expect_apart(page), 2 + 7 + 1); // inputs, ops, the result
    assert_int_equal(count(page, "class=\"b op fused\""), 4);
    // Both ops of a kernel have its number, and its colour.
    assert_int_equal(count(page, "data-k=\"1\""), 2);
    assert_int_equal(count(page, "data-k=\"3\""), 2);
    expect_part(page, "<title>matmul\ntakes f32[4,4] in0, f32[4,4] in1\ngives f32[4,4], 64 bytes\n"
                      "kernel 1 of 5: matmul\nreads 128 B, writes 64 B, 128 flop\n");
    expect_part(page, "kernel 2 of 5: add_relu, of 2 ops\nreads 128 B, writes 64 B, 32 flop\n");
    expect_part(page, "explain.c:"); // the line of an op
    expect_part(page, "prefers-color-scheme: dark");
    expect_part(page, "3 × matmul: ");
    expect_part(page, "kernel add_relu: space [");
    free(page);
    kiln_jit_stats s = {.size = sizeof s};
    kiln_function_stats(f, &s);
    assert_int_equal(s.captures, 1);
    ok(kiln_call(f, in, 2, &out, 1)); // it runs on
    kiln_function_free(&f);
}

static void expect_page(kiln_function *f, const char *part, int boxes)
{
    char *page = explain(f, KILN_EXPLAIN_HTML);
    expect_well_formed(page);
    expect_part(page, part);
    int n = expect_apart(page);
    if (boxes >= 0)
        assert_int_equal(n, boxes);
    else
        assert_true(n > 0);
    free(page);
}

static void pages_of_all_kinds(void **state)
{
    struct fixture *x = *state;
    kiln_tensor *in[] = {square(x, 4), square(x, 4)}, *out;
    kiln_function *f = kiln_jit(breaking, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    for (int i = 0; i < 2; i++) ok(kiln_call(f, in, 1, &out, 1));
    expect_page(f, "<h2>Program 2</h2>", -1);
    kiln_function_free(&f);
    f = kiln_jit(looping, NULL, NULL);
    ok(kiln_call(f, in, 2, &out, 1));
    expect_page(f, "<title>loop\n", 2 + 2 + 1);
    kiln_function_free(&f);
    kiln_tensor *w = kiln_parameter(square(x, 4), "weight");
    kiln_tensor *trained[] = {in[0], w};
    f = kiln_jit(towers, NULL, NULL);
    ok(kiln_call(f, trained, 2, &out, 1));
    expect_page(f, "<h2>Backward of program 1</h2>", -1);
    kiln_function_free(&f);
    f = kiln_jit(towers, NULL, NULL);
    expect_page(f, "calls 0", 0); // nothing was captured yet
    kiln_function_free(&f);
}

// Of a large graph the launches are drawn, of one that is too large none.
static void large_graphs(void **state)
{
    struct fixture *x = *state;
    kiln_tensor *in[] = {square(x, 2), square(x, 2)}, *out;
    int n = 300;
    kiln_function *f = kiln_jit(deep, &n, NULL);
    ok(kiln_call(f, in, 2, &out, 1));
    expect_page(f, "Launches, one a box", 600);
    kiln_function_free(&f);
    n = 800;
    f = kiln_jit(deep, &n, NULL);
    ok(kiln_call(f, in, 2, &out, 1));
    expect_page(f, "<p>1600 launches are too many to draw.</p>", 0);
    kiln_function_free(&f);
}

static void failures(void **state)
{
    kiln_function *f = kiln_jit(towers, NULL, NULL);
    fails(kiln_explain_with(NULL, stdout, NULL), KILN_E_ARGUMENT, "explain_with: f is NULL");
    fails(kiln_explain_with(f, NULL, NULL), KILN_E_ARGUMENT, "explain_with: file is NULL");
    fails(kiln_explain_with(f, stdout, KILN_EXPLAIN(.level = (kiln_explain_level)3)), KILN_E_ARGUMENT,
          "explain_with: .level is 3");
    FILE *full = fopen("/dev/full", "w");
    setvbuf(full, NULL, _IONBF, 0);
    fails(kiln_explain_with(f, full, NULL), KILN_E_IO, "explain_with: the file cannot be written");
    fclose(full);
    kiln_function_free(&f);
}

// A page for a browser: a step of training of a small network.
static int write_page(const char *path)
{
    kiln_device *dev = kiln_device_open("cpu");
    kiln_scope *scope = kiln_scope_begin();
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_conv2d(dev, 1, 8, 3, KILN_NN_CONV2D(.pad_mode = "same")),
                                                   kiln_nn_batch_norm2d(dev, 8, NULL), kiln_nn_relu(),
                                                   kiln_nn_flatten(), kiln_nn_dense(dev, 512, 32, NULL), kiln_nn_gelu(),
                                                   kiln_nn_dense(dev, 32, 10, NULL)));
    kiln_cell_set_training(net, true);
    kiln_cell_jit(net, NULL);
    kiln_tensor *y = kiln_cell_call(net, kiln_ones(dev, KILN_F32, KILN_SHAPE(4, 1, 8, 8)));
    kiln_backward(kiln_sum(y, NULL), NULL);
    FILE *file = fopen(path, "w");
    kiln_explain_with(kiln_cell_function(net), file, KILN_EXPLAIN(.level = KILN_EXPLAIN_HTML));
    if (file) fclose(file);
    if (kiln_error()) fprintf(stderr, "%s\n", kiln_error_message());
    kiln_cell_free(&net);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return kiln_error() != KILN_OK;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(equal_kernels_are_counted),
        FIXTURE(the_rest_is_counted_together),
        FIXTURE(long_logs_are_cut),
        FIXTURE(breaks_and_loops),
        FIXTURE(times_are_told_once_measured),
        FIXTURE(a_page),
        FIXTURE(pages_of_all_kinds),
        FIXTURE(large_graphs),
        FIXTURE(failures),
    };
    if (argc == 3 && !strcmp(argv[1], "--page")) return write_page(argv[2]);
    return cmocka_run_group_tests_name("explain", tests, NULL, NULL);
}
