// Control flow: wrong conditions, counts, regions, and loops that do not end.
#include "bad_input.h"

#define F32_0  kiln_ones(dev, KILN_F32, KILN_SHAPE0)
#define BOOL_0 kiln_ones(dev, KILN_BOOL, KILN_SHAPE0)

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

REGION(same)
{
    out[0] = in[n_in - 1];
    return kiln_error();
}

REGION(nothing)
{
    return KILN_OK;
}

static int fails_line;
REGION(fails)
{
    fails_line = __LINE__ + 1;
    out[0] = kiln_add(in[0], F32(3));
    return kiln_error();
}

REGION(fails_by_code)
{
    return KILN_E_STATE;
}

REGION(freed)
{
    kiln_tensor *own = kiln_own(kiln_neg(in[0]));
    out[0] = own;
    kiln_free(&own);
    return kiln_error();
}

REGION(yes)
{
    out[0] = BOOL_0;
    return kiln_error();
}

REGION(yes_by_a_number)
{
    out[0] = F32_0;
    return kiln_error();
}

REGION(yes_of_one)
{
    out[0] = BOOL(1);
    return kiln_error();
}

REGION(grows)
{
    out[0] = kiln_concat((kiln_tensor *[]){in[n_in - 1], in[n_in - 1]}, 2, 0);
    return kiln_error();
}

REGION(gives_f64)
{
    out[0] = kiln_cast(in[n_in - 1], KILN_F64);
    return kiln_error();
}

static int alternations;
REGION(alternates)
{
    out[0] = in[0];
    out[1] = kiln_ones(dev, KILN_F32, KILN_SHAPE(1 + alternations++ % 2));
    return kiln_error();
}

static void conditions(kiln_tensor *x)
{
    kiln_tensor *out[2], *on = BOOL_0, *in[] = {x};
    const kiln_fn branches[] = {same, NULL};
    BAD(kiln_cond(F32_0, same, same, NULL, in, 1, out, 1), KILN_E_DTYPE, "cond: pred is f32[], not bool");
    BAD(kiln_cond(kiln_scalar(NAN), same, same, NULL, in, 1, out, 1), KILN_E_DTYPE, "cond: pred is f64[], not bool");
    BAD(kiln_cond(BOOL(1), same, same, NULL, in, 1, out, 1), KILN_E_SHAPE, "cond: pred is bool[1]", "rank 0");
    BAD(kiln_cond(NULL, same, same, NULL, in, 1, out, 1), KILN_E_ARGUMENT, "cond: pred is NULL");
    BAD(kiln_cond(on, NULL, same, NULL, in, 1, out, 1), KILN_E_ARGUMENT, "cond: then_fn is NULL");
    BAD(kiln_cond(on, same, NULL, NULL, in, 1, out, 1), KILN_E_ARGUMENT, "cond: else_fn is NULL, n_out is 1");
    BAD(kiln_cond(on, same, same, NULL, in, 1, in, 1), KILN_E_ARGUMENT, "cond: in and out overlap");
    BAD(kiln_cond(on, nothing, same, NULL, in, 1, out, 1), KILN_E_ARGUMENT, "cond: then_fn left output 0 of 1 NULL");
    BAD(kiln_cond(on, fails_by_code, same, NULL, in, 1, out, 1), KILN_E_STATE, "cond: then_fn failed with");
    BAD(kiln_cond(on, freed, same, NULL, in, 1, out, 1), KILN_E_HANDLE, "cond: output 0 of then_fn is a handle");
    BAD(kiln_switch(F32_0, branches, 1, NULL, in, 1, out, 1), KILN_E_DTYPE, "switch: index is f32[], not an integer");
    BAD(kiln_switch(I64(1), branches, 1, NULL, in, 1, out, 1), KILN_E_SHAPE, "switch: index is i64[1]", "rank 0");
    BAD(kiln_switch(kiln_scalar_int(1), branches, 1, NULL, in, 1, out, 1), KILN_E_ARGUMENT,
        "switch: index is 1, there are 1 branches");
    BAD(kiln_switch(kiln_scalar_int(-1), branches, 1, NULL, in, 1, out, 1), KILN_E_ARGUMENT, "switch: index is -1");
    BAD(kiln_switch(kiln_scalar_int(0), branches, 2, NULL, in, 1, out, 1), KILN_E_ARGUMENT,
        "switch: branches[1] is NULL");
    BAD(kiln_switch(kiln_scalar_int(0), branches, 0, NULL, in, 1, out, 1), KILN_E_ARGUMENT,
        "switch: there are no branches");
}

static void loops(kiln_tensor *x)
{
    kiln_tensor *out[3], *in[] = {x}, *three = kiln_scalar_int(3);
    BAD(kiln_while(NULL, same, NULL, in, 1, NULL, out, 1), KILN_E_ARGUMENT, "while: cond is NULL");
    BAD(kiln_while(yes, NULL, NULL, in, 1, NULL, out, 1), KILN_E_ARGUMENT, "while: body is NULL");
    BAD(kiln_while(yes, same, NULL, in, 1, NULL, out, 2), KILN_E_ARGUMENT, "while: n_out is 2, n_in is 1");
    BAD(kiln_while(yes_by_a_number, same, NULL, in, 1, NULL, out, 1), KILN_E_DTYPE, "while: what cond gives is f32[]");
    BAD(kiln_while(yes_of_one, same, NULL, in, 1, NULL, out, 1), KILN_E_SHAPE, "while: what cond gives is bool[1]");
    BAD(kiln_while(nothing, same, NULL, in, 1, NULL, out, 1), KILN_E_ARGUMENT, "while: cond left output 0 of 1 NULL");
    BAD(kiln_while(yes, same, NULL, in, 1, KILN_LOOP(.bound = 7), out, 1), KILN_E_STATE,
        "while: the loop goes on after 7 trips, its .bound");
    BAD(kiln_while(yes, same, NULL, in, 1, KILN_LOOP(.bound = -1), out, 1), KILN_E_ARGUMENT, "while: .bound is -1");
    BAD(kiln_while(yes, grows, NULL, in, 1, NULL, out, 1), KILN_E_SHAPE,
        "while: carried value 0 is f32[2] before trip 0 and f32[4] after it: they differ in dimension 0");
    BAD(kiln_for(three, gives_f64, NULL, in, 1, NULL, out, 1), KILN_E_DTYPE,
        "for: carried value 0 is f32[2] before trip 0 and f64[2] after it: they differ in dtype");
    BAD(kiln_for(F32_0, same, NULL, in, 1, NULL, out, 1), KILN_E_DTYPE, "for: count is f32[], not an integer");
    BAD(kiln_for(I64(1), same, NULL, in, 1, NULL, out, 1), KILN_E_SHAPE, "for: count is i64[1]", "rank 0");
    BAD(kiln_for(kiln_scalar_int(-2), same, NULL, in, 1, NULL, out, 1), KILN_E_ARGUMENT, "for: count is -2");
    BAD(kiln_for(kiln_scalar_int(INT64_MAX), same, NULL, in, 1, KILN_LOOP(.bound = 2), out, 1), KILN_E_STATE,
        "for: the loop goes on after 2 trips");
    BAD(kiln_for(three, NULL, NULL, in, 1, NULL, out, 1), KILN_E_ARGUMENT, "for: body is NULL");
    BAD(kiln_for(NULL, same, NULL, in, 1, NULL, out, 1), KILN_E_ARGUMENT, "for: count is NULL");
}

static void scans(kiln_tensor *x)
{
    kiln_tensor *out[3], *in[] = {x, F32(3, 2), F32(4, 2)}, *scalar[] = {F32_0};
    BAD(kiln_scan(NULL, NULL, in, 1, NULL, out, 1), KILN_E_ARGUMENT, "scan: body is NULL");
    BAD(kiln_scan(same, NULL, in, 1, KILN_SCAN(.carried = 2), out, 2), KILN_E_ARGUMENT,
        "scan: .carried is 2, n_in is 1");
    BAD(kiln_scan(same, NULL, in, 2, KILN_SCAN(.carried = 2), out, 1), KILN_E_ARGUMENT,
        "scan: .carried is 2, n_out is 1");
    BAD(kiln_scan(same, NULL, in, 3, KILN_SCAN(.carried = 1), out, 1), KILN_E_SHAPE,
        "scan: in[2] is f32[4,2], in[1] has 3 in the first dimension");
    BAD(kiln_scan(same, NULL, scalar, 1, NULL, out, 1), KILN_E_SHAPE, "scan: in[0] is f32[]", "no first axis");
    BAD(kiln_scan(same, NULL, in, 1, KILN_SCAN(.carried = 1, .length = -1), out, 1), KILN_E_ARGUMENT,
        "scan: .length is -1");
    BAD(kiln_scan(same, NULL, in, 2, KILN_SCAN(.carried = 1, .length = 2), out, 1), KILN_E_ARGUMENT,
        "scan: .length is 2, the first dimension is 3");
    BAD(kiln_scan(alternates, NULL, in, 1, KILN_SCAN(.carried = 1, .length = 2), out, 2), KILN_E_SHAPE,
        "scan: output 1 of the body is f32[1] in one trip and f32[2] in another");
}

void wrong_control_flow(void **state)
{
    kiln_tensor *x = F32(2), *out[1];
    conditions(x);
    loops(x);
    scans(x);
    // What fails inside says where; what is done afterwards works.
    assert_int_equal(kiln_cond(BOOL_0, fails, same, NULL, &x, 1, out, 1), KILN_E_SHAPE);
    char place[32];
    snprintf(place, sizeof place, "(control.c:%d)", fails_line);
    assert_non_null(strstr(kiln_error_message(), place));
    kiln_error_clear();
    assert_int_equal(kiln_cond(BOOL_0, same, fails, NULL, &x, 1, out, 1), KILN_OK);
    assert_int_equal(kiln_numel(out[0]), 2);
}
