// Spans of time, and memory in use over time, to a file in the format of Chrome's trace viewer (profile_write.c).
//
// Input: spans in any order, from any thread. They are kept in memory, at most PROFILE_EVENTS_MAX of them; the number
// of those left out stands in the file, and their times in the labels. The file is opened when the profile begins, so
// that a bad path fails there, and written when it ends.
#include "base/process.h"
#include "base/thread.h"
#include "device/device.h"
#include "device/profile_state.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { TRACKS_MAX = 256 };

atomic_bool profile_running;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_profile, lock)
static struct profile profile;
static uint32_t profile_number; // of the present one, or the last: labels of others are not known
// Tracks keep their numbers for the life of the process.
static struct track tracks[TRACKS_MAX];
static uint32_t n_tracks;
static THREAD_LOCAL uint32_t my_track; // plus one, and with QUIET
#define QUIET UINT32_C(0x80000000)

// With the lock. The last track takes what finds no room.
static uint32_t add_track(const char *name)
{
    if (n_tracks == TRACKS_MAX) return TRACKS_MAX - 1;
    snprintf(tracks[n_tracks].name, PROFILE_NAME_B, "%s", name);
    return n_tracks++;
}

uint32_t profile_track(const char *name)
{
    pthread_mutex_lock(&lock);
    uint32_t i = 0;
    while (i < n_tracks && strncmp(tracks[i].name, name, PROFILE_NAME_B - 1)) i++;
    if (i == n_tracks) i = add_track(name);
    pthread_mutex_unlock(&lock);
    return i;
}

static uint32_t track_of_thread(void)
{
    static uint32_t n_threads;
    if (my_track & ~QUIET) return (my_track & ~QUIET) - 1;
    char name[PROFILE_NAME_B];
    pthread_mutex_lock(&lock);
    snprintf(name, sizeof name, "thread %u", ++n_threads);
    uint32_t track = add_track(name);
    my_track = (my_track & QUIET) | (track + 1);
    pthread_mutex_unlock(&lock);
    return track;
}

bool profile_quiet(bool quiet)
{
    bool was = my_track & QUIET;
    my_track = (my_track & ~QUIET) | (quiet ? QUIET : 0);
    return was;
}

// With the lock. Devices are known by name, for one may be closed before the file is written. -1: there is no room.
static int32_t number_of(const kiln_device *dev)
{
    for (int32_t i = 0; i < profile.n_devices; i++)
        if (!strcmp(profile.devices[i].name, dev->name)) return i;
    if (profile.n_devices == DEVICES_MAX) return -1;
    struct profiled_device *d = &profile.devices[profile.n_devices];
    *d = (struct profiled_device){.peak_B = 0};
    snprintf(d->name, sizeof d->name, "%s", dev->name);
    snprintf(d->kind, sizeof d->kind, "%s", dev->ops->kind);
    return profile.n_devices++;
}

profile_label profile_label_of(const char *category, const char *name, const kiln_device *dev,
                               const struct launch_facts *facts)
{
    struct label key = {.category = category, .device = -1};
    profile_label found = 0;
    snprintf(key.name, sizeof key.name, "%s", name ? name : category);
    if (my_track & QUIET) return 0;
    pthread_mutex_lock(&lock);
    if (profile.file) {
        if (dev) key.device = number_of(dev);
        int64_t i = labels_find(&profile.labels, &key, facts);
        if (i >= 0) found = (uint64_t)profile_number << 32 | (uint64_t)(i + 1);
        profile.n_lost += i < 0;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

// With the lock. A profile with a gap is better than a computation that fails: no error where memory is out.
static bool grow(void *list, size_t n, size_t *cap, size_t item_B)
{
    if (n < *cap) return true;
    size_t more = *cap ? 2 * *cap : 1024;
    void **at = list, *grown = more <= PROFILE_EVENTS_MAX ? realloc(*at, more * item_B) : NULL;
    if (!grown) return false;
    *at = grown;
    *cap = more;
    return true;
}

void profile_add(uint32_t track, profile_label label, uint64_t start_ns, uint64_t end_ns)
{
    uint32_t number = (uint32_t)label;
    if (!number) return;
    pthread_mutex_lock(&lock);
    if (profile.file && start_ns >= profile.from_ns && label >> 32 == profile_number) {
        struct label *l = profile.labels.v[number - 1];
        l->n++;
        l->total_ns += end_ns - start_ns;
        bool kept = grow(&profile.events, profile.n, &profile.cap, sizeof *profile.events);
        if (kept) profile.events[profile.n++] = (struct profile_event){start_ns, end_ns, track, number - 1};
        profile.n_lost += !kept;
    }
    pthread_mutex_unlock(&lock);
}

void profile_span_add(const struct profile_span *s)
{
    if (!profile_on()) return;
    uint64_t end_ns = clock_now_ns();
    profile_add(track_of_thread(), profile_label_of(s->category, s->name, s->dev, s->facts), s->start_ns, end_ns);
}

void profile_memory(const kiln_device *dev, uint64_t used_B)
{
    pthread_mutex_lock(&lock);
    int32_t d = profile.file && !(my_track & QUIET) ? number_of(dev) : -1;
    if (d >= 0) {
        if (used_B > profile.devices[d].peak_B) profile.devices[d].peak_B = used_B;
        bool kept = grow(&profile.counts, profile.n_counts, &profile.cap_counts, sizeof *profile.counts);
        if (kept) profile.counts[profile.n_counts++] = (struct profile_count){clock_now_ns(), used_B, (uint32_t)d};
        profile.n_lost += !kept;
    }
    pthread_mutex_unlock(&lock);
}

bool profile_is_known(void)
{
    pthread_mutex_lock(&lock);
    bool known = profile_number > 0;
    pthread_mutex_unlock(&lock);
    return known;
}

void profile_visit(profile_row_fn *visit, void *user, uint64_t *lost)
{
    struct label_places places;
    pthread_mutex_lock(&lock);
    *lost = profile.n_lost;
    for (size_t i = 0; i < profile.labels.n; i++) {
        const struct label *l = profile.labels.v[i];
        label_places(l, &places);
        const struct profile_row row = {.category = l->category,
                                        .name = l->name,
                                        .op = l->op,
                                        .line = places.lines,
                                        .cell = places.cells,
                                        .device = l->device < 0 ? "" : profile.devices[l->device].name,
                                        .n = (double)l->n,
                                        .total_us = (double)l->total_ns / 1e3,
                                        .bytes = l->read_B + l->written_B,
                                        .flops = l->flops};
        visit(user, &row);
    }
    pthread_mutex_unlock(&lock);
}

void profile_visit_devices(void (*visit)(void *user, const char *name, const char *kind, uint64_t peak_B), void *user)
{
    pthread_mutex_lock(&lock);
    for (int32_t i = 0; i < profile.n_devices; i++)
        visit(user, profile.devices[i].name, profile.devices[i].kind, profile.devices[i].peak_B);
    pthread_mutex_unlock(&lock);
}

// With the lock. Closes the file. Labels stay until the next profile begins.
static bool write_profile(void)
{
    FILE *f = profile.file;
    profile_write(f, &profile, tracks, n_tracks);
    bool ok = !ferror(f);
    ok &= !fclose(f);
    free(profile.events);
    free(profile.counts);
    profile.file = NULL;
    profile.events = NULL;
    profile.counts = NULL;
    profile.n = profile.cap = profile.n_counts = profile.cap_counts = 0;
    return ok;
}

// --- from and to

kiln_status kiln_profile_begin(const char *path)
{
    kiln_status status = KILN_OK;
    if (error_pending) return error_pending;
    if (!path) return error_set(KILN_E_ARGUMENT, "profile_begin: path is NULL");
    pthread_mutex_lock(&lock);
    if (profile.file)
        status = error_set(KILN_E_STATE, "profile_begin: a profile is being taken already, for %s", profile.path);
    else if (!(profile.file = fopen(path, "w")))
        status = error_set(KILN_E_IO, "profile_begin: %s cannot be written", path);
    if (!status) {
        labels_free(&profile.labels);
        profile.n_devices = 0;
        profile.n_lost = 0;
        snprintf(profile.path, sizeof profile.path, "%s", path);
        profile.from_ns = clock_now_ns();
        profile_number++;
        atomic_store(&profile_running, true);
    }
    pthread_mutex_unlock(&lock);
    if (!status) profile_tell_memory();
    return status;
}

kiln_status kiln_profile_end(void)
{
    if (error_pending) return error_pending;
    if (!profile_on()) return error_set(KILN_E_STATE, "profile_end: no profile is being taken");
    kiln_status status = profile_settle_devices();
    pthread_mutex_lock(&lock);
    atomic_store(&profile_running, false);
    if (profile.file && !write_profile() && !status)
        status = error_set(KILN_E_IO, "profile_end: %s cannot be written", profile.path);
    pthread_mutex_unlock(&lock);
    return status;
}

// Drivers may be gone by now: what devices have not told is left out.
static void write_at_exit(void)
{
    pthread_mutex_lock(&lock);
    atomic_store(&profile_running, false);
    if (profile.file && !write_profile()) log_warn("KILN_PROFILE: %s cannot be written", profile.path);
    pthread_mutex_unlock(&lock);
}

static void read_environment(void)
{
    const char *path = secure_getenv("KILN_PROFILE");
    if (!path || !*path) return;
    if (kiln_profile_begin(path)) {
        log_warn("KILN_PROFILE: %s", kiln_error_message());
        kiln_error_clear();
    } else {
        atexit(write_at_exit);
    }
}

void profile_from_environment(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_environment);
}
