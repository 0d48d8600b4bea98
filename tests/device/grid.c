// How work is laid out on devices of many lanes.
#include "ir/grid.h"
#include "ir/tile.h"
#include "scalar/scalar.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

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

#define ROOM .max_local = 1024, .max_shared_B = 32768

static struct tile start_of_product(const struct device_caps *caps, uint8_t cls, uint64_t m, uint64_t n,
                                    uint64_t batches)
{
    return tile_start(caps, &(struct tile_work){TILE_PRODUCT, cls, {m, n, batches}});
}

static void tiles_of_products(void **state)
{
    (void)state;
    static const struct {
        uint32_t parallelism, m, n, batches;
        enum scalar_class cls;
        uint32_t tile;
    } rows[] = {
        {1024, 4096, 4096, 1, CLASS_F32, 128},   // large enough
        {1024, 4096, 4096, 1, CLASS_I64, 64},    // values of 64 bits
        {1 << 17, 2048, 2048, 1, CLASS_F32, 64}, // 256 squares of 128 would leave lanes idle
        {1 << 17, 1024, 1024, 8, CLASS_I32, 128}, {1024, 64, 4096, 1, CLASS_F32, 64}, // half of each would lie outside
        {1 << 17, 16, 16, 1, CLASS_F64, 32},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct device_caps caps = {.parallelism = rows[i].parallelism, ROOM};
        uint64_t m = rows[i].m, n = rows[i].n, batches = rows[i].batches;
        assert_int_equal(start_of_product(&caps, rows[i].cls, m, n, batches).size, rows[i].tile);
        // What Vulkan asks for at least.
        caps.max_shared_B = 16384, caps.max_local = 128;
        struct tile t = start_of_product(&caps, rows[i].cls, m, n, batches);
        assert_true(t.size <= rows[i].tile && tile_fits(&caps, TILE_PRODUCT, (uint8_t)rows[i].cls, t));
    }
}

static void start_values_are_listed(void **state)
{
    (void)state;
    static const uint32_t devices[][2] = {{64, 8}, {1024, 8}, {1 << 13, 32}, {1 << 16, 32}, {1 << 17, 64}};
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct device_caps caps = {.parallelism = devices[d][0], .subgroup_size = devices[d][1], ROOM};
        for (uint32_t place = 0; place < TILE_PLACES; place++) {
            struct tile_work w = tile_largest_of(place);
            struct tile t = tile_start(&caps, &w);
            assert_int_not_equal(tile_number(w.kind, t), 0);
            assert_true(tile_fits(&caps, w.kind, w.cls, t));
            if (w.kind == TILE_POINT) continue;
            bool runs = w.kind == TILE_PRODUCT && (w.cls == CLASS_F32 || w.cls == CLASS_F64) && devices[d][0] >= 4096;
            assert_int_equal(t.run, runs ? 8 : 1);
            assert_true(16 % t.run == 0); // the depth of a slice
        }
    }
}

static struct tile start_of(uint32_t parallelism, enum tile_kind kind, uint64_t many, uint64_t length)
{
    struct device_caps caps = {.parallelism = parallelism, .subgroup_size = 32, ROOM};
    return tile_start(&caps, &(struct tile_work){kind, CLASS_F32, {many, length, 1}});
}

static void tiles_of_rows_and_points(void **state)
{
    (void)state;
    static const struct {
        uint32_t parallelism;
        enum tile_kind kind;
        uint64_t many, length;
        struct tile tile;
    } rows[] = {
        {1 << 17, TILE_ROW, 100, 8, {1, 1}},
        {1 << 17, TILE_ROW, 1, 128, {16, 1}},
        {1 << 17, TILE_ROW, 100, 1024, {64, 1}},
        {1 << 17, TILE_ROW, 100, 1025, {256, 1}},
        {1024, TILE_ROW, 15, 8, {1, 1}},
        {1024, TILE_ROW, 15, 1023, {8, 1}},
        {1024, TILE_ROW, 16, 1023, {1, 1}},
        {1024, TILE_ROW, 16, 1024, {8, 1}},
        {1 << 17, TILE_COLUMN, 64, 32, {1, 1}},
        {1 << 17, TILE_COLUMN, 64, 1000, {16, 1}},
        {1 << 17, TILE_COLUMN, 64, 200, {8, 1}},
        {1024, TILE_COLUMN, 1024, 1000, {1, 1}},
        {1024, TILE_COLUMN, 300, 1000, {4, 1}},
        {1 << 17, TILE_POINT, 65535, 4, {64, 1}},
        {1 << 17, TILE_POINT, 65536, 4, {256, 1}},
        {1 << 17, TILE_POINT, 16384, 1, {256, 1}},
        {1 << 17, TILE_POINT, 1 << 22, 4, {256, 4}},
        {1 << 17, TILE_POINT, 1 << 22, 1, {256, 1}},
        {1024, TILE_POINT, 1 << 22, 4, {256, 1}},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tile t = start_of(rows[i].parallelism, rows[i].kind, rows[i].many, rows[i].length);
        assert_int_equal(t.size, rows[i].tile.size);
        assert_int_equal(t.run, rows[i].tile.run);
    }
}

static void lists_of_tiles(void **state)
{
    (void)state;
    for (int kind = 0; kind < TILE_KINDS; kind++) {
        unsigned n = 1;
        for (struct tile t; (t = tile_of((enum tile_kind)kind, n)).size; n++) {
            assert_int_equal(tile_number((enum tile_kind)kind, t), n);
            assert_int_equal(t.size & (t.size - 1), 0);
        }
        assert_true(n > 3);
        assert_int_equal(tile_number((enum tile_kind)kind, (struct tile){48, 1}), 0);
        assert_int_equal(tile_number((enum tile_kind)kind, (struct tile){0, 0}), 0);
        assert_int_equal(tile_of((enum tile_kind)kind, 1000).size, 0);
        assert_int_equal(tile_of((enum tile_kind)kind, 0).size, 0);
    }
}

static uint32_t place_of(enum tile_kind kind, uint64_t a, uint64_t b, uint64_t c)
{
    return tile_place(&(struct tile_work){kind, CLASS_F32, {a, b, c}});
}

static void classes_of_work(void **state)
{
    (void)state;
    // Sizes of a class: (256, 512] by (32, 64].
    assert_int_equal(place_of(TILE_PRODUCT, 512, 64, 1), place_of(TILE_PRODUCT, 257, 33, 1));
    assert_int_not_equal(place_of(TILE_PRODUCT, 512, 64, 1), place_of(TILE_PRODUCT, 513, 64, 1));
    assert_int_not_equal(place_of(TILE_PRODUCT, 512, 64, 1), place_of(TILE_PRODUCT, 512, 65, 1));
    assert_int_not_equal(place_of(TILE_PRODUCT, 512, 64, 1), place_of(TILE_PRODUCT, 512, 64, 2));
    assert_int_not_equal(place_of(TILE_PRODUCT, 512, 64, 1), place_of(TILE_PRODUCT, 64, 512, 1));
    assert_int_not_equal(place_of(TILE_ROW, 8, 1000, 1), place_of(TILE_ROW, 9, 1000, 1));
    for (uint32_t place = 0; place < TILE_PLACES; place++) {
        struct tile_work w = tile_largest_of(place);
        bool can_be = w.kind == TILE_PRODUCT || (w.sizes[2] == 1 && (w.kind != TILE_POINT || w.sizes[1] <= 4));
        assert_int_equal(tile_place(&w) == place, can_be);
    }
    for (uint64_t m = 0; m < UINT64_C(1) << 62; m = m * 3 + 1)
        for (uint64_t b = 1; b < UINT64_C(1) << 40; b *= 2) {
            assert_true(place_of(TILE_PRODUCT, m, m, b) < TILE_PLACES);
            assert_true(place_of(TILE_ROW, m, b, 1) < TILE_PLACES);
        }
}

static void tiles_that_were_measured(void **state)
{
    (void)state;
    struct tile_table *t = calloc(1, sizeof *t);
    assert_non_null(t);
    struct device_caps caps = {.parallelism = 1024, .tiles = t, ROOM};
    struct tile_work w = {TILE_PRODUCT, CLASS_F32, {300, 40, 1}}, other = {TILE_PRODUCT, CLASS_F64, {300, 40, 1}};
    tile_set(t, tile_place(&w), tile_number(TILE_PRODUCT, (struct tile){32, 8}));
    assert_int_equal(tile_choose(&caps, &w).size, 32);
    assert_int_equal(tile_choose(&caps, &w).run, 8);
    assert_int_equal(tile_choose(&caps, &other).size, 64); // of other dtypes nothing was measured
    assert_int_equal(t->asked[tile_place(&w)], 0);
    t->notes = true;
    tile_choose(&caps, &other);
    assert_int_equal(t->asked[tile_place(&other)], 1);
    assert_int_equal(t->asked[tile_place(&w)], 0);
    free(t);
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
                                       cmocka_unit_test(tiles_of_products),
                                       cmocka_unit_test(start_values_are_listed),
                                       cmocka_unit_test(tiles_of_rows_and_points),
                                       cmocka_unit_test(lists_of_tiles),
                                       cmocka_unit_test(classes_of_work),
                                       cmocka_unit_test(tiles_that_were_measured),
                                       cmocka_unit_test(workgroups_that_share_a_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
