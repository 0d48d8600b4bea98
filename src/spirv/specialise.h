// A module with its specialisation constants put in, and what follows from them worked out.
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct spec_value {
    uint32_t id, value;
};

// `words` is a module as the build embeds it: stripped, for Vulkan 1.2. *out gets a new module that malloc allocated.
// False when memory is out or the module holds something that is not understood: the driver can still specialise it.
bool vk_specialise(const uint32_t *words, uint32_t n_words, const struct spec_value *values, uint32_t n_values,
                   uint32_t **out, uint32_t *n_out);
