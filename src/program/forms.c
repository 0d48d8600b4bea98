// A table of blocks by the hash of a form. It is small: what was kept longest goes when it is full. Nothing depends on
// what it holds but time, so a form that is forgotten, or two that share a hash, do no harm.
#include "program/forms.h"
#include "base/hash.h"
#include "base/process.h"
#include "device/device.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { FORMS = 512 };

struct found {
    uint64_t key; // 0: free
    size_t size_B;
    void *bytes;
};

struct program_forms {
    atomic_int refs;
    pthread_mutex_t lock; // for short times
    struct guarded guarded;
    size_t next; // the one that goes
    struct found blocks[FORMS];
};

struct program_forms *program_forms_new(void)
{
    struct program_forms *f = calloc(1, sizeof *f);
    if (!f) {
        error_set(KILN_E_MEMORY, "jit: out of memory");
        return NULL;
    }
    atomic_init(&f->refs, 1);
    pthread_mutex_init(&f->lock, NULL);
    lock_guard(&f->guarded, &f->lock, false);
    return f;
}

struct program_forms *program_forms_ref(struct program_forms *f)
{
    if (f) atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    return f;
}

void program_forms_unref(struct program_forms **ref)
{
    struct program_forms *f = *ref;
    *ref = NULL;
    if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1) return;
    for (size_t i = 0; i < FORMS; i++) free(f->blocks[i].bytes);
    lock_unguard(&f->guarded);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static struct found *find(struct program_forms *f, uint64_t key)
{
    for (size_t i = 0; i < FORMS; i++)
        if (f->blocks[i].key == key) return &f->blocks[i];
    return NULL;
}

// A copy, the caller's; NULL: it is not known.
static void *take(struct program_forms *f, uint64_t key, size_t *size_B)
{
    if (!f) return NULL;
    pthread_mutex_lock(&f->lock);
    const struct found *b = find(f, key);
    void *copy = b ? malloc(b->size_B + 1) : NULL;
    if (copy && b->size_B) memcpy(copy, b->bytes, b->size_B);
    *size_B = b ? b->size_B : 0;
    pthread_mutex_unlock(&f->lock);
    return copy;
}

static void keep(struct program_forms *f, uint64_t key, const void *bytes, size_t size_B)
{
    void *copy = f ? malloc(size_B + 1) : NULL;
    if (!copy) return;
    if (size_B) memcpy(copy, bytes, size_B);
    pthread_mutex_lock(&f->lock);
    struct found *b = find(f, key);
    if (!b) {
        b = &f->blocks[f->next];
        f->next = (f->next + 1) % FORMS;
    }
    free(b->bytes);
    *b = (struct found){key, size_B, copy};
    pthread_mutex_unlock(&f->lock);
}

enum form_of { FORM_GRAPH = 1, FORM_PASSES, FORM_UNITS };

static uint64_t key_of(enum form_of kind, uint64_t form)
{
    uint64_t key = hash_u64(kind, form);
    return key ? key : 1;
}

bool program_forms_know(struct program_forms *f, const struct kiln_graph *g)
{
    if (!f) return false;
    uint64_t key = key_of(FORM_GRAPH, ir_graph_form(g, false));
    size_t size_B;
    void *known = take(f, key, &size_B);
    if (!known) keep(f, key, "", 0);
    free(known);
    return known != NULL;
}

static kiln_status run_all(struct program_forms *f, uint64_t key, struct kiln_graph **g, const struct pass_options *o)
{
    struct pass_report report = {0};
    VEC(uint8_t) changed = {0};
    kiln_status status = pass_run_all(g, o, &report);
    for (size_t i = 0; i < report.runs.n && !status; i++)
        if (report.runs.v[i].changed) status = vec_push(&changed, (uint8_t)report.runs.v[i].pass);
    if (!status) keep(f, key, changed.v, changed.n);
    vec_free(&changed);
    pass_report_free(&report);
    return status;
}

kiln_status program_forms_run_passes(struct program_forms *f, struct kiln_graph **g, const struct pass_options *o)
{
    if (!f) return pass_run_all(g, o, NULL);
    uint64_t key = key_of(FORM_PASSES, ir_graph_form(*g, true));
    size_t n;
    uint8_t *known = take(f, key, &n);
    if (!known) return run_all(f, key, g, o);
    kiln_status status = KILN_OK;
    struct pass_options again = *o;
    again.unseen = true;
    for (size_t i = 0; i < n && !status; i++) status = pass_run(known[i], g, &again, NULL);
    free(known);
    return status;
}

kiln_status program_forms_fuse(struct program_forms *f, const struct units *u, const kiln_device *dev,
                               const struct fuse_options *o, struct fuse_schedule *out)
{
    if (!f) return fuse(u, &dev->caps, o, out);
    uint64_t key = key_of(FORM_UNITS, hash_u64((uintptr_t)dev, fuse_form(u, o)));
    size_t size_B;
    struct fuse_options by_plan = *o;
    struct fuse_plan *known = take(f, key, &size_B);
    by_plan.plan = known;
    kiln_status status = fuse(u, &dev->caps, &by_plan, out);
    free(known);
    if (!status && out->plan) keep(f, key, out->plan, out->plan_B);
    return status;
}
