// A rule or hook of the user's where gradients may not arrive.
#pragma once
#include "grad/tape.h"

struct run;

kiln_tensor *arrive_if(kiln_tensor *t, size_t n, kiln_tensor *const *others); // t, if one of the others is there
bool arrive_is_asked(const struct run *r, const struct tape_node *n);         // the rule is the user's
kiln_status arrive_at_rule(const struct tape_node *n, kiln_tensor *const *grads, kiln_tensor **out);
kiln_status arrive_from_rule(const struct tape_node *n, kiln_tensor *const *grads, kiln_tensor **din);
