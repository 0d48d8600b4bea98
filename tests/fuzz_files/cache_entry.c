// A kernel's file in the cache folder. Its key is the same in all runs, for the key is the process's, not the file's.
// The mutator writes the sizes and the hash that fit.
#include "fuzz_file.h"

#include "base/hash.h"
#include "program/disk.h"

#include <dirent.h>
#include <sys/stat.h>

static const char key_text[] = "the key of the fuzzer";
static struct str key;
static char path[512];

enum { KEY_AT = 8 + 3 * 8 + 64, CODE_AT = KEY_AT + sizeof key_text - 1, HASH_AT = 24, SYMBOL_AT = 32 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size_B, size_t max_B, unsigned seed)
{
    size_t n = LLVMFuzzerMutate(data, size_B, max_B);
    if (seed % 4 == 0 || n < CODE_AT) return n;
    memcpy(data, "kilnk01", 8);
    data[SYMBOL_AT + 63] = 0;
    memcpy(data + KEY_AT, key_text, sizeof key_text - 1);
    uint64_t sizes[] = {sizeof key_text - 1, n - CODE_AT};
    uint64_t hash = hash_bytes(hash_bytes(0, key_text, sizes[0]), data + CODE_AT, sizes[1]);
    hash = hash_bytes(hash, data + SYMBOL_AT, strlen((char *)data + SYMBOL_AT));
    memcpy(data + 8, sizes, sizeof sizes);
    memcpy(data + HASH_AT, &hash, sizeof hash);
    return n;
}

// The first entry tells where an entry with this key lies.
static void find_path(void)
{
    str_init(&key);
    str_add(&key, key_text);
    disk_store(DISK_OBJECT, &key, "f", "code", 4);
    DIR *d = opendir("objects");
    NEED(d != NULL);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') snprintf(path, sizeof path, "objects/%s", e->d_name);
    closedir(d);
    NEED(*path);
}

static void need_code(const char *symbol, const void *code, size_t size_B)
{
    char found_symbol[64];
    size_t found_B = 0;
    char *found = disk_load(DISK_OBJECT, &key, found_symbol, &found_B);
    NEED(found && found_B == size_B && !memcmp(found, code, size_B) && !strcmp(found_symbol, symbol));
    free(found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    if (!*path) find_path();
    fuzz_begin();
    NEED(!rename(fuzz_input(data, size_B), path));
    char symbol[64];
    size_t code_B = 0;
    char *code = disk_load(DISK_OBJECT, &key, symbol, &code_B);
    if (code) {
        NEED(memchr(symbol, 0, sizeof symbol) && code_B <= size_B && !memcmp(code, data + size_B - code_B, code_B));
        disk_store(DISK_OBJECT, &key, symbol, code, code_B);
        size_t stored_B;
        char *stored = fuzz_read_file(path, &stored_B);
        NEED(stored_B == size_B && !memcmp(stored, data, size_B));
        free(stored);
        need_code(symbol, code, code_B);
    } else {
        disk_store(DISK_OBJECT, &key, "f", "code", 4); // what is no entry is replaced
        need_code("f", "code", 4);
    }
    free(code);
    fuzz_end();
    return 0;
}
