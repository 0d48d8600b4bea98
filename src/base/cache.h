// Files that only save time: in the owner's cache folder, whole or absent, ignored when anything about them is odd.
// None of these functions reports an error.
#pragma once
#include "base/base.h"

// $KILN_CACHE_DIR, else kiln in $XDG_CACHE_HOME, else .cache/kiln in the home folder. False when there is none.
bool cache_folder(char *out, size_t cap);
// The whole file, from malloc; NULL unless it is a plain file of this user of at most max_B bytes, which nobody else
// may write, in a folder of which the same is true, and which others cannot exchange: the folders above are the user's
// or the superuser's, and closed to others' writing or sticky.
void *cache_read(const char *path, size_t max_B, size_t *size_B);
// Writes `head`, then `data`, to a new file and renames it to `path`; removes what killed processes left on the way.
// Makes the folder that `path` is in, open to the owner alone; does nothing when the folder is not one that cache_read
// would read from.
void cache_write(const char *path, const void *head, size_t head_B, const void *data, size_t size_B);
// Whether the folder holds anything.
bool cache_has_files(const char *folder);
