// What nodes of graphs call on the host: a print, an assertion, a function of the user's. A node names it by number, so
// that graphs stay plain data; who compiled or recorded one holds a reference. Equal ones have one number.
//
// Those with OP_HOST are effects. They happen in the order in which their nodes stand: no pass changes it, and the
// steps of a program keep it.
#pragma once
#include "ir/op.h"
#include <stdatomic.h>

struct kiln_tensor;
struct host_call;
struct host_form;

struct host_kind {
    const char *name;
    bool advances; // it gives something else when it is called again
    // On values of their own, which it may keep; `out`: h->n_out new handles of the open scope, of the types h->out.
    kiln_status (*run)(const struct host_call *h, kiln_device *dev, struct kiln_tensor *const *in, size_t n_in,
                       struct kiln_tensor **out);
    // Of h->form, where the kind has one. A form is not changed once a graph holds it.
    void (*form_ref)(struct host_form *f);
    void (*form_unref)(struct host_form *f);
    bool (*form_same)(const struct host_form *a, const struct host_form *b);
    // What messages call an operand, or a result; false: by its number. NULL: so are all.
    bool (*name_value)(const struct host_call *h, bool is_operand, size_t i, char *text, size_t size_B);
};

struct host_call {
    const struct host_kind *kind;
    void (*fn)(void), (*rule)(void); // the rest is the kind's; by all of it calls are compared
    void *user;
    uint64_t flags;
    bool effect;            // its nodes have OP_HOST
    bool folds;             // on constants alone it is called while the graph is recorded, and no node
    const char *text;       // "" or owned
    const char *place;      // of a call that was read from a file, instead of `caller`; NULL, or owned
    struct host_form *form; // the kind's; a reference, NULL: none
    uintptr_t caller;
    int n_out;
    const struct type *out;
    int64_t number;
    atomic_int refs;
    struct host_call *next;
};

struct host_call *host_call_get(const struct host_call *like); // a reference; NULL and an error
struct host_call *host_call_of(int64_t number);                // a reference; NULL and an error: there is none
struct host_call *host_call_ref(struct host_call *h);
void host_call_unref(struct host_call *h);
const char *host_call_where(const struct host_call *h, char *text, size_t size_B); // "train.c:41"
