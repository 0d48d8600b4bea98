// What the library keeps for a thread, and that it goes when the thread ends.
#pragma once
#include <stdbool.h>

// Storage that one load reads. It lies in the few hundred bytes that the loader sets aside for all libraries that a
// program opens while it runs, so what is large is a pointer there; a test holds the library to that.
#define THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

// In the order in which they go: what a part lets go may come back to a later one.
enum thread_part {
    THREAD_SCOPES,
    THREAD_GENERATOR,
    THREAD_DEVICE,
    THREAD_TAPE,
    THREAD_HANDLES,
    THREAD_STORAGES,
    THREAD_SCRATCH,
    THREAD_TEXTS,
    THREAD_PLACE,
    THREAD_ERROR,
    THREAD_SECTIONS,
    THREAD_PARTS
};

// `drop` runs on the calling thread when that ends, and then has to be asked for anew. The same function each time.
// Scopes, devices and sections of the thread that ends the process are left as they are.
void thread_at_end(enum thread_part part, void (*drop)(void));
// In a drop: whether the process ends, not this thread alone.
bool thread_ends_process(void);
