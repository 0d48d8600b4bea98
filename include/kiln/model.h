/// @file model.h
/// Graphs as files: captured functions and their weights, written by one process and run by another.
///
///     kiln_model *m = kiln_model_create();
///     kiln_model_name_weights(m, n, names, tensors);           // as kiln_cell_state gives them
///     kiln_model_add(m, "forward", forward, &images, 1, 1, NULL);
///     kiln_model_add(m, "step", step, batch, 2, 1, NULL);       // shares the weights
///     kiln_model_save(m, "lenet.kiln");
///     kiln_model_free(&m);
///
///     kiln_model *m = kiln_graph_import(dev, "lenet.kiln");
///     kiln_function *forward = kiln_model_function(m, "forward");
///     kiln_call(forward, &images, 1, &logits, 1);
///     kiln_function_free(&forward);
///     kiln_model_free(&m);
///
/// A file is one safetensors file: the weights are its tensors, the graphs are text in its metadata. It holds no code
/// and no paths. Reading trusts no file, as in kiln/io.h: what does not hold is KILN_E_FORMAT with the place. A model
/// is used by one thread at a time; its functions as any others.
#ifndef KILN_MODEL_H
#define KILN_MODEL_H

#include <kiln/jit.h>
#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Functions, and the weights that they share.
typedef struct kiln_model kiln_model;

/// A model without functions.
KILN_API kiln_model *kiln_model_create(void);
/// Frees it and nulls the pointer; NULL is fine. Functions that it gave live on, with their weights.
KILN_API void kiln_model_free(kiln_model **m);

/// Names weights: n tensors under n different names, which are not empty, such as kiln_cell_state gives. A parameter or
/// state that a function reaches and that has no name here goes by the name that kiln_parameter gave it, else by a
/// number. Errors: KILN_E_ARGUMENT, also for a tensor that has another name in this model.
KILN_API kiln_status kiln_model_name_weights(kiln_model *m, size_t n, const char *const *names,
                                             kiln_tensor *const *tensors);

/// Options of kiln_model_add; NULL means all zero.
typedef struct kiln_model_add_opts {
    size_t size KILN_0;
    const char *const *inputs KILN_0;  ///< n_in different names; NULL: "in0", "in1" ...
    const char *const *outputs KILN_0; ///< n_out different names; NULL: "out0", "out1" ...
} kiln_model_add_opts;
#define KILN_MODEL_ADD(...) KILN_OPTS_(kiln_model_add_opts, __VA_ARGS__)

/// Captures f for inputs such as `in` and adds what it captured under a name. f is a function of tensors, STRICT or
/// TRACE; TRACE runs it. In the file are: its forward graph; where an input or a parameter requires a gradient, the
/// backward graph, so that what is read takes part on the tape; writes of parameters, states and inputs; gradients that
/// kiln_backward leaves in parameters; random numbers, which are drawn anew; prints and assertions; ops of the user by
/// expression. Tensors that it reaches are the model's weights: parameters, states, or constants by value, as they are
/// when the model is saved. Numbers that kiln_host_number gives become inputs behind those of the call. Scalars among
/// `in` are inputs, but for those whose value the function reads: what is read takes that value alone.
///
/// Where f was made with .input_types with open dimensions, f is captured for several sizes, and what goes with sizes
/// is found: sums of products of sizes, quotients rounded down. KILN_E_UNSUPPORTED where something does not fit, with
/// its op, line and attribute.
///
/// Errors beside those of the capture: KILN_E_UNSUPPORTED for functions of AUTO and of bundles, and for what has no
/// form in a file (calls of the host, ops of the user in GLSL, inputs that share memory ...): all that cannot go is
/// listed, with lines. KILN_E_ARGUMENT for a name that is empty or taken.
KILN_API kiln_status kiln_model_add(kiln_model *m, const char *name, kiln_function *f, kiln_tensor *const *in,
                                    size_t n_in, size_t n_out, const kiln_model_add_opts *opts);

/// Writes the model, all or nothing (see kiln/io.h). A path that ends in ".onnx" gets a model of ONNX
/// (docs/guide/onnx.md): the forward graph of the model's only function, and the weights that it needs, by their names.
/// Errors of that: KILN_E_UNSUPPORTED for more than one function, for 2 GiB and more, where numbers in the graph go
/// with open dimensions, and for what ONNX has no form for: random numbers, writes, gradients that are left, calls of
/// the host, prints, some ops; all of it is listed, with lines. KILN_E_ARGUMENT where an output has the
/// name of an input or weight.
KILN_API kiln_status kiln_model_save(const kiln_model *m, const char *path);

/// One function, named "main", in a file of its own: kiln_model_add and kiln_model_save, by whose rules `path` says
/// which format it is.
KILN_API kiln_status kiln_graph_export(kiln_function *f, kiln_tensor *const *in, size_t n_in, size_t n_out,
                                       const char *path, const kiln_model_add_opts *opts);

/// Reads a model; its weights lie on `dev`, NULL: this thread's default device. Parameters are parameters, states are
/// states. Files of all versions of Kiln so far are read; a file of a later version is KILN_E_UNSUPPORTED where it
/// needs what this one does not have. Errors: those of kiln_safetensors_load, and KILN_E_FORMAT for a file without
/// graphs.
///
/// A model of ONNX (docs/guide/onnx.md) is read, too: it has one function, "main", whose inputs may have open
/// dimensions, and whose weights are constants until kiln_model_train makes parameters of them. Such a model is not
/// saved as it is: kiln_model_add adds its function to another model, which may be saved as either.
KILN_API kiln_model *kiln_graph_import(kiln_device *dev, const char *path);

/// Makes parameters of all weights of floats that are constants, so that functions that are made from now on have
/// gradients by them. For models that were read from ONNX; others have their parameters already. Returns KILN_E_STATE
/// when a function was made before.
KILN_API kiln_status kiln_model_train(kiln_model *m);

/// Functions, in the order in which they were added; borrowed names. NULL and an error when i is out of range.
KILN_API size_t kiln_model_function_count(const kiln_model *m);
KILN_API const char *kiln_model_function_name(const kiln_model *m, size_t i);
/// A function of this name, for kiln_call; free it with kiln_function_free. Each has programs of its own, all share the
/// weights. Inputs have the types that it was added with; they lie on the device of the weights, and one that is
/// written shares its memory with no other and with no weight. Where it was added with gradients a call is one node on
/// the tape; to give an input that requires a gradient to one that was added without it is KILN_E_GRADIENT. Errors:
/// KILN_E_ARGUMENT for a name that is not there, with those that are.
KILN_API kiln_function *kiln_model_function(kiln_model *m, const char *name);

/// What a function takes or gives. All that it points to is borrowed from the model.
typedef struct kiln_model_value {
    size_t size KILN_0; ///< set to sizeof(kiln_model_value) by the caller
    const char *name KILN_0;
    kiln_dtype dtype KILN_0;
    size_t rank KILN_0;
    const int64_t *dims KILN_0; ///< -1: open
    bool is_number KILN_0;      ///< a scalar, as kiln_scalar or kiln_mutable makes it
    const char *text KILN_0;    ///< "f32[length,3]"; what goes with open sizes: "f32[2*length+1,3]"
} kiln_model_value;
KILN_API size_t kiln_model_input_count(const kiln_model *m, const char *function);
KILN_API size_t kiln_model_output_count(const kiln_model *m, const char *function);
/// Errors: KILN_E_ARGUMENT for a function that is not there, and for an index out of range.
KILN_API kiln_status kiln_model_input(const kiln_model *m, const char *function, size_t i, kiln_model_value *out);
KILN_API kiln_status kiln_model_output(const kiln_model *m, const char *function, size_t i, kiln_model_value *out);

/// Weights with their names: up to `max` of each; returns how many there are. Borrowed from the model: tensors may be
/// written, as by an optimiser. Either array may be NULL.
KILN_API size_t kiln_model_weights(const kiln_model *m, const char **names, kiln_tensor **tensors, size_t max);
/// Those that require a gradient, for an optimiser; borrowed. `out` may be NULL when max is 0.
KILN_API size_t kiln_model_parameters(const kiln_model *m, kiln_tensor **out, size_t max);

#ifdef __cplusplus
}
#endif
#endif
