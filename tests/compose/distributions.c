// How random numbers are distributed: Kolmogorov and Smirnov's distance to the exact distribution function, mean and
// variance; that a seed gives the same bits on each device, eagerly and captured; and generators. The seeds are fixed,
// so a test passes always or never: the bounds are 1 in 1000 for the distance, 4 deviations for means.
#include "compose/exact.h"
#include "conformance/suite.h"
#include <kiln/kiln.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 100000, FEW = 2000 };
static int64_t samples;

typedef kiln_tensor *draw_fn(int dtype);
typedef long double cdf_fn(long double x);

struct distribution {
    const char *name;
    draw_fn *draw;
    cdf_fn *cdf;
    bool whole;         // of whole numbers
    double mean, sigma; // 0, 0: there are none
};

#define SHAPE KILN_SHAPE(samples)
#define CONTINUOUS(name, draw_expr, cdf_expr)    \
    static kiln_tensor *draw_##name(int type)    \
    {                                            \
        kiln_device *dev = suite.dev;            \
        kiln_dtype dtype = (kiln_dtype)type;     \
        (void)dev, (void)dtype;                  \
        return draw_expr;                        \
    }                                            \
    static long double cdf_##name(long double x) \
    {                                            \
        return cdf_expr;                         \
    }
#define WHOLE(name, draw_expr, mass_expr)         \
    static long double mass_##name(long double k) \
    {                                             \
        return mass_expr;                         \
    }                                             \
    CONTINUOUS(name, draw_expr, exact_sum(mass_##name, x))

static kiln_tensor *full(kiln_dtype dtype, double v)
{
    return kiln_full(suite.dev, dtype, KILN_SHAPE(1), v);
}

CONTINUOUS(exponential, kiln_exponential(dev, dtype, SHAPE, 2.5), 1 - expl(-2.5L * x))
CONTINUOUS(laplace, kiln_laplace(dev, dtype, SHAPE, 1, 0.5),
           x < 1 ? expl((x - 1) / 0.5L) / 2 : 1 - expl((1 - x) / 0.5L) / 2)
CONTINUOUS(gumbel, kiln_gumbel(dev, dtype, SHAPE, -1, 2), expl(-expl(-(x + 1) / 2)))
CONTINUOUS(logistic, kiln_logistic(dev, dtype, SHAPE, 1, 2), 1 / (1 + expl(-(x - 1) / 2)))
CONTINUOUS(cauchy, kiln_cauchy(dev, dtype, SHAPE, 1, 2), 0.5L + atanl((x - 1) / 2) / PI_L)
CONTINUOUS(log_normal, kiln_log_normal(dev, dtype, SHAPE, 0.5, 0.25), exact_normal((logl(x) - 0.5L) / 0.25L))
CONTINUOUS(weibull, kiln_weibull(dev, dtype, SHAPE, 2, 1.5), 1 - expl(-powl(x / 2, 1.5L)))
CONTINUOUS(pareto, kiln_pareto(dev, dtype, SHAPE, 2, 5), 1 - powl(2 / x, 5))
CONTINUOUS(truncated, kiln_truncated_normal(dev, dtype, SHAPE, 1, 2, -1.5, 2),
           (exact_normal((x - 1) / 2) - exact_normal(-1.25L)) / (exact_normal(0.5L) - exact_normal(-1.25L)))
CONTINUOUS(tail, kiln_truncated_normal(dev, dtype, SHAPE, 0, 1, 6, INFINITY), 1 - exact_normal(-x) / exact_normal(-6))
CONTINUOUS(low_tail, kiln_truncated_normal(dev, dtype, SHAPE, 0, 1, -INFINITY, -6), exact_normal(x) / exact_normal(-6))
CONTINUOUS(gamma, kiln_random_gamma(full(dtype, 3.5), SHAPE), exact_gamma(3.5L, x))
CONTINUOUS(gamma_one, kiln_random_gamma(full(dtype, 1), SHAPE), exact_gamma(1, x))
CONTINUOUS(gamma_small, kiln_random_gamma(full(dtype, 0.3), SHAPE), exact_gamma(0.3L, x))
CONTINUOUS(gamma_large, kiln_random_gamma(full(dtype, 400), SHAPE), exact_gamma(400, x))
CONTINUOUS(chi2, kiln_random_chi2(full(dtype, 3), SHAPE), exact_gamma(1.5L, x / 2))
CONTINUOUS(student_t, kiln_random_student_t(full(dtype, 5), SHAPE), exact_student(5, x))
CONTINUOUS(beta, kiln_random_beta(full(dtype, 2), full(dtype, 0.75), SHAPE), exact_beta(2, 0.75L, x))
CONTINUOUS(dirichlet,
           kiln_select(kiln_dirichlet(kiln_add(kiln_arange(dev, dtype, 0, 3, 1), kiln_scalar(0.5)),
                                      KILN_SHAPE(samples, 3)),
                       1, 1),
           exact_beta(1.5L, 3, x))
WHOLE(geometric, kiln_geometric(dev, dtype, SHAPE, 0.2), k < 1 ? 0 : 0.2L * powl(0.8L, k - 1))
WHOLE(poisson, kiln_random_poisson(full(dtype, 3), SHAPE), expl(k *logl(3) - 3 - lgammal(k + 1)))
WHOLE(poisson_tiny, kiln_random_poisson(full(dtype, 0.01), SHAPE), expl(k *logl(0.01L) - 0.01L - lgammal(k + 1)))
WHOLE(poisson_edge, kiln_random_poisson(full(dtype, 10), SHAPE), expl(k *logl(10) - 10 - lgammal(k + 1)))
WHOLE(poisson_large, kiln_random_poisson(full(dtype, 1000), SHAPE), expl(k *logl(1000) - 1000 - lgammal(k + 1)))
WHOLE(binomial, kiln_random_binomial(full(dtype, 20), full(dtype, 0.25), SHAPE), exact_binomial(20, 0.25L, k))
WHOLE(binomial_high, kiln_random_binomial(full(dtype, 20), full(dtype, 0.875), SHAPE), exact_binomial(20, 0.875L, k))
WHOLE(binomial_large, kiln_random_binomial(full(dtype, 1000), full(dtype, 0.625), SHAPE),
      exact_binomial(1000, 0.625L, k))
WHOLE(rademacher, kiln_add(kiln_rademacher(dev, dtype, SHAPE), kiln_scalar(1)), k == 0 || k == 2 ? 0.5L : 0)

static const double weights[] = {1, 0, 2, 4, 0.5, 0, 2.5}; // 10 in all
static kiln_tensor *weights_of(kiln_dtype dtype)
{
    return kiln_cast(kiln_from_data(suite.dev, KILN_F64, KILN_SHAPE(7), weights), dtype);
}
static long double share(long double k)
{
    return k < 7 ? (long double)weights[(int)k] / 10 : 0;
}
WHOLE(categorical, kiln_categorical(kiln_log(weights_of(dtype)), SHAPE), share(k))
WHOLE(categorical_each, kiln_categorical(kiln_expand(kiln_log(weights_of(dtype)), KILN_SHAPE(samples, 7)), KILN_SHAPE0),
      share(k))
WHOLE(multinomial, kiln_multinomial(weights_of(dtype), samples, true), share(k))
WHOLE(without, kiln_select(kiln_multinomial(kiln_expand(weights_of(dtype), KILN_SHAPE(samples, 7)), 3, false), 1, 0),
      share(k))
// The second of two: after a first j, k has weights[k] / (10 - weights[j]).
static long double second(long double k)
{
    long double sum = 0;
    for (int j = 0; j < 7; j++)
        if (j != (int)k) sum += share(j) * share(k) / (1 - share(j));
    return sum;
}
WHOLE(without_second,
      kiln_select(kiln_multinomial(kiln_expand(weights_of(dtype), KILN_SHAPE(samples, 7)), 3, false), 1, 1), second(k))

#define D(name, ...)                                \
    {                                               \
#name, draw_##name, cdf_##name, __VA_ARGS__ \
    }
static const struct distribution distributions[] = {
    D(exponential, false, 0.4, 0.4),
    D(laplace, false, 1, 0.70710678),
    D(gumbel, false, 0.15443133, 2.5650997),
    D(logistic, false, 1, 3.6275987),
    D(cauchy, false, 0, 0),
    D(log_normal, false, 1.7010923, 0.4319947),
    D(weibull, false, 1.8054906, 1.2260137),
    D(pareto, false, 2.5, 0.6454972),
    D(truncated, false, 0, 0),
    D(tail, false, 0, 0),
    D(low_tail, false, 0, 0),
    D(gamma, false, 3.5, 1.8708287),
    D(gamma_one, false, 1, 1),
    D(gamma_small, false, 0.3, 0.54772256),
    D(gamma_large, false, 400, 20),
    D(chi2, false, 3, 2.4494897),
    D(student_t, false, 0, 1.2909944),
    D(beta, false, 0.72727273, 0.22999245),
    D(dirichlet, false, 1 / 3.0, 0.20100756),
    D(geometric, true, 5, 4.4721360),
    D(poisson, true, 3, 1.7320508),
    D(poisson_tiny, true, 0.01, 0.1),
    D(poisson_edge, true, 10, 3.1622777),
    D(poisson_large, true, 1000, 31.622777),
    D(binomial, true, 5, 1.9364917),
    D(binomial_high, true, 17.5, 1.4790199),
    D(binomial_large, true, 625, 15.309311),
    D(rademacher, true, 1, 1),
    D(categorical, true, 0, 0),
    D(categorical_each, true, 0, 0),
    D(multinomial, true, 0, 0),
    D(without, true, 0, 0),
    D(without_second, true, 0, 0),
};
enum { COUNT = sizeof distributions / sizeof distributions[0] };

static int upwards(const void *a, const void *b)
{
    long double x = *(const long double *)a, y = *(const long double *)b;
    return (x > y) - (x < y);
}

// The largest distance of the sorted samples' steps to the distribution function; of whole numbers at each of them.
static long double distance(const struct distribution *d, const struct host *h)
{
    long double most = 0;
    for (int64_t i = 0, next; i < h->n; i = next) {
        for (next = i; next < h->n && h->v[next] == h->v[i]; next++) {}
        if (!d->whole && i % 16) continue; // between the places looked at it can be larger by 16 / samples
        long double at = d->cdf(h->v[i]), above = (long double)next / (long double)h->n;
        long double below = (long double)i / (long double)h->n;
        long double before = d->whole ? d->cdf(h->v[i] - 1) : at;
        most = fmaxl(most, fmaxl(fabsl(above - at), fabsl(below - before)));
    }
    return most;
}

static void check_distribution(const struct distribution *d, int dtype)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_seed(suite.dev, 2024);
    kiln_tensor *t = d->draw(dtype);
    struct host h = {0};
    record.cases++;
    if (no_error(d->name) && (kiln_rank(t) != 1 || kiln_dims(t)[0] != samples))
        record_mistake("%s: another shape", d->name);
    if (!kiln_error() && t) h = host_read(t);
    if (no_error(d->name) && h.v) {
        long double mean = 0;
        qsort(h.v, (size_t)h.n, sizeof *h.v, upwards);
        for (int64_t i = 0; i < h.n; i++) mean += h.v[i] / (long double)h.n;
        record.values += (uint64_t)h.n;
        long double far = distance(d, &h), bound = 1.95L / sqrtl((long double)samples);
        if (!(far < bound))
            record_mistake("%s %s: distance %.5Lf, bound %.5Lf", d->name, kiln_dtype_name((kiln_dtype)dtype), far,
                           bound);
        if (d->sigma > 0 &&
            !(fabsl(mean - (long double)d->mean) < 4 * (long double)d->sigma / sqrtl((long double)samples)))
            record_mistake("%s %s: mean %.6Lf, expected %.6f", d->name, kiln_dtype_name((kiln_dtype)dtype), mean,
                           d->mean);
    }
    host_free(&h);
    kiln_scope_end(&scope);
}

static void are_distributed(void **state)
{
    (void)state;
    record_begin("are_distributed");
    samples = strcmp(suite.device, "cpu") ? FEW : MANY; // of other devices, see devices_agree
    for (int i = 0; i < COUNT; i++) {
        check_distribution(&distributions[i], KILN_F32);
        check_distribution(&distributions[i], KILN_F64);
    }
    record_end();
}

static kiln_status captured(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct distribution *d = user;
    (void)in, (void)n_in, (void)n_out;
    out[0] = d->draw(KILN_F32);
    return kiln_error();
}

// Up to the rounding of sums, which have another order in fused kernels.
static bool same(const struct host *a, const struct host *b)
{
    if (!a->v || !b->v || a->n != b->n) return false;
    for (int64_t i = 0; i < a->n; i++)
        if (!(fabsl(a->v[i] - b->v[i]) <= 1e-6L * fabsl(b->v[i]))) return false;
    return true;
}

// Eagerly, in each kind of capture, and twice: the state before gives the values, and what follows continues.
static void seeds_tell_all(void **state)
{
    (void)state;
    record_begin("seeds_tell_all");
    samples = FEW;
    static const kiln_capture kinds[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE};
    for (int i = 0; i < COUNT; i++) {
        const struct distribution *d = &distributions[i];
        kiln_scope *scope = kiln_scope_begin();
        kiln_seed(suite.dev, 5);
        struct host first = host_read(d->draw(KILN_F32)), second = host_read(d->draw(KILN_F32));
        no_error(d->name);
        if (same(&first, &second)) record_mistake("%s: two draws are the same", d->name);
        for (int k = 0; k < 3; k++) {
            kiln_tensor *out[1];
            kiln_function *f = kiln_jit(captured, (void *)(uintptr_t)d, KILN_JIT(.capture = kinds[k]));
            kiln_seed(suite.dev, 5);
            for (int again = 0; again < 2; again++) {
                kiln_call(f, NULL, 0, out, 1);
                if (!no_error(d->name)) break;
                struct host h = host_read(out[0]);
                record.cases++, record.values += (uint64_t)h.n;
                if (!same(&h, again ? &second : &first))
                    record_mistake("%s: capture %d draws other numbers, call %d", d->name, k, again);
                host_free(&h);
            }
            kiln_function_free(&f);
        }
        host_free(&first);
        host_free(&second);
        kiln_scope_end(&scope);
    }
    record_end();
}

// What the CPU draws of the same state, where that is another device.
static void devices_agree(void **state)
{
    (void)state;
    record_begin("devices_agree");
    samples = FEW;
    kiln_device *own = suite.dev, *cpu = kiln_device_open("cpu");
    for (int i = 0; i < COUNT; i++) {
        const struct distribution *d = &distributions[i];
        kiln_scope *scope = kiln_scope_begin();
        struct host h[2];
        for (int k = 0; k < 2; k++) {
            suite.dev = k ? cpu : own;
            kiln_seed(suite.dev, 77);
            h[k] = host_read(d->draw(KILN_F32));
            no_error(d->name);
        }
        suite.dev = own;
        int64_t others = 0;
        for (int64_t n = 0; h[0].v && h[1].v && n < h[0].n; n++)
            others += fabsl(h[0].v[n] - h[1].v[n]) > 1e-5L * fabsl(h[0].v[n]) + 1e-6L;
        record.cases++, record.values += (uint64_t)samples;
        if (others) record_mistake("%s: %lld samples differ from those of the CPU", d->name, (long long)others);
        host_free(&h[0]);
        host_free(&h[1]);
        kiln_scope_end(&scope);
    }
    kiln_device_close(&cpu);
    record_end();
}

static struct host drawn(kiln_generator *g)
{
    kiln_generator *before = kiln_use_generator(g);
    struct host h = host_read(kiln_uniform(suite.dev, KILN_F32, KILN_SHAPE(100), 0, 1));
    if (kiln_use_generator(before) != g) record_mistake("another generator was in use");
    no_error("generator");
    record.cases++, record.values += 100;
    return h;
}

static void expect_same(const struct host *a, const struct host *b, bool want, const char *what)
{
    if (same(a, b) != want) record_mistake("%s", what);
}

static void generators_stand_beside(void **state)
{
    (void)state;
    record_begin("generators_stand_beside");
    kiln_scope *scope = kiln_scope_begin();
    uint64_t seed, offset;
    kiln_seed(suite.dev, 11);
    struct host of_device = drawn(NULL);
    kiln_generator *a = kiln_generator_new(11), *b = kiln_generator_new(12);
    kiln_generator_state(a, &seed, &offset);
    if (seed != 11 || offset != 0) record_mistake("a new generator is at %llu", (unsigned long long)offset);
    struct host first = drawn(a), second = drawn(a), other = drawn(b);
    expect_same(&of_device, &first, true, "a generator draws other numbers than a device of the same seed");
    expect_same(&first, &second, false, "a generator does not move");
    expect_same(&first, &other, false, "two seeds give the same");
    kiln_rng_state(suite.dev, &seed, &offset);
    if (seed != 11 || offset != 50)
        record_mistake("the device's generator was moved to %llu", (unsigned long long)offset);
    kiln_generator_set_state(a, 11, 50);
    struct host again = drawn(a);
    expect_same(&second, &again, true, "the state put back gives other numbers");
    kiln_generator *fork = kiln_generator_fork(a), *next = kiln_generator_fork(a);
    struct host forked = drawn(fork), forked_next = drawn(next), onward = drawn(a);
    expect_same(&forked, &forked_next, false, "two forks draw the same");
    expect_same(&forked, &onward, false, "a fork draws what its generator does");
    // A generator that is freed in use goes when it is replaced.
    kiln_use_generator(fork);
    kiln_generator_free(&fork);
    kiln_seed(suite.dev, 1);
    struct host still = host_read(kiln_uniform(suite.dev, KILN_F32, KILN_SHAPE(100), 0, 1));
    kiln_use_generator(NULL);
    expect_same(&still, &forked, false, "the fork does not move");
    kiln_generator_free(&next);
    kiln_generator_free(&a);
    kiln_generator_free(&b);
    struct host *all[] = {&of_device, &first, &second, &other, &again, &forked, &forked_next, &onward, &still};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) host_free(all[i]);
    kiln_scope_end(&scope);
    record_end();
}

static kiln_status mixed(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_dropout(kiln_add(in[0], kiln_normal(suite.dev, KILN_F32, KILN_SHAPE(100), 0, 1)), 0.4);
    return kiln_error();
}

static kiln_status uses(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)n_in, (void)n_out;
    kiln_use_generator(user);
    out[0] = kiln_add(in[0], kiln_normal(suite.dev, KILN_F32, KILN_SHAPE(100), 0, 1));
    return kiln_error();
}

// A call of a captured function draws from the generator in use; inside of a capture none can be chosen.
static void captures_draw_from_them(void **state)
{
    (void)state;
    record_begin("captures_draw_from_them");
    static const kiln_capture kinds[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE};
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(100)), *out;
    kiln_generator *g = kiln_generator_new(3);
    kiln_use_generator(g);
    mixed(NULL, &x, 1, &out, 1);
    struct host want = host_read(out);
    for (int k = 0; k < 3; k++) {
        kiln_function *f = kiln_jit(mixed, NULL, KILN_JIT(.capture = kinds[k]));
        for (int again = 0; again < 3; again++) {
            kiln_generator_set_state(g, 3, 0);
            kiln_call(f, &x, 1, &out, 1);
            struct host h = host_read(out);
            record.cases++, record.values += 100;
            no_error("call with a generator");
            expect_same(&h, &want, true, "a captured function draws other numbers of the generator");
            host_free(&h);
        }
        kiln_function_free(&f);
    }
    kiln_use_generator(NULL);
    kiln_function *f = kiln_jit(uses, g, KILN_JIT(.capture = KILN_CAPTURE_STRICT));
    kiln_call(f, &x, 1, &out, 1);
    expect_error(KILN_E_STATE, "use_generator", "in a capture");
    kiln_function_free(&f);
    kiln_generator_free(&g);
    host_free(&want);
    kiln_scope_end(&scope);
    record_end();
}

static void wrong_arguments(void **state)
{
    (void)state;
    record_begin("wrong_arguments");
    kiln_scope *scope = kiln_scope_begin();
    kiln_device *dev = suite.dev;
    kiln_tensor *p = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3)), *i = kiln_ones(dev, KILN_I32, KILN_SHAPE(3));
    kiln_exponential(dev, KILN_F32, KILN_SHAPE(3), 0);
    expect_error(KILN_E_ARGUMENT, "exponential", "rate 0");
    kiln_laplace(dev, KILN_I32, KILN_SHAPE(3), 0, 1);
    expect_error(KILN_E_DTYPE, "laplace", "integers");
    kiln_gumbel(dev, KILN_F32, KILN_SHAPE(3), NAN, 1);
    expect_error(KILN_E_ARGUMENT, "gumbel", "NaN");
    kiln_geometric(dev, KILN_F32, KILN_SHAPE(3), 1.5);
    expect_error(KILN_E_ARGUMENT, "geometric", "p above 1");
    kiln_truncated_normal(dev, KILN_F32, KILN_SHAPE(3), 0, 1, 2, 1);
    expect_error(KILN_E_ARGUMENT, "truncated_normal", "an empty range");
    kiln_truncated_normal(dev, KILN_F32, KILN_SHAPE(3), 0, 1, 50, 60);
    expect_error(KILN_E_ARGUMENT, "truncated_normal", "no probability");
    kiln_rademacher(dev, KILN_U8, KILN_SHAPE(3));
    expect_error(KILN_E_DTYPE, "rademacher", "u8");
    kiln_random_gamma(i, KILN_SHAPE0);
    expect_error(KILN_E_DTYPE, "random_gamma", "integers");
    kiln_random_gamma(p, KILN_SHAPE(2, 4));
    expect_error(KILN_E_SHAPE, "random_gamma", "a shape that alpha does not broadcast to");
    kiln_categorical(i, KILN_SHAPE0);
    expect_error(KILN_E_DTYPE, "categorical", "integers");
    kiln_categorical(p, KILN_SHAPE(-1));
    expect_error(KILN_E_SHAPE, "categorical", "a negative size");
    kiln_multinomial(p, 4, false);
    expect_error(KILN_E_ARGUMENT, "multinomial", "more than there are");
    kiln_multinomial(NULL, 4, false);
    expect_error(KILN_E_ARGUMENT, "multinomial", "NULL");
    kiln_shuffle(p, 2);
    expect_error(KILN_E_AXIS, "shuffle", "axis 2");
    kiln_generator_fork(NULL);
    expect_error(KILN_E_ARGUMENT, "generator_fork", "NULL");
    record.cases++, record.values++;
    kiln_scope_end(&scope);
    record_end();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(are_distributed),         cmocka_unit_test(seeds_tell_all),
        cmocka_unit_test(devices_agree),           cmocka_unit_test(generators_stand_beside),
        cmocka_unit_test(captures_draw_from_them), cmocka_unit_test(wrong_arguments),
    };
    suite.compiles = true;
    return suite_main(argc, argv, "distributions", tests, sizeof tests / sizeof tests[0]);
}
