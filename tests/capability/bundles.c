// Rows 54 to 57: bundles as what lists, tuples, dictionaries and None are elsewhere; D10 and D11.
#include "capability.h"

#define BUNDLE_FN(name) static kiln_status name(void *user, kiln_bundle *in, kiln_bundle **out)
static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE};
enum { N_CAPTURES = 3 };

// A call of a function as it is, captured or, with jit off, eagerly; capture -1: eagerly.
static kiln_bundle *call_once(kiln_bundle_fn fn, void *user, int capture, bool in_place, kiln_bundle *in)
{
    kiln_bundle *out = NULL;
    kiln_function *f =
        kiln_bundle_jit(fn, user, KILN_JIT(.capture = captures[capture < 0 ? 0 : capture], .in_place = in_place));
    kiln_jit_enable(capture >= 0);
    for (int i = 0; i < 3; i++) { // recorded, found, found again
        if (in_place && i) break;
        must(kiln_bundle_call(f, in, &out));
    }
    kiln_jit_enable(true);
    kiln_function_free(&f);
    return out;
}

static kiln_tensor *row(double a, double b)
{
    return from(NULL, NUMBERS(a, b), 1, (int64_t[]){2});
}

// --- 54: lists ---

static kiln_bundle *global_list;

BUNDLE_FN(gives_global)
{
    *out = global_list;
    return kiln_error();
}

BUNDLE_FN(edits)
{
    kiln_tensor *x = kiln_bundle_tensor_at(in, 0);
    kiln_bundle_append(in, NULL, KILN_TENSOR(kiln_mul(x, kiln_scalar(2))));
    kiln_bundle_insert(in, 0, NULL, KILN_INT(7));
    kiln_value taken = {.size = sizeof taken};
    kiln_bundle_append(in, "gone", KILN_INT(11));
    if (kiln_bundle_pop(in, "gone", &taken) || taken.integer != 11) return KILN_E_STATE;
    kiln_bundle *more = kiln_bundle_create();
    kiln_bundle_append(more, NULL, KILN_STRING("end"));
    kiln_bundle_extend(in, more);
    kiln_bundle_reverse(in);
    kiln_bundle_remove_at(in, -2);
    kiln_bundle_set_at(in, 0, KILN_STRING("first"));
    *out = in;
    return kiln_error();
}

BUNDLE_FN(gives_input)
{
    *out = in;
    return kiln_error();
}

static void expect_edited(kiln_bundle *b)
{
    assert_int_equal(kiln_bundle_count(b), 3);
    assert_string_equal(kiln_bundle_string_at(b, 0), "first");
    EXPECT(kiln_bundle_tensor_at(b, 1), 0, 2, 4);
    assert_int_equal(kiln_bundle_int_at(b, 2), 7);
}

static void lists(kiln_device *dev)
{
    global_list = kiln_bundle_create();
    for (int i = 1; i <= 4; i++) must(kiln_bundle_append(global_list, NULL, KILN_INT(i)));
    for (int c = -1; c < N_CAPTURES; c++) {
        kiln_bundle *in = kiln_bundle_create();
        must(kiln_bundle_append(in, NULL, KILN_TENSOR(row(1, 2))));
        // The very list from outside: what is written to one is seen in the other.
        kiln_bundle *given = call_once(gives_global, NULL, c, false, in);
        assert_true(kiln_bundle_is(given, global_list));
        must(kiln_bundle_append(given, NULL, KILN_INT(c)));
        assert_int_equal(kiln_bundle_int_at(global_list, -1), c);
        must(kiln_bundle_pop_at(global_list, -1, NULL));
        assert_int_equal(kiln_bundle_count(given), 4);
        // Changes are those of a copy,
        kiln_bundle *edited = call_once(edits, NULL, c, false, in);
        expect_edited(edited);
        assert_false(kiln_bundle_is(edited, in));
        assert_int_equal(kiln_bundle_count(in), 1);
        EXPECT(kiln_bundle_tensor_at(in, 0), 0, 1, 2);
        kiln_bundle *same = call_once(gives_input, NULL, c, false, in);
        assert_false(kiln_bundle_is(same, in));
        EXPECT(kiln_bundle_tensor_at(same, 0), 0, 1, 2);
        // unless the function declares it.
        edited = call_once(edits, NULL, c, true, in);
        assert_true(kiln_bundle_is(edited, in));
        expect_edited(in);
    }
    kiln_bundle_free(&global_list);
}

// Each call of a program changes the bundle of that call.
static void in_place_again(kiln_device *dev)
{
    for (int c = 0; c < N_CAPTURES; c++) {
        kiln_function *f = kiln_bundle_jit(edits, NULL, KILN_JIT(.capture = captures[c], .in_place = true));
        for (int i = 0; i < 3; i++) {
            kiln_bundle *in = kiln_bundle_create();
            must(kiln_bundle_append(in, NULL, KILN_TENSOR(row(i, 2 * i))));
            must(kiln_bundle_call(f, in, NULL));
            EXPECT(kiln_bundle_tensor_at(in, 1), 0, 2 * i, 4 * i);
            assert_int_equal(kiln_bundle_count(in), 3);
        }
        assert_int_equal(jit_stats_of(f).captures, 1);
        kiln_function_free(&f);
    }
}

void capability_54(void **state)
{
    on_each_device(lists);
    on_each_device(in_place_again);
}

// --- 55: dictionaries ---

BUNDLE_FN(dictionary)
{
    kiln_tensor *x = kiln_bundle_tensor(in, "x"), *scale = kiln_bundle_tensor(in, "scale");
    kiln_bundle *stats = kiln_bundle_create();
    kiln_bundle_set(stats, "sum", KILN_TENSOR(kiln_sum(x, NULL)));
    kiln_bundle_set(stats, "max", KILN_TENSOR(kiln_max(x, NULL)));
    *out = kiln_bundle_create();
    kiln_bundle_set(*out, "y", KILN_TENSOR(kiln_mul(x, scale)));
    kiln_bundle_set(*out, "stats", KILN_BUNDLE(stats));
    kiln_bundle_set(*out, "name", KILN_STRING(kiln_bundle_string(in, "name")));
    kiln_bundle_set(*out, "y", KILN_TENSOR(kiln_neg(kiln_bundle_tensor(*out, "y"))));
    return kiln_error();
}

static void dictionaries(kiln_device *dev)
{
    for (int c = -1; c < N_CAPTURES; c++) {
        kiln_bundle *in = kiln_bundle_create();
        must(kiln_bundle_set(in, "x", KILN_TENSOR(row(1, 2))));
        must(kiln_bundle_set(in, "scale", KILN_DOUBLE(10)));
        must(kiln_bundle_set(in, "name", KILN_STRING("net")));
        kiln_bundle *d = call_once(dictionary, NULL, c, false, in), *stats = kiln_bundle_bundle(d, "stats");
        assert_int_equal(kiln_bundle_count(d), 3);
        assert_int_equal(kiln_bundle_index(d, "stats"), 1);
        assert_string_equal(kiln_bundle_name(d, 2), "name");
        EXPECT(kiln_bundle_tensor(d, "y"), 0, -10, -20);
        EXPECT(kiln_bundle_tensor(stats, "sum"), 0, 3);
        EXPECT(kiln_bundle_tensor(stats, "max"), 0, 2);
        assert_string_equal(kiln_bundle_string(d, "name"), "net");
    }
}

// What is no tensor is what a program was made for; mutable numbers are not.
static void guards(kiln_device *dev)
{
    kiln_function *f = kiln_bundle_jit(dictionary, NULL, NULL);
    kiln_bundle *in = kiln_bundle_create(), *out;
    must(kiln_bundle_set(in, "x", KILN_TENSOR(row(1, 2))));
    must(kiln_bundle_set(in, "scale", KILN_DOUBLE(10)));
    must(kiln_bundle_set(in, "name", KILN_STRING("net")));
    for (int i = 1; i <= 3; i++) {
        must(kiln_bundle_set(in, "x", KILN_TENSOR(row(i, i))));
        must(kiln_bundle_call(f, in, &out));
        EXPECT(kiln_bundle_tensor(out, "y"), 0, -10 * i, -10 * i);
    }
    assert_int_equal(jit_stats_of(f).captures, 1);
    must(kiln_bundle_set(in, "scale", KILN_DOUBLE(100)));
    must(kiln_bundle_call(f, in, &out));
    EXPECT(kiln_bundle_tensor(out, "y"), 0, -300, -300);
    assert_int_equal(jit_stats_of(f).captures, 2);
    char *text = explanation_of(f);
    assert_non_null(strstr(text, "guard form: in[\"scale\"] was 10, is 100"));
    free(text);
    must(kiln_bundle_set(in, "name", KILN_STRING("other")));
    must(kiln_bundle_call(f, in, &out));
    assert_string_equal(kiln_bundle_string(out, "name"), "other");
    assert_int_equal(jit_stats_of(f).captures, 3);
    for (int i = 1; i <= 3; i++) {
        must(kiln_bundle_set(
            in, "scale",
            &(kiln_value){.size = sizeof(kiln_value), .kind = KILN_KIND_DOUBLE, .number = i, .is_mutable = true}));
        must(kiln_bundle_call(f, in, &out));
        EXPECT(kiln_bundle_tensor(out, "y"), 0, -3 * i, -3 * i);
    }
    assert_int_equal(jit_stats_of(f).captures, 4);
    kiln_function_free(&f);
}

void capability_55(void **state)
{
    on_each_device(dictionaries);
    on_each_device(guards);
}

// --- 56: none ---

// An entry that is not there, or none, has its default.
BUNDLE_FN(with_default)
{
    bool none = !kiln_bundle_has(in, "bias") || kiln_bundle_kind(in, "bias") == KILN_KIND_NONE;
    kiln_tensor *x = kiln_bundle_tensor(in, "x");
    *out = kiln_bundle_create();
    kiln_bundle_append(*out, NULL, KILN_TENSOR(none ? kiln_neg(x) : kiln_add(x, kiln_bundle_tensor(in, "bias"))));
    kiln_bundle_append(*out, NULL, KILN_NONE);
    return kiln_error();
}

static kiln_tensor *seen;

BUNDLE_FN(gives_nothing)
{
    kiln_assign(seen, kiln_bundle_tensor(in, "x"));
    return kiln_error();
}

BUNDLE_FN(first_two)
{
    const int64_t two = 2;
    *out = kiln_bundle_slice(in, NULL, &two);
    return kiln_error();
}

static kiln_status no_outputs(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_assign(seen, in[0]);
    return kiln_error();
}

// As the input and the result of a part of a graph.
static kiln_function *part;

BUNDLE_FN(nothing_if_none)
{
    if (kiln_bundle_kind(in, "bias") == KILN_KIND_NONE) return kiln_error();
    *out = kiln_bundle_of((kiln_tensor *[]){kiln_add(kiln_bundle_tensor(in, "x"), kiln_bundle_tensor(in, "bias"))}, 1);
    return kiln_error();
}

BUNDLE_FN(passes_none_on)
{
    kiln_bundle *none = kiln_bundle_copy(in), *made, *nothing = in;
    kiln_tensor *x = kiln_bundle_tensor(in, "x");
    kiln_bundle_set(none, "bias", KILN_NONE);
    if (kiln_bundle_call(part, none, &nothing) || kiln_bundle_call(part, in, &made)) return kiln_error();
    *out = kiln_bundle_copy(made);
    return kiln_bundle_append(*out, NULL, nothing ? KILN_INT(1) : KILN_TENSOR(kiln_neg(x)));
}

static void none_in_parts(kiln_device *dev)
{
    for (int c = -1; c < N_CAPTURES; c++) {
        kiln_bundle *in = kiln_bundle_create(), *out;
        must(kiln_bundle_set(in, "x", KILN_TENSOR(row(1, 2))));
        must(kiln_bundle_set(in, "bias", KILN_TENSOR(row(10, 20))));
        part = kiln_bundle_jit(nothing_if_none, NULL, KILN_JIT(.capture = captures[c < 0 ? 0 : c]));
        out = call_once(passes_none_on, NULL, c, false, in);
        EXPECT(kiln_bundle_tensor_at(out, 0), 0, 11, 22);
        EXPECT(kiln_bundle_tensor_at(out, 1), 0, -1, -2);
        kiln_function_free(&part);
    }
}

static void nones(kiln_device *dev)
{
    seen = kiln_zeros(NULL, KILN_F32, KILN_SHAPE(2));
    must(kiln_state(seen));
    for (int c = -1; c < N_CAPTURES; c++) {
        kiln_bundle *in = kiln_bundle_create();
        must(kiln_bundle_set(in, "x", KILN_TENSOR(row(1, 2))));
        kiln_bundle *out = call_once(with_default, NULL, c, false, in);
        EXPECT(kiln_bundle_tensor_at(out, 0), 0, -1, -2);
        assert_int_equal(kiln_bundle_kind_at(out, 1), KILN_KIND_NONE);
        must(kiln_bundle_set(in, "bias", KILN_NONE));
        EXPECT(kiln_bundle_tensor_at(call_once(with_default, NULL, c, false, in), 0), 0, -1, -2);
        must(kiln_bundle_set(in, "bias", KILN_TENSOR(row(10, 10))));
        EXPECT(kiln_bundle_tensor_at(call_once(with_default, NULL, c, false, in), 0), 0, 11, 12);
        must(kiln_assign(seen, kiln_scalar(0)));
        assert_null(call_once(gives_nothing, NULL, c, false, in));
        EXPECT(seen, 0, 1, 2);
        must(kiln_bundle_append(in, NULL, KILN_INT(3)));
        out = call_once(first_two, NULL, c, false, in);
        assert_int_equal(kiln_bundle_count(out), 2);
        assert_string_equal(kiln_bundle_name(out, 1), "bias");
        if (c < 0) continue;
        kiln_function *f = kiln_jit(no_outputs, NULL, KILN_JIT(.capture = captures[c]));
        for (int i = 1; i <= 3; i++) {
            kiln_tensor *x = row(i, -i);
            must(kiln_call(f, &x, 1, NULL, 0));
            EXPECT(seen, 0, i, -i);
        }
        kiln_function_free(&f);
    }
}

// From none to a tensor is another program, not a wrong one.
static void none_is_guarded(kiln_device *dev)
{
    kiln_function *f = kiln_bundle_jit(with_default, NULL, NULL);
    kiln_bundle *in = kiln_bundle_create(), *out;
    must(kiln_bundle_set(in, "x", KILN_TENSOR(row(1, 2))));
    for (int i = 0; i < 4; i++) {
        must(kiln_bundle_set(in, "bias", i % 2 ? KILN_TENSOR(row(1, 1)) : KILN_NONE));
        must(kiln_bundle_call(f, in, &out));
        EXPECT(kiln_bundle_tensor_at(out, 0), 0, i % 2 ? 2 : -1, i % 2 ? 3 : -2);
    }
    assert_int_equal(jit_stats_of(f).captures, 2);
    kiln_function_free(&f);
}

void capability_56(void **state)
{
    on_each_device(nones);
    on_each_device(none_is_guarded);
    on_each_device(none_in_parts);
}

// --- 57: what the builtins of another language ask, C asks by functions ---

BUNDLE_FN(asks)
{
    kiln_tensor *sum = kiln_scalar(0);
    *out = kiln_bundle_create();
    for (size_t i = 0; i < kiln_bundle_count(in); i++) {
        kiln_kind kind = kiln_bundle_kind_at(in, (int64_t)i);
        if (kind == KILN_KIND_TENSOR) sum = kiln_add(sum, kiln_bundle_tensor_at(in, (int64_t)i));
        kiln_bundle_append(*out, kiln_bundle_name(in, (int64_t)i), KILN_INT(kind));
    }
    kiln_bundle_append(*out, "count", KILN_INT((int64_t)kiln_bundle_count(in)));
    kiln_bundle_append(*out, "sum", KILN_TENSOR(sum));
    return kiln_error();
}

static void questions(kiln_device *dev)
{
    int thing;
    for (int c = -1; c < N_CAPTURES; c++) {
        kiln_bundle *in = kiln_bundle_of((kiln_tensor *[]){row(1, 2), row(3, 4)}, 2), *inside = kiln_bundle_create();
        must(kiln_bundle_append(in, "none", KILN_NONE));
        must(kiln_bundle_append(in, "int", KILN_INT(1)));
        must(kiln_bundle_append(in, "double", KILN_DOUBLE(1)));
        must(kiln_bundle_append(in, "bool", KILN_TRUTH(true)));
        must(kiln_bundle_append(in, "string", KILN_STRING("s")));
        must(kiln_bundle_append(in, "bundle", KILN_BUNDLE(inside)));
        must(kiln_bundle_append(in, "pointer", KILN_POINTER(&thing, NULL)));
        kiln_bundle *out = call_once(asks, NULL, c, false, in);
        const int64_t kinds[] = {KILN_KIND_TENSOR, KILN_KIND_TENSOR, KILN_KIND_NONE,
                                 KILN_KIND_INT,    KILN_KIND_DOUBLE, KILN_KIND_BOOL,
                                 KILN_KIND_STRING, KILN_KIND_BUNDLE, KILN_KIND_POINTER};
        for (int i = 0; i < 9; i++) assert_int_equal(kiln_bundle_int_at(out, i), kinds[i]);
        assert_int_equal(kiln_bundle_int(out, "count"), 9);
        EXPECT(kiln_bundle_tensor(out, "sum"), 0, 4, 6);
    }
}

void capability_57(void **state)
{
    on_each_device(questions);
}

// --- D10 and D11 ---

BUNDLE_FN(product)
{
    kiln_bundle *z = kiln_bundle_bundle(in, "z");
    *out = kiln_bundle_of((kiln_tensor *[]){kiln_matmul(kiln_bundle_tensor_at(z, 0), kiln_bundle_tensor_at(z, 1))}, 1);
    return kiln_error();
}

BUNDLE_FN(gradient_of_product)
{
    return kiln_bundle_grad(product, NULL, in, NULL, NULL, out);
}

static kiln_bundle *pair(double scale)
{
    const double xs[] = {.5 * scale, .6 * scale, .4 * scale, 1.2 * scale, 1.3 * scale, 1.1 * scale};
    const double ys[] = {.01, .3, 1.1, .1, .2, 1.3, 2.1, 1.2, 3.3};
    kiln_tensor *both[] = {from(NULL, xs, 2, (int64_t[]){2, 3}), from(NULL, ys, 2, (int64_t[]){3, 3})};
    kiln_bundle *in = kiln_bundle_create();
    must(kiln_bundle_set(in, "z", KILN_BUNDLE(kiln_mutable_bundle(kiln_bundle_of(both, 2)))));
    return in;
}

static void d10(kiln_device *dev)
{
    for (int c = -1; c < N_CAPTURES; c++) {
        kiln_function *f = kiln_bundle_jit(gradient_of_product, NULL, KILN_JIT(.capture = captures[c < 0 ? 0 : c]));
        kiln_jit_enable(c >= 0);
        for (int i = 1; i <= 3; i++) {
            kiln_bundle *out;
            must(kiln_bundle_call(f, pair(i), &out));
            assert_int_equal(kiln_bundle_count(out), 1);
            kiln_bundle *z = kiln_bundle_bundle(out, "z");
            assert_int_equal(kiln_bundle_count(z), 2);
            EXPECT(kiln_bundle_tensor_at(z, 0), 1e-6, 1.41, 1.6, 6.6, 1.41, 1.6, 6.6);
            EXPECT(kiln_bundle_tensor_at(z, 1), 1e-6, 1.7 * i, 1.7 * i, 1.7 * i, 1.9 * i, 1.9 * i, 1.9 * i, 1.5 * i,
                   1.5 * i, 1.5 * i);
        }
        kiln_jit_enable(true);
        if (c >= 0) assert_int_equal(jit_stats_of(f).captures, 1);
        kiln_function_free(&f);
    }
}

BUNDLE_FN(sum_of_three)
{
    kiln_tensor *t = kiln_add(kiln_bundle_tensor(in, "x"), kiln_bundle_tensor(in, "y"));
    *out = kiln_bundle_create();
    return kiln_bundle_append(*out, NULL, KILN_TENSOR(kiln_add(t, kiln_bundle_tensor(in, "z"))));
}

BUNDLE_FN(gradient_of_sum)
{
    return kiln_bundle_grad(sum_of_three, NULL, in, KILN_BUNDLE_GRAD(.wrt = KILN_ARGS(0, 1, 2)), NULL, out);
}

static kiln_bundle *three(const kiln_value *y)
{
    const int64_t one = 1, three = 3;
    kiln_bundle *in = kiln_bundle_create();
    must(kiln_bundle_set(in, "x", KILN_TENSOR(kiln_from_data(NULL, KILN_I64, KILN_SHAPE(1), &one))));
    must(kiln_bundle_set(in, "y", y));
    must(kiln_bundle_set(in, "z", KILN_TENSOR(kiln_from_data(NULL, KILN_I64, KILN_SHAPE(1), &three))));
    return in;
}

static void expect_one(kiln_bundle *out, const char *name)
{
    kiln_tensor *t = kiln_bundle_tensor(out, name);
    assert_int_equal(kiln_tensor_dtype(t), KILN_I64);
    assert_int_equal(kiln_rank(t), 1);
    EXPECT(t, 0, 1);
}

static void d11(kiln_device *dev)
{
    for (int c = -1; c < N_CAPTURES; c++) {
        kiln_bundle *out = call_once(gradient_of_sum, NULL, c, false, three(KILN_INT(2)));
        assert_int_equal(kiln_bundle_count(out), 2);
        expect_one(out, "x");
        expect_one(out, "z");
        out = call_once(gradient_of_sum, NULL, c, false, three(KILN_TENSOR(kiln_scalar_int(2)))); // a number as well
        assert_int_equal(kiln_bundle_count(out), 2);
        // A mutable number is differentiated by, and its gradient is one of its own dtype.
        out = call_once(gradient_of_sum, NULL, c, false, three(KILN_TENSOR(kiln_mutable_int(2))));
        assert_int_equal(kiln_bundle_count(out), 3);
        expect_one(out, "z");
        assert_int_equal(kiln_tensor_dtype(kiln_bundle_tensor(out, "y")), KILN_I64);
        EXPECT(kiln_bundle_tensor(out, "y"), 0, 1);
    }
}

BUNDLE_FN(times)
{
    *out = kiln_bundle_create();
    return kiln_bundle_append(*out, "y",
                              KILN_TENSOR(kiln_mul(kiln_bundle_tensor(in, "x"), kiln_bundle_tensor(in, "y"))));
}

static kiln_status times_tensor(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(in[0], in[1]);
    return kiln_error();
}

// An i64 tensor times an int that is mutable stays i64, by any value in the same program.
static void mutable_ints(kiln_device *dev)
{
    for (int c = 0; c < N_CAPTURES; c++) {
        kiln_function *f = kiln_bundle_jit(times, NULL, KILN_JIT(.capture = captures[c]));
        kiln_function *g = kiln_jit(times_tensor, NULL, KILN_JIT(.capture = captures[c]));
        for (int i = 1; i <= 4; i++) {
            kiln_bundle *out;
            must(kiln_bundle_call(f, kiln_mutable_bundle(three(KILN_INT(i + ((int64_t)1 << 40)))), &out));
            assert_int_equal(kiln_tensor_dtype(kiln_bundle_tensor(out, "y")), KILN_I64);
            assert_int_equal(kiln_item_int(kiln_bundle_tensor(out, "y")), i + ((int64_t)1 << 40));
            const int64_t v = 3;
            kiln_tensor *in[] = {kiln_from_data(NULL, KILN_I64, KILN_SHAPE(1), &v), kiln_mutable_int(i)}, *y;
            must(kiln_call(g, in, 2, &y, 1));
            assert_int_equal(kiln_tensor_dtype(y), KILN_I64);
            assert_int_equal(kiln_item_int(y), 3 * i);
            kiln_tensor *bools[] = {in[0], kiln_mutable_bool(i % 2)};
            must(kiln_call(g, bools, 2, &y, 1));
            assert_int_equal(kiln_tensor_dtype(y), KILN_I64);
            assert_int_equal(kiln_item_int(y), i % 2 ? 3 : 0);
        }
        assert_int_equal(jit_stats_of(f).captures, 1);
        assert_int_equal(jit_stats_of(g).captures, 2);
        kiln_function_free(&f);
        kiln_function_free(&g);
    }
}

void capability_bundle_gradients(void **state)
{
    on_each_device(d10);
    on_each_device(d11);
    on_each_device(mutable_ints);
}
