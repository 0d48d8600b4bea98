// Every structured op against the loops of tests/reference. A row without a case fails, and so does a case without a
// row.
#include "conformance/structured.h"
#include "ir/op.h"
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

struct random structured_random;

static const struct {
    const char *op;
    conform_fn fn;
} cases[] = {
#define CASE(op, fn) {#op, fn},
#include "conformance/structured.def"

// gcc defines a macro, clang answers a question.
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif
#undef CASE
};
enum { CASES = sizeof cases / sizeof cases[0] };

int float_result(int dtype)
{
    return is_float(dtype) ? dtype : KILN_F32;
}

bool thinned(int index, int n)
{
    return suite.sparse && index % n != 0;
}

const char *case_text(const char *op, const struct host *x, enum host_layout layout, const char *note)
{
    static char text[2][256];
    static int turn;
    char shape[100];
    turn ^= 1;
    host_shape_text(shape, sizeof shape, x->rank, x->dims);
    snprintf(text[turn], sizeof text[turn], "%s %s%s %s %s", op, kiln_dtype_name((kiln_dtype)x->dtype), shape,
             host_layout_names[layout], note);
    return text[turn];
}

kiln_tensor *random_tensor(struct host *h, int dtype, int rank, const int64_t *dims, enum host_layout layout,
                           double low, double high)
{
    *h = host_new(dtype, rank, dims);
    host_fill(h, &structured_random, low, high);
    if (layout == LAYOUT_EXPANDED) host_repeat_first(h);
    return host_tensor(suite.dev, h, layout);
}

void check_values(kiln_tensor *t, const struct host *want, const struct host *scale, double k, const char *what)
{
    record.cases++;
    if (!no_error(what) || !same_type(t, want->dtype, want->rank, want->dims, what)) return;
    struct host got = host_read(t);
    if (!no_error(what) || suite.is_null) {
        host_free(&got);
        return;
    }
    bool wide = want->dtype == KILN_F64;
#if SANITIZED
    // Sanitizers keep loops from being vectorised: what many lanes sum up goes into one.
    k *= 64;
#endif
    for (int64_t i = 0; i < got.n; i++) {
        long double w = want->v[i], g = got.v[i];
        record.values++;
        bool same = g == w || (isnan(g) && isnan(w));
        if (same) continue;
        if (is_float(want->dtype) && k > 0) {
            long double error = error_ulp(want->dtype, g, w), size = fabsl(scale ? scale->v[i] : w);
            // Half a unit in the last place of the result, from the error in such units.
            long double half = fabsl(g - w) / error / 2;
            // Between the steps as well, what is below the normal numbers rounds to whole denormals.
            long double units = k * scalbnl(size, wide ? -53 : -24) + scalbnl(1, wide ? -1074 : -149);
            bool near = isfinite(g) && isfinite(w) && fabsl(g - w) <= half + units;
            if (error <= 0.501L || near) {
                if (fraction_bits(want->dtype) >= 24 && error > record.worst_ulp[wide]) record.worst_ulp[wide] = error;
                continue;
            }
        }
        record_mistake("%s: element %lld is %.10Lg, expected %.10Lg", what, (long long)i, g, w);
    }
    host_free(&got);
}

static void structured(void **state)
{
    size_t i = (size_t)(uintptr_t)*state;
    structured_random.state = i + 12345;
    record_begin(cases[i].op);
    kiln_scope *scope = kiln_scope_begin();
    cases[i].fn(cases[i].op);
    kiln_scope_end(&scope);
    record_end();
}

static bool has_case(const char *name)
{
    for (size_t i = 0; i < CASES; i++)
        if (strcmp(cases[i].op, name) == 0) return true;
    return false;
}

static void rows_and_cases_agree(void **state)
{
    record_begin("rows_and_cases_agree");
    for (int i = 0; i < op_count; i++)
        if (!op_table[i]->elementwise && !(op_table[i]->flags & OP_HIDDEN) && !has_case(op_table[i]->name))
            record_mistake("%s has no case in tests/conformance/structured.def", op_table[i]->name);
    for (size_t i = 0; i < CASES; i++)
        if (!op_find(cases[i].op))
            record_mistake("structured.def of the tests has %s, the op table has not", cases[i].op);
    record.cases = record.values = CASES;
    record_end();
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[CASES + 1];
    tests[0] = (struct CMUnitTest){"rows_and_cases_agree", rows_and_cases_agree, NULL, NULL, NULL};
    for (size_t i = 0; i < CASES; i++)
        tests[i + 1] = (struct CMUnitTest){cases[i].op, structured, NULL, NULL, (void *)(uintptr_t)i};
    return suite_main(argc, argv, "structured", tests, CASES + 1);
}
