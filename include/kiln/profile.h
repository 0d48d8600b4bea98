/// @file profile.h
/// Profiles: where the time of a program goes, launch by launch.
#ifndef KILN_PROFILE_H
#define KILN_PROFILE_H

#include <kiln/device.h>

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

#ifdef __cplusplus
}
#endif
#endif
