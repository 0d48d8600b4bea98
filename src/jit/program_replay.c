// A program that replays its graph node by node. It keeps the graph's address: whoever made it keeps the graph.
#include "jit/replay.h"
#include <stdlib.h>

struct program {
    atomic_int refs;
    const struct kiln_graph *graph;
    uint64_t counters;
};

kiln_status program_create(const struct kiln_graph *g, kiln_device *dev, const struct layout *const *layouts,
                           const struct program_options *options, struct program **out)
{
    (void)dev, (void)layouts, (void)options;
    struct program *p = calloc(1, sizeof *p);
    if (!p) return error_set(KILN_E_MEMORY, "jit: out of memory");
    atomic_init(&p->refs, 1);
    p->graph = g;
    for (size_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.v[i].op->flags & OP_RANDOM)
            p->counters += ((uint64_t)type_numel(&g->values.v[g->nodes.v[i].first_out].type) + 1) / 2;
    *out = p;
    return KILN_OK;
}

struct program *program_ref(struct program *p)
{
    atomic_fetch_add(&p->refs, 1);
    return p;
}

void program_unref(struct program **p)
{
    if (*p && atomic_fetch_sub(&(*p)->refs, 1) == 1) free(*p);
    *p = NULL;
}

uint64_t program_random_counters(const struct program *p)
{
    return p->counters;
}

kiln_status program_run(struct program *p, kiln_tensor *const *in, const struct program_rng *rng, kiln_tensor **out)
{
    thread_state.no_grad++;
    kiln_status status = graph_replay(p->graph, in, rng, out);
    thread_state.no_grad--;
    return status;
}

void program_get_facts(const struct program *p, struct program_facts *out)
{
    *out = (struct program_facts){.n_launches = (int)p->graph->nodes.n, .n_nodes = (int)p->graph->nodes.n};
}

void program_explain(const struct program *p, struct str *out)
{
    ir_graph_text(p->graph, out);
}
