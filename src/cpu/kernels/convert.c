// Loads and stores of every dtype in every class: 13 x 5 pairs of one body (convert_class_tmpl.c) for elements that lie
// side by side. Those that do not are brought together first, or put apart afterwards, a part at a time.
#include "cpu/kernels/convert.h"
#include "cpu/kernels/convert_value.h"
#include "cpu/kernels/move.h"

#define NAME3_(a, b, c)            a##_##b##_##c
#define NAME3(a, b, c)             NAME3_(a, b, c)
#define AS_IS(x)                   (x)
#define NARROW(letter, x, lo, hi)  NARROW_(letter, x, lo, hi)
#define NARROW_(letter, x, lo, hi) f_clamp_##letter(x, lo, hi)

#define DTYPE            truth
#define STORED           uint8_t
#define NUM              b
#define READ(x)          ((uint8_t)((x) != 0))
#define WRITE(letter, x) NAME3(f, letter, b)(x)
#include "cpu/kernels/convert_dtype_tmpl.c"
#define DTYPE            u8
#define STORED           uint8_t
#define NUM              i
#define READ             AS_IS
#define WRITE(letter, x) NARROW(letter, x, 0, 255)
#include "cpu/kernels/convert_dtype_tmpl.c"
#define DTYPE            i8
#define STORED           int8_t
#define NUM              i
#define READ             AS_IS
#define WRITE(letter, x) NARROW(letter, x, -128, 127)
#include "cpu/kernels/convert_dtype_tmpl.c"
#define DTYPE            i16
#define STORED           int16_t
#define NUM              i
#define READ             AS_IS
#define WRITE(letter, x) NARROW(letter, x, -32768, 32767)
#include "cpu/kernels/convert_dtype_tmpl.c"
#define DTYPE            i32
#define STORED           int32_t
#define NUM              i
#define READ             AS_IS
#define WRITE(letter, x) NAME3(f, letter, i)(x)
#include "cpu/kernels/convert_dtype_tmpl.c"
#define DTYPE            i64
#define STORED           int64_t
#define NUM              l
#define READ             AS_IS
#define WRITE(letter, x) NAME3(f, letter, l)(x)
#include "cpu/kernels/convert_dtype_tmpl.c"
#define DTYPE            u16
#define STORED           uint16_t
#define NUM              i
#define READ             AS_IS
#define WRITE(letter, x) NARROW(letter, x, 0, 65535)
#include "cpu/kernels/convert_dtype_tmpl.c"
#define DTYPE            u32
#define STORED           uint32_t
#define NUM              l
#define READ             AS_IS
#define WRITE(letter, x) NAME3(f, letter, w)(x)
#include "cpu/kernels/convert_dtype_tmpl.c"
#define DTYPE            u64
#define STORED           uint64_t
#define NUM              u
#define READ             AS_IS
#define WRITE(letter, x) NAME3(f, letter, u)(x)
#include "cpu/kernels/convert_dtype_tmpl.c"
#define DTYPE            f16
#define STORED           uint16_t
#define NUM              f
#define READ             f16_to_float
#define WRITE(letter, x) f16_from_float(NAME3(f, letter, f)(x))
#include "cpu/kernels/convert_dtype_tmpl.c"
#define DTYPE            bf16
#define STORED           uint16_t
#define NUM              f
#define READ             bf16_to_float
#define WRITE(letter, x) bf16_from_float(NAME3(f, letter, f)(x))
#include "cpu/kernels/convert_dtype_tmpl.c"
#define DTYPE            f32
#define STORED           float
#define NUM              f
#define READ             AS_IS
#define WRITE(letter, x) NAME3(f, letter, f)(x)
#include "cpu/kernels/convert_dtype_tmpl.c"
#define DTYPE            f64
#define STORED           double
#define NUM              d
#define READ             AS_IS
#define WRITE(letter, x) NAME3(f, letter, d)(x)
#include "cpu/kernels/convert_dtype_tmpl.c"

#ifdef __F16C__
// The two pairs that matter for f16 by the instructions for it, which loops over the portable form do not become.
#include <immintrin.h>

static void load_f16_f32_fast(void *dst, const void *src, int64_t n)
{
    const uint16_t *s = src;
    float *d = dst;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(s + i))));
    load_f16_f32(d + i, s + i, n - i);
}

static void store_f16_f32_fast(void *dst, const void *src, int64_t n)
{
    const float *s = src;
    uint16_t *d = dst;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(d + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT));
    store_f16_f32(d + i, s + i, n - i);
}
#else
#define load_f16_f32_fast  load_f16_f32
#define store_f16_f32_fast store_f16_f32
#endif

#define ROW(dtype, verb)                                                                                               \
    {                                                                                                                  \
        verb##_##dtype##_f32, verb##_##dtype##_f64, verb##_##dtype##_i32, verb##_##dtype##_i64, verb##_##dtype##_truth \
    }

typedef void run_fn(void *dst, const void *src, int64_t n);

static run_fn *const loads[DTYPE_COUNT][CLASS_COUNT] = {
    [KILN_BOOL] = ROW(truth, load),
    [KILN_U8] = ROW(u8, load),
    [KILN_I8] = ROW(i8, load),
    [KILN_I16] = ROW(i16, load),
    [KILN_I32] = ROW(i32, load),
    [KILN_I64] = ROW(i64, load),
    [KILN_F16] = {load_f16_f32_fast, load_f16_f64, load_f16_i32, load_f16_i64, load_f16_truth},
    [KILN_BF16] = ROW(bf16, load),
    [KILN_F32] = ROW(f32, load),
    [KILN_F64] = ROW(f64, load),
    [KILN_U16] = ROW(u16, load),
    [KILN_U32] = ROW(u32, load),
    [KILN_U64] = ROW(u64, load),
};
static run_fn *const stores[DTYPE_COUNT][CLASS_COUNT] = {
    [KILN_BOOL] = ROW(truth, store),
    [KILN_U8] = ROW(u8, store),
    [KILN_I8] = ROW(i8, store),
    [KILN_I16] = ROW(i16, store),
    [KILN_I32] = ROW(i32, store),
    [KILN_I64] = ROW(i64, store),
    [KILN_F16] = {store_f16_f32_fast, store_f16_f64, store_f16_i32, store_f16_i64, store_f16_truth},
    [KILN_BF16] = ROW(bf16, store),
    [KILN_F32] = ROW(f32, store),
    [KILN_F64] = ROW(f64, store),
    [KILN_U16] = ROW(u16, store),
    [KILN_U32] = ROW(u32, store),
    [KILN_U64] = ROW(u64, store),
};

// A class in memory needs no conversion. A stored bool may be any byte.
static bool lies_as(unsigned dtype, enum scalar_class cls)
{
    return dtype == cpu_class_dtype[cls] && dtype != KILN_BOOL;
}

enum { PART = 256 };

void CPU_FN(cpu_load)(unsigned dtype, enum scalar_class cls, void *dst, const void *src, int64_t n, int64_t stride)
{
    uint64_t part[PART];
    int from_B = cpu_dtype_size_B[dtype], to_B = cpu_class_size_B[cls];
    if (stride == 1 || n == 1) {
        loads[dtype][cls](dst, src, n);
        return;
    }
    if (lies_as(dtype, cls)) {
        CPU_FN(cpu_pick)(dst, src, n, stride, from_B);
        return;
    }
    for (int64_t i = 0; i < n; i += PART) {
        int64_t m = n - i < PART ? n - i : PART;
        CPU_FN(cpu_pick)(part, (const char *)src + i * stride * from_B, m, stride, from_B);
        loads[dtype][cls]((char *)dst + i * to_B, part, m);
    }
}

void CPU_FN(cpu_store)(unsigned dtype, enum scalar_class cls, void *dst, const void *src, int64_t n, int64_t stride)
{
    uint64_t part[PART];
    int from_B = cpu_class_size_B[cls], to_B = cpu_dtype_size_B[dtype];
    if (stride == 1 || n == 1) {
        stores[dtype][cls](dst, src, n);
        return;
    }
    for (int64_t i = 0; i < n; i += PART) {
        int64_t m = n - i < PART ? n - i : PART;
        stores[dtype][cls](part, (const char *)src + i * from_B, m);
        CPU_FN(cpu_place)((char *)dst + i * stride * to_B, stride, part, 1, m, to_B);
    }
}
