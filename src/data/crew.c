// The crew: a ring of batches between threads that fill them and the caller.
//
// Slots are opened in order: the batch's samples are chosen, by one worker at a time, with a cursor that walks through
// the epochs on its own; an empty slot marks the end of an epoch. Workers take pieces of the last slot that was opened,
// so that all work on the batch that is needed next, and open another when it is handed out. A slot is filled when no
// row is left. What a row holds depends on its sample alone, so that it does not matter who makes it. The caller takes
// slots in order, makes tensors of them and gives the slot back; that is what bounds memory.
//
// After a failure no slot is opened any more, but what is handed out is made, so that the error is that of the first
// sample that fails, whoever met it. The caller raises it and starts anew from its own state at the next call. Without
// threads the caller fills a slot itself.
//
// One lock guards the ring's counters. In a child of a fork the threads are the parent's, whatever they were doing: the
// lock is made anew, and the ring begins at the state.
#include "base/process.h"
#include "data/loader.h"
#include "data/order.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// --- memory

static bool make_slot(const kiln_loader *l, struct batch_slot *s, size_t rows)
{
    s->indices = malloc(rows * sizeof *s->indices + 1);
    s->data = calloc(l->n_fields, sizeof *s->data);
    if (!s->indices || !s->data) return false;
    for (size_t k = 0; k < l->n_fields; k++) {
        s->data[k] = malloc(rows * field_out_row_B(&l->fields[k]) + 1);
        if (!s->data[k]) return false;
    }
    return true;
}

static bool make_worker(kiln_loader *l, struct worker *w)
{
    w->loader = l;
    w->scratch = calloc(l->n_fields, sizeof *w->scratch);
    w->rows = calloc(l->n_fields, sizeof *w->rows);
    if (!w->scratch || !w->rows) return false;
    for (size_t k = 0; k < l->n_fields; k++) {
        const struct field *f = &l->fields[k];
        if (f->data || !f->converts) continue;
        w->scratch[k] = malloc(field_in_row_B(f) + 1);
        if (!w->scratch[k]) return false;
    }
    return true;
}

bool crew_create(kiln_loader *l)
{
    size_t rows = (size_t)min_i64(l->opts.batch, l->samples);
    l->n_workers = l->threaded ? (size_t)l->opts.workers : 1;
    l->slots = calloc(l->depth, sizeof *l->slots);
    l->workers = calloc(l->n_workers, sizeof *l->workers);
    if (!l->slots || !l->workers) return false;
    for (size_t i = 0; i < l->depth; i++)
        if (!make_slot(l, &l->slots[i], rows)) return false;
    for (size_t i = 0; i < l->n_workers; i++)
        if (!make_worker(l, &l->workers[i])) return false;
    if (!l->opts.shuffle) return true;
    l->order = malloc((size_t)l->samples * sizeof *l->order + 1);
    return l->order;
}

void crew_free(kiln_loader *l)
{
    for (size_t i = 0; l->slots && i < l->depth; i++) {
        for (size_t k = 0; l->slots[i].data && k < l->n_fields; k++) free(l->slots[i].data[k]);
        free(l->slots[i].data);
        free(l->slots[i].indices);
    }
    for (size_t i = 0; l->workers && i < l->n_workers; i++) {
        for (size_t k = 0; l->workers[i].scratch && k < l->n_fields; k++) free(l->workers[i].scratch[k]);
        free(l->workers[i].scratch);
        free(l->workers[i].rows);
    }
    free(l->slots);
    free(l->workers);
    free(l->order);
    l->slots = NULL;
    l->workers = NULL;
    l->order = NULL;
    l->order_known = false;
}

// --- opening

// The size of the batch at a position; 0 at the end of the epoch.
static int64_t rows_at(const kiln_loader *l, int64_t position)
{
    int64_t left = l->samples - position;
    if (l->opts.drop_last && left < l->opts.batch) return 0;
    return min_i64(left, l->opts.batch);
}

void crew_advance(struct cursor *c, int64_t rows)
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

static void open_slot(kiln_loader *l, struct batch_slot *s)
{
    s->rows = rows_at(l, l->filler.position);
    s->epoch = l->filler.epoch;
    s->handed = 0;
    s->left = s->rows;
    s->failed_row = -1;
    s->error.code = KILN_OK;
    if (s->rows) prepare_order(l);
    for (int64_t i = 0; i < s->rows; i++) {
        int64_t at = l->filler.position + i;
        s->indices[i] = l->opts.shuffle ? l->order[at] : at;
    }
    crew_advance(&l->filler, s->rows);
}

// --- workers

struct row_range {
    struct batch_slot *slot;
    int64_t begin, end;
};

static struct batch_slot *slot_at(const kiln_loader *l, size_t i)
{
    return &l->slots[(l->first + i) % l->depth];
}

static bool take_rows(const kiln_loader *l, struct batch_slot *s, struct row_range *out)
{
    if (s->handed == s->rows) return false;
    int64_t pieces = 4 * (int64_t)l->n_workers, size = l->n_workers == 1 ? s->rows : (s->rows + pieces - 1) / pieces;
    *out = (struct row_range){s, s->handed, s->handed + min_i64(size, s->rows - s->handed)};
    s->handed = out->end;
    return true;
}

// The next piece; false when the thread is to end. The lock is held, but for the time of opening.
static bool take_piece(kiln_loader *l, struct row_range *out)
{
    while (!l->stop) {
        if (!l->opening && l->opened && take_rows(l, slot_at(l, l->opened - 1), out)) return true;
        if (l->opening || l->failed || l->opened == l->depth) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        // The place stays free: only here slots are added, and one that the caller gives back moves `first` up as it
        // takes one from `opened`.
        struct batch_slot *s = slot_at(l, l->opened);
        l->opening = true;
        pthread_mutex_unlock(&l->lock);
        open_slot(l, s);
        pthread_mutex_lock(&l->lock);
        l->opening = false;
        l->opened++;
        pthread_cond_broadcast(&l->changed);
    }
    return false;
}

static void note_failure(kiln_loader *l, struct batch_slot *s, int64_t row)
{
    struct error_record error;
    error_capture(&error);
    l->failed = true;
    if (s->failed_row >= 0 && s->failed_row < row) return;
    s->failed_row = row;
    s->error = error;
}

static void *work(void *user)
{
    struct worker *w = user;
    kiln_loader *l = w->loader;
    struct row_range p;
    if (l->calls_user && kiln_set_device(l->dev)) kiln_error_clear();
    pthread_mutex_lock(&l->lock);
    while (take_piece(l, &p)) {
        pthread_mutex_unlock(&l->lock);
        int64_t i = p.begin;
        while (i < p.end && !sample_make(l, w, p.slot, i)) i++;
        pthread_mutex_lock(&l->lock);
        if (i < p.end) note_failure(l, p.slot, i);
        p.slot->left -= p.end - p.begin;
        if (p.slot->left == 0) pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

// --- the caller's side

static bool lost_its_threads(const kiln_loader *l)
{
    return l->n_running && l->generation != process_generation();
}

void crew_stop(kiln_loader *l)
{
    if (lost_its_threads(l)) {
        pthread_mutex_init(&l->lock, NULL);
        pthread_cond_init(&l->changed, NULL);
        l->n_running = 0;
        l->order_known = l->opening = false;
    }
    if (!l->n_running) return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    for (size_t i = 0; i < l->n_running; i++) pthread_join(l->workers[i].thread, NULL);
    l->n_running = 0;
}

void crew_rewind(kiln_loader *l)
{
    crew_stop(l);
    l->filler = l->state;
    l->first = l->opened = 0;
    l->stop = l->failed = false;
}

// Signals stay with the threads of the program. Where some threads cannot be had the others do the work, where none can
// be the caller does, with the same result.
static void start_threads(kiln_loader *l)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    l->generation = process_generation();
    size_t n = 0;
    while (n < l->n_workers && pthread_create(&l->workers[n].thread, NULL, work, &l->workers[n]) == 0) n++;
    l->n_running = n;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

// A failure leaves the filler where it was.
static kiln_status fill_here(kiln_loader *l, struct batch_slot *s)
{
    l->first = 0;
    open_slot(l, s);
    for (int64_t i = 0; i < s->rows; i++) {
        if (!sample_make(l, &l->workers[0], s, i)) continue;
        l->filler = l->state;
        return error_pending;
    }
    s->left = 0;
    l->opened = 1;
    return KILN_OK;
}

kiln_status crew_wait(kiln_loader *l, struct batch_slot **out)
{
    if (lost_its_threads(l)) crew_rewind(l);
    if (l->threaded && !l->n_running && !l->opened) start_threads(l);
    if (!l->n_running && !l->opened) TRY(fill_here(l, &l->slots[0]));
    pthread_mutex_lock(&l->lock);
    while (!l->opened || slot_at(l, 0)->left) pthread_cond_wait(&l->changed, &l->lock);
    *out = slot_at(l, 0);
    pthread_mutex_unlock(&l->lock);
    if ((*out)->failed_row < 0) return KILN_OK;
    struct error_record error = (*out)->error;
    crew_rewind(l);
    return error_raise(&error);
}

void crew_release(kiln_loader *l)
{
    pthread_mutex_lock(&l->lock);
    l->first = (l->first + 1) % l->depth;
    l->opened--;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}
