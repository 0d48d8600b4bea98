// Models of ONNX: what a file says, checked, and the function that it is. The rest of the layer is in model.h.
#pragma once
#include "base/base.h"
#include "ir/type.h"
#include <kiln/tensor.h>

struct onnx_model;

// Reads and checks a model; its weights become tensors on `dev`, NULL: this thread's default device. NULL with an error
// that names the place; KILN_E_UNSUPPORTED lists all ops that are missing. `function` begins messages.
struct onnx_model *onnx_load(const char *function, kiln_device *dev, const char *path);
void onnx_free(struct onnx_model **m); // NULL is fine

// An input or output of the main graph. Where the file does not say, dims is NULL: of any rank.
struct onnx_port {
    const char *name;
    bool typed; // false: the file does not say the dtype
    kiln_dtype dtype;
    bool shaped; // false: nor the rank
    size_t rank;
    const int64_t *dims;        // -1: open
    const char *const *symbols; // the names of open ones; NULL where there is none
};
size_t onnx_input_count(const struct onnx_model *m);
size_t onnx_output_count(const struct onnx_model *m);
const struct onnx_port *onnx_input(const struct onnx_model *m, size_t i);
const struct onnx_port *onnx_output(const struct onnx_model *m, size_t i);

// The weights: initialisers of floats, and of integers where they are many, of all graphs, in the order of the file.
size_t onnx_weight_count(const struct onnx_model *m);
const char *onnx_weight_name(const struct onnx_model *m, size_t i);
kiln_tensor *onnx_weight(const struct onnx_model *m, size_t i); // borrowed
// Another tensor in its place, of the same dtype and shape, a parameter or state, which captures read anew at each
// call; the model takes a handle of its own. Other weights are constants of captures.
kiln_status onnx_set_weight(struct onnx_model *m, size_t i, kiln_tensor *t);

// A kiln_fn: the main graph, of inputs and outputs in the order of the model's. `user` is the model, which does not
// change: several threads may run it.
kiln_status onnx_run(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out);

// --- writing

struct kiln_graph;

// Told of what ONNX has no form for: the caller's address, or 0; what it is; why.
typedef void (*onnx_cannot_fn)(void *user, uintptr_t caller, const char *what, const char *why);

// A value that the graph is given: an input of the call, or a weight.
struct onnx_given {
    const char *name;
    struct type type;
    int32_t value;          // in the graph; -1: nothing reads it
    const int16_t *symbols; // of an input, by dimension: 0, or 1 + index into names of symbols; NULL: none
    kiln_tensor *weight;    // NULL: an input
};

struct onnx_made {
    const char *name;
    struct type type;
    int32_t value;               // in the graph; -1: it is `number` or `integer`
    struct type whole;           // of the value
    const struct layout *layout; // of the result in the value's row-major elements; NULL: it is all of it
    double number;
    int64_t integer;
    uint32_t open; // dimensions that go with open ones, a bit each
};

struct onnx_export {
    const struct kiln_graph *graph;
    const uintptr_t *callers; // by node; NULL: the graph's
    const char *name;         // of the function
    size_t n_given, n_made;
    const struct onnx_given *given;
    const struct onnx_made *made;
    const char *const *symbols; // names of open dimensions
    const bool *open;           // by value and dimension of the graph, MAX_RANK each: its size is not the same in each
                                // call; NULL: all are
    onnx_cannot_fn cannot;
    void *user;
};

// Tells of all that cannot go; that alone is no error.
kiln_status onnx_check_export(const struct onnx_export *e);
// The nodes as bytes, to be compared; *bytes from malloc.
kiln_status onnx_export_nodes(const struct onnx_export *e, char **bytes, size_t *size_B);
// Writes a file, all or nothing. Nothing is written where something cannot go: the caller has been told of that.
kiln_status onnx_write(const char *function, const struct onnx_export *e, const char *path);
