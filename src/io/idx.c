// IDX: two zero bytes, a code of the dtype, the rank, the dimensions (4 bytes each, big-endian), the elements,
// big-endian. A file that begins with the two bytes of gzip is unpacked while it is read. The memory for the elements
// is taken once the header is known, and only when the file is long enough to hold them (gzipped: could be, at
// deflate's best ratio).
#include "io/array.h"
#include "io/file.h"
#include "io/inflate.h"

#include <kiln/io.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { PIECE_B = 1 << 16, MAGIC_B = 4 };

struct idx_source {
    struct io_reader file;
    uint64_t at_B; // what was read of the file
    bool gzipped, ended;
    z_stream z;
    unsigned char *piece; // packed bytes that z reads
};

static kiln_status gzip_error(const struct idx_source *s, const char *what)
{
    return error_set(KILN_E_FORMAT, "%s: the gzip data %s", s->file.where, what);
}

static kiln_status source_open(struct idx_source *s, const char *path)
{
    *s = (struct idx_source){0};
    TRY(io_open(&s->file, "idx_load", path));
    unsigned char mark[2];
    if (s->file.size_B < sizeof mark) return KILN_OK;
    TRY(io_read(&s->file, 0, mark, sizeof mark));
    if (mark[0] != 0x1f || mark[1] != 0x8b) return KILN_OK;
    TRY(io_alloc(s->file.where, PIECE_B, &s->piece));
    if (inflateInit2(&s->z, 16 + MAX_WBITS) != Z_OK) {
        return error_set(KILN_E_MEMORY, "%s: no memory for zlib", s->file.where);
    }
    s->gzipped = true;
    return KILN_OK;
}

static void source_close(struct idx_source *s)
{
    if (s->gzipped) inflateEnd(&s->z);
    free(s->piece);
    if (s->file.where) io_close(&s->file);
}

static kiln_status refill(struct idx_source *s)
{
    uint64_t left_B = s->file.size_B - s->at_B;
    uint64_t n = left_B < PIECE_B ? left_B : PIECE_B;
    TRY(io_read(&s->file, s->at_B, s->piece, n));
    s->at_B += n;
    s->z.next_in = s->piece;
    s->z.avail_in = (uInt)n;
    return KILN_OK;
}

// Unpacks up to size_B bytes; fewer only at the end of the data.
static kiln_status unpack(struct idx_source *s, unsigned char *out, uint64_t size_B, uint64_t *got_B)
{
    *got_B = 0;
    while (*got_B < size_B && !s->ended) {
        if (s->z.avail_in == 0) TRY(refill(s));
        if (s->z.avail_in == 0) return gzip_error(s, "is cut off");
        uint64_t room_B = size_B - *got_B;
        uInt room = room_B < 1 << 30 ? (uInt)room_B : 1 << 30;
        s->z.next_out = out + *got_B;
        s->z.avail_out = room;
        int answer = inflate(&s->z, Z_NO_FLUSH);
        *got_B += room - s->z.avail_out;
        if (answer == Z_MEM_ERROR) return error_set(KILN_E_MEMORY, "%s: no memory for zlib", s->file.where);
        if (answer != Z_OK && answer != Z_STREAM_END) return gzip_error(s, s->z.msg ? s->z.msg : "is broken");
        s->ended = answer == Z_STREAM_END;
    }
    return KILN_OK;
}

static kiln_status source_read(struct idx_source *s, void *out, uint64_t size_B)
{
    if (!s->gzipped) {
        TRY(io_read(&s->file, s->at_B, out, size_B));
        s->at_B += size_B;
        return KILN_OK;
    }
    uint64_t got_B;
    TRY(unpack(s, out, size_B, &got_B));
    return got_B == size_B ? KILN_OK : gzip_error(s, "ends before the elements do");
}

// Nothing may follow the elements: neither unpacked bytes nor anything after the gzip stream.
static kiln_status source_end(struct idx_source *s)
{
    bool more = s->at_B < s->file.size_B;
    if (s->gzipped) {
        unsigned char byte;
        uint64_t got_B;
        TRY(unpack(s, &byte, 1, &got_B));
        more = got_B || s->z.avail_in || s->at_B < s->file.size_B;
    }
    return more ? error_set(KILN_E_FORMAT, "%s: the file goes on after the elements", s->file.where) : KILN_OK;
}

static kiln_status read_dtype(const char *where, const unsigned char *magic, struct io_array *a)
{
    static const struct {
        unsigned char code;
        kiln_dtype dtype;
    } rows[] = {{0x08, KILN_U8},  {0x09, KILN_I8},  {0x0b, KILN_I16},
                {0x0c, KILN_I32}, {0x0d, KILN_F32}, {0x0e, KILN_F64}};
    for (size_t i = 0; i < COUNT_OF(rows) && !magic[0] && !magic[1]; i++) {
        if (rows[i].code != magic[2]) continue;
        a->dtype = rows[i].dtype;
        return KILN_OK;
    }
    return error_set(KILN_E_FORMAT, "%s: is not IDX: it begins with %02x %02x %02x %02x", where, magic[0], magic[1],
                     magic[2], magic[3]);
}

static kiln_status read_header(struct idx_source *s, struct io_array *a, uint64_t *size_B)
{
    const char *where = s->file.where;
    unsigned char magic[MAGIC_B], dim[4];
    *a = (struct io_array){0};
    TRY(source_read(s, magic, sizeof magic));
    TRY(read_dtype(where, magic, a));
    for (unsigned i = 0; i < magic[3]; i++) {
        TRY(source_read(s, dim, sizeof dim));
        uint64_t n = (uint64_t)dim[0] << 24 | (uint64_t)dim[1] << 16 | (uint64_t)dim[2] << 8 | dim[3];
        TRY(io_array_push(where, a, n));
    }
    TRY(io_array_size(where, a, size_B));
    uint64_t file_B = s->file.size_B;
    if (s->gzipped ? inflate_can_be(file_B, *size_B) : *size_B <= file_B - s->at_B) return KILN_OK;
    char text[IO_ARRAY_TEXT];
    return error_set(KILN_E_FORMAT, "%s: %s has %" PRIu64 " bytes, more than a file of %" PRIu64 " can hold", where,
                     io_array_text(a, text), *size_B, file_B);
}

static kiln_tensor *load(struct idx_source *s, kiln_device *dev)
{
    struct io_array a;
    uint64_t size_B;
    void *data;
    if (read_header(s, &a, &size_B) || io_alloc(s->file.where, size_B, &data)) return NULL;
    kiln_tensor *t = NULL;
    if (!source_read(s, data, size_B) && !source_end(s)) {
        io_swap_bytes(data, size_B, kiln_dtype_size(a.dtype));
        t = io_array_tensor(dev, &a, data);
    }
    free(data);
    return t;
}

kiln_tensor *kiln_idx_load(kiln_device *dev, const char *path)
{
    if (error_pending) return NULL;
    struct idx_source s;
    kiln_tensor *t = source_open(&s, path) ? NULL : load(&s, dev);
    source_close(&s);
    return t;
}
