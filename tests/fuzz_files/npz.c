// The mutator gives stored members, where a change of their bytes is meant to be read, the checksum that fits.
#include "fuzz_file.h"

#include <zlib.h>

enum { LOCAL_B = 30, CENTRAL_B = 46, END_B = 22 };

static uint32_t get(const uint8_t *at, int n)
{
    uint32_t v = 0;
    for (int i = 0; i < n; i++) v |= (uint32_t)at[i] << 8 * i;
    return v;
}

static void seal_member(uint8_t *data, size_t size_B, uint8_t *central)
{
    uint32_t packed_B = get(central + 20, 4), at = get(central + 42, 4);
    if (get(central + 10, 2) || at > size_B - LOCAL_B) return;
    size_t data_at = at + LOCAL_B + get(data + at + 26, 2) + get(data + at + 28, 2);
    if (data_at > size_B || packed_B > size_B - data_at) return;
    uint32_t crc = (uint32_t)crc32(0, data + data_at, packed_B);
    for (int i = 0; i < 4; i++) central[16 + i] = (uint8_t)(crc >> 8 * i);
}

static void seal(uint8_t *data, size_t size_B)
{
    if (size_B < LOCAL_B + CENTRAL_B + END_B) return;
    for (size_t at = get(data + size_B - END_B + 16, 4); at < size_B - CENTRAL_B && !memcmp(data + at, "PK\1\2", 4);) {
        seal_member(data, size_B, data + at);
        at += CENTRAL_B + get(data + at + 28, 2) + get(data + at + 30, 2) + get(data + at + 32, 2);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size_B, size_t max_B, unsigned seed)
{
    size_t n = LLVMFuzzerMutate(data, size_B, max_B);
    if (seed % 8) seal(data, n);
    return n;
}

static kiln_status save(const char *path, const char *const *names, kiln_tensor *const *tensors, size_t n)
{
    return kiln_npz_save(path, names, tensors, n, NULL);
}

static kiln_status save_deflated(const char *path, const char *const *names, kiln_tensor *const *tensors, size_t n)
{
    return kiln_npz_save(path, names, tensors, n, KILN_NPZ(.compress = true));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    fuzz_begin();
    const char *path = fuzz_input(data, size_B);
    fuzz_archive(path, kiln_npz_load, save);
    fuzz_archive(path, kiln_npz_load, save_deflated);
    fuzz_end();
    return 0;
}
