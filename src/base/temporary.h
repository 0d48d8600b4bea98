// Files that are written under a name of their own, "NAME.PROCESS-NUMBER.tmp", before they take the place of NAME, of
// which a long one is cut. A process that is killed leaves its own behind; others remove it.
#pragma once
#include <stddef.h>
#include <sys/types.h>

// What a temporary name has beyond NAME, its zero included.
#define TEMPORARY_MORE_B 48

// Opens a new file for writing and locks it, until it is closed, where the file system has locks. `name` may be a path
// below `folder` (or AT_FDCWD), and `temporary` gets the name of the new file. -1 with errno.
int temporary_create(int folder, const char *name, mode_t mode, char *temporary, size_t cap);
// Removes those of processes that are gone: of `name` in the folder, or, for NULL, of every name. Never fails.
void temporary_sweep(int folder, const char *name);
