// How a kernel runs on the CPU: along which dimension vectors lie, how wide they are, what is cut and what is kept.
//
// All of it follows from the kernel's family, the processor, and whether there are few points. Lanes go along the
// dimension that suits the accesses best: an access that moves by one element there, or not at all, is a vector or a
// scalar; any other costs a gather.
#include "codegen/llvm/llvm.h"
#include "scalar/prim.h"
#include <string.h>

enum {
    UNCUT_ROW = 2048,  // the longest that is never cut
    SHORT_ROW = 256,   // rows of at most as many elements are folded in one go
    SHARED_ROW = 4096, // ... and of so many where lanes share them
    KEEP_ELEMENTS = 8192,
    ACROSS_ROW = 64,  // the longest that may lie across the lanes
    MOST_ACROSS = 2,  // inputs of a kernel, so that all rows stay in the first cache
    FEW_POINTS = 4096 // of which two vectors a step save less than their code takes to compile
};

static unsigned vector_bits(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return 512;
    if (__builtin_cpu_supports("avx2")) return 256;
#endif
    return 128;
}

// Whether an access is at a computed place that may differ between the lanes.
static bool has_place(const struct fused_kernel *k, int access, int lanes)
{
    bool over_row = !fused_is_flat(k) && lanes >= k->n_dims - k->n_reduce;
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        if (n->kind != SCALAR_LOAD || n->code != access || n->n_args == 0) continue;
        if (k->level[n->arg[0]] > (over_row ? LEVEL_ROW : LEVEL_UNIFORM)) return true;
    }
    return false;
}

static int dim_score(const struct fused_kernel *k, int dim)
{
    int score = 0;
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        int64_t stride = fused_access_at(k, i)->strides[dim];
        bool is_output = i >= k->n_in;
        if (stride == 1)
            score += 1;
        else if (stride != 0)
            score -= is_output ? 12 : has_place(k, i, dim) ? 2 : 8;
    }
    return score;
}

// The last of the best, so that of equals the innermost wins.
static int lanes_of(const struct fused_kernel *k)
{
    int best = -1, best_score = 0;
    for (int d = 0; d < k->n_dims; d++) {
        int score = dim_score(k, d);
        if (best < 0 || score >= best_score) {
            best = d;
            best_score = score;
        }
    }
    return best;
}

static bool gathers(const struct fused_kernel *k, int lanes)
{
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        int64_t stride = fused_access_at(k, i)->strides[lanes];
        if ((stride != 0 && stride != 1) || (i < k->n_in && has_place(k, i, lanes))) return true;
    }
    return false;
}

// A dimension of points that some inputs go along element by element while they do not along the lanes: those are
// transposed tile by tile.
static uint32_t tile_dim_of(const struct fused_kernel *k, int lanes)
{
    for (int i = 0; i < k->n_in; i++) {
        const int64_t *strides = k->in[i].strides;
        if (strides[lanes] == 0 || strides[lanes] == 1 || has_place(k, i, lanes)) continue;
        for (int d = 0; d < k->n_dims; d++)
            if (strides[d] == 1) return (uint32_t)d;
    }
    return LLVM_NO_DIM;
}

// Rows that share what lies across. Of what is transposed, where there is much of it, such long pieces of memory that
// the processor reads ahead of them.
static uint32_t tile_rows(const struct fused_kernel *k, const uint32_t *c)
{
    enum { ACROSS = 64, FEW = 128, MANY = 512, MANY_POINTS = 1 << 20 };
    return c[LLVM_ACROSS] ? ACROSS : fused_points(k) < MANY_POINTS ? FEW : MANY;
}

// --- short rows that lie across the lanes ---

static bool lies_across(const struct fused_kernel *k, int input, int lanes)
{
    int64_t stride = k->in[input].strides[lanes];
    return stride != 0 && stride != 1;
}

// Whether all points along `lanes` may be folded side by side: what is stored lies along them, and what is read lies
// along them, or stands still, or is a row that can be transposed.
static bool suits_across(const struct fused_kernel *k, int lanes)
{
    int n_across = 0;
    for (int i = 0; i < k->n_out; i++)
        if (k->level[k->out[i].node] != LEVEL_TOTAL && (k->out[i].to.strides[lanes] != 1 || fused_by_element(k, i)))
            return false;
    for (int i = 0; i < k->n_in; i++) {
        if (has_place(k, i, lanes)) return false;
        if (!lies_across(k, i, lanes)) continue;
        if (k->in[i].strides[k->n_dims - 1] != 1 || fused_is_placed(k, i)) return false;
        n_across++;
    }
    return n_across > 0 && n_across <= MOST_ACROSS;
}

// A dimension of points along which what lies across the lanes stands still.
static uint32_t shared_dim_of(const struct fused_kernel *k, int lanes)
{
    for (int d = k->n_dims - k->n_reduce - 1; d >= 0; d--) {
        bool shared = d != lanes;
        for (int i = 0; i < k->n_in; i++) shared = shared && !(lies_across(k, i, lanes) && k->in[i].strides[d]);
        if (shared) return (uint32_t)d;
    }
    return LLVM_NO_DIM;
}

// Of a short row a vector holds little, and its lanes have to be folded for each point. Where other points read the
// same row it is cheaper to lay the lanes along them. The dimension of points to do so; -1: none.
static int lanes_across(const struct fused_kernel *k)
{
    if (k->n_stages == 0 || k->n_reduce != 1 || k->trips.on || fused_longest_row(k) > ACROSS_ROW) return -1;
    for (int d = k->n_dims - k->n_reduce - 1; d >= 0; d--)
        if (suits_across(k, d)) return d;
    return -1;
}

static bool all_wide(const struct fused_kernel *k) // no access and no value of 32 bits
{
    for (int i = 0; i < k->n_in + k->n_out; i++)
        if (dtype_size_B[fused_access_at(k, i)->dtype] == 8)
            continue;
        else
            return false;
    return true;
}

// The most vectors that a sweep takes at once; see sweep_width. What a short line leaves behind the last whole step
// goes a vector at a time.
static uint32_t most_vectors(const struct fused_kernel *k, const struct codegen_plan *p, int lanes, uint32_t one)
{
    enum { LEAST_STEPS = 4 };
    bool folds = k->n_stages > 0 || k->has_total; // accumulators whose latency several registers hide
    bool few = fused_is_flat(k) && !k->trips.on && fused_points(k) <= FEW_POINTS;
    if (few || (!p->choices[LLVM_ACROSS] && gathers(k, lanes))) return 1;
    if (folds || (k->trips.on && !k->trips.in_place)) return 4;
    uint32_t most = p->choices[LLVM_VECTOR_BITS] > LLVM_SHORT_VECTOR_BITS ? 2 : 8;
    while (most > 2 && k->sizes[lanes] < LEAST_STEPS * most * one) most /= 2;
    return most;
}

static void choose_widths(const struct fused_kernel *k, struct codegen_plan *p, int lanes)
{
    uint32_t *c = p->choices, one = c[LLVM_VECTOR_BITS] / (all_wide(k) ? 64 : 32);
    int64_t longest = fused_longest_row(k);
    c[LLVM_TAIL_WIDTH] = one;
    c[LLVM_WIDTH] = one * most_vectors(k, p, lanes, one);
    if (p->form != LLVM_OVER_ROW) return;
    while (c[LLVM_WIDTH] > longest) c[LLVM_WIDTH] /= 2;
    if (c[LLVM_WIDTH] <= one && longest < 2 * one) c[LLVM_WIDTH] = 0; // the masked loop alone
}

static bool can_split(const struct fused_kernel *k)
{
    if (k->trips.on) return false;
    for (int i = 0; i < k->n_out; i++)
        if (fused_by_element(k, i)) return false;
    return fused_may_cut(k) && fused_longest_row(k) > UNCUT_ROW;
}

kiln_status llvm_plan(const struct fused_kernel *k, const struct device_caps *caps, struct codegen_plan *out)
{
    (void)caps; // the machine that compiles is the one that runs
    int n_parallel = fused_is_flat(k) ? k->n_dims : k->n_dims - k->n_reduce, across = lanes_across(k);
    int lanes = across >= 0 ? across : lanes_of(k);
    uint32_t *c = out->choices;
    int64_t longest = fused_longest_row(k);
    bool in_registers = k->trips.on && !k->trips.in_place;
    memset(out, 0, sizeof *out); // padding too: plans are compared and hashed as bytes
    out->target = CODE_LLVM;
    out->n_access = (uint8_t)(k->n_in + k->n_out);
    out->form = lanes >= n_parallel ? LLVM_OVER_ROW : LLVM_OVER_POINTS;
    c[LLVM_LANES_DIM] = lanes < 0 ? LLVM_NO_DIM : (uint32_t)lanes;
    c[LLVM_VECTOR_BITS] = vector_bits();
    c[LLVM_TAIL_WIDTH] = 1;
    c[LLVM_SPLIT_DIM] = LLVM_NO_DIM;
    if (across >= 0) c[LLVM_ACROSS] = (uint32_t)longest;
    if (lanes >= 0) choose_widths(k, out, lanes);
    c[LLVM_TILE_DIM] = across >= 0                                       ? shared_dim_of(k, across)
                       : fused_is_flat(k) && !in_registers && lanes >= 0 ? tile_dim_of(k, lanes)
                                                                         : LLVM_NO_DIM;
    if (c[LLVM_TILE_DIM] != LLVM_NO_DIM) c[LLVM_TILE_ROWS] = tile_rows(k, c);
    if (k->n_stages > 0) c[LLVM_WIDE_SUM] = longest > (out->form == LLVM_OVER_ROW ? SHARED_ROW : SHORT_ROW);
    if (can_split(k)) c[LLVM_SPLIT_DIM] = (uint32_t)(k->n_dims - k->n_reduce);
    if (out->form == LLVM_OVER_ROW && k->n_reduce == 1 && k->n_stages > 0 && longest <= KEEP_ELEMENTS)
        c[LLVM_KEEP] = (uint32_t)longest;
    out->has_end = k->has_total || c[LLVM_SPLIT_DIM] != LLVM_NO_DIM;
    return KILN_OK;
}
