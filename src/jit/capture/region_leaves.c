// Gradients of parameters that regions leave.
//
// A region that leaves another gradient in a parameter than it found is recorded once more, as a function that gives
// the gradient beside its outputs; the body of a loop takes it, too. So a node has a further result for each, which the
// capture around sets as kiln_set_gradient would. Whether there is a gradient at all has to be known: no branch may
// leave one where another leaves none. The first trip of a loop may find none all the same: it begins with -0, to which
// anything can be added without a change of its bits.
#include "jit/capture/region_leaves.h"
#include "base/leave.h"
#include "grad/run.h"
#include "grad/state.h"
#include "jit/capture/region.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

void region_leaves_finish(struct region_leaves *l)
{
    for (size_t i = 0; i < l->v.n; i++) node_unref(l->v.v[i].leaf);
    vec_free(&l->v);
}

static bool is_known(const struct region_leaves *l, const struct tape_node *leaf)
{
    for (size_t i = 0; i < l->v.n; i++)
        if (l->v.v[i].leaf == leaf) return true;
    return false;
}

kiln_status region_leaves_find(struct region_leaves *l, const struct recorder *r)
{
    bool more = false;
    for (size_t i = 0; i < r->gradients.n; i++) {
        const struct leaf_gradient *g = &r->gradients.v[i];
        if (!recorder_leaves_gradient(g) || is_known(l, g->leaf)) continue;
        TRY(vec_push(&l->v, ((struct region_leaf){g->leaf, !g->now, g->used})));
        node_ref(g->leaf);
        l->n_given += g->now != NULL;
        more = true;
    }
    if (!more) return KILN_OK;
    kiln_status status = recorder_check_gradients(r);
    l->more = status != KILN_OK;
    return status;
}

static const char *name_of(const struct region_leaf *leaf)
{
    return leaf->leaf->leaf->name ? leaf->leaf->leaf->name : "a leaf without a name";
}

static kiln_status refuse_both(const struct recorder *r, const struct region_leaf *leaf)
{
    return error_set(KILN_E_UNSUPPORTED,
                     "backward: regions of %s leave a gradient in %s in one case and none in another; in a graph there "
                     "is one or there is none: set it by kiln_set_gradient in both, or capture with KILN_CAPTURE_AUTO",
                     r->name, name_of(leaf));
}

// What the region has left in each leaf, as outputs of it.
static kiln_status take_out(const struct region_leaves *l, kiln_tensor **out)
{
    struct recorder *r = recorder_current();
    for (size_t i = 0; i < l->v.n; i++) {
        struct leaf_gradient *g = recorder_leaf_gradient(r, l->v.v[i].leaf, false);
        if (!g) return error_pending;
        if (!g->now != l->v.v[i].none) return refuse_both(r, &l->v.v[i]);
        if (g->now && !(*out++ = kiln_alias(g->now))) return error_pending;
        g->given = true;
    }
    return KILN_OK;
}

static kiln_status set(struct recorder *r, struct tape_node *leaf, kiln_tensor *value)
{
    kiln_tensor *mine = value ? kiln_alias(value) : NULL;
    if (value && !mine) return error_pending;
    if (mine) tape_set_node(mine, NULL, 0);
    TRY(recorder_note_gradient(&r->sink.base,
                               &(struct gradient_note){.event = GRADIENT_SET, .node = leaf, .gradient = mine}));
    leaf_set_gradient(leaf, mine);
    return error_pending;
}

// The node's results: what the capture around has from now on.
static kiln_status put_back(struct recorder *o, const struct region_leaves *l, kiln_tensor *const *results)
{
    for (size_t i = 0; i < l->v.n; i++) TRY(set(o, l->v.v[i].leaf, l->v.v[i].none ? NULL : *results++));
    return KILN_OK;
}

// Runs `take` until nothing is left that is not known.
struct attempt {
    struct sink *sink;
    struct region_leaves leaves;
    kiln_status (*take)(struct attempt *a, kiln_tensor **out);
    const struct control_branches *b;
    branches_taker *take_branches;
    bool *taken;
    const struct control_loop *l;
    loop_taker *take_loop;
};

static void finish_attempt(void *at)
{
    region_leaves_finish(&((struct attempt *)at)->leaves);
}

static kiln_status take_all(struct attempt *a, kiln_tensor **out)
{
    struct leave left;
    kiln_status status;
    leave_push(&left, finish_attempt, a);
    do {
        if (a->leaves.more) kiln_error_clear();
        a->leaves.more = false;
        status = a->take(a, out);
    } while (status && a->leaves.more);
    leave_pop(&left);
    finish_attempt(a);
    return status;
}

// The results of a node with those for the leaves, of which the function called sees its own.
static kiln_status in_scope(struct attempt *a, size_t n_own, size_t n_all,
                            kiln_status (*run)(struct attempt *a, kiln_tensor **all), kiln_tensor **out)
{
    kiln_tensor **all = calloc(n_all + 1, sizeof *all);
    if (!all) return error_set(KILN_E_MEMORY, "jit: out of memory");
    struct kiln_scope scope;
    struct leave left;
    scope_enter(&scope);
    leave_push(&left, free, all);
    kiln_status status = run(a, all);
    leave_pop(&left);
    if (!status && n_own) memcpy(out, all, n_own * sizeof *out);
    scope_leave(&scope, out, status ? 0 : n_own);
    free(all);
    return status;
}

// --- branches

struct branch_with_leaves {
    const struct attempt *a;
    size_t k;
};

static kiln_status run_branch(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct branch_with_leaves *w = user;
    const struct control_branches *b = w->a->b;
    void *of_branch = b->users ? b->users[w->k] : b->user;
    if (b->fn[w->k]) TRY(state_call(b->fn[w->k], of_branch, in, n_in, out, n_out - w->a->leaves.n_given));
    return take_out(&w->a->leaves, out + b->n_out);
}

static kiln_status take_branches_with(struct attempt *a, kiln_tensor **all)
{
    struct control_branches b = *a->b;
    struct branch_with_leaves *of = calloc(b.n + 1, sizeof *of);
    void **users = calloc(b.n + 1, sizeof *users + sizeof(kiln_fn));
    kiln_fn *fns = (kiln_fn *)(users + b.n);
    kiln_status status = of && users ? KILN_OK : error_set(KILN_E_MEMORY, "%s: out of memory", b.op);
    for (size_t k = 0; k < b.n && !status; k++) {
        of[k] = (struct branch_with_leaves){a, k};
        users[k] = &of[k];
        fns[k] = run_branch;
    }
    b.users = users;
    b.fn = fns;
    b.n_out += a->leaves.n_given;
    struct leave left[2];
    leave_push(&left[0], free, of);
    leave_push(&left[1], free, users);
    if (!status) status = a->take_branches(a->sink, &b, &a->leaves, all, a->taken);
    if (!status && *a->taken) status = put_back(recorder_of(a->sink), &a->leaves, all + a->b->n_out);
    leave_pop(&left[1]);
    leave_pop(&left[0]);
    free(of);
    free(users);
    return status;
}

static kiln_status take_branches(struct attempt *a, kiln_tensor **out)
{
    if (!a->leaves.v.n) return a->take_branches(a->sink, a->b, &a->leaves, out, a->taken);
    return in_scope(a, a->b->n_out, a->b->n_out + a->leaves.n_given, take_branches_with, out);
}

kiln_status region_leaves_of_branches(struct sink *s, const struct control_branches *b, branches_taker *take,
                                      kiln_tensor **out, bool *taken)
{
    struct attempt a = {.sink = s, .take = take_branches, .b = b, .take_branches = take, .taken = taken};
    return take_all(&a, out);
}

// --- loops

struct loop_with_leaves {
    const struct attempt *a;
    const bool *absent; // n_given: there is none before the first trip
};

static kiln_status put_in(const struct region_leaves *l, const bool *absent, kiln_tensor *const *in)
{
    struct recorder *r = recorder_current();
    for (size_t i = 0; i < l->v.n; i++) {
        if (l->v.v[i].none) continue;
        struct leaf_gradient *g = recorder_leaf_gradient(r, l->v.v[i].leaf, false);
        kiln_tensor *now = g ? tensor_second(*in++) : NULL;
        if (!now) return error_pending;
        if (g->now) tensor_destroy(g->now);
        g->now = kiln_own(now);
        g->had = g->given = true;
        g->absent = *absent++;
        g->storage_before = now->storage;
        g->value_before = now->value;
    }
    return KILN_OK;
}

static kiln_status run_trip(const struct loop_with_leaves *w, kiln_tensor *const *in, size_t n_in, kiln_tensor **room,
                            kiln_tensor **out)
{
    const struct control_loop *l = w->a->l;
    size_t n = w->a->leaves.n_given, at = l->numbered + l->n_carried, n_made = l->n_carried + l->n_stacked;
    kiln_tensor **made = room + n_in;
    memcpy(room, in, at * sizeof *in);
    memcpy(room + at, in + at + n, (n_in - at - n) * sizeof *in);
    TRY(put_in(&w->a->leaves, w->absent, in + at));
    TRY(state_call(l->body, l->user, room, n_in - n, made, n_made));
    memcpy(out, made, l->n_carried * sizeof *out);
    memcpy(out + l->n_carried + n, made + l->n_carried, l->n_stacked * sizeof *out);
    return take_out(&w->a->leaves, out + l->n_carried);
}

static kiln_status run_body(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct loop_with_leaves *w = user;
    kiln_tensor **room = calloc(n_in + n_out + 1, sizeof *room);
    if (!room) return error_set(KILN_E_MEMORY, "%s: out of memory", w->a->l->op);
    struct leave left;
    leave_push(&left, free, room);
    kiln_status status = run_trip(w, in, n_in, room, out);
    leave_pop(&left);
    free(room);
    return status;
}

static kiln_status run_cond(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct attempt *a = ((const struct loop_with_leaves *)user)->a;
    return state_call(a->l->cond, a->l->user, in, n_in - a->leaves.n_given, out, n_out);
}

// -1: not before it runs.
static kiln_status count_trips(struct recorder *o, const struct control_loop *l, int64_t *trips)
{
    kiln_tensor *count;
    *trips = l->count_of ? -1 : l->count;
    if (!l->count_of) return KILN_OK;
    TRY(recorder_resolve(o, l->op, l->count_of, &count));
    return count->builder ? KILN_OK : loop_read_count(l, trips);
}

static kiln_status refuse_start(const struct recorder *o, const struct region_leaf *leaf, bool there)
{
    return error_set(KILN_E_UNSUPPORTED,
                     "backward: the body of a loop of %s leaves %s in %s, where there is %s before; whether it runs is "
                     "not known: %s before the loop, or capture with KILN_CAPTURE_AUTO",
                     o->name, there ? "no gradient" : "a gradient", name_of(leaf), there ? "one" : "none",
                     there ? "take it away" : "set one by kiln_set_gradient");
}

// What the first trip finds. `absent`: nothing; its trips are known to be some.
static kiln_status find_start(struct recorder *o, const struct region_leaf *leaf, int64_t trips, kiln_tensor **start,
                              bool *absent)
{
    struct leaf_gradient *g = recorder_leaf_gradient(o, leaf->leaf, leaf->used || trips <= 0);
    if (!g) return error_pending;
    *start = g->now && (g->used || trips <= 0) ? kiln_alias(g->now) : NULL;
    if (*start || error_pending) return error_pending;
    if (trips < 0) return refuse_start(o, leaf, false);
    if (leaf->used) recorder_found_no_gradient(&o->sink.base, leaf->leaf);
    const struct tape_node *n = leaf->leaf;
    *absent = true;
    *start = kiln_full(NULL, (kiln_dtype)n->values[0].dtype, n->values[0].rank, n->dims, -0.0);
    return error_pending;
}

static kiln_status find_none(struct recorder *o, const struct region_leaf *leaf, int64_t trips)
{
    struct leaf_gradient *g = recorder_leaf_gradient(o, leaf->leaf, leaf->used || trips < 0);
    if (!g) return error_pending;
    if (!g->now) return KILN_OK;
    if (trips < 0) return refuse_start(o, leaf, true);
    if (!leaf->used || trips < 2) return KILN_OK;
    return error_set(KILN_E_UNSUPPORTED,
                     "backward: the body of a loop of %s uses the gradient that it finds in %s, and leaves none: its "
                     "first trip is another one than the others; call kiln_set_gradient with NULL before the loop, or "
                     "capture with KILN_CAPTURE_AUTO",
                     o->name, name_of(leaf));
}

static kiln_status find_starts(struct attempt *a, int64_t trips, kiln_tensor **in, bool *absent)
{
    struct recorder *o = recorder_of(a->sink);
    for (size_t i = 0; i < a->leaves.v.n; i++) {
        const struct region_leaf *leaf = &a->leaves.v.v[i];
        TRY(leaf->none ? find_none(o, leaf, trips) : find_start(o, leaf, trips, in, absent));
        in += !leaf->none;
        absent += !leaf->none;
    }
    return KILN_OK;
}

static kiln_status take_loop_in(struct attempt *a, kiln_tensor **in, bool *absent, kiln_tensor **all)
{
    struct control_loop l = *a->l;
    struct loop_with_leaves w = {a, absent};
    size_t n = a->leaves.n_given;
    int64_t trips;
    TRY(count_trips(recorder_of(a->sink), &l, &trips));
    if (l.n_carried) memcpy(in, l.in, l.n_carried * sizeof *in);
    if (l.n_scanned) memcpy(in + l.n_carried + n, l.in + l.n_carried, l.n_scanned * sizeof *in);
    TRY(find_starts(a, trips, in + l.n_carried, absent));
    l.draws.late = !region_takes_number(NULL, 0, l.count_of, l.in, l.n_carried + l.n_scanned);
    l.in = in;
    l.n_carried += n;
    l.body = run_body;
    if (l.cond) l.cond = run_cond;
    l.user = &w;
    TRY(a->take_loop(a->sink, &l, &a->leaves, all));
    if (trips) TRY(put_back(recorder_of(a->sink), &a->leaves, all + a->l->n_carried));
    memmove(all + a->l->n_carried, all + l.n_carried, l.n_stacked * sizeof *all);
    return KILN_OK;
}

static kiln_status take_loop_with(struct attempt *a, kiln_tensor **all)
{
    size_t n = a->l->n_carried + a->l->n_scanned + a->leaves.n_given;
    kiln_tensor **in = calloc(n + 1, sizeof *in + sizeof(bool));
    if (!in) return error_set(KILN_E_MEMORY, "%s: out of memory", a->l->op);
    struct leave left;
    leave_push(&left, free, in);
    kiln_status status = take_loop_in(a, in, (bool *)(in + n), all);
    leave_pop(&left);
    free(in);
    return status;
}

static kiln_status take_loop(struct attempt *a, kiln_tensor **out)
{
    size_t n_out = a->l->n_carried + a->l->n_stacked;
    if (!a->leaves.v.n) return a->take_loop(a->sink, a->l, &a->leaves, out);
    return in_scope(a, n_out, n_out + a->leaves.n_given, take_loop_with, out);
}

kiln_status region_leaves_of_loop(struct sink *s, const struct control_loop *l, loop_taker *take, kiln_tensor **out)
{
    struct attempt a = {.sink = s, .take = take_loop, .l = l, .take_loop = take};
    return take_all(&a, out);
}
