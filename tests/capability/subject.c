// The subjects of row 11, from the op tables.
#include "subject.h"

#include "../grad/matrices.h"
#include "../grad/row_case.h"
#include "ops/elementwise.h"
#include "tensor/apply.h"

static kiln_device *dev;  // of the inputs
static kiln_tensor *zero; // the input

// --- structured ops

static kiln_dtype of(const kiln_tensor *t)
{
    return kiln_tensor_dtype(t);
}

static kiln_tensor *places(int64_t rows, int64_t cols, const int64_t *v)
{
    return kiln_add(kiln_from_data(dev, KILN_I64, KILN_SHAPE(rows, cols), v), zero);
}

static kiln_tensor *with_indices(kiln_tensor *values, kiln_tensor *indices)
{
    return kiln_concat((kiln_tensor *[]){values, kiln_cast(indices, of(values))}, 2, 0);
}

static kiln_tensor *sorted(kiln_tensor *x)
{
    kiln_tensor *values, *indices;
    return kiln_sort(x, 1, true, &values, &indices) ? NULL : with_indices(values, indices);
}

static kiln_tensor *largest_two(kiln_tensor *x)
{
    kiln_tensor *values, *indices;
    return kiln_topk(x, 2, 1, true, &values, &indices) ? NULL : with_indices(values, indices);
}

static kiln_tensor *dropped(kiln_tensor *x)
{
    return kiln_dropout(x, 0.3);
}

static kiln_tensor *ordered(kiln_tensor *x)
{
    kiln_tensor *values = NULL, *order;
    kiln_sort(x, -1, false, &values, &order);
    return values;
}

static kiln_tensor *assigned(kiln_tensor *x, kiln_tensor *y)
{
    kiln_tensor *t = kiln_contiguous(x);
    return kiln_assign(kiln_select(t, 0, 1), y) ? NULL : t;
}

#define curved(t) (t) // cheap ops lie around it already
#include "../grad/grad_cases.h"
#define CASE(op, id, shapes, ...) CASE_FN(own_##id, __VA_ARGS__)
#include "own_cases.def"
#undef CASE

static const struct row_case cases[] = {
#define CASE(op, id, order, ...) {#op, case_##id, order, __VA_ARGS__},
#include "../grad/grad_cases.def"
#undef CASE
#define CASE(op, id, shapes, ...) {#op, case_own_##id, 0, shapes, 0, 0},
#include "own_cases.def"
};
enum { CASES = sizeof cases / sizeof *cases };

static kiln_status apply_case(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct subject *s = user;
    zero = in[n_in - 1];
    return s->c->fn(NULL, in, n_in - 1, out, n_out);
}

static struct subject subject_of_case(size_t i)
{
    struct subject s = {.fn = apply_case, .n_out = 1, .c = &cases[i], .rows = {op_find(cases[i].op)}};
    int64_t dims[KILN_MAX_RANK];
    if (!s.rows[0]) fail_msg("a case calls %s, which is no op", cases[i].op);
    snprintf(s.name, sizeof s.name, "%s (case %d)", cases[i].op, (int)i);
    for (const char *p = cases[i].shapes; p; s.first[1]++) row_case_shape(&p, dims);
    s.n_in = s.first[1] + 1;
    return s;
}

// --- elementwise rows

static bool is_integer(kiln_dtype d)
{
    return !is_float(d) && d != KILN_BOOL;
}

static bool takes(const struct op *op, kiln_dtype d)
{
    const struct op_elementwise *e = op->elementwise;
    switch (e->type) {
    case TYPE_NUMERIC: return d != KILN_BOOL || e->bexpr;
    case TYPE_REAL:
    case TYPE_TEST: return d != KILN_BOOL;
    case TYPE_BITWISE: return !is_float(d);
    case TYPE_INTEGER: return is_integer(d);
    default: return true;
    }
}

static kiln_status apply_rows(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct subject *s = user;
    for (size_t i = 0; i < n_out; i++) {
        struct attr attrs[ELEMENTWISE_MAX_PARAMS];
        for (int k = 0; k < s->rows[i]->n_attrs; k++) attrs[k] = attr_of_float(0.5 + 0.25 * k);
        TRY(op_apply(s->rows[i], dev, s->rows[i]->min_in, in + s->first[i], attrs, &out[i]));
    }
    return kiln_error();
}

static void add_row(struct subject *s, const struct op *op)
{
    size_t n = s->n_out++, used = strlen(s->name);
    s->rows[n] = op;
    s->first[n + 1] = s->first[n] + op->min_in;
    s->n_in = s->first[n + 1] + 1;
    snprintf(s->name + used, sizeof s->name - used, "%s%s", n ? " " : "", op->name);
}

// --- all

// A transfer ends a graph: row 32 has one. No function is made of the others: tests of graphs make them
// (tests/jit/arrived.c, tests/graph/regions.c).
bool is_subject_elsewhere(const struct op *op)
{
    static const char *const names[] = {"to_device", "if_arrived", "call", "switch", "loop", "host_call", "host_value"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (!strcmp(op->name, names[i])) return true;
    return false;
}

static bool has_case(const struct op *op)
{
    bool known = is_subject_elsewhere(op);
    for (size_t i = 0; i < CASES; i++) known |= op_find(cases[i].op) == op;
    return known;
}

int for_each_subject(kiln_device *on, kiln_dtype dtype, void (*fn)(kiln_device *dev, kiln_dtype d, struct subject *s))
{
    struct subject rows = {.fn = apply_rows};
    int n = 0;
    for (int i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        if (!op->elementwise && !has_case(op))
            fail_msg("%s has no case in tests/grad/grad_cases.def or tests/capability/own_cases.def", op->name);
        bool taken = op->elementwise && !strchr(op->name, '.') && takes(op, dtype); // gradients have names with a dot
        if (taken) add_row(&rows, op);
        n += taken;
        if (rows.n_out < OUTPUTS && i + 1 < op_count) continue;
        if (rows.n_out) fn(on, dtype, &rows);
        rows = (struct subject){.fn = apply_rows};
    }
    for (size_t i = 0; i < CASES; i++, n++) {
        struct subject s = subject_of_case(i);
        fn(on, dtype, &s);
    }
    return n;
}

// --- inputs

bool is_float(kiln_dtype d)
{
    return d == KILN_F16 || d == KILN_BF16 || d == KILN_F32 || d == KILN_F64;
}

// Without a pattern, the same each time; integers lie wider, so that they differ.
static kiln_tensor *draw(kiln_dtype d, size_t rank, const int64_t *dims, double lo, double hi, double seed)
{
    double v[256];
    int64_t n = 1;
    for (size_t i = 0; i < rank; i++) n *= dims[i];
    assert_true(n <= 256);
    for (int64_t i = 0; i < n; i++) {
        v[i] = lo + (hi - lo) * fmod(seed + (double)(i + 1) * 0.7548776662466927, 1.0);
        if (d == KILN_BOOL)
            v[i] = v[i] > (lo + hi) / 2;
        else if (!is_float(d))
            v[i] = trunc(4 * v[i]);
        if (d == KILN_U8 || d >= KILN_U16) v[i] = fabs(v[i]);
    }
    return kiln_cast(kiln_from_data(dev, KILN_F64, rank, dims, v), d);
}

static double either(double value, double otherwise, bool given)
{
    return given ? value : otherwise;
}

void subject_inputs(const struct subject *s, kiln_device *on, kiln_dtype dtype, kiln_tensor **in)
{
    dev = on;
    for (size_t i = 0, n = 0; i < s->n_out; i++) {
        const char *shapes = s->c ? s->c->shapes : NULL;
        for (size_t k = 0; n < s->first[i + 1]; k++, n++) {
            int64_t dims[KILN_MAX_RANK] = {2, 3};
            size_t rank = shapes ? row_case_shape(&shapes, dims) : 2;
            const struct op_elementwise *e = s->rows[i]->elementwise;
            const double *domain = e ? e->domain[k] : &s->c->lo;
            bool given = domain[0] != domain[1], condition = e && e->condition_mask >> k & 1;
            in[n] = draw(condition ? KILN_BOOL : dtype, rank, dims, either(domain[0], e ? -3 : -2, given),
                         either(domain[1], e ? 3 : 2, given), 0.23 * (double)(k + 1));
        }
    }
    in[s->n_in - 1] = kiln_zeros(dev, KILN_I64, KILN_SHAPE0);
}
