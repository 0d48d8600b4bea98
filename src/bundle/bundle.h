// Bundles. A handle is on a box, which is what can be changed; a box has a content, which is shared with copies of the
// bundle and with bundles that it was put into, and is copied before it is changed. So contents are trees, without
// circles, and what is known of a tree when it is put somewhere stays true.
#pragma once
#include "base/handles.h"
#include "base/str.h"
#include "base/vec.h"
#include "tensor/tensor.h"
#include <kiln/bundle.h>

#define BUNDLE_HEIGHT_MAX  64
#define BUNDLE_ENTRIES_MAX ((uint64_t)1 << 24) // those of bundles inside too

struct bundle_content;

// Never changed once it is made.
struct bundle_value {
    atomic_int refs;
    uint8_t kind;        // enum kiln_kind
    bool slot;           // a tensor, or a number that is mutable: flattened
    kiln_tensor *tensor; // of a slot, owned; NULL in a mould
    union {
        int64_t integer; // INT, BOOL
        double number;
        char *string;
        struct bundle_content *bundle;
        struct {
            void *pointer;
            void (*release)(void *pointer);
        };
    };
};

struct bundle_name {
    atomic_int refs;
    uint32_t hash;
    char text[];
};

struct bundle_entry {
    struct bundle_name *name; // NULL: none
    struct bundle_value *value;
};

struct bundle_content {
    atomic_int refs;
    VEC(struct bundle_entry) entries;
    size_t n_named;
    // By name's hash, the entry's index plus one, 0: free; n_places is a power of two, or 0 while there are few. An
    // entry that was popped leaves its place, which is told by its name.
    uint32_t *places;
    size_t n_places, n_taken;
    uint32_t height;             // of bundles in it
    uint64_t n_entries, n_slots; // in all
};

struct bundle_box {
    atomic_int refs;
    struct bundle_content *content;
    uint64_t version; // raised by each change
    uint64_t made;    // when, as bundle_now
    uint32_t capture; // in which it was made; 0: none
};

struct kiln_bundle {
    struct bundle_box *box;
    struct kiln_scope *scope;    // owner; NULL: the user
    kiln_bundle *prev, *next;    // in the scope
    struct bundle_value *popped; // what the last pop gave, which is borrowed
};

// --- value.c ---

// A value of what the caller gave. `function` names the public function in errors, here and below.
kiln_status bundle_value_make(const char *function, const kiln_value *from, struct bundle_value **out);
struct bundle_value *bundle_value_slot(uint8_t kind, kiln_tensor *t); // takes t. NULL: memory is out, t is left
struct bundle_value *bundle_value_of(struct bundle_content *c);       // takes a reference. NULL as above
struct bundle_value *bundle_value_ref(struct bundle_value *v);
void bundle_value_unref(struct bundle_value *v);  // NULL is fine
void bundle_value_reject(struct bundle_value *v); // the same after a failure: a new pointer stays its giver's
void bundle_content_unref(struct bundle_content *c);
const char *bundle_kind_name(uint8_t kind);

// --- content.c ---

struct bundle_content *bundle_content_new(void); // NULL and an error when memory is out
struct bundle_content *bundle_content_ref(struct bundle_content *c);
struct bundle_content *bundle_content_copy(const struct bundle_content *c);
// The index, or -1.
int64_t bundle_content_find(const struct bundle_content *c, const char *name);
// Takes the value, also when it fails. Changes are of contents with one reference.
kiln_status bundle_content_insert(const char *function, struct bundle_content *c, size_t at, struct bundle_name *name,
                                  struct bundle_value *v);
kiln_status bundle_content_replace(const char *function, struct bundle_content *c, size_t at, struct bundle_value *v);
struct bundle_value *bundle_content_take(struct bundle_content *c, size_t at); // the entry goes
void bundle_content_reverse(struct bundle_content *c);
struct bundle_name *bundle_name_new(const char *function, const char *text); // NULL and an error
struct bundle_name *bundle_name_ref(struct bundle_name *n);                  // NULL is fine, here and below
void bundle_name_unref(struct bundle_name *n);

// --- handle.c ---

kiln_bundle *bundle_handle(struct bundle_box *box);      // takes the reference, also when it fails
kiln_bundle *bundle_handle_on(struct bundle_content *c); // on a new box, as above. NULL: an error is pending
struct bundle_box *bundle_box_ref(struct bundle_box *box);
void bundle_box_unref(struct bundle_box *box); // NULL is fine
kiln_status bundle_check(const char *function, const char *argument, const kiln_bundle *b);
// Before b is read, and before it is changed; *content is its own then.
kiln_status bundle_read(const char *function, const kiln_bundle *b, struct bundle_content **content);
kiln_status bundle_write(const char *function, kiln_bundle *b, struct bundle_content **content);
kiln_status bundle_may_change(const char *function, const struct bundle_box *box);
void bundle_box_fill(struct bundle_box *box, struct bundle_content *c); // takes the reference
uint64_t bundle_now(void);

// What a function that is being captured reads of bundles from outside.
struct bundle_seen {
    struct bundle_box *box; // a reference
    uint64_t version;
};
struct bundle_watch {
    VEC(struct bundle_seen) seen;
    uint64_t since;
    struct bundle_watch *outer;
};
void bundle_watch_begin(struct bundle_watch *w);
void bundle_watch_end(struct bundle_watch *w); // `seen` stays
void bundle_seen_free(struct bundle_seen *seen, size_t n);

// --- form.c ---

typedef VEC(kiln_tensor *) bundle_tensors;
// Adds the tensors of all slots, in order; borrowed.
kiln_status bundle_flatten(const struct bundle_content *c, bundle_tensors *out);
// The same without its tensors: what a program is made for, and what it gives. NULL and an error when memory is out.
struct bundle_content *bundle_strip(struct bundle_content *c);
// The other way: the tensors, in order, in the slots. `take`: they are owned by the user and become the bundle's, as
// far as it gets; else it gets handles of its own.
struct bundle_content *bundle_fill(struct bundle_content *mould, kiln_tensor **tensors, bool take);
// Whether c is of that form; `why`, where it is not NULL: what differs.
bool bundle_is_like(const struct bundle_content *mould, const struct bundle_content *c, struct str *why);
// The first difference, for messages: where it is, and what is there in the one and in the other.
struct bundle_difference {
    enum { BUNDLE_VALUES, BUNDLE_NAMES, BUNDLE_COUNTS } what;
    struct str path, was, is;
};
bool bundle_differs(const struct bundle_content *mould, const struct bundle_content *c, struct bundle_difference *d);
void bundle_difference_finish(struct bundle_difference *d);
// The value of a slot, counted as bundle_flatten does, and its path: ["z"][0].
const struct bundle_value *bundle_name_slot(const struct bundle_content *c, size_t slot, struct str *out);
// All numbers as slots.
struct bundle_content *bundle_loosen(struct bundle_content *c);

// --- run.c ---

// What a function gives, without its tensors: these come in the order of `out`, then of `after`.
struct bundle_result {
    struct bundle_content *out;   // NULL: nothing, or one of the next
    struct bundle_box *box;       // a bundle from outside, as it is
    bool input;                   // the very one that it was given
    struct bundle_content *after; // what the bundle that it was given is now; NULL: as before
};
void bundle_result_finish(struct bundle_result *r);
kiln_status bundle_result_copy(const struct bundle_result *r, struct bundle_result *out);
bool bundle_result_equal(const struct bundle_result *a, const struct bundle_result *b);

// One run of a function of bundles on tensors.
struct bundle_run {
    kiln_bundle_fn fn;
    void *user;
    const char *op, *name;     // for messages: "bundle_call", the function
    struct bundle_content *in; // of the call; borrowed
    bool in_place;             // changes of the input are given back
    bool by_value;             // a bundle from outside is given by what is in it
    bundle_tensors made;       // what it gave; borrowed of the next two
    struct bundle_content *out, *after;
    struct bundle_result result;
};
kiln_status bundle_run(struct bundle_run *r, kiln_tensor *const *in, size_t n_in);
void bundle_run_drop(struct bundle_run *r);   // its tensors; the result stays
void bundle_run_finish(struct bundle_run *r); // the result too
// A handle on what a call gives, or NULL for nothing; `given` is the bundle that the caller passed, which is changed
// where the function says so. The tensors, owned by the user, go into it; those that are left are freed.
kiln_status bundle_give(const struct bundle_result *r, struct bundle_box *given, kiln_tensor **tensors, size_t n,
                        kiln_bundle **out);
