// A part of the tape: nodes that one node may stand for.
//
// Every way along edges from one of them to another stays among them, so a node with their edges to the outside, whose
// rule runs theirs, can take their place.
#pragma once
#include "grad/tape.h"

enum { PART_NONE = -1 }; // an edge that leads nowhere; below it lie the places outside
static inline int32_t part_outside(size_t i)
{
    return -2 - (int32_t)i;
}

struct tape_part {
    size_t n_nodes, n_outside, n_leaving;
    struct tape_node **nodes;  // oldest first; references
    int32_t *places;           // of each node's edges in turn: the node that it leads to, PART_NONE or part_outside(i)
    struct tape_edge *outside; // where the gradients go on to, each once
    struct type *types;        // of the values there
    struct tape_edge *leaving; // the outputs that anything else uses
    bool *leads;               // n_leaving * n_outside: which of them lead where
};
void part_free(struct tape_part *p);
// Once all else is there.
kiln_status part_find_leads(struct tape_part *p);

// Copies of the nodes, whose edges to the outside lead to `inputs`, nodes made for the purpose, which hand on to
// `onward`. With `values` the copies have what the nodes have saved. References are the caller's, part_drop gives them
// back.
kiln_status part_copy(const struct tape_part *p, const struct tape_edge *onward, bool values, struct tape_node **inputs,
                      struct tape_node **copies);
void part_drop(size_t n, struct tape_node **nodes);
size_t part_index(const struct tape_part *p, const struct tape_node *n); // n_nodes: it is none of them

// The graph that kiln_backward_graph builds of the gradients, which are abstract then; NULL: none.
struct ir_builder *part_graph_of(const struct tape_part *p, kiln_tensor *const *dout);
// Gradients by the rules of the nodes: from dout (NULL: none arrived), by what leaves, to din, by place outside. With
// `create_graph` they have a tape themselves.
kiln_status part_gradients(const struct tape_part *p, const struct tape_edge *onward, bool create_graph,
                           kiln_tensor *const *dout, kiln_tensor **din);
