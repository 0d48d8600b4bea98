// Printing, against what NumPy printed (golden/print), and the shortest digits of bf16, which NumPy does not have.
#include "base/float16.h"
#include "tensor/decimal.h"
#include "tensor/print.h"

#include <kiln/jit.h>
#include <kiln/ops.h>
#include <kiln/print.h>

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int clear_error(void **state)
{
    kiln_error_clear();
    return 0;
}

// --- recorded cases

static uint8_t dtype_named(const char *name)
{
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(dtype_name(i), name) == 0) return (uint8_t)i;
    }
    fail_msg("no dtype is called %s", name);
    return 0;
}

// "f32 2 3"; of c64 the parts are a dimension of their own.
static void parse_type(char *text, struct type *t, bool *complex)
{
    char *at = text, *name = strsep(&at, " ");
    *complex = !strcmp(name, "c64");
    *t = (struct type){.dtype = *complex ? KILN_F32 : dtype_named(name)};
    for (char *word; at && (word = strsep(&at, " "));) {
        if (*word) t->dims[t->rank++] = strtoll(word, NULL, 10);
    }
    if (*complex) t->dims[t->rank++] = 2;
}

static const kiln_print_opts at_first = {.precision = 8, .threshold = 1000, .edge = 3, .width = 75};

// "precision=3 sign=43", as NumPy calls them.
static void parse_options(char *text, kiln_print_opts *o)
{
    *o = at_first;
    for (char *word; text && (word = strsep(&text, " "));) {
        char name[32];
        long long v;
        if (sscanf(word, "%31[a-z]=%lld", name, &v) != 2) continue;
        if (!strcmp(name, "precision"))
            o->precision = v ? v : -1;
        else if (!strcmp(name, "threshold"))
            o->threshold = v ? v : -1;
        else if (!strcmp(name, "edgeitems"))
            o->edge = v;
        else if (!strcmp(name, "linewidth"))
            o->width = v;
        else if (!strcmp(name, "suppress"))
            o->notation = KILN_PRINT_PLAIN;
        else if (!strcmp(name, "scientific"))
            o->notation = KILN_PRINT_SCIENTIFIC;
        else if (!strcmp(name, "sign"))
            o->sign = v == '+' ? KILN_PRINT_SIGN_PLUS : v == ' ' ? KILN_PRINT_SIGN_SPACE : KILN_PRINT_SIGN_NEGATIVE;
        else
            fail_msg("no option is called %s", name);
    }
}

static void parse_bits(const char *line, const struct type *t, void *data)
{
    size_t item_B = dtype_size_B[t->dtype];
    char *at = (char *)line;
    for (int64_t i = 0, n = type_numel(t); i < n; i++) {
        // Machines of this project are little-endian: the low bytes come first.
        uint64_t bits = strtoull(at, &at, 16);
        memcpy((char *)data + (size_t)i * item_B, &bits, item_B);
    }
}

static FILE *open_golden(void)
{
    const char *root = getenv("KILN_TEST_SOURCE_DIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/golden/print/numpy.txt", root ? root : "tests");
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s could not be opened", path);
    return f;
}

static void prints_as_numpy(void **state)
{
    FILE *f = open_golden();
    char *line = NULL;
    size_t cap = 0;
    int cases = 0, wrong = 0;
    while (getline(&line, &cap, f) > 0) {
        line[strcspn(line, "\n")] = '\0';
        assert_int_equal(strncmp(line, "case ", 5), 0);
        char title[200];
        snprintf(title, sizeof title, "%s", line);
        struct type t;
        bool complex;
        kiln_print_opts o;
        char *behind = strstr(line, " | ");
        if (behind) *behind = '\0';
        parse_options(behind ? behind + 3 : NULL, &o);
        parse_type(line + 5, &t, &complex);
        void *data = malloc((size_t)type_numel(&t) * 8 + 1);
        assert_non_null(data);
        assert_true(getline(&line, &cap, f) > 0);
        parse_bits(line, &t, data);

        struct str want, got;
        str_init(&want);
        str_init(&got);
        while (getline(&line, &cap, f) > 0 && strcmp(line, "end\n") != 0) str_add(&want, line);
        assert_int_equal(tensor_format(&got, &t, complex, data, &o), KILN_OK);
        str_add(&got, "\n");
        if (strcmp(str_text(&got), str_text(&want)) != 0) {
            print_error("%s\nexpected:\n%sgot:\n%s", title, str_text(&want), str_text(&got));
            wrong++;
        }
        str_free(&want);
        str_free(&got);
        free(data);
        cases++;
    }
    free(line);
    fclose(f);
    assert_true(cases > 1000);
    assert_int_equal(wrong, 0);
}

// --- bf16

static void check_bf16(float value, const char *expected)
{
    uint16_t bits = bf16_from_float(value);
    struct type t = {.dtype = KILN_BF16};
    struct str got;
    str_init(&got);
    assert_int_equal(tensor_format(&got, &t, false, &bits, &at_first), KILN_OK);
    assert_string_equal(str_text(&got), expected);
    str_free(&got);
}

static void bf16_has_few_digits(void **state)
{
    check_bf16(1, "1.0");
    check_bf16(0.1f, "0.1");
    check_bf16(1.0f / 3, "0.334");
    check_bf16(3.14159f, "3.14");
    check_bf16(65536, "65500.0");
    check_bf16(1e-5f, "1e-05");
    check_bf16(-INFINITY, "-inf");
    const uint16_t row[] = {bf16_from_float(0.1f), bf16_from_float(-2.5f), bf16_from_float(NAN)};
    struct type t = {.dtype = KILN_BF16, .rank = 1, .dims = {3}};
    struct str got;
    str_init(&got);
    assert_int_equal(tensor_format(&got, &t, false, row, &at_first), KILN_OK);
    assert_string_equal(str_text(&got), "[ 0.1 -2.5  nan]");
    str_free(&got);
}

// Every positive bf16 and f16: the digits give the value back, and one digit fewer never does.
static void sixteen_bits_round_trip(void **state)
{
    for (int k = 0; k < 2; k++) {
        kiln_dtype dtype = k ? KILN_BF16 : KILN_F16;
        for (uint32_t h = 1; h < (k ? 0x7f80u : 0x7c00u); h++) {
            double x = k ? bf16_to_float((uint16_t)h) : f16_to_float((uint16_t)h);
            struct decimal d, fewer;
            decimal_shortest(x, dtype, &d);
            if (!d.exact || d.count > 6) fail_msg("%04x has digits %s", h, d.text);
            if (d.count == 1) continue;
            decimal_fixed(x, dtype, d.count - 1, &fewer);
            if (fewer.exact) fail_msg("%04x needs no more than %s", h, fewer.text);
        }
    }
}

// Seventeen digits always do, at the edges of the format too.
static void doubles_round_trip(void **state)
{
    const double edges[] = {4.9406564584124654e-324,
                            2.2250738585072009e-308,
                            2.2250738585072014e-308,
                            1.7976931348623157e308,
                            9007199254740993.0,
                            0x1p-44,
                            0x1p-1022,
                            0.1 + 0.2};
    for (size_t i = 0; i < COUNT_OF(edges); i++) {
        struct decimal d;
        char text[64];
        decimal_shortest(edges[i], KILN_F64, &d);
        assert_true(d.exact && d.count <= 17);
        snprintf(text, sizeof text, "%se%d", d.text, d.exponent - d.count + 1);
        assert_true(strtod(text, NULL) == edges[i]);
    }
    struct decimal d;
    decimal_shortest(0x1p-44, KILN_F64, &d);
    assert_string_equal(d.text, "5684341886080802");
    decimal_shortest(4.9406564584124654e-324, KILN_F64, &d);
    assert_string_equal(d.text, "5");
}

// --- tensors

static void print_writes_a_line(void **state)
{
    kiln_device *dev = kiln_device_open("cpu");
    assert_non_null(dev);
    const float v[] = {9.02f, 5.4f, 7.2000003f, 9.02f, 5.4f, 7.2000003f};
    kiln_tensor *t = kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 3), v);
    const char *expected = "[[9.02      5.4       7.2000003]\n [9.02      5.4       7.2000003]]";
    char *text = kiln_to_string(t);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);

    char *written = NULL;
    size_t written_B = 0;
    FILE *f = open_memstream(&written, &written_B);
    assert_non_null(f);
    kiln_print(t, f);
    fclose(f);
    assert_int_equal(kiln_error(), KILN_OK);
    assert_int_equal(written_B, strlen(expected) + 1);
    assert_int_equal(strncmp(written, expected, strlen(expected)), 0);
    free(written);
    kiln_free(&t);
    kiln_device_close(&dev);
}

static void print_reports_failures(void **state)
{
    kiln_device *dev = kiln_device_open("cpu");
    const int32_t v[] = {1, 2};
    kiln_tensor *t = kiln_from_data(dev, KILN_I32, KILN_SHAPE(2), v);
    kiln_print(t, NULL);
    assert_int_equal(kiln_error(), KILN_E_ARGUMENT);
    assert_null(kiln_to_string(t));
    kiln_error_clear();
    assert_null(kiln_to_string(NULL));
    assert_int_equal(kiln_error(), KILN_E_ARGUMENT);
    kiln_error_clear();

    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    setvbuf(full, NULL, _IONBF, 0);
    kiln_print(t, full);
    assert_int_equal(kiln_error(), KILN_E_IO);
    assert_non_null(strstr(kiln_error_message(), "No space left"));
    fclose(full);
    kiln_free(&t);
    kiln_error_clear();
    kiln_device_close(&dev);
}

static void expect_text(char *text, const char *want)
{
    assert_non_null(text);
    assert_string_equal(text, want);
    free(text);
}

// A call's options, over those of the process, over those at first.
static void options_have_an_order(void **state)
{
    kiln_device *dev = kiln_device_open("cpu");
    const float v[] = {0.123456f, 20, 1.5f, 4, 5, 6, 7};
    kiln_tensor *t = kiln_from_data(dev, KILN_F32, KILN_SHAPE(7), v);
    expect_text(kiln_to_string_with(t, KILN_PRINT(.precision = 2)), "[ 0.12 20.    1.5   4.    5.    6.    7.  ]");
    expect_text(kiln_to_string_with(t, NULL),
                "[ 0.123456 20.        1.5       4.        5.        6.        7.      ]");
    assert_int_equal(kiln_set_print_options(KILN_PRINT(.precision = 1, .threshold = 5, .edge = 2)), KILN_OK);
    expect_text(kiln_to_string(t), "[ 0.1 20.  ...  6.   7. ]");
    expect_text(kiln_to_string_with(t, KILN_PRINT(.edge = 1, .sign = KILN_PRINT_SIGN_PLUS)), "[+0.1 ... +7. ]");
    expect_text(kiln_to_string_with(t, KILN_PRINT(.threshold = 7, .precision = -1)), "[ 0. 20.  2.  4.  5.  6.  7.]");
    kiln_print_opts now = {.size = sizeof now};
    assert_int_equal(kiln_get_print_options(&now), KILN_OK);
    assert_int_equal(now.precision, 1);
    assert_int_equal(now.threshold, 5);
    assert_int_equal(now.edge, 2);
    assert_int_equal(now.width, 75);
    assert_int_equal(kiln_set_print_options(NULL), KILN_OK);
    assert_int_equal(kiln_get_print_options(&now), KILN_OK);
    assert_int_equal(now.precision, 8);
    assert_int_equal(now.threshold, 1000);
    expect_text(kiln_to_string(t), "[ 0.123456 20.        1.5       4.        5.        6.        7.      ]");
    kiln_free(&t);
    kiln_device_close(&dev);
}

// What a captured function prints has the options of its call, and those of the process when it runs.
static kiln_status printing(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(in[0], 2);
    kiln_print_with(out[0], user, KILN_PRINT(.precision = 2));
    kiln_print_with(out[0], user, KILN_PRINT(.sign = KILN_PRINT_SIGN_PLUS));
    return kiln_error();
}

static void captures_keep_options(void **state)
{
    kiln_device *dev = kiln_device_open("cpu");
    kiln_scope *scope = kiln_scope_begin();
    char *text = NULL;
    size_t text_B = 0;
    FILE *f = open_memstream(&text, &text_B);
    kiln_function *fn = kiln_jit(printing, f, NULL);
    const float v[] = {1.2345f, 2};
    kiln_tensor *in = kiln_from_data(dev, KILN_F32, KILN_SHAPE(2), v), *out;
    for (int i = 0; i < 2; i++) assert_int_equal(kiln_call(fn, &in, 1, &out, 1), KILN_OK);
    kiln_set_print_options(KILN_PRINT(.precision = 1));
    assert_int_equal(kiln_call(fn, &in, 1, &out, 1), KILN_OK);
    kiln_set_print_options(NULL);
    fclose(f);
    assert_string_equal(text, "[2.47 4.  ]\n[+2.469 +4.   ]\n[2.47 4.  ]\n[+2.469 +4.   ]\n[2.47 4.  ]\n[+2.5 +4. ]\n");
    kiln_jit_stats s = {.size = sizeof s};
    kiln_function_stats(fn, &s);
    assert_int_equal(s.captures, 1);
    free(text);
    kiln_function_free(&fn);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
}

static void expect_refused(kiln_status status, const char *part)
{
    assert_int_equal(status, KILN_E_ARGUMENT);
    assert_non_null(strstr(kiln_error_message(), part));
    kiln_error_clear();
}

static void wrong_options_are_named(void **state)
{
    kiln_tensor *t = kiln_scalar(1);
    expect_refused(kiln_print_with(t, stdout, KILN_PRINT(.precision = 33)),
                   "print_with: .precision is 33, not from -1 to 32");
    expect_refused(kiln_print_with(t, stdout, KILN_PRINT(.edge = -1)), "print_with: .edge is -1");
    expect_refused(kiln_print_with(t, NULL, NULL), "print_with: the file is NULL");
    expect_refused(kiln_set_print_options(KILN_PRINT(.width = -4)), "set_print_options: .width is -4");
    expect_refused(kiln_set_print_options(KILN_PRINT(.notation = (kiln_print_notation)3)),
                   "set_print_options: .notation is 3");
    expect_refused(kiln_set_print_options(KILN_PRINT(.sign = (kiln_print_sign)7)), ".sign is 7");
    assert_null(kiln_to_string_with(t, KILN_PRINT(.threshold = -2)));
    expect_refused(kiln_error(), "to_string_with: .threshold is -2");
    expect_refused(kiln_get_print_options(NULL), "get_print_options");
    kiln_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(prints_as_numpy, clear_error),
        cmocka_unit_test_teardown(bf16_has_few_digits, clear_error),
        cmocka_unit_test_teardown(sixteen_bits_round_trip, clear_error),
        cmocka_unit_test_teardown(doubles_round_trip, clear_error),
        cmocka_unit_test_teardown(print_writes_a_line, clear_error),
        cmocka_unit_test_teardown(print_reports_failures, clear_error),
        cmocka_unit_test_teardown(options_have_an_order, clear_error),
        cmocka_unit_test_teardown(captures_keep_options, clear_error),
        cmocka_unit_test_teardown(wrong_options_are_named, clear_error),
    };
    return cmocka_run_group_tests_name("print", tests, NULL, NULL);
}
