// The primitives: typing rule, host value and spelling of each, from prim.def. Internal to the scalar layer but for the
// enum, which code that walks a DAG may use.
#pragma once
#include "base/nearest.h"
#include "scalar/scalar.h"

enum scalar_prim {
#define PRIM(id, ...) PRIM_##id,
#define SPELL(...)
#define SELECT(...)
#define MAD(...)
#define SHIFT(...)
#include "scalar/prim.def"
    PRIM_COUNT
};

// A primitive at one class. `key` is the class of the arguments (of a choice: of the second and third).
struct prim_spelling {
    bool present;
    enum scalar_class result;
    const char *glsl, *llvm, *c;                               // in a, b, c
    union scalar_value (*host)(const union scalar_value v[3]); // unused elements of v must be zero
    void (*block)(void *out, const void *const in[3], int n);  // over n elements, each stored in its class's type
};

// A choice between its second and third argument by the first.
static inline bool prim_chooses(uint16_t prim)
{
    return prim == PRIM_select || prim == PRIM_rare;
}

// The argument whose class is the primitive's key.
static inline int prim_key_arg(uint16_t prim)
{
    return prim_chooses(prim) ? 1 : 0;
}

// What computing a node costs; an addition is 1.
static inline int scalar_node_steps(const struct scalar_node *n)
{
    if (n->kind != SCALAR_PRIM) return n->kind == SCALAR_REDUCE;
    return n->code == PRIM_div || n->code == PRIM_sqrt ? 4 : 1;
}

int prim_arity(uint16_t prim);
void prim_nearest(struct nearest *n);                                            // tries the names of all
int prim_find(const char *name, size_t length);                                  // -1: no such primitive
const struct prim_spelling *prim_spelling(uint16_t prim, enum scalar_class key); // NULL: not for that class
// The spelling of a primitive: that of a shift is shorter where its count is a constant in range.
const char *prim_text(uint16_t prim, enum scalar_class key, enum scalar_target target, const struct scalar_node *count);
const char *prim_op(uint16_t prim, enum scalar_class key); // the op row that computes it, or NULL
