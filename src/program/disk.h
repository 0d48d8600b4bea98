// Compiled kernels on disk, so that a second process compiles nothing.
#pragma once
#include "base/str.h"

enum disk_kind { DISK_OBJECT, DISK_MODULE }; // machine code of the host, SPIR-V

// `key`: all that the code depends on; compared in full. The code, from malloc, or NULL when there is none (none that
// is whole, and of this key). `symbol`: 64 bytes, the function's name in an object.
void *disk_load(enum disk_kind kind, const struct str *key, char *symbol, size_t *size_B);
void disk_store(enum disk_kind kind, const struct str *key, const char *symbol, const void *code, size_t size_B);
// Whether there is code of that kind at all, be it of another version.
bool disk_has(enum disk_kind kind);
