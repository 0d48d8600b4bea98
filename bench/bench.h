// kiln-bench, inside: the table of cases, how they are measured, what becomes of the figures.
#pragma once
#include <kiln/kiln.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// The sizes of all cases; --size small fits CPUs, large GPUs, tiny is for counts and values instead of times. The
// letters are those of peers/torch_rows.py.
struct sizes {
    int64_t n;                                    // elements of a vector
    int64_t r, c;                                 // rows and columns of a matrix
    int64_t g;                                    // side of a product
    int64_t b;                                    // images of the convolution
    int64_t s, h, d, qb;                          // attention: sequence, heads, width of a head, batch
    int64_t bl, bm;                               // batches of the two networks
    int64_t vocab, dm, heads, layers, seq, batch; // the language model
    int64_t lstm_length, lstm_batch, lstm_units;
};

// What a row may be compared with: the best that memory can do over the row's bytes, or arithmetic over its flops.
// Or what launches take.
enum ceiling {
    CEILING_NONE,
    CEILING_READ,
    CEILING_COPY,
    CEILING_TRIAD,
    CEILING_FMA, // of a case: of its dtype
    CEILING_FMA_F64,
    CEILING_FMA_BF16,
    CEILING_FMA_F16,
    CEILING_LAUNCH
};
const char *ceiling_name(enum ceiling c);
struct bench_case;
enum ceiling ceiling_of(const struct bench_case *c);

// A case while it is measured.
enum { STATE_INPUTS = 4, STATE_OUTPUTS = 4, CASE_SIZES = 7 };
struct state {
    kiln_device *dev;
    const struct sizes *z;
    kiln_tensor *in[STATE_INPUTS]; // owned
    struct trainer *net;           // steps of training: nets.c
    double flops, bytes;           // of one call; 0: not stated
    const struct bench_case *c;
    kiln_function *function; // the case captured; NULL: it is called as it is
};

// One call with inputs, STATE_INPUTS of them, NULL behind the last; fills out. Runs in a scope, and captured.
typedef kiln_status run_fn(struct state *s, kiln_tensor *const *in, kiln_tensor **out);

struct bench_case {
    const char *group, *name;
    kiln_status (*setup)(struct state *s); // fills in, flops, bytes; runs in a scope
    run_fn *run;
    enum ceiling ceiling;
    int ops;          // ops a call, where their cost to the calling thread is asked for; else 0
    int outs;         // 0: 1
    int wrt;          // run_gradients: of so many inputs, which come first
    run_fn *forward;  // run_gradients: what is differentiated
    kiln_dtype dtype; // of inputs, and of the products of CEILING_FMA; 0: f32
    int transposed;   // products: bit i: operand i is stored so
    int64_t sizes[CASE_SIZES], tiny[CASE_SIZES]; // of the set-up: see case_sizes
};
extern const struct bench_case bench_cases[];
extern const int bench_case_count;
const struct bench_case *case_of(const char *name); // NULL: there is none
const struct sizes *bench_sizes(const char *name);  // NULL: there are none of that name

// How a case is called.
enum mode { MODE_EAGER, MODE_JIT, MODE_AUTO, MODE_COUNT };
const char *mode_name(enum mode m);

// modes.c
kiln_status state_begin(struct state *s, kiln_device *dev, const struct sizes *z, const struct bench_case *c,
                        enum mode mode); // sets up; state_finish also after a failure
void state_finish(struct state *s);
kiln_status state_call(struct state *s, kiln_tensor **out); // in the scope that is open; STATE_OUTPUTS of them
int state_outs(const struct state *s);
// Where the case captured so does not give what the eager one gives, says in *error by how much. Device errors stay
// pending.
void check_values(kiln_device *dev, const struct sizes *z, const struct bench_case *c, enum mode mode, char *error,
                  size_t size);

// The functions of the cases.
#define CASE(group, name, setup, run, ...) \
    kiln_status setup(struct state *s);    \
    kiln_status run(struct state *s, kiln_tensor *const *in, kiln_tensor **out);
#include "cases.def"
#undef CASE
run_fn run_gelu, run_layer_norm_affine, run_batch_norm, run_embedding;

// cases.c
void own_input(struct state *s, int i, kiln_tensor *t);
void random_input(struct state *s, int i, size_t rank, const int64_t *dims);
void random_input_of(struct state *s, int i, kiln_dtype dtype, size_t rank, const int64_t *dims);
size_t count_inputs(const struct state *s);
kiln_dtype case_dtype(const struct state *s);
const int64_t *case_sizes(const struct state *s); // those of the case that --size asks for
bool is_group(const char *name);

// gradient.c
void own_sensitivity(struct state *s); // one more input: a gradient of what c->forward gives

// nets.c
struct trainer {
    kiln_cell *net;
    kiln_optim *opt;
    int64_t classes;           // logits become [rows, classes]
    const struct model *model; // decode: net's
};
// Takes over the cell, also where it fails.
kiln_status make_trainer(struct state *s, kiln_cell *net, int64_t classes, bool adam);
void random_labels(struct state *s, int64_t count, int64_t classes);
kiln_status setup_small_net(struct state *s);
kiln_status setup_deep(struct state *s); // sizes[0] parameters
void trainer_free(struct trainer **t);

// unrolled.c: of sizes[0] steps
kiln_status setup_unrolled(struct state *s), run_unrolled(struct state *s, kiln_tensor *const *in, kiln_tensor **out);

// Which keys a query sees: [length, length], lower triangle true.
kiln_tensor *causal_mask(kiln_device *dev, int64_t length);
// softmax(q k^T / sqrt(d)) v of [..., S, D]; mask may be NULL.
kiln_tensor *attention(kiln_tensor *q, kiln_tensor *k, kiln_tensor *v, kiln_tensor *mask);

// What a row holds; figures of one call, NaN where there are none.
struct row {
    char name[48], mode[16], error[256];
    const char *group; // NULL: a row about the process
    double time_ns, min_ns, p90_ns, first_ns;
    double most_ns; // shapes.c: of all; else NaN
    int runs;
    double bytes, flops;
    double launches, submits, waits;
    double idle_waits, wasted_launches; // of a call by itself
    double kernels;                     // of a program: made of its graph
    double moved_B;                     // by a call, read and written
    double growth_B;                    // growth.c; else NaN
    double slower;                      // captured: its time over the eager one's, where that is marked; else NaN
    double cpu_ns;                      // of the calling thread, an op or, captured, a launch
    double driver_ns;                   // first_call on Vulkan: of the time, what the driver took to create pipelines
    enum ceiling ceiling;
    double ceiling_ns; // what the ceiling would take for the row's bytes
    double extra[6];   // memory rows: see memory.c
    bool has_extra;
};

struct plan {
    const char *device, *filter, *group, *size;
    bool memory, growth;
    bool modes[MODE_COUNT];
    double budget_s; // of timed runs, a row
};

// A document of another run.
enum { MOST_BESIDE = 16 };
struct beside {
    const char *path;
    struct json *document; // owned
};

struct report {
    struct beside beside[MOST_BESIDE];
    int n_beside;
    char device[192], driver[192];
    const char *size;
    unsigned threads;
    struct row *rows;
    int n_rows, cap_rows;
};
struct row *report_add(struct report *r, const char *name, const char *mode); // NULL when memory is out
void report_free(struct report *r);
double row_share(const struct row *r); // of its ceiling; NaN without one
bool beside_load(struct report *r);    // false: told on stderr
void beside_free(struct report *r);

// measure.c
double now_ns(void);
void measure_case(const struct plan *p, kiln_device *dev, const struct bench_case *c, enum mode mode, struct row *out);
// Where a row took longer captured than the eager one, and does so too when both run in turns: fills in `slower`.
void mark_slower(const struct plan *p, kiln_device *dev, const struct bench_case *c, enum mode mode,
                 const struct row *eager, struct row *r);

// moved.c: the bytes that launches of a call read and write; NaN where no profile can be taken.
double moved_by_call(struct state *s);

// ceiling.c: the time of the best pass of that kind over so many bytes, of CEILING_FMA and its kin so many operations,
// of CEILING_LAUNCH so many launches; NaN when it cannot be had.
double ceiling_ns(kiln_device *dev, enum ceiling c, double amount);
void ceiling_forget(void);

// Rows that measure more than calls. `kind` is the row's own.
typedef void process_fn(const struct plan *p, kiln_device *dev, int kind, struct row *out);
struct process_row {
    const char *name, *mode;
    process_fn *measure;
    int kind;
    enum mode needs;            // of --modes
    bool cpu_alone, on_request; // on_request: by --memory
};
extern const struct process_row process_rows[];
extern const int process_row_count;

// process.c
process_fn measure_cold_start, measure_memory;
int cold_child(void);
// first.c: first calls of captured functions in new processes, from kiln_call to the values.
enum first_kind { FIRST_CHAIN, FIRST_RNN, FIRST_1000, FIRST_4000, FIRST_KINDS, FIRST_WARM = FIRST_KINDS };
process_fn measure_first_call; // kind: one of them, + FIRST_WARM: with what the run before left on disk
int first_call_child(const char *device, const char *name);
// From the start of a process to the loss of its first step of gpt_step, with what the run before left on disk.
process_fn measure_warm_gpt;
int warm_gpt_child(const struct plan *p);
struct first_call {
    double time_ns, driver_ns;
};
// This program again, with a cache folder of its own unless that is NULL: what it tells, and the time from fork until
// it is told. False when it told nothing, or failed.
bool run_child(const char *const *arguments, const char *cache, void *told, size_t told_B, double *time_ns);
void sort_times(double *times, int n);
void take_times(struct row *out, double *times, int n); // sorts them
// growth.c: memory instead of times; the filter of the child is the name of the row
void measure_growth(const struct plan *p, const struct bench_case *c, enum mode m, struct row *out);
int growth_child(const struct plan *p, const char *mode);
// files.c: reading a file of graphs with 100 MB of weights.
process_fn measure_import;
// busy.c: mlp_step while two other processes want each processor.
process_fn measure_busy;
// shapes.c: the first call with a new size beyond later ones: of softmax of rows, of a step of gpt_step's network, of a
// residual network of images.
enum shape_row { SHAPES_ROWS, SHAPES_TRAINING, SHAPES_IMAGES, SHAPES_COUNT };
process_fn measure_shapes;
extern const char *const memory_keys[6];

// write.c
void write_row(const struct row *r, FILE *f); // one line of text
void write_json(const struct report *r, FILE *f);
void write_json_string(const char *s, FILE *f);

// page.c
void write_html(const struct report *r, FILE *f);
void write_roofline(const struct report *r, FILE *f); // roofline.c
void write_beside(const struct report *r, FILE *f);   // beside.c
void write_escaped(const char *s, FILE *f);
void write_cell(double v, double scale, const char *unit, FILE *f);

// compare.c: prints ratios, peer time over ours. 0, or 1 after a message on stderr.
int compare(const char *peer_path, const char *own_path, FILE *f);
