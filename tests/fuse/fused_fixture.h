// Fused kernels built by hand or at random, with buffers for two runs: the reference's and the code's.
#pragma once
#include "fuse/kernel.h"
#include "scalar/dag.h"
#include "base/float16.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PAD_B = 64 };

struct fused_case {
    struct arena arena;
    struct dag_builder b;
    struct fused_kernel k;
    int out_node[FUSED_MAX_OUT], check_node[FUSED_MAX_CHECKS];
    size_t size_B[FUSED_MAX_IN + FUSED_MAX_OUT];
    void *want[FUSED_MAX_IN + FUSED_MAX_OUT], *got[FUSED_MAX_IN + FUSED_MAX_OUT];
    uint64_t seed;
    double least; // magnitude below which results of f32 are not told apart more finely
    size_t table; // bytes of the last input, where places are computed
};

static inline uint32_t case_random(struct fused_case *c)
{
    c->seed = c->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(c->seed >> 33);
}

static inline void case_begin(struct fused_case *c, int n_dims, int n_reduce, const int64_t *sizes)
{
    *c = (struct fused_case){.seed = 1};
    arena_init(&c->arena);
    dag_begin(&c->b);
    c->k.name = "test";
    c->k.n_dims = n_dims;
    c->k.n_reduce = n_reduce;
    for (int d = 0; d < n_dims; d++) c->k.sizes[d] = sizes[d];
}

static inline enum scalar_class class_of_dtype(unsigned dtype)
{
    static const uint8_t cls[] = {
        [KILN_BOOL] = CLASS_BOOL, [KILN_U8] = CLASS_I32,  [KILN_I8] = CLASS_I32,  [KILN_I16] = CLASS_I32,
        [KILN_I32] = CLASS_I32,   [KILN_I64] = CLASS_I64, [KILN_F16] = CLASS_F32, [KILN_BF16] = CLASS_F32,
        [KILN_F32] = CLASS_F32,   [KILN_F64] = CLASS_F64};
    return (enum scalar_class)cls[dtype];
}

static inline struct fused_access case_access(struct fused_case *c, unsigned dtype, const int64_t *strides)
{
    struct fused_access a = {.dtype = (uint8_t)dtype, .cls = (uint8_t)class_of_dtype(dtype)};
    for (int d = 0; d < c->k.n_dims; d++) a.strides[d] = strides[d];
    for (int d = 0; d < c->k.n_dims; d++)
        if (strides[d] < 0) a.offset -= strides[d] * (c->k.sizes[d] - 1);
    return a;
}

static inline int case_in(struct fused_case *c, unsigned dtype, const int64_t *strides)
{
    c->k.in[c->k.n_in] = case_access(c, dtype, strides);
    return dag_load(&c->b, class_of_dtype(dtype), (uint16_t)c->k.n_in++, -1, -1);
}

static inline void case_out(struct fused_case *c, int node, unsigned dtype, const int64_t *strides)
{
    c->out_node[c->k.n_out] = node;
    c->k.out[c->k.n_out++].to = case_access(c, dtype, strides);
}

static inline int case_scalar(struct fused_case *c, enum scalar_class cls, uint64_t bits)
{
    c->k.scalar_cls[c->k.n_scalars] = (uint8_t)cls;
    c->k.scalars[c->k.n_scalars] = bits;
    return dag_input(&c->b, cls, (uint16_t)c->k.n_scalars++);
}

// An expression in x, y, z of one class.
static inline int case_expr(struct fused_case *c, const char *text, enum scalar_class cls, int x, int y, int z)
{
    const struct scalar_param params[] = {{"x", cls}, {"y", cls}, {"z", cls}};
    struct scalar_dag parsed, expanded;
    const int in[] = {x, y, z};
    int n = y < 0 ? 1 : z < 0 ? 2 : 3;
    assert_int_equal(scalar_parse(&c->arena, text, params, n, cls, &parsed), KILN_OK);
    assert_int_equal(scalar_expand(&c->arena, &parsed, &expanded), KILN_OK);
    return dag_inline(&c->b, &expanded, in);
}

static inline void case_fill(struct fused_case *c, unsigned dtype, void *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = (float)((int)(case_random(c) % 4001) - 2000) / 500.0f;
        uint32_t special = case_random(c) % 97;
        if (special == 0) v = NAN;
        if (special == 1) v = INFINITY;
        if (special == 2) v = -0.0f;
        if (special == 3) v = 1e-40f;
        switch (dtype) {
        case KILN_BOOL: ((uint8_t *)data)[i] = case_random(c) & 1; break;
        case KILN_U8:
        case KILN_I8: ((uint8_t *)data)[i] = (uint8_t)case_random(c); break;
        case KILN_I16: ((int16_t *)data)[i] = (int16_t)case_random(c); break;
        case KILN_I32:
            ((int32_t *)data)[i] =
                special < 4 ? (int32_t)(INT32_MIN + (int)special) : (int32_t)(case_random(c) % 41) - 20;
            break;
        case KILN_I64:
            ((int64_t *)data)[i] = special < 4 ? INT64_MIN + special : (int64_t)(case_random(c) % 41) - 20;
            break;
        case KILN_F16: ((uint16_t *)data)[i] = f16_from_float(v); break;
        case KILN_BF16: ((uint16_t *)data)[i] = bf16_from_float(v); break;
        case KILN_F32: ((float *)data)[i] = v; break;
        default: ((double *)data)[i] = (double)v;
        }
    }
}

// Makes the kernel and fills its buffers; the space between outputs is filled, too, and compared later.
static inline void case_finish(struct fused_case *c)
{
    int roots[FUSED_MAX_OUT + FUSED_MAX_CHECKS], n = 0;
    for (int i = 0; i < c->k.n_out; i++) roots[n++] = c->out_node[i];
    for (int i = 0; i < c->k.n_checks; i++) roots[n++] = c->check_node[i];
    assert_int_equal(dag_finish_all(&c->b, &c->arena, roots, n, &c->k.dag), KILN_OK);
    for (int i = 0; i < c->k.n_out; i++) c->k.out[i].node = (uint16_t)roots[i];
    for (int i = 0; i < c->k.n_checks; i++) c->k.checks[i] = (uint16_t)roots[c->k.n_out + i];
    if (fused_finish(&c->arena, &c->k)) fail_msg("%s", kiln_error_message());
    for (int i = 0; i < c->k.n_in + c->k.n_out; i++) {
        struct fused_access *a = i < c->k.n_in ? &c->k.in[i] : &c->k.out[i - c->k.n_in].to;
        int64_t lo_B, hi_B;
        a->buffer = (uint16_t)i;
        fused_range(&c->k, a, &lo_B, &hi_B);
        assert_true(lo_B >= 0);
        c->size_B[i] = c->table && i == c->k.n_in - 1 ? c->table : (size_t)hi_B;
        char *want = malloc(c->size_B[i] + 2 * PAD_B), *got = malloc(c->size_B[i] + 2 * PAD_B);
        memset(want, 0x5a, c->size_B[i] + 2 * PAD_B);
        if (i < c->k.n_in) case_fill(c, a->dtype, want + PAD_B, c->size_B[i] / dtype_size_B[a->dtype]);
        memcpy(got, want, c->size_B[i] + 2 * PAD_B);
        c->want[i] = want + PAD_B;
        c->got[i] = got + PAD_B;
    }
}

static inline void case_end(struct fused_case *c)
{
    for (int i = 0; i < c->k.n_in + c->k.n_out; i++) {
        if (c->want[i]) free((char *)c->want[i] - PAD_B);
        if (c->got[i]) free((char *)c->got[i] - PAD_B);
    }
    dag_end(&c->b);
    arena_finish(&c->arena);
}

// Distance in units of the last place for floats, any two NaN being equal; 0 or "far" for the rest.
static inline double case_distance(const struct fused_case *c, unsigned dtype, const void *a, const void *b)
{
    double x, y, unit;
    uint16_t ha, hb;
    switch (dtype) {
    case KILN_F16:
    case KILN_BF16:
        memcpy(&ha, a, 2), memcpy(&hb, b, 2);
        x = (double)(dtype == KILN_F16 ? f16_to_float(ha) : bf16_to_float(ha));
        y = (double)(dtype == KILN_F16 ? f16_to_float(hb) : bf16_to_float(hb));
        unit = ldexp(fmax(fabs(x), 1e-7), dtype == KILN_F16 ? -10 : -7);
        break;
    case KILN_F32: {
        float fa, fb;
        memcpy(&fa, a, 4), memcpy(&fb, b, 4);
        x = (double)fa, y = (double)fb, unit = ldexp(fmax(fabs(x), fmax(c->least, 1e-30)), -23);
        break;
    }
    case KILN_F64: memcpy(&x, a, 8), memcpy(&y, b, 8), unit = ldexp(fmax(fabs(x), 1e-300), -52); break;
    default: return memcmp(a, b, dtype_size_B[dtype]) ? 1e9 : 0;
    }
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y) ? 0 : 1e9;
    if (x == y) return signbit(x) == signbit(y) ? 0 : 0.25;
    return fabs(x - y) / unit;
}

// Compares all buffers; `ulps`: allowed distance.
static inline bool case_same(const struct fused_case *c, double ulps)
{
    for (int i = 0; i < c->k.n_in + c->k.n_out; i++) {
        const char *want = (const char *)c->want[i] - PAD_B, *got = (const char *)c->got[i] - PAD_B;
        size_t total_B = c->size_B[i] + 2 * PAD_B;
        if (memcmp(want, got, total_B) == 0) continue;
        unsigned dtype = fused_access_at(&c->k, i)->dtype, size_B = dtype_size_B[dtype];
        for (size_t at = 0; at < total_B; at += size_B) {
            double far = case_distance(c, dtype, want + at, got + at);
            if (far <= ulps) continue;
            struct str text;
            str_init(&text);
            fused_text(&c->k, &text);
            print_message("access %d, element %ld of %zu: %g units off\n%s", i, ((long)at - PAD_B) / (long)size_B,
                          c->size_B[i] / size_B, far, str_text(&text));
            str_free(&text);
            return false;
        }
    }
    return true;
}
