// Running sums (variant 0: 0), products (1), maxima (2) and minima (3) along the last dimension of the space. Operands:
// x, out. Rows that lie side by side are done some columns at a time, others one by one, or, of sums, some rows at a
// time: each sum waits for the one before it. Sums of f32 are kept in f64; along a row those of a vector are made
// together, in as many steps as doublings, to which what came before is added.
#include "cpu/kernels/stream.h"
#include "cpu/kernels/walk.h"

enum { SCAN_SUM, SCAN_PROD, SCAN_MAX, SCAN_MIN, BLOCK = 1024, COLUMNS = 512, ROWS = 4, PART = 1024 };

#define T         float
#define ACC       double
#define ORDERED   double
#define IS_NAN(x) (x != x)
#define LEAST     (-__builtin_inf())
#define MOST      __builtin_inf()
#define NAME      scan_f32
#include "cpu/kernels/scan_tmpl.c"
#define T         double
#define ACC       double
#define ORDERED   double
#define IS_NAN(x) (x != x)
#define LEAST     (-__builtin_inf())
#define MOST      __builtin_inf()
#define NAME      scan_f64
#include "cpu/kernels/scan_tmpl.c"
#define T         uint64_t
#define ACC       uint64_t
#define ORDERED   int64_t
#define IS_NAN(x) false
#define LEAST     INT64_MIN
#define MOST      INT64_MAX
#define NAME      scan_i64
#include "cpu/kernels/scan_tmpl.c"

#if defined(__AVX512F__)
typedef __m512d sums;
enum { LANES = 8 };
static inline sums sums_of(const float *x)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512d v = _mm512_cvtps_pd(_mm256_loadu_ps(x));
    v += _mm512_castsi512_pd(_mm512_alignr_epi64(_mm512_castpd_si512(v), zero, 7));
    v += _mm512_castsi512_pd(_mm512_alignr_epi64(_mm512_castpd_si512(v), zero, 6));
    return v + _mm512_castsi512_pd(_mm512_alignr_epi64(_mm512_castpd_si512(v), zero, 4));
}
static inline sums last_of(sums v)
{
    return _mm512_permutexvar_pd(_mm512_set1_epi64(7), v);
}
static inline void store_sums(float *out, sums v)
{
    _mm256_storeu_ps(out, _mm512_cvtpd_ps(v));
}
#elif defined(__AVX2__)
typedef __m256d sums;
enum { LANES = 4 };
static inline sums sums_of(const float *x)
{
    const __m256d zero = _mm256_setzero_pd();
    __m256d v = _mm256_cvtps_pd(_mm_loadu_ps(x));
    v += _mm256_blend_pd(_mm256_permute4x64_pd(v, 0x90), zero, 1);
    return v + _mm256_permute2f128_pd(v, v, 0x08);
}
static inline sums last_of(sums v)
{
    return _mm256_permute4x64_pd(v, 0xff);
}
static inline void store_sums(float *out, sums v)
{
    _mm_storeu_ps(out, _mm256_cvtpd_ps(v));
}
#endif

// n sums along a row that lies as the class has it, from what came before on.
static double sums_along(const float *x, float *out, int64_t n, double sum)
{
    int64_t i = 0;
#ifdef __AVX2__
    sums before = {0};
    before += sum;
    for (; i + LANES <= n; i += LANES) {
        sums v = sums_of(x + i);
        store_sums(out + i, v + before);
        before += last_of(v);
    }
    sum = before[0];
#endif
    for (; i < n; i++) out[i] = (float)(sum += x[i]);
    return sum;
}

static void sum_row(const float *x, float *out, int64_t n, bool streams)
{
    float block[BLOCK];
    double sum = 0;
    for (int64_t k = 0; k < n; k += BLOCK) {
        int64_t m = least(n - k, BLOCK);
        sum = sums_along(x + k, streams ? block : out + k, m, sum);
        if (streams) stream((char *)(out + k), (const char *)block, m * (int64_t)sizeof *out);
    }
}

// Whether they are such sums.
static bool lies(const struct launch *l, enum scalar_class cls)
{
    bool lies = cls == CLASS_F32 && l->variant[0] == SCAN_SUM;
    for (int i = 0; i < 2; i++)
        lies = lies && l->operands[i].dtype == KILN_F32 && l->operands[i].strides[l->rank - 1] == 1;
#ifdef __AVX2__
    return lies;
#else
    return false && lies;
#endif
}

struct cpu_work CPU_FN(cpu_units_scan)(const struct launch *l)
{
    struct cpu_work w = {1, 4 * l->sizes[l->rank - 1]};
    for (int d = 0; d + 1 < l->rank; d++) w.units *= l->sizes[d];
    return w;
}

kiln_status CPU_FN(cpu_kernel_scan)(const struct launch *l, int64_t begin, int64_t end)
{
    enum scalar_class cls = (enum scalar_class)kernel_catalogue[l->kernel].cls;
    int last = l->rank - 1;
    struct walk w;
    walk_start(&w, l, last, begin);
    int j = walk_inner(&w);
    bool along = lies(l, cls), streams = stream_pays(l, along ? STREAM_QUARTERS : 4);
    while (begin < end) {
        int64_t n = walk_run(&w);
        if (n > end - begin) n = end - begin;
        bool beside = j >= 0 && n >= 4 &&
                      l->operands[0].strides[j] * l->operands[0].strides[j] <
                          l->operands[0].strides[last] * l->operands[0].strides[last];
        bool several = !beside && !along && j >= 0 && n >= ROWS && l->variant[0] == SCAN_SUM;
        int64_t most = beside ? COLUMNS : several ? ROWS : 1;
        if (n > most) n = most;
        char *x = w.at[0], *out = w.at[1];
        if (j >= 0) x += w.inner * walk_stride_B(l, 0, j), out += w.inner * walk_stride_B(l, 1, j);
        switch (cls) {
        case CLASS_F32:
            beside    ? scan_f32_columns(l, x, out, n, j, streams)
            : along   ? sum_row((const float *)(const void *)x, (float *)(void *)out, l->sizes[last], streams)
            : several ? scan_f32_rows(l, x, out, j)
                      : scan_f32_row(l, x, out);
            break;
        case CLASS_F64:
            beside    ? scan_f64_columns(l, x, out, n, j, streams)
            : several ? scan_f64_rows(l, x, out, j)
                      : scan_f64_row(l, x, out);
            break;
        default:
            beside    ? scan_i64_columns(l, x, out, n, j, streams)
            : several ? scan_i64_rows(l, x, out, j)
                      : scan_i64_row(l, x, out);
            break;
        }
        begin += n;
        walk_next(&w, n);
    }
    if (streams) stream_end();
    return KILN_OK;
}
