// The CPU device by its launches: every way of the drivers through a space (direct, converted, tiled, along rows,
// across columns, split) against plain loops, for the instruction set that KILN_CPU_ISA names.
#include "base/float16.h"
#include "cpu/blas.h"
#include "cpu/parallel.h"
#include "device/cpu_fixture.h"
#include "device/device.h"
#include "scalar/scalar.h"

#include <math.h>
#include <omp.h>

static struct launch l;

static void start(const char *kernel, enum scalar_class cls, int rank, const int64_t *sizes, int n_reduce)
{
    memset(&l, 0, sizeof l);
    l.op = kernel;
    l.rank = (uint8_t)rank;
    l.n_reduce = (uint8_t)n_reduce;
    for (int d = 0; d < rank; d++) l.sizes[d] = sizes[d];
    for (int i = 0; i < kernel_count; i++)
        if (kernel_catalogue[i].kind != KERNEL_NONE && kernel_catalogue[i].cls == cls &&
            !strcmp(kernel_catalogue[i].name, kernel)) {
            l.kernel = (kernel_id)i;
            l.n_operands = kernel_catalogue[i].n_operands;
            return;
        }
    fail_msg("no kernel %s of class %s", kernel, scalar_class_name(cls));
}

// Element (0, 0 ...) at `p`; strides in elements.
static void operand(int i, void *p, kiln_dtype dtype, const int64_t *strides)
{
    struct launch_operand *o = &l.operands[i];
    o->address = (uint64_t)(uintptr_t)p;
    o->dtype = (uint8_t)dtype;
    o->flags = i == l.n_operands - 1 ? OPERAND_WRITE : 0;
    for (int d = 0; d < l.rank; d++) o->strides[d] = strides[d];
}

static void immediate(int i, kiln_dtype dtype, uint64_t bits)
{
    l.operands[i] = (struct launch_operand){.address = bits, .dtype = (uint8_t)dtype, .flags = OPERAND_IMMEDIATE};
}

static void run(void)
{
    kiln_status status = device_launch(dev, &l);
    if (status) fail_msg("%s", kiln_error_message());
}

#define S(...) ((const int64_t[]){__VA_ARGS__})

// Small integers, exact in every dtype and in sums.
static float *numbers(size_t n)
{
    float *p = malloc(n * sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++) p[i] = (float)((int)(i * 7919 % 31) - 15);
    return p;
}

static void small_pointwise(void **state)
{
    float a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 30, 40}, y[4] = {0};
    start("add", CLASS_F32, 1, S(4), 0);
    operand(0, a, KILN_F32, S(1));
    operand(1, b, KILN_F32, S(1));
    operand(2, y, KILN_F32, S(1));
    run();
    for (int i = 0; i < 4; i++) assert_true(y[i] == a[i] + b[i]);
    immediate(1, KILN_F32, bits_f32(0.5f));
    operand(2, a, KILN_F32, S(1)); // in place
    run();
    for (int i = 0; i < 4; i++) assert_true(a[i] == (float)i + 1.5f);
    l.rank = 0;
    run();
    assert_true(a[0] == 2.0f && a[1] == 2.5f);
}

// One element at a time is never in a vector of the loop that takes two positions at once.
static void expect_single(const char *kernel, enum scalar_class cls, size_t n, const void *in, const void *out)
{
    kiln_dtype dtype = cls == CLASS_F32 ? KILN_F32 : KILN_F64;
    size_t size = cls == CLASS_F32 ? sizeof(float) : sizeof(double);
    for (size_t i = 0; i < n; i++) {
        double x = 0, y = 0;
        memcpy(&x, (const char *)in + i * size, size);
        start(kernel, cls, 1, S(1), 0);
        for (int k = 0; k < l.n_operands - 1; k++) operand(k, &x, dtype, S(1));
        operand(l.n_operands - 1, &y, dtype, S(1));
        run();
        if (memcmp(&y, (const char *)out + i * size, size)) fail_msg("%s: element %zu of %zu", kernel, i, n);
    }
}

// Long kernels of any number of elements, in place, have at each position the bits of that element alone. A sine in the
// middle is a rare case.
static void long_pointwise_in_place(void **state)
{
    static const char *const names[] = {"mish", "softplus", "pow", "remainder", "erfinv", "sin"};
    enum { MOST = 131 };
    for (size_t name = 0; name < COUNT_OF(names); name++)
        for (int64_t n = 1; n <= MOST; n++) {
            float a[MOST + 1], y[MOST + 1];
            double b[MOST + 1], z[MOST + 1];
            for (int i = 0; i <= n; i++) y[i] = a[i] = (float)(z[i] = b[i] = (double)(i * 37 % 64 + 1) / 66);
            if (!strcmp(names[name], "sin")) y[n / 2] = a[n / 2] = (float)(z[n / 2] = b[n / 2] = 0x1p70);
            start(names[name], CLASS_F32, 1, S(n), 0);
            for (int k = 0; k < l.n_operands; k++) operand(k, y, KILN_F32, S(1));
            run();
            expect_single(names[name], CLASS_F32, (size_t)n, a, y);
            start(names[name], CLASS_F64, 1, S(n), 0);
            for (int k = 0; k < l.n_operands; k++) operand(k, z, KILN_F64, S(1));
            run();
            expect_single(names[name], CLASS_F64, (size_t)n, b, z);
            assert_true(y[n] == a[n] && z[n] == b[n]);
        }
}

// All pairs of layouts of a matrix: rows, columns, reversed, broadcast either way.
struct layout_case {
    int64_t offset, strides[2];
};

static void pointwise_layouts(void **state)
{
    enum { R = 70, C = 133 };
    const struct layout_case in[] = {{0, {C, 1}},     {0, {1, R}},        {(R - 1) * C + C - 1, {-C, -1}},
                                     {0, {0, 1}},     {0, {1, 0}},        {3, {0, 0}},
                                     {0, {2 * C, 2}}, {0, {3, 2 * R * 2}}};
    const struct layout_case out[] = {{0, {C, 1}}, {0, {1, R}}, {0, {2 * C, 2}}};
    float *a = numbers(4 * R * C * 4), *b = numbers(4 * R * C * 4), *y = malloc(sizeof *y * 4 * R * C);
    for (size_t i = 0; i < COUNT_OF(in); i++)
        for (size_t j = 0; j < COUNT_OF(in); j++)
            for (size_t o = 0; o < COUNT_OF(out); o++) {
                start("sub", CLASS_F32, 2, S(R, C), 0);
                operand(0, a + in[i].offset, KILN_F32, in[i].strides);
                operand(1, b + in[j].offset, KILN_F32, in[j].strides);
                operand(2, y, KILN_F32, out[o].strides);
                run();
                for (int64_t r = 0; r < R; r++)
                    for (int64_t c = 0; c < C; c++) {
                        float want = a[in[i].offset + r * in[i].strides[0] + c * in[i].strides[1]] -
                                     b[in[j].offset + r * in[j].strides[0] + c * in[j].strides[1]];
                        if (y[r * out[o].strides[0] + c * out[o].strides[1]] != want)
                            fail_msg("layouts %zu %zu %zu at %d %d", i, j, o, (int)r, (int)c);
                    }
            }
    free(a), free(b), free(y);
}

// Copies of [A, B, C] with each axis fastest in the input, from either end, and a short C that the input repeats. The
// output is dense; what lies beside it stays.
static void copies(void **state)
{
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const int64_t sizes[][3] = {{3, 70, 2}, {1, 300, 3}, {5, 9, 7}, {2, 67, 65},
                                       {40, 3, 8}, {7, 2, 1},   {2, 5, 3}};
    const struct {
        kiln_dtype dtype;
        enum scalar_class cls;
    } kinds[] = {{KILN_I32, CLASS_I32}, {KILN_I8, CLASS_I32}, {KILN_I16, CLASS_I32}, {KILN_I64, CLASS_I64}};
    for (size_t c = 0; c < COUNT_OF(sizes) * COUNT_OF(orders) * COUNT_OF(kinds) * 16; c++) {
        const int64_t *n = sizes[c / 16 % COUNT_OF(sizes)], total = n[0] * n[1] * n[2];
        const int *order = orders[c / 16 / COUNT_OF(sizes) % COUNT_OF(orders)];
        size_t kind = c / 16 / COUNT_OF(sizes) / COUNT_OF(orders), size_B = kiln_dtype_size(kinds[kind].dtype);
        int64_t strides[3], at = 0;
        strides[order[2]] = 1;
        strides[order[1]] = n[order[2]];
        strides[order[0]] = n[order[2]] * n[order[1]];
        for (int d = 0; d < 3; d++)
            if (c >> d & 1) at += (n[d] - 1) * strides[d], strides[d] = -strides[d];
        if (c & 8) at -= strides[2] < 0 ? -(n[2] - 1) * strides[2] : 0, strides[2] = 0;
        char *x = malloc((size_t)total * size_B), *y = malloc((size_t)total * size_B + 1);
        for (int64_t i = 0; i < total * (int64_t)size_B; i++) x[i] = (char)(i * 7 + i / 250), y[i] = 0;
        y[(size_t)total * size_B] = 77;
        start("copy", kinds[kind].cls, 3, n, 0);
        operand(0, x + at * (int64_t)size_B, kinds[kind].dtype, strides);
        operand(1, y, kinds[kind].dtype, S(n[1] * n[2], n[2], 1));
        run();
        for (int64_t i = 0; i < total; i++) {
            int64_t from = at + i / (n[1] * n[2]) * strides[0] + i / n[2] % n[1] * strides[1] + i % n[2] * strides[2];
            if (memcmp(y + i * (int64_t)size_B, x + from * (int64_t)size_B, size_B))
                fail_msg("copy %zu, element %d of %dx%dx%d", c, (int)i, (int)n[0], (int)n[1], (int)n[2]);
        }
        assert_int_equal(y[(size_t)total * size_B], 77);
        free(x), free(y);
    }
}

static void short_inner_dimension(void **state)
{
    enum { R = 5000, C = 3 };
    float *a = numbers(R * C), *b = numbers(C), *y = malloc(sizeof *y * R * C);
    start("add", CLASS_F32, 2, S(R, C), 0);
    operand(0, a, KILN_F32, S(C, 1));
    operand(1, b, KILN_F32, S(0, 1));
    operand(2, y, KILN_F32, S(C, 1));
    run();
    for (int i = 0; i < R * C; i++) assert_true(y[i] == a[i] + b[i % C]);
    free(a), free(b), free(y);
}

// Writes v as an element of a dtype, and reads it back.
static void put(void *p, kiln_dtype dtype, size_t i, float v)
{
    switch (dtype) {
    case KILN_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    case KILN_U8: ((uint8_t *)p)[i] = (uint8_t)(int)v; break;
    case KILN_I8: ((int8_t *)p)[i] = (int8_t)v; break;
    case KILN_I16: ((int16_t *)p)[i] = (int16_t)v; break;
    case KILN_I32: ((int32_t *)p)[i] = (int32_t)v; break;
    case KILN_I64: ((int64_t *)p)[i] = (int64_t)v; break;
    case KILN_F16: ((uint16_t *)p)[i] = f16_from_float(v); break;
    case KILN_BF16: ((uint16_t *)p)[i] = bf16_from_float(v); break;
    case KILN_F32: ((float *)p)[i] = v; break;
    default: ((double *)p)[i] = (double)v; break;
    }
}

static float get(const void *p, kiln_dtype dtype, size_t i)
{
    switch (dtype) {
    case KILN_BOOL:
    case KILN_U8: return ((const uint8_t *)p)[i];
    case KILN_I8: return ((const int8_t *)p)[i];
    case KILN_I16: return ((const int16_t *)p)[i];
    case KILN_I32: return (float)((const int32_t *)p)[i];
    case KILN_I64: return (float)((const int64_t *)p)[i];
    case KILN_F16: return f16_to_float(((const uint16_t *)p)[i]);
    case KILN_BF16: return bf16_to_float(((const uint16_t *)p)[i]);
    case KILN_F32: return ((const float *)p)[i];
    default: return (float)((const double *)p)[i];
    }
}

static void every_dtype(void **state)
{
    enum { N = 1500 };
    double a[2 * N], y[2 * N];
    for (int from = KILN_BOOL; from <= KILN_F64; from++)
        for (int to = KILN_U8; to <= KILN_F64; to++)
            for (int64_t stride = 1; stride <= 2; stride++) {
                for (size_t i = 0; i < 2 * N; i++) put(a, (kiln_dtype)from, i, (float)(i % 7));
                start("add", CLASS_F32, 1, S(N), 0);
                operand(0, a, (kiln_dtype)from, S(stride));
                immediate(1, KILN_F32, bits_f32(1));
                operand(2, y, (kiln_dtype)to, S(stride));
                run();
                for (size_t i = 0; i < N; i++) {
                    size_t at = i * (size_t)stride;
                    float want = from == KILN_BOOL ? (float)(at % 7 != 0) + 1 : (float)(at % 7) + 1;
                    if (get(y, (kiln_dtype)to, at) != want)
                        fail_msg("%s to %s at %zu", dtype_name((unsigned)from), dtype_name((unsigned)to), i);
                }
            }
}

static void stores_wrap_and_round(void **state)
{
    int8_t a[3] = {100, -100, 1}, y[3];
    start("add", CLASS_I32, 1, S(3), 0);
    operand(0, a, KILN_I8, S(1));
    immediate(1, KILN_I32, 100);
    operand(2, y, KILN_I8, S(1));
    run();
    assert_int_equal(y[0], -56);
    assert_int_equal(y[1], 0);
    uint16_t h;
    float x = 2049; // between two f16 values, 2048 is the even one
    start("add", CLASS_F32, 0, S(0), 0);
    operand(0, &x, KILN_F32, S(0));
    immediate(1, KILN_F32, bits_f32(0));
    operand(2, &h, KILN_F16, S(0));
    run();
    assert_true(f16_to_float(h) == 2048);
}

static void broadcast_zero_size(void **state)
{
    float y[1] = {7};
    start("add", CLASS_F32, 2, S(0, 3), 0);
    operand(0, NULL, KILN_F32, S(3, 1));
    operand(1, NULL, KILN_F32, S(0, 0));
    operand(2, y, KILN_F32, S(3, 1));
    run();
    assert_true(y[0] == 7);
}

// Sums of whole numbers are exact, whatever the order: rows, columns, short rows, long rows, several reduced
// dimensions.
static void sums(void **state)
{
    static const int64_t cases[][3] = {{5, 3000, 1}, {3000, 5, 1}, {1, 200000, 1}, {40, 70, 30},
                                       {7, 1, 9000}, {300, 20, 1}, {64, 5000, 2}};
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        const int64_t *n = cases[k];
        size_t total = (size_t)(n[0] * n[1] * n[2]);
        float *a = numbers(total), *y = malloc(sizeof *y * (size_t)n[0]);
        const int64_t layouts[2][3] = {{n[1] * n[2], n[2], 1}, {1, n[0] * n[2], n[0]}};
        for (int i = 0; i < 2; i++) {
            start("reduce_sum", CLASS_F32, 3, n, 2);
            operand(0, a, KILN_F32, layouts[i]);
            operand(1, y, KILN_F32, S(1, 0, 0));
            run();
            for (int64_t r = 0; r < n[0]; r++) {
                double want = 0;
                for (int64_t p = 0; p < n[1]; p++)
                    for (int64_t q = 0; q < n[2]; q++)
                        want += (double)a[r * layouts[i][0] + p * layouts[i][1] + q * layouts[i][2]];
                if ((double)y[r] != want)
                    fail_msg("case %zu layout %d row %d: %g, want %g", k, i, (int)r, (double)y[r], want);
            }
        }
        free(a), free(y);
    }
}

static void long_sum_is_accurate(void **state)
{
    enum { N = 1 << 22 };
    float *a = malloc(sizeof *a * N), y;
    double want = 0;
    for (int i = 0; i < N; i++) {
        a[i] = (float)(i % 1000) / 1000 + 0.1f;
        want += (double)a[i];
    }
    start("reduce_sum", CLASS_F32, 1, S(N), 1);
    operand(0, a, KILN_F32, S(1));
    operand(1, &y, KILN_F32, S(0));
    run();
    assert_true(fabs((double)y - want) <= want * 2.5e-7);
    // The same bits on one thread.
    int threads = omp_get_max_threads();
    for (int t = 1; t <= 5; t += 2) {
        float again;
        omp_set_num_threads(t);
        operand(1, &again, KILN_F32, S(0));
        run();
        assert_memory_equal(&again, &y, sizeof y);
    }
    omp_set_num_threads(threads);
    free(a);
}

static void empty_rows(void **state)
{
    float y[3] = {9, 9, 9};
    start("reduce_sum", CLASS_F32, 2, S(3, 0), 1);
    operand(0, NULL, KILN_F32, S(0, 1));
    operand(1, y, KILN_F32, S(1, 0));
    run();
    for (int i = 0; i < 3; i++) assert_true(y[i] == 0);
    start("reduce_prod", CLASS_F32, 2, S(3, 0), 1);
    operand(0, NULL, KILN_F32, S(0, 1));
    operand(1, y, KILN_F32, S(1, 0));
    run();
    for (int i = 0; i < 3; i++) assert_true(y[i] == 1);
    uint8_t all = 0;
    start("reduce_all", CLASS_BOOL, 1, S(0), 1);
    operand(0, NULL, KILN_BOOL, S(1));
    operand(1, &all, KILN_BOOL, S(0));
    run();
    assert_int_equal(all, 1);
}

// NaN wins over every number, the first NaN and the first of equals give the place; along rows and across columns.
static void extremes(void **state)
{
    enum { R = 40, C = 700 };
    float *a = numbers(R * C), y[R];
    int64_t at[R];
    for (int c = 0; c < R; c += 3) a[c * C + (c * 37 % C)] = 100;
    for (int c = 0; c < R; c += 4) a[c * C + 650] = 100;
    for (int c = 1; c < R; c += 5) a[c * C + 20] = a[c * C + 30] = NAN;
    float *t = malloc(sizeof *t * R * C);
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) t[c * R + r] = a[r * C + c];
    for (int form = 0; form < 2; form++) {
        const int64_t *strides = form ? S(1, R) : S(C, 1);
        start("reduce_max", CLASS_F32, 2, S(R, C), 1);
        operand(0, form ? t : a, KILN_F32, strides);
        operand(1, y, KILN_F32, S(1, 0));
        run();
        start("reduce_argmax", CLASS_F32, 2, S(R, C), 1);
        operand(0, form ? t : a, KILN_F32, strides);
        operand(1, at, KILN_I64, S(1, 0));
        run();
        for (int r = 0; r < R; r++) {
            int64_t best = 0;
            for (int c = 1; c < C; c++) {
                float x = a[r * C + c], m = a[r * C + best];
                if (!isnan(m) && (isnan(x) || x > m)) best = c;
            }
            assert_int_equal(at[r], best);
            if (isnan(a[r * C + best]))
                assert_true(isnan(y[r]));
            else
                assert_true(y[r] == a[r * C + best]);
        }
    }
    free(a), free(t);
}

static void softmax_all_forms(void **state)
{
    static const int64_t cases[][2] = {{33, 1000}, {1000, 10}, {1, 300000}, {70, 40}, {16, 20000}};
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        int64_t R = cases[k][0], C = cases[k][1];
        float *a = numbers((size_t)(R * C)), *y = malloc(sizeof *y * (size_t)(R * C));
        for (int form = 0; form < 2; form++) {
            const int64_t *strides = form ? S(1, R) : S(C, 1);
            start("softmax", CLASS_F32, 2, S(R, C), 1);
            operand(0, a, KILN_F32, strides);
            operand(1, y, KILN_F32, strides);
            run();
            for (int64_t r = 0; r < R; r++) {
                double sum = 0, max = -INFINITY;
                for (int64_t c = 0; c < C; c++) max = fmax(max, (double)a[r * strides[0] + c * strides[1]]);
                for (int64_t c = 0; c < C; c++) sum += exp((double)a[r * strides[0] + c * strides[1]] - max);
                for (int64_t c = 0; c < C; c++) {
                    int64_t i = r * strides[0] + c * strides[1];
                    double want = exp((double)a[i] - max) / sum;
                    if (fabs((double)y[i] - want) > want * 2e-6)
                        fail_msg("case %zu form %d at %d %d", k, form, (int)r, (int)c);
                }
            }
        }
        free(a), free(y);
    }
}

// out[m][n] of every layout and dtype of the operands, one batch dimension.
static void check_matmul(enum scalar_class cls, kiln_dtype dtype, const int64_t *n, const int64_t *sa,
                         const int64_t *sb, const int64_t *so)
{
    size_t room = (size_t)(n[0] * (n[1] + 1) * (n[2] + 1) * (n[3] + 1) * 2 + 64);
    double *a = calloc(room, 8), *b = calloc(room, 8), *y = calloc(room, 8);
    for (size_t i = 0; i < room; i++) {
        put(a, dtype, i, (float)((int)(i * 31 % 7) - (dtype == KILN_U8 ? 0 : 3)));
        put(b, dtype, i, (float)((int)(i * 17 % 5) - (dtype == KILN_U8 ? 0 : 2)));
    }
    start("matmul", cls, 4, n, 1);
    l.extent[0] = n[2], l.extent[1] = n[1], l.extent[2] = n[0];
    kiln_dtype to = dtype == KILN_I8 || dtype == KILN_U8 ? KILN_I32 : dtype;
    operand(0, a, dtype, S(sa[0], sa[1], 0, sa[2]));
    operand(1, b, dtype, S(sb[0], 0, sb[2], sb[1]));
    operand(2, y, to, S(so[0], so[1], so[2], 0));
    run();
    for (int64_t i = 0; i < n[0]; i++)
        for (int64_t r = 0; r < n[1]; r++)
            for (int64_t c = 0; c < n[2]; c++) {
                float want = 0;
                for (int64_t k = 0; k < n[3]; k++)
                    want += get(a, dtype, (size_t)(i * sa[0] + r * sa[1] + k * sa[2])) *
                            get(b, dtype, (size_t)(i * sb[0] + k * sb[1] + c * sb[2]));
                float got = get(y, to, (size_t)(i * so[0] + r * so[1] + c * so[2]));
                if (got != want)
                    fail_msg("%s %dx%dx%d batch %d: [%d,%d] is %g, not %g", dtype_name(dtype), (int)n[1], (int)n[2],
                             (int)n[3], (int)i, (int)r, (int)c, (double)got, (double)want);
            }
    free(a), free(b), free(y);
}

static void matmul_layouts(void **state)
{
    static const struct {
        enum scalar_class cls;
        kiln_dtype dtype;
    } types[] = {{CLASS_F32, KILN_F32}, {CLASS_F64, KILN_F64}, {CLASS_F32, KILN_F16}, {CLASS_F32, KILN_BF16},
                 {CLASS_I32, KILN_I32}, {CLASS_I64, KILN_I64}, {CLASS_I32, KILN_I8},  {CLASS_I32, KILN_U8}};
    static const int64_t sizes[][4] = {{1, 5, 6, 7}, {3, 1, 9, 4}, {3, 9, 1, 4},
                                       {2, 4, 4, 1}, {1, 1, 1, 9}, {4, 33, 18, 40}};
    for (size_t t = 0; t < COUNT_OF(types); t++)
        for (size_t s = 0; s < COUNT_OF(sizes); s++) {
            const int64_t *n = sizes[s], M = n[1], N = n[2], K = n[3];
            const int64_t a[][3] = {{M * K, K, 1}, {M * K, 1, M}, {0, K, 1}, {2 * M * K, 2 * K, 2}};
            const int64_t b[][3] = {{K * N, N, 1}, {K * N, 1, K}, {0, N, 1}, {0, 1, K}};
            const int64_t y[][3] = {{M * N, N, 1}, {M * N, 1, M}, {2 * M * N, 2 * N, 2}};
            for (size_t i = 0; i < COUNT_OF(a); i++)
                for (size_t j = 0; j < COUNT_OF(b); j++)
                    for (size_t o = 0; o < COUNT_OF(y); o++)
                        check_matmul(types[t].cls, types[t].dtype, n, a[i], b[j], y[o]);
        }
}

static void matmul_large(void **state)
{
    enum { N = 260 };
    check_matmul(CLASS_F32, KILN_F32, S(1, N, N, N), S(N * N, N, 1), S(N * N, N, 1), S(N * N, N, 1));
    check_matmul(CLASS_I32, KILN_I32, S(1, N, N, N), S(N * N, N, 1), S(N * N, 1, N), S(N * N, N, 1));
}

static kiln_status fails_late(void *user, int64_t begin, int64_t end)
{
    return end == 1000 ? error_set(KILN_E_UNSUPPORTED, "unit %d", 999) : KILN_OK;
}

static kiln_status adds_up(void *user, int64_t begin, int64_t end)
{
    __atomic_fetch_add((int64_t *)user, end - begin, __ATOMIC_RELAXED);
    return KILN_OK;
}

// OpenBLAS takes a processor newer than itself for one without AVX, at a quarter of the speed.
static void blas_knows_the_processor(void **state)
{
#if defined(__x86_64__)
    static const char *const old[] = {"Prescott", "Core2", "Nehalem", "Generic"};
    const struct cpu_blas *blas = cpu_blas();
    if (!blas->found || getenv("OPENBLAS_CORETYPE") || !__builtin_cpu_supports("avx2")) skip();
    for (size_t i = 0; i < COUNT_OF(old); i++)
        if (strstr(blas->name, old[i])) fail_msg("the products run on %s", blas->name);
    assert_null(getenv("OPENBLAS_CORETYPE"));
#else
    skip();
#endif
}

static void threads(void **state)
{
    int before = omp_get_max_threads();
    int64_t sum = 0;
    omp_set_num_threads(3);
    assert_int_equal(cpu_parallel(1000, 1 << 20, adds_up, &sum), KILN_OK);
    assert_int_equal(sum, 1000);
    assert_int_equal(cpu_parallel(1000, 1 << 20, fails_late, NULL), KILN_E_UNSUPPORTED);
    assert_int_equal(kiln_error(), KILN_E_UNSUPPORTED);
    assert_non_null(strstr(kiln_error_message(), "unit 999"));
    kiln_error_clear();
    omp_set_num_threads(before);
}

// Few images of many channels: bands of rows, and outputs of a band, go to different threads.
static void convolution_on_any_threads(void **state)
{
    static const int64_t cases[][4] = {
        {40, 9, 9, 300}, {24, 30, 31, 20}, {33, 14, 13, 70}, {61, 11, 9, 45}}; // c, h, w, o
    int before = omp_get_max_threads();
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        const int64_t *n = cases[k];
        kiln_scope *scope = kiln_scope_begin();
        size_t size_B = sizeof(float) * (size_t)(n[3] * n[1] * n[2]);
        float *x = numbers((size_t)(n[0] * n[1] * n[2])), *w = numbers((size_t)(n[3] * n[0] * 9));
        float *first = malloc(size_B), *again = malloc(size_B);
        for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) x[i] = sinf((float)i);
        for (int64_t i = 0; i < n[3] * n[0] * 9; i++) w[i] = cosf((float)i * 0.7f);
        kiln_tensor *tx = kiln_from_data(dev, KILN_F32, KILN_SHAPE(1, n[0], n[1], n[2]), x);
        kiln_tensor *tw = kiln_from_data(dev, KILN_F32, KILN_SHAPE(n[3], n[0], 3, 3), w);
        for (int t = 1; t <= 5; t++) {
            omp_set_num_threads(t);
            kiln_tensor *y = kiln_conv2d(tx, tw, KILN_CONV2D(.padding = {1, 1}));
            assert_int_equal(kiln_read(y, t == 1 ? first : again, size_B), KILN_OK);
            if (t > 1) assert_memory_equal(again, first, size_B);
        }
        free(x), free(w), free(first), free(again);
        kiln_scope_end(&scope);
    }
    omp_set_num_threads(before);
}

static void null_device_checks(void **state)
{
    kiln_device *null = kiln_device_open("null");
    assert_non_null(null);
    struct block block;
    assert_int_equal(device_alloc(null, 4096, &block), KILN_OK);
    start("add", CLASS_F32, 1, S(16), 0);
    for (int i = 0; i < 3; i++) {
        operand(i, (void *)(uintptr_t)block.address, KILN_F32, S(1));
        l.operands[i].range_hi_B = 64;
    }
    assert_int_equal(device_launch(null, &l), KILN_OK);
    float back[4] = {1, 2, 3, 4};
    assert_int_equal(device_download(null, back, block.address, sizeof back), KILN_OK);
    for (int i = 0; i < 4; i++) assert_true(back[i] == 0);
    l.sizes[0] = 17; // the strides now reach beyond the declared range
    assert_int_equal(device_launch(null, &l), KILN_E_INTERNAL);
    kiln_error_clear();
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_get_stats(null, &stats);
    assert_true(stats.launches >= 1);
    device_release(null, &block);
    kiln_device_close(&null);
}

// A kernel that leaves registers of MMX in use makes NaN of the next long double.
static void long_doubles(void **state)
{
    static const kiln_dtype dtypes[] = {KILN_BOOL, KILN_I8, KILN_I32, KILN_I64, KILN_F32, KILN_F64};
    volatile long double one = 1;
    int32_t x[600];
    for (int i = 0; i < 600; i++) x[i] = i * 7 % 599;
    kiln_scope *scope = kiln_scope_begin();
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        kiln_tensor *t = kiln_cast(kiln_from_data(dev, KILN_I32, KILN_SHAPE(2, 300), x), dtypes[i]);
        kiln_tensor *most = kiln_argmax(t, KILN_REDUCE(.axes = KILN_AXES(1))),
                    *fewest = kiln_argmin(t, KILN_REDUCE(.axes = KILN_AXES(1)));
        assert_non_null(most);
        assert_non_null(fewest);
        assert_true(one + one == 2);
    }
    kiln_scope_end(&scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_doubles),
        cmocka_unit_test(small_pointwise),
        cmocka_unit_test(long_pointwise_in_place),
        cmocka_unit_test(pointwise_layouts),
        cmocka_unit_test(copies),
        cmocka_unit_test(short_inner_dimension),
        cmocka_unit_test(every_dtype),
        cmocka_unit_test(stores_wrap_and_round),
        cmocka_unit_test(broadcast_zero_size),
        cmocka_unit_test(sums),
        cmocka_unit_test(long_sum_is_accurate),
        cmocka_unit_test(empty_rows),
        cmocka_unit_test(extremes),
        cmocka_unit_test(softmax_all_forms),
        cmocka_unit_test(matmul_layouts),
        cmocka_unit_test(matmul_large),
        cmocka_unit_test(blas_knows_the_processor),
        cmocka_unit_test(threads),
        cmocka_unit_test(convolution_on_any_threads),
        cmocka_unit_test(null_device_checks),
    };
    if (lacks_instructions()) return TEST_SKIPPED;
    return cmocka_run_group_tests(tests, open_device, close_device);
}
