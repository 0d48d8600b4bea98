// A bump allocator for graphs and code generation: freed whole.
#pragma once
#include "base/base.h"

struct arena_block;
struct arena {
    struct arena_block *head;
};

void arena_init(struct arena *a);
void arena_finish(struct arena *a);                // frees all; NULL and twice are fine
void *arena_alloc(struct arena *a, size_t size_B); // zeroed, 16-byte aligned; NULL (error set) when memory is out
size_t arena_size_B(const struct arena *a);        // of all its blocks
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);

// Gives back what was taken since the mark.
struct arena_mark {
    struct arena_block *head;
    size_t used_B;
};
struct arena_mark arena_mark(const struct arena *a);
void arena_rewind(struct arena *a, struct arena_mark mark);
