// Fisher and Yates' shuffle, driven by a counter-based generator: the k-th number of an epoch is a hash of (seed,
// epoch, k), the finaliser of splitmix64 applied once for each, so that there is no state to save and neighbouring
// seeds and epochs have nothing in common.
#include "data/order.h"

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

struct numbers {
    uint64_t key, counter;
};

__extension__ typedef unsigned __int128 wide;

// Evenly from 0 to bound - 1: the high half of a product, drawn again where the low half shows that the number belongs
// to the incomplete last stretch (Lemire).
static uint64_t below(struct numbers *g, uint64_t bound)
{
    for (;;) {
        wide product = (wide)mix(g->key ^ mix(g->counter++)) * bound;
        if ((uint64_t)product >= -bound % bound) return (uint64_t)(product >> 64);
    }
}

void order_shuffle(int64_t *out, int64_t n, uint64_t seed, uint64_t epoch)
{
    struct numbers g = {.key = mix(mix(seed) ^ epoch)};
    for (int64_t i = 0; i < n; i++) out[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = (int64_t)below(&g, (uint64_t)i + 1), swapped = out[k];
        out[k] = out[i];
        out[i] = swapped;
    }
}

// Another stream than the shuffles: those mix the epoch into a mixed seed.
uint64_t order_key(uint64_t seed, uint64_t epoch, uint64_t index, uint64_t step)
{
    return mix(mix(mix(mix(mix(seed) + 1) ^ epoch) ^ index) ^ step);
}

double order_uniform(uint64_t key, uint64_t k)
{
    return (double)(mix(key ^ mix(k)) >> 11) * 0x1p-53;
}
