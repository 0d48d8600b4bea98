// The table of rewrite rules, row by row: pattern and replacement give the same on special and random values, in each
// dtype that the row names.
#include "host_graph.h"
#include "ir/rewrite.h"
#include "pass/match.h"
#include "pass/passes.h"

enum { PAIRS = HOST_SPECIALS * HOST_SPECIALS, N_MAX = PAIRS + 800, N_ONE = HOST_SPECIALS + 200 };

struct trial {
    struct kiln_graph *g;
    int32_t bound[128];
    unsigned dtype;
    double c, d;
    int n; // samples: all pairs of special values and random ones; of a rule of one input each special value once
    int n_inputs;
    host_element *inputs[8];
    bool moderate; // no special values
    uint64_t *state;
};

static int32_t add_input(struct trial *t, char name, unsigned dtype)
{
    char text[2] = {name, 0};
    struct type type = {.dtype = (uint8_t)dtype, .rank = 1, .dims = {t->n}};
    host_element *v = t->inputs[t->n_inputs] = calloc((size_t)t->n + 1, sizeof *v);
    for (int k = 0; k < t->n; k++) {
        // All pairs of special values in the first two inputs.
        bool paired = t->n == N_MAX, special = !t->moderate && k < (paired ? PAIRS : HOST_SPECIALS);
        int pair = !paired ? k : t->n_inputs == 0 ? k / HOST_SPECIALS : t->n_inputs == 1 ? k % HOST_SPECIALS : 1000;
        v[k] = host_sample(dtype, special ? (uint64_t)pair : 1000, t->state);
        if (t->moderate && dtype != KILN_BOOL)
            v[k] = host_real(0.5 + (double)(host_random(t->state) % 1000) / 1000, dtype);
    }
    t->n_inputs++;
    return ir_add_input(t->g, &type, text);
}

static int32_t add_number(struct trial *t, double v, bool condition)
{
    unsigned kind = condition ? KIND_BOOL : dtype_kind_of[t->dtype];
    struct type type = {.weak = true, .dtype = kind == KIND_BOOL ? KILN_BOOL : kind == KIND_INT ? KILN_I64 : KILN_F64};
    return ir_add_number(t->g, &type, v, kind == KIND_FLOAT ? 0 : (int64_t)v);
}

static int32_t add_term(struct trial *t, const struct rule_term *term, bool condition)
{
    int32_t *bound = &t->bound[(unsigned char)term->name], in[3];
    if (term->kind == TERM_LITERAL) return add_number(t, term->literal, condition);
    if (term->kind == TERM_NUMBER) return add_number(t, term->name == 'c' ? t->c : t->d, condition);
    if (term->kind != TERM_OP) {
        if (*bound < 0) *bound = add_input(t, term->name, term->kind == TERM_CONDITION ? KILN_BOOL : t->dtype);
        return *bound;
    }
    for (int i = 0; i < term->n_args; i++) {
        in[i] = add_term(t, term->arg[i], term->op->elementwise->condition_mask >> i & 1);
        if (in[i] < 0) return -1;
    }
    struct op_call c;
    const struct type *types[3];
    if (ir_infer(t->g, term->op, term->n_args, in, NULL, types, &c)) return -1;
    return ir_add_node(t->g, &c, in, 0);
}

struct visit {
    int rule;
    int32_t last;
    bool fired;
};

static kiln_status visit(struct ir_rewrite *r, int32_t node, void *user)
{
    struct visit *v = user;
    int32_t found, out = r->from->nodes.v[node].first_out;
    TRY(ir_rewrite_copy(r, node));
    if (node != v->last) return KILN_OK;
    TRY(match_rule(r, v->rule, r->map[out], &found));
    v->fired = found >= 0;
    return v->fired ? ir_rewrite_map(r, out, found) : KILN_OK;
}

static bool compare(const struct trial *t, const struct kiln_graph *after, int rule)
{
    struct host_run a, b;
    host_run(&a, t->g, t->inputs);
    host_run(&b, after, t->inputs);
    int32_t p = t->g->outputs.v[0].value, q = after->outputs.v[0].value;
    unsigned dtype = t->g->values.v[p].type.dtype;
    bool good = true;
    double tolerance = t->dtype == KILN_BF16 ? 0.1 : t->dtype == KILN_F16 ? 0.02 : 1e-4;
    for (int k = 0; k < t->n; k++) {
        double x = host_double(a.values[p][k], dtype), y = host_double(b.values[q][k], dtype);
        bool same = rule_table[rule].exactness == EXACT ? host_same(a.values[p][k], b.values[q][k], dtype)
                                                        : fabs(x - y) <= tolerance * (1 + fabs(x));
        if (same) continue;
        int32_t first = t->bound['x'] >= 0 ? t->bound['x'] : 0;
        print_message("rule %s -> %s in %s, c %g, d %g, sample %d (%.17g): %.17g became %.17g\n",
                      rule_table[rule].pattern, rule_table[rule].replacement, dtype_name(t->dtype), t->c, t->d, k,
                      host_double(a.values[first][k], t->g->values.v[first].type.dtype), x, y);
        good = false;
        break;
    }
    host_finish(&a);
    host_finish(&b);
    return good;
}

// The names of a pattern's inputs, a bit each.
static uint32_t input_names(const struct rule_term *t)
{
    if (t->kind == TERM_LITERAL || t->kind == TERM_NUMBER) return 0;
    if (t->kind != TERM_OP) return 1u << (t->name & 31);
    uint32_t names = 0;
    for (int i = 0; i < t->n_args; i++) names |= input_names(t->arg[i]);
    return names;
}

enum outcome { FIRED, STAYED, UNDEFINED }; // UNDEFINED: the pattern's ops do not take the dtype

static enum outcome try_rule(int rule, unsigned dtype, double c, double d, uint64_t *state, bool *good)
{
    struct trial t = {.g = ir_graph_create(), .dtype = dtype, .c = c, .d = d, .state = state};
    struct kiln_graph *after = NULL;
    struct visit v = {.rule = rule};
    memset(t.bound, -1, sizeof t.bound);
    t.moderate = rule_table[rule].exactness == INEXACT;
    t.n = __builtin_popcount(input_names(rule_terms()[rule].pattern)) > 1 ? N_MAX : N_ONE;
    int32_t root = add_term(&t, rule_terms()[rule].pattern, false);
    if (root >= 0) {
        ir_add_output(t.g, root, "out");
        v.last = (int32_t)t.g->nodes.n - 1;
        assert_int_equal(ir_rewrite_graph(t.g, NULL, visit, &v, &after), KILN_OK);
        assert_int_equal(ir_verify(after), KILN_OK);
        if (v.fired) *good &= compare(&t, after, rule);
    }
    kiln_error_clear();
    ir_graph_destroy(&after);
    ir_graph_destroy(&t.g);
    for (int i = 0; i < t.n_inputs; i++) free(t.inputs[i]);
    return root < 0 ? UNDEFINED : v.fired ? FIRED : STAYED;
}

static bool has_name(const struct rule_term *t, char name)
{
    bool found = t->kind == TERM_NUMBER && t->name == name;
    for (int i = 0; i < t->n_args; i++) found |= has_name(t->arg[i], name);
    return found;
}

// Whether a number is worth a trial: whole for integers, moderate where values are compared within a tolerance.
static bool suits(int rule, unsigned dtype, double v)
{
    if (rule_table[rule].exactness == INEXACT && !(fabs(v) < 10)) return false;
    return dtype_kind_of[dtype] == KIND_FLOAT || fabs(v) < 1e6;
}

static bool rule_holds(int rule, unsigned dtype, uint64_t *random)
{
    static const double numbers[] = {0.0, -0.0, 1, -1, 2, -4, 0.25, 6, 64, 3, 100, -100, 0.1, 1e30, INFINITY, NAN};
    const struct rule_term *pattern = rule_terms()[rule].pattern;
    size_t n_c = has_name(pattern, 'c') ? COUNT_OF(numbers) : 1, n_d = has_name(pattern, 'd') ? COUNT_OF(numbers) : 1;
    bool good = true, seen[3] = {false};
    for (size_t c = 0; c < n_c; c++)
        for (size_t d = 0; d < n_d; d++)
            if (suits(rule, dtype, numbers[c]) && suits(rule, dtype, numbers[d]))
                seen[try_rule(rule, dtype, numbers[c], numbers[d], random, &good)] = true;
    // Graphs have no order of u64: such ops are made of others before they become nodes.
    if (dtype == KILN_U64 && !seen[FIRED] && !seen[STAYED]) return true;
    if (!seen[FIRED])
        print_message("rule %s -> %s never holds in %s\n", rule_table[rule].pattern, rule_table[rule].replacement,
                      dtype_name(dtype));
    return seen[FIRED] && good;
}

static void rules_keep_values(void **state)
{
    uint64_t random = 1;
    int n_bad = 0;
    for (int i = 0; i < rule_count; i++)
        for (unsigned dtype = 0; dtype < DTYPE_COUNT; dtype++)
            if (rule_table[i].dtypes & rule_dtype_bit(dtype)) n_bad += !rule_holds(i, dtype, &random);
    assert_int_equal(n_bad, 0);
}

// Every row that says it commutes does so to the bit, but for those that match_commutes knows of.
static void commuting_rows_commute(void **state)
{
    uint64_t random = 2;
    for (int i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        if (!(op->flags & OP_COMMUTES) || op->n_attrs) continue;
        for (unsigned dtype = 0; dtype < DTYPE_COUNT; dtype++) {
            struct trial t = {.g = ir_graph_create(), .dtype = dtype, .n = N_MAX, .state = &random};
            int32_t in[2] = {add_input(&t, 'x', dtype), add_input(&t, 'y', dtype)}, swapped[2] = {in[1], in[0]};
            const struct type *types[2];
            struct op_call c;
            if (!ir_infer(t.g, op, 2, in, NULL, types, &c) && match_commutes(&c)) {
                struct host_run h;
                int32_t a = ir_add_node(t.g, &c, in, 0), b = ir_add_node(t.g, &c, swapped, 0);
                host_run(&h, t.g, t.inputs);
                for (int k = 0; k < t.n; k++)
                    if (!host_same(h.values[a][k], h.values[b][k], c.out[0].dtype))
                        fail_msg("%s does not commute in %s at sample %d", op->name, dtype_name(dtype), k);
                host_finish(&h);
            }
            kiln_error_clear();
            ir_graph_destroy(&t.g);
            free(t.inputs[0]);
            free(t.inputs[1]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_keep_values),
        cmocka_unit_test(commuting_rows_commute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
