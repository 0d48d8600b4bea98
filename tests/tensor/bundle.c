// Bundles as containers: entries by index and by name, values, owners, and much of them.
#include <kiln/kiln.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kiln_device *dev;
static kiln_scope *scope;
static uint64_t tensors_before;

static uint64_t tensors_alive(void)
{
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(dev, &s);
    return s.tensors;
}

static int begin(void **state)
{
    dev = kiln_device_open("cpu");
    tensors_before = tensors_alive();
    scope = kiln_scope_begin();
    return scope ? 0 : -1;
}

static int end(void **state)
{
    if (kiln_error()) print_error("%s\n", kiln_error_message());
    bool failed = kiln_error();
    kiln_error_clear();
    kiln_scope_end(&scope);
    uint64_t left = tensors_alive() - tensors_before;
    if (left) print_error("%d storages are left\n", (int)left);
    kiln_device_close(&dev);
    return failed || left ? -1 : 0;
}

static void ok(kiln_status status)
{
    if (status) fail_msg("%s", kiln_error_message());
}

static kiln_tensor *one(double v)
{
    return kiln_full(dev, KILN_F32, KILN_SHAPE(1), v);
}

// "[1, 2]" for what is in it.
static void expect_text(const kiln_bundle *b, const char *want)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    kiln_bundle_print(b, file);
    fclose(file);
    text[strcspn(text, "\n")] = '\0';
    assert_string_equal(text, want);
    free(text);
}

static kiln_bundle *ints(int n)
{
    kiln_bundle *b = kiln_bundle_create();
    for (int i = 0; i < n; i++) ok(kiln_bundle_append(b, NULL, KILN_INT(i)));
    return b;
}

static void entries_by_index(void **state)
{
    kiln_bundle *b = ints(4), *more = ints(2);
    kiln_value v = {.size = sizeof v};
    expect_text(b, "[0, 1, 2, 3]");
    ok(kiln_bundle_insert(b, 0, NULL, KILN_INT(9)));
    ok(kiln_bundle_insert(b, 5, NULL, KILN_INT(8)));
    ok(kiln_bundle_insert(b, -1, NULL, KILN_INT(7)));
    expect_text(b, "[9, 0, 1, 2, 3, 7, 8]");
    ok(kiln_bundle_reverse(b));
    ok(kiln_bundle_set_at(b, -1, KILN_TRUTH(true)));
    ok(kiln_bundle_remove_at(b, 1));
    expect_text(b, "[8, 3, 2, 1, 0, true]");
    ok(kiln_bundle_pop_at(b, -2, &v));
    assert_true(v.kind == KILN_KIND_INT && v.integer == 0);
    ok(kiln_bundle_extend(b, more));
    ok(kiln_bundle_extend(b, b));
    expect_text(b, "[8, 3, 2, 1, true, 0, 1, 8, 3, 2, 1, true, 0, 1]");
    const int64_t from = -3, to = 100, low = -100;
    expect_text(kiln_bundle_slice(b, &from, NULL), "[true, 0, 1]");
    expect_text(kiln_bundle_slice(b, &low, &from), "[8, 3, 2, 1, true, 0, 1, 8, 3, 2, 1]");
    expect_text(kiln_bundle_slice(b, &to, &low), "[]");
    assert_int_equal(kiln_bundle_count(b), 14);
}

static void entries_by_name(void **state)
{
    kiln_bundle *b = kiln_bundle_create(), *more = kiln_bundle_create();
    kiln_value v = {.size = sizeof v};
    ok(kiln_bundle_set(b, "a", KILN_INT(1)));
    ok(kiln_bundle_append(b, "b", KILN_DOUBLE(0.5)));
    ok(kiln_bundle_insert(b, 1, "c", KILN_STRING("x\ny")));
    ok(kiln_bundle_append(b, NULL, KILN_NONE));
    expect_text(b, "{a: 1, c: \"x\\x0ay\", b: 0.5, none}");
    ok(kiln_bundle_set(b, "a", KILN_DOUBLE(2)));
    ok(kiln_bundle_set_at(b, 1, KILN_INT(3)));
    expect_text(b, "{a: 2.0, c: 3, b: 0.5, none}");
    assert_int_equal(kiln_bundle_index(b, "b"), 2);
    ok(kiln_bundle_reverse(b));
    assert_int_equal(kiln_bundle_index(b, "b"), 1);
    assert_string_equal(kiln_bundle_name(b, 3), "a");
    assert_null(kiln_bundle_name(b, 0));
    ok(kiln_bundle_pop(b, "b", &v));
    assert_true(v.kind == KILN_KIND_DOUBLE && v.number == 0.5);
    assert_false(kiln_bundle_has(b, "b"));
    ok(kiln_bundle_remove(b, "c"));
    ok(kiln_bundle_set(more, "a", KILN_INT(7)));
    ok(kiln_bundle_append(more, NULL, KILN_INT(8)));
    ok(kiln_bundle_set(more, "z", KILN_INT(9)));
    ok(kiln_bundle_extend(b, more));
    expect_text(b, "{none, a: 7, 8, z: 9}");
}

// A copy, what is in another bundle, and what was taken out of it are values of their own; a second handle is not.
static void copies_are_values(void **state)
{
    kiln_bundle *b = ints(2), *copy = kiln_bundle_copy(b), *alias = kiln_bundle_alias(b), *outer = kiln_bundle_create();
    ok(kiln_bundle_set(outer, "b", KILN_BUNDLE(b)));
    ok(kiln_bundle_append(b, NULL, KILN_INT(5)));
    expect_text(b, "[0, 1, 5]");
    expect_text(alias, "[0, 1, 5]");
    expect_text(copy, "[0, 1]");
    expect_text(outer, "{b: [0, 1]}");
    assert_true(kiln_bundle_is(b, alias));
    assert_false(kiln_bundle_is(b, copy));
    kiln_bundle *inside = kiln_bundle_bundle(outer, "b");
    ok(kiln_bundle_append(inside, NULL, KILN_INT(6)));
    expect_text(outer, "{b: [0, 1]}");
    ok(kiln_bundle_set(outer, "b", KILN_BUNDLE(inside)));
    expect_text(outer, "{b: [0, 1, 6]}");
    kiln_bundle_free(&b);
    ok(kiln_bundle_append(alias, NULL, KILN_INT(6)));
    expect_text(alias, "[0, 1, 5, 6]");
}

// What would be a circle is the bundle as it was.
static void no_bundle_holds_itself(void **state)
{
    kiln_bundle *a = ints(1), *b = kiln_bundle_create();
    ok(kiln_bundle_append(a, NULL, KILN_BUNDLE(a)));
    expect_text(a, "[0, [0]]");
    ok(kiln_bundle_append(b, NULL, KILN_BUNDLE(a)));
    ok(kiln_bundle_append(a, NULL, KILN_BUNDLE(b)));
    expect_text(a, "[0, [0], [[0, [0]]]]");
}

static void numbers_are_tensors_too(void **state)
{
    kiln_bundle *b = kiln_bundle_create(), *m;
    ok(kiln_bundle_append(b, "i", KILN_INT(INT64_MAX)));
    ok(kiln_bundle_append(b, "d", KILN_DOUBLE(0.25)));
    ok(kiln_bundle_append(b, "t", KILN_TRUTH(true)));
    ok(kiln_bundle_append(b, "s", KILN_TENSOR(kiln_scalar_int(7)))); // an int
    ok(kiln_bundle_append(b, "m", KILN_TENSOR(kiln_mutable_int(8))));
    assert_int_equal(kiln_bundle_kind(b, "s"), KILN_KIND_INT);
    assert_int_equal(kiln_bundle_kind(b, "m"), KILN_KIND_INT);
    m = kiln_mutable_bundle(b);
    for (int i = 0; i < 2; i++, b = m) {
        assert_true(kiln_bundle_int(b, "i") == INT64_MAX);
        assert_true(kiln_bundle_double(b, "d") == 0.25);
        assert_true(kiln_bundle_bool(b, "t"));
        assert_int_equal(kiln_bundle_int(b, "t"), 1);
        assert_true(kiln_bundle_double(b, "s") == 7);
        assert_int_equal(kiln_bundle_int(b, "m"), 8);
        assert_int_equal(kiln_tensor_dtype(kiln_bundle_tensor(b, "i")), KILN_I64);
        assert_int_equal(kiln_tensor_dtype(kiln_bundle_tensor(b, "t")), KILN_BOOL);
        assert_true(kiln_item_int(kiln_bundle_tensor(b, "i")) == INT64_MAX);
        kiln_value v = {.size = sizeof v};
        ok(kiln_bundle_get(b, "d", &v));
        assert_int_equal(v.is_mutable, i);
        assert_true(i ? kiln_item(v.tensor) == 0.25 : v.number == 0.25 && !v.tensor);
    }
}

// The bundle keeps what it holds, whoever frees the rest; what it gives outlives it.
static void tensors_have_owners(void **state)
{
    uint64_t before = tensors_alive();
    kiln_bundle *b = kiln_bundle_own(kiln_bundle_create());
    kiln_scope *inner = kiln_scope_begin();
    kiln_tensor *x = one(3);
    ok(kiln_bundle_append(b, "x", KILN_TENSOR(x)));
    kiln_scope_end(&inner);
    assert_int_equal(tensors_alive(), before + 1);
    kiln_tensor *y = kiln_bundle_tensor(b, "x");
    kiln_value v = {.size = sizeof v};
    ok(kiln_bundle_get_at(b, 0, &v));
    kiln_free(&v.tensor);
    kiln_bundle_free(&b);
    assert_null(b);
    assert_true(kiln_item(y) == 3);
    kiln_free(&y);
    assert_int_equal(tensors_alive(), before);
    // A bundle goes with its scope, unless it is kept.
    inner = kiln_scope_begin();
    kiln_bundle *gone = kiln_bundle_create(), *kept = kiln_bundle_keep(kiln_bundle_create());
    ok(kiln_bundle_append(gone, NULL, KILN_TENSOR(one(1))));
    ok(kiln_bundle_append(kept, NULL, KILN_TENSOR(one(2))));
    kiln_scope_end(&inner);
    assert_int_equal(tensors_alive(), before + 1);
    assert_true(kiln_item(kiln_bundle_tensor_at(kept, 0)) == 2);
    assert_int_equal(kiln_bundle_count(gone), 0);
    assert_int_equal(kiln_error(), KILN_E_HANDLE);
    kiln_error_clear();
}

static int released;
static kiln_bundle *held;
static void release(void *pointer)
{
    released++;
    if (pointer == &held) kiln_bundle_free(&held);
}

// A release function is called once, when the last holder goes, and may free other bundles.
static void pointers_have_owners(void **state)
{
    int thing;
    kiln_bundle *b = kiln_bundle_create(), *copy;
    ok(kiln_bundle_append(b, "p", KILN_POINTER(&thing, release)));
    copy = kiln_bundle_copy(b);
    ok(kiln_bundle_append(copy, NULL, KILN_INT(1)));
    assert_ptr_equal(kiln_bundle_pointer(copy, "p"), &thing);
    ok(kiln_bundle_remove(b, "p"));
    assert_int_equal(released, 0);
    kiln_value v = {.size = sizeof v};
    ok(kiln_bundle_pop(copy, "p", &v));
    assert_ptr_equal(v.pointer, &thing);
    assert_int_equal(released, 0); // borrowed until the next pop
    ok(kiln_bundle_pop_at(copy, 0, &v));
    assert_int_equal(released, 1);
    // What is not taken is not released.
    assert_int_equal(kiln_bundle_append(b, "", KILN_POINTER(&thing, release)), KILN_E_ARGUMENT);
    kiln_error_clear();
    assert_int_equal(released, 1);
    held = kiln_bundle_own(kiln_bundle_create());
    ok(kiln_bundle_append(held, NULL, KILN_POINTER(&thing, release)));
    ok(kiln_bundle_append(b, NULL, KILN_POINTER(&held, release)));
    kiln_bundle_free(&b);
    assert_null(held);
    assert_int_equal(released, 3);
}

static void strings_are_copies(void **state)
{
    char text[] = "one", name[] = "name";
    kiln_bundle *b = kiln_bundle_create();
    kiln_value v = {.size = sizeof v};
    ok(kiln_bundle_append(b, name, KILN_STRING(text)));
    text[0] = name[0] = 'X';
    assert_string_equal(kiln_bundle_string(b, "name"), "one");
    ok(kiln_bundle_pop(b, "name", &v));
    assert_string_equal(v.string, "one");
    assert_int_equal(kiln_bundle_count(b), 0);
}

enum { MANY = 1000000 };

static void a_million_entries(void **state)
{
    kiln_bundle *b = kiln_bundle_create();
    char name[16];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "n%d", i);
        ok(kiln_bundle_append(b, name, KILN_INT(i)));
    }
    kiln_bundle *copy = kiln_bundle_copy(b), *outer = kiln_bundle_create();
    ok(kiln_bundle_append(outer, NULL, KILN_BUNDLE(b)));
    ok(kiln_bundle_reverse(b));
    for (int i = 0; i < MANY; i += 997) {
        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(kiln_bundle_index(b, name), MANY - 1 - i);
        assert_int_equal(kiln_bundle_int(copy, name), i);
    }
    for (int i = 0; i < MANY; i++) ok(kiln_bundle_pop_at(b, -1, NULL));
    assert_int_equal(kiln_bundle_count(b), 0);
    for (int i = 0; i < 1000; i++) { // places of names that went are used again
        ok(kiln_bundle_append(b, "again", KILN_INT(i)));
        ok(kiln_bundle_append(b, i % 2 ? "x" : "y", KILN_INT(i)));
        ok(kiln_bundle_remove(b, "again"));
        ok(kiln_bundle_pop_at(b, 0, NULL));
    }
    assert_int_equal(kiln_bundle_count(kiln_bundle_bundle_at(outer, 0)), MANY);
}

// Doubling a bundle ends, and so does nesting.
static void bounds_are_errors(void **state)
{
    kiln_bundle *b = ints(1), *deep = ints(1);
    int n = 0;
    for (; !kiln_error() && n < 100; n++) kiln_bundle_append(b, NULL, KILN_BUNDLE(b));
    assert_int_equal(kiln_error(), KILN_E_ARGUMENT);
    assert_non_null(strstr(kiln_error_message(), "entries in all, more than 16777216"));
    kiln_error_clear();
    assert_int_equal(kiln_bundle_count(b), n);
    for (n = 0; !kiln_error() && n < 100; n++) {
        kiln_bundle *outer = kiln_bundle_create();
        if (!kiln_bundle_append(outer, NULL, KILN_BUNDLE(deep))) deep = outer;
    }
    assert_non_null(strstr(kiln_error_message(), "more than 64 deep"));
    kiln_error_clear();
    kiln_bundle *big = ints(3), *half = kiln_bundle_create();
    for (int i = 0; i < 22; i++) {
        kiln_bundle *outer = kiln_bundle_create();
        ok(kiln_bundle_append(outer, NULL, KILN_BUNDLE(half)));
        ok(kiln_bundle_append(outer, NULL, KILN_BUNDLE(half)));
        half = outer;
    }
    ok(kiln_bundle_append(half, NULL, KILN_INT(1)));
    // An extension that fails in the middle changes nothing.
    assert_int_equal(kiln_bundle_extend(big, half), KILN_OK);
    assert_int_equal(kiln_bundle_extend(big, half), KILN_E_ARGUMENT);
    kiln_error_clear();
    assert_int_equal(kiln_bundle_count(big), 6);
}

// Names at random, against a plain list.
static void names_at_random(void **state)
{
    kiln_bundle *b = kiln_bundle_create();
    int list[64], n = 0;
    uint32_t r = 1;
    char name[16];
    for (int step = 0; step < 20000; step++) {
        r = r * 1664525u + 1013904223u;
        int v = (int)(r >> 24) % 64, at = 0, where = n ? (int)(r >> 8 & 0xff) % n : 0;
        snprintf(name, sizeof name, "%d", v);
        while (at < n && list[at] != v) at++;
        assert_int_equal(kiln_bundle_has(b, name), at < n);
        if (at < n) {
            assert_int_equal(kiln_bundle_index(b, name), at);
            if (r >> 16 & 1)
                ok(kiln_bundle_remove(b, name));
            else
                ok(kiln_bundle_pop_at(b, (at = n - 1), NULL));
            memmove(list + at, list + at + 1, sizeof *list * (size_t)(--n - at));
        } else {
            ok(kiln_bundle_insert(b, where, name, KILN_INT(v)));
            memmove(list + where + 1, list + where, sizeof *list * (size_t)(n++ - where));
            list[where] = v;
        }
        if (step % 50 == 0) {
            ok(kiln_bundle_reverse(b));
            for (int i = 0; i < n / 2; i++) {
                int other = list[i];
                list[i] = list[n - 1 - i];
                list[n - 1 - i] = other;
            }
        }
        assert_int_equal(kiln_bundle_count(b), n);
    }
}

static void *read_often(void *at)
{
    kiln_scope *mine = kiln_scope_begin();
    bool right = true;
    for (int i = 0; i < 200; i++) {
        kiln_bundle *copy = kiln_bundle_copy(at);
        right &= kiln_bundle_int(at, "n") == 5 && kiln_item(kiln_bundle_tensor(at, "x")) == 3;
        right &= !kiln_bundle_set(copy, "n", KILN_INT(i)) && kiln_bundle_int(copy, "n") == i;
        kiln_bundle_free(&copy);
    }
    kiln_scope_end(&mine);
    return right && !kiln_error() ? at : NULL;
}

static void threads_read_and_copy(void **state)
{
    kiln_bundle *b = kiln_bundle_create();
    ok(kiln_bundle_set(b, "n", KILN_INT(5)));
    ok(kiln_bundle_set(b, "x", KILN_TENSOR(one(3))));
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, read_often, b), 0);
    for (int i = 0; i < 4; i++) {
        void *right;
        pthread_join(threads[i], &right);
        assert_ptr_equal(right, b);
    }
    assert_int_equal(kiln_bundle_int(b, "n"), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
        CASE(entries_by_index),       CASE(entries_by_name),         CASE(copies_are_values),
        CASE(no_bundle_holds_itself), CASE(numbers_are_tensors_too), CASE(tensors_have_owners),
        CASE(pointers_have_owners),   CASE(strings_are_copies),      CASE(a_million_entries),
        CASE(bounds_are_errors),      CASE(names_at_random),         CASE(threads_read_and_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
