// Which variable a tensor from outside lies in.
//
// Sources are apart as long as nobody writes what they share: each reads the memory itself, and it does not matter to
// the graph where the others lie. A write to one that overlaps another ends the capture; it begins anew with the one
// that is `joined`: inputs that overlap are views of one source, from the first of their elements to the last, and
// where parameters, states or other tensors from outside take part, of the whole storage. Each new beginning adds to
// what is joined, so there is an end.
#include "jit/capture/recorder.h"
#include "jit/capture/source.h"
#include "tensor/reach.h"

struct tape_node *recorder_leaf_of(kiln_tensor *t)
{
    struct tape_edge edge;
    if (tape_current(t, &edge)) return NULL;
    return t->node && t->node->kind == NODE_LEAF ? t->node : t->state;
}

const struct joined *recorder_joined(const struct recorder *r, const struct storage *s)
{
    for (size_t i = r->n_joined; i-- > 0;) // what was found last goes further
        if (r->joined[i].storage == s) return &r->joined[i];
    return NULL;
}

bool variable_is_at(const struct variable *v, const kiln_tensor *t)
{
    const struct type *type = &v->current->type;
    if (!type_same_shape(type, &t->type) || v->layout.offset != t->layout.offset) return false;
    for (int i = 0; i < type->rank; i++)
        if (type->dims[i] > 1 && v->layout.strides[i] != t->layout.strides[i]) return false;
    return true;
}

static bool contains(const struct variable *v, const kiln_tensor *t)
{
    int64_t first, last, from, to;
    if (!layout_reach(&t->type, &t->layout, &first, &last)) return true;
    return layout_reach(&v->current->type, &v->layout, &from, &to) && from <= first && last <= to;
}

// A parameter is the variable that was made for it. Where it requires no gradient, any that lies in its place will do.
static int32_t find_leaf(const struct recorder *r, const kiln_tensor *t, const struct tape_node *leaf)
{
    for (int32_t i = chains_first(&r->sources_of, leaf); i >= 0; i = chains_next(&r->sources_of, i)) {
        const struct source *s = &r->sources.v[i];
        if (s->storage != t->storage || s->kind == SOURCE_GRADIENT) continue;
        if (variable_is_at(&r->variables.v[s->variable], t)) return s->variable;
    }
    for (int32_t i = chains_first(&r->sources_on, t->storage); i >= 0; i = chains_next(&r->sources_on, i)) {
        const struct source *s = &r->sources.v[i];
        if (s->kind == SOURCE_GRADIENT) continue;
        const struct variable *v = &r->variables.v[s->variable];
        if (s->kind == SOURCE_MEMORY || (variable_is_at(v, t) && !node_requires_grad(leaf))) return s->variable;
    }
    return 0;
}

int32_t recorder_find(const struct recorder *r, kiln_tensor *t)
{
    const struct tape_node *leaf = recorder_leaf_of(t);
    if (leaf) return find_leaf(r, t, leaf);
    int32_t found = 0;
    for (int32_t i = chains_first(&r->variables_on, t->storage); i >= 0; i = chains_next(&r->variables_on, i)) {
        const struct variable *v = &r->variables.v[i];
        if (variable_is_at(v, t)) return i;
        if (!found && contains(v, t)) found = i;
    }
    return found;
}

kiln_status recorder_lay(struct recorder *r, int32_t variable, struct storage *storage)
{
    TRY(chains_add(&r->variables_on, storage, variable));
    r->variables.v[variable].storage = storage_ref(storage);
    return KILN_OK;
}

kiln_status recorder_set_leaf(struct recorder *r, int32_t source, struct tape_node *leaf)
{
    TRY(chains_add(&r->sources_of, leaf, source));
    r->sources.v[source].leaf = node_ref(leaf);
    return KILN_OK;
}

static bool is_outside(const struct recorder *r, const struct variable *v)
{
    if (v->source < 0) return true;
    const struct source *s = &r->sources.v[v->source];
    return (s->kind != SOURCE_INPUT && s->kind != SOURCE_SPAN) || s->pinned;
}

kiln_status recorder_join(struct recorder *r, struct storage *storage, bool whole)
{
    if (!r->conflict.storage) r->conflict.storage = storage_ref(storage);
    if (r->conflict.storage == storage) r->conflict.whole |= whole;
    return error_set(KILN_E_UNSUPPORTED, "jit: %s writes memory that it also reaches as that of a parameter's gradient",
                     r->name); // seen where joining does not help
}

kiln_status recorder_check_apart(struct recorder *r, int32_t variable, bool write)
{
    const struct variable *v = &r->variables.v[variable];
    for (int32_t i = chains_first(&r->variables_on, v->storage); i >= 0; i = chains_next(&r->variables_on, i)) {
        const struct variable *other = &r->variables.v[i];
        if (other == v || !(write || other->written)) continue;
        if (layout_overlap(&v->current->type, &v->layout, &other->current->type, &other->layout))
            return recorder_join(r, v->storage, is_outside(r, v) || is_outside(r, other));
    }
    return KILN_OK;
}

// Of a handle without a family it is the handle.
void recorder_meet(struct recorder *r, int32_t variable, const kiln_tensor *t)
{
    struct variable *v = &r->variables.v[variable];
    const void *family = t->family ? (const void *)t->family : t;
    if (t->detached) return; // it is told nothing, and tells nothing
    v->parted |= v->family && v->family != family;
    v->family = family;
}

bool recorder_overlaps(const struct recorder *r, const kiln_tensor *t)
{
    for (int32_t i = chains_first(&r->variables_on, t->storage); i >= 0; i = chains_next(&r->variables_on, i)) {
        const struct variable *v = &r->variables.v[i];
        if (layout_overlap(&v->current->type, &v->layout, &t->type, &t->layout)) return true;
    }
    return false;
}

kiln_status recorder_watch(struct recorder *r, struct tape_node *leaf)
{
    if (chains_first(&r->sources_of, leaf) >= 0 || chains_first(&r->leaves_of, leaf) >= 0) return KILN_OK;
    TRY(chains_add(&r->leaves_of, leaf, (int32_t)r->leaves.n));
    TRY(vec_push(&r->leaves, leaf));
    node_ref(leaf);
    return KILN_OK;
}
