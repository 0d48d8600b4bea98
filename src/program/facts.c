// Facts of launches: ops, types, bytes, operations and lines of the nodes that a launch was made of. Types are those of
// the graph's values, whatever shape the kernel sees them in.
#include "program/facts.h"
#include "base/where.h"
#include "ops/cost.h"
#include "program/cost.h"
#include "tensor/facts.h"
#include <string.h>

enum { TYPES_MOST = 24, TEXT_B = 800 };

// Lists without repetition.
struct told {
    const struct units *u;
    const struct type *in[TYPES_MOST], *out[TYPES_MOST];
    struct type temps[2 * TYPES_MOST]; // of what is no value of the graph
    int n_in, n_out, n_temps;
    int32_t seen_in[TYPES_MOST], seen_out[TYPES_MOST]; // buffers
    char ops[TEXT_B];
    int32_t node; // the last one that ops name
    uintptr_t places[TYPES_MOST];
    int n_places;
};

static const struct type *type_of(struct told *t, int32_t buffer)
{
    const struct unit_buffer *b = &t->u->buffers.v[buffer];
    if (b->value >= 0) return &t->u->graph->values.v[b->value].type;
    if (t->n_temps == 2 * TYPES_MOST) return NULL;
    struct type *temp = &t->temps[t->n_temps++];
    *temp = (struct type){.dtype = b->dtype, .rank = 1, .dims = {b->numel}};
    return temp;
}

static void add_buffer(struct told *t, int32_t buffer, bool write)
{
    int *n = write ? &t->n_out : &t->n_in;
    int32_t *seen = write ? t->seen_out : t->seen_in;
    for (int i = 0; i < *n; i++)
        if (seen[i] == buffer) return;
    if (*n == TYPES_MOST) return;
    seen[*n] = buffer;
    (write ? t->out : t->in)[*n] = type_of(t, buffer);
    ++*n;
}

// A unit that is no node's is a copy, of what is written back.
static void add_op(struct told *t, const struct unit *u)
{
    const char *name = u->node < 0 ? u->l.op : t->u->graph->nodes.v[u->node].op->name;
    size_t len = strlen(t->ops);
    if (u->node >= 0 && t->node == u->node) return;
    t->node = u->node;
    if (len + strlen(name) + 2 <= TEXT_B) snprintf(t->ops + len, TEXT_B - len, "%s%s", len ? "+" : "", name);
}

// What is added last is last.
static void add_place(struct told *t, int32_t node)
{
    uintptr_t place = node < 0 ? 0 : t->u->graph->nodes.v[node].caller;
    int n = 0;
    if (!place) return;
    for (int i = 0; i < t->n_places; i++)
        if (t->places[i] != place) t->places[n++] = t->places[i];
    if (n == TYPES_MOST) n--;
    t->places[n++] = place;
    t->n_places = n;
}

static double flops_of_launch(const struct units *u, const struct unit *unit, const struct launch *l,
                              struct launch_cost *cost)
{
    const struct type *in[MAX_OPERANDS] = {NULL};
    const struct kiln_graph *g = u->graph;
    const struct ir_node *n = unit->node < 0 ? NULL : &g->nodes.v[unit->node];
    for (int i = 0; n && i < n->n_in && i < MAX_OPERANDS; i++) {
        int32_t v = ir_operands(g, n)[i];
        if (v >= 0) in[i] = &g->values.v[v].type;
    }
    *cost = launch_cost(n ? n->op : NULL, in, n ? &g->values.v[n->first_out].type : NULL, l);
    return cost->flops;
}

static double flops_of_unit(const struct units *u, const struct unit *unit)
{
    struct launch l;
    struct launch_cost cost;
    double sum = 0;
    if (unit->region) return -1;
    for (int i = 0; i < unit->n_parts; i++) {
        double one = flops_of_launch(u, unit, &unit->parts[i], &cost);
        if (one < 0) return -1;
        sum += one;
    }
    if (unit->n_parts) return sum;
    unit_plain(unit, &l);
    return flops_of_launch(u, unit, &l, &cost);
}

static void add_step(struct told *t, const struct fuse_step *s, struct launch_facts *f)
{
    const struct fused_kernel *k = s->kernel;
    double trips = k->trips.on ? (double)k->trips.most : 1;
    for (int i = 0; i < s->n_units; i++) {
        const struct unit *u = &t->u->v.v[s->units[i]];
        double flops = flops_of_unit(t->u, u);
        add_op(t, u);
        add_place(t, u->node);
        f->flops = flops < 0 || f->flops < 0 ? -1 : f->flops + trips * flops;
    }
    if (s->root >= 0) add_place(t, t->u->v.v[s->root].node);
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        bool write = i >= k->n_in;
        add_buffer(t, (int32_t)fused_access_at(k, i)->buffer, write);
        *(write ? &f->written_B : &f->read_B) += cost_access_B(k, i);
    }
}

static kiln_status keep(struct program_maker *m, struct told *t, const struct launch_facts *f,
                        struct launch_facts **out)
{
    struct arena *a = &m->p->arena;
    char text[TEXT_B];
    struct launch_facts *kept = arena_alloc(a, sizeof *kept);
    uintptr_t *places = arena_alloc(a, sizeof *places * (size_t)(t->n_places + 1));
    if (!kept || !places) return error_pending;
    *kept = *f;
    memcpy(places, t->places, sizeof *places * (size_t)t->n_places);
    kept->places = places;
    kept->n_places = t->n_places;
    kept->op = arena_strdup(a, t->ops);
    types_text(t->in, t->n_in, text, sizeof text);
    kept->in = arena_strdup(a, text);
    types_text(t->out, t->n_out, text, sizeof text);
    kept->out = arena_strdup(a, text);
    *out = kept;
    return kept->op && kept->in && kept->out ? KILN_OK : error_pending;
}

kiln_status facts_of_steps(struct program_maker *m, const struct fuse_step *steps, int n, struct launch_facts **out)
{
    struct told t;
    struct launch_facts f = {.flops = 0};
    t.u = &m->units;
    t.n_in = t.n_out = t.n_temps = t.n_places = 0;
    t.node = -1;
    t.ops[0] = '\0';
    for (int i = 0; i < n; i++) add_step(&t, &steps[i], &f);
    return keep(m, &t, &f, out);
}

kiln_status facts_of_unit(struct program_maker *m, const struct unit *u, const struct launch *l,
                          struct launch_facts **out)
{
    struct told t;
    struct launch_cost cost;
    t.u = &m->units;
    t.n_in = t.n_out = t.n_temps = t.n_places = 0;
    t.node = -1;
    t.ops[0] = '\0';
    flops_of_launch(&m->units, u, l, &cost);
    const struct launch_facts f = {.read_B = cost.read_B, .written_B = cost.written_B, .flops = cost.flops};
    add_op(&t, u);
    add_place(&t, u->node);
    for (int i = 0; i < l->n_operands; i++)
        if (!(l->operands[i].flags & OPERAND_IMMEDIATE))
            add_buffer(&t, (int32_t)l->operands[i].slot, l->operands[i].flags & OPERAND_WRITE);
    return keep(m, &t, &f, out);
}

const struct launch_facts *facts_of_graph(const struct kiln_graph *g, const struct program *p, struct compile_facts *f)
{
    const struct type *in[TYPES_MOST], *out[TYPES_MOST];
    int n_in = 0, n_out = 0;
    for (size_t i = 0; i < g->values.n && n_in < TYPES_MOST; i++)
        if (g->values.v[i].kind == IR_INPUT) in[n_in++] = &g->values.v[i].type;
    for (size_t i = 0; i < g->outputs.n && n_out < TYPES_MOST; i++)
        out[n_out++] = &g->values.v[g->outputs.v[i].value].type;
    types_text(in, n_in, f->in, sizeof f->in);
    types_text(out, n_out, f->out, sizeof f->out);
    f->place = where_now();
    f->facts = (struct launch_facts){.op = "compile",
                                     .in = f->in,
                                     .out = f->out,
                                     .read_B = p->read_B,
                                     .written_B = p->written_B,
                                     .flops = p->launch_flops > 0 ? p->launch_flops : -1,
                                     .places = &f->place,
                                     .n_places = 1};
    return &f->facts;
}
