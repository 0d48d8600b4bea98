// Gradients of pieces in the engine: they wait at the node of what they are pieces of, and go on through views as they
// are (pieces.h).
#include "grad/run_entry.h"

kiln_status run_join_pieces(struct run_entry *e)
{
    for (int i = 0; e->pieces.n && i < e->node->n_out; i++) {
        struct type type;
        struct kiln_scope scope;
        node_value_type(e->node, &e->node->values[e->node->n_in + i], &type);
        scope_enter(&scope);
        kiln_tensor *sum = pieces_sum(&e->pieces, (uint32_t)i, &type);
        if (sum && sum->scope != &scope) sum = grad_second_handle(sum);
        scope_leave(&scope, &sum, sum ? 1 : 0);
        if (error_pending) return error_pending;
        if (sum) TRY(run_add_to(&e->grads[i], sum));
    }
    pieces_clear(&e->pieces);
    return KILN_OK;
}

// Keeps what came for a piece. Gradients that are larger together than the whole (the pieces overlap) are joined.
static kiln_status add_piece(struct run *r, const struct tape_edge *at, struct grad_piece *piece,
                             const struct type *whole)
{
    struct run_entry *e;
    TRY(run_entry_of(r, at->node, &e));
    piece->out = at->out;
    if (e->pieces.elements + type_numel(&piece->grad->type) > type_numel(whole)) TRY(run_join_pieces(e));
    return pieces_add(&e->pieces, piece);
}

kiln_status run_move_piece(struct run *r, const struct tape_node *n, const struct grad_piece *piece, bool *moved)
{
    struct grad_piece to;
    struct kiln_scope scope;
    struct type whole;
    node_value_type(n, &n->values[0], &whole);
    scope_enter(&scope);
    to.grad = piece_behind(n, piece, &to.place);
    bool made = to.grad && to.grad != piece->grad;
    scope_leave(&scope, &to.grad, made ? 1 : 0);
    if (error_pending) return error_pending;
    *moved = to.grad != NULL;
    if (!*moved) return KILN_OK;
    TRY(add_piece(r, &n->edges[0], &to, &whole));
    if (made) tensor_destroy(piece->grad);
    return KILN_OK;
}

// Nothing but pieces, which leave more of the value out than they have of it, came to a view that passes gradients on
// and does nothing else.
static bool may_pass_on(const struct run *r, const struct run_entry *e)
{
    const struct tape_node *n = e->node;
    if (!e->pieces.n || e->grads[0] || n->kind != NODE_OP || n->freed || n->hooks || !place_is_view(n)) return false;
    if (run_is_target(r, n)) return false;
    if (!run_edge_matters(r, &n->edges[0]) || node_is_cut(n->edges[0].node)) return false;
    struct type y;
    node_value_type(n, &n->values[1], &y);
    return 2 * e->pieces.elements < type_numel(&y);
}

// Pieces that are pieces of a view's input, too, go on to that as they are.
kiln_status run_pass_on(struct run *r, struct run_entry *e)
{
    struct pieces *p = &e->pieces;
    size_t kept = 0;
    if (!may_pass_on(r, e)) return KILN_OK;
    for (size_t i = 0; i < p->n; i++) {
        bool moved = false;
        int64_t elements = type_numel(&p->v[i].grad->type);
        if (!error_pending) run_move_piece(r, e->node, &p->v[i], &moved);
        if (moved && !error_pending)
            p->elements -= elements;
        else
            p->v[kept++] = p->v[i];
    }
    p->n = kept;
    return error_pending;
}
