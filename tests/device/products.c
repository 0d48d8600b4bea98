// Products of matrices on the CPU against sums in f64: sizes around those of tiles and blocks, every layout and dtype
// of the operands, bits on any number of threads; for the instruction set that KILN_CPU_ISA names, with or without the
// library that KILN_BLAS names.
#include "base/float16.h"
#include "cpu/parallel.h"
#include "device/device.h"
#include "scalar/scalar.h"
#include "device/cpu_fixture.h"

#include <math.h>
#include <omp.h>

static double get(const void *p, kiln_dtype dtype, int64_t i)
{
    switch (dtype) {
    case KILN_F64: return ((const double *)p)[i];
    case KILN_F16: return (double)f16_to_float(((const uint16_t *)p)[i]);
    case KILN_BF16: return (double)bf16_to_float(((const uint16_t *)p)[i]);
    default: return (double)((const float *)p)[i];
    }
}

static void put(void *p, kiln_dtype dtype, int64_t i, double v)
{
    switch (dtype) {
    case KILN_F64: ((double *)p)[i] = v; break;
    case KILN_F16: ((uint16_t *)p)[i] = f16_from_float((float)v); break;
    case KILN_BF16: ((uint16_t *)p)[i] = bf16_from_float((float)v); break;
    default: ((float *)p)[i] = (float)v; break;
    }
}

enum lay { ROWS, COLUMNS, STEPPED, REVERSED, LAYOUTS };

struct side {
    void *memory;
    kiln_dtype dtype;
    int64_t room, offset, strides[2];
};

// Between rows, or columns, lie elements that belong to nobody.
static struct side side(int64_t rows, int64_t cols, kiln_dtype dtype, enum lay layout)
{
    struct side s = {.dtype = dtype};
    int64_t strides[LAYOUTS][2] = {{cols + 3, 1}, {1, rows + 1}, {2 * cols + 5, 2}, {-(cols + 2), -1}};
    memcpy(s.strides, strides[layout], sizeof s.strides);
    s.room = 2 * (rows + 2) * (cols + 6) + 64;
    s.offset = layout == REVERSED ? (rows + 1) * (cols + 2) : 0;
    s.memory = malloc((size_t)s.room * 8);
    assert_non_null(s.memory);
    for (int64_t i = 0; i < s.room; i++) put(s.memory, dtype, i, (double)((i * 7919 + 13) % 257 - 128) / 100);
    return s;
}

static double at(const struct side *s, int64_t i, int64_t j)
{
    return get(s->memory, s->dtype, s->offset + i * s->strides[0] + j * s->strides[1]);
}

static void operand(struct launch *l, int i, const struct side *s, const int64_t *strides)
{
    struct launch_operand *o = &l->operands[i];
    o->address = (uint64_t)(uintptr_t)s->memory + (uint64_t)(s->offset * dtype_size_B[s->dtype]);
    o->dtype = (uint8_t)s->dtype;
    o->flags = i == 2 ? OPERAND_WRITE : 0;
    for (int d = 0; d < l->rank; d++) o->strides[d] = strides[d];
}

// `batch` of them, so many elements apart.
static void multiply_many(const struct side *a, const struct side *b, const struct side *out, int64_t m, int64_t n,
                          int64_t k, int64_t batch, const int64_t *steps)
{
    enum scalar_class cls = a->dtype == KILN_F64 ? CLASS_F64 : CLASS_F32;
    struct launch l = {.op = "matmul", .rank = 4, .n_reduce = 1, .n_operands = 3, .sizes = {batch, m, n, k}};
    l.extent[0] = n, l.extent[1] = m, l.extent[2] = batch;
    for (int i = 0; i < kernel_count; i++)
        if (kernel_catalogue[i].kind != KERNEL_NONE && kernel_catalogue[i].cls == cls &&
            !strcmp(kernel_catalogue[i].name, "matmul"))
            l.kernel = (kernel_id)i;
    operand(&l, 0, a, (int64_t[]){steps[0], a->strides[0], 0, a->strides[1]});
    operand(&l, 1, b, (int64_t[]){steps[1], 0, b->strides[1], b->strides[0]});
    operand(&l, 2, out, (int64_t[]){steps[2], out->strides[0], out->strides[1], 0});
    if (device_launch(dev, &l)) fail_msg("%s", kiln_error_message());
}

static void multiply(const struct side *a, const struct side *b, const struct side *out, int64_t m, int64_t n,
                     int64_t k)
{
    multiply_many(a, b, out, m, n, k, 1, (const int64_t[]){0, 0, 0});
}

// Sums of k products in any order are off by at most k roundings of the sum of magnitudes, the result by one more.
static double most_off(double magnitudes, double want, int64_t k, enum scalar_class cls, kiln_dtype to)
{
    double sum = ldexp(1, cls == CLASS_F64 ? -53 : -24), result = ldexp(1, to == KILN_F16    ? -11
                                                                           : to == KILN_BF16 ? -8
                                                                                             : -24);
    return (double)(k + 2) * sum * magnitudes + (to == KILN_F64 ? 0 : result * fabs(want)) + 1e-7;
}

static void check(int64_t m, int64_t n, int64_t k, const kiln_dtype *dtypes, const int *layouts)
{
    struct side a = side(m, k, dtypes[0], layouts[0]), b = side(k, n, dtypes[1], layouts[1]);
    struct side out = side(m, n, dtypes[2], layouts[2]);
    size_t out_B = (size_t)out.room * (size_t)dtype_size_B[out.dtype];
    for (int64_t i = 0; i < out.room; i++) put(out.memory, out.dtype, i, (double)NAN);
    char *poison = malloc(out_B), *first = malloc(out_B);
    memcpy(poison, out.memory, out_B);
    multiply(&a, &b, &out, m, n, k);
    memcpy(first, out.memory, out_B);
    bool own = getenv("KILN_BLAS") && !strcmp(getenv("KILN_BLAS"), "none"); // the library's may be shared otherwise
    for (int threads = 1; own && threads <= 5; threads += 2) {
        int before = omp_get_max_threads();
        memcpy(out.memory, poison, out_B);
        omp_set_num_threads(threads);
        multiply(&a, &b, &out, m, n, k);
        omp_set_num_threads(before);
        if (memcmp(out.memory, first, out_B))
            fail_msg("%dx%dx%d: other bits with %d threads", (int)m, (int)n, (int)k, threads);
    }
    enum scalar_class cls = a.dtype == KILN_F64 ? CLASS_F64 : CLASS_F32;
    int64_t every = m * n * k > 1 << 21 ? 37 : 1;
    for (int64_t e = 0; e < m * n; e += every) {
        int64_t i = e / n, j = e % n;
        double want = 0, magnitudes = 0;
        for (int64_t q = 0; q < k; q++) {
            double term = at(&a, i, q) * at(&b, q, j);
            want += term, magnitudes += fabs(term);
        }
        double got = at(&out, i, j);
        if (!(fabs(got - want) <= most_off(magnitudes, want, k, cls, out.dtype)))
            fail_msg("%dx%dx%d %s %s %s, layouts %d %d %d: [%d,%d] is %g, not %g", (int)m, (int)n, (int)k,
                     dtype_name(a.dtype), dtype_name(b.dtype), dtype_name(out.dtype), layouts[0], layouts[1],
                     layouts[2], (int)i, (int)j, got, want);
    }
    // What belongs to nobody is as it was.
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t size = (int64_t)dtype_size_B[out.dtype];
            int64_t e = (out.offset + i * out.strides[0] + j * out.strides[1]) * size;
            memcpy((char *)out.memory + e, poison + e, (size_t)size);
        }
    assert_memory_equal(out.memory, poison, out_B);
    free(a.memory), free(b.memory), free(out.memory), free(poison), free(first);
}

static const kiln_dtype dtypes[][3] = {
    {KILN_F32, KILN_F32, KILN_F32},   {KILN_F64, KILN_F64, KILN_F64}, {KILN_BF16, KILN_BF16, KILN_BF16},
    {KILN_BF16, KILN_BF16, KILN_F32}, {KILN_F16, KILN_F16, KILN_F16}, {KILN_F32, KILN_BF16, KILN_F32},
    {KILN_F16, KILN_BF16, KILN_BF16},
};

static void every_size(void **state)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 6, 7, 8, 11, 12, 13, 16, 17, 31, 32, 33, 65, 97};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (size_t j = 0; j < COUNT_OF(sizes); j++) {
            size_t t = (i * 5 + j) % COUNT_OF(dtypes);
            int layouts[] = {(int)(i + j) % LAYOUTS, (int)(i / 2 + j / 3) % LAYOUTS, (int)(j / 2) % LAYOUTS};
            check(sizes[i], sizes[j], sizes[(i * 7 + j * 3) % COUNT_OF(sizes)], dtypes[t], layouts);
        }
}

static void every_layout(void **state)
{
    for (size_t t = 0; t < COUNT_OF(dtypes); t++)
        for (int layout = 0; layout < LAYOUTS * LAYOUTS * LAYOUTS; layout++) {
            int layouts[] = {layout % LAYOUTS, layout / LAYOUTS % LAYOUTS, layout / LAYOUTS / LAYOUTS};
            check(27, 41, 19, dtypes[t], layouts);
        }
}

// Pairs of bf16 have tiles of their own, of up to 32 rows and columns, and 32 positions at once.
static void every_size_of_pairs(void **state)
{
    static const int64_t sizes[] = {15, 16, 17, 31, 32, 33, 49, 64, 65}, positions[] = {30, 31, 32, 33, 64, 95};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (size_t j = 0; j < COUNT_OF(sizes); j++)
            for (size_t q = 0; q < COUNT_OF(positions); q++) {
                int layouts[] = {(int)(i + j + q) % LAYOUTS, (int)(i + q) % LAYOUTS, (int)j % LAYOUTS};
                check(sizes[i], sizes[j], positions[q], dtypes[2 + (i + j) % 2], layouts);
            }
}

// More rows, columns and positions than a block has, in odd numbers; k in several chunks, and with none; factors whose
// positions are spread so far that they are packed; columns that few vectors would hold.
static void blocks(void **state)
{
    static const int64_t sizes[][3] = {
        {145, 65, 513},   {293, 35, 1029}, {17, 2053, 67}, {13, 1, 70001}, {37, 45, 33001}, {129, 1057, 601},
        {5, 7, 0},        {1, 1031, 1100}, {2, 2050, 600}, {7, 131, 517},  {1500, 3, 700},  {19, 7, 9001},
        {0, 5, 7},        {5, 0, 7},       {401, 33, 2},   {64, 65, 1100}, {101, 131, 701}, {103, 130, 703},
        {259, 291, 2091}, {353, 65, 401},  {259, 50, 700}};
    for (size_t s = 0; s < COUNT_OF(sizes); s++)
        for (size_t t = 0; t < COUNT_OF(dtypes); t += s % 3 ? 1 : 2) {
            if (sizes[s][0] * sizes[s][1] * sizes[s][2] > 20000000 && t != s % COUNT_OF(dtypes) && t != 2) continue;
            int layouts[] = {(int)(s + t) % 2, (int)(s + t) / 2 % 2, s == 4 && t < 2 ? STEPPED : ROWS};
            check(sizes[s][0], sizes[s][1], sizes[s][2], dtypes[t], layouts);
        }
}

// Small products in series, of operands side by side, in one row after the other, or the same for all.
static void check_many(int64_t m, int64_t n, int64_t k, const kiln_dtype *types, const int *layouts)
{
    enum { BATCH = 7 };
    for (int how = 0; how < 3; how++) {
        struct side a = side(m, k * BATCH, types[0], layouts[0]), b = side(k * BATCH, n, types[1], layouts[1]);
        struct side out = side(m * BATCH, n, types[2], layouts[2]);
        const int64_t steps[] = {k * a.strides[1], how == 1 ? 0 : k * b.strides[0], m * out.strides[0]};
        if (how == 2) omp_set_num_threads(3);
        for (int64_t i = 0; i < out.room; i++) put(out.memory, out.dtype, i, (double)NAN);
        multiply_many(&a, &b, &out, m, n, k, BATCH, steps);
        omp_set_num_threads(2);
        for (int64_t e = 0; e < BATCH * m * n; e++) {
            int64_t i = e / n, j = e % n, batch = i / m;
            double want = 0, magnitudes = 0;
            for (int64_t q = 0; q < k; q++) {
                double term = at(&a, i % m, batch * k + q) * at(&b, how == 1 ? q : batch * k + q, j);
                want += term, magnitudes += fabs(term);
            }
            double got = at(&out, i, j);
            enum scalar_class cls = a.dtype == KILN_F64 ? CLASS_F64 : CLASS_F32;
            if (!(fabs(got - want) <= most_off(magnitudes, want, k, cls, out.dtype)))
                fail_msg("%d of %dx%dx%d %s, layouts %d %d %d, way %d: [%d,%d] is %g, not %g", BATCH, (int)m, (int)n,
                         (int)k, dtype_name(a.dtype), layouts[0], layouts[1], layouts[2], how, (int)i, (int)j, got,
                         want);
        }
        free(a.memory), free(b.memory), free(out.memory);
    }
}

static void many_small_ones(void **state)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {8, 8, 8},   {16, 16, 16},  {13, 33, 7}, {48, 128, 64},
                                       {49, 17, 20}, {3, 129, 5}, {25, 40, 256}, {5, 3, 2},   {32, 1, 9}};
    for (size_t s = 0; s < COUNT_OF(sizes); s++)
        for (size_t t = 0; t < COUNT_OF(dtypes); t++) {
            int layouts[] = {(int)(s + t) % LAYOUTS, (int)(s / 2 + t) % LAYOUTS, (int)(s + t / 2) % 2};
            check_many(sizes[s][0], sizes[s][1], sizes[s][2], dtypes[t], layouts);
        }
}

// One to a few rows with columns that lie along k: packed where they are short, read as they lie where they are long.
static void few_rows_and_columns(void **state)
{
    static const int64_t sizes[][3] = {{1, 128, 128}, {1, 31, 63},  {1, 33, 64},   {2, 5, 65},    {3, 127, 64},
                                       {3, 3, 256},   {4, 64, 64},  {2, 1, 97},    {1, 4, 130},   {1, 7, 32},
                                       {1, 34, 35},   {1, 9, 1023}, {1, 10, 1024}, {1, 11, 1025}, {1, 6, 1}};
    for (size_t s = 0; s < COUNT_OF(sizes); s++)
        for (size_t t = 0; t < COUNT_OF(dtypes); t++) {
            int layouts[] = {ROWS, COLUMNS, (int)(s + t) % 2};
            check(sizes[s][0], sizes[s][1], sizes[s][2], dtypes[t], layouts);
            check_many(sizes[s][0], sizes[s][1], sizes[s][2], dtypes[t], layouts);
        }
}

// Rows that are further apart than a page, as in a piece of a large matrix.
static void check_huge_strides(int n)
{
    enum { M = 29, K = 41, FAR = 1 << 16 };
    float *a = calloc(M, FAR * sizeof *a), *b = calloc(K, FAR * sizeof *b), *y = calloc(M, FAR * sizeof *y);
    for (int i = 0; i < M; i++)
        for (int q = 0; q < K; q++) a[i * FAR + q] = (float)((i * 3 + q) % 7 - 3);
    for (int q = 0; q < K; q++)
        for (int j = 0; j < n; j++) b[q * FAR + j] = (float)((q * 5 + j) % 9 - 4);
    struct side sa = {a, KILN_F32, 0, 0, {FAR, 1}}, sb = {b, KILN_F32, 0, 0, {FAR, 1}};
    struct side out = {y, KILN_F32, 0, 0, {FAR, 1}};
    multiply(&sa, &sb, &out, M, n, K);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < n; j++) {
            float want = 0;
            for (int q = 0; q < K; q++) want += a[i * FAR + q] * b[q * FAR + j];
            assert_true(y[i * FAR + j] == want);
        }
    free(a), free(b), free(y);
}

static void huge_strides(void **state)
{
    check_huge_strides(35);
    check_huge_strides(195);
}

// NaN and infinity stay in the rows and columns that they belong to, whatever is packed beside them.
static void no_numbers(void **state)
{
    for (size_t t = 0; t < COUNT_OF(dtypes); t++) {
        enum { M = 25, N = 37, K = 23 };
        struct side a = side(M, K, dtypes[t][0], ROWS), b = side(K, N, dtypes[t][1], ROWS);
        struct side out = side(M, N, dtypes[t][2], ROWS);
        for (int64_t i = 0; i < M; i++)
            for (int64_t q = 0; q < K; q++) put(a.memory, a.dtype, i * a.strides[0] + q, 1);
        for (int64_t i = 0; i < K; i++)
            for (int64_t j = 0; j < N; j++) put(b.memory, b.dtype, i * b.strides[0] + j, 1);
        put(a.memory, a.dtype, 3 * a.strides[0] + K - 1, (double)NAN);
        put(a.memory, a.dtype, 5 * a.strides[0] + K, (double)NAN); // behind the end
        put(b.memory, b.dtype, (K - 1) * b.strides[0] + N - 1, (double)INFINITY);
        put(b.memory, b.dtype, 2 * b.strides[0] + N, (double)NAN);
        multiply(&a, &b, &out, M, N, K);
        for (int64_t i = 0; i < M; i++)
            for (int64_t j = 0; j < N; j++) {
                double got = at(&out, i, j);
                if (i == 3)
                    assert_true(isnan(got));
                else if (j == N - 1)
                    assert_true(isinf(got) && got > 0);
                else
                    assert_true(got == K);
            }
        free(a.memory), free(b.memory), free(out.memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size),   cmocka_unit_test(every_size_of_pairs), cmocka_unit_test(every_layout),
        cmocka_unit_test(blocks),       cmocka_unit_test(many_small_ones),     cmocka_unit_test(few_rows_and_columns),
        cmocka_unit_test(huge_strides), cmocka_unit_test(no_numbers),
    };
    if (lacks_instructions()) return TEST_SKIPPED;
    return cmocka_run_group_tests(tests, open_device, close_device);
}
