// WAV: what loads is saved as floats of 64 bits, which loads again as the same.
#include "fuzz_file.h"

#include <kiln/media.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    double rate = -1, rate_again = -1;
    fuzz_begin();
    const char *path = fuzz_input(data, size_B);
    kiln_tensor *t = kiln_load_wav(NULL, path, &rate, KILN_LOAD_WAV(.dtype = KILN_F64));
    if (!t) {
        FUZZ_REFUSED(FUZZ_BAD_FILE);
    } else if (kiln_save_wav(fuzz_saved[0], t, rate, KILN_SAVE_WAV(.bits = 64, .as_floats = true))) {
        // A rate of 0, and more channels than are written.
        FUZZ_REFUSED(KILN_E_ARGUMENT, KILN_E_SHAPE);
    } else {
        kiln_tensor *again = kiln_load_wav(NULL, fuzz_saved[0], &rate_again, KILN_LOAD_WAV(.dtype = KILN_F64));
        NEED(again != NULL && rate == rate_again);
        fuzz_need_same_tensors(t, again);
        NEED(!kiln_save_wav(fuzz_saved[0], t, rate, KILN_SAVE_WAV(.bits = 24)));
    }
    fuzz_end();
    return 0;
}
