// Device against device: rows that claim exactness, conversions and random numbers give the same bits on the device of
// the command line as on the CPU. NaN counts as equal to NaN, whatever its bits.
#include "conformance/elementwise.h"
#include <kiln/ops.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kiln_device *cpu;

static void same_bits(kiln_tensor *a, kiln_tensor *b, const char *what, long double allowed)
{
    record.cases++;
    struct host x = host_read(a), y = host_read(b);
    if (no_error(what) && same_type(a, y.dtype, y.rank, y.dims, what))
        for (int64_t i = 0; i < x.n; i++) {
            record.values++;
            bool nan = isnan(x.v[i]) && isnan(y.v[i]);
            if (nan || (x.v[i] == y.v[i] && !signbit(x.v[i]) == !signbit(y.v[i]))) continue;
            if (is_float(x.dtype) && error_ulp(x.dtype, x.v[i], y.v[i]) <= allowed) continue;
            record_mistake("%s: element %lld is %.17Lg, on the CPU %.17Lg", what, (long long)i, x.v[i], y.v[i]);
        }
    host_free(&x);
    host_free(&y);
}

static long double any_value(int dtype, struct random *r)
{
    long double special[32];
    int n = special_values(dtype, special, 32);
    if (random_below(r, 4) == 0) return special[random_below(r, n)];
    if (dtype == KILN_BOOL) return (long double)random_below(r, 2);
    if (!is_float(dtype)) return wrapped(dtype, (int64_t)(random_bits(r) >> random_below(r, 64)));
    int e = random_below(r, 2)
                ? (int)random_below(r, 12) - 6
                : least_exponent(dtype) + (int)random_below(r, greatest_exponent(dtype) - least_exponent(dtype) + 1);
    long double v = scalbnl(random_between(r, 1, 2), e);
    return quantized(dtype, random_below(r, 2) ? -v : v);
}

static void exact_rows_agree(void **state)
{
    const int64_t n = 3000;
    record_begin("exact rows");
    for (int i = 0; i < op_count; i++) {
        struct row r;
        const struct op *op = op_table[i];
        if (!op->elementwise || (op->flags & OP_HIDDEN) || op->elementwise->ulp[0] > 0 || op->elementwise->ulp[1] > 0 ||
            !row_of(op, &r))
            continue;
        for (int dtype = 0; dtype < DTYPES; dtype++) {
            if (!row_takes(&r, dtype) || (dtype != KILN_F32 && dtype != KILN_I32 && (i + dtype) % 4)) continue;
            kiln_scope *scope = kiln_scope_begin();
            struct random rng = {.state = (uint64_t)i * 10 + (uint64_t)dtype + 1};
            kiln_tensor *here[3], *there[3];
            for (int k = 0; k < r.n_in; k++) {
                struct host h = host_new(row_is_condition(&r, k) ? KILN_BOOL : dtype, 1, &n);
                for (int64_t j = 0; j < n; j++) h.v[j] = any_value(h.dtype, &rng);
                here[k] = host_tensor(suite.dev, &h, LAYOUT_CONTIGUOUS);
                there[k] = host_tensor(cpu, &h, LAYOUT_CONTIGUOUS);
                host_free(&h);
            }
            char text[64];
            snprintf(text, sizeof text, "%s %s", op->name, kiln_dtype_name((kiln_dtype)dtype));
            if (no_error(text)) same_bits(row_call(&r, here), row_call(&r, there), text, 0);
            kiln_scope_end(&scope);
        }
    }
    record_end();
}

static void casts_agree(void **state)
{
    const int64_t n = 3000;
    record_begin("cast");
    for (int from = 0; from < DTYPES; from++)
        for (int to = 0; to < DTYPES; to++) {
            kiln_scope *scope = kiln_scope_begin();
            struct random rng = {.state = (uint64_t)(from * 10 + to + 1)};
            struct host h = host_new(from, 1, &n);
            for (int64_t j = 0; j < n; j++) h.v[j] = any_value(from, &rng);
            kiln_tensor *a = host_tensor(suite.dev, &h, LAYOUT_CONTIGUOUS),
                        *b = host_tensor(cpu, &h, LAYOUT_CONTIGUOUS);
            char text[64];
            snprintf(text, sizeof text, "cast %s to %s", kiln_dtype_name((kiln_dtype)from),
                     kiln_dtype_name((kiln_dtype)to));
            same_bits(kiln_cast(a, (kiln_dtype)to), kiln_cast(b, (kiln_dtype)to), text, 0);
            host_free(&h);
            kiln_scope_end(&scope);
        }
    record_end();
}

static kiln_tensor *draw(kiln_device *dev, int what, kiln_dtype dtype)
{
    const int64_t n = 5001;
    switch (what) {
    case 0: return kiln_uniform(dev, dtype, 1, &n, -1, 2);
    case 1: return kiln_normal(dev, dtype, 1, &n, 0, 1);
    case 2: return kiln_bernoulli(dev, dtype, 1, &n, 0.37);
    case 3: return kiln_dropout(kiln_full(dev, dtype, 1, &n, 1.7), 0.3);
    case 4: return kiln_randint(dev, KILN_I64, 1, &n, -5, 1000000007);
    default: return kiln_randperm(dev, 1001);
    }
}

static void random_numbers_agree(void **state)
{
    static const char *const names[] = {"uniform", "normal", "bernoulli", "dropout", "randint", "randperm"};
    record_begin("random numbers");
    kiln_seed(suite.dev, 99);
    kiln_seed(cpu, 99);
    for (int what = 0; what < 6; what++)
        for (int dtype = KILN_F16; dtype <= (what < 4 ? KILN_F64 : KILN_F16); dtype++) {
            kiln_scope *scope = kiln_scope_begin();
            // A logarithm and a cosine are within two units each on any device; near 0 the sine of the angle magnifies
            // them.
            same_bits(draw(suite.dev, what, (kiln_dtype)dtype), draw(cpu, what, (kiln_dtype)dtype), names[what],
                      what == 1 ? 16 : 0);
            kiln_scope_end(&scope);
        }
    record_end();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_rows_agree),
        cmocka_unit_test(casts_agree),
        cmocka_unit_test(random_numbers_agree),
    };
    cpu = kiln_device_open("cpu");
    if (!cpu) {
        fprintf(stderr, "%s\n", kiln_error_message());
        return 1;
    }
    int failed = suite_main(argc, argv, "devices", tests, sizeof tests / sizeof tests[0]);
    kiln_device_close(&cpu);
    return failed;
}
