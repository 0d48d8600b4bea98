// Tables of profiles in the process that takes them, and what devices can do at best.
#include <kiln/kiln.h>

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define assert_error(code, text)                             \
    do {                                                     \
        assert_int_equal(kiln_error(), code);                \
        assert_non_null(strstr(kiln_error_message(), text)); \
        kiln_error_clear();                                  \
    } while (0)
#define ok(call) assert_int_equal(call, KILN_OK)

static char path[] = "/tmp/kiln-profile-XXXXXX";

static char *table(const kiln_profile_print_opts *opts)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    ok(kiln_profile_print(f, opts));
    fclose(f);
    return text;
}

#define CSV(...) KILN_PROFILE_PRINT(.csv = true, .no_ceilings = true, __VA_ARGS__)

// The row of that name: calls, total ms, share ...; false: there is none.
static bool row(const char *text, const char *name, double v[4])
{
    char quoted[80];
    snprintf(quoted, sizeof quoted, "\n\"%s\",", name);
    const char *at = strstr(text, quoted);
    return at && sscanf(at + strlen(quoted), "%lf,%lf,%lf,%lf", &v[0], &v[1], &v[2], &v[3]) == 4;
}

static void nothing_was_taken(void **state)
{
    kiln_profile_print(stdout, NULL);
    assert_error(KILN_E_STATE, "profile_print: no profile has been taken: call kiln_profile_begin first");
}

static void a_table_can_be_had_before_and_after_the_end(void **state)
{
    double v[4], total = 0;
    kiln_device *dev = kiln_device_open("cpu");
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(64, 64));
    kiln_exp(x);
    ok(kiln_profile_begin(path));
    for (int i = 0; i < 3; i++) kiln_sin(x);
    char *before = table(CSV());
    assert_true(row(before, "sin", v) && v[0] == 3);
    assert_false(row(before, "exp", v));
    kiln_cos(x);
    kiln_matmul(x, x);
    ok(kiln_profile_end());
    kiln_tan(x);
    char *after = table(CSV()), *top = table(CSV(.top = 1));
    const char *const names[] = {"sin", "cos", "matmul"};
    for (size_t i = 0; i < 3; i++) {
        assert_true(row(after, names[i], v));
        assert_true(v[0] == (i ? 1 : 3));
        assert_true(fabs(v[3] * v[0] - 1000 * v[1]) <= 1e-9 * 1000 * v[1]);
        total += v[2];
    }
    assert_true(fabs(total - 100) < 1e-9);
    assert_false(row(after, "tan", v));
    assert_true(row(top, "(2 others)", v));
    ok(kiln_profile_begin(path));
    char *anew = table(CSV());
    assert_string_equal(strchr(anew, '\n'), "\n");
    ok(kiln_profile_end());
    free(before), free(after), free(top), free(anew);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
}

static void *cube(void *dev)
{
    kiln_scope *scope = kiln_scope_begin();
    for (int i = 0; i < 50; i++) kiln_cbrt(kiln_ones(dev, KILN_F32, KILN_SHAPE(16)));
    kiln_scope_end(&scope);
    return NULL;
}

static void threads_count_together(void **state)
{
    double v[4];
    pthread_t threads[4];
    kiln_device *dev = kiln_device_open("cpu");
    ok(kiln_profile_begin(path));
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, cube, dev);
    free(table(CSV(.by = KILN_PROFILE_BY_LINE)));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    char *text = table(CSV(.by = KILN_PROFILE_BY_OP));
    assert_true(row(text, "cbrt", v) && v[0] == 200);
    free(text);
    kiln_profile_begin(path);
    assert_error(KILN_E_STATE, "a profile is being taken already");
    ok(kiln_profile_end());
    kiln_device_close(&dev);
}

static double last_number(const char *text, const char *name)
{
    char quoted[80];
    snprintf(quoted, sizeof quoted, "\n\"%s\",", name);
    const char *at = strstr(text, quoted);
    assert_non_null(at);
    at = strchr(at + 1, '\n');
    while (at[-1] != ',') at--;
    return *at == '\n' ? NAN : atof(at);
}

static void ceilings_leave_no_trace(void **state)
{
    kiln_device *dev = kiln_device_open("cpu");
    kiln_scope *scope = kiln_scope_begin();
    kiln_device_stats before = {.size = sizeof before}, after = before;
    ok(kiln_profile_begin(path));
    kiln_ones(dev, KILN_F32, KILN_SHAPE(256, 256));
    kiln_device_get_stats(dev, &before);
    char *text = table(KILN_PROFILE_PRINT(.csv = true)), *again = table(KILN_PROFILE_PRINT(.csv = true));
    kiln_device_get_stats(dev, &after);
    assert_true(last_number(text, "ones") > 0);
    assert_string_equal(text, again);
    size_t lines = 0;
    for (const char *at = text; *at; at++) lines += *at == '\n';
    assert_int_equal(lines, 2); // the names of columns, and one row
    assert_true(after.heap_peak_B == before.heap_peak_B);
    ok(kiln_profile_end());
    free(text), free(again);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
}

static kiln_status prints(void *dev, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    char *text = table(KILN_PROFILE_PRINT(.csv = true));
    assert_true(isnan(last_number(text, "ones")));
    free(text);
    out[0] = kiln_neg(in[0]);
    return kiln_error();
}

static void a_capture_does_not_take_what_is_measured(void **state)
{
    kiln_device *dev = kiln_device_open("cpu");
    kiln_scope *scope = kiln_scope_begin();
    ok(kiln_profile_begin(path));
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(4)), *out;
    kiln_function *f = kiln_jit(prints, dev, NULL);
    kiln_jit_stats stats = {.size = sizeof stats};
    ok(kiln_call(f, &x, 1, &out, 1));
    kiln_function_stats(f, &stats);
    assert_int_equal(stats.nodes, 1);
    ok(kiln_profile_end());
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
}

static void nothing_is_known_of_the_null_device(void **state)
{
    kiln_device *dev = kiln_device_open("null");
    kiln_scope *scope = kiln_scope_begin();
    ok(kiln_profile_begin(path));
    kiln_ones(dev, KILN_F32, KILN_SHAPE(4));
    char *text = table(KILN_PROFILE_PRINT(.csv = true));
    assert_true(isnan(last_number(text, "ones")));
    free(text);
    ok(kiln_profile_end());
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
}

static const char given[] =
    "{\"otherData\": {\"lost\": 0, \"devices\": [{\"name\": \"d\", \"kind\": \"none\", \"peak_B\": 8}]}, "
    "\"traceEvents\": [\n{\"name\": \"k\\u0041\", \"cat\": \"launch\", \"ph\": \"X\", \"pid\": 1, \"ts\": 0.5, "
    "\"dur\": "
    "1.5e3, \"args\": {\"op\": \"a+b\", \"device\": \"d\", \"in\": [\"f32[2,3]\", null], \"read_B\": 24, "
    "\"written_B\": 24, "
    "\"flops\": 6, \"line\": \"a.c:3\", \"cell\": \"net\", \"backward\": true}}\n]}\n";

static kiln_status print_bytes(const char *data, size_t n)
{
    FILE *f = fopen(path, "w"), *nowhere = fopen("/dev/null", "w");
    assert_true(fwrite(data, 1, n, f) == n && !fclose(f));
    kiln_status status = kiln_profile_print_file(path, nowhere, NULL);
    fclose(nowhere);
    if (!status) return KILN_OK;
    assert_int_equal(status, KILN_E_FORMAT);
    assert_non_null(strstr(kiln_error_message(), path));
    kiln_error_clear();
    return status;
}

static void parts_of_a_file_are_no_profile(void **state)
{
    size_t whole = strlen(given);
    ok(print_bytes(given, whole));
    ok(print_bytes(given, whole - 1));
    for (size_t n = 0; n + 1 < whole; n += 1 + n % 3) assert_int_equal(print_bytes(given, n), KILN_E_FORMAT);
}

static void bytes_by_chance_are_a_profile_or_an_error(void **state)
{
    char data[sizeof given];
    uint32_t chance = 1, good = 0;
    for (int i = 0; i < 1000; i++) {
        memcpy(data, given, sizeof given);
        for (int k = 0; k <= i % 4; k++) {
            chance = chance * 1664525 + 1013904223;
            data[(chance >> 8) % (sizeof given - 1)] = (char)(chance >> 24);
        }
        good += print_bytes(data, sizeof given - 1) == KILN_OK;
    }
    assert_true(good > 20 && good < 980);
}

static void mistakes(void **state)
{
    kiln_profile_print(NULL, NULL);
    assert_error(KILN_E_ARGUMENT, "profile_print: file is NULL");
    kiln_profile_print(stdout, KILN_PROFILE_PRINT(.by = (kiln_profile_by)7));
    assert_error(KILN_E_ARGUMENT, "profile_print: by is 7; see kiln_profile_by");
    kiln_profile_print_file(NULL, stdout, NULL);
    assert_error(KILN_E_ARGUMENT, "profile_print_file: path is NULL");
    kiln_profile_print_file("/nonexistent", NULL, NULL);
    assert_error(KILN_E_ARGUMENT, "profile_print_file: file is NULL");
    kiln_profile_print_file("/nonexistent", stdout, NULL);
    assert_error(KILN_E_IO, "profile_print_file: /nonexistent cannot be read: No such file");
    FILE *full = fopen("/dev/full", "w");
    kiln_profile_print(full, CSV());
    assert_error(KILN_E_IO, "profile_print: the table cannot be written");
    fclose(full);
}

static int begin(void **state)
{
    int fd = mkstemp(path);
    return fd < 0 || close(fd);
}

static int end(void **state)
{
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_was_taken),
        cmocka_unit_test(a_table_can_be_had_before_and_after_the_end),
        cmocka_unit_test(threads_count_together),
        cmocka_unit_test(ceilings_leave_no_trace),
        cmocka_unit_test(a_capture_does_not_take_what_is_measured),
        cmocka_unit_test(nothing_is_known_of_the_null_device),
        cmocka_unit_test(parts_of_a_file_are_no_profile),
        cmocka_unit_test(bytes_by_chance_are_a_profile_or_an_error),
        cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
