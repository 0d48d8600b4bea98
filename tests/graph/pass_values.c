// Random graphs of elementwise ops, views, casts and reductions: the passes keep the bits of all outputs, leave valid
// graphs, and find nothing more to do when they run again.
#include "host_graph.h"
#include "ir/rewrite.h"
#include "pass/passes.h"

enum { GRAPHS = 8000, NODES = 24, INPUTS = 3 };

struct maker {
    struct kiln_graph *g;
    uint64_t state;
    host_element *inputs[INPUTS];
};

static uint64_t below(struct maker *m, uint64_t n)
{
    return host_random(&m->state) % n;
}

static struct attr ints(int count, const int64_t *v)
{
    struct attr a = {.kind = ATTR_INTS, .set = true, .count = (uint8_t)count};
    memcpy(a.v, v, sizeof *v * (size_t)count);
    return a;
}

static int32_t any_tensor(struct maker *m)
{
    for (;;) {
        int32_t v = (int32_t)below(m, m->g->values.n);
        if (m->g->values.v[v].kind != IR_NUMBER) return v;
    }
}

static int32_t any_operand(struct maker *m)
{
    static const double numbers[] = {0.0, -0.0, 1, -1, 2, 0.5, 6, 3, INFINITY, NAN};
    if (below(m, 3)) return any_tensor(m);
    unsigned kind = (unsigned)below(m, 3);
    double v = numbers[below(m, kind == KIND_FLOAT ? COUNT_OF(numbers) : 5)];
    struct type t = {.weak = true, .dtype = kind == KIND_BOOL ? KILN_BOOL : kind == KIND_INT ? KILN_I64 : KILN_F64};
    int64_t integer = kind == KIND_FLOAT ? 0 : kind == KIND_BOOL ? v != 0 : (int64_t)v;
    return ir_add_number(m->g, &t, kind == KIND_FLOAT ? v : (double)integer, integer);
}

// Ops that take part. Reductions reduce everything, for a sum in another order has other bits.
static const struct op *any_op(struct maker *m)
{
    static const uint16_t others[] = {OP_cast,      OP_cast,      OP_contiguous, OP_reshape,   OP_permute,
                                      OP_transpose, OP_expand,    OP_slice,      OP_narrow,    OP_select,
                                      OP_squeeze,   OP_unsqueeze, OP_flip,       OP_full,      OP_full,
                                      OP_full_like, OP_sum,       OP_zeros_like, OP_ones_like, OP_max};
    // Ops without transcendental functions, which is all of which rules know much.
    static const uint16_t plain[] = {OP_positive,
                                     OP_neg,
                                     OP_abs,
                                     OP_sign,
                                     OP_square,
                                     OP_add,
                                     OP_sub,
                                     OP_mul,
                                     OP_div,
                                     OP_floor_divide,
                                     OP_remainder,
                                     OP_maximum,
                                     OP_minimum,
                                     OP_clip,
                                     OP_floor,
                                     OP_ceil,
                                     OP_round,
                                     OP_relu,
                                     OP_relu6,
                                     OP_exp,
                                     OP_sqrt,
                                     OP_reciprocal,
                                     OP_equal,
                                     OP_not_equal,
                                     OP_less,
                                     OP_greater,
                                     OP_less_equal,
                                     OP_greater_equal,
                                     OP_isnan,
                                     OP_logical_and,
                                     OP_logical_or,
                                     OP_logical_xor,
                                     OP_logical_not,
                                     OP_bitwise_and,
                                     OP_bitwise_or,
                                     OP_bitwise_xor,
                                     OP_bitwise_invert,
                                     OP_where,
                                     OP_masked_fill,
                                     OP_hard_tanh};
    if (below(m, 2)) return op_table[others[below(m, COUNT_OF(others))]];
    return op_table[plain[below(m, COUNT_OF(plain))]];
}

static void any_attrs(struct maker *m, const struct op *op, const struct type *x, struct attr *a)
{
    static const double reals[] = {-1, 0, 1, 2, -0.0, 0.1, 300.3, 1e30, -INFINITY, NAN};
    for (int i = 0; i < op->n_attrs; i++) {
        a[i] = (struct attr){.kind = op->attrs[i].kind, .set = true};
        if (a[i].kind == ATTR_INT) a[i].i = (int64_t)below(m, 3);
        if (a[i].kind == ATTR_FLOAT) a[i].f = reals[below(m, COUNT_OF(reals))];
        if (a[i].kind == ATTR_DTYPE) a[i].i = (int64_t)below(m, DTYPE_COUNT);
        if (a[i].kind == ATTR_INTS) {
            a[i].count = x ? x->rank : 2;
            for (int k = 0; k < a[i].count; k++) a[i].v[k] = (int64_t)below(m, 4) - (op->index == OP_slice);
        }
    }
    if (op->index == OP_reshape && below(m, 2)) {
        int64_t flat[1] = {-1}, split[3] = {-1, 2, 1};
        a[0] = below(m, 2) ? ints(1, flat) : ints(3, split);
    }
    if (op->index == OP_permute) {
        int64_t turned[MAX_RANK];
        for (int i = 0; i < x->rank; i++) turned[i] = (i + 1) % x->rank;
        a[0] = ints(below(m, 2) ? x->rank : 0, turned);
    }
    if (op->index == OP_expand) {
        int64_t dims[MAX_RANK] = {2};
        for (int i = 0; i < x->rank; i++) dims[i + 1] = x->dims[i] == 1 ? 3 : x->dims[i];
        if (x->rank < 3) a[0] = ints(x->rank + 1, dims);
    }
    if (op->index == OP_squeeze || op->index == OP_max || op->index == OP_sum) a[0].count = 0;
    if (op->index == OP_flip && x->rank) a[0].count = (uint8_t)below(m, 2);
}

static void add_node(struct maker *m)
{
    const struct op *op = any_op(m);
    size_t n_values = m->g->values.n;
    int32_t in[4];
    struct attr attrs[OP_MAX_ATTRS];
    const struct type *types[4];
    struct op_call c;
    for (int i = 0; i < op->max_in && i < 4; i++) in[i] = op->flags & OP_ELEMENTWISE ? any_operand(m) : any_tensor(m);
    any_attrs(m, op, op->max_in ? &m->g->values.v[in[0]].type : NULL, attrs);
    bool fine = !ir_infer(m->g, op, op->max_in, in, attrs, types, &c) && type_numel(&c.out[0]) <= 200 &&
                type_numel(&c.out[0]) > 0;
    kiln_error_clear();
    if (!fine)
        m->g->values.n = n_values;
    else
        assert_true(ir_add_node(m->g, &c, in, 0) >= 0);
}

static void make(struct maker *m, uint64_t seed)
{
    static const uint8_t dtypes[] = {KILN_F32, KILN_F32, KILN_F32, KILN_I32, KILN_BOOL,
                                     KILN_F16, KILN_F64, KILN_I64, KILN_U8};
    *m = (struct maker){.g = ir_graph_create(), .state = seed};
    for (int i = 0; i < INPUTS; i++) {
        char name[2] = {(char)('x' + i), 0};
        struct type t = {.dtype = dtypes[below(m, COUNT_OF(dtypes))], .rank = (uint8_t)below(m, 3)};
        for (int k = 0; k < t.rank; k++) t.dims[k] = (int64_t[]){1, 3, 4}[below(m, 3)];
        ir_add_input(m->g, &t, name);
        int64_t n = type_numel(&t);
        m->inputs[i] = calloc((size_t)n + 1, sizeof *m->inputs[i]);
        for (int64_t k = 0; k < n; k++) m->inputs[i][k] = host_sample(t.dtype, below(m, 40), &m->state);
    }
    for (int i = 0; i < NODES; i++) add_node(m);
    for (int i = 0; i < 8; i++) assert_int_equal(ir_add_output(m->g, any_tensor(m), "out"), KILN_OK);
}

static void print_graph(const char *title, const struct kiln_graph *g)
{
    struct str s;
    str_init(&s);
    ir_graph_text(g, &s);
    print_message("%s\n%s\n", title, str_text(&s));
    str_free(&s);
}

static void same_outputs(const struct maker *m, const struct kiln_graph *after, uint64_t seed)
{
    struct host_run a, b;
    host_run(&a, m->g, m->inputs);
    host_run(&b, after, m->inputs);
    for (size_t i = 0; i < m->g->outputs.n; i++) {
        int32_t p = m->g->outputs.v[i].value, q = after->outputs.v[i].value;
        const struct type *t = &m->g->values.v[p].type;
        assert_true(ir_type_same(t, &after->values.v[q].type));
        for (int64_t k = 0; k < type_numel(t); k++) {
            if (host_same(a.values[p][k], b.values[q][k], t->dtype)) continue;
            print_graph("before", m->g);
            print_graph("after", after);
            fail_msg("seed %llu, output %zu, element %lld: %.17g became %.17g", (unsigned long long)seed, i,
                     (long long)k, host_double(a.values[p][k], t->dtype), host_double(b.values[q][k], t->dtype));
        }
    }
    host_finish(&a);
    host_finish(&b);
}

static kiln_status copy(struct ir_rewrite *r, int32_t node, void *user)
{
    return ir_rewrite_copy(r, node);
}

static void passes_keep_values(void **state)
{
    size_t before = 0, after = 0, fired[64] = {0};
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        struct maker m;
        struct pass_options o = {.verify = true};
        struct pass_report report = {0};
        struct kiln_graph *g = NULL, *again = NULL;
        make(&m, seed * 7919);
        assert_int_equal(ir_verify(m.g), KILN_OK);
        assert_int_equal(ir_rewrite_graph(m.g, NULL, copy, NULL, &g), KILN_OK);
        assert_true(ir_graph_equal(m.g, g));
        if (pass_run_all(&g, &o, &report)) {
            print_graph("before", m.g);
            fail_msg("seed %llu: %s", (unsigned long long)seed, kiln_error_message());
        }
        if (!report.settled) print_graph("not settled", g);
        assert_true(report.settled);
        same_outputs(&m, g, seed);
        before += m.g->nodes.n;
        after += g->nodes.n;
        assert_int_equal(ir_rewrite_graph(g, NULL, copy, NULL, &again), KILN_OK);
        assert_int_equal(pass_run_all(&again, &o, NULL), KILN_OK);
        assert_true(ir_graph_equal(again, g));
        for (size_t i = 0; i < report.runs.n; i++) fired[report.runs.v[i].pass] += report.runs.v[i].changed;
        pass_report_free(&report);
        ir_graph_destroy(&again);
        ir_graph_destroy(&g);
        ir_graph_destroy(&m.g);
        for (int i = 0; i < INPUTS; i++) free(m.inputs[i]);
    }
    print_message("%zu nodes became %zu\n", before, after);
    assert_true(after < before * 3 / 4);
    // Each has had its say; without symbols, calls and other regions some have nothing to.
    for (int i = 0; i < pass_count; i++) {
        print_message("%s changed %zu times\n", pass_table[i].name, fired[i]);
        assert_true(fired[i] > 50 || pass_table[i].regions || i == pass_find("types") || i == pass_find("inline"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_keep_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
