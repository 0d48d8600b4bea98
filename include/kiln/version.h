/// @file version.h
/// The version: of these headers as macros, of the library that runs as functions. They differ where a program was
/// compiled with the headers of one version and runs with the library of another.
///
///     if (kiln_version() < KILN_VERSION_NUMBER(0, 2, 0)) printf("this needs 0.2, not %s\n", kiln_version_string());
///
/// Versions are major.minor.patch. While major is 0, programs are compiled anew for each minor version.
#ifndef KILN_VERSION_H
#define KILN_VERSION_H

#include <kiln/error.h>
#include <kiln/macros.h>
#include <kiln/version_numbers.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A version as one number: 0.2.1 is 2001. For the preprocessor too. Minor and patch are below 1000.
#define KILN_VERSION_NUMBER(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
/// That of these headers; KILN_VERSION_MAJOR, KILN_VERSION_MINOR, KILN_VERSION_PATCH and KILN_VERSION_STRING ("0.2.1")
/// are its parts.
#define KILN_VERSION KILN_VERSION_NUMBER(KILN_VERSION_MAJOR, KILN_VERSION_MINOR, KILN_VERSION_PATCH)

/// The version of the library that runs, as KILN_VERSION_NUMBER has it. Needs no device, and works while an error is
/// pending.
KILN_API uint32_t kiln_version(void);
/// The same as text, "0.2.1"; static.
KILN_API const char *kiln_version_string(void);

#ifdef __cplusplus
}
#endif
#endif
