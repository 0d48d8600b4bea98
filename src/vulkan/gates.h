// What the gates of a device share.
#pragma once
#include "vulkan/vk.h"

#include <stddef.h>

#define GATE_LOOKS  256 // that are on the way to the host at a time
#define GATE_FAULTS 2048

// What the device tells the host of, in mapped memory.
struct gates_seen {
    uint32_t left_out, unused[15]; // launches, ever growing
    struct gate_state states[GATE_LOOKS];
    struct {
        int64_t is, value;
    } faults[GATE_FAULTS]; // 0: nobody's
};

struct vk_gates {
    struct vk_buffer groups, buffer;
    struct gates_seen *seen;
    uint32_t left_out; // counted
    uint64_t next;     // block
    struct gates_look {
        bool taken, dropped;
        uint64_t value; // of the batch that writes the state
    } looks[GATE_LOOKS];
    struct gates_fault {
        bool taken, dropped, watched;
        uint32_t of;        // the fault whose place for one thread it is; 0: it is the first place
        uint64_t value;     // of the last batch that may find it
        const void *thread; // that recorded it last
        struct device_fault what;
    } faults[GATE_FAULTS];
    uint32_t n_watched;
};

kiln_status vk_gates_get(struct vk_device *vk, struct vk_gates **out); // makes them

// fault.c
kiln_status vk_fault_add(kiln_device *dev, const struct device_fault *f, uint32_t *id);
void vk_fault_drop(kiln_device *dev, uint32_t id);
// Where this thread's launches note a fault: each thread has a place of its own, so that it is told of its own.
uint32_t vk_fault_place(struct vk_device *vk, uint32_t id);
void vk_fault_watch(struct vk_device *vk, uint32_t place);     // the batch that is open may find it
kiln_status vk_fault_judge(struct vk_device *vk, uint32_t id); // as an error if it was found
