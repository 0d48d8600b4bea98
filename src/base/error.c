// The error state of each thread: a code, a text in a fixed buffer, and the place of the caller at its end.
#include "base/base.h"
#include "base/caller.h"

#include <stdio.h>
#include <string.h>

_Thread_local kiln_status error_pending __attribute__((tls_model("initial-exec"))) = KILN_OK;

// Apart from error_pending, for it is large and never read on the hot path.
static _Thread_local struct error_record state;

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
    error_pending = state.code = code;
    state.has_place = false;
    vsnprintf(state.text, sizeof state.text, format, args);
    append_place(&state);
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
    size_t n = strlen(op), len = strlen(state.text);
    if (!error_pending || n + 2 + len >= sizeof state.text) return;
    if (!strncmp(state.text, op, n) && (state.text[n] == ':' || state.text[n] == '_')) return;
    memmove(state.text + n + 2, state.text, len + 1);
    memcpy(state.text, op, n);
    memcpy(state.text + n, ": ", 2);
}

void error_capture(struct error_record *out)
{
    if (error_pending) {
        *out = state;
    } else {
        *out = (struct error_record){.code = KILN_OK};
    }
    kiln_error_clear();
}

kiln_status error_raise(const struct error_record *r)
{
    if (error_pending || r->code == KILN_OK) return error_pending;
    state = *r;
    error_pending = state.code;
    // A library thread has no caller: the place is that of the thread which asks for its result.
    if (!state.has_place) append_place(&state);
    return error_pending;
}

kiln_status kiln_error(void)
{
    return error_pending;
}

const char *kiln_error_message(void)
{
    return error_pending ? state.text : "";
}

void kiln_error_clear(void)
{
    error_pending = KILN_OK;
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
    case KILN_E_UNSUPPORTED: return "KILN_E_UNSUPPORTED";
    case KILN_E_DEVICE: return "KILN_E_DEVICE";
    case KILN_E_DEVICE_MEMORY: return "KILN_E_DEVICE_MEMORY";
    case KILN_E_DEVICE_LOST: return "KILN_E_DEVICE_LOST";
    case KILN_E_INTERNAL: return "KILN_E_INTERNAL";
    }
    return "unknown status";
}
