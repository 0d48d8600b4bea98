// The emitter of fused kernels, inside: what its files share.
#pragma once
#include "codegen/glsl/form.h"
#include "scalar/prim.h"
#include "scalar/reduce.h"

struct glsl_emitter {
    struct str *out;
    const struct fused_kernel *k;
    struct glsl_form form;
    struct glsl_layout layout;
    bool wide;
    uint32_t row_places; // accesses, a bit each, whose places have names at the level of a row
    // By node:
    uint8_t *needed; // an output stands on it
    uint8_t *known;  // its name is in scope, outside of loops over elements
    uint8_t *local;  // ... or inside the loop that is being written
    uint8_t *want;
    uint8_t *early;  // a loop over elements stands on it
    uint8_t *kept;   // 1 + the pass that hands its value on to later ones; 0: none does
    uint8_t *read;   // more than nodes read it
    uint8_t *within; // its name does not leave the block of a rare case
};

// `indent` and four spaces more.
const char *glsl_deeper(const char *indent);

// glsl_write.c
enum scalar_class glsl_folded_class(const struct fused_kernel *k, int node);
// The type of a partial value: the value's own, or a struct of value and place.
void glsl_add_partial_type(struct str *s, const struct fused_kernel *k, int node);
const char *glsl_type(enum scalar_class cls);
// "sum_f32"
void glsl_add_fold_name(struct str *s, const struct fused_kernel *k, int node);
// "acc5 = combine_sum(acc5, t3)", with the place where the fold finds one; `into` is "acc" or "part".
void glsl_add_collect(struct glsl_emitter *e, const char *indent, const char *into, int node, const char *place);
// "float acc5 = nothing_sum_f32();"
void glsl_add_accumulator(struct glsl_emitter *e, const char *indent, const char *name, int node);
// "acc5 = combine_sum(acc5, part5);"
void glsl_add_merge(struct glsl_emitter *e, const char *indent, int node);
// Emits the wanted nodes that are not known, with all they stand on; `known` gets what is in scope then.
void glsl_emit_wanted(struct glsl_emitter *e, const char *indent, uint8_t *known);
// Indices i<d> of the dimensions [first, end) from the linear index `from`.
void glsl_add_indices(struct glsl_emitter *e, const char *indent, const char *from, int first, int end);
// "OFFSET o3 = b3 + ..." over the dimensions [first, end); `base`: the letter before the access, 0 for none.
void glsl_add_place(struct glsl_emitter *e, const char *indent, char name, char base, int access, int first, int end);
// "load_f32(A3 + ...)" and the like, at the place o<access>, or b<access>.
void glsl_add_address(struct glsl_emitter *e, char name, int access);
void glsl_add_store(struct glsl_emitter *e, const char *indent, char name, int output);

// glsl_head.c
// Folds that the code makes; those over the one element of an empty R are none.
bool glsl_is_made(const struct glsl_emitter *e, int node);
void glsl_add_head(struct glsl_emitter *e, const struct codegen_plan *plan);

// glsl_loop.c
void glsl_mark_kept(const struct fused_kernel *k, uint8_t *first, uint8_t *want, uint8_t *kept);
void glsl_add_loop(struct glsl_emitter *e, const char *indent, int pass);

// glsl_trips.c
void glsl_add_trips(struct glsl_emitter *e); // of points, all that they do
// Of rows: what stands before and behind all that a row does in a trip.
bool glsl_is_carried_row(const struct glsl_emitter *e, int node); // a load of what all lanes know of the trip before
void glsl_begin_together(struct glsl_emitter *e);                 // around all rows
void glsl_end_together(struct glsl_emitter *e);
void glsl_begin_trips(struct glsl_emitter *e);
void glsl_end_trips(struct glsl_emitter *e);

// glsl_product.c
// A function that a template asks with the point along two sections: the value of a node, or, without a root, what is
// stored. What lies in the batch is found once for each tile: the struct <letter>_side carries the place of each
// access.
struct glsl_part {
    char letter;
    int first, second; // sections
    const char *first_name, *second_name;
    int root;     // -1: the outputs
    int given[2]; // nodes that are known; the first is a parameter; -1: none
    bool access[FUSED_MAX_IN + FUSED_MAX_OUT];
    bool taps; // along the second section it is asked with outer, ky, kx
};
void glsl_part_mark(struct glsl_emitter *e, struct glsl_part *p); // what it needs
void glsl_part_struct(struct glsl_emitter *e, const struct glsl_part *p, int n_batch);
void glsl_part_body(struct glsl_emitter *e, const struct glsl_sections *s, const struct glsl_part *p);
void glsl_part_value(struct glsl_emitter *e, const struct glsl_sections *s, struct glsl_part *p); // the whole function
void glsl_part_store(struct glsl_emitter *e, const struct glsl_sections *s, struct glsl_part *p);
void glsl_part_fours(struct glsl_emitter *e, const struct glsl_sections *s, struct glsl_part *p, int number);
void glsl_add_product(struct glsl_emitter *e);

// glsl_attention.c
void glsl_add_attention(struct glsl_emitter *e);
