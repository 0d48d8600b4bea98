// AUTO: a function runs on every call, and its ops are recorded instead of run.
//
// A recorded op gives handles on storages without memory. Such a storage has a `lazy`: the value of a segment that is
// to lie in it. Views, versions, the tape and writes in place work on these storages as on any others, so that user
// code sees what it sees eagerly. Whoever needs the memory calls storage_force, which breaks the graph: the segment
// ends, and what is asked for is computed. So does a write to what was there before the segment: the storage gets a
// lazy, and its memory stays what it was until the segment ends.
//
// A segment is a path in the function's trie from the root; its graph is made of that path when it is compiled. Values
// have numbers that depend on the path alone, so that what was compiled for a path holds for every walk along it.
#pragma once
#include "base/vec.h"
#include "grad/part.h"
#include "jit/function.h"
#include "tensor/apply.h"

enum { AUTO_OPERANDS = 256 };
// No error: the trie is closed, and does not know this step. The op is to run at once.
#define AUTO_LOST ((kiln_status)-1)

enum ref_kind { REF_NONE, REF_STEP, REF_INPUT, REF_NUMBER, REF_RUN_TIME };

// What an operand is, within a segment.
struct ref {
    uint8_t kind, dtype; // dtype: of numbers
    int32_t index;       // of the value, the input, or the run-time number
    double number;
    int64_t integer;
};

// How the outputs of a step become handles.
enum auto_step_mode { STEP_FRESH, STEP_VIEW, STEP_INNER };

struct input_type {
    struct type type;
    struct layout layout; // at any offset
};

// One recorded op: a node of the trie.
struct auto_step {
    struct auto_step *parent, *next, *children;
    const struct op *op; // NULL: the root
    struct attr *asked;  // before the op's infer, which may fill them in
    struct attr *attrs;
    struct ref *in;
    struct type *in_types;
    uint8_t mode, n_out, n_in;
    bool cut;           // a segment ends here for its size
    struct layout base; // OP_VIEW: of the operand
    struct layout view; // STEP_VIEW
    struct type *out;
    struct input_type *inputs; // that this step is the first to read
    int32_t n_new;
    int32_t n_values, n_inputs, n_numbers, depth; // before this step; the root's are 0
    uintptr_t caller;
    struct break_point *end;         // segments that ended here
    struct auto_gradient *gradients; // of tapes whose last node this step left
    uint64_t used;                   // root's children: when
    int32_t pins;                    // root's children: segments in flight
};

struct auto_body { // a compiled graph, shared by equal segments
    struct auto_body *next;
    kiln_device *dev;
    uint64_t hash;
    uint64_t number; // of the trie's bodies, in the order in which they were made
    struct kiln_graph *graph;
    struct input_type *inputs; // of the graph
    size_t n_inputs;
    bool *replaced;          // by input: what it holds was to be replaced when the body was made
    struct program *program; // NULL: node by node
    int launches, kernels;   // kernels: made of the graph
    uint64_t size_B;         // of the program, on the host
    int refs;
    bool making; // the program is being compiled, without the lock
    bool apart;  // it has run, and each result had memory of its own
};

struct auto_plan {
    struct auto_plan *next;
    size_t n_wanted;
    struct ref *wanted;
    int32_t *place; // by value of a step, among the wanted; -1: none
    int32_t n_values;
    struct ref *inputs; // of the graph: inputs and run-time numbers of the segment
    size_t n_inputs;
    struct auto_body *body;
    bool passes; // some of the wanted are inputs as they are
    bool once;   // of no break point
    uint64_t used;
};

struct break_point {
    struct auto_plan *plans;
    VEC(struct ref) learnt; // what was asked for after the break
    bool noted;             // in the log
};

struct auto_root {
    struct auto_root *next;
    kiln_device *dev;
    struct auto_step step;
};

// The trie of a function, or of a region.
struct trie {
    struct auto_root *roots; // by device
    struct auto_body *bodies;
    uint64_t clock;
    size_t n_steps, n_plans, n_bodies;
    uint64_t size_B; // of programs, on the host
    size_t longest;  // path: it finds a place whatever its length
    uint64_t made;   // bodies so far
    uint64_t misses; // walks that recorded something new, but for the first and for other sizes of what is known
    uint64_t forms;  // programs compiled whose graph was not that of another one but for sizes
    bool walked;
    bool closed;      // too many misses: nothing new is recorded, nor compiled
    int idle, plain;  // walks in a row that gained nothing; calls to come that are not recorded
    int refs;         // the function, and segments
    kiln_function *f; // NULL: it is gone
};
static inline const char *trie_name(const struct trie *t)
{
    return t->f ? t->f->name : "a segment";
}

// A value that is to lie in a storage.
struct shown {
    struct type type;
    struct layout layout;
    struct ref value;
};
struct lazy {
    struct storage *storage; // a reference when it was there before
    struct segment *seg;
    struct lazy *prev, *next; // of the segment
    struct type base;         // of the whole storage, row-major
    struct ref value;
    bool outside, asked, failed;
    uint32_t serial, version; // by which handles remember their value
    VEC(struct shown) shown;  // other views of it
};

// An input of a segment.
struct lazy_reader {
    struct lazy_reader *prev, *next; // of the storage
    uint64_t place;                  // what lists are chosen by: where it lay at first
    int32_t index, older;            // of the segment's inputs; one before it in its list, -1: none
    struct storage *storage;         // a reference
    struct segment *seg;
    struct type type;
    struct layout layout;
};

struct auto_number {
    uint8_t dtype;
    double number;
    int64_t integer;
};

// A value of a segment that has ended, and the input in which it lies since then.
struct given {
    int32_t value, input;
};

struct segment {
    int refs; // the walk, one a lazy of values, one a node that steps left
    struct trie *trie;
    struct auto_step *at; // the last step
    struct auto_step *first;
    kiln_device *dev;
    VEC(struct lazy_reader *) inputs;
    int32_t *lists; // of inputs, by where they lie: the last, -1: none; few_lists at first
    size_t n_lists; // a power of two, or 0
    int32_t few_lists[8];
    VEC(struct auto_number) numbers;
    int32_t n_values;
    struct lazy *lazies;
    VEC(struct given) given; // what comes later is computed of these, not of others that differ by their last bits
    size_t kept;             // inputs that steps and writes so far account for
    bool ended, random;
    bool spoiled; // a run that failed has written over what it reads
    bool busy;    // its values are being computed, without the lock, by `runner`
    pthread_t runner;
    struct auto_walk *asked_by; // that breaks it; NULL: none
    uint64_t seed, offset;      // of its random numbers
    struct error_record *failed;
};

// A value of a segment that had ended when it was computed, op by op, on the way to another one.
struct passed {
    const struct storage *storage; // no reference
    struct segment *seg;           // a reference
    struct ref value;
};

// A scope that records, on one thread.
struct auto_walk {
    struct sink base;
    struct trie *trie;
    struct segment *seg;      // NULL: none open
    int opened;               // segments
    struct auto_step *shadow; // a path that differs from this one in numbers alone
    bool missed;
    bool strayed;                  // what was missed is not another size of what is known
    const struct auto_step *added; // last
    uint64_t forms;                // the trie's, at entry
    int lost;                      // ops that a closed trie does not know
    int n_broken, n_slight;        // segments that breaks ended, and of these the slight ones
    bool results;                  // they leave the scope, with their places on the tape
    uint64_t since;                // the tape's newest node at entry
    int period;
    struct attr asked[OP_MAX_ATTRS]; // of the op that was not matched just now
    const struct op *asked_op;
    kiln_device *only;         // ops on other devices run at once; NULL: any
    VEC(struct passed) passed; // those of this walk
};

extern struct sink auto_sink;
static inline struct auto_walk *auto_walk_of(struct sink *s)
{
    return (struct auto_walk *)s;
}
// Of this thread. Among sinks that record, a walk's alone has memory for its values.
static inline struct auto_walk *auto_walk_current(void)
{
    return thread_state.sink && thread_state.sink->has_memory ? auto_walk_of(thread_state.sink) : NULL;
}

// lock.c: guards all that is in this file; recursive. It is held for short times: a thread that compiles or computes
// releases it meanwhile, marks the body or the segment, and others wait for the mark to go. So whoever breaks a
// segment, or forces a storage, must look again at what it has seen before.
void auto_lock(void);
void auto_unlock(void);
int auto_unlock_all(void); // whatever its depth, which auto_lock_again restores
void auto_lock_again(int depth);
void auto_lock_wait(void);                                 // until a mark may have gone
void auto_lock_wake(void);                                 // one has
void auto_body_unref(struct trie *t, struct auto_body *b); // freed once the lock is free

// trie.c
struct trie *trie_new(kiln_function *f);
void trie_unref(struct trie *t);
struct auto_step *trie_root(struct trie *t, kiln_device *dev);
struct auto_step_key {
    const struct op *op;
    const struct attr *asked;
    int n_in;
    struct ref *in;
    const struct layout *base; // OP_VIEW
    uint8_t mode;
    bool run_time; // a new step takes its numbers at run time
};
// The child of the segment's last step that is this op, or NULL.
struct auto_step *auto_step_find(const struct segment *s, const struct auto_step_key *k);
// A new child. `call`: inferred. Numbers in which it differs from a path that is there become run-time ones.
struct auto_step *auto_step_add(struct auto_walk *w, const struct auto_step_key *k, const struct op_call *call,
                                const struct layout *view);
// The segment goes on to a child.
kiln_status auto_step_take(struct auto_walk *w, struct auto_step *to, const struct ref *in);
static inline size_t auto_step_values(const struct auto_step *at) // of the path up to it
{
    return (size_t)(at->n_values + at->n_out);
}
// Inputs of the segment that its steps so far account for.
static inline size_t auto_step_inputs(const struct auto_step *at)
{
    return (size_t)(at->n_inputs + at->n_new);
}
void trie_trim(struct trie *t);
bool ref_equal(const struct ref *a, const struct ref *b);
void auto_plan_free(struct trie *t, struct auto_plan *p);
int auto_plan_find(const struct auto_plan *p, const struct ref *r); // among the wanted; -1: it is none

// segment.c
void segment_wait(const struct segment *s); // while another thread computes its values
void segment_unref(struct segment *s);
kiln_status segment_input(struct segment *s, struct storage *st, const struct type *type, const struct layout *layout,
                          struct ref *out);
void segment_forget_inputs(struct segment *s, size_t since); // those that came after
kiln_status lazy_new(struct segment *s, struct storage *st, const struct type *base, const struct ref *value,
                     bool outside, struct lazy **out);
void lazy_free(struct lazy *l);
kiln_status lazy_show(struct lazy *l, const struct type *type, const struct layout *layout, const struct ref *value);
// The storage's memory becomes `b`, the old one goes, or to those who still read it.
kiln_status storage_replace(struct storage *s, struct block *b);

kiln_status segment_keep(struct storage *s); // what is about to be written, for those who read it
void segment_release(struct storage *s);     // it goes
void auto_tag(struct auto_walk *w, const struct auto_step *s, struct tape_node *n); // n is of the step
bool auto_is_tagged(const struct tape_node *n);

// open.c
kiln_status segment_open(struct auto_walk *w, kiln_device *dev);
// Forces what waits for another segment; *again: the lock was free meanwhile.
kiln_status auto_force_foreign(const struct auto_walk *w, int n_in, kiln_tensor *const *in, bool *again);
// A segment is open, and no operand waits for another one.
kiln_status auto_ready(struct auto_walk *w, kiln_device *dev, int n_in, kiln_tensor *const *in);
kiln_status auto_lose_op(struct auto_walk *w); // after AUTO_LOST
bool auto_gave_up(const struct auto_walk *w);  // it runs eagerly to its end

// emit.c
kiln_status auto_emit_key(struct auto_walk *w, const struct auto_step_key *k, const struct type *const *types,
                          struct ref *out);
kiln_status auto_emit(struct auto_walk *w, const struct op *op, const struct attr *attrs, int n_in, struct ref *in,
                      const struct type *const *types, struct ref *out);

kiln_status auto_emit_shape(struct auto_walk *w, const struct op *op, const struct type *to, const struct type *from,
                            struct ref *value);
kiln_status auto_resolve(struct auto_walk *w, const struct op *op, int n_in, kiln_tensor *const *in, struct ref *refs);
void auto_remember(kiln_tensor *t, const struct lazy *l, const struct ref *value);
bool auto_covers(const struct type *base, const kiln_tensor *t); // t shows all of it, in its order
bool auto_can_record(const struct auto_walk *w, const struct op_call *c, const kiln_device *dev,
                     kiln_tensor *const *in);

// index.c: ops that fail where an index is out of range.
// Whether it is known that this one will not fail. Looks at indices that are in memory, and asks for none.
bool auto_index_known_to_fit(const struct auto_walk *w, const struct op_call *c, const kiln_device *dev,
                             kiln_tensor *const *in);
// The same; indices of which nothing is known are computed, which is a break.
kiln_status auto_index_check(struct auto_walk *w, const struct op_call *c, const kiln_device *dev,
                             kiln_tensor *const *in, bool *fits);

// fill.c: by the attributes of `full`.
bool auto_fill_changes(const struct auto_walk *w, const struct attr *attrs); // another number was seen here
kiln_status auto_emit_fill(struct auto_walk *w, const struct attr *attrs, struct ref *out);

// write.c
kiln_status auto_write(struct sink *sink, struct op_call *c, kiln_device *dev, kiln_tensor *const *in, bool *taken);

// build.c
// What computes `wanted`. With `more`, op by op, and with what it passes by that storages wait for.
kiln_status auto_plan_make(struct segment *s, const struct ref *wanted, size_t n, bool more, struct auto_plan **out);
kiln_status auto_body_picture(const struct trie *t, const struct auto_body *y, struct str *out); // as entry_picture

// The steps up to `at` that `wanted` needs, in a graph that is there. Inputs in `wanted` become inputs of the graph.
struct auto_forward {
    const struct auto_step *at;
    struct kiln_graph *g;
    int32_t *values, *inputs, *numbers; // in the graph, by number of the path; -1: not there. `values` is owned
    size_t n_values;
    struct ref *order; // what the graph's inputs are; owned
    size_t n_order;
};
kiln_status auto_forward_make(struct auto_forward *f, const struct ref *wanted, size_t n);
void auto_forward_finish(struct auto_forward *f);

// gradient.c: results of the walk get places on the tape that stand for whole segments.
kiln_status auto_collapse(struct auto_walk *w, kiln_tensor *const *in, size_t n_in, kiln_tensor *const *out,
                          size_t n_out);

// part.c
// A node for a part of the tape whose tagged nodes are of one segment. Takes over `part`. *out NULL: there is none.
kiln_status auto_part_node(struct trie *t, struct tape_part *part, const struct tape_edge *onward,
                           struct tape_node **out);

// lend.c
// Storages that the plan replaces give their memory to the windows through which the program reads them.
void auto_lend(struct segment *s, const struct auto_plan *p, kiln_tensor **in);
// What a result lies over is the result's, what none does is free. After a failure all is where it was.
void auto_take_back(struct segment *s, const struct auto_plan *p, kiln_tensor **in, bool has_failed);

// break.c
kiln_tensor *auto_number_tensor(const struct auto_number *n);
// A value that lies there is read. If it was passed by, it is asked for after the break, and is learnt.
kiln_status auto_learn_read(struct auto_walk *w, const struct storage *st);
void auto_forget_passed(struct auto_walk *w);
// Ends the segment and computes l (NULL: nothing that is asked for), its effects, and what was learnt.
kiln_status segment_break(struct segment *s, struct lazy *l, const char *why);

// call.c
struct auto_scope {
    struct auto_walk walk;
    struct kiln_scope scope;
    struct sink *outer;
    kiln_tensor *const *in; // of a call
    size_t n_in;
};
kiln_status auto_scope_enter(struct auto_scope *a, kiln_function *f, kiln_device *only);
// After the handles that are not kept have gone: what is left to do.
kiln_status auto_scope_leave(struct auto_scope *a, kiln_tensor *const *out, size_t n_out, bool failed);
kiln_status auto_call(kiln_function *f, kiln_tensor *const *in, size_t n_in, struct outputs *o);
