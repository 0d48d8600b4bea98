// Every differentiable row against central differences in f64, first and second order. Elementwise rows are drawn from
// their domains; structured rows have cases below. A row that is differentiable and has no case fails.
#include "ops/elementwise.h"
#include "matrices.h"
#include "row_case.h"
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

static kiln_device *dev;

static int teardown(void **state)
{
    kiln_device_close(&dev);
    return kiln_error() ? -1 : 0;
}

// Draws without a pattern, the same each time; none lies on a kink.
static kiln_tensor *draw(size_t rank, const int64_t *dims, double lo, double hi, double seed)
{
    double v[512];
    int64_t n = 1;
    for (size_t i = 0; i < rank; i++) n *= dims[i];
    for (int64_t i = 0; i < n; i++) v[i] = lo + (hi - lo) * fmod(seed + (double)(i + 1) * 0.7548776662466927, 1.0);
    return kiln_from_data(dev, KILN_F64, rank, dims, v);
}

// Elementwise rows

static kiln_status run_row(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct op *op = user;
    struct attr attrs[ELEMENTWISE_MAX_PARAMS];
    for (int i = 0; i < op->n_attrs; i++) attrs[i] = attr_of_float(0.7 + 0.6 * i);
    out[0] = op_apply1(op, NULL, (int)n_in, in, attrs);
    return kiln_error();
}

static bool is_select(const struct op *op)
{
    return op->elementwise->type == TYPE_SELECT;
}

static kiln_tensor *row_input(const struct op *op, int i)
{
    static const uint8_t mask[] = {1, 0, 1, 1, 0, 0};
    const double *domain = op->elementwise->domain[i];
    double lo = domain[0] == domain[1] ? -3 : domain[0], hi = domain[0] == domain[1] ? 3 : domain[1];
    if (is_select(op) && i == 0) return kiln_from_data(dev, KILN_BOOL, KILN_SHAPE(2, 3), mask);
    // The second operand is broadcast.
    return i == 1 ? draw(KILN_SHAPE(3), lo, hi, 0.31) : draw(KILN_SHAPE(2, 3), lo, hi, 0.17 * (i + 1));
}

// Rows whose second derivative is not offered, and why.
static const char *const first_order_only[] = {
    "trigamma", // the derivative of its derivative, tetragamma, is no op
};

static int order_of(const struct op *op)
{
    for (size_t i = 0; i < sizeof first_order_only / sizeof *first_order_only; i++)
        if (!strcmp(first_order_only[i], op->name)) return 1;
    return 2;
}

static void elementwise_rows_match_differences(void **state)
{
    int failed = 0, checked = 0;
    for (int i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        if (!op->elementwise || !op->gradients || (op->flags & OP_HIDDEN)) continue;
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *in[3];
        for (int k = 0; k < op->max_in; k++) in[k] = row_input(op, k);
        kiln_gradcheck(run_row, (void *)(uintptr_t)op, in, op->max_in,
                       KILN_GRADCHECK(.eps = 1e-5, .rtol = 1e-7, .atol = 1e-8, .order = order_of(op)));
        if (kiln_error()) {
            print_error("%s: %s\n", op->name, kiln_error_message());
            kiln_error_clear();
            failed++;
        }
        checked++;
        kiln_scope_end(&scope);
    }
    assert_int_equal(failed, 0);
    assert_true(checked > 60);
}

static bool needs_result(const struct op *op)
{
    for (int i = 0; i < op->max_in; i++)
        for (int k = 0; k < op->gradients[i].n_in; k++)
            if (op->gradients[i].from[k] == GRADIENT_Y) return true;
    return false;
}

// An op in place has the gradients of its twin, also where it overwrites what its rule needs.
static kiln_status run_in_place(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct op *op = user;
    kiln_tensor *args[3] = {kiln_mul(in[0], kiln_scalar(1))};
    for (size_t i = 1; i < n_in; i++) args[i] = kiln_add(in[i], kiln_sum(kiln_mul(in[0], kiln_scalar(0.25)), NULL));
    if (op_apply_inplace(op, (int)n_in, args, NULL)) return kiln_error();
    // Once more, with itself; what is kept of the first result would not survive that.
    kiln_tensor *twice[] = {args[0], args[0], args[2]};
    if (n_in > 1 && !needs_result(op) && op_apply_inplace(op, (int)n_in, twice, NULL)) return kiln_error();
    out[0] = args[0];
    return kiln_error();
}

static void in_place_twins_match_differences(void **state)
{
    int failed = 0, checked = 0;
    for (int i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        if (!op->elementwise || !op->gradients || !(op->flags & OP_INPLACE)) continue;
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *in[3] = {draw(KILN_SHAPE(2, 3), 0.4, 1.5, 0.4), draw(KILN_SHAPE(3), 0.4, 1.5, 0.1),
                              draw(KILN_SHAPE(3), 0.4, 1.5, 0.7)};
        kiln_gradcheck(run_in_place, (void *)(uintptr_t)op, in, op->max_in, KILN_GRADCHECK(.order = 2, .atol = 1e-6));
        if (kiln_error()) {
            print_error("%s_: %s\n", op->name, kiln_error_message());
            kiln_error_clear();
            failed++;
        }
        checked++;
        kiln_scope_end(&scope);
    }
    assert_int_equal(failed, 0);
    assert_true(checked >= 9);
}

// First derivatives alone, element by element, against differences of fourth order: right to nine digits, which tells a
// wrong constant from a rounded one.

#define POINTS 64
#define STEP   1e-3

static void values_at(const struct op *op, double (*x)[POINTS], int moved, double by, double *y)
{
    kiln_tensor *in[3], *out;
    kiln_scope *scope = kiln_scope_begin();
    for (int i = 0; i < op->max_in; i++) {
        double v[POINTS];
        bool mask[POINTS];
        for (int k = 0; k < POINTS; k++) v[k] = x[i][k] + (i == moved ? by : 0), mask[k] = k % 3 > 0;
        bool condition = is_select(op) && i == 0;
        in[i] = kiln_from_data(dev, condition ? KILN_BOOL : KILN_F64, KILN_SHAPE(POINTS),
                               condition ? (void *)mask : (void *)v);
    }
    if (!run_row((void *)(uintptr_t)op, in, op->max_in, &out, 1)) kiln_read(out, y, sizeof(double) * POINTS);
    kiln_scope_end(&scope);
}

static void slopes_at(const struct op *op, double (*x)[POINTS], int input, double step, double *slope)
{
    double y[4][POINTS];
    for (int k = 0; k < 4; k++) values_at(op, x, input, step * (k < 2 ? k - 2 : k - 1), y[k]);
    for (int k = 0; k < POINTS; k++) slope[k] = (8 * (y[2][k] - y[1][k]) - (y[3][k] - y[0][k])) / (12 * step);
}

static void gradients_at(const struct op *op, double (*x)[POINTS], int input, double *g)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *in[3], *grad;
    for (int i = 0; i < op->max_in; i++) {
        bool mask[POINTS], condition = is_select(op) && i == 0;
        for (int k = 0; k < POINTS; k++) mask[k] = k % 3 > 0;
        in[i] = kiln_from_data(dev, condition ? KILN_BOOL : KILN_F64, KILN_SHAPE(POINTS),
                               condition ? (void *)mask : (void *)x[i]);
    }
    if (!kiln_grad(run_row, (void *)(uintptr_t)op, in, op->max_in, KILN_GRAD(.wrt = KILN_ARGS(input)), &grad, 1))
        kiln_read(grad, g, sizeof(double) * POINTS);
    kiln_scope_end(&scope);
}

// How many of the points are wrong. Where two steps disagree, a kink lies between the points of the difference.
static int wrong_slopes(const struct op *op, double (*x)[POINTS], int input)
{
    double near[POINTS], far[POINTS], g[POINTS];
    int wrong = 0, smooth = 0;
    slopes_at(op, x, input, STEP / 2, near);
    slopes_at(op, x, input, STEP, far);
    gradients_at(op, x, input, g);
    if (kiln_error()) return 1;
    for (int k = 0; k < POINTS; k++) {
        if (!(fabs(near[k] - far[k]) <= 1e-9 * fmax(1, fabs(near[k])))) continue;
        smooth++;
        if (fabs(g[k] - near[k]) <= 1e-9 * fmax(1, fabs(near[k]))) continue;
        if (!wrong++)
            print_error("%s by input %d at (%g, %g, %g): %.12g, differences give %.12g\n", op->name, input, x[0][k],
                        x[1][k], x[2][k], g[k], near[k]);
    }
    if (smooth < POINTS * 3 / 4) print_error("%s by input %d: smooth at %d points only\n", op->name, input, smooth);
    return wrong + (smooth < POINTS * 3 / 4);
}

static void elementwise_slopes_are_right_to_nine_digits(void **state)
{
    int wrong = 0, checked = 0;
    for (int i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        double x[3][POINTS] = {{0}};
        if (!op->elementwise || !op->gradients || (op->flags & OP_HIDDEN)) continue;
        for (int k = 0; k < op->max_in; k++) {
            const double *domain = op->elementwise->domain[k];
            double lo = domain[0] == domain[1] ? -3 : domain[0], hi = domain[0] == domain[1] ? 3 : domain[1];
            for (int p = 0; p < POINTS; p++)
                x[k][p] = lo + (hi - lo) * fmod(0.21 + 0.37 * k + (p + 1) * (k ? 0.5698402909980532 : 0.618034), 1);
        }
        for (int k = is_select(op); k < op->max_in; k++, checked++) wrong += wrong_slopes(op, x, k);
        if (kiln_error()) print_error("%s: %s\n", op->name, kiln_error_message());
        kiln_error_clear();
    }
    assert_int_equal(wrong, 0);
    assert_true(checked > 80);
}

// Structured rows

static kiln_tensor *places(int64_t rows, int64_t cols, const int64_t *v)
{
    return kiln_from_data(dev, KILN_I64, KILN_SHAPE(rows, cols), v);
}

static kiln_tensor *sorted(kiln_tensor *x)
{
    kiln_tensor *values, *indices;
    return kiln_sort(x, 1, true, &values, &indices) ? NULL : values;
}

static kiln_tensor *largest_two(kiln_tensor *x)
{
    kiln_tensor *values, *indices;
    return kiln_topk(x, 2, 1, true, &values, &indices) ? NULL : values;
}

// The same numbers at every call.
static kiln_tensor *dropped(kiln_tensor *x)
{
    kiln_seed(dev, 7);
    return kiln_square(kiln_dropout(x, 0.3));
}

#define curved kiln_square // so that there is a second derivative
#include "grad_cases.h"

#define CASE(op, id, order, ...) {#op, case_##id, order, __VA_ARGS__},
static const struct row_case cases[] = {
#include "grad_cases.def"
};
#undef CASE

static size_t case_inputs(const struct row_case *c, kiln_tensor **in)
{
    double lo = c->lo == c->hi ? -2 : c->lo, hi = c->lo == c->hi ? 2 : c->hi;
    size_t n = 0;
    for (const char *p = c->shapes; p; n++) {
        int64_t dims[KILN_MAX_RANK];
        size_t rank = row_case_shape(&p, dims);
        in[n] = draw(rank, dims, lo, hi, 0.23 * (double)(n + 1));
    }
    return n;
}

static void structured_rows_match_differences(void **state)
{
    int failed = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *in[ROW_CASE_INPUTS];
        size_t n = case_inputs(&cases[i], in);
        kiln_gradcheck(cases[i].fn, NULL, in, n,
                       KILN_GRADCHECK(.eps = 1e-5, .rtol = 1e-7, .atol = 1e-8, .order = cases[i].order));
        if (kiln_error()) {
            print_error("%s (case %zu): %s\n", cases[i].op, i, kiln_error_message());
            kiln_error_clear();
            failed++;
        }
        kiln_scope_end(&scope);
    }
    assert_int_equal(failed, 0);
}

static bool has_case(const char *op)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(cases[i].op, op)) return true;
    return false;
}

static void every_structured_row_has_a_case(void **state)
{
    // Rows that are no function of their own: tested with the semantics of writes and devices, and with graphs.
    static const char *const elsewhere[] = {"assign",     "at_place", "call",   "host_call", "host_value",
                                            "if_arrived", "loop",     "switch", "to_device"};
    int missing = 0;
    for (int i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        if (op->elementwise || (op->flags & (OP_ZERO_GRAD | OP_CREATES))) continue;
        bool known = has_case(op->name);
        for (size_t k = 0; k < sizeof elsewhere / sizeof *elsewhere; k++) known |= !strcmp(elsewhere[k], op->name);
        if (known) continue;
        print_error("%s is differentiable and has no case in grad_cases.def\n", op->name);
        missing++;
    }
    assert_int_equal(missing, 0);
}

int main(int argc, char **argv)
{
    dev = kiln_device_open(argc > 1 ? argv[1] : "cpu");
    if (!dev) {
        fprintf(stderr, "%s\n", kiln_error_message());
        return argc > 1 ? 77 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise_rows_match_differences),
        cmocka_unit_test(elementwise_slopes_are_right_to_nine_digits),
        cmocka_unit_test(in_place_twins_match_differences),
        cmocka_unit_test(structured_rows_match_differences),
        cmocka_unit_test(every_structured_row_has_a_case),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
