// Plain numbers as operands: every row of two or three operands, numbers at each place, beside the same op on what
// kiln_scalar makes, to the bit. What a row is called with is written from the table.
#include "ops/families.h"
#include "tensor/apply.h"
#include "tensor/tensor.h"
#include <kiln/kiln.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N 5

static kiln_device *dev, *cpu;
static kiln_scope *scope;

static int begin(void **state)
{
    kiln_error_clear();
    scope = kiln_scope_begin();
    return scope ? 0 : -1;
}

static int end(void **state)
{
    if (kiln_error()) {
        fprintf(stderr, "left pending: %s\n", kiln_error_message());
        return -1;
    }
    kiln_scope_end(&scope);
    return 0;
}

static void ok(kiln_status status)
{
    if (status) fail_msg("%s", kiln_error_message());
}

// --- one function a row and a type of number; `at`: a bit for each operand that is a number

// The numbers that two rows take behind their operands.
#define MORE_isclose      ~, (, 1e-3, 1e-3)
#define MORE_smooth_l1    ~, (, 0.5)
#define SECOND(a, b, ...) b
#define PICK(...)         SECOND(__VA_ARGS__, ~)
#define OPEN(...)         __VA_ARGS__
#define MORE(name)        OPEN PICK(MORE_##name, ())
#define CALL_(f, ...)     f(__VA_ARGS__)
#define CALL(f, ...)      CALL_(f, __VA_ARGS__)
#define PLAIN(f, ...)     (f)(__VA_ARGS__)

typedef kiln_tensor *(*form_fn)(int at, kiln_tensor *const *t, double v);

static kiln_tensor *double_scalar(double v)
{
    return kiln_scalar(v);
}

static kiln_tensor *int_scalar(int v)
{
    return kiln_scalar_int(v);
}

static kiln_tensor *bool_scalar(bool v)
{
    return kiln_scalar_bool(v);
}

#define BINARY_OF(name, T)                                                                                  \
    static kiln_tensor *name##_##T(int at, kiln_tensor *const *t, double number)                            \
    {                                                                                                       \
        T v = (T)number;                                                                                    \
        switch (at) {                                                                                       \
        case 1: return CALL(kiln_##name, v, t[1] MORE(name));                                               \
        case 2: return CALL(kiln_##name, t[0], v MORE(name));                                               \
        default: return CALL(kiln_##name, v, v MORE(name));                                                 \
        }                                                                                                   \
    }                                                                                                       \
    static kiln_tensor *name##_of_scalar_##T(int at, kiln_tensor *const *t, double number)                  \
    {                                                                                                       \
        kiln_tensor *a = at & 1 ? T##_scalar((T)number) : t[0], *b = at & 2 ? T##_scalar((T)number) : t[1]; \
        return PLAIN(kiln_##name, a, b MORE(name));                                                         \
    }
#define TERNARY_OF(name, T)                                                                \
    static kiln_tensor *name##_##T(int at, kiln_tensor *const *t, double number)           \
    {                                                                                      \
        T v = (T)number;                                                                   \
        switch (at) {                                                                      \
        case 1: return kiln_##name(v, t[1], t[2]);                                         \
        case 2: return kiln_##name(t[0], v, t[2]);                                         \
        case 3: return kiln_##name(v, v, t[2]);                                            \
        case 4: return kiln_##name(t[0], t[1], v);                                         \
        case 5: return kiln_##name(v, t[1], v);                                            \
        case 6: return kiln_##name(t[0], v, v);                                            \
        default: return kiln_##name(v, v, v);                                              \
        }                                                                                  \
    }                                                                                      \
    static kiln_tensor *name##_of_scalar_##T(int at, kiln_tensor *const *t, double number) \
    {                                                                                      \
        kiln_tensor *in[3];                                                                \
        for (int i = 0; i < 3; i++) in[i] = at >> i & 1 ? T##_scalar((T)number) : t[i];    \
        return (kiln_##name)(in[0], in[1], in[2]);                                         \
    }

#define UNARY(name, ...)
#define BINARY(name, ...)  BINARY_OF(name, double) BINARY_OF(name, int) BINARY_OF(name, bool)
#define TERNARY(name, ...) TERNARY_OF(name, double) TERNARY_OF(name, int) TERNARY_OF(name, bool)
#include "ops/elementwise.def"
#undef BINARY
#undef TERNARY

#define FORMS(name)                                                          \
    {name##_double, name##_int, name##_bool},                                \
    {                                                                        \
        name##_of_scalar_double, name##_of_scalar_int, name##_of_scalar_bool \
    }
static const struct row {
    const char *name;
    int n_in;
    form_fn numbers[3], scalars[3];
} rows[] = {
#define BINARY(name, ...)  {#name, 2, FORMS(name)},
#define TERNARY(name, ...) {#name, 3, FORMS(name)},
#include "ops/elementwise.def"
};
#undef UNARY
#undef BINARY
#undef TERNARY
#define N_ROWS (sizeof rows / sizeof *rows)

// The argument that is a mask; -1: none.
static int mask_of(const struct row *r)
{
    return !strcmp(r->name, "where") ? 0 : !strcmp(r->name, "masked_fill") ? 1 : -1;
}

// The first argument that is a tensor where numbers stand at `at`, and no mask; -1: none.
static int tensor_among(const struct row *r, int at)
{
    for (int i = 0; i < r->n_in; i++)
        if (!(at >> i & 1) && i != mask_of(r)) return i;
    return -1;
}

static void operands(const struct row *r, kiln_dtype dtype, kiln_tensor **out)
{
    static const float values[3][N] = {{0, 1, 2, 3, 1.5f}, {1, 2, 1, 3, 0.5f}, {2, 1, 3, 1, 0.25f}};
    for (int i = 0; i < r->n_in; i++)
        out[i] = kiln_cast(kiln_from_data(dev, KILN_F32, KILN_SHAPE(N), values[i]), dtype);
    int mask = mask_of(r);
    if (mask >= 0) out[mask] = kiln_cast(out[mask], KILN_BOOL);
}

// An error less the place where it arose.
static size_t error_of(char *text, size_t cap)
{
    snprintf(text, cap, "%s", kiln_error_message());
    char *place = strstr(text, " (numbers.c:");
    if (!place) fail_msg("\"%s\" does not say where", text);
    *place = 0;
    kiln_error_clear();
    return strlen(text);
}

static void same(const char *name, int at, kiln_tensor *a, kiln_tensor *b)
{
    char one[512], other[512];
    if (!a && !b) return; // the caller compares errors
    if (!a || !b) fail_msg("%s, numbers at %d: one form fails: %s", name, at, kiln_error_message());
    assert_int_equal(kiln_tensor_dtype(a), kiln_tensor_dtype(b));
    assert_int_equal(kiln_rank(a), kiln_rank(b));
    assert_int_equal(a->type.weak, b->type.weak);
    size_t size_B = (size_t)kiln_numel(a) * kiln_dtype_size(kiln_tensor_dtype(a));
    assert_true(size_B == (size_t)kiln_numel(b) * kiln_dtype_size(kiln_tensor_dtype(b)) && size_B <= sizeof one);
    ok(kiln_read(a, one, size_B));
    ok(kiln_read(b, other, size_B));
    if (memcmp(one, other, size_B)) fail_msg("%s, numbers at %d: the bits differ", name, at);
}

// Each dtype is a pipeline for each op of a Vulkan device, which a software driver takes long to make.
static bool tries(kiln_dtype dtype)
{
    return dev == cpu || dtype == KILN_F32 || dtype == KILN_I32 || dtype == KILN_BOOL || dtype == KILN_F16;
}

static void numbers_are_weak_scalars(void **state)
{
    char got[512], want[512];
    int cases = 0, failures = 0;
    for (size_t k = 0; k < N_ROWS; k++)
        for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
            for (int type = 0; type < 3; type++)
                for (int at = 1; at < 1 << rows[k].n_in && tries((kiln_dtype)dtype); at++) {
                    kiln_scope *inner = kiln_scope_begin();
                    kiln_tensor *in[3], *a, *b;
                    operands(&rows[k], (kiln_dtype)dtype, in);
                    double v = type == 0 ? 1.75 : 2;
                    a = rows[k].numbers[type](at, in, v);
                    bool failed = !a;
                    if (failed) error_of(got, sizeof got);
                    b = rows[k].scalars[type](at, in, v);
                    if (failed && b) fail_msg("%s, numbers at %d: %s", rows[k].name, at, got);
                    if (!b) error_of(want, sizeof want);
                    if (failed) assert_string_equal(got, want);
                    same(rows[k].name, at, a, b);
                    kiln_scope_end(&inner);
                    failures += failed;
                    cases++;
                }
    assert_true(N_ROWS >= 38 && cases > 1000 && failures * 2 < cases);
}

static kiln_status all_rows(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    bool scalars = user != NULL;
    size_t n = 0;
    for (size_t k = 0; k < N_ROWS; k++)
        for (int at = 1; at < (1 << rows[k].n_in) - 1 && n < n_out; at++) {
            bool bits = !strncmp(rows[k].name, "bitwise_", 8);
            kiln_tensor *of[3] = {in[bits ? 3 : 0], in[bits ? 4 : 1], in[bits ? 5 : 2]};
            int mask = mask_of(&rows[k]);
            if (mask >= 0) of[mask] = in[6];
            int type = bits ? 1 : mask >= 0 && at >> mask & 1 ? 2 : 0;
            out[n] = (scalars ? rows[k].scalars : rows[k].numbers)[type](at, of, 1.75);
            if (!out[n++]) return kiln_error();
        }
    return n == n_out ? KILN_OK : KILN_E_ARGUMENT;
}

static size_t count_all(void)
{
    size_t n = 0;
    for (size_t k = 0; k < N_ROWS; k++) n += (1u << rows[k].n_in) - 2;
    return n;
}

static void captured_numbers_are_weak_scalars(void **state)
{
    static const float values[3][N] = {{0, 1, 2, 3, 1.5f}, {1, 2, 1, 3, 0.5f}, {2, 1, 3, 1, 0.25f}};
    kiln_tensor *in[7], *want[256], *got[256];
    size_t n = count_all();
    assert_true(n > 80 && n <= 256);
    for (int i = 0; i < 3; i++) {
        in[i] = kiln_from_data(dev, KILN_F32, KILN_SHAPE(N), values[i]);
        in[i + 3] = kiln_cast(in[i], KILN_I32);
    }
    in[6] = kiln_cast(in[0], KILN_BOOL);
    static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE};
    for (size_t c = 0; c < 3; c++) {
        kiln_function *numbers = kiln_jit(all_rows, NULL, KILN_JIT(.capture = captures[c]));
        kiln_function *scalars = kiln_jit(all_rows, in, KILN_JIT(.capture = captures[c]));
        for (int turn = 0; turn < 2; turn++) {
            ok(kiln_call(numbers, in, 7, got, n));
            ok(kiln_call(scalars, in, 7, want, n));
            for (size_t i = 0; i < n; i++) same("captured", (int)i, got[i], want[i]);
        }
        kiln_function_free(&numbers);
        kiln_function_free(&scalars);
    }
}

// --- gradients, in place, guards

static void gradients_pass_numbers(void **state)
{
    for (size_t k = 0; k < N_ROWS; k++)
        for (int at = 1; at < (1 << rows[k].n_in) - 1; at++) {
            kiln_tensor *in[2][3], *p[2], *y[2];
            for (int form = 0; form < 2; form++) {
                operands(&rows[k], KILN_F32, in[form]);
                int own = tensor_among(&rows[k], at);
                p[form] = own < 0 ? NULL : kiln_parameter(kiln_add(in[form][own], 0.125), "p");
                if (p[form]) in[form][own] = p[form];
                y[form] = (form ? rows[k].scalars : rows[k].numbers)[0](at, in[form], 1.75);
                bool differs = y[form] && p[form] && kiln_tensor_dtype(y[form]) == KILN_F32;
                if (!y[form]) kiln_error_clear();
                if (differs) ok(kiln_backward(kiln_sum(kiln_mul(y[form], y[form]), NULL), NULL));
            }
            assert_int_equal(!y[0], !y[1]);
            kiln_tensor *d[2] = {p[0] ? kiln_gradient(p[0]) : NULL, p[1] ? kiln_gradient(p[1]) : NULL};
            assert_int_equal(!d[0], !d[1]);
            if (d[0]) same(rows[k].name, at, d[0], d[1]);
        }
}

static kiln_tensor *line(void)
{
    return kiln_from_data(dev, KILN_F32, KILN_SHAPE(N), (float[]){0, 1, 2, 3, 1.5f});
}

static void numbers_go_into_memory(void **state)
{
    int cases = 0;
    for (int i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        if (!(op->flags & OP_INPLACE) || !op->elementwise || op->max_in < 2) continue;
        kiln_tensor *a = line(), *b = line(), *in[] = {b, kiln_scalar(0.75), kiln_scalar(0.75)};
        const kiln_operand numbers[] = {KILN_OPERAND(0.75), KILN_OPERAND(0.75)};
        ok(op_apply_numbers_inplace(op, a, numbers));
        ok(op_apply_inplace(op, op->max_in, in, NULL));
        same(op->name, 2, a, b);
        cases++;
    }
    assert_true(cases >= 8);
    kiln_tensor *a = line(), *b = line();
    ok(kiln_add_(a, 1));
    ok(kiln_mul_(a, 2));
    ok(kiln_div_(a, 4.0f));
    ok(kiln_sub_(a, true));
    ok(kiln_lerp_(a, b, 0.5));
    ok(kiln_lerp_(a, 0, b));
    ok(kiln_addcmul_(a, b, -1));
    ok(kiln_clip_(a, -1.5, 1));
    ok((kiln_add_)(b, kiln_scalar_int(1)));
    ok((kiln_mul_)(b, kiln_scalar_int(2)));
    ok((kiln_div_)(b, kiln_scalar(4)));
    ok((kiln_sub_)(b, kiln_scalar_int(1)));
    ok((kiln_lerp_)(b, line(), kiln_scalar(0.5)));
    ok((kiln_lerp_)(b, kiln_scalar_int(0), line()));
    ok((kiln_addcmul_)(b, line(), kiln_scalar_int(-1)));
    ok((kiln_clip_)(b, kiln_scalar(-1.5), kiln_scalar_int(1)));
    same("in place", 0, a, b);
}

static double factor;

static kiln_status scaled(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sub(kiln_mul(in[0], factor), 1);
    return kiln_error();
}

// A number is a part of the graph: STRICT keeps it, AUTO takes another path.
static void numbers_are_part_of_graphs(void **state)
{
    kiln_tensor *x = line(), *y;
    kiln_function *strict = kiln_jit(scaled, NULL, KILN_JIT(.capture = KILN_CAPTURE_STRICT));
    kiln_function *automatic = kiln_jit(scaled, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    for (factor = 2; factor < 5; factor++) {
        float v[N];
        ok(kiln_call(strict, &x, 1, &y, 1));
        ok(kiln_read(y, v, sizeof v));
        assert_true(v[3] == 5);
        ok(kiln_call(automatic, &x, 1, &y, 1));
        ok(kiln_read(y, v, sizeof v));
        assert_true(v[3] == 3 * (float)factor - 1);
    }
    kiln_function_free(&strict);
    kiln_function_free(&automatic);
}

// --- types of C, and errors

static double single(kiln_tensor *t, kiln_dtype dtype)
{
    assert_non_null(t);
    assert_int_equal(kiln_tensor_dtype(t), dtype);
    return kiln_item(t);
}

static void types_of_c_are_numbers(void **state)
{
    kiln_tensor *i = kiln_full(dev, KILN_I32, KILN_SHAPE(1), 3), *b = kiln_full(dev, KILN_BOOL, KILN_SHAPE(1), 1);
    const kiln_tensor *fixed = i;
    bool yes = true;
    assert_true(single(kiln_mul(i, (char)2), KILN_I32) == 6);
    assert_true(single(kiln_mul(i, (signed char)-2), KILN_I32) == -6);
    assert_true(single(kiln_mul(i, (unsigned char)2), KILN_I32) == 6);
    assert_true(single(kiln_mul(i, (short)-2), KILN_I32) == -6);
    assert_true(single(kiln_mul(i, (unsigned short)2), KILN_I32) == 6);
    assert_true(single(kiln_mul(-2, i), KILN_I32) == -6);
    assert_true(single(kiln_mul(2u, i), KILN_I32) == 6);
    assert_true(single(kiln_mul(i, -2l), KILN_I32) == -6);
    assert_true(single(kiln_mul(i, 2ul), KILN_I32) == 6);
    assert_true(single(kiln_mul(i, -2ll), KILN_I32) == -6);
    assert_true(single(kiln_mul(i, (uint64_t)2), KILN_I32) == 6);
    assert_true(single(kiln_mul(i, sizeof(int)), KILN_I32) == 12);
    assert_true(single(kiln_mul(i, 2.5f), KILN_F32) == 7.5);
    assert_true(single(kiln_mul(i, 2.5), KILN_F32) == 7.5);
    assert_true(single(kiln_mul(i, 2.5l), KILN_F32) == 7.5);
    assert_true(single(kiln_mul(i, KILN_F64), KILN_I32) == 27); // an enumeration
    assert_true(single(kiln_mul(fixed, fixed), KILN_I32) == 9);
    assert_true(single(kiln_sub(kiln_mul(fixed, 3), 1), KILN_I32) == 8);
    assert_true(single(kiln_logical_and(b, yes), KILN_BOOL) == 1);
    assert_true(single(kiln_bitwise_xor(b, yes), KILN_BOOL) == 0);
    assert_true(single(kiln_multiply(i, 2), KILN_I32) == 6);
    assert_true(single(kiln_subtract(7, i), KILN_I32) == 4);
    assert_true(single(kiln_add(2, 3), KILN_I64) == 5);
    assert_true(kiln_item(kiln_pow(2, 0.5)) > 1.41);
    assert_true(single(kiln_isclose(i, 3.0001, 1e-3, 1e-3), KILN_BOOL) == 1);
    kiln_tensor *(*f)(kiln_tensor *, kiln_tensor *) = kiln_mul, *(*g)(kiln_tensor *, kiln_tensor *) = &kiln_mul;
    assert_ptr_equal(f, g);
    int calls = 0; // an operand is computed once
    assert_true(single(kiln_mul(i, ++calls), KILN_I32) == 3 && calls == 1);
}

static kiln_tensor *few(kiln_dtype dtype)
{
    const double values[] = {-0.0, 1.1, -2.3, INFINITY, 3.7, -INFINITY, 5, 1e-30};
    kiln_tensor *x = kiln_from_data(dev, KILN_F64, KILN_SHAPE(8), values);
    return dtype == KILN_F64 ? x : kiln_cast(dtype == KILN_F32 || dtype == KILN_F16 ? x : kiln_clip(x, 0, 9), dtype);
}

static void expect_same(kiln_tensor *a, kiln_tensor *b, kiln_dtype dtype)
{
    char room[2][64];
    assert_int_equal(kiln_tensor_dtype(a), dtype);
    assert_int_equal(kiln_tensor_dtype(b), dtype);
    size_t size_B = 8 * kiln_dtype_size(dtype);
    ok(kiln_read(a, room[0], size_B));
    ok(kiln_read(b, room[1], size_B));
    assert_memory_equal(room[0], room[1], size_B);
}

// A power by a plain number that another op is has that op's bits, dtype and gradient; by all other operands it is pow.
static void powers(void **state)
{
    const kiln_dtype floats[] = {KILN_F32, KILN_F64, KILN_F16};
    for (int i = 0; i < 3; i++) {
        kiln_dtype dtype = floats[i];
        kiln_tensor *x = few(dtype);
        expect_same(kiln_pow(x, 2), kiln_square(x), dtype);
        expect_same(kiln_pow(x, 2.0), kiln_square(x), dtype);
        expect_same(kiln_pow(x, 3), kiln_cube(x), dtype);
        expect_same(kiln_pow(x, -1.0f), kiln_reciprocal(x), dtype);
        expect_same(kiln_pow(x, 2.5), (kiln_pow)(x, kiln_scalar(2.5)), dtype);
        expect_same(kiln_pow(x, true), (kiln_pow)(x, kiln_scalar_bool(true)), dtype);
        kiln_tensor *leaf = kiln_parameter(x, "x"), *other = kiln_parameter(x, "x");
        ok(kiln_backward(kiln_sum(kiln_pow(leaf, 3), NULL), NULL));
        ok(kiln_backward(kiln_sum(kiln_cube(other), NULL), NULL));
        expect_same(kiln_gradient(leaf), kiln_gradient(other), dtype);
    }
    const kiln_dtype whole[] = {KILN_I32, KILN_I64, KILN_U8};
    for (int i = 0; i < 3; i++) {
        kiln_tensor *x = few(whole[i]);
        expect_same(kiln_pow(x, 2), (kiln_pow)(x, kiln_scalar_int(2)), whole[i]);
        expect_same(kiln_pow(x, 3), kiln_mul(kiln_mul(x, x), x), whole[i]);
        expect_same(kiln_pow(x, -1), (kiln_pow)(x, kiln_scalar_int(-1)), whole[i]);
        assert_int_equal(kiln_tensor_dtype(kiln_pow(x, 2.0)), KILN_F32);
    }
    assert_true(single(kiln_pow(2, 3), KILN_I64) == 8);
}

static void expect(const char *text, int at)
{
    char place[64];
    snprintf(place, sizeof place, "(numbers.c:%d)", at);
    assert_int_not_equal(kiln_error(), KILN_OK);
    if (!strstr(kiln_error_message(), text) || !strstr(kiln_error_message(), place))
        fail_msg("\"%s\" does not hold \"%s\" and \"%s\"", kiln_error_message(), text, place);
    kiln_error_clear();
}

#define FAILS(call, text)       \
    do {                        \
        (void)(call);           \
        expect(text, __LINE__); \
    } while (0)

static void errors_name_operand_and_line(void **state)
{
    kiln_tensor *x = line(), *none = NULL;
    FAILS(kiln_mul(none, 3), "mul: a is NULL");
    FAILS(kiln_mul(3, NULL), "mul: b is NULL");
    FAILS(kiln_where(x, 1, none), "where: y is NULL");
    FAILS(kiln_mul_(none, 3), "mul: a is NULL");
    FAILS(kiln_add(x, UINT64_MAX), "add: b is 18446744073709551615, above");
    FAILS(kiln_bitwise_and(x, 3), "bitwise_and: ");
    kiln_tensor *i = kiln_full(dev, KILN_I32, KILN_SHAPE(1), 3);
    FAILS(kiln_add_(i, 0.5), "add_: ");
    assert_true(kiln_item(i) == 3);
    kiln_operand odd = {.kind = 77};
    FAILS(kiln_add_n(odd, KILN_OPERAND(x)), "add: a is an operand of kind 77");
    assert_null(kiln_mul(x, none)); // pending: what follows does nothing
    assert_null(kiln_add(x, 1));
    expect("mul: b is NULL", __LINE__ - 2);
}

// No scope is open, and nothing is left.
static void numbers_have_no_handles(void **state)
{
    kiln_scope_end(&scope);
    kiln_device_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    kiln_device_get_stats(dev, &before);
    kiln_tensor *x = line(), *y = kiln_mul(x, 3);
    for (int i = 0; i < 100; i++) ok(kiln_add_(y, 1));
    double v[N];
    kiln_tensor *wide = kiln_cast(y, KILN_F64);
    ok(kiln_read(wide, v, sizeof v));
    assert_true(v[3] == 109);
    kiln_free(&wide);
    kiln_free(&x);
    kiln_free(&y);
    kiln_device_get_stats(dev, &after);
    assert_int_equal(after.tensors, before.tensors);
    scope = kiln_scope_begin();
}

static kiln_tensor *affine(kiln_tensor *z)
{
    return kiln_sub(kiln_mul(kiln_add(1, z), 2), kiln_div(z, 4.0));
}

static kiln_status affine_step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = affine(in[0]);
    return kiln_error();
}

static void complex_tensors_take_numbers(void **state)
{
    const float pairs[] = {1, -2, 0.5f, 4};
    kiln_tensor *z = kiln_view_as_complex(kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 2), pairs)), *y[2] = {affine(z)};
    kiln_function *f = kiln_jit(affine_step, NULL, NULL);
    ok(kiln_call(f, &z, 1, &y[1], 1));
    for (int k = 0; k < 2; k++) {
        float got[4];
        assert_int_equal(kiln_tensor_dtype(y[k]), KILN_C64);
        ok(kiln_read(y[k], got, sizeof got));
        for (int i = 0; i < 4; i++) assert_true(got[i] == pairs[i] * 1.75f + (i % 2 ? 0 : 2));
    }
    ok(kiln_mul_(z, 3));
    ok(kiln_add_(z, 0.5));
    float got[4];
    ok(kiln_read(z, got, sizeof got));
    for (int i = 0; i < 4; i++) assert_true(got[i] == pairs[i] * 3 + (i % 2 ? 0 : 0.5f));
    kiln_function_free(&f);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(numbers_are_weak_scalars), TEST(captured_numbers_are_weak_scalars),
        TEST(gradients_pass_numbers),   TEST(powers),
        TEST(numbers_go_into_memory),   TEST(numbers_are_part_of_graphs),
        TEST(types_of_c_are_numbers),   TEST(errors_name_operand_and_line),
        TEST(numbers_have_no_handles),  TEST(complex_tensors_take_numbers),
    };
    static const char *const devices[] = {"cpu", "vulkan"};
    int failures = 0;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        kiln_error_clear();
        dev = kiln_device_open(devices[i]);
        if (!dev) {
            printf("# no device \"%s\": %s\n", devices[i], kiln_error_message());
            if (i == 0) failures++;
            kiln_error_clear();
            continue;
        }
        cpu = i == 0 ? dev : NULL;
        kiln_set_device(dev);
        char group[64];
        snprintf(group, sizeof group, "numbers on %s", devices[i]);
        failures += _cmocka_run_group_tests(group, tests, sizeof tests / sizeof *tests, NULL, NULL);
        kiln_device_close(&dev);
    }
    return failures != 0;
}
