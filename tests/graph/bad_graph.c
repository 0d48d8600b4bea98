// Graphs that come as text from anywhere, through the whole compile path on the null device: what is no graph is
// refused when it is read, what would leave its memory when it is compiled, and truncated text never does harm.
#include "program/program.h"
#include "tensor/tensor.h"
#include <kiln/graph.h>
#include <kiln/kiln.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kiln_status compile_text(const char *text)
{
    kiln_device *dev = kiln_device_open("null");
    assert_non_null(dev);
    struct program *p = NULL;
    kiln_graph *g = kiln_graph_parse(text);
    kiln_status status = g ? program_create(g, dev, NULL, NULL, &p) : kiln_error();
    program_destroy(&p);
    kiln_graph_free(&g);
    kiln_error_clear();
    kiln_device_close(&dev);
    return status;
}

static const char good[] = "kiln 1\n%0: f32[2,3] = input \"x\"\n%1: f32[2,3] = neg(%0)\n"
                           "%2: f32[3,2] = as_strided(%1) {shape = [3, 2], strides = [1, 3], offset = 0}\n"
                           "%3: f32[3] = sum(%2) {axes = [1], keepdims = false}\nreturn %3 \"y\"\n";

static void a_good_graph_compiles(void **state)
{
    assert_int_equal(compile_text(good), KILN_OK);
}

static void views_stay_inside(void **state)
{
    static const char *const views[] = {
        "shape = [3], strides = [3], offset = 0", "shape = [2], strides = [-1], offset = 0",
        "shape = [1], strides = [1], offset = -1", "shape = [1], strides = [1], offset = 6",
        "shape = [4], strides = [4611686018427387904], offset = 0"};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "kiln 1\n%%0: f32[2,3] = input \"x\"\n%%1: f32[%c] = as_strided(%%0) {%s}\n%%2: f32[%c] = neg(%%1)\n"
                 "return %%2 \"y\"\n",
                 views[i][9], views[i], views[i][9]);
        assert_int_equal(compile_text(text), KILN_E_SHAPE);
    }
}

static void truncated_and_garbled_text(void **state)
{
    char text[sizeof good];
    int refused = 0;
    for (size_t n = 0; n < sizeof good - 1; n++) {
        memcpy(text, good, sizeof good);
        text[n] = '\0';
        refused += compile_text(text) != KILN_OK;
        memcpy(text, good, sizeof good);
        text[n] = (char)('!' + n * 7 % 90);
        refused += compile_text(text) != KILN_OK;
    }
    assert_true(refused > (int)sizeof good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_graph_compiles),
        cmocka_unit_test(views_stay_inside),
        cmocka_unit_test(truncated_and_garbled_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
