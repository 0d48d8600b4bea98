// Makes modules small. The compiler keeps every function of the templates, though a kernel calls few of them: nine
// tenths of a plain kernel would be dead.
//
// A module is a header of five words and a run of instructions, each with its length and code in its first word;
// functions come last. First the functions are found, with the ids that they define and the functions they call; then
// what the entry point reaches is marked, by repeated passes until no mark is added; then all that stays is moved down
// over what goes: dead functions, decorations of their ids, names, source text. Ids are not renumbered.
#include "spirv/spirv.h"
#include "spirv/words.h"

#include <stdlib.h>
#include <string.h>

struct function {
    uint32_t id;
    size_t begin, end;
    bool live;
};

static bool is_debug(uint32_t code)
{
    return (code >= SPV_OP_SOURCE_CONTINUED && code <= SPV_OP_LINE) || code == SPV_OP_NO_LINE ||
           code == SPV_OP_MODULE_PROCESSED;
}

static uint32_t length_at(const struct spirv *s, size_t at)
{
    uint32_t length = spirv_length(s->words[at]);
    return length && at + length <= s->n_words ? length : (uint32_t)(s->n_words - at);
}

static size_t find_functions(const struct spirv *s, struct function *out)
{
    size_t n = 0;
    for (size_t at = SPV_HEADER_WORDS; at < s->n_words; at += length_at(s, at)) {
        uint32_t code = spirv_op(s->words[at]);
        if (code == SPV_OP_FUNCTION) out[n] = (struct function){.id = s->words[at + 2], .begin = at};
        if (code == SPV_OP_FUNCTION_END) out[n++].end = at + 1;
    }
    return n;
}

static bool mark(struct function *list, size_t n, uint32_t id)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i].id != id || list[i].live) continue;
        list[i].live = true;
        return true;
    }
    return false;
}

static void mark_reached(const struct spirv *s, struct function *list, size_t n)
{
    for (size_t at = SPV_HEADER_WORDS; at < s->n_words; at += length_at(s, at)) {
        if (spirv_op(s->words[at]) == SPV_OP_ENTRY_POINT) mark(list, n, s->words[at + 2]);
    }
    bool changed = true;
    while (changed) {
        changed = false;
        for (size_t i = 0; i < n; i++) {
            for (size_t at = list[i].begin; list[i].live && at < list[i].end; at += length_at(s, at)) {
                if (spirv_op(s->words[at]) == SPV_OP_FUNCTION_CALL) changed |= mark(list, n, s->words[at + 3]);
            }
        }
    }
}

// The id that an instruction inside a function defines, or 0. Only ids that may carry a decoration matter: those of
// values, parameters and labels. An instruction without result has its operands there; taking one of those for a result
// would need a global id as the first operand pair of a store or branch, which live code also decorates: so those codes
// are listed.
static uint32_t result_of(const uint32_t *instruction)
{
    uint32_t code = spirv_op(instruction[0]), length = spirv_length(instruction[0]);
    switch (code) {
    case SPV_OP_LABEL: return instruction[1];
    case SPV_OP_STORE:
    case SPV_OP_COPY_MEMORY: // store, copy memory
    case SPV_OP_CONTROL_BARRIER:
    case SPV_OP_MEMORY_BARRIER: // barriers
    case SPV_OP_ATOMIC_STORE:   // atomic store
    case SPV_OP_MATRIX_STORE:
    case SPV_OP_MATRIX_STORE_NV:
    case SPV_OP_LOOP_MERGE:
    case SPV_OP_SELECTION_MERGE: // merges
    case SPV_OP_BRANCH:
    case SPV_OP_BRANCH_CONDITIONAL:
    case SPV_OP_SWITCH: // branches
    case SPV_OP_KILL:
    case SPV_OP_RETURN:
    case SPV_OP_RETURN_VALUE:
    case SPV_OP_UNREACHABLE: // kill, returns, unreachable
    case SPV_OP_FUNCTION_END: return 0;
    default: return length > 2 ? instruction[2] : 0;
    }
}

static void mark_ids(const struct spirv *s, const struct function *list, size_t n, uint8_t *dead, uint32_t bound)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t at = list[i].begin; !list[i].live && at < list[i].end; at += length_at(s, at)) {
            uint32_t id = result_of(&s->words[at]);
            if (id < bound) dead[id] = 1;
        }
    }
}

kiln_status spirv_strip(struct spirv *s)
{
    if (s->n_words < SPV_HEADER_WORDS) return error_set(KILN_E_FORMAT, "a shader module of %zu words", s->n_words);
    size_t n_functions = 0;
    for (size_t at = SPV_HEADER_WORDS; at < s->n_words; at += length_at(s, at)) {
        n_functions += spirv_op(s->words[at]) == SPV_OP_FUNCTION;
    }
    uint32_t bound = s->words[3];
    struct function *list = calloc(n_functions + 1, sizeof *list);
    uint8_t *dead = calloc(bound, 1);
    if (!list || !dead) {
        free(list);
        free(dead);
        return error_set(KILN_E_MEMORY, "out of memory for a shader module");
    }
    n_functions = find_functions(s, list);
    mark_reached(s, list, n_functions);
    mark_ids(s, list, n_functions, dead, bound);
    dead[0] = 0;

    size_t to = SPV_HEADER_WORDS, next = 0;
    for (size_t at = SPV_HEADER_WORDS, length; at < s->n_words; at += length) {
        length = length_at(s, at);
        uint32_t code = spirv_op(s->words[at]);
        while (next < n_functions && at >= list[next].end) next++;
        bool drop = is_debug(code) || (code == SPV_OP_DECORATE && s->words[at + 1] < bound && dead[s->words[at + 1]]) ||
                    (next < n_functions && at >= list[next].begin && !list[next].live);
        if (drop) continue;
        memmove(&s->words[to], &s->words[at], length * sizeof *s->words);
        to += length;
    }
    s->n_words = to;
    free(list);
    free(dead);
    return KILN_OK;
}

bool spirv_declares(const uint32_t *words, size_t n_words, uint32_t capability)
{
    for (size_t at = SPV_HEADER_WORDS; at < n_words;) {
        uint32_t length = spirv_length(words[at]);
        if (spirv_op(words[at]) != SPV_OP_CAPABILITY || length < 2) return false; // capabilities come first
        if (words[at + 1] == capability) return true;
        at += length;
    }
    return false;
}
