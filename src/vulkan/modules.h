// What the build embeds, written by the generator: the modules of the catalogue, packed, and the shader templates for
// kernels that are compiled at run time.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

// Packed: the words' first bytes, then all second, third and fourth bytes, each deflated with those of the reference as
// dictionary. Modules are much alike: this makes them twelve times smaller.
struct spirv_module {
    const uint8_t *packed; // NULL where a kernel has no module
    uint32_t packed_B, n_words;
    int16_t reference; // the kernel of a module that must be unpacked before; -1: none
    bool f64;          // declares Float64
};
extern const struct spirv_module spirv_modules[]; // by kernel id

// The words of a kernel's module: unpacked at first use and kept to the end of the process. NULL when the kernel has no
// module or memory is out. Thread-safe.
const uint32_t *vk_module_words(int kernel);
uint32_t vk_module_n_words(int kernel);
// The module of a user's kernel, compiled while the program runs: copied and kept like the others, for all devices.
kiln_status vk_module_add(int kernel, const uint32_t *words, size_t n_words);

struct shader_text {
    const char *name, *text;
};
extern const struct shader_text shader_texts[];
extern const int shader_text_count;
