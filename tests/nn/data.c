// Loaders: what an epoch holds, orders, conversion, prefetching, states, and failures on the loader's thread.
#include <kiln/data.h>

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

static kiln_device *dev;

static int open_device(void **state)
{
    dev = kiln_device_open("cpu");
    return dev ? 0 : -1;
}

static int close_device(void **state)
{
    kiln_device_close(&dev);
    return 0;
}

static int clear_error(void **state)
{
    kiln_error_clear();
    return 0;
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

// A loader of the numbers 0 to n - 1, each with its square.
static kiln_loader *number_loader(int32_t n, const kiln_loader_opts *opts)
{
    int32_t *v = malloc(2 * sizeof *v * (size_t)(n + 1)), *squares = v + n;
    assert_non_null(v);
    for (int32_t i = 0; i < n; i++) {
        v[i] = i;
        squares[i] = i * i;
    }
    kiln_tensor *sets[] = {
        kiln_from_data(dev, KILN_I32, KILN_SHAPE(n), v),
        kiln_from_data(dev, KILN_I32, KILN_SHAPE(n, 1), squares),
    };
    kiln_loader *l = kiln_loader_create(dev, sets, 2, opts);
    assert_no_error();
    assert_non_null(l);
    kiln_free(&sets[0]);
    kiln_free(&sets[1]);
    free(v);
    return l;
}

// The next batch of a number loader, appended to out; its size, 0 at the end of the epoch.
static int take_numbers(kiln_loader *l, int32_t *out)
{
    kiln_tensor *batch[2];
    bool more;
    int32_t squares[100];
    assert_int_equal(kiln_loader_next(l, batch, 2, &more), KILN_OK);
    if (!more) {
        assert_null(batch[0]);
        assert_null(batch[1]);
        return 0;
    }
    int n = (int)kiln_dims(batch[0])[0];
    assert_int_equal(kiln_rank(batch[1]), 2);
    assert_int_equal(kiln_dims(batch[1])[0], n);
    assert_int_equal(kiln_read(batch[0], out, (size_t)n * sizeof *out), KILN_OK);
    assert_int_equal(kiln_read(batch[1], squares, (size_t)n * sizeof *out), KILN_OK);
    for (int i = 0; i < n; i++) assert_int_equal(squares[i], out[i] * out[i]);
    kiln_free(&batch[0]);
    kiln_free(&batch[1]);
    return n;
}

static int take_epoch(kiln_loader *l, int32_t *out)
{
    int n = 0;
    for (int rows; (rows = take_numbers(l, out + n)); n += rows) {}
    return n;
}

static void epochs_hold_each_sample_once(void **state)
{
    static const int64_t batches[] = {0, 1, 3, 7, 10, 50};
    for (size_t b = 0; b < COUNT_OF(batches); b++) {
        for (int64_t prefetch = -1; prefetch < 5; prefetch++) {
            for (int drop = 0; drop < 2; drop++) {
                kiln_loader *l = number_loader(10, KILN_LOADER(.batch = batches[b], .shuffle = true, .seed = 5,
                                                               .drop_last = drop, .prefetch = prefetch));
                int64_t batch = batches[b] ? batches[b] : 1;
                int want = (int)(drop ? 10 / batch * batch : 10);
                assert_int_equal(kiln_loader_samples(l), 10);
                assert_int_equal(kiln_loader_batches(l), drop ? 10 / batch : (10 + batch - 1) / batch);
                for (int epoch = 0; epoch < 3; epoch++) {
                    int32_t got[16];
                    int seen[10] = {0};
                    assert_int_equal(take_epoch(l, got), want);
                    for (int i = 0; i < want; i++) assert_int_equal(seen[got[i]]++, 0);
                }
                kiln_loader_free(&l);
                assert_null(l);
            }
        }
    }
}

static void order_is_kept_without_shuffling(void **state)
{
    kiln_loader *l = number_loader(10, KILN_LOADER(.batch = 4));
    for (int epoch = 0; epoch < 2; epoch++) {
        int32_t got[12];
        assert_int_equal(take_numbers(l, got), 4);
        assert_int_equal(take_numbers(l, got + 4), 4);
        assert_int_equal(take_numbers(l, got + 8), 2);
        assert_int_equal(take_numbers(l, got), 0);
        for (int i = 4; i < 10; i++) assert_int_equal(got[i], i);
    }
    kiln_loader_free(&l);
}

// The order is part of the contract: a run that is resumed elsewhere must see it.
static void orders_depend_on_seed_and_epoch(void **state)
{
    static const int32_t recorded[2][8] = {{0, 1, 4, 7, 6, 5, 2, 3}, {6, 0, 2, 1, 5, 7, 3, 4}};
    int32_t first[2][64], again[2][64], other[64];
    kiln_loader *l = number_loader(8, KILN_LOADER(.batch = 8, .shuffle = true, .seed = 1));
    for (int epoch = 0; epoch < 2; epoch++) {
        assert_int_equal(take_epoch(l, first[0]), 8);
        assert_memory_equal(first[0], recorded[epoch], sizeof recorded[epoch]);
    }
    kiln_loader_free(&l);
    for (int run = 0; run < 2; run++) {
        int64_t prefetch = run ? -1 : 3;
        l = number_loader(64, KILN_LOADER(.batch = 5, .shuffle = true, .seed = 9, .prefetch = prefetch));
        for (int epoch = 0; epoch < 2; epoch++) assert_int_equal(take_epoch(l, run ? again[epoch] : first[epoch]), 64);
        kiln_loader_free(&l);
    }
    assert_memory_equal(first, again, sizeof first);
    assert_memory_not_equal(first[0], first[1], sizeof first[0]);
    l = number_loader(64, KILN_LOADER(.batch = 5, .shuffle = true, .seed = 10));
    assert_int_equal(take_epoch(l, other), 64);
    assert_memory_not_equal(first[0], other, sizeof other);
    kiln_loader_free(&l);
}

// Over 2,000 epochs each of 6 samples stands at each of 6 places about 333 times: the sum of squared deviations over
// the expectation has 25 degrees of freedom, and passes 60 by chance once in ten thousand seeds.
static void orders_are_even(void **state)
{
    int counts[6][6] = {{0}};
    kiln_loader *l = number_loader(6, KILN_LOADER(.batch = 6, .shuffle = true, .seed = 3));
    for (int epoch = 0; epoch < 2000; epoch++) {
        int32_t got[6];
        assert_int_equal(take_epoch(l, got), 6);
        for (int i = 0; i < 6; i++) counts[i][got[i]]++;
    }
    kiln_loader_free(&l);
    double sum = 0, expected = 2000.0 / 6;
    for (int i = 0; i < 36; i++) {
        double d = counts[i / 6][i % 6] - expected;
        sum += d * d / expected;
    }
    assert_true(sum > 5 && sum < 60);
}

static void states_resume(void **state)
{
    int32_t whole[300], part[300];
    kiln_loader *l = number_loader(20, KILN_LOADER(.batch = 6, .shuffle = true, .seed = 77));
    // The ends of epochs count as steps: 5 steps an epoch.
    int sizes[15], starts[15], n = 0;
    kiln_loader_state states[15];
    for (int step = 0; step < 15; step++) {
        states[step] = (kiln_loader_state){.size = sizeof states[step]};
        assert_int_equal(kiln_loader_get_state(l, &states[step]), KILN_OK);
        assert_int_equal(states[step].epoch, step / 5);
        assert_int_equal(states[step].position, step % 5 == 4 ? 20 : step % 5 * 6);
        starts[step] = n;
        n += sizes[step] = take_numbers(l, whole + n);
    }
    for (int step = 14; step >= 0; step--) {
        // In a loader that was somewhere else, and in one with another seed and no thread.
        kiln_loader *fresh = number_loader(20, KILN_LOADER(.batch = 6, .shuffle = true, .seed = 1, .prefetch = -1));
        for (int which = 0; which < 2; which++) {
            kiln_loader *to = which ? fresh : l;
            assert_int_equal(kiln_loader_set_state(to, &states[step]), KILN_OK);
            int m = 0;
            for (int k = step; k < 15; k++) {
                assert_int_equal(take_numbers(to, part + m), sizes[k]);
                m += sizes[k];
            }
            assert_memory_equal(part, whole + starts[step], (size_t)m * sizeof *part);
        }
        kiln_loader_free(&fresh);
    }
    kiln_loader_state bad = {.size = sizeof bad, .position = 21};
    assert_int_equal(kiln_loader_set_state(l, &bad), KILN_E_ARGUMENT);
    assert_error(KILN_E_ARGUMENT, "position 21 in a set of 20");
    bad = (kiln_loader_state){0};
    assert_int_equal(kiln_loader_set_state(l, &bad), KILN_E_ARGUMENT);
    assert_error(KILN_E_ARGUMENT, "size is 0; set it");
    kiln_loader_free(&l);
}

// --- conversion

static void next_one(kiln_loader *l, void *out, size_t size_B, kiln_dtype dtype)
{
    kiln_tensor *t = NULL;
    bool more = false;
    assert_int_equal(kiln_loader_next(l, &t, 1, &more), KILN_OK);
    assert_true(more);
    assert_int_equal(kiln_tensor_dtype(t), dtype);
    assert_int_equal(kiln_read(t, out, size_B), KILN_OK);
    kiln_free(&t);
}

static void images_become_floats(void **state)
{
    // Small rows are computed one by one, large ones through a table: both give the same.
    for (int64_t side = 4; side <= 64; side *= 16) {
        unsigned char *images = malloc((size_t)(3 * side * side));
        float *got = malloc((size_t)(3 * side * side) * sizeof *got);
        assert_true(images && got);
        for (int64_t i = 0; i < 3 * side * side; i++) images[i] = (unsigned char)(i * 7);
        kiln_loader *l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 3));
        assert_int_equal(kiln_loader_add_host(l, KILN_U8, KILN_SHAPE(3, side, side), images), KILN_OK);
        assert_int_equal(
            kiln_loader_convert(l, 0, KILN_F32, KILN_CONVERT(.scale = 1.0 / 255, .mean = 0.5, .std_dev = 0.25)),
            KILN_OK);
        next_one(l, got, (size_t)(3 * side * side) * sizeof *got, KILN_F32);
        for (int64_t i = 0; i < 3 * side * side; i++)
            assert_true(got[i] == (float)((images[i] * (1.0 / 255) - 0.5) / 0.25));
        kiln_loader_free(&l);
        free(images);
        free(got);
    }
}

static void numbers_saturate(void **state)
{
    const double v[] = {1.9, -1.9, NAN, INFINITY, -INFINITY, 2147483648.0, 9.3e18, -0.0};
    const int32_t want32[] = {1, -1, 0, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MAX, 0};
    const int64_t want64[] = {1, -1, 0, INT64_MAX, INT64_MIN, 2147483648, INT64_MAX, 0};
    const int64_t large[] = {INT64_MAX - 1, INT64_MIN, 5}, large_again[] = {INT32_MAX, INT32_MIN, 5};
    int32_t got32[8];
    int64_t got64[8];
    kiln_loader *l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 8));
    kiln_loader_add_host(l, KILN_F64, KILN_SHAPE(8), v);
    assert_int_equal(kiln_loader_convert(l, 0, KILN_I32, NULL), KILN_OK);
    next_one(l, got32, sizeof got32, KILN_I32);
    assert_memory_equal(got32, want32, sizeof got32);
    kiln_loader_free(&l);
    l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 8));
    kiln_loader_add_host(l, KILN_F64, KILN_SHAPE(8), v);
    kiln_loader_convert(l, 0, KILN_I64, NULL);
    next_one(l, got64, sizeof got64, KILN_I64);
    assert_memory_equal(got64, want64, sizeof got64);
    kiln_loader_free(&l);
    // Large integers do not lose digits on the way.
    for (int k = 0; k < 2; k++) {
        l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 3));
        kiln_loader_add_host(l, KILN_I64, KILN_SHAPE(3), large);
        kiln_loader_convert(l, 0, k ? KILN_I32 : KILN_I64, NULL);
        if (k)
            next_one(l, got32, 3 * sizeof *got32, KILN_I32);
        else
            next_one(l, got64, 3 * sizeof *got64, KILN_I64);
        for (int i = 0; i < 3; i++) assert_true(k ? got32[i] == large_again[i] : got64[i] == large[i]);
        kiln_loader_free(&l);
    }
}

// Every dtype passes unchanged, and the ones that can be converted are read right.
static void dtypes_pass(void **state)
{
    for (kiln_dtype d = KILN_BOOL; d <= KILN_U64; d++) {
        // The first element is 1 in every integer dtype.
        const unsigned char rows[16] = {1};
        unsigned char got[16];
        size_t item_B = kiln_dtype_size(d);
        kiln_loader *l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 2));
        assert_int_equal(kiln_loader_add_host(l, d, KILN_SHAPE(2), rows), KILN_OK);
        next_one(l, got, 2 * item_B, d);
        assert_memory_equal(got, rows, 2 * item_B);
        kiln_loader_free(&l);
        l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 2));
        kiln_loader_add_host(l, d, KILN_SHAPE(2), rows);
        kiln_status status = kiln_loader_convert(l, 0, KILN_F64, NULL);
        if (d == KILN_F16 || d == KILN_BF16) {
            assert_int_equal(status, KILN_E_DTYPE);
            assert_error(KILN_E_DTYPE, "results are i32");
        } else if (d < KILN_F16 || d > KILN_F64) {
            double as_f64[2];
            next_one(l, as_f64, sizeof as_f64, KILN_F64);
            assert_true(as_f64[0] == 1);
        }
        kiln_loader_free(&l);
    }
}

// --- samples made by a function

struct maker {
    int calls, fail_at;
    kiln_status with;
};

static kiln_status make_sample(void *user, int64_t index, void *row, size_t row_B)
{
    struct maker *m = user;
    m->calls++;
    if (index == m->fail_at && m->with) return m->with;
    // A function of Kiln fails in it, and it does not notice.
    if (index == m->fail_at) kiln_rank(NULL);
    const int32_t v[] = {(int32_t)index, (int32_t)index * 10};
    assert_int_equal(row_B, sizeof v);
    memcpy(row, v, sizeof v);
    return KILN_OK;
}

static void functions_make_samples(void **state)
{
    for (int64_t prefetch = -1; prefetch < 2; prefetch++) {
        for (int convert = 0; convert < 2; convert++) {
            struct maker m = {.fail_at = -1};
            kiln_loader *l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 2, .prefetch = prefetch));
            assert_int_equal(kiln_loader_add_fn(l, KILN_I32, KILN_SHAPE(4, 2), make_sample, &m), KILN_OK);
            if (convert) assert_int_equal(kiln_loader_convert(l, 0, KILN_F32, KILN_CONVERT(.scale = 0.5)), KILN_OK);
            float as_f32[4];
            int32_t as_i32[4];
            for (int b = 0; b < 2; b++) {
                if (convert)
                    next_one(l, as_f32, sizeof as_f32, KILN_F32);
                else
                    next_one(l, as_i32, sizeof as_i32, KILN_I32);
                for (int i = 0; i < 4; i++) {
                    int want = (b * 2 + i / 2) * (i % 2 ? 10 : 1);
                    assert_true(convert ? as_f32[i] == (float)want / 2 : as_i32[i] == want);
                }
            }
            kiln_loader_free(&l);
            assert_true(m.calls >= 4);
        }
    }
}

static void failures_reach_the_asking_thread(void **state)
{
    for (int64_t prefetch = -1; prefetch < 4; prefetch++) {
        struct maker m = {.fail_at = 3, .with = KILN_E_IO};
        kiln_loader *l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 2, .prefetch = prefetch));
        kiln_loader_add_fn(l, KILN_I32, KILN_SHAPE(6, 2), make_sample, &m);
        int32_t got[4];
        next_one(l, got, sizeof got, KILN_I32);
        for (int attempt = 0; attempt < 2; attempt++) {
            kiln_tensor *t = NULL;
            bool more = true;
            assert_int_equal(kiln_loader_next(l, &t, 1, &more), KILN_E_IO);
            assert_null(t);
            assert_false(more);
            // While it is pending the loader does nothing.
            assert_int_equal(kiln_loader_next(l, &t, 1, &more), KILN_E_IO);
            assert_error(KILN_E_IO, "loader: the function of field 0 failed on sample 3 with KILN_E_IO");
        }
        kiln_loader_state s = {.size = sizeof s};
        assert_int_equal(kiln_loader_get_state(l, &s), KILN_OK);
        assert_int_equal(s.position, 2);
        // The cause is gone: the loader goes on where it was. No thread runs between an error and the next call.
        m.fail_at = -1;
        next_one(l, got, sizeof got, KILN_I32);
        assert_int_equal(got[0], 2);
        next_one(l, got, sizeof got, KILN_I32);
        assert_int_equal(got[0], 4);
        kiln_loader_free(&l);

        m = (struct maker){.fail_at = 0};
        l = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 2, .prefetch = prefetch));
        kiln_loader_add_fn(l, KILN_I32, KILN_SHAPE(6, 2), make_sample, &m);
        kiln_tensor *t = NULL;
        bool more = true;
        assert_int_equal(kiln_loader_next(l, &t, 1, &more), KILN_E_ARGUMENT);
        assert_error(KILN_E_ARGUMENT, "NULL");
        kiln_loader_free(&l);
    }
}

// --- misuse

static void misuse_is_named(void **state)
{
    const int32_t v[6] = {0};
    kiln_tensor *t = kiln_from_data(dev, KILN_I32, KILN_SHAPE(6), v);
    kiln_tensor *u = kiln_from_data(dev, KILN_I32, KILN_SHAPE(3, 2), v);
    kiln_tensor *scalar = kiln_from_data(dev, KILN_I32, KILN_SHAPE0, v);
    assert_null(kiln_loader_create(dev, (kiln_tensor *[]){t, u}, 2, NULL));
    assert_error(KILN_E_SHAPE, "field 1 has 3 samples, those before it have 6");
    assert_null(kiln_loader_create(dev, &scalar, 1, NULL));
    assert_error(KILN_E_SHAPE, "rank 0");
    assert_null(kiln_loader_create(dev, (kiln_tensor *[]){NULL}, 1, NULL));
    assert_error(KILN_E_ARGUMENT, "tensor 0 is NULL");
    assert_null(kiln_loader_create(dev, NULL, 1, NULL));
    assert_error(KILN_E_ARGUMENT, "list of tensors");
    assert_null(kiln_loader_create(dev, &t, 1, KILN_LOADER(.batch = -4)));
    assert_error(KILN_E_ARGUMENT, "-4 samples");
    assert_null(kiln_loader_create(dev, &t, 1, KILN_LOADER(.prefetch = -2)));
    assert_error(KILN_E_ARGUMENT, "prefetch is -2");

    kiln_loader *l = kiln_loader_create(dev, NULL, 0, NULL);
    kiln_tensor *out[2] = {t, t};
    bool more = true;
    assert_int_equal(kiln_loader_next(l, out, 1, &more), KILN_E_STATE);
    assert_error(KILN_E_STATE, "no fields");
    kiln_loader_add_host(l, KILN_I32, KILN_SHAPE(INT64_MAX / 16, 4), v);
    assert_error(KILN_E_SHAPE, "overflows");
    kiln_loader_add_host(l, KILN_I32, KILN_SHAPE(-1), v);
    assert_error(KILN_E_SHAPE, "-1");
    kiln_loader_add_host(l, KILN_I32, KILN_SHAPE(6), NULL);
    assert_error(KILN_E_ARGUMENT, "the data is NULL");
    kiln_loader_add_fn(l, KILN_I32, KILN_SHAPE(6), NULL, NULL);
    assert_error(KILN_E_ARGUMENT, "the function is NULL");
    assert_int_equal(kiln_loader_add_host(l, KILN_I32, KILN_SHAPE(6), v), KILN_OK);
    kiln_loader_convert(l, 1, KILN_F32, NULL);
    assert_error(KILN_E_ARGUMENT, "there is no field 1");
    kiln_loader_convert(l, 0, KILN_U8, NULL);
    assert_error(KILN_E_DTYPE, "from i32 to u8");
    kiln_loader_next(l, out, 2, &more);
    assert_error(KILN_E_ARGUMENT, "2 outputs for 1 fields");
    assert_int_equal(kiln_loader_next(l, out, 1, &more), KILN_OK);
    kiln_free(&out[0]);
    kiln_loader_convert(l, 0, KILN_F32, NULL);
    assert_error(KILN_E_STATE, "has given batches");
    kiln_loader_add_host(l, KILN_I32, KILN_SHAPE(6), v);
    assert_error(KILN_E_STATE, "has given batches");
    kiln_loader_free(&l);
    kiln_loader_free(&l);
    kiln_loader_free(NULL);
    kiln_loader_next(NULL, out, 1, &more);
    assert_error(KILN_E_ARGUMENT, "the loader is NULL");
    kiln_free(&t);
    kiln_free(&u);
    kiln_free(&scalar);
}

static void empty_sets_end_at_once(void **state)
{
    for (int64_t prefetch = -1; prefetch < 2; prefetch++) {
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            kiln_loader *l = number_loader(0, KILN_LOADER(.batch = 4, .shuffle = shuffle, .prefetch = prefetch));
            int32_t none[1];
            assert_int_equal(kiln_loader_batches(l), 0);
            for (int epoch = 0; epoch < 3; epoch++) assert_int_equal(take_numbers(l, none), 0);
            kiln_loader_free(&l);
        }
    }
}

// A loader is freed at any time: before its first batch, and while its thread works or waits.
static void loaders_are_freed_at_any_time(void **state)
{
    for (int taken = 0; taken < 6; taken++) {
        kiln_loader *l = number_loader(10, KILN_LOADER(.batch = 3, .shuffle = true, .prefetch = 3));
        int32_t got[10];
        static const int sizes[] = {3, 3, 3, 1, 0, 3};
        for (int i = 0; i < taken; i++) assert_int_equal(take_numbers(l, got), sizes[i]);
        kiln_loader_free(&l);
        assert_null(l);
    }
}

// Batches belong to the scope of the caller.
static void batches_belong_to_the_scope(void **state)
{
    kiln_loader *l = number_loader(4, NULL);
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *batch[2];
    bool more;
    for (int i = 0; i < 4; i++) assert_int_equal(kiln_loader_next(l, batch, 2, &more), KILN_OK);
    assert_true(more);
    kiln_scope_end(&scope);
    kiln_loader_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(epochs_hold_each_sample_once, clear_error),
        cmocka_unit_test_teardown(order_is_kept_without_shuffling, clear_error),
        cmocka_unit_test_teardown(orders_depend_on_seed_and_epoch, clear_error),
        cmocka_unit_test_teardown(orders_are_even, clear_error),
        cmocka_unit_test_teardown(states_resume, clear_error),
        cmocka_unit_test_teardown(images_become_floats, clear_error),
        cmocka_unit_test_teardown(numbers_saturate, clear_error),
        cmocka_unit_test_teardown(dtypes_pass, clear_error),
        cmocka_unit_test_teardown(functions_make_samples, clear_error),
        cmocka_unit_test_teardown(failures_reach_the_asking_thread, clear_error),
        cmocka_unit_test_teardown(misuse_is_named, clear_error),
        cmocka_unit_test_teardown(empty_sets_end_at_once, clear_error),
        cmocka_unit_test_teardown(loaders_are_freed_at_any_time, clear_error),
        cmocka_unit_test_teardown(batches_belong_to_the_scope, clear_error),
    };
    return cmocka_run_group_tests_name("data", tests, open_device, close_device);
}
