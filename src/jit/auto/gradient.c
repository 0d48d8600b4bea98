// The tape behind the results of a walk: whole segments become one node each.
//
// Input: handles that leave the scope, once all others have gone. Output: the same handles, with places on nodes that
// stand for what each segment left on the tape. Each of these has a backward program of its own; they are chained by
// the tape as ever. The nodes that they stand for are not changed, and whoever else has them may go on with them.
//
// A node stays as it is where something besides the results can see it: it has a hook, a handle that is kept elsewhere
// shows its value, its rule is a user's, or the write of a saved value has made its gradient an error. Then all that it
// depends on stays, too, so that each hook sees one whole gradient. The others are taken in the order of their age and
// cut where the segment changes. Edges lead to older nodes, so no way leaves such a piece and comes back.
#include "grad/map.h"
#include "grad/registry.h"
#include "grad/tape.h"
#include "jit/auto/auto.h"
#include "ops/families.h"
#include <stdlib.h>
#include <string.h>

// A place on the tape that may be replaced: of a handle, or of a family, whose base it is.
struct slot {
    kiln_tensor *t;
    struct tape_family *family;
};

struct member {
    struct tape_node *n;
    int32_t refs;  // that are accounted for
    int32_t piece; // -1: it stays
};

// An output of a node, and what stands for it now.
struct replaced {
    struct tape_edge old, now;
};

struct collapse {
    const struct auto_walk *w;
    VEC(struct slot) slots;
    VEC(struct member) members; // oldest first, once they are sorted
    struct node_map index;      // of the members, from 1
    VEC(struct replaced) replaced;
    VEC(struct tape_node *) made; // references
    int32_t n_pieces;
};

// Reaching

static struct member *member_of(struct collapse *c, const struct tape_node *n)
{
    size_t i = n ? (size_t)(uintptr_t)node_map_get(&c->index, n) : 0;
    return i ? &c->members.v[i - 1] : NULL;
}

static kiln_status reach(struct collapse *c, struct tape_node *n)
{
    if (!n || n->kind == NODE_LEAF || n->sequence <= c->w->since) return KILN_OK;
    struct member *known = member_of(c, n);
    if (known) {
        known->refs++;
        return KILN_OK;
    }
    struct member m = {n, 1, 0};
    TRY(vec_push(&c->members, m));
    return node_map_put(&c->index, n, (void *)(uintptr_t)c->members.n);
}

static kiln_status add_slot(struct collapse *c, kiln_tensor *t)
{
    struct tape_edge edge;
    if (!t) return KILN_OK;
    TRY(tape_current(t, &edge));
    struct slot s = {t, NULL};
    for (size_t i = 0; i < c->slots.n; i++)
        if (c->slots.v[i].t == t) return KILN_OK;
    TRY(vec_push(&c->slots, s));
    TRY(reach(c, t->node));
    s = (struct slot){NULL, t->family};
    if (!s.family) return KILN_OK;
    for (size_t i = 0; i < c->slots.n; i++)
        if (c->slots.v[i].family == s.family) return KILN_OK;
    TRY(vec_push(&c->slots, s));
    return reach(c, s.family->base.node);
}

static int by_age(const void *a, const void *b)
{
    uint64_t x = ((const struct member *)a)->n->sequence, y = ((const struct member *)b)->n->sequence;
    return (x > y) - (x < y);
}

static kiln_status reach_all(struct collapse *c)
{
    for (size_t i = 0; i < c->members.n; i++) {
        const struct tape_node *n = c->members.v[i].n;
        for (int k = 0; k < n->n_in; k++) TRY(reach(c, n->edges[k].node));
    }
    if (c->members.n) qsort(c->members.v, c->members.n, sizeof *c->members.v, by_age);
    for (size_t i = 0; i < c->members.n; i++)
        TRY(node_map_put(&c->index, c->members.v[i].n, (void *)(uintptr_t)(i + 1)));
    return KILN_OK;
}

// What stays

static bool was_written(const struct tape_node *n)
{
    for (int i = 0; i < n->n_in + n->n_out; i++)
        if (n->values[i].state == VALUE_ABSTRACT ||
            (n->values[i].state == VALUE_STORAGE && n->values[i].version != n->values[i].storage->version))
            return true;
    return false;
}

// Random numbers have to be counted from the segment's first.
static bool draws(const struct tape_node *n)
{
    return !auto_is_tagged(n) && (n->op->flags & OP_RANDOM || op_attr_index(n->op, "seed") >= 0);
}

static bool stays(const struct member *m)
{
    const struct tape_node *n = m->n;
    if (n->kind != NODE_OP || n->freed || n->hooks || (n->drop && !auto_is_tagged(n))) return true;
    if (!grad_is_built_in(n->op, n->rule) || n->op == &op_instances[OP_to_device]) return true;
    return atomic_load(&n->refs) != m->refs || was_written(n) || draws(n);
}

static void find_what_stays(struct collapse *c)
{
    for (size_t i = c->members.n; i-- > 0;) {
        struct member *m = &c->members.v[i];
        if (m->piece >= 0 && stays(m)) m->piece = -1;
        for (int k = 0; k < m->n->n_in && m->piece < 0; k++) {
            struct member *from = member_of(c, m->n->edges[k].node);
            if (from) from->piece = -1;
        }
    }
}

// Pieces

static void cut(struct collapse *c)
{
    const struct segment *now = NULL;
    c->n_pieces = 0;
    for (size_t i = 0; i < c->members.n; i++) {
        struct member *m = &c->members.v[i];
        if (m->piece < 0) continue;
        const struct segment *s = auto_is_tagged(m->n) ? m->n->held : NULL;
        if (c->n_pieces == 0 || (s && now && s != now)) c->n_pieces++;
        if (s) now = s;
        m->piece = c->n_pieces - 1;
    }
}

static bool same_edge(const struct tape_edge *a, const struct tape_edge *b)
{
    return a->node == b->node && a->out == b->out;
}

static struct tape_edge now_at(const struct collapse *c, const struct tape_edge *e)
{
    for (size_t i = c->replaced.n; i-- > 0;)
        if (same_edge(&c->replaced.v[i].old, e)) return c->replaced.v[i].now;
    return *e;
}

static void add_leaving(struct collapse *c, struct tape_part *p, int32_t piece, const struct tape_edge *e)
{
    const struct member *m = member_of(c, e->node);
    if (!m || m->piece != piece) return;
    for (size_t i = 0; i < p->n_leaving; i++)
        if (same_edge(&p->leaving[i], e)) return;
    p->leaving[p->n_leaving++] = *e;
}

static struct tape_edge edge_of(const struct slot *s)
{
    return s->t ? (struct tape_edge){s->t->node, s->t->node_out} : s->family->base;
}

static void find_leaving(struct collapse *c, struct tape_part *p, int32_t piece)
{
    for (size_t i = 0; i < c->slots.n; i++) {
        const struct tape_edge e = edge_of(&c->slots.v[i]);
        add_leaving(c, p, piece, &e);
    }
    for (size_t i = 0; i < c->members.n; i++)
        for (int k = 0; c->members.v[i].piece > piece && k < c->members.v[i].n->n_in; k++)
            add_leaving(c, p, piece, &c->members.v[i].n->edges[k]);
}

static int32_t place_of(struct collapse *c, struct tape_part *p, int32_t piece, const struct tape_node *n, int k)
{
    const struct tape_edge *e = &n->edges[k];
    const struct member *m = member_of(c, e->node);
    if (!e->node) return PART_NONE;
    if (m && m->piece == piece) return (int32_t)part_index(p, e->node);
    for (size_t i = 0; i < p->n_outside; i++)
        if (same_edge(&p->outside[i], e)) return part_outside(i);
    p->outside[p->n_outside] = *e;
    node_value_type(n, &n->values[k], &p->types[p->n_outside]);
    return part_outside(p->n_outside++);
}

static void fill_part(struct collapse *c, int32_t piece, struct tape_part *p)
{
    size_t at = 0;
    for (size_t i = 0; i < c->members.n; i++) {
        const struct tape_node *n = c->members.v[i].n;
        if (c->members.v[i].piece != piece) continue;
        p->nodes[p->n_nodes++] = node_ref(c->members.v[i].n);
        for (int k = 0; k < n->n_in; k++) p->places[at++] = place_of(c, p, piece, n, k);
    }
    find_leaving(c, p, piece);
}

static kiln_status make_part(struct collapse *c, int32_t piece, struct tape_part **out)
{
    size_t n = 0, n_edges = 0, n_leaving = c->slots.n;
    for (size_t i = 0; i < c->members.n; i++) {
        const struct member *m = &c->members.v[i];
        n += m->piece == piece;
        n_edges += m->piece == piece ? m->n->n_in : 0;
        n_leaving += m->piece > piece ? m->n->n_in : 0;
    }
    struct tape_part *p = calloc(1, sizeof *p);
    if (!p) return error_set(KILN_E_MEMORY, "jit: out of memory");
    p->nodes = calloc(n + 1, sizeof(struct tape_node *));
    p->places = calloc(n_edges + 1, sizeof *p->places);
    p->outside = calloc(n_edges + 1, sizeof *p->outside);
    p->types = calloc(n_edges + 1, sizeof *p->types);
    p->leaving = calloc(n_leaving + 1, sizeof *p->leaving);
    *out = p;
    if (p->nodes && p->places && p->outside && p->types && p->leaving) {
        fill_part(c, piece, p);
        kiln_status status = part_find_leads(p);
        if (status) part_free(p);
        return status;
    }
    part_free(p);
    return error_set(KILN_E_MEMORY, "jit: out of memory");
}

static kiln_status note_replaced(struct collapse *c, const struct tape_edge *leaving, size_t n, struct tape_node *node)
{
    for (size_t i = 0; i < n; i++) {
        struct replaced r = {leaving[i], {node, (uint32_t)i}};
        TRY(vec_push(&c->replaced, r));
    }
    return KILN_OK;
}

static kiln_status replace(struct collapse *c, int32_t piece)
{
    struct tape_part *p;
    struct tape_node *node = NULL;
    TRY(make_part(c, piece, &p));
    size_t n = p->n_leaving;
    struct tape_edge *onward = calloc(p->n_outside + n + 1, sizeof *onward);
    if (!onward || !n || n > UINT8_MAX || p->n_outside == 0) {
        part_free(p);
        free(onward);
        return onward ? KILN_OK : error_set(KILN_E_MEMORY, "jit: out of memory");
    }
    struct tape_edge *leaving = onward + p->n_outside;
    for (size_t i = 0; i < p->n_outside; i++) onward[i] = now_at(c, &p->outside[i]);
    memcpy(leaving, p->leaving, n * sizeof *leaving);
    kiln_status status = auto_part_node(c->w->trie, p, onward, &node);
    if (!status && node) {
        status = vec_push(&c->made, node);
        if (status) node_unref(node);
        if (!status) status = note_replaced(c, leaving, n, node);
    }
    free(onward);
    return status;
}

static void install(struct collapse *c)
{
    for (size_t i = 0; i < c->slots.n; i++) {
        struct slot *s = &c->slots.v[i];
        const struct tape_edge old = edge_of(s), now = now_at(c, &old);
        if (same_edge(&old, &now)) continue;
        if (s->t) {
            tape_set_node(s->t, now.node, now.out);
            continue;
        }
        s->family->base = (struct tape_edge){node_ref(now.node), now.out};
        node_unref(old.node);
    }
}

// Tags are for this, and hold the recording.
static void untag(struct collapse *c)
{
    for (size_t i = 0; i < c->members.n; i++) {
        struct tape_node *n = c->members.v[i].n;
        if (!auto_is_tagged(n)) continue;
        n->drop = NULL;
        segment_unref(n->held);
    }
}

static kiln_status run(struct collapse *c, kiln_tensor *const *in, size_t n_in, kiln_tensor *const *out, size_t n_out)
{
    for (size_t i = 0; i < n_out; i++) TRY(add_slot(c, out[i]));
    for (size_t i = 0; i < n_in; i++) TRY(add_slot(c, in[i]));
    if (!c->members.n) return KILN_OK;
    TRY(reach_all(c));
    find_what_stays(c);
    cut(c);
    for (int32_t i = 0; i < c->n_pieces; i++) TRY(replace(c, i));
    install(c);
    return KILN_OK;
}

kiln_status auto_collapse(struct auto_walk *w, kiln_tensor *const *in, size_t n_in, kiln_tensor *const *out,
                          size_t n_out)
{
    struct collapse c = {.w = w};
    kiln_status status = run(&c, in, n_in, out, n_out);
    untag(&c);
    for (size_t i = 0; i < c.made.n; i++) node_unref(c.made.v[i]);
    vec_free(&c.slots);
    vec_free(&c.members);
    vec_free(&c.replaced);
    vec_free(&c.made);
    node_map_finish(&c.index);
    return status;
}
