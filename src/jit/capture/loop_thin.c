// The gradient of a loop to which some gradients do not come: what they alone lead to is taken out.
#include "jit/capture/loop_gradient.h"
#include <stdlib.h>
#include <string.h>

struct thinning {
    struct loop_held *h; // a copy, with parts of its own
    kiln_tensor *const *dout;
    bool *present; // by state: a gradient arrives at it, or comes to it of another
    bool *arrived; // by gradient among the graph's inputs
    struct thinned graph;
};

static bool row_is_there(const struct thinning *t, size_t row)
{
    const struct backward_row *r = &t->h->rows[row];
    return !r->is_gradient || t->dout[r->at];
}

// Gradients of carried values come of others in an earlier trip. Until nothing is added.
static kiln_status find_present(struct thinning *t)
{
    struct loop_held *h = t->h;
    for (size_t k = 0; k < h->n_states; k++) t->present[k] = t->dout[h->states[k]];
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < h->n_douts; i++) {
            const struct backward_input *in = &h->inputs[i];
            t->arrived[i] = in->from == FROM_STATE ? t->present[in->at] : row_is_there(t, in->at);
        }
        thinned_finish(&t->graph);
        TRY(region_thin(h->graph, t->arrived, h->n_douts, &t->graph));
        for (size_t i = 0; i < h->n_targets; i++) {
            const struct backward_target *to = &h->targets[i];
            if (to->of != OF_STATE || to->output < 0 || t->graph.places[to->output] < 0 || t->present[to->at]) continue;
            t->present[to->at] = more = true;
        }
    }
    return KILN_OK;
}

static size_t count_before(const struct thinning *t, size_t state)
{
    size_t n = 0;
    for (size_t k = 0; k < state; k++) n += t->present[k];
    return n;
}

static size_t rows_before(const struct thinning *t, size_t row)
{
    size_t n = 0;
    for (size_t i = 0; i < row; i++) n += row_is_there(t, i);
    return n;
}

static void thin_targets(struct thinning *t)
{
    struct loop_held *h = t->h;
    h->n_sums = h->n_given = h->n_outputs = 0;
    for (size_t i = 0; i < h->n_targets; i++) {
        struct backward_target *to = &h->targets[i];
        to->output = to->output < 0 ? -1 : t->graph.places[to->output];
        h->n_outputs += to->output >= 0;
        if (to->of == OF_STATE && t->present[to->at])
            to->at = count_before(t, to->at);
        else if (to->of != OF_STATE && to->output >= 0)
            to->at = to->of == OF_SUM ? h->n_sums++ : h->n_given++;
        else
            to->of = OF_NONE;
    }
}

static void thin_inputs(struct thinning *t)
{
    struct loop_held *h = t->h;
    for (size_t i = 0; i < h->n_inputs; i++) {
        struct backward_input *in = &h->inputs[i];
        bool absent = i < h->n_douts && !t->arrived[i];
        if (absent)
            in->from = FROM_NONE;
        else if (in->from == FROM_STATE)
            in->at = count_before(t, in->at);
        else if (in->from == FROM_ROW)
            in->at = rows_before(t, in->at);
    }
}

static void thin_rows_and_states(struct thinning *t)
{
    struct loop_held *h = t->h;
    size_t n = 0;
    for (size_t i = 0; i < h->n_rows; i++)
        if (row_is_there(t, i)) h->rows[n++] = h->rows[i]; // those behind are looked at as they were
    h->n_rows = n;
    n = 0;
    for (size_t k = 0; k < h->n_states; k++)
        if (t->present[k]) h->states[n++] = h->states[k];
    h->n_states = n;
}

static void *copy_of(const void *from, size_t n, size_t size_B)
{
    void *to = malloc(n * size_B + 1);
    return to && n ? memcpy(to, from, n * size_B) : to;
}

static kiln_status thin_copy(struct thinning *t)
{
    struct loop_held *h = t->h;
    h->inputs = copy_of(h->inputs, h->n_inputs, sizeof *h->inputs);
    h->targets = copy_of(h->targets, h->n_targets, sizeof *h->targets);
    h->states = copy_of(h->states, h->n_states, sizeof *h->states);
    h->rows = copy_of(h->rows, h->n_rows, sizeof *h->rows);
    t->present = calloc(h->n_states + 1, sizeof *t->present);
    t->arrived = calloc(h->n_douts + 1, sizeof *t->arrived);
    if (!h->inputs || !h->targets || !h->states || !h->rows || !t->present || !t->arrived)
        return error_set(KILN_E_MEMORY, "backward: out of memory");
    TRY(find_present(t));
    thin_targets(t);
    thin_inputs(t);
    thin_rows_and_states(t);
    return KILN_OK;
}

kiln_status loop_thin(const struct loop_held *h, kiln_tensor *const *dout, struct loop_held *out, struct thinned *graph)
{
    *out = *h;
    struct thinning t = {.h = out, .dout = dout};
    kiln_status status = thin_copy(&t);
    *graph = t.graph;
    free(t.present);
    free(t.arrived);
    return status;
}
