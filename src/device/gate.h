// Launches of which the device itself decides whether they run.
//
// A gate is a launch of the kernel `gate` (shaders/gate.comp): one step of it looks at a value that the device has
// computed, and opens or closes what is launched with this gate from then on, until the next step. A launch behind a
// closed gate takes its place in the stream and does nothing. What the gate knows lies in memory of the device, where
// later steps, other gates and the host find it.
#pragma once
#include "ir/launch.h"
#include "ir/type.h"

enum gate_step {
    GATE_WHILE,  // open as long as the value holds, trip for trip; once closed it stays so. Trip `limit` is a fault
    GATE_COUNT,  // open for trip `number` while it is less than the value; a value above `limit` or below 0 is a fault
    GATE_BRANCH, // open if the value is `number`; outside of [0, limit) it is a fault
    GATE_TRUTH,  // the same for a bool, whose true is 0 and whose false is 1
    GATE_ODD,    // open if the number of trips that were made is odd
    GATE_AGAIN,  // as it is; the device's own
};

// What lies in memory of the device, at `state`.
struct gate_state {
    int64_t open;
    int64_t trips; // GATE_WHILE: that were made; GATE_COUNT: that will be, 0 where the gate around it is closed
    int64_t value; // that the step saw
    int64_t unused;
};

struct device_gate {
    kernel_id kernel;
    uint64_t value; // what a step looks at, of `dtype`
    uint8_t dtype;
    uint64_t state;        // 0: open for ever
    uint64_t around;       // the state of the gate inside of which this one stands; 0: there is none
    int64_t number, limit; // limit 0: none
    uint32_t fault;        // by fault_add; 0: a fault is nobody's
    // Of the device: the launches that its last step has room for. Zeroed by whoever makes a gate.
    uint32_t *table;
    uint64_t batch, first_B;
    uint32_t used;
};

// What a fault says, once somebody waits for the device.
struct device_fault {
    kiln_status (*raise)(const struct device_fault *f, int64_t value);
    int64_t limit;
    char name[96]; // of the function
};

// A state on its way to the host.
struct gate_look {
    uint64_t at; // the device's own
    int slot;
};

struct gate_ops {
    kiln_status (*step)(kiln_device *dev, struct device_gate *g, enum gate_step step);
    // The state as it is at this place of the stream, which is handed over. Each look is seen or dropped once.
    kiln_status (*look)(kiln_device *dev, const struct device_gate *g, struct gate_look *out);
    // Hands over what was recorded since, and waits for that place alone. A fault of the gate is an error.
    kiln_status (*see)(kiln_device *dev, const struct device_gate *g, struct gate_look *l, struct gate_state *out);
    void (*drop)(kiln_device *dev, struct gate_look *l);
    // A fault that steps may find, *id is not 0; KILN_E_UNSUPPORTED where there are too many. f->name is copied.
    kiln_status (*fault_add)(kiln_device *dev, const struct device_fault *f, uint32_t *id);
    void (*fault_drop)(kiln_device *dev, uint32_t id);
};
