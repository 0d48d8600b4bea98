// One file a kernel or decision: a header, the key, the content. Its name is a hash of the key; a file whose key is
// another's, or whose bytes do not have the hash that the header states, is ignored and replaced.
#include "program/disk.h"
#include "base/build_id.h"
#include "base/hash.h"
#include <kiln/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_B = 64 << 20, SYMBOL_B = DISK_NAME_B };

struct disk_header {
    char magic[8];
    uint64_t key_B, code_B, hash; // of key and code
    char symbol[SYMBOL_B];
};

static const char *const kinds[DISK_KINDS] = {"object", "module", "passes", "fusion"};

void disk_begin_key(struct str *key, enum disk_kind kind)
{
    str_addf(key, "%s %s ", kinds[kind], KILN_VERSION_STRING);
    build_id_add(key, kinds);
    str_add(key, "\n");
}

static void file_name(const struct str *key, char *out, size_t cap)
{
    uint64_t a = hash_bytes(1, str_text(key), key->len), b = hash_bytes(2, str_text(key), key->len);
    snprintf(out, cap, "%016llx%016llx", (unsigned long long)a, (unsigned long long)b);
}

static bool file_path(enum disk_kind kind, const struct str *key, char *out, size_t cap)
{
    char folder[3072], name[40];
    if (!cache_kind_folder((enum cache_kind)kind, folder, sizeof folder)) return false;
    file_name(key, name, sizeof name);
    int n = snprintf(out, cap, "%s/%s", folder, name);
    return n > 0 && (size_t)n < cap;
}

static struct disk_header header_of(const struct str *key, const char *symbol, const void *code, size_t size_B)
{
    struct disk_header h = {.magic = "kilnk01", .key_B = key->len, .code_B = size_B};
    snprintf(h.symbol, sizeof h.symbol, "%s", symbol);
    h.hash = hash_bytes(hash_bytes(0, str_text(key), key->len), code, size_B);
    h.hash = hash_bytes(h.hash, h.symbol, strlen(h.symbol));
    return h;
}

// Where the code is in the file; NULL when the file is not what it should be.
static const char *find_code(const struct str *key, const char *file, size_t file_B, struct disk_header *h)
{
    if (file_B < sizeof *h) return NULL;
    memcpy(h, file, sizeof *h);
    if (h->symbol[SYMBOL_B - 1] || h->key_B != key->len || file_B - sizeof *h < h->key_B ||
        h->code_B != file_B - sizeof *h - h->key_B)
        return NULL;
    const char *code = file + sizeof *h + h->key_B;
    struct disk_header expected = header_of(key, h->symbol, code, h->code_B);
    bool same = !memcmp(h, &expected, sizeof *h) && !memcmp(file + sizeof *h, str_text(key), key->len);
    return same ? code : NULL;
}

void *disk_load(enum disk_kind kind, const struct str *key, char *symbol, size_t *size_B)
{
    char path[4096];
    size_t file_B = 0;
    struct disk_header h;
    char *file = file_path(kind, key, path, sizeof path) ? cache_read(path, MAX_FILE_B, &file_B) : NULL;
    const char *code = file ? find_code(key, file, file_B, &h) : NULL;
    void *copy = code ? malloc(h.code_B ? h.code_B : 1) : NULL;
    if (copy) {
        memcpy(copy, code, h.code_B);
        memcpy(symbol, h.symbol, sizeof h.symbol);
        *size_B = h.code_B;
    }
    free(file);
    return copy;
}

void disk_store(enum disk_kind kind, const struct str *key, const char *symbol, const void *code, size_t size_B)
{
    char path[4096];
    if (size_B > MAX_FILE_B / 2 || key->len > MAX_FILE_B / 4 || !file_path(kind, key, path, sizeof path)) return;
    struct disk_header h = header_of(key, symbol, code, size_B);
    char *body = malloc(key->len + size_B);
    if (!body) return;
    memcpy(body, str_text(key), key->len);
    if (size_B) memcpy(body + key->len, code, size_B);
    cache_write(path, &h, sizeof h, body, key->len + size_B);
    free(body);
}

enum disk_state disk_check(enum disk_kind kind, const char *name_of_file, const void *file, size_t file_B, char *name)
{
    struct disk_header h;
    char expected[40];
    struct str begin;
    *name = 0;
    if (file_B < sizeof h) return DISK_DAMAGED;
    memcpy(&h, file, sizeof h);
    if (h.key_B > file_B - sizeof h || h.key_B > MAX_FILE_B) return DISK_DAMAGED;
    struct str key = {.text = (char *)file + sizeof h, .len = h.key_B};
    file_name(&key, expected, sizeof expected);
    if (!find_code(&key, file, file_B, &h) || strcmp(expected, name_of_file)) return DISK_DAMAGED;
    memcpy(name, h.symbol, sizeof h.symbol);
    str_init(&begin);
    disk_begin_key(&begin, kind);
    bool ours = !begin.failed && key.len >= begin.len && !memcmp(key.text, str_text(&begin), begin.len);
    str_free(&begin);
    return ours ? DISK_GOOD : DISK_OTHER_BUILD;
}

bool disk_has(enum disk_kind kind)
{
    char folder[3072];
    return cache_kind_folder((enum cache_kind)kind, folder, sizeof folder) && cache_has_files(folder);
}
