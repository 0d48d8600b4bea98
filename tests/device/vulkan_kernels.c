// The generated and hand-written shaders: every storage dtype, layout and form against plain C.
#include "vulkan/form.h"
#include <kiln/kiln.h>
#include "vulkan_fixture.h"

// --- storage dtypes

static const kiln_dtype all_dtypes[] = {KILN_BOOL, KILN_U8,  KILN_I8,   KILN_I16, KILN_I32,
                                        KILN_I64,  KILN_F16, KILN_BF16, KILN_F32, KILN_F64};

static int64_t saturate(double x, double low, double high, int64_t lowest, int64_t highest)
{
    if (isnan(x)) return 0;
    return x <= low ? lowest : x >= high ? highest : (int64_t)x;
}

static void store_number(kiln_dtype dtype, void *at, double x)
{
    float f = (float)x;
    uint16_t h;
    switch (dtype) {
    case KILN_BOOL: *(uint8_t *)at = x != 0; break;
    case KILN_U8: *(uint8_t *)at = (uint8_t)saturate(x, 0, 255, 0, 255); break;
    case KILN_I8: *(int8_t *)at = (int8_t)saturate(x, -128, 127, -128, 127); break;
    case KILN_I16: *(int16_t *)at = (int16_t)saturate(x, -32768, 32767, -32768, 32767); break;
    case KILN_I32: *(int32_t *)at = (int32_t)saturate(x, INT32_MIN, INT32_MAX, INT32_MIN, INT32_MAX); break;
    case KILN_I64: *(int64_t *)at = saturate(x, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX); break;
    case KILN_F16:
        h = f16_from_float(f);
        memcpy(at, &h, 2);
        break;
    case KILN_BF16:
        h = bf16_from_float(f);
        memcpy(at, &h, 2);
        break;
    case KILN_F32: memcpy(at, &f, 4); break;
    default: memcpy(at, &x, 8); break;
    }
}

static double load_number(kiln_dtype dtype, const void *at)
{
    float f;
    double d;
    uint16_t h;
    memcpy(&h, at, dtype_size_B[dtype] == 2 ? 2 : 1);
    switch (dtype) {
    case KILN_BOOL:
    case KILN_U8: return *(const uint8_t *)at;
    case KILN_I8: return *(const int8_t *)at;
    case KILN_I16: return *(const int16_t *)at;
    case KILN_I32: return *(const int32_t *)at;
    case KILN_I64: return (double)*(const int64_t *)at;
    case KILN_F16: return (double)f16_to_float(h);
    case KILN_BF16: return (double)bf16_to_float(h);
    case KILN_F32: memcpy(&f, at, 4); return (double)f;
    default: memcpy(&d, at, 8); return d;
    }
}

static const double specials[] = {0,
                                  -0.0,
                                  1,
                                  -1,
                                  0.5,
                                  1.5,
                                  2.5,
                                  -2.5,
                                  127,
                                  128,
                                  129,
                                  -128,
                                  -129,
                                  255,
                                  256,
                                  257,
                                  32767,
                                  32768,
                                  -32768,
                                  -32769,
                                  65503,
                                  65504,
                                  65519,
                                  65520,
                                  65536,
                                  1e5,
                                  -1e5,
                                  0x1p-14,
                                  0x1p-24,
                                  0x1p-25,
                                  0x1.8p-25,
                                  0x1p-26,
                                  5.96e-8,
                                  6.1e-5,
                                  -3e-6,
                                  0x1p31,
                                  -0x1p31,
                                  2147483647,
                                  0x1p32,
                                  0x1p62,
                                  0x1p63,
                                  -0x1p63,
                                  -0x1.8p63,
                                  3e38,
                                  -3e38,
                                  0x1p-126,
                                  0x1p-149,
                                  0x1.00fp0,
                                  0x1.01p0,
                                  0x1.03p0,
                                  0x1.018p0,
                                  1e-3,
                                  HUGE_VAL,
                                  -HUGE_VAL,
                                  NAN,
                                  300.7,
                                  -300.7,
                                  77.25,
                                  1e9,
                                  16777217,
                                  9007199254740993.0};

static void fill_numbers(kiln_dtype dtype, uint8_t *at, int n)
{
    for (int i = 0; i < n; i++) {
        double x = i < (int)COUNT_OF(specials) ? specials[i] : (double)noise((uint32_t)i) * pow(10, i % 13 - 4);
        store_number(dtype, at + (size_t)i * dtype_size_B[dtype], x);
    }
}

static bool same_number(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

// `vector`: dense and aligned, four at a time; else with a step of 3 in the input.
static void check_conversion(enum scalar_class cls, kiln_dtype from, kiln_dtype to, bool vector)
{
    enum { N = 2051 };
    int64_t n = N, in_stride = vector ? 1 : 3;
    uint8_t *in = calloc(3 * N, 8), *dense = calloc(N, 8), *out = calloc(N, 8);
    fill_numbers(from, dense, N);
    size_t from_B = dtype_size_B[from], to_B = dtype_size_B[to];
    for (int i = 0; i < N; i++) memcpy(in + (size_t)i * (size_t)in_stride * from_B, dense + (size_t)i * from_B, from_B);
    struct block a = block_new((size_t)in_stride * N * from_B, in), b = block_new(N * to_B, out);
    struct launch l = launch_new("convert", cls, 1, &n);
    add_operand(&l, &a, from, 0, &in_stride, false);
    add_operand(&l, &b, to, 0, (const int64_t[]){1}, true);
    assert_true(dev->ops->supports(dev, &l));
    assert_ok(dev->ops->launch(dev, &l));
    assert_ok(device_download(dev, out, b.address, N * to_B));
    for (int i = 0; i < N; i++) {
        uint8_t expected[8] = {0};
        double x = load_number(from, dense + (size_t)i * from_B);
        if (cls == CLASS_F32) x = (double)(float)x;
        store_number(to, expected, x);
        double want = load_number(to, expected), got = load_number(to, out + (size_t)i * to_B);
        if (!same_number(want, got)) {
            fail_msg("class %s, %s to %s, element %d: %a becomes %a, not %a", scalar_class_name(cls), dtype_name(from),
                     dtype_name(to), i, x, got, want);
        }
    }
    device_release(dev, &a);
    device_release(dev, &b);
    free(in);
    free(dense);
    free(out);
}

static void floats_load_and_store_every_dtype(void **state)
{
    for (size_t i = 0; i < COUNT_OF(all_dtypes); i++) {
        for (size_t j = 0; j < COUNT_OF(all_dtypes); j++) {
            bool f64 = all_dtypes[i] == KILN_F64 || all_dtypes[j] == KILN_F64;
            // A driver may cancel int to float to int, so that class f32 keeps more than 24 bits; such copies never run
            // in it.
            bool long_integers = (all_dtypes[i] == KILN_I32 || all_dtypes[i] == KILN_I64) &&
                                 (all_dtypes[j] == KILN_I32 || all_dtypes[j] == KILN_I64);
            if (!f64 && !long_integers) check_conversion(CLASS_F32, all_dtypes[i], all_dtypes[j], (i + j) % 2);
            check_conversion(CLASS_F64, all_dtypes[i], all_dtypes[j], (i + j + 1) % 2);
        }
    }
}

// Between integers the low bits stay.
static void integers_wrap(void **state)
{
    static const kiln_dtype types[] = {KILN_U8, KILN_I8, KILN_I16, KILN_I32, KILN_I64};
    static const int64_t values[] = {0,
                                     1,
                                     -1,
                                     127,
                                     128,
                                     255,
                                     256,
                                     -129,
                                     32768,
                                     65535,
                                     70000,
                                     INT32_MAX,
                                     INT32_MIN,
                                     INT64_C(1) << 40,
                                     INT64_MIN,
                                     INT64_MAX,
                                     -INT64_C(1234567890123)};
    int64_t n = COUNT_OF(values);
    for (int c = 0; c < 2; c++) {
        for (size_t i = 0; i < COUNT_OF(types); i++) {
            for (size_t j = 0; j < COUNT_OF(types); j++) {
                size_t from_B = dtype_size_B[types[i]], to_B = dtype_size_B[types[j]];
                uint8_t in[8 * COUNT_OF(values)], out[8 * COUNT_OF(values)];
                for (int64_t k = 0; k < n; k++) memcpy(in + (size_t)k * from_B, &values[k], from_B);
                struct block a = block_new((size_t)n * from_B, in), b = block_new((size_t)n * to_B, NULL);
                struct launch l = launch_new("convert", c ? CLASS_I64 : CLASS_I32, 1, &n);
                add_operand(&l, &a, types[i], 0, (const int64_t[]){1}, false);
                add_operand(&l, &b, types[j], 0, (const int64_t[]){1}, true);
                assert_ok(dev->ops->launch(dev, &l));
                assert_ok(device_download(dev, out, b.address, (size_t)n * to_B));
                for (int64_t k = 0; k < n; k++) {
                    int64_t wide = (int64_t)load_number(types[i], in + (size_t)k * from_B);
                    if (types[i] == KILN_I64) wide = values[k];
                    if (!c) wide = (int32_t)(uint32_t)wide;
                    assert_memory_equal(&wide, out + (size_t)k * to_B, to_B);
                }
                device_release(dev, &a);
                device_release(dev, &b);
            }
        }
    }
}

// All 65,536 patterns of both 16-bit formats, there and back.
static void half_floats_are_exact(void **state)
{
    enum { N = 65536 };
    int64_t n = N;
    uint16_t *in = malloc(N * 2), *out = malloc(N * 2);
    float *wide = malloc(N * 4);
    static const kiln_dtype types[] = {KILN_F16, KILN_BF16};
    for (int i = 0; i < N; i++) in[i] = (uint16_t)i;
    for (size_t t = 0; t < 2; t++) {
        struct block a = block_new(N * 2, in), b = block_new(N * 4, NULL);
        for (int back = 0; back < 2; back++) {
            struct launch l = launch_new("convert", CLASS_F32, 1, &n);
            add_operand(&l, back ? &b : &a, back ? KILN_F32 : types[t], 0, (const int64_t[]){1}, false);
            add_operand(&l, back ? &a : &b, back ? types[t] : KILN_F32, 0, (const int64_t[]){1}, true);
            assert_ok(dev->ops->launch(dev, &l));
        }
        assert_ok(device_download(dev, out, a.address, N * 2));
        assert_ok(device_download(dev, wide, b.address, N * 4));
        for (int i = 0; i < N; i++) {
            float expected = t ? bf16_to_float(in[i]) : f16_to_float(in[i]);
            assert_true(same_number((double)expected, (double)wide[i]));
            if (!isnan(expected)) assert_int_equal(out[i], in[i]);
        }
        device_release(dev, &a);
        device_release(dev, &b);
    }
    free(in);
    free(out);
    free(wide);
}

static void f64_needs_class_f64(void **state)
{
    int64_t n = 4;
    struct block b = block_new(64, NULL);
    struct launch l = launch_new("add", CLASS_F32, 1, &n);
    add_operand(&l, &b, KILN_F32, 0, (const int64_t[]){1}, false);
    add_operand(&l, &b, KILN_F64, 0, (const int64_t[]){1}, false);
    add_operand(&l, &b, KILN_F32, 0, (const int64_t[]){1}, true);
    assert_false(dev->ops->supports(dev, &l));
    l.operands[1].dtype = KILN_I64;
    assert_true(dev->ops->supports(dev, &l));
    device_release(dev, &b);
}

// --- pointwise layouts

static void check_add(int rank, const int64_t *sizes, const int64_t *sa, int64_t off_a, const int64_t *sb,
                      int64_t off_b, const int64_t *so)
{
    int64_t count = 1;
    for (int d = 0; d < rank; d++) count *= sizes[d];
    size_t room = (size_t)(count > 4200 ? count : 4200) + 4000; // also for strides of some cases
    float *a = malloc(room * 4), *b = malloc(room * 4), *out = calloc(room, 4), *expected = calloc(room, 4);
    for (size_t i = 0; i < room; i++) a[i] = noise((uint32_t)i), b[i] = noise((uint32_t)i + 99999);
    struct block ba = block_new(room * 4, a), bb = block_new(room * 4, b), bo = block_new(room * 4, out);
    struct launch l = launch_new("add", CLASS_F32, rank, sizes);
    add_operand(&l, &ba, KILN_F32, off_a, sa, false);
    add_operand(&l, &bb, KILN_F32, off_b, sb, false);
    add_operand(&l, &bo, KILN_F32, 0, so, true);
    assert_ok(dev->ops->launch(dev, &l));
    assert_ok(device_download(dev, out, bo.address, room * 4));
    for (int64_t p = 0; p < count; p++) {
        int64_t rest = p, ia = off_a, ib = off_b, io = 0;
        for (int d = rank - 1; d >= 0; d--) {
            ia += rest % sizes[d] * sa[d], ib += rest % sizes[d] * sb[d], io += rest % sizes[d] * so[d];
            rest /= sizes[d];
        }
        expected[io] = a[ia] + b[ib];
    }
    assert_memory_equal(expected, out, room * 4);
    device_release(dev, &ba);
    device_release(dev, &bb);
    device_release(dev, &bo);
    free(a);
    free(b);
    free(out);
    free(expected);
}

#define I(...) ((const int64_t[]){__VA_ARGS__})

static void layouts_of_pointwise_kernels(void **state)
{
    for (int64_t n = 1; n < 3; n++) check_add(1, I(n), I(1), 0, I(1), 0, I(1));
    for (int64_t n = 4093; n < 4100; n++) check_add(1, I(n), I(1), 0, I(1), 0, I(1)); // tails of the wide form
    check_add(1, I(4000), I(1), 1, I(1), 2, I(1));                                    // not aligned
    check_add(1, I(4000), I(1), 0, I(0), 5, I(1));                                    // one operand stands still
    check_add(1, I(2500), I(-1), 2499, I(2), 0, I(3));                                // backwards, with steps
    check_add(0, NULL, NULL, 3, NULL, 4, NULL);
    check_add(2, I(33, 64), I(64, 1), 0, I(0, 1), 0, I(64, 1));  // a row is broadcast, wide
    check_add(2, I(33, 64), I(64, 1), 0, I(1, 0), 0, I(64, 1));  // a column is broadcast, wide
    check_add(2, I(33, 63), I(63, 1), 0, I(0, 1), 0, I(63, 1));  // not a multiple of 4
    check_add(2, I(33, 64), I(66, 1), 0, I(64, 1), 0, I(64, 1)); // rows lie apart, not aligned
    check_add(2, I(40, 50), I(1, 40), 0, I(50, 1), 0, I(50, 1)); // transposed
    check_add(3, I(5, 6, 7), I(42, -7, 1), 35, I(1, 5, 30), 0, I(42, 7, 1));
    check_add(6, I(2, 3, 2, 3, 2, 3), I(108, 36, 18, 6, 3, 1), 0, I(1, 2, 6, 12, 36, 72), 0, I(108, 36, 18, 6, 3, 1));
}

// As on a device that many points fill: an invocation has several fours.
static void several_fours_an_invocation(void **state)
{
    dev->caps.parallelism = 4096;
    for (int64_t n = 131071; n < 131078; n++) check_add(1, I(n), I(1), 0, I(1), 0, I(1));
    check_add(1, I(33 * 4096), I(1), 0, I(1), 0, I(1)); // whole workgroups
    check_add(1, I(140000), I(1), 4, I(0), 5, I(1));
    check_add(2, I(260, 516), I(516, 1), 0, I(0, 1), 0, I(516, 1));
    check_add(2, I(264, 512), I(512, 1), 0, I(1, 0), 0, I(512, 1));
}

static kiln_tensor *op_of_halves(int op, kiln_tensor *x, kiln_tensor *y)
{
    switch (op) {
    case 0: return kiln_add(x, y);
    case 1: return kiln_mul(x, kiln_scalar(0.75));
    case 2: return kiln_exp(x);
    case 3: return kiln_softmax(x, -1);
    case 4: return kiln_layer_norm(x, 1, NULL);
    case 5: return kiln_sum(x, KILN_REDUCE(.axes = KILN_AXES(-1)));
    default: return kiln_argmax(x, KILN_REDUCE(.axes = KILN_AXES(1)));
    }
}

// The same on the CPU. `from`: x begins so many elements into its memory. `kind`: y is as large as x, a row, a column.
static void check_halves(kiln_device *cpu, kiln_dtype dtype, int64_t rows, int64_t columns, int64_t from, int kind,
                         int op)
{
    static float got[1 << 18], want[1 << 18];
    kiln_scope *scope = kiln_scope_begin();
    const int64_t y_dims[2] = {kind == 1 ? 1 : rows, kind == 2 ? 1 : columns};
    kiln_tensor *x[2] = {kiln_normal(cpu, KILN_F32, KILN_SHAPE(rows * columns + from), 0, 1)};
    kiln_tensor *y[2] = {kiln_cast(kiln_normal(cpu, KILN_F32, 2, y_dims, 0, 1), dtype)}, *results[2];
    x[0] = kiln_cast(x[0], dtype);
    x[1] = kiln_to_device(x[0], dev), y[1] = kiln_to_device(y[0], dev);
    for (int i = 0; i < 2; i++) {
        kiln_tensor *part = kiln_reshape(kiln_narrow(x[i], 0, from, rows * columns), KILN_SHAPE(rows, columns));
        results[i] = kiln_cast(op_of_halves(op, part, y[i]), KILN_F32);
    }
    size_t n = (size_t)kiln_numel(results[0]);
    assert_in_range(n, 1, COUNT_OF(got));
    assert_ok(kiln_read(results[0], want, n * sizeof *want));
    assert_ok(kiln_read(results[1], got, n * sizeof *got));
    double close = dtype == KILN_F16 ? 0x1p-9 : 0x1p-6;
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)(got[i] - want[i])) <= close * (0.01 + fabs((double)want[i]))))
            fail_msg("op %d of %lld x %lld from %lld, y %d: element %zu is %g, not %g", op, (long long)rows,
                     (long long)columns, (long long)from, kind, i, (double)got[i], (double)want[i]);
    kiln_scope_end(&scope);
}

// As on a GPU: of elements of two bytes eight are one access, where their places allow it.
static void eights_of_halves(void **state)
{
    static const kiln_dtype dtypes[] = {KILN_F16, KILN_BF16};
    static const int64_t points[][2] = {{1, 131072}, {1, 131080}, {1, 131076}, {1, 131077}, {260, 520}, {264, 500}};
    static const int64_t rows[][2] = {{5, 2048}, {3, 4104}, {3, 4100}, {7, 1000}, {2, 100000}};
    kiln_device *cpu = kiln_device_open("cpu");
    assert_non_null(cpu);
    for (size_t t = 0; t < COUNT_OF(dtypes); t++) {
        for (int parallelism = 4096; parallelism <= 1 << 17; parallelism *= 32) {
            dev->caps.parallelism = (uint32_t)parallelism;
            for (size_t i = 0; i < COUNT_OF(points); i++)
                for (int op = 0; op < 3; op++)
                    for (int kind = 0; kind < (op ? 1 : 3); kind++)
                        check_halves(cpu, dtypes[t], points[i][0], points[i][1], i % 2 * 4, kind, op);
            check_halves(cpu, dtypes[t], 260, 520, 8, 1, 0);
            check_halves(cpu, dtypes[t], 1, 131080, 1, 0, 0);
            for (size_t i = 0; i < COUNT_OF(rows); i++)
                for (int op = 3; op < 7; op++) check_halves(cpu, dtypes[t], rows[i][0], rows[i][1], i % 3 * 4, 0, op);
        }
    }
    kiln_device_close(&cpu);
}

static void immediates_and_scalars(void **state)
{
    int64_t n = 1001;
    float *out = malloc((size_t)n * 4), x[2] = {3, 4};
    struct block b = block_new((size_t)n * 4, NULL), bx = block_new(8, x);
    for (int still = 0; still < 2; still++) {
        struct launch l = launch_new("mul", CLASS_F32, 1, &n);
        add_immediate(&l, KILN_F32, bits_f32(2.5f));
        add_operand(&l, &bx, KILN_F32, 1, (const int64_t[]){0}, false);
        add_operand(&l, &b, KILN_F32, 0, (const int64_t[]){1 - still}, true);
        if (still) l.sizes[0] = 1;
        assert_ok(dev->ops->launch(dev, &l));
    }
    assert_ok(device_download(dev, out, b.address, (size_t)n * 4));
    for (int64_t i = 0; i < n; i++) assert_true(out[i] == 10);
    struct launch l = launch_new("fill", CLASS_I64, 1, I(125));
    l.n_scalars = 1;
    l.scalars[0] = (uint64_t)-5;
    add_operand(&l, &b, KILN_I64, 0, (const int64_t[]){4}, true);
    assert_ok(dev->ops->launch(dev, &l));
    assert_ok(device_download(dev, out, b.address, (size_t)n * 4));
    for (int64_t i = 0; i < 125; i++) {
        int64_t v;
        memcpy(&v, (char *)out + 32 * i, 8);
        assert_int_equal(v, -5);
    }
    device_release(dev, &b);
    device_release(dev, &bx);
    free(out);
}

static void nothing_to_do(void **state)
{
    struct block b = block_new(64, NULL);
    kiln_device_reset_stats(dev);
    for (int rank = 1; rank < 3; rank++) {
        struct launch l = launch_new("positive", CLASS_F32, rank, I(0, 5));
        add_operand(&l, &b, KILN_F32, 0, I(1, 1), false);
        add_operand(&l, &b, KILN_F32, 0, I(1, 1), true);
        assert_ok(dev->ops->launch(dev, &l));
    }
    assert_int_equal(dev->stats.pipelines, 0);
    device_release(dev, &b);
}

// A stride of 2^62 elements of 4 bytes comes back to the same address, so that the second row is the first again.
static void strides_beyond_32_bits_are_cut_out(void **state)
{
    float x[4] = {1, 2, 3, 4}, out[8] = {0};
    struct block a = block_new(sizeof x, x), b = block_new(sizeof out, out);
    struct launch l = launch_new("positive", CLASS_F32, 2, I(2, 4));
    add_operand(&l, &a, KILN_F32, 0, I(INT64_C(1) << 62, 1), false);
    add_operand(&l, &b, KILN_F32, 0, I(4, 1), true);
    assert_ok(dev->ops->launch(dev, &l));
    assert_ok(device_download(dev, out, b.address, sizeof out));
    assert_memory_equal(x, out, 16);
    assert_memory_equal(x, out + 4, 16);
    device_release(dev, &a);
    device_release(dev, &b);
}

// --- rows

struct rows {
    const char *kernel;
    enum scalar_class cls;
    kiln_dtype in, out;
    double (*expected)(const double *x, int64_t n);
    double tolerance; // relative to the sum of magnitudes
    int n_scalars;    // each is the row's length
};

static double sum_of(const double *x, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += x[i];
    return s;
}

static double max_of(const double *x, int64_t n)
{
    double m = -HUGE_VAL;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i])) return NAN;
        if (x[i] > m) m = x[i];
    }
    return m;
}

static double argmax_of(const double *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i])) return (double)i;
        if (x[i] > x[best]) best = i;
    }
    return (double)best;
}

static double variance_of(const double *x, int64_t n)
{
    double m = sum_of(x, n) / (double)n, s = 0;
    for (int64_t i = 0; i < n; i++) s += (x[i] - m) * (x[i] - m);
    return s / (double)n;
}

static double any_of(const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (x[i] != 0) return 1;
    return 0;
}

static const struct rows row_cases[] = {
    {"reduce_sum", CLASS_F32, KILN_F32, KILN_F32, sum_of, 1e-6, 0},
    {"reduce_sum", CLASS_F32, KILN_BF16, KILN_F32, sum_of, 1e-6, 0},
    {"reduce_sum", CLASS_F64, KILN_F64, KILN_F64, sum_of, 1e-15, 0},
    {"reduce_sum", CLASS_I64, KILN_I16, KILN_I64, sum_of, 0, 0},
    {"reduce_max", CLASS_F32, KILN_F32, KILN_F32, max_of, 0, 0},
    {"reduce_max", CLASS_I32, KILN_I32, KILN_I32, max_of, 0, 0},
    {"reduce_argmax", CLASS_F32, KILN_F32, KILN_I64, argmax_of, 0, 0},
    {"reduce_argmax", CLASS_F64, KILN_F64, KILN_I64, argmax_of, 0, 0},
    {"reduce_argmax", CLASS_I32, KILN_I8, KILN_I64, argmax_of, 0, 0},
    {"reduce_var", CLASS_F32, KILN_F32, KILN_F32, variance_of, 1e-6, 2},
    {"reduce_any", CLASS_BOOL, KILN_BOOL, KILN_BOOL, any_of, 0, 0},
};

// The space is P x R with the given strides; R may be split over two dimensions (r1 > 1).
static void check_rows(const struct rows *c, int64_t p, int64_t r0, int64_t r1, const int64_t *strides, int nan_every)
{
    int64_t sizes[3] = {p, r0, r1}, reach = 1, row = r0 * r1;
    for (int d = 0; d < 3; d++) reach += (sizes[d] - 1) * strides[d];
    size_t in_B = dtype_size_B[c->in], out_B = dtype_size_B[c->out];
    uint8_t *in = calloc((size_t)reach, in_B), *out = calloc((size_t)p, out_B);
    double *x = malloc((size_t)row * sizeof *x);
    for (int64_t i = 0; i < reach; i++) {
        double v = (double)noise((uint32_t)i) * 100;
        if (c->in == KILN_BOOL) v = noise((uint32_t)i / 700) > 0.9f;
        if (nan_every && i % nan_every == nan_every - 1) v = NAN;
        store_number(c->in, in + (size_t)i * in_B, v);
    }
    struct block a = block_new((size_t)reach * in_B, in), b = block_new((size_t)p * out_B, NULL);
    struct launch l = launch_new(c->kernel, c->cls, 3, sizes);
    l.n_reduce = 2;
    l.n_scalars = (uint8_t)c->n_scalars;
    for (int i = 0; i < c->n_scalars; i++)
        l.scalars[i] = c->cls == CLASS_F64 ? bits_f64((double)row) : bits_f32((float)row);
    add_operand(&l, &a, c->in, 0, strides, false);
    add_operand(&l, &b, c->out, 0, (const int64_t[]){1, 0, 0}, true);
    assert_ok(dev->ops->launch(dev, &l));
    assert_ok(device_download(dev, out, b.address, (size_t)p * out_B));
    for (int64_t i = 0; i < p; i++) {
        double magnitude = 0;
        for (int64_t j = 0; j < row; j++) {
            x[j] = load_number(c->in, in + (size_t)(i * strides[0] + j / r1 * strides[1] + j % r1 * strides[2]) * in_B);
            magnitude += fabs(x[j]);
        }
        double want = c->expected(x, row), got = load_number(c->out, out + (size_t)i * out_B);
        bool close = fabs(want - got) <= c->tolerance * (c->n_scalars ? fabs(want) : magnitude);
        if (!same_number(want, got) && !close) {
            fail_msg("%s in %s, %lld rows of %lld x %lld, row %lld: %.9g, not %.9g", c->kernel,
                     scalar_class_name(c->cls), (long long)p, (long long)r0, (long long)r1, (long long)i, got, want);
        }
    }
    device_release(dev, &a);
    device_release(dev, &b);
    free(in);
    free(out);
    free(x);
}

static void launches_of_too_many_points_are_cut(void **state)
{
    vk_of(dev)->max_points = 100;
    check_add(1, I(1003), I(1), 0, I(1), 0, I(1));
    check_add(3, I(5, 60, 7), I(420, -7, 1), 413, I(1, 5, 300), 0, I(420, 7, 1));
    struct rows c = {"reduce_sum", CLASS_F32, KILN_F32, KILN_F32, sum_of, 1e-6, 0};
    check_rows(&c, 333, 1, 10, I(10, 0, 1), 0);
}

static void rows_in_every_form(void **state)
{
    for (size_t i = 0; i < COUNT_OF(row_cases); i++) {
        const struct rows *c = &row_cases[i];
        static const int64_t lengths[] = {1, 2, 7, 8, 9, 31, 100, 1000, 5000};
        for (size_t n = 0; n < COUNT_OF(lengths); n++)
            check_rows(c, 5, 1, lengths[n], I(lengths[n], 0, 1), 0); // row form
        check_rows(c, 300, 1, 20, I(20, 0, 1), 0);
        check_rows(c, 70, 1, 33, I(1, 0, 70), 0); // column form
        check_rows(c, 3, 1, 3000, I(1, 0, 3), 0);
        check_rows(c, 6, 4, 50, I(50, 300, 1), 0); // a row over two dimensions
        check_rows(c, 1, 10, 7, I(0, 1, 10), 0);
        if (c->in == KILN_F32 || c->in == KILN_F64) {
            check_rows(c, 9, 1, 1000, I(1000, 0, 1), 377);
            check_rows(c, 40, 1, 100, I(1, 0, 40), 377);
        }
    }
}

static void rows_in_phases(void **state)
{
    dev->caps.parallelism = 1 << 16; // as if the device were large: few long rows are split
    for (size_t i = 0; i < COUNT_OF(row_cases); i++) {
        const struct rows *c = &row_cases[i];
        struct launch l = {.kernel = find_kernel(c->kernel, c->cls)};
        const struct kernel_info *info = &kernel_catalogue[l.kernel];
        assert_true(info->n_stages >= 1 && info->n_reductions >= info->n_stages);
        assert_ok(kiln_device_synchronize(dev));
        kiln_device_reset_stats(dev);
        check_rows(c, 1, 1, 100003, I(0, 0, 1), 0);
        assert_true(dev->stats.barriers >= info->n_stages); // it was more than one launch
        check_rows(c, 3, 1, 20000, I(20000, 0, 1), 0);
        check_rows(c, 3, 1, 20000, I(1, 0, 3), 0);
        if (c->in == KILN_F32 || c->in == KILN_F64) check_rows(c, 2, 1, 50000, I(50000, 0, 1), 7777);
    }
}

static void reductions_repeat_to_the_bit(void **state)
{
    enum { N = 100000 };
    int64_t sizes[1] = {N};
    float *x = malloc(N * 4), first = 0;
    for (int i = 0; i < N; i++) x[i] = noise((uint32_t)i);
    struct block a = block_new(N * 4, x), b = block_new(4, NULL);
    dev->caps.parallelism = 1 << 16;
    for (int round = 0; round < 20; round++) {
        struct launch l = launch_new("reduce_sum", CLASS_F32, 1, sizes);
        l.n_reduce = 1;
        add_operand(&l, &a, KILN_F32, 0, I(1), false);
        add_operand(&l, &b, KILN_F32, 0, I(0), true);
        assert_ok(dev->ops->launch(dev, &l));
        float got;
        assert_ok(device_download(dev, &got, b.address, 4));
        if (round == 0) first = got;
        assert_memory_equal(&first, &got, 4);
    }
    device_release(dev, &a);
    device_release(dev, &b);
    free(x);
}

static void an_empty_row_gives_the_identity(void **state)
{
    float out[3] = {7, 7, 7};
    struct block a = block_new(16, NULL), b = block_new(sizeof out, out);
    struct launch l = launch_new("reduce_sum", CLASS_F32, 2, I(3, 0));
    l.n_reduce = 1;
    add_operand(&l, &a, KILN_F32, 0, I(0, 1), false);
    add_operand(&l, &b, KILN_F32, 0, I(1, 0), true);
    assert_ok(dev->ops->launch(dev, &l));
    assert_ok(device_download(dev, out, b.address, sizeof out));
    for (int i = 0; i < 3; i++) assert_true(out[i] == 0);
    device_release(dev, &a);
    device_release(dev, &b);
}

// --- matrix products

struct product {
    int64_t batch, m, n, k;
    bool ta, tb, shared_b;
};

static void check_product(enum scalar_class cls, kiln_dtype dtype, const struct product *p)
{
    int64_t na = p->batch * p->m * p->k, nb = (p->shared_b ? 1 : p->batch) * p->k * p->n, no = p->batch * p->m * p->n;
    size_t size_B = dtype_size_B[dtype];
    uint8_t *a = calloc((size_t)na, size_B), *b = calloc((size_t)nb, size_B), *out = calloc((size_t)no, size_B);
    bool integer = dtype <= KILN_I64;
    for (int64_t i = 0; i < na; i++)
        store_number(dtype, a + (size_t)i * size_B, (double)noise((uint32_t)i) * (integer ? 50 : 1));
    for (int64_t i = 0; i < nb; i++)
        store_number(dtype, b + (size_t)i * size_B, (double)noise((uint32_t)i + 7777) * (integer ? 50 : 1));
    struct block ba = block_new((size_t)na * size_B, a), bb = block_new((size_t)nb * size_B, b),
                 bo = block_new((size_t)no * size_B, NULL);
    struct launch l = launch_new("matmul", cls, 4, I(p->batch, p->m, p->n, p->k));
    l.n_reduce = 1;
    const int64_t sa[] = {p->m * p->k, p->ta ? 1 : p->k, 0, p->ta ? p->m : 1};
    const int64_t sb[] = {p->shared_b ? 0 : p->k * p->n, 0, p->tb ? p->k : 1, p->tb ? 1 : p->n};
    add_operand(&l, &ba, dtype, 0, sa, false);
    add_operand(&l, &bb, dtype, 0, sb, false);
    add_operand(&l, &bo, dtype, 0, I(p->m * p->n, p->n, 1, 0), true);
    l.extent[0] = p->n, l.extent[1] = p->m, l.extent[2] = p->batch;
    assert_true(dev->ops->supports(dev, &l));
    assert_ok(dev->ops->launch(dev, &l));
    assert_ok(device_download(dev, out, bo.address, (size_t)no * size_B));
    double tolerance = integer             ? 0
                       : dtype == KILN_F64 ? 1e-14
                       : dtype == KILN_F32 ? 2e-6
                       : dtype == KILN_F16 ? 1e-3
                                           : 8e-3;
    for (int64_t i = 0; i < no; i++) {
        int64_t z = i / (p->m * p->n), m = i / p->n % p->m, n = i % p->n;
        double sum = 0, magnitude = 1e-30;
        for (int64_t k = 0; k < p->k; k++) {
            double x = load_number(dtype, a + (size_t)(z * sa[0] + m * sa[1] + k * sa[3]) * size_B);
            double y = load_number(dtype, b + (size_t)(z * sb[0] + n * sb[2] + k * sb[3]) * size_B);
            sum += x * y;
            magnitude += fabs(x * y);
        }
        double got = load_number(dtype, out + (size_t)i * size_B);
        if (!(fabs(got - sum) <= tolerance * magnitude)) {
            fail_msg("%s %lldx%lldx%lldx%lld at %lld: %.9g, not %.9g", dtype_name(dtype), (long long)p->batch,
                     (long long)p->m, (long long)p->n, (long long)p->k, (long long)i, got, sum);
        }
    }
    device_release(dev, &ba);
    device_release(dev, &bb);
    device_release(dev, &bo);
    free(a);
    free(b);
    free(out);
}

static void products_of_all_kinds(void **state)
{
    static const struct product cases[] = {
        {1, 1, 1, 1, false, false, false},    {1, 5, 7, 3, false, false, false},
        {1, 64, 64, 64, false, false, false}, {1, 33, 65, 17, true, false, false},
        {1, 65, 33, 31, false, true, false},  {1, 40, 40, 40, true, true, false},
        {3, 20, 30, 10, false, false, false}, {4, 9, 11, 40, false, true, true},
        {1, 1, 200, 50, false, false, false}, {1, 130, 129, 20, false, false, false},
        {9, 70, 72, 36, false, false, false}, {9, 128, 68, 32, true, true, false},
        {9, 64, 64, 20, false, true, false},
    };
    // The first: tiles of 32; the second: of 64 and 128 where there are nine; then as on processors, whose runs are
    // short.
    static const uint32_t parallelism[] = {1u << 17, 4096, 256, 1};
    static const struct {
        enum scalar_class cls;
        kiln_dtype dtype;
    } types[] = {{CLASS_F32, KILN_F32}, {CLASS_F32, KILN_F16}, {CLASS_F32, KILN_BF16},
                 {CLASS_F64, KILN_F64}, {CLASS_I32, KILN_I32}, {CLASS_I64, KILN_I64}};
    for (size_t t = 0; t < COUNT_OF(parallelism); t++) {
        dev->caps.parallelism = parallelism[t];
        for (size_t i = 0; i < COUNT_OF(cases); i++) {
            // Other dtypes have the code of f32: of them what a large device and a processor take.
            size_t n = t == 0 || t == 2 ? COUNT_OF(types) : 1;
            for (size_t k = 0; k < n; k++) check_product(types[k].cls, types[k].dtype, &cases[i]);
        }
    }
}

// Each field in its own bits, with the largest values that occur.
static void forms_of_pipelines_differ(void **state)
{
    static const struct vk_form forms[] = {
        {.kernel = UINT16_MAX, .rank = MAX_RANK, .n_reduce = MAX_RANK},
        {.kernel = 1, .rank = MAX_RANK, .wide = 16, .tail = 1, .local = 256},
        {.kernel = 2, .rank = 9, .n_reduce = 1, .indirect = 1, .wide = 1, .local = 1024, .lanes = 1024, .rows = 1},
        {.kernel = 3, .n_reduce = MAX_RANK, .indirect = 1, .local = 64, .lanes = 2, .rows = 32, .phase = 255},
    };
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        struct vk_form back = vk_form_unpack(vk_form_pack(&forms[i]));
        assert_memory_equal(&back, &forms[i], sizeof back);
    }
}

int main(int argc, char **argv)
{
    setenv("KILN_DEBUG", "validate", 1);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_device, close_device)
    const struct CMUnitTest tests[] = {
        CASE(floats_load_and_store_every_dtype),
        CASE(integers_wrap),
        CASE(half_floats_are_exact),
        CASE(f64_needs_class_f64),
        CASE(layouts_of_pointwise_kernels),
        CASE(several_fours_an_invocation),
        CASE(eights_of_halves),
        CASE(immediates_and_scalars),
        CASE(nothing_to_do),
        CASE(strides_beyond_32_bits_are_cut_out),
        CASE(launches_of_too_many_points_are_cut),
        CASE(rows_in_every_form),
        CASE(rows_in_phases),
        CASE(reductions_repeat_to_the_bit),
        CASE(an_empty_row_gives_the_identity),
        CASE(products_of_all_kinds),
        cmocka_unit_test(forms_of_pipelines_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
