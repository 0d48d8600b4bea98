/// @file grad.h
/// Gradients: parameters, backward, functional gradients, rules, hooks, stop-gradient, no-grad, gradient check.
///
///     kiln_tensor *w = kiln_parameter(kiln_ones(NULL, KILN_F32, KILN_SHAPE(3)), "w");
///     kiln_tensor *loss = kiln_sum(kiln_square(w), NULL);
///     kiln_backward(loss, NULL);
///     kiln_print(kiln_gradient(w), stdout);           // [2. 2. 2.]
#ifndef KILN_GRAD_H
#define KILN_GRAD_H

#include <kiln/bundle.h>
#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A function in the sense of gradients and capture: inputs in, outputs out, user data beside. It fills exactly n_out
/// handles; one left NULL is an error naming its index. Inputs are borrowed. It runs in a scope of its own.
typedef kiln_status (*kiln_fn)(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out);

/// Makes a parameter: a named leaf that requires a gradient, with the value of `init` (copied when init is used
/// elsewhere). The handle is owned as any other. The name is copied.
KILN_API kiln_tensor *kiln_parameter(kiln_tensor *init, const char *name);
KILN_API const char *kiln_name(const kiln_tensor *t);                 ///< "" when it has none; borrowed
KILN_API kiln_status kiln_set_requires_grad(kiln_tensor *t, bool on); ///< leaves only
KILN_API bool kiln_requires_grad(const kiln_tensor *t);
KILN_API bool kiln_is_leaf(const kiln_tensor *t);

/// Options of kiln_grad and kiln_value_and_grad.
typedef struct kiln_grad_opts {
    size_t size KILN_0;
    kiln_ints wrt KILN_0;       ///< inputs to differentiate by; none given: the first, or none where params are given
    kiln_tensors params KILN_0; ///< parameters to differentiate by
    kiln_tensors sens KILN_0;   ///< gradient of each differentiated output; none given: ones
    size_t outputs KILN_0;      ///< how many outputs fn has; 0 = 1
    bool has_aux KILN_0;        ///< only output 0 is differentiated; the others are returned
    bool create_graph KILN_0;   ///< record the results, so that gradients can be taken through them
} kiln_grad_opts;
#define KILN_GRAD(...) KILN_OPTS_(kiln_grad_opts, __VA_ARGS__)

/// Gradients of fn at `in`: those of .wrt in order, then of .params, then with .has_aux the outputs 1 and up. Several
/// outputs and no aux: gradient of their sum. Non-float tensors get gradients of their own dtype. Unused inputs get
/// zeros. May be nested for higher orders.
///
/// The results are on the tape where an input requires a gradient, inside a function that is itself differentiated, and
/// with .create_graph: a loss of derivatives then has gradients by the parameters that fn used. Otherwise they are
/// values. A backward that would have to go through them to a parameter is then KILN_E_GRADIENT, and does not take them
/// for constants; kiln_stop_gradient makes constants of them.
KILN_API kiln_status kiln_grad(kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in, const kiln_grad_opts *opts,
                               kiln_tensor **grads, size_t n_grads);
/// The same, with all outputs first, then the gradients; nothing twice.
KILN_API kiln_status kiln_value_and_grad(kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in,
                                         const kiln_grad_opts *opts, kiln_tensor **results, size_t n_results);

/// Options of kiln_bundle_grad.
typedef struct kiln_bundle_grad_opts {
    size_t size KILN_0;
    kiln_ints wrt KILN_0;       ///< entries to differentiate by, by index; see .names
    kiln_names names KILN_0;    ///< and by name, after those; none of either given: all, or none where params are given
    kiln_tensors params KILN_0; ///< parameters to differentiate by
    kiln_bundle *sens KILN_0;   ///< a tensor for each one that is differentiated, in order; none given: ones
    bool has_aux KILN_0;        ///< only what is in the first entry of the output is differentiated
    bool create_graph KILN_0;   ///< record the results, so that gradients can be taken through them
} kiln_bundle_grad_opts;
#define KILN_BUNDLE_GRAD(...) KILN_OPTS_(kiln_bundle_grad_opts, __VA_ARGS__)

/// Gradients of fn at `in`, of the sum of all tensors that it gives. *grads is a new bundle with an entry for each
/// entry of `in` that is differentiated, under its name, and then for each of .params, without one. The gradient by a
/// tensor or a mutable number is a tensor, that by a bundle a bundle; entries by which there is none (nothing, numbers
/// that are not mutable, strings, pointers) are left out. *value, unless `value` is NULL, is what fn gave. All else is
/// as with kiln_grad.
KILN_API kiln_status kiln_bundle_grad(kiln_bundle_fn fn, void *user, kiln_bundle *in, const kiln_bundle_grad_opts *opts,
                                      kiln_bundle **value, kiln_bundle **grads);

/// Runs the tape back from `out`: sets the gradient of each parameter it reaches. sens NULL = ones; where out has more
/// than one element the gradients are then those of its sum, with a warning in the log that names the line. Frees the
/// tape. Functions in steps (floor, round, sign ...) reach their inputs with zeros. Comparisons, argmax and the like,
/// and kiln_stop_gradient, end the way: an out that depends on no parameter otherwise sets no gradient, with a warning
/// in the log and no error.
KILN_API kiln_status kiln_backward(kiln_tensor *out, kiln_tensor *sens);
typedef struct kiln_backward_opts {
    size_t size KILN_0;
    kiln_tensor *sens KILN_0; ///< gradient of out; NULL = ones
    bool accumulate KILN_0;   ///< add to the gradients that are there
    bool keep_tape KILN_0;    ///< leave the tape for another backward
    bool create_graph KILN_0; ///< record the backward itself, for higher orders
} kiln_backward_opts;
#define KILN_BACKWARD(...) KILN_OPTS_(kiln_backward_opts, __VA_ARGS__)
KILN_API kiln_status kiln_backward_with(kiln_tensor *out, const kiln_backward_opts *opts);
/// Options of kiln_gradients.
typedef struct kiln_gradients_opts {
    size_t size KILN_0;
    kiln_tensor *sens KILN_0; ///< gradient of out; NULL = ones
    bool keep_tape KILN_0;    ///< leave the tape for another backward
    bool create_graph KILN_0; ///< record the gradients, for higher orders and for losses of derivatives
} kiln_gradients_opts;
#define KILN_GRADIENTS(...) KILN_OPTS_(kiln_gradients_opts, __VA_ARGS__)
/// Gradients of `out` by n tensors that it was made of, parameters or results of ops, as the tape has them: fills
/// `grads` with n new handles of the shapes of `wrt`, zeros where out does not depend on one. No parameter's gradient
/// is set. Uses up the tape on the way to them, unless .keep_tape or .create_graph. Inside a function that kiln_grad
/// differentiates they are recorded; for results that are not, see kiln_grad. Errors: KILN_E_GRADIENT for an
/// out, or one of wrt, that requires no gradient.
///
///     kiln_gradients(u, &x, 1, KILN_GRADIENTS(.create_graph = true), &u_x);
///     kiln_gradients(u_x, &x, 1, KILN_GRADIENTS(.create_graph = true), &u_xx);
///     kiln_backward(kiln_mean(kiln_square(u_xx), NULL), NULL);
KILN_API kiln_status kiln_gradients(kiln_tensor *out, kiln_tensor *const *wrt, size_t n,
                                    const kiln_gradients_opts *opts, kiln_tensor **grads);
/// The gradient that the last backward left (borrowed: the parameter owns it), or NULL when there is none (no error).
KILN_API kiln_tensor *kiln_gradient(kiln_tensor *param);
/// Replaces or (NULL) drops the gradient of a parameter.
KILN_API kiln_status kiln_set_gradient(kiln_tensor *param, kiln_tensor *grad);
/// The reverse graph that the tape of `out` holds, to print or draw; see graph.h. Free with kiln_graph_free. Errors:
/// KILN_E_GRADIENT for an out that requires no gradient.
KILN_API kiln_graph *kiln_backward_graph(kiln_tensor *out);

/// The same value, with no gradient through it.
KILN_API kiln_tensor *kiln_stop_gradient(kiln_tensor *t);
/// No tape on this thread between begin and end; they nest.
KILN_API void kiln_no_grad_begin(void);
KILN_API void kiln_no_grad_end(void);
KILN_API bool kiln_grad_enabled(void);

/// Rules. A rule fills din[i] with the gradient by input i, made with public ops; a din left NULL is a zero gradient.
/// What is not kept is NULL in `in` and `out`. Un-broadcasting, and the cast to the input's dtype, are done by the
/// caller of the rule. dout[k] of an output that no gradient reaches is zeros where the output is a float, else NULL
/// (see .missing_is_null of kiln_register_rule). A rule runs in a scope of its own.
typedef kiln_status (*kiln_bprop_fn)(void *user, kiln_tensor *const *in, kiln_tensor *const *out,
                                     kiln_tensor *const *dout, kiln_tensor **din);
/// Registers a rule for an op by its row's name ("mul"; MindSpore's "Mul" is an alias). It replaces the one there for
/// what is recorded afterwards and keeps all inputs and outputs. fn NULL brings the built-in rule back.
KILN_API kiln_status kiln_register_bprop(const char *op, kiln_bprop_fn fn, void *user);
typedef struct kiln_rule_spec {
    size_t size KILN_0;
    const char *op KILN_0;
    kiln_bprop_fn fn KILN_0;
    void *user KILN_0;
    uint32_t needs_in KILN_0;  ///< bit i: input i is kept
    uint32_t needs_out KILN_0; ///< bit i: output i is kept
    uint32_t
        needs_in_for[4] KILN_0; ///< finer, instead of needs_in: [k] are the inputs that the gradient by input k takes
    /// dout[k] of an output that no gradient reaches is NULL, so that the rule leaves out what it would do with zeros.
    /// It must give the same for zeros, which it gets where a capture learns only later what is reached.
    bool missing_is_null KILN_0;
} kiln_rule_spec;
#define KILN_RULE(...) KILN_OPTS_(kiln_rule_spec, __VA_ARGS__)
KILN_API kiln_status kiln_register_rule(const kiln_rule_spec *spec);

/// Valid inside a rule only.
KILN_API size_t kiln_rule_n_in(void);
KILN_API size_t kiln_rule_n_out(void);
KILN_API bool kiln_rule_wants(size_t input);
KILN_API int64_t kiln_rule_int(const char *attr);
KILN_API double kiln_rule_float(const char *attr);
KILN_API size_t kiln_rule_ints(const char *attr, const int64_t **v);
/// Shape and dtype of an input or output, kept or not.
KILN_API size_t kiln_rule_in_shape(size_t input, const int64_t **dims);
KILN_API kiln_dtype kiln_rule_in_dtype(size_t input);
KILN_API size_t kiln_rule_out_shape(size_t output, const int64_t **dims);
KILN_API kiln_dtype kiln_rule_out_dtype(size_t output);
/// Strides (in elements, as many as the input has dimensions) and offset of an input in its storage; the result is the
/// offset.
KILN_API int64_t kiln_rule_in_strides(size_t input, const int64_t **strides);

/// A hook sees the gradient of a tensor when it is known, and may return another (NULL keeps it). Returns an id for
/// removal, 0 on error.
typedef kiln_tensor *(*kiln_grad_hook)(void *user, kiln_tensor *grad);
KILN_API uint64_t kiln_register_hook(kiln_tensor *t, kiln_grad_hook fn, void *user);
KILN_API kiln_status kiln_remove_hook(kiln_tensor *t, uint64_t id);

/// Compares the gradients of fn with central differences in f64 (inputs must be f64). Fails with KILN_E_GRADIENT and
/// the worst element when |numeric - analytic| > atol + rtol |numeric|. order 2 also checks the gradient of the
/// gradient.
typedef struct kiln_gradcheck_opts {
    size_t size KILN_0;
    double eps KILN_0;    ///< step; 0 = 1e-6
    double rtol KILN_0;   ///< 0 = 1e-5
    double atol KILN_0;   ///< 0 = 1e-7
    int order KILN_0;     ///< 0 = 1
    kiln_ints wrt KILN_0; ///< none given: all f64 inputs
} kiln_gradcheck_opts;
#define KILN_GRADCHECK(...) KILN_OPTS_(kiln_gradcheck_opts, __VA_ARGS__)
KILN_API kiln_status kiln_gradcheck(kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in,
                                    const kiln_gradcheck_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
