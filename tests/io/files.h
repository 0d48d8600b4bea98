// What the tests of files share: a folder of their own, files in it, samples of all dtypes.
#pragma once
#include <kiln/grad.h>
#include <kiln/io.h>
#include <kiln/ops.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

enum { SAMPLES = 10 };
struct sample {
    kiln_dtype dtype;
    const char *name;
    unsigned char bytes[48];
};

extern kiln_device *dev;
extern char folder[];
extern const struct sample samples[SAMPLES];
extern const int64_t sample_dims[2];

int open_all(void **state);
int close_all(void **state);
int clear_error(void **state);

// A path in the temporary folder; four may be in use at a time.
const char *temp(const char *name);
// A path in golden/io; the next call overwrites it.
const char *golden(const char *name);
// A file's first MiB; the caller frees it.
unsigned char *load_bytes(const char *path, size_t *size_B);
void store_bytes(const char *path, const void *bytes, size_t size_B);

void assert_error(kiln_status code, const char *text); // clears it
void assert_no_error(void);
void assert_shape(const kiln_tensor *t, kiln_dtype dtype, size_t rank, const int64_t *dims);
// Bytes, so that NaN and the sign of zero count.
void assert_tensor(const kiln_tensor *t, kiln_dtype dtype, size_t rank, const int64_t *dims, const void *data);

kiln_tensor *sample_tensor(const struct sample *s);
void assert_sample(const kiln_tensor *t, const struct sample *s);
// All samples as tensors, with their names; how many.
size_t make_all(bool with_bf16, const char **names, kiln_tensor **tensors);
void free_all(kiln_tensor **tensors, size_t n);
void assert_all(kiln_archive *a, size_t n);
// The path of a checkpoint with all samples in it.
const char *make_checkpoint(void);
// The path of a small GGUF file.
const char *make_gguf(void);
// The same of PyTorch.
const char *make_torch(void);

#define CASE(test) void test(void **state);
#include "cases.def"
#undef CASE
