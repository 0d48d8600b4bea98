// Running sums (variant 0: 0), products (1), maxima (2) and minima (3) along the last dimension of the space. Operands:
// x, out. Rows that lie side by side are done some columns at a time, others one by one, or, of sums, some rows at a
// time: each sum waits for the one before it. Sums of f32 are kept in f64.
#include "cpu/kernels/walk.h"

enum { SCAN_SUM, SCAN_PROD, SCAN_MAX, SCAN_MIN, BLOCK = 1024, COLUMNS = 128, ROWS = 4, PART = 1024 };

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
    while (begin < end) {
        int64_t n = walk_run(&w);
        if (n > end - begin) n = end - begin;
        bool beside = j >= 0 && n >= 4 &&
                      l->operands[0].strides[j] * l->operands[0].strides[j] <
                          l->operands[0].strides[last] * l->operands[0].strides[last];
        bool several = !beside && j >= 0 && n >= ROWS && l->variant[0] == SCAN_SUM;
        int64_t most = beside ? COLUMNS : several ? ROWS : 1;
        if (n > most) n = most;
        char *x = w.at[0], *out = w.at[1];
        if (j >= 0) x += w.inner * walk_stride_B(l, 0, j), out += w.inner * walk_stride_B(l, 1, j);
        switch (cls) {
        case CLASS_F32:
            beside    ? scan_f32_columns(l, x, out, n, j)
            : several ? scan_f32_rows(l, x, out, j)
                      : scan_f32_row(l, x, out);
            break;
        case CLASS_F64:
            beside    ? scan_f64_columns(l, x, out, n, j)
            : several ? scan_f64_rows(l, x, out, j)
                      : scan_f64_row(l, x, out);
            break;
        default:
            beside    ? scan_i64_columns(l, x, out, n, j)
            : several ? scan_i64_rows(l, x, out, j)
                      : scan_i64_row(l, x, out);
            break;
        }
        begin += n;
        walk_next(&w, n);
    }
    return KILN_OK;
}
