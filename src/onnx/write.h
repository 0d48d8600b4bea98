// From a graph to the nodes of a model. A value of the model is a name; a function that gives one gives NULL where
// there is none, with an error, or after onnx_cannot; NULL among operands passes through.
#pragma once
#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "ir/graph.h"
#include "onnx/onnx.h"

// A constant that stands in the graph as a node, by its bytes.
struct onnx_kept {
    const char *bytes;
    size_t size_B;
    const char *name;
};

struct onnx_writer {
    const struct kiln_graph *g;
    const uintptr_t *callers; // by node; NULL: those of the graph
    onnx_cannot_fn cannot;
    void *user;
    struct arena arena;
    struct str nodes;   // as fields of a graph
    struct str pending; // attributes of the next node
    const char **names; // by value of g; NULL: it is not there yet
    const bool *open;   // by value and dimension, MAX_RANK each: it goes with an open one; NULL: none
    VEC(struct onnx_kept) kept;
    const char *prefix; // of names, which no name of the caller's has
    unsigned n_named;
    int opset;
    int32_t node; // that is being written
    bool failed;  // of it something cannot go
};

kiln_status onnx_writer_init(struct onnx_writer *w, const struct onnx_export *e);
void onnx_writer_finish(struct onnx_writer *w);
// All nodes that the results need.
kiln_status onnx_write_nodes(struct onnx_writer *w, const struct onnx_export *e);

// All nodes of a region, in the graph that is being written; its parameters have names.
kiln_status onnx_write_region(struct onnx_writer *w, int32_t region);
// write_file.c: an input or output. `which`: of symbols, by dimension, 1 + index; NULL: none.
void onnx_put_port(struct str *graph, uint32_t field, const char *name, const struct type *t,
                   const char *const *symbols, const int16_t *which);

// write_node.c: nodes. Attributes are those of the next one.
void onnx_put_int(struct onnx_writer *w, const char *name, int64_t v);
void onnx_put_float(struct onnx_writer *w, const char *name, double v);
void onnx_put_text(struct onnx_writer *w, const char *name, const char *text);
void onnx_put_list(struct onnx_writer *w, const char *name, size_t n, const int64_t *v);
const char *onnx_new_name(struct onnx_writer *w, const char *kind); // "MatMul_12"
kiln_status onnx_put_all(struct onnx_writer *w, const char *op, size_t n_in, const char *const *in, size_t n_out,
                         const char **out);
const char *onnx_put(struct onnx_writer *w, const char *op, size_t n_in, const char *const *in);
#define PUT(w, op, ...) \
    onnx_put((w), (op), COUNT_OF(((const char *const[]){__VA_ARGS__})), (const char *const[]){__VA_ARGS__})
const char *onnx_put_as(struct onnx_writer *w, const char *name,
                        const char *value); // a value by a name of the caller's
const char *onnx_put_cast(struct onnx_writer *w, const char *x, unsigned from, unsigned to);
// The node being written is none of ONNX.
const char *onnx_cannot(struct onnx_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The version from which an op is taken.
void onnx_needs(struct onnx_writer *w, int opset);

// Constants.
const char *onnx_put_tensor(struct onnx_writer *w, unsigned dtype, int rank, const int64_t *dims, const void *data);
const char *onnx_put_ints(struct onnx_writer *w, size_t n, const int64_t *v); // i64[n]
const char *onnx_put_scalar(struct onnx_writer *w, unsigned dtype, double number);
const char *onnx_put_integer(struct onnx_writer *w, unsigned dtype, int64_t number);
// One number as often as a type says.
const char *onnx_put_full(struct onnx_writer *w, const struct type *t, double number, int64_t integer);
void onnx_tensor_bytes(struct str *s, unsigned dtype, int rank, const int64_t *dims, const char *name);

// The node being written.
const struct ir_node *onnx_node_of(const struct onnx_writer *w);
int onnx_operands(const struct onnx_writer *w); // without a token
bool onnx_has_operand(const struct onnx_writer *w, int i);
const struct type *onnx_type_in(const struct onnx_writer *w, int i);
const struct type *onnx_type_out(const struct onnx_writer *w, int i);
const char *onnx_operand(struct onnx_writer *w, int i, unsigned dtype); // in that dtype
const char *onnx_operand_as_is(struct onnx_writer *w, int i);
void onnx_gives(struct onnx_writer *w, int i, const char *name, unsigned dtype); // made to be of the result's
int64_t onnx_attr_of(const struct onnx_writer *w, int i);                        // an integer
int onnx_axis_of(const struct onnx_writer *w, int i, int rank);                  // one that may count from the end
bool onnx_is_open(const struct onnx_writer *w, int32_t value, int dim);
int32_t onnx_value_in(const struct onnx_writer *w, int i);
int32_t onnx_value_out(const struct onnx_writer *w, int i);

// write_types.c: the dtype in which ONNX has an op, for one of Kiln's: it, or one that holds all its values.
// DTYPE_COUNT: there is none.
unsigned onnx_dtype_for(const char *op, unsigned dtype);
// The same; none is onnx_cannot.
unsigned onnx_computes_in(struct onnx_writer *w, const char *op, unsigned dtype);

// write_shape.c
const char *onnx_put_reshape(struct onnx_writer *w, const char *x, const struct type *to);
// Elements of a row-major tensor by their places.
const char *onnx_put_view(struct onnx_writer *w, const char *x, const struct type *from, const struct type *to,
                          const struct layout *at);

// write_row.c: rows whose column says all; false: there is none that fits.
bool onnx_write_row(struct onnx_writer *w);
const char *onnx_put_row(struct onnx_writer *w, const struct op *op, const struct attr *attrs, size_t n_in,
                         const char *const *in, unsigned dtype); // operands in dtype; NULL without more: none fits
// write_expr.c: elementwise ops by their expressions.
void onnx_write_expr(struct onnx_writer *w);

// Functions for ops that are no single row of ONNX: those of writers.def.
typedef void (*onnx_write_fn)(struct onnx_writer *w);
#define WRITER(name) void onnx_write_##name(struct onnx_writer *w);
#include "onnx/writers.def"
#undef WRITER
