// Inside the engine: a node that waits, with what has come for it.
#pragma once
#include "grad/pieces.h"
#include "grad/run.h"

struct run_entry {
    struct tape_node *node; // a reference
    kiln_tensor **grads;    // n_out
    kiln_tensor *few[OP_MAX_OUT];
    struct pieces pieces;   // gradients of pieces of the outputs
    struct run_entry *next; // spare
};

// run.c
bool run_edge_matters(const struct run *r, const struct tape_edge *e);
bool run_is_target(const struct run *r, const struct tape_node *n);
kiln_status run_entry_of(struct run *r, struct tape_node *n, struct run_entry **out);
kiln_status run_add_to(kiln_tensor **slot, kiln_tensor *grad); // takes the handle

// run_pieces.c
// What has come for pieces of the outputs becomes part of their gradients.
kiln_status run_join_pieces(struct run_entry *e);
// The piece of n's result as one of its input; *moved: it is one.
kiln_status run_move_piece(struct run *r, const struct tape_node *n, const struct grad_piece *piece, bool *moved);
kiln_status run_pass_on(struct run *r, struct run_entry *e); // pieces that are pieces of a view's input, too
