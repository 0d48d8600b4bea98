// Copies of a part of the tape, and gradients through them.
//
// The nodes of the part stay as they are: others may use them. To run the part alone it is copied, with nodes of kind
// INPUT where its edges lead outside; the backward engine runs back from what leaves the copies and ends there.
#include "grad/part.h"
#include "base/leave.h"
#include "grad/run.h"
#include <stdlib.h>
#include <string.h>

void part_free(struct tape_part *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->n_nodes; i++) node_unref(p->nodes[i]);
    free(p->nodes);
    free(p->places);
    free(p->outside);
    free(p->types);
    free(p->leaving);
    free(p->leads);
    free(p);
}

// Back over the nodes from one of them, which `reached` holds; places end before `at`.
static void follow(const struct tape_part *p, bool *reached, size_t at, bool *leads)
{
    for (size_t i = p->n_nodes; i-- > 0;) {
        at -= p->nodes[i]->n_in;
        for (int k = 0; k < p->nodes[i]->n_in && reached[i]; k++) {
            int32_t place = p->places[at + (size_t)k];
            if (place >= 0)
                reached[place] = true;
            else if (place != PART_NONE)
                leads[-2 - place] = true;
        }
    }
}

kiln_status part_find_leads(struct tape_part *p)
{
    size_t n_places = 0;
    bool *reached = malloc(p->n_nodes + 1);
    p->leads = calloc(p->n_leaving * p->n_outside + 1, sizeof *p->leads);
    kiln_status status = reached && p->leads ? KILN_OK : error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < p->n_nodes; i++) n_places += p->nodes[i]->n_in;
    for (size_t i = 0; i < p->n_leaving && !status; i++) {
        memset(reached, false, p->n_nodes);
        reached[part_index(p, p->leaving[i].node)] = true;
        follow(p, reached, n_places, &p->leads[i * p->n_outside]);
    }
    free(reached);
    return status;
}

void part_drop(size_t n, struct tape_node **nodes)
{
    for (size_t i = n; i-- > 0;) node_unref(nodes[i]);
}

// The nodes are in the order of their age.
size_t part_index(const struct tape_part *p, const struct tape_node *n)
{
    size_t first = 0, last = p->n_nodes;
    while (first < last) {
        size_t middle = (first + last) / 2;
        if (p->nodes[middle] == n) return middle;
        if (p->nodes[middle]->sequence < n->sequence)
            first = middle + 1;
        else
            last = middle;
    }
    return p->n_nodes;
}

static struct tape_node *copy_of(const struct tape_node *n, bool values)
{
    int n_dims = 0;
    for (int i = 0; i < n->n_in + n->n_out; i++) n_dims += 2 * n->values[i].rank;
    struct tape_node *c = node_new(n->kind, n->n_in, n->n_out, n->op->n_attrs, n_dims);
    if (!c) return NULL;
    c->op = n->op;
    c->rule = n->rule;
    c->where = n->where;
    memcpy(c->values, n->values, sizeof *c->values * (size_t)(n->n_in + n->n_out));
    if (n->op->n_attrs) memcpy(c->attrs, n->attrs, sizeof *c->attrs * n->op->n_attrs);
    if (n_dims) memcpy(c->dims, n->dims, sizeof *c->dims * (size_t)n_dims);
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        if (c->values[i].state != VALUE_STORAGE) continue;
        if (values)
            storage_save(c->values[i].storage);
        else
            c->values[i].state = VALUE_TYPE;
    }
    for (int i = 0; i < n->n_in; i++) c->edges[i] = (struct tape_edge){NULL, 0};
    return c;
}

static struct tape_edge edge_of(const struct tape_edge *from, int32_t place, struct tape_node *const *inputs,
                                struct tape_node *const *copies)
{
    if (place == PART_NONE) return (struct tape_edge){NULL, 0};
    if (place >= 0) return (struct tape_edge){node_ref(copies[place]), from->out};
    return (struct tape_edge){node_ref(inputs[-2 - place]), 0};
}

kiln_status part_copy(const struct tape_part *p, const struct tape_edge *onward, bool values, struct tape_node **inputs,
                      struct tape_node **copies)
{
    const struct tape_edge none = {NULL, 0};
    size_t at = 0, n_inputs = 0, n = 0;
    for (; n_inputs < p->n_outside; n_inputs++) {
        inputs[n_inputs] = node_input(&p->types[n_inputs], onward ? &onward[n_inputs] : &none);
        if (!inputs[n_inputs]) break;
    }
    for (; n < p->n_nodes && n_inputs == p->n_outside; n++) {
        const struct tape_node *from = p->nodes[n];
        copies[n] = copy_of(from, values);
        if (!copies[n]) break;
        for (int k = 0; k < from->n_in; k++, at++)
            copies[n]->edges[k] = edge_of(&from->edges[k], p->places[at], inputs, copies);
    }
    if (n_inputs == p->n_outside && n == p->n_nodes) return KILN_OK;
    part_drop(n, copies);
    part_drop(n_inputs, inputs);
    return error_pending;
}

struct ir_builder *part_graph_of(const struct tape_part *p, kiln_tensor *const *dout)
{
    for (size_t i = 0; i < p->n_leaving; i++)
        if (dout[i] && dout[i]->builder && !tensor_capture(dout[i])) return dout[i]->builder;
    return NULL;
}

static kiln_status begin(const struct tape_part *p, struct run *run, struct tape_node *const *copies,
                         kiln_tensor *const *dout)
{
    for (size_t i = 0; i < p->n_leaving; i++) {
        if (!dout[i]) continue;
        struct tape_edge root = {copies[part_index(p, p->leaving[i].node)], p->leaving[i].out};
        kiln_tensor *given = grad_second_handle(dout[i]);
        if (!given) return error_pending;
        TRY(run_add(run, &root, given));
    }
    return KILN_OK;
}

static kiln_status check_not_used_up(const struct tape_part *p)
{
    for (size_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i]->freed)
            return error_set(KILN_E_GRADIENT,
                             "backward: the tape of %s was used up by an earlier backward; pass .keep_tape to that one",
                             p->nodes[i]->op->name);
    return KILN_OK;
}

struct copied {
    struct tape_node **room;
    size_t n;
    bool made;
};

static void drop_copies(void *at)
{
    struct copied *c = at;
    if (c->made) part_drop(c->n, c->room);
    free(c->room);
}

kiln_status part_gradients(const struct tape_part *p, const struct tape_edge *onward, bool create_graph,
                           kiln_tensor *const *dout, kiln_tensor **din)
{
    TRY(check_not_used_up(p));
    struct tape_node **room = calloc(p->n_outside + p->n_nodes + 1, sizeof *room);
    if (!room) return error_set(KILN_E_MEMORY, "backward: out of memory");
    struct tape_node **copies = room + p->n_outside;
    struct run run = {.keep = true,
                      .create_graph = create_graph,
                      .since = node_sequence(),
                      .n_targets = p->n_outside,
                      .targets = room,
                      .captured = din,
                      .builder = part_graph_of(p, dout)};
    kiln_status status = part_copy(p, onward, true, room, copies);
    struct copied c = {room, p->n_outside + p->n_nodes, !status};
    struct leave left;
    leave_push(&left, drop_copies, &c);
    run.inputs_until = node_sequence();
    if (!status) status = begin(p, &run, copies, dout);
    if (!status) status = run_backward(&run);
    run_finish(&run);
    leave_pop(&left);
    drop_copies(&c);
    return status;
}
