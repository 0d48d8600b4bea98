// Pipelines: one for each combination of module and specialisation constants, made at first use.
//
// The hot path is one probe of a direct-mapped table. Behind it lies an open-addressing table of all pipelines, which
// only grows; the driver's own cache, kept on disk, makes a second run's creations cheap.
#include "device/profile.h"
#include "base/hash.h"
#include "base/process.h"
#include "ir/grid.h"
#include "vulkan/form.h"
#include "spirv/specialise.h"
#include "vulkan/vk.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SPEC_OPERANDS 8  // first id of the operands' constants
#define SPEC_VARIANT  32 // first id of the variant's constants
#define SPEC_NARROW   18
#define SPEC_EACH     19
#define SPEC_HALVES   20
#define SPEC_COMPACT  21
#define SPEC_MAX      (SPEC_OPERANDS + MAX_OPERANDS + 7)

static uint64_t key_hash(const struct vk_pipeline_key *key)
{
    return hash_mix(key->operands[0] ^ key->operands[1] * 0xd6e8feb86659fd93u ^ 0x9e3779b97f4a7c15u,
                    key->shape ^ 0xa0761d6478bd642fu) ^
           hash_mix(key->variant[0] ^ 0xe7037ed1a0b428dbu, key->variant[1] ^ 0x8ebc6af09c88c6e3u);
}

static bool key_equal(const struct vk_pipeline_key *a, const struct vk_pipeline_key *b)
{
    return a->operands[0] == b->operands[0] && a->operands[1] == b->operands[1] && a->shape == b->shape &&
           a->variant[0] == b->variant[0] && a->variant[1] == b->variant[1];
}

kiln_status vk_pipelines_init(struct vk_device *vk)
{
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = PUSH_WORDS * 4};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    VK_CREATE(vk, vkCreatePipelineLayout, &layout, &vk->layout);
    vk->cache = vk_cache_load(vk);
    vk->table_cap = 256;
    vk->table = calloc(vk->table_cap, sizeof *vk->table);
    if (!vk->table) return error_set(KILN_E_MEMORY, "%s: out of memory for pipelines", vk->owner->name);
    return KILN_OK;
}

void vk_pipelines_finish(struct vk_device *vk)
{
    for (uint32_t i = 0; vk->table && i < vk->table_cap; i++) {
        if (vk->table[i].pipeline) vk->fn.vkDestroyPipeline(vk->device, vk->table[i].pipeline, NULL);
    }
    free(vk->table);
    if (vk->cache) {
        vk_cache_save(vk);
        vk->fn.vkDestroyPipelineCache(vk->device, vk->cache, NULL);
    }
    if (vk->layout) vk->fn.vkDestroyPipelineLayout(vk->device, vk->layout, NULL);
}

// The slot of a key, or the free slot where it belongs.
static struct vk_pipeline_entry *find(struct vk_pipeline_entry *table, uint32_t cap, const struct vk_pipeline_key *key)
{
    uint32_t at = (uint32_t)key_hash(key) & (cap - 1);
    while (table[at].pipeline && !key_equal(&table[at].key, key)) at = (at + 1) & (cap - 1);
    return &table[at];
}

static kiln_status grow(struct vk_device *vk)
{
    uint32_t cap = vk->table_cap * 2;
    struct vk_pipeline_entry *table = calloc(cap, sizeof *table);
    if (!table) return error_set(KILN_E_MEMORY, "%s: out of memory for pipelines", vk->owner->name);
    for (uint32_t i = 0; i < vk->table_cap; i++) {
        if (vk->table[i].pipeline) *find(table, cap, &vk->table[i].key) = vk->table[i];
    }
    free(vk->table);
    vk->table = table;
    vk->table_cap = cap;
    return KILN_OK;
}

struct specialisation {
    uint32_t n;
    struct spec_value values[SPEC_MAX];
};

static void specialise(struct specialisation *s, uint32_t id, uint32_t value)
{
    s->values[s->n++] = (struct spec_value){id, value};
}

static void specialise_key(struct specialisation *s, const struct vk_device *vk, const struct vk_pipeline_key *key)
{
    struct vk_form f = vk_form_unpack(key->shape);
    s->n = 0;
    specialise(s, SPEC_HALVES, vk->owner->caps.halves);
    specialise(s, SPEC_COMPACT, grid_is_small(&vk->owner->caps));
    if (f.local) specialise(s, 0, f.local);
    specialise(s, 1, f.rank);
    specialise(s, 2, f.n_reduce);
    specialise(s, 3, f.indirect);
    specialise(s, SPEC_NARROW, f.narrow);
    if (f.each) specialise(s, SPEC_EACH, f.each);
    if (kernel_info((kernel_id)f.kernel)->kind == KERNEL_CUSTOM) {
        for (uint32_t i = 0; i < 4; i++)
            specialise(s, SPEC_VARIANT + i, (uint32_t)(key->variant[i / 2] >> (i % 2 * 32)));
    } else if (kernel_info((kernel_id)f.kernel)->kind == KERNEL_POINTWISE) {
        specialise(s, 4, f.wide);
        specialise(s, 5, f.tail);
    } else {
        specialise(s, 4, f.wide);
        specialise(s, 5, f.lanes);
        specialise(s, 6, f.rows);
        specialise(s, 7, f.phase);
    }
    for (uint32_t i = 0; i < kernel_info((kernel_id)f.kernel)->n_operands; i++) {
        specialise(s, SPEC_OPERANDS + i, vk_key_operand(key, i));
    }
}

static kiln_status create_module(struct vk_device *vk, const uint32_t *words, size_t n_words, VkShaderModule *out)
{
    struct spirv asking;
    TRY(spirv_add_modes(words, n_words, &vk->physical.modes, &asking));
    VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                     .codeSize = (asking.words ? asking.n_words : n_words) * 4,
                                     .pCode = asking.words ? asking.words : words};
    VkResult r = vk->fn.vkCreateShaderModule(vk->device, &info, NULL, out);
    free(asking.words);
    return r < 0 ? vk_failed(vk, r, "vkCreateShaderModule") : KILN_OK;
}

kiln_status vk_pipeline_create(struct vk_device *vk, const uint32_t *words, size_t n_words,
                               const VkSpecializationInfo *constants, VkPipeline *out)
{
    VkShaderModule module;
    TRY(create_module(vk, words, n_words, &module));
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = constants},
        .layout = vk->layout,
    };
    uint64_t from_ns = clock_now_ns();
    PROFILE("pipeline", vk->op);
    VkPipeline pipeline = VK_NULL_HANDLE;
    bool alive = section_enter(); // drivers compile with libraries of their own
    VkResult r = VK_ERROR_DEVICE_LOST;
    if (alive) {
        r = vk->fn.vkCreateComputePipelines(vk->device, vk->cache, 1, &info, NULL, &pipeline);
        section_opened();
        section_leave();
    }
    STAT_ADD(vk->owner, pipeline_ns, clock_now_ns() - from_ns);
    vk->fn.vkDestroyShaderModule(vk->device, module, NULL);
    if (r < 0) return vk_failed(vk, r, "vkCreateComputePipelines");
    *out = pipeline;
    STAT_ADD(vk->owner, pipelines, 1);
    vk->n_new_pipelines++;
    return KILN_OK;
}

// The driver gets the constants too: they are what is left when a module could not be specialised here.
static kiln_status create_from(struct vk_device *vk, const uint32_t *words, uint32_t n_words,
                               const struct specialisation *s, VkPipeline *out)
{
    VkSpecializationMapEntry entries[SPEC_MAX];
    for (uint32_t i = 0; i < s->n; i++) {
        entries[i] = (VkSpecializationMapEntry){
            .constantID = s->values[i].id,
            .offset = (uint32_t)(i * sizeof s->values[0] + offsetof(struct spec_value, value)),
            .size = 4};
    }
    VkSpecializationInfo constants = {
        .mapEntryCount = s->n, .pMapEntries = entries, .dataSize = s->n * sizeof s->values[0], .pData = s->values};
    return vk_pipeline_create(vk, words, n_words, &constants, out);
}

static kiln_status create(struct vk_device *vk, const struct vk_pipeline_key *key, VkPipeline *out)
{
    uint32_t kernel = vk_form_unpack(key->shape).kernel, n_words, *words = NULL;
    const uint32_t *module = vk_module_words((int)kernel), n_module = vk_module_n_words((int)kernel);
    if (!module) {
        return error_set(KILN_E_MEMORY, "%s: out of memory for the module of kernel %s", vk->owner->name,
                         kernel_info((kernel_id)kernel)->name);
    }
    struct specialisation s;
    specialise_key(&s, vk, key);
    bool done = !vk->driver_specialises && vk_specialise(module, n_module, s.values, s.n, &words, &n_words);
    kiln_status status = create_from(vk, done ? words : module, done ? n_words : n_module, &s, out);
    free(words);
    return status;
}

static kiln_status get_slow(struct vk_device *vk, const struct vk_pipeline_key *key, VkPipeline *out)
{
    struct vk_pipeline_entry *entry = find(vk->table, vk->table_cap, key);
    if (!entry->pipeline) {
        if (vk->table_n * 2 >= vk->table_cap) {
            TRY(grow(vk));
            entry = find(vk->table, vk->table_cap, key);
        }
        TRY(create(vk, key, &entry->pipeline));
        entry->key = *key;
        vk->table_n++;
    }
    *out = entry->pipeline;
    return KILN_OK;
}

kiln_status vk_pipeline_get(struct vk_device *vk, const struct vk_pipeline_key *key, VkPipeline *out)
{
    struct vk_pipeline_entry *front = &vk->front[key_hash(key) >> 32 & (PIPELINE_FRONT - 1)];
    if (KILN_UNLIKELY(!front->pipeline || !key_equal(&front->key, key))) {
        TRY(get_slow(vk, key, &front->pipeline));
        front->key = *key;
    }
    *out = front->pipeline;
    return KILN_OK;
}
