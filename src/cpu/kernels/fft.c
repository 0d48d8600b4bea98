// Fourier transforms, not divided by anything, of lines of complex numbers: the last dimension of the space, whose
// numbers are pairs. Operands: x, out, the roots of unity of a line, and those of a larger transform of which this is a
// step (immediate: it is none); see src/ops/fft.c. Scalars: strides of the pairs of x and out; columns, how many lines
// the step has; the larger transform's length; how many of its roots are fine ones. Variant 0: the inverse.
//
// Some lines are done at a time, an element of each side by side, so that all stages work on whole vectors.
#include "cpu/kernels/walk.h"
#include "cpu/parallel.h"

enum { LANES = 16, POWERS = 32, NEAR = 16 };

struct fft {
    const struct launch *l;
    int64_t n, pair[2], columns, total, fine;
    int lane; // the dimension along which lines are done together; -1: there is one line
    int sign; // of the exponent
};

// The largest first that has code of its own; small primes, which the lowering leaves, last.
static int64_t next_radix(int64_t length)
{
    if (length % 4 == 0) return 4;
    for (int64_t r = 2;; r++)
        if (length % r == 0) return r;
}

#define T    float
#define CLS  CLASS_F32
#define NAME fft_f32
#include "cpu/kernels/fft_tmpl.c"
#define T    double
#define CLS  CLASS_F64
#define NAME fft_f64
#include "cpu/kernels/fft_tmpl.c"

struct cpu_work CPU_FN(cpu_units_fft)(const struct launch *l)
{
    int64_t n = l->sizes[l->rank - 1], lines = 1, stages = 1;
    for (int64_t k = n; k > 1; k /= 4) stages++;
    for (int d = 0; d + 1 < l->rank; d++) lines *= l->sizes[d];
    return (struct cpu_work){lines, 4 * n * stages};
}

kiln_status CPU_FN(cpu_kernel_fft)(const struct launch *l, int64_t begin, int64_t end)
{
    struct walk w;
    walk_start(&w, l, l->rank - 1, 0);
    struct fft f = {.l = l, .n = l->sizes[l->rank - 1], .lane = walk_inner(&w), .sign = l->variant[0] ? 1 : -1};
    f.pair[0] = (int64_t)l->scalars[0];
    f.pair[1] = (int64_t)l->scalars[1];
    f.columns = (int64_t)l->scalars[2];
    f.total = (int64_t)l->scalars[3];
    f.fine = (int64_t)l->scalars[4];
    return kernel_catalogue[l->kernel].cls == CLASS_F32 ? fft_f32_lines(&f, begin, end) : fft_f64_lines(&f, begin, end);
}
