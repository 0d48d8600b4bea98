// Finding, reading and writing files of the cache, and the checks that nobody else could have put them there.
#include "base/cache.h"
#include "base/hash.h"
#include "base/temporary.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

bool cache_folder(char *out, size_t cap)
{
    const char *chosen = secure_getenv("KILN_CACHE_DIR"), *xdg = secure_getenv("XDG_CACHE_HOME"),
               *home = secure_getenv("HOME");
    int n = -1;
    if (chosen && *chosen)
        n = snprintf(out, cap, "%s", chosen);
    else if (xdg && *xdg)
        n = snprintf(out, cap, "%s/kiln", xdg);
    else if (home && *home)
        n = snprintf(out, cap, "%s/.cache/kiln", home);
    return n > 0 && (size_t)n < cap;
}

// Code that others could have written is not run.
static bool is_ours(const struct stat *st)
{
    return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

// A folder on the way: in a foreign one, or in one where others may rename, everything may be exchanged. Where the
// sticky bit is set they may only do so with what is theirs. A group of the user's own is nobody else.
static bool is_trusted(const struct stat *st)
{
    bool own_group = st->st_gid == getegid() && st->st_gid == geteuid();
    bool open = (st->st_mode & S_IWOTH) || ((st->st_mode & S_IWGRP) && !own_group);
    return (st->st_uid == geteuid() || st->st_uid == 0) && (!open || (st->st_mode & S_ISVTX));
}

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

// Up to the root, by what the folders are, not by names: links on the way make no difference.
static bool is_reached_safely(int folder, struct stat st)
{
    int fd = openat(folder, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat above;
    bool safe = false;
    while (fd >= 0 && !fstat(fd, &above) && is_trusted(&above)) {
        safe = same(&st, &above); // the root lies in itself
        if (safe) break;
        st = above;
        int next = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    if (fd >= 0) close(fd);
    return safe;
}

// The folder of a path, and where the name of the file begins; -1 unless it is the user's alone.
int cache_open_folder(const char *path, const char **name)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    if (!slash || (size_t)(slash - path) >= sizeof folder) return -1;
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = 0;
    *name = slash + 1;
    int fd = open(*folder ? folder : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (fd < 0) return -1;
    if (!fstat(fd, &st) && is_ours(&st) && is_reached_safely(fd, st)) return fd;
    close(fd);
    return -1;
}

// The folders on the way to a file, made for the owner only.
static void make_folders(const char *path)
{
    char part[4096];
    size_t len = strlen(path);
    if (len >= sizeof part) return;
    memcpy(part, path, len + 1);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0700) && errno != EEXIST) return;
        *slash = '/';
    }
}

// That a file was read is noted once a day, for it is read often, and file systems may not note it themselves.
static void mark_used(int fd, const struct stat *st)
{
    enum { DAY_S = 24 * 60 * 60 };
    struct timespec now;
    if (!clock_gettime(CLOCK_REALTIME, &now) && now.tv_sec - st->st_mtim.tv_sec > DAY_S) futimens(fd, NULL);
}

static void *read_all(int fd, size_t max_B, size_t *size_B)
{
    struct stat st;
    char *data = NULL;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && is_ours(&st) && st.st_size > 0 && (uint64_t)st.st_size <= max_B) {
        *size_B = (size_t)st.st_size;
        data = malloc(*size_B);
    }
    for (size_t done = 0; data && done < *size_B;) {
        ssize_t n = read(fd, data + done, *size_B - done);
        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            free(data);
            data = NULL;
        }
    }
    if (data) mark_used(fd, &st);
    return data;
}

void *cache_read(const char *path, size_t max_B, size_t *size_B)
{
    const char *name;
    int folder = cache_open_folder(path, &name);
    int fd = folder < 0 ? -1 : openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    void *data = fd < 0 ? NULL : read_all(fd, max_B, size_B);
    if (fd >= 0) close(fd);
    if (folder >= 0) close(folder);
    return data;
}

static bool write_all(int fd, const void *data, size_t size_B)
{
    for (size_t done = 0; done < size_B;) {
        ssize_t n = write(fd, (const char *)data + done, size_B - done);
        if (n == 0 || (n < 0 && errno != EINTR)) return false;
        if (n > 0) done += (size_t)n;
    }
    return true;
}

// What killed processes left goes once a process and folder, for there may be many entries to look through.
static void sweep_once(int folder)
{
    static _Atomic uint64_t swept[4];
    struct stat st;
    if (fstat(folder, &st)) return;
    uint64_t id = hash_u64(hash_u64(1, st.st_dev), st.st_ino) | 1;
    for (size_t i = 0; i < COUNT_OF(swept); i++) {
        uint64_t found = 0;
        if (atomic_compare_exchange_strong(&swept[i], &found, id)) break;
        if (found == id) return;
    }
    temporary_sweep(folder, NULL);
}

// A file beyond the limit would not only fail: a signal would end the process.
static bool fits(size_t head_B, size_t size_B)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY || head_B + size_B <= limit.rlim_cur;
}

bool cache_has_files(const char *folder)
{
    DIR *d = opendir(folder);
    struct dirent *e = d ? readdir(d) : NULL;
    while (e && e->d_name[0] == '.') e = readdir(d);
    if (d) closedir(d);
    return e != NULL;
}

void cache_write(const char *path, const void *head, size_t head_B, const void *data, size_t size_B)
{
    char temporary[512];
    const char *name;
    if (!fits(head_B, size_B)) return;
    make_folders(path);
    int folder = cache_open_folder(path, &name);
    if (folder < 0) return;
    sweep_once(folder);
    int fd = temporary_create(folder, name, 0600, temporary, sizeof temporary);
    if (fd >= 0) {
        bool written = write_all(fd, head, head_B) && write_all(fd, data, size_B);
        written = !close(fd) && written;
        written = written && !renameat(folder, temporary, folder, name);
        if (!written) unlinkat(folder, temporary, 0);
        if (written) cache_grew(head_B + size_B);
    }
    close(folder);
}
