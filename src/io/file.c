// Reading and writing of whole files.
//
// A writer collects bytes in a buffer and writes them to a new file "<target>.<process>-<number>.tmp" in the target's
// folder, which has the target's permissions, and its owner where that may be given away. Committing flushes it to the
// disk, renames it onto the target, and flushes the folder. Until the rename the target is untouched; any failure
// removes the new file. A writer holds a lock on its file: one without, of a process that is gone, was left by a
// process that was killed, and the next writer of the same target removes it. What is no regular file, as a pipe or a
// terminal, is written as it is.
#include "io/file.h"
#include "base/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_B = 1 << 16 };

kiln_status io_alloc(const char *where, uint64_t size_B, void *out)
{
    void *p = size_B < PTRDIFF_MAX ? malloc(size_B ? (size_t)size_B : 1) : NULL;
    memcpy(out, &p, sizeof p);
    return p ? KILN_OK : error_set(KILN_E_MEMORY, "%s: no memory for %" PRIu64 " bytes", where, size_B);
}

char *io_strdup(const char *where, const char *text)
{
    char *copy = strdup(text);
    if (!copy) error_set(KILN_E_MEMORY, "%s: no memory for a text of %zu bytes", where, strlen(text));
    return copy;
}

char *io_where(const char *function, const char *path)
{
    char *where = NULL;
    if (!path)
        error_set(KILN_E_ARGUMENT, "%s: the path is NULL", function);
    else if (asprintf(&where, "%s: %s", function, path) < 0)
        error_set(KILN_E_MEMORY, "%s: no memory", function);
    else
        return where;
    return NULL;
}

static kiln_status system_error(const char *where, const char *act)
{
    int number = errno;
    kiln_status code = number == ENOMEM                        ? KILN_E_MEMORY
                       : number == ENOENT || number == ENOTDIR ? KILN_E_MISSING
                                                               : KILN_E_IO;
    return error_set(code, "%s: %s: %s", where, act, strerror(number));
}

// --- reading

kiln_status io_open(struct io_reader *r, const char *function, const char *path)
{
    *r = (struct io_reader){.fd = -1};
    r->where = io_where(function, path);
    if (!r->where) return error_pending;
    // Without O_NONBLOCK a pipe would hold the caller before its kind can be asked.
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    kiln_status status = KILN_OK;
    if (r->fd < 0 || fstat(r->fd, &st))
        status = system_error(r->where, "cannot be opened");
    else if (!S_ISREG(st.st_mode))
        status = error_set(KILN_E_IO, "%s: is not a regular file", r->where);
    else
        r->size_B = (uint64_t)st.st_size;
    if (status) io_close(r);
    return status;
}

kiln_status io_read(const struct io_reader *r, uint64_t offset_B, void *out, uint64_t size_B)
{
    if (offset_B > r->size_B || size_B > r->size_B - offset_B) {
        if (!r->size_B) return error_set(KILN_E_FORMAT, "%s: the file is cut off: it is empty", r->where);
        return error_set(KILN_E_FORMAT,
                         "%s: the file is cut off: %" PRIu64 " bytes at offset %" PRIu64 " are asked of %" PRIu64,
                         r->where, size_B, offset_B, r->size_B);
    }
    unsigned char *at = out;
    while (size_B) {
        ssize_t n = pread(r->fd, at, size_B < 1 << 30 ? (size_t)size_B : 1 << 30, (off_t)offset_B);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return system_error(r->where, "cannot be read");
        if (n == 0) return error_set(KILN_E_FORMAT, "%s: the file became shorter while it was read", r->where);
        at += n;
        offset_B += (uint64_t)n;
        size_B -= (uint64_t)n;
    }
    return KILN_OK;
}

enum { MAP_LEAST_B = 1 << 20 };

void io_map(const struct io_reader *r, uint64_t offset_B, uint64_t size_B, struct io_mapping *out)
{
    *out = (struct io_mapping){0};
    long page_B = sysconf(_SC_PAGESIZE);
    if (size_B < MAP_LEAST_B || page_B < 1 || offset_B > r->size_B || size_B > r->size_B - offset_B) return;
    uint64_t before_B = offset_B % (uint64_t)page_B;
    if (size_B > SIZE_MAX - before_B) return;
    size_t whole_B = (size_t)(size_B + before_B);
    void *at = mmap(NULL, whole_B, PROT_READ, MAP_PRIVATE | MAP_POPULATE, r->fd, (off_t)(offset_B - before_B));
    if (at == MAP_FAILED) return;
    *out = (struct io_mapping){at, whole_B, (const char *)at + before_B};
}

void io_unmap(struct io_mapping *m)
{
    if (m->whole) munmap(m->whole, m->whole_B);
    *m = (struct io_mapping){0};
}

void io_close(struct io_reader *r)
{
    if (r->fd >= 0) close(r->fd);
    free(r->where);
    *r = (struct io_reader){.fd = -1};
}

// --- writing

void io_abandon(struct io_writer *w)
{
    if (w->fd >= 0) {
        close(w->fd);
        if (w->temporary) unlink(w->temporary);
    }
    free(w->where);
    free(w->target);
    free(w->temporary);
    free(w->buffer);
    *w = (struct io_writer){.fd = -1};
}

static void remove_leftovers(const char *target)
{
    const char *slash = strrchr(target, '/');
    char *folder = slash ? strndup(target, (size_t)(slash - target) + 1) : strdup(".");
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        temporary_sweep(fd, slash ? slash + 1 : target);
        close(fd);
    }
    free(folder);
}

static int open_temporary(struct io_writer *w, mode_t mode)
{
    size_t cap = strlen(w->target) + TEMPORARY_MORE_B;
    w->temporary = malloc(cap);
    if (!w->temporary) return -1;
    int fd = temporary_create(AT_FDCWD, w->target, mode, w->temporary, cap);
    if (fd < 0) {
        free(w->temporary);
        w->temporary = NULL;
    }
    return fd;
}

// Neither rights nor identities of the file that is replaced go to anyone who did not have them: what the owner's or
// the group's id gave by running the file does not pass on, and where the group stays another one, the new group may
// what all may.
static kiln_status take_over(int fd, const struct stat *st)
{
    struct stat mine;
    mode_t mode = st->st_mode & 0777;
    if (fstat(fd, &mine)) return KILN_E_IO;
    bool owner = mine.st_uid == st->st_uid, group = mine.st_gid == st->st_gid;
    if (!owner || !group) {
        bool both = !fchown(fd, st->st_uid, st->st_gid);
        group = both || group || !fchown(fd, (uid_t)-1, st->st_gid);
    }
    if (!group) mode &= ~(mode_t)070 | (mode & 07) << 3;
    return fchmod(fd, mode) ? KILN_E_IO : KILN_OK;
}

static kiln_status open_target(struct io_writer *w, const char *path)
{
    struct stat st;
    bool exists = stat(path, &st) == 0, replaces = exists && S_ISREG(st.st_mode);
    // A link is kept: what it points to is replaced. What a pipe's link says is no path.
    w->target = replaces ? realpath(path, NULL) : strdup(path);
    if (!w->target) return system_error(w->where, "cannot be written");
    if (exists && !replaces) {
        w->fd = open(path, O_WRONLY | O_CLOEXEC);
    } else if (exists && access(path, W_OK)) {
        w->fd = -1;
    } else {
        remove_leftovers(w->target);
        w->fd = open_temporary(w, replaces ? 0600 : 0666);
    }
    if (w->fd < 0 || (replaces && take_over(w->fd, &st))) return system_error(w->where, "cannot be written");
    return KILN_OK;
}

kiln_status io_create(struct io_writer *w, const char *function, const char *path)
{
    *w = (struct io_writer){.fd = -1};
    w->where = io_where(function, path);
    if (!w->where) return error_pending;
    kiln_status status = io_alloc(w->where, BUFFER_B, &w->buffer);
    if (!status) status = open_target(w, path);
    if (status) io_abandon(w);
    return status;
}

static kiln_status write_out(struct io_writer *w, const unsigned char *at, uint64_t size_B)
{
    while (size_B) {
        ssize_t n = write(w->fd, at, size_B < 1 << 30 ? (size_t)size_B : 1 << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return system_error(w->where, "cannot be written");
        at += n;
        size_B -= (uint64_t)n;
    }
    return KILN_OK;
}

kiln_status io_write(struct io_writer *w, const void *data, uint64_t size_B)
{
    if (size_B > BUFFER_B - w->used_B) {
        TRY(write_out(w, w->buffer, w->used_B));
        w->used_B = 0;
        if (size_B >= BUFFER_B) return write_out(w, data, size_B);
    }
    if (size_B) memcpy(w->buffer + w->used_B, data, (size_t)size_B);
    w->used_B += (size_t)size_B;
    return KILN_OK;
}

// The rename itself must reach the disk. File systems that cannot flush a folder are left to their own order.
static void flush_folder(const char *target)
{
    char *folder = strdup(target), *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash) slash[slash == folder] = '\0';
    int fd = folder ? open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        if (fsync(fd)) errno = 0;
        close(fd);
    }
    free(folder);
}

static kiln_status close_and_rename(struct io_writer *w)
{
    TRY(write_out(w, w->buffer, w->used_B));
    if (w->temporary && fsync(w->fd)) return system_error(w->where, "cannot be flushed to the disk");
    if (w->temporary && rename(w->temporary, w->target)) return system_error(w->where, "cannot be written");
    // The lock goes with the descriptor, after the name that would be taken for a leftover. What closing could tell of
    // a file, flushing has told.
    int fd = w->fd;
    w->fd = -1;
    bool failed = close(fd) && errno != EINTR;
    if (failed && !w->temporary) return system_error(w->where, "cannot be written");
    if (w->temporary) flush_folder(w->target);
    return KILN_OK;
}

kiln_status io_commit(struct io_writer *w)
{
    kiln_status status = close_and_rename(w);
    io_abandon(w);
    return status;
}
