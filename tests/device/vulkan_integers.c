// Bools that are computed by words, and quotients of integers, whose GLSL is Kiln's own: against plain C.
#include "vulkan_fixture.h"

#include "base/base.h"

static uint64_t state_of_random = 88172645463325252u;

static uint64_t random_bits(void)
{
    state_of_random ^= state_of_random << 13;
    state_of_random ^= state_of_random >> 7;
    state_of_random ^= state_of_random << 17;
    return state_of_random;
}

// --- bools

#define ROOM   70000
#define I(...) ((const int64_t[]){__VA_ARGS__})

// By the three bits of the operands, the first the highest.
struct truth {
    const char *kernel;
    int n_in;
    uint8_t table[8];
};

static const struct truth truths[] = {
    {"bitwise_and", 2, {0, 0, 0, 1}}, {"bitwise_or", 2, {0, 1, 1, 1}},
    {"bitwise_xor", 2, {0, 1, 1, 0}}, {"bitwise_invert", 1, {1, 0}},
    {"equal", 2, {1, 0, 0, 1}},       {"not_equal", 2, {0, 1, 1, 0}},
    {"less", 2, {0, 1, 0, 0}},        {"less_equal", 2, {1, 1, 0, 1}},
    {"greater", 2, {0, 0, 1, 0}},     {"greater_equal", 2, {1, 0, 1, 1}},
    {"maximum", 2, {0, 1, 1, 1}},     {"minimum", 2, {0, 0, 0, 1}},
    {"pow", 2, {1, 0, 1, 1}},         {"where", 3, {0, 1, 0, 1, 0, 0, 1, 1}},
};

// One operand: where its first element lies, strides, and whether it is a number in place of memory.
struct place {
    int64_t first;
    const int64_t *strides;
    bool number;
};

static int64_t offset_of(int64_t p, int rank, const int64_t *sizes, const int64_t *strides)
{
    int64_t at = 0;
    for (int d = rank - 1; d >= 0; d--) {
        at += p % sizes[d] * strides[d];
        p /= sizes[d];
    }
    return at;
}

// Operands as in `in`, those of one input the first; what lies around the result stays.
static void check_bools(const struct truth *t, int rank, const int64_t *sizes, const struct place *in,
                        const struct place *to)
{
    uint8_t *data[3], *out = malloc(ROOM), *expected = malloc(ROOM);
    struct block blocks[3], result;
    struct launch l = launch_new(t->kernel, CLASS_BOOL, rank, sizes);
    memset(out, 0xa5, ROOM);
    memset(expected, 0xa5, ROOM);
    result = block_new(ROOM, out);
    for (int i = 0; i < t->n_in; i++) {
        data[i] = malloc(ROOM);
        for (int k = 0; k < ROOM; k++) data[i][k] = random_bits() >> 40 & 1;
        blocks[i] = block_new(ROOM, data[i]);
        if (in[i].number)
            add_immediate(&l, KILN_BOOL, data[i][in[i].first]);
        else
            add_operand(&l, &blocks[i], KILN_BOOL, in[i].first, in[i].strides, false);
    }
    add_operand(&l, &result, KILN_BOOL, to->first, to->strides, true);
    assert_ok(dev->ops->launch(dev, &l));
    assert_ok(device_download(dev, out, result.address, ROOM));
    int64_t count = 1;
    for (int d = 0; d < rank; d++) count *= sizes[d];
    for (int64_t p = 0; p < count; p++) {
        int bits = 0;
        for (int i = 0; i < t->n_in; i++) {
            int64_t at = in[i].first + (in[i].number ? 0 : offset_of(p, rank, sizes, in[i].strides));
            bits = bits << 1 | data[i][at];
        }
        expected[to->first + offset_of(p, rank, sizes, to->strides)] = t->table[bits];
    }
    if (memcmp(expected, out, ROOM) != 0) fail_msg("%s over %d dimensions, %d points", t->kernel, rank, (int)count);
    for (int i = 0; i < t->n_in; i++) {
        device_release(dev, &blocks[i]);
        free(data[i]);
    }
    device_release(dev, &result);
    free(out);
    free(expected);
}

static void bools_in_every_kernel(void **state)
{
    (void)state;
    struct place dense = {0, I(1), false}, number = {3, I(0), true};
    for (size_t k = 0; k < COUNT_OF(truths); k++) {
        check_bools(&truths[k], 1, I(8192), (struct place[]){dense, dense, dense}, &dense);
        check_bools(&truths[k], 1, I(4099), (struct place[]){dense, number, dense}, &dense);
    }
}

// Tails of up to 15 behind whole words, beginnings that words do not allow, rows, numbers, what stands still.
static void bools_in_every_layout(void **state)
{
    (void)state;
    const struct truth *where = &truths[COUNT_OF(truths) - 1], *xor = &truths[2];
    struct place dense = {0, I(1), false}, still = {5, I(0), false}, number = {7, I(0), true};
    for (int64_t n = 4095; n < 4113; n++) check_bools(xor, 1, I(n), (struct place[]){dense, dense, dense}, &dense);
    for (int64_t first = 0; first < 33; first += first < 4 ? 1 : 4) {
        struct place at = {first, I(1), false};
        check_bools(xor, 1, I(4100), (struct place[]){at, dense, dense}, &dense);
        check_bools(xor, 1, I(4100), (struct place[]){dense, dense, dense}, &at);
        check_bools(where, 1, I(4096), (struct place[]){dense, at, at}, &at);
    }
    check_bools(where, 1, I(5000), (struct place[]){dense, still, number}, &dense);
    check_bools(where, 1, I(5000), (struct place[]){still, dense, dense}, &dense);
    check_bools(xor, 1, I(3000), (struct place[]){{2999, I(-1), false}, {0, I(2), false}},
                &(struct place){1, I(3), false});
    for (int64_t width = 60; width < 69; width += 4) {
        struct place rows = {0, I(width, 1), false}, row = {16, I(0, 1), false}, column = {0, I(1, 0), false};
        struct place apart = {16, I(80, 1), false}, odd = {4, I(84, 1), false};
        check_bools(where, 2, I(70, width), (struct place[]){rows, row, column}, &apart);
        check_bools(where, 2, I(70, width), (struct place[]){row, odd, rows}, &rows);
        check_bools(xor, 2, I(70, width), (struct place[]){column, rows, rows}, &odd);
    }
}

// Of other dtypes, which a kernel of bools loads and stores too.
static void bools_of_other_dtypes(void **state)
{
    (void)state;
    enum { N = 8192 };
    uint8_t *a = malloc(N), *out = malloc(N);
    float *b = malloc(N * 4);
    for (int i = 0; i < N; i++) {
        a[i] = random_bits() >> 40 & 1;
        b[i] = i % 3 ? (float)(i % 5) : -0.0f;
    }
    struct block ba = block_new(N, a), bb = block_new(N * 4, b), bo = block_new(N, NULL);
    struct launch l = launch_new("bitwise_and", CLASS_BOOL, 1, I(N));
    add_operand(&l, &ba, KILN_BOOL, 0, I(1), false);
    add_operand(&l, &bb, KILN_F32, 0, I(1), false);
    add_operand(&l, &bo, KILN_BOOL, 0, I(1), true);
    assert_ok(dev->ops->launch(dev, &l));
    assert_ok(device_download(dev, out, bo.address, N));
    for (int i = 0; i < N; i++) assert_int_equal(out[i], a[i] && b[i] != 0);
    device_release(dev, &ba);
    device_release(dev, &bb);
    device_release(dev, &bo);
    free(a);
    free(b);
    free(out);
}

// --- quotients

static int64_t quotient(int64_t a, int64_t b)
{
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t expected_of(const char *kernel, int64_t a, int64_t b)
{
    int64_t q = quotient(a, b), rest = (int64_t)((uint64_t)a - (uint64_t)q * (uint64_t)b);
    bool across = b != 0 && rest != 0 && (rest < 0) != (b < 0);
    if (!strcmp(kernel, "floor_divide")) return q - across;
    if (!strcmp(kernel, "fmod")) return b ? rest : 0;
    return b ? rest + (across ? b : 0) : 0;
}

// Around powers of two, their sums and differences, and numbers of every length.
static int64_t hard_number(uint32_t i)
{
    uint64_t r = random_bits(), power = UINT64_C(1) << (r & 63), other = UINT64_C(1) << (r >> 8 & 63);
    int64_t near = (int64_t)(r >> 16 & 7) - 3;
    switch (i % 6) {
    case 0: return (int64_t)(power + (uint64_t)near);
    case 1: return (int64_t)(0 - power + (uint64_t)near);
    case 2: return (int64_t)(power + other);
    case 3: return (int64_t)(power - other);
    case 4: return near;
    default: return (int64_t)random_bits() >> (r >> 24 & 63);
    }
}

static const int64_t edges[] = {0,
                                1,
                                -1,
                                2,
                                -2,
                                3,
                                -3,
                                7,
                                10,
                                INT32_MAX,
                                INT32_MIN,
                                UINT32_MAX,
                                (int64_t)1 << 32,
                                -((int64_t)1 << 32),
                                ((int64_t)1 << 53) + 1,
                                INT64_MAX,
                                INT64_MAX - 1,
                                -INT64_MAX,
                                INT64_MIN};

// All pairs of edges, quotients that are whole but for 1, and hard numbers.
static void fill(int64_t *a, int64_t *b, uint32_t n)
{
    uint32_t at = 0;
    for (size_t i = 0; i < COUNT_OF(edges); i++)
        for (size_t k = 0; k < COUNT_OF(edges); k++, at++) a[at] = edges[i], b[at] = edges[k];
    for (; at < n; at++) {
        b[at] = hard_number(at);
        int64_t multiple = (int64_t)((uint64_t)b[at] * (uint64_t)(hard_number(at / 6) >> 32));
        a[at] = at % 3 ? hard_number(at / 2) : (int64_t)((uint64_t)multiple + (uint64_t)(at % 5) - 2);
    }
}

static void check_quotients(const char *kernel, bool wide)
{
    enum { N = 120000 };
    int64_t *a = malloc(N * 8), *b = malloc(N * 8), *out = malloc(N * 8), n = N;
    fill(a, b, N);
    size_t size_B = wide ? 8 : 4;
    if (!wide) {
        for (int i = 0; i < N; i++) {
            int32_t x = (int32_t)a[i], y = (int32_t)b[i];
            memcpy((char *)a + i * 4, &x, 4);
            memcpy((char *)b + i * 4, &y, 4);
        }
    }
    struct block ba = block_new(N * size_B, a), bb = block_new(N * size_B, b), bo = block_new(N * size_B, NULL);
    struct launch l = launch_new(kernel, wide ? CLASS_I64 : CLASS_I32, 1, &n);
    add_operand(&l, &ba, wide ? KILN_I64 : KILN_I32, 0, I(1), false);
    add_operand(&l, &bb, wide ? KILN_I64 : KILN_I32, 0, I(1), false);
    add_operand(&l, &bo, wide ? KILN_I64 : KILN_I32, 0, I(1), true);
    assert_ok(dev->ops->launch(dev, &l));
    assert_ok(device_download(dev, out, bo.address, N * size_B));
    for (int i = 0; i < N; i++) {
        const int32_t *a4 = (int32_t *)a, *b4 = (int32_t *)b, *out4 = (int32_t *)out;
        int64_t x = wide ? a[i] : a4[i], y = wide ? b[i] : b4[i], got = wide ? out[i] : out4[i];
        int64_t wanted = wide ? expected_of(kernel, x, y) : (int32_t)expected_of(kernel, x, y);
        if (got != wanted)
            fail_msg("%s(%lld, %lld) is %lld, not %lld", kernel, (long long)x, (long long)y, (long long)got,
                     (long long)wanted);
    }
    device_release(dev, &ba);
    device_release(dev, &bb);
    device_release(dev, &bo);
    free(a);
    free(b);
    free(out);
}

static void quotients_are_exact(void **state)
{
    (void)state;
    static const char *const kernels[] = {"floor_divide", "fmod", "remainder"};
    for (size_t k = 0; k < COUNT_OF(kernels); k++) {
        check_quotients(kernels[k], false);
        check_quotients(kernels[k], true);
    }
}

// --- doubles that are rounded to whole ones

static void doubles_round_to_even(void **state)
{
    (void)state;
    enum { N = 60000 };
    static const double edges_of_rounding[] = {0.0,          0.5,          1.5,        2.5,        0x1p31 + 0.5,
                                               0x1p51 + 0.5, 0x1p52 - 0.5, 0x1p52 + 1, 0x1p53 + 2, 0x1.fffffffffffffp-2,
                                               0x1p-1074,    INFINITY,     NAN,        0x1p1023};
    double *x = malloc(N * 8), *y = malloc(N * 8);
    int64_t n = N;
    for (int i = 0; i < N; i++) {
        uint64_t bits = random_bits(), exponent = 1023 - 4 + (bits >> 52) % 64;
        bits = (bits & UINT64_C(0x800fffffffffffff)) | exponent << 52;
        memcpy(&x[i], &bits, 8);
        if (i % 3 == 0) x[i] = rint(x[i]) + 0.5;
        if (i < 2 * (int)COUNT_OF(edges_of_rounding)) x[i] = edges_of_rounding[i / 2] * (i % 2 ? -1 : 1);
    }
    struct block bx = block_new(N * 8, x), by = block_new(N * 8, NULL);
    struct launch l = launch_new("round", CLASS_F64, 1, &n);
    add_operand(&l, &bx, KILN_F64, 0, I(1), false);
    add_operand(&l, &by, KILN_F64, 0, I(1), true);
    assert_ok(dev->ops->launch(dev, &l));
    assert_ok(device_download(dev, y, by.address, N * 8));
    for (int i = 0; i < N; i++) {
        double wanted = rint(x[i]);
        if (isnan(wanted) ? !isnan(y[i]) : y[i] != wanted || !signbit(y[i]) != !signbit(wanted))
            fail_msg("round(%a) is %a, not %a", x[i], y[i], wanted);
    }
    device_release(dev, &bx);
    device_release(dev, &by);
    free(x);
    free(y);
}

int main(void)
{
    setenv("KILN_DEBUG", "validate", 1);
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_device, close_device)
    const struct CMUnitTest tests[] = {
        CASE(bools_in_every_kernel), CASE(bools_in_every_layout), CASE(bools_of_other_dtypes),
        CASE(quotients_are_exact),   CASE(doubles_round_to_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
