// Gradients of functions of bundles: bundle.c makes lists of tensors of what it is given, functional.c differentiates.
#pragma once
#include "bundle/bundle.h"
#include <kiln/grad.h>

struct grad_bundle {
    struct bundle_run run;
    bool has_aux;
    // Afterwards: the values, then the gradients; to be freed by the caller.
    kiln_tensor **results;
    size_t n_results;
};
// How many of the tensors that were given, the last ones, are not differentiated.
kiln_status grad_bundle_aux(const struct grad_bundle *b, size_t *n_aux);
kiln_status grad_of_bundle(const char *name, struct grad_bundle *b, kiln_tensor *const *in, size_t n_in,
                           const kiln_grad_opts *opts);
