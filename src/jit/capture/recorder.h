// The recorder: a graph sink for user code. Ops on abstract tensors become nodes; tensors from outside become inputs of
// the graph where they may change between calls, and constants where they may not; memory becomes variables.
//
// A variable is a piece of memory that handles show. It has a value, which writes replace, and a version. A handle
// remembers the version at which its own value was right; when it is used later, it takes its part of the variable's
// value. So every write is a new value, every read sees the last write through any view, and at the end what belongs to
// tensors outside is written back, in order.
#pragma once
#include "base/chains.h"
#include "base/vec.h"
#include "grad/map.h"
#include "ir/host.h"
#include "grad/tape.h"
#include "jit/capture/gradient_step.h"
#include "jit/capture/replay.h"
#include "jit/capture/source.h"
#include "tensor/apply.h"
#include "tensor/graph.h"
#include <kiln/jit.h>

struct variable {
    kiln_tensor *current;    // the value, and its place on the tape; owned
    struct layout layout;    // where its elements lie in the memory
    uint32_t version;        // raised by each write
    uint32_t moves;          // raised by each that moves it on the tape
    int32_t source;          // the input that it belongs to; -1: made in the capture
    struct storage *storage; // by which it is found again (a reference), or NULL; see recorder_lay
    uint64_t written;        // its last write's number; 0: never
    const void *family;      // of the handles from outside that it was met by
    bool parted;             // it was met by handles whose gradients are apart, or by a state and another one
};

// Handles that parted from the others of their memory (kiln_stop_gradient): a write through them is on their tape
// alone, and one through others is not on it.
struct own_place {
    struct tape_node *node; // a reference
    uint32_t out, moves;    // as in struct variable
    bool shared;            // tensors that a function is differentiated by, of nodes of their own
};

// A value, as a replay of the graph with gradients would see it.
struct replayed {
    uint8_t state; // replayed.c
    uint32_t out;
    struct tape_node *node; // where the op that made it put it on the tape; a reference
    int32_t earlier;        // the value before this one that lies at the same node; -1: none
};

// A tensor that was there before, or was made of host data.
struct constant {
    kiln_tensor *tensor;     // owned
    struct storage *storage; // of the tensor that it was taken from; a reference
    struct layout layout;
};

// What the gradient of a leaf is inside; outside it stays as it was until a call has run.
struct leaf_gradient {
    struct tape_node *leaf; // a reference
    kiln_tensor *now;       // owned, or NULL
    bool had;               // there was one before, with this memory or value
    const struct storage *storage_before;
    int32_t value_before;
    bool used;     // what it was before
    bool replaced; // what it was before is not seen any more
    bool given;    // the node of the region gives it to the capture around
    bool absent;   // the first trip finds none eagerly: what it was before may be added to, not read
};

// A region that has been recorded: its handles are gone.
struct ended_region {
    uint32_t capture;
    const char *op;
    uintptr_t caller;
};

struct node_range {
    size_t first, end;
};

struct recorder {
    struct graph_sink sink;
    struct recorder *outer;         // of a region: what it is a part of
    VEC(struct ended_region) ended; // regions of this one
    int32_t *const *forced;         // n_forced variables of the outer one that require a gradient in any case
    const size_t *n_forced;         // NULL: none
    uint32_t capture;               // its number
    const char *name;               // of the function, for messages
    kiln_capture kind;
    kiln_syntax syntax;
    bool no_grad;                   // where it begins
    uint64_t since;                 // newer nodes of the tape are its own
    kiln_device *dev;               // NULL: not known yet
    VEC(struct variable) variables; // from 1
    VEC(struct own_place) places;   // by a handle's `place`, from 1
    VEC(struct source) sources;     // in the order of the graph's inputs
    VEC(struct constant) constants;
    VEC(struct host_call *) hosts;          // that nodes name; references
    VEC(struct leaf_gradient) gradients;    // that were given or asked for
    VEC(struct tape_node *) leaves;         // parameters and states in another's source; references
    struct chains variables_on, sources_on; // by storage
    struct chains sources_of, gradients_of; // by leaf
    struct chains leaves_of;                // by themselves
    VEC(struct replayed) replayed;          // by value; those beyond have no gradient
    struct node_map latest;                 // by node: the number of the last value that lies there, plus one
    VEC(kiln_tensor *) known;               // by value: what was computed for reads; owned
    VEC(struct happened) happened;          // writes, in order
    VEC(struct gradient_step) gradient_steps;
    bool records_gradients; // the backward that came last, with .create_graph
    bool accumulates;       // the same, with .accumulate
    bool has_arrived;       // some step is GRADIENT_ARRIVED
    uint64_t writes, random_counters;
    uint64_t taken;                  // memory that was a constant's, before it was written
    uint64_t max_nodes;              // of this one and those around it; 0: no bound
    VEC(struct node_range) of_rules; // made for gradients, not by the function
    const struct joined *joined;     // borrowed
    size_t n_joined;
    struct joined conflict; // memory that must be joined; the capture has failed then
    bool is_unlike_replay;  // a replay would not give the gradients of gradients
    bool asks_sharing;      // the function asked whether tensors lie on one storage
    int must_be_constant;   // a scalar input that was read; -1: none
    // The values of inputs; NULL in regions, where there are none. The function may read them where it is traced alone.
    kiln_status (*input_value)(struct recorder *r, const struct source *s, kiln_tensor **out);
    void *user;
    bool traces;
    bool types_alone; // the graph is never run: any tensor may be an input of it
};

kiln_status recorder_init(struct recorder *r, const char *name, kiln_capture kind, kiln_syntax syntax);
void recorder_finish(struct recorder *r); // frees the graph too, unless it was taken

// A new input of the graph, of the type and in the place of t; `leaf` where t is a parameter. The variable's number.
kiln_status recorder_add_source(struct recorder *r, struct source *s, const struct type *type, const char *name,
                                int32_t *variable);
// The same for a leaf: what gradient it has is known afterwards.
kiln_status recorder_add_parameter(struct recorder *r, struct source *s, const char *name, int32_t *variable);
// A number that is asked for at the start of each call, and reaches kernels as an argument.
kiln_tensor *recorder_number_of_call(struct recorder *r, double (*fn)(void *user), void *user);
kiln_status recorder_check_device(struct recorder *r, const char *op, kiln_device *dev);
struct control_draws;
// Of the random ones, for a node; -1: it `takes` none.
int64_t recorder_take_number(struct recorder *r, const struct control_draws *d, bool takes);
struct recorder *recorder_current(void); // of this thread; NULL: none
// t as an abstract value or a constant of this capture. A new handle of the open scope, or t itself.
kiln_status recorder_resolve(struct recorder *r, const char *op, kiln_tensor *t, kiln_tensor **out);
// What the function made of host data as a part of memory: a variable that covers its whole storage.
kiln_status recorder_take_memory(struct recorder *r, kiln_tensor *t, kiln_tensor **out);

static inline struct recorder *recorder_of(struct sink *s)
{
    return (struct recorder *)s; // its first member
}
static inline bool is_number(const kiln_tensor *t)
{
    return !t->storage && !t->builder;
}

kiln_status recorder_refuse_size(const char *name, uint64_t max_nodes); // a graph that has more

// unrolled.c
kiln_status recorder_note_rule(struct recorder *r, size_t node); // it was made for a gradient
void recorder_tell_unrolled(const struct recorder *r);           // a warning, where loops in C make up the graph

// recorder_outer.c
// Of a region: t, which is not its own, as what the capture around it makes of it.
kiln_status recorder_resolve_outer(struct recorder *r, const char *op, kiln_tensor *t, bool write, kiln_tensor **out);
// An error where gradients by what t shows are apart, as a region cannot tell them.
kiln_status recorder_check_target(const struct recorder *r, const char *op, const kiln_tensor *t);
kiln_status recorder_not_mine(const struct recorder *r, const char *op, const kiln_tensor *t); // an error

// The sink of this thread, while another records.
struct recorder_switch {
    struct sink *sink;
    uint32_t capture;
};
struct recorder_switch recorder_enter(struct recorder *r);
void recorder_leave(const struct recorder_switch *before);

// recorder_constant.c
bool recorder_is_constant(const struct recorder *r, kiln_tensor *t); // the capture may keep its value
// Of a constant, in a region: whether it lies on the tape of what is around.
bool recorder_lies_outside(const struct recorder *r, kiln_tensor *t);
kiln_status recorder_value(struct recorder *r, kiln_tensor *t, int32_t *value); // of a resolved handle
// *t, a constant of that value: what the graph holds, for the tape to keep, or where it requires a gradient that value.
kiln_status recorder_show_constant(struct recorder *r, int32_t value, kiln_tensor **t);
// The same for any resolved handle that is a constant.
kiln_status recorder_hold(struct recorder *r, const char *op, kiln_tensor **t);

// recorder_resolve.c
struct tape_node *recorder_leaf_of(kiln_tensor *t); // NULL: t is no parameter or state
kiln_status recorder_refuse(const struct recorder *r, const char *op, const kiln_tensor *t); // one from outside

// recorder_memory.c
const struct joined *recorder_joined(const struct recorder *r, const struct storage *s); // NULL: its sources are apart
int32_t recorder_find(const struct recorder *r, kiln_tensor *t); // the variable that t from outside is in; 0: none
kiln_status recorder_lay(struct recorder *r, int32_t variable, struct storage *storage); // that the variable lies on
kiln_status recorder_set_leaf(struct recorder *r, int32_t source, struct tape_node *leaf);
bool recorder_overlaps(const struct recorder *r, const kiln_tensor *t);
// A handle from outside is a way to it.
void recorder_meet(struct recorder *r, int32_t variable, const kiln_tensor *t); // part of it is in a variable
kiln_status recorder_add_memory(struct recorder *r, struct storage *storage, uint8_t dtype, int32_t *variable);
kiln_status recorder_join(struct recorder *r, struct storage *storage, bool whole); // ends the capture
// Ends the capture if the variable, which is (`write`) about to be written, overlaps another, or one that was written.
kiln_status recorder_check_apart(struct recorder *r, int32_t variable, bool write);
kiln_status recorder_watch(struct recorder *r, struct tape_node *leaf); // the program goes with its handles

// recorder_write.c, recorder_read.c
// t as an abstract value with a variable, which can be written.
kiln_status recorder_resolve_target(struct recorder *r, const char *op, kiln_tensor *t, kiln_tensor **out);
kiln_status recorder_write(struct sink *s, const struct op *op, int n_in, kiln_tensor *const *in, struct attr *attrs);
kiln_status recorder_known_value(struct sink *s, const char *op, kiln_tensor *t, kiln_tensor **out);
kiln_status recorder_force(struct sink *s, kiln_tensor *t, kiln_tensor **real);

// recorder_host.c
kiln_status recorder_host(struct sink *s, const struct host_call *like, kiln_tensor *const *in, size_t n_in,
                          kiln_tensor **out);
// A number that the host gives at each call, or each time that a region runs; a handle of the open scope.
kiln_tensor *recorder_host_number(struct recorder *r, double (*fn)(void *user), void *user);
kiln_status recorder_take_hosts(struct recorder *r, struct recorder *from); // of a region that has become a part of r

// replayed.c
// Of a region: an input that has no place on its tape; `there`: the value around that a replay gives it.
kiln_status replayed_outer(struct recorder *r, int32_t value, int32_t there);
kiln_status replayed_source(struct recorder *r, int32_t value, struct tape_node *n); // which lies at n
// The value that a reader of t, whose value is *value, takes.
kiln_status replayed_operand(struct recorder *r, const kiln_tensor *t, int32_t *value);
kiln_status replayed_operands(struct recorder *r, int n_in, kiln_tensor *const *in, int32_t *values);
kiln_status replayed_results(struct recorder *r, const struct op_call *c, const int32_t *values,
                             kiln_tensor *const *out);
void replayed_finish(struct recorder *r);

// recorder_gradient.c
kiln_status recorder_note_gradient(struct sink *s, const struct gradient_note *n);
bool recorder_leaves_gradient(const struct leaf_gradient *g);   // another one than there was, that nothing gives on
kiln_status recorder_check_gradients(const struct recorder *r); // of a region: it leaves none
// NULL: an error. Unless it `uses` what there was before.
struct leaf_gradient *recorder_leaf_gradient(struct recorder *r, struct tape_node *leaf, bool uses);
void recorder_found_no_gradient(struct sink *s, const struct tape_node *leaf);
kiln_tensor **recorder_gradient_of(struct sink *s, struct tape_node *leaf); // NULL: an error
void recorder_drop_gradients(struct recorder *r);
bool recorder_is_entry(struct sink *s, const struct tape_node *n); // replayed.c

// recorder_reach.c
kiln_status recorder_check_whole(struct sink *s, const struct tape_node *root, struct tape_node *const *targets,
                                 size_t n);

// variable.c
kiln_tensor *variable_handle(struct recorder *r, const struct type *type, int32_t value); // shows no memory
kiln_status variable_new(struct recorder *r, const kiln_tensor *value, const struct layout *layout, int32_t *out);
// A new handle on what lies at `layout`.
kiln_status variable_show(struct recorder *r, int32_t variable, const struct type *type, const struct layout *layout,
                          kiln_tensor **out);
// As a handle with a place of its own sees it; 0: as all others do.
kiln_status variable_show_at(struct recorder *r, int32_t variable, int32_t place, const struct type *type,
                             const struct layout *layout, kiln_tensor **out);
bool variable_is_at(const struct variable *v, const kiln_tensor *t); // t shows all of it, in its shape
// Whether the memory that t shows is that of a leaf that requires a gradient.
bool variable_is_leaf(const struct recorder *r, const kiln_tensor *t);
// Where the memory that t shows is on the tape, by those that share t's place.
void variable_set_place(struct recorder *r, const kiln_tensor *t, struct tape_node *n, uint32_t out);
// The same by numbers, for all handles at that place.
void variable_move(struct recorder *r, int32_t variable, int32_t place, struct tape_node *n, uint32_t out);
// In t's part of the memory the place is t's own; `moves`: for other handles as well.
kiln_status variable_rebase(struct recorder *r, kiln_tensor *t, bool moves);
kiln_status variable_own(struct recorder *r, kiln_tensor *t); // gives t a variable if it has none
kiln_status variable_refresh(struct recorder *r, kiln_tensor *t);
// The same value as a copy, so that it lies in no other memory.
kiln_status variable_copy(struct recorder *r, int32_t variable);
kiln_status variable_write(struct recorder *r, kiln_tensor *t, kiln_tensor *value); // value: of t's type
