// Slices of a launch over the rows of a product: the block of words, or the launch, of all rows with its addresses
// moved and its first size cut.
#include "cpu/kernels/after.h"
#include "cpu/parallel.h"
#include <string.h>

enum { MOST_WORDS = 1024, COST = 4 }; // of an element, in those of a cheap loop

static kiln_status slice_of_launch(const struct launch_after *a, int64_t i)
{
    struct launch l = *a->launch;
    l.sizes[0] = a->first_size[i == a->slices - 1];
    for (int o = 0; o < a->n_operands; o++) l.operands[o].address += (uint64_t)(i * a->step_B[o]);
    return CPU_FN(cpu_pointwise)(cpu_kernel_of(l.kernel), &l);
}

kiln_status CPU_FN(cpu_after)(const struct launch_after *a, int64_t begin, int64_t end)
{
    uint64_t words[MOST_WORDS];
    if (!a->launch && a->n_words > MOST_WORDS)
        return error_set(KILN_E_INTERNAL, "a block of %d words behind a product", a->n_words);
    for (int64_t i = begin; i < end; i++) {
        if (a->launch) {
            TRY(slice_of_launch(a, i));
            continue;
        }
        int last = i == a->slices - 1;
        memcpy(words, a->words, (size_t)a->n_words * sizeof *words);
        for (int p = 0; p < a->n_patches; p++) words[a->patch_at[p]] = a->patch[last][p];
        for (int o = 0; o < a->n_operands; o++) words[o] += (uint64_t)(i * a->step_B[o]);
        a->run(words, 0, a->units[last]);
    }
    return KILN_OK;
}

static kiln_status run_range(void *user, int64_t begin, int64_t end)
{
    return CPU_FN(cpu_after)(user, begin, end);
}

kiln_status CPU_FN(cpu_after_all)(const struct launch_after *a)
{
    return cpu_parallel(a->slices, COST * a->points, run_range, (void *)(uintptr_t)a);
}
