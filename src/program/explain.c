// A program as text: launch by launch, or equal launches counted.
#include "base/quantity.h"
#include "ir/launch_facts.h"
#include "program/host.h"
#include "program/impl.h"
#include "program/region.h"
#include <stdlib.h>
#include <string.h>

static int count_over(const struct program *p)
{
    int n = 0;
    for (int i = 0; i < p->n_fresh; i++) n += p->fresh[i].over >= 0;
    return n;
}

static void add_head(const struct program *p, struct str *out)
{
    const struct program_facts *t = &p->facts;
    str_addf(out, "%d op%s in %d launch%s; ", t->n_nodes, t->n_nodes == 1 ? "" : "s", t->n_launches,
             t->n_launches == 1 ? "" : "es");
    if (t->naive_B)
        str_addf(out, "%llu bytes for intermediate values, %llu if each had its own\n", (unsigned long long)t->arena_B,
                 (unsigned long long)t->naive_B);
    else
        str_add(out, "no intermediate values in memory\n");
    int n_over = count_over(p);
    if (n_over) str_addf(out, "  %d input%s written over\n", n_over, n_over == 1 ? " is" : "s are");
}

void program_explain(const struct program *p, struct str *out)
{
    if (background_better(p)) p = background_better(p);
    add_head(p, out);
    for (int i = 0; i < p->n_actions; i++) {
        const struct action *a = &p->actions[i];
        if (a->n_entries > 1) str_addf(out, "%d kernels in one launch\n", a->n_entries);
        for (int k = 0; k < a->n_entries && a->fused; k++) fused_text(a->fused[k], out);
        if (a->plain) str_addf(out, "op %s\n", a->plain->op);
        if (a->host) program_host_explain(a->host, out);
        if (a->region) program_region_explain(a->region, "  ", program_explain, out);
        if (a->why) str_addf(out, "  not fused further: %s\n", a->why);
    }
    records_explain((struct program *)(uintptr_t)p, out);
}

// --- the summary

enum { KINDS_SHOWN = 12, TYPES_SHOWN_B = 56 };

// Launches of one name over the same types.
struct kind {
    const char *name, *in, *out;
    int launches, kernels, first; // first: by which those that cost the same are ordered
    double bytes, flops;
};

struct kinds {
    struct kind *v;
    int n, unknown; // unknown: launches whose operations are not known
    double bytes, flops;
};

static bool is_same(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static struct kind *find_kind(struct kinds *k, const struct action *a)
{
    const char *name = a->fused ? a->fused[0]->name : a->plain->op;
    const struct launch_facts *f = a->facts;
    for (int i = 0; i < k->n; i++)
        if (is_same(k->v[i].name, name) && is_same(k->v[i].in, f ? f->in : NULL) &&
            is_same(k->v[i].out, f ? f->out : NULL))
            return &k->v[i];
    k->v[k->n] = (struct kind){.name = name, .in = f ? f->in : NULL, .out = f ? f->out : NULL, .first = k->n};
    return &k->v[k->n++];
}

static void count_action(struct kinds *k, const struct action *a)
{
    struct kind *kind = find_kind(k, a);
    double bytes = a->facts ? a->facts->read_B + a->facts->written_B : 0;
    double flops = a->facts ? a->facts->flops : -1;
    kind->launches++;
    kind->kernels += a->n_entries;
    kind->bytes += bytes;
    k->bytes += bytes;
    k->unknown += flops < 0;
    if (flops > 0) kind->flops += flops;
    if (flops > 0) k->flops += flops;
}

static int by_bytes(const void *a, const void *b)
{
    const struct kind *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->first - y->first;
}

static void add_cost(struct str *out, double bytes, double flops)
{
    str_add_bytes(out, bytes);
    if (!(flops > 0)) return;
    str_add(out, ", ");
    str_add_flops(out, flops);
}

// Whole types, of many the first.
static void add_types(const char *types, struct str *out)
{
    size_t n = strlen(types);
    if (n > TYPES_SHOWN_B)
        for (n = TYPES_SHOWN_B; n > 0 && types[n] != ' ';) n--;
    str_addn(out, types, n);
    if (types[n]) str_add(out, " …");
}

static void add_kind(const struct kind *k, const char *indent, struct str *out)
{
    str_addf(out, "%s%d × %s", indent, k->launches, k->name);
    if (k->kernels > k->launches) str_addf(out, " and others alike, %d kernels", k->kernels);
    str_add(out, ": ");
    if (k->in) add_types(k->in, out);
    str_add(out, k->in && *k->in ? " → " : "→ ");
    if (k->out) add_types(k->out, out);
    str_add(out, "; ");
    add_cost(out, k->bytes, k->flops);
    str_add(out, "\n");
}

static void add_kinds(struct kinds *k, const char *indent, struct str *out)
{
    qsort(k->v, (size_t)k->n, sizeof *k->v, by_bytes);
    struct kind rest = {.name = NULL};
    int n_rest = 0;
    for (int i = 0; i < k->n; i++) {
        if (i < KINDS_SHOWN || k->n == KINDS_SHOWN + 1) {
            add_kind(&k->v[i], indent, out);
            continue;
        }
        rest.launches += k->v[i].launches;
        rest.bytes += k->v[i].bytes;
        rest.flops += k->v[i].flops;
        n_rest++;
    }
    if (n_rest) {
        str_addf(out, "%s%d launches of %d other kinds: ", indent, rest.launches, n_rest);
        add_cost(out, rest.bytes, rest.flops);
        str_add(out, "\n");
    }
    if (k->n < 2) return;
    str_addf(out, "%stogether ", indent);
    add_cost(out, k->bytes, k->flops);
    str_add(out, "\n");
}

static void summary_of_child(const struct program *p, struct str *out);

static void summary(const struct program *p, const char *indent, struct str *out)
{
    struct kinds k = {.v = calloc((size_t)p->n_actions + 1, sizeof *k.v)};
    add_head(p, out);
    if (!k.v) str_fail(out);
    for (int i = 0; i < p->n_actions && k.v; i++) {
        const struct action *a = &p->actions[i];
        if (a->host) program_host_explain(a->host, out);
        if (a->region) program_region_explain(a->region, "  ", summary_of_child, out);
        if (a->plain || a->fused) count_action(&k, a);
    }
    if (k.v) add_kinds(&k, indent, out);
    free(k.v);
}

static void summary_of_child(const struct program *p, struct str *out)
{
    summary(p, "  ", out);
}

void program_summary(const struct program *p, struct str *out)
{
    if (background_better(p)) p = background_better(p);
    summary(p, "", out);
    records_explain((struct program *)(uintptr_t)p, out);
}
