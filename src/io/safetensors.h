// The safetensors format, on its own and under checkpoints.
#pragma once
#include "io/archive.h"

enum { SAFETENSORS_PREFIX_B = 8, SAFETENSORS_HEADER_MAX_B = 100000000 };

// The length of the header from the first 8 bytes, checked against the file.
kiln_status safetensors_header_size(const char *where, const unsigned char *prefix, uint64_t file_B, uint64_t *size_B);
// Parses the header of a file with data_B bytes of data after it, into an empty table; entries come in the order of
// their data, with offsets from the start of the data. Names are checked to differ.
kiln_status safetensors_parse(const char *where, const char *json, uint64_t json_B, uint64_t data_B,
                              struct archive_table *t);

// Gives the entries their offsets (large element sizes first, so that all are aligned) and makes the first bytes of the
// file: the length and the header. *out is the caller's to free.
kiln_status safetensors_format(const char *where, struct archive_table *t, char **out, uint64_t *size_B);
// Writes n tensors with metadata, whose texts are UTF-8; names are checked.
kiln_status safetensors_write(const char *function, const char *path, const char *const *names,
                              kiln_tensor *const *tensors, size_t n, const struct archive_pair *pairs, size_t n_pairs);
// KILN_E_ARGUMENT for "__metadata__" and what is not UTF-8.
kiln_status safetensors_check_name(const char *where, const char *name);
kiln_status safetensors_check_text(const char *where, const char *text);
