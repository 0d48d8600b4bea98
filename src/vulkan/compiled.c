// Kernels that the program makes while it runs: a pipeline each, launched with an argument block that is ready.
//
// A launch is a check of hazards, and at most a barrier, a bind, a push and a dispatch. Unloading a kernel does not
// wait: its pipeline stays in the list with the value of the last batch that may hold it, and is destroyed when a later
// load or unload finds that value completed, or at close.
#include "vulkan/vk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vk_compiled {
    VkPipeline pipeline;
    bool indirect, unloaded;
    uint64_t last_value; // unloaded: the batch after which nothing uses it
    struct vk_compiled *next;
    char name[];
};

static void destroy(struct vk_device *vk, struct vk_compiled *c)
{
    if (c->pipeline) vk->fn.vkDestroyPipeline(vk->device, c->pipeline, NULL);
    free(c);
}

// Destroys what was unloaded and is not in use any more.
static void sweep(struct vk_device *vk)
{
    struct vk_compiled **at = &vk->compiled;
    while (*at) {
        struct vk_compiled *c = *at;
        if (c->unloaded && c->last_value <= vk->completed) {
            *at = c->next;
            destroy(vk, c);
        } else {
            at = &c->next;
        }
    }
}

void vk_compiled_finish(struct vk_device *vk)
{
    while (vk->compiled) {
        struct vk_compiled *c = vk->compiled;
        vk->compiled = c->next;
        destroy(vk, c);
    }
}

kiln_status vk_load_compiled(kiln_device *dev, const struct compiled_code *code, void **out)
{
    struct vk_device *vk = dev->impl;
    size_t name_B = strlen(code->name) + 1;
    struct vk_compiled *c = calloc(1, sizeof *c + name_B);
    *out = NULL;
    if (!c) return error_set(KILN_E_MEMORY, "%s: %s: out of memory for a kernel", code->name, dev->name);
    memcpy(c->name, code->name, name_B);
    c->indirect = code->indirect;
    pthread_mutex_lock(&vk->lock);
    const char *op = vk->op;
    vk->op = c->name;
    kiln_status status = vk_alive(vk);
    if (!status) status = vk_pipeline_create(vk, code->code, code->code_B / 4, NULL, &c->pipeline);
    if (!status) {
        vk_stream_look(vk);
        sweep(vk);
        c->next = vk->compiled;
        vk->compiled = c;
        *out = c;
    }
    vk->op = op;
    pthread_mutex_unlock(&vk->lock);
    if (!status) return KILN_OK;
    error_name_op(c->name);
    free(c);
    return status;
}

void vk_unload_compiled(kiln_device *dev, void *compiled)
{
    struct vk_device *vk = dev->impl;
    struct vk_compiled *c = compiled;
    if (!c) return;
    pthread_mutex_lock(&vk->lock);
    c->unloaded = true;
    c->last_value = vk_stream_last(vk);
    vk_stream_look(vk);
    if (vk->op == c->name) vk->op = NULL;
    sweep(vk);
    pthread_mutex_unlock(&vk->lock);
}

static void order_after_conflicts(struct vk_device *vk, struct vk_recording *recording, const struct compiled_launch *l)
{
    struct vk_hazards *h = &vk_lane_of(vk, recording)->hazards;
    bool conflict = !vk_hazard_has_room(h, l->n_ranges + 1);
    if (l->workspace_B && !conflict)
        conflict = vk_hazard_conflict(h, l->workspace, l->workspace + l->workspace_B, true);
    for (uint32_t i = 0; i < l->n_ranges && !conflict; i++) {
        const struct compiled_range *r = &l->ranges[i];
        conflict = vk_hazard_conflict(h, r->address + (uint64_t)r->lo_B, r->address + (uint64_t)r->hi_B, r->write);
    }
    if (conflict) vk_order(vk, recording);
    for (uint32_t i = 0; i < l->n_ranges; i++) {
        const struct compiled_range *r = &l->ranges[i];
        vk_hazard_add(h, r->address + (uint64_t)r->lo_B, r->address + (uint64_t)r->hi_B, r->write);
    }
    if (l->workspace_B) vk_hazard_add(h, l->workspace, l->workspace + l->workspace_B, true);
}

static kiln_status record(struct vk_device *vk, const struct vk_compiled *c, const struct compiled_launch *l)
{
    struct vk_dispatch d = {.pipeline = c->pipeline,
                            .words = l->words,
                            .n_words = l->n_words,
                            .groups = {l->groups[0], l->groups[1], l->groups[2]},
                            .work = l->work,
                            .gate = l->gate,
                            .recording = vk_recording_of(l->record)};
    uint32_t pushed[2];
    TRY(vk_prepare(vk, &d, c->indirect, pushed));
    order_after_conflicts(vk, d.recording, l);
    return vk_record(vk, &d);
}

kiln_status vk_launch_compiled(kiln_device *dev, const struct compiled_launch *l)
{
    struct vk_device *vk = dev->impl;
    const struct vk_compiled *c = l->compiled;
    if (l->n_ranges > COMPILED_MAX_RANGES || (!c->indirect && l->n_words > PUSH_WORDS))
        return error_set(KILN_E_INTERNAL, "%s: %s: a launch of %u ranges and %u words", c->name, dev->name, l->n_ranges,
                         l->n_words);
    TRY(vk_recording_reserve(vk, l->record, c->indirect, l->n_words));
    pthread_mutex_lock(&vk->lock);
    vk->op = c->name; // lives until nothing of it is in flight
    vk->facts = l->facts;
    kiln_status status = record(vk, c, l);
    vk->facts = NULL;
    pthread_mutex_unlock(&vk->lock);
    return status;
}
