// What is known of each reduction, from reduce.def. Inline throughout: kernels, and a module that links none of this
// library, ask too.
#pragma once
#include "scalar/scalar.h"

enum reduce_identity { IDENTITY_ZERO, IDENTITY_ONE, IDENTITY_LEAST, IDENTITY_GREATEST, IDENTITY_COUNT };

static const struct reduce_info {
    const char *name;
    uint8_t identity; // enum reduce_identity
    bool finds_place; // gives the i64 place of an element
    int8_t best;      // 1: the largest element, -1: the smallest, 0: all of them count
} reduce_info[REDUCE_COUNT] = {
#define REDUCE(id, name, identity, finds_place, best) {name, IDENTITY_##identity, finds_place, best},
#define IDENTITY(...)
#include "scalar/reduce.def"
#undef REDUCE
#undef IDENTITY
};

// The reduction of a node, without its flag.
static inline enum scalar_reduce reduce_of(const struct scalar_node *n)
{
    return (enum scalar_reduce)(n->code & ~(unsigned)REDUCE_ACROSS);
}

static inline bool reduce_finds_place(const struct scalar_node *n)
{
    return reduce_info[reduce_of(n)].finds_place;
}

// Sums and products of f32 are gathered in f64 where the device has it at no cost.
static inline bool reduce_gathers_wide(unsigned how, enum scalar_class cls)
{
    return cls == CLASS_F32 && (how == REDUCE_SUM || how == REDUCE_PROD);
}

// The value of no elements, in the class of the argument.
static inline union scalar_value reduce_identity(unsigned how, enum scalar_class cls)
{
#define REDUCE(...)
#define IDENTITY(id, member, c, glsl) [IDENTITY_##id][class_of_##member] = {.member = c},
    enum { class_of_f32 = CLASS_F32, class_of_f64, class_of_i32, class_of_i64, class_of_b };
    static const union scalar_value values[IDENTITY_COUNT][CLASS_COUNT] = {
#include "scalar/reduce.def"
    };
#undef REDUCE
#undef IDENTITY
    return values[reduce_info[how].identity][cls];
}

const char *reduce_identity_text(unsigned how, enum scalar_class cls, enum scalar_target target); // C or GLSL
int reduce_find(const char *name, size_t length); // of the language: "rsum"; -1: none
