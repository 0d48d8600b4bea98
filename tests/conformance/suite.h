// One device under test, and the record of what a test found. A test collects its mistakes and fails once, so that one
// report shows the first few of them with inputs and values.
#pragma once
#include "conformance/host.h"

struct suite {
    kiln_device *dev;
    const char *device; // "cpu", "vulkan", "null"
    bool is_null;       // computes nothing: only shapes, dtypes and errors are compared
    bool verbose;
    bool jit;      // each op is captured as a function of its own; needs KILN_DEBUG=fuse-all to test compiled kernels
    bool compiles; // tests capture functions of their own
    bool sparse;   // fewer combinations: each kernel that is made costs milliseconds; nothing is computed on null
    uint64_t total_cases, total_values;
};
extern struct suite suite;

// The record of the running test.
struct record {
    const char *test;
    uint64_t cases, values, mistakes;
    long double worst_ulp[2]; // f32 and narrower, f64
    char text[4096];
};
extern struct record record;

void record_begin(const char *test);
void record_mistake(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Fails the running cmocka test if there were mistakes, or nothing was compared; prints the figures when verbose.
void record_end(void);

// True when no error is pending; else records it with the text and clears it.
bool no_error(const char *what);
// True when `status` is pending and its message names `op`; clears it.
void expect_error(kiln_status status, const char *op, const char *what);
// Whether a tensor has a dtype and a shape.
bool same_type(kiln_tensor *t, int dtype, int rank, const int64_t *dims, const char *what);

// From here on every op of this thread is captured, compiled and called instead of run; jit.c.
void jit_begin(void);
void jit_drop_functions(void); // kernels are kept until then, for the ops that need the same
uint64_t jit_end(void);        // how many ops ran in compiled programs

// Runs all tests for the device of the command line; the exit status of main.
struct CMUnitTest;
int suite_main(int argc, char **argv, const char *group, const struct CMUnitTest *tests, size_t n);
