// Arrays on the host.
#include "rank.h"
#include <stdlib.h>
#include <string.h>

static double pool[1 << 23];
static size_t taken;

struct array array_new(int rank, const int64_t *dims)
{
    struct array a = {.rank = rank, .n = 1, .v = pool + taken};
    for (int d = 0; d < rank; d++) {
        a.dims[d] = dims[d];
        a.n *= dims[d];
    }
    taken += (size_t)a.n;
    if (taken > sizeof pool / sizeof *pool) abort();
    memset(a.v, 0, (size_t)a.n * sizeof *a.v);
    return a;
}

void array_drop_all(void)
{
    taken = 0;
}

void index_first(const struct array *a, int64_t *index)
{
    for (int d = 0; d < a->rank; d++) index[d] = 0;
}

bool index_next(const struct array *a, int64_t *index)
{
    for (int d = a->rank - 1; d >= 0; d--) {
        if (++index[d] < a->dims[d]) return true;
        index[d] = 0;
    }
    return false;
}

double *array_at(const struct array *a, int rank, const int64_t *index)
{
    int64_t at = 0;
    for (int d = 0; d < a->rank; d++) at = at * a->dims[d] + (a->dims[d] == 1 ? 0 : index[rank - a->rank + d]);
    return a->v + at;
}

void array_drop_axes(struct array *a, uint32_t mask)
{
    int n = 0;
    for (int d = 0; d < a->rank; d++)
        if (!(mask >> d & 1)) a->dims[n++] = a->dims[d];
    a->rank = n;
}

bool pattern_is_index(enum pattern p)
{
    return p == INDEX || p == TUPLES;
}

static int pattern_dims(enum pattern p, int rank, int64_t *dims)
{
    for (int d = 0; d < rank; d++) {
        bool one = ((p == EVEN || p == LEFT) && d % 2) || ((p == ODD || p == RIGHT) && d % 2 == 0);
        dims[d] = one ? 1 : d == rank / 2 ? 3 : 2;
    }
    if (p == LEFT || p == RIGHT) dims[rank - 2] = p == LEFT ? 2 : 3, dims[rank - 1] = p == LEFT ? 3 : 2;
    if (p == TUPLES) dims[rank - 1] = rank;
    return p == FIRST ? rank - 1 : rank;
}

// Numbers far enough from each other that their order is the same in f32.
struct array pattern_array(enum pattern p, int rank, uint32_t seed)
{
    int64_t dims[KILN_MAX_RANK];
    int n = pattern_dims(p, rank, dims);
    struct array a = array_new(n, dims);
    uint32_t state = seed;
    for (int64_t i = 0; i < a.n; i++) {
        state = state * 1664525u + 1013904223u;
        a.v[i] = pattern_is_index(p) ? (double)(state >> 30 & 1) : (double)(state >> 12) / (1 << 18) - 2;
    }
    return a;
}
