// Texts: what is UTF-8 goes to numbers and back to the same bytes, by a vocabulary of its characters, which its own
// text makes again; any bytes do by that of the bytes.
#include "fuzz_file.h"

#include <kiln/text.h>

static void there_and_back(const kiln_vocabulary *v, const uint8_t *data, size_t size_B)
{
    size_t n;
    kiln_tensor *ids = kiln_encode_file(v, NULL, "input", NULL);
    NEED(ids != NULL);
    char *again = kiln_decode(v, ids, &n);
    NEED(again && n == size_B && !memcmp(again, data, n) && again[n] == '\0');
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    fuzz_begin();
    kiln_vocabulary *bytes = kiln_vocabulary_bytes(), *v = kiln_vocabulary_of_file(fuzz_input(data, size_B));
    if (v) {
        there_and_back(v, data, size_B);
        const char *all = kiln_vocabulary_text(v);
        kiln_vocabulary *same = kiln_vocabulary_characters(all, strlen(all));
        NEED(same && !strcmp(kiln_vocabulary_text(same), all));
        kiln_vocabulary_free(&same);
    } else {
        FUZZ_REFUSED(KILN_E_FORMAT);
    }
    there_and_back(bytes, data, size_B);
    kiln_vocabulary_free(&bytes);
    kiln_vocabulary_free(&v);
    fuzz_end();
    return 0;
}
