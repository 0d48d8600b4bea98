// Fused kernels that are products: found by their structure, whichever ops they come from.
#pragma once
#include "fuse/kernel.h"

// Brings the dimensions of P into the order batch, M, N, if the kernel has one sum of products. To be called before
// dimensions are merged; levels need not be known.
void product_arrange(struct fused_kernel *k);

// Sets k->product, where M and N have a dimension each. False when the kernel computes what no tile kernel does: a
// second fold, a result for each element of R, a total. A kernel without M or N is no product, and a row kernel.
// The kernel is finished and arranged.
bool product_find(struct fused_kernel *k);

// Steps of one value of a or b, from its loads on.
int product_side_steps(const struct fused_kernel *k, int node);
