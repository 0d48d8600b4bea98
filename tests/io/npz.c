// npz.
#include "files.h"

#include <string.h>
#include <sys/stat.h>

void npz_of_numpy(void **state)
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
void npz_round_trips(void **state)
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
