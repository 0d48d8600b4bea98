// The build id is a note in a segment of the file, which the loader has mapped: names and sizes, each padded to words.
#include "base/build_id.h"
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_HEADERS = 64, MAX_NOTES_B = 1 << 16 };

struct search {
    uintptr_t address;
    struct str *out;
};

static size_t padded(size_t size_B)
{
    return (size_B + 3) & ~(size_t)3;
}

static void add_note(struct str *out, const unsigned char *at, size_t left_B)
{
    ElfW(Nhdr) note;
    while (left_B >= sizeof note) {
        memcpy(&note, at, sizeof note);
        size_t name_B = padded(note.n_namesz), data_B = padded(note.n_descsz), all_B = sizeof note + name_B + data_B;
        if (name_B > left_B || data_B > left_B || all_B > left_B) return;
        const unsigned char *name = at + sizeof note, *data = name + name_B;
        bool found = note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(name, "GNU", 4);
        for (size_t i = 0; found && i < note.n_descsz; i++) str_addf(out, "%02x", (unsigned)data[i]);
        if (found) return;
        at += all_B;
        left_B -= all_B;
    }
}

static int look(struct dl_phdr_info *info, size_t size_B, void *user)
{
    const struct search *s = user;
    bool here = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        here |= p->p_type == PT_LOAD && s->address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz;
    }
    for (int i = 0; here && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const void *notes = (const void *)(uintptr_t)(info->dlpi_addr + p->p_vaddr);
        if (p->p_type == PT_NOTE) add_note(s->out, notes, p->p_memsz);
    }
    return here;
}

void build_id_add(struct str *out, const void *address)
{
    struct search s = {(uintptr_t)address, out};
    dl_iterate_phdr(look, &s);
}

static bool read_at(int fd, void *out, size_t size_B, uint64_t at)
{
    return pread(fd, out, size_B, (off_t)at) == (ssize_t)size_B;
}

static void read_notes(int fd, const ElfW(Phdr) * p, struct str *out)
{
    unsigned char *notes = p->p_filesz <= MAX_NOTES_B ? malloc(p->p_filesz + 1) : NULL;
    if (notes && read_at(fd, notes, p->p_filesz, p->p_offset)) add_note(out, notes, p->p_filesz);
    free(notes);
}

bool build_id_of_file(struct str *out, const char *path)
{
    ElfW(Ehdr) h;
    ElfW(Phdr) headers[MAX_HEADERS];
    size_t before = out->len;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    if (read_at(fd, &h, sizeof h, 0) && !memcmp(h.e_ident, ELFMAG, SELFMAG) && h.e_phentsize == sizeof *headers &&
        h.e_phnum <= MAX_HEADERS && read_at(fd, headers, h.e_phnum * sizeof *headers, h.e_phoff))
        for (int i = 0; i < h.e_phnum && out->len == before; i++)
            if (headers[i].p_type == PT_NOTE) read_notes(fd, &headers[i], out);
    close(fd);
    return out->len > before;
}
