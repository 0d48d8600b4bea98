// Layers for a drawing (Sugiyama, Tagawa, Toda 1981).
//
// A box's layer is the longest way to it. Edges over several layers get bends, so that all edges join neighbours.
// Sweeps down and up then order each layer by the mean place of what its boxes are joined to, which leaves few
// crossings. Last, boxes come as near as they can to the mean of their neighbours without overlaps and in that order:
// of n wishes in order with distances between, the nearest places are means of runs (pool adjacent violators).
#include "program/picture.h"
#include <stdlib.h>

enum { SWEEPS = 12, BENDS_MOST = 20000 };
#define GAP        18.0
#define BEND_WIDTH 6.0

struct member {
    int32_t box;
    double order;
};

struct layers {
    struct picture *p;
    struct member *of; // by layer, in order
    int32_t *first;    // n_layers + 1
    double *sum;       // by box, as next
    int *n;
    double *mean; // of runs
    int *length;
};

static void find_layers(struct picture *p)
{
    p->n_layers = 0;
    for (size_t i = 0; i < p->edges.n; i++) { // edges are in the order of their ends
        const struct picture_edge *e = &p->edges.v[i];
        int below = p->boxes.v[e->from].layer + 1;
        if (p->boxes.v[e->to].layer < below) p->boxes.v[e->to].layer = below;
    }
    for (size_t i = 0; i < p->boxes.n; i++)
        if (p->boxes.v[i].layer >= p->n_layers) p->n_layers = p->boxes.v[i].layer + 1;
}

// What only feeds later layers, such as a parameter, stands just above the first of them.
static void pull_down(struct picture *p)
{
    for (size_t b = 0; b < p->boxes.n; b++) {
        if (p->boxes.v[b].kind != PICTURE_INPUT) continue;
        int least = p->n_layers;
        for (size_t i = 0; i < p->edges.n; i++)
            if ((size_t)p->edges.v[i].from == b && p->boxes.v[p->edges.v[i].to].layer < least)
                least = p->boxes.v[p->edges.v[i].to].layer;
        if (least < p->n_layers) p->boxes.v[b].layer = least - 1;
    }
}

// The edge itself becomes the last piece. Beyond a number of bends edges go straight.
static kiln_status add_bends(struct picture *p)
{
    size_t n = p->edges.n, bends = 0;
    for (size_t i = 0; i < n; i++) {
        struct picture_edge e = p->edges.v[i];
        int last = p->boxes.v[e.to].layer;
        for (int layer = p->boxes.v[e.from].layer + 1; layer < last && bends < BENDS_MOST; layer++, bends++) {
            struct picture_box bend = {.kind = PICTURE_BEND, .step = -1, .layer = layer, .width = BEND_WIDTH};
            struct picture_edge piece = {e.from, (int32_t)p->boxes.n};
            TRY(vec_push(&p->boxes, bend));
            TRY(vec_push(&p->edges, piece));
            e.from = piece.to;
        }
        p->edges.v[i].from = e.from;
    }
    return KILN_OK;
}

static kiln_status make_layers(struct layers *l, struct picture *p)
{
    size_t n = p->boxes.n;
    *l = (struct layers){.p = p,
                         .of = calloc(n + 1, sizeof *l->of),
                         .first = calloc((size_t)p->n_layers + 2, sizeof *l->first),
                         .sum = calloc(n + 1, sizeof *l->sum),
                         .n = calloc(n + 1, sizeof *l->n),
                         .mean = calloc(n + 1, sizeof *l->mean),
                         .length = calloc(n + 1, sizeof *l->length)};
    if (!l->of || !l->first || !l->sum || !l->n || !l->mean || !l->length)
        return error_set(KILN_E_MEMORY, "explain: out of memory");
    for (size_t i = 0; i < n; i++) l->first[p->boxes.v[i].layer + 1]++;
    for (int k = 0; k < p->n_layers; k++) l->first[k + 1] += l->first[k];
    for (size_t i = 0; i < n; i++) l->of[l->first[p->boxes.v[i].layer] + l->n[p->boxes.v[i].layer]++].box = (int32_t)i;
    return KILN_OK;
}

static void free_layers(struct layers *l)
{
    free(l->of);
    free(l->first);
    free(l->sum);
    free(l->n);
    free(l->mean);
    free(l->length);
}

// --- order

static int by_order(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    return x->order < y->order ? -1 : x->order > y->order ? 1 : x->box - y->box;
}

// The mean of what each box is joined to above, or below: of places, or of orders.
static void find_means(struct layers *l, bool above, bool places)
{
    struct picture *p = l->p;
    for (size_t i = 0; i < p->boxes.n; i++) l->sum[i] = l->n[i] = 0;
    for (size_t i = 0; i < p->edges.n; i++) {
        const struct picture_edge *e = &p->edges.v[i];
        int32_t box = above ? e->to : e->from, other = above ? e->from : e->to;
        l->sum[box] += places ? p->boxes.v[other].x : p->boxes.v[other].order;
        l->n[box]++;
    }
}

static void number_layer(struct layers *l, int layer)
{
    for (int32_t i = l->first[layer]; i < l->first[layer + 1]; i++)
        l->p->boxes.v[l->of[i].box].order = (double)(i - l->first[layer]);
}

static void order_layer(struct layers *l, int layer, bool above)
{
    find_means(l, above, false);
    for (int32_t i = l->first[layer]; i < l->first[layer + 1]; i++) {
        int32_t b = l->of[i].box;
        l->of[i].order = l->n[b] ? l->sum[b] / l->n[b] : l->p->boxes.v[b].order;
    }
    qsort(l->of + l->first[layer], (size_t)(l->first[layer + 1] - l->first[layer]), sizeof *l->of, by_order);
    number_layer(l, layer);
}

// --- places

static double distance(const struct layers *l, int32_t i) // from the one before, in a layer
{
    const struct picture_box *v = l->p->boxes.v;
    return v[l->of[i - 1].box].width / 2 + GAP + v[l->of[i].box].width / 2;
}

// Runs of boxes that would overlap have one shift, the mean of what they wish.
static void place_layer(struct layers *l, int layer)
{
    struct picture_box *v = l->p->boxes.v;
    int32_t first = l->first[layer], end = l->first[layer + 1];
    double offset = 0;
    int runs = 0;
    for (int32_t i = first; i < end; i++) {
        int32_t b = l->of[i].box;
        if (i > first) offset += distance(l, i);
        l->mean[runs] = (l->n[b] ? l->sum[b] / l->n[b] : v[b].x) - offset;
        l->length[runs++] = 1;
        while (runs > 1 && l->mean[runs - 2] > l->mean[runs - 1]) {
            int n = l->length[runs - 2], m = l->length[runs - 1];
            l->mean[runs - 2] = (n * l->mean[runs - 2] + m * l->mean[runs - 1]) / (n + m);
            l->length[runs - 2] = n + m;
            runs--;
        }
    }
    int32_t at = first;
    offset = 0;
    for (int r = 0; r < runs; r++)
        for (int k = 0; k < l->length[r]; k++, at++) {
            if (at > first) offset += distance(l, at);
            v[l->of[at].box].x = l->mean[r] + offset;
        }
}

static void pack(struct layers *l)
{
    for (int layer = 0; layer < l->p->n_layers; layer++) {
        double x = 0;
        for (int32_t i = l->first[layer]; i < l->first[layer + 1]; i++) {
            if (i > l->first[layer]) x += distance(l, i);
            l->p->boxes.v[l->of[i].box].x = x;
        }
    }
}

static void shift(struct picture *p)
{
    double left = 0, right = 0;
    for (size_t i = 0; i < p->boxes.n; i++) {
        const struct picture_box *b = &p->boxes.v[i];
        if (!i || b->x - b->width / 2 < left) left = b->x - b->width / 2;
        if (!i || b->x + b->width / 2 > right) right = b->x + b->width / 2;
    }
    for (size_t i = 0; i < p->boxes.n; i++) p->boxes.v[i].x += GAP - left;
    p->width = right - left + 2 * GAP;
}

kiln_status picture_layout(struct picture *p)
{
    struct layers l;
    find_layers(p);
    pull_down(p);
    TRY(add_bends(p));
    kiln_status status = make_layers(&l, p);
    for (int k = 0; k < p->n_layers && !status; k++) number_layer(&l, k);
    for (int sweep = 0; sweep < SWEEPS && !status; sweep++)
        for (int k = 0; k < p->n_layers; k++) order_layer(&l, sweep % 2 ? p->n_layers - 1 - k : k, sweep % 2 == 0);
    if (!status) pack(&l);
    for (int sweep = 0; sweep < SWEEPS && !status; sweep++)
        for (int k = 0; k < p->n_layers; k++) {
            find_means(&l, sweep % 2 == 0, true);
            place_layer(&l, sweep % 2 ? p->n_layers - 1 - k : k);
        }
    free_layers(&l);
    if (!status) shift(p);
    return status;
}
