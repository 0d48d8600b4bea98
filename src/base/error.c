// The error state of each thread: a code, a text in a fixed buffer, and the place of the caller at its end.
#include "base/base.h"
#include "base/caller.h"
#include "base/note.h"
#include "base/text.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Thread_local kiln_status error_pending __attribute__((tls_model("initial-exec"))) = KILN_OK;

static THREAD_LOCAL bool noted; // the text says where, by error_note_where
static THREAD_LOCAL bool heard; // the caller has asked for the text

// The thread's own, from its first error to its end. One record is there without an allocation, for the thread that
// first asks: mostly the one that finds memory to be out.
static THREAD_LOCAL struct error_record *own;
static struct error_record reserve;
static atomic_flag reserve_taken = ATOMIC_FLAG_INIT;

// An error that is dropped with its thread. What listens to warnings may be gone when the process ends.
static void tell_unheard(void)
{
    const char *text = own->text, *level = getenv("KILN_LOG");
    if (!thread_ends_process())
        log_warn("a thread ends with an error that nobody has read: %s", text);
    else if (!level || strcmp(level, "0") != 0)
        fprintf(stderr, "kiln: the process ends with an error that nobody has read: %s\n", text);
}

static void drop_own(void)
{
    if (error_is_unheard()) tell_unheard();
    if (own == &reserve)
        atomic_flag_clear(&reserve_taken);
    else
        free(own);
    own = NULL;
    error_pending = KILN_OK;
}

// NULL when memory is out: the error is then its code alone.
static struct error_record *record(void)
{
    if (!own) {
        own = atomic_flag_test_and_set(&reserve_taken) ? malloc(sizeof *own) : &reserve;
        if (own) thread_at_end(THREAD_ERROR, drop_own);
    }
    return own;
}

// Appends " (file.c:42)"; the place is kept whole, the text before it is cut when both do not fit.
static void append_place(struct error_record *r)
{
    char place[CALLER_TEXT_MAX];
    size_t place_len = caller_describe(caller_find(), place, sizeof place);
    if (place_len == 0) return;
    size_t need = place_len + sizeof " ()", len = strlen(r->text);
    if (len + need > sizeof r->text) len = sizeof r->text - need;
    snprintf(r->text + len, sizeof r->text - len, " (%s)", place);
    r->has_place = true;
}

kiln_status error_setv(kiln_status code, const char *format, va_list args)
{
    if (error_pending) return error_pending;
    if (code == KILN_OK) code = KILN_E_INTERNAL;
    error_pending = code;
    noted = heard = false;
    struct error_record *r = record();
    if (!r) return code;
    r->code = code;
    r->has_place = false;
    vsnprintf(r->text, sizeof r->text, format, args);
    text_escape(r->text, sizeof r->text);
    append_place(r);
    if (debug_flag("errors")) log_warn("error %s: %s", kiln_status_name(code), r->text);
    return code;
}

kiln_status error_set(kiln_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    kiln_status status = error_setv(code, format, args);
    va_end(args);
    return status;
}

void error_name_op(const char *op)
{
    if (!error_pending || !own) return;
    char *text = own->text;
    size_t n = strlen(op), len = strlen(text);
    if (n + 2 + len >= sizeof own->text) return;
    if (!strncmp(text, op, n) && (text[n] == ':' || text[n] == '_')) return;
    memmove(text + n + 2, text, len + 1);
    memcpy(text, op, n);
    memcpy(text + n, ": ", 2);
}

void error_note_where(const char *format, ...)
{
    char where[256], place[CALLER_TEXT_MAX + 4] = "";
    if (!error_pending || noted || !own) return;
    int n = snprintf(where, sizeof where, ", in ");
    va_list args;
    va_start(args, format);
    vsnprintf(where + n, sizeof where - (size_t)n, format, args);
    va_end(args);
    text_escape(where, sizeof where);
    char *text = own->text, *end = own->has_place ? strrchr(text, '(') : NULL;
    if (end && end > text && end[-1] == ' ') {
        snprintf(place, sizeof place, "%s", end - 1);
        end[-1] = 0;
    }
    size_t len = strlen(text), room = sizeof own->text - strlen(place) - strlen(where) - 1;
    if (len > room) len = room;
    snprintf(text + len, sizeof own->text - len, "%s%s", where, place);
    noted = true;
}

void error_note_before(const char *format, ...)
{
    char where[256];
    if (!error_pending || noted || !own) return;
    va_list args;
    va_start(args, format);
    vsnprintf(where, sizeof where, format, args);
    va_end(args);
    text_escape(where, sizeof where);
    noted = true;
    size_t n = strlen(where), len = strlen(own->text);
    if (n + 2 + len >= sizeof own->text) return;
    memmove(own->text + n + 2, own->text, len + 1);
    memcpy(own->text, where, n);
    memcpy(own->text + n, ": ", 2);
}

bool error_is_unheard(void)
{
    return error_pending && !heard;
}

void error_capture(struct error_record *out)
{
    if (error_pending && own) {
        *out = *own;
    } else {
        *out = (struct error_record){.code = error_pending};
    }
    kiln_error_clear();
}

kiln_status error_raise(const struct error_record *r)
{
    if (error_pending || r->code == KILN_OK) return error_pending;
    error_pending = r->code;
    noted = heard = false;
    struct error_record *mine = record();
    if (!mine) return error_pending;
    *mine = *r;
    // A library thread has no caller: the place is that of the thread which asks for its result.
    if (!mine->has_place) append_place(mine);
    return error_pending;
}

kiln_status kiln_error(void)
{
    return error_pending;
}

const char *kiln_error_message(void)
{
    if (!error_pending) return "";
    heard = true;
    return own ? own->text : "out of memory for the text of an error";
}

void kiln_error_clear(void)
{
    error_pending = KILN_OK;
}

bool kiln_error_report(const char *file, int line)
{
    if (!error_pending) return false;
    const char *slash = strrchr(file, '/');
    fprintf(stderr, "%s:%d: %s: %s\n", slash ? slash + 1 : file, line, kiln_status_name(error_pending),
            kiln_error_message());
    return true;
}

const char *kiln_status_name(kiln_status status)
{
    switch (status) {
    case KILN_OK: return "KILN_OK";
    case KILN_E_MEMORY: return "KILN_E_MEMORY";
    case KILN_E_IO: return "KILN_E_IO";
    case KILN_E_MISSING: return "KILN_E_MISSING";
    case KILN_E_TIMEOUT: return "KILN_E_TIMEOUT";
    case KILN_E_ARGUMENT: return "KILN_E_ARGUMENT";
    case KILN_E_SHAPE: return "KILN_E_SHAPE";
    case KILN_E_DTYPE: return "KILN_E_DTYPE";
    case KILN_E_AXIS: return "KILN_E_AXIS";
    case KILN_E_DEVICE_MISMATCH: return "KILN_E_DEVICE_MISMATCH";
    case KILN_E_STATE: return "KILN_E_STATE";
    case KILN_E_FORMAT: return "KILN_E_FORMAT";
    case KILN_E_HANDLE: return "KILN_E_HANDLE";
    case KILN_E_GRADIENT: return "KILN_E_GRADIENT";
    case KILN_E_ASSERT: return "KILN_E_ASSERT";
    case KILN_E_UNSUPPORTED: return "KILN_E_UNSUPPORTED";
    case KILN_E_DEVICE: return "KILN_E_DEVICE";
    case KILN_E_DEVICE_MEMORY: return "KILN_E_DEVICE_MEMORY";
    case KILN_E_DEVICE_LOST: return "KILN_E_DEVICE_LOST";
    case KILN_E_INTERNAL: return "KILN_E_INTERNAL";
    }
    return "unknown status";
}
