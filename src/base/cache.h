// Files that only save time: in the owner's cache folder, whole or absent, ignored when anything about them is odd.
// None of these functions reports an error.
#pragma once
#include "base/base.h"

// A folder a kind, in the cache folder; what belongs to a device and its driver lies beside the folders.
enum cache_kind { CACHE_OBJECTS, CACHE_MODULES, CACHE_PASSES, CACHE_FUSION, CACHE_PIPELINES, CACHE_TILES, CACHE_KINDS };
extern const char *const cache_folders[CACHE_KINDS]; // "": the cache folder itself

// $KILN_CACHE_DIR, else kiln in $XDG_CACHE_HOME, else .cache/kiln in the home folder. False when there is none.
bool cache_folder(char *out, size_t cap);
// The whole file, from malloc; NULL unless it is a plain file of this user of at most max_B bytes, which nobody else
// may write, in a folder of which the same is true, and which others cannot exchange: the folders above are the user's
// or the superuser's, and closed to others' writing or sticky.
void *cache_read(const char *path, size_t max_B, size_t *size_B);
// Writes `head`, then `data`, to a new file and renames it to `path`; removes what killed processes left on the way.
// Makes the folder that `path` is in, open to the owner alone; does nothing when the folder is not one that cache_read
// would read from. Where the cache grows beyond its limit, what was last used longest ago goes.
void cache_write(const char *path, const void *head, size_t head_B, const void *data, size_t size_B);
// Whether the folder holds anything.
bool cache_has_files(const char *folder);

// --- all of it ---

enum { CACHE_NAME_B = 128 };
struct cache_file {
    enum cache_kind kind;
    char name[CACHE_NAME_B];
    bool temporary; // of a process that writes it, or was killed
    uint64_t size_B;
    int64_t used_ns; // since 1970
};
struct cache_files {
    struct cache_file *v; // the one used longest ago first
    size_t n;
    uint64_t size_B; // of all
};
// The library's files in the cache folder, and no others that may lie there. False: there is no folder that cache_read
// would read from, or no memory.
bool cache_list(struct cache_files *out);
void cache_list_free(struct cache_files *l);
// The file, as cache_read has it.
void *cache_read_file(const struct cache_file *f, size_t max_B, size_t *size_B);
bool cache_delete(const struct cache_file *f); // false with errno: it is still there, or ENOENT
// The path of the cache folder or of one in it; false: there is none.
bool cache_kind_folder(enum cache_kind kind, char *out, size_t cap);
// Bytes, of a number with K, M, G or T behind it; false: the text is none.
bool cache_size_parse(const char *text, uint64_t *out);
// $KILN_CACHE_LIMIT; 0: none.
uint64_t cache_limit_B(void);

// --- between the files of the cache ---

int cache_open_folder(const char *path, const char **name); // of the file, where its name begins; -1: not the user's
void cache_grew(uint64_t size_B);                           // by a file
