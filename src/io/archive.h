// What archives of all formats share: an open file and the entries of its table of contents.
#pragma once
#include "io/array.h"
#include "io/file.h"

#include <kiln/io.h>

struct archive_entry {
    char *name;
    uint64_t offset_B, size_B; // of the data; npz: of the local header, and the size unpacked
    union {
        struct { // safetensors and checkpoints; npz reads the array from the member
            struct io_array array;
            char dtype_name[16]; // as the file calls it
            bool unsupported;    // a dtype that Kiln does not have
            size_t index;        // writing: which of the caller's tensors
            void *data;          // checkpoints: the elements, owned
        };
        struct { // npz
            uint64_t packed_B;
            uint32_t crc;
            bool deflated;
        };
    };
};

struct archive_pair {
    char *key, *value;
};

struct archive_table {
    struct archive_entry *entries;
    size_t n, cap;
    struct archive_pair *pairs; // metadata
    size_t n_pairs, cap_pairs;
};

struct kiln_archive {
    struct io_reader file;
    struct archive_table table;
    kiln_tensor *(*read)(struct kiln_archive *a, kiln_device *dev, const struct archive_entry *e);
};

// A zeroed entry at the end. NULL and KILN_E_MEMORY.
struct archive_entry *archive_add(const char *where, struct archive_table *t);
struct archive_pair *archive_add_pair(const char *where, struct archive_table *t);
void archive_table_free(struct archive_table *t);
// KILN_E_FORMAT when two entries have one name, or two pairs one key.
kiln_status archive_check_names(const char *where, const struct archive_table *t);

kiln_archive *archive_open(const char *function, const char *path,
                           kiln_status (*open)(struct io_reader *file, struct archive_table *t),
                           kiln_tensor *(*read)(struct kiln_archive *a, kiln_device *dev,
                                                const struct archive_entry *e));
