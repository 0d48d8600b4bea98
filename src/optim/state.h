// Parameters of an optimiser, and the state beside them.
#pragma once
#include "optim/optim.h"

size_t state_count_params(const kiln_optim *opt); // of all groups
// Whether these can be a group of `opt`, or of one to be made (NULL).
kiln_status state_check_params(const struct optim_kind *kind, const kiln_optim *opt, kiln_tensor *const *params,
                               size_t n);
kiln_status state_fill(struct optim_group *g, kiln_tensor *const *params); // what it has made, state_drop frees
void state_drop(struct optim_group *g);
size_t state_list(kiln_optim *opt, const char **names, kiln_tensor **tensors, size_t max);
