// The verifier: every way to break a graph is seen, and no broken graph makes it read outside.
#include "graph_sample.h"

// Numbers in sample_graph: see tests/golden/graph/everything.kiln.
enum {
    VALUE_X = 0,
    VALUE_CONSTANT = 2,
    VALUE_PARAM = 4,
    VALUE_ENTRY = 18,
    VALUE_PRINTED = 19,
    VALUE_TEED = 20,
    VALUE_CHAIN = 21,
    VALUE_SORTED = 48,
    VALUE_WEAK = 28,
};

static struct ir_node *node_of(struct kiln_graph *g, const char *op)
{
    for (size_t i = 0; i < g->nodes.n; i++)
        if (!strcmp(g->nodes.v[i].op->name, op)) return &g->nodes.v[i];
    fail_msg("there is no %s", op);
    return NULL;
}

static int32_t *operands_of(struct kiln_graph *g, const char *op)
{
    return g->operands.v + node_of(g, op)->first_in;
}

static struct attr *attrs_of(struct kiln_graph *g, const char *op)
{
    struct ir_node *n = node_of(g, op);
    struct attr *copy = arena_alloc(&g->arena, sizeof *copy * (size_t)(n->op->n_attrs + 1));
    memcpy(copy, n->attrs, sizeof *copy * n->op->n_attrs);
    n->attrs = copy;
    return copy;
}

#define BREAKS                                                                                                       \
    X(operand_outside, operands_of(g, "less")[0] = 1000, "does not exist")                                           \
    X(operand_negative, operands_of(g, "less")[0] = -2, "does not exist")                                            \
    X(operand_absent, operands_of(g, "less")[0] = -1, "must not be absent")                                          \
    X(operand_own_output, operands_of(g, "sort")[0] = node_of(g, "sort")->first_out, "defined later")                \
    X(operand_later, operands_of(g, "less")[0] = VALUE_SORTED, "defined later")                                      \
    X(operand_of_other_region, operands_of(g, "sort")[0] = VALUE_PARAM, "does not surround")                         \
    X(operand_token, operands_of(g, "sort")[0] = VALUE_CHAIN, "which was taken before")                              \
    X(operand_free_token, operands_of(g, "sort")[0] = VALUE_CHAIN + 5, "is a token")                                 \
    X(token_missing, operands_of(g, "sample.print")[1] = VALUE_X, "is no token")                                     \
    X(token_twice, operands_of(g, "sample.tee")[2] = VALUE_ENTRY, "taken before")                                    \
    X(token_dropped, node_of(g, "sample.tee")->n_in = 1, "1 to 2 tensors and a token")                               \
    X(operands_outside, node_of(g, "sort")->first_in = (int32_t)g->operands.n, "operands of node")                   \
    X(operands_negative, node_of(g, "sort")->n_in = -1, "operands of node")                                          \
    X(operands_wrap, node_of(g, "sort")->n_in = INT32_MAX, "operands of node")                                       \
    X(too_many_operands, node_of(g, "relu")->n_in = 2, "takes 1 to 1")                                               \
    X(too_few_operands, node_of(g, "where")->n_in = 2, "takes 3 to 3")                                               \
    X(outputs_outside, node_of(g, "sum")->first_out = (int32_t)g->values.n, "outputs of node")                       \
    X(outputs_negative, node_of(g, "sum")->first_out = -1, "outputs of node")                                        \
    X(outputs_of_another, node_of(g, "sum")->first_out = VALUE_SORTED, "is not what node")                           \
    X(output_number, g->values.v[VALUE_SORTED].out = 1, "is not what node")                                          \
    X(output_node, g->values.v[VALUE_SORTED].node = 0, "is not what node")                                           \
    X(output_kind, g->values.v[VALUE_SORTED].kind = IR_CONSTANT, "is not what node")                                 \
    X(no_op, node_of(g, "sum")->op = NULL, "has no op")                                                              \
    X(swapped_nodes, swap_nodes(g), "comes before values of nodes before it")                                        \
    X(input_as_node, (g->values.v[VALUE_X].kind = IR_NODE, g->values.v[VALUE_X].name = NULL), "made by node -1")     \
    X(input_as_param, (g->values.v[VALUE_X].kind = IR_PARAM, g->values.v[VALUE_X].name = NULL), "region -1")         \
    X(constant_as_param, (g->values.v[VALUE_CONSTANT].kind = IR_PARAM, g->values.v[VALUE_CONSTANT].node = 0),        \
      "is no parameter of region 0")                                                                                 \
    X(input_without_name, g->values.v[VALUE_X].name = NULL, "has no name")                                           \
    X(node_with_name, g->values.v[VALUE_SORTED].name = "y", "has a name")                                            \
    X(unknown_kind, g->values.v[VALUE_CONSTANT].kind = 9, "kind 9")                                                  \
    X(number_with_rank, g->values.v[VALUE_WEAK].type.rank = 1, "has a rank")                                         \
    X(entry_no_token, g->values.v[VALUE_ENTRY].type.dtype = KILN_F32, "no token")                                    \
    X(entry_twice, (g->values.v[VALUE_WEAK].kind = IR_TOKEN, g->values.v[VALUE_WEAK].type = ir_token_type()),        \
      "a second entry")                                                                                              \
    X(token_with_rank, g->values.v[VALUE_CHAIN].type.rank = 2, "has a rank")                                         \
    X(token_output_typed, g->values.v[VALUE_PRINTED].type.dtype = KILN_F32,                                          \
      "output 0 is f32[], sample.print gives token")                                                                 \
    X(dtype_unknown, g->values.v[VALUE_X].type.dtype = 31, "dtype 31")                                               \
    X(rank_too_high, g->values.v[VALUE_X].type.rank = MAX_RANK + 1, "has rank 17")                                   \
    X(size_negative, g->values.v[VALUE_X].type.dims[1] = -1, "dimension 1 is -1")                                    \
    X(size_overflows, g->values.v[VALUE_X].type.dims[1] = INT64_MAX, "2^48")                                         \
    X(output_dtype, g->values.v[VALUE_SORTED].type.dtype = KILN_F16, "output 0 is f16[32,3], sort gives f32[32,3]")  \
    X(output_shape, g->values.v[VALUE_SORTED].type.dims[0] = 31, "output 0 is f32[31,3], sort gives f32[32,3]")      \
    X(output_rank, g->values.v[VALUE_SORTED].type.rank = 1, "sort gives")                                            \
    X(output_weak, g->values.v[VALUE_SORTED].type.weak = true, "is weak f32[32,3], sort gives f32[32,3]")            \
    X(infer_refuses, g->values.v[VALUE_X + 3].type.dims[1] = 5, "shapes do not broadcast")                           \
    X(attr_kind, attrs_of(g, "sort")[0].kind = ATTR_FLOAT, "axis of sort is of another kind")                        \
    X(attr_count, attrs_of(g, "sum")[0].count = MAX_RANK + 1, "axes of sum has 17 entries")                          \
    X(attr_bool, attrs_of(g, "sort")[1].i = 2, "descending of sort is 2, no bool")                                   \
    X(attr_axis, attrs_of(g, "sort")[0].i = 7, "sort: axis")                                                         \
    X(attrs_missing, node_of(g, "sort")->attrs = NULL, "lacks its attributes")                                       \
    X(node_region, node_of(g, "sort")->region = 99, "is in region 99")                                               \
    X(node_region_negative, node_of(g, "sort")->region = -2, "is in region -2")                                      \
    X(node_says_inside, node_of(g, "sort")->region = 0, "lies outside")                                              \
    X(node_says_outside, node_of(g, "less")->region = -1, "region 0 holds 1 nodes, 0 say so")                        \
    X(node_says_outer, node_of(g, "mul")->region = 1, "region 1 holds 3 nodes, 4 say so")                            \
    X(owner_says_inner, node_of(g, "sample.loop")->region = g->nodes.v[1].region, "lies outside")                    \
    X(regions_outside, node_of(g, "sample.loop")->first_region = 99, "regions of node")                              \
    X(regions_negative, node_of(g, "sample.loop")->n_regions = -1, "regions of node")                                \
    X(regions_shared, share_regions(g), "not among those")                                                           \
    X(regions_given, (node_of(g, "sort")->n_regions = 1, node_of(g, "sort")->first_region = 0), "not owned by node") \
    X(regions_dropped, node_of(g, "sample.each")->n_regions = 0, "not among those of node")                          \
    X(region_owner, g->regions.v[0].owner = 1, "not among those of node 1")                                          \
    X(region_owner_outside, g->regions.v[0].owner = -1, "owned by node -1")                                          \
    X(region_nodes, g->regions.v[0].n_nodes = 2, "do not end at node")                                               \
    X(region_nodes_negative, g->regions.v[0].first_node = -1, "do not lie before node")                              \
    X(region_nodes_late, g->regions.v[0].n_nodes = 1000, "do not lie before node")                                   \
    X(region_params, g->regions.v[0].n_params = 1, "is no parameter of region 0")                                    \
    X(region_params_more, g->regions.v[0].n_params = 3, "is no parameter of region 0")                               \
    X(region_params_outside, g->regions.v[0].n_params = 1000, "parameters or results of region")                     \
    X(region_params_moved, g->regions.v[2].first_param = 12, "not between")                                          \
    X(region_params_early, g->regions.v[2].first_param = 0, "not between")                                           \
    X(region_results_outside, g->regions.v[0].first_result = 10000, "parameters or results of region")               \
    X(region_results_fewer, g->regions.v[3].n_results = 1, "has 2 outputs, its last region gives 1")                 \
    X(region_result_unknown, g->operands.v[g->regions.v[0].first_result] = 1000, "does not exist")                   \
    X(region_result_absent, g->operands.v[g->regions.v[0].first_result] = -1, "does not exist")                      \
    X(region_result_later, g->operands.v[g->regions.v[0].first_result] = VALUE_SORTED, "defined later")              \
    X(region_result_of_other, g->operands.v[g->regions.v[1].first_result] = VALUE_PARAM, "does not surround")        \
    X(region_result_type, g->operands.v[g->regions.v[1].first_result] = VALUE_X + 1, NULL)                           \
    X(region_result_token, g->operands.v[g->regions.v[4].first_result + 1] = VALUE_CHAIN, "token")                   \
    X(region_open, ir_region_begin(g, ir_add_regions(g, 1)), "a region is open")                                     \
    X(region_of_none, ir_add_regions(g, 1), "owned by node -1")                                                      \
    X(last_region_type, g->values.v[16].type.dims[0] = 31, "output 0 is f32[31,3], sample.loop gives f32[32,3]")     \
    X(symbol_size, g->symbols.v[0].size = 31, "symbol s0 is 31")                                                     \
    X(symbol_negative, g->symbols.v[1].size = -1, "size below 0")                                                    \
    X(symbol_no_name, g->symbols.v[1].name = NULL, "has no name")                                                    \
    X(symbol_twice, g->symbols.v[1].name = "s0", "two symbols s0")                                                   \
    X(symbol_unknown, mark(g, 3), "names symbol 2")                                                                  \
    X(symbol_mark_negative, mark(g, -1), "names symbol -2")                                                          \
    X(symbol_of_other_size, mark(g, 2), "symbol unused is 7")                                                        \
    X(return_outside, g->outputs.v[1].value = 1000, "does not exist")                                                \
    X(return_absent, g->outputs.v[1].value = -1, "does not exist")                                                   \
    X(return_token, g->outputs.v[1].value = 26, "is a token")                                                        \
    X(return_from_region, g->outputs.v[1].value = VALUE_PARAM, "does not surround")                                  \
    X(return_without_name, g->outputs.v[1].name = NULL, "has no name")                                               \
    X(write_outside, g->outputs.v[0].target = 1000, "written to value 1000")                                         \
    X(write_negative, g->outputs.v[0].target = -2, "written to value -2")                                            \
    X(write_to_node, g->outputs.v[0].target = VALUE_SORTED, "neither input nor constant")                            \
    X(write_other_type, g->outputs.v[0].value = VALUE_SORTED + 1, "of another type")

static void swap_nodes(struct kiln_graph *g)
{
    struct ir_node *a = node_of(g, "sum"), *b = node_of(g, "layer_norm"), old = *a;
    int32_t at = g->values.v[a->first_out].node, other = g->values.v[b->first_out].node;
    g->values.v[a->first_out].node = other;
    g->values.v[b->first_out].node = at;
    *a = *b;
    *b = old;
}

static void share_regions(struct kiln_graph *g)
{
    struct ir_node *inner = node_of(g, "sample.loop");
    inner->first_region = 0;
}

static void mark(struct kiln_graph *g, int16_t symbol)
{
    int16_t *marks = arena_alloc(&g->arena, 2 * sizeof *marks);
    marks[0] = symbol;
    g->values.v[VALUE_X + 1].symbols = marks;
}

#define X(name, change, message)           \
    static void name(struct kiln_graph *g) \
    {                                      \
        change;                            \
    }
BREAKS
#undef X

static void each_break_is_seen(void **state)
{
    static const struct {
        const char *name;
        void (*change)(struct kiln_graph *g);
        const char *message;
    } breaks[] = {
#define X(name, change, message) {#name, name, message},
        BREAKS
#undef X
    };
    int wrong = 0;
    for (size_t i = 0; i < COUNT_OF(breaks); i++) {
        struct kiln_graph *g = sample_graph();
        int32_t x = node_of(g, "sort")->first_out;
        assert_int_equal(x, VALUE_SORTED);
        sample_node(g, op_find("relu"), 1, &x, NULL, NULL);
        sample_node(g, op_find("exp"), 1, &x, NULL, NULL);
        sample_fine(ir_verify(g));
        breaks[i].change(g);
        kiln_status status = ir_verify(g);
        if (breaks[i].message ? !status || !strstr(kiln_error_message(), breaks[i].message) : status) {
            print_error("%s gives \"%s\", not \"%s\"\n", breaks[i].name, kiln_error_message(), breaks[i].message);
            wrong++;
        }
        kiln_error_clear();
        ir_graph_destroy(&g);
    }
    assert_int_equal(wrong, 0);
}

static void errors_name_the_node(void **state)
{
    struct kiln_graph *g = sample_graph();
    int32_t node;
    g->values.v[VALUE_SORTED].type.dims[0] = 31;
    assert_int_equal(ir_verify_node_of(g, &node), KILN_E_FORMAT);
    assert_string_equal(g->nodes.v[node].op->name, "sort");
    assert_true(!strncmp(kiln_error_message(), "%48: f32[31,3], %49: i64[32,3] = sort(%47) {axis = -1,", 50));
    assert_int_equal(ir_verify(g), KILN_E_FORMAT);
    kiln_error_clear();
    ir_graph_destroy(&g);
}

static int32_t some_number(uint64_t *random, size_t n)
{
    static const int32_t far[] = {-1, -2, INT32_MAX, INT32_MIN, 0, 1, 1 << 20};
    if (sample_random(random) % 3 == 0) return far[sample_random(random) % COUNT_OF(far)];
    return (int32_t)(sample_random(random) % (n + 2));
}

// One random number of the graph becomes another.
static void corrupt(struct kiln_graph *g, uint64_t *random)
{
    int32_t number = some_number(random, g->values.n);
    struct ir_node *n = &g->nodes.v[sample_random(random) % g->nodes.n];
    struct ir_value *v = &g->values.v[sample_random(random) % g->values.n];
    struct ir_region *r = &g->regions.v[sample_random(random) % g->regions.n];
    struct ir_output *o = &g->outputs.v[sample_random(random) % g->outputs.n];
    int32_t *const places[] = {
        &n->n_in,
        &n->first_in,
        &n->first_out,
        &n->region,
        &n->n_regions,
        &n->first_region,
        &v->node,
        &r->owner,
        &r->first_param,
        &r->n_params,
        &r->first_node,
        &r->n_nodes,
        &r->first_result,
        &r->n_results,
        &o->value,
        &o->target,
        &g->operands.v[sample_random(random) % g->operands.n],
    };
    size_t which = sample_random(random) % (COUNT_OF(places) + 5);
    if (which < COUNT_OF(places))
        *places[which] = number;
    else if (which == COUNT_OF(places))
        v->kind = (uint8_t)(sample_random(random) % 8);
    else if (which == COUNT_OF(places) + 1)
        v->type.dtype = (uint8_t)(sample_random(random) % 17);
    else if (which == COUNT_OF(places) + 2)
        v->type.rank = (uint8_t)(sample_random(random) % 10);
    else if (which == COUNT_OF(places) + 3)
        v->out = (uint8_t)(sample_random(random) % 4);
    else
        v->type.dims[sample_random(random) % 2] = number;
}

static void random_breaks_are_harmless(void **state)
{
    enum { CASES = 20000 };
    uint64_t random = 7;
    int kept = 0;
    for (int i = 0; i < CASES; i++) {
        struct kiln_graph *g = sample_graph();
        for (int k = 1 + (int)(sample_random(&random) % 3); k; k--) corrupt(g, &random);
        if (!ir_verify(g)) {
            kept++;
            char *text = sample_text(g, ir_graph_text), *dot = sample_text(g, ir_graph_dot_text);
            struct kiln_graph *again = ir_parse(text, strlen(text), "broken");
            if (!again) fail_msg("case %d: %s\n%s", i, kiln_error_message(), text);
            assert_true(ir_graph_equal(g, again));
            ir_graph_destroy(&again);
            free(text);
            free(dot);
        }
        kiln_error_clear();
        ir_graph_destroy(&g);
    }
    print_message("%d of %d broken graphs are legal ones\n", kept, CASES);
    assert_true(kept > 0 && kept < CASES / 2);
}

static void builders_refuse_what_is_out_of_turn(void **state)
{
    struct kiln_graph *g = ir_graph_create();
    struct type f = sample_type(KILN_F32, 1, 4, 0);
    struct op_call c = {.op = &sample_ops[SAMPLE_CHECK]};
    int32_t x = ir_add_input(g, &f, "x"), chain = -1, r;
#define REFUSED(call, code, message)                                                      \
    do {                                                                                  \
        (void)(call);                                                                     \
        assert_int_equal(kiln_error(), code);                                             \
        if (!strstr(kiln_error_message(), message)) fail_msg("%s", kiln_error_message()); \
        kiln_error_clear();                                                               \
    } while (0)
    REFUSED(ir_region_begin(g, 0), KILN_E_STATE, "region 0 does not exist");
    REFUSED(ir_add_param(g, &f), KILN_E_STATE, "outside regions");
    REFUSED(ir_region_end(g, NULL, 0), KILN_E_STATE, "no region is open");
    r = ir_add_regions(g, 2);
    assert_int_equal(ir_region_begin(g, r), KILN_OK);
    REFUSED(ir_region_begin(g, r), KILN_E_STATE, "was begun before");
    REFUSED(ir_add_region_node(g, &c, NULL, NULL, 0, r, 1), KILN_E_STATE, "not finished");
    ir_add_named_constant(g, &f, NULL);
    REFUSED(ir_add_param(g, &f), KILN_E_STATE, "after other values");
    assert_int_equal(ir_region_end(g, NULL, 0), KILN_OK);
    REFUSED(ir_add_region_node(g, &c, NULL, NULL, 0, r, 2), KILN_E_STATE, "region 1 of sample.check");
    REFUSED(ir_add_effect(g, &c, NULL, &chain, 0), KILN_E_ARGUMENT, "no effect to order");
    assert_int_equal(chain, -1);
    REFUSED(ir_name_value(g, 99, "y"), KILN_E_ARGUMENT, "has no name");
    REFUSED(ir_name_value(g, sample_weak(g, 1), "y"), KILN_E_ARGUMENT, "has no name");
    assert_int_equal(ir_name_value(g, x, "y"), KILN_OK);
    assert_string_equal(g->values.v[x].name, "y");
    assert_int_equal(ir_add_symbol(g, "n", 4), 0);
    assert_int_equal(ir_add_symbol(g, "n", 4), 0);
    REFUSED(ir_add_symbol(g, "n", 5), KILN_E_SHAPE, "symbol n is 5 here, it was 4");
    REFUSED(ir_add_symbol(g, "a b", 5), KILN_E_ARGUMENT, "names are words");
    REFUSED(ir_add_symbol(g, "m", -5), KILN_E_ARGUMENT, "cannot be symbol");
    assert_int_equal(ir_add_symbol(g, "m", 5), 1);
    REFUSED(ir_mark_symbol(g, x, 0, 1), KILN_E_SHAPE, "is 4, symbol m is 5");
    REFUSED(ir_mark_symbol(g, x, 1, 0), KILN_E_ARGUMENT, "no dimension 1");
    REFUSED(ir_mark_symbol(g, x, 0, 2), KILN_E_ARGUMENT, "no symbol 2");
    assert_int_equal(ir_mark_symbol(g, x, 0, 0), KILN_OK);
    for (int i = 0; i < IR_MAX_DEPTH; i++) assert_int_equal(ir_region_begin(g, ir_add_regions(g, 1)), KILN_OK);
    REFUSED(ir_region_begin(g, ir_add_regions(g, 1)), KILN_E_UNSUPPORTED, "more than 64 deep");
    ir_graph_destroy(&g);
    ir_graph_destroy(&g);
    ir_graph_destroy(NULL);
}

static void a_constant_is_added_once(void **state)
{
    enum { CONSTANTS = 5000 };
    static char held[CONSTANTS];
    struct kiln_graph *g = ir_graph_create();
    struct type f = sample_type(KILN_F32, 1, 4, 0), i = sample_type(KILN_I64, 1, 4, 0);
    for (int round = 0; round < 2; round++)
        for (int k = 0; k < CONSTANTS; k++) {
            assert_int_equal(ir_add_constant(g, &f, held + k), 2 * k);
            assert_int_equal(ir_add_constant(g, &i, held + k), 2 * k + 1);
        }
    assert_int_equal(g->values.n, 2 * CONSTANTS);
    sample_fine(ir_verify(g));
    ir_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_break_is_seen),         cmocka_unit_test(errors_name_the_node),
        cmocka_unit_test(random_breaks_are_harmless), cmocka_unit_test(builders_refuse_what_is_out_of_turn),
        cmocka_unit_test(a_constant_is_added_once),
    };
    return cmocka_run_group_tests(tests, sample_setup, NULL);
}
