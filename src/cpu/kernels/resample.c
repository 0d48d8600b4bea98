// Axes of another size, the last of the space or the last two (n_reduce). Operands: x, out; scalars: x's size of the
// last axis, the bits of its step, the same of the axis before; variants: align, cubic, adjoint. Each element of the
// result has a list of taps, which is made once a range. Of lines that lie side by side one tap after the other is
// added for all. A line by itself with two taps is picked from by permutations of a few vectors where neighbours come
// from near each other; other lines are turned, a few at a time, so that they lie side by side. Of two axes, whose rows
// are dense, a few rows of the result are made at a time, with what is between both axes in the caches.
//
// Adjoint: the taps of what x's axis was made of, sorted by where they are.
#include "cpu/kernels/resample_taps.h"
#include "cpu/kernels/stream.h"
#include "cpu/kernels/walk.h"
#include "cpu/parallel.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#ifdef __AVX2__
enum { VECTOR_B = 32 };
#else
enum { VECTOR_B = 16 };
#endif
enum { COLUMNS = 1024, BESIDE = 8 };
// Lines that are turned: as many as fill TURNED_B, at least FEW_LINES, while both tiles lie in half a level-2 cache.
enum { TURNED_B = 64, FEW_LINES = 4, TILES_B = 1 << 18 };
// Rows of a plane at a time: as many as have their numbers between both axes in the caches.
enum { BETWEEN_B = 1 << 17, FEW_ROWS = 4, MANY_ROWS = 32 };

static void picked_f32(const struct taps *t, const float *x, int64_t x_step, float *y, int64_t out_step, int64_t i,
                       int64_t end);

#if defined __AVX2__ && !defined __AVX512F__
// The elements at places 0..15 of v and w together.
static inline __m256 of_two(__m256 v, __m256 w, __m256i place)
{
    __m256 a = _mm256_permutevar8x32_ps(v, place), b = _mm256_permutevar8x32_ps(w, place);
    return _mm256_blendv_ps(a, b, _mm256_castsi256_ps(_mm256_slli_epi32(place, 28)));
}
#endif

// A line by permutations; false: this machine has none.
static bool permuted(const struct taps *t, const char *from, char *to)
{
#ifdef __AVX512F__
    const float *x = (const float *)(const void *)from;
    float *y = (float *)(void *)to;
    bool past = t->past && (uintptr_t)y % sizeof(__m512) == 0;
    for (int64_t b = 0, i = 0; i < t->n; b++, i += LANES) {
        __mmask16 exist = (__mmask16)(t->n - i >= LANES ? 0xffff : (1u << (t->n - i)) - 1);
        if (t->base[b] < 0) {
            picked_f32(t, x, 1, y, 1, i, least(t->n, i + LANES));
            continue;
        }
        __m512 v = _mm512_loadu_ps(x + t->base[b]), w = _mm512_loadu_ps(x + t->base[b] + LANES);
        __m512 low = _mm512_permutex2var_ps(v, _mm512_loadu_si512(t->low + i), w);
        __m512 high = _mm512_permutex2var_ps(v, _mm512_loadu_si512(t->high + i), w);
        __m512 sum = _mm512_add_ps(low, _mm512_mul_ps(_mm512_sub_ps(high, low), _mm512_loadu_ps(t->far + i)));
        if (past && t->n - i >= LANES)
            _mm512_stream_ps(y + i, sum);
        else
            _mm512_mask_storeu_ps(y + i, exist, sum);
    }
    return true;
#elif defined __AVX2__
    const float *x = (const float *)(const void *)from;
    float *y = (float *)(void *)to, last[LANES];
    bool past = t->past && (uintptr_t)y % sizeof(__m256) == 0;
    for (int64_t b = 0, i = 0; i < t->n; b++, i += LANES) {
        __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)(t->low + i));
        __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(t->high + i));
        __m256 of_low, of_high;
        if (t->base[b] < 0) {
            of_low = _mm256_i32gather_ps(x, low, 4);
            of_high = _mm256_i32gather_ps(x, high, 4);
        } else {
            __m256 v = _mm256_loadu_ps(x + t->base[b]), w = _mm256_loadu_ps(x + t->base[b] + LANES);
            of_low = of_two(v, w, low);
            of_high = of_two(v, w, high);
        }
        __m256 way = _mm256_mul_ps(_mm256_sub_ps(of_high, of_low), _mm256_loadu_ps(t->far + i));
        __m256 sum = _mm256_add_ps(of_low, way);
        if (t->n - i >= LANES) {
            if (past)
                _mm256_stream_ps(y + i, sum);
            else
                _mm256_storeu_ps(y + i, sum);
        } else {
            _mm256_storeu_ps(last, sum);
            memcpy(y + i, last, (size_t)(t->n - i) * sizeof *y);
        }
    }
    return true;
#else
    return false;
#endif
}

#define T    float
#define NAME f32
#define CLS  CLASS_F32
#include "cpu/kernels/resample_tmpl.c"
#define T    double
#define NAME f64
#define CLS  CLASS_F64
#include "cpu/kernels/resample_tmpl.c"

static struct resample geometry(const struct launch *l, int axis)
{
    bool adjoint = l->variant[2] != 0;
    int64_t out = l->sizes[l->rank - 1 - axis], in = (int64_t)l->scalars[2 * axis];
    struct resample r = {in, out, 0, l->variant[0] != 0, l->variant[1] != 0};
    memcpy(&r.step, &l->scalars[2 * axis + 1], sizeof r.step);
    if (adjoint) r.in = out, r.out = in;
    return r;
}

// What a thread needs: the lists of taps of the last axis and, of planes, of the one before; tiles of lines that are
// turned; what is between both axes.
struct job {
    const struct launch *l;
    bool is_f32, adjoint;
    struct taps wide, tall;
    int64_t turned; // lines together; 0: none
    char *tiles;
    // Planes: whether the axis before the last goes first; rows of a result at a time; the most rows that lie between.
    bool tall_first;
    int64_t rows, between;
    char *rows_between;
};

// How many lines are turned together; 0: none.
static int64_t lines_turned(const struct taps *t, bool is_f32, bool is_dense)
{
#ifdef __AVX2__
    if (is_f32 && t->between && is_dense) return 0;
#endif
    (void)is_dense;
    return (t->from + t->n) * TURNED_B <= TILES_B ? TURNED_B / (is_f32 ? 4 : 8) : 0;
}

// n lines, x_next and out_next apart.
static void lines(const struct job *j, const struct taps *t, const char *x, int64_t x_step, int64_t x_next, char *out,
                  int64_t out_step, int64_t out_next, int64_t n)
{
    int64_t size_B = j->is_f32 ? 4 : 8;
    bool beside = x_next == 1 && out_next == 1;
    for (int64_t done; n > 0; n -= done, x += done * x_next * size_B, out += done * out_next * size_B) {
        if (beside && n >= BESIDE) {
            done = least(n, COLUMNS);
            (j->is_f32 ? columns_f32 : columns_f64)(t, x, x_step, out, out_step, done);
        } else if (j->turned && n >= FEW_LINES) {
            done = least(n, j->turned);
            (j->is_f32 ? turned_f32 : turned_f64)(t, j->tiles, x, x_step, x_next, out, out_step, out_next, done);
        } else {
            done = 1;
            (j->is_f32 ? line_f32 : line_f64)(t, x, x_step, out, out_step);
        }
    }
}

// --- planes

// Where the plane grows, its rows are made wide first, of which several results need the same.
static bool goes_tall_first(const struct launch *l)
{
    return l->sizes[l->rank - 2] <= (int64_t)l->scalars[2];
}

static int64_t rows_at_once(const struct launch *l)
{
    int64_t in = (int64_t)l->scalars[0], out = l->sizes[l->rank - 1], row_B = (in > out ? in : out) * 8;
    int64_t fit = BETWEEN_B / row_B;
    return fit < FEW_ROWS ? FEW_ROWS : fit > MANY_ROWS ? MANY_ROWS : fit;
}

// The taps of some rows, and which of the axis they need.
static struct taps taps_of_rows(const struct taps *t, int64_t first, int64_t end, int64_t *low, int64_t *high)
{
    struct taps some = *t;
    some.n = end - first;
    some.begin = t->begin + first;
    *low = t->from, *high = 0;
    for (int32_t k = some.begin[0]; k < some.begin[some.n]; k++) {
        if (t->at[k] < *low) *low = t->at[k];
        if (t->at[k] >= *high) *high = t->at[k] + 1;
    }
    if (*low > *high) *low = *high;
    return some;
}

static int64_t most_between(const struct job *j)
{
    if (j->tall_first) return j->rows;
    int64_t most = 1, low, high;
    for (int64_t i = 0; i < j->tall.n; i += j->rows) {
        taps_of_rows(&j->tall, i, least(j->tall.n, i + j->rows), &low, &high);
        if (high - low > most) most = high - low;
    }
    return most;
}

// Rows `first` to `end` of the plane at `out`, of the plane at x; both have their rows densely.
static void plane(const struct job *j, const char *x, char *out, int64_t first, int64_t end)
{
    const struct launch *l = j->l;
    int tall = l->rank - 2;
    int64_t x_next = l->operands[0].strides[tall], out_next = l->operands[1].strides[tall], low, high;
    int64_t size_B = j->is_f32 ? 4 : 8, in = j->wide.from, n = j->wide.n;
    struct taps some = taps_of_rows(&j->tall, first, end, &low, &high);
    out += first * out_next * size_B;
    if (j->tall_first) {
        some.past = false;
        for (int64_t c = 0; c < in; c += COLUMNS)
            (j->is_f32 ? columns_f32 : columns_f64)(&some, x + c * size_B, x_next, j->rows_between + c * size_B, in,
                                                    least(COLUMNS, in - c));
        lines(j, &j->wide, j->rows_between, 1, in, out, 1, out_next, end - first);
        return;
    }
    struct taps all = j->wide;
    all.past = false;
    lines(j, &all, x + low * x_next * size_B, 1, x_next, j->rows_between, 1, n, high - low);
    for (int64_t c = 0; c < n; c += COLUMNS)
        (j->is_f32 ? columns_f32 : columns_f64)(&some, j->rows_between + (c - low * n) * size_B, n, out + c * size_B,
                                                out_next, least(COLUMNS, n - c));
}

// --- launches

static bool is_plane(const struct launch *l)
{
    return l->n_reduce == 2;
}

static int64_t blocks_of_rows(const struct launch *l)
{
    return is_plane(l) ? parts(l->sizes[l->rank - 2], rows_at_once(l)) : 1;
}

struct cpu_work CPU_FN(cpu_units_resample)(const struct launch *l)
{
    int64_t out = l->sizes[l->rank - 1], in = (int64_t)l->scalars[0];
    struct cpu_work w = {blocks_of_rows(l), 4 * (out > in ? out : in)};
    if (is_plane(l)) w.unit_cost *= 2 * rows_at_once(l);
    for (int d = 0; d + l->n_reduce < l->rank; d++) w.units *= l->sizes[d];
    return w;
}

// All lies in scratch memory of the thread.
static kiln_status start(const struct launch *l, struct job *j)
{
    int last = l->rank - 1;
    bool is_dense = l->operands[0].strides[last] == 1 && l->operands[1].strides[last] == 1;
    *j = (struct job){.l = l, .is_f32 = kernel_catalogue[l->kernel].cls == CLASS_F32, .adjoint = l->variant[2] != 0};
    struct resample wide = geometry(l, 0), tall = {0};
    if (is_plane(l)) tall = geometry(l, 1);
    size_t wide_B = taps_B(&wide, j->adjoint);
    char *lists = cpu_scratch(CPU_SCRATCH_CUSTOM, wide_B + (is_plane(l) ? taps_B(&tall, j->adjoint) : 0));
    if (!lists) return error_pending;
    j->wide = taps_in(lists, &wide, j->adjoint);
    j->turned = lines_turned(&j->wide, j->is_f32, is_dense);
    size_t tiles_B = j->turned ? (size_t)(j->wide.from + j->wide.n) * TURNED_B : 0, between_B = 0;
    if (is_plane(l)) {
        j->tall = taps_in(lists + wide_B, &tall, j->adjoint);
        j->tall_first = goes_tall_first(l);
        j->rows = rows_at_once(l);
        between_B = (size_t)(most_between(j) * (j->tall_first ? j->wide.from : j->wide.n)) * (j->is_f32 ? 4 : 8);
    }
    j->wide.past = j->tall.past = stream_pays(l, 4);
    if (tiles_B + between_B == 0) return KILN_OK;
    j->tiles = cpu_scratch(CPU_SCRATCH_ROWS, tiles_B + between_B);
    j->rows_between = j->tiles + tiles_B;
    return j->tiles ? KILN_OK : error_pending;
}

static void run_lines(const struct job *j, int64_t first, int64_t end)
{
    const struct launch *l = j->l;
    int last = l->rank - 1;
    struct walk w;
    walk_start(&w, l, last, first);
    int d = walk_inner(&w);
    int64_t x_next = d >= 0 ? l->operands[0].strides[d] : 0, out_next = d >= 0 ? l->operands[1].strides[d] : 0;
    while (first < end) {
        int64_t n = least(walk_run(&w), end - first);
        char *x = w.at[0], *out = w.at[1];
        if (d >= 0) x += w.inner * walk_stride_B(l, 0, d), out += w.inner * walk_stride_B(l, 1, d);
        lines(j, &j->wide, x, l->operands[0].strides[last], x_next, out, l->operands[1].strides[last], out_next, n);
        first += n;
        walk_next(&w, n);
    }
}

// Units are blocks of rows: the place of a plane is that of its row 0.
static void run_planes(const struct job *j, int64_t first, int64_t end)
{
    const struct launch *l = j->l;
    int64_t blocks = blocks_of_rows(l), height = l->sizes[l->rank - 2];
    for (; first < end; first++) {
        int64_t plane_at = first / blocks, row = first % blocks * j->rows;
        char *at[2];
        for (int o = 0; o < 2; o++) at[o] = (char *)(uintptr_t)l->operands[o].address;
        for (int d = l->rank - 3; d >= 0; plane_at /= l->sizes[d--])
            for (int o = 0; o < 2; o++) at[o] += plane_at % l->sizes[d] * walk_stride_B(l, o, d);
        plane(j, at[0], at[1], row, least(height, row + j->rows));
    }
}

kiln_status CPU_FN(cpu_kernel_resample)(const struct launch *l, int64_t first, int64_t end)
{
    struct job j;
    TRY(start(l, &j));
    (is_plane(l) ? run_planes : run_lines)(&j, first, end);
    if (j.wide.past) stream_end();
    return KILN_OK;
}
