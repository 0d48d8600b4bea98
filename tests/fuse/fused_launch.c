// Launches of compiled kernels: order, life, failures, and what they cost.
#include "fused_vulkan_fixture.h"

#include <sys/stat.h>
#include <unistd.h>

// --- the device

static struct launch eager_binary(const char *name, const struct block *a, const struct block *b,
                                  const struct block *out, int64_t n)
{
    static const int64_t one[] = {1};
    struct launch l = launch_new(name, CLASS_F32, 1, &n);
    add_operand(&l, a, KILN_F32, 0, one, false);
    add_operand(&l, b, KILN_F32, 0, one, false);
    add_operand(&l, out, KILN_F32, 0, one, true);
    return l;
}

// Compiled and eager launches in turn on the same three arrays: barriers order them.
static void launches_of_both_kinds_are_ordered(void **state)
{
    enum { N = 3000, ROUNDS = 20 };
    struct build b;
    struct arrays a;
    struct ready r;
    build_begin(&b, 0, 1, (const int64_t[]){N});
    int x = load(&b, KILN_F32, 1), y = load(&b, KILN_F32, 1);
    store(&b, KILN_F32, 1, expr2(&b, "a * 0.5 + b", x, y));
    finish(&b);
    arrays_begin(&b, &a);
    struct loaded l = compile(&b.k);
    make_ready(&l, &b.k, a.blocks, &r);
    kiln_device_reset_stats(dev);
    struct launch add = eager_binary("sub", &a.blocks[2], &a.blocks[1], &a.blocks[0], N);
    for (int i = 0; i < ROUNDS; i++) {
        assert_ok(device_launch_compiled(dev, &r.launch)); // c = a / 2 + b
        assert_ok(device_launch(dev, &add));               // a = c - b
    }
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(dev, &s);
    assert_int_equal(s.launches, 2 * ROUNDS);
    assert_true(s.barriers >= 2 * ROUNDS - 1 && s.barriers <= 2 * ROUNDS);
    float *in[3] = {a.expected[0], a.expected[1], a.expected[2]};
    for (int i = 0; i < ROUNDS; i++)
        for (int j = 0; j < N; j++) {
            in[2][j] = in[0][j] * 0.5f + in[1][j];
            in[0][j] = in[2][j] - in[1][j];
        }
    arrays_compare(&b, &a, 0, 0);
    kiln_device_reset_stats(dev);
    assert_ok(device_launch_compiled(dev, &r.launch));
    assert_ok(kiln_device_synchronize(dev));
    dev->ops->unload_compiled(dev, l.compiled);
    arrays_end(&b, &a);
    build_end(&b);
}

// The validation layer would tell of a pipeline that is destroyed in use.
static void kernels_may_be_unloaded_in_flight(void **state)
{
    struct build b;
    struct arrays a;
    struct ready r;
    build_begin(&b, 0, 1, (const int64_t[]){50000});
    store(&b, KILN_F32, 1, expr1(&b, "a * a + 1.0", load(&b, KILN_F32, 1)));
    finish(&b);
    arrays_begin(&b, &a);
    for (int i = 0; i < 5; i++) {
        struct loaded l = compile(&b.k);
        make_ready(&l, &b.k, a.blocks, &r);
        for (int j = 0; j < 30; j++) assert_ok(device_launch_compiled(dev, &r.launch));
        dev->ops->unload_compiled(dev, l.compiled);
    }
    assert_no_validation_message();
    assert_ok(fused_eval(&b.k, a.expected, NULL));
    arrays_compare(&b, &a, 0, 0);
    struct loaded kept = compile(&b.k); // closing the device frees it
    assert_non_null(kept.compiled);
    dev->ops->unload_compiled(dev, NULL);
    arrays_end(&b, &a);
    build_end(&b);
}

// Ranges that the lists of hazards have no room for become barriers.
static void many_ranges_become_barriers(void **state)
{
    enum { N = 64 };
    struct build b;
    struct arrays a;
    struct ready r;
    struct compiled_range ranges[COMPILED_MAX_RANGES];
    build_begin(&b, 0, 1, (const int64_t[]){N});
    store(&b, KILN_F32, 1, expr1(&b, "a * a + 1.0", load(&b, KILN_F32, 1)));
    finish(&b);
    arrays_begin(&b, &a);
    struct loaded l = compile(&b.k);
    make_ready(&l, &b.k, a.blocks, &r);
    for (int i = 0; i < COMPILED_MAX_RANGES; i++)
        ranges[i] = (struct compiled_range){a.blocks[i & 1].address, 4 * i, 4 * i + 4, i & 1};
    r.launch.ranges = ranges;
    r.launch.n_ranges = COMPILED_MAX_RANGES;
    struct vk_device *vk = vk_of(dev);
    for (int i = 0; i < 20; i++) {
        assert_ok(device_launch_compiled(dev, &r.launch));
        assert_true(vk->lane.hazards.n_reads <= HAZARD_READS && vk->lane.hazards.n_writes <= HAZARD_WRITES);
    }
    r.launch.n_ranges = COMPILED_MAX_RANGES + 1;
    assert_int_equal(device_launch_compiled(dev, &r.launch), KILN_E_INTERNAL);
    kiln_error_clear();
    dev->ops->unload_compiled(dev, l.compiled);
    arrays_end(&b, &a);
    build_end(&b);
}

static long file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) ? -1 : (long)st.st_size;
}

// Pipelines of compiled kernels go to the file as others do.
static void compiled_pipelines_are_kept_on_disk(void **state)
{
    char folder[] = "/tmp/kiln-test-XXXXXX", path[4096];
    char *before = getenv("KILN_CACHE_DIR"), *saved = before ? strdup(before) : NULL;
    assert_non_null(mkdtemp(folder));
    setenv("KILN_CACHE_DIR", folder, 1);
    assert_ok(vk_cache_path(vk_of(dev), path, sizeof path));
    struct build b;
    build_begin(&b, 0, 1, (const int64_t[]){64});
    store(&b, KILN_F32, 1, expr1(&b, "a * a + 1.0", load(&b, KILN_F32, 1)));
    finish(&b);
    assert_int_equal(file_size(path), -1);
    (void)compile(&b.k);
    build_end(&b);
    kiln_device_close(&dev);
    assert_true(file_size(path) > 64);
    unlink(path);
    snprintf(path, sizeof path, "%s/.counted", folder); // when the files there were counted
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
    if (saved)
        setenv("KILN_CACHE_DIR", saved, 1);
    else
        unsetenv("KILN_CACHE_DIR");
    free(saved);
    assert_int_equal(open_device(state), 0);
}

static VkResult VKAPI_PTR no_pipeline(VkDevice d, VkPipelineCache c, uint32_t n, const VkComputePipelineCreateInfo *i,
                                      const VkAllocationCallbacks *a, VkPipeline *p)
{
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

static VkResult VKAPI_PTR lost_submit(VkQueue q, uint32_t n, const VkSubmitInfo2 *s, VkFence f)
{
    return VK_ERROR_DEVICE_LOST;
}

static void failures_name_the_kernel(void **state)
{
    struct build b;
    struct arrays a;
    struct ready r;
    build_begin(&b, 0, 1, (const int64_t[]){64});
    b.k.name = "scale_add";
    store(&b, KILN_F32, 1, expr1(&b, "a * a + 1.0", load(&b, KILN_F32, 1)));
    finish(&b);
    arrays_begin(&b, &a);
    struct loaded l = compile(&b.k);
    make_ready(&l, &b.k, a.blocks, &r);
    struct vk_device *vk = vk_of(dev);
    PFN_vkCreateComputePipelines create = vk->fn.vkCreateComputePipelines;
    uint32_t words[8] = {0};
    struct compiled_code code = {.name = "scale_add", .code = words, .code_B = sizeof words};
    vk->fn.vkCreateComputePipelines = no_pipeline;
    struct str text;
    struct spirv module;
    str_init(&text);
    assert_ok(glsl_plan(&b.k, &dev->caps, &l.plan));
    assert_ok(glsl_text(&b.k, &l.plan, &text));
    struct spirv_source source = {.name = b.k.name, .text = str_text(&text), .include = dev->ops->shader_text};
    assert_ok(spirv_compile(&source, &module));
    code.code = module.words, code.code_B = module.n_words * 4;
    void *none;
    assert_int_equal(dev->ops->load_compiled(dev, &code, &none), KILN_E_MEMORY);
    vk->fn.vkCreateComputePipelines = create;
    assert_null(none);
    assert_non_null(strstr(kiln_error_message(), "scale_add: "));
    kiln_error_clear();
    spirv_free(&module);
    str_free(&text);
    r.launch.n_words = PUSH_WORDS + 1;
    assert_int_equal(device_launch_compiled(dev, &r.launch), KILN_E_INTERNAL);
    assert_non_null(strstr(kiln_error_message(), "scale_add"));
    kiln_error_clear();
    r.launch.n_words = (uint32_t)r.packed.n_words;
    vk->blocking = true;
    assert_ok(device_launch_compiled(dev, &r.launch));
    assert_true(vk_stream_idle(vk)); // a blocking launch has run when it returns
    vk->fn.vkQueueSubmit2 = lost_submit;
    assert_int_equal(device_launch_compiled(dev, &r.launch), KILN_E_DEVICE_LOST);
    assert_int_equal(strncmp(kiln_error_message(), "scale_add: ", 11), 0);
    kiln_error_clear();
    assert_int_equal(dev->ops->load_compiled(dev, &code, &none), KILN_E_DEVICE_LOST);
    kiln_error_clear();
    arrays_end(&b, &a);
    build_end(&b);
}

static void the_null_device_takes_compiled_launches(void **state)
{
    kiln_device *null = kiln_device_open("null");
    assert_non_null(null);
    struct block block;
    void *compiled;
    assert_ok(device_alloc(null, 256, &block));
    struct compiled_code code = {.name = "nothing"};
    assert_ok(null->ops->load_compiled(null, &code, &compiled));
    struct compiled_range range = {block.address, 0, 256, true};
    struct compiled_launch l = {.compiled = compiled, .op = "nothing", .n_ranges = 1, .ranges = &range};
    assert_ok(device_launch_compiled(null, &l));
    range.hi_B = INT64_C(1) << 40;
    assert_int_equal(device_launch_compiled(null, &l), KILN_E_INTERNAL);
    assert_non_null(strstr(kiln_error_message(), "nothing"));
    kiln_error_clear();
    null->ops->unload_compiled(null, compiled);
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(null, &s);
    assert_int_equal(s.launches, 2);
    device_release(null, &block);
    kiln_device_close(&null);
}

static void the_compiler_warms_up_once(void **state)
{
    spirv_warm();
    spirv_warm();
    struct spirv_source source = {.name = "empty", .text = "#version 460\nvoid main() {}\n"};
    struct spirv module;
    assert_ok(spirv_compile(&source, &module));
    spirv_free(&module);
    spirv_warm_end();
    spirv_warm_end();
}

// Times, for people: KILN_TEST_TIMES=1.
static void measure(const char *what, struct build *b)
{
    enum { N = 20, LAUNCHES = 10000 };
    struct arrays a;
    struct ready r;
    codegen_ms = glslang_ms = pipeline_ms = 0;
    for (int i = 0; i < N; i++) {
        struct loaded l = compile(&b->k);
        dev->ops->unload_compiled(dev, l.compiled);
    }
    print_message("%s: text %.3f ms, glslang %.2f ms, pipeline %.2f ms", what, codegen_ms / N, glslang_ms / N,
                  pipeline_ms / N);
    arrays_begin(b, &a);
    struct loaded l = compile(&b->k);
    make_ready(&l, &b->k, a.blocks, &r);
    assert_ok(device_launch_compiled(dev, &r.launch));
    assert_ok(kiln_device_synchronize(dev));
    double start = now_ms();
    for (int i = 0; i < 20; i++) assert_ok(device_launch_compiled(dev, &r.launch));
    assert_ok(kiln_device_synchronize(dev));
    print_message(", run %.3f ms\n", (now_ms() - start) / 20);
    dev->ops->unload_compiled(dev, l.compiled);
    release(&r);
    arrays_end(b, &a);
}

// (a + b) * a - b / (a * a + b) by six eager launches.
static void measure_eager_chain(int64_t n)
{
    struct block a[5];
    for (int i = 0; i < 5; i++) {
        void *data = malloc((size_t)n * 4);
        fill(data, KILN_F32, n);
        a[i] = block_new((uint64_t)n * 4, data);
        free(data);
    }
    struct launch chain[] = {
        eager_binary("add", &a[0], &a[1], &a[2], n), eager_binary("mul", &a[2], &a[0], &a[2], n),
        eager_binary("mul", &a[0], &a[0], &a[3], n), eager_binary("add", &a[3], &a[1], &a[3], n),
        eager_binary("div", &a[1], &a[3], &a[4], n), eager_binary("sub", &a[2], &a[4], &a[4], n),
    };
    double start = 0;
    for (int i = 0; i < 21; i++) {
        if (i == 1) {
            assert_ok(kiln_device_synchronize(dev));
            start = now_ms();
        }
        for (size_t j = 0; j < COUNT_OF(chain); j++) assert_ok(device_launch(dev, &chain[j]));
    }
    assert_ok(kiln_device_synchronize(dev));
    print_message("six eager launches, %lld elements: %.3f ms\n", (long long)n, (now_ms() - start) / 20);
    for (int i = 0; i < 5; i++) device_release(dev, &a[i]);
}

static void measure_recording(void)
{
    enum { N = 90 };
    struct build b;
    struct arrays a;
    struct ready r;
    build_begin(&b, 0, 1, (const int64_t[]){16});
    store(&b, KILN_F32, 1, expr2(&b, "a + b", load(&b, KILN_F32, 1), load(&b, KILN_F32, 1)));
    finish(&b);
    arrays_begin(&b, &a);
    struct loaded l = compile(&b.k);
    make_ready(&l, &b.k, a.blocks, &r);
    struct launch eager = eager_binary("add", &a.blocks[0], &a.blocks[1], &a.blocks[2], 16);
    double best[3] = {1e9, 1e9, 1e9};
    uint64_t addresses[3] = {a.blocks[0].address, a.blocks[1].address, a.blocks[2].address};
    for (int round = 0; round < 200; round++) {
        assert_ok(kiln_device_synchronize(dev));
        for (int i = 0; i < 20; i++) assert_ok(device_launch_compiled(dev, &r.launch)); // opens a batch of full size
        double start = now_ms();
        for (int i = 0; i < N; i++) assert_ok(device_launch_compiled(dev, &r.launch));
        double compiled = now_ms();
        assert_ok(kiln_device_synchronize(dev));
        for (int i = 0; i < 20; i++) assert_ok(device_launch(dev, &eager));
        double again = now_ms();
        for (int i = 0; i < N; i++) assert_ok(device_launch(dev, &eager));
        double done = now_ms();
        for (int i = 0; i < N; i++) assert_ok(glsl_pack(&l.plan, &b.k, addresses, &dev->caps, &r.packed));
        best[0] = fmin(best[0], compiled - start);
        best[1] = fmin(best[1], done - again);
        best[2] = fmin(best[2], now_ms() - done);
    }
    print_message("recording with a barrier: compiled %.0f ns, eager %.0f ns; packing %.0f ns\n", best[0] / N * 1e6,
                  best[1] / N * 1e6, best[2] / N * 1e6);
    dev->ops->unload_compiled(dev, l.compiled);
    arrays_end(&b, &a);
    build_end(&b);
}

static void times(void **state)
{
    if (!getenv("KILN_TEST_TIMES")) skip();
    measure_recording();
    measure_eager_chain(1 << 20);
    measure_eager_chain(1 << 12);
    struct build b;
    build_begin(&b, 0, 1, (const int64_t[]){1 << 12});
    store(&b, KILN_F32, 1, expr2(&b, "(a + b) * a - b / (a * a + b)", load(&b, KILN_F32, 1), load(&b, KILN_F32, 1)));
    finish(&b);
    measure("pointwise, 4K", &b);
    build_end(&b);
    build_begin(&b, 0, 1, (const int64_t[]){1 << 20});
    int x = load(&b, KILN_F32, 1), y = load(&b, KILN_F32, 1);
    store(&b, KILN_F32, 1, expr2(&b, "(a + b) * a - b / (a * a + 1.0)", x, y));
    finish(&b);
    measure("pointwise, 1M", &b);
    build_end(&b);
    build_begin(&b, 0, 1, (const int64_t[]){1 << 20});
    x = load(&b, KILN_F32, 1), y = load(&b, KILN_F32, 1);
    store(&b, KILN_F32, 1, expr2(&b, "tanh(exp(a * b)) + a", x, y));
    finish(&b);
    measure("tanh(exp), 1M", &b);
    build_end(&b);
    build_softmax(&b, KILN_F32, 1024, 1000, false);
    measure("softmax-like 1024 x 1000", &b);
    build_end(&b);
    build_softmax(&b, KILN_F32, 8192, 100, false);
    measure("softmax-like 8192 x 100", &b);
    build_end(&b);
    build_softmax(&b, KILN_F32, 1000, 1024, true);
    measure("softmax-like, columns of 1000 x 1024", &b);
    build_end(&b);
    build_sums(&b, 1, 1 << 20, false, true);
    measure("sums with totals, 1 x 1M", &b);
    build_end(&b);
}

int main(int argc, char **argv)
{
    setenv("KILN_DEBUG", "validate", 0);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        CASE(the_compiler_warms_up_once),
        CASE(launches_of_both_kinds_are_ordered),
        CASE(kernels_may_be_unloaded_in_flight),
        CASE(many_ranges_become_barriers),
        CASE(compiled_pipelines_are_kept_on_disk),
        CASE(failures_name_the_kernel),
        CASE(the_null_device_takes_compiled_launches),
        CASE(times),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    print_compile_times();
    return failed;
}
