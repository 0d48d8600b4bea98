// What the heap keeps of memory that is free: bounded by what was lately in use, and all of it in a steady state.
#include "lifetime.h"

#include "device/device.h"

#define MiB (UINT64_C(1) << 20)

static uint64_t random_state;

static uint64_t random_below(uint64_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % n;
}

static uint64_t take_and_drop(uint64_t size_B)
{
    struct block b;
    assert_int_equal(device_alloc(dev, size_B, &b), KILN_OK);
    // Every page becomes resident.
    for (uint64_t i = 0; b.host && i < size_B; i += 4096) ((volatile char *)b.host)[i] = 1;
    device_release(dev, &b);
    return stats_now().heap_reserved_B;
}

static uint64_t resident_B(void)
{
    unsigned long long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%llu %llu", &pages, &resident), 2);
    fclose(f);
    return resident * 4096;
}

static void begin_bounded(uint64_t *reserved, uint64_t *resident)
{
    random_state = 7;
    assert_int_equal(kiln_device_trim(dev), KILN_OK);
    *reserved = stats_now().heap_reserved_B;
    *resident = resident_B();
}

// One block is alive at a time, of any size: three times the largest are enough.
void memory_kept_is_bounded_by_what_is_used(void **state)
{
    enum { LARGEST = 61 };
    uint64_t base_B, resident_base_B, most_B = 0;
    begin_bounded(&base_B, &resident_base_B);
    for (int i = 0; i < 300; i++) {
        uint64_t held_B = take_and_drop(1 + random_below(LARGEST * MiB)) - base_B;
        most_B = held_B > most_B ? held_B : most_B;
    }
    assert_true(most_B <= 3 * LARGEST * MiB);
    if (!strcmp(device_name, "cpu")) assert_true(resident_B() <= resident_base_B + 3 * LARGEST * MiB);
    // Growing, so that nothing kept is of use.
    begin_bounded(&base_B, &resident_base_B);
    for (uint64_t size_B = MiB; size_B <= LARGEST * MiB; size_B += MiB / 2) {
        uint64_t held_B = take_and_drop(size_B) - base_B, most = 3 * size_B > 96 * MiB ? 3 * size_B : 96 * MiB;
        if (held_B > most)
            fail_msg("%llu held at a size of %llu", (unsigned long long)held_B, (unsigned long long)size_B);
    }
    assert_int_equal(kiln_device_trim(dev), KILN_OK);
    assert_int_equal(stats_now().heap_reserved_B, base_B);
}

// Many blocks of a size, then of another: what was kept for one size serves the next.
void memory_of_one_size_serves_another(void **state)
{
    enum { BLOCKS = 64, PHASES = 24 };
    uint64_t base_B, resident_base_B, size_B = 24 << 10;
    static struct block blocks[BLOCKS];
    begin_bounded(&base_B, &resident_base_B);
    for (int phase = 0; phase < PHASES; phase++, size_B += size_B / 6) {
        for (int i = 0; i < BLOCKS; i++) assert_int_equal(device_alloc(dev, size_B, &blocks[i]), KILN_OK);
        uint64_t held_B = stats_now().heap_reserved_B - base_B, used_B = BLOCKS * size_B;
        for (int i = 0; i < BLOCKS; i++) device_release(dev, &blocks[i]);
        assert_true(held_B <= 2 * used_B + 48 * MiB);
    }
}

// A step of many phases, each with sizes of its own. Once it has run some times the system is not asked again.
static void steady_step(uint64_t scale_B)
{
    enum { LIVE = 12 };
    struct block live[LIVE] = {{0}};
    random_state = scale_B;
    for (int i = 0; i < 400; i++) {
        struct block *b = &live[random_below(LIVE)];
        device_release(dev, b);
        assert_int_equal(device_alloc(dev, 1 + random_below(i / 100 % 2 ? scale_B : scale_B / 16), b), KILN_OK);
    }
    for (int i = 0; i < LIVE; i++) device_release(dev, &live[i]);
}

void a_steady_state_takes_nothing_from_the_system(void **state)
{
    const uint64_t scales_B[] = {40 << 10, MiB, 20 * MiB};
    for (size_t k = 0; k < sizeof scales_B / sizeof scales_B[0]; k++) {
        assert_int_equal(kiln_device_trim(dev), KILN_OK);
        for (int i = 0; i < 20; i++) steady_step(scales_B[k]);
        kiln_device_stats warm = stats_now();
        for (int i = 0; i < 100; i++) steady_step(scales_B[k]);
        assert_int_equal(stats_now().heap_allocs, warm.heap_allocs);
        assert_int_equal(stats_now().heap_reserved_B, warm.heap_reserved_B);
    }
}

void what_nothing_uses_any_more_is_given_back(void **state)
{
    uint64_t base_B, resident_base_B;
    begin_bounded(&base_B, &resident_base_B);
    assert_true(take_and_drop(256 * MiB) >= base_B + 256 * MiB);
    uint64_t held_B = 0;
    for (int i = 0; i < 20000; i++) held_B = take_and_drop(40 << 10) - base_B;
    assert_true(held_B <= 48 * MiB);
}

// Blocks that are alive do not overlap, whatever was freed between.
void blocks_are_apart(void **state)
{
    enum { LIVE = 200 };
    static struct block live[LIVE];
    random_state = 3;
    for (int i = 0; i < 20000; i++) {
        struct block *b = &live[random_below(LIVE)];
        device_release(dev, b);
        uint64_t most_B = UINT64_C(1) << (1 + random_below(22));
        assert_int_equal(device_alloc(dev, 1 + random_below(most_B), b), KILN_OK);
        assert_int_equal(b->address % 256, 0);
        for (int k = 0; k < LIVE; k++) {
            if (&live[k] == b || !live[k].slab) continue;
            assert_true(live[k].address + live[k].size_B <= b->address || b->address + b->size_B <= live[k].address);
        }
    }
    for (int i = 0; i < LIVE; i++) {
        device_release(dev, &live[i]);
        live[i] = (struct block){0};
    }
    assert_int_equal(kiln_device_trim(dev), KILN_OK);
}
