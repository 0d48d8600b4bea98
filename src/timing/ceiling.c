// What a device can do at best. Beside the CPU, whose loops are in ceiling_cpu.c, all that runs on a device are the
// library's own kernels; launches are the library's everywhere.
#include "base/clock.h"
#include "base/handles.h"
#include "timing/timing.h"

#include <kiln/ops.h>
#include <kiln/random.h>
#include <math.h>
#include <string.h>

#define MOST_B 0x1p30
enum { PASSES = 25, SIDE = 2048, SIDE_IN_SOFTWARE = 256, LAUNCHES = 1000 };

bool timing_has_clock(kiln_device *dev)
{
    kiln_device_info info = {.size = sizeof info};
    if (kiln_device_get_info(dev, &info) || strcmp(info.kind, "vulkan") || info.software) return false;
    bool works = !kiln_device_mark(dev, 0) && !kiln_device_mark(dev, 1) && kiln_device_elapsed(dev, 0, 1) >= 0;
    kiln_error_clear();
    return works;
}

static void one_pass(kiln_ceiling kind, kiln_tensor *a, kiln_tensor *b)
{
    switch (kind) {
    case KILN_CEILING_READ: kiln_sum(a, NULL); break;
    case KILN_CEILING_COPY: kiln_neg(a); break;
    case KILN_CEILING_TRIAD: kiln_add(a, b); break;
    case KILN_CEILING_LAUNCH:
        for (int i = 0; i < LAUNCHES; i++) kiln_neg(a);
        break;
    default: kiln_matmul(a, b); break;
    }
}

static double pass_ns(kiln_device *dev, kiln_ceiling kind, kiln_tensor *a, kiln_tensor *b, bool clock)
{
    if (clock) kiln_device_mark(dev, 0);
    uint64_t t0 = clock_now_ns();
    kiln_scope *scope = kiln_scope_begin();
    one_pass(kind, a, b);
    kiln_scope_end(&scope);
    if (clock) kiln_device_mark(dev, 1);
    if (clock) return kiln_device_elapsed(dev, 0, 1);
    kiln_device_synchronize(dev);
    return (double)(clock_now_ns() - t0);
}

static double best_pass_ns(kiln_device *dev, kiln_ceiling kind, kiln_tensor *a, kiln_tensor *b)
{
    double best = INFINITY;
    bool clock = timing_has_clock(dev);
    kiln_device_synchronize(dev);
    for (int i = 0; i < PASSES && !kiln_error(); i++) best = fmin(best, pass_ns(dev, kind, a, b, clock));
    return best;
}

// Normal numbers, not of the device's generator, which stays as it is.
static kiln_tensor *numbers(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims)
{
    kiln_generator *g = kiln_generator_new(1), *before = kiln_use_generator(g);
    kiln_tensor *t = kiln_cast(kiln_normal(dev, KILN_F32, rank, dims, 0, 1), dtype);
    kiln_use_generator(before);
    kiln_generator_free(&g);
    return t;
}

static double of_memory(kiln_device *dev, kiln_ceiling kind, double bytes, double *amount)
{
    int64_t arrays = (int64_t)kind + 1, n = (int64_t)(bytes / sizeof(float)) / arrays + 1;
    kiln_tensor *a = numbers(dev, KILN_F32, 1, &n);
    kiln_tensor *b = kind < KILN_CEILING_TRIAD ? NULL : numbers(dev, KILN_F32, 1, &n);
    *amount = (double)(4 * arrays * n);
    return best_pass_ns(dev, kind, a, b);
}

static double of_launches(kiln_device *dev, kiln_ceiling kind, double *amount)
{
    *amount = LAUNCHES;
    return best_pass_ns(dev, kind, numbers(dev, KILN_F32, 1, &(int64_t){1}), NULL);
}

static double of_products(kiln_device *dev, kiln_ceiling kind, bool software, double *amount)
{
    static const kiln_dtype dtypes[] = {[KILN_CEILING_FMA] = KILN_F32,
                                        [KILN_CEILING_FMA_F64] = KILN_F64,
                                        [KILN_CEILING_FMA_BF16] = KILN_BF16,
                                        [KILN_CEILING_FMA_F16] = KILN_F16};
    int64_t side = software ? SIDE_IN_SOFTWARE : SIDE, square[] = {side, side};
    kiln_tensor *a = numbers(dev, dtypes[kind], 2, square), *b = numbers(dev, dtypes[kind], 2, square);
    *amount = 2.0 * (double)(side * side * side);
    return best_pass_ns(dev, kind, a, b);
}

static double of_device(kiln_device *dev, kiln_ceiling kind, double bytes, bool software)
{
    double amount = 0, best = INFINITY;
    kiln_scope *scope = kiln_scope_begin();
    if (kind <= KILN_CEILING_TRIAD)
        best = of_memory(dev, kind, bytes, &amount);
    else
        best =
            kind == KILN_CEILING_LAUNCH ? of_launches(dev, kind, &amount) : of_products(dev, kind, software, &amount);
    kiln_scope_end(&scope);
    return kiln_error() ? NAN : 1e9 * amount / best;
}

double kiln_device_ceiling(kiln_device *dev, kiln_ceiling kind, double bytes)
{
    kiln_device_info info = {.size = sizeof info};
    if (kiln_error() || handle_check("device_ceiling", "dev", HANDLE_DEVICE, dev)) return NAN;
    if ((int)kind < 0 || kind > KILN_CEILING_LAUNCH) {
        error_set(KILN_E_ARGUMENT, "device_ceiling: kind is %d, not one of kiln_ceiling", (int)kind);
        return NAN;
    }
    if (kind <= KILN_CEILING_TRIAD && !(bytes > 0 && bytes < INFINITY)) {
        error_set(KILN_E_ARGUMENT, "device_ceiling: bytes is %g, not over 0", bytes);
        return NAN;
    }
    if (kiln_is_capturing()) {
        error_set(KILN_E_STATE, "device_ceiling: is asked for inside of a capture");
        return NAN;
    }
    if (kiln_device_get_info(dev, &info)) return NAN;
    bool on_cpu = !strcmp(info.kind, "cpu") && kind != KILN_CEILING_LAUNCH;
    double rate =
        on_cpu ? ceiling_of_cpu(kind, fmin(bytes, MOST_B)) : of_device(dev, kind, fmin(bytes, MOST_B), info.software);
    return kiln_error() ? NAN : rate;
}
