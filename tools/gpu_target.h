// The compiler of a GPU that need not be there: what Mesa's driver for AMD makes of a SPIR-V module, and says of it.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpu_target;

struct gpu_constant {
    uint32_t id, value;
};

struct gpu_statistic {
    char name[64];
    double value;
};

struct gpu_code {
    size_t n_statistics;
    struct gpu_statistic statistics[48]; // as the driver names them
    char *assembly;                      // of main; NULL: none
};

// `family` is a GPU as the driver names it: navi21. NULL: what is missing stands on standard error.
struct gpu_target *gpu_target_open(const char *family);
void gpu_target_close(struct gpu_target **target);
const char *gpu_target_driver(const struct gpu_target *target); // "Mesa 22.3.6"
// False: why stands on standard error, with `name`. The caller frees code->assembly.
bool gpu_target_compile(struct gpu_target *target, const char *name, const uint32_t *words, size_t n_words,
                        const struct gpu_constant *constants, size_t n_constants, struct gpu_code *code);
