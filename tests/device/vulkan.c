// The Vulkan device from inside: transfers, batching, barriers, the pipeline cache, and what happens when the driver
// fails.
#include "vulkan_fixture.h"

#include "ir/grid.h"
#include "spirv/spirv.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const int64_t one[] = {1};

static void launch_add(const struct block *a, const struct block *b, const struct block *out, int64_t n)
{
    struct launch l = launch_new("add", CLASS_F32, 1, &n);
    add_operand(&l, a, KILN_F32, 0, one, false);
    add_operand(&l, b, KILN_F32, 0, one, false);
    add_operand(&l, out, KILN_F32, 0, one, true);
    assert_true(dev->ops->supports(dev, &l));
    assert_ok(dev->ops->launch(dev, &l));
}

// --- what there is

static void device_tells_what_it_is(void **state)
{
    kiln_device_info info = {.size = sizeof info};
    assert_ok(kiln_device_get_info(dev, &info));
    assert_string_equal(info.kind, "vulkan");
    assert_true(strlen(info.name) > 0 && strlen(info.driver) > 0);
    assert_true(info.memory_B > 0 && info.subgroup_size > 0);
    kiln_device_info list[8] = {{.size = sizeof list[0]}, {.size = sizeof list[0]}};
    size_t n = kiln_device_list(list, 2);
    assert_true(n >= 1);
    assert_string_equal(list[0].kind, "vulkan");
    assert_true(strlen(list[0].name) > 0);
}

static void names_that_mean_no_device(void **state)
{
    static const struct {
        const char *name, *expected;
        kiln_status status;
    } cases[] = {
        {"vulkan:99", "vulkan:99: there is no such device; the loader lists", KILN_E_MISSING},
        {"vulkan:x", "is not a number", KILN_E_ARGUMENT},
        {"vulkan:", "is not a number", KILN_E_ARGUMENT},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_null(kiln_device_open(cases[i].name));
        assert_int_equal(kiln_error(), cases[i].status);
        assert_non_null(strstr(kiln_error_message(), cases[i].expected));
        kiln_error_clear();
    }
}

static void a_second_device_is_independent(void **state)
{
    kiln_device *other = kiln_device_open("vulkan");
    assert_non_null(other);
    assert_ptr_not_equal(vk_of(other)->device, vk_of(dev)->device);
    kiln_device_close(&other);
    float x = 3, y = 0;
    struct block b = block_new(sizeof x, &x);
    assert_ok(device_download(dev, &y, b.address, sizeof y));
    assert_true(y == 3);
    device_release(dev, &b);
}

// --- transfers

static void check_round_trip(uint64_t size_B, uint64_t skip_B)
{
    uint8_t *in = malloc(size_B + 1), *out = malloc(size_B + 1);
    assert_true(in && out);
    for (uint64_t i = 0; i < size_B; i++) in[i] = (uint8_t)(i * 131 + i / 255);
    struct block b = block_new(size_B + skip_B, NULL), c = block_new(size_B + skip_B, NULL);
    assert_ok(device_upload(dev, b.address + skip_B, in, size_B));
    assert_ok(device_copy(dev, c.address + skip_B, b.address + skip_B, size_B));
    assert_ok(device_download(dev, out, c.address + skip_B, size_B));
    assert_memory_equal(in, out, size_B);
    device_release(dev, &b);
    device_release(dev, &c);
    free(in);
    free(out);
}

// As on a device whose memory the host cannot map: everything goes through the rings.
static void transfers_keep_bytes(void **state)
{
    for (int staged = 0; staged < 2; staged++) {
        struct vk_device *vk = vk_of(dev);
        if (staged) {
            assert_ok(kiln_device_trim(dev));
            vk->shared_memory = false;
        }
        check_round_trip(1, 0);
        check_round_trip(3, 1);
        check_round_trip(4096, 0);
        check_round_trip(1000003, 5);
        check_round_trip((uint64_t)3 * vk->upload.buffer.size_B / 2 + 7, 0); // more than the ring holds
    }
}

// An upload into memory that queued kernels still read takes effect after them.
static void upload_waits_its_turn(void **state)
{
    enum { N = 1 << 16 };
    float *ones = malloc(N * sizeof *ones), *twos = malloc(N * sizeof *ones), *out = malloc(N * sizeof *ones);
    for (int i = 0; i < N; i++) ones[i] = 1, twos[i] = 2;
    struct block a = block_new(N * 4, ones), b = block_new(N * 4, ones);
    for (int i = 0; i < 8; i++) launch_add(&a, &b, &b, N); // b = 9
    assert_ok(device_upload(dev, a.address, twos, N * 4));
    launch_add(&a, &b, &b, N); // b = 11
    assert_ok(device_download(dev, out, b.address, N * 4));
    for (int i = 0; i < N; i++) assert_true(out[i] == 11);
    device_release(dev, &a);
    device_release(dev, &b);
    free(ones);
    free(twos);
    free(out);
}

// --- batches and barriers

static void a_chain_is_few_submissions(void **state)
{
    enum { N = 1000, SIZE = 64 };
    float zeros[SIZE] = {0}, ones[SIZE], out[SIZE];
    for (int i = 0; i < SIZE; i++) ones[i] = 1;
    struct block a = block_new(sizeof zeros, zeros), b = block_new(sizeof ones, ones);
    assert_ok(kiln_device_synchronize(dev));
    kiln_device_reset_stats(dev);
    for (int i = 0; i < N; i++) launch_add(&a, &b, &a, SIZE);
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(dev, &s);
    // Batches hold 16 launches while the device keeps up with the host, and 100 when it does not.
    assert_true(s.submits >= N / 100 && s.submits <= N / 16 + 1);
    assert_true(s.barriers >= N - 1 && s.barriers <= N);
    assert_true(s.pipelines <= 1);
    assert_ok(device_download(dev, out, a.address, sizeof out));
    kiln_device_get_stats(dev, &s);
    assert_true(s.submits <= N / 16 + 2);
    for (int i = 0; i < SIZE; i++) assert_true(out[i] == N);
    device_release(dev, &a);
    device_release(dev, &b);
}

static void only_conflicts_make_barriers(void **state)
{
    float data[64] = {0};
    struct block a = block_new(sizeof data, data), b = block_new(sizeof data, data), c[4];
    for (int i = 0; i < 4; i++) c[i] = block_new(sizeof data, NULL);
    launch_add(&a, &b, &c[0], 64);
    assert_ok(kiln_device_synchronize(dev));
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_reset_stats(dev);
    vk_of(dev)->lane.hazards = (struct vk_hazards){0};
    for (int i = 0; i < 4; i++) launch_add(&a, &b, &c[i], 64);
    kiln_device_get_stats(dev, &s);
    assert_int_equal(s.barriers, 0);
    launch_add(&c[0], &c[1], &c[2], 64); // reads what was written, and writes it
    kiln_device_get_stats(dev, &s);
    assert_int_equal(s.barriers, 1);
    launch_add(&a, &b, &a, 64); // a was read before the barrier only
    kiln_device_get_stats(dev, &s);
    assert_int_equal(s.barriers, 1);
    launch_add(&b, &b, &c[0], 64); // c[0] was read since
    kiln_device_get_stats(dev, &s);
    assert_int_equal(s.barriers, 2);
    for (int i = 0; i < 4; i++) device_release(dev, &c[i]);
    device_release(dev, &a);
    device_release(dev, &b);
}

static void hazards_compare_ranges(void **state)
{
    struct vk_hazards h = {0};
    assert_false(vk_hazard_conflict(&h, 0, 100, true));
    vk_hazard_add(&h, 100, 200, true);
    vk_hazard_add(&h, 300, 400, false);
    assert_true(vk_hazard_conflict(&h, 199, 200, false));  // read after write
    assert_true(vk_hazard_conflict(&h, 50, 101, true));    // write after write
    assert_true(vk_hazard_conflict(&h, 399, 500, true));   // write after read
    assert_false(vk_hazard_conflict(&h, 300, 400, false)); // read after read
    assert_false(vk_hazard_conflict(&h, 200, 300, true));  // between them
    for (int i = 0; i < HAZARD_READS && !vk_hazard_conflict(&h, 1000, 1001, false); i++)
        vk_hazard_add(&h, 300, 301, false);
    assert_true(h.n_reads + MAX_OPERANDS + 1 <= HAZARD_READS + 1);
    assert_true(vk_hazard_conflict(&h, 1000, 1001, false)); // full: a barrier, never an overflow
}

static void arguments_that_do_not_fit_go_through_memory(void **state)
{
    enum { RANK = 8, N = 256 };
    const int64_t sizes[RANK] = {2, 2, 2, 2, 2, 2, 2, 2};
    int64_t reversed[RANK], plain[RANK];
    for (int d = 0; d < RANK; d++) {
        plain[d] = 1 << (RANK - 1 - d);
        reversed[d] = 1 << d;
    }
    float a[N], out[N], zero = 0;
    for (int i = 0; i < N; i++) a[i] = (float)i;
    struct block ba = block_new(sizeof a, a), bz = block_new(4, &zero), bo = block_new(sizeof a, NULL);
    const int64_t still[RANK] = {0};
    // More launches than the ring of argument blocks has room for.
    int rounds = (int)(vk_of(dev)->arguments.buffer.size_B / 128);
    for (int i = 0; i < rounds; i++) {
        struct launch l = launch_new("add", CLASS_F32, RANK, sizes);
        add_operand(&l, &ba, KILN_F32, 0, reversed, false);
        add_operand(&l, &bz, KILN_F32, 0, still, false);
        add_operand(&l, &bo, KILN_F32, 0, plain, true);
        assert_ok(dev->ops->launch(dev, &l));
    }
    assert_ok(device_download(dev, out, bo.address, sizeof out));
    for (int i = 0; i < N; i++) {
        int mirrored = 0;
        for (int d = 0; d < RANK; d++) mirrored |= (i >> d & 1) << (RANK - 1 - d);
        assert_true(out[i] == (float)mirrored);
    }
    device_release(dev, &ba);
    device_release(dev, &bz);
    device_release(dev, &bo);
}

struct worker {
    pthread_t thread;
    struct block block;
    float result;
    kiln_status status;
};

// Adds the block to itself ten times over, with other lengths between that touch other pipelines.
static void *work(void *user)
{
    struct worker *w = user;
    for (int i = 0; i < 10 && !w->status; i++) {
        int64_t n = i % 2 ? 64 : 1;
        struct launch l = launch_new(i % 3 ? "add" : "mul", CLASS_F32, 1, &n);
        for (int k = 0; k < 3; k++) add_operand(&l, &w->block, KILN_F32, 0, one, k == 2);
        w->status = device_launch(dev, &l);
        if (!w->status && i % 4 == 3) w->status = kiln_device_synchronize(dev);
    }
    if (!w->status) w->status = device_download(dev, &w->result, w->block.address, sizeof w->result);
    return NULL;
}

static void threads_share_a_device(void **state)
{
    struct worker workers[4] = {0};
    float ones[64];
    for (int i = 0; i < 64; i++) ones[i] = 1;
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < COUNT_OF(workers); i++) {
            workers[i] = (struct worker){.block = block_new(sizeof ones, ones)};
            assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        }
        for (size_t i = 0; i < COUNT_OF(workers); i++) {
            assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        }
        for (size_t i = 0; i < COUNT_OF(workers); i++) {
            assert_int_equal(workers[i].status, KILN_OK);
            // Squared at the steps 0, 3, 6 and 9, doubled at the others.
            assert_true(workers[i].result == 0x1p28f);
            device_release(dev, &workers[i].block);
        }
    }
}

// --- failures, made by functions put in the driver's place

static VkResult VKAPI_PTR lost_submit(VkQueue q, uint32_t n, const VkSubmitInfo2 *s, VkFence f)
{
    return VK_ERROR_DEVICE_LOST;
}

static VkResult VKAPI_PTR late_wait(VkDevice d, const VkSemaphoreWaitInfo *i, uint64_t t)
{
    return VK_TIMEOUT;
}

static VkResult VKAPI_PTR no_memory(VkDevice d, const VkMemoryAllocateInfo *i, const VkAllocationCallbacks *c,
                                    VkDeviceMemory *m)
{
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

static void a_lost_device_stays_lost_and_can_be_opened_anew(void **state)
{
    float data[16] = {0};
    struct block a = block_new(sizeof data, data);
    struct vk_device *vk = vk_of(dev);
    launch_add(&a, &a, &a, 16);
    assert_ok(kiln_device_synchronize(dev));
    vk->fn.vkQueueSubmit2 = lost_submit;
    launch_add(&a, &a, &a, 16);
    assert_int_equal(kiln_device_synchronize(dev), KILN_E_DEVICE_LOST);
    assert_non_null(strstr(kiln_error_message(), "at or before op add"));
    kiln_error_clear();
    assert_int_equal(device_download(dev, data, a.address, sizeof data), KILN_E_DEVICE_LOST);
    assert_non_null(strstr(kiln_error_message(), "open it anew"));
    kiln_error_clear();
    assert_int_equal(device_upload(dev, a.address, data, sizeof data), KILN_E_DEVICE_LOST);
    kiln_error_clear();
    device_release(dev, &a);
    kiln_device_close(&dev);
    assert_int_equal(open_device(NULL), 0);
    struct block b = block_new(sizeof data, data);
    launch_add(&b, &b, &b, 16);
    assert_ok(kiln_device_synchronize(dev));
    device_release(dev, &b);
}

static void blocking_launches_name_the_op(void **state)
{
    float data[16] = {0};
    struct block a = block_new(sizeof data, data);
    vk_of(dev)->blocking = true;
    launch_add(&a, &a, &a, 16);
    vk_of(dev)->fn.vkQueueSubmit2 = lost_submit;
    int64_t n = 16;
    struct launch l = launch_new("mul", CLASS_F32, 1, &n);
    l.op = "mul";
    for (int i = 0; i < 3; i++) add_operand(&l, &a, KILN_F32, 0, one, i == 2);
    assert_int_equal(dev->ops->launch(dev, &l), KILN_E_DEVICE_LOST);
    assert_int_equal(strncmp(kiln_error_message(), "mul: ", 5), 0);
    kiln_error_clear();
    device_release(dev, &a);
}

static void waits_end(void **state)
{
    float data[16] = {0};
    struct block a = block_new(sizeof data, data);
    struct vk_device *vk = vk_of(dev);
    PFN_vkWaitSemaphores wait = vk->fn.vkWaitSemaphores;
    launch_add(&a, &a, &a, 16);
    assert_ok(vk_stream_submit(vk));
    vk->fn.vkWaitSemaphores = late_wait;
    kiln_status status = kiln_device_synchronize(dev);
    vk->fn.vkWaitSemaphores = wait;
    assert_int_equal(status, KILN_E_TIMEOUT);
    assert_non_null(strstr(kiln_error_message(), "no answer within"));
    kiln_error_clear();
    assert_ok(kiln_device_synchronize(dev));
    device_release(dev, &a);
}

static void exhausted_memory_is_an_error_and_nothing_is_lost(void **state)
{
    float data[16] = {1, 2, 3}, back[16];
    struct block a = block_new(sizeof data, data), big;
    struct vk_device *vk = vk_of(dev);
    PFN_vkAllocateMemory allocate = vk->fn.vkAllocateMemory;
    vk->fn.vkAllocateMemory = no_memory;
    kiln_status status = device_alloc(dev, 64u << 20, &big);
    vk->fn.vkAllocateMemory = allocate;
    assert_int_equal(status, KILN_E_DEVICE_MEMORY);
    kiln_error_clear();
    assert_ok(device_alloc(dev, 64u << 20, &big));
    assert_ok(device_download(dev, back, a.address, sizeof back));
    assert_memory_equal(data, back, sizeof data);
    device_release(dev, &big);
    device_release(dev, &a);
}

// In a process of its own, for the instance stays.
static void without_a_driver_there_is_a_clear_error(void **state)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("VK_DRIVER_FILES", "/nonexistent.json", 1);
        setenv("VK_ICD_FILENAMES", "/nonexistent.json", 1);
        setenv("KILN_TEST_NO_DRIVER", "1", 1);
        execl("/proc/self/exe", "test_vulkan", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int open_without_driver(void)
{
    kiln_device_info info = {.size = sizeof info};
    if (kiln_device_list(&info, 1) != 0 || kiln_error()) return 2;
    if (kiln_device_open("vulkan") || kiln_error() != KILN_E_MISSING) return 3;
    if (!strstr(kiln_error_message(), "vulkan")) return 4;
    kiln_error_clear();
    if (kiln_device_open("gpu") || kiln_error() != KILN_E_MISSING) return 5;
    kiln_error_clear();
    return 0;
}

// --- the pipeline cache

static void use_one_pipeline(void)
{
    float data[16] = {0};
    struct block a = block_new(sizeof data, data);
    launch_add(&a, &a, &a, 16);
    assert_ok(kiln_device_synchronize(dev));
    device_release(dev, &a);
}

static long file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) ? -1 : (long)st.st_size;
}

static void pipelines_are_kept_on_disk(void **state)
{
    char folder[] = "/tmp/kiln-test-XXXXXX", path[4096], inner[64];
    assert_non_null(mkdtemp(folder));
    snprintf(inner, sizeof inner, "%s/deep/cache", folder);
    char *before = getenv("KILN_CACHE_DIR");
    char *saved = before ? strdup(before) : NULL;
    setenv("KILN_CACHE_DIR", inner, 1);
    use_one_pipeline();
    assert_ok(vk_cache_path(vk_of(dev), path, sizeof path));
    kiln_device_close(&dev);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(inner, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);

    // Cut short, altered, empty: ignored, and replaced by a whole one.
    long whole_B = file_size(path);
    static const char *const damage[] = {"w", "r+", "r+"};
    for (size_t i = 0; i < COUNT_OF(damage); i++) {
        FILE *f = fopen(path, damage[i]);
        assert_non_null(f);
        if (i == 1) fseek(f, whole_B - 2, SEEK_SET);
        if (i > 0) fputs("????", f);
        fclose(f);
        assert_int_equal(open_device(NULL), 0);
        use_one_pipeline();
        kiln_device_close(&dev);
        assert_true(file_size(path) >= whole_B - 8);
    }
    assert_int_equal(open_device(NULL), 0);
    unlink(path);
    snprintf(path, sizeof path, "%s/.counted", inner); // when the files there were counted
    unlink(path);
    rmdir(inner);
    snprintf(inner, sizeof inner, "%s/deep", folder);
    rmdir(inner);
    assert_int_equal(rmdir(folder), 0); // nothing else was left behind
    if (saved)
        setenv("KILN_CACHE_DIR", saved, 1);
    else
        unsetenv("KILN_CACHE_DIR");
    free(saved);
}

// --- the shader compiler

static const char *no_file(void *user, const char *name)
{
    return NULL;
}

static void compiler_errors_show_the_line(void **state)
{
    struct spirv_source source = {
        .name = "broken", .text = "#version 460\nvoid main()\n{\n    int x = nothing;\n}\n", .include = no_file};
    struct spirv module;
    assert_int_equal(spirv_compile(&source, &module), KILN_E_FORMAT);
    assert_non_null(strstr(kiln_error_message(), "broken: the shader does not compile"));
    assert_non_null(strstr(kiln_error_message(), "int x = nothing;"));
    kiln_error_clear();
    source.text = "#version 460\n#include \"absent.glsl\"\n";
    assert_int_equal(spirv_compile(&source, &module), KILN_E_FORMAT);
    assert_non_null(strstr(kiln_error_message(), "absent.glsl"));
    kiln_error_clear();
}

static void compiled_text_runs_through_all_tools(void **state)
{
    struct spirv_source source = {
        .name = "plain",
        .defines = "#define N 8\n",
        .text = "#version 460\nlayout(local_size_x = N) in;\nfloat unused() { return 1.0; }\nvoid main() {}\n"};
    struct spirv module;
    struct str text;
    str_init(&text);
    assert_ok(spirv_compile(&source, &module));
    assert_ok(spirv_validate("plain", module.words, module.n_words));
    assert_ok(spirv_disassemble(module.words, module.n_words, &text));
    assert_non_null(strstr(str_text(&text), "LocalSize 8 1 1"));
    assert_null(strstr(str_text(&text), "OpReturnValue")); // the unused function is gone
    assert_true(spirv_declares(module.words, module.n_words, 1));
    assert_false(spirv_declares(module.words, module.n_words, 10));
    module.words[module.n_words - 1] ^= 0x10000;
    assert_int_equal(spirv_validate("plain", module.words, module.n_words), KILN_E_FORMAT);
    kiln_error_clear();
    str_free(&text);
    spirv_free(&module);
}

static void every_module_is_valid(void **state)
{
    int n = 0;
    for (int i = 0; i < kernel_count; i++) {
        const uint32_t *words = vk_module_words(i);
        assert_int_equal(words != NULL, spirv_modules[i].packed != NULL);
        if (!words) continue;
        size_t n_words = spirv_modules[i].n_words;
        assert_ok(spirv_validate(kernel_catalogue[i].name, words, n_words));
        assert_int_equal(spirv_declares(words, n_words, 10), spirv_modules[i].f64);
        assert_ptr_equal(vk_module_words(i), words);
        n++;
    }
    assert_true(n > 100 && n <= 800); // as src/codegen/gen/spirv.c allows
}

static void the_validation_layer_listens(void **state)
{
    if (getenv("KILN_TEST_NO_LAYER")) {
        print_message("skipped: KILN_TEST_NO_LAYER says that the validation layer is not installed\n");
        skip();
    }
    assert_true(vk_validation_active(dev));
    struct vk_device *vk = vk_of(dev);
    VkBufferCreateInfo wrong = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = 0, .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
    VkBuffer buffer = VK_NULL_HANDLE;
    vk->fn.vkCreateBuffer(vk->device, &wrong, NULL, &buffer);
    const char *text;
    assert_true(vk_validation_messages(dev, &text) >= 1);
    assert_non_null(strstr(text, "VUID"));
    vk->fn.vkDestroyBuffer(vk->device, buffer, NULL);
    vk_validation_reset();
    assert_no_validation_message();
}

int main(void)
{
    if (getenv("KILN_TEST_NO_DRIVER")) return open_without_driver();
    setenv("KILN_DEBUG", "validate", 1);
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_device, close_device)
    const struct CMUnitTest tests[] = {
        CASE(the_validation_layer_listens),
        CASE(device_tells_what_it_is),
        CASE(names_that_mean_no_device),
        CASE(a_second_device_is_independent),
        CASE(transfers_keep_bytes),
        CASE(upload_waits_its_turn),
        CASE(a_chain_is_few_submissions),
        CASE(only_conflicts_make_barriers),
        CASE(hazards_compare_ranges),
        CASE(arguments_that_do_not_fit_go_through_memory),
        CASE(a_lost_device_stays_lost_and_can_be_opened_anew),
        CASE(blocking_launches_name_the_op),
        CASE(threads_share_a_device),
        CASE(waits_end),
        CASE(without_a_driver_there_is_a_clear_error),
        CASE(exhausted_memory_is_an_error_and_nothing_is_lost),
        CASE(pipelines_are_kept_on_disk),
        CASE(compiler_errors_show_the_line),
        CASE(compiled_text_runs_through_all_tools),
        CASE(every_module_is_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
