// Bundles: wrong indexes, names, kinds and values, and functions that give what is none.
#include "bad_input.h"

#define BUNDLE_FN(name) static kiln_status name(void *user, kiln_bundle *in, kiln_bundle **out)

static kiln_bundle *some(void)
{
    kiln_bundle *b = kiln_bundle_create();
    assert_int_equal(kiln_bundle_append(b, "x", KILN_TENSOR(F32(2))), KILN_OK);
    assert_int_equal(kiln_bundle_append(b, NULL, KILN_INT(3)), KILN_OK);
    assert_int_equal(kiln_bundle_append(b, "s\n", KILN_STRING("text")), KILN_OK);
    return b;
}

static void wrong_places(kiln_bundle *b)
{
    kiln_value v = {.size = sizeof v};
    kiln_bundle *empty = kiln_bundle_create();
    BAD(kiln_bundle_tensor_at(b, 3), KILN_E_ARGUMENT, "bundle_tensor_at: index 3 is out of range for 3 entries");
    BAD(kiln_bundle_tensor_at(b, -4), KILN_E_ARGUMENT, "bundle_tensor_at: index -4 is out of range for 3 entries");
    BAD(kiln_bundle_name(b, INT64_MIN), KILN_E_ARGUMENT, "bundle_name: index -9223372036854775808 is out of range");
    BAD(kiln_bundle_set_at(b, INT64_MAX, KILN_NONE), KILN_E_ARGUMENT, "bundle_set_at: index 9223372036854775807 is");
    BAD(kiln_bundle_insert(b, 4, NULL, KILN_NONE), KILN_E_ARGUMENT, "bundle_insert: index 4 is out of range for 3");
    BAD(kiln_bundle_remove_at(b, 3), KILN_E_ARGUMENT, "bundle_remove_at: index 3 is out of range");
    BAD(kiln_bundle_pop_at(empty, -1, &v), KILN_E_ARGUMENT, "bundle_pop_at: index -1 is out of range for 0 entries");
    BAD(kiln_bundle_tensor(b, "y"), KILN_E_ARGUMENT, "bundle_tensor: there is no entry \"y\"; \"x\" is one");
    BAD(kiln_bundle_tensor(empty, "y"), KILN_E_ARGUMENT, "there is no entry \"y\"; none of the 0 has a name");
    BAD(kiln_bundle_remove(b, "y"), KILN_E_ARGUMENT, "bundle_remove: there is no entry \"y\"");
    BAD(kiln_bundle_pop(b, "", &v), KILN_E_ARGUMENT, "bundle_pop: there is no entry \"\"");
    BAD_VOID(kiln_bundle_index(b, "y"), KILN_E_ARGUMENT, "bundle_index: there is no entry \"y\"");
    BAD(kiln_bundle_has(b, NULL), KILN_E_ARGUMENT, "bundle_has: name is NULL");
    BAD(kiln_bundle_set(b, NULL, KILN_NONE), KILN_E_ARGUMENT, "bundle_set: name is NULL");
}

static void wrong_kinds(kiln_bundle *b)
{
    BAD(kiln_bundle_tensor(b, "s\n"), KILN_E_ARGUMENT,
        "bundle_tensor: entry \"s\\x0a\" is a string, not a tensor or a number");
    BAD(kiln_bundle_int(b, "x"), KILN_E_ARGUMENT, "bundle_int: entry \"x\" is a tensor, not an int");
    BAD(kiln_bundle_bool_at(b, 1), KILN_E_ARGUMENT, "bundle_bool_at: entry 1 is an int, not a bool");
    BAD_VOID(kiln_bundle_double(b, "x"), KILN_E_ARGUMENT, "bundle_double: entry \"x\" is a tensor, not a number");
    BAD(kiln_bundle_string_at(b, 1), KILN_E_ARGUMENT, "bundle_string_at: entry 1 is an int, not a string");
    BAD(kiln_bundle_bundle(b, "x"), KILN_E_ARGUMENT, "bundle_bundle: entry \"x\" is a tensor, not a bundle");
    BAD(kiln_bundle_pointer(b, "x"), KILN_E_ARGUMENT, "bundle_pointer: entry \"x\" is a tensor, not a pointer");
}

static void wrong_values_in(kiln_bundle *b)
{
    kiln_tensor *freed = F32(2), *stale = freed;
    kiln_bundle *gone = kiln_bundle_create(), *old = gone;
    kiln_free(&freed);
    kiln_bundle_free(&gone);
    BAD(kiln_bundle_append(b, "x", KILN_NONE), KILN_E_ARGUMENT,
        "bundle_append: there is an entry named \"x\" already, at index 0");
    BAD(kiln_bundle_insert(b, 0, "x", KILN_INT(1)), KILN_E_ARGUMENT, "bundle_insert: there is an entry named \"x\"");
    BAD(kiln_bundle_append(b, "", KILN_INT(1)), KILN_E_ARGUMENT, "bundle_append: the name is empty");
    BAD(kiln_bundle_set(b, "", KILN_INT(1)), KILN_E_ARGUMENT, "bundle_set: the name is empty");
    BAD(kiln_bundle_append(b, NULL, KILN_TENSOR(NULL)), KILN_E_ARGUMENT, "bundle_append: the tensor is NULL");
    BAD(kiln_bundle_append(b, NULL, KILN_TENSOR(stale)), KILN_E_HANDLE, "bundle_append: the tensor is a handle that");
    BAD(kiln_bundle_append(b, NULL, KILN_STRING(NULL)), KILN_E_ARGUMENT, "bundle_append: the string is NULL");
    BAD(kiln_bundle_append(b, NULL, KILN_BUNDLE(NULL)), KILN_E_ARGUMENT, "bundle_append: the value is NULL");
    BAD(kiln_bundle_set(b, "x", KILN_BUNDLE(old)), KILN_E_HANDLE, "bundle_set: the bundle was freed");
    BAD(kiln_bundle_append(b, NULL, NULL), KILN_E_ARGUMENT, "bundle_append: value is NULL");
    kiln_value none = {.size = sizeof none, .kind = (kiln_kind)8}, text = *KILN_STRING("x");
    text.is_mutable = true;
    BAD(kiln_bundle_append(b, NULL, &none), KILN_E_ARGUMENT, "bundle_append: 8 is not one of kiln_kind");
    BAD(kiln_bundle_append(b, NULL, &text), KILN_E_ARGUMENT, "bundle_append: a string is mutable, which numbers are");
    BAD(kiln_bundle_of((kiln_tensor *[]){F32(2), NULL}, 2), KILN_E_ARGUMENT, "bundle_of: the tensor is NULL");
    BAD_VOID(kiln_bundle_print(b, NULL), KILN_E_ARGUMENT, "bundle_print: the file is NULL");
}

void wrong_bundles(void **state)
{
    kiln_bundle *b = some();
    wrong_places(b);
    wrong_kinds(b);
    wrong_values_in(b);
    assert_int_equal(kiln_bundle_count(b), 3); // as it was
    assert_int_equal(kiln_numel(kiln_bundle_tensor(b, "x")), 2);
}

BUNDLE_FN(same)
{
    *out = in;
    return kiln_error();
}

BUNDLE_FN(gives_freed)
{
    kiln_bundle *b = kiln_bundle_create();
    *out = b;
    kiln_bundle_free(&b);
    return kiln_error();
}

BUNDLE_FN(frees_input)
{
    *out = kiln_bundle_copy(in);
    kiln_bundle_free(&in);
    return kiln_error();
}

BUNDLE_FN(fails)
{
    *out = in;
    return KILN_E_STATE;
}

BUNDLE_FN(gives_nothing)
{
    return KILN_OK;
}

static kiln_status same_tensor(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = in[0];
    return kiln_error();
}

static void wrong_calls(kiln_bundle *b)
{
    kiln_tensor *x = F32(2), *y;
    kiln_bundle *out;
    for (int c = 0; c < 3; c++) {
        kiln_function *frees = kiln_bundle_jit(gives_freed, NULL, KILN_JIT(.capture = (kiln_capture)c));
        kiln_function *failing = kiln_bundle_jit(fails, NULL, KILN_JIT(.capture = (kiln_capture)c));
        kiln_function *frees_in = kiln_bundle_jit(frees_input, NULL, KILN_JIT(.capture = (kiln_capture)c));
        BAD(kiln_bundle_call(frees, b, &out), KILN_E_HANDLE, "bundle_call: the bundle was freed");
        assert_null(out);
        BAD(kiln_bundle_call(failing, b, &out), KILN_E_STATE, "bundle_call: the function at bundles.c", "failed with");
        assert_int_equal(kiln_bundle_call(frees_in, b, &out), KILN_OK);
        assert_int_equal(kiln_bundle_count(out), 3);
        kiln_function_free(&frees);
        kiln_function_free(&failing);
        kiln_function_free(&frees_in);
    }
    kiln_function *f = kiln_bundle_jit(same, NULL, NULL), *g = kiln_jit(same_tensor, NULL, NULL);
    kiln_function *signed_for = kiln_bundle_jit(same, NULL, KILN_JIT(.input_signature = KILN_TENSORS(F32(3))));
    BAD(kiln_bundle_jit(NULL, NULL, NULL), KILN_E_ARGUMENT, "bundle_jit: fn is NULL");
    BAD(kiln_jit(same_tensor, NULL, KILN_JIT(.in_place = true)), KILN_E_ARGUMENT, "jit: .in_place is for");
    BAD(kiln_call(f, &x, 1, &y, 1), KILN_E_ARGUMENT, "call: the function at bundles.c", "see kiln_bundle_call");
    BAD(kiln_bundle_call(g, b, &out), KILN_E_ARGUMENT, "bundle_call: the function at", "see kiln_call");
    BAD(kiln_bundle_call(f, NULL, &out), KILN_E_ARGUMENT, "bundle_call: in is NULL");
    BAD(kiln_bundle_call(NULL, b, &out), KILN_E_ARGUMENT, "bundle_call: f is NULL");
    BAD(kiln_bundle_call(signed_for, b, &out), KILN_E_SHAPE, "its signature says f32[3]");
    kiln_bundle *mixed = kiln_bundle_of((kiln_tensor *[]){x, THERE(2)}, 2);
    BAD(kiln_bundle_call(f, mixed, &out), KILN_E_DEVICE_MISMATCH, "input 1 of the function at", "another one on");
    kiln_function_free(&f);
    kiln_function_free(&g);
    kiln_function_free(&signed_for);
}

static void wrong_gradients_by(kiln_bundle *b)
{
    kiln_bundle *out, *numbers = kiln_bundle_create(), *two = kiln_bundle_of((kiln_tensor *[]){F32(2), F32(2)}, 2);
    assert_int_equal(kiln_bundle_append(numbers, "n", KILN_INT(1)), KILN_OK);
    BAD(kiln_bundle_grad(NULL, NULL, b, NULL, NULL, &out), KILN_E_ARGUMENT, "bundle_grad: fn is NULL");
    BAD(kiln_bundle_grad(same, NULL, b, NULL, NULL, NULL), KILN_E_ARGUMENT, "bundle_grad: grads is NULL");
    BAD(kiln_bundle_grad(same, NULL, NULL, NULL, NULL, &out), KILN_E_ARGUMENT, "bundle_grad: in is NULL");
    BAD(kiln_bundle_grad(same, NULL, numbers, NULL, NULL, &out), KILN_E_ARGUMENT,
        "bundle_grad: nothing to differentiate by: no entry is a tensor");
    BAD(kiln_bundle_grad(same, NULL, b, KILN_BUNDLE_GRAD(.wrt = KILN_ARGS(3)), NULL, &out), KILN_E_ARGUMENT,
        "bundle_grad: .wrt names entry 3, in has 3");
    BAD(kiln_bundle_grad(same, NULL, b, KILN_BUNDLE_GRAD(.wrt = KILN_ARGS(0, -3)), NULL, &out), KILN_E_ARGUMENT,
        "bundle_grad: entry 0 is asked for twice");
    BAD(kiln_bundle_grad(same, NULL, b, KILN_BUNDLE_GRAD(.wrt = KILN_ARGS(0), .names = KILN_NAMES("x")), NULL, &out),
        KILN_E_ARGUMENT, "bundle_grad: entry 0 is asked for twice");
    BAD(kiln_bundle_grad(same, NULL, b, KILN_BUNDLE_GRAD(.names = KILN_NAMES("y")), NULL, &out), KILN_E_ARGUMENT,
        "bundle_grad: .names entry 0, \"y\", is no entry of in");
    BAD(kiln_bundle_grad(same, NULL, b, KILN_BUNDLE_GRAD(.names = {1, NULL}), NULL, &out), KILN_E_ARGUMENT,
        "bundle_grad: the list .names is NULL");
    BAD(kiln_bundle_grad(same, NULL, b, KILN_BUNDLE_GRAD(.params = {1, NULL}), NULL, &out), KILN_E_ARGUMENT,
        "bundle_grad: the list .params is NULL");
    BAD(kiln_bundle_grad(same, NULL, b, KILN_BUNDLE_GRAD(.params = KILN_PARAMS(F32(2))), NULL, &out), KILN_E_ARGUMENT,
        "bundle_grad: .params entry 0 is no parameter");
    BAD(kiln_bundle_grad(same, NULL, b, KILN_BUNDLE_GRAD(.sens = numbers), NULL, &out), KILN_E_ARGUMENT,
        "bundle_grad: .sens has no tensor");
    BAD(kiln_bundle_grad(same, NULL, b, KILN_BUNDLE_GRAD(.sens = two), NULL, &out), KILN_E_SHAPE,
        "bundle_grad: sens size should be same as output: 2 are given for 1");
    BAD(kiln_bundle_grad(gives_nothing, NULL, b, NULL, NULL, &out), KILN_E_ARGUMENT,
        "bundle_grad: fn gave no tensor to differentiate");
    BAD(kiln_bundle_grad(gives_nothing, NULL, b, KILN_BUNDLE_GRAD(.has_aux = true), NULL, &out), KILN_E_ARGUMENT,
        "bundle_grad: .has_aux, but fn gave no entry");
    BAD(kiln_bundle_grad(gives_freed, NULL, b, NULL, NULL, &out), KILN_E_HANDLE, "bundle_grad: the bundle was freed");
    BAD(kiln_bundle_grad(fails, NULL, b, NULL, NULL, &out), KILN_E_STATE, "bundle_grad: fn failed with KILN_E_STATE");
    assert_null(out);
}

void wrong_functions_of_bundles(void **state)
{
    kiln_bundle *b = some();
    wrong_calls(b);
    wrong_gradients_by(b);
    assert_int_equal(kiln_bundle_count(b), 3);
}
