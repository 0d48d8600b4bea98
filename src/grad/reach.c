// Marks what a backward may come to, from node to node along the tape.
#include "grad/reach.h"

static kiln_status visit(struct tape_reach *r, const struct tape_node *n)
{
    if (!n || node_map_get(&r->seen, n)) return KILN_OK;
    TRY(vec_push(&r->nodes, n));
    return node_map_put(&r->seen, n, (void *)n);
}

kiln_status reach_from(struct tape_reach *r, const struct tape_node *n)
{
    size_t i = r->nodes.n;
    TRY(visit(r, n));
    for (; i < r->nodes.n; i++) {
        const struct tape_node *at = r->nodes.v[i];
        for (int k = 0; k < at->n_in; k++) TRY(visit(r, at->edges[k].node));
    }
    return KILN_OK;
}

bool reach_has(const struct tape_reach *r, const struct tape_node *n)
{
    return node_map_get(&r->seen, n) != NULL;
}

void reach_finish(struct tape_reach *r)
{
    node_map_finish(&r->seen);
    vec_free(&r->nodes);
}
