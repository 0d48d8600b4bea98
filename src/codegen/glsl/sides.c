// The sides of products and of attention: what of them four neighbours are, and whether those are one access.
#include "codegen/glsl/form.h"

#include <stdlib.h>

// Marks what the root stands on. False: a place is computed, or an element has a condition.
static bool find_accesses(const struct fused_kernel *k, struct glsl_side *s)
{
    const struct scalar_dag *d = &k->dag;
    bool *want = calloc((size_t)d->n_nodes, sizeof *want), plain = want != NULL;
    if (!want) return false; // fours are left out
    want[s->root] = true;
    for (int i = d->n_nodes - 1; i >= 0; i--) {
        const struct scalar_node *n = &d->nodes[i];
        if (!want[i]) continue;
        if (n->kind == SCALAR_LOAD) s->access[n->code] = true;
        plain = plain && (n->kind != SCALAR_LOAD || n->n_args == 0);
        for (int a = 0; a < n->n_args; a++) want[n->arg[a]] = true;
    }
    free(want);
    return plain;
}

// By the first access that tells.
static bool lies_along_second(const struct fused_kernel *k, const struct glsl_side *s, const struct glsl_sections *at)
{
    int along = at->begin[s->second + 1] - 1, beside = at->begin[s->first + 1] - 1;
    for (int i = 0; i < k->n_in; i++)
        if (s->access[i] && (k->in[i].strides[along] == 1) != (k->in[i].strides[beside] == 1))
            return k->in[i].strides[along] == 1;
    return false;
}

static void find_fast(const struct fused_kernel *k, const struct glsl_sections *at, struct glsl_side *s)
{
    bool plain = find_accesses(k, s), any = false;
    s->along_second = lies_along_second(k, s, at);
    int section = s->along_second ? s->second : s->first, d = at->begin[section];
    s->fast = -1;
    if (!plain || at->begin[section + 1] - d != 1) return;
    for (int i = 0; i < k->n_in; i++) {
        if (!s->access[i]) continue;
        if (k->in[i].strides[d] != 0 && k->in[i].strides[d] != 1) return;
        any = any || k->in[i].strides[d] == 1;
    }
    if (any) s->fast = d;
}

int glsl_sides_of(const struct fused_kernel *k, const struct glsl_form *f, struct glsl_side *out)
{
    const struct fused_attention *t = &k->attention;
    struct glsl_sections at;
    int n = 0;
    if (f->kind == GLSL_TILES) {
        out[n++] = (struct glsl_side){.root = k->product.a, .first = 1, .second = 3};
        out[n++] = (struct glsl_side){.root = k->product.b, .first = 2, .second = 3};
    } else if (f->kind == GLSL_ATTENTION) {
        out[n++] = (struct glsl_side){.root = t->q, .first = 1, .second = 4};
        out[n++] = (struct glsl_side){.root = t->k, .first = 3, .second = 4};
        out[n++] = (struct glsl_side){.root = t->v, .first = 3, .second = 2};
    }
    glsl_sections_of(k, f, &at);
    for (int i = 0; i < n; i++) find_fast(k, &at, &out[i]);
    // The template fetches v along D alone.
    if (f->kind == GLSL_ATTENTION && !out[2].along_second) out[2].fast = -1;
    return n;
}
