// Rows of the tables that are not elementwise: structured ops, their options, and the kernels that families launch.
#pragma once
#include "ir/launch.h"
#include "ir/op.h"
#include "ops/elementwise.h"

// `args` is the public signature, in order: `x` a tensor, `x?` an optional one (inside options, and of hidden ops),
// `x*` a list of tensors with its count, `dev` the device of an op that creates, `axis:int`, `p:float`, `flag:bool`,
// `shape:ints` (count and values), `axes:axes` (a kiln_ints), `shifts:shifts` (one that goes with sizes),
// `dtype:dtype`, `@name` an options struct of options.def. Tensors become inputs, the rest attributes by these names.
struct structured_row {
    const char *name;
    const char *args;
    uint8_t n_out; // default 1
    uint32_t flags;
    struct op_indexed indexed; // an input that is looked at as the op runs
    uint8_t uniform;           // enum op_uniform: what it gives of one number
    uint8_t u64;               // enum op_u64
    struct op_products products;
    uint16_t kernel; // family that lower launches, where rows share a lower
    struct op_functions fn;
    // The public function asks check_<name> first: of what a program that says so does not mean, and graphs, where
    // passes and older files have it, may hold.
    bool is_checked;
    const char *outs; // names of the results of an op that has several; it returns a status
    const char *alias, *also, *was;
    // The ONNX ops that the row is, divided by ", ", each with the first version of ONNX's operator set that has it as
    // it is taken here, if that is above 13: "Gelu@20". Its inputs and results are the row's, in order. Words behind it
    // speak of its attributes:
    //   slope=alpha:0.01  the row's slope is its alpha, which is 0.01 where it is left out; without ":0.01" it may not
    //   value=#0          the row's value is 0
    //   fmod==1           it is the row only where its fmod is 1; fmod=?0: or is left out
    // "Conv by conv": no such words will do; onnx_op_conv of src/onnx says how it is made of the row, and of others.
    const char *onnx;
    const char *doc;
};
extern const struct structured_row structured_rows[];
kiln_status check_full(const struct attr *attrs); // creation.c
// The same texts of ONNX ops that are no single row (onnx.def).
extern const char *const onnx_texts[];
extern const int onnx_text_count;
extern const int structured_row_count;

// A public op that is a function of others: compose_<name> of src/compose, of the same arguments, on public functions
// alone. Its gradient, its graph and its kernels are theirs.
struct composite_row {
    const char *name;
    // As of a structured row; also `mask?`, a tensor that may be NULL, and `equation:text`.
    const char *args;
    // Names of the results of an op that has several; it returns a status. "parts*": a list the caller has room for.
    const char *outs;
    const char *topic; // the chapter of the guide's list of ops
    const char *alias, *also, *was;
    bool zero_grad; // the gradient is zero by definition
    const char *doc;
};
extern const struct composite_row composite_rows[];
extern const int composite_row_count;

// `fields`: "name:kind[=default]" with kinds int, float, bool, ints, int2 (int64_t[2]), int3, all2 and all3 (the same,
// in which the first without the others stands for all), tensor, dtype, text; size, sizes and limit are int, ints and
// float that go with the sizes of tensors (attr_info.is_size). A field that is zero takes its default; KILN_ZERO in a
// float field means 0.
struct options_row {
    const char *name; // kiln_<name>_opts and KILN_<NAME>(...)
    const char *fields;
    const char *doc;
};
extern const struct options_row options_rows[];
extern const int options_row_count;
// The same of composites (composite_options.def).
extern const struct options_row composite_options_rows[];
extern const int composite_options_row_count;

// The first operand of a launch is read, instead of 0, only where first + step * i[outer] + tap * i[inner] lies in
// [0, size), i being the point.
struct launch_window {
    uint8_t outer, inner; // dimensions
    int32_t step, tap, first, size;
};
#define MAX_WINDOWS 2

// A kernel family that is no public op: pointwise and row programs in the scalar language, and hand-written kernels.
struct kernel_row {
    const char *name;
    uint8_t kind;        // enum kernel_kind
    uint8_t classes;     // bit c: compute class c exists
    const char *in;      // "x", "x t:i64 w": names of the inputs, each of the kernel's class or of the one named
    uint8_t row_in;      // ROW: bit i: launches give input i one value a row, at strides of 0 along it
    const char *scalars; // "n eps k:i64": run-time scalars, in order
    const char *out;     // class of the output when it differs: "i64", "bool"
    const char *expr;    // POINTWISE, ROW; CUSTOM: see `gathers` and `multiplies`
    // CUSTOM: the output is the element of the first input that lies so many elements (i64) beyond the point's, as expr
    // says of the other inputs and the scalars; PLACE_OUTSIDE: none, which expr may leave out. What fusion needs to
    // take the kernel apart.
    bool gathers;
    // CUSTOM: the output is the first input as it is, where the expression, a bool, holds everywhere; else an error.
    bool checks;
    // CUSTOM: expr is what the kernel computes, a sum of products along the last dimensions of its space. Devices that
    // compile kernels make it the anchor of a fused one; the CPU keeps the kernel by hand.
    bool multiplies;
    // ... where that space is another than the launch's: rewrites the launch, says where the first operand is read, and
    // returns the number of such conditions. NULL: it is the same.
    int (*unfold)(struct launch *l, struct launch_window *windows);
    uint8_t n_operands, n_out; // CUSTOM
    uint16_t tile[3];
    bool picks_tile; // CUSTOM: a GPU chooses tile[0] = tile[1] itself
    bool matrices;   // CUSTOM: for devices that multiply matrices of f16 or bf16
    bool by_rows;    // CUSTOM: see kernel_info
    bool narrow;     // CUSTOM: see kernel_info
    bool hands_on;   // CUSTOM: the CPU's makes launch.after along, slice by slice of the rows of its result
    bool cpu_only;
};
#define PLACE_OUTSIDE "-0x7fffffffffffffff"
int unfold_conv2d(struct launch *l, struct launch_window *windows); // conv.c
extern const struct kernel_row kernel_rows[];
extern const int kernel_row_count;

#define CLASSES_F   ((1 << CLASS_F32) | (1 << CLASS_F64))
#define CLASSES_I   ((1 << CLASS_I32) | (1 << CLASS_I64))
#define CLASSES_FI  (CLASSES_F | CLASSES_I)
#define CLASSES_B   (1 << CLASS_BOOL)
#define CLASSES_ALL (CLASSES_FI | CLASSES_B)
