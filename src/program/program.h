// A program: a graph compiled for one device and one set of layouts. Running it again allocates nothing from the system
// and checks nothing: whoever calls it has compared the inputs with what it was made for.
#pragma once
#include "base/rng.h"
#include "base/str.h"
#include "device/device.h"
#include "ir/graph.h"
#include "tensor/tensor.h"

struct program;
struct kernel_count;  // see kernels.h
struct program_forms; // see forms.h

// The program is the body of a loop whose count the host knows before it begins. Its first inputs are what the loop
// carries; the last but one are memory for the results, of what is carried first; the last one is how many trips a run
// makes, which counts where one kernel can make them all.
struct program_trips {
    int n_carried, first_result, number, count; // inputs
    const int64_t *step_B;                      // by input: from trip to trip
    int64_t most;                               // trips
};

struct program_options {
    bool no_fusion;   // one kernel an op, as eager mode would run it
    bool no_passes;   // the graph as it is
    bool reference;   // on the CPU: fused kernels are interpreted point by point, for tests
    bool round_casts; // round every intermediate value to its dtype, as eager mode does when it stores it
    bool background;  // compile kernels on other threads; until they are ready single ops run in their place
    const char *name; // of the function, for dumps and messages
    // By input: whether it is a number, a handle without memory, which kernels get as an argument. NULL: weak inputs
    // are.
    const bool *numbers;
    // By result: it must be row-major, from the beginning of its storage. NULL: none must.
    const bool *dense;
    // By input: the first input (or itself) that shares its storage; -1 - i where it shares that of constant i. NULL:
    // unknown, so that what is written back is copied at the end.
    const int32_t *aliases;
    // By input: the caller gives it away with the call, so that other things may come to lie there (program_run). NULL:
    // none.
    const bool *given;
    // What is written back part by part is changed where it lies, and at any time: nobody has it after a run that
    // fails.
    bool in_place;
    const struct program_trips *trips; // NULL: a run is one trip, or no body of a loop
    struct program_forms *forms;       // what is known of graphs that differ in sizes; NULL: nothing
    struct str *picture;               // no program is made, but a drawing of its plan appended; NULL: one is
    struct kernel_count *count;        // of kernels that are compiled for it; NULL: nobody asks
};

// Inputs are the graph's IR_INPUT values in order. `layouts`: of each input, NULL for row-major; a run's inputs must
// have the same strides, at any offset. A constant's `held` is a kiln_tensor, of which the program keeps the storage.
// The graph is not kept.
typedef kiln_status program_create_fn(const struct kiln_graph *g, kiln_device *dev, const struct layout *const *layouts,
                                      const struct program_options *options, struct program **out);
program_create_fn program_create;
void program_destroy(struct program **p); // what launches in flight use stays until they are done

// `rng`: the piece of the device's random stream that the run draws from. A random node of the graph has RNG_OF_RUN for
// its seed and counts its offset from 0; the caller reserves of the stream, before a run, what its draws take.
//
// `in`: one tensor an input; `out`: a new handle (of the scope that is open) for each output without a target. Outputs
// with a target write into that input's, or constant's, storage and raise its version, in order. On an error nothing of
// `out` is set; a write may have been done, unless program_writes_last.
//
// An input that is given away is written over only where its handle alone has the storage, and all of it. No index or
// number that is wrong is found after that has begun; whatever else then ends the run leaves the storage marked
// `spent`.
kiln_status program_run(struct program *p, kiln_tensor *const *in, const struct rng *rng, kiln_tensor **out);

// Whether a run that an index ends has written nothing.
bool program_writes_last(const struct program *p);

struct program_facts {
    int n_launches;            // that a run makes
    int n_nodes, n_fused;      // of the graph; how many ended in a kernel with others
    int n_kernels;             // that were compiled for it or shared with others; those of the catalogue not counted
    uint64_t arena_B, naive_B; // memory for intermediate values, planned, and if each had its own
    uint64_t host_B;           // that it holds on the host while it does not run, those of regions included
    uint64_t compile_ns;
    double flops, moved_B; // of a run, see cost.h
    bool reused;           // a graph that differs in sizes alone was compiled before, with the same .forms
};
void program_get_facts(const struct program *p, struct program_facts *out);
double program_flops(const struct program *p); // of a run, by its launches; 0: not known of one of them
// What runs: a line of counts, then kernel by kernel, and why neighbours were not fused.
void program_explain(const struct program *p, struct str *out);
void str_add_html(struct str *s, const char *text); // with what HTML means otherwise written out
// The same with a line for all launches of one name and types, with what they move and compute, most bytes first.
void program_summary(const struct program *p, struct str *out);
