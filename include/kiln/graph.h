/// @file graph.h
/// A graph as an object: printing, reading, drawing. The text form is described in docs/guide/graphs.md.
///
///     kiln_graph *g = kiln_graph_parse("%0: f32[2] = input \"x\"\n"
///                                      "%2: f32[2] = mul(%0, 2.0)\n"
///                                      "return %2 \"y\"\n");
///     kiln_graph_print(g, stdout);
///     kiln_graph_free(&g);
#ifndef KILN_GRAPH_H
#define KILN_GRAPH_H

#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Writes the text form of the graph: one line a value, `%3: f32[2,3] = mul(%1, %2)`.
/// kiln_graph_parse reads it back to the same graph.
KILN_API kiln_status kiln_graph_print(const kiln_graph *g, FILE *f);
/// Reads a graph from its text form; free it with kiln_graph_free. The text may come from anywhere: it is checked
/// whole, types included, and what is not a graph is an error. KILN_E_FORMAT where the text does not follow the form;
/// else the code with which an op refuses its operands (KILN_E_SHAPE, KILN_E_DTYPE, ...). The message begins with line
/// and column, "graph:3:12: ". NULL on failure. Constants have no data: the text holds their names and types.
KILN_API kiln_graph *kiln_graph_parse(const char *text);
/// Writes the graph in DOT, for Graphviz.
KILN_API kiln_status kiln_graph_dot(const kiln_graph *g, FILE *f);
/// Nodes in the graph, inputs not counted.
KILN_API size_t kiln_graph_node_count(const kiln_graph *g);
/// The name of node i's op (borrowed), or NULL and an error when out of range.
KILN_API const char *kiln_graph_node_op(const kiln_graph *g, size_t i);
/// Inputs, and outputs (results and writes together). 0 for NULL.
KILN_API size_t kiln_graph_input_count(const kiln_graph *g);
KILN_API size_t kiln_graph_output_count(const kiln_graph *g);
/// Frees a graph and sets the pointer to NULL; NULL is fine.
KILN_API void kiln_graph_free(kiln_graph **g);

#ifdef __cplusplus
}
#endif
#endif
