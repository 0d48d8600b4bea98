// Windows and frequencies. The input gives the dtype alone.
#include "compose/case.h"

enum { N = 9 };

#define WINDOW(name, length, periodic, m, formula)                                                            \
    static void call_##name##_##periodic##length(kiln_tensor *const *in, kiln_tensor **out)                   \
    {                                                                                                         \
        out[0] = kiln_##name##_window(kiln_tensor_device(in[0]), kiln_tensor_dtype(in[0]), length, periodic); \
    }                                                                                                         \
    static void expect_##name##_##periodic##length(const struct host *in, struct host *out)                   \
    {                                                                                                         \
        out[0] = host_new(in[0].dtype, 1, (int64_t[]){length});                                               \
        for (int64_t k = 0; k < length; k++) out[0].v[k] = length == 1 ? 1 : formula(k, (long double)(m));    \
    }

static long double turn(int64_t k, long double m)
{
    return cosl(2 * PI_L * (long double)k / m);
}
static long double hann(int64_t k, long double m)
{
    return 0.5L - 0.5L * turn(k, m);
}
static long double hamming(int64_t k, long double m)
{
    return 0.54L - 0.46L * turn(k, m);
}
static long double blackman(int64_t k, long double m)
{
    return 0.42L - 0.5L * turn(k, m) + 0.08L * turn(2 * k, m);
}
static long double bartlett(int64_t k, long double m)
{
    return 2 * (long double)k <= m ? 2 * (long double)k / m : 2 - 2 * (long double)k / m;
}
static long double cosine(int64_t k, long double m)
{
    return sinl(PI_L * ((long double)k + 0.5L) / (m + 1));
}

WINDOW(hann, 9, true, 9, hann)
WINDOW(hann, 9, false, 8, hann)
WINDOW(hann, 1, false, 1, hann)
WINDOW(hamming, 9, true, 9, hamming)
WINDOW(hamming, 10, false, 9, hamming)
WINDOW(blackman, 9, true, 9, blackman)
WINDOW(blackman, 10, false, 9, blackman)
WINDOW(bartlett, 9, true, 9, bartlett)
WINDOW(bartlett, 10, false, 9, bartlett)
WINDOW(cosine, 9, true, 9, cosine)
WINDOW(cosine, 10, false, 9, cosine)
WINDOW(cosine, 0, false, 9, cosine)

static void call_gaussian(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_gaussian_window(kiln_tensor_device(in[0]), kiln_tensor_dtype(in[0]), N, 1.75, false);
}

static void expect_gaussian(const struct host *in, struct host *out)
{
    out[0] = host_new(in[0].dtype, 1, (int64_t[]){N});
    for (int64_t k = 0; k < N; k++) {
        long double d = ((long double)k - (N - 1) / 2.0L) / 1.75L;
        out[0].v[k] = expl(-d * d / 2);
    }
}

#define FREQUENCIES(n)                                                                        \
    static void call_fftfreq##n(kiln_tensor *const *in, kiln_tensor **out)                    \
    {                                                                                         \
        out[0] = kiln_fftfreq(kiln_tensor_device(in[0]), kiln_tensor_dtype(in[0]), n, 0.25);  \
    }                                                                                         \
    static void expect_fftfreq##n(const struct host *in, struct host *out)                    \
    {                                                                                         \
        out[0] = host_new(in[0].dtype, 1, (int64_t[]){n});                                    \
        for (int64_t k = 0; k < n; k++) out[0].v[k] = (2 * k < n ? k : k - n) / (n * 0.25L);  \
    }                                                                                         \
    static void call_rfftfreq##n(kiln_tensor *const *in, kiln_tensor **out)                   \
    {                                                                                         \
        out[0] = kiln_rfftfreq(kiln_tensor_device(in[0]), kiln_tensor_dtype(in[0]), n, 0.25); \
    }                                                                                         \
    static void expect_rfftfreq##n(const struct host *in, struct host *out)                   \
    {                                                                                         \
        out[0] = host_new(in[0].dtype, 1, (int64_t[]){n / 2 + 1});                            \
        for (int64_t k = 0; k < n / 2 + 1; k++) out[0].v[k] = k / (n * 0.25L);                \
    }
FREQUENCIES(8)
FREQUENCIES(7)

static void call_shift(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_fftshift(in[0], KILN_AXES0);
    out[1] = kiln_ifftshift(in[0], KILN_AXES(-1));
    out[2] = kiln_ifftshift(out[0], KILN_AXES0);
}

static void expect_shift(const struct host *in, struct host *out)
{
    int64_t n = in[0].dims[0], m = in[0].dims[1];
    for (int i = 0; i < 3; i++) out[i] = host_copy(&in[0]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < m; k++) {
            out[0].v[(i + n / 2) % n * m + (k + m / 2) % m] = in[0].v[i * m + k];
            out[1].v[i * m + (k + m - m / 2) % m] = in[0].v[i * m + k];
        }
}

#define OF(name, n, periodic, note)                                                                                   \
    {                                                                                                                 \
#name "_window", note, "-", IN_FLOATS, call_##name##_##periodic##n, expect_##name##_##periodic##n, .units = 8 \
    }
static const struct op_case windows_cases[] = {
    OF(hann, 9, true, "periodic"),
    OF(hann, 9, false, "symmetric"),
    OF(hann, 1, false, "of one"),
    OF(hamming, 9, true, "periodic"),
    OF(hamming, 10, false, "symmetric"),
    OF(blackman, 9, true, "periodic"),
    OF(blackman, 10, false, "symmetric"),
    OF(bartlett, 9, true, "periodic"),
    OF(bartlett, 10, false, "symmetric"),
    OF(cosine, 9, true, "periodic"),
    OF(cosine, 10, false, "symmetric"),
    OF(cosine, 0, false, "of none"),
    {"gaussian_window", "symmetric", "-", IN_FLOATS, call_gaussian, expect_gaussian, .units = 8},
    {"fftfreq", "even", "-", IN_FLOATS, call_fftfreq8, expect_fftfreq8, .units = 2},
    {"fftfreq", "odd", "-", IN_FLOATS, call_fftfreq7, expect_fftfreq7, .units = 2},
    {"rfftfreq", "even", "-", IN_FLOATS, call_rfftfreq8, expect_rfftfreq8, .units = 2},
    {"rfftfreq", "odd", "-", IN_FLOATS, call_rfftfreq7, expect_rfftfreq7, .units = 2},
    {"fftshift", "even and odd", "4x5", IN_NUMBERS, call_shift, expect_shift, .n_out = 3, .order = 2},
    {"ifftshift", "one", "1x2", IN_FLOATS, call_shift, expect_shift, .n_out = 3},
};
FAMILY_OF(windows);
