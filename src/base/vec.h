// A growable array of any element type: `VEC(int) list = {0}; TRY(vec_push(&list, 3)); ... vec_free(&list);`
#pragma once
#include "base/base.h"

#define VEC(T)         \
    struct {           \
        T *v;          \
        size_t n, cap; \
    }

// Room for `count` elements in all. KILN_E_MEMORY leaves the array as it was.
#define vec_reserve(vec, count) ((size_t)(count) <= (vec)->cap ? KILN_OK : vec_grow((vec), (count), sizeof *(vec)->v))

// Appends one element. `item` is evaluated only when there is room.
#define vec_push(vec, item) \
    (vec_reserve((vec), (vec)->n + 1) ? error_pending : ((vec)->v[(vec)->n++] = (item), KILN_OK))

#define vec_free(vec) vec_release(vec)

// For the macros: any VEC, by its common layout.
kiln_status vec_grow(void *vec, size_t count, size_t item_B);
void vec_release(void *vec);
