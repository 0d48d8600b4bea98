// Notes what a call's inputs were when a program was made, and tells whether those of another call are like them.
#include "jit/guard.h"
#include "grad/registry.h"
#include "jit/capture/capture.h"
#include "tensor/reach.h"
#include <stdlib.h>
#include <string.h>

static int32_t alias_of(kiln_tensor *const *in, size_t i)
{
    for (size_t k = 0; k < i && in[i]->storage; k++)
        if (in[k]->storage == in[i]->storage) return (int32_t)k;
    return -1;
}

// The first earlier input that a write with a gradient to this one reaches, too.
static int32_t kin_of(kiln_tensor *const *in, size_t i)
{
    for (size_t k = 0; k < i && in[i]->family; k++)
        if (in[k]->family == in[i]->family) return (int32_t)k;
    return -1;
}

// The first earlier input that is the same tensor on the tape.
static int32_t twin_of(kiln_tensor *const *in, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (in[k]->node == in[i]->node && in[k]->node_out == in[i]->node_out) return (int32_t)k;
    return -1;
}

static bool is_leaf(const kiln_tensor *t)
{
    return t->node && t->node->kind == NODE_LEAF;
}

static bool wants_gradient(const kiln_tensor *t)
{
    return (t->node || t->family) && !thread_state.no_grad && tensor_requires_grad(t);
}

// After wants_gradient, which brings its place up to date.
static bool is_cut(const kiln_tensor *t)
{
    return !thread_state.no_grad && node_is_cut(t->node);
}

kiln_status guard_make(struct guard *g, kiln_tensor *const *in, size_t n_in, const uint8_t *run_time,
                       struct guard_key key)
{
    *g = (struct guard){.n_in = n_in, .in = calloc(n_in + 1, sizeof *g->in), .mode = kiln_get_mode(), .hash = key.hash};
    if (!g->in) return error_set(KILN_E_MEMORY, "jit: out of memory");
    if (key.form && !(g->form = bundle_strip(key.form))) return error_pending;
    g->no_grad = thread_state.no_grad > 0;
    g->rules = grad_rules_generation();
    for (size_t i = 0; i < n_in; i++) {
        const kiln_tensor *t = in[i];
        struct guard_input *to = &g->in[i];
        to->type = t->type;
        to->alias = alias_of(in, i);
        to->kin = kin_of(in, i);
        to->number = !t->storage;
        to->run_time = t->run_time || t->node || (run_time && run_time[i]);
        to->value = t->number;
        to->integer = t->integer;
        to->grad = wants_gradient(t);
        to->twin = to->grad ? twin_of(in, i) : -1;
        to->leaf = is_leaf(t);
        to->cut = is_cut(t);
        to->detached = t->detached;
        to->shown = t->shown;
        to->first = (int32_t)i;
        to->offset = t->layout.offset;
        g->sees_grad |= (t->node || t->family) && tensor_requires_grad(t);
        if (to->number) continue;
        to->dev = t->storage->dev;
        to->row_major = layout_is_contiguous(&t->type, &t->layout);
        memcpy(to->strides, t->layout.strides, sizeof to->strides);
    }
    return KILN_OK;
}

void guard_take(struct guard *g, const struct captured *c)
{
    g->sources = c->sources;
    g->n_sources = c->n_sources;
    g->leaves = c->leaves;
    g->n_leaves = c->n_leaves;
    g->asks_sharing = c->asks_sharing;
    g->bundles = c->bundles;
    g->n_bundles = c->n_bundles;
    for (size_t i = 0; i < g->n_in; i++) {
        const struct source *s = c->source_of[i] < 0 ? NULL : &c->sources[c->source_of[i]];
        if (!s || g->in[i].number) continue;
        bool memory = s->kind == SOURCE_MEMORY;
        g->in[i].first = memory ? (int32_t)i : (int32_t)s->input;
        g->in[i].storage = memory ? s->storage : NULL;
        g->in[i].placed = memory || s->placed || s->pinned;
        g->in[i].written = s->written;
    }
}

void guard_finish(struct guard *g)
{
    free(g->in);
    bundle_content_unref(g->form);
    g->in = NULL;
    g->form = NULL;
}

static bool same_strides(const struct guard_input *g, const kiln_tensor *t)
{
    for (int i = 0; i < t->type.rank; i++)
        if (t->type.dims[i] > 1 && t->layout.strides[i] != g->strides[i]) return false;
    return true;
}

static enum guard_kind check_number(const struct guard_input *g, const kiln_tensor *t)
{
    if (g->run_time) return GUARD_OK;
    // Not by ==, which tells NaN from itself and takes -0 for 0.
    return memcmp(&g->value, &t->number, sizeof g->value) || g->integer != t->integer ? GUARD_NUMBER : GUARD_OK;
}

static bool overlap(const kiln_tensor *a, const kiln_tensor *b)
{
    return layout_overlap(&a->type, &a->layout, &b->type, &b->layout);
}

// Whether input i lies to the inputs before it, and in its memory, as the graph has it.
static bool lies_well(const struct guard *all, size_t i, kiln_tensor *const *in)
{
    const struct guard_input *g = &all->in[i], *first = &all->in[g->first];
    const kiln_tensor *t = in[i], *base = in[g->first];
    if (t->storage != base->storage || t->layout.offset - base->layout.offset != g->offset - first->offset)
        return false;
    if (g->placed && t->layout.offset != g->offset) return false;
    if (g->storage && t->storage != g->storage) return false;
    if (all->asks_sharing && alias_of(in, i) != g->alias) return false;
    if (g->written && !all->no_grad && kin_of(in, i) != g->kin) return false;
    for (size_t k = 0; k < i; k++) {
        const struct guard_input *other = &all->in[k];
        if (KILN_LIKELY(in[k]->storage != t->storage) || other->first == g->first) continue;
        bool one = g->storage && other->storage;
        if (!one && (g->written || other->written) && overlap(in[k], t)) return false;
    }
    return true;
}

static enum guard_kind check_input(const struct guard *all, size_t i, kiln_tensor *const *in)
{
    const struct guard_input *g = &all->in[i];
    const kiln_tensor *t = in[i];
    if (g->number != !t->storage) return GUARD_KIND;
    if (g->type.dtype != t->type.dtype || g->type.weak != t->type.weak || g->shown != t->shown) return GUARD_DTYPE;
    if (g->type.rank != t->type.rank) return GUARD_RANK;
    if (memcmp(g->type.dims, t->type.dims, sizeof *g->type.dims * t->type.rank)) return GUARD_DIMS;
    if (wants_gradient(t) != g->grad) return GUARD_GRADIENT;
    if (is_leaf(t) != g->leaf || is_cut(t) != g->cut || (g->grad && twin_of(in, i) != g->twin)) return GUARD_TAPE;
    if (g->detached != t->detached && !all->no_grad) return GUARD_TAPE;
    if (g->number) return check_number(g, t);
    if (g->dev != t->storage->dev) return GUARD_DEVICE;
    if (g->row_major ? !layout_is_contiguous(&t->type, &t->layout) : !same_strides(g, t)) return GUARD_STRIDES;
    return lies_well(all, i, in) ? GUARD_OK : GUARD_ALIAS;
}

static bool gradient_fits(const struct source *s, const kiln_tensor *g)
{
    return g && g->storage && type_equal(&g->type, &s->type) &&
           layout_is_contiguous(&g->type, &g->layout) == s->row_major;
}

// Whether an input, which is another source, lies in memory of s that either writes, or is the parameter itself.
static bool meets_input(const struct guard *g, const struct source *s, const struct storage *storage,
                        const struct layout *layout, kiln_tensor *const *in)
{
    for (size_t i = 0; i < g->n_in; i++) {
        if (s->grad && in[i]->node == s->leaf) return true;
        if (KILN_LIKELY(in[i]->storage != storage) || g->in[i].storage == storage) continue;
        if ((s->written || g->in[i].written) && layout_overlap(&s->type, layout, &in[i]->type, &in[i]->layout))
            return true;
    }
    return false;
}

static bool leaf_is_gone(const struct tape_node *leaf)
{
    return atomic_load_explicit(&leaf->leaf->handles, memory_order_relaxed) == 0;
}

// A parameter whose handles are all gone was replaced by another one.
static enum guard_kind check_source(const struct guard *g, const struct source *s, kiln_tensor *const *in)
{
    if (s->no_gradient && source_leaf(s, in)->leaf->gradient) return GUARD_PARAMETER;
    if (s->pinned) return in[s->input]->storage == s->storage ? GUARD_OK : GUARD_PARAMETER;
    if (s->kind == SOURCE_GRADIENT) {
        const kiln_tensor *t = source_leaf(s, in)->leaf->gradient;
        if (!gradient_fits(s, t)) return GUARD_PARAMETER;
        return meets_input(g, s, t->storage, &t->layout, in) ? GUARD_ALIAS : GUARD_OK;
    }
    if (s->kind != SOURCE_LEAF && s->kind != SOURCE_MEMORY) return GUARD_OK;
    if (s->kind == SOURCE_LEAF) {
        if (leaf_is_gone(s->leaf)) return GUARD_PARAMETER;
        if (s->leaf->leaf->requires_grad != s->grad) return GUARD_GRADIENT;
        if (!s->grad && (!g->no_grad && family_has_history(s->leaf)) != s->history) return GUARD_GRADIENT;
    }
    return meets_input(g, s, s->storage, &s->layout, in) ? GUARD_ALIAS : GUARD_OK;
}

static bool bundles_changed(const struct guard *g)
{
    for (size_t i = 0; i < g->n_bundles; i++)
        if (g->bundles[i].box->version != g->bundles[i].version) return true;
    return false;
}

enum guard_kind guard_check(const struct guard *g, kiln_tensor *const *in, size_t n_in, struct guard_key key,
                            size_t *at)
{
    *at = 0;
    if (KILN_UNLIKELY(g->form != NULL) && !bundle_is_like(g->form, key.form, NULL)) return GUARD_FORM;
    if (KILN_UNLIKELY(g->n_bundles && bundles_changed(g))) return GUARD_BUNDLE;
    if (g->n_in != n_in) return GUARD_COUNT;
    if (g->mode != kiln_get_mode()) return GUARD_MODE;
    if (g->hash != key.hash) return GUARD_HASH;
    if (g->rules != grad_rules_generation()) return GUARD_RULES;
    for (size_t i = 0; i < n_in; i++) {
        enum guard_kind kind = check_input(g, i, in);
        *at = i;
        if (kind)
            return g->sees_grad && kind == GUARD_GRADIENT && g->no_grad != (thread_state.no_grad > 0) ? GUARD_GRAD_MODE
                                                                                                      : kind;
    }
    for (size_t i = 0; i < g->n_sources; i++) {
        enum guard_kind kind = check_source(g, &g->sources[i], in);
        *at = i;
        if (kind) return kind;
    }
    for (size_t i = 0; i < g->n_leaves; i++) {
        *at = g->n_sources;
        if (leaf_is_gone(g->leaves[i])) return GUARD_PARAMETER;
        if (!g->no_grad && family_has_history(g->leaves[i])) return GUARD_GRADIENT;
    }
    return g->sees_grad && g->no_grad != (thread_state.no_grad > 0) ? GUARD_GRAD_MODE : GUARD_OK;
}

const char *guard_name(enum guard_kind kind)
{
    static const char *const names[] = {"none",   "count",     "kind",  "dtype", "rank",   "dims",      "strides",
                                        "device", "gradient",  "tape",  "alias", "number", "parameter", "hash",
                                        "mode",   "grad mode", "rules", "form",  "bundle"};
    return names[kind];
}

static void add_dims(struct str *s, int rank, const int64_t *v)
{
    str_add(s, "[");
    for (int i = 0; i < rank; i++) str_addf(s, "%s%lld", i ? "," : "", (long long)v[i]);
    str_add(s, "]");
}

static void describe_input(const struct guard_input *g, enum guard_kind kind, kiln_tensor *const *in, size_t at,
                           struct str *out)
{
    const kiln_tensor *t = in[at];
    char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX];
    switch (kind) {
    case GUARD_STRIDES:
        str_add(out, "strides were ");
        add_dims(out, g->type.rank, g->strides);
        str_add(out, ", are ");
        add_dims(out, t->type.rank, t->layout.strides);
        break;
    case GUARD_DEVICE: str_addf(out, "device was %s, is %s", g->dev->name, t->storage->dev->name); break;
    case GUARD_GRADIENT:
        str_addf(out, "requires-grad was %s, is %s", g->grad ? "on" : "off", g->grad ? "off" : "on");
        break;
    case GUARD_TAPE:
        if (is_leaf(t) != g->leaf)
            str_addf(out, "was %s, is %s", g->leaf ? "a leaf" : "no leaf", g->leaf ? "none" : "one");
        else if (t->detached != g->detached)
            str_addf(out, "was a view made %s gradients, is one made %s", g->detached ? "without" : "with",
                     g->detached ? "with them" : "without");
        else
            str_addf(out, "tensor was that of %d, is that of %d", (int)g->twin, (int)twin_of(in, at));
        break;
    case GUARD_ALIAS:
        if (g->alias != alias_of(in, at))
            str_addf(out, "alias was %d, is %d", (int)g->alias, (int)alias_of(in, at));
        else
            str_addf(out, "offset was %lld, is %lld", (long long)g->offset, (long long)t->layout.offset);
        break;
    case GUARD_NUMBER: str_addf(out, "number was %.17g, is %.17g", g->value, t->number); break;
    case GUARD_KIND:
        str_addf(out, "was a %s, is a %s", g->number ? "number" : "tensor", g->number ? "tensor" : "number");
        break;
    default: str_addf(out, "was %s, is %s", type_text(&g->type, a, sizeof a), type_text(&t->type, b, sizeof b));
    }
}

static void describe_source(const struct guard *g, enum guard_kind kind, size_t at, kiln_tensor *const *in,
                            struct str *out)
{
    if (at == g->n_sources) {
        str_add(out, kind == GUARD_GRADIENT ? "a state was written with a gradient" : "a state was freed");
        return;
    }
    const struct source *s = &g->sources[at];
    const struct tape_node *leaf = s->kind == SOURCE_INPUT && !s->no_gradient ? NULL : source_leaf(s, in);
    const char *name = leaf && leaf->leaf->name ? leaf->leaf->name : "state";
    if (kind == GUARD_PARAMETER && s->kind == SOURCE_GRADIENT)
        str_addf(out, "the gradient of %s has another type or is gone", name);
    else if (kind == GUARD_PARAMETER && s->no_gradient && leaf->leaf->gradient)
        str_addf(out, "%s had no gradient, it has one", name);
    else if (s->pinned)
        str_addf(out, "input %zu was also reached from outside; another tensor is given", s->input);
    else if (kind == GUARD_PARAMETER)
        str_addf(out, "%s was freed", name);
    else if (kind == GUARD_ALIAS)
        str_addf(out, "the memory of %s is among the inputs, it was not", name);
    else
        str_addf(out, "requires-grad of %s was %s, is %s", name, s->grad || s->history ? "on" : "off",
                 s->grad || s->history ? "off" : "on");
}

void guard_describe(const struct guard *g, enum guard_kind kind, size_t at, kiln_tensor *const *in, size_t n_in,
                    struct guard_key key, struct str *out)
{
    str_addf(out, "%s: ", guard_name(kind));
    bool of_source = kind == GUARD_PARAMETER;
    if (kind == GUARD_GRADIENT || kind == GUARD_ALIAS) { // of an input, if one fails
        of_source = at >= n_in || at >= g->n_in || check_input(g, at, in) != kind;
    }
    switch (kind) {
    case GUARD_COUNT: str_addf(out, "%zu inputs were given, %zu are", g->n_in, n_in); break;
    case GUARD_MODE: str_addf(out, "was %d, is %d", (int)g->mode, (int)kiln_get_mode()); break;
    case GUARD_HASH:
        str_addf(out, "was %llu, is %llu", (unsigned long long)g->hash, (unsigned long long)key.hash);
        break;
    case GUARD_FORM:
        str_add(out, "in");
        (void)bundle_is_like(g->form, key.form, out);
        break;
    case GUARD_BUNDLE: str_add(out, "a bundle that the function reads from outside was changed"); break;
    case GUARD_RULES: str_add(out, "a gradient rule was registered"); break;
    case GUARD_GRAD_MODE:
        str_addf(out, "gradients were %s, are %s", g->no_grad ? "off" : "on", thread_state.no_grad ? "off" : "on");
        break;
    default:
        if (of_source) {
            describe_source(g, kind, at, in, out);
            break;
        }
        str_addf(out, "input %zu ", at);
        describe_input(&g->in[at], kind, in, at, out);
    }
}
