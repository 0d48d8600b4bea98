// The emitter's state, and what its files offer one another.
//
// Values of nodes are scalars where they are the same in all lanes, else vectors of `width` elements; a vector of one
// element is a scalar. A bool is an i1. Everything that changes lives in stack slots, which mem2reg turns into values.
#pragma once
#include "codegen/llvm/llvm.h"

#include <llvm-c/Core.h>

extern const struct llvm_host *llvm_host;

// What moves through the space: the address of an access, the index along a dimension, a linear index.
enum walker_kind { WALK_ACCESS, WALK_DIM, WALK_POINT, WALK_ROW };
struct walker {
    enum walker_kind kind;
    int code;          // access, or dimension
    LLVMValueRef home; // its value at the place of the step, in memory
    LLVMValueRef slot; // its current value within the step: i8* or i64
    LLVMValueRef step[FUSED_MAX_DIMS];
    bool moves[FUSED_MAX_DIMS];
};
#define MAX_WALKERS (FUSED_MAX_IN + FUSED_MAX_OUT + FUSED_MAX_DIMS + 2)

struct acc { // of one reduction: slots of the value and of the place
    LLVMValueRef value, place;
    LLVMTypeRef type, place_type;
    int width;
};

#define MOST_HELD 16
struct held_number { // a number that loops hold in a register; NULL: not made yet
    enum scalar_class cls;
    uint64_t bits;
    LLVMValueRef v;
};

struct emitter {
    const struct fused_kernel *k;
    const struct codegen_plan *plan;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    LLVMValueRef fn, args;
    LLVMBasicBlockRef slots_block, entry_block;               // stack slots; what is computed once
    LLVMValueRef *words;                                      // of the argument block, once loaded
    const uint64_t *constants;                                // ... of those that no run changes, the values,
    const bool *fixed;                                        // and which those are; NULL: none
    LLVMTypeRef i1, i8, i16, i32, i64, f32, f64, half, bytes; // bytes: i8*
    bool has_f16, has_fma, has_avx2, has_avx512;              // the host converts f16, fuses a product with a sum

    int n_parallel, lanes_dim; // -1: no lanes
    int split_dim;             // -1: none
    bool over_row;
    int tile_dim;                     // -1: none
    LLVMValueRef tile_row;            // NULL: not in a square; else the row of it that is computed
    LLVMValueRef tile_rows;           // of the step
    LLVMValueRef tiles[FUSED_MAX_IN]; // transposed inputs: `width` rows of as many elements
    int width;                        // of the vectors being emitted
    LLVMValueRef lane, mask; // index along lanes_dim of lane 0 in the current block; lanes that exist, NULL: all
    int present;             // where there is a mask and it is known how many exist: so many; else 0
    LLVMValueRef chunk, chunk_index, panel,
        first_point;     // of the step: length along split_dim, which chunk, where in it, which point
    LLVMValueRef *value; // n_nodes
    bool *varies;        // n_nodes: along the lanes
    uint8_t *want;       // n_nodes: what a pass computes; then 2 * n_nodes of scratch
    uint8_t *kept_pass;  // n_nodes: 1 + the pass that keeps the value for later ones; 0: none
    LLVMValueRef *kept;  // n_nodes: their buffers
    uint8_t *waits;      // n_nodes: only rare cases need it
    struct walker walkers[MAX_WALKERS];
    int n_walkers;
    struct acc *acc, *lane_acc; // n_nodes: final, and of the vector loop being emitted
    struct held_number held[MOST_HELD];
    int n_held;
    LLVMValueRef trip, number; // counted from 0, NULL: none is made in place; as the body knows it
    const char *wrong;         // what could not be emitted
};

// --- types.c ---
LLVMTypeRef emit_class_type(const struct emitter *e, enum scalar_class cls, int width);
LLVMTypeRef emit_vector(LLVMTypeRef element, int width);
LLVMValueRef emit_int(const struct emitter *e, int64_t v); // i64
int64_t emit_known(LLVMValueRef v);                        // what a constant is, which is not negative; -1: no constant
LLVMValueRef emit_splat(struct emitter *e, LLVMValueRef scalar, int width);
LLVMValueRef emit_splat_const(LLVMValueRef scalar, int width);
LLVMValueRef emit_iota(const struct emitter *e, LLVMTypeRef element, int width);
LLVMValueRef emit_const(const struct emitter *e, enum scalar_class cls, union scalar_value v);
LLVMValueRef emit_call(struct emitter *e, const char *intrinsic, LLVMTypeRef *overloads, int n_overloads,
                       LLVMValueRef *args, int n_args);
LLVMValueRef emit_word(struct emitter *e, int index);
LLVMValueRef emit_slot(struct emitter *e, LLVMTypeRef type);
LLVMValueRef emit_home(struct emitter *e, LLVMTypeRef type); // stays in memory
LLVMValueRef emit_load(struct emitter *e, LLVMTypeRef type, LLVMValueRef slot);
void emit_store(struct emitter *e, LLVMValueRef v, LLVMValueRef slot);
LLVMValueRef emit_at(struct emitter *e, LLVMValueRef bytes, LLVMValueRef offset); // bytes + offset
LLVMValueRef emit_typed(struct emitter *e, LLVMValueRef bytes, LLVMTypeRef element);
LLVMValueRef emit_min(struct emitter *e, LLVMValueRef a, LLVMValueRef b);
void emit_at_entry(struct emitter *e, LLVMBasicBlockRef *saved);
void emit_back(struct emitter *e, LLVMBasicBlockRef saved);

// --- held.c: numbers ---
void held_find(struct emitter *e);  // which loops hold
void held_begin(struct emitter *e); // of a function
LLVMValueRef emit_number(struct emitter *e, enum scalar_class cls, union scalar_value value, int width);

// --- spell.c: a primitive from its text ---
LLVMValueRef emit_spelling(struct emitter *e, const char *text, const LLVMValueRef arg[3], enum scalar_class result,
                           int width);

// --- memory.c: loads and stores of the accesses ---
LLVMValueRef emit_access_load(struct emitter *e, int node);
// The inputs that lie across the lanes, transposed into e->tiles: the next `width` rows of the tile.
void emit_squares(struct emitter *e);
void emit_across(struct emitter *e); // ... those whose rows do
void emit_access_store(struct emitter *e, int output);
void emit_lines_done(struct emitter *e);                                                // before a function ends
LLVMValueRef emit_stored(struct emitter *e, unsigned dtype, LLVMValueRef v, int width); // as a load would find it
LLVMValueRef emit_bool_as_byte(struct emitter *e, LLVMValueRef v, int width);

// --- node.c: values of nodes ---
LLVMValueRef emit_value(struct emitter *e, int node, int width);
void emit_nodes(struct emitter *e, const uint8_t *want); // those without a value yet, in order

// --- fold.c: reductions ---
void fold_begin(struct emitter *e, struct acc *a, int node, int width, bool wide);
void fold_add(struct emitter *e, const struct acc *a, int node, LLVMValueRef x, LLVMValueRef place);
void fold_join(struct emitter *e, const struct acc *into, const struct acc *from, int node); // lanes folded if need be
LLVMValueRef fold_result(struct emitter *e, const struct acc *a, int node);
struct partials { // results on their way through the workspace: slots of points, `between_B` apart
    LLVMValueRef slot, point, between_B;
};
void fold_save(struct emitter *e, const struct acc *a, struct partials *p); // and goes on to the next slot
void fold_join_saved(struct emitter *e, const struct acc *a, int node, struct partials *p);
enum scalar_class fold_class(const struct emitter *e, int node);
bool fold_finds_place(const struct emitter *e, int node);
bool fold_is_across(const struct emitter *e, int node);

// --- loop.c ---
struct loop {
    LLVMBasicBlockRef body, exit;
    LLVMValueRef slot, index, limit, step;
};
void loop_begin(struct emitter *e, struct loop *l, LLVMValueRef from, LLVMValueRef limit, int64_t step);
void loop_begin_by(struct emitter *e, struct loop *l, LLVMValueRef from, LLVMValueRef limit, LLVMValueRef step);
void loop_end(struct emitter *e, struct loop *l);
void loop_leave(struct emitter *e, struct loop *l); // ends a loop whose body runs once at most
void walkers_make(struct emitter *e);
struct walker *walker_find(struct emitter *e, enum walker_kind kind, int code);
LLVMValueRef walker_value(struct emitter *e, enum walker_kind kind, int code);
void walkers_advance(struct emitter *e, int dim); // by one step
void walkers_advance_by(struct emitter *e, int dim, LLVMValueRef times);
void walkers_move_home(struct emitter *e, int dim, LLVMValueRef times);         // NULL: one
void walkers_start(struct emitter *e);                                          // homes to the first point
void walkers_go_home(struct emitter *e);                                        // all values from home
void walkers_save(struct emitter *e, int dim, LLVMValueRef saved[MAX_WALKERS]); // those that move along dim
void walkers_restore(struct emitter *e, int dim, LLVMValueRef saved[MAX_WALKERS]);

// --- passes.c: what a pass computes ---
enum fused_level pass_level(const struct emitter *e, int node);
int row_pass_count(const struct emitter *e);
bool pass_by_element(const struct emitter *e, int output);
void pass_want(struct emitter *e, int pass, uint8_t *want); // element values of the pass
struct pass_load {
    int steps;       // arithmetic on each element
    int chain;       // those of the whole kernel that wait for each other, at most
    bool wide_lanes; // some of the arithmetic is in 64 bits
    bool by_lanes;   // some divides integers: that goes lane by lane, or by two vectors of f64
};
struct pass_load pass_measure(struct emitter *e, int pass); // -1: of the whole kernel
void pass_choose_kept(struct emitter *e);

// --- body.c, end.c: what one step does; `lanes`: points along lanes_dim ---
void body_step(struct emitter *e, LLVMValueRef lanes);
void body_end_step(struct emitter *e, LLVMValueRef lanes);
void body_totals_begin(struct emitter *e);
void body_totals_pass(struct emitter *e, LLVMValueRef unit, bool save); // to the workspace, or from it
void body_totals_finish(struct emitter *e);

// --- trips.c: a loop over the trips of all that is emitted in between ---
void trips_begin(struct emitter *e, struct loop *l);
void trips_end(struct emitter *e, struct loop *l);

// --- kernel.c ---
void emit_functions(struct emitter *e, const char *symbol);
