// The backward engine. Input: gradients at some outputs of some nodes. Output: the gradient of every leaf they reach,
// or of the nodes asked for. Nodes wait in a heap, newest first; an edge leads to an older node, so when a node comes
// up, all that flows into it has arrived. Each is run once: hooks, rule, one gradient an edge, added to what waits
// there. Gradients of pieces of a value (pieces.h) are put together when the value's node comes up. No recursion,
// whatever the depth.
//
// With targets, a first pass finds the nodes from which a target can be reached; rules are not asked for the gradients
// of others. Leaves are written when everything has succeeded: after an error they are as before.
#include "base/leave.h"
#include "base/process.h"
#include "base/where.h"
#include "grad/registry.h"
#include "grad/fit.h"
#include "grad/arrive.h"
#include "grad/rule.h"
#include "grad/run_entry.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

#define FEW 16

// What `info` says of a node, as a pointer: bit 0 it matters, from bit 1 its index among the targets plus one.
static bool matters(const struct run *r, const struct tape_node *n)
{
    return !r->n_targets || ((uintptr_t)node_map_get(&r->info, n) & 1);
}

// Whether what arrives at an edge goes on to something that does.
bool run_edge_matters(const struct run *r, const struct tape_edge *e)
{
    if (!e->node || !matters(r, e->node)) return false;
    const bool *outs = r->by_out.n ? node_map_get(&r->by_out, e->node) : NULL;
    return !outs || outs[e->out];
}

static size_t target_index(const struct run *r, const struct tape_node *n)
{
    return ((uintptr_t)node_map_get(&r->info, n) >> 1) - 1;
}

bool run_is_target(const struct run *r, const struct tape_node *n)
{
    return r->n_targets && target_index(r, n) < r->n_targets;
}

static bool newer(const struct run_entry *a, const struct run_entry *b)
{
    return a->node->sequence > b->node->sequence;
}

static void sift_up(struct run_entry **heap, size_t i)
{
    struct run_entry *e = heap[i];
    for (; i && newer(e, heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = e;
}

static struct run_entry *pop(struct run *r)
{
    struct run_entry *top = r->heap[0], *e = r->heap[--r->n_heap];
    size_t i = 0;
    for (size_t c; (c = 2 * i + 1) < r->n_heap; i = c) {
        if (c + 1 < r->n_heap && newer(r->heap[c + 1], r->heap[c])) c++;
        if (!newer(r->heap[c], e)) break;
        r->heap[i] = r->heap[c];
    }
    if (r->n_heap) r->heap[i] = e;
    return top;
}

static kiln_status grow_list(void **list, size_t n, size_t *cap, size_t item_B)
{
    if (n < *cap) return KILN_OK;
    size_t more = *cap ? *cap * 2 : 64;
    void *v = realloc(*list, more * item_B);
    if (!v) return error_set(KILN_E_MEMORY, "backward: out of memory");
    *list = v;
    *cap = more;
    return KILN_OK;
}

kiln_status run_entry_of(struct run *r, struct tape_node *n, struct run_entry **out)
{
    *out = node_map_get(&r->entries, n);
    if (*out) return KILN_OK;
    struct run_entry *e = r->spare;
    TRY(grow_list((void **)&r->heap, r->n_heap, &r->cap_heap, sizeof *r->heap));
    if (e)
        r->spare = e->next;
    else
        e = malloc(sizeof *e);
    if (!e) return error_set(KILN_E_MEMORY, "backward: out of memory");
    *e = (struct run_entry){.node = n};
    e->grads = n->n_out > OP_MAX_OUT ? calloc(n->n_out, sizeof(kiln_tensor *)) : e->few;
    if (!e->grads || node_map_put(&r->entries, n, e)) {
        if (!e->grads) error_set(KILN_E_MEMORY, "backward: out of memory");
        if (e->grads != e->few) free(e->grads);
        free(e);
        return error_pending;
    }
    node_ref(n);
    r->heap[r->n_heap] = e;
    sift_up(r->heap, r->n_heap++);
    *out = e;
    return KILN_OK;
}

static void retire(struct run *r, struct run_entry *e)
{
    for (int i = 0; i < e->node->n_out; i++)
        if (e->grads[i]) tensor_destroy(e->grads[i]);
    pieces_clear(&e->pieces);
    if (e->grads != e->few) free(e->grads);
    node_unref(e->node);
    e->next = r->spare;
    r->spare = e;
}

kiln_status run_add_to(kiln_tensor **slot, kiln_tensor *grad)
{
    if (!*slot) {
        *slot = grad;
        return KILN_OK;
    }
    kiln_tensor *sum = kiln_add(*slot, grad);
    if (!sum) return error_pending;
    tensor_destroy(*slot);
    tensor_destroy(grad);
    *slot = sum;
    return KILN_OK;
}

kiln_status run_add(struct run *r, const struct tape_edge *at, kiln_tensor *grad)
{
    struct run_entry *e;
    TRY(run_entry_of(r, at->node, &e));
    return run_add_to(&e->grads[at->out], grad);
}

struct hook_call {
    const struct tape_hook *hook;
    kiln_tensor *grad, *other;
};

static void call_hook(void *at)
{
    struct hook_call *c = at;
    c->other = c->hook->fn(c->hook->user, c->grad);
}

// Runs the user's hooks on one gradient; *grad is replaced by what they return.
static kiln_status run_hooks(const struct run *r, struct tape_node *n, uint32_t out, kiln_tensor **grad)
{
    for (const struct tape_hook *h = n->hooks, *next; h; h = next) {
        next = h->next;
        if (h->out != out) continue;
        struct kiln_scope scope;
        scope_enter(&scope);
        struct hook_call call = {h, *grad, NULL};
        leave_call(call_hook, &call);
        kiln_tensor *other = call.other, *mine = NULL;
        if (other && other != *grad && !error_pending) {
            struct type type;
            node_value_type(n, &n->values[n->n_in + (int)out], &type);
            other = grad_fit(node_name(n), 0, other, &type);
            if (other && r->may_be_absent) other = arrive_if(other, 1, grad);
            mine = other ? grad_second_handle(other) : NULL;
        }
        scope_leave(&scope, &mine, mine ? 1 : 0);
        if (error_pending) return error_pending;
        if (!mine) continue;
        tensor_destroy(*grad);
        *grad = mine;
    }
    return KILN_OK;
}

// The gradient of an output that nothing reached: zeros where another one has one.
static kiln_status fill_missing(const struct run *r, struct run_entry *e)
{
    struct tape_node *n = e->node;
    kiln_device *dev = NULL;
    if (n->rule && (n->rule->takes_missing || n->rule->missing_is_null)) return KILN_OK;
    for (int i = 0; i < n->n_out; i++)
        if (e->grads[i] && e->grads[i]->storage) dev = e->grads[i]->storage->dev;
    for (int i = 0; i < n->n_out; i++) {
        struct type t;
        node_value_type(n, &n->values[n->n_in + i], &t);
        if (e->grads[i] || dtype_kind_of[t.dtype] != KIND_FLOAT) continue;
        kiln_tensor *zeros = kiln_zeros(dev, (kiln_dtype)t.dtype, t.rank, t.dims);
        e->grads[i] = zeros && r->may_be_absent ? arrive_if(zeros, (size_t)n->n_out, e->grads) : zeros;
        if (!e->grads[i]) return error_pending;
        if (e->grads[i] != zeros) tensor_destroy(zeros);
    }
    return KILN_OK;
}

// The rule's results as handles of the open scope, fitted to the inputs.
static kiln_status take_results(const struct tape_node *n, const uint8_t *wanted, kiln_tensor **din,
                                const struct kiln_scope *scope)
{
    for (int i = 0; i < n->n_in; i++) {
        if (!wanted[i]) din[i] = NULL;
        if (!din[i]) continue;
        struct type type;
        node_value_type(n, &n->values[i], &type);
        kiln_tensor *g = grad_fit(n->op->name, i, din[i], &type);
        if (!g) return error_pending;
        bool shared = g->scope != scope;
        for (int k = 0; k < i && !shared; k++) shared = din[k] == g;
        for (int k = i + 1; k < n->n_in && !shared; k++) shared = din[k] == g;
        din[i] = shared ? grad_second_handle(g) : g;
        if (!din[i]) return error_pending;
    }
    return KILN_OK;
}

// With the scope in which the results are made.
static kiln_status ask_rule(struct run *r, struct run_entry *e, const uint8_t *wanted, kiln_tensor **din,
                            const struct kiln_scope *scope)
{
    struct tape_node *n = e->node;
    kiln_tensor *given[OP_MAX_OUT];
    bool users = arrive_is_asked(r, n);
    if (users) TRY(arrive_at_rule(n, e->grads, given));
    uintptr_t where = KILN_UNLIKELY(n->where) ? where_give(where_backward_of(n->where)) : 0;
    kiln_status status = rule_run(n, r, wanted, users ? given : e->grads, din);
    if (KILN_UNLIKELY(n->where)) where_give(where);
    TRY(status);
    TRY(take_results(n, wanted, din, scope));
    return users ? arrive_from_rule(n, e->grads, din) : KILN_OK;
}

static kiln_status run_node(struct run *r, struct run_entry *e, uint8_t *wanted, kiln_tensor **din)
{
    struct tape_node *n = e->node;
    if (n->freed)
        return error_set(KILN_E_GRADIENT,
                         "backward: the tape of %s was used up by an earlier backward; pass .keep_tape to that one",
                         n->op->name);
    for (int i = 0; i < n->n_in; i++) {
        wanted[i] = run_edge_matters(r, &n->edges[i]);
        din[i] = NULL;
        if (KILN_UNLIKELY(wanted[i] && node_is_cut(n->edges[i].node)))
            return node_cut_error("backward", n->edges[i].node);
    }
    TRY(fill_missing(r, e));
    struct grad_piece piece = {.grad = e->grads[0]};
    bool moved = false;
    if (n->n_in == 1 && wanted[0] && piece_of(n, &piece)) TRY(run_move_piece(r, n, &piece, &moved));
    if (moved) {
        e->grads[0] = NULL;
        return KILN_OK;
    }
    struct kiln_scope scope;
    scope_enter(&scope);
    kiln_status status = ask_rule(r, e, wanted, din, &scope);
    scope_leave(&scope, din, status ? 0 : n->n_in);
    for (int i = 0; i < n->n_in && !status; i++)
        if (din[i]) status = run_add(r, &n->edges[i], din[i]);
    return status;
}

static void use_up(const struct run *r, struct tape_node *n)
{
    if (!r->keep && n->sequence > r->since) node_release_saved(n);
}

static kiln_status run_op(struct run *r, struct run_entry *e)
{
    struct tape_node *n = e->node;
    kiln_tensor *few[FEW], **din = n->n_in > FEW ? malloc(sizeof *din * n->n_in) : few;
    uint8_t few_wanted[FEW], *wanted = n->n_in > FEW ? malloc(n->n_in) : few_wanted;
    struct leave lists[2];
    leave_push(&lists[0], free, din != few ? din : NULL);
    leave_push(&lists[1], free, wanted != few_wanted ? wanted : NULL);
    kiln_status status = din && wanted ? KILN_OK : error_set(KILN_E_MEMORY, "backward: out of memory");
    if (!status) status = run_node(r, e, wanted, din);
    leave_pop(&lists[0]);
    if (din != few) free(din);
    if (wanted != few_wanted) free(wanted);
    if (!status) use_up(r, n);
    return status;
}

// A backward of the user's own, inside a capture.
static bool is_captured(const struct run *r)
{
    const struct sink *sink = thread_state.sink;
    return sink && sink->capture && !r->n_targets && !r->builder;
}

static kiln_status run_leaf(struct run *r, struct run_entry *e, kiln_tensor *raw)
{
    if (!e->node->leaf->requires_grad) return KILN_OK;
    TRY(grow_list((void **)&r->results, r->n_results, &r->cap_results, sizeof *r->results));
    r->results[r->n_results++] = (struct leaf_result){node_ref(e->node), e->grads[0], raw};
    e->grads[0] = NULL;
    return KILN_OK;
}

// At an input of a function: the gradient goes on outside.
static kiln_status run_input(struct run *r, struct run_entry *e)
{
    struct tape_node *n = e->node;
    kiln_tensor *g = e->grads[0];
    if (n->edges[0].node) {
        if (!run_edge_matters(r, &n->edges[0])) return KILN_OK;
        e->grads[0] = NULL;
        return run_add(r, &n->edges[0], g);
    }
    if (!is_captured(r)) return KILN_OK;
    TRY(grow_list((void **)&r->arrived, r->n_arrived, &r->cap_arrived, sizeof *r->arrived));
    r->arrived[r->n_arrived++] = (struct leaf_result){node_ref(n), g, NULL};
    e->grads[0] = NULL;
    return KILN_OK;
}

// The gradients of targets that others lie behind.
static kiln_status capture_on_the_way(struct run *r, const struct run_entry *e)
{
    for (size_t i = 0; i < r->n_targets; i++) {
        if (r->targets[i] != e->node || !e->grads[r->outs[i]]) continue;
        r->captured[i] = grad_second_handle(e->grads[r->outs[i]]);
        if (!r->captured[i]) return error_pending;
    }
    return KILN_OK;
}

static bool leads_on(const struct run *r, const struct tape_node *n)
{
    bool leads = false;
    for (int i = 0; i < n->n_in; i++) leads |= run_edge_matters(r, &n->edges[i]);
    return leads;
}

static kiln_status run_entry(struct run *r, struct run_entry *e)
{
    struct tape_node *n = e->node;
    kiln_tensor *raw = NULL;
    bool only_pieces = e->pieces.n && !e->grads[0];
    TRY(run_pass_on(r, e));
    if (only_pieces && !e->pieces.n) {
        use_up(r, n);
        return KILN_OK;
    }
    TRY(run_join_pieces(e));
    if (n->kind == NODE_LEAF && is_captured(r) && !(raw = grad_second_handle(e->grads[0]))) return error_pending;
    for (int i = 0; n->hooks && i < n->n_out; i++)
        if (e->grads[i]) TRY(run_hooks(r, n, (uint32_t)i, &e->grads[i]));
    size_t target = r->n_targets ? target_index(r, n) : SIZE_MAX;
    if (target < r->n_targets && r->outs) {
        TRY(capture_on_the_way(r, e));
        if (!leads_on(r, n)) return KILN_OK;
    } else if (target < r->n_targets) {
        r->captured[target] = e->grads[0];
        e->grads[0] = NULL;
        return KILN_OK;
    }
    if (n->kind == NODE_LEAF) return r->n_targets ? KILN_OK : run_leaf(r, e, raw);
    if (n->kind == NODE_OP) return run_op(r, e);
    if (n->kind == NODE_CUT) return node_cut_error("backward", n);
    return run_input(r, e);
}

// Which nodes matter: all that can be reached, oldest first, so that the nodes behind the edges are known.
struct reach {
    const struct tape_node **v;
    size_t n, cap;
};

static kiln_status visit(struct run *r, struct reach *all, const struct tape_node *n)
{
    if (!n || node_map_get(&r->info, n)) return KILN_OK;
    TRY(grow_list((void **)&all->v, all->n, &all->cap, sizeof *all->v));
    all->v[all->n++] = n;
    return node_map_put(&r->info, n, (void *)(uintptr_t)(1u << 31)); // seen; cleared below
}

static bool ends(const struct run *r, const struct tape_node *n)
{
    bool own_input = n->kind == NODE_INPUT && n->sequence > r->since && n->sequence <= r->inputs_until;
    return n->kind == NODE_LEAF || own_input || (r->only_new && n->sequence <= r->since);
}

static int by_age(const void *a, const void *b)
{
    uint64_t x = (*(const struct tape_node *const *)a)->sequence, y = (*(const struct tape_node *const *)b)->sequence;
    return (x > y) - (x < y);
}

static bool is_outside(const struct run *r, const struct tape_node *n)
{
    return node_is_cut(n) || (n->kind == NODE_LEAF && n->leaf->requires_grad) ||
           (r->only_new && n->sequence <= r->since);
}

// An input of the capture in progress: what lies behind is known at each call only.
static bool is_entry(const struct tape_node *n)
{
    struct sink *s = thread_state.sink;
    return s && s->capture && s->capture->is_entry && s->capture->is_entry(s, n);
}

// Of a node that stands for several: which of its outputs lead to what matters.
static kiln_status find_outs(struct run *r, const struct tape_node *n)
{
    if (n->freed || !n->rule || !n->rule->leads) return KILN_OK;
    bool *outs = calloc(n->n_out, sizeof *outs);
    if (!outs) return error_set(KILN_E_MEMORY, "backward: out of memory");
    for (int k = 0; k < n->n_in; k++) {
        bool in = run_edge_matters(r, &n->edges[k]);
        for (int i = 0; i < n->n_out && in; i++) outs[i] |= n->rule->leads(n, i, k);
    }
    kiln_status status = node_map_put(&r->by_out, n, outs);
    if (status) free(outs);
    return status;
}

static kiln_status reach_all(struct run *r, struct reach *all)
{
    for (size_t i = 0; i < r->n_also; i++) TRY(visit(r, all, r->also[i]));
    for (size_t i = 0; i < r->n_heap; i++) TRY(visit(r, all, r->heap[i]->node));
    for (size_t i = 0; i < all->n; i++) {
        const struct tape_node *n = all->v[i];
        r->is_outside |= is_outside(r, n);
        r->enters |= n->kind == NODE_INPUT && !n->edges[0].node && !ends(r, n) && is_entry(n);
        for (int k = 0; k < n->n_in && !ends(r, n); k++) TRY(visit(r, all, n->edges[k].node));
    }
    if (all->n) qsort(all->v, all->n, sizeof *all->v, by_age);
    for (size_t i = 0; i < all->n; i++) {
        const struct tape_node *n = all->v[i];
        // Running it tells what happened.
        uintptr_t mark = (n->freed && !ends(r, n)) || (r->cuts && node_is_cut(n)), other = mark;
        for (size_t t = 0; t < r->n_targets; t++)
            if (r->targets[t] == n) mark = (t + 1) << 1 | 1;
        for (int k = 0; k < n->n_in && !mark && !ends(r, n); k++) mark = run_edge_matters(r, &n->edges[k]);
        TRY(node_map_put(&r->info, n, (void *)mark));
        if (mark == 1 && !other) TRY(find_outs(r, n));
    }
    return KILN_OK;
}

static kiln_status find_what_matters(struct run *r)
{
    struct reach all = {NULL, 0, 0};
    kiln_status status = reach_all(r, &all);
    free(all.v);
    return status;
}

static pthread_mutex_t leaf_lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_leaf, leaf_lock)

// A gradient of its own: it may be written, and outlives what it came from.
static kiln_tensor *own_gradient(struct run *r, kiln_tensor *g)
{
    bool shared = g->storage && (atomic_load(&g->storage->refs) > 1 || !layout_is_contiguous(&g->type, &g->layout));
    kiln_tensor *mine = shared && !r->create_graph ? kiln_contiguous(g) : g;
    return mine && g->builder ? g : mine;
}

// All gradients are made before one is set.
static kiln_status commit_locked(struct run *r)
{
    struct sink *sink = thread_state.sink;
    for (size_t i = 0; i < r->n_results; i++) {
        struct leaf_result *e = &r->results[i];
        kiln_tensor *g = e->grad, *old;
        TRY(leaf_get_gradient(e->leaf, &old));
        if (r->accumulate && !old && sink && sink->capture) sink->capture->found_no_gradient(sink, e->leaf);
        g = r->accumulate && old ? kiln_add(old, g) : own_gradient(r, g);
        if (!g) return error_pending;
        e->grad = g;
    }
    for (size_t i = 0; i < r->n_results; i++) {
        struct tape_node *leaf = r->results[i].leaf;
        if (atomic_load(&leaf->leaf->handles) > 0) leaf_set_gradient(leaf, r->results[i].grad);
    }
    return KILN_OK;
}

kiln_status run_note(const struct gradient_note *n)
{
    struct sink *sink = thread_state.sink;
    return sink && sink->capture ? sink->capture->note_gradient(sink, n) : KILN_OK;
}

static kiln_status tell_capture(const struct run *r)
{
    const struct gradient_note begin = {
        .event = GRADIENT_RUN, .accumulate = r->accumulate, .keep = r->keep, .create_graph = r->create_graph};
    TRY(run_note(&begin));
    for (size_t i = 0; i < r->n_results; i++) {
        const struct leaf_result *e = &r->results[i];
        TRY(run_note(&(struct gradient_note){.event = GRADIENT_LEFT, .node = e->leaf, .gradient = e->raw}));
    }
    for (size_t i = 0; i < r->n_arrived; i++) {
        const struct leaf_result *e = &r->arrived[i];
        TRY(run_note(&(struct gradient_note){.event = GRADIENT_ARRIVED, .node = e->leaf, .gradient = e->grad}));
    }
    return KILN_OK;
}

// Threads may share leaves.
static kiln_status commit(struct run *r)
{
    pthread_mutex_lock(&leaf_lock);
    kiln_status status = commit_locked(r);
    pthread_mutex_unlock(&leaf_lock);
    return status;
}

static kiln_status run_all(struct run *r)
{
    if (r->n_targets) TRY(find_what_matters(r));
    while (r->n_heap) {
        struct run_entry *e = r->now = pop(r);
        node_map_remove(&r->entries, e->node);
        kiln_status status = matters(r, e->node) ? run_entry(r, e) : KILN_OK;
        r->now = NULL;
        retire(r, e);
        TRY(status);
    }
    if (r->n_targets || r->builder) return KILN_OK;
    if (is_captured(r)) TRY(tell_capture(r));
    return commit(r);
}

static void finish_left(void *r)
{
    run_finish(r);
}

kiln_status run_backward(struct run *r)
{
    int no_grad = thread_state.no_grad;
    bool in_rules = thread_state.in_rules;
    struct leave left;
    thread_state.no_grad = r->create_graph ? 0 : no_grad + 1;
    thread_state.in_rules = true;
    r->keep |= r->create_graph;
    leave_push(&left, finish_left, r);
    kiln_status status = run_all(r);
    leave_pop(&left);
    thread_state.no_grad = no_grad;
    thread_state.in_rules = in_rules;
    return status;
}

void run_finish(struct run *r)
{
    if (r->now) retire(r, r->now);
    while (r->n_heap) retire(r, pop(r));
    while (r->spare) {
        struct run_entry *e = r->spare;
        r->spare = e->next;
        free(e);
    }
    for (size_t i = 0; i < r->n_results; i++) node_unref(r->results[i].leaf);
    for (size_t i = 0; i < r->n_arrived; i++) node_unref(r->arrived[i].leaf);
    free(r->results);
    free(r->arrived);
    free(r->heap);
    node_map_finish(&r->entries);
    node_map_finish(&r->info);
    for (size_t i = 0; i < r->by_out.cap; i++) free(r->by_out.v[i].value);
    node_map_finish(&r->by_out);
}
