// What a cell is made of; shared by the files of this folder.
#pragma once
#include "base/options.h"
#include "base/base.h"
#include <kiln/jit.h>
#include <kiln/nn.h>

struct cell_tensor {
    char *name;
    kiln_tensor *tensor;
    bool is_parameter;
    bool is_aside; // of a norm of a weight: the cell's function knows nothing of it
};

enum hook_kind { HOOK_FORWARD_PRE, HOOK_FORWARD, HOOK_BACKWARD_PRE, HOOK_BACKWARD };

struct cell_hook;
struct cell_reparam;

struct kiln_cell {
    char *kind;
    char sizes[40]; // that tell it from others of its kind, "100 → 10"; "": none
    char *name;     // in the parent; "" without one
    kiln_cell *parent;
    kiln_construct_fn construct;
    void *user;
    void (*user_free)(void *user);
    size_t n_in, n_out; // 0: any number
    bool training;
    bool mode_chosen;        // by kiln_cell_set_training, here or on a parent; else as it was made
    const char *by_mode;     // what computes otherwise in training, "dropout"; static; NULL: nothing does
    kiln_function *function; // that runs it as a graph; made at its first call as one
    kiln_function *unmarked; // the same in graph mode, where a mark of AUTO is void; else NULL
    bool jitted, automatic;  // marked by kiln_cell_jit; for AUTO
    bool appends;            // a sequential cell: children are numbered
    struct cell_tensor *tensors;
    size_t n_tensors;
    struct cell_reparam *reparams; // parameters that are computed at each call
    kiln_cell **children;
    size_t n_children;
    struct cell_hook *hooks; // in the order of registration
    int calls;               // calls in progress: hooks are not freed meanwhile
    struct cell_row *row;    // of a summary that is being made
    char **state_names;      // of the last kiln_cell_state
    size_t n_state_names;
};

// Room for one more in an array of `n` elements; it doubles at powers of two. NULL and an error when memory is
// exhausted, with the array as it was.
void *cell_grow(void *array, size_t n, size_t element_B);
char *cell_strdup(const char *text);

// NULL and a cell that was freed are errors; so is what is pending.
kiln_status cell_check(const char *function, const kiln_cell *cell);
// A new cell of this library's own with a zeroed user struct of `user_B` bytes (0: none), and n_in = n_out = 1.
kiln_cell *cell_make(const char *kind, kiln_construct_fn construct, size_t user_B);
// The i-th tensor that was added to the cell, NULL when there are not so many or it is aside.
kiln_tensor *cell_tensor_at(const kiln_cell *cell, size_t i);
// Frees the cell and returns NULL when an error is pending, else returns it.
kiln_cell *cell_or_null(kiln_cell *cell);

// Walks the tensors of the cell and its descendants, each shared parameter once. A visit that returns false ends the
// walk.
typedef bool (*cell_visit_fn)(void *user, kiln_cell *owner, struct cell_tensor *t);
bool cell_visit(kiln_cell *cell, cell_visit_fn fn, void *user);
// What messages and tools say of the sizes of a cell. `cell` may be NULL.
void cell_say_sizes(kiln_cell *cell, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Warns where the first axis alone is padded and the kernel is a square: mostly .padding = 1 was written for {1, 1}.
void cell_watch_padding(const char *name, int n, const int64_t *kernel, const int64_t *padding);
// Whether a layer has a bias: what it is asked for by .bias or .no_bias, else `otherwise`. Both are an error.
bool cell_wants_bias(const char *function, bool bias, bool no_bias, bool otherwise);
// Its place below its root, its kind and its sizes: "sequential.3 (dense 100 → 10)"; of a root "dense 100 → 10".
void cell_describe(const void *cell, char *out, size_t size_B);
// Writes the dotted path of `name` in `owner` as seen from `root`; returns its length without the end, as snprintf
// does.
size_t cell_path(const kiln_cell *root, const kiln_cell *owner, const char *name, char *out, size_t size_B);

// load.c: what files of others call a tensor of this name; NULL where they have no other name, or the cell means
// something else by it.
const char *cell_alias(const kiln_cell *cell, const char *name);

// call.c: the cell's function itself; jit.c: as a graph, where the mode or a mark asks for it.
kiln_status cell_run(kiln_cell *cell, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out);
bool cell_is_graph(const kiln_cell *cell);
kiln_status cell_run_graph(kiln_cell *cell, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out);

// summary.c: a call of a cell with a row, and what it gave.
size_t cell_row_enter(void);
void cell_row_leave(kiln_cell *cell, size_t entered, kiln_tensor *const *out, size_t n_out);

// mode.c: says once that a backward came through a cell in the mode in which it was made.
void cell_watch_dtypes(const kiln_cell *cell, kiln_tensor *const *in, size_t n_in);
void cell_watch_mode(kiln_cell *cell, kiln_tensor *const *out, size_t n_out);
// The mode of the cell and its descendants.
void cell_set_mode(kiln_cell *cell, bool training, bool chosen);

// reparam.c: puts computed parameters in their places before the cell's function runs, and the trained ones back.
kiln_status reparams_enter(kiln_cell *cell);
void reparams_leave(kiln_cell *cell);
void reparams_free(kiln_cell *cell);

uint64_t hooks_hash(const kiln_cell *cell); // another one when hooks come or go
bool cell_has_hooks(const kiln_cell *cell, enum hook_kind kind);
kiln_status hooks_run_pre(kiln_cell *cell, kiln_tensor **in, size_t n_in);
kiln_status hooks_run_forward(kiln_cell *cell, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out);
// Puts in the place of each tensor that requires a gradient an identity of it that carries the backward hooks of the
// kind.
kiln_status hooks_attach(kiln_cell *cell, enum hook_kind kind, kiln_tensor **t, size_t n);
void hooks_free(kiln_cell *cell);

// Ends a scope that a function opened for its intermediates; `t` goes to the caller's.
static inline kiln_tensor *scope_return(kiln_scope **scope, kiln_tensor *t)
{
    if (t) kiln_keep(t);
    kiln_scope_end(scope);
    return t;
}

// An option dtype: 0 is KILN_BOOL, which no parameter has.
static inline kiln_dtype dtype_or_f32(kiln_dtype dtype)
{
    return dtype == KILN_BOOL ? KILN_F32 : dtype;
}
