// Opens the device under test, collects mistakes, and runs the tests of the suite.
#include "conformance/suite.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#if KILN_WITH_VULKAN
#include "vulkan/vk.h"
#endif

struct suite suite;
struct record record;

void record_begin(const char *test)
{
    memset(&record, 0, sizeof record);
    record.test = test;
    kiln_error_clear();
    jit_drop_functions();
}

void record_mistake(const char *format, ...)
{
    size_t n = strlen(record.text);
    if (record.mistakes++ < 6 && n + 300 < sizeof record.text) {
        va_list args;
        va_start(args, format);
        n += (size_t)snprintf(record.text + n, sizeof record.text - n, "\n    ");
        vsnprintf(record.text + n, 300, format, args);
        va_end(args);
    }
}

void record_end(void)
{
    suite.total_cases += record.cases;
    suite.total_values += record.values;
    if (suite.verbose)
        printf("%-7s %-22s %6llu cases %8llu values, worst %.3Lf ULP (f32) %.3Lf (f64)\n", suite.device, record.test,
               (unsigned long long)record.cases, (unsigned long long)record.values, record.worst_ulp[0],
               record.worst_ulp[1]);
    if (record.mistakes)
        fail_msg("%s on %s: %llu mistakes in %llu cases%s", record.test, suite.device,
                 (unsigned long long)record.mistakes, (unsigned long long)record.cases, record.text);
    assert_true(record.cases > 0);
    assert_true(suite.is_null || record.values > 0);
}

bool no_error(const char *what)
{
    if (!kiln_error()) return true;
    record_mistake("%s: %s", what, kiln_error_message());
    kiln_error_clear();
    return false;
}

void expect_error(kiln_status status, const char *op, const char *what)
{
    record.cases++;
    if (kiln_error() != status)
        record_mistake("%s: expected %s, got %s \"%s\"", what, kiln_status_name(status), kiln_status_name(kiln_error()),
                       kiln_error_message());
    else if (strncmp(kiln_error_message(), op, strlen(op)) != 0)
        record_mistake("%s: the message does not begin with %s: \"%s\"", what, op, kiln_error_message());
    kiln_error_clear();
}

bool same_type(kiln_tensor *t, int dtype, int rank, const int64_t *dims, const char *what)
{
    bool same = (int)kiln_tensor_dtype(t) == dtype && (int)kiln_rank(t) == rank;
    for (int i = 0; same && i < rank; i++) same = kiln_dims(t)[i] == dims[i];
    if (same) return true;
    char want[100], got[100];
    host_shape_text(want, sizeof want, rank, dims);
    host_shape_text(got, sizeof got, (int)kiln_rank(t), kiln_dims(t));
    record_mistake("%s: result is %s%s, expected %s%s", what, kiln_dtype_name(kiln_tensor_dtype(t)), got,
                   kiln_dtype_name((kiln_dtype)dtype), want);
    return false;
}

// Exit status of a test that cannot run here, as Meson understands it.
enum { SKIPPED = 77 };

static bool is_wanted(const char *device)
{
    const char *list = getenv("KILN_TEST_DEVICES");
    if (!list) return true;
    size_t n = strlen(device);
    for (const char *at = list; (at = strstr(at, device)); at += n)
        if ((at == list || at[-1] == ',') && (at[n] == '\0' || at[n] == ',')) return true;
    return false;
}

static bool is_there(const char *device)
{
#if KILN_WITH_VULKAN
    return strncmp(device, "vulkan", 6) != 0 || kiln_device_list(NULL, 0) > 0;
#else
    return strncmp(device, "vulkan", 6) != 0;
#endif
}

// One message of the validation layer is a failure, and so is a kernel that was compiled at run time; where ops are
// captured it is a failure that none ran in a program.
static int count_objections(const kiln_device_stats *stats, uint64_t ops_in_programs)
{
    bool compiled = stats->kernels_compiled != 0;
    if (compiled || suite.jit)
        fprintf(stderr, "%llu kernels were compiled at run time\n", (unsigned long long)stats->kernels_compiled);
    if (suite.jit) fprintf(stderr, "%llu ops ran in programs\n", (unsigned long long)ops_in_programs);
    int n = suite.jit ? ops_in_programs == 0 : compiled && !suite.compiles;
#if KILN_WITH_VULKAN
    const char *text = "";
    bool said = vk_validation_messages(suite.dev, &text) != 0;
    if (said) fprintf(stderr, "the validation layer says:\n%s\n", text);
    n += said;
#endif
    return n;
}

// What is written around memory, with KILN_DEBUG=redzones, is told of when the memory is given back. A kernel that
// cannot be compiled runs as it is, with a warning: here that is a failure.
static void hear(void *user, const char *message)
{
    (void)user;
    if (!suite.jit) fprintf(stderr, "%s\n", message);
    if (!strncmp(message, "redzones: ", 10) || strstr(message, "is not fused")) record_mistake("%s", message);
}

static void read_options(int *argc, char **argv)
{
    suite.jit = *argc > 2 && !strcmp(argv[2], "--jit");
    if (suite.jit) {
        argv[2] = argv[3]; // the list ends with NULL
        --*argc;
    }
    suite.device = argv[1];
    suite.is_null = strcmp(argv[1], "null") == 0;
    bool dense = strcmp(argv[1], "cpu") == 0 && !suite.jit;
    suite.sparse = !dense && !getenv("KILN_TEST_FULL");
    suite.verbose = getenv("KILN_TEST_VERBOSE") != NULL;
}

int suite_main(int argc, char **argv, const char *group, const struct CMUnitTest *tests, size_t n)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s <device> [--jit] [test pattern]\n", argv[0]);
        return 2;
    }
    read_options(&argc, argv);
    if (!is_wanted(argv[1])) {
        printf("skipped: KILN_TEST_DEVICES does not name %s\n", argv[1]);
        return SKIPPED;
    }
    if (!is_there(argv[1])) {
        printf("skipped: there is no Vulkan driver, or the build is without Vulkan\n");
        return SKIPPED;
    }
    kiln_error_clear();
    suite.dev = kiln_device_open(argv[1]);
    if (!suite.dev || kiln_set_device(suite.dev)) {
        fprintf(stderr, "%s\n", kiln_error_message());
        return 1;
    }
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    kiln_set_log(hear, NULL);
    if (suite.jit) jit_begin();
    int failed = _cmocka_run_group_tests(group, tests, n, NULL, NULL);
    uint64_t ops_in_programs = suite.jit ? jit_end() : 0;
    printf("%s: %llu cases, %llu values compared\n", suite.device, (unsigned long long)suite.total_cases,
           (unsigned long long)suite.total_values);
    kiln_set_log(NULL, NULL);
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_get_stats(suite.dev, &stats);
    printf("%s: %llu launches, %llu pipelines, %llu fallbacks to the CPU\n", suite.device,
           (unsigned long long)stats.launches, (unsigned long long)stats.pipelines,
           (unsigned long long)stats.fallbacks);
    failed += count_objections(&stats, ops_in_programs);
    kiln_device_close(&suite.dev);
    return failed;
}
