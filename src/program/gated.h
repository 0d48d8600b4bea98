// Nodes with regions of which the device decides what runs; see device/gate.h and decision 18.
#pragma once
#include "program/turning.h"

// gateable.c, as a program is made. Whether the device can decide whether the launches of p run, and how many there
// are.
void program_find_gateable(struct program *p);
// The same for a node whose children are there; its chunk.
kiln_status region_find_gateable(kiln_device *dev, const char *name, struct program_region *r);
void region_drop_gate(kiln_device *dev, struct program_region *r);
bool region_is_decided(const struct program_region *r); // what runs depends on a value of the device

// gated.c, as it runs.
bool region_runs_gated(const struct program_call *call, const struct program_region *r);
kiln_status region_switch_gated(const struct program_call *call, const struct program_region *r, uint64_t workspace,
                                struct arguments *a);
kiln_status region_loop_gated(struct turning *t);
