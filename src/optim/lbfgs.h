// The direction of L-BFGS, shared by its step and by its line search.
#pragma once
#include "optim/optim.h"

// What opt->whole holds: the newest `history` pairs, the last step, and the gradient where it began; the vectors as
// matrices of one row.
enum { LBFGS_S, LBFGS_Y, LBFGS_STEP, LBFGS_GRADIENT };

struct lbfgs_direction {
    kiln_tensor *r;       // what the inverse Hessian makes of the gradient, [1, n]
    kiln_tensor *initial; // by what the first step is shorter, a scalar
};

kiln_tensor *lbfgs_gradient(const kiln_optim *opt); // of all parameters as one row; zeros for those without one
// Takes up the pair of the last step, and gives the direction at g.
kiln_status lbfgs_direct(kiln_optim *opt, kiln_tensor *g, struct lbfgs_direction *d);
// Adds `step`, a row, to the parameters.
kiln_status lbfgs_move(const kiln_optim *opt, kiln_tensor *step);
// The closure's side (search.c).
kiln_status lbfgs_search(kiln_optim *opt, kiln_closure_fn fn, void *user, double *loss);
