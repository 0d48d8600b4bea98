/// @file control.h
/// Conditions and loops over tensors: what `if`, `switch`, `while` and `for` of C are to numbers of the host.
///
///     kiln_status halve(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
///     {
///         out[0] = kiln_mul(in[0], kiln_scalar(0.5));
///         return kiln_error();
///     }
///     kiln_while(is_large, halve, NULL, &x, 1, NULL, &y, 1);       // while (is_large(x)) x = halve(x)
///
/// The functions that they take are regions. A region gets tensors and gives tensors; it may use and write any others
/// that are there where it is called, and call other regions. It fills exactly the outputs that it is asked for.
///
/// Called eagerly they run as the statement of C would, with the same results to the bit, and leave its tape. What a
/// region makes is gone when it has run, but for its outputs. What is given is a value of its own, even where a region
/// gives back what it was given: a write to it is seen nowhere else. A body of a loop that writes what it carries is
/// KILN_E_UNSUPPORTED.
///
/// Random numbers: each call takes one number of the device's stream, and each trip and branch draws from a stream of
/// its own, made of it; so the same seed gives the same numbers in all modes, there and afterwards.
///
/// All functions return KILN_OK, or an error with nothing in `out`; what regions had written by then stays written. In
/// a graph on a Vulkan device an error of a value (more trips than .bound, an index without a branch, a negative count)
/// may come from the thread's next call that waits for the device: a read, or kiln_device_synchronize.
///
/// `in` and `out` may not overlap.
#ifndef KILN_CONTROL_H
#define KILN_CONTROL_H

#include <kiln/grad.h>
#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Runs one of two regions on `in`: then_fn where `pred`, a bool of rank 0, is true, else_fn where it is false. Both
/// give n_out outputs; in a graph, of the same types. else_fn may be NULL where n_out is 0.
KILN_API kiln_status kiln_cond(kiln_tensor *pred, kiln_fn then_fn, kiln_fn else_fn, void *user, kiln_tensor *const *in,
                               size_t n_in, kiln_tensor **out, size_t n_out);

/// Runs branches[index] on `in`. `index` is an integer of rank 0; outside of [0, n_branches) it is KILN_E_ARGUMENT.
KILN_API kiln_status kiln_switch(kiln_tensor *index, const kiln_fn *branches, size_t n_branches, void *user,
                                 kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out);

/// Options of kiln_while and kiln_for; NULL means all zero.
typedef struct kiln_loop_opts {
    size_t size KILN_0;
    /// The most trips that the loop makes; more are KILN_E_STATE after so many. 0: any number. In a graph a loop whose
    /// number of trips is not known when it is captured needs one to have a gradient.
    int64_t bound KILN_0;
    /// What a graph keeps for the gradient of the loop. 0: all that the gradient needs, of each trip. 1: what each trip
    /// was given of what is carried; the gradient computes the rest again. k: that of every k-th trip; the gradient
    /// computes k trips again before it goes back through them, so that with n trips n / k states and the values of k
    /// trips are kept at a time. Computing again takes about the time of the loop, and changes no bit of a gradient.
    /// The same as 1 where the number of trips is not known when the function is captured, or the body draws random
    /// numbers or calls the host. Calls of the host are not made again. Eager mode and AUTO keep all.
    int64_t save_every KILN_0;
    /// Graphs alone: so many trips of a loop become one, with the body as often in a row, so that the ops of one trip
    /// can be fused with those of the next. The results are the same. A loop of no more trips is no loop any more. 0
    /// and 1: as they are. So are trips whose number is not known when the function is compiled (those of kiln_while,
    /// and of a count that is a value), and those of a body that draws random numbers or calls the host. A body of many
    /// ops is repeated less often, up to some thousand ops. Gradients make trips in the same way.
    int64_t unroll KILN_0;
} kiln_loop_opts;
#define KILN_LOOP(...) KILN_OPTS_(kiln_loop_opts, __VA_ARGS__)

/// Carries n_in values through trips of a loop, as long as `cond` holds: `cond` gets the values and gives one bool of
/// rank 0; `body` gets the values and gives those of the next trip, of the same types. A number (kiln_scalar) takes
/// the dtype that the body gives it. n_out is n_in: what is carried in the end.
KILN_API kiln_status kiln_while(kiln_fn cond, kiln_fn body, void *user, kiln_tensor *const *in, size_t n_in,
                                const kiln_loop_opts *opts, kiln_tensor **out, size_t n_out);

/// The same for `count` trips, an integer of rank 0, not negative: `body` gets the number of the trip, from 0, a
/// number as kiln_scalar_int makes it, and then the values, n_in + 1 in all.
KILN_API kiln_status kiln_for(kiln_tensor *count, kiln_fn body, void *user, kiln_tensor *const *in, size_t n_in,
                              const kiln_loop_opts *opts, kiln_tensor **out, size_t n_out);

/// Options of kiln_scan; NULL means all zero.
typedef struct kiln_scan_opts {
    size_t size KILN_0;
    size_t carried KILN_0;     ///< how many of the inputs are carried from trip to trip; the others are scanned
    int64_t length KILN_0;     ///< the number of trips, where nothing is scanned
    bool reverse KILN_0;       ///< from the last to the first
    int64_t save_every KILN_0; ///< as in kiln_loop_opts
    int64_t unroll KILN_0;     ///< as in kiln_loop_opts
} kiln_scan_opts;
#define KILN_SCAN(...) KILN_OPTS_(kiln_scan_opts, __VA_ARGS__)

/// A loop along the first axis of its inputs. In each trip `body` gets the .carried values, then what each other input
/// has at the trip's place, n_in in all; it gives the carried values of the next trip, of the same types, then what it
/// has to say about this one, n_out in all. Outputs: what is carried in the end, then for each of the others all that
/// the trips gave, stacked along a new first axis. The scanned inputs have the same first dimension. Where it is 0, the
/// body runs once on types alone, as in a capture, to tell what is stacked: its ops have no effects, and reads of
/// values are KILN_E_STATE.
KILN_API kiln_status kiln_scan(kiln_fn body, void *user, kiln_tensor *const *in, size_t n_in,
                               const kiln_scan_opts *opts, kiln_tensor **out, size_t n_out);

#ifdef __cplusplus
}
#endif
#endif
