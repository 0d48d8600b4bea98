// Zeros with their signs, infinities and NaN as results of single ops.
//
// "precise" in GLSL, NoContraction in SPIR-V, forbids to join ops. Whether a driver may take x - x for 0, or x + 0 for
// x, which holds for numbers alone, is another question: it may not where the entry point has the mode
// SignedZeroInfNanPreserve (SPIR-V Specification 1.5, section 3.6), which GLSL has no word for.
#include "spirv/spirv.h"
#include "spirv/words.h"

#include <stdlib.h>
#include <string.h>

enum { MODE_WORDS = 4, CAPABILITY_WORDS = 2, MAX_WIDTHS = 3 };

// The widths among these in which the module computes.
static int widths_of(const uint32_t *words, size_t n_words, const struct spirv_widths *supported, uint32_t *out)
{
    int n = 0;
    if (supported->f32) out[n++] = 32;
    if (supported->f16 && spirv_declares(words, n_words, SPV_CAPABILITY_F16)) out[n++] = 16;
    if (supported->f64 && spirv_declares(words, n_words, SPV_CAPABILITY_F64)) out[n++] = 64;
    return n;
}

// Behind the first entry point; 0 where there is none.
static size_t behind_entry(const uint32_t *words, size_t n_words)
{
    for (size_t at = SPV_HEADER_WORDS; at < n_words && spirv_length(words[at]); at += spirv_length(words[at]))
        if (spirv_op(words[at]) == SPV_OP_ENTRY_POINT) return at + spirv_length(words[at]);
    return 0;
}

static uint32_t entry_id(const uint32_t *words, size_t behind)
{
    size_t at = SPV_HEADER_WORDS;
    while (at + spirv_length(words[at]) < behind) at += spirv_length(words[at]);
    return words[at + 2];
}

kiln_status spirv_keep_numbers(const uint32_t *words, size_t n_words, const struct spirv_widths *supported,
                               struct spirv *out)
{
    uint32_t widths[MAX_WIDTHS];
    int n = widths_of(words, n_words, supported, widths);
    size_t split = n ? behind_entry(words, n_words) : 0;
    *out = (struct spirv){0};
    if (!split) return KILN_OK;
    uint32_t *to = malloc((n_words + CAPABILITY_WORDS + MODE_WORDS * MAX_WIDTHS) * sizeof *to);
    if (!to) return error_set(KILN_E_MEMORY, "out of memory for a shader module");
    *out = (struct spirv){.words = to};
    memcpy(to, words, SPV_HEADER_WORDS * sizeof *to);
    to += SPV_HEADER_WORDS;
    *to++ = spirv_first_word(CAPABILITY_WORDS, SPV_OP_CAPABILITY);
    *to++ = SPV_CAPABILITY_KEEP_NUMBERS;
    memcpy(to, words + SPV_HEADER_WORDS, (split - SPV_HEADER_WORDS) * sizeof *to);
    to += split - SPV_HEADER_WORDS;
    for (int i = 0; i < n; i++) {
        *to++ = spirv_first_word(MODE_WORDS, SPV_OP_EXECUTION_MODE);
        *to++ = entry_id(words, split);
        *to++ = SPV_MODE_KEEP_NUMBERS;
        *to++ = widths[i];
    }
    memcpy(to, words + split, (n_words - split) * sizeof *to);
    out->n_words = (size_t)(to - out->words) + n_words - split;
    return KILN_OK;
}
