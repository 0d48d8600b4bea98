// Warnings: each distinct text goes to the callback once, whatever thread it comes from.
#include "base/process.h"
#include "base/text.h"
#include "base/base.h"
#include "base/caller.h"
#include "base/hash.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEN_MAX = 1024, TEXT_MAX = 1024 }; // SEEN_MAX is a power of two; when the table is full, silence

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_log, lock)
static kiln_log_fn callback; // NULL: the default
static void *callback_user;
static uint64_t seen[SEEN_MAX];
static size_t n_seen;

static void write_stderr(void *user, const char *message)
{
    (void)user;
    const char *level = getenv("KILN_LOG");
    if (level && !strcmp(level, "0")) return;
    fprintf(stderr, "kiln: %s\n", message);
}

// Open addressing over hashes; 0 marks a free slot. The table is never filled beyond three quarters.
static bool first_time(const char *text)
{
    uint64_t key = hash_str(text) | 1;
    size_t slot = (size_t)(key >> 1) & (SEEN_MAX - 1);
    for (; seen[slot]; slot = (slot + 1) & (SEEN_MAX - 1)) {
        if (seen[slot] == key) return false;
    }
    if (n_seen >= SEEN_MAX / 4 * 3) return false;
    seen[slot] = key;
    n_seen++;
    return true;
}

static void tell(char *text)
{
    text_escape(text, TEXT_MAX);
    pthread_mutex_lock(&lock);
    bool fresh = first_time(text);
    kiln_log_fn fn = callback ? callback : write_stderr;
    void *user = callback_user;
    pthread_mutex_unlock(&lock);
    if (fresh) fn(user, text);
}

void log_warn(const char *format, ...)
{
    char text[TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tell(text);
}

void log_warn_here(const char *format, ...)
{
    char text[TEXT_MAX], place[CALLER_TEXT_MAX];
    va_list args;
    va_start(args, format);
    size_t n = (size_t)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (caller_describe(caller_find(), place, sizeof place) && n < sizeof text)
        snprintf(text + n, sizeof text - n, " (%s)", place);
    tell(text);
}

void kiln_set_log(kiln_log_fn fn, void *user)
{
    pthread_mutex_lock(&lock);
    callback = fn;
    callback_user = user;
    memset(seen, 0, sizeof seen);
    n_seen = 0;
    pthread_mutex_unlock(&lock);
}
