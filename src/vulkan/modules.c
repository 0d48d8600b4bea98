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

static uint8_t *planes_of(const uint32_t *words, uint32_t n)
{
    uint8_t *planes = malloc((size_t)n * 4);
    for (uint32_t i = 0; planes && i < n; i++)
        for (uint32_t p = 0; p < 4; p++) planes[p * n + i] = (uint8_t)(words[i] >> (8 * p));
    return planes;
}

static bool inflate_planes(const struct spirv_module *m, uint8_t *planes, const uint8_t *like, uint32_t n_like)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)m->packed, .avail_in = m->packed_B};
    if (inflateInit2(&z, -15) != Z_OK) return false;
    bool ok = true;
    for (uint32_t p = 0; ok && p < 4; p++) {
        z.next_out = planes + p * m->n_words;
        z.avail_out = m->n_words;
        ok = inflateReset(&z) == Z_OK && (!like || inflateSetDictionary(&z, like + p * n_like, n_like) == Z_OK) &&
             inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_out == 0;
    }
    inflateEnd(&z);
    return ok;
}

static const uint32_t *words_of(int kernel);

// With the lock held.
static uint32_t *unpack(const struct spirv_module *m)
{
    uint32_t n = m->n_words, n_like = m->reference < 0 ? 0 : spirv_modules[m->reference].n_words;
    const uint32_t *reference = n_like ? words_of(m->reference) : NULL;
    if (n_like && !reference) return NULL;
    uint8_t *planes = malloc((size_t)n * 4), *like = n_like ? planes_of(reference, n_like) : NULL;
    uint32_t *words = malloc((size_t)n * 4);
    bool ok = planes && words && (like || !n_like) && inflate_planes(m, planes, like, n_like);
    for (uint32_t i = 0; ok && i < n; i++) {
        words[i] = planes[i] | (uint32_t)planes[n + i] << 8 | (uint32_t)planes[2 * n + i] << 16 |
                   (uint32_t)planes[3 * n + i] << 24;
    }
    free(planes);
    free(like);
    if (ok) return words;
    free(words);
    return NULL;
}

static const uint32_t *words_of(int kernel)
{
    if (!unpacked[kernel]) unpacked[kernel] = unpack(&spirv_modules[kernel]);
    return unpacked[kernel];
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
    if (!spirv_modules[kernel].packed) return NULL;
    pthread_mutex_lock(&lock);
    if (!unpacked) unpacked = calloc((size_t)kernel_count, sizeof *unpacked);
    const uint32_t *words = unpacked ? words_of(kernel) : NULL;
    pthread_mutex_unlock(&lock);
    return words;
}
