// The cache as a whole: what lies there, and what goes when it is too large.
//
// A file's time of change is when it was written or, to a day, last read. Counting all files takes a walk through the
// folders, so a process does it when it has written a sixteenth of the limit since the last time, or when nobody has
// done it for an hour, which the time of a file tells. Several processes may evict at once: what is gone is gone, and
// to a reader a miss.
#include "base/cache.h"
#include "base/process.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *const cache_folders[CACHE_KINDS] = {"objects", "modules", "passes", "fusion", "", ""};

bool cache_kind_folder(enum cache_kind kind, char *out, size_t cap)
{
    if (!cache_folder(out, cap)) return false;
    size_t len = strlen(out);
    int n = *cache_folders[kind] ? snprintf(out + len, cap - len, "/%s", cache_folders[kind]) : 0;
    return n >= 0 && (size_t)n < cap - len;
}

// --- the files

static bool is_hash(const char *name)
{
    return strspn(name, "0123456789abcdef") == 32;
}

static bool ends_in(const char *name, const char *tail)
{
    size_t len = strlen(name), tail_len = strlen(tail);
    return len > tail_len && !strcmp(name + len - tail_len, tail);
}

// Whether the library gives such names to files of this kind; whatever else a user keeps there is left alone.
static bool is_name(enum cache_kind kind, const char *name, bool *temporary)
{
    static const char *const heads[CACHE_KINDS] = {[CACHE_PIPELINES] = "pipelines-", [CACHE_TILES] = "tiles-"},
                             *const tails[CACHE_KINDS] = {[CACHE_PIPELINES] = ".bin", [CACHE_TILES] = ".txt"};
    const char *head = heads[kind];
    if (strlen(name) >= CACHE_NAME_B) return false;
    *temporary = ends_in(name, ".tmp");
    if (!head) return is_hash(name) && (name[32] == 0 || (name[32] == '.' && *temporary));
    return !strncmp(name, head, strlen(head)) && (ends_in(name, tails[kind]) || *temporary);
}

static bool push(struct cache_files *l, size_t *cap, const struct cache_file *f)
{
    if (l->n == *cap) {
        size_t more = *cap ? 2 * *cap : 64;
        struct cache_file *v = realloc(l->v, more * sizeof *v);
        if (!v) return false;
        l->v = v;
        *cap = more;
    }
    l->v[l->n++] = *f;
    l->size_B += f->size_B;
    return true;
}

// A folder that is reached safely; -1: there is none.
static int open_kind(enum cache_kind kind)
{
    char path[4096];
    const char *name;
    if (!cache_kind_folder(kind, path, sizeof path - 1)) return -1;
    strcat(path, "/");
    return cache_open_folder(path, &name);
}

static bool list_folder(struct cache_files *l, size_t *cap, enum cache_kind kind, DIR *d)
{
    bool room = true;
    for (struct dirent *e; room && (e = readdir(d));) {
        struct cache_file f = {.kind = kind};
        struct stat st;
        if (!is_name(kind, e->d_name, &f.temporary) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(st.st_mode))
            continue;
        memcpy(f.name, e->d_name, strlen(e->d_name) + 1);
        f.size_B = (uint64_t)st.st_size;
        f.used_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        room = push(l, cap, &f);
    }
    return room;
}

static int by_use(const void *a, const void *b)
{
    const struct cache_file *x = a, *y = b;
    if (x->used_ns != y->used_ns) return x->used_ns < y->used_ns ? -1 : 1;
    return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : strcmp(x->name, y->name);
}

bool cache_list(struct cache_files *out)
{
    size_t cap = 0;
    bool any = false, room = true;
    *out = (struct cache_files){0};
    for (int kind = 0; kind < CACHE_KINDS && room; kind++) {
        int fd = open_kind((enum cache_kind)kind);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        any |= d != NULL;
        if (d) {
            room = list_folder(out, &cap, (enum cache_kind)kind, d);
            closedir(d);
        } else if (fd >= 0) {
            close(fd);
        }
    }
    if (out->n) qsort(out->v, out->n, sizeof *out->v, by_use);
    if (!any || !room) cache_list_free(out);
    return any && room;
}

void cache_list_free(struct cache_files *l)
{
    free(l->v);
    *l = (struct cache_files){0};
}

void *cache_read_file(const struct cache_file *f, size_t max_B, size_t *size_B)
{
    char path[4096];
    if (!cache_kind_folder(f->kind, path, sizeof path - CACHE_NAME_B - 1)) return NULL;
    size_t len = strlen(path);
    snprintf(path + len, sizeof path - len, "/%s", f->name);
    return cache_read(path, max_B, size_B);
}

bool cache_delete(const struct cache_file *f)
{
    int folder = open_kind(f->kind);
    bool gone = folder >= 0 && !unlinkat(folder, f->name, 0);
    int why = errno;
    if (folder >= 0) close(folder);
    errno = why;
    return gone;
}

// --- the limit

bool cache_size_parse(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    unsigned long long n = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : (end = (char *)text, 0);
    const char *unit = *end ? strchr(units, *end) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (end == text || errno || (*end && (!unit || end[1])) || n > UINT64_MAX >> shift) return false;
    *out = (uint64_t)n << shift;
    return true;
}

uint64_t cache_limit_B(void)
{
    const uint64_t usual = UINT64_C(1) << 30;
    const char *text = secure_getenv("KILN_CACHE_LIMIT");
    uint64_t limit_B;
    if (!text || !*text) return usual;
    if (cache_size_parse(text, &limit_B)) return limit_B;
    log_warn("KILN_CACHE_LIMIT: \"%s\" is no size, such as 512M; it is 1G", text);
    return usual;
}

static struct {
    pthread_mutex_t lock;
    uint64_t grown_B; // by this process, since it counted
} growth = {.lock = PTHREAD_MUTEX_INITIALIZER};

GUARD_LOCK(guard_growth, growth.lock)

// Whether nobody has counted for an hour. Whoever asks counts, if so.
static bool is_time(void)
{
    enum { HOUR_S = 60 * 60 };
    int folder = open_kind(CACHE_PIPELINES);
    struct stat st;
    struct timespec now;
    if (folder < 0 || clock_gettime(CLOCK_REALTIME, &now)) return false;
    bool due = fstatat(folder, ".counted", &st, AT_SYMLINK_NOFOLLOW) || now.tv_sec - st.st_mtim.tv_sec > HOUR_S ||
               st.st_mtim.tv_sec > now.tv_sec + HOUR_S;
    int fd = due ? openat(folder, ".counted", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600) : -1;
    if (fd >= 0) {
        futimens(fd, NULL);
        close(fd);
    }
    close(folder);
    return due;
}

// Down to seven eighths, so that the next file does not count again.
static void evict(uint64_t limit_B)
{
    struct cache_files l;
    if (!cache_list(&l)) return;
    uint64_t left_B = l.size_B, keep_B = limit_B - limit_B / 8;
    for (size_t i = 0; i < l.n && l.size_B > limit_B && left_B > keep_B; i++)
        if (!l.v[i].temporary && cache_delete(&l.v[i])) left_B -= l.v[i].size_B;
    cache_list_free(&l);
}

void cache_grew(uint64_t size_B)
{
    uint64_t limit_B = cache_limit_B();
    if (!limit_B) return;
    pthread_mutex_lock(&growth.lock);
    growth.grown_B += size_B;
    bool much = growth.grown_B > limit_B / 16;
    if (much) growth.grown_B = 0;
    pthread_mutex_unlock(&growth.lock);
    if (much || is_time()) evict(limit_B);
}
