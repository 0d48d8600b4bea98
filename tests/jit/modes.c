// The table of modes in the guide, line by line: each construct eagerly, in STRICT, AUTO and TRACE, and in a cell in
// graph mode. A line calls its function three times, on inputs and a host that change; what eager mode gives is what it
// means.
#include "jit_fixture.h"
#include <kiln/control.h>
#include <kiln/nn.h>

enum { CALLS = 3, WAYS = 5 };
enum outcome {
#define OUTCOME(name, words) name,
#define CONSTRUCT(...)
#include "modes.def"
#undef OUTCOME
#undef CONSTRUCT
};

enum way { EAGER, STRICT, AUTO, TRACE, GRAPH };
static const char *const way_names[WAYS] = {"eager", "STRICT", "AUTO", "TRACE", "graph mode"};

// What a function may reach, made anew for each way.
struct host {
    struct fixture *f;
    enum way way;
    int call, runs, effects, printed;
    double rate;
    float data[2];
    int64_t shape;
    kiln_tensor *state, *param, *constant, *other, *number;
    kiln_function *self, *inner;
    kiln_cell *cell, *inner_cell;
    FILE *paper;
};

typedef kiln_tensor *(*construct_fn)(struct host *h, kiln_tensor *x);

// --- the constructs ---

static kiln_tensor *ops(struct host *h, kiln_tensor *x)
{
    return kiln_exp(kiln_mul(x, kiln_scalar(0.5)));
}

static kiln_tensor *sizes(struct host *h, kiln_tensor *x)
{
    for (int64_t i = 0; i < kiln_dim(x, 0); i++) x = kiln_add(x, kiln_scalar(i));
    return kiln_rank(x) == 1 ? kiln_neg(x) : x;
}

// Of the inputs nothing is left in these results.
static kiln_tensor *nothing_of(kiln_tensor *x)
{
    return kiln_mul(x, kiln_scalar(0));
}

static kiln_tensor *host_number_read(struct host *h, kiln_tensor *x)
{
    return kiln_add(nothing_of(x), kiln_scalar(h->rate));
}

static kiln_tensor *host_branch(struct host *h, kiln_tensor *x)
{
    kiln_tensor *y = nothing_of(x);
    return h->call == 0 ? kiln_exp(y) : kiln_sub(y, kiln_scalar(h->call));
}

static kiln_tensor *host_data(struct host *h, kiln_tensor *x)
{
    return kiln_add(nothing_of(x), kiln_from_data(h->f->dev, KILN_F32, KILN_SHAPE(2), h->data));
}

static double ask(void *user)
{
    return ((struct host *)user)->rate;
}

static kiln_tensor *host_number_asked(struct host *h, kiln_tensor *x)
{
    return kiln_mul(x, kiln_host_number(ask, h));
}

static kiln_tensor *mutable_input(struct host *h, kiln_tensor *x)
{
    return kiln_mul(x, h->number);
}

static kiln_tensor *other_shape(struct host *h, kiln_tensor *x)
{
    return kiln_cumsum(kiln_exp(x), 0);
}

static kiln_tensor *effects(struct host *h, kiln_tensor *x)
{
    h->effects++;
    return kiln_neg(kiln_exp(x));
}

static kiln_tensor *prints(struct host *h, kiln_tensor *x)
{
    kiln_tensor *y = kiln_exp(x);
    kiln_print(kiln_sum(y, NULL), h->paper);
    return kiln_neg(y);
}

static kiln_status adds_total(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(in[0], kiln_scalar(kiln_item(kiln_sum(in[0], NULL))));
    return kiln_error();
}

static kiln_tensor *calls_host(struct host *h, kiln_tensor *x)
{
    const kiln_host_spec same = {kiln_tensor_dtype(x), kiln_rank(x), kiln_dims(x)};
    kiln_tensor *y = NULL;
    kiln_assert(kiln_isfinite(x), "{} is not finite", x);
    return kiln_host_call(adds_total, NULL, &x, 1, &same, &y, 1, KILN_HOST_PURE, NULL) ? NULL : kiln_neg(y);
}

static kiln_tensor *read_input(struct host *h, kiln_tensor *x)
{
    double v = kiln_item(kiln_sum(x, NULL));
    return kiln_add(nothing_of(x), kiln_scalar(v));
}

static kiln_tensor *branch_on_value(struct host *h, kiln_tensor *x)
{
    kiln_tensor *y = nothing_of(x);
    return kiln_item(kiln_max(x, NULL)) > 2.5 ? kiln_exp(y) : kiln_sub(y, kiln_scalar(1));
}

static kiln_tensor *select_by_value(struct host *h, kiln_tensor *x)
{
    return kiln_where(kiln_greater(x, kiln_scalar(2.5)), kiln_exp(x), kiln_neg(x));
}

static kiln_status half(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(in[0], kiln_scalar(0.5));
    return kiln_error();
}

static kiln_status negative(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_neg(in[0]);
    return kiln_error();
}

static kiln_status is_large(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_greater(kiln_max(in[0], NULL), kiln_scalar(1));
    return kiln_error();
}

static kiln_tensor *control(struct host *h, kiln_tensor *x)
{
    kiln_tensor *y = NULL, *z = NULL;
    if (kiln_cond(kiln_greater(kiln_sum(x, NULL), kiln_scalar(4)), half, negative, NULL, &x, 1, &y, 1)) return NULL;
    if (kiln_while(is_large, half, NULL, &y, 1, NULL, &z, 1)) return NULL;
    return z;
}

static kiln_tensor *read_constant(struct host *h, kiln_tensor *x)
{
    return kiln_mul(x, kiln_scalar(kiln_item(kiln_constant(h->constant))));
}

static kiln_tensor *write_input(struct host *h, kiln_tensor *x)
{
    if (kiln_mul_(x, kiln_scalar(3))) return NULL;
    return kiln_add(x, kiln_scalar(1));
}

static kiln_tensor *write_state(struct host *h, kiln_tensor *x)
{
    if (kiln_add_(h->state, x)) return NULL;
    return kiln_mul(h->state, kiln_scalar(2));
}

static kiln_tensor *outside(struct host *h, kiln_tensor *x)
{
    return kiln_mul(x, h->other);
}

static kiln_tensor *random_numbers(struct host *h, kiln_tensor *x)
{
    return kiln_add(x, kiln_uniform(h->f->dev, KILN_F32, KILN_SHAPE(2), 0, 1));
}

static kiln_status loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_square(in[0]), NULL);
    return kiln_error();
}

static kiln_tensor *training(struct host *h, kiln_tensor *x)
{
    kiln_tensor *g = NULL;
    if (kiln_grad(loss, NULL, &x, 1, NULL, &g, 1)) return NULL;
    kiln_set_gradient(h->param, NULL);
    kiln_tensor *value = kiln_sum(kiln_mul(kiln_mul(h->param, h->param), g), NULL);
    if (kiln_backward(value, NULL)) return NULL;
    kiln_no_grad_begin();
    kiln_sub_(h->param, kiln_mul(kiln_gradient(h->param), kiln_scalar(0.1)));
    kiln_no_grad_end();
    return kiln_stop_gradient(value);
}

static kiln_tensor *call_inner(struct host *h, kiln_tensor *x)
{
    kiln_tensor *y = NULL;
    kiln_call(h->inner, &x, 1, &y, 1);
    return kiln_error() ? NULL : kiln_neg(y);
}

static kiln_tensor *call_strict(struct host *h, kiln_tensor *x)
{
    return call_inner(h, x);
}

static kiln_tensor *call_auto(struct host *h, kiln_tensor *x)
{
    return call_inner(h, x);
}

static kiln_tensor *call_cell(struct host *h, kiln_tensor *x)
{
    kiln_tensor *y = kiln_cell_call(h->inner_cell, x);
    return y ? kiln_neg(y) : NULL;
}

static kiln_tensor *block_without_capture(struct host *h, kiln_tensor *x)
{
    kiln_tensor *y = kiln_exp(x);
    KILN_NO_CAPTURE
    {
        y = kiln_mul(y, kiln_scalar(kiln_item(kiln_max(y, NULL))));
    }
    return kiln_neg(y);
}

static kiln_status run(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out);

static kiln_tensor *recursion(struct host *h, kiln_tensor *x)
{
    if (kiln_rank(x) == 0) return kiln_neg(x);
    kiln_tensor *sum = kiln_sum(x, NULL), *inner = NULL;
    if (h->cell)
        inner = kiln_cell_call(h->cell, sum);
    else if (h->self)
        kiln_call(h->self, &sum, 1, &inner, 1);
    else
        run(h, &sum, 1, &inner, 1);
    return inner ? kiln_mul(x, inner) : NULL;
}

// --- the lines ---

static const struct line {
    const char *construct;
    construct_fn fn;
    enum outcome outcomes[WAYS];
} lines[] = {
#define OUTCOME(...)
#define CONSTRUCT(text, fn, ...) {text, fn, {__VA_ARGS__}},
#include "modes.def"
#undef OUTCOME
#undef CONSTRUCT
};
static const struct line *line;

static kiln_status run(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct host *h = user;
    h->runs++;
    if (n_in > 1) h->number = in[1];
    out[0] = line->fn(h, in[0]);
    return kiln_error();
}

static kiln_status construct(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                             size_t n_out)
{
    return run(user, in, n_in, out, n_out);
}

static void make_host(struct fixture *f, enum way way, struct host *h)
{
    *h = (struct host){.f = f, .way = way, .paper = tmpfile()};
    assert_non_null(h->paper);
    ok(kiln_seed(f->dev, 11));
    h->state = vec(f, 2, 0, 0);
    ok(kiln_state(h->state));
    h->param = kiln_parameter(vec(f, 2, 1, -1), "p");
    h->constant = vec(f, 1, 1.5);
    h->other = vec(f, 2, 2, 3);
    bool automatic_inside = line->fn == call_auto;
    h->inner = kiln_jit(half, NULL, KILN_JIT(.capture = automatic_inside ? KILN_CAPTURE_AUTO : KILN_CAPTURE_STRICT));
    h->inner_cell = kiln_nn_tanh();
    ok(kiln_cell_jit(h->inner_cell, NULL));
    const kiln_capture captures[] = {
        [STRICT] = KILN_CAPTURE_STRICT, [AUTO] = KILN_CAPTURE_AUTO, [TRACE] = KILN_CAPTURE_TRACE};
    if (way == STRICT || way == AUTO || way == TRACE) h->self = kiln_jit(run, h, KILN_JIT(.capture = captures[way]));
    if (way == GRAPH) {
        h->cell = kiln_cell_create(KILN_CELL(.kind = "line", .construct = construct, .user = h, .n_out = 1));
        ok(kiln_set_mode(KILN_MODE_GRAPH));
    }
}

static void finish_host(struct host *h)
{
    ok(kiln_set_mode(KILN_MODE_EAGER));
    fclose(h->paper);
    kiln_function_free(&h->self);
    kiln_function_free(&h->inner);
    kiln_cell_free(&h->cell);
    kiln_cell_free(&h->inner_cell);
}

static kiln_status call(struct host *h, int number, kiln_tensor **out)
{
    kiln_tensor *in[2] = {vec(h->f, 2, 1 + 2 * number, 2 - number), kiln_mutable(number)};
    if (line->fn == other_shape && number == 1) in[0] = vec(h->f, 3, 1, 2, 3);
    size_t n_in = line->fn == mutable_input ? 2 : 1;
    h->call = number;
    h->rate = 1 + number;
    h->data[0] = h->data[1] = (float)(2 + number);
    if (h->cell) return kiln_cell_call_n(h->cell, in, n_in, out, 1);
    return h->self ? kiln_call(h->self, in, n_in, out, 1) : run(h, in, n_in, out, 1);
}

static int lines_on(FILE *paper)
{
    int n = 0;
    rewind(paper);
    for (int c; (c = fgetc(paper)) != EOF;) n += c == '\n';
    return n;
}

static kiln_function *function_of(const struct host *h)
{
    return h->cell ? kiln_cell_function(h->cell) : h->self;
}

static void check_counts(const struct host *h, enum outcome want)
{
    kiln_jit_stats s = {.size = sizeof s}, inner = stats_of(h->inner);
    if (function_of(h)) s = stats_of(function_of(h));
    bool once = h->way == STRICT || h->way == TRACE || h->way == GRAPH;
    int levels = line->fn == recursion ? 2 : 1;
    switch (want) {
    case NEW_CAPTURE: assert_int_equal(h->runs, 2); break;
    case BREAKS: assert_true(s.breaks >= CALLS && h->runs == CALLS); break;
    default: assert_int_equal(h->runs, levels * (once ? 1 : CALLS));
    }
    if (want == IN_GRAPH) assert_int_equal(s.breaks, 0);
    if (function_of(h)) assert_int_equal(s.fallbacks, 0);
    if (want == OWN_GRAPH && line->fn != call_cell) assert_true(inner.calls == CALLS && inner.captures == 1);
    if (want == IN_GRAPH) assert_int_equal(inner.calls, 0);
    if (line->fn == call_cell) inner = stats_of(kiln_cell_function(h->inner_cell));
    if (line->fn == call_cell) assert_int_equal(inner.calls, want == OWN_GRAPH ? CALLS : 0);
    if (line->fn == prints) assert_int_equal(lines_on(h->paper), CALLS);
    if (line->fn == effects) assert_int_equal(h->effects, want == ONCE ? 1 : CALLS);
}

static void check_way(struct fixture *f, enum way way, kiln_tensor *const *means)
{
    struct host h;
    enum outcome want = line->outcomes[way];
    kiln_tensor *out[CALLS] = {NULL};
    make_host(f, way, &h);
    for (int i = 0; i < CALLS; i++) {
        kiln_status status = call(&h, i, &out[i]);
        if (want == REFUSED) {
            assert_true(status >= 200 && status < 400);
            assert_non_null(strstr(kiln_error_message(), "(modes.c:"));
            kiln_error_clear();
            continue;
        }
        ok(status);
        if (want == FROZEN) {
            same(out[i], out[0]);
            assert_int_equal(i > 0, !equal(out[i], means[i])); // else there is nothing to show
        } else
            same(out[i], means[i]);
    }
    if (want != REFUSED) check_counts(&h, want);
    finish_host(&h);
}

static void check_line(void **state)
{
    struct fixture *f = *state;
    struct host h;
    kiln_tensor *means[CALLS] = {NULL};
    make_host(f, EAGER, &h);
    for (int i = 0; i < CALLS; i++) ok(call(&h, i, &means[i]));
    finish_host(&h);
    for (int way = 0; way < WAYS; way++) {
        print_message("%s, %s\n", line->construct, way_names[way]);
        check_way(f, (enum way)way, means);
    }
}

static int begin(void **state)
{
    line = *state;
    return setup(state);
}

int main(int argc, char **argv)
{
    enum { LINES = sizeof lines / sizeof *lines };
    struct CMUnitTest tests[LINES];
    if (choose_device(argc, argv)) return 77;
    for (size_t i = 0; i < LINES; i++)
        tests[i] = (struct CMUnitTest){lines[i].construct, check_line, begin, teardown, (void *)&lines[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
