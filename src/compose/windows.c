// Windows for spectra, and the frequencies of transforms. Formulas: F. J. Harris, On the use of windows for harmonic
// analysis with the discrete Fourier transform, 1978.
#include "compose/composite.h"
#include "base/dtype.h"

#define PI 3.14159265358979323846

static bool sound(kiln_dtype dtype, int64_t n)
{
    if (!dtype_is_float(dtype))
        error_set(KILN_E_DTYPE, "dtype must be a float, it is %s", kiln_dtype_name(dtype));
    else if (n < 0)
        error_set(KILN_E_SHAPE, "n is %lld", (long long)n);
    return !error_pending;
}

// 0 to n - 1 in a dtype in which angles are computed: f16 and bf16 are rounded at the end alone.
static kiln_tensor *places(kiln_device *dev, kiln_dtype dtype, int64_t n)
{
    return kiln_arange(dev, dtype == KILN_F64 ? KILN_F64 : KILN_F32, 0, (double)n, 1);
}

// m of the formulas; of one element, whose angle is 0 whatever it is, 1.
static double length_of(int64_t n, bool periodic)
{
    int64_t m = periodic ? n : n - 1;
    return m > 0 ? (double)m : 1;
}

static kiln_tensor *all_ones(kiln_device *dev, kiln_dtype dtype, int64_t n)
{
    return kiln_ones(dev, dtype, KILN_SHAPE(n));
}

// a - b cos(2 pi k / m) + c cos(4 pi k / m)
static kiln_tensor *cosines(kiln_device *dev, kiln_dtype dtype, int64_t n, bool periodic, double a, double b, double c)
{
    if (!sound(dtype, n)) return NULL;
    if (n == 1) return all_ones(dev, dtype, n);
    kiln_tensor *angle = kiln_mul(places(dev, dtype, n), kiln_scalar(2 * PI / length_of(n, periodic)));
    kiln_tensor *w = kiln_sub(kiln_scalar(a), kiln_mul(kiln_cos(angle), kiln_scalar(b)));
    if (c != 0) w = kiln_add(w, kiln_mul(kiln_cos(kiln_mul(angle, kiln_scalar(2))), kiln_scalar(c)));
    return kiln_cast(w, dtype);
}

kiln_tensor *compose_hann_window(kiln_device *dev, kiln_dtype dtype, int64_t n, bool periodic)
{
    return cosines(dev, dtype, n, periodic, 0.5, 0.5, 0);
}

kiln_tensor *compose_hamming_window(kiln_device *dev, kiln_dtype dtype, int64_t n, bool periodic)
{
    return cosines(dev, dtype, n, periodic, 0.54, 0.46, 0);
}

kiln_tensor *compose_blackman_window(kiln_device *dev, kiln_dtype dtype, int64_t n, bool periodic)
{
    return cosines(dev, dtype, n, periodic, 0.42, 0.5, 0.08);
}

kiln_tensor *compose_bartlett_window(kiln_device *dev, kiln_dtype dtype, int64_t n, bool periodic)
{
    if (!sound(dtype, n)) return NULL;
    if (n == 1) return all_ones(dev, dtype, n);
    kiln_tensor *way = kiln_mul(places(dev, dtype, n), kiln_scalar(2 / length_of(n, periodic)));
    kiln_tensor *slope = kiln_abs(kiln_sub(way, kiln_scalar(1)));
    return kiln_cast(kiln_sub(kiln_scalar(1), slope), dtype);
}

kiln_tensor *compose_cosine_window(kiln_device *dev, kiln_dtype dtype, int64_t n, bool periodic)
{
    if (!sound(dtype, n)) return NULL;
    if (n == 1) return all_ones(dev, dtype, n);
    kiln_tensor *k = kiln_add(places(dev, dtype, n), kiln_scalar(0.5));
    return kiln_cast(kiln_sin(kiln_mul(k, kiln_scalar(PI / (length_of(n, periodic) + 1)))), dtype);
}

kiln_tensor *compose_gaussian_window(kiln_device *dev, kiln_dtype dtype, int64_t n, double std, bool periodic)
{
    if (!sound(dtype, n)) return NULL;
    if (!(std > 0)) error_set(KILN_E_ARGUMENT, "std must be positive, it is %g", std);
    if (n == 1) return all_ones(dev, dtype, n);
    kiln_tensor *k = kiln_sub(places(dev, dtype, n), kiln_scalar(length_of(n, periodic) / 2));
    kiln_tensor *deviation = kiln_div(k, kiln_scalar(std));
    return kiln_cast(kiln_exp(kiln_mul(kiln_square(deviation), kiln_scalar(-0.5))), dtype);
}

static kiln_tensor *frequencies(kiln_dtype dtype, int64_t n, double spacing, kiln_tensor *k)
{
    if (spacing == 0) error_set(KILN_E_ARGUMENT, "the spacing is 0");
    return kiln_cast(kiln_div(k, kiln_scalar((double)n * spacing)), dtype);
}

kiln_tensor *compose_fftfreq(kiln_device *dev, kiln_dtype dtype, int64_t n, double spacing)
{
    if (!sound(dtype, n)) return NULL;
    kiln_tensor *k = places(dev, dtype, n), *negative = kiln_greater(k, kiln_scalar((double)((n - 1) / 2)));
    return frequencies(dtype, n, spacing, kiln_where(negative, kiln_sub(k, kiln_scalar((double)n)), k));
}

kiln_tensor *compose_rfftfreq(kiln_device *dev, kiln_dtype dtype, int64_t n, double spacing)
{
    if (!sound(dtype, n)) return NULL;
    return frequencies(dtype, n, spacing, places(dev, dtype, n / 2 + 1));
}

static kiln_tensor *shifted(kiln_tensor *x, size_t count, const int64_t *axes, bool back)
{
    int64_t all[KILN_MAX_RANK], shifts[KILN_MAX_RANK];
    size_t rank = kiln_rank(x);
    if (count > KILN_MAX_RANK) error_set(KILN_E_AXIS, "there are %zu axes", count);
    if (error_pending) return NULL;
    for (size_t i = 0; i < rank; i++) all[i] = (int64_t)i;
    if (count == 0) count = rank, axes = all;
    if (count == 0) return kiln_alias(x);
    for (size_t i = 0; i < count; i++) {
        int axis = composite_axis("axis", axes[i], rank, x);
        if (axis < 0) return NULL;
        int64_t n = kiln_dims(x)[axis];
        shifts[i] = back ? -(n / 2) : n / 2;
    }
    return kiln_roll(x, (kiln_ints){count, shifts}, (kiln_ints){count, axes});
}

kiln_tensor *compose_fftshift(kiln_tensor *x, kiln_ints axes)
{
    return shifted(x, axes.count, axes.v, false);
}

kiln_tensor *compose_ifftshift(kiln_tensor *x, kiln_ints axes)
{
    return shifted(x, axes.count, axes.v, true);
}
