/// @file jit.h
/// Captured functions: a function is run once on abstract tensors, its ops become a graph, the graph is compiled; later
/// calls run the compiled program. And the mode of a thread.
///
///     kiln_function *fast = kiln_jit(net, NULL, NULL);
///     kiln_call(fast, in, 3, &out, 1);            // captured and compiled once, then replayed
///     kiln_explain(fast, stderr);
///     kiln_function_free(&fast);
///
/// A captured function sees three kinds of tensors beside what it makes: its inputs; parameters and state (see
/// kiln_state), which are read anew at each call and may be written; and constants (kiln_constant). Any other tensor
/// that it reaches is an error, since its value would go stale.
#ifndef KILN_JIT_H
#define KILN_JIT_H

#include <kiln/grad.h>
#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// How functions are run on a thread. In KILN_MODE_GRAPH cells run as graphs; single ops stay eager.
typedef enum kiln_mode {
    KILN_MODE_EAGER = 0,
    KILN_MODE_GRAPH = 1,
} kiln_mode;
KILN_API kiln_status kiln_set_mode(kiln_mode mode); ///< of this thread
KILN_API kiln_mode kiln_get_mode(void);             ///< of this thread; where it has set none, of the process
/// The mode of all threads that have not called kiln_set_mode, those to come among them. Unset: $KILN_MODE, "eager" or
/// "graph", else KILN_MODE_EAGER. Errors of both: KILN_E_ARGUMENT for another number.
KILN_API kiln_status kiln_set_default_mode(kiln_mode mode);

/// How a function becomes a graph.
typedef enum kiln_capture {
    KILN_CAPTURE_STRICT = 0, ///< it runs once on abstract tensors; what needs their values is an error
    KILN_CAPTURE_AUTO = 1,   ///< it runs at every call; where a value is needed the graph breaks
    KILN_CAPTURE_TRACE = 2,  ///< like STRICT, but values that it reads are those of the first call, kept as constants
} kiln_capture;

/// What a STRICT capture allows.
typedef enum kiln_syntax {
    KILN_SYNTAX_LAX = 0,    ///< what depends on constants alone is evaluated while the function is captured
    KILN_SYNTAX_STRICT = 1, ///< tensors of host data, and reads of constants, are errors
} kiln_syntax;

/// What is done to a graph before it runs.
typedef enum kiln_level {
    KILN_LEVEL_FUSION = 0, ///< passes, and ops become kernels together
    KILN_LEVEL_PASSES = 1, ///< passes; each op that is left is a kernel by itself, and gives the bits of eager mode
    KILN_LEVEL_AS_IS = 2,  ///< each op as it was captured, by itself
} kiln_level;

typedef struct kiln_function kiln_function;

/// A dtype and a shape. Of .input_types dimensions may be open: -1 is any size, and so is what kiln_symbol gives, by
/// its rule.
typedef struct kiln_type {
    kiln_dtype dtype;
    size_t rank;
    const int64_t *dims;
} kiln_type;
typedef struct kiln_types {
    size_t count;
    const kiln_type *v;
} kiln_types;
/// `.input_types = KILN_TYPES(KILN_TYPE(KILN_F32, batch, 28, 28), KILN_TYPE(KILN_I64, batch))`.
// clang-format off
#ifdef __cplusplus
#define KILN_TYPE(dtype, ...) kiln_type{dtype, KILN_SHAPE(__VA_ARGS__)}
#else
#define KILN_TYPE(dtype, ...) (kiln_type){dtype, KILN_SHAPE(__VA_ARGS__)}
#endif
#define KILN_TYPES(...) {KILN_COUNT_(kiln_type, __VA_ARGS__), KILN_LIST_(kiln_type, __VA_ARGS__)}
// clang-format on

/// Options of kiln_symbol; NULL means all zero.
typedef struct kiln_symbol_opts {
    size_t size KILN_0;
    int64_t min KILN_0;       ///< least size; 0: 1
    int64_t max KILN_0;       ///< largest size; 0: there is none
    int64_t divisor KILN_0;   ///< sizes are divisor * N + remainder, for N from 1; 0: 1
    int64_t remainder KILN_0; ///< see .divisor
    bool unique KILN_0;       ///< one size in all places of a signature; else each place keeps the rule by itself
} kiln_symbol_opts;
#define KILN_SYMBOL(...) KILN_OPTS_(kiln_symbol_opts, __VA_ARGS__)
/// A dimension that differs from call to call within a rule, for .input_types: a number below -1, the same for the same
/// name and rule, valid for the life of the process. The call checks sizes; an error names the symbol, its rule and the
/// size. Returns 0 with an error, KILN_E_ARGUMENT, for a rule that no size keeps; KILN_E_UNSUPPORTED for the 65,537th.
///
///     int64_t length = kiln_symbol("length", KILN_SYMBOL(.max = 512, .divisor = 8));
KILN_API int64_t kiln_symbol(const char *name, const kiln_symbol_opts *opts);

/// Options of kiln_jit; NULL means all zero.
typedef struct kiln_jit_opts {
    size_t size KILN_0;
    kiln_capture capture KILN_0;
    kiln_syntax syntax KILN_0;
    kiln_tensors input_signature KILN_0;      ///< the dtypes and shapes that inputs must have; none given: any
    uint64_t (*hash_args)(void *user) KILN_0; ///< called at each call: a new value is a new capture
    uint64_t verify KILN_0;                   ///< capture anew at every verify-th call and compare; 0: never
    uint64_t loop_unrolling KILN_0; ///< AUTO: copies of a repeated body before it is one piece; 0: as it likes
    bool print_after_all KILN_0;    ///< print each graph to stderr when it is captured
    bool background KILN_0;         ///< compile on other threads; single ops run until it is done
    bool pure_host KILN_0;          ///< AUTO: the function has no effects on the host; it may be skipped
    /// Captures after the first; 0: 32, or $KILN_JIT_RECOMPILES. Not counted: those for inputs of other sizes or
    /// strides whose graph is that of an earlier capture but for sizes.
    uint64_t recompile_limit KILN_0;
    uint64_t cache_entries KILN_0; ///< programs kept; 0: as many as .cache_B has room for, AUTO 1024
    uint64_t cache_B KILN_0;       ///< memory of the host that programs kept may hold; 0: 256 MiB
    const char *name KILN_0;       ///< in messages; copied. NULL: "the function at", and where fn is defined
    bool in_place KILN_0;    ///< kiln_bundle_jit: changes of the input are changes of the bundle that the caller gave
    kiln_level level KILN_0; ///< what is done to its graphs
    /// Values of f16 and bf16 on the way are rounded as eager mode rounds what it stores; else kernels keep them in
    /// f32. Folds may still add in another order: KILN_LEVEL_PASSES gives all bits of eager mode.
    bool eager_rounding KILN_0;
    /// The same inputs give the same bits at every call. Not with .background. AUTO: no fusion, for what a break asks
    /// for is computed in other kernels the first time. STRICT, TRACE: calls beyond .recompile_limit are captured, too.
    bool deterministic KILN_0;
    /// AUTO: one graph or none. What would break it is an error, KILN_E_STATE, that names the line, and so is a call
    /// that would run op by op beyond .recompile_limit.
    bool fullgraph KILN_0;
    /// Ops of one graph, those of its gradients included; 0: 1,000,000. STRICT, TRACE, and AUTO with .fullgraph: more
    /// are an error, KILN_E_STATE, while the function is captured. AUTO: the graph breaks there, if not before.
    uint64_t max_nodes KILN_0;
    /// As .input_signature, by types, with dimensions that may be open. One of the two at most.
    kiln_types input_types KILN_0;
    /// Inputs that a call gives away, by number: `.donate = KILN_ARGS(0, 2)`; copied. See kiln_call. Not for
    /// kiln_bundle_jit. Errors of kiln_jit: KILN_E_ARGUMENT for a negative number, or one that is named twice.
    kiln_ints donate KILN_0;
} kiln_jit_opts;
#define KILN_JIT(...) KILN_OPTS_(kiln_jit_opts, __VA_ARGS__)

/// Makes a captured function of fn. Nothing runs yet. Free it with kiln_function_free. A function may be called from
/// several threads at once.
KILN_API kiln_function *kiln_jit(kiln_fn fn, void *user, const kiln_jit_opts *opts);

/// Calls it: fills exactly n_out new handles, the same number at every call. `in` and `out` may not overlap. Where
/// inputs or parameters require a gradient, the call is one node on the tape, with a compiled backward.
///
/// What .donate names is given away: results and values in between may come to lie in its memory, and when the call has
/// succeeded its handle can be freed, and nothing else. Any other use is KILN_E_HANDLE, which names the function and
/// the line of the call. A call that fails takes nothing, unless memory or the device failed while it ran: then what
/// has been written over is lost, and the handle taken. A function that is not captured, or inside of another capture,
/// takes the handles as well. Errors, before anything happens: KILN_E_ARGUMENT for a number, for a parameter, another
/// leaf (kiln_state, kiln_set_requires_grad) or its gradient, for a tensor that is another input, too, and where there
/// is no such input; KILN_E_STATE for one whose memory has another handle, such as a view, that the tape keeps for a
/// backward, or that is an input of a captured function around this call which does not give it away.
KILN_API kiln_status kiln_call(kiln_function *f, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out);

/// The same of a function of bundles. Tensors and mutable numbers in a bundle are inputs of the program; all else that
/// is in it (names, order, kinds, numbers, strings, pointers by their address) is what a program is made for: where it
/// differs, the function is captured anew. .input_signature is of the tensors in order.
KILN_API kiln_function *kiln_bundle_jit(kiln_bundle_fn fn, void *user, const kiln_jit_opts *opts);
/// Calls it. *out is a new handle on what it gives, of the caller's scope, or NULL where that is nothing; `out` NULL:
/// it is dropped. The bundle `in` stays as it is, unless the function was made with .in_place and succeeds. Tensors in
/// what it gives, and in what it leaves in `in`, are as those that kiln_call gives.
KILN_API kiln_status kiln_bundle_call(kiln_function *f, kiln_bundle *in, kiln_bundle **out);

/// What a program costs, as far as that is known before it runs. Of a loop whose number of trips is not known one trip
/// counts; of a condition all products, and the bytes of one branch.
typedef struct kiln_cost {
    size_t size KILN_0;        ///< set to sizeof(kiln_cost) by the caller
    uint64_t ops KILN_0;       ///< of the graph, as it was captured
    uint64_t launches KILN_0;  ///< that a run makes
    uint64_t planned_B KILN_0; ///< memory for intermediate values, planned, beside that of results
    uint64_t naive_B KILN_0;   ///< if each had its own
    double flops KILN_0;       ///< of matrix products and convolutions: two for each product that is added
    double moved_B KILN_0;     ///< bytes that launches read and write
    uint64_t kernels KILN_0;   ///< made of its graph; those that single ops have are not counted
} kiln_cost;
/// Captures and compiles f for inputs of these types on the thread's device (kiln_set_device), as a call made here
/// would, and runs nothing: a later kiln_call finds the program. Inputs are dense, apart from each other, and require
/// no gradient. `n_out`: how many outputs f has. `cost`: what the program costs; NULL: nobody asks. Where there is such
/// a program already, no other is made. Errors: those of the capture; KILN_E_ARGUMENT for dimensions that are open;
/// KILN_E_UNSUPPORTED for functions of AUTO and TRACE, which need values, and of bundles.
KILN_API kiln_status kiln_function_compile(kiln_function *f, const kiln_types *types, size_t n_out, kiln_cost *cost);

/// The same of the program that ran last, or was compiled. Errors: KILN_E_STATE where there is none, as there is for
/// functions of AUTO, which are in pieces.
KILN_API kiln_status kiln_function_cost(kiln_function *f, kiln_cost *cost);

/// Frees it and nulls the pointer; NULL is fine. What its calls gave lives on.
KILN_API void kiln_function_free(kiln_function **f);

/// What happened to a function so far.
typedef struct kiln_jit_stats {
    size_t size KILN_0;               ///< set to sizeof(kiln_jit_stats) by the caller
    uint64_t calls KILN_0;            ///< of the function, from outside of captures
    uint64_t captures KILN_0;         ///< times that it was run to be recorded
    uint64_t programs KILN_0;         ///< alive
    uint64_t kernels_compiled KILN_0; ///< for it; not those that were there, in this process or on disk
    uint64_t launches KILN_0;         ///< by its programs
    uint64_t breaks KILN_0;           ///< of graphs, in AUTO
    uint64_t guard_misses KILN_0;     ///< calls that no program there was made for, the first one not counted
    uint64_t evictions KILN_0;        ///< programs dropped to keep the bounds
    uint64_t fallbacks KILN_0;        ///< calls that ran eagerly: after the recompile limit, or with capture disabled
    uint64_t nodes KILN_0;            ///< of the graph captured last
    uint64_t graph_ops KILN_0;        ///< ops that ran as parts of its compiled graphs
    uint64_t single_ops KILN_0;       ///< ops that ran one by one between the graphs of AUTO, fallbacks not counted
    uint64_t reused KILN_0;           ///< captures whose graph was that of an earlier one but for sizes
    uint64_t program_B KILN_0;        ///< memory of the host that its programs hold
} kiln_jit_stats;
KILN_API void kiln_function_stats(const kiln_function *f, kiln_jit_stats *out);

/// A block of code that records as an AUTO function does, without a function of its own:
///
///     KILN_CAPTURE(dev) {
///         kiln_tensor *loss = step(x, y);
///         printf("%g\n", kiln_item(loss));
///     }
///
/// It may be left in any way: at its end, by break, return, goto, an exception or, with the GNU C library, longjmp. Its
/// handles go with it, but for those that kiln_keep or kiln_own took out. Ops on other devices than `dev` run at once;
/// NULL: none do. Inside a capture the block is a part of that capture. What was recorded is kept by the block's place
/// in the source until `dev` is closed.
#define KILN_CAPTURE(dev)                                                          \
    for (kiln_capture_place KILN_NAME_(kiln_place_, __LINE__)                      \
             __attribute__((cleanup(kiln_capture_leave))) = {false, NULL, {NULL}}; \
         !KILN_NAME_(kiln_place_, __LINE__).entered &&                             \
         kiln_capture_enter(&KILN_NAME_(kiln_place_, __LINE__), dev, __FILE__, __LINE__);)
#define KILN_NAME_(a, b)    KILN_NAME_OF_(a, b)
#define KILN_NAME_OF_(a, b) a##b
typedef struct kiln_capture_region kiln_capture_region;
typedef struct kiln_capture_place {
    bool entered;
    kiln_capture_region *region;
    void *reserved[6];
} kiln_capture_place; ///< a region on the stack of the function that it is in
KILN_API bool kiln_capture_enter(kiln_capture_place *p, kiln_device *dev, const char *file, int line); ///< not for NULL
KILN_API void kiln_capture_leave(kiln_capture_place *p); ///< ends its region
/// The same for code that has no such block: a longjmp may not leave it.
KILN_API kiln_capture_region *kiln_capture_begin(kiln_device *dev, const char *file, int line);
KILN_API bool kiln_capture_next(kiln_capture_region *r); ///< true once; false for NULL
/// Ends the region and nulls the pointer; NULL is fine. On another thread, before those that were begun inside it, or
/// in a captured function that was called since, it is an error, and the region stays open. It ends at last with the
/// captured function, the block or the thread that it was begun in.
KILN_API void kiln_capture_end(kiln_capture_region **r);

/// Capture off, on this thread, between begin and end; they nest. Captured functions, cells and blocks of KILN_CAPTURE
/// that are reached there run op by op. In a function that is captured by AUTO, ops in between run at once, and what of
/// the graph they need breaks it. STRICT and TRACE have no values for them to run on: KILN_E_STATE, to be ended all the
/// same; and so is an end without a begin.
KILN_API kiln_status kiln_no_capture_begin(void);
KILN_API void kiln_no_capture_end(void);
/// The same as a block, which may be left as one of KILN_CAPTURE may:
///
///     KILN_NO_CAPTURE {
///         debug(kiln_call(fast, in, 3, &out, 1));
///     }
#define KILN_NO_CAPTURE                                                                \
    for (kiln_no_capture_place KILN_NAME_(kiln_no_capture_, __LINE__)                  \
             __attribute__((cleanup(kiln_no_capture_leave))) = {false, false, {NULL}}; \
         kiln_no_capture_enter(&KILN_NAME_(kiln_no_capture_, __LINE__));)
typedef struct kiln_no_capture_place {
    bool entered, open;
    void *reserved[6];
} kiln_no_capture_place;                                       ///< a block on the stack of the function that it is in
KILN_API bool kiln_no_capture_enter(kiln_no_capture_place *p); ///< true once; not for NULL
KILN_API void kiln_no_capture_leave(kiln_no_capture_place *p); ///< ends its block

/// Writes what was captured and why: each capture with the guard that failed and both values, each program with what
/// its kernels cost. It is a summary; kiln/explain.h has other levels.
KILN_API void kiln_explain(kiln_function *f, FILE *file);

/// Off: captured functions run eagerly from now on, in every thread, as with KILN_JIT=0 in the environment.
KILN_API void kiln_jit_enable(bool on);

/// A number that programs take at run time: any value runs the same program. A scalar tensor that takes the dtype of
/// the other operand within its kind, as kiln_scalar does; differentiable.
KILN_API kiln_tensor *kiln_mutable(double v);
KILN_API kiln_tensor *kiln_mutable_int(int64_t v); ///< an integer: times an i64 tensor it stays i64
KILN_API kiln_tensor *kiln_mutable_bool(bool v);

/// A number that a captured function asks the host for at each of its calls, such as a learning rate: fn(user), in the
/// order in which the function made them; in a region of control flow each time that the region runs. A scalar as
/// kiln_mutable makes it. Outside of captures it is fn(user) as it is now. `user` must outlive the calls.
KILN_API kiln_tensor *kiln_host_number(double (*fn)(void *user), void *user);

/// Whether this thread is running a function to capture it.
KILN_API bool kiln_is_capturing(void);

/// The value that t has, for a captured function to keep: later writes to t are not seen by it.
KILN_API kiln_tensor *kiln_constant(kiln_tensor *t);

/// Makes t state, as running statistics are: a captured function reads it anew at each call, as it does parameters, and
/// may write it. It requires no gradient. Parameters are state already. Errors: KILN_E_GRADIENT for what is no leaf.
KILN_API kiln_status kiln_state(kiln_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
