// The table from nodes of the tape to pointers.
#include "grad/map.h"
#include "base/hash.h"
#include <stdlib.h>

static size_t home(const struct node_map *m, const struct tape_node *key)
{
    return (size_t)hash_u64(0, (uint64_t)(uintptr_t)key) & (m->cap - 1);
}

static size_t find(const struct node_map *m, const struct tape_node *key)
{
    size_t i = home(m, key);
    while (m->v[i].key && m->v[i].key != key) i = (i + 1) & (m->cap - 1);
    return i;
}

static kiln_status grow(struct node_map *m)
{
    struct node_map bigger = {calloc(m->cap ? m->cap * 2 : 64, sizeof *m->v), m->cap ? m->cap * 2 : 64, m->n};
    if (!bigger.v) return error_set(KILN_E_MEMORY, "backward: out of memory");
    for (size_t i = 0; i < m->cap; i++)
        if (m->v[i].key) bigger.v[find(&bigger, m->v[i].key)] = m->v[i];
    free(m->v);
    *m = bigger;
    return KILN_OK;
}

kiln_status node_map_put(struct node_map *m, const struct tape_node *key, void *value)
{
    if ((m->n + 1) * 2 > m->cap) TRY(grow(m));
    struct node_slot *s = &m->v[find(m, key)];
    m->n += s->key == NULL;
    *s = (struct node_slot){key, value};
    return KILN_OK;
}

void *node_map_get(const struct node_map *m, const struct tape_node *key)
{
    return m->cap ? m->v[find(m, key)].value : NULL;
}

void node_map_remove(struct node_map *m, const struct tape_node *key)
{
    size_t i = m->cap ? find(m, key) : 0;
    if (!m->cap || !m->v[i].key) return;
    m->n--;
    for (size_t j = (i + 1) & (m->cap - 1);; j = (j + 1) & (m->cap - 1)) {
        if (!m->v[j].key) break;
        // The entry at j may move to the gap at i if its home is not in between.
        if (((j - home(m, m->v[j].key)) & (m->cap - 1)) < ((j - i) & (m->cap - 1))) continue;
        m->v[i] = m->v[j];
        i = j;
    }
    m->v[i] = (struct node_slot){NULL, NULL};
}

void node_map_finish(struct node_map *m)
{
    free(m->v);
    *m = (struct node_map){NULL, 0, 0};
}
