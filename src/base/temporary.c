// Making temporary files beside their targets, and removing those of processes that are gone.
#include "base/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// How much of a path is kept in the name of a temporary file: there is room for the rest in every file name.
static int kept(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t folder_B = slash ? (size_t)(slash - path) + 1 : 0, name_B = strlen(path + folder_B);
    return (int)(folder_B + (name_B < NAME_MAX - TEMPORARY_MORE_B ? name_B : NAME_MAX - TEMPORARY_MORE_B));
}

// Processes of other machines and containers, whose numbers say nothing here, hold their locks.
static void remove_if_unlocked(int folder, const char *name)
{
    struct stat st;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && !flock(fd, LOCK_EX | LOCK_NB)) unlinkat(folder, name, 0);
    close(fd);
}

int temporary_create(int folder, const char *name, mode_t mode, char *temporary, size_t cap)
{
    static atomic_uint counter;
    for (int attempt = 0; attempt < 100; attempt++) {
        int n = snprintf(temporary, cap, "%.*s.%ld-%u.tmp", kept(name), name, (long)getpid(),
                         atomic_fetch_add(&counter, 1));
        if (n <= 0 || (size_t)n >= cap) {
            errno = ENAMETOOLONG;
            return -1;
        }
        for (int again = 0; again < 2; again++) {
            int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
            if (fd >= 0) flock(fd, LOCK_EX | LOCK_NB);
            if (fd >= 0 || errno != EEXIST) return fd;
            // Of an earlier process that had this one's number, as all do that are the first of their container.
            remove_if_unlocked(folder, temporary);
        }
    }
    return -1;
}

// Whether the name is "<name>.<process>-<number>.tmp" of a process that is gone.
static bool is_leftover(const char *entry, const char *name)
{
    const char *at = entry + strlen(entry);
    for (int dots = 0; dots < 2 && at > entry;) dots += *--at == '.';
    long process = 0;
    unsigned number;
    int end = 0;
    if (sscanf(at, ".%ld-%u.tmp%n", &process, &number, &end) != 2 || !end || at[end]) return false;
    if (name && (at != entry + kept(name) || strncmp(entry, name, (size_t)(at - entry)) != 0)) return false;
    return process > 0 && kill((pid_t)process, 0) && errno == ESRCH;
}

void temporary_sweep(int folder, const char *name)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        if (is_leftover(e->d_name, name)) remove_if_unlocked(folder, e->d_name);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}
