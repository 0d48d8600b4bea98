// Nothing writes IDX: an array that was read is compared with the bytes of a plain file, and goes through npy.
#include "fuzz_file.h"

static void compare(const kiln_tensor *t, const uint8_t *data, size_t size_B)
{
    size_t rank = kiln_rank(t), item_B = kiln_dtype_size(kiln_tensor_dtype(t)), n = (size_t)kiln_numel(t);
    NEED(size_B == 4 + 4 * rank + n * item_B);
    uint8_t *got = malloc(n * item_B + 1);
    NEED(got && !kiln_read(t, got, n * item_B));
    const uint8_t *at = data + 4 + 4 * rank;
    for (size_t i = 0; i < n * item_B; i++) NEED(got[i] == at[i - i % item_B + item_B - 1 - i % item_B]);
    free(got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    fuzz_begin();
    kiln_tensor *t = kiln_idx_load(NULL, fuzz_input(data, size_B));
    if (t) {
        if (data[0] == 0) compare(t, data, size_B);
        NEED(!kiln_npy_save(fuzz_saved[0], t));
        kiln_tensor *again = kiln_npy_load(NULL, fuzz_saved[0]);
        NEED(again != NULL);
        fuzz_need_same_tensors(t, again);
    } else {
        FUZZ_REFUSED(FUZZ_BAD_FILE);
    }
    fuzz_end();
    return 0;
}
