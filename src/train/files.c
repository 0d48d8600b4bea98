// Files of a training: appended to, or replaced as a whole by renaming.
#include "train/training.h"
#include "base/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *file_path(const char *folder, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

static int write_all(int fd, const char *text, size_t n)
{
    while (n) {
        ssize_t wrote = write(fd, text, n);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return errno;
        text += wrote;
        n -= (size_t)wrote;
    }
    return 0;
}

int file_append(const char *path, size_t size_B, const char *text, size_t n)
{
    struct stat st;
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT ? ESTALE : errno;
    int failed = fstat(fd, &st) ? errno : st.st_size != (off_t)size_B ? ESTALE : write_all(fd, text, n);
    if (close(fd) && !failed) failed = errno;
    return failed;
}

int file_replace(const char *path, const char *text, size_t n)
{
    size_t cap = strlen(path) + TEMPORARY_MORE_B;
    char *temporary = malloc(cap);
    if (!temporary) return ENOMEM;
    int fd = temporary_create(AT_FDCWD, path, 0666, temporary, cap), failed = fd < 0 ? errno : 0;
    if (fd >= 0) {
        failed = write_all(fd, text, n);
        if (!failed && rename(temporary, path)) failed = errno;
        if (failed) unlink(temporary);
        if (close(fd) && !failed) failed = errno;
    }
    free(temporary);
    return failed;
}

int file_remove(const char *folder, const char *name)
{
    char *path = file_path(folder, name);
    int failed = !path ? ENOMEM : unlink(path) && errno != ENOENT ? errno : 0;
    free(path);
    return failed;
}

int file_make_folder(const char *path)
{
    char *part = strdup(path);
    if (!part) return ENOMEM;
    int failed = 0;
    for (char *at = part + 1; *path && !failed; at++) {
        if (*at != '/' && *at) continue;
        bool last = !*at;
        *at = '\0';
        if (mkdir(part, 0777) && errno != EEXIST) failed = errno;
        if (last) break;
        *at = '/';
    }
    struct stat st;
    if (!failed && (stat(path, &st) || !S_ISDIR(st.st_mode))) failed = ENOTDIR;
    free(part);
    return failed;
}
