// Images in memory, and the two formats.
#pragma once
#include "io/file.h"

// Rows from top to bottom, channels beside each other.
struct image {
    int64_t height, width, channels;
    unsigned char *pixels; // owned
};

// A file that was read whole, and bytes that are to be written.
struct image_bytes {
    unsigned char *v; // owned
    size_t n, cap;
};
// False where memory is exhausted.
bool image_append(struct image_bytes *b, const void *data, size_t n);

// Reads the header, and where `pixels` is set the pixels, of a file in memory.
struct image_source {
    const char *where;
    const unsigned char *data;
    size_t size_B;
    bool pixels;
};
// Errors: KILN_E_FORMAT, KILN_E_MEMORY, KILN_E_UNSUPPORTED. *out then owns nothing.
kiln_status image_read_png(const struct image_source *s, struct image *out);
kiln_status image_read_jpeg(const struct image_source *s, struct image *out);
// Appends a file.
kiln_status image_write_png(const char *where, const struct image *i, int level, struct image_bytes *out);
kiln_status image_write_jpeg(const char *where, const struct image *i, int quality, struct image_bytes *out);

// Memory for the pixels; sizes that overflow are KILN_E_FORMAT.
kiln_status image_alloc(const char *where, struct image *i);

// A shared library that is opened at its first use.
struct image_library {
    const char *file, *package; // "libpng16.so.16", and the package of Debian that has it
    const char *const *names;   // of the functions that are taken from it, ended by NULL
    void *functions;            // pointers to them, side by side in this order
    void *handle;
    bool found; // all of them
};
// Finds the functions, unless they are found. KILN_E_UNSUPPORTED: the library is missing, or lacks one.
kiln_status image_library(const char *where, struct image_library *l);
