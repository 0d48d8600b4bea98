// A node as it runs: its inputs, attributes and results, as the functions of make_*.c see them.
#pragma once
#include "base/arena.h"
#include "onnx/model.h"
#include "onnx/table.h"
#include <kiln/ops.h>
#include <kiln/tensor.h>

enum onnx_value_kind {
    ONNX_NONE,     // left out
    ONNX_ON_HOST,  // numbers, of shapes mostly
    ONNX_CONST,    // of the file
    ONNX_COMPUTED, // a handle of the run's
};

struct onnx_value {
    uint8_t kind;
    struct onnx_host host;                // ON_HOST; data lies in the run's arena, or the model's
    const struct onnx_constant *constant; // CONST
    kiln_tensor *tensor;                  // COMPUTED
};

// The values of a graph that runs. A function's frame has a caller, a subgraph's an outer one.
struct onnx_frame {
    struct onnx_frame *outer;
    const struct onnx_graph *graph;
    struct onnx_value *values; // by slot
    const struct onnx_node *caller;
    struct onnx_frame *caller_frame;
    const struct onnx_function *function;
};

struct onnx_run {
    const struct onnx_model *m;
    struct arena arena; // of numbers on the host
};

struct onnx_call {
    struct onnx_run *run;
    struct onnx_frame *frame;
    const struct onnx_node *node;
    const struct onnx_row *row;
    kiln_device *dev; // where results lie; aside, the CPU
    bool aside;       // all inputs are on the host: ops run at once, outside of any capture
    int opset;
    int n_in, n_out;
    struct onnx_value **in; // NULL: left out
    struct onnx_value *out;
    bool redo;      // set by an op that would make much aside: it runs once more, on the device
    uint64_t asked; // bit i: attribute i of the node was read
};

// --- attributes (attr.c). One that nothing asks for is an error after the call.
const struct onnx_attr *onnx_attr(struct onnx_call *c, const char *name); // NULL: left out
kiln_status onnx_int(struct onnx_call *c, const char *name, int64_t fallback, int64_t *out);
kiln_status onnx_float(struct onnx_call *c, const char *name, double fallback, double *out);
kiln_status onnx_string(struct onnx_call *c, const char *name, const char *fallback, const char **out);
kiln_status onnx_ints(struct onnx_call *c, const char *name, kiln_ints *out); // v NULL: left out
kiln_status onnx_floats(struct onnx_call *c, const char *name, size_t *n, const float **out);
kiln_status onnx_graph_attr(struct onnx_call *c, const char *name, struct onnx_graph **out);
const struct onnx_attr *onnx_frame_attr(const struct onnx_frame *frame, const struct onnx_node *n, const char *name,
                                        int *index);
kiln_status onnx_check_asked(struct onnx_call *c);

// --- inputs and results (call.c)
bool onnx_has(const struct onnx_call *c, int i);
// Input i as a tensor: borrowed, or of the scope that is open. NULL with an error.
kiln_tensor *onnx_in(struct onnx_call *c, int i);
kiln_tensor *onnx_tensor(struct onnx_call *c, const struct onnx_value *v);
// Its dtype, rank and dims, whatever it is.
kiln_status onnx_in_type(struct onnx_call *c, int i, struct onnx_host *out);
kiln_status onnx_in_dtype(struct onnx_call *c, int i, kiln_dtype *out); // as the model has it
// Its numbers; an error where they depend on inputs of a capture.
kiln_status onnx_in_host(struct onnx_call *c, int i, struct onnx_host *out);
// ... as integers, at most `cap`; as one; as one float.
kiln_status onnx_in_ints(struct onnx_call *c, int i, int64_t *v, size_t cap, size_t *n);
kiln_status onnx_in_int(struct onnx_call *c, int i, int64_t *v);
kiln_status onnx_in_float(struct onnx_call *c, int i, double *v);
double onnx_host_float(const struct onnx_host *h, int64_t i);
int64_t onnx_host_int(const struct onnx_host *h, int64_t i);
bool onnx_is_host(const struct onnx_value *v);

// The result: a tensor of the scope that is open (NULL: the error that is pending), which is kept.
kiln_status onnx_give(struct onnx_call *c, int i, kiln_tensor *t);
bool onnx_wants(const struct onnx_call *c, int i);
// A result on the host, to be filled.
kiln_status onnx_give_host(struct onnx_call *c, int i, kiln_dtype dtype, size_t rank, const int64_t *dims, void **data);
// Dense numbers as a tensor on the call's device.
kiln_tensor *onnx_from_host(struct onnx_call *c, const struct onnx_host *h);

// "conv: pads has 3 entries": the node is named by the run.
kiln_status onnx_bad(const struct onnx_call *c, kiln_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
kiln_status onnx_check_counts(const struct onnx_call *c, int min_in, int max_in, int max_out);
// An axis from the front; KILN_E_AXIS.
kiln_status onnx_axis(const struct onnx_call *c, int64_t axis, size_t rank, int64_t *out);

// For ops that make something of nothing: whether so much is to be made on the device instead, see `redo`.
bool onnx_too_much_aside(struct onnx_call *c, size_t rank, const int64_t *dims);
// The axes of a reduction and the like: the attribute, or input i; n 0: none are given.
kiln_status onnx_axes(struct onnx_call *c, int i, size_t rank, int64_t *axes, size_t *n);

// plain.c: the op of a row by the maps of its column.
kiln_status onnx_apply_row(struct onnx_call *c);

// run.c
kiln_status onnx_run_graph(struct onnx_run *r, struct onnx_frame *f);
kiln_status onnx_frame_init(struct onnx_run *r, struct onnx_frame *f, const struct onnx_graph *g,
                            struct onnx_frame *outer);
void onnx_frame_finish(struct onnx_frame *f);
// Result i of the frame's graph as a tensor of the scope that is open.
kiln_tensor *onnx_result(struct onnx_run *r, struct onnx_frame *f, int32_t i);
struct onnx_value *onnx_value_at(struct onnx_frame *f, struct onnx_ref ref);
// Another handle on the value.
kiln_status onnx_value_copy(struct onnx_value *to, const struct onnx_value *from);
void onnx_value_finish(struct onnx_value *v);

#define NEED(t)                         \
    do {                                \
        if (!(t)) return error_pending; \
    } while (0)
