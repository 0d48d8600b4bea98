// Random graphs over the whole op table: what infer allows is built, verified, printed, parsed back and compared.
#include "graph_sample.h"

enum { GRAPHS = 2000, MAX_VALUES = 64, ATTEMPTS = 60 };

struct maker {
    struct kiln_graph *g;
    uint64_t random;
    int32_t seen[MAX_VALUES]; // tensors that may be used where the maker stands
    int n_seen;
    int32_t token; // of the chain where the maker stands; -1: it has not begun
    bool has_chain;
    int budget;
};

static bool op_made[1024];
static uint64_t refused_count;

static uint32_t below(struct maker *m, uint32_t n)
{
    return (uint32_t)(sample_random(&m->random) % n);
}

static void see(struct maker *m, int32_t value)
{
    if (m->n_seen < MAX_VALUES)
        m->seen[m->n_seen++] = value;
    else
        m->seen[below(m, MAX_VALUES)] = value;
}

static struct type some_type(struct maker *m)
{
    static const int64_t sizes[] = {0, 1, 2, 2, 3, 3, 4};
    static const uint8_t dtypes[] = {KILN_F32, KILN_F32, KILN_F32, KILN_F64, KILN_I64, KILN_I64, KILN_BOOL};
    struct type t = {.rank = (uint8_t)(below(m, 3) ? below(m, 5) : 4)};
    t.dtype = below(m, 3) ? dtypes[below(m, COUNT_OF(dtypes))] : (uint8_t)below(m, DTYPE_COUNT);
    for (int i = 0; i < t.rank; i++) t.dims[i] = sizes[below(m, COUNT_OF(sizes))];
    return t;
}

static double some_float(struct maker *m)
{
    static const double special[] = {0, -0.0, 1, 0.5, -2, 1e-5, 1e300, -1e-310, (double)INFINITY, -(double)INFINITY};
    if (below(m, 2)) return special[below(m, COUNT_OF(special))];
    union {
        uint64_t u;
        double f;
    } any = {.u = (uint64_t)below(m, UINT32_MAX) << 32 | below(m, UINT32_MAX)};
    return any.f;
}

static int32_t some_number(struct maker *m)
{
    static const uint8_t dtypes[] = {KILN_F64, KILN_I64, KILN_BOOL};
    struct type t = {.dtype = dtypes[below(m, 3)], .weak = true};
    if (!below(m, 8)) t = (struct type){.dtype = (uint8_t)below(m, DTYPE_COUNT), .weak = below(m, 2)};
    int64_t i = below(m, 4) ? (int64_t)below(m, 9) - 4 : (int64_t)below(m, UINT32_MAX) << 31;
    return ir_add_number(m->g, &t, some_float(m), t.dtype == KILN_BOOL ? i & 1 : i);
}

static void some_name(struct maker *m, char name[8])
{
    int n = (int)below(m, 7);
    for (int i = 0; i < n; i++) name[i] = (char)(1 + below(m, 255));
    name[n] = '\0';
}

static void loose_value(struct maker *m)
{
    struct type t = some_type(m);
    char name[8];
    some_name(m, name);
    int32_t value =
        below(m, 2) ? ir_add_input(m->g, &t, name) : ir_add_named_constant(m->g, &t, below(m, 2) ? name : NULL);
    for (int i = 0; i < t.rank; i++) {
        char symbol[16];
        snprintf(symbol, sizeof symbol, "s%d_%d", (int)t.dims[i], (int)below(m, 2));
        if (!below(m, 4)) ir_mark_symbol(m->g, value, i, ir_add_symbol(m->g, symbol, t.dims[i]));
    }
    see(m, value);
}

static struct attr some_attr(struct maker *m, int kind, int rank)
{
    struct attr a = {.kind = (uint8_t)kind, .set = below(m, 8) != 0};
    switch (kind) {
    case ATTR_INT: a.i = (int64_t)below(m, 6) - 2; break;
    case ATTR_BOOL: a.i = below(m, 2); break;
    case ATTR_DTYPE: a.i = below(m, DTYPE_COUNT); break;
    case ATTR_FLOAT: a.f = below(m, 3) ? 0.5 : some_float(m); break;
    default:
        a.count = (uint8_t)(!below(m, 3) ? 2 : below(m, 3) ? (uint32_t)rank : below(m, 4));
        for (int i = 0; i < a.count; i++) a.v[i] = (int64_t)below(m, 5) - (below(m, 3) == 0);
    }
    return a;
}

static void fill_operands(struct maker *m, const struct op *op, int n, int32_t *in)
{
    for (int i = 0; i < n; i++) {
        bool optional = i >= op->min_in && !(op->flags & OP_VARIADIC);
        // Operands that resemble each other fit more often.
        if (i && below(m, 2))
            in[i] = in[i - 1];
        else
            in[i] = m->seen[below(m, (uint32_t)m->n_seen)];
        if (optional && below(m, 2)) in[i] = -1;
        if (i && in[i] < 0 && !optional) in[i] = m->seen[0];
    }
}

// The first call of a random op that its infer takes.
static bool plain_node(struct maker *m)
{
    int32_t in[8];
    struct attr attrs[OP_MAX_ATTRS];
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        const struct op *op = op_table[below(m, (uint32_t)op_count)];
        if (op_regions_rule(op)) continue;
        int most = op->max_in > 4 && (op->flags & OP_VARIADIC) ? 4 : op->max_in;
        int n = op->min_in + (int)below(m, (uint32_t)(most - op->min_in) + 1);
        size_t before = m->g->values.n;
        fill_operands(m, op, n, in);
        if (n && (op->flags & OP_ELEMENTWISE) && !below(m, 3)) in[below(m, (uint32_t)n)] = some_number(m);
        int rank = n && in[0] >= 0 ? m->g->values.v[in[0]].type.rank : (int)below(m, 4);
        for (int i = 0; i < op->n_attrs; i++) attrs[i] = some_attr(m, op->attrs[i].kind, rank);
        int32_t first = sample_node(m->g, op, n, in, attrs, NULL);
        if (first >= 0) {
            for (int i = 0; i < op->n_out; i++) see(m, first + i);
            op_made[op->index] = true;
            return true;
        }
        assert_int_not_equal(kiln_error(), KILN_OK);
        kiln_error_clear();
        refused_count++;
        m->g->values.n = before; // numbers of the call that failed; now and then one stays, as a gap
    }
    return false;
}

static void effect_node(struct maker *m)
{
    int32_t x = m->seen[below(m, (uint32_t)m->n_seen)], in[] = {x, -1};
    int op = below(m, 2) ? SAMPLE_TEE : SAMPLE_PRINT;
    if (!m->has_chain) return;
    int32_t first = sample_node(m->g, &sample_ops[op], op == SAMPLE_TEE && below(m, 2) ? 2 : 1, in, NULL, &m->token);
    assert_true(first >= 0);
    if (op == SAMPLE_TEE) see(m, first);
}

static void nodes(struct maker *m, int n, int depth);

static void loop_node(struct maker *m, int depth)
{
    struct maker outside = *m;
    int32_t x = m->seen[below(m, (uint32_t)m->n_seen)];
    struct type type = m->g->values.v[x].type;
    int n_regions = 1 + (int)below(m, 3);
    int32_t first = ir_add_regions(m->g, n_regions);
    for (int i = 0; i < n_regions; i++) {
        ir_region_begin(m->g, first + i);
        int32_t results[] = {x, x};
        m->has_chain = false;
        for (int k = (int)below(m, 3); k; k--) {
            struct type t = below(m, 2) ? type : some_type(m);
            see(m, ir_add_param(m->g, &t));
        }
        if (below(m, 2)) {
            struct type t = ir_token_type();
            m->token = ir_add_param(m->g, &t);
            m->has_chain = true;
        }
        nodes(m, 1 + (int)below(m, 4), depth + 1);
        ir_region_end(m->g, results, 2);
        uint64_t random = m->random;
        int budget = m->budget;
        *m = outside;
        m->random = random;
        m->budget = budget;
    }
    int32_t in[] = {x, below(m, 2) ? some_number(m) : -1};
    int32_t made = sample_owner(m->g, SAMPLE_LOOP, (int)below(m, 3), in, &type, NULL, first, n_regions);
    assert_true(made >= 0);
    see(m, made + (int)below(m, 2));
}

// Any number of operands and results, which the op's row does not count.
static void call_node(struct maker *m, int depth)
{
    struct maker outside = *m;
    int32_t region = ir_add_regions(m->g, 1), in[9], results[40];
    int n_in = (int)below(m, 10), n_results = below(m, 4) ? (int)below(m, 5) : (int)below(m, 41);
    for (int i = 0; i < n_in; i++) in[i] = m->seen[below(m, (uint32_t)m->n_seen)];
    assert_int_equal(ir_region_begin(m->g, region), KILN_OK);
    m->has_chain = false;
    for (int i = 0; i < n_in; i++) see(m, ir_add_param(m->g, &m->g->values.v[in[i]].type));
    nodes(m, (int)below(m, 4), depth + 1);
    for (int i = 0; i < n_results; i++) results[i] = m->seen[below(m, (uint32_t)m->n_seen)];
    assert_int_equal(ir_region_end(m->g, results, n_results), KILN_OK);
    uint64_t random = m->random;
    int budget = m->budget;
    *m = outside;
    m->random = random;
    m->budget = budget;
    const struct op_call c = {.op = op_find("call"), .n_in = n_in};
    int32_t made = ir_add_region_node(m->g, &c, in, NULL, 0, region, 1);
    if (made < 0) fail_msg("%s", kiln_error_message());
    if (n_results) see(m, made + (int)below(m, (uint32_t)n_results));
    op_made[c.op->index] = true;
}

static void nodes(struct maker *m, int n, int depth)
{
    for (int i = 0; i < n && m->budget-- > 0; i++) {
        uint32_t kind = below(m, 16);
        if (kind == 0)
            loose_value(m);
        else if (kind == 1)
            effect_node(m);
        else if (kind == 2)
            see(m, some_number(m));
        else if (kind == 3 && depth < 6)
            below(m, 2) ? call_node(m, depth) : loop_node(m, depth);
        else
            plain_node(m);
    }
}

static void some_outputs(struct maker *m)
{
    for (int i = 0; i < 4; i++) {
        int32_t value = m->seen[below(m, (uint32_t)m->n_seen)], target = -1;
        const struct type *type = &m->g->values.v[value].type;
        char name[8];
        for (size_t k = 0; k < m->g->values.n && below(m, 8); k++) {
            const struct ir_value *v = &m->g->values.v[k];
            if ((v->kind == IR_INPUT || v->kind == IR_CONSTANT) && type_equal(&v->type, type) && !type->weak)
                target = (int32_t)k;
        }
        some_name(m, name);
        ir_add_write(m->g, value, target, name);
    }
}

static struct kiln_graph *random_graph(uint64_t seed)
{
    struct maker m = {.g = ir_graph_create(), .random = seed, .token = -1, .has_chain = true, .budget = 40};
    for (int i = 0; i < 4; i++) loose_value(&m);
    nodes(&m, 4 + (int)below(&m, 20), 0);
    some_outputs(&m);
    return m.g;
}

static void check_copy(const struct kiln_graph *g, const struct kiln_graph *copy)
{
    assert_true(ir_graph_equal(g, copy));
    assert_true(ir_graph_hash(g) == ir_graph_hash(copy));
    assert_int_equal(g->values.n, copy->values.n);
    assert_int_equal(g->nodes.n, copy->nodes.n);
    for (size_t i = 0; i < g->values.n; i++) {
        const struct ir_value *a = &g->values.v[i], *b = &copy->values.v[i];
        assert_int_equal(a->kind, b->kind);
        assert_true(type_equal(&a->type, &b->type) && a->type.weak == b->type.weak);
        assert_true(!a->name == !b->name && (!a->name || !strcmp(a->name, b->name)));
    }
    for (size_t i = 0; i < g->nodes.n; i++)
        assert_memory_equal(ir_operands(g, &g->nodes.v[i]), ir_operands(copy, &copy->nodes.v[i]),
                            (size_t)g->nodes.v[i].n_in * sizeof(int32_t));
}

// Some go into a folder where one is asked for: tests/fuzz_files/seeds.py takes them.
static void keep_sample(int i, const char *text)
{
    const char *folder = getenv("GRAPH_SAMPLES");
    char path[4096];
    if (!folder || strlen(text) > 800) return;
    snprintf(path, sizeof path, "%s/random-%04d.kiln", folder, i);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void random_graphs_come_back(void **state)
{
    size_t n_nodes = 0, n_regions = 0, n_ops = 0;
    for (int i = 0; i < GRAPHS; i++) {
        struct kiln_graph *g = random_graph((uint64_t)i * 77 + 1);
        if (ir_verify(g)) fail_msg("graph %d: %s", i, kiln_error_message());
        char *text = sample_text(g, ir_graph_file_text), *dot = sample_text(g, ir_graph_dot_text);
        struct kiln_graph *copy = ir_parse(text, strlen(text), "random");
        if (!copy) fail_msg("graph %d: %s\n%s", i, kiln_error_message(), text);
        keep_sample(i, text);
        char *again = sample_text(copy, ir_graph_file_text);
        assert_string_equal(text, again);
        check_copy(g, copy);
        n_nodes += g->nodes.n;
        n_regions += g->regions.n;
        free(text);
        free(again);
        free(dot);
        ir_graph_destroy(&g);
        ir_graph_destroy(&copy);
    }
    for (int i = 0; i < op_count; i++) n_ops += op_made[i];
    print_message("%d graphs: %zu nodes, %zu regions, %zu of %d ops; infer refused %zu calls\n", GRAPHS, n_nodes,
                  n_regions, n_ops, op_count, (size_t)refused_count);
    for (int i = 0; i < op_count; i++)
        if (!op_made[i]) print_message("never made: %s\n", op_table[i]->name);
    assert_true(n_ops * 100 >= (size_t)op_count * 95);
    assert_true(n_regions > GRAPHS && n_nodes > 10 * GRAPHS);
}

static void hashes_tell_graphs_apart(void **state)
{
    uint64_t hashes[300];
    struct kiln_graph *graphs[COUNT_OF(hashes)];
    for (size_t i = 0; i < COUNT_OF(hashes); i++) {
        graphs[i] = random_graph(i + 100000);
        hashes[i] = ir_graph_hash(graphs[i]);
        for (size_t k = 0; k < i; k++) assert_true((hashes[i] == hashes[k]) == ir_graph_equal(graphs[i], graphs[k]));
    }
    for (size_t i = 0; i < COUNT_OF(hashes); i++) ir_graph_destroy(&graphs[i]);
}

static int64_t hostile_int(struct maker *m)
{
    static const int64_t far[] = {INT64_MAX,
                                  INT64_MIN,
                                  INT64_MAX - 1,
                                  (int64_t)1 << 62,
                                  -((int64_t)1 << 40),
                                  (int64_t)1 << 47,
                                  INT32_MAX,
                                  INT32_MIN,
                                  0,
                                  -1};
    return below(m, 3) ? (int64_t)below(m, 6) - 2 : far[below(m, COUNT_OF(far))];
}

static struct type hostile_type(struct maker *m)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 4, 1 << 20, (int64_t)1 << 33, (int64_t)1 << 47, IR_MAX_NUMEL};
    struct type t = {.rank = (uint8_t)(below(m, 2) ? 4 : below(m, MAX_RANK + 1)), .weak = !below(m, 8)};
    int64_t left = IR_MAX_NUMEL;
    t.dtype = below(m, 2) ? KILN_F32 : (uint8_t)below(m, DTYPE_COUNT);
    for (int i = 0; i < t.rank; i++) {
        t.dims[i] = sizes[below(m, below(m, 2) ? 5 : COUNT_OF(sizes))];
        if (t.dims[i] > left) t.dims[i] = 1;
        if (t.dims[i]) left /= t.dims[i];
    }
    return t;
}

static struct attr hostile_attr(struct maker *m, int kind, int rank)
{
    static const double floats[] = {0, -1, 0.5, 1e300, -1e300, 1e18, 1e19, (double)NAN, HUGE_VAL, -HUGE_VAL};
    struct attr a = {.kind = (uint8_t)kind, .set = true};
    switch (kind) {
    case ATTR_INT: a.i = hostile_int(m); break;
    case ATTR_BOOL: a.i = below(m, 2); break;
    case ATTR_DTYPE: a.i = below(m, DTYPE_COUNT); break;
    case ATTR_FLOAT: a.f = floats[below(m, COUNT_OF(floats))]; break;
    default:
        a.count = (uint8_t)(!below(m, 3) ? 2 : below(m, 2) ? (uint32_t)rank : below(m, MAX_RANK + 1));
        for (int i = 0; i < a.count; i++) a.v[i] = hostile_int(m);
    }
    return a;
}

static void hostile_call(struct maker *m, const struct op *op)
{
    enum { MOST = 8 };
    struct type types[MOST];
    const struct type *in[MOST + 1] = {NULL};
    struct attr attrs[OP_MAX_ATTRS];
    int most = op->max_in < MOST ? op->max_in : MOST;
    assert_true(op->min_in <= MOST);
    struct op_call c = {.op = op, .n_out = op->n_out, .in = in, .attrs = attrs};
    c.n_in = op->min_in + (int)below(m, (uint32_t)(most - op->min_in) + 1);
    for (int i = 0; i < c.n_in; i++) {
        types[i] = i && below(m, 3) ? types[0] : hostile_type(m);
        in[i] = i >= op->min_in && !(op->flags & OP_VARIADIC) && below(m, 2) ? NULL : &types[i];
    }
    for (int i = 0; i < op->n_attrs; i++) attrs[i] = hostile_attr(m, op->attrs[i].kind, c.n_in ? types[0].rank : 3);
    if (!op_infer(&c))
        for (int i = 0; i < op->n_out; i++) {
            assert_true(c.out[i].rank <= MAX_RANK && c.out[i].dtype < DTYPE_COUNT);
            for (int d = 0; d < c.out[i].rank; d++) assert_true(c.out[i].dims[d] >= 0);
        }
    kiln_error_clear();
}

// A text may hold any sizes and attributes, so infer meets them: it must refuse, or give types that are types. What it
// computes on the way is for sanitizers to judge.
static void infer_meets_hostile_values(void **state)
{
    struct maker m = {.random = 5};
    for (int round = 0; round < 1500; round++)
        for (int i = 0; i < op_count; i++)
            if (!op_regions_rule(op_table[i])) hostile_call(&m, op_table[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_come_back),
        cmocka_unit_test(hashes_tell_graphs_apart),
        cmocka_unit_test(infer_meets_hostile_values),
    };
    return cmocka_run_group_tests(tests, sample_setup, NULL);
}
