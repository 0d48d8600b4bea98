// Tables of the primitives, unrolled from prim.def.
#include "scalar/prim.h"
#include <math.h>
#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

#define HELPER(...) __VA_ARGS__
#include "scalar/prim_helper.def"

#define CLASS_OF_f32 CLASS_F32
#define CLASS_OF_f64 CLASS_F64
#define CLASS_OF_i32 CLASS_I32
#define CLASS_OF_i64 CLASS_I64
#define CLASS_OF_b   CLASS_BOOL
#define TYPE_OF_f32  float
#define TYPE_OF_f64  double
#define TYPE_OF_i32  int32_t
#define TYPE_OF_i64  int64_t
#define TYPE_OF_b    _Bool
// Element type of a block: a bool is one byte.
#define STORED_AS_f32 float
#define STORED_AS_f64 double
#define STORED_AS_i32 int32_t
#define STORED_AS_i64 int64_t
#define STORED_AS_b   uint8_t

// The host fuses where the code that is compiled for it does.
#if defined(__x86_64__) && !defined(__FMA__)
static bool host_fuses(void)
{
    return __builtin_cpu_supports("fma");
}
#define TARGET_FMA __attribute__((target("avx2,fma")))
#elif defined(__FMA__)
static bool host_fuses(void)
{
    return true;
}
#define TARGET_FMA
#else
static bool host_fuses(void)
{
    return false;
}
#define TARGET_FMA
#endif
#define FUSED_f32         fmaf
#define FUSED_f64         fma
#define BUILTIN_FUSED_f32 __builtin_fmaf
#define BUILTIN_FUSED_f64 __builtin_fma

// One host function a row. A primitive that does not use `b` still reads it: hence the casts to void.
#define PRIM(...)
#define SHIFT(...)
#define SPELL(id, key, res, glsl_, llvm_, ...)                                 \
    static union scalar_value host_##id##_##key(const union scalar_value v[3]) \
    {                                                                          \
        const TYPE_OF_##key a = v[0].key, b = v[1].key;                        \
        (void)a, (void)b;                                                      \
        union scalar_value r = {.bits = 0};                                    \
        r.res = (TYPE_OF_##res)(__VA_ARGS__);                                  \
        return r;                                                              \
    }
#define SELECT(id, key)                                                        \
    static union scalar_value host_##id##_##key(const union scalar_value v[3]) \
    {                                                                          \
        union scalar_value r = {.bits = 0};                                    \
        r.key = v[0].b ? v[1].key : v[2].key;                                  \
        return r;                                                              \
    }
#define MAD(id, key, glsl_)                                                                                \
    static union scalar_value host_##id##_##key(const union scalar_value v[3])                             \
    {                                                                                                      \
        union scalar_value r = {.bits = 0};                                                                \
        r.key = host_fuses() ? FUSED_##key(v[0].key, v[1].key, v[2].key) : v[0].key * v[1].key + v[2].key; \
        return r;                                                                                          \
    }
#include "scalar/prim.def"

// And one loop a row, which the compiler vectorises. Arguments that a primitive lacks are given its first.
#define PRIM(...)
#define SHIFT(...)
#define SPELL(id, key, res, glsl_, llvm_, ...)                                \
    static void block_##id##_##key(void *out, const void *const in[3], int n) \
    {                                                                         \
        const STORED_AS_##key *p = in[0], *q = in[1] ? in[1] : in[0];         \
        STORED_AS_##res *r = out;                                             \
        for (int i = 0; i < n; i++) {                                         \
            const TYPE_OF_##key a = p[i], b = q[i];                           \
            (void)a, (void)b;                                                 \
            r[i] = (TYPE_OF_##res)(__VA_ARGS__);                              \
        }                                                                     \
    }
#define SELECT(id, key)                                                       \
    static void block_##id##_##key(void *out, const void *const in[3], int n) \
    {                                                                         \
        const uint8_t *a = in[0];                                             \
        const STORED_AS_##key *b = in[1], *c = in[2];                         \
        STORED_AS_##key *r = out;                                             \
        for (int i = 0; i < n; i++) r[i] = a[i] ? b[i] : c[i];                \
    }
#define MAD(id, key, glsl_)                                                                    \
    TARGET_FMA static void block_fused_##id##_##key(void *out, const void *const in[3], int n) \
    {                                                                                          \
        const STORED_AS_##key *a = in[0], *b = in[1], *c = in[2];                              \
        STORED_AS_##key *r = out;                                                              \
        for (int i = 0; i < n; i++) r[i] = BUILTIN_FUSED_##key(a[i], b[i], c[i]);              \
    }                                                                                          \
    static void block_##id##_##key(void *out, const void *const in[3], int n)                  \
    {                                                                                          \
        const STORED_AS_##key *a = in[0], *b = in[1], *c = in[2];                              \
        STORED_AS_##key *r = out;                                                              \
        if (host_fuses()) {                                                                    \
            block_fused_##id##_##key(out, in, n);                                              \
            return;                                                                            \
        }                                                                                      \
        for (int i = 0; i < n; i++) r[i] = a[i] * b[i] + c[i];                                 \
    }
#include "scalar/prim.def"

static const struct prim_spelling spellings[PRIM_COUNT][CLASS_COUNT] = {
#define PRIM(...)
#define SHIFT(...)
#define SPELL(id, key, res, glsl_, llvm_, ...) \
    [PRIM_##id][CLASS_OF_##key] = {            \
        true, CLASS_OF_##res, glsl_, llvm_, #__VA_ARGS__, host_##id##_##key, block_##id##_##key},
#define SELECT(id, key)                                                                                  \
    [PRIM_##id][CLASS_OF_##key] = {true,        CLASS_OF_##key,    "a ? b : c",       "select(a, b, c)", \
                                   "a ? b : c", host_##id##_##key, block_##id##_##key},
#define MAD(id, key, glsl_)                                        \
    [PRIM_##id][CLASS_OF_##key] = {true,                           \
                                   CLASS_OF_##key,                 \
                                   glsl_,                          \
                                   "mad(a, b, c)",                 \
                                   "scalar_mad_" #key "(a, b, c)", \
                                   host_##id##_##key,              \
                                   block_##id##_##key},
#include "scalar/prim.def"
};

static const struct {
    const char *glsl, *llvm, *c;
} shifts[PRIM_COUNT][CLASS_COUNT] = {
#define PRIM(...)
#define SPELL(...)
#define SELECT(...)
#define MAD(...)
#define SHIFT(id, key, glsl_, llvm_, ...) [PRIM_##id][CLASS_OF_##key] = {glsl_, llvm_, #__VA_ARGS__},
#include "scalar/prim.def"
};

static const struct {
    const char *name, *op, *op_bool;
    uint8_t arity;
} prims[PRIM_COUNT] = {
#define PRIM(id, arity_, name_, op_, op_bool_) [PRIM_##id] = {name_, op_, op_bool_, arity_},
#define SPELL(...)
#define SELECT(...)
#define MAD(...)
#define SHIFT(...)
#include "scalar/prim.def"
};

int prim_arity(uint16_t prim)
{
    return prims[prim].arity;
}

int prim_find(const char *name, size_t length)
{
    for (int i = 0; i < PRIM_COUNT; i++)
        if (strlen(prims[i].name) == length && memcmp(prims[i].name, name, length) == 0) return i;
    return -1;
}

void prim_nearest(struct nearest *n)
{
    for (int i = 0; i < PRIM_COUNT; i++) nearest_try(n, prims[i].name, strlen(prims[i].name));
}

const struct prim_spelling *prim_spelling(uint16_t prim, enum scalar_class key)
{
    const struct prim_spelling *s = &spellings[prim][key];
    return s->present ? s : NULL;
}

const char *prim_text(uint16_t prim, enum scalar_class key, enum scalar_target target, const struct scalar_node *count)
{
    bool in_range = count && count->kind == SCALAR_CONST && shifts[prim][key].glsl;
    if (in_range && key == CLASS_I32) in_range = count->value.i32 >= 0 && count->value.i32 < 32;
    if (in_range && key == CLASS_I64) in_range = count->value.i64 >= 0 && count->value.i64 < 64;
    const char *const of_shift[] = {shifts[prim][key].glsl, shifts[prim][key].c, shifts[prim][key].llvm};
    const char *const of_any[] = {spellings[prim][key].glsl, spellings[prim][key].c, spellings[prim][key].llvm};
    return in_range ? of_shift[target] : of_any[target];
}

const char *prim_op(uint16_t prim, enum scalar_class key)
{
    return key == CLASS_BOOL ? prims[prim].op_bool : prims[prim].op;
}

const char *scalar_prim_name(uint16_t prim)
{
    return prim < PRIM_COUNT ? prims[prim].name : "?";
}
