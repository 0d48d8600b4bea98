/// @file device.h
/// Devices: opening, the default device, statistics, limits, synchronisation.
///
///     kiln_device *dev = kiln_device_open(NULL);   // $KILN_DEVICE, else a real GPU, else the CPU
///     kiln_device_stats stats = {.size = sizeof stats};
///     kiln_device_get_stats(dev, &stats);
///     kiln_device_close(&dev);
///
/// A device is safe to use from any thread.
#ifndef KILN_DEVICE_H
#define KILN_DEVICE_H

#include <kiln/error.h>
#include <kiln/macros.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Counters and memory figures of one device since it was opened or last reset. Sizes in bytes.
typedef struct kiln_device_stats {
    size_t size KILN_0;               ///< set to sizeof(kiln_device_stats) by the caller
    uint64_t launches KILN_0;         ///< kernels started
    uint64_t submits KILN_0;          ///< batches handed to the queue (0 on the CPU)
    uint64_t waits KILN_0;            ///< times the calling thread waited for the device
    uint64_t barriers KILN_0;         ///< memory barriers recorded
    uint64_t fallbacks KILN_0;        ///< ops that ran on the CPU because the device lacks them
    uint64_t copies_B KILN_0;         ///< bytes moved between host and device
    uint64_t kernels_compiled KILN_0; ///< kernels compiled from source at run time
    uint64_t user_compiles KILN_0;    ///< of these, ops registered by the user
    uint64_t pipelines KILN_0;        ///< driver pipelines created
    uint64_t heap_used_B KILN_0;      ///< bytes in live tensors
    uint64_t heap_peak_B KILN_0;      ///< largest heap_used_B
    uint64_t heap_reserved_B KILN_0;  ///< bytes taken from the system
    uint64_t heap_allocs KILN_0;      ///< allocations from the system since the device was opened
    uint64_t tensors KILN_0;          ///< storages alive
    uint64_t pipeline_ns KILN_0;      ///< time that the driver took to create its pipelines
    uint64_t idle_waits KILN_0;       ///< of the waits, those for all that the device had been given: it was idle then
    uint64_t wasted_launches KILN_0;  ///< of the launches, those that the device left out; known once it was waited for
    uint64_t recorded_launches KILN_0; ///< of the launches, those that came from command buffers recorded before
} kiln_device_stats;

/// What a device is. Strings live as long as the device.
typedef struct kiln_device_info {
    size_t size KILN_0;            ///< set to sizeof(kiln_device_info) by the caller
    const char *kind KILN_0;       ///< "cpu", "vulkan" or "null"
    const char *name KILN_0;       ///< as the driver reports it
    const char *driver KILN_0;     ///< driver, or the BLAS in use, with version
    bool software KILN_0;          ///< a Vulkan driver that runs on the CPU
    uint64_t memory_B KILN_0;      ///< size of the device's memory
    uint32_t subgroup_size KILN_0; ///< 1 on the CPU
    uint32_t threads KILN_0;       ///< CPU threads used
} kiln_device_info;

/// Opens a device. `name`: NULL ($KILN_DEVICE, else the first real GPU, else the CPU), "cpu", "gpu" (the first real
/// one), "vulkan" (the same, else the first software driver), "vulkan:N" (in the loader's order), "null" (computes
/// nothing). The first device a process opens is the default of every thread that has not called kiln_set_device, until
/// kiln_set_default_device names another. Close it with kiln_device_close. Errors: KILN_E_ARGUMENT for a name that is
/// not built in (the text lists those that are), KILN_E_MISSING when there is no such device.
///
/// The first CPU device of a process opens OpenBLAS. Where OpenBLAS would take the processor for a smaller one, the
/// environment variable OPENBLAS_CORETYPE is set meanwhile, unless the program has set it, so that no other thread may
/// call getenv then.
///
/// A device belongs to its process. In a child of fork, a CPU device goes on, on one thread where the parent's worked
/// on several; a Vulkan device is KILN_E_STATE there, and so is opening one where the parent had. Such a child leaves
/// by _exit, for drivers may wait at exit for threads that are the parent's.
KILN_API kiln_device *kiln_device_open(const char *name);

/// Closes the handle and nulls it; NULL is fine. The device lives on inside until its last tensor goes. Threads whose
/// default it is have none until they set another. A handle that was closed already is KILN_E_HANDLE.
KILN_API void kiln_device_close(kiln_device **dev);

/// Sets this thread's default device: taken where a creation function gets NULL.
KILN_API kiln_status kiln_set_device(kiln_device *dev);

/// Sets the default device of all threads that have not called kiln_set_device, those to come among them. It is not
/// held: when it is closed, and with NULL, the default is again the first of the open devices. Errors: KILN_E_HANDLE
/// for a device that was closed.
KILN_API kiln_status kiln_set_default_device(kiln_device *dev);

/// This thread's default device (borrowed), or NULL with an error naming kiln_device_open.
KILN_API kiln_device *kiln_get_device(void);

/// Fills *out (out->size must be set) with what the device is.
KILN_API kiln_status kiln_device_get_info(kiln_device *dev, kiln_device_info *out);

/// Fills *out (out->size must be set) with counters and memory figures.
KILN_API void kiln_device_get_stats(kiln_device *dev, kiln_device_stats *out);

/// Sets the counters (not the memory figures) to zero, and heap_peak_B to heap_used_B.
KILN_API void kiln_device_reset_stats(kiln_device *dev);

/// Bounds the bytes of live and cached memory; 0 means no bound. An allocation beyond it fails with
/// KILN_E_DEVICE_MEMORY after the cache was emptied; nothing is lost.
KILN_API kiln_status kiln_device_set_memory_limit(kiln_device *dev, uint64_t limit_B);

/// Gives cached, unused memory back to the system. Unasked, about as much stays cached as was lately in use at a time.
KILN_API kiln_status kiln_device_trim(kiln_device *dev);

/// Measures which tiles suit products, rows and points of usual sizes on a Vulkan device, and keeps what it found for
/// this device and driver in the cache folder: later processes read it when they open the device. Takes seconds, and
/// some 100 MB of the device's memory; results do not change but in rounding. What other threads launch meanwhile is
/// right, but disturbs the times. Errors: KILN_E_UNSUPPORTED for other devices.
KILN_API kiln_status kiln_device_tune(kiln_device *dev);

/// In strict-device mode an op that the device lacks is an error instead of running on the CPU.
KILN_API kiln_status kiln_device_set_strict(kiln_device *dev, bool strict);

/// Waits until everything handed to the device so far is done; reports an error of the device that arose meanwhile.
KILN_API kiln_status kiln_device_synchronize(kiln_device *dev);

/// How many marks a device keeps.
#define KILN_MARKS 32

/// Notes the device's time in mark `mark` (below KILN_MARKS) when everything handed over before is done. What is
/// waiting to be submitted is submitted, so that the time goes on from here as it would for a user who waits.
/// Errors: KILN_E_ARGUMENT for a mark out of range, KILN_E_UNSUPPORTED for a device without a clock.
KILN_API kiln_status kiln_device_mark(kiln_device *dev, unsigned mark);

/// The device's time from one mark to another in nanoseconds; waits for both. NaN and an error (as above, or
/// KILN_E_STATE for a mark that was never set) when there is none.
KILN_API double kiln_device_elapsed(kiln_device *dev, unsigned from, unsigned to);

/// The number of Vulkan devices the loader lists (0 when there is no loader or driver); fills up to `max` infos, whose
/// strings are valid until the next call on this thread.
KILN_API size_t kiln_device_list(kiln_device_info *out, size_t max);

#ifdef __cplusplus
}
#endif
#endif
