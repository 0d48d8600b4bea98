// What a call of a captured function costs once its program is there: no memory is allocated, guards take less than a
// microsecond, the tape gets one node, and on Vulkan there is at most a barrier, a bind, a push and a dispatch for each
// kernel, in few submissions.
#include "../clock.h"
#include "grad/tape.h"
#include "jit_fixture.h"
#if KILN_WITH_VULKAN
#include "vulkan/vk.h"
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_MALLOC 0
#elif defined(__has_feature)
#define COUNTS_MALLOC (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#else
#define COUNTS_MALLOC 1
#endif

enum { CALLS = 100 };

#if COUNTS_MALLOC
static kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_tanh(kiln_add(kiln_mul(in[0], in[1]), kiln_scalar(0.5)));
    out[1] = kiln_sum(out[0], NULL);
    return kiln_error();
}

// The C library's own, under the names by which it lets others replace them.
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

static _Thread_local volatile bool counts; // the compiler believes that malloc reads nothing of the program
static _Thread_local volatile size_t n_allocated;

void *malloc(size_t size)
{
    n_allocated += counts;
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    n_allocated += counts;
    return __libc_calloc(n, size);
}

static _Thread_local volatile long realloc_fails_at = -1; // of those to come; -1: none

void *realloc(void *p, size_t size)
{
    n_allocated += counts;
    if (realloc_fails_at >= 0 && realloc_fails_at-- == 0) return NULL;
    return __libc_realloc(p, size);
}

static void calls_allocate_nothing(void **state)
{
    static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE};
    static const char *const devices[] = {"null", "cpu"};
    for (int i = 0; i < 4; i++) {
        kiln_device *dev = kiln_device_open(devices[i / 2]);
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *in[] = {kiln_ones(dev, KILN_F32, KILN_SHAPE(4)), kiln_ones(dev, KILN_F32, KILN_SHAPE(4))}, *out[2];
        kiln_function *f = kiln_jit(chain, NULL, KILN_JIT(.capture = captures[i % 2]));
        n_allocated = 0;
        for (int call = 0; call < 2 * CALLS; call++) {
            counts = call >= CALLS;
            ok(kiln_call(f, in, 2, out, 2));
            kiln_free(&out[0]);
            kiln_free(&out[1]);
            counts = false;
        }
        if (n_allocated) print_error("%s: %d calls allocate %zu times\n", devices[i / 2], CALLS, n_allocated);
        assert_int_equal(n_allocated, 0);
        counts = true;
        void *volatile one = malloc(1);
        counts = false;
        free(one);
        assert_int_equal(n_allocated, 1); // the count counts
        kiln_function_free(&f);
        kiln_scope_end(&scope);
        kiln_device_close(&dev);
    }
}

static char *explain_to_text(kiln_function *f)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    kiln_explain_with(f, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    realloc_fails_at = -1;
    fclose(file);
    return text;
}

// Texts grow by realloc: whichever fails, an explanation is whole or an error.
static void an_explanation_without_memory_is_an_error(void **state)
{
    for (int k = 0; k < 2; k++) {
        kiln_device *dev = kiln_device_open("cpu");
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *in[] = {kiln_ones(dev, KILN_F32, KILN_SHAPE(4)), kiln_ones(dev, KILN_F32, KILN_SHAPE(4))}, *out[2];
        kiln_function *f = kiln_jit(chain, NULL, KILN_JIT(.capture = k ? KILN_CAPTURE_AUTO : KILN_CAPTURE_STRICT));
        ok(kiln_call(f, in, 2, out, 2));
        char *whole = explain_to_text(f);
        int n_failed = 0;
        for (long at = 0; at >= 0; at++) {
            realloc_fails_at = at;
            char *text = explain_to_text(f);
            bool failed = kiln_error() == KILN_E_MEMORY;
            if (!failed) assert_string_equal(text, whole);
            n_failed += failed;
            kiln_error_clear();
            free(text);
            if (!failed) break;
        }
        assert_true(n_failed >= 4);
        free(whole);
        kiln_function_free(&f);
        kiln_scope_end(&scope);
        kiln_device_close(&dev);
    }
}

// On a device that computes nothing: what is left is the lookup, the guards and the launch. The shortest of many calls,
// for the machine may do other things meanwhile, and more of them as long as it does.
static void guards_take_less_than_a_microsecond(void **state)
{
    kiln_device *dev = kiln_device_open("null");
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *in[] = {kiln_ones(dev, KILN_F32, KILN_SHAPE(4)), kiln_ones(dev, KILN_F32, KILN_SHAPE(4))}, *out[2];
    kiln_function *f = kiln_jit(chain, NULL, NULL);
    double least_ns = 1e9;
    for (int call = 0; call < 50 * CALLS || (least_ns >= 1000 && call < 20000 * CALLS); call++) {
        double t0 = clock_s();
        ok(kiln_call(f, in, 2, out, 2));
        double took_ns = 1e9 * (clock_s() - t0);
        if (took_ns < least_ns) least_ns = took_ns;
        kiln_free(&out[0]);
        kiln_free(&out[1]);
    }
    printf("a call takes %.0f ns\n", least_ns);
    assert_true(least_ns < 1000);
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
}

#endif

// Four ops that need gradients, of two parameters.
static kiln_status needs_gradients(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_tanh(kiln_mul(in[0], in[1]));
    out[0] = kiln_sum(kiln_square(y), NULL);
    out[1] = kiln_neg(y);
    return kiln_error();
}

enum { MOST_NODES = 32 };

// The nodes behind some tensors, leaves apart.
static int nodes_behind(kiln_tensor *const *t, int n)
{
    const struct tape_node *seen[MOST_NODES];
    int found = 0;
    for (int i = 0; i < n; i++) {
        struct tape_edge edge;
        ok(tape_current(t[i], &edge));
        bool known = edge.node->kind == NODE_LEAF;
        for (int k = 0; k < found; k++) known |= seen[k] == edge.node;
        if (!known) seen[found++] = edge.node;
    }
    for (int i = 0; i < found; i++)
        for (int e = 0; e < seen[i]->n_in; e++) {
            const struct tape_node *next = seen[i]->edges[e].node;
            bool known = !next || next->kind == NODE_LEAF;
            for (int k = 0; k < found; k++) known |= seen[k] == next;
            if (!known && found < MOST_NODES) seen[found++] = next;
        }
    return found;
}

static int nodes_left(kiln_function *f, kiln_tensor *const *in)
{
    kiln_tensor *out[2] = {NULL};
    ok(f ? kiln_call(f, in, 2, out, 2) : needs_gradients(NULL, in, 2, out, 2));
    assert_true(kiln_requires_grad(out[0]) && kiln_requires_grad(out[1]));
    int left = nodes_behind(out, 2);
    ok(kiln_backward(out[0], NULL));
    kiln_free(&out[0]);
    kiln_free(&out[1]);
    return left;
}

static void a_call_leaves_one_node(void **state)
{
    static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE, KILN_CAPTURE_AUTO,
                                            KILN_CAPTURE_STRICT};
    kiln_device *dev = kiln_device_open("cpu");
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *in[] = {kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(4)), "a"),
                         kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(4)), "b")};
    assert_int_equal(nodes_left(NULL, in), 5); // one an op
    for (int i = 0; i < 4; i++) {
        ok(kiln_set_mode(i == 3 ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
        kiln_function *f = kiln_jit(needs_gradients, NULL, KILN_JIT(.capture = captures[i]));
        for (int call = 0; call < 4; call++) assert_int_equal(nodes_left(f, in), 1); // in AUTO of the one segment
        kiln_function_free(&f);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
}

#if KILN_WITH_VULKAN
static struct {
    PFN_vkCmdPipelineBarrier2 barrier;
    PFN_vkCmdBindPipeline bind;
    PFN_vkCmdPushConstants push;
    PFN_vkCmdDispatch dispatch;
    PFN_vkQueueSubmit2 submit;
    int barriers, binds, pushes, dispatches, submits;
} driver;

static void VKAPI_PTR count_barrier(VkCommandBuffer c, const VkDependencyInfo *i)
{
    driver.barriers++;
    driver.barrier(c, i);
}

static void VKAPI_PTR count_bind(VkCommandBuffer c, VkPipelineBindPoint at, VkPipeline p)
{
    driver.binds++;
    driver.bind(c, at, p);
}

static void VKAPI_PTR count_push(VkCommandBuffer c, VkPipelineLayout l, VkShaderStageFlags s, uint32_t at, uint32_t n,
                                 const void *v)
{
    driver.pushes++;
    driver.push(c, l, s, at, n, v);
}

static void VKAPI_PTR count_dispatch(VkCommandBuffer c, uint32_t x, uint32_t y, uint32_t z)
{
    driver.dispatches++;
    driver.dispatch(c, x, y, z);
}

static VkResult VKAPI_PTR count_submit(VkQueue q, uint32_t n, const VkSubmitInfo2 *s, VkFence f)
{
    driver.submits++;
    return driver.submit(q, n, s, f);
}

static void watch(struct vk_device *vk)
{
    memset(&driver, 0, sizeof driver);
    driver.barrier = vk->fn.vkCmdPipelineBarrier2;
    driver.bind = vk->fn.vkCmdBindPipeline;
    driver.push = vk->fn.vkCmdPushConstants;
    driver.dispatch = vk->fn.vkCmdDispatch;
    driver.submit = vk->fn.vkQueueSubmit2;
    vk->fn.vkCmdPipelineBarrier2 = count_barrier;
    vk->fn.vkCmdBindPipeline = count_bind;
    vk->fn.vkCmdPushConstants = count_push;
    vk->fn.vkCmdDispatch = count_dispatch;
    vk->fn.vkQueueSubmit2 = count_submit;
}

static void stop_watching(struct vk_device *vk)
{
    vk->fn.vkCmdPipelineBarrier2 = driver.barrier;
    vk->fn.vkCmdBindPipeline = driver.bind;
    vk->fn.vkCmdPushConstants = driver.push;
    vk->fn.vkCmdDispatch = driver.dispatch;
    vk->fn.vkQueueSubmit2 = driver.submit;
}

// Products, of which each needs the one before.
static kiln_status products(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = in[0];
    for (int i = 0; i < *(const int *)user; i++) out[0] = kiln_matmul(out[0], in[1]);
    return kiln_error();
}

static void count_submissions(int launches)
{
    kiln_device *dev = kiln_device_open("vulkan");
    if (!dev) {
        kiln_error_clear();
        skip();
    }
    struct vk_device *vk = vk_of(dev);
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *a = kiln_ones(dev, KILN_F32, KILN_SHAPE(8, 8)), *in[] = {a, a}, *out;
    kiln_function *f = kiln_jit(products, &launches, NULL);
    for (int call = 0; call < 2; call++) { // later ones are recorded: jit/records.c
        kiln_device_stats before = {.size = sizeof before}, after = {.size = sizeof after};
        ok(kiln_device_synchronize(dev));
        kiln_device_get_stats(dev, &before);
        watch(vk);
        ok(kiln_call(f, in, 2, &out, 1));
        ok(kiln_device_synchronize(dev));
        stop_watching(vk);
        kiln_device_get_stats(dev, &after);
        if (call > 0) {
            assert_int_equal(after.launches - before.launches, launches);
            assert_int_equal(driver.dispatches, launches);
            assert_in_range(driver.barriers, launches - 1, launches + 2); // all but the first wait; around a recording
            assert_in_range(driver.binds, 1, launches);
            assert_in_range(driver.pushes, 1, launches);
            assert_int_equal(driver.submits, 1);
        }
        kiln_free(&out);
    }
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
}

static void calls_are_few_submissions(void **state)
{
    count_submissions(3);
    count_submissions(40);
    count_submissions(130);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_leaves_one_node),
#if COUNTS_MALLOC
        cmocka_unit_test(calls_allocate_nothing),
        cmocka_unit_test(an_explanation_without_memory_is_an_error),
        cmocka_unit_test(guards_take_less_than_a_microsecond),
#endif
#if KILN_WITH_VULKAN
        cmocka_unit_test(calls_are_few_submissions),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
