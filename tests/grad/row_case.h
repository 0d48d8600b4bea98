// A call of a structured op, as the lines of grad_cases.def and of capability/own_cases.def describe it. Who includes
// grad_cases.h defines before it `dev`, `places`, `sorted`, `largest_two`, `dropped` and `curved`, which it uses.
#pragma once
#include <kiln/kiln.h>
#include <stdlib.h>

#define ROW_CASE_INPUTS 4
struct row_case {
    const char *op;
    kiln_fn fn;
    int order;          // of the derivatives that are checked
    const char *shapes; // "2,3;3" - one an input
    double lo, hi;      // 0, 0: [-2, 2]
};

#define CASE_FN(id, ...)                                                                                           \
    static kiln_status case_##id(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out) \
    {                                                                                                              \
        kiln_tensor *x = in[0], *y = n_in > 1 ? in[1] : NULL, *z = n_in > 2 ? in[2] : NULL,                        \
                    *w = n_in > 3 ? in[3] : NULL;                                                                  \
        (void)x, (void)y, (void)z, (void)w;                                                                        \
        out[0] = __VA_ARGS__;                                                                                      \
        return kiln_error();                                                                                       \
    }

// Reads the next of its shapes; *at is NULL after the last.
static inline size_t row_case_shape(const char **at, int64_t *dims)
{
    size_t rank = 0;
    const char *p = *at;
    while (*p && *p != ';') {
        char *end;
        dims[rank++] = strtoll(p, &end, 10);
        p = *end == ',' ? end + 1 : end;
    }
    *at = *p ? p + 1 : NULL;
    return rank;
}

static inline kiln_tensor *attended(kiln_tensor *q, kiln_tensor *k, kiln_tensor *v, kiln_tensor *mask, bool causal)
{
    kiln_tensor *y, *stats;
    kiln_flash_attention(q, k, v, KILN_FLASH_ATTENTION(.mask = mask, .causal = causal), &y, &stats);
    return kiln_error() ? NULL : y;
}

static inline kiln_tensor *attended_backward(kiln_tensor *q, kiln_tensor *k, kiln_tensor *v, kiln_tensor *dy)
{
    kiln_tensor *y, *stats, *dq, *dk, *dv;
    kiln_flash_attention(q, k, v, KILN_FLASH_ATTENTION(.causal = true), &y, &stats);
    kiln_flash_attention_backward(q, k, v, y, stats, dy, KILN_FLASH_ATTENTION(.causal = true), &dq, &dk, &dv);
    return kiln_matmul(kiln_matmul(kiln_sin(dq), kiln_transpose(dk, 0, 1)), kiln_sin(dv));
}

// All three results take part.
static inline kiln_tensor *batch_norm_results(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *bias)
{
    kiln_tensor *y, *mean, *var;
    if (kiln_batch_norm_train(x, KILN_BATCH_NORM(.weight = weight, .bias = bias), &y, &mean, &var)) return NULL;
    return kiln_add(kiln_mul(y, mean), kiln_square(var));
}
