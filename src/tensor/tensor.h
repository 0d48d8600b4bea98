// Handles, storages, the thread's state, and the hooks by which the tape sees ops. A handle has one owner (a scope or
// the user); storages and tape nodes are reference counted, so what the tape keeps are storages, never handles.
#pragma once
#include "base/thread.h"
#include "device/device.h"
#include "ir/op.h"
#include <kiln/random.h>
#include <kiln/tensor.h>
#include <stdatomic.h>
#include <stdio.h>

// Memory may be pending: what is to be in it was recorded and not computed yet. `lazy` then says by what, and the block
// has a size alone, or what was there before. `readers` are recordings that still need what is there now.
struct lazy;
struct lazy_reader;

struct storage {
    atomic_int refs;
    kiln_device *dev;
    struct block block;
    struct lazy *lazy;           // NULL: the memory holds its value
    struct lazy_reader *readers; // NULL: none
    bool borrowed;               // the block belongs to another storage
    bool spent;                  // it was given away, and what it held is lost
    atomic_int saved;            // of the references, those of what the tape keeps for a backward
    uint64_t version;            // raised by each write
    const char *writer;          // the op that wrote last, for messages
    uint64_t made;               // when, as storage_now
    uint32_t capture;            // the capture on this thread in which it was made; 0: none
};

struct tape_node;  // grad/tape.h
struct ir_builder; // ir/graph.h

#define TENSOR_ALIVE 0x4b696c6eu
#define TENSOR_FREED 0xdeadbeefu
#define TENSOR_TAKEN 0x676f6e65u // given away: a handle still, whose memory is another's

// Whom tensors were given to, for messages.
struct taker {
    atomic_int refs;
    char name[];
};

struct kiln_tensor {
    struct type type;
    struct layout layout;
    struct storage *storage; // NULL: a weak scalar, or an abstract value
    union {
        double number;       // weak scalars
        struct taker *taker; // of one that was given away, a reference
    };
    union {
        int64_t integer;
        uintptr_t taken_at;  // the line of the user's
        uintptr_t gone_with; // of one that was freed: the line that began its scope; 0: it went by itself
    };
    uint32_t magic;
    uint32_t node_out;          // which output of `node`
    struct tape_node *node;     // NULL: no gradient; a leaf's node gathers its gradient
    struct tape_family *family; // shared by the handles that alias each other; NULL: none does
    uint32_t generation;        // the family's when `node` was right
    struct tape_node *state;    // the leaf of a state whose value has a history, and `node` for it; NULL: none
    bool detached;              // shares memory but not the graph of gradients (stop_gradient, no-grad views)
    struct ir_builder *builder; // abstract values only
    int32_t value;              // the value's number there
    uint32_t capture;           // to which it belongs
    int32_t variable;           // the memory that it shows, a capture's own numbering; 0: it aliases nothing
    uint32_t seen;              // the variable's version when `value` was right
    int32_t place;              // on the tape: which of those that the variable has; 0: that of all who did not part
    bool run_time;              // a number that programs take at run time (kiln_mutable)
    bool constant;              // a capture may take the value that it finds (kiln_constant)
    uint8_t shown;              // enum shown_as: what users see, by tensor_show
    bool lent;                  // users have it of the library, which owns it
    bool unscoped;              // made where no scope was open
    struct kiln_scope *scope;   // owner; NULL: the user
    kiln_tensor *prev, *next;   // in the scope
    uintptr_t made_at;          // where handles are tracked: the line of the user's that made it
    kiln_tensor *live_prev, *live_next;
    int64_t packed_dims[MAX_RANK]; // of two numbers in a byte: what users see
};

struct kiln_bundle; // bundle/bundle.h

struct kiln_scope {
    kiln_tensor *first;
    struct kiln_bundle *bundles;
    struct kiln_scope *outer;
    size_t n;           // tensors that it owns
    uintptr_t begun_at; // the line of the user's that began it; 0: it lies in a function of the library
    void (*end)(struct kiln_scope *innermost); // it is a part of something else of the user's, which this ends
};

// What a capture does beyond taking ops. In a capture memory is a variable: a handle shows what was in it when the
// handle was last brought up to date.
struct sink;
struct host_call;
struct rng;

// What user code does to the gradients of leaves, in order.
enum gradient_event {
    GRADIENT_RUN,     // a backward has come to its end; what it gives follows
    GRADIENT_LEFT,    // for a leaf, before the leaf's hooks
    GRADIENT_ARRIVED, // at an input of a function, behind which nothing is on this tape
    GRADIENT_SET,     // a leaf's is replaced, by NULL: dropped
    GRADIENT_READ,    // a leaf's is given to user code
};
struct gradient_note {
    uint8_t event;         // enum gradient_event
    bool accumulate, keep; // RUN: what the backward was asked for
    bool create_graph;     // RUN
    struct tape_node *node;
    kiln_tensor *gradient;
};

// Control flow as nodes of the graph; *taken false: it is carried out.
struct control_branches;
struct control_loop;
struct flow_ops {
    kiln_status (*branches)(struct sink *s, const struct control_branches *b, kiln_tensor **out, bool *taken);
    kiln_status (*loop)(struct sink *s, const struct control_loop *l, kiln_tensor **out, bool *taken);
};

struct capture_ops {
    // Before the host reads t (`*real` = t on entry): a tensor that holds its value, or an error.
    kiln_status (*force)(struct sink *s, kiln_tensor *t, kiln_tensor **real);
    kiln_status (*write)(struct sink *s, const struct op *op, int n_in, kiln_tensor *const *in, struct attr *attrs);
    kiln_status (*refresh)(struct sink *s, kiln_tensor *t); // value and place on the tape as of now
    kiln_status (*share)(struct sink *s, kiln_tensor *t); // t is about to get a second handle, or is a parameter in use
    kiln_status (*part)(struct sink *s, kiln_tensor *t);  // t, a second handle, goes its own way on the tape
    // t as it is seen inside: a parameter or state as a handle of the open scope; any other is *out itself.
    kiln_status (*show)(struct sink *s, kiln_tensor *t, kiln_tensor **out);
    // t, an input of a function that is differentiated, goes its own way, with those of `before` in its memory.
    kiln_status (*enter)(struct sink *s, kiln_tensor *t, size_t n, kiln_tensor *const *before);
    kiln_status (*rebase)(struct sink *s, kiln_tensor *t); // what is shown of t's part of its memory has t's place
    kiln_status (*host_data)(struct sink *s, const char *function); // whether tensors may be made of it
    kiln_device *(*device)(struct sink *s);
    void (*found_no_gradient)(struct sink *s, const struct tape_node *leaf);
    // Where the capture has the gradient of a leaf, which stays as it is for others. NULL: an error.
    kiln_tensor **(*gradient_of)(struct sink *s, struct tape_node *leaf);
    kiln_status (*note_gradient)(struct sink *s, const struct gradient_note *n);
    bool (*is_strict)(struct sink *s);
    // What t has in the call that is captured; a handle of the open scope. An error where that is not known.
    kiln_status (*value)(struct sink *s, const char *op, kiln_tensor *t, kiln_tensor **out);
    // A call of the host at each run, on the values that `in` has now. `out`: its results, of the open scope.
    kiln_status (*host)(struct sink *s, const struct host_call *h, kiln_tensor *const *in, size_t n_in,
                        kiln_tensor **out);
    // Whether the node is where a tensor of the caller's lies that depends on others.
    bool (*is_entry)(struct sink *s, const struct tape_node *n);
    // An error where a backward from root would end at the border of a region, though it leads on to a target.
    kiln_status (*check_whole)(struct sink *s, const struct tape_node *root, struct tape_node *const *targets,
                               size_t n);
    bool (*on_one_storage)(struct sink *s, const kiln_tensor *a, const kiln_tensor *b); // abstract ones of this capture
    bool (*is_of_leaf)(struct sink *s, const kiln_tensor *t); // t shows memory of a leaf that requires a gradient
    // The next n random numbers, as a graph that is run node by node inside of the capture takes them.
    kiln_status (*numbers)(struct sink *s, const char *op, uint64_t n, struct rng *out);
    // t as an abstract value or a constant of the capture; `write`: as memory that can be written.
    kiln_status (*reach)(struct sink *s, const char *op, kiln_tensor *t, bool write, kiln_tensor **out);
};

// What ops go through on this thread.
struct sink {
    // Before anything is checked or inferred: true when the op was taken, with *status. NULL: none.
    bool (*match)(struct sink *s, const struct op *op, kiln_device *dev, int n_in, kiln_tensor *const *in,
                  struct attr *attrs, kiln_tensor **out, kiln_status *status);
    // A checked write into in[0], instead of the launches; *taken false: it is to be done at once. NULL: none.
    kiln_status (*write)(struct sink *s, struct op_call *c, kiln_device *dev, kiln_tensor *const *in, bool *taken);
    kiln_status (*apply)(struct sink *s, struct op_call *c, kiln_device *dev, kiln_tensor *const *in,
                         kiln_tensor **out);
    const struct capture_ops *capture; // NULL: none
    const struct flow_ops *flow;       // of a capture; NULL: control flow is carried out
    struct sink *around;               // of a region of a capture: what it is a part of
    uint32_t number;                   // of the capture; where `around` may lead to it
    bool has_memory;                   // of all its values: an abstract one is of a capture that has ended
};

// Installed by the layer that defers work.
struct lazy_hooks {
    kiln_status (*force)(struct storage *s, const char *why); // afterwards the memory holds its value
    kiln_status (*keep)(struct storage *s);                   // the memory is about to change: readers keep what it is
    void (*release)(struct storage *s);                       // a pending storage goes
    int (*count)(const struct storage *s);                    // references that what is pending has
};
extern struct lazy_hooks tensor_lazy;
// Before memory is read, and before it is written.
static inline kiln_status storage_force(struct storage *s, const char *why)
{
    return KILN_UNLIKELY(s && __atomic_load_n(&s->lazy, __ATOMIC_ACQUIRE)) ? tensor_lazy.force(s, why) : KILN_OK;
}
static inline kiln_status storage_prepare_write(struct storage *s, const char *why)
{
    TRY(storage_force(s, why));
    return KILN_UNLIKELY(s && __atomic_load_n(&s->readers, __ATOMIC_ACQUIRE)) ? tensor_lazy.keep(s) : KILN_OK;
}
// Installed by the layer of bundles: the scope's go.
extern void (*tensor_drain_bundles)(struct kiln_scope *s);
// What everything calls that needs the memory of a handle.
#define tensor_force(t, why) storage_force((t)->storage, why)

_Static_assert(MAX_RANK == KILN_MAX_RANK, "what users may rely on is what types hold");

// Which effects a run has had (ir/host.h), so that one that fails can be brought to where it would have failed eagerly
// without having them twice.
struct flow_effects {
    uint64_t done, skip;    // skip: so many are to be passed over
    struct flow_kept *kept; // flow.h: what those that were done gave, for the second attempt
    size_t n_kept, n_taken, kept_B;
    bool lost;              // it was too much to be kept
    bool failed;            // the next one did
    bool is_second_attempt; // what failed is not tried again
};

struct thread_state {
    struct kiln_scope *scope;     // innermost
    struct sink *sink;            // NULL: eager
    kiln_generator *generator;    // in use; NULL: the devices' own
    struct draw_frame *draws;     // of the innermost region of control flow; NULL: what is drawn is the device's
    struct flow_trip *trips;      // of the loops that are run; NULL: none
    struct flow_effects *effects; // of the innermost call of a captured function; NULL: none
    int no_grad, no_capture;      // depths
    uint32_t capture;             // number of the capture in progress, 0: none
    bool numbers_given;           // random ops come with their piece of the stream
    bool indices_fit;             // the library made the indices of ops, or has seen them checked
    bool scopes_end;              // what is open when the thread ends is ended
    bool in_rules;                // gradients are being computed: what is recorded, the library makes
};
extern THREAD_LOCAL struct thread_state thread_state;
// Whether an abstract value that is met here was kept longer than its capture.
static inline bool tensor_outlives_captures(void)
{
    return !thread_state.sink || thread_state.sink->has_memory;
}

struct sink *tensor_capture_around(const kiln_tensor *t);
// The capture in progress that t is an abstract value of, in a region perhaps one around it; NULL: none.
static inline struct sink *tensor_capture(const kiln_tensor *t)
{
    bool mine = t->builder && t->capture == thread_state.capture && thread_state.sink && thread_state.sink->capture;
    if (mine) return thread_state.sink;
    return KILN_UNLIKELY(t->builder && thread_state.sink && thread_state.sink->around) ? tensor_capture_around(t)
                                                                                       : NULL;
}

// Installed by the tape when the library is loaded.
struct tape_hooks {
    // An op ran: attach a node to the outputs.
    kiln_status (*record)(const struct op_call *c, kiln_tensor *const *in, kiln_tensor *const *out);
    // out[0] was made as a view of in[0]; called on every view, after record.
    kiln_status (*viewed)(kiln_tensor *base, kiln_tensor *view);
    // Before a write into in[0]: whether it may be written, and in saved[i] what a rule is to see as input i (copies of
    // what the write destroys, in the scope that is open).
    kiln_status (*before_write)(const struct op_call *c, kiln_tensor *const *in, kiln_tensor **saved);
    // After it: in[0] and everything that aliases it have a new history.
    kiln_status (*after_write)(const struct op_call *c, kiln_tensor *const *in, kiln_tensor *const *saved);
    void (*release)(kiln_tensor *t);                          // node and family of a handle that goes
    kiln_status (*share)(kiln_tensor *from, kiln_tensor *to); // the same place in the graph of gradients
    // Whether in[0] may be written.
    kiln_status (*may_write)(const struct op_call *c, kiln_tensor *const *in);
};
extern struct tape_hooks tensor_tape;
// Whether an op on these inputs is to be recorded.
static inline bool tensor_wants_tape(int n_in, kiln_tensor *const *in)
{
    if (thread_state.no_grad) return false;
    for (int i = 0; i < n_in; i++)
        if (in[i] && (in[i]->node || in[i]->family)) return true;
    return false;
}

// As a double's value is taken for an integer.
static inline int64_t number_to_int(double v)
{
    return v != v ? 0 : v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}
void tensor_clear(kiln_tensor *t); // a handle on nothing, of nobody's
// A weak scalar in memory of the caller's, who must not free it: t.
kiln_tensor *tensor_weak_in(struct kiln_tensor *t, uint8_t dtype, double number, int64_t integer);
kiln_tensor *tensor_new(void); // owned by the innermost scope; NULL and an error when memory is out
extern bool live_tracked;      // live.c: debug builds and KILN_DEBUG=handles list live handles
void live_add(kiln_tensor *t);
void live_remove(kiln_tensor *t);
void tensor_destroy(kiln_tensor *t); // out of its scope, then to the free list
// No handle lies in the first page of memory: a number was taken for one.
enum { PAGE_B = 4096 };
kiln_status tensor_check(const char *op, const char *argument, const kiln_tensor *t); // NULL, freed, given away
// The same where complex numbers will do, and where storage dtypes will, too.
kiln_status tensor_check_numbers(const char *op, const char *argument, const kiln_tensor *t);
kiln_status tensor_check_any(const char *op, const char *argument, const kiln_tensor *t);
static inline bool tensor_is_handle(const kiln_tensor *t)
{
    return (uintptr_t)t >= PAGE_B;
}
static inline bool tensor_is_alive(const kiln_tensor *t)
{
    return tensor_is_handle(t) && t->magic == TENSOR_ALIVE;
}
// What tensor_check lets pass without a closer look.
static inline bool tensor_is_plain(const kiln_tensor *t)
{
    return tensor_is_alive(t) && t->shown == SHOWN_PLAIN;
}
// How users see t from now on. Its type must fit, and be what it stays.
void tensor_show(kiln_tensor *t, enum shown_as shown);
// A second handle on t's memory that shows it so; t itself if it does.
kiln_tensor *tensor_shown_as(kiln_tensor *t, enum shown_as shown);
// The same of t's pairs, and of pairs as complex numbers.
kiln_tensor *tensor_as_pairs(kiln_tensor *t);
kiln_tensor *tensor_as_complex(kiln_tensor *pairs);
static inline int tensor_shown_rank(const kiln_tensor *t)
{
    return t->type.rank - (t->shown == SHOWN_COMPLEX);
}
static inline const int64_t *tensor_shown_dims(const kiln_tensor *t)
{
    return KILN_UNLIKELY(shown_is_packed(t->shown)) ? t->packed_dims : t->type.dims;
}
// "c64[2,3]" of it as the user sees it.
char *tensor_text(const kiln_tensor *t, char *buf, size_t cap);
// Runs an op on tensors that are shown as something else, or one that makes such.
typedef kiln_status tensor_apply_fn(const struct op *op, kiln_device *dev, int n_in, kiln_tensor *const *in,
                                    struct attr *attrs, kiln_tensor **out);
extern tensor_apply_fn *tensor_apply_complex, *tensor_apply_stored;
// Writes to such, or from them: an op in place.
extern kiln_status (*tensor_write_stored)(const struct op *op, int n_in, kiln_tensor *const *in);
// t is given away: its owner may free it, and nothing else.
void tensor_take(kiln_tensor *t, struct taker *by, uintptr_t at);
struct taker *taker_new(const char *name);
void taker_unref(struct taker **t);
struct storage *storage_new(kiln_device *dev, uint64_t size_B);
struct storage *storage_pending(kiln_device *dev, uint64_t size_B); // without memory yet
struct storage *storage_ref(struct storage *s);
struct storage *storage_save(struct storage *s); // a reference of the tape's
void storage_unsave(struct storage *s);
void storage_renew(struct storage *s, const char *writer); // as if just made
// A moment of this thread's, and whether the thread has made a storage after it.
uint64_t storage_now(void);
bool storage_is_since(const struct storage *s, uint64_t moment);
void storage_unref(struct storage *s);
static inline uint64_t tensor_address(const kiln_tensor *t)
{
    return t->storage->block.address + (uint64_t)(t->layout.offset * dtype_size_B[t->type.dtype]);
}
// A tensor of this type with a fresh, contiguous storage.
kiln_tensor *tensor_empty(kiln_device *dev, const struct type *t);
// A handle on a storage.
kiln_tensor *tensor_on(struct storage *s, const struct type *t, const struct layout *l);
// A weak scalar as a tensor of the default dtype of its kind on `dev`.
kiln_tensor *tensor_place(const kiln_tensor *t, kiln_device *dev);
bool tensor_requires_grad(const kiln_tensor *t);

// A second handle on the same value.
kiln_tensor *tensor_second(kiln_tensor *t);
// An op's result as what goes into t: its shape, and a dtype of no higher kind.
kiln_status tensor_check_target(const struct op *op, const struct type *result, const kiln_tensor *t);

// Runs a checked call on storages: what the eager sink and in-place ops share. `out` has storages and layouts already.
kiln_status eager_lower(struct op_call *c, kiln_device *dev, kiln_tensor *const *in, kiln_tensor *const *out);
extern struct sink eager_sink;
// Runs a checked call as eager mode does, whatever sink the thread has.
kiln_status eager_at_once(struct op_call *c, kiln_device *dev, kiln_tensor *const *in, kiln_tensor **out);
// Whether a view's elements all lie in the storage.
kiln_status eager_check_reach(const struct op_call *c, const struct storage *s, const struct layout *l);
// `src` itself, or a copy when it overlaps dst other than in place.
kiln_tensor *write_safe_operand(const kiln_tensor *dst, kiln_tensor *src);
// Copies t's elements into dst row-major.
kiln_status tensor_read(const kiln_tensor *t, void *dst);

// A scope of the library's own around user code: handles in `keep` move to the outer scope as they are.
void scope_enter(struct kiln_scope *s);
void scope_leave(struct kiln_scope *s, kiln_tensor *const *keep, size_t n_keep);
void scope_drop(struct kiln_scope *innermost); // of code that was left
// The scope, just entered, is the user's: it ends with the thread at last.
void scope_give(struct kiln_scope *s, uintptr_t begun_at, void (*end)(struct kiln_scope *innermost));
// Whether s is open on this thread. *inside: the innermost function of the library that it surrounds, else
// the innermost region, else NULL.
bool scope_is_open(const struct kiln_scope *s, const struct kiln_scope **inside);
