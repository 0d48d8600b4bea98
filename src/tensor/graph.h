// The graph sink: ops on abstract tensors become nodes. The recorder extends it.
#pragma once
#include "ir/graph.h"
#include "tensor/tensor.h"

struct graph_sink {
    struct sink base;
    struct ir_builder builder;
};
void graph_sink_init(struct graph_sink *s, struct kiln_graph *g);
kiln_tensor *graph_tensor(struct ir_builder *b, const struct type *type, int32_t value); // a handle on a value
