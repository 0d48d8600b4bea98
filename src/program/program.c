// From a graph to a program: launches, fused kernels, places in memory.
//
// Units come from the graph, steps from fusion. A step that is a kernel gets compiled code; where that fails its units
// run one by one, and a warning says so. Then it is known which buffers lie in memory: what a run is given, what it
// gives back (a storage each), and intermediate values, which share one arena by their lifetimes.
#include "device/profile.h"
#include "program/maker.h"
#include "program/cost.h"
#include "program/facts.h"
#include "program/forms.h"
#include "program/gated.h"
#include "program/host.h"
#include "program/picture.h"
#include "program/region.h"
#include "ir/rewrite.h"
#include "pass/pass.h"
#include <stdlib.h>
#include <string.h>

static void constant_layout(const void *held, struct layout *out)
{
    *out = ((const kiln_tensor *)held)->layout;
}

static kiln_status make_room(struct program_maker *m)
{
    struct program *p = m->p;
    size_t n = m->units.buffers.n + 1;
    p->places = arena_alloc(&p->arena, sizeof *p->places * n);
    p->fresh = arena_alloc(&p->arena, sizeof *p->fresh * n);
    p->targets = arena_alloc(&p->arena, sizeof *p->targets * n);
    p->outputs = arena_alloc(&p->arena, sizeof *p->outputs * (m->g->outputs.n + 1));
    p->kernels = arena_alloc(&p->arena, sizeof *p->kernels * (m->schedule.steps.n + 1)); // one a step at most
    return p->places && p->fresh && p->targets && p->outputs && p->kernels ? KILN_OK : error_pending;
}

static void dump_plan(struct program_maker *m)
{
    struct str s;
    str_init(&s);
    str_addf(&s, "%s: ", m->p->name);
    program_explain(m->p, &s);
    dump_text(m->dump, "plan.txt", &s);
    str_free(&s);
}

static bool *find_shared(struct program_maker *m)
{
    const int32_t *aliases = m->o->aliases;
    struct arena *a = &m->p->arena;
    bool *shared = arena_alloc(a, m->g->values.n + 1);
    int32_t *value_of = arena_alloc(a, sizeof *value_of * (m->g->values.n + 1)), input = 0; // by input
    if (!shared || !value_of) return NULL;
    for (int32_t i = 0; i < (int32_t)m->g->values.n; i++) {
        if (m->g->values.v[i].kind == IR_CONSTANT) shared[i] = true;
        if (m->g->values.v[i].kind != IR_INPUT) continue;
        int32_t with = aliases[input]; // the first input in the same memory
        value_of[input] = i;
        if (with != input) shared[i] = true;
        if (with >= 0 && with < input) shared[value_of[with]] = true;
        input++;
    }
    return shared;
}

// Held until the program has its own references.
static kiln_status compile_all(struct program_maker *m)
{
    size_t n = m->schedule.steps.n;
    m->ahead = calloc(n + 1, sizeof *m->ahead);
    if (!m->ahead) return error_set(KILN_E_MEMORY, "graph: out of memory");
    compile_ahead(m->p->dev, m->schedule.steps.v, n, m->o->count, m->ahead);
    return KILN_OK;
}

static void release_ahead(struct program_maker *m)
{
    for (size_t i = 0; m->ahead && i < m->schedule.steps.n; i++) jit_kernel_unref(&m->ahead[i]);
    free(m->ahead);
}

// --- passes ---

static bool is_given(const struct kiln_graph *g, int32_t value)
{
    return g->values.v[value].kind == IR_INPUT || g->values.v[value].kind == IR_CONSTANT;
}

// Passes find values that are equal, within one and among several. Results that were apart stay apart, and so do their
// elements, for their owner may write them.
static bool *find_separate(struct arena *a, const struct kiln_graph *before, const struct kiln_graph *after)
{
    size_t n = before->outputs.n;
    bool *separate = arena_alloc(a, n + 1);
    int32_t *memory_was = arena_alloc(a, sizeof *memory_was * (n + 1)),
            *memory_is = arena_alloc(a, sizeof *memory_is * (n + 1));
    int32_t *earlier = arena_alloc(a, sizeof *earlier * (n + 1)); // of one memory, plus one
    int32_t *last_in = arena_alloc(a, sizeof *last_in * (after->values.n + 1));
    if (!separate || !memory_was || !memory_is || !earlier || !last_in) return NULL;
    for (size_t i = 0; i < n; i++) {
        memory_was[i] = ir_memory_of(before, before->outputs.v[i].value);
        memory_is[i] = ir_memory_of(after, after->outputs.v[i].value);
    }
    for (size_t i = 0; i < n; i++) {
        if (before->outputs.v[i].target >= 0) continue;
        int32_t was = memory_was[i], is = memory_is[i];
        separate[i] = is_given(after, is) && !is_given(before, was);
        separate[i] |=
            ir_may_repeat(after, after->outputs.v[i].value) && !ir_may_repeat(before, before->outputs.v[i].value);
        earlier[i] = last_in[is];
        last_in[is] = (int32_t)i + 1;
        for (int32_t k = earlier[i] - 1; k >= 0 && !separate[i]; k = earlier[k] - 1) {
            // A view by its op may be a copy: of two values that have become one, each had its own.
            bool one = before->outputs.v[k].value != before->outputs.v[i].value &&
                       after->outputs.v[k].value == after->outputs.v[i].value;
            separate[i] = one || memory_was[k] != was;
        }
    }
    return separate;
}

static kiln_status copy_node(struct ir_rewrite *r, int32_t node, void *unused)
{
    (void)unused;
    return ir_rewrite_copy(r, node);
}

static kiln_status simplify(struct program_maker *m, struct kiln_graph **out)
{
    struct pass_options o = {.why = m->o->name};
    TRY(ir_rewrite_graph(m->g, NULL, copy_node, NULL, out));
    pass_options_from_debug(&o);
    if (m->dump) {
        o.each = dump_pass;
        o.user = m->dump;
        dump_graph(m->dump, "00-captured", *out);
    }
    return m->o->no_passes ? KILN_OK : program_forms_run_passes(m->o->forms, out, &o);
}

static bool has_targets(const struct kiln_graph *g)
{
    for (size_t i = 0; i < g->outputs.n; i++)
        if (g->outputs.v[i].target >= 0) return true;
    return false;
}

static kiln_status schedule(struct program_maker *m, struct units_options *uo, const struct fuse_options *fo)
{
    const struct device_caps *caps = &m->p->dev->caps;
    bool *done = &m->p->writes_last;
    TRY(units_make(&m->units, m->g, uo));
    TRY(program_forms_fuse(m->o->forms, m->o->name, &m->units, m->p->dev, fo, &m->schedule));
    *done = true;
    if (m->o->in_place || !has_targets(m->g) || !graph_can_fail(m->g, caps)) return KILN_OK;
    TRY(order_writes_last(&m->units, &m->schedule, done));
    if (*done) return KILN_OK;
    uo->shared = NULL; // what is written is computed elsewhere, and copied at the end
    units_finish(&m->units);
    schedule_finish(&m->schedule);
    m->units = (struct units){0};
    m->schedule = (struct fuse_schedule){0};
    TRY(units_make(&m->units, m->g, uo));
    TRY(program_forms_fuse(m->o->forms, m->o->name, &m->units, m->p->dev, fo, &m->schedule));
    return order_writes_last(&m->units, &m->schedule, done);
}

// What a parameter of a region takes is what its owner has for an operand.
static bool comes_of(const struct kiln_graph *g, const bool *of_halves, int32_t value)
{
    while (value >= 0 && g->values.v[value].kind == IR_PARAM) {
        const struct ir_region *r = &g->regions.v[g->values.v[value].node];
        const struct ir_node *owner = &g->nodes.v[r->owner];
        int32_t i = value - r->first_param;
        if (i >= owner->n_in) return true;
        value = ir_operands(g, owner)[i];
    }
    return value >= 0 && of_halves[value];
}

static bool region_gives(const struct kiln_graph *g, const bool *of_halves, int32_t region)
{
    const struct ir_region *r = &g->regions.v[region];
    bool any = false;
    for (int32_t i = 0; i < r->n_results; i++) any |= comes_of(g, of_halves, g->operands.v[r->first_result + i]);
    return any;
}

// What a kernel kept unrounded differs from what was stored. Where values that come of halves are looked for among
// others, all are rounded.
static bool compares_halves(struct arena *a, const struct kiln_graph *g, bool *yes)
{
    bool *of_halves = arena_alloc(a, g->values.n + 1);
    *yes = false;
    for (size_t i = 0; of_halves && i < g->values.n; i++) of_halves[i] = dtype_is_half_float(g->values.v[i].type.dtype);
    for (size_t i = 0; of_halves && i < g->nodes.n; i++) {
        const struct ir_node *n = &g->nodes.v[i];
        const int32_t *in = ir_operands(g, n);
        bool any = false;
        for (int k = 0; k < n->n_in; k++) any |= comes_of(g, of_halves, in[k]);
        for (int k = 0; k < n->n_regions; k++) any |= region_gives(g, of_halves, n->first_region + k);
        for (int k = 0; k < ir_node_outputs(n); k++) of_halves[n->first_out + k] |= any;
        *yes |= any && (n->op->flags & OP_COMPARES || g->values.v[n->first_out].type.dtype == KILN_BOOL);
    }
    return of_halves;
}

// All launches together.
static void tell_all(struct program *p)
{
    bool known = true;
    for (int i = 0; i < p->n_actions; i++) {
        const struct launch_facts *f = p->actions[i].facts;
        known &= f && f->flops >= 0;
        if (!f) continue;
        p->read_B += f->read_B;
        p->written_B += f->written_B;
        p->launch_flops += f->flops;
    }
    if (!known) p->launch_flops = 0;
}

static kiln_status build(struct program_maker *m, const struct layout *const *layouts)
{
    struct program *p = m->p;
    const struct kiln_graph *before = m->g;
    TRY(simplify(m, &m->simplified));
    m->g = m->simplified;
    struct units_options uo = {.caps = &p->dev->caps,
                               .layouts = layouts,
                               .constant_layout = constant_layout,
                               .numbers = m->o->numbers,
                               .in_place = m->o->in_place,
                               .attends = !m->o->no_fusion,
                               .dense = m->o->dense};
    struct fuse_options fo = {.off = m->o->no_fusion,
                              .alone = debug_flag("fuse-all"),
                              .round_casts = m->o->round_casts,
                              .verify = debug_flag("verify")};
    bool compares;
    if (!compares_halves(&p->arena, before, &compares)) return error_pending;
    fo.round_casts |= compares;
    uo.round_casts = fo.round_casts;
    uo.separate = find_separate(&p->arena, before, m->g);
    if (!uo.separate) return error_pending;
    if (m->o->aliases) {
        uo.shared = find_shared(m);
        if (!uo.shared) return error_pending;
    }
    TRY(schedule(m, &uo, &fo));
    TRY(maker_take_trips(m, &fo));
    dump_graph(m->dump, "graph", m->g);
    dump_steps(m->dump, &m->units, &m->schedule, p->dev);
    if (m->o->picture) return picture_take(m->o->picture, m);
    TRY(make_room(m));
    if (!m->o->reference) TRY(compile_all(m));
    for (size_t i = 0, n = 0; i < m->schedule.steps.n; i += n) {
        int taken;
        TRY(maker_add_steps(m, i, &taken));
        for (size_t k = i; k < i + (size_t)taken; k++)
            if (order_can_fail(&m->units, &m->schedule.steps.v[k])) m->last_to_fail = (int32_t)m->actions.n - 1;
        n = (size_t)taken;
    }
    TRY(maker_pair_products(m));
    TRY(maker_place_all(m));
    TRY(maker_make_zeroed(m));
    TRY(maker_add_outputs(m));
    p->n_actions = (int)m->actions.n;
    p->actions = arena_alloc(&p->arena, sizeof *p->actions * (m->actions.n + 1));
    if (!p->actions) return error_pending;
    if (p->n_actions) memcpy(p->actions, m->actions.v, sizeof *p->actions * m->actions.n);
    p->facts.n_launches = p->n_actions;
    for (int i = 0; i < p->n_actions; i++) p->facts.n_launches -= p->actions[i].after != NULL;
    if (p->n_actions != 1 || !p->actions[0].fused) p->trips_at_once = 0; // there is no code for its kernel
    program_find_gateable(p);
    p->facts.flops = cost_flops(m->g);
    p->facts.moved_B = cost_moved_B(p);
    tell_all(p);
    p->facts.n_kernels = cost_kernels(p);
    return KILN_OK;
}

kiln_status program_create(const struct kiln_graph *g, kiln_device *dev, const struct layout *const *layouts,
                           const struct program_options *options, struct program **out)
{
    static const struct program_options none;
    struct program_maker m = {.g = g,
                              .o = options ? options : &none,
                              .create = program_create,
                              .destroy = program_destroy,
                              .last_to_fail = -1};
    struct program_options at_once;
    if (m.o->background && !m.o->picture) { // single ops first
        at_once = *m.o;
        at_once.no_fusion = true;
        m.o = &at_once;
    }
    uint64_t from = clock_now_ns();
    struct compile_facts told;
    PROFILE("compile", m.o->name ? m.o->name : "graph");
    *out = NULL;
    struct program *p = m.p = calloc(1, sizeof *p);
    if (!p) return error_set(KILN_E_MEMORY, "graph: out of memory");
    arena_init(&p->arena);
    p->dev = device_ref(dev);
    p->reference = m.o->reference;
    p->name = arena_strdup(&p->arena, m.o->name ? m.o->name : "graph");
    if (!m.o->picture) m.dump = dump_open(m.o->name ? m.o->name : "graph");
    p->facts.reused = program_forms_know(m.o->forms, g);
    kiln_status status = build(&m, layouts);
    p->facts.n_nodes = (int)g->nodes.n;
    if (m.dump && !status) dump_plan(&m);
    dump_close(&m.dump);
    units_finish(&m.units);
    ir_graph_destroy(&m.simplified);
    release_ahead(&m);
    p->schedule = m.schedule.arena; // kernels and their names live there
    vec_free(&m.schedule.steps);
    free(m.schedule.plan);
    for (size_t i = 0; i < m.actions.n && !p->actions; i++) action_finish(dev, &m.actions.v[i], program_destroy);
    vec_free(&m.actions);
    p->facts.host_B += sizeof *p + arena_size_B(&p->arena) + arena_size_B(&p->schedule);
    p->facts.compile_ns = clock_now_ns() - from;
    if (profile_span_.start_ns) profile_span_.facts = facts_of_graph(g, p, &told);
    profile_span_.dev = dev;
    if (!status && m.o->background && !m.o->picture) status = background_start(p, g, layouts, options, program_create);
    if (status || m.o->picture) program_destroy(&p);
    *out = p;
    return status;
}

void program_destroy(struct program **pp)
{
    struct program *p = *pp;
    *pp = NULL;
    if (!p) return;
    struct program *better = background_end(p);
    program_destroy(&better);
    records_destroy(p);
    for (int i = 0; p->actions && i < p->n_actions; i++) action_finish(p->dev, &p->actions[i], program_destroy);
    for (int i = 0; i < p->n_kernels; i++) jit_kernel_unref(&p->kernels[i]);
    for (int i = 0; p->places && i < p->n_buffers; i++) storage_unref(p->places[i].storage);
    storage_unref(p->zeroed);
    arena_finish(&p->schedule);
    arena_finish(&p->arena);
    device_unref(p->dev);
    free(p);
}

bool program_writes_last(const struct program *p)
{
    const struct program *better = background_better(p);
    return p->writes_last && (!better || better->writes_last);
}

void program_get_facts(const struct program *p, struct program_facts *out)
{
    const struct program *better = background_better(p);
    *out = better ? better->facts : p->facts;
    out->reused = p->facts.reused; // what is better was made of the same graph
}

double program_flops(const struct program *p)
{
    if (background_better(p)) p = background_better(p);
    return p->launch_flops;
}
