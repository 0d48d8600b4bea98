// Rows 26, 49 to 53 and 58 to 62: control flow in graphs, and code of the host as a part of them; D2 and D7.
#include "capability.h"
#include <kiln/control.h>
#include <kiln/host.h>

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
#define TRY_(expr)                    \
    do {                              \
        kiln_status status_ = (expr); \
        if (status_) return status_;  \
    } while (0)
static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE, KILN_CAPTURE_AUTO};
enum { N_CAPTURES = 3 };

static kiln_tensor *integer(kiln_device *dev, int64_t v)
{
    return kiln_from_data(dev, KILN_I64, 0, NULL, &v);
}

// --- 26: if, for and while in static graphs

FN(halves)
{
    out[0] = kiln_mul(in[n_in - 1], kiln_scalar(0.5));
    return kiln_error();
}

FN(adds_one)
{
    out[0] = kiln_add(in[n_in - 1], kiln_scalar(1));
    return kiln_error();
}

FN(is_large)
{
    out[0] = kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(1));
    return kiln_error();
}

FN(adds_row)
{
    out[0] = kiln_add(kiln_mul(in[0], kiln_scalar(0.5)), in[1]);
    out[1] = out[0];
    return kiln_error();
}

FN(flows)
{
    static const kiln_fn branches[] = {halves, adds_one};
    kiln_tensor *y[2], *large;
    TRY_(is_large(NULL, in, 1, &large, 1));
    TRY_(kiln_cond(large, halves, adds_one, NULL, in, 1, y, 1));
    TRY_(kiln_switch(in[1], branches, 2, NULL, y, 1, y + 1, 1));
    TRY_(kiln_for(in[2], adds_one, NULL, y + 1, 1, NULL, y, 1));
    TRY_(kiln_while(is_large, halves, NULL, y, 1, NULL, y + 1, 1));
    kiln_tensor *all[] = {y[1], kiln_stack((kiln_tensor *[]){y[1], in[0]}, 2, 0)};
    return kiln_scan(adds_row, NULL, all, 2, KILN_SCAN(.carried = 1), out, 2);
}

static void control_flow(kiln_device *dev)
{
    for (int c = 0; c < N_CAPTURES; c++) {
        kiln_function *f = kiln_jit(flows, NULL, KILN_JIT(.capture = captures[c]));
        for (int i = 0; i < 6; i++) {
            kiln_tensor *in[] = {from(dev, NUMBERS(i, 0.25 * i), 1, (int64_t[]){2}), integer(dev, i % 2),
                                 integer(dev, i)};
            kiln_tensor *want[2], *got[2];
            must(flows(NULL, in, 3, want, 2));
            must(kiln_call(f, in, 3, got, 2));
            for (int k = 0; k < 2; k++) expect_same(got[k], want[k], "control flow");
        }
        if (captures[c] != KILN_CAPTURE_AUTO) assert_int_equal(jit_stats_of(f).captures, 1);
        kiln_function_free(&f);
    }
}

// A loop of the host over what is known is as many ops.
FN(unrolls)
{
    out[0] = in[0];
    for (int i = 0; i < *(int *)user; i++)
        if (i % 2 == 0) out[0] = kiln_add(kiln_mul(out[0], kiln_scalar(2)), kiln_scalar(i));
    return kiln_error();
}

static void loops_of_the_host(kiln_device *dev)
{
    for (int c = 0; c < 2; c++) {
        uint64_t nodes[2];
        for (int k = 0; k < 2; k++) {
            int trips = 3 + 4 * k;
            kiln_tensor *x = from(dev, NUMBERS(1, 2), 1, (int64_t[]){2}), *want, *got;
            kiln_function *f = kiln_jit(unrolls, &trips, KILN_JIT(.capture = captures[c]));
            must(unrolls(&trips, &x, 1, &want, 1));
            must(kiln_call(f, &x, 1, &got, 1));
            expect_same(got, want, "a loop of the host");
            nodes[k] = jit_stats_of(f).nodes;
            kiln_function_free(&f);
        }
        assert_int_equal(nodes[0], 4);
        assert_int_equal(nodes[1], 8);
    }
}

void capability_26(void **state)
{
    on_each_device(control_flow);
    on_each_device(loops_of_the_host);
}

// --- 49: what is no op is found while the function is captured, and is a call of the host then

static kiln_status largest(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    float v[3], most = -INFINITY;
    if (kiln_read(in[0], v, sizeof v)) return kiln_error();
    for (int i = 0; i < 3; i++) most = fmaxf(most, v[i]);
    if (user) ++*(int *)user;
    out[0] = kiln_from_data(kiln_tensor_device(in[0]), KILN_F32, 0, NULL, &most);
    return kiln_error();
}

static const kiln_host_spec one_float = {KILN_F32, 0, NULL};
static int host_line;

FN(reads_a_value)
{
    out[0] = kiln_mul(in[0], kiln_scalar(kiln_item(kiln_max(in[0], NULL))));
    return kiln_error();
}

FN(calls_the_host)
{
    kiln_tensor *most;
    host_line = __LINE__ + 1;
    TRY_(kiln_host_call(largest, user, in, 1, &one_float, &most, 1, KILN_HOST_READS, NULL));
    out[0] = kiln_mul(in[0], most);
    return kiln_error();
}

static void found_and_called(kiln_device *dev)
{
    kiln_tensor *x = from(dev, NUMBERS(1, 3, 2), 1, (int64_t[]){3}), *y;
    char line[40];
    kiln_function *f = kiln_jit(reads_a_value, NULL, NULL);
    kiln_call(f, &x, 1, &y, 1);
    EXPECT_ERROR(KILN_E_STATE, "item: ", "kiln_host_call", "host.c:");
    kiln_function_free(&f);
    for (int c = 0; c < N_CAPTURES; c++) {
        int calls = 0;
        f = kiln_jit(calls_the_host, &calls, KILN_JIT(.capture = captures[c]));
        for (int i = 1; i <= 3; i++) {
            must(kiln_call(f, &x, 1, &y, 1));
            EXPECT(y, 1e-6, 3, 9, 6);
            assert_int_equal(calls, i);
        }
        char *text = explanation_of(f);
        snprintf(line, sizeof line, "host_call at host.c:%d", host_line);
        if (captures[c] != KILN_CAPTURE_AUTO) assert_non_null(strstr(text, line));
        free(text);
        kiln_function_free(&f);
    }
}

void capability_49(void **state)
{
    on_each_device(found_and_called);
}

// --- 50: lax by default, strict is an error

FN(calls_undeclared)
{
    return kiln_host_call(largest, NULL, in, 1, NULL, out, 1, KILN_HOST_READS, NULL);
}

static void syntax(kiln_device *dev)
{
    kiln_tensor *x = from(dev, NUMBERS(1, 3, 2), 1, (int64_t[]){3}), *y;
    kiln_function *f = kiln_jit(calls_undeclared, NULL, NULL);
    must(kiln_call(f, &x, 1, &y, 1));
    EXPECT(y, 0, 3);
    kiln_function_free(&f);
    f = kiln_jit(calls_undeclared, NULL, KILN_JIT(.syntax = KILN_SYNTAX_STRICT));
    kiln_call(f, &x, 1, &y, 1);
    EXPECT_ERROR(KILN_E_STATE, "host_call: spec is NULL", "KILN_SYNTAX_STRICT");
    kiln_function_free(&f);
    f = kiln_jit(calls_the_host, NULL, KILN_JIT(.syntax = KILN_SYNTAX_STRICT));
    must(kiln_call(f, &x, 1, &y, 1));
    EXPECT(y, 1e-6, 3, 9, 6);
    kiln_function_free(&f);
}

void capability_50(void **state)
{
    on_each_device(syntax);
}

// --- 51: code of others gets tensors with their values, whatever views they are, and may write those that it declares

static kiln_status cumulates(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    float v[6];
    if (kiln_read(in[0], v, sizeof v)) return kiln_error();
    for (int i = 1; i < 6; i++) v[i] += v[i - 1];
    return kiln_write(in[0], v, sizeof v);
}

FN(lets_others_write)
{
    kiln_tensor *turned = kiln_transpose(in[0], 0, 1);
    TRY_(kiln_host_call(cumulates, NULL, &turned, 1, NULL, NULL, 0, *(unsigned *)user, NULL));
    out[0] = kiln_neg(in[0]);
    return kiln_error();
}

static void code_of_others(kiln_device *dev)
{
    for (int c = 0; c < N_CAPTURES; c++) {
        unsigned flags = KILN_HOST_WRITES;
        kiln_tensor *x = from(dev, NUMBERS(1, 2, 3, 4, 5, 6), 2, (int64_t[]){2, 3}), *y;
        kiln_function *f = kiln_jit(lets_others_write, &flags, KILN_JIT(.capture = captures[c]));
        must(kiln_call(f, &x, 1, &y, 1));
        EXPECT(x, 0, 1, 7, 15, 5, 12, 21); // along columns: 1 4 2 5 3 6
        EXPECT(y, 0, -1, -7, -15, -5, -12, -21);
        kiln_function_free(&f);
        flags = KILN_HOST_IO;
        f = kiln_jit(lets_others_write, &flags, KILN_JIT(.capture = captures[c]));
        kiln_call(f, &x, 1, &y, 1);
        EXPECT_ERROR(KILN_E_ARGUMENT, "fn writes in[0]", "KILN_HOST_WRITES");
        kiln_function_free(&f);
    }
}

void capability_51(void **state)
{
    on_each_device(code_of_others);
}

// --- 52 and 59: objects of the user's own, whose properties methods change, in order with parameters that are set

struct meter {
    int n;
    double seen[16];
    kiln_tensor *setting;
};

static kiln_status records(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct meter *m = user;
    double v = kiln_item(in[0]);
    if (m->n < 16) m->seen[m->n++] = v;
    return kiln_error();
}

FN(records_trip)
{
    struct meter *m = user;
    TRY_(kiln_host_call(records, m, &m->setting, 1, NULL, NULL, 0, KILN_HOST_WRITES, NULL));
    TRY_(kiln_assign(m->setting, kiln_mul(m->setting, kiln_scalar(2))));
    out[0] = kiln_add(in[1], m->setting);
    return kiln_error();
}

FN(uses_a_meter)
{
    struct meter *m = user;
    TRY_(kiln_assign(m->setting, kiln_scalar(1)));
    TRY_(kiln_host_call(records, m, &m->setting, 1, NULL, NULL, 0, KILN_HOST_IO, NULL));
    TRY_(kiln_assign(m->setting, kiln_scalar(3)));
    return kiln_for(kiln_scalar_int(3), records_trip, m, in, 1, NULL, out, 1);
}

static void objects(kiln_device *dev)
{
    static const double want[] = {1, 3, 6, 12};
    for (int c = 0; c < N_CAPTURES; c++) {
        struct meter m = {.setting = from(dev, NUMBERS(0), 0, NULL)};
        must(kiln_state(m.setting));
        kiln_tensor *x = from(dev, NUMBERS(1), 0, NULL), *y;
        kiln_function *f = kiln_jit(uses_a_meter, &m, KILN_JIT(.capture = captures[c]));
        for (int call = 1; call <= 3; call++) {
            must(kiln_call(f, &x, 1, &y, 1));
            EXPECT(y, 0, 43); // 1 + 6 + 12 + 24
            EXPECT(m.setting, 0, 24);
            assert_int_equal(m.n, 4 * call);
            for (int i = 0; i < 4; i++) assert_true(m.seen[4 * (call - 1) + i] == want[i]);
        }
        kiln_function_free(&f);
    }
}

void capability_52(void **state)
{
    on_each_device(objects);
}

void capability_59(void **state)
{
    on_each_device(objects);
}

// --- 53: operators on tensors and numbers of any dtype give in graphs what they give eagerly

typedef kiln_tensor *operator_fn(kiln_tensor *a, kiln_tensor *b);
static operator_fn *const operators[] = {kiln_add,           kiln_sub,       kiln_mul,         kiln_div,
                                         kiln_floor_divide,  kiln_remainder, kiln_pow,         kiln_equal,
                                         kiln_not_equal,     kiln_less,      kiln_less_equal,  kiln_greater,
                                         kiln_greater_equal, kiln_maximum,   kiln_logical_and, kiln_logical_or};
static operator_fn *const of_integers[] = {kiln_bitwise_and, kiln_bitwise_or, kiln_bitwise_xor, kiln_bitwise_left_shift,
                                           kiln_bitwise_right_shift};

// not, in and not in, y = x[0]
static kiln_tensor *negates(kiln_tensor *a, kiln_tensor *b)
{
    return kiln_logical_or(kiln_logical_not(a), kiln_logical_not(b));
}

static kiln_tensor *is_in(kiln_tensor *a, kiln_tensor *b)
{
    return kiln_isin(a, b);
}

static kiln_tensor *is_not_in(kiln_tensor *a, kiln_tensor *b)
{
    return kiln_logical_not(kiln_isin(a, b));
}

static kiln_tensor *first_of(kiln_tensor *a, kiln_tensor *b)
{
    return kiln_rank(a) ? kiln_add(kiln_select(a, 0, 0), kiln_select(b, 0, -1)) : kiln_select(b, 0, 0);
}

static operator_fn *const of_lists[] = {negates, is_in, is_not_in, first_of};

FN(applies)
{
    out[0] = (*(operator_fn *const *)user)(in[0], in[1]);
    return kiln_error();
}

static void agree_on(operator_fn *const *op, kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *in[] = {a, b}, *want, *got;
    kiln_status status = applies((void *)(uintptr_t)op, in, 2, &want, 1);
    kiln_error_clear();
    for (int c = 0; c < N_CAPTURES; c++) {
        kiln_function *f = kiln_jit(applies, (void *)(uintptr_t)op, KILN_JIT(.capture = captures[c]));
        assert_int_equal(kiln_call(f, in, 2, &got, 1), status);
        kiln_error_clear();
        if (!status) expect_same(got, want, "an operator");
        kiln_function_free(&f);
    }
}

static void operators_agree(kiln_device *dev)
{
    static const kiln_dtype dtypes[] = {KILN_BOOL, KILN_U8,  KILN_I8,   KILN_I16, KILN_I32,
                                        KILN_I64,  KILN_F16, KILN_BF16, KILN_F32, KILN_F64};
    enum { N = sizeof dtypes / sizeof *dtypes };
    for (int i = 0; i <= N; i++)
        for (int k = 0; k < N; k++) {
            if (i < N && i != k && k != (i + 3) % N && k != (i + 7) % N) continue; // all pairs would take minutes
            kiln_tensor *a =
                i < N ? kiln_cast(from(dev, NUMBERS(1, 3, 0), 1, (int64_t[]){3}), dtypes[i]) : kiln_scalar_int(3);
            kiln_tensor *b = kiln_cast(from(dev, NUMBERS(2, 1, 1), 1, (int64_t[]){3}), dtypes[k]);
            for (size_t o = 0; o < sizeof operators / sizeof *operators; o++) agree_on(&operators[o], a, b);
            bool integers = (i == N || dtypes[i] < KILN_F16) && dtypes[k] < KILN_F16;
            for (size_t o = 0; o < 5 && integers; o++) agree_on(&of_integers[o], a, b);
            for (size_t o = 0; o < 4; o++) agree_on(&of_lists[o], a, b);
        }
}

void capability_53(void **state)
{
    on_each_device(operators_agree);
}

// --- 58: a condition that the host computes

static kiln_status is_ordered(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    float v[3];
    if (kiln_read(in[0], v, sizeof v)) return kiln_error();
    uint8_t yes = v[0] <= v[1] && v[1] <= v[2];
    out[0] = kiln_from_data(kiln_tensor_device(in[0]), KILN_BOOL, 0, NULL, &yes);
    return kiln_error();
}

FN(chooses_by_host)
{
    const kiln_host_spec truth = {KILN_BOOL, 0, NULL};
    kiln_tensor *ordered;
    TRY_(kiln_host_call(is_ordered, NULL, in, 1, &truth, &ordered, 1, KILN_HOST_PURE, NULL));
    return kiln_cond(ordered, halves, adds_one, NULL, in, 1, out, 1);
}

// As long as, and as often as, the host says.
static kiln_status count_below(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    float v[3];
    int64_t n = 0;
    if (kiln_read(in[0], v, sizeof v)) return kiln_error();
    for (int i = 0; i < 3; i++) n += v[i] < 20;
    uint8_t yes = n > 0;
    out[0] = user ? kiln_from_data(kiln_tensor_device(in[0]), KILN_I64, 0, NULL, &n)
                  : kiln_from_data(kiln_tensor_device(in[0]), KILN_BOOL, 0, NULL, &yes);
    return kiln_error();
}

FN(goes_on_by_host)
{
    const kiln_host_spec truth = {KILN_BOOL, 0, NULL};
    return kiln_host_call(count_below, NULL, in, 1, &truth, out, 1, KILN_HOST_PURE, NULL);
}

FN(adds_five)
{
    out[0] = kiln_add(in[n_in - 1], kiln_scalar(5));
    return kiln_error();
}

FN(loops_by_host)
{
    static int counts;
    const kiln_host_spec number = {KILN_I64, 0, NULL};
    kiln_tensor *n, *y;
    TRY_(kiln_host_call(count_below, &counts, in, 1, &number, &n, 1, KILN_HOST_PURE, NULL));
    TRY_(kiln_for(n, adds_one, NULL, in, 1, NULL, &y, 1));
    return kiln_while(goes_on_by_host, adds_five, NULL, &y, 1, NULL, out, 1);
}

static void loops_of_what_the_host_says(kiln_device *dev)
{
    for (int c = 0; c < N_CAPTURES; c++) {
        kiln_function *f = kiln_jit(loops_by_host, NULL, KILN_JIT(.capture = captures[c]));
        for (int i = 0; i < 3; i++) {
            kiln_tensor *x = from(dev, NUMBERS(2, 30, 10 * i), 1, (int64_t[]){3}), *want, *y;
            must(loops_by_host(NULL, &x, 1, &want, 1));
            must(kiln_call(f, &x, 1, &y, 1));
            expect_same(y, want, "a loop by what the host says");
        }
        kiln_function_free(&f);
    }
}

static void conditions_of_the_host(kiln_device *dev)
{
    for (int c = 0; c < N_CAPTURES; c++) {
        kiln_function *f = kiln_jit(chooses_by_host, NULL, KILN_JIT(.capture = captures[c]));
        for (int i = 0; i < 4; i++) {
            kiln_tensor *x = from(dev, NUMBERS(2, i % 2 ? 4 : 0, 6), 1, (int64_t[]){3}), *y;
            must(kiln_call(f, &x, 1, &y, 1));
            if (i % 2)
                EXPECT(y, 0, 1, 2, 3);
            else
                EXPECT(y, 0, 3, 1, 7);
        }
        if (captures[c] != KILN_CAPTURE_AUTO) assert_int_equal(jit_stats_of(f).captures, 1);
        kiln_function_free(&f);
    }
}

void capability_58(void **state)
{
    on_each_device(conditions_of_the_host);
    on_each_device(loops_of_what_the_host_says);
}

// --- 60: gradients by a rule; without one none goes through

static kiln_status cubes(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(in[0], kiln_square(in[0]));
    return kiln_error();
}

static kiln_status cube_slope(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                              kiln_tensor **din)
{
    din[0] = kiln_mul(dout[0], kiln_mul(kiln_scalar(3), kiln_square(in[0])));
    return kiln_error();
}

FN(uses_cubes)
{
    const kiln_host_spec two = {KILN_F32, 1, (const int64_t[]){2}};
    kiln_tensor *y;
    TRY_(kiln_host_call(cubes, NULL, in, 1, &two, &y, 1, KILN_HOST_PURE, user ? cube_slope : NULL));
    out[0] = kiln_sum(kiln_add(y, in[0]), NULL);
    return kiln_error();
}

static kiln_function *differentiated;

FN(calls_differentiated)
{
    return kiln_call(differentiated, in, n_in, out, n_out);
}

static void derivation(kiln_device *dev)
{
    kiln_tensor *x = from(dev, NUMBERS(2, -1), 1, (int64_t[]){2}), *y[2];
    listen_to_log();
    for (int rule = 0; rule < 2; rule++) {
        void *user = rule ? dev : NULL;
        must(kiln_value_and_grad(uses_cubes, user, &x, 1, NULL, y, 2));
        for (int c = -1; c < N_CAPTURES; c++) {
            if (c >= 0) {
                differentiated = kiln_jit(uses_cubes, user, KILN_JIT(.capture = captures[c]));
                must(kiln_value_and_grad(calls_differentiated, NULL, &x, 1, NULL, y, 2));
                kiln_function_free(&differentiated);
            }
            EXPECT(y[0], 1e-6, 8);
            if (rule)
                EXPECT(y[1], 1e-6, 13, 4);
            else
                EXPECT(y[1], 1e-6, 1, 1);
        }
    }
    assert_non_null(strstr(warned, "has no rule: no gradient goes through it"));
    differentiated = kiln_jit(uses_cubes, NULL, KILN_JIT(.syntax = KILN_SYNTAX_STRICT));
    kiln_value_and_grad(calls_differentiated, NULL, &x, 1, NULL, y, 2);
    EXPECT_ERROR(KILN_E_GRADIENT, "host_call: at ", "there is no rule", "KILN_SYNTAX_STRICT");
    kiln_function_free(&differentiated);
}

void capability_60(void **state)
{
    on_each_device(derivation);
}

// --- 61 and 62, D2: results of no type are f64, declared ones are what is declared

static kiln_status adds(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(in[0], in[1]);
    return kiln_error();
}

FN(annotated)
{
    kiln_tensor *declared[2], *any;
    for (int i = 0; i < 2; i++)
        TRY_(kiln_host_call(adds, NULL, in, 2, &one_float, &declared[i], 1, KILN_HOST_READS, NULL));
    TRY_(kiln_host_call(adds, NULL, in, 2, NULL, &any, 1, KILN_HOST_READS, NULL));
    for (int i = 0; i < 2; i++) out[i] = kiln_abs(declared[i]);
    out[2] = kiln_abs(any);
    out[3] = kiln_abs(kiln_add(any, kiln_scalar(0)));
    return kiln_error();
}

static void annotation(kiln_device *dev)
{
    for (int c = -1; c < N_CAPTURES; c++) {
        kiln_tensor *in[] = {kiln_full(dev, KILN_I32, KILN_SHAPE0, -1), kiln_full(dev, KILN_F32, KILN_SHAPE0, -1)},
                    *y[4];
        kiln_function *f = c < 0 ? NULL : kiln_jit(annotated, NULL, KILN_JIT(.capture = captures[c]));
        must(f ? kiln_call(f, in, 2, y, 4) : annotated(NULL, in, 2, y, 4));
        for (int i = 0; i < 4; i++) {
            assert_int_equal(kiln_tensor_dtype(y[i]), i < 2 ? KILN_F32 : KILN_F64);
            assert_true(kiln_item(y[i]) == 2);
        }
        kiln_function_free(&f);
    }
}

void capability_61(void **state)
{
    on_each_device(annotation);
}

// What is declared is checked.
FN(wrongly_annotated)
{
    const kiln_host_spec wrong = {KILN_F32, 1, (const int64_t[]){2}};
    return kiln_host_call(adds, NULL, in, 2, &wrong, out, 1, KILN_HOST_READS, NULL);
}

static void wrong_annotation(kiln_device *dev)
{
    annotation(dev);
    for (int c = -1; c < N_CAPTURES; c++) {
        kiln_tensor *in[] = {kiln_full(dev, KILN_F32, KILN_SHAPE0, -1), kiln_full(dev, KILN_F32, KILN_SHAPE0, -1)}, *y;
        kiln_function *f = c < 0 ? NULL : kiln_jit(wrongly_annotated, NULL, KILN_JIT(.capture = captures[c]));
        f ? kiln_call(f, in, 2, &y, 1) : wrongly_annotated(NULL, in, 2, &y, 1);
        EXPECT_ERROR(KILN_E_SHAPE, "output 0 of fn is f32[], spec says f32[2]");
        kiln_function_free(&f);
    }
}

// Containers are declared as they are given.
static kiln_status adds_bundle(void *user, kiln_bundle *in, kiln_bundle **out)
{
    kiln_tensor *sum = kiln_add(kiln_bundle_tensor_at(in, 0), kiln_bundle_tensor_at(in, 1));
    *out = kiln_bundle_create();
    kiln_bundle_set(*out, "list", KILN_BUNDLE(kiln_bundle_of((kiln_tensor *[]){sum, kiln_neg(sum)}, 2)));
    return kiln_bundle_set(*out, "name", KILN_STRING(user ? "other" : "sum"));
}

FN(annotated_list)
{
    kiln_tensor *like[] = {in[1], in[1]};
    kiln_bundle *spec = kiln_bundle_create(), *given = kiln_bundle_of(in, 2), *made, *any;
    must(kiln_bundle_set(spec, "list", KILN_BUNDLE(kiln_bundle_of(like, 2))));
    must(kiln_bundle_set(spec, "name", KILN_STRING("sum")));
    TRY_(kiln_bundle_host_call(adds_bundle, user, given, spec, &made, KILN_HOST_READS, NULL));
    TRY_(kiln_bundle_host_call(adds_bundle, user, given, NULL, &any, KILN_HOST_READS, NULL));
    for (int i = 0; i < 2; i++) {
        out[i] = kiln_abs(kiln_bundle_tensor_at(kiln_bundle_bundle(made, "list"), i));
        out[2 + i] = kiln_abs(kiln_bundle_tensor_at(kiln_bundle_bundle(any, "list"), i));
    }
    return kiln_error();
}

static void annotation_of_containers(kiln_device *dev)
{
    for (int c = -1; c < N_CAPTURES; c++)
        for (int wrong = 0; wrong < 2; wrong++) {
            kiln_tensor *y[4],
                *in[] = {kiln_full(dev, KILN_I32, KILN_SHAPE0, -1), kiln_full(dev, KILN_F32, KILN_SHAPE0, -1)};
            void *user = wrong ? dev : NULL;
            kiln_function *f = c < 0 ? NULL : kiln_jit(annotated_list, user, KILN_JIT(.capture = captures[c]));
            kiln_status status = f ? kiln_call(f, in, 2, y, 4) : annotated_list(user, in, 2, y, 4);
            if (wrong)
                EXPECT_ERROR(KILN_E_ARGUMENT, "out[\"name\"] of fn is \"other\", spec says \"sum\"");
            else
                must(status);
            for (int i = 0; i < 4 && !wrong; i++) {
                assert_int_equal(kiln_tensor_dtype(y[i]), i < 2 ? KILN_F32 : KILN_F64);
                assert_true(kiln_item(y[i]) == 2);
            }
            kiln_function_free(&f);
        }
}

void capability_62(void **state)
{
    on_each_device(wrong_annotation);
    on_each_device(annotation_of_containers);
}

// --- D7: arrays of the host, computed while the function is captured

static kiln_status up_to_two(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    int64_t x = kiln_item_int(in[0]);
    if (x <= 1) x += 1;
    out[0] = kiln_from_data(kiln_tensor_device(in[0]), KILN_I64, 0, NULL, &x);
    ++*(int *)user;
    return kiln_error();
}

FN(fallback)
{
    kiln_device *dev = kiln_tensor_device(in[0]);
    const kiln_host_spec number = {KILN_I64, 0, NULL}, three = {KILN_I64, 1, (const int64_t[]){3}};
    kiln_tensor *x = kiln_from_data(dev, KILN_I64, 0, NULL, (int64_t[]){1});
    kiln_tensor *arrays[] = {kiln_from_data(dev, KILN_I64, KILN_SHAPE(3), (int64_t[]){1, 2, 3}),
                             kiln_from_data(dev, KILN_I64, KILN_SHAPE(3), (int64_t[]){4, 5, 6})};
    TRY_(kiln_host_call(up_to_two, user, &x, 1, &number, out, 1, KILN_HOST_PURE, NULL));
    TRY_(kiln_host_call(adds, NULL, arrays, 2, &three, out + 1, 1, KILN_HOST_PURE, NULL));
    out[2] = kiln_reshape(in[0], KILN_SHAPE(2, 2));
    return kiln_error();
}

static void arrays_of_the_host(kiln_device *dev)
{
    for (int c = 0; c < N_CAPTURES; c++) {
        int calls = 0;
        kiln_tensor *a = from(dev, NUMBERS(1, 2, 3, 4), 1, (int64_t[]){4}), *y[3];
        kiln_function *f = kiln_jit(fallback, &calls, KILN_JIT(.capture = captures[c]));
        for (int i = 0; i < 3; i++) {
            must(kiln_call(f, &a, 1, y, 3));
            EXPECT(y[0], 0, 2);
            EXPECT(y[1], 0, 5, 7, 9);
            assert_int_equal(kiln_rank(y[2]), 2);
            assert_int_equal(kiln_dims(y[2])[0], 2);
        }
        if (captures[c] != KILN_CAPTURE_AUTO) assert_int_equal(calls, 1);
        kiln_function_free(&f);
    }
}

void capability_fallback(void **state)
{
    on_each_device(arrays_of_the_host);
}
