// Ownership, threads and memory on one device. usage: test_lifetime DEVICE [TEST]
#include "lifetime.h"
#if KILN_WITH_VULKAN
#include "vulkan/vk.h"
#endif

kiln_device *dev;
const char *device_name;
static uint64_t tensors_before;

kiln_device_stats stats_now(void)
{
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_get_stats(dev, &stats);
    return stats;
}

void expect_error(kiln_status code, const char *a, const char *b)
{
    const char *text = kiln_error_message();
    if (kiln_error() != code)
        fail_msg("%s expected, got %s \"%s\"", kiln_status_name(code), kiln_status_name(kiln_error()), text);
    if (!strstr(text, a) || !strstr(text, b)) fail_msg("\"%s\" does not hold \"%s\" and \"%s\"", text, a, b);
    kiln_error_clear();
}

static int begin(void **state)
{
    kiln_error_clear();
    tensors_before = stats_now().tensors;
    return kiln_set_device(dev);
}

static int end(void **state)
{
    if (kiln_error()) {
        fprintf(stderr, "left pending: %s\n", kiln_error_message());
        return -1;
    }
    uint64_t left = stats_now().tensors - tensors_before;
    if (left) fprintf(stderr, "%llu storages are left\n", (unsigned long long)left);
    return left ? -1 : 0;
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
        CASE(a_scope_frees_what_was_made_in_it),
        CASE(keep_moves_one_scope_out),
        CASE(own_takes_out_of_all_scopes),
        CASE(replace_frees_what_it_replaces),
        CASE(replaced_handles_hand_on_their_scope),
        CASE(replace_without_a_value_keeps_the_old_one),
        CASE(a_replaced_handle_leaves_its_gradient),
        CASE(captures_replace_as_eager_runs_do),
        CASE(ending_an_outer_scope_ends_the_inner_ones),
        CASE(a_scope_ends_on_its_own_thread_only),
        CASE(freeing_early_and_twice),
        CASE(views_hold_their_storage),
        CASE(user_functions_run_in_a_scope_of_their_own),
        CASE(user_cells_run_in_a_scope_of_their_own),
        CASE(cells_own_what_they_hold),
        CASE(errors_are_per_thread),
        CASE(settings_are_per_thread),
        CASE(threads_share_tensors),
        CASE(errors_of_library_threads_reach_the_caller),
        CASE(handles_may_be_freed_on_another_thread),
        CASE(memory_stays_constant_over_training),
        CASE(exhaustion_is_a_clear_error_and_nothing_is_lost),
        CASE(memory_is_found_again_after_trimming),
        CASE(a_failed_op_gives_back_what_it_took),
        CASE(memory_kept_is_bounded_by_what_is_used),
        CASE(memory_of_one_size_serves_another),
        CASE(a_steady_state_takes_nothing_from_the_system),
        CASE(what_nothing_uses_any_more_is_given_back),
        CASE(blocks_are_apart),
        CASE(a_closed_device_lives_until_its_last_tensor_goes),
        CASE(without_a_device_creation_says_what_to_call),
        CASE(handles_alive_at_close_are_listed),
    };
    if (argc < 2) {
        fprintf(stderr, "usage: %s DEVICE [TEST]\n", argv[0]);
        return 2;
    }
    device_name = argv[1];
    dev = kiln_device_open(device_name);
    if (!dev) {
        fprintf(stderr, "%s\n", kiln_error_message());
        return kiln_error() == KILN_E_MISSING ? 77 : 1;
    }
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_error_clear();
    failed += count_validation_messages();
    kiln_device_close(&dev);
    return failed;
}
