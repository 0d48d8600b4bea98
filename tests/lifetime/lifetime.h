// What the tests of ownership, threads and memory share: the device under test and its figures.
#pragma once
#include <kiln/kiln.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern kiln_device *dev;
extern const char *device_name;

kiln_device_stats stats_now(void);
// Fails unless this error is pending with a text that holds both; clears it.
void expect_error(kiln_status code, const char *a, const char *b);
#define EXPECT_NO_ERROR() assert_string_equal(kiln_error_message(), "")

// scopes.c
void a_scope_frees_what_was_made_in_it(void **state);
void keep_moves_one_scope_out(void **state);
void own_takes_out_of_all_scopes(void **state);
void replace_frees_what_it_replaces(void **state);
void replaced_handles_hand_on_their_scope(void **state);
void replace_without_a_value_keeps_the_old_one(void **state);
void a_replaced_handle_leaves_its_gradient(void **state);
void captures_replace_as_eager_runs_do(void **state);
void ending_an_outer_scope_ends_the_inner_ones(void **state);
void a_scope_ends_on_its_own_thread_only(void **state);
void freeing_early_and_twice(void **state);
void views_hold_their_storage(void **state);
void user_functions_run_in_a_scope_of_their_own(void **state);
void user_cells_run_in_a_scope_of_their_own(void **state);
void cells_own_what_they_hold(void **state);
// threads.c
void errors_are_per_thread(void **state);
void settings_are_per_thread(void **state);
void threads_share_tensors(void **state);
void errors_of_library_threads_reach_the_caller(void **state);
void handles_may_be_freed_on_another_thread(void **state);
// memory.c
void memory_stays_constant_over_training(void **state);
void exhaustion_is_a_clear_error_and_nothing_is_lost(void **state);
void memory_is_found_again_after_trimming(void **state);
void a_failed_op_gives_back_what_it_took(void **state);
void memory_kept_is_bounded_by_what_is_used(void **state);
void memory_of_one_size_serves_another(void **state);
void a_steady_state_takes_nothing_from_the_system(void **state);
void what_nothing_uses_any_more_is_given_back(void **state);
void blocks_are_apart(void **state);
// close.c
void a_closed_device_lives_until_its_last_tensor_goes(void **state);
void without_a_device_creation_says_what_to_call(void **state);
void handles_alive_at_close_are_listed(void **state);
