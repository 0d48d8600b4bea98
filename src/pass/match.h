// Matching a rule's pattern against a value of a graph, and making its replacement.
#pragma once
#include "ir/rewrite.h"
#include "pass/rules.h"

// Makes what rule `i` puts in the place of `value` (of r->to). *out is -1 where the rule does not hold; what was added
// on the way to that is dead.
kiln_status match_rule(struct ir_rewrite *r, int i, int32_t value, int32_t *out);
// Whether exchanging the operands of this call changes no bit of its result.
bool match_commutes(const struct op_call *c);
