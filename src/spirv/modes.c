// What GLSL has no word for, and an entry point's modes say (SPIR-V Specification 1.5, section 3.6), as far as a device
// offers it.
//
// Zeros with their signs, infinities and NaN as results of single ops: "precise" in GLSL, NoContraction in SPIR-V,
// forbids to join ops. Whether a driver may take x - x for 0, or x + 0 for x, which holds for numbers alone, is another
// question: it may not where the mode is SignedZeroInfNanPreserve.
//
// f16 to f32 and back: rounding towards zero is as right as to nearest, and denormals may be 0, unless the modes are
// RoundingModeRTE and DenormPreserve. They bind OpFConvert. Of PackHalf2x16 not all drivers think so: Mesa 22's for
// GPUs of AMD rounds towards zero all the same.
#include "spirv/spirv.h"
#include "spirv/words.h"

#include <stdlib.h>
#include <string.h>

enum { MODE_WORDS = 4, CAPABILITY_WORDS = 2, MAX_MODES = 7, MAX_CAPABILITIES = 3 };

struct mode {
    uint32_t capability, mode, width;
};
struct modes {
    struct mode v[MAX_MODES];
    int n;
};

static void add(struct modes *m, uint32_t capability, uint32_t mode, uint32_t width)
{
    m->v[m->n++] = (struct mode){capability, mode, width};
}

// A type of halves is there for conversions. A fourth word would be an encoding: bf16.
static bool has_halves(const uint32_t *words, size_t n_words)
{
    for (size_t at = SPV_HEADER_WORDS; at < n_words && spirv_length(words[at]); at += spirv_length(words[at]))
        if (words[at] == spirv_first_word(3, SPV_OP_TYPE_FLOAT) && words[at + 2] == 16) return true;
    return false;
}

static struct modes modes_of(const uint32_t *words, size_t n_words, const struct spirv_modes *offered)
{
    struct modes m = {.n = 0};
    bool f16 = has_halves(words, n_words), f64 = spirv_declares(words, n_words, SPV_CAPABILITY_F64);
    if (offered->numbers_f32) add(&m, SPV_CAPABILITY_KEEP_NUMBERS, SPV_MODE_KEEP_NUMBERS, 32);
    if (offered->numbers_f16 && f16) add(&m, SPV_CAPABILITY_KEEP_NUMBERS, SPV_MODE_KEEP_NUMBERS, 16);
    if (offered->numbers_f64 && f64) add(&m, SPV_CAPABILITY_KEEP_NUMBERS, SPV_MODE_KEEP_NUMBERS, 64);
    if (!offered->halves || !f16) return m;
    for (uint32_t width = 16; width <= (offered->halves_with_f64 ? 64 : 16); width += 48) {
        add(&m, SPV_CAPABILITY_KEEP_DENORMALS, SPV_MODE_KEEP_DENORMALS, width);
        add(&m, SPV_CAPABILITY_ROUND_TO_NEAREST, SPV_MODE_ROUND_TO_NEAREST, width);
    }
    return m;
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

static uint32_t *put_capabilities(uint32_t *to, const struct modes *m)
{
    for (int i = 0; i < m->n; i++) {
        bool said = false;
        for (int j = 0; j < i; j++) said |= m->v[j].capability == m->v[i].capability;
        if (said) continue;
        *to++ = spirv_first_word(CAPABILITY_WORDS, SPV_OP_CAPABILITY);
        *to++ = m->v[i].capability;
    }
    return to;
}

static uint32_t *put_modes(uint32_t *to, const struct modes *m, uint32_t entry)
{
    for (int i = 0; i < m->n; i++) {
        *to++ = spirv_first_word(MODE_WORDS, SPV_OP_EXECUTION_MODE);
        *to++ = entry;
        *to++ = m->v[i].mode;
        *to++ = m->v[i].width;
    }
    return to;
}

kiln_status spirv_add_modes(const uint32_t *words, size_t n_words, const struct spirv_modes *offered, struct spirv *out)
{
    struct modes m = modes_of(words, n_words, offered);
    size_t split = m.n ? behind_entry(words, n_words) : 0;
    *out = (struct spirv){0};
    if (!split) return KILN_OK;
    uint32_t *to = malloc((n_words + CAPABILITY_WORDS * MAX_CAPABILITIES + MODE_WORDS * MAX_MODES) * sizeof *to);
    if (!to) return error_set(KILN_E_MEMORY, "out of memory for a shader module");
    *out = (struct spirv){.words = to};
    memcpy(to, words, SPV_HEADER_WORDS * sizeof *to);
    to = put_capabilities(to + SPV_HEADER_WORDS, &m);
    memcpy(to, words + SPV_HEADER_WORDS, (split - SPV_HEADER_WORDS) * sizeof *to);
    to = put_modes(to + split - SPV_HEADER_WORDS, &m, entry_id(words, split));
    memcpy(to, words + split, (n_words - split) * sizeof *to);
    out->n_words = (size_t)(to - out->words) + n_words - split;
    return KILN_OK;
}
