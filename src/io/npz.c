// npz: a zip file whose members are npy files.
//
// A member is read when it is asked for, and its checksum must fit. Writing makes members in the order given and keeps
// below 4 GiB, so that no zip64 records are needed.
#include "io/archive.h"
#include "base/options.h"
#include "io/inflate.h"
#include "io/npy.h"
#include "io/zip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool take_suffix(char *name)
{
    size_t n = strlen(name);
    bool is_npy = n > 4 && strcmp(name + n - 4, ".npy") == 0;
    if (is_npy) name[n - 4] = '\0';
    return is_npy;
}

static kiln_status open_npz(struct io_reader *f, struct archive_table *t)
{
    size_t arrays = 0;
    TRY(zip_read_directory(f, t));
    for (size_t i = 0; i < t->n; i++) arrays += take_suffix(t->entries[i].name);
    if (t->n && !arrays)
        return error_set(KILN_E_FORMAT,
                         "%s: is a zip file without arrays: none of its %zu members is an npy file, the first is "
                         "\"%s\"; kiln_torch_load reads weights of PyTorch",
                         f->where, t->n, t->entries[0].name);
    return archive_check_names(f->where, t);
}

// --- one member

// The npy of a member: mapped where it is stored and large, else in *copy.
struct member {
    const unsigned char *bytes;
    struct io_mapping map;
    unsigned char *copy;
};

static void close_member(struct member *m)
{
    io_unmap(&m->map);
    free(m->copy);
}

static kiln_status unpack(const struct io_reader *f, const struct archive_entry *e, struct member *m)
{
    uint64_t data_at = 0;
    *m = (struct member){0};
    TRY(zip_find_data(f, e, &data_at));
    io_map(f, data_at, e->packed_B, &m->map);
    const void *packed = m->map.data;
    unsigned char *read = NULL;
    kiln_status status = KILN_OK;
    if (!m->map.whole) {
        TRY(io_alloc(f->where, e->packed_B, &read));
        status = io_read(f, data_at, read, e->packed_B);
        packed = read;
    }
    if (!status && e->deflated) {
        status = io_alloc(f->where, e->size_B, &m->copy);
        if (!status) status = inflate_raw(f->where, packed, e->packed_B, m->copy, e->size_B);
        m->bytes = m->copy;
        free(read);
        io_unmap(&m->map);
    } else {
        m->copy = read;
        m->bytes = packed;
    }
    if (!status && io_crc(0, m->bytes, e->size_B) != e->crc)
        status = error_set(KILN_E_FORMAT, "%s: the checksum of member \"%s\" does not fit", f->where, e->name);
    if (status) close_member(m);
    return status;
}

static kiln_status parse_member(const char *where, const struct archive_entry *e, const struct member *m,
                                struct npy_header *h)
{
    TRY(npy_data_at(where, m->bytes, e->size_B, &h->data_at));
    if (h->data_at > e->size_B)
        return error_set(KILN_E_FORMAT, "%s: the npy header of \"%s\" is cut off", where, e->name);
    TRY(npy_parse(where, m->bytes, h->data_at, h));
    if (h->size_B == e->size_B - h->data_at) return KILN_OK;
    char text[IO_ARRAY_TEXT];
    return error_set(KILN_E_FORMAT, "%s: \"%s\", %s, has %" PRIu64 " bytes, the member holds %" PRIu64, where, e->name,
                     io_array_text(&h->array, text), h->size_B, e->size_B - h->data_at);
}

static kiln_tensor *read_member(struct kiln_archive *a, kiln_device *dev, const struct archive_entry *e)
{
    struct member m;
    struct npy_header h = {0};
    const char *where = a->file.where;
    if (unpack(&a->file, e, &m)) return NULL;
    kiln_tensor *t = NULL;
    kiln_status status = parse_member(where, e, &m, &h);
    bool as_it_is = !h.swap && !h.fortran && h.array.dtype != KILN_BOOL && m.map.whole;
    if (!status && !as_it_is && !m.copy) {
        // What is changed is changed in memory of its own.
        status = io_alloc(where, h.size_B, &m.copy);
        if (!status) memcpy(m.copy, m.bytes + h.data_at, (size_t)h.size_B);
    } else if (!status && !as_it_is) {
        memmove(m.copy, m.copy + h.data_at, (size_t)h.size_B); // elements are read at their alignment
    }
    if (!status && as_it_is)
        t = kiln_from_data(dev, h.array.dtype, h.array.rank, h.array.dims, m.bytes + h.data_at);
    else if (!status)
        t = npy_tensor(where, dev, &h, m.copy);
    close_member(&m);
    return t;
}

kiln_archive *kiln_npz_load(const char *path)
{
    static const struct archive_format format = {"npz_load", open_npz, read_member, NULL};
    return archive_open(&format, path);
}

// --- writing

enum { LOCAL_B = 30, CENTRAL_B = 46, END_B = 22 };
static const uint32_t local_mark = 0x04034b50, central_mark = 0x02014b50, end_mark = 0x06054b50;

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
