// What archives of all formats share: an open file and the entries of its table of contents.
#pragma once
#include "io/array.h"
#include "io/file.h"

#include <kiln/io.h>

struct archive_entry {
    char *name;
    uint64_t offset_B, size_B; // of the data; npz: of the local header, and the size unpacked
    union {
        struct { // all but npz, which reads the array from the member
            struct io_array array;
            char dtype_name[16]; // as the file calls it
            bool unsupported;    // a dtype that Kiln does not have
            size_t index;        // writing: which of the caller's tensors; GGUF: the number of the type
            void *data;          // owned; checkpoints: the elements; PyTorch: the strides, NULL: row-major
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

// A format of archives.
struct archive_format {
    const char *function; // of the public interface, for messages
    kiln_status (*open)(struct io_reader *file, struct archive_table *t);
    kiln_tensor *(*read)(kiln_archive *a, kiln_device *dev, const struct archive_entry *e);
    // The elements as they are packed, and how; NULL: the format packs none.
    kiln_tensor *(*packed)(kiln_archive *a, kiln_device *dev, const struct archive_entry *e, const char **format);
    bool (*is_packed)(const struct archive_entry *e); // for products; where there is `packed`
};

struct kiln_archive {
    struct io_reader file;
    struct archive_table table;
    const struct archive_format *format;
};

// A zeroed entry at the end. NULL and KILN_E_MEMORY.
struct archive_entry *archive_add(const char *where, struct archive_table *t);
struct archive_pair *archive_add_pair(const char *where, struct archive_table *t);
void archive_table_free(struct archive_table *t);
// KILN_E_FORMAT when two entries have one name, or two pairs one key.
kiln_status archive_check_names(const char *where, const struct archive_table *t);

// Whether array i is packed in a way that products take.
bool archive_is_packed(const kiln_archive *a, size_t i);

kiln_archive *archive_open(const struct archive_format *format, const char *path);
// The entry's bytes in the file, unchanged: mapped where they are many, else in *copy, which the caller frees; the
// mapping is unmapped by the caller. NULL and an error.
const void *archive_bytes(const kiln_archive *a, const struct archive_entry *e, struct io_mapping *m, void **copy);
