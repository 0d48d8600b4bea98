// Whether products of bf16 go by AMX: where the processor has it, the system gives its registers and nobody forbids it;
// with stacks for signals that are too small they go another way, and give the same.
#include "base/base.h"
#include "base/float16.h"
#include "cpu/tiles.h"
#include "device/cpu_fixture.h"

#include "../processor.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIDE = 96 };

// Whether each element of a product of ones and twos is what it must be.
static bool product_is_right(void)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *a = kiln_full(dev, KILN_BF16, KILN_SHAPE(SIDE, SIDE), 1);
    kiln_tensor *b = kiln_full(dev, KILN_BF16, KILN_SHAPE(SIDE, SIDE), 2);
    static uint16_t y[SIDE * SIDE];
    bool right = !kiln_read(kiln_matmul(a, b), y, sizeof y);
    for (int i = 0; i < SIDE * SIDE; i++) right = right && bf16_to_float(y[i]) == 2 * SIDE;
    kiln_scope_end(&scope);
    return right;
}

// In a process of its own, for a process is asked once. -1: no stack of that size can be made.
static int in_child(size_t stack_B)
{
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        stack_t stack = {.ss_sp = malloc(stack_B), .ss_size = stack_B};
        if (!stack.ss_sp || sigaltstack(&stack, NULL)) _exit(2);
        _exit(product_is_right() ? cpu_amx_missing() != NULL : 3);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status) == 2 ? -1 : WEXITSTATUS(status);
}

// 8 KiB of registers do not fit beside the others.
static void stacks_for_signals_that_are_too_small(void **state)
{
    if (!processor_has("amx_bf16") || debug_flag("no-matrices")) skip();
    int small = in_child(6144);
    if (small == -1) skip();
    assert_int_equal(small, 1);
    assert_int_equal(in_child(1 << 16), 0);
}

static void it_is_taken_where_it_is(void **state)
{
    bool should = processor_has("amx_bf16") && processor_has("amx_tile") && !debug_flag("no-matrices");
    const char *why = cpu_amx_missing();
    if (should)
        assert_null(why);
    else
        assert_string_equal(why, debug_flag("no-matrices") && processor_has("amx_bf16") ? "KILN_DEBUG=no-matrices"
                                                                                        : "the processor lacks them");
    assert_ptr_equal(cpu_amx_missing(), why);
    assert_true(product_is_right());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacks_for_signals_that_are_too_small),
        cmocka_unit_test(it_is_taken_where_it_is),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
