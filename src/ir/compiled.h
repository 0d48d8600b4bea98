// Code that was made while the program runs, as a device takes it: SPIR-V, or functions of the host.
#pragma once
#include "base/base.h"

struct compiled_code {
    const char *name; // for messages
    const void *code; // SPIR-V
    size_t code_B;
    bool indirect; // SPIR-V: the argument block lies in memory, the push constant holds its address
    void (*run)(const uint64_t *args, int64_t begin, int64_t end); // the host: work units
    void (*end)(const uint64_t *args);                             // after all units, or NULL
};

// Memory that a launch touches: [address + lo_B, address + hi_B).
struct compiled_range {
    uint64_t address;
    int64_t lo_B, hi_B;
    bool write;
};
#define COMPILED_MAX_RANGES 49

struct device_gate;
struct device_record;
struct launch_facts;
struct compiled_launch {
    void *compiled;    // what load_compiled gave
    const char *op;    // for messages and profiles
    const void *words; // the argument block: words of 32 bits for SPIR-V, of 64 bits for the host
    uint32_t n_words;
    uint32_t groups[3];       // SPIR-V
    int64_t units, unit_cost; // the host: ranges of [0, units) run on several threads
    bool run_end;             // the host: the second function runs then
    uint64_t work;            // points, to bound what one submission does
    uint32_t n_ranges;        // at most COMPILED_MAX_RANGES
    const struct compiled_range *ranges;
    uint64_t workspace, workspace_B;  // scratch memory of this launch; 0 bytes: none
    struct device_gate *gate;         // behind which it runs, see device/gate.h; NULL: it runs
    struct device_record *record;     // into which it goes, to be run later, see device/record.h; NULL: it runs
    const struct launch_facts *facts; // for profiles; NULL: not known
};
