// GLSL to SPIR-V in process, by glslang's C interface, and what SPIRV-Tools knows of a module. Thread-safe.
#pragma once
#include "base/base.h"
#include "base/str.h"

struct spirv {
    uint32_t *words;
    size_t n_words;
};

// The text of a file that a shader includes, NULL when there is none of that name. Never asked for are
// "scalar.glsl", the prelude of the scalar language, and "dtype.glsl", the table of dtypes.
typedef const char *(*spirv_include_fn)(void *user, const char *name);

struct spirv_source {
    const char *name;    // for messages
    const char *text;    // a whole compute shader, with its #version line first
    const char *defines; // lines put behind the #version line, or NULL
    spirv_include_fn include;
    void *user;
};

// Compiles for Vulkan 1.2 (SPIR-V 1.5). Matrices of subgroups have bf16 for f16 where the text has the line
// "#define MATRICES_BF16". KILN_E_FORMAT with the compiler's first message and the line it speaks of.
kiln_status spirv_compile(const struct spirv_source *source, struct spirv *out);
// Appends which build of the compiler this is, for keys of a cache.
void spirv_add_build(struct str *key);
// The first compile builds the tables of built-in symbols, which takes 50 to 75 ms. This does so in a thread of its
// own: the first call starts it, later ones do nothing. What is compiled meanwhile waits for the tables.
void spirv_warm(void);
// Waits for that thread. To be called before the compiler's statics go, which is when the process exits or the library
// is unloaded; exit() sees to it, and a device's close may.
void spirv_warm_end(void);
void spirv_free(struct spirv *s);
// Takes out, in place, what a driver does not need: names and source text, and functions that main() does not reach.
kiln_status spirv_strip(struct spirv *s);
// Where the module uses matrices by NVIDIA's extension, it becomes one that uses those of Khronos; with `bf16`, what
// they have as f16 is bf16.
kiln_status spirv_khr_matrices(struct spirv *s, bool bf16);
// What a device does where a module asks for it.
struct spirv_modes {
    bool numbers_f16, numbers_f32, numbers_f64; // zeros keep their signs, infinities and NaN are what they are
    bool halves;          // f32 becomes f16 by rounding to nearest, ties to even; denormals of f16 stay
    bool halves_with_f64; // which has to be asked for of f64 too
};
// The module with the modes that ask for it, as far as it computes with such floats; without words where there is none
// to add. Its words are to be freed.
kiln_status spirv_add_modes(const uint32_t *words, size_t n_words, const struct spirv_modes *offered,
                            struct spirv *out);
// The source with its includes put in: what the compiler sees.
kiln_status spirv_expand(const struct spirv_source *source, struct str *out);
// KILN_E_FORMAT with the validator's message when the module breaks a rule of Vulkan 1.2. Modules that use matrices
// pass where the validator is older than those (2023.4).
kiln_status spirv_validate(const char *name, const uint32_t *words, size_t n_words);
// Of a module with matrices that SPIRV-Tools are too old for, a line that says so.
kiln_status spirv_disassemble(const uint32_t *words, size_t n_words, struct str *out);
// True when the module declares this SPIR-V capability (SpvCapability).
bool spirv_declares(const uint32_t *words, size_t n_words, uint32_t capability);
