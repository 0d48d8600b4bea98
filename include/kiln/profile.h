/// @file profile.h
/// Profiles: where the time of a program goes, launch by launch.
#ifndef KILN_PROFILE_H
#define KILN_PROFILE_H

#include <kiln/device.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Notes from now on what the process does, for a file in the format of Chrome's trace viewer (chrome://tracing,
/// Perfetto): captures and breaks, compilation, calls of captured functions, copies, launches, and the memory in use.
/// A launch has the device's own time where the device has a clock, on the CPU the host's; with it stand its op, the
/// shapes and dtypes of inputs and outputs, bytes, operations, the line of the program and the cell. In a whole run
/// KILN_PROFILE=FILE in the environment does the same, and then nothing else can begin a profile. Errors:
/// KILN_E_ARGUMENT for NULL, KILN_E_STATE while a profile is being taken (KILN_PROFILE's counts), KILN_E_IO for a file
/// that cannot be written.
KILN_API kiln_status kiln_profile_begin(const char *path);

/// Waits for the devices, writes the file and stops noting. Errors: KILN_E_STATE when no profile is being taken,
/// KILN_E_IO when the file cannot be written.
KILN_API kiln_status kiln_profile_end(void);

/// What a row of a table is for.
typedef enum kiln_profile_by {
    KILN_PROFILE_BY_KERNEL = 0, ///< the code that ran
    KILN_PROFILE_BY_OP = 1,     ///< the op, or the ops of a fused kernel
    KILN_PROFILE_BY_LINE = 2,   ///< the line of the program, or the lines of a fused kernel
    KILN_PROFILE_BY_CELL = 3,   ///< the cell by its path
} kiln_profile_by;

/// Options of tables.
typedef struct kiln_profile_print_opts {
    size_t size KILN_0;
    kiln_profile_by by KILN_0;
    size_t top KILN_0;       ///< so many rows, the others as one; 0: all rows
    bool csv KILN_0;         ///< as comma-separated values with a head, and nothing else
    bool no_ceilings KILN_0; ///< the column of them stays empty, and nothing is measured
} kiln_profile_print_opts;
#define KILN_PROFILE_PRINT(...) KILN_OPTS_(kiln_profile_print_opts, __VA_ARGS__)

/// Writes the launches and copies of the profile that is being taken, until now, or of the last one, as a table: calls,
/// total time (ms), its share (%), mean time (us), bytes a second (GB/s, of what was read and written, 1 GB is 10^9
/// bytes), operations a second (GFLOP/s), and the share (%) of what the device can do at best: of the time that its
/// memory needs for the bytes, or its arithmetic for the operations, whichever is longer, by the time that was taken.
/// The longest comes first. Behind the table stand the most memory in use, and the time of what the host did.
///
/// Waits for the devices. What a device can do is measured at the first table, once while it is open: a copy of 64 MiB
/// and the FMA peak of f32, as kiln_device_ceiling (kiln/timing.h) has them; inside of a capture it is not. `opts` may
/// be NULL. Errors: KILN_E_ARGUMENT for NULL or an option that there is not, KILN_E_STATE when no profile has been
/// taken, KILN_E_IO when the file cannot be written; those of the devices.
KILN_API kiln_status kiln_profile_print(FILE *file, const kiln_profile_print_opts *opts);

/// The same of a profile that lies in a file, of this process or another. What a device can do at best is known where
/// this machine has it. Errors also: KILN_E_IO when the file cannot be read, KILN_E_FORMAT, with the line, when it is
/// no profile.
KILN_API kiln_status kiln_profile_print_file(const char *path, FILE *file, const kiln_profile_print_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
