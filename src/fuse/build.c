// The kernel of a set of units.
//
// Input: units, of which each has an expression, and which buffers they write are read elsewhere. Output: one iteration
// space, and one DAG over it that computes every such buffer; or the reason why there is none.
//
// The space is that of the unit that folds, the one with the most rows where several do; without one, that of the
// largest unit. Every unit whose buffer must be stored is then *placed*: a map gives its point for each point of the
// space. A unit is placed by an operand that it shares with one that has a place already: both speak of the same
// element. Units that are only read inside need no place; they are computed where their value is asked for, at the map
// that the reader's strides imply, so that a broadcast, a transpose or a reshape between two units costs nothing.
//
// An *instance* is a unit at a map. Instances are found first, from the stored units back to what they read; solving
// for a map may cut dimensions of the space, so that all maps found so far are brought to the finer space. Then the DAG
// is built, instance by instance in the order of the units. A value that goes from unit to unit is converted as storing
// it and loading it again would: wrapped, and rounded if asked.
//
// A unit that folds all rows of the space into one value (the mean of a loss) folds across: its result is a TOTAL.
#include "fuse/build.h"
#include "fuse/loops.h"
#include "fuse/product.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kiln_status add_output(struct builder *b, int instance)
{
    struct fused_kernel *k = b->k;
    const struct instance *i = &b->instances[instance];
    const struct unit *u = unit_of(b, i);
    const struct launch_operand *o = &u->l.operands[u->n_in];
    struct form f;
    if (k->n_out == FUSED_MAX_OUT) return refuse(b, "too many outputs");
    struct point_map m = i->map;
    if (makes_row_value(u)) m.n = u->l.rank - u->l.n_reduce;
    affine_compose(&b->space, &m, o->strides, first_element(o), &f);
    struct fused_output *out = &k->out[k->n_out++];
    *out = (struct fused_output){
        .to = {.buffer = o->slot, .dtype = o->dtype, .cls = (uint8_t)dtype_class(o->dtype), .offset = f.offset},
        .node = (uint16_t)i->node};
    for (int d = 0; d < b->space.n_dims; d++) out->to.strides[d] = b->space.sizes[d] == 1 ? 0 : f.k[d];
    return KILN_OK;
}

static void name_kernel(struct builder *b)
{
    char text[64];
    size_t n = 0;
    for (int i = 0; i < b->set->n_units && n < 40; i++) {
        const char *op = unit_at(b, b->set->units[i])->l.op;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.12s", i ? "_" : "", op ? op : "op");
    }
    for (char *c = text; *c; c++)
        if (*c == '.') *c = '_';
    b->k->name = arena_strdup(b->arena, text);
}

static kiln_status build_needed(struct builder *b, const bool *needed)
{
    int16_t order[MAX_INSTANCES]; // by unit
    for (int i = 0; i < b->n_instances; i++) {
        int at = i;
        for (; at && b->instances[order[at - 1]].unit > b->instances[i].unit; at--) order[at] = order[at - 1];
        order[at] = (int16_t)i;
    }
    for (int i = 0; i < b->n_instances && !b->why; i++)
        if (needed[order[i]]) TRY(build_value(b, &b->instances[order[i]]));
    return KILN_OK;
}

// What is written back may be read by the same kernel only where it is written.
static bool reads_elsewhere(const struct builder *b)
{
    const struct fused_kernel *k = b->k;
    for (int o = 0; o < k->n_out; o++)
        for (int i = 0; i < k->n_in; i++)
            if (k->in[i].buffer == k->out[o].to.buffer && !fused_same_places(k, &k->in[i], &k->out[o].to)) return true;
    return false;
}

// Where nothing is folded each point of the space is one of the loop: what is written back is written once.
static bool writes_again(const struct fused_kernel *k)
{
    for (int o = 0; o < k->n_out; o++) {
        bool reads = false;
        for (int i = 0; i < k->n_in; i++) reads |= k->in[i].buffer == k->out[o].to.buffer;
        if (reads && fused_stores_again(k, &k->out[o].to)) return true;
    }
    return false;
}

static bool has_anchor(const struct builder *b)
{
    for (int i = 0; i < b->set->n_units; i++)
        if (unit_at(b, b->set->units[i])->anchor) return true;
    return false;
}

static kiln_status finish(struct builder *b)
{
    struct fused_kernel *k = b->k;
    int roots[FUSED_MAX_OUT + FUSED_MAX_CHECKS];
    for (int i = 0; i < k->n_out; i++) roots[i] = k->out[i].node;
    for (int i = 0; i < k->n_checks; i++) roots[k->n_out + i] = k->checks[i];
    TRY(dag_finish_all(&b->dag, b->arena, roots, k->n_out + k->n_checks, &k->dag));
    for (int i = 0; i < k->n_out; i++) k->out[i].node = (uint16_t)roots[i];
    for (int i = 0; i < k->n_checks; i++) k->checks[i] = (uint16_t)roots[k->n_out + i];
    k->n_dims = b->space.n_dims;
    k->n_reduce = b->space.n_reduce;
    memcpy(k->sizes, b->space.sizes, sizeof *k->sizes * (size_t)k->n_dims);
    if (reads_elsewhere(b)) return refuse(b, "a value that is written back is read at other places");
    bool anchored = has_anchor(b);
    if (anchored && !b->set->for_attention) product_arrange(k);
    fused_collapse(k);
    if (k->n_dims > FUSED_DIMS) return refuse(b, "too many dimensions");
    name_kernel(b);
    if (!k->name) return error_pending;
    if (!fused_finish(b->arena, k)) {
        if (anchored && !b->set->for_attention && !product_find(k))
            return refuse(b, "a product takes no second fold, and no result by element");
        if (writes_again(k)) return refuse(b, "a value that is written back would be read again");
        return KILN_OK;
    }
    if (kiln_error() != KILN_E_INTERNAL) return error_pending;
    kiln_error_clear();
    return refuse(b, "a total would be needed by rows");
}

static kiln_status build(struct builder *b)
{
    bool needed[MAX_INSTANCES] = {false};
    build_choose_space(b);
    if (!error_pending) build_place_all(b);
    if (error_pending) return error_pending;
    for (int i = 0; i < b->n_instances; i++)
        if (!build_follow(b, i)) return error_pending;
    build_find_totals(b);
    for (int i = 0; i < b->set->n_units; i++) {
        if (!stored(b, b->set->units[i])) continue;
        int at = build_find_stored(b, b->set->units[i]);
        if (at < 0) return refuse(b, "no common space");
        build_mark_needed(b, at, needed);
    }
    TRY(build_needed(b, needed));
    for (int i = 0; i < b->set->n_units && !b->why; i++)
        if (stored(b, b->set->units[i])) TRY(add_output(b, build_find_stored(b, b->set->units[i])));
    return b->why ? KILN_OK : finish(b);
}

kiln_status fuse_kernel(struct arena *a, const struct fuse_set *set, struct fused_kernel **out, const char **why)
{
    struct builder b = {.set = set, .arena = a};
    *out = NULL;
    b.k = arena_alloc(a, sizeof *b.k);
    if (!b.k) return error_pending;
    dag_begin(&b.dag);
    kiln_status status = build(&b);
    dag_end(&b.dag);
    free(b.instances);
    if (!status && !b.why) *out = b.k;
    *why = b.why;
    return status;
}
