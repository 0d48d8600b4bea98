// Kernels side by side as one: what a body computes of values that have nothing to do with each other.
//
// Fusion puts together what shares memory, for the bytes that it saves. A loop inside of a kernel needs all of its body
// in one. Input: kernels of which none reads what another one writes. Output: one kernel over the space of the largest,
// with the accesses and values of all of them. A kernel takes part whose space is the frame's, or some
// neighbouring dimensions of it, or one point: what it has for fewer points all of them compute. A space that was
// merged to fewer dimensions is cut as the frame is.
#include "fuse/trips.h"
#include "fuse/loops.h"
#include <string.h>

struct joiner {
    const struct fused_kernel *frame;
    struct fused_kernel *k;
    struct scalar_node *nodes;
};

static bool names_dims(const struct fused_kernel *k)
{
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (k->dag.nodes[i].kind == SCALAR_DIM || k->dag.nodes[i].kind == SCALAR_SIZE) return true;
    return false;
}

static bool equal_spaces(const struct fused_kernel *a, const struct fused_kernel *b)
{
    return a->n_dims == b->n_dims && (a->n_reduce == b->n_reduce || fused_is_flat(b)) &&
           !memcmp(a->sizes, b->sizes, sizeof *a->sizes * (size_t)a->n_dims);
}

// Where each of the frame's dimensions lies in the kernel's, and how many positions of that a step takes; -1: nowhere.
struct cutting {
    int dim[FUSED_MAX_DIMS];
    int64_t times[FUSED_MAX_DIMS];
};

// Dimensions [begin, end) of the frame are those of the kernel, from the innermost out; the others it does not have.
static bool cut_space(const struct fused_kernel *frame, int begin, int end, const struct fused_kernel *k,
                      struct cutting *out)
{
    int d = end - 1;
    for (int i = 0; i < FUSED_MAX_DIMS; i++) out->dim[i] = -1;
    for (int i = k->n_dims - 1; i >= 0; i--) {
        int64_t times = 1;
        for (; d >= begin && times < k->sizes[i]; d--) {
            out->dim[d] = i;
            out->times[d] = times;
            times *= frame->sizes[d];
        }
        if (times != k->sizes[i]) return false;
    }
    return d < begin;
}

static struct fused_access access_in(const struct fused_kernel *frame, const struct cutting *c,
                                     const struct fused_access *a)
{
    struct fused_access moved = {.buffer = a->buffer, .dtype = a->dtype, .cls = a->cls, .offset = a->offset};
    for (int d = 0; d < frame->n_dims; d++) moved.strides[d] = c->dim[d] < 0 ? 0 : a->strides[c->dim[d]] * c->times[d];
    return moved;
}

// Whether both walk alike along what both read.
static bool agrees(const struct fused_kernel *frame, const struct fused_kernel *k, const struct cutting *c)
{
    for (int i = 0; i < k->n_in; i++)
        for (int o = 0; o < frame->n_in; o++) {
            if (frame->in[o].buffer != k->in[i].buffer) continue;
            struct fused_access moved = access_in(frame, c, &k->in[i]);
            if (memcmp(moved.strides, frame->in[o].strides, sizeof *moved.strides * (size_t)frame->n_dims))
                return false;
        }
    return true;
}

static bool fits(const struct fused_kernel *frame, const struct fused_kernel *k, struct cutting *out)
{
    if (equal_spaces(frame, k)) return cut_space(frame, 0, frame->n_dims, k, out);
    if (!fused_is_flat(k) || names_dims(k)) return false;
    for (int begin = 0; begin <= frame->n_dims; begin++)
        for (int end = frame->n_dims; end >= begin; end--)
            if (cut_space(frame, begin, end, k, out) && agrees(frame, k, out)) return true;
    return false;
}

static void add_nodes(struct joiner *j, const struct fused_kernel *k)
{
    struct fused_kernel *all = j->k;
    int first = all->dag.n_nodes;
    for (int i = 0; i < k->dag.n_nodes; i++) {
        struct scalar_node *n = &j->nodes[first + i];
        *n = k->dag.nodes[i];
        for (int a = 0; a < n->n_args; a++) n->arg[a] = (uint16_t)(n->arg[a] + first);
        if (n->kind == SCALAR_LOAD) n->code = (uint16_t)(n->code + all->n_in);
        if (n->kind == SCALAR_INPUT) n->code = (uint16_t)(n->code + all->n_scalars);
    }
    all->dag.n_nodes += k->dag.n_nodes;
}

static bool add(struct joiner *j, const struct fused_kernel *k)
{
    struct fused_kernel *all = j->k;
    struct cutting c;
    bool room = all->n_in + k->n_in <= FUSED_MAX_IN && all->n_out + k->n_out <= FUSED_MAX_OUT &&
                all->n_scalars + k->n_scalars <= FUSED_MAX_SCALARS;
    if (!room || k->n_checks || k->has_total || k->product.n_m || k->attention.n_m || !fits(j->frame, k, &c))
        return false;
    int first = all->dag.n_nodes;
    add_nodes(j, k);
    for (int i = 0; i < k->n_in; i++) all->in[all->n_in++] = access_in(j->frame, &c, &k->in[i]);
    for (int i = 0; i < k->n_out; i++)
        all->out[all->n_out++] = (struct fused_output){.to = access_in(j->frame, &c, &k->out[i].to),
                                                       .node = (uint16_t)(k->out[i].node + first)};
    for (int i = 0; i < k->n_scalars; i++, all->n_scalars++) {
        all->scalar_cls[all->n_scalars] = k->scalar_cls[i];
        all->scalars[all->n_scalars] = k->scalars[i];
        all->scalar_input[all->n_scalars] = k->scalar_input[i];
    }
    return true;
}

static const struct fused_kernel *frame_of(const struct fused_kernel *const *kernels, size_t n)
{
    const struct fused_kernel *best = kernels[0];
    for (size_t i = 1; i < n; i++) {
        const struct fused_kernel *k = kernels[i];
        int64_t points = fused_points(k) * fused_row_length(k), most = fused_points(best) * fused_row_length(best);
        if (fused_is_flat(k) != fused_is_flat(best) ? fused_is_flat(best)
            : points != most                        ? points > most
                                                    : k->n_dims > best->n_dims)
            best = k;
    }
    return best;
}

// Whether one writes a buffer that another one reads, or writes.
static bool meet(const struct fused_kernel *const *kernels, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t o = 0; o < n; o++)
            for (int x = 0; i != o && x < kernels[i]->n_out; x++)
                for (int y = 0; y < kernels[o]->n_in + kernels[o]->n_out; y++)
                    if (kernels[i]->out[x].to.buffer == fused_access_at(kernels[o], y)->buffer) return true;
    return false;
}

kiln_status fuse_beside(struct arena *a, const struct fused_kernel *const *kernels, size_t n, struct fused_kernel **out)
{
    struct joiner j = {.frame = frame_of(kernels, n)};
    size_t n_nodes = 0;
    *out = NULL;
    for (size_t i = 0; i < n; i++) n_nodes += (size_t)kernels[i]->dag.n_nodes;
    if (n_nodes > UINT16_MAX || meet(kernels, n)) return KILN_OK;
    j.k = arena_alloc(a, sizeof *j.k);
    j.nodes = arena_alloc(a, sizeof *j.nodes * (n_nodes + 1));
    if (!j.k || !j.nodes) return error_pending;
    *j.k = (struct fused_kernel){
        .name = j.frame->name, .n_dims = j.frame->n_dims, .n_reduce = fused_is_flat(j.frame) ? 0 : j.frame->n_reduce};
    memcpy(j.k->sizes, j.frame->sizes, sizeof j.k->sizes);
    j.k->dag.nodes = j.nodes;
    j.k->dag.root = -1;
    for (size_t i = 0; i < n; i++)
        if (!add(&j, kernels[i])) return KILN_OK;
    TRY(fused_finish(a, j.k));
    *out = j.k;
    return KILN_OK;
}
