// A pool. Input: slabs, sizes; output: pieces. Free pieces hang in lists by size class, with a bit for each class that
// has some, so that the smallest that is sure to fit is found at once; of a class the last one freed is taken first.
// What is too large is cut, what is freed is joined with free neighbours. So what one phase of a program used serves
// another, whatever the sizes.
// Invariants: the pieces of a slab cover it, in order of address, and no two neighbours are free.
#include "device/pool.h"
#include <stdlib.h>

static void link_free(struct pool *p, struct piece *piece)
{
    uint32_t c = heap_class(piece->size_B);
    piece->free = true;
    piece->prev = NULL;
    piece->next = p->classes[c];
    if (piece->next) piece->next->prev = piece;
    p->classes[c] = piece;
    p->filled[c / 64] |= UINT64_C(1) << (c % 64);
}

static void unlink_free(struct pool *p, struct piece *piece)
{
    uint32_t c = heap_class(piece->size_B);
    piece->free = false;
    if (piece->next) piece->next->prev = piece->prev;
    if (piece->prev)
        piece->prev->next = piece->next;
    else
        p->classes[c] = piece->next;
    if (!p->classes[c]) p->filled[c / 64] &= ~(UINT64_C(1) << (c % 64));
}

static struct piece *new_piece(struct pool *p)
{
    struct piece *piece = p->spare;
    if (!piece) return malloc(sizeof *piece);
    p->spare = piece->next;
    return piece;
}

static void drop_piece(struct pool *p, struct piece *piece)
{
    piece->next = p->spare;
    p->spare = piece;
}

kiln_status pool_add(struct pool *p, struct heap_slab *s)
{
    struct piece *piece = new_piece(p);
    if (!piece) return error_set(KILN_E_MEMORY, "out of memory for a slab");
    *piece = (struct piece){.slab = s, .size_B = s->slab.size_B};
    s->pool = p;
    s->pieces = piece;
    link_free(p, piece);
    return KILN_OK;
}

// Cuts off what is behind the first size_B bytes. Without memory for that, the piece stays as it is.
static void cut(struct pool *p, struct piece *piece, uint64_t size_B)
{
    struct piece *rest = new_piece(p);
    if (!rest) return;
    *rest = (struct piece){.slab = piece->slab,
                           .at_B = piece->at_B + size_B,
                           .size_B = piece->size_B - size_B,
                           .before = piece,
                           .after = piece->after};
    if (rest->after) rest->after->before = rest;
    piece->after = rest;
    piece->size_B = size_B;
    link_free(p, rest);
}

struct piece *pool_take(struct pool *p, uint64_t size_B)
{
    uint32_t c = heap_class_from(p->filled, heap_class(size_B));
    if (c == HEAP_CLASSES) return NULL;
    struct piece *piece = p->classes[c];
    unlink_free(p, piece);
    if (piece->size_B - size_B >= p->least_rest_B) cut(p, piece, size_B);
    return piece;
}

// `piece` takes in its neighbour behind.
static void join(struct pool *p, struct piece *piece, struct piece *behind)
{
    piece->size_B += behind->size_B;
    piece->after = behind->after;
    if (piece->after) piece->after->before = piece;
    drop_piece(p, behind);
}

void pool_give(struct pool *p, struct piece *piece)
{
    if (piece->after && piece->after->free) {
        unlink_free(p, piece->after);
        join(p, piece, piece->after);
    }
    if (piece->before && piece->before->free) {
        struct piece *before = piece->before;
        unlink_free(p, before);
        join(p, before, piece);
        piece = before;
    }
    link_free(p, piece);
}

void pool_remove(struct heap_slab *s)
{
    for (struct piece *piece = s->pieces, *after; piece; piece = after) {
        after = piece->after;
        if (piece->free) unlink_free(s->pool, piece);
        drop_piece(s->pool, piece);
    }
    s->pieces = NULL;
}

void pool_finish(struct pool *p)
{
    for (struct piece *next; p->spare; p->spare = next) {
        next = p->spare->next;
        free(p->spare);
    }
}
