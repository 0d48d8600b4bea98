// The actions of a program: a fused kernel's launch, a table of them, or a unit's launches one by one.
#include "codegen/llvm/llvm.h"
#include "program/facts.h"
#include "program/host.h"
#include "program/maker.h"
#include "program/region.h"

static kiln_status add_launch(struct program_maker *m, const struct unit *u, const struct launch *l, bool random,
                              const char *why)
{
    struct action a = {
        .plain = arena_alloc(&m->p->arena, sizeof *a.plain), .random = random, .why = why, .n_entries = 1};
    if (!a.plain) return error_pending;
    *a.plain = *l;
    TRY(facts_of_unit(m, u, l, &a.facts));
    a.plain->facts = a.facts;
    return vec_push(&m->actions, a);
}

void action_finish(kiln_device *dev, const struct action *a, void (*destroy)(struct program **p))
{
    if (a->region) program_region_destroy(dev, a->region, destroy);
    if (a->host) program_host_destroy(a->host);
}

// What it reads and writes is whatever lies in these buffers.
static kiln_status add_region(struct program_maker *m, const struct unit *u)
{
    struct action a = {.n_entries = 1, .n_operands = unit_n_operands(u)};
    a.operands = arena_alloc(&m->p->arena, sizeof *a.operands * (size_t)(a.n_operands + 1));
    if (!a.operands) return error_pending;
    for (int i = 0; i < a.n_operands; i++)
        a.operands[i] = (struct action_operand){.buffer = unit_operands(u)[i].slot, .write = unit_writes(u, i)};
    bool host = !m->g->nodes.v[u->node].n_regions;
    TRY(host ? program_host_make(m, u, &a.host) : program_region_make(m, u, &a.region));
    kiln_status status = vec_push(&m->actions, a);
    if (status) action_finish(m->p->dev, &a, m->destroy);
    return status;
}

static kiln_status add_plain(struct program_maker *m, int32_t unit, const char *why)
{
    const struct unit *u = &m->units.v.v[unit];
    struct launch l;
    if (u->region) return add_region(m, u);
    for (int i = 0; i < u->n_parts; i++) TRY(add_launch(m, u, &u->parts[i], false, why));
    if (u->n_parts) return KILN_OK;
    unit_plain(u, &l);
    return add_launch(m, u, &l, u->random, why);
}

static kiln_status fill_operands(struct action_operand *o, const struct fused_kernel *k)
{
    for (int i = 0; i < k->n_in + k->n_out; i++, o++) {
        const struct fused_access *x = fused_access_at(k, i);
        int64_t at_B = x->offset * dtype_size_B[x->dtype];
        fused_range(k, x, &o->lo_B, &o->hi_B);
        o->lo_B -= at_B;
        o->hi_B -= at_B;
        if (i < k->n_in && fused_is_placed(k, i)) { // what is touched may be anything of the buffer
            o->lo_B = -at_B;
            o->hi_B = INT64_C(1) << 46;
        }
        o->buffer = x->buffer;
        o->at_B = at_B;
        o->write = i >= k->n_in;
    }
    return KILN_OK;
}

static kiln_status action_room(struct program_maker *m, struct action *a, int n_entries, const struct fused_kernel *k)
{
    struct arena *arena = &m->p->arena;
    *a = (struct action){.n_entries = n_entries, .n_operands = k->n_in + k->n_out};
    a->operands = arena_alloc(arena, sizeof *a->operands * (size_t)(a->n_operands * n_entries));
    a->fused = arena_alloc(arena, sizeof *a->fused * (size_t)n_entries);
    if (!m->o->reference) a->compiled = arena_alloc(arena, sizeof *a->compiled * (size_t)n_entries);
    return a->operands && a->fused && (m->o->reference || a->compiled) ? KILN_OK : error_pending;
}

// The same text at each kernel, so that it is heard once. A build without LLVM says so in kiln-info.
static void warn_without_module(void)
{
    struct llvm_facts module;
    llvm_get_facts(&module);
    if (KILN_WITH_LLVM)
        log_warn("captured functions run op by op on the CPU, for libkiln-llvm.so cannot be opened: %s", module.why);
}

// The kernel, if it can be had; else *out is NULL.
static kiln_status get_kernel(struct program_maker *m, const struct fused_kernel *k, struct jit_kernel **out)
{
    struct program *p = m->p;
    kiln_status status = jit_kernel_get(p->dev, k, m->o->count, out);
    if (status == KILN_E_MISSING || status == KILN_E_UNSUPPORTED || status == KILN_E_FORMAT) {
        if (status == KILN_E_MISSING && p->dev->caps.code == CODE_LLVM)
            warn_without_module();
        else
            log_warn("%s: kernel %s is not fused: %s", m->o->name ? m->o->name : "jit", k->name, kiln_error_message());
        kiln_error_clear();
        *out = NULL;
        return KILN_OK;
    }
    TRY(status);
    p->kernels[p->n_kernels++] = *out;
    return KILN_OK;
}

static kiln_status add_kernels(struct program_maker *m, const struct fuse_step *steps, int n, bool *done)
{
    struct action a;
    struct jit_kernel *kernel = NULL;
    *done = false;
    TRY(action_room(m, &a, n, steps[0].kernel));
    a.why = steps[0].why;
    TRY(facts_of_steps(m, steps, n, &a.facts));
    for (int i = 0; i < n; i++) {
        const struct fused_kernel *k = a.fused[i] = steps[i].kernel;
        if (!m->o->reference) {
            TRY(get_kernel(m, k, &kernel));
            if (!kernel) return KILN_OK;
            TRY(jit_launch_init(&m->p->arena, &a.compiled[i], kernel, k, m->p->dev));
            a.compiled[i].facts = a.facts;
        }
        TRY(fill_operands(a.operands + i * a.n_operands, k));
    }
    *done = true;
    return vec_push(&m->actions, a);
}

static int table_length(const struct program_maker *m, size_t first)
{
    size_t n = 1;
    const struct fuse_step *s = m->schedule.steps.v;
    while (s[first].table >= 0 && first + n < m->schedule.steps.n && s[first + n].table == s[first].table) n++;
    return (int)n;
}

kiln_status maker_add_steps(struct program_maker *m, size_t first, int *n)
{
    const struct fuse_step *s = &m->schedule.steps.v[first];
    bool done = false;
    *n = table_length(m, first);
    if (s->kernel) TRY(add_kernels(m, s, *n, &done));
    for (int i = 0; i < *n; i++) {
        if (done) m->p->facts.n_fused += s[i].n_units;
        for (int k = 0; k < s[i].n_units && !done; k++) TRY(add_plain(m, s[i].units[k], s[i].why));
    }
    return KILN_OK;
}
