// What runs the rule of a node.
#pragma once
#include "grad/tape.h"

struct run;
struct ir_builder;

// rule.c: the gradients of n's wanted inputs; runs the rule that was registered when n was recorded.
kiln_status rule_run(struct tape_node *n, struct run *r, const uint8_t *wanted, kiln_tensor *const *dout,
                     kiln_tensor **din);
const struct tape_node *rule_node(void); // whose rule is running
// elementwise.c
kiln_status elementwise_rule(struct tape_node *n, const uint8_t *wanted, kiln_tensor *const *in,
                             kiln_tensor *const *out, kiln_tensor *dy, kiln_tensor **din);
// graph.c: a saved value as an input of the graph.
kiln_tensor *graph_placeholder(struct ir_builder *b, struct tape_node *n, int index);
