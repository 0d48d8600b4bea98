// Machine code as it lies in the cache, behind the name of its function and a byte that says whether there is a second
// one: what is loaded lies in its pages, what is not leaves nothing behind. The code itself is not run.
#include "fuzz_file.h"

#include "codegen/llvm/object.h"

enum { HEAD_B = 65 };

static bool lies_in(const struct llvm_function *f, uintptr_t at)
{
    return at >= (uintptr_t)f->loaded && at < (uintptr_t)f->loaded + f->mapped_B;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_B)
{
    struct codegen_code code = {0};
    struct llvm_function f;
    if (size_B < HEAD_B) return 0;
    memcpy(code.symbol, data, sizeof code.symbol - 1);
    code.plan.has_end = data[HEAD_B - 1] & 1;
    code.size_B = size_B - HEAD_B;
    code.code = malloc(code.size_B + 1); // a block of its own, so that reads behind it are seen
    NEED(code.code != NULL);
    memcpy(code.code, data + HEAD_B, code.size_B);
    code.code = realloc(code.code, code.size_B ? code.size_B : 1);
    fuzz_begin();
    if (object_load(&code, &f)) {
        NEED(lies_in(&f, (uintptr_t)f.run));
        NEED(code.plan.has_end ? lies_in(&f, (uintptr_t)f.end) : !f.end);
        object_unload(&f);
    } else {
        NEED(!f.run && !f.end && !f.loaded && !f.mapped_B);
    }
    fuzz_end();
    free(code.code);
    return 0;
}
