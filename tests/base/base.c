// The base layer: error state, places of callers, log, arena, strings, arrays, hashes, 16-bit floats.
#include "base/arena.h"
#include "base/build_id.h"
#include "base/caller.h"
#include "base/chains.h"
#include "base/debug.h"
#include "base/float16.h"
#include "base/hash.h"
#include "base/process.h"
#include "base/str.h"
#include "base/vec.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int clear_error(void **state)
{
    kiln_error_clear();
    return 0;
}

// --- errors

static void first_error_stays(void **state)
{
    assert_int_equal(kiln_error(), KILN_OK);
    assert_string_equal(kiln_error_message(), "");
    assert_int_equal(error_set(KILN_E_SHAPE, "matmul: %d against %d", 3, 4), KILN_E_SHAPE);
    assert_int_equal(error_set(KILN_E_IO, "later"), KILN_E_SHAPE);
    assert_int_equal(kiln_error(), KILN_E_SHAPE);
    assert_int_equal(strncmp(kiln_error_message(), "matmul: 3 against 4", 19), 0);
    assert_null(strstr(kiln_error_message(), "later"));
    kiln_error_clear();
    assert_int_equal(kiln_error(), KILN_OK);
    assert_string_equal(kiln_error_message(), "");
    assert_int_equal(error_set(KILN_E_IO, "later"), KILN_E_IO);
}

static void error_names_the_line(void **state)
{
    char expected[64];
    int line = __LINE__ + 1;
    error_set(KILN_E_ARGUMENT, "no");
    snprintf(expected, sizeof expected, "no (base.c:%d)", line);
    assert_string_equal(kiln_error_message(), expected);
}

static int fail_when_asked(const void *a, const void *b)
{
    error_set(KILN_E_ARGUMENT, "compared");
    return 0;
}

// The C library lies between this file and the comparison; the place is still the innermost of the user's lines.
static void error_in_a_callback_names_the_callback(void **state)
{
    int items[2] = {1, 2};
    qsort(items, 2, sizeof items[0], fail_when_asked);
    assert_non_null(strstr(kiln_error_message(), "compared (base.c:"));
}

static void long_error_keeps_its_place(void **state)
{
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    error_set(KILN_E_FORMAT, "%s", text);
    const char *message = kiln_error_message();
    assert_true(strlen(message) < sizeof((struct error_record *)0)->text);
    const char *place = strstr(message, " (base.c:");
    assert_non_null(place);
    assert_int_equal(message[strlen(message) - 1], ')');
}

static void *fail_in_thread(void *out)
{
    error_set(KILN_E_IO, "loader: cut off");
    error_capture(out);
    return (void *)(intptr_t)kiln_error();
}

static void error_moves_between_threads(void **state)
{
    struct error_record record;
    pthread_t thread;
    void *after = NULL;
    assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, &record), 0);
    assert_int_equal(pthread_join(thread, &after), 0);
    assert_int_equal((intptr_t)after, KILN_OK);
    assert_int_equal(kiln_error(), KILN_OK);
    assert_int_equal(record.code, KILN_E_IO);
    assert_int_equal(error_raise(&record), KILN_E_IO);
    assert_int_equal(strncmp(kiln_error_message(), "loader: cut off (base.c:", 24), 0);
    kiln_error_clear();
    error_capture(&record);
    assert_int_equal(record.code, KILN_OK);
    assert_int_equal(error_raise(&record), KILN_OK);
}

static void statuses_have_names(void **state)
{
    assert_string_equal(kiln_status_name(KILN_OK), "KILN_OK");
    assert_string_equal(kiln_status_name(KILN_E_DEVICE_LOST), "KILN_E_DEVICE_LOST");
    assert_string_equal(kiln_status_name((kiln_status)12345), "unknown status");
}

static void place_without_debug_information(void **state)
{
    char text[CALLER_TEXT_MAX], tiny[4];
    assert_int_equal(caller_describe(0, text, sizeof text), 0);
    assert_string_equal(text, "");
    // The C library of the system carries no line tables.
    size_t len = caller_describe((uintptr_t)&qsort + 1, text, sizeof text);
    assert_int_equal(len, strlen(text));
    assert_true(strstr(text, "+0x") || strchr(text, ':'));
    assert_int_equal(caller_describe((uintptr_t)&qsort + 1, tiny, sizeof tiny), 3);
}

// --- log

struct heard {
    int count;
    char last[64];
};

static void listen(void *user, const char *message)
{
    struct heard *heard = user;
    heard->count++;
    snprintf(heard->last, sizeof heard->last, "%s", message);
}

static void warnings_are_told_once(void **state)
{
    struct heard heard = {0};
    kiln_set_log(listen, &heard);
    for (int i = 0; i < 10; i++) log_warn("fallback of %s", "sort");
    assert_int_equal(heard.count, 1);
    assert_string_equal(heard.last, "fallback of sort");
    log_warn("fallback of %s", "topk");
    assert_int_equal(heard.count, 2);
    for (int i = 0; i < 5000; i++) log_warn("flood %d", i);
    assert_in_range(heard.count, 500, 1024);
    kiln_set_log(listen, &heard);
    heard.count = 0;
    log_warn("fallback of %s", "sort");
    assert_int_equal(heard.count, 1);
    kiln_set_log(NULL, NULL);
}

static void debug_flags_are_whole_words(void **state)
{
    struct heard heard = {0};
    char value[8];
    size_t at = 0;
    kiln_set_log(listen, &heard);
    assert_true(debug_flag("guards"));
    assert_true(debug_flag("fuse-all"));
    assert_true(debug_flag("skip=cse"));
    assert_false(debug_flag("passes")); // only part of a word, and more than one
    assert_false(debug_flag("verify"));
    assert_true(debug_value("skip", &at, value, sizeof value));
    assert_string_equal(value, "cse");
    assert_true(debug_value("skip", &at, value, sizeof value));
    assert_string_equal(value, "dce");
    assert_false(debug_value("skip", &at, value, sizeof value));
    assert_int_equal(heard.count, 3); // pass, verify-all, skip
    kiln_set_log(NULL, NULL);
}

// --- memory

static void arena_gives_zeroed_aligned_memory(void **state)
{
    struct arena a;
    arena_init(&a);
    for (size_t size_B = 0; size_B < 9000; size_B += 37) {
        unsigned char *p = arena_alloc(&a, size_B);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < size_B; i++) assert_int_equal(p[i], 0);
        memset(p, 0xff, size_B);
    }
    assert_string_equal(arena_strdup(&a, "kiln"), "kiln");
    assert_string_equal(arena_strndup(&a, "kiln", 2), "ki");
    assert_string_equal(arena_strndup(&a, "kiln", 99), "kiln");
    arena_finish(&a);
    arena_finish(&a);
    arena_finish(NULL);
}

static void arena_gives_back_what_was_taken_since_a_mark(void **state)
{
    struct arena a;
    arena_init(&a);
    arena_rewind(&a, arena_mark(&a));
    assert_null(a.head);
    for (int n = 0; n < 3; n++) {
        char *kept = arena_strdup(&a, "kept");
        struct arena_mark mark = arena_mark(&a);
        struct arena_block *head = a.head;
        unsigned char *first = arena_alloc(&a, 64);
        memset(first, 0xff, 64);
        for (int i = 0; i < 4; i++) assert_non_null(arena_alloc(&a, 3000));
        arena_rewind(&a, mark);
        assert_ptr_equal(a.head, head);
        assert_string_equal(kept, "kept");
        unsigned char *again = arena_alloc(&a, 64);
        assert_ptr_equal(again, first);
        for (int i = 0; i < 64; i++) assert_int_equal(again[i], 0);
    }
    arena_finish(&a);
}

static void arena_says_when_memory_is_out(void **state)
{
    struct arena a;
    arena_init(&a);
    assert_null(arena_alloc(&a, SIZE_MAX - 3));
    assert_int_equal(kiln_error(), KILN_E_MEMORY);
    kiln_error_clear();
    assert_non_null(arena_alloc(&a, 8));
    arena_finish(&a);
}

static void str_grows(void **state)
{
    struct str s;
    str_init(&s);
    assert_string_equal(str_text(&s), "");
    str_add(&s, "a");
    str_addn(&s, "bcd", 2);
    str_addf(&s, "%d", 42);
    assert_string_equal(str_text(&s), "abc42");
    assert_int_equal(s.len, 5);
    str_addf(&s, "%*s", 1000, "end");
    assert_int_equal(s.len, 1005);
    assert_string_equal(str_text(&s) + 1002, "end");
    // A length of exactly the free room still leaves the terminator its place.
    for (int i = 0; i < 3000; i++) str_addn(&s, "y", 1);
    assert_int_equal(strlen(str_text(&s)), 4005);
    assert_int_equal(str_check(&s), KILN_OK);
    str_free(&s);
    str_free(&s);
    str_free(NULL);
}

static void str_failure_is_sticky(void **state)
{
    struct str s;
    str_init(&s);
    str_add(&s, "kept");
    str_addn(&s, "", SIZE_MAX - 8);
    assert_true(s.failed);
    str_add(&s, "lost");
    assert_string_equal(str_text(&s), ""); // and no piece of it passes for the whole
    assert_int_equal(str_check(&s), KILN_E_MEMORY);
    str_free(&s);
}

static void vec_grows(void **state)
{
    VEC(int) list = {0};
    for (int i = 0; i < 1000; i++) assert_int_equal(vec_push(&list, i * i), KILN_OK);
    assert_int_equal(list.n, 1000);
    for (int i = 0; i < 1000; i++) assert_int_equal(list.v[i], i * i);
    assert_int_equal(vec_reserve(&list, SIZE_MAX / 2), KILN_E_MEMORY);
    assert_int_equal(list.v[999], 999 * 999);
    vec_free(&list);
    assert_null(list.v);
    vec_free(&list);
}

// Lists by address against a plain array of (key, number).
static void chains_list_in_order(void **state)
{
    enum { KEYS = 300, NUMBERS = 4000 };
    static char keys[KEYS];
    static int key_of[NUMBERS];
    struct chains c = {0};
    assert_int_equal(chains_first(&c, keys), -1);
    for (int i = 0; i < NUMBERS; i++) {
        key_of[i] = (i * 7919 + i / 3) % KEYS;
        if (key_of[i] % 10 == 0) key_of[i] = -1; // in no list
        assert_int_equal(chains_add(&c, key_of[i] < 0 ? NULL : &keys[key_of[i]], i), KILN_OK);
    }
    for (int k = 0; k < KEYS; k++) {
        int at = chains_first(&c, &keys[k]);
        for (int i = 0; i < NUMBERS; i++) {
            if (key_of[i] != k) continue;
            assert_int_equal(at, i);
            at = chains_next(&c, at);
        }
        assert_int_equal(at, -1);
    }
    assert_int_equal(chains_first(&c, NULL), -1);
    chains_finish(&c);
    assert_int_equal(chains_first(&c, &keys[1]), -1);
}

// --- hash

static void hash_tells_apart(void **state)
{
    static const unsigned char zeros[64];
    enum { COUNT = 65 };
    uint64_t seen[COUNT];
    for (size_t n = 0; n < COUNT; n++) seen[n] = hash_bytes(0, zeros, n);
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < i; j++) assert_int_not_equal(seen[i], seen[j]);
    }
    assert_int_equal(hash_str("relu"), hash_bytes(0, "relu", 4));
    assert_int_not_equal(hash_str("relu"), hash_str("rely"));
    assert_int_not_equal(hash_u64(hash_u64(0, 1), 2), hash_u64(hash_u64(0, 2), 1));
}

// Neighbouring keys must fill a table evenly: 64 buckets, 6,400 keys, each within four deviations of 100.
static void hash_spreads(void **state)
{
    int buckets[64] = {0};
    for (uint64_t i = 0; i < 6400; i++) buckets[hash_u64(0, i) & 63]++;
    for (size_t i = 0; i < COUNT_OF(buckets); i++) assert_in_range(buckets[i], 60, 140);
}

// --- builds

static const char test_names[] = "in this program";

static void builds_have_ids(void **state)
{
    struct str a, b, c;
    str_init(&a);
    str_init(&b);
    str_init(&c);
    build_id_add(&a, test_names);
    build_id_add(&b, &a);     // on the stack: of no file
    build_id_add(&c, stdout); // in the C library
    assert_int_equal(b.len, 0);
    assert_int_equal(a.len % 2, 0);
    assert_int_equal(strspn(str_text(&a), "0123456789abcdef"), a.len);
    // Linkers may be told to leave them out; if both files have one, they differ.
    if (a.len && c.len) assert_string_not_equal(str_text(&a), str_text(&c));
    str_free(&a);
    str_free(&b);
    str_free(&c);
}

// --- 16-bit floats

// The definition, in double arithmetic: sign, exponent e of 5 bits, fraction f of 10 bits.
static double f16_reference(uint16_t h)
{
    int e = (h >> 10) & 31, f = h & 1023;
    double magnitude = e == 31 ? (f ? NAN : INFINITY) : e == 0 ? ldexp(f, -24) : ldexp(1024 + f, e - 25);
    return h & 0x8000 ? -magnitude : magnitude;
}

static void f16_widens_exactly(void **state)
{
    for (uint32_t h = 0; h <= 0xffff; h++) {
        double expected = f16_reference((uint16_t)h);
        float got = f16_to_float((uint16_t)h);
        if (isnan(expected)) {
            assert_true(isnan(got));
        } else {
            assert_true(got == expected && !signbit(got) == !(h & 0x8000));
            assert_int_equal(f16_from_float(got), h);
        }
    }
}

// Between two neighbours: below the middle down, above it up, the middle to the even one.
static void f16_rounds_to_nearest_even(void **state)
{
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float low = f16_to_float((uint16_t)h), high = f16_to_float((uint16_t)(h + 1)), middle = (low + high) / 2;
        assert_int_equal(f16_from_float(nextafterf(middle, low)), h);
        assert_int_equal(f16_from_float(nextafterf(middle, high)), h + 1);
        assert_int_equal(f16_from_float(middle), h & 1 ? h + 1 : h);
        assert_int_equal(f16_from_float(-middle), 0x8000 | (h & 1 ? h + 1 : h));
    }
    assert_int_equal(f16_from_float(65519.996f), 0x7bff);
    assert_int_equal(f16_from_float(65520.0f), 0x7c00);
    assert_int_equal(f16_from_float(3e38f), 0x7c00);
    assert_int_equal(f16_from_float(-INFINITY), 0xfc00);
    assert_int_equal(f16_from_float(0x1p-25f), 0);
    assert_int_equal(f16_from_float(0x1p-149f), 0);
    uint16_t nan = f16_from_float(NAN);
    assert_true((nan & 0x7c00) == 0x7c00 && (nan & 0x3ff));
}

static void bf16_rounds_to_nearest_even(void **state)
{
    for (uint32_t h = 0; h < 0x7f7f; h++) {
        float low = bf16_to_float((uint16_t)h), high = bf16_to_float((uint16_t)(h + 1));
        float middle = float16_value((h << 16) | 0x8000u);
        assert_true(low < middle && middle < high);
        assert_int_equal(bf16_from_float(low), h);
        assert_int_equal(bf16_from_float(nextafterf(middle, low)), h);
        assert_int_equal(bf16_from_float(nextafterf(middle, high)), h + 1);
        assert_int_equal(bf16_from_float(-middle), 0x8000 | (h & 1 ? h + 1 : h));
    }
    assert_int_equal(bf16_from_float(INFINITY), 0x7f80);
    assert_int_equal(bf16_from_float(3.4028235e38f), 0x7f80);
    // A NaN whose payload lies in the dropped bits stays NaN.
    uint16_t nan = bf16_from_float(float16_value(0x7f800001u));
    assert_true((nan & 0x7f80) == 0x7f80 && (nan & 0x7f));
}

static void processors_are_those_that_the_thread_has(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(process_processors(), CPU_COUNT(&before));
    int first = 0;
    while (!CPU_ISSET(first, &before)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(process_processors(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
    setenv("KILN_DEBUG", "guards,,pass,skip=cse,verify-all,skip,fuse-all,skip=dce", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(debug_flags_are_whole_words), // before an error asks for one
        cmocka_unit_test_teardown(first_error_stays, clear_error),
        cmocka_unit_test_teardown(error_names_the_line, clear_error),
        cmocka_unit_test_teardown(error_in_a_callback_names_the_callback, clear_error),
        cmocka_unit_test_teardown(long_error_keeps_its_place, clear_error),
        cmocka_unit_test_teardown(error_moves_between_threads, clear_error),
        cmocka_unit_test(statuses_have_names),
        cmocka_unit_test(place_without_debug_information),
        cmocka_unit_test(warnings_are_told_once),
        cmocka_unit_test(arena_gives_zeroed_aligned_memory),
        cmocka_unit_test(arena_gives_back_what_was_taken_since_a_mark),
        cmocka_unit_test_teardown(arena_says_when_memory_is_out, clear_error),
        cmocka_unit_test(str_grows),
        cmocka_unit_test_teardown(str_failure_is_sticky, clear_error),
        cmocka_unit_test_teardown(vec_grows, clear_error),
        cmocka_unit_test(chains_list_in_order),
        cmocka_unit_test(hash_tells_apart),
        cmocka_unit_test(hash_spreads),
        cmocka_unit_test(builds_have_ids),
        cmocka_unit_test(processors_are_those_that_the_thread_has),
        cmocka_unit_test(f16_widens_exactly),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
