// Compiled kernels on disk, so that a second process compiles nothing.
#pragma once
#include "base/str.h"

// `key`: all that the code depends on; compared in full. The code, from malloc, or NULL when there is none (none that
// is whole, and of this key). `symbol`: 64 bytes, the function's name in an object.
void *disk_load(const struct str *key, char *symbol, size_t *size_B);
void disk_store(const struct str *key, const char *symbol, const void *code, size_t size_B);
