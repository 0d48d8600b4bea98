// The tape: what the gradient of a tensor needs. A tensor whose gradient is wanted points to a node: a leaf, which
// gathers a gradient, or an op, which keeps the op's attributes, the values that its rule asks for, and an edge to the
// node of each input.
//
// Nodes are reference counted: by the handles that point to them and by the edges of later nodes. Edges go from newer
// nodes to older ones (by sequence number), so there are no cycles; a node keeps storages, never handles, and a saved
// output has no edge of its own. The last reference frees a chain of any length without recursion.
#pragma once
#include "tensor/tensor.h"
#include <kiln/grad.h>

enum node_kind {
    NODE_LEAF, // a parameter: the gradient ends here
    NODE_OP,
    NODE_INPUT, // an input of a function under kiln_grad: passes the gradient on to what the caller's tensor depends on
    NODE_CUT,   // what depends on leaves by a tape that was not kept: no gradient is wanted, and none can be given
};

struct tape_edge {
    struct tape_node *node; // NULL: no gradient is wanted by this input
    uint32_t out;           // which output of it
};

// What is known of an input or output of a node. Dimensions, then strides, lie in the node's `dims` from dims_at.
enum value_state {
    VALUE_ABSENT, // an optional input that was not given
    VALUE_TYPE,   // type and layout only
    VALUE_STORAGE,
    VALUE_WEAK,
    VALUE_ABSTRACT,
};
struct tape_value {
    struct storage *storage;
    union {
        uint64_t version;
        double number;
        struct ir_builder *builder;
    };
    union {
        int64_t offset;
        int64_t integer;
        int64_t value;
    };
    uint16_t dims_at;
    uint8_t dtype, rank, state;
    bool weak;
    bool lazy;     // asked for by gradients of gradients only
    bool constant; // as kiln_constant told of the handle
};

struct tape_hook {
    struct tape_hook *next;
    uint64_t id;
    uint32_t out;
    kiln_grad_hook fn;
    void *user;
};

struct tape_leaf {
    struct tape_family *family; // of the handles of a state that a capture has read; a weak reference, or NULL
    kiln_tensor *gradient;      // owned
    char *name;                 // owned, or NULL
    bool requires_grad;
    atomic_int handles; // the gradient goes with the last handle: it may itself refer to this node
};

struct grad_rule;
struct tape_node {
    atomic_int refs;
    uint8_t kind;
    uint8_t n_out;
    uint16_t n_in;
    uint16_t size_class;
    bool freed; // backward used it up
    uint64_t sequence;
    const struct op *op;
    const struct grad_rule *rule; // as it was when the op was recorded; NULL: none
    struct tape_edge *edges;      // n_in
    struct tape_value *values;    // n_in inputs, then n_out outputs
    struct attr *attrs;
    int64_t *dims;
    struct tape_hook *hooks;
    struct tape_leaf *leaf; // NODE_LEAF
    void *held;             // what a node made by another layer needs; goes when backward has used the node up
    const void *held_place; // in what is held
    void (*drop)(void *held);
    uintptr_t where; // the place of the op, in a capture, or while values are watched or a profile is taken; else 0
};

// Handles that alias each other share a family: the node of the whole storage, seen as `type` in row-major order. A
// write through one of them replaces the node and raises the generation; the others make a new node, an as_strided of
// it, when they are asked next.
struct tape_family {
    atomic_int refs; // handles
    atomic_int weak; // states that name it, and one for all handles: the struct stays, without a base
    uint32_t generation;
    struct tape_edge base; // node NULL: no gradient
    struct type type;
    bool of_leaf; // shows (part of) a leaf's memory
};

// node.c
struct tape_node *node_new(uint8_t kind, int n_in, int n_out, int n_attrs, int n_dims);
struct tape_node *node_ref(struct tape_node *n);
void node_unref(struct tape_node *n);
void node_release_saved(struct tape_node *n); // values and edges; the node stays as `freed`
uint64_t node_sequence(void);                 // of the newest node
static inline bool node_requires_grad(const struct tape_node *n)
{
    return n && n->kind != NODE_CUT && (n->kind != NODE_LEAF || n->leaf->requires_grad);
}
// The node of values that a function ("grad") gave without a tape; not counted.
struct tape_node *node_cut(const char *function);
static inline bool node_is_cut(const struct tape_node *n)
{
    return n && n->kind == NODE_CUT;
}
kiln_status node_cut_error(const char *function, const struct tape_node *cut);
void node_value_type(const struct tape_node *n, const struct tape_value *v, struct type *out);
void node_value_layout(const struct tape_node *n, const struct tape_value *v, struct layout *out);
// An input of a function that is differentiated: where its gradient goes on to, if anywhere.
struct tape_node *node_input(const struct type *type, const struct tape_edge *outer);
// The value of input or output `index` as that of t.
void tape_keep(struct tape_node *n, int index, const kiln_tensor *t);
// Takes over g (NULL: none) as the leaf's gradient, in no scope; in a capture, as the one that the leaf has there.
void leaf_set_gradient(struct tape_node *leaf, kiln_tensor *g);
kiln_status leaf_get_gradient(struct tape_node *leaf, kiln_tensor **out); // the same way; borrowed, or NULL
// A handle of the open scope on the gradient that the leaf has outside of captures, whatever other threads do to it.
// *out NULL: it has none.
kiln_status leaf_hold_gradient(const struct tape_node *leaf, kiln_tensor **out);
// Whether the leaf's gradient lies in this storage.
bool leaf_gradient_is_on(const struct tape_node *leaf, const struct storage *storage);
// Makes t a leaf that requires no gradient, unless it is a leaf already.
kiln_status leaf_make_state(kiln_tensor *t);
const char *node_name(const struct tape_node *n); // for messages

// record.c
// A node with all values as types, and references to what the edges point to. A layout left NULL is row-major; an input
// whose type is NULL is absent.
kiln_status tape_node_make(const struct op *op, int n_in, const struct tape_edge *edges, const struct type *const *in,
                           const struct layout *const *layouts, int n_out, const struct type *out,
                           const struct attr *attrs, struct tape_node **result);
void tape_set_node(kiln_tensor *t, struct tape_node *n,
                   uint32_t out);                      // takes a reference of its own; drops the old one
kiln_tensor *grad_second_handle(const kiln_tensor *t); // on t's memory, at t's place on the tape; NULL: out of memory
// The place of t in the graph of gradients, brought up to date; node NULL where t requires no gradient.
kiln_status tape_current(kiln_tensor *t, struct tape_edge *out);
// A fresh handle with a saved value of n (index into values), checked against later writes. NULL without an error when
// it is not kept.
kiln_status tape_unsave(struct tape_node *n, int index, kiln_tensor **out);

// family.c
kiln_status family_viewed(kiln_tensor *base, kiln_tensor *view);
kiln_status family_share(kiln_tensor *from, kiln_tensor *to);
// Both lie on one storage and have nodes of their own, which they keep until one of them is written.
kiln_status family_join(kiln_tensor *first, kiln_tensor *t);
kiln_status family_written(kiln_tensor *t, const struct tape_edge *edge); // t has a new value, whose node is edge
kiln_status family_refresh(kiln_tensor *t);
// `all`, a new handle on the memory of t, has its place on the tape if others show that memory, too.
kiln_status family_join_late(const kiln_tensor *t, kiln_tensor *all);
// Makes the family of t, a handle of the state `leaf`, known to the leaf.
kiln_status family_of_state(kiln_tensor *t, struct tape_node *leaf);
bool family_has_history(const struct tape_node *state); // such a leaf's: its value requires a gradient
// A handle on its memory, of the open scope, with its place on the tape.
kiln_tensor *family_show(const struct tape_node *state, struct storage *s, const struct type *type,
                         const struct layout *layout);
// Something was written there, whose place on the tape is `edge`; node NULL: it has none, the state is one.
kiln_status family_state_written(const struct tape_node *state, struct storage *s, const struct type *type,
                                 const struct layout *layout, const struct tape_edge *edge);
bool family_is_of_leaf(const kiln_tensor *t); // t shows a leaf that requires a gradient, or a part of one
// A leaf on t's memory; other handles there count as views of it.
kiln_status family_make_leaf(kiln_tensor *t, struct tape_node *leaf, kiln_tensor *other);
void family_unref(struct tape_family *f);
void family_forget(struct tape_family *f); // a weak reference goes; NULL is fine
