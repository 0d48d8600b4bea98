// Fuzzer of PyTorch's files: what loads is saved as safetensors. The input is a pickle, to which the file is made
// around.
#include "fuzz_file.h"

struct zip {
    uint8_t *v, directory[512];
    size_t n, directory_n, members;
};

static uint8_t *put(uint8_t *at, uint64_t value, int size_B)
{
    for (int i = 0; i < size_B; i++) *at++ = (uint8_t)(i < 8 ? value >> 8 * i : 0);
    return at;
}

static void add(struct zip *z, const char *name, const uint8_t *data, size_t size_B)
{
    uint8_t common[26], *at = put(put(common, 20, 2), 0, 8), *entry = z->directory + z->directory_n;
    at = put(at, 0, 4); // no checksum, as PyTorch may be told
    put(put(put(at, size_B, 4), size_B, 4), strlen(name), 4);
    entry = put(put(entry, 0x02014b50, 4), 20, 2);
    memcpy(entry, common, sizeof common);
    entry = put(put(entry + sizeof common, 0, 10), z->n, 4);
    memcpy(entry, name, strlen(name));
    z->directory_n = (size_t)(entry - z->directory) + strlen(name);
    put(z->v + z->n, 0x04034b50, 4);
    memcpy(z->v + z->n + 4, common, sizeof common);
    memcpy(z->v + z->n + 30, name, strlen(name));
    memcpy(z->v + z->n + 30 + strlen(name), data, size_B);
    z->n += 30 + strlen(name) + size_B;
    z->members++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    static const uint8_t storage[64] = {0, 0, 128, 63, 1, 0, 0, 0, 2, 1};
    struct zip z = {.v = malloc(size_B + 1024)};
    NEED(z.v != NULL);
    add(&z, "x/data.pkl", data, size_B);
    add(&z, "x/data/0", storage, sizeof storage);
    add(&z, "x/data/1", storage, 0);
    size_t directory_at = z.n;
    memcpy(z.v + z.n, z.directory, z.directory_n);
    uint8_t *at = put(put(z.v + z.n + z.directory_n, 0x06054b50, 4), 0, 4);
    at = put(put(at, z.members, 2), z.members, 2);
    at = put(put(put(at, z.directory_n, 4), directory_at, 4), 0, 2);
    fuzz_begin();
    fuzz_foreign_archive(fuzz_input(z.v, (size_t)(at - z.v)), kiln_torch_load, kiln_safetensors_load,
                         kiln_safetensors_save);
    fuzz_end();
    free(z.v);
    return 0;
}
