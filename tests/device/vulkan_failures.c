// What the Vulkan device does when the driver or the host's memory fails it: what was given out is right or an error,
// never something else. The failures are made by functions put in the driver's place, and by the linker's --wrap.
#include "vulkan_fixture.h"

#include "spirv/specialise.h"

#include <kiln/control.h>
#include <kiln/kiln.h>

// --- the driver that fails for a while

static struct vk_functions real;
static VkResult failure;
static int submits, fail_from, fail_to; // submissions [from, to) fail
static int ends, fail_end;              // the recording that cannot be ended; -1: all can
static int freed;
static bool hangs;
static int hangs_after; // so many questions how far the queue is; 0: not by itself

static void count_question(void)
{
    if (hangs_after && !--hangs_after) hangs = true;
}

static VkResult VKAPI_PTR submit(VkQueue q, uint32_t n, const VkSubmitInfo2 *s, VkFence f)
{
    int at = submits++;
    return at >= fail_from && at < fail_to ? failure : real.vkQueueSubmit2(q, n, s, f);
}

static VkResult VKAPI_PTR end(VkCommandBuffer b)
{
    VkResult r = real.vkEndCommandBuffer(b);
    return ends++ == fail_end ? failure : r;
}

static VkResult VKAPI_PTR wait(VkDevice d, const VkSemaphoreWaitInfo *i, uint64_t limit_ns)
{
    count_question();
    return hangs ? VK_TIMEOUT : real.vkWaitSemaphores(d, i, limit_ns);
}

static VkResult VKAPI_PTR counter(VkDevice d, VkSemaphore s, uint64_t *value)
{
    count_question();
    if (!hangs) return real.vkGetSemaphoreCounterValue(d, s, value);
    *value = 0;
    return VK_SUCCESS;
}

static void VKAPI_PTR free_memory(VkDevice d, VkDeviceMemory m, const VkAllocationCallbacks *c)
{
    freed += m != VK_NULL_HANDLE;
    real.vkFreeMemory(d, m, c);
}

static VkResult VKAPI_PTR no_pipeline(VkDevice d, VkPipelineCache cache, uint32_t n,
                                      const VkComputePipelineCreateInfo *infos, const VkAllocationCallbacks *c,
                                      VkPipeline *out)
{
    for (uint32_t i = 0; i < n; i++) out[i] = (VkPipeline)(uintptr_t)0xbad; // undefined after an error
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

static struct vk_device *put_in_place(void)
{
    struct vk_device *vk = vk_of(dev);
    real = vk->fn;
    submits = fail_from = fail_to = ends = freed = hangs_after = 0;
    fail_end = -1;
    hangs = false;
    vk->fn.vkQueueSubmit2 = submit;
    vk->fn.vkEndCommandBuffer = end;
    vk->fn.vkWaitSemaphores = wait;
    vk->fn.vkGetSemaphoreCounterValue = counter;
    vk->fn.vkFreeMemory = free_memory;
    return vk;
}

enum { RESULTS = 40, SIZE = 64 };

struct produced {
    kiln_tensor *results[RESULTS]; // NULL: its op failed
    kiln_tensor *total;            // written in place
    int n_added;                   // how many of those writes were said to be done
};

static kiln_tensor *filled(float value)
{
    float data[SIZE];
    for (int i = 0; i < SIZE; i++) data[i] = value;
    kiln_tensor *t = kiln_from_data(dev, KILN_F32, KILN_SHAPE(SIZE), data);
    assert_non_null(t);
    return t;
}

// Result i is i + 1; an op that fails is noted, and the program goes on.
static void produce(struct produced *p)
{
    kiln_tensor *one = filled(1);
    *p = (struct produced){.total = filled(0)};
    for (int i = 0; i < RESULTS; i++) {
        p->results[i] = kiln_add(one, kiln_scalar(i));
        kiln_error_clear();
        p->n_added += kiln_add_(p->total, one) == KILN_OK;
        kiln_error_clear();
        if (i % 7 == 6) (void)kiln_device_synchronize(dev);
        kiln_error_clear();
    }
}

static bool holds(const kiln_tensor *t, float value)
{
    float data[SIZE];
    assert_ok(kiln_read(t, data, sizeof data));
    for (int i = 0; i < SIZE; i++)
        if (data[i] != value) return false;
    return true;
}

static int count_wrong(const struct produced *p)
{
    int n = !holds(p->total, (float)p->n_added);
    for (int i = 0; i < RESULTS; i++) n += p->results[i] && !holds(p->results[i], (float)(i + 1));
    return n;
}

// Memory is short for so many submissions: what was given out is right afterwards, and a short while is not noticed.
static void results_outlive_failed_submissions(void **state)
{
    const VkResult failures[] = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY};
    const int lengths[] = {1, 2, 3, 50};
    for (size_t f = 0; f < COUNT_OF(failures); f++)
        for (int from = 0; from < 5; from++)
            for (size_t n = 0; n < COUNT_OF(lengths); n++) {
                kiln_scope *scope = kiln_scope_begin();
                struct produced p;
                assert_ok(kiln_device_synchronize(dev));
                struct vk_device *vk = put_in_place();
                failure = failures[f];
                fail_from = from;
                fail_to = from + lengths[n];
                produce(&p);
                assert_true(submits > from);
                vk->fn = real;
                assert_int_equal(count_wrong(&p), 0);
                for (int i = 0; i < RESULTS && lengths[n] == 1; i++) assert_non_null(p.results[i]);
                if (lengths[n] == 1) assert_int_equal(p.n_added, RESULTS);
                kiln_scope_end(&scope);
            }
    assert_no_validation_message();
}

// What the driver dropped, or may have run or not, is lost: results that were given out cannot be read.
static void results_that_are_lost_cannot_be_read(void **state)
{
    const struct {
        VkResult failure;
        bool at_end;
    } cases[] = {
        {VK_ERROR_DEVICE_LOST, false},
        {VK_ERROR_UNKNOWN, false},
        {VK_ERROR_OUT_OF_HOST_MEMORY, true},
        {VK_ERROR_OUT_OF_DEVICE_MEMORY, true},
    };
    for (size_t c = 0; c < COUNT_OF(cases); c++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *one = filled(1);
        assert_ok(kiln_device_synchronize(dev));
        struct vk_device *vk = put_in_place();
        failure = cases[c].failure;
        if (cases[c].at_end)
            fail_end = 0;
        else
            fail_to = 1;
        kiln_tensor *sum = kiln_add(one, one);
        assert_non_null(sum);
        float data[SIZE];
        for (int again = 0; again < 2; again++) {
            assert_int_equal(kiln_read(sum, data, sizeof data), KILN_E_DEVICE_LOST);
            assert_non_null(strstr(kiln_error_message(), "device is lost"));
            kiln_error_clear();
        }
        assert_null(kiln_add(one, one));
        assert_int_equal(kiln_error(), KILN_E_DEVICE_LOST);
        assert_non_null(strstr(kiln_error_message(), "device is lost"));
        kiln_error_clear();
        vk->fn = real;
        kiln_scope_end(&scope);
        kiln_device_close(&dev);
        assert_int_equal(open_device(NULL), 0);
        scope = kiln_scope_begin();
        one = filled(1);
        assert_true(holds(kiln_add(one, one), 2));
        kiln_scope_end(&scope);
    }
}

// A loss is noticed by a wait while commands are being recorded: no op after it says that it was done.
static VkResult VKAPI_PTR lost_wait(VkDevice d, const VkSemaphoreWaitInfo *i, uint64_t limit_ns)
{
    return VK_ERROR_DEVICE_LOST;
}

static void nothing_is_recorded_on_a_lost_device(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *one = filled(1);
    struct vk_device *vk = put_in_place();
    assert_non_null(kiln_add(one, one));
    assert_ok(vk_stream_submit(vk));
    hangs = true; // not done when the wait begins
    vk->fn.vkWaitSemaphores = lost_wait;
    assert_non_null(kiln_add(one, one));
    assert_int_equal(vk_stream_wait(vk, vk->submitted), KILN_E_DEVICE_LOST);
    assert_non_null(strstr(kiln_error_message(), "device is lost"));
    kiln_error_clear();
    assert_null(kiln_add(one, one));
    assert_int_equal(kiln_error(), KILN_E_DEVICE_LOST);
    kiln_error_clear();
    vk->fn = real;
    kiln_scope_end(&scope);
}

// --- loops of which the device decides

static kiln_status is_less(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_less(in[0], user);
    return kiln_error();
}

static kiln_status add_one(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(in[0], kiln_scalar(1));
    return kiln_error();
}

static kiln_status count_up(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *zero = kiln_zeros_like(in[0]);
    return kiln_while(is_less, add_one, in[0], &zero, 1, NULL, out, 1);
}

static void a_loop_without_end_ends_with_its_device(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *far = kiln_full(dev, KILN_F32, KILN_SHAPE0, INFINITY),
                *near = kiln_full(dev, KILN_F32, KILN_SHAPE0, 300), *y;
    kiln_function *f = kiln_jit(count_up, NULL, NULL);
    assert_ok(kiln_call(f, &near, 1, &y, 1));
    struct vk_device *vk = put_in_place();
    hangs_after = 50;
    assert_int_equal(kiln_call(f, &far, 1, &y, 1), KILN_E_TIMEOUT);
    assert_non_null(strstr(kiln_error_message(), "KILN_WAIT_S"));
    assert_null(y);
    kiln_error_clear();
    hangs = false;
    assert_ok(kiln_device_synchronize(dev));
    for (fail_from = 0; fail_from < 4; fail_from++) { // a submission that fails once is handed over again, or an error
        submits = 0;
        fail_to = fail_from + 2;
        failure = VK_ERROR_OUT_OF_DEVICE_MEMORY;
        kiln_status status = kiln_call(f, &near, 1, &y, 1);
        if (status) assert_int_equal(status, KILN_E_DEVICE_MEMORY);
        kiln_error_clear();
        fail_to = 0;
        assert_ok(kiln_call(f, &near, 1, &y, 1));
        assert_true(kiln_item(y) == 300);
    }
    vk->fn = real;
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    assert_no_validation_message();
}

// --- memory that the queue still works on

static void memory_in_use_outlives_a_late_wait(void **state)
{
    struct vk_device *vk = put_in_place();
    struct slab slabs[3];
    for (size_t i = 0; i < COUNT_OF(slabs); i++) assert_ok(dev->ops->slab_alloc(dev, 1u << 20, &slabs[i]));
    assert_ok(device_copy(dev, slabs[0].address, slabs[1].address, 64));
    assert_ok(vk_stream_submit(vk));
    hangs = true;
    for (int i = 0; i < 2; i++) dev->ops->slab_free(dev, &slabs[i]);
    assert_int_equal(kiln_error(), KILN_OK);
    assert_int_equal(freed, 0);
    hangs = false;
    assert_ok(kiln_device_synchronize(dev)); // a queue that was late is only asked
    dev->ops->slab_free(dev, &slabs[2]);
    assert_int_equal(freed, 3);
    vk->fn = real;
    assert_no_validation_message();
}

static bool destroyed;

static void VKAPI_PTR destroy_device(VkDevice d, const VkAllocationCallbacks *c)
{
    destroyed = true;
    real.vkDestroyDevice(d, c);
}

// Closed while the queue does not answer: nothing that it may be working on goes.
static void closing_leaves_what_the_queue_works_on(void **state)
{
    for (int late = 0; late < 2; late++) {
        kiln_tensor *one = filled(1), *two = kiln_add(one, one);
        struct vk_device *vk = put_in_place();
        assert_ok(vk_stream_submit(vk));
        vk->fn.vkDestroyDevice = destroy_device;
        destroyed = false;
        hangs = late;
        kiln_free(&one);
        kiln_free(&two);
        kiln_device_close(&dev);
        assert_int_equal(kiln_error(), KILN_OK);
        assert_int_equal(destroyed, !late);
        assert_int_equal(freed > 0, !late);
        assert_int_equal(open_device(NULL), 0);
    }
}

// --- memory runs out while a pipeline is made

static long n_allocations, fail_allocation = -1;

static bool out_of_memory(void)
{
    return fail_allocation >= 0 && n_allocations++ == fail_allocation;
}

void *__real_malloc(size_t size_B);
void *__real_calloc(size_t n, size_t size_B);
void *__real_realloc(void *p, size_t size_B);
void *__wrap_malloc(size_t size_B);
void *__wrap_calloc(size_t n, size_t size_B);
void *__wrap_realloc(void *p, size_t size_B);

void *__wrap_malloc(size_t size_B)
{
    return out_of_memory() ? NULL : __real_malloc(size_B);
}

void *__wrap_calloc(size_t n, size_t size_B)
{
    return out_of_memory() ? NULL : __real_calloc(n, size_B);
}

void *__wrap_realloc(void *p, size_t size_B)
{
    return out_of_memory() ? NULL : __real_realloc(p, size_B);
}

// Whatever allocation fails, specialising a module ends: with the same words, or without an answer.
static void specialisation_ends_when_memory_is_out(void **state)
{
    const struct spec_value values[] = {{0, 64}, {1, 3}, {2, 1}, {3, 0}, {4, 1}, {5, 0}, {8, 4}, {9, 4}, {10, 4}};
    const char *const kernels[] = {"add", "softmax"};
    for (size_t k = 0; k < COUNT_OF(kernels); k++) {
        int kernel = find_kernel(kernels[k], CLASS_F32);
        const uint32_t *module = vk_module_words(kernel);
        uint32_t n = vk_module_n_words(kernel), n_expected, n_got, *expected, *got;
        assert_true(vk_specialise(module, n, values, COUNT_OF(values), &expected, &n_expected));
        bool done = false;
        int refused = 0;
        for (long at = 0; !done; at++) {
            n_allocations = 0;
            fail_allocation = at;
            bool ok = vk_specialise(module, n, values, COUNT_OF(values), &got, &n_got);
            done = n_allocations <= at;
            fail_allocation = -1;
            refused += !ok;
            if (!ok) continue;
            assert_int_equal(n_got, n_expected);
            assert_memory_equal(got, expected, n_got * sizeof *got);
            free(got);
        }
        assert_true(refused > 10);
        free(expected);
    }
}

static void a_pipeline_that_fails_can_be_made_later(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *one = filled(1);
    struct vk_device *vk = put_in_place();
    vk->fn.vkCreateComputePipelines = no_pipeline;
    for (int i = 0; i < 3; i++) {
        assert_null(kiln_add(one, one));
        assert_int_equal(kiln_error(), KILN_E_MEMORY);
        kiln_error_clear();
    }
    vk->fn = real;
    assert_true(holds(kiln_add(one, one), 2));
    kiln_scope_end(&scope);
}

int main(void)
{
    setenv("KILN_DEBUG", "validate", 1);
    setenv("KILN_WAIT_S", "20", 1);
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_device, close_device)
    const struct CMUnitTest tests[] = {
        CASE(results_outlive_failed_submissions),      CASE(results_that_are_lost_cannot_be_read),
        CASE(nothing_is_recorded_on_a_lost_device),    CASE(memory_in_use_outlives_a_late_wait),
        CASE(closing_leaves_what_the_queue_works_on),  CASE(specialisation_ends_when_memory_is_out),
        CASE(a_pipeline_that_fails_can_be_made_later), CASE(a_loop_without_end_ends_with_its_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
