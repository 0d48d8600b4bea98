// Arenas: blocks from malloc, handed out from the front of the newest one, and given back together.
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

static void free_until(struct arena *a, const struct arena_block *end)
{
    while (a->head != end) {
        struct arena_block *next = a->head->next;
        free(a->head);
        a->head = next;
    }
}

void arena_finish(struct arena *a)
{
    if (a) free_until(a, NULL);
}

struct arena_mark arena_mark(const struct arena *a)
{
    return (struct arena_mark){a->head, a->head ? a->head->used_B : 0};
}

void arena_rewind(struct arena *a, struct arena_mark mark)
{
    free_until(a, mark.head);
    if (!a->head) return;
    memset(a->head->bytes + mark.used_B, 0, a->head->used_B - mark.used_B);
    a->head->used_B = mark.used_B;
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

size_t arena_size_B(const struct arena *a)
{
    size_t size_B = 0;
    for (const struct arena_block *b = a->head; b; b = b->next) size_B += sizeof *b + b->size_B;
    return size_B;
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
