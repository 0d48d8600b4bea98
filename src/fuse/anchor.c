// What may gather around a product.
//
// On the way out (epilogue) nothing is computed again, so that whatever fits into one kernel may join. On the way in
// (prologue) a value of an operand is computed once for each tile of the other operand; that must stay below a quarter
// of the product's own work: for each point of P x R a multiplication, an addition, and its share of the tile's loads.
#include "fuse/fuse.h"
#include "fuse/product.h"
#include "ir/tile.h"
#include <math.h>

// The middle one of the squares that devices take: the largest fills a device only where the product is large.
#define TILE      TILE_MIDDLE
#define OWN_STEPS 3

// Steps for each point, where a side is computed again by every tile of `other` elements but the first.
static double side_again(const struct fused_kernel *k, int node, int first, int end)
{
    double other = 1;
    for (int d = first; d < end; d++) other *= (double)k->sizes[d];
    return product_side_steps(k, node) * (ceil(other / TILE) - 1) / other;
}

double anchor_again(const struct fused_kernel *k)
{
    const struct fused_product *p = &k->product;
    int m = p->n_batch, n = m + p->n_m;
    return side_again(k, p->a, n, n + p->n_n) + side_again(k, p->b, m, n);
}

const char *anchor_objects(const struct fused_kernel *alone, const struct fused_kernel *both)
{
    double again = anchor_again(both), before = alone->product.n_m ? anchor_again(alone) : 0;
    if (again <= before) return NULL;
    if (both->n_out > alone->n_out) return "an operand of a product is read elsewhere, too";
    return again > OWN_STEPS / 4.0 ? "a product would compute an operand again too often" : NULL;
}
