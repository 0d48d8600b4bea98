// The emitter of fused kernels, inside: what its files share.
#pragma once
#include "codegen/glsl_form.h"
#include "scalar/prim.h"

struct glsl_emitter {
    struct str *out;
    const struct fused_kernel *k;
    struct glsl_form form;
    struct glsl_layout layout;
    bool wide;
    // By node:
    uint8_t *needed; // an output stands on it
    uint8_t *known;  // its name is in scope, outside of loops over elements
    uint8_t *local;  // ... or inside the loop that is being written
    uint8_t *want;
    uint8_t *kept; // number of the loop over elements that hands its value on to later ones; 0: none does
};

// Loops over elements are numbered: loop s feeds the folds of stage s, loop n_stages + 1 stores.
static inline int glsl_store_loop(const struct fused_kernel *k)
{
    return k->n_stages + 1;
}

// `indent` and four spaces more.
const char *glsl_deeper(const char *indent);
const char *glsl_type(enum scalar_class cls);
// "sum_f32"
void glsl_add_fold_name(struct str *s, const struct fused_kernel *k, int node);
// "acc5 = combine_sum(acc5, t3)", with the place where the fold finds one.
void glsl_add_collect(struct glsl_emitter *e, const char *indent, int node, const char *place);
// Emits the wanted nodes that are not known, with all they stand on; `known` gets what is in scope then.
void glsl_emit_wanted(struct glsl_emitter *e, const char *indent, uint8_t *known);
// Indices i<d> of the dimensions [first, end) from the linear index `from`.
void glsl_add_indices(struct glsl_emitter *e, const char *indent, const char *from, int first, int end);
// "OFFSET o3 = b3 + ..." over the dimensions [first, end); `base`: the letter before the access, 0 for none.
void glsl_add_place(struct glsl_emitter *e, const char *indent, char name, char base, int access, int first, int end);
// "load_f32(A3 + ...)" and the like, at the place o<access>, or b<access>.
void glsl_add_address(struct glsl_emitter *e, char name, int access);
void glsl_add_store(struct glsl_emitter *e, const char *indent, char name, int output);

// glsl_loop.c
void glsl_mark_kept(const struct fused_kernel *k, uint8_t *first, uint8_t *want, uint8_t *kept);
bool glsl_loop_wants(const struct fused_kernel *k, const struct glsl_form *f, int loop, uint8_t *want);
void glsl_add_loop(struct glsl_emitter *e, const char *indent, int loop);
