// The cache folder, as kiln-cache shows it.
#include "base/cache.h"
#include "base/options.h"
#include "debug/facts.h"
#include "program/disk.h"
#include <errno.h>
#include <kiln/debug.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#if KILN_WITH_VULKAN
#include "vulkan/vk.h"
#endif

enum { READ_MAX_B = 256 << 20 };

static const char nowhere[] = "KILN_CACHE_DIR, XDG_CACHE_HOME and HOME are not set",
                  not_used[] = "it is no folder, or it or one above it is another user's or open to others' writing";

char *kiln_cache_folder(void)
{
    char path[4096];
    if (error_pending) return NULL;
    if (!cache_folder(path, sizeof path)) {
        error_set(KILN_E_MISSING, "cache: there is no folder: %s", nowhere);
        return NULL;
    }
    char *copy = strdup(path);
    if (!copy) error_set(KILN_E_MEMORY, "cache: out of memory");
    return copy;
}

static kiln_status list(struct cache_files *out)
{
    struct stat st;
    char *path = kiln_cache_folder();
    kiln_status status = path ? KILN_OK : error_pending;
    *out = (struct cache_files){0};
    if (!status && !stat(path, &st) && !cache_list(out))
        status = error_set(KILN_E_STATE, "cache: %s is not used: %s", path, not_used);
    free(path);
    return status;
}

static kiln_cache_state check_of_device(enum cache_kind kind, const void *bytes, size_t size_B)
{
#if KILN_WITH_VULKAN
    bool good = kind == CACHE_TILES ? vk_tiles_check(bytes, size_B) : vk_cache_check(bytes, size_B);
    return good ? KILN_CACHE_GOOD : KILN_CACHE_DAMAGED;
#else
    (void)kind;
    (void)bytes;
    (void)size_B;
    return KILN_CACHE_OTHER_BUILD;
#endif
}

static kiln_cache_state check(const struct cache_file *f, char *name)
{
    static const kiln_cache_state states[] = {[DISK_GOOD] = KILN_CACHE_GOOD,
                                              [DISK_OTHER_BUILD] = KILN_CACHE_OTHER_BUILD,
                                              [DISK_DAMAGED] = KILN_CACHE_DAMAGED};
    size_t size_B = 0;
    if (f->temporary) return KILN_CACHE_UNFINISHED;
    void *bytes = cache_read_file(f, READ_MAX_B, &size_B);
    kiln_cache_state state = KILN_CACHE_DAMAGED;
    if (bytes && (f->kind == CACHE_PIPELINES || f->kind == CACHE_TILES))
        state = check_of_device(f->kind, bytes, size_B);
    else if (bytes)
        state = states[disk_check((enum disk_kind)f->kind, f->name, bytes, size_B, name)];
    free(bytes);
    return state;
}

static int64_t now_ns(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double age_s(const struct cache_file *f, int64_t now)
{
    return f->used_ns < now ? (double)(now - f->used_ns) * 1e-9 : 0;
}

static void tell(const struct cache_file *f, int64_t now, const char *name, kiln_cache_state state, kiln_cache_fn fn,
                 void *user)
{
    static const char *const kinds[CACHE_KINDS] = {"object", "module", "passes", "fusion", "pipelines", "tiles"};
    char path[CACHE_NAME_B + 16];
    const char *folder = cache_folders[f->kind];
    snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", f->name);
    const kiln_cache_file file = {.size = sizeof file,
                                  .kind = kinds[f->kind],
                                  .path = path,
                                  .name = name,
                                  .size_B = f->size_B,
                                  .age_s = age_s(f, now),
                                  .state = state};
    fn(user, &file);
}

kiln_status kiln_cache_visit(kiln_cache_fn fn, void *user)
{
    struct cache_files l;
    if (error_pending) return error_pending;
    if (!fn) return error_set(KILN_E_ARGUMENT, "cache_visit: fn is NULL");
    TRY(list(&l));
    int64_t now = now_ns();
    for (size_t i = 0; i < l.n; i++) {
        char name[DISK_NAME_B] = "";
        kiln_cache_state state = check(&l.v[i], name);
        tell(&l.v[i], now, name, state, fn, user);
    }
    cache_list_free(&l);
    return KILN_OK;
}

kiln_status kiln_cache_clear(const kiln_cache_clear_opts *opts, kiln_cache_fn fn, void *user)
{
    kiln_cache_clear_opts o;
    struct cache_files l;
    if (error_pending) return error_pending;
    TRY(options_read("cache_clear", KILN_CACHE_CLEAR, &o, opts));
    if (!(o.older_s >= 0))
        return error_set(KILN_E_ARGUMENT, "cache_clear: older_s is %g: it must be an age in seconds", o.older_s);
    TRY(list(&l));
    int64_t now = now_ns();
    uint64_t left_B = l.size_B;
    size_t n_kept = 0;
    for (size_t i = 0; i < l.n && left_B > o.keep_B; i++) {
        if (age_s(&l.v[i], now) < o.older_s) break; // so are all that follow
        if (!cache_delete(&l.v[i])) {
            n_kept += errno != ENOENT;
            continue;
        }
        left_B -= l.v[i].size_B;
        if (fn) tell(&l.v[i], now, "", KILN_CACHE_GOOD, fn, user);
    }
    cache_list_free(&l);
    return n_kept ? error_set(KILN_E_IO, "cache_clear: %zu files could not be removed", n_kept) : KILN_OK;
}

void facts_cache(struct facts *f)
{
    char path[4096];
    struct stat st;
    struct cache_files l = {0};
    bool named = cache_folder(path, sizeof path), there = named && !stat(path, &st);
    bool used = named && (!there || cache_list(&l));
    fact_bool(f, "in use", used, named ? not_used : nowhere);
    if (named) fact_text(f, "folder", path);
    if (!used) return;
    fact_number(f, "files", (double)l.n, NULL);
    fact_number(f, "size", (double)l.size_B, "bytes");
    if (cache_limit_B())
        fact_number(f, "limit", (double)cache_limit_B(), "bytes");
    else
        fact_text(f, "limit", "none");
    cache_list_free(&l);
}
