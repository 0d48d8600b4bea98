// One region: the user's function under a recorder of its own.
#include "jit/capture/region.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

static void take_after(struct recorder *r, struct recorder *outer)
{
    r->outer = outer;
    r->dev = outer->dev;
    r->max_nodes = outer->max_nodes;
    r->sink.base.around = &outer->sink.base;
    r->sink.base.flow = outer->sink.base.flow;
}

kiln_status region_record(struct region_record *c, struct recorder *outer, const struct region *region,
                          kiln_tensor *const *in, size_t n_in, kiln_tensor **made, size_t n_out)
{
    TRY(recorder_init(&c->r, outer->name, outer->kind, outer->syntax));
    c->begun = true;
    take_after(&c->r, outer);
    c->r.forced = c->forced ? &c->forced->v.v : NULL;
    c->r.n_forced = c->forced ? &c->forced->v.n : NULL;
    c->since = node_sequence();
    if (!region->fn) return KILN_OK;
    struct recorder_switch before = recorder_enter(&c->r);
    kiln_status status = region_run(region, in, n_in, made, n_out);
    recorder_leave(&before);
    return status ? status : recorder_check_device(outer, region->op, c->r.dev);
}

static struct source *source_of_outer(const struct region_record *c, int32_t variable)
{
    for (size_t i = 0; i < c->r.sources.n; i++)
        if (c->r.sources.v[i].kind == SOURCE_OUTER && c->r.sources.v[i].outer == variable) return &c->r.sources.v[i];
    return NULL;
}

static kiln_status show_whole(struct recorder *o, int32_t variable, int32_t place, kiln_tensor **out)
{
    const struct type type = o->variables.v[variable].current->type;
    const struct layout layout = o->variables.v[variable].layout;
    struct recorder_switch before = recorder_enter(o);
    kiln_status status = variable_show_at(o, variable, place, &type, &layout, out);
    recorder_leave(&before);
    return status;
}

kiln_status region_operand(struct recorder *o, const struct region_record *all, size_t n, int32_t variable,
                           kiln_tensor **out)
{
    const struct tape_edge *at = NULL;
    TRY(show_whole(o, variable, 0, out));
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < all[k].r.sources.n && !at; i++) {
            const struct source *s = &all[k].r.sources.v[i];
            if (s->kind == SOURCE_OUTER && s->outer == variable && node_requires_grad(s->outside.node))
                at = &s->outside;
        }
    tape_set_node(*out, at ? at->node : NULL, at ? at->out : 0);
    return KILN_OK;
}

kiln_status region_show_outer(struct region_record *c, const struct region_record *all, size_t n, int32_t variable,
                              kiln_tensor **out)
{
    int32_t place = 0;
    kiln_tensor *there;
    const struct source *s = source_of_outer(c, variable);
    if (s) return variable_show(&c->r, s->variable, &s->type, &s->layout, out);
    for (size_t k = 0; k < n; k++) {
        s = source_of_outer(&all[k], variable);
        if (s) place = s->outside_place;
    }
    TRY(show_whole(c->r.outer, variable, place, &there));
    return recorder_resolve_outer(&c->r, "jit", there, false, out);
}

int32_t region_find(const struct region_variables *v, int32_t variable)
{
    for (size_t i = 0; i < v->v.n; i++)
        if (v->v.v[i] == variable) return (int32_t)i;
    return -1;
}

static kiln_status add(struct region_variables *v, int32_t variable)
{
    return region_find(v, variable) >= 0 ? KILN_OK : vec_push(&v->v, variable);
}

kiln_status region_find_read(const struct region_record *c, struct region_variables *out)
{
    for (size_t i = 0; i < c->r.sources.n; i++)
        if (c->r.sources.v[i].kind == SOURCE_OUTER) TRY(add(out, c->r.sources.v[i].outer));
    return KILN_OK;
}

kiln_status region_find_written(const struct region_record *c, struct region_variables *out)
{
    for (size_t i = 0; i < c->r.sources.n; i++) {
        const struct source *s = &c->r.sources.v[i];
        if (!c->r.variables.v[s->variable].written) continue;
        if (s->kind == SOURCE_CARRIED)
            return error_set(KILN_E_UNSUPPORTED,
                             "jit: the body of a loop of %s writes what it is given; give the new value as an output",
                             c->r.name);
        if (s->kind != SOURCE_OUTER) continue;
        for (size_t k = 0; k < c->r.sources.n; k++)
            if (k != i && c->r.sources.v[k].kind == SOURCE_OUTER && c->r.sources.v[k].outer == s->outer)
                return error_set(KILN_E_UNSUPPORTED,
                                 "jit: a region of %s writes memory that it also reaches by kiln_stop_gradient",
                                 c->r.name);
        TRY(add(out, s->outer));
    }
    return KILN_OK;
}

bool region_gains_gradient(const struct region_record *c, int32_t variable)
{
    const struct source *s = source_of_outer(c, variable);
    return s && !s->place && node_requires_grad(c->r.variables.v[s->variable].current->node);
}

static bool is_moved(const struct region_record *c, int32_t variable)
{
    for (size_t i = 0; i < c->r.sources.n; i++) {
        const struct source *s = &c->r.sources.v[i];
        if (s->kind != SOURCE_OUTER || s->outer != variable) continue;
        const struct variable *v = &c->r.variables.v[s->variable];
        return v->written && v->current->node != s->place;
    }
    return false;
}

// Handles on one memory that lie at several places of the tape are not told apart after a write.
static kiln_status find_moved(const struct region_record *c, size_t n, int32_t variable, const struct source **moved)
{
    const struct source *first = NULL;
    bool moves = false; // a write without gradients leaves the memory where it was on the tape
    for (size_t k = 0; k < n; k++) {
        const struct source *s = source_of_outer(&c[k], variable);
        if (s && first && s->outside_place != first->outside_place)
            return error_set(KILN_E_UNSUPPORTED,
                             "jit: a region of %s writes memory that it also reaches by kiln_stop_gradient",
                             c[k].r.name);
        moves |= s && is_moved(&c[k], variable);
        if (s) first = s;
    }
    *moved = moves ? first : NULL;
    return KILN_OK;
}

kiln_status region_write_outer(struct recorder *o, const struct region_record *c, size_t n, int32_t variable,
                               const kiln_tensor *value)
{
    struct variable *v = &o->variables.v[variable];
    const struct source *moved;
    if (type_numel(&v->current->type)) TRY(recorder_check_apart(o, variable, true));
    TRY(find_moved(c, n, variable, &moved));
    v->current->value = value->value;
    if (moved) variable_move(o, variable, moved->outside_place, value->node, value->node_out);
    v->version++;
    v->written = ++o->writes;
    if (v->source < 0) return KILN_OK;
    struct happened h = {v->current->value, o->sources.v[v->source].value, o->sink.builder.graph->nodes.n, -1};
    return vec_push(&o->happened, h);
}

// The input of the graph around whose memory a variable there is; -1: it was made there.
static int32_t target_of(const struct recorder *o, int32_t variable)
{
    int32_t source = o->variables.v[variable].source;
    return source < 0 ? -1 : o->sources.v[source].value;
}

kiln_status region_note_start(struct recorder *o, int32_t variable, int32_t param, int32_t region)
{
    const struct kiln_graph *g = o->sink.builder.graph;
    struct happened h = {param, target_of(o, variable), (size_t)g->regions.v[region].first_node, region};
    return h.target < 0 ? KILN_OK : vec_push(&o->happened, h);
}

kiln_status region_take_writes(const struct region_record *c, struct ir_graft *graft, int32_t region)
{
    struct recorder *o = c->r.outer;
    const struct kiln_graph *from = graft->from, *to = graft->to;
    size_t base = (size_t)to->regions.v[region].first_node;
    for (size_t i = 0; i < c->r.happened.n; i++) {
        struct happened h = c->r.happened.v[i];
        size_t k = 0;
        while (c->r.sources.v[k].value != h.target) k++;
        h.target = c->r.sources.v[k].kind == SOURCE_OUTER ? target_of(o, c->r.sources.v[k].outer) : -1;
        if (h.target < 0) continue;
        TRY(ir_graft_value(graft, h.value));
        h.value = graft->map[h.value];
        h.n_nodes += base;
        if (h.region >= 0) { // nodes keep their order
            int32_t owner = from->regions.v[h.region].owner;
            h.region += to->nodes.v[base + (size_t)owner].first_region - from->nodes.v[owner].first_region;
        } else
            h.region = region;
        TRY(vec_push(&o->happened, h));
    }
    return KILN_OK;
}

// --- what the region gives, and its gradient

static kiln_status find_values(struct region_record *c, const char *op)
{
    for (size_t i = 0; i < c->n_values; i++) {
        kiln_tensor *t;
        TRY(recorder_resolve(&c->r, op, c->made[i], &t));
        c->made[i] = t;
        TRY(recorder_value(&c->r, t, &c->values[i]));
        if (t->builder || !is_number(t)) continue;
        c->made[i] = variable_handle(&c->r, &t->type, c->values[i]);
        if (!c->made[i]) return error_pending;
    }
    return KILN_OK;
}

static kiln_status find_targets(struct region_record *c)
{
    c->targets = calloc(c->r.sources.n + 1, sizeof *c->targets);
    if (!c->targets) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < c->r.sources.n; i++) {
        const struct source *s = &c->r.sources.v[i];
        if (!node_requires_grad(s->place)) continue;
        c->targets[c->n_targets++] = (struct region_target){s->outer, s->outside, (int32_t)i, s->place};
    }
    return KILN_OK;
}

static kiln_status find_again(struct region_record *c)
{
    c->again = calloc(c->n_values + 1, sizeof *c->again);
    if (!c->again) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < c->n_values; i++) {
        c->again[i] = c->values[i];
        if (c->made[i]->builder) TRY(replayed_operand(&c->r, c->made[i], &c->again[i]));
    }
    return KILN_OK;
}

static kiln_status differentiate(struct region_record *c)
{
    size_t n = c->r.sources.n;
    int32_t *sources = calloc(n + 1, sizeof *sources);
    bool *written = calloc(n + 1, sizeof *written);
    struct tape_node **targets = calloc(n + 1, sizeof *targets);
    kiln_status status = sources && written && targets ? KILN_OK : error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < n && !status; i++) sources[i] = c->r.sources.v[i].value;
    for (size_t i = 0; i < c->n_targets && !status; i++) targets[i] = c->targets[i].node;
    const struct part_graph part = {.sources = sources,
                                    .written = written,
                                    .n_sources = n,
                                    .roots = c->made,
                                    .n_roots = c->n_values,
                                    .targets = targets,
                                    .n_targets = c->n_targets,
                                    .since = c->since,
                                    .until = c->since,
                                    .again = c->computed_again};
    if (!status) status = gradient_of_part(&c->r, &part, &c->g);
    free(sources);
    free(written);
    free(targets);
    return status;
}

// A region without a gradient may be run all the same; a backward says what is missing.
static kiln_status keep_failure(struct region_record *c)
{
    c->failure = malloc(sizeof *c->failure);
    if (!c->failure) return error_pending;
    error_capture(c->failure);
    return KILN_OK;
}

kiln_status region_close(struct region_record *c, const char *op)
{
    TRY(recorder_check_gradients(&c->r));
    struct recorder_switch before = recorder_enter(&c->r);
    kiln_status status = find_values(c, op);
    if (!status && !thread_state.no_grad) status = find_targets(c);
    if (!status && c->n_targets && !c->without_backward) status = find_again(c);
    if (!status && c->n_targets && !c->without_backward) status = differentiate(c);
    if (status == KILN_E_GRADIENT) status = keep_failure(c);
    recorder_leave(&before);
    return status;
}

static bool tells_device(const kiln_tensor *t)
{
    return t && (t->storage || (t->builder && !t->type.weak));
}

bool region_takes_number(const struct region_record *c, size_t n, const kiln_tensor *first, kiln_tensor *const *in,
                         size_t n_in)
{
    bool takes = tells_device(first);
    for (size_t i = 0; i < n_in; i++) takes |= tells_device(in[i]);
    for (size_t k = 0; k < n; k++) takes |= c[k].r.random_counters > 0;
    return takes;
}

kiln_tensor *region_zeros_of(const struct type *t)
{
    return kiln_zeros(NULL, (kiln_dtype)t->dtype, t->rank, t->dims);
}

const struct op *region_op(const char *name)
{
    static const char *const values[] = {"value"};
#define NAMED(n)                                                                                   \
    {                                                                                              \
        .name = n, .flags = OP_HIDDEN | OP_VARIADIC, .max_in = 255, .n_out = 1, .in_names = values \
    }
    static const struct op ops[] = {NAMED("cond"), NAMED("switch"), NAMED("while"), NAMED("for"), NAMED("scan")};
#undef NAMED
    for (size_t i = 0; i < COUNT_OF(ops); i++)
        if (!strcmp(ops[i].name, name)) return &ops[i];
    return NULL;
}

size_t region_saved(const struct region_record *c)
{
    return c->g.all.graph ? c->g.n_saved : 0;
}

int32_t region_saved_value(const struct region_record *c, size_t i)
{
    const struct saved *s = &c->g.saved[i];
    return s->source >= 0 ? c->r.sources.v[s->source].value : c->r.sink.builder.graph->outputs.v[s->output].value;
}

void region_finish(struct region_record *c, const char *op, uintptr_t caller)
{
    if (!c->begun) { // there was no memory for its recorder
        free(c->made);
        return;
    }
    struct recorder *o = c->r.outer;
    for (size_t i = 0; i < c->r.constants.n; i++) {
        if (vec_push(&o->constants, c->r.constants.v[i])) break;
        c->r.constants.v[i].tensor->storage->capture = o->capture; // it is known there, by whatever handle
        c->r.constants.v[i] = (struct constant){.tensor = NULL};
    }
    (void)recorder_take_hosts(o, &c->r); // what stays here goes with the region, and the capture fails
    const struct ended_region ended = {c->r.capture, op, caller};
    if (vec_push(&o->ended, ended)) kiln_error_clear();
    recorder_finish(&c->r);
    gradient_finish(&c->g);
    free(c->targets);
    free(c->failure);
    free(c->made);
    free(c->values);
    free(c->again);
}
