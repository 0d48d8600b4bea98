// Which results of a captured function come of which targets: found in its backward graph, at the first question.
#include "jit/function.h"
#include <stdlib.h>
#include <string.h>

// Sets of gradients that arrive, a bit each.
struct spreading {
    const struct kiln_graph *g;
    size_t n_words;
    uint64_t *sets; // by value
};

static void join(const struct spreading *s, int32_t to, int32_t from)
{
    for (size_t w = 0; w < s->n_words; w++)
        s->sets[(size_t)to * s->n_words + w] |= s->sets[(size_t)from * s->n_words + w];
}

// The first inputs of the graph are the gradients that arrive.
static void spread(const struct spreading *s, size_t n_douts)
{
    size_t n = 0;
    for (size_t v = 0; v < s->g->values.n && n < n_douts; v++) {
        if (s->g->values.v[v].kind != IR_INPUT) continue;
        s->sets[v * s->n_words + n / 64] |= UINT64_C(1) << n % 64;
        n++;
    }
    for (size_t i = 0; i < s->g->nodes.n; i++) {
        const struct ir_node *node = &s->g->nodes.v[i];
        for (int32_t k = 0; k < node->n_in; k++)
            for (int o = 0; ir_operands(s->g, node)[k] >= 0 && o < ir_node_outputs(node); o++)
                join(s, node->first_out + o, ir_operands(s->g, node)[k]);
    }
}

static bool *find_leads(const struct gradient *g)
{
    struct spreading s = {.g = g->all.graph, .n_words = (g->n_douts + 63) / 64};
    bool *leads = calloc(g->n_outputs * g->n_targets + 1, sizeof *leads);
    s.sets = calloc(s.g->values.n * s.n_words + 1, sizeof *s.sets);
    for (size_t t = 0; s.sets && leads && t < g->n_targets; t++) {
        if (!t) spread(&s, g->n_douts);
        if (g->all.outputs[t] < 0) continue;
        const uint64_t *set = s.sets + (size_t)s.g->outputs.v[g->all.outputs[t]].value * s.n_words;
        for (size_t o = 0; o < g->n_outputs; o++)
            if (g->douts[o] >= 0) leads[o * g->n_targets + t] = set[g->douts[o] / 64] >> g->douts[o] % 64 & 1;
    }
    if (!s.sets) free(leads), leads = NULL;
    free(s.sets);
    return leads;
}

bool entry_leads(struct entry *e, size_t output, size_t target)
{
    struct gradient *g = &e->captured.gradient;
    if (!g->all.graph) return true; // who runs it is told why
    pthread_mutex_lock(&g->lock);
    if (!g->leads) g->leads = find_leads(g);
    bool leads = !g->leads || g->leads[output * g->n_targets + target];
    pthread_mutex_unlock(&g->lock);
    return leads;
}
