// npy.
#include "files.h"

#include <string.h>
#include <unistd.h>

void npy_of_numpy(void **state)
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
        {"little_u2.npy", KILN_U16}, {"little_u4.npy", KILN_U32}, {"little_u8.npy", KILN_U64},
        {"big_u2.npy", KILN_U16},    {"big_u4.npy", KILN_U32},    {"big_u8.npy", KILN_U64},
        {"version2.npy", KILN_F32},  {"version3.npy", KILN_F32},
    };
    const unsigned char bools[] = {1, 1, 1, 1, 1, 1}, bytes[] = {1, 2, 3, 4, 5, 6};
    const int16_t i2[] = {1, 2, 3, 4, 5, 6};
    const uint16_t f2[] = {0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600};
    const int32_t i4[] = {1, 2, 3, 4, 5, 6};
    const int64_t i8[] = {1, 2, 3, 4, 5, 6};
    const float f4[] = {1, 2, 3, 4, 5, 6};
    const double f8[] = {1, 2, 3, 4, 5, 6};
    const void *values[] = {bools, bytes, bytes, i2, i4, i8, f2, NULL, f4, f8, i2, i4, i8};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        kiln_tensor *t = kiln_npy_load(dev, golden(cases[i].file));
        assert_tensor(t, cases[i].dtype, 2, sample_dims, values[cases[i].dtype]);
        kiln_free(&t);
    }
}

void npy_shapes_of_numpy(void **state)
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

void npy_reads_complex_numbers(void **state)
{
    kiln_tensor *z = kiln_npy_load(dev, golden("complex_c8.npy"));
    assert_non_null(z);
    assert_int_equal(kiln_tensor_dtype(z), KILN_C64);
    float v[2 * 64];
    int64_t n = kiln_numel(z);
    assert_true(n > 0 && n <= 64);
    assert_int_equal(kiln_read(z, v, sizeof *v * 2 * (size_t)n), KILN_OK);
    for (int64_t i = 0; i < n; i++) assert_true(v[2 * i] == (float)(i + 1) && v[2 * i + 1] == 0);
    kiln_free(&z);
}

void npy_refuses_what_kiln_lacks(void **state)
{
    static const char *const cases[][2] = {
        {"refused_text.npy", "\"<U2\""},
        {"refused_struct.npy", "structured"},
        {"refused_rank.npy", "16 dim"},
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

void npy_round_trips(void **state)
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
void many_dimensions_round_trip(void **state)
{
    const char *name = "deep", *path = temp("deep");
    double v[120];
    int64_t dims[KILN_MAX_RANK];
    for (int i = 0; i < 120; i++) v[i] = i;
    for (int d = 0; d < KILN_MAX_RANK; d++) dims[d] = deep_dims[KILN_MAX_RANK - 1 - d];
    kiln_tensor *whole = kiln_from_data(dev, KILN_F64, KILN_MAX_RANK, dims, v), *t = kiln_permute(whole, KILN_AXES0);
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

void npy_header_lies(void **state)
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
