// What was found out on the way from a capture to its kernels, so that a second process need not: compiled kernels, and
// decisions about graphs.
#pragma once
#include "base/cache.h"
#include "base/str.h"

// Machine code of the host, SPIR-V; which passes change a graph, which units become one kernel.
enum disk_kind {
    DISK_OBJECT = CACHE_OBJECTS,
    DISK_MODULE = CACHE_MODULES,
    DISK_PASSES = CACHE_PASSES,
    DISK_FUSION = CACHE_FUSION,
    DISK_KINDS
};
enum { DISK_NAME_B = 64 };

// What a file is known by begins with its kind and the build of this library: rows of tables stand in it as numbers,
// and what becomes of a graph changes between releases.
void disk_begin_key(struct str *key, enum disk_kind kind);
// `key`: all that the content depends on; compared in full. The content, from malloc, or NULL when there is none (none
// that is whole, and of this key). `name`: DISK_NAME_B bytes, of the function in an object; of the rest for people.
void *disk_load(enum disk_kind kind, const struct str *key, char *name, size_t *size_B);
void disk_store(enum disk_kind kind, const struct str *key, const char *name, const void *content, size_t size_B);
// What a file of the cache is, whoever wrote it.
enum disk_state {
    DISK_GOOD,
    DISK_OTHER_BUILD, // whole, of another build of the library: never read again
    DISK_DAMAGED,     // not whole, not under its name, or nothing that the library has written
};
enum disk_state disk_check(enum disk_kind kind, const char *file_name, const void *file, size_t file_B, char *name);
// Whether there is anything of that kind at all, be it of another version.
bool disk_has(enum disk_kind kind);
