// What a file says, as the layer holds it: graphs of nodes on values that have places instead of names.
#pragma once
#include "base/arena.h"
#include "base/dtype.h"
#include "base/vec.h"
#include "onnx/onnx.h"

#define ONNX_OPSET_MIN 13
#define ONNX_OPSET_MAX 23

// Limits. What a file makes the reader allocate is bounded beside its own size.
enum {
    ONNX_DEPTH_MAX = 24,         // of graphs in graphs
    ONNX_MEMORY_MAX_B = 1 << 30, // of what is read, tensors apart
    ONNX_HOST_MAX = 4096,        // elements that are kept on the host
    ONNX_ATTRS_MAX = 64,         // of a node
};

// Numbers on the host, dense, in their own dtype.
struct onnx_host {
    uint8_t dtype, rank;
    int64_t dims[KILN_MAX_RANK];
    int64_t numel;
    void *data;
};

// A tensor of the file: an initialiser, or the attribute of a node.
struct onnx_constant {
    const char *name;      // "" where it has none
    struct onnx_host host; // data NULL: they are too many
    kiln_tensor *tensor;   // on the model's device; NULL: on the host alone
    uint8_t four_bits;     // KILN_I4 or KILN_U4 of what the file has in four bits and here is i8 or u8; 0: none
    bool is_initialiser;
    bool is_leaf; // a parameter or state, which captures read anew
    // While the file is read:
    const unsigned char *raw; // the elements as they lie in memory; NULL: external
    void *list;               // where they are made of numbers one by one: raw, owned
    struct onnx_external *external;
};

enum onnx_attr_type {
    ONNX_FLOAT = 1,
    ONNX_INT = 2,
    ONNX_STRING = 3,
    ONNX_TENSOR = 4,
    ONNX_GRAPH = 5,
    ONNX_FLOATS = 6,
    ONNX_INTS = 7,
    ONNX_STRINGS = 8,
};

struct onnx_attr {
    const char *name;
    const char *of_caller; // the attribute of the function's caller that it is; NULL: it is its own
    uint8_t type;          // enum onnx_attr_type, or another that nothing takes
    float f;
    int64_t i;
    const char *s;
    struct onnx_constant *tensor;
    struct onnx_graph *graph;
    size_t n; // of floats, ints, strings
    float *floats;
    int64_t *ints;
    const char **strings;
};

// A value of this graph, or of one around it.
struct onnx_ref {
    int16_t depth; // 0: this one; -1: none, an input that is left out
    int32_t slot;
};

struct onnx_node {
    const char *name, *op, *domain, *overload;
    int32_t index; // in its graph
    int32_t n_in, n_out, n_attrs;
    const char **in_names, **out_names; // "" where one is left out
    struct onnx_ref *in;
    int32_t *out; // slots; -1: nobody wants it
    struct onnx_attr *attrs;
    struct onnx_function *function; // that it calls; NULL: it is an op
    int32_t row;                    // the first of onnx_rows by that name
};

struct onnx_graph {
    const char *name;
    struct onnx_graph *outer; // NULL: it is a model's or a function's
    int32_t outer_node;       // the node of outer that has it
    int depth;
    int opset;
    int32_t n_nodes, n_constants, n_in, n_out, n_slots;
    struct onnx_node *nodes;
    struct onnx_constant *constants; // initialisers
    int32_t *constant_slots;
    struct onnx_port *in, *out;
    int32_t *in_slots;
    struct onnx_ref *results;
    int32_t *last_use; // by slot: after this node nobody of this graph wants it; n_nodes: the end
};

struct onnx_function {
    const char *name, *domain, *overload;
    int32_t n_attrs;
    const char **attr_names;
    struct onnx_attr *defaults;
    int32_t n_defaults;
    struct onnx_graph body;
    int state;    // of the search for calls of itself
    int64_t size; // in nodes, with those of functions that it calls
};

struct onnx_model {
    char *where; // "graph_import: model.onnx"
    char *path;
    struct arena arena;
    size_t taken_B;
    kiln_device *dev;
    kiln_device *host, *own_host; // a CPU, for shapes; one that was opened for it
    struct onnx_graph graph;
    int32_t n_functions;
    struct onnx_function *functions;
    int opset;
    VEC(struct onnx_constant *) constants; // all that the file has
    VEC(struct onnx_constant *) weights;
};

// What is read of a file, zeroed. KILN_E_UNSUPPORTED where it becomes too much.
kiln_status onnx_take(struct onnx_model *m, size_t count, size_t item_B, void *out);

// parse.c: the file's bytes into m, names as they are.
kiln_status onnx_parse(struct onnx_model *m, const unsigned char *file, size_t size_B);
// parse_tensor.c
struct wire;
kiln_status onnx_parse_tensor(struct onnx_model *m, struct wire w, struct onnx_constant *c);
bool onnx_dtype(int64_t data_type, kiln_dtype *out);
const char *onnx_dtype_text(int64_t data_type);
int onnx_dtype_number(unsigned dtype); // ONNX has all that Kiln has
kiln_status onnx_take_text(struct onnx_model *m, const struct wire *w, const unsigned char *data, size_t size_B,
                           const char **out);
// check.c: names become places; what is wrong with them is KILN_E_FORMAT.
kiln_status onnx_check(struct onnx_model *m);
// missing.c: KILN_E_UNSUPPORTED, with all ops that are not mapped.
kiln_status onnx_check_ops(struct onnx_model *m);
// constant.c: tensors of all constants.
kiln_status onnx_place_constants(struct onnx_model *m);
// external.c: data beside the model's file.
struct onnx_external {
    const char *location;
    uint64_t offset_B, size_B;
};
kiln_status onnx_check_external(struct onnx_model *m);
kiln_status onnx_read_external(const struct onnx_model *m, const struct onnx_constant *c, void *out);
