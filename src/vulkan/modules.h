// What the build embeds, written by the generator: the modules of the catalogue, and the shader templates for kernels
// that are compiled at run time.
#pragma once
#include <stdint.h>

struct spirv_module {
    const uint32_t *words;
    uint32_t n_words;
};                                                // words is NULL where a kernel has no module
extern const struct spirv_module spirv_modules[]; // by kernel id

struct shader_text {
    const char *name, *text;
};
extern const struct shader_text shader_texts[];
extern const int shader_text_count;
