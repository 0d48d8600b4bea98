// Classes by their probabilities: the largest of log probabilities with Gumbel noise (E. J. Gumbel, Statistical Theory
// of Extreme Values, 1954), where each element draws once, or with the noise's order where nothing is put back; else by
// inversion, one number a sample, for which its place in the running sums of the probabilities is searched.
#include "compose/random.h"
#include "base/dtype.h"

static bool classes_of(const char *name, kiln_tensor *t)
{
    if (error_pending) return false;
    if (!dtype_is_float(kiln_tensor_dtype(t)))
        error_set(KILN_E_DTYPE, "%s must be floats, it is %s", name, type_of(t).s);
    else if (kiln_rank(t) == 0 || kiln_dims(t)[kiln_rank(t) - 1] == 0)
        error_set(KILN_E_SHAPE, "%s has no classes: it is %s", name, type_of(t).s);
    return !error_pending;
}

// Running sums [..., K] and numbers u [..., n] below the last of them: the first place that is above u. A class of no
// probability is never found.
static kiln_tensor *search(kiln_tensor *sums, kiln_tensor *u)
{
    int64_t classes = kiln_dims(sums)[kiln_rank(sums) - 1], step = 1;
    kiln_tensor *below = kiln_cast(kiln_zeros_like(u), KILN_I64); // so many sums are known not to be above u
    while (2 * step <= classes) step *= 2;
    for (; step; step /= 2) {
        kiln_tensor *last = kiln_add(below, kiln_scalar_int(step - 1));
        kiln_tensor *at = kiln_minimum(last, kiln_scalar_int(classes - 1));
        kiln_tensor *holds = kiln_less_equal(kiln_gather(sums, -1, at), u);
        holds = kiln_logical_and(holds, kiln_less(last, kiln_scalar_int(classes)));
        below = kiln_where(holds, kiln_add(below, kiln_scalar_int(step)), below);
    }
    return kiln_minimum(below, kiln_scalar_int(classes - 1));
}

// n samples of each line: [..., n].
static kiln_tensor *inverted(kiln_tensor *weights, int64_t n)
{
    int64_t dims[KILN_MAX_RANK];
    size_t rank = kiln_rank(weights);
    kiln_tensor *sums = kiln_cumsum(weights, -1);
    if (error_pending) return NULL;
    for (size_t i = 0; i + 1 < rank; i++) dims[i] = kiln_dims(weights)[i];
    dims[rank - 1] = n;
    kiln_tensor *total = kiln_narrow(sums, -1, kiln_dims(weights)[rank - 1] - 1, 1);
    kiln_tensor *u = kiln_uniform(kiln_tensor_device(weights), kiln_tensor_dtype(weights), rank, dims, 0, 1);
    double last = kiln_tensor_dtype(weights) == KILN_F64 ? 1 - 0x1p-51 : 1 - 0x1p-22; // rounding stays below the total
    return search(sums, kiln_mul(u, kiln_mul(total, kiln_scalar(last))));
}

static kiln_tensor *noisy(kiln_tensor *logits)
{
    kiln_tensor *noise =
        random_gumbel(kiln_tensor_device(logits), kiln_tensor_dtype(logits), kiln_rank(logits), kiln_dims(logits));
    return composite_instead_of(noise, kiln_add(logits, noise));
}

// [..., n] to [samples, ...]
static kiln_tensor *in_front(kiln_tensor *t, size_t n, const int64_t *samples)
{
    int64_t axes[KILN_MAX_RANK], dims[2 * KILN_MAX_RANK];
    size_t rank = kiln_rank(t);
    if (rank - 1 + n > KILN_MAX_RANK) error_set(KILN_E_SHAPE, "the samples have more than %d axes", KILN_MAX_RANK);
    if (error_pending) return NULL;
    for (size_t i = 0; i < rank; i++) axes[i] = i ? (int64_t)i - 1 : (int64_t)rank - 1;
    for (size_t i = 0; i < n; i++) dims[i] = samples[i];
    for (size_t i = 0; i + 1 < rank; i++) dims[n + i] = kiln_dims(t)[i];
    return kiln_reshape(kiln_permute(t, (kiln_ints){rank, axes}), rank - 1 + n, dims);
}

kiln_tensor *compose_categorical(kiln_tensor *logits, size_t n, const int64_t *samples)
{
    int64_t count = 1;
    if (n > KILN_MAX_RANK) error_set(KILN_E_SHAPE, "there are %zu axes of samples", n);
    if (!classes_of("logits", logits)) return NULL;
    for (size_t i = 0; i < n; i++) {
        if (samples[i] < 0 || (samples[i] && count > INT64_MAX / samples[i])) {
            error_set(KILN_E_SHAPE, "axis %zu of the samples has size %lld", i, (long long)samples[i]);
            return NULL;
        }
        count *= samples[i];
    }
    kiln_tensor *own = kiln_cast(kiln_stop_gradient(logits), random_wide(kiln_tensor_dtype(logits)));
    if (n == 0) return kiln_argmax(noisy(own), KILN_REDUCE(.axes = KILN_AXES(-1)));
    return in_front(inverted(kiln_softmax(own, -1), count), n, samples);
}

kiln_tensor *compose_multinomial(kiln_tensor *weights, int64_t count, bool replacement)
{
    if (!classes_of("weights", weights)) return NULL;
    int64_t classes = kiln_dims(weights)[kiln_rank(weights) - 1];
    if (count < 0 || (!replacement && count > classes)) {
        error_set(KILN_E_ARGUMENT, "%lld samples %s %lld classes", (long long)count,
                  count < 0 ? "of" : "without replacement of only", (long long)classes);
        return NULL;
    }
    kiln_tensor *own = kiln_cast(kiln_stop_gradient(weights), random_wide(kiln_tensor_dtype(weights)));
    if (replacement) return inverted(own, count);
    kiln_tensor *values, *places;
    kiln_topk(noisy(kiln_log(own)), count, -1, true, &values, &places);
    return places;
}

// The classes that are drawn have the probabilities softmax(logits); the gradient is that of the softmax with the same
// noise (E. Jang, S. Gu, B. Poole, Categorical reparameterization with Gumbel-softmax, 2017).
kiln_tensor *compose_gumbel_softmax(kiln_tensor *logits, double temperature, bool hard)
{
    if (!classes_of("logits", logits) || !random_positive("temperature", temperature)) return NULL;
    kiln_dtype dtype = kiln_tensor_dtype(logits);
    kiln_tensor *scores = noisy(kiln_cast(logits, random_wide(dtype)));
    kiln_tensor *soft = kiln_cast(kiln_softmax(kiln_div(scores, kiln_scalar(temperature)), -1), dtype);
    if (!hard || error_pending) return soft;
    kiln_tensor *best = kiln_argmax(soft, KILN_REDUCE(.axes = KILN_AXES(-1)));
    kiln_tensor *hot = kiln_cast(kiln_one_hot(best, kiln_dims(logits)[kiln_rank(logits) - 1]), dtype);
    return kiln_add(kiln_stop_gradient(kiln_sub(hot, soft)), soft);
}
