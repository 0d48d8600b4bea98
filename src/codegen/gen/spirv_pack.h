// Packing of modules for the library.
#pragma once
#include "base/arena.h"

struct packed_module {
    uint8_t *bytes; // of the arena
    size_t size_B;
    int reference; // the number of a module packed before, which unpacking needs; -1: none
};

enum { PACK_MODULES_MAX = 800 };
struct spirv_packer {
    struct arena *arena;
    int n;
    struct packer_reference {
        int number, depth;
        size_t n_words;
        const uint8_t *planes;
    } v[PACK_MODULES_MAX];
};

// Packs the module of that number.
kiln_status packer_add(struct spirv_packer *p, int number, const uint32_t *words, size_t n_words,
                       struct packed_module *out);
