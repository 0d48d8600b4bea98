// Rows 68, 69 and 70: precompiled kernels, batched submission, and the CPU where there is no Vulkan.
#include "capability.h"
#include "spirv/spirv.h"
#include "ops/elementwise.h"
#include "tensor/apply.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// --- 68: eager mode compiles nothing at run time

#if KILN_WITH_GLSLANG
// The linker puts this in the place of glslang's function (see meson.build): every compilation begins with it.
struct glslang_shader_s;
struct glslang_input_s;
struct glslang_shader_s *__real_glslang_shader_create(const struct glslang_input_s *input);
struct glslang_shader_s *__wrap_glslang_shader_create(const struct glslang_input_s *input);
static int compilations;

struct glslang_shader_s *__wrap_glslang_shader_create(const struct glslang_input_s *input)
{
    compilations++;
    return __real_glslang_shader_create(input);
}
#else
static const int compilations = 0;
#endif

int glsl_compilations(void)
{
    return compilations;
}

// Every row of the table of elementwise ops in f32, or in i32 where it takes no floats.
static void elementwise_workout(kiln_device *dev)
{
    int rows = 0;
    for (int i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        if (!op->elementwise || strchr(op->name, '.')) continue;
        kiln_tensor *in[ELEMENTWISE_MAX_IN], *out = NULL;
        struct attr attrs[ELEMENTWISE_MAX_PARAMS];
        int type = op->elementwise->type;
        kiln_dtype dtype = type == TYPE_BITWISE || type == TYPE_INTEGER ? KILN_I32 : KILN_F32;
        for (int k = 0; k < op->min_in; k++)
            in[k] = kiln_full(dev, op->elementwise->condition_mask >> k & 1 ? KILN_BOOL : dtype, KILN_SHAPE(2, 3), 0.5);
        for (int k = 0; k < op->n_attrs; k++) attrs[k] = attr_of_float(0.5);
        op_apply(op, dev, op->min_in, in, attrs, &out);
        if (!out) fail_msg("%s", kiln_error_message());
        for (int k = 0; k < op->min_in; k++) kiln_free(&in[k]);
        kiln_free(&out);
        rows++;
    }
    assert_true(rows >= 90);
    assert_int_equal(kiln_device_synchronize(dev), KILN_OK);
}

// One op at least of every family of structured ops, and the backward of a network.
static void structured_workout(kiln_device *dev)
{
    kiln_tensor *x = kiln_normal(dev, KILN_F32, KILN_SHAPE(4, 6), 0, 1),
                *index = kiln_randint(dev, KILN_I64, KILN_SHAPE(4, 6), 0, 4);
    kiln_tensor *values = NULL, *indices = NULL, *pair[] = {x, x};
    EXPECT_NO_ERROR();
    kiln_tensor *results[] = {
        kiln_cast(x, KILN_F16),
        kiln_cast(x, KILN_BF16),
        kiln_cast(x, KILN_I8),
        kiln_cast(x, KILN_F64),
        kiln_sum(x, NULL),
        kiln_mean(x, KILN_REDUCE(.axes = KILN_AXES(0))),
        kiln_max(x, NULL),
        kiln_argmax(x, KILN_REDUCE(.axes = KILN_AXES(1))),
        kiln_var(x, NULL),
        kiln_norm(x, NULL),
        kiln_logsumexp(x, NULL),
        kiln_any(x, NULL),
        kiln_matmul(x, kiln_transpose(x, 0, 1)),
        kiln_contiguous(kiln_flip(x, KILN_AXES(1))),
        kiln_concat(pair, 2, 0),
        kiln_stack(pair, 2, 1),
        kiln_pad(x, KILN_PAD(.before = KILN_ARGS(1, 1), .after = KILN_ARGS(1, 0))),
        kiln_tile(x, KILN_SHAPE(2, 2)),
        kiln_roll(x, KILN_ARGS(1), KILN_AXES(0)),
        kiln_tril(x, 0),
        kiln_triu(x, 1),
        kiln_gather(x, 0, index),
        kiln_take(x, 0, kiln_randint(dev, KILN_I32, KILN_SHAPE(3), 0, 4)),
        kiln_scatter(x, 0, index, x),
        kiln_scatter_add(x, 0, index, x),
        kiln_one_hot(index, 5),
        kiln_embedding(x, index),
        kiln_cumsum(x, 0),
        kiln_cumprod(x, 1),
        kiln_argsort(x, 1, false),
        kiln_softmax(x, 1),
        kiln_log_softmax(x, 0),
        kiln_layer_norm(x, 1, NULL),
        kiln_dropout(x, 0.5),
        kiln_arange(dev, KILN_I64, 0, 9, 1),
        kiln_linspace(dev, KILN_F32, 0, 1, 5),
        kiln_eye(dev, KILN_F32, 3, 3),
        kiln_bernoulli(dev, KILN_F32, KILN_SHAPE(8), 0.5),
        kiln_randperm(dev, 16),
        kiln_isin(index, index),
    };
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        if (!results[i]) fail_msg("result %zu: %s", i, kiln_error_message());
    }
    assert_int_equal(kiln_sort(x, 1, true, &values, &indices), KILN_OK);
    assert_int_equal(kiln_topk(x, 2, 0, true, &values, &indices), KILN_OK);

    kiln_cell *net = kiln_nn_sequential(
        KILN_CELLS(kiln_nn_conv2d(dev, 1, 2, 3, NULL), kiln_nn_batch_norm2d(dev, 2, NULL), kiln_nn_gelu(),
                   kiln_nn_avg_pool2d(KILN_POOL2D(.kernel = {2, 2})), kiln_nn_max_pool2d(KILN_POOL2D(.kernel = {2, 2})),
                   kiln_nn_flatten(), kiln_nn_dense(dev, 2, 3, NULL), kiln_nn_layer_norm(dev, KILN_SHAPE(3), NULL)));
    kiln_cell_set_training(net, true);
    kiln_tensor *y = kiln_cell_call(net, kiln_normal(dev, KILN_F32, KILN_SHAPE(2, 1, 6, 6), 0, 1));
    kiln_tensor *params[16], *loss = kiln_cross_entropy(y, kiln_zeros(dev, KILN_I64, KILN_SHAPE(2)), NULL);
    size_t n = kiln_cell_parameters(net, params, 16);
    kiln_optim *opt = kiln_optim_adamw(params, n, NULL);
    kiln_backward(loss, NULL);
    kiln_clip_grad_norm(params, n, 1);
    assert_int_equal(kiln_optim_step(opt), KILN_OK);
    kiln_optim_free(&opt);
    kiln_cell_free(&net);
    assert_int_equal(kiln_device_synchronize(dev), KILN_OK);
}

void capability_68(void **state)
{
    on_each_device(elementwise_workout);
    on_each_device(structured_workout);
    assert_int_equal(stats_of(cpu()).kernels_compiled, 0);
    assert_int_equal(compilations, 0);
    if (vulkan()) {
        assert_int_equal(stats_of(vulkan()).kernels_compiled, 0);
        assert_true(stats_of(vulkan()).pipelines > 100);
        assert_true(stats_of(vulkan()).launches > 200);
    }
#if KILN_WITH_GLSLANG
    // The counter counts.
    struct spirv_source source = {.name = "probe",
                                  .text = "#version 460\nlayout(local_size_x = 1) in;\nvoid main() {}\n"};
    struct spirv module = {0};
    assert_int_equal(spirv_compile(&source, &module), KILN_OK);
    assert_int_equal(compilations, 1);
    spirv_free(&module);
#endif
}

// --- 69: through queues, in batches

void capability_69(void **state)
{
    if (!vulkan()) {
        // A machine without a driver has no queue to count; the CPU hands over nothing.
        kiln_tensor *x = kiln_ones(cpu(), KILN_F32, KILN_SHAPE(8));
        assert_int_equal(stats_of(cpu()).submits, 0);
        kiln_free(&x);
        printf("skipped: there is no Vulkan driver, or the build is without Vulkan\n");
        return;
    }
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_zeros(vulkan(), KILN_F32, KILN_SHAPE(32)),
                *one = kiln_ones(vulkan(), KILN_F32, KILN_SHAPE(32));
    assert_int_equal(kiln_device_synchronize(vulkan()), KILN_OK);
    kiln_device_stats before = stats_of(vulkan());
    for (int i = 0; i < 1000; i++) {
        kiln_tensor *next = kiln_add(x, one);
        kiln_free(&x);
        x = next;
    }
    kiln_device_stats handed = stats_of(vulkan());
    assert_int_equal(handed.launches - before.launches, 1000);
    assert_int_equal(handed.waits, before.waits);
    assert_true(kiln_item(kiln_select(x, 0, 31)) == 1000);
    kiln_device_stats after = stats_of(vulkan());
    uint64_t submits = after.submits - before.submits;
    printf("%llu launches in %llu submits\n", (unsigned long long)(after.launches - before.launches),
           (unsigned long long)submits);
    assert_true(submits >= 2);
    assert_true(submits <= 100); // a device that falls idle in between gets a small batch at once
    kiln_scope_end(&scope);
}

// --- 70: no loader, no driver: the CPU, and its matrix products through OpenBLAS

// What the child process of a machine without Vulkan does.
static void without_vulkan(void)
{
    unsetenv("KILN_DEVICE");
    assert_int_equal(kiln_device_list(NULL, 0), 0);
    kiln_device *dev = kiln_device_open(NULL);
    if (!dev) fail_msg("%s", kiln_error_message());
    kiln_device_info info = {.size = sizeof info};
    assert_int_equal(kiln_device_get_info(dev, &info), KILN_OK);
    assert_string_equal(info.kind, "cpu");
    const char *blas = getenv("KILN_BLAS");
#if KILN_WITH_OPENBLAS
    bool wanted = !blas;
#else
    bool wanted = false;
#endif
    if (!strstr(info.driver, "OpenBLAS 0.") == wanted)
        fail_msg("with KILN_BLAS=%s the driver is \"%s\"", blas ? blas : "", info.driver);
    printf("%s\n", info.driver);

    // 100 x 200 times 200 x 50 of small integers: exact in f32 whoever computes it.
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *a =
        kiln_reshape(kiln_remainder(kiln_arange(dev, KILN_F32, 0, 20000, 1), kiln_scalar(7)), KILN_SHAPE(100, 200));
    kiln_tensor *b =
        kiln_reshape(kiln_remainder(kiln_arange(dev, KILN_F32, 0, 10000, 1), kiln_scalar(5)), KILN_SHAPE(200, 50));
    float *got = malloc(sizeof(float) * 5000);
    assert_non_null(got);
    assert_int_equal(kiln_read(kiln_matmul(a, b), got, sizeof(float) * 5000), KILN_OK);
    for (int i = 0; i < 100; i++) {
        for (int j = 0; j < 50; j++) {
            int sum = 0;
            for (int k = 0; k < 200; k++) sum += (i * 200 + k) % 7 * ((k * 50 + j) % 5);
            assert_true(got[i * 50 + j] == (float)sum);
        }
    }
    free(got);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);

    assert_null(kiln_device_open("vulkan"));
    EXPECT_ERROR(KILN_WITH_VULKAN ? KILN_E_MISSING : KILN_E_ARGUMENT, "ulkan", "runtime.c:");
    assert_null(kiln_device_open("gpu"));
    assert_int_not_equal(kiln_error(), KILN_OK);
    kiln_error_clear();
}

void capability_70(void **state)
{
    if (getenv("KILN_TEST_CHILD")) {
        without_vulkan();
        return;
    }
    run_child("capability_70", "no driver",
              (const char *const[]){"VK_DRIVER_FILES", "/nonexistent", "VK_ICD_FILENAMES", "/nonexistent", NULL});
    // A loader that is none: an empty file under its name, found first.
    char folder[] = "/tmp/kiln-test-XXXXXX", file[64];
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/libvulkan.so.1", folder);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fclose(f);
    run_child("capability_70", "no loader", (const char *const[]){"LD_LIBRARY_PATH", folder, NULL});
    run_child("capability_70", "no loader, no BLAS",
              (const char *const[]){"LD_LIBRARY_PATH", folder, "KILN_BLAS", "none", NULL});
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(folder), 0);
}
