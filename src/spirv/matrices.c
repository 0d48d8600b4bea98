// Matrices of subgroups, from NVIDIA's extension of SPIR-V to that of Khronos.
//
// GLSL of GL_KHR_cooperative_matrix needs a compiler of 2023; GL_NV_cooperative_matrix is known to all, in the same
// words. What differs in the module: a type says which side of a product its matrices are for, which is found from the
// products; and the order in memory is a number, no truth value. Numbers: SPV_NV_cooperative_matrix and
// SPV_KHR_cooperative_matrix.
//
// GLSL has no name for bf16 either, but in extensions of 2025. In a module of bf16 all floats of 16 bits are matrices'
// elements, and that type becomes the one of SPV_KHR_bfloat16.
#include "spirv/spirv.h"
#include "spirv/words.h"

#include <stdlib.h>
#include <string.h>

enum { USE_UNKNOWN, USE_A, USE_B, USE_SUMS, N_USES = 3 }; // 1 more than SPIR-V's numbers
static const char nv_name[] = "SPV_NV_cooperative_matrix", khr_name[] = "SPV_KHR_cooperative_matrix";
static const char bf16_name[] = "SPV_KHR_bfloat16";

struct converter {
    const struct spirv *in;
    uint32_t bound, uint_type, first_constant; // of 0, 1, 2
    uint32_t *type_of;                         // by id: its type, where that is of matrices
    uint8_t *use;                              // by id of a type
    uint8_t *truth;                            // by id: 1 where it is the constant true
    uint32_t *out;
    size_t n_out;
    uint32_t half_type; // f16, of a module of bf16
    bool bf16, defined, failed;
};

static bool set_use(struct converter *c, uint32_t value, uint8_t use)
{
    uint32_t type = value < c->bound ? c->type_of[value] : 0;
    if (!type || (c->use[type] != USE_UNKNOWN && c->use[type] != use)) return false;
    c->use[type] = use;
    return true;
}

// What the first pass learns from an instruction.
static void learn(struct converter *c, const uint32_t *w, uint32_t length)
{
    uint32_t op = spirv_op(w[0]);
    if (length < 3) return;
    if (op == SPV_OP_TYPE_INT && length == 4 && w[2] == 32 && w[3] == 0) c->uint_type = w[1];
    if (op == SPV_OP_TYPE_MATRIX_NV && w[1] < c->bound) c->type_of[w[1]] = w[1];
    if (op == SPV_OP_CONSTANT_TRUE && w[2] < c->bound) c->truth[w[2]] = 1;
    if (c->bf16 && op == SPV_OP_TYPE_FLOAT && w[2] == 16) c->half_type = w[1];
    // A vector of halves, or a value.
    bool of_halves = c->half_type && (w[1] == c->half_type || (op == SPV_OP_TYPE_VECTOR && w[2] == c->half_type));
    if (of_halves && op != SPV_OP_TYPE_FLOAT) c->failed = true;
    bool of_matrices = w[1] < c->bound && c->type_of[w[1]] == w[1];
    if (of_matrices && op != SPV_OP_TYPE_MATRIX_NV && w[2] < c->bound && w[2] != w[1]) c->type_of[w[2]] = w[1];
    if (op == SPV_OP_MATRIX_LENGTH_NV) c->failed = true;
    if (op != SPV_OP_MATRIX_MULTIPLY_ADD_NV) return;
    if (length != 6 || !set_use(c, w[3], USE_A) || !set_use(c, w[4], USE_B) || !set_use(c, w[5], USE_SUMS))
        c->failed = true;
}

static void put(struct converter *c, uint32_t word)
{
    c->out[c->n_out++] = word;
}

static void put_all(struct converter *c, const uint32_t *w, uint32_t n)
{
    memcpy(c->out + c->n_out, w, n * sizeof *w);
    c->n_out += n;
}

static void put_extension(struct converter *c, const char *name)
{
    uint32_t words[sizeof khr_name / 4 + 1] = {0}, n = (uint32_t)strlen(name) / 4 + 1;
    memcpy(words, name, strlen(name));
    put(c, spirv_first_word(1 + n, SPV_OP_EXTENSION));
    put_all(c, words, n);
}

static void put_capability(struct converter *c, uint32_t capability)
{
    put(c, spirv_first_word(2, SPV_OP_CAPABILITY));
    put(c, capability);
}

static void put_type(struct converter *c, const uint32_t *w)
{
    for (uint32_t i = 0; !c->defined && i < N_USES; i++) {
        put(c, spirv_first_word(4, SPV_OP_CONSTANT));
        put(c, c->uint_type);
        put(c, c->first_constant + i);
        put(c, i);
    }
    c->defined = true;
    put(c, spirv_first_word(6 + 1, SPV_OP_TYPE_MATRIX));
    put_all(c, w + 1, 5);
    put(c, c->first_constant + (c->use[w[1]] == USE_UNKNOWN ? 0 : c->use[w[1]] - 1u));
}

// A load's or store's operands from `at` on: stride, whether by columns, and what else there is.
static void put_access(struct converter *c, const uint32_t *w, uint32_t length, enum spirv_op op, uint32_t at)
{
    put(c, spirv_first_word(length, op));
    put_all(c, w + 1, at - 1);
    put(c, c->first_constant + (w[at + 1] < c->bound ? c->truth[w[at + 1]] : 0));
    put(c, w[at]);
    put_all(c, w + at + 2, length - at - 2);
}

static void convert(struct converter *c, const uint32_t *w, uint32_t length)
{
    uint32_t op = spirv_op(w[0]);
    if (op == SPV_OP_CAPABILITY && length == 2 && w[1] == SPV_CAPABILITY_MATRICES_NV) {
        put_capability(c, SPV_CAPABILITY_MATRICES);
        if (c->bf16) put_capability(c, SPV_CAPABILITY_BF16_MATRICES);
    } else if (c->bf16 && op == SPV_OP_CAPABILITY && length == 2 && w[1] == SPV_CAPABILITY_F16) {
        put_capability(c, SPV_CAPABILITY_BF16);
    } else if (c->bf16 && op == SPV_OP_TYPE_FLOAT && length == 3 && w[2] == 16) {
        put(c, spirv_first_word(4, SPV_OP_TYPE_FLOAT));
        put_all(c, w + 1, 2);
        put(c, SPV_ENCODING_BF16);
    } else if (op == SPV_OP_EXTENSION && !strncmp((const char *)(w + 1), nv_name, (length - 1) * sizeof *w)) {
        put_extension(c, khr_name);
        if (c->bf16) put_extension(c, bf16_name);
    } else if (op == SPV_OP_TYPE_MATRIX_NV && length == 6) {
        put_type(c, w);
    } else if (op == SPV_OP_MATRIX_LOAD_NV && length >= 6) {
        put_access(c, w, length, SPV_OP_MATRIX_LOAD, 4);
    } else if (op == SPV_OP_MATRIX_STORE_NV && length >= 5) {
        put_access(c, w, length, SPV_OP_MATRIX_STORE, 3);
    } else if (op == SPV_OP_MATRIX_MULTIPLY_ADD_NV) {
        put(c, spirv_first_word(length, SPV_OP_MATRIX_MULTIPLY_ADD));
        put_all(c, w + 1, length - 1);
    } else {
        put_all(c, w, length);
    }
}

static void walk(struct converter *c, void (*visit)(struct converter *, const uint32_t *, uint32_t))
{
    for (size_t at = SPV_HEADER_WORDS; at < c->in->n_words && !c->failed;) {
        uint32_t length = spirv_length(c->in->words[at]);
        if (!length || at + length > c->in->n_words) {
            c->failed = true;
            return;
        }
        visit(c, c->in->words + at, length);
        at += length;
    }
}

kiln_status spirv_khr_matrices(struct spirv *s, bool bf16)
{
    if (!spirv_declares(s->words, s->n_words, SPV_CAPABILITY_MATRICES_NV)) return KILN_OK;
    uint32_t bound = s->words[3];
    struct converter c = {.in = s, .bound = bound, .first_constant = bound, .bf16 = bf16};
    c.type_of = calloc(bound, sizeof *c.type_of);
    c.use = calloc(bound, 1);
    c.truth = calloc(bound, 1);
    c.out = malloc((s->n_words * 2 + 16) * sizeof *c.out);
    kiln_status status = KILN_OK;
    if (!c.type_of || !c.use || !c.truth || !c.out) {
        status = error_set(KILN_E_MEMORY, "out of memory for a shader module");
    } else {
        walk(&c, learn);
        put_all(&c, s->words, SPV_HEADER_WORDS);
        c.out[3] = bound + N_USES;
        walk(&c, convert);
        if (c.failed || !c.uint_type)
            status = error_set(KILN_E_FORMAT, "a shader module uses matrices in a way that is not known");
    }
    free(c.type_of);
    free(c.use);
    free(c.truth);
    if (status) {
        free(c.out);
        return status;
    }
    free(s->words);
    *s = (struct spirv){.words = c.out, .n_words = c.n_out};
    return KILN_OK;
}
