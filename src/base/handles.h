// Objects that callers hold by address: devices, cells, functions ... What was freed is told from what is alive, so
// that a stale pointer is an error and not a crash.
#pragma once
#include "base/base.h"

enum handle_kind {
    HANDLE_DEVICE,
    HANDLE_GRAPH,
    HANDLE_FUNCTION,
    HANDLE_CELL,
    HANDLE_OPTIM,
    HANDLE_SCHEDULE,
    HANDLE_LOADER,
    HANDLE_ARCHIVE,
    HANDLE_CHECKPOINT,
    HANDLE_REGION,
    HANDLE_BUNDLE,
    HANDLE_MODEL,
    HANDLE_AVERAGE,
    HANDLE_GENERATOR,
    HANDLE_TABLE,
    HANDLE_VOCABULARY,
    HANDLE_TRAINING,
    HANDLE_METRIC,
    HANDLE_KINDS,
};

void *handle_new(enum handle_kind kind, size_t size_B); // zeroed; the size is one a kind. NULL without an error
void handle_close(void *p);                             // to callers it is freed from now on
void handle_free(enum handle_kind kind, void *p);       // the memory too; NULL is fine
// Whether p is alive: "call: f is NULL", "call: the function was freed".
kiln_status handle_check(const char *function, const char *argument, enum handle_kind kind, const void *p);
// Whether a function that frees has something to do: not for NULL; a pointer to what was freed is nulled, with an
// error.
bool handle_may_free(const char *function, enum handle_kind kind, void *pointer);
