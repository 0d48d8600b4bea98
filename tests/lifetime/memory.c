// Memory: constant over training, bounded by a limit, found again after trimming.
#include "lifetime.h"

#include <malloc.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED __has_feature(address_sanitizer)
#else
#define SANITIZED 0
#endif

static const uint64_t MiB = 1u << 20;

static uint64_t resident_B(void)
{
    unsigned long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &size, &resident), 2);
    fclose(f);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void step(kiln_cell *net, kiln_optim *opt, kiln_tensor **params)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_normal(dev, KILN_F32, KILN_SHAPE(8, 12), 0, 1);
    kiln_tensor *labels = kiln_randint(dev, KILN_I64, KILN_SHAPE(8), 0, 4);
    kiln_backward(kiln_cross_entropy(kiln_cell_call(net, x), labels, NULL), NULL);
    kiln_clip_grad_norm(params, 4, 1);
    kiln_optim_step(opt);
    kiln_optim_zero_grad(opt);
    kiln_scope_end(&scope);
}

void memory_stays_constant_over_training(void **state)
{
    const bool on_cpu = !strcmp(device_name, "cpu");
    // A software driver takes milliseconds a step.
    const int warm_up = on_cpu ? 200 : 60, steps = on_cpu ? 10000 : 400;
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, 12, 16, NULL), kiln_nn_relu(),
                                                   kiln_nn_dropout(0.1), kiln_nn_dense(dev, 16, 4, NULL)));
    kiln_cell_set_training(net, true);
    kiln_tensor *params[4] = {NULL};
    assert_int_equal(kiln_cell_parameters(net, params, 4), 4);
    kiln_optim *opt = kiln_optim_adam(params, 4, NULL);
    for (int i = 0; i < warm_up; i++) step(net, opt, params);
    assert_int_equal(kiln_device_synchronize(dev), KILN_OK);
    kiln_device_stats warm = stats_now();
    size_t host_B = mallinfo2().uordblks;
    uint64_t resident = resident_B();
    for (int i = warm_up; i < steps; i++) step(net, opt, params);
    assert_int_equal(kiln_device_synchronize(dev), KILN_OK);
    EXPECT_NO_ERROR();
    kiln_device_stats now = stats_now();
    printf("%d steps: %llu bytes reserved, %llu allocations, resident %+lld KiB, host heap %+lld bytes\n", steps,
           (unsigned long long)now.heap_reserved_B, (unsigned long long)now.heap_allocs,
           ((long long)resident_B() - (long long)resident) / 1024, (long long)mallinfo2().uordblks - (long long)host_B);
    assert_true(now.launches - warm.launches > (uint64_t)(steps - warm_up) * 10);
    assert_int_equal(now.heap_allocs, warm.heap_allocs);
    assert_int_equal(now.heap_reserved_B, warm.heap_reserved_B);
    assert_int_equal(now.heap_used_B, warm.heap_used_B);
    assert_int_equal(now.heap_peak_B, warm.heap_peak_B);
    assert_int_equal(now.tensors, warm.tensors);
    if (!SANITIZED && on_cpu) { // a driver has habits of its own
        assert_true(mallinfo2().uordblks <= host_B + 4096);
        assert_true(resident_B() <= resident + 2 * MiB);
    }
    kiln_optim_free(&opt);
    kiln_cell_free(&net);
}

void exhaustion_is_a_clear_error_and_nothing_is_lost(void **state)
{
    assert_int_equal(kiln_device_trim(dev), KILN_OK);
    uint64_t limit = stats_now().heap_reserved_B + 20 * MiB;
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *kept = kiln_full(dev, KILN_F32, KILN_SHAPE(2, 1 << 20), 3); // 8 MiB
    assert_int_equal(kiln_device_set_memory_limit(dev, limit), KILN_OK);
    kiln_device_stats before = stats_now();
    char asked[32], used[32], bound[32];
    snprintf(asked, sizeof asked, "%llu bytes", 16ull << 20);
    snprintf(used, sizeof used, "%llu are in use", (unsigned long long)before.heap_used_B);
    snprintf(bound, sizeof bound, "limit is %llu", (unsigned long long)limit);

    assert_null(kiln_concat((kiln_tensor *[]){kept, kept}, 2, 0));
    assert_non_null(strstr(kiln_error_message(), asked));
    assert_non_null(strstr(kiln_error_message(), used));
    assert_non_null(strstr(kiln_error_message(), bound));
    expect_error(KILN_E_DEVICE_MEMORY, "concat: out of memory on ", "(memory.c:");
    assert_null(kiln_zeros(dev, KILN_F64, KILN_SHAPE(1 << 20, 2)));
    expect_error(KILN_E_DEVICE_MEMORY, "zeros: ", bound);
    float *big = calloc(4u << 20, sizeof *big);
    assert_non_null(big);
    assert_null(kiln_from_data(dev, KILN_F32, KILN_SHAPE(4 << 20), big));
    expect_error(KILN_E_DEVICE_MEMORY, "from_data: ", bound);
    free(big);
    assert_null(kiln_zeros(dev, KILN_F32, KILN_SHAPE(INT64_C(1) << 50)));
    expect_error(KILN_E_DEVICE_MEMORY, "zeros: ", "(memory.c:");

    // What was there is as it was, and smaller things still fit.
    kiln_device_stats after = stats_now();
    assert_int_equal(after.tensors, before.tensors);
    assert_int_equal(after.heap_used_B, before.heap_used_B);
    assert_true(kiln_item(kiln_max(kept, NULL)) == 3 && kiln_item(kiln_min(kept, NULL)) == 3);
    kiln_tensor *small = kiln_add(kept, kept);
    assert_non_null(small);
    assert_true(kiln_item(kiln_min(small, NULL)) == 6);
    assert_int_equal(kiln_device_set_memory_limit(dev, 0), KILN_OK);
    kiln_tensor *both = kiln_concat((kiln_tensor *[]){kept, kept}, 2, 0);
    assert_true(kiln_item(kiln_min(both, NULL)) == 3);
    kiln_scope_end(&scope);
    EXPECT_NO_ERROR();
}

void memory_is_found_again_after_trimming(void **state)
{
    assert_int_equal(kiln_device_trim(dev), KILN_OK);
    kiln_device_stats base = stats_now();
    // 12 MiB that are free, but in a piece of their own: there is no room for 16 under the limit until they are given
    // back.
    kiln_tensor *t = kiln_full(dev, KILN_F32, KILN_SHAPE(3 << 20), 1);
    kiln_free(&t);
    assert_true(stats_now().heap_reserved_B >= base.heap_reserved_B + 12 * MiB);
    assert_int_equal(stats_now().heap_used_B, base.heap_used_B);
    uint64_t limit = base.heap_reserved_B + 20 * MiB;
    assert_int_equal(kiln_device_set_memory_limit(dev, limit), KILN_OK);
    t = kiln_full(dev, KILN_F32, KILN_SHAPE(4 << 20), 2);
    if (!t) fail_msg("%s", kiln_error_message());
    assert_true(stats_now().heap_reserved_B <= limit);
    kiln_tensor *least = kiln_min(t, NULL);
    assert_true(kiln_item(least) == 2);
    kiln_free(&least);
    kiln_free(&t);
    assert_int_equal(kiln_device_set_memory_limit(dev, 0), KILN_OK);
    // Given back to the system on demand.
    assert_int_equal(kiln_device_trim(dev), KILN_OK);
    assert_true(stats_now().heap_reserved_B <= base.heap_reserved_B + MiB);
    EXPECT_NO_ERROR();
}

void a_failed_op_gives_back_what_it_took(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_full(dev, KILN_F32, KILN_SHAPE(1 << 20), 1), *p = kiln_parameter(x, "p");
    assert_int_equal(kiln_device_trim(dev), KILN_OK);
    kiln_device_stats before = stats_now();
    assert_int_equal(kiln_device_set_memory_limit(dev, before.heap_reserved_B + 9 * MiB), KILN_OK);
    for (int i = 0; i < 5; i++) {
        // Two outputs of 4 and 8 MiB and temporaries: some of it fits, all of it does not.
        kiln_tensor *values = NULL, *indices = NULL;
        kiln_status status = kiln_sort(p, 0, false, &values, &indices);
        assert_int_equal(status, KILN_E_DEVICE_MEMORY);
        assert_null(values);
        assert_null(indices);
        expect_error(KILN_E_DEVICE_MEMORY, "sort: ", "(memory.c:");
        assert_int_equal(stats_now().heap_used_B, before.heap_used_B);
        assert_int_equal(stats_now().tensors, before.tensors);
    }
    assert_int_equal(kiln_device_set_memory_limit(dev, 0), KILN_OK);
    kiln_scope_end(&scope);
}
