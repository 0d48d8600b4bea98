// A fused kernel: what fusion makes of graph nodes and code generation turns into GLSL or LLVM IR.
//
// An iteration space of parallel dimensions P, then n_reduce reduction dimensions R; strided accesses to buffers; one
// DAG of values. A value has a level:
//   UNIFORM  a constant, a run-time scalar, a size: the same everywhere
//   ROW      one for each point of P; where R is empty, the values of a pointwise kernel are at this level
//   ELEMENT  one for each point of P x R
//   TOTAL    one for the whole launch, known when all points are done
// SCALAR_REDUCE folds an ELEMENT (or ROW) value over R into a ROW value; with the flag REDUCE_ACROSS it folds a ROW
// value over P into a TOTAL one. ROW values may be used by ELEMENT values of a later stage (softmax); TOTAL values only
// by TOTAL values and outputs, for no point may wait for all others.
//
// Nothing in the DAG names a size: sizes, strides, offsets and scalars are arguments of the compiled kernel. What the
// code may rely on is only what fused_family tells apart: dtypes, structure, which strides are 0, 1, negative or
// another, which accesses of a space without R are linear, the bucket of the row's length, and whether indices fit into
// 32 bits.
#pragma once
#include "base/arena.h"
#include "base/str.h"
#include "ir/type.h"
#include "scalar/dag.h"
#include "scalar/scalar.h"

#define FUSED_MAX_DIMS    12 // while a kernel is put together
#define FUSED_DIMS        8  // of a finished one, and of each unit in it
#define FUSED_MAX_IN      32
#define FUSED_MAX_OUT     16
#define FUSED_MAX_SCALARS 24
#define FUSED_MAX_CHECKS  4

enum fused_level { LEVEL_UNIFORM, LEVEL_ROW, LEVEL_ELEMENT, LEVEL_TOTAL };

// One strided way through a buffer. A value is loaded and stored in its dtype's own class (f16 and bf16 in f32, i8, i16
// and u8 in i32); the store rounds to nearest even or wraps. Every other conversion is a node of the DAG.
struct fused_access {
    uint32_t buffer;                 // which; the meaning is the caller's
    uint8_t dtype;                   // storage dtype
    uint8_t cls;                     // class of the values loaded or stored
    int64_t offset;                  // elements, of point 0
    int64_t strides[FUSED_MAX_DIMS]; // elements; outputs: 0 along dimensions that the value does not have
};

struct fused_output {
    struct fused_access to;
    uint16_t node; // whose value is stored, once for each point of its level
};

// The kernel is a product: one sum over R of values a times values b, where a does not depend on the dimensions N of P
// and b not on M; P is batch dimensions, then M, then N. What else it computes is on the way into a and b, or made of
// the sum. Such a kernel goes by tiles (fuse/product.h).
struct fused_product {
    uint8_t n_batch, n_m, n_n; // dimensions of each; n_m == 0: no product
    uint16_t a, b, sum;        // nodes
};

// The kernel is attention (fuse/attention.h): P is batch dimensions, M, D, and R is N, K. Only the fold `score` goes
// over K; the others go over N. The score, not a load, is what x is made of.
struct fused_attention {
    uint8_t n_batch, n_m, n_d, n_n, n_k; // dimensions of each; n_m == 0: no attention
    uint16_t q, k, score, x, peak, e, v, out;
};

// The kernel is the body of a loop and makes its trips itself (fuse/trips.c), each point for itself: what it reads of
// what the trip before it has left, it has computed itself. Such values stay in registers, and go through their storage
// dtype from trip to trip as if they had been stored; or they lie in memory, where each trip reads what it then writes.
// Or all points go together, trip by trip, in one workgroup or one thread: then they may read what others have written,
// and carried values lie by turns in the outputs and in the workspace.
struct fused_trips {
    bool on;
    bool in_place;         // in memory; else R is empty
    bool together;         // all points, in memory
    uint16_t first, count; // scalars, i64: the number of the first trip, and how many there are, one at least
    uint32_t numbers;      // scalars, a bit each, that are the number of the trip: code goes by `first` instead
    int64_t most;          // trips of a launch, for what it reaches and costs
    int64_t step[FUSED_MAX_IN + FUSED_MAX_OUT]; // elements that an access moves from trip to trip
    uint8_t carried[FUSED_MAX_IN]; // 1 + the output whose value this one has from the second trip on; 0: none
    bool last[FUSED_MAX_OUT];      // only what the last trip stores is needed
};

struct fused_kernel {
    const char *name; // for people: "mul_add_relu"; letters, digits, _
    int n_dims, n_reduce;
    int64_t sizes[FUSED_MAX_DIMS]; // outermost first; none is 1; an empty space is never launched
    int n_in, n_out, n_scalars, n_checks;
    struct fused_access in[FUSED_MAX_IN]; // SCALAR_LOAD: code
    struct fused_output out[FUSED_MAX_OUT];
    uint8_t scalar_cls[FUSED_MAX_SCALARS];    // SCALAR_INPUT: code
    uint64_t scalars[FUSED_MAX_SCALARS];      // bits, as in struct launch
    uint16_t scalar_input[FUSED_MAX_SCALARS]; // 1 + the input of the program that brings it; 0: it is what it is
    uint16_t checks[FUSED_MAX_CHECKS]; // bool nodes that must hold everywhere; a CPU reports the first that does not
    bool table; // one launch for several kernels of the family, each with an argument block of its own; no totals
    struct scalar_dag dag; // root unused
    // Made by fused_finish, dag.n_nodes each:
    uint8_t *level;
    uint8_t *stage; // reductions over R on the longest path from the inputs
    bool *turns;    // has another value in each trip
    int n_stages;
    bool has_total;
    struct fused_attention attention;
    struct fused_product product; // set by fusion, after the analysis
    struct fused_trips trips;
};

// Checks and analyses a kernel whose dag, accesses and outputs are set. KILN_E_INTERNAL names what is wrong.
kiln_status fused_finish(struct arena *a, struct fused_kernel *k);

// Merges neighbouring dimensions that every access walks as one, and drops those of size 1. A reduction dimension never
// merges with a parallel one; dimensions that SCALAR_DIM or SCALAR_SIZE name stay.
void fused_collapse(struct fused_kernel *k);

static inline const struct fused_access *fused_access_at(const struct fused_kernel *k, int i) // inputs, then outputs
{
    return i < k->n_in ? &k->in[i] : &k->out[i - k->n_in].to;
}
static inline bool fused_is_carried(const struct fused_kernel *k, int node)
{
    const struct scalar_node *n = &k->dag.nodes[node];
    return k->trips.on && n->kind == SCALAR_LOAD && k->trips.carried[n->code];
}
static inline bool fused_is_number(const struct fused_kernel *k, int node) // of the trip
{
    const struct scalar_node *n = &k->dag.nodes[node];
    return k->trips.on && n->kind == SCALAR_INPUT && k->trips.numbers >> n->code & 1;
}
static inline bool fused_takes_turns(const struct fused_kernel *k, int access) // between outputs and workspace
{
    if (!k->trips.together) return false;
    return access < k->n_in ? k->trips.carried[access] != 0 : k->trips.last[access - k->n_in];
}
static inline int64_t fused_step(const struct fused_kernel *k, int access) // elements, from trip to trip
{
    return k->trips.on ? k->trips.step[access] : 0;
}
// Whether an output's values go from trip to trip.
static inline bool fused_carries(const struct fused_kernel *k, int output)
{
    bool any = k->trips.on && k->trips.last[output];
    for (int i = 0; i < k->n_in && k->trips.on; i++) any |= k->trips.carried[i] == output + 1;
    return any;
}
bool fused_is_placed(const struct fused_kernel *k, int access); // read at places that are computed
// Whether the points of the whole space, in their order, are neighbours there.
bool fused_is_linear(const struct fused_kernel *k, const struct fused_access *a);
// Whether an access goes back somewhere.
bool fused_goes_back(const struct fused_kernel *k, const struct fused_access *a);
// Whether two accesses of the kernel go through their memory alike, point by point.
bool fused_same_places(const struct fused_kernel *k, const struct fused_access *a, const struct fused_access *b);
// Nothing is folded, and several points store the same element.
bool fused_stores_again(const struct fused_kernel *k, const struct fused_access *to);
// Whether an output may lie where `buffer` does, which the kernel reads and nobody after it: each element is stored
// behind the last read of what was there, by the same point (fuse/loops.h).
bool fused_may_lie_over(const struct fused_kernel *k, int output, uint32_t buffer);
int64_t fused_points(const struct fused_kernel *k);     // of P
int64_t fused_row_length(const struct fused_kernel *k); // of R; 1 without
// Whether the access has no element, for a dimension along which it moves and which is empty.
bool fused_is_nothing(const struct fused_kernel *k, const struct fused_access *a);
// Bytes an access touches, relative to its element 0 (offset included): [lo, hi). Nothing for an access with n_args >
// 0: then the caller has to count the whole buffer.
void fused_range(const struct fused_kernel *k, const struct fused_access *a, int64_t *lo_B, int64_t *hi_B);
bool fused_needs_wide_index(const struct fused_kernel *k); // offsets or point counts beyond 31 bits
int fused_bucket(const struct fused_kernel *k);            // of the row length: itself up to 8, else ceil(log2) + 8
int64_t fused_longest_row(const struct fused_kernel *k);   // of the bucket

// The canonical text of the family the kernel belongs to: equal texts, equal code. Appends bytes, not for people.
void fused_family(const struct fused_kernel *k, struct str *out);

// The kernel for people: space, accesses, one line a value.
void fused_text(const struct fused_kernel *k, struct str *out);

// The reference: computes the kernel on host memory, point by point. buffers[i] is buffer i's first byte. For tests;
// slow.
kiln_status fused_eval(const struct fused_kernel *k, void *const *buffers, uint32_t *failed_checks);
