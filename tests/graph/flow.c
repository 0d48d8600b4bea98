// Nodes switch and loop of graphs: their text, what is refused of them, what they compute.
#include "graph_sample.h"

#define LOOP_ATTRS(carried, scanned, trips, counted, bound, reverse)                                                \
    " {carried = " #carried ", scanned = " #scanned ", trips = " #trips ", counted = " #counted ", bound = " #bound \
    ", reverse = " #reverse ", draws = -1, unroll = 0}"
#define INPUTS                     \
    "%0: f32[2] = input \"x\"\n"   \
    "%1: f32[4,2] = input \"m\"\n" \
    "%2: bool[] = input \"p\"\n"   \
    "%3: i64[] = input \"n\"\n"

static const char *const good[] = {
    INPUTS "%9: f32[2], %10: bool[] = switch(%0, %2) {draws = -1} region(%4: f32[2]) {\n"
           "    %5: f32[2] = mul(%4, %4)\n"
           "    %6: bool[] = any(%5) {axes = [], keepdims = false}\n"
           "    yield %5, %6\n"
           "} region(%7: f32[2]) {\n"
           "    %8: bool[] = full() {dtype = bool, shape = [], value = 1}\n"
           "    yield %7, %8\n"
           "}\n"
           "return %9 \"y\"\n"
           "return %10 \"z\"\n",
    INPUTS "%8: f32[2], %9: f32[4,2] = loop(%0, %1)" LOOP_ATTRS(
        1, 1, 4, false, 0, true) " region(%4: f32[2], %5: f32[2], %6: weak i64[]) {\n"
                                 "    %7: f32[2] = add(%4, %5)\n"
                                 "    yield %7, %5\n"
                                 "}\n"
                                 "return %8 \"y\"\n"
                                 "return %9 \"rows\"\n",
    // As long as a condition holds, with rows for the four trips that there may be.
    INPUTS "%11: f32[2], %12: f32[4,2] = loop(%0)" LOOP_ATTRS(
        1, 0, -1, false, 4, false) " region(%4: f32[2], %5: weak i64[]) {\n"
                                   "    %6: f32[2] = add(%4, %4)\n"
                                   "    yield %6, %4\n"
                                   "} region(%7: f32[2], %8: weak i64[]) {\n"
                                   "    %9: f32[] = sum(%7) {axes = [], keepdims = false}\n"
                                   "    %10: bool[] = less(%9, 9.0)\n"
                                   "    yield %10\n"
                                   "}\n"
                                   "return %11 \"y\"\n"
                                   "return %12 \"rows\"\n",
    // As often as a value says, over rows of which it may be fewer.
    INPUTS "%8: f32[2] = loop(%0, %1, %3)" LOOP_ATTRS(1, 1, -1, true, 4,
                                                      true) " region(%4: f32[2], %5: f32[2], %6: weak i64[]) {\n"
                                                            "    %7: f32[2] = add(%4, %5)\n"
                                                            "    yield %7\n"
                                                            "}\n"
                                                            "return %8 \"y\"\n",
};

static struct kiln_graph *parse(const char *text)
{
    struct kiln_graph *g = ir_parse(text, strlen(text), "test");
    if (!g) fail_msg("%s\n%s", kiln_error_message(), text);
    return g;
}

static void their_text_is_read_back(void **state)
{
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct kiln_graph *g = parse(good[i]);
        sample_fine(ir_verify(g));
        char *text = sample_text(g, ir_graph_text), *dot = sample_text(g, ir_graph_dot_text);
        struct kiln_graph *again = parse(text);
        char *second = sample_text(again, ir_graph_text);
        assert_string_equal(text, second);
        assert_true(ir_graph_equal(g, again));
        assert_true(ir_graph_hash(g) == ir_graph_hash(again));
        assert_non_null(strstr(dot, i ? "loop" : "switch"));
        free(text);
        free(second);
        free(dot);
        ir_graph_destroy(&again);
        ir_graph_destroy(&g);
    }
}

#define BODY "region(%4: f32[2], %5: weak i64[]) { yield %4 }"

static const struct {
    const char *text, *message;
} bad[] = {
    {"%9: f32[2] = switch(%0, %2) {draws = -1} region(%4: f32[2]) { yield %4 } region(%5: f32[2]) { yield %5, %5 }",
     "switch: region 0 gives 1 results, region 1 gives 2"},
    {"%9: f32[2] = switch(%0, %2) {draws = -1} region(%4: f32[2]) { yield %4 } region(%5: f32[2]) { %6: f32[] = "
     "sum(%5) {axes = [], "
     "keepdims = false} yield %6 }",
     "switch: result 0 of region 0 is f32[2], result 0 of region 1 is f32[]: they differ in rank"},
    {"%9: f32[2] = switch(%0, %1) {draws = -1} region(%4: f32[2]) { yield %4 }",
     "the index is f32[4,2], not an integer or a bool"},
    {"%9: f32[2] = switch(%0, %2) {draws = -1} region(%4: f32[4,2]) { yield %4 }",
     "the region's parameter 0 is f32[4,2]"},
    {"%9: f32[2] = switch(%0, %2) {draws = -1} region(%4: f32[2]) { %5: f32[2] = add(%4, %0) yield %5 }", "region"},
    {"%9: f32[2] = loop(%0)" LOOP_ATTRS(2, 0, 3, false, 0, false) BODY, "of 1 operands 2 are carried"},
    {"%9: f32[2] = loop(%0)" LOOP_ATTRS(1, 0, 3, false, 0, false) "region(%4: f32[2]) { yield %4 }",
     "region 0 has 1 parameters, 1 operands and the trip's number go there"},
    {"%9: f32[] = loop(%0)" LOOP_ATTRS(
         1, 0, 3, false, 0,
         false) "region(%4: f32[2], %5: weak i64[]) { %6: f32[] = sum(%4) {axes = [], keepdims = false} yield %6 }",
     "they differ in rank"},
    {"%9: f32[2] = loop(%0, %1)" LOOP_ATTRS(1, 1, 3, false, 0,
                                            false) "region(%4: f32[2], %5: f32[2], %6: weak i64[]) { yield %4 }",
     "loop: operand 1 has no row for each trip"},
    {"%9: f32[2], %10: f32[4,2] = loop(%0)" LOOP_ATTRS(1, 0, -1, false, 0,
                                                       false) "region(%4: f32[2], %5: weak i64[]) { yield %4, %4 }",
     "loop: result 1 has no place in rows"},
    {"%9: f32[2] = loop(%0)" LOOP_ATTRS(1, 0, -1, false, 4, false) BODY
     " region(%6: f32[2], %7: weak i64[]) { yield %6 }",
     "the result of region 1 is f32[2]"},
    {"%9: f32[2] = loop(%0, %1)" LOOP_ATTRS(1, 0, -1, true, 4, false) BODY,
     "the index is f32[4,2], not an integer or a bool"},
};

static void mistakes_are_told(void **state)
{
    int wrong = 0;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s\nreturn %%9 \"y\"", INPUTS, bad[i].text);
        struct kiln_graph *g = ir_parse(text, strlen(text), "test");
        if (g || !strstr(kiln_error_message(), bad[i].message)) {
            print_error("%s\n    gives \"%s\"\n    not   \"%s\"\n", bad[i].text, kiln_error_message(), bad[i].message);
            wrong++;
        }
        kiln_error_clear();
        ir_graph_destroy(&g);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(their_text_is_read_back),
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, sample_setup, NULL);
}
