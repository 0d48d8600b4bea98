// Fourier transforms of complex and real tensors, against the sums that define them. Complex numbers come and go as
// pairs.
#include "compose/case.h"
#include <complex.h>
#include <string.h>
#undef I

typedef long double complex number;

static number made(long double re, long double im)
{
    return re + im * _Complex_I;
}

static kiln_tensor *z_of(kiln_tensor *pairs)
{
    return kiln_view_as_complex(pairs);
}

static kiln_tensor *pairs_of(kiln_tensor *z)
{
    return z ? kiln_view_as_real(z) : NULL;
}

// Lines of complex numbers: line (o, i) has its k-th at o * n * inner + k * inner + i.
struct grid {
    int64_t outer, n, inner;
    number *v;
};

static struct grid grid_new(int64_t outer, int64_t n, int64_t inner)
{
    static number room[8][512];
    static int turn;
    struct grid g = {outer, n, inner, room[turn = (turn + 1) % 8]};
    memset(g.v, 0, sizeof room[0]);
    return g;
}

static number *grid_at(const struct grid *g, int64_t o, int64_t k, int64_t i)
{
    return &g->v[(o * g->n + k) * g->inner + i];
}

static struct grid grid_of(const struct host *h, bool pairs, int64_t outer, int64_t n, int64_t inner)
{
    struct grid g = grid_new(outer, n, inner);
    for (int64_t i = 0; i < outer * n * inner; i++)
        g.v[i] = pairs ? made(h->v[2 * i], h->v[2 * i + 1]) : made(h->v[i], 0);
    return g;
}

// The first `count` results of a transform of length n of the entries that there are, divided by `by`.
static struct grid dft(const struct grid *x, int64_t n, int64_t count, bool inverse, long double by)
{
    struct grid y = grid_new(x->outer, count, x->inner);
    for (int64_t o = 0; o < x->outer; o++)
        for (int64_t i = 0; i < x->inner; i++)
            for (int64_t k = 0; k < count; k++) {
                number sum = 0;
                for (int64_t j = 0; j < n && j < x->n; j++) {
                    long double angle = (inverse ? 2 : -2) * PI_L * (long double)(j * k % n) / (long double)n;
                    sum += *grid_at(x, o, j, i) * made(cosl(angle), sinl(angle));
                }
                *grid_at(&y, o, k, i) = sum / by;
            }
    return y;
}

// All n entries of what is conjugate to itself in reverse.
static struct grid whole(const struct grid *x, int64_t n)
{
    struct grid y = grid_new(x->outer, n, x->inner);
    for (int64_t o = 0; o < x->outer; o++)
        for (int64_t i = 0; i < x->inner; i++)
            for (int64_t k = 0; k < n; k++) {
                int64_t from = k <= n / 2 ? k : n - k;
                number v = from < x->n ? *grid_at(x, o, from, i) : 0;
                // Only the real part of an entry that is its own mirror counts.
                *grid_at(&y, o, k, i) = k <= n / 2 ? v : conjl(v);
            }
    return y;
}

static struct host host_of(const struct grid *g, int dtype, bool pairs, int rank, const int64_t *dims)
{
    struct host h = host_new(dtype, rank, dims);
    for (int64_t i = 0; i < g->outer * g->n * g->inner; i++) {
        h.v[pairs ? 2 * i : i] = creall(g->v[i]);
        if (pairs) h.v[2 * i + 1] = cimagl(g->v[i]);
    }
    return h;
}

// --- one axis: x [2, 6, 3] of complex or real numbers

static void call_fft(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *z = z_of(in[0]);
    out[0] = pairs_of(kiln_fft(z, 1, NULL));
    out[1] = pairs_of(kiln_fft(z, 1, KILN_FFT(.n = 8, .norm = KILN_FFT_ORTHO)));
    out[2] = pairs_of(kiln_fft(z, -2, KILN_FFT(.n = 5, .norm = KILN_FFT_FORWARD)));
}

static void expect_fft(const struct host *in, struct host *out)
{
    static const int64_t lengths[] = {6, 8, 5};
    const long double by[] = {1, sqrtl(8), 5};
    for (int k = 0; k < 3; k++) {
        struct grid x = grid_of(&in[0], true, 2, 6, 3), y = dft(&x, lengths[k], lengths[k], false, by[k]);
        out[k] = host_of(&y, in[0].dtype, true, 4, (int64_t[]){2, lengths[k], 3, 2});
    }
}

static void call_ifft(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *z = z_of(in[0]);
    out[0] = pairs_of(kiln_ifft(z, 1, NULL));
    out[1] = pairs_of(kiln_ifft(z, 1, KILN_FFT(.n = 7, .norm = KILN_FFT_FORWARD)));
    out[2] = pairs_of(kiln_ifft(kiln_fft(z, 0, NULL), 0, NULL));
}

static void expect_ifft(const struct host *in, struct host *out)
{
    struct grid x = grid_of(&in[0], true, 2, 6, 3), y = dft(&x, 6, 6, true, 6);
    out[0] = host_of(&y, in[0].dtype, true, 4, (int64_t[]){2, 6, 3, 2});
    y = dft(&x, 7, 7, true, 1);
    out[1] = host_of(&y, in[0].dtype, true, 4, (int64_t[]){2, 7, 3, 2});
    out[2] = host_copy(&in[0]);
}

static void call_rfft(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = pairs_of(kiln_rfft(in[0], 1, NULL));
    out[1] = pairs_of(kiln_rfft(in[0], 1, KILN_FFT(.n = 7)));
    out[2] =
        kiln_irfft(kiln_rfft(in[0], 0, KILN_FFT(.norm = KILN_FFT_ORTHO)), 0, KILN_FFT(.n = 2, .norm = KILN_FFT_ORTHO));
    out[3] = pairs_of(kiln_ihfft(in[0], 1, NULL));
}

static void expect_rfft(const struct host *in, struct host *out)
{
    struct grid x = grid_of(&in[0], false, 2, 6, 3), y = dft(&x, 6, 4, false, 1);
    out[0] = host_of(&y, in[0].dtype, true, 4, (int64_t[]){2, 4, 3, 2});
    y = dft(&x, 7, 4, false, 1);
    out[1] = host_of(&y, in[0].dtype, true, 4, (int64_t[]){2, 4, 3, 2});
    out[2] = host_copy(&in[0]);
    y = dft(&x, 6, 4, true, 6);
    out[3] = host_of(&y, in[0].dtype, true, 4, (int64_t[]){2, 4, 3, 2});
}

static void call_irfft(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *z = z_of(in[0]);
    out[0] = kiln_irfft(z, 1, NULL);
    out[1] = kiln_irfft(z, 1, KILN_FFT(.n = 7));
    out[2] = kiln_hfft(z, 1, KILN_FFT(.norm = KILN_FFT_FORWARD));
}

static void expect_irfft(const struct host *in, struct host *out)
{
    struct grid x = grid_of(&in[0], true, 2, 4, 3), all = whole(&x, 6), y = dft(&all, 6, 6, true, 6);
    out[0] = host_of(&y, in[0].dtype, false, 3, (int64_t[]){2, 6, 3});
    all = whole(&x, 7);
    y = dft(&all, 7, 7, true, 7);
    out[1] = host_of(&y, in[0].dtype, false, 3, (int64_t[]){2, 7, 3});
    for (int64_t i = 0; i < 24; i++) x.v[i] = conjl(x.v[i]);
    all = whole(&x, 6);
    y = dft(&all, 6, 6, false, 6);
    out[2] = host_of(&y, in[0].dtype, false, 3, (int64_t[]){2, 6, 3});
}

// --- several axes: x [3, 4, 2]

static void call_fftn(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *z = z_of(in[0]);
    out[0] = pairs_of(kiln_fft2(kiln_squeeze(kiln_unsqueeze(z, -1), KILN_AXES(-1)), NULL));
    out[1] = pairs_of(kiln_ifft2(kiln_fftn(z, KILN_AXES0, NULL), NULL));
    out[2] = kiln_irfft2(kiln_rfft2(kiln_real(z), NULL), KILN_FFT(.n = 4));
    out[3] = kiln_irfftn(kiln_rfftn(kiln_imag(z), KILN_AXES(1, 0), NULL), KILN_AXES(1, 0), KILN_FFT(.n = 3));
}

static void expect_fftn(const struct host *in, struct host *out)
{
    struct grid x = grid_of(&in[0], true, 3, 4, 1), y = dft(&x, 4, 4, false, 1);
    y.inner = 4, y.n = 3, y.outer = 1;
    struct grid z = dft(&y, 3, 3, false, 1);
    out[0] = host_of(&z, in[0].dtype, true, 3, (int64_t[]){3, 4, 2});
    out[1] = host_copy(&in[0]);
    for (int o = 2; o < 4; o++) {
        out[o] = host_new(in[0].dtype, 2, in[0].dims);
        for (int64_t i = 0; i < 12; i++) out[o].v[i] = in[0].v[2 * i + o - 2];
    }
}

// --- pieces of signals: x [2, 21], pieces of 8 every 3

enum { PIECE = 8, HOP = 3, SIGNAL = 21, PIECES = 8 };

static kiln_tensor *window(kiln_tensor *like)
{
    return kiln_hann_window(kiln_tensor_device(like), kiln_tensor_dtype(like), PIECE, true);
}

static void call_stft(kiln_tensor *const *in, kiln_tensor **out)
{
    const kiln_stft_opts *o = KILN_STFT(.n = PIECE, .hop = HOP, .window = window(in[0]), .center = true);
    kiln_tensor *spectra = kiln_stft(in[0], o);
    out[0] = pairs_of(spectra);
    out[1] = kiln_istft(spectra,
                        KILN_STFT(.n = PIECE, .hop = HOP, .window = window(in[0]), .center = true, .length = SIGNAL));
}

static long double mirrored(const struct host *x, int64_t line, int64_t k)
{
    k = k < 0 ? -k : k >= SIGNAL ? 2 * (SIGNAL - 1) - k : k;
    return x->v[line * SIGNAL + k];
}

static void expect_stft(const struct host *in, struct host *out)
{
    out[0] = host_new(in[0].dtype, 4, (int64_t[]){2, PIECE / 2 + 1, PIECES, 2});
    for (int64_t line = 0; line < 2; line++)
        for (int64_t t = 0; t < PIECES; t++) {
            struct grid piece = grid_new(1, PIECE, 1);
            for (int64_t k = 0; k < PIECE; k++)
                piece.v[k] = mirrored(&in[0], line, t * HOP + k - PIECE / 2) *
                             (0.5L - 0.5L * cosl(2 * PI_L * (long double)k / PIECE));
            struct grid y = dft(&piece, PIECE, PIECE / 2 + 1, false, 1);
            for (int64_t k = 0; k <= PIECE / 2; k++) {
                int64_t to = ((line * (PIECE / 2 + 1) + k) * PIECES + t) * 2;
                out[0].v[to] = creall(y.v[k]);
                out[0].v[to + 1] = cimagl(y.v[k]);
            }
        }
    out[1] = host_copy(&in[0]);
}

#define OF(name, note, inputs, n, ...)                                                                 \
    {                                                                                                  \
#name, note, inputs, IN_WIDE, call_##name, expect_##name, .n_out = n, .units = 32, __VA_ARGS__ \
    }
static const struct op_case fft_cases[] = {
    OF(fft, "lengths and divisors", "2x6x3x2", 3, .order = 2),
    OF(ifft, "and back", "2x6x3x2", 3, .order = 2),
    OF(rfft, "real", "2x6x3", 4, .order = 2),
    OF(irfft, "from half", "2x4x3x2", 3, .order = 2),
    {"ihfft", "real", "2x6x3", IN_WIDE, call_rfft, expect_rfft, .n_out = 4, .units = 32},
    {"hfft", "from half", "2x4x3x2", IN_WIDE, call_irfft, expect_irfft, .n_out = 3, .units = 32},
    OF(fftn, "two axes", "3x4x2", 4, .order = 2),
    {"fft2", "two axes", "3x4x2", IN_WIDE, call_fftn, expect_fftn, .n_out = 4, .units = 32},
    {"ifft2", "two axes", "3x4x2", IN_WIDE, call_fftn, expect_fftn, .n_out = 4, .units = 32},
    {"rfft2", "two axes", "3x4x2", IN_WIDE, call_fftn, expect_fftn, .n_out = 4, .units = 32},
    {"irfft2", "two axes", "3x4x2", IN_WIDE, call_fftn, expect_fftn, .n_out = 4, .units = 32},
    {"rfftn", "two axes", "3x4x2", IN_WIDE, call_fftn, expect_fftn, .n_out = 4, .units = 32},
    {"irfftn", "two axes", "3x4x2", IN_WIDE, call_fftn, expect_fftn, .n_out = 4, .units = 32},
    {"ifftn", "by ifft2", "3x4x2", IN_WIDE, call_fftn, expect_fftn, .n_out = 4, .units = 32},
    OF(stft, "and back", "2x21", 2, .order = 2),
    {"istft", "and back", "2x21", IN_WIDE, call_stft, expect_stft, .n_out = 2, .units = 32},
};
FAMILY_OF(fft);
