// Every op through the JIT.
//
// A sink stands in front of eager mode. For each op that comes to it, it makes a function of that one op, captures and
// compiles it, and calls it on the op's inputs. So the suite tests what it always tests, on compiled kernels, and no
// test knows. In-place ops, which go by another way, stay eager.
#include "conformance/suite.h"
#include "tensor/apply.h"
#include "tensor/tensor.h"
#include <kiln/jit.h>
#include <stdlib.h>
#include <string.h>

struct one_op {
    const struct op *op;
    kiln_device *dev;
    struct attr *attrs;
};

static kiln_status run_op(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct one_op *o = user;
    (void)n_out;
    return op_apply(o->op, o->op->flags & OP_CREATES ? o->dev : NULL, (int)n_in, in, o->attrs, out);
}

// Inputs that are absent cannot be passed to a function: it gets the others, and run_op gets them back in place.
struct with_gaps {
    struct one_op one;
    int n_in;
    bool there[256];
};

static kiln_status run_with_gaps(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct with_gaps *g = user;
    kiln_tensor *all[256] = {NULL};
    size_t next = 0;
    for (int i = 0; i < g->n_in; i++) all[i] = g->there[i] && next < n_in ? in[next++] : NULL;
    return run_op(&g->one, all, (size_t)g->n_in, out, n_out);
}

enum { KEPT = 4096 };
static kiln_function *kept[KEPT];
static size_t n_kept, n_calls;
static uint64_t n_compiled;

static uint64_t ops_in_programs(const kiln_function *f)
{
    kiln_jit_stats stats = {.size = sizeof stats};
    kiln_function_stats(f, &stats);
    return stats.graph_ops;
}

void jit_drop_functions(void)
{
    while (n_kept) kiln_function_free(&kept[--n_kept]);
    n_calls = 0;
}

// Compiling takes milliseconds: of the many calls of a test one in `step`, and the first.
static bool is_tried(void)
{
    size_t step = getenv("KILN_TEST_FULL") ? 1 : strncmp(suite.device, "vulkan", 6) == 0 ? 9 : 2;
    return n_calls++ % step == 0;
}

// The op took its random numbers from the stream when it was checked; the call takes the same ones.
static void give_numbers_back(const struct op_call *c, kiln_device *dev)
{
    if (c->op->flags & OP_RANDOM) dev->rng_offset = (uint64_t)c->attrs[op_attr_index(c->op, "offset")].i;
}

static kiln_status call_captured(struct op_call *c, kiln_device *dev, kiln_tensor *const *in, kiln_tensor **out)
{
    struct with_gaps g = {.one = {c->op, dev, c->attrs}, .n_in = c->n_in};
    kiln_tensor *there[256];
    size_t n = 0;
    for (int i = 0; i < c->n_in; i++) {
        g.there[i] = in[i] != NULL;
        if (in[i]) there[n++] = in[i];
    }
    if (n_kept == KEPT) jit_drop_functions();
    kiln_function *f = kiln_jit(run_with_gaps, &g, NULL);
    if (!f) return kiln_error();
    give_numbers_back(c, dev);
    kiln_status status = kiln_call(f, there, n, out, (size_t)c->n_out);
    n_compiled += ops_in_programs(f);
    kept[n_kept++] = f;
    return status;
}

static kiln_status jit_apply(struct sink *s, struct op_call *c, kiln_device *dev, kiln_tensor *const *in,
                             kiln_tensor **out)
{
    thread_state.sink = NULL;
    bool captured = c->n_in <= 255 && is_tried();
    kiln_status status = captured ? call_captured(c, dev, in, out) : eager_sink.apply(&eager_sink, c, dev, in, out);
    thread_state.sink = s;
    return status;
}

static struct sink jit_sink = {.apply = jit_apply};

void jit_begin(void)
{
    thread_state.sink = &jit_sink;
}

uint64_t jit_end(void)
{
    thread_state.sink = NULL;
    jit_drop_functions();
    return n_compiled;
}
