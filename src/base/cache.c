#include "base/cache.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

bool cache_folder(char *out, size_t cap)
{
    const char *chosen = getenv("KILN_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
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

// Creates the folders on the way, ours for the owner only. True when the folder is there, ours, and closed to others'
// writing.
static bool make_folder(const char *path)
{
    char part[3072];
    size_t len = strlen(path);
    if (len >= sizeof part) return false;
    memcpy(part, path, len + 1);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0700) && errno != EEXIST) return false;
        *slash = '/';
    }
    if (mkdir(part, 0700) && errno != EEXIST) return false;
    struct stat st;
    return !stat(part, &st) && S_ISDIR(st.st_mode) && is_ours(&st);
}

void *cache_read(const char *path, size_t max_B, size_t *size_B)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return NULL;
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
    close(fd);
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

// A name of its own for each thread that writes: the last to be renamed stays.
static int create(const char *path, char *temporary, size_t cap)
{
    int n = snprintf(temporary, cap, "%s.XXXXXX", path);
    return n > 0 && (size_t)n < cap ? mkostemp(temporary, O_CLOEXEC) : -1;
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
    char folder[4096], temporary[4200];
    const char *slash = strrchr(path, '/');
    if (!slash || (size_t)(slash - path) >= sizeof folder || !fits(head_B, size_B)) return;
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = 0;
    int fd = make_folder(folder) ? create(path, temporary, sizeof temporary) : -1;
    if (fd < 0) return;
    bool written = write_all(fd, head, head_B) && write_all(fd, data, size_B);
    written = !close(fd) && written;
    if (!written || rename(temporary, path)) unlink(temporary);
}
