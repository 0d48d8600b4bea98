// What a gate finds wrong: a trip beyond a loop's bound, an index without a branch.
//
// The device notes it in mapped memory, at the number of the fault; nobody waits. Whoever waits for the device next
// asks the faults that are watched, those that launches since may have found. A fault belongs to the thread that
// recorded them: another thread's read does not fail of it. Where several threads run one program, each but one has a
// place of its own for what it finds, for as long as it is watched. Threads are told apart by the address of a variable
// that each has.
#include "vulkan/gates.h"

#include <string.h>

// Dropped, and not found by what was recorded before.
static bool is_free(const struct vk_device *vk, uint32_t id)
{
    const struct vk_gates *v = vk->gates;
    const struct gates_fault *f = &v->faults[id];
    if (f->of && !f->watched) return true;
    return !f->taken || (f->dropped && f->value <= vk->completed && !v->seen->faults[id].is);
}

// 0: there is none.
static uint32_t take_free(struct vk_device *vk, const struct gates_fault *f)
{
    struct vk_gates *v = vk->gates;
    uint32_t i = 1;
    while (i < GATE_FAULTS && !is_free(vk, i)) i++;
    if (i == GATE_FAULTS) return 0;
    v->n_watched -= v->faults[i].watched;
    v->faults[i] = *f;
    memset(&v->seen->faults[i], 0, sizeof v->seen->faults[i]);
    return i;
}

static kiln_status add(struct vk_device *vk, const struct device_fault *f, uint32_t *id)
{
    struct vk_gates *v;
    TRY(vk_gates_get(vk, &v));
    *id = take_free(vk, &(struct gates_fault){.taken = true, .what = *f});
    if (*id) return KILN_OK;
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
    for (uint32_t i = 1; i < GATE_FAULTS; i++)
        if (i == id || vk->gates->faults[i].of == id) vk->gates->faults[i].dropped = true;
    pthread_mutex_unlock(&vk->lock);
}

static bool is_mine(const struct gates_fault *f, uint32_t id)
{
    return f->taken && f->of == id && f->thread == &error_pending;
}

// The one that is watched already, should the first place have become free meanwhile.
uint32_t vk_fault_place(struct vk_device *vk, uint32_t id)
{
    struct gates_fault *all = vk->gates->faults, *f = &all[id];
    bool shared = id && f->watched && f->thread != &error_pending;
    for (uint32_t i = 1; i < GATE_FAULTS && id && f->thread != &error_pending; i++)
        if (is_mine(&all[i], id) && (shared || all[i].watched)) return i;
    if (!shared) return id;
    struct gates_fault mine = {.taken = true, .of = id, .thread = &error_pending, .what = f->what};
    uint32_t place = take_free(vk, &mine);
    return place ? place : id;
}

void vk_fault_watch(struct vk_device *vk, uint32_t place)
{
    struct gates_fault *f = &vk->gates->faults[place];
    vk->gates->n_watched += !f->watched;
    f->watched = true;
    f->value = vk_stream_last(vk);
    f->thread = &error_pending;
}

static kiln_status judge(struct vk_device *vk, uint32_t id)
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

kiln_status vk_fault_judge(struct vk_device *vk, uint32_t id)
{
    const struct gates_fault *all = vk->gates->faults;
    if (all[id].thread == &error_pending) TRY(judge(vk, id));
    for (uint32_t i = 1; i < GATE_FAULTS; i++)
        if (is_mine(&all[i], id)) TRY(judge(vk, i));
    return KILN_OK;
}

kiln_status vk_gates_judge(struct vk_device *vk, bool all)
{
    struct vk_gates *v = vk->gates;
    if (KILN_LIKELY(!v || !v->n_watched)) return KILN_OK;
    for (uint32_t i = 1, left = v->n_watched; i < GATE_FAULTS && left; i++) {
        const struct gates_fault *f = &v->faults[i];
        left -= f->watched;
        if (f->watched && (all || f->thread == &error_pending)) TRY(judge(vk, i));
    }
    return KILN_OK;
}
