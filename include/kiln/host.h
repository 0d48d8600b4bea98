/// @file host.h
/// Calls of the host from functions that run as graphs: prints, assertions, functions of C.
///
///     kiln_assert(kiln_all(kiln_isfinite(loss), NULL), "the loss is {} at a rate of {}", loss, rate);
///     kiln_debug_print("loss {}", loss);
///
/// Eagerly and in AUTO they happen where they stand. In a function captured by STRICT or TRACE each is a node of its
/// graph: it happens at each run, in conditions as often as the branch is taken, in loops once a trip, in the order in
/// which eager mode would have them. When an op fails, or one of them, what stands before it has happened and what
/// stands behind it has not. A run waits for the device there.
#ifndef KILN_HOST_H
#define KILN_HOST_H

#include <kiln/bundle.h>
#include <kiln/grad.h>
#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Prints a line to stdout. Each {} of `format` stands for one of the tensors that follow, as kiln_print shows it;
/// there are as many.
KILN_API kiln_status kiln_debug_print(const char *format, ...);

/// KILN_E_ASSERT where an element of `cond`, a tensor of bools, is false. The message holds the line of this call, the
/// text of `format` with the values of the tensors that follow, one for each {}, and the trip of a loop.
KILN_API kiln_status kiln_assert(kiln_tensor *cond, const char *format, ...);

/// What a result of kiln_host_call is.
typedef struct kiln_host_spec {
    kiln_dtype dtype;
    size_t rank;
    const int64_t *dims; ///< `rank` sizes; NULL where rank is 0
} kiln_host_spec;

/// What a function of the host does, for kiln_host_call; the sum of some.
enum {
    KILN_HOST_PURE = 1,   ///< nothing else, and always the same on the same inputs: it may be called at other times, or
                          ///< not at all where nobody uses its results; on constants alone, once, by the capture
    KILN_HOST_READS = 2,  ///< it reads what `user` leads to; gradients of gradients of a graph may call it again
    KILN_HOST_WRITES = 4, ///< it changes what `user` leads to, or its inputs in place
    KILN_HOST_IO = 8,     ///< it reads or writes files, devices, the network
};

/// Calls fn(user, in, n_in, out, n_out) with the values of `in`. fn fills `out` with tensors: those that `spec` says,
/// n_out of them, else the call fails. It runs without a capture and without a tape, in a scope of its own; it may use
/// ops of eager mode and call other captured functions. `in` are values of its own, which it may keep by kiln_own. They
/// may be written with KILN_HOST_WRITES alone; then those of the caller are written. An error of fn is the error of
/// whoever runs it, and names the line of this call. fn may not call the captured function that is calling it.
///
/// `spec` NULL: whatever fn gives, as f64. A capture learns the shapes by a call of fn that it makes itself, with the
/// values of the call that is captured; a later run that gives others fails. In regions of control flow that is not
/// possible.
///
/// `rule` gives the gradients by `in`, as kiln_register_bprop has it; with it the results require gradients where an
/// input does. NULL: no gradient goes through, which is said once, in a warning; an error with KILN_SYNTAX_STRICT.
KILN_API kiln_status kiln_host_call(kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in,
                                    const kiln_host_spec *spec, kiln_tensor **out, size_t n_out, unsigned flags,
                                    kiln_bprop_fn rule);

/// The same for a function of bundles: `in` is what is in it now, a copy, as kiln_bundle_fn says, and *out is what fn
/// gives, by what is in it. The tensors in them, in order, are the inputs and the outputs of `rule`, 255 at most.
///
/// `spec` is an example of what fn gives: a tensor in it stands for its dtype and shape, its values are not looked at;
/// all else, names, order, numbers, strings, nothing, bundles, is what fn gives each time. A value that changes is a
/// tensor of rank 0. Whatever differs is an error that tells where: out["y"][0]. An empty spec: fn may give nothing.
/// `spec` NULL: whatever fn gives, its tensors as f64; a graph learns it once, as above. `out` NULL: it is dropped.
KILN_API kiln_status kiln_bundle_host_call(kiln_bundle_fn fn, void *user, const kiln_bundle *in,
                                           const kiln_bundle *spec, kiln_bundle **out, unsigned flags,
                                           kiln_bprop_fn rule);

#ifdef __cplusplus
}
#endif
#endif
