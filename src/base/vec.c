// Growing and releasing vectors of any element type, behind the macros of vec.h.
#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

// All pointers to objects have one representation here; memcpy keeps the access within the rules of aliasing.
struct any_vec {
    void *v;
    size_t n, cap;
};

kiln_status vec_grow(void *vec, size_t count, size_t item_B)
{
    struct any_vec a;
    memcpy(&a, vec, sizeof a);
    size_t cap = a.cap < 4 ? 8 : a.cap * 2;
    if (cap < count) cap = count;
    void *v = cap > SIZE_MAX / 2 / item_B ? NULL : realloc(a.v, cap * item_B);
    if (!v) return error_set(KILN_E_MEMORY, "out of memory: an array of %zu elements of %zu bytes", cap, item_B);
    a.v = v;
    a.cap = cap;
    memcpy(vec, &a, sizeof a);
    return KILN_OK;
}

void vec_release(void *vec)
{
    if (!vec) return;
    struct any_vec a;
    memcpy(&a, vec, sizeof a);
    free(a.v);
    memset(vec, 0, sizeof a);
}
