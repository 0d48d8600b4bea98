// Deflated data, with sizes that the data cannot exceed.
#pragma once
#include "base/base.h"

// Deflate packs at most 1,032 bytes into one; what claims to unpack to more lies.
bool inflate_can_be(uint64_t packed_B, uint64_t size_B);
// Unpacks a raw deflate stream; it must fill `out` exactly and end with the input. Else KILN_E_FORMAT.
kiln_status inflate_raw(const char *where, const void *packed, uint64_t packed_B, void *out, uint64_t size_B);
// Packs; *packed is the caller's to free.
kiln_status deflate_raw(const char *where, const void *data, uint64_t size_B, void **packed, uint64_t *packed_B);
uint32_t io_crc(uint32_t crc, const void *data, uint64_t size_B);
