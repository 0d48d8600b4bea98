// Fuzzer of weights as a function gets them: a file of any format, whole, as a bundle, of which products take what is
// packed; saved, it is the same bundle again.
#include "fuzz_file.h"

static bool ends_with_format(const char *name)
{
    size_t n = strlen(name);
    return n > 7 && !strcmp(name + n - 7, ".format");
}

// A product with weights that are packed has the type that the packing says.
static void multiply(const kiln_bundle *b, int64_t i, int64_t format)
{
    kiln_tensor *w = kiln_bundle_tensor_at(b, i);
    if (kiln_rank(w) != 2) return;
    kiln_tensor *unpacked = kiln_unpack_blocks(w, format);
    NEED(unpacked != NULL);
    kiln_tensor *x = kiln_zeros(NULL, KILN_F32, KILN_SHAPE(1, kiln_dim(unpacked, 1)));
    kiln_tensor *y = kiln_matmul_packed(x, w, format);
    NEED(y && kiln_dim(y, 1) == kiln_dim(unpacked, 0));
}

// Of the numbers that stand behind packed weights nothing is left.
static void take_formats_out(kiln_bundle *b)
{
    for (int64_t i = (int64_t)kiln_bundle_count(b) - 1; i > 0; i--) {
        if (kiln_bundle_kind_at(b, i) != KILN_KIND_INT) continue;
        NEED(ends_with_format(kiln_bundle_name(b, i)));
        multiply(b, i - 1, kiln_bundle_int_at(b, i));
        NEED(!kiln_bundle_remove_at(b, i));
    }
}

static void save_and_load(const kiln_bundle *b)
{
    if (kiln_bundle_save(b, fuzz_saved[0])) {
        FUZZ_REFUSED(KILN_E_ARGUMENT); // a name that safetensors cannot have
        return;
    }
    kiln_archive *a = kiln_archive_load(fuzz_saved[0]);
    NEED(a != NULL);
    kiln_bundle *again = kiln_archive_bundle(a, NULL, NULL);
    kiln_archive_free(&a);
    NEED(again && kiln_bundle_count(again) == kiln_bundle_count(b));
    for (size_t i = 0; i < kiln_bundle_count(b); i++)
        fuzz_need_same_tensors(kiln_bundle_tensor_at(b, (int64_t)i),
                               kiln_bundle_tensor(again, kiln_bundle_name(b, (int64_t)i)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    fuzz_begin();
    kiln_scope *scope = kiln_scope_begin();
    kiln_archive *a = kiln_archive_load(fuzz_input(data, size_B));
    kiln_bundle *b = a ? kiln_archive_bundle(a, NULL, KILN_ARCHIVE_BUNDLE(.packed = true)) : NULL;
    kiln_archive_free(&a);
    if (!b)
        FUZZ_REFUSED(FUZZ_BAD_FILE, KILN_E_ARGUMENT); // an empty name, or one that ends in ".format" already
    else {
        take_formats_out(b);
        save_and_load(b);
    }
    kiln_scope_end(&scope);
    fuzz_end();
    return 0;
}
