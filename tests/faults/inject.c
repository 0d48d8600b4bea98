// The C library's functions that may fail, and what counts them.
#include "wrap.h"

#include "base/handles.h"

#include <dirent.h>
#include <execinfo.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

static atomic_int armed;
static atomic_long n_done;
static long nth;
bool fault_trace, fault_lasts;

void fault_begin(enum fault_kind kind, long which)
{
    nth = which;
    atomic_store(&n_done, 0);
    atomic_store(&armed, kind);
}

long fault_end(void)
{
    atomic_store(&armed, FAULT_NONE);
    return atomic_load(&n_done);
}

static void show_trace(void)
{
    void *frames[32];
    int n = backtrace(frames, 32);
    for (int i = 2; i < n; i++) print_place("  fails in", (uintptr_t)frames[i]);
}

bool fault_is_due(enum fault_kind kind)
{
    if (atomic_load(&armed) != (int)kind) return false;
    long n = atomic_fetch_add(&n_done, 1) + 1;
    if (fault_lasts ? n < nth : n != nth) return false;
    if (fault_trace && n == nth) {
        atomic_store(&armed, FAULT_NONE); // what shows the trace may allocate
        show_trace();
        atomic_store(&armed, kind);
    }
    return true;
}

// --- memory

static void *taken(void *p, void *site)
{
    if (p) blocks_add(p, site);
    return p;
}

WRAP(void *, malloc, size_t size_B)
{
    FAIL(FAULT_ALLOCATION, ENOMEM, NULL);
    return taken(__real_malloc(size_B), SITE);
}

WRAP(void *, calloc, size_t n, size_t size_B)
{
    FAIL(FAULT_ALLOCATION, ENOMEM, NULL);
    return taken(__real_calloc(n, size_B), SITE);
}

WRAP(void *, realloc, void *p, size_t size_B)
{
    FAIL(FAULT_ALLOCATION, ENOMEM, NULL);
    blocks_remove(p); // before another thread can get the same address
    void *q = __real_realloc(p, size_B);
    if (!q && p && size_B) blocks_add(p, SITE);
    return taken(q, SITE);
}

WRAP(void *, aligned_alloc, size_t align_B, size_t size_B)
{
    FAIL(FAULT_ALLOCATION, ENOMEM, NULL);
    return taken(__real_aligned_alloc(align_B, size_B), SITE);
}

WRAP(char *, strdup, const char *text)
{
    FAIL(FAULT_ALLOCATION, ENOMEM, NULL);
    return taken(__real_strdup(text), SITE);
}

WRAP(char *, strndup, const char *text, size_t n)
{
    FAIL(FAULT_ALLOCATION, ENOMEM, NULL);
    return taken(__real_strndup(text, n), SITE);
}

int __wrap_asprintf(char **out, const char *format, ...);
int __wrap_asprintf(char **out, const char *format, ...)
{
    *out = (char *)1; // undefined after an error
    FAIL(FAULT_ALLOCATION, ENOMEM, -1);
    va_list args;
    va_start(args, format);
    int n = vasprintf(out, format, args);
    va_end(args);
    if (n >= 0) blocks_add(*out, SITE);
    return n;
}

WRAP(char *, realpath, const char *path, char *out)
{
    FAIL(FAULT_ALLOCATION, ENOMEM, NULL);
    char *p = __real_realpath(path, out);
    return out ? p : taken(p, SITE);
}

WRAP(FILE *, open_memstream, char **text, size_t *size_B)
{
    FAIL(FAULT_ALLOCATION, ENOMEM, NULL);
    return __real_open_memstream(text, size_B);
}

WRAP(void, free, void *p)
{
    blocks_remove(p);
    __real_free(p);
}

// Memory of freed handles is kept, to tell them.
WRAP(void *, handle_new, enum handle_kind kind, size_t size_B)
{
    blocks_hide(true);
    void *p = __real_handle_new(kind, size_B);
    blocks_hide(false);
    return taken(p, SITE);
}

WRAP(void, handle_free, enum handle_kind kind, void *p)
{
    blocks_remove(p);
    __real_handle_free(kind, p);
}

#define MAP(name)                                                                                \
    WRAP(void *, name, void *at, size_t size_B, int protection, int flags, int fd, off_t offset) \
    {                                                                                            \
        FAIL(FAULT_ALLOCATION, ENOMEM, (void *)-1);                                              \
        return __real_##name(at, size_B, protection, flags, fd, offset);                         \
    }
MAP(mmap)
MAP(mmap64)

// --- files. What is closed is closed although it fails, as Linux does.

#define OPEN(name)                                              \
    WRAP(int, name, const char *path, int flags, ...)           \
    {                                                           \
        FAIL(FAULT_FILE, EIO, -1);                              \
        va_list args;                                           \
        va_start(args, flags);                                  \
        int fd = __real_##name(path, flags, va_arg(args, int)); \
        va_end(args);                                           \
        return fd;                                              \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                    \
    WRAP(int, name, int folder, const char *path, int flags, ...)       \
    {                                                                   \
        FAIL(FAULT_FILE, EIO, -1);                                      \
        va_list args;                                                   \
        va_start(args, flags);                                          \
        int fd = __real_##name(folder, path, flags, va_arg(args, int)); \
        va_end(args);                                                   \
        return fd;                                                      \
    }
OPENAT(openat)
OPENAT(openat64)

// FILE_CALL(type, name, number, value, parameters, arguments)
#define FILE_CALL(type, name, number, value, parameters, arguments) \
    type __real_##name parameters;                                  \
    type __wrap_##name parameters;                                  \
    type __wrap_##name parameters                                   \
    {                                                               \
        FAIL(FAULT_FILE, number, value);                            \
        return __real_##name arguments;                             \
    }
FILE_CALL(FILE *, fopen, EIO, NULL, (const char *path, const char *mode), (path, mode))
FILE_CALL(FILE *, fopen64, EIO, NULL, (const char *path, const char *mode), (path, mode))
FILE_CALL(DIR *, opendir, EIO, NULL, (const char *path), (path))
FILE_CALL(ssize_t, read, EIO, -1, (int fd, void *out, size_t n), (fd, out, n))
FILE_CALL(ssize_t, pread, EIO, -1, (int fd, void *out, size_t n, off_t at), (fd, out, n, at))
FILE_CALL(ssize_t, pread64, EIO, -1, (int fd, void *out, size_t n, off_t at), (fd, out, n, at))
FILE_CALL(ssize_t, write, ENOSPC, -1, (int fd, const void *data, size_t n), (fd, data, n))
FILE_CALL(int, fstat, EIO, -1, (int fd, struct stat *out), (fd, out))
FILE_CALL(int, fstat64, EIO, -1, (int fd, struct stat *out), (fd, out))
FILE_CALL(int, stat, EIO, -1, (const char *path, struct stat *out), (path, out))
FILE_CALL(int, stat64, EIO, -1, (const char *path, struct stat *out), (path, out))
FILE_CALL(int, access, EIO, -1, (const char *path, int mode), (path, mode))
FILE_CALL(int, fsync, EIO, -1, (int fd), (fd))
FILE_CALL(int, flock, ENOLCK, -1, (int fd, int how), (fd, how))
FILE_CALL(int, fchmod, EIO, -1, (int fd, mode_t mode), (fd, mode))
FILE_CALL(int, fchown, EIO, -1, (int fd, uid_t user, gid_t group), (fd, user, group))
FILE_CALL(int, mkdir, EIO, -1, (const char *path, mode_t mode), (path, mode))
FILE_CALL(int, rename, EIO, -1, (const char *from, const char *to), (from, to))
FILE_CALL(int, renameat, EIO, -1, (int a, const char *from, int b, const char *to), (a, from, b, to))

WRAP(int, close, int fd)
{
    bool fails = fault_is_due(FAULT_FILE);
    int result = __real_close(fd);
    if (fails) errno = EIO;
    return fails ? -1 : result;
}

WRAP(int, fclose, FILE *f)
{
    bool fails = fault_is_due(FAULT_FILE);
    int result = __real_fclose(f);
    if (fails) errno = EIO;
    return fails ? EOF : result;
}

// --- threads

WRAP(int, pthread_create, void *thread, const void *options, void *(*fn)(void *), void *user)
{
    return fault_is_due(FAULT_THREAD) ? EAGAIN : __real_pthread_create(thread, options, fn, user);
}
