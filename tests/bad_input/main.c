// Runs all wrong calls on one device. usage: test_bad_input DEVICE
#include "bad_input.h"
#if KILN_WITH_VULKAN
#include "vulkan/vk.h"
#endif

kiln_device *dev, *other;
static kiln_scope *scope;
static uint64_t tensors_before;

static uint64_t tensors_alive(void)
{
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_get_stats(dev, &stats);
    return stats.tensors;
}

static int mistakes; // of the running test; all are shown

static void mistake(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void mistake(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    mistakes++;
}

void check_bad(const char *call, uintptr_t result, kiln_status code, const char *path, int line,
               const char *const *parts)
{
    const char *text = kiln_error_message(), *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    if (kiln_error() != code)
        mistake(file, line, "%s: %s expected, got %s \"%s\"", call, kiln_status_name(code),
                kiln_status_name(kiln_error()), text);
    if (result && result != (uintptr_t)code) mistake(file, line, "%s returned %zx", call, (size_t)result);
    for (; *parts; parts++) {
        if (!strstr(text, *parts)) mistake(file, line, "\"%s\" does not hold \"%s\"", text, *parts);
    }
    // Compilers differ in which line of a call that takes several is its line.
    const char *place = strrchr(text, '(');
    size_t n = strlen(file);
    bool named = place && !strncmp(place + 1, file, n) && place[n + 1] == ':' && text[strlen(text) - 1] == ')';
    int at = named ? atoi(place + n + 2) : 0;
    if (at < line - 2 || at > line + 2) mistake(file, line, "\"%s\" does not end with the line of the call", text);
    kiln_error_clear();
}

static int begin(void **state)
{
    kiln_error_clear();
    mistakes = 0;
    tensors_before = tensors_alive();
    scope = kiln_scope_begin();
    return scope && !kiln_set_device(dev) ? 0 : -1;
}

// Nothing may be left behind by calls that failed, and the device still works.
static int end(void **state)
{
    kiln_tensor *sum = kiln_sum(kiln_ones(dev, KILN_F32, KILN_SHAPE(8)), NULL);
    if (!sum || kiln_error()) {
        fprintf(stderr, "after it: %s\n", kiln_error_message());
        return -1;
    }
    kiln_scope_end(&scope);
    uint64_t left = tensors_alive() - tensors_before;
    if (left) fprintf(stderr, "%" PRIu64 " storages are left\n", left);
    return left || mistakes ? -1 : 0;
}

static int count_validation_messages(void)
{
#if KILN_WITH_VULKAN
    const char *text = "";
    uint64_t n = vk_validation_messages(dev, &text);
    if (n) fprintf(stderr, "the validation layer says:\n%s\n", text);
    return n != 0;
#else
    return 0;
#endif
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
        CASE(wrong_shapes),
        CASE(too_many_dimensions),
        CASE(wrong_dtypes),
        CASE(wrong_axes),
        CASE(wrong_values),
        CASE(wrong_indices),
        CASE(indices_out_of_range),
        CASE(wrong_views),
        CASE(every_op_rejects_null),
        CASE(every_op_rejects_a_freed_handle),
        CASE(every_op_rejects_two_devices),
        CASE(every_op_waits_for_a_pending_error),
        CASE(every_op_moves_storage_dtypes_or_refuses),
        CASE(every_size_is_checked),
        CASE(other_versions_of_options),
        CASE(every_list_is_checked),
        CASE(every_freed_handle_is_found),
        CASE(freed_handles_stay_freed),
        CASE(wrong_tensors),
        CASE(wrong_writes),
        CASE(wrong_devices),
        CASE(wrong_gradients),
        CASE(wrong_calls_of_functions),
        CASE(functions_that_fail),
        CASE(functions_that_write_and_fail),
        CASE(reads_of_what_is_not_known),
        CASE(wrong_control_flow),
        CASE(wrong_host_calls),
        CASE(wrong_bundles),
        CASE(wrong_functions_of_bundles),
        CASE(wrong_cells),
        CASE(wrong_layers),
        CASE(wrong_convolutions),
        CASE(wrong_pools),
        CASE(wrong_images),
        CASE(wrong_cells_of_convolutions),
        CASE(wrong_losses),
        CASE(wrong_optimisers),
        CASE(wrong_loaders),
        CASE(wrong_files),
        CASE(wrong_debug_calls),
        CASE(pending_errors_stop_everything),
    };
    if (argc < 2) {
        fprintf(stderr, "usage: %s DEVICE [TEST]\n", argv[0]);
        return 2;
    }
    setenv("KILN_CACHE_DIR", "/dev/null/none", 1); // what clears the cache finds none
    dev = kiln_device_open(argv[1]);
    if (!dev && kiln_error() == KILN_E_MISSING) {
        printf("skipped: %s\n", kiln_error_message());
        return 77;
    }
    other = kiln_device_open("null");
    if (!dev || !other) {
        fprintf(stderr, "%s\n", kiln_error_message());
        return 1;
    }
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_error_clear();
    failed += count_validation_messages();
    kiln_device_close(&other);
    kiln_device_close(&dev);
    return failed;
}
