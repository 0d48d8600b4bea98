// Attention on the CPU has the same bits on any number of threads, and so have its gradients; for the instruction set
// that KILN_CPU_ISA names. What they are tests/conformance/attention.c knows.
#include "device/cpu_fixture.h"

#include <float.h>
#include <math.h>
#include <omp.h>

enum { RESULTS = 4 };
static const char *const names[RESULTS] = {"result", "gradient by q", "gradient by k", "gradient by v"};

struct shape {
    int64_t heads, shared, queries, keys, width;
    bool causal;
};

static kiln_status attend(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct shape *s = user;
    out[0] = kiln_sdpa(in[0], in[1], in[2], NULL, KILN_ATTENTION(.causal = s->causal));
    return kiln_error();
}

static void run(struct shape *s, kiln_tensor *const *in, char **bytes, size_t *sizes_B)
{
    kiln_tensor *out[RESULTS] = {NULL};
    kiln_value_and_grad(attend, s, in, 3, KILN_GRAD(.wrt = KILN_AXES(0, 1, 2), .sens = KILN_TENSORS(in[0])), out,
                        RESULTS);
    for (int i = 0; i < RESULTS; i++) {
        sizes_B[i] = 4;
        for (size_t d = 0; d < kiln_rank(out[i]); d++) sizes_B[i] *= (size_t)kiln_dims(out[i])[d];
        bytes[i] = malloc(sizes_B[i]);
        if (!out[i] || kiln_read(out[i], bytes[i], sizes_B[i])) fail_msg("%s", kiln_error_message());
    }
}

static void check(struct shape s)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *in[3];
    char *want[RESULTS];
    size_t sizes_B[RESULTS];
    for (int i = 0; i < 3; i++)
        in[i] = kiln_normal(dev, KILN_F32,
                            KILN_SHAPE(1, i ? s.heads / s.shared : s.heads, i ? s.keys : s.queries, s.width), 0, 1);
    int before = omp_get_max_threads();
    omp_set_num_threads(1);
    run(&s, in, want, sizes_B);
    for (int threads = 2; threads <= 5; threads++) {
        char *got[RESULTS];
        omp_set_num_threads(threads);
        run(&s, in, got, sizes_B);
        for (int i = 0; i < RESULTS; i++) {
            if (memcmp(want[i], got[i], sizes_B[i]))
                fail_msg("%s of %d queries and %d keys: other bits with %d threads", names[i], (int)s.queries,
                         (int)s.keys, threads);
            free(got[i]);
        }
    }
    omp_set_num_threads(before);
    for (int i = 0; i < RESULTS; i++) free(want[i]);
    kiln_scope_end(&scope);
}

static void same_bits(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        check((struct shape){1, 1, 2, 3, 1, causal});
        check((struct shape){3, 1, 97, 257, 20, causal});
        check((struct shape){4, 2, 193, 511, 33, causal});
        check((struct shape){1, 1, 601, 1301, 16, causal});
    }
}

// Each key's value is a row of the unit matrix, so that the result is the weights; keys are their scores, from what has
// the largest weight to what has none.
static void weights_of_wide_scores(void **state)
{
    (void)state;
    enum { QUERIES = 2, KEYS = 301 }; // one query goes another way
    static float scores[KEYS], values[KEYS * KEYS], got[QUERIES * KEYS];
    double sum = 0;
    for (int i = 0; i < KEYS; i++) {
        scores[i] = i % 50 == 49 ? -(float)INFINITY : 20 - 0.5F * (float)i;
        values[i * KEYS + i] = 1;
        sum += exp((double)scores[i] - 20);
    }
    for (int with_nan = 0; with_nan < 2; with_nan++) {
        kiln_scope *scope = kiln_scope_begin();
        const float ones[QUERIES] = {1, 1};
        if (with_nan) scores[KEYS / 2] = NAN;
        kiln_tensor *q = kiln_from_data(dev, KILN_F32, KILN_SHAPE(1, 1, QUERIES, 1), ones);
        kiln_tensor *k = kiln_from_data(dev, KILN_F32, KILN_SHAPE(1, 1, KEYS, 1), scores);
        kiln_tensor *v = kiln_from_data(dev, KILN_F32, KILN_SHAPE(1, 1, KEYS, KEYS), values);
        if (kiln_read(kiln_sdpa(q, k, v, NULL, NULL), got, sizeof got)) fail_msg("%s", kiln_error_message());
        for (int i = 0; i < KEYS; i++) {
            double want = exp((double)scores[i] - 20) / sum;
            if (with_nan ? !isnan(got[i]) : fabs(got[i] - want) > 2e-5 * want + FLT_MIN)
                fail_msg("score %g: weight %g, not %g", (double)scores[i], (double)got[i], with_nan ? NAN : want);
            if (scores[i] < -80 && got[i] != 0 && !with_nan)
                fail_msg("score %g: weight %g", (double)scores[i], (double)got[i]);
        }
        kiln_scope_end(&scope);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits), cmocka_unit_test(weights_of_wide_scores)};
    if (lacks_instructions()) return TEST_SKIPPED;
    return cmocka_run_group_tests(tests, open_device, close_device);
}
