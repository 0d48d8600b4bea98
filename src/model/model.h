// A model: weights by name, and functions as text. What a file holds is what is here.
#pragma once
#include "base/str.h"
#include "jit/function.h"
#include "model/interface.h"
#include "onnx/onnx.h"
#include <kiln/model.h>

enum weight_role { WEIGHT_CONSTANT, WEIGHT_STATE, WEIGHT_PARAMETER };

struct model_weight {
    char *name;
    kiln_tensor *t; // a handle of the model's
    uint8_t role;
    bool has_role; // the manifest that is read has given it
};

// A print or an assertion, which graphs name by the symbol host0, host1 ...
struct model_host {
    char *kind, *text, *place;
};

// An op of the user's by expression.
struct model_op {
    char *name, *expr, *grads[3]; // NULL: none
    int n_in;
};

struct model_function {
    char *name;
    char *interface, *forward, *backward; // texts; no backward: NULL
    uintptr_t *callers;                   // of the nodes of the forward graph; NULL: they are not known
    struct interface face;                // for the sizes that were seen
    char **input_texts, **output_texts;   // types
    int64_t *dims;                        // of inputs, then outputs, MAX_RANK each; -1: open
};

// Shared by the model's handle and by functions that it gave.
struct model {
    atomic_int refs;
    kiln_device *dev; // NULL: nothing tells yet
    VEC(struct model_weight) weights;
    VEC(struct model_host) hosts;
    VEC(struct model_op) ops;
    VEC(struct model_function) functions;
    struct onnx_model *onnx; // what it was read from, whose function is its only one; NULL: a file of Kiln's
};

struct kiln_model {
    struct model *model;
};

// model.c
struct model *model_new(void); // NULL with an error
struct model *model_ref(struct model *m);
void model_unref(struct model *m);
kiln_model *model_handle(struct model *m); // takes the reference, with an error too
const struct model_function *model_find(const struct model *m, const char *name);
struct face_names model_names(const struct model *m);
// Parses the interface and fills in what the public functions tell of f, whose texts are there.
kiln_status model_describe(const struct model *m, struct model_function *f, const char *where);
void model_function_finish(struct model_function *f);
// add.c: kiln_model_add; `onnx`: what a file of ONNX cannot hold is an error as well.
kiln_status model_add(kiln_model *m, const char *name, kiln_function *f, kiln_tensor *const *in, size_t n_in,
                      size_t n_out, const kiln_model_add_opts *opts, bool onnx);
char *model_copy(const char *text, size_t size_B); // NULL with an error

// weights.c
int32_t model_find_weight(const struct model *m, const char *name);
// The weight that a source of a capture is, added where it is none yet; -1 with an error.
int32_t model_weight_of(struct model *m, const struct source *s);
kiln_status model_add_weight(struct model *m, const char *name, kiln_tensor *t, enum weight_role role);
// A name like the one wanted that no weight has.
char *model_free_name(const struct model *m, const char *wanted);

// instance.c: what a function is for the inputs of a call, as if it had just been captured.
struct instance_user {
    struct model *model; // a reference
    size_t function;
};
kiln_status instance_make(void *user, const struct capture_request *q, struct captured *out);
void instance_drop(void *user);
