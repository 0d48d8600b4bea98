// Matrix products: sizes around the tiles, vectors, batches, operands by strides, mixed dtypes.
#include "conformance/structured.h"
#include <kiln/ops.h>

static const struct {
    int ra;
    int64_t a[4];
    int rb;
    int64_t b[4];
} shapes[] = {
    {2, {3, 4}, 2, {4, 5}},
    {2, {1, 1}, 2, {1, 1}},
    {2, {17, 33}, 2, {33, 9}},
    {2, {65, 70}, 2, {70, 66}},
    {2, {64, 64}, 2, {64, 64}},
    {2, {5, 130}, 2, {130, 3}},
    {1, {4}, 1, {4}},
    {1, {4}, 2, {4, 5}},
    {2, {3, 4}, 1, {4}},
    {3, {2, 3, 4}, 1, {4}},
    {1, {3}, 3, {2, 3, 4}},
    {3, {2, 3, 4}, 3, {2, 4, 5}},
    {4, {2, 1, 3, 4}, 3, {5, 4, 2}},
    {2, {3, 4}, 3, {2, 4, 5}},
    {3, {1, 3, 4}, 3, {6, 4, 2}},
    {2, {0, 4}, 2, {4, 5}},
    {2, {3, 0}, 2, {0, 5}},
    {3, {0, 3, 4}, 3, {1, 4, 5}},
    {2, {1, 300}, 2, {300, 1}},
    {4, {2, 3, 4, 5}, 4, {2, 3, 5, 6}},
    {2, {129, 200}, 2, {200, 131}},
    {3, {3, 70, 80}, 3, {1, 80, 90}},
    {2, {37, 131}, 2, {131, 10}}, // few columns
    {2, {2, 64}, 2, {64, 16}},
    {2, {65, 130}, 2, {130, 49}}, // in registers, with edges
    {2, {31, 333}, 2, {333, 40}},
    {1, {1500}, 1, {1500}}, // one long sum
    {3, {3, 1, 1100}, 3, {1, 1100, 1}},
    {3, {2, 1, 1024}, 1, {1024}},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void product(const char *op, int i, int da, int db, enum host_layout la, enum host_layout lb)
{
    kiln_scope *scope = kiln_scope_begin();
    struct host a, b, scale;
    kiln_tensor *x = random_tensor(&a, da, shapes[i].ra, shapes[i].a, la, -3, 3);
    kiln_tensor *y = random_tensor(&b, db, shapes[i].rb, shapes[i].b, lb, -3, 3);
    struct host want = reference_matmul(&a, &b, promoted(da, db), &scale);
    char note[100], shape[60];
    host_shape_text(shape, sizeof shape, b.rank, b.dims);
    snprintf(note, sizeof note, "x %s%s %s", kiln_dtype_name((kiln_dtype)db), shape, host_layout_names[lb]);
    check_values(kiln_matmul(x, y), &want, &scale, (double)a.dims[a.rank - 1] / 4 + 4, case_text(op, &a, la, note));
    host_free(&a);
    host_free(&b);
    host_free(&want);
    host_free(&scale);
    kiln_scope_end(&scope);
}

static void fails(const char *op, kiln_tensor *a, kiln_tensor *b, kiln_status status, const char *what)
{
    if (!no_error("operands")) return;
    if (kiln_matmul(a, b)) record_mistake("matmul takes %s", what);
    expect_error(status, op, what);
}

void conform_matmul(const char *op)
{
    for (int dtype = 1; dtype < DTYPES; dtype++)
        for (int i = 0; i < SHAPES; i++)
            if (dtype == KILN_F32 || !thinned(i + 2 * dtype, 7))
                product(op, i, dtype, dtype, LAYOUT_CONTIGUOUS, LAYOUT_CONTIGUOUS);
    for (int la = 0; la < LAYOUT_COUNT; la++)
        for (int lb = 0; lb < LAYOUT_COUNT; lb++)
            for (int i = 2; i < SHAPES; i += 9 - 4 * suite.sparse) // 2-D, 3-D with a batch, vectors
                if (!thinned(la + 2 * lb + i, 3))
                    product(op, i, KILN_F32, KILN_F32, (enum host_layout)la, (enum host_layout)lb);
    for (int la = 0; la < LAYOUT_COUNT; la++)
        for (int i = SHAPES - 3; i < SHAPES; i++)
            if (!thinned(la + i, 3))
                product(op, i, KILN_F32, KILN_F32, (enum host_layout)la, (enum host_layout)((la + i) % LAYOUT_COUNT));
    static const int mixed[][2] = {{KILN_F16, KILN_F32}, {KILN_I32, KILN_F32},  {KILN_BOOL, KILN_I32},
                                   {KILN_U8, KILN_I8},   {KILN_F16, KILN_BF16}, {KILN_I64, KILN_F16},
                                   {KILN_F64, KILN_F32}};
    for (size_t k = 0; k < sizeof mixed / sizeof mixed[0]; k++) {
        if (!thinned((int)k, 2)) product(op, 2, mixed[k][0], mixed[k][1], LAYOUT_CONTIGUOUS, LAYOUT_CONTIGUOUS);
        if (!thinned((int)k + 1, 2)) product(op, 11, mixed[k][1], mixed[k][0], LAYOUT_CONTIGUOUS, LAYOUT_TRANSPOSED);
    }
    kiln_tensor *m = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3)), *s = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE0);
    kiln_tensor *c = kiln_ones(suite.dev, KILN_BOOL, KILN_SHAPE(3, 3));
    kiln_tensor *p = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3, 3)),
                *q = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3, 3, 3));
    fails(op, m, m, KILN_E_SHAPE, "inner dimensions that differ");
    fails(op, m, s, KILN_E_SHAPE, "a scalar");
    fails(op, p, q, KILN_E_SHAPE, "batches that do not broadcast");
    fails(op, c, c, KILN_E_DTYPE, "bool");
    fails(op, m, NULL, KILN_E_ARGUMENT, "NULL");
}
