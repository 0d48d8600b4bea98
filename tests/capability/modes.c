// Rows 3 and 46: modes and devices of threads and of the process; AUTO in graph mode.
#include "capability.h"

#include <kiln/ops.h>
#include <pthread.h>

// --- 3: mode and default device, each thread's own

// How often the net was captured by a call: 0 in eager mode.
static uint64_t captures_of_call(kiln_cell *net, kiln_tensor *x)
{
    kiln_function *f = kiln_cell_function(net);
    uint64_t before = f ? jit_stats_of(f).calls : 0;
    assert_non_null(kiln_cell_call(net, x));
    f = kiln_cell_function(net);
    return (f ? jit_stats_of(f).calls : 0) - before;
}

static kiln_device *made_on(void)
{
    kiln_tensor *t = kiln_ones(NULL, KILN_F32, KILN_SHAPE(1));
    kiln_device *dev = kiln_tensor_device(t);
    kiln_free(&t);
    return dev;
}

struct other_thread {
    kiln_device *dev;
    kiln_cell *net;
    kiln_tensor *x;
    kiln_mode first_mode;
    kiln_device *first_device, *second_device;
    uint64_t captured, captured_then;
    kiln_status status;
};

// While the first thread is in graph mode, on another device.
static void *look_from_elsewhere(void *user)
{
    struct other_thread *o = user;
    kiln_scope *scope = kiln_scope_begin();
    o->first_mode = kiln_get_mode();
    o->first_device = made_on();
    o->captured = captures_of_call(o->net, o->x);
    kiln_set_mode(KILN_MODE_GRAPH);
    kiln_set_device(o->dev);
    o->second_device = made_on();
    o->captured_then = captures_of_call(o->net, o->x);
    o->status = kiln_error();
    kiln_scope_end(&scope);
    return NULL;
}

static void each_thread_its_own(void)
{
    kiln_device *null = kiln_device_open("null"), *initial = made_on();
    kiln_scope *scope = kiln_scope_begin();
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_relu()));
    kiln_tensor *x = kiln_ones(cpu(), KILN_F32, KILN_SHAPE(3));
    assert_int_equal(kiln_get_mode(), KILN_MODE_EAGER);
    assert_int_equal(captures_of_call(net, x), 0);
    must(kiln_set_mode(KILN_MODE_GRAPH));
    assert_int_equal(kiln_get_mode(), KILN_MODE_GRAPH);
    assert_int_equal(captures_of_call(net, x), 1);
    must(kiln_set_device(null));
    assert_ptr_equal(made_on(), null);

    struct other_thread o = {.dev = null, .net = net, .x = x};
    pthread_t thread;
    for (int graph = 1; graph >= 0; graph--) {
        must(kiln_set_mode(graph ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
        must(kiln_set_device(graph ? null : cpu()));
        assert_int_equal(pthread_create(&thread, NULL, look_from_elsewhere, &o), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(o.status, KILN_OK);
        assert_int_equal(o.first_mode, KILN_MODE_EAGER);
        assert_int_equal(o.captured, 0);
        assert_int_equal(o.captured_then, 1);
        assert_ptr_equal(o.first_device, initial); // the first that was opened
        assert_ptr_equal(o.second_device, null);
        // What that thread chose holds for it alone.
        assert_int_equal(kiln_get_mode(), graph ? KILN_MODE_GRAPH : KILN_MODE_EAGER);
        assert_ptr_equal(kiln_get_device(), graph ? null : cpu());
        assert_ptr_equal(made_on(), graph ? null : cpu());
        assert_int_equal(captures_of_call(net, x), graph);
    }
    kiln_cell_free(&net);
    kiln_scope_end(&scope);
    kiln_device_close(&null);
}

// What the process has for threads that choose nothing.
struct new_thread {
    kiln_cell *net;
    kiln_tensor *x;
    kiln_mode mode;
    kiln_device *dev;
    uint64_t captured;
};

static void *take_defaults(void *user)
{
    struct new_thread *t = user;
    kiln_scope *scope = kiln_scope_begin();
    t->mode = kiln_get_mode();
    t->dev = made_on();
    t->captured = captures_of_call(t->net, t->x);
    kiln_scope_end(&scope);
    return NULL;
}

static void expect_defaults(struct new_thread *t, kiln_mode mode, kiln_device *dev)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_defaults, t), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(t->mode, mode);
    assert_int_equal(t->captured, mode == KILN_MODE_GRAPH);
    assert_ptr_equal(t->dev, dev);
}

static void defaults_of_the_process(void)
{
    kiln_device *null = kiln_device_open("null"), *first;
    kiln_scope *scope = kiln_scope_begin();
    struct new_thread t = {.net = kiln_nn_sequential(KILN_CELLS(kiln_nn_relu())),
                           .x = kiln_ones(cpu(), KILN_F32, KILN_SHAPE(3))};
    kiln_mode mine = kiln_get_mode();
    kiln_device *my_device = kiln_get_device();
    must(kiln_set_mode(mine)); // this thread has chosen
    must(kiln_set_device(my_device));
    take_defaults(&t);
    must(kiln_set_default_device(NULL));
    expect_defaults(&t, KILN_MODE_EAGER, cpu());
    first = t.dev;
    must(kiln_set_default_mode(KILN_MODE_GRAPH));
    must(kiln_set_default_device(null));
    expect_defaults(&t, KILN_MODE_GRAPH, null);
    assert_int_equal(kiln_get_mode(), mine);
    assert_ptr_equal(kiln_get_device(), my_device);
    must(kiln_set_default_device(NULL));
    expect_defaults(&t, KILN_MODE_GRAPH, first);
    must(kiln_set_default_device(null));
    kiln_device_close(&null); // the default is the first one again
    expect_defaults(&t, KILN_MODE_GRAPH, first);
    must(kiln_set_default_mode(KILN_MODE_EAGER));
    expect_defaults(&t, KILN_MODE_EAGER, first);
    assert_int_equal(kiln_set_default_mode((kiln_mode)7), KILN_E_ARGUMENT);
    EXPECT_ERROR(KILN_E_ARGUMENT, "set_default_mode: 7 is not one of kiln_mode");
    expect_defaults(&t, KILN_MODE_EAGER, first);
    kiln_cell_free(&t.net);
    kiln_scope_end(&scope);
}

// In a process of its own, by what the environment says.
static void expect_mode_of_environment(void)
{
    const char *text = getenv("KILN_MODE");
    listen_to_log();
    kiln_scope *scope = kiln_scope_begin();
    struct new_thread t = {.net = kiln_nn_sequential(KILN_CELLS(kiln_nn_relu())),
                           .x = kiln_ones(cpu(), KILN_F32, KILN_SHAPE(3))};
    bool graph = !strcmp(text, "graph");
    assert_int_equal(kiln_get_mode(), graph ? KILN_MODE_GRAPH : KILN_MODE_EAGER);
    assert_int_equal(captures_of_call(t.net, t.x), graph);
    expect_defaults(&t, graph ? KILN_MODE_GRAPH : KILN_MODE_EAGER, made_on());
    assert_int_equal(strstr(warned, "KILN_MODE: there is no \"static\"; known are eager, graph") != NULL,
                     !strcmp(text, "static"));
    must(kiln_set_mode(graph ? KILN_MODE_EAGER : KILN_MODE_GRAPH)); // a thread's own choice wins
    assert_int_equal(captures_of_call(t.net, t.x), !graph);
    kiln_set_log(NULL, NULL);
    kiln_cell_free(&t.net);
    kiln_scope_end(&scope);
}

void capability_03(void **state)
{
    if (getenv("KILN_TEST_CHILD")) {
        expect_mode_of_environment();
        return;
    }
    each_thread_its_own();
    defaults_of_the_process();
    const char *const words[] = {"graph", "eager", "static"};
    for (int i = 0; i < 3; i++)
        run_child("capability_03", words[i], (const char *const[]){"KILN_MODE", words[i], NULL});
}

// --- 46: AUTO is void in graph mode, with a warning

static kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    if (user) ++*(int *)user;
    out[0] = kiln_relu(kiln_sub(kiln_mul(in[0], in[1]), kiln_scalar(1)));
    return kiln_error();
}

static kiln_status chain_construct(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                   size_t n_out)
{
    return chain(user, in, n_in, out, n_out);
}

static kiln_status branch(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_item(kiln_sum(in[0], NULL)) > 0 ? kiln_neg(in[0]) : in[0];
    return kiln_error();
}

static kiln_status call_function(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_call(user, in, n_in, out, n_out);
}

static kiln_tensor *pair[2];
static kiln_tensor *const *make_pair(kiln_device *dev)
{
    pair[0] = from(dev, NUMBERS(1, 2, 3), KILN_SHAPE(3));
    pair[1] = from(dev, NUMBERS(4, 5, -6), KILN_SHAPE(3));
    return pair;
}

static void auto_in_graph_mode(kiln_device *dev)
{
    kiln_tensor *const *in = make_pair(dev), *out = NULL;
    int runs = 0;
    listen_to_log();
    kiln_function *reads = kiln_jit(branch, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO)),
                  *f = kiln_jit(chain, &runs, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .pure_host = true));
    must(kiln_call(reads, in, 1, &out, 1));
    EXPECT(out, 1e-6, -1, -2, -3);
    assert_string_equal(warned, "");
    must(kiln_set_mode(KILN_MODE_GRAPH));
    must(kiln_call(reads, in, 1, &out, 1)); // it reads a value, which no graph takes
    EXPECT(out, 1e-6, -1, -2, -3);
    assert_non_null(strstr(warned, "the function at modes.c:"));
    assert_non_null(strstr(warned, "is void in graph mode: it runs as without capture"));
    uint64_t launches = stats_of(dev).launches;
    for (int i = 0; i < 3; i++) must(kiln_call(f, in, 2, &out, 1));
    assert_int_equal(stats_of(dev).launches, launches + 9); // op by op, at each call
    assert_int_equal(runs, 3);
    EXPECT(out, 1e-6, 3, 9, 0);
    kiln_jit_stats s = jit_stats_of(f);
    assert_int_equal(s.captures, 0);
    assert_int_equal(s.programs, 0);
    assert_int_equal(s.fallbacks, 3);
    must(kiln_set_mode(KILN_MODE_EAGER));
    must(kiln_call(f, in, 2, &out, 1));
    assert_int_equal(jit_stats_of(f).captures, 1);
    kiln_set_log(NULL, NULL);
    kiln_function_free(&reads);
    kiln_function_free(&f);
}

// The mark of a cell is as void: it is a graph as all cells are. So is a region, whose ops run at once.
static void auto_marks_in_graph_mode(kiln_device *dev)
{
    int runs = 0;
    kiln_tensor *const *in = make_pair(dev), *out = NULL;
    kiln_cell *net = kiln_cell_create(
        KILN_CELL(.kind = "chain", .construct = chain_construct, .user = &runs, .n_in = 2, .n_out = 1));
    must(kiln_cell_jit(net, KILN_JIT(.capture = KILN_CAPTURE_AUTO)));
    must(kiln_set_mode(KILN_MODE_GRAPH));
    for (int i = 0; i < 3; i++) must(kiln_cell_call_n(net, in, 2, &out, 1));
    EXPECT(out, 1e-6, 3, 9, 0);
    assert_int_equal(runs, 1);
    assert_int_equal(jit_stats_of(kiln_cell_function(net)).captures, 1);
    uint64_t launches = stats_of(dev).launches;
    KILN_CAPTURE(dev)
    {
        must(chain(NULL, in, 2, &out, 1));
        assert_int_equal(stats_of(dev).launches, launches + 3);
    }
    must(kiln_set_mode(KILN_MODE_EAGER));
    for (int i = 0; i < 3; i++) must(kiln_cell_call_n(net, in, 2, &out, 1));
    assert_int_equal(runs, 4); // AUTO again, which runs the C code at each call
    kiln_cell_free(&net);
}

// Inside a capture it is a plain part of that, in either mode: what STRICT refuses is refused.
static void auto_inside_of_strict(kiln_device *dev)
{
    kiln_tensor *const *in = make_pair(dev), *out = NULL;
    for (int graph = 0; graph < 2; graph++) {
        must(kiln_set_mode(graph ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
        kiln_function *inner = kiln_jit(chain, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO)),
                      *reads = kiln_jit(branch, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO)),
                      *outer = kiln_jit(call_function, inner, NULL), *refused = kiln_jit(call_function, reads, NULL);
        for (int i = 0; i < 2; i++) must(kiln_call(outer, in, 2, &out, 1));
        EXPECT(out, 1e-6, 3, 9, 0);
        assert_int_equal(jit_stats_of(outer).nodes, 3);
        assert_int_equal(jit_stats_of(inner).calls, 0);
        assert_int_equal(kiln_call(refused, in, 1, &out, 1), KILN_E_STATE);
        EXPECT_ERROR(KILN_E_STATE, "item: ", "(modes.c:");
        kiln_function_free(&outer);
        kiln_function_free(&refused);
        kiln_function_free(&inner);
        kiln_function_free(&reads);
    }
    must(kiln_set_mode(KILN_MODE_EAGER));
}

void capability_46(void **state)
{
    on_each_device(auto_in_graph_mode);
    on_each_device(auto_marks_in_graph_mode);
    on_each_device(auto_inside_of_strict);
}
