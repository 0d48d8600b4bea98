// Checkpoints.
#include "files.h"

#include <math.h>
#include <string.h>

const char *make_checkpoint(void)
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

void checkpoint_round_trips(void **state)
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

void checkpoint_restores_parameters(void **state)
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

void checkpoint_is_no_other_file(void **state)
{
    assert_null(kiln_checkpoint_load(golden("numpy.safetensors")));
    assert_error(KILN_E_FORMAT, "is not a checkpoint");
    assert_null(kiln_checkpoint_load(temp("absent")));
    assert_error(KILN_E_MISSING, "No such file");
}
