// Addresses and numbers of a run into the launches that stand ready.
#pragma once
#include "program/run.h"

void bind_bases(struct program_call *r); // r->base, by r->args and r->arena
// What a run brings to one launch of a compiled action, and room for it.
struct argument_room {
    uint64_t addresses[FUSED_MAX_IN + FUSED_MAX_OUT], scalars[FUSED_MAX_SCALARS];
    struct compiled_range ranges[FUSED_MAX_IN + FUSED_MAX_OUT];
    uint32_t failed;
};
void bind_arguments(const struct program_call *r, const struct action *a, int entry, struct argument_room *room,
                    struct jit_arguments *out);
void bind_plain(const struct program_call *r, const struct action *a, struct launch *out);
kiln_status bind_index_error(const struct program *p, const struct action *a);
