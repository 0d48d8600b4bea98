/// @file timing.h
/// Timing functions as kiln-bench does, and what the machine could do at best.
///
///     kiln_bench_result r = {.size = sizeof r};
///     kiln_bench_function(layer, NULL, in, 3, 1, KILN_BENCH(.jit = true), &r);
///     kiln_bench_print(&r, stdout);
#ifndef KILN_TIMING_H
#define KILN_TIMING_H

#include <kiln/grad.h>
#include <kiln/jit.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/// What limits a program at best.
typedef enum kiln_ceiling {
    KILN_CEILING_READ = 0,     ///< bytes a second of a pass that reads
    KILN_CEILING_COPY = 1,     ///< of one that reads and writes as much
    KILN_CEILING_TRIAD = 2,    ///< of one that reads two arrays and writes a third
    KILN_CEILING_FMA = 3,      ///< operations a second of f32, two for each product that is added
    KILN_CEILING_FMA_F64 = 4,  ///< the same of f64
    KILN_CEILING_FMA_BF16 = 5, ///< of bf16, added in f32; where the processor has no such products, those of f32
    KILN_CEILING_FMA_F16 = 6,  ///< of f16, added in f32; on the CPU those of f32
    KILN_CEILING_LAUNCH = 7,   ///< eager ops of one element a second, none of which waits for another
} kiln_ceiling;

/// Measures what the device does at best, in about 0.1 s: bytes or operations a second; NaN and an error when it
/// cannot. `bytes` is what a pass moves in all, so that what fits a cache has the cache's ceiling; more than 1 GiB is
/// as 1 GiB; looked at for the three that move memory alone. On the CPU passes are loops on the threads that the
/// library uses, and products are added in registers; on other devices they are the library's own sum, neg, add and
/// matmul, for nothing else runs there. Errors: KILN_E_ARGUMENT for another kind, and for bytes that are not over 0.
KILN_API double kiln_device_ceiling(kiln_device *dev, kiln_ceiling kind, double bytes);

/// Options of kiln_bench_function and kiln_bench_captured; NULL means all zero.
typedef struct kiln_bench_opts {
    size_t size KILN_0;
    double budget_s KILN_0;     ///< of timed calls; 0: 1
    int64_t warm_up KILN_0;     ///< calls after the first that are not timed, while the budget lasts; 0: 3; -1: none
    int64_t min_runs KILN_0;    ///< timed calls at least, whatever they take; 0: 5
    int64_t max_runs KILN_0;    ///< and at most, to 1,000,000; 0: 10,000
    bool jit KILN_0;            ///< kiln_bench_function: capture it (kiln_jit), and time that
    bool no_ceilings KILN_0;    ///< do not measure them
    kiln_device *device KILN_0; ///< that works; NULL: that of the inputs, else this thread's default
} kiln_bench_opts;
#define KILN_BENCH(...) KILN_OPTS_(kiln_bench_opts, __VA_ARGS__)

/// What a call takes and does. NaN is what is not known.
typedef struct kiln_bench_result {
    size_t size KILN_0;      ///< set to sizeof(kiln_bench_result) by the caller
    double median_ns KILN_0; ///< of the timed calls
    double min_ns KILN_0;
    double p90_ns KILN_0;   ///< nine of ten took no longer
    double iqr_ns KILN_0;   ///< from the first quartile to the third
    double cpu_ns KILN_0;   ///< of the calling thread, median, before it waits
    double first_ns KILN_0; ///< the first call, always by the host's clock
    double compile_ns
        KILN_0;           ///< of it, what goes beyond the median: capture and compilation; 0 where it was no capture
    uint64_t runs KILN_0; ///< timed calls
    bool device_clock KILN_0;   ///< times are the device's own
    double launches KILN_0;     ///< of a call, mean
    double submits KILN_0;      ///< the same: batches handed to the device
    double waits KILN_0;        ///< the same: times that the calling thread waited, the wait for the result among them
    double flops KILN_0;        ///< of a captured function: as kiln_function_cost tells
    double moved_B KILN_0;      ///< the same
    double copy_B_s KILN_0;     ///< bytes a second of a copy of moved_B
    double fma_flops KILN_0;    ///< operations a second, KILN_CEILING_FMA
    double memory_share KILN_0; ///< what the copy would take, over the median; over 1 where caches help
    double flops_share KILN_0;  ///< the same of the operations
} kiln_bench_result;

/// Times calls of fn, and fills *out (out->size must be set): a first call; calls to warm up; as many as fit the
/// budget, by what one takes. The results of a call are freed within its time. On a GPU the time is the device's own
/// between two marks, elsewhere the host's until the device has nothing left to do. Errors: those of fn,
/// KILN_E_ARGUMENT for options that are out of range, KILN_E_STATE inside of a capture.
KILN_API kiln_status kiln_bench_function(kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in, size_t n_out,
                                         const kiln_bench_opts *opts, kiln_bench_result *out);
/// Times calls of a captured function, kiln_call(f, ...), in the same way.
KILN_API kiln_status kiln_bench_captured(kiln_function *f, kiln_tensor *const *in, size_t n_in, size_t n_out,
                                         const kiln_bench_opts *opts, kiln_bench_result *out);
/// Writes a result in lines, what is not known left out.
KILN_API kiln_status kiln_bench_print(const kiln_bench_result *r, FILE *f);

#ifdef __cplusplus
}
#endif
#endif
