// Fuzzer of .npy files: what loads is the same after it was saved, and is refused with a reason otherwise.
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    fuzz_begin();
    kiln_tensor *t = kiln_npy_load(NULL, fuzz_input(data, size_B));
    if (t) {
        NEED(!kiln_npy_save(fuzz_saved[0], t));
        kiln_tensor *again = kiln_npy_load(NULL, fuzz_saved[0]);
        NEED(again != NULL);
        fuzz_need_same_tensors(t, again);
        NEED(!kiln_npy_save(fuzz_saved[1], again));
        fuzz_need_same_files(fuzz_saved[0], fuzz_saved[1]);
    } else {
        FUZZ_REFUSED(FUZZ_BAD_FILE);
    }
    fuzz_end();
    return 0;
}
