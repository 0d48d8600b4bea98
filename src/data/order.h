// The order of the samples in an epoch.
#pragma once
#include <stdint.h>

// Fills out[0..n) with 0..n-1 in an order that depends on n, seed and epoch alone.
void order_shuffle(int64_t *out, int64_t n, uint64_t seed, uint64_t epoch);

// What is drawn for a sample: a key by seed, epoch, sample and step, and the k-th number of a key, in [0, 1).
uint64_t order_key(uint64_t seed, uint64_t epoch, uint64_t index, uint64_t step);
double order_uniform(uint64_t key, uint64_t k);
