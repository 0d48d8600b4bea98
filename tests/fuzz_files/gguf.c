// Fuzzer of GGUF files: what loads is saved as safetensors.
#include "fuzz_file.h"

static void look_at_packed(const char *path)
{
    kiln_archive *a = kiln_gguf_load(path);
    if (!a) {
        FUZZ_REFUSED(FUZZ_BAD_FILE);
        return;
    }
    for (size_t i = 0; i < kiln_archive_count(a); i++) {
        const char *format = NULL;
        kiln_tensor *t = kiln_archive_packed(a, NULL, kiln_archive_name(a, i), &format);
        if (!t) FUZZ_REFUSED(FUZZ_BAD_FILE, KILN_E_ARGUMENT);
        NEED(!t == !format);
        kiln_free(&t);
    }
    kiln_archive_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    fuzz_begin();
    const char *path = fuzz_input(data, size_B);
    look_at_packed(path);
    fuzz_foreign_archive(path, kiln_gguf_load, kiln_safetensors_load, kiln_safetensors_save);
    fuzz_end();
    return 0;
}
