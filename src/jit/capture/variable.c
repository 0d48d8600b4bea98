// Memory as variables: what a handle shows, and writes.
//
// Input: handles with a layout in the memory of a variable. A variable's value covers the memory at the variable's own
// layout. Where that is row-major, a part of it is an as_strided of the value and a write an as_strided_scatter. Where
// it is not (an input that is a transposed or sliced tensor), the value is first spread over a line as long as the
// memory from its first to its last element, and gathered again after a write; what lies between belongs to nobody in
// the graph and stays zero there, so a handle that reaches it is refused.
#include "jit/capture/recorder.h"
#include "ops/families.h"
#include "tensor/reach.h"
#include <kiln/ops.h>

kiln_tensor *variable_handle(struct recorder *r, const struct type *type, int32_t value)
{
    return graph_tensor(&r->sink.builder, type, value);
}

// A handle on a value that shows no memory.
static kiln_tensor *value_handle(struct recorder *r, const kiln_tensor *from)
{
    kiln_tensor *t = variable_handle(r, &from->type, from->value);
    if (t) tape_set_node(t, from->node, from->node_out);
    return t;
}

// The same on a variable's, as those at `place` see it.
static kiln_tensor *current_at(struct recorder *r, int32_t variable, int32_t place)
{
    kiln_tensor *t = value_handle(r, r->variables.v[variable].current);
    if (t && place) tape_set_node(t, r->places.v[place - 1].node, r->places.v[place - 1].out);
    return t;
}

static uint32_t *moves_of(struct recorder *r, const kiln_tensor *t)
{
    return t->place ? &r->places.v[t->place - 1].moves : &r->variables.v[t->variable].moves;
}

static struct tape_node *node_at(const struct recorder *r, const kiln_tensor *t)
{
    return t->place ? r->places.v[t->place - 1].node : r->variables.v[t->variable].current->node;
}

bool variable_is_leaf(const struct recorder *r, const kiln_tensor *t)
{
    const struct tape_node *n = node_at(r, t);
    return n && n->kind == NODE_LEAF && n->leaf->requires_grad;
}

void variable_set_place(struct recorder *r, const kiln_tensor *t, struct tape_node *n, uint32_t out)
{
    if (!t->place) {
        tape_set_node(r->variables.v[t->variable].current, n, out);
        return;
    }
    struct own_place *p = &r->places.v[t->place - 1];
    struct tape_node *old = p->node;
    p->node = node_ref(n);
    p->out = out;
    node_unref(old);
}

void variable_move(struct recorder *r, int32_t variable, int32_t place, struct tape_node *n, uint32_t out)
{
    const kiln_tensor at = {.variable = variable, .place = place};
    variable_set_place(r, &at, n, out);
    ++*moves_of(r, &at);
}

kiln_status variable_new(struct recorder *r, const kiln_tensor *value, const struct layout *layout, int32_t *out)
{
    struct variable v = {.layout = *layout, .source = -1};
    if (r->variables.n == 0) TRY(vec_push(&r->variables, v)); // number 0 is none
    v.current = value_handle(r, value);
    if (!v.current) return error_pending;
    kiln_own(v.current);
    if (vec_push(&r->variables, v)) {
        tensor_destroy(v.current);
        return error_pending;
    }
    *out = (int32_t)r->variables.n - 1;
    return KILN_OK;
}

static bool same_layout(const struct type *a, const struct layout *la, const struct type *b, const struct layout *lb)
{
    if (!type_same_shape(a, b) || la->offset != lb->offset) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] > 1 && la->strides[i] != lb->strides[i]) return false;
    return true;
}

static kiln_tensor *gather(kiln_tensor *line, const struct type *type, const struct layout *l, int64_t first)
{
    return kiln_as_strided(line, type->rank, type->dims, type->rank, l->strides, l->offset - first);
}

static kiln_tensor *scatter(kiln_tensor *line, kiln_tensor *part, const struct layout *l, int64_t first)
{
    return kiln_as_strided_scatter(line, part, part->type.rank, l->strides, l->offset - first);
}

// The variable's value in the order of its memory, whose first element is *first.
static kiln_tensor *as_line(struct recorder *r, int32_t variable, int32_t place, int64_t *first)
{
    kiln_tensor *value = current_at(r, variable, place);
    struct layout layout = r->variables.v[variable].layout;
    *first = layout.offset;
    if (!value || layout_is_contiguous(&value->type, &layout)) return value;
    int64_t last;
    if (!layout_reach(&value->type, &layout, first, &last)) return value;
    kiln_tensor *zeros = kiln_zeros(NULL, (kiln_dtype)value->type.dtype, KILN_SHAPE(last - *first + 1));
    return zeros ? scatter(zeros, value, &layout, *first) : NULL;
}

static kiln_status check_reach(struct recorder *r, const kiln_tensor *line, int64_t begin, const struct type *type,
                               const struct layout *layout)
{
    int64_t first, last;
    if (!layout_reach(type, layout, &first, &last)) return KILN_OK;
    if (first >= begin && last < begin + type_numel(&line->type)) return KILN_OK;
    return error_set(KILN_E_UNSUPPORTED,
                     "jit: %s reaches memory around one of its inputs that is not in the graph; pass the whole tensor",
                     r->name);
}

// Under gradients whatever the thread's state: the place on the tape belongs to the value.
static kiln_status show_part(struct recorder *r, int32_t variable, int32_t place, const struct type *type,
                             const struct layout *layout, kiln_tensor **out)
{
    int64_t first;
    int no_grad = thread_state.no_grad;
    thread_state.no_grad = 0;
    kiln_tensor *line = as_line(r, variable, place, &first);
    if (line && !check_reach(r, line, first, type, layout)) *out = gather(line, type, layout, first);
    thread_state.no_grad = no_grad;
    return error_pending;
}

kiln_status variable_show_at(struct recorder *r, int32_t variable, int32_t place, const struct type *type,
                             const struct layout *layout, kiln_tensor **out)
{
    const struct variable *v = &r->variables.v[variable];
    if (same_layout(type, layout, &v->current->type, &v->layout)) {
        *out = current_at(r, variable, place);
        if (!*out) return error_pending;
    } else
        TRY(show_part(r, variable, place, type, layout, out));
    (*out)->layout = *layout;
    (*out)->variable = variable;
    (*out)->place = place;
    (*out)->seen = r->variables.v[variable].version;
    (*out)->generation = *moves_of(r, *out);
    return KILN_OK;
}

kiln_status variable_show(struct recorder *r, int32_t variable, const struct type *type, const struct layout *layout,
                          kiln_tensor **out)
{
    return variable_show_at(r, variable, 0, type, layout, out);
}

kiln_status variable_own(struct recorder *r, kiln_tensor *t)
{
    if (t->variable) return variable_refresh(r, t);
    TRY(variable_new(r, t, &t->layout, &t->variable));
    t->seen = 0;
    t->generation = *moves_of(r, t);
    return KILN_OK;
}

kiln_status variable_refresh(struct recorder *r, kiln_tensor *t)
{
    kiln_tensor *now = NULL;
    if (!t->variable || t->seen == r->variables.v[t->variable].version) return KILN_OK;
    TRY(variable_show_at(r, t->variable, t->place, &t->type, &t->layout, &now));
    t->value = now->value;
    t->seen = now->seen;
    if (t->generation != now->generation) tape_set_node(t, t->detached ? NULL : now->node, now->node_out);
    t->generation = now->generation;
    tensor_destroy(now);
    return KILN_OK;
}

// The variable's value with t's part replaced.
static kiln_tensor *with_part(struct recorder *r, const kiln_tensor *t, kiln_tensor *part)
{
    const struct variable *v = &r->variables.v[t->variable];
    struct type type = v->current->type;
    struct layout layout = v->layout;
    if (same_layout(&t->type, &t->layout, &type, &layout)) return part;
    bool whole = t->layout.offset == layout.offset && type_numel(&t->type) == type_numel(&type) &&
                 layout_is_contiguous(&t->type, &t->layout) && layout_is_contiguous(&type, &layout);
    if (whole) return kiln_reshape(part, type.rank, type.dims);
    int64_t first;
    kiln_tensor *line = as_line(r, t->variable, t->place, &first);
    if (!line || check_reach(r, line, first, &t->type, &t->layout)) return NULL;
    kiln_tensor *written = scatter(line, part, &t->layout, first);
    return !written || layout_is_contiguous(&type, &layout) ? written : gather(written, &type, &layout, first);
}

kiln_status variable_rebase(struct recorder *r, kiln_tensor *t, bool moves)
{
    TRY(variable_own(r, t));
    if (!t->node && !node_at(r, t)) return KILN_OK;
    int no_grad = thread_state.no_grad;
    thread_state.no_grad = 0;
    kiln_tensor *part = value_handle(r, t), *all = part ? with_part(r, t, part) : NULL;
    thread_state.no_grad = no_grad;
    if (!all) return error_pending;
    variable_set_place(r, t, all->node, all->node_out);
    t->generation = *moves_of(r, t) += moves;
    return KILN_OK;
}

kiln_status variable_copy(struct recorder *r, int32_t variable)
{
    int no_grad = thread_state.no_grad;
    thread_state.no_grad = 0;
    kiln_tensor *now = current_at(r, variable, 0), *copy = now ? kiln_contiguous(now) : NULL;
    thread_state.no_grad = no_grad;
    if (!copy) return error_pending;
    struct variable *v = &r->variables.v[variable];
    v->current->value = copy->value;
    tape_set_node(v->current, copy->node, copy->node_out);
    v->version++;
    v->moves++;
    return KILN_OK;
}

// Without gradients the memory has another value at the same place on the tape.
kiln_status variable_write(struct recorder *r, kiln_tensor *t, kiln_tensor *value)
{
    TRY(variable_own(r, t));
    if (type_numel(&t->type) == 0) {
        t->value = value->value;
        if (!thread_state.no_grad && !t->detached) tape_set_node(t, value->node, value->node_out);
        return KILN_OK;
    }
    TRY(recorder_check_apart(r, t->variable, true));
    kiln_tensor *all = with_part(r, t, value);
    if (!all) return error_pending;
    struct variable *v = &r->variables.v[t->variable];
    v->current->value = all->value;
    t->value = value->value;
    if (!thread_state.no_grad && !t->detached) {
        variable_set_place(r, t, all->node, all->node_out);
        tape_set_node(t, value->node, value->node_out);
        t->generation = ++*moves_of(r, t);
    }
    t->seen = ++v->version;
    v->written = ++r->writes;
    if (v->source < 0) return KILN_OK;
    struct happened h = {v->current->value, r->sources.v[v->source].value, r->sink.builder.graph->nodes.n, -1};
    return vec_push(&r->happened, h);
}
