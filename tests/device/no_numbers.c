// What is no number, infinite, or a zero with a sign comes out of arithmetic as on the CPU, also where an op has one
// operand twice or a constant, which compilers like to take for a rule of numbers: x - x is 0, x times 0 too, x + 0 is
// x. And modules tell drivers that it is not.
#include "spirv/spirv.h"
#include "spirv/words.h"
#include "vulkan_fixture.h"
#include <kiln/kiln.h>

enum { N = 6, N_RULES = 7 };
static const double x_values[N] = {INFINITY, -INFINITY, NAN, 0.0, -0.0, 2.5};

static kiln_status rules(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *x = in[0], *zero = kiln_scalar(0);
    kiln_tensor *same = kiln_sub(x, x);
    out[0] = same;
    out[1] = kiln_mul(x, zero);
    out[2] = kiln_add(x, zero);
    out[3] = kiln_div(x, x);
    out[4] = kiln_sub(zero, x);
    out[5] = kiln_add(same, kiln_neg(x));
    out[6] = kiln_mul(same, same);
    return kiln_error();
}

// All of one result, as signs and what is infinite or no number.
static void spell(kiln_tensor *y, char *out)
{
    double values[N];
    assert_ok(kiln_read(kiln_cast(y, KILN_F64), values, sizeof values));
    for (int i = 0; i < N; i++) {
        bool nan = isnan(values[i]);
        out += sprintf(out, "%s%g ", !nan && signbit(values[i]) ? "-" : "+", nan ? (double)NAN : fabs(values[i]));
    }
}

static void compare(kiln_device *cpu, kiln_dtype dtype, kiln_function *f)
{
    kiln_tensor *x = kiln_cast(kiln_from_data(cpu, KILN_F64, 1, (int64_t[]){N}, x_values), dtype);
    kiln_tensor *there = kiln_to_device(x, dev);
    kiln_tensor *want[N_RULES] = {NULL}, *got[N_RULES] = {NULL};
    assert_ok(rules(NULL, &x, 1, want, N_RULES));
    assert_ok(f ? kiln_call(f, &there, 1, got, N_RULES) : rules(NULL, &there, 1, got, N_RULES));
    for (int i = 0; i < N_RULES; i++) {
        char expected[256], found[256];
        spell(want[i], expected);
        spell(got[i], found);
        assert_string_equal(found, expected);
    }
}

static void results_are_those_of_the_cpu(void **state)
{
    kiln_device *cpu = kiln_device_open("cpu");
    kiln_scope *scope = kiln_scope_begin();
    for (int i = 0; i < (dev->caps.f64 ? 2 : 1); i++) {
        kiln_dtype dtype = i ? KILN_F64 : KILN_F32;
        kiln_function *f = kiln_jit(rules, NULL, NULL);
        compare(cpu, dtype, NULL);
        compare(cpu, dtype, f);
        kiln_function_free(&f);
    }
    kiln_scope_end(&scope);
    kiln_device_close(&cpu);
}

static PFN_vkCreateShaderModule real_create;
static int n_modules, n_keeping;

static VkResult count_module(VkDevice device, const VkShaderModuleCreateInfo *info, const VkAllocationCallbacks *with,
                             VkShaderModule *out)
{
    n_modules++;
    n_keeping += spirv_declares(info->pCode, info->codeSize / 4, SPV_CAPABILITY_KEEP_NUMBERS);
    assert_ok(spirv_validate("module", info->pCode, info->codeSize / 4));
    return real_create(device, info, with, out);
}

static void modules_say_so(void **state)
{
    struct vk_device *vk = vk_of(dev);
    real_create = vk->fn.vkCreateShaderModule;
    vk->fn.vkCreateShaderModule = count_module;
    results_are_those_of_the_cpu(state);
    vk->fn.vkCreateShaderModule = real_create;
    assert_true(n_modules > N_RULES);
    assert_int_equal(n_keeping, vk->physical.modes.numbers_f32 ? n_modules : 0);
}

// The widths, added up, for which a module of this text asks for a mode.
static uint32_t widths_asked(const char *text, const struct spirv_modes *offered, uint32_t mode)
{
    struct spirv s, asking;
    uint32_t bits = 0;
    assert_ok(spirv_compile(&(struct spirv_source){.name = "widths", .text = text}, &s));
    assert_ok(spirv_add_modes(s.words, s.n_words, offered, &asking));
    assert_true(asking.words ? asking.n_words > s.n_words : asking.n_words == 0); // a copy only where modes are added
    if (asking.words) assert_ok(spirv_validate("widths", asking.words, asking.n_words));
    for (size_t at = SPV_HEADER_WORDS; at < asking.n_words; at += spirv_length(asking.words[at]))
        if (spirv_op(asking.words[at]) == SPV_OP_EXECUTION_MODE && asking.words[at + 2] == mode)
            bits += asking.words[at + 3];
    free(asking.words);
    spirv_free(&s);
    return bits;
}

static const char of_doubles[] =
    "#version 460\nlayout(local_size_x = 1) in;\nlayout(push_constant) uniform P { double x; float y; };\n"
    "shared float z;\nvoid main() { z = float(x) + y; }\n";
static const char of_halves[] =
    "#version 460\n#extension GL_EXT_shader_16bit_storage : require\nlayout(local_size_x = 1) in;\n"
    "layout(binding = 0) buffer B { float16_t h; float x; };\nvoid main() { x = float(h); h = float16_t(x + 1); }\n";

static void widths_are_those_in_use(void **state)
{
    (void)state;
    const struct spirv_modes none = {0}, all = {.numbers_f16 = true, .numbers_f32 = true, .numbers_f64 = true};
    assert_int_equal(widths_asked(of_doubles, &none, SPV_MODE_KEEP_NUMBERS), 0);
    assert_int_equal(widths_asked(of_doubles, &all, SPV_MODE_KEEP_NUMBERS), 32 + 64);
    assert_int_equal(widths_asked(of_halves, &all, SPV_MODE_KEEP_NUMBERS), 16 + 32);
}

static void halves_are_asked_for_by_those_who_convert_them(void **state)
{
    (void)state;
    const struct spirv_modes no = {.numbers_f32 = true, .halves_with_f64 = true}, alone = {.halves = true},
                             both = {.halves = true, .halves_with_f64 = true};
    const uint32_t modes[] = {SPV_MODE_KEEP_DENORMALS, SPV_MODE_ROUND_TO_NEAREST};
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        assert_int_equal(widths_asked(of_halves, &no, modes[i]), 0);
        assert_int_equal(widths_asked(of_halves, &alone, modes[i]), 16);
        assert_int_equal(widths_asked(of_halves, &both, modes[i]), 16 + 64);
        assert_int_equal(widths_asked(of_doubles, &both, modes[i]), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(results_are_those_of_the_cpu, open_device, close_device),
        cmocka_unit_test_setup_teardown(modules_say_so, open_device, close_device),
        cmocka_unit_test(widths_are_those_in_use),
        cmocka_unit_test(halves_are_asked_for_by_those_who_convert_them),
    };
    return cmocka_run_group_tests_name("no_numbers", tests, NULL, NULL);
}
