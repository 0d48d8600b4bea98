// Row 11: every op between two cheap ones, so that it fuses: eagerly and in each kind of capture, in each dtype that it
// takes, its values and its gradients.
#include "subject.h"

#include "grad/registry.h"

struct between {
    struct subject *s;
    bool weighs[OUTPUTS]; // whose gradients are asked for
    int64_t by[SUBJECT_INPUTS];
    size_t n_by; // by these inputs; 0: values
    double tolerance;
};

// By numbers that no dtype rounds, so that what fused kernels do not store is what eager mode stores.
static kiln_tensor *cheap(kiln_tensor *t, double factor)
{
    kiln_dtype d = kiln_tensor_dtype(t);
    if (d == KILN_BOOL) return kiln_logical_not(t);
    return is_float(d) ? kiln_mul(t, kiln_scalar(factor)) : kiln_bitwise_xor(t, kiln_scalar_int(3));
}

// Another op than before: where a recording breaks between them, two segments would begin alike but for a number, which
// AUTO would learn to take at run time.
static kiln_tensor *cheap_behind(kiln_tensor *t)
{
    return is_float(kiln_tensor_dtype(t)) ? kiln_div(t, kiln_scalar(0.5)) : cheap(t, 1);
}

static kiln_status between_cheap(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct between *b = user;
    kiln_tensor *near[SUBJECT_INPUTS];
    for (size_t i = 0; i + 1 < n_in; i++) near[i] = cheap(in[i], 0.5);
    near[n_in - 1] = kiln_bitwise_and(in[n_in - 1], kiln_scalar_int(1));
    TRY(b->s->fn(b->s, near, n_in, out, n_out));
    for (size_t i = 0; i < n_out; i++) out[i] = cheap_behind(out[i]);
    return kiln_error();
}

// Each element has a weight of its own: the sum of a softmax has no gradient.
static kiln_tensor *weighted(kiln_tensor *t)
{
    kiln_dtype d = kiln_tensor_dtype(t);
    kiln_tensor *w = kiln_linspace(kiln_tensor_device(t), d, 0.5, 1.5, kiln_numel(t));
    return kiln_sum(kiln_mul(kiln_reshape(t, KILN_SHAPE(-1)), w), NULL);
}

static kiln_status weighted_sum(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct between *b = user;
    kiln_tensor *all[OUTPUTS];
    TRY(between_cheap(user, in, n_in, all, b->s->n_out));
    out[0] = NULL;
    for (size_t i = 0; i < b->s->n_out; i++)
        if (b->weighs[i]) out[0] = out[0] ? kiln_add(out[0], weighted(all[i])) : weighted(all[i]);
    return kiln_error();
}

static kiln_status between_of(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct between *b = user;
    if (!b->n_by) return between_cheap(user, in, n_in, out, n_out);
    return kiln_grad(weighted_sum, user, in, n_in, KILN_GRAD(.wrt = {b->n_by, b->by}), out, n_out);
}

// --- comparing

static double tolerance_of(kiln_dtype d)
{
    return d == KILN_F64 ? 1e-9 : d == KILN_F32 ? 2e-5 : d == KILN_F16 ? 1e-2 : d == KILN_BF16 ? 6e-2 : 0;
}

// All that fail are told of, then the test ends.
static int failures;

__attribute__((format(printf, 1, 2))) static bool complain(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_error("%s %s\n", text, kiln_error_message());
    kiln_error_clear();
    failures++;
    return false;
}

static bool is_near(kiln_tensor *got, kiln_tensor *want, double tolerance, const char *what)
{
    double a[256], b[256];
    int64_t n = kiln_numel(want);
    kiln_dtype d = kiln_tensor_dtype(want);
    assert_true(n <= 256);
    if (kiln_numel(got) != n || kiln_tensor_dtype(got) != d) return complain("%s: another type", what);
    must(kiln_read(kiln_cast(got, KILN_F64), a, sizeof *a * (size_t)n));
    must(kiln_read(kiln_cast(want, KILN_F64), b, sizeof *b * (size_t)n));
    tolerance = is_float(d) ? fmax(tolerance_of(d), tolerance) : 0;
    for (int64_t i = 0; i < n; i++)
        if (!(a[i] == b[i] || (isnan(a[i]) && isnan(b[i])) || fabs(a[i] - b[i]) <= tolerance * (1 + fabs(b[i]))))
            return complain("%s: element %d is %.9g, eagerly %.9g", what, (int)i, a[i], b[i]);
    return true;
}

static const struct {
    const char *name;
    kiln_capture capture;
} ways[] = {{"STRICT", KILN_CAPTURE_STRICT}, {"AUTO", KILN_CAPTURE_AUTO}, {"TRACE", KILN_CAPTURE_TRACE}};

// Of the op that gives result i, or, of gradients, whose input result i belongs to.
static const char *op_of(const struct between *b, size_t i)
{
    size_t k = i;
    if (b->n_by)
        for (k = 0; (size_t)b->by[i] >= b->s->first[k + 1];) k++;
    return b->s->c ? b->s->name : b->s->rows[k]->name;
}

static size_t results_of(const struct between *b)
{
    return b->n_by ? b->n_by : b->s->n_out;
}

static bool call(kiln_device *dev, struct between *b, kiln_function *f, kiln_tensor *const *in, kiln_tensor **out)
{
    must(kiln_seed(dev, 7));
    return !(f ? kiln_call(f, in, b->s->n_in, out, results_of(b)) : between_of(b, in, b->s->n_in, out, results_of(b)));
}

static bool compare_call(kiln_device *dev, struct between *b, kiln_dtype dtype, kiln_function *f, const char *where,
                         kiln_tensor *const *in, kiln_tensor *const *want)
{
    kiln_tensor *got[SUBJECT_INPUTS];
    char what[256];
    const char *of = b->n_by ? "'s gradients" : "", *d = kiln_dtype_name(dtype);
    if (!call(dev, b, f, in, got)) return complain("%s%s, %s, %s:", b->s->name, of, d, where);
    for (size_t i = 0; i < results_of(b); i++) {
        snprintf(what, sizeof what, "%s%s, %s, %s", op_of(b, i), of, d, where);
        if (!is_near(got[i], want[i], b->tolerance, what)) return false;
    }
    return true;
}

static bool compare(kiln_device *dev, struct between *b, kiln_dtype dtype, kiln_tensor *const *in, kiln_tensor **want)
{
    char where[64];
    bool fine = true;
    if (!call(dev, b, NULL, in, want))
        return complain("%s%s, %s:", b->s->name, b->n_by ? "'s gradients" : "", kiln_dtype_name(dtype));
    for (size_t way = 0; way < 3; way++) {
        kiln_function *f = kiln_jit(between_of, b, KILN_JIT(.capture = ways[way].capture));
        for (int k = 0; k < 2 && fine; k++) {
            snprintf(where, sizeof where, "%s, call %d", ways[way].name, k + 1);
            fine = compare_call(dev, b, dtype, f, where, in, want);
        }
        kiln_jit_stats s = jit_stats_of(f);
        if (fine && (s.captures != 1 || s.fallbacks))
            fine = complain("%s, %s: %d captures, %d fallbacks", b->s->name, where, (int)s.captures, (int)s.fallbacks);
        kiln_function_free(&f);
    }
    return fine;
}

// Whether the op takes this dtype. If not, it says so itself, or the one that its inputs come from, whose name its own
// begins with; and captures say the same.
static bool is_taken(kiln_device *dev, struct between *b, kiln_dtype dtype, kiln_tensor *const *in)
{
    kiln_tensor *out[OUTPUTS];
    const char *op = b->s->rows[0]->name, *d = kiln_dtype_name(dtype);
    if (call(dev, b, NULL, in, out)) return true;
    kiln_status status = kiln_error();
    if (strncmp(kiln_error_message(), op, strcspn(kiln_error_message(), ":")))
        return complain("%s, %s:", b->s->name, d);
    kiln_error_clear();
    for (size_t way = 0; way < 3; way++) {
        kiln_function *f = kiln_jit(between_of, b, KILN_JIT(.capture = ways[way].capture));
        if (call(dev, b, f, in, out) || kiln_error() != status)
            complain("%s, %s, %s: eagerly %s", b->s->name, d, ways[way].name, kiln_status_name(status));
        kiln_error_clear();
        kiln_function_free(&f);
    }
    return false;
}

static void ask_for_gradients(struct between *b, kiln_tensor *const *in, kiln_tensor *const *results)
{
    for (size_t i = 0; i < b->s->n_out; i++) {
        const struct op *op = b->s->rows[i];
        b->weighs[i] = is_float(kiln_tensor_dtype(results[i])) && !(op->flags & OP_ZERO_GRAD) && grad_rule_of(op);
        for (size_t k = b->s->first[i]; b->weighs[i] && k < b->s->first[i + 1]; k++)
            if (is_float(kiln_tensor_dtype(in[k]))) b->by[b->n_by++] = (int64_t)k;
        if (b->weighs[i]) b->tolerance = fmax(b->tolerance, tolerance_of(kiln_tensor_dtype(results[i])));
    }
}

enum { MAX_OPS = 1024 };
static bool seen[MAX_OPS]; // by index: some dtype was taken

static void compare_subject(kiln_device *dev, kiln_dtype dtype, struct subject *s)
{
    kiln_tensor *in[SUBJECT_INPUTS], *want[SUBJECT_INPUTS], *gradients[SUBJECT_INPUTS];
    struct between b = {.s = s, .tolerance = tolerance_of(dtype)};
    kiln_scope *scope = kiln_scope_begin();
    subject_inputs(s, dev, dtype, in);
    if (is_taken(dev, &b, dtype, in)) {
        for (size_t i = 0; i < s->n_out; i++) seen[s->rows[i]->index] = true;
        bool fine = compare(dev, &b, dtype, in, want);
        if (fine) ask_for_gradients(&b, in, want);
        if (b.n_by) compare(dev, &b, dtype, in, gradients);
    }
    kiln_scope_end(&scope);
}

static const kiln_dtype *wanted;
static size_t n_wanted;

static void compare_all(kiln_device *dev)
{
    memset(seen, 0, sizeof seen);
    failures = 0;
    assert_true(op_count <= MAX_OPS);
    for (size_t i = 0; i < n_wanted; i++) for_each_subject(dev, wanted[i], compare_subject);
    for (int i = 0; n_wanted > 1 && i < op_count; i++) {
        const struct op *op = op_table[i];
        if (!seen[i] && !strchr(op->name, '.') && !is_subject_elsewhere(op))
            complain("%s took none of the dtypes", op->name);
    }
    assert_int_equal(failures, 0);
}

static void compare_dtypes(const kiln_dtype *dtypes, size_t n)
{
    wanted = dtypes;
    n_wanted = n;
    on_each_device(compare_all);
}

// Between them each op takes one.
void capability_11_fused(void **state)
{
    compare_dtypes((const kiln_dtype[]){KILN_F32, KILN_I32}, 2);
}

// What takes bool, such as the largest and the first of the largest.
void capability_11_bool(void **state)
{
    compare_dtypes((const kiln_dtype[]){KILN_BOOL}, 1);
    const char *const takers[] = {"max", "min", "argmax", "argmin", "maximum", "minimum"};
    for (size_t k = 0; k < sizeof takers / sizeof *takers; k++)
        for (int i = 0; i < op_count; i++)
            if (!strcmp(op_table[i]->name, takers[k])) assert_true(seen[i]);
}

void capability_11_long(void **state)
{
    compare_dtypes((const kiln_dtype[]){KILN_BOOL, KILN_U8, KILN_I8, KILN_I16, KILN_I64, KILN_U16, KILN_U32, KILN_U64,
                                        KILN_F16, KILN_BF16, KILN_F64, KILN_I32, KILN_F32},
                   13);
}
