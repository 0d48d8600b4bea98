// Zip files, as npz and PyTorch's are.
#pragma once
#include "io/archive.h"

// Adds an entry for each member, with its whole name: where its local header lies, the size unpacked, and what npz's
// entries have.
kiln_status zip_read_directory(const struct io_reader *f, struct archive_table *t);
// Where the packed bytes of a member begin in the file.
kiln_status zip_find_data(const struct io_reader *f, const struct archive_entry *e, uint64_t *data_at);
