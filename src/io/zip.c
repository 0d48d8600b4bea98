// Zip files: the directory, and where the data of a member lies.
//
// Reading goes by the central directory at the end of the file, whose place is found by the end record (and the
// zip64 end record before it, where there is one). Every entry is checked: it lies before the directory, is stored or
// deflated, and its size is one that its packed bytes can have.
#include "io/kind.h"
#include "io/zip.h"
#include "io/inflate.h"

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
        status = error_set(KILN_E_FORMAT, "%s: is no zip file, or cut off: no zip end record%s", f->where,
                           io_file_looks_like(f));
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

static kiln_status name_entry(const char *where, const unsigned char *name, size_t name_B, struct archive_entry *e)
{
    if (name_B == 0 || memchr(name, 0, name_B)) {
        return error_set(KILN_E_FORMAT, "%s: a member without a name, or with a zero byte in it", where);
    }
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

kiln_status zip_read_directory(const struct io_reader *f, struct archive_table *t)
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
    }
    free(bytes);
    if (!status && at != d.size_B) {
        status = error_set(KILN_E_FORMAT, "%s: the zip directory has more than its %" PRIu64 " entries", f->where,
                           d.entries);
    }
    return status;
}

// The local header repeats the name, and has an extra field of its own length.
kiln_status zip_find_data(const struct io_reader *f, const struct archive_entry *e, uint64_t *data_at)
{
    unsigned char local[LOCAL_B];
    TRY(io_read(f, e->offset_B, local, sizeof local));
    if (get32(local) != local_mark) {
        return error_set(KILN_E_FORMAT, "%s: there is no member \"%s\" at %" PRIu64, f->where, e->name, e->offset_B);
    }
    *data_at = e->offset_B + LOCAL_B + get16(local + 26) + get16(local + 28);
    return KILN_OK;
}
