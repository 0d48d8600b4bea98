// The catalogue of kernels as text. Running ops never comes here: the expressions are parsed anew for one kernel's
// shader.
#include "codegen/catalogue/catalogue.h"
#include "base/options.h"
#include <kiln/debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spirv/specialise.h"
#include "spirv/spirv.h"
#include "spirv/words.h"
#if KILN_WITH_VULKAN

#include "spirv/spirv.h"
#include "vulkan/modules.h"
#endif

size_t kiln_kernel_count(void)
{
    size_t n = 0;
    for (int i = 0; i < kernel_count; i++) n += kernel_catalogue[i].kind != KERNEL_NONE;
    return n;
}

// The id of the nth kernel that exists.
static kiln_status find_id(const char *caller, size_t kernel, int *id)
{
    if (error_pending) return error_pending;
    size_t n = 0;
    for (*id = 0; *id < kernel_count; ++*id) {
        if (kernel_catalogue[*id].kind != KERNEL_NONE && n++ == kernel) return KILN_OK;
    }
    return error_set(KILN_E_ARGUMENT, "%s: kernel %zu of %zu", caller, kernel, n);
}

static void symbol_of(const struct kernel_info *k, char *out, size_t cap)
{
    snprintf(out, cap, "%s_%s", k->name, scalar_class_name((enum scalar_class)k->cls));
    for (char *p = out; *p; p++) {
        if (*p == '.') *p = '_';
    }
}

static bool has_module_of(int id, size_t *n_words)
{
    *n_words = 0;
#if KILN_WITH_VULKAN
    *n_words = spirv_modules[id].n_words;
#else
    (void)id;
#endif
    return *n_words > 0;
}

static const uint32_t *module_of(int id, size_t *n_words)
{
    *n_words = 0;
#if KILN_WITH_VULKAN
    *n_words = spirv_modules[id].n_words;
    return vk_module_words(id);
#else
    (void)id;
    return NULL;
#endif
}

kiln_status kiln_kernel_get_info(size_t kernel, kiln_kernel_info *out)
{
    static const char *const kinds[] = {"none", "pointwise", "row", "custom"};
    int id;
    TRY(find_id("kernel_get_info", kernel, &id));
    TRY(sized_check("kernel_get_info", kiln_kernel_info, out));
    const struct kernel_info *k = &kernel_catalogue[id];
    size_t n_words;
    bool has_module = has_module_of(id, &n_words);
    kiln_kernel_info info = {
        .row = k->name,
        .dtype = scalar_class_name((enum scalar_class)k->cls),
        .kind = kinds[k->kind],
        .inputs = (uint32_t)k->n_operands - k->n_out,
        .outputs = k->n_out,
        .scalars = k->n_scalars,
        .stages = k->n_stages,
        .cpu_only = k->cpu_only || (KILN_WITH_VULKAN && !has_module),
        .module_B = n_words * 4,
    };
    symbol_of(k, info.symbol, sizeof info.symbol);
    sized_fill(out, &info, sizeof info);
    return KILN_OK;
}

const uint32_t *kiln_kernel_spirv(size_t kernel, size_t *n_words)
{
    int id;
    if (find_id("kernel_spirv", kernel, &id)) return NULL;
    if (!n_words) {
        error_set(KILN_E_ARGUMENT, "kernel_spirv: n_words is NULL");
        return NULL;
    }
    return module_of(id, n_words);
}

#if KILN_WITH_VULKAN
static uint32_t *specialise(int id, const struct spec_value *values, size_t n_values, size_t *n_words)
{
    const uint32_t *words = module_of(id, n_words);
    uint32_t *out = NULL, n_out = 0;
    if (!words) {
        error_set(KILN_E_UNSUPPORTED, "kernel_specialise: %s has no SPIR-V module", kernel_catalogue[id].name);
        return NULL;
    }
    if (!vk_specialise(words, (uint32_t)*n_words, values, (uint32_t)n_values, &out, &n_out))
        error_set(KILN_E_UNSUPPORTED, "kernel_specialise: %s: its module cannot be specialised here",
                  kernel_catalogue[id].name);
    *n_words = n_out;
    return out;
}
#else
static uint32_t *specialise(int id, const struct spec_value *values, size_t n_values, size_t *n_words)
{
    (void)values, (void)n_values, (void)n_words;
    error_set(KILN_E_UNSUPPORTED, "kernel_specialise: this build has no Vulkan device, and so no module of %s",
              kernel_catalogue[id].name);
    return NULL;
}
#endif

uint32_t *kiln_kernel_specialise(size_t kernel, const uint32_t *ids, const uint32_t *values, size_t n_values,
                                 size_t *n_words)
{
    int id;
    if (find_id("kernel_specialise", kernel, &id)) return NULL;
    const char *missing = !n_words ? "n_words" : n_values && !ids ? "ids" : n_values && !values ? "values" : NULL;
    if (missing) {
        error_set(KILN_E_ARGUMENT, "kernel_specialise: %s is NULL", missing);
        return NULL;
    }
    struct spec_value *list = calloc(n_values + 1, sizeof *list);
    if (!list) {
        error_set(KILN_E_MEMORY, "kernel_specialise: out of memory for %zu constants", n_values);
        return NULL;
    }
    for (size_t i = 0; i < n_values; i++) list[i] = (struct spec_value){ids[i], values[i]};
    uint32_t *words = specialise(id, list, n_values, n_words);
    free(list);
    return words;
}

#if KILN_WITH_VULKAN
static kiln_status with_modes(const uint32_t *words, size_t n_words, struct spirv *out)
{
    const struct spirv_modes all = {
        .numbers_f16 = true, .numbers_f32 = true, .numbers_f64 = true, .halves = true, .halves_with_f64 = true};
    TRY(spirv_add_modes(words, n_words, &all, out));
    return out->words ? KILN_OK : error_set(KILN_E_ARGUMENT, "spirv_with_modes: the module has no entry point");
}
#else
static kiln_status with_modes(const uint32_t *words, size_t n_words, struct spirv *out)
{
    (void)words, (void)n_words, (void)out;
    return error_set(KILN_E_UNSUPPORTED, "spirv_with_modes: this build has no Vulkan device");
}
#endif

uint32_t *kiln_spirv_with_modes(const uint32_t *words, size_t n_words, size_t *n_out)
{
    enum { MAGIC = 0x07230203 };
    struct spirv module = {0};
    const char *missing = !words ? "words" : !n_out ? "n_out" : NULL;
    if (missing)
        error_set(KILN_E_ARGUMENT, "spirv_with_modes: %s is NULL", missing);
    else if (n_words <= SPV_HEADER_WORDS || words[0] != MAGIC)
        error_set(KILN_E_ARGUMENT, "spirv_with_modes: the %zu words are no SPIR-V module", n_words);
    else if (!with_modes(words, n_words, &module))
        *n_out = module.n_words;
    return module.words;
}

// --- GLSL

#if KILN_WITH_VULKAN
static const char *template_text(void *user, const char *name)
{
    (void)user;
    for (int i = 0; i < shader_text_count; i++) {
        if (!strcmp(shader_texts[i].name, name)) return shader_texts[i].text;
    }
    return NULL;
}

// The macro by which the file of a hand-written kernel tells its classes apart, put behind the #version line.
static kiln_status custom_glsl(const struct kernel_info *k, struct str *out)
{
    char file[96], define[64] = "KILN_CLASS_";
    snprintf(file, sizeof file, "%s.comp", k->name);
    const char *text = template_text(NULL, file), *cls = scalar_class_name((enum scalar_class)k->cls);
    if (!text || k->cpu_only) return error_set(KILN_E_UNSUPPORTED, "kernel_glsl: %s has no shader", k->name);
    for (size_t at = strlen(define); *cls && at + 1 < sizeof define; cls++, at++) {
        define[at] = (char)(*cls >= 'a' && *cls <= 'z' ? *cls - 32 : *cls);
    }
    const char *rest = strchr(text, '\n');
    rest = rest ? rest + 1 : text;
    str_addn(out, text, (size_t)(rest - text));
    str_addf(out, "#define %s 1\n%s", define, rest);
    return str_check(out);
}

static kiln_status expand(const char *name, struct str *text)
{
    struct str whole;
    str_init(&whole);
    struct spirv_source source = {.name = name, .text = str_text(text), .include = template_text};
    kiln_status status = spirv_expand(&source, &whole);
    if (status) {
        str_free(&whole);
        return status;
    }
    str_free(text);
    *text = whole;
    return KILN_OK;
}
#else
static kiln_status custom_glsl(const struct kernel_info *k, struct str *out)
{
    (void)out;
    return error_set(KILN_E_UNSUPPORTED, "kernel_glsl: this build has no Vulkan device, and so no shader of %s",
                     k->name);
}

static kiln_status expand(const char *name, struct str *text)
{
    (void)text;
    return error_set(KILN_E_UNSUPPORTED, "kernel_glsl: %s: this build has no Vulkan device, and no shader templates",
                     name);
}
#endif

static kiln_status generated_glsl(int id, struct str *out)
{
    struct catalogue all;
    kiln_status status = catalogue_init(&all);
    if (!status && (id >= all.n_families * CLASS_COUNT || !all.kernels[id].present)) {
        status = error_set(KILN_E_INTERNAL, "kernel_glsl: %s is not in the tables", kernel_catalogue[id].name);
    }
    if (!status) status = glsl_kernel(out, &all.kernels[id].kernel);
    catalogue_finish(&all);
    return status;
}

// What a string holds, as memory of its own; NULL and an error when an allocation failed on the way.
static char *take(struct str *s)
{
    char *text = str_check(s) ? NULL : strdup(str_text(s));
    if (!text) error_set(KILN_E_MEMORY, "out of memory for the text of a kernel");
    str_free(s);
    return text;
}

char *kiln_kernel_glsl(size_t kernel, bool expanded)
{
    int id;
    if (find_id("kernel_glsl", kernel, &id)) return NULL;
    const struct kernel_info *k = &kernel_catalogue[id];
    struct str s;
    str_init(&s);
    kiln_status status = k->kind == KERNEL_CUSTOM ? custom_glsl(k, &s) : generated_glsl(id, &s);
    if (!status && expanded) status = expand(k->name, &s);
    if (status) {
        str_free(&s);
        return NULL;
    }
    return take(&s);
}

char *kiln_kernel_disassemble(size_t kernel)
{
    int id;
    size_t n_words;
    if (find_id("kernel_disassemble", kernel, &id)) return NULL;
    const uint32_t *words = module_of(id, &n_words);
    if (!words) {
        error_set(KILN_E_UNSUPPORTED, "kernel_disassemble: %s has no SPIR-V module%s", kernel_catalogue[id].name,
                  KILN_WITH_VULKAN ? ": it runs on the CPU alone" : " in this build");
        return NULL;
    }
#if KILN_WITH_VULKAN
    struct str s;
    str_init(&s);
    if (spirv_disassemble(words, n_words, &s)) {
        str_free(&s);
        return NULL;
    }
    return take(&s);
#else
    return NULL;
#endif
}
