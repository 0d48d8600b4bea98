// One value from one number type to another, with the semantics of a cast in the scalar language: f_<from>_<to>. Types
// of numbers: f (float), d (double), i (int32_t), l (int64_t), b (uint8_t, 0 or 1).
#pragma once
#include "base/float16.h"
#include <stdint.h>

static inline float f_f_f(float x)
{
    return x;
}
static inline float f_d_f(double x)
{
    return (float)x;
}
static inline float f_i_f(int32_t x)
{
    return (float)x;
}
static inline float f_l_f(int64_t x)
{
    return (float)x;
}
static inline float f_b_f(uint8_t x)
{
    return x;
}
static inline double f_f_d(float x)
{
    return x;
}
static inline double f_d_d(double x)
{
    return x;
}
static inline double f_i_d(int32_t x)
{
    return x;
}
static inline double f_l_d(int64_t x)
{
    return (double)x;
}
static inline double f_b_d(uint8_t x)
{
    return x;
}
static inline int32_t f_f_i(float x)
{
    return x >= 2147483648.0f ? INT32_MAX : x >= -2147483648.0f ? (int32_t)x : x < 0.0f ? INT32_MIN : 0;
}
static inline int32_t f_d_i(double x)
{
    return x >= 2147483647.0 ? INT32_MAX : x > -2147483649.0 ? (int32_t)x : x < 0.0 ? INT32_MIN : 0;
}
static inline int32_t f_i_i(int32_t x)
{
    return x;
}
static inline int32_t f_l_i(int64_t x)
{
    return (int32_t)(uint32_t)(uint64_t)x;
}
static inline int32_t f_b_i(uint8_t x)
{
    return x;
}
static inline int64_t f_f_l(float x)
{
    return x >= 9223372036854775808.0f    ? INT64_MAX
           : x >= -9223372036854775808.0f ? (int64_t)x
           : x < 0.0f                     ? INT64_MIN
                                          : 0;
}
static inline int64_t f_d_l(double x)
{
    return x >= 9223372036854775808.0 ? INT64_MAX : x >= -9223372036854775808.0 ? (int64_t)x : x < 0.0 ? INT64_MIN : 0;
}
static inline int64_t f_i_l(int32_t x)
{
    return x;
}
static inline int64_t f_l_l(int64_t x)
{
    return x;
}
static inline int64_t f_b_l(uint8_t x)
{
    return x;
}
static inline uint8_t f_f_b(float x)
{
    return x != 0.0f;
}
static inline uint8_t f_d_b(double x)
{
    return x != 0.0;
}
static inline uint8_t f_i_b(int32_t x)
{
    return x != 0;
}
static inline uint8_t f_l_b(int64_t x)
{
    return x != 0;
}
static inline uint8_t f_b_b(uint8_t x)
{
    return x != 0;
}

// Unsigned: u (uint64_t), from which numbers come and to which they go; w (uint32_t), to which they go.
static inline float f_u_f(uint64_t x)
{
    return (float)x;
}
static inline double f_u_d(uint64_t x)
{
    return (double)x;
}
static inline int32_t f_u_i(uint64_t x)
{
    return (int32_t)(uint32_t)x;
}
static inline int64_t f_u_l(uint64_t x)
{
    return (int64_t)x;
}
static inline uint8_t f_u_b(uint64_t x)
{
    return x != 0;
}
static inline uint64_t f_f_u(float x)
{
    return x >= 18446744073709551616.0f ? UINT64_MAX : x > 0.0f ? (uint64_t)x : 0;
}
static inline uint64_t f_d_u(double x)
{
    return x >= 18446744073709551616.0 ? UINT64_MAX : x > 0.0 ? (uint64_t)x : 0;
}
static inline uint64_t f_i_u(int32_t x)
{
    return (uint64_t)(int64_t)x;
}
static inline uint64_t f_l_u(int64_t x)
{
    return (uint64_t)x;
}
static inline uint64_t f_b_u(uint8_t x)
{
    return x != 0;
}
static inline uint32_t f_f_w(float x)
{
    return x >= 4294967296.0f ? UINT32_MAX : x > 0.0f ? (uint32_t)x : 0;
}
static inline uint32_t f_d_w(double x)
{
    return x >= 4294967295.0 ? UINT32_MAX : x > 0.0 ? (uint32_t)x : 0;
}
static inline uint32_t f_i_w(int32_t x)
{
    return (uint32_t)x;
}
static inline uint32_t f_l_w(int64_t x)
{
    return (uint32_t)(uint64_t)x;
}
static inline uint32_t f_b_w(uint8_t x)
{
    return x != 0;
}

// A float that goes to a narrow integer saturates at that integer's limits; NaN gives 0.
static inline int32_t f_clamp_f(float x, float lo, float hi)
{
    return x >= hi ? (int32_t)hi : x >= lo ? (int32_t)x : x < lo ? (int32_t)lo : 0;
}
static inline int32_t f_clamp_d(double x, double lo, double hi)
{
    return x >= hi ? (int32_t)hi : x >= lo ? (int32_t)x : x < lo ? (int32_t)lo : 0;
}
static inline int32_t f_clamp_i(int32_t x, int32_t lo, int32_t hi)
{
    (void)lo, (void)hi;
    return x;
}
static inline int32_t f_clamp_l(int64_t x, int64_t lo, int64_t hi)
{
    (void)lo, (void)hi;
    return (int32_t)(uint32_t)(uint64_t)x;
}
static inline int32_t f_clamp_b(uint8_t x, int32_t lo, int32_t hi)
{
    (void)lo, (void)hi;
    return x;
}
