// PNG and JPEG: what loads is saved as PNG, loads again as the same, and the sizes that its header gives are its own.
#include "fuzz_file.h"

#include <kiln/media.h>
#include <unistd.h>
#include <zlib.h>

enum { PIXELS_MAX = 1 << 20 };

static void check(int64_t dims[3])
{
    kiln_tensor *t = kiln_load_image(NULL, "input", 0);
    if (!t) {
        FUZZ_REFUSED(FUZZ_BAD_FILE);
        return;
    }
    NEED(kiln_rank(t) == 3 && !memcmp(kiln_dims(t), dims, 3 * sizeof *dims));
    // The name says what is written.
    NEED(!kiln_save_image("saved.png", t, NULL));
    kiln_tensor *again = kiln_load_image(NULL, "saved.png", 0);
    NEED(again != NULL);
    fuzz_need_same_tensors(t, again);
    NEED(!unlink("saved.png"));
    kiln_tensor *grey = kiln_load_image(NULL, "input", 1), *alpha = kiln_load_image(NULL, "input", 4);
    NEED(grey && alpha && kiln_dim(grey, 2) == 1 && kiln_dim(alpha, 2) == 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    int64_t dims[3];
    fuzz_begin();
    fuzz_input(data, size_B);
    if (kiln_image_size("input", dims))
        FUZZ_REFUSED(FUZZ_BAD_FILE);
    else if (dims[0] * dims[1] <= PIXELS_MAX)
        check(dims);
    fuzz_end();
    return 0;
}

// Puts the checksums of chunks right.
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size_B, size_t max_B, unsigned seed)
{
    size_B = LLVMFuzzerMutate(data, size_B, max_B);
    for (size_t at = 8; seed % 8 && size_B >= 12 && at <= size_B - 12;) {
        size_t n = (size_t)data[at] << 24 | (size_t)data[at + 1] << 16 | (size_t)data[at + 2] << 8 | data[at + 3];
        if (n > size_B - 12 - at) break;
        uint32_t crc = (uint32_t)crc32(0, data + at + 4, (uInt)n + 4);
        for (int k = 0; k < 4; k++) data[at + 8 + n + (size_t)k] = (uint8_t)(crc >> (24 - 8 * k));
        at += 12 + n;
    }
    return size_B;
}
