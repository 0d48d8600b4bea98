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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_folded_grid_holds_all_groups),
                                       cmocka_unit_test(tiles_of_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
