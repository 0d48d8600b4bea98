// A table of blocks by the hash of a form, and files by all of the graph. The table is small: what was kept longest
// goes when it is full. Nothing depends on what it holds but time, so a form that is forgotten, or two that share a
// hash, do no harm.
#include "program/forms.h"
#include "base/hash.h"
#include "base/process.h"
#include "device/device.h"
#include "program/disk.h"
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

// The form's bytes go.
static uint64_t key_of(enum form_of kind, struct str *form)
{
    uint64_t key = hash_bytes(kind, str_text(form), form->len);
    str_free(form);
    return key ? key : 1;
}

static uint64_t graph_key(enum form_of kind, const struct kiln_graph *g, enum ir_detail detail)
{
    struct str form;
    str_init(&form);
    ir_graph_form(g, detail, &form);
    return key_of(kind, &form);
}

static uint64_t units_key(const struct units *u, const struct fuse_options *o, const kiln_device *dev)
{
    struct str form;
    str_init(&form);
    str_add_word(&form, (uintptr_t)dev);
    fuse_form(u, o, false, &form);
    return key_of(FORM_UNITS, &form);
}

// --- on disk: for the very same graph, so that what a process finds there is what it would find out

enum { WORTH_KEEPING = 16 }; // nodes, units: few are done sooner than a file is read

// Who watches the passes sees all of them.
static bool graph_is_kept(const struct kiln_graph *g, const struct pass_options *o)
{
    bool kept = g->nodes.n >= WORTH_KEEPING && !o->each && !o->print_before && !o->print_after;
    for (size_t i = 0; i < g->nodes.n && kept; i++)
        kept = g->nodes.v[i].op->index < op_count && !(g->nodes.v[i].op->flags & OP_HOST);
    return kept;
}

// Numbers of what users register are the process's own.
static bool units_are_kept(const struct units *u)
{
    bool kept = u->v.n >= WORTH_KEEPING;
    for (size_t i = 0; i < u->v.n && kept; i++) kept = u->v.v[i].region || u->v.v[i].l.kernel < kernel_count;
    return kept;
}

static void add_caps(struct str *key, const struct device_caps *c)
{
    str_addf(key, "%d %d %d %d %d %d %d %d %d %d %d %d ", c->code, c->host, c->checks_indices, c->checks_values,
             c->own_products, c->cheap_launches, c->f64, c->i64, c->f16_storage, c->i8_storage, c->shuffle, c->halves);
    str_addf(key, "%u %u %u %u %u %u %u %u\n", c->subgroup_size, c->max_shared_B, c->max_push_B, c->parallelism,
             c->max_local, c->max_turns, c->matrix, c->matrix_bf16);
}
// Tiles decide nothing of what becomes one kernel.
_Static_assert(sizeof(struct device_caps) == 48 + sizeof(void *), "a key has all that a device can do");

static void passes_disk_key(struct str *key, const struct kiln_graph *g, const struct pass_options *o)
{
    disk_begin_key(key, DISK_PASSES);
    str_addf(key, "%d %llx\n", o->inexact, (unsigned long long)o->skip);
    ir_graph_form(g, IR_ALL, key);
}

static void units_disk_key(struct str *key, const struct units *u, const kiln_device *dev, const struct fuse_options *o)
{
    disk_begin_key(key, DISK_FUSION);
    str_addf(key, "%s ", dev->ops->kind);
    add_caps(key, &dev->caps);
    fuse_form(u, o, true, key);
}

static void *load(enum disk_kind kind, const struct str *key, size_t *size_B)
{
    char name[DISK_NAME_B];
    return key->len && !key->failed ? disk_load(kind, key, name, size_B) : NULL;
}

static void store(enum disk_kind kind, const struct str *key, const char *name, const void *bytes, size_t size_B)
{
    if (key->len && !key->failed) disk_store(kind, key, name ? name : "", bytes, size_B);
}

// --- what is known

bool program_forms_know(struct program_forms *f, const struct kiln_graph *g)
{
    if (!f) return false;
    uint64_t key = graph_key(FORM_GRAPH, g, IR_NO_SIZES);
    size_t size_B;
    void *known = take(f, key, &size_B);
    if (!known) keep(f, key, "", 0);
    free(known);
    return known != NULL;
}

// Runs all, and says which have changed the graph.
static kiln_status run_all(struct kiln_graph **g, const struct pass_options *o, uint8_t **changed, size_t *n)
{
    struct pass_report report = {0};
    VEC(uint8_t) list = {0};
    kiln_status status = pass_run_all(g, o, &report);
    for (size_t i = 0; i < report.runs.n && !status; i++)
        if (report.runs.v[i].changed) status = vec_push(&list, (uint8_t)report.runs.v[i].pass);
    pass_report_free(&report);
    *changed = list.v;
    *n = list.n;
    return status;
}

static kiln_status run_these(const uint8_t *passes, size_t n, struct kiln_graph **g, const struct pass_options *o)
{
    kiln_status status = KILN_OK;
    struct pass_options again = *o;
    again.unseen = true;
    for (size_t i = 0; i < n && !status; i++) status = pass_run(passes[i], g, &again, NULL);
    return status;
}

static bool are_passes(const uint8_t *passes, size_t n)
{
    bool all = n <= (size_t)pass_count * PASS_ROUNDS_MAX;
    for (size_t i = 0; i < n && all; i++) all = passes[i] < pass_count;
    return all;
}

kiln_status program_forms_run_passes(struct program_forms *f, struct kiln_graph **g, const struct pass_options *o)
{
    uint64_t key = f ? graph_key(FORM_PASSES, *g, IR_ALIKE) : 0;
    size_t n;
    uint8_t *passes = take(f, key, &n);
    bool known = passes != NULL;
    struct str on_disk;
    str_init(&on_disk);
    if (!known && graph_is_kept(*g, o)) passes_disk_key(&on_disk, *g, o);
    if (!known && (passes = load(DISK_PASSES, &on_disk, &n))) {
        known = are_passes(passes, n);
        if (known) keep(f, key, passes, n);
    }
    if (!known) {
        free(passes);
        passes = NULL;
    }
    kiln_status status = known ? run_these(passes, n, g, o) : run_all(g, o, &passes, &n);
    if (!known && !status) {
        keep(f, key, passes, n);
        store(DISK_PASSES, &on_disk, o->why, passes, n);
    }
    free(passes);
    str_free(&on_disk);
    return status;
}

kiln_status program_forms_fuse(struct program_forms *f, const char *name, const struct units *u, const kiln_device *dev,
                               const struct fuse_options *o, struct fuse_schedule *out)
{
    uint64_t key = f ? units_key(u, o, dev) : 0;
    struct fuse_options by_plan = *o;
    struct fuse_plan *known = take(f, key, &by_plan.plan_B);
    struct str on_disk;
    str_init(&on_disk);
    if (!known && !o->off && units_are_kept(u)) {
        units_disk_key(&on_disk, u, dev, o);
        known = load(DISK_FUSION, &on_disk, &by_plan.plan_B);
        if (known) keep(f, key, known, by_plan.plan_B);
    }
    by_plan.plan = known;
    kiln_status status = fuse(u, &dev->caps, &by_plan, out);
    free(known);
    if (!status && out->plan) {
        keep(f, key, out->plan, out->plan_B);
        store(DISK_FUSION, &on_disk, name, out->plan, out->plan_B);
    }
    str_free(&on_disk);
    return status;
}
