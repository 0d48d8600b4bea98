// Ops with effects and regions for tests of graphs, and a graph with everything that the IR has.
#pragma once
#include "ir/graph.h"
#include <kiln/kiln.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static kiln_status infer_first(struct op_call *c)
{
    if (c->op->n_out) c->out[0] = *c->in[0];
    return KILN_OK;
}

static const struct op_functions first_functions = {.infer = infer_first}, no_functions = {0};
static const char *const sample_names[] = {"x", "y", "z", "w"};
static const struct attr_info sample_attrs[] = {{"n", ATTR_INT}, {"rate", ATTR_FLOAT}};
enum { SAMPLE_TEE, SAMPLE_PRINT, SAMPLE_LOOP, SAMPLE_EACH, SAMPLE_CHECK, SAMPLE_OPS };
static struct op sample_ops[SAMPLE_OPS] = {
    {.name = "sample.tee",
     .flags = OP_EFFECT | OP_SIGNLESS,
     .min_in = 1,
     .max_in = 2,
     .n_out = 1,
     .fn = &first_functions},
    {.name = "sample.print",
     .flags = OP_EFFECT | OP_SIGNLESS,
     .min_in = 1,
     .max_in = 1,
     .n_out = 0,
     .fn = &first_functions},
    {.name = "sample.loop", .min_in = 0, .max_in = 4, .n_out = 2, .n_attrs = 2, .fn = &no_functions},
    {.name = "sample.each", .flags = OP_EFFECT, .min_in = 1, .max_in = 1, .n_out = 1, .fn = &no_functions},
    {.name = "sample.check", .flags = OP_SIGNLESS, .min_in = 1, .max_in = 3, .n_out = 0, .fn = &first_functions},
};

static int sample_setup(void **state)
{
    for (int i = 0; i < SAMPLE_OPS; i++) {
        sample_ops[i].index = (uint16_t)(op_count + op_user_count());
        sample_ops[i].in_names = sample_names;
        sample_ops[i].attrs = sample_attrs;
        if (op_add(&sample_ops[i])) return -1;
    }
    return 0;
}

static inline struct type sample_type(uint8_t dtype, int rank, int64_t a, int64_t b)
{
    return (struct type){.dtype = dtype, .rank = (uint8_t)rank, .dims = {a, b}};
}

static inline struct attr sample_int(int64_t v)
{
    return (struct attr){.kind = ATTR_INT, .set = true, .i = v};
}

static inline struct attr sample_float(double v, bool set)
{
    return (struct attr){.kind = ATTR_FLOAT, .set = set, .f = v};
}

// A node whose outputs have the types that infer gives.
static inline int32_t sample_node(struct kiln_graph *g, const struct op *op, int n_in, const int32_t *in,
                                  struct attr *attrs, int32_t *token)
{
    const struct type *types[16] = {NULL};
    struct op_call c = {.op = op, .n_in = n_in, .n_out = op->n_out, .in = types, .attrs = attrs};
    for (int i = 0; i < n_in; i++) types[i] = in[i] < 0 ? NULL : &g->values.v[in[i]].type;
    if (op_infer(&c)) return -1;
    for (int i = 0; i < c.n_out; i++) {
        uint64_t size_B;
        if (type_size_B(&c.out[i], &size_B) || size_B > IR_MAX_NUMEL) {
            error_set(KILN_E_SHAPE, "too large for a graph");
            return -1;
        }
    }
    return token ? ir_add_effect(g, &c, in, token, 0) : ir_add_node(g, &c, in, 0);
}

static inline int32_t sample_owner(struct kiln_graph *g, int op, int n_in, const int32_t *in, const struct type *out,
                                   int32_t *token, int32_t first_region, int n_regions)
{
    struct attr attrs[] = {sample_int(-3), sample_float(0.1, false)};
    struct op_call c = {.op = &sample_ops[op], .n_in = n_in, .n_out = sample_ops[op].n_out, .attrs = attrs};
    for (int i = 0; i < c.n_out; i++) c.out[i] = *out;
    return ir_add_region_node(g, &c, in, token, 0, first_region, n_regions);
}

static inline int32_t sample_binary(struct kiln_graph *g, const char *name, int32_t a, int32_t b)
{
    return sample_node(g, op_find(name), 2, (int32_t[]){a, b}, NULL, NULL);
}

static inline int32_t sample_weak(struct kiln_graph *g, double x)
{
    struct type type = {.dtype = KILN_F64, .weak = true};
    return ir_add_number(g, &type, x, 0);
}

// A loop of two regions, the second with a loop of its own; values: the loop's first output.
static inline int32_t sample_loops(struct kiln_graph *g, int32_t x, int32_t held)
{
    struct type f = sample_type(KILN_F32, 2, 32, 3), i = sample_type(KILN_I64, 0, 0, 0);
    int32_t outer = ir_add_regions(g, 2), results[2];
    ir_region_begin(g, outer);
    int32_t p = ir_add_param(g, &f), count = ir_add_param(g, &i);
    ir_mark_symbol(g, p, 0, 0);
    results[0] =
        sample_binary(g, "less", count, ir_add_number(g, &(struct type){.dtype = KILN_I64, .weak = true}, 8, 8));
    ir_region_end(g, results, 1);
    ir_region_begin(g, outer + 1);
    p = ir_add_param(g, &f);
    int32_t inner = ir_add_regions(g, 2);
    ir_region_begin(g, inner);
    int32_t late = ir_add_named_constant(g, &f, "late");
    ir_region_end(g, (int32_t[]){late, x}, 2);
    ir_region_begin(g, inner + 1);
    results[0] = sample_binary(g, "mul", p, held);
    results[1] = sample_binary(g, "add", results[0], sample_weak(g, 2.5));
    ir_region_end(g, results, 2);
    int32_t made = sample_owner(g, SAMPLE_LOOP, 2, (int32_t[]){p, sample_weak(g, -0.0)}, &f, NULL, inner, 2);
    ir_region_end(g, (int32_t[]){made, made + 1}, 2);
    return sample_owner(g, SAMPLE_LOOP, 1, (int32_t[]){x}, &f, NULL, outer, 2);
}

static inline int32_t sample_effects(struct kiln_graph *g, int32_t x)
{
    struct type token = ir_token_type(), f = g->values.v[x].type;
    int32_t chain = -1;
    sample_node(g, &sample_ops[SAMPLE_PRINT], 1, &x, NULL, &chain);
    int32_t y = sample_node(g, &sample_ops[SAMPLE_TEE], 2, (int32_t[]){x, -1}, NULL, &chain);
    int32_t body = ir_add_regions(g, 1);
    ir_region_begin(g, body);
    int32_t inside = ir_add_param(g, &token);
    int32_t z = sample_node(g, &sample_ops[SAMPLE_TEE], 1, &y, NULL, &inside);
    ir_region_end(g, (int32_t[]){z, inside}, 2);
    int32_t made = sample_owner(g, SAMPLE_EACH, 1, &y, &f, &chain, body, 1);
    sample_node(g, &sample_ops[SAMPLE_CHECK], 2, (int32_t[]){made, -1}, NULL, NULL);
    return made;
}

// Numbers that are shared, of other dtypes, not among operands, infinite, not a number.
static inline int32_t sample_numbers(struct kiln_graph *g, int32_t x)
{
    struct type strict = {.dtype = KILN_F32}, bits = {.dtype = KILN_BOOL, .weak = true};
    int32_t shared = sample_weak(g, 1e300), f32 = ir_add_number(g, &strict, 0.1f, 0);
    int32_t one = ir_add_number(g, &(struct type){.dtype = KILN_U8, .weak = true}, 200, 200);
    x = sample_binary(g, "add", x, shared);
    x = sample_binary(g, "add", x, shared);
    x = sample_binary(g, "add", x, f32);
    x = sample_binary(g, "add", one, x);
    x = sample_binary(g, "add", x, sample_weak(g, -HUGE_VAL));
    x = sample_binary(g, "add", sample_weak(g, 1e15), x);
    union {
        uint64_t u;
        double f;
    } nan = {.u = 0xfff0000000000abcull};
    x = sample_binary(g, "add", x, sample_weak(g, nan.f));
    x = sample_binary(g, "add", sample_weak(g, (double)NAN), x);
    int32_t both = sample_weak(g, 0.1);
    sample_binary(g, "mul", both, sample_weak(g, 3));
    int32_t condition = ir_add_number(g, &bits, 1, 1);
    return sample_node(g, op_find("where"), 3, (int32_t[]){condition, x, x}, NULL, NULL);
}

static inline struct kiln_graph *sample_graph(void)
{
    struct kiln_graph *g = ir_graph_create();
    struct type f = sample_type(KILN_F32, 2, 32, 3);
    int32_t s = ir_add_symbol(g, "s0", 32);
    ir_add_symbol(g, "unused", 7);
    int32_t x = ir_add_input(g, &f, "x"), w = ir_add_input(g, &f, "a \"quoted\"\\ name\n\t\x01\xc3\xa9");
    int32_t held = ir_add_constant(g, &f, &f), bare = ir_add_named_constant(g, &f, "conv1.weight");
    ir_mark_symbol(g, x, 0, s);
    int32_t y = sample_loops(g, x, held);
    y = sample_effects(g, y);
    y = sample_numbers(g, sample_binary(g, "add", y, bare));
    struct attr sort_attrs[] = {sample_int(-1), {.kind = ATTR_BOOL, .set = true, .i = 1}};
    int32_t sorted = sample_node(g, op_find("sort"), 1, &y, sort_attrs, NULL);
    struct attr sum[] = {{.kind = ATTR_INTS, .set = true, .count = 2, .v = {0, -1}}, {.kind = ATTR_BOOL, .set = true}};
    int32_t total = sample_node(g, op_find("sum"), 1, &sorted, sum, NULL);
    struct attr norm[] = {sample_int(1), sample_float(1e-5, false)};
    sample_node(g, op_find("layer_norm"), 3, (int32_t[]){w, -1, -1}, norm, NULL);
    ir_add_write(g, sorted, x, "x");
    ir_add_output(g, total, "a \"total\"");
    ir_add_write(g, w, bare, "weight");
    ir_add_input(g, &f, "late");
    ir_add_output(g, sample_weak(g, 4), "four");
    return g;
}

static inline char *sample_text(const struct kiln_graph *g, void (*write)(const struct kiln_graph *, struct str *))
{
    struct str s;
    str_init(&s);
    write(g, &s);
    assert_int_equal(str_check(&s), KILN_OK);
    char *text = strdup(str_text(&s));
    str_free(&s);
    return text;
}

static inline void sample_fine(kiln_status status)
{
    if (status) fail_msg("%s: %s", kiln_status_name(status), kiln_error_message());
}

static inline uint64_t sample_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = *state ^ *state >> 33;
    return (x * 0xff51afd7ed558ccdu) >> 32;
}
