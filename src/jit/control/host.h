// Calls of the host: at once, or as nodes of a graph; and their place on the tape.
#pragma once
#include "ir/host.h"
#include "jit/control/region.h"
#include "tensor/tensor.h"
#include <kiln/host.h>

// Flags of a call beside those of kiln/host.h.
enum {
    HOST_UNDECLARED = 1 << 8, // results are taken as f64
    HOST_LEARNS = 1 << 9,     // and of types that nobody knows yet
};
enum { HOST_NAME_MAX = 160 };

// In a capture that takes it a node of its graph, else called.
kiln_status host_call_take(const struct host_call *h, kiln_tensor *const *in, size_t n_in, kiln_tensor **out);
// The results of a call, by its rule; without one no gradient goes through.
kiln_status host_call_place(const struct host_call *h, kiln_tensor *const *in, size_t n_in, kiln_tensor *const *out);

// --- a call of a function of the user's, while it is made

struct host_request {
    struct host_call h;
    struct host_form *form; // of h; NULL: none
    kiln_tensor *const *in; // checked
    size_t n_in, n_out;     // without what is written
    struct type *types;     // of h.out
    kiln_tensor **made;     // h.n_out
};
kiln_status host_request_begin(struct host_request *q, const struct host_kind *kind, void (*fn)(void), void *user,
                               unsigned flags, kiln_bprop_fn rule);
void host_request_finish(struct host_request *q);
kiln_status host_request_undeclared(struct host_request *q);
// Calls fn with the values that a capture has, and room for n_out results.
typedef kiln_status host_learn_fn(struct host_request *q, kiln_tensor *const *in, kiln_tensor **out);
kiln_status host_request_learn(struct host_request *q, host_learn_fn *fn);
// With n_out and the types known: the call, or its node; what it gives, new handles of the scope that is open.
kiln_status host_request_take(struct host_request *q, kiln_tensor **out);
bool host_call_is_recorded(void);

// Prints and assertions, which are there in every process: a call like that of the kind of this name, without a text.
bool host_report_like(const char *kind, struct host_call *out);
bool host_call_is_report(const struct host_call *h);
bool host_report_fits(const struct host_call *h, size_t n_in); // whether it takes so many values

// --- what runs

// The user's function, as a region: what it gives, checked, and where it writes what it is given.
kiln_status host_call_run_fn(const struct host_call *h, const struct region *r, kiln_device *dev,
                             kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out);
// The same as host_kind.run: behind the results stand the inputs as they are then.
kiln_status host_call_run_region(const struct host_call *h, const struct region *r, kiln_device *dev,
                                 kiln_tensor *const *in, size_t n_in, kiln_tensor **out);
kiln_status host_call_take_as_f64(kiln_tensor **out);
// For messages.
const char *host_call_name_input(const struct host_call *h, size_t i, char *text, size_t size_B);
const char *host_call_name_output(const struct host_call *h, size_t i, char *text, size_t size_B);
const char *host_call_who_says(const struct host_call *h);
