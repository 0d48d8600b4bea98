// Row 15, second half: with KILN_LAUNCH_BLOCKING=1 an error of the device is reported by the op that caused it. The
// fault is made by functions put in the driver's place: from the softmax on, waiting for the device finds it lost.
#include "capability.h"

#if KILN_WITH_VULKAN
#include "vulkan/vk.h"

static kiln_device *faulty;
static PFN_vkCmdDispatch real_dispatch;
static PFN_vkWaitSemaphores real_wait;
static bool broken;

static void VKAPI_PTR dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z)
{
    broken |= strcmp(vk_of(faulty)->op, "softmax") == 0;
    real_dispatch(commands, x, y, z);
}

static VkResult VKAPI_PTR wait_semaphores(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t limit_ns)
{
    VkResult r = real_wait(device, info, limit_ns);
    return broken ? VK_ERROR_DEVICE_LOST : r;
}

static bool open_faulty(void)
{
    faulty = kiln_device_open("vulkan");
    if (!faulty) {
        assert_int_equal(kiln_error(), KILN_E_MISSING);
        kiln_error_clear();
        return false;
    }
    struct vk_device *vk = vk_of(faulty);
    real_dispatch = vk->fn.vkCmdDispatch;
    real_wait = vk->fn.vkWaitSemaphores;
    vk->fn.vkCmdDispatch = dispatch;
    vk->fn.vkWaitSemaphores = wait_semaphores;
    broken = false;
    return true;
}

static int line;

// The third op of five fails on the device.
static void run_program(kiln_tensor **y, kiln_tensor **z)
{
    kiln_tensor *x = kiln_relu(kiln_ones(faulty, KILN_F32, KILN_SHAPE(4, 5)));
    line = __LINE__ + 1;
    *y = kiln_softmax(x, 1);
    *z = kiln_exp(kiln_neg(*y));
}

void capability_15(void **state)
{
    kiln_tensor *y = NULL, *z = NULL;
    if (!open_faulty()) {
        printf("skipped: there is no Vulkan driver\n");
        skip();
    }
    // In batches the fault comes to light at the read: the message says what would tell more.
    kiln_scope *scope = kiln_scope_begin();
    run_program(&y, &z);
    assert_non_null(y);
    assert_non_null(z);
    float v[20];
    assert_int_equal(kiln_read(z, v, sizeof v), KILN_E_DEVICE_LOST);
    EXPECT_ERROR(KILN_E_DEVICE_LOST, "lost", "KILN_LAUNCH_BLOCKING=1", "blocking.c:");
    kiln_scope_end(&scope);
    kiln_device_close(&faulty);

    assert_int_equal(setenv("KILN_LAUNCH_BLOCKING", "1", 1), 0);
    assert_true(open_faulty());
    scope = kiln_scope_begin();
    run_program(&y, &z);
    assert_null(y);
    assert_null(z);
    char place[64];
    snprintf(place, sizeof place, "(blocking.c:%d)", line);
    if (strncmp(kiln_error_message(), "softmax: ", 9) != 0) fail_msg("the message is \"%s\"", kiln_error_message());
    EXPECT_ERROR(KILN_E_DEVICE_LOST, "VK_ERROR_DEVICE_LOST", place);
    kiln_scope_end(&scope);
    kiln_device_close(&faulty);

    // Opened anew it works, and blocking changes no number.
    assert_int_equal(setenv("KILN_LAUNCH_BLOCKING", "1", 1), 0);
    scope = kiln_scope_begin();
    EXPECT(kiln_softmax(kiln_ones(vulkan(), KILN_F32, KILN_SHAPE(2, 4)), 1), 1e-6, .25, .25, .25, .25, .25, .25, .25,
           .25);
    assert_true(stats_of(vulkan()).submits >= 2);
    kiln_scope_end(&scope);
    assert_int_equal(unsetenv("KILN_LAUNCH_BLOCKING"), 0);
}
#else
void capability_15(void **state)
{
    printf("skipped: the build is without Vulkan\n");
    skip();
}
#endif
