// Rows of a tile of attention: scores to weights, and gradients by weights to gradients by scores.
#include "cpu/kernels/attention.h"

#include <math.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

#define JOIN2(a, b) a##_##b
#define JOIN(a, b)  JOIN2(a, b)
#define FN(name)    JOIN(name, NAME)

// Powers of two of numbers that are at most a little above 0: 2^i in the exponent's bits, the rest a polynomial; NaN
// stays one.
#define NAME f32
#define REAL float
#define CLS  CLASS_F32
#if defined(__AVX512F__)
typedef __m512 vector_f32;
#define LANES           16
#define ALL(x)          _mm512_set1_ps(x)
#define LARGER(x, y)    _mm512_max_ps(x, y) // y where one is NaN
#define MULADD(x, y, s) _mm512_fmadd_ps(x, y, s)
#define EXP2(x)         exp2_f32(x)
INLINE vector_f32 exp2_f32(vector_f32 x)
{
    const vector_f32 shift = _mm512_set1_ps(12582912);
    vector_f32 t = _mm512_add_ps(x, shift), r = _mm512_sub_ps(x, _mm512_sub_ps(t, shift));
    vector_f32 p = _mm512_set1_ps(0.000154701382F);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.00133909029F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.00961802993F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.0555035695F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.240226507F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.693147182F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
    __mmask16 large = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-126), _CMP_NLT_UQ);
    return _mm512_maskz_scalef_ps(large, p, _mm512_sub_ps(t, shift));
}
#elif defined(__AVX2__)
typedef __m256 vector_f32;
#define LANES           8
#define ALL(x)          _mm256_set1_ps(x)
#define LARGER(x, y)    _mm256_max_ps(x, y) // y where one is NaN
#define MULADD(x, y, s) _mm256_fmadd_ps(x, y, s)
#define EXP2(x)         exp2_f32(x)
// The power's exponent comes out of the sum as it is stored, 127 more, and from -127 down is 0, as the power is then.
INLINE vector_f32 exp2_f32(vector_f32 x)
{
    const vector_f32 shift = _mm256_set1_ps(12582912 + 127);
    x = _mm256_max_ps(_mm256_set1_ps(-127), x);
    vector_f32 t = _mm256_add_ps(x, shift), r = _mm256_sub_ps(x, _mm256_sub_ps(t, shift));
    vector_f32 p = _mm256_set1_ps(0.000154701382F);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.00133909029F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.00961802993F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.0555035695F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.240226507F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.693147182F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1));
    return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(t), 23)));
}
#else
#define LANES           4
typedef float vector_f32 __attribute__((vector_size(4 * LANES)));
typedef int32_t integers_f32 __attribute__((vector_size(4 * LANES)));
#define ALL(x)          ((vector_f32){0} + (x))
#define LARGER(x, y)    select_f32((x) > (y), x, y)
#define MULADD(x, y, s) ((x) * (y) + (s))
#define EXP2(x)         exp2_f32(x)
INLINE vector_f32 select_f32(integers_f32 which, vector_f32 x, vector_f32 y)
{
    return (vector_f32)((which & (integers_f32)x) | (~which & (integers_f32)y));
}
INLINE vector_f32 exp2_f32(vector_f32 x)
{
    vector_f32 t = x + 12582912.0F, r = x - (t - 12582912.0F);
    vector_f32 p = ALL(0.000154701382F);
    p = p * r + 0.00133909029F;
    p = p * r + 0.00961802993F;
    p = p * r + 0.0555035695F;
    p = p * r + 0.240226507F;
    p = p * r + 0.693147182F;
    p = p * r + 1;
    vector_f32 y = p * (vector_f32)(((integers_f32)t + 127) << 23);
    return select_f32(x < -126, (vector_f32){0}, y);
}
#endif
#include "cpu/kernels/attention_rows_tmpl.c"

// f64 is for checks: one element at a time, by the library.
#define NAME            f64
#define REAL            double
#define CLS             CLASS_F64
#define LANES           1
#define ALL(x)          (x)
#define LARGER(x, y)    ((x) > (y) ? (x) : (y))
#define MULADD(x, y, s) ((x) * (y) + (s))
#define EXP2(x)         exp2(x)
typedef double vector_f64;
#include "cpu/kernels/attention_rows_tmpl.c"

const struct attention_row_fns *CPU_FN(attention_row_fns)(enum scalar_class cls)
{
    static const struct attention_row_fns f32 = {weigh_f32, divide_f32, slopes_f32, dots_f32};
    static const struct attention_row_fns f64 = {weigh_f64, divide_f64, slopes_f64, dots_f64};
    return cls == CLASS_F64 ? &f64 : &f32;
}
