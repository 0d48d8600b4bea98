// The gradients of leaves while a function is captured.
//
// They are the capture's own: other threads see the gradients that the leaves have outside. A backward inside gives
// gradients to leaves, and may come to inputs that others outside were made into. There it has
// to go on, on the tape of each call. What that adds is not known here, so a leaf that it may come to must not have its
// gradient read afterwards: such leaves are marked, and a call whose tape leads to one is refused.
#include "jit/capture/recorder.h"

static bool is_parameter(const struct source *s)
{
    return s->kind == SOURCE_LEAF || s->kind == SOURCE_INPUT;
}

static const char *leaf_name(const struct tape_node *leaf)
{
    return leaf->leaf->name ? leaf->leaf->name : "a leaf without a name";
}

static int32_t source_of_leaf(const struct recorder *r, const struct tape_node *leaf)
{
    for (int32_t i = chains_first(&r->sources_of, leaf); i >= 0; i = chains_next(&r->sources_of, i))
        if (is_parameter(&r->sources.v[i])) return i;
    return -1;
}

static kiln_tensor *gradient_before(const struct recorder *r, struct tape_node *leaf, bool uses)
{
    if (r->outer) {
        const struct leaf_gradient *around = recorder_leaf_gradient(r->outer, leaf, uses);
        return around && around->now ? tensor_second(around->now) : NULL;
    }
    int32_t source = source_of_leaf(r, leaf);
    if (source >= 0) return r->sources.v[source].gradient ? tensor_second(r->sources.v[source].gradient) : NULL;
    kiln_tensor *g;
    return leaf_hold_gradient(leaf, &g) ? NULL : g;
}

static struct leaf_gradient *find(const struct recorder *r, const struct tape_node *leaf)
{
    int32_t i = chains_first(&r->gradients_of, leaf);
    return i < 0 ? NULL : &r->gradients.v[i];
}

struct leaf_gradient *recorder_leaf_gradient(struct recorder *r, struct tape_node *leaf, bool uses)
{
    struct leaf_gradient *known = find(r, leaf);
    if (known && uses && !known->used && !known->replaced) {
        known->used = true;
        if (r->outer && !known->given && !recorder_leaf_gradient(r->outer, leaf, true)) return NULL;
    }
    if (known) return known;
    struct leaf_gradient g = {.leaf = leaf, .now = gradient_before(r, leaf, uses), .used = uses};
    g.had = g.now;
    if (g.now) g.storage_before = g.now->storage, g.value_before = g.now->value;
    if (error_pending || vec_reserve(&r->gradients, r->gradients.n + 1)) return NULL;
    if (chains_add(&r->gradients_of, leaf, (int32_t)r->gradients.n)) return NULL;
    r->gradients.v[r->gradients.n++] = g;
    if (g.now) kiln_own(g.now);
    node_ref(leaf);
    return &r->gradients.v[r->gradients.n - 1];
}

kiln_tensor **recorder_gradient_of(struct sink *sink, struct tape_node *leaf)
{
    struct leaf_gradient *g = recorder_leaf_gradient(recorder_of(sink), leaf, true);
    return g ? &g->now : NULL;
}

static bool is_as_before(const struct leaf_gradient *g)
{
    return g->now ? g->had && g->now->storage == g->storage_before && g->now->value == g->value_before : !g->had;
}

bool recorder_leaves_gradient(const struct leaf_gradient *g)
{
    return !g->given && !is_as_before(g);
}

kiln_status recorder_check_gradients(const struct recorder *r)
{
    for (size_t i = 0; i < r->gradients.n; i++) {
        const struct leaf_gradient *g = &r->gradients.v[i];
        if (!recorder_leaves_gradient(g)) continue;
        return error_set(KILN_E_UNSUPPORTED,
                         "backward: a region of %s leaves %s in %s; take it there and put the old one back by "
                         "kiln_set_gradient, use kiln_grad, or capture with KILN_CAPTURE_AUTO",
                         r->name, g->now ? "another gradient" : "no gradient", leaf_name(g->leaf));
    }
    return KILN_OK;
}

// A program in which there is none is for calls with none.
void recorder_found_no_gradient(struct sink *sink, const struct tape_node *leaf)
{
    for (struct recorder *r = recorder_of(sink); r; r = r->outer) {
        const struct leaf_gradient *g = find(r, leaf);
        if (r->outer && g && (g->replaced || g->given)) return;
        for (int32_t i = chains_first(&r->sources_of, leaf); i >= 0; i = chains_next(&r->sources_of, i)) {
            struct source *s = &r->sources.v[i];
            if (is_parameter(s) && !s->gradient) s->no_gradient = true;
        }
    }
}

void recorder_drop_gradients(struct recorder *r)
{
    for (size_t i = 0; i < r->gradients.n; i++) {
        if (r->gradients.v[i].now) tensor_destroy(r->gradients.v[i].now);
        node_unref(r->gradients.v[i].leaf);
    }
    vec_free(&r->gradients);
    chains_finish(&r->gradients_of);
}

static int32_t source_of_place(const struct recorder *r, const struct tape_node *place)
{
    for (size_t i = 0; i < r->sources.n; i++)
        if (r->sources.v[i].place == place) return (int32_t)i;
    return -1;
}

// Something went on outside since the leaf's gradient was last replaced.
static bool may_have_more(const struct recorder *r, int32_t source)
{
    if (!r->has_arrived) return false;
    for (size_t i = r->gradient_steps.n; i-- > 0;) {
        const struct gradient_step *s = &r->gradient_steps.v[i];
        if (s->event == GRADIENT_ARRIVED) return true;
        if (s->event == GRADIENT_SET && s->source == source) return false;
    }
    return false;
}

// A region reads what the captures around it have, unless it was replaced meanwhile.
static kiln_status note_read(struct recorder *r, const struct tape_node *leaf)
{
    for (; r; r = r->outer) {
        const struct leaf_gradient *g = find(r, leaf);
        int32_t source = source_of_leaf(r, leaf);
        if (source >= 0 && may_have_more(r, source)) r->sources.v[source].gradient_read = true;
        if (g && g->absent && is_as_before(g))
            return error_set(
                KILN_E_UNSUPPORTED,
                "gradient: the body of a loop of %s reads the gradient of %s before it has one, and leaves "
                "one: eagerly its first trip finds none and the others find one; call kiln_set_gradient "
                "before the loop, or with NULL at the start of the body, or capture with "
                "KILN_CAPTURE_AUTO",
                r->name, leaf_name(leaf));
        if (r->outer && g && !is_as_before(g)) break;
    }
    return KILN_OK;
}

static void mark_changed(struct recorder *r, const struct tape_node *leaf)
{
    for (int32_t i = chains_first(&r->sources_of, leaf); i >= 0; i = chains_next(&r->sources_of, i))
        if (is_parameter(&r->sources.v[i])) r->sources.v[i].changed = true;
}

static kiln_status value_of(struct recorder *r, kiln_tensor *gradient, int32_t *value)
{
    struct kiln_scope scope;
    kiln_tensor *t;
    scope_enter(&scope);
    kiln_status status = recorder_resolve(r, "backward", gradient, &t);
    if (!status) status = recorder_value(r, t, value);
    scope_leave(&scope, NULL, 0);
    return status;
}

kiln_status recorder_note_gradient(struct sink *sink, const struct gradient_note *n)
{
    struct recorder *r = recorder_of(sink);
    struct gradient_step s = {.event = n->event,
                              .accumulate = n->accumulate,
                              .keep = n->keep,
                              .source = -1,
                              .input = -1,
                              .value = -1,
                              .output = -1};
    if (n->event == GRADIENT_READ) return note_read(r, n->node);
    if (n->event == GRADIENT_SET || (n->event == GRADIENT_LEFT && !r->accumulates)) {
        struct leaf_gradient *g = recorder_leaf_gradient(r, n->node, false);
        if (!g) return error_pending;
        g->replaced = true;
    }
    if (n->event == GRADIENT_RUN) r->records_gradients = n->create_graph, r->accumulates = n->accumulate;
    if (n->event == GRADIENT_LEFT || n->event == GRADIENT_SET) {
        s.source = source_of_leaf(r, n->node);
        mark_changed(r, n->node);
    }
    if (n->event == GRADIENT_ARRIVED) s.source = source_of_place(r, n->node);
    if (n->gradient) TRY(value_of(r, n->gradient, &s.value));
    if (n->event == GRADIENT_ARRIVED && r->outer)
        return error_set(
            KILN_E_UNSUPPORTED,
            "backward: in a region of %s it comes to a tensor from outside of the region, and cannot go on "
            "from there; return what is differentiated, use kiln_grad by what the region is given, or "
            "capture with KILN_CAPTURE_AUTO",
            r->name);
    if (n->event == GRADIENT_ARRIVED && r->records_gradients)
        return error_set(
            KILN_E_UNSUPPORTED,
            "backward: in %s it comes to an input that is no parameter; with .create_graph it cannot go on "
            "from there in a capture; use kiln_value_and_grad, or KILN_CAPTURE_AUTO",
            r->name);
    s.n_nodes = r->sink.builder.graph->nodes.n;
    s.node = n->event == GRADIENT_ARRIVED ? n->node : NULL;
    r->has_arrived |= n->event == GRADIENT_ARRIVED;
    TRY(vec_push(&r->gradient_steps, s));
    node_ref(s.node);
    return KILN_OK;
}
