// Between positions in row-major order and indices.
#include "reference/structured.h"

void unravel(int rank, const int64_t *dims, int64_t position, int64_t *index)
{
    for (int i = rank - 1; i >= 0; i--) {
        index[i] = position % dims[i];
        position /= dims[i];
    }
}

int64_t ravel(int rank, const int64_t *dims, const int64_t *index)
{
    int64_t position = 0;
    for (int i = 0; i < rank; i++) {
        if (index[i] < 0 || index[i] >= dims[i]) return -1;
        position = position * dims[i] + index[i];
    }
    return position;
}

struct host reference_map(const struct host *x, int rank, const int64_t *dims, index_map map, const void *user,
                          long double fill)
{
    struct host out = host_new(x->dtype, rank, dims);
    for (int64_t i = 0; i < out.n; i++) {
        int64_t to[HOST_MAX_RANK] = {0}, from[HOST_MAX_RANK] = {0};
        unravel(rank, dims, i, to);
        map(to, from, user);
        int64_t at = ravel(x->rank, x->dims, from);
        out.v[i] = at < 0 ? fill : x->v[at];
    }
    return out;
}
