// Calls of the host: wrong functions, wrong results, assertions of what is no bool.
#include "bad_input.h"

#define F32_0 kiln_ones(dev, KILN_F32, KILN_SHAPE0)
#define CALLBACK(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

CALLBACK(same)
{
    out[0] = in[0];
    return kiln_error();
}

CALLBACK(nothing)
{
    return KILN_OK;
}

CALLBACK(fails)
{
    out[0] = kiln_add(in[0], F32(3));
    return kiln_error();
}

CALLBACK(fails_by_code)
{
    return KILN_E_IO;
}

CALLBACK(freed)
{
    kiln_tensor *own = kiln_own(kiln_neg(in[0]));
    out[0] = own;
    kiln_free(&own);
    return kiln_error();
}

CALLBACK(of_another_device)
{
    out[0] = kiln_ones(other, KILN_F32, KILN_SHAPE(2));
    return kiln_error();
}

CALLBACK(ends_a_scope)
{
    kiln_scope_end((kiln_scope **)user);
    out[0] = in[0];
    return kiln_error();
}

CALLBACK(writes)
{
    out[0] = kiln_neg(in[0]);
    return kiln_assign(in[0], kiln_scalar(1));
}

static kiln_function *caller;

static int line_of_inner_call;

CALLBACK(calls_its_caller)
{
    line_of_inner_call = __LINE__ + 1;
    return kiln_call(caller, in, 1, out, 1);
}

static const int64_t two[] = {2};
static const kiln_host_spec spec = {KILN_F32, 1, two};
static kiln_fn callback;

CALLBACK(captured)
{
    return kiln_host_call(callback, user, in, 1, &spec, out, 1, KILN_HOST_IO, NULL);
}

static void wrong_arguments(kiln_tensor *x)
{
    kiln_tensor *out[1], *in[] = {x}, *number = kiln_scalar(1);
    const kiln_host_spec no_dims = {KILN_F32, 1, NULL}, no_dtype = {(kiln_dtype)99, 1, two},
                         negative = {KILN_F32, 1, (const int64_t[]){-1}}, deep = {KILN_F32, 99, two};
    BAD(kiln_host_call(NULL, NULL, in, 1, &spec, out, 1, 0, NULL), KILN_E_ARGUMENT, "host_call: fn is NULL");
    BAD(kiln_host_call(same, NULL, in, 1, &spec, NULL, 1, 0, NULL), KILN_E_ARGUMENT, "host_call: out is NULL");
    BAD(kiln_host_call(same, NULL, in, 1, &spec, out, 1, 64, NULL), KILN_E_ARGUMENT, "host_call: flags are 0x40");
    BAD(kiln_host_call(same, NULL, in, 1, &spec, out, 1, KILN_HOST_PURE | KILN_HOST_IO, NULL), KILN_E_ARGUMENT,
        "host_call: flags are 0x9", "pure");
    BAD(kiln_host_call(same, NULL, &number, 1, &spec, out, 1, KILN_HOST_WRITES, NULL), KILN_E_ARGUMENT,
        "host_call: in[0] is a number");
    BAD(kiln_host_call(same, NULL, in, 1, &no_dims, out, 1, 0, NULL), KILN_E_ARGUMENT, "spec[0] has rank 1");
    BAD(kiln_host_call(same, NULL, in, 1, &deep, out, 1, 0, NULL), KILN_E_ARGUMENT, "spec[0] has rank 99");
    BAD(kiln_host_call(same, NULL, in, 1, &no_dtype, out, 1, 0, NULL), KILN_E_ARGUMENT, "spec[0].dtype is 99");
    BAD(kiln_host_call(same, NULL, in, 1, &negative, out, 1, 0, NULL), KILN_E_SHAPE, "spec[0].dims[0] is -1");
    BAD(kiln_assert(x, "x"), KILN_E_DTYPE, "assert: cond is f32[2], not bool");
    BAD(kiln_assert(NULL, "x"), KILN_E_ARGUMENT, "assert: cond is NULL");
    BAD(kiln_assert(BOOL(2), NULL), KILN_E_ARGUMENT, "assert: format is NULL");
    BAD(kiln_debug_print(NULL), KILN_E_ARGUMENT, "debug_print: format is NULL");
    BAD(kiln_debug_print("{}", (kiln_tensor *)NULL), KILN_E_ARGUMENT, "debug_print: value 0 is NULL");
}

static const struct wrong {
    kiln_fn fn;
    kiln_status code;
    const char *why;
} wrongs[] = {
    {nothing, KILN_E_ARGUMENT, "fn left output 0 of 1 NULL"},
    {fails, KILN_E_SHAPE, "add: shapes do not broadcast"},
    {fails_by_code, KILN_E_IO, "fn failed with KILN_E_IO"},
    {freed, KILN_E_HANDLE, "output 0 of fn is a handle that was freed"},
    {of_another_device, KILN_E_DEVICE_MISMATCH, "output 0 of fn lies on "},
    {writes, KILN_E_ARGUMENT, "fn writes in[0], and KILN_HOST_WRITES is not given"},
    {ends_a_scope, KILN_E_STATE, "scope"},
};

// In the second trip of a loop.
CALLBACK(captured_in_trip)
{
    return kiln_host_call(callback, user, in + 1, 1, &spec, out, 1, KILN_HOST_IO, NULL);
}

CALLBACK(captured_in_loop)
{
    return kiln_for(kiln_scalar_int(2), captured_in_trip, user, in, 1, NULL, out, 1);
}

static kiln_function *in_capture(kiln_fn fn, void *user, int way)
{
    static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE, KILN_CAPTURE_AUTO};
    return way < 0 ? NULL : kiln_jit(fn, user, KILN_JIT(.capture = captures[way]));
}

static void wrong_function(const struct wrong *w, kiln_fn fn, int way, kiln_tensor *x)
{
    kiln_tensor *out[1];
    kiln_scope *scope = kiln_scope_begin(), *mine = scope;
    kiln_function *f = in_capture(fn, &mine, way);
    for (int t = 0; t < 2; t++) {
        mine = scope;
        callback = w->fn;
        out[0] = x;
        assert_int_equal(f ? kiln_call(f, &x, 1, out, 1) : fn(&mine, &x, 1, out, 1), w->code);
        assert_null(out[0]);
        if (!strstr(kiln_error_message(), w->why) || !strstr(kiln_error_message(), "host_call at host.c:"))
            fail_msg("way %d: %s", way, kiln_error_message());
        kiln_error_clear();
    }
    kiln_function_free(&f);
    kiln_scope_end(&scope);
}

// Eagerly, and in a graph at each run, at once and in loops; the line of the call is told.
static void wrong_functions(kiln_tensor *x)
{
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++)
        for (int way = -1; way < 3; way++) {
            wrong_function(&wrongs[i], captured, way, x);
            wrong_function(&wrongs[i], captured_in_loop, way, x);
        }
}

// The place is that of the call that is wrong, on the host.
static void wrong_inner_call(kiln_status status)
{
    char place[40];
    const char *text = kiln_error_message();
    snprintf(place, sizeof place, "(host.c:%d)", line_of_inner_call);
    if (status != KILN_E_STATE || !strstr(text, "is running: a function that it calls on the host") ||
        !strstr(text, "host_call at host.c:") || !strstr(text, place))
        fail_msg("%s expected in %s \"%s\"", place, kiln_status_name(status), text);
    kiln_error_clear();
}

// A call back into the function that is calling would never end; into another it may.
static void calls_back(kiln_tensor *x)
{
    static const kiln_fn functions[] = {captured, captured_in_loop};
    kiln_tensor *out[1];
    for (int way = 0; way < 2; way++)
        for (int i = 0; i < 2; i++) {
            callback = calls_its_caller;
            caller = in_capture(functions[i], NULL, way);
            for (int t = 0; t < 2; t++) wrong_inner_call(kiln_call(caller, &x, 1, out, 1));
            kiln_function *outer = in_capture(functions[i], NULL, way), *inner = kiln_jit(same, NULL, NULL);
            kiln_function_free(&caller);
            caller = inner;
            for (int t = 0; t < 2; t++) assert_int_equal(kiln_call(outer, &x, 1, out, 1), KILN_OK);
            kiln_function_free(&outer);
            kiln_function_free(&inner);
            caller = NULL;
        }
}

static kiln_status same_bundle(void *user, kiln_bundle *in, kiln_bundle **out)
{
    *out = in;
    return kiln_error();
}

static kiln_status gives_freed_bundle(void *user, kiln_bundle *in, kiln_bundle **out)
{
    kiln_bundle *b = *out = kiln_bundle_create();
    kiln_bundle_free(&b);
    return kiln_error();
}

static kiln_status fails_by_bundle(void *user, kiln_bundle *in, kiln_bundle **out)
{
    return KILN_E_IO;
}

static kiln_status gives_there(void *user, kiln_bundle *in, kiln_bundle **out)
{
    *out = kiln_bundle_of((kiln_tensor *[]){THERE(2)}, 1);
    return kiln_error();
}

CALLBACK(captured_undeclared)
{
    kiln_bundle *made;
    return kiln_bundle_host_call(same_bundle, NULL, kiln_bundle_of(in, 1), NULL, &made, 0, NULL);
}

static void wrong_bundles_of_calls(kiln_tensor *x)
{
    kiln_tensor *in[] = {x}, *out[1], *many[200];
    kiln_bundle *b = kiln_bundle_of(in, 1), *made = b, *freed = kiln_bundle_create(), *gone = freed;
    kiln_bundle *numbers = kiln_bundle_of((kiln_tensor *[]){kiln_mutable(1)}, 1);
    kiln_bundle_free(&freed);
    BAD(kiln_bundle_host_call(NULL, NULL, b, b, &made, 0, NULL), KILN_E_ARGUMENT, "host_call: fn is NULL");
    assert_null(made);
    BAD(kiln_bundle_host_call(same_bundle, NULL, NULL, b, &made, 0, NULL), KILN_E_ARGUMENT, "host_call: in is NULL");
    BAD(kiln_bundle_host_call(same_bundle, NULL, gone, b, &made, 0, NULL), KILN_E_HANDLE,
        "host_call: the bundle was freed");
    BAD(kiln_bundle_host_call(same_bundle, NULL, b, gone, &made, 0, NULL), KILN_E_HANDLE,
        "host_call: the bundle was freed");
    BAD(kiln_bundle_host_call(same_bundle, NULL, b, b, &made, 64, NULL), KILN_E_ARGUMENT, "host_call: flags are 0x40");
    BAD(kiln_bundle_host_call(same_bundle, NULL, b, numbers, &made, 0, NULL), KILN_E_ARGUMENT,
        "host_call: spec[0] is a mutable number; give a tensor of rank 0");
    BAD(kiln_bundle_host_call(same_bundle, NULL, numbers, b, &made, KILN_HOST_WRITES, NULL), KILN_E_ARGUMENT,
        "host_call: in[0] is a number, which cannot be written");
    BAD(kiln_bundle_host_call(same_bundle, NULL, numbers, NULL, &made, 0, NULL), KILN_E_ARGUMENT,
        "out[0] is a mutable number; give a tensor of rank 0");
    BAD(kiln_bundle_host_call(gives_freed_bundle, NULL, b, b, &made, 0, NULL), KILN_E_HANDLE,
        "host_call: the bundle was freed");
    BAD(kiln_bundle_host_call(fails_by_bundle, NULL, b, b, &made, 0, NULL), KILN_E_IO, "fn failed with KILN_E_IO");
    BAD(kiln_bundle_host_call(gives_there, NULL, b, b, &made, 0, NULL), KILN_E_DEVICE_MISMATCH,
        "host_call: out[0] of fn lies on ");
    for (int i = 0; i < 200; i++) many[i] = x;
    kiln_bundle *large = kiln_bundle_of(many, 200);
    BAD(kiln_bundle_host_call(same_bundle, NULL, large, large, &made, 0, NULL), KILN_E_ARGUMENT,
        "host_call: n_in is 200, n_out is 200; together 255 are the most");
    BAD(kiln_bundle_host_call(same_bundle, NULL, large, NULL, &made, 0, NULL), KILN_E_ARGUMENT,
        "host_call: in has 200 tensors, out 200; together 255 are the most");
    kiln_function *f = kiln_jit(captured_undeclared, NULL, KILN_JIT(.syntax = KILN_SYNTAX_STRICT));
    assert_int_equal(kiln_call(f, in, 1, out, 1), KILN_E_STATE);
    assert_non_null(strstr(kiln_error_message(), "host_call: spec is NULL; with KILN_SYNTAX_STRICT"));
    kiln_error_clear();
    kiln_function_free(&f);
    assert_int_equal(kiln_bundle_host_call(same_bundle, NULL, b, b, &made, 0, NULL), KILN_OK);
    assert_int_equal(kiln_bundle_count(made), 1);
}

void wrong_host_calls(void **state)
{
    kiln_tensor *x = F32(2), *out[1], *in[] = {x};
    wrong_arguments(x);
    wrong_functions(x);
    wrong_bundles_of_calls(x);
    calls_back(x);
    // What the spec says is checked, and what is done afterwards works.
    const kiln_host_spec f64 = {KILN_F64, 1, two};
    BAD(kiln_host_call(same, NULL, in, 1, &f64, out, 1, 0, NULL), KILN_E_DTYPE,
        "output 0 of fn is f32[2], spec says f64[2]: they differ in dtype");
    assert_int_equal(kiln_host_call(same, NULL, in, 1, &spec, out, 1, 0, NULL), KILN_OK);
    assert_int_equal(kiln_numel(out[0]), 2);
}
