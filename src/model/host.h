// Prints and assertions of a model: in files by their text, in graphs of this process by number.
#pragma once
#include "ir/host.h"
#include "model/instance.h"

// The numbers that they have while graphs are read, which name them by the symbols host0, host1 ...
struct host_numbers {
    VEC(struct host_call *) calls; // references
    char (*names)[32];
};
kiln_status host_numbers_of(const struct model *m, struct host_numbers *out, size_list *sizes);
void host_numbers_drop(struct host_numbers *n);
// The calls that nodes of the graph name stay as long as the capture.
kiln_status host_hold_calls(struct captured *c);
// The place of a call among those of the model, where it is added if it is new; -1: it has no form in a file, or an
// error.
int32_t host_add(struct model *m, int64_t number);
bool host_is_call(const struct ir_node *n, int64_t *number);
