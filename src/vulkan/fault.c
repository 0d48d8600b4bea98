// What a gate finds wrong: a trip beyond a loop's bound, an index without a branch.
//
// The device notes it in mapped memory, at the number of the fault; nobody waits. Whoever waits for the device next
// asks the faults that are watched, those that launches since may have found. A fault belongs to the thread that
// recorded them: another thread's read does not fail of it.
#include "base/thread.h"
#include "vulkan/gates.h"

#include <string.h>

static THREAD_LOCAL char this_thread; // its address tells threads apart

// Dropped, and not found by what was recorded before.
static bool is_free(const struct vk_device *vk, uint32_t id)
{
    const struct vk_gates *v = vk->gates;
    const struct gates_fault *f = &v->faults[id];
    return !f->taken || (f->dropped && f->value <= vk->completed && !v->seen->faults[id].is);
}

static kiln_status add(struct vk_device *vk, const struct device_fault *f, uint32_t *id)
{
    struct vk_gates *v;
    TRY(vk_gates_get(vk, &v));
    for (uint32_t i = 1; i < GATE_FAULTS; i++) {
        if (!is_free(vk, i)) continue;
        v->n_watched -= v->faults[i].watched;
        v->faults[i] = (struct gates_fault){.taken = true, .what = *f};
        memset(&v->seen->faults[i], 0, sizeof v->seen->faults[i]);
        *id = i;
        return KILN_OK;
    }
    return error_set(KILN_E_UNSUPPORTED, "%s: %d conditions and loops are compiled", vk->owner->name, GATE_FAULTS - 1);
}

kiln_status vk_fault_add(kiln_device *dev, const struct device_fault *f, uint32_t *id)
{
    struct vk_device *vk = dev->impl;
    *id = 0;
    pthread_mutex_lock(&vk->lock);
    kiln_status status = add(vk, f, id);
    pthread_mutex_unlock(&vk->lock);
    return status;
}

void vk_fault_drop(kiln_device *dev, uint32_t id)
{
    struct vk_device *vk = dev->impl;
    if (!id || !vk || !vk->gates) return;
    pthread_mutex_lock(&vk->lock);
    vk->gates->faults[id].dropped = true;
    pthread_mutex_unlock(&vk->lock);
}

void vk_fault_watch(struct vk_device *vk, uint32_t id)
{
    struct gates_fault *f = &vk->gates->faults[id];
    vk->gates->n_watched += !f->watched;
    f->watched = true;
    f->value = vk_stream_last(vk);
    f->thread = &this_thread;
}

kiln_status vk_fault_judge(struct vk_device *vk, uint32_t id)
{
    struct vk_gates *v = vk->gates;
    struct gates_fault *f = &v->faults[id];
    if (f->watched && f->value <= vk->completed) {
        f->watched = false;
        v->n_watched--;
    }
    if (!__atomic_load_n(&v->seen->faults[id].is, __ATOMIC_ACQUIRE)) return KILN_OK;
    v->seen->faults[id].is = 0;
    return f->what.raise(&f->what, v->seen->faults[id].value);
}

kiln_status vk_gates_judge(struct vk_device *vk, bool all)
{
    struct vk_gates *v = vk->gates;
    if (KILN_LIKELY(!v || !v->n_watched)) return KILN_OK;
    for (uint32_t i = 1, left = v->n_watched; i < GATE_FAULTS && left; i++) {
        const struct gates_fault *f = &v->faults[i];
        left -= f->watched;
        if (f->watched && (all || f->thread == &this_thread)) TRY(vk_fault_judge(vk, i));
    }
    return KILN_OK;
}
