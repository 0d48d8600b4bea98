// Running a program: addresses into the launches that stand ready, one after the other.
#include "base/leave.h"
#include "ir/launch_after.h"
#include "program/bind.h"
#include "program/host.h"
#include "program/region.h"
#include "program/records.h"
#include "program/run.h"
#include <stdlib.h>
#include <string.h>

enum { FEW = 64 };

// Whether storage i of the run is that of an input.
static bool is_given(const struct program_call *r, int i)
{
    int32_t over = r->p->fresh[i].over;
    return over >= 0 && r->in[over]->storage == r->fresh[i];
}

static kiln_status run_reference(const struct program_call *r, const struct action *a, int entry)
{
    void *buffers[UINT8_MAX];
    struct fused_kernel k = *a->fused[entry];
    const struct action_operand *operands = a->operands + entry * a->n_operands;
    if (a->n_operands > UINT8_MAX) return error_set(KILN_E_INTERNAL, "program: too many operands");
    for (int i = 0; i < a->n_operands; i++) {
        buffers[i] = (void *)(uintptr_t)r->base[operands[i].buffer];
        *(i < k.n_in ? &k.in[i].buffer : &k.out[i - k.n_in].to.buffer) = (uint32_t)i;
    }
    uint32_t failed = 0;
    for (int i = 0; i < k.n_scalars; i++)
        if (k.scalar_input[i]) k.scalars[i] = program_number_bits(&r->args[k.scalar_input[i] - 1], k.scalar_cls[i]);
    TRY(fused_eval(&k, buffers, &failed));
    return failed ? bind_index_error(r->p, a) : KILN_OK;
}

static kiln_status run_compiled(const struct program_call *r, const struct action *a)
{
    struct argument_room room;
    struct jit_arguments arguments;
    bind_arguments(r, a, 0, &room, &arguments);
    TRY(jit_launch_run(a->compiled, r->p->dev, &arguments));
    return room.failed ? bind_index_error(r->p, a) : KILN_OK;
}

static kiln_status run_table(const struct program_call *r, const struct action *a)
{
    size_t n = (size_t)a->n_entries;
    struct argument_room *rooms = malloc((sizeof *rooms + sizeof(struct jit_arguments)) * n);
    if (!rooms) return error_set(KILN_E_MEMORY, "%s: out of memory for a table of kernels", r->p->name);
    struct jit_arguments *arguments = (struct jit_arguments *)(void *)(rooms + n);
    for (int i = 0; i < a->n_entries; i++) bind_arguments(r, a, i, &rooms[i], &arguments[i]);
    kiln_status status = jit_table_run(a->compiled, a->n_entries, r->p->dev, arguments);
    free(rooms);
    return status;
}

static kiln_status run_plain(const struct program_call *r, const struct action *a)
{
    struct launch l;
    bind_plain(r, a, &l);
    return device_launch(r->p->dev, &l);
}

// A product, and the action behind it, which its kernel makes slice by slice.
static kiln_status run_pair(const struct program_call *r, const struct action *a)
{
    const struct action *second = a + 1;
    struct launch_after after = *a->after;
    struct argument_room room;
    struct jit_arguments arguments;
    struct compiled_launch compiled;
    struct launch l, next;
    uint64_t words[CODEGEN_MAX_WORDS];
    bind_plain(r, a, &l);
    l.after = &after;
    if (second->plain) {
        bind_plain(r, second, &next);
        after.launch = &next;
    } else {
        bind_arguments(r, second, 0, &room, &arguments);
        jit_launch_lay(second->compiled, &arguments, words, &compiled);
        after.run = ((const struct compiled_code *)compiled.compiled)->run;
        after.words = words;
        after.n_words = (int)compiled.n_words;
    }
    return device_launch(r->p->dev, &l);
}

static kiln_status run_action(const struct program_call *r, const struct action *a)
{
    if (a->host) return program_host_run(r, a->host);
    if (a->region) return program_region_run(r, a->region, r->arena + a->workspace_at_B);
    if (a->plain) return run_plain(r, a);
    if (a->compiled) return a->n_entries > 1 ? run_table(r, a) : run_compiled(r, a);
    for (int k = 0; k < a->n_entries; k++) TRY(run_reference(r, a, k));
    return KILN_OK;
}

// From now on storages of inputs hold something else.
static void spend(const struct program_call *r)
{
    for (int i = 0; i < r->p->n_fresh; i++) r->fresh[i]->spent |= is_given(r, i);
}

static kiln_status run_from(const struct program_call *r, int first, int end)
{
    for (int i = first; i < end; i++) {
        const struct action *a = &r->p->actions[i];
        bool pair = a->after && i + 1 < end && !r->p->n_zones;
        if (KILN_UNLIKELY((i == r->p->first_over || (pair && i + 1 == r->p->first_over)) && !r->record)) spend(r);
        if (pair) {
            TRY(run_pair(r, a));
            i++;
            continue;
        }
        if (KILN_UNLIKELY(r->p->n_zones)) zones_lay(r->p, i, r->arena);
        TRY(run_action(r, a));
        if (KILN_UNLIKELY(r->p->n_zones)) zones_check(r->p, i, r->arena);
    }
    return KILN_OK;
}

static kiln_status run_each(const struct program_call *r)
{
    return run_from(r, 0, r->p->n_actions);
}

static kiln_status run_child(const struct program *p, const struct program_argument *args, const struct rng *rng,
                             uint64_t arena, struct device_gate *gate)
{
    uint64_t few[FEW];
    struct program_call r = {
        .p = p, .args = args, .arena = arena, .base = few, .rng = rng, .gate = gate, .run_child = run_child};
    if (p->n_buffers > FEW) r.base = malloc(sizeof *r.base * (size_t)p->n_buffers);
    if (!r.base) return error_set(KILN_E_MEMORY, "%s: out of memory for a run", p->name);
    struct leave left;
    if (r.base != few) leave_push(&left, free, r.base);
    bind_bases(&r);
    kiln_status status = run_each(&r);
    if (r.base == few) return status;
    leave_pop(&left);
    free(r.base);
    return status;
}

static void mark_written(const struct program_call *r)
{
    for (int i = 0; i < r->p->n_targets; i++) {
        const struct place *at = &r->p->places[r->p->targets[i]];
        struct storage *s = at->kind == PLACE_INPUT ? r->in[at->index]->storage : at->storage;
        s->version++;
        s->writer = r->p->name;
    }
}

// --- results ---

static kiln_tensor *number_result(const struct type *type, const kiln_tensor *value)
{
    kiln_tensor *t = tensor_new();
    if (!t) return NULL;
    t->type = *type;
    t->number = value->number;
    t->integer = value->integer;
    return t;
}

// A result that is a constant: the caller may write what it gets.
static kiln_tensor *copy_of_constant(const struct program_call *r, struct storage *from, const struct program_output *o)
{
    struct storage *s = storage_new(r->p->dev, from->block.size_B);
    if (!s) return NULL;
    s->writer = r->p->name;
    kiln_status status = device_copy(r->p->dev, s->block.address, from->block.address, from->block.size_B);
    kiln_tensor *t = status ? NULL : tensor_on(s, &o->type, &o->layout);
    storage_unref(s);
    return t;
}

static kiln_tensor *result(const struct program_call *r, const struct program_output *o)
{
    if (o->place < 0 && o->input >= 0) return number_result(&o->type, r->in[o->input]);
    if (o->place < 0) return number_result(&o->type, &(kiln_tensor){.number = o->number, .integer = o->integer});
    const struct place *at = &r->p->places[o->place];
    struct layout l = o->layout;
    struct storage *s = at->storage;
    if (at->kind == PLACE_CONSTANT) return copy_of_constant(r, s, o);
    if (at->kind == PLACE_OUTPUT) s = r->fresh[at->index];
    if (at->kind == PLACE_INPUT) {
        s = r->in[at->index]->storage;
        l.offset += r->in[at->index]->layout.offset;
    }
    return tensor_on(s, &o->type, &l);
}

static kiln_status give_results(const struct program_call *r, kiln_tensor **out)
{
    for (int i = 0; i < r->p->n_outputs; i++) {
        out[i] = result(r, &r->p->outputs[i]);
        if (out[i]) continue;
        for (int k = 0; k < i; k++) tensor_destroy(out[k]);
        for (int k = 0; k <= i; k++) out[k] = NULL;
        return error_pending;
    }
    return KILN_OK;
}

// What is pending in inputs and targets is computed, and who still needs what a target holds keeps it.
static kiln_status prepare_memory(const struct program_call *r)
{
    const struct program *p = r->p;
    for (int i = 0; i < p->n_buffers; i++)
        if (p->places[i].kind == PLACE_INPUT) TRY(tensor_force(r->in[p->places[i].index], p->name));
    for (int i = 0; i < p->n_targets; i++) {
        const struct place *at = &p->places[p->targets[i]];
        TRY(storage_prepare_write(at->kind == PLACE_INPUT ? r->in[at->index]->storage : at->storage, p->name));
    }
    return KILN_OK;
}

// Once what is pending in them has been computed.
static void find_arguments(const struct program_call *r, struct program_argument *args)
{
    for (int i = 0; i < r->p->n_inputs; i++) {
        const kiln_tensor *t = r->in[i];
        args[i].address = t->storage ? tensor_address(t) : 0;
        args[i].number = t->number;
        args[i].integer = t->integer;
    }
}

// Nobody but the handle has the storage, which is no larger than the input.
static bool may_take(const kiln_tensor *t, uint64_t size_B)
{
    const struct storage *s = t->storage;
    bool alone = atomic_load_explicit(&s->refs, memory_order_acquire) == 1 && !s->lazy && !s->readers && !s->borrowed;
    return alone && t->layout.offset == 0 && s->block.size_B == size_B;
}

static kiln_status find_fresh(const struct program_call *r, struct storage **fresh)
{
    const struct program *p = r->p;
    for (int i = 0; i < p->n_fresh; i++) {
        const struct program_fresh *f = &p->fresh[i];
        bool takes = f->over >= 0 && may_take(r->in[f->over], f->size_B);
        fresh[i] = takes ? storage_ref(r->in[f->over]->storage) : storage_new(p->dev, f->size_B);
        if (!fresh[i]) return error_pending;
        if (!takes) fresh[i]->writer = p->name;
    }
    return KILN_OK;
}

static void mark_taken(const struct program_call *r)
{
    for (int i = 0; i < r->p->n_fresh; i++)
        if (is_given(r, i)) storage_renew(r->fresh[i], r->p->name);
}

// What a run holds, of the lists those that are too long for the stack. It goes at the end of the run, or when a
// function of the host is left by an exception.
struct running {
    struct program_call r;
    struct storage **fresh;
    struct block arena;
    bool has_arena, batched;
    struct program_records *records;
    struct program_argument *args;
    uint64_t *base;
    struct storage **list;
};

static void let_go(void *at)
{
    struct running *x = at;
    const struct program *p = x->r.p;
    if (x->batched) device_batch(p->dev, false);
    if (x->has_arena) device_release(p->dev, &x->arena);
    records_give(x->records);
    for (int i = 0; x->fresh && i < p->n_fresh; i++) storage_unref(x->fresh[i]);
    free(x->args);
    free(x->base);
    free(x->list);
}

static kiln_status run_actions(struct running *x)
{
    const struct program_call *r = &x->r;
    kiln_device *dev = r->p->dev;
    if (r->p->n_actions < 2 && !x->records) return run_each(r);
    TRY(device_batch(dev, true));
    x->batched = true;
    kiln_status status = x->records ? records_run(x->records, r, run_from, spend) : run_each(r);
    x->batched = false;
    kiln_status ended = device_batch(dev, false);
    return status ? status : ended;
}

static kiln_status run_in(struct running *x, struct program_argument *args, kiln_tensor **out)
{
    struct program_call *r = &x->r;
    const struct program *p = r->p;
    TRY(prepare_memory(r));
    TRY(find_fresh(r, x->fresh));
    x->records = records_take(r);
    bool kept = x->records && records_arena(x->records, &x->arena);
    if (p->arena_B && !kept) {
        TRY(device_alloc(p->dev, p->arena_B, &x->arena));
        x->has_arena = true;
    }
    r->arena = x->arena.address ? x->arena.address : p->dev->nothing;
    find_arguments(r, args);
    bind_bases(r);
    TRY(run_actions(x));
    mark_written(r);
    TRY(give_results(r, out));
    mark_taken(r);
    return KILN_OK;
}

kiln_status program_run(struct program *p, kiln_tensor *const *in, const struct rng *rng, kiln_tensor **out)
{
    if (p->background && background_better(p)) p = background_better(p);
    uint64_t few_bases[4 * FEW];
    struct program_argument few_args[FEW];
    struct storage *few_fresh[FEW];
    struct running x = {.r = {.p = p, .in = in, .rng = rng, .run_child = run_child}};
    struct leave left;
    if (p->n_inputs > FEW) x.args = malloc(sizeof *x.args * (size_t)p->n_inputs);
    if (p->n_buffers > 4 * FEW) x.base = malloc(sizeof *x.base * (size_t)p->n_buffers);
    if (p->n_fresh > FEW) x.list = calloc((size_t)p->n_fresh, sizeof *x.list);
    struct program_argument *args = p->n_inputs > FEW ? x.args : few_args;
    x.r.args = args;
    x.r.base = p->n_buffers > 4 * FEW ? x.base : few_bases;
    x.r.fresh = x.fresh = p->n_fresh > FEW ? x.list : few_fresh;
    for (int i = 0; i < p->n_fresh && p->n_fresh <= FEW; i++) few_fresh[i] = NULL; // not more: a call is that short
    leave_push(&left, let_go, &x);
    kiln_status status = x.r.base && x.fresh && args ? run_in(&x, args, out)
                                                     : error_set(KILN_E_MEMORY, "%s: out of memory for a run", p->name);
    leave_pop(&left);
    let_go(&x);
    return status;
}
