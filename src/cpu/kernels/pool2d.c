// Pooling: one unit is the plane of one image and channel, read densely in the class (as it lies where it can be),
// written the same way.
#include "cpu/kernels/convert.h"
#include "cpu/parallel.h"
#include <math.h>
#include <string.h>

enum pool_kind { POOL_MAX, POOL_MAX_BACKWARD, POOL_AVG, POOL_AVG_BACKWARD };
struct pool_shape {
    int64_t n, c, h, w, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw, exclude; // the launch's scalars, in order
    int64_t lowest;                                                      // of an integer dtype
    char *row, *planes; // scratch: a row of windows with its padding; planes of the backward passes
};

// Loops run over whole steps where what lies behind a row may be read and written: what is left of a row costs more
// than that.
enum { POOL_STEP = 16, POOL_ROWS = 8 };

static int64_t pool_steps(int64_t n)
{
    return (n + POOL_STEP - 1) / POOL_STEP * POOL_STEP;
}

static int64_t pool_whole(int64_t n, int64_t room)
{
    enum { HALF = POOL_STEP / 2 };
    int64_t whole = pool_steps(n), half = (n + HALF - 1) / HALF * HALF;
    return whole <= room ? whole : half <= room ? half : n;
}

// Columns of a phase, of those `sw` apart, in whole steps.
static int64_t pool_pitch(const struct pool_shape *p)
{
    return pool_steps((p->w + p->sw - 1) / p->sw);
}

// The same of a line with its padding; the margin before it, in columns, is a number of whole phases.
static int64_t pool_margin(const struct pool_shape *p)
{
    return (p->pw + p->sw - 1) / p->sw * p->sw;
}

static int64_t pool_line(const struct pool_shape *p)
{
    return pool_margin(p) / p->sw + pool_pitch(p) + p->ow + p->kw * p->dw / p->sw + 2 * POOL_STEP;
}

// Numbers n with 0 <= from + n * step < size are those of [first, past), within the `count` first ones.
struct span {
    int64_t first, past;
};

static struct span span_inside(int64_t from, int64_t step, int64_t size, int64_t count)
{
    struct span s = {from >= 0 ? 0 : (-from + step - 1) / step, from >= size ? 0 : (size - from + step - 1) / step};
    if (s.past > count) s.past = count;
    if (s.first > s.past) s.first = s.past;
    return s;
}

// What a tap meets: windows of rows [y.first, y.past) and columns [x.first, x.past); `at` is the element that the first
// of them meets.
struct tap {
    struct span y, x;
    int64_t at;
};

static struct tap tap_of(const struct pool_shape *p, int64_t ky, int64_t kx)
{
    int64_t down = ky * p->dh - p->ph, right = kx * p->dw - p->pw;
    struct tap t = {span_inside(down, p->sh, p->h, p->oh), span_inside(right, p->sw, p->w, p->ow), 0};
    bool meets = t.y.first < t.y.past && t.x.first < t.x.past;
    if (meets) t.at = (down + t.y.first * p->sh) * p->w + right + t.x.first * p->sw;
    return meets ? t : (struct tap){0};
}

// The same element where rows are `pitch` apart and their columns lie in phases.
static int64_t tap_place(const struct pool_shape *p, const struct tap *t, int64_t pitch)
{
    int64_t column = t->at % p->w;
    return t->at / p->w * pitch + column % p->sw * pool_pitch(p) + column / p->sw;
}

static int64_t pool_row(const struct pool_shape *p)
{
    return p->sw > 1 ? p->sw * pool_pitch(p) : p->w;
}

// The windows of a row all of whose columns lie in the image.
static struct span whole_windows(const struct pool_shape *p)
{
    struct span left = span_inside(-p->pw, p->sw, p->w, p->ow);
    struct span right = span_inside((p->kw - 1) * p->dw - p->pw, p->sw, p->w, p->ow);
    if (left.past > right.past) left.past = right.past;
    if (left.first > left.past) left.first = left.past;
    return left;
}

#define T       int32_t
#define NAME(x) x##_i32
#define LOWEST  ((int32_t)p->lowest)
#include "cpu/kernels/pool2d_tmpl.c"
#define T       int64_t
#define NAME(x) x##_i64
#define LOWEST  p->lowest
#include "cpu/kernels/pool2d_tmpl.c"
#define FLOATS
#define T       float
#define NAME(x) x##_f32
#define LOWEST  (-INFINITY)
#include "cpu/kernels/pool2d_tmpl.c"
#define T       double
#define NAME(x) x##_f64
#define LOWEST  (-(double)INFINITY)
#include "cpu/kernels/pool2d_tmpl.c"

static struct pool_shape pool_read(const struct launch *l)
{
    struct pool_shape p;
    int64_t *fields = &p.n;
    for (int i = 0; i < 15; i++) fields[i] = (int64_t)l->scalars[i];
    return p;
}

struct side {
    const struct launch_operand *o;
    int64_t h, w;
    bool dense;
};

static struct side side_of(const struct launch *l, int operand, enum scalar_class cls, int64_t h, int64_t w)
{
    const struct launch_operand *o = &l->operands[operand];
    bool native = o->dtype == cpu_class_dtype[cls];
    return (struct side){o, h, w, native && (w == 1 || o->strides[3] == 1) && (h == 1 || o->strides[2] == w)};
}

static char *plane_at(const struct side *s, int64_t n, int64_t c)
{
    return (char *)(uintptr_t)s->o->address +
           (n * s->o->strides[0] + c * s->o->strides[1]) * cpu_dtype_size_B[s->o->dtype];
}

static const void *read_plane(const struct side *s, enum scalar_class cls, int64_t n, int64_t c, char *scratch)
{
    char *at = plane_at(s, n, c);
    if (s->dense) return at;
    CPU_FN(cpu_load_tile)(scratch, s->w, cls, at, s->o->dtype, s->h, s->w, s->o->strides[2], s->o->strides[3]);
    return scratch;
}

static kiln_status run(const struct launch *l, int64_t begin, int64_t end, enum pool_kind kind)
{
    struct pool_shape p = pool_read(l);
    enum scalar_class cls = (enum scalar_class)kernel_catalogue[l->kernel].cls;
    bool forward = kind == POOL_MAX || kind == POOL_AVG, two = kind == POOL_MAX_BACKWARD;
    int64_t size_B = cpu_class_size_B[cls], in_B = (p.h * p.w * size_B + 63) & ~(int64_t)63,
            out_B = (p.oh * p.ow * size_B + 63) & ~(int64_t)63;
    bool in_is_image = kind != POOL_AVG_BACKWARD;
    struct side a = side_of(l, 0, cls, in_is_image ? p.h : p.oh, in_is_image ? p.w : p.ow), b = a;
    if (two) b = side_of(l, 1, cls, p.oh, p.ow);
    p.lowest = cls == CLASS_I64 ? INT64_MIN : cls == CLASS_I32 ? dtype_lowest(l->operands[1].dtype) : 0;
    struct side out = side_of(l, two ? 2 : 1, cls, forward ? p.oh : p.h, forward ? p.ow : p.w);
    int64_t row_B = ((POOL_ROWS * p.sw * pool_line(&p) + p.w + 2 * POOL_STEP) * size_B + 63) & ~(int64_t)63;
    int64_t planes_B =
        kind != POOL_MAX ? 2 * (p.oh * pool_steps(p.ow) + p.h * p.sw * pool_pitch(&p) + 2 * POOL_STEP) * size_B : 0;
    char *scratch = cpu_scratch(CPU_SCRATCH_CUSTOM, (size_t)(2 * in_B + 2 * out_B + row_B + planes_B));
    if (!scratch) return error_pending;
    p.row = scratch + 2 * in_B + 2 * out_B;
    p.planes = p.row + row_B;
    for (int64_t u = begin; u < end; u++) {
        int64_t n = u / p.c, c = u % p.c;
        const void *x = read_plane(&a, cls, n, c, scratch),
                   *dy = two ? read_plane(&b, cls, n, c, scratch + in_B) : NULL;
        char *at = plane_at(&out, n, c);
        void *dst = out.dense ? at : scratch + in_B + out_B;
        switch (cls) {
        case CLASS_F32: plane_f32(&p, kind, x, dy, dst); break;
        case CLASS_F64: plane_f64(&p, kind, x, dy, dst); break;
        case CLASS_I32: plane_i32(&p, kind, x, dy, dst); break;
        default: plane_i64(&p, kind, x, dy, dst); break;
        }
        if (!out.dense) CPU_FN(cpu_store_tile)
        (at, out.o->dtype, out.o->strides[2], out.o->strides[3], dst, out.w, cls, out.h, out.w);
    }
    return KILN_OK;
}

static struct cpu_work planes(const struct launch *l)
{
    struct pool_shape p = pool_read(l);
    return (struct cpu_work){p.n * p.c, p.oh * p.ow * (p.kh * p.kw + 2) + p.h * p.w};
}

kiln_status CPU_FN(cpu_kernel_max_pool2d)(const struct launch *l, int64_t begin, int64_t end)
{
    return run(l, begin, end, POOL_MAX);
}

kiln_status CPU_FN(cpu_kernel_max_pool2d_backward)(const struct launch *l, int64_t begin, int64_t end)
{
    return run(l, begin, end, POOL_MAX_BACKWARD);
}

kiln_status CPU_FN(cpu_kernel_avg_pool2d)(const struct launch *l, int64_t begin, int64_t end)
{
    return run(l, begin, end, POOL_AVG);
}

kiln_status CPU_FN(cpu_kernel_avg_pool2d_backward)(const struct launch *l, int64_t begin, int64_t end)
{
    return run(l, begin, end, POOL_AVG_BACKWARD);
}

struct cpu_work CPU_FN(cpu_units_max_pool2d)(const struct launch *l)
{
    return planes(l);
}
struct cpu_work CPU_FN(cpu_units_max_pool2d_backward)(const struct launch *l)
{
    return planes(l);
}
struct cpu_work CPU_FN(cpu_units_avg_pool2d)(const struct launch *l)
{
    return planes(l);
}
struct cpu_work CPU_FN(cpu_units_avg_pool2d_backward)(const struct launch *l)
{
    return planes(l);
}
