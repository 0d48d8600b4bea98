// A view is a map from the elements of its result to those of its input: along each axis of the result a step in the
// input. A place goes through it if each of its dimensions takes steps along the axes that stay the same from its first
// element to its last; one that goes on in the next line after as many elements as divide its size is two. A reshape
// maps each element to itself, in row-major order, whatever the axes.
//
// An as_strided maps its result to positions of the storage, from where the input's strides lead to the input's
// elements.
#include "grad/place.h"
#include "grad/registry.h"
#include "ops/families.h"
#include <string.h>

// From sum(i * from) + from_offset to sum(i * to) + to_offset.
struct map {
    int n;
    struct {
        int64_t size, from, to;
    } axes[MAX_RANK]; // the largest `from` first, each beyond the reach of those behind it
    int64_t from_offset, to_offset;
};

void place_whole(const struct type *t, struct piece_place *out)
{
    struct layout l;
    layout_contiguous(t, &l);
    out->rank = t->rank;
    out->offset = 0;
    for (int i = 0; i < t->rank; i++) {
        out->dims[i] = t->dims[i];
        out->strides[i] = l.strides[i];
    }
}

static void add_axis(struct map *m, int64_t size, int64_t from, int64_t to)
{
    if (size == 1) return;
    int at = m->n++;
    for (; at > 0 && m->axes[at - 1].from < from; at--) m->axes[at] = m->axes[at - 1];
    m->axes[at].size = size;
    m->axes[at].from = from;
    m->axes[at].to = to;
}

static bool make_map(struct map *m, const struct type *t, const struct layout *from, const struct layout *to)
{
    int64_t reach = 0;
    *m = (struct map){.from_offset = from->offset, .to_offset = to->offset};
    for (int i = 0; i < t->rank; i++) add_axis(m, t->dims[i], from->strides[i], to->strides[i]);
    for (int i = m->n; i-- > 0;) {
        if (m->axes[i].from <= reach) return false;
        reach += m->axes[i].from * (m->axes[i].size - 1);
    }
    return true;
}

static bool index_of(const struct map *m, int64_t at, int64_t *index)
{
    at -= m->from_offset;
    if (at < 0) return false;
    for (int i = 0; i < m->n; i++) {
        index[i] = at / m->axes[i].from;
        at %= m->axes[i].from;
        if (index[i] >= m->axes[i].size) return false;
    }
    return at == 0;
}

static bool only_shifts(const struct map *m)
{
    for (int i = 0; i < m->n; i++)
        if (m->axes[i].from != m->axes[i].to) return false;
    return true;
}

// How many elements of a dimension, from the first one on, one step leads to along the axes.
static int64_t fitting(const struct map *m, const int64_t *first, const int64_t *step, int64_t size)
{
    for (int i = 0; i < m->n; i++) {
        int64_t room = step[i] > 0   ? (m->axes[i].size - 1 - first[i]) / step[i]
                       : step[i] < 0 ? first[i] / -step[i]
                                     : size;
        if (room + 1 < size) size = room + 1;
    }
    return size;
}

static bool split(struct piece_place *p, int k, int64_t inner)
{
    if (p->dims[k] % inner || p->rank == MAX_RANK) return false;
    for (int i = p->rank++; i > k + 1; i--) {
        p->dims[i] = p->dims[i - 1];
        p->strides[i] = p->strides[i - 1];
    }
    p->dims[k + 1] = inner;
    p->strides[k + 1] = p->strides[k];
    p->dims[k] /= inner;
    p->strides[k] *= inner;
    return true;
}

// The dimension's stride behind the map; it adds to what is reached along each axis.
static bool map_dim(const struct map *m, struct piece_place *p, int k, const int64_t *first, int64_t *low,
                    int64_t *high, int64_t *stride)
{
    int64_t step[MAX_RANK];
    *stride = 0;
    while (p->dims[k] > 1) {
        if (!index_of(m, p->offset + p->strides[k], step)) return false;
        for (int i = 0; i < m->n; i++) step[i] -= first[i];
        int64_t n = fitting(m, first, step, p->dims[k]);
        if (n == p->dims[k]) break;
        if (!split(p, k, n)) return false;
    }
    for (int i = 0; i < m->n && p->dims[k] > 1; i++) {
        int64_t reach = step[i] * (p->dims[k] - 1);
        *stride += step[i] * m->axes[i].to;
        *(reach < 0 ? &low[i] : &high[i]) += reach;
    }
    return true;
}

static bool go_through(const struct map *m, struct piece_place *p)
{
    int64_t first[MAX_RANK], low[MAX_RANK], high[MAX_RANK], strides[MAX_RANK];
    if (only_shifts(m)) {
        p->offset += m->to_offset - m->from_offset;
        return true;
    }
    if (!index_of(m, p->offset, first)) return false;
    memcpy(low, first, sizeof low);
    memcpy(high, first, sizeof high);
    for (int k = 0; k < p->rank; k++)
        if (!map_dim(m, p, k, first, low, high, &strides[k])) return false;
    p->offset = m->to_offset;
    for (int i = 0; i < m->n; i++) {
        if (low[i] < 0 || high[i] >= m->axes[i].size) return false;
        p->offset += first[i] * m->axes[i].to;
    }
    for (int k = 0; k < p->rank; k++) p->strides[k] = strides[k];
    return true;
}

static bool is_within(const struct piece_place *p, int64_t n)
{
    int64_t low = p->offset, high = p->offset;
    for (int i = 0; i < p->rank; i++) *(p->strides[i] < 0 ? &low : &high) += p->strides[i] * (p->dims[i] - 1);
    return low >= 0 && high < n;
}

bool place_is_view(const struct tape_node *n)
{
    return n->op && n->op->flags & OP_VIEW && n->n_in == 1 && grad_is_built_in(n->op, n->rule);
}

bool place_behind(const struct tape_node *n, struct piece_place *p)
{
    struct type x, y;
    struct layout row_major, to, there;
    const struct type *in = &x;
    struct map m;
    bool copy = false;
    node_value_type(n, &n->values[0], &x);
    node_value_type(n, &n->values[1], &y);
    if (type_numel(&x) == 0 || type_numel(&y) == 0) return false;
    struct op_call c = {.op = n->op, .n_in = 1, .n_out = 1, .in = &in, .attrs = n->attrs};
    c.out[0] = y;
    layout_contiguous(&x, &row_major);
    if (n->op->fn->view(&c, &row_major, &to, &copy) || copy) return false;
    layout_contiguous(&y, &there);
    if (!make_map(&m, &y, &there, &to) || !go_through(&m, p)) return false;
    if (!(n->op->flags & OP_STORAGE_VIEW)) return true;
    node_value_layout(n, &n->values[0], &there);
    return make_map(&m, &x, &there, &row_major) && go_through(&m, p) && is_within(p, type_numel(&x));
}
