#include "base/arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT_B = 16, FIRST_BLOCK_B = 4096, LARGEST_BLOCK_B = 1 << 20 };

// Blocks grow twofold, so that small graphs cost one allocation and large ones few.
struct arena_block {
    struct arena_block *next;
    size_t used_B, size_B;
    alignas(ALIGNMENT_B) unsigned char bytes[];
};

void arena_init(struct arena *a)
{
    a->head = NULL;
}

void arena_finish(struct arena *a)
{
    if (!a) return;
    for (struct arena_block *block = a->head; block;) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    a->head = NULL;
}

static struct arena_block *add_block(struct arena *a, size_t need_B)
{
    size_t size_B = a->head ? a->head->size_B * 2 : FIRST_BLOCK_B;
    if (size_B > LARGEST_BLOCK_B) size_B = LARGEST_BLOCK_B;
    if (size_B < need_B) size_B = need_B;
    struct arena_block *block = calloc(1, sizeof *block + size_B);
    if (!block) return NULL;
    block->size_B = size_B;
    block->next = a->head;
    a->head = block;
    return block;
}

void *arena_alloc(struct arena *a, size_t size_B)
{
    struct arena_block *block = a->head;
    if (size_B > SIZE_MAX / 2) goto out_of_memory;
    size_t need_B = (size_B + ALIGNMENT_B - 1) & ~(size_t)(ALIGNMENT_B - 1);
    if (need_B == 0) need_B = ALIGNMENT_B;
    if (!block || block->size_B - block->used_B < need_B) block = add_block(a, need_B);
    if (!block) goto out_of_memory;
    void *p = block->bytes + block->used_B;
    block->used_B += need_B;
    return p;

out_of_memory:
    error_set(KILN_E_MEMORY, "out of memory: %zu bytes for an arena", size_B);
    return NULL;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy = arena_alloc(a, len + 1);
    if (copy) memcpy(copy, s, len);
    return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}
