// A captured function: its programs, and the conditions under which each runs.
#pragma once
#include "base/process.h"
#include "base/caller.h"
#include "base/str.h"
#include "jit/capture/capture.h"
#include "jit/capture/outputs.h"
#include "jit/guard.h"
#include "jit/signature.h"
#include "program/forms.h"
#include "program/program.h"
#include <pthread.h>

// One capture, compiled. The function holds a reference, and so does each call in flight and each tape node.
struct entry {
    atomic_int refs;
    struct entry *next, *prev; // used less, and more lately
    struct entry *chain;       // in the same bucket
    uint64_t key;              // of the shapes of its inputs
    struct guard guard;
    struct captured captured;
    struct program *program;
    uint64_t number; // of the capture, from 1
    bool suspect;    // another capture was found to differ: this one is looked at before it runs
    uint64_t size_B; // that it holds on the host
    uint64_t n_launches;
    const char *name;             // the function's; owned
    struct kernel_count *kernels; // the function's; a reference
    struct program_forms *forms;  // the same
    bool reused;                  // its graph was known but for sizes
    bool by_hand;                 // it runs node by node: no program is made
    struct program_options how;   // the function's options, and these two
};

enum { BREAK_REASONS = 32 };
enum scalar_state { SCALAR_CONSTANT, SCALAR_RUN_TIME, SCALAR_ALWAYS_CONSTANT };

struct kiln_function {
    kiln_fn fn;               // of tensors, or
    kiln_bundle_fn bundle_fn; // of bundles; NULL: of tensors
    void *user;
    struct capture_origin origin; // .captured NULL: fn is its code
    kiln_jit_opts o;
    struct signature signature;
    size_t *donated, n_donated; // inputs that a call gives away
    struct taker *taker;        // NULL: there are none
    char name[CALLER_TEXT_MAX + 16];
    atomic_int refs;              // the user's, and one a call
    pthread_mutex_t lock;         // all that follows, for short times
    pthread_mutex_t capture_lock; // one capture at a time; taken first
    struct guarded guarded, capture_guarded;
    struct entry *first, *last; // by their last use
    struct entry **buckets;     // by shapes; n_buckets, a power of two
    size_t n_buckets, n_entries;
    uint64_t n_free; // captures that do not count
    uint64_t size_B;
    int64_t n_out; // -1: no call has worked yet
    atomic_bool has_worked;
    uint8_t *scalars; // by input: enum scalar_state
    size_t n_scalars;
    atomic_bool no_replay; // AUTO and pure_host: it is no single graph; read without the lock, as is the next
    atomic_bool gave_up;   // too many captures: what fits no program runs eagerly. Walks have their own, see auto.h
    kiln_jit_stats stats;
    _Atomic uint64_t launches, graph_ops, single_ops; // the same, without the lock: every call adds to them
    struct kernel_count *kernels;                     // compiled for it
    struct program_forms *forms;                      // of its graphs
    struct break_count {                              // by reason; the last one takes what finds no place
        char why[48];
        uint64_t n;
    } breaks[BREAK_REASONS];
    struct str log;
    struct { // what somebody has measured, see measured.h
        double median_ns;
        uint64_t runs, number; // of the program; 0: AUTO's, of the whole call
    } measured;
    struct trie *trie;                            // AUTO: what was recorded; see auto/auto.h
    void (*forget_trie)(struct kiln_function *f); // set with it: the function goes
};

// cache.c
// The program for a call, or NULL with the guard that failed on the one used last. With the lock.
struct entry *cache_find(struct kiln_function *f, kiln_tensor *const *in, size_t n_in, struct guard_key key,
                         enum guard_kind *failed, size_t *at);
void cache_remove(struct kiln_function *f, struct entry *e);
// Keeps a reference, for inputs like these. What goes over the bounds is handed out as a list, for whoever has no lock
// any more.
kiln_status cache_add(struct kiln_function *f, struct entry *e, kiln_tensor *const *in, struct entry **dropped);

// entry.c
struct entry *entry_ref(struct entry *e);
void entry_unref(struct entry **e);
kiln_status entry_new(const struct kiln_function *f, struct entry **out);
void entry_facts(const struct entry *e, struct program_facts *out);
// Runs a graph by its program; p NULL: node by node.
kiln_status entry_run_graph(const struct entry *e, struct program *p, const struct kiln_graph *g,
                            kiln_tensor *const *in, const struct rng *rng, kiln_tensor **out);

// backward.c
// The gradients of a call, by target; NULL: none arrives. dout: by output of its node, NULL: none arrived. `kept`: the
// inputs of the graph, then the values saved. Not compiled: node by node.
bool entry_leads(struct entry *e, size_t output, size_t target); // whether gradients of the one go on to the other
kiln_status entry_run_backward(struct entry *e, bool compiled, kiln_tensor *const *kept, const struct rng *rng,
                               kiln_tensor *const *dout, kiln_tensor **din);

// call.c: a call that is checked.
// The program for a call, captured where there is none; a reference. NULL: the call runs eagerly.
kiln_status function_program(struct kiln_function *f, kiln_tensor *const *in, size_t n_in, struct outputs *o,
                             struct entry **out);
kiln_status function_call(struct kiln_function *f, kiln_tensor *const *in, size_t n_in, struct outputs *o);
// function_capture for who is no call of f.
kiln_status function_record(struct kiln_function *f, kiln_tensor *const *in, size_t n_in, size_t n_out,
                            struct captured *out);
kiln_status function_check_inputs(const struct kiln_function *f, kiln_tensor *const *in, size_t n_in);

// make.c
kiln_status entry_make(struct kiln_function *f, kiln_tensor *const *in, size_t n_in, const struct outputs *o,
                       struct guard_key key, bool by_hand, struct entry **out);
// Only captured, with all numbers as inputs but those that it reads; nothing of it is kept by f.
kiln_status function_capture(struct kiln_function *f, kiln_tensor *const *in, size_t n_in, size_t n_out,
                             struct captured *out);
// Takes the reference. `undone`: set where the program has failed and nothing has happened; the function is to find out
// itself. NULL: what came before the error is done.
kiln_status entry_run(struct entry *e, kiln_tensor *const *in, kiln_tensor **out, bool *undone);

// For pages of kiln_explain: the plan of its program, and of its backward, drawn.
kiln_status entry_picture(const struct kiln_function *f, const struct entry *e, struct str *out);
kiln_status entry_picture_backward(struct entry *e, struct str *out); // which it has

// function.c
// A line for kiln_explain. With the lock.
void function_note(struct kiln_function *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
void function_ref(struct kiln_function *f);
bool function_try_ref(struct kiln_function *f); // false: its last reference is gone
void function_unref(struct kiln_function *f);
void function_count_ops(struct kiln_function *f, bool in_graph, uint64_t launches, uint64_t ops);
// Runs the user's function in a scope of its own; its results are given as new handles, which outlive the scope.
kiln_status function_run(struct kiln_function *f, kiln_tensor *const *in, size_t n_in, struct outputs *o);
// Room for what a function of bundles gives.
kiln_status function_room(struct outputs *o, size_t n);
// A function without code, or, where o has no .captured, of fn on o->user. Takes o->user over, with an error too.
struct kiln_function *function_of_origin(const char *op, kiln_fn fn, const struct capture_origin *o,
                                         const kiln_jit_opts *opts);
struct kiln_function *function_for_region(const char *file, int line);
void function_enter_region(struct kiln_function *f);

// options.c
kiln_status function_check_options(const kiln_jit_opts *o);
uint64_t function_recompile_limit(const struct kiln_function *f);
uint64_t function_max_nodes(const struct kiln_function *f);
// How its graphs become programs, as far as its options tell.
struct program_options function_program_options(const struct kiln_function *f);

// user_op.c
struct kiln_op_spec;                                          // of <kiln/ops.h>
const struct kiln_op_spec *user_op_spec(const struct op *op); // of the op that it belongs to; NULL: a row of the table

bool jit_enabled(void); // in this process, and on this thread
