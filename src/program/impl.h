// A program, inside: what program.c makes and run.c runs.
#pragma once
#include "program/kernels.h"
#include "program/program.h"
#include "fuse/fuse.h"

// Where a buffer lies.
enum place_kind {
    PLACE_NONE,     // only inside kernels
    PLACE_INPUT,    // `index`: of the input
    PLACE_CONSTANT, // in the storage
    PLACE_OUTPUT,   // in a storage that a run gets; `index` counts them
    PLACE_ARENA,    // at offset_B
};
struct place {
    uint8_t kind;
    int32_t index;
    uint64_t offset_B;
    struct storage *storage; // CONSTANT, held
};

struct action_operand {
    int32_t buffer;
    int64_t at_B;       // of point 0, from the buffer's beginning
    int64_t lo_B, hi_B; // touched, relative to point 0
    bool write;
};

struct launch_after;
struct program_host;
struct program_region;
struct program_call;
struct program_maker;

// One launch: a compiled kernel, a table of kernels of one family, or a kernel of the catalogue. Or a node with
// regions.
struct action {
    struct program_region *region; // NULL: a launch, or
    struct program_host *host;     // a call of the host; NULL: a launch
    struct jit_launch *compiled;   // NULL: `plain`
    int n_entries;                 // of the table: so many launches and fused kernels follow each other; else 1
    struct launch *plain;          // addresses are bytes within the operands' buffers
    bool random; // plain: scalars 0 and 1 are the seed and the offset in the run's piece of the stream
    const struct fused_kernel **fused; // one an entry; NULL: plain
    struct action_operand *operands;   // compiled: accesses
    int n_operands;                    // of an entry; the operands of all entries follow each other
    uint64_t workspace_at_B;           // in the arena
    struct launch_facts *facts;        // of the launch; NULL: none
    struct launch_after *after;        // plain: the next action, which is made along with it; NULL: nothing
    const char *why;                   // it was not fused with what it reads or feeds; NULL: nothing to fuse it with
};

// A storage that a run gets: a new one, or that of an input which was given away.
struct program_fresh {
    uint64_t size_B;
    int32_t over; // the input; -1: always a new one
};

struct program_output {
    int32_t value;
    int32_t place; // buffer; -1: a number
    int32_t input; // that brings the number; -1: it is known
    struct type type;
    struct layout layout;
    double number;
    int64_t integer;
};

// A temporary between zones, where KILN_DEBUG=redzones is on.
struct program_zone {
    uint64_t at_B, size_B, behind_B; // in the arena; the zone before it is REDZONE_B
    int32_t first, last;             // actions that use it
};

struct background;
struct program_records;
struct program {
    struct program_records *records; // what was recorded of it; NULL: nothing yet, or never
    atomic_flag records_busy;        // a thread has it
    struct background *background;   // a better program is made meanwhile, or has been; NULL: none
    kiln_device *dev;                // held
    struct arena arena;
    struct arena schedule; // the kernels
    char *name;
    int n_inputs, n_buffers, n_actions, n_outputs, n_targets, n_fresh;
    struct place *places;
    struct action *actions;
    struct program_output *outputs;
    int32_t *targets; // buffers that a run writes back
    struct program_fresh *fresh;
    int32_t first_over; // the action before which all that was given away is as it was; -1: it stays
    uint64_t arena_B, zeroed_B;
    struct storage *zeroed;     // workspaces that must be zero and are left so
    struct program_zone *zones; // NULL: none
    int n_zones;
    bool reference;
    int64_t trips_at_once; // that a run of a loop's body makes, at most; 0: it makes one
    bool writes_last;      // a run that fails has written nothing that the caller has
    struct program_facts facts;
    double read_B, written_B, launch_flops; // of a run, by its launches but those of regions; 0: not known
    const char
        *host_decides;  // why the device cannot decide whether its launches run; "" where it never can; NULL: it can
    int64_t n_gateable; // launches that it would decide about
    struct jit_kernel **kernels; // held
    int n_kernels;
    char *explanation;
};

// background.c
kiln_status background_start(struct program *p, const struct kiln_graph *g, const struct layout *const *layouts,
                             const struct program_options *o, program_create_fn *create);
struct program *background_better(const struct program *p); // NULL: not yet, or never
struct program *background_end(struct program *p);          // waits; the better one is the caller's now

// order.c
bool graph_can_fail(const struct kiln_graph *g, const struct device_caps *caps); // by an index, as it runs
bool order_can_fail(const struct units *u, const struct fuse_step *s);           // the same of a step, on some device
kiln_status order_writes_last(const struct units *u, struct fuse_schedule *s, bool *done);

// records.c
void records_destroy(struct program *p);
void records_explain(struct program *p, struct str *out);

// zones.c: of the temporaries that action i is the first or the last to use.
void zones_lay(const struct program *p, int i, uint64_t arena);
void zones_check(const struct program *p, int i, uint64_t arena);

// ahead.c: compiles the kernels of these steps on several threads. What fails is tried again by whoever needs
// it.
void compile_ahead(kiln_device *dev, const struct fuse_step *steps, size_t n, struct kernel_count *count,
                   struct jit_kernel **out);
