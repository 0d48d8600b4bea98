// Expressions of the scalar language parsed and evaluated, for its tests.
#pragma once
#include "base/arena.h"
#include "scalar/prim.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct arena arena;

static inline int set_up(void **state)
{
    kiln_error_clear();
    arena_init(&arena);
    return 0;
}

static inline int tear_down(void **state)
{
    arena_finish(&arena);
    kiln_error_clear();
    return 0;
}

static const struct scalar_param f32_params[] = {{"x", CLASS_F32}, {"a", CLASS_F32}, {"b", CLASS_F32}};
static const struct scalar_param f64_params[] = {{"x", CLASS_F64}, {"a", CLASS_F64}, {"b", CLASS_F64}};
static const struct scalar_param i32_params[] = {{"x", CLASS_I32}, {"a", CLASS_I32}, {"b", CLASS_I32}};
static const struct scalar_param i64_params[] = {{"x", CLASS_I64}, {"a", CLASS_I64}, {"b", CLASS_I64}};
static const struct scalar_param bool_params[] = {{"x", CLASS_BOOL}, {"a", CLASS_BOOL}, {"b", CLASS_BOOL}};
static const struct scalar_param *const params_of[] = {f32_params, f64_params, i32_params, i64_params, bool_params};

static inline struct scalar_dag parse(const char *text, enum scalar_class cls)
{
    struct scalar_dag d = {0};
    if (scalar_parse(&arena, text, params_of[cls], 3, cls, &d)) fail_msg("%s", kiln_error_message());
    return d;
}

static inline union scalar_value f32_value(float v)
{
    union scalar_value r = {.bits = 0};
    r.f32 = v;
    return r;
}

static inline union scalar_value i32_value(int32_t v)
{
    union scalar_value r = {.bits = 0};
    r.i32 = v;
    return r;
}

static inline float f32_of(const char *text, float a, float b)
{
    struct scalar_dag d = parse(text, CLASS_F32);
    return scalar_eval(&d, (const union scalar_value[]){f32_value(a), f32_value(a), f32_value(b)}).f32;
}

static inline double f64_of(const char *text, double a, double b)
{
    struct scalar_dag d = parse(text, CLASS_F64);
    return scalar_eval(&d, (const union scalar_value[]){{.f64 = a}, {.f64 = a}, {.f64 = b}}).f64;
}

static inline int32_t i32_of(const char *text, int32_t a, int32_t b)
{
    struct scalar_dag d = parse(text, CLASS_I32);
    return scalar_eval(&d, (const union scalar_value[]){i32_value(a), i32_value(a), i32_value(b)}).i32;
}

static inline int64_t i64_of(const char *text, int64_t a, int64_t b)
{
    struct scalar_dag d = parse(text, CLASS_I64);
    return scalar_eval(&d, (const union scalar_value[]){{.i64 = a}, {.i64 = a}, {.i64 = b}}).i64;
}

static inline bool same_f32(float x, float y)
{
    return (isnan(x) && isnan(y)) || f32_value(x).bits == f32_value(y).bits;
}

static uint64_t random_state;

static inline uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static inline double uniform(double low, double high)
{
    return low + (high - low) * (double)(random_bits() >> 11) * 0x1p-53;
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
