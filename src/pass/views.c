// Views of views, views that change nothing, copies of what is fresh.
//
// A view is known by what it does: where its elements lie in its operand in row-major order. A view of a view is known
// the same way over the first operand. Each such layout is given its simplest name, the first that fits of: nothing at
// all, reshape, permute, expand, slice. So flatten, squeeze, unsqueeze and permutations of axes of size 1 become
// reshape, transpose becomes permute, narrow becomes slice, and pairs that undo each other vanish. A layout without
// such a name (a diagonal, a selected index) keeps its op. The new op's own layout is compared with the wanted one
// before it is taken. as_strided looks at the storage, not at the value, and is left alone; so are dimensions that
// vary, whose numbers hold for one call only. `contiguous` of what a node other than a view makes is that value.
#include "pass/passes.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include <string.h>

struct shape {
    const struct type *base; // row-major from 0
    const struct type *out;
    struct layout at; // of out, in elements of base
};

static struct attr ints(uint8_t count)
{
    return (struct attr){.kind = ATTR_INTS, .set = true, .count = count};
}

static bool same_layout(const struct type *t, const struct layout *a, const struct layout *b)
{
    if (a->offset != b->offset) return false;
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] > 1 && a->strides[i] != b->strides[i]) return false;
    return true;
}

static bool is_row_major(const struct shape *s)
{
    return s->at.offset == 0 && type_numel(s->base) == type_numel(s->out) && layout_is_contiguous(s->out, &s->at);
}

static bool as_reshape(const struct shape *s, struct attr *attrs)
{
    attrs[AT_reshape_shape] = ints(s->out->rank);
    memcpy(attrs[AT_reshape_shape].v, s->out->dims, sizeof s->out->dims);
    return is_row_major(s);
}

static bool as_permute(const struct shape *s, struct attr *attrs)
{
    struct layout base;
    uint32_t taken = 0;
    if (s->base->rank != s->out->rank || s->at.offset) return false;
    layout_contiguous(s->base, &base);
    attrs[AT_permute_axes] = ints(s->out->rank);
    for (int i = 0; i < s->out->rank; i++) {
        int from = -1;
        for (int k = 0; k < s->base->rank && from < 0; k++) {
            bool fits =
                s->base->dims[k] == s->out->dims[i] && (s->out->dims[i] == 1 || base.strides[k] == s->at.strides[i]);
            if (fits && !(taken >> k & 1)) from = k;
        }
        if (from < 0) return false;
        taken |= 1u << from;
        attrs[AT_permute_axes].v[i] = from;
    }
    return true;
}

static bool as_expand(const struct shape *s, struct attr *attrs)
{
    attrs[AT_expand_shape] = ints(s->out->rank);
    memcpy(attrs[AT_expand_shape].v, s->out->dims, sizeof s->out->dims);
    return s->out->rank >= s->base->rank; // the rest shows in the comparison
}

static bool as_slice(const struct shape *s, struct attr *attrs)
{
    struct layout base;
    int64_t offset = s->at.offset;
    int rank = s->base->rank;
    if (rank != s->out->rank) return false;
    layout_contiguous(s->base, &base);
    for (int i = AT_slice_start; i <= AT_slice_step; i++) attrs[i] = ints((uint8_t)rank);
    for (int i = 0; i < rank; i++) {
        int64_t count = s->out->dims[i], start = s->base->dims[i] > 1 ? offset / base.strides[i] : 0;
        offset -= start * base.strides[i];
        int64_t step = count > 1 ? s->at.strides[i] / base.strides[i] : 1, last = start + (count - 1) * step;
        if (step == 0 || start >= s->base->dims[i]) return false;
        attrs[AT_slice_start].v[i] = start;
        attrs[AT_slice_stop].v[i] = step > 0 ? last + 1 : last > 0 ? last - 1 : INT64_MAX;
        attrs[AT_slice_step].v[i] = step;
    }
    return true;
}

static const struct {
    uint16_t op;
    bool (*fits)(const struct shape *s, struct attr *attrs);
} names[] = {{OP_reshape, as_reshape}, {OP_permute, as_permute}, {OP_expand, as_expand}, {OP_slice, as_slice}};

// The layout that an op with these attributes gives to a value of type `base`; false where it gives another type.
static bool layout_of(const struct op *op, const struct type *base, struct attr *attrs, const struct type *want,
                      const struct layout *in, struct layout *out)
{
    struct op_call c = {.op = op, .n_in = 1, .n_out = 1, .in = &base, .attrs = attrs};
    bool copy = false;
    kiln_status status = op_infer(&c);
    if (!status && !ir_type_same(&c.out[0], want)) return false;
    if (!status) status = op->fn->view(&c, in, out, &copy);
    if (status) kiln_error_clear();
    return !status && !copy;
}

// The op by which `s` is called; NULL for none.
static const struct op *name_of(const struct shape *s, struct attr *attrs)
{
    struct layout in, out;
    layout_contiguous(s->base, &in);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const struct op *op = op_table[names[i].op];
        if (names[i].fits(s, attrs) && layout_of(op, s->base, attrs, s->out, &in, &out) &&
            same_layout(s->out, &out, &s->at))
            return op;
    }
    return NULL;
}

static const struct ir_node *view_node(const struct kiln_graph *g, int32_t v)
{
    const struct ir_value *value = &g->values.v[v];
    if (v < 0 || value->kind != IR_NODE) return NULL;
    const struct ir_node *n = &g->nodes.v[value->node];
    return n->op->flags & OP_VIEW && !(n->op->flags & OP_STORAGE_VIEW) && !n->n_regions ? n : NULL;
}

// The same value by one view of `base`. False where it has no such name.
static kiln_status rename_view(struct ir_rewrite *r, const struct shape *s, int32_t base, int32_t *out)
{
    struct attr attrs[OP_MAX_ATTRS];
    *out = -1;
    if (ir_type_same(s->base, s->out) && is_row_major(s)) {
        *out = base;
        return KILN_OK;
    }
    const struct op *op = name_of(s, attrs);
    if (!op) return KILN_OK;
    *out = ir_rewrite_emit(r, op, 1, &base, attrs);
    return *out < 0 ? error_pending : KILN_OK;
}

static bool varies(const struct kiln_graph *g, int32_t v)
{
    return v < 0 || g->values.v[v].type.weak || pass_has_symbols(&g->values.v[v]);
}

static kiln_status simplify_view(struct ir_rewrite *r, const struct ir_node *n, int32_t x, int32_t *out)
{
    const struct type want = r->from->values.v[n->first_out].type, middle = r->to->values.v[x].type;
    const struct ir_node *inner = view_node(r->to, x);
    struct layout in, at;
    *out = -1;
    if (varies(r->to, x) || pass_has_symbols(&r->from->values.v[n->first_out]) || type_numel(&want) == 0)
        return KILN_OK;
    int32_t base = inner ? ir_operands(r->to, inner)[0] : -1;
    if (inner && !varies(r->to, base)) {
        const struct type first = r->to->values.v[base].type;
        struct shape s = {.base = &first, .out = &want};
        if (pass_view_layout(r->to, inner, &in) &&
            layout_of(n->op, &middle, (struct attr *)n->attrs, &want, &in, &s.at))
            TRY(rename_view(r, &s, base, out));
    }
    if (*out >= 0) return KILN_OK;
    struct shape s = {.base = &middle, .out = &want};
    layout_contiguous(&middle, &at);
    return layout_of(n->op, &middle, (struct attr *)n->attrs, &want, &at, &s.at) ? rename_view(r, &s, x, out) : KILN_OK;
}

static bool is_fresh(const struct kiln_graph *g, int32_t v)
{
    return g->values.v[v].kind == IR_NODE && !(g->nodes.v[g->values.v[v].node].op->flags & OP_VIEW);
}

static kiln_status visit(struct ir_rewrite *r, int32_t node, void *user)
{
    const struct ir_node *n = &r->from->nodes.v[node];
    bool view = n->op->flags & OP_VIEW && !(n->op->flags & OP_STORAGE_VIEW);
    if (!view && n->op->index != OP_contiguous) return ir_rewrite_copy(r, node);
    int32_t x = ir_rewrite_value(r, ir_operands(r->from, n)[0]), out = -1;
    if (x < 0) return error_pending;
    if (view)
        TRY(simplify_view(r, n, x, &out));
    else if (is_fresh(r->to, x))
        out = x;
    return out < 0 ? ir_rewrite_copy(r, node) : ir_rewrite_map(r, n->first_out, out);
}

kiln_status pass_views(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
{
    return ir_rewrite_graph(from, NULL, visit, NULL, to);
}
