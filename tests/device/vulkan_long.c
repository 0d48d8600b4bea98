// Rows of millions of elements: a driver that bounds the loops of an invocation, as llvmpipe does at 65535 turns of all
// its loops together, must not leave any of them out.
#include "vulkan_fixture.h"

#include <kiln/kiln.h>

enum { LONG = 9000000 };

static void positions_are_all_there(void **state)
{
    int64_t n = LONG;
    int32_t *host = malloc((size_t)n * 4);
    kiln_tensor *x = kiln_arange(dev, KILN_I32, 0, (double)n, 1);
    assert_non_null(host);
    assert_ok(kiln_read(x, host, (size_t)n * 4));
    for (int64_t i = 0; i < n; i++)
        if (host[i] != i) fail_msg("element %lld is %d", (long long)i, host[i]);
    free(host);
}

static void long_rows_are_folded_to_their_end(void **state)
{
    kiln_tensor *x = kiln_arange(dev, KILN_I32, 0, LONG, 1);
    kiln_tensor *ones = kiln_ones(dev, KILN_U8, KILN_SHAPE(LONG));
    assert_int_equal(kiln_item_int(kiln_sum(ones, NULL)), LONG);
    assert_int_equal(kiln_item_int(kiln_max(x, NULL)), LONG - 1);
    assert_int_equal(kiln_item_int(kiln_argmax(x, NULL)), LONG - 1);
    assert_ok(kiln_error());
}

static void long_columns_are_folded_to_their_end(void **state)
{
    int64_t sums[4];
    kiln_tensor *x = kiln_ones(dev, KILN_U8, KILN_SHAPE(LONG / 4, 4));
    kiln_tensor *y = kiln_sum(x, KILN_REDUCE(.axes = KILN_AXES(0)));
    assert_int_equal(kiln_tensor_dtype(y), KILN_I64);
    assert_ok(kiln_read(y, sums, sizeof sums));
    for (int i = 0; i < 4; i++) assert_int_equal(sums[i], LONG / 4);
}

// Three passes over the row: each has a share in the bound.
static void a_long_softmax_sums_to_one(void **state)
{
    kiln_tensor *y = kiln_softmax(kiln_zeros(dev, KILN_F32, KILN_SHAPE(1, LONG)), -1);
    kiln_tensor *ends = kiln_slice(y, KILN_SLICE(.start = KILN_ARGS(0, LONG - 1), .stop = KILN_ARGS(1, LONG)));
    assert_float_equal(kiln_item(ends) * LONG, 1, 1e-5);
    assert_float_equal(kiln_item(kiln_sum(y, NULL)), 1, 1e-4);
    assert_ok(kiln_error());
}

// One workgroup more than a grid has along x: the grid is folded, and nearly half of its workgroups have no point.
static void a_folded_grid_writes_nothing_beyond(void **state)
{
    const int64_t n = INT64_C(65536) * 1024, guard = 1 << 20, one[] = {1};
    uint8_t *host = malloc((size_t)(n + guard));
    assert_non_null(host);
    memset(host, 7, (size_t)(n + guard));
    struct block out = block_new((uint64_t)(n + guard), host);
    for (int64_t i = 0; i < n; i++) host[i] = (uint8_t)(i * 5 >> 3);
    struct block in = block_new((uint64_t)n, host);
    struct launch l = launch_new("copy", CLASS_I32, 1, &n);
    add_operand(&l, &in, KILN_U8, 0, one, false);
    add_operand(&l, &out, KILN_U8, 0, one, true);
    assert_ok(dev->ops->launch(dev, &l));
    assert_ok(device_download(dev, host, out.address, (uint64_t)(n + guard)));
    for (int64_t i = 0; i < n + guard; i++)
        if (host[i] != (i < n ? (uint8_t)(i * 5 >> 3) : 7)) fail_msg("byte %lld is %d", (long long)i, host[i]);
    device_release(dev, &in);
    device_release(dev, &out);
    free(host);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)

static kiln_scope *scope;

static int open_scope(void **state)
{
    if (open_device(state)) return -1;
    scope = kiln_scope_begin();
    return scope ? 0 : -1;
}

static int close_scope(void **state)
{
    kiln_scope_end(&scope);
    return close_device(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(positions_are_all_there),
        CASE(long_rows_are_folded_to_their_end),
        CASE(long_columns_are_folded_to_their_end),
        CASE(a_long_softmax_sums_to_one),
        CASE(a_folded_grid_writes_nothing_beyond),
    };
    return cmocka_run_group_tests_name("long rows on Vulkan", tests, NULL, NULL);
}
