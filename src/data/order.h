// The order of the samples in an epoch.
#pragma once
#include <stdint.h>

// Fills out[0..n) with 0..n-1 in an order that depends on n, seed and epoch alone.
void order_shuffle(int64_t *out, int64_t n, uint64_t seed, uint64_t epoch);
