// What a file looks like, for the message that it is not what it was opened as.
#pragma once
#include "io/file.h"

// "; it looks like GGUF, which kiln_gguf_load reads", or "". A constant.
const char *io_looks_like(const unsigned char *first, uint64_t n);
const char *io_file_looks_like(const struct io_reader *r);
