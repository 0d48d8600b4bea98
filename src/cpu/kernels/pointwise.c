// The driver of pointwise kernels: a launch over any layouts becomes calls on contiguous blocks of the kernel's class.
//
// Three ways through the space, by the layouts:
//   rows:  blocks lie inside one run of the innermost dimension; an operand of the class with stride 1 is passed as it
//          lies, one with stride 0 is spread once a run, any other is gathered into a block, converted on the way;
//   flat:  the innermost runs are short: a block spans many of them; operands contiguous over the whole space are
//          passed as they lie, the others gathered run by run;
//   tiles: an operand's fast axis is another dimension: squares of both dimensions are transposed into blocks.
//
// Order of elements does not matter, so the output's fastest dimension is made the innermost first.
#include "cpu/kernels/move.h"
#include "cpu/kernels/side.h"
#include "cpu/kernels/stream.h"
#include "cpu/parallel.h"

enum { MAX_SIDES = CPU_MAX_IN + 1, TILE = 64, SHORT_RUN = 96, LONG_BLOCK = 1 << 14 };

// Elements that are picked out of lines come from several places in turn: in short blocks, so that all of what is asked
// ahead stays in the nearest cache.
enum { PICK_BLOCK = 256 };

struct pointwise_job {
    const struct cpu_kernel *k;
    const uint64_t *scalars;
    int rank, n_in;
    int64_t sizes[MAX_RANK], total;
    struct cpu_side side[MAX_SIDES]; // inputs, then the output
    bool as_is[MAX_SIDES];           // passed where it lies
    bool streams;                    // rows: what is written goes past the caches
    int64_t block, blocks_a_run;     // rows
    int tile_dim;                    // tiles: the other dimension
};

static void swap_dims(struct pointwise_job *j, int a, int b)
{
    int64_t t = j->sizes[a];
    j->sizes[a] = j->sizes[b], j->sizes[b] = t;
    for (int i = 0; i <= j->n_in; i++) {
        t = j->side[i].strides[a];
        j->side[i].strides[a] = j->side[i].strides[b], j->side[i].strides[b] = t;
    }
}

static void job_init(struct pointwise_job *j, const struct cpu_kernel *k, const struct launch *l)
{
    j->k = k;
    j->scalars = l->scalars;
    j->n_in = k->n_in;
    j->rank = l->rank;
    j->total = 1;
    for (int d = 0; d < l->rank; d++) {
        j->sizes[d] = l->sizes[d];
        j->total *= l->sizes[d];
    }
    for (int i = 0; i <= k->n_in; i++) cpu_side_init(&j->side[i], l, i, i < k->n_in ? k->in_cls[i] : k->out_cls);
    if (j->rank == 0) {
        j->rank = 1;
        j->sizes[0] = 1;
        for (int i = 0; i <= k->n_in; i++) j->side[i].strides[0] = j->side[i].size_B;
    }
    struct cpu_side *out = &j->side[k->n_in];
    int last = j->rank - 1;
    for (int d = 0; d < last; d++)
        if (out->strides[last] != out->size_B && out->strides[d] == out->size_B && j->sizes[d] > 1)
            swap_dims(j, d, last);
}

// Byte offsets of every operand at an index of the dimensions before the last n_inner.
static void offsets_at(const struct pointwise_job *j, int64_t index, int n_inner, int64_t *idx, int64_t *at_B)
{
    for (int i = 0; i <= j->n_in; i++) at_B[i] = 0;
    for (int d = j->rank - 1 - n_inner; d >= 0; d--) {
        idx[d] = index % j->sizes[d];
        index /= j->sizes[d];
        for (int i = 0; i <= j->n_in; i++) at_B[i] += idx[d] * j->side[i].strides[d];
    }
}

// One step of the odometer over dimensions 0 .. last.
static void advance(const struct pointwise_job *j, int last, int64_t *idx, int64_t *at_B)
{
    for (int d = last; d >= 0; d--) {
        if (++idx[d] < j->sizes[d]) {
            for (int i = 0; i <= j->n_in; i++) at_B[i] += j->side[i].strides[d];
            return;
        }
        for (int i = 0; i <= j->n_in; i++) at_B[i] -= (j->sizes[d] - 1) * j->side[i].strides[d];
        idx[d] = 0;
    }
}

static bool picks(const struct pointwise_job *j, int i)
{
    int64_t stride_B = j->side[i].strides[j->rank - 1];
    return !j->side[i].constant && stride_B > j->side[i].size_B && stride_B <= LINE_B;
}

// Operands that are asked of memory while lines are written: those that are read in places of their own, once.
static struct stream_ahead asked(const struct pointwise_job *j, int *which)
{
    struct stream_ahead ahead = {.n = 0};
    for (int i = 0; i < j->n_in; i++) {
        int64_t step_B = j->side[i].constant ? 0 : j->side[i].strides[j->rank - 1];
        if (step_B < 1 || step_B > LINE_B) continue;
        which[ahead.n] = i;
        ahead.of[ahead.n++].step_B = LINE_B / j->side[j->n_in].size_B * step_B;
    }
    return ahead;
}

static kiln_status run_rows(void *user, int64_t begin, int64_t end)
{
    const struct pointwise_job *j = user;
    _Alignas(64) char memory[MAX_SIDES][CPU_BLOCK * 8];
    const void *in[MAX_SIDES];
    int64_t idx[MAX_RANK] = {0}, at_B[MAX_SIDES];
    int inner = j->rank - 1;
    int64_t run = begin / j->blocks_a_run, part = begin % j->blocks_a_run, size = j->sizes[inner];
    const struct cpu_side *out = &j->side[j->n_in];
    for (int i = 0; i < j->n_in; i++) {
        in[i] = memory[i];
        if (j->side[i].constant)
            CPU_FN(cpu_fill)(memory[i], j->side[i].class_B, j->side[i].bits, size < j->block ? size : j->block);
    }
    offsets_at(j, run, 1, idx, at_B);
    int which[MAX_SIDES];
    struct stream_ahead ahead = {.n = 0};
    if (j->streams) ahead = asked(j, which);
    bool fresh = true; // a new run: operands with stride 0 hold another value
    for (int64_t u = begin; u < end; u++) {
        int64_t first = part * j->block, n = size - first < j->block ? size - first : j->block;
        for (int i = 0; i < j->n_in; i++) {
            const struct cpu_side *s = &j->side[i];
            if (s->constant) continue;
            const char *from = s->base + at_B[i] + first * s->strides[inner];
            if (j->as_is[i]) {
                in[i] = from;
            } else if (s->strides[inner] != 0) {
                cpu_side_gather(s, memory[i], from, n, s->strides[inner]);
            } else if (fresh) {
                uint64_t bits = 0;
                cpu_side_gather(s, &bits, from, 1, s->size_B);
                CPU_FN(cpu_fill)(memory[i], s->class_B, bits, size < j->block ? size : j->block);
            }
        }
        char *to = out->base + at_B[j->n_in] + first * out->strides[inner];
        void *y = j->as_is[j->n_in] && !j->streams ? to : memory[j->n_in];
        j->k->fn.pointwise(n, in, y, j->scalars);
        for (int k = 0; k < ahead.n; k++)
            ahead.of[k].at = j->side[which[k]].base + at_B[which[k]] + (first + n) * j->side[which[k]].strides[inner];
        if (j->streams)
            stream_asking(to, y, n * out->size_B, &ahead);
        else if (!j->as_is[j->n_in])
            cpu_side_scatter(out, y, to, n, out->strides[inner]);
        fresh = ++part == j->blocks_a_run;
        if (fresh && u + 1 < end) {
            part = 0;
            advance(j, inner - 1, idx, at_B);
        }
    }
    if (j->streams) stream_end();
    return KILN_OK;
}

// Elements [first, first + n) of the space between memory and a dense block, run by run.
static void flat_copy(const struct pointwise_job *j, int i, char *block, int64_t first, int64_t n, bool store)
{
    const struct cpu_side *s = &j->side[i];
    int inner = j->rank - 1;
    int64_t idx[MAX_RANK], rest = first, at_B = 0;
    for (int d = inner; d >= 0; d--) {
        idx[d] = rest % j->sizes[d];
        rest /= j->sizes[d];
        at_B += idx[d] * s->strides[d];
    }
    while (n > 0) {
        int64_t run = j->sizes[inner] - idx[inner] < n ? j->sizes[inner] - idx[inner] : n;
        if (store)
            cpu_side_scatter(s, block, s->base + at_B, run, s->strides[inner]);
        else
            cpu_side_gather(s, block, s->base + at_B, run, s->strides[inner]);
        block += run * s->class_B;
        n -= run;
        at_B -= idx[inner] * s->strides[inner];
        idx[inner] = 0;
        for (int d = inner - 1; d >= 0; d--) {
            at_B += s->strides[d];
            if (++idx[d] < j->sizes[d]) break;
            at_B -= j->sizes[d] * s->strides[d];
            idx[d] = 0;
        }
    }
}

// An operand that repeats: the same in all dimensions but the last ones, which together have at most a block of
// elements (a bias that is added to short rows). 0 when it does not.
static int64_t period_of(const struct pointwise_job *j, const struct cpu_side *s)
{
    int64_t period = 1;
    int d = j->rank - 1, first = 0;
    while (first < j->rank && (s->strides[first] == 0 || j->sizes[first] == 1)) first++;
    for (; d >= first; d--) period *= j->sizes[d];
    return period <= CPU_BLOCK ? period : 0;
}

// One block and one period more, so that a block may begin at any place of the period.
static void spread_period(const struct pointwise_job *j, int i, char *block, int64_t period)
{
    size_t one_B = (size_t)(period * j->side[i].class_B),
           all_B = one_B + (size_t)CPU_BLOCK * (size_t)j->side[i].class_B;
    flat_copy(j, i, block, 0, period, false);
    for (size_t have_B = one_B; have_B < all_B;) {
        size_t n_B = all_B - have_B < have_B ? all_B - have_B : have_B;
        memcpy(block + have_B, block, n_B);
        have_B += n_B;
    }
}

// Units are blocks of CPU_BLOCK elements.
static kiln_status run_flat(void *user, int64_t begin, int64_t end)
{
    const struct pointwise_job *j = user;
    const void *in[MAX_SIDES];
    const struct cpu_side *out = &j->side[j->n_in];
    int64_t period[MAX_SIDES] = {0};
    size_t room_B = 2 * CPU_BLOCK * 8;
    char *memory = cpu_scratch(CPU_SCRATCH_BLOCKS, (size_t)(j->n_in + 1) * room_B);
    if (!memory) return error_pending;
    for (int i = 0; i < j->n_in; i++) {
        const struct cpu_side *s = &j->side[i];
        char *block = memory + (size_t)i * room_B;
        in[i] = block;
        if (s->constant) {
            CPU_FN(cpu_fill)(block, s->class_B, s->bits, j->total < CPU_BLOCK ? j->total : CPU_BLOCK);
        } else if (!j->as_is[i] && end - begin > 1) {
            period[i] = period_of(j, s);
            if (period[i]) spread_period(j, i, block, period[i]);
        }
    }
    char *result = memory + (size_t)j->n_in * room_B;
    for (int64_t u = begin; u < end; u++) {
        int64_t first = u * CPU_BLOCK, n = j->total - first < CPU_BLOCK ? j->total - first : CPU_BLOCK;
        for (int i = 0; i < j->n_in; i++) {
            const struct cpu_side *s = &j->side[i];
            char *block = memory + (size_t)i * room_B;
            if (s->constant) continue;
            if (j->as_is[i])
                in[i] = s->base + first * s->size_B;
            else if (period[i])
                in[i] = block + first % period[i] * s->class_B;
            else
                flat_copy(j, i, block, first, n, false);
        }
        void *y = j->as_is[j->n_in] ? out->base + first * out->size_B : result;
        j->k->fn.pointwise(n, in, y, j->scalars);
        if (!j->as_is[j->n_in]) flat_copy(j, j->n_in, y, first, n, true);
    }
    return KILN_OK;
}

static int64_t tiles_along(int64_t size)
{
    return (size + TILE - 1) / TILE;
}

// One tile, rows along tile_dim and columns along the innermost dimension: every operand becomes a dense block, so that
// one call does the whole tile.
static void run_tile(const struct pointwise_job *j, char *memory, const int64_t *at_B, int64_t rows, int64_t cols)
{
    int r_dim = j->tile_dim, c_dim = j->rank - 1;
    const struct cpu_side *out = &j->side[j->n_in];
    const void *in[MAX_SIDES];
    for (int i = 0; i < j->n_in; i++) {
        const struct cpu_side *s = &j->side[i];
        char *block = memory + (size_t)i * TILE * TILE * 8;
        in[i] = block;
        if (!s->constant) CPU_FN(cpu_load_tile)
        (block, cols, s->cls, s->base + at_B[i], s->dtype, rows, cols, s->strides[r_dim] / s->size_B,
         s->strides[c_dim] / s->size_B);
    }
    char *block = memory + (size_t)j->n_in * TILE * TILE * 8;
    j->k->fn.pointwise(rows * cols, in, block, j->scalars);
    CPU_FN(cpu_store_tile)
    (out->base + at_B[j->n_in], out->dtype, out->strides[r_dim] / out->size_B, out->strides[c_dim] / out->size_B, block,
     cols, out->cls, rows, cols);
}

// The dimensions in the order: others, tile_dim, innermost. Units are tiles.
static kiln_status run_tiles(void *user, int64_t begin, int64_t end)
{
    const struct pointwise_job *j = user;
    char *memory = cpu_scratch(CPU_SCRATCH_BLOCKS, (size_t)(j->n_in + 1) * TILE * TILE * 8);
    if (!memory) return error_pending;
    int r_dim = j->tile_dim, c_dim = j->rank - 1;
    for (int i = 0; i < j->n_in; i++)
        if (j->side[i].constant)
            CPU_FN(cpu_fill)(memory + (size_t)i * TILE * TILE * 8, j->side[i].class_B, j->side[i].bits, TILE * TILE);
    int64_t n_r = tiles_along(j->sizes[r_dim]), n_c = tiles_along(j->sizes[c_dim]);
    for (int64_t u = begin; u < end; u++) {
        int64_t idx[MAX_RANK], at_B[MAX_SIDES], r = u / n_c % n_r * TILE, c = u % n_c * TILE;
        offsets_at(j, u / (n_c * n_r), 2, idx, at_B);
        for (int i = 0; i <= j->n_in; i++) at_B[i] += r * j->side[i].strides[r_dim] + c * j->side[i].strides[c_dim];
        run_tile(j, memory, at_B, j->sizes[r_dim] - r < TILE ? j->sizes[r_dim] - r : TILE,
                 j->sizes[c_dim] - c < TILE ? j->sizes[c_dim] - c : TILE);
    }
    return KILN_OK;
}

// A dimension along which an operand that jumps in the innermost one is contiguous; -1 when tiles would not help.
static int find_tile_dim(const struct pointwise_job *j)
{
    int inner = j->rank - 1;
    if (j->rank < 2 || j->sizes[inner] < 8) return -1;
    for (int i = 0; i < j->n_in; i++) {
        const struct cpu_side *s = &j->side[i];
        if (s->constant || s->strides[inner] == s->size_B || s->strides[inner] == 0) continue;
        for (int d = 0; d < inner; d++)
            if (s->strides[d] == s->size_B && j->sizes[d] >= 8) return d;
    }
    return -1;
}

static bool contiguous(const struct pointwise_job *j, const struct cpu_side *s)
{
    int64_t step = s->size_B;
    for (int d = j->rank - 1; d >= 0; d--) {
        if (s->strides[d] != step && j->sizes[d] > 1) return false;
        step *= j->sizes[d];
    }
    return true;
}

static kiln_status run(struct pointwise_job *j, const struct launch *l)
{
    int inner = j->rank - 1;
    int64_t step_cost = 1 + j->k->cost / 8;
    j->tile_dim = find_tile_dim(j);
    bool flat = j->tile_dim < 0 && j->sizes[inner] < SHORT_RUN, all_as_is = true, any_picks = false;
    for (int i = 0; i <= j->n_in; i++) {
        const struct cpu_side *s = &j->side[i];
        bool lies = flat ? contiguous(j, s) : s->strides[inner] == s->size_B || j->sizes[inner] == 1;
        j->as_is[i] = s->native && !s->constant && lies;
        all_as_is = all_as_is && j->as_is[i];
        any_picks = any_picks || (i < j->n_in && picks(j, i));
    }
    if (j->tile_dim >= 0) {
        int64_t outer = j->total / (j->sizes[j->tile_dim] * j->sizes[inner]);
        swap_dims(j, j->tile_dim, inner - 1);
        j->tile_dim = inner - 1;
        int64_t units = outer * tiles_along(j->sizes[inner - 1]) * tiles_along(j->sizes[inner]);
        return cpu_parallel(units, TILE * TILE * step_cost, run_tiles, j);
    }
    if (flat) return cpu_parallel((j->total + CPU_BLOCK - 1) / CPU_BLOCK, CPU_BLOCK * step_cost, run_flat, j);
    j->streams = j->as_is[j->n_in] && j->sizes[inner] >= CPU_BLOCK && stream_pays(l, STREAM_QUARTERS);
    j->block = all_as_is && !j->streams ? LONG_BLOCK : any_picks ? PICK_BLOCK : CPU_BLOCK;
    j->blocks_a_run = (j->sizes[inner] + j->block - 1) / j->block;
    int64_t unit = j->sizes[inner] < j->block ? j->sizes[inner] : j->block;
    return cpu_parallel(j->total / j->sizes[inner] * j->blocks_a_run, unit * step_cost, run_rows, j);
}

// Small launches over contiguous operands of the class, the common case of scalars and short vectors: no job is made.
// Constants are spread into a few elements on the stack.
enum { SMALL = 64 };
static bool run_small(const struct cpu_kernel *k, const struct launch *l)
{
    int64_t n = l->rank ? l->sizes[0] : 1;
    if (l->rank > 1 || n > SMALL) return false;
    const void *in[CPU_MAX_IN];
    uint64_t spread[CPU_MAX_IN][SMALL];
    for (int i = 0; i <= k->n_in; i++) {
        const struct launch_operand *o = &l->operands[i];
        enum scalar_class cls = i < k->n_in ? k->in_cls[i] : k->out_cls;
        if (o->flags & OPERAND_IMMEDIATE) {
            CPU_FN(cpu_fill)(spread[i], cpu_class_size_B[cls], o->address, n);
            in[i] = spread[i];
            continue;
        }
        if (o->dtype != cpu_class_dtype[cls] || (l->rank && o->strides[0] != 1)) return false;
        if (i < k->n_in) in[i] = (const void *)(uintptr_t)o->address;
    }
    k->fn.pointwise(n, in, (void *)(uintptr_t)l->operands[k->n_in].address, l->scalars);
    return true;
}

kiln_status CPU_FN(cpu_pointwise)(const struct cpu_kernel *k, const struct launch *l)
{
    for (int d = 0; d < l->rank; d++)
        if (l->sizes[d] == 0) return KILN_OK;
    if (KILN_LIKELY(run_small(k, l))) return KILN_OK;
    kiln_status moved;
    if (k->moves && CPU_FN(cpu_move)(l, &moved)) return moved;
    struct pointwise_job j;
    job_init(&j, k, l);
    return run(&j, l);
}
