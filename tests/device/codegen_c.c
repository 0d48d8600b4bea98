// The C of generated kernels: analysis, what is kept between passes, the text of small kernels, the table.
#include "codegen/catalogue/c_plan.h"
#include "scalar/prim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>

static struct arena arena;
static struct kernel k;

static int setup(void **state)
{
    arena_init(&arena);
    return 0;
}

static int teardown(void **state)
{
    arena_finish(&arena);
    kiln_error_clear();
    return 0;
}

// A kernel of class f32 over inputs a, b (f32) and a run-time scalar s.
static void parse(const char *text, enum kernel_kind kind, int n_in, enum scalar_class out_cls)
{
    static const char *const names[] = {"a", "b"};
    struct scalar_param params[3];
    struct scalar_dag dag;
    for (int i = 0; i < n_in; i++) params[i] = (struct scalar_param){names[i], CLASS_F32};
    params[n_in] = (struct scalar_param){"s", CLASS_F32};
    k = (struct kernel){.name = "k", .kind = kind, .cls = CLASS_F32, .n_in = n_in, .n_scalars = 1, .out_cls = out_cls};
    if (scalar_parse(&arena, text, params, n_in + 1, CLASS_F32, &dag) || scalar_expand(&arena, &dag, &k.dag))
        fail_msg("%s", kiln_error_message());
}

static void analyze(const char *text, enum kernel_kind kind, int n_in)
{
    parse(text, kind, n_in, CLASS_F32);
    assert_int_equal(kernel_analyze(&arena, &k), KILN_OK);
}

static void stages(void **state)
{
    analyze("a + b * s", KERNEL_POINTWISE, 2);
    assert_int_equal(k.n_stages, 0);
    assert_false(k.row_out);
    analyze("rsum(a)", KERNEL_ROW, 1);
    assert_int_equal(k.n_stages, 1);
    assert_true(k.row_out);
    analyze("m = rmax(a); e = exp(a - m); e / rsum(e)", KERNEL_ROW, 1);
    assert_int_equal(k.n_stages, 2);
    assert_false(k.row_out);
    assert_int_equal(k.stage[k.dag.root], 2);
    // The count of the row and run-time scalars are row values; the place in the row is not.
    analyze("s * f32(rcount())", KERNEL_ROW, 0);
    assert_true(k.row_out);
    analyze("s + f32(rindex())", KERNEL_ROW, 0);
    assert_false(k.row_out);
    assert_int_equal(k.n_stages, 0);
}

static void mistakes(void **state)
{
    parse("rsum(a)", KERNEL_POINTWISE, 1, CLASS_F32);
    assert_int_equal(kernel_analyze(&arena, &k), KILN_E_INTERNAL);
    assert_non_null(strstr(kiln_error_message(), "a reduction in a pointwise kernel"));
    kiln_error_clear();
    // Nine reductions are one more than a block has room for.
    analyze("rsum(a) + rsum(a+1) + rsum(a+2) + rsum(a+3) + rsum(a+4) + rsum(a+5) + rsum(a+6) + rsum(a+7) + rsum(a+8)",
            KERNEL_ROW, 1);
    struct str text;
    str_init(&text);
    assert_int_equal(c_kernel(&text, &k), KILN_E_UNSUPPORTED);
    assert_non_null(strstr(kiln_error_message(), "more than 8 reductions"));
    str_free(&text);
}

static void kept_values(void **state)
{
    struct c_plan plan;
    // The exponential is dear and two passes need it: the pass that sums it keeps it.
    analyze("m = rmax(a); e = exp(a - m); e / rsum(e)", KERNEL_ROW, 1);
    assert_int_equal(c_plan_make(&arena, &k, &plan), KILN_OK);
    assert_int_equal(plan.n_reduce, 2);
    assert_int_equal(plan.n_keep, 1);
    assert_int_equal(plan.keep_pass[0], 1);
    const struct scalar_node *sum = &k.dag.nodes[plan.reduce_node[1]];
    assert_int_equal(sum->arg[0], plan.keep_node[0]);
    c_plan_pass(&plan, 2);
    assert_true(plan.kept[plan.keep_node[0]]);
    for (int i = 0; i < plan.keep_node[0]; i++)
        if (plan.element[i]) fail_msg("the last pass computes node %d again", i);
    // A difference is cheap: every pass computes it.
    analyze("m = rsum(a) / s; d = a - m; d * (1 / sqrt(rsum(d * d)))", KERNEL_ROW, 1);
    assert_int_equal(c_plan_make(&arena, &k, &plan), KILN_OK);
    assert_int_equal(plan.n_keep, 0);
}

static void expect_text(const char *const *parts, size_t n)
{
    struct str text;
    str_init(&text);
    assert_int_equal(c_kernel(&text, &k), KILN_OK);
    const char *at = str_text(&text);
    for (size_t i = 0; i < n; i++) {
        at = strstr(at, parts[i]);
        if (!at) fail_msg("missing, or out of order: %s\nin:\n%s", parts[i], str_text(&text));
    }
    str_free(&text);
}

static void pointwise_text(void **state)
{
    analyze("a + b", KERNEL_POINTWISE, 2);
    struct str text;
    str_init(&text);
    assert_int_equal(c_kernel(&text, &k), KILN_OK);
    assert_string_equal(
        str_text(&text),
        "cpu_pointwise_fn CPU_FN(kernel_k_f32);\n"
        "void CPU_FN(kernel_k_f32)(int64_t n, const void *const *in, void *out, const uint64_t *scalars)\n"
        "{\n"
        "    float *y = out;\n"
        "    (void)in, (void)scalars;\n"
        "    const float *x0 = in[0];\n"
        "    const float *x1 = in[1];\n"
        "#pragma omp simd\n"
        "    for (int64_t i = 0; i < n; i++) {\n"
        "        float t0 = x0[i];\n"
        "        float t1 = x1[i];\n"
        "        float t2 = t0 + t1;\n"
        "        y[i] = t2;\n"
        "    }\n"
        "}\n\n");
    str_free(&text);
    // A run-time scalar is read before the loop.
    analyze("a * s", KERNEL_POINTWISE, 1);
    static const char *const scalar[] = {"cpu_scalar_f32(scalars[0])", "#pragma omp simd", "y[i] ="};
    expect_text(scalar, COUNT_OF(scalar));
}

// What is long takes two positions at once, each statement of both beside each other; the rest is filled up.
static void two_at_once_text(void **state)
{
    analyze("log(1 + exp(a * b)) * log(1 + exp(a - b)) + log(a * s)", KERNEL_POINTWISE, 2);
    static const char *const parts[] = {
        "    enum { WIDTH = CPU_VECTOR_B / sizeof(float) };\n    float done[2 * WIDTH];\n",
        "        int64_t half = (n - at) / (2 * WIDTH) * WIDTH;\n        count = 2 * half;\n",
        "            half = WIDTH, count = n - at, to = done;\n",
        "            x1 = CPU_FN(cpu_filled)(rest1, x1, sizeof *x1, count, 2 * WIDTH);\n",
        "#pragma omp simd\n        for (int64_t i = 0; i < half; i++) {\n",
        "            float t0 = x0[i];\n            float u0 = x0[i + half];\n",
        "            float t1 = x1[i];\n            float u1 = x1[i + half];\n",
        "            to[i] = t",
        "            to[i + half] = u",
        "        if (to == done) memcpy(y + at, done, sizeof *y * (size_t)count);\n    }\n}\n",
    };
    expect_text(parts, COUNT_OF(parts));
}

// What is rare is asked of both positions, and the whole part computed once more.
static void rare_text(void **state)
{
    analyze("rare(a > 100, exp(a), a * b)", KERNEL_POINTWISE, 2);
    static const char *const parts[] = {
        "float done[256];\n    bool apart = true;\n",
        "    apart = apart && cpu_apart(y, n * (int64_t)sizeof *y, in[0], n * (int64_t)sizeof(float));\n",
        "        int32_t far = 0;\n        if (half > 256 / 2) half = 256 / 2;\n",
        "        float *to = apart ? y + at : done;\n",
        "#pragma omp simd reduction(| : far)\n",
        "            far |= t",
        " | u",
        "        if (far) {\n#pragma omp simd\n            for (int64_t i = 0; i < 2 * half; i++) {\n",
        "                to[i] = t",
    };
    expect_text(parts, COUNT_OF(parts));
}

static void row_text(void **state)
{
    analyze("rmax(a)", KERNEL_ROW, 1);
    static const char *const max[] = {"_row)(int pass",
                                      "case 0:",
                                      "reduction(CPU_MOST : r0) reduction(| : nan0)",
                                      "cpu_fold_max_f32(&b->acc[0]",
                                      "case 1:",
                                      "*(float *)b->out",
                                      "_col)(int call",
                                      "case 1:",
                                      "case 2:",
                                      "y[i] ="};
    expect_text(max, COUNT_OF(max));
    parse("rargmax(a)", KERNEL_ROW, 1, CLASS_I64);
    assert_int_equal(kernel_analyze(&arena, &k), KILN_OK);
    static const char *const place[] = {"cpu_fold_argmax_f32", "b->acc[0].index = first + at + place",
                                        "*(int64_t *)b->out"};
    expect_text(place, COUNT_OF(place));
    analyze("m = rmax(a); e = exp(a - m); e / rsum(e)", KERNEL_ROW, 1);
    static const char *const softmax[] = {
        "case 1:", "b->keep[0]", "k0[i] = t", "case 2:", "b->keep[0]", "= k0[i]", "_col)"};
    expect_text(softmax, COUNT_OF(softmax));
}

static void table_text(void **state)
{
    struct c_table t;
    struct str rows, functions;
    int cost = -1;
    c_table_init(&t);
    str_init(&rows);
    str_init(&functions);
    analyze("a + b", KERNEL_POINTWISE, 2);
    assert_int_equal(c_table_add(&t, &k, 3), KILN_OK);
    analyze("rsum(a)", KERNEL_ROW, 1);
    assert_int_equal(c_table_add(&t, &k, 7), KILN_OK);
    assert_int_equal(c_cost(&k, &cost), KILN_OK);
    assert_int_equal(c_table_rows(&t, &rows), KILN_OK);
    assert_int_equal(c_table_functions(&t, &functions), KILN_OK);
    char costs[128];
    snprintf(costs, sizeof costs, "{.id = 7, .n_in = 1, .in_cls = {0}, .out_cls = 0, .cost = %d, .form = CPU_ROW",
             cost);
    assert_in_range(cost, 1, 10);
    assert_non_null(strstr(str_text(&rows), costs));
    assert_non_null(strstr(str_text(&rows), "{.id = 3, .n_in = 2, .in_cls = {0, 0}, .out_cls = 0"));
    assert_non_null(strstr(str_text(&rows), ".row_out = 1"));
    assert_non_null(strstr(str_text(&rows), "cpu_n_generated = 2;"));
    assert_non_null(strstr(str_text(&functions), "extern cpu_pointwise_fn CPU_FN(kernel_k_f32);\n"));
    const char *pointwise = strstr(str_text(&functions), "    {.pointwise = CPU_FN(kernel_k_f32)},\n");
    assert_non_null(pointwise);
    assert_non_null(strstr(pointwise, "    {.row = CPU_FN(kernel_k_f32_row), .col = CPU_FN(kernel_k_f32_col)},\n"));
    str_free(&rows);
    str_free(&functions);
    c_table_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stages, setup, teardown),
        cmocka_unit_test_setup_teardown(mistakes, setup, teardown),
        cmocka_unit_test_setup_teardown(kept_values, setup, teardown),
        cmocka_unit_test_setup_teardown(pointwise_text, setup, teardown),
        cmocka_unit_test_setup_teardown(two_at_once_text, setup, teardown),
        cmocka_unit_test_setup_teardown(rare_text, setup, teardown),
        cmocka_unit_test_setup_teardown(row_text, setup, teardown),
        cmocka_unit_test_setup_teardown(table_text, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
