// What a program was made for: the conditions under which a call may run it.
#pragma once
#include "base/str.h"
#include "jit/capture/source.h"
#include <kiln/jit.h>

enum guard_kind {
    GUARD_OK,
    GUARD_COUNT,
    GUARD_KIND, // a number or a tensor
    GUARD_DTYPE,
    GUARD_RANK,
    GUARD_DIMS,
    GUARD_STRIDES,
    GUARD_DEVICE,
    GUARD_GRADIENT,
    GUARD_TAPE, // the tensor on the tape: a leaf, or one with another input
    GUARD_ALIAS,
    GUARD_NUMBER,
    GUARD_PARAMETER,
    GUARD_HASH,
    GUARD_MODE,
    GUARD_GRAD_MODE,
    GUARD_RULES,
    GUARD_FORM,   // what is in a bundle beside tensors
    GUARD_BUNDLE, // one from outside was changed
};

struct guard_input {
    bool number, run_time; // run_time: a number that the program takes at run time
    bool row_major, grad;
    int32_t alias; // the first earlier input on the same storage; -1: none
    int32_t kin;   // the first earlier input that learns of writes to it, gradients too; -1: none
    int32_t twin;  // the first input with the same place on the tape; -1: it has none
    bool leaf;     // that place is a leaf
    bool cut;      // it comes of what kept no tape
    uint8_t shown; // enum shown_as
    bool detached; // it shares memory without its graph of gradients
    // Of the capture, once there is one.
    int32_t first;           // the first input that the graph has in one source with this one
    bool placed, written;    // the offset is built in; the memory is written
    struct storage *storage; // that it must lie on, at its offset; NULL: any
    int64_t offset;
    struct type type;
    int64_t strides[MAX_RANK];
    kiln_device *dev;
    double value; // of a number
    int64_t integer;
};

// What of a call is no tensor.
struct guard_key {
    uint64_t hash;               // the user's
    struct bundle_content *form; // of its bundle, with the tensors; NULL: none
};

struct guard {
    size_t n_in;
    struct guard_input *in;
    kiln_mode mode;
    bool no_grad, sees_grad; // sees_grad: something requires a gradient, so that no_grad matters
    uint32_t rules;          // the generation of gradient rules
    uint64_t hash;
    struct bundle_content *form; // without tensors; a reference
    // Of the capture: what it reads from outside.
    const struct source *sources;
    size_t n_sources;
    struct tape_node *const *leaves; // that lie in a source with others
    size_t n_leaves;
    bool asks_sharing;                 // whether two tensors lie on one storage
    const struct bundle_seen *bundles; // from outside, that the function has read
    size_t n_bundles;
};

// `run_time`: n_in flags, or NULL. The guard owns its inputs.
kiln_status guard_make(struct guard *g, kiln_tensor *const *in, size_t n_in, const uint8_t *run_time,
                       struct guard_key key);
// What a capture has built in. `source_of`: by input, -1: none.
struct captured;
void guard_take(struct guard *g, const struct captured *c);
void guard_finish(struct guard *g);
// The first condition that does not hold, and the input (or source) that it is about.
enum guard_kind guard_check(const struct guard *g, kiln_tensor *const *in, size_t n_in, struct guard_key key,
                            size_t *at);
const char *guard_name(enum guard_kind kind);
// Both values: what the program was made for, and what the call has.
void guard_describe(const struct guard *g, enum guard_kind kind, size_t at, kiln_tensor *const *in, size_t n_in,
                    struct guard_key key, struct str *out);
