// Storage dtypes in files: safetensors, checkpoints; what npy and npz lack, and functions in files.
#include <kiln/kiln.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static kiln_device *dev;
static const kiln_dtype stored[] = {KILN_F8_E4M3, KILN_F8_E5M2, KILN_I4, KILN_U4};

#define must(x)                                                 \
    do {                                                        \
        (void)(x);                                              \
        if (kiln_error()) fail_msg("%s", kiln_error_message()); \
    } while (0)

static int begin(void **state)
{
    *state = kiln_scope_begin();
    return 0;
}

static int end(void **state)
{
    kiln_scope *scope = *state;
    kiln_scope_end(&scope);
    return kiln_error() ? -1 : 0;
}

static void refused(const char *message)
{
    if (!strstr(kiln_error_message(), message)) fail_msg("\"%s\", expected \"%s\"", kiln_error_message(), message);
    kiln_error_clear();
}

static kiln_tensor *all_codes(kiln_dtype dtype)
{
    uint8_t codes[256];
    for (int i = 0; i < 256; i++) codes[i] = (uint8_t)i;
    return kiln_from_data(dev, dtype, KILN_SHAPE(16, dtype >= KILN_I4 ? 32 : 16), codes);
}

static void read_f64(kiln_tensor *t, int64_t n, double *out)
{
    must(t);
    assert_int_equal(kiln_numel(t), n);
    must(kiln_read(kiln_cast(t, KILN_F64), out, sizeof *out * (size_t)n));
}

static void files_keep_floats(void **state)
{
    char path[] = "/tmp/kiln-stored-XXXXXX";
    uint8_t bytes[256], codes[256];
    close(mkstemp(path));
    for (int i = 0; i < 256; i++) codes[i] = (uint8_t)i;
    kiln_tensor *t[] = {all_codes(KILN_F8_E4M3), all_codes(KILN_F8_E5M2)};
    static const char *const names[] = {"a", "b"};
    must(kiln_safetensors_save(path, names, t, 2));
    kiln_archive *a = kiln_safetensors_load(path);
    must(a);
    for (int k = 0; k < 2; k++) {
        kiln_tensor *r = kiln_archive_get(a, dev, names[k]);
        must(kiln_read(r, bytes, 256));
        assert_int_equal(kiln_tensor_dtype(r), stored[k]);
        assert_int_equal(kiln_dims(r)[0], 16);
        assert_memory_equal(bytes, codes, 256);
    }
    kiln_archive_free(&a);
    // Made by hand.
    static const char json[] = "{\"w\":{\"dtype\":\"F8_E5M2\",\"shape\":[3],\"data_offsets\":[0,3]}}      ";
    uint64_t n = sizeof json - 1;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(&n, 8, 1, f);
    fwrite(json, 1, n, f);
    fwrite("\x3c\xc0\x7b", 1, 3, f);
    assert_int_equal(fclose(f), 0);
    a = kiln_safetensors_load(path);
    must(a);
    double got[3];
    read_f64(kiln_archive_get(a, dev, "w"), 3, got);
    assert_true(got[0] == 1 && got[1] == -2 && got[2] == 57344);
    kiln_archive_free(&a);
    // And what formats lack.
    kiln_tensor *i4 = kiln_zeros(dev, KILN_I4, KILN_SHAPE(2));
    kiln_safetensors_save(path, names, &i4, 1);
    refused("\"a\" is i4, which safetensors has not: see kiln_bitcast, to u8");
    for (int k = 0; k < 4; k++) {
        kiln_tensor *z = kiln_zeros(dev, stored[k], KILN_SHAPE(2));
        kiln_npy_save(path, z);
        refused(kiln_dtype_name(stored[k]));
        kiln_npz_save(path, names, &z, 1, NULL);
        refused("kiln_bitcast, to u8");
    }
    unlink(path);
}

static void checkpoints_keep_floats(void **state)
{
    char path[] = "/tmp/kiln-stored-XXXXXX";
    double got[4];
    close(mkstemp(path));
    static const char *const names[] = {"w", "z"};
    kiln_tensor *w = kiln_full(dev, KILN_F8_E4M3, KILN_SHAPE(4), 2.5), *i4 = kiln_zeros(dev, KILN_I4, KILN_SHAPE(4));
    kiln_checkpoint *c = kiln_checkpoint_create();
    must(kiln_checkpoint_put(c, names, &w, 1));
    kiln_checkpoint_put(c, names + 1, &i4, 1);
    refused("kiln_bitcast, to u8");
    must(kiln_checkpoint_save(c, path));
    kiln_checkpoint_free(&c);
    must(c = kiln_checkpoint_load(path));
    kiln_tensor *other = kiln_zeros(dev, KILN_F8_E4M3, KILN_SHAPE(4)), *wrong = kiln_bitcast(other, KILN_U8);
    must(kiln_checkpoint_restore(c, names, &other, 1));
    read_f64(other, 4, got);
    assert_true(got[0] == 2.5 && got[3] == 2.5);
    read_f64(kiln_checkpoint_get(c, dev, "w"), 4, got);
    assert_true(got[0] == 2.5);
    kiln_checkpoint_restore(c, names, &wrong, 1);
    refused("\"w\" is f8_e4m3fn[4] in the checkpoint, the tensor to fill is u8[4]");
    kiln_checkpoint_restore(c, names, &i4, 1);
    refused("the tensor to fill is i4[4]");
    kiln_checkpoint_free(&c);
    unlink(path);
}

static kiln_status total(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_sum(kiln_cast(in[0], KILN_F32), NULL);
    return kiln_error();
}

static kiln_status narrowed(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_cast(kiln_mul(in[0], in[0]), KILN_U4);
    return kiln_error();
}

static void models_take_bytes(void **state)
{
    kiln_tensor *w = kiln_zeros(dev, KILN_F8_E4M3, KILN_SHAPE(4)), *x = kiln_zeros(dev, KILN_F32, KILN_SHAPE(4));
    kiln_function *in = kiln_jit(total, NULL, NULL), *out = kiln_jit(narrowed, NULL, NULL);
    kiln_model *m = kiln_model_create();
    kiln_model_add(m, "f", in, &w, 1, 1, NULL);
    refused("input 0, it is f8_e4m3fn; take and give bytes, by kiln_bitcast");
    kiln_model_add(m, "f", out, &x, 1, 1, NULL);
    refused("output 0, it is u4; take and give bytes, by kiln_bitcast");
    kiln_model_free(&m);
    kiln_function_free(&in);
    kiln_function_free(&out);
}

int main(int argc, char **argv)
{
    dev = kiln_device_open(argc > 1 ? argv[1] : "cpu");
    if (!dev) {
        fprintf(stderr, "%s\n", kiln_error_message());
        return argc > 1 ? 77 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_keep_floats, begin, end),
        cmocka_unit_test_setup_teardown(checkpoints_keep_floats, begin, end),
        cmocka_unit_test_setup_teardown(models_take_bytes, begin, end),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_device_close(&dev);
    return failed;
}
