// Whether a layout shows an element at two indices.
//
// Two indices that meet differ by d, not all 0, with |d[i]| < dims[i] and sum d[i] * strides[i] = 0. Dimensions are
// taken by rising stride, so that d's last entry other than 0, say d[k] > 0, must be undone by smaller strides. Most
// layouts are nested: no stride is within the reach of all smaller ones, and nothing is left to try. For others the
// digits are tried from the largest stride down, each in the range that the smaller ones can still make up for; the
// last is a division. At most a few tries an element, since the elements lie in memory.
#include "ir/overlap.h"

struct steps {
    int n;
    int64_t stride[MAX_RANK], most[MAX_RANK];
    int64_t reach[MAX_RANK + 1]; // of the dimensions before
};

static void insert(struct steps *s, int64_t stride, int64_t most)
{
    int at = s->n++;
    for (; at > 0 && s->stride[at - 1] > stride; at--) {
        s->stride[at] = s->stride[at - 1];
        s->most[at] = s->most[at - 1];
    }
    s->stride[at] = stride;
    s->most[at] = most;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// Whether the first k dimensions can make up for `rest` >= 0 elements. They reach as far back as forth.
static bool makes(const struct steps *s, int k, int64_t rest)
{
    if (k == 0 || rest > s->reach[k]) return rest == 0;
    int64_t stride = s->stride[k - 1], most = s->most[k - 1], below = s->reach[k - 1];
    if (k == 1) return rest % stride == 0; // within reach
    int64_t first = rest > below ? (rest - below + stride - 1) / stride : -((below - rest) / stride);
    for (int64_t d = larger(first, -most); d <= most && d * stride - rest <= below; d++)
        if (makes(s, k - 1, d * stride > rest ? d * stride - rest : rest - d * stride)) return true;
    return false;
}

bool layout_overlaps(const struct type *t, const struct layout *l)
{
    struct steps s = {.n = 0};
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[i] == 0) return false;
        if (t->dims[i] > 1) insert(&s, l->strides[i] < 0 ? -l->strides[i] : l->strides[i], t->dims[i] - 1);
    }
    if (s.n && s.stride[0] == 0) return true;
    for (int k = 0; k < s.n; k++) s.reach[k + 1] = s.reach[k] + s.stride[k] * s.most[k];
    if (type_numel(t) > s.reach[s.n] + 1) return true; // more indices than elements
    for (int k = 1; k < s.n; k++)
        for (int64_t d = 1; d <= s.most[k] && d * s.stride[k] <= s.reach[k]; d++)
            if (makes(&s, k, d * s.stride[k])) return true;
    return false;
}
