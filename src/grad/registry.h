// The registry of gradient rules. Built-in rules and a user's go the same way; a rule that was recorded stays valid for
// ever.
#pragma once
#include "ir/op.h"
#include <kiln/grad.h>

struct tape_node;
struct grad_rule {
    kiln_bprop_fn fn; // NULL: an elementwise op, by the gradient expressions of its row
    void *user;
    uint32_t needs_in, needs_out; // what is kept
    uint32_t needs_for[4];        // by input: which inputs its gradient needs; all zero: needs_in
    bool by_input;                // needs_for is given
    bool takes_missing;           // gradients that did not arrive are NULL, not zeros
    bool missing_is_null;         // the same, of a rule that a user may have written: see grad/arrive.h
    bool takes_changed;           // values that were written since they were kept are NULL, not an error
    // Whether a gradient that arrives at an output goes on to an input; NULL: each goes on to all.
    bool (*leads)(const struct tape_node *n, int out, int in);
    const struct grad_rule *next; // all rules, for freeing at exit
};

bool grad_is_built_in(const struct op *op, const struct grad_rule *rule); // not a user's
const struct grad_rule *grad_rule_of(const struct op *op);                // NULL: none
const struct grad_rule *grad_rule_for(kiln_bprop_fn fn, void *user);      // of no op; all is kept. NULL and an error
uint32_t grad_rules_generation(void);                                     // another one after each registration
void grad_use_expressions(const struct op *op);                           // a user's op with gradient expressions
// For an elementwise op by its expressions: what input i's gradient takes.
struct elementwise_needs {
    uint8_t in[3]; // by input: mask of inputs
    uint8_t y;     // mask of inputs whose gradient takes the result
    uint8_t pass;  // mask of inputs whose gradient is dy itself
    uint8_t some;  // mask of inputs that have a gradient
};
struct elementwise_needs grad_elementwise_needs(const struct op *op);
