// Fused kernels as machine code of the host, made by LLVM while the program runs.
//
// This library decides how a kernel runs (llvm_plan) and lays out its arguments (llvm_pack); a module beside it,
// libkiln-llvm.so, turns kernel and plan into an object and loads objects (src/llvm). The module is opened when the
// first kernel is compiled or loaded, so that a program that compiles nothing never loads LLVM.
//
// A kernel has one function, run(args, begin, end), which does the work units [begin, end), and where plan.has_end is
// set a second one, end(args), which runs once, after all units, when the launch says so: it joins what the units left
// in the workspace. What a unit computes depends on the kernel's sizes alone, never on how units are shared out, so
// that results do not depend on the number of threads.
#pragma once
#include "codegen/target.h"
#include "fuse/loops.h"
#include "scalar/reduce.h"

struct llvm_function {
    void (*run)(const uint64_t *args, int64_t begin, int64_t end);
    void (*end)(const uint64_t *args); // NULL: none
    void *loaded;                      // the module's own, or pages of code:
    size_t mapped_B;                   // 0: of the module
};

// Compiles the family of `k` into an object, which the caller frees. KILN_E_MISSING: this build or this machine has no
// module. Safe from several threads at once.
kiln_status llvm_compile(const struct fused_kernel *k, const struct codegen_plan *plan, struct codegen_code *out);
// Makes an object of llvm_compile callable. No code is generated, so an object from a cache costs only linking, by the
// module where object.c does not know how.
kiln_status llvm_load(const struct codegen_code *code, struct llvm_function *out);
void llvm_unload(struct llvm_function *f); // NULL, empty and twice are fine
// The module, opened if it can be. `why` is empty, or says why there is none; `path` and `version` (of LLVM) are empty
// then. They live as long as the process.
struct llvm_facts {
    const char *path, *version, *why;
};
void llvm_get_facts(struct llvm_facts *out);
// The kernel as LLVM IR, for people.
kiln_status llvm_ir_text(const struct fused_kernel *k, struct str *out);
// Appends what objects depend on besides kernel and plan: the build of the module, the processor, its features. For
// keys of a cache. As long as nothing was compiled the module is the one that would be opened: its file tells its
// build.
kiln_status llvm_host_key(struct str *out);

// A kernel that a loop launches in each trip, its block of arguments, and which of its words no run changes.
struct llvm_series_number { // a scalar that is the number of the trip
    uint16_t word;
    uint8_t cls;
};
struct llvm_series_item {
    const struct fused_kernel *k;
    const struct codegen_plan *plan;
    const uint64_t *words;
    const bool *fixed;
    bool run_end;
    int n_words, n_movers, n_numbers;
    struct llvm_series_number numbers[FUSED_MAX_SCALARS];
};
// All launches of a trip, those of the condition first; each is one work unit.
struct llvm_series {
    const struct llvm_series_item *items;
    int n, n_cond;
};
// What the function is given: run(args, first trip, end). For even trips, then for odd ones, of each item the address
// of its block of words, then of its movers: pairs of the address of a word and what it grows by behind each launch.
// Then where the condition's flag lies, and where the function leaves the trip that it stopped at.
static inline int llvm_series_words_at(const struct llvm_series *s, int half, int item)
{
    return half * s->n + item;
}
static inline int llvm_series_movers_at(const struct llvm_series *s, int half, int item)
{
    return (2 + half) * s->n + item;
}
static inline int llvm_series_flag_at(const struct llvm_series *s)
{
    return 4 * s->n;
}
static inline int llvm_series_stop_at(const struct llvm_series *s)
{
    return 4 * s->n + 1;
}
// Appends all that the function's code depends on besides llvm_host_key.
kiln_status llvm_series_key(const struct llvm_series *s, struct str *out);
// Compiles the trips of a loop into one function, which serves these sizes alone. Its name is made of the key.
kiln_status llvm_compile_series(const struct llvm_series *s, struct codegen_code *out);

// --- between this library and the module ---

// plan.choices
enum llvm_choice {
    LLVM_LANES_DIM,   // the dimension along which vectors lie; LLVM_NO_DIM: none
    LLVM_WIDTH,       // elements of a vector in the main loop ...
    LLVM_TAIL_WIDTH,  // ... and in the masked loop behind it
    LLVM_SPLIT_DIM,   // the reduced dimension that is cut into chunks; LLVM_NO_DIM: rows are never cut
    LLVM_VECTOR_BITS, // of a register
    LLVM_KEEP,        // elements of a row that a buffer on the stack holds; 0: nothing is kept
    LLVM_WIDE_SUM,    // sums of f32 are gathered in f64 from time to time
    LLVM_TILE_DIM,    // a dimension along which some inputs lie in a row, or not at all, and not along the lanes;
                      // LLVM_NO_DIM: none
    LLVM_TILE_ROWS,   // places along it that a step takes
    LLVM_ACROSS,      // 0, or the longest row where inputs whose rows lie across the lanes are transposed, each once
                      // for all rows of the tile
    LLVM_CHOICE_COUNT
};
#define LLVM_NO_DIM 255u
enum { LLVM_SHORT_VECTOR_BITS = 256 }; // of vectors that take the fewest cycles a step: more of them go at once
_Static_assert((int)LLVM_CHOICE_COUNT <= PLAN_CHOICES, "the plan holds all choices");

enum llvm_form { LLVM_OVER_POINTS, LLVM_OVER_ROW }; // plan.form: lanes are points of P, or of R

// The argument block: addresses, sizes, strides in bytes by access and dimension, scalars, these words, and steps.
enum llvm_word {
    LLVM_PER_UNIT, // steps of a unit; a step is a block of points, or one point, and one chunk of its row
    LLVM_STEPS,    // in all
    LLVM_BLOCK,    // points of a block along the lanes
    LLVM_N_BLOCKS, // along the lanes
    LLVM_CHUNK,    // positions of a chunk along the split dimension
    LLVM_N_CHUNKS, // 1: rows are whole
    LLVM_PANEL,    // positions of a chunk that all lanes of a block pass before the next ones; all of a whole row
    LLVM_POINTS,   // of P
    LLVM_UNITS,
    LLVM_WORKSPACE, // partial results of chunks, or of units
    LLVM_FAILED,    // address of the u32 of failed checks
    LLVM_STREAMS,   // 1: more is touched than caches hold, and what is written goes past them
    LLVM_WORD_COUNT
};
static inline int llvm_size_at(const struct fused_kernel *k, int dim)
{
    return k->n_in + k->n_out + dim;
}
static inline int llvm_stride_at(const struct fused_kernel *k, int access, int dim)
{
    return k->n_in + k->n_out + k->n_dims + access * k->n_dims + dim;
}
static inline int llvm_scalar_at(const struct fused_kernel *k, int scalar)
{
    return k->n_in + k->n_out + k->n_dims + (k->n_in + k->n_out) * k->n_dims + scalar;
}
static inline int llvm_word_at(const struct fused_kernel *k, enum llvm_word word)
{
    return llvm_scalar_at(k, k->n_scalars) + (int)word;
}
// Of a kernel that makes the trips: the bytes that an access moves from trip to trip.
static inline int llvm_step_at(const struct fused_kernel *k, int access)
{
    return llvm_word_at(k, LLVM_WORD_COUNT) + access;
}
// Whether what it writes by the element may go past the caches.
static inline bool llvm_may_stream(const struct fused_kernel *k)
{
    if (k->trips.on || k->product.n_m || k->attention.n_m) return false;
    bool any = fused_is_flat(k);
    for (int i = 0; i < k->n_out; i++) any = any || fused_by_element(k, i);
    return any;
}
// Eight-byte slots of partial results: a place beside the value for argmax and argmin.
static inline int llvm_slots_of(const struct scalar_node *reduce)
{
    return reduce_finds_place(reduce) ? 2 : 1;
}
static inline int llvm_slots(const struct fused_kernel *k, bool across) // of all reductions of a kind
{
    int n = 0;
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (fused_is_fold(&k->dag.nodes[i], across)) n += llvm_slots_of(&k->dag.nodes[i]);
    return n;
}

#define LLVM_MODULE_VERSION 6
#define LLVM_MODULE_ENTRY   "kiln_llvm_module"

// What the module needs of this library; it links none of it.
struct llvm_host {
    const uint8_t *dtype_size_B;
    kiln_status (*error)(kiln_status code, const char *format, ...);
    const char *(*prim_text)(uint16_t prim, enum scalar_class key, enum scalar_target target,
                             const struct scalar_node *count);
};

struct llvm_module {
    uint32_t version, kernel_size_B;
    const char *kiln_version, *llvm_version;
    kiln_status (*compile)(const struct fused_kernel *k, struct codegen_code *code);       // plan and symbol are set
    kiln_status (*compile_series)(const struct llvm_series *s, struct codegen_code *code); // symbol is set
    kiln_status (*load)(const struct codegen_code *code, struct llvm_function *out);
    void (*unload)(struct llvm_function *f);
    char *(*text)(const struct fused_kernel *k, const struct codegen_code *code); // to be freed with free
    char *(*host_key)(void);                                                      // the same
};
// The exported function of the module: NULL when the versions do not fit.
typedef const struct llvm_module *llvm_module_fn(uint32_t version, const struct llvm_host *host);
