// What a device can do at best, by the library's own ops: a copy of more than caches hold, and the largest product of
// matrices that is worth waiting for. Ops run in rounds, of as many as take some time together, and the best round
// counts. Nothing of it is in a profile or a capture, and the most memory that was in use stays what it was.
#include "base/process.h"
#include "device/device.h"
#include "device/profile.h"
#include "tensor/tensor.h"
#include "base/options.h"
#include <kiln/ops.h>
#include <kiln/profile.h>
#include <kiln/tensor.h>
#include <math.h>

enum { ROUNDS = 4, MOST_RUNS = 1 << 12, SMALLEST = 256, LARGEST = 8192 };
#define COPY_ELEMENTS ((int64_t)16 << 20) // 64 MiB
#define RUN_NS        2e6                 // from which on a run is long enough
#define ROUND_NS      1e7
#define ENOUGH_NS     300000000 // for a figure, on a machine that has much else to do

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_ceilings, lock)

// b NULL: a copy. In nanoseconds.
static double time_of(kiln_device *dev, kiln_tensor *a, kiln_tensor *b, int runs)
{
    uint64_t from_ns = clock_now_ns();
    for (int i = 0; i < runs && !kiln_error(); i++) {
        kiln_scope *scope = kiln_scope_begin();
        if (b)
            kiln_matmul(a, b);
        else
            kiln_contiguous(a);
        kiln_scope_end(&scope);
    }
    kiln_device_synchronize(dev);
    return (double)(clock_now_ns() - from_ns);
}

static bool is_late(uint64_t from_ns)
{
    return clock_now_ns() - from_ns > ENOUGH_NS;
}

// Of a run, in the best of some rounds.
static double best_of(kiln_device *dev, kiln_tensor *a, kiln_tensor *b, uint64_t from_ns)
{
    int runs = 1;
    time_of(dev, a, b, 1); // pages, pipelines and threads are there from now on
    while (!kiln_error() && !is_late(from_ns) && runs < MOST_RUNS && time_of(dev, a, b, runs) < ROUND_NS) runs *= 2;
    double best = INFINITY;
    for (int i = 0; i < ROUNDS && !kiln_error() && !(i && is_late(from_ns)); i++)
        best = fmin(best, time_of(dev, a, b, runs) / runs);
    return best;
}

static double measure_copy(kiln_device *dev)
{
    kiln_scope *scope = kiln_scope_begin();
    double time_ns = best_of(dev, kiln_ones(dev, KILN_F32, KILN_SHAPE(COPY_ELEMENTS)), NULL, clock_now_ns());
    kiln_scope_end(&scope);
    return 2.0 * 4 * (double)COPY_ELEMENTS / time_ns * 1e9;
}

static double measure_product(kiln_device *dev)
{
    double best = 0, time_ns = 0;
    uint64_t from_ns = clock_now_ns();
    for (int64_t n = SMALLEST; n <= LARGEST && time_ns < RUN_NS && !kiln_error() && !(best > 0 && is_late(from_ns));
         n *= 2) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *a = kiln_ones(dev, KILN_F32, KILN_SHAPE(n, n));
        time_ns = best_of(dev, a, a, from_ns);
        best = fmax(best, 2 * (double)n * (double)n * (double)n / time_ns * 1e9);
        kiln_scope_end(&scope);
    }
    return best;
}

static void measure(kiln_device *dev, kiln_device_ceilings *out)
{
    bool quiet = profile_quiet(true);
    struct sink *sink = thread_state.sink;
    uint64_t peak_B = STAT_GET(dev, heap_peak_B);
    thread_state.sink = NULL;
    thread_state.no_grad++;
    out->copy_B_per_s = measure_copy(dev);
    out->flop_per_s = measure_product(dev);
    thread_state.no_grad--;
    thread_state.sink = sink;
    STAT_SET(dev, heap_peak_B, peak_B);
    profile_quiet(quiet);
}

kiln_status kiln_device_get_ceilings(kiln_device *dev, kiln_device_ceilings *out)
{
    if (error_pending) return error_pending;
    TRY(device_check("device_get_ceilings", dev));
    TRY(sized_check("device_get_ceilings", kiln_device_ceilings, out));
    if (dev->ops->role == ROLE_NONE)
        return error_set(KILN_E_UNSUPPORTED, "device_get_ceilings: %s computes nothing", dev->name);
    pthread_mutex_lock(&lock);
    kiln_device_ceilings measured = {.copy_B_per_s = 0};
    if (!(dev->ceilings.flop_per_s > 0)) {
        measure(dev, &measured);
        if (!error_pending) dev->ceilings = measured;
    }
    measured = dev->ceilings;
    pthread_mutex_unlock(&lock);
    if (error_pending) return error_pending;
    measured.size = sizeof measured;
    sized_fill(out, &measured, sizeof measured);
    return KILN_OK;
}
