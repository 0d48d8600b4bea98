// Makes host values, and puts them on a device in every layout that a view can have.
#include "conformance/host.h"
#include <stdlib.h>
#include <string.h>

const char *const host_layout_names[LAYOUT_COUNT] = {"contiguous", "transposed", "step",    "negative",
                                                     "offset",     "rotated",    "expanded"};

static int64_t count(int rank, const int64_t *dims)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    return n;
}

static void *must(void *p)
{
    if (p) return p;
    fprintf(stderr, "the test is out of memory\n");
    exit(2);
}

struct host host_new(int dtype, int rank, const int64_t *dims)
{
    struct host h = {.dtype = dtype, .rank = rank, .n = count(rank, dims)};
    if (rank) memcpy(h.dims, dims, (size_t)rank * sizeof dims[0]);
    h.v = must(calloc((size_t)h.n + 1, sizeof h.v[0]));
    return h;
}

void host_free(struct host *h)
{
    free(h->v);
    h->v = NULL;
}

struct host host_copy(const struct host *h)
{
    struct host c = host_new(h->dtype, h->rank, h->dims);
    memcpy(c.v, h->v, (size_t)h->n * sizeof h->v[0]);
    return c;
}

void host_fill(struct host *h, struct random *r, double low, double high)
{
    for (int64_t i = 0; i < h->n; i++) {
        double v = random_between(r, low, high);
        if (h->dtype == KILN_BOOL)
            v = (double)random_below(r, 2);
        else if (!is_float(h->dtype))
            v = floor(v);
        if (integer_min(h->dtype) == 0 && !is_float(h->dtype) && v < 0) v = -v;
        h->v[i] = quantized(h->dtype, v);
    }
}

void host_repeat_first(struct host *h)
{
    if (h->rank == 0 || h->n == 0) return;
    int64_t inner = h->n / h->dims[0];
    for (int64_t i = inner; i < h->n; i++) h->v[i] = h->v[i % inner];
}

int64_t host_at(const struct host *h, int rank, const int64_t *dims, int64_t position)
{
    int64_t index = 0, stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        int64_t at = position % dims[i];
        position /= dims[i];
        int own = i - (rank - h->rank);
        if (own < 0) continue;
        if (h->dims[own] != 1) index += at * stride;
        stride *= h->dims[own];
    }
    return index;
}

// Element i of the values goes to element place(i) of a base tensor of other dimensions; a view op on the base gives
// the values back.
struct placement {
    int64_t dims[HOST_MAX_RANK];  // of the base
    int64_t order[HOST_MAX_RANK]; // base axis j is axis order[j] of the values
    int64_t start, step;          // along each axis; a step of -1 walks backwards
    bool last_only;               // start and step on the last axis only
};

static void base_of(const struct host *h, enum host_layout layout, struct placement *p)
{
    int rank = h->rank;
    *p = (struct placement){.step = 1};
    for (int i = 0; i < rank; i++) p->order[i] = i;
    if (layout == LAYOUT_TRANSPOSED)
        for (int i = 0; i < rank; i++) p->order[i] = rank - 1 - i;
    if (layout == LAYOUT_ROTATED)
        for (int i = 0; i < rank; i++) p->order[i] = (i + 1) % rank;
    if (layout == LAYOUT_STEP) p->start = 1, p->step = 2;
    if (layout == LAYOUT_NEGATIVE) p->step = -1;
    if (layout == LAYOUT_OFFSET) p->start = 3, p->last_only = true;
    for (int j = 0; j < rank; j++) {
        bool here = !p->last_only || j == rank - 1;
        int64_t d = h->dims[p->order[j]];
        p->dims[j] = p->step == 2 ? 2 * d + 1 : d + (here ? p->start : 0);
    }
    if (layout == LAYOUT_EXPANDED && rank && h->dims[0] > 0) p->dims[0] = 1;
}

static int64_t place(const struct host *h, const struct placement *p, int64_t position)
{
    int64_t at[HOST_MAX_RANK], index = 0;
    for (int i = h->rank - 1; i >= 0; i--) {
        at[i] = position % h->dims[i];
        position /= h->dims[i];
    }
    for (int j = 0; j < h->rank; j++) {
        int i = (int)p->order[j];
        bool here = !p->last_only || j == h->rank - 1;
        int64_t k = p->step == -1 ? h->dims[i] - 1 - at[i] : here ? p->start + p->step * at[i] : at[i];
        index = index * p->dims[j] + (p->dims[j] == 1 ? 0 : k);
    }
    return index;
}

static kiln_tensor *view(const struct host *h, enum host_layout layout, kiln_tensor *base)
{
    size_t rank = (size_t)h->rank;
    int64_t axes[HOST_MAX_RANK], start[HOST_MAX_RANK] = {0}, step[HOST_MAX_RANK];
    kiln_slice_opts o = {.size = sizeof o};
    switch (layout) {
    case LAYOUT_TRANSPOSED:
        for (size_t i = 0; i < rank; i++) axes[i] = (int64_t)(rank - 1 - i);
        return kiln_permute(base, (kiln_ints){rank, axes});
    case LAYOUT_ROTATED:
        for (size_t i = 0; i < rank; i++) axes[i] = (int64_t)((i + rank - 1) % rank);
        return kiln_permute(base, (kiln_ints){rank, axes});
    case LAYOUT_EXPANDED: return kiln_expand(base, rank, h->dims);
    case LAYOUT_STEP:
    case LAYOUT_NEGATIVE:
    case LAYOUT_OFFSET:
        for (size_t i = 0; i < rank; i++) {
            step[i] = layout == LAYOUT_STEP ? 2 : layout == LAYOUT_NEGATIVE ? -1 : 1;
            start[i] = layout == LAYOUT_STEP ? 1 : layout == LAYOUT_NEGATIVE ? KILN_END : 0;
        }
        if (layout == LAYOUT_OFFSET) start[rank - 1] = 3;
        o.start = (kiln_ints){rank, start};
        o.step = (kiln_ints){rank, step};
        return kiln_slice(base, &o);
    default: return base;
    }
}

kiln_tensor *host_tensor(kiln_device *dev, const struct host *h, enum host_layout layout)
{
    struct placement p;
    if (h->rank == 0) layout = LAYOUT_CONTIGUOUS;
    base_of(h, layout, &p);
    size_t size_B = element_size_B(h->dtype);
    int64_t n = count(h->rank, p.dims);
    unsigned char *bytes = must(malloc((size_t)(n + 1) * size_B));
    // What lies between the values must not be read: NaN, or an odd number.
    for (int64_t i = 0; i < n; i++) encode(h->dtype, is_float(h->dtype) ? NAN : 99, bytes + (size_t)i * size_B);
    for (int64_t i = 0; i < h->n; i++) encode(h->dtype, h->v[i], bytes + (size_t)place(h, &p, i) * size_B);
    kiln_tensor *base = kiln_from_data(dev, (kiln_dtype)h->dtype, (size_t)h->rank, p.dims, bytes);
    free(bytes);
    return base ? view(h, layout, base) : NULL;
}

struct host host_read(kiln_tensor *t)
{
    struct host none = {0};
    if (!t || kiln_error()) return none;
    struct host h = host_new((int)kiln_tensor_dtype(t), (int)kiln_rank(t), kiln_dims(t));
    size_t size_B = element_size_B(h.dtype);
    unsigned char *bytes = must(malloc((size_t)(h.n + 1) * size_B));
    if (kiln_read(t, bytes, (size_t)h.n * size_B))
        host_free(&h);
    else
        for (int64_t i = 0; i < h.n; i++) h.v[i] = decode(h.dtype, bytes + (size_t)i * size_B);
    free(bytes);
    return h.v ? h : none;
}

void host_shape_text(char *buf, size_t cap, int rank, const int64_t *dims)
{
    size_t n = (size_t)snprintf(buf, cap, "[");
    for (int i = 0; i < rank && n < cap; i++)
        n += (size_t)snprintf(buf + n, cap - n, i ? ",%lld" : "%lld", (long long)dims[i]);
    if (n < cap) snprintf(buf + n, cap - n, "]");
}
