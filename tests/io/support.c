// What the tests of files share: a folder, files in it, samples of all dtypes.
#include "files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

kiln_device *dev;
char folder[] = "/tmp/kiln-io-XXXXXX";

int open_all(void **state)
{
    dev = kiln_device_open("cpu");
    return dev && mkdtemp(folder) ? 0 : -1;
}

int close_all(void **state)
{
    kiln_device_close(&dev);
    DIR *d = opendir(folder);
    char path[512];
    int left = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%.200s", folder, e->d_name);
        if (e->d_name[0] != '.') left |= unlink(path);
    }
    if (d) closedir(d);
    return rmdir(folder) || left;
}

int clear_error(void **state)
{
    kiln_error_clear();
    return 0;
}

// A path in the temporary folder; four may be in use at a time.
const char *temp(const char *name)
{
    static char paths[4][300];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%.200s", folder, name);
    return path;
}

const char *golden(const char *name)
{
    static char path[4096];
    const char *root = getenv("KILN_TEST_SOURCE_DIR");
    snprintf(path, sizeof path, "%s/golden/io/%s", root ? root : "tests", name);
    return path;
}

unsigned char *load_bytes(const char *path, size_t *size_B)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s could not be opened", path);
    unsigned char *bytes = malloc(1 << 20);
    assert_non_null(bytes);
    *size_B = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    return bytes;
}

void store_bytes(const char *path, const void *bytes, size_t size_B)
{
    // A new file: some file systems flush one that is cut and written anew, which takes long.
    unlink(path);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size_B, f), size_B);
    assert_int_equal(fclose(f), 0);
}

void assert_error(kiln_status code, const char *text)
{
    if (kiln_error() != code || !strstr(kiln_error_message(), text)) {
        fail_msg("expected %s with \"%s\", got %s: %s", kiln_status_name(code), text, kiln_status_name(kiln_error()),
                 kiln_error_message());
    }
    kiln_error_clear();
}

void assert_no_error(void)
{
    if (kiln_error()) fail_msg("%s: %s", kiln_status_name(kiln_error()), kiln_error_message());
}

void assert_shape(const kiln_tensor *t, kiln_dtype dtype, size_t rank, const int64_t *dims)
{
    assert_no_error();
    assert_non_null(t);
    assert_int_equal(kiln_tensor_dtype(t), dtype);
    assert_int_equal(kiln_rank(t), rank);
    for (size_t i = 0; i < rank; i++) assert_int_equal(kiln_dims(t)[i], dims[i]);
}

// Bytes, so that NaN and the sign of zero count.
void assert_tensor(const kiln_tensor *t, kiln_dtype dtype, size_t rank, const int64_t *dims, const void *data)
{
    assert_shape(t, dtype, rank, dims);
    size_t size_B = (size_t)kiln_numel(t) * kiln_dtype_size(dtype);
    void *got = malloc(size_B + 1);
    assert_non_null(got);
    assert_int_equal(kiln_read(t, got, size_B), KILN_OK);
    assert_memory_equal(got, data, size_B);
    free(got);
}

// --- samples of all dtypes

const int64_t sample_dims[2] = {2, 3};
const struct sample samples[SAMPLES] = {
    {KILN_BOOL, "bool", {1, 0, 1, 1, 0, 0}},
    {KILN_U8, "u8", {0, 1, 127, 128, 254, 255}},
    {KILN_I8, "i8", {0, 1, 127, 128, 254, 255}},
    {KILN_I16, "i16", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
    {KILN_I32, "i32", {1, 2, 3, 4, 255, 255, 255, 255, 0, 0, 0, 128}},
    {KILN_I64, "i64", {1, 2, 3, 4, 5, 6, 7, 8, 255, 255, 255, 255, 255, 255, 255, 255}},
    {KILN_F16, "f16", {0, 0x3c, 0, 0xbc, 0, 0x7c, 1, 0x7e, 0, 0x80, 1, 0}},
    {KILN_BF16, "bf16", {0x80, 0x3f, 0x80, 0xbf, 0x80, 0x7f, 0xc1, 0x7f, 0, 0x80, 1, 0}},
    {KILN_F32, "f32", {0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x7f, 1, 0, 0xc0, 0x7f, 0, 0, 0, 0x80}},
    {KILN_F64, "f64", {0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f}},
};

kiln_tensor *sample_tensor(const struct sample *s)
{
    kiln_tensor *t = kiln_from_data(dev, s->dtype, 2, sample_dims, s->bytes);
    assert_non_null(t);
    return t;
}

void assert_sample(const kiln_tensor *t, const struct sample *s)
{
    assert_tensor(t, s->dtype, 2, sample_dims, s->bytes);
}

size_t make_all(bool with_bf16, const char **names, kiln_tensor **tensors)
{
    size_t n = 0;
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        if (!with_bf16 && samples[i].dtype == KILN_BF16) continue;
        names[n] = samples[i].name;
        tensors[n++] = sample_tensor(&samples[i]);
    }
    return n;
}

void free_all(kiln_tensor **tensors, size_t n)
{
    for (size_t i = 0; i < n; i++) kiln_free(&tensors[i]);
}

void assert_all(kiln_archive *a, size_t n)
{
    assert_no_error();
    assert_int_equal(kiln_archive_count(a), n);
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        if (!kiln_archive_has(a, samples[i].name)) continue;
        kiln_tensor *t = kiln_archive_get(a, dev, samples[i].name);
        assert_sample(t, &samples[i]);
        kiln_free(&t);
    }
}
