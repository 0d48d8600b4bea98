// A loader inside: fields and where their samples come from, steps that change samples, and the crew of threads that
// fills a ring of batches.
#pragma once
#include "data/field.h"

#include <pthread.h>

enum { FIELDS_MAX = 64, STEPS_MAX = 64, DEPTH_MAX = 1024, WORKERS_MAX = 256 };

struct cursor {
    uint64_t epoch;
    int64_t position;
};

// A function that makes the rows of several fields.
struct dataset {
    size_t first, n; // fields
    kiln_get_fn get;
    void *user;
    void (*user_free)(void *user);
};

struct step {
    kiln_augment_fn fn;
    void *user;
    void (*user_free)(void *user);
};

struct batch_slot {
    int64_t rows; // 0: the end of an epoch
    uint64_t epoch;
    int64_t *indices;
    unsigned char **data; // one block a field
    int64_t handed;       // rows that workers have taken
    int64_t left;         // rows that are not made yet
    int64_t failed_row;   // the first that failed; -1: none
    struct error_record error;
};

struct worker {
    kiln_loader *loader;
    pthread_t thread;
    unsigned char **scratch; // a field: a row of a function before it is converted
    void **rows;             // of the sample at hand
};

struct kiln_loader {
    kiln_device *dev;
    kiln_loader_opts opts;
    struct field fields[FIELDS_MAX];
    size_t n_fields;
    struct dataset datasets[FIELDS_MAX];
    size_t n_datasets;
    struct step steps[STEPS_MAX];
    size_t n_steps;
    bool calls_user; // some row or step is a function of the user's
    int64_t samples;
    struct cursor state; // what the caller has seen
    bool started;        // fields are fixed, slots are there

    struct batch_slot *slots;
    size_t depth;
    struct cursor filler; // where the next slot begins
    int64_t *order;       // of epoch order_epoch
    uint64_t order_epoch;
    bool order_known;

    struct worker *workers;
    size_t n_workers, n_running; // workers whose threads are there
    bool threaded;
    unsigned generation; // of the process that has the threads
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t first, opened; // slots [first, first + opened) of the ring have their rows chosen
    bool opening;         // by one of the workers, outside of the lock
    bool failed, stop;
};

// sample.c: row i of a slot, with conversion and steps. An error names the sample.
kiln_status sample_make(const kiln_loader *l, struct worker *w, struct batch_slot *s, int64_t i);

// crew.c. Memory for slots and workers; false where there is none.
bool crew_create(kiln_loader *l);
void crew_free(kiln_loader *l);
// Stops the threads.
void crew_stop(kiln_loader *l);
// Forgets what was prepared; the next call begins at the state.
void crew_rewind(kiln_loader *l);
// The oldest slot, filled; after a failure what was prepared is forgotten.
kiln_status crew_wait(kiln_loader *l, struct batch_slot **out);
void crew_release(kiln_loader *l);
void crew_advance(struct cursor *c, int64_t rows);

// loader.c: what adds to a loader that has not begun. The new fields and steps take over `user` where they succeed.
kiln_status loader_check(const char *function, const kiln_loader *l);
kiln_status loader_add_dataset(const char *function, kiln_loader *l, int64_t count, size_t n,
                               const kiln_field_spec *const *fields, const struct dataset *d);
kiln_status loader_add_step(const char *function, kiln_loader *l, const struct step *s);
