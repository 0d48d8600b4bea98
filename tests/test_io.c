// Files: what others wrote (golden/io), round trips, broken files of every kind, and writing that fails.
#include <kiln/grad.h>
#include <kiln/io.h>
#include <kiln/ops.h>

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

static kiln_device *dev;
static char folder[] = "/tmp/kiln-io-XXXXXX";

static int open_all(void **state)
{
    dev = kiln_device_open("cpu");
    return dev && mkdtemp(folder) ? 0 : -1;
}

static int close_all(void **state)
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

static int clear_error(void **state)
{
    kiln_error_clear();
    return 0;
}

// A path in the temporary folder; four may be in use at a time.
static const char *temp(const char *name)
{
    static char paths[4][300];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%.200s", folder, name);
    return path;
}

static const char *golden(const char *name)
{
    static char path[4096];
    const char *root = getenv("KILN_TEST_SOURCE_DIR");
    snprintf(path, sizeof path, "%s/golden/io/%s", root ? root : "tests", name);
    return path;
}

static unsigned char *load_bytes(const char *path, size_t *size_B)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s could not be opened", path);
    unsigned char *bytes = malloc(1 << 20);
    assert_non_null(bytes);
    *size_B = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    return bytes;
}

static void store_bytes(const char *path, const void *bytes, size_t size_B)
{
    // A new file: some file systems flush one that is cut and written anew, which takes long.
    unlink(path);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size_B, f), size_B);
    assert_int_equal(fclose(f), 0);
}

static void assert_error(kiln_status code, const char *text)
{
    if (kiln_error() != code || !strstr(kiln_error_message(), text)) {
        fail_msg("expected %s with \"%s\", got %s: %s", kiln_status_name(code), text, kiln_status_name(kiln_error()),
                 kiln_error_message());
    }
    kiln_error_clear();
}

static void assert_no_error(void)
{
    if (kiln_error()) fail_msg("%s: %s", kiln_status_name(kiln_error()), kiln_error_message());
}

static void assert_shape(const kiln_tensor *t, kiln_dtype dtype, size_t rank, const int64_t *dims)
{
    assert_no_error();
    assert_non_null(t);
    assert_int_equal(kiln_tensor_dtype(t), dtype);
    assert_int_equal(kiln_rank(t), rank);
    for (size_t i = 0; i < rank; i++) assert_int_equal(kiln_dims(t)[i], dims[i]);
}

// Bytes, so that NaN and the sign of zero count.
static void assert_tensor(const kiln_tensor *t, kiln_dtype dtype, size_t rank, const int64_t *dims, const void *data)
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

static const int64_t sample_dims[] = {2, 3};
static const struct sample {
    kiln_dtype dtype;
    const char *name;
    unsigned char bytes[48];
} samples[] = {
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

static kiln_tensor *sample_tensor(const struct sample *s)
{
    kiln_tensor *t = kiln_from_data(dev, s->dtype, 2, sample_dims, s->bytes);
    assert_non_null(t);
    return t;
}

static void assert_sample(const kiln_tensor *t, const struct sample *s)
{
    assert_tensor(t, s->dtype, 2, sample_dims, s->bytes);
}

// --- npy

static void npy_of_numpy(void **state)
{
    static const struct {
        const char *file;
        kiln_dtype dtype;
    } cases[] = {
        {"byte_b1.npy", KILN_BOOL},  {"byte_u1.npy", KILN_U8},    {"byte_i1.npy", KILN_I8},
        {"little_i2.npy", KILN_I16}, {"little_i4.npy", KILN_I32}, {"little_i8.npy", KILN_I64},
        {"little_f2.npy", KILN_F16}, {"little_f4.npy", KILN_F32}, {"little_f8.npy", KILN_F64},
        {"big_i2.npy", KILN_I16},    {"big_i4.npy", KILN_I32},    {"big_i8.npy", KILN_I64},
        {"big_f2.npy", KILN_F16},    {"big_f4.npy", KILN_F32},    {"big_f8.npy", KILN_F64},
        {"version2.npy", KILN_F32},  {"version3.npy", KILN_F32},
    };
    const unsigned char bools[] = {1, 1, 1, 1, 1, 1}, bytes[] = {1, 2, 3, 4, 5, 6};
    const int16_t i2[] = {1, 2, 3, 4, 5, 6};
    const uint16_t f2[] = {0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600};
    const int32_t i4[] = {1, 2, 3, 4, 5, 6};
    const int64_t i8[] = {1, 2, 3, 4, 5, 6};
    const float f4[] = {1, 2, 3, 4, 5, 6};
    const double f8[] = {1, 2, 3, 4, 5, 6};
    const void *values[] = {bools, bytes, bytes, i2, i4, i8, f2, NULL, f4, f8};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        kiln_tensor *t = kiln_npy_load(dev, golden(cases[i].file));
        assert_tensor(t, cases[i].dtype, 2, sample_dims, values[cases[i].dtype]);
        kiln_free(&t);
    }
}

static void npy_shapes_of_numpy(void **state)
{
    int16_t counted[24];
    for (int16_t i = 0; i < 24; i++) counted[i] = i;
    kiln_tensor *t = kiln_npy_load(dev, golden("fortran.npy"));
    assert_tensor(t, KILN_I16, KILN_SHAPE(2, 3, 4), counted);
    kiln_free(&t);
    int16_t many[256];
    for (int16_t i = 0; i < 256; i++) many[i] = i;
    t = kiln_npy_load(dev, golden("fortran_deep.npy"));
    assert_tensor(t, KILN_I16, KILN_SHAPE(2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1), many);
    kiln_free(&t);
    t = kiln_npy_load(dev, golden("scalar.npy"));
    const double value = 2.5;
    assert_tensor(t, KILN_F64, KILN_SHAPE0, &value);
    kiln_free(&t);
    t = kiln_npy_load(dev, golden("empty.npy"));
    assert_tensor(t, KILN_F32, KILN_SHAPE(0, 3), "");
    kiln_free(&t);
}

static void npy_refuses_what_kiln_lacks(void **state)
{
    static const char *const cases[][2] = {
        {"refused_u2.npy", "\"<u2\""},        {"refused_c8.npy", "\"<c8\""},  {"refused_text.npy", "\"<U2\""},
        {"refused_struct.npy", "structured"}, {"refused_rank.npy", "16 dim"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_null(kiln_npy_load(dev, golden(cases[i][0])));
        assert_error(KILN_E_UNSUPPORTED, cases[i][1]);
    }
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        kiln_tensor *t = sample_tensor(&samples[i]);
        if (samples[i].dtype == KILN_BF16) {
            assert_int_equal(kiln_npy_save(temp("bf16.npy"), t), KILN_E_UNSUPPORTED);
            assert_error(KILN_E_UNSUPPORTED, "npy has no bf16");
            assert_int_equal(access(temp("bf16.npy"), F_OK), -1);
        }
        kiln_free(&t);
    }
}

static void npy_round_trips(void **state)
{
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        if (samples[i].dtype == KILN_BF16) continue;
        kiln_tensor *t = sample_tensor(&samples[i]);
        assert_int_equal(kiln_npy_save(temp("t.npy"), t), KILN_OK);
        kiln_tensor *back = kiln_npy_load(dev, temp("t.npy"));
        assert_sample(back, &samples[i]);
        kiln_free(&t);
        kiln_free(&back);
    }
}

static const int64_t deep_dims[] = {2, 1, 1, 3, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 2, 5};

static void assert_deep(kiln_tensor *t)
{
    double v[120];
    for (int i = 0; i < 120; i++) v[i] = i % 5 * 24 + i / 5 % 2 * 12 + i / 10 % 2 * 6 + i / 20 % 3 * 2 + i / 60;
    assert_tensor(t, KILN_F64, KILN_MAX_RANK, deep_dims, v);
    kiln_free(&t);
}

// Of a view in which no two dimensions are one; by each kind of file.
static void many_dimensions_round_trip(void **state)
{
    const char *name = "deep", *path = temp("deep");
    double v[120];
    int64_t dims[KILN_MAX_RANK];
    for (int i = 0; i < 120; i++) v[i] = i;
    for (int d = 0; d < KILN_MAX_RANK; d++) dims[d] = deep_dims[KILN_MAX_RANK - 1 - d];
    kiln_tensor *whole = kiln_from_data(dev, KILN_F64, KILN_MAX_RANK, dims, v), *t = kiln_permute(whole, 0, NULL);
    assert_int_equal(kiln_npy_save(path, t), KILN_OK);
    assert_deep(kiln_npy_load(dev, path));
    assert_int_equal(kiln_safetensors_save(path, &name, &t, 1), KILN_OK);
    kiln_archive *a = kiln_safetensors_load(path);
    assert_deep(kiln_archive_get(a, dev, name));
    kiln_archive_free(&a);
    assert_int_equal(kiln_npz_save(path, &name, &t, 1, NULL), KILN_OK);
    a = kiln_npz_load(path);
    assert_deep(kiln_archive_get(a, dev, name));
    kiln_archive_free(&a);
    kiln_checkpoint *c = kiln_checkpoint_create();
    assert_int_equal(kiln_checkpoint_put(c, &name, &t, 1), KILN_OK);
    assert_int_equal(kiln_checkpoint_save(c, path), KILN_OK);
    kiln_checkpoint_free(&c);
    c = kiln_checkpoint_load(path);
    assert_deep(kiln_checkpoint_get(c, dev, name));
    kiln_checkpoint_free(&c);
    kiln_free(&t);
    kiln_free(&whole);
}

// Writes an npy of version 1 with this header.
static const char *npy_with(const char *header, size_t data_B)
{
    unsigned char bytes[600] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    size_t n = strlen(header);
    bytes[8] = (unsigned char)n;
    bytes[9] = (unsigned char)(n >> 8);
    memcpy(bytes + 10, header, n);
    const char *path = temp("lie.npy");
    store_bytes(path, bytes, 10 + n + data_B);
    return path;
}

#define LARGEST      "9223372036854775807, "
#define FOUR_LARGEST LARGEST LARGEST LARGEST LARGEST

static void npy_header_lies(void **state)
{
    static const struct {
        const char *header, *message;
        kiln_status code;
        size_t data_B;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "", KILN_OK, 8},
        {"{\"shape\":(2,),\"descr\":\"<f4\",\"fortran_order\":True}  \n", "", KILN_OK, 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }", "", KILN_OK, 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "f32[3] has 12 bytes, the file holds 8",
         KILN_E_FORMAT, 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "the file holds 9", KILN_E_FORMAT, 9},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "too large", KILN_E_FORMAT, 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999), }", "overflows", KILN_E_FORMAT,
         8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999, 0), }", "overflows", KILN_E_FORMAT,
         8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (" FOUR_LARGEST FOUR_LARGEST FOUR_LARGEST FOUR_LARGEST ")}",
         "9223372036854775807] overflows", KILN_E_FORMAT, 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000,), }", "has 16000000000", KILN_E_FORMAT, 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "a dimension", KILN_E_FORMAT, 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2), }", "a tuple", KILN_E_FORMAT, 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 2, }", "a tuple", KILN_E_FORMAT, 8},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", "True or False", KILN_E_FORMAT, 8},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "twice", KILN_E_FORMAT, 8},
        {"{'descr': '<f4', 'fortran_order': False, }", "missing", KILN_E_FORMAT, 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", "unknown key", KILN_E_FORMAT, 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", "nothing more", KILN_E_FORMAT, 8},
        {"{'descr': '<f4", "does not end", KILN_E_FORMAT, 0},
        {"", "a brace", KILN_E_FORMAT, 0},
        {"{'descr': 'f4', 'fortran_order': False, 'shape': (2,), }", "\"f4\"", KILN_E_UNSUPPORTED, 8},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        kiln_tensor *t = kiln_npy_load(dev, npy_with(cases[i].header, cases[i].data_B));
        if (cases[i].code == KILN_OK)
            assert_shape(t, KILN_F32, KILN_SHAPE(2));
        else
            assert_error(cases[i].code, cases[i].message);
        kiln_free(&t);
    }
}

// --- npz

static void npz_of_numpy(void **state)
{
    const float a[] = {1, 2, 3, 4, 5, 6};
    const int64_t b[] = {0, 1, 2, 3, 4};
    const double eye[] = {1, 0, 0, 1};
    kiln_archive *z = kiln_npz_load(golden("stored.npz"));
    assert_no_error();
    assert_int_equal(kiln_archive_count(z), 3);
    assert_string_equal(kiln_archive_name(z, 0), "a");
    assert_string_equal(kiln_archive_name(z, 2), "layer.0/w");
    assert_true(kiln_archive_has(z, "b"));
    assert_false(kiln_archive_has(z, "c"));
    kiln_tensor *t = kiln_archive_tensor(z, dev, 0);
    assert_tensor(t, KILN_F32, KILN_SHAPE(2, 3), a);
    kiln_free(&t);
    t = kiln_archive_get(z, dev, "b");
    assert_tensor(t, KILN_I64, KILN_SHAPE(5), b);
    kiln_free(&t);
    t = kiln_archive_get(z, dev, "layer.0/w");
    assert_tensor(t, KILN_F64, KILN_SHAPE(2, 2), eye);
    kiln_free(&t);
    assert_null(kiln_archive_get(z, dev, "c"));
    assert_error(KILN_E_ARGUMENT, "no array \"c\"");
    assert_null(kiln_archive_tensor(z, dev, 3));
    assert_error(KILN_E_ARGUMENT, "array 3 of 3");
    kiln_archive_free(&z);
    assert_null(z);
    kiln_archive_free(&z);
    kiln_archive_free(NULL);

    z = kiln_npz_load(golden("deflated.npz"));
    t = kiln_archive_get(z, dev, "a");
    assert_shape(t, KILN_F32, KILN_SHAPE(1000));
    kiln_free(&t);
    t = kiln_archive_get(z, dev, "b");
    assert_tensor(t, KILN_I64, KILN_SHAPE(5), b);
    kiln_free(&t);
    kiln_archive_free(&z);

    z = kiln_npz_load(golden("zip64.npz"));
    t = kiln_archive_get(z, dev, "a");
    assert_tensor(t, KILN_F32, KILN_SHAPE(2, 3), a);
    kiln_free(&t);
    kiln_archive_free(&z);
}

// All samples that the format takes, into `names` and `tensors`.
static size_t make_all(bool with_bf16, const char **names, kiln_tensor **tensors)
{
    size_t n = 0;
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        if (!with_bf16 && samples[i].dtype == KILN_BF16) continue;
        names[n] = samples[i].name;
        tensors[n++] = sample_tensor(&samples[i]);
    }
    return n;
}

static void free_all(kiln_tensor **tensors, size_t n)
{
    for (size_t i = 0; i < n; i++) kiln_free(&tensors[i]);
}

static void assert_all(kiln_archive *a, size_t n)
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

static void npz_round_trips(void **state)
{
    const char *names[COUNT_OF(samples)];
    kiln_tensor *tensors[COUNT_OF(samples)];
    size_t n = make_all(false, names, tensors);
    for (int compress = 0; compress < 2; compress++) {
        assert_int_equal(kiln_npz_save(temp("all.npz"), names, tensors, n, KILN_NPZ(.compress = compress)), KILN_OK);
        kiln_archive *z = kiln_npz_load(temp("all.npz"));
        assert_all(z, n);
        kiln_archive_free(&z);
    }
    // Zeros shrink.
    struct stat st;
    kiln_free(&tensors[0]);
    static const float zeros[10000];
    tensors[0] = kiln_from_data(dev, KILN_F32, KILN_SHAPE(10000), zeros);
    assert_int_equal(kiln_npz_save(temp("all.npz"), names, tensors, 1, KILN_NPZ(.compress = true)), KILN_OK);
    assert_int_equal(stat(temp("all.npz"), &st), 0);
    assert_true(st.st_size < 1000);
    assert_int_equal(kiln_npz_save(temp("all.npz"), NULL, NULL, 0, NULL), KILN_OK);
    kiln_archive *z = kiln_npz_load(temp("all.npz"));
    assert_all(z, 0);
    kiln_archive_free(&z);

    names[1] = names[0];
    assert_int_equal(kiln_npz_save(temp("all.npz"), names, tensors, n, NULL), KILN_E_ARGUMENT);
    assert_error(KILN_E_ARGUMENT, "\"bool\" is given twice");
    names[1] = "";
    kiln_npz_save(temp("all.npz"), names, tensors, n, NULL);
    assert_error(KILN_E_ARGUMENT, "name 1 is empty");
    free_all(tensors, n);
    names[1] = "u8";
    kiln_npz_save(temp("all.npz"), names, tensors, n, NULL);
    assert_error(KILN_E_ARGUMENT, "tensor 0, \"bool\", is NULL");
}

// --- safetensors

static void safetensors_of_others(void **state)
{
    const float w[] = {1, 2, 3, 4, 5, 6};
    const unsigned char flag[] = {1, 0};
    kiln_archive *a = kiln_safetensors_load(golden("numpy.safetensors"));
    assert_no_error();
    assert_int_equal(kiln_archive_count(a), 5);
    kiln_tensor *t = kiln_archive_get(a, dev, "w");
    assert_tensor(t, KILN_F32, KILN_SHAPE(2, 3), w);
    kiln_free(&t);
    t = kiln_archive_get(a, dev, "flag");
    assert_tensor(t, KILN_BOOL, KILN_SHAPE(2), flag);
    kiln_free(&t);
    t = kiln_archive_get(a, dev, "none");
    assert_shape(t, KILN_F32, KILN_SHAPE(0, 2));
    kiln_free(&t);
    t = kiln_archive_get(a, dev, "scalar");
    assert_shape(t, KILN_F16, KILN_SHAPE0);
    kiln_free(&t);
    assert_int_equal(kiln_archive_metadata_count(a), 2);
    int seen = 0;
    for (size_t i = 0; i < 2; i++) {
        const char *key, *value;
        assert_int_equal(kiln_archive_metadata(a, i, &key, &value), KILN_OK);
        seen += strcmp(key, "key") == 0 && strcmp(value, "wert \"\xc3\xa4\"") == 0;
    }
    assert_int_equal(seen, 1);
    assert_int_equal(kiln_archive_metadata(a, 2, NULL, NULL), KILN_E_ARGUMENT);
    kiln_archive_free(&a);
}

static void safetensors_round_trips(void **state)
{
    const char *names[COUNT_OF(samples) + 1];
    kiln_tensor *tensors[COUNT_OF(samples) + 1];
    size_t n = make_all(true, names, tensors);
    names[n] = "quote \" and \\ and \x01 and \xf0\x9f\x94\xa5";
    tensors[n] = kiln_from_data(dev, KILN_F32, KILN_SHAPE(0), NULL);
    assert_int_equal(kiln_safetensors_save(temp("all.st"), names, tensors, n + 1), KILN_OK);
    kiln_archive *a = kiln_safetensors_load(temp("all.st"));
    assert_all(a, n + 1);
    assert_true(kiln_archive_has(a, names[n]));
    kiln_archive_free(&a);
    names[n] = "__metadata__";
    assert_int_equal(kiln_safetensors_save(temp("all.st"), names, tensors, n + 1), KILN_E_ARGUMENT);
    assert_error(KILN_E_ARGUMENT, "__metadata__");
    names[n] = "\xff";
    assert_int_equal(kiln_safetensors_save(temp("all.st"), names, tensors, n + 1), KILN_E_ARGUMENT);
    assert_error(KILN_E_ARGUMENT, "UTF-8");
    free_all(tensors, n + 1);
    assert_int_equal(kiln_safetensors_save(temp("none.st"), NULL, NULL, 0), KILN_OK);
    a = kiln_safetensors_load(temp("none.st"));
    assert_all(a, 0);
    kiln_archive_free(&a);
}

static const char *safetensors_with(const char *header, size_t header_B, size_t data_B)
{
    unsigned char bytes[1000] = {header_B & 255, (unsigned char)(header_B >> 8)};
    memcpy(bytes + 8, header, strlen(header));
    const char *path = temp("lie.st");
    store_bytes(path, bytes, 8 + strlen(header) + data_B);
    return path;
}

#define F32_4 "{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}"

static void safetensors_header_lies(void **state)
{
    static const struct {
        const char *header, *message;
        kiln_status code;
    } cases[] = {
        {"{\"a\":" F32_4 "}", "", KILN_OK},
        {" {\t\"a\" : " F32_4 "\n}   ", "", KILN_OK},
        {"{\"a\":{\"data_offsets\":[0,16],\"shape\":[2,2],\"dtype\":\"F32\"}}", "", KILN_OK},
        {"{\"a\":{\"dtype\":\"U32\",\"shape\":[4],\"data_offsets\":[0,16]}}", "", KILN_OK},
        {"{\"\\u00e4\\ud83d\\udd25\\n\":" F32_4 "}", "", KILN_OK},
        {"{}", "the tensors have 0 bytes, the file holds 16", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,12]}}", "has 16 bytes, its offsets say 12",
         KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", "the file holds 16", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,32]}}", "all data at 16", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}", "the data before it ends at 0",
         KILN_E_FORMAT},
        {"{\"a\":" F32_4 ",\"b\":" F32_4 "}", "the data before it ends at 16", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"a\":{\"dtype\":\"F32\",\"shape\":[2],"
         "\"data_offsets\":[8,16]}}",
         "\"a\" is given twice", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,0]}}", "before it begins", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,18446744073709551616]}}", "too large",
         KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,-16]}}", "an integer", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4.0],\"data_offsets\":[0,16]}}", "not an integer", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[04],\"data_offsets\":[0,16]}}", "begins with 0", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807,9],\"data_offsets\":[0,16]}}", "overflows",
         KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551615],\"data_offsets\":[0,16]}}", "too large",
         KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[4],\"data_offsets\":[0,16]}}", "\"F31\"", KILN_E_UNSUPPORTED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4],\"data_offsets\":[0,16]}}", "16 dim",
         KILN_E_UNSUPPORTED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4]}}", "has no data_offsets", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", "twice", KILN_E_FORMAT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16],\"x\":1}}", "unknown", KILN_E_FORMAT},
        {"{\"__metadata__\":{\"k\":1},\"a\":" F32_4 "}", "'\"' is missing", KILN_E_FORMAT},
        {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"},\"a\":" F32_4 "}", "\"k\" is given twice", KILN_E_FORMAT},
        {"{\"__metadata__\":{},\"__metadata__\":{},\"a\":" F32_4 "}", "comes twice", KILN_E_FORMAT},
        {"{\"a\":" F32_4 ",}", "'\"' is missing", KILN_E_FORMAT},
        {"{\"a\":" F32_4 "} x", "the text goes on", KILN_E_FORMAT},
        {"[]", "'{' is missing", KILN_E_FORMAT},
        {"{\"\\ud83d\":" F32_4 "}", "surrogate", KILN_E_FORMAT},
        {"{\"\\u0000\":" F32_4 "}", "zero character", KILN_E_FORMAT},
        {"{\"\\x\":" F32_4 "}", "escape", KILN_E_FORMAT},
        {"{\"\xc0\x80\":" F32_4 "}", "UTF-8", KILN_E_FORMAT},
        {"{\"\xed\xa0\x80\":" F32_4 "}", "UTF-8", KILN_E_FORMAT},
        {"{\"a\n\":" F32_4 "}", "control character", KILN_E_FORMAT},
        {"{\"a", "does not end", KILN_E_FORMAT},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t n = strlen(cases[i].header);
        kiln_archive *a = kiln_safetensors_load(safetensors_with(cases[i].header, n, 16));
        if (cases[i].code == KILN_OK)
            assert_no_error();
        else
            assert_error(cases[i].code, cases[i].message);
        assert_int_equal(a != NULL, cases[i].code == KILN_OK);
        kiln_archive_free(&a);
    }
    assert_null(kiln_safetensors_load(safetensors_with("{}", 3, 0)));
    assert_error(KILN_E_FORMAT, "a header of 3 bytes in a file of 10");
    // A dtype that Kiln lacks does not bar the way to the other tensors.
    kiln_archive *a = kiln_safetensors_load(safetensors_with(cases[3].header, strlen(cases[3].header), 16));
    assert_null(kiln_archive_get(a, dev, "a"));
    assert_error(KILN_E_UNSUPPORTED, "U32");
    kiln_archive_free(&a);
}

// --- IDX

static void idx_reads(void **state)
{
    const unsigned char images[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const float floats[] = {1.5f, -2, 0.25f};
    kiln_tensor *t = kiln_idx_load(dev, golden("images.idx"));
    assert_tensor(t, KILN_U8, KILN_SHAPE(2, 2, 3), images);
    kiln_free(&t);
    t = kiln_idx_load(dev, golden("images.idx.gz"));
    assert_tensor(t, KILN_U8, KILN_SHAPE(2, 2, 3), images);
    kiln_free(&t);
    t = kiln_idx_load(dev, golden("floats.idx"));
    assert_tensor(t, KILN_F32, KILN_SHAPE(3), floats);
    kiln_free(&t);
}

static void idx_header_lies(void **state)
{
    static const struct {
        unsigned char bytes[20];
        size_t n;
        const char *message;
        kiln_status code;
    } cases[] = {
        {{0, 0, 8, 1, 0, 0, 0, 2, 7, 7}, 10, "", KILN_OK},
        {{0, 0, 11, 1, 0, 0, 0, 1, 7, 7}, 10, "", KILN_OK},
        {{0, 0, 8, 0, 7}, 5, "", KILN_OK},
        {{1, 0, 8, 1, 0, 0, 0, 2, 7, 7}, 10, "is not IDX: it begins with 01 00 08 01", KILN_E_FORMAT},
        {{0, 0, 10, 1, 0, 0, 0, 2, 7, 7}, 10, "00 00 0a 01", KILN_E_FORMAT},
        {{0, 0, 8, 1, 0, 0, 0, 3, 7, 7}, 10, "u8[3] has 3 bytes", KILN_E_FORMAT},
        {{0, 0, 8, 1, 0, 0, 0, 1, 7, 7}, 10, "goes on", KILN_E_FORMAT},
        {{0, 0, 8, 1, 255, 255, 255, 255, 7, 7}, 10, "u8[4294967295] has 4294967295 bytes", KILN_E_FORMAT},
        {{0, 0, 14, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, 18, "overflows", KILN_E_FORMAT},
        {{0, 0, 8, 255}, 20, "cut off", KILN_E_FORMAT},
        {{0, 0, 8}, 3, "cut off", KILN_E_FORMAT},
        {{0}, 0, "cut off", KILN_E_FORMAT},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        store_bytes(temp("lie.idx"), cases[i].bytes, cases[i].n);
        kiln_tensor *t = kiln_idx_load(dev, temp("lie.idx"));
        if (cases[i].code == KILN_OK)
            assert_no_error();
        else
            assert_error(cases[i].code, cases[i].message);
        kiln_free(&t);
    }
    unsigned char many[96] = {0, 0, 8, 17};
    store_bytes(temp("lie.idx"), many, sizeof many);
    assert_null(kiln_idx_load(dev, temp("lie.idx")));
    assert_error(KILN_E_UNSUPPORTED, "16 dimensions");
}

// --- checkpoints

static const char *make_checkpoint(void)
{
    const char *path = temp("run.ckpt"), *names[COUNT_OF(samples)];
    kiln_tensor *tensors[COUNT_OF(samples)];
    size_t n = make_all(true, names, tensors);
    kiln_checkpoint *c = kiln_checkpoint_create();
    assert_int_equal(kiln_checkpoint_put(c, names, tensors, n), KILN_OK);
    assert_int_equal(kiln_checkpoint_put_int(c, "step", INT64_MIN), KILN_OK);
    assert_int_equal(kiln_checkpoint_put_double(c, "rate", 0.1), KILN_OK);
    assert_int_equal(kiln_checkpoint_put_double(c, "nan", -NAN), KILN_OK);
    assert_int_equal(kiln_checkpoint_put_string(c, "note", "two\nlines, \"quoted\""), KILN_OK);
    assert_int_equal(kiln_checkpoint_save(c, path), KILN_OK);
    kiln_checkpoint_free(&c);
    assert_null(c);
    free_all(tensors, n);
    return path;
}

static void checkpoint_round_trips(void **state)
{
    kiln_checkpoint *c = kiln_checkpoint_load(make_checkpoint());
    assert_no_error();
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        kiln_tensor *t = kiln_checkpoint_get(c, dev, samples[i].name);
        assert_sample(t, &samples[i]);
        kiln_free(&t);
    }
    int64_t step = 0;
    double rate = 0, nan = 0;
    assert_int_equal(kiln_checkpoint_get_int(c, "step", &step), KILN_OK);
    assert_true(step == INT64_MIN);
    assert_int_equal(kiln_checkpoint_get_double(c, "rate", &rate), KILN_OK);
    assert_true(rate == 0.1);
    assert_int_equal(kiln_checkpoint_get_double(c, "nan", &nan), KILN_OK);
    assert_true(isnan(nan) && signbit(nan));
    assert_string_equal(kiln_checkpoint_get_string(c, "note"), "two\nlines, \"quoted\"");
    assert_true(kiln_checkpoint_has(c, "rate") && kiln_checkpoint_has(c, "f32"));
    assert_false(kiln_checkpoint_has(c, "kiln.crc32"));
    assert_int_equal(kiln_checkpoint_get_int(c, "rate", &step), KILN_E_ARGUMENT);
    assert_error(KILN_E_ARGUMENT, "of another kind");
    assert_null(kiln_checkpoint_get_string(c, "absent"));
    assert_error(KILN_E_ARGUMENT, "no string \"absent\"");
    // An entry takes the place of one of the same name, whatever its kind.
    assert_int_equal(kiln_checkpoint_put_int(c, "f32", 7), KILN_OK);
    assert_null(kiln_checkpoint_get(c, dev, "f32"));
    assert_error(KILN_E_ARGUMENT, "no tensor \"f32\"");
    assert_int_equal(kiln_checkpoint_save(c, temp("again.ckpt")), KILN_OK);
    kiln_checkpoint_free(&c);
    c = kiln_checkpoint_load(temp("again.ckpt"));
    assert_int_equal(kiln_checkpoint_get_int(c, "f32", &step), KILN_OK);
    assert_int_equal(step, 7);
    kiln_checkpoint_free(&c);
    // Others read it as safetensors.
    kiln_archive *a = kiln_safetensors_load(temp("run.ckpt"));
    assert_all(a, COUNT_OF(samples));
    kiln_archive_free(&a);
    assert_int_equal(kiln_checkpoint_put_int(NULL, "x", 1), KILN_E_ARGUMENT);
}

static void checkpoint_restores_parameters(void **state)
{
    const float values[] = {1, 2, 3, 4, 5, 6}, zeros[6] = {0};
    const char *names[] = {"w", "b"};
    kiln_tensor *w = kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 3), values);
    kiln_tensor *b = kiln_from_data(dev, KILN_F32, KILN_SHAPE(3), values + 3);
    kiln_tensor *zero = kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 3), zeros);
    kiln_tensor *zero3 = kiln_from_data(dev, KILN_F32, KILN_SHAPE(3), zeros);
    kiln_tensor *wide = kiln_from_data(dev, KILN_F64, KILN_SHAPE(3), (double[]){0, 0, 0});
    kiln_tensor *into = kiln_parameter(zero, "w");
    assert_no_error();
    kiln_checkpoint *c = kiln_checkpoint_create();
    assert_int_equal(kiln_checkpoint_put(c, names, (kiln_tensor *[]){w, b}, 2), KILN_OK);

    // When one does not fit, none is written.
    assert_int_equal(kiln_checkpoint_restore(c, names, (kiln_tensor *[]){into, zero}, 2), KILN_E_SHAPE);
    assert_error(KILN_E_SHAPE, "\"b\" is f32[3] in the checkpoint, the tensor to fill is f32[2,3]");
    assert_int_equal(kiln_checkpoint_restore(c, names, (kiln_tensor *[]){into, wide}, 2), KILN_E_DTYPE);
    assert_error(KILN_E_DTYPE, "f64[3]");
    const char *others[] = {"w", "absent"};
    assert_int_equal(kiln_checkpoint_restore(c, others, (kiln_tensor *[]){into, zero3}, 2), KILN_E_ARGUMENT);
    assert_error(KILN_E_ARGUMENT, "no tensor \"absent\"");
    assert_tensor(into, KILN_F32, KILN_SHAPE(2, 3), zeros);

    assert_int_equal(kiln_checkpoint_restore(c, names, (kiln_tensor *[]){into, zero3}, 2), KILN_OK);
    assert_tensor(into, KILN_F32, KILN_SHAPE(2, 3), values);
    assert_tensor(zero3, KILN_F32, KILN_SHAPE(3), values + 3);
    kiln_checkpoint_put_int(c, "kiln.step", 1);
    assert_error(KILN_E_ARGUMENT, "are taken");
    kiln_checkpoint_free(&c);
    free_all((kiln_tensor *[]){w, b, zero, zero3, wide, into}, 6);
}

static void checkpoint_is_no_other_file(void **state)
{
    assert_null(kiln_checkpoint_load(golden("numpy.safetensors")));
    assert_error(KILN_E_FORMAT, "is not a checkpoint");
    assert_null(kiln_checkpoint_load(temp("absent")));
    assert_error(KILN_E_MISSING, "No such file");
}

// --- broken files of every kind

static void open_archive(kiln_archive *a)
{
    for (size_t i = 0, n = a ? kiln_archive_count(a) : 0; i < n && !kiln_error(); i++) {
        kiln_tensor *t = kiln_archive_tensor(a, dev, i);
        kiln_free(&t);
    }
    kiln_archive_free(&a);
}

static void try_npy(const char *path)
{
    kiln_tensor *t = kiln_npy_load(dev, path);
    kiln_free(&t);
}

static void try_npz(const char *path)
{
    open_archive(kiln_npz_load(path));
}

static void try_safetensors(const char *path)
{
    open_archive(kiln_safetensors_load(path));
}

static void try_idx(const char *path)
{
    kiln_tensor *t = kiln_idx_load(dev, path);
    kiln_free(&t);
}

static void try_checkpoint(const char *path)
{
    kiln_checkpoint *c = kiln_checkpoint_load(path);
    kiln_checkpoint_free(&c);
}

static bool is_about_the_file(kiln_status s)
{
    return s == KILN_E_FORMAT || s == KILN_E_UNSUPPORTED;
}

// Cut off at every byte, longer by one, and with every byte changed: an error about the file, or where a byte of data
// was changed none. `sealed`: a checksum must find every change.
static void break_file(const char *path, void (*open)(const char *), bool sealed)
{
    size_t size_B;
    unsigned char *bytes = load_bytes(path, &size_B);
    const char *broken = temp("broken");
    store_bytes(broken, bytes, size_B);
    open(broken);
    assert_no_error();
    for (size_t n = 0; n <= size_B + 1; n++) {
        if (n == size_B) continue;
        bytes[size_B] = 0;
        store_bytes(broken, bytes, n);
        open(broken);
        if (!is_about_the_file(kiln_error())) fail_msg("%s, %zu of %zu: %s", path, n, size_B, kiln_error_message());
        kiln_error_clear();
    }
    for (size_t i = 0; i < size_B; i++) {
        unsigned char was = bytes[i];
        const unsigned char others[] = {was ^ 1, was ^ 0x80, 0, 255, was + 1};
        for (size_t k = 0; k < COUNT_OF(others); k++) {
            bytes[i] = others[k];
            store_bytes(broken, bytes, size_B);
            open(broken);
            kiln_status status = kiln_error();
            bool fine = is_about_the_file(status) || (status == KILN_OK && (!sealed || others[k] == was));
            if (!fine) fail_msg("%s, byte %zu is %d: %s", path, i, others[k], kiln_error_message());
            kiln_error_clear();
        }
        bytes[i] = was;
    }
    free(bytes);
}

static void broken_files_are_found(void **state)
{
    break_file(golden("little_f4.npy"), try_npy, false);
    break_file(golden("fortran.npy"), try_npy, false);
    break_file(golden("stored.npz"), try_npz, false);
    break_file(golden("deflated.npz"), try_npz, false);
    break_file(golden("zip64.npz"), try_npz, false);
    break_file(golden("numpy.safetensors"), try_safetensors, false);
    break_file(golden("images.idx"), try_idx, false);
    break_file(golden("images.idx.gz"), try_idx, false);
}

static void broken_checkpoints_are_found(void **state)
{
    kiln_checkpoint *c = kiln_checkpoint_create();
    kiln_tensor *t = sample_tensor(&samples[8]);
    assert_int_equal(kiln_checkpoint_put(c, (const char *[]){"w"}, &t, 1), KILN_OK);
    assert_int_equal(kiln_checkpoint_put_int(c, "step", 12), KILN_OK);
    assert_int_equal(kiln_checkpoint_save(c, temp("small.ckpt")), KILN_OK);
    kiln_checkpoint_free(&c);
    kiln_free(&t);
    break_file(temp("small.ckpt"), try_checkpoint, true);
}

// --- writing that fails

static size_t files_in_folder(void)
{
    size_t n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void full_disk_leaves_the_old_file(void **state)
{
    static float many[100000];
    kiln_tensor *t = kiln_from_data(dev, KILN_F32, KILN_SHAPE(100000), many);
    make_checkpoint();
    size_t before = files_in_folder(), old_B, new_B;
    unsigned char *old = load_bytes(temp("run.ckpt"), &old_B);
    kiln_checkpoint *c = kiln_checkpoint_create();
    assert_int_equal(kiln_checkpoint_put(c, (const char *[]){"w"}, &t, 1), KILN_OK);

    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 100000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    kiln_status status = kiln_checkpoint_save(c, temp("run.ckpt"));
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, handler);

    assert_int_equal(status, KILN_E_IO);
    assert_non_null(strstr(kiln_error_message(), "run.ckpt"));
    assert_error(KILN_E_IO, "File too large");
    assert_int_equal(files_in_folder(), before);
    unsigned char *now = load_bytes(temp("run.ckpt"), &new_B);
    assert_int_equal(new_B, old_B);
    assert_memory_equal(now, old, old_B);
    free(old);
    free(now);

    assert_int_equal(kiln_checkpoint_save(c, "/dev/full"), KILN_E_IO);
    assert_error(KILN_E_IO, "No space left");
    assert_int_equal(kiln_checkpoint_save(c, temp("run.ckpt")), KILN_OK);
    kiln_checkpoint_free(&c);
    kiln_free(&t);
}

static void paths_that_cannot_be(void **state)
{
    kiln_tensor *t = sample_tensor(&samples[8]);
    kiln_npy_save(temp("no/such/folder.npy"), t);
    assert_error(KILN_E_MISSING, "No such file");
    kiln_npy_save(folder, t);
    assert_error(KILN_E_IO, "Is a directory");
    kiln_npy_save(NULL, t);
    assert_error(KILN_E_ARGUMENT, "npy_save: the path is NULL");
    kiln_npy_save(temp("x.npy"), NULL);
    assert_error(KILN_E_ARGUMENT, "NULL");
    assert_null(kiln_npy_load(dev, folder));
    assert_error(KILN_E_IO, "not a regular file");
    assert_null(kiln_npy_load(dev, NULL));
    assert_error(KILN_E_ARGUMENT, "npy_load: the path is NULL");
    assert_null(kiln_archive_get(NULL, dev, "a"));
    assert_error(KILN_E_ARGUMENT, "the archive is NULL");
    kiln_free(&t);
}

static void links_and_permissions_stay(void **state)
{
    kiln_tensor *t = sample_tensor(&samples[8]), *u = sample_tensor(&samples[9]);
    assert_int_equal(kiln_npy_save(temp("real.npy"), t), KILN_OK);
    assert_int_equal(chmod(temp("real.npy"), 0640), 0);
    assert_int_equal(symlink("real.npy", temp("link.npy")), 0);
    assert_int_equal(kiln_npy_save(temp("link.npy"), u), KILN_OK);
    struct stat st;
    assert_int_equal(lstat(temp("link.npy"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(temp("real.npy"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    kiln_tensor *back = kiln_npy_load(dev, temp("real.npy"));
    assert_sample(back, &samples[9]);
    free_all((kiln_tensor *[]){t, u, back}, 3);
}

// While an error is pending nothing is read or written.
static void pending_errors_stop_all(void **state)
{
    kiln_tensor *t = sample_tensor(&samples[8]);
    kiln_checkpoint *c = kiln_checkpoint_create();
    assert_null(kiln_npy_load(dev, NULL));
    assert_int_equal(kiln_npy_save(temp("pending.npy"), t), KILN_E_ARGUMENT);
    assert_int_equal(kiln_checkpoint_save(c, temp("pending.npy")), KILN_E_ARGUMENT);
    assert_null(kiln_npz_load(golden("stored.npz")));
    assert_null(kiln_idx_load(dev, golden("images.idx")));
    assert_null(kiln_checkpoint_create());
    assert_error(KILN_E_ARGUMENT, "npy_load: the path is NULL");
    assert_int_equal(access(temp("pending.npy"), F_OK), -1);
    kiln_checkpoint_free(&c);
    kiln_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(npy_of_numpy, clear_error),
        cmocka_unit_test_teardown(npy_shapes_of_numpy, clear_error),
        cmocka_unit_test_teardown(npy_refuses_what_kiln_lacks, clear_error),
        cmocka_unit_test_teardown(npy_round_trips, clear_error),
        cmocka_unit_test_teardown(many_dimensions_round_trip, clear_error),
        cmocka_unit_test_teardown(npy_header_lies, clear_error),
        cmocka_unit_test_teardown(npz_of_numpy, clear_error),
        cmocka_unit_test_teardown(npz_round_trips, clear_error),
        cmocka_unit_test_teardown(safetensors_of_others, clear_error),
        cmocka_unit_test_teardown(safetensors_round_trips, clear_error),
        cmocka_unit_test_teardown(safetensors_header_lies, clear_error),
        cmocka_unit_test_teardown(idx_reads, clear_error),
        cmocka_unit_test_teardown(idx_header_lies, clear_error),
        cmocka_unit_test_teardown(checkpoint_round_trips, clear_error),
        cmocka_unit_test_teardown(checkpoint_restores_parameters, clear_error),
        cmocka_unit_test_teardown(checkpoint_is_no_other_file, clear_error),
        cmocka_unit_test_teardown(broken_files_are_found, clear_error),
        cmocka_unit_test_teardown(broken_checkpoints_are_found, clear_error),
        cmocka_unit_test_teardown(full_disk_leaves_the_old_file, clear_error),
        cmocka_unit_test_teardown(paths_that_cannot_be, clear_error),
        cmocka_unit_test_teardown(links_and_permissions_stay, clear_error),
        cmocka_unit_test_teardown(pending_errors_stop_all, clear_error),
    };
    return cmocka_run_group_tests_name("io", tests, open_all, close_all);
}
