// Runs one capability's test, or all. usage: test_capability [capability_NN]
#include "capability.h"
#include <sys/wait.h>
#include <unistd.h>
#if KILN_WITH_VULKAN
#include "vulkan/vk.h"
#endif

static kiln_device *devices[2];
static bool no_vulkan;

static kiln_device *open_once(int i, const char *name)
{
    if (!devices[i]) devices[i] = kiln_device_open(name);
    return devices[i];
}

kiln_device *cpu(void)
{
    kiln_device *dev = open_once(0, "cpu");
    if (!dev) fail_msg("%s", kiln_error_message());
    return dev;
}

kiln_device *vulkan(void)
{
    if (no_vulkan) return NULL;
    kiln_device *dev = open_once(1, "vulkan");
    if (dev) return dev;
    // A machine or a build without Vulkan; anything else is a failure.
    if (kiln_error() != KILN_E_MISSING && kiln_error() != KILN_E_ARGUMENT) fail_msg("%s", kiln_error_message());
    printf("not on Vulkan: %s\n", kiln_error_message());
    kiln_error_clear();
    no_vulkan = true;
    return NULL;
}

void on_each_device(void (*fn)(kiln_device *dev))
{
    kiln_device *list[] = {cpu(), vulkan()};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (!list[i]) continue;
        uint64_t before = stats_of(list[i]).tensors;
        assert_int_equal(kiln_set_device(list[i]), KILN_OK);
        kiln_scope *scope = kiln_scope_begin();
        fn(list[i]);
        EXPECT_NO_ERROR();
        kiln_scope_end(&scope);
        assert_int_equal(stats_of(list[i]).tensors, before);
    }
    assert_int_equal(kiln_set_device(cpu()), KILN_OK);
}

kiln_device_stats stats_of(kiln_device *dev)
{
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_get_stats(dev, &stats);
    return stats;
}

kiln_jit_stats jit_stats_of(const kiln_function *f)
{
    kiln_jit_stats s = {.size = sizeof s};
    kiln_function_stats(f, &s);
    return s;
}

char *explanation_of(kiln_function *f)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    kiln_explain_with(f, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    fclose(file);
    return text;
}

void run_child(const char *test, const char *what, const char *const *variables)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("KILN_TEST_CHILD", "1", 1);
        for (; *variables; variables += 2) setenv(variables[0], variables[1], 1);
        execl("/proc/self/exe", "test_capability", test, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("%s: the child ended with status %#x", what, (unsigned)status);
}

void must(kiln_status status)
{
    if (status) fail_msg("%s", kiln_error_message());
}

kiln_function *automatic(kiln_fn fn, void *user)
{
    return kiln_jit(fn, user, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
}

char warned[4096];
static void note_warning(void *user, const char *message)
{
    size_t n = strlen(warned);
    snprintf(warned + n, sizeof warned - n, "%s\n", message);
}

void listen_to_log(void)
{
    warned[0] = '\0';
    kiln_set_log(note_warning, NULL);
}

bool fuses(kiln_device *dev)
{
    return dev == cpu() ? KILN_WITH_LLVM : KILN_WITH_GLSLANG;
}

kiln_tensor *from(kiln_device *dev, const double *v, size_t rank, const int64_t *dims)
{
    float f[256];
    size_t n = 1;
    for (size_t i = 0; i < rank; i++) n *= (size_t)dims[i];
    assert_true(n <= sizeof f / sizeof *f);
    for (size_t i = 0; i < n; i++) f[i] = (float)v[i];
    return kiln_from_data(dev, KILN_F32, rank, dims, f);
}

void expect_values(kiln_tensor *t, double tolerance, size_t n, const double *want, int line)
{
    if (!t || kiln_error()) fail_msg("line %d: %s", line, kiln_error_message());
    if (kiln_numel(t) != (int64_t)n)
        fail_msg("line %d: %lld elements, expected %zu", line, (long long)kiln_numel(t), n);
    kiln_tensor *wide = kiln_cast(t, KILN_F64);
    double *got = calloc(n, sizeof *got);
    assert_non_null(got);
    if (!wide || kiln_read(wide, got, n * sizeof *got)) fail_msg("line %d: %s", line, kiln_error_message());
    for (size_t i = 0; i < n; i++) {
        if (!(fabs(got[i] - want[i]) <= tolerance * (1 + fabs(want[i]))))
            fail_msg("line %d: element %zu is %.9g, expected %.9g", line, i, got[i], want[i]);
    }
    free(got);
    kiln_free(&wide);
}

void expect_same(kiln_tensor *got, kiln_tensor *want, const char *what)
{
    double a[256], b[256];
    if (!got || !want || kiln_error()) fail_msg("%s: %s", what, kiln_error_message());
    int64_t n = kiln_numel(want);
    assert_true(n <= 256);
    if (kiln_numel(got) != n || kiln_rank(got) != kiln_rank(want) || kiln_tensor_dtype(got) != kiln_tensor_dtype(want))
        fail_msg("%s: another type", what);
    must(kiln_read(kiln_cast(got, KILN_F64), a, sizeof *a * (size_t)n));
    must(kiln_read(kiln_cast(want, KILN_F64), b, sizeof *b * (size_t)n));
    for (int64_t i = 0; i < n; i++) {
        bool same = a[i] == b[i] || (isnan(a[i]) && isnan(b[i])) || fabs(a[i] - b[i]) <= 1e-5 * (1 + fabs(b[i]));
        if (!same) fail_msg("%s: element %d is %.9g, eagerly %.9g", what, (int)i, a[i], b[i]);
    }
}

void expect_error_text(kiln_status code, const char *const *parts, int line)
{
    if (kiln_error() != code)
        fail_msg("line %d: expected %s, got %s \"%s\"", line, kiln_status_name(code), kiln_status_name(kiln_error()),
                 kiln_error_message());
    for (; *parts; parts++) {
        if (!strstr(kiln_error_message(), *parts))
            fail_msg("line %d: \"%s\" does not hold \"%s\"", line, kiln_error_message(), *parts);
    }
    kiln_error_clear();
}

// One message of the validation layer is a failure.
static int count_validation_messages(void)
{
#if KILN_WITH_VULKAN
    const char *text = "";
    uint64_t n = devices[1] ? vk_validation_messages(devices[1], &text) : 0;
    if (n) fprintf(stderr, "the validation layer says:\n%s\n", text);
    return n != 0;
#else
    return 0;
#endif
}

#define CASE(nn) {.name = "capability_" #nn, .test_func = capability_##nn},
static const struct CMUnitTest tests[] = {CAPABILITIES(CASE)};

int main(int argc, char **argv)
{
    const size_t n = sizeof tests / sizeof *tests;
    size_t wanted = 0;
    for (size_t i = 0; i < n && argc > 1; i++) wanted += strcmp(tests[i].name, argv[1]) == 0;
    if (argc > 1 && !wanted) {
        fprintf(stderr, "there is no test %s\n", argv[1]);
        return 2;
    }
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    failed += count_validation_messages();
    kiln_error_clear();
    for (int i = 0; i < 2; i++) kiln_device_close(&devices[i]);
    return failed + count_validation_messages();
}
