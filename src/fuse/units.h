// A graph as launches: what fusion works on. Each op is lowered as eager mode would, with buffers in place of memory;
// the launches of catalogue kernels that have an expression are then material for fused kernels. No op is known by
// name.
#pragma once
#include "base/arena.h"
#include "ir/graph.h"
#include "ops/body.h"
#include "scalar/scalar.h"

enum buffer_kind { BUFFER_INPUT, BUFFER_CONSTANT, BUFFER_VALUE, BUFFER_TEMP };

struct unit_buffer {
    uint8_t kind; // enum buffer_kind
    uint8_t dtype;
    bool kept;     // read after all units: an output, or a value that is written back
    bool ordered;  // written more than once, or read and written by one unit: nothing is fused through it
    bool in_place; // given, and changed part by part where others read it: not written back at the end
    int32_t value; // of the graph; -1: a temporary of an op
    int64_t numel; // VALUE and TEMP: dense, row-major
    int32_t n_writes;
    int32_t writer; // the unit, where there is one
};

// A node with regions: what it reads and writes, whatever its regions do. They are compiled by themselves.
struct unit_region {
    struct launch_operand *operands; // n_operands: slots and flags alone
    int n_operands;
    bool has_effect; // of the host's: it comes after all that stands before it
};

struct unit {
    const struct unit_region *region; // NULL: a launch
    struct launch l; // operands[i].slot: the buffer; .address: bytes from its beginning, or immediate bits
    int32_t node;    // of the graph
    int n_in;        // with a body: operands that are read; the rest are written
    const struct kernel_body *body; // NULL: not to be fused
    enum scalar_class in_cls[MAX_OPERANDS];
    struct launch *parts; // n_parts launches that do the same, where the unit is not fused; NULL: `l` does
    int n_parts;
    uint8_t bits_dtype; // of the first operand and the result as they were lowered, where `l` has the buffers' own
    int row_dims;       // that rindex() counts along: n_reduce of the launch as it was lowered
    bool random; // draws from the piece of the stream that a run reserves: its scalars are the seed and the offset
    struct launch *plain; // as it was lowered, where the expression has a space of its own; else NULL
    int n_windows;        // conditions on reading the first operand
    struct launch_window windows[MAX_WINDOWS];
    bool anchor; // a product: what is fused around it takes the form of a tile kernel
    bool folds;  // the body reduces over the last n_reduce dimensions; else n_reduce is 0
};

// Where a value of the graph lies.
struct unit_view {
    int32_t buffer; // -1: a number
    int input;      // its number among the inputs
    bool is_number; // an input without memory
    struct layout layout;
};

struct units {
    struct arena arena;
    const struct kiln_graph *graph;
    VEC(struct unit) v;
    VEC(struct unit_buffer) buffers;
    struct unit_view *values;  // graph->values.n
    struct unit_view *outputs; // graph->outputs.n
};

// `layouts` of the inputs; NULL, or an entry NULL: row-major. Constants say theirs through `constant_layout`.
typedef void units_constant_layout(const void *held, struct layout *out);
struct units_options {
    const struct device_caps *caps;
    const struct layout *const *layouts;
    units_constant_layout *constant_layout;
    const bool *numbers;  // by input: it has no memory; NULL: weak inputs have none
    const bool *separate; // by output: it gets memory of its own even where it is memory that is there; NULL: none
    const bool *dense; // by output without a target: it must be row-major, from the beginning of its buffer; NULL: none
    // By value of the graph: whether memory of it that is written back may be seen through another input or constant.
    // NULL: any may.
    const bool *shared;
    bool in_place;    // what is written back part by part may be changed where it lies
    bool attends;     // attention that is said by its parts may become a kernel of the host's
    bool round_casts; // see struct program_options
};
kiln_status units_make(struct units *u, const struct kiln_graph *g, const struct units_options *o);
// The number of a new buffer for a dense value of this type; -1 with the error set. `value`: of the graph; -1: none.
int32_t units_add_buffer(struct units *u, enum buffer_kind kind, const struct type *t, int32_t value);
// Hand-written kernels may read an operand behind one that they write; those that write may read it, too.
static inline int unit_n_operands(const struct unit *u)
{
    return u->region ? u->region->n_operands : u->l.n_operands;
}
static inline const struct launch_operand *unit_operands(const struct unit *u)
{
    return u->region ? u->region->operands : u->l.operands;
}
static inline void unit_drop(struct unit *u) // it is taken out later
{
    u->l.n_operands = 0;
    u->region = NULL;
}
static inline bool unit_reads(const struct unit *u, int operand)
{
    return !(unit_operands(u)[operand].flags & (OPERAND_IMMEDIATE | OPERAND_WRITE));
}
static inline bool unit_writes(const struct unit *u, int operand)
{
    return (unit_operands(u)[operand].flags & (OPERAND_IMMEDIATE | OPERAND_WRITE)) == OPERAND_WRITE;
}
// The operand is read at places that are computed: it must lie in memory.
static inline bool unit_gathers(const struct unit *u, int operand)
{
    return u->n_parts > 0 || (operand == 0 && u->body && (u->body->places || u->body->check >= 0 || u->n_windows));
}
// The first n_dims dimensions of the launch, row-major, from the beginning of the operand's buffer.
static inline bool unit_is_dense(const struct unit *u, int operand, int n_dims)
{
    const struct launch_operand *o = &u->l.operands[operand];
    int64_t stride = 1;
    if (o->flags & OPERAND_IMMEDIATE || o->address) return false;
    for (int d = n_dims; d-- > 0; stride *= u->l.sizes[d])
        if (u->l.sizes[d] != 1 && o->strides[d] != stride) return false;
    return true;
}
static inline int64_t unit_points(const struct unit *u, int n_dims)
{
    int64_t n = 1;
    for (int d = 0; d < n_dims; d++) n *= u->l.sizes[d];
    return n;
}
// units_join.c: a buffer that is put together from pieces becomes the result of one unit. Leaves units without
// operands.
kiln_status units_join(struct units *u);
// units_forward.c: a chain of buffers, each a copy of the one before and a part that is written, becomes one; where it
// begins and ends in the same given memory, that, if it may be changed in place. Leaves units without operands.
kiln_status units_forward(struct units *u, bool in_place);
// units_attend.c: the parts of attention become one unit. Leaves units without operands.
kiln_status units_attend(struct units *u, bool round_casts);
// The launch as it was lowered.
static inline void unit_plain(const struct unit *u, struct launch *out)
{
    *out = u->plain ? *u->plain : u->l;
    out->n_reduce = (uint8_t)u->row_dims;
    if (u->bits_dtype) out->operands[0].dtype = out->operands[u->n_in].dtype = u->bits_dtype;
}
static inline bool unit_buffer_is_given(const struct unit_buffer *b)
{
    return b->kind == BUFFER_INPUT || b->kind == BUFFER_CONSTANT;
}
void units_finish(struct units *u);
