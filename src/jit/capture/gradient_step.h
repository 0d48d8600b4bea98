// What the function did to the gradients of parameters, in order: of a captured call, and of what has to be done again
// where a gradient goes on outside.
#pragma once
#include "tensor/tensor.h"

struct gradient_step {
    uint8_t event; // enum gradient_event, but READ
    bool accumulate, keep;
    int32_t source;         // LEFT, SET: whose leaf; ARRIVED: the state at whose history, -1: at an input of the call
    int32_t input;          // ARRIVED
    int32_t value, output;  // of the graph, and of the program; -1: none
    size_t n_nodes;         // of the graph that stood there
    struct tape_node *node; // ARRIVED, while it is captured; a reference
};

// A backward is one with all that it has left.
static inline size_t gradient_step_end(const struct gradient_step *all, size_t n, size_t begin)
{
    size_t end = begin + 1;
    while (end < n && (all[end].event == GRADIENT_LEFT || all[end].event == GRADIENT_ARRIVED)) end++;
    return end;
}
