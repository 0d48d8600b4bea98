// The compiler's front door. Includes are put in before the compiler sees the text: the C interface of older versions
// has no way to hand them in.
#include "spirv/spirv.h"
#include "spirv/words.h"
#include "base/build_id.h"
#include "base/process.h"
#include "scalar/scalar.h"

#include <glslang/Include/glslang_c_interface.h>
#include <glslang/Public/resource_limits_c.h>
#include <pthread.h>
#include <spirv-tools/libspirv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INCLUDE_DEPTH 8

static const char *included_text(const struct spirv_source *source, const char *name)
{
    if (!strcmp(name, "scalar.glsl")) return scalar_prelude(TARGET_GLSL);
    if (!strcmp(name, "dtype.glsl")) return scalar_dtypes_glsl();
    return source->include ? source->include(source->user, name) : NULL;
}

// Copies `text` line by line; a line `#include "name"` becomes the text of that name.
static kiln_status expand(const struct spirv_source *source, const char *text, int depth, struct str *out)
{
    if (depth > MAX_INCLUDE_DEPTH) return error_set(KILN_E_FORMAT, "%s: includes are nested too deep", source->name);
    bool defines_due = depth == 0 && source->defines;
    while (*text) {
        const char *end = strchr(text, '\n');
        size_t length = end ? (size_t)(end - text) + 1 : strlen(text);
        char name[128];
        if (sscanf(text, "#include \"%127[^\"\n]\"", name) == 1) {
            const char *inner = included_text(source, name);
            if (!inner) return error_set(KILN_E_FORMAT, "%s: there is no file \"%s\" to include", source->name, name);
            TRY(expand(source, inner, depth + 1, out));
        } else {
            str_addn(out, text, length);
        }
        if (defines_due && !strncmp(text, "#version", 8)) {
            str_add(out, source->defines);
            defines_due = false;
        }
        text += length;
    }
    return str_check(out);
}

kiln_status spirv_expand(const struct spirv_source *source, struct str *out)
{
    return expand(source, source->text, 0, out);
}

void spirv_add_build(struct str *key)
{
    build_id_add(key, (const void *)(uintptr_t)&glslang_initialize_process);
    str_add(key, "\n");
}

// The first message of the log, and the source line that it names ("ERROR: 0:12: ...").
static kiln_status report(const char *name, const char *log, const char *text)
{
    if (!log) log = "";
    int line = 0;
    const char *error = strstr(log, "ERROR: 0:");
    if (error)
        line = atoi(error + 9);
    else
        error = log;
    for (int i = 1; i < line && text; i++) {
        text = strchr(text, '\n');
        if (text) text++;
    }
    return error_set(KILN_E_FORMAT, "%s: the shader does not compile: %.*s: \"%.*s\"", name, (int)strcspn(error, "\n"),
                     error, line && text ? (int)strcspn(text, "\n") : 0, text ? text : "");
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start(void)
{
    glslang_initialize_process();
}

// --- warming up

static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    bool started, joined;
} warming = {.lock = PTHREAD_MUTEX_INITIALIZER};

// The tables belong to a version and to the extensions that a text names.
static void *warm_up(void *unused)
{
    struct spirv_source empty = {.name = "empty", .text = "#version 460\nvoid main() {}\n"};
    struct spirv module;
    if (spirv_compile(&empty, &module)) kiln_error_clear(); // whoever compiles next will see it
    spirv_free(&module);
    return unused;
}

void spirv_warm(void)
{
    pthread_mutex_lock(&warming.lock);
    if (!warming.started) {
        warming.started = true;
        process_at_fork(spirv_warm_end, NULL);
        warming.joined = pthread_create(&warming.thread, NULL, warm_up, NULL) != 0;
    }
    pthread_mutex_unlock(&warming.lock);
}

void spirv_warm_end(void)
{
    pthread_mutex_lock(&warming.lock);
    if (warming.started && !warming.joined) {
        pthread_join(warming.thread, NULL);
        warming.joined = true;
    }
    pthread_mutex_unlock(&warming.lock);
}

static kiln_status take_module(glslang_program_t *program, bool bf16, struct spirv *out)
{
    // Left out are the optimiser and the validator, which would take a third of the time: spirv_validate is for
    // callers.
    glslang_spv_options_t options = {.disable_optimizer = true};
    glslang_program_SPIRV_generate_with_options(program, GLSLANG_STAGE_COMPUTE, &options);
    size_t n_words = glslang_program_SPIRV_get_size(program);
    uint32_t *words = n_words ? malloc(n_words * sizeof *words) : NULL;
    if (!words) return error_set(KILN_E_MEMORY, "out of memory for a shader module");
    glslang_program_SPIRV_get(program, words);
    *out = (struct spirv){.words = words, .n_words = n_words};
    kiln_status status = spirv_strip(out);
    if (!status) status = spirv_khr_matrices(out, bf16);
    if (status) spirv_free(out);
    return status;
}

static kiln_status compile(const char *name, const char *text, struct spirv *out)
{
    glslang_input_t input = {
        .language = GLSLANG_SOURCE_GLSL,
        .stage = GLSLANG_STAGE_COMPUTE,
        .client = GLSLANG_CLIENT_VULKAN,
        .client_version = GLSLANG_TARGET_VULKAN_1_2,
        .target_language = GLSLANG_TARGET_SPV,
        .target_language_version = GLSLANG_TARGET_SPV_1_5,
        .code = text,
        .default_version = 460,
        .default_profile = GLSLANG_NO_PROFILE,
        .messages = GLSLANG_MSG_SPV_RULES_BIT | GLSLANG_MSG_VULKAN_RULES_BIT,
        .resource = glslang_default_resource(),
    };
    kiln_status status = KILN_OK;
    glslang_program_t *program = NULL;
    glslang_shader_t *shader = glslang_shader_create(&input);
    if (!shader) return error_set(KILN_E_MEMORY, "%s: out of memory for the shader compiler", name);
    if (!glslang_shader_preprocess(shader, &input) || !glslang_shader_parse(shader, &input)) {
        status = report(name, glslang_shader_get_info_log(shader), glslang_shader_get_preprocessed_code(shader));
    }
    if (!status) {
        program = glslang_program_create();
        if (!program) status = error_set(KILN_E_MEMORY, "%s: out of memory for the shader compiler", name);
    }
    if (!status) {
        glslang_program_add_shader(program, shader);
        if (!glslang_program_link(program, (int)input.messages)) {
            status = report(name, glslang_program_get_info_log(program), NULL);
        }
    }
    if (!status) status = take_module(program, strstr(text, "\n#define MATRICES_BF16\n") != NULL, out);
    if (program) glslang_program_delete(program);
    glslang_shader_delete(shader);
    return status;
}

static kiln_status compile_in_section(const char *name, const char *text, struct spirv *out)
{
    if (!section_enter()) return error_set(KILN_E_STATE, "%s: not compiled any more: the process ends", name);
    pthread_once(&once, start);
    kiln_status status = compile(name, text, out);
    section_opened();
    section_leave();
    return status;
}

kiln_status spirv_compile(const struct spirv_source *source, struct spirv *out)
{
    *out = (struct spirv){0};
    struct str text;
    str_init(&text);
    kiln_status status = spirv_expand(source, &text);
    if (!status) status = compile_in_section(source->name, str_text(&text), out);
    str_free(&text);
    return status;
}

void spirv_free(struct spirv *s)
{
    if (!s) return;
    free(s->words);
    *s = (struct spirv){0};
}

// SPIRV-Tools know matrices of subgroups from 2023.4 on, bf16 from 2025.2.
static bool tools_know(const uint32_t *words, size_t n_words)
{
    unsigned year = 0, number = 0, least = spirv_declares(words, n_words, SPV_CAPABILITY_BF16) ? 20252 : 20234;
    if (!spirv_declares(words, n_words, SPV_CAPABILITY_MATRICES)) return true;
    const char *version = strstr(spvSoftwareVersionString(), "v");
    return version && sscanf(version, "v%u.%u", &year, &number) == 2 && year * 10 + number >= least;
}

kiln_status spirv_validate(const char *name, const uint32_t *words, size_t n_words)
{
    if (!tools_know(words, n_words)) return KILN_OK;
    kiln_status status = KILN_OK;
    spv_context context = spvContextCreate(SPV_ENV_VULKAN_1_2);
    spv_validator_options options = spvValidatorOptionsCreate();
    spv_diagnostic diagnostic = NULL;
    if (!context || !options) {
        status = error_set(KILN_E_MEMORY, "%s: out of memory for the validator", name);
    } else {
        spvValidatorOptionsSetScalarBlockLayout(options, true);
        spv_const_binary_t binary = {words, n_words};
        if (spvValidateWithOptions(context, options, &binary, &diagnostic) != SPV_SUCCESS) {
            status =
                error_set(KILN_E_FORMAT, "%s: not a valid module: %.400s", name, diagnostic ? diagnostic->error : "");
        }
    }
    spvDiagnosticDestroy(diagnostic);
    spvValidatorOptionsDestroy(options);
    spvContextDestroy(context);
    return status;
}

kiln_status spirv_disassemble(const uint32_t *words, size_t n_words, struct str *out)
{
    if (!tools_know(words, n_words)) {
        str_addf(out, "; a module with matrices of subgroups, which %s does not know\n", spvSoftwareVersionString());
        return str_check(out);
    }
    spv_context context = spvContextCreate(SPV_ENV_VULKAN_1_2);
    if (!context) return error_set(KILN_E_MEMORY, "out of memory for the disassembler");
    spv_text text = NULL;
    uint32_t options = SPV_BINARY_TO_TEXT_OPTION_INDENT | SPV_BINARY_TO_TEXT_OPTION_FRIENDLY_NAMES;
    kiln_status status = KILN_OK;
    if (spvBinaryToText(context, words, n_words, options, &text, NULL) != SPV_SUCCESS) {
        status = error_set(KILN_E_FORMAT, "the module cannot be disassembled");
    } else {
        str_addn(out, text->str, text->length);
        status = str_check(out);
    }
    spvTextDestroy(text);
    spvContextDestroy(context);
    return status;
}
