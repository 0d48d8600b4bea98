// Poisson and binomial numbers, in f64. Small means by inversion: one uniform number, and how many values of the
// distribution function lie below it. Large ones by rejection, W. Hoermann, The transformed rejection method for
// generating Poisson random variables, 1993, and The generation of binomial random variates, 1993: an attempt holds
// with probability 3/4 or more. All elements make ROUNDS attempts at once and take the first that holds; none does with
// probability 1e-10 at most, and then the first is taken, rounded into range. What depends on the parameters alone is
// computed in their own shape, so that tables of one mean are made once, not once a sample.
#include "compose/random.h"
#include "base/dtype.h"

enum { ROUNDS = 16, TABLE = 64 }; // a mean below 10 has nothing beyond 64 that a number of 53 bits could show
#define SMALL_MEAN 10

struct draws {
    kiln_tensor *u, *v, *once; // [ROUNDS, ...] in (-1/2, 1/2) and (0, 1); [...] in (0, 1)
};

static kiln_tensor *number(double v)
{
    return kiln_scalar(v);
}

static struct draws draw(kiln_device *dev, size_t rank, const int64_t *shape)
{
    struct draws d = {NULL, NULL, NULL};
    int64_t dims[KILN_MAX_RANK + 1] = {ROUNDS};
    if (!error_pending && rank >= KILN_MAX_RANK)
        error_set(KILN_E_SHAPE, "the samples have rank %zu, which is too much", rank);
    if (error_pending) return d;
    for (size_t i = 0; i < rank; i++) dims[1 + i] = shape[i];
    d.u = kiln_sub(random_open(dev, KILN_F64, rank + 1, dims), number(0.5));
    d.v = random_open(dev, KILN_F64, rank + 1, dims);
    d.once = random_open(dev, KILN_F64, rank, dims + 1);
    return d;
}

// 0, 1, ... along a new first axis of tensors of some rank.
static kiln_tensor *counted(kiln_device *dev, size_t rank)
{
    int64_t dims[KILN_MAX_RANK];
    if (error_pending) return NULL;
    for (size_t i = 0; i <= rank; i++) dims[i] = i ? 1 : TABLE;
    return kiln_reshape(kiln_arange(dev, KILN_F64, 0, TABLE, 1), rank + 1, dims);
}

// How many values of the distribution function of log probabilities [TABLE, ...] lie below u.
static kiln_tensor *inverted(kiln_tensor *log_p, kiln_tensor *u)
{
    kiln_tensor *below = kiln_cast(kiln_less(kiln_cumsum(kiln_exp(log_p), 0), u), KILN_F64);
    return kiln_sum(below, KILN_REDUCE(.axes = KILN_AXES(0)));
}

static kiln_tensor *first(kiln_tensor *attempts, kiln_tensor *holds)
{
    kiln_tensor *at = kiln_argmax(kiln_cast(holds, KILN_I32), KILN_REDUCE(.axes = KILN_AXES(0), .keepdims = true));
    return kiln_squeeze(kiln_gather(attempts, 0, at), KILN_AXES(0));
}

// a + b / c
static kiln_tensor *plus_quotient(double a, double b, kiln_tensor *c)
{
    return kiln_add(kiln_div(number(b), c), number(a));
}

// What both of Hoermann's methods share: us = 1/2 - |u|, and the hat's inverse, rounded down: (2 a / us + b) u + c.
static kiln_tensor *attempt(kiln_tensor *a, kiln_tensor *b, kiln_tensor *c, kiln_tensor *u, kiln_tensor *us)
{
    kiln_tensor *slope = kiln_add(kiln_div(kiln_mul(a, number(2)), us), b);
    return kiln_floor(kiln_add(kiln_mul(slope, u), c));
}

static kiln_tensor *poisson_large(kiln_tensor *mean, const struct draws *d)
{
    kiln_tensor *root = kiln_sqrt(mean), *b = kiln_add(kiln_mul(root, number(2.53)), number(0.931));
    kiln_tensor *a = kiln_add(kiln_mul(b, number(0.02483)), number(-0.059));
    kiln_tensor *inverse_alpha = plus_quotient(1.1239, 1.1328, kiln_sub(b, number(3.4)));
    kiln_tensor *us = kiln_sub(number(0.5), kiln_abs(d->u));
    kiln_tensor *k = attempt(a, b, kiln_add(mean, number(0.43)), d->u, us);
    kiln_tensor *sound = kiln_greater_equal(k, number(0)), *at = kiln_maximum(k, number(0));
    kiln_tensor *hat = kiln_add(kiln_div(a, kiln_square(us)), b);
    kiln_tensor *left = kiln_log(kiln_div(kiln_mul(d->v, inverse_alpha), hat));
    kiln_tensor *right = kiln_sub(kiln_sub(kiln_mul(at, kiln_log(mean)), mean), kiln_lgamma(kiln_add(at, number(1))));
    return kiln_maximum(first(k, kiln_logical_and(sound, kiln_less_equal(left, right))), number(0));
}

static kiln_tensor *poisson_small(kiln_tensor *mean, kiln_tensor *u)
{
    if (error_pending) return NULL;
    kiln_tensor *k = counted(kiln_tensor_device(mean), kiln_rank(mean));
    return inverted(kiln_sub(kiln_sub(kiln_xlogy(k, mean), mean), kiln_lgamma(kiln_add(k, number(1)))), u);
}

// A parameter in f64, cut off from gradients, with as many axes as the samples, to whose shape it broadcasts.
static kiln_tensor *parameter(const char *name, kiln_tensor *t, size_t rank, const int64_t *dims)
{
    if (!error_pending && kiln_tensor_dtype(t) == KILN_BOOL) error_set(KILN_E_DTYPE, "%s is bool", name);
    kiln_tensor *own = kiln_cast(kiln_stop_gradient(t), KILN_F64);
    int64_t wide[KILN_MAX_RANK];
    if (!kiln_expand(own, rank, dims)) return NULL; // for its error
    size_t more = rank - kiln_rank(own);
    for (size_t i = 0; i < rank; i++) wide[i] = i < more ? 1 : kiln_dims(own)[i - more];
    return kiln_reshape(own, rank, wide);
}

kiln_tensor *compose_random_poisson(kiln_tensor *rate, size_t rank, const int64_t *dims)
{
    if (error_pending) return NULL;
    if (rank == 0) rank = kiln_rank(rate), dims = kiln_dims(rate);
    kiln_tensor *mean = parameter("rate", rate, rank, dims);
    struct draws d = draw(kiln_tensor_device(rate), rank, dims);
    kiln_tensor *limit = number(SMALL_MEAN), *is_small = kiln_less(mean, limit);
    kiln_tensor *small = poisson_small(kiln_minimum(mean, limit), d.once);
    kiln_tensor *large = poisson_large(kiln_maximum(mean, limit), &d);
    kiln_tensor *k = kiln_where(is_small, small, large), *nan = number(NAN);
    return kiln_cast(kiln_where(kiln_greater_equal(mean, number(0)), k, nan), kiln_tensor_dtype(rate));
}

// log n! - log k! - log (n - k)!
static kiln_tensor *log_choose(kiln_tensor *n, kiln_tensor *k)
{
    kiln_tensor *one = number(1), *rest = kiln_sub(n, k);
    kiln_tensor *both = kiln_add(kiln_lgamma(kiln_add(k, one)), kiln_lgamma(kiln_add(rest, one)));
    return kiln_sub(kiln_lgamma(kiln_add(n, one)), both);
}

static kiln_tensor *log_mass(kiln_tensor *n, kiln_tensor *p, kiln_tensor *k)
{
    kiln_tensor *misses = kiln_mul(kiln_sub(n, k), kiln_log1p(kiln_neg(p)));
    return kiln_add(log_choose(n, k), kiln_add(kiln_xlogy(k, p), misses));
}

static kiln_tensor *binomial_small(kiln_tensor *n, kiln_tensor *p, kiln_tensor *u)
{
    if (error_pending) return NULL;
    kiln_tensor *k = counted(kiln_tensor_device(n), kiln_rank(n)), *inside = kiln_less_equal(k, n);
    kiln_tensor *mass = log_mass(n, p, kiln_minimum(k, n));
    return kiln_minimum(inverted(kiln_where(inside, mass, number(-INFINITY)), u), n);
}

static kiln_tensor *binomial_large(kiln_tensor *n, kiln_tensor *p, const struct draws *d)
{
    kiln_tensor *q = kiln_sub(number(1), p), *mean = kiln_mul(n, p), *root = kiln_sqrt(kiln_mul(mean, q));
    kiln_tensor *b = kiln_add(kiln_mul(root, number(2.53)), number(1.15));
    kiln_tensor *a = kiln_add(kiln_add(kiln_mul(b, number(0.0248)), kiln_mul(p, number(0.01))), number(-0.0873));
    kiln_tensor *alpha = kiln_mul(plus_quotient(2.83, 5.1, b), root);
    kiln_tensor *mode = kiln_floor(kiln_mul(kiln_add(n, number(1)), p));
    kiln_tensor *us = kiln_sub(number(0.5), kiln_abs(d->u));
    kiln_tensor *k = attempt(a, b, kiln_add(mean, number(0.5)), d->u, us);
    kiln_tensor *sound = kiln_logical_and(kiln_greater_equal(k, number(0)), kiln_less_equal(k, n));
    kiln_tensor *at = kiln_clip(k, number(0), n);
    kiln_tensor *left = kiln_log(kiln_div(kiln_mul(d->v, alpha), kiln_add(kiln_div(a, kiln_square(us)), b)));
    kiln_tensor *right = kiln_sub(log_mass(n, p, at), log_mass(n, p, mode));
    return kiln_clip(first(k, kiln_logical_and(sound, kiln_less_equal(left, right))), number(0), n);
}

// Half of the range of p, so that the mean of the small ones is n p; the other half counts failures.
kiln_tensor *compose_random_binomial(kiln_tensor *count, kiln_tensor *p, size_t rank, const int64_t *dims)
{
    kiln_tensor *both = kiln_add(kiln_stop_gradient(count), kiln_stop_gradient(p)); // its shape alone
    if (error_pending) return NULL;
    if (rank == 0) rank = kiln_rank(both), dims = kiln_dims(both);
    kiln_tensor *n0 = parameter("count", count, rank, dims), *p0 = parameter("p", p, rank, dims);
    kiln_tensor *one = number(1), *zero = number(0);
    struct draws d = draw(kiln_tensor_device(both), rank, dims);
    kiln_tensor *sound = kiln_logical_and(kiln_greater_equal(p0, zero), kiln_less_equal(p0, one));
    sound = kiln_logical_and(sound, kiln_greater_equal(n0, zero));
    kiln_tensor *n = kiln_floor(kiln_where(sound, n0, zero)), *share = kiln_where(sound, p0, zero);
    kiln_tensor *mirrored = kiln_greater(share, number(0.5));
    share = kiln_where(mirrored, kiln_sub(one, share), share);
    kiln_tensor *is_small = kiln_less(kiln_mul(n, share), number(SMALL_MEAN));
    // Where one method does not apply, the other's numbers are harmless ones.
    kiln_tensor *small = binomial_small(kiln_where(is_small, n, zero), share, d.once);
    kiln_tensor *large =
        binomial_large(kiln_where(is_small, number(40), n), kiln_where(is_small, number(0.5), share), &d);
    kiln_tensor *k = kiln_where(is_small, small, large);
    k = kiln_where(mirrored, kiln_sub(n, k), k);
    return kiln_cast(kiln_where(sound, k, number(NAN)), kiln_tensor_dtype(count));
}
