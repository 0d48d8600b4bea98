// Every elementwise op x dtypes x layouts against reference.def, through its public function.
#include "conformance/elementwise.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// One call: operands with values, how they lie on the device, and what the message calls it.
struct call {
    const struct row *row;
    struct host in[3];
    enum host_layout layout[3];
    int weak; // operand that is a weak scalar, -1: none
    const char *what;
};

static void describe(const struct call *c, char *buf, size_t cap)
{
    size_t n = (size_t)snprintf(buf, cap, "%s(", c->row->op->name);
    for (int i = 0; i < c->row->n_in && n < cap; i++) {
        char shape[100];
        host_shape_text(shape, sizeof shape, c->in[i].rank, c->in[i].dims);
        n += (size_t)snprintf(buf + n, cap - n, "%s%s%s%s", i ? ", " : "", i == c->weak ? "weak " : "",
                              kiln_dtype_name((kiln_dtype)c->in[i].dtype), shape);
    }
    if (n < cap) snprintf(buf + n, cap - n, ") %s", c->what);
}

// Whether all operands lie where the row's bound is meant to hold.
static bool in_domain(const struct row *r, const long double *v)
{
    for (int i = 0; i < r->n_in; i++) {
        double low, high;
        row_domain(r, i, KILN_F64, &low, &high);
        if (!(v[i] >= low && v[i] <= high)) return false;
    }
    return true;
}

// How far a result may lie from the exact one, in units of its own last place. A bound of 0 claims correct rounding.
// 16-bit floats compute in f32 and round once more: half a unit, and what the f32 error amounts to.
static long double allowed_ulp(const struct row *r, int compute, int result)
{
    long double bound = r->e->ulp[compute == KILN_F64];
    if (bound < 0.5L) bound = 0.5L;
    if (fraction_bits(result) < 24) return 0.5L + scalbnl(bound, fraction_bits(result) - 24) + 0x1p-20L;
    return bound + 0x1p-10L;
}

// The error against the largest of the result and the operands, in units of the last place of the result's dtype at
// that size.
static long double error_by_size(const struct row *r, int result, const long double *v, long double got,
                                 long double exact)
{
    long double size = fabsl(exact);
    for (int i = 0; i < r->n_in; i++) size = fmaxl(size, fabsl(v[i]));
    return fabsl(got - exact) / size * scalbnl(1, fraction_bits(result) - 1);
}

static bool may_overflow(const struct row *r, int result, const long double *v)
{
    for (int i = 0; i < r->n_in; i++)
        if (fabsl(v[i]) >= scalbnl(1, greatest_exponent(result) - 3)) return true;
    return false;
}

// Whether a result past its bound in ULP is one of those that the flags of the reference speak of.
static bool is_excused(const struct row *r, int compute, int result, const long double *v, long double got,
                       long double exact)
{
    unsigned flags = r->ref->flags;
    bool infinite = false, nan = isnan(got) || isnan(exact), inside = in_domain(r, v);
    for (int i = 0; i < r->n_in; i++) infinite |= isinf(v[i]) != 0;
    if ((flags & NO_LIMITS) && infinite) return true;
    if (nan) return false;
    if ((flags & NEAR) && !inside && isinf(got)) return may_overflow(r, result, v);
    if (!((flags & CANCELS) || ((flags & NEAR) && !inside)) || isinf(got)) return false;
    return error_by_size(r, result, v, got, exact) <= 8;
}

// NULL when `got` is right, else what is wrong.
static const char *judge(const struct row *r, int compute, int result, const long double *v, long double got,
                         long double exact)
{
    if (!is_float(result)) return got == exact ? NULL : "differs";
    long double error = error_ulp(result, got, exact), allowed = allowed_ulp(r, compute, result);
    if (!(error <= allowed)) return is_excused(r, compute, result, v, got, exact) ? NULL : "is past the bound";
    if (error > record.worst_ulp[compute == KILN_F64] && fraction_bits(result) >= 24)
        record.worst_ulp[compute == KILN_F64] = error;
    bool exact_zero = exact == 0 && got == 0 && !(r->ref->flags & ANY_ZERO);
    return exact_zero && !signbit(exact) != !signbit(got) ? "has the wrong zero" : NULL;
}

static void compare(const struct call *c, int compute, const struct host *got)
{
    const struct row *r = c->row;
    char text[256];
    for (int64_t i = 0; i < got->n; i++) {
        long double v[3] = {0};
        for (int k = 0; k < r->n_in; k++) v[k] = c->in[k].v[host_at(&c->in[k], got->rank, got->dims, i)];
        long double exact = row_exact(r, compute, got->dtype, v);
        record.values++;
        const char *wrong = judge(r, compute, got->dtype, v, got->v[i], exact);
        if (!wrong) continue;
        describe(c, text, sizeof text);
        if (is_float(got->dtype))
            record_mistake("%s at (%.9Lg, %.9Lg, %.9Lg): %.9Lg, exact %.9Lg: %.2Lf ULP, %s", text, v[0], v[1], v[2],
                           got->v[i], exact, error_ulp(got->dtype, got->v[i], exact), wrong);
        else
            record_mistake("%s at (%.9Lg, %.9Lg, %.9Lg): %.20Lg, expected %.20Lg", text, v[0], v[1], v[2], got->v[i],
                           exact);
    }
}

static int broadcast_shape(const struct call *c, int64_t *dims)
{
    int rank = 0;
    for (int i = 0; i < c->row->n_in; i++)
        if (c->in[i].rank > rank) rank = c->in[i].rank;
    for (int d = 0; d < rank; d++) {
        dims[d] = 1;
        for (int i = 0; i < c->row->n_in; i++) {
            int own = d - (rank - c->in[i].rank);
            if (own >= 0 && c->in[i].dims[own] != 1) dims[d] = c->in[i].dims[own];
        }
    }
    return rank;
}

static kiln_tensor *weak_scalar(const struct host *h)
{
    if (h->dtype == KILN_BOOL) return kiln_scalar_bool(h->v[0] != 0);
    return is_float(h->dtype) ? kiln_scalar((double)h->v[0]) : kiln_scalar_int(integer_bits(h->v[0]));
}

// Runs a call and compares type and values. Operand dtypes are those of c->in; a weak operand does not count for the
// result's.
static void run_call(const struct call *c)
{
    const struct row *r = c->row;
    char text[256];
    int dtypes[3], strong = -1;
    int64_t dims[HOST_MAX_RANK];
    kiln_tensor *in[3];
    kiln_scope *scope = kiln_scope_begin();
    for (int i = 0; i < r->n_in; i++) {
        in[i] = i == c->weak ? weak_scalar(&c->in[i]) : host_tensor(suite.dev, &c->in[i], c->layout[i]);
        dtypes[i] = c->in[i].dtype;
        if (i != c->weak && !row_is_condition(r, i)) strong = i;
    }
    // A weak scalar takes the dtype of the others; alone it is f32, i64 or bool.
    if (c->weak >= 0 && !row_is_condition(r, c->weak)) {
        int own = is_float(dtypes[c->weak]) ? KILN_F32 : dtypes[c->weak] == KILN_BOOL ? KILN_BOOL : KILN_I64;
        dtypes[c->weak] = strong >= 0 ? c->in[strong].dtype : own;
    }
    int compute = row_compute_dtype(r, dtypes), result = row_result_dtype(r, compute), rank = broadcast_shape(c, dims);
    describe(c, text, sizeof text);
    record.cases++;
    kiln_tensor *out = kiln_error() ? NULL : row_call(r, in);
    if (no_error(text) && same_type(out, result, rank, dims, text)) {
        struct host got = host_read(out);
        if (no_error(text) && !suite.is_null) compare(c, compute, &got);
        host_free(&got);
    }
    kiln_scope_end(&scope);
}

static void free_call(struct call *c)
{
    for (int i = 0; i < c->row->n_in; i++) host_free(&c->in[i]);
}

static int operand_dtype(const struct row *r, int input, int dtype)
{
    return row_is_condition(r, input) ? KILN_BOOL : dtype;
}

// --- values: special ones in all combinations, the row's domain, the whole range of the dtype

static long double wide_value(int dtype, struct random *rng)
{
    if (dtype == KILN_BOOL) return (long double)random_below(rng, 2);
    if (!is_float(dtype)) return wrapped(dtype, (int64_t)(random_bits(rng) >> random_below(rng, 64)));
    int e = least_exponent(dtype) + (int)random_below(rng, greatest_exponent(dtype) - least_exponent(dtype) + 1);
    long double v = scalbnl(random_between(rng, 1, 2), e);
    return quantized(dtype, random_below(rng, 2) ? -v : v);
}

static void fill_values(struct call *c, int dtype, struct random *rng)
{
    const struct row *r = c->row;
    enum { DOMAIN = 600, WIDE = 400 };
    long double special[3][32];
    int n[3] = {1, 1, 1};
    for (int i = 0; i < r->n_in; i++)
        n[i] = special_values(operand_dtype(r, i, dtype), special[i], r->n_in == 1 ? 32 : r->n_in == 2 ? 24 : 9);
    int64_t total = (int64_t)n[0] * n[1] * n[2] + DOMAIN + WIDE;
    for (int i = 0; i < r->n_in; i++) {
        c->in[i] = host_new(operand_dtype(r, i, dtype), 1, &total);
        int64_t period = i == 0 ? 1 : i == 1 ? n[0] : (int64_t)n[0] * n[1], combinations = total - DOMAIN - WIDE;
        double low, high;
        row_domain(r, i, c->in[i].dtype, &low, &high);
        for (int64_t k = 0; k < total; k++) {
            long double v = k < combinations           ? special[i][k / period % n[i]]
                            : k < combinations + WIDE  ? wide_value(c->in[i].dtype, rng)
                            : is_float(c->in[i].dtype) ? random_between(rng, low, high)
                                                       : floor(random_between(rng, low, high));
            c->in[i].v[k] = quantized(c->in[i].dtype, v);
        }
    }
}

static void test_values(const struct row *r, int dtype)
{
    struct call c = {.row = r, .weak = -1, .what = ""};
    struct random rng = {.state = (uint64_t)r->op->index * 131 + (uint64_t)dtype + 7};
    fill_values(&c, dtype, &rng);
    run_call(&c);
    free_call(&c);
}

// Every bit pattern of the 16-bit floats.
static void test_all_patterns(const struct row *r, int dtype)
{
    const int64_t n = 65536;
    struct call c = {.row = r, .weak = -1, .what = "all values"};
    c.in[0] = host_new(dtype, 1, &n);
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits = (uint16_t)i;
        c.in[0].v[i] = decode(dtype, &bits);
    }
    run_call(&c);
    free_call(&c);
}

// --- layouts

struct layout_case {
    const char *what;
    int rank[3];
    int64_t dims[3][6];
    enum host_layout layout[3];
};

static const struct layout_case layout_cases[] = {
    {"contiguous 2-D", {2, 2, 2}, {{9, 37}, {9, 37}, {9, 37}}, {0}},
    {"transposed",
     {3, 3, 3},
     {{4, 5, 3}, {4, 5, 3}, {4, 5, 3}},
     {LAYOUT_TRANSPOSED, LAYOUT_TRANSPOSED, LAYOUT_TRANSPOSED}},
    {"mixed layouts", {2, 2, 2}, {{7, 33}, {7, 33}, {7, 33}}, {LAYOUT_TRANSPOSED, LAYOUT_CONTIGUOUS, LAYOUT_STEP}},
    {"step 2", {2, 2, 2}, {{5, 18}, {5, 18}, {5, 18}}, {LAYOUT_STEP, LAYOUT_STEP, LAYOUT_CONTIGUOUS}},
    {"negative step", {2, 2, 2}, {{6, 11}, {6, 11}, {6, 11}}, {LAYOUT_NEGATIVE, LAYOUT_CONTIGUOUS, LAYOUT_NEGATIVE}},
    {"offset", {1, 1, 1}, {{45}, {45}, {45}}, {LAYOUT_OFFSET, LAYOUT_CONTIGUOUS, LAYOUT_OFFSET}},
    {"rotated",
     {4, 4, 4},
     {{3, 2, 5, 4}, {3, 2, 5, 4}, {3, 2, 5, 4}},
     {LAYOUT_ROTATED, LAYOUT_TRANSPOSED, LAYOUT_STEP}},
    {"broadcast inner", {2, 1, 0}, {{5, 1}, {17}}, {0}},
    {"broadcast outer", {1, 3, 3}, {{3}, {4, 1, 3}, {1, 2, 1}}, {0}},
    {"broadcast both", {2, 2, 2}, {{6, 1}, {1, 9}, {6, 9}}, {LAYOUT_CONTIGUOUS, LAYOUT_CONTIGUOUS, LAYOUT_TRANSPOSED}},
    {"expanded", {2, 2, 2}, {{6, 8}, {6, 8}, {6, 8}}, {LAYOUT_EXPANDED, LAYOUT_CONTIGUOUS, LAYOUT_EXPANDED}},
    {"rank 6",
     {6, 6, 6},
     {{2, 1, 3, 2, 2, 3}, {2, 1, 3, 2, 2, 3}, {2, 1, 3, 2, 2, 3}},
     {LAYOUT_STEP, LAYOUT_TRANSPOSED, LAYOUT_ROTATED}},
    {"rank 0", {0, 0, 0}, {{0}}, {0}},
    {"no elements", {2, 1, 2}, {{0, 3}, {3}, {1, 1}}, {0}},
    {"one and many", {1, 1, 1}, {{1}, {300}, {1}}, {0}},
    {"many and one", {1, 1, 1}, {{1025}, {1}, {1025}}, {0}},
};
enum { LAYOUT_CASES = sizeof layout_cases / sizeof layout_cases[0] };

static void test_layout(const struct row *r, const struct layout_case *l, const int *dtypes, int weak,
                        struct random *rng)
{
    struct call c = {.row = r, .weak = weak, .what = l->what};
    for (int i = 0; i < r->n_in; i++) {
        double low, high;
        c.in[i] = i == weak ? host_new(dtypes[i], 0, NULL) : host_new(dtypes[i], l->rank[i], l->dims[i]);
        c.layout[i] = l->layout[i];
        row_domain(r, i, dtypes[i], &low, &high);
        host_fill(&c.in[i], rng, low, high);
        // Exact in every float dtype, so that it does not matter where a mixed operand is rounded.
        for (int64_t k = 0; weak >= 0 && k < c.in[i].n; k++)
            if (is_float(dtypes[i])) c.in[i].v[k] = rintl(c.in[i].v[k] * 8) / 8;
        if (l->layout[i] == LAYOUT_EXPANDED) host_repeat_first(&c.in[i]);
    }
    run_call(&c);
    free_call(&c);
}

static void test_layouts(const struct row *r, int dtype, struct random *rng)
{
    int dtypes[3];
    for (int i = 0; i < 3; i++) dtypes[i] = operand_dtype(r, i, dtype);
    bool main_dtype = dtype == KILN_F32 || dtype == KILN_I32;
    for (int k = 0; k < LAYOUT_CASES; k++)
        if (!suite.sparse || (main_dtype && k % 8 == r->op->index % 8) || (k + dtype * 3 + r->op->index) % 24 == 0)
            test_layout(r, &layout_cases[k], dtypes, -1, rng);
    static const struct layout_case weak_case = {"", {2, 2, 2}, {{5, 7}, {5, 7}, {5, 7}}, {0}};
    for (int i = 0; i < r->n_in; i++)
        if (!suite.sparse || (i + dtype + r->op->index) % 8 == 0) test_layout(r, &weak_case, dtypes, i, rng);
}

// Enough elements for several threads and workgroups; for ops that cost little to compute here as well.
static void test_large(const struct row *r, int dtype, struct random *rng)
{
    static const struct layout_case large[] = {
        {"large", {2, 1, 2}, {{301, 411}, {411}, {301, 1}}, {LAYOUT_TRANSPOSED, LAYOUT_CONTIGUOUS, LAYOUT_CONTIGUOUS}},
        {"large in one dimension", {1, 1, 0}, {{100003}, {100003}}, {LAYOUT_CONTIGUOUS, LAYOUT_OFFSET}},
    };
    int dtypes[3];
    for (int i = 0; i < 3; i++) dtypes[i] = operand_dtype(r, i, dtype);
    for (int k = 0; k < 2; k++) test_layout(r, &large[k], dtypes, -1, rng);
}

// --- mixed dtypes, and those that are not taken

static void test_mixed(const struct row *r, struct random *rng)
{
    static const struct layout_case shapes = {"mixed dtypes", {2, 2, 2}, {{3, 7}, {3, 7}, {3, 7}}, {0}};
    for (int pair = 0; pair < DTYPES * DTYPES; pair++) {
        int x = pair / DTYPES, y = pair % DTYPES, dtypes[3] = {0};
        if (x == y || (suite.sparse && (pair + r->op->index * 7) % 43)) continue;
        for (int i = 0; i < r->n_in; i++) dtypes[i] = operand_dtype(r, i, (i & 1) ? y : x);
        if (r->n_in == 3 && r->e->type == TYPE_SELECT) dtypes[1] = x, dtypes[2] = y;
        if (!row_takes(r, row_compute_dtype(r, dtypes))) continue;
        struct call c = {.row = r, .weak = -1, .what = shapes.what};
        for (int i = 0; i < r->n_in; i++) {
            double low, high;
            c.in[i] = host_new(dtypes[i], shapes.rank[i], shapes.dims[i]);
            row_domain(r, i, dtypes[i], &low, &high);
            host_fill(&c.in[i], rng, low, high);
            for (int64_t k = 0; k < c.in[i].n; k++)
                if (is_float(dtypes[i])) c.in[i].v[k] = ceill(c.in[i].v[k] * 8) / 8;
        }
        run_call(&c);
        free_call(&c);
    }
}

static void test_rejected(const struct row *r, int dtype)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *in[3];
    for (int i = 0; i < 3; i++) in[i] = kiln_zeros(suite.dev, (kiln_dtype)operand_dtype(r, i, dtype), KILN_SHAPE(2, 3));
    if (no_error("zeros")) {
        kiln_tensor *y = row_call(r, in);
        if (y) record_mistake("%s takes %s", r->op->name, kiln_dtype_name((kiln_dtype)dtype));
        expect_error(KILN_E_DTYPE, r->op->name, "a dtype that is not taken");
    }
    kiln_scope_end(&scope);
}

static void test_errors(const struct row *r, int dtype)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *in[3] = {kiln_zeros(suite.dev, (kiln_dtype)operand_dtype(r, 0, dtype), KILN_SHAPE(2, 3))};
    for (int i = 1; i < 3; i++) in[i] = kiln_zeros(suite.dev, (kiln_dtype)dtype, KILN_SHAPE(4));
    if (no_error("zeros") && r->n_in > 1) {
        if (row_call(r, in)) record_mistake("%s takes shapes that do not broadcast", r->op->name);
        expect_error(KILN_E_SHAPE, r->op->name, "shapes that do not broadcast");
    }
    kiln_tensor *none[3] = {NULL, in[1], in[2]};
    if (row_call(r, none)) record_mistake("%s takes NULL", r->op->name);
    expect_error(KILN_E_ARGUMENT, r->op->name, "NULL");
    if (r->e->type == TYPE_SELECT) {
        in[0] = kiln_zeros(suite.dev, KILN_I32, KILN_SHAPE(4));
        if (row_call(r, in)) record_mistake("%s takes a condition of i32", r->op->name);
        expect_error(KILN_E_DTYPE, r->op->name, "a condition that is not bool");
    }
    kiln_scope_end(&scope);
}

// The dtypes of every compute class; of those that only differ in storage, one for each op, in turn.
static bool is_tried(const struct row *r, int dtype)
{
    if (dtype == KILN_F16 || dtype == KILN_BF16) return dtype == KILN_F16 + r->op->index % 2;
    if (dtype == KILN_U8 || dtype == KILN_I8 || dtype == KILN_I16) return dtype == KILN_U8 + r->op->index % 3;
    return dtype != KILN_BOOL || r->e->type == TYPE_LOGICAL || r->e->type == TYPE_BITWISE || r->e->type == TYPE_SELECT;
}

static void elementwise(void **state)
{
    const struct op *op = *state;
    struct row r;
    struct random rng = {.state = (uint64_t)op->index + 1};
    record_begin(op->name);
    if (!row_of(op, &r)) fail_msg("%s has no row in reference.def", op->name);
    int taken = -1;
    for (int dtype = 0; dtype < DTYPES; dtype++) {
        int dtypes[3];
        for (int i = 0; i < 3; i++) dtypes[i] = operand_dtype(&r, i, dtype);
        if (!row_takes(&r, row_compute_dtype(&r, dtypes)) && r.e->type != TYPE_LOGICAL) {
            test_rejected(&r, dtype);
            continue;
        }
        taken = dtype;
        if (!suite.sparse || is_tried(&r, dtype)) test_values(&r, dtype);
        if (r.n_in == 1 && (dtype == KILN_F16 || dtype == KILN_BF16) && (!suite.sparse || is_tried(&r, dtype)))
            test_all_patterns(&r, dtype);
        test_layouts(&r, dtype, &rng);
        bool cheap = r.e->ulp[0] == 0 && (dtype == KILN_F32 || dtype == KILN_I16);
        if (cheap && (!suite.sparse || op->index % 8 == 0)) test_large(&r, dtype, &rng);
    }
    if (r.n_in > 1) test_mixed(&r, &rng);
    test_errors(&r, taken);
    record_end();
}

static void every_reference_has_a_row(void **state)
{
    for (int i = 0; i < reference_count; i++) {
        const struct op *op = op_find(references[i].name);
        if (!op || !op->elementwise) fail_msg("reference.def has %s, the op table has not", references[i].name);
    }
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[512];
    size_t n = 0;
    tests[n++] = (struct CMUnitTest){"every_reference_has_a_row", every_reference_has_a_row, NULL, NULL, NULL};
    for (int i = 0; i < op_count && n < 512; i++)
        if (op_table[i]->elementwise && !(op_table[i]->flags & OP_HIDDEN))
            tests[n++] =
                (struct CMUnitTest){op_table[i]->name, elementwise, NULL, NULL, (void *)(uintptr_t)op_table[i]};
    return suite_main(argc, argv, "elementwise", tests, n);
}
