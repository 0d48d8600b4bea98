// Keeping gradients of pieces until they are put together (pieces_sum.c), and taking them back through views.
#include "grad/pieces.h"
#include <kiln/ops.h>
#include <stdlib.h>

bool piece_of(const struct tape_node *n, struct grad_piece *out)
{
    struct type x, y;
    if (!place_is_view(n)) return false;
    node_value_type(n, &n->values[0], &x);
    node_value_type(n, &n->values[1], &y);
    if (type_numel(&y) >= type_numel(&x)) return false;
    place_whole(&y, &out->place);
    return true;
}

kiln_status pieces_add(struct pieces *p, const struct grad_piece *piece)
{
    if (p->n == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 8;
        struct grad_piece *v = realloc(p->v, sizeof *v * cap);
        if (!v) return error_set(KILN_E_MEMORY, "backward: out of memory");
        p->v = v;
        p->cap = cap;
    }
    p->v[p->n++] = *piece;
    p->elements += type_numel(&piece->grad->type);
    return KILN_OK;
}

void pieces_clear(struct pieces *p)
{
    for (size_t i = 0; i < p->n; i++) tensor_destroy(p->v[i].grad);
    free(p->v);
    *p = (struct pieces){0};
}

// Along a dimension that does not move, one element was broadcast.
static kiln_tensor *sum_of_same(kiln_tensor *grad, struct piece_place *p)
{
    int64_t axes[MAX_RANK];
    size_t n = 0;
    int rank = 0;
    for (int i = 0; i < p->rank; i++) {
        if (p->strides[i] == 0 && p->dims[i] > 1) {
            axes[n++] = i;
            continue;
        }
        p->dims[rank] = p->dims[i];
        p->strides[rank++] = p->strides[i];
    }
    p->rank = rank;
    return n ? kiln_sum(grad, KILN_REDUCE(.axes = {n, axes})) : grad;
}

kiln_tensor *piece_behind(const struct tape_node *n, const struct grad_piece *piece, struct piece_place *place)
{
    *place = piece->place;
    if (!place_behind(n, place)) return NULL;
    kiln_tensor *g = piece->grad;
    if (place->rank != g->type.rank) g = kiln_reshape(g, (size_t)place->rank, place->dims);
    return g ? sum_of_same(g, place) : NULL;
}
