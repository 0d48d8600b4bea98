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

CALLBACK(calls_its_caller)
{
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
    {nothing, KILN_E_ARGUMENT, "fn left output 0 NULL"},
    {fails, KILN_E_SHAPE, "add: shapes do not broadcast"},
    {fails_by_code, KILN_E_IO, "fn failed with KILN_E_IO"},
    {freed, KILN_E_HANDLE, "output 0 of fn is a handle that was freed"},
    {of_another_device, KILN_E_DEVICE_MISMATCH, "output 0 of fn lies on "},
    {writes, KILN_E_ARGUMENT, "fn writes in[0], and KILN_HOST_WRITES is not given"},
    {ends_a_scope, KILN_E_STATE, "scope"},
};

// Eagerly, and in a graph at each run; the line of the call is told.
static void wrong_functions(kiln_tensor *x)
{
    kiln_tensor *out[1], *in[] = {x};
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const struct wrong *w = &wrongs[i];
        kiln_scope *scope = kiln_scope_begin(), *mine = scope;
        callback = w->fn;
        kiln_function *f = kiln_jit(captured, &mine, NULL);
        for (int t = 0; t < 3; t++) {
            mine = scope;
            kiln_status status = t ? kiln_call(f, in, 1, out, 1) : captured(&mine, in, 1, out, 1);
            assert_int_equal(status, w->code);
            if (!strstr(kiln_error_message(), w->why) || !strstr(kiln_error_message(), "host.c:"))
                fail_msg("%s", kiln_error_message());
            kiln_error_clear();
        }
        kiln_function_free(&f);
        kiln_scope_end(&scope);
    }
}

void wrong_host_calls(void **state)
{
    kiln_tensor *x = F32(2), *out[1], *in[] = {x};
    wrong_arguments(x);
    wrong_functions(x);
    callback = calls_its_caller;
    caller = kiln_jit(captured, NULL, NULL);
    BAD(kiln_call(caller, in, 1, out, 1), KILN_E_STATE, "is running: a function that it calls on the host");
    kiln_function_free(&caller);
    // What the spec says is checked, and what is done afterwards works.
    const kiln_host_spec f64 = {KILN_F64, 1, two};
    BAD(kiln_host_call(same, NULL, in, 1, &f64, out, 1, 0, NULL), KILN_E_DTYPE,
        "output 0 of fn is f32[2], spec says f64[2]: they differ in dtype");
    assert_int_equal(kiln_host_call(same, NULL, in, 1, &spec, out, 1, 0, NULL), KILN_OK);
    assert_int_equal(kiln_numel(out[0]), 2);
}
