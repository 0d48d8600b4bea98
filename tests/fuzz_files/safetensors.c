// Fuzzer of safetensors files.
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    fuzz_begin();
    fuzz_archive(fuzz_input(data, size_B), kiln_safetensors_load, kiln_safetensors_save);
    fuzz_end();
    return 0;
}
