// One function for the trips of a loop (codegen/llvm): compiled when the loop has made as many as a compilation takes
// the time of, for what a trip costs beyond its arithmetic is the calls.
#include "program/series_code.h"
#include "codegen/llvm/llvm.h"
#include "device/profile.h"
#include "program/disk.h"
#include "program/run.h"
#include <stdlib.h>

enum {
    WORTH_TRIPS = 1 << 15,
    MOST_ITEMS = 16,  // launches of a trip
    MOST_POINTS = 512 // of a launch: beyond, it takes longer than its call
};

enum code_state { CODE_NONE, CODE_COMPILING, CODE_READY, CODE_REFUSED };

struct series_code {
    atomic_int state;   // who makes it COMPILING sets it to what it then is
    atomic_llong trips; // made by single launches
    struct llvm_function fn;
};

struct series_code *series_code_new(struct arena *a)
{
    struct series_code *c = arena_alloc(a, sizeof *c);
    if (c) *c = (struct series_code){.state = CODE_NONE};
    return c;
}

void series_code_drop(struct series_code *c)
{
    if (c && atomic_load(&c->state) == CODE_READY) llvm_unload(&c->fn);
}

void series_code_count(struct series_code *c, int64_t trips)
{
    atomic_fetch_add_explicit(&c->trips, trips, memory_order_relaxed);
}

static bool are_small(const struct series_launches *all)
{
    for (int i = 0; i < all->n; i++) {
        const struct series_launch *it = &all->v[i];
        if (!it->l || it->l->c.units != 1 || it->l->c.failed_at >= 0 || it->l->c.work > MOST_POINTS) return false;
        const struct fused_kernel *k = it->a->fused[it->l - it->a->compiled];
        if (k->trips.on || k->n_checks) return false;
    }
    return true;
}

int64_t series_code_wait(struct series_code *c, const struct series_launches *cond, const struct series_launches *body)
{
    if (!c || profile_on() || !body->n || cond->n + body->n > MOST_ITEMS) return INT64_MAX;
    int state = atomic_load_explicit(&c->state, memory_order_acquire);
    if (state == CODE_READY) return 0;
    if (state != CODE_NONE || !are_small(cond) || !are_small(body)) return INT64_MAX;
    int64_t left = (debug_flag("loops") ? 0 : WORTH_TRIPS) - atomic_load_explicit(&c->trips, memory_order_relaxed);
    return left < 0 ? 0 : left;
}

// --- compiling ---

static kiln_status describe(const struct series_launches *all, struct arena *memory, struct llvm_series_item *out)
{
    for (int at = 0; at < all->n; at++, out++) {
        const struct series_launch *it = &all->v[at];
        const struct jit_launch *l = it->l;
        bool *fixed = arena_alloc(memory, sizeof *fixed * (size_t)l->c.n_words);
        if (!fixed) return error_pending;
        jit_launch_fixed(l, fixed);
        *out = (struct llvm_series_item){.k = it->a->fused[l - it->a->compiled],
                                         .plan = jit_launch_plan(l),
                                         .words = it->words[0],
                                         .fixed = fixed,
                                         .run_end = l->c.run_end,
                                         .n_words = l->c.n_words,
                                         .n_movers = it->n_movers};
        for (int i = 0; i < l->n_scalars; i++)
            if (l->scalars[i].input == all->child->number)
                out->numbers[out->n_numbers++] =
                    (struct llvm_series_number){(uint16_t)l->c.scalar_at[l->scalars[i].index], l->scalars[i].cls};
    }
    return KILN_OK;
}

// The object, of the disk where that has it.
static kiln_status object_of(const struct llvm_series *s, bool anew, struct codegen_code *out)
{
    struct str key;
    str_init(&key);
    disk_begin_key(&key, DISK_OBJECT);
    kiln_status status = llvm_host_key(&key);
    if (!status) status = llvm_series_key(s, &key);
    *out = (struct codegen_code){.plan = {.target = CODE_LLVM}};
    if (!status && !anew) out->code = disk_load(DISK_OBJECT, &key, out->symbol, &out->size_B);
    if (!status && !out->code) {
        status = llvm_compile_series(s, out);
        if (!status) disk_store(DISK_OBJECT, &key, out->symbol, out->code, out->size_B);
    }
    str_free(&key);
    return status;
}

static kiln_status load(const struct llvm_series *s, bool anew, struct llvm_function *out)
{
    struct codegen_code code;
    TRY(object_of(s, anew, &code));
    kiln_status status = llvm_load(&code, out);
    free(code.code);
    return status;
}

static kiln_status compile(const struct series_launches *cond, const struct series_launches *body, struct arena *memory,
                           struct llvm_function *out)
{
    struct llvm_series_item *items = arena_alloc(memory, sizeof *items * (size_t)(cond->n + body->n));
    if (!items) return error_pending;
    const struct llvm_series s = {items, cond->n + body->n, cond->n};
    TRY(describe(cond, memory, items));
    TRY(describe(body, memory, items + cond->n));
    PROFILE("kernel", "loop");
    if (!load(&s, false, out)) return KILN_OK;
    kiln_error_clear(); // what was on disk may be of no use
    return load(&s, true, out);
}

// Of several threads one compiles, and the others go on without.
static bool get(struct series_code *c, const struct series_launches *cond, const struct series_launches *body,
                struct arena *memory)
{
    int state = CODE_NONE;
    if (atomic_load_explicit(&c->state, memory_order_acquire) == CODE_READY) return true;
    if (!atomic_compare_exchange_strong(&c->state, &state, CODE_COMPILING)) return false;
    bool made = !compile(cond, body, memory, &c->fn);
    if (!made) kiln_error_clear(); // launches do without
    atomic_store_explicit(&c->state, made ? CODE_READY : CODE_REFUSED, memory_order_release);
    return made;
}

static void set_addresses(const struct llvm_series *s, const struct series_launches *all, int first, uint64_t *args)
{
    for (int i = 0; i < all->n; i++)
        for (int half = 0; half < 2; half++) {
            args[llvm_series_words_at(s, half, first + i)] = (uint64_t)(uintptr_t)all->v[i].words[half];
            args[llvm_series_movers_at(s, half, first + i)] = (uint64_t)(uintptr_t)all->v[i].movers[half];
        }
}

bool series_code_run(const struct program_series *s, const struct series_launches *cond,
                     const struct series_launches *body, struct arena *memory, int64_t *trip)
{
    _Static_assert(sizeof(struct mover) == 16, "as the function reads them");
    if (!s->code || !get(s->code, cond, body, memory)) return false;
    const struct llvm_series all = {NULL, cond->n + body->n, cond->n};
    uint64_t args[4 * MOST_ITEMS + 2];
    set_addresses(&all, cond, 0, args);
    set_addresses(&all, body, cond->n, args);
    args[llvm_series_flag_at(&all)] = (uint64_t)(uintptr_t)s->flag;
    args[llvm_series_stop_at(&all)] = (uint64_t)(uintptr_t)trip;
    s->code->fn.run(args, *trip, s->end);
    return true;
}
