// The gradient of an op by its decomposition: the rule of an op whose gradient nobody needs fast (second derivatives,
// mostly).
#pragma once
#include "grad/rules/rules.h"

// `fn` computes the op from `in` with differentiable public ops; its gradients by the float inputs that are wanted go
// to din. `user` carries what fn needs of the attributes, read before the call: inside fn no attribute is reachable.
kiln_status rule_by_parts(kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor *dout,
                          kiln_tensor **din);
