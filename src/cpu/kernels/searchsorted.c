// out[p] = how many elements of a sorted line come before values[p]. Operands: the lines (over the space, without their
// own axis), values, out; scalars: a line's size and stride; variant 0: equal elements come before, too. A block of
// values halves its lines together: the steps depend on the size alone, so that their loads do not wait for each other.
#include "cpu/kernels/walk.h"

enum { LOOKUPS = 64 };

#define T         float
#define IS_NAN(x) (x != x)
#define NAME      search_f32
#include "cpu/kernels/searchsorted_tmpl.c"
#define T         double
#define IS_NAN(x) (x != x)
#define NAME      search_f64
#include "cpu/kernels/searchsorted_tmpl.c"
#define T         int32_t
#define IS_NAN(x) false
#define NAME      search_i32
#include "cpu/kernels/searchsorted_tmpl.c"
#define T         int64_t
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

kiln_status CPU_FN(cpu_kernel_searchsorted)(const struct launch *l, int64_t begin, int64_t end)
{
    enum scalar_class cls = (enum scalar_class)kernel_catalogue[l->kernel].cls;
    struct walk w;
    walk_start(&w, l, -1, begin);
    int d = walk_inner(&w);
    int64_t steps[3] = {0};
    for (int o = 0; d >= 0 && o < 3; o++) steps[o] = l->operands[o].strides[d];
    while (begin < end) {
        int64_t n = walk_run(&w);
        if (n > end - begin) n = end - begin;
        if (n > LOOKUPS) n = LOOKUPS;
        switch (cls) {
        case CLASS_F32: search_f32(&w, n, steps); break;
        case CLASS_F64: search_f64(&w, n, steps); break;
        case CLASS_I32: search_i32(&w, n, steps); break;
        default: search_i64(&w, n, steps); break;
        }
        begin += n;
        walk_next(&w, n);
    }
    return KILN_OK;
}
