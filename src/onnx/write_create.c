// Tensors that are made of numbers, and triangles of matrices.
#include "onnx/write.h"
#include "ops/attrs.h"
#include <math.h>

enum { SPACED_MAX = 1 << 16 };

static void gives_full(struct onnx_writer *w, double number, int64_t integer)
{
    const struct type *t = onnx_type_out(w, 0);
    onnx_gives(w, 0, onnx_put_full(w, t, number, integer), t->dtype);
}

static void write_filled(struct onnx_writer *w, double v)
{
    bool whole = v > -0x1p63 && v < 0x1p63;
    bool truth = onnx_type_out(w, 0)->dtype == KILN_BOOL;
    gives_full(w, v, truth ? v != 0 : whole ? (int64_t)v : v < 0 ? INT64_MIN : INT64_MAX);
}

void onnx_write_full(struct onnx_writer *w)
{
    write_filled(w, onnx_node_of(w)->attrs[AT_full_value].f);
}

void onnx_write_full_int(struct onnx_writer *w)
{
    int64_t v = onnx_attr_of(w, AT_full_int_value);
    gives_full(w, (double)v, v);
}

void onnx_write_full_like(struct onnx_writer *w)
{
    write_filled(w, onnx_node_of(w)->attrs[AT_full_like_value].f);
}

void onnx_write_zeros(struct onnx_writer *w)
{
    gives_full(w, 0, 0);
}

void onnx_write_zeros_like(struct onnx_writer *w)
{
    gives_full(w, 0, 0);
}

void onnx_write_ones(struct onnx_writer *w)
{
    gives_full(w, 1, 1);
}

void onnx_write_ones_like(struct onnx_writer *w)
{
    gives_full(w, 1, 1);
}

static const char *put_count(struct onnx_writer *w, int64_t n)
{
    return PUT(w, "Range", onnx_put_integer(w, KILN_I64, 0), onnx_put_integer(w, KILN_I64, n),
               onnx_put_integer(w, KILN_I64, 1));
}

static unsigned wide(unsigned dtype)
{
    return dtype == KILN_F64 ? KILN_F64 : dtype_kind_of[dtype] == KIND_FLOAT ? KILN_F32 : KILN_I64;
}

// start + step * i: ONNX does not say how Range rounds on its way.
void onnx_write_arange(struct onnx_writer *w)
{
    const struct ir_node *n = onnx_node_of(w);
    const struct type *t = onnx_type_out(w, 0);
    double start = n->attrs[AT_arange_start].f, step = n->attrs[AT_arange_step].f;
    unsigned dtype = wide(t->dtype);
    if (dtype == KILN_I64 && (start != trunc(start) || step != trunc(step))) {
        onnx_cannot(w, "integers from %g by steps of %g", start, step);
        return;
    }
    const char *y = onnx_put_cast(w, put_count(w, t->dims[0]), KILN_I64, dtype);
    if (step != 1) y = PUT(w, "Mul", y, onnx_put_scalar(w, dtype, step));
    if (start != 0) y = PUT(w, "Add", y, onnx_put_scalar(w, dtype, start));
    onnx_gives(w, 0, y, dtype);
}

// As its kernel finds them.
static const char *put_spaced_integers(struct onnx_writer *w, double start, double stop, int64_t n)
{
    if (n > SPACED_MAX) return onnx_cannot(w, "more than %d integers", SPACED_MAX);
    int64_t *v = arena_alloc(&w->arena, sizeof *v * (size_t)(n + 1));
    double last = (double)n - 1, low = floor(start);
    for (int64_t i = 0; v && i < n; i++)
        v[i] = (int64_t)(i > 0 && (double)i == last
                             ? floor(stop)
                             : low + floor((start - low) + (stop - start) * (double)i / fmax(last, 1)));
    return v ? onnx_put_ints(w, (size_t)n, v) : NULL;
}

// From both ends, so that they are met.
void onnx_write_linspace(struct onnx_writer *w)
{
    const struct ir_node *n = onnx_node_of(w);
    const struct type *t = onnx_type_out(w, 0);
    double start = n->attrs[AT_linspace_start].f, stop = n->attrs[AT_linspace_stop].f;
    int64_t count = t->dims[0];
    if (dtype_kind_of[t->dtype] != KIND_FLOAT) {
        onnx_gives(w, 0, put_spaced_integers(w, start, stop, count), KILN_I64);
        return;
    }
    unsigned dtype = wide(t->dtype);
    double step = count > 2 ? stop / (double)(count - 1) - start / (double)(count - 1) : 0;
    const char *i = put_count(w, count), *by = onnx_put_scalar(w, dtype, step);
    const char *last = onnx_put_integer(w, KILN_I64, count - 1);
    const char *up = PUT(w, "Mul", onnx_put_cast(w, i, KILN_I64, dtype), by);
    const char *down = PUT(w, "Mul", onnx_put_cast(w, PUT(w, "Sub", last, i), KILN_I64, dtype), by);
    up = PUT(w, "Add", onnx_put_scalar(w, dtype, start), up);
    down = PUT(w, "Sub", onnx_put_scalar(w, dtype, stop), down);
    const char *first_half = PUT(w, "LessOrEqual", PUT(w, "Add", i, i), last);
    onnx_gives(w, 0, PUT(w, "Where", first_half, up, down), dtype);
}

static void write_triangle(struct onnx_writer *w, bool upper)
{
    unsigned dtype = onnx_type_out(w, 0)->dtype;
    const char *x = onnx_operand(w, 0, dtype), *k = onnx_put_integer(w, KILN_I64, onnx_attr_of(w, AT_tril_k));
    onnx_put_int(w, "upper", upper);
    onnx_gives(w, 0, PUT(w, "Trilu", x, k), dtype);
}

void onnx_write_tril(struct onnx_writer *w)
{
    write_triangle(w, false);
}

void onnx_write_triu(struct onnx_writer *w)
{
    write_triangle(w, true);
}

void onnx_write_eye(struct onnx_writer *w)
{
    const struct type *t = onnx_type_out(w, 0);
    const char *row = put_count(w, t->dims[0]), *column = put_count(w, t->dims[1]);
    row = PUT(w, "Unsqueeze", row, onnx_put_ints(w, 1, (const int64_t[]){1}));
    onnx_gives(w, 0, PUT(w, "Equal", row, column), KILN_BOOL);
}
