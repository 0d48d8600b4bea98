// Fourier transforms, not divided by anything, of lines of complex numbers: the last dimension of the space, whose
// numbers are pairs. Operands: x, out, the roots of unity of a line, and those of a larger transform of which this is a
// step (immediate: it is none); see src/ops/fft.c. Scalars: strides of the pairs of x and out; columns, how many lines
// the step has; the larger transform's length; how many of its roots are fine ones, a power of two. Variant 0: the
// inverse.
//
// As many lines as a vector has elements are done at a time. A vector holds an element of each, so that all stages work
// on whole vectors; long lines are done as matrices, so that they stay in the fastest memory. Where numbers of a line
// lie side by side and its matrix is whole vectors wide and high, a line is done by itself.

// A product and a sum are one rounding where the instruction set has that; where vectors are of 16 bytes, full
// unrolling makes three times the code for a tenth of the time.
#if defined(__FMA__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast")
#endif
#if !defined(__AVX2__) && !defined(__clang__)
#pragma GCC optimize("O2")
#endif
#include "cpu/kernels/fft_orders.h"
#include "cpu/kernels/stream.h"
#include "cpu/kernels/walk.h"
#include "cpu/parallel.h"
#include <string.h>

// A column of a matrix whose rows are a power of two long lies in a few sets of the cache: rows are PAD vectors longer.
enum { POWERS = 32, PART_MOST = 64, PAD = 1 };
// Rows and columns of which this divides the length are padded: no square to transpose is then cut.
enum { POWER_OF_TWO = 16 };

// Numbers of a line that lies across many others are each in a line of the cache of their own, and these in few of its
// sets. Of what is more than FAR_B they are read in their order, those AHEAD of it are asked of memory, and results go
// past the caches.
enum { FAR_B = 2 << 20, AHEAD = 16 };

#define ALWAYS_INLINE __attribute__((always_inline))

struct fft {
    const struct launch *l;
    int64_t n, pair[2], columns, total, fine;
    int fine_bits;  // the logarithm of fine
    int64_t rows;   // of the line as a matrix; 1: it is short
    bool is_fixed;  // its rows and columns are fixed parts (fft_fixed_tmpl.c)
    int64_t pad;    // after each row, as it is read and written
    int64_t groups; // of lines that are read and written together
    bool far[2];    // x, out are more than a second cache holds
    int lane;       // the dimension along which lines are done together; -1: there is one line
    int sign;       // of the exponent
};

// The largest first that has code of its own, but no 2 after an 8; then the primes that are left.
static int64_t next_radix(int64_t length)
{
    if (length % 8 == 0 && length != 16) return 8;
    if (length % 4 == 0) return 4;
    for (int64_t r = 2;; r++)
        if (length % r == 0) return r;
}

// Vectors are those of the instruction set: of longer ones compilers make memory, and scalars of their exchanges.
#if defined(__AVX512F__)
#define VEC_B     64
#define WIDTH_F32 16
#define WIDTH_F64 8
#elif defined(__AVX2__)
#define VEC_B     32
#define WIDTH_F32 8
#define WIDTH_F64 4
#else
#define VEC_B     16
#define WIDTH_F32 4
#define WIDTH_F64 2
#endif

// Elements of lines side by side lie far apart, each on a page of its own: VISIT_B at a time are read and written, if
// all lines of a visit fit into GROUPS_B, a part of the second cache.
#if defined(__AVX512F__)
enum { VISIT_B = 2 * VEC_B };
#else
enum { VISIT_B = 256 };
#endif
enum { GROUPS_MOST = VISIT_B / (2 * VEC_B), GROUPS_B = 256 << 10 };

#if VEC_B == 64
#define STREAM(to, v) _mm512_stream_si512((__m512i *)(void *)(to), (__m512i)(v))
#elif VEC_B == 32
#define STREAM(to, v) _mm256_stream_si256((__m256i *)(void *)(to), (__m256i)(v))
#elif defined __SSE2__
#define STREAM(to, v) _mm_stream_si128((__m128i *)(void *)(to), (__m128i)(v))
#else
#define STREAM(to, v) memcpy(to, &v, sizeof v)
#endif

#define T     float
#define CLS   CLASS_F32
#define NAME  fft_f32
#define WIDTH WIDTH_F32
#include "cpu/kernels/fft_tmpl.c"
#define T     double
#define CLS   CLASS_F64
#define NAME  fft_f64
#define WIDTH WIDTH_F64
#include "cpu/kernels/fft_tmpl.c"

struct cpu_work CPU_FN(cpu_units_fft)(const struct launch *l)
{
    int64_t n = l->sizes[l->rank - 1], lines = 1, stages = 1;
    for (int64_t k = n; k > 1; k /= 4) stages++;
    for (int d = 0; d + 1 < l->rank; d++) lines *= l->sizes[d];
    return (struct cpu_work){lines, 4 * n * stages};
}

// Rows of the most nearly square matrix.
static int64_t rows_of(int64_t n)
{
    int64_t rows = 1;
    for (int64_t d = 2; n > PART_MOST && d * d <= n; d++)
        if (n % d == 0) rows = d;
    return rows;
}

static bool is_fixed_part(int64_t n)
{
    return n == 16 || n == 32 || n == 64;
}

static bool is_beside(const struct fft *f)
{
    for (int i = 0; i < 2; i++)
        if (f->lane >= 0 && f->l->operands[i].strides[f->lane] == 2 && f->pair[i] == 1) return true;
    return false;
}

static int64_t groups_of(const struct fft *f)
{
    int64_t groups = f->rows > 1 && is_beside(f) ? GROUPS_MOST : 1;
    while (groups > 1 && groups * f->n * 2 * VEC_B > GROUPS_B) groups /= 2;
    return groups;
}

kiln_status CPU_FN(cpu_kernel_fft)(const struct launch *l, int64_t begin, int64_t end)
{
    struct walk w;
    walk_start(&w, l, l->rank - 1, 0);
    struct fft f = {.l = l, .n = l->sizes[l->rank - 1], .lane = walk_inner(&w), .sign = l->variant[0] ? 1 : -1};
    f.rows = rows_of(f.n);
    f.pad = f.rows > 1 && f.rows % POWER_OF_TWO == 0 && f.n / f.rows % POWER_OF_TWO == 0 ? PAD : 0;
    f.is_fixed = is_fixed_part(f.rows) && is_fixed_part(f.n / f.rows);
    f.pair[0] = (int64_t)l->scalars[0];
    f.pair[1] = (int64_t)l->scalars[1];
    f.columns = (int64_t)l->scalars[2];
    f.total = (int64_t)l->scalars[3];
    f.fine = (int64_t)l->scalars[4];
    f.fine_bits = __builtin_ctzll((unsigned long long)f.fine);
    f.groups = groups_of(&f);
    for (int i = 0; i < 2; i++) f.far[i] = l->operands[i].range_hi_B - l->operands[i].range_lo_B > FAR_B;
    return kernel_catalogue[l->kernel].cls == CLASS_F32 ? fft_f32_lines(&f, begin, end) : fft_f64_lines(&f, begin, end);
}
