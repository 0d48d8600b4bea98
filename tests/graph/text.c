// The text form of graphs: golden files, printing and parsing back, texts that are wrong.
#include "../clock.h"
#include "graph_sample.h"

static char *read_file(const char *name, size_t *size_B)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/golden/graph/%s", getenv("KILN_TEST_SOURCE_DIR"), name);
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s cannot be read", path);
    char *text = malloc(1 << 20);
    *size_B = fread(text, 1, (1 << 20) - 1, f);
    text[*size_B] = '\0';
    fclose(f);
    return text;
}

static struct kiln_graph *parse(const char *text)
{
    struct kiln_graph *g = ir_parse(text, strlen(text), "test");
    if (!g) fail_msg("%s\n%s", kiln_error_message(), text);
    return g;
}

// Prints, parses, prints: the same text, an equal graph, an equal hash.
static void assert_round_trip(const struct kiln_graph *g)
{
    sample_fine(ir_verify(g));
    char *text = sample_text(g, ir_graph_text);
    struct kiln_graph *again = parse(text);
    char *second = sample_text(again, ir_graph_text);
    assert_string_equal(text, second);
    assert_true(ir_graph_equal(g, again));
    assert_true(ir_graph_hash(g) == ir_graph_hash(again));
    assert_int_equal(g->values.n, again->values.n);
    for (size_t i = 0; i < g->values.n; i++) {
        const struct ir_value *a = &g->values.v[i], *b = &again->values.v[i];
        assert_int_equal(a->kind, b->kind);
        assert_memory_equal(&a->number, &b->number, a->kind == IR_NUMBER && a->type.dtype >= KILN_F16 ? 8 : 0);
        assert_true(!a->name == !b->name && (!a->name || !strcmp(a->name, b->name)));
    }
    free(text);
    free(second);
    ir_graph_destroy(&again);
}

static void a_graph_of_everything_is_its_golden_text(void **state)
{
    size_t size_B;
    char *want = read_file("everything.kiln", &size_B), *drawn = read_file("everything.dot", &size_B);
    struct kiln_graph *g = sample_graph();
    assert_round_trip(g);
    char *text = sample_text(g, ir_graph_file_text), *dot = sample_text(g, ir_graph_dot_text);
    assert_string_equal(text, want);
    assert_string_equal(dot, drawn);
    struct kiln_graph *read = parse(want);
    assert_true(ir_graph_equal(g, read));
    assert_null(read->values.v[3].held);
    assert_string_equal(read->values.v[3].name, "conv1.weight");
    ir_graph_destroy(&read);
    ir_graph_destroy(&g);
    free(want);
    free(drawn);
    free(text);
    free(dot);
}

static void golden_texts_are_fixed_points(void **state)
{
    static const char *const names[] = {"network.kiln", "numbers.kiln", "empty.kiln"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t size_B;
        char *text = read_file(names[i], &size_B);
        struct kiln_graph *g = ir_parse(text, size_B, names[i]);
        if (!g) fail_msg("%s", kiln_error_message());
        char *again = sample_text(g, ir_graph_file_text);
        assert_string_equal(text, again);
        assert_round_trip(g);
        ir_graph_destroy(&g);
        free(text);
        free(again);
    }
}

// Gaps, comments, white space, literals, aliases and the order of attributes are the writer's; the graph is the same.
static void a_text_may_be_written_freely(void **state)
{
    struct kiln_graph *a = parse("kiln 1\n%0: f32[2,3] = input \"x\"\n%2: f32[2,3] = mul(%0, 2.0)\n"
                                 "%3: f32[3] = sum(%2) {axes = [0], keepdims = false}\nreturn %3 \"s\"\n");
    struct kiln_graph *b = parse("# a comment\n%7:f32[ 2 , 3 ]=input\"other\" return %7 \"early\" # more\n"
                                 "%9: weak f64[] = 2\r\n%10: f32[2,3] = Mul (%7, %9)\n\t%900: f32[3] = "
                                 "sum(%10) {keepdims = false, axes = [0]} return %900 \"\"\n");
    assert_false(ir_graph_equal(a, b));
    b->outputs.v[0] = b->outputs.v[1];
    b->outputs.n = 1;
    assert_true(ir_graph_equal(a, b));
    assert_true(ir_graph_hash(a) == ir_graph_hash(b));
    ir_graph_destroy(&a);
    ir_graph_destroy(&b);
}

static void graphs_that_differ_are_not_equal(void **state)
{
    static const char *const texts[] = {
        "%0: f32[2] = input \"x\"\n%2: f32[2] = mul(%0, 2.0)\nreturn %2 \"y\"",
        "%0: f32[2] = input \"x\"\n%2: f32[2] = mul(%0, 2.5)\nreturn %2 \"y\"",
        "%0: f32[2] = input \"x\"\n%2: f32[2] = mul(%0, 2)\nreturn %2 \"y\"",
        "%0: f32[2] = input \"x\"\n%2: f32[2] = mul(2.0, %0)\nreturn %2 \"y\"",
        "%0: f32[2] = input \"x\"\n%2: f32[2] = add(%0, 2.0)\nreturn %2 \"y\"",
        "%0: f32[2] = input \"x\"\n%2: f32[2] = mul(%0, 2.0)\nreturn %0 \"y\"",
        "%0: f32[2] = input \"x\"\n%2: f32[2] = mul(%0, 2.0)\nwrite %2 to %0 \"y\"",
        "%0: f32[2] = constant\n%2: f32[2] = mul(%0, 2.0)\nreturn %2 \"y\"",
        "%0: f32[3] = input \"x\"\n%2: f32[3] = mul(%0, 2.0)\nreturn %2 \"y\"",
        "symbol n = 2 %0: f32[2] = input \"x\"\n%2: f32[2] = mul(%0, 2.0)\nreturn %2 \"y\"",
        "symbol n = 2 %0: f32[n=2] = input \"x\"\n%2: f32[2] = mul(%0, 2.0)\nreturn %2 \"y\"",
        "%0: f32[2] = input \"x\" %1: f32[2] = input \"z\"\n%2: f32[2] = mul(%0, 2.0)\nreturn %2 \"y\"",
        "%0: f32[2] = input \"x\" %1: f32[2] = input \"z\"\n%2: f32[2] = mul(%1, 2.0)\nreturn %2 \"y\"",
        "%0: f32[2] = input \"x\" %1: f32[2] = mul(%0, 0.0)",
        "%0: f32[2] = input \"x\" %1: f32[2] = mul(%0, -0.0)",
        "%0: f32[2] = input \"x\" %1: f32[2] = mul(%0, nan)",
        "%0: f32[2] = input \"x\" %1: f32[2] = mul(%0, -nan)",
        "%0: f32[2] = input \"x\" %1: f32[2] = softmax(%0) {axis = 0}",
        "%0: f32[2] = input \"x\" %1: f32[2] = softmax(%0) {axis = -1}",
        "%0: f32[2] = input \"x\" %1: f32[2] = softmax(%0) {axis = default -1}",
        "%0: f32[2] = input \"x\" %1: f32[2], %2: f32[2] = sample.loop() {n = 0, rate = 0} region() { yield %0, %0 }",
        "%0: f32[2] = input \"x\" %1: f32[2], %2: f32[2] = sample.loop() {n = 0, rate = 0} region(%8: f32[2]) { "
        "yield %0, %8 }",
        "%0: f32[2] = input \"x\" %1: f32[2], %2: f32[2] = sample.loop() {n = 0, rate = 0} region() { yield %0, %0 } "
        "region() { yield %0, %0 }",
    };
    struct kiln_graph *g[COUNT_OF(texts)];
    for (size_t i = 0; i < COUNT_OF(g); i++) {
        // The regions' values have the numbers between the inputs and the outputs.
        char *fixed = strdup(texts[i]), *at = strstr(fixed, "%1: f32[2], %2");
        if (at) memcpy(at, "%9: f32[2],%10", 14);
        g[i] = parse(fixed);
        free(fixed);
    }
    for (size_t i = 0; i < COUNT_OF(g); i++)
        for (size_t k = 0; k < COUNT_OF(g); k++) {
            if (ir_graph_equal(g[i], g[k]) != (i == k)) fail_msg("graphs %zu and %zu", i, k);
            if ((ir_graph_hash(g[i]) == ir_graph_hash(g[k])) != (i == k)) fail_msg("hashes %zu and %zu", i, k);
        }
    for (size_t i = 0; i < COUNT_OF(g); i++) ir_graph_destroy(&g[i]);
}

struct wrong_text {
    const char *text, *message;
};

static void assert_messages(const struct wrong_text *cases, size_t n)
{
    int wrong = 0;
    for (size_t i = 0; i < n; i++) {
        struct kiln_graph *g = ir_parse(cases[i].text, strlen(cases[i].text), "test");
        const char *text = kiln_error_message();
        if (g || !strstr(text, cases[i].message)) {
            print_error("%s\n    gives \"%s\"\n    not   \"%s\"\n", cases[i].text, text, cases[i].message);
            wrong++;
        }
        kiln_error_clear();
        ir_graph_destroy(&g);
    }
    assert_int_equal(wrong, 0);
}

static void texts_that_are_wrong_are_named(void **state)
{
    static const struct wrong_text cases[] = {
        {"%0 f32[2] = input \"x\"", "test:1:4: `:` is expected, found `f32`"},
        {"%0: f33[2] = input \"x\"", "test:1:5: a dtype is expected, found `f33`"},
        {"%0: f32 = input \"x\"", "test:1:9: `[` is expected, found `=`"},
        {"%0: f32[2 = input \"x\"", "test:1:11: `,` is expected"},
        {"%0: f32[-2] = input \"x\"", "test:1:9: a size from 0 to"},
        {"%0: f32[2.5] = input \"x\"", "test:1:9: a size is expected, found `2.5`"},
        {"%0: f32[99999999999999999999] = input \"x\"", "test:1:9: a size from 0 to"},
        {"%0: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] = input \"x\"", "test:1:41: a type has more than 16"},
        {"%0: f32[n=2] = input \"x\"", "test:1:9: a size, or a symbol that was declared"},
        {"symbol n = 3\n%0: f32[n=2] = input \"x\"", "test:2:9: symbol n is 3, not 2"},
        {"symbol n = 3 symbol n = 3", "test:1:21: symbol n is declared twice"},
        {"symbol a.b = 3", "test:1:8: the name of a symbol"},
        {"%0: f32[2] = input x", "test:1:20: a name in quotes is expected, found `x`"},
        {"%0: f32[2] = input \"x", "test:1:20: the string has no end"},
        {"%0: f32[2] = input \"x\\q\"", "test:1:20: the name has an escape"},
        {"%0: f32[2] = input \"x\\x00\"", "test:1:20: the name has an escape"},
        {"%0: f32[2] = input \"x\\x4\"", "test:1:20: the name has an escape"},
        {"%0: f32[2] = input \"x\"\n%0: f32[2] = input \"y\"", "test:2:1: %0 is defined after %0"},
        {"%5: f32[2] = input \"x\"\n%3: f32[2] = input \"y\"", "test:2:1: %3 is defined after %5"},
        {"%2147483648: f32[2] = input \"x\"", "test:1:1: a value below %2147483648"},
        {"%99999999999: f32[2] = input \"x\"", "test:1:1: a value (% and a number)"},
        {"%: f32[2] = input \"x\"", "test:1:1: a value (% and a number)"},
        {"%0: f32[2] = frobnicate(%0)", "test:1:14: the name of an op is expected, found `frobnicate`"},
        {"%0: f32[2] = =", "test:1:14: `input`, `constant`, `entry`, a number or a call"},
        {"%0: f32[2] = input \"x\"\n%1: f32[2] = add(%0, %2)", "test:2:22: a value that was defined before"},
        {"%0: f32[2] = add(%0, %0)", "test:1:18: a value that was defined before"},
        {"%0: f32[2] = input \"x\"\n%1: f32[2] = add(%0)", "test:2:14: add takes 2 operands at least, there are 1"},
        {"%0: f32[2] = input \"x\"\n%1: f32[2] = exp(%0, %0)", "test:2:22: exp takes 1 operands at most"},
        {"%0: f32[2] = input \"x\"\n%1: f32[2] = add(%0, none)", "test:2:14: graph: operand 1 of add must not be"},
        {"%0: f32[2] = input \"x\"\n%1: f32[2] = add(%0, :)", "test:2:22: an operand"},
        {"%0: f32[2] = input \"x\"\n%1: f32[2], %2: i64[2] = exp(%0)", "test:2:26: exp gives 1 values, 2 are defined"},
        {"%0: f32[2] = input \"x\"\n_ = exp(%0)", "test:2:5: exp gives 1 values, 0 are defined"},
        {"%0: f32[2] = input \"x\"\n%1: f32[2] = softmax(%0)", "test:2:25: attribute axis of softmax is missing"},
        {"%0: f32[2] = input \"x\"\n%1: f32[2] = softmax(%0) {axis = 1, axis = 0}",
         "test:2:37: attribute axis is given twice"},
        {"%0: f32[2] = input \"x\"\n%1: f32[2] = softmax(%0) {axes = 1}", "test:2:27: the name of an attribute"},
        {"%0: f32[2] = input \"x\"\n%1: f32[2] = softmax(%0) {axis = 1.5}", "test:2:34: an integer is expected"},
        {"%0: f32[2] = input \"x\"\n%1: f32[2] = sum(%0) {axes = [0], keepdims = 1}", "test:2:46: `true` or `false`"},
        {"%0: f32[2] = input \"x\"\n%1: f32[2] = sum(%0) {axes = [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}",
         "more than 16 entries"},
        {"%0: f32[2] = input \"x\"\n%1: f32[2] = cast(%0) {dtype = f128}", "test:2:32: a dtype is expected"},
        {"%0: weak f64[] = 1e999", "test:1:18: a number that a double holds"},
        {"%0: weak f64[] = 1x", "test:1:18: a number is expected, found `1x`"},
        {"%0: weak f64[] = 0x10", "test:1:18: a number"},
        {"%0: weak f64[] = nan:0x0", "test:1:18: a number"},
        {"%0: weak f64[] = nan:0x12345678901234", "test:1:18: a number"},
        {"%0: weak i64[] = 9223372036854775808", "test:1:18: an integer from"},
        {"%0: token = 4", "test:1:1: a number is no token"},
        {"%0: f32[] = entry", "test:1:1: the entry is a token"},
        {"%0: token = entry %1: token = entry", "test:1:19: a graph has one entry token"},
        {"%0: token = input \"t\"", "input %0 is a token"},
        {"%0: f32[2] = constant return %0", "the text ends"},
        {"%0: f32[2] = constant return %1 \"y\"", "test:1:30: a value that was defined before is expected, found `%1`"},
        {"%0: f32[2] = constant write %0 %0 \"y\"", "test:1:32: `to` is expected, found `%0`"},
        {"%0: f32[2] = constant %1: f32[3] = constant write %0 to %1 \"y\"", "written to %1 of another type"},
        {"%0: f32[2] = constant %1: f32[2] = exp(%0) write %0 to %1 \"y\"", "neither input nor constant"},
        {"kiln 2", "test:1:6: the format is of version 2, only 1 is known"},
        {"kiln", "test:1:5: the version of the format is expected, the text ends"},
        {"\x01", "test:1:1: byte 0x01"},
        {"%0: f32[2] = constant\n  yield %0", "test:2:3: a definition, `return`, `write` or `symbol`"},
        {"%9: f32[], %10: f32[] = sample.loop() {n = 0, rate = 0} region() {", "`yield` is expected, the text ends"},
        {"%9: f32[], %10: f32[] = sample.loop() {n = 0, rate = 0} region() { yield %9 }", "defined before"},
        {"%9: f32[], %10: f32[] = sample.loop() {n = 0, rate = 0} region(%1: f32[]) { yield %1 }",
         "test:1:25: %1: f32[], %2: f32[] = sample.loop() {n = 0, rate = 0}: graph: sample.loop has 2 outputs, its "
         "last region gives 1"},
        {"%9: f32[], %10: f32[] = sample.loop() {n = 0, rate = 0} region(%1: f32[]) { yield %1, %1 } %11: f32[] = "
         "exp(%1)",
         "test:1:105: graph: operand 0 is %0 of a region that does not surround it"},
        {"%0: f32[2] = input \"x\" %1: f32[2] = add(%0, 1.0) region() { yield }", "graph: add takes no regions"},
        {"%0: f32[2] = input \"x\"\n%1: f32[3] = input \"y\"\n\n %2: f32[2] = add(%0, %1)",
         "test:4:15: %2: f32[2] = add(%0, %1): add: shapes do not broadcast: a is f32[2], b is f32[3]"},
        {"%0: f32[2] = input \"x\"\n%1: f32[3] = exp(%0)",
         "test:2:14: %1: f32[3] = exp(%0): graph: output 0 is f32[3], "
         "exp gives f32[2]"},
        {"%0: f32[281474976710657] = input \"x\"", "more than 2^48 elements"},
        {"%0: f32[4294967296,4294967296,4294967296,4294967296,0] = input \"x\"", "more than 2^48 elements"},
        {"%0: f32[4] = input \"x\"\n%1: f32[4] = tril(%0)", "attribute k of tril is missing"},
    };
    assert_messages(cases, COUNT_OF(cases));
}

static void sizes_that_are_wrong_are_named(void **state)
{
    static const struct wrong_text cases[] = {
        {"%0: f32[(n)] = input \"x\"", "test:1:10: a symbol that was declared is expected, found `n`"},
        {"symbol n = 3\n%0: f32[(n + -4)] = input \"x\"", "a size from 0 to 9223372036854775807 is expected, it is -1"},
        {"symbol n = 3\n%0: f32[(n / 0)] = input \"x\"", "test:2:12: divided by 0"},
        {"symbol n = 3\n%0: f32[(n * 9223372036854775807)] = input \"x\"",
         "test:2:12: the number of this place is beyond"},
        {"symbol n = 3\n%0: f32[(9223372036854775807 + n)] = input \"x\"", "is beyond 64 bits"},
        {"symbol n = 3\n%0: f32[(n + )] = input \"x\"", "an integer, a symbol or `(` is expected, found `)`"},
        {"symbol n = 3\n%0: f32[(n] = input \"x\"", "`)` is expected, found `]`"},
        {"symbol n = 3\n%0: f32[((((((((((((((((((n))))))))))))))))))] = input \"x\"",
         "parentheses nest more than 16 deep"},
        {"symbol n = 3\n%0: weak f64[] = (0.5 n)", "`*` or `/` is expected, found `n`"},
        {"symbol n = 3\n%0: weak f64[] = ((0.5) / n)", "an integer, a symbol or `(` is expected, found `0.5`"},
    };
    assert_messages(cases, COUNT_OF(cases));
}

// Numbers that go with sizes, read with those that were seen and with others.
static void sizes_decide_numbers(void **state)
{
    static const char text[] = "symbol n = 5\n"
                               "symbol m = 3\n"
                               "%0: f32[n=5,m=3] = input \"x\"\n"
                               "%1: f32[(n * m)] = reshape(%0) {shape = [(n * m)]}\n"
                               "%2: f32[((n + 1) / 2)] = slice(%1) {start = [0], stop = [((n + 1) / 2)], step = [1]}\n"
                               "%4: f32[((n + 1) / 2)] = mul(%2, (1.0 / (n * m)))\n"
                               "%6: f32[((n + 1) / 2)] = add(%4, (2 * n + -1))\n"
                               "%7: weak f64[] = (2.5 * n)\n"
                               "%8: f32[(n)] = arange() {dtype = f32, start = 0, stop = (n), step = 1}\n"
                               "return %6 \"y\"\n";
    struct kiln_graph *g = ir_parse(text, strlen(text), "test");
    if (!g) print_error("%s\n", kiln_error_message());
    assert_non_null(g);
    assert_int_equal(g->values.v[1].type.dims[0], 15);
    assert_int_equal(g->values.v[2].type.dims[0], 3);
    assert_true(g->values.v[3].number == 1.0 / 15);
    assert_int_equal(g->values.v[5].integer, 9);
    assert_true(g->values.v[7].number == 12.5);
    assert_round_trip(g);
    ir_graph_destroy(&g);
    const struct ir_size sizes[] = {{"m", 2}, {"n", 8}, {"other", 1}};
    const struct ir_sizes s = {3, sizes};
    g = ir_parse_sized(text, strlen(text), "test", &s);
    if (!g) print_error("%s\n", kiln_error_message());
    assert_non_null(g);
    assert_int_equal(g->values.v[0].type.dims[0], 8);
    assert_int_equal(g->values.v[0].type.dims[1], 2);
    assert_int_equal(g->values.v[1].type.dims[0], 16);
    assert_int_equal(g->values.v[2].type.dims[0], 4);
    assert_true(g->values.v[3].number == 1.0 / 16);
    assert_int_equal(g->values.v[5].integer, 15);
    assert_true(g->values.v[7].number == 20);
    assert_round_trip(g);
    ir_graph_destroy(&g);
}

// What an old file lacks is what a caller leaves out.
static void missing_attributes_take_defaults(void **state)
{
    static const char *const pairs[][2] = {
        {"%1: f32[2] = layer_norm(%0) {n_axes = 1}", "%1: f32[2] = layer_norm(%0) {n_axes = 1, eps = default 1e-5}"},
        {"%1: f32[] = sum(%0)", "%1: f32[] = sum(%0) {axes = [], keepdims = false}"},
        {"%1: f32[] = norm(%0) {axes = []}", "%1: f32[] = norm(%0) {axes = [], keepdims = false, ord = default 2}"},
    };
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        struct kiln_graph *g[2];
        for (int k = 0; k < 2; k++) {
            char text[256];
            snprintf(text, sizeof text, "%%0: f32[2] = input \"x\"\n%s\nreturn %%1 \"y\"\n", pairs[i][k]);
            g[k] = ir_parse(text, strlen(text), "test");
            if (!g[k]) print_error("%s\n", kiln_error_message());
            assert_non_null(g[k]);
        }
        assert_true(ir_graph_equal(g[0], g[1]));
        struct str a, b;
        str_init(&a);
        str_init(&b);
        ir_graph_text(g[0], &a);
        ir_graph_text(g[1], &b);
        assert_string_equal(str_text(&a), str_text(&b));
        str_free(&a);
        str_free(&b);
        ir_graph_destroy(&g[0]);
        ir_graph_destroy(&g[1]);
    }
}

// A byte less at the end, each on a heap block of just that size, so that a sanitizer sees a read past the end.
static void every_prefix_is_read_or_refused(void **state)
{
    size_t size_B, accepted = 0;
    char *text = read_file("everything.kiln", &size_B);
    for (size_t n = 0; n <= size_B; n++) {
        char *part = malloc(n ? n : 1);
        memcpy(part, text, n);
        struct kiln_graph *g = ir_parse(part, n, "part");
        if (g) {
            accepted++;
            assert_round_trip(g);
        } else
            assert_int_not_equal(kiln_error(), KILN_OK);
        kiln_error_clear();
        ir_graph_destroy(&g);
        free(part);
    }
    // At least at the end of each line outside the regions.
    assert_true(accepted > 30 && accepted < size_B);
    free(text);
}

struct growing {
    char *text;
    size_t n, cap;
};

static void grow(struct growing *b, const char *text)
{
    size_t n = strlen(text);
    while (b->n + n + 1 > b->cap) b->text = realloc(b->text, b->cap = b->cap ? 2 * b->cap : 4096);
    memcpy(b->text + b->n, text, n + 1);
    b->n += n;
}

static void assert_refused(struct growing *b, const char *message)
{
    struct kiln_graph *g = ir_parse(b->text, b->n, "bomb");
    assert_null(g);
    if (!strstr(kiln_error_message(), message)) fail_msg("\"%s\", not \"%s\"", kiln_error_message(), message);
    kiln_error_clear();
    free(b->text);
    *b = (struct growing){0};
}

static void nest(struct growing *b, int depth, bool closed)
{
    char line[160];
    grow(b, "%0: f32[] = constant\n");
    for (int i = 0; i < depth; i++) {
        snprintf(line, sizeof line, "%%%d: f32[], %%%d: f32[] = sample.loop() {n = 0, rate = 0} region() {\n",
                 2000000 - 2 * i, 2000001 - 2 * i);
        grow(b, line);
    }
    for (int i = depth; i > 0 && closed; i--) {
        snprintf(line, sizeof line, i == depth ? "yield %%0, %%0 }\n" : "yield %%%d, %%%d }\n", 2000000 - 2 * i,
                 2000001 - 2 * i);
        grow(b, line);
    }
}

static void deep_nests_have_a_floor(void **state)
{
    struct growing b = {0};
    nest(&b, IR_MAX_DEPTH, true);
    struct kiln_graph *g = ir_parse(b.text, b.n, "deep");
    if (!g) fail_msg("%s", kiln_error_message());
    assert_round_trip(g);
    ir_graph_destroy(&g);
    free(b.text);
    b = (struct growing){0};
    nest(&b, IR_MAX_DEPTH + 1, true);
    assert_refused(&b, "regions nest more than 64 deep");
    nest(&b, 100000, false);
    assert_refused(&b, "regions nest more than 64 deep");
    for (int i = 0; i < 100000; i++) grow(&b, "((((((((");
    assert_refused(&b, "bomb:1:1: ");
    grow(&b, "%0: f32[2] = constant %1: f32[2] = exp(");
    for (int i = 0; i < 100000; i++) grow(&b, "exp(");
    assert_refused(&b, "an operand");
}

static void sizes_have_bounds(void **state)
{
    struct growing b = {0};
    grow(&b, "%0: f32[2] = input \"");
    for (int i = 0; i < IR_MAX_NAME + 1; i++) grow(&b, "x");
    grow(&b, "\"");
    assert_refused(&b, "more than 4096 bytes");
    for (int i = 0; i <= IR_MAX_SYMBOLS; i++) {
        char line[40];
        snprintf(line, sizeof line, "symbol s%d = 1\n", i);
        grow(&b, line);
    }
    assert_refused(&b, "a graph has 256 symbols at most");
    grow(&b, "%0: weak f64[] = 1");
    for (int i = 0; i < 1000; i++) grow(&b, "0");
    assert_refused(&b, "a number is expected");
    grow(&b, "%0: f32[2] = constant %1: f32[2] = concat(");
    for (int i = 0; i < 256; i++) grow(&b, i ? ",%0" : "%0");
    assert_refused(&b, "concat takes 255 operands at most");
    grow(&b, "%0: f32[2] = ");
    for (int i = 0; i < 1000; i++) grow(&b, "longname");
    assert_refused(&b, "the name of an op is expected, found `longname");
    for (int i = 0; i < 6; i++) grow(&b, i ? ", %1: f32[]" : "%1: f32[]");
    grow(&b, " = sort(%1)");
    assert_refused(&b, "sort gives 2 values, 6 are defined");
    // No line needs more than its own bytes: these name numbers near 2^31.
    grow(&b, "%2147483647: f32[2] = input \"x\"\nreturn %2147483647 \"x\"\n");
    struct kiln_graph *g = ir_parse(b.text, b.n, "far");
    if (!g) fail_msg("%s", kiln_error_message());
    assert_int_equal(g->values.n, 1);
    ir_graph_destroy(&g);
    free(b.text);
}

static double time_of_lines(int n)
{
    struct growing b = {0};
    char line[100];
    grow(&b, "%0: f32[2] = input \"x\"\n");
    for (int i = 1; i <= n; i++) {
        snprintf(line, sizeof line, i & 1 ? "%%%d: f32[2] = constant\n" : "%%%d: f32[2] = add(%%%d, %%%d)\n", i, i - 1,
                 i / 2);
        grow(&b, line);
    }
    double start = clock_s();
    struct kiln_graph *g = ir_parse(b.text, b.n, "long");
    if (!g) fail_msg("%s", kiln_error_message());
    char *text = sample_text(g, ir_graph_text);
    double took = clock_s() - start;
    assert_string_equal(text, b.text);
    ir_graph_destroy(&g);
    free(text);
    free(b.text);
    return took;
}

// Sixteen times the lines would take 256 times as long if anything were quadratic.
static void time_is_linear(void **state)
{
    double few = time_of_lines(4000), many = time_of_lines(64000);
    print_message("4,000 lines in %.1f ms, 64,000 in %.1f ms\n", few * 1e3, many * 1e3);
    assert_true(many < 100 * few + 0.2);
}

// Flips, removes, doubles and moves bytes; each result must be refused, or be a graph that round-trips.
static void mutate(char *text, size_t *size_B, uint64_t *random)
{
    for (int changes = 1 + (int)(sample_random(random) % 2); changes && *size_B > 8; changes--) {
        size_t at = sample_random(random) % *size_B, n = 1 + sample_random(random) % 6;
        if (n > *size_B - at) n = *size_B - at;
        switch (sample_random(random) % 5) {
        case 0: text[at] ^= (char)(1 << sample_random(random) % 8); break;
        case 1: text[at] = "%0123456789,:=(){}[]-. \n\"aefinx"[sample_random(random) % 31]; break;
        case 2:
            memmove(text + at, text + at + n, *size_B - at - n);
            *size_B -= n;
            break;
        case 3:
            memmove(text + at + n, text + at, *size_B - at);
            *size_B += n;
            break;
        default: {
            size_t from = sample_random(random) % *size_B;
            if (from + n <= *size_B) memmove(text + at, text + from, n);
        }
        }
    }
}

static void mutated_texts_are_read_or_refused(void **state)
{
    enum { CASES = 20000 };
    static const char *const names[] = {"everything.kiln", "network.kiln", "numbers.kiln"};
    char *texts[COUNT_OF(names)];
    size_t sizes_B[COUNT_OF(names)];
    uint64_t random = 1;
    int accepted = 0;
    for (size_t i = 0; i < COUNT_OF(names); i++) texts[i] = read_file(names[i], &sizes_B[i]);
    for (int i = 0; i < CASES; i++) {
        size_t which = sample_random(&random) % COUNT_OF(names), size_B = sizes_B[which];
        char *text = malloc(size_B + 64), *exact;
        memcpy(text, texts[which], size_B);
        mutate(text, &size_B, &random);
        exact = malloc(size_B);
        memcpy(exact, text, size_B);
        free(text);
        struct kiln_graph *g = ir_parse(exact, size_B, "mutant");
        if (g) {
            accepted++;
            assert_round_trip(g);
        } else {
            assert_int_not_equal(kiln_error(), KILN_OK);
            assert_true(!strncmp(kiln_error_message(), "mutant", 6));
        }
        kiln_error_clear();
        ir_graph_destroy(&g);
        free(exact);
    }
    print_message("%d of %d mutants are graphs\n", accepted, CASES);
    assert_true(accepted > CASES / 100 && accepted < CASES / 2);
    for (size_t i = 0; i < COUNT_OF(names); i++) free(texts[i]);
}

static void public_functions_read_and_count(void **state)
{
    kiln_graph *g = kiln_graph_parse("%0: f32[2] = input \"x\"\n%1: f32[2] = exp(%0)\nreturn %1 \"y\"\n");
    assert_non_null(g);
    assert_int_equal(kiln_graph_node_count(g), 1);
    assert_int_equal(kiln_graph_input_count(g), 1);
    assert_int_equal(kiln_graph_output_count(g), 1);
    assert_int_equal(kiln_graph_input_count(NULL), 0);
    assert_int_equal(kiln_graph_output_count(NULL), 0);
    kiln_graph_free(&g);
    assert_null(g);
    assert_null(kiln_graph_parse("x"));
    assert_int_equal(kiln_error(), KILN_E_FORMAT);
    assert_null(kiln_graph_parse("%0: f32[2] = input \"x\""));
    kiln_error_clear();
    assert_null(kiln_graph_parse("%0: f32[2] = input \"x\" %1: f32[2] = softmax(%0) {axis = 4}"));
    assert_int_equal(kiln_error(), KILN_E_AXIS);
    kiln_error_clear();
    assert_null(kiln_graph_parse(NULL));
    assert_int_equal(kiln_error(), KILN_E_ARGUMENT);
    kiln_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_of_everything_is_its_golden_text),
        cmocka_unit_test(golden_texts_are_fixed_points),
        cmocka_unit_test(a_text_may_be_written_freely),
        cmocka_unit_test(graphs_that_differ_are_not_equal),
        cmocka_unit_test(texts_that_are_wrong_are_named),
        cmocka_unit_test(sizes_that_are_wrong_are_named),
        cmocka_unit_test(sizes_decide_numbers),
        cmocka_unit_test(missing_attributes_take_defaults),
        cmocka_unit_test(every_prefix_is_read_or_refused),
        cmocka_unit_test(deep_nests_have_a_floor),
        cmocka_unit_test(sizes_have_bounds),
        cmocka_unit_test(time_is_linear),
        cmocka_unit_test(mutated_texts_are_read_or_refused),
        cmocka_unit_test(public_functions_read_and_count),
    };
    return cmocka_run_group_tests(tests, sample_setup, NULL);
}
