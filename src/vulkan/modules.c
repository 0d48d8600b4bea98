// Unpacking the modules that the build embeds.
#include "vulkan/modules.h"
#include "ir/kernel_info.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t **unpacked; // by kernel id
static struct user_module {
    uint32_t *words, n_words;
} user_modules[USER_KERNELS_MAX]; // from kernel id kernel_count on

static bool inflate_planes(const struct spirv_module *m, uint8_t *planes, uint32_t size_B)
{
    z_stream z = {
        .next_in = (Bytef *)(uintptr_t)m->packed, .avail_in = m->packed_B, .next_out = planes, .avail_out = size_B};
    if (inflateInit(&z) != Z_OK) return false;
    int r = inflate(&z, Z_FINISH);
    if (r == Z_NEED_DICT && inflateSetDictionary(&z, spirv_dictionary, spirv_dictionary_B) == Z_OK)
        r = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return r == Z_STREAM_END && z.avail_out == 0;
}

static uint32_t *unpack(const struct spirv_module *m)
{
    uint32_t n = m->n_words;
    uint8_t *planes = malloc((size_t)n * 4);
    uint32_t *words = malloc((size_t)n * 4);
    bool ok = planes && words && inflate_planes(m, planes, n * 4);
    for (uint32_t i = 0; ok && i < n; i++) {
        words[i] = planes[i] | (uint32_t)planes[n + i] << 8 | (uint32_t)planes[2 * n + i] << 16 |
                   (uint32_t)planes[3 * n + i] << 24;
    }
    free(planes);
    if (ok) return words;
    free(words);
    return NULL;
}

static const uint32_t *user_words(int kernel)
{
    pthread_mutex_lock(&lock);
    const uint32_t *words = user_modules[kernel - kernel_count].words;
    pthread_mutex_unlock(&lock);
    return words;
}

uint32_t vk_module_n_words(int kernel)
{
    return kernel < kernel_count ? spirv_modules[kernel].n_words : user_modules[kernel - kernel_count].n_words;
}

kiln_status vk_module_add(int kernel, const uint32_t *words, size_t n_words)
{
    struct user_module *m = &user_modules[kernel - kernel_count];
    pthread_mutex_lock(&lock);
    if (!m->words) {
        m->words = malloc(n_words * sizeof *words);
        if (m->words) memcpy(m->words, words, n_words * sizeof *words);
        m->n_words = (uint32_t)n_words;
    }
    bool added = m->words != NULL;
    pthread_mutex_unlock(&lock);
    return added ? KILN_OK : error_set(KILN_E_MEMORY, "vulkan: out of memory for a module");
}

const uint32_t *vk_module_words(int kernel)
{
    if (kernel >= kernel_count) return user_words(kernel);
    const struct spirv_module *m = &spirv_modules[kernel];
    if (!m->packed) return NULL;
    pthread_mutex_lock(&lock);
    if (!unpacked) unpacked = calloc((size_t)kernel_count, sizeof *unpacked);
    if (unpacked && !unpacked[kernel]) unpacked[kernel] = unpack(m);
    const uint32_t *words = unpacked ? unpacked[kernel] : NULL;
    pthread_mutex_unlock(&lock);
    return words;
}
