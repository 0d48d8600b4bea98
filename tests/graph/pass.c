// Each pass on a graph of its own against the graph that it must make, the runner around them, and what they refuse.
// KILN_TEST_UPDATE=1 writes the .out files; the difference then shows in review.
#include "graph_sample.h"
#include "pass/passes.h"

static char *read_file(const char *path, size_t *size_B)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    if (f) {
        text = calloc(1, 1 << 16);
        *size_B = fread(text, 1, (1 << 16) - 1, f);
        fclose(f);
    }
    return text;
}

static int clear(void **state)
{
    kiln_error_clear();
    return 0;
}

static struct kiln_graph *parse(const char *text)
{
    struct kiln_graph *g = ir_parse(text, strlen(text), "test");
    if (!g) fail_msg("%s", kiln_error_message());
    return g;
}

static void golden_path(char *out, size_t cap, const char *name, const char *end)
{
    snprintf(out, cap, "%s/golden/pass/%s.%s", getenv("KILN_TEST_SOURCE_DIR"), name, end);
}

static void check_golden(const char *name, int pass)
{
    char in[600], out[600];
    size_t size_B;
    struct pass_options o = {.verify = true};
    golden_path(in, sizeof in, name, "in");
    golden_path(out, sizeof out, name, "out");
    char *before = read_file(in, &size_B);
    if (!before) fail_msg("%s is missing", in);
    struct kiln_graph *g = parse(before);
    sample_fine(pass < 0 ? pass_run_all(&g, &o, NULL) : pass_run(pass, &g, &o, NULL));
    char *text = sample_text(g, ir_graph_file_text);
    if (getenv("KILN_TEST_UPDATE")) {
        FILE *f = fopen(out, "wb");
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
    }
    char *want = read_file(out, &size_B);
    if (!want) fail_msg("%s is missing", out);
    assert_string_equal(text, want);
    // What comes out reads back, and the pass has nothing more to do.
    struct kiln_graph *again = parse(text);
    assert_true(ir_graph_equal(again, g));
    if (pass < 0) {
        struct pass_report report = {0};
        sample_fine(pass_run_all(&again, &o, &report));
        assert_int_equal(report.rounds, 1);
        pass_report_free(&report);
    }
    ir_graph_destroy(&again);
    ir_graph_destroy(&g);
    free(before);
    free(text);
    free(want);
}

static void each_pass_makes_its_golden_graph(void **state)
{
    for (int i = 0; i < pass_count; i++) check_golden(pass_table[i].name, i);
    check_golden("all", -1);
}

// Everything that the IR has: regions within regions, effects, numbers of all kinds.
static void regions_and_effects_stay(void **state)
{
    struct kiln_graph *g = sample_graph(), *kept = sample_graph();
    struct pass_options o = {.verify = true};
    sample_fine(ir_verify(g));
    for (int i = 0; i < pass_count; i++) sample_fine(pass_run(i, &g, &o, NULL));
    assert_int_equal(g->regions.n, kept->regions.n);
    int effects[2] = {0}, owners[2] = {0};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < (k ? kept : g)->nodes.n; i++) {
            const struct ir_node *n = &(k ? kept : g)->nodes.v[i];
            effects[k] += !!(n->op->flags & OP_EFFECT);
            owners[k] += n->n_regions > 0;
        }
    assert_int_equal(effects[0], effects[1]);
    assert_int_equal(owners[0], owners[1]);
    assert_int_equal(g->outputs.n, kept->outputs.n);
    ir_graph_destroy(&g);
    ir_graph_destroy(&kept);
}

// A view that has more operands than the one it shows keeps them, where its sizes may vary.
static void views_keep_their_operands(void **state)
{
    struct type f = sample_type(KILN_F32, 2, 32, 3);
    struct pass_options o = {.verify = true};
    struct kiln_graph *g = ir_graph_create();
    ir_add_symbol(g, "s0", 32);
    int32_t in[] = {ir_add_input(g, &f, "x"), ir_add_input(g, &f, "place")};
    for (int i = 0; i < 2; i++) ir_mark_symbol(g, in[i], 0, 0);
    ir_add_output(g, sample_node(g, op_find("at_place"), 2, in, NULL, NULL), "y");
    for (int i = 0; i < pass_count; i++) sample_fine(pass_run(i, &g, &o, NULL));
    assert_int_equal(g->nodes.n, 1);
    assert_memory_equal(ir_operands(g, &g->nodes.v[0]), in, sizeof in);
    ir_graph_destroy(&g);
}

struct nest {
    struct kiln_graph *g;
    uint64_t state;
    int32_t seen[400]; // values of the regions around, f32[3]
    int n_seen;
};

static int32_t any_seen(struct nest *n)
{
    return n->seen[sample_random(&n->state) % (uint64_t)n->n_seen];
}

static void add_random_nodes(struct nest *n, int depth);

static int32_t add_call(struct nest *n, int depth)
{
    int32_t region = ir_add_regions(n->g, 1), in[] = {any_seen(n), any_seen(n)};
    int around = n->n_seen;
    assert_int_equal(ir_region_begin(n->g, region), KILN_OK);
    for (int i = 0; i < 2; i++) n->seen[n->n_seen++] = ir_add_param(n->g, &n->g->values.v[0].type);
    if (sample_random(&n->state) % 3) add_random_nodes(n, depth + 1);
    ir_region_end(n->g, (int32_t[]){any_seen(n), any_seen(n), any_seen(n)}, 3);
    n->n_seen = around;
    const struct op_call c = {.op = op_find("call"), .n_in = 2};
    int32_t made = ir_add_region_node(n->g, &c, in, NULL, 0, region, 1);
    return made < 0 ? made : made + (int32_t)(sample_random(&n->state) % 3);
}

// An owner of two regions, each of which gives two values; a region may be empty.
static int32_t add_owner(struct nest *n, int depth)
{
    struct type f = n->g->values.v[0].type;
    if (sample_random(&n->state) % 2) return add_call(n, depth);
    int32_t first = ir_add_regions(n->g, 2), x = any_seen(n);
    for (int i = 0; i < 2; i++) {
        int around = n->n_seen;
        assert_int_equal(ir_region_begin(n->g, first + i), KILN_OK);
        if (sample_random(&n->state) % 2) n->seen[n->n_seen++] = ir_add_param(n->g, &f);
        if (sample_random(&n->state) % 3) add_random_nodes(n, depth + 1);
        ir_region_end(n->g, (int32_t[]){any_seen(n), any_seen(n)}, 2);
        n->n_seen = around;
    }
    return sample_owner(n->g, SAMPLE_LOOP, 1, &x, &f, NULL, first, 2);
}

static void add_random_nodes(struct nest *n, int depth)
{
    static const char *const names[] = {"add", "mul", "sub", "maximum", "zeros_like", "neg"};
    for (uint64_t count = 1 + sample_random(&n->state) % 6; count && n->n_seen < 300; count--) {
        uint64_t r = sample_random(&n->state) % 12;
        int32_t made, x = any_seen(n);
        if (r < 4)
            made = sample_binary(n->g, names[r], x, sample_random(&n->state) % 2 ? any_seen(n) : sample_weak(n->g, 1));
        else if (r < 6)
            made = sample_node(n->g, op_find(names[r]), 1, &x, NULL, NULL);
        else if (r == 6) {
            sample_node(n->g, &sample_ops[SAMPLE_CHECK], 1, &x, NULL, NULL);
            continue;
        } else if (depth < 4)
            made = add_owner(n, depth);
        else
            continue;
        assert_true(made >= 0);
        n->seen[n->n_seen++] = made;
    }
}

static void random_regions_stay_valid(void **state)
{
    struct type f = sample_type(KILN_F32, 1, 3, 0);
    size_t before = 0, after = 0;
    for (uint64_t seed = 1; seed < 1500; seed++) {
        struct nest n = {.g = ir_graph_create(), .state = seed};
        struct pass_options o = {.verify = true};
        struct pass_report report = {0};
        n.seen[n.n_seen++] = ir_add_input(n.g, &f, "x");
        add_random_nodes(&n, 0);
        ir_add_output(n.g, any_seen(&n), "y");
        ir_add_write(n.g, any_seen(&n), 0, "x");
        sample_fine(ir_verify(n.g));
        before += n.g->nodes.n;
        sample_fine(pass_run_all(&n.g, &o, &report));
        assert_true(report.settled);
        after += n.g->nodes.n;
        char *text = sample_text(n.g, ir_graph_file_text);
        struct kiln_graph *again = parse(text);
        assert_true(ir_graph_equal(again, n.g));
        ir_graph_destroy(&again);
        pass_report_free(&report);
        ir_graph_destroy(&n.g);
        free(text);
    }
    print_message("%zu nodes became %zu\n", before, after);
    assert_true(after < before);
}

static void dead_owners_take_their_regions_along(void **state)
{
    struct kiln_graph *g = ir_graph_create();
    struct type f = sample_type(KILN_F32, 2, 32, 3);
    struct pass_options o = {.verify = true};
    ir_add_symbol(g, "s0", 32);
    int32_t x = ir_add_input(g, &f, "x");
    sample_loops(g, x, ir_add_constant(g, &f, &f));
    ir_add_output(g, sample_binary(g, "add", x, x), "y");
    sample_fine(ir_verify(g));
    assert_int_equal(g->regions.n, 4);
    sample_fine(pass_run(pass_find("dce"), &g, &o, NULL));
    assert_int_equal(g->regions.n, 0);
    assert_int_equal(g->nodes.n, 1);
    ir_graph_destroy(&g);
}

// Equal nodes in two regions of one owner do not see each other; one before both serves both.
static void cse_respects_regions(void **state)
{
    for (int outside = 0; outside < 2; outside++) {
        struct kiln_graph *g = ir_graph_create();
        struct type f = sample_type(KILN_F32, 1, 3, 0);
        struct pass_options o = {.verify = true};
        int32_t x = ir_add_input(g, &f, "x"), before = outside ? sample_binary(g, "add", x, x) : x;
        int32_t first = ir_add_regions(g, 2);
        for (int i = 0; i < 2; i++) {
            ir_region_begin(g, first + i);
            int32_t y = sample_binary(g, "add", x, x);
            ir_region_end(g, (int32_t[]){y, y}, 2);
        }
        int32_t made = sample_owner(g, SAMPLE_LOOP, 1, &x, &f, NULL, first, 2);
        ir_add_output(g, made, "y");
        ir_add_output(g, before, "before");
        sample_fine(ir_verify(g));
        sample_fine(pass_run(pass_find("cse"), &g, &o, NULL));
        assert_int_equal(g->nodes.n, outside ? 2 : 3);
        ir_graph_destroy(&g);
    }
}

static struct kiln_graph *small_graph(void)
{
    return parse("%0: f32[3] = input \"x\"\n%1: f32[3] = neg(%0)\n%2: f32[3] = neg(%1)\n%3: f32[3] = exp(%2)\n"
                 "return %3 \"y\"\n");
}

static void passes_are_left_out_by_name(void **state)
{
    struct kiln_graph *g = small_graph(), *before = g;
    struct pass_options o = {.skip = UINT64_C(1) << pass_find("simplify")};
    sample_fine(pass_run_all(&g, &o, NULL));
    assert_ptr_equal(g, before); // nothing to do: the same graph
    o.skip = 0;
    sample_fine(pass_run_all(&g, &o, NULL));
    assert_int_equal(g->nodes.n, 1);
    ir_graph_destroy(&g);
}

static void the_environment_sets_options(void **state)
{
    struct pass_options o = {0};
    pass_options_from_debug(&o); // main sets KILN_DEBUG
    assert_true(o.verify && o.print_after);
    assert_int_equal(o.skip, UINT64_C(1) << pass_find("cse"));
    assert_int_equal(pass_find("no such pass"), -1);
}

static void runs_are_reported_and_printed(void **state)
{
    struct kiln_graph *g = small_graph();
    char *text = NULL;
    size_t size_B;
    FILE *log = open_memstream(&text, &size_B);
    struct pass_options o = {.print_after = true, .print_before = true, .log = log, .why = "model"};
    struct pass_report report = {0};
    sample_fine(pass_run_all(&g, &o, &report));
    fclose(log);
    assert_non_null(strstr(text, "// ---- before types: model\n"));
    assert_non_null(strstr(text, "// ---- after simplify: model\n"));
    assert_null(strstr(text, "after cse")); // changed nothing
    assert_true(report.settled);
    assert_int_equal(report.rounds, 2);
    assert_int_equal(report.runs.n, 2 * pass_count);
    const struct pass_stats *dce = &report.runs.v[pass_find("dce")];
    assert_int_equal(dce->nodes_before, 3);
    assert_int_equal(dce->nodes_after, 1);
    assert_true(dce->changed && !report.runs.v[2 * pass_count - 1].changed);
    pass_report_free(&report);
    ir_graph_destroy(&g);
    free(text);
}

static void a_wrong_type_is_found(void **state)
{
    struct kiln_graph *g = small_graph();
    struct pass_options o = {0};
    g->values.v[2].type.dims[0] = 4;
    assert_int_equal(pass_run(pass_find("types"), &g, &o, NULL), KILN_E_INTERNAL);
    assert_non_null(strstr(kiln_error_message(), "neg: result 0 is f32[3], the graph says f32[4]"));
    kiln_error_clear();
    assert_int_equal(g->nodes.n, 3); // as before
    ir_graph_destroy(&g);
}

static kiln_status map_wrongly(struct ir_rewrite *r, int32_t node, void *user)
{
    const struct type other = {.dtype = KILN_I32, .weak = true};
    const int32_t *kind = user;
    if (*kind == 1 && node == 0) return KILN_OK; // unmapped, and used later
    if (*kind == 0 && node == 1)
        return ir_rewrite_map(r, r->from->nodes.v[node].first_out, ir_add_number(r->to, &other, 1, 1));
    if (*kind == 2) return ir_rewrite_map(r, r->from->nodes.v[node].first_out, -1);
    return ir_rewrite_copy(r, node);
}

static void the_rewriter_refuses_nonsense(void **state)
{
    struct kiln_graph *g = small_graph(), *to = g;
    for (int32_t kind = 0; kind < 3; kind++) {
        assert_int_equal(ir_rewrite_graph(g, NULL, map_wrongly, &kind, &to), KILN_E_INTERNAL);
        assert_null(to);
        kiln_error_clear();
    }
    ir_graph_destroy(&g);
}

// Rounding may change only when asked for.
static void inexact_rules_need_leave(void **state)
{
    for (int inexact = 0; inexact < 2; inexact++) {
        struct kiln_graph *g = parse("%0: f32[3] = input \"x\"\n%2: f32[3] = pow(%0, 2.0)\nreturn %2 \"y\"\n");
        struct pass_options o = {.inexact = inexact};
        sample_fine(pass_run_all(&g, &o, NULL));
        assert_string_equal(g->nodes.v[0].op->name, inexact ? "square" : "pow");
        ir_graph_destroy(&g);
    }
}

// The order of a sum is the device's business: only sums that are exact in every order are known.
static void sums_fold_where_they_are_exact(void **state)
{
    static const struct {
        const char *dtype, *value, *op, *result; // NULL: stays
    } sums[] = {
        {"f32", "0.5", "sum", "value = 20"},
        {"f32", "0.1", "sum", NULL},
        {"f32", "-0", "sum", NULL},
        {"f32", "0", "sum", "value = 0"},
        {"f32", "inf", "sum", NULL},
        {"f32", "0.5", "mean", "value = 0.5"},
        {"f32", "0.1", "mean", NULL},
        {"f64", "0.1", "sum", NULL},
        {"f32", "0.1", "max", "value = 0.1"},
        {"f16", "0.1", "max", "0.0999755859375"},
        {"i32", "2147483647", "sum", "value = 85899345880"},
        {"i64", "1e18", "sum", NULL}, // wraps, to what no double holds
        {"f32", "16777215", "sum", NULL},
        {"f32", "419430", "sum", "value = 16777200"},
        {"bool", "1", "sum", "value = 40"},
        {"f32", "nan", "any", "value = 1"},
        {"u8", "0", "all", "value = 0"},
        {"f32", "3", "argmax", "value = 0"},
    };
    for (size_t i = 0; i < COUNT_OF(sums); i++) {
        char text[512];
        bool whole = !strcmp(sums[i].op, "sum") && (sums[i].dtype[0] == 'i' || sums[i].dtype[0] == 'b');
        const char *result = whole || !strcmp(sums[i].op, "argmax")                     ? "i64"
                             : !strcmp(sums[i].op, "any") || !strcmp(sums[i].op, "all") ? "bool"
                                                                                        : sums[i].dtype;
        snprintf(text, sizeof text,
                 "%%0: %s[4,10] = full() {dtype = %s, shape = [4, 10], value = %s}\n"
                 "%%1: %s[] = %s(%%0) {axes = [], keepdims = false}\nreturn %%1 \"y\"\n",
                 sums[i].dtype, sums[i].dtype, sums[i].value, result, sums[i].op);
        struct kiln_graph *g = parse(text);
        struct pass_options o = {.verify = true};
        sample_fine(pass_run_all(&g, &o, NULL));
        char *after = sample_text(g, ir_graph_text);
        bool folded = g->nodes.n == 1;
        if (folded != (sums[i].result != NULL) || (folded && !strstr(after, sums[i].result)))
            fail_msg("%s became\n%s", text, after);
        free(after);
        ir_graph_destroy(&g);
    }
}

// A size that varies is not a number to compute with.
static void sizes_that_vary_are_not_folded(void **state)
{
    struct kiln_graph *g = parse("kiln 1\nsymbol n = 4\n%0: f32[n=4,3] = input \"x\"\n%1: f32[n=4,3] = ones_like(%0)\n"
                                 "%2: f32[4,3] = narrow(%0) {axis = 0, start = 0, length = 4}\n"
                                 "return %1 \"ones\"\nreturn %2 \"four\"\n");
    struct pass_options o = {.verify = true};
    sample_fine(pass_run_all(&g, &o, NULL));
    assert_int_equal(g->nodes.n, 2);
    ir_graph_destroy(&g);
}

#define T(f) cmocka_unit_test_teardown(f, clear)
int main(void)
{
    setenv("KILN_DEBUG", "passes,verify,skip=cse", 1);
    const struct CMUnitTest tests[] = {
        T(each_pass_makes_its_golden_graph),
        T(regions_and_effects_stay),
        T(views_keep_their_operands),
        T(random_regions_stay_valid),
        T(dead_owners_take_their_regions_along),
        T(cse_respects_regions),
        T(passes_are_left_out_by_name),
        T(the_environment_sets_options),
        T(runs_are_reported_and_printed),
        T(a_wrong_type_is_found),
        T(the_rewriter_refuses_nonsense),
        T(inexact_rules_need_leave),
        T(sums_fold_where_they_are_exact),
        T(sizes_that_vary_are_not_folded),
    };
    return cmocka_run_group_tests(tests, sample_setup, NULL);
}
