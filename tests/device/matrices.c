// Products of f16 and bf16 by matrices of subgroups, where the device multiplies those, against sums in f64: sizes
// around those of tiles and matrices, every layout, eager and captured. That a product goes by matrices is asserted
// where the device has them; that the text of such a kernel compiles, everywhere.
//
// Software drivers have matrices of f16 alone. There modules of bf16 get their type back as f16 before the driver sees
// them, and operands are bf16 whose bits are those of halves: all but the multiplication itself is then that of bf16.
#include "ir/tile.h"
#include "spirv/spirv.h"
#include "spirv/words.h"
#include "vulkan/form.h"
#include "vulkan_fixture.h"
#include <kiln/kiln.h>

static int n_by_matrices, n_others;
static const struct device_ops *real_ops;
static kiln_dtype half;     // of operands
static bool halves_as_bf16; // bits of bf16 are those of f16
static int n_renamed;       // modules of bf16 whose type became f16
static PFN_vkCreateShaderModule real_create;

static kiln_status watch(kiln_device *on, const struct compiled_code *code, void **out)
{
    bool by = spirv_declares(code->code, code->code_B / 4, SPV_CAPABILITY_MATRICES);
    *(by ? &n_by_matrices : &n_others) += 1;
    return real_ops->load_compiled(on, code, out);
}

// All layouts of one size, one of each other: the pipelines of a software driver take their time.
static bool takes(size_t s, int lay)
{
    return s == 10 || (int)(s & 3) == lay;
}

static int open_watched(void **state)
{
    static struct device_ops watching;
    if (open_device(state)) return -1;
    if (getenv("KILN_TEST_MATRICES") && !dev->caps.matrix) {
        fprintf(stderr, "%s multiplies no matrices\n", dev->name);
        return -1;
    }
    real_ops = dev->ops;
    watching = *dev->ops;
    watching.load_compiled = watch;
    dev->ops = &watching;
    return 0;
}

static int close_watched(void **state)
{
    dev->ops = real_ops;
    return close_device(state);
}

static VkResult create_of_f16(VkDevice device, const VkShaderModuleCreateInfo *info, const VkAllocationCallbacks *with,
                              VkShaderModule *out)
{
    const uint32_t *w = info->pCode;
    size_t n_words = info->codeSize / 4, n = SPV_HEADER_WORDS;
    if (!spirv_declares(w, n_words, SPV_CAPABILITY_BF16)) return real_create(device, info, with, out);
    uint32_t *words = malloc(info->codeSize);
    assert_non_null(words);
    memcpy(words, w, n * 4);
    for (size_t at = n; at < n_words; at += spirv_length(w[at])) {
        uint32_t op = spirv_op(w[at]), length = spirv_length(w[at]);
        if (op == SPV_OP_CAPABILITY && w[at + 1] == SPV_CAPABILITY_BF16_MATRICES) continue;
        if (op == SPV_OP_EXTENSION && !strcmp((const char *)(w + at + 1), "SPV_KHR_bfloat16")) continue;
        memcpy(words + n, w + at, length * 4);
        if (op == SPV_OP_CAPABILITY && w[at + 1] == SPV_CAPABILITY_BF16) words[n + 1] = SPV_CAPABILITY_F16;
        bool bf16 = op == SPV_OP_TYPE_FLOAT && length == 4;
        if (bf16) words[n] = spirv_first_word(3, SPV_OP_TYPE_FLOAT);
        n += bf16 ? 3 : length;
    }
    n_renamed++;
    VkShaderModuleCreateInfo renamed = *info;
    renamed.pCode = words;
    renamed.codeSize = n * 4;
    VkResult r = real_create(device, &renamed, with, out);
    free(words);
    return r;
}

static int open_f16(void **state)
{
    half = KILN_F16;
    halves_as_bf16 = false;
    return open_watched(state);
}

static int open_bf16(void **state)
{
    if (open_watched(state)) return -1;
    half = KILN_BF16;
    halves_as_bf16 = dev->caps.matrix && !dev->caps.matrix_bf16;
    if (!halves_as_bf16) return 0;
    struct vk_device *vk = vk_of(dev);
    real_create = vk->fn.vkCreateShaderModule;
    vk->fn.vkCreateShaderModule = create_of_f16;
    dev->caps.matrix_bf16 = dev->caps.matrix;
    n_renamed = 0;
    return 0;
}

static void skip_without_matrices(void)
{
    if (!caps_matrix_side(&dev->caps, half) && half == KILN_BF16) skip(); // another test's
}

// --- values

static uint16_t half_from(float x)
{
    return half == KILN_F16 || halves_as_bf16 ? f16_from_float(x) : bf16_from_float(x);
}

static double half_value(uint16_t bits)
{
    return half == KILN_F16 || halves_as_bf16 ? (double)f16_to_float(bits) : (double)bf16_to_float(bits);
}

struct operand {
    int64_t rows, cols, batches;
    double *values; // batches, rows, cols
    kiln_tensor *tensor;
};

static struct operand operand_of(int64_t batches, int64_t rows, int64_t cols, bool transposed, unsigned seed)
{
    struct operand o = {rows, cols, batches, calloc((size_t)(batches * rows * cols), sizeof(double)), NULL};
    uint16_t *halves = calloc((size_t)(batches * rows * cols), sizeof *halves);
    assert_true(o.values && halves);
    for (int64_t b = 0; b < batches; b++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++) {
                seed = seed * 1664525u + 1013904223u;
                // Now and then a number below the normal ones.
                float x = (float)((int)(seed >> 16 & 0xfff) - 2048) / (seed >> 28 ? 1024.0f : 0x1p33f);
                int64_t at = (b * rows + i) * cols + j, to = transposed ? (b * cols + j) * rows + i : at;
                halves[to] = half_from(x);
                o.values[at] = half_value(halves[to]);
            }
    int64_t dims[3] = {batches, transposed ? cols : rows, transposed ? rows : cols};
    o.tensor = kiln_from_data(dev, half, batches > 1 ? 3 : 2, batches > 1 ? dims : dims + 1, halves);
    if (transposed) o.tensor = kiln_transpose(o.tensor, -2, -1);
    assert_non_null(o.tensor);
    free(halves);
    return o;
}

static void expect(const struct operand *a, const struct operand *b, kiln_tensor *got, double bias, bool relu)
{
    int64_t batches = a->batches > b->batches ? a->batches : b->batches, n = batches * a->rows * b->cols;
    float *y = malloc((size_t)n * sizeof *y);
    kiln_tensor *wide = kiln_cast(got, KILN_F32);
    assert_non_null(y);
    assert_ok(kiln_read(wide, y, (size_t)n * sizeof *y));
    for (int64_t at = 0; at < n; at++) {
        int64_t j = at % b->cols, i = at / b->cols % a->rows, batch = at / b->cols / a->rows;
        const double *x = a->values + ((a->batches > 1 ? batch : 0) * a->rows + i) * a->cols;
        const double *w = b->values + (b->batches > 1 ? batch : 0) * b->rows * b->cols + j;
        double sum = bias, size = fabs(bias);
        for (int64_t k = 0; k < a->cols; k++) {
            sum += x[k] * w[k * b->cols];
            size += fabs(x[k] * w[k * b->cols]);
        }
        if (relu && sum < 0) sum = 0;
        // Half a unit of the result, and the sum's roundings in f32.
        double allowed =
            fabs(sum) * (half == KILN_F16 ? 0x1p-11 : 0x1p-8) + size * (double)(a->cols + 2) * 0x1p-24 + 0x1p-25;
        if (fabs((double)y[at] - sum) > allowed)
            fail_msg("[%lld, %lld, %lld] of %lld x %lld x %lld: %.9g, not %.9g", (long long)batch, (long long)i,
                     (long long)j, (long long)a->rows, (long long)b->cols, (long long)a->cols, (double)y[at], sum);
    }
    free(y);
}

static void operand_free(struct operand *o)
{
    free(o->values);
}

// A kernel that multiplies matrices, of this name where there is one.
static bool ran(const char *name)
{
    struct vk_device *vk = vk_of(dev);
    for (uint32_t i = 0; i < vk->table_cap; i++) {
        if (!vk->table[i].pipeline) continue;
        const struct kernel_info *k = kernel_info((kernel_id)vk_form_unpack(vk->table[i].key.shape).kernel);
        if (k->matrices && (!name || !strcmp(k->name, name))) return true;
    }
    return false;
}

static bool ran_by_matrices(void)
{
    return ran(NULL);
}

static const int64_t sizes[][3] = {{1, 1, 1},    {7, 5, 3},     {8, 8, 8},      {16, 16, 16},
                                   {17, 15, 31}, {31, 33, 32},  {32, 32, 64},   {33, 64, 65},
                                   {64, 65, 33}, {64, 64, 128}, {127, 129, 40}, {128, 128, 32},
                                   {1, 70, 90},  {66, 1, 100},  {130, 131, 1},  {96, 160, 96}};

static kiln_status with_epilogue(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_relu(kiln_add(kiln_matmul(in[0], in[1]), kiln_scalar(0.25)));
    return kiln_error();
}

static kiln_tensor *captured(kiln_tensor *a, kiln_tensor *b)
{
    kiln_function *f = kiln_jit(with_epilogue, NULL, NULL);
    kiln_tensor *y = NULL;
    assert_ok(kiln_call(f, (kiln_tensor *[]){a, b}, 2, &y, 1));
    kiln_function_free(&f);
    return y;
}

// Which in a captured function may be no product, and halves as bf16 are what a product alone reads.
static bool has_vector(const int64_t *size)
{
    return size[0] == 1 || size[1] == 1 || size[2] == 1;
}

// A product of all sizes, in the layouts that are taken, by `multiply`, against the sums.
static void all_products(kiln_tensor *(*multiply)(kiln_tensor *a, kiln_tensor *b), double bias, bool relu)
{
    bool whole = halves_as_bf16 && multiply == captured;
    for (size_t s = 0; s < COUNT_OF(sizes); s++)
        for (int lay = 0; lay < 4; lay++) {
            if (!takes(s, lay) || (whole && has_vector(sizes[s]))) continue;
            kiln_scope *scope = kiln_scope_begin();
            struct operand a = operand_of(1, sizes[s][0], sizes[s][2], lay & 1, 1 + (unsigned)s);
            struct operand b = operand_of(1, sizes[s][2], sizes[s][1], lay & 2, 77 + (unsigned)s);
            expect(&a, &b, multiply(a.tensor, b.tensor), bias, relu);
            operand_free(&a);
            operand_free(&b);
            kiln_scope_end(&scope);
        }
}

static kiln_tensor *eagerly_twice(kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *y = kiln_matmul(a, b), *again = kiln_matmul(a, b);
    assert_true(kiln_item(kiln_all(kiln_equal(y, again), NULL)) == 1);
    return y;
}

static void eager_products(void **state)
{
    skip_without_matrices();
    all_products(eagerly_twice, 0, false);
    assert_int_equal(ran_by_matrices(), caps_matrix_side(&dev->caps, half) > 0);
    assert_int_equal(n_renamed > 0, halves_as_bf16);
}

static void eager_batches(void **state)
{
    skip_without_matrices();
    static const int64_t batches[][2] = {{5, 5}, {1, 4}, {3, 1}};
    for (size_t s = 0; s < COUNT_OF(batches); s++) {
        kiln_scope *scope = kiln_scope_begin();
        struct operand a = operand_of(batches[s][0], 33, 20, s & 1, 5), b = operand_of(batches[s][1], 20, 40, false, 6);
        expect(&a, &b, kiln_matmul(a.tensor, b.tensor), 0, false);
        operand_free(&a);
        operand_free(&b);
        kiln_scope_end(&scope);
    }
}

// Each tile that products have, forced.
static void forced_tiles(void **state)
{
    skip_without_matrices();
    struct tile_table *table = calloc(1, sizeof *table), *before = dev->caps.tiles;
    assert_non_null(table);
    dev->caps.tiles = table;
    for (unsigned number = 1; tile_of(TILE_PRODUCT, number).size; number++)
        for (int lay = 0; lay < 4; lay++) {
            if (!takes(number, lay) || tile_of(TILE_PRODUCT, number).run > 1) continue; // by matrices there are no runs
            kiln_scope *scope = kiln_scope_begin();
            memset(table->number, (int)number, sizeof table->number);
            struct operand a = operand_of(1, 150, 70, lay & 1, 3), b = operand_of(1, 70, 140, lay & 2, 4);
            expect(&a, &b, kiln_matmul(a.tensor, b.tensor), 0, false);
            operand_free(&a);
            operand_free(&b);
            kiln_scope_end(&scope);
        }
    dev->caps.tiles = before;
    free(table);
}

static void captured_products(void **state)
{
    skip_without_matrices();
    n_by_matrices = n_others = 0;
    all_products(captured, 0.25, true);
    assert_int_equal(n_by_matrices > 0, caps_matrix_side(&dev->caps, half) > 0);
    assert_int_equal(n_renamed > 0, halves_as_bf16);
}

// Values of all sizes, masks and layouts: tests/conformance/attention.c. Here, that it goes by matrices where all is
// f16, with the same bits each time, near what it is in f32.
static void attention(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    struct operand in[3];
    kiln_tensor *wide[3];
    for (int i = 0; i < 3; i++) {
        in[i] = operand_of(2, i ? 70 : 65, 66, false, 11 + (unsigned)i);
        wide[i] = kiln_cast(in[i].tensor, KILN_F32);
    }
    kiln_tensor *want = NULL, *got[2], *stats = NULL;
    const kiln_flash_attention_opts *causal = KILN_FLASH_ATTENTION(.causal = true);
    assert_ok(kiln_flash_attention(wide[0], wide[1], wide[2], causal, &want, &stats));
    assert_false(ran_by_matrices());
    for (int i = 0; i < 2; i++)
        assert_ok(kiln_flash_attention(in[0].tensor, in[1].tensor, in[2].tensor, causal, &got[i], &stats));
    assert_true(kiln_item(kiln_all(kiln_equal(got[0], got[1]), NULL)) == 1);
    assert_int_equal(ran_by_matrices(), dev->caps.matrix > 0);
    kiln_tensor *far = kiln_max(kiln_abs(kiln_sub(kiln_cast(got[0], KILN_F32), want)), NULL);
    assert_true(kiln_item(far) < 2e-3); // results are below 2, weights and results rounded to 11 bits
    for (int i = 0; i < 3; i++) operand_free(&in[i]);
    kiln_scope_end(&scope);
}

// Gradients of small heads and of wide ones, and of what is so small that weights times it are below what f16 holds.
static void attention_gradients(void **state)
{
    static const int64_t widths[][2] = {{66, 40}, {64, 64}, {40, 130}};
    for (size_t s = 0; s < COUNT_OF(widths); s++) {
        kiln_scope *scope = kiln_scope_begin();
        const int64_t d = widths[s][0], e = widths[s][1], of[4][2] = {{65, d}, {70, d}, {70, e}, {65, e}};
        const kiln_flash_attention_opts *causal = KILN_FLASH_ATTENTION(.causal = s != 1);
        struct operand in[4];
        kiln_tensor *t[4], *wide[4], *y[2], *stats[2], *got[3], *again[3], *want[3];
        for (int i = 0; i < 4; i++) {
            in[i] = operand_of(2, of[i][0], of[i][1], false, 21 + (unsigned)i);
            t[i] = i == 3 ? kiln_mul(in[i].tensor, kiln_scalar(ldexp(1, -12))) : in[i].tensor;
            wide[i] = kiln_cast(t[i], KILN_F32);
        }
        assert_ok(kiln_flash_attention(wide[0], wide[1], wide[2], causal, &y[0], &stats[0]));
        assert_ok(kiln_flash_attention_backward(wide[0], wide[1], wide[2], y[0], stats[0], wide[3], causal, &want[0],
                                                &want[1], &want[2]));
        assert_ok(kiln_flash_attention(t[0], t[1], t[2], causal, &y[1], &stats[1]));
        for (int i = 0; i < 2; i++) {
            kiln_tensor **out = i ? again : got;
            assert_ok(kiln_flash_attention_backward(t[0], t[1], t[2], y[1], stats[1], t[3], causal, &out[0], &out[1],
                                                    &out[2]));
        }
        for (int i = 0; i < 3; i++) {
            assert_true(kiln_item(kiln_all(kiln_equal(got[i], again[i]), NULL)) == 1);
            kiln_tensor *off = kiln_max(kiln_abs(kiln_sub(kiln_cast(got[i], KILN_F32), want[i])), NULL);
            double most = kiln_item(kiln_max(kiln_abs(want[i]), NULL));
            if (!(kiln_item(off) < 4e-3 * most)) fail_msg("%zu, result %d: %g off, of %g", s, i, kiln_item(off), most);
        }
        for (int i = 0; i < 4; i++) operand_free(&in[i]);
        kiln_scope_end(&scope);
    }
    assert_int_equal(ran("attention_grad_matrices"), dev->caps.matrix > 0);
}

static kiln_status to_f32(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_matmul(kiln_exp(in[0]), in[1]);
    return kiln_error();
}

// What is not f16 in memory is not rounded to f16 on the way into a product.
static void other_values_go_another_way(void **state)
{
    n_by_matrices = n_others = 0;
    {
        kiln_scope *scope = kiln_scope_begin();
        struct operand a = operand_of(1, 40, 40, false, 1), b = operand_of(1, 40, 40, false, 2);
        kiln_function *f = kiln_jit(to_f32, NULL, NULL);
        kiln_tensor *y = NULL, *wide[] = {kiln_cast(a.tensor, KILN_F32), kiln_cast(b.tensor, KILN_F32)};
        assert_ok(kiln_call(f, wide, 2, &y, 1));
        kiln_tensor *x = kiln_matmul(kiln_cast(kiln_exp(wide[0]), KILN_F64), kiln_cast(wide[1], KILN_F64));
        kiln_tensor *off = kiln_max(kiln_abs(kiln_sub(kiln_cast(y, KILN_F64), x)), NULL);
        assert_true(kiln_item(off) < 1e-4);
        kiln_function_free(&f);
        operand_free(&a);
        operand_free(&b);
        kiln_scope_end(&scope);
    }
    assert_int_equal(n_by_matrices, 0);
}

// --- modules

static const char *no_file(void *user, const char *name)
{
    (void)user;
    (void)name;
    return NULL;
}

#define HEAD_OF(define, x_type)                                                                                 \
    "#version 460\n" define "#pragma use_vulkan_memory_model\n#extension GL_NV_cooperative_matrix : require\n"  \
    "#extension GL_KHR_memory_scope_semantics : require\n"                                                      \
    "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n"                                    \
    "layout(local_size_x = 32) in;\nlayout(constant_id = 0) const uint S = 16;\nconst uint T = S + 0u;\n"       \
    "shared " x_type " x[256];\nshared float y[256];\n"                                                         \
    "#define A fcoopmatNV<16, gl_ScopeSubgroup, S, S>\n#define B fcoopmatNV<16, gl_ScopeSubgroup, T, T>\n"      \
    "#define C fcoopmatNV<32, gl_ScopeSubgroup, S, S>\nvoid main()\n{\n    A a;\n    B b;\n    C c = C(0.0);\n" \
    "    coopMatLoadNV(a, x, 0, 16, true);\n    coopMatLoadNV(b, x, 0, 16, false);\n"

#define HEAD      HEAD_OF("", "float16_t")
#define HEAD_BF16 HEAD_OF("#define MATRICES_BF16\n", "uint")

static kiln_status compile_text(const char *text, struct spirv *out)
{
    struct spirv_source source = {.name = "matrices", .text = text, .include = no_file};
    return spirv_compile(&source, out);
}

static int count_op(const struct spirv *s, uint32_t op, uint32_t last_word, bool any)
{
    int n = 0;
    for (size_t at = SPV_HEADER_WORDS; at < s->n_words; at += spirv_length(s->words[at]))
        n += spirv_op(s->words[at]) == op && (any || s->words[at + spirv_length(s->words[at]) - 1] == last_word);
    return n;
}

static void modules_use_the_extension_of_khronos(void **state)
{
    struct spirv s;
    assert_ok(compile_text(HEAD "    c = coopMatMulAddNV(a, b, c);\n    coopMatStoreNV(c, y, 0, 16, false);\n}\n", &s));
    assert_true(spirv_declares(s.words, s.n_words, SPV_CAPABILITY_MATRICES));
    assert_false(spirv_declares(s.words, s.n_words, SPV_CAPABILITY_MATRICES_NV));
    for (uint32_t op = SPV_OP_TYPE_MATRIX_NV; op <= SPV_OP_MATRIX_LENGTH_NV; op++)
        assert_int_equal(count_op(&s, op, 0, true), 0);
    assert_int_equal(count_op(&s, SPV_OP_MATRIX_LOAD, 0, true), 2);
    assert_int_equal(count_op(&s, SPV_OP_MATRIX_STORE, 0, true), 1);
    assert_int_equal(count_op(&s, SPV_OP_MATRIX_MULTIPLY_ADD, 0, true), 1);
    // The last three ids are the numbers of the sides; there is a type for each.
    for (uint32_t use = 0; use < 3; use++)
        assert_int_equal(count_op(&s, SPV_OP_TYPE_MATRIX, s.words[3] - 3 + use, false), 1);
    assert_ok(spirv_validate("matrices", s.words, s.n_words));
    spirv_free(&s);
}

// The id of a float's type, of a whole instruction's length.
static uint32_t float_type(const struct spirv *s, uint32_t width, uint32_t length)
{
    for (size_t at = SPV_HEADER_WORDS; at < s->n_words; at += spirv_length(s->words[at]))
        if (s->words[at] == spirv_first_word(length, SPV_OP_TYPE_FLOAT) && s->words[at + 2] == width)
            return s->words[at + 1];
    return 0;
}

static void halves_become_bf16(void **state)
{
    struct spirv s;
    assert_ok(
        compile_text(HEAD_BF16 "    c = coopMatMulAddNV(a, b, c);\n    coopMatStoreNV(c, y, 0, 16, false);\n}\n", &s));
    assert_true(spirv_declares(s.words, s.n_words, SPV_CAPABILITY_BF16));
    assert_true(spirv_declares(s.words, s.n_words, SPV_CAPABILITY_BF16_MATRICES));
    assert_false(spirv_declares(s.words, s.n_words, SPV_CAPABILITY_F16));
    uint32_t bf16 = float_type(&s, 16, 4), f32 = float_type(&s, 32, 3);
    assert_true(bf16 && f32);
    assert_int_equal(float_type(&s, 16, 3), 0);
    for (size_t at = SPV_HEADER_WORDS; at < s.n_words; at += spirv_length(s.words[at])) {
        const uint32_t *w = s.words + at;
        bool sums = spirv_op(w[0]) == SPV_OP_TYPE_MATRIX && w[6] == s.words[3] - 1;
        if (spirv_op(w[0]) == SPV_OP_TYPE_MATRIX) assert_int_equal(w[2], sums ? f32 : bf16);
    }
    assert_ok(spirv_validate("matrices", s.words, s.n_words));
    spirv_free(&s);
}

static void bf16_is_of_matrices_alone(void **state)
{
    struct spirv s;
    assert_int_equal(compile_text(HEAD_BF16
                                  "    c = coopMatMulAddNV(a, b, c);\n    coopMatStoreNV(c, y, 0, 16, false);\n"
                                  "    y[0] = float(float16_t(y[1]));\n}\n",
                                  &s),
                     KILN_E_FORMAT);
    assert_non_null(strstr(kiln_error_message(), "uses matrices in a way that is not known"));
    kiln_error_clear();
}

static void a_type_is_for_one_side(void **state)
{
    struct spirv s;
    assert_int_equal(
        compile_text(HEAD "    c = coopMatMulAddNV(a, a, c);\n    coopMatStoreNV(c, y, 0, 16, false);\n}\n", &s),
        KILN_E_FORMAT);
    assert_non_null(strstr(kiln_error_message(), "uses matrices in a way that is not known"));
    kiln_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_use_the_extension_of_khronos),
        cmocka_unit_test(a_type_is_for_one_side),
        cmocka_unit_test(halves_become_bf16),
        cmocka_unit_test(bf16_is_of_matrices_alone),
        cmocka_unit_test_setup_teardown(eager_products, open_f16, close_watched),
        cmocka_unit_test_setup_teardown(eager_batches, open_f16, close_watched),
        cmocka_unit_test_setup_teardown(forced_tiles, open_f16, close_watched),
        cmocka_unit_test_setup_teardown(captured_products, open_f16, close_watched),
        cmocka_unit_test_setup_teardown(other_values_go_another_way, open_f16, close_watched),
        cmocka_unit_test_setup_teardown(attention, open_f16, close_watched),
        cmocka_unit_test_setup_teardown(attention_gradients, open_f16, close_watched),
        cmocka_unit_test_setup_teardown(eager_products, open_bf16, close_watched),
        cmocka_unit_test_setup_teardown(eager_batches, open_bf16, close_watched),
        cmocka_unit_test_setup_teardown(forced_tiles, open_bf16, close_watched),
        cmocka_unit_test_setup_teardown(captured_products, open_bf16, close_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
