// A row of the op table as every layer sees it, and a call of it. Rows themselves live in ops/.
#pragma once
#include "base/nearest.h"
#include "ir/view.h"
#include "ir/type.h"

#define OP_MAX_OUT   4
#define OP_MAX_ATTRS 10

enum attr_kind { ATTR_INT, ATTR_FLOAT, ATTR_BOOL, ATTR_INTS, ATTR_DTYPE };

struct attr_info {
    const char *name;
    uint8_t kind;
    bool is_size; // it goes with the sizes of tensors: a shape, a place, a length
    // What it is where nobody gives it, as where an option is left out; a list has `count` of these.
    bool has_default;
    uint8_t count;
    double fallback;
};

struct attr {
    uint8_t kind;
    bool set;      // false: the caller left it out
    uint8_t count; // ATTR_INTS
    union {
        int64_t i; // ATTR_INT, ATTR_BOOL, ATTR_DTYPE
        double f;
        int64_t v[MAX_RANK];
    };
};

enum op_flags {
    OP_ELEMENTWISE = 1 << 0,
    OP_COMMUTES = 1 << 1,
    OP_VIEW = 1 << 2,      // outputs alias input 0; `view` gives their layouts
    OP_ZERO_GRAD = 1 << 3, // the gradient is zero by definition (floor, compare, argmax …)
    OP_RANDOM = 1 << 4,    // attrs "seed" and "offset" are reserved from the device's generator when the op is checked
    OP_HIDDEN = 1 << 5,    // no public function (gradient expressions, helpers of families)
    OP_VARIADIC = 1 << 6,  // takes a list of tensors
    OP_INPLACE = 1 << 7,   // has a public in-place twin ending in _
    OP_CREATES = 1 << 8,   // no tensor inputs: takes a device
    OP_EFFECT = 1 << 9,    // in a graph: the last operand and the last output are tokens
    OP_STORAGE_VIEW = 1 << 10, // OP_VIEW by positions in the storage; in a graph, in the operand's row-major elements
    OP_SUM = 1 << 12,          // of its two inputs: without one of them it is the other
    OP_HOST = 1 << 13,         // in a graph: an effect of the host's, in order with the others; see host.h
    OP_CHANGES = 1 << 14,  // the result is input 0 but for a part, and the op cannot fail: it may be changed in place
    OP_SIGNLESS = 1 << 15, // its result has the same bits whether or not 64-bit integers are signed
    OP_FOLLOWS = 1 << 16,  // in a graph, dimensions of result i lie in memory in the order in which those of input i do
    OP_COMPARES = 1 << 11, // the gradient looks how near elements are to the result; of comparisons their type tells
};

// In a graph: the "seed" of a random node whose numbers come from the piece of the stream that each run reserves; its
// "offset" counts from the beginning of that piece.
#define RNG_OF_RUN INT64_MIN

struct op;
struct op_call {
    const struct op *op;
    int n_in, n_out;
    const struct type *const *in; // n_in
    struct type out[OP_MAX_OUT];  // filled by infer
    uint8_t compute_dtype;        // filled by infer where it differs from the result's (comparisons)
    struct attr *attrs;           // op->n_attrs
    const struct view *vin;       // only while lowering: inputs, immediates marked
    const struct view *vout;      // only while lowering
};

typedef kiln_status (*op_infer_fn)(struct op_call *c);
typedef kiln_status (*op_lower_fn)(const struct op_call *c, struct lowering *lo);
// Layouts of the outputs on input 0's storage. *copy = true: no strides can express it; the op is lowered instead.
typedef kiln_status (*op_view_fn)(const struct op_call *c, const struct layout *in, struct layout *out, bool *copy);

// A node with regions, as its op's rule sees it: types. The rule gives those of the outputs.
struct op_region {
    int n_params, n_results;
    const struct type *const *params, *const *results;
};
struct op_regions {
    const struct op *op;
    const struct attr *attrs; // op->n_attrs
    int n_in, n_regions, n_out;
    const struct type *const *in;
    const struct op_region *regions;
    struct type *out; // room for as many as the region with the most results gives, or count_results
};

// An op whose nodes own regions. Its operands are the parameters of each region, its outputs what the regions give.
struct op_regions_rule {
    // Checks that the regions fit each other and the operands, sets n_out and out.
    kiln_status (*types)(struct op_regions *r);
    int (*count_results)(const struct attr *attrs); // of an op without regions; -1 with an error. NULL: it has some
    bool inlined;                                   // it is its one region: a pass puts that in its place
    // Parameters and results that stay, though nothing uses them: other numbers count by them. NULL: all may go.
    bool (*keeps_param)(const struct attr *attrs, int n_params, int i);
    bool (*keeps_result)(const struct attr *attrs, int i);
    // Whether a value that it decides by may be wrong. `last`: the type of its last operand. NULL: none may.
    bool (*decision_can_fail)(const struct attr *attrs, const struct type *last);
};

struct op_functions {
    op_infer_fn infer;                     // checks the inputs and attributes, gives the types of the outputs
    op_lower_fn lower;                     // NULL for an op that is always a view
    op_view_fn view;                       // OP_VIEW only
    const struct op_regions_rule *regions; // of an op that takes regions, and has none of the others; else NULL
};

// The gradient of an elementwise op by one input: a hidden op over some of its inputs, its result and dy.
enum { GRADIENT_Y = 14, GRADIENT_DY = 15 };
struct op_gradient {
    const struct op *op; // NULL: with n_in 0 zero, with n_in 1 dy itself
    uint8_t n_in;
    uint8_t from[5]; // input index, GRADIENT_Y or GRADIENT_DY
};

// Which input of an op are indices that are looked at as it runs, and what they count.
enum index_bound {
    INDEX_NONE,
    INDEX_AXIS,   // along the axis of input 0 that attribute "axis" names
    INDEX_ROWS,   // along the first axis of input 0
    INDEX_TUPLE,  // the last dimension: along each of the first axes of input 0
    INDEX_SHAPE,  // the last dimension: along each of the first axes of attribute "shape"
    INDEX_LABEL,  // integers: classes of input 0, not from the end; but for "ignore_index", with "ignore"
    INDEX_VALUES, // no indices: numbers for which there may be no result, which only computing it tells
};
struct op_indexed {
    uint8_t bound; // enum index_bound
    uint8_t operand;
};

// An op that multiplies and adds: matrices, over the last dimension of input 0; or a weight [O, ...] at each place of a
// grid [N, O, H, W], which are inputs, or PRODUCTS_RESULT.
enum op_products_kind {
    PRODUCTS_NONE,
    PRODUCTS_MATRICES,
    PRODUCTS_IMAGES,
    PRODUCTS_ATTENTION,     // of q, k and v, which come first
    PRODUCTS_ATTENTION_GRAD // the same, with scores and weights made again
};
#define PRODUCTS_RESULT 15
struct op_products {
    uint8_t kind; // enum op_products_kind
    uint8_t grid, weight;
};

// What an op gives where all elements of input 0 are one number, as far as that is the same on all devices.
enum op_uniform {
    UNIFORM_NONE,
    UNIFORM_ZERO,  // 0, whatever its input
    UNIFORM_ONE,   // 1
    UNIFORM_VALUE, // attribute "value"
    UNIFORM_SAME,  // the number
    UNIFORM_CAST,  // the number in the result's dtype
    UNIFORM_SUM,
    UNIFORM_MEAN,
    UNIFORM_FIRST, // the place of the first element
    UNIFORM_TRUTH, // whether the number is not zero
};

// How an op on u64 is made of ops on i64, where its bits differ from those of i64 (no OP_SIGNLESS). *Keys* are the
// numbers as i64 with the upper bit flipped, which have the order of u64.
enum op_u64 {
    U64_NONE,      // it is not: u64 is refused, unless the op is signless, a view, or computes in floats
    U64_ON_KEYS,   // the op on keys
    U64_PICKS,     // the same, whose first result is one of the keys
    U64_PICKS_FOR, // who is picked is said by the keys of input 0, and what is given are numbers of input 1
    U64_SAME,      // the number
    U64_SIGN,      // whether it is not 0, as a number
    U64_NEVER,     // false
    U64_UP_TO_6,
    U64_DISTANCE, // of two
    U64_POWER,
    U64_QUOTIENT, // rounded down
    U64_REMAINDER,
    U64_SHIFT_RIGHT,
    U64_WAYS
};

struct op {
    const char *name;  // row name, also in graphs and in the registry of rules
    const char *alias; // MindSpore's name, or NULL
    const char *was;   // its name before, or NULL
    uint16_t index;    // in op_table
    uint16_t family;   // kernels: family * CLASS_COUNT + class
    uint32_t flags;
    uint8_t min_in, max_in; // OP_VARIADIC: 1, 255
    uint8_t n_out;          // 0 with regions: each node has its own number
    uint8_t n_attrs;
    struct op_indexed indexed;
    uint8_t uniform; // enum op_uniform
    uint8_t u64;     // enum op_u64
    struct op_products products;
    const char *const *in_names;
    const struct attr_info *attrs;
    const struct op_functions *fn;
    const struct op_elementwise *elementwise; // see ops/elementwise.h; NULL for structured ops
    const struct op_gradient *gradients;      // elementwise: one an input; NULL where all are zero
};

#define OPS_MAX 512 // rows of the tables; the build checks it
extern const struct op *const op_table[];
extern const int op_count;
struct nearest_hint op_nearest(const char *name); // for a message that there is no such op
const struct op *op_find(const char *name);       // by row name, alias or name before, a user's op too; or NULL
// Makes a user's op known, for the life of the process. op->index is op_count + op_user_count(); KILN_E_ARGUMENT when
// the name is taken.
#define USER_OPS_MAX 1024
int op_user_count(void);
kiln_status op_add(const struct op *op);
static inline const struct op_regions_rule *op_regions_rule(const struct op *op)
{
    return op->fn ? op->fn->regions : NULL;
}
// How many products it adds up; 0 for an op that is none.
double op_multiply_adds(const struct op *op, const struct type *const *in, const struct type *out);
int op_attr_index(const struct op *op, const char *name); // -1 when it has none of that name
kiln_status op_infer(struct op_call *c); // the op's own, and what holds for all: u64 is refused or right
struct attr op_attr_default(const struct attr_info *info); // of one that has a default
