// From nodes to numbers: open addressing with linear probing; removal shifts back what follows, so that the table holds
// what is alive.
#pragma once
#include "base/base.h"

struct tape_node;
struct node_slot {
    const struct tape_node *key;
    void *value;
};
struct node_map {
    struct node_slot *v;
    size_t cap, n;
};

kiln_status node_map_put(struct node_map *m, const struct tape_node *key, void *value); // replaces
void *node_map_get(const struct node_map *m, const struct tape_node *key);              // NULL: none
void node_map_remove(struct node_map *m, const struct tape_node *key);
void node_map_finish(struct node_map *m);
