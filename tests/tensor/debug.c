// Kernels as text, facts about devices, marks in a device's work: what the tools stand on.
#include <kiln/debug.h>
#include <kiln/kiln.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define assert_error(code, text)                             \
    do {                                                     \
        assert_int_equal(kiln_error(), code);                \
        assert_non_null(strstr(kiln_error_message(), text)); \
        kiln_error_clear();                                  \
    } while (0)

static size_t find_kernel(const char *symbol)
{
    for (size_t i = 0; i < kiln_kernel_count(); i++) {
        kiln_kernel_info k = {.size = sizeof k};
        assert_int_equal(kiln_kernel_get_info(i, &k), KILN_OK);
        if (!strcmp(k.symbol, symbol)) return i;
    }
    fail_msg("no kernel %s", symbol);
    return 0;
}

static bool have_modules(void)
{
    size_t n_words;
    return kiln_kernel_spirv(find_kernel("add_f32"), &n_words) != NULL;
}

// --- kernels

static void info_of_a_row_kernel(void **state)
{
    kiln_kernel_info k = {.size = sizeof k};
    assert_int_equal(kiln_kernel_get_info(find_kernel("layer_norm_f32"), &k), KILN_OK);
    assert_string_equal(k.row, "layer_norm");
    assert_string_equal(k.dtype, "f32");
    assert_string_equal(k.kind, "row");
    assert_int_equal(k.outputs, 1);
    assert_true(k.inputs >= 1 && k.stages >= 1 && k.scalars >= 1);
}

static void an_older_program_gets_the_fields_it_knows(void **state)
{
    kiln_kernel_info k = {.size = offsetof(kiln_kernel_info, kind)};
    assert_int_equal(kiln_kernel_get_info(find_kernel("add_f32"), &k), KILN_OK);
    assert_string_equal(k.row, "add");
    assert_null(k.kind);
    assert_int_equal(k.size, offsetof(kiln_kernel_info, kind));
}

static void every_generated_kernel_has_glsl(void **state)
{
    static const char *const symbols[] = {"mul_grad0_f32", "softmax_f64", "reduce_argmax_i64", "logical_not_bool"};
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        char *text = kiln_kernel_glsl(find_kernel(symbols[i]), false);
        assert_non_null(text);
        assert_non_null(strstr(text, "#version 460"));
        assert_non_null(strstr(text, "void main()"));
        free(text);
    }
}

static void module_and_disassembly_agree(void **state)
{
    size_t add = find_kernel("add_f32"), n_words = 1;
    const uint32_t *words = kiln_kernel_spirv(add, &n_words);
    char *text = kiln_kernel_disassemble(add);
    if (!words) {
        assert_int_equal(n_words, 0);
        assert_null(text);
        assert_error(KILN_E_UNSUPPORTED, "add has no SPIR-V module");
        return;
    }
    assert_int_equal(words[0], 0x07230203);
    assert_true(n_words > 5);
    assert_non_null(text);
    assert_non_null(strstr(text, "OpEntryPoint GLCompute"));
    free(text);
    char *whole = kiln_kernel_glsl(add, true), *part = kiln_kernel_glsl(add, false);
    assert_true(whole && part && strlen(whole) > strlen(part));
    assert_null(strstr(whole, "#include \""));
    free(whole);
    free(part);
}

// As one form runs: no constant is left to the driver, and what the form does not use is gone.
static void a_module_is_specialised(void **state)
{
    static const uint32_t ids[] = {0, 1, 2, 3, 4, 5, 8, 9, 10, 18, 19, 20},
                          values[] = {256, 1, 0, 0, 4, 0, 6, 6, 6, 0, 1, 1};
    size_t add = find_kernel("add_f32"), n_before = 0, n_words = 0, n_specs = 0;
    kiln_kernel_spirv(add, &n_before);
    uint32_t *words = kiln_kernel_specialise(add, ids, values, sizeof ids / sizeof *ids, &n_words);
    if (!n_before) {
        assert_null(words);
        assert_error(KILN_E_UNSUPPORTED, "add");
        return;
    }
    assert_non_null(words);
    assert_true(n_words > 5 && n_words < n_before);
    for (size_t at = 5; at < n_words; at += words[at] >> 16) {
        uint32_t op = words[at] & 0xffff;
        n_specs += op >= 48 && op <= 52; // OpSpecConstantTrue ... OpSpecConstantOp
    }
    assert_int_equal(n_specs, 0);
    // Of f16: three modes of 16 bits and one of 32, and where others go with them, two of 64.
    size_t n_ready = 0, n_modes = 0;
    uint32_t *ready = kiln_spirv_with_modes(words, n_words, &n_ready);
    assert_non_null(ready);
    for (size_t at = 5; at < n_ready; at += ready[at] >> 16)
        n_modes += (ready[at] & 0xffff) == 16 && ready[at + 2] >= 4459 && ready[at + 2] <= 4462;
    assert_int_equal(n_modes, 6);
    free(ready);
    words[5] = 0; // nothing that can be walked
    assert_null(kiln_spirv_with_modes(words, n_words, &n_ready));
    assert_error(KILN_E_ARGUMENT, "no entry point");
    free(words);
}

static void mistakes_with_kernels(void **state)
{
    kiln_kernel_info k = {0};
    size_t n = kiln_kernel_count(), n_words;
    assert_null(kiln_kernel_glsl(n, false));
    assert_error(KILN_E_ARGUMENT, "kernel_glsl: kernel");
    assert_null(kiln_kernel_disassemble(n));
    assert_error(KILN_E_ARGUMENT, "kernel_disassemble: kernel");
    assert_null(kiln_kernel_spirv(n, &n_words));
    assert_error(KILN_E_ARGUMENT, "kernel_spirv: kernel");
    assert_null(kiln_kernel_spirv(0, NULL));
    assert_error(KILN_E_ARGUMENT, "n_words is NULL");
    assert_int_equal(kiln_kernel_get_info(0, &k), KILN_E_ARGUMENT);
    assert_error(KILN_E_ARGUMENT, "out->size");
    assert_int_equal(kiln_kernel_get_info(0, NULL), KILN_E_ARGUMENT);
    kiln_error_clear();
}

// --- passes

struct steps {
    int n, n_changed;
    size_t first_nodes, last_nodes;
};

static void on_pass(void *user, const kiln_pass_run *run)
{
    struct steps *s = user;
    if (s->n++ == 0) s->first_nodes = run->nodes_before;
    s->n_changed += run->changed;
    s->last_nodes = run->nodes_after;
    assert_int_equal(strncmp(run->graph, "kiln 1\n", 7), 0);
    assert_non_null(run->pass);
}

static void graphs_in_text_form_go_through_passes(void **state)
{
    static const char text[] = "%0: f32[3] = input \"x\"\n%1: f32[3] = neg(%0)\n%2: f32[3] = neg(%1)\n"
                               "%3: f32[3] = exp(%2)\nreturn %3 \"y\"\n";
    struct steps s = {0};
    const char *const one[] = {"simplify", "dce"};
    kiln_optimize_opts opts = {.size = sizeof opts, .each = on_pass, .user = &s, .passes = one, .n_passes = 2};
    char *some = kiln_graph_text_optimize(text, strlen(text), "text", &opts);
    assert_string_equal(some, "kiln 1\n%0: f32[3] = input \"x\"\n%1: f32[3] = exp(%0)\nreturn %1 \"y\"\n");
    assert_int_equal(s.n, 2);
    assert_int_equal(s.n_changed, 2);
    assert_int_equal(s.first_nodes, 3);
    assert_int_equal(s.last_nodes, 1);
    char *all = kiln_graph_text_optimize(text, strlen(text), "text", NULL);
    assert_string_equal(all, some);
    free(all);
    free(some);
}

static void passes_have_names(void **state)
{
    assert_true(kiln_pass_count() >= 8);
    for (size_t i = 0; i < kiln_pass_count(); i++) {
        kiln_pass_info info = {.size = sizeof info};
        assert_int_equal(kiln_pass_get_info(i, &info), KILN_OK);
        assert_true(strlen(info.name) && strlen(info.doc));
        assert_int_equal(info.size, sizeof info);
    }
}

// --- facts

struct seen {
    int n, n_groups;
    char group[32];
    double threads;
};

static void on_fact(void *user, const kiln_fact *f)
{
    struct seen *s = user;
    assert_non_null(f->group);
    assert_non_null(f->name);
    assert_true(f->kind != KILN_FACT_TEXT || f->text);
    if (strcmp(s->group, f->group)) s->n_groups++;
    snprintf(s->group, sizeof s->group, "%s", f->group);
    if (!strcmp(f->name, "threads")) s->threads = f->number;
    s->n++;
}

static void facts_of_the_cpu_come_in_groups(void **state)
{
    struct seen s = {0};
    assert_int_equal(kiln_device_facts("cpu", on_fact, &s), KILN_OK);
    assert_int_equal(s.n_groups, 4);
    assert_true(s.threads >= 1);
}

static void facts_of_every_listed_device(void **state)
{
    size_t n = kiln_device_list(NULL, 0);
    bool modules = have_modules();
    char name[32];
    for (size_t i = 0; i < n; i++) {
        struct seen s = {0};
        snprintf(name, sizeof name, "vulkan:%zu", i);
        assert_int_equal(kiln_device_facts(name, on_fact, &s), KILN_OK);
        assert_true(s.n > 10);
    }
    struct seen s = {0};
    snprintf(name, sizeof name, "vulkan:%zu", n);
    assert_int_equal(kiln_device_facts(name, on_fact, &s), modules ? KILN_E_MISSING : KILN_E_ARGUMENT);
    assert_int_equal(s.n, 0);
    kiln_error_clear();
}

static void mistakes_with_facts(void **state)
{
    struct seen s = {0};
    assert_int_equal(kiln_library_facts(NULL, NULL), KILN_E_ARGUMENT);
    kiln_error_clear();
    assert_int_equal(kiln_device_facts(NULL, on_fact, &s), KILN_E_ARGUMENT);
    kiln_error_clear();
    assert_int_equal(kiln_device_facts("vulkan:x", on_fact, &s), KILN_E_ARGUMENT);
    assert_error(KILN_E_ARGUMENT, "neither cpu nor vulkan:N");
    assert_int_equal(s.n, 0);
}

// --- marks

static void marks_measure_work(const char *name)
{
    kiln_device *dev = kiln_device_open(name);
    if (!dev && kiln_error() == KILN_E_MISSING) {
        print_message("%s: %s\n", name, kiln_error_message());
        kiln_error_clear();
        skip();
    }
    assert_non_null(dev);
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_full(dev, KILN_F32, KILN_SHAPE(1 << 16), 0.5);
    assert_int_equal(kiln_device_mark(dev, 0), KILN_OK);
    for (int i = 0; i < 40; i++) x = kiln_tanh(x);
    assert_int_equal(kiln_device_mark(dev, KILN_MARKS - 1), KILN_OK);
    double time_ns = kiln_device_elapsed(dev, 0, KILN_MARKS - 1);
    assert_true(time_ns > 0 && time_ns < 60e9);
    assert_true(isnan(kiln_device_elapsed(dev, 0, 1)));
    assert_error(KILN_E_STATE, "mark 1 was never set");
    assert_int_equal(kiln_device_mark(dev, KILN_MARKS), KILN_E_ARGUMENT);
    assert_error(KILN_E_ARGUMENT, "device_mark: mark 32");
    assert_true(isnan(kiln_device_elapsed(dev, 99, 1)));
    assert_error(KILN_E_ARGUMENT, "device_elapsed: mark 99");
    assert_int_equal(kiln_device_mark(NULL, 0), KILN_E_ARGUMENT);
    kiln_error_clear();
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
}

static void marks_on_the_cpu(void **state)
{
    marks_measure_work("cpu");
}

static void marks_on_vulkan(void **state)
{
    if (!have_modules()) skip();
    marks_measure_work("vulkan");
}

// --- kernels of a graph

struct kernels_seen {
    int n, n_fused;
    bool has_nodes, has_llvm;
};

static void see(void *user, const kiln_graph_kernel *k)
{
    struct kernels_seen *s = user;
    s->n++;
    s->n_fused += k->fused;
    assert_int_equal(k->size, sizeof *k);
    assert_true(k->name[0] && k->nodes[0]);
    assert_int_equal(k->fused, k->kernel[0] != 0);
    if (strstr(k->nodes, "tanh(") && strstr(k->nodes, "neg(")) s->has_nodes = true;
    if (k->llvm[0]) s->has_llvm = true;
}

static const char chain[] = "%0: f32[8] = input \"x\"\n"
                            "%1: f32[8] = tanh(%0)\n"
                            "%2: f32[8] = neg(%1)\n"
                            "return %2 \"y\"\n";

static void a_text_becomes_kernels(void **state)
{
    kiln_device *dev = kiln_device_open("cpu");
    struct kernels_seen s = {0};
    assert_int_equal(kiln_graph_text_kernels(chain, sizeof chain - 1, "chain", dev, see, &s), KILN_OK);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.n_fused, 1);
    assert_true(s.has_nodes && s.has_llvm);
    kiln_device_close(&dev);
}

static void mistakes_with_kernels_of_texts(void **state)
{
    kiln_device *dev = kiln_device_open("cpu");
    struct kernels_seen s = {0};
    kiln_graph_text_kernels(NULL, 0, "chain", dev, see, &s);
    assert_error(KILN_E_ARGUMENT, "text is NULL");
    kiln_graph_text_kernels(chain, sizeof chain - 1, "chain", NULL, see, &s);
    assert_error(KILN_E_ARGUMENT, "dev is NULL");
    kiln_graph_text_kernels(chain, sizeof chain - 1, "chain", dev, NULL, &s);
    assert_error(KILN_E_ARGUMENT, "fn is NULL");
    kiln_graph_text_kernels("%0: f32[8] = inputs", 19, "chain", dev, see, &s);
    assert_error(KILN_E_FORMAT, "chain:1:14");
    assert_int_equal(s.n, 0);
    kiln_device_close(&dev);
}

// --- profiles

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 16);
    assert_non_null(f);
    assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
    fclose(f);
    return text;
}

static void a_profile_holds_what_ran_meanwhile(void **state)
{
    char path[] = "/tmp/kiln-profile-XXXXXX";
    close(mkstemp(path));
    kiln_device *dev = kiln_device_open("cpu");
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(8));
    kiln_tanh(x);
    assert_int_equal(kiln_profile_begin(path), KILN_OK);
    kiln_sin(x);
    assert_int_equal(kiln_profile_begin(path), KILN_E_STATE);
    assert_error(KILN_E_STATE, path);
    assert_int_equal(kiln_profile_end(), KILN_OK);
    kiln_cos(x);
    char *text = read_file(path);
    assert_non_null(strstr(text, "\"traceEvents\": ["));
    assert_non_null(strstr(text, "{\"name\": \"sin\", \"cat\": \"launch\", \"ph\": \"X\""));
    assert_null(strstr(text, "tanh"));
    assert_null(strstr(text, "\"cos\""));
    free(text);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    unlink(path);
}

static kiln_status keep_one(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    *(kiln_tensor **)user = kiln_own(kiln_add(in[0], kiln_scalar(2)));
    return kiln_error();
}

static kiln_function *freed_inside;

static kiln_status free_itself(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_function_free(&freed_inside);
    out[0] = kiln_mul(in[0], in[0]);
    return kiln_error();
}

static void functions_may_be_gone_when_a_profile_names_them(void **state)
{
    char path[] = "/tmp/kiln-profile-XXXXXX";
    close(mkstemp(path));
    kiln_device *dev = kiln_device_open("cpu");
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(8)), *kept = NULL, *out = NULL;
    kiln_function *j = kiln_jit(keep_one, &kept, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    assert_int_equal(kiln_call(j, &x, 1, NULL, 0), KILN_OK);
    kiln_function_free(&j);
    assert_int_equal(kiln_profile_begin(path), KILN_OK);
    assert_true(kiln_item(kiln_max(kept, NULL)) == 3); // computed now
    freed_inside = j = kiln_jit(free_itself, NULL, NULL);
    assert_int_equal(kiln_call(j, &x, 1, &out, 1), KILN_OK);
    assert_int_equal(kiln_profile_end(), KILN_OK);
    char *text = read_file(path);
    assert_non_null(strstr(text, "{\"name\": \"a segment\", \"cat\": \"capture\""));
    char *call = strstr(text, "\"cat\": \"call\"");
    assert_non_null(call);
    *call = '\0';
    assert_non_null(strstr(strrchr(text, '{'), "\"name\": \"the function at debug.c:"));
    free(text);
    kiln_free(&kept);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    unlink(path);
}

static void mistakes_with_profiles(void **state)
{
    kiln_profile_begin(NULL);
    assert_error(KILN_E_ARGUMENT, "path is NULL");
    kiln_profile_begin("/nonexistent/trace.json");
    assert_error(KILN_E_IO, "/nonexistent/trace.json cannot be written");
    kiln_profile_end();
    assert_error(KILN_E_STATE, "no profile is being taken");
    assert_int_equal(kiln_profile_begin("/dev/full"), KILN_OK);
    kiln_profile_end();
    assert_error(KILN_E_IO, "/dev/full cannot be written");
    kiln_profile_end();
    assert_error(KILN_E_STATE, "no profile is being taken");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_of_a_row_kernel),
        cmocka_unit_test(an_older_program_gets_the_fields_it_knows),
        cmocka_unit_test(every_generated_kernel_has_glsl),
        cmocka_unit_test(module_and_disassembly_agree),
        cmocka_unit_test(a_module_is_specialised),
        cmocka_unit_test(mistakes_with_kernels),
        cmocka_unit_test(graphs_in_text_form_go_through_passes),
        cmocka_unit_test(passes_have_names),
        cmocka_unit_test(facts_of_the_cpu_come_in_groups),
        cmocka_unit_test(facts_of_every_listed_device),
        cmocka_unit_test(mistakes_with_facts),
        cmocka_unit_test(marks_on_the_cpu),
        cmocka_unit_test(marks_on_vulkan),
        cmocka_unit_test(a_text_becomes_kernels),
        cmocka_unit_test(mistakes_with_kernels_of_texts),
        cmocka_unit_test(a_profile_holds_what_ran_meanwhile),
        cmocka_unit_test(functions_may_be_gone_when_a_profile_names_them),
        cmocka_unit_test(mistakes_with_profiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
