// Fused kernels that are attention, whichever ops they come from:
//
//     out[b, m, d] = sum over n of softmax over n (x(score[b, m, n])) * v[b, n, d],  score = sum over k of q * k
//
// One kernel computes them without ever storing a score.
#pragma once
#include "fuse/kernel.h"

#define ATTENTION_MAX_WIDTH 256 // elements of d

// `score` is a product whose result `rest` reads: rows of it, and their product with values. Sets *out to the kernel
// that does the work of both, or to NULL where they are no attention.
kiln_status attention_make(struct arena *a, const struct fused_kernel *score, const struct fused_kernel *rest,
                           struct fused_kernel **out);
