// Status, error state and the macros every layer uses.
#pragma once
#include <kiln/error.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KILN_LIKELY(x)   __builtin_expect(!!(x), 1)
#define KILN_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define COUNT_OF(a)      (sizeof(a) / sizeof((a)[0]))

static inline uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

// Internals return a status; the detail is recorded once, where the error arises.
#define TRY(expr)                                           \
    do {                                                    \
        kiln_status try_status_ = (expr);                   \
        if (KILN_UNLIKELY(try_status_)) return try_status_; \
    } while (0)

// Records the first error of this thread (later ones are ignored while it is pending) and returns its code. The text
// is formatted into the thread's buffer, made at its first error; " (file.c:line)" of the caller's frame is appended.
kiln_status error_set(kiln_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
kiln_status error_setv(kiln_status code, const char *format, va_list args);
// Puts "op: " before the pending text unless it begins so: for failures of memory and drivers, which know of no op.
void error_name_op(const char *op);
// Like error_set, but into a buffer that a library thread hands over; see error_raise.
struct error_record {
    kiln_status code;
    bool has_place;
    char text[1024];
};
void error_capture(struct error_record *out);          // moves this thread's pending error into *out
kiln_status error_raise(const struct error_record *r); // makes *r this thread's pending error
// The hot path's check: nonzero while an error is pending. In static thread storage, so that reading it is one load.
extern _Thread_local kiln_status error_pending __attribute__((tls_model("initial-exec")));

// Warnings go to the log callback; each distinct text is reported once.
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn_here(const char *format, ...) __attribute__((format(printf, 1, 2))); // and the caller's line behind it

// Environment switches, read once.
bool debug_flag(const char *name); // KILN_DEBUG=name,name
