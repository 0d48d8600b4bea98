// Random programs over the public interface: drawn from a seed, run eagerly and captured, compared, cut down, printed.
//
// A program is data. Its sources are views of a few base tensors, parameters, constants and numbers; its steps pick
// their operands among the sources and the values before them. A step decides by shapes and dtypes alone what it does
// with them, and what it cannot do, it leaves: so it means something for any operands, and can be dropped, which makes
// its value that of its first operand.
#pragma once
#include <kiln/kiln.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BASES = 5,   // base tensors: two of floats, one of integers or bools; of the constants: floats, integers
    FIXED = 3,   // the first base that nothing writes
    SOURCES = 9, // at most
    STEPS = 16,  // at most
    VALUES = SOURCES + STEPS,
    RESULTS = 3, // at most
    CALLS = 4,   // at most
    SIZES = 4,   // dimensions that sources share
    DEEP = 9,    // of a deep program: dimensions of 2, among 1
    MAX_SOURCE_RANK = KILN_MAX_RANK,
    GUARD = 8,  // elements around every view of a base
    ROOM = 240, // elements of a source, at most
    BASE_SIZE = 2 * GUARD + 4 * ROOM,
    LARGEST = 600, // elements of a value, at most
};

// Complex ones too.
static inline bool is_floating(kiln_dtype dtype)
{
    return dtype >= KILN_F16 && !(dtype >= KILN_U16 && dtype <= KILN_U64);
}

struct rng {
    uint64_t state;
};

uint32_t rng_next(struct rng *r);
uint32_t rng_below(struct rng *r, uint32_t n);
bool rng_chance(struct rng *r, uint32_t percent);

// --- programs

enum source_kind {
    SOURCE_INPUT,
    SOURCE_STATE,
    SOURCE_PARAMETER,
    SOURCE_CONSTANT,
    SOURCE_NUMBER,  // an input: a number that programs may take for a constant
    SOURCE_MUTABLE, // an input: one that they may not
    SOURCE_HOST,    // asked of the host at each call
};

// How a view lies in its base.
enum form { FORM_PLAIN, FORM_TRANSPOSED, FORM_STEPPED, FORM_FLIPPED, FORM_GAPS, FORM_REPEATED, FORMS };

struct place {
    enum form form;
    int64_t offset;
};

struct source {
    enum source_kind kind;
    int base;
    int rank;
    uint8_t size[MAX_SOURCE_RANK]; // numbers of the program's sizes; SIZES is 1, SIZES + 1 is 2
    int same_as;                   // the very handle of an earlier source; -1: its own
    bool leaf;                     // an input that requires a gradient
    int beside;                    // an input in the memory of this leaf, an earlier source; -1: not
    int stopped;                   // an input: kiln_stop_gradient of this state, an earlier source; -1: not
    bool given;                    // an input in memory of its own, which captured functions are given away
    struct place at[CALLS];
};

struct step {
    uint16_t kind;
    uint8_t a, b, c;
    uint32_t choice;
    bool dropped;
};

enum gradient {
    GRADIENT_NONE,
    GRADIENT_OUTSIDE, // backward through the call
    GRADIENT_TWICE,   // and through that backward
    GRADIENT_INSIDE,  // kiln_backward in the function
    GRADIENT_OF,      // the function is kiln_value_and_grad of the steps
    GRADIENT_SECOND,  // and the gradient of that
    GRADIENTS,
};

// What happens before a call.
enum event {
    EVENT_NONE,
    EVENT_RULE,    // a rule of the user's replaces one of the library's, until the end of the run
    EVENT_NO_GRAD, // the call records no tape
    EVENT_FREEZE,  // parameters require no gradient from now on
    EVENT_THAW,    // they do again
    EVENT_UPDATE,  // parameters are written from outside
    EVENT_HISTORY, // states are written with a gradient
    EVENTS,
};

struct program {
    uint64_t seed;
    int n_sources, n_steps, n_results, n_calls;
    kiln_dtype dtype[BASES];
    int values; // a way to draw what bases hold
    int64_t size[CALLS][SIZES];
    struct source source[SOURCES];
    struct step step[STEPS];
    int result[RESULTS];
    enum gradient gradient;
    bool deep;    // sources have more dimensions than a fused kernel
    bool even;    // gradients of results are the same for all elements
    bool touches; // results are written after each call
    bool reads;   // the host reads values and decides by them
    int breaks;   // the step before which the last call fails; -1: none
    bool learns;  // calls of the host are made by captures as well
    bool asks;    // GRADIENT_INSIDE by kiln_gradients
    kiln_level level;
    bool eager_rounding, deterministic, verified; // captures
    int most;                                     // ops of a segment of AUTO; 0: as many as there may be
    enum event event[CALLS];
    uint8_t rewritten[CALLS]; // bit i: base i holds other values at this call
    bool fresh[CALLS];        // and bases without state are other tensors
};

void draw_program(struct program *p, uint64_t seed);
// Whether a value may lie in a constant's memory, which nothing writes.
bool may_show_constant(const struct program *p, int value);
// Whether it may show an element twice, so that eager mode does not let it be written.
bool may_repeat(const struct program *p, int value);

// --- steps

struct run;

struct operands {
    kiln_tensor *a, *b, *c;
    const char *na, *nb, *nc;
    struct rng choice; // of the step: what it draws depends on its operands' shapes and dtypes alone
    struct run *run;
};

enum step_flags {
    STEP_SHOWS = 1,  // its value may lie in its operand's memory
    STEP_ADDS = 2,   // the order of additions within it is free
    STEP_READS = 4,  // needs values on the host
    STEP_WRITES = 8, // into the memory of its first operand
    STEP_FLOWS = 16, // by conditions or loops
};

struct step_kind {
    const char *name;
    kiln_tensor *(*fn)(struct operands *o); // NULL without an error: it means nothing here
    int weight;
    int flags;
};

extern const struct step_kind step_kinds[];
extern const int n_step_kinds;

// Notes what a step does, for the text of a program.
void say(struct operands *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint32_t choose(struct operands *o, uint32_t n);
int64_t choose_axis(struct operands *o, kiln_tensor *t);
// Whether t has more dimensions than a step is for, outside of deep programs.
bool too_deep(struct operands *o, kiln_tensor *t, size_t most);
bool is_float(kiln_tensor *t);
bool is_bool(kiln_tensor *t);
bool is_integer(kiln_tensor *t);
bool same_shape(kiln_tensor *a, kiln_tensor *b);
bool broadcasts(kiln_tensor *a, kiln_tensor *b, bool into_a);
// The dtype that a run has in place of another: f64 for every float in a wide one.
kiln_dtype dtype_of_run(const struct run *run, kiln_dtype dtype);
// Numbers of a few values, of a shape and the first operand's dtype.
kiln_tensor *pattern(struct operands *o, int period, size_t rank, const int64_t *dims);
// In a noisy run t moved by some units of the last place; in others t itself.
kiln_tensor *with_noise(struct run *run, kiln_tensor *t);
kiln_tensor *with_noise_of_one(struct run *run, kiln_tensor *t);
double noise_of(const struct run *run, kiln_tensor *t); // how far that is, of a number around 1
bool noise_tosses(struct run *run);                     // false, but in half of what noisy runs ask
// What the step's second operand would be: itself where it can be broadcast with the first, else a number.
kiln_tensor *fit(struct operands *o, const char **name);
// An i64 tensor with values in [0, size), made in one of several ways. NULL: size is 0.
kiln_tensor *make_index(struct operands *o, size_t rank, const int64_t *dims, int64_t size);

#define STEP(name, weight, flags) kiln_tensor *step_##name(struct operands *o);
#include "steps.def"
#undef STEP

// Calls of the host, which the trace keeps with what they are given, in order.
enum { HOST_IN_REGION = STEPS, HOST_BREAKS, HOST_SITES };
kiln_tensor *host_halves(struct run *run, int site, kiln_tensor *x); // with a gradient
void host_tells(struct run *run, int site, kiln_tensor *x);          // a print and an assertion that holds
kiln_status host_breaks(struct run *run);                            // fails at the last call
#define HOST_BROKEN KILN_E_IO

// --- runs

enum way {
    WAY_EAGER,
    WAY_NOISY, // eagerly, each value moved by a few units of its last place
    WAY_WIDE,  // eagerly, every float in f64
    WAY_STRICT,
    WAY_TRACE,
    WAY_AUTO,
    WAY_REGION,
    WAY_CELL,   // in graph mode
    WAY_NESTED, // a STRICT function that calls an AUTO one
    WAY_MIXED,  // calls in turn by a STRICT and by an AUTO function
    WAY_BUNDLE, // a STRICT function of bundles
    WAY_MODEL,  // a STRICT function, as texts that are read again
    WAYS,
};

extern const char *const way_names[WAYS];

// What a run left: results, gradients, and all memory, call by call.
struct entry {
    char name[32];
    int call;
    kiln_dtype dtype;
    int64_t dims[KILN_MAX_RANK];
    int rank;
    int64_t n;
    double *v;
};

struct trace {
    struct entry *entry;
    size_t n, room;
    int call;
    kiln_status status; // of what failed
    char message[400];
    int failed_step;   // -1: outside of steps
    bool whole;        // a gradient went through integers
    bool overflows;    // among conditions and loops something is infinite or no number
    kiln_dtype halves; // the one that a step gave, which a capture may keep unrounded; KILN_BOOL: none did
};

void trace_add(struct trace *t, const char *name, kiln_tensor *tensor);
void trace_add_number(struct trace *t, const char *name, double v);
void trace_free(struct trace *t);

struct run {
    const struct program *p;
    enum way way;
    kiln_device *dev;
    struct rng noise;
    bool noisy;
    FILE *text; // NULL: nothing is printed
    char said[256];
    struct trace *trace;
    int call;
    int step;
    double heard; // what the host has read
    FILE *out;    // in place of stdout
    char *printed;
    size_t n_printed;
    kiln_tensor *base[BASES];
    kiln_tensor *source[SOURCES]; // of this call
    kiln_tensor *leaf_base[SOURCES];
    kiln_function *function, *inner;
    kiln_cell *cell;
    bool left[STEPS]; // what meant nothing
};

// Runs all calls of a program in one way. What it left is in *trace, which the caller frees; `noise` numbers the noise.
void run_program(const struct program *p, enum way way, kiln_device *dev, uint32_t noise, FILE *text,
                 struct trace *trace);
// Steps of the programs so far that did something, by kind, and that failed.
extern uint64_t steps_done[], steps_failed[];

// --- comparing and cutting down

struct finding {
    bool found;
    bool refused; // what the documentation says that a capture cannot do
    enum way way;
    int call;
    char what[600];
};

struct harness {
    kiln_device *cpu, *dev;
    uint32_t ways; // bit i: way i
    bool tells_refusals;
    uint64_t programs, skipped, by_gradient[GRADIENTS], by_way[WAYS], refused[WAYS];
};

// Drops the steps that eager mode refuses; false where nothing is left to run.
bool settle(struct harness *h, struct program *p);
struct finding check_program(struct harness *h, struct program *p);
void shrink_program(struct harness *h, struct program *p, enum way way);
void print_program(struct harness *h, const struct program *p, FILE *f);
