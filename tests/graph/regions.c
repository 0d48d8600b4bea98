// Nodes that own regions: random graphs of which runs of nodes are put into calls, nested, compute what they did; the
// pass that inlines gives the graph back; what is dead goes; what does not fit is told.
#include "graph_sample.h"
#include "jit/capture/replay.h"
#include "pass/pass.h"
#include "program/program.h"
#include <kiln/ops.h>

enum { GRAPHS = 400, N_INPUTS = 3, MOST = 64 };

static struct pass_options checked = {.verify = true};

static void run_pass(struct kiln_graph **g, const char *name)
{
    sample_fine(pass_run(pass_find(name), g, &checked, NULL));
}

// --- random graphs

struct random_graph {
    struct kiln_graph *g;
    uint64_t state;
    int32_t seen[MOST];
    int n_seen;
};

static uint32_t below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(sample_random(state) % n);
}

static int32_t one_of(struct random_graph *r)
{
    return r->seen[below(&r->state, (uint32_t)r->n_seen)];
}

static struct attr ints(int n, int64_t a, int64_t b)
{
    return (struct attr){.kind = ATTR_INTS, .set = true, .count = (uint8_t)n, .v = {a, b}};
}

// A node over values of f32[3,4] that gives such values.
static void add_some_node(struct random_graph *r)
{
    static const char *const binary[] = {"add", "mul", "sub", "maximum"}, *const unary[] = {"neg", "sin", "abs"};
    int32_t x = one_of(r), made;
    struct attr attrs[2];
    switch (below(&r->state, 8)) {
    case 0:
    case 1: made = sample_binary(r->g, binary[below(&r->state, 4)], x, one_of(r)); break;
    case 2:
        made = sample_binary(r->g, binary[below(&r->state, 4)], x, sample_weak(r->g, below(&r->state, 5) * 0.5));
        break;
    case 3: made = sample_node(r->g, op_find(unary[below(&r->state, 3)]), 1, &x, NULL, NULL); break;
    case 4: // a view of a view
        attrs[0] = ints(2, 1, 0);
        made = sample_node(r->g, op_find("permute"), 1, &x, attrs, NULL);
        attrs[0] = ints(2, 3, 4);
        made = sample_node(r->g, op_find("reshape"), 1, &made, attrs, NULL);
        break;
    case 5: // a row reduction, broadcast
        attrs[0] = ints(1, 1, 0);
        attrs[1] = (struct attr){.kind = ATTR_BOOL, .set = true, .i = 1};
        made = sample_node(r->g, op_find("sum"), 1, &x, attrs, NULL);
        made = sample_binary(r->g, "add", x, made);
        break;
    case 6: { // several outputs
        attrs[0] = sample_int(1);
        attrs[1] = (struct attr){.kind = ATTR_BOOL, .set = true, .i = below(&r->state, 2)};
        made = sample_node(r->g, op_find("sort"), 1, &x, attrs, NULL);
        break;
    }
    default: attrs[0] = sample_int(1); made = sample_node(r->g, op_find("softmax"), 1, &x, attrs, NULL);
    }
    if (made < 0) fail_msg("%s", kiln_error_message());
    r->seen[r->n_seen++] = made;
}

static struct kiln_graph *random_graph(uint64_t seed)
{
    struct random_graph r = {.g = ir_graph_create(), .state = seed};
    struct type f = sample_type(KILN_F32, 2, 3, 4);
    for (int i = 0; i < N_INPUTS; i++) r.seen[r.n_seen++] = ir_add_input(r.g, &f, (char[]){(char)('a' + i), 0});
    for (uint32_t n = 4 + below(&r.state, 24); n; n--) add_some_node(&r);
    for (int i = 0; i < 3; i++) ir_add_output(r.g, one_of(&r), "out");
    ir_add_output(r.g, r.seen[r.n_seen - 1], "last");
    sample_fine(ir_verify(r.g));
    return r.g;
}

// --- runs of nodes put into calls

struct outliner {
    const struct kiln_graph *from;
    struct kiln_graph *to;
    int32_t *map;  // values of `from`, as they are seen where nodes are added now
    int32_t *last; // of each value: the last node that reads it; INT32_MAX: an output does
    uint64_t *state;
    int n_calls, n_owners;
};

static int32_t mapped(struct outliner *o, int32_t v)
{
    const struct ir_value *x = &o->from->values.v[v];
    return x->kind == IR_NUMBER ? ir_add_number(o->to, &x->type, x->number, x->integer) : o->map[v];
}

static void copy_one(struct outliner *o, const struct ir_node *n)
{
    int32_t in[8];
    struct type out[2];
    for (int i = 0; i < n->n_in; i++) in[i] = mapped(o, ir_operands(o->from, n)[i]);
    for (int i = 0; i < n->n_out; i++) out[i] = o->from->values.v[n->first_out + i].type;
    const struct ir_new_node node = {
        .op = n->op, .attrs = n->attrs, .n_in = n->n_in, .n_out = n->n_out, .in = in, .out = out};
    int32_t first = ir_push_node(o->to, &node);
    assert_true(first >= 0);
    for (int i = 0; i < n->n_out; i++) o->map[n->first_out + i] = first + i;
}

static void copy_run(struct outliner *o, int32_t from, int32_t end, int depth);

// The nodes [from, end) as a call: some of what they read comes as parameters, the rest is seen; what later nodes read
// is a result, now and then what none does too.
static void call_run(struct outliner *o, int32_t from, int32_t end, int depth)
{
    const struct kiln_graph *g = o->from;
    size_t n_values = g->values.n;
    int32_t *around = malloc(n_values * sizeof *around), in[MOST], results[4 * MOST], of[4 * MOST], n_in = 0,
            n_results = 0;
    memcpy(around, o->map, n_values * sizeof *around);
    int32_t region = ir_add_regions(o->to, 1);
    sample_fine(ir_region_begin(o->to, region));
    for (int32_t v = 0; v < g->nodes.v[from].first_out && n_in < 12; v++) {
        if (g->values.v[v].kind == IR_NUMBER || around[v] < 0 || below(o->state, 3)) continue;
        in[n_in++] = around[v];
        o->map[v] = ir_add_param(o->to, &o->to->values.v[around[v]].type);
        assert_true(o->map[v] >= 0);
    }
    copy_run(o, from, end, depth + 1);
    int32_t last = g->nodes.v[end - 1].first_out + g->nodes.v[end - 1].n_out;
    for (int32_t v = g->nodes.v[from].first_out; v < last; v++) {
        if (g->values.v[v].kind != IR_NODE || o->map[v] < 0 || (o->last[v] < end && below(o->state, 4))) continue;
        of[n_results] = v;
        results[n_results++] = o->map[v];
    }
    sample_fine(ir_region_end(o->to, results, n_results));
    const struct op_call c = {.op = op_find("call"), .n_in = n_in};
    int32_t first = ir_add_region_node(o->to, &c, in, NULL, 0, region, 1);
    if (first < 0) fail_msg("%s", kiln_error_message());
    assert_int_equal(o->to->nodes.v[o->to->nodes.n - 1].n_out, n_results);
    for (int32_t v = g->nodes.v[from].first_out; v < last; v++) around[v] = -1;
    for (int32_t i = 0; i < n_results; i++) around[of[i]] = first + i;
    memcpy(o->map, around, n_values * sizeof *around);
    o->n_owners += depth > 0;
    o->n_calls++;
    free(around);
}

static void copy_run(struct outliner *o, int32_t from, int32_t end, int depth)
{
    for (int32_t i = from; i < end;) {
        int32_t n = 1 + (int32_t)below(o->state, (uint32_t)(end - i));
        if (depth < 4 && n < end - from && !below(o->state, 3)) {
            call_run(o, i, i + n, depth);
            i += n;
        } else
            copy_one(o, &o->from->nodes.v[i++]);
    }
}

static struct kiln_graph *outlined(const struct kiln_graph *g, uint64_t *state, int *n_calls, int *n_owners)
{
    struct outliner o = {.from = g, .to = ir_graph_create(), .state = state};
    o.map = malloc(g->values.n * sizeof *o.map);
    o.last = malloc(g->values.n * sizeof *o.last);
    memset(o.map, -1, g->values.n * sizeof *o.map);
    memset(o.last, -1, g->values.n * sizeof *o.last);
    for (size_t i = 0; i < g->nodes.n; i++)
        for (int32_t k = 0; k < g->nodes.v[i].n_in; k++) o.last[ir_operands(g, &g->nodes.v[i])[k]] = (int32_t)i;
    for (size_t i = 0; i < g->outputs.n; i++) o.last[g->outputs.v[i].value] = INT32_MAX;
    for (size_t i = 0; i < g->values.n; i++) {
        const struct ir_value *v = &g->values.v[i];
        if (v->kind == IR_INPUT) o.map[i] = ir_add_input(o.to, &v->type, v->name);
    }
    copy_run(&o, 0, (int32_t)g->nodes.n, 0);
    for (size_t i = 0; i < g->outputs.n; i++)
        sample_fine(ir_add_output(o.to, o.map[g->outputs.v[i].value], g->outputs.v[i].name));
    sample_fine(ir_verify(o.to));
    *n_calls += o.n_calls;
    *n_owners += o.n_owners;
    free(o.map);
    free(o.last);
    return o.to;
}

static struct kiln_graph *copy_of(const struct kiln_graph *g)
{
    char *text = sample_text(g, ir_graph_file_text);
    struct kiln_graph *copy = ir_parse(text, strlen(text), "copy");
    if (!copy) fail_msg("%s in\n%s", kiln_error_message(), text);
    assert_true(ir_graph_equal(g, copy));
    free(text);
    return copy;
}

static void calls_inline_to_what_they_were(void **state)
{
    int n_calls = 0, n_nested = 0;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        uint64_t random = seed;
        struct kiln_graph *g = random_graph(seed), *calls = outlined(g, &random, &n_calls, &n_nested);
        struct kiln_graph *again = copy_of(calls), *pruned = copy_of(calls);
        assert_true(!calls->regions.n || ir_graph_hash(calls) != ir_graph_hash(g));
        run_pass(&calls, "inline");
        run_pass(&g, "inline"); // a copy with numbers in their places
        assert_int_equal(calls->regions.n, 0);
        assert_true(ir_graph_equal(calls, g));
        // What is dead goes within calls as it does without them.
        run_pass(&pruned, "dce");
        struct kiln_graph *flat = copy_of(pruned);
        run_pass(&flat, "inline");
        run_pass(&g, "dce");
        assert_true(ir_graph_equal(flat, g));
        for (size_t i = 0; i < pruned->nodes.n; i++)
            if (pruned->nodes.v[i].n_regions) assert_true(pruned->nodes.v[i].n_out > 0);
        for (int i = 0; i < pass_count; i++) sample_fine(pass_run(i, &again, &checked, NULL));
        ir_graph_destroy(&again);
        ir_graph_destroy(&pruned);
        ir_graph_destroy(&flat);
        ir_graph_destroy(&calls);
        ir_graph_destroy(&g);
    }
    print_message("%d calls, %d of them in others\n", n_calls, n_nested);
    assert_true(n_calls > GRAPHS && n_nested > GRAPHS / 4);
}

// --- values

static void equal_bits(kiln_tensor *a, kiln_tensor *b, uint64_t seed, const char *what)
{
    float x[12], y[12];
    assert_int_equal(kiln_read(a, x, sizeof x), KILN_OK);
    assert_int_equal(kiln_read(b, y, sizeof y), KILN_OK);
    if (memcmp(x, y, sizeof x)) fail_msg("graph %d: %s gives other values", (int)seed, what);
}

static void calls_compute_what_they_did(void **state)
{
    kiln_device *dev = kiln_device_open("cpu");
    int unused = 0;
    for (uint64_t seed = 1; seed <= GRAPHS / 4; seed++) {
        kiln_scope *scope = kiln_scope_begin();
        uint64_t random = seed;
        struct kiln_graph *g = random_graph(seed), *calls = outlined(g, &random, &unused, &unused);
        kiln_tensor *in[N_INPUTS], *want[4], *got[4], *made[4], *flat[4];
        for (int i = 0; i < N_INPUTS; i++) {
            kiln_tensor *line = kiln_arange(dev, KILN_F32, 0, 12, 1);
            in[i] = kiln_reshape(kiln_sin(kiln_mul(line, kiln_scalar(i + 1.5))), 2, (int64_t[]){3, 4});
        }
        struct program *p = NULL, *q = NULL;
        const struct rng rng = {0};
        assert_int_equal(graph_replay(g, dev, in, &rng, want), KILN_OK);
        if (graph_replay(calls, dev, in, &rng, got)) fail_msg("%s", kiln_error_message());
        sample_fine(program_create(g, dev, NULL, NULL, &p));
        sample_fine(program_create(calls, dev, NULL, NULL, &q));
        sample_fine(program_run(p, in, &rng, flat));
        sample_fine(program_run(q, in, &rng, made));
        for (int i = 0; i < 4; i++) {
            equal_bits(want[i], got[i], seed, "the replay");
            equal_bits(flat[i], made[i], seed, "the program");
        }
        program_destroy(&p);
        program_destroy(&q);
        ir_graph_destroy(&calls);
        ir_graph_destroy(&g);
        kiln_scope_end(&scope);
    }
    kiln_device_close(&dev);
}

// --- what does not fit

static int32_t call_over(struct kiln_graph *g, int n_in, const int32_t *in, const struct type *params, int n_params,
                         int n_regions)
{
    int32_t region = ir_add_regions(g, n_regions), results[1];
    for (int i = 0; i < n_regions; i++) {
        sample_fine(ir_region_begin(g, region + i));
        for (int k = 0; k < n_params; k++) results[0] = ir_add_param(g, &params[k]);
        sample_fine(ir_region_end(g, results, n_params > 0));
    }
    const struct op_call c = {.op = op_find("call"), .n_in = n_in};
    return ir_add_region_node(g, &c, in, NULL, 0, region, n_regions);
}

static void mistakes_are_told(void **state)
{
    struct type f = sample_type(KILN_F32, 2, 3, 4), h = sample_type(KILN_F32, 2, 3, 5),
                i = sample_type(KILN_I64, 2, 3, 4), v = sample_type(KILN_F32, 1, 3, 0);
    const struct {
        const struct type *param;
        int n_params, n_regions;
        kiln_status status;
        const char *message;
    } cases[] = {
        {&f, 2, 1, KILN_E_ARGUMENT, "call: region 0 has 2 parameters, there are 1 operands"},
        {&f, 0, 1, KILN_E_ARGUMENT, "call: region 0 has 0 parameters, there are 1 operands"},
        {&f, 1, 2, KILN_E_ARGUMENT, "call: there are 2 regions, not one"},
        {&h, 1, 1, KILN_E_SHAPE,
         "call: operand 0 is f32[3,4], the region's parameter 0 is f32[3,5]: they differ in dimension 1"},
        {&v, 1, 1, KILN_E_SHAPE, "they differ in rank"},
        {&i, 1, 1, KILN_E_DTYPE,
         "call: operand 0 is f32[3,4], the region's parameter 0 is i64[3,4]: they differ in dtype"},
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        struct kiln_graph *g = ir_graph_create();
        int32_t x = ir_add_input(g, &f, "x");
        struct type params[2] = {*cases[k].param, *cases[k].param};
        assert_int_equal(call_over(g, 1, &x, params, cases[k].n_params, cases[k].n_regions), -1);
        assert_int_equal(kiln_error(), cases[k].status);
        if (!strstr(kiln_error_message(), cases[k].message)) fail_msg("\"%s\"", kiln_error_message());
        kiln_error_clear();
        ir_graph_destroy(&g);
    }
}

// A graph that was made well, and changed.
static void the_verifier_asks_the_rule(void **state)
{
    struct type f = sample_type(KILN_F32, 2, 3, 4);
    struct kiln_graph *g = ir_graph_create();
    int32_t x = ir_add_input(g, &f, "x"), y = call_over(g, 1, &x, &f, 1, 1);
    sample_fine(ir_add_output(g, y, "y"));
    sample_fine(ir_verify(g));
    struct ir_value *param = &g->values.v[g->regions.v[0].first_param];
    param->type.dims[0] = 4;
    assert_int_equal(ir_verify(g), KILN_E_SHAPE);
    kiln_error_clear();
    param->type.dims[0] = 3;
    g->values.v[y].type.dtype = KILN_F64;
    assert_int_equal(ir_verify(g), KILN_E_FORMAT);
    assert_non_null(strstr(kiln_error_message(), "output 0 is f64[3,4], call gives f32[3,4]"));
    kiln_error_clear();
    g->values.v[y].type.dtype = KILN_F32;
    g->regions.v[0].n_results = 0;
    assert_int_equal(ir_verify(g), KILN_E_FORMAT);
    assert_non_null(strstr(kiln_error_message(), "call has 1 outputs, its regions give 0"));
    kiln_error_clear();
    g->regions.v[0].n_results = 1;
    g->nodes.v[0].n_out = 2;
    assert_int_equal(ir_verify(g), KILN_E_FORMAT);
    kiln_error_clear();
    ir_graph_destroy(&g);
}

// Sizes that vary are marked through a call, into its region and out of it.
static void marks_go_through(void **state)
{
    struct type f = sample_type(KILN_F32, 2, 3, 4);
    struct kiln_graph *g = ir_graph_create();
    ir_add_symbol(g, "n", 3);
    int32_t x = ir_add_input(g, &f, "x");
    ir_mark_symbol(g, x, 0, 0);
    int32_t y = call_over(g, 1, &x, &f, 1, 1);
    sample_fine(ir_add_output(g, y, "y"));
    run_pass(&g, "types");
    const struct ir_value *param = &g->values.v[g->regions.v[0].first_param],
                          *out = &g->values.v[g->outputs.v[0].value];
    assert_true(param->symbols && param->symbols[0] == 1 && !param->symbols[1]);
    assert_true(out->symbols && out->symbols[0] == 1 && !out->symbols[1]);
    ir_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_inline_to_what_they_were),
        cmocka_unit_test(calls_compute_what_they_did),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(the_verifier_asks_the_rule),
        cmocka_unit_test(marks_go_through),
    };
    return cmocka_run_group_tests(tests, sample_setup, NULL);
}
