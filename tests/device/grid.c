// How work is laid out on devices of many lanes.
#include "ir/grid.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_folded_grid_holds_all_groups(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < UINT64_C(65535) * 65535; n = n * 9 / 8 + 1) {
        uint32_t g[3];
        grid_fold(n, g);
        assert_true(g[0] <= 65535 && g[1] <= 65535 && g[2] == 1);
        assert_true((uint64_t)g[0] * g[1] >= n && (uint64_t)g[0] * g[1] < n + 65535);
    }
}

static void tiles_of_products(void **state)
{
    (void)state;
    static const struct {
        uint32_t parallelism, m, n, batches;
        bool wide;
        uint32_t tile;
    } rows[] = {
        {1024, 4096, 4096, 1, false, 128},   // large enough
        {1024, 4096, 4096, 1, true, 64},     // values of 64 bits
        {1 << 17, 2048, 2048, 1, false, 64}, // 256 squares of 128 would leave lanes idle
        {1 << 17, 1024, 1024, 8, false, 128}, {1024, 64, 4096, 1, false, 64}, // half of each square would lie outside
        {1 << 17, 16, 16, 1, false, 32},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct device_caps caps = {.parallelism = rows[i].parallelism};
        assert_int_equal(grid_tile(&caps, rows[i].m, rows[i].n, rows[i].batches, rows[i].wide), rows[i].tile);
    }
}

static void tiles_that_were_measured(void **state)
{
    (void)state;
    struct grid_tiles t = {0};
    struct device_caps caps = {.parallelism = 1024, .tiles = &t};
    *grid_tuned(&t, 512, 64, 1) = 5;
    // Sizes of a class: (256, 512] by (32, 64]; others, and values of 64 bits, go by estimates.
    assert_int_equal(grid_tile(&caps, 512, 64, 1, false), 32);
    assert_int_equal(grid_tile(&caps, 257, 33, 1, false), 32);
    assert_int_equal(grid_tile(&caps, 513, 64, 1, false), 64);
    assert_int_equal(grid_tile(&caps, 512, 64, 1, true), 64);
    assert_int_equal(grid_tile(&caps, 512, 64, 16, false), 64);
    for (uint64_t m = 1; m < UINT64_C(1) << 40; m *= 2)
        for (uint64_t b = 1; b < UINT64_C(1) << 40; b *= 2) {
            uint8_t *at = grid_tuned(&t, m, m, b);
            assert_true(at >= &t.log2[0][0][0] && at < &t.log2[0][0][0] + sizeof t.log2);
        }
}

static void runs_of_products(void **state)
{
    (void)state;
    struct device_caps gpu = {.parallelism = 1 << 16}, processor = {.parallelism = 64};
    for (uint32_t tile = 32; tile <= 128; tile *= 2) {
        assert_int_equal(grid_tile_run(&processor, tile, true), 1);
        assert_int_equal(grid_tile_run(&gpu, tile, false), 1);
        uint32_t run = grid_tile_run(&gpu, tile, true);
        assert_true(run > 1 && 16 % run == 0); // the depth of a slice
    }
}

static void workgroups_that_share_a_row(void **state)
{
    (void)state;
    static const struct {
        uint32_t parallelism, max_turns;
        struct grid_rows rows;
        uint32_t splits;
    } cases[] = {
        {1 << 17, 0, {1, 4000, 256, 256, false}, 1},       // short
        {1 << 17, 0, {256, 1 << 20, 256, 256, false}, 4},  // as many as fill the device twice
        {1 << 17, 0, {257, 1 << 20, 256, 256, false}, 1},  // half of the device is at work
        {1 << 17, 0, {1, 16384, 256, 256, false}, 4},      // 16 elements for each lane
        {1 << 17, 0, {1, 1 << 24, 256, 256, false}, 1024}, // four parts for each lane to combine
        {1 << 17, 0, {1, 1 << 24, 16, 512, true}, 128},    // ... eight in columns
        {1024, 0, {1, 1 << 24, 8, 64, false}, 32},
        {1024, 1 << 15, {1, 1 << 24, 8, 64, false}, 64},   // no lane's loop is longer than it may be
        {1024, 1 << 15, {1000, 1 << 20, 8, 64, false}, 4}, // ... though the device is full
        {1024, 1 << 15, {0, 1 << 10, 8, 64, false}, 1},
        {1024, 1 << 15, {4, 0, 8, 64, false}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct device_caps caps = {.parallelism = cases[i].parallelism, .max_turns = cases[i].max_turns};
        assert_int_equal(grid_splits(&caps, &cases[i].rows), cases[i].splits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_folded_grid_holds_all_groups),
                                       cmocka_unit_test(tiles_of_products), cmocka_unit_test(runs_of_products),
                                       cmocka_unit_test(tiles_that_were_measured),
                                       cmocka_unit_test(workgroups_that_share_a_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
