// Mistakes that people make, and what they are told: a row is a function that makes one, the status that is pending
// then, and all that is said, word by word.
#pragma once
#include <kiln/debug.h>
#include <kiln/kiln.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum says {
    WHAT = 2,       // is wrong, with the values
    WHAT_TO_DO = 3, // beside
};

enum { ON_CPU = 1, ON_VULKAN = 2, ON_NULL = 4, WITH_VALUES = ON_CPU | ON_VULKAN, ON_ALL = 7 };

struct mistake {
    const char *name;
    void (*make)(void);
    kiln_status status; // KILN_OK: the log is told, and that is all
    enum says says;
    // What the error says, then what the log and stderr are told, a line each. {here} is the place that AT marks,
    // "shapes.c:17", {there} that of THERE, {device} the device's name, {folder} a temporary folder.
    const char *message;
    unsigned devices;
    // In a process of its own, with these variables; `message` is then all that it writes, `status` its exit code.
    const char *environment;
};

#define ROW(make, status, says, message)             {#make, make, status, says, message, ON_ALL, NULL},
#define ROW_ON(devices, make, status, says, message) {#make, make, status, says, message, devices, NULL},
#define PROCESS(environment, make, code, says, message) \
    {#make, make, (kiln_status)(code), says, message, WITH_VALUES, environment},
#define PROCESS_ON(devices, environment, make, code, says, message) \
    {#make, make, (kiln_status)(code), says, message, devices, environment},
#define LAST_ROW {NULL, NULL, KILN_OK, WHAT, NULL, 0, NULL},

extern bool not_here; // there is nothing to be wrong with
extern int here_line, there_line;
#define AT(call)    (here_line = __LINE__, (call))
#define THERE(call) (there_line = __LINE__, (call))

extern kiln_device *dev;   // under test
extern kiln_device *other; // a second one
extern char folder[];      // empty, for files

// The path of a file in the folder, until the next call.
const char *file(const char *name);
// Writes one.
const char *file_with(const char *name, const void *bytes, size_t size_B);

#define F32(...)  kiln_ones(dev, KILN_F32, KILN_SHAPE(__VA_ARGS__))
#define I64(...)  kiln_zeros(dev, KILN_I64, KILN_SHAPE(__VA_ARGS__))
#define BOOL(...) kiln_ones(dev, KILN_BOOL, KILN_SHAPE(__VA_ARGS__))

// clang-format off
#define TABLES(DO) \
    DO(shapes) DO(axes) DO(dtypes) DO(lifetime) DO(devices) DO(captures) DO(gradients) DO(training) DO(cells) \
    DO(files) DO(data) DO(environment)
// clang-format on
#define DECLARE(area) extern const struct mistake mistakes_in_##area[];
TABLES(DECLARE)
