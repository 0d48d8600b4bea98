// What may fail before what the caller sees.
//
// Input: a schedule. Output: the same steps, those that write memory which the caller has, and what depends on them,
// behind the last step whose indices may turn out to be out of range. So a run that fails has written nothing, and
// whoever called it can find out by itself what came before the error. It is impossible where a step that may fail
// reads what was written, or writes itself; then what is written has to be computed elsewhere first.
#include "ops/index_check.h"
#include "program/impl.h"
#include "tensor/apply.h"
#include <stdlib.h>
#include <string.h>

struct ordering {
    const struct units *u;
    uint8_t *used; // by buffer: by what moves back
};
enum use { READ = 1, WRITTEN = 2 };

typedef void visit_fn(struct ordering *o, int32_t buffer, bool write, bool *hit);

static void visit(struct ordering *o, const struct fuse_step *s, visit_fn *fn, bool *hit)
{
    const struct fused_kernel *k = s->kernel;
    for (int i = 0; k && i < k->n_in + k->n_out; i++) fn(o, fused_access_at(k, i)->buffer, i >= k->n_in, hit);
    for (int n = 0; !k && n < s->n_units; n++) {
        const struct unit *u = &o->u->v.v[s->units[n]];
        for (int i = 0; i < unit_n_operands(u); i++)
            if (!(unit_operands(u)[i].flags & OPERAND_IMMEDIATE))
                fn(o, unit_operands(u)[i].slot, unit_writes(u, i), hit);
    }
}

static void note(struct ordering *o, int32_t buffer, bool write, bool *hit)
{
    (void)hit;
    o->used[buffer] |= write ? WRITTEN : READ;
}

static void meets(struct ordering *o, int32_t buffer, bool write, bool *hit)
{
    *hit |= o->used[buffer] & WRITTEN || (write && o->used[buffer]);
}

static void writes_given(struct ordering *o, int32_t buffer, bool write, bool *hit)
{
    *hit |= write && unit_buffer_is_given(&o->u->buffers.v[buffer]);
}

// By a number that turns out wrong: how many trips, which branch.
static bool decision_can_fail(const struct kiln_graph *g, const struct ir_node *n)
{
    const struct op_regions_rule *rule = op_regions_rule(n->op);
    if (!rule || !rule->decision_can_fail || !n->n_in) return false;
    return rule->decision_can_fail(n->attrs, &g->values.v[ir_operands(g, n)[n->n_in - 1]].type);
}

// caps NULL: on some device.
static bool node_can_fail(const struct kiln_graph *g, const struct ir_node *n, const struct device_caps *caps)
{
    const struct type *types[MAX_OPERANDS];
    const struct op_call c = {
        .op = n->op, .n_in = n->n_in, .n_out = n->n_out, .in = types, .attrs = (struct attr *)n->attrs};
    if (ir_node_has_effect(g, n) || decision_can_fail(g, n)) return true;
    if (!op_checks_index(n->op) || n->n_in > MAX_OPERANDS) return false;
    for (int i = 0; i < n->n_in; i++) types[i] = &g->values.v[ir_operands(g, n)[i]].type;
    return caps ? op_can_fail(&c, caps) : op_call_checks_index(&c);
}

static bool any_can_fail(const struct kiln_graph *g, const struct ir_node *n)
{
    bool can = node_can_fail(g, n, NULL);
    for (int32_t k = 0; k < n->n_regions && !can; k++) {
        const struct ir_region *r = &g->regions.v[n->first_region + k];
        for (int32_t i = r->first_node; i < r->first_node + r->n_nodes && !can; i++)
            can = node_can_fail(g, &g->nodes.v[i], NULL);
    }
    return can;
}

bool order_can_fail(const struct units *u, const struct fuse_step *s)
{
    const struct kiln_graph *g = u->graph;
    for (int i = 0; i < s->n_units; i++) {
        int32_t node = u->v.v[s->units[i]].node;
        if (node >= 0 && any_can_fail(g, &g->nodes.v[node])) return true;
    }
    return s->kernel && s->kernel->n_checks;
}

bool graph_can_fail(const struct kiln_graph *g, const struct device_caps *caps)
{
    for (size_t i = 0; i < g->nodes.n; i++)
        if (node_can_fail(g, &g->nodes.v[i], caps)) return true;
    return false;
}

static size_t count_first(const struct ordering *o, const struct fuse_schedule *s)
{
    size_t n = s->steps.n;
    while (n && !order_can_fail(o->u, &s->steps.v[n - 1])) n--;
    while (n && n < s->steps.n && s->steps.v[n].table >= 0 && s->steps.v[n].table == s->steps.v[n - 1].table) n++;
    return n;
}

// A table moves as a whole.
static size_t length_of(const struct fuse_schedule *s, size_t first, size_t end)
{
    size_t n = 1;
    const struct fuse_step *v = s->steps.v;
    while (v[first].table >= 0 && first + n < end && v[first + n].table == v[first].table) n++;
    return n;
}

static bool move_back(struct ordering *o, const struct fuse_schedule *s, size_t end, struct fuse_step *room)
{
    struct fuse_step *ahead = room, *behind = room + end;
    size_t n_ahead = 0, n_behind = 0;
    for (size_t i = 0, n; i < end; i += n) {
        bool moves = false, fails = false;
        n = length_of(s, i, end);
        for (size_t k = i; k < i + n; k++) {
            visit(o, &s->steps.v[k], writes_given, &moves);
            visit(o, &s->steps.v[k], meets, &moves);
            fails |= order_can_fail(o->u, &s->steps.v[k]);
        }
        if (moves && fails) return false;
        for (size_t k = i; k < i + n; k++) {
            if (moves) visit(o, &s->steps.v[k], note, NULL);
            *(moves ? &behind[n_behind++] : &ahead[n_ahead++]) = s->steps.v[k];
        }
    }
    memcpy(s->steps.v, ahead, n_ahead * sizeof *ahead);
    memcpy(s->steps.v + n_ahead, behind, n_behind * sizeof *behind);
    return true;
}

kiln_status order_writes_last(const struct units *u, struct fuse_schedule *s, bool *done)
{
    struct ordering o = {u, calloc(u->buffers.n + 1, 1)};
    struct fuse_step *room = malloc((2 * s->steps.n + 1) * sizeof *room);
    kiln_status status = o.used && room ? KILN_OK : error_set(KILN_E_MEMORY, "graph: out of memory");
    *done = !status && move_back(&o, s, count_first(&o, s), room);
    free(o.used);
    free(room);
    return status;
}
