// Calls of the host: at once, or as nodes of a graph; and their place on the tape.
#pragma once
#include "ir/host.h"
#include "tensor/tensor.h"

// In a capture that takes it a node of its graph, else called.
kiln_status host_call_take(const struct host_call *h, kiln_tensor *const *in, size_t n_in, kiln_tensor **out);
// The results of a call, by its rule; without one no gradient goes through.
kiln_status host_call_place(const struct host_call *h, kiln_tensor *const *in, size_t n_in, kiln_tensor *const *out);
