// Numbers of storage dtypes on the host.
#pragma once
#include <stdbool.h>
#include <stdint.h>

// n bytes are n floats, or 2 n integers (u8, or the bits of i8), the lower half of a byte first.
void decode_floats(unsigned shown, const uint8_t *bytes, int64_t n, float *out);
void decode_pairs(unsigned shown, const uint8_t *bytes, int64_t n, uint8_t *out);
