// Spans of time to a file in the format of Chrome's trace viewer: a JSON object whose "traceEvents" are complete events
// ("ph": "X") with times in microseconds, and one metadata event ("ph": "M") for the name of each track.
//
// Input: spans in any order, from any thread. They are kept in memory, at most EVENTS_MAX of them; the number of those
// left out stands in the file. The file is opened when the profile begins, so that a bad path fails there, and written
// when it ends.
#include "base/process.h"
#include "base/thread.h"
#include "device/profile.h"
#include <kiln/device.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS_MAX = 1 << 20, NAME_MAX_B = 64, TRACKS_MAX = 256 };

struct event {
    uint64_t start_ns, end_ns;
    const char *category;
    uint32_t track;
    char name[NAME_MAX_B];
};

atomic_bool profile_running;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_profile, lock)
static struct {
    FILE *file;
    char path[512];
    uint64_t from_ns, n_lost;
    struct event *events;
    size_t n, cap;
} profile;
// Tracks keep their numbers for the life of the process.
static struct {
    char name[NAME_MAX_B];
} tracks[TRACKS_MAX];
static uint32_t n_tracks;
static THREAD_LOCAL uint32_t my_track; // plus one

// With the lock. The last track takes what finds no room.
static uint32_t add_track(const char *name)
{
    if (n_tracks == TRACKS_MAX) return TRACKS_MAX - 1;
    snprintf(tracks[n_tracks].name, NAME_MAX_B, "%s", name);
    return n_tracks++;
}

uint32_t profile_track(const char *name)
{
    pthread_mutex_lock(&lock);
    uint32_t i = 0;
    while (i < n_tracks && strncmp(tracks[i].name, name, NAME_MAX_B - 1)) i++;
    if (i == n_tracks) i = add_track(name);
    pthread_mutex_unlock(&lock);
    return i;
}

static uint32_t track_of_thread(void)
{
    static uint32_t n_threads;
    if (my_track) return my_track - 1;
    char name[NAME_MAX_B];
    pthread_mutex_lock(&lock);
    snprintf(name, sizeof name, "thread %u", ++n_threads);
    my_track = add_track(name) + 1;
    pthread_mutex_unlock(&lock);
    return my_track - 1;
}

// With the lock. A profile with a gap is better than a computation that fails: no error where memory is out.
static bool has_room(void)
{
    if (profile.n < profile.cap) return true;
    size_t cap = profile.cap ? 2 * profile.cap : 1024;
    struct event *more = cap <= EVENTS_MAX ? realloc(profile.events, cap * sizeof *more) : NULL;
    if (!more) return false;
    profile.events = more;
    profile.cap = cap;
    return true;
}

void profile_add(uint32_t track, const char *category, const char *name, uint64_t start_ns, uint64_t end_ns)
{
    struct event e = {.start_ns = start_ns, .end_ns = end_ns, .category = category, .track = track};
    snprintf(e.name, sizeof e.name, "%s", name ? name : category);
    pthread_mutex_lock(&lock);
    if (profile.file && start_ns >= profile.from_ns) {
        bool kept = has_room();
        if (kept) profile.events[profile.n++] = e;
        profile.n_lost += !kept;
    }
    pthread_mutex_unlock(&lock);
}

void profile_span_add(const struct profile_span *s)
{
    if (profile_on()) profile_add(track_of_thread(), s->category, s->name, s->start_ns, clock_now_ns());
}

// --- the file

static void write_text(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < 0x20)
            fprintf(f, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else
            fputc(c, f);
    }
    fputc('"', f);
}

static void write_event(FILE *f, const struct event *e)
{
    fputs(",\n{\"name\": ", f);
    write_text(f, e->name);
    fprintf(f, ", \"cat\": \"%s\", \"ph\": \"X\", \"pid\": 1, \"tid\": %" PRIu32 ", \"ts\": %.3f, \"dur\": %.3f}",
            e->category, e->track, (double)(e->start_ns - profile.from_ns) / 1e3,
            (double)(e->end_ns - e->start_ns) / 1e3);
}

// With the lock. Closes the file and forgets the profile.
static bool write_profile(void)
{
    FILE *f = profile.file;
    fprintf(f, "{\"displayTimeUnit\": \"ns\", \"otherData\": {\"lost\": %" PRIu64 "}, \"traceEvents\": [\n",
            profile.n_lost);
    fputs("{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"args\": {\"name\": \"kiln\"}}", f);
    for (uint32_t i = 0; i < n_tracks; i++) {
        fprintf(
            f,
            ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": %" PRIu32 ", \"args\": {\"name\": ", i);
        write_text(f, tracks[i].name);
        fputs("}}", f);
    }
    for (size_t i = 0; i < profile.n; i++) write_event(f, &profile.events[i]);
    fputs("\n]}\n", f);
    bool ok = !ferror(f);
    ok &= !fclose(f);
    profile.file = NULL;
    free(profile.events);
    profile.events = NULL;
    profile.n = profile.cap = 0;
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
        snprintf(profile.path, sizeof profile.path, "%s", path);
        profile.n_lost = 0;
        profile.from_ns = clock_now_ns();
        atomic_store(&profile_running, true);
    }
    pthread_mutex_unlock(&lock);
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
