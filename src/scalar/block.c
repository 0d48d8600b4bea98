// The value of a DAG over many elements: a block at a time, node by node, each node one loop.
//
// Input: an expanded DAG without reductions. A block of BLOCK elements passes through all nodes before the next one
// starts, so that the values of a block stay in a near cache. Values live in slots of one block each; a slot is free
// again after the last node that reads its value, so that only as many are used as values are alive at once. Constants
// are filled in once and keep their slots; inputs are read where they are. The plan (slot of each node, last reader) is
// made at every call: it costs as much as a block of a few elements.
#include "scalar/prim.h"
#include <string.h>

enum { BLOCK = 256, SLOT_B = BLOCK * 8, ALIGN_B = 64, NO_SLOT = 0xffff };

struct plan {
    uint16_t *slot; // of each node; NO_SLOT: an input
    uint16_t *last; // the last node that reads it
    uint16_t *free_slots;
    int n_free, n_slots;
};

static size_t tables_B(const struct scalar_dag *d)
{
    size_t size_B = 3 * (size_t)d->n_nodes * sizeof(uint16_t);
    return (size_B + ALIGN_B - 1) & ~(size_t)(ALIGN_B - 1);
}

static void make_plan(const struct scalar_dag *d, uint16_t *tables, struct plan *p)
{
    size_t n = (size_t)d->n_nodes;
    *p = (struct plan){.slot = tables, .last = tables + n, .free_slots = tables + 2 * n};
    for (int i = 0; i < d->n_nodes; i++) {
        p->last[i] = (uint16_t)i;
        for (int k = 0; k < d->nodes[i].n_args; k++) p->last[d->nodes[i].arg[k]] = (uint16_t)i;
    }
    for (int i = 0; i < d->n_nodes; i++) {
        const struct scalar_node *node = &d->nodes[i];
        bool is_input = node->kind == SCALAR_INPUT, is_const = node->kind == SCALAR_CONST;
        // Before the arguments are freed: a node never writes where it reads, since classes differ in size.
        if (is_input)
            p->slot[i] = NO_SLOT;
        else
            p->slot[i] = !is_const && p->n_free ? p->free_slots[--p->n_free] : (uint16_t)p->n_slots++;
        for (int k = 0; k < node->n_args; k++) {
            int arg = node->arg[k];
            bool counted = (k > 0 && arg == node->arg[0]) || (k > 1 && arg == node->arg[1]);
            bool reusable = d->nodes[arg].kind != SCALAR_CONST && p->slot[arg] != NO_SLOT;
            if (p->last[arg] == i && !counted && reusable) p->free_slots[p->n_free++] = p->slot[arg];
        }
    }
}

static size_t class_size_B(enum scalar_class cls)
{
    static const uint8_t size_B[CLASS_COUNT] = {4, 8, 4, 8, 1};
    return size_B[cls];
}

static void fill_constant(void *slot, const struct scalar_node *n)
{
    size_t size_B = class_size_B(n->cls);
    for (size_t i = 0; i < BLOCK; i++) memcpy((char *)slot + i * size_B, &n->value, size_B);
}

size_t scalar_block_scratch_B(const struct scalar_dag *d)
{
    // At most one slot a node; counting exactly would need the tables that the scratch memory is for.
    return tables_B(d) + (size_t)d->n_nodes * SLOT_B;
}

void scalar_eval_block(const struct scalar_dag *d, const void *const *in, void *out, int64_t n, void *scratch)
{
    struct plan p;
    make_plan(d, scratch, &p);
    char *slots = (char *)scratch + tables_B(d);
    for (int i = 0; i < d->n_nodes; i++)
        if (d->nodes[i].kind == SCALAR_CONST) fill_constant(slots + (size_t)p.slot[i] * SLOT_B, &d->nodes[i]);
    size_t root_B = class_size_B(d->nodes[d->root].cls);
    for (int64_t at = 0; at < n; at += BLOCK) {
        int count = n - at < BLOCK ? (int)(n - at) : BLOCK;
        const void *value = NULL;
        for (int i = 0; i < d->n_nodes; i++) {
            const struct scalar_node *node = &d->nodes[i];
            const void *arg[3] = {NULL, NULL, NULL};
            for (int k = 0; k < node->n_args; k++) {
                const struct scalar_node *a = &d->nodes[node->arg[k]];
                uint16_t slot = p.slot[node->arg[k]];
                arg[k] = slot == NO_SLOT ? (const char *)in[a->code] + (size_t)at * class_size_B(a->cls)
                                         : slots + (size_t)slot * SLOT_B;
            }
            if (node->kind == SCALAR_INPUT)
                value = (const char *)in[node->code] + (size_t)at * class_size_B(node->cls);
            else
                value = slots + (size_t)p.slot[i] * SLOT_B;
            if (node->kind != SCALAR_PRIM || !node->n_args) continue;
            enum scalar_class key = d->nodes[node->arg[prim_key_arg(node->code)]].cls;
            prim_spelling(node->code, key)->block(slots + (size_t)p.slot[i] * SLOT_B, arg, count);
        }
        memmove((char *)out + (size_t)at * root_B, value, (size_t)count * root_B);
    }
}
