// Axes of another size, the last of the space (base/resample.h). Operands: x, out; scalars: x's size of the axis, the
// bits of the step; variants: align, cubic, adjoint. Each element of the result has a list of taps, which is made once
// a range. Of lines that lie side by side one tap after the other is added for all. A line by itself with two taps is
// picked from by permutations of a few vectors where neighbours come from near each other; other lines are turned, a
// few at a time, so that they lie side by side.
//
// Adjoint: the taps of what x's axis was made of, sorted by where they are.
#include "base/resample.h"
#include "cpu/kernels/stream.h"
#include "cpu/kernels/walk.h"
#include "cpu/parallel.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#ifdef __AVX512F__
enum { LANES = 16 };
#else
enum { LANES = 8 };
#endif
#ifdef __AVX2__
enum { VECTOR_B = 32 };
#else
enum { VECTOR_B = 16 };
#endif
enum { COLUMNS = 1024, BESIDE = 8 };
// Lines that are turned: as many as fill TURNED_B, at least FEW_LINES, while both tiles lie in half a level-2 cache.
enum { TURNED_B = 64, FEW_LINES = 4, TILES_B = 1 << 18 };

struct taps {
    int64_t n, from;      // sizes of the axis: of out, of x
    bool between;         // two taps, of which the second weight says how far to go
    const int32_t *begin; // n + 1
    const int32_t *at;
    const double *weight;
    // Of LANES elements each, where there are two taps: where the 2 * LANES of x begin that hold their taps, or -1;
    // places there, or of -1 in x; how far to go.
    const int32_t *base, *low, *high;
    const float *far;
    bool past; // results go past the caches
};

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

struct cpu_work CPU_FN(cpu_units_resample)(const struct launch *l)
{
    int64_t out = l->sizes[l->rank - 1], in = (int64_t)l->scalars[0];
    struct cpu_work w = {1, 4 * (out > in ? out : in)};
    for (int d = 0; d + 1 < l->rank; d++) w.units *= l->sizes[d];
    return w;
}

static struct resample geometry(const struct launch *l)
{
    int64_t out = l->sizes[l->rank - 1], in = (int64_t)l->scalars[0];
    struct resample r = {in, out, 0, l->variant[0] != 0, l->variant[1] != 0};
    memcpy(&r.step, &l->scalars[1], sizeof r.step);
    if (l->variant[2]) r.in = out, r.out = in;
    return r;
}

static void list_forward(const struct resample *r, int32_t *begin, int32_t *at, double *weight)
{
    int64_t place[RESAMPLE_MOST_TAPS];
    int32_t n = 0;
    for (int64_t i = 0; i < r->out; i++) {
        begin[i] = n;
        int taps = resample_taps(r, i, place, weight + n);
        for (int k = 0; k < taps; k++) at[n++] = (int32_t)place[k];
    }
    begin[r->out] = n;
}

static void list_adjoint(const struct resample *r, int32_t *begin, int32_t *at, double *weight)
{
    int64_t place[RESAMPLE_MOST_TAPS];
    double w[RESAMPLE_MOST_TAPS];
    memset(begin, 0, (size_t)(r->in + 1) * sizeof *begin);
    for (int64_t i = 0; i < r->out; i++)
        for (int k = resample_taps(r, i, place, w); k-- > 0;) begin[place[k] + 1]++;
    for (int64_t i = 0; i < r->in; i++) begin[i + 1] += begin[i];
    for (int64_t i = 0; i < r->out; i++) {
        int taps = resample_taps(r, i, place, w);
        for (int k = 0; k < taps; k++) {
            int32_t to = begin[place[k]]++;
            at[to] = (int32_t)i;
            weight[to] = w[k];
        }
    }
    memmove(begin + 1, begin, (size_t)r->in * sizeof *begin);
    begin[0] = 0;
}

static void find_bases(const struct taps *t, int32_t *base, int32_t *place, float *far)
{
    int64_t padded = parts(t->n, LANES) * LANES;
    for (int64_t b = 0; b * LANES < t->n; b++) {
        int64_t end = least(t->n, (b + 1) * LANES), low = t->from, high = 0;
        for (int64_t i = 2 * b * LANES; i < 2 * end; i++) {
            if (t->at[i] < low) low = t->at[i];
            if (t->at[i] > high) high = t->at[i];
        }
        if (low > t->from - 2 * LANES) low = t->from - 2 * LANES;
        base[b] = low < 0 || high - low >= 2 * LANES ? -1 : (int32_t)low;
        if (base[b] < 0) low = 0;
        for (int64_t i = b * LANES; i < (b + 1) * LANES; i++) {
            bool there = i < t->n;
            place[i] = there ? t->at[2 * i] - (int32_t)low : 0;
            place[padded + i] = there ? t->at[2 * i + 1] - (int32_t)low : 0;
            far[i] = there ? (float)t->weight[2 * i + 1] : 0;
        }
    }
}

// The lists lie in scratch memory of the thread.
static kiln_status make_taps(const struct launch *l, struct taps *t)
{
    struct resample r = geometry(l);
    bool adjoint = l->variant[2] != 0;
    size_t n = (size_t)l->sizes[l->rank - 1], all = (size_t)r.out * RESAMPLE_MOST_TAPS, blocks = n / LANES + 1;
    double *weight = cpu_scratch(CPU_SCRATCH_CUSTOM, all * 8 + (all + n + 1 + blocks + 3 * blocks * LANES) * 4);
    if (!weight) return error_pending;
    int32_t *at = (int32_t *)(void *)(weight + all), *begin = at + all, *base = begin + n + 1, *place = base + blocks;
    float *far = (float *)(void *)(place + 2 * blocks * LANES);
    (adjoint ? list_adjoint : list_forward)(&r, begin, at, weight);
    *t = (struct taps){(int64_t)n,
                       (int64_t)l->scalars[0],
                       !adjoint && !r.cubic,
                       begin,
                       at,
                       weight,
                       base,
                       place,
                       place + parts((int64_t)n, LANES) * LANES,
                       far};
    if (t->between) find_bases(t, base, place, far);
    return KILN_OK;
}

// How many lines are turned together; 0: none.
static int64_t lines_turned(const struct launch *l, const struct taps *t, bool is_f32)
{
    int last = l->rank - 1;
    bool dense = l->operands[0].strides[last] == 1 && l->operands[1].strides[last] == 1;
    int size_B = is_f32 ? 4 : 8;
#ifdef __AVX2__
    if (is_f32 && t->between && dense) return 0;
#endif
    (void)dense;
    return (t->from + t->n) * TURNED_B <= TILES_B ? TURNED_B / size_B : 0;
}

kiln_status CPU_FN(cpu_kernel_resample)(const struct launch *l, int64_t first, int64_t end)
{
    int last = l->rank - 1;
    bool is_f32 = kernel_catalogue[l->kernel].cls == CLASS_F32;
    struct taps t;
    struct walk w;
    TRY(make_taps(l, &t));
    t.past = stream_pays(l, 4);
    walk_start(&w, l, last, first);
    int j = walk_inner(&w);
    int64_t x_step = l->operands[0].strides[last], out_step = l->operands[1].strides[last];
    int64_t x_next = j >= 0 ? l->operands[0].strides[j] : 0, out_next = j >= 0 ? l->operands[1].strides[j] : 0;
    bool beside = x_next == 1 && out_next == 1;
    int64_t turned = lines_turned(l, &t, is_f32);
    char *tiles = turned ? cpu_scratch(CPU_SCRATCH_ROWS, (size_t)(t.from + t.n) * TURNED_B) : NULL;
    if (turned && !tiles) return error_pending;
    while (first < end) {
        int64_t n = least(walk_run(&w), end - first);
        char *x = w.at[0], *out = w.at[1];
        if (j >= 0) x += w.inner * walk_stride_B(l, 0, j), out += w.inner * walk_stride_B(l, 1, j);
        if (beside && n >= BESIDE) {
            n = least(n, COLUMNS);
            (is_f32 ? columns_f32 : columns_f64)(&t, x, x_step, out, out_step, n);
        } else if (turned && n >= FEW_LINES) {
            n = least(n, turned);
            (is_f32 ? turned_f32 : turned_f64)(&t, tiles, x, x_step, x_next, out, out_step, out_next, n);
        } else {
            n = 1;
            (is_f32 ? line_f32 : line_f64)(&t, x, x_step, out, out_step);
        }
        first += n;
        walk_next(&w, n);
    }
    if (t.past) stream_end();
    return KILN_OK;
}
