// The loader: a ring of host batches between a thread that fills them and the caller.
//
// The filler walks through epochs with a cursor of its own and puts, in order, every batch of an epoch and then an
// empty batch that marks its end. The caller takes them in the same order, makes tensors of them and moves the state.
// Filler and caller share the ring's counters under one lock; a slot belongs to the filler while it is free and to
// the caller while it is filled. After a failure the filler stops; the caller raises the error and starts anew from
// its own state at the next call. Without a thread the caller fills the single slot itself.
#include "base/process.h"
#include "data/field.h"
#include "base/handles.h"
#include "base/options.h"
#include "data/order.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS_MAX = 64, DEPTH_MAX = 1024 };

struct cursor {
    uint64_t epoch;
    int64_t position;
};

struct slot {
    int64_t rows;         // 0: the end of an epoch
    unsigned char **data; // one block a field
    struct error_record error;
};

struct kiln_loader {
    kiln_device *dev;
    kiln_loader_opts opts;
    struct field fields[FIELDS_MAX];
    size_t n_fields;
    int64_t samples;
    struct cursor state; // what the caller has seen
    bool started;        // fields are fixed, slots are there

    struct slot *slots;
    size_t depth;
    struct cursor filler;
    int64_t *order; // of epoch order_epoch
    uint64_t order_epoch;
    bool order_known;

    bool threaded, running;
    unsigned generation; // of the process that has the thread
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t first, filled; // slots [first, first + filled) of the ring belong to the caller
    bool stop;
};

// --- filling

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// The size of the batch at a position; 0 at the end of the epoch.
static int64_t rows_at(const kiln_loader *l, int64_t position)
{
    int64_t left = l->samples - position;
    if (l->opts.drop_last && left < l->opts.batch) return 0;
    return min_i64(left, l->opts.batch);
}

static void advance(const kiln_loader *l, struct cursor *c, int64_t rows)
{
    c->position += rows;
    if (rows == 0) *c = (struct cursor){.epoch = c->epoch + 1};
}

static void prepare_order(kiln_loader *l)
{
    if (!l->opts.shuffle || (l->order_known && l->order_epoch == l->filler.epoch)) return;
    order_shuffle(l->order, l->samples, l->opts.seed, l->filler.epoch);
    l->order_epoch = l->filler.epoch;
    l->order_known = true;
}

static kiln_status fill_rows(kiln_loader *l, struct slot *s)
{
    s->rows = rows_at(l, l->filler.position);
    if (s->rows) prepare_order(l);
    for (int64_t i = 0; i < s->rows; i++) {
        int64_t at = l->filler.position + i, index = l->opts.shuffle ? l->order[at] : at;
        for (size_t k = 0; k < l->n_fields; k++) {
            const struct field *f = &l->fields[k];
            TRY(field_row(f, k, index, s->data[k] + (size_t)i * field_out_row_B(f)));
        }
    }
    advance(l, &l->filler, s->rows);
    return KILN_OK;
}

static bool wait_for_room(kiln_loader *l)
{
    pthread_mutex_lock(&l->lock);
    while (!l->stop && l->filled == l->depth) pthread_cond_wait(&l->changed, &l->lock);
    bool go = !l->stop;
    pthread_mutex_unlock(&l->lock);
    return go;
}

static void *fill_until_stopped(void *user)
{
    kiln_loader *l = user;
    for (bool failed = false; !failed && wait_for_room(l);) {
        // The place stays free: only this thread adds to `filled`, and a slot that the caller gives back moves `first`
        // up as it takes one from `filled`.
        pthread_mutex_lock(&l->lock);
        struct slot *s = &l->slots[(l->first + l->filled) % l->depth];
        pthread_mutex_unlock(&l->lock);
        failed = fill_rows(l, s) != KILN_OK;
        error_capture(&s->error);
        pthread_mutex_lock(&l->lock);
        l->filled++;
        pthread_cond_signal(&l->changed);
        pthread_mutex_unlock(&l->lock);
    }
    return NULL;
}

// In a child the thread is the parent's, whatever it was doing.
static bool lost_its_thread(const kiln_loader *l)
{
    return l->running && l->generation != process_generation();
}

static void stop_thread(kiln_loader *l)
{
    if (lost_its_thread(l)) {
        pthread_mutex_init(&l->lock, NULL);
        pthread_cond_init(&l->changed, NULL);
        l->order_known = l->running = false;
    }
    if (!l->running) return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    l->running = false;
}

// Forgets what was prepared; the next call begins at the state.
static void rewind_filler(kiln_loader *l)
{
    stop_thread(l);
    l->filler = l->state;
    l->first = l->filled = 0;
    l->stop = false;
}

// Signals stay with the threads of the program. Without a thread the caller fills, with the same result.
static void start_thread(kiln_loader *l)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    l->generation = process_generation();
    l->running = pthread_create(&l->thread, NULL, fill_until_stopped, l) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

// --- life

static kiln_status check(const char *function, const kiln_loader *l)
{
    if (error_pending) return error_pending;
    return handle_check(function, "the loader", HANDLE_LOADER, l);
}

// A free place for a field, once it is known to fit the others.
static kiln_status new_field(const char *function, kiln_loader *l, kiln_dtype dtype, size_t rank, const int64_t *dims,
                             struct field **out)
{
    if (l->started) return error_set(KILN_E_STATE, "%s: the loader has given batches", function);
    if (l->n_fields == FIELDS_MAX) return error_set(KILN_E_ARGUMENT, "%s: more than %d fields", function, FIELDS_MAX);
    if (rank && !dims) return error_set(KILN_E_ARGUMENT, "%s: dims is NULL", function);
    struct field *f = &l->fields[l->n_fields];
    TRY(field_init(f, dtype, rank, dims));
    if (l->n_fields && dims[0] != l->samples) {
        return error_set(KILN_E_SHAPE, "%s: field %zu has %" PRId64 " samples, those before it have %" PRId64, function,
                         l->n_fields, dims[0], l->samples);
    }
    *out = f;
    return KILN_OK;
}

static void accept_field(kiln_loader *l)
{
    l->samples = l->fields[l->n_fields++].dims[0];
}

static kiln_status add_tensor(kiln_loader *l, const kiln_tensor *t, size_t i)
{
    if (!t) return error_set(KILN_E_ARGUMENT, "loader_create: tensor %zu is NULL", i);
    kiln_dtype dtype = kiln_tensor_dtype(t);
    if (error_pending) return error_pending;
    struct field *f;
    TRY(new_field("loader_create", l, dtype, kiln_rank(t), kiln_dims(t), &f));
    size_t size_B = (size_t)kiln_numel(t) * kiln_dtype_size(dtype);
    f->owned = malloc(size_B + 1);
    if (!f->owned) return error_set(KILN_E_MEMORY, "loader_create: no memory for %zu bytes", size_B);
    kiln_status status = kiln_read(t, f->owned, size_B);
    if (status) {
        field_finish(f);
        return status;
    }
    f->data = f->owned;
    accept_field(l);
    return KILN_OK;
}

kiln_status kiln_loader_add_host(kiln_loader *loader, kiln_dtype dtype, size_t rank, const int64_t *dims,
                                 const void *data)
{
    TRY(check("loader_add_host", loader));
    struct field *f;
    TRY(new_field("loader_add_host", loader, dtype, rank, dims, &f));
    if (!data && dims[0] && f->row_items) return error_set(KILN_E_ARGUMENT, "loader_add_host: the data is NULL");
    // Without elements nothing is read; any address does.
    f->data = data ? data : (const void *)f->dims;
    accept_field(loader);
    return KILN_OK;
}

kiln_status kiln_loader_add_fn(kiln_loader *loader, kiln_dtype dtype, size_t rank, const int64_t *dims,
                               kiln_sample_fn fn, void *user)
{
    TRY(check("loader_add_fn", loader));
    if (!fn) return error_set(KILN_E_ARGUMENT, "loader_add_fn: the function is NULL");
    struct field *f;
    TRY(new_field("loader_add_fn", loader, dtype, rank, dims, &f));
    f->fn = fn;
    f->user = user;
    accept_field(loader);
    return KILN_OK;
}

kiln_status kiln_loader_convert(kiln_loader *loader, size_t field, kiln_dtype dtype, const kiln_convert_opts *opts)
{
    TRY(check("loader_convert", loader));
    if (loader->started) return error_set(KILN_E_STATE, "loader_convert: the loader has given batches");
    if (field >= loader->n_fields) {
        return error_set(KILN_E_ARGUMENT, "loader_convert: field %zu of %zu", field, loader->n_fields);
    }
    return field_convert(&loader->fields[field], dtype, opts);
}

static kiln_status set_options(kiln_loader *l, const kiln_loader_opts *opts)
{
    TRY(options_read("loader_create", KILN_LOADER, &l->opts, opts));
    kiln_loader_opts *o = &l->opts;
    if (o->batch < 0) return error_set(KILN_E_ARGUMENT, "loader_create: a batch of %" PRId64 " samples", o->batch);
    if (o->prefetch < -1 || o->prefetch > DEPTH_MAX) {
        return error_set(KILN_E_ARGUMENT, "loader_create: prefetch is %" PRId64 ", from -1 to %d are allowed",
                         o->prefetch, DEPTH_MAX);
    }
    if (o->batch == 0) o->batch = 1;
    if (o->prefetch == 0) o->prefetch = 2;
    l->threaded = o->prefetch > 0;
    l->depth = l->threaded ? (size_t)o->prefetch : 1;
    return KILN_OK;
}

kiln_loader *kiln_loader_create(kiln_device *dev, kiln_tensor *const *tensors, size_t n, const kiln_loader_opts *opts)
{
    if (error_pending) return NULL;
    if (!dev) dev = kiln_get_device();
    if (!dev || handle_check("loader_create", "dev", HANDLE_DEVICE, dev)) return NULL;
    kiln_loader *l = handle_new(HANDLE_LOADER, sizeof *l);
    if (!l) {
        error_set(KILN_E_MEMORY, "loader_create: no memory");
        return NULL;
    }
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->dev = dev;
    kiln_status status = set_options(l, opts);
    if (!status && n && !tensors) status = error_set(KILN_E_ARGUMENT, "loader_create: the list of tensors is NULL");
    for (size_t i = 0; i < n && !status; i++) status = add_tensor(l, tensors[i], i);
    if (status) kiln_loader_free(&l);
    return l;
}

static void free_slots(kiln_loader *l)
{
    for (size_t i = 0; l->slots && i < l->depth; i++) {
        for (size_t k = 0; l->slots[i].data && k < l->n_fields; k++) free(l->slots[i].data[k]);
        free(l->slots[i].data);
    }
    free(l->slots);
    free(l->order);
    l->slots = NULL;
    l->order = NULL;
}

void kiln_loader_free(kiln_loader **loader)
{
    if (!handle_may_free("loader_free", HANDLE_LOADER, loader)) return;
    kiln_loader *l = *loader;
    stop_thread(l);
    free_slots(l);
    for (size_t i = 0; i < l->n_fields; i++) field_finish(&l->fields[i]);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    handle_free(HANDLE_LOADER, l);
    *loader = NULL;
}

// --- batches

static bool make_slots(kiln_loader *l)
{
    size_t rows = (size_t)min_i64(l->opts.batch, l->samples);
    l->slots = calloc(l->depth, sizeof *l->slots);
    if (!l->slots) return false;
    for (size_t i = 0; i < l->depth; i++) {
        l->slots[i].data = calloc(l->n_fields, sizeof *l->slots[i].data);
        if (!l->slots[i].data) return false;
        for (size_t k = 0; k < l->n_fields; k++) {
            l->slots[i].data[k] = malloc(rows * field_out_row_B(&l->fields[k]) + 1);
            if (!l->slots[i].data[k]) return false;
        }
    }
    if (!l->opts.shuffle) return true;
    l->order = malloc((size_t)l->samples * sizeof *l->order + 1);
    return l->order;
}

static kiln_status start(kiln_loader *l)
{
    if (l->n_fields == 0) return error_set(KILN_E_STATE, "loader_next: the loader has no fields");
    if (!make_slots(l)) {
        free_slots(l);
        return error_set(KILN_E_MEMORY, "loader_next: no memory for %zu batches of %" PRId64 " samples", l->depth,
                         l->opts.batch);
    }
    l->started = true;
    rewind_filler(l);
    return KILN_OK;
}

// The oldest filled slot.
static kiln_status wait_for_slot(kiln_loader *l, struct slot **out)
{
    if (lost_its_thread(l)) rewind_filler(l);
    if (l->threaded && !l->running && !l->filled) start_thread(l);
    if (!l->running && !l->filled) {
        struct slot *s = &l->slots[0];
        l->first = 0;
        // A failure leaves the filler where it was.
        TRY(fill_rows(l, s));
        s->error = (struct error_record){.code = KILN_OK};
        l->filled = 1;
    }
    pthread_mutex_lock(&l->lock);
    while (!l->filled) pthread_cond_wait(&l->changed, &l->lock);
    *out = &l->slots[l->first];
    pthread_mutex_unlock(&l->lock);
    if ((*out)->error.code == KILN_OK) return KILN_OK;
    struct error_record error = (*out)->error;
    rewind_filler(l);
    return error_raise(&error);
}

static void release_slot(kiln_loader *l)
{
    pthread_mutex_lock(&l->lock);
    l->first = (l->first + 1) % l->depth;
    l->filled--;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

static kiln_status make_tensors(const kiln_loader *l, const struct slot *s, kiln_tensor **out)
{
    for (size_t k = 0; k < l->n_fields; k++) {
        const struct field *f = &l->fields[k];
        int64_t dims[KILN_MAX_RANK];
        memcpy(dims, f->dims, sizeof dims);
        dims[0] = s->rows;
        out[k] = kiln_from_data(l->dev, f->out_dtype, f->rank, dims, s->data[k]);
        if (out[k]) continue;
        while (k-- > 0) kiln_free(&out[k]);
        return error_pending;
    }
    return KILN_OK;
}

kiln_status kiln_loader_next(kiln_loader *loader, kiln_tensor **out, size_t n_out, bool *more)
{
    if (more) *more = false;
    for (size_t i = 0; out && i < n_out; i++) out[i] = NULL;
    TRY(check("loader_next", loader));
    if (!out || !more) return error_set(KILN_E_ARGUMENT, "loader_next: %s is NULL", out ? "more" : "out");
    if (n_out != loader->n_fields && loader->n_fields) {
        return error_set(KILN_E_ARGUMENT, "loader_next: %zu outputs for %zu fields", n_out, loader->n_fields);
    }
    if (!loader->started) TRY(start(loader));
    struct slot *s;
    TRY(wait_for_slot(loader, &s));
    int64_t rows = s->rows;
    if (rows) TRY(make_tensors(loader, s, out));
    advance(loader, &loader->state, rows);
    release_slot(loader);
    *more = rows > 0;
    return KILN_OK;
}

// --- queries and state

int64_t kiln_loader_samples(const kiln_loader *loader)
{
    return check("loader_samples", loader) ? 0 : loader->samples;
}

int64_t kiln_loader_batches(const kiln_loader *loader)
{
    if (check("loader_batches", loader)) return 0;
    int64_t whole = loader->samples / loader->opts.batch;
    return whole + (!loader->opts.drop_last && loader->samples % loader->opts.batch != 0);
}

kiln_status kiln_loader_get_state(const kiln_loader *loader, kiln_loader_state *out)
{
    TRY(check("loader_get_state", loader));
    TRY(sized_check("loader_get_state", kiln_loader_state, out));
    kiln_loader_state s = {.seed = loader->opts.seed, .epoch = loader->state.epoch, .position = loader->state.position};
    sized_fill(out, &s, sizeof s);
    return KILN_OK;
}

kiln_status kiln_loader_set_state(kiln_loader *loader, const kiln_loader_state *state)
{
    TRY(check("loader_set_state", loader));
    TRY(sized_check("loader_set_state", kiln_loader_state, state));
    kiln_loader_state s = {0};
    memcpy(&s, state, state->size < sizeof s ? state->size : sizeof s);
    if (s.position < 0 || s.position > loader->samples) {
        return error_set(KILN_E_ARGUMENT, "loader_set_state: position %" PRId64 " in a set of %" PRId64 " samples",
                         s.position, loader->samples);
    }
    // The thread reads the options: it must be gone before they change.
    stop_thread(loader);
    loader->opts.seed = s.seed;
    loader->order_known = false;
    loader->state = (struct cursor){.epoch = s.epoch, .position = s.position};
    if (loader->started) rewind_filler(loader);
    return KILN_OK;
}
