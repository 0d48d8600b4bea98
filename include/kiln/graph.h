/// @file graph.h
/// A graph as an object: printing and drawing.
#ifndef KILN_GRAPH_H
#define KILN_GRAPH_H

#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Writes the text form of the graph: one line a value, `%3: f32[2,3] = mul(%1, %2)`.
KILN_API kiln_status kiln_graph_print(const kiln_graph *g, FILE *f);
/// Writes the graph in DOT, for Graphviz.
KILN_API kiln_status kiln_graph_dot(const kiln_graph *g, FILE *f);
/// Nodes in the graph, inputs not counted.
KILN_API size_t kiln_graph_node_count(const kiln_graph *g);
/// The name of node i's op (borrowed), or NULL and an error when out of range.
KILN_API const char *kiln_graph_node_op(const kiln_graph *g, size_t i);
KILN_API void kiln_graph_free(kiln_graph **g);

#ifdef __cplusplus
}
#endif
#endif
