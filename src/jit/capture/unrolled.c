// A loop in C becomes as many ops as it makes: a capture that grew by one is told of once, with the line.
//
// Input: the nodes of a capture, each with the address of the user's call. Counted are nodes of a line that are alike,
// op and type, many times: a line that reaches many layers, or the parameters of an optimiser, has few of each kind.
// What was made for gradients repeats what the function did, and is left out.
#include "jit/capture/recorder.h"
#include "base/caller.h"
#include <stdlib.h>
#include <string.h>

enum {
    UNROLLED_MIN = 2000, // nodes of one line
    ALIKE_MIN = 250,     // of these, of one kind
};

struct made {
    uintptr_t caller;
    const struct op *op;
    const struct type *type; // of its result
};

// Those of one address; in the end, of one line.
struct calls {
    uintptr_t caller;
    size_t n;
    char line[CALLER_TEXT_MAX];
};

kiln_status recorder_note_rule(struct recorder *r, size_t node)
{
    if (r->of_rules.n && r->of_rules.v[r->of_rules.n - 1].end == node) {
        r->of_rules.v[r->of_rules.n - 1].end++;
        return KILN_OK;
    }
    return vec_push(&r->of_rules, ((struct node_range){node, node + 1}));
}

static int compare_types(const struct type *a, const struct type *b)
{
    int by = (int)a->dtype - (int)b->dtype;
    if (!by) by = (int)a->rank - (int)b->rank;
    return by ? by : memcmp(a->dims, b->dims, sizeof *a->dims * a->rank);
}

static int compare(const void *x, const void *y)
{
    const struct made *a = x, *b = y;
    if (a->caller != b->caller) return a->caller < b->caller ? -1 : 1;
    if (a->op != b->op) return a->op->index < b->op->index ? -1 : 1;
    return compare_types(a->type, b->type);
}

static size_t list_nodes(const struct recorder *r, struct made *out)
{
    const struct kiln_graph *g = r->sink.builder.graph;
    size_t n = 0, range = 0;
    for (size_t i = 0; i < g->nodes.n; i++) {
        const struct ir_node *node = &g->nodes.v[i];
        while (range < r->of_rules.n && r->of_rules.v[range].end <= i) range++;
        if (range < r->of_rules.n && r->of_rules.v[range].first <= i) continue;
        if (node->caller && ir_node_outputs(node))
            out[n++] = (struct made){node->caller, node->op, &g->values.v[node->first_out].type};
    }
    qsort(out, n, sizeof *out, compare);
    return n;
}

// By address, those that are alike often enough. `made` is sorted.
static size_t count_calls(const struct made *made, size_t n, struct calls *out)
{
    size_t n_out = 0;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && !compare(&made[i], &made[end]);) end++;
        if (end - i < ALIKE_MIN) continue;
        if (!n_out || out[n_out - 1].caller != made[i].caller) out[n_out++] = (struct calls){.caller = made[i].caller};
        out[n_out - 1].n += end - i;
    }
    return n_out;
}

static const struct calls *most_of_a_line(struct calls *c, size_t n)
{
    struct calls *most = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        caller_describe(c[i].caller, c[i].line, sizeof c[i].line);
        while (k < i && strcmp(c[k].line, c[i].line) != 0) k++;
        if (k < i) c[k].n += c[i].n;
        if (!most || c[k].n > most->n) most = &c[k];
    }
    return most;
}

void recorder_tell_unrolled(const struct recorder *r)
{
    size_t n = r->sink.builder.graph->nodes.n;
    if (KILN_LIKELY(n <= UNROLLED_MIN)) return;
    struct made *made = malloc(sizeof *made * n);
    struct calls *calls = malloc(sizeof *calls * (n / ALIKE_MIN + 1));
    const struct calls *most = NULL;
    if (made && calls) most = most_of_a_line(calls, count_calls(made, list_nodes(r, made), calls));
    if (most && most->n > UNROLLED_MIN)
        log_warn("unrolled: %zu ops of %s come from %s; a loop in C becomes as many ops as it makes, see kiln_for",
                 most->n, r->name, most->line);
    free(made);
    free(calls);
}
