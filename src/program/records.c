// Recordings of a program's launches: pieces, and their runs.
#include "device/profile.h"
#include "program/records_impl.h"
#include "program/region.h"
#include <stdlib.h>

enum {
    LEAST = 8,  // launches of a piece
    TRIED = 16, // recordings after which a piece has to have been worth it
};

static int least(void)
{
    return debug_flag("record-all") ? 1 : LEAST;
}

// --- pieces

static void drop_recording(struct program_records *x, struct recording *c)
{
    kiln_device *dev = x->p->dev;
    if (c->record && dev->ops->records) dev->ops->records->drop(dev, c->record);
    free(c->key);
    *c = (struct recording){NULL, NULL, 0};
}

static void drop_pieces(struct program_records *x)
{
    while (x->pieces) {
        struct record_piece *s = x->pieces;
        x->pieces = s->next;
        for (int i = 0; i < RECORDS_EACH; i++) drop_recording(x, &s->recordings[i]);
        free(s->quantities);
        free(s);
    }
}

static kiln_status add_piece(struct program_records *x, int first, int end, struct record_piece *after)
{
    struct record_piece *s = calloc(1, sizeof *s);
    quantity_list list = {0};
    kiln_status status = s ? KILN_OK : error_set(KILN_E_MEMORY, "%s: out of memory for a recording", x->p->name);
    records_next_list(x);
    for (int32_t i = x->first_use[first]; i < x->first_use[end] && !status; i++)
        status = records_add_use(x, &list, x->uses[i]);
    if (status) {
        vec_free(&list);
        free(s);
        return status;
    }
    *s = (struct record_piece){.first = first,
                               .end = end,
                               .quantities = list.v,
                               .n_quantities = (int)list.n,
                               .off = end - first < least(),
                               .next = after ? after->next : x->pieces};
    *(after ? &after->next : &x->pieces) = s;
    return KILN_OK;
}

static bool stays(const struct program_records *x, int action)
{
    for (int32_t i = x->first_use[action]; i < x->first_use[action + 1]; i++)
        if (x->uses[i] < 0 || x->quantities[x->uses[i]].moves) return false;
    return true;
}

static kiln_status plan(struct program_records *x)
{
    struct record_piece *last = NULL;
    drop_pieces(x);
    for (int i = 0; i < x->p->n_actions;) {
        int end = i;
        while (end < x->p->n_actions && stays(x, end)) end++;
        if (end - i >= least()) {
            TRY(add_piece(x, i, end, last));
            last = last ? last->next : x->pieces;
        }
        i = end + 1;
    }
    x->planned = true;
    return KILN_OK;
}

// --- the whole

static void destroy(struct program_records *x)
{
    if (!x) return;
    drop_pieces(x);
    records_let_go(x);
    free(x->quantities);
    free(x->uses);
    free(x->first_use);
    free(x->listed);
    free(x->of_buffer);
    free(x);
}

void records_destroy(struct program *p)
{
    destroy(p->records);
    p->records = NULL;
}

// Code of the user's may leave the run for good.
static bool calls_host(const struct program *p)
{
    bool any = false;
    for (int i = 0; i < p->n_actions && !any; i++) {
        const struct program_region *r = p->actions[i].region;
        any = p->actions[i].host != NULL;
        for (int k = 0; r && k < (r->n_branches ? r->n_branches : 2); k++) {
            const struct program *child = r->n_branches ? r->branches[k] : r->child[k];
            any |= child && calls_host(child);
        }
    }
    return any;
}

static struct program_records *make(struct program *p)
{
    struct program_records *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->p = p;
    x->off = calls_host(p);
    size_t n = (size_t)(p->n_buffers + 1 + p->n_inputs);
    x->quantities = calloc(n, sizeof *x->quantities);
    x->listed = calloc(n, sizeof *x->listed);
    x->of_buffer = calloc(n, sizeof *x->of_buffer);
    x->first_use = calloc((size_t)p->n_actions + 1, sizeof *x->first_use);
    if (x->quantities && x->listed && x->of_buffer && x->first_use && !records_find_uses(x)) return x;
    kiln_error_clear();
    destroy(x);
    return NULL;
}

static bool is_ready(struct program_records *x, const struct program_call *r)
{
    if (x->runs++ == 0 && !debug_flag("record-all")) return false; // the first run may be the only one
    records_see(x, r);
    if (KILN_LIKELY(x->planned)) return x->pieces != NULL;
    bool had_arena = x->arena.address != 0;
    records_settle(x, r);
    if (!had_arena && x->arena.address) return false; // from the next run on
    if (!plan(x)) return x->pieces != NULL;
    kiln_error_clear();
    drop_pieces(x);
    x->off = true;
    return false;
}

bool records_arena(const struct program_records *x, struct block *out)
{
    *out = x->arena;
    return x->arena.address != 0;
}

struct program_records *records_take(const struct program_call *r)
{
    struct program *p = (struct program *)(uintptr_t)r->p;
    if (!p->dev->ops->records || p->n_actions < least() || p->reference || p->n_zones || profile_on()) return NULL;
    if (atomic_flag_test_and_set_explicit(&p->records_busy, memory_order_acquire)) return NULL;
    if (!p->records) p->records = make(p);
    if (p->records && !p->records->off) return p->records;
    atomic_flag_clear_explicit(&p->records_busy, memory_order_release);
    return NULL;
}

void records_give(struct program_records *x)
{
    if (x) atomic_flag_clear_explicit(&x->p->records_busy, memory_order_release);
}

// --- a run

static bool is_key(const struct program_records *x, const struct record_piece *s, const uint8_t *key)
{
    for (int i = 0; i < s->n_quantities; i++)
        if (key[i] != x->quantities[s->quantities[i]].now) return false;
    return true;
}

static struct recording *find(struct program_records *x, struct record_piece *s)
{
    for (int i = 0; i < RECORDS_EACH; i++)
        if (s->recordings[i].record && is_key(x, s, s->recordings[i].key)) return &s->recordings[i];
    return NULL;
}

// For one more: a free place, or that of the one that was not run for the longest time.
static struct recording *make_room(struct program_records *x, struct record_piece *s)
{
    struct recording *best = &s->recordings[0];
    for (int i = 0; i < RECORDS_EACH; i++) {
        struct recording *c = &s->recordings[i];
        if (best->record && (!c->record || c->used < best->used)) best = c;
    }
    drop_recording(x, best);
    return best;
}

// It is too long for one recording: the rest is a piece of its own. Those that were longer go.
static kiln_status part(struct program_records *x, struct record_piece *s, int end, const struct device_record *keep)
{
    TRY(add_piece(x, end, s->end, s));
    s->end = end;
    for (int i = 0; i < RECORDS_EACH; i++)
        if (s->recordings[i].record != keep) drop_recording(x, &s->recordings[i]);
    return KILN_OK;
}

static kiln_status launch_into(struct program_records *x, struct record_piece *s, const struct program_call *r,
                               records_launch_fn *launch, struct device_record *record)
{
    const struct record_ops *ops = x->p->dev->ops->records;
    struct program_call into = *r;
    into.record = record;
    for (int i = s->first; i < s->end; i++) {
        TRY(launch(&into, i, i + 1));
        if (i + 1 == s->end || !ops->full(record)) continue;
        TRY(part(x, s, i + 1, record));
    }
    return ops->end(x->p->dev, record);
}

static kiln_status record(struct program_records *x, struct record_piece *s, const struct program_call *r,
                          records_launch_fn *launch, struct recording *c)
{
    const struct record_ops *ops = x->p->dev->ops->records;
    c->key = malloc((size_t)s->n_quantities + 1);
    if (!c->key) return error_set(KILN_E_MEMORY, "%s: out of memory for a recording", x->p->name);
    for (int i = 0; i < s->n_quantities; i++) c->key[i] = x->quantities[s->quantities[i]].now;
    TRY(ops->begin(x->p->dev, &c->record));
    return c->record ? launch_into(x, s, r, launch, c->record) : KILN_OK;
}

// Where memory is short, or the device's room for recordings, launches go one by one.
static struct recording *make_recording(struct program_records *x, struct record_piece *s, const struct program_call *r,
                                        records_launch_fn *launch)
{
    struct recording *c = make_room(x, s);
    s->n_made++;
    s->off = s->n_made > TRIED && s->n_run < 2 * s->n_made;
    if (s->off) return NULL;
    kiln_status status = record(x, s, r, launch, c);
    if (!status && c->record) return c;
    if (status) kiln_error_clear();
    drop_recording(x, c);
    return NULL;
}

// *ran is false where there can be no recording.
static kiln_status run_piece(struct program_records *x, struct record_piece *s, const struct program_call *r,
                             records_launch_fn *launch, bool *ran)
{
    struct recording *c = s->off ? NULL : find(x, s);
    *ran = false;
    for (int tries = 0; tries < 2 && !s->off && !*ran; tries++) {
        if (!c) c = make_recording(x, s, r, launch);
        if (!c) return KILN_OK;
        c->used = x->runs;
        TRY(device_run_record(x->p->dev, c->record, (uint64_t)(s->end - s->first), ran));
        if (!*ran) drop_recording(x, c); // it made room for others
        c = NULL;
    }
    s->n_run += *ran;
    return KILN_OK;
}

static kiln_status run_pieces(struct program_records *x, const struct program_call *r, records_launch_fn *launch,
                              void (*spend)(const struct program_call *r))
{
    const struct program *p = x->p;
    int at = 0;
    for (struct record_piece *s = x->pieces; s; at = s->end, s = s->next) {
        bool ran;
        TRY(launch(r, at, s->first));
        TRY(run_piece(x, s, r, launch, &ran));
        if (!ran)
            TRY(launch(r, s->first, s->end));
        else if (p->first_over >= s->first && p->first_over < s->end)
            spend(r);
    }
    return launch(r, at, p->n_actions);
}

kiln_status records_run(struct program_records *x, const struct program_call *r, records_launch_fn *launch,
                        void (*spend)(const struct program_call *r))
{
    bool again = is_ready(x, r) && records_may_copy(x, r);
    if (!again) return launch(r, 0, x->p->n_actions);
    TRY(records_copy_in(x, r));
    TRY(run_pieces(x, r, launch, spend));
    return records_copy_out(x, r);
}

// --- for kiln_explain

void records_explain(struct program *p, struct str *out)
{
    if (atomic_flag_test_and_set_explicit(&p->records_busy, memory_order_acquire)) return; // it runs just now
    int launches = 0, pieces = 0;
    for (const struct record_piece *s = p->records ? p->records->pieces : NULL; s; s = s->next) {
        if (!s->n_run || s->off) continue;
        launches += s->end - s->first;
        pieces++;
    }
    if (pieces)
        str_addf(out, "  recorded: %d of %d launches, in %d piece%s\n", launches, p->n_actions, pieces,
                 pieces == 1 ? "" : "s");
    atomic_flag_clear_explicit(&p->records_busy, memory_order_release);
}
