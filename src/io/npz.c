// npz: a zip file whose members are npy files.
//
// Reading goes by the central directory at the end of the file, whose place is found by the end record (and the
// zip64 end record before it, where there is one). Every entry is checked when the archive is opened: it
// lies before the directory, is stored or deflated, and its size is one that its packed bytes can have. A member is
// read when it is asked for, and its checksum must fit. Writing makes members in the order given and keeps below 4 GiB,
// so that no zip64 records are needed.
#include "io/archive.h"
#include "base/options.h"
#include "io/inflate.h"
#include "io/npy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOCAL_B = 30,
    CENTRAL_B = 46,
    END_B = 22,
    END64_B = 56,
    LOCATOR64_B = 20,
    END_SEARCH_B = END_B + 65535,
};
static const uint32_t local_mark = 0x04034b50, central_mark = 0x02014b50, end_mark = 0x06054b50,
                      end64_mark = 0x06064b50, locator64_mark = 0x07064b50;

static uint32_t get16(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8;
}

static uint32_t get32(const unsigned char *at)
{
    return get16(at) | get16(at + 2) << 16;
}

static uint64_t get64(const unsigned char *at)
{
    return get32(at) | (uint64_t)get32(at + 4) << 32;
}

// --- the table of contents

struct directory {
    uint64_t offset_B, size_B, entries, end_B; // end_B: where the records after it begin
    uint64_t arrays;                           // entries that are npy files
};

// A zip64 end record, found through the locator right before the end record, replaces what that says.
static kiln_status read_end64(const struct io_reader *f, struct directory *d)
{
    unsigned char locator[LOCATOR64_B], end[END64_B];
    if (d->end_B < LOCATOR64_B) return KILN_OK;
    TRY(io_read(f, d->end_B - LOCATOR64_B, locator, sizeof locator));
    if (get32(locator) != locator64_mark) return KILN_OK;
    TRY(io_read(f, get64(locator + 8), end, sizeof end));
    if (get32(end) != end64_mark) return error_set(KILN_E_FORMAT, "%s: the zip64 end record is missing", f->where);
    *d = (struct directory){get64(end + 48), get64(end + 40), get64(end + 32), get64(locator + 8)};
    return KILN_OK;
}

static kiln_status find_directory(const struct io_reader *f, struct directory *d)
{
    uint64_t tail_B = f->size_B < END_SEARCH_B ? f->size_B : END_SEARCH_B;
    unsigned char *tail;
    TRY(io_alloc(f->where, tail_B, &tail));
    kiln_status status = io_read(f, f->size_B - tail_B, tail, tail_B);
    uint64_t at = tail_B < END_B ? 0 : tail_B - END_B + 1;
    bool found = false;
    // The comment after the record must reach the end of the file.
    while (!status && !found && at-- > 0)
        found = get32(tail + at) == end_mark && get16(tail + at + 20) == tail_B - at - END_B;
    if (!status && !found) {
        status = error_set(KILN_E_FORMAT, "%s: is not npz, or cut off: no zip end record", f->where);
    } else if (!status) {
        const unsigned char *end = tail + at;
        *d = (struct directory){get32(end + 16), get32(end + 12), get16(end + 10), f->size_B - tail_B + at};
        if (get16(end + 4) || get16(end + 8) != d->entries)
            status = error_set(KILN_E_UNSUPPORTED, "%s: a zip of several parts", f->where);
        else
            status = read_end64(f, d);
    }
    free(tail);
    if (status) return status;
    if (d->offset_B > d->end_B || d->size_B != d->end_B - d->offset_B || d->entries > d->size_B / CENTRAL_B) {
        return error_set(KILN_E_FORMAT,
                         "%s: the zip directory (%" PRIu64 " entries, %" PRIu64 " bytes at %" PRIu64
                         ") does not fit the file",
                         f->where, d->entries, d->size_B, d->offset_B);
    }
    return KILN_OK;
}

// The zip64 field holds, in this order, those of the sizes and the offset that read as all ones.
static kiln_status read_extra64(const char *where, const unsigned char *extra, size_t extra_B, struct archive_entry *e)
{
    while (extra_B >= 4) {
        size_t field_B = get16(extra + 2);
        if (field_B > extra_B - 4) break;
        if (get16(extra) == 1) {
            uint64_t *const values[] = {&e->size_B, &e->packed_B, &e->offset_B};
            const unsigned char *at = extra + 4;
            for (size_t i = 0; i < 3; i++) {
                if (*values[i] != UINT32_MAX) continue;
                if (field_B < 8) return error_set(KILN_E_FORMAT, "%s: a zip64 field is too short", where);
                *values[i] = get64(at);
                at += 8;
                field_B -= 8;
            }
            return KILN_OK;
        }
        extra += 4 + field_B;
        extra_B -= 4 + field_B;
    }
    return KILN_OK;
}

static bool is_npy(const unsigned char *name, size_t name_B)
{
    return name_B > 4 && memcmp(name + name_B - 4, ".npy", 4) == 0;
}

static kiln_status name_entry(const char *where, const unsigned char *name, size_t name_B, struct archive_entry *e)
{
    if (name_B == 0 || memchr(name, 0, name_B)) {
        return error_set(KILN_E_FORMAT, "%s: a member without a name, or with a zero byte in it", where);
    }
    if (is_npy(name, name_B)) name_B -= 4;
    TRY(io_alloc(where, name_B + 1, &e->name));
    memcpy(e->name, name, name_B);
    e->name[name_B] = '\0';
    return KILN_OK;
}

// One entry of the directory, `left_B` bytes before its end.
static kiln_status read_entry(const struct io_reader *f, const struct directory *d, const unsigned char *at,
                              uint64_t left_B, struct archive_entry *e, uint64_t *used_B)
{
    size_t name_B = left_B < CENTRAL_B ? 0 : get16(at + 28), extra_B = left_B < CENTRAL_B ? 0 : get16(at + 30);
    *used_B = left_B < CENTRAL_B ? CENTRAL_B : CENTRAL_B + name_B + extra_B + get16(at + 32);
    if (*used_B > left_B || get32(at) != central_mark) {
        return error_set(KILN_E_FORMAT, "%s: the zip directory is broken or cut off", f->where);
    }
    TRY(name_entry(f->where, at + CENTRAL_B, name_B, e));
    uint32_t flags = get16(at + 8), method = get16(at + 10);
    if ((flags & 1) || (method != 0 && method != 8)) {
        return error_set(KILN_E_UNSUPPORTED, "%s: member \"%s\" is %s", f->where, e->name,
                         flags & 1 ? "encrypted" : "neither stored nor deflated");
    }
    e->deflated = method == 8;
    e->crc = get32(at + 16);
    e->packed_B = get32(at + 20);
    e->size_B = get32(at + 24);
    e->offset_B = get32(at + 42);
    TRY(read_extra64(f->where, at + CENTRAL_B + name_B, extra_B, e));
    bool fits = e->offset_B <= d->offset_B && d->offset_B - e->offset_B >= LOCAL_B &&
                e->packed_B <= d->offset_B - e->offset_B - LOCAL_B;
    if (fits && (e->deflated ? inflate_can_be(e->packed_B, e->size_B) : e->packed_B == e->size_B)) return KILN_OK;
    return error_set(KILN_E_FORMAT,
                     "%s: member \"%s\" (%" PRIu64 " bytes at %" PRIu64 ", %" PRIu64 " unpacked) does not fit the file",
                     f->where, e->name, e->packed_B, e->offset_B, e->size_B);
}

static kiln_status open_npz(struct io_reader *f, struct archive_table *t)
{
    struct directory d = {0};
    TRY(find_directory(f, &d));
    unsigned char *bytes;
    TRY(io_alloc(f->where, d.size_B, &bytes));
    kiln_status status = io_read(f, d.offset_B, bytes, d.size_B);
    uint64_t at = 0, used_B = 0;
    for (uint64_t i = 0; !status && i < d.entries; i++, at += used_B) {
        struct archive_entry *e = archive_add(f->where, t);
        status = e ? read_entry(f, &d, bytes + at, d.size_B - at, e, &used_B) : error_pending;
        if (!status) d.arrays += is_npy(bytes + at + CENTRAL_B, get16(bytes + at + 28));
    }
    free(bytes);
    if (!status && at != d.size_B) {
        status = error_set(KILN_E_FORMAT, "%s: the zip directory has more than its %" PRIu64 " entries", f->where,
                           d.entries);
    }
    if (!status && t->n && !d.arrays) {
        status = error_set(KILN_E_FORMAT,
                           "%s: is a zip file without arrays: none of its %zu members is an npy file, the first is "
                           "\"%s\"; weights of PyTorch are read from safetensors",
                           f->where, t->n, t->entries[0].name);
    }
    return status ? status : archive_check_names(f->where, t);
}

// --- one member

// The local header repeats the name, and has an extra field of its own length.
static kiln_status find_data(const struct io_reader *f, const struct archive_entry *e, uint64_t *data_at)
{
    unsigned char local[LOCAL_B];
    TRY(io_read(f, e->offset_B, local, sizeof local));
    if (get32(local) != local_mark) {
        return error_set(KILN_E_FORMAT, "%s: there is no member \"%s\" at %" PRIu64, f->where, e->name, e->offset_B);
    }
    *data_at = e->offset_B + LOCAL_B + get16(local + 26) + get16(local + 28);
    return KILN_OK;
}

static kiln_status unpack(const struct io_reader *f, const struct archive_entry *e, unsigned char **out)
{
    uint64_t data_at = 0;
    TRY(find_data(f, e, &data_at));
    unsigned char *packed, *bytes = NULL;
    TRY(io_alloc(f->where, e->packed_B, &packed));
    kiln_status status = io_read(f, data_at, packed, e->packed_B);
    if (!status && e->deflated) {
        status = io_alloc(f->where, e->size_B, &bytes);
        if (!status) status = inflate_raw(f->where, packed, e->packed_B, bytes, e->size_B);
        free(packed);
    } else {
        bytes = packed;
    }
    if (!status && io_crc(0, bytes, e->size_B) != e->crc)
        status = error_set(KILN_E_FORMAT, "%s: the checksum of member \"%s\" does not fit", f->where, e->name);
    if (status) free(bytes);
    *out = status ? NULL : bytes;
    return status;
}

static kiln_tensor *read_member(struct kiln_archive *a, kiln_device *dev, const struct archive_entry *e)
{
    unsigned char *bytes;
    struct npy_header h = {0};
    const char *where = a->file.where;
    if (unpack(&a->file, e, &bytes)) return NULL;
    kiln_status status = npy_data_at(where, bytes, e->size_B, &h.data_at);
    if (!status && h.data_at > e->size_B)
        status = error_set(KILN_E_FORMAT, "%s: the npy header of \"%s\" is cut off", where, e->name);
    if (!status) status = npy_parse(where, bytes, h.data_at, &h);
    if (!status && h.size_B != e->size_B - h.data_at) {
        char text[IO_ARRAY_TEXT];
        status = error_set(KILN_E_FORMAT, "%s: \"%s\", %s, has %" PRIu64 " bytes, the member holds %" PRIu64, where,
                           e->name, io_array_text(&h.array, text), h.size_B, e->size_B - h.data_at);
    }
    // Elements are read at their alignment: they move to the start of the block.
    if (!status) memmove(bytes, bytes + h.data_at, (size_t)h.size_B);
    kiln_tensor *t = status ? NULL : npy_tensor(where, dev, &h, bytes);
    free(bytes);
    return t;
}

kiln_archive *kiln_npz_load(const char *path)
{
    static const struct archive_format format = {"npz_load", open_npz, read_member, NULL};
    return archive_open(&format, path);
}

// --- writing

struct npz_member {
    const char *name;
    uint32_t crc;
    uint64_t offset_B, size_B, packed_B;
    bool deflated;
};

static unsigned char *put16(unsigned char *at, uint64_t v)
{
    at[0] = v & 255;
    at[1] = v >> 8 & 255;
    return at + 2;
}

static unsigned char *put32(unsigned char *at, uint64_t v)
{
    return put16(put16(at, v), v >> 16);
}

// What local headers and directory entries share: from the version needed to the length of the extra field.
static unsigned char *put_common(unsigned char *at, const struct npz_member *m)
{
    at = put16(at, 20);
    at = put16(at, 0x800); // the name is UTF-8
    at = put16(at, m->deflated ? 8 : 0);
    at = put32(at, 0x00210000); // midnight, 1 January 1980: the same tensors make the same file
    at = put32(at, m->crc);
    at = put32(at, m->packed_B);
    at = put32(at, m->size_B);
    at = put16(at, strlen(m->name) + 4);
    return put16(at, 0);
}

static kiln_status write_name(struct io_writer *w, const struct npz_member *m)
{
    TRY(io_write(w, m->name, strlen(m->name)));
    return io_write(w, ".npy", 4);
}

static kiln_status write_central(struct io_writer *w, const struct npz_member *m)
{
    unsigned char central[CENTRAL_B] = {0};
    put_common(put16(put32(central, central_mark), 20), m);
    put32(central + 42, m->offset_B);
    TRY(io_write(w, central, sizeof central));
    return write_name(w, m);
}

static kiln_status write_packed(struct io_writer *w, struct npz_member *m, const unsigned char *npy, uint64_t *at_B)
{
    unsigned char local[LOCAL_B];
    void *packed = NULL;
    m->packed_B = m->size_B;
    if (m->deflated) TRY(deflate_raw(w->where, npy, m->size_B, &packed, &m->packed_B));
    uint64_t used_B = LOCAL_B + strlen(m->name) + 4 + m->packed_B;
    kiln_status status = KILN_OK;
    // The directory comes after, and must begin below the bound too.
    if (m->size_B >= UINT32_MAX || m->packed_B >= UINT32_MAX || *at_B + used_B >= UINT32_MAX)
        status = error_set(KILN_E_UNSUPPORTED, "%s: an npz of 4 GiB or more; use safetensors", w->where);
    m->offset_B = *at_B;
    put_common(put32(local, local_mark), m);
    if (!status) status = io_write(w, local, sizeof local);
    if (!status) status = write_name(w, m);
    if (!status) status = io_write(w, packed ? packed : npy, m->packed_B);
    *at_B += used_B;
    free(packed);
    return status;
}

static kiln_status write_member(struct io_writer *w, struct npz_member *m, const kiln_tensor *t, uint64_t *at_B)
{
    struct io_array array;
    unsigned char header[NPY_WRITE_MAX_B], *npy = NULL;
    void *data = NULL;
    uint64_t size_B = 0;
    size_t header_B = 0;
    kiln_status status = io_array_read(w->where, t, &array, &data, &size_B);
    if (!status) status = npy_format(w->where, &array, header, &header_B);
    if (!status) status = io_alloc(w->where, header_B + size_B, &npy);
    if (!status) {
        memcpy(npy, header, header_B);
        memcpy(npy + header_B, data, (size_t)size_B);
        m->size_B = header_B + size_B;
        m->crc = io_crc(0, npy, m->size_B);
        status = write_packed(w, m, npy, at_B);
    }
    free(npy);
    free(data);
    return status;
}

static kiln_status write_npz(struct io_writer *w, struct npz_member *members, kiln_tensor *const *tensors, size_t n)
{
    uint64_t at_B = 0, directory_B = 0;
    for (size_t i = 0; i < n; i++) TRY(write_member(w, &members[i], tensors[i], &at_B));
    for (size_t i = 0; i < n; i++) {
        TRY(write_central(w, &members[i]));
        directory_B += CENTRAL_B + strlen(members[i].name) + 4;
    }
    unsigned char end[END_B] = {0};
    put32(end, end_mark);
    put16(put16(end + 8, n), n);
    put32(put32(end + 12, directory_B), at_B);
    return io_write(w, end, sizeof end);
}

kiln_status kiln_npz_save(const char *path, const char *const *names, kiln_tensor *const *tensors, size_t n,
                          const kiln_npz_opts *opts)
{
    if (error_pending) return error_pending;
    kiln_npz_opts o;
    TRY(options_read("npz_save", KILN_NPZ, &o, opts));
    TRY(io_check_names("npz_save", names, tensors, n));
    if (n >= UINT16_MAX) return error_set(KILN_E_UNSUPPORTED, "npz_save: %zu arrays in one npz", n);
    struct npz_member *members;
    TRY(io_alloc("npz_save", (uint64_t)n * sizeof *members, &members));
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < n; i++) {
        members[i] = (struct npz_member){.name = names[i], .deflated = o.compress};
        if (strlen(names[i]) > UINT16_MAX - 4) status = error_set(KILN_E_ARGUMENT, "npz_save: name %zu is too long", i);
    }
    struct io_writer w;
    if (!status) status = io_create(&w, "npz_save", path);
    if (!status) {
        status = write_npz(&w, members, tensors, n);
        if (!status) status = io_commit(&w);
        io_abandon(&w);
    }
    free(members);
    return status;
}
