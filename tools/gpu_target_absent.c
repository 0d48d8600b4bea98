// In builds without Vulkan.
#include "gpu_target.h"

#include <stdio.h>

struct gpu_target *gpu_target_open(const char *family)
{
    fprintf(stderr, "kiln-shader-dump: --target %s: this build has no Vulkan\n", family);
    return NULL;
}

void gpu_target_close(struct gpu_target **target)
{
    *target = NULL;
}

const char *gpu_target_driver(const struct gpu_target *target)
{
    (void)target;
    return "";
}

bool gpu_target_compile(struct gpu_target *target, const char *name, const uint32_t *words, size_t n_words,
                        const struct gpu_constant *constants, size_t n_constants, struct gpu_code *code)
{
    (void)target, (void)name, (void)words, (void)n_words, (void)constants, (void)n_constants;
    *code = (struct gpu_code){0};
    return false;
}
