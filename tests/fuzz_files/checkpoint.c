// The mutator writes the checksum that fits: the eight digits of "kiln.crc32", of the whole file with zeros for them.
#include "fuzz_file.h"

#include <zlib.h>

static const char opening[] = "{\"__metadata__\":{\"kiln.checkpoint\":\"1\",\"kiln.crc32\":\"";
enum { DIGITS = 8, DIGITS_AT = 8 + sizeof opening - 1 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size_B, size_t max_B, unsigned seed)
{
    size_t n = LLVMFuzzerMutate(data, size_B, max_B);
    if (seed % 8 == 0 || n < DIGITS_AT + DIGITS || memcmp(data + 8, opening, sizeof opening - 1) != 0) return n;
    char digits[DIGITS + 1];
    memset(data + DIGITS_AT, '0', DIGITS);
    snprintf(digits, sizeof digits, "%08x", (unsigned)crc32(0, data, (uInt)n));
    memcpy(data + DIGITS_AT, digits, DIGITS);
    return n;
}

// Each entry by name; the names are those that the file shows to readers of safetensors.
static void read_entries(const kiln_checkpoint *c, const char *path)
{
    kiln_archive *a = kiln_safetensors_load(path);
    NEED(a != NULL);
    for (size_t i = 0; i < kiln_archive_count(a); i++) {
        const char *name = kiln_archive_name(a, i);
        kiln_tensor *t = kiln_checkpoint_get(c, NULL, name), *same = kiln_archive_tensor(a, NULL, i);
        NEED(t && same);
        fuzz_need_same_tensors(t, same);
        if (*name) NEED(!kiln_checkpoint_restore(c, &name, &same, 1));
        kiln_free(&t);
        kiln_free(&same);
    }
    for (size_t i = 0; i < kiln_archive_metadata_count(a); i++) {
        const char *name, *value;
        int64_t integer;
        double number;
        NEED(!kiln_archive_metadata(a, i, &name, &value));
        if (kiln_checkpoint_get_int(c, name, &integer)) FUZZ_REFUSED(KILN_E_FORMAT, KILN_E_ARGUMENT);
        if (kiln_checkpoint_get_double(c, name, &number)) FUZZ_REFUSED(KILN_E_FORMAT, KILN_E_ARGUMENT);
        const char *text = kiln_checkpoint_get_string(c, name);
        if (!text)
            FUZZ_REFUSED(KILN_E_ARGUMENT);
        else
            NEED(!strcmp(text, value + strlen("string:")));
    }
    kiln_archive_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    fuzz_begin();
    const char *path = fuzz_input(data, size_B);
    kiln_checkpoint *c = kiln_checkpoint_load(path);
    if (c) {
        read_entries(c, path);
        NEED(!kiln_checkpoint_save(c, fuzz_saved[0]));
        kiln_checkpoint *again = kiln_checkpoint_load(fuzz_saved[0]);
        NEED(again != NULL);
        read_entries(again, path);
        NEED(!kiln_checkpoint_save(again, fuzz_saved[1]));
        fuzz_need_same_files(fuzz_saved[0], fuzz_saved[1]);
        kiln_checkpoint_free(&again);
    } else {
        FUZZ_REFUSED(FUZZ_BAD_FILE);
    }
    kiln_checkpoint_free(&c);
    fuzz_end();
    return 0;
}
