// DLPack: memory of others as tensors and tensors for others, with every call of a deleter counted.
#include <kiln/dlpack_structs.h>
#include <kiln/kiln.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kiln_device *cpu, *other;
static int deleted;

struct theirs {
    DLManagedTensor plain;
    DLManagedTensorVersioned versioned;
    int64_t shape[20], strides[20];
    char *data;
};

static void delete_plain(DLManagedTensor *m)
{
    struct theirs *t = m->manager_ctx;
    deleted++;
    free(t->data);
    free(t);
}

static void delete_versioned(DLManagedTensorVersioned *m)
{
    struct theirs *t = m->manager_ctx;
    deleted++;
    free(t->data);
    free(t);
}

// n elements that count up from 0, where they are f32, in a block of their own, so that ASan sees what is read beside
// it.
static struct theirs *make(size_t size_B, int code, int bits, int rank, const int64_t *shape, const int64_t *strides)
{
    struct theirs *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->data = malloc(size_B);
    assert_non_null(t->data);
    memset(t->data, 0, size_B);
    for (size_t i = 0; code == kDLFloat && bits == 32 && i < size_B / 4; i++) ((float *)(void *)t->data)[i] = (float)i;
    for (int i = 0; i < rank; i++) t->shape[i] = shape[i];
    for (int i = 0; strides && i < rank; i++) t->strides[i] = strides[i];
    DLTensor d = {.data = t->data,
                  .device = {kDLCPU, 0},
                  .ndim = rank,
                  .dtype = {(uint8_t)code, (uint8_t)bits, 1},
                  .shape = t->shape,
                  .strides = strides ? t->strides : NULL};
    t->plain = (DLManagedTensor){.dl_tensor = d, .manager_ctx = t, .deleter = delete_plain};
    t->versioned =
        (DLManagedTensorVersioned){.version = {1, 1}, .manager_ctx = t, .deleter = delete_versioned, .dl_tensor = d};
    deleted = 0;
    return t;
}

static struct theirs *floats(size_t n, int rank, const int64_t *shape, const int64_t *strides)
{
    return make(4 * n, kDLFloat, 32, rank, shape, strides);
}

static void expect(const kiln_tensor *t, const float *want, size_t n)
{
    float got[64];
    assert_non_null(t);
    assert_int_equal(kiln_numel(t), n);
    assert_int_equal(kiln_read(t, got, 4 * n), KILN_OK);
    assert_memory_equal(got, want, 4 * n);
}

static void expect_error(kiln_status code, const char *text)
{
    if (kiln_error() != code || !strstr(kiln_error_message(), text))
        fail_msg("expected %s, \"%s\", got %s", kiln_status_name(code), text, kiln_error_message());
    kiln_error_clear();
}

static void memory_is_shared(void **state)
{
    struct theirs *theirs = floats(12, 2, (int64_t[]){3, 4}, NULL);
    kiln_tensor *t = kiln_from_dlpack(cpu, &theirs->plain);
    ((float *)(void *)theirs->data)[1] = 100;
    expect(t, (float[]){0, 100, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 12);
    kiln_tensor *view = kiln_transpose(t, 0, 1);
    kiln_free(&t);
    assert_int_equal(deleted, 0);
    expect(kiln_add(view, kiln_scalar(1)), (float[]){1, 5, 9, 101, 6, 10, 3, 7, 11, 4, 8, 12}, 12);
    kiln_free(&view);
    assert_int_equal(kiln_error(), KILN_OK);
    assert_int_equal(deleted, 1);
}

static void strides_stay(void **state)
{
    struct theirs *theirs = floats(12, 2, (int64_t[]){4, 2}, (int64_t[]){1, 4});
    theirs->versioned.dl_tensor.byte_offset = 16;
    kiln_tensor *t = kiln_from_dlpack_versioned(cpu, &theirs->versioned);
    expect(t, (float[]){4, 8, 5, 9, 6, 10, 7, 11}, 8);
    assert_int_equal(kiln_strides(t)[0], 1);
    DLManagedTensor *ours = kiln_to_dlpack(t);
    assert_non_null(ours);
    assert_ptr_equal(ours->dl_tensor.data, theirs->data + 16);
    assert_true(ours->dl_tensor.ndim == 2 && ours->dl_tensor.strides[1] == 4 && ours->dl_tensor.shape[0] == 4);
    kiln_free(&t);
    assert_int_equal(deleted, 0);
    kiln_tensor *again = kiln_from_dlpack(cpu, ours);
    expect(again, (float[]){4, 8, 5, 9, 6, 10, 7, 11}, 8);
    kiln_free(&again);
    assert_int_equal(deleted, 1);
}

static void odd_memory_is_copied(void **state)
{
    for (int k = 0; k < 5; k++) {
        struct theirs *theirs = floats(8, 1, (int64_t[]){k == 3 ? 0 : 4}, (int64_t[]){k == 0 ? -1 : k == 4 ? 0 : 1});
        DLTensor *d = &theirs->versioned.dl_tensor;
        d->byte_offset = k == 0 ? 28 : k == 1 ? 1 : 0;
        if (k == 1) memmove(theirs->data + 1, theirs->data, 16);
        if (k == 2) theirs->versioned.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
        if (k == 3) d->data = NULL;
        kiln_tensor *t = kiln_from_dlpack_versioned(cpu, &theirs->versioned);
        assert_int_equal(deleted, k < 4);
        static const float want[5][4] = {{7, 6, 5, 4}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0}, {0}};
        expect(t, want[k], k == 3 ? 0 : 4);
        kiln_free(&t);
        assert_int_equal(deleted, 1);
    }
}

static void dtypes_go_both_ways(void **state)
{
    static const struct {
        kiln_dtype dtype;
        int code, bits;
    } kinds[] = {{KILN_BOOL, 6, 8},    {KILN_U8, 1, 8},   {KILN_I8, 0, 8},     {KILN_I16, 0, 16},
                 {KILN_I32, 0, 32},    {KILN_I64, 0, 64}, {KILN_F16, 2, 16},   {KILN_BF16, 4, 16},
                 {KILN_F32, 2, 32},    {KILN_F64, 2, 64}, {KILN_U16, 1, 16},   {KILN_U32, 1, 32},
                 {KILN_U64, 1, 64},    {KILN_C64, 5, 64}, {KILN_C128, 5, 128}, {KILN_F8_E4M3, 10, 8},
                 {KILN_F8_E5M2, 12, 8}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct theirs *theirs =
            make(6 * (size_t)kinds[i].bits / 8, kinds[i].code, kinds[i].bits, 2, (int64_t[]){2, 3}, NULL);
        kiln_tensor *t = kiln_from_dlpack(cpu, &theirs->plain);
        assert_non_null(t);
        assert_int_equal(kiln_tensor_dtype(t), kinds[i].dtype);
        assert_true(kiln_rank(t) == 2 && kiln_dims(t)[1] == 3);
        DLManagedTensorVersioned *ours = kiln_to_dlpack_versioned(t);
        assert_non_null(ours);
        assert_true(ours->version.major == 1 && ours->dl_tensor.dtype.code == kinds[i].code);
        assert_true(ours->dl_tensor.dtype.bits == kinds[i].bits && ours->dl_tensor.ndim == 2);
        assert_true(ours->dl_tensor.strides[0] == 3 && ours->dl_tensor.strides[1] == 1);
        kiln_free(&t);
        assert_int_equal(deleted, 0);
        ours->deleter(ours);
        assert_int_equal(deleted, 1);
    }
}

static void what_does_not_fit_stays_theirs(void **state)
{
    for (int k = 0; k < 9; k++) {
        struct theirs *theirs = floats(4, 1, (int64_t[]){4}, (int64_t[]){1});
        DLManagedTensorVersioned *m = &theirs->versioned;
        DLTensor *d = &m->dl_tensor;
        if (k == 0) d->device.device_type = kDLCUDA;
        if (k == 1) d->dtype.lanes = 4;
        if (k == 2) d->dtype.bits = 24;
        if (k == 3) d->ndim = 17;
        if (k == 4) theirs->shape[0] = -1;
        if (k == 5) theirs->shape[0] = INT64_MAX, theirs->strides[0] = 0;
        if (k == 6) theirs->strides[0] = INT64_MAX;
        if (k == 7) d->data = NULL;
        if (k == 8) m->version.major = 2;
        static const struct {
            kiln_status code;
            const char *text;
        } want[] = {{KILN_E_DEVICE_MISMATCH, "DLPack's type 2"},
                    {KILN_E_DTYPE, "4 lanes"},
                    {KILN_E_DTYPE, "24 bits"},
                    {KILN_E_SHAPE, "17 dimensions"},
                    {KILN_E_SHAPE, "is negative: -1"},
                    {KILN_E_SHAPE, ""},
                    {KILN_E_SHAPE, "overflow"},
                    {KILN_E_ARGUMENT, "the data is NULL"},
                    {KILN_E_UNSUPPORTED, "version 2.1"}};
        assert_null(kiln_from_dlpack_versioned(cpu, m));
        expect_error(want[k].code, want[k].text);
        assert_int_equal(deleted, 0);
        m->deleter(m);
    }
    assert_null(kiln_from_dlpack(cpu, NULL));
    expect_error(KILN_E_ARGUMENT, "theirs is NULL");
    assert_null(kiln_from_dlpack_versioned(cpu, NULL));
    expect_error(KILN_E_ARGUMENT, "theirs is NULL");
    assert_null(kiln_to_dlpack(NULL));
    expect_error(KILN_E_ARGUMENT, "t is NULL");
    assert_null(kiln_to_dlpack(kiln_ones(cpu, KILN_I4, KILN_SHAPE(2))));
    expect_error(KILN_E_DTYPE, "two lie in a byte");
}

// Numbers without memory, and values that are not computed yet.
static void what_is_pending_is_computed(void **state)
{
    DLManagedTensor *one = kiln_to_dlpack(kiln_scalar(2.5));
    assert_non_null(one);
    assert_true(one->dl_tensor.ndim == 0 && *(float *)one->dl_tensor.data == 2.5f);
    one->deleter(one);
    kiln_tensor *x = kiln_arange(cpu, KILN_F32, 0, 3, 1), *y = kiln_mul(x, x);
    DLManagedTensor *m = kiln_to_dlpack(y);
    kiln_free(&y);
    assert_memory_equal(m->dl_tensor.data, ((float[]){0, 1, 4}), 12);
    m->deleter(m);
}

static void writes_and_programs(void **state)
{
    struct theirs *theirs = floats(4, 1, (int64_t[]){4}, NULL);
    kiln_tensor *t = kiln_from_dlpack(cpu, &theirs->plain), *old = kiln_contiguous(t);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *next = kiln_add(t, kiln_scalar(1));
        assert_int_equal(kiln_assign(t, next), KILN_OK);
    }
    expect(t, (float[]){3, 4, 5, 6}, 4);
    expect(old, (float[]){0, 1, 2, 3}, 4);
    kiln_free(&t);
    assert_int_equal(kiln_error(), KILN_OK);
    assert_int_equal(deleted, 1);
}

static void other_devices_copy(void **state)
{
    if (!other) skip();
    struct theirs *theirs = floats(6, 2, (int64_t[]){2, 3}, (int64_t[]){1, 2});
    kiln_tensor *t = kiln_from_dlpack(other, &theirs->plain);
    assert_int_equal(deleted, 1);
    expect(t, (float[]){0, 2, 4, 1, 3, 5}, 6);
    assert_null(kiln_to_dlpack(t));
    expect_error(KILN_E_DEVICE_MISMATCH, "kiln_to_device first");
    kiln_free(&t);
}

static int open_all(void **state)
{
    cpu = kiln_device_open("cpu");
    const char *name = getenv("KILN_DEVICE");
    if (name && strcmp(name, "cpu")) other = kiln_device_open(name);
    return cpu && !kiln_set_device(cpu) && !kiln_error() ? 0 : -1;
}

static int close_all(void **state)
{
    if (other) kiln_device_close(&other);
    kiln_device_close(&cpu);
    return kiln_error() != KILN_OK;
}

static kiln_scope *scope;

static int begin(void **state)
{
    scope = kiln_scope_begin();
    return scope ? 0 : -1;
}

static int end(void **state)
{
    if (kiln_error()) print_error("%s\n", kiln_error_message());
    kiln_error_clear();
    kiln_scope_end(&scope);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(memory_is_shared),
        TEST(strides_stay),
        TEST(odd_memory_is_copied),
        TEST(dtypes_go_both_ways),
        TEST(what_does_not_fit_stays_theirs),
        TEST(what_is_pending_is_computed),
        TEST(writes_and_programs),
        TEST(other_devices_copy),
    };
    return cmocka_run_group_tests_name("dlpack", tests, open_all, close_all);
}
