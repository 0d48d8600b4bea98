// out[p] = how many elements of a sorted line come before values[p]. Operands: the lines (over the space, without their
// own axis), values, out; scalars: a line's size and stride; variant 0: equal elements come before, too. A block of
// values halves its lines together: the steps depend on the size alone, so that their loads do not wait for each other.
//
// A long line in which many values are looked for is cut into parts of equal width first. The part of a value is found
// by arithmetic that keeps order, so that what lies in lower parts comes before it and what lies in higher ones does
// not: only its own part is halved.
#include "cpu/kernels/walk.h"
#include "cpu/parallel.h"
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

enum { LOOKUPS = 64, LONG_LINE = 4096, PARTS_MOST = 1 << 16 };

struct parted {
    double low, scale;
    int32_t n, size; // parts (0: none); elements that are no NaN
    int32_t *begin;  // of each part, n + 1
};

#ifdef __AVX512F__
#define GATHERS
#endif
#define T         float
#define REAL      float
#define IS_NAN(x) (x != x)
#define NAME      search_f32
#include "cpu/kernels/searchsorted_tmpl.c"
#define T         double
#define REAL      double
#define IS_NAN(x) (x != x)
#define NAME      search_f64
#include "cpu/kernels/searchsorted_tmpl.c"
#define T         int32_t
#define REAL      double
#define IS_NAN(x) false
#define NAME      search_i32
#include "cpu/kernels/searchsorted_tmpl.c"
#define T         int64_t
#define REAL      double
#define IS_NAN(x) false
#define NAME      search_i64
#include "cpu/kernels/searchsorted_tmpl.c"

struct cpu_work CPU_FN(cpu_units_searchsorted)(const struct launch *l)
{
    struct cpu_work w = {1, 4};
    for (uint64_t left = l->scalars[0]; left > 1; left /= 2) w.unit_cost++;
    for (int d = 0; d < l->rank; d++) w.units *= l->sizes[d];
    return w;
}

// The one line that all values are looked for in, where it is long, but not beside them.
static bool is_worth_parts(const struct launch *l, int64_t n_values)
{
    int64_t size = (int64_t)l->scalars[0], stride = (int64_t)l->scalars[1];
    for (int d = 0; d < l->rank; d++)
        if (l->operands[0].strides[d]) return false;
    return stride == 1 && size >= LONG_LINE && size <= INT32_MAX && n_values >= size / 4;
}

static kiln_status part(struct parted *p, const struct launch *l, enum scalar_class cls, int64_t n_values)
{
    *p = (struct parted){0};
    if (!is_worth_parts(l, n_values)) return KILN_OK;
    p->n = 1;
    while (p->n < (int64_t)l->scalars[0] / 4 && p->n < PARTS_MOST) p->n *= 2;
    p->begin = cpu_scratch(CPU_SCRATCH_CUSTOM, (size_t)(p->n + 1) * sizeof *p->begin);
    if (!p->begin) return error_pending;
    bool parted = cls == CLASS_F32   ? search_f32_part(p, l)
                  : cls == CLASS_F64 ? search_f64_part(p, l)
                  : cls == CLASS_I32 ? search_i32_part(p, l)
                                     : search_i64_part(p, l);
    if (!parted) p->n = 0;
    return KILN_OK;
}

kiln_status CPU_FN(cpu_kernel_searchsorted)(const struct launch *l, int64_t begin, int64_t end)
{
    enum scalar_class cls = (enum scalar_class)kernel_catalogue[l->kernel].cls;
    struct walk w;
    walk_start(&w, l, -1, begin);
    int d = walk_inner(&w);
    int64_t steps[3] = {0};
    for (int o = 0; d >= 0 && o < 3; o++) steps[o] = l->operands[o].strides[d];
    struct parted p;
    TRY(part(&p, l, cls, end - begin));
    while (begin < end) {
        int64_t n = walk_run(&w);
        if (n > end - begin) n = end - begin;
        if (n > LOOKUPS) n = LOOKUPS;
        switch (cls) {
        case CLASS_F32: search_f32(&w, &p, n, steps); break;
        case CLASS_F64: search_f64(&w, &p, n, steps); break;
        case CLASS_I32: search_i32(&w, &p, n, steps); break;
        default: search_i64(&w, &p, n, steps); break;
        }
        begin += n;
        walk_next(&w, n);
    }
    return KILN_OK;
}
