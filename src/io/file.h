// Files: reading at offsets with the size known, and writing all or nothing.
#pragma once
#include "base/base.h"

struct io_reader {
    int fd;
    uint64_t size_B;
    char *where; // "npy_load: weights.npy", begins every message; owned
};

// Opens a regular file. Errors: KILN_E_MISSING, KILN_E_IO. Finish is needed only after success; twice is fine.
kiln_status io_open(struct io_reader *r, const char *function, const char *path);
// Reads exactly size_B bytes. KILN_E_FORMAT where the file ends before them.
kiln_status io_read(const struct io_reader *r, uint64_t offset_B, void *out, uint64_t size_B);
void io_close(struct io_reader *r);

// Bytes of the file as memory, which is not to be written. Large ones alone: *whole is NULL, without an error, where
// the bytes are few or the system does not map them.
struct io_mapping {
    void *whole;
    size_t whole_B;
    const void *data;
};
void io_map(const struct io_reader *r, uint64_t offset_B, uint64_t size_B, struct io_mapping *out);
void io_unmap(struct io_mapping *m);

struct io_writer {
    int fd;                   // -1: closed
    char *where;              // owned
    char *target, *temporary; // owned; no temporary: the target is no regular file and is written directly
    unsigned char *buffer;
    size_t used_B;
};

// A new file beside `path`. After success, end with io_commit or io_abandon (which do nothing the second time).
kiln_status io_create(struct io_writer *w, const char *function, const char *path);
kiln_status io_write(struct io_writer *w, const void *data, uint64_t size_B);
// Flushes to the disk and takes the place of the target; on failure the target is as it was.
kiln_status io_commit(struct io_writer *w);
void io_abandon(struct io_writer *w);

// malloc with KILN_E_MEMORY; at least one byte, so that NULL means failure.
kiln_status io_alloc(const char *where, uint64_t size_B, void *out);
char *io_strdup(const char *where, const char *text);
// "function: path"; NULL with an error, also for a NULL path.
char *io_where(const char *function, const char *path);
